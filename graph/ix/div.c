// Quotients and remainders: where reshapes cancel.
//
// Both begin with a division of polynomials, a = q * n + r, where n may itself be a sum (S + P): then
//
//     a / n = q + r / n      a % n = r % n      and, when 0 <= r < n can be shown, q and r
//
// What remains is tried against the factors that n is made of. If n = f * m, and r = f * u + v with 0 <= v < f, then
//
//     r / n = u / m          r % n = f * (u % m) + v
//
// which is mixed radix: (a0 * 64 + a1 * 8 + a2) / 512 with a2 < 8 becomes (a0 * 8 + a1) / 64. Candidates for f are the
// extents of the axes in r (reshape made r of digits with such weights) and common divisors of coefficients.
//
// Sizes are written with one division and what is positive, so that formulas of different operators give one size:
//
//     (H / 2 + 1) / 2 = (H + 2) / 4          -H / 2 = -((H + 1) / 2)
//
// A divisor that is a dimension is taken not to be zero: a value with an axis of size 0 has no elements.

#include "graph/ix/internal.h"

// Division of polynomials by the term of n that comes last; r keeps what it does not divide. Coefficients are divided with
// truncation, the constant floored.
static Ix poly_divide(Graph *g, Ix a, Ix n, Ix *rest) {
    Ix q = ix(g, 0), r = a;
    if (n->kind == IX_CONST) {
        for (uint32_t i = 0; i < ix_terms(a); i++) {
            int64_t c;
            Ix t = ix_term(a, i, &c);
            if (c / n->value) q = ix_add_scaled(g, q, t, c / n->value);
        }
        q = ix_addi(g, q, int_div_floor(ix_offset(a), n->value));
    } else {
        int64_t cn;
        Ix lead = ix_term(n, ix_terms(n) - 1, &cn);
        bool monomial = ix_terms(n) == 1 && ix_offset(n) == 0;
        for (int tries = 0; tries < 64 && r; tries++) {
            Ix part = NULL;
            for (uint32_t i = ix_terms(r); i-- > 0 && !part;) {
                int64_t c;
                Ix t = ix_term(r, i, &c);
                if (c % cn) continue;
                Ix u = ix_atom_divide(g, t, lead);
                if (!u) continue;
                part = ix_muli(g, u, c / cn);
            }
            if (!part) break;
            Ix next = ix_sub(g, r, ix_mul(g, part, n));
            if (!next || (!monomial && ix_terms(next) >= ix_terms(r))) break;
            q = ix_add(g, q, part);
            r = next;
        }
        *rest = r;
        return q;
    }
    *rest = ix_sub(g, a, ix_mul(g, q, n));
    return q;
}

Ix ix_divide_exact(Graph *g, Ix a, Ix b) {
    if (!a || !b || ix_is(b, 0)) return NULL;
    Ix rest, q = poly_divide(g, a, b, &rest);
    return q && ix_is(rest, 0) ? q : NULL;
}

static bool within(Graph *g, Ix r, Ix n) {                     // 0 <= r < n
    return ix_prove_ge0(g, r) && ix_prove_lt(g, r, n);
}

// ---- factors of the divisor -----------------------------------------------------------------------------------------

enum { MAX_CANDIDATES = 24 };

static int add_candidate(Graph *g, Ix *at, int n, Ix f, Ix divisor) {
    if (!f || ix_is(f, 1) || f == divisor || n == MAX_CANDIDATES) return n;
    for (int i = 0; i < n; i++)
        if (at[i] == f) return n;
    if (f->kind == IX_CONST && f->value <= 0) return n;
    if (!ix_divide_exact(g, divisor, f)) return n;
    at[n] = f;
    return n + 1;
}

static int extents(Graph *g, Ix e, Ix *at, int n, Ix divisor) {
    if (e->kind == IX_AXIS) return add_candidate(g, at, n, e->arg[0], divisor);
    for (uint32_t i = 0; i < e->n && e->has_axis; i++) n = extents(g, e->arg[i], at, n, divisor);
    return n;
}

static int candidates(Graph *g, Ix r, Ix divisor, Ix *at) {
    int n = 0;
    for (uint32_t i = 0; i < ix_terms(r); i++) {
        int64_t c;
        Ix t = ix_term(r, i, &c);
        int64_t m = sat_mul(c, t->multiple);
        if (m == INT64_MAX || m == INT64_MIN) m = c;
        n = add_candidate(g, at, n, ix(g, gcd64(m, divisor->multiple)), divisor);
        n = add_candidate(g, at, n, ix(g, gcd64(c, divisor->multiple)), divisor);
        // the weight of the term: what it is without its axes
        Ix w = ix(g, gcd64(c, divisor->multiple));
        bool symbolic = false;
        for (uint32_t k = 0; t->kind == IX_PROD && k < t->n; k++)
            if (!t->arg[k]->has_axis) w = ix_mul(g, w, t->arg[k]), symbolic = true;
        if (symbolic) n = add_candidate(g, at, n, w, divisor);
        if (t->kind == IX_DIM) n = add_candidate(g, at, n, t, divisor);
        n = extents(g, t, at, n, divisor);
    }
    return n;
}

// r = f * u + v with 0 <= v < f.
static bool split(Graph *g, Ix r, Ix f, Ix *u, Ix *v) {
    *u = poly_divide(g, r, f, v);
    return *u && *v && !ix_is(*u, 0) && within(g, *v, f);
}

// ---- the two --------------------------------------------------------------------------------------------------------

static Ix div_rest(Graph *g, Ix r, Ix n);
static Ix mod_rest(Graph *g, Ix r, Ix n);

static bool constant_quotient(Ix r, Ix n, int64_t *q) {
    if (n->kind != IX_CONST || r->lo == INT64_MIN || r->hi == INT64_MAX) return false;
    *q = int_div_floor(r->lo, n->value);
    return *q == int_div_floor(r->hi, n->value);
}

static Ix atom2(Graph *g, IxKind kind, Ix a, Ix b) {
    return ix_intern(g, &(struct IxData){.kind = (uint8_t)kind, .n = 2, .arg = (Ix[]){a, b}});
}

static bool negative(Ix e) {
    for (uint32_t i = 0; i < ix_terms(e); i++) {
        int64_t c;
        ix_term(e, i, &c);
        if (c > 0) return false;
    }
    return true;
}

// r / n of sizes in the forms above, or NULL: it has them already.
static Ix div_size(Graph *g, Ix r, Ix n) {
    int64_t c, offset = ix_offset(r), product;
    if (r->has_axis || n->kind != IX_CONST || ix_terms(r) == 0) return NULL;
    if (negative(r)) return ix_muli(g, ix_div(g, ix_addi(g, ix_muli(g, r, -1), n->value - 1), n), -1);
    Ix t = ix_term(r, 0, &c);
    if (ix_terms(r) != 1 || c != 1 || t->kind != IX_DIV || t->arg[1]->kind != IX_CONST || t->arg[1]->value <= 0) return NULL;
    if (__builtin_mul_overflow(n->value, t->arg[1]->value, &product) || __builtin_mul_overflow(offset, t->arg[1]->value, &offset)) return NULL;
    return ix_div(g, ix_addi(g, t->arg[0], offset), ix(g, product));
}

// Both nodes may come here: n is positive, no constant 1, and r is what polynomial division left.
static Ix div_rest(Graph *g, Ix r, Ix n) {
    int64_t q;
    if (constant_quotient(r, n, &q)) return ix(g, q);
    if (within(g, r, n)) return ix(g, 0);
    Ix f[MAX_CANDIDATES], u, v;
    int count = candidates(g, r, n, f);
    for (int i = 0; i < count; i++)
        if (split(g, r, f[i], &u, &v)) return ix_div(g, u, ix_divide_exact(g, n, f[i]));
    if (r->kind == IX_DIV && r->arg[1]->lo > 0) return ix_div(g, r->arg[0], ix_mul(g, r->arg[1], n));
    Ix size = div_size(g, r, n);
    if (size) return size;
    if (r->kind == IX_MOD && r->arg[1]->lo > 0 && n->lo > 0) {           // a digit of a remainder is one of the whole
        Ix left = ix_divide_exact(g, r->arg[1], n);
        if (left) return ix_mod(g, ix_div(g, r->arg[0], n), left);
    }
    return atom2(g, IX_DIV, r, n);
}

static Ix mod_rest(Graph *g, Ix r, Ix n) {
    int64_t q;
    if (constant_quotient(r, n, &q)) return ix_addi(g, r, -q * n->value);
    if (within(g, r, n)) return r;
    Ix f[MAX_CANDIDATES], u, v;
    int count = candidates(g, r, n, f);
    for (int i = 0; i < count; i++)
        if (split(g, r, f[i], &u, &v))
            return ix_add(g, ix_mul(g, f[i], ix_mod(g, u, ix_divide_exact(g, n, f[i]))), v);
    for (uint32_t i = 0; i < ix_terms(r); i++) {             // (x % 12 + y) % 4 is (x + y) % 4
        int64_t c;
        Ix t = ix_term(r, i, &c);
        if (t->kind == IX_MOD && ix_divide_exact(g, t->arg[1], n))
            return ix_mod(g, ix_add_scaled(g, ix_add_scaled(g, r, t, -c), t->arg[0], c), n);
    }
    return atom2(g, IX_MOD, r, n);
}

static bool positive(Graph *g, Ix n, Ix a) {
    return n->lo >= 0 || ix_prove_ge0(g, n) || ix_counts_extents(g, n, a);
}

Ix ix_div(Graph *g, Ix a, Ix b) {
    if (!a || !b) return NULL;
    if (ix_is(b, 0)) return b;
    if (ix_is(b, 1) || ix_is(a, 0)) return a;
    if (a->kind == IX_CONST && b->kind == IX_CONST) return ix(g, int_div_floor(a->value, b->value));
    if (a == b) return ix(g, 1);
    if (!positive(g, b, a)) return atom2(g, IX_DIV, a, b);
    Ix rest, q;
    int64_t c;
    if (constant_quotient(a, b, &c)) return ix(g, c);
    if (within(g, a, b)) return ix(g, 0);
    q = poly_divide(g, a, b, &rest);
    if (!q || !rest) return NULL;
    return ix_add(g, q, ix_is(rest, 0) ? rest : div_rest(g, rest, b));
}

Ix ix_mod(Graph *g, Ix a, Ix b) {
    if (!a || !b) return NULL;
    if (ix_is(b, 0) || ix_is(b, 1)) return ix(g, 0);
    if (a->kind == IX_CONST && b->kind == IX_CONST) return ix(g, int_mod_floor(a->value, b->value));
    if (ix_is(a, 0) || a == b) return ix(g, 0);
    if (!positive(g, b, a)) return atom2(g, IX_MOD, a, b);
    Ix rest;
    int64_t c;
    if (constant_quotient(a, b, &c)) return ix_addi(g, a, -c * b->value);
    if (within(g, a, b)) return a;
    if (!poly_divide(g, a, b, &rest) || !rest) return NULL;
    return ix_is(rest, 0) ? rest : mod_rest(g, rest, b);
}

Ix ix_divi(Graph *g, Ix a, int64_t b) { return ix_div(g, a, ix(g, b)); }
Ix ix_modi(Graph *g, Ix a, int64_t b) { return ix_mod(g, a, ix(g, b)); }

Ix ix_ceildiv(Graph *g, Ix a, Ix b) {
    return ix_muli(g, ix_div(g, ix_muli(g, a, -1), b), -1);
}

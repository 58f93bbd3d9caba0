// Order: minimum, maximum, comparisons, truth values, and the proofs that let them vanish.
//
// A proof of e >= 0 first looks at the interval. Then it gets rid of the axes: an axis whose coefficient is known to be
// >= 0 (or <= 0) is put at the end where e is least, a remainder at 0 or its divisor - 1, and so on; what is left is a
// polynomial of dimensions. Writing each dimension as its least value plus something that is not negative, e >= 0 if no
// coefficient is negative:
//
//     a0 * S + a1 < B * S     <-  B*S - 1 - ((B - 1) * S + (S - 1)) = 0
//     B * S - S >= 0          <-  (1 + b)(1 + s) - (1 + s) = b + b*s      (B, S >= 1)

#include "graph/ix/internal.h"

#include <string.h>

enum { MAX_DEPTH = 6 };

// ---- proofs ---------------------------------------------------------------------------------------------------------

// A bound of an atom that contains axes: at least (or most) the result, which has fewer of them. NULL: none known.
static Ix atom_bound(Graph *g, Ix t, bool least) {
    switch ((IxKind)t->kind) {
    case IX_AXIS: return least ? ix(g, 0) : ix_addi(g, t->arg[0], -1);
    case IX_MOD:
        if (t->arg[1]->lo < 0) return NULL;
        return least ? ix(g, 0) : ix_addi(g, t->arg[1], -1);
    case IX_DIV:
        if (t->arg[0]->kind == IX_AXIS && t->arg[1]->lo > 0)
            return least ? ix(g, 0) : ix_div(g, ix_addi(g, t->arg[0]->arg[0], -1), t->arg[1]);
        break;
    case IX_LT: case IX_EQ: case IX_AND: case IX_OR: return ix(g, !least);
    case IX_MIN: case IX_MAX:
        if ((t->kind == IX_MAX) == least) {                  // one of them will do: one without axes if there is
            for (int i = 0; i < 2; i++)
                if (!t->arg[i]->has_axis) return t->arg[i];
            return t->arg[0];
        }
        if (t->kind == IX_MIN && t->lo != INT64_MIN) return ix(g, t->lo);
        if (t->kind == IX_MAX && t->hi != INT64_MAX) return ix(g, t->hi);
        return NULL;
    default: break;
    }
    if (least && t->lo != INT64_MIN) return ix(g, t->lo);
    if (!least && t->hi != INT64_MAX) return ix(g, t->hi);
    return NULL;
}

// What multiplies the atom x in e, provided that e is linear in it.
static Ix atom_coefficient(Graph *g, Ix e, Ix x) {
    Ix c = ix(g, 0);
    for (uint32_t i = 0; i < ix_terms(e); i++) {
        int64_t k;
        Ix t = ix_term(e, i, &k), left = ix_atom_divide(g, t, x);
        if (!left) continue;
        if (ix_atom_divide(g, left, x)) return NULL;
        c = ix_add_scaled(g, c, left, k);
    }
    return c;
}

static Ix factor_with_axis(Ix t) {
    if (t->kind != IX_PROD) return t;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->arg[i]->has_axis) return t->arg[i];
    return t;
}

bool ix_counts_extents(Graph *g, Ix c, Ix e) {
    if (!e->has_axis || c->kind == IX_CONST) return false;
    // of a window's length, T / 8 - 1, nothing else says that it is >= 0
    if (e->kind == IX_AXIS) {
        Ix times = e->arg[0]->kind == IX_SUM ? ix_divide_exact(g, c, e->arg[0]) : NULL;
        return times && times->lo >= 0;
    }
    for (uint32_t i = 0; i < e->n; i++)
        if (ix_counts_extents(g, c, e->arg[i])) return true;
    return false;
}

// A lower bound of e without axes, or NULL.
static Ix without_axes(Graph *g, Ix e) {
    Ix whole = e;
    for (int tries = 0; tries < 32 && e && e->has_axis; tries++) {
        Ix next = NULL;
        for (uint32_t i = 0; i < ix_terms(e) && !next; i++) {
            int64_t k;
            Ix t = ix_term(e, i, &k);
            if (!t->has_axis) continue;
            Ix x = factor_with_axis(t), c = atom_coefficient(g, e, x);
            if (!c) continue;
            Ix minus = ix_muli(g, c, -1);
            if (!minus) continue;
            bool up = ix_prove_ge0(g, c) || ix_counts_extents(g, c, whole),
                 down = !up && (ix_prove_ge0(g, minus) || ix_counts_extents(g, minus, whole));
            if (!up && !down) continue;
            Ix b = atom_bound(g, x, up);
            if (b) next = ix_add(g, e, ix_mul(g, c, ix_sub(g, b, x)));
        }
        if (!next) return NULL;
        e = next;
    }
    return e && !e->has_axis ? e : NULL;
}

// Dimensions as least value + rest, the rest being an axis far away.
static Ix shift_dims(Graph *g, Ix e) {
    for (int i = 0; i < ix_dim_count(g); i++) {
        Ix d = ix_dim_at(g, i);
        e = ix_substitute_dim(g, e, d, ix_addi(g, ix_axis(g, 1000 + i, ix(g, IX_DIM_MAX)), d->lo));
        if (!e) return NULL;
    }
    return e;
}

static bool no_negative_term(Ix e) {
    if (ix_offset(e) < 0) return false;
    for (uint32_t i = 0; i < ix_terms(e); i++) {
        int64_t k;
        Ix t = ix_term(e, i, &k);
        if (k < 0 ? t->hi > 0 : t->lo < 0) return false;
    }
    return true;
}

// What is never more than `scale` times e, without its quotients by numbers: a / n is at least (a - n + 1) / n and at most a / n, as fractions.
// So padding that makes windows of any size fit, (H + 1) / 2 * 2 + 1 - H, is no less than 1. NULL: there are none.
static Ix below_quotients(Graph *g, Ix e, int64_t *scale) {
    enum { LARGEST = 1 << 20 };
    bool any = false;
    *scale = 1;
    for (uint32_t i = 0; i < ix_terms(e); i++) {
        int64_t c, n;
        Ix t = ix_term(e, i, &c);
        if (t->kind != IX_DIV || !ix_const(t->arg[1], &n) || n <= 0 || n > LARGEST) continue;
        int64_t by = n / gcd64(n, c);
        *scale *= by / gcd64(*scale, by);
        if (*scale > LARGEST) return NULL;
        any = true;
    }
    Ix low = any ? ix_muli(g, e, *scale) : NULL;
    for (uint32_t i = 0; low && i < ix_terms(e); i++) {
        int64_t c, n;
        Ix t = ix_term(e, i, &c);
        if (t->kind != IX_DIV || !ix_const(t->arg[1], &n) || n <= 0) continue;
        c = sat_mul(c, *scale);
        if (c == INT64_MAX || c == INT64_MIN) return NULL;
        Ix least = c > 0 ? ix_addi(g, t->arg[0], 1 - n) : t->arg[0];
        low = ix_add_scaled(g, ix_add_scaled(g, low, t, -c), least, c / n);
    }
    return low;
}

// A minimum that is taken away may be either of its two, and so may a maximum that is added: one of them will do. The others must hold with
// both. So h - min(h, 4) is not negative, nor is h - max(0, h - 4). The first such term decides.
static bool by_extremes(Graph *g, Ix e) {
    for (uint32_t i = 0; i < ix_terms(e); i++) {
        int64_t c;
        Ix t = ix_term(e, i, &c);
        if (t->kind != IX_MIN && t->kind != IX_MAX) continue;
        Ix rest = ix_add_scaled(g, e, t, -c);
        if (!rest) return false;
        bool one = (t->kind == IX_MAX) == (c > 0), yes = ix_prove_ge0(g, ix_add_scaled(g, rest, t->arg[0], c));
        return yes == one ? yes : ix_prove_ge0(g, ix_add_scaled(g, rest, t->arg[1], c));
    }
    return false;
}

static bool prove_ge0(Graph *g, Ix e) {
    Ix low = e->has_axis ? without_axes(g, e) : e;
    if (!low) return false;
    if (low->lo >= 0) return true;
    if (!low->has_dim) return false;
    if (low->hi < 0) return false;
    Ix shifted = shift_dims(g, low);
    if (shifted && no_negative_term(shifted)) return true;
    int64_t scale;
    Ix under = below_quotients(g, low, &scale);              // e > -1 is e >= 0
    return (under && ix_prove_ge0(g, ix_addi(g, under, scale - 1))) || by_extremes(g, low);
}

enum { PROVED_BITS = 14, PROVED = 1 << PROVED_BITS };

bool ix_prove_ge0(Graph *g, Ix e) {
    if (!e) return false;
    if (e->lo >= 0) return true;
    if (e->hi < 0 || e->kind == IX_CONST) return false;
    struct GTables *t = g->tables;
    if (t->prove_depth >= MAX_DEPTH) return false;
    if (!t->proved) t->proved = memset(arena_alloc(g->arena, sizeof *t->proved * PROVED), 0, sizeof *t->proved * PROVED);
    uint32_t at = (e->id * 2654435761u) >> (32 - PROVED_BITS);
    if (t->proved[at].e == e && (t->proved[at].yes || t->prove_depth >= t->proved[at].depth)) return t->proved[at].yes;
    const char *error = t->error;                            // a proof that runs into limits is only a proof not found
    t->prove_depth++;
    bool yes = prove_ge0(g, e);
    t->prove_depth--;
    t->error = error;
    t->proved[at].e = e, t->proved[at].depth = t->prove_depth, t->proved[at].yes = yes;
    return yes;
}

bool ix_prove_lt(Graph *g, Ix a, Ix b) { return ix_prove_ge0(g, ix_addi(g, ix_sub(g, b, a), -1)); }
bool ix_prove_le(Graph *g, Ix a, Ix b) { return ix_prove_ge0(g, ix_sub(g, b, a)); }

// ---- minimum, maximum -----------------------------------------------------------------------------------------------

static Ix min_max(Graph *g, IxKind kind, Ix a, Ix b) {
    if (!a || !b) return NULL;
    bool min = kind == IX_MIN;
    if (ix_prove_le(g, a, b)) return min ? a : b;
    if (ix_prove_le(g, b, a)) return min ? b : a;
    Ix arg[2] = {a->id < b->id ? a : b, a->id < b->id ? b : a};
    return ix_intern(g, &(struct IxData){.kind = (uint8_t)kind, .n = 2, .arg = arg});
}

Ix ix_min(Graph *g, Ix a, Ix b) { return min_max(g, IX_MIN, a, b); }
Ix ix_max(Graph *g, Ix a, Ix b) { return min_max(g, IX_MAX, a, b); }

// ---- comparisons ----------------------------------------------------------------------------------------------------

static int64_t terms_gcd(Ix e) {
    int64_t d = 0;
    for (uint32_t i = 0; i < ix_terms(e); i++) {
        int64_t k;
        ix_term(e, i, &k);
        d = gcd64(d, k);
    }
    return d ? d : 1;
}

// d, which is compared with 0, as two sides without negative coefficients.
static Ix compare(Graph *g, IxKind kind, Ix d) {
    Ix left = ix(g, 0), right = ix(g, 0);
    for (uint32_t i = 0; i < ix_terms(d); i++) {
        int64_t k;
        Ix t = ix_term(d, i, &k);
        if (k > 0) left = ix_add_scaled(g, left, t, k);
        else right = ix_add_scaled(g, right, t, -k);
    }
    int64_t c = ix_offset(d);
    if (c > 0) left = ix_addi(g, left, c);
    else right = ix_addi(g, right, -c);
    if (!left || !right) return NULL;
    return ix_intern(g, &(struct IxData){.kind = (uint8_t)kind, .n = 2, .arg = (Ix[]){left, right}});
}

static bool is_truth(Ix e) { return e->lo >= 0 && e->hi <= 1; }

// (d - offset) / k + c
static Ix reduced(Graph *g, Ix d, int64_t k, int64_t c) {
    Ix s = ix(g, c);
    for (uint32_t i = 0; i < ix_terms(d); i++) {
        int64_t coef;
        Ix t = ix_term(d, i, &coef);
        s = ix_add_scaled(g, s, t, coef / k);
    }
    return s;
}

// x / c + k < 0 and k - x / c < 0 without the division: NULL, d is neither.
static Ix undivided(Graph *g, Ix d) {
    int64_t sign, bound, k = ix_offset(d);
    Ix t = ix_terms(d) == 1 ? ix_term(d, 0, &sign) : NULL;
    if (!t || t->kind != IX_DIV || t->arg[1]->kind != IX_CONST || t->arg[1]->value < 1 || (sign != 1 && sign != -1))
        return NULL;
    if (__builtin_mul_overflow(sign > 0 ? -k : k + 1, t->arg[1]->value, &bound)) return NULL;
    return sign > 0 ? ix_lt(g, t->arg[0], ix(g, bound)) : ix_le(g, ix(g, bound), t->arg[0]);
}

Ix ix_lt(Graph *g, Ix a, Ix b) {
    Ix d = ix_sub(g, a, b);
    if (!d) return NULL;
    if (ix_prove_ge0(g, d)) return ix(g, 0);
    if (ix_prove_ge0(g, ix_addi(g, ix_muli(g, d, -1), -1))) return ix(g, 1);
    int64_t k = terms_gcd(d);                                // k*t + c < 0  <=>  t < ceil(-c / k)
    if (ix_offset(d) > INT64_MIN) d = reduced(g, d, k, int_div_floor(-ix_offset(d) - 1, k) * -1 - 1);
    Ix whole = d && ix_offset(d) > INT64_MIN ? undivided(g, d) : NULL;
    if (whole) return whole;
    return d ? compare(g, IX_LT, d) : NULL;
}

Ix ix_le(Graph *g, Ix a, Ix b) { return ix_lt(g, a, ix_addi(g, b, 1)); }

Ix ix_eq(Graph *g, Ix a, Ix b) {
    Ix d = ix_sub(g, a, b);
    if (!d) return NULL;
    if (d->kind == IX_CONST) return ix(g, d->value == 0);
    if (d->lo > 0 || d->hi < 0 || ix_prove_ge0(g, ix_addi(g, d, -1)) || ix_prove_ge0(g, ix_addi(g, ix_muli(g, d, -1), -1)))
        return ix(g, 0);
    int64_t k = terms_gcd(d), sign;
    ix_term(d, 0, &sign);
    if (ix_offset(d) % k) return ix(g, 0);
    d = reduced(g, d, sign < 0 ? -k : k, ix_offset(d) / (sign < 0 ? -k : k));
    if (!d) return NULL;
    if (is_truth(d) && d->kind == IX_EQ && ix_is(d->arg[1], 0) && is_truth(d->arg[0])) return d->arg[0];   // not not
    if (d->kind == IX_LT) return ix_le(g, d->arg[1], d->arg[0]);                                            // not (x < y)
    if (ix_offset(d) == -1 && ix_terms(d) == 1) {                                                           // x == 1
        Ix x = ix_addi(g, d, 1);
        if (is_truth(x)) return x;
    }
    return compare(g, IX_EQ, d);
}

Ix ix_ne(Graph *g, Ix a, Ix b) { return ix_not(g, ix_eq(g, a, b)); }
Ix ix_not(Graph *g, Ix a) { return ix_eq(g, a, ix(g, 0)); }

// ---- truth ----------------------------------------------------------------------------------------------------------

enum { MAX_PARTS = 64 };

static int parts(Ix e, IxKind kind, Ix *at, int n) {
    if (e->kind != kind) {
        int i = 0;
        while (i < n && at[i]->id < e->id) i++;
        if (i < n && at[i] == e) return n;
        if (n == MAX_PARTS) return MAX_PARTS + 1;
        for (int k = n; k > i; k--) at[k] = at[k - 1];
        at[i] = e;
        return n + 1;
    }
    for (uint32_t i = 0; i < e->n && n <= MAX_PARTS; i++) n = parts(e->arg[i], kind, at, n);
    return n;
}

static Ix and_or(Graph *g, IxKind kind, Ix a, Ix b) {
    if (!a || !b) return NULL;
    int64_t neutral = kind == IX_AND;
    if (a->kind == IX_CONST) return (a->value != 0) == neutral ? b : ix(g, a->value != 0);
    if (b->kind == IX_CONST) return (b->value != 0) == neutral ? a : ix(g, b->value != 0);
    if (a == b) return a;
    Ix at[MAX_PARTS + 1];
    int n = parts(a, kind, at, 0);
    if (n <= MAX_PARTS) n = parts(b, kind, at, n);
    if (n > MAX_PARTS) return g_error(g, "an index expression is too complicated");
    if (n == 1) return at[0];
    return ix_intern(g, &(struct IxData){.kind = (uint8_t)kind, .n = (uint32_t)n, .arg = at});
}

bool ix_among(Ix a, Ix b) {
    Ix of_a[MAX_PARTS + 1], of_b[MAX_PARTS + 1];
    int n = parts(a, IX_AND, of_a, 0), m = parts(b, IX_AND, of_b, 0), found = 0;
    for (int i = 0; i < n && n <= MAX_PARTS; i++)
        for (int k = 0; k < m && m <= MAX_PARTS; k++) found += of_a[i] == of_b[k];
    return found == n;
}

Ix ix_and(Graph *g, Ix a, Ix b) { return and_or(g, IX_AND, a, b); }
Ix ix_or(Graph *g, Ix a, Ix b) { return and_or(g, IX_OR, a, b); }

Ix ix_select(Graph *g, Ix cond, Ix a, Ix b) {
    if (!cond || !a || !b) return NULL;
    if (cond->kind == IX_CONST) return cond->value ? a : b;
    if (a == b) return a;
    return ix_add(g, b, ix_mul(g, cond, ix_sub(g, a, b)));
}

Ix ix_in_range(Graph *g, Ix a, Ix extent) {
    return ix_and(g, ix_le(g, ix(g, 0), a), ix_lt(g, a, extent));
}

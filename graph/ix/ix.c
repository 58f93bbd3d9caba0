// Index expressions: hash-consing and the constructors, each of which brings its result into normal form (ix.h says what
// that is). Sums are polynomials: `poly` below is one under construction, with terms ordered by the id of their atom, so
// that equal polynomials get equal terms. What cannot be written as a polynomial (ix/div.c: quotients and remainders;
// ix/cmp.c: order, truth values, proofs) is an atom of its own.
//
// An expression that would not fit 64 bits is an error of the graph ("sizes are too large"), and NULL.

#include "graph/ix/internal.h"

#include <string.h>

// ---- hash-consing ---------------------------------------------------------------------------------------------------

uint32_t hash_bytes(uint32_t h, const void *p, size_t n) {
    const unsigned char *s = p;
    for (size_t i = 0; i < n; i++) h = (h ^ s[i]) * 16777619u;
    return h;
}

static bool same(Ix a, const struct IxData *b) {
    if (a->hash != b->hash || a->kind != b->kind || a->n != b->n || a->value != b->value) return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->arg[i] != b->arg[i] || (a->coef && a->coef[i] != b->coef[i])) return false;
    return true;
}

static void table_grow(Graph *g) {
    struct GTables *t = g->tables;
    uint32_t size = t->ix_size ? t->ix_size * 2 : 1024;
    Ix *slot = NEW_N(g->arena, Ix, size);
    for (uint32_t i = 0; i < t->ix_size; i++) {
        Ix e = t->ix_slot[i];
        if (!e) continue;
        uint32_t at = e->hash & (size - 1);
        while (slot[at]) at = (at + 1) & (size - 1);
        slot[at] = e;
    }
    t->ix_slot = slot;
    t->ix_size = size;
}

static void ix_set_facts(Graph *g, struct IxData *e);

Ix ix_intern(Graph *g, struct IxData *proto) {
    uint32_t h = hash_mix(proto->kind, (uint64_t)proto->value);
    for (uint32_t i = 0; i < proto->n; i++) {
        h = hash_mix(h, proto->arg[i]->id);
        if (proto->coef) h = hash_mix(h, (uint64_t)proto->coef[i]);
    }
    proto->hash = h;
    struct GTables *t = g->tables;
    if (t->ix_count * 2 >= t->ix_size) table_grow(g);
    uint32_t at = h & (t->ix_size - 1);
    for (; t->ix_slot[at]; at = (at + 1) & (t->ix_size - 1))
        if (same(t->ix_slot[at], proto)) return t->ix_slot[at];
    struct IxData *e = NEW(g->arena, struct IxData);
    *e = *proto;
    e->id = t->ix_count++;
    if (e->n) {
        Ix *arg = NEW_N(g->arena, Ix, e->n);
        memcpy(arg, proto->arg, e->n * sizeof *arg);
        e->arg = arg;
        if (proto->coef) {
            int64_t *coef = NEW_N(g->arena, int64_t, e->n);
            memcpy(coef, proto->coef, e->n * sizeof *coef);
            e->coef = coef;
        }
    }
    ix_set_facts(g, e);
    t->ix_slot[at] = e;
    return e;
}

// ---- intervals and divisors -----------------------------------------------------------------------------------------
// INT64_MIN and INT64_MAX stand for "no bound".

static int64_t sat_add(int64_t a, int64_t b) {
    int64_t r;
    if (a == INT64_MIN || b == INT64_MIN) return INT64_MIN;
    if (a == INT64_MAX || b == INT64_MAX) return INT64_MAX;
    if (!__builtin_add_overflow(a, b, &r)) return r;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

int64_t sat_mul(int64_t a, int64_t b) {
    int64_t r;
    if (a == 0 || b == 0) return 0;
    bool unbounded = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
    if (!unbounded && !__builtin_mul_overflow(a, b, &r)) return r;
    return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

static void interval_mul(int64_t *lo, int64_t *hi, int64_t l, int64_t h) {
    int64_t p[4] = {sat_mul(*lo, l), sat_mul(*lo, h), sat_mul(*hi, l), sat_mul(*hi, h)};
    *lo = *hi = p[0];
    for (int i = 1; i < 4; i++) {
        if (p[i] < *lo) *lo = p[i];
        if (p[i] > *hi) *hi = p[i];
    }
}

int64_t gcd64(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

static void facts_div(struct IxData *e) {
    Ix a = e->arg[0], b = e->arg[1];
    e->lo = INT64_MIN;
    e->hi = INT64_MAX;
    if (b->lo < 0) return;                                   // a divisor of 0 gives 0
    int64_t small = b->lo > 0 ? b->lo : 1, large = b->hi;
    if (a->lo != INT64_MIN)
        e->lo = a->lo >= 0 ? (large == INT64_MAX ? 0 : int_div_floor(a->lo, large)) : int_div_floor(a->lo, small);
    if (a->hi != INT64_MAX) e->hi = a->hi >= 0 ? int_div_floor(a->hi, small) : large == INT64_MAX ? -1 : int_div_floor(a->hi, large);
    if (b->lo == 0) {
        if (e->lo > 0) e->lo = 0;
        if (e->hi < 0) e->hi = 0;
    }
    if (b->kind == IX_CONST && a->multiple % b->value == 0) e->multiple = a->multiple / b->value;
}

static void facts_mod(struct IxData *e) {
    Ix a = e->arg[0], b = e->arg[1];
    e->multiple = gcd64(a->multiple, b->multiple);
    e->lo = INT64_MIN;
    e->hi = INT64_MAX;
    if (b->lo < 0) return;
    e->lo = 0;
    e->hi = b->hi == INT64_MAX ? INT64_MAX : b->hi > 0 ? b->hi - 1 : 0;
    if (a->lo >= 0 && a->hi < e->hi) e->hi = a->hi;
}

static int64_t multiple_of(int64_t v) { return v == INT64_MIN ? 1 : v < 0 ? -v : v; }

static void facts_sum(struct IxData *e) {
    e->lo = e->hi = e->value;
    e->multiple = multiple_of(e->value);
    for (uint32_t i = 0; i < e->n; i++) {
        int64_t c = e->coef[i], l = sat_mul(c, e->arg[i]->lo), h = sat_mul(c, e->arg[i]->hi);
        e->lo = sat_add(e->lo, c < 0 ? h : l);
        e->hi = sat_add(e->hi, c < 0 ? l : h);
        int64_t m = sat_mul(c, e->arg[i]->multiple);
        e->multiple = m == INT64_MIN || m == INT64_MAX ? 1 : gcd64(e->multiple, m);
    }
}

static void facts_product(struct IxData *e) {
    e->lo = e->hi = 1;
    for (uint32_t i = 0; i < e->n; i++) {
        interval_mul(&e->lo, &e->hi, e->arg[i]->lo, e->arg[i]->hi);
        int64_t m = sat_mul(e->multiple, e->arg[i]->multiple);
        if (m != INT64_MAX && m != INT64_MIN) e->multiple = m;
    }
}

static void ix_set_facts(Graph *g, struct IxData *e) {
    e->lo = INT64_MIN;
    e->hi = INT64_MAX;
    e->multiple = 1;
    for (uint32_t i = 0; i < e->n && e->kind != IX_AXIS; i++) {
        e->axes |= e->arg[i]->axes;
        e->has_axis |= e->arg[i]->has_axis;
        e->has_dim |= e->arg[i]->has_dim;
    }
    switch ((IxKind)e->kind) {
    case IX_CONST:
        e->lo = e->hi = e->value;
        e->multiple = multiple_of(e->value);
        break;
    case IX_DIM: {
        const IxDim *d = &g->tables->dims.at[e->value];
        e->lo = d->lo;
        e->hi = d->hi;
        e->multiple = d->multiple;
        e->has_dim = true;
        break;
    }
    case IX_AXIS:
        e->axes = e->value < 64 ? UINT64_C(1) << e->value : 0;
        e->has_axis = true;
        e->lo = 0;
        e->hi = e->arg[0]->hi == INT64_MAX ? INT64_MAX : e->arg[0]->hi > 0 ? e->arg[0]->hi - 1 : 0;
        break;
    case IX_SUM: facts_sum(e); break;
    case IX_PROD: facts_product(e); break;
    case IX_DIV: facts_div(e); break;
    case IX_MOD: facts_mod(e); break;
    case IX_MIN: case IX_MAX: {
        Ix a = e->arg[0], b = e->arg[1];
        bool min = e->kind == IX_MIN;
        e->lo = min == (a->lo < b->lo) ? a->lo : b->lo;
        e->hi = min == (a->hi < b->hi) ? a->hi : b->hi;
        e->multiple = gcd64(a->multiple, b->multiple);
        break;
    }
    case IX_LT: case IX_EQ: case IX_AND: case IX_OR:
        e->lo = 0;
        e->hi = 1;
        break;
    }
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

Ix ix(Graph *g, int64_t value) {
    return ix_intern(g, &(struct IxData){.kind = IX_CONST, .value = value});
}

static Ix dim_find(Graph *g, const char *name) {
    for (uint32_t i = 0; i < g->tables->dims.n; i++)
        if (strcmp(g->tables->dims.at[i].name, name) == 0) return g->tables->dim_ix.at[i];
    return NULL;
}

static Ix dim_new(Graph *g, const char *name, int64_t lo, int64_t hi, int64_t multiple, bool data_dependent) {
    struct GTables *t = g->tables;
    IxDim d = {arena_printf(g->arena, "%s", name), lo, hi, multiple > 0 ? multiple : 1, data_dependent, NULL, NULL};
    vec_push(g->arena, &t->dims, d);
    Ix e = ix_intern(g, &(struct IxData){.kind = IX_DIM, .value = t->dims.n - 1});
    vec_push(g->arena, &t->dim_ix, e);
    return e;
}

Ix ix_dim_range(Graph *g, const char *name, int64_t lo, int64_t hi, int64_t multiple) {
    Ix e = dim_find(g, name);
    return e ? e : dim_new(g, name, lo, hi, multiple, false);
}

Ix ix_dim(Graph *g, const char *name) {
    return ix_dim_range(g, name, 0, IX_DIM_MAX, 1);
}

Ix ix_dim_fresh(Graph *g, const char *like, int64_t lo, int64_t hi) {
    ArenaMark m = arena_mark(g->arena);
    const char *name = like;
    for (int k = 2; dim_find(g, name); k++) {
        arena_reset(g->arena, m);
        name = arena_printf(g->arena, "%s_%d", like, k);
    }
    return dim_new(g, name, lo, hi, 1, true);
}

Ix ix_axis(Graph *g, int number, Ix extent) {
    if (!extent) return NULL;
    if (ix_is(extent, 1)) return ix(g, 0);
    return ix_intern(g, &(struct IxData){.kind = IX_AXIS, .value = number, .n = 1, .arg = &extent});
}

const IxDim *ix_dim_info(const Graph *g, Ix dim) { return &g->tables->dims.at[dim->value]; }
int ix_dim_count(const Graph *g) { return (int)g->tables->dims.n; }
Ix ix_dim_at(const Graph *g, int number) { return g->tables->dim_ix.at[number]; }

// ---- polynomials ----------------------------------------------------------------------------------------------------

// Always NULL: the error is recorded.
static Ix ix_too_large(Graph *g) {
    return g_error(g, "sizes are too large: an index expression does not fit 64 bits");
}

uint32_t ix_terms(Ix e) { return e->kind == IX_CONST ? 0 : e->kind == IX_SUM ? e->n : 1; }
Ix       ix_term(Ix e, uint32_t i, int64_t *coef) {
    *coef = e->kind == IX_SUM ? e->coef[i] : 1;
    return e->kind == IX_SUM ? e->arg[i] : e;
}
int64_t ix_offset(Ix e) { return e->kind == IX_CONST || e->kind == IX_SUM ? e->value : 0; }

// c0 + sum of coef[i] * atom[i]: terms ordered by id, without zeros.
static Ix ix_from_terms(Graph *g, int64_t c0, uint32_t n, const Ix *atom, const int64_t *coef) {
    if (n == 0) return ix(g, c0);
    if (n == 1 && c0 == 0 && coef[0] == 1) return atom[0];
    return ix_intern(g, &(struct IxData){.kind = IX_SUM, .value = c0, .n = n, .arg = (Ix *)atom, .coef = coef});
}

static uint32_t factors(Ix atom) { return atom->kind == IX_PROD ? atom->n : 1; }
static Ix factor(Ix atom, uint32_t i) { return atom->kind == IX_PROD ? atom->arg[i] : atom; }

// a + k * b, terms that are alike put together, and nothing else
static Ix plain_sum(Graph *g, Ix a, Ix b, int64_t k) {
    if (!a || !b) return NULL;
    int64_t c0;
    if (__builtin_mul_overflow(ix_offset(b), k, &c0) || __builtin_add_overflow(c0, ix_offset(a), &c0))
        return ix_too_large(g);
    uint32_t na = ix_terms(a), nb = ix_terms(b), n = 0;
    Ix atom_buf[16];
    int64_t coef_buf[16];
    bool small = na + nb <= 16;
    Ix *atom = small ? atom_buf : NEW_N(g->arena, Ix, na + nb);
    int64_t *coef = small ? coef_buf : NEW_N(g->arena, int64_t, na + nb);
    for (uint32_t i = 0, j = 0; i < na || j < nb;) {
        int64_t ca = 0, cb = 0;
        Ix ta = i < na ? ix_term(a, i, &ca) : NULL, tb = j < nb ? ix_term(b, j, &cb) : NULL;
        if (tb && __builtin_mul_overflow(cb, k, &cb)) return ix_too_large(g);
        if (!tb || (ta && ta->id < tb->id)) {
            atom[n] = ta;
            coef[n++] = ca;
            i++;
        } else if (!ta || tb->id < ta->id) {
            atom[n] = tb;
            coef[n] = cb;
            n += cb != 0;
            j++;
        } else {
            if (__builtin_add_overflow(ca, cb, &ca)) return ix_too_large(g);
            atom[n] = ta;
            coef[n] = ca;
            n += ca != 0;
            i++;
            j++;
        }
    }
    return ix_from_terms(g, c0, n, atom, coef);
}

enum { MAX_FACTORS = 32, MAX_TERMS = 4096 };

static Ix atom_mul(Graph *g, Ix a, Ix b) {
    uint32_t na = factors(a), nb = factors(b), n = 0;
    Ix f[2 * MAX_FACTORS];
    if (na + nb > MAX_FACTORS) return g_error(g, "an index expression is too complicated");
    for (uint32_t i = 0, j = 0; i < na || j < nb;)
        f[n++] = j >= nb || (i < na && factor(a, i)->id <= factor(b, j)->id) ? factor(a, i++) : factor(b, j++);
    return ix_intern(g, &(struct IxData){.kind = IX_PROD, .n = n, .arg = f});
}

// a * b, its terms added up by `add`
static Ix product(Graph *g, Ix a, Ix b, Ix (*add)(Graph *, Ix, Ix, int64_t)) {
    if (!a || !b) return NULL;
    if (a->kind == IX_CONST) return add(g, ix(g, 0), b, a->value);
    if (b->kind == IX_CONST) return add(g, ix(g, 0), a, b->value);
    if ((uint64_t)ix_terms(a) * ix_terms(b) > MAX_TERMS) return g_error(g, "an index expression is too complicated");
    Ix sum = add(g, add(g, ix(g, 0), a, ix_offset(b)), plain_sum(g, b, ix(g, ix_offset(b)), -1), ix_offset(a));
    for (uint32_t i = 0; i < ix_terms(a); i++)
        for (uint32_t j = 0; j < ix_terms(b); j++) {
            int64_t ca, cb, c;
            Ix ta = ix_term(a, i, &ca), tb = ix_term(b, j, &cb);
            if (__builtin_mul_overflow(ca, cb, &c)) return ix_too_large(g);
            Ix p = atom_mul(g, ta, tb);
            if (!p) return NULL;
            sum = add(g, sum, p, c);
        }
    return sum;
}

// Digits put together again, with any weight w:
//
//     w * (x % n) + w * n * (x / n)           ->  w * x
//     w * (x % n) + w * n * (x / n % k)       ->  w * (x % (n * k))
//     w * (x % n) + w * n * (y / n)           ->  w * y              where x is what y % n was simplified to
//
// `part`, times w * n, is looked for in e; it is there if taking it away leaves that many terms fewer. What is tried is
// not put together itself: an index of many digits (bits in another order) would be tried in all orders.
static Ix without_part(Graph *g, Ix e, Ix weight, Ix part) {
    Ix p = product(g, weight, part, plain_sum);
    if (!p || ix_offset(p)) return NULL;
    Ix left = plain_sum(g, e, p, -1);
    return left && ix_terms(left) + ix_terms(p) == ix_terms(e) ? left : NULL;
}

static Ix recombine_term(Graph *g, Ix e, Ix mod, Ix weight) {
    Ix x = mod->arg[0], n = mod->arg[1], q = ix_div(g, x, n), left = plain_sum(g, e, product(g, weight, mod, plain_sum), -1);
    Ix wn = product(g, weight, n, plain_sum);
    if (!q || !wn || !left || q->kind == IX_CONST) return NULL;
    Ix rest = without_part(g, left, wn, q);
    if (rest) return ix_add(g, rest, ix_mul(g, weight, x));
    for (uint32_t i = 0; i < ix_terms(left); i++) {
        int64_t c;
        Ix t = ix_term(left, i, &c);
        for (uint32_t f = 0; f < factors(t); f++) {
            Ix m = factor(t, f);
            if (m->kind == IX_DIV && m->arg[1] == n && m->arg[0] != x && ix_mod(g, m->arg[0], n) == mod) {
                rest = without_part(g, left, wn, m);
                if (rest) return ix_add(g, rest, ix_mul(g, weight, m->arg[0]));
            }
            if (m->kind != IX_MOD || m->arg[0] != q) continue;
            rest = without_part(g, left, wn, m);
            if (rest) return ix_add(g, rest, ix_mul(g, weight, ix_mod(g, x, ix_mul(g, n, m->arg[1]))));
        }
    }
    return NULL;
}

static Ix recombined(Graph *g, Ix e) {
    if (e->kind != IX_SUM || e->n < 2) return e;
    for (uint32_t i = 0; i < e->n; i++)
        for (uint32_t f = 0; f < factors(e->arg[i]); f++) {
            Ix mod = factor(e->arg[i], f);
            if (mod->kind != IX_MOD) continue;
            Ix to = recombine_term(g, e, mod, ix_muli(g, ix_atom_divide(g, e->arg[i], mod), e->coef[i]));
            if (to) return to;
        }
    return e;
}

// a + k * b
Ix ix_add_scaled(Graph *g, Ix a, Ix b, int64_t k) {
    Ix sum = plain_sum(g, a, b, k);
    return sum ? recombined(g, sum) : NULL;
}

Ix ix_add(Graph *g, Ix a, Ix b) { return ix_add_scaled(g, a, b, 1); }
Ix ix_sub(Graph *g, Ix a, Ix b) { return ix_add_scaled(g, a, b, -1); }
Ix ix_addi(Graph *g, Ix a, int64_t b) { return ix_add(g, a, ix(g, b)); }
Ix ix_muli(Graph *g, Ix a, int64_t b) { return ix_add_scaled(g, ix(g, 0), a, b); }

Ix ix_mul(Graph *g, Ix a, Ix b) { return product(g, a, b, ix_add_scaled); }

Ix ix_product(Graph *g, const Ix *at, int n) {
    Ix p = ix(g, 1);
    for (int i = 0; i < n; i++) p = ix_mul(g, p, at[i]);
    return p;
}

// The monomial `t` divided by the monomial `by` (atoms), or NULL: 1 if they are the same.
Ix ix_atom_divide(Graph *g, Ix t, Ix by) {
    if (t == by) return ix(g, 1);
    Ix left[MAX_FACTORS];
    uint32_t n = 0, j = 0, nby = factors(by);
    for (uint32_t i = 0; i < factors(t); i++) {
        if (j < nby && factor(t, i) == factor(by, j)) j++;
        else left[n++] = factor(t, i);
    }
    if (j < nby) return NULL;
    if (n == 1) return left[0];
    return ix_intern(g, &(struct IxData){.kind = IX_PROD, .n = n, .arg = left});
}

// ---- substitution, evaluation ---------------------------------------------------------------------------------------

static Ix rebuild(Graph *g, Ix e, const Ix *arg) {
    switch ((IxKind)e->kind) {
    case IX_SUM: {
        Ix s = ix(g, e->value);
        for (uint32_t i = 0; i < e->n; i++) s = ix_add_scaled(g, s, arg[i], e->coef[i]);
        return s;
    }
    case IX_PROD: return ix_product(g, arg, (int)e->n);
    case IX_DIV: return ix_div(g, arg[0], arg[1]);
    case IX_MOD: return ix_mod(g, arg[0], arg[1]);
    case IX_MIN: return ix_min(g, arg[0], arg[1]);
    case IX_MAX: return ix_max(g, arg[0], arg[1]);
    case IX_LT: return ix_lt(g, arg[0], arg[1]);
    case IX_EQ: return ix_eq(g, arg[0], arg[1]);
    case IX_AND: case IX_OR: {
        Ix s = arg[0];
        for (uint32_t i = 1; i < e->n; i++) s = e->kind == IX_AND ? ix_and(g, s, arg[i]) : ix_or(g, s, arg[i]);
        return s;
    }
    case IX_CONST: case IX_DIM: case IX_AXIS: break;
    }
    return e;
}

static Ix substitute(Graph *g, Ix e, const Ix *with, int n, Ix dim, Ix dim_with) {
    if (!e) return NULL;
    if (e == dim) return dim_with;
    if (e->kind == IX_AXIS && with) {
        if (e->value >= n) return g_error(g, "an index expression uses axis %d of %d", (int)e->value, n);
        return with[e->value];
    }
    if (e->kind == IX_AXIS && dim) return ix_axis(g, (int)e->value, substitute(g, e->arg[0], NULL, 0, dim, dim_with));
    if (e->n == 0 || (with && !e->has_axis)) return e;
    Ix buf[8], *arg = e->n <= 8 ? buf : NEW_N(g->arena, Ix, e->n);
    bool changed = false;
    for (uint32_t i = 0; i < e->n; i++) {
        arg[i] = substitute(g, e->arg[i], with, n, dim, dim_with);
        if (!arg[i]) return NULL;
        changed |= arg[i] != e->arg[i];
    }
    return changed ? rebuild(g, e, arg) : e;
}

Ix ix_copy(Graph *g, Ix e, Ix *done) {
    if (!e || done[e->id]) return e ? done[e->id] : NULL;
    Ix buf[8], *arg = e->n <= 8 ? buf : NEW_N(g->arena, Ix, e->n);
    for (uint32_t i = 0; i < e->n; i++)
        if (!(arg[i] = ix_copy(g, e->arg[i], done))) return NULL;
    Ix copy = e->kind == IX_CONST ? ix(g, e->value) : e->kind == IX_DIM ? ix_dim_at(g, (int)e->value) : e->kind == IX_AXIS ? ix_axis(g, (int)e->value, arg[0]) : rebuild(g, e, arg);
    return done[e->id] = copy;
}

uint32_t ix_count(const Graph *g) { return g->tables->ix_count; }

Ix ix_substitute(Graph *g, Ix e, const Ix *with, int n) {
    return substitute(g, e, with ? with : &(Ix){NULL}, n, NULL, NULL);
}

Ix ix_substitute_dim(Graph *g, Ix e, Ix dim, Ix with) {
    return substitute(g, e, NULL, 0, dim, with);
}

int64_t ix_apply(IxKind kind, int64_t a, int64_t b) {
    switch (kind) {
    case IX_SUM: return (int64_t)((uint64_t)a + (uint64_t)b);
    case IX_PROD: return (int64_t)((uint64_t)a * (uint64_t)b);
    case IX_DIV: return int_div_floor(a, b);
    case IX_MOD: return int_mod_floor(a, b);
    case IX_MIN: return a < b ? a : b;
    case IX_MAX: return a > b ? a : b;
    case IX_LT: return a < b;
    case IX_EQ: return a == b;
    case IX_AND: return a && b;
    case IX_OR: return a || b;
    default: ice("no such index expression: %d", kind);
    }
}

bool ix_dims_in(Ix e, const bool *known) {
    if (e->kind == IX_DIM) return known[e->value];
    for (uint32_t i = 0; e->has_dim && i < e->n; i++)
        if (!ix_dims_in(e->arg[i], known)) return false;
    return true;
}

int64_t ix_eval(Ix e, const int64_t *dims, const int64_t *axes) {
    switch ((IxKind)e->kind) {
    case IX_CONST: return e->value;
    case IX_DIM: return dims[e->value];
    case IX_AXIS: return axes[e->value];
    case IX_SUM: {
        int64_t s = e->value;
        for (uint32_t i = 0; i < e->n; i++)
            s = ix_apply(IX_SUM, s, ix_apply(IX_PROD, e->coef[i], ix_eval(e->arg[i], dims, axes)));
        return s;
    }
    case IX_PROD: {
        int64_t p = 1;
        for (uint32_t i = 0; i < e->n; i++) p = ix_apply(IX_PROD, p, ix_eval(e->arg[i], dims, axes));
        return p;
    }
    case IX_AND:
        for (uint32_t i = 0; i < e->n; i++)
            if (!ix_eval(e->arg[i], dims, axes)) return 0;
        return 1;
    case IX_OR:
        for (uint32_t i = 0; i < e->n; i++)
            if (ix_eval(e->arg[i], dims, axes)) return 1;
        return 0;
    default: break;
    }
    return ix_apply((IxKind)e->kind, ix_eval(e->arg[0], dims, axes), ix_eval(e->arg[1], dims, axes));
}

bool ix_const(Ix e, int64_t *value) {
    if (!ix_is_const(e)) return false;
    *value = e->value;
    return true;
}

bool ix_is_affine(Ix e) {
    if (e->kind == IX_CONST || e->kind == IX_DIM || e->kind == IX_AXIS) return true;
    if (e->kind != IX_SUM) return false;
    for (uint32_t i = 0; i < e->n; i++)
        if (e->arg[i]->kind != IX_DIM && e->arg[i]->kind != IX_AXIS) return false;
    return true;
}

static bool depends(Ix e, int axis) {
    return axis < 64 && e->axes >> axis & 1;
}

Ix ix_coefficient(Graph *g, Ix e, int axis, Ix *rest) {
    Ix c = ix(g, 0), r = ix(g, ix_offset(e));
    for (uint32_t i = 0; i < ix_terms(e); i++) {
        int64_t k;
        Ix t = ix_term(e, i, &k);
        if (!depends(t, axis)) {
            r = ix_add_scaled(g, r, t, k);
            continue;
        }
        Ix left = ix(g, 1);
        int times = 0;
        for (uint32_t f = 0; f < factors(t); f++) {
            Ix x = factor(t, f);
            if (x->kind == IX_AXIS && x->value == axis) times++;
            else if (depends(x, axis)) return NULL;
            else left = ix_mul(g, left, x);
        }
        if (times != 1) return NULL;
        c = ix_add_scaled(g, c, left, k);
    }
    *rest = r;
    return c;
}

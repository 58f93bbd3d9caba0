// Tensors out of nothing, in tests and graphs: random<f32>(M, N), randint, zeros, ones, full, iota, values.
#include "sema/internal.h"

#include <string.h>

struct Maker { const char *name; TMake make; Elem elem; int values; };      // values before the dimensions

static const Maker makers[] = {
    {"random", MAKE_random, EL_f32, 0}, {"zeros", MAKE_zeros, EL_f32, 0},      {"ones", MAKE_ones, EL_f32, 0},
    {"full", MAKE_full, EL_f32, 1},     {"iota", MAKE_iota, EL_i32, 0},        {"randint", MAKE_randint, EL_i32, 2},
    {"values", MAKE_values, EL_f32, 0},
};

const Maker maker_empty = {"empty", MAKE_zeros, EL_f32, 0};

const Maker *maker_find(Sym name) {
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (strcmp(makers[i].name, name->s) == 0) return &makers[i];
    }
    return NULL;
}

bool number_known(Ent e, Number *v) {
    if (e.kind == EN_value && e.x->kind == TX_const) {
        Elem elem = e.x->type.elem;
        *v = elem_is_float(elem) ? number_double(e.x->fval)
             : elem == EL_u64    ? number_u64((uint64_t)e.x->ival)
                                 : number_int(e.x->ival);
    } else if (e.kind == EN_float) *v = number_double(e.f);
    else if (e.kind == EN_int || e.kind == EN_bool) *v = number_int(e.i);
    else return false;
    return true;
}

bool number_read(Check *c, const Node *n, Number *v) {
    Ent e = eval(c, n);
    if (!number_known(e, v)) {
        if (e.kind != EN_error) report(c, E_not_comptime, n->span, "a number of a test");
        return false;
    }
    return true;
}

// Integers hold whole numbers of their range (of 64 bits any bits: -2^63 is written as the negative of a u64), floats round.
static bool element_read(Check *c, const Node *n, Elem elem, Number *v) {
    if (!number_read(c, n, v)) return false;
    bool wide = elem_bits(elem) == 64 && v->f >= 0x1p63;
    if (!elem_is_int(elem) || (number_whole(*v) && (wide || int_fits(v->i, elem)))) return true;
    report(c, E_literal_range, n->span, arena_printf(c->a, "the number %.17g", v->f), elem_name(elem));
    return false;
}

// values<f32>((1, 2), (3, 4)): nested tuples of one shape.
static bool flatten(Check *c, const Node *n, int depth, int64_t *shape, int *rank, Made *to, int64_t *count, int64_t cap) {
    if (n->kind != N_tuple) {
        Number v, *out = to->values;
        if (*rank < 0) *rank = depth;
        bool fits = *rank == depth && *count < cap && element_read(c, n, to->elem, &v);
        if (fits) out[(*count)++] = v;
        else if (*rank != depth || *count >= cap) report(c, E_test_shape, n->span, "these values have no common shape");
        return fits;
    }
    if (depth >= MAX_RANK || (*rank >= 0 && depth >= *rank) || (shape[depth] >= 0 && shape[depth] != (int64_t)n->nkid)) {
        report(c, E_test_shape, n->span, "these values have no common shape");
        return false;
    }
    shape[depth] = n->nkid;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (!flatten(c, n->kid[i], depth + 1, shape, rank, to, count, cap)) return false;
    }
    return true;
}

static int64_t count_leaves(const Node *n) {
    if (n->kind != N_tuple) return 1;
    int64_t k = 0;
    for (uint32_t i = 0; i < n->nkid; i++) k += count_leaves(n->kid[i]);
    return k;
}

static bool read_values(Check *c, const Node *n, Made *out) {
    int64_t cap = 0, count = 0, shape[MAX_RANK];
    for (int i = 0; i < MAX_RANK; i++) shape[i] = -1;
    int rank = -1;
    for (uint32_t i = 3; i < n->nkid; i++) cap += count_leaves(n->kid[i]);
    out->values = NEW_N(c->a, Number, cap + 1);
    shape[0] = (int64_t)n->nkid - 3;
    for (uint32_t i = 3; i < n->nkid; i++) {
        if (!flatten(c, n->kid[i], 1, shape, &rank, out, &count, cap)) return false;
    }
    out->rank = rank < 0 ? 1 : rank;
    for (int i = 0; i < out->rank; i++) out->dim[i] = ent_int(shape[i], n->span);
    return true;
}

static bool named_value(Check *c, const Maker *m, const Node *a, Made *out) {
    Number v;
    if (!number_read(c, a->kid[0], &v)) return false;
    bool iota = m->make == MAKE_iota;
    if (strcmp(a->sym->s, iota ? "start" : "lo") == 0) out->lo = v;
    else if (strcmp(a->sym->s, iota ? "step" : "hi") == 0) out->hi = v;
    else {
        Diag *d = report(c, E_argument_name, a->span, m->name, a->sym->s);
        if (iota) diag_help(d, "it has `start` and `step`");
        else if (m->make == MAKE_random) diag_help(d, "it has `lo` and `hi`, of uniform numbers");
        return false;
    }
    return true;
}

static bool made_elem(Check *c, const Node *g, Elem *elem) {
    if (!g || g->nkid == 0) return true;
    Ent e = eval(c, g->kid[0]);
    if (e.kind != EN_type || g->nkid > 1) {
        if (e.kind != EN_error) report(c, E_generic_kind, g->span, "T", "one element type", ent_text(c, e));
        return false;
    }
    *elem = e.elem == EL_index ? EL_i64 : e.elem;
    return true;
}

// A dimension: a number, in graphs also what becomes one.
static bool made_dim(Check *c, const Node *a, Made *out, int64_t *count) {
    Ent e = c->host ? ent_void() : dims_settle(c, eval(c, a));
    int64_t d = 0;
    if (e.kind == EN_error) return false;
    if (e.kind == EN_void) {
        if (!want_int(c, a, "a dimension of a test's tensor", &d)) return false;
        e = ent_int(d, a->span);
    } else if (e.kind == EN_int) d = e.i;
    else if (e.kind != EN_unknown && !scalar_index(c, e, a->span, "a dimension")) return false;
    if (d >= 0 && out->rank < MAX_RANK && !__builtin_mul_overflow(*count, d > 0 ? d : 1, count) &&
        *count <= (int64_t)1 << 32) {
        out->dim[out->rank++] = e;
        return true;
    }
    report(c, E_test_shape, a->span,
           d < 0                   ? "a dimension is negative"
           : out->rank == MAX_RANK ? "a tensor has too many dimensions"
                                   : "a test's tensor is too large");
    return false;
}

bool maker_read(Check *c, const Maker *m, const Node *n, Made *out) {
    *out = (Made){.make = m->make, .elem = m->elem, .hi = number_int(m->make == MAKE_iota)};
    if (!made_elem(c, n->kid[1], &out->elem)) return false;
    if (m->make == MAKE_values) return read_values(c, n, out);
    Number v[2] = {{0}};
    int given = 0;
    int64_t count = 1;
    for (uint32_t i = 3; i < n->nkid; i++) {
        const Node *a = n->kid[i];
        bool fine = a->kind == N_named ? named_value(c, m, a, out)
                  : given < m->values  ? (m->make == MAKE_full ? element_read(c, a, out->elem, &v[given++]) : number_read(c, a, &v[given++]))
                                       : made_dim(c, a, out, &count);
        if (!fine) return false;
    }
    if (given < m->values) {
        report(c, E_argument_count, n->span, m->name,
               m->values == 1 ? "a value and dimensions" : "two bounds and dimensions", given);
        return false;
    }
    if (m->values > 0) {
        out->lo = v[0];
        out->hi = v[1];
    }
    if (m->make == MAKE_randint && number_order(out->lo, out->hi) >= 0) {
        report(c, E_test_shape, n->span, "nothing is in [lo, hi): lo is to be less than hi");
        return false;
    }
    return true;
}

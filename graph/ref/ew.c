// Elementwise operations in the interpreter, row by row. What they mean is said in ew.c; the loops here are the same for
// the operations that matter, without a call for each element.

#include "graph/ew.h"
#include "graph/ref/internal.h"

#include <math.h>
#include <string.h>

typedef struct Ew { GEw op; Elem elem; } Ew;

#define EACH(expr) for (int64_t i = 0; i < n; i++) o[i] = (expr); break

static void floats(GEw op, int64_t n, const double *a, const double *b, double *o) {
    switch (op) {
    case EW_neg: EACH(-a[i]);
    case EW_abs: EACH(fabs(a[i]));
    case EW_sqrt: EACH(sqrt(a[i]));
    case EW_add: EACH(a[i] + b[i]);
    case EW_sub: EACH(a[i] - b[i]);
    case EW_mul: EACH(a[i] * b[i]);
    case EW_div: EACH(a[i] / b[i]);
    default: EACH(ew_float(op, a[i], b[i]));
    }
}

static void float_row(void *ctx, int64_t n, char *const *at, const int64_t *stride) {
    const Ew *e = ctx;
    double a[ROW], b[ROW] = {0}, o[ROW];
    row_load_f64(e->elem, n, at[1], stride[1], a);
    if (g_ew_info[e->op].n > 1) row_load_f64(e->elem, n, at[2], stride[2], b);
    floats(e->op, n, a, b, o);
    row_store_f64(e->elem, n, o, at[0], stride[0]);
}

static void int_row(void *ctx, int64_t n, char *const *at, const int64_t *stride) {
    const Ew *e = ctx;
    int64_t a[ROW], b[ROW] = {0}, o[ROW];
    row_load_i64(e->elem, n, at[1], stride[1], a);
    if (g_ew_info[e->op].n > 1) row_load_i64(e->elem, n, at[2], stride[2], b);
    switch (e->op) {
    case EW_add: for (int64_t i = 0; i < n; i++) o[i] = (int64_t)((uint64_t)a[i] + (uint64_t)b[i]); break;
    case EW_mul: for (int64_t i = 0; i < n; i++) o[i] = (int64_t)((uint64_t)a[i] * (uint64_t)b[i]); break;
    default: for (int64_t i = 0; i < n; i++) o[i] = (int64_t)ew_int(e->op, e->elem, (uint64_t)a[i], (uint64_t)b[i]); break;
    }
    row_store_i64(e->elem, n, o, at[0], stride[0]);
}

static bool compare(GEw op, double a, double b) { return ew_compare(op, EL_f64, g_float(a), g_float(b)); }

static void compare_row(void *ctx, int64_t n, char *const *at, const int64_t *stride) {
    const Ew *e = ctx;
    uint8_t o[ROW];
    if (elem_is_float(e->elem)) {
        double a[ROW], b[ROW] = {0};
        row_load_f64(e->elem, n, at[1], stride[1], a);
        if (g_ew_info[e->op].n > 1) row_load_f64(e->elem, n, at[2], stride[2], b);
        switch (e->op) {
        case EW_isnan: EACH(isnan(a[i]));
        case EW_isinf: EACH(isinf(a[i]) != 0);
        case EW_lt: EACH(a[i] < b[i]);
        case EW_eq: EACH(a[i] == b[i]);
        default: EACH(compare(e->op, a[i], b[i]));
        }
    } else {
        int64_t a[ROW], b[ROW] = {0};
        row_load_i64(e->elem, n, at[1], stride[1], a);
        if (g_ew_info[e->op].n > 1) row_load_i64(e->elem, n, at[2], stride[2], b);
        bool never = e->op == EW_isnan || e->op == EW_isinf;
        for (int64_t i = 0; i < n; i++) o[i] = !never && ew_compare(e->op, e->elem, g_int(a[i]), g_int(b[i]));
    }
    row_copy(1, n, (const char *)o, 1, at[0], stride[0]);
}

static void odd_row(void *ctx, int64_t n, char *const *at, const int64_t *stride) {   // floats' functions of integers
    const Ew *e = ctx;
    for (int64_t i = 0; i < n; i++) {
        const void *in[2] = {at[1] + i * stride[1], g_ew_info[e->op].n > 1 ? at[2] + i * stride[2] : NULL};
        ew_one(e->op, e->elem, in, at[0] + i * stride[0]);
    }
}

static void where_row(void *ctx, int64_t n, char *const *at, const int64_t *stride) {
    const Ew *e = ctx;
    size_t bytes = (size_t)elem_bytes(e->elem);
    for (int64_t i = 0; i < n; i++) {
        int k = at[1][i * stride[1]] ? 2 : 3;
        memcpy(at[0] + i * stride[0], at[k] + i * stride[k], bytes);
    }
}

bool ref_ew(Run *r, const Node *n, RVal *out) {
    Ew e = {(GEw)n->op, (Elem)n->src[n->nsrc - 1]->elem};
    int64_t shape[G_MAX_RANK];
    if (!run_sizes(r, n->rank, n->shape, shape) || !rval_new(r, out, (Elem)n->elem, n->rank, shape)) return false;
    Rows rows = {0};
    rows_add(&rows, out);
    for (uint32_t k = 0; k < n->nsrc; k++) {
        const RVal *v = &r->val[n->src[k]->id];
        for (int i = 0; i < n->rank; i++)
            if (v->shape[i] != shape[i])
                return run_fail(r, "operands have different sizes: %lld and %lld", (long long)v->shape[i],
                                (long long)shape[i]);
        rows_add(&rows, v);
    }
    bool is_float = elem_is_float(e.elem), odd = !is_float && e.op >= EW_sqrt && e.op <= EW_sigmoid;
    rows_run(&rows,
             e.op == EW_where             ? where_row
             : g_ew_info[e.op].gives_bool ? compare_row
             : is_float                   ? float_row
             : odd                        ? odd_row
                                          : int_row,
             &e);
    return true;
}

// ---- conversions ----------------------------------------------------------------------------------------------------

typedef struct Cast { Elem from, to; bool saturate; } Cast;

static void cast_row(void *ctx, int64_t n, char *const *at, const int64_t *stride) {
    const Cast *c = ctx;
    bool from_float = elem_is_float(c->from), to_float = elem_is_float(c->to),
         f8 = elem_is_storage(c->to) && elem_bits(c->to) == 8;
    if (!from_float && !to_float && !c->saturate) {
        int64_t v[ROW];
        row_load_i64(c->from, n, at[1], stride[1], v);
        row_store_i64(c->to, n, v, at[0], stride[0]);
        return;
    }
    if (to_float && c->from != EL_f64 && c->from != EL_i64 && c->from != EL_u64 && !(f8 && !c->saturate)) {
        double v[ROW];                                       // exact in f64, and so rounded once
        row_load_f64(c->from, n, at[1], stride[1], v);
        if (elem_bits(c->from) < 32 || c->from == EL_f32 || c->to == EL_f32 || c->to == EL_f64) {
            row_store_f64(c->to, n, v, at[0], stride[0]);
            return;
        }
    }
    for (int64_t i = 0; i < n; i++) cast_one(c->from, c->to, c->saturate, at[1] + i * stride[1], at[0] + i * stride[0]);
}

bool ref_cast(Run *r, const Node *n, RVal *out) {
    const RVal *src = &r->val[n->src[0]->id];
    Cast c = {src->elem, (Elem)n->elem, n->cast.saturate};
    if (!rval_new(r, out, c.to, src->rank, src->shape)) return false;
    Rows rows = {0};
    rows_add(&rows, out);
    rows_add(&rows, src);
    rows_run(&rows, cast_row, &c);
    return true;
}

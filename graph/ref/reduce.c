// Reductions, scans and sorts in the interpreter.
//
// A reduction is a walk over all elements of its source in which the accumulators' address does not move along the reduced
// axes: the accumulators are an f64 (or 64 bits) for each element of the result, with stride 0 where an axis is reduced.
// Along the innermost axis either many accumulators take one element each, or one takes the row.

#include "graph/ref/internal.h"

#include "graph/ew.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reduce {
    GReduce op;
    Elem    elem;                // of the source
    bool    last;
    char   *acc0;                // first accumulator
    int64_t *best;               // argmax: the place, by accumulator
} Reduce;

static double f64_step(GReduce op, double a, double x) {
    switch (op) {
    case GR_sum: return a + x;
    case GR_prod: return a * x;
    case GR_max: return x > a || isnan(x) ? x : a;
    default: return x < a || isnan(x) ? x : a;
    }
}

static int64_t i64_step(GReduce op, Elem elem, int64_t a, int64_t x) {
    bool above = elem_is_signed(elem) ? x > a : (uint64_t)x > (uint64_t)a;
    switch (op) {
    case GR_sum: return (int64_t)((uint64_t)a + (uint64_t)x);
    case GR_prod: return (int64_t)((uint64_t)a * (uint64_t)x);
    case GR_max: case GR_any: return above ? x : a;
    default: return above ? a : x;
    }
}

// at[0]: accumulators, at[1]: elements.
static void reduce_f64(void *ctx, int64_t n, char *const *at, const int64_t *stride) {
    const Reduce *d = ctx;
    double x[ROW], *acc = (double *)at[0];
    row_load_f64(d->elem, n, at[1], stride[1], x);
    if (stride[0] == 0) {
        double a = *acc;
        for (int64_t i = 0; i < n; i++) a = f64_step(d->op, a, x[i]);
        *acc = a;
        return;
    }
    int64_t s = stride[0] / 8;
    for (int64_t i = 0; i < n; i++) acc[i * s] = f64_step(d->op, acc[i * s], x[i]);
}

static void reduce_i64(void *ctx, int64_t n, char *const *at, const int64_t *stride) {
    const Reduce *d = ctx;
    int64_t x[ROW], *acc = (int64_t *)at[0], s = stride[0] / 8;
    row_load_i64(d->elem, n, at[1], stride[1], x);
    for (int64_t i = 0; i < n; i++) acc[i * s] = i64_step(d->op, d->elem, acc[i * s], x[i]);
}

// at[2]: the place along the axis of each element (an index value).
static void reduce_arg(void *ctx, int64_t n, char *const *at, const int64_t *stride) {
    const Reduce *d = ctx;
    bool max = d->op == GR_argmax;
    for (int64_t i = 0; i < n; i++) {
        GNum x = g_num_load(at[1] + i * stride[1], d->elem);
        double *acc = (double *)(at[0] + i * stride[0]);
        int64_t *best = &d->best[(at[0] + i * stride[0] - d->acc0) / 8], place;
        memcpy(&place, at[2] + i * stride[2], 8);
        bool better, same;
        if (elem_is_float(d->elem)) {
            better = *best < 0 || (!isnan(*acc) && (isnan(x.f) || (max ? x.f > *acc : x.f < *acc)));
            same = x.f == *acc || (isnan(x.f) && isnan(*acc));
            if (better) *acc = x.f;
        } else {
            int64_t a;
            memcpy(&a, acc, 8);
            bool above = elem_is_signed(d->elem) ? x.i > a : (uint64_t)x.i > (uint64_t)a;
            better = *best < 0 || (max ? above : !above && x.i != a);
            same = x.i == a;
            if (better) memcpy(acc, &x.i, 8);
        }
        if (better || (same && d->last && place > *best)) *best = place;
    }
}

static double f64_start(GReduce op) { return op == GR_sum ? 0 : op == GR_prod ? 1 : op == GR_max ? -INFINITY : INFINITY; }

static int64_t i64_start(GReduce op, Elem elem) {
    int bits = elem_bits(elem);
    switch (op) {
    case GR_sum: case GR_any: return 0;
    case GR_prod: case GR_all: return 1;
    case GR_max: return elem_is_signed(elem) ? (bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1))) : 0;
    default: return elem == EL_bool ? 1 : elem_is_signed(elem) ? (bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - 1)) - 1)
                                        : bits == 64 ? -1 : (INT64_C(1) << bits) - 1;
    }
}

// The accumulators as a value of the source's shape: stride 0 along what is reduced.
static RVal spread(const RVal *acc, const RVal *src, uint32_t axes) {
    RVal s = *acc;
    int from = 0;
    s.rank = src->rank;
    for (int i = 0; i < src->rank; i++) {
        bool reduced = axes >> i & 1;
        s.shape[i] = src->shape[i];
        s.stride[i] = reduced ? 0 : acc->stride[from];
        from += !reduced;
    }
    return s;
}

static bool arg_reduce(Run *r, const Node *n, const RVal *src, RVal *out, RVal *acc) {
    Reduce d = {(GReduce)n->op, src->elem, n->reduce.last, acc->at, NULL};
    int64_t count = rval_count(out), axis = __builtin_ctz(n->reduce.axes);
    if (count > 0 && src->shape[axis] == 0) return run_fail(r, "the greatest of no elements");
    RVal place, moved = spread(acc, src, n->reduce.axes);
    if (!rval_new(r, &place, EL_i64, 1, &src->shape[axis])) return false;
    for (int64_t i = 0; i < src->shape[axis]; i++) ((int64_t *)place.at)[i] = i;
    RVal places = place;
    places.rank = src->rank;
    for (int i = 0; i < src->rank; i++) {
        places.shape[i] = src->shape[i];
        places.stride[i] = i == axis ? 8 : 0;
    }
    d.best = (int64_t *)out->at;
    for (int64_t i = 0; i < count; i++) d.best[i] = -1;
    Rows rows = {0};
    rows_add(&rows, &moved);
    rows_add(&rows, src);
    rows_add(&rows, &places);
    rows_run(&rows, reduce_arg, &d);
    rval_drop(&place);
    return true;
}

bool ref_reduce(Run *r, const Node *n, RVal *out) {
    const RVal *src = &r->val[n->src[0]->id];
    int64_t shape[G_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < src->rank; i++)
        if (!(n->reduce.axes >> i & 1)) shape[rank++] = src->shape[i];
    RVal acc;
    bool is_float = elem_is_float(src->elem), ok = true;
    if (!rval_new(r, out, (Elem)n->elem, rank, shape) || !rval_new(r, &acc, EL_f64, rank, shape)) return false;
    int64_t count = rval_count(&acc);
    if (n->op == GR_argmax || n->op == GR_argmin) {
        ok = arg_reduce(r, n, src, out, &acc);
        rval_drop(&acc);
        return ok;
    }
    Reduce d = {(GReduce)n->op, src->elem, false, acc.at, NULL};
    double *f = (double *)acc.at;
    int64_t *k = (int64_t *)acc.at;
    for (int64_t i = 0; i < count; i++) {
        if (is_float) f[i] = f64_start(d.op);
        else k[i] = i64_start(d.op, d.elem);
    }
    RVal moved = spread(&acc, src, n->reduce.axes);
    Rows rows = {0};
    rows_add(&rows, &moved);
    rows_add(&rows, src);
    rows_run(&rows, is_float ? reduce_f64 : reduce_i64, &d);
    if (is_float) row_store_f64(out->elem, count, f, out->at, elem_bytes(out->elem));
    else row_store_i64(out->elem, count, k, out->at, elem_bytes(out->elem));
    rval_drop(&acc);
    return true;
}

// ---- lines ----------------------------------------------------------------------------------------------------------
// Scans and sorts go along one axis, line by line.

typedef struct Lines { int rank, axis; int64_t at[G_MAX_RANK]; const RVal *a, *b; bool more; } Lines;

static Lines lines_new(const RVal *a, const RVal *b, int axis) {
    Lines l = {.rank = a->rank, .axis = axis, .a = a, .b = b, .more = true};
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] == 0) l.more = false;
    return l;
}

static char *line_start(const Lines *l, const RVal *v) {
    char *p = v->at;
    for (int i = 0; i < l->rank; i++) p += l->at[i] * v->stride[i];
    return p;
}

static void line_next(Lines *l) {
    for (int i = l->rank; i-- > 0;) {
        if (i == l->axis) continue;
        if (++l->at[i] < l->a->shape[i]) return;
        l->at[i] = 0;
    }
    l->more = false;
}

bool ref_scan(Run *r, const Node *n, RVal *out) {
    const RVal *src = &r->val[n->src[0]->id];
    if (!rval_new(r, out, src->elem, src->rank, src->shape)) return false;
    int axis = n->scan.axis;
    bool is_float = elem_is_float(src->elem);
    int64_t len = src->shape[axis];
    GReduce op = (GReduce)n->op;
    for (Lines l = lines_new(src, out, axis); l.more; line_next(&l)) {
        const char *from = line_start(&l, src);
        char *to = line_start(&l, out);
        double f = f64_start(op);
        int64_t k = i64_start(op, src->elem);
        for (int64_t i = 0; i < len; i++) {
            int64_t at = n->scan.reverse ? len - 1 - i : i;
            double x = 0;
            int64_t y = 0;
            if (is_float) row_load_f64(src->elem, 1, from + at * src->stride[axis], 0, &x);
            else row_load_i64(src->elem, 1, from + at * src->stride[axis], 0, &y);
            if (!n->scan.exclusive) f = f64_step(op, f, x), k = i64_step(op, src->elem, k, y);
            if (is_float) row_store_f64(out->elem, 1, &f, to + at * out->stride[axis], 0);
            else row_store_i64(out->elem, 1, &k, to + at * out->stride[axis], 0);
            if (n->scan.exclusive) f = f64_step(op, f, x), k = i64_step(op, src->elem, k, y);
        }
    }
    return true;
}

typedef struct Key { GNum v; int64_t at; uint8_t kind; bool descending; } Key;   // kind: 0 float, 1 signed, 2 unsigned

static int key_order(const void *pa, const void *pb) {
    const Key *a = pa, *b = pb;
    int c;
    if (a->kind == 0) {
        bool na = isnan(a->v.f), nb = isnan(b->v.f);
        c = na || nb ? na - nb : (a->v.f > b->v.f) - (a->v.f < b->v.f);
    } else if (a->kind == 1) {
        c = (a->v.i > b->v.i) - (a->v.i < b->v.i);
    } else {
        c = ((uint64_t)a->v.i > (uint64_t)b->v.i) - ((uint64_t)a->v.i < (uint64_t)b->v.i);
    }
    if (a->descending) c = -c;
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

bool ref_sort(Run *r, const Node *n, RVal *out) {
    const RVal *src = &r->val[n->src[0]->id];
    RVal *both = NEW_N(r->arena, RVal, 2);
    r->results[n->id] = both;
    if (!rval_new(r, &both[0], src->elem, src->rank, src->shape) ||
        !rval_new(r, &both[1], EL_i64, src->rank, src->shape))
        return false;
    *out = rval_share(&both[0]);
    int axis = n->sort.axis, bytes = elem_bytes(src->elem);
    int64_t len = src->shape[axis];
    Key *key = heap_try_zeroed((size_t)len + 1, sizeof *key);
    if (!key) return run_fail(r, "out of memory");
    uint8_t kind = elem_is_float(src->elem) ? 0 : elem_is_signed(src->elem) ? 1 : 2;
    for (Lines l = lines_new(src, &both[0], axis); l.more; line_next(&l)) {
        const char *from = line_start(&l, src);
        char *values = line_start(&l, &both[0]), *places = line_start(&l, &both[1]);
        for (int64_t i = 0; i < len; i++)
            key[i] = (Key){g_num_load(from + i * src->stride[axis], src->elem), i, kind, n->sort.descending};
        qsort(key, (size_t)len, sizeof *key, key_order);
        for (int64_t i = 0; i < len; i++) {
            memcpy(values + i * both[0].stride[axis], from + key[i].at * src->stride[axis], (size_t)bytes);
            memcpy(places + i * both[1].stride[axis], &key[i].at, 8);
        }
    }
    heap_free(key);
    return true;
}

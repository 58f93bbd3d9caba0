// Reductions over the live lanes of axes.
//
// Rows of the operand are widened (to i64, u64 or f64: every element type fits one of them exactly) and
// folded into one accumulator a lane of the result: a whole row into one when the last axis is reduced,
// lane by lane when it is kept. Sums and products of floats are done in f64 and rounded once; their
// order elsewhere is anyone's, so that with u half an ulp and K live lanes
//
//     sum    bound  K u sum |x| + sum bx            prod   bound  by the recurrence  b = b |x| + |p| bx + u |p x|
//     max    bound  the largest bx                  argmax the value of the axis: no bound
//
// Over no live lane: sum 0, prod 1, max the least value (-inf), min the greatest, argmax -1, any false,
// every true. max and min propagate NaN, -0 < +0. argmax takes the lowest index among equals (-0 and +0
// are equal there); NaN beats every number, in argmin too.

#include "lower/eval/eval.h"

#include <math.h>
#include <string.h>

typedef union Num { int64_t i; uint64_t u; double d; } Num;

typedef struct Acc {              // one lane of the result
    Num     v;
    int64_t at;                   // argmax, argmin
    double  mag, err;             // sum of |x|; error so far
    int64_t count;
} Acc;

typedef enum Domain { DOM_I, DOM_U, DOM_F } Domain;

static Domain domain_of(const Type *t) {
    return !t->ptr && elem_is_float((Elem)t->elem) ? DOM_F : wide_of(t) == WIDE_U64 ? DOM_U : DOM_I;
}

// n lanes `step` apart in the accumulators (0: all into one); lane i is value first + i of the argument's axis.
typedef void FoldFn(Acc *acc, int64_t step, const Num *x, const double *b, int64_t n, int64_t first, int64_t by);

#define FOLD(name) static void name(Acc *acc, int64_t step, const Num *x, const double *b, int64_t n, int64_t first, int64_t by)
#define EACH(body) \
    { \
        (void)b; (void)first; (void)by; \
        Acc one = *acc, *a = &one;                /* of a whole row: in registers */ \
        for (int64_t i = 0; step == 0 && i < n; i++) { Num y = x[i]; body; } \
        if (step == 0) { *acc = one; return; } \
        for (int64_t i = 0; i < n; i++) { Num y = x[i]; a = acc + i * step; body; } \
    }

FOLD(sum_i)   EACH(a->v.u += y.u)
FOLD(prod_i)  EACH(a->v.u *= y.u)
FOLD(max_i)   EACH(a->v.i = y.i > a->v.i ? y.i : a->v.i)
FOLD(max_u)   EACH(a->v.u = y.u > a->v.u ? y.u : a->v.u)
FOLD(min_i)   EACH(a->v.i = y.i < a->v.i ? y.i : a->v.i)
FOLD(min_u)   EACH(a->v.u = y.u < a->v.u ? y.u : a->v.u)
FOLD(any_i)   EACH(a->v.i |= y.i)
FOLD(every_i) EACH(a->v.i &= y.i)
FOLD(prod_f)  EACH(a->err = a->err * fabs(y.d) + (b ? fabs(a->v.d) * b[i] : 0) + 0x1p-24 * fabs(a->v.d * y.d); a->v.d *= y.d)
static double max64(double p, double q) { return p != p ? p : q != q ? q : p > q || (p == q && !signbit(p)) ? p : q; }
static double min64(double p, double q) { return p != p ? p : q != q ? q : p < q || (p == q && signbit(p)) ? p : q; }
FOLD(max_f)   EACH(a->v.d = max64(a->v.d, y.d); if (b && b[i] > a->err) a->err = b[i])
FOLD(min_f)   EACH(a->v.d = min64(a->v.d, y.d); if (b && b[i] > a->err) a->err = b[i])

// A lane of -1 may be a real index: `count` tells whether there was any.
#define BEATS(name, better) FOLD(name) EACH(if (!a->count || (better)) { a->v = y; a->at = first + i * by; } a->count = 1)
BEATS(argmax_i, y.i > a->v.i)
BEATS(argmax_u, y.u > a->v.u)
BEATS(argmax_f, a->v.d == a->v.d && (y.d > a->v.d || y.d != y.d))
BEATS(argmin_i, y.i < a->v.i)
BEATS(argmin_u, y.u < a->v.u)
BEATS(argmin_f, a->v.d == a->v.d && (y.d < a->v.d || y.d != y.d))

static void sum_f(Acc *acc, int64_t step, const Num *x, const double *b, int64_t n, int64_t first, int64_t by) {
    (void)first; (void)by;
    int64_t i = 0;
    if (step == 0) {                              // four sums, so that additions need not wait for each other
        double s[4] = {0}, m[4] = {0};
        for (; i + 4 <= n; i += 4)
            for (int k = 0; k < 4; k++) { s[k] += x[i + k].d; m[k] += fabs(x[i + k].d); }
        for (; i < n; i++) { s[0] += x[i].d; m[0] += fabs(x[i].d); }
        acc->v.d += (s[0] + s[1]) + (s[2] + s[3]);
        acc->mag += (m[0] + m[1]) + (m[2] + m[3]);
        acc->count += n;
        for (i = 0; b && i < n; i++) acc->err += b[i];
        return;
    }
    for (; i < n; i++) {
        Acc *a = acc + i * step;
        a->v.d += x[i].d;
        a->mag += fabs(x[i].d);
        a->count++;
        if (b) a->err += b[i];
    }
}

static FoldFn *const folds[TR_COUNT][3] = {
    [TR_sum] = {sum_i, sum_i, sum_f},          [TR_prod] = {prod_i, prod_i, prod_f},
    [TR_max] = {max_i, max_u, max_f},          [TR_min] = {min_i, min_u, min_f},
    [TR_any] = {any_i, any_i, any_i},          [TR_every] = {every_i, every_i, every_i},
    [TR_argmax] = {argmax_i, argmax_u, argmax_f}, [TR_argmin] = {argmin_i, argmin_u, argmin_f},
};

static Acc start_of(TReduce how, Domain d, const Type *t) {
    int bits = elem_bits((Elem)t->elem);
    int64_t top = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - 1)) - 1;
    uint64_t most = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    bool is_signed = elem_is_signed((Elem)t->elem);
    Acc a = {.at = -1};
    switch (how) {
    case TR_sum:  if (d == DOM_F) a.v.d = 0; break;
    case TR_prod: if (d == DOM_F) a.v.d = 1; else a.v.i = 1; break;
    case TR_max:  if (d == DOM_F) a.v.d = -INFINITY; else a.v.i = is_signed ? -top - 1 : 0; break;
    case TR_min:  if (d == DOM_F) a.v.d = INFINITY; else if (is_signed) a.v.i = top; else a.v.u = most; break;
    case TR_every: a.v.i = 1; break;
    default: break;
    }
    return a;
}

typedef struct { _Alignas(64) Num at[CHUNK]; } Nums;

static void widen_chunk(const Type *t, const unsigned char *p, int64_t n, Nums *to) {
    if (domain_of(t) == DOM_F) lanes_to_f64(t, n, p, (double *)to->at);
    else                       lanes_to_i64(t, n, p, (int64_t *)to->at);
}

// The operand is walked row by row over its own axes; `step` says how far the result's lane moves along each.
typedef struct Walk {
    int     rank;
    int64_t extent[MAX_AXES], live[MAX_AXES], step[MAX_AXES];
    int64_t arg_first, arg_axis;  // argmax: value of the axis's lane 0, its position
} Walk;

static void fold_row(const Op *op, FoldFn *fold, const Walk *w, const int64_t *at, int64_t lane, Acc *acc,
                     const unsigned char *x, const double *b) {
    const Type *t = &op->in[0]->type;
    int last = w->rank - 1, size = type_bytes(t);
    int64_t n = w->live[last], base = 0, first = w->arg_first;
    for (int i = 0; i < last; i++) base += at[i] * w->step[i];
    if (w->arg_axis >= 0 && w->arg_axis != last) first += at[w->arg_axis];
    Nums wide;
    for (int64_t pos = 0; pos < n; pos += CHUNK) {
        int64_t m = n - pos < CHUNK ? n - pos : CHUNK;
        widen_chunk(t, x + (lane + pos) * size, m, &wide);
        bool along = w->arg_axis == last;
        fold(acc + base + pos * w->step[last], w->step[last], wide.at, b ? b + lane + pos : NULL, m,
             first + (along ? pos : 0), along);
    }
}

static void finish(Eval *e, const Op *op, const Acc *acc, int64_t lanes, bool exact_input) {
    const Type *t = &op->out[0]->type;
    int     size = type_bytes(t);
    bool    arg = op->sub == TR_argmax || op->sub == TR_argmin, real = domain_of(t) == DOM_F;
    bool    rough = real && (op->sub == TR_sum || op->sub == TR_prod);
    unsigned char *out = out_tile(e, op);
    for (int64_t i = 0; i < lanes; i++) {
        int64_t imm = arg ? (acc[i].count ? acc[i].at : -1) : acc[i].v.i;
        if (size == 8) memcpy(out + i * 8, &imm, 8);
        else           lane_store(t, out, i, imm);
    }
    if (!e->bounds || arg || (!rough && exact_input)) return;
    double *bound = out_bound(e, op), unit = elem_unit((Elem)t->elem);
    for (int64_t i = 0; i < lanes; i++) {
        const Acc *a = &acc[i];
        double b = a->err;
        if (op->sub == TR_sum && real && (a->count > 1 || b > 0)) b += (double)a->count * unit * a->mag;
        bound[i] = b == b ? b : INFINITY;
    }
}

void eval_reduce(Eval *e, const Step *s) {
    const Op   *op = s->op;
    const Type *x = &op->in[0]->type, *t = &op->out[0]->type;
    const Slot *in = slot_of(e, op->in[0]);
    int64_t lanes = type_lanes(t), total = 1;
    Acc     start = start_of((TReduce)op->sub, domain_of(x), x);
    Tile   *scratch = tile_new(e, lanes * (int64_t)sizeof(Acc));
    Acc    *acc = (Acc *)scratch->data;
    Walk    w = {.rank = x->rank, .arg_axis = -1};
    for (int64_t i = 0; i < lanes; i++) acc[i] = start;
    live_counts(e, x, w.live);
    bool best = op->sub == TR_argmax || op->sub == TR_argmin;
    for (int i = 1; i < op->nin && e->opt->places && !best; i++)
        w.live[type_axis(x, op->in[i])] = axis_extent(op->in[i]);
    int64_t by = 1;
    for (int i = t->rank - 1, k; i >= 0; i--) {
        k = type_axis(x, t->axis[i]);
        w.step[k] = by;
        by *= axis_extent(t->axis[i]);
    }
    for (int i = 0; i < x->rank; i++) {
        w.extent[i] = axis_extent(x->axis[i]);
        total *= w.extent[i];
    }
    if (op->sub == TR_argmax || op->sub == TR_argmin) {
        w.arg_axis = type_axis(x, op->in[1]);
        w.arg_first = slot_of(e, op->in[1])->lo;
    }
    FoldFn *fold = folds[op->sub][domain_of(x)];
    int64_t at[MAX_AXES] = {0}, row = w.extent[w.rank - 1];
    for (int64_t lane = 0; lane < total; lane += row) {
        bool dead = false;
        for (int i = 0; i + 1 < w.rank; i++) dead |= at[i] >= w.live[i];
        if (!dead) fold_row(op, fold, &w, at, lane, acc, in->t->data, in->b ? (const double *)in->b->data : NULL);
        for (int i = w.rank - 2; i >= 0; i--) {
            if (++at[i] < w.extent[i]) break;
            at[i] = 0;
        }
    }
    finish(e, op, acc, lanes, in->b == NULL);
    tile_drop(e, scratch);
}

// Ops that keep the axis they work along: scans, sorts, and lanes taken in an order.
//
// Each line of lanes along the axis is taken by itself, its live lanes only; what dead lanes get is junk. Sums and
// products of floats are done in f64 and rounded once a lane; with u half an ulp, lane i of a scan has the bound
//
//     sum    i u sum |x| + sum bx, both up to i      prod   by the recurrence of eval/reduce.c
//     max    the largest bx up to i
//
// A sort puts -0 before 0 and NaN last in either direction. An order keeps equals as they stand (0 and -0 differ, NaNs
// are all equal), so it is unique. The bound of a sorted lane is the largest of its line: the i-th least of numbers that
// each move by b moves by b at most. That two inexact keys might change places is not followed in `take`.

#include "lower/eval/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

Line line_along(Eval *e, const Type *t, const Val *axis) {
    int  pos = type_axis(t, axis);
    Line l = {1, 1, axis_extent(axis), slot_of(e, axis)->live};
    for (int i = 0; i < t->rank; i++) {
        if (i < pos) l.outer *= axis_extent(t->axis[i]);
        if (i > pos) l.step *= axis_extent(t->axis[i]);
    }
    return l;
}

int64_t line_at(const Line *l, int64_t line) { return line / l->step * l->extent * l->step + line % l->step; }

void junk_dead(Eval *e, const Op *op, int result, void *data) {
    const Val *o = op->out[result];
    if (!all_live(e, &o->type)) junk_lanes(e, &o->type, data, 0, type_lanes(&o->type), o->id);
}

// ---- scans ---------------------------------------------------------------------------------------

typedef struct Scan { TReduce how; const Type *t; double unit; } Scan;
typedef struct Acc { double v, mag, err; int64_t i, count; } Acc;

static Acc scan_start(const Scan *s) {
    Elem e = (Elem)s->t->elem;
    int  bits = elem_bits(e);
    bool sign = elem_is_signed(e);
    int64_t top = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - 1)) - 1;
    Acc a = {0};
    switch (s->how) {
    case TR_prod: a.v = 1; a.i = 1; break;
    case TR_max:  a.v = -INFINITY; a.i = sign ? -top - 1 : 0; break;
    case TR_min:  a.v = INFINITY; a.i = sign ? top : bits == 64 ? -1 : (INT64_C(1) << bits) - 1; break;
    default: break;
    }
    return a;
}

static void scan_float(const Scan *s, Acc *a, double x, double b) {
    if (x != x) b = 0;
    switch (s->how) {
    case TR_sum:
        a->v += x; a->mag += fabs(x); a->err += b; a->count++;
        break;
    case TR_prod:
        a->err = a->err * fabs(x) + (b ? fabs(a->v) * b : 0) + s->unit * fabs(a->v * x);
        a->v *= x;
        break;
    default: {
        bool more = s->how == TR_max, take = more ? x > a->v : x < a->v;
        if (a->v == a->v && (take || x != x || (x == a->v && (signbit(x) != 0) != more))) a->v = x;
        if (b > a->err) a->err = b;
    }
    }
}

static void scan_int(const Scan *s, Acc *a, int64_t x) {
    bool u64 = s->t->elem == EL_u64;
    switch (s->how) {
    case TR_sum:  a->i = (int64_t)((uint64_t)a->i + (uint64_t)x); break;
    case TR_prod: a->i = (int64_t)((uint64_t)a->i * (uint64_t)x); break;
    case TR_max:  if (u64 ? (uint64_t)x > (uint64_t)a->i : x > a->i) a->i = x; break;
    default:      if (u64 ? (uint64_t)x < (uint64_t)a->i : x < a->i) a->i = x; break;
    }
}

static double scan_bound(const Scan *s, const Acc *a) {
    double b = a->err;
    if (s->how == TR_sum && (a->count > 1 || b > 0)) b += (double)a->count * s->unit * a->mag;
    return b == b ? b : INFINITY;
}

void eval_scan(Eval *e, const Step *st) {
    const Op   *op = st->op;
    const Type *t = &op->out[0]->type;
    const Slot *in = slot_of(e, op->in[0]);
    Scan  s = {(TReduce)op->sub, t, elem_unit((Elem)t->elem)};
    bool  real = elem_is_float((Elem)t->elem), before = (op->flags & EXCLUSIVE) != 0, down = (op->flags & REVERSE) != 0;
    Line  l = line_along(e, t, op->in[1]);
    const double *b = in->b ? (const double *)in->b->data : NULL;
    void *out = out_tile(e, op);
    bool  rough = real && (s.how == TR_sum || s.how == TR_prod);
    double *bound = e->bounds && (rough || b) ? out_bound(e, op) : NULL;
    int   size = type_bytes(t);
    junk_dead(e, op, 0, out);
    if (bound) memset(bound, 0, (size_t)type_lanes(t) * sizeof *bound);
    const unsigned char *x = in->t->data;
    for (int64_t line = 0; line < l.outer * l.step; line++) {
        Acc a = scan_start(&s);
        for (int64_t k = 0; k < l.live; k++) {
            int64_t at = line_at(&l, line) + (down ? l.live - 1 - k : k) * l.step, imm;
            Acc old = a;
            double wide = 0;
            if (real) {
                lanes_to_f64(t, 1, x + at * size, &wide);
                scan_float(&s, &a, wide, b ? b[at] : 0);
            } else {
                scan_int(&s, &a, lane_imm(t, x, at));
            }
            const Acc *give = before ? &old : &a;
            if (real) memcpy(&imm, &give->v, sizeof imm);
            else      imm = give->i;
            lane_store(t, out, at, imm);
            if (bound) bound[at] = scan_bound(&s, give);
        }
    }
}

// ---- orders --------------------------------------------------------------------------------------

typedef struct Key { uint64_t rank; int64_t lane; } Key;      // rank: compares as the values do, NaN last or first

static uint64_t rank_of(const Type *t, const void *data, int64_t lane, int flags) {
    uint64_t r;
    if (elem_is_float((Elem)t->elem)) {
        double x;
        lanes_to_f64(t, 1, (const unsigned char *)data + lane * type_bytes(t), &x);
        if (x != x) return flags & NAN_FIRST ? 0 : UINT64_MAX;
        memcpy(&r, &x, sizeof r);
        r = r >> 63 ? ~r : r | UINT64_C(1) << 63;
    } else {
        r = (uint64_t)lane_imm(t, data, lane) ^ (elem_is_signed((Elem)t->elem) ? UINT64_C(1) << 63 : 0);
    }
    return flags & REVERSE ? ~r : r;
}

static int by_rank(const void *p, const void *q) {
    const Key *a = p, *b = q;
    return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank) : (a->lane > b->lane) - (a->lane < b->lane);
}

// Calls back with the live lanes of each line, in order.
typedef void OrderFn(Eval *e, const Op *op, const Line *l, int64_t first, const Key *key, void *out);

static void each_line(Eval *e, const Op *op, OrderFn *fn) {
    const Type *t = &op->in[0]->type;
    const void *x = lanes_of(e, op->in[0]);
    Line  l = line_along(e, t, op->in[1]);
    void *out = out_tile(e, op);
    Tile *keys = tile_new(e, (l.live + 1) * (int64_t)sizeof(Key));
    Key  *key = (Key *)keys->data;
    junk_dead(e, op, 0, out);
    for (int64_t line = 0; line < l.outer * l.step; line++) {
        int64_t first = line_at(&l, line);
        for (int64_t i = 0; i < l.live; i++)
            key[i] = (Key){rank_of(t, x, first + i * l.step, op->flags), i};
        qsort(key, (size_t)l.live, sizeof *key, by_rank);
        fn(e, op, &l, first, key, out);
    }
    tile_drop(e, keys);
}

static void sorted_line(Eval *e, const Op *op, const Line *l, int64_t first, const Key *key, void *out) {
    const unsigned char *x = lanes_of(e, op->in[0]);
    size_t size = (size_t)type_bytes(&op->in[0]->type);
    for (int64_t i = 0; i < l->live; i++)
        memcpy((unsigned char *)out + (size_t)(first + i * l->step) * size,
               x + (size_t)(first + key[i].lane * l->step) * size, size);
}

static void ordered_line(Eval *e, const Op *op, const Line *l, int64_t first, const Key *key, void *out) {
    (void)e; (void)op;
    for (int64_t i = 0; i < l->live; i++) ((int64_t *)out)[first + i * l->step] = key[i].lane;
}

void eval_sort(Eval *e, const Step *s) {
    const Op   *op = s->op;
    const Slot *in = slot_of(e, op->in[0]);
    each_line(e, op, sorted_line);
    if (!e->bounds || !in->b) return;
    const double *b = (const double *)in->b->data;
    double *bound = out_bound(e, op);
    Line    l = line_along(e, &op->in[0]->type, op->in[1]);
    memset(bound, 0, (size_t)type_lanes(&op->out[0]->type) * sizeof *bound);
    for (int64_t line = 0; line < l.outer * l.step; line++) {
        double most = 0;
        int64_t first = line_at(&l, line);
        for (int64_t i = 0; i < l.live; i++) if (b[first + i * l.step] > most) most = b[first + i * l.step];
        for (int64_t i = 0; i < l.live; i++) bound[first + i * l.step] = most;
    }
}

void eval_order(Eval *e, const Step *s) { each_line(e, s->op, ordered_line); }

void eval_take(Eval *e, const Step *s) {
    const Op   *op = s->op;
    const Type *t = &op->out[0]->type, *xt = &op->in[0]->type, *ot = &op->in[1]->type;
    const Slot *in = slot_of(e, op->in[0]);
    const unsigned char *x = in->t->data;
    const int64_t *order = lanes_of(e, op->in[1]);
    unsigned char *out = out_tile(e, op);
    double *bound = e->bounds && in->b ? out_bound(e, op) : NULL;
    size_t  size = (size_t)type_bytes(t);
    int64_t live[MAX_AXES], at[MAX_AXES] = {0}, total = type_lanes(t), along = axis_extent(op->in[2]),
                            there = slot_of(e, op->in[2])->live;
    live_counts(e, t, live);
    junk_dead(e, op, 0, out);
    if (bound) memset(bound, 0, (size_t)total * sizeof *bound);
    for (int64_t lane = 0; lane < total; lane++) {
        int64_t from = 0, k = 0;
        bool dead = false;
        for (int i = 0; i < t->rank; i++) dead |= at[i] >= live[i];
        for (int i = 0; i < ot->rank; i++) k = k * axis_extent(ot->axis[i]) + at[type_axis(t, ot->axis[i])];
        int64_t lane_there = dead ? -1 : order[k];
        if (!dead && there > 0 && (lane_there < 0 || lane_there >= there))
            eval_fault(e, op->span, "element %lld of %lld is taken", (long long)lane_there, (long long)along);
        else if (!dead && there > 0) {
            for (int i = 0; i < xt->rank; i++)
                from = from * axis_extent(xt->axis[i]) +
                       (xt->axis[i] == op->in[2] ? lane_there : at[type_axis(t, xt->axis[i])]);
            memcpy(out + (size_t)lane * size, x + (size_t)from * size, size);
            if (bound) bound[lane] = ((const double *)in->b->data)[from];
        }
        for (int i = t->rank - 1; i >= 0 && ++at[i] == axis_extent(t->axis[i]); i--) at[i] = 0;
    }
}

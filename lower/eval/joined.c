// Scans and reductions by a function of the user's own: its region is run for each two elements that meet, one after the other along the
// axis, live lanes only. Another order of joining is right, too, as the function is associative; where it is so but for rounding, floats
// that are joined get a bound to begin with, half an ulp, which the function's own ops hand on.
#include "lower/eval/eval.h"

#include <math.h>
#include <string.h>

enum { MOST = 8 };

typedef struct Joined {
    Eval   *e;
    const Step *st;
    int     n;                    // values
    bool    real;                 // bounds are wanted of some
    int64_t acc[MOST];            // as in a const
    double  err[MOST];
} Joined;

static double as_float(const Type *t, int64_t imm) {
    double x;
    memcpy(&x, &imm, sizeof x);
    return elem_is_float((Elem)t->elem) ? x : 0;
}

static void give(Joined *j, const Val *arg, int64_t imm, double err) {
    const Type *t = &arg->type;
    Slot s = {.t = tile_new(j->e, 8)};
    lane_store(t, s.t->data, 0, imm);
    if (j->real && elem_is_float((Elem)t->elem)) {
        s.b = tile_new(j->e, 8);
        double x = fabs(as_float(t, imm)) * elem_unit((Elem)t->elem), b = err > 0 || !isfinite(x) ? err : x;
        memcpy(s.b->data, &b, sizeof b);
    }
    slot_set(j->e, arg, &s);
}

// The accumulator comes first.
static bool join(Joined *j, const int64_t *next, const double *err) {
    const Region *r = j->st->op->reg[0];
    for (int i = 0; i < j->n; i++) {
        give(j, r->args.at[i], j->acc[i], j->err[i]);
        give(j, r->args.at[j->n + i], next[i], err[i]);
    }
    if (run_block(j->e, j->st->block[0]) != FLOW_END) return false;
    for (int i = 0; i < j->n; i++) {
        Slot *s = &j->e->carried[i];
        j->acc[i] = lane_imm(&r->args.at[i]->type, s->t->data, 0);
        j->err[i] = 0;
        if (s->b) memcpy(&j->err[i], s->b->data, sizeof j->err[i]);
        slot_clear(j->e, s);
    }
    return true;
}

static void lane_of(const Eval *e, const Op *op, int i, int64_t lane, int64_t *imm, double *err) {
    const Slot *s = &e->slot[op->in[i]->id];
    *imm = lane_imm(&op->in[i]->type, s->t->data, lane);
    *err = s->b ? ((const double *)s->b->data)[lane] : 0;
}

static void put(Joined *j, void *const *out, double *const *bound, int64_t lane) {
    for (int i = 0; i < j->n; i++) {
        lane_store(&j->st->op->out[i]->type, out[i], lane, j->acc[i]);
        if (bound[i]) bound[i][lane] = j->err[i] == j->err[i] ? j->err[i] : INFINITY;
    }
}

// Of another axis: the function is for live elements (it may divide by what they are).
static bool dead_line(Eval *e, const Op *op, int64_t lane) {
    const Type *t = &op->in[0]->type;
    int64_t live[MAX_AXES];
    bool dead = false;
    live_counts(e, t, live);
    for (int i = t->rank - 1; i >= 0; i--) {
        int64_t n = axis_extent(t->axis[i]);
        dead |= t->axis[i] != op->in[op->nout] && lane % n >= live[i];
        lane /= n;
    }
    return dead;
}

static void joined(Eval *e, const Step *st, bool keeps) {
    const Op *op = st->op;
    Joined j = {.e = e, .st = st, .n = op->nout, .real = e->bounds};
    Line  l = line_along(e, &op->in[0]->type, op->in[j.n]);
    bool  down = (op->flags & REVERSE) != 0;
    void *out[MOST];
    double *bound[MOST] = {NULL};
    for (int i = 0; i < j.n; i++) {
        const Type *t = &op->out[i]->type;
        Slot s = {.t = tile_new(e, type_lanes(t) * type_bytes(t))};
        out[i] = s.t->data;
        junk_dead(e, op, i, out[i]);
        if (e->bounds && elem_is_float((Elem)t->elem)) {
            s.b = tile_new(e, type_lanes(t) * (int64_t)sizeof(double));
            bound[i] = memset(s.b->data, 0, (size_t)type_lanes(t) * sizeof(double));
        }
        slot_set(e, op->out[i], &s);
    }
    for (int64_t line = 0; line < l.outer * l.step; line++) {
        if (dead_line(e, op, line_at(&l, line))) continue;
        memset(j.acc, 0, sizeof j.acc);
        memset(j.err, 0, sizeof j.err);
        for (int64_t k = 0; k < l.live; k++) {
            int64_t at = line_at(&l, line) + (down ? l.live - 1 - k : k) * l.step, next[MOST];
            double  err[MOST];
            for (int i = 0; i < j.n; i++) lane_of(e, op, i, at, k ? &next[i] : &j.acc[i], k ? &err[i] : &j.err[i]);
            if (k && !join(&j, next, err)) return;
            if (keeps) put(&j, out, bound, at);
        }
        if (!keeps) put(&j, out, bound, line);
    }
}

void eval_scan_by(Eval *e, const Step *st)   { joined(e, st, true); }
void eval_reduce_by(Eval *e, const Step *st) { joined(e, st, false); }

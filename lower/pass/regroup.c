// Whether a loop comes to the same where its trips take other stretches of the same row.
//
//     for n in N by 256 { s += sum(x[m, n] over n);  y[m, n] = 2 * x[m, n]; }                                  the same
//     for n in N by 256 { y[m, n] = x[m, n] / max(x[m, n] over n); }                                           not: blocks that the program names
//     for n in N by 256 { t = max(top, max(x[m, n] over n));  den = den * exp(top - t) + sum(exp(x[m, n] - t) over n);  top = t; }   the same
//
// It does if what it stores, and keeps, is made of elements and their places alone, and if what it carries is
//
//     joined     s = s + sum(v over n), also max, min, prod ..             in whatever order the row's elements come
//     rescaled   s = s * e(top - t) + sum(e(v - t) * w over n)             e: exp or exp2 of so many times it; top: joined by max, t: after this trip
//     running    s = s + sum(v over n) beside s + cumsum(v over n)         which is of the element
//     brought    a tile that the trip before has loaded
//
// `joined` is weaker than rule 1 of carried.c: other values may read s, through a running sum, since the order of the row's elements stays.
//
// Anything else may show where a trip begins: scales of blocks, a trip's number, a maximum of sums.
#include "lower/pass/carried.h"
#include "lower/pass/passes.h"
#include "lower/pass/reduction.h"

#include <math.h>

typedef struct Trips { const Op *loop; uint8_t *known; } Trips;       // known, by value: 1: of the element; 2: not, or being looked at

static int carried_at(const Op *loop, const Val *v) {
    const Region *r = loop->reg[0];
    for (uint32_t i = 1; i < r->args.n; i++) if (r->args.at[i] == v) return (int)i - 1;
    return -1;
}

static bool outside(const Op *loop, const Val *v) {
    if (v->def) for (const Op *d = v->def; d; d = d->parent->owner) if (d == loop) return v->def == loop;
    if (v == loop->reg[0]->args.at[0] || carried_at(loop, v) >= 0) return false;
    return true;
}

static bool of_element(Trips *t, const Val *v);

// A sum of the trip's elements: itself, times what all trips have, or in a wider type.
static const Val *folded(Trips *t, const Val *v, TReduce kind) {
    const Op *d = v->def;
    if (!d || outside(t->loop, v)) return NULL;
    if (d->code == OP_T_reduce) return d->sub == kind && of_element(t, d->in[0]) ? d->in[0] : NULL;
    if (d->code == OP_T_cast && (kind == TR_max || kind == TR_min)) return folded(t, d->in[0], kind);
    if (kind != TR_sum || d->code != OP_T_binary || d->sub != OP_mul) return NULL;
    for (int i = 0; i < 2; i++) if (outside(t->loop, d->in[i])) return folded(t, d->in[!i], kind);
    return NULL;
}

// The tile whose fold the i-th of what is carried joins; NULL: it is none such.
static const Val *joined(Trips *t, int i, TReduce *kind) {
    const Val *arg = t->loop->reg[0]->args.at[1 + i], *next = t->loop->reg[0]->last->in[i];
    const Op *d = next->def;
    if (!reduce_joins(arg, next, kind) || d->parent != t->loop->reg[0]) return NULL;
    if (d->nin == 2) return folded(t, d->in[d->in[0] == arg], *kind);
    for (int k = 0; d->code == OP_T_fun && k < 2; k++) if (outside(t->loop, d->in[k])) return folded(t, d->in[!k], TR_sum);
    return NULL;
}

// s + cumsum(v), where s is the sum of all v before the trip.
static bool running(Trips *t, const Op *d) {
    for (int k = 0; k < 2; k++) {
        const Op *scan = d->in[!k]->def;
        int i = carried_at(t->loop, d->in[k]);
        TReduce kind, as;
        if (i < 0 || !scan || scan->code != OP_T_scan || scan->flags & REVERSE) continue;
        return reduce_joins(d->in[k], d->out[0], &as) && as == (TReduce)scan->sub && joined(t, i, &kind) == scan->in[0] && kind == as;
    }
    return false;
}

static const Op *renamed_load(const Val *v) {
    const Op *d = v->def && v->def->code == OP_T_rename ? v->def->in[0]->def : NULL;
    return d && d->code == OP_T_load ? d : NULL;
}

// What is loaded in one trip for the next, as before the loop for the first.
static bool brought(Trips *t, int i) {
    const Op *first = renamed_load(t->loop->in[3 + i]), *next = renamed_load(t->loop->reg[0]->last->in[i]);
    return first && next && first->in[0] == next->in[0] && region_uses(t->loop->parent, t->loop->out[i]) == 0 && of_element(t, next->out[0]);
}

static bool made_of_elements(Trips *t, const Val *v) {
    const Op *d = v->def;
    int i = carried_at(t->loop, v);
    if (i >= 0) return t->loop->reg[0]->last->in[i] == v || brought(t, i);
    if (!d || d->parent != t->loop->reg[0]) return false;
    if (d->nin == 2 && op_is_elementwise(d) && running(t, d)) return true;
    switch (d->code) {
    case OP_T_index: case OP_T_live: case OP_T_keep_get: return true;
    case OP_T_rename: return of_element(t, d->in[0]);
    case OP_T_load: break;
    default: if (d->nin && !op_is_elementwise(d)) return false;
    }
    for (int k = d->code == OP_T_load; k < d->nin; k++) if (!of_element(t, d->in[k])) return false;
    return true;
}

// Made of a row's element and its place alone.
static bool of_element(Trips *t, const Val *v) {
    if (outside(t->loop, v)) return true;
    if (!t->known[v->id]) {
        t->known[v->id] = 2;
        if (made_of_elements(t, v)) t->known[v->id] = 1;
    }
    return t->known[v->id] == 1;
}

// ---- sums that are rescaled ------------------------------------------------------------------------

// exp(by * times * (from - top)), the first sum of a row with its greatest element taken off.
typedef struct Power { const Val *from, *top, *times; double by; } Power;

static bool number(const Val *v, double *x) {
    const Op *d = v->def;
    while (d && (d->code == OP_T_splat || d->code == OP_T_cast)) d = d->in[0]->def;
    if (!d || d->code != OP_T_const || !elem_is_float((Elem)d->out[0]->type.elem)) return false;
    union { int64_t i; double f; } c = {d->imm};
    *x = c.f;
    return true;
}

static bool power(const Op *loop, const Val *v, Power *p) {
    const Op *d = v->def;
    if (!d || d->code != OP_T_fun || (d->sub != TF_exp && d->sub != TF_exp2)) return false;
    *p = (Power){.by = d->sub == TF_exp ? 1 : 0.69314718055994531};
    for (d = d->in[0]->def; d && d->code == OP_T_binary && d->sub == OP_mul;) {
        double x;
        int k = number(d->in[0], &x) || (!number(d->in[1], &x) && outside(loop, d->in[0])) ? 0 : 1;
        if (number(d->in[k], &x)) p->by *= x;
        else if (outside(loop, d->in[k]) && !p->times) p->times = d->in[k];
        else return false;
        d = d->in[!k]->def;
    }
    if (!d || d->code != OP_T_binary || d->sub != OP_sub) return false;
    p->from = d->in[0];
    p->top = d->in[1];
    while (p->top->def && p->top->def->code == OP_T_splat) p->top = p->top->def->in[0];
    return true;
}

static bool same_base(const Power *a, const Power *b) {
    return a->top == b->top && a->times == b->times && fabs(a->by - b->by) <= 1e-6 * fabs(a->by);
}

// Powers of what elements have more than `scale` takes off, times what is the elements' own.
static bool weighted(Trips *t, const Val *v, const Power *scale) {
    Power p;
    const Op *d = v->def;
    if (power(t->loop, v, &p)) return same_base(&p, scale) && of_element(t, p.from);
    for (int k = 0; d && d->code == OP_T_binary && d->sub == OP_mul && k < 2; k++)
        if (of_element(t, d->in[k])) return weighted(t, d->in[!k], scale);
    return false;
}

static bool rescaled(Trips *t, int i) {
    const Region *r = t->loop->reg[0];
    const Val *arg = r->args.at[1 + i], *with = NULL, *sum = NULL;
    const Op *d = r->last->in[i]->def;
    if (!d || d->parent != r) return false;
    for (int k = 0; k < 2 && !with; k++) {                     // arg * with + sum, in one operation or two
        const Op *times = d->code == OP_T_binary && d->sub == OP_add ? d->in[k]->def : d->code == OP_T_fun && d->sub == TF_fma ? d : NULL;
        if (!times || (times != d && (times->code != OP_T_binary || times->sub != OP_mul)) || (times->in[0] != arg && times->in[1] != arg)) continue;
        with = times->in[times->in[0] == arg];
        sum = times == d ? d->in[2] : d->in[!k];
    }
    Power scale;
    TReduce kind;
    if (!with || !sum->def || sum->def->code != OP_T_reduce || sum->def->sub != TR_sum || !power(t->loop, with, &scale)) return false;
    int top = carried_at(t->loop, scale.from);
    return top >= 0 && r->last->in[top] == scale.top && joined(t, top, &kind) && kind == TR_max && weighted(t, sum->def->in[0], &scale);
}

// ---- the whole loop --------------------------------------------------------------------------------

bool trips_regroup(const Fn *f, const Op *loop) {
    Trips t = {loop, NEW_N(f->arena, uint8_t, f->nvals + 1)};
    const Region *r = loop->reg[0];
    TReduce kind;
    for (const Op *op = r->first; op; op = op->next) {
        if (op->nreg) return false;
        for (int k = 1; op->code == OP_T_store && k < op->nin; k++) if (!of_element(&t, op->in[k])) return false;
        if (op->code == OP_T_keep_put && !of_element(&t, op->in[2])) return false;
    }
    for (int i = 0; i < loop->nout; i++)
        if (r->last->in[i] != r->args.at[1 + i] && !joined(&t, i, &kind) && !rescaled(&t, i) && !brought(&t, i)) return false;
    return true;
}

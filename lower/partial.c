// Sums in a loop, lane by lane until it ends.
//
//     acc = 0                                          p = axis of as many lanes, all alive
//     for n0 .. N by B {                               part = splat 0 over p
//         n = axis n0, N {B}                           for n0 .. N by B {
//         acc = acc + sum(x[n] over n)          ->         n = axis n0, N {B}
//     }                                                    part = part + rename(live n ? x[n] : 0, n, p)
//     use acc                                          }
//                                                      use 0 + sum(part over p)
//
// A sum across lanes costs shuffles and, with several warps, shared memory and a barrier in every trip, while loads
// wait; kept apart for each lane, trips follow each other freely, and the lanes are joined once. The same holds for
// products, extremes and truths. Each partial sum still has its order, so results are the same from run to run.
//
// What a trip may do with the accumulator is join it with the reduction, and nothing else: where it is read, as an
// online softmax reads its maximum to rescale the sum, it must be whole. Left alone too are reductions over axes that
// lie in a lane's own registers anyway (memory is contiguous along an axis that stays), accumulators that would take
// more than a few registers a lane, and loops of products, whose registers are spoken for.
#include "lower/access.h"
#include "lower/passes.h"
#include "lower/reduction.h"

enum { MOST_LANES = 8192 };           // of all accumulators of a loop: 32 registers in 8 warps

typedef struct Partial {
    Fn    *f;
    Facts *facts;
    Op    *loop;
    int64_t lanes;                    // of the loop's accumulators so far
} Partial;

static int uses(const Region *r, const Val *v) {
    int n = 0;
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op))
        for (int i = 0; i < op->nin; i++) n += op->in[i] == v;
    return n;
}

static bool plain_loop(const Op *loop) {
    if (loop->code != OP_T_for || loop->reg[0]->last->code != OP_T_yield) return false;
    for (const Op *op = op_walk(loop->reg[0], NULL); op; op = op_walk(loop->reg[0], op))
        if (op->code == OP_T_dot || op_target(op) == loop) return false;
    return true;
}

// The largest load that v is made of, elementwise or through a part that is kept apart already.
static const Op *source(const Val *v, const Op *best, int depth) {
    const Op *d = v->def;
    if (!d || depth > 40 || v->type.kind != TY_TILE || !v->type.rank) return best;
    if (d->code == OP_T_load) return !best || type_lanes(&v->type) > type_lanes(&best->out[0]->type) ? d : best;
    if (d->code == OP_T_reduce || !op_has(d, 'P')) return best;
    for (int i = 0; i < d->nin; i++) best = source(d->in[i], best, depth + 1);
    return best;
}

// The reduced axes lie across lanes or warps: memory is contiguous along one of them, or what stays is not enough to give
// each thread (of 32 elements) a vector of its own.
static bool across_lanes(Partial *p, const Op *red) {
    if (red->out[0]->type.rank == 0) return true;
    const Op *load = source(red->in[0], NULL, 0);
    if (!load) return false;
    Access a;
    access_of(p->facts, load, &a);
    for (int i = 1; i < red->nin; i++) if (a.contiguous >= 0 && red->in[i] == a.type.axis[a.contiguous]) return true;
    int64_t threads = type_lanes(&red->in[0]->type) / 32;
    return type_lanes(&red->out[0]->type) < threads * (16 / elem_bytes(a.elem));
}

// The reduction that variable i of the loop is only ever joined with, or NULL.
static Op *joined(Partial *p, int i) {
    Region *r = p->loop->reg[0];
    const Val *v = r->args.at[1 + i], *next = r->last->in[i];
    TReduce kind;
    if (v->type.ptr || uses(r, v) != 1 || uses(r, next) != 1 || !reduce_joins(v, next, &kind) || next->def->parent != r) return NULL;
    if (next->def->code != OP_T_binary && next->def->code != OP_T_fun) return NULL;
    if (next->def->code == OP_T_fun && next->def->sub == TF_fma) return NULL;
    Op *red = next->def->in[next->def->in[0] == v]->def;
    if (!red || red->code != OP_T_reduce || red->parent != r || red->sub != kind || uses(r, red->out[0]) != 1) return NULL;
    if (!type_equal(&red->out[0]->type, &v->type)) return NULL;
    int64_t lanes = type_lanes(&red->in[0]->type);
    if (lanes < 32 || p->lanes + lanes > MOST_LANES || !across_lanes(p, red)) return NULL;
    p->lanes += lanes;
    return red;
}

// Variable i becomes a tile over the lanes of the reduction `red`.
static void keep_apart(Partial *p, int i, Op *red) {
    Op  *loop = p->loop, *join = loop->reg[0]->last->in[i]->def;
    Val *arg = loop->reg[0]->args.at[1 + i], *init = loop->in[3 + i], *x = red->in[0], *over[1 + MAX_AXES];
    TReduce kind = (TReduce)red->sub;
    Elem e = (Elem)x->type.elem;
    Builder out = {p->f, NULL, loop, red->span}, in = {p->f, NULL, join, red->span};
    for (int k = 1; k < red->nin; k++) {
        Val *axis = red->in[k];
        Val *lasting = b_op(&out, OP_T_axis, 0, axis->type, 2, (Val *[]){b_const(&out, EL_index, 0), b_const(&out, EL_index, axis_extent(axis))});
        lasting->def->imm = axis_extent(axis);
        lasting->def->flags |= AXIS_FULL;
        lasting->name = axis->name;
        if (!(axis->def->flags & AXIS_FULL)) {
            Val *alive = b_op(&in, OP_T_live, 0, type_tile(EL_bool, 1, &axis), 1, &axis);
            x = b_op(&in, OP_T_select, 0, x->type, 3, (Val *[]){alive, x, b_number(&in, type_scalar(e), reduce_neutral(kind, e))});
        }
        Type t = type_union(type_minus(x->type, 1, &axis), type_tile(e, 1, &lasting));
        x = b_op(&in, OP_T_rename, 0, t, 3, (Val *[]){x, axis, lasting});
        over[k] = lasting;
    }
    loop->in[3 + i] = b_number(&out, x->type, reduce_neutral(kind, e));
    arg->type = loop->out[i]->type = x->type;
    loop->reg[0]->last->in[i] = reduce_join(&in, kind, arg, x);
    Op *after = loop->next;
    Builder end = {p->f, loop->parent, after, red->span};
    Val *result = loop->out[i], *whole;
    over[0] = result;
    Op *sum = op_new(p->f, OP_T_reduce, red->span, red->nin, over, 1);
    sum->sub = red->sub;
    sum->out[0]->type = red->out[0]->type;
    replace_uses(&p->f->body, result, whole = val_new(p->f, red->out[0]->type));       // a place holder, until the sum is there
    sum->in[0] = result;
    op_before(after, sum);
    replace_uses(&p->f->body, whole, reduce_join(&end, kind, init, sum->out[0]));
    op_remove(join);
    op_remove(red);
}

static bool loops(Fn *f, Facts *facts, Region *r) {
    bool changed = false;
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nreg; i++) changed |= loops(f, facts, op->reg[i]);
        if (!plain_loop(op)) continue;
        Partial p = {f, facts, op, 0};
        for (int i = 0; i < op->nout; i++) {
            Op *red = joined(&p, i);
            if (red) keep_apart(&p, i, red);
            changed |= red != NULL;
        }
    }
    return changed;
}

bool partial(Fn *f) { return loops(f, facts_new(f), &f->body); }

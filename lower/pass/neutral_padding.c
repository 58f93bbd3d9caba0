// Dead lanes: puts neutral elements where a reduction or a contraction would count them.
//
// Until here no value says what its dead lanes hold, and none may depend on it. A sum needs 0 there, a
// maximum -inf, a contraction 0 in both operands. Where the producer is known to leave just that (a load
// leaves 0 in lanes it does not touch), nothing is done; elsewhere a select on the axis's live lanes is
// inserted, right before the use. Axes whose lanes are all alive cost nothing: the code generator sees a
// constant condition.
//
// Softmax in a loop meets its demands once: the maximum wants -inf, and exp(x - maximum) then is 0 by itself, for the sum and
// for the product (attention D128, causal, 1024 keys, on an H200, with one comparison for both masks (merge_masks.c): 295 us; with a
// select for each demand 313).
//
//     %s = reduce.sum %e, %n           %l = live %n   %z = select %l, %e, 0   %s = reduce.sum %z, %n
//
// Layouts then may have more places along an axis than it has lanes: 8 rows of a product stand in a fragment of 16, 16 rows
// of four warps in four of these. Such places are dead, too, on axes whose lanes are all alive: once layouts are known,
// what is reduced there gets its neutral elements (lanes_beyond).
#include "lower/facts/facts.h"
#include "lower/layout/layout.h"
#include "lower/pass/passes.h"
#include "lower/pass/reduction.h"

#include <math.h>
#include <string.h>

typedef struct Dead { bool known; double c; } Dead;      // what the dead lanes along an axis hold

static double const_value(const Op *d) {
    if (!elem_is_float((Elem)d->out[0]->type.elem)) return (double)d->imm;
    double x;
    memcpy(&x, &d->imm, sizeof x);
    return x;
}

// t >= every live lane of v, or of v * by: a maximum that v went into.
static bool covers(const Val *t, const Val *v, const Val *by) {
    const Op *d = t->def;
    if (!d) return false;
    if (d->code == OP_T_reduce) return !by && d->sub == TR_max && d->in[0] == v;
    if (d->code == OP_T_binary) return by && d->sub == OP_mul && d->in[1] == by && covers(d->in[0], v, NULL);
    return d->code == OP_T_fun && d->sub == TF_max && (covers(d->in[0], v, by) || covers(d->in[1], v, by));
}

// x * c - t with c positive and t at least every live lane of x * c, which is -inf where x is (passes extremes and contract).
static bool below_maximum(Facts *facts, const Op *fma) {
    const Op *minus = fma->in[2]->def;
    return facts && minus && minus->code == OP_T_unary && minus->sub == OP_neg && covers(minus->in[0], fma->in[0], fma->in[1]) && fact_positive(facts, fma->in[1]);
}

// A row that lies in its places as it does in memory has something else in those before and behind it.
static bool has_neighbours(const Val *axis) { return axis->def->nin > 2; }

static Dead dead_value(Facts *facts, const Val *v, const Val *axis) {
    const Op *d = v->def;
    Dead a, b, none = {false, 0};
    if (!d) return none;
    switch (d->code) {
    case OP_T_const: return (Dead){true, const_value(d)};
    case OP_T_keep_get: return (Dead){!has_neighbours(axis) && type_axis(&v->type, axis) >= 0, 0};           // it was loaded, without an else
    case OP_T_load:  return (Dead){!(d->flags & HAS_ELSE) && !has_neighbours(axis) && type_axis(&v->type, axis) >= 0, 0};
    case OP_T_splat:
    case OP_T_rename:
        return d->in[0]->def && d->in[0]->def->code == OP_T_const ? (Dead){true, const_value(d->in[0]->def)} : none;
    case OP_T_cast:
        a = dead_value(facts, d->in[0], axis);
        return a.known && (a.c == 0 || isinf(a.c)) && elem_is_float((Elem)v->type.elem) ? a : none;
    case OP_T_select:
        if (d->in[0]->def && d->in[0]->def->code == OP_T_live && d->in[0]->def->in[0] == axis)
            return dead_value(facts, d->in[2], axis);
        a = dead_value(facts, d->in[1], axis);
        b = dead_value(facts, d->in[2], axis);
        return a.known && b.known && a.c == b.c ? a : none;
    case OP_T_binary:
        if (!elem_is_float((Elem)v->type.elem)) return none;
        a = dead_value(facts, d->in[0], axis);
        if (d->sub == OP_sub && a.known && a.c == -INFINITY && covers(d->in[1], d->in[0], NULL)) return a;
        b = dead_value(facts, d->in[1], axis);
        if (!a.known || !b.known) return none;
        if (d->sub == OP_add) return (Dead){true, a.c + b.c};
        if (d->sub == OP_sub) return (Dead){true, a.c - b.c};
        if (d->sub == OP_mul) return (Dead){true, a.c * b.c};
        return none;
    case OP_T_unary:
        a = dead_value(facts, d->in[0], axis);
        return d->sub == OP_neg && a.known ? (Dead){true, -a.c} : none;
    case OP_T_fun:
        if (d->sub == TF_fma && d->nin == 3) {
            a = dead_value(facts, d->in[0], axis);
            if (a.known && a.c == -INFINITY && below_maximum(facts, d)) return a;
            Dead c = dead_value(facts, d->in[2], axis);
            b = dead_value(facts, d->in[1], axis);
            return a.known && b.known && c.known ? (Dead){true, a.c * b.c + c.c} : none;
        }
        if (d->sub == TF_exp || d->sub == TF_exp2) {
            a = dead_value(facts, d->in[0], axis);
            return (Dead){a.known && a.c == -INFINITY, 0};
        }
        return none;
    default: return none;
    }
}

// Its layout has places past the last of an axis that has no dead lanes.
static bool stands_beyond(const Val *x, const Val *axis) {
    return x->layout && layout_span(x->layout, type_axis(&x->type, axis)) > axis_extent(axis);
}

// Is it what an op of this code makes, or computed of that element by element?
static bool made_of(const Val *v, const Val *axis, OpCode code) {
    const Op *d = v->def;
    if (!d || type_axis(&v->type, axis) < 0) return false;
    if (d->code == code) return true;
    bool each = d->code == OP_T_cast || d->code == OP_T_binary || d->code == OP_T_unary || d->code == OP_T_fun || d->code == OP_T_select || d->code == OP_T_convert;
    for (int i = 0; each && i < d->nin; i++) if (made_of(d->in[i], axis, code)) return true;
    return false;
}

// The operand with `fill` in the dead lanes of the axes.
static Val *filled(Fn *f, Facts *facts, Op *at, Val *x, Val *const *axes, int n, double fill) {
    Builder b = {f, NULL, at, at->span};
    for (int i = 0; i < n; i++) {
        Val *axis = axes[i];
        if (type_axis(&x->type, axis) < 0) continue;
        Dead d = dead_value(facts, x, axis);
        bool pow2 = (axis_extent(axis) & (axis_extent(axis) - 1)) == 0;
        bool full = (axis->def->flags & AXIS_FULL) && pow2;
        // A load leaves 0 in places past the axis. A conversion goes through shared memory, where nothing stands for those; a ring (recurrence.c)
        // has the next row there.
        bool moved = x->layout && made_of(x, axis, OP_T_convert);
        if (x->layout ? !stands_beyond(x, axis) || !(full || moved || (!pow2 && made_of(x, axis, OP_T_buffer_row))) : full) continue;
        if (d.known && d.c == fill && (fill != 0 || !signbit(d.c))) continue;
        Val *alive = b_op(&b, OP_T_live, 0, type_tile(EL_bool, 1, &axis), 1, &axis);
        Val *c = b_number(&b, type_scalar((Elem)x->type.elem), fill);
        const Layout *l = x->layout;
        if (l) alive->layout = layout_project(f->arena, l, &x->type, &alive->type);
        x = b_op(&b, OP_T_select, 0, x->type, 3, (Val *[]){alive, x, c});
        x->layout = l;
    }
    return x;
}

// A trip of a loop over the axis has at least one live lane.
static bool never_empty(const Val *axis) {
    const Val *lo = axis->def->in[0];
    const Op *loop = lo->def ? NULL : lo->region->owner;
    return loop && loop->code == OP_T_for && lo == loop->reg[0]->args.at[0] && axis->def->in[1] == loop->in[1];
}

// After a maximum, everybody may as well use what it used: -inf in the dead lanes, so that exp(x - max) is 0 there by
// itself. (It is NaN where no live lane is above -inf, but then it is NaN in those too.)
static void use_from_here(Op *op, Val *from, Val *to) {
    for (Op *o = op->next; o; o = o->next) {
        for (int i = 0; i < o->nin; i++) if (o->in[i] == from) o->in[i] = to;
        for (int i = 0; i < o->nreg; i++) replace_uses(o->reg[i], from, to);
    }
}

static int counted_operands(const Fn *f, const Op *op) {
    if (op->code == OP_T_reduce || (op->code == OP_T_scan && (op->flags & REVERSE || has_neighbours(op->in[1]) || scan_total(op)))) return 1;
    return op->code == OP_T_dot && f->level < 2 ? 2 : 0;       // fragments of operands have zeros past an axis's end
}

// Scores of short heads, by two groups of 64 rows that take turns (specialize/softmax_overlap.c), without a mask of their own. ptxas decides where among the exponentials
// of a trip without masks the wait for the next scores lies by what stands in the body with them: behind all of them if each demand has its select there,
// else amid them (B8 H12 S1024 D64 on an H200: 66.2 and 69.3 us; three groups and heads of 128 want one select: 1 % less. 2026-11-28).
static bool two_groups_in_turns(const Fn *f, const Val *scores, const Val *keys) {
    enum { ROWS = 128, SHORT = 64 };
    const Op *d = scores->def;
    if (!f->target || !f->target->has_wgmma) return false;
    while (d && d->code == OP_T_binary && d->sub == OP_mul) d = d->in[0]->def;
    if (!d || d->code != OP_T_dot) return false;
    int64_t contracted = 1;
    for (int i = 2 + (d->flags & HAS_ACC ? 1 : 0); i < d->nin; i++) contracted *= axis_extent(d->in[i]);
    return contracted <= SHORT && d->out[0]->type.rank == 2 && type_lanes(&d->out[0]->type) == ROWS * axis_extent(keys);
}

static bool fill_region(Fn *f, Facts *facts, Region *r) {
    bool changed = false;
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nreg; i++) changed |= fill_region(f, facts, op->reg[i]);
        int values = counted_operands(f, op), first = values + (op->flags & HAS_ACC ? 1 : 0);
        for (int i = 0; i < values; i++) {
            double fill = op->code == OP_T_dot ? 0 : reduce_neutral((TReduce)op->sub, (Elem)op->in[i]->type.elem);
            Val *x = filled(f, facts, op, op->in[i], op->in + first, op->nin - first, fill);
            Val *old = op->in[i];
            changed |= x != old;
            op->in[i] = x;
            bool maximum = op->code == OP_T_reduce && op->sub == TR_max && op->nin == 2 && elem_is_float((Elem)x->type.elem);
            if (x != old && maximum && never_empty(op->in[1]) && !two_groups_in_turns(f, old, op->in[1])) use_from_here(op, old, x);
        }
    }
    return changed;
}

bool lanes(Fn *f) { return fill_region(f, facts_new(f), &f->body); }
void lanes_beyond(Fn *f) { fill_region(f, NULL, &f->body); }

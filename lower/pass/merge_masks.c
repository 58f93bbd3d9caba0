// One comparison of two: a causal mask, and the lanes that an axis has.
//
//     s = select(index n <= x, s, -inf)                s = select(index n <= min(x, end - 1), s, -inf)
//     s = select(live n, s, -inf)              ->
//
// n = axis lo, end. What the body without masks (peel.c) leaves to its other one: there each element costs one comparison and one select. A
// comparison from below (a window's) stays as it is beside it. Only beside products by wgmma, whose tiles have many elements a row: elsewhere the
// axis's end is compared anyway, for what is loaded and stored; and attention by mma.sync has no register for the least of two (12 bytes of spills over
// pages on sm_120a, ptxas 13.0).
#include "lower/facts/facts.h"
#include "lower/pass/passes.h"

static bool compares(const Op *d, const Val *axis, bool *lower) {
    if (!d || d->code != OP_T_binary || (d->sub != OP_le && d->sub != OP_lt) || !d->in[0]->def || d->in[0]->def->code != OP_T_index) return false;
    *lower = d->sub == OP_le;
    return d->in[0]->def->in[0] == axis && type_axis(&d->in[1]->type, axis) < 0;
}

// Its lanes are all that its layout will have places for, from the first on.
static bool whole(const Val *axis) { return axis->def->nin == 2 && (axis_extent(axis) & (axis_extent(axis) - 1)) == 0; }

// The condition, and that the axis has the lane; NULL where neither is such a comparison.
static Val *bounded(Builder *b, const Val *cond, const Val *axis) {
    const Op *d = cond->def;
    bool lower;
    if (d && d->code == OP_T_binary && (d->sub == OP_and || d->sub == OP_land)) {
        for (int i = 0; i < 2; i++) {
            Val *v = bounded(b, d->in[i], axis);
            if (v) return b_op(b, OP_T_binary, d->sub, cond->type, 2, (Val *[]){v, d->in[!i]});
        }
        return NULL;
    }
    if (!compares(d, axis, &lower)) return NULL;
    Val *end = axis_hi(axis);
    if (lower) end = b_binary(b, OP_sub, end, b_const(b, EL_index, 1));
    Val *x = b_op(b, OP_T_fun, TF_min, d->in[1]->type, 2, (Val *[]){d->in[1], end});
    return b_op(b, OP_T_binary, d->sub, d->out[0]->type, 2, (Val *[]){d->in[0], x});
}

static bool join(Fn *f, Op *op) {
    const Op *live = op->in[0]->def, *in = op->in[1]->def;
    if (!live || live->code != OP_T_live || !in || in->code != OP_T_select || in->in[2] != op->in[2] || !whole(live->in[0])) return false;
    Builder b = {f, op->parent, op, op->span};
    Val *cond = bounded(&b, in->in[0], live->in[0]);
    if (!cond) return false;
    op->in[0] = cond;
    op->in[1] = in->in[1];
    return true;
}

static bool multiplies(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_wgmma) return true;
    return false;
}

bool masks(Fn *f) {
    bool changed = false;
    if (!multiplies(f)) return false;
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_select) changed |= join(f, op);
    return changed;
}

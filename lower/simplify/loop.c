// hoist and contract.
//
// hoist moves what a loop does not change in front of it: pure ops and loads of read-only tensors whose
// operands and axes are all made outside. Inner loops go first, so that a value climbs as far as it can.
// Moving must not trap where the program would not: an integer division moves only when its divisor is a
// constant, or has divided something before the loop. Values made under an `if` stay there.
//
// contract turns a product that is only added to something into an fma, which rounds once:
//
//     a * b + c  ->  fma(a, b, c)      c - a * b  ->  fma(-a, b, c)      a * b - c  ->  fma(a, b, -c)
//
// It is a pass, not a rule: results change, and --math=strict leaves it out. Where both operands of an
// addition are such products, the left one is taken.

#include "lower/simplify/simplify.h"

// ---- hoist ---------------------------------------------------------------------------------------

static bool outside(const Val *v, const Op *loop) {
    const Region *r = v->def ? v->def->parent : v->region;
    for (; r && r->owner; r = r->owner->parent)
        if (r->owner == loop) return false;
    return true;
}

// Something is divided by v before the loop, whatever its trips do: another division by v traps no more.
static bool divided_before(const Val *v, const Op *loop) {
    for (const Op *at = loop; at; at = at->parent->owner)
        for (const Op *op = at->prev; op; op = op->prev)
            if (op->code == OP_T_binary && (op->sub == OP_div || op->sub == OP_rem) && op->in[1] == v) return true;
    return false;
}

static bool may_move(const Fn *f, const Op *op, const Op *loop) {
    int64_t by;
    if (op->nreg || op->nout != 1 || !(op_has(op, 'P') || reads_only(f, op))) return false;
    bool divides = op->code == OP_T_binary && (op->sub == OP_div || op->sub == OP_rem) &&
                   elem_is_int((Elem)op->in[1]->type.elem);
    return !divides || (is_const(op->in[1], &by) && by != 0) || divided_before(op->in[1], loop);
}

static bool invariant(const Fn *f, const Op *op, const Op *loop) {
    if (!may_move(f, op, loop)) return false;
    for (int i = 0; i < op->nin; i++)
        if (!outside(op->in[i], loop)) return false;
    const Type *t = &op->out[0]->type;
    for (int i = 0; i < t->rank && t->kind == TY_TILE; i++)
        if (!outside(t->axis[i], loop)) return false;
    return true;
}

static bool hoist_region(Fn *f, Region *r) {
    bool moved = false;
    for (Op *op = r->first; op; op = op->next) {
        for (int k = 0; k < op->nreg; k++) moved |= hoist_region(f, op->reg[k]);
        if (op->code != OP_T_for && op->code != OP_T_while) continue;
        for (int k = 0; k < op->nreg; k++)
            for (Op *in = op->reg[k]->first, *next; in; in = next) {
                next = in->next;
                if (!invariant(f, in, op)) continue;
                op_remove(in);
                op_before(op, in);
                moved = true;
            }
    }
    return moved;
}

bool hoist(Fn *f) {
    return hoist_region(f, &f->body);
}

// ---- contract ------------------------------------------------------------------------------------

static const Op *lone_product(const uint32_t *uses, const Op *at, int i) {
    const Op *mul = at->in[i]->def;
    bool ok = mul && mul->code == OP_T_binary && mul->sub == OP_mul && mul->parent == at->parent && uses[at->in[i]->id] == 1;
    return ok ? mul : NULL;
}

static Val *negated(Builder *b, Val *v) {
    return b_op(b, OP_T_unary, OP_neg, v->type, 1, &v);
}

static bool contract_op(Fn *f, const uint32_t *uses, Op *op) {
    if (op->code != OP_T_binary || (op->sub != OP_add && op->sub != OP_sub)) return false;
    const Type *t = &op->out[0]->type;
    if (t->ptr || (t->elem != EL_f32 && t->elem != EL_f64)) return false;
    int left = lone_product(uses, op, 0) ? 1 : 0;
    const Op *mul = left ? lone_product(uses, op, 0) : lone_product(uses, op, 1);
    if (!mul) return false;
    Builder b = {f, op->parent, op, op->span};
    Val *x = mul->in[0], *y = mul->in[1], *c = op->in[left];
    if (op->sub == OP_sub && left) c = negated(&b, c);
    if (op->sub == OP_sub && !left) {
        Val **less = y->type.rank < x->type.rank ? &y : &x;
        *less = negated(&b, *less);
    }
    op->code = OP_T_fun;
    op->sub = TF_fma;
    op->flags = 0;
    op->in[0] = x;
    op->in[1] = y;
    op_add_operand(f, op, c);
    op_remove(mul->out[0]->def);
    return true;
}

bool contract(Fn *f) {
    bool changed = false;
    const uint32_t *uses = count_uses(f);
    for (Op *op = op_walk(&f->body, NULL), *next; op; op = next) {
        next = op_walk(&f->body, op);
        changed |= contract_op(f, uses, op);
    }
    return changed;
}

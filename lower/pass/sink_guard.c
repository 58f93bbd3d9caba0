// A loop of products inside an `if`, as a program writes it that may have nothing to do:
//
//     if lo < hi {                                    m = axis lo, min(lo + BM, hi)
//         m = axis lo, min(lo + BM, hi)               acc = for k in 0 .. (lo < hi ? K : 0) { .. }
//         acc = for k in 0 .. K { .. }        ->      if lo < hi {
//         y[m, n] = acc                                   y[m, n] = acc
//     }                                               }
//
// Roles want the loop at the top of the program, and what comes behind it there may have the memory of its rings. What
// stands before it in the `if` is arithmetic and loads, which may be done in any case (no index leaves its tensor); the
// loop has no trips where the condition does not hold; what follows stays where it is.
#include "lower/pass/passes.h"

bool has_products(const Region *r) {
    for (const Op *op = r->first; op; op = op->next) {
        if (op->code == OP_T_dot) return true;
        for (int i = 0; i < op->nreg; i++) if (has_products(op->reg[i])) return true;
    }
    return false;
}

static Op *only_products(const Region *r) {               // the one op of a region that has products inside, or NULL
    Op *found = NULL;
    for (Op *op = r->first; op; op = op->next) {
        bool inside = op->code == OP_T_dot;
        for (int i = 0; i < op->nreg; i++) inside |= has_products(op->reg[i]);
        if (!inside) continue;
        if (found) return NULL;
        found = op;
    }
    return found;
}

static bool harmless(const Op *op) { return op->nreg == 0 && (op_has(op, 'P') || op->code == OP_T_load); }

static bool lift(Fn *f, Op *branch) {
    int side = has_products(branch->reg[1]);
    if (has_products(branch->reg[!side])) return false;
    Op *loop = only_products(branch->reg[side]);
    if (!loop || (loop->code != OP_T_for && loop->code != OP_T_if)) return false;
    for (const Op *op = branch->reg[side]->first; op != loop; op = op->next) if (!harmless(op)) return false;
    if (loop->code == OP_T_if) {
        if (!lift(f, loop)) return false;
        loop = only_products(branch->reg[side]);
    }
    for (Op *op = branch->reg[side]->first, *next; op; op = next) {
        next = op == loop ? NULL : op->next;
        op_remove(op);
        op_before(branch, op);
    }
    Builder b = {f, NULL, loop, loop->span};
    Val *lo = loop->in[0], *hi = loop->in[1];
    loop->in[1] = b_op(&b, OP_T_select, 0, hi->type, 3, (Val *[]){branch->in[0], side ? lo : hi, side ? hi : lo});
    return true;
}

static bool same_number(const Val *a, const Val *b) {
    return a->def && b->def && a->def->code == OP_T_const && b->def->code == OP_T_const && a->def->imm == b->def->imm;
}

// `for k in 0 .. (c ? K : 0) by BK` has trips only where c holds: there its axes end at K.
static void known_inside(Op *loop) {
    const Op *end = loop->in[1]->def;
    if (!end || end->code != OP_T_select) return;
    bool none[2];
    for (int i = 0; i < 2; i++) none[i] = end->in[1 + i] == loop->in[0] || same_number(end->in[1 + i], loop->in[0]);
    if (none[0] == none[1]) return;
    for (Op *op = loop->reg[0]->first; op; op = op->next)
        if (op->code == OP_T_axis && op->in[1] == loop->in[1]) op->in[1] = end->in[1 + none[0]];
}

void unguard(Fn *f) {
    Op *op = only_products(&f->body);
    if (op && op->code == OP_T_if) lift(f, op);
    op = only_products(&f->body);
    if (op && op->code == OP_T_for) known_inside(op);
}

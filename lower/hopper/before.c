// Rows that what follows the loop reads are loaded before it: a bias, whose way from memory is over when the products are.
#include "lower/hopper/hopper.h"

static bool follows(const Hop *h, const Op *op) {
    while (op && op->parent != h->loop->parent) op = op->parent->owner;                    // in a branch
    for (const Op *x = h->loop; x; x = x->next) if (x == op) return true;
    return false;
}

static bool known_before(const Hop *h, const Val *v) {
    const Op *d = v->def;
    if (!d || !follows(h, d)) return true;
    if (d == h->loop || d->nreg || (!op_has(d, 'P') && d->code != OP_T_load)) return false;
    if (d->code == OP_T_load && (h->f->launch->params[d->in[0]->def->imm].mode != PM_IN || v->type.rank > 1)) return false;
    for (int i = 0; i < d->nin; i++) if (!known_before(h, d->in[i])) return false;
    for (int i = 0; v->type.kind == TY_TILE && i < v->type.rank; i++) if (!known_before(h, v->type.axis[i])) return false;
    return true;
}

static void bring_before(Hop *h, Op *d) {
    if (!d || !follows(h, d)) return;
    for (int i = 0; i < d->nin; i++) bring_before(h, d->in[i]->def);
    op_remove(d);
    op_before(h->loop, d);
}

// Also in the branch of whoever joins the parts of a tile.
void hop_rows_first(Hop *h, Op *first) {
    for (Op *op = first, *next; op; op = next) {
        next = op->next;
        if (op->code == OP_T_load && op->out[0]->type.rank == 1 && known_before(h, op->out[0])) bring_before(h, op);
        for (int i = 0; op->code == OP_T_if && (h->f->dealt || h->f->parts) && i < op->nreg; i++) hop_rows_first(h, op->reg[i]->first);
    }
}

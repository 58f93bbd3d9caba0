// What follows a loop of products and is read from memory is loaded before the loop: its way is over when the products are.
//
//     for k in K by BK { acc = dot .. }                 %b = load b[n]    %r = load r[m, n]
//     %b = load b[n]    %r = load r[m, n]        ->     for k in K by BK { acc = dot .. }
//     store y[m, n], acc + %b + %r                      store y[m, n], acc + %b + %r
//
// Of tensors that nobody writes, at places that are known by then: rows (a bias), and tiles as far as there are registers for them
// (residuals, the inputs of a cell's gates), where TMA does not bring those meanwhile (specialize/epilogue_load.c). A step of an LSTM is a chain of short products: memory's
// latency once in 2.5 us instead of twice. Rows along the columns of wgmma's result are many registers, too (a thread has a fourth of them): beside large sums they
// come when those are through, as else some would spill (f8 by 128 x 192 with a bias and scales of rows and columns: 152 bytes).
#include "lower/pass/passes.h"

typedef struct Early { Fn *f; const Op *loop; int threads; Spare spare; } Early;

static bool follows(const Early *e, const Op *op) {
    while (op && op->parent != e->loop->parent) op = op->parent->owner;                    // in a branch
    for (const Op *x = e->loop; x; x = x->next) if (x == op) return true;
    return false;
}

// Of a thread, an element each.
static int registers_of(const Early *e, const Val *v) {
    int64_t elements = 1;
    for (int i = 0; i < v->type.rank; i++) elements *= axis_extent(v->type.axis[i]);
    return (int)((elements + e->threads - 1) / e->threads);
}

// Of a row, where it is one of the product's columns.
static int words_of(const Early *e, const Val *v) {
    if (v->type.rank != 1 || v->type.axis[0] != e->spare.columns) return 0;
    return (int)(axis_extent(v->type.axis[0]) * elem_bits((Elem)v->type.elem) / (4 * 32));
}

static bool known_before(const Early *e, const Val *v) {
    const Op *d = v->def;
    if (!d || !follows(e, d)) return true;
    if (d == e->loop || d->nreg || (!op_has(d, 'P') && d->code != OP_T_load)) return false;
    if (d->code == OP_T_load && (e->f->launch->params[d->in[0]->def->imm].mode != PM_IN || v->type.rank > 2)) return false;
    for (int i = 0; i < d->nin; i++) if (!known_before(e, d->in[i])) return false;
    for (int i = 0; v->type.kind == TY_TILE && i < v->type.rank; i++) if (!known_before(e, v->type.axis[i])) return false;
    return true;
}

static void bring_before(const Early *e, Op *d) {
    if (!d || !follows(e, d)) return;
    for (int i = 0; i < d->nin; i++) bring_before(e, d->in[i]->def);
    op_remove(d);
    op_before((Op *)e->loop, d);
}

static void each(Early *e, Op *first, const Op *but) {
    for (Op *op = first, *next; op; op = next) {
        next = op->next;
        bool load = op->code == OP_T_load && op != but && op->out[0]->type.rank >= 1;
        int registers = load && op->out[0]->type.rank > 1 ? registers_of(e, op->out[0]) : 0;
        int words = load ? words_of(e, op->out[0]) : 0;
        if (load && registers <= e->spare.tiles && (!words || words <= e->spare.rows) && known_before(e, op->out[0])) {
            e->spare.tiles -= registers;
            e->spare.rows -= words;
            bring_before(e, op);
        }
        // also in the branch of whoever joins the parts of a tile
        for (int i = 0; op->code == OP_T_if && (e->f->dealt || e->f->parts) && i < op->nreg; i++) each(e, op->reg[i]->first, but);
    }
}

void load_before(Fn *f, Op *loop, int threads, Spare spare, const Op *but) {
    Early e = {f, loop, threads, spare};
    each(&e, loop->next, but);
}

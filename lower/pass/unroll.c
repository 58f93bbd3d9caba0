// Short loops over neighbours, and short loops that only compute, are written out.
//
//     for s in 0 .. 3 {                                acc = fma(x[q],     w[0], acc)
//         acc = fma(x[q + s], w[s], acc)       ->      acc = fma(x[q + 1], w[1], acc)
//     }                                                acc = fma(x[q + 2], w[2], acc)
//
// What a thread holds of x[q + 1] for its pixel q it holds of x[q] for its pixel q + 1, if both are its own. Written
// out, the two loads are of the same address: they become one (llvm/mem.c writes addresses so that they are equal,
// ptx/tidy.c sees it), and so do the conversions behind them. A depthwise convolution of 7 x 7 loads 21 of 56 pixels of
// a row then.
//
// Applies to loops of few trips, known as numbers, that only compute, where some load's index is a lane of an axis and the
// counter, each a number of times.
//
// And to those that change tiles element by element and load nothing: the rounds of a random number's counter, Newton's steps.
// What they carry needs no moves then, and what the first round begins with and the last one leaves unused costs nothing.
#include "lower/facts/facts.h"
#include "lower/simplify/simplify.h"

enum { MOST_TRIPS = 11, MOST_OPS = 400 };

// Is the counter a neighbour's distance: an index c * lane + k * counter, with k a multiple of c?
static bool slides(const Op *load, const Val *counter) {
    // elements of the innermost dimension are loaded several at a time anyway; small ones as parts of words, which neighbours share
    bool small = elem_bytes((Elem)load->out[0]->type.elem) < 4;
    for (int d = 1; d < load->nidx + small; d++) {
        Affine a;
        if (!affine_of(load->in[d], &a) || a.naxis != 1 || a.axis[0].scale || a.ntile) continue;
        for (int t = 0; t < a.nterm; t++)
            if (a.term[t].v == counter && a.term[t].k % a.axis[0].k == 0) return true;
    }
    return false;
}

static int64_t trips(const Op *loop) {
    int64_t lo, hi, step;
    if (!is_const(loop->in[0], &lo) || !is_const(loop->in[1], &hi) || !is_const(loop->in[2], &step) || step <= 0 ||
        hi <= lo)
        return 0;
    return (hi - lo + step - 1) / step;
}

typedef enum Kind { NEITHER, NEIGHBOURS, COMPUTES } Kind;

static bool by_element(const Op *op) {
    switch (op->code) {
    case OP_T_const:
    case OP_T_unary:
    case OP_T_binary:
    case OP_T_select:
    case OP_T_cast:
    case OP_T_bitcast:
    case OP_T_fun:
    case OP_T_splat: return true;
    default: return false;
    }
}

static Kind kind_of(const Op *loop) {
    int64_t n = trips(loop);
    const Region *r = loop->reg[0];
    bool found = false, computes = true, carries = false;
    int ops = 0;
    if (n < 2 || n > MOST_TRIPS || r->last->code != OP_T_yield) return NEITHER;
    for (const Op *op = r->first; op != r->last; op = op->next, ops++) {
        if (op->nreg || !(op_has(op, 'P') || op->code == OP_T_load) || op->code == OP_T_dot) return NEITHER;
        found |= op->code == OP_T_load && op->out[0]->type.rank > 1 && slides(op, r->args.at[0]);
        computes &= by_element(op);
    }
    for (int i = 0; i < loop->nout; i++) carries |= loop->out[i]->type.kind == TY_TILE && loop->out[i]->type.rank > 0;
    if (ops * n > MOST_OPS) return NEITHER;
    return found ? NEIGHBOURS : computes && carries ? COMPUTES : NEITHER;
}

bool unrolls(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_for && op->nout && kind_of(op) == NEIGHBOURS) return true;
    return false;
}

static void write_out(Fn *f, Op *loop) {
    int64_t lo = 0, step = 1, n = trips(loop);
    Region *r = loop->reg[0];
    Builder b = {f, NULL, loop, loop->span};
    Val *carried[64];
    is_const(loop->in[0], &lo);
    is_const(loop->in[2], &step);
    for (int i = 0; i < loop->nout; i++) carried[i] = loop->in[3 + i];
    for (int64_t t = 0; t < n; t++) {
        ValMap map = {.arena = f->arena};
        map_set(&map, r->args.at[0], b_const(&b, EL_index, lo + t * step));
        for (int i = 0; i < loop->nout; i++) map_set(&map, r->args.at[1 + i], carried[i]);
        for (const Op *op = r->first; op != r->last; op = op->next) op_before(loop, op_clone(f, op, &map));
        for (int i = 0; i < loop->nout; i++) carried[i] = map_get(&map, r->last->in[i]);
    }
    for (int i = 0; i < loop->nout; i++) replace_uses(&f->body, loop->out[i], carried[i]);
    op_remove(loop);
}

static bool visit(Fn *f, Region *r, bool *neighbours) {
    bool any = false;
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->nreg; i++) any |= visit(f, op->reg[i], neighbours);
        Kind kind = op->code != OP_T_for || op->nout > 64 || op->nout == 0 ? NEITHER : kind_of(op);
        if (kind == NEITHER) continue;
        *neighbours |= kind == NEIGHBOURS;
        write_out(f, op);
        any = true;
    }
    return any;
}

bool unroll(Fn *f) { return visit(f, &f->body, &f->neighbours); }

// A loop of products inside another one: one ring goes through both.
//
//     for v in V by BV {                              producer                                 consumers
//         s = 0                                       for v {                                  for v {
//         for k in K by BK { s += dot(h, w[v, k]) }       for k { wait empty; tma_load }           s = 0
//         t = max(t, max(s over v));  ..          ->  }                                            for k { wait full; s = wgmma s;  release }
//     }                                                                                            t = max(t, max(s over v));  ..
//                                                                                              }
//
// Each role has both loops, and the ring's position is carried by the outer one too, as by a walk from tile to tile (specialize/persistent.c). So while the consumers
// are at what follows the inner loop (an online softmax, the nearest centre so far), the producer fills the ring for the outer loop's next trip. The
// accumulator begins anew in each: it is a value of the outer body.
//
// For nests of two loops, of which the outer one's body has no product beside the inner loop, and nothing that asks for shared memory of its own beyond a
// tile that is stored, since the rings are never through with theirs. Operands come in the inner loop. Blocks do not walk.
#include "lower/specialize/specialize.h"

static bool spreads(const Op *op) {                              // hands elements to other threads through shared memory, whole tiles of them
    return op->code == OP_T_sort || op->code == OP_T_order || op->code == OP_T_take || op->code == OP_T_scan || op_joins(op);
}

const char *ws_nest(Ws *h) {
    Region *r = h->loop->reg[0];
    Op *inner = NULL;
    for (Op *op = r->first; op; op = op->next) {
        bool inside = false;
        for (int i = 0; i < op->nreg; i++) inside |= has_products(op->reg[i]);
        if (op->code == OP_T_dot || (inside && (inner || op->code != OP_T_for))) return NULL;      // of the outer loop, or none that roles are made of
        if (inside) inner = op;
    }
    if (!inner) return NULL;
    if (h->follows) return "a product follows a nest of loops";
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) {
        if (op_inside(op, inner->reg[0])) continue;
        if (op->code == OP_T_break || op->code == OP_T_continue) return "the loop has a break";
        if (spreads(op)) return "beside an inner loop of products elements change their threads";
    }
    if (h->loop->nout + 2 > MAX_CARRIED) return "the loop carries too many values";
    h->nest = h->loop;
    h->loop = inner;
    return NULL;
}

const char *ws_nest_refuses(const Ws *h) {
    if (!h->nest) return NULL;
    if (h->chained || h->nsources) return "an inner loop is more than sums of products";
    for (int i = 0; i < 2 * h->np; i++) {
        const Operand *o = &h->p[i / 2].op[i % 2];
        if (o->where == ONCE || o->where == MADE) return "an operand of an inner loop comes from outside of it";
        if (o->window) return "rows of an inner loop's operand are pixels";
    }
    return NULL;
}

// ---- the loops of the roles ----------------------------------------------------------------------

static Op *outer_loop(Ws *h, Builder *b, int n, Val *const *init, Ring *at) {
    Val *in[5 + MAX_CARRIED];
    for (int i = 0; i < 3; i++) in[i] = h->nest->in[i];
    for (int i = 0; i < n; i++) in[3 + i] = init[i];
    in[3 + n] = ws_i32(b, 0);
    in[4 + n] = ws_i32(b, 0);
    Op *loop = op_new(h->f, OP_T_for, h->nest->span, 5 + n, in, n + 2);
    loop->str = h->nest->str;
    b_insert(b, loop);
    region_arg(h->f, loop->reg[0], type_scalar(EL_index))->name = h->nest->reg[0]->args.at[0]->name;
    for (int i = 0; i < n + 2; i++) {
        loop->out[i]->type = in[3 + i]->type;
        Val *arg = region_arg(h->f, loop->reg[0], in[3 + i]->type);
        if (i < n) {
            arg->name = h->nest->reg[0]->args.at[1 + i]->name;
            loop->out[i]->name = h->nest->out[i]->name;
        }
    }
    *at = (Ring){loop->reg[0]->args.at[1 + n], loop->reg[0]->args.at[2 + n]};
    return loop;
}

void ws_nest_producer(Ws *h, Builder *b, int role, ValMap *map) {
    Region *was = h->nest->reg[0];
    Op *loop = outer_loop(h, b, 0, NULL, &h->within[role]);
    *b = (Builder){h->f, loop->reg[0], NULL, h->nest->span};
    map_set(map, was->args.at[0], loop->reg[0]->args.at[0]);
    for (Op *op = was->first; op != h->loop; op = op->next)     // the scalars that bounds and addresses are made of
        if (op->nout == 1 && op->out[0]->type.kind == TY_TILE && op->out[0]->type.rank == 0 && ws_computable(h, op->out[0]))
            op_append(loop->reg[0], op_clone(h->f, op, map));
}

void ws_nest_consumers(Ws *h, Region *r) {
    Builder b = {h->f, r, NULL, h->nest->span};
    Region *was = h->nest->reg[0];
    int n = h->nest->nout;
    Op *loop = outer_loop(h, &b, n, h->nest->in + 3, &h->within[CONSUMERS]);
    for (int i = 0; i <= n; i++) replace_uses(was, was->args.at[i], loop->reg[0]->args.at[i]);
    for (int i = 0; i < n; i++) replace_uses(&h->f->body, h->nest->out[i], loop->out[i]);
    for (Op *op = was->first, *next; op; op = next) {
        next = op->next;
        op_remove(op);
        op_append(loop->reg[0], op);
    }
    op_remove(h->nest);
    h->nest = loop;
}

void ws_nest_end(Ws *h, int role, Region *r) {
    Val *at[2] = {h->end[role].stage, h->end[role].phase};
    Builder b = {h->f, r, NULL, h->nest->span};
    if (role != CONSUMERS) { ws_effect(&b, OP_T_yield, 2, at); return; }
    for (int i = 0; i < 2; i++) op_insert_operand(h->f, r->last, r->last->nin, at[i]);
}

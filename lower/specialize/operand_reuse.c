// An operand of a product that something else looks at, too: norms of rows, sums for zero points, moments.
//
//     x = x[m, k];  acc += dot(x, w[k, n])            wait full;  acc = wgmma X, W, acc        started
//     q += sum(x * x over k)                  ->                  q = q + sum(y * y over k), y = buffer_load X     meanwhile
//                                                                 wait for the trip before;  each warp: it is read
//
// The operand goes to the tensor cores from shared memory as ever, and once more into registers, in whatever layout suits those that
// look. Products that want nothing but what is loaded begin first, so that there is their time for it. Threads read the stage
// themselves, so it is free when each warp has said so.
//
//     am = a[m, :]                                    once a tile, A
//     r = rsqrt(sum(am * am over :D))                 r = rsqrt(sum(b * b over :D)), b = a[m, :]      by the consumers, from L2
//     for n { s = dot(am, b[n, :]) * r;  .. }    ->   for n { s = wgmma A, B  .. }
//     y[m] = sum(am * x[m, :] over :D)                y[m] = sum(c * x[m, :] over :D), c = a[m, :]    again: nobody keeps it through the loop
//
// Not for windows, where the ends of rows are cleared in shared memory (behind which another warp would have to wait), three groups, or
// clusters. Two products in a chain are not overlapped then (specialize/softmax_overlap.c).
#include "lower/specialize/specialize.h"

// Other ops than products of the loop that take v: in a region, and in all that is in it.
static bool looked_at(const Ws *h, const Region *r, const Val *v) {
    for (const Op *op = r->first; op; op = op->next) {
        for (int i = op->code == OP_T_dot && r == h->loop->reg[0] ? 2 : 0; i < op->nin; i++) if (op->in[i] == v) return true;
        for (int i = 0; i < op->nreg; i++) if (looked_at(h, op->reg[i], v)) return true;
    }
    return false;
}

bool ws_seen(const Ws *h, const Op *load) { return looked_at(h, &h->f->body, load->out[0]); }

bool ws_any_seen(const Ws *h) {
    bool any = false;
    for (int i = 0; i < 2 * h->np; i++) any |= h->p[i / 2].op[i % 2].seen;
    return any;
}

enum { SLOTS = 8 * 4 * 4, BODIES = 2 };                        // bytes an element, of lanes and warps that a sum leaves apart; trips with masks and without

// Beside the rings the largest of them may be handed from thread to thread, and reductions cross warps, but those that leave rows, which are a warp's.
uint32_t ws_seen_bytes(const Ws *h) {
    uint32_t most = 0, reduced = 0;
    for (int i = 0; i < 2 * h->np; i++) {
        const Operand *o = &h->p[i / 2].op[i % 2];
        if (o->seen && o->bytes > most) most = o->bytes;
    }
    for (const Op *op = h->loop->reg[0]->first; op && most; op = op->next)
        if (op->code == OP_T_reduce && op->in[0]->type.rank > 1 && type_axis(&op->out[0]->type, h->p[0].row) < 0) reduced += (uint32_t)type_lanes(&op->out[0]->type) * SLOTS * BODIES * (uint32_t)h->groups;
    return most + reduced;
}

// Whose arrivals free a stage: one of each group's, of each warp, all threads. The last where threads read what threads have copied there: racecheck does not
// see that a warp's threads meet before one of them arrives (rows that data names, read again: 190,000 hazards of 25 trips, none if all arrive).
HopRelease ws_release_by(const Ws *h) {
    if (ws_any_seen(h) && ws_gathered_bytes(h, -1)) return BY_THREADS;
    return h->nsources + h->nvectors > 0 || h->by_threads || ws_any_seen(h) ? BY_WARPS : BY_GROUPS;
}

// An op of the region that takes v, or has one inside that does, from `from` up to `to`; not the loop's own.
static Op *first_look(const Ws *h, Op *from, const Op *to, const Val *v) {
    for (Op *op = from; op != to; op = op->next) {
        if (op == h->loop || op == h->nest) continue;
        for (int i = 0; i < op->nin; i++) if (op->in[i] == v) return op;
        for (int i = 0; i < op->nreg; i++) if (region_uses(op->reg[i], v)) return op;
    }
    return NULL;
}

static void load_again(Ws *h, const Op *load, Op *from, const Op *to) {
    Op *at = first_look(h, from, to, load->out[0]);
    if (!at) return;
    ValMap none = {.arena = h->f->arena};
    Op *again = op_clone(h->f, load, &none);
    op_before(at, again);
    for (Op *op = at; op != to; op = op->next) {
        if (op == h->loop) continue;
        for (int i = 0; i < op->nin; i++) if (op->in[i] == load->out[0]) op->in[i] = again->out[0];
        for (int i = 0; i < op->nreg; i++) replace_uses(op->reg[i], load->out[0], again->out[0]);
    }
}

void ws_seen_apart(Ws *h) {
    for (int i = 0; i < 2 * h->np; i++) {
        const Operand *o = &h->p[i / 2].op[i % 2];
        if (!o->seen || o->same || o->where != ONCE) continue;
        load_again(h, o->load, o->load->next, h->loop);
        load_again(h, o->load, h->loop->next, NULL);
    }
}

void ws_take_seen(Ws *h, Builder *b, const Op *op, Val *stage, ValMap *map) {
    for (int i = 0; i < 2 * h->np; i++) {
        const Operand *o = &h->p[i / 2].op[i % 2];
        const Val *v = o->load ? o->load->out[0] : NULL;
        bool looks = false;
        if (!o->seen || o->same || map_get(map, o->load->out[0]) != v) continue;
        for (int k = op->code == OP_T_dot ? 2 : 0; k < op->nin; k++) looks |= op->in[k] == v;
        for (int k = 0; k < op->nreg; k++) looks |= region_uses(op->reg[k], v) > 0;
        if (!looks) continue;
        Type t = v->type;
        for (int k = 0; k < t.rank; k++) t.axis[k] = map_get(map, t.axis[k]);
        b->span = o->load->span;
        Val *tile = b_op(b, OP_T_buffer_load, 0, t, 4, (Val *[]){o->buffer, o->where == RING ? stage : ws_i32(b, 0), map_get(map, o->outer), map_get(map, o->inner)});
        tile->name = v->name;
        map_set(map, o->load->out[0], tile);
    }
}

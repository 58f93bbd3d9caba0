// Operands that a trip makes of a product whose rows the next one contracts: an attention's gradient by its queries, beside those by keys and values.
//
//     s = dot(k, q over d)                rows n, 64 to each group
//     ds = f(s)
//     dk += dot(ds, q over m)             takes ds from registers, as fragments
//     dq = dot(ds, k over n)              contracts what the groups have between them
//
//     consumers                           buffer_store DS[trip % 2], ds;  fence_async;  barrier
//                                         dq = wgmma DS, K  (or its transpose)     read by columns
//                                         dk = wgmma ds, Q, dk
//
// Two slots, so that one barrier is enough: who writes a slot again has been through the barrier of the trip between, and so has everybody,
// each after waiting for all products of the trip before that. Tiles lie as the product leaves them, columns inside: a thread has two side by side.
//
// H200, all of an attention's gradients but for what is around the pass, B4 H16 S4096 D128, BM = 64, BN = 128: 2790 us (cuDNN 2429), causal 1439 (1433); in two
// kernels of seven products 3038 and 1667. dk taken from shared memory, too, where that frees registers for a product to stay in flight
// across the trip's end: 2784 and 1490 (2026-11-23).
#include "lower/specialize/specialize.h"

// The product of the loop that v is made of by elementwise ops, the first that is found.
static const Product *maker(const Ws *h, const Val *v, int depth) {
    const Op *d = v->def;
    if (!d || d->parent != h->loop->reg[0] || v->type.kind != TY_TILE || v->type.rank != 2 || depth > 64) return NULL;
    for (int i = 0; d->code == OP_T_dot && i < h->np; i++) if (h->p[i].dot == d) return &h->p[i];
    if (d->code == OP_T_dot || !op_is_elementwise(d)) return NULL;
    for (int i = 0; i < d->nin; i++) {
        const Product *p = maker(h, d->in[i], depth + 1);
        if (p) return p;
    }
    return NULL;
}

bool ws_across(const Ws *h, Operand *o, Val *v, const Val *k) {
    int size = elem_bytes((Elem)v->type.elem);
    const Product *p = size == 2 ? maker(h, v, 0) : NULL;
    if (!p || h->nloops > 1 || p->row != k || type_axis(&v->type, p->row) < 0 || type_axis(&v->type, p->col) < 0) return false;
    int64_t row = axis_extent(p->col) * size;
    int swizzle = SPAN;
    while (row % swizzle) if ((swizzle /= 2) < 32) return false;
    *o = (Operand){.where = ACROSS, .tile = v, .a.elem = (Elem)v->type.elem, .outer = p->row, .inner = p->col, .swizzle = swizzle};
    o->columns = axis_extent(p->col);
    o->bytes = (uint32_t)(row * axis_extent(p->row));
    return true;
}

bool ws_any_across(const Ws *h) {
    bool any = false;
    for (int i = 0; i < 2 * h->np; i++) any |= h->p[i / 2].op[i % 2].where == ACROSS;
    return any;
}

// Of every second trip, by the ring's position: stages and phases count trips.
Val *ws_across_slot(const Ws *h, Builder *b, Ring at) {
    Val *trip = h->stages % 2 ? b_binary(b, OP_xor, at.stage, at.phase) : at.stage;
    return b_binary(b, OP_and, trip, ws_i32(b, 1));
}

void ws_across_store(Ws *h, Builder *b, const Product *p, Ring at, const ValMap *map) {
    bool stored = false;
    for (int i = 0; i < 2; i++) {
        const Operand *o = &p->op[i];
        if (o->where != ACROSS || o->same) continue;
        ws_effect(b, OP_T_buffer_store, 5, (Val *[]){o->buffer, ws_across_slot(h, b, at), map_get(map, o->tile), map_get(map, o->outer), map_get(map, o->inner)});
        stored = true;
    }
    if (!stored) return;
    ws_effect(b, OP_T_fence_async, 0, NULL);
    ws_effect(b, OP_T_barrier, 0, NULL);
}

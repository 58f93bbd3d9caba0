// Operands that are made before the loop: queries scaled, rotated, normalised, or gathered from rows that TMA cannot name.
//
//     qt = f(q[..])                                   } and {                                        // consumers
//     for n { s = dot(qt, k[n]);  .. }         ->         qt = f(q[..])
//                                                         barrier;  buffer_store Q, qt;  fence_async;  barrier
//                                                         for n { s = wgmma Q, k[n]  .. }
//
// The first barrier is for blocks that walk: all have read the tile before. The tile must be read by products of the
// loop alone, and made of what needs no shared memory of its own (elementwise functions, loads, sums along an axis),
// since the rings have it all. Rows lie along the contracted axis, as wgmma reads any element type; what is dead of
// that axis is zero, as the pass `neutral_padding` leaves every operand.
#include "lower/specialize/specialize.h"

static bool simple(const Region *r, const Val *v, int depth) {
    const Op *d = v->def;
    if (!d || d->parent != r || v->type.kind != TY_TILE || v->type.rank == 0) return true;
    if (depth > 64) return false;
    switch (d->code) {
    case OP_T_load: case OP_T_rename: case OP_T_index: case OP_T_live: case OP_T_const: case OP_T_reduce: break;
    default: if (!op_is_elementwise(d)) return false;
    }
    for (int i = 0; i < d->nin; i++) if (!simple(r, d->in[i], depth + 1)) return false;
    return true;
}

bool ws_made(const Ws *h, Operand *o, Val *v, Val *k) {
    if (!v->def || v->def->parent != h->loop->parent || v->type.rank != 2 || type_axis(&v->type, k) < 0 ||
        !simple(h->loop->parent, v, 0))
        return false;
    int uses = 0;
    for (const Op *op = h->loop->reg[0]->first; op; op = op->next)
        uses += op->code == OP_T_dot ? (op->in[0] == v) + (op->in[1] == v) : 0;
    if (region_uses(&h->f->body, v) != uses) return false;
    int64_t row = axis_extent(k) * elem_bytes((Elem)v->type.elem);
    *o = (Operand){.where = MADE,
                   .tile = v,
                   .a.elem = (Elem)v->type.elem,
                   .outer = v->type.axis[v->type.axis[0] == k],
                   .inner = k,
                   .swizzle = SPAN};
    while (row % o->swizzle) if ((o->swizzle /= 2) < 32) return false;
    o->columns = axis_extent(k);
    o->bytes = (uint32_t)(row * axis_extent(o->outer));
    return axis_extent(o->outer) % 8 == 0;
}

void ws_made_store(Ws *h, Builder *b) {
    if (!h->made_bytes) return;
    ws_effect(b, OP_T_barrier, 0, NULL);
    for (int i = 0; i < 2 * h->np; i++) {
        const Operand *o = &h->p[i / 2].op[i % 2];
        if (o->where == MADE && !o->same)
            ws_effect(b, OP_T_buffer_store, 5, (Val *[]){o->buffer, ws_i32(b, 0), o->tile, o->outer, o->inner});
    }
    ws_effect(b, OP_T_fence_async, 0, NULL);
    ws_effect(b, OP_T_barrier, 0, NULL);
}

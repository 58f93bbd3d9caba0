// Products of f32 as three of tf32, and of f32 whose left operand has the contracted axis outside.
//
//     acc += dot(a[m, k], b[n, k])            producer      wait empty;  tma_load a, b
//                                             two warps     wait full;  low = b - tf32(b), beside b;  low is full
//                                             consumers     wait full, low full;  a by ldmatrix, al = a - tf32(a) in registers;
//                                                           acc = wgmma al, b, acc;  wgmma a, low, acc;  wgmma a, b, acc
//
// wgmma reads 19 bits of an element: what it leaves of the right operand has to be in shared memory too, and comes there by two
// warps of the producer's group, a stage or more ahead of the consumers. The left operand is taken from registers, which its low parts are
// made in. wgmma wants rows of k of 32-bit elements in shared memory, registers do not care: so a left operand may have them as columns,
//
//     acc += dot(a[m, k], b[k, n])            the transposed product, bT on the left
//
// in f32 and tf32. Threads read the stage, so it is free when each warp has said so; and a trip's product is waited for in it, since ptxas does
// not keep registers that a product reads from one trip to the next. Two consumer groups
// multiply in turns by themselves; one alone would have the tensor cores wait, and a tile of 64 rows is mma.sync's, with several blocks on a multiprocessor.
//
// One product in a loop, both operands in the ring; no second producer.
#include "lower/hopper/hopper.h"

const char *hop_low(Hop *h) {
    static const char no[] = "products of f32 are not alone in their loop";
    const Product *p = &h->p[0];
    const Operand *a = &p->op[0], *b = &p->op[1];
    bool any = false;
    for (int i = 0; i < h->np; i++) any |= h->p[i].three || (h->p[i].dot->in[0]->type.elem == EL_f32 && h->p[i].op[0].outer == h->p[i].k);
    h->by_threads = any;
    if (!any) return NULL;
    if (h->np != 1 || h->nest || h->follows) return no;
    if (axis_extent(p->row) < 2 * 64) return "products of f32 are for two groups of 64 rows";
    if (a->where != RING || b->where != RING || a->seen || b->seen) return no;
    if (p->three && (a->gathered || b->gathered || b->bytes != (uint32_t)(axis_extent(p->col) * axis_extent(p->k) * 4) || axis_extent(p->k) * 4 > SPAN)) return no;
    if (p->three) h->low_bytes = b->bytes;
    h->stage_bytes[0] += h->low_bytes;
    return NULL;
}

void hop_low_buffers(Hop *h, Builder *b, uint32_t *at) {
    if (!h->low_bytes) return;
    *at = (*at + 8 * SPAN - 1) & ~(uint32_t)(8 * SPAN - 1);
    const Val *whole = h->p[0].op[1].buffer;
    h->low = b_op(b, OP_T_buffer, 0, whole->type, 0, NULL);
    h->low->def->imm = h->stages;
    h->low->def->attr = *at;
    h->low->name = whole->name;
    *at += h->low_bytes * (uint32_t)h->stages;
}

void hop_low_barriers(Hop *h, Builder *b, uint32_t *at) {
    if (!h->low_bytes) return;
    h->low_full = b_op(b, OP_T_mbar, 0, (Type){.kind = TY_MBAR, .shape = {LOW_WARPS}}, 0, NULL);
    h->low_full->def->imm = h->stages;
    h->low_full->def->attr = *at;
    *at += 8 * (uint32_t)h->stages;
}

void hop_low_region(Hop *h, Region *r) {
    Builder b = {h->f, r, NULL, h->loop->span}, in;
    ValMap none = {.arena = h->f->arena};
    Ring ring;
    hop_ring_loop(h, &b, PREPARES, 0, NULL, &none, &in, &ring);
    hop_effect(&in, OP_T_mbar_wait, 3, (Val *[]){h->full[0], ring.stage, ring.phase});
    hop_effect(&in, OP_T_buffer_low, 4, (Val *[]){h->p[0].op[1].buffer, ring.stage, h->low, h->low_full});
    ring = hop_advance(h, &in, ring);
    hop_effect(&in, OP_T_yield, 2, (Val *[]){ring.stage, ring.phase});
    hop_effect(&b, OP_T_yield, 0, NULL);
}

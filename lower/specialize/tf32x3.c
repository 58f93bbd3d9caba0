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
// Bytes (i8, u8, f8) are the same: wgmma wants rows of k of them in shared memory. On the left threads turn them on their way to registers, by
// ldmatrix.trans, which moves pairs, and a prmt that parts each pair's rows: 4 and 16 instructions of a warp for 16 rows of 128 bytes, whose products
// take 512 clocks. So of a[m, k] b[k, n] the transposed product is made. Where both operands have k outside, or the tile's columns are no rows for wgmma, the
// right one is turned by three such warps, into rows beside it (llvm/transpose8.c).
//
//     acc += dot(a[k, m], b[k, n])            three warps   wait full;  turned = b by rows of k;  turned is full
//                                             consumers     wait full, turned full;  a by ldmatrix.trans and prmt;  acc = wgmma a, turned, acc
//
// One product in a loop (of f32, in each of several), both operands in the ring; no second producer beside those warps. Of bytes that threads turn alone there may be several.
#include "lower/specialize/specialize.h"

static bool bytes(const Product *p) { return elem_bytes((Elem)p->dot->in[0]->type.elem) == 1; }

// Threads bring the left operand.
static bool left_by_threads(const Product *p) {
    const Elem e = (Elem)p->dot->in[0]->type.elem;
    return p->three || ((e == EL_f32 || bytes(p)) && p->op[0].where != REGISTERS && p->op[0].outer == p->k);
}

static const char not_alone[] = "";

static const char *refuses(const Product *p) {
    const Operand *a = &p->op[0], *b = &p->op[1];
    if (!bytes(p) && axis_extent(p->row) < 2 * 64) return "products of f32 are for two groups of 64 rows";
    if (a->where != RING || b->where != RING || a->seen || b->seen) return not_alone;
    if (b->turned && (a->gathered || b->gathered)) return "rows that data names come by all warps of the producer, of which three would turn the right operand";
    if (b->turned && (axis_extent(p->k) > 256 || axis_extent(p->col) % 16)) return "the extents of a product of 8 bits with the contracted axis outside do not fit";
    if (b->turned && b->clear) return "the contracted axis does not end with the tensor";
    if (p->three && (a->gathered || b->gathered || b->bytes != (uint32_t)(axis_extent(p->col) * axis_extent(p->k) * 4) || axis_extent(p->k) * 4 > SPAN)) return not_alone;
    return NULL;
}

// Of several loops (specialize/loop_sequence.c): what is prepared of the right operands has one place.
static bool alike(const Product *p, const Product *q) {
    const Operand *a = &p->op[1], *b = &q->op[1];
    return p == q || (p->three && q->three && a->bytes == b->bytes && a->columns == b->columns && a->swizzle == b->swizzle);
}

const char *ws_low(Ws *h) {
    const Product *p = &h->p[0];
    const Operand *b = &p->op[1];
    bool any = false, by_bytes = true;                         // all products, and nothing is prepared for them
    h->by_threads = false;
    for (int i = 0; i < h->np; i++) {
        const Product *q = &h->p[i];
        h->by_threads |= left_by_threads(q);
        any |= h->by_threads || q->op[1].turned;
        by_bytes &= left_by_threads(q) && bytes(q) && !q->op[1].turned && !q->op[1].seen && !q->op[0].seen && q->op[0].where == RING;
    }
    if (!any || (by_bytes && !h->follows)) return NULL;
    const char *no = bytes(p) ? "products of 8 bits with the contracted axis outside are not alone in their loop" : "products of f32 are not alone in their loop";
    for (int i = 0; i < h->np; i++) if (bytes(p) && (h->p[i].op[0].seen || h->p[i].op[1].seen)) return "an operand is used elsewhere too";
    if (h->np != h->nloops || h->nest || h->follows) return no;
    for (int i = 0; i < h->np; i++) {
        const char *why = alike(p, &h->p[i]) ? refuses(&h->p[i]) : "products of f32 in several loops differ";
        if (why) return why == not_alone ? no : why;
    }
    if (p->three) h->low_bytes = b->bytes;
    if (b->turned) h->low_bytes = (uint32_t)(axis_extent(p->col) * axis_extent(p->k));
    h->stage_bytes[0] += h->low_bytes;
    return NULL;
}

int ws_preparing(const Ws *h) { return !h->low_bytes ? 0 : h->p[0].three ? LOW_WARPS : TURN_WARPS; }

bool ws_in_pairs(const Ws *h) { return h->by_threads && bytes(&h->p[0]); }

int64_t ws_left_words(const Ws *h) {
    const Product *p = &h->p[0];
    return ws_in_pairs(h) ? axis_extent(p->row) / 64 / h->groups / h->bands * axis_extent(p->k) / 8 : 0;
}

void ws_low_buffers(Ws *h, Builder *b, uint32_t *at) {
    if (!h->low_bytes) return;
    *at = (*at + 8 * SPAN - 1) & ~(uint32_t)(8 * SPAN - 1);
    const Val *whole = h->p[0].op[1].buffer;
    Type t = whole->type;
    t.shape[t.rank] = 0;                                       // its stages lie one behind the other, whatever the ring's do
    if (h->p[0].op[1].turned) {
        t.shape[0] = axis_extent(h->p[0].col);
        t.shape[1] = axis_extent(h->p[0].k);
        for (t.swizzle = SPAN; t.shape[1] % t.swizzle;) t.swizzle /= 2;
    }
    h->low = b_op(b, OP_T_buffer, 0, t, 0, NULL);
    h->low->def->imm = h->stages;
    h->low->def->attr = *at;
    h->low->name = whole->name;
    *at += h->low_bytes * (uint32_t)h->stages;
}

void ws_low_barriers(Ws *h, Builder *b, uint32_t *at) {
    if (!h->low_bytes) return;
    h->low_full = b_op(b, OP_T_mbar, 0, (Type){.kind = TY_MBAR, .shape = {ws_preparing(h)}}, 0, NULL);
    h->low_full->def->imm = h->stages;
    h->low_full->def->attr = *at;
    *at += 8 * (uint32_t)h->stages;
}

void ws_low_region(Ws *h, Region *r) {
    Builder b = {h->f, r, NULL, h->loop->span}, in;
    ValMap none = {.arena = h->f->arena};
    Ring ring;
    for (int i = 0; i < h->nloops; i++) {
        ws_at(h, i);
        ws_ring_loop(h, &b, PREPARES, 0, NULL, &none, &in, &ring);
        ws_effect(&in, OP_T_mbar_wait, 3, (Val *[]){h->full[0], ring.stage, ring.phase});
        ws_effect(&in, h->p[0].three ? OP_T_buffer_low : OP_T_buffer_turn, 4, (Val *[]){h->p[h->from].op[1].buffer, ring.stage, h->low, h->low_full});
        ring = ws_advance(h, &in, ring);
        ws_effect(&in, OP_T_yield, 2, (Val *[]){ring.stage, ring.phase});
    }
    ws_effect(&b, OP_T_yield, 0, NULL);
}

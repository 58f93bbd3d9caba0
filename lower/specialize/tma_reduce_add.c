// Tiles that a trip adds to memory: by the copy engine, from shared memory.
//
//     for m { ..  atomic_add(dq[m, :], dot(ds, k)) }          for m { ..  dq = wgmma DS, K;  wait for it
//                                                     ->              tma_store (added) dq } through slots of its own: cp.reduce.async.bulk.tensor
//                                                             wait until the slots are read
//
// Else each thread adds what it has, and waits while memory takes it: a multiprocessor adds 16 bytes a clock, and a trip of an attention's gradients has
// 32 KB for 2500 clocks of products. H200, B4 H16 S4096 D128, all gradients: 3284 us by threads, 2398 with nothing added at all (2026-11-23).
//
// For f32 tiles that are a product's whole result, as wgmma leaves it or its transpose, added to a tensor that the kernel touches nowhere else. What lies
// past the tensor's end the copy engine leaves out.
#include "lower/specialize/specialize.h"

enum { SLOT_ROWS = 64, SLOT_BYTES = SLOT_ROWS * SPAN };

static const Product *maker(const Ws *h, const Val *v) {
    for (int i = 0; i < h->np; i++) if (h->p[i].dot->out[0] == v) return &h->p[i];
    return NULL;
}

// Its rows in memory are columns of the product.
static bool across(const Product *p, const Access *a) { return a->aff[a->inner].axis[0].axis == p->row; }

static const Product *added(Ws *h, Op *op, Access *a) {
    if (op->code != OP_T_atomic || op->sub != TA_add || op->in[0]->type.kind != TY_TENSOR || region_uses(&h->f->body, op->in[0]) != 1 || region_uses(&h->f->body, op->out[0])) return NULL;
    const Val *v = op->in[1 + op->nidx];
    const Product *p = maker(h, v);
    if (!p || v->type.elem != EL_f32 || (p->dot->flags & HAS_ACC)) return NULL;
    access_shape(h->facts, op, a);
    if (a->p->strided || a->nidx < 2 || a->nidx > 5 || a->aff[a->inner].naxis != 1) return NULL;
    const Val *rows = across(p, a) ? p->col : p->row, *columns = across(p, a) ? p->row : p->col;
    int found = 0;
    for (int d = 0; d < a->nidx; d++) {
        const Affine *x = &a->aff[d];
        if (x->ntile || x->naxis > 1) return NULL;
        if (!x->naxis) continue;
        if (x->axis[0].k != 1 || x->axis[0].scale || !a->proved[d] || !ws_ends_with(h, x->axis[0].axis, a->p->dim[d]) || x->axis[0].axis != (d == a->inner ? columns : rows)) return NULL;
        found++;
    }
    bool whole = axis_extent(rows) % SLOT_ROWS == 0 && axis_extent(columns) % (across(p, a) ? SLOT_ROWS : SPAN / 4) == 0;
    return found == 2 && whole && access_aligned(h->facts, a, 4) ? p : NULL;
}

static int slots_of(const Ws *h, const Product *p) {
    int64_t all = axis_extent(p->row) * axis_extent(p->col) * 4 / SLOT_BYTES / h->groups;
    return all > 4 ? 2 : (int)all;
}

uint32_t ws_added_bytes(Ws *h) {
    uint32_t most = 0;
    Access a;
    if (h->nloops > 1 || h->slices > 1 || h->tiles * h->bands > 1 || h->walk_bytes || h->nest || h->chained || h->pipelined) return 0;
    for (Op *op = h->loop->reg[0]->first; op; op = op->next) {
        const Product *p = added(h, op, &a);
        uint32_t bytes = p ? (uint32_t)(slots_of(h, p) * h->groups * SLOT_BYTES) : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

void ws_added(Ws *h, Builder *top, uint32_t at) {
    ValMap same = {.arena = h->f->arena};
    for (Op *op = h->loop->reg[0]->first, *next; op; op = next) {
        Access a;
        const Product *p = added(h, op, &a);
        next = op->next;
        if (!p) continue;
        bool turned = across(p, &a);
        Type t = {.kind = TY_BUFFER, .elem = EL_f32, .rank = 2, .swizzle = SPAN, .order = {1, 0}, .shape = {h->groups * SLOT_ROWS, SPAN / 4}};
        Builder b = {h->f, op->parent, op, op->span};
        Val *in[5 + MAX_RANK];
        int n = 0;
        in[n++] = b_op(top, OP_T_buffer, 0, t, 0, NULL);
        in[0]->def->imm = slots_of(h, p);
        in[0]->def->attr = at;
        in[0]->name = a.p->name;
        in[n++] = op->in[0];
        for (int d = 0; d < a.nidx; d++) in[n++] = ws_coordinate(&b, &a.aff[d], &same);
        in[n++] = op->in[1 + op->nidx];
        in[n++] = turned ? p->col : p->row;
        in[n++] = turned ? p->row : p->col;
        Op *s = ws_effect(&b, OP_T_tma_store, n, in);
        s->nidx = op->nidx;
        s->imm = ws_slots_map(h, &a, SPAN / 4);
        s->attr = TO_ADD | (turned ? TO_ACROSS : 0);
        op_remove(op);
    }
}

// Results whose rows 16 bytes do not divide: 50257 columns, a step of 1001 elements from row to row.
//
// TMA writes only where rows begin at multiples of 16 bytes. So a warp puts its 16 rows of the tile into shared memory, each
// as far behind a multiple of 16 as it lies behind one in the tensor. What is whole 16 bytes there is whole 16 bytes here:
//
//     tensor      |...... 0 1 2 3 | 4 5 6 7 8 9 . . | ...      row of the tile: columns 0 .. n, of 2 bytes
//     shared      |       0 1 2 3 | 4 5 6 7 8 9 . . |          the first eight bytes are the row's offset
//                   elements ^      ^ 16 bytes at a time ...
//
// Its own warp takes them to the tensor (llvm/unaligned_store.c), 16 bytes a lane, what is left at both ends element by element.
// No other warp waits, and since nothing of the tile's columns or rows need be whole, any plain store of the last
// product's tile can leave so.
//
// Rows of which each has a place of its own leave so, too: y[m / (P * Q), m / Q % P * sh + a, m % Q * sw + e, k], a
// phase of a transposed convolution. They begin at multiples of 16 bytes, so that nothing is shifted; a row that is out
// of range, or dead, is left out. And so do the rows of a tile that ends inside the tensor, where TMA would write on: a group's last ones
// (lang/std/grouped.tk), of which data says how many there are.
//
// Walking blocks (specialize/persistent.c) use it where the rows of some result are such; then all results of the kernel leave
// so, and a warp has a piece of the slots for itself. Tiles that end inside the tensor can be stored without it, so
// blocks walk only if that leaves the ring enough stages: products of groups, 8192 x 14336 x 4096 by 8 matrices, by 128 x 128 1601 us instead of 1785 on an H200,
// 32768 x 1408 x 2048 by 64 323 instead of 360; gated ones by 128 x 128, 4 stages or 3, 3687 instead of 3448 (2026-11-24). Where slots of half a row leave it the
// fourth, they do: gated experts of 64, 2048 to 1408, 632 us instead of 667, of 8, 4096 to 14336, 3027 and 2991 (an H100, 2026-11-28).
#include "lower/specialize/specialize.h"

enum { WARP_ROWS = 16, LEAST_PITCH = 256 + 16, HALF_PITCH = 128 + 16 };      // bytes of a row of the least slots: 128 columns of 2 bytes; of half as many

int64_t row_pitch(int64_t columns, int size) {
    int64_t units = columns * size / 16 + 1;
    return (units | 1) * 16;                                   // odd: eight rows begin in eight different groups of banks
}

// The columns that fit at a time: all, a half, a third.
int64_t row_chunk(int64_t columns, int size, int64_t warp_bytes) {
    int64_t eights = columns / 8;
    for (int64_t parts = 1; parts <= eights; parts++)
        if (eights % parts == 0 && WARP_ROWS * row_pitch(columns / parts, size) <= warp_bytes) return columns / parts;
    ice("no slot for a row of %lld columns", (long long)columns);
}

// Follows from what is loaded, in a few steps.
static bool by_data(const Val *v, int depth) {
    const Op *d = v->def;
    if (!d || depth == 0) return false;
    for (int i = 0; i < d->nin; i++) if (by_data(d->in[i], depth - 1)) return true;
    return d->code == OP_T_load;
}

bool ws_row_storable(Ws *h, const Op *op) {
    Access a;
    const Product *p = &h->p[h->np - 1];
    const Val *v = op_value(op);
    int size = elem_bytes((Elem)v->type.elem);
    bool rows = false, cols = false;
    access_shape(h->facts, op, &a);
    if (a.p->mode != PM_OUT || a.p->strided || v->type.rank != 2 || v->type.elem == EL_bool || (size != 2 && size != 4))
        return false;
    bool scattered = access_rows_scattered(&a), apart = access_rows_apart(&a);
    for (int d = 0; d < a.nidx; d++) {
        const Affine *x = &a.aff[d];
        for (int t = 0; t < x->ntile; t++) {
            const Type *of = &x->tile[t].v->type;
            if (d == a.inner || of->rank != 1 || of->axis[0] != p->row) return false;
            rows = true;
        }
        if (x->naxis > 1 || (!a.proved[d] && d == a.inner)) return false;
        if (!x->naxis) continue;
        if (x->axis[0].scale) return false;
        if (x->axis[0].axis == p->col && d == a.inner && x->axis[0].k == 1 && !cols) cols = true;
        else if (x->axis[0].axis == p->row && d != a.inner && (!rows || scattered)) rows = true;
        else return false;
    }
    bool aligned = rows && cols && access_aligned(h->facts, &a, 16 / size);
    if (apart && !aligned) return false;
    h->apart = h->apart || scattered || (rows && cols && !aligned);
    h->inside = h->inside || by_data(axis_hi(p->row), 12);
    return rows && cols;
}

// Of slots for whole rows of the tile, 64 of a group at a time; and of the least.
int64_t ws_row_bytes(const Ws *h, const Op *op) {
    const Type *t = &op_value(op)->type;
    const Product *p = &h->p[h->np - 1];
    return ws_storing(h) * 4 * WARP_ROWS * row_pitch(axis_extent(p->col), elem_bytes((Elem)t->elem));
}

uint32_t ws_least_row_bytes(const Ws *h, bool half) { return (uint32_t)(ws_storing(h) * 4 * WARP_ROWS * (half ? HALF_PITCH : LEAST_PITCH)); }

void ws_store_rows(Ws *h, Builder *top, Op *op) {
    const Product *p = &h->p[h->np - 1];
    Val *v = op_value(op), *in[5 + MAX_RANK];
    int n = 0, size = elem_bytes((Elem)v->type.elem), warps = 4 * ws_storing(h);
    Type t = {.kind = TY_BUFFER,
              .elem = v->type.elem,
              .rank = 2,
              .order = {1, 0},
              .shape = {warps, h->walk_bytes / warps / 16 * 16 / size}};
    for (; n <= op->nidx; n++) in[n] = op->in[n];
    in[n++] = v;
    in[n] = b_op(top, OP_T_buffer, 0, t, 0, NULL);
    in[n]->def->imm = 1;
    in[n]->def->attr = h->walk_at;
    in[n++]->name = h->f->launch->params[op->in[0]->def->imm].name;
    in[n++] = p->row;
    in[n++] = p->col;
    Builder b = {h->f, op->parent, op, op->span};
    ws_effect(&b, OP_T_row_store, n, in)->nidx = op->nidx;
    op_remove(op);
}

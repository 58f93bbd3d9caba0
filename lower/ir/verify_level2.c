// The verifier's rules for level 2: layouts' conversions, rings and copies into them, mbarriers, products of wgmma, roles.
#include "lower/ir/verify.h"

static bool want_kind(Check *c, const Op *op, int i, TypeKind kind, const char *what) {
    if (i < op->nin && op->in[i]->type.kind == kind) return true;
    problem(c, "operand %d must be %s", i, what);
    return false;
}

static void want_ring(Check *c, const Op *op) {
    if (want_kind(c, op, 0, TY_BUFFER, "a buffer")) want_scalar_int(c, op, 1, "the stage");
}

// A tile fills one stage: extents in some order, and the element type.
static void want_fits(Check *c, const Type *buffer, const Type *tile) {
    if (tile->kind != TY_TILE) problem(c, "what goes in or out of a buffer is a tile");
    else if (tile->elem != buffer->elem) problem(c, "the buffer is of %s", elem_name((Elem)buffer->elem));
    else if (tile->rank != buffer->rank) problem(c, "the buffer has %d dimensions, the tile %d", buffer->rank, tile->rank);
}

void check_convert(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 1)) return;
    if (!type_equal(&op->in[0]->type, &op->out[0]->type)) problem(c, "a convert keeps the type");
}

void check_buffer(Check *c, const Op *op) {
    if (op->out[0]->type.kind != TY_BUFFER) problem(c, "the result must be a buffer");
    if (op->imm < 1) problem(c, "a ring has at least one stage");
    int repeats = 8 * op->out[0]->type.swizzle;                // bytes
    if (repeats && op->attr % repeats) problem(c, "swizzled lines repeat every %d bytes, and the buffer begins at %d", repeats, (int)op->attr);
    int64_t apart = op->out[0]->type.kind == TY_BUFFER ? type_apart(&op->out[0]->type) : 0;
    if (apart && (apart < type_lanes(&op->out[0]->type) * elem_bytes((Elem)op->out[0]->type.elem) || (repeats && apart % repeats)))
        problem(c, "stages that lie %lld bytes apart do not hold the buffer's", (long long)apart);
}

void check_buffer_low(Check *c, const Op *op) {
    want_kind(c, op, 0, TY_BUFFER, "a buffer");
    want_scalar_int(c, op, 1, "the stage");
    want_kind(c, op, 2, TY_BUFFER, "a buffer");
    want_kind(c, op, 3, TY_MBAR, "an mbarrier");
    if (elem_of(op->in[0]) != EL_f32) problem(c, "the elements must be f32");
    Type from = op->in[0]->type, to = op->in[2]->type;
    if (from.kind == TY_BUFFER && to.kind == TY_BUFFER) from.shape[from.rank] = to.shape[to.rank] = 0;        // but for how far stages lie apart
    if (!type_equal(&from, &to)) problem(c, "the buffers' types differ");
}

void check_buffer_turn(Check *c, const Op *op) {
    want_kind(c, op, 0, TY_BUFFER, "a buffer");
    want_scalar_int(c, op, 1, "the stage");
    want_kind(c, op, 2, TY_BUFFER, "a buffer");
    want_kind(c, op, 3, TY_MBAR, "an mbarrier");
    const Type *from = &op->in[0]->type, *to = &op->in[2]->type;
    if (elem_bytes(elem_of(op->in[0])) != 1 || from->elem != to->elem) problem(c, "the elements must be of 8 bits, and the same");
    if (from->shape[0] != to->shape[1] || from->shape[1] < to->shape[0]) problem(c, "the second buffer's rows are not columns of the first");
}

void check_buffer_clear(Check *c, const Op *op) {
    if (want_kind(c, op, 0, TY_BUFFER, "a buffer")) want_scalar_int(c, op, 1, "the stage");
    want_kind(c, op, 2, TY_AXIS, "an axis");
}

void check_buffer_load(Check *c, const Op *op) {
    want_ring(c, op);
    want_fits(c, &op->in[0]->type, &op->out[0]->type);
    if ((op->imm > 1 || op->attr > 1) && (op->nin != 4 || op->in[0]->type.rank != 2)) problem(c, "several lanes an element: of two named axes");
}
void check_buffer_row(Check *c, const Op *op) {
    want_ring(c, op);
    const Type *ring = &op->in[0]->type, *tile = &op->out[0]->type;
    if (ring->kind != TY_BUFFER) return;
    if (tile->kind != TY_TILE || tile->elem != ring->elem || tile->rank + 1 != ring->rank || op->nin != 2 + tile->rank) problem(c, "a row has all dimensions of the buffer but the first");
    if (op->imm < 0 || op->imm >= ring->shape[0]) problem(c, "the buffer has %lld rows", (long long)ring->shape[0]);
}
void check_buffer_store(Check *c, const Op *op) { want_ring(c, op); want_fits(c, &op->in[0]->type, &op->in[2]->type); }

static void want_copy(Check *c, const Op *op, int tensor) {
    want_ring(c, op);
    if (!want_kind(c, op, tensor, TY_TENSOR, "a tensor")) return;
    if (op->nidx != op->in[tensor]->type.rank || op->nin != tensor + 1 + op->nidx) problem(c, "one index for each dimension of the tensor");
}

void check_copy_async(Check *c, const Op *op) { want_copy(c, op, 2); }
static void want_cluster(Check *c, const Op *op) {
    if (op->attr > 1 && op->attr != c->f->cluster) problem(c, "attr: the cluster has %d blocks", c->f->cluster);
}

void check_tma_load(Check *c, const Op *op) {
    want_cluster(c, op);
    want_kind(c, op, 2, TY_MBAR, "a ring of mbarriers");
    want_ring(c, op);
    if (!want_kind(c, op, 3, TY_TENSOR, "a tensor")) return;
    int n = op->nidx, offsets = op->nin - 4 - n - !!(op->flags & HAS_WHERE);
    bool boxes = offsets % n == 0 && op->in[0]->type.shape[0] % (1 + offsets / n) == 0;
    if (n != op->in[3]->type.rank || (!boxes && offsets != n - 2 && offsets != n - 1)) problem(c, "a coordinate for each dimension of the tensor, and of boxes that share its rows as many each, or for a window an offset for each but the innermost, and the outermost if that counts pictures");
    for (int i = 4; i < op->nin; i++) want_scalar_int(c, op, i, "a coordinate");
}

void check_mbar(Check *c, const Op *op) {
    if (op->out[0]->type.kind != TY_MBAR) problem(c, "the result must be a ring of mbarriers");
    if (op->imm < 1) problem(c, "a ring has at least one stage");
}

static void want_bar(Check *c, const Op *op) {
    if (want_kind(c, op, 0, TY_MBAR, "a ring of mbarriers")) want_scalar_int(c, op, 1, "the stage");
}

void check_mbar_expect(Check *c, const Op *op) {
    want_bar(c, op);
    if (op->nin > 2) want_scalar_int(c, op, 2, "how many bytes less");
}
void check_copy_arrive(Check *c, const Op *op) {
    want_bar(c, op);
    if (op->imm < 1) problem(c, "imm arrivals");
}
void check_mbar_arrive(Check *c, const Op *op) {
    want_bar(c, op);
    want_cluster(c, op);
}
void check_mbar_wait(Check *c, const Op *op) {
    want_bar(c, op);
    want_scalar_int(c, op, 2, "the parity");
}

void check_tma_store(Check *c, const Op *op) {
    want_kind(c, op, 0, TY_BUFFER, "a buffer");
    want_kind(c, op, 1, TY_TENSOR, "a tensor");
    int n = op->nidx;
    bool window = op->nin == 5 + n + n - 2;
    if ((op->nin != 5 + n && !window) || n != op->in[1]->type.rank) { problem(c, "the operands are a buffer, a tensor, a coordinate for each dimension, the value, its row and column axis, and where rows are pixels the lengths of their digits"); return; }
    for (int i = 5 + n; i < op->nin; i++) want_scalar_int(c, op, i, "a length");
    for (int i = 0; i < n; i++) want_scalar_int(c, op, 2 + i, "a coordinate");
    const Val *v = op->in[2 + n];
    if (!is_tile(v) || v->type.rank != 2 || elem_of(v) != elem_of(op->in[1])) { problem(c, "the value must be a tile of two axes and of the tensor's element type"); return; }
    for (int i = 0; i < 2; i++)
        if (type_axis(&v->type, op->in[3 + n + i]) < 0) problem(c, "the row and the column must be the value's axes");
}

void check_row_store(Check *c, const Op *op) {
    if (!want_access(c, op)) return;
    int n = op->nidx;
    if (op->nin != 5 + n) { problem(c, "the operands are a tensor, its indices, the value, a buffer, and the value's row and column axis"); return; }
    const Val *v = op_value(op);
    want_kind(c, op, 2 + n, TY_BUFFER, "a buffer");
    if (!is_tile(v) || v->type.rank != 2 || elem_of(v) != elem_of(op->in[0])) { problem(c, "the value must be a tile of two axes and of the tensor's element type"); return; }
    for (int i = 0; i < 2; i++)
        if (type_axis(&v->type, op->in[3 + n + i]) < 0) problem(c, "the row and the column must be the value's axes");
}

void check_wgmma(Check *c, const Op *op) {
    if (op->in[0]->type.kind != TY_BUFFER) want_tiles(c, op, 0, 1);
    want_kind(c, op, 1, TY_BUFFER, "a buffer");
    want_scalar_int(c, op, 2, "the stage of a");
    want_scalar_int(c, op, 3, "the stage of b");
    int acc = (op->flags & HAS_ACC) != 0;
    if (op->nin != 7 + acc && op->nin != 8 + acc) { problem(c, "the operands are a, b, two stages, the accumulator if there is one, three axes, and b's low parts if there are"); return; }
    if (acc && !type_equal(&op->in[4]->type, &op->out[0]->type)) problem(c, "the accumulator's type is not the result's");
    for (int i = 4 + acc; i < 7 + acc; i++) want_kind(c, op, i, TY_AXIS, "an axis");
    if (op->nin == 8 + acc) want_kind(c, op, 7 + acc, TY_BUFFER, "a buffer");
}

void check_join_lanes(Check *c, const Op *op) {
    if (want_tiles(c, op, 0, 1)) want_same_types(c, 1, op->in, op->out, "operand");
    if (op->imm <= 0) problem(c, "imm: which bits of lane and warp hold parts");
}

void check_wgmma_wait(Check *c, const Op *op) {
    if (op->nin != op->nout) problem(c, "a result for each accumulator");
    else want_same_types(c, op->nout, op->in, op->out, "accumulators");
}

void check_copy_commit(Check *c, const Op *op) { (void)c; (void)op; }
void check_copy_wait(Check *c, const Op *op)   { if (op->imm < 0) problem(c, "imm groups"); }
void check_barrier(Check *c, const Op *op)     { if (op->imm < 0 || op->imm > 15) problem(c, "there are 16 named barriers"); }
void check_turn_wait(Check *c, const Op *op) { (void)c; (void)op; }
void check_turn_pass(Check *c, const Op *op) { (void)c; (void)op; }
void check_fence_async(Check *c, const Op *op) { (void)c; (void)op; }
void check_wait_launches(Check *c, const Op *op) { (void)c; (void)op; }
void check_roles(Check *c, const Op *op) {
    for (int i = 0; i < op->nreg; i++) want_args(c, op->reg[i], 0, 0, NULL);
}

// Bulk copies in flight: a load has one half (fetch, write to shared memory, complete_tx), a store two:
// reading shared memory, which cp.async.bulk.wait_group.read waits for, and writing global memory.
#include "emu/bulk.h"

// Where byte i (a multiple of 16) of the box lies in shared memory.
typedef struct Layout { uint32_t offset, inner, pitch, swizzle; } Layout;

static Layout layout_of(const AsyncOp *op, uint32_t offset) {
    const BulkSpec *s = op->in->extra;
    if (!s->tensor) return (Layout){offset, op->size + 16, 0, 0};
    return (Layout){offset, tensor_inner(op->map), tensor_pitch(op->map), tensor_swizzle(op->map)};
}

static uint32_t place_of(const Layout *l, uint32_t i) {
    uint32_t a = l->offset + i / l->inner * l->pitch + i % l->inner;
    return a ^ (a >> 7 & l->swizzle) << 4;
}

static void into_shared(AsyncOp *op, Block *b, uint32_t offset, const uint8_t *bytes) {
    Layout l = layout_of(op, offset);
    for (uint32_t i = 0; i < op->size; i += 16) {
        uint32_t a = place_of(&l, i);
        memcpy(b->shared + a, bytes + i, 16);
        shadow_init(b, a, 16);
    }
}

void bulk_load(AsyncOp *op) {
    const BulkSpec *s = op->in->extra;
    Cluster *c = op->warp->cluster;
    uint8_t *box = emu_got(malloc(op->size + 16));
    op->done = true;
    if (s->tensor) tensor_walk(op, s->im2col, box, true, -1);
    else if (s->to_cluster) memcpy(box, op->bytes, op->size);
    else {
        const uint8_t *host = emu_host(c->launch->context, op->global, op->size);
        if (host) memcpy(box, host, op->size);
        else memset(box, 0, op->size);
    }
    op->warp->count.async_bytes += op->size;
    uint32_t offset, own = op->shared >> RANK_SHIFT, blocks = op->blocks ? op->blocks : 1u << own;
    for (uint32_t r = 0; r < c->n_blocks; r++) {
        if (!(blocks >> r & 1)) continue;
        Block *b = &c->blocks[r];
        (void)shared_block(op->warp, op->shared, &offset);
        if (block_gone(op->warp, op->in, op->lane, b)) break;
        if (s->reduce >= 0) {
            uint32_t size = ptx_type_bits(s->type) / 8;
            for (uint32_t i = 0; i < op->size; i += size) {
                uint64_t v = 0;
                memcpy(&v, box + i, size);
                atomic_apply(b->shared + offset + i, s->reduce, s->type, v);
            }
            shadow_init(b, offset, op->size);
        } else into_shared(op, b, offset, box);
        mbar_complete(op,
                      (op->mbar & ((1u << RANK_SHIFT) - 1)) | (op->blocks ? r : op->mbar >> RANK_SHIFT) << RANK_SHIFT,
                      s->tensor ? tensor_counted(op->map, op->size) : op->size);
    }
    free(box);
}

void bulk_read(AsyncOp *op) {
    uint32_t offset;
    if (op->read_done) return;
    Block *b = shared_block(op->warp, op->shared, &offset);
    Layout l = layout_of(op, offset);
    op->bytes = emu_got(malloc(op->size + 16));
    bool clean = op->warp->launch->options.allow_uninitialised;
    for (uint32_t i = 0; i < op->size; i += 16) {
        uint32_t a = place_of(&l, i);
        memcpy(op->bytes + i, b->shared + a, 16);
        if (clean || shadow_is_init(b, a, 16)) continue;
        char where[160];
        shared_describe(op->warp->launch, a, where, sizeof where);
        emu_fault(op->warp, op->in, op->lane, EMU_FAULT_UNINITIALISED,
                  "a bulk store of %u bytes reads shared memory that nothing wrote: %s", op->size, where);
        clean = true;
    }
    op->read_done = true;
}

void bulk_store(AsyncOp *op) {
    const BulkSpec *s = op->in->extra;
    bulk_read(op);
    op->done = true;
    op->warp->count.async_bytes += op->size;
    if (s->tensor) {
        tensor_walk(op, s->im2col, op->bytes, false, s->reduce);
        return;
    }
    uint8_t *host = emu_host(op->warp->launch->context, op->global, op->size);
    if (!host) return;
    memory_mark_written(op->warp->launch->context, op->global, op->size);
    if (s->reduce < 0) {
        memcpy(host, op->bytes, op->size);
        return;
    }
    uint32_t size = ptx_type_bits(s->type) / 8;
    for (uint32_t i = 0; i < op->size; i += size) {
        uint64_t v = 0;
        memcpy(&v, op->bytes + i, size);
        atomic_apply(host + i, s->reduce, s->type, v);
    }
}

// A block whose last warp has ended: its shared memory is the next block's from here on. (What others send it is found when it comes.)
void bulk_left(Block *b) {
    for (AsyncOp *op = async_next(b->cluster, NULL); op; op = async_next(b->cluster, op)) {
        bool store = op->kind == ASYNC_STORE;
        uint32_t offset;
        if (op->done || op->warp->block != b) continue;
        if (store ? op->read_done : op->blocks ? !(op->blocks >> b->rank & 1) : shared_block(op->warp, op->shared, &offset) != b) continue;
        emu_fault(op->warp, op->in, op->lane, EMU_FAULT_MISSING_WAIT, "%s (%u bytes) is on its way when the block ends: %s",
                  store ? "a bulk store from its shared memory" : "an asynchronous copy into its shared memory", op->size,
                  store ? "its thread has to wait by `cp.async.bulk.wait_group.read`" : "somebody has to wait at its mbarrier");
    }
}

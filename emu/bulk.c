// Bulk copies in flight: a load has one half (fetch, write to shared memory, complete_tx), a store two:
// reading shared memory, which cp.async.bulk.wait_group.read waits for, and writing global memory.
#include "emu/bulk.h"

static void into_shared(AsyncOp *op, Block *b, uint32_t offset, const uint8_t *bytes, uint32_t swizzle) {
    if (!swizzle) memcpy(b->shared + offset, bytes, op->size);
    else for (uint32_t i = 0; i < op->size; i += 16) {
        uint32_t a = offset + i;
        memcpy(b->shared + (a ^ (a >> 7 & swizzle) << 4), bytes + i, 16);
    }
}

void bulk_load(AsyncOp *op) {
    const BulkSpec *s = op->in->extra;
    Cluster *c = op->warp->cluster;
    uint8_t *box = malloc(op->size + 16);
    if (!box) abort();
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
        if (s->reduce >= 0) {
            uint32_t size = ptx_type_bits(s->type) / 8;
            for (uint32_t i = 0; i < op->size; i += size) {
                uint64_t v = 0;
                memcpy(&v, box + i, size);
                atomic_apply(b->shared + offset + i, s->reduce, s->type, v);
            }
        } else into_shared(op, b, offset, box, s->tensor ? tensor_swizzle(op->map) : 0);
        shadow_init(b, offset, op->size);
        mbar_complete(op, (op->mbar & ((1u << RANK_SHIFT) - 1)) | (op->blocks ? r : op->mbar >> RANK_SHIFT) << RANK_SHIFT, op->size);
    }
    free(box);
}

void bulk_read(AsyncOp *op) {
    const BulkSpec *s = op->in->extra;
    uint32_t offset, swizzle = s->tensor ? tensor_swizzle(op->map) : 0;
    if (op->read_done) return;
    Block *b = shared_block(op->warp, op->shared, &offset);
    op->bytes = malloc(op->size + 16);
    if (!op->bytes) abort();
    for (uint32_t i = 0; i < op->size; i += 16) {
        uint32_t a = offset + i;
        memcpy(op->bytes + i, b->shared + (a ^ (a >> 7 & swizzle) << 4), 16);
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

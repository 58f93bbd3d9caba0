// The state of mbarriers.
//
// It is kept beside the block, keyed by the mbarrier's address; the eight bytes in shared memory hold a
// token only, so that a kernel that prints or copies them gets nothing meaningful, as on the hardware.
//
//     phase 0:  pending 2, tx 0  --arrive.expect_tx 128-->  pending 1, tx 128  --arrive-->  pending 0, tx 128
//               --complete_tx 128-->  phase 1: pending 2, tx 0
#include "emu/exec.h"

Mbarrier *mbar_find(Block *b, uint32_t offset) {
    for (uint32_t i = 0; i < b->n_mbars; i++)
        if (b->mbars[i].address == offset) return &b->mbars[i];
    return NULL;
}

void mbar_init(Block *b, uint32_t offset, uint32_t count) {
    Mbarrier *m = mbar_find(b, offset);
    if (!m) {
        if (b->n_mbars == b->cap_mbars) b->mbars = emu_grown(b->mbars, &b->cap_mbars, 16, sizeof *b->mbars);
        m = &b->mbars[b->n_mbars++];
        *m = (Mbarrier){.address = offset};
        if (b->cluster->launch->races) m->vc = vc_new(b->cluster), m->vc_done = vc_new(b->cluster);
    }
    m->count = count;
    m->pending = count;
    m->tx = 0;
    m->phase = 0;
}

void mbar_drop(Block *b, uint32_t offset) {
    Mbarrier *m = mbar_find(b, offset);
    if (!m) return;
    free(m->vc), free(m->vc_done);
    *m = b->mbars[--b->n_mbars];
}

void mbar_check(Block *b, Mbarrier *m) {
    Cluster *c = b->cluster;
    c->progress++;
    if (m->pending || m->tx) return;
    m->phase++;
    m->pending = m->count;
    if (c->launch->races) vc_join(m->vc_done, m->vc, 2 * c->clocks);
    for (uint32_t i = 0; i < c->n_warps; i++) warp_ready(&c->warps[i], W_MBARRIER, m->address | b->rank << RANK_SHIFT, 0);
}

void mbar_arrive(Warp *w, const Insn *in, int l, Block *b, Mbarrier *m, uint32_t count, int64_t expect, bool release) {
    char where[160];
    m->tx += expect;
    if (m->tx > (1 << 20) - 1) {
        shared_describe(w->launch, m->address, where, sizeof where);
        emu_fault(w, in, l, EMU_FAULT_BAD_OPERAND, "the mbarrier at %s expects %lld bytes, more than 2^20 - 1", where,
                  (long long)m->tx);
    }
    if (count > m->pending) {
        shared_describe(w->launch, m->address, where, sizeof where);
        emu_fault(w, in, l, EMU_FAULT_BAD_OPERAND,
                  "%u arrivals at the mbarrier at %s, which lacks only %lld of %u in this phase", count, where,
                  (long long)m->pending, m->count);
        return;
    }
    if (release && w->launch->races) vc_release(w, m->vc);
    m->pending -= count;
    mbar_check(b, m);
}

void mbar_complete(AsyncOp *op, uint32_t address, int64_t bytes) {
    Warp *w = op->warp;
    uint32_t offset;
    char where[160];
    Block *b = shared_block(w, address, &offset);
    Mbarrier *m = b ? mbar_find(b, offset) : NULL;
    if (!m) {
        shared_describe(w->launch, offset, where, sizeof where);
        emu_fault(w, op->in, op->lane, EMU_FAULT_BAD_OPERAND,
                  "a bulk copy completes on %s, which is no initialised mbarrier", where);
        return;
    }
    if (w->launch->races) {
        uint32_t *known = &m->vc[w->agent + AGENT_BULK];
        if (*known < op->clock) *known = op->clock;
        if (op->vc) vc_join(m->vc, op->vc, 2 * w->cluster->clocks);
    }
    m->tx -= bytes;
    mbar_check(b, m);
}

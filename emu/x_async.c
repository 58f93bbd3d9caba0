// cp.async: 4, 8 or 16 bytes a lane from global to shared memory, in groups per lane.
//
// The bytes move when cp.async.wait_group (or wait_all, or the warp's end) allows no later moment; in
// between, the destination holds what it held, and reading it is reported (shadow.c): the copy is an agent
// of its own, which the waiting warp is ordered after only once it has waited.
#include "emu/exec.h"

typedef uint32_t u32;
typedef uint64_t u64;

#ifndef EMU_V3
static void copy_finish(Warp *w, CpAsync *c) {
    u32 offset;
    Block *b = shared_block(w, c->dst, &offset);
    if (c->valid) memcpy(b->shared + offset, c->src, c->valid);
    memset(b->shared + offset + c->valid, 0, (size_t)(c->size - c->valid));
    shadow_init(b, offset, c->size);
    w->count.async_bytes += c->size;
}

// Where a copy of `valid` bytes, or none, may take them from and put its `size`; false: a fault was reported.
static bool copy_ends(Warp *w, const Insn *in, u32 l, CpAsync *c, u64 src) {
    u32 size = c->size, offset;
    Block *b = shared_block(w, c->dst, &offset);
    char where[160];
    if (c->dst & (size - 1)) {
        shared_describe(w->launch, offset, where, sizeof where);
        emu_fault(w, in, (int)l, EMU_FAULT_MISALIGNED, "cp.async of %u bytes to %s, which is not a multiple of %u", size, where, size);
        return false;
    }
    if (b != w->block || offset < SHARED_START || offset > b->shared_size || size > b->shared_size - offset) {
        shared_describe(w->launch, offset, where, sizeof where);
        emu_fault(w, in, (int)l, EMU_FAULT_OUT_OF_BOUNDS, "cp.async of %u bytes to shared memory: %s", size, where);
        return false;
    }
    if (!c->valid) return true;
    if (src & (size - 1)) {
        memory_describe(w->launch->context, src, size, where, sizeof where);
        emu_fault(w, in, (int)l, EMU_FAULT_MISALIGNED, "cp.async of %u bytes from %s, which is not a multiple of %u", size, where, size);
        return false;
    }
    c->src = emu_memory_at(w, in, (int)l, SPACE_GLOBAL, src, c->valid == size ? size : 1, false);
    for (u32 k = 0; c->src && c->valid < size && k < c->valid; k += 4)   // part of it is of no size that accesses have
        if (!emu_memory_at(w, in, (int)l, SPACE_GLOBAL, src + k, c->valid - k < 4 ? 1 : 4, false)) return false;
    return c->src;
}

void copy_begin(Warp *w, const Insn *in, u32 l, CpAsync c, u64 src, Access *access) {
    u32 offset;
    c.lane = (uint8_t)l, c.group = w->copy_group[l], c.in = in;
    if (!copy_ends(w, in, l, &c, src)) return;
    if (access) {
        Block *b = shared_block(w, c.dst, &offset);
        shadow_reach(access, w, in, b, offset, c.size);
    }
    if (w->n_copies == w->cap_copies) w->copies = emu_grown(w->copies, &w->cap_copies, 128, sizeof *w->copies);
    if (w->launch->options.async == EMU_ASYNC_EAGER || (w->launch->options.async == EMU_ASYNC_RANDOM && rng_next(&w->rng) & 1)) {
        copy_finish(w, &c);
        c.done = 1;
    }
    w->copies[w->n_copies++] = c;
}

static bool waited_for(const Warp *w, const CpAsync *c, u32 lanes, u32 pending) {
    return lanes >> c->lane & 1 && c->group + pending < w->copy_group[c->lane];
}

// What the warp has waited for is as if it had stored it now.
static void copy_is_store(Warp *w, const CpAsync *c) {
    u32 offset, *seen = &w->vc[w->agent + AGENT_COPY], before = *seen;
    Block *b = shared_block(w, c->dst, &offset);
    *seen = w->copy_clock;
    Access access = shadow_helper(w, c->in, true, w->agent, w->vc[w->agent], w->vc, NULL);
    shadow_reach(&access, w, c->in, b, offset, c->size);
    *seen = before;
}

// Finishes copies of `lanes` up to their own groups, and learns how far the warp's copies are: all that began before the oldest
// that is under way have ended. Lanes that diverged begin theirs at other times, so one that began later may have ended, too.
void copies_wait(Warp *w, u32 lanes, u32 pending) {
    u32 kept = 0, oldest = w->copy_clock;
    for (u32 i = 0; i < w->n_copies; i++)
        if (!waited_for(w, &w->copies[i], lanes, pending) && w->copies[i].clock < oldest) oldest = w->copies[i].clock;
    for (u32 i = 0; i < w->n_copies; i++) {
        CpAsync *c = &w->copies[i];
        if (!waited_for(w, c, lanes, pending)) { w->copies[kept++] = *c; continue; }
        if (!c->done) copy_finish(w, c);
        if (w->launch->races && c->clock >= oldest) copy_is_store(w, c);
    }
    w->n_copies = kept;
    if (w->launch->races && w->vc[w->agent + AGENT_COPY] < oldest - 1) w->vc[w->agent + AGENT_COPY] = oldest - 1;
}

void warp_drain(Warp *w) {
    for (u32 i = 0; i < w->n_copies; i++)
        if (!w->copies[i].done) copy_finish(w, &w->copies[i]);
    w->n_copies = 0;
}
#endif

// aux: bytes; b: source size; c: ignore-src; list[0]: global address slot
static void x_copy(Warp *w, const Insn *in) {
    u32 size = (u32)in->aux, clock = w->copy_clock++, sectors = 0;
    bool narrow = in->type == T_u32;
    u64 last = ~0ull;
    Access access = {0};
    if (w->launch->races) access = shadow_helper(w, in, true, w->agent + AGENT_COPY, clock, w->vc, NULL);
    w->effects++;
    EACH_ACTIVE({
        u64 src = (narrow ? lane32(w, in->list[0])[l] : lane64(w, in->list[0])[l]) + (u64)(intptr_t)in->extra;
        u32 dst = (in->flags & ADDR32 ? lane32(w, in->a)[l] : (u32)lane64(w, in->a)[l]) + (u32)in->imm;
        u32 valid = in->b == NO_SLOT ? size : lane32(w, in->b)[l];
        if (in->c != NO_SLOT && *pred(w, in->c) >> l & 1) valid = 0;
        if (valid > size) valid = size;
        if (src >> 5 != last) sectors++;
        last = (src + size - 1) >> 5;
        copy_begin(w, in, (u32)l, (CpAsync){.size = (uint8_t)size, .valid = (uint8_t)valid, .dst = dst, .clock = clock}, src, w->launch->races ? &access : NULL);
    });
    w->count.global_requests++;
    w->count.global_sectors += sectors;
}

static void x_commit(Warp *w, const Insn *in) {
    (void)in;
    EACH_ACTIVE(w->copy_group[l]++);
}

static void x_wait(Warp *w, const Insn *in) {            // aux: wait_all
    if (in->aux) EACH_ACTIVE(w->copy_group[l]++);
    copies_wait(w, w->active, (u32)in->imm);
}

static void decode_cp(Dec *d) {
    if (dec_mod(d, "reduce")) { VARIANT(decode_bulk)(d, true); return; }
    if (!dec_mod(d, "async")) dec_error(d, "`cp` needs .async");
    if (dec_mod(d, "bulk")) { VARIANT(decode_bulk)(d, false); return; }
    if (dec_mod(d, "mbarrier")) { VARIANT(decode_copy_arrive)(d); return; }
    if (dec_mod(d, "commit_group")) {
        dec_count(d, 0, 0);
        dec_emit(d, x_commit);
        return;
    }
    bool all = dec_mod(d, "wait_all");
    if (all || dec_mod(d, "wait_group")) {
        dec_count(d, all ? 0 : 1, all ? 0 : 1);
        int64_t n = all ? 0 : dec_imm(d, 0);
        if (n < 0 || n > 1 << 20) dec_error(d, "`cp.async.wait_group` of %lld", (long long)n);
        Insn *in = dec_emit(d, x_wait);
        in->imm = n, in->aux = all;
        return;
    }
    bool ca = dec_mod(d, "ca"), cg = dec_mod(d, "cg");
    if (!ca && !cg) dec_error(d, "`cp.async` needs .ca or .cg");
    if (!dec_mod(d, "shared")) dec_mod(d, "shared::cta");
    if (!dec_mod(d, "global")) dec_error(d, "`cp.async` copies from .global");
    dec_cache_hints(d);
    dec_count(d, 3, 4);
    int64_t size = dec_imm(d, 2);
    if ((size != 4 && size != 8 && size != 16) || (cg && size != 16))
        dec_error(d, "`cp.async` of %lld bytes", (long long)size);
    Insn to = {0}, from = {0};
    dec_address(d, dec_op(d, 0), &to, SPACE_SHARED);
    dec_address(d, dec_op(d, 1), &from, SPACE_GLOBAL);
    uint32_t b = NO_SLOT, c = NO_SLOT;
    if (d->n_ops == 4) {
        const Operand *o = dec_op(d, 3);
        if (o->kind == O_REG && o->type == T_pred) c = dec_pred(d, o);
        else b = dec_src(d, 3, T_u32);
    }
    Insn *in = dec_emit(d, x_copy);
    in->a = to.a, in->imm = to.imm, in->flags = to.flags, in->space = SPACE_SHARED;
    in->b = b, in->c = c, in->aux = size;
    in->type = from.flags & ADDR32 ? T_u32 : T_u64;
    in->extra = (const void *)(intptr_t)from.imm;
    dec_list(d, in, 1)[0] = from.a;
}


const InsnDef VARIANT(defs_async)[] = {{"cp", decode_cp, EMU_CLASS_ASYNC}, {NULL, NULL, 0}};

// Races in shared memory, by vector clocks.
//
// An *agent* is a warp or one of its asynchronous helpers (cp.async, bulk loads, bulk stores, wgmma); each
// has a clock. Every warp knows, per agent, the latest clock that it is ordered after: its vector clock. Barriers,
// mbarriers and waits join these: arriving releases ("what I have seen"), waiting acquires. A word of
// shared memory remembers its last write and its last two readers as (agent, clock); an access that
// conflicts with a record it is not ordered after is a race.
//
//     record   | clock 23 | agent 12 | bytes 4 | instruction 22 | atomic 1 |
//
// Two warps that store the same value to one place are no race: whichever comes last, it is there. Compilers have all warps
// write what all of them have computed.
//
// A second vector, fv, is joined at the same places but only moves forward at fence.proxy.async: the writes
// that an asynchronous reader (wgmma operands, bulk stores) may rely on.
#include "emu/exec.h"

enum { CLOCK_MAX = (1 << 23) - 1 };

static uint64_t record_of(uint32_t agent, uint32_t clock, uint32_t bytes, uint32_t insn, bool atomic) {
    return (uint64_t)(clock > CLOCK_MAX ? 0 : clock) << 39 | (uint64_t)(agent & 4095) << 27 |
           (uint64_t)(bytes & 15) << 23 | (uint64_t)(insn & 0x3fffff) << 1 | atomic;
}
static uint32_t record_clock(uint64_t r)  { return (uint32_t)(r >> 39); }
static uint32_t record_agent(uint64_t r)  { return (uint32_t)(r >> 27) & 4095; }
static uint32_t record_bytes(uint64_t r)  { return (uint32_t)(r >> 23) & 15; }
static uint32_t record_insn(uint64_t r)   { return (uint32_t)(r >> 1) & 0x3fffff; }

void vc_join(uint32_t *to, const uint32_t *from, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) to[i] = to[i] > from[i] ? to[i] : from[i];
}

uint32_t *vc_new(const Cluster *c) {
    return emu_got(calloc(2 * (size_t)c->clocks, sizeof(uint32_t)));
}

void vc_release(Warp *w, uint32_t *to) {
    uint32_t n = w->cluster->clocks;
    vc_join(to, w->vc, n);
    vc_join(to + n, w->fv, n);
    w->vc[w->agent]++;
}

void vc_acquire(Warp *w, const uint32_t *from) {
    uint32_t n = w->cluster->clocks;
    vc_join(w->vc, from, n);
    vc_join(w->fv, from + n, n);
}

void shadow_init(Block *b, uint32_t offset, uint32_t size) {
    if (!(offset & 3) && !(size & 3)) {
        memset(b->init + (offset >> 2), 15, size >> 2);
        return;
    }
    for (uint32_t o = offset; o < offset + size; o++) b->init[o >> 2] |= (uint8_t)(1u << (o & 3));
}

bool shadow_is_init(const Block *b, uint32_t offset, uint32_t size) {
    if (!(offset & 3) && !(size & 3)) {
        for (uint32_t i = offset >> 2; i < (offset + size) >> 2; i++)
            if (b->init[i] != 15) return false;
        return true;
    }
    for (uint32_t o = offset; o < offset + size; o++)
        if (!(b->init[o >> 2] >> (o & 3) & 1)) return false;
    return true;
}

static const SharedVar *var_in(const SharedVar *list, uint32_t offset) {
    for (const SharedVar *v = list; v; v = v->next)
        if (offset >= v->offset && offset - v->offset < v->size) return v;
    return NULL;
}

static const SharedVar *shared_var_at(const Launch *launch, uint32_t offset) {
    const SharedVar *v = var_in(launch->kernel->shared_vars, offset);
    return v ? v : var_in(launch->module->func_shared_vars, offset);
}

void shared_describe(const Launch *launch, uint32_t offset, char *out, size_t n) {
    const SharedVar *v = shared_var_at(launch, offset);
    uint32_t base = launch_dynamic_base(launch);
    if (v) snprintf(out, n, "`%s` + %u", v->name, offset - v->offset);
    else if (offset >= launch->shared_size)
        snprintf(out, n, "offset %u is %u bytes past the end of the block's %u", offset - SHARED_START,
                 offset - launch->shared_size, launch->shared_size - SHARED_START);
    else if (offset < SHARED_START) snprintf(out, n, "address %u is before its start (%u)", offset, SHARED_START);
    else if (offset >= base) snprintf(out, n, "dynamic shared memory + %u", offset - base);
    else snprintf(out, n, "offset %u", offset - SHARED_START);
}

static void report(Warp *w, const Insn *in, int lane, uint32_t offset, uint64_t old, bool write, bool old_write) {
    static const char *const helper[] = {"", "a cp.async", "a bulk copy", "a bulk store", "a wgmma"};
    char where[160], other[160];
    uint32_t agent = record_agent(old), kind = agent % AGENTS, warp = agent / AGENTS;
    const Insn *first = &w->launch->module->code[record_insn(old)];
    const Warp *who = &w->cluster->warps[warp];
    shared_describe(w->launch, offset, where, sizeof where);
    emu_insn_place(w->launch, first, other, sizeof other);
    if (kind)
        emu_fault(w, in, lane, EMU_FAULT_MISSING_WAIT, "%s of %s, which %s of warp %u (%s) %s: no wait orders the two",
              write ? "write" : "read", where, helper[kind], who->id, other, old_write ? "writes" : "reads");
    else if (who->block != w->block)
        emu_fault(w, in, lane, EMU_FAULT_RACE,
                  "%s of %s races with the %s by warp %u of block %u of the cluster at %s: no barrier between them",
                  write ? "write" : "read", where, old_write ? "write" : "read", who->id, who->block->rank, other);
    else
        emu_fault(w, in, lane, EMU_FAULT_RACE, "%s of %s races with the %s by warp %u at %s: no barrier between them",
              write ? "write" : "read", where, old_write ? "write" : "read", who->id, other);
}

static inline bool ordered(uint64_t r, const uint32_t *vc) { return record_clock(r) <= vc[record_agent(r)]; }

// An access that is being checked against words, one after the other. What was found to be no conflict once is none again.
typedef struct Access {
    uint64_t mine, fine;
    const uint32_t *vc;
    bool     write, old_write;    // old_write: of what conflicts
} Access;

static inline bool conflicts(const Access *a, uint64_t r, uint64_t mine) {
    return record_agent(r) != record_agent(mine) && record_bytes(r) & record_bytes(mine) && !(r & mine & 1) && !ordered(r, a->vc);
}

// One word. Returns the record it conflicts with, 0 if none.
static inline uint64_t touch(Access *a, Shadow *s, uint64_t mine) {
    if (a->write ? s->write == mine && !s->read[0] : s->read[0] == mine) return 0;     // nothing happened since
    uint32_t agent = record_agent(mine);
    uint64_t bad = 0, old = s->write;
    if (old && old != a->fine) {
        if (conflicts(a, old, mine)) bad = old, a->old_write = true;
        else if (record_bytes(mine) == 15) a->fine = old;
    }
    if (!a->write) {
        if (record_agent(s->read[0]) != agent && s->read[0]) s->read[1] = s->read[0];
        else if (record_clock(s->read[0]) == record_clock(mine)) mine |= s->read[0] & 15ull << 23;
        s->read[0] = mine;
        return bad;
    }
    for (int i = 0; i < 2 && !bad; i++)
        if (s->read[i] && conflicts(a, s->read[i], mine)) bad = s->read[i], a->old_write = false;
    if (old && record_agent(old) == agent && record_clock(old) == record_clock(mine)) mine |= old & 15ull << 23;
    s->write = mine;
    s->read[0] = s->read[1] = 0;
    return bad;
}

// Whether the store that is being checked leaves the word (of `bytes`) as it is.
static bool stores_same(const Warp *w, const Insn *in, int lane, const Block *b, uint32_t offset, uint32_t at, uint32_t bytes) {
    uint8_t value[32];
    uint32_t size = ptx_type_bits((Type)in->type) / 8, slot_bytes = size < 4 ? 4 : size;
    if (w->storing_rows) memcpy(value, w->storing_rows[lane], 16);
    for (uint32_t v = 0; v < in->vec && !w->storing_rows; v++)
        memcpy(value + v * size, (const char *)slot_at(w, in->list[v]) + (size_t)lane * slot_bytes, size);
    for (uint32_t i = 0; i < 4; i++)
        if (bytes >> i & 1 && value[(at & ~3u) + i - offset] != b->shared[(at & ~3u) + i]) return false;
    return true;
}

// Of the lanes in `lanes`, one after the other, in one block: size bytes at offset[l].
void shadow_access(Warp *w, const Insn *in, uint32_t lanes, Block *b, const uint32_t *offset, uint32_t size, bool write, bool atomic) {
    uint32_t insn = (uint32_t)(in - w->launch->module->code);
    Access a = {.mine = record_of(w->agent, w->vc[w->agent], 0, insn, atomic), .vc = w->vc, .write = write};
    for (; lanes; lanes &= lanes - 1) {
        int lane = __builtin_ctz(lanes);
        for (uint32_t at = offset[lane], end = at + size; at < end; at = (at | 3) + 1) {
            uint32_t from = at & 3, to = (end - (at & ~3u) < 4 ? end - (at & ~3u) : 4),
                     bytes = ((1u << to) - 1) & ~((1u << from) - 1);
            uint64_t bad = touch(&a, &b->shadow[at >> 2], a.mine | (uint64_t)bytes << 23);
            if (!bad) continue;
            if (a.old_write && w->storing == in && !(record_agent(bad) % AGENTS) && stores_same(w, in, lane, b, offset[lane], at, bytes)) continue;
            report(w, in, lane, at, bad, write, a.old_write);
        }
    }
}

// An access by an asynchronous helper: `vc` is what its issuer had seen, `fv` (for reads) what it may rely
// on having been fenced.
void shadow_async(Warp *w, const Insn *in, Block *b, uint32_t offset, uint32_t size, bool write,
                  uint32_t agent, uint32_t clock, const uint32_t *vc, const uint32_t *fv) {
    uint64_t fenced = 0;          // a write that is known to be
    Access a = {.mine = record_of(agent, clock, 15, (uint32_t)(in - w->launch->module->code), false), .vc = vc, .write = write};
    for (uint32_t at = offset & ~3u; at < offset + size; at += 4) {
        Shadow *s = &b->shadow[at >> 2];
        uint64_t before = s->write, bad = touch(&a, s, a.mine);
        if (bad) {
            report(w, in, __builtin_ctz(w->active ? w->active : 1), at, bad, write, a.old_write);
            return;
        }
        if (before == fenced) continue;
        if (fv && !write && before && record_agent(before) % AGENTS <= AGENT_COPY &&
            record_clock(before) > fv[record_agent(before)]) {
            char where[160], other[160];
            shared_describe(w->launch, at, where, sizeof where);
            emu_insn_place(w->launch, &w->launch->module->code[record_insn(before)], other, sizeof other);
            emu_fault(w, in, __builtin_ctz(w->active ? w->active : 1), EMU_FAULT_MISSING_FENCE,
                  "%s is read through the asynchronous proxy, but no `fence.proxy.async` follows the store by warp %u at %s",
                  where, w->cluster->warps[record_agent(before) / AGENTS].id, other);
            return;
        }
        fenced = before;
    }
}

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
// What takes all of 16 bytes (most do: rows of ldmatrix, boxes of TMA, operands of wgmma, a warp's words side by side) has one
// record for the four words, a *line*. Where less is taken the line comes apart, until all of it is written again.
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
#define ALL_BYTES (15ull << 23)
#define WAS_WRITE (1ull << 63)                                 // of a conflict: with a write
#define APART     (~0ull)                                      // the record of a line whose words have their own

// Which bytes of the word at `at` lie before `end`, from `at` on.
static inline uint32_t bytes_of_word(uint32_t at, uint32_t end) {
    uint32_t word = at & ~3u, to = end - word < 4 ? end - word : 4;
    return ((1u << to) - 1) & ~((1u << (at & 3)) - 1);
}

static Access access_of(const Warp *w, const Insn *in, uint32_t agent, uint32_t clock, bool write, bool atomic, const uint32_t *vc) {
    return (Access){.mine = record_of(agent, clock, 15, (uint32_t)(in - w->launch->module->code), atomic), .vc = vc, .write = write};
}

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

// ---- Which bytes were written

enum { ALL_OF_LINE = 0x0f0f0f0f };                             // of four words

static inline uint32_t line_init(const Block *b, uint32_t offset) {
    uint32_t x;
    memcpy(&x, b->init + (offset >> 2), sizeof x);
    return x;
}

static inline bool begins_line(uint32_t at, uint32_t end) { return !(at & 15) && at + 16 <= end; }

void shadow_init(Block *b, uint32_t offset, uint32_t size) {
    const uint32_t all = ALL_OF_LINE;
    for (uint32_t end = offset + size; offset < end;)
        if (begins_line(offset, end)) memcpy(b->init + (offset >> 2), &all, sizeof all), offset += 16;
        else b->init[offset >> 2] |= (uint8_t)bytes_of_word(offset, end), offset = (offset | 3) + 1;
}

bool shadow_is_init(const Block *b, uint32_t offset, uint32_t size) {
    for (uint32_t end = offset + size; offset < end;) {
        uint32_t bytes = bytes_of_word(offset, end);
        bool     line = begins_line(offset, end);
        if (line ? line_init(b, offset) != ALL_OF_LINE : (b->init[offset >> 2] & bytes) != bytes) return false;
        offset = line ? offset + 16 : (offset | 3) + 1;
    }
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
    else if (offset < launch->shared_from) snprintf(out, n, "address %u is before its start (%u)", offset, SHARED_START);
    else if (offset < SHARED_START || (!launch->shared_from && !launch->module->uses_reserved)) snprintf(out, n, "address %u", offset);
    else if (offset >= base) snprintf(out, n, "dynamic shared memory + %u", offset - base);
    else snprintf(out, n, "offset %u", offset - SHARED_START);
}

static void report(Warp *w, const Insn *in, int lane, uint32_t offset, uint64_t conflict, bool write) {
    static const char *const helper[] = {"", "a cp.async", "a bulk copy", "a bulk store", "a wgmma"};
    char where[160], other[160];
    uint64_t old = conflict & ~WAS_WRITE;
    bool     old_write = conflict & WAS_WRITE;
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

static inline bool conflicts(const Access *a, uint64_t r, uint64_t mine) {
    return record_agent(r) != record_agent(mine) && record_bytes(r) & record_bytes(mine) && !(r & mine & 1) && !ordered(r, a->vc);
}

// One record. Returns what it conflicts with, WAS_WRITE beside it, or 0.
static uint64_t touch_any(Access *a, Shadow *s, uint64_t mine) {
    uint32_t agent = record_agent(mine);
    uint64_t bad = 0, old = s->write;
    if (old && old != a->fine) {
        if (conflicts(a, old, mine)) bad = old | WAS_WRITE;
        else if (record_bytes(mine) == 15) a->fine = old;
    }
    if (!a->write) {
        if (record_agent(s->read[0]) != agent && s->read[0]) s->read[1] = s->read[0];
        else if (record_clock(s->read[0]) == record_clock(mine)) mine |= s->read[0] & 15ull << 23;
        s->read[0] = mine;
        return bad;
    }
    for (int i = 0; i < 2 && !bad; i++)
        if (s->read[i] && conflicts(a, s->read[i], mine)) bad = s->read[i];
    if (old && record_agent(old) == agent && record_clock(old) == record_clock(mine)) mine |= old & 15ull << 23;
    s->write = mine;
    s->read[0] = s->read[1] = 0;
    return bad;
}

// The same, most records looked at where they are: those that nothing happened to since, and those after a write that is known
// to be no conflict.
static inline uint64_t touch(Access *a, Shadow *s, uint64_t mine) {
    if (a->write) {
        if (s->read[0]) return touch_any(a, s, mine);
        if (s->write == mine) return 0;
        if (s->write != a->fine || ~mine & ALL_BYTES) return touch_any(a, s, mine);
        s->write = mine;
        return 0;
    }
    if (s->read[0] == mine) return 0;
    if (s->write != a->fine || ~mine & ALL_BYTES) return touch_any(a, s, mine);
    if (s->read[0] && record_agent(s->read[0]) != record_agent(mine)) s->read[1] = s->read[0];
    s->read[0] = mine;
    return 0;
}

// ---- Lines: 16 bytes that have one record as long as all that is done there is done to all of them

static Shadow *words_of(Block *b, Shadow *line) {              // takes it apart
    if (line->write == APART) return b->apart[line->read[0]].word;
    uint32_t i = b->free_apart;
    if (i) b->free_apart = (uint32_t)b->apart[i].word[0].write;
    else {
        if (b->n_apart == b->cap_apart) b->apart = emu_grown(b->apart, &b->cap_apart, 64, sizeof *b->apart);
        if (!b->n_apart) b->n_apart = 1;                       // 0: none
        i = b->n_apart++;
    }
    for (int k = 0; k < 4; k++) b->apart[i].word[k] = *line;
    *line = (Shadow){APART, {i, 0}};
    return b->apart[i].word;
}

static void put_together(Block *b, Shadow *line, uint64_t record) {
    uint32_t i = (uint32_t)line->read[0];
    b->apart[i].word[0].write = b->free_apart;
    b->free_apart = i;
    *line = (Shadow){record, {0, 0}};
}

static uint64_t touch_word(Access *a, Block *b, uint32_t at, uint32_t bytes) {
    Shadow *line = &b->shadow[at >> 4];
    if (a->write ? line->write == a->mine && !line->read[0] : line->read[0] == a->mine) return 0;
    return touch(a, &words_of(b, line)[at >> 2 & 3], (a->mine & ~ALL_BYTES) | (uint64_t)bytes << 23);
}

// All of it: what each word conflicts with. False: nothing.
static inline bool touch_line(Access *a, Block *b, uint32_t at, uint64_t bad[4]) {
    Shadow *line = &b->shadow[at >> 4], *words;
    if (line->write != APART) {
        uint64_t one = touch(a, line, a->mine);
        if (one) bad[0] = bad[1] = bad[2] = bad[3] = one;
        return one;
    }
    uint64_t any = 0;
    words = b->apart[line->read[0]].word;
    for (int k = 0; k < 4; k++) any |= bad[k] = touch(a, &words[k], a->mine);
    if (a->write) put_together(b, line, a->mine);
    return any;
}

// What comes first in [at, end), a line or a word. Where it ends.
static inline uint32_t touch_next(Access *a, Block *b, uint32_t at, uint32_t end, uint64_t bad[4], bool *any) {
    if (begins_line(at, end)) {
        *any = touch_line(a, b, at, bad);
        return at + 16;
    }
    *any = (bad[0] = touch_word(a, b, at, bytes_of_word(at, end))) != 0;
    return (at | 3) + 1;
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

// Lanes whose bytes follow each other, or are the same.
typedef struct Run { uint32_t lanes, begin, end; } Run;

static inline Run take_run(uint32_t *lanes, const uint32_t *offset, uint32_t size) {
    uint32_t l = (uint32_t)__builtin_ctz(*lanes), last = offset[l];
    Run r = {1u << l, last, last + size};
    for (*lanes &= *lanes - 1; *lanes; *lanes &= *lanes - 1) {
        l = (uint32_t)__builtin_ctz(*lanes);
        if (offset[l] == r.end) last = r.end, r.end += size;
        else if (offset[l] != last) break;
        r.lanes |= 1u << l;
    }
    return r;
}

// A word that `bad` conflicts with: whose lane's access that is, if it is a race.
static void report_word(Warp *w, const Insn *in, const Access *a, Run run, Block *b, const uint32_t *offset, uint32_t size, uint32_t word, uint64_t bad) {
    for (uint32_t m = run.lanes; m; m &= m - 1) {
        int lane = __builtin_ctz(m);
        uint32_t from = offset[lane] > word ? offset[lane] : word, end = offset[lane] + size;
        if (from >= end || from >= word + 4) continue;
        uint32_t bytes = bytes_of_word(from, end);
        if (!(record_bytes(bad) & bytes)) continue;
        if (bad & WAS_WRITE && w->storing == in && !(record_agent(bad) % AGENTS) && stores_same(w, in, lane, b, offset[lane], from, bytes)) continue;
        report(w, in, lane, from, bad, a->write);
        return;
    }
}

// Size bytes at offset[l] of one block, of the lanes in `lanes`.
void shadow_access(Warp *w, const Insn *in, uint32_t lanes, Block *b, const uint32_t *offset, uint32_t size, bool write, bool atomic) {
    Access a = access_of(w, in, w->agent, w->vc[w->agent], write, atomic, w->vc);
    uint64_t bad[4];
    bool any;
    while (lanes) {
        Run run = take_run(&lanes, offset, size);
        for (uint32_t at = run.begin, next; at < run.end; at = next) {
            next = touch_next(&a, b, at, run.end, bad, &any);
            uint32_t first = at & ~3u;
            for (uint32_t k = 0; any && first + 4 * k < next; k++)
                if (bad[k]) report_word(w, in, &a, run, b, offset, size, first + 4 * k, bad[k]);
        }
    }
}

// ---- Accesses by asynchronous helpers

Access shadow_helper(Warp *w, const Insn *in, bool write, uint32_t agent, uint32_t clock, const uint32_t *vc, const uint32_t *fv) {
    Access a = access_of(w, in, agent, clock, write, false, vc);
    a.fv = write ? NULL : fv;
    return a;
}

static bool is_fenced(Access *a, uint64_t before) {
    if (before == a->fenced) return true;
    if (before && record_agent(before) % AGENTS <= AGENT_COPY && record_clock(before) > a->fv[record_agent(before)]) return false;
    a->fenced = before;
    return true;
}

static bool check_fenced(Warp *w, const Insn *in, Access *a, const Block *b, uint32_t at) {
    const Shadow *line = &b->shadow[at >> 4];
    uint64_t before = line->write != APART ? line->write : b->apart[line->read[0]].word[at >> 2 & 3].write;
    if (is_fenced(a, before)) return true;
    char where[160], other[160];
    shared_describe(w->launch, at, where, sizeof where);
    emu_insn_place(w->launch, &w->launch->module->code[record_insn(before)], other, sizeof other);
    emu_fault(w, in, __builtin_ctz(w->active ? w->active : 1), EMU_FAULT_MISSING_FENCE,
              "%s is read through the asynchronous proxy, but no `fence.proxy.async` follows the store by warp %u at %s",
              where, w->cluster->warps[record_agent(before) / AGENTS].id, other);
    return false;
}

bool shadow_reach(Access *a, Warp *w, const Insn *in, Block *b, uint32_t offset, uint32_t size) {
    uint64_t bad[4];
    bool any;
    for (uint32_t at = offset & ~3u, end = (offset + size + 3) & ~3u, next; at < end; at = next) {
        next = touch_next(a, b, at, end, bad, &any);
        for (uint32_t k = 0; any && 4 * k < next - at; k++) {
            if (!bad[k]) continue;
            report(w, in, __builtin_ctz(w->active ? w->active : 1), at + 4 * k, bad[k], a->write);
            return false;
        }
        uint32_t step = b->shadow[at >> 4].write == APART ? 4 : next - at;
        for (uint32_t word = at; a->fv && word < next; word += step)
            if (!check_fenced(w, in, a, b, word)) return false;
    }
    return true;
}

void shadow_async(Warp *w, const Insn *in, Block *b, uint32_t offset, uint32_t size, bool write,
                  uint32_t agent, uint32_t clock, const uint32_t *vc, const uint32_t *fv) {
    Access a = shadow_helper(w, in, write, agent, clock, vc, fv);
    shadow_reach(&a, w, in, b, offset, size);
}

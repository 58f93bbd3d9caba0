// Loops that nothing ends. A warp that repeats itself, its registers as they were at the same place and nothing changed by it
// since, goes on so until somebody else changes memory. When every warp of every block repeats itself or waits, nobody will:
//
//     spin: ld.relaxed.gpu.u32 %r1, [%rd1];  setp.ne.u32 %p1, %r1, 0;  @!%p1 bra spin;       and no one stores there
//
// A loop that counts, or looks at a clock, is in another state each time round, however long it runs. What a warp changes is
// counted in `effects` (stores that leave other bytes than there were, atomics likewise, copies, wgmma); barriers and completions
// in its cluster's `progress`.
#include "emu/exec.h"

// Turns before a state is looked at (the groups of a warp have all had theirs by then), and from one look to the next.
enum { PATIENCE = 4096, EVERY = 64 };

static uint64_t mix(uint64_t h, const void *bytes, size_t n) {
    const uint64_t *p = bytes;
    for (size_t i = 0; i < n / 8; i++) h = (h ^ p[i]) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
    return h;
}

static uint64_t state_of(const Warp *w) {
    uint64_t h = (uint64_t)w->pc << 32 | w->mask;
    for (uint32_t i = 0; i < w->n_groups; i++) {
        const Group *g = &w->groups[i];
        uint64_t part[2] = {(uint64_t)g->pc << 32 | g->mask, g->a << 8 ^ (uint64_t)g->b << 4 ^ g->wait};
        h = mix(h, part, sizeof part);
    }
    h = mix(h, w->base[BASE_REGS] + SP_COUNT * 128, (w->launch->kernel->reg_bytes - SP_COUNT * 128) & ~7u);
    return mix(h, w->base[BASE_FUNCS], w->launch->module->func_reg_bytes & ~7u);
}

void idle_turn(Warp *w) {
    struct Idle *idle = &w->idle;
    Launch *launch = w->launch;
    bool acted = w->effects != idle->effects || w->cluster->progress != idle->progress;
    if (acted) atomic_fetch_add_explicit(&launch->changes, 1, memory_order_relaxed);
    uint64_t changes = atomic_load_explicit(&launch->changes, memory_order_relaxed);
    if (acted || changes != idle->changes) {
        *idle = (struct Idle){.effects = w->effects, .progress = w->cluster->progress, .changes = changes};
        return;
    }
    if (++idle->turns < PATIENCE || idle->recurs || idle->turns % EVERY) return;
    if (idle->turns >= 2 * idle->marked + PATIENCE) {
        idle->marked = idle->turns;
        idle->state = state_of(w);
    } else if (idle->turns - idle->marked >= PATIENCE) idle->recurs = state_of(w) == idle->state;
}

bool idle_all(Cluster *c, uint64_t changes) {
    if (async_next(c, NULL)) return false;
    for (uint32_t i = 0; i < c->n_warps; i++) {
        const Warp *w = &c->warps[i];
        bool repeats = w->idle.recurs && w->idle.changes == changes && w->idle.effects == w->effects && w->idle.progress == c->progress;
        if (w->live && warp_has_ready(w) && !repeats) return false;
    }
    return true;
}

// Workers are stuck at a count of changes, the one that each of them compared its warps' with: another's last change, counted between
// that comparison and this call, is none that they have seen.
bool idle_for_ever(Launch *launch, uint32_t worker, bool stuck, uint64_t changes) {
    atomic_store(&launch->stuck[worker], stuck ? changes + 1 : 0);
    if (!stuck) return false;
    for (uint32_t i = 0; i < launch->n_workers; i++) {
        uint64_t at = atomic_load(&launch->stuck[i]);
        if (at != changes + 1 && at != ~0ull) return false;
    }
    return atomic_load(&launch->changes) == changes;
}

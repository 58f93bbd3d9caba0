// Launches: blocks and clusters set up, scheduled on a pool of threads, and taken down.
//
// A worker thread takes clusters in order and runs each to its end, warp by warp in turns of some hundred
// instructions. A cluster that does not end within a slice may be waiting for one that has not started
// (a semaphore in global memory), so the worker then starts another beside it.
//
// When no warp of a cluster can run, pending asynchronous operations complete, one at a time; when there
// are none, try_wait answers "not yet"; when that changes nothing either, it is a deadlock.
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>

#include "emu/exec.h"

enum { QUANTUM = 400, SLICE = 1 << 22, MAX_RESIDENT = 256, GRID_WORKSPACE = 64 };
// of a multiprocessor; a thread's come in units
enum { REGISTER_FILE = 65536, REGISTER_UNIT = 8, REGISTERS_PER_THREAD = 255 };
enum { MAX_THREADS = 1024, MAX_THREADS_Z = 64, MAX_CLUSTER = 16 };

static void *need(size_t n) { return emu_got(calloc(1, n ? n : 1)); }

uint32_t launch_dynamic_base(const Launch *launch) {
    const Kernel *k = launch->kernel;
    uint32_t end = launch->module->has_functions ? launch->module->func_shared_end : k->shared_end;
    uint32_t a = k->dynamic_align < 16 ? 16 : k->dynamic_align;
    if (launch->module->has_functions && a < 1024) a = 1024;
    return (SHARED_START + end + a - 1) / a * a;
}

// A kernel that names no shared memory, and is given some, knows it by addresses alone: they begin at 0, as Halide writes them.
static bool counts_from_zero(const Launch *launch) {
    const Kernel *k = launch->kernel;
    return launch->dynamic_shared && !k->info.dynamic_shared && !k->shared_vars && !launch->module->func_shared_vars;
}

// ---- Setting up

static void set_all(Warp *w, Special sp, uint32_t v) {
    for (int l = 0; l < 32; l++) lane32(w, SPECIAL_SLOT(sp))[l] = v;
}

static void fill_specials(Warp *w) {
    const Launch *launch = w->launch;
    const uint32_t *g = launch->grid, *b = launch->block, *c = launch->cluster, *id = w->block->id;
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t t = w->id * 32 + l;
        lane32(w, SPECIAL_SLOT(SP_tid_x))[l] = t % b[0];
        lane32(w, SPECIAL_SLOT(SP_tid_y))[l] = t / b[0] % b[1];
        lane32(w, SPECIAL_SLOT(SP_tid_z))[l] = t / b[0] / b[1];
        lane32(w, SPECIAL_SLOT(SP_laneid))[l] = l;
        lane32(w, SPECIAL_SLOT(SP_lanemask_eq))[l] = 1u << l;
        lane32(w, SPECIAL_SLOT(SP_lanemask_lt))[l] = (1u << l) - 1;
        lane32(w, SPECIAL_SLOT(SP_lanemask_le))[l] = (2u << l) - 1;
        lane32(w, SPECIAL_SLOT(SP_lanemask_ge))[l] = ~0u << l;
        lane32(w, SPECIAL_SLOT(SP_lanemask_gt))[l] = ~((2u << l) - 1);
    }
    const uint32_t clusters[3] = {g[0] / c[0], g[1] / c[1], g[2] / c[2]},
                   in_cluster[3] = {id[0] % c[0], id[1] % c[1], id[2] % c[2]};
    for (int i = 0; i < 3; i++) {
        set_all(w, (Special)(SP_ntid_x + i), b[i]);
        set_all(w, (Special)(SP_ctaid_x + i), id[i]);
        set_all(w, (Special)(SP_nctaid_x + i), g[i]);
        set_all(w, (Special)(SP_clusterid_x + i), id[i] / c[i]);
        set_all(w, (Special)(SP_nclusterid_x + i), clusters[i]);
        set_all(w, (Special)(SP_cluster_ctaid_x + i), in_cluster[i]);
        set_all(w, (Special)(SP_cluster_nctaid_x + i), c[i]);
    }
    uint32_t linear = id[0] + g[0] * (id[1] + g[1] * id[2]), rank = w->block->rank;
    set_all(w, SP_warpid, w->id);
    set_all(w, SP_nwarpid, w->block->n_warps);
    set_all(w, SP_smid, linear % 132);
    set_all(w, SP_nsmid, 132);
    set_all(w, SP_gridid, 1);
    set_all(w, SP_cluster_ctarank, rank);
    set_all(w, SP_cluster_nctarank, w->cluster->n_blocks);
    set_all(w, SP_dynamic_smem_size, launch->dynamic_shared);
    set_all(w, SP_total_smem_size, launch->shared_size - SHARED_START);
    set_all(w, SP_aggr_smem_size, launch->shared_size - SHARED_START);
    set_all(w, SP_smem_static, rank << RANK_SHIFT);
    set_all(w, SP_smem_dynamic, (rank << RANK_SHIFT) + launch_dynamic_base(launch));
    set_all(w, SP_frame, FUNC_LOCAL);
    set_all(w, SP_zero, 0);
    set_all(w, SP_envreg1, (uint32_t)(launch->workspace >> 32));
    set_all(w, SP_envreg2, (uint32_t)launch->workspace);
}

static void warp_create(Warp *w, Block *b, uint32_t id, uint32_t index, uint32_t threads) {
    Launch *launch = b->cluster->launch;
    EmuModule *m = launch->module;
    Kernel *k = launch->kernel;
    size_t regs = (k->reg_bytes + 127) & ~(size_t)63, funcs = (m->func_reg_bytes + 127) & ~(size_t)63;
    EmuFill junk = launch->options.junk ? launch->options.junk : EMU_FILL_RANDOM;
    uint64_t seed = launch->options.junk_seed * 0x9e3779b97f4a7c15ull +
                    ((uint64_t)b->id[0] << 40 ^ (uint64_t)b->id[1] << 28 ^ b->id[2]) + id;
    w->block = b;
    w->cluster = b->cluster;
    w->launch = launch;
    w->id = id;
    w->agent = index * AGENTS;
    w->base[BASE_REGS] = emu_got(aligned_alloc(64, regs));
    w->base[BASE_FUNCS] = emu_got(aligned_alloc(64, funcs));
    w->base[BASE_CONSTS] = m->consts;
    w->base[3] = m->consts;
    w->local[0] = need(32 * (size_t)k->local_bytes);
    emu_junk_fill(w->base[BASE_REGS] + SP_COUNT * 128, regs - SP_COUNT * 128, junk, seed);
    emu_junk_fill(w->base[BASE_FUNCS], funcs, junk, seed + 1);
    emu_junk_fill(w->local[0], 32 * (size_t)k->local_bytes, junk, seed + 2);
    w->waited = launch->options.early ? 0 : ~0u;
    w->live = threads >= 32 ? 0xffffffffu : (1u << threads) - 1;
    w->mask = w->live;
    w->pc = k->entry;
    w->limit = 0xffffffffu;
    w->wgmma_last = &w->wgmma_first;
    w->rng = seed;
    w->copy_clock = w->bulk_clock = w->store_clock = 1;
    if (launch->races) {
        w->vc = vc_new(b->cluster);
        w->fv = w->vc + b->cluster->clocks;
        w->vc[w->agent] = 1;
    }
    fill_specials(w);
}

static uint32_t registers_of_block(const Kernel *k) { return REGISTER_FILE / (k->min_blocks ? k->min_blocks : 1); }

// Registers of a thread as its block begins, as ptxas 13.0 gives them to kernels that have setmaxnreg: as many as fit into the file, for whole
// groups of four warps and as many blocks as .minnctapersm says, but no more than .maxnreg, or than setmaxnreg.inc ever asks for.
static uint32_t registers_at_entry(const Kernel *k, uint32_t warps) {
    const uint32_t *most = k->info.reqntid[0] ? k->info.reqntid : k->info.maxntid;
    uint64_t said = (uint64_t)most[0] * most[1] * most[2], threads = said > warps * 32 ? said : warps * 32;
    uint32_t n = (uint32_t)(registers_of_block(k) / ((threads + 127) / 128 * 128)) / REGISTER_UNIT * REGISTER_UNIT;
    if (n > REGISTERS_PER_THREAD) n = REGISTERS_PER_THREAD;
    if (k->info.maxnreg && k->info.maxnreg < n) n = k->info.maxnreg;
    return k->most_registers && k->most_registers < n ? k->most_registers : n;
}

// Counts stand where what they count is there: what is half made can be taken down.
static void cluster_fill(Cluster *c, Launch *launch, uint64_t index) {
    const uint32_t *n = launch->cluster, *g = launch->grid;
    uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2], warps = (threads + 31) / 32;
    uint64_t at[3] = {index % (g[0] / n[0]), index / (g[0] / n[0]) % (g[1] / n[1]), index / (g[0] / n[0]) / (g[1] / n[1])};
    uint32_t blocks = n[0] * n[1] * n[2];
    c->launch = launch;
    c->async_last = &c->async_first;
    c->blocks = need(blocks * sizeof *c->blocks);
    c->n_blocks = blocks;
    c->warps = need(blocks * warps * sizeof *c->warps);
    c->n_warps = c->n_live = blocks * warps;
    c->clocks = c->n_warps * AGENTS;
    c->rng = launch->options.order_seed * 0x2545f4914f6cdd1dull + index;
    if (launch->races) c->vc = vc_new(c);
    for (uint32_t r = 0; r < c->n_blocks; r++) {
        Block *b = &c->blocks[r];
        b->cluster = c;
        b->rank = r;
        b->id[0] = (uint32_t)at[0] * n[0] + r % n[0];
        b->id[1] = (uint32_t)at[1] * n[1] + r / n[0] % n[1];
        b->id[2] = (uint32_t)at[2] * n[2] + r / n[0] / n[1];
        b->shared_size = launch->shared_size;
        uint32_t words = (launch->shared_size + 3) / 4;
        b->shared = emu_got(aligned_alloc(1024, (launch->shared_size + 1023) & ~(size_t)1023));
        emu_junk_fill(b->shared, launch->shared_size, launch->options.junk ? launch->options.junk : EMU_FILL_RANDOM,
                  launch->options.junk_seed + 77 * index + r);
        b->init = need(words + 3);
        if (launch->module->uses_reserved) {             // zero as a block begins
            memset(b->shared, 0, SHARED_START);
            shadow_init(b, 0, SHARED_START);
        }
        b->n_warps = b->n_live = warps;
        b->warps = need(warps * sizeof *b->warps);
        if (launch->races) {
            b->shadow = need((words + 3) / 4 * sizeof *b->shadow);
            b->atomic_vc = vc_new(c);
            for (int i = 0; i < NAMED_BARRIERS; i++) b->barriers[i].vc = vc_new(c);
        }
        uint32_t per_thread = registers_at_entry(launch->kernel, warps);
        b->free_registers = registers_of_block(launch->kernel) - (int64_t)per_thread * warps * 32;
        for (uint32_t i = 0; i < warps; i++) {
            Warp *w = b->warps[i] = &c->warps[r * warps + i];
            warp_create(w, b, i, r * warps + i, threads - i * 32);
            w->registers = per_thread;
        }
    }
}

static void add_counters(EmuCounters *to, const EmuCounters *from) {
    uint64_t *t = (uint64_t *)to;
    const uint64_t *f = (const uint64_t *)from;
    for (size_t i = 0; i < sizeof *to / sizeof *t; i++) t[i] += f[i];
}

static void cluster_destroy(Cluster *c) {
    Launch *launch = c->launch;
    EmuCounters sum = {0};
    for (uint32_t i = 0; i < c->n_warps; i++) {
        Warp *w = &c->warps[i];
        add_counters(&sum, &w->count);
        for (AsyncOp *op = w->wgmma_first, *next; op; op = next) next = op->next, async_free(op);
        free(w->base[BASE_REGS]), free(w->base[BASE_FUNCS]);
        free(w->local[0]), free(w->local[1]);
        frames_free(w);
        free(w->vc), free(w->copies), free(w->inflight);
    }
    for (AsyncOp *op = async_next(c, NULL), *next; op; op = next) next = async_next(c, op), async_free(op);
    async_drop(c);
    for (uint32_t r = 0; r < c->n_blocks; r++) {
        Block *b = &c->blocks[r];
        for (int i = 0; i < NAMED_BARRIERS; i++) free(b->barriers[i].vc);
        for (uint32_t i = 0; i < b->n_mbars; i++) free(b->mbars[i].vc), free(b->mbars[i].vc_done);
        free(b->shared), free(b->init), free(b->shadow), free(b->apart), free(b->warps), free(b->mbars), free(b->atomic_vc);
    }
    free(c->vc), free(c->blocks), free(c->warps);
    pthread_mutex_lock(&launch->lock);
    add_counters(&launch->report->counters, &sum);
    pthread_mutex_unlock(&launch->lock);
    free(c);
}

// ---- Barriers of the block and the cluster

bool barrier_is_full(const Block *b, uint32_t id) {
    const Barrier *bar = &b->barriers[id];
    uint32_t expected = bar->expected ? bar->expected : b->n_live * 32;
    return bar->arrived && bar->arrived >= expected;
}

void barrier_complete(Block *b, uint32_t id) {
    Barrier *bar = &b->barriers[id];
    const Insn *code = b->cluster->launch->module->code;
    uint32_t generation = bar->generation++;
    for (uint32_t i = 0; i < b->n_warps; i++) {
        Warp *w = b->warps[i];
        for (uint32_t g = 0; g < w->n_groups; g++) {
            Group *group = &w->groups[g];
            if (group->wait != W_BARRIER || group->a != id || group->b != generation) continue;
            group->wait = READY;
            if (b->cluster->launch->races) vc_acquire(w, bar->vc);
            const Insn *in = &code[group->pc - 1];       // bar.red: imm 1 popc, 2 and, 3 or
            if (in->aux == 1) {
                for (int l = 0; l < 32; l++)
                    if (group->mask >> l & 1) lane32(w, in->d)[l] = bar->popc;
            } else if (in->aux > 1) {
                uint32_t *p = pred(w, in->d);
                *p = blend_pred(*p, (in->aux == 2 ? bar->all : bar->any) ? ~0u : 0, group->mask);
            }
        }
    }
    bar->arrived = bar->expected = bar->waiting = bar->popc = bar->any = 0;
    bar->all = 1;
    b->cluster->progress++;
}

void cluster_barrier_check(Cluster *c) {
    if (!c->arrived || c->arrived < c->n_live) return;
    uint32_t generation = c->generation++;
    c->arrived = 0;
    c->progress++;
    for (uint32_t i = 0; i < c->n_warps; i++) {
        Warp *w = &c->warps[i];
        for (uint32_t g = 0; g < w->n_groups; g++)
            if (w->groups[g].wait == W_CLUSTER && w->groups[g].b == generation) {
                w->groups[g].wait = READY;
                if (c->launch->races) vc_acquire(w, c->vc);
            }
    }
}

static void warp_finish(Warp *w) {
    Block *b = w->block;
    Cluster *c = w->cluster;
    warp_drain(w);
    b->n_live--;
    c->n_live--;
    c->progress++;
    if (!b->n_live) bulk_left(b);
    for (uint32_t i = 0; i < NAMED_BARRIERS; i++)
        if (b->barriers[i].waiting && !b->barriers[i].expected && barrier_is_full(b, i)) barrier_complete(b, i);
    cluster_barrier_check(c);
}

// ---- Deadlock, in words

static void describe_wait(const Warp *w, const Group *g, char *out, size_t n) {
    char place[160], what[200], where[160];
    const Insn *code = w->launch->module->code;
    bool retries = g->wait == READY || g->wait == W_CONVERGE || g->wait == W_MBARRIER || g->wait == W_REGISTERS || g->wait == W_WGMMA;
    emu_insn_place(w->launch, &code[retries ? g->pc : g->pc - 1], place, sizeof place);
    switch (g->wait) {
    case W_CONVERGE:
        snprintf(what, sizeof what, "an operation of lanes 0x%08x, for lanes 0x%08x", (uint32_t)g->a,
                 (uint32_t)g->a & w->live & ~g->mask);
        break;
    case W_BARRIER: {
        const Barrier *bar = &w->block->barriers[g->a & 15];
        snprintf(what, sizeof what, "barrier %u, where %u of %u threads are", (uint32_t)g->a, bar->arrived,
                 bar->expected ? bar->expected : w->block->n_live * 32);
        break;
    }
    case W_CLUSTER:
        snprintf(what, sizeof what, "the cluster's barrier, where %u of %u warps are", w->cluster->arrived,
                 w->cluster->n_live);
        break;
    case W_REGISTERS: snprintf(what, sizeof what, "%u registers a thread by `setmaxnreg.inc`", (uint32_t)g->a); break;
    case W_MBARRIER: {
        uint32_t offset;
        const Block *b = shared_block(w, (uint32_t)g->a, &offset);
        shared_describe(w->launch, offset, where, sizeof where);
        int at = snprintf(what, sizeof what, "phase %u of the mbarrier at %s", g->b, where);
        for (uint32_t i = 0; b && i < b->n_mbars; i++)
            if (b->mbars[i].address == offset)
                snprintf(what + at, sizeof what - (size_t)at, ", which lacks %lld of %u arrivals and %lld bytes",
                         (long long)b->mbars[i].pending, b->mbars[i].count, (long long)b->mbars[i].tx);
        break;
    }
    case W_WGMMA: snprintf(what, sizeof what, "the other warps of its warpgroup to issue wgmma %u", (uint32_t)g->a); break;
    default: snprintf(what, sizeof what, "something to change, in a loop that nothing ends"); break;
    }
    snprintf(out, n, "%s (%s)", what, place);
}

static void report_deadlock(Cluster *c) {
    char text[900], one[500], last[500] = "";
    size_t at = 0;
    Warp *first = NULL;
    const Insn *in = NULL;
    EmuFaultKind kind = EMU_FAULT_DEADLOCK;
    uint32_t from = 0, shown = 0;
    for (uint32_t i = 0; i < c->n_warps; i++) {          // what runs is a group like those that wait
        Warp *w = &c->warps[i];
        warp_push(w, w->pc, w->mask);
        w->mask = 0;
    }
    for (uint32_t i = 0; i <= c->n_warps; i++) {
        Warp *w = i < c->n_warps ? &c->warps[i] : NULL;
        one[0] = 0;
        if (w && w->live && w->n_groups) {
            const Group *g = &w->groups[0];
            for (uint32_t k = 0; k < w->n_groups; k++)
                if (w->groups[k].wait == W_CONVERGE) g = &w->groups[k], kind = EMU_FAULT_DIVERGENCE;
            size_t used = 0;
            for (uint32_t k = 0; k < w->n_groups && k < 2 && used < sizeof one; k++) {
                char part[400];
                describe_wait(w, &w->groups[k], part, sizeof part);
                used += (size_t)snprintf(one + used, sizeof one - used, "%s%s", k ? ", and for " : "", part);
            }
            if (!first || (kind == EMU_FAULT_DIVERGENCE && g->wait == W_CONVERGE && first->groups[0].wait != W_CONVERGE)) {
                bool retries = g->wait == READY || g->wait == W_CONVERGE || g->wait == W_MBARRIER || g->wait == W_REGISTERS ||
                               g->wait == W_WGMMA;
                first = w;
                in = &c->launch->module->code[retries ? g->pc : g->pc - 1];
            }
        }
        if (!strcmp(one, last)) continue;
        if (*last && shown < 5 && at + 200 < sizeof text) {
            shown++;
            if (from + 1 == i)
                at += (size_t)snprintf(text + at, sizeof text - at, "%swarp %u waits for %.300s", at ? "; " : "", from,
                                       last);
            else
                at += (size_t)snprintf(text + at, sizeof text - at, "%swarps %u-%u wait for %.300s", at ? "; " : "",
                                       from, i - 1, last);
            if (at >= sizeof text) at = sizeof text - 1;
        }
        memcpy(last, one, sizeof last);
        from = i;
    }
    if (!first) return;
    emu_fault_stop(first, in, first->n_groups ? __builtin_ctz(first->groups[0].mask) : 0, kind, "nothing can go on: %s",
                   text);
}

// ---- Running

static bool cluster_slice(Cluster *c, uint64_t steps) {  // true: it has ended
    Launch *launch = c->launch;
    uint64_t used = 0, rounds = 0, stuck_at = ~0ull;
    int stuck = 0;
    while (c->n_live && used < steps) {
        bool ran = false, busy = false;
        uint32_t start = launch->options.order_seed ? (uint32_t)(rng_next(&c->rng) % c->n_warps) : 0;
        uint32_t step = launch->options.order_seed && rng_next(&c->rng) & 1 ? c->n_warps - 1 : 1;
        for (uint32_t i = 0; i < c->n_warps; i++) {
            Warp *w = &c->warps[(start + (uint64_t)i * step) % c->n_warps];
            if (!w->live || !warp_has_ready(w)) continue;
            uint32_t quantum = launch->options.order_seed ? 1 + (uint32_t)(rng_next(&c->rng) % QUANTUM) : QUANTUM;
            used += warp_run(w, quantum);
            ran = true;
            idle_turn(w);
            busy |= !w->polled && !w->idle.recurs;
            if (!w->live) warp_finish(w);
            if (atomic_load_explicit(&launch->stop, memory_order_relaxed)) return true;
        }
        c->give_up = false;
        if (launch->options.async == EMU_ASYNC_RANDOM && rng_next(&c->rng) & 1 && async_step(c, false)) continue;
        if (busy && ++rounds % 1024) continue;
        if (async_step(c, true) || busy) continue;
        if (ran && used < steps) {                       // all are polling: another block may have to run first
            if (++stuck < 64) continue;
            break;
        }
        if (stuck_at == c->progress && ++stuck > 3) {
            report_deadlock(c);
            return true;
        }
        if (stuck_at != c->progress) stuck_at = c->progress, stuck = 0;
        bool any = false;
        for (uint32_t i = 0; i < c->n_warps; i++)
            for (uint32_t g = 0; g < c->warps[i].n_groups; g++)
                if (c->warps[i].groups[g].wait == W_MBARRIER) c->warps[i].groups[g].wait = READY, any = true;
        c->give_up = any;
        if (!any) {
            report_deadlock(c);
            return true;
        }
    }
    while (!c->n_live && async_step(c, true)) {}
    uint64_t left = atomic_load(&launch->budget);
    while (!atomic_compare_exchange_weak(&launch->budget, &left, left > used ? left - used : 0)) {}
    if (left <= used && c->n_live)
        for (uint32_t i = 0; i < c->n_warps; i++)
            if (c->warps[i].live) {
                Warp *w = &c->warps[i];
                emu_fault_stop(w, &launch->module->code[w->mask ? w->pc : w->groups[0].pc], 0, EMU_FAULT_BUDGET,
                           "the launch used up its %llu instructions; a loop that does not end?", (unsigned long long)launch->options.budget);
                return true;
            }
    return !c->n_live;
}

// The clusters that a worker has on its hands.
typedef struct Work { Launch *launch; uint32_t n, self; Cluster *active[MAX_RESIDENT]; } Work;

static void cluster_begin(Work *k, uint64_t index) {
    Cluster *c = need(sizeof *c);
    c->launch = k->launch;
    k->active[k->n++] = c;
    cluster_fill(c, k->launch, index);
}

static void work_on(Work *k) {
    Launch *launch = k->launch;
    bool more = true;
    uint64_t slice = launch->options.budget < SLICE ? launch->options.budget + 1 : SLICE;
    while ((more || k->n) && !atomic_load(&launch->stop)) {
        if (more && k->n < MAX_RESIDENT) {
            uint64_t i = atomic_fetch_add(&launch->next_cluster, 1);
            if (i < launch->n_clusters) cluster_begin(k, i);
            else more = false;
        }
        bool stuck = k->n != 0;
        for (uint32_t i = 0; i < k->n && !atomic_load(&launch->stop); i++)
            if (cluster_slice(k->active[i], slice)) {
                cluster_destroy(k->active[i]);
                k->active[i--] = k->active[--k->n];
                stuck = false;
            }
        uint64_t changes = atomic_load(&launch->changes);
        stuck &= !more || k->n == MAX_RESIDENT;
        for (uint32_t i = 0; i < k->n && stuck; i++) stuck = idle_all(k->active[i], changes);
        if (idle_for_ever(launch, k->self, stuck, changes)) report_deadlock(k->active[0]);
    }
}

static void guarded(Work *k) {
    jmp_buf no_room, *before = emu_no_room;
    emu_no_room = &no_room;
    if (!setjmp(no_room)) work_on(k);
    else {
        atomic_store(&k->launch->no_room, true);
        atomic_store(&k->launch->stop, true);
    }
    emu_no_room = before;
}

static void *worker(void *arg) {
    Launch *launch = arg;
    Work    k = {.launch = launch, .self = atomic_fetch_add(&launch->next_worker, 1)};
    guarded(&k);
    while (k.n) cluster_destroy(k.active[--k.n]);
    atomic_store(&launch->stuck[k.self], ~0ull);
    return NULL;
}

static uint32_t shared_limit(uint32_t target) {
    static const struct {
        uint32_t first, kib;
    } from[] = {{120, 99}, {90, 227}, {89, 99}, {87, 163}, {86, 99}, {80, 163}, {0, 96}};
    int i = 0;
    while (target < from[i].first) i++;
    return from[i].kib << 10;
}

static EmuStatus check_shape(EmuContext *ctx, const Launch *launch, const char *name) {
    const EmuKernel *k = &launch->kernel->info;
    const uint32_t *b = launch->block, *g = launch->grid, *c = launch->cluster;
    uint64_t threads = (uint64_t)b[0] * b[1] * b[2];
    if (!threads || threads > MAX_THREADS || b[0] > MAX_THREADS || b[1] > MAX_THREADS || b[2] > MAX_THREADS_Z)
        return emu_error(ctx, EMU_INVALID, "`%s`: a block of (%u, %u, %u) threads; at most %d are possible, and %d along z", name, b[0], b[1],
                         b[2], (int)MAX_THREADS, (int)MAX_THREADS_Z);
    for (int i = 0; i < 3; i++)
        if (k->reqntid[0] && k->reqntid[i] != b[i])
            return emu_error(ctx, EMU_INVALID, "`%s` needs blocks of (%u, %u, %u) threads, not (%u, %u, %u)", name,
                             k->reqntid[0], k->reqntid[1], k->reqntid[2], b[0], b[1], b[2]);
    if (k->maxntid[0] && threads > (uint64_t)k->maxntid[0] * k->maxntid[1] * k->maxntid[2])
        return emu_error(ctx, EMU_INVALID, "`%s` takes at most %u threads a block, not %llu", name,
                         k->maxntid[0] * k->maxntid[1] * k->maxntid[2], (unsigned long long)threads);
    for (int i = 0; i < 3; i++) {
        if (!c[i] || g[i] % c[i])
            return emu_error(ctx, EMU_INVALID,
                             "`%s`: a grid of (%u, %u, %u) blocks is not whole clusters of (%u, %u, %u)", name, g[0],
                             g[1], g[2], c[0], c[1], c[2]);
        if (k->reqcluster[0] && k->reqcluster[i] != c[i])
            return emu_error(ctx, EMU_INVALID, "`%s` needs clusters of (%u, %u, %u) blocks", name, k->reqcluster[0],
                             k->reqcluster[1], k->reqcluster[2]);
    }
    if ((uint64_t)c[0] * c[1] * c[2] > MAX_CLUSTER)
        return emu_error(ctx, EMU_INVALID, "`%s`: a cluster of %u blocks", name, c[0] * c[1] * c[2]);
    uint32_t limit = shared_limit(launch->module->target);
    if (launch->shared_size - SHARED_START > limit)
        return emu_error(ctx, EMU_INVALID, "`%s` needs %u bytes of shared memory; a block has %u on sm_%u", name,
                         launch->shared_size - SHARED_START, limit, launch->module->target);
    return EMU_OK;
}

EmuStatus emu_launch(EmuContext *ctx, EmuModule *m, const char *name, const uint32_t grid[3], const uint32_t block[3],
                     const uint32_t cluster[3], size_t dynamic_shared, void **params, const EmuOptions *options,
                     EmuReport *out) {
    Kernel *k = m->kernels;
    EmuReport report = {0};
    if (out) *out = report;
    while (k && strcmp(k->info.name, name)) k = k->next;
    if (!k) return emu_error(ctx, EMU_NOT_FOUND, "no kernel `%s` in the module", name);
    if (dynamic_shared > (1u << 22))
        return emu_error(ctx, EMU_INVALID, "`%s`: %zu bytes of dynamic shared memory", name, dynamic_shared);
    Launch launch = {
        .context = ctx, .module = m, .kernel = k, .report = &report, .dynamic_shared = (uint32_t)dynamic_shared};
    if (options) launch.options = *options;
    for (int i = 0; i < 3; i++) {
        launch.grid[i] = grid[i];
        launch.block[i] = block[i];
        launch.cluster[i] = cluster ? cluster[i] : k->info.reqcluster[0] ? k->info.reqcluster[i] : 1;
    }
    if (!launch.options.max_faults) launch.options.max_faults = 16;
    if (!launch.options.budget) launch.options.budget = 1ull << 40;
    launch.races = !launch.options.allow_races;
    launch.shared_size = launch_dynamic_base(&launch) + (uint32_t)dynamic_shared;
    launch.shared_from = m->uses_reserved || counts_from_zero(&launch) ? 0 : SHARED_START;
    EmuStatus status = check_shape(ctx, &launch, name);
    if (status) return status;
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    if (!blocks) return EMU_OK;
    launch.n_clusters = blocks / launch.cluster[0] / launch.cluster[1] / launch.cluster[2];
    if (launch.options.together && launch.n_clusters > MAX_RESIDENT)
        return emu_error(ctx, EMU_INVALID, "`%s`: %llu blocks or clusters that may wait for each other; at most %d are there at once", name,
                         (unsigned long long)launch.n_clusters, (int)MAX_RESIDENT);
    long cores = launch.options.threads > 0 ? launch.options.threads : sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t n = cores < 1 ? 1 : cores > 256 ? 256 : (uint64_t)cores;
    if (n > launch.n_clusters) n = launch.n_clusters;
    uint8_t *raw = calloc(1, k->info.param_bytes + 64);
    launch.stuck = calloc(n, sizeof *launch.stuck);
    if (!raw || !launch.stuck) {
        free(raw), free(launch.stuck);
        return emu_error(ctx, EMU_OUT_OF_MEMORY, "`%s`: the emulator is out of memory", name);
    }
    launch.params = (uint8_t *)(((uintptr_t)raw + 63) & ~(uintptr_t)63);
    for (uint32_t i = 0; i < k->info.n_params; i++)
        memcpy(launch.params + k->info.params[i].offset, params[i], k->info.params[i].size);
    if (launch.options.together) status = emu_alloc(ctx, GRID_WORKSPACE, "the grid's workspace", &launch.workspace);
    if (status) return free(raw), free(launch.stuck), status;
    if (launch.workspace) emu_fill(ctx, launch.workspace, GRID_WORKSPACE, EMU_FILL_ZERO, 0);
    atomic_init(&launch.next_cluster, 0);
    atomic_init(&launch.budget, launch.options.budget);
    atomic_init(&launch.stop, false);
    atomic_init(&launch.no_room, false);
    atomic_init(&launch.n_faults, 0);
    pthread_mutex_init(&launch.lock, NULL);

    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    pthread_t threads[256];
    uint32_t started = 0;
    atomic_init(&launch.changes, 0);
    atomic_init(&launch.next_worker, 0);
    launch.n_workers = (uint32_t)n;
    for (uint64_t i = 1; i < n; i++)
        if (!pthread_create(&threads[started], NULL, worker, &launch)) started++;
    for (uint64_t i = started + 1; i < n; i++) atomic_store(&launch.stuck[i], ~0ull);        // whom the system refused waits for nothing
    worker(&launch);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(launch.stuck);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    report.seconds = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9;
    pthread_mutex_destroy(&launch.lock);
    free(raw);
    if (launch.workspace) emu_free(ctx, launch.workspace);
    status = report.n_faults ? EMU_FAULTED : atomic_load(&launch.no_room) ? EMU_OUT_OF_MEMORY : EMU_OK;
    if (status == EMU_OUT_OF_MEMORY)
        emu_error(ctx, status, "`%s`: the emulator is out of memory, with blocks of %u bytes of shared memory and %u threads", name,
                  launch.shared_size - SHARED_START, block[0] * block[1] * block[2]);
    else if (status)
        emu_error(ctx, status, "`%s`: %s: %s", name, emu_fault_name(report.faults[0].kind), report.faults[0].message);
    if (out) *out = report;
    else emu_report_free(&report);
    return status;
}

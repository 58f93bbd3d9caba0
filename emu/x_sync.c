// Synchronisation: barriers of the block, the warp and the cluster, fences, setmaxnreg. Mbarriers have a
// file of their own.
//
// A block's barrier counts warps, 32 threads each, as the hardware does; warps that have exited do not
// count towards a barrier of the whole block.
#include "emu/exec.h"

typedef uint32_t u32;
typedef uint64_t u64;

// ---- bar, barrier

enum { BAR_SYNC, BAR_ARRIVE };

static void arrive(Warp *w, const Insn *in) {            // aux: 0 none, 1 popc, 2 and, 3 or; imm: BAR_*
    u32 first = (u32)__builtin_ctz(w->active), id = lane32(w, in->a)[first],
        count = in->b == NO_SLOT ? 0 : lane32(w, in->b)[first];
    Block *b = w->block;
    if (id > 15) {
        emu_fault_stop(w, in, (int)first, EMU_FAULT_BAD_OPERAND, "barrier %u of 16", id);
        return;
    }
    if (count % 32 || count > b->n_warps * 32) {
        emu_fault_stop(w, in, (int)first, EMU_FAULT_BAD_OPERAND, "barrier %u with %u threads, in a block of %u", id,
                       count, b->n_warps * 32);
        return;
    }
    Barrier *bar = &b->barriers[id];
    if (bar->arrived && bar->expected != count && (bar->expected || count != b->n_warps * 32)) {
        emu_fault_stop(w, in, (int)first, EMU_FAULT_BAD_OPERAND,
                       "barrier %u with %u threads, but others are there with %u", id, count, bar->expected);
        return;
    }
    if (!bar->arrived) bar->all = 1, bar->any = bar->popc = 0;
    bar->expected = count;
    bar->arrived += 32;
    if (in->aux) {
        u32 p = *pred(w, in->c) & w->active;
        bar->popc += (u32)__builtin_popcount(p);
        bar->all &= p == w->active;
        bar->any |= p != 0;
    }
    if (w->launch->races) vc_release(w, bar->vc);
    w->cluster->progress++;
    if (in->imm == BAR_SYNC) {
        bar->waiting++;
        warp_block(w, W_BARRIER, id, bar->generation, w->pc);
    }
    if (barrier_is_full(b, id)) barrier_complete(b, id);
}

static void x_bar(Warp *w, const Insn *in) {
    if (warp_converge(w, in, 0xffffffffu)) arrive(w, in);
}

// Not .aligned: lanes of a warp may be there by instructions of their own.
static void x_barrier(Warp *w, const Insn *in) {
    u32 id = lane32(w, in->a)[__builtin_ctz(w->active)];
    u32 generation = id < 16 ? w->block->barriers[id].generation : 0;
    if (warp_gather(w, in, id, 0xffffffffu, (Group){.wait = in->imm == BAR_SYNC ? W_BARRIER : READY, .a = id, .b = generation})) arrive(w, in);
}

static void x_bar_warp(Warp *w, const Insn *in) {
    u32 mask = lane32(w, in->a)[__builtin_ctz(w->active)];
    warp_gather(w, in, mask, mask, (Group){.wait = READY});
}

static void decode_bar(Dec *d) {
    if (dec_mod(d, "cluster")) { VARIANT(decode_cluster_barrier)(d); return; }
    if (dec_mod(d, "warp")) {
        if (!dec_mod(d, "sync")) dec_error(d, "`bar.warp` needs .sync");
        dec_count(d, 1, 1);
        uint32_t a = dec_src(d, 0, T_b32);
        dec_emit(d, x_bar_warp)->a = a;
        return;
    }
    dec_mod(d, "cta");
    bool aligned = dec_mod(d, "aligned") || (d->name.n == 3 && memcmp(d->name.s, "bar", 3) == 0);
    bool arrive = dec_mod(d, "arrive"), red = dec_mod(d, "red");
    if (!arrive && !red && !dec_mod(d, "sync"))
        dec_error(d, "`%.*s` needs .sync, .arrive or .red", (int)d->name.n, d->name.s);
    int kind = 0;
    uint32_t first = 0, to = NO_SLOT, c = NO_SLOT;
    if (red) {
        kind = dec_mod(d, "popc") ? 1 : dec_mod(d, "and") ? 2 : dec_mod(d, "or") ? 3 : 0;
        Type t = dec_need_type(d);
        if (!kind || (kind == 1) != (t == T_u32)) dec_error(d, "`bar.red` needs .popc.u32, .and.pred or .or.pred");
        dec_count(d, 3, 4);
        first = 1;
        c = dec_pred(d, dec_op(d, d->n_ops - 1));
        to = dec_dst(d, 0, t);
        d->n_ops--;
    } else dec_count(d, arrive ? 2 : 1, 2);
    uint32_t a = dec_src(d, first, T_b32), b = first + 1 < d->n_ops ? dec_src(d, first + 1, T_b32) : NO_SLOT;
    Insn *in = dec_emit(d, aligned || red ? x_bar : x_barrier);
    in->a = a, in->b = b, in->c = c, in->d = to, in->aux = kind, in->imm = arrive ? BAR_ARRIVE : BAR_SYNC;
}

// ---- Fences

static void x_fence(Warp *w, const Insn *in) {           // aux: a proxy fence
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!in->aux || !w->launch->races) return;
    vc_join(w->fv, w->vc, w->cluster->clocks);
    w->vc[w->agent]++;
}
static void decode_fence(Dec *d) {
    bool acquire, release, proxy = false;
    Str rest;
    if (dec_prefix(d, "proxy", NULL)) {
        proxy = dec_mod(d, "async");
        dec_mod(d, "alias");
        while (dec_prefix(d, "async", NULL)) proxy = true;
        while (dec_prefix(d, "tensormap", NULL)) {}
    }
    dec_prefix(d, "mbarrier_init", NULL);
    while (dec_prefix(d, "sync_restrict", &rest)) {}
    dec_sem(d, &acquire, &release);
    dec_space(d);
    dec_count(d, 0, 2);
    Insn *in = dec_emit(d, x_fence);
    in->aux = proxy;
}
static void decode_membar(Dec *d) {
    if (dec_has(d, "proxy")) { decode_fence(d); return; }
    dec_mod(d, "gl");
    bool acquire, release;
    dec_sem(d, &acquire, &release);
    dec_count(d, 0, 0);
    dec_emit(d, x_fence);
}

// ---- The cluster's barrier

static void x_cluster_arrive(Warp *w, const Insn *in) {
    if (!warp_converge(w, in, 0xffffffffu)) return;
    Cluster *c = w->cluster;
    if (c->launch->races) vc_release(w, c->vc);
    c->arrived++;
    c->progress++;
    w->cluster_generation = c->generation;
    cluster_barrier_check(c);
}
static void x_cluster_wait(Warp *w, const Insn *in) {
    if (!warp_converge(w, in, 0xffffffffu)) return;
    Cluster *c = w->cluster;
    if (c->generation != w->cluster_generation) {
        if (c->launch->races) vc_acquire(w, c->vc);
        return;
    }
    warp_block(w, W_CLUSTER, 0, c->generation, w->pc);
}
void VARIANT(decode_cluster_barrier)(Dec *d) {
    bool arrive = dec_mod(d, "arrive"), acquire, release;
    if (!arrive && !dec_mod(d, "wait")) dec_error(d, "`barrier.cluster` needs .arrive or .wait");
    dec_sem(d, &acquire, &release);
    dec_mod(d, "aligned");
    dec_count(d, 0, 0);
    dec_emit(d, arrive ? x_cluster_arrive : x_cluster_wait);
}

// ---- griddepcontrol, setmaxnreg

static void x_grid_wait(Warp *w, const Insn *in) { (void)in; w->waited |= w->active; }
static void x_nothing(Warp *w, const Insn *in) { (void)w, (void)in; }
static void decode_griddepcontrol(Dec *d) {
    bool wait = dec_mod(d, "wait");
    if (!wait && !dec_mod(d, "launch_dependents")) dec_error(d, "`griddepcontrol` needs .wait or .launch_dependents");
    dec_count(d, 0, 0);
    dec_emit(d, wait ? x_grid_wait : x_nothing);
}

static void x_setmaxnreg(Warp *w, const Insn *in) {      // aux: inc
    if (!warp_converge(w, in, 0xffffffffu)) return;
    Block *b = w->block;
    u32 n = (u32)in->imm;
    int64_t more = ((int64_t)n - w->registers) * 32;
    if (in->aux ? more < 0 : more > 0) {
        emu_fault(w, in, 0, EMU_FAULT_REGISTERS, "`setmaxnreg.%s` to %u, but the warp has %u", in->aux ? "inc" : "dec",
                  n, w->registers);
        return;
    }
    if (more > b->free_registers) {
        u64 total = 0;
        for (u32 i = 0; i < b->n_warps; i++) total += b->warps[i]->registers;
        warp_block(w, W_REGISTERS, n, 0, w->pc - 1);
        (void)total;
        return;
    }
    b->free_registers -= more;
    w->registers = n;
    w->cluster->progress++;
    if (more < 0)
        for (u32 i = 0; i < b->n_warps; i++) {
            Warp *other = b->warps[i];
            for (u32 g = 0; g < other->n_groups; g++)
                if (other->groups[g].wait == W_REGISTERS) other->groups[g].wait = READY;
        }
}
static void decode_setmaxnreg(Dec *d) {
    bool inc = dec_mod(d, "inc");
    if (!inc && !dec_mod(d, "dec")) dec_error(d, "`setmaxnreg` needs .inc or .dec");
    dec_mod(d, "sync");
    dec_mod(d, "aligned");
    dec_need_type(d);
    dec_count(d, 1, 1);
    int64_t n = dec_imm(d, 0);
    if (n < 24 || n > 256 || n % 8)
        dec_error(d, "`setmaxnreg` takes a multiple of 8 from 24 to 256, not %lld", (long long)n);
    if (inc && d->kernel && n > d->kernel->most_registers) d->kernel->most_registers = (uint32_t)n;
    Insn *in = dec_emit(d, x_setmaxnreg);
    in->imm = n, in->aux = inc;
}

const InsnDef VARIANT(defs_sync)[] = {
    {"bar", decode_bar, EMU_CLASS_BARRIER},       {"barrier", decode_bar, EMU_CLASS_BARRIER}, {"membar", decode_membar, EMU_CLASS_BARRIER},
    {"fence", decode_fence, EMU_CLASS_BARRIER},   {"griddepcontrol", decode_griddepcontrol, EMU_CLASS_BARRIER},
    {"setmaxnreg", decode_setmaxnreg, EMU_CLASS_BARRIER}, {NULL, NULL, 0},
};

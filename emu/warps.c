// Divergence. The lanes of a warp form groups that share a pc; one group runs, the others wait their turn
// or wait for something. The group with the lowest pc runs first, so that lanes that jumped ahead are
// caught up with, and groups merge where their pcs meet. Compilers place the join of a branch after its
// arms, so this reconverges where a stack of post-dominators would.
//
//     pc  10  @%p bra 20         {0..15} go on at 11, {16..31} wait at 20
//     pc  19  ...                {0..15} reach 20: one group again
//
// An operation for several lanes (shfl.sync, mma.sync, bar.sync, ...) that finds some of them missing parks its group in
// W_CONVERGE; it runs again when more lanes arrive at its pc. So code whose join lies before its arms, or lanes that spin
// on each other, work too: a group that only loops gives way every few turns. Lanes may be at bar.warp.sync, and at a
// barrier that is not .aligned, by instructions of their own: who comes last takes the others along (warp_gather).
#include "emu/exec.h"

void warp_push(Warp *w, uint32_t pc, uint32_t mask) {
    if (!mask) return;
    for (uint32_t i = 0; i < w->n_groups; i++)
        if (w->groups[i].pc == pc && w->groups[i].wait <= W_CONVERGE) {
            w->groups[i].mask |= mask;
            w->groups[i].wait = READY;
            return;
        }
    w->groups[w->n_groups++] = (Group){.pc = pc, .mask = mask, .wait = READY};
    w->event |= EV_GROUP;
}

// Picks the group to run; mask 0: none is ready.
static void warp_regroup(Warp *w) {
    warp_push(w, w->pc, w->mask);
    w->mask = 0;
    w->limit = 0xffffffffu;
    uint32_t best = 0xffffffffu, ready = 0;
    for (uint32_t i = 0; i < w->n_groups; i++) {
        if (w->groups[i].wait != READY) continue;
        ready++;
        if (best == 0xffffffffu || w->groups[i].pc < w->groups[best].pc) best = i;
    }
    if (!ready) return;
    if (ready > 1 && (++w->turns & 63) == 0) {           // let another group move at times
        uint32_t skip = (w->turns >> 6) % ready;
        for (uint32_t i = 0; i < w->n_groups; i++)
            if (w->groups[i].wait == READY && !skip--) { best = i; break; }
    }
    w->pc = w->groups[best].pc;
    w->mask = w->groups[best].mask;
    w->groups[best] = w->groups[--w->n_groups];
    for (uint32_t i = 0; i < w->n_groups; i++)
        if (w->groups[i].wait <= W_CONVERGE && w->groups[i].pc > w->pc && w->groups[i].pc < w->limit)
            w->limit = w->groups[i].pc;
}

bool warp_block(Warp *w, Wait wait, uint64_t a, uint32_t b, uint32_t pc) {
    uint32_t rest = w->mask & ~w->active;
    w->groups[w->n_groups++] = (Group){.pc = pc, .mask = w->active, .wait = wait, .a = a, .b = b};
    w->mask = rest;                                      // they go on at w->pc
    w->event |= EV_GROUP;
    return false;
}

bool warp_converge(Warp *w, const Insn *in, uint32_t needed) {
    needed &= w->live;
    if ((w->active & needed) == needed) return true;
    uint32_t here = (uint32_t)(in - w->launch->module->code);
    if (!w->n_groups && (w->mask & needed) == needed && w->active != w->mask) {
        emu_fault(w, in, __builtin_ctz(needed & ~w->active), EMU_FAULT_DIVERGENCE,
              "a guard leaves lanes 0x%08x out of an operation that needs all of 0x%08x", needed & ~w->active, needed);
        w->event |= EV_STOP;
        return false;
    }
    return warp_block(w, W_CONVERGE, needed, 0, here);
}

bool warp_gather(Warp *w, const Insn *in, uint32_t key, uint32_t needed, Group then) {
    const Insn *code = w->launch->module->code;
    uint32_t there = w->active, with = 0;
    needed &= w->live;
    for (uint32_t i = 0; i < w->n_groups; i++) {
        const Group *g = &w->groups[i];
        if (g->wait != W_CONVERGE || g->b != key || code[g->pc].fn != in->fn || code[g->pc].imm != in->imm) continue;
        there |= g->mask;
        with |= 1u << i;
    }
    if ((there & needed) != needed) return warp_block(w, W_CONVERGE, needed, key, (uint32_t)(in - code));
    for (uint32_t i = 0; i < w->n_groups; i++)
        if (with >> i & 1) w->groups[i] = (Group){.pc = w->groups[i].pc + 1, .mask = w->groups[i].mask, .wait = then.wait, .a = then.a, .b = then.b};
    w->event |= EV_GROUP;
    return true;
}

void warp_exit_lanes(Warp *w, uint32_t mask) {
    w->live &= ~mask;
    w->mask &= ~mask;
    for (uint32_t i = 0; i < w->n_groups; i++)           // fewer lanes may now be enough
        if (w->groups[i].wait == W_CONVERGE) w->groups[i].wait = READY;
    w->event |= EV_GROUP;
}

bool warp_has_ready(const Warp *w) {
    if (w->mask) return true;
    for (uint32_t i = 0; i < w->n_groups; i++)
        if (w->groups[i].wait == READY) return true;
    return false;
}

void warp_ready(Warp *w, Wait wait, uint64_t a, uint32_t b) {
    for (uint32_t i = 0; i < w->n_groups; i++)
        if (w->groups[i].wait == wait && w->groups[i].a == a && (wait == W_MBARRIER || w->groups[i].b == b))
            w->groups[i].wait = READY;
}

static bool in_flight(const Warp *w, uint32_t slot, uint8_t bit) {
    return slot != NO_SLOT && !(slot & 3) && w->inflight[slot >> 2] & bit;
}

// While a wgmma is in flight, its registers are not to be touched: accumulators not at all, those of A
// not to be written. The wgmma instructions themselves are exempt.
static void check_in_flight(Warp *w, const Insn *in) {
    uint32_t sources[4] = {in->a, in->b, in->c, in->e};
    bool bad = in_flight(w, in->d, 3);
    const char *what = "written";
    if (in->cls == EMU_CLASS_MMA || in->cls == EMU_CLASS_BARRIER) return;
    for (int i = 0; i < 4 && !bad; i++)
        if (in_flight(w, sources[i], 2)) bad = true, what = "read";
    for (uint32_t i = 0; i < in->n && !bad; i++)
        if (in_flight(w, in->list[i], 2)) bad = true, what = "used";
    if (in->guard != NO_SLOT && in_flight(w, in->guard, 2)) bad = true;
    if (!bad) return;
    emu_fault(w, in, __builtin_ctz(w->active), EMU_FAULT_MISSING_WAIT,
          "a register of a wgmma in flight is %s before `wgmma.wait_group`", what);
}

uint32_t warp_run(Warp *w, uint32_t quantum) {
    const Insn *code = w->launch->module->code;
    if (!w->mask || w->n_groups) {
        warp_regroup(w);
        if (!w->mask) return 0;
    }
    w->event = 0;
    w->polled = false;
    uint64_t lanes = 0;
    uint32_t left = quantum;
    while (left) {
        const Insn *in = &code[w->pc];
        uint32_t m = w->mask;
        if (in->guard != NO_SLOT) {
            uint32_t p = *pred(w, in->guard);
            m &= in->guard_not ? ~p : p;
        }
        w->pc++;
        left--;
        w->count.instructions[in->cls]++;
        if (m) {
            lanes += m == 0xffffffffu ? 32 : (uint32_t)__builtin_popcount(m);
            w->active = m;
            if (__builtin_expect(w->n_inflight != 0, 0)) check_in_flight(w, in);
            in->fn(w, in);
        }
        if (__builtin_expect(w->event || w->pc >= w->limit, 0)) {
            uint32_t event = w->event;
            w->event = 0;
            if (event & (EV_STOP | EV_YIELD)) { w->turns++; break; }
            warp_regroup(w);
            w->event = 0;
            if (!w->mask) break;
        }
    }
    uint32_t used = quantum - left;
    w->count.lane_instructions += lanes;
    return used;
}

// Level 2 of the evaluator: mbarriers, and roles as coroutines.
//
// The producers and the consumers take turns on one thread: a role runs until it must wait on an mbarrier
// whose phase is not complete, then the next does; when a whole round changes nothing, it is a deadlock,
// and a fault. Bytes that TMA brings count as arrived only when somebody waits for them, the last moment
// that the hardware allows. The seed of junk decides who begins.
//
//     a barrier's phase completes when all arrivals came and as many bytes as were expected
//     mbar_wait parity p passes when the phase of parity p is complete: (completed phases) % 2 != p
//
// The consumers' region stands for all consumer groups, so an arrival there counts for each of them. Blocks of a cluster
// do the same at the same time, as far as evaluation can tell, so a block gives itself what it would get from the others:
// their arrivals, and their parts of a tile that all of them want.

#include "lower/eval/async.h"

#include "lang/asan.h"

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#ifdef TK_ASAN
#include <sanitizer/common_interface_defs.h>
#define LEAVE(save, to)     __sanitizer_start_switch_fiber((save), (to)->stack, (to)->size)
#define ARRIVE(save, from)  __sanitizer_finish_switch_fiber((save), &(from)->stack, &(from)->size)
#else
#define LEAVE(save, to)     ((void)(save))
#define ARRIVE(save, from)  ((void)(save), (void)(from))
#endif

static bool role_wait(Eval *e);                          // lets the other roles run; false when nobody can

// ---- mbarriers -----------------------------------------------------------------------------------

void eval_mbar(Eval *e, const Step *s) {
    const Op *op = s->op;
    Slot *slot = slot_of(e, op->out[0]);
    if (slot->ext) return;
    Bars *b = slot->ext = NEW(e->arena, Bars);
    *b = (Bars){NEW_N(e->arena, Bar, op->imm), (int)op->imm, (int)op->out[0]->type.shape[0]};
    vec_push(e->arena, &e->async->bars, b);
}

static Bar *bar_of(Eval *e, const Op *op, int bar, int stage) {
    Bars   *b = slot_of(e, op->in[bar])->ext;
    int64_t n = scalar_int(e, op->in[stage]);
    if (n >= 0 && n < b->n) return &b->at[n];
    eval_fault(e, op->span, "%s: mbarrier %lld of a ring of %d", op_info[op->code].name, (long long)n, b->n);
    return NULL;
}

// Completes the phase if everything that it waits for has been asked for. Bytes land now.
static bool complete(Eval *e, const Op *op, Bar *b, int arrivals) {
    if (b->arrived < arrivals) return false;
    if (b->expected != b->flying) {
        eval_fault(e, op->span, "an mbarrier expects %lld bytes, copies bring %lld", (long long)b->expected, (long long)b->flying);
        return false;
    }
    for (uint32_t i = 0; i < b->landing.n; i++) b->landing.at[i]->status = READY;
    b->landing.n = 0;
    b->arrived = 0;
    b->expected = b->flying = 0;
    b->phase++;
    e->async->events++;
    return true;
}

static int arrivals_of(Eval *e, const Op *op, int bar) { return ((Bars *)slot_of(e, op->in[bar])->ext)->arrivals; }

static void arrive_at(Eval *e, const Op *op, int bar, Bar *b, int n, int64_t bytes) {
    int all = arrivals_of(e, op, bar);
    if (b->arrived >= all && !complete(e, op, b, all)) return;               // nobody waited for that phase
    b->arrived += n;
    b->expected += bytes;
    e->async->events++;
    if (b->arrived > all) { eval_fault(e, op->span, "%d arrivals on an mbarrier of %d", b->arrived, all); return; }
    if (b->arrived == all && !b->expected && !b->flying) complete(e, op, b, all);
}

static void arrive(Eval *e, const Op *op, Bar *b, int n, int64_t bytes) { arrive_at(e, op, 0, b, n, bytes); }

void eval_mbar_expect(Eval *e, const Step *s) {
    Bar *b = bar_of(e, s->op, 0, 1);
    if (b) arrive(e, s->op, b, 1, s->op->imm - (s->op->nin > 2 ? scalar_int(e, s->op->in[2]) : 0));
}

void eval_mbar_arrive(Eval *e, const Step *s) {
    Bar *b = bar_of(e, s->op, 0, 1);
    if (!b) return;
    for (uint32_t i = 0; i < e->async->rings.n; i++)                         // what this role has read is free again
        for (int k = 0; k < e->async->rings.at[i]->n; k++) {
            Stage *g = &e->async->rings.at[i]->stage[k];
            if (g->flight <= e->async->done) g->read = false;
        }
    arrive(e, s->op, b, e->async->arrives_as * (s->op->imm == 2 ? 128 : s->op->imm ? 4 : 1) * (s->op->attr > 1 ? (int)s->op->attr : 1), 0);
}

// wgmma multiplies whole elements here, so nobody reads what this leaves.
void eval_buffer_low(Eval *e, const Step *s) {
    const Op *op = s->op;
    int     number;
    Stage  *from = stage_to_read(e, op, 0, 1, &number), *to = from ? stage_to_write(e, op, 2) : NULL;
    Bar    *b = bar_of(e, op, 3, 1);
    if (!to || !b) return;
    Ring *r = ring_of(e, op, 0), *low = ring_of(e, op, 2);
    for (int64_t i = 0; i < r->bytes; i += 4) {
        float x, high;
        uint32_t bits;
        memcpy(&x, r->data + number * r->bytes + i, 4);
        memcpy(&bits, &x, 4);
        bits &= 0xffffe000u;
        memcpy(&high, &bits, 4);
        x -= high;
        memcpy(low->data + number * r->bytes + i, &x, 4);
    }
    to->status = READY;
    arrive_at(e, op, 3, b, LOW_WARPS, 0);
}

void eval_buffer_turn(Eval *e, const Step *s) {
    const Op *op = s->op;
    int    number;
    Stage *from = stage_to_read(e, op, 0, 1, &number), *to = from ? stage_to_write(e, op, 2) : NULL;
    Bar   *b = bar_of(e, op, 3, 1);
    if (!to || !b) return;
    Ring *r = ring_of(e, op, 0), *turned = ring_of(e, op, 2);
    for (int64_t k = 0; k < r->shape[0]; k++)
        for (int64_t i = 0; i < turned->shape[0]; i++) turned->data[number * turned->bytes + i * r->shape[0] + k] = r->data[number * r->bytes + k * r->shape[1] + i];
    to->status = READY;
    arrive_at(e, op, 3, b, TURN_WARPS, 0);
}

// Copies that no group holds are this role's: they land with the barrier's phase.
void eval_copy_arrive(Eval *e, const Step *s) {
    Bar *b = bar_of(e, s->op, 0, 1);
    if (!b) return;
    for (uint32_t i = 0; i < e->async->rings.n; i++)
        for (int k = 0; k < e->async->rings.at[i]->n; k++) {
            Stage *g = &e->async->rings.at[i]->stage[k];
            if (g->status != FLYING || g->group != e->async->group) continue;
            g->group = 0;
            vec_push(e->arena, &b->landing, g);
        }
    arrive(e, s->op, b, (int)s->op->imm, 0);
}

void eval_mbar_wait(Eval *e, const Step *s) {
    Bar *b = bar_of(e, s->op, 0, 1);
    if (!b) return;
    uint32_t parity = (uint32_t)scalar_int(e, s->op->in[2]) & 1;
    while (e->flow != FLOW_FAULT && (b->phase & 1) == parity) {
        if (complete(e, s->op, b, arrivals_of(e, s->op, 0)) || e->flow == FLOW_FAULT) continue;
        if (!role_wait(e)) eval_fault(e, s->op->span, "deadlock: nobody will complete this phase of the mbarrier");
    }
}

// Where one region stands for both groups there are no turns.
void eval_turn_wait(Eval *e, const Step *s) {
    int *turn = &e->async->turns[e->slice];
    while (s->op->attr && *turn == 0 && e->flow != FLOW_FAULT)
        if (!role_wait(e)) eval_fault(e, s->op->span, "deadlock: nobody will pass the turn");
    if (s->op->attr) (*turn)--;
}

void eval_turn_pass(Eval *e, const Step *s) {
    if (s->op->attr) e->async->turns[(e->slice + 1) % s->op->attr]++;
    e->async->events++;
}

void eval_tma_load(Eval *e, const Step *s) {
    const Op *op = s->op;
    Stage *stage = stage_to_write(e, op, 0);
    Bars  *bars = slot_of(e, op->in[2])->ext;
    int64_t n = scalar_int(e, op->in[1]);
    if (!stage) return;
    if (n < 0 || n >= bars->n) n = 0;                                        // one barrier for what is loaded once
    Ring *r = ring_of(e, op, 0);
    Bar  *b = &bars->at[n];
    int64_t brought = copy_box(e, op, r, (int)(stage - r->stage));
    stage->status = FLYING;
    stage->group = 0;
    b->flying += brought;
    vec_push(e->arena, &b->landing, stage);
}

// ---- roles ---------------------------------------------------------------------------------------

typedef struct Role {
    ucontext_t context;
    void      *memory;
    const void *stack;
    size_t     size;
    Eval      *e;
    const Block *block;
    struct Roles *all;
    int        arrives_as;
    bool       finished, no_memory;
    HeapGuard *guard;                      // its innermost, on its own stack
    Flow       flow;                       // what belongs to the role while another runs
    int64_t    depth;
    Slot      *carried;
    int        ncarried, cap_carried;
    int64_t    slice;
    uint32_t  *own; int nown;              // of one of several slices: ids of the values in its region
    Slot      *value;                      // and what they are while another role runs
} Role;

enum { MAX_SLICES = 3 };
typedef struct Roles { ucontext_t main; const void *stack; size_t size; int n; Role at[2 + MAX_SLICES]; } Roles;

static void swap_slot(Slot *a, Slot *b) { Slot x = *a; *a = *b; *b = x; }

static void swap_state(Eval *e, Role *r) {
    Role old = {.flow = e->flow, .depth = e->depth, .carried = e->carried, .ncarried = e->ncarried, .cap_carried = e->cap_carried};
    e->flow = r->flow;
    e->depth = r->depth;
    e->carried = r->carried;
    e->ncarried = r->ncarried;
    e->cap_carried = r->cap_carried;
    r->flow = old.flow;
    r->depth = old.depth;
    r->carried = old.carried;
    r->ncarried = old.ncarried;
    r->cap_carried = old.cap_carried;
    for (int i = 0; i < r->nown; i++) swap_slot(&e->slot[r->own[i]], &r->value[i]);
}

static void run_role(void *role) { run_block(((Role *)role)->e, ((Role *)role)->block); }

static void enter(unsigned lo, unsigned hi) {          // makecontext passes ints
    Role *r = (Role *)(uintptr_t)((uint64_t)hi << 32 | lo);
    ARRIVE(NULL, r->all);
    r->no_memory = !heap_run(heap_here(), run_role, r);  // it gives up on the caller's stack, not on its own
    r->finished = true;
    LEAVE(NULL, r->all);                             // never comes back
    swapcontext(&r->context, &r->all->main);
}

static void resume(Eval *e, Role *r) {
    void *fake = NULL;
    swap_state(e, r);
    e->async->role = r;
    e->async->arrives_as = r->arrives_as;
    e->slice = r->slice;
    HeapGuard *guard = heap_guard(r->guard);
    LEAVE(&fake, r);
    swapcontext(&r->all->main, &r->context);
    ARRIVE(fake, r);
    r->guard = heap_guard(guard);
    e->async->role = NULL;
    e->async->arrives_as = 1;
    swap_state(e, r);
    if (r->no_memory) heap_give_up(0);
    if (r->flow == FLOW_FAULT) e->flow = FLOW_FAULT;
}

static bool role_wait(Eval *e) {
    Role *r = e->async->role;
    void *fake = NULL;
    if (!r) return false;
    LEAVE(&fake, r->all);
    swapcontext(&r->context, &r->all->main);
    ARRIVE(fake, r->all);
    return true;
}

static void role_start(Eval *e, Roles *all, Role *r, const Block *b, int arrives_as) {
    enum { STACK = 1 << 20 };
    *r = (Role){.e = e, .block = b, .all = all, .arrives_as = arrives_as, .size = STACK, .memory = heap_room(STACK)};
    getcontext(&r->context);
    r->stack = r->context.uc_stack.ss_sp = r->memory;
    r->context.uc_stack.ss_size = r->size;
    uint64_t p = (uint64_t)(uintptr_t)r;
    makecontext(&r->context, (void (*)(void))(uintptr_t)enter, 2, (unsigned)p, (unsigned)(p >> 32));
}

static bool finished(const Roles *all) {
    for (int i = 0; i < all->n; i++) if (!all->at[i].finished) return false;
    return true;
}

static void own_values(Role *r, Region *region) {
    VEC(uint32_t) v = {0};
    for (uint32_t i = 0; i < region->args.n; i++) vec_push(r->e->arena, &v, region->args.at[i]->id);
    for (Op *op = op_walk(region, NULL); op; op = op_walk(region, op)) {
        for (int i = 0; i < op->nout; i++) vec_push(r->e->arena, &v, op->out[i]->id);
        for (int k = 0; k < op->nreg; k++)
            for (uint32_t i = 0; i < op->reg[k]->args.n; i++) vec_push(r->e->arena, &v, op->reg[k]->args.at[i]->id);
    }
    r->own = v.at;
    r->nown = (int)v.n;
    r->value = NEW_N(r->e->arena, Slot, v.n + 1);
}

void eval_roles(Eval *e, const Step *s) {
    Roles *all = NEW(e->arena, Roles);
    int slices = s->op->attr > 1 ? (int)s->op->attr : 1;
    if (slices > MAX_SLICES) ice("%d slices", slices);
    for (int i = 0; i < s->op->nreg; i++)
        for (int k = 0; k < (i == 1 ? slices : 1); k++) {
            Role *r = &all->at[all->n++];
            role_start(e, all, r, s->block[i], i == 1 && s->op->imm > 0 ? (int)s->op->imm / slices : 1);
            r->slice = k;
            if (i == 1 && slices > 1) own_values(r, s->op->reg[i]);
        }
    int first = (int)(e->opt->junk % (uint64_t)all->n);
    while (e->flow != FLOW_FAULT && !finished(all)) {
        uint64_t before = e->async->events;
        bool     ended = false;
        for (int i = 0; i < all->n && e->flow != FLOW_FAULT; i++) {
            Role *r = &all->at[(i + first) % all->n];
            if (r->finished) continue;
            resume(e, r);
            ended |= r->finished;
        }
        if (e->flow != FLOW_FAULT && !ended && e->async->events == before) eval_fault(e, s->op->span, "deadlock: all roles wait for an mbarrier");
    }
    for (int i = 0; i < all->n; i++) {
        Role *r = &all->at[i];
        for (int k = 0; k < r->ncarried; k++) slot_clear(e, &r->carried[k]);
        for (int k = 0; k < r->nown; k++) slot_clear(e, &r->value[k]);
        heap_free(r->carried);
        heap_free(r->memory);
    }
}

// Bulk copies in flight, of a cluster: which completes next.
//
// As late as may be, and in order, unless asked otherwise (EmuAsync). By order_seed they come in any order, and one of eight is
// slow: it comes when nothing else can, those that were issued after it first. What takes them for ordered then finds old
// bytes, or an mbarrier two phases behind where a wait by parity takes it to be.
//
// A block may have tens of thousands in flight, a store to another block's shared memory each: slow ones stand in a list of their
// own, and any order is any of the oldest few hundred, so that the next is found without going through all.
#include "emu/exec.h"

enum { SLOW = 8,                                               // one of so many
       WINDOW = 256 };

void async_free(AsyncOp *op) {
    free(op->bytes);
    free(op->vc);
    free(op);
}

void async_drop(Cluster *c) {
    if (c->at_hand) async_free(c->at_hand);
    c->at_hand = NULL;
}

AsyncOp *async_new(Warp *w, const Insn *in) {
    AsyncOp *op = emu_got(calloc(1, sizeof *op));
    op->warp = w;
    op->in = in;
    w->cluster->at_hand = op;
    return op;
}

AsyncOp *async_next(const Cluster *c, const AsyncOp *op) {
    AsyncOp *next = op ? op->next : c->async_first;
    return next || (op && op->slow) ? next : c->async_slow;
}

static AsyncOp *taken_out(Cluster *c, AsyncOp **p) {
    AsyncOp *op = *p;
    *p = op->next;
    if (op->slow) return op;
    if (!op->next) c->async_last = p;
    c->n_quick--;
    return op;
}

static void complete(Cluster *c, AsyncOp *op) {
    c->at_hand = op;
    op->run(op);
    c->progress++;
    atomic_fetch_add_explicit(&c->launch->changes, 1, memory_order_relaxed);     // its warps may all have ended
    async_drop(c);
}

void async_append(Cluster *c, AsyncOp *op) {
    bool eager = c->launch->options.async == EMU_ASYNC_EAGER;
    c->at_hand = NULL;
    op->slow = c->launch->options.order_seed && !eager && rng_next(&c->rng) % SLOW == 0;
    if (op->slow) {
        op->next = c->async_slow;
        c->async_slow = op;
        return;
    }
    *c->async_last = op;
    c->async_last = &op->next;
    c->n_quick++;
    while (eager && c->async_first) complete(c, taken_out(c, &c->async_first));
}

static void sweep(Cluster *c, AsyncOp **p) {
    while (*p) {
        if (!(*p)->done) p = &(*p)->next;
        else async_free(taken_out(c, p));
    }
}

// What a wait has run where it stood.
void async_sweep(Cluster *c) {
    sweep(c, &c->async_first);
    sweep(c, &c->async_slow);
}

// The oldest; by order_seed any that is quick, and when there is none the youngest, if slow ones may come.
static AsyncOp **next_of(Cluster *c, bool slow) {
    AsyncOp **p = &c->async_first;
    if (!*p) return slow ? &c->async_slow : p;
    if (!c->launch->options.order_seed) return p;
    for (uint64_t skip = rng_next(&c->rng) % (c->n_quick < WINDOW ? c->n_quick : WINDOW); skip; skip--) p = &(*p)->next;
    return p;
}

bool async_step(Cluster *c, bool slow) {
    AsyncOp **p = next_of(c, slow);
    if (!*p) return false;
    complete(c, taken_out(c, p));
    return true;
}

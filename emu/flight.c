// Bulk copies in flight, of a cluster: which completes next.
//
// As late as may be, and in order, unless asked otherwise (EmuAsync). By order_seed they come in any order, and one of eight is
// slow: it comes when nothing else can, those that were issued after it first. What takes them for ordered then finds old
// bytes, or an mbarrier two phases behind where a wait by parity takes it to be.
#include "emu/exec.h"

enum { SLOW = 8 };                                             // one of so many

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

static AsyncOp *taken_out(Cluster *c, AsyncOp **p) {
    AsyncOp *op = *p;
    *p = op->next;
    if (!op->next) c->async_last = p;
    c->n_async--;
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
    *c->async_last = op;
    c->async_last = &op->next;
    c->at_hand = NULL;
    c->n_async++;
    op->slow = c->launch->options.order_seed && rng_next(&c->rng) % SLOW == 0;
    while (c->launch->options.async == EMU_ASYNC_EAGER && c->async_first) complete(c, taken_out(c, &c->async_first));
}

// What a wait has run where it stood.
void async_sweep(Cluster *c) {
    AsyncOp **p = &c->async_first;
    while (*p) {
        if (!(*p)->done) p = &(*p)->next;
        else async_free(taken_out(c, p));
    }
}

// The oldest; by order_seed any that is quick, and when there is none the youngest, if slow ones may come.
static AsyncOp **next_of(Cluster *c, bool slow) {
    uint64_t quick = 0, skip = 0;
    AsyncOp **p = &c->async_first;
    if (!c->launch->options.order_seed || !*p) return p;
    for (AsyncOp *op = *p; op; op = op->next) quick += !op->slow;
    if (quick) skip = rng_next(&c->rng) % quick;
    else if (!slow) return c->async_last;
    for (; quick ? (*p)->slow || skip-- : (*p)->next != NULL; p = &(*p)->next) {}
    return p;
}

bool async_step(Cluster *c, bool slow) {
    AsyncOp **p = next_of(c, slow);
    if (!*p) return false;
    complete(c, taken_out(c, p));
    return true;
}

// What the blocks of a cluster join.
//
// Programs are run one after another, so one that comes to a join before the others stops there and is run again when they
// have come too: from its start, which is as good, since programs do not read what they write. Each round brings all
// programs of the cluster at least one join further. All blocks of a cluster come to the same joins in the same order, in
// loops too, so a join is known by how many came before it.

#include "lower/eval/eval.h"

enum { MOST_BLOCKS = 64 };

struct Meeting {
    struct Meeting *next;
    int   nth;                    // join of a program
    int64_t drawn;                // the number that one of them has drawn for all, or -1
    Slot  at[MOST_BLOCKS];
    bool  here[MOST_BLOCKS];
};

static struct Meeting *meeting(Eval *e) {
    int nth = e->joins++;
    for (struct Meeting *m = e->meetings; m; m = m->next)
        if (m->nth == nth) return m;
    struct Meeting *m = NEW(e->arena, struct Meeting);
    *m = (struct Meeting){.next = e->meetings, .nth = nth, .drawn = -1};
    return e->meetings = m;
}

// Where all blocks' values lie; NULL: they are not there yet.
static const struct Meeting *met(Eval *e, const Op *op) {
    struct Meeting *m = meeting(e);
    int n = (int)op->imm, mine = (int)(e->program % n);
    if (n > MOST_BLOCKS) { eval_fault(e, op->span, "%s: %d blocks", op_info[op->code].name, n); return NULL; }
    if (!m->here[mine]) {
        m->at[mine] = slot_keep(slot_of(e, op->in[0]));
        m->here[mine] = true;
    }
    for (int i = 0; i < n; i++) {
        if (m->here[i]) continue;
        e->waits = true;
        e->flow = FLOW_FAULT;
        return NULL;
    }
    return m;
}

void eval_join_cluster(Eval *e, const Step *s) {
    const struct Meeting *m = met(e, s->op);
    const Slot *from[MOST_BLOCKS];
    for (int i = 0; m && i < (int)s->op->imm; i++) from[i] = &m->at[i];
    if (m) join_slots(e, s->op, (int)s->op->imm, from);
}

void eval_from_cluster(Eval *e, const Step *s) {
    const struct Meeting *m = met(e, s->op);
    if (!m) return;
    Slot one = slot_keep(&m->at[s->op->attr]);
    slot_set(e, s->op->out[0], &one);
}

static void part(Eval *e) {
    for (struct Meeting *m = e->meetings; m; m = m->next) {
        m->drawn = -1;
        for (int i = 0; i < MOST_BLOCKS; i++) {
            slot_clear(e, &m->at[i]);
            m->here[i] = false;
        }
    }
}

// Asking costs nothing here, so it is done where the answer is wanted.
void eval_draw(Eval *e, const Step *s) { *(int64_t *)out_tile(e, s->op) = 0; }

void eval_drawn(Eval *e, const Step *s) {
    struct Meeting alone = {.drawn = -1}, *m = e->f->cluster ? meeting(e) : &alone;
    int64_t all = scalar_int(e, s->op->in[0]->def->in[0]);
    if (m->drawn < 0) {
        m->drawn = e->drawn;
        e->drawn = e->drawn + 1 < all ? e->drawn + 1 : 0;
    }
    *(int64_t *)out_tile(e, s->op) = m->drawn;
}

void run_cluster(Eval *e, const Block *body, int64_t first, int64_t step, int n) {
    bool done[MOST_BLOCKS] = {false}, all = false;
    part(e);
    while (!all && !e->fault) {
        all = true;
        for (int i = 0; i < n && !e->fault; i++) {
            if (done[i]) continue;
            e->program = first + i * step;
            e->waits = false;
            e->joins = 0;
            run_block(e, body);
            done[i] = !e->waits;
            all &= done[i];
        }
    }
}

void drop_meetings(Eval *e) { part(e); }

// What the blocks of a cluster join.
//
// Programs are run one after another, so one that comes to a join before the others stops there and is run again when they
// have come too: from its start, which is as good, since programs do not read what they write. Each round brings all
// programs of the cluster at least one join further.

#include "lower/eval.h"

enum { MOST_BLOCKS = 64 };

struct Meeting {
    struct Meeting *next;
    const Op *op;
    Slot  at[MOST_BLOCKS];
    bool  here[MOST_BLOCKS];
};

static struct Meeting *meeting_of(Eval *e, const Op *op)
{
    for (struct Meeting *m = e->meetings; m; m = m->next)
        if (m->op == op) return m;
    struct Meeting *m = NEW(e->arena, struct Meeting);
    *m = (struct Meeting){.next = e->meetings, .op = op};
    return e->meetings = m;
}

void eval_join_cluster(Eval *e, const Step *s)
{
    const Op *op = s->op;
    struct Meeting *m = meeting_of(e, op);
    int n = (int)op->imm, mine = (int)(e->program % n);
    const Slot *from[MOST_BLOCKS];
    if (n > MOST_BLOCKS) { eval_fault(e, op->span, "join_cluster: %d blocks", n); return; }
    if (!m->here[mine]) {
        m->at[mine] = slot_keep(slot_of(e, op->in[0]));
        m->here[mine] = true;
    }
    for (int i = 0; i < n; i++) {
        from[i] = &m->at[i];
        if (m->here[i]) continue;
        e->waits = true;
        e->flow = FLOW_FAULT;
        return;
    }
    join_slots(e, op, n, from);
}

static void part(Eval *e)
{
    for (struct Meeting *m = e->meetings; m; m = m->next)
        for (int i = 0; i < MOST_BLOCKS; i++) {
            slot_clear(e, &m->at[i]);
            m->here[i] = false;
        }
}

void run_cluster(Eval *e, const Block *body, int64_t first, int64_t step, int n)
{
    bool done[MOST_BLOCKS] = {false}, all = false;
    part(e);
    while (!all && !e->fault) {
        all = true;
        for (int i = 0; i < n && !e->fault; i++) {
            if (done[i]) continue;
            e->program = first + i * step;
            e->waits = false;
            run_block(e, body);
            done[i] = !e->waits;
            all &= done[i];
        }
    }
}

void drop_meetings(Eval *e) { part(e); }

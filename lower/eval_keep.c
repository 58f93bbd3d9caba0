// Tiles kept from one loop to the next: a program's own, by the op that asked for room and by number.

#include "lower/eval.h"
#include "ptx/ptx.h"

struct Kept {
    struct Kept *next;
    const Op *op;
    int64_t   n;
    Slot     *at;
};

static struct Kept *kept_of(Eval *e, const Op *op)
{
    struct Kept *k = e->kept;
    while (k && k->op != op) k = k->next;
    return k;
}

static void forget(Eval *e, struct Kept *k)
{
    for (int64_t i = 0; i < k->n; i++) {
        tile_drop(e, k->at[i].t);
        tile_drop(e, k->at[i].b);
        k->at[i] = (Slot){0};
    }
}

void eval_keep(Eval *e, const Step *s)
{
    enum { ROOM = 227 << 10 };
    const Op *op = s->op;
    struct Kept *k = kept_of(e, op);
    int64_t n = scalar_int(e, op->in[0]), most = op->imm > 0 ? ROOM / op->imm : 0;
    if (!k) {
        k = NEW(e->arena, struct Kept);
        *k = (struct Kept){e->kept, op, most, NEW_N(e->arena, Slot, most + 1)};
        e->kept = k;
    }
    forget(e, k);
    *(int64_t *)out_tile(e, op) = n < 0 ? 0 : n < most ? n : most;
}

void eval_keep_put(Eval *e, const Step *s)
{
    const Op *op = s->op;
    struct Kept *k = kept_of(e, op->in[0]->def);
    int64_t at = scalar_int(e, op->in[1]), room = scalar_int(e, op->in[0]);
    if (at < 0) { eval_fault(e, op->span, "keep_put: number %lld", (long long)at); return; }
    if (at >= room) return;
    tile_drop(e, k->at[at].t);
    tile_drop(e, k->at[at].b);
    k->at[at] = *slot_of(e, op->in[2]);
    tile_keep(k->at[at].t);
    tile_keep(k->at[at].b);
}

void eval_keep_get(Eval *e, const Step *s)
{
    const Op *op = s->op;
    struct Kept *k = kept_of(e, op->in[0]->def);
    int64_t at = scalar_int(e, op->in[1]);
    if (at < 0 || at >= scalar_int(e, op->in[0]) || !k->at[at].t) {
        eval_fault(e, op->span, "keep_get: nothing is kept under %lld", (long long)at);
        return;
    }
    Slot x = k->at[at];
    tile_keep(x.t);
    tile_keep(x.b);
    slot_set(e, op->out[0], &x);
}

void drop_kept(Eval *e)
{
    for (struct Kept *k = e->kept; k; k = k->next) forget(e, k);
}

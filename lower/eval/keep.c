// Tiles kept from one loop to the next: a program's own, by the op that asked for room and by number.

#include "lower/eval/eval.h"

#include <string.h>

struct Kept {
    struct Kept *next;
    const Op *op;
    int64_t   n;
    Slot     *at;
    const Op **by;               // who put it: its axes
};

static struct Kept *kept_of(Eval *e, const Op *op) {
    struct Kept *k = e->kept;
    while (k && k->op != op) k = k->next;
    return k;
}

static void forget(Eval *e, struct Kept *k) {
    for (int64_t i = 0; i < k->n; i++) slot_clear(e, &k->at[i]);
}

void eval_keep(Eval *e, const Step *s) {
    enum { ROOM = 227 << 10 };
    const Op *op = s->op;
    struct Kept *k = kept_of(e, op);
    int64_t n = scalar_int(e, op->in[0]), most = op->imm > 0 ? ROOM / op->imm : 0;
    if (!k) {
        k = NEW(e->arena, struct Kept);
        *k = (struct Kept){e->kept, op, most, NEW_N(e->arena, Slot, most + 1), NEW_N(e->arena, const Op *, most + 1)};
        e->kept = k;
    }
    forget(e, k);
    *(int64_t *)out_tile(e, op) = n < 0 ? 0 : n < most ? n : most;
}

void eval_keep_put(Eval *e, const Step *s) {
    const Op *op = s->op;
    struct Kept *k = kept_of(e, op->in[0]->def);
    int64_t at = scalar_int(e, op->in[1]), room = scalar_int(e, op->in[0]);
    if (at < 0) { eval_fault(e, op->span, "keep_put: number %lld", (long long)at); return; }
    if (at >= room) return;
    slot_clear(e, &k->at[at]);
    k->by[at] = op;
    k->at[at] = slot_keep(slot_of(e, op->in[2]));
}

// Lanes in the order of the axes of `to`'s tile, from those of the tile that was put.
static void rearrange(const Op *put, const Op *to, int size, const char *from, char *out) {
    const Type *t = &to->out[0]->type, *of = &put->in[2]->type;
    int64_t stride[MAX_AXES] = {0}, at[MAX_AXES] = {0}, step = 1, strides[MAX_AXES] = {0};
    for (int i = of->rank - 1; i >= 0; i--) { strides[i] = step; step *= axis_extent(of->axis[i]); }
    for (int i = 0; i < t->rank; i++) {
        int list = 0;
        while (to->in[2 + list] != t->axis[i]) list++;
        stride[i] = strides[type_axis(of, put->in[3 + list])];
    }
    for (int64_t n = 0; n < type_lanes(t); n++) {
        int64_t src = 0;
        for (int i = 0; i < t->rank; i++) src += at[i] * stride[i];
        memcpy(out + n * size, from + src * size, (size_t)size);
        for (int i = t->rank - 1; i >= 0 && ++at[i] == axis_extent(t->axis[i]); i--) at[i] = 0;
    }
}

void eval_keep_get(Eval *e, const Step *s) {
    const Op *op = s->op;
    struct Kept *k = kept_of(e, op->in[0]->def);
    int64_t at = scalar_int(e, op->in[1]);
    if (at < 0 || at >= scalar_int(e, op->in[0]) || !k->at[at].t) {
        eval_fault(e, op->span, "keep_get: nothing is kept under %lld", (long long)at);
        return;
    }
    rearrange(k->by[at], op, type_bytes(&op->out[0]->type), (const char *)k->at[at].t->data, out_tile(e, op));
    if (k->at[at].b)
        rearrange(k->by[at], op, (int)sizeof(double), (const char *)k->at[at].b->data, (char *)out_bound(e, op));
}

void drop_kept(Eval *e) {
    for (struct Kept *k = e->kept; k; k = k->next) forget(e, k);
}

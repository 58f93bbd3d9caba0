// Parts of tiles, as programs hand them to one another: values are kept by tile and part until the last part is there.

#include "lower/eval/eval.h"
#include "lower/pass/reduction.h"

#include <stdlib.h>
#include <string.h>

struct Parts {
    struct Parts *next;
    const Op *put;
    int64_t tile, own;            // own: the part of the program at work, whose operand may be gone when it reads its slice
    int     n, come, values;
    Slot   *at;                   // part by part, each with its values
    bool   *there;
};

static struct Parts *parts_of(Eval *e, const Op *put, int64_t tile) {
    int n = (int)put->imm, values = put->nin - 2;
    for (struct Parts *p = e->parts; p; p = p->next)
        if (p->tile == tile && p->put == put) return p;
    struct Parts *p = NEW(e->arena, struct Parts);
    *p = (struct Parts){e->parts, put, tile, 0, n, 0, values, NEW_N(e->arena, Slot, n * values), NEW_N(e->arena, bool, n)};
    return e->parts = p;
}

void eval_part_put(Eval *e, const Step *s) {
    const Op *op = s->op;
    int64_t part = scalar_int(e, op->in[1]);
    int     n = (int)op->imm, values = op->nin - 2;
    struct Parts *p = parts_of(e, op, scalar_int(e, op->in[0]));
    p->own = part;
    bool all = op->attr == PUT_all || op->attr == PUT_scattered, again = all && part >= 0 && part < n && p->there[part];
    uint8_t *last = out_tile(e, op);
    if (part < 0 || part >= n || (p->there[part] && !again)) {
        eval_fault(e, op->span, "part_put: part %lld of %d%s", (long long)part, n,
                   part < 0 || part >= n ? "" : " comes twice");
        return;
    }
    for (int i = 0; i < values && !again; i++) p->at[part * values + i] = slot_keep(slot_of(e, op->in[2 + i]));
    p->there[part] = true;
    p->come += !again;
    e->puts += !again;
    *last = p->come == n;
    if (!all || *last) return;
    e->waits = true;                                               // and is run again from its start, as who joins what is sent (below)
    e->flow = FLOW_FAULT;
}

static Kernel *joining(TReduce kind, Elem e) {
    switch (kind) {
    case TR_sum:   return kernel_binary(OP_add, e);
    case TR_prod:  return kernel_binary(OP_mul, e);
    case TR_any:   return kernel_binary(OP_or, e);
    case TR_every: return kernel_binary(OP_and, e);
    default:       return kernel_fun(kind == TR_max ? TF_max : TF_min, e);
    }
}

// n tiles of one type, joined lane by lane in their order. Storage floats are joined as f32.
static void join_tiles(const Type *t, TReduce kind, int n, const Slot *const *from, void *to) {
    Kernel *join = joining(kind, kernel_elem(t));
    int     size = type_bytes(t);
    char   *out = to;
    bool    storage = !t->ptr && elem_is_storage((Elem)t->elem);
    for (int64_t i = 0; i < type_lanes(t); i++) {
        unsigned char sum[8], more[8], next[8];
        for (int k = 0; k < n; k++) {
            const char *x = (const char *)from[k]->t->data + i * size;
            if (storage) kernel_widen(t)(1, more, x, NULL, NULL);
            else         memcpy(more, x, (size_t)size);
            if (k) join(1, next, sum, more, NULL);
            memcpy(sum, k ? next : more, sizeof sum);
            if (!storage) continue;
            kernel_narrow(WIDE_F32, t)(1, next, sum, NULL, NULL);
            kernel_widen(t)(1, sum, next, NULL, NULL);
        }
        if (storage) kernel_narrow(WIDE_F32, t)(1, out + i * size, sum, NULL, NULL);
        else         memcpy(out + i * size, sum, (size_t)size);
    }
}

// The bound of a sum of parts: theirs, and the rounding of each addition.
static void bound_joined(Eval *e, const Op *op, int n, const Slot *const *from) {
    const Type *t = &op->out[0]->type;
    int64_t lanes = type_lanes(t);
    double *b = out_bound(e, op), unit = elem_unit((Elem)t->elem);
    memset(b, 0, sizeof(double) * (size_t)lanes);
    double *x = heap_alloc(sizeof(double) * (size_t)(lanes + 1));
    for (int k = 0; k < n; k++) {
        lanes_to_f64(t, lanes, from[k]->t->data, x);
        for (int64_t i = 0; i < lanes; i++) {
            double size = x[i] < 0 ? -x[i] : x[i];
            b[i] += (from[k]->b ? ((const double *)from[k]->b->data)[i] : 0) + size * unit * n;
        }
    }
    heap_free(x);
}

void join_slots(Eval *e, const Op *op, int n, const Slot *const *from) {
    join_tiles(&op->out[0]->type, (TReduce)op->sub, n, from, out_tile(e, op));
    if (e->bounds && elem_is_float((Elem)op->out[0]->type.elem)) bound_joined(e, op, n, from);
}

static int64_t lanes_behind(const Type *t, int axis) {         // lanes from one element of the axis to the next
    int64_t n = 1;
    for (int i = axis + 1; i < t->rank; i++) n *= axis_extent(t->axis[i]);
    return n;
}

// The part-th slice of what a slot holds.
static void slice_slot(Eval *e, const Op *get, const Type *whole, int64_t part, const Slot *from, Slot *to) {
    const Type *t = &get->out[0]->type;
    int divided, own, size = type_bytes(t);
    if (!slice_axes(whole, t, &divided, &own)) ice("a slice of another tile");
    *to = (Slot){.t = tile_new(e, type_lanes(t) * size), .b = from->b ? tile_new(e, type_lanes(t) * 8) : NULL};
    for (int64_t i = 0; i < type_lanes(t); i++) {
        int64_t at = 0;
        for (int k = 0; k < t->rank; k++) {
            int64_t x = i / lanes_behind(t, k) % axis_extent(t->axis[k]);
            int     in = k == own ? divided : type_axis(whole, t->axis[k]);
            at += (k == own ? part * axis_extent(t->axis[k]) + x : x) * lanes_behind(whole, in);
        }
        memcpy(to->t->data + i * size, from->t->data + at * size, (size_t)size);
        if (from->b) ((double *)to->b->data)[i] = ((const double *)from->b->data)[at];
    }
}

void eval_part_get(Eval *e, const Step *s) {
    const Op *op = s->op, *put = op->in[1]->def;
    struct Parts *p = parts_of(e, put, scalar_int(e, op->in[0]));
    if (p->come < p->n) { eval_fault(e, op->span, "part_get: %d of %d parts are there", p->come, p->n); return; }
    int64_t n = op->nin > 2 ? scalar_int(e, op->in[2]) : p->n;
    if (n < 0 || n > p->n) { eval_fault(e, op->span, "part_get: %lld of %d parts", (long long)n, p->n); return; }
    const Slot **from = NEW_N(e->arena, const Slot *, p->n);
    Slot *slice = put->attr == PUT_scattered ? NEW_N(e->arena, Slot, p->n) : NULL;
    for (int k = 0; k < p->n; k++) {
        from[k] = &p->at[k * p->values + op->attr];
        if (!slice) continue;
        slice_slot(e, op, &put->in[2 + op->attr]->type, p->own, from[k], &slice[k]);
        from[k] = &slice[k];
    }
    join_slots(e, op, n ? (int)n : 1, from);                       // of none it may be anything
    for (int k = 0; slice && k < p->n; k++) slot_clear(e, &slice[k]);
}

void eval_part_take(Eval *e, const Step *s) {
    const Op *op = s->op;
    struct Parts *p = parts_of(e, op->in[1]->def, scalar_int(e, op->in[0]));
    int64_t part = scalar_int(e, op->in[2]);
    if (part < 0 || part >= p->n || !p->there[part]) {
        eval_fault(e, op->span, "part_take: part %lld of %d is not there", (long long)part, p->n);
        return;
    }
    Slot x = slot_keep(&p->at[part * p->values + op->attr]);
    slot_set(e, op->out[0], &x);
}

// ---- parts that one program sends to another -----------------------------------------------------------
//
// A program that joins before all has been sent stops there and is run again when the others have been: from its start,
// which is as good, since programs do not read what they write; what it has sent it sends again.

struct Sent {
    struct Sent *next;
    int64_t slot, from, to;       // the programs at work when it was sent, and that it is for
    int     values;
    bool    joined;
    Slot   *at;
};

static struct Sent *sent(Eval *e, int64_t slot) {
    for (struct Sent *p = e->sent; p; p = p->next) if (p->slot == slot) return p;
    return NULL;
}

void eval_part_send(Eval *e, const Step *s) {
    const Op *op = s->op;
    int64_t slot = scalar_int(e, op->in[0]);
    int     values = op->nin - 2;
    struct Sent *p = sent(e, slot);
    int64_t all = (e->f->dealt ? e->f->dealt : e->programs / (op->imm + 1)) * op->imm;
    if (slot < 0 || slot >= all || (p && p->from != e->program)) {
        eval_fault(e, op->span, "part_send: slot %lld of %lld%s", (long long)slot, (long long)all,
                   p ? " is used twice" : "");
        return;
    }
    if (!p) {
        p = NEW(e->arena, struct Sent);
        *p = (struct Sent){
            .next = e->sent, .slot = slot, .from = e->program, .values = values, .at = NEW_N(e->arena, Slot, values)};
        e->sent = p;
    }
    p->to = scalar_int(e, op->in[1]);
    for (int i = 0; i < values; i++) {
        slot_clear(e, &p->at[i]);
        p->at[i] = slot_keep(slot_of(e, op->in[2 + i]));
    }
}

void eval_part_join(Eval *e, const Step *s) {
    const Op *op = s->op;
    int64_t first = scalar_int(e, op->in[0]), n = scalar_int(e, op->in[1]), to = scalar_int(e, op->in[2]);
    const Slot **from = NEW_N(e->arena, const Slot *, n > 0 ? n + 1 : 1);
    from[0] = slot_of(e, op->in[3]);
    for (int64_t i = 0; i < n; i++) {
        struct Sent *p = sent(e, first + i);
        if (!p) {
            e->waits = true;
            e->flow = FLOW_FAULT;
            return;
        }
        if (p->to != to || op->attr >= p->values) {
            eval_fault(e, op->span, "part_join: slot %lld is for program %lld, not %lld", (long long)p->slot,
                       (long long)p->to, (long long)to);
            return;
        }
        p->joined = true;
        from[1 + i] = &p->at[op->attr];
    }
    join_slots(e, op, (int)(n > 0 ? n : 0) + 1, from);
}

// All blocks, those that wait for others again and again.
void run_senders(Eval *e, const Block *body, int64_t n) {
    bool *done = NEW_N(e->arena, bool, n + 1), moved = true, all = n == 0;
    while (!all && moved && !e->fault) {
        moved = false;
        all = true;
        for (int64_t i = 0; i < n && !e->fault; i++) {
            if (done[i]) continue;
            e->program = e->opt->reversed ? n - 1 - i : i;
            e->waits = false;
            if (e->async) start_async(e);
            const struct Sent *before = e->sent;
            int64_t puts = e->puts;
            run_block(e, body);
            done[i] = !e->waits;
            moved |= done[i] || e->sent != before || e->puts != puts;
            all &= done[i];
        }
    }
    if (!all && !e->fault) eval_fault(e, (Span){0, 0}, "deadlock: programs wait for parts of tiles that nobody sends");
    for (struct Sent *p = e->sent; p && !e->fault; p = p->next)
        if (!p->joined) eval_fault(e, (Span){0, 0}, "nobody joins the part of a tile in slot %lld", (long long)p->slot);
}

void drop_parts(Eval *e) {
    for (struct Sent *p = e->sent; p; p = p->next)
        for (int i = 0; i < p->values; i++) slot_clear(e, &p->at[i]);
    for (struct Parts *p = e->parts; p; p = p->next)
        for (int i = 0; i < p->n * p->values; i++) slot_clear(e, &p->at[i]);
}

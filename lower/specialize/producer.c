// The producer of a kernel with roles: one thread (four warps, where rows are gathered: specialize/gathered_rows.c) that goes through the loop's trips, waits until a stage is empty, says how many bytes
// come, and starts their copies. Of the loop's body it keeps the scalars that addresses are made of; quotients and remainders of the
// trip's number are counted up, as an odometer's digits are.
#include "lower/specialize/specialize.h"

#include <string.h>

Val *ws_coordinate(Builder *b, const Affine *x, ValMap *m) {
    Val *sum = b_const(b, EL_index, x->c);
    for (int i = 0; i < x->nterm; i++) {
        Val *v = map_get(m, x->term[i].v);
        if (v->type.elem != EL_index) v = b_cast(b, EL_index, v);                  // a place that data name
        if (x->term[i].k != 1) v = b_binary(b, OP_mul, v, b_const(b, EL_index, x->term[i].k));
        sum = b_binary(b, OP_add, sum, v);
    }
    return sum;
}

Op *ws_fill(Builder *b, const Operand *o, Val *stage, Val *bar, ValMap *map) {
    Val **args = NEW_N(b->f->arena, Val *, 5 + 2 * MAX_RANK + o->boxes * MAX_RANK);
    int n = 4;
    memcpy(args, (Val *[]){o->buffer, stage, bar, o->load->in[0]}, 4 * sizeof *args);
    for (int i = 0; i < o->boxes; i++)
        for (int d = 0; d < o->a.nidx; d++) args[n++] = d < o->a.inner ? o->corner[i * o->a.inner + d] : ws_packed_coordinate(b, o, d, map);
    for (int d = 0; d < o->a.nidx && !o->boxes; d++) args[n++] = o->window && d + 1 < o->a.nidx ? o->start[d] : ws_packed_coordinate(b, o, d, map);
    for (int i = o->window ? ws_window_spatial(o->window) - 1 : -1; i >= 0; i--) args[n++] = ws_coordinate(b, &o->window->at[i].tap, map);
    if (o->live) args[n++] = o->live;
    Op *t = ws_effect(b, OP_T_tma_load, n, args);
    t->nidx = (uint8_t)o->a.nidx;
    t->imm = o->map;
    if (o->live) t->flags = HAS_WHERE;
    if (o->ends == BY_COLUMNS) t->attr = 1;
    t->span = o->load->span;
    return t;
}

// In a cluster: together where all blocks want the same box.
static void fill_cluster(Ws *h, Builder *b, const Operand *o, Val *stage, Val *bar, ValMap *map) {
    Op *branch = op_new(h->f, OP_T_if, b->span, 1, (Val *[]){o->common}, 0);
    b_insert(b, branch);
    for (int i = 0; i < 2; i++) {
        Builder side = {h->f, branch->reg[i], NULL, b->span};
        Op *t = ws_fill(&side, o, stage, bar, map);
        if (i == 0) t->attr = h->cluster;
        ws_effect(&side, OP_T_yield, 0, NULL);
    }
}

static void fill_all(Ws *h, Builder *b, Where where, bool fixed, int ring, Val *stage, Val *bar, ValMap *map) {
    for (int i = where == RING ? h->from : 0; i < (where == RING ? h->to : h->np); i++)
        for (int k = 0; k < 2; k++) {
            const Operand *o = &h->p[i].op[k];
            if (o->where != where || o->same || o->fixed != fixed || (where == RING && ws_ring(h, &h->p[i]) != ring)) continue;
            if (o->gathered) ws_gather_fill(h, b, o, stage, map);
            else if (o->common && o->common->def->code == OP_T_const) ws_fill(b, o, stage, bar, map)->attr = h->cluster;
            else if (o->common) fill_cluster(h, b, o, stage, bar, map);
            else ws_fill(b, o, stage, bar, map);
        }
    for (int i = 0; i < h->nsources && where == RING; i++) if (h->source[i].fixed == fixed) ws_fill(b, &h->source[i], stage, bar, map);
    for (int i = 0; i < h->nvectors && where == RING; i++) if (h->vector[i].fixed == fixed) ws_fill(b, &h->vector[i], stage, bar, map);
}

void ws_once_fill(Ws *h, Builder *b, Val *turn, ValMap *map) {
    Val *zero = ws_i32(b, 0);
    if (h->walk_bytes) ws_effect(b, OP_T_mbar_wait, 3, (Val *[]){h->once_free, zero, b_binary(b, OP_xor, turn, ws_i32(b, 1))})->attr = 1;
    ws_effect(b, OP_T_mbar_expect, 2, (Val *[]){h->once, zero})->imm = h->once_bytes;
    fill_all(h, b, ONCE, false, 0, zero, h->once, map);
}

// The trip's number taken apart, t % n, t / n % m, t / n / m: the producer counts the digits up instead of dividing.
typedef struct Odometer {
    int  n;
    Val *digit[MAX_DIGITS];         // of the trip: all but the last one are remainders
    Val *radix[MAX_DIGITS];         // of those
} Odometer;

static bool made_outside(const Val *v, const Region *r) { return v->def ? !op_inside(v->def, r) : v->region != r; }

static Op *quotient_by(const Region *r, int sub, const Val *x, const Val *by) {
    for (Op *op = r->first; op; op = op->next)
        if (op->code == OP_T_binary && op->sub == sub && op->in[0] == x && (by ? op->in[1] == by : made_outside(op->in[1], r))) return op;
    return NULL;
}

static Odometer odometer_of(const Ws *h) {
    const Region *r = h->loop->reg[0];
    Odometer o = {0};
    Val *x = r->args.at[0];
    int64_t step = h->loop->in[2]->def && h->loop->in[2]->def->code == OP_T_const ? h->loop->in[2]->def->imm : 0;
    while (step == 1 && o.n + 2 < MAX_DIGITS) {
        const Op *rem = quotient_by(r, OP_rem, x, NULL), *div = rem ? quotient_by(r, OP_div, x, rem->in[1]) : NULL;
        if (!div || region_uses(r, x) != 2) break;
        o.digit[o.n] = rem->out[0];
        o.radix[o.n++] = rem->in[1];
        x = div->out[0];
    }
    if (o.n) o.digit[o.n++] = x;
    return o;
}

bool ws_counts_digits(const Ws *h) { return odometer_of(h).n > 0; }

// Its digits for a trip: made from the number as in the loop.
static void odometer_set(const Odometer *o, Builder *b, Val *trip, Val **at) {
    for (int i = 0; i < o->n; i++) {
        bool last = i + 1 == o->n, zero = trip->def && trip->def->code == OP_T_const && trip->def->imm == 0;
        at[i] = last || zero ? trip : b_binary(b, OP_rem, trip, o->radix[i]);
        if (!last && !zero) trip = b_binary(b, OP_div, trip, o->radix[i]);
    }
}

static void odometer_next(const Odometer *o, Builder *b, Val *const *at, Val **next) {
    Val *one = b_const(b, EL_index, 1), *zero = b_const(b, EL_index, 0), *carry = NULL;
    for (int i = 0; i < o->n; i++) {
        Val *up = b_binary(b, OP_add, at[i], one), *wraps = i + 1 < o->n ? b_binary(b, OP_eq, up, o->radix[i]) : NULL;
        Val *moved = wraps ? b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){wraps, zero, up}) : up;
        next[i] = carry ? b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){carry, moved, at[i]}) : moved;
        if (wraps) carry = carry ? b_binary(b, OP_and, carry, wraps) : wraps;
    }
}

// One loop of it.
static void fill_trips(Ws *h, Builder *b, int role, ValMap *map) {
    Builder in;
    Ring ring;
    Odometer odo = odometer_of(h);
    RowsAhead rows;
    PixelWalks pixels;
    Val *at[MAX_DIGITS + 2 * MAX_DOTS + MAX_WALKED + 2] = {0}, *next[MAX_DIGITS + 2 * MAX_DOTS + MAX_WALKED + 2];
    bool fixed = role == FIXED;
    Val *absent = ws_absent(h, b, fixed);
    if (h->at == 0) ws_gather_rows(h, b, map, &h->f->body);
    if (h->nest) {
        ws_nest_producer(h, b, role, map);
        ws_gather_rows(h, b, map, h->nest->reg[0]);
    }
    ws_box_corners(h, b, map, fixed, false);
    for (int i = 0; i + 1 < odo.n; i++) odo.radix[i] = map_get(map, odo.radix[i]);      // which the loop around has made, too
    odometer_set(&odo, b, map_get(map, h->loop->in[0]), at);
    ws_gather_ahead(h, b, map, &rows, at + odo.n);
    int walked = odo.n + rows.n, n = walked + ws_pixels_begin(h, b, fixed, map_get(map, h->loop->in[0]), &pixels, at + walked);
    Op *loop = ws_ring_loop(h, b, role, n, at, map, &in, &ring);
    Region *old = h->loop->reg[0];
    map_set(map, old->args.at[0], ws_turned(h, &in, loop->reg[0]->args.at[0]));
    for (int i = 0; i < odo.n; i++) {
        at[i] = loop->reg[0]->args.at[1 + i];
        at[i]->name = odo.digit[i]->name;
        map_set(map, odo.digit[i], at[i]);
    }
    for (Op *op = old->first; op; op = op->next)               // the scalars that addresses are made of
        if (op->nout == 1 && op->out[0]->type.kind == TY_TILE && op->out[0]->type.rank == 0 && ws_computable(h, op->out[0]) && map_get(map, op->out[0]) == op->out[0]) {
            Op *c = op_clone(h->f, op, map);
            op_append(loop->reg[0], c);
        }
    ws_gather_now(h, &in, map, &rows, loop->reg[0]->args.at + 1 + odo.n, loop->reg[0]->args.at[0], next + odo.n);
    ws_pixels_place(h, &in, fixed, &pixels, loop->reg[0]->args.at + 1 + walked, map);
    ws_box_corners(h, &in, map, fixed, true);
    Val *other = b_binary(&in, OP_xor, ring.phase, ws_i32(&in, 1));
    for (int i = 0; i < h->rings; i++) {
        ws_effect(&in, OP_T_mbar_wait, 3, (Val *[]){h->empty[i], ring.stage, other});
        ws_effect(&in, OP_T_mbar_expect, absent ? 3 : 2, (Val *[]){h->full[i], ring.stage, absent})->imm = ws_brought(h, i, fixed);
        fill_all(h, &in, RING, fixed, i, ring.stage, h->full[i], map);
        if (ws_gathered_bytes(h, i)) ws_effect(&in, OP_T_copy_arrive, 2, (Val *[]){h->full[i], ring.stage})->imm = GATHER_THREADS;
    }
    odometer_next(&odo, &in, at, next);
    ws_pixels_next(&in, &pixels, next + walked);
    ring = ws_advance(h, &in, ring);
    next[n] = ring.stage;
    next[n + 1] = ring.phase;
    ws_effect(&in, OP_T_yield, n + 2, next);
}

void ws_producer(Ws *h, Region *r, int role) {
    Builder b = {h->f, r, NULL, h->loop->span};
    ValMap map = {.arena = h->f->arena};
    bool fixed = role == FIXED;
    if (h->fixed_bytes && !fixed) ws_effect(&b, OP_T_wait_launches, 0, NULL);
    if (h->once_bytes && !fixed && !h->keep) {
        h->turn[0] = ws_i32(&b, 0);
        ws_once_fill(h, &b, h->turn[0], &map);
    }
    for (int i = 0; i < h->nloops; i++) {
        ws_at(h, i);
        fill_trips(h, &b, role, &map);
    }
    if (h->nest) {
        ws_nest_end(h, role, b.r);
        b = (Builder){h->f, r, NULL, h->loop->span};
    }
    if (h->behind_bytes && !fixed) ws_behind_fill(h, &b, &map);
    ws_effect(&b, OP_T_yield, 0, NULL);
}

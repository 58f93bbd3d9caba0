// The consumers of a kernel with roles: warp groups that go through the same trips, wait until a stage is full, multiply what lies there,
// do the rest of the loop's body, and release the stage. Loops of two products in a chain are specialize/softmax_overlap.c's.
#include "lower/specialize/specialize.h"

void ws_wait_all(Builder *b, int in_flight, int n, Val **v) {
    Op *w = op_new(b->f, OP_T_wgmma_wait, b->span, n, v, n);
    w->imm = in_flight;
    b_insert(b, w);
    for (int i = 0; i < n; i++) {
        w->out[i]->type = v[i]->type;
        v[i] = w->out[i];
    }
}

Val *ws_wait(Builder *b, int in_flight, Val *acc) {
    ws_wait_all(b, in_flight, 1, &acc);
    return acc;
}

Val *ws_multiply(Ws *h, Builder *b, const Product *p, Ring ring, ValMap *m) {
    Val *zero = ws_i32(b, 0), *in[9];
    for (int i = 0; i < 2; i++) {
        const Operand *o = &p->op[i];
        in[i] = o->turned ? h->low : o->where == REGISTERS ? map_get(m, p->dot->in[i ^ p->swapped]) : o->same ? o->same->buffer : o->buffer;
        in[2 + i] = o->where == RING ? ring.stage : o->where == ACROSS ? ws_across_slot(h, b, ring) : zero;
        if (o->clear && !o->same) ws_effect(b, OP_T_buffer_clear, 3, (Val *[]){o->buffer, ring.stage, map_get(m, o->outer)});
    }
    int n = 4;
    bool acc = (p->dot->flags & HAS_ACC) && !p->promoted;
    if (acc) in[n++] = map_get(m, p->dot->in[2]);
    in[n++] = map_get(m, p->row);
    in[n++] = map_get(m, p->col);
    in[n++] = map_get(m, p->k);
    if (p->three) in[n++] = h->low;
    Type t = p->dot->out[0]->type;
    Val *axes[MAX_AXES];
    for (int i = 0; i < t.rank; i++) axes[i] = map_get(m, t.axis[i]);
    b->span = p->dot->span;
    Val *v = b_op(b, OP_T_wgmma, 0, type_tile((Elem)t.elem, t.rank, axes), n, in);
    v->def->attr = (p->op[0].where != REGISTERS && p->op[0].outer == p->k) | (p->op[1].outer == p->k && !p->op[1].turned) << 1;
    if (acc) v->def->flags |= HAS_ACC;
    return v;
}

bool ws_is_ring_load(const Ws *h, const Op *op) {
    for (int i = 0; i < h->np; i++) if (h->p[i].op[0].load == op || h->p[i].op[1].load == op) return true;
    for (int i = 0; i < h->nsources; i++) if (h->source[i].load == op) return true;
    return ws_is_vector(h, op);
}

int ws_ring(const Ws *h, const Product *p) { return h->rings == 2 ? (int)(p - h->p) : 0; }

void ws_await(Ws *h, Builder *b, int ring, Ring at) {
    ws_effect(b, OP_T_mbar_wait, 3, (Val *[]){h->full[ring], at.stage, at.phase});
    if (h->low) ws_effect(b, OP_T_mbar_wait, 3, (Val *[]){h->low_full, at.stage, at.phase});
    if (ws_gathered_bytes(h, ring)) ws_effect(b, OP_T_fence_async, 0, NULL);
}

void ws_release(Ws *h, Builder *b, int ring, Val *stage) {
    Op *arrive = ws_effect(b, OP_T_mbar_arrive, 2, (Val *[]){h->empty[ring], stage});
    if (h->cluster > 1) arrive->attr = h->cluster;
    arrive->imm = ws_release_by(h);
}

// By warps: a tile without trips has no product at which a group's warps meet, so that one of them may not have seen yet that the operand is there.
void ws_release_once(Ws *h, Builder *b) {
    if (h->once_bytes && h->walk_bytes && !h->keep) ws_effect(b, OP_T_mbar_arrive, 2, (Val *[]){h->once_free, ws_i32(b, 0)})->imm = BY_WARPS;
}

// The stage before the ring's position, if there was a trip that read it.
static void release_previous(Ws *h, Builder *b, Val *any, Ring ring) {
    Op *branch = op_new(h->f, OP_T_if, b->span, 1, &any, 0);
    b_insert(b, branch);
    Builder t = {h->f, branch->reg[0], NULL, b->span}, e = {h->f, branch->reg[1], NULL, b->span};
    bool one = h->every == 1;
    Val *first = b_binary(&t, one ? OP_eq : OP_lt, ring.stage, ws_i32(&t, one ? 0 : h->every)), *before = b_binary(&t, OP_sub, ring.stage, ws_i32(&t, h->every));
    Val *wrapped = one ? ws_i32(&t, h->stages - 1) : b_binary(&t, OP_add, before, ws_i32(&t, h->stages));
    Val *stage = b_op(&t, OP_T_select, 0, type_scalar(EL_i32), 3, (Val *[]){first, wrapped, before});
    ws_release(h, &t, 0, stage);
    ws_effect(&t, OP_T_yield, 0, NULL);
    ws_effect(&e, OP_T_yield, 0, NULL);
}

static void wait_products(Ws *h, Builder *b, int in_flight, ValMap *map) {
    Val *v[MAX_DOTS] = {0};
    for (int i = h->from; i < h->to; i++) v[i - h->from] = map_get(map, h->p[i].dot->out[0]);
    ws_wait_all(b, in_flight, h->to - h->from, v);
    for (int i = h->from; i < h->to; i++) map_set(map, h->p[i].dot->out[0], v[i - h->from]);
}

// A trip of the consumers, while it is made.
typedef struct Trip {
    Ws   *h;
    Op    *loop;                 // the new one
    Builder in;
    ValMap map;                  // old values to new ones
    Ring   ring;
    Flight flight;
    Val   *before;               // was there a trip of an earlier loop whose products are on their way? NULL: none are
    Val   *next[MAX_AHEAD];      // what is loaded for the trip after it
} Trip;

static void load_next(Trip *t) {
    Ws *h = t->h;
    if (h->nahead) ws_load_ahead(h, &t->in, b_binary(&t->in, OP_add, t->loop->reg[0]->args.at[0], h->loop->in[2]), t->next);
}

static void multiplied(Trip *t, const Op *op, const Product *p) {
    Ws *h = t->h;
    ws_across_store(h, &t->in, p, t->ring, &t->map);
    map_set(&t->map, op->out[0], ws_multiply(h, &t->in, p, t->ring, &t->map));
    if (!h->nsources) load_next(t);
    if (!h->pipelined) ws_started(&t->flight, op, p->op[0].where == REGISTERS ? op->in[p->swapped] : NULL);
    if (!p->promoted) return;
    ws_settle(&t->flight, &t->in, &t->map, t->flight.n);
    if (op_acc(op)) map_set(&t->map, op->out[0], b_binary(&t->in, OP_add, map_get(&t->map, op_acc(op)), map_get(&t->map, op->out[0])));
}

// One trip late: what read the previous stage is done once only this trip's products are in flight.
static void end_trip(Trip *t, const Op *yield) {
    Ws *h = t->h;
    int n = h->loop->nout;
    Val *out[MAX_CARRIED + MAX_AHEAD + 2];
    if (h->pipelined) wait_products(h, &t->in, h->to - h->from, &t->map);                     // for those of the trip before
    for (int i = 0; i < n; i++) out[i] = map_get(&t->map, yield->in[i]);
    Val *any = h->pipelined ? b_binary(&t->in, OP_gt, t->loop->reg[0]->args.at[0], h->loop->in[0]) : NULL;
    if (t->before) any = b_binary(&t->in, OP_or, any, t->before);
    if (h->pipelined) release_previous(h, &t->in, any, t->ring);
    else ws_release(h, &t->in, 0, t->ring.stage);
    t->ring = ws_advance(h, &t->in, t->ring);
    for (int i = 0; i < h->nahead; i++) out[n + i] = t->next[i];
    out[n + h->nahead] = t->ring.stage;
    out[n + h->nahead + 1] = t->ring.phase;
    ws_effect(&t->in, OP_T_yield, n + h->nahead + 2, out);
}

static void fill_trip(Trip *t) {
    Ws *h = t->h;
    Region *old = h->loop->reg[0];
    int n = h->loop->nout;
    if (h->nsources) load_next(t);
    for (int i = 0; i <= n; i++) {
        t->loop->reg[0]->args.at[i]->name = old->args.at[i]->name;
        map_set(&t->map, old->args.at[i], i ? t->loop->reg[0]->args.at[i] : ws_turned(h, &t->in, t->loop->reg[0]->args.at[0]));
    }
    ws_await(h, &t->in, 0, t->ring);
    for (Op *op = old->first; op; op = op->next) {
        const Op *wants = ws_behind_vectors(h, op);
        ws_settle(&t->flight, &t->in, &t->map, wants->code == OP_T_yield ? t->flight.n : ws_wanted(&t->flight, wants));
        if (ws_take_source(h, &t->in, op, t->ring.stage, &t->map) || ws_take_vector(h, &t->in, op, t->ring.stage, &t->map) || ws_take_ahead(h, &t->in, op, t->loop->reg[0]->args.at + 1 + n, &t->map) || ws_is_ring_load(h, op)) continue;
        const Product *p = NULL;
        for (int i = h->from; i < h->to; i++) if (h->p[i].dot == op) p = &h->p[i];
        ws_take_seen(h, &t->in, op, t->ring.stage, &t->map);
        if (p) multiplied(t, op, p);
        else if (op->code == OP_T_yield) end_trip(t, op);
        else op_append(t->loop->reg[0], op_clone(h->f, op, &t->map));
    }
}

static Val *had_trips(const Ws *h, Builder *b, Val *before) {
    Val *had = b_binary(b, OP_lt, h->loop->in[0], h->loop->in[1]);
    return before ? b_binary(b, OP_or, had, before) : had;
}

// What follows the loop takes its results, products when they have arrived; but of several loops the next one may take them on their way. Then: Trip.before.
static Val *take_results(Ws *h, Builder *b, Op *loop, Val *before) {
    const Op *yield = h->loop->reg[0]->last;
    int n = h->loop->nout;
    bool last = ws_last(h), goes_on = ws_goes_on(h, h->at + 1);
    ValMap after = {.arena = h->f->arena};                                           // by product: what the loop leaves of it
    for (int i = 0; i < n; i++) loop->out[i]->name = h->loop->out[i]->name;
    for (int i = 0; i < n; i++)
        for (int k = h->from; k < h->to; k++) if (yield->in[i] == h->p[k].dot->out[0]) map_set(&after, yield->in[i], loop->out[i]);
    if (h->pipelined && !goes_on) wait_products(h, b, 0, &after);
    if (last) ws_release_once(h, b);
    if (h->pipelined && !goes_on && (h->walk_bytes || h->nest || !last)) release_previous(h, b, had_trips(h, b, before), (Ring){loop->out[n + h->nahead], loop->out[n + h->nahead + 1]});
    if (h->pipelined && last && ws_pingpong_busy(h)) {        // what follows takes its time, and is not to begin before that
        wait_products(h, b, 0, &after);
        b->r->last->attr = h->empty[0]->def->attr;
    }
    for (int i = 0; i < n; i++) {
        bool product = false;
        for (int k = h->from; k < h->to; k++) product |= h->pipelined && yield->in[i] == h->p[k].dot->out[0];
        replace_uses(&h->f->body, h->loop->out[i], product ? map_get(&after, yield->in[i]) : loop->out[i]);
    }
    return goes_on ? had_trips(h, b, before) : NULL;
}

static Val *consume_loop(Ws *h, Builder *b, Val *before) {
    int n = h->loop->nout;
    Val *init[MAX_CARRIED + MAX_AHEAD];
    for (int i = 0; i < n; i++) init[i] = h->loop->in[3 + i];
    ws_load_ahead(h, b, h->loop->in[0], init + n);
    Val *from = h->loop->in[0];
    if (h->f->by_twos) h->loop->in[0] = ws_twos(h, b, init);
    Trip t = {.h = h, .map = {.arena = h->f->arena}, .before = before};
    t.loop = ws_ring_loop(h, b, CONSUMERS, n + h->nahead, init, &t.map, &t.in, &t.ring);
    h->loop->in[0] = from;
    fill_trip(&t);
    return take_results(h, b, t.loop, before);
}

void ws_consumers(Ws *h, Region *r) {
    Builder b = {h->f, r, NULL, h->loop->span};
    ws_at(h, 0);
    if (h->nest) {
        ws_nest_consumers(h, r);
        b = (Builder){h->f, h->loop->parent, h->loop, h->loop->span};
    }
    if (h->slices > 1) ws_slice_trips(h, &b);
    ws_made_store(h, &b);
    if (h->once_bytes && !h->keep) {
        h->turn[1] = ws_i32(&b, 0);
        ws_effect(&b, OP_T_mbar_wait, 3, (Val *[]){h->once, ws_i32(&b, 0), h->turn[1]});
    }
    if (h->chained) { ws_overlap(h, r); return; }
    Val *before = NULL;
    for (int i = 0; i < h->nloops; i++) {
        ws_at(h, i);
        before = consume_loop(h, &b, before);
    }
    if (h->nest) ws_nest_end(h, CONSUMERS, h->nest->reg[0]);
}

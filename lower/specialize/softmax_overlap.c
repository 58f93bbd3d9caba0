// Two products in a chain, the first a trip ahead: attention's schedule (FlashAttention-3's overlap within
// a warp group).
//
//     for n { s = q * k[n];  p, r = softmax(s);  acc = acc * r + p * v[n] }
//
//     s = q * k[0];  p, r = softmax(s);  acc = acc * r                        first trip, up to the second product
//     for n from the second trip on {
//         s = q * k[n]          started
//         acc = acc + p * v[n - 1]     started: both in flight
//         wait for s; release k[n];   p', r = softmax(s)      while the tensor cores work on p * v
//         wait for acc; release v[n - 1];   acc = acc * r;   p = p', narrowed now: p's registers are free
//     }
//     acc = acc + p * v[last]
//
// Keys and values have a ring each: k[n] is free a product before v[n] is, and of both there need be two stages only (heads
// of 256). If one load serves both products, it has one ring of three stages or more.
//
// In turns. Two groups that start together stay together: both wait for the tensor cores, then both for the units that
// make exponentials. Where these take as long as the products (heads of 64), a group starts a trip only when the other
// one has the maxima of its own:
//
//     group 0   products | maxima | exponentials, sums           | products | maxima | ..
//     group 1   ..                  products | maxima | exponentials, sums            | ..
//
// Scores a trip ahead. There, in blocks that walk, a thread has registers for the next trip's scores beside this one's,
// so that nobody waits for them (one tile a block, B1 H12 S1024 causal: 21.3 us so, 18.6 without):
//
//     s = q * k[0]
//     for n but the last { s' = q * k[n + 1] started;  p, r = softmax(s), s' waited for amid it;  acc = acc * r + p * v[n];  s = s' }
//     p, r = softmax(s);  acc = acc * r + p * v[last]
//
// An H200, D64, B4 H32 S4096 463 TFLOP/s, causal 431, B8 H12 S1024 384 and 282; neither 456, 367, 349, 225; turns
// alone, once a tile, 453, 388, 369, 235 (2026-11-21). ptxas decides how narrowing, the arrival and the waits lie amid
// the exponentials.
//
// Applies when the first product depends on loads alone, the second takes a tile made of it from registers
// and accumulates into a carried value that nothing else of the trip needs but its own scaling. The
// probabilities outlive their trip's axis, so they are renamed to one made before the loop. A trip count
// of zero leaves the initial values: all of it stands in a branch on that.
#include "lower/specialize/specialize.h"

#include <string.h>

typedef struct Chain {
    Ws     *h;
    Product *first, *second;
    Region  *body;                  // of the loop as it was
    int      acc;                   // which carried value the second product accumulates into
    Val     *p_axis;                // stands for the contracted axis of the probabilities
    bool    *late;                  // by Val.id: depends on the carried accumulator
    Val     *wide;                  // the second product's tile before it was narrowed
    bool    *tail;                  // by Val.id: made of `wide` for the second product alone
} Chain;

static bool is_late(const Chain *c, const Op *op) {
    for (int i = 0; i < op->nin; i++) if (c->late[op->in[i]->id]) return true;
    return false;
}

static bool uses(const Op *op, const Val *v) {
    for (int i = 0; i < op->nin; i++) if (op->in[i] == v) return true;
    return false;
}

// From the second product's tile back to what was narrowed to make it, through ops that nothing else uses (a mask).
static void find_tail(Chain *c) {
    Val *v = c->second->dot->in[0];
    const Op *user = c->second->dot;
    c->wide = v;
    c->tail = NEW_N(c->h->f->arena, bool, c->h->f->nvals);
    for (Op *d; (d = v->def) && d->parent == c->body && (d->code == OP_T_cast || d->code == OP_T_select); user = d) {
        for (Op *op = c->body->first; op; op = op->next) if (op != user && uses(op, v)) return;
        Val *from = d->in[d->code == OP_T_select];                 // a mask's value comes second
        if (from->type.rank != v->type.rank) return;
        c->tail[v->id] = true;
        if (d->code == OP_T_cast) { c->wide = from; return; }
        v = from;
    }
}

static bool matches(Chain *c) {
    Ws *h = c->h;
    if (h->np != 2) return false;
    c->first = &h->p[0];
    c->second = &h->p[1];
    if (c->first->swapped || c->second->swapped) return false;
    const Op *d1 = c->first->dot, *d2 = c->second->dot, *yield = c->body->last;
    if ((d1->flags & HAS_ACC) || !(d2->flags & HAS_ACC)) return false;
    if (c->first->op[0].where == REGISTERS || c->second->op[0].where != REGISTERS || c->second->op[1].where != RING)
        return false;
    c->acc = -1;
    for (int i = 0; i < yield->nin; i++) if (yield->in[i] == d2->out[0]) c->acc = i;
    if (c->acc < 0) return false;
    c->late = NEW_N(h->f->arena, bool, h->f->nvals);
    c->late[c->body->args.at[1 + c->acc]->id] = true;
    for (Op *op = c->body->first; op; op = op->next) {
        if (op == d2 || op == yield) continue;
        if (op->nreg || uses(op, d2->out[0])) return false;
        if (is_late(c, op)) {
            if (!op_has(op, 'P')) return false;
            for (int i = 0; i < op->nout; i++) c->late[op->out[i]->id] = true;
        }
    }
    for (int i = 0; i < yield->nin; i++)
        if (i != c->acc && (c->late[yield->in[i]->id] || yield->in[i] == d2->out[0])) return false;
    find_tail(c);
    return !c->late[d2->in[0]->id] && c->late[d2->in[2]->id] && !is_late(c, d1);
}

// Clones the trip's ops from one to before another, but for the products and the loads of the ring: those
// that depend on the carried accumulator, or the others.
static void clone(Chain *c, Region *into, ValMap *m, Op *from, const Op *to, bool late) {
    for (Op *op = from; op != to; op = op->next) {
        if (op == c->first->dot || op == c->second->dot || (op->nout && c->tail[op->out[0]->id]) ||
            ws_is_ring_load(c->h, op) || is_late(c, op) != late)
            continue;
        op_append(into, op_clone(c->h->f, op, m));
    }
}

// What the second product will read past its trip, from the wide tile p: the tile gets the lasting axis.
static Val *keep(Chain *c, Builder *b, ValMap *m, Val *p) {
    map_set(m, c->wide, p);
    for (Op *op = c->body->first; op; op = op->next)
        if (op->nout && c->tail[op->out[0]->id]) op_append(b->r, op_clone(c->h->f, op, m));
    p = map_get(m, c->second->dot->in[0]);
    Val *k = map_get(m, c->second->k), *axes[MAX_AXES];
    for (int i = 0; i < p->type.rank; i++) axes[i] = p->type.axis[i] == k ? c->p_axis : p->type.axis[i];
    return b_op(b, OP_T_rename, 0, type_tile((Elem)p->type.elem, p->type.rank, axes), 3, (Val *[]){p, k, c->p_axis});
}

static Val *second_product(Chain *c, Builder *b, Val *p, Val *acc, Val *stage) {
    ValMap m = {.arena = c->h->f->arena};
    Product q = *c->second;
    q.op[1].clear = false;
    map_set(&m, q.dot->in[0], p);
    map_set(&m, q.dot->in[2], acc);
    map_set(&m, q.k, c->p_axis);
    return ws_multiply(c->h, b, &q, (Ring){stage, NULL}, &m);
}

// Does the trips' axis end within the tile on the last trip alone? So do those of `for n in lo .. hi by B`; what a trip
// makes of its own (0 .. length[page]), and what was made before the loop, may end anywhere.
static bool ends_last(const Chain *c) {
    const Val *k = c->second->k, *const *in = (const Val *const *)c->h->loop->in;
    return k->def->parent == c->body && axis_lo(k) == c->body->args.at[0] && axis_hi(k) == in[1];
}

// A value of the trip whose counter m maps, and all that the trip makes it of.
static Val *of_trip(Chain *c, Region *into, ValMap *m, Val *v) {
    if (!v->def || v->def->parent != c->body || map_get(m, v) != v) return map_get(m, v);
    for (int i = 0; i < v->def->nin; i++) of_trip(c, into, m, v->def->in[i]);
    op_append(into, op_clone(c->h->f, v->def, m));
    return map_get(m, v);
}

// The values of the trip with this counter are zero from its axis's end on, which are at `stage` and have arrived.
static void clear_values(Chain *c, Builder *b, Val *counter, Val *stage) {
    if (!c->second->op[1].clear) return;
    ValMap m = {.arena = c->h->f->arena};
    map_set(&m, c->body->args.at[0], counter);
    ws_effect(b, OP_T_buffer_clear, 3, (Val *[]){c->second->op[1].buffer, stage, of_trip(c, b->r, &m, c->second->k)});
}

// How often: on every trip, or on the last, whose counter this is.
static bool clears_always(const Chain *c) { return c->second->op[1].clear && !ends_last(c); }

static Val *last_trip(const Chain *c, Builder *b) {
    Val *lo = c->h->loop->in[0], *hi = c->h->loop->in[1], *step = c->h->loop->in[2];
    Val *before = b_binary(b, OP_sub, b_binary(b, OP_sub, hi, lo), b_const(b, EL_index, 1));
    return b_binary(b, OP_add, lo, b_binary(b, OP_mul, b_binary(b, OP_div, before, step), step));
}

// The tensor cores do 2048 multiplications a clock, the special function units 16 operations; a trip's work for each.
static bool worth_turns(const Chain *c) {
    int64_t tensor = 0, special = 0;
    const Product *p[] = {c->first, c->second};
    for (int i = 0; i < 2; i++) tensor += axis_extent(p[i]->row) * axis_extent(p[i]->col) * axis_extent(p[i]->k) / 2048;
    for (const Op *op = c->body->first; op; op = op->next)
        if (op->code == OP_T_fun && (op->sub == TF_exp2 || op->sub == TF_exp || op->sub == TF_tanh))
            special += type_lanes(&op->out[0]->type) / 16;
    return c->h->groups * c->h->bands >= 2 && tensor * 4 <= special * 5;
}

// What a group has when it passes the turn: the last reduction before the exponentials.
static Val *reduced(const Chain *c) {
    Val *v = NULL;
    for (Op *op = c->first->dot; op; op = op->next) {
        if (op->code == OP_T_reduce && op->out[0]->type.rank) v = op->out[0];
        if (v && op->code == OP_T_fun && (op->sub == TF_exp2 || op->sub == TF_exp)) break;
    }
    return v;
}

static void turn(const Ws *h, Builder *b, OpCode code, Val *x) {
    Op *op = ws_effect(b, code, x ? 1 : 0, &x);
    if (h->bands > 1) op->attr = h->bands;
}

// S of the next trip beside that of this one, the probabilities and the accumulator: registers of a thread.
static bool room_ahead(const Chain *c) {
    int64_t rows = axis_extent(c->first->row) / 64 / c->h->groups / c->h->bands,
            s = rows * axis_extent(c->first->col) / 2, o = rows * axis_extent(c->second->col) / 2;
    return c->h->bands > 1 || 2 * s + s / 2 + o <= 192;            // three groups: S is one or the other (together)
}

bool ws_chained(Ws *h) {
    Chain c = {.h = h, .body = h->loop->reg[0]};
    if (!matches(&c) || h->p[1].op[1].same) return false;             // each has a ring of its own
    if (h->p[1].op[1].clear && !ws_computable(h, axis_hi(h->p[1].k))) return false;
    h->turns = worth_turns(&c) && reduced(&c);
    return true;
}

// ---- what both schedules have around their trips -----------------------------------------------------

static Val *lasting_axis(Builder *b, int64_t extent) {
    Val *v = b_op(b, OP_T_axis, 0, (Type){.kind = TY_AXIS, .shape = {extent}}, 2,
                  (Val *[]){b_const(b, EL_index, 0), b_const(b, EL_index, extent)});
    v->def->imm = extent;
    v->def->flags |= AXIS_FULL;
    return v;
}

static Op *yield_with(Chain *c, Builder *b, int n, Val *const *carried, Val *more, Ring at) {
    Val *out[MAX_CARRIED + 3];
    int k = 0;
    for (int i = 0; i < c->h->loop->nout; i++) out[k++] = carried[i];
    if (more) out[k++] = more;
    out[k++] = at.stage;
    out[k++] = at.phase;
    return ws_effect(b, OP_T_yield, n, out);                         // of a block with one tile: without the ring
}

// The branch on whether there is a trip: its other side gives back what came in. *t writes the side with trips, from
// h->start[1].
static Op *branch_on_trips(Chain *c, Region *r, Builder *t) {
    Ws *h = c->h;
    bool walks = h->walk_bytes != 0;
    int n = h->loop->nout;
    Val **init = h->loop->in + 3;
    Builder b = {h->f, r, NULL, h->loop->span};
    c->p_axis = lasting_axis(&b, axis_extent(c->second->k));
    h->start[1] = ws_first(h, &b);
    Val *any = b_binary(&b, OP_lt, h->loop->in[0], h->loop->in[1]);
    Op *branch = op_new(h->f, OP_T_if, b.span, 1, &any, walks ? n + 2 : n);
    for (int i = 0; i < n; i++) { branch->out[i]->type = init[i]->type; branch->out[i]->name = h->loop->out[i]->name; }
    for (int i = n; i < branch->nout; i++) branch->out[i]->type = type_scalar(EL_i32);
    if (walks) h->end[1] = (Ring){branch->out[n], branch->out[n + 1]};
    b_insert(&b, branch);
    *t = (Builder){h->f, branch->reg[0], NULL, b.span};
    Builder none = {h->f, branch->reg[1], NULL, b.span};
    ws_release_once(h, &none);
    yield_with(c, &none, branch->nout, init, NULL, h->start[1]);
    return branch;
}

// The loop over `in` (bounds, step, what is carried, one value more, the ring): its counter and arguments. *k writes
// its body.
static Op *loop_of(Chain *c, Builder *t, Val **in, Builder *k, Val **counter, Val **arg) {
    int n = c->h->loop->nout;
    Op *loop = op_new(c->h->f, OP_T_for, t->span, 6 + n, in, n + 3);
    b_insert(t, loop);
    *k = (Builder){c->h->f, loop->reg[0], NULL, t->span};
    *counter = region_arg(c->h->f, k->r, type_scalar(EL_index));
    for (int i = 0; i < n + 3; i++) {
        loop->out[i]->type = in[3 + i]->type;
        arg[i] = region_arg(c->h->f, k->r, in[3 + i]->type);
    }
    return loop;
}

// After the last trip, whose stage of the values' ring is at `at`.
static void leave(Chain *c, Builder *t, Op *branch, Val *const *carried, Ring at) {
    Ws *h = c->h;
    if (h->walk_bytes) {
        ws_release(h, t, ws_ring(h, c->second), at.stage);
        at = ws_advance(h, t, at);
    }
    yield_with(c, t, branch->nout, carried, NULL, at);
    for (int i = 0; i < h->loop->nout; i++) replace_uses(&h->f->body, h->loop->out[i], branch->out[i]);
}

// ---- scores a trip ahead ---------------------------------------------------------------------------

typedef struct Trip {
    ValMap m;                       // of the trip's values
    Val   *s, **carried;            // its scores, on the lasting axis; what the loop carries
    Ring   at;                      // its stages
} Trip;

// The product of the keys at `ring`, on the lasting axis.
static Val *scores(Chain *c, Builder *b, Ring ring) {
    ValMap m = {.arena = c->h->f->arena};
    map_set(&m, c->first->col, c->p_axis);
    return ws_multiply(c->h, b, c->first, ring, &m);
}

// The trip's axis comes before its products: trips without masks get a body of their own from there on (peel.c).
static void begin(Chain *c, Builder *b, Trip *t, Val *counter) {
    map_set(&t->m, c->body->args.at[0], counter);
    for (int i = 0; i < c->h->loop->nout; i++) map_set(&t->m, c->body->args.at[1 + i], t->carried[i]);
    clone(c, b->r, &t->m, c->body->first, c->first->dot, false);
}

// Its scores on its own axis.
static void own_scores(Chain *c, Builder *b, Trip *t) {
    Val *k = map_get(&t->m, c->first->col), *axes[MAX_AXES];
    for (int i = 0; i < t->s->type.rank; i++) axes[i] = t->s->type.axis[i] == c->p_axis ? k : t->s->type.axis[i];
    map_set(&t->m, c->first->dot->out[0],
            b_op(b, OP_T_rename, 0, type_tile((Elem)t->s->type.elem, t->s->type.rank, axes), 3,
                 (Val *[]){t->s, c->p_axis, k}));
}

static void carry_on(Chain *c, Trip *t, Val *acc) {
    for (int i = 0; i < c->h->loop->nout; i++) t->carried[i] = i == c->acc ? acc : map_get(&t->m, c->body->last->in[i]);
}

// A trip from its scores on, while the next ones are made (NULL: none are). Leaves what is carried.
static void finish(Chain *c, Builder *b, Trip *t, Val **next) {
    Ws *h = c->h;
    Op *yield = c->body->last, *dot = c->first->dot;
    Val *maxima = next && h->turns ? reduced(c) : NULL;
    Op *until = maxima ? maxima->def->next : dot->next;
    own_scores(c, b, t);
    clone(c, b->r, &t->m, dot->next, until, false);
    if (maxima) turn(h, b, OP_T_turn_pass, map_get(&t->m, maxima));
    if (next) *next = ws_wait(b, 0, *next);
    clone(c, b->r, &t->m, until, yield, false);
    Val *p = keep(c, b, &t->m, map_get(&t->m, c->wide));
    clone(c, b->r, &t->m, c->body->first, yield, true);
    Val *acc = ws_wait(b, 0, second_product(c, b, p, map_get(&t->m, c->second->dot->in[2]), t->at.stage));
    carry_on(c, t, acc);
}

// A trip up to its second product, which is started with the next trip's first one, whose scores are the result.
static Val *together(Chain *c, Builder *b, Trip *t, Ring ring) {
    Ws *h = c->h;
    own_scores(c, b, t);
    clone(c, b->r, &t->m, c->first->dot->next, c->body->last, false);
    Val *p = keep(c, b, &t->m, map_get(&t->m, c->wide));
    clone(c, b->r, &t->m, c->body->first, c->body->last, true);
    ws_await(h, b, 1, t->at);
    if (clears_always(c)) clear_values(c, b, map_get(&t->m, c->body->args.at[0]), t->at.stage);
    ws_await(h, b, 0, ring);
    if (h->turns) turn(h, b, OP_T_turn_wait, NULL);
    Val *v[] = {second_product(c, b, p, map_get(&t->m, c->second->dot->in[2]), t->at.stage), scores(c, b, ring)};
    ws_wait_all(b, 0, 2, v);
    if (h->turns) turn(h, b, OP_T_turn_pass, NULL);
    carry_on(c, t, v[0]);
    return v[1];
}

static Val *beside(Chain *c, Builder *b, Trip *t, Ring ring) {
    Ws *h = c->h;
    ws_await(h, b, 0, ring);
    ws_await(h, b, 1, t->at);
    if (clears_always(c)) clear_values(c, b, map_get(&t->m, c->body->args.at[0]), t->at.stage);
    if (h->turns) turn(h, b, OP_T_turn_wait, NULL);
    Val *next = scores(c, b, ring);
    finish(c, b, t, &next);
    return next;
}

static void ahead(Chain *c, Region *r) {
    Ws *h = c->h;
    int n = h->loop->nout;
    Val **init = h->loop->in + 3, *lo = h->loop->in[0], *step = h->loop->in[2], *counter, *arg[MAX_CARRIED + 3];
    Builder t, k;
    Op *branch = branch_on_trips(c, r, &t);
    Ring start = h->start[1];

    // The first scores; all trips but the last.
    ws_await(h, &t, 0, start);
    Val *last = last_trip(c, &t), *in[3 + MAX_CARRIED + 3] = {lo, last, step};
    for (int i = 0; i < n; i++) in[3 + i] = init[i];
    in[3 + n] = ws_wait(&t, 0, scores(c, &t, start));
    in[4 + n] = start.stage;
    in[5 + n] = start.phase;
    ws_release(h, &t, 0, start.stage);
    Op *loop = loop_of(c, &t, in, &k, &counter, arg);
    Trip trip = {.m = {.arena = h->f->arena}, .s = arg[n], .carried = arg, .at = {arg[n + 1], arg[n + 2]}};
    Ring ring = ws_advance(h, &k, trip.at);
    begin(c, &k, &trip, counter);
    Val *next = h->bands > 1 ? together(c, &k, &trip, ring) : beside(c, &k, &trip, ring);
    ws_release(h, &k, 0, ring.stage);
    ws_release(h, &k, 1, trip.at.stage);
    yield_with(c, &k, n + 3, trip.carried, next, ring);

    // The last trip.
    for (int i = 0; i < n; i++) arg[i] = loop->out[i];
    Trip end = {.m = {.arena = h->f->arena}, .s = loop->out[n], .carried = arg, .at = {loop->out[n + 1], loop->out[n + 2]}};
    ws_release_once(h, &t);
    begin(c, &t, &end, last);
    ws_await(h, &t, 1, end.at);
    clear_values(c, &t, last, end.at.stage);
    finish(c, &t, &end, NULL);
    leave(c, &t, branch, end.carried, end.at);
}

// ---- the first product a trip ahead ----------------------------------------------------------------

// The first trip, up to its second product, whose probabilities it gives: *m has its values.
static Val *first_trip(Chain *c, Builder *t, ValMap *m) {
    Ws *h = c->h;
    Op *dot = c->first->dot, *yield = c->body->last;
    Ring ring = h->start[1];
    map_set(m, c->body->args.at[0], h->loop->in[0]);
    for (int i = 0; i < h->loop->nout; i++) map_set(m, c->body->args.at[1 + i], h->loop->in[3 + i]);
    ws_await(h, t, 0, ring);
    clone(c, t->r, m, c->body->first, dot, false);
    if (h->turns) turn(h, t, OP_T_turn_wait, NULL);
    map_set(m, dot->out[0], ws_wait(t, 0, ws_multiply(h, t, c->first, ring, m)));
    if (ws_ring(h, c->second)) ws_release(h, t, 0, ring.stage);
    Op *until = h->turns ? reduced(c)->def->next : dot->next;
    clone(c, t->r, m, dot->next, until, false);
    if (h->turns) turn(h, t, OP_T_turn_pass, map_get(m, reduced(c)));
    clone(c, t->r, m, until, yield, false);
    Val *p = keep(c, t, m, map_get(m, c->wide));
    clone(c, t->r, m, c->body->first, yield, true);
    return p;
}

// A trip of the loop: its first product beside the second one of the trip before, whose values are `arg`.
static void middle_trip(Chain *c, Builder *k, Val *counter, Val *const *arg) {
    Ws *h = c->h;
    Op *dot = c->first->dot, *yield = c->body->last;
    int n = h->loop->nout, a = c->acc, second = ws_ring(h, c->second);
    Ring before = {arg[n + 1], arg[n + 2]}, ring = ws_advance(h, k, before);
    ValMap w = {.arena = h->f->arena};
    map_set(&w, c->body->args.at[0], counter);
    for (int i = 0; i < n; i++) if (i != a) map_set(&w, c->body->args.at[1 + i], arg[i]);
    ws_await(h, k, 0, ring);
    clone(c, k->r, &w, c->body->first, dot, false);
    if (clears_always(c)) {                                           // before the products are in flight
        ws_await(h, k, second, before);
        clear_values(c, k, b_binary(k, OP_sub, counter, h->loop->in[2]), before.stage);
    }
    Val *s = ws_multiply(h, k, c->first, ring, &w), *out[MAX_CARRIED];
    if (second && !clears_always(c)) ws_await(h, k, second, before);
    Val *acc = second_product(c, k, arg[n], arg[a], before.stage);
    map_set(&w, dot->out[0], ws_wait(k, 1, s));
    if (second) ws_release(h, k, 0, ring.stage);
    clone(c, k->r, &w, dot->next, yield, false);
    Val *at_end[] = {acc, arg[n], map_get(&w, c->wide)};              // the exponentials come before the wait, all of them
    ws_wait_all(k, 0, 3, at_end);
    ws_release(h, k, second, before.stage);
    Val *next = keep(c, k, &w, at_end[2]);
    map_set(&w, c->body->args.at[1 + a], at_end[0]);
    clone(c, k->r, &w, c->body->first, yield, true);
    for (int i = 0; i < n; i++) out[i] = map_get(&w, i == a ? c->second->dot->in[2] : yield->in[i]);
    yield_with(c, k, n + 3, out, next, ring);
}

void ws_overlap(Ws *h, Region *r) {
    Chain c = {.h = h, .body = h->loop->reg[0]};
    if (!matches(&c)) ice("products in a chain that is none");
    bool ahead_pays = h->bands > 1 || (h->turns && h->walk_bytes);
    if (ahead_pays && h->rings == 2 && room_ahead(&c)) { ahead(&c, r); return; }
    int n = h->loop->nout, a = c.acc, second = ws_ring(h, c.second);
    Val *counter, *arg[MAX_CARRIED + 3], *out[MAX_CARRIED];
    Builder t, k;
    Op *branch = branch_on_trips(&c, r, &t);
    Ring ring = h->start[1];
    ValMap m = {.arena = h->f->arena};
    Val *p = first_trip(&c, &t, &m);

    // The loop: carried values (the accumulator already scaled), the probabilities, the ring.
    Val *in[3 + MAX_CARRIED + 3] = {b_binary(&t, OP_add, h->loop->in[0], h->loop->in[2]), h->loop->in[1], h->loop->in[2]};
    for (int i = 0; i < n; i++) in[3 + i] = map_get(&m, i == a ? c.second->dot->in[2] : c.body->last->in[i]);
    in[3 + n] = p;
    in[4 + n] = ring.stage;
    in[5 + n] = ring.phase;
    Op *loop = loop_of(&c, &t, in, &k, &counter, arg);
    middle_trip(&c, &k, counter, arg);

    // What is left of the last trip.
    ring = (Ring){loop->out[n + 1], loop->out[n + 2]};
    ws_release_once(h, &t);
    if (second) ws_await(h, &t, second, ring);
    clear_values(&c, &t, last_trip(&c, &t), ring.stage);
    Val *last = ws_wait(&t, 0, second_product(&c, &t, loop->out[n], loop->out[a], ring.stage));
    for (int i = 0; i < n; i++) out[i] = i == a ? last : loop->out[i];
    leave(&c, &t, branch, out, ring);
}

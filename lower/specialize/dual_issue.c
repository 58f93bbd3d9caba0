// Trips by twos: two trips' products begin one after the other, and while the second one is made the first one is added.
//
//     for k by 128 {                            for k by 256, as long as there are two {
//         wait full                                 wait full;  d = wgmma A, B
//         d = wgmma A, B                            wait full;  e = wgmma A', B'
//         wait for d;  release               ->     wait for d;  release;  acc += d * s          e is on its way
//         acc += d * s                              wait for e;  release;  acc += e * t          the other group's products are
//     }                                         }
//                                               for what is left, as it was
//
// For products that are added in f32 in each trip (f8: the tensor cores keep too few bits), by themselves or scaled. Two groups that start together stay
// together: both wait for the tensor cores, then both add. So they begin their two products in turns, one as the other one's are made.
//
// Where registers hold what is carried and two products (128 x 128 by two groups), and the ring is long enough that the next two stages come meanwhile. What comes
// before the product in a trip must not depend on what the loop carries.
//
// H200, scales of 1 x 128 and 128 x 128 (a trip ahead: specialize/block_scales.c), trip by trip, by twos, by twos in turns: 4096 x 14336 x 4096 427, 397, 386 us; 8192^3 1026, 961, 900;
// 2048 x 7168 x 4096 107, 100, 97; 512 x 7168 x 2048 20.7, 19.6, 18.8 (torch._scaled_mm 387, 879, 98, 18.8). Trip by trip in turns 440, 1047, 109, 20.7. Scales of rows, 4096 x 14336 x
// 4096 by 128 x 128, 399, 350, 351 (2026-11-24).
#include "lower/specialize/specialize.h"

enum { LEAST_STAGES = 4, MOST_REGS = 192 };

// Nothing but numbers, loads and the product; before the product nothing that is carried.
static bool plain_trip(const Ws *h) {
    const Region *r = h->loop->reg[0];
    bool before = true;
    for (const Op *op = r->first; op != r->last; op = op->next) {
        if (!op_has(op, 'P') && op->code != OP_T_load) return false;
        before &= op != h->p[0].dot;
        for (uint32_t i = 1; before && i < r->args.n; i++)
            for (int k = 0; k < op->nin; k++) if (op->in[k] == r->args.at[i]) return false;
    }
    return true;
}

// Of a thread: what the loop carries, two products, and what is loaded for the columns of each.
static int64_t registers(const Ws *h) {
    int64_t threads = 128 * h->groups, n = 2 * axis_extent(h->p[0].row) * axis_extent(h->p[0].col) / threads;
    for (int i = 0; i < h->loop->nout; i++) {
        const Type *t = &h->loop->out[i]->type;
        if (t->kind == TY_TILE && t->rank == 2) n += axis_extent(t->axis[0]) * axis_extent(t->axis[1]) / threads;
    }
    for (const Op *op = h->loop->reg[0]->first; op; op = op->next)
        if (op->code == OP_T_load && op->out[0]->type.rank == 1 && op->out[0]->type.axis[0] == h->p[0].col) n += ws_row_registers(h, op->out[0]);
    return n;
}

bool ws_by_twos(const Ws *h) {
    const Product *p = &h->p[0];
    if (h->np != 1 || !p->promoted || p->op[0].where == REGISTERS || h->nest || h->slices > 1 || h->tiles * h->bands > 1 || ws_any_seen(h) || h->stages < LEAST_STAGES) return false;
    return registers(h) <= MOST_REGS && plain_trip(h);
}

// Groups that wait for each other in a turn would not meet where both of them clear rows behind the contracted axis's end.
bool ws_twos_turns(const Ws *h) {
    const Operand *o = h->p[0].op;
    return h->f->by_twos && h->groups == 2 && !o[0].clear && !o[1].clear;
}

typedef struct Trip { ValMap map; Ring ring; Val *counter, **took; } Trip;

static void prepare(Ws *h, Builder *b, Trip *t) {
    const Region *old = h->loop->reg[0];
    map_set(&t->map, old->args.at[0], t->counter);
    for (const Op *op = old->first; op != h->p[0].dot; op = op->next)
        if (!ws_take_ahead(h, b, op, t->took, &t->map) && !ws_is_ring_load(h, op)) op_append(b->r, op_clone(h->f, op, &t->map));
}

static void end_trip(Ws *h, Builder *b, Trip *t, int in_flight, Val **carried) {
    const Op *dot = h->p[0].dot;
    const Region *old = h->loop->reg[0];
    for (int i = 0; i < h->loop->nout; i++) map_set(&t->map, old->args.at[1 + i], carried[i]);
    Val *product = ws_wait(b, in_flight, map_get(&t->map, dot->out[0]));
    ws_release(h, b, 0, t->ring.stage);
    if (op_acc(dot)) product = b_binary(b, OP_add, map_get(&t->map, op_acc(dot)), product);
    map_set(&t->map, dot->out[0], product);
    for (const Op *op = dot->next; op != old->last; op = op->next)
        if (!ws_take_ahead(h, b, op, t->took, &t->map) && !ws_is_ring_load(h, op)) op_append(b->r, op_clone(h->f, op, &t->map));
    for (int i = 0; i < h->loop->nout; i++) carried[i] = map_get(&t->map, old->last->in[i]);
}

// Of two trips each, from `lo` on: where the trips end that have a second one.
static Val *end_of_twos(Ws *h, Builder *b, Val *two_steps) {
    Val *lo = h->loop->in[0], *step = h->loop->in[2], *one = b_const(b, EL_index, 1);
    Val *trips = b_binary(b, OP_div, b_binary(b, OP_add, b_binary(b, OP_sub, h->loop->in[1], lo), b_binary(b, OP_sub, step, one)), step);
    Val *twos = b_op(b, OP_T_fun, TF_max, type_scalar(EL_index), 2, (Val *[]){b_binary(b, OP_div, trips, b_const(b, EL_index, 2)), b_const(b, EL_index, 0)});
    return b_binary(b, OP_add, lo, b_binary(b, OP_mul, twos, two_steps));
}

Val *ws_twos(Ws *h, Builder *b, Val **init) {
    int n = h->loop->nout, more = h->nahead, all = n + 2 * more;
    Val *lo = h->loop->in[0], *hi = h->loop->in[1], *step = h->loop->in[2], *two_steps = b_binary(b, OP_mul, step, b_const(b, EL_index, 2));
    Val *end = end_of_twos(h, b, two_steps), *begin[MAX_CARRIED + MAX_AHEAD], *carried[MAX_CARRIED + MAX_AHEAD + 2];
    for (int i = 0; i < n + more; i++) begin[i] = init[i];
    ws_load_ahead(h, b, b_binary(b, OP_add, lo, step), begin + n + more);
    Trip t[2] = {{.map = {.arena = h->f->arena}}, {.map = {.arena = h->f->arena}}};
    Builder in;
    ValMap same = {.arena = h->f->arena};
    h->loop->in[1] = end;
    h->loop->in[2] = two_steps;
    Op *loop = ws_ring_loop(h, b, CONSUMERS, all, begin, &same, &in, &t[0].ring);
    h->loop->in[1] = hi;
    h->loop->in[2] = step;
    Val **args = loop->reg[0]->args.at;
    for (int i = 0; i < n; i++) carried[i] = args[1 + i];
    for (int i = 0; i < 2; i++) {
        t[i].counter = i ? b_binary(&in, OP_add, args[0], step) : args[0];
        t[i].took = args + 1 + n + i * more;
        if (i) t[i].ring = ws_advance(h, &in, t[0].ring);
        prepare(h, &in, &t[i]);
    }
    if (ws_twos_turns(h)) ws_effect(&in, OP_T_turn_wait, 0, NULL);
    for (int i = 0; i < 2; i++) {
        ws_await(h, &in, 0, t[i].ring);
        map_set(&t[i].map, h->p[0].dot->out[0], ws_multiply(h, &in, &h->p[0], t[i].ring, &t[i].map));
        ws_load_ahead(h, &in, b_binary(&in, OP_add, t[i].counter, two_steps), carried + n + i * more);
    }
    if (ws_twos_turns(h)) ws_effect(&in, OP_T_turn_pass, 0, NULL);
    for (int i = 0; i < 2; i++) end_trip(h, &in, &t[i], 1 - i, carried);
    Ring after = ws_advance(h, &in, t[1].ring);
    carried[all] = after.stage;
    carried[all + 1] = after.phase;
    ws_effect(&in, OP_T_yield, all + 2, carried);
    for (int i = 0; i < n + more; i++) init[i] = loop->out[i];
    h->halfway = true;
    return end;
}

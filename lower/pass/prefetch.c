// Loads a trip ahead, in loops that wait for something else too.
//
//     for n0 .. N by B, top, den {                     first = load x[n, 0 ..]
//         n = axis n0, N {B}                           for n0 .. N by B, top, den, cur = first {
//         x = load x[m, n]                                 next = load x[m, n0 + B ..]         on its way, while
//         t = max(top, max(x over n))          ->          x = cur
//         den = den * exp(top - t) + sum(..)               t = max(top, max(x over n))         lanes and warps meet
//         top = t                                          ..
//     }                                                }
//
// A reduction across lanes in every trip (an online softmax, a loss, a scan that carries its sum) is a time in which no
// bytes are in flight, unless those of the next trip are. The loaded tile is carried as it came, 16-bit elements two to
// a register. Past the last trip every lane of the next one is dead, so nothing is read. The tile changes its axis as it
// is carried: it belongs to a lasting one of as many lanes, whose lanes hold something only where a trip's are alive.
//
// A recurrence, whose trips are a row each of what goes through time, waits for memory in every trip: what it loads follows from the trip's counter
// alone, and comes several trips ahead, as far as registers go. Past the last trip that reads what is there, and nobody looks at it.
//
//     for t in T, h {                                  x0 .. x7 = load x[0, c] .. x[7, c]
//         x = load x[t, c]                             for t in T / 8 * 8 by 8, h, x0 .. x7 {
//         h = h * a + x                        ->          h = h * a + x0;  store y[t, c], h;  x0 = load x[t + 8, c]
//         store y[t, c], h                                 ..
//     }                                                    h = h * a + x7;  store y[t + 7, c], h;  x7 = load x[t + 15, c]
//                                                      }
//                                                      for t in T / 8 * 8 .. T, h { as it was }
//
// As many trips are written out as are loaded ahead, so that each tile has registers of its own: a move from one to the next waits for the load (a gated
// recurrence in bf16 on an H200: 1061 us as it was, 897 with moves, 195 so, 154 by 16 trips).
//
// Loops of products have rings of their own (pipeline.c, tma_mbarrier.c), and loops that only add up are left to the other
// warps: their trips do not wait, unless the row that they keep (row_cache.c) leaves room for few warps. --with=stages=1
// leaves all loops alone.
#include "lower/build.h"
#include "lower/pass/carried.h"
#include "lower/pass/passes.h"
#include "lower/pass/reduction.h"
#include "lower/pass/iteration.h"

// carried by a program: 32 registers in 8 warps; loads; words of a thread where lanes have the same element, as of u[t, c] beside h[t, c, s] (a selective scan
// by stretches of 64 steps: 1621 us with 128 of them and spills, 754 with none)
enum { MOST_BYTES = 32768, MAX_LOADS = 4, MOST_SHARED = 32 };
// carried by a lane; trips; loads; so many times as many trips; elements a lane of all that is written out
enum { FAR_WORDS = 32, FAR = 8, FAR_LOADS = 6, FEW_TRIPS = 4, MOST_WORK = 2048 };
// twice as far where a lane has few elements of the largest tile, and no trip joins lanes: nothing else wants the registers
enum { LIGHT_EACH = 4, LIGHTER = 2 };

typedef struct Widths { int64_t most, each; } Widths;      // lanes of the largest tile; of it, a thread's. 0: not known yet

typedef struct Ahead {
    Fn  *f;
    Op  *loop;
    Op  *load[MAX_LOADS];
    Val *axis[MAX_LOADS];              // of the trip, in the type of load[i]
    int  n;
} Ahead;

// The one axis of the load that is made in each trip, and begins and ends where its counter says; NULL: there is none, or more.
static Val *trips_axis(const Ahead *a, const Op *load) {
    const Region *body = a->loop->reg[0];
    const Type *t = &load->out[0]->type;
    Val *found = NULL;
    for (int i = 0; i < t->rank; i++) {
        const Op *axis = t->axis[i]->def;
        if (axis->parent != body) continue;
        if (found || !trip_follows(a->loop, axis->in[0]) || !trip_follows(a->loop, axis->in[1])) return NULL;
        found = t->axis[i];
    }
    return found;
}

// The trip needs the reduction's result: not only to carry it on, which can wait for the loop's end (the pass `lazy_reduce`).
static bool needed(const Ahead *a, const Op *red) {
    const Region *body = a->loop->reg[0];
    const Op *join = red->next;
    while (join && !(join->nin >= 2 && (join->in[0] == red->out[0] || join->in[1] == red->out[0]))) join = join->next;
    if ((red->sub != TR_sum && red->sub != TR_max && red->sub != TR_min) || !join ||
        region_uses(body, red->out[0]) != 1)
        return true;
    bool joins = join->code == OP_T_binary ? join->sub == OP_add && red->sub == TR_sum
               : join->code == OP_T_fun && join->sub == (red->sub == TR_max ? TF_max : TF_min) && red->sub != TR_sum;
    for (int i = 0; joins && i < body->last->nin; i++)
        if (body->last->in[i] == join->out[0])
            return region_uses(body, join->out[0]) != 1 ||
                   join->in[join->in[0] == red->out[0]] != body->args.at[1 + i] ||
                   region_uses(body, body->args.at[1 + i]) != 1;
    return true;
}

static int64_t most_lanes(const Fn *f) {
    int64_t most = 1;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        for (int i = 0; i < op->nout; i++)
            if (op->out[i]->type.kind == TY_TILE && type_lanes(&op->out[i]->type) > most) most = type_lanes(&op->out[i]->type);
    return most;
}

static int64_t lanes_each(const Fn *f, const CompileOptions *opt) {
    int per_block;
    int64_t threads = (int64_t)schedule_warps(f, opt, &per_block) * 32;
    return (most_lanes(f) + threads - 1) / threads;
}

// Asked once for all loops, and again when one of them has changed.
static const Widths *widths(Widths *w, const Fn *f, const CompileOptions *opt) {
    if (!w->most) *w = (Widths){most_lanes(f), lanes_each(f, opt)};
    return w;
}

static bool collect(Ahead *a, const CompileOptions *opt, Widths *known_widths) {
    Region *body = a->loop->reg[0];
    if (a->loop->code != OP_T_for || body->last->code != OP_T_yield) return false;
    int64_t bytes = 0, most = widths(known_widths, a->f, opt)->most, each = known_widths->each, shared = 0;
    bool waits = false;
    for (const Op *op = op_walk(body, NULL); op; op = op_walk(body, op))
        if (op->code == OP_T_dot || op->code == OP_T_for || op->code == OP_T_while || op_target(op) == a->loop) return false;
    for (Op *op = body->first; op; op = op->next) {
        waits |= (op->code == OP_T_reduce && needed(a, op)) || op->code == OP_T_scan || op_joins(op) || op->code == OP_T_keep_put;
        if (op->code != OP_T_load || a->n == MAX_LOADS || a->f->launch->params[op->in[0]->def->imm].mode != PM_IN) continue;
        Val *axis = trips_axis(a, op);
        bool known = axis != NULL;
        for (int i = 0; i < op->nin && known; i++) known = trip_follows(a->loop, op->in[i]);
        int64_t size = type_lanes(&op->out[0]->type) * elem_bytes((Elem)op->out[0]->type.elem);
        int64_t lanes = type_lanes(&op->out[0]->type), words = lanes < most ? (lanes < each ? lanes : each) * size / lanes / 4 : 0;
        if (!known || bytes + size > MOST_BYTES || shared + words > MOST_SHARED) continue;
        bytes += size;
        shared += words;
        a->axis[a->n] = axis;
        a->load[a->n++] = op;
    }
    return waits && a->n;
}

static Val *load_at(Ahead *a, int i, Val *counter, Val *lasting, Op *at) {
    ValMap m = {.arena = a->f->arena};
    map_set(&m, a->loop->reg[0]->args.at[0], counter);
    Val *x = trip_again(a->f, a->loop, &m, a->load[i]->out[0], at), *axis = map_get(&m, a->axis[i]);
    Type t = type_union(type_minus(x->type, 1, &axis), type_tile((Elem)x->type.elem, 1, &lasting));
    return b_op(&(Builder){a->f, NULL, at, a->load[i]->span}, OP_T_rename, 0, t, 3, (Val *[]){x, axis, lasting});
}

// The loop with more to carry.
static Op *widened(Ahead *a, int more, Val *const *init) {
    Op *old = a->loop, *op;
    Val **in = NEW_N(a->f->arena, Val *, old->nin + more);
    for (int i = 0; i < old->nin; i++) in[i] = old->in[i];
    for (int i = 0; i < more; i++) in[old->nin + i] = init[i];
    op = op_new(a->f, OP_T_for, old->span, old->nin + more, in, old->nout + more);
    op->str = old->str;
    op->reg[0] = old->reg[0];
    op->reg[0]->owner = op;
    op_before(old, op);
    op_remove(old);
    for (int i = 0; i < op->nout; i++) {
        op->out[i]->type = in[3 + i]->type;
        if (i >= old->nout) continue;
        op->out[i]->name = old->out[i]->name;
        replace_uses(&a->f->body, old->out[i], op->out[i]);
    }
    return op;
}

static void rewrite(Ahead *a) {
    Region *body = a->loop->reg[0];
    Builder out = {a->f, NULL, a->loop, a->loop->span}, top = {a->f, NULL, body->first, a->loop->span};
    Val *init[MAX_LOADS], *next[MAX_LOADS], *lasting[MAX_LOADS],
        *counter = b_binary(&top, OP_add, body->args.at[0], a->loop->in[2]);
    Op *first = counter->def->next;
    for (int i = 0; i < a->n; i++) {
        int64_t lanes = axis_extent(a->axis[i]);
        lasting[i] = b_op(&out, OP_T_axis, 0, a->axis[i]->type, 2,
                          (Val *[]){b_const(&out, EL_index, 0), b_const(&out, EL_index, lanes)});
        lasting[i]->def->imm = lanes;
        lasting[i]->def->flags |= AXIS_FULL;
        init[i] = load_at(a, i, a->loop->in[0], lasting[i], a->loop);
        next[i] = load_at(a, i, counter, lasting[i], first);
    }
    fn_note(a->f, a->loop->span, "%d tile%s loaded a trip ahead, since each trip joins lanes", a->n, a->n == 1 ? "" : "s");
    a->loop = widened(a, a->n, init);
    for (int i = 0; i < a->n; i++) {
        Val *x = a->load[i]->out[0], *cur = region_arg(a->f, body, init[i]->type);
        Builder here = {a->f, NULL, a->load[i], a->load[i]->span};
        Val *now = b_op(&here, OP_T_rename, 0, x->type, 3, (Val *[]){cur, lasting[i], a->axis[i]});
        now->name = x->name;
        replace_uses(&a->f->body, x, now);
        op_remove(a->load[i]);
        op_add_operand(a->f, body->last, next[i]);
    }
}

// ---- recurrences -----------------------------------------------------------------------------------

typedef struct Far { Ahead a; Op *load[FAR_LOADS]; int n, trips; } Far;

static bool in_a_loop(const Op *op) {
    const Op *o = op->parent->owner;
    return o && (o->code == OP_T_for || o->code == OP_T_while || in_a_loop(o));
}

// Something that a trip stores is made of what the loop carries, or goes on from trip to trip otherwise than added up. Loops in others are often
// short (a window's), and sorts take their time.
static bool recurs(const Op *loop) {
    const Region *r = loop->reg[0];
    bool stores = false, reads = false;
    TReduce kind;
    if (in_a_loop(loop)) return false;
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) {
        if (op->code == OP_T_dot || op->nreg || op_target(op) == loop || op->code == OP_T_keep_put || op->code == OP_T_keep_get || op->code == OP_T_sort ||
            op->code == OP_T_order)
            return false;
        stores |= op->code == OP_T_store;
    }
    for (int i = 0; i < loop->nout; i++) reads |= !carried_reduction(loop, i, &kind);
    return loop->nout && (stores || reads);
}

// Made of what the loop carries, op by op: `mark` says so of those before.
static bool of_carried(const Op *loop, const Op *op) {
    for (int i = 0; i < op->nin; i++) {
        const Val *v = op->in[i];
        if (v->def ? v->def->parent == loop->reg[0] && v->def->mark : v->region == loop->reg[0] && v != loop->reg[0]->args.at[0]) return true;
    }
    return false;
}

// Trips are a chain: one needs the one before for more than its sums, or stores what is carried.
static bool chained(const Op *loop) {
    TReduce kind;
    for (int i = 0; i < loop->nout; i++) if (!carried_reduction(loop, i, &kind)) return true;
    for (Op *op = loop->reg[0]->first; op; op = op->next) {
        op->mark = of_carried(loop, op);
        if (op->code == OP_T_store && op->mark) return true;
    }
    return false;
}

static int64_t known_trips(const Op *loop) {
    const Op *lo = loop->in[0]->def, *hi = loop->in[1]->def, *step = loop->in[2]->def;
    bool known = lo && hi && step && lo->code == OP_T_const && hi->code == OP_T_const && step->code == OP_T_const && step->imm > 0;
    return known ? (hi->imm - lo->imm + step->imm - 1) / step->imm : INT64_MAX;
}

// Nothing of its type is the trip's own.
static bool of_all_trips(const Op *loop, const Type *t) {
    for (int i = 0; i < t->rank; i++) if (t->axis[i]->def->parent == loop->reg[0]) return false;
    return true;
}

static int64_t far_work(const Op *loop) {
    int64_t n = 0;
    for (const Op *op = loop->reg[0]->first; op; op = op->next) n += op->nout == 1 && op->out[0]->type.kind == TY_TILE && op->out[0]->type.rank > 0;
    return n + 1;
}

static bool joins_lanes(const Op *loop) {
    for (const Op *op = loop->reg[0]->first; op; op = op->next) if (op_mixes_lanes(op)) return true;
    return false;
}

static bool multiplies(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_dot) return true;
    return false;
}

static int light(const Op *loop, int64_t each) { return each <= LIGHT_EACH && !joins_lanes(loop) ? LIGHTER : 1; }

static int within_work(const Op *loop, int64_t each, int64_t trips, int64_t most) {
    int64_t known = known_trips(loop) / FEW_TRIPS;
    if (far_work(loop) * each * trips > most) trips = most / (far_work(loop) * each);
    return (int)(trips < known ? trips : known);
}

int recurrence_trips(Fn *f, const Op *loop, const CompileOptions *opt) {
    if (loop->code != OP_T_for || loop->reg[0]->last->code != OP_T_yield || !recurs(loop) || !chained(loop) || multiplies(f)) return 0;
    int64_t each = lanes_each(f, opt);
    int trips = within_work(loop, each, FAR * light(loop, each), 2 * MOST_WORK);
    while (trips & (trips - 1)) trips &= trips - 1;
    return trips;
}

static bool collect_far(Far *x, Op *loop, const CompileOptions *opt, Widths *known_widths) {
    Fn *f = x->a.f;
    if (loop->code != OP_T_for || loop->reg[0]->last->code != OP_T_yield || !recurs(loop)) return false;
    if (sequence_possible(f, loop, opt)) return false;
    int64_t most = widths(known_widths, f, opt)->most, each = known_widths->each, words = 0;
    for (Op *op = loop->reg[0]->first; op; op = op->next) {
        if (op->code != OP_T_load || f->launch->params[op->in[0]->def->imm].mode != PM_IN || !of_all_trips(loop, &op->out[0]->type)) continue;
        bool follows = true, moves = false;
        for (int i = 1; i < op->nin && follows; i++) {
            follows = trip_follows(loop, op->in[i]);
            moves |= op->in[i] == loop->reg[0]->args.at[0] || (op->in[i]->def && op->in[i]->def->parent == loop->reg[0]);
        }
        if (!follows || !moves) continue;
        if (x->n == FAR_LOADS) return false;
        int64_t lanes = type_lanes(&op->out[0]->type), own = lanes < most ? (lanes + 31) / 32 : each;
        int bits = elem_bits((Elem)op->out[0]->type.elem);
        words += lanes > 1 ? (own * bits + 31) / 32 : 1;
        x->load[x->n++] = op;
    }
    if (!x->n) return false;
    int more = light(loop, each);
    int64_t far = FAR_WORDS * more / words;
    x->trips = within_work(loop, each, far > FAR * more ? FAR * more : far, MOST_WORK);
    x->a.loop = loop;
    return x->trips > 1;
}

static Val *far_load(Far *x, int i, Val *counter, Op *at) {
    ValMap m = {.arena = x->a.f->arena};
    map_set(&m, x->a.loop->reg[0]->args.at[0], counter);
    return trip_again(x->a.f, x->a.loop, &m, x->load[i]->out[0], at);
}

// The loop's trips, as many at a time as are loaded ahead: what is loaded stays in a register of its own then. A move from one to the next would wait for it.
static void group_of_trips(Far *x, Op *group, Op *yield, Val **carried, Val **slot) {
    Fn *f = x->a.f;
    Op *loop = x->a.loop;
    const Region *body = loop->reg[0];
    Builder b = {f, NULL, yield, loop->span};
    Val *counter = group->reg[0]->args.at[0], *step = loop->in[2];
    for (int k = 0; k < x->trips; k++) {
        ValMap m = {.arena = f->arena};
        map_set(&m, body->args.at[0], k ? b_binary(&b, OP_add, counter, b_binary(&b, OP_mul, step, b_const(&b, EL_index, k))) : counter);
        for (int i = 0; i < loop->nout; i++) map_set(&m, body->args.at[1 + i], carried[i]);
        for (int i = 0; i < x->n; i++) map_set(&m, x->load[i]->out[0], slot[i * x->trips + k]);
        for (const Op *op = body->first; op != body->last; op = op->next)
            if (op->nout != 1 || map_get(&m, op->out[0]) == op->out[0]) op_before(yield, op_clone(f, op, &m));
        for (int i = 0; i < loop->nout; i++) carried[i] = map_get(&m, body->last->in[i]);
        Val *later = b_binary(&b, OP_add, counter, b_binary(&b, OP_mul, step, b_const(&b, EL_index, x->trips + k)));
        for (int i = 0; i < x->n; i++) slot[i * x->trips + k] = far_load(x, i, later, yield);
    }
}

static void load_far(Far *x) {
    Fn *f = x->a.f;
    Op *loop = x->a.loop;
    int n = x->trips, more = x->n * n, nout = loop->nout + more;
    Builder out = {f, NULL, loop, loop->span};
    Val *lo = loop->in[0], *step = loop->in[2], *stride = b_binary(&out, OP_mul, step, b_const(&out, EL_index, n));
    Val *groups = b_binary(&out, OP_div, b_binary(&out, OP_sub, loop->in[1], lo), stride);
    groups = b_op(&out, OP_T_fun, TF_max, type_scalar(EL_index), 2, (Val *[]){groups, b_const(&out, EL_index, 0)});
    Val *mid = b_binary(&out, OP_add, lo, b_binary(&out, OP_mul, groups, stride));
    Val **in = NEW_N(f->arena, Val *, 3 + nout), **now = NEW_N(f->arena, Val *, nout);
    in[0] = lo, in[1] = mid, in[2] = stride;
    for (int i = 0; i < loop->nout; i++) in[3 + i] = loop->in[3 + i];
    for (int k = 0; k < n; k++) {
        Val *at = k ? b_binary(&out, OP_add, lo, b_binary(&out, OP_mul, step, b_const(&out, EL_index, k))) : lo;
        for (int i = 0; i < x->n; i++) in[3 + loop->nout + i * n + k] = far_load(x, i, at, loop);
    }
    fn_note(f, loop->span, "%d tile%s loaded %d trips ahead: each trip goes on from the one before", x->n, x->n == 1 ? "" : "s", n);
    Op *group = op_new(f, OP_T_for, loop->span, 3 + nout, in, nout), *yield = op_new(f, OP_T_yield, loop->span, 0, NULL, 0);
    Region *r = group->reg[0];
    region_arg(f, r, type_scalar(EL_index))->name = loop->reg[0]->args.at[0]->name;
    op_before(loop, group);
    op_append(r, yield);
    for (int i = 0; i < nout; i++) {
        group->out[i]->type = in[3 + i]->type;
        now[i] = region_arg(f, r, in[3 + i]->type);
        now[i]->name = i < loop->nout ? loop->reg[0]->args.at[1 + i]->name : x->load[(i - loop->nout) / n]->out[0]->name;
    }
    group_of_trips(x, group, yield, now, now + loop->nout);
    for (int i = 0; i < nout; i++) op_add_operand(f, yield, now[i]);
    loop->in[0] = mid;                                         // what is left of it
    for (int i = 0; i < loop->nout; i++) loop->in[3 + i] = group->out[i];
}

static bool loops(Fn *f, Region *r, const CompileOptions *opt, Widths *w) {
    bool changed = false;
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nreg; i++) changed |= loops(f, op->reg[i], opt, w);
        Ahead a = {.f = f, .loop = op};
        Far far = {.a = a};
        if (collect(&a, opt, w)) {
            rewrite(&a);
            op = a.loop;
        } else if (collect_far(&far, op, opt, w)) {
            load_far(&far);
        } else continue;
        *w = (Widths){0};
        changed = true;
    }
    return changed;
}

bool prefetch(Fn *f, const CompileOptions *opt) {
    Widths w = {0};
    return opt->schedule.stages != 1 && loops(f, &f->body, opt, &w);
}

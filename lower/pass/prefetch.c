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
// Loops of products have rings of their own (pipeline.c, hopper.c), and loops that only add up are left to the other
// warps: their trips do not wait, unless the row that they keep (keep.c) leaves room for few warps. --with=stages=1
// leaves all loops alone.
#include "lower/build.h"
#include "lower/pass/passes.h"
#include "lower/pass/trips.h"

enum { MOST_BYTES = 32768, MAX_LOADS = 4 };      // carried by a program: 32 registers in 8 warps

typedef struct Ahead {
    Fn  *f;
    Op  *loop;
    Op  *load[MAX_LOADS];
    Val *axis[MAX_LOADS];              // of the trip, in the type of load[i]
    int  n;
} Ahead;

// The one axis of the load that is made in each trip, from its counter; NULL: there is none, or more.
static Val *trips_axis(const Ahead *a, const Op *load) {
    const Region *body = a->loop->reg[0];
    const Type *t = &load->out[0]->type;
    Val *found = NULL;
    for (int i = 0; i < t->rank; i++) {
        if (t->axis[i]->def->parent != body) continue;
        if (found || t->axis[i]->def->in[0] != body->args.at[0]) return NULL;
        found = t->axis[i];
    }
    return found;
}

// The trip needs the reduction's result: not only to carry it on, which can wait for the loop's end (the pass `defer`).
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

static bool collect(Ahead *a) {
    Region *body = a->loop->reg[0];
    int64_t bytes = 0;
    bool waits = false;
    if (a->loop->code != OP_T_for || body->last->code != OP_T_yield) return false;
    for (const Op *op = op_walk(body, NULL); op; op = op_walk(body, op))
        if (op->code == OP_T_dot || op->code == OP_T_for || op->code == OP_T_while || op_target(op) == a->loop) return false;
    for (Op *op = body->first; op; op = op->next) {
        waits |= (op->code == OP_T_reduce && needed(a, op)) || op->code == OP_T_scan || op->code == OP_T_keep_put;
        if (op->code != OP_T_load || a->n == MAX_LOADS || a->f->launch->params[op->in[0]->def->imm].mode != PM_IN) continue;
        Val *axis = trips_axis(a, op);
        bool known = axis != NULL;
        for (int i = 0; i < op->nin && known; i++) known = trip_follows(a->loop, op->in[i]);
        int64_t size = type_lanes(&op->out[0]->type) * elem_bytes((Elem)op->out[0]->type.elem);
        if (!known || bytes + size > MOST_BYTES) continue;
        bytes += size;
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

static bool loops(Fn *f, Region *r) {
    bool changed = false;
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nreg; i++) changed |= loops(f, op->reg[i]);
        Ahead a = {.f = f, .loop = op};
        if (!collect(&a)) continue;
        rewrite(&a);
        op = a.loop;
        changed = true;
    }
    return changed;
}

bool prefetch(Fn *f, const CompileOptions *opt) { return opt->schedule.stages != 1 && loops(f, &f->body); }

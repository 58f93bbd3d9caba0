// merge: how what a loop carries becomes one again when its trips were run in parts.
//
//     for n in N by B merge |x, y| (..) { .. }        %t, %d = for ..                          the loop, as if there were no parts
//                                                     %T, %D = merge %t, %d (%xt, %xd, %yt, %yd) { ..  yield .. }
//
// The op stands behind the loop and says nothing while the loop is whole: its results are its operands. Whoever takes the
// loop apart (split_k.c, among programs) has the region to put the parts together with, from left to right, and the op goes;
// the pass `cluster_rows` removes the ones that are left.
//
//     part 0   from what the variables hold before the loop          x0
//     part 1   from the same                                         x1        merge(merge(x0, x1), x2)
//     part 2   has no trips: it is left out
//
// `eval` takes every such loop apart within the program, so that a merge which does not fit its loop gives other results
// there than on a device whose loop is whole.
#include "lower/pass/passes.h"
#include "lower/simplify/simplify.h"

enum { PARTS = 3, MAX_CARRIED = 16 };                          // on eval: enough to tell a merge's sides, and its order

Val *part_length(Builder *b, const Op *loop, int64_t parts) {
    Val *lo = loop->in[0], *hi = loop->in[1], *step = loop->in[2], *one = b_const(b, EL_index, 1);
    Val *trips = b_binary(b, OP_div, b_binary(b, OP_add, b_binary(b, OP_sub, hi, lo), b_binary(b, OP_sub, step, one)), step);
    Val *each = b_binary(b, OP_div, b_binary(b, OP_add, trips, b_const(b, EL_index, parts - 1)),
                         b_const(b, EL_index, parts));
    return b_binary(b, OP_mul, each, step);
}

Op *merge_of(const Op *loop) {
    for (Op *op = loop->next; op; op = op->next)
        for (int i = 0; op->code == OP_T_merge && i < op->nin; i++)
            if (op->in[i]->def == loop) return op;
    return NULL;
}

// The states x and y of two parts, merged; built at b.
static void merge_states(Builder *b, const Op *merge, Val *const *x, Val *const *y, Val **out) {
    const Region *r = merge->reg[0];
    int n = merge->nin;
    ValMap m = {.arena = b->f->arena};
    for (int i = 0; i < n; i++) {
        map_set(&m, r->args.at[i], x[i]);
        map_set(&m, r->args.at[n + i], y[i]);
    }
    for (const Op *op = r->first; op != r->last; op = op->next) b_insert(b, op_clone(b->f, op, &m));
    for (int i = 0; i < n; i++) out[i] = map_get(&m, r->last->in[i]);
}

// Merging may be done for nothing: no op of it can trap, or has anything but its value to show. Not with integers, whose
// ranges are asked for (facts.c): each select names what the one before it gives twice, and a chain of them takes forever.
static bool is_total(const Op *merge) {
    for (int i = 0; i < merge->nin; i++) if (elem_is_int((Elem)merge->in[i]->type.elem)) return false;
    for (const Op *op = merge->reg[0]->first; op != merge->reg[0]->last; op = op->next) {
        bool divides = op->code == OP_T_binary && (op->sub == OP_div || op->sub == OP_rem) &&
                       !elem_is_float((Elem)op->out[0]->type.elem);
        if (!op_has(op, 'P') || divides) return false;
    }
    return true;
}

// x where `there` is false, else x and y merged: a part that has no trips is left out. By selects, where it may be: several
// merges, one after another, then overlap.
void merge_if(Builder *b, const Op *merge, Val *there, Val *const *x, Val *const *y, Val **out) {
    int n = merge->nin;
    Val *both[MAX_CARRIED];
    if (is_total(merge)) {
        merge_states(b, merge, x, y, both);
        for (int i = 0; i < n; i++) out[i] = b_op(b, OP_T_select, 0, merge->in[i]->type, 3, (Val *[]){there, both[i], x[i]});
        return;
    }
    Op *branch = op_new(b->f, OP_T_if, merge->span, 1, &there, n);
    Builder yes = {b->f, branch->reg[0], NULL, merge->span}, no = {b->f, branch->reg[1], NULL, merge->span};
    for (int i = 0; i < n; i++) branch->out[i]->type = merge->in[i]->type;
    merge_states(&yes, merge, x, y, both);
    b_insert(&yes, op_new(b->f, OP_T_yield, merge->span, n, both, 0));
    b_insert(&no, op_new(b->f, OP_T_yield, merge->span, n, x, 0));
    b_insert(b, branch);
    for (int i = 0; i < n; i++) out[i] = branch->out[i];
}

static bool leaves(const Op *op, const Op *loop) {
    const Op *to = op_target(op);
    return to && !op_inside(to, loop->reg[0]);
}

bool has_effect(const Op *op) { return op_has(op, 'W') || op_has(op, 'S') || op_has(op, 'A'); }

const char *trips_bound(const Op *loop) {
    const Region *r = loop->reg[0];
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) {
        if (leaves(op, loop)) return "the loop may end early";
        if (has_effect(op)) return "the loop stores, or has another effect";
    }
    return r->last->code == OP_T_yield ? NULL : "the loop may end early";
}

const char *merge_refusal(const Op *merge) {
    if (merge->nin > MAX_CARRIED) return "the loop carries too much";
    for (const Op *op = op_walk(merge->reg[0], NULL); op; op = op_walk(merge->reg[0], op))
        if (has_effect(op)) return "merging stores, or has another effect";
    return NULL;
}

// ---- all merges of a function ------------------------------------------------------------------------

typedef VEC(Op *) Ops;

static Ops merges(Fn *f) {
    Ops v = {0};
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_merge) vec_push(f->arena, &v, op);
    return v;
}

void merge_becomes(Fn *f, Op *merge, Val *const *values) {
    for (int i = 0; i < merge->nout; i++) replace_uses(&f->body, merge->out[i], values[i]);
    op_remove(merge);
}

bool merge_drop(Fn *f) {
    Ops v = merges(f);
    for (uint32_t i = 0; i < v.n; i++) merge_becomes(f, v.at[i], v.at[i]->in);
    return v.n > 0;
}

static Op *loop_before(const Op *merge) {
    for (int i = 0; i < merge->nin; i++) {
        Op *d = merge->in[i]->def;
        if (d && d->code == OP_T_for && d->parent == merge->parent) return d;
    }
    return NULL;
}

// The loop over the trips of one part, before the merge; its results where the merge has the whole loop's.
static void part_of(Fn *f, Op *merge, const Op *loop, Val *from, Val *to, Val **out) {
    ValMap m = {.arena = f->arena};
    Op *c = op_clone(f, loop, &m);
    c->in[0] = from;
    c->in[1] = to;
    op_before(merge, c);
    for (int i = 0; i < merge->nin; i++) out[i] = map_get(&m, merge->in[i]);
}

static void apart(Fn *f, Op *merge, Op *loop) {
    Builder b = {f, NULL, merge, loop->span};
    Val *hi = loop->in[1], *share, *from = loop->in[0], *to, *state[MAX_CARRIED], *next[MAX_CARRIED];
    share = part_length(&b, loop, PARTS);
    for (int p = 0; p < PARTS; p++) {
        to = b_op(&b, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){hi, b_binary(&b, OP_add, from, share)});
        part_of(f, merge, loop, from, to, p ? next : state);
        if (p) merge_if(&b, merge, b_binary(&b, OP_lt, from, hi), state, next, state);
        from = b_binary(&b, OP_add, from, share);
    }
    merge_becomes(f, merge, state);
}

void merge_apart(Fn *f) {
    Ops v = merges(f);
    for (uint32_t i = 0; i < v.n; i++) {
        Op *loop = loop_before(v.at[i]);
        if (!loop || trips_bound(loop) || merge_refusal(v.at[i])) merge_becomes(f, v.at[i], v.at[i]->in);
        else apart(f, v.at[i], loop);
    }
    remove_dead(f);
}

// Products of f32 whose operands hold an infinity, or nearly one.
//
// Tensor cores multiply numbers of tf32, so f32 goes in two parts: x = high + low, and a b ~ al bh + ah bl + ah bh. The low part of
// an infinity is inf - inf, and a high part that is infinite meets low parts that are 0: sums that are infinite in f32 come out NaN.
// A single product (prec = tf32) rounds its operands, and what is within 2^-12 of the largest number becomes infinite.
//
// Both leave a trace that sums keep to their end: NaN with parts, NaN or an infinity with one product. So the loop stays as it is,
// and behind it the program asks once for its whole tile. If a trace is there, the tile is computed again in f32:
//
//     acc = for k0 in 0 .. K by 32 {                acc = for .. as it was ..
//         k = axis k0, K {32}                       fine = reduce.every acc == acc over m, n
//         acc += dot a[m, k], b[n, k]        ->     acc = if fine { acc } else {
//     }                                                 for k in 0 .. K by 1 { acc = fma a[m, k], b[n, k], acc }
//                                                   }
//
// The second loop is short: an element of k at a time, without shared memory, where a and b are loaded again or computed again from
// what is loaded. Sums of products that this cannot be done for (an operand is itself reduced or multiplied, as in attention; the
// result is used in each trip) have parts that infinities survive, at twice the arithmetic of the parts (llvm/mma_sync.c), and are
// for mma.sync. The others are marked `checked`.
//
// Bits of the payload aside, a NaN is then NaN, an infinity an infinity and finite what f32 finds finite.
#include "lower/facts/facts.h"
#include "lower/layout/mma.h"
#include "lower/pass/passes.h"

#include <math.h>

typedef struct Again {
    Fn    *f;
    Op    *loop;                    // of the sums, or NULL: one product by itself
    Val   *start;                   // what they are added to; NULL: 0
    Op    *dot[4];                  // that are added up in a trip, first to last
    int    n;
    Val   *summed[MAX_AXES];        // axes that they contract
    Val   *at[MAX_AXES];            // the number of the element of each that is at work
    int    nsummed;
    Val   *whole;                   // the only one of them, if the loop counts along it and does nothing else with its counter
    ValMap map;                     // what is made for one element of them
    const ValMap *copy;             // a copy of the loop around: its values; or NULL
    uint32_t seen;                  // mark of what is known to be computable again
} Again;

static bool inexact(const Fn *f, const Op *op) {
    MmaChoice c;
    if (op->code != OP_T_dot || op->sub == DP_ieee || op->out[0]->type.elem != EL_f32) return false;
    return op->in[0]->type.elem == EL_f32 && op->in[1]->type.elem == EL_f32 && mma_choose(f->target, op, f->warps, &c);
}

// ---- can it be done again? -----------------------------------------------------------------------

static bool is_summed(const Again *g, const Val *axis) {
    for (int i = 0; i < g->nsummed; i++) if (g->summed[i] == axis) return true;
    return false;
}

// What is outside the loop and has no axis that is summed over is there as it is.
static bool stays(const Again *g, const Val *v) {
    for (int i = 0; v->type.kind == TY_TILE && i < v->type.rank; i++) if (is_summed(g, v->type.axis[i])) return false;
    if (is_summed(g, v)) return false;
    return !g->loop || (v->def ? !op_inside(v->def, g->loop->reg[0]) : v->region != g->loop->reg[0]);
}

static bool stores_to(const Region *r, int64_t param) {
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) {
        if (!op_has(op, 'W') || op->code == OP_T_copy_async) continue;
        if (op->in[0]->type.kind != TY_TENSOR || op->in[0]->def->imm == param) return true;
    }
    return false;
}

static bool repeatable(Again *g, const Val *v) {
    if (stays(g, v)) return true;
    Op *d = v->def;
    if (!d) return v == g->loop->reg[0]->args.at[0];                                  // its counter, but nothing that it carries
    if (d->mark == g->seen) return true;
    if (d->code == OP_T_axis) {
        if (d->nin != 2 || is_summed(g, v)) return d->nin == 2 && repeatable(g, d->in[0]) && repeatable(g, d->in[1]);
    } else if (d->code == OP_T_load) {
        if (d->flags & FROM_16 || d->in[0]->type.kind != TY_TENSOR || (g->loop && stores_to(g->loop->reg[0], d->in[0]->def->imm))) return false;
    } else if (d->code != OP_T_index && d->code != OP_T_live && d->code != OP_T_const && !op_is_elementwise(d)) {
        return false;
    }
    for (int i = 0; i < d->nin; i++) if (!repeatable(g, d->in[i])) return false;
    for (int i = 0; v->type.kind == TY_TILE && i < v->type.rank; i++) if (!repeatable(g, v->type.axis[i])) return false;
    d->mark = g->seen;
    return true;
}

// The products that are added to v in a trip: v is what the trip gives on, arg what it began with.
static bool chain(Again *g, const Val *v, const Val *arg) {
    Op *d = v->def;
    int most = sizeof g->dot / sizeof *g->dot;
    if (v == arg) return g->n > 0;
    if (!d || g->n == most || !inexact(g->f, d) || d->parent != g->loop->reg[0] || !op_acc(d)) return false;
    if (region_uses(g->loop->reg[0], v) != 1 || region_uses(g->loop->reg[0], op_acc(d)) != 1) return false;
    g->dot[g->n++] = d;
    return chain(g, op_acc(d), arg);
}

static bool find_summed(Again *g) {
    for (int i = 0; i < g->n; i++)
        for (int k = op_first_axis(g->dot[i]); k < g->dot[i]->nin; k++) {
            if (is_summed(g, g->dot[i]->in[k])) continue;
            if (g->nsummed == MAX_AXES) return false;
            g->summed[g->nsummed++] = g->dot[i]->in[k];
        }
    for (int i = 0; i < g->n; i++) if (g->dot[i]->nin - op_first_axis(g->dot[i]) != g->nsummed) return false;   // all of them over the same axes
    return true;
}

static bool operands_repeatable(Again *g) {
    for (int i = 0; i < g->nsummed; i++) if (!repeatable(g, g->summed[i])) return false;
    for (int i = 0; i < g->n; i++)
        if (!repeatable(g, g->dot[i]->in[0]) || !repeatable(g, g->dot[i]->in[1])) return false;
    return true;
}

static bool is_number(const Val *v, int64_t n) { return v->def && v->def->code == OP_T_const && v->def->imm == n; }

static void find_whole(Again *g) {
    Val *x = g->nsummed == 1 ? g->summed[0] : NULL;
    if (!x || !g->loop || axis_lo(x) != g->loop->reg[0]->args.at[0] || axis_hi(x) != g->loop->in[1]) return;
    if (is_number(g->loop->in[2], axis_extent(x)) && region_uses(g->loop->reg[0], axis_lo(x)) == 1) g->whole = x;
}

// ---- once more, an element of each summed axis at a time ------------------------------------------

static Val *in_copy(const Again *g, Val *v) { return g->copy ? map_get(g->copy, v) : v; }

static Val *again(Again *g, Builder *b, Val *v) {
    Val *known = map_get(&g->map, v);
    if (known != v) return known;
    if (stays(g, v)) {
        if (in_copy(g, v) != v) map_set(&g->map, v, in_copy(g, v));
        return in_copy(g, v);
    }
    Op *d = v->def;
    for (int i = 0; i < d->nin; i++) if (d->in[i]->type.kind != TY_AXIS || !is_summed(g, d->in[i])) again(g, b, d->in[i]);
    for (int i = 0; v->type.kind == TY_TILE && i < v->type.rank; i++) if (!is_summed(g, v->type.axis[i])) again(g, b, v->type.axis[i]);
    if (d->code == OP_T_live && is_summed(g, d->in[0])) {                             // only live elements are gone through
        map_set(&g->map, v, b_const(b, EL_bool, 1));
        return map_get(&g->map, v);
    }
    Op *c = op_clone(g->f, d, &g->map);
    if (c->out[0]->type.kind == TY_TILE) c->out[0]->type = type_minus(c->out[0]->type, g->nsummed, g->summed);
    if (c->code == OP_T_splat && type_equal(&c->in[0]->type, &c->out[0]->type)) map_set(&g->map, v, c->in[0]);
    else b_insert(b, c);
    return map_get(&g->map, v);
}

// Of a tile that the copy has in its registers: the one element is left by a sum with zeros.
static Val *picked(Again *g, Builder *b, Val *v) {
    Val *over[1 + MAX_AXES], *x = in_copy(g, v), *zero = b_float(b, EL_f32, 0);
    int n = 0;
    for (int i = 0; i < g->nsummed; i++) {
        Val *axis = in_copy(g, g->summed[i]), *index;
        if (type_axis(&v->type, g->summed[i]) < 0) continue;
        over[1 + n++] = axis;
        index = b_op(b, OP_T_index, 0, type_tile(EL_index, 1, &axis), 1, &axis);
        x = b_op(b, OP_T_select, 0, x->type, 3, (Val *[]){b_binary(b, OP_eq, index, g->at[i]), x, zero});
    }
    over[0] = x;
    return b_op(b, OP_T_reduce, TR_sum, type_minus(x->type, n, over + 1), 1 + n, over);
}

static Val *element(Again *g, Builder *b, Val *v) { return repeatable(g, v) ? again(g, b, v) : picked(g, b, v); }

static Val *add_products(Again *g, Builder *b, Val *acc) {
    for (int i = g->n - 1; i >= 0; i--) {
        Val *in[3] = {element(g, b, g->dot[i]->in[0]), element(g, b, g->dot[i]->in[1]), acc};
        acc = b_op(b, OP_T_fun, TF_fma, acc->type, 3, in);
    }
    return acc;
}

static Op *loop_of(Again *g, Builder *b, Val *lo, Val *hi, Val *step, Val *acc, Builder *in, Val **counter, Val **arg) {
    Op *loop = op_new(g->f, OP_T_for, b->span, 4, (Val *[]){lo, hi, step, acc}, 1);
    loop->flags |= REPEATS;
    loop->out[0]->type = acc->type;
    loop->out[0]->name = acc->name;
    *counter = region_arg(g->f, loop->reg[0], lo->type);
    *arg = region_arg(g->f, loop->reg[0], acc->type);
    b_insert(b, loop);
    *in = (Builder){g->f, loop->reg[0], NULL, b->span};
    return loop;
}

static void yield_one(Builder *b, Val *v) { b_insert(b, op_new(b->f, OP_T_yield, b->span, 1, &v, 0)); }

// The index tiles of the axis are the counter's number.
static void counts_along(Again *g, int i, Val *counter) {
    const Val *axis = g->summed[i];
    g->at[i] = counter;
    for (Op *op = op_walk(&g->f->body, NULL); op; op = op_walk(&g->f->body, op))
        if (op->code == OP_T_index && op->in[0] == axis) map_set(&g->map, op->out[0], counter);
}

static Val *over_summed(Again *g, Builder *b, int i, Val *acc) {
    if (i == g->nsummed) return add_products(g, b, acc);
    Val *x = g->summed[i], *counter, *arg;
    Val *lo = again(g, b, axis_lo(x)), *hi = again(g, b, axis_hi(x)), *last = b_binary(b, OP_add, lo, b_const(b, EL_index, axis_extent(x)));
    Builder in;
    hi = b_op(b, OP_T_fun, TF_min, hi->type, 2, (Val *[]){hi, last});
    Op *loop = loop_of(g, b, lo, hi, b_const(b, EL_index, 1), acc, &in, &counter, &arg);
    counts_along(g, i, counter);
    yield_one(&in, over_summed(g, &in, i + 1, arg));
    return loop->out[0];
}

static Val *all_again(Again *g, Builder *b, Val *start) {
    Val *counter, *arg;
    Builder in;
    if (!g->loop) return over_summed(g, b, 0, start);
    Val *step = g->whole ? b_const(b, EL_index, 1) : g->loop->in[2];
    Op *loop = loop_of(g, b, g->loop->in[0], g->loop->in[1], step, start, &in, &counter, &arg);
    if (g->whole) counts_along(g, 0, counter);
    else map_set(&g->map, g->loop->reg[0]->args.at[0], counter);
    yield_one(&in, g->whole ? add_products(g, &in, arg) : over_summed(g, &in, 0, arg));
    return loop->out[0];
}

// ---- and the question ----------------------------------------------------------------------------

// Of all lanes. Groups of warps that have rows of their own may each ask for theirs (specialize/consumer_groups.c).
static Val *every_lane(Builder *b, Val *fine) {
    Val *over[1 + MAX_AXES] = {fine}, *all;
    for (int i = 0; i < fine->type.rank; i++) over[1 + i] = fine->type.axis[i];
    if (!fine->type.rank) return fine;
    all = b_op(b, OP_T_reduce, TR_every, type_scalar(EL_bool), 1 + fine->type.rank, over);
    all->def->flags |= CHECKED;
    return all;
}

// parts: loops whose sums go on in one another, the last one first.
static Val *is_fine(const Again *part, int n, Builder *b, Val *acc) {
    bool in_parts = true;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < part[k].n; i++) in_parts &= part[k].dot[i]->sub != DP_tf32;
    if (in_parts) return every_lane(b, b_binary(b, OP_eq, acc, acc));
    Val *size = b_op(b, OP_T_fun, TF_abs, acc->type, 1, &acc);
    return every_lane(b, b_binary(b, OP_lt, size, b_float(b, EL_f32, INFINITY)));
}

static void use_behind(Op *op, Val *from, Val *to) {
    for (op = op->next; op; op = op->next) {
        for (int i = 0; i < op->nin; i++) if (op->in[i] == from) op->in[i] = to;
        for (int i = 0; i < op->nreg; i++) replace_uses(op->reg[i], from, to);
    }
}

// A tile that the sums start with would have to be kept beside them. It is made again, if it is made of loads and arithmetic.
static bool can_remake(const Fn *f, const Val *v) {
    const Op *d = v->def;
    if (v->type.kind != TY_TILE || !v->type.rank) return true;
    if (!d || !(d->code == OP_T_load || d->code == OP_T_index || d->code == OP_T_live || op_is_elementwise(d))) return false;
    if (d->code == OP_T_load && (d->flags & FROM_16 || stores_to(&f->body, d->in[0]->def->imm))) return false;
    for (int i = 0; i < d->nin; i++) if (!can_remake(f, d->in[i])) return false;
    return true;
}

static Val *remake(Builder *b, ValMap *map, Val *v) {
    if (v->type.kind != TY_TILE || !v->type.rank || map_get(map, v) != v) return map_get(map, v);
    for (int i = 0; i < v->def->nin; i++) remake(b, map, v->def->in[i]);
    b_insert(b, op_clone(b->f, v->def, map));
    return map_get(map, v);
}

static Val *start_of(const Again *g, Builder *b, const Type *t) {
    ValMap map = {.arena = g->f->arena};
    Val *start = g->start ? remake(b, &map, g->start) : b_float(b, EL_f32, 0);
    return type_equal(&start->type, t) ? start : b_op(b, OP_T_splat, 0, *t, 1, &start);
}

static void mend(Again *part, int n, Op *at, Val *acc) {
    Fn *f = part->f;
    Builder b = {f, NULL, at->next, at->span};
    Val *fine = is_fine(part, n, &b, acc);
    Op *branch = op_new(f, OP_T_if, at->span, 1, &fine, 1);
    branch->out[0]->type = acc->type;
    branch->out[0]->name = acc->name;
    b_insert(&b, branch);
    Builder as_it_is = {f, branch->reg[0], NULL, at->span}, slow = {f, branch->reg[1], NULL, at->span};
    yield_one(&as_it_is, acc);
    Val *sum = start_of(&part[n - 1], &slow, &acc->type);
    for (int k = n - 1; k >= 0; k--) {
        find_whole(&part[k]);
        sum = all_again(&part[k], &slow, sum);
        for (int i = 0; i < part[k].n; i++) part[k].dot[i]->flags |= CHECKED;
    }
    yield_one(&slow, sum);
    use_behind(branch, acc, branch->out[0]);
}

// What the loop ends with as those behind it have it, who may have said how its parts are merged.
static Val *left_by(const Op *loop, int i) {
    const Op *merge = merge_of(loop);
    for (int k = 0; merge && k < merge->nin; k++) if (merge->in[k] == loop->out[i]) return merge->out[k];
    return loop->out[i];
}

static Op *last_of(Op *loop) { return merge_of(loop) ? merge_of(loop) : loop; }

enum { MOST_LOOPS = 4 };

// Can the i-th sum of a loop, and those that it starts with, be computed again? Then `part` has how.
static bool can_mend(Fn *f, Op *loop, int i, Again *part, int *n, uint32_t *seen) {
    if (*n == MOST_LOOPS || region_leaves_early(loop->reg[0])) return false;
    Again *g = &part[(*n)++];
    *g = (Again){.f = f, .loop = loop, .start = loop->in[3 + i], .map.arena = f->arena, .seen = ++*seen};
    if (!chain(g, loop->reg[0]->last->in[i], loop->reg[0]->args.at[1 + i]) || !find_summed(g) || !operands_repeatable(g)) return false;
    if (can_remake(f, g->start)) return true;
    Op *before = g->start->def;
    if (!before || before->code != OP_T_for || before->parent != loop->parent || region_uses(&f->body, g->start) != 1) return false;
    for (int k = 0; k < before->nout; k++) if (before->out[k] == g->start) return can_mend(f, before, k, part, n, seen);
    return false;
}

// Another loop goes on with this sum, and is mended with it.
static bool goes_on(Fn *f, const Val *sum, uint32_t *seen) {
    Again part[MOST_LOOPS];
    for (Op *op = sum->def->next; op; op = op->next)
        for (int i = 3, n = 0; op->code == OP_T_for && i < op->nin; i++)
            if (op->in[i] == sum && can_mend(f, op, i - 3, part, &n, seen) && n > 1) return true;
    return false;
}

static void mend_loop(Fn *f, Op *loop, uint32_t *seen) {
    for (int i = loop->nout - 1; i >= 0; i--) {
        Again part[MOST_LOOPS];
        int n = 0;
        if (can_mend(f, loop, i, part, &n, seen) && !goes_on(f, loop->out[i], seen)) mend(part, n, last_of(loop), left_by(loop, i));
    }
}

// No loop around has products besides: it would ask in each of its trips.
static bool alone(const Fn *f, const Op *op) {
    for (const Op *out = op->parent->owner; out; out = out->parent->owner)
        for (int i = 0; out->code != OP_T_if && i < out->nreg; i++)
            for (const Op *x = op_walk(out->reg[i], NULL); x; x = op_walk(out->reg[i], x))
                if (inexact(f, x) && !(op->nreg && op_inside(x, op->reg[0]))) return false;
    return true;
}

// ---- the whole loop again --------------------------------------------------------------------------

// NaN in, NaN out: whatever the other operands are. Choices that the value itself does not make drop what they drop.
static bool keeps_nan(const Op *op, const uint8_t *traced) {
    static const uint8_t funs[TF_COUNT] = {[TF_exp] = 1, [TF_exp2] = 1, [TF_log] = 1, [TF_log2] = 1, [TF_sqrt] = 1, [TF_rsqrt] = 1, [TF_tanh] = 1,
                                           [TF_abs] = 1, [TF_min] = 1, [TF_max] = 1, [TF_fma] = 1, [TF_div_rn] = 1, [TF_sqrt_rn] = 1};
    static const uint8_t reduces[TR_COUNT] = {[TR_sum] = 1, [TR_prod] = 1, [TR_max] = 1, [TR_min] = 1};
    switch (op->code) {
    case OP_T_unary: case OP_T_splat: case OP_T_rename: case OP_T_yield: case OP_T_dot: return true;
    case OP_T_binary: return op->sub == OP_add || op->sub == OP_sub || op->sub == OP_mul || op->sub == OP_div;
    case OP_T_select: return !traced[op->in[0]->id];
    case OP_T_cast: return elem_is_float((Elem)op->out[0]->type.elem);
    case OP_T_fun: return funs[op->sub];
    case OP_T_reduce: case OP_T_scan: return reduces[op->sub];
    default: return false;
    }
}

static bool in_parts(const Fn *f, const Op *op) { return inexact(f, op) && op->sub != DP_tf32; }

// Marks what a NaN of the loop's products in parts reaches, round after round of what is carried. False: it may be lost on the way.
static bool trace(const Fn *f, const Op *loop, uint8_t *traced) {
    const Region *body = loop->reg[0];
    for (bool more = true; more;) {
        more = false;
        for (const Op *op = body->first; op; op = op->next) {
            bool reached = in_parts(f, op);
            for (int i = 0; i < op->nin; i++) reached |= traced[op->in[i]->id];
            if (!reached) continue;
            if (!keeps_nan(op, traced)) return false;
            for (int i = 0; i < op->nout; i++) traced[op->out[i]->id] = 1;
            for (int i = 0; op == body->last && i < op->nin; i++) {
                if (!traced[op->in[i]->id] || traced[body->args.at[1 + i]->id]) continue;
                traced[body->args.at[1 + i]->id] = traced[loop->out[i]->id] = 1;
                more = true;
            }
        }
    }
    return true;
}

static bool only_computes(const Op *loop) {
    for (const Op *op = loop->reg[0]->first; op; op = op->next)
        if (op->nreg || !(op_has(op, 'P') || op->code == OP_T_load || op->code == OP_T_yield)) return false;
    return true;
}

static int products_in_parts(const Fn *f, const Op *loop, bool checked) {
    int n = 0;
    for (const Op *op = loop->reg[0]->first; op; op = op->next) n += in_parts(f, op) && (checked || !(op->flags & CHECKED));
    return n;
}

static Val *no_nan(Builder *b, const Op *loop, const uint8_t *traced) {
    Val *fine = NULL;
    for (int i = 0; i < loop->nout; i++) {
        Val *v = left_by(loop, i), *every;
        if (!traced[loop->out[i]->id]) continue;
        every = every_lane(b, b_binary(b, OP_eq, v, v));
        fine = fine ? b_binary(b, OP_and, fine, every) : every;
    }
    return fine;
}

static Val *product_again(Fn *f, Builder *b, Op *dot, const ValMap *copy, uint32_t *seen) {
    Again g = {.f = f, .dot = {dot}, .n = 1, .map.arena = f->arena, .copy = copy, .seen = ++*seen};
    Val *start = op_acc(dot) ? map_get(copy, op_acc(dot)) : b_float(b, EL_f32, 0);
    Type t = map_type(copy, dot->out[0]->type);
    find_summed(&g);
    if (!type_equal(&start->type, &t)) start = b_op(b, OP_T_splat, 0, t, 1, &start);
    return over_summed(&g, b, 0, start);
}

static void remove_unused(Region *r) {
    for (Op *op = r->last, *before; op; op = before) {
        bool used = op->code == OP_T_yield;
        before = op->prev;
        for (int i = 0; i < op->nout; i++) used |= val_used(r, op->out[i]);
        if (!used) op_remove(op);
    }
}

static Op *copy_of(Fn *f, Op *loop, uint32_t *seen) {
    Op *copy = op_new(f, OP_T_for, loop->span, loop->nin, loop->in, loop->nout);
    ValMap map = {.arena = f->arena};
    Builder b = {f, copy->reg[0], NULL, loop->span};
    copy->flags |= REPEATS;
    for (int i = 0; i < loop->nout; i++) copy->out[i]->type = loop->out[i]->type;
    for (uint32_t i = 0; i < loop->reg[0]->args.n; i++) {
        Val *arg = loop->reg[0]->args.at[i];
        map_set(&map, arg, region_arg(f, copy->reg[0], arg->type));
    }
    for (Op *op = loop->reg[0]->first; op; op = op->next) {
        if (in_parts(f, op)) map_set(&map, op->out[0], product_again(f, &b, op, &map, seen));
        else b_insert(&b, op_clone(f, op, &map));
    }
    remove_unused(copy->reg[0]);
    return copy;
}

// Sums whose operands are made of other products, as attention's: NaN that the loop ends with sends the program through a copy of it, whose
// products are sums of multiply-adds.
static void repeat_loop(Fn *f, Op *loop, uint32_t *seen) {
    int n = products_in_parts(f, loop, true);
    if (!n || products_in_parts(f, loop, false) != n || !only_computes(loop)) return;
    uint8_t *traced = NEW_N(f->arena, uint8_t, f->nvals);
    if (!trace(f, loop, traced)) return;
    Builder b = {f, NULL, last_of(loop)->next, loop->span};
    Val *fine = no_nan(&b, loop, traced);
    if (!fine) return;
    Op *branch = op_new(f, OP_T_if, loop->span, 1, &fine, loop->nout), *copy = copy_of(f, loop, seen);
    b_insert(&b, branch);
    Op *as_it_is = op_new(f, OP_T_yield, loop->span, loop->nout, loop->out, 0);
    for (int i = 0; i < loop->nout; i++) as_it_is->in[i] = left_by(loop, i);
    op_append(branch->reg[0], as_it_is);
    op_append(branch->reg[1], copy);
    op_append(branch->reg[1], op_new(f, OP_T_yield, loop->span, copy->nout, copy->out, 0));
    for (int i = 0; i < loop->nout; i++) {
        branch->out[i]->type = loop->out[i]->type;
        branch->out[i]->name = loop->out[i]->name;
        use_behind(branch, left_by(loop, i), branch->out[i]);
    }
    for (Op *op = loop->reg[0]->first; op; op = op->next) if (in_parts(f, op)) op->flags |= CHECKED;
}

static bool in_loop(const Region *r) {
    for (; r->owner; r = r->owner->parent) if (r->owner->code != OP_T_if) return true;
    return false;
}

static void mend_region(Fn *f, Region *r, uint32_t *seen) {
    for (Op *op = r->first; op; op = op->next) {
        if (op->flags & REPEATS) continue;
        if (op->code == OP_T_for && alone(f, op)) mend_loop(f, op, seen);
        for (int i = 0; i < op->nreg; i++) mend_region(f, op->reg[i], seen);
        if (in_loop(r) || !inexact(f, op) || (op_acc(op) && !can_remake(f, op_acc(op)))) continue;
        Again g = {.f = f, .start = op_acc(op), .dot = {op}, .n = 1, .map.arena = f->arena, .seen = ++*seen};
        if (find_summed(&g) && operands_repeatable(&g)) mend(&g, 1, op, op->out[0]);
    }
}

static void repeat_region(Fn *f, Region *r, uint32_t *seen) {
    for (Op *op = r->first; op; op = op->next) {
        if (op->code == OP_T_for && !(op->flags & REPEATS)) repeat_loop(f, op, seen);
        for (int i = 0; op->code == OP_T_if && i < op->nreg; i++) repeat_region(f, op->reg[i], seen);
    }
}

bool infinities(Fn *f) {
    uint32_t seen = 0;
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) op->mark = 0;
    mend_region(f, &f->body, &seen);
    repeat_region(f, &f->body, &seen);
    return seen > 0;
}

// Lanes are joined once, after the loop.
//
//     den = 0                                          den = 0
//     for ... {                                        for ... {
//         den = den * r + sum(p over n)     ->             den = den * r + sum(p over n) {attr 1}
//     }                                                }
//                                                      den = join_lanes den
//
// A sum adds up what a lane holds, then goes across lanes by shuffles (and across warps through shared memory and a
// barrier). A sum of sums may wait with the second half: each lane carries its own part through the loop, and parts are
// joined when somebody asks for the whole. Multiplying by a factor that all parts share, as an online softmax does,
// commutes with that; so the value on its way round may be made of
//
//     0, a sum, the carried value itself, a + b, a * whole, fma(a, whole, b), and both ends of a branch
//
// of which each is used once. Values before the loop are made of the same, without the carried value. For a maximum or
// minimum it is max(a, b), and any whole value is as good as a part. All have one layout, in which the lanes of a row
// are replicas of each other: those are the lanes that hold parts meanwhile. On `eval`, which has no lanes, the first
// part is the whole and join_lanes changes nothing. Each part has its order, so results are the same from run to run.
//
// What a trip reads the carried value for, as an online softmax reads its maximum, needs the whole, and is left alone.
#include "lower/layout/layout.h"
#include "lower/pass/passes.h"
#include "lower/simplify/simplify.h"

#include <string.h>

enum { MOST_SUMS = 16 };

typedef struct Defer {
    Fn     *f;
    Op     *loop;
    Val    *arg;                     // the carried value, inside
    TReduce kind;                    // sum, max or min
    Op     *sum[MOST_SUMS];
    int     nsums, args;             // reductions found, and visits of arg
    int64_t lanes;                   // lane bits, and warp bits above them, that they join
    const uint32_t *uses;            // of each value, by Val.id, as operands
} Defer;

static int64_t joined_lanes(const Op *red) {
    const Val *x = red->in[0];
    const Layout *l = x->layout;
    uint32_t reduced = 0;
    int64_t mask = 0;
    for (int i = 1; i < red->nin; i++) {
        int pos = type_axis(&x->type, red->in[i]);
        reduced |= (uint32_t)((((uint64_t)1 << l->bits[pos]) - 1) << l->off[pos]);
    }
    for (int i = 0; i < LANE_BITS; i++) if (l->lane[i] & reduced) mask |= INT64_C(1) << i;
    for (int i = 0; i < l->nwarp; i++) if (l->warp[i] & reduced) mask |= INT64_C(1) << (LANE_BITS + i);
    return mask;
}

static bool same_lanes(const Val *a, const Val *b) {         // numbers have no layout
    return a->layout && b->layout ? layout_equal(a->layout, b->layout) : !a->layout && !b->layout;
}

static bool is_zero(const Val *v) {
    const Op *d = v->def;
    while (d && d->code == OP_T_splat) d = d->in[0]->def;
    return d && d->code == OP_T_const && d->imm == 0;
}

static bool in_parts(Defer *s, const Val *v, const Region *scope);

// One of two factors is in parts, the other one whole.
static bool scaled(Defer *s, const Op *op, const Region *scope) {
    for (int i = 0; i < 2; i++) {
        Defer before = *s;
        if (in_parts(s, op->in[i], scope)) return true;
        *s = before;
    }
    return false;
}

static bool branches(Defer *s, const Op *op, const Val *v, const Region *scope) {
    for (int i = 0; i < op->nout; i++)
        if (op->out[i] == v)
            return op->reg[0]->last->code == OP_T_yield && op->reg[1]->last->code == OP_T_yield &&
                   in_parts(s, op->reg[0]->last->in[i], scope) && in_parts(s, op->reg[1]->last->in[i], scope);
    return false;
}

// v can be held in parts. `scope`: the loop's body, or NULL before it.
static bool in_parts(Defer *s, const Val *v, const Region *scope) {
    bool sum = s->kind == TR_sum;
    if (v == s->arg) { s->args++; return true; }
    Op *d = v->def;
    if (sum && is_zero(v)) return true;
    if (!d || s->uses[v->id] != 1 || !same_lanes(v, s->arg) || (scope && !op_inside(d, scope))) return !sum;
    switch (d->code) {
    case OP_T_reduce:
        if (d->sub != s->kind || d->attr || s->nsums == MOST_SUMS) return !sum;
        if (s->nsums && joined_lanes(d) != s->lanes) return !sum;
        s->lanes = joined_lanes(d);
        s->sum[s->nsums++] = d;
        return true;
    case OP_T_binary:
        if (sum && d->sub == OP_mul) return scaled(s, d, scope);
        return sum ? d->sub == OP_add && in_parts(s, d->in[0], scope) && in_parts(s, d->in[1], scope) : true;
    case OP_T_fun:
        if (sum) return d->sub == TF_fma && scaled(s, d, scope) && in_parts(s, d->in[2], scope);
        return d->sub == (s->kind == TR_max ? TF_max : TF_min)
                   ? in_parts(s, d->in[0], scope) && in_parts(s, d->in[1], scope)
                   : true;
    case OP_T_if:
        return branches(s, d, v, scope);
    default:
        return !sum;
    }
}

// numbers that lanes exchange as they are, and maxima of storage floats
static bool folds(const Type *t, TReduce kind) {
    Elem e = (Elem)t->elem;
    bool number = e == EL_f32 || e == EL_f64 || e == EL_i32 || e == EL_u32 || e == EL_i64 || e == EL_u64;
    return t->kind == TY_TILE && !t->ptr && (number || (kind != TR_sum && elem_is_storage(e)));
}

static bool defer_value(Fn *f, const uint32_t *uses, Op *loop, int i, TReduce kind) {
    Region *body = loop->reg[0];
    Defer s = {.f = f, .loop = loop, .arg = body->args.at[1 + i], .kind = kind, .uses = uses};
    if (!folds(&s.arg->type, kind) || body->last->code != OP_T_yield) return false;
    if (!in_parts(&s, body->last->in[i], body) || !s.nsums || s.args != (int)uses[s.arg->id] || !s.lanes) return false;
    if (!in_parts(&s, loop->in[3 + i], NULL)) return false;
    if (!same_lanes(loop->out[i], s.arg)) return false;
    for (int k = 0; k < s.nsums; k++) s.sum[k]->attr = 1;
    fn_note(f, loop->span, "each lane keeps its own %s until the loop ends",
            kind == TR_sum   ? "sum"
            : kind == TR_max ? "maximum"
                             : "minimum");
    Op *join = op_new(f, OP_T_join_lanes, loop->span, 1, (Val *[]){loop->out[i]}, 1);
    Val *result = join->out[0];
    join->sub = (uint8_t)kind;
    join->imm = s.lanes;
    result->type = loop->out[i]->type;
    result->layout = loop->out[i]->layout;
    result->name = loop->out[i]->name;
    replace_uses(&f->body, loop->out[i], result);
    join->in[0] = loop->out[i];
    if (loop->next) op_before(loop->next, join);
    else op_append(loop->parent, join);
    return true;
}

static bool leaves(const Op *loop) {                         // a break or continue carries values elsewhere
    for (const Op *op = op_walk(loop->reg[0], NULL); op; op = op_walk(loop->reg[0], op))
        if (op_target(op) == loop) return true;
    return false;
}

bool defer(Fn *f) {
    bool changed = false;
    const uint32_t *uses = NULL;                                // counted anew when a value has been deferred
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        if (op->code != OP_T_for || leaves(op)) continue;
        for (int i = 0; i < op->nout; i++) {
            if (!uses) uses = count_uses(f);
            bool some = defer_value(f, uses, op, i, TR_sum) || defer_value(f, uses, op, i, TR_max) ||
                        defer_value(f, uses, op, i, TR_min);
            if (some) uses = NULL;
            changed |= some;
        }
    }
    return changed;
}

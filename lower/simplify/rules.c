// The rules of `simplify`, one function an op: a value equal to the op's result, or NULL. Each is exact:
//
//     x + (-0)   x - (+0)   x * 1   x / 1   x / 2^k = x * 2^-k                          floats
//     x + 0   x * 0   x - x   x & x   (x + 1) + 2 = x + 3   x - 2 = x + (-2)            integers
//     not not x   select of a constant or of equals   a cast through a type that loses nothing
//     an op on splats is a splat of the op: the work is done on as few lanes as possible
//     acc + dot(a, b) = dot(a, b) with acc, where the dot has no other use
//     a * b in 32 bits is the low half of a * b in 64, where that is computed too (one instruction gives both)
//
// The last one rounds once instead of twice; a dot's bound allows both.

#include "lower/eval/eval.h"
#include "lower/simplify/simplify.h"

#include <math.h>
#include <string.h>

static Val *strip_splat(Val *v) {
    while (v->def && v->def->code == OP_T_splat) v = v->def->in[0];
    return v;
}

bool is_const(const Val *v, int64_t *imm) {
    while (v->def && v->def->code == OP_T_splat) v = v->def->in[0];
    if (!v->def || v->def->code != OP_T_const) return false;
    *imm = v->def->imm;
    return true;
}

static Elem elem(const Val *v)       { return (Elem)v->type.elem; }
static bool is_real(const Val *v)    { return elem_is_float(elem(v)); }

static bool is_int(const Val *v, int64_t want) {
    int64_t imm;
    return !v->type.ptr && !is_real(v) && is_const(v, &imm) && imm == want;
}

static bool float_const(const Val *v, double *x) {
    int64_t imm;
    if (v->type.ptr || !is_real(v) || !is_const(v, &imm)) return false;
    memcpy(x, &imm, sizeof *x);
    return true;
}

static bool is_float(const Val *v, double want) {               // -0 and +0 differ
    double x;
    return float_const(v, &x) && x == want && signbit(x) == signbit(want);
}

static const Op *made_by(const Val *v, OpCode code, int sub) {
    return v->def && v->def->code == code && v->def->sub == sub ? v->def : NULL;
}

static Val *as_result(Simp *s, Op *op, Val *v) { return simp_as(s, op, v, &op->out[0]->type); }

static Val *constant(Simp *s, Op *op, int64_t imm) {
    return as_result(s, op, simp_const(s, op, elem(op->out[0]), imm));
}

static int64_t wrapped(Elem e, int64_t x) {                      // as a const of e holds it
    Type t = type_scalar(e);
    uint64_t lane = 0;
    lane_store(&t, &lane, 0, x);
    return lane_imm(&t, &lane, 0);
}

// ---- all elementwise ops -------------------------------------------------------------------------

// Operands lose their splats where the result keeps its axes; where it would not, the op is done on fewer lanes and
// its result is splat.
static Val *without_splats(Simp *s, Op *op) {
    Val *in[3] = {NULL, NULL, NULL};
    Type t = type_scalar(EL_none);
    bool fewer = false;
    for (int i = 0; i < op->nin; i++) {
        in[i] = strip_splat(op->in[i]);
        fewer |= in[i] != op->in[i];
        t = type_union(t, in[i]->type);
    }
    if (!fewer) return NULL;
    if (t.rank == op->out[0]->type.rank) {
        memcpy(op->in, in, sizeof *in * op->nin);
        s->changes++;
        return NULL;
    }
    t.elem = op->out[0]->type.elem;
    t.ptr = op->out[0]->type.ptr;
    return as_result(s, op, simp_emit(s, op, (OpCode)op->code, op->sub, t, op->nin, in));
}

static Val *elementwise(Simp *s, Op *op) {
    Val *v = without_splats(s, op);
    int64_t imm;
    if (v) return v;
    return eval_constant(s->f, op, &imm) ? constant(s, op, imm) : NULL;
}

// ---- binary --------------------------------------------------------------------------------------

static bool order_free(AstOp o) {
    return o == OP_add || o == OP_mul || o == OP_and || o == OP_or || o == OP_xor || o == OP_eq || o == OP_ne;
}

static Val *of_equals(Simp *s, Op *op, Val *x) {                 // x op x
    bool real = is_real(x);
    switch (op->sub) {
    case OP_and: case OP_or: return as_result(s, op, x);
    case OP_sub: case OP_xor: return real ? NULL : constant(s, op, 0);
    case OP_eq: case OP_le: case OP_ge: return real ? NULL : constant(s, op, 1);
    case OP_ne: case OP_lt: case OP_gt: return real ? NULL : constant(s, op, 0);
    default: return NULL;
    }
}

static Val *int_identity(Simp *s, Op *op, Val *x, Val *c) {
    int64_t all = wrapped(elem(x), -1);
    if (elem(x) == EL_bool) all = 1;
    switch (op->sub) {
    case OP_add: case OP_sub: case OP_shl: case OP_shr: case OP_xor: if (is_int(c, 0)) return as_result(s, op, x); break;
    case OP_mul: if (is_int(c, 1)) return as_result(s, op, x); if (is_int(c, 0)) return constant(s, op, 0); break;
    case OP_div: if (is_int(c, 1)) return as_result(s, op, x); break;
    case OP_rem: if (is_int(c, 1)) return constant(s, op, 0); break;
    case OP_and: if (is_int(c, all)) return as_result(s, op, x); if (is_int(c, 0)) return constant(s, op, 0); break;
    case OP_or:  if (is_int(c, 0)) return as_result(s, op, x); if (is_int(c, all)) return constant(s, op, all); break;
    default: break;
    }
    if (elem(x) == EL_bool && (op->sub == OP_eq || op->sub == OP_ne) && (is_int(c, 0) || is_int(c, 1))) {
        bool same = is_int(c, op->sub == OP_eq);
        return as_result(s, op, same ? x : simp_emit(s, op, OP_T_unary, OP_not, x->type, 1, &x));
    }
    return NULL;
}

static Val *int_chain(Simp *s, Op *op, Val *x, Val *c) {         // (y op c1) op c, and y - c
    int64_t by, inner;
    if (elem(x) == EL_bool || !is_const(c, &by)) return NULL;
    if (op->sub == OP_sub) {
        Val *minus = simp_const(s, op, elem(x), wrapped(elem(x), (int64_t)(0 - (uint64_t)by)));
        return simp_emit(s, op, OP_T_binary, OP_add, op->out[0]->type, 2, (Val *[]){x, minus});
    }
    if (op->sub != OP_add && op->sub != OP_mul) return NULL;
    const Op *before = made_by(x, OP_T_binary, op->sub);
    if (!before || before->in[0]->type.ptr || !is_const(before->in[1], &inner)) return NULL;
    uint64_t sum = op->sub == OP_add ? (uint64_t)by + (uint64_t)inner : (uint64_t)by * (uint64_t)inner;
    Val *both = simp_const(s, op, elem(x), wrapped(elem(x), (int64_t)sum));
    return simp_emit(s, op, OP_T_binary, op->sub, op->out[0]->type, 2, (Val *[]){before->in[0], both});
}

static Val *float_identity(Simp *s, Op *op, Val *x, Val *c) {
    double by;
    switch (op->sub) {
    case OP_add: return is_float(c, -0.0) ? as_result(s, op, x) : NULL;
    case OP_sub: return is_float(c, 0.0) ? as_result(s, op, x) : NULL;
    case OP_mul: return is_float(c, 1.0) ? as_result(s, op, x) : NULL;
    case OP_div: break;
    default: return NULL;
    }
    if (!float_const(c, &by)) return NULL;
    int exponent;
    if (by == 1) return as_result(s, op, x);
    if (!isfinite(by) || fabs(frexp(by, &exponent)) != 0.5 || exponent < -120 || exponent > 120) return NULL;
    int64_t imm;
    double inverse = 1 / by;
    memcpy(&imm, &inverse, sizeof imm);
    return simp_emit(s, op, OP_T_binary, OP_mul, op->out[0]->type, 2, (Val *[]){x, simp_const(s, op, elem(x), imm)});
}

static Val *dot_with_acc(Simp *s, Op *op) {
    for (int i = 0; i < 2; i++) {
        Val *d = op->in[i], *acc = op->in[1 - i];
        const Op *dot = d->def;
        if (!dot || dot->code != OP_T_dot || (dot->flags & HAS_ACC) || dot->parent != op->parent ||
            simp_uses(s, d) != 1)
            continue;
        if (!type_equal(&d->type, &acc->type) || !type_equal(&d->type, &op->out[0]->type)) continue;
        Op *with = op_new(s->f, OP_T_dot, dot->span, dot->nin, dot->in, 1);
        with->sub = dot->sub;
        with->flags = dot->flags | HAS_ACC;
        op_insert_operand(s->f, with, 2, acc);
        with->out[0]->type = d->type;
        op_before(op, with);
        return with->out[0];
    }
    return NULL;
}

// What the 64-bit factor `wide` is made from is x, or the same number, in its low 32 bits.
static bool low_half(const Val *wide, const Val *x) {
    int64_t a, b;
    wide = strip_splat((Val *)wide);
    x = strip_splat((Val *)x);
    const Op *cast = made_by(wide, OP_T_cast, 0);
    if (cast && strip_splat(cast->in[0]) == x) return true;
    return is_const(wide, &a) && is_const(x, &b) && (uint32_t)a == (uint32_t)b;
}

// Random numbers by counters (Philox) take both halves of each product.
static Val *half_of_product(Simp *s, Op *op) {
    const Type *t = &op->out[0]->type;
    if (op->sub != OP_mul || t->ptr || elem_is_float((Elem)t->elem) || elem_bits((Elem)t->elem) != 32) return NULL;
    for (const Op *w = op->parent->first; w; w = w->next) {
        Type full = *t;
        if (w->code != OP_T_binary || w->sub != OP_mul || w->out[0]->type.ptr || elem_is_float(elem(w->out[0])) || elem_bits(elem(w->out[0])) != 64) continue;
        if (elem(w->out[0]) == EL_index) continue;
        full.elem = w->out[0]->type.elem;
        if (!type_equal(&full, &w->out[0]->type)) continue;
        bool turned = low_half(w->in[1], op->in[0]) && low_half(w->in[0], op->in[1]);
        if (!turned && !(low_half(w->in[0], op->in[0]) && low_half(w->in[1], op->in[1]))) continue;
        Val *in[2];
        int64_t imm;
        for (int i = 0; i < 2; i++) {
            const Val *factor = w->in[turned ? 1 - i : i];
            Type each = op->in[i]->type;
            each.elem = full.elem;
            if (is_const(factor, &imm)) in[i] = simp_const(s, op, (Elem)full.elem, imm);
            else in[i] = simp_emit(s, op, OP_T_cast, 0, each, 1, &op->in[i]);
        }
        Val *product = simp_emit(s, op, OP_T_binary, OP_mul, full, 2, in);
        return simp_emit(s, op, OP_T_cast, 0, *t, 1, &product);
    }
    return NULL;
}

static Val *rule_binary(Simp *s, Op *op) {
    if (op->in[0]->type.ptr) return without_splats(s, op);
    int64_t imm;
    if (order_free((AstOp)op->sub) && is_const(op->in[0], &imm) && !is_const(op->in[1], &imm)) {
        Val *left = op->in[0];
        op->in[0] = op->in[1];
        op->in[1] = left;
    }
    Val *v = elementwise(s, op), *x = op->in[0], *c = op->in[1];
    if (!v && x == c) v = of_equals(s, op, x);
    if (!v) v = is_real(x) ? float_identity(s, op, x, c) : int_identity(s, op, x, c);
    if (!v && !is_real(x)) v = int_chain(s, op, x, c);
    if (!v && op->sub == OP_add) v = dot_with_acc(s, op);
    return v ? v : half_of_product(s, op);
}

// ---- the other elementwise ops -------------------------------------------------------------------

static Val *rule_unary(Simp *s, Op *op) {
    static const uint8_t opposite[OP_COUNT] = {[OP_eq] = OP_ne, [OP_ne] = OP_eq, [OP_lt] = OP_ge,
                                               [OP_ge] = OP_lt, [OP_gt] = OP_le, [OP_le] = OP_gt};
    Val *v = elementwise(s, op), *x = op->in[0];
    if (v) return v;
    const Op *twice = made_by(x, OP_T_unary, op->sub);
    if (twice) return as_result(s, op, twice->in[0]);
    if (op->sub != OP_not || !x->def || x->def->code != OP_T_binary || !opposite[x->def->sub]) return NULL;
    bool total = x->def->sub == OP_eq || x->def->sub == OP_ne || !is_real(x->def->in[0]);      // NaN is not ordered
    return total ? simp_emit(s, op, OP_T_binary, opposite[x->def->sub], x->type, 2, x->def->in) : NULL;
}

static Val *rule_select(Simp *s, Op *op) {
    Val *v = elementwise(s, op), *c = op->in[0], *a = op->in[1], *b = op->in[2];
    int64_t imm;
    if (v) return v;
    if (is_const(c, &imm)) return as_result(s, op, imm ? a : b);
    if (a == b) return as_result(s, op, a);
    if (elem(a) == EL_bool && !a->type.ptr && is_int(a, 1) && is_int(b, 0)) return as_result(s, op, c);
    const Op *negated = made_by(c, OP_T_unary, OP_not);
    if (negated) return simp_emit(s, op, OP_T_select, 0, op->out[0]->type, 3, (Val *[]){negated->in[0], b, a});
    return NULL;
}

// Every value of a is a value of b.
static bool lossless(Elem a, Elem b) {
    static const uint8_t digits[EL_COUNT] = {[EL_f8e4m3] = 4, [EL_f8e5m2] = 3, [EL_f16] = 11,
                                             [EL_bf16] = 8,   [EL_f32] = 24,   [EL_f64] = 53};
    if (a == b || a == EL_bool) return true;
    if (b == EL_bool) return false;
    bool fa = elem_is_float(a), fb = elem_is_float(b), small = b == EL_f8e4m3 || b == EL_f8e5m2;
    if (fa && !fb) return false;
    if (fa) {
        bool range = b == EL_f64 || (b == EL_f32 && a != EL_f64) || (b == EL_bf16 && elem_bits(a) == 8) ||
                     (b == EL_f16 && elem_bits(a) == 8);
        return range && digits[a] <= digits[b];
    }
    if (fb) return !small && elem_bits(a) - elem_is_signed(a) <= digits[b];
    if (elem_is_signed(a) && !elem_is_signed(b)) return false;
    return elem_is_signed(a) == elem_is_signed(b) ? elem_bits(b) >= elem_bits(a) : elem_bits(b) > elem_bits(a);
}

static Val *rule_cast(Simp *s, Op *op) {
    Val *x = op->in[0];
    if (elem(x) == elem(op->out[0])) return as_result(s, op, x);
    Val *v = elementwise(s, op);
    if (v) return v;
    const Op *first = made_by(op->in[0], OP_T_cast, 0);
    if (!first || !lossless(elem(first->in[0]), elem(first->out[0]))) return NULL;
    x = first->in[0];
    if (elem(x) == EL_f8e5m2 && elem(op->out[0]) == EL_f8e5m2) return NULL;                 // what was infinite is not then
    if (elem(x) == elem(op->out[0])) return as_result(s, op, x);
    bool saturates = elem_is_float(elem(first->out[0])) && !elem_is_float(elem(x)) && !elem_is_float(elem(op->out[0]));
    if (saturates && !lossless(elem(x), elem(op->out[0]))) return NULL;                     // between integers it would wrap
    return simp_emit(s, op, OP_T_cast, 0, op->out[0]->type, 1, &x);
}

static Val *rule_bitcast(Simp *s, Op *op) {
    Val *x = op->in[0];
    const Type *t = &op->out[0]->type;
    if (elem(x) == (Elem)t->elem && x->type.ptr == t->ptr) return as_result(s, op, x);
    Val *v = elementwise(s, op);
    if (v) return v;
    const Op *first = made_by(op->in[0], OP_T_bitcast, 0);
    return first ? simp_emit(s, op, OP_T_bitcast, 0, *t, 1, first->in) : NULL;
}

static Val *rule_fun(Simp *s, Op *op) {
    Val *v = elementwise(s, op), *x = op->in[0];
    double by;
    if (v) return v;
    if ((op->sub == TF_min || op->sub == TF_max) && x == op->in[1]) return as_result(s, op, x);
    if (op->sub == TF_abs && made_by(x, OP_T_fun, TF_abs)) return as_result(s, op, x);
    if (op->sub == TF_div_rn && float_const(op->in[1], &by) && by == 1) return as_result(s, op, x);
    return NULL;
}

// ---- what has axes -------------------------------------------------------------------------------

static Val *rule_splat(Simp *s, Op *op) {
    Val *x = op->in[0];
    if (x->type.rank == op->out[0]->type.rank) return x;
    if (x->def && x->def->code == OP_T_splat) return simp_emit(s, op, OP_T_splat, 0, op->out[0]->type, 1, x->def->in);
    return NULL;
}

static Val *rule_dim(Simp *s, Op *op) {
    const LaunchInfo *l = s->f->launch;
    if (!l || op->imm < 0 || op->imm >= l->ndims || l->dims[op->imm].fixed < 0) return NULL;
    return simp_const(s, op, EL_index, l->dims[op->imm].fixed);
}

// The largest value of a scalar that is a constant or counts a loop of constant bounds.
static bool largest(const Val *v, int64_t *max) {
    int64_t lo, hi, step;
    if (is_const(v, max)) return true;
    const Op *loop = v->region ? v->region->owner : NULL;
    if (!loop || loop->code != OP_T_for || v != loop->reg[0]->args.at[0]) return false;
    if (!is_const(loop->in[0], &lo) || !is_const(loop->in[1], &hi) || !is_const(loop->in[2], &step) || step <= 0 ||
        lo >= hi)
        return false;
    *max = lo + (hi - 1 - lo) / step * step;
    return true;
}

static Val *rule_axis(Simp *s, Op *op) {                          // full when its bounds say so
    int64_t lo, hi;
    if ((op->flags & AXIS_FULL) || !largest(op->in[0], &lo) || !is_const(op->in[1], &hi) || hi - lo < op->imm) return NULL;
    op->flags |= AXIS_FULL;
    s->changes++;
    return NULL;
}

static Val *rule_live(Simp *s, Op *op) {
    const Op *axis = op->in[0]->def;
    bool padded = axis && (axis->imm & (axis->imm - 1)) != 0;       // 5 lanes may stand in 8 places: layouts will tell
    return axis && (axis->flags & AXIS_FULL) && !padded ? constant(s, op, 1) : NULL;
}

// Places keep their axes by any one operand; a value may lack some.
static void strip_operands(Simp *s, Op *op, int from, int to, bool keep_axes) {
    for (int i = from; i < to; i++) {
        Val *old = op->in[i], *v = strip_splat(old);
        if (v == old) continue;
        Type before = type_scalar(EL_none), after = before;
        for (int k = from; k < to && keep_axes; k++) {
            before = type_union(before, op->in[k]->type);
            after = type_union(after, k == i ? v->type : op->in[k]->type);
        }
        if (before.rank != after.rank) continue;
        op->in[i] = v;
        s->changes++;
    }
}

static Val *rule_load(Simp *s, Op *op) {
    strip_operands(s, op, 1, op->nin, true);
    return NULL;
}

static Val *rule_store(Simp *s, Op *op) {
    strip_operands(s, op, 1, 1 + op->nidx, true);
    strip_operands(s, op, 1 + op->nidx, op->nin, false);
    return NULL;
}

static Val *rule_rename(Simp *s, Op *op) {                        // of a splat that has the axis only from there
    Val *x = strip_splat(op->in[0]);
    if (x == op->in[0] || type_axis(&x->type, op->in[1]) >= 0) return NULL;
    return as_result(s, op, x);
}

Rule *const simplify_rules[OP_T_COUNT] = {
    [OP_T_unary] = rule_unary, [OP_T_binary] = rule_binary, [OP_T_select] = rule_select, [OP_T_cast] = rule_cast, [OP_T_bitcast] = rule_bitcast,
    [OP_T_fun] = rule_fun, [OP_T_splat] = rule_splat, [OP_T_dim] = rule_dim, [OP_T_axis] = rule_axis, [OP_T_live] = rule_live,
    [OP_T_load] = rule_load, [OP_T_store] = rule_store, [OP_T_rename] = rule_rename,
};

// Compile-time arithmetic. Integers are exact in 64 bits, overflow is an error, and division floors,
// as at run time; floats are doubles. A number has no element type until it meets a value that has one
// (infer_expr.c), so `1 / 3 * x` divides integers, as written.
#include "sema/internal.h"

#include "lang/number.h"

#include <math.h>

static Ent overflow(Check *c, AstOp op, int64_t a, int64_t b, Span at) {
    report(c, E_const_overflow, at, arena_printf(c->a, "%lld %s %lld", (long long)a, op_spellings[op], (long long)b));
    return ent_error(c);
}

static double as_double(Ent e) { return e.kind == EN_float ? e.f : (double)e.i; }

Ent fold_unary(Check *c, AstOp op, Ent a, Span at) {
    if (op == OP_neg && a.kind == EN_int) {
        if (a.i == INT64_MIN) return overflow(c, OP_sub, 0, a.i, at);
        return recipe_result(c, OP_sub, ent_int(0, at), a, ent_int(-a.i, at));
    }
    recipe_pin(c, a);
    if (op == OP_not && a.kind == EN_bool) return ent_bool(!a.i, at);
    if (op == OP_neg && a.kind == EN_float) return ent_float(-a.f, at);
    if (op == OP_bnot && a.kind == EN_int) return ent_int(~a.i, at);
    Diag *d = report(c, E_operand_type, at, op_spellings[op], ent_text(c, a));
    if (op == OP_not) diag_help(d, "compare with `== 0`");
    return ent_error(c);
}

// Of integers and of floats alike.
#define COMPARISONS(a, b, at)                      \
    case OP_eq: return ent_bool((a) == (b), at);   \
    case OP_ne: return ent_bool((a) != (b), at);   \
    case OP_lt: return ent_bool((a) < (b), at);    \
    case OP_le: return ent_bool((a) <= (b), at);   \
    case OP_gt: return ent_bool((a) > (b), at);    \
    case OP_ge: return ent_bool((a) >= (b), at);

static Ent fold_ints(Check *c, AstOp op, int64_t a, int64_t b, Span at) {
    int64_t r = 0;
    switch (op) {
    case OP_add: return __builtin_add_overflow(a, b, &r) ? overflow(c, op, a, b, at) : ent_int(r, at);
    case OP_sub: return __builtin_sub_overflow(a, b, &r) ? overflow(c, op, a, b, at) : ent_int(r, at);
    case OP_mul: return __builtin_mul_overflow(a, b, &r) ? overflow(c, op, a, b, at) : ent_int(r, at);
    case OP_div: case OP_rem:
        if (b == 0) { report(c, E_const_div_zero, at); return ent_error(c); }
        if (a == INT64_MIN && b == -1) return op == OP_div ? overflow(c, op, a, b, at) : ent_int(0, at);
        return ent_int(op == OP_div ? int_div_floor(a, b) : int_mod_floor(a, b), at);
    case OP_shl:
        if (b < 0 || b >= 63 || a > (INT64_MAX >> b) || a < (INT64_MIN >> b))
            return a == 0 ? ent_int(0, at) : overflow(c, op, a, b, at);
        return ent_int((int64_t)((uint64_t)a << b), at);
    case OP_shr:
        if (b < 0) return overflow(c, op, a, b, at);
        return ent_int(b > 63 ? (a < 0 ? -1 : 0) : a >> b, at);
    case OP_and: return ent_int(a & b, at);
    case OP_or:  return ent_int(a | b, at);
    case OP_xor: return ent_int(a ^ b, at);
    COMPARISONS(a, b, at)
    default: break;
    }
    report(c, E_operand_type, at, op_spellings[op], "integers");
    return ent_error(c);
}

static Ent fold_floats(Check *c, AstOp op, double a, double b, Span at) {
    switch (op) {
    case OP_add: return ent_float(a + b, at);
    case OP_sub: return ent_float(a - b, at);
    case OP_mul: return ent_float(a * b, at);
    case OP_div:
        if (b == 0) { report(c, E_const_div_zero, at); return ent_error(c); }
        return ent_float(a / b, at);
    COMPARISONS(a, b, at)
    default: break;
    }
    report(c, E_operand_type, at, op_spellings[op], "floats");
    return ent_error(c);
}

static Ent fold_bools(Check *c, AstOp op, bool a, bool b, Span at) {
    switch (op) {
    case OP_land: case OP_and: return ent_bool(a && b, at);
    case OP_lor:  case OP_or:  return ent_bool(a || b, at);
    case OP_xor:  case OP_ne:  return ent_bool(a != b, at);
    case OP_eq:   return ent_bool(a == b, at);
    default: break;
    }
    report(c, E_operand_type, at, op_spellings[op], "bools");
    return ent_error(c);
}

Ent fold_binary(Check *c, AstOp op, Ent a, Ent b, Span at) {
    if (a.kind == EN_int && b.kind == EN_int) return recipe_result(c, op, a, b, fold_ints(c, op, a.i, b.i, at));
    recipe_pin(c, a);
    recipe_pin(c, b);
    if (a.kind == EN_bool && b.kind == EN_bool) return fold_bools(c, op, a.i, b.i, at);
    if (a.kind == EN_bool || b.kind == EN_bool) {
        report(c, E_operand_type, at, op_spellings[op], arena_printf(c->a, "%s and %s", ent_text(c, a), ent_text(c, b)));
        return ent_error(c);
    }
    return fold_floats(c, op, as_double(a), as_double(b), at);
}

Ent fold_fun(Check *c, TFun f, const Ent *args, int n, Span at) {
    for (int i = 0; i < n; i++) recipe_pin(c, args[i]);
    if (f == TF_min || f == TF_max) {
        Ent r = args[0];
        for (int i = 1; i < n; i++) {
            bool less = args[i].kind == EN_int && r.kind == EN_int ? args[i].i < r.i : as_double(args[i]) < as_double(r);
            bool nan = isnan(as_double(args[i]));
            if (nan || (f == TF_min ? less : !less)) r = args[i];
            if (nan) break;
        }
        for (int i = 0; i < n; i++) {                     // one float makes the result a float
            if (args[i].kind == EN_float) return ent_float(as_double(r), at);
        }
        return ent_int(r.i, at);
    }
    if (f == TF_abs && args[0].kind == EN_int) {
        if (args[0].i == INT64_MIN) return overflow(c, OP_sub, 0, args[0].i, at);
        return ent_int(args[0].i < 0 ? -args[0].i : args[0].i, at);
    }
    double x = as_double(args[0]), y = n > 1 ? as_double(args[1]) : 0;
    switch (f) {
    case TF_exp:   return ent_float(exp(x), at);
    case TF_exp2:  return ent_float(exp2(x), at);
    case TF_log:   return ent_float(log(x), at);
    case TF_log2:  return ent_float(log2(x), at);
    case TF_sqrt: case TF_sqrt_rn: return ent_float(sqrt(x), at);
    case TF_rsqrt: return ent_float(1 / sqrt(x), at);
    case TF_sin:   return ent_float(sin(x), at);
    case TF_cos:   return ent_float(cos(x), at);
    case TF_tanh:  return ent_float(tanh(x), at);
    case TF_erf:   return ent_float(erf(x), at);
    case TF_floor: return ent_float(floor(x), at);
    case TF_ceil:  return ent_float(ceil(x), at);
    case TF_round: return ent_float(nearbyint(x), at);
    case TF_trunc: return ent_float(trunc(x), at);
    case TF_abs:   return ent_float(fabs(x), at);
    case TF_fma:   return ent_float(fma(x, y, as_double(args[2])), at);
    case TF_div_rn: return fold_binary(c, OP_div, ent_float(x, at), ent_float(y, at), at);
    case TF_pow:   return ent_float(pow(x, y), at);
    case TF_fmod:  return ent_float(fmod(x, y), at);
    case TF_copysign: return ent_float(copysign(x, y), at);
    case TF_isnan: return ent_bool(isnan(x), at);
    default: return ent_error(c);
    }
}

bool want_int(Check *c, const Node *n, const char *what, int64_t *out) {
    Ent e = recipe_pin(c, eval(c, n));
    if (e.kind == EN_error) return false;
    if (e.kind == EN_int) {
        *out = e.i;
        return true;
    }
    int64_t v;
    if (e.dim > 0) {                       // a dimension of the kernel: make it a number
        *out = dim_fixed(c, e, &v, n->span) ? v : 1;
        return true;
    }
    bool known = e.kind == EN_float || e.kind == EN_bool || e.kind == EN_str || e.kind == EN_type || e.kind == EN_tuple;
    Diag *d = known ? report(c, E_type_mismatch, n->span, what, ent_text(c, e), "an integer")
                    : report(c, E_not_comptime, n->span, what);
    if (!known) diag_primary(d, "this is %s", ent_text(c, e));
    if (!known && e.kind == EN_value && e.x->kind == TX_var && e.x->var->param >= 0)
        diag_help(d, "make it a compile-time name of the kernel: `<%s = 128>`", e.x->var->name->s);
    if (e.kind == EN_type)
        diag_help(d, "an element type stands in `<>` behind the name: `random<%s>(...)`", elem_name(e.elem));
    if (e.kind == EN_tuple) diag_help(d, "numbers are arguments of their own: `random<f32>(4, 5)`");
    note_values(c, d);
    return false;
}

bool int_fits(int64_t v, Elem e) {
    int bits = elem_bits(e);
    if (elem_info[e].cls == EC_UINT) return bits == 64 ? v >= 0 : v >= 0 && v < (int64_t)1 << bits;
    if (bits == 64) return true;
    return v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1);
}

bool float_fits(double v, Elem e) {
    if (isnan(v)) return true;
    switch (e) {
    case EL_f64: return true;
    case EL_f32: return (double)(float)v == v;
    case EL_f16: return f16_to_f32(f16_from_f64(v)) == v;
    case EL_bf16: return bf16_to_f32(bf16_from_f64(v)) == v;
    case EL_f8e4m3: return e4m3_to_f32(e4m3_from_f64(v)) == v;
    case EL_f8e5m2: return e5m2_to_f32(e5m2_from_f64(v)) == v;
    default: return false;
    }
}

bool next_pow2(int64_t v, int64_t *out) {
    int64_t p = 1;
    while (p < v) {
        if (p > INT64_MAX / 2) return false;
        p *= 2;
    }
    *out = p;
    return true;
}

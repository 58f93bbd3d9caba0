// Elementwise operations on one element. Floats are computed in f64 and rounded once to their type, which for f32 gives
// the correctly rounded sum, difference, product, quotient and square root.

#include "graph/ew.h"

#include "lang/number.h"

#include <math.h>
#include <string.h>

static double min_nan(double a, double b) {
    return isnan(a) || isnan(b) ? (double)NAN : a < b || (a == b && signbit(a)) ? a : b;
}
static double max_nan(double a, double b) {
    return isnan(a) || isnan(b) ? (double)NAN : a > b || (a == b && !signbit(a)) ? a : b;
}

double ew_float(GEw op, double a, double b) {
    switch (op) {
    case EW_neg: return -a;
    case EW_abs: return fabs(a);
    case EW_sign: return isnan(a) ? a : (double)((a > 0) - (a < 0));
    case EW_floor: case EW_floordiv: return floor(op == EW_floor ? a : a / b);
    case EW_ceil: return ceil(a);
    case EW_round: return nearbyint(a);
    case EW_trunc: return trunc(a);
    case EW_sqrt: return sqrt(a);
    case EW_exp: return exp(a);
    case EW_log: return log(a);
    case EW_expm1: return expm1(a);
    case EW_log1p: return log1p(a);
    case EW_sin: return sin(a);
    case EW_cos: return cos(a);
    case EW_tan: return tan(a);
    case EW_asin: return asin(a);
    case EW_acos: return acos(a);
    case EW_atan: return atan(a);
    case EW_sinh: return sinh(a);
    case EW_cosh: return cosh(a);
    case EW_tanh: return tanh(a);
    case EW_asinh: return asinh(a);
    case EW_acosh: return acosh(a);
    case EW_atanh: return atanh(a);
    case EW_erf: return erf(a);
    case EW_sigmoid: return 1 / (1 + exp(-a));
    case EW_add: return a + b;
    case EW_sub: return a - b;
    case EW_mul: return a * b;
    case EW_div: return a / b;
    case EW_mod: {
        double r = fmod(a, b);
        return r == 0 ? copysign(r, b) : (r < 0) != (b < 0) ? r + b : r;
    }
    case EW_rem: return fmod(a, b);
    case EW_pow: return pow(a, b);
    case EW_min: return min_nan(a, b);
    case EW_max: return max_nan(a, b);
    default: ice("`%s` of floats", g_ew_info[op].name);
    }
}

static uint64_t int_pow(int64_t a, int64_t b, bool is_signed) {
    if (is_signed && b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? (uint64_t)-1 : 1) : 0;
    uint64_t r = 1, x = (uint64_t)a;
    for (uint64_t e = (uint64_t)b; e; e >>= 1, x *= x)
        if (e & 1) r *= x;
    return r;
}

uint64_t ew_int(GEw op, Elem elem, uint64_t a, uint64_t b) {
    bool sg = elem_is_signed(elem);
    int64_t x = (int64_t)a, y = (int64_t)b;
    uint64_t bits = (uint64_t)elem_bits(elem);
    bool safe = b != 0 && !(sg && y == -1);                  // y == -1: the quotient of the least number wraps
    switch (op) {
    case EW_neg: return 0 - a;
    case EW_abs: return sg && x < 0 ? 0 - a : a;
    case EW_sign: return sg ? (uint64_t)(int64_t)((x > 0) - (x < 0)) : a != 0;
    case EW_floor: case EW_ceil: case EW_round: case EW_trunc: return a;
    case EW_not: return elem == EL_bool ? !a : ~a;
    case EW_add: return a + b;
    case EW_sub: return a - b;
    case EW_mul: return a * b;
    case EW_div: return !safe ? (b ? 0 - a : 0) : sg ? (uint64_t)(x / y) : a / b;
    case EW_floordiv: return !safe ? (b ? 0 - a : 0) : sg ? (uint64_t)int_div_floor(x, y) : a / b;
    case EW_mod: return !safe ? 0 : sg ? (uint64_t)int_mod_floor(x, y) : a % b;
    case EW_rem: return !safe ? 0 : sg ? (uint64_t)(x % y) : a % b;
    case EW_pow: return int_pow(x, y, sg);
    case EW_min: return (sg ? x < y : a < b) ? a : b;
    case EW_max: return (sg ? x > y : a > b) ? a : b;
    case EW_and: return a & b;
    case EW_or: return a | b;
    case EW_xor: return a ^ b;
    case EW_shl: return b >= bits ? 0 : a << b;
    case EW_shr: return sg ? (uint64_t)(x >> (b >= bits ? 63 : b)) : b >= bits ? 0 : a >> b;
    default: ice("`%s` of integers", g_ew_info[op].name);
    }
}

bool ew_compare(GEw op, Elem elem, GNum a, GNum b) {
    bool less, same, greater;
    if (elem_is_float(elem)) {
        less = a.f < b.f, same = a.f == b.f, greater = a.f > b.f;
    } else if (elem_is_signed(elem)) {
        less = a.i < b.i, same = a.i == b.i, greater = a.i > b.i;
    } else {
        less = (uint64_t)a.i < (uint64_t)b.i, same = a.i == b.i, greater = (uint64_t)a.i > (uint64_t)b.i;
    }
    switch (op) {
    case EW_eq: return same;
    case EW_ne: return !same;
    case EW_lt: return less;
    case EW_le: return less || same;
    case EW_gt: return greater;
    case EW_ge: return greater || same;
    default: ice("`%s` does not compare", g_ew_info[op].name);
    }
}

void ew_one(GEw op, Elem elem, const void *const *in, void *out) {
    if (op == EW_where) {
        memcpy(out, *(const uint8_t *)in[0] ? in[1] : in[2], (size_t)elem_bytes(elem));
        return;
    }
    GNum a = g_num_load(in[0], elem), b = g_ew_info[op].n > 1 ? g_num_load(in[1], elem) : g_int(0);
    if (g_ew_info[op].gives_bool) {
        *(uint8_t *)out = op == EW_isnan ? isnan(a.f) : op == EW_isinf ? isinf(a.f) != 0 : ew_compare(op, elem, a, b);
        return;
    }
    if (elem_is_float(elem)) {
        double r = ew_float(op, a.f, b.f);
        if (elem_is_storage(elem)) r = (double)(float)r;     // computed in f32, then rounded
        g_num_store(out, elem, g_float(r));
        return;
    }
    bool float_only = op >= EW_sqrt && op <= EW_sigmoid;
    if (float_only) {                                        // of an integer: by way of f64
        g_num_store(out, elem, g_float(ew_float(op, (double)a.i, 0)));
        return;
    }
    g_num_store(out, elem, g_int((int64_t)ew_int(op, elem, (uint64_t)a.i, (uint64_t)b.i)));
}

// An integer as an f64, odd where it has more than 53 bits and loses some: rounding that to a smaller float is then the only rounding.
static double odd_of(int64_t i, bool is_unsigned) {
    bool negative = !is_unsigned && i < 0;
    uint64_t m = negative ? 0 - (uint64_t)i : (uint64_t)i;
    int over = m ? 64 - __builtin_clzll(m) - 53 : 0;
    if (over > 0) m = m >> over << over | (uint64_t)((m & ((UINT64_C(1) << over) - 1)) != 0) << over;
    return negative ? -(double)m : (double)m;
}

void cast_one(Elem from, Elem to, bool saturate, const void *in, void *out) {
    GNum v = g_num_load(in, from);
    bool from_float = elem_is_float(from);
    if (!from_float && elem_is_float(to)) v = to == EL_f64 && from == EL_u64 ? g_float((double)(uint64_t)v.i) : to == EL_f64 ? v : g_float(odd_of(v.i, from == EL_u64));
    if (!elem_is_int(to) || (!from_float && !saturate)) {
        double x = v.is_int ? (double)v.i : v.f;
        if (to == EL_f8e5m2 && !saturate && fabs(x) >= 61440) {          // past 57344 by half a step or more: infinity
            *(uint8_t *)out = x < 0 ? 0xfc : 0x7c;
            return;
        }
        if (to == EL_f8e4m3 && !saturate && !(fabs(x) <= 464)) {
            *(uint8_t *)out = x < 0 ? 0xff : 0x7f;
            return;
        }
        g_num_store(out, to, v);
        return;
    }
    if (saturate) {
        double d = from_float ? v.f : from == EL_u64 ? (double)(uint64_t)v.i : (double)v.i;
        if (!from_float && from != EL_u64 && elem_bits(to) == 64) d = elem_is_signed(to) || v.i >= 0 ? d : 0;
        int64_t r = f64_to_int_sat(d, elem_bits(to), elem_is_signed(to));
        g_num_store(out, to, g_int(r));
        return;
    }
    // C, and NumPy on x86-64: by way of i64, then the low bits
    int64_t r = to == EL_u64 && v.f >= 0 ? f64_to_int_sat(v.f, 64, false)
              : isnan(v.f) || v.f >= 0x1p63 || v.f < -0x1p63 ? INT64_MIN : (int64_t)v.f;
    g_num_store(out, to, g_int(r));
}

// The least that e can be where no dimension is 0; INT64_MIN: unknown.
static int64_t least(Ix e) {
    int64_t sum = e->value, part;
    if (e->kind == IX_DIM) return e->lo > 1 ? e->lo : 1;
    if (e->kind == IX_DIV && ix_is_const(e->arg[1]) && e->arg[1]->value > 0) {
        int64_t of = least(e->arg[0]);
        return of == INT64_MIN ? e->lo : int_div_floor(of, e->arg[1]->value);
    }
    for (uint32_t i = 0; e->kind == IX_SUM && i < e->n; i++) {
        int64_t of = e->coef[i] > 0 ? least(e->arg[i]) : e->arg[i]->hi;
        if (of == INT64_MIN || of == INT64_MAX || __builtin_mul_overflow(e->coef[i], of, &part) || __builtin_add_overflow(sum, part, &sum)) return INT64_MIN;
    }
    return e->kind == IX_SUM && sum > e->lo ? sum : e->lo;
}

// Division toward zero, which exporters write for sizes; a size of 0 has no elements that it matters to.
static Ix to_zero(Graph *g, GEw op, Ix a, Ix b) {
    if (b->lo < 0) return NULL;
    if (least(a) >= 0 || ix_prove_ge0(g, a)) return op == EW_div ? ix_div(g, a, b) : ix_mod(g, a, b);
    if (a->has_axis || b->has_axis) return NULL;
    Ix q = ix_add(g, ix_div(g, a, b), ix_and(g, ix_lt(g, a, ix(g, 0)), ix_ne(g, ix_mod(g, a, b), ix(g, 0))));
    return op == EW_div ? q : ix_sub(g, a, ix_mul(g, b, q));
}

Ix g_ew_expr(Graph *g, GEw op, Elem elem, const Ix *e) {
    Ix a = e[0], b = e[1], zero = ix(g, 0);
    bool truth = elem == EL_bool;
    switch (op) {
    case EW_neg: return truth ? NULL : ix_muli(g, a, -1);
    case EW_abs: return ix_max(g, a, ix_muli(g, a, -1));
    case EW_sign: return ix_sub(g, ix_lt(g, zero, a), ix_lt(g, a, zero));
    case EW_floor: case EW_ceil: case EW_round: case EW_trunc: return a;
    case EW_add: return truth ? NULL : ix_add(g, a, b);
    case EW_sub: return truth ? NULL : ix_sub(g, a, b);
    case EW_mul: return truth ? NULL : ix_mul(g, a, b);
    case EW_div: case EW_rem: return to_zero(g, op, a, b);
    case EW_floordiv: return b->lo >= 0 ? ix_div(g, a, b) : NULL;
    case EW_mod: return b->lo >= 0 ? ix_mod(g, a, b) : NULL;
    case EW_pow: return truth || !ix_is_const(b) || b->value < 0 || b->value > 4 ? NULL : b->value == 0 ? ix(g, 1) : b->value == 1 ? a : ix_mul(g, a, g_ew_expr(g, op, elem, (Ix[]){a, ix_addi(g, b, -1)}));
    case EW_min: return ix_min(g, a, b);
    case EW_max: return ix_max(g, a, b);
    case EW_not: return truth ? ix_not(g, a) : NULL;
    case EW_and: return truth ? ix_and(g, a, b) : NULL;
    case EW_or: return truth ? ix_or(g, a, b) : NULL;
    case EW_xor: return truth ? ix_ne(g, a, b) : NULL;
    case EW_eq: return ix_eq(g, a, b);
    case EW_ne: return ix_ne(g, a, b);
    case EW_lt: return ix_lt(g, a, b);
    case EW_le: return ix_le(g, a, b);
    case EW_gt: return ix_lt(g, b, a);
    case EW_ge: return ix_le(g, b, a);
    case EW_where: return ix_select(g, a, b, e[2]);
    default: return NULL;
    }
}

// The inner loops of the evaluator: n neighbouring lanes of one element type, no axes, no liveness.
//
// This is where 1.3 of the design is made exact. Integers wrap (unsigned arithmetic underneath), `/`
// and `%` floor and give 0 for a divisor of 0 (the caller traps if the lane was live), shifts by the
// width or more give 0. f32 and f64 round to nearest even, once an op; a NaN result of f32 arithmetic is
// the canonical one. Functions are computed in the next wider type and rounded. Storage floats have no
// loops of their own: they widen to f32, exactly, and narrow back with one rounding.
//
// A cast goes through one of four wide types, exactly, and rounds on the way down:
//
//     bool i8 .. i64 u8 u16 u32 -> i64     u64 -> u64     f8 f16 bf16 f32 -> f32     f64 -> f64

#include "lower/eval/eval.h"
#include "lang/number.h"

#include <math.h>
#include <string.h>

Elem kernel_elem(const Type *t) {
    if (t->ptr) return EL_u64;
    if (elem_is_storage((Elem)t->elem)) return EL_f32;
    return t->elem == EL_index ? EL_i64 : (Elem)t->elem;
}

#define KERNEL(name) static void name(int64_t n, void *restrict o_, const void *a_, const void *b_, const void *c_)
#define LANES(R, T, TC, expr) \
    { \
        R *restrict o = o_; \
        const T *a = a_, *b = b_; \
        const TC *c = c_; \
        (void)a; (void)b; (void)c; \
        for (int64_t i = 0; i < n; i++) o[i] = (R)(expr); \
    }

static inline float canon32(float x) { return x == x ? x : f32_from(0x7fffffffu); }

// ---- integers ------------------------------------------------------------------------------------
// T the type, W the unsigned type that arithmetic is done in, `wide` what division is done in.

#define INTS(X) \
    X(i8,  int8_t,   uint32_t, 8,  sdiv, smod)  X(u8,  uint8_t,  uint32_t, 8,  udiv, umod) \
    X(i16, int16_t,  uint32_t, 16, sdiv, smod)  X(u16, uint16_t, uint32_t, 16, udiv, umod) \
    X(i32, int32_t,  uint32_t, 32, sdiv, smod)  X(u32, uint32_t, uint32_t, 32, udiv, umod) \
    X(i64, int64_t,  uint64_t, 64, sdiv, smod)  X(u64, uint64_t, uint64_t, 64, udiv, umod)

static inline int64_t  sdiv(int64_t a, int64_t b)   { return int_div_floor(a, b); }
static inline int64_t  smod(int64_t a, int64_t b)   { return int_mod_floor(a, b); }
static inline uint64_t udiv(uint64_t a, uint64_t b) { return b ? a / b : 0; }
static inline uint64_t umod(uint64_t a, uint64_t b) { return b ? a % b : 0; }

#define X(K, T, W, bits, div, mod) \
    KERNEL(add_##K) LANES(T, T, T, (W)a[i] + (W)b[i]) \
    KERNEL(sub_##K) LANES(T, T, T, (W)a[i] - (W)b[i]) \
    KERNEL(mul_##K) LANES(T, T, T, (W)a[i] * (W)b[i]) \
    KERNEL(div_##K) LANES(T, T, T, div(a[i], b[i])) \
    KERNEL(rem_##K) LANES(T, T, T, mod(a[i], b[i])) \
    KERNEL(shl_##K) LANES(T, T, T, (uint64_t)b[i] < bits ? (W)a[i] << ((uint64_t)b[i] & (bits - 1)) : 0) \
    KERNEL(shr_##K) LANES(T, T, T, (uint64_t)b[i] < bits ? a[i] >> ((uint64_t)b[i] & (bits - 1)) : a[i] < (T)1 && a[i] ? (T)-1 : 0) \
    KERNEL(and_##K) LANES(T, T, T, a[i] & b[i]) \
    KERNEL(or_##K)  LANES(T, T, T, a[i] | b[i]) \
    KERNEL(xor_##K) LANES(T, T, T, a[i] ^ b[i]) \
    KERNEL(neg_##K) LANES(T, T, T, (W)0 - (W)a[i]) \
    KERNEL(bnot_##K) LANES(T, T, T, ~(W)a[i]) \
    KERNEL(abs_##K) LANES(T, T, T, a[i] < (T)1 && (T)-1 < (T)1 ? (W)0 - (W)a[i] : (W)a[i]) \
    KERNEL(min_##K) LANES(T, T, T, a[i] < b[i] ? a[i] : b[i]) \
    KERNEL(max_##K) LANES(T, T, T, a[i] > b[i] ? a[i] : b[i])
INTS(X)
#undef X

#define COMPARED(X) \
    X(bool, uint8_t) X(i8, int8_t) X(i16, int16_t) X(i32, int32_t) X(i64, int64_t) X(u8, uint8_t) X(u16, uint16_t) \
    X(u32, uint32_t) X(u64, uint64_t) X(f32, float) X(f64, double)
#define X(K, T) \
    KERNEL(eq_##K) LANES(uint8_t, T, T, a[i] == b[i]) \
    KERNEL(ne_##K) LANES(uint8_t, T, T, a[i] != b[i]) \
    KERNEL(lt_##K) LANES(uint8_t, T, T, a[i] <  b[i]) \
    KERNEL(le_##K) LANES(uint8_t, T, T, a[i] <= b[i]) \
    KERNEL(gt_##K) LANES(uint8_t, T, T, a[i] >  b[i]) \
    KERNEL(ge_##K) LANES(uint8_t, T, T, a[i] >= b[i])
COMPARED(X)
#undef X

KERNEL(not_bool) LANES(uint8_t, uint8_t, uint8_t, !a[i])

// ---- floats --------------------------------------------------------------------------------------

KERNEL(add_f32) LANES(float, float, float, canon32(a[i] + b[i]))
KERNEL(sub_f32) LANES(float, float, float, canon32(a[i] - b[i]))
KERNEL(mul_f32) LANES(float, float, float, canon32(a[i] * b[i]))
KERNEL(div_f32) LANES(float, float, float, canon32(a[i] / b[i]))
KERNEL(neg_f32) LANES(float, float, float, -a[i])
KERNEL(add_f64) LANES(double, double, double, a[i] + b[i])
KERNEL(sub_f64) LANES(double, double, double, a[i] - b[i])
KERNEL(mul_f64) LANES(double, double, double, a[i] * b[i])
KERNEL(div_f64) LANES(double, double, double, a[i] / b[i])
KERNEL(neg_f64) LANES(double, double, double, -a[i])

// Ties of equal numbers are told apart by the sign bit, so that -0 < +0.
static inline float min32(float a, float b) {
    float r = a < b || (a == b && f32_bits(a) >> 31) ? a : b;
    return a != a || b != b ? f32_from(0x7fffffffu) : r;
}
static inline float max32(float a, float b) {
    float r = a > b || (a == b && !(f32_bits(a) >> 31)) ? a : b;
    return a != a || b != b ? f32_from(0x7fffffffu) : r;
}
static inline double min64(double a, double b) { return a != a ? a : b != b ? b : a < b || (a == b && signbit(a)) ? a : b; }
static inline double max64(double a, double b) { return a != a ? a : b != b ? b : a > b || (a == b && !signbit(a)) ? a : b; }

KERNEL(min_f32)   LANES(float, float, float, min32(a[i], b[i]))
KERNEL(max_f32)   LANES(float, float, float, max32(a[i], b[i]))
KERNEL(min_f64)   LANES(double, double, double, min64(a[i], b[i]))
KERNEL(max_f64)   LANES(double, double, double, max64(a[i], b[i]))
KERNEL(fma_f32)   LANES(float, float, float, canon32(fmaf(a[i], b[i], c[i])))
KERNEL(fma_f64)   LANES(double, double, double, fma(a[i], b[i], c[i]))
KERNEL(sqrt_f32)  LANES(float, float, float, canon32(sqrtf(a[i])))
KERNEL(sqrt_f64)  LANES(double, double, double, sqrt(a[i]))
KERNEL(isnan_f32) LANES(uint8_t, float, float, a[i] != a[i])
KERNEL(isnan_f64) LANES(uint8_t, double, double, a[i] != a[i])

// One row a function: its name and the C expression in a wider type D, with the wider functions' suffix.
#define MATH(X) \
    X(exp,   F(exp)(x))          X(exp2, F(exp2)(x))     X(log,  F(log)(x))     X(log2, F(log2)(x)) \
    X(rsqrt, 1 / F(sqrt)(x))     X(sin,  F(sin)(x))      X(cos,  F(cos)(x))     X(tanh, F(tanh)(x)) \
    X(erf,   F(erf)(x))          X(floor, F(floor)(x))   X(ceil, F(ceil)(x))    X(round, F(rint)(x)) \
    X(trunc, F(trunc)(x))        X(abs,  F(fabs)(x))
#define F(name) name
#define X(name, expr) static inline float name##_1_f32(double x) { return canon32((float)(expr)); }
MATH(X)
#undef X
#undef F
#define F(name) name##l
#define X(name, expr) static inline double name##_1_f64(long double x) { return (double)(expr); }
MATH(X)
#undef X
#undef F
KERNEL(pow_f32)   LANES(float, float, float, canon32((float)pow(a[i], b[i])))
KERNEL(pow_f64)   LANES(double, double, double, (double)powl(a[i], b[i]))
KERNEL(copysign_f32) LANES(float, float, float, copysignf(a[i], b[i]))
KERNEL(copysign_f64) LANES(double, double, double, copysign(a[i], b[i]))
KERNEL(fmod_f32)  LANES(float, float, float, canon32(fmodf(a[i], b[i])))
KERNEL(fmod_f64)  LANES(double, double, double, fmod(a[i], b[i]))
#define X(name, expr) \
    KERNEL(name##_f32) LANES(float, float, float, name##_1_f32(a[i])) \
    KERNEL(name##_f64) LANES(double, double, double, name##_1_f64(a[i]))
MATH(X)
#undef X

// ---- tables --------------------------------------------------------------------------------------

#define INT_COLUMN(op) \
    [EL_i8] = op##_i8, [EL_i16] = op##_i16, [EL_i32] = op##_i32, [EL_i64] = op##_i64, \
    [EL_u8] = op##_u8, [EL_u16] = op##_u16, [EL_u32] = op##_u32, [EL_u64] = op##_u64
#define FLOAT_COLUMN(op) [EL_f32] = op##_f32, [EL_f64] = op##_f64
#define COMPARE_COLUMN(op) [EL_bool] = op##_bool, INT_COLUMN(op), FLOAT_COLUMN(op)

static Kernel *const binary_kernel[OP_COUNT][EL_COUNT] = {
    [OP_add] = {INT_COLUMN(add), FLOAT_COLUMN(add)}, [OP_sub] = {INT_COLUMN(sub), FLOAT_COLUMN(sub)},
    [OP_mul] = {INT_COLUMN(mul), FLOAT_COLUMN(mul)}, [OP_div] = {INT_COLUMN(div), FLOAT_COLUMN(div)},
    [OP_rem] = {INT_COLUMN(rem)}, [OP_shl] = {INT_COLUMN(shl)}, [OP_shr] = {INT_COLUMN(shr)},
    [OP_and] = {[EL_bool] = and_u8, INT_COLUMN(and)}, [OP_or] = {[EL_bool] = or_u8, INT_COLUMN(or)},
    [OP_xor] = {[EL_bool] = xor_u8, INT_COLUMN(xor)},
    [OP_eq] = {COMPARE_COLUMN(eq)}, [OP_ne] = {COMPARE_COLUMN(ne)}, [OP_lt] = {COMPARE_COLUMN(lt)},
    [OP_le] = {COMPARE_COLUMN(le)}, [OP_gt] = {COMPARE_COLUMN(gt)}, [OP_ge] = {COMPARE_COLUMN(ge)},
};

static Kernel *const unary_kernel[OP_COUNT][EL_COUNT] = {
    [OP_neg] = {INT_COLUMN(neg), FLOAT_COLUMN(neg)}, [OP_bnot] = {INT_COLUMN(bnot)}, [OP_not] = {[EL_bool] = not_bool},
};

static Kernel *const fun_kernel[TF_COUNT][EL_COUNT] = {
#define X(name, expr) [TF_##name] = {FLOAT_COLUMN(name)},
    MATH(X)
#undef X
    [TF_min] = {INT_COLUMN(min), FLOAT_COLUMN(min)}, [TF_max] = {INT_COLUMN(max), FLOAT_COLUMN(max)},
    [TF_fma] = {FLOAT_COLUMN(fma)}, [TF_div_rn] = {FLOAT_COLUMN(div)},
    [TF_sqrt] = {FLOAT_COLUMN(sqrt)}, [TF_sqrt_rn] = {FLOAT_COLUMN(sqrt)}, [TF_isnan] = {FLOAT_COLUMN(isnan)},
    [TF_pow] = {FLOAT_COLUMN(pow)}, [TF_fmod] = {FLOAT_COLUMN(fmod)}, [TF_copysign] = {FLOAT_COLUMN(copysign)},
};
static Kernel *const abs_kernel[EL_COUNT] = {INT_COLUMN(abs), FLOAT_COLUMN(abs)};

Kernel *kernel_binary(AstOp op, Elem e) { return binary_kernel[op][e]; }
Kernel *kernel_unary(AstOp op, Elem e)  { return unary_kernel[op][e]; }
Kernel *kernel_fun(TFun f, Elem e)      { return f == TF_abs ? abs_kernel[e] : fun_kernel[f][e]; }

#define SELECT(bits) \
    KERNEL(select_##bits) \
    { \
        uint##bits##_t *restrict o = o_; \
        const uint8_t *cond = a_; \
        const uint##bits##_t *a = b_, *b = c_; \
        for (int64_t i = 0; i < n; i++) o[i] = cond[i] ? a[i] : b[i]; \
    }
SELECT(8)
SELECT(16)
SELECT(32)
SELECT(64)

Kernel *kernel_select(int bytes) {
    return bytes == 1 ? select_8 : bytes == 2 ? select_16 : bytes == 4 ? select_32 : select_64;
}

// ---- casts ---------------------------------------------------------------------------------------

static inline float bf16_wide(uint16_t h) { return f32_from((uint32_t)h << 16); }

#define WIDENED(X) \
    X(bool, uint8_t, int64_t, )   X(i8, int8_t, int64_t, )    X(i16, int16_t, int64_t, ) X(i32, int32_t, int64_t, ) \
    X(i64, int64_t, int64_t, )    X(u8, uint8_t, int64_t, )   X(u16, uint16_t, int64_t, ) X(u32, uint32_t, int64_t, ) \
    X(u64, uint64_t, uint64_t, )  X(f32, float, float, )      X(f64, double, double, )   X(f16, uint16_t, float, f16_to_f32) \
    X(bf16, uint16_t, float, bf16_wide) X(f8e4m3, uint8_t, float, e4m3_to_f32) X(f8e5m2, uint8_t, float, e5m2_to_f32)
#define X(K, T, W, conv) KERNEL(widen_##K) LANES(W, T, T, conv(a[i]))
WIDENED(X)
#undef X
static Kernel *const widen_kernel[EL_COUNT] = {
#define X(K, T, W, conv) [EL_##K] = widen_##K,
    WIDENED(X)
#undef X
};

// to, lane type, then the value from i64, u64, f32, f64 in x
#define SAT(bits, s) f64_to_int_sat((double)x, bits, s)
#define NARROWED(X) \
    X(bool, uint8_t,  x != 0, x != 0, x != 0, x != 0) \
    X(i8,   int8_t,   x, x, SAT(8, true),   SAT(8, true))   X(u8,  uint8_t,  x, x, SAT(8, false),  SAT(8, false)) \
    X(i16,  int16_t,  x, x, SAT(16, true),  SAT(16, true))  X(u16, uint16_t, x, x, SAT(16, false), SAT(16, false)) \
    X(i32,  int32_t,  x, x, SAT(32, true),  SAT(32, true))  X(u32, uint32_t, x, x, SAT(32, false), SAT(32, false)) \
    X(i64,  int64_t,  x, x, SAT(64, true),  SAT(64, true))  X(u64, uint64_t, x, x, SAT(64, false), SAT(64, false)) \
    X(f32,  float,    x, x, x, canon32((float)x))           X(f64, double,   x, x, x, x) \
    X(f16,  uint16_t, f16_from_f64(i64_sticky(x)),  f16_from_f64(u64_sticky(x)),  f16_from_f32(x),  f16_from_f64(x)) \
    X(bf16, uint16_t, bf16_from_f64(i64_sticky(x)), bf16_from_f64(u64_sticky(x)), bf16_from_f32(x), bf16_from_f64(x)) \
    X(f8e4m3, uint8_t, e4m3_from_f64(i64_sticky(x)), e4m3_from_f64(u64_sticky(x)), e4m3_from_f32(x), e4m3_from_f64(x)) \
    X(f8e5m2, uint8_t, e5m2_from_f64(i64_sticky(x)), e5m2_from_f64(u64_sticky(x)), e5m2_from_f32(x), e5m2_from_f64(x))
#define NARROW(name, T, W, expr) \
    KERNEL(name) \
    { \
        T *restrict o = o_; \
        const W *a = a_; \
        (void)b_; (void)c_; \
        for (int64_t i = 0; i < n; i++) { W x = a[i]; o[i] = (T)(expr); } \
    }
#define X(K, T, from_i, from_u, from_f, from_d) \
    NARROW(narrow_##K##_i, T, int64_t, from_i) NARROW(narrow_##K##_u, T, uint64_t, from_u) \
    NARROW(narrow_##K##_f, T, float, from_f)   NARROW(narrow_##K##_d, T, double, from_d)
NARROWED(X)
#undef X
static Kernel *const narrow_kernel[EL_COUNT][4] = {
#define X(K, ...) [EL_##K] = {narrow_##K##_i, narrow_##K##_u, narrow_##K##_f, narrow_##K##_d},
    NARROWED(X)
#undef X
};

static Elem plain(const Type *t) { return t->ptr ? EL_u64 : t->elem == EL_index ? EL_i64 : (Elem)t->elem; }

Wide wide_of(const Type *t) {
    Elem e = plain(t);
    return e == EL_f64 ? WIDE_F64 : elem_is_float(e) ? WIDE_F32 : e == EL_u64 ? WIDE_U64 : WIDE_I64;
}

Kernel *kernel_widen(const Type *t)              { return widen_kernel[plain(t)]; }
Kernel *kernel_cast(Wide from, const Type *to)   { return narrow_kernel[plain(to)][from]; }

// What is of the type already: an infinity of an f8 stays one.
NARROW(kept_f8e5m2_f, uint8_t, float,  isinf(x) ? f16_from_f32(x) >> 8 : e5m2_from_f32(x))
NARROW(kept_f8e5m2_d, uint8_t, double, isinf(x) ? f16_from_f64(x) >> 8 : e5m2_from_f64(x))

Kernel *kernel_narrow(Wide from, const Type *to) {
    bool f8 = plain(to) == EL_f8e5m2;
    return f8 && from == WIDE_F32 ? kept_f8e5m2_f : f8 && from == WIDE_F64 ? kept_f8e5m2_d : kernel_cast(from, to);
}

void lanes_to_f64(const Type *t, int64_t n, const void *from, double *to) {
    static const Type f64 = {.kind = TY_TILE, .elem = EL_f64};
    unsigned char wide[CHUNK * 8] __attribute__((aligned(64)));
    int size = type_bytes(t);
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        const unsigned char *p = (const unsigned char *)from + i * size;
        if (plain(t) == EL_f64) { memcpy(to + i, p, (size_t)m * 8); continue; }
        kernel_widen(t)(m, wide, p, NULL, NULL);
        kernel_narrow(wide_of(t), &f64)(m, to + i, wide, NULL, NULL);
    }
}

void lanes_to_i64(const Type *t, int64_t n, const void *from, int64_t *to) {
    kernel_widen(t)(n, to, from, NULL, NULL);      // u64 keeps its bits
}

void lane_store(const Type *t, void *data, int64_t lane, int64_t imm) {
    unsigned char *p = (unsigned char *)data + lane * type_bytes(t);
    bool real = !t->ptr && elem_is_float((Elem)t->elem);
    kernel_narrow(real ? WIDE_F64 : WIDE_I64, t)(1, p, &imm, NULL, NULL);
}

int64_t lane_imm(const Type *t, const void *data, int64_t lane) {
    static const Type f64 = {.kind = TY_TILE, .elem = EL_f64};
    const unsigned char *p = (const unsigned char *)data + lane * type_bytes(t);
    int64_t wide = 0, imm;
    kernel_widen(t)(1, &wide, p, NULL, NULL);
    if (t->ptr || !elem_is_float((Elem)t->elem)) return wide;
    kernel_narrow(wide_of(t), &f64)(1, &imm, &wide, NULL, NULL);
    return imm;
}

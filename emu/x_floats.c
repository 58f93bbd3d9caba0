// f32 and f64 arithmetic.
//
// Round-to-nearest without flushing, which is nearly all that compilers emit, has an executor of its own
// per operation; .ftz, .sat and the other rounding modes share a slower general one. The approximate
// functions are computed in double and rounded once.
#include <fenv.h>
#include <math.h>

#include "emu/x_arith.h"

enum { FTZ = 1, SAT = 2, NAN_OUT = 4, XORSIGN = 8, ABS = 16 };

typedef uint32_t u32;
typedef uint64_t u64;

// ---- Fast forms

#define FLOAT2(name, expr)                                                            \
    static void name(Warp *w, const Insn *in) {                                       \
        u32 *d = slot_at(w, in->d);                                                   \
        const float *a = slot_at(w, in->a), *b = slot_at(w, in->b);                   \
        EACH(u32, canonical(expr));                                                   \
    }
FLOAT2(add_f32, a[l] + b[l]) FLOAT2(sub_f32, a[l] - b[l]) FLOAT2(mul_f32, a[l] * b[l]) FLOAT2(div_f32, a[l] / b[l])

static void fma_f32(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const float *a = slot_at(w, in->a), *b = slot_at(w, in->b), *c = slot_at(w, in->c);
    EACH(u32, canonical(fmaf(a[l], b[l], c[l])));
}

static void fma_ftz_f32(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const float *a = slot_at(w, in->a), *b = slot_at(w, in->b), *c = slot_at(w, in->c);
    EACH(u32, canonical(flush(fmaf(flush(a[l]), flush(b[l]), flush(c[l])))));
}
FLOAT2(add_ftz_f32, flush(flush(a[l]) + flush(b[l]))) FLOAT2(sub_ftz_f32, flush(flush(a[l]) - flush(b[l])))
FLOAT2(mul_ftz_f32, flush(flush(a[l]) * flush(b[l]))) FLOAT2(div_ftz_f32, flush(flush(a[l]) / flush(b[l])))

static inline float min_f32_of(float a, float b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return f32_from(f32_bits(a) | f32_bits(b));          // -0 < +0
    return a < b ? a : b;
}
static inline float max_f32_of(float a, float b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return f32_from(f32_bits(a) & f32_bits(b));
    return a > b ? a : b;
}
FLOAT2(min_f32, min_f32_of(a[l], b[l])) FLOAT2(max_f32, max_f32_of(a[l], b[l]))
FLOAT2(min_nan_f32, a[l] != a[l] ? a[l] : b[l] != b[l] ? b[l] : min_f32_of(a[l], b[l]))
FLOAT2(max_nan_f32, a[l] != a[l] ? a[l] : b[l] != b[l] ? b[l] : max_f32_of(a[l], b[l]))

static void abs_f32(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const u32 *a = slot_at(w, in->a);
    EACH(u32, canonical(f32_from(a[l] & 0x7fffffffu)));
}
static void neg_f32(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const u32 *a = slot_at(w, in->a);
    EACH(u32, canonical(f32_from(a[l] ^ 0x80000000u)));
}

#define DOUBLE2(name, expr)                                                           \
    static void name(Warp *w, const Insn *in) {                                       \
        u64 *d = slot_at(w, in->d);                                                   \
        const double *a = slot_at(w, in->a), *b = slot_at(w, in->b);                  \
        EACH(u64, f64_bits(expr));                                                    \
    }
DOUBLE2(add_f64, a[l] + b[l]) DOUBLE2(sub_f64, a[l] - b[l]) DOUBLE2(mul_f64, a[l] * b[l]) DOUBLE2(div_f64, a[l] / b[l])
static inline double min_f64_of(double a, double b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return f64_from(f64_bits(a) | f64_bits(b));
    return a < b ? a : b;
}
static inline double max_f64_of(double a, double b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return f64_from(f64_bits(a) & f64_bits(b));
    return a > b ? a : b;
}
DOUBLE2(min_f64, min_f64_of(a[l], b[l])) DOUBLE2(max_f64, max_f64_of(a[l], b[l]))
static void fma_f64(Warp *w, const Insn *in) {
    u64 *d = slot_at(w, in->d);
    const double *a = slot_at(w, in->a), *b = slot_at(w, in->b), *c = slot_at(w, in->c);
    EACH(u64, f64_bits(fma(a[l], b[l], c[l])));
}
static void abs_f64(Warp *w, const Insn *in) {
    u64 *d = slot_at(w, in->d);
    const u64 *a = slot_at(w, in->a);
    EACH(u64, a[l] & ~(1ull << 63));
}
static void neg_f64(Warp *w, const Insn *in) {
    u64 *d = slot_at(w, in->d);
    const u64 *a = slot_at(w, in->a);
    EACH(u64, a[l] ^ 1ull << 63);
}

// ---- The general form: operation in aux, rounding in imm, FTZ ... in flags

static const int fenv_mode[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

static float compute_f32(int op, float pa, float pb, float pc, int flags) {
    volatile float a = flags & FTZ ? flush(pa) : pa, b = flags & FTZ ? flush(pb) : pb, c = flags & FTZ ? flush(pc) : pc, r;
    u32 sign = (f32_bits(a) ^ f32_bits(b)) & 0x80000000u;
    switch (op) {
    case A_add: r = a + b; break;
    case A_sub: r = a - b; break;
    case A_mul: r = a * b; break;
    case A_fma: r = fmaf(a, b, c); break;
    case A_div: r = a / b; break;
    case A_abs: r = f32_from(f32_bits(a) & 0x7fffffffu); break;
    case A_neg: r = f32_from(f32_bits(a) ^ 0x80000000u); break;
    default:
        if (flags & ABS) a = fabsf(a), b = fabsf(b);
        if (flags & NAN_OUT && (a != a || b != b)) r = NAN;
        else r = op == A_min ? min_f32_of(a, b) : max_f32_of(a, b);
        if (flags & XORSIGN && r == r) r = f32_from((f32_bits(fabsf(r))) | sign);
        break;
    }
    float x = r;
    if (flags & SAT) x = x > 1 ? 1 : x > 0 ? x : 0;
    return flags & FTZ ? flush(x) : x;
}

static void general_f32(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const float *a = slot_at(w, in->a), *b = slot_at(w, in->b == NO_SLOT ? in->a : in->b),
                *c = slot_at(w, in->c == NO_SLOT ? in->a : in->c);
    if (in->imm) fesetround(fenv_mode[in->imm]);
    EACH_ACTIVE({
        float r = compute_f32((int)in->aux, a[l], b[l], c[l], in->flags);
        d[l] = canonical(r);
    });
    if (in->imm) fesetround(FE_TONEAREST);
}

static void three_f32(Warp *w, const Insn *in) {         // min and max of three
    u32 *d = slot_at(w, in->d);
    const float *a = slot_at(w, in->a), *b = slot_at(w, in->b), *c = slot_at(w, in->c);
    EACH_ACTIVE(d[l] = canonical(compute_f32((int)in->aux, compute_f32((int)in->aux, a[l], b[l], 0, in->flags), c[l], 0,
                                             in->flags)));
}

static void general_f64(Warp *w, const Insn *in) {
    u64 *d = slot_at(w, in->d);
    const double *pa = slot_at(w, in->a), *pb = slot_at(w, in->b == NO_SLOT ? in->a : in->b),
                 *pc = slot_at(w, in->c == NO_SLOT ? in->a : in->c);
    fesetround(fenv_mode[in->imm]);
    EACH_ACTIVE({
        volatile double a = pa[l]; volatile double b = pb[l]; volatile double c = pc[l]; volatile double r = 0;
        switch (in->aux) {
        case A_add: r = a + b; break;
        case A_sub: r = a - b; break;
        case A_mul: r = a * b; break;
        case A_div: r = a / b; break;
        default:    r = fma(a, b, c); break;
        }
        d[l] = f64_bits(r);
    });
    fesetround(FE_TONEAREST);
}

static void pair_f32x2(Warp *w, const Insn *in) {
    u64 *d = slot_at(w, in->d);
    const u64 *a = slot_at(w, in->a), *b = slot_at(w, in->b), *c = slot_at(w, in->c == NO_SLOT ? in->a : in->c);
    if (in->imm) fesetround(fenv_mode[in->imm]);
    EACH_ACTIVE({
        u64 lo = canonical(
            compute_f32((int)in->aux, f32_from((u32)a[l]), f32_from((u32)b[l]), f32_from((u32)c[l]), in->flags));
        u64 hi = canonical(compute_f32((int)in->aux, f32_from((u32)(a[l] >> 32)), f32_from((u32)(b[l] >> 32)),
                                       f32_from((u32)(c[l] >> 32)), in->flags));
        d[l] = hi << 32 | lo;
    });
    if (in->imm) fesetround(FE_TONEAREST);
}

// add, sub and fma whose factors are 16-bit and whose other operand and result are f32: `type` says which 16 bits.
static void mixed_f32(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const u32 *a = slot_at(w, in->a), *b = slot_at(w, in->b);
    const float *c = slot_at(w, in->c);
    bool bf = in->type == T_bf16;
    if (in->imm) fesetround(fenv_mode[in->imm]);
    EACH_ACTIVE({
        float x = bf ? bf16_to_f32((uint16_t)a[l]) : f16_to_f32((uint16_t)a[l]);
        float y = in->aux != A_fma ? c[l] : bf ? bf16_to_f32((uint16_t)b[l]) : f16_to_f32((uint16_t)b[l]);
        float r = compute_f32((int)in->aux, x, y, c[l], in->flags);
        d[l] = canonical(r);
    });
    if (in->imm) fesetround(FE_TONEAREST);
}

static void decode_mixed(Dec *d, Arith op, Type half, int round, int flags) {
    bool three = op == A_fma;
    dec_count(d, 3 + three, 3 + three);
    uint32_t a = dec_src(d, 1, half), b = three ? dec_src(d, 2, half) : a, c = dec_src(d, 2 + three, T_f32),
             to = dec_dst(d, 0, T_f32);
    Insn *in = dec_emit(d, mixed_f32);
    in->d = to, in->a = a, in->b = b, in->c = c;
    in->imm = round > 0 ? round : 0, in->aux = op, in->flags = (uint8_t)flags, in->type = (uint8_t)half;
}

static int rounding(Dec *d) {
    return dec_mod(d, "rn") ? R_rn : dec_mod(d, "rz") ? R_rz : dec_mod(d, "rm") ? R_rm : dec_mod(d, "rp") ? R_rp : -1;
}

void VARIANT(decode_float)(Dec *d, Arith op) {
    static InsnFn *const fast32[] = {add_f32, sub_f32, mul_f32, fma_f32, div_f32, min_f32, max_f32, abs_f32, neg_f32};
    static InsnFn *const ftz32[] = {add_ftz_f32, sub_ftz_f32, mul_ftz_f32, fma_ftz_f32, div_ftz_f32};
    static InsnFn *const fast64[] = {add_f64, sub_f64, mul_f64, fma_f64, div_f64, min_f64, max_f64, abs_f64, neg_f64};
    d->cls = EMU_CLASS_FLOAT;
    for (uint32_t i = 0; i < d->n_mods; i++) {
        Type t = d->used >> i & 1 ? T_none : d->types[i];
        if (t == T_f16 || t == T_f16x2 || t == T_bf16 || t == T_bf16x2) {
            VARIANT(decode_half)(d, op);
            return;
        }
        if (t) break;
    }
    int round = rounding(d), flags = 0;
    if (dec_mod(d, "ftz")) flags |= FTZ;
    if (dec_mod(d, "sat")) flags |= SAT;
    bool nan_out = dec_mod(d, "NaN");
    if (nan_out) flags |= NAN_OUT;
    if (op == A_div) { dec_mod(d, "approx"); dec_mod(d, "full"); }
    if (dec_mod(d, "xorsign")) {
        flags |= XORSIGN | ABS;
        dec_mod(d, "abs");
    } else if (op != A_abs && d->n_ops == 4 && dec_mod(d, "abs")) flags |= ABS;
    Type t = dec_need_type(d);
    bool pairs = op == A_add || op == A_sub || op == A_mul || op == A_fma;
    if (t != T_f32 && t != T_f64 && (t != T_f32x2 || !pairs)) dec_error(d, "`%.*s` of .%s", (int)d->name.n, d->name.s, ptx_type_name(t));
    Type half = t == T_f32 && (op == A_add || op == A_sub || op == A_fma) ? dec_type(d) : T_none;
    if (half == T_f16 || half == T_bf16) {
        decode_mixed(d, op, half, round, flags);
        return;
    }
    uint32_t sources = op == A_fma ? 3 : op == A_abs || op == A_neg ? 1 : 2;
    bool three = (op == A_min || op == A_max) && d->n_ops == 4;
    dec_count(d, 1 + sources, 1 + sources + three);
    uint32_t a = dec_src(d, 1, t), b = sources > 1 ? dec_src(d, 2, t) : NO_SLOT,
             c = sources > 2 || three ? dec_src(d, 3, t) : NO_SLOT;
    uint32_t to = dec_dst(d, 0, t);
    InsnFn *fn;
    bool plain = round <= 0 && !flags;
    if (t == T_f64) fn = round > 0 ? general_f64 : fast64[op];
    else if (t == T_f32x2) fn = pair_f32x2;
    else if (three) fn = three_f32;
    else if (plain) fn = fast32[op];
    else if (round <= 0 && flags == FTZ && op <= A_div) fn = ftz32[op];
    else if (round <= 0 && flags == NAN_OUT && op == A_min) fn = min_nan_f32;
    else if (round <= 0 && flags == NAN_OUT && op == A_max) fn = max_nan_f32;
    else fn = general_f32;
    Insn *in = dec_emit(d, fn);
    in->d = to, in->a = a, in->b = b, in->c = c;
    in->imm = round > 0 ? round : 0, in->aux = op, in->flags = (uint8_t)flags;
}

static void decode_fma(Dec *d) { VARIANT(decode_float)(d, A_fma); }

// ---- Functions of one value

typedef enum Unary { U_rcp, U_sqrt, U_rsqrt, U_sin, U_cos, U_lg2, U_ex2, U_tanh } Unary;

static double function_of(Unary u, double x) {
    switch (u) {
    case U_rcp:   return 1 / x;
    case U_sqrt:  return sqrt(x);
    case U_rsqrt: return 1 / sqrt(x);
    case U_sin:   return sin(x);
    case U_cos:   return cos(x);
    case U_lg2:   return log2(x);
    case U_ex2:   return exp2(x);
    default:      return tanh(x);
    }
}

static void function_f32(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const float *a = slot_at(w, in->a);
    bool ftz = in->flags & FTZ;
    if (in->imm >= 0 && in->aux <= U_sqrt) {             // correctly rounded, any mode
        fesetround(fenv_mode[in->imm]);
        EACH_ACTIVE({
            volatile float x = ftz ? flush(a[l]) : a[l]; volatile float one = 1;
            volatile float r = in->aux == U_rcp ? one / x : sqrtf(x);
            d[l] = canonical(ftz ? flush(r) : r);
        });
        fesetround(FE_TONEAREST);
        return;
    }
    EACH_ACTIVE({
        float r = (float)function_of((Unary)in->aux, (double)(ftz ? flush(a[l]) : a[l]));
        d[l] = canonical(ftz ? flush(r) : r);
    });
}

static void function_f64(Warp *w, const Insn *in) {
    u64 *d = slot_at(w, in->d);
    const double *a = slot_at(w, in->a);
    if (in->imm > 0) fesetround(fenv_mode[in->imm]);
    EACH_ACTIVE({ volatile double x = a[l]; d[l] = f64_bits(function_of((Unary)in->aux, x)); });
    if (in->imm > 0) fesetround(FE_TONEAREST);
}

// f16 and bf16, alone or paired, are the same function on each half, rounded once.
static void function_half(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const u32 *a = slot_at(w, in->a);
    bool bf = in->type == T_bf16 || in->type == T_bf16x2, two = ptx_type_kind((Type)in->type) == 'V';
    EACH_ACTIVE({
        u32 r = 0;
        for (int h = 0; h <= two; h++) {
            uint16_t x = (uint16_t)(a[l] >> (16 * h));
            double y = function_of((Unary)in->aux, (double)(bf ? bf16_to_f32(x) : f16_to_f32(x)));
            uint16_t v = y != y ? 0x7fff : bf ? bf16_from_f64(y) : f16_from_f64(y);
            if (in->flags & FTZ && bf && !(v & 0x7f80)) v &= 0x8000;
            r |= (u32)v << (16 * h);
        }
        d[l] = r;
    });
}

static void function(Dec *d, Unary u) {
    int round = rounding(d), flags = dec_mod(d, "ftz") ? FTZ : 0;
    dec_mod(d, "approx");
    Type t = dec_need_type(d);
    dec_count(d, 2, 2);
    uint32_t a = dec_src(d, 1, t), to = dec_dst(d, 0, t);
    bool half = t == T_f16 || t == T_f16x2 || t == T_bf16 || t == T_bf16x2;
    if (!half && t != T_f32 && t != T_f64) dec_error(d, "`%.*s` of .%s", (int)d->name.n, d->name.s, ptx_type_name(t));
    Insn *in = dec_emit(d, half ? function_half : t == T_f32 ? function_f32 : function_f64);
    in->d = to, in->a = a, in->imm = round, in->aux = u, in->flags = (uint8_t)flags, in->type = (uint8_t)t;
}
static void decode_rcp(Dec *d)   { function(d, U_rcp); }
static void decode_sqrt(Dec *d)  { function(d, U_sqrt); }
static void decode_rsqrt(Dec *d) { function(d, U_rsqrt); }
static void decode_sin(Dec *d)   { function(d, U_sin); }
static void decode_cos(Dec *d)   { function(d, U_cos); }
static void decode_lg2(Dec *d)   { function(d, U_lg2); }
static void decode_ex2(Dec *d)   { function(d, U_ex2); }
static void decode_tanh(Dec *d)  { function(d, U_tanh); }

// ---- testp and copysign

static bool tested(int what, u64 exponent, u64 mantissa, u64 most) {
    switch (what) {
    case 0:  return exponent != most;                    // finite
    case 1:  return exponent == most && !mantissa;       // infinite
    case 2:  return !(exponent == most && mantissa);     // number
    case 3:  return exponent == most && mantissa;        // notanumber
    case 4:  return exponent && exponent != most;        // normal
    default: return !exponent && mantissa;               // subnormal
    }
}
static void x_testp(Warp *w, const Insn *in) {
    u32 m = 0, *d = pred(w, in->d);
    EACH_ACTIVE({
        u64 x = in->type == T_f32 ? lane32(w, in->a)[l] : lane64(w, in->a)[l];
        bool t = in->type == T_f32 ? tested((int)in->imm, x >> 23 & 0xff, x & 0x7fffff, 0xff)
                                   : tested((int)in->imm, x >> 52 & 0x7ff, x & 0xfffffffffffffull, 0x7ff);
        m |= (u32)t << l;
    });
    *d = blend_pred(*d, m, w->active);
}
static void decode_testp(Dec *d) {
    static const char *const names[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    int what = -1;
    for (int i = 0; i < 6; i++)
        if (dec_mod(d, names[i])) what = i;
    Type t = dec_need_type(d);
    dec_count(d, 2, 2);
    if (what < 0 || (t != T_f32 && t != T_f64)) dec_error(d, "`testp` needs a test and .f32 or .f64");
    uint32_t a = dec_src(d, 1, t), p = dec_pred_dst(d, dec_op(d, 0));
    Insn *in = dec_emit(d, x_testp);
    in->d = p, in->a = a, in->imm = what, in->type = (uint8_t)t;
}
static void copysign_f32(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const u32 *a = slot_at(w, in->a), *b = slot_at(w, in->b);
    EACH(u32, (a[l] & 0x80000000u) | (b[l] & 0x7fffffffu));
}
static void copysign_f64(Warp *w, const Insn *in) {
    u64 *d = slot_at(w, in->d);
    const u64 *a = slot_at(w, in->a), *b = slot_at(w, in->b);
    EACH(u64, (a[l] & 1ull << 63) | (b[l] & ~(1ull << 63)));
}
static void decode_copysign(Dec *d) {
    Type t = dec_need_type(d);
    dec_count(d, 3, 3);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, t), to = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, t == T_f64 ? copysign_f64 : copysign_f32);
    in->d = to, in->a = a, in->b = b;
}

// clang-format off
const InsnDef VARIANT(defs_floats)[] = {
    {"fma",   decode_fma,   EMU_CLASS_FLOAT}, {"rcp",   decode_rcp,   EMU_CLASS_FLOAT}, {"sqrt",     decode_sqrt,     EMU_CLASS_FLOAT},
    {"rsqrt", decode_rsqrt, EMU_CLASS_FLOAT}, {"sin",   decode_sin,   EMU_CLASS_FLOAT}, {"cos",      decode_cos,      EMU_CLASS_FLOAT},
    {"lg2",   decode_lg2,   EMU_CLASS_FLOAT}, {"ex2",   decode_ex2,   EMU_CLASS_FLOAT}, {"tanh",     decode_tanh,     EMU_CLASS_FLOAT},
    {"testp", decode_testp, EMU_CLASS_FLOAT}, {"copysign", decode_copysign, EMU_CLASS_FLOAT}, {NULL, NULL, 0},
};

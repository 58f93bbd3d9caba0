// The functions, step by step.
//
// On a GPU a function costs what it issues, so each is a straight line: both forms of a piecewise
// function are computed and one is selected; constants sit in the instructions; nothing is looked up
// in memory. The special-function unit (EX2, RCP, RSQ, LG2) is used where its error leaves room,
// which on a Hopper was measured over all inputs (docs/math.md), and otherwise polynomials are
// (bench/math_fit.py). Only sin and cos have a second, rare path: arguments from 2^18 on are
// multiplied by as many bits of 2/pi as they need.
//
//     exp(x)    n = rint(x log2(e) - 1/2),  f = x log2(e) - n in 0 .. 1,  2^f by EX2,  2^n by its bits
//               x = 1:  n = 1,  f = 0.442695,  1.359141 * 2
//
// How special values come out right without being asked for: a NaN reaches the result through an
// FMA; infinities through f, which EX2 takes to 0 or infinity while n is clamped; -0 because odd
// polynomials end in fma(t, x, x) with t = +0 there, and pi/2 is taken away in parts of one sign.

#include "lower/math_kit.h"

const MathFnInfo math_fns[MATH_FN_COUNT] = {
#define X(name, ...) {#name, __VA_ARGS__},
    MATH_FNS(X)
#undef X
};

const MathOpInfo math_ops[MOP_COUNT] = {
#define X(name, args, result, operands, ptx, meaning) {#name, args, MR_##result, ptx, meaning},
    MATH_OPS(X)
#undef X
};

MathType math_result(MathOp op, MathType type) {
    bool wide = type == MT_I64 || type == MT_F64;
    switch (math_ops[op].result) {
    case MR_SAME:   return type;
    case MR_BIT:    return MT_I1;
    case MR_INT_OF: return wide ? MT_I64 : MT_I32;
    case MR_FLT_OF: return wide ? MT_F64 : MT_F32;
    case MR_I64:    return MT_I64;
    case MR_I32:    return MT_I32;
    case MR_F32:    return MT_F32;
    }
    assert(!"a result rule that math_result does not know");
    return type;
}

// p x^3 + x for p a polynomial in s = x^2; -0 stays -0 whatever the sign of p(0).
static V odd(const Kit *k, V x, V s, const double *c, int n) {
    V t = mad(k, horner(k, s, c, n), s, num(k, 0));
    return mad(k, t, x, x);
}

// ---------------------------------------------------------------------------------------- f32

#define LOG2E      0x1.715476p+0               // log2(e) in two parts
#define LOG2E_LO   0x1.4ae0cp-26
#define LN2        0x1.62e43p-1
#define MAGIC32    0x1.8p23                    // adding it leaves an integer in the low bits

// e^x = *pow * *scale, scale a power of two, pow = 2^f. Exponents of 1 .. 254 are clamped by the
// saturating FMA; beyond them f leaves 0 .. 1 and pow takes over.
static void exp_parts(const Kit *k, V x, double sign, V *pow, V *scale) {
    V u = step(k, MOP_fma_sat, k->f, x, num(k, sign * 0x1.75b598p-8), num(k, 0x1.fbf3dcp-2));
    V n = mad(k, u, num(k, 253), num(k, MAGIC32 + 1));         // u = (x log2(e) + 125.5) / 253
    V minus_j = sub(k, num(k, MAGIC32 + 127), n);
    V f = mad(k, x, num(k, sign * LOG2E), minus_j);
    f = mad(k, x, num(k, sign * LOG2E_LO), f);
    *pow = fun(k, MOP_ex2_ftz, f);
    *scale = unbits(k, int_op(k, MOP_shl, bits(k, n), whole(k, 23)));
}

static V exp32(const Kit *k, V x) {
    V pow, scale;
    exp_parts(k, x, 1, &pow, &scale);
    return mul(k, pow, scale);
}

static V sigmoid32(const Kit *k, V x) {
    V pow, scale;
    exp_parts(k, x, -1, &pow, &scale);
    return fun(k, MOP_rcp_ftz, mad(k, pow, scale, num(k, 1)));
}

// x = 2^e m with m in 2/3 .. 4/3; log(m) by a polynomial in m - 1. LG2 is there for the logarithms of
// zeros, infinities, NaNs and negative numbers.
static V log32(const Kit *k, V x, double per_e, double per_log) {
    static const double LOG[] = {                                              // 2^-27.3
        -0x1.0aa558p-3, 0x1.1e231ep-3, -0x1.f1b986p-4, 0x1.1eea36p-3, -0x1.55aba2p-3,
        0x1.99ce7ep-3, -0x1.fffe9ap-3, 0x1.55550cp-2, -0.5,
    };
    V tiny = less(k, x, num(k, 0x1p-126));
    V up   = pick(k, tiny, mul(k, x, num(k, 0x1p24)), x);
    V u    = bits(k, up);
    V e    = int_op(k, MOP_iand, int_op(k, MOP_isub, u, whole(k, 0x3f2aaaab)), whole(k, 0xff800000));
    V f    = sub(k, unbits(k, int_op(k, MOP_isub, u, e)), num(k, 1));
    V n    = mad(k, step(k, MOP_i2f, k->i, e, NULL, NULL), num(k, 0x1p-23),
                 pick(k, tiny, num(k, -24), num(k, 0)));
    V r    = mad(k, mul(k, f, f), horner(k, f, LOG, COUNT(LOG)), f);
    V y    = per_log == 1 ? mad(k, n, num(k, per_e), r) : mad(k, r, num(k, per_log), n);
    V fine = int_op(k, MOP_ult, int_op(k, MOP_isub, u, whole(k, 0x00800000)), whole(k, 0x7f000000));
    return pick(k, fine, y, fun(k, MOP_lg2_ftz, up));
}

// words[0] becomes the word that bit n is in, of `width` bits each; the others follow. n / width < 2^levels.
static void words_from(const Kit *k, V *words, int count, V n, uint64_t width, int levels) {
    for (int level = levels; level--;) {
        V zero = int_op(k, MOP_iand, n, whole(k, width << level));
        V here = int_op(k, MOP_ieq, zero, whole(k, 0));
        count -= 1 << level;
        for (int i = 0; i < count; i++) words[i] = pick_int(k, here, words[i], words[i + (1 << level)]);
    }
}

// Quarter turns of x mod 4, plus 3, and the rest, by Payne and Hanek: x times those 96 bits of 2/pi
// that make up its last two integer bits and 94 bits of fraction.
static void turns32(MathBuilder *b, V *vals, const void *env) {
    static const uint32_t TWO_OVER_PI[] = {
        0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041,
    };
    const Kit k32 = {b, MT_F32, MT_I32}, *k = &k32;
    const Kit k64 = {b, MT_F64, MT_I64}, *w = &k64;
    V x = *(const V *)env;
    V u = bits(k, mag(k, x));
    V m = int_op(k, MOP_ior, int_op(k, MOP_shl, u, whole(k, 8)), whole(k, 0x80000000));
    V n = int_op(k, MOP_isub, int_op(k, MOP_lshr, u, whole(k, 23)), whole(k, 128));   // first bit

    V words[COUNT(TWO_OVER_PI)];
    for (int i = 0; i < COUNT(words); i++) words[i] = whole(k, TWO_OVER_PI[i]);
    words_from(k, words, COUNT(words), n, 32, 2);
    V shift = int_op(k, MOP_iand, n, whole(k, 31));
    V v[3];
    for (int i = 0; i < 3; i++) v[i] = step(k, MOP_fshl, k->i, words[i], words[i + 1], shift);

    V m64 = step(k, MOP_zext, MT_I32, m, NULL, NULL);
    V low = step(k, MOP_zext, MT_I32, int_op(k, MOP_umulhi, m, v[2]), NULL, NULL);
    V mid = int_op(w, MOP_imul, m64, step(k, MOP_zext, MT_I32, v[1], NULL, NULL));
    V top = step(k, MOP_zext, MT_I32, int_op(k, MOP_imul, m, v[0]), NULL, NULL);
    V p = int_op(w, MOP_iadd, int_op(w, MOP_iadd, mid, low), int_op(w, MOP_shl, top, whole(w, 32)));

    V near = int_op(w, MOP_iadd, p, whole(w, 1ull << 61));
    V q    = int_op(w, MOP_lshr, near, whole(w, 62));
    V rest = int_op(w, MOP_isub, p, int_op(w, MOP_shl, q, whole(w, 62)));
    V r    = mul(w, step(w, MOP_i2f, w->i, rest, NULL, NULL), num(w, 0x1.921fb54442d18p-62));
    V r32  = step(w, MOP_narrow, w->f, r, NULL, NULL);

    V sign = int_op(k, MOP_ashr, bits(k, x), whole(k, 31));          // all ones for a negative x
    V q32  = step(w, MOP_trunc, w->i, q, NULL, NULL);
    q32  = int_op(k, MOP_isub, int_op(k, MOP_ixor, q32, sign), sign);
    q32  = int_op(k, MOP_iadd, q32, whole(k, 3));
    sign = int_op(k, MOP_iand, sign, whole(k, 0x80000000));
    r32  = unbits(k, int_op(k, MOP_ixor, bits(k, r32), sign));
    V finite = int_op(k, MOP_ult, u, whole(k, 0x7f800000));
    vals[0] = pick_int(k, finite, q32, whole(k, 0xffffffff));
    vals[1] = pick(k, finite, r32, unbits(k, whole(k, 0x7fffffff)));
}

// cos(r) where q, a count of quarter turns, is odd, else sin(r); negative where its bit 1 is not set. width: bits of a
// float.
static V by_quarter(const Kit *k, V q, V by_sin, V by_cos, int width) {
    const uint64_t sign = 1ull << (width - 1);
    V even = int_op(k, MOP_ieq, int_op(k, MOP_iand, q, whole(k, 1)), whole(k, 0));
    V y = pick(k, even, by_sin, by_cos);
    V keep = int_op(k, MOP_iand, int_op(k, MOP_shl, q, whole(k, (uint64_t)width - 2)), whole(k, sign));
    V flip = int_op(k, MOP_ixor, keep, whole(k, sign));
    return unbits(k, int_op(k, MOP_ixor, bits(k, y), flip));
}

// The polynomials of a type, and what reduces large x.
typedef struct Sine { const double *sin, *cos; int nsin, ncos; MathBody *turns; int bits; } Sine;

// vals: bits of n, and r.
static V by_turns(const Kit *k, V x, bool cosine, V vals[2], V huge, const Sine *t) {
    k->b->rarely(k->b, huge, t->turns, vals, (MathType[]){k->i, k->f}, 2, &x);
    V q = cosine ? vals[0] : int_op(k, MOP_isub, vals[0], whole(k, 1)), r = vals[1];
    V s = mul(k, r, r);
    V by_sin = odd(k, r, s, t->sin, t->nsin);
    V by_cos = horner(k, s, t->cos, t->ncos);
    return by_quarter(k, q, by_sin, by_cos, t->bits);
}

// sin(x) or cos(x). x = j pi/2 + r, j + 3 in the low bits of n; so n's bit 0 tells cos(r) from sin(r)
// for the cosine, n - 1's for the sine, and the sign stays where bit 1 is set. (For a NaN, whose bits
// are all ones, it does. Both share n and r, if the compiler meets both.)
static V sine32(const Kit *k, V x, bool cosine) {
    static const double SIN[] = {-0x1.990d72p-13, 0x1.1106aap-7, -0x1.555544p-3};      // 2^-27.7
    static const double COS[] = {0x1.999126p-16, -0x1.6c0af4p-10, 0x1.555548p-5, -0.5, 1};
    V n = mad(k, x, num(k, 0x1.45f306p-1), num(k, MAGIC32 + 3));
    V j = sub(k, n, num(k, MAGIC32 + 3));
    V r = mad(k, j, num(k, -0x1.921fb4p+0), x);        // three negative parts: -0 stays -0
    r = mad(k, j, num(k, -0x1.4442dp-24), r);
    r = mad(k, j, num(k, -0x1.846988p-48), r);
    V huge = at_least(k, mag(k, x), num(k, 0x1p18));
    V vals[2] = {bits(k, n), r};
    return by_turns(k, x, cosine, vals, huge, &(Sine){SIN, COS, COUNT(SIN), COUNT(COS), turns32, 32});
}

static V tanh32(const Kit *k, V x) {
    static const double TANH[] = {0x1.0279cap-6, -0x1.ac84a6p-5, 0x1.10b01ap-3, -0x1.5553a0p-2};
    V t = mag(k, x);
    V e = fun(k, MOP_ex2_ftz, mul(k, t, num(k, 2 * LOG2E)));
    V big = mad(k, fun(k, MOP_rcp_ftz, add(k, e, num(k, 1))), num(k, -2), num(k, 1));
    V small = odd(k, x, mul(k, x, x), TANH, COUNT(TANH));
    return pick(k, at_least(k, t, num(k, 0x1.2e147ap-1)), sign_of(k, big, x), small);   // 0.59
}

static V erf32(const Kit *k, V x) {
    static const double ERF[] = {                                              // to 0.85, 2^-27.1
        -0x1.4cd85ep-11, 0x1.4b763p-8, -0x1.b735eap-6, 0x1.ce256ap-4, -0x1.812726p-2, 0x1.06eba8p-3,
    };
    static const double LOG2_ERFC[] = {                                        // from 0.84, 2^-28.2
        0x1.468a8ap-12, -0x1.316a48p-8, 0x1.0f19c4p-5, -0x1.373b80p-3, -0x1.d589bcp-1, -0x1.a0ccdap+0,
    };
    V t = mag(k, x), s = mul(k, x, x), c = lesser(k, t, num(k, 4));
    V p = mul(k, horner(k, c, LOG2_ERFC, COUNT(LOG2_ERFC)), c);
    V big = sub(k, num(k, 1), fun(k, MOP_ex2_ftz, p));
    V small = mad(k, horner(k, s, ERF, COUNT(ERF)), x, x);
    return pick(k, at_least(k, t, num(k, 0x1.b33334p-1)), sign_of(k, big, x), small);   // 0.85
}

// erf(x) = tanh(x p(x^2)) to 2^-14; p turns down past x^2 = 13, where both are 1 already.
static V erf_fast(const Kit *k, V x) {
    static const double ARG[] = {-0x1.a7f444p-10, 0x1.a88638p-4, 0x1.20d92cp+0};
    V s = lesser(k, mul(k, x, x), num(k, 13));
    return fun(k, MOP_tanh, mul(k, x, horner(k, s, ARG, COUNT(ARG))));
}

static V build32(const Kit *k, MathFn fn, MathMode mode, V x, V y) {
    bool fast = mode == MATH_FAST, precise = mode == MATH_PRECISE;
    switch (fn) {
    case MATH_exp:
        return fast ? fun(k, MOP_ex2_ftz, mul(k, x, num(k, LOG2E))) : exp32(k, x);
    case MATH_exp2:  return fun(k, MOP_ex2_ftz, x);
    case MATH_log:
        return fast ? mul(k, fun(k, MOP_lg2_ftz, x), num(k, LN2)) : log32(k, x, LN2, 1);
    case MATH_log2:  return fast ? fun(k, MOP_lg2_ftz, x) : log32(k, x, 1, LOG2E);
    case MATH_sqrt:  return fun(k, precise ? MOP_sqrt_rn : fast ? MOP_sqrt_ftz : MOP_sqrt, x);
    case MATH_rsqrt: return fun(k, fast ? MOP_rsq_ftz : MOP_rsq, x);
    case MATH_recip: return fun(k, precise ? MOP_rcp_rn : fast ? MOP_rcp_ftz : MOP_rcp, x);
    case MATH_div:
        return step(k, precise ? MOP_div_rn : fast ? MOP_div_ftz : MOP_div_full, k->f, x, y, NULL);
    case MATH_sin:   return fast ? fun(k, MOP_sin_ftz, x) : sine32(k, x, false);
    case MATH_cos:   return fast ? fun(k, MOP_cos_ftz, x) : sine32(k, x, true);
    case MATH_tanh:  return fast ? fun(k, MOP_tanh, x) : tanh32(k, x);
    case MATH_erf:   return fast ? erf_fast(k, x) : erf32(k, x);
    case MATH_pow:   return math_pow(k, mode, x, y);
    case MATH_fmod:  return math_fmod(k, x, y);
    case MATH_sigmoid:
        if (!fast) return sigmoid32(k, x);
        x = fun(k, MOP_ex2_ftz, mul(k, x, num(k, -LOG2E)));
        return fun(k, MOP_rcp_ftz, add(k, x, num(k, 1)));
    case MATH_FN_COUNT: break;
    }
    assert(!"a function without an f32 form");
    return x;
}

// ---------------------------------------------------------------------------------------- f64
//
// The same shapes with longer polynomials, and IEEE division and square root, which are sequences
// of FMAs here anyway. No f64 form uses an approximate step, so host and GPU agree in every bit.

#define LN2_HI     0x1.62e42fefa39efp-1
#define LN2_LO     0x1.abc9e3b39803fp-56
#define LOG2E_64   0x1.71547652b82fep+0
#define LOG2E_64LO 0x1.777d0ffda0d24p-56
#define MAGIC64    0x1.8p52

static V clamp(const Kit *k, V x, double lo, double hi) {         // keeps NaN
    x = pick(k, less(k, x, num(k, lo)), num(k, lo), x);
    return pick(k, less(k, num(k, hi), x), num(k, hi), x);
}

// e^r 2^n, r within ln(2) / 2 of 0, n in the low bits of magic + n
static V exp_scaled64(const Kit *k, V r, V with_n) {
    static const double EXP[] = {                                              // 2^-57.9
        0x1.ada86eac5fb96p-26, 0x1.28af0f6fb99f2p-22, 0x1.71df102d35295p-19, 0x1.a019985cce98fp-16,
        0x1.a01a0131a9e59p-13, 0x1.6c16c184c32e9p-10, 0x1.1111111126ca0p-7, 0x1.55555555505dfp-5,
        0x1.55555555554fcp-3, 0x1.000000000000ap-1,
    };
    V e = add(k, mad(k, mul(k, r, r), horner(k, r, EXP, COUNT(EXP)), r), num(k, 1));
    V n = int_op(k, MOP_isub, bits(k, with_n), whole(k, 0x4338000000000000));
    return scaled(k, e, n);
}

static V exp64(const Kit *k, V x) {
    x = clamp(k, x, -746, 710);
    V n = mad(k, x, num(k, LOG2E_64), num(k, MAGIC64));
    V j = sub(k, n, num(k, MAGIC64));
    V r = mad(k, j, num(k, -LN2_LO), mad(k, j, num(k, -LN2_HI), x));
    return exp_scaled64(k, r, n);
}

static V exp2_64(const Kit *k, V x) {
    x = clamp(k, x, -1080, 1025);
    V n = add(k, x, num(k, MAGIC64));
    V f = sub(k, x, sub(k, n, num(k, MAGIC64)));
    V r = mad(k, f, num(k, LN2_HI), mul(k, f, num(k, LN2_LO)));
    return exp_scaled64(k, r, n);
}

// x = 2^e m with m in 1/sqrt(2) .. sqrt(2); log(m) = 2 atanh(s), s = f / (2 + f), f = m - 1
static V log64(const Kit *k, V x, bool base2) {
    static const double ATANH[] = {                                            // 2^-59.5
        0x1.2f133f01b459cp-3, 0x1.39a06fcb58384p-3, 0x1.74664ae02fb28p-3, 0x1.c71c51d369a19p-3,
        0x1.249249422de07p-2, 0x1.999999997f9d8p-2, 0x1.5555555555593p-1,
    };
    V tiny = less(k, x, num(k, 0x1p-1022));
    V up   = pick(k, tiny, mul(k, x, num(k, 0x1p54)), x);
    V u    = bits(k, up);
    V e    = int_op(k, MOP_ashr, int_op(k, MOP_isub, u, whole(k, 0x3fe6a09e667f3bcd)), whole(k, 52));
    V f    = sub(k, unbits(k, int_op(k, MOP_isub, u, int_op(k, MOP_shl, e, whole(k, 52)))), num(k, 1));
    V n    = add(k, step(k, MOP_i2f, k->i, e, NULL, NULL), pick(k, tiny, num(k, -54), num(k, 0)));
    V s    = step(k, MOP_div_rn, k->f, f, add(k, f, num(k, 2)), NULL);
    V z    = mul(k, s, s);
    V half = mul(k, mul(k, f, f), num(k, 0.5));
    V r    = mad(k, horner(k, z, ATANH, COUNT(ATANH)), z, half);     // log(m) = f - half + s r
    V y;
    if (base2) {
        V l = sub(k, f, sub(k, half, mul(k, s, r)));
        y = mad(k, l, num(k, LOG2E_64), mad(k, l, num(k, LOG2E_64LO), n));
    } else {
        V t = mad(k, s, r, mul(k, n, num(k, LN2_LO)));
        y = mad(k, n, num(k, LN2_HI), sub(k, f, sub(k, half, t)));
    }
    V fine = int_op(k, MOP_ult, int_op(k, MOP_isub, u, whole(k, 0x0010000000000000)),
                    whole(k, 0x7fe0000000000000));
    V infinity = unbits(k, whole(k, 0x7ff0000000000000));
    V odd_case = mad(k, up, infinity, infinity);                     // infinity, or NaN
    V zero = int_op(k, MOP_ieq, int_op(k, MOP_shl, u, whole(k, 1)), whole(k, 0));
    odd_case = pick(k, zero, unbits(k, whole(k, 0xfff0000000000000)), odd_case);
    return pick(k, fine, y, odd_case);
}

// As turns32, with 192 bits of 2/pi out of 1216.
static void turns64(MathBuilder *b, V *vals, const void *env) {
    static const uint64_t TWO_OVER_PI[] = {
        0,                  0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
        0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
        0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
        0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
        0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08,
    };
    const Kit k64 = {b, MT_F64, MT_I64}, *k = &k64;
    V x = *(const V *)env;
    V u = bits(k, mag(k, x));
    V m = int_op(k, MOP_ior, int_op(k, MOP_shl, u, whole(k, 11)), whole(k, 1ull << 63));
    V n = int_op(k, MOP_isub, int_op(k, MOP_lshr, u, whole(k, 52)), whole(k, 1024));

    V words[COUNT(TWO_OVER_PI)];
    for (int i = 0; i < COUNT(words); i++) words[i] = whole(k, TWO_OVER_PI[i]);
    words_from(k, words, COUNT(words), n, 64, 4);
    V shift = int_op(k, MOP_iand, n, whole(k, 63));
    V v[3];
    for (int i = 0; i < 3; i++) v[i] = step(k, MOP_fshl, k->i, words[i], words[i + 1], shift);

    V low   = int_op(k, MOP_umulhi, m, v[2]);
    V lo    = int_op(k, MOP_iadd, int_op(k, MOP_imul, m, v[1]), low);
    V carry = pick_int(k, int_op(k, MOP_ult, lo, low), whole(k, 1), whole(k, 0));
    V hi    = int_op(k, MOP_iadd, int_op(k, MOP_umulhi, m, v[1]), int_op(k, MOP_imul, m, v[0]));
    hi = int_op(k, MOP_iadd, hi, carry);

    V q = int_op(k, MOP_lshr, int_op(k, MOP_iadd, hi, whole(k, 1ull << 61)), whole(k, 62));
    hi = int_op(k, MOP_isub, hi, int_op(k, MOP_shl, q, whole(k, 62)));
    V back = int_op(k, MOP_ashr, hi, whole(k, 63));                   // the rest below 0: negate it
    hi = int_op(k, MOP_ixor, hi, back);
    lo = int_op(k, MOP_ixor, lo, back);

    V part[4];                                                        // 32 bits each, exact
    for (int i = 0; i < 4; i++) {
        V half = i < 2 ? hi : lo;
        half = i % 2 == 0 ? int_op(k, MOP_lshr, half, whole(k, 32))
                          : int_op(k, MOP_iand, half, whole(k, 0xffffffff));
        static const double UNIT[] = {0x1p-30, 0x1p-62, 0x1p-94, 0x1p-126};
        part[i] = mul(k, step(k, MOP_i2f, k->i, half, NULL, NULL), num(k, UNIT[i]));
    }
    V a = add(k, part[0], part[1]);
    V t = add(k, sub(k, part[1], sub(k, a, part[0])), add(k, part[2], part[3]));
    V s = add(k, a, t);
    t = add(k, sub(k, a, s), t);
    V r = mad(k, t, num(k, 0x1.921fb54442d18p+0), mul(k, s, num(k, 0x1.1a62633145c07p-54)));
    r = mad(k, s, num(k, 0x1.921fb54442d18p+0), r);

    V sign = int_op(k, MOP_ashr, bits(k, x), whole(k, 63));
    V flip = int_op(k, MOP_iand, int_op(k, MOP_ixor, sign, back), whole(k, 1ull << 63));
    V finite = int_op(k, MOP_ult, u, whole(k, 0x7ff0000000000000));
    r = unbits(k, int_op(k, MOP_ixor, bits(k, r), flip));
    q = int_op(k, MOP_isub, int_op(k, MOP_ixor, q, sign), sign);
    q = int_op(k, MOP_iadd, q, whole(k, 3));
    vals[0] = pick_int(k, finite, q, whole(k, UINT64_MAX));
    vals[1] = pick(k, finite, r, unbits(k, whole(k, 0x7ff8000000000000)));
}

static V sine64(const Kit *k, V x, bool cosine) {
    static const double SIN[] = {                                              // 2^-57.5
        0x1.5d6b1fdd26e3fp-33, -0x1.ae5ddd5f7c170p-26, 0x1.71de34ca2b0b4p-19, -0x1.a01a019b4b70ep-13,
        0x1.111111110f25fp-7, -0x1.5555555555545p-3,
    };
    static const double COS[] = {                                              // 2^-63.5
        -0x1.8f7c8b08e0eb0p-37, 0x1.1ee98ae3a7f58p-29, -0x1.27e4f77ad565cp-22, 0x1.a01a019beb593p-16,
        -0x1.6c16c16c1498ep-10, 0x1.5555555555548p-5, -0.5, 1,
    };
    V n = mad(k, x, num(k, 0x1.45f306dc9c883p-1), num(k, MAGIC64 + 3));
    V j = sub(k, n, num(k, MAGIC64 + 3));
    V r = mad(k, j, num(k, -0x1.921fb54442d18p+0), x);
    r = mad(k, j, num(k, -0x1.1a62633145c06p-54), r);
    r = mad(k, j, num(k, -0x1.c1cd129024e08p-107), r);
    V huge = at_least(k, mag(k, x), num(k, 0x1p30));
    V vals[2] = {bits(k, n), r};
    return by_turns(k, x, cosine, vals, huge, &(Sine){SIN, COS, COUNT(SIN), COUNT(COS), turns64, 64});
}

static V tanh64(const Kit *k, V x) {
    static const double TANH[] = {                                             // to 0.6, 2^-57.8
        -0x1.203a61ffde22ep-16, 0x1.4cacf5282f2bdp-14, -0x1.e32e5d46aa790p-13, 0x1.33db397abfae4p-11,
        -0x1.7d79def2d6061p-10, 0x1.d6d0c6b31161ap-9, -0x1.226e22978d0bbp-7, 0x1.664f47f049d67p-6,
        -0x1.ba1ba1b781f2bp-5, 0x1.111111110e1d3p-3, -0x1.5555555555530p-2,
    };
    V t = mag(k, x);
    V e = exp64(k, add(k, t, t));
    V big = sub(k, num(k, 1), step(k, MOP_div_rn, k->f, num(k, 2), add(k, e, num(k, 1)), NULL));
    V small = odd(k, x, mul(k, x, x), TANH, COUNT(TANH));
    return pick(k, at_least(k, t, num(k, 0.6)), sign_of(k, big, x), small);
}

// From 1 on, 1 - e^(-x^2) g(v) with v = (x - 2) / (x + 2).
static V erf64(const Kit *k, V x) {
    static const double ERF[] = {                                              // to 1, 2^-56
        -0x1.a23bc2d9a86f6p-31, 0x1.d3dd03713051fp-27, -0x1.5b8c587f47c6cp-23, 0x1.b96b54bf67b90p-20,
        -0x1.f4c82ecba9dbcp-17, 0x1.f9a296b1d4444p-14, -0x1.c02daeb6f0c92p-11, 0x1.565bcceed9ef5p-8,
        -0x1.b82ce311a97c8p-6, 0x1.ce2f21a03f8b9p-4, -0x1.812746b03799dp-2, 0x1.06eba8214db68p-3,
    };
    static const double ERFC[] = {                                             // to 6, 2^-60
        -0x1.af77f0bd491fep-17, -0x1.c335d03d5a013p-16, 0x1.cd4b16e1fce86p-16, 0x1.6d7b33b5f5501p-13,
        0x1.6d440167177c4p-15, -0x1.016b2e4d47d25p-10, -0x1.bc258aa9b3090p-11, 0x1.ca95ed597e9eap-8,
        0x1.e947157fb22d5p-9, -0x1.437f0b68cc139p-4, 0x1.eeea7dc8a7d00p-3, -0x1.b57034efd3f49p-2,
        0x1.058671b52c776p-2,
    };
    V t = mag(k, x), s = mul(k, x, x);
    V c = lesser(k, t, num(k, 6));
    V v = step(k, MOP_div_rn, k->f, sub(k, c, num(k, 2)), add(k, c, num(k, 2)), NULL);
    V e = exp64(k, step(k, MOP_fneg, k->f, mul(k, c, c), NULL, NULL));
    V big = sub(k, num(k, 1), mul(k, e, horner(k, v, ERFC, COUNT(ERFC))));
    V small = mad(k, horner(k, s, ERF, COUNT(ERF)), x, x);
    return pick(k, at_least(k, t, num(k, 1)), sign_of(k, big, x), small);
}

static V build64(const Kit *k, MathFn fn, V x, V y) {
    switch (fn) {
    case MATH_exp:     return exp64(k, x);
    case MATH_exp2:    return exp2_64(k, x);
    case MATH_log:     return log64(k, x, false);
    case MATH_log2:    return log64(k, x, true);
    case MATH_sqrt:    return fun(k, MOP_sqrt_rn, x);
    case MATH_rsqrt:   return fun(k, MOP_rcp_rn, fun(k, MOP_sqrt_rn, x));
    case MATH_recip:   return fun(k, MOP_rcp_rn, x);
    case MATH_div:     return step(k, MOP_div_rn, k->f, x, y, NULL);
    case MATH_sin:     return sine64(k, x, false);
    case MATH_cos:     return sine64(k, x, true);
    case MATH_tanh:    return tanh64(k, x);
    case MATH_erf:     return erf64(k, x);
    case MATH_pow:     return math_pow(k, MATH_DEFAULT, x, y);
    case MATH_fmod:    return math_fmod(k, x, y);
    case MATH_sigmoid:
        x = exp64(k, step(k, MOP_fneg, k->f, x, NULL, NULL));
        return fun(k, MOP_rcp_rn, add(k, x, num(k, 1)));
    case MATH_FN_COUNT: break;
    }
    assert(!"a function without an f64 form");
    return x;
}

MathVal math_build(MathBuilder *b, MathFn fn, MathType type, MathMode mode, MathVal x, MathVal y) {
    assert((type == MT_F32 || type == MT_F64) && "functions are of f32 and f64");
    const Kit k = {b, type, type == MT_F32 ? MT_I32 : MT_I64};
    return type == MT_F32 ? build32(&k, fn, mode, x, y) : build64(&k, fn, x, y);
}

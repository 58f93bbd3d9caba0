// fmod(x, y), exact: what is left of x by whole y's, with the sign of x.
//
// q = |x| / |y| is below 2^20 nearly always. Then n = q rounded to a whole number is off by one at most, |x|
// - n |y| lies between -|y| and |y| and is a multiple of both last places, so the FMA that computes it is
// exact, and so is adding |y| where it is negative:
//
//     fmod(41, 7)     q = 5.857,  n = 6,  r = 41 - 6 * 7 = -1,  -1 + 7 = 6
//
// Larger quotients (and infinities, zeros, NaN) take a branch. There both significands are whole numbers a
// and b, x = a 2^i and y = b 2^j, and a loop of long division has some bits of the quotient a turn: r = r 2^s
// - n b, s at most 20 (f64: 48), until i - j of them are through. r and n b stay whole numbers below 2^24
// (2^53) and 2^48 (2^106) whose difference is exact again. It takes 14 turns for f32 at most, 44 for f64.

#include "lower/math_kit.h"

typedef struct Division {
    const Kit *k;
    V b, inverse;
} Division;

static double magic(const Kit *k) { return k->f == MT_F32 ? 0x1.8p23 : 0x1.8p52; }
static V nearest(const Kit *k, V x) { return sub(k, add(k, x, num(k, magic(k))), num(k, magic(k))); }

// vals: how many bits of the quotient are left, and r.
static void some_bits(MathBuilder *builder, V *vals, const void *env) {
    (void)builder;
    const Division *d = env;
    const Kit *k = d->k;
    V most = whole(k, k->f == MT_F32 ? 20 : 48);
    V bits_now = pick_int(k, int_op(k, MOP_ult, vals[0], most), vals[0], most);
    V r = mul(k, vals[1], power_of_2(k, bits_now));
    V n = nearest(k, mul(k, r, d->inverse));
    vals[0] = int_op(k, MOP_isub, vals[0], bits_now);
    vals[1] = mad(k, step(k, MOP_fneg, k->f, n, NULL, NULL), d->b, r);
}

// The significand of a number above 0 as a whole number, and its exponent's bits.
static V fraction_of(const Kit *k, V x, V *exponent) {
    bool narrow = k->f == MT_F32;
    uint64_t frac = (uint64_t)frac_bits(k);
    V tiny = less(k, x, num(k, narrow ? 0x1p-126 : 0x1p-1022));
    V u = bits(k, pick(k, tiny, mul(k, x, num(k, narrow ? 0x1p24 : 0x1p54)), x));
    *exponent = int_op(k, MOP_isub, int_op(k, MOP_lshr, u, whole(k, frac)),
                       pick_int(k, tiny, whole(k, narrow ? 24 : 54), whole(k, 0)));
    V fraction = int_op(k, MOP_iand, u, whole(k, (1ull << frac) - 1));
    return unbits(k, int_op(k, MOP_ior, fraction, whole(k, narrow ? 0x4b000000 : 0x4330000000000000)));
}

typedef struct Operands {
    const Kit *k;
    V x, y;
} Operands; // magnitudes

static void long_division(MathBuilder *b, V *vals, const void *env) {
    const Operands *o = env;
    const Kit *k = o->k;
    bool narrow = k->f == MT_F32;
    V i, j;
    V a = fraction_of(k, o->x, &i), d = fraction_of(k, o->y, &j);
    V inverse = fun(k, narrow ? MOP_rcp : MOP_rcp_rn, d);
    V left = int_op(k, MOP_isub, i, j);
    V below = int_op(k, MOP_ult, whole(k, narrow ? INT32_MAX : INT64_MAX), left);
    V state[2] = {pick_int(k, below, whole(k, 0), left), a};
    b->repeat(b, some_bits, state, (MathType[]){k->i, k->f}, 2, &(Division){k, d, inverse});
    V r = pick(k, less(k, state[1], num(k, 0)), add(k, state[1], d), state[1]);
    r = scaled(k, r, int_op(k, MOP_isub, j, whole(k, narrow ? 150 : 1075)));
    r = pick(k, less(k, o->x, o->y), o->x, r);
    V fine = both(k, less(k, o->x, infinite(k)), less(k, num(k, 0), o->y));
    vals[0] = pick(k, fine, r, not_a_number(k));
}

V math_fmod(const Kit *k, V x, V y) {
    bool narrow = k->f == MT_F32;
    V a = mag(k, x), b = mag(k, y);
    V q = step(k, narrow ? MOP_div_full : MOP_div_rn, k->f, a, b, NULL);
    V r = mad(k, step(k, MOP_fneg, k->f, nearest(k, q), NULL, NULL), b, a);
    r = pick(k, less(k, r, num(k, 0)), add(k, r, b), r);
    uint64_t most = narrow ? 0x49800000 : 0x4300000000000000; // 2^20, 2^49; NaN is above
    V far = int_op(k, MOP_ult, whole(k, most), bits(k, q));
    k->b->rarely(k->b, either(k, far, at_least(k, b, infinite(k))), long_division, &r, &k->f, 1,
                 &(Operands){k, a, b});
    return sign_of(k, r, x);
}

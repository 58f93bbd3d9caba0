// pow(x, y) = 2^(y log2|x|), with the sign that a whole odd y gives to a negative x, and C's special cases.
//
// The exponent is up to 128 (f64: 1024), so log2|x| needs 8 (11) bits more than a float has: it is a sum of
// two floats, W + Wl. |x| = 2^n m with m in sqrt(1/2) .. sqrt(2); for f = m - 1 and s = f / (2 + f), log(m)
// is 2 atanh(s):
//
//     atanh(s) = s + s z h,   z = s^2,   h = 1/3 + z q(z)
//
// s, z, h and their products are of two floats each, as Dekker has them: products are split by an FMA, sums
// by the difference of their result and the larger operand. t = y W is taken apart into a whole number and a
// fraction in -1/2 .. 1/2; e^r = 1 + r + r^2 P(r), r = ln(2) fraction, is added up smallest parts first. The
// error before the last rounding is a tenth of a last place: powers that are whole numbers of a float's bits
// come out exact.
//
//     pow(3, 5)    n = 2,  m = 0.75,  W = 1.584962500721156,  t = 7.92481250360578 = 8 - 0.0751875,  243
//
// Subnormal, infinite and NaN operands, zeros, and results near the ends of the range take a branch
// (`normalised`, `extreme`). y = 0 and |x| = 1 give 1 whatever the other one is; a negative number to a power
// that is not whole is NaN.

#include "lower/math_kit.h"

typedef struct Pow {
    double normal, up, shift; // subnormals: x up, up = 2^shift
    uint64_t root;            // the bits of sqrt(1/2)
    const double *q, *p;      // of z, of r
    int nq, np;
    double third, third_low, k, k_low; // 1/3; 2 log2(e)
    double ln2, ln2_low, most, magic;  // most: exponents beyond it are as good as it
    uint64_t magic_bits, near_bits;    // of magic; of an exponent that is no result's end
} Pow;

static const double Q32[] = {0x1.87964p-4, 0x1.c6c0e8p-4, 0x1.24928ep-3, 0x1.99999ap-3}; // 2^-25.6
static const double P32[] = {0x1.a1256cp-13, 0x1.6d43bp-10, 0x1.1110ep-7,
                             0x1.5554e8p-5,  0x1.555556p-3, 0.5}; // 2^-26.6
static const double Q64[] = { // 2^-54
    0x1.b8d433113b7fap-5, 0x1.ac4a89c964b82p-5, 0x1.e1f7fa7547177p-5, 0x1.1110dfad0f8eap-4,
    0x1.3b13b1bc75cd4p-4,
    0x1.745d174513593p-4, 0x1.c71c71c71cfd9p-4, 0x1.2492492492491p-3, 0x1.999999999999ap-3,
};
static const double P64[] = { // 2^-57.6
    0x1.1f7340dbc337ep-29, 0x1.af4e554377204p-26, 0x1.27e4db46cddd1p-22, 0x1.71de01fdbf9cap-19,
    0x1.a01a01a6e1e2ap-16, 0x1.a01a01abf85abp-13, 0x1.6c16c16c162c3p-10, 0x1.11111111100bep-7,
    0x1.5555555555556p-5,  0x1.5555555555557p-3,  0.5,
};
static const Pow pow32 = {
    .normal = 0x1p-126,    .up = 0x1p24,          .shift = 24, .root = 0x3f3504f3,
    .q = Q32,              .nq = COUNT(Q32),      .p = P32,    .np = COUNT(P32),
    .third = 0x1.555556p-2, .third_low = -0x1.555556p-27,
    .k = 0x1.715476p+1,    .k_low = 0x1.4ae0cp-25,
    .ln2 = 0x1.62e43p-1,   .ln2_low = -0x1.05c61p-29,
    .most = 160,           .magic = 0x1.8p23,     .magic_bits = 0x4b400000, .near_bits = 0x42fa0000,
};
static const Pow pow64 = {
    .normal = 0x1p-1022,   .up = 0x1p54,          .shift = 54, .root = 0x3fe6a09e667f3bcd,
    .q = Q64,              .nq = COUNT(Q64),      .p = P64,    .np = COUNT(P64),
    .third = 0x1.5555555555555p-2, .third_low = 0x1.5555555555555p-56,
    .k = 0x1.71547652b82fep+1,     .k_low = 0x1.777d0ffda0d24p-55,
    .ln2 = 0x1.62e42fefa39efp-1,   .ln2_low = 0x1.abc9e3b39803fp-56,
    .most = 1200, .magic = 0x1.8p52, .magic_bits = 0x4338000000000000, .near_bits = 0x408fe80000000000,
};

typedef struct Two {
    V hi, lo;
} Two;

static V neg(const Kit *k, V x) { return step(k, MOP_fneg, k->f, x, NULL, NULL); }

// x y, for the larger parts of a product; what is known of the smaller ones is added to lo
static Two product(const Kit *k, V x, V y, V more) {
    V hi = mul(k, x, y);
    V lo = mad(k, x, y, neg(k, hi));
    return (Two){hi, more ? add(k, lo, more) : lo};
}
// x + y where |x| is the larger, or 0
static Two sum(const Kit *k, V x, V y, V more) {
    V hi = add(k, x, y);
    return (Two){hi, add(k, add(k, sub(k, x, hi), y), more)};
}

// log2(m) for f = m - 1
static Two log2_of(const Kit *k, const Pow *c, V f) {
    V t = add(k, f, num(k, 2)), lost = sub(k, f, sub(k, t, num(k, 2)));
    V r = fun(k, k->f == MT_F32 ? MOP_rcp_ftz : MOP_rcp_rn, t);
    V s = mul(k, f, r), d = mad(k, neg(k, s), t, f);
    V s_low = mul(k, mad(k, neg(k, s), lost, d), r);
    V z = mul(k, s, s), z_low = mad(k, add(k, s, s), s_low, mad(k, s, s, neg(k, z)));
    V q = horner(k, z, c->q, c->nq), third = num(k, c->third);
    Two h = {mad(k, z, q, third), NULL};
    h.lo = add(k, mad(k, z, q, sub(k, third, h.hi)), num(k, c->third_low));
    Two p = product(k, z, h.hi, NULL);
    p.lo = mad(k, z, h.lo, mad(k, z_low, h.hi, p.lo));
    Two u = product(k, s, p.hi, NULL);
    u.lo = mad(k, s, p.lo, mad(k, s_low, p.hi, u.lo));
    Two a = sum(k, s, u.hi, add(k, u.lo, s_low));
    Two l = product(k, a.hi, num(k, c->k), NULL);
    l.lo = mad(k, a.hi, num(k, c->k_low), mad(k, a.lo, num(k, c->k), l.lo));
    return l;
}

// ---- the rare path: subnormal, zero, infinite and NaN x, and results that are not normal numbers or not at
// all -----------

typedef struct Rare {
    const Kit *k;
    const Pow *c;
    V a, y;
    Two t;
} Rare;

// vals: |x| and what is added to its exponent. A subnormal number becomes a normal one; others stay.
static void normalised(MathBuilder *b, V *vals, const void *env) {
    (void)b;
    const Rare *r = env;
    const Kit *k = r->k;
    V tiny = less(k, vals[0], num(k, r->c->normal));
    vals[0] = pick(k, tiny, mul(k, vals[0], num(k, r->c->up)), vals[0]);
    vals[1] = pick(k, tiny, num(k, -r->c->shift), vals[1]);
}

// 2^(t.hi + t.lo) = 2^n times what this gives, near 1; n in the low bits of *with_n. |t.hi| is no larger than
// `most`.
static V fraction(const Kit *k, const Pow *c, Two t, V *with_n) {
    V n = *with_n = add(k, t.hi, num(k, c->magic)), f = sub(k, t.hi, sub(k, n, num(k, c->magic)));
    Two r = product(k, f, num(k, c->ln2), NULL);
    r.lo = mad(k, t.lo, num(k, c->ln2), mad(k, f, num(k, c->ln2_low), r.lo));
    V w = mul(k, mul(k, r.hi, r.hi), horner(k, r.hi, c->p, c->np));
    V one = add(k, r.hi, num(k, 1)), lost = add(k, sub(k, num(k, 1), one), r.hi);
    return add(k, one, add(k, lost, mad(k, r.lo, add(k, one, w), w)));
}

static void extreme(MathBuilder *b, V *vals, const void *env) {
    (void)b;
    const Rare *r = env;
    const Kit *k = r->k;
    V zero = num(k, 0), most = num(k, r->c->most), n;
    V big = at_least(k, mag(k, r->t.hi), most);
    Two t = {pick(k, big, sign_of(k, most, r->t.hi), r->t.hi), pick(k, big, zero, r->t.lo)};
    V y = fraction(k, r->c, t, &n);
    y = scaled(k, y, int_op(k, MOP_isub, bits(k, n), whole(k, r->c->magic_bits)));
    V log = pick(k, equal(k, r->a, zero), neg(k, infinite(k)), r->a); // of infinity and NaN: these
    V s = mul(k, r->y, log);
    s = pick(k, less(k, zero, s), infinite(k), pick(k, less(k, s, zero), zero, s));
    y = pick(k, both(k, less(k, zero, r->a), less(k, r->a, infinite(k))), y, s);
    vals[0] = pick(k, either(k, equal(k, r->a, num(k, 1)), equal(k, r->y, zero)), num(k, 1), y);
}

// ---- the common path
// ------------------------------------------------------------------------------------------------------

// |x|^y
static V magnitude(const Kit *k, const Pow *c, V a, V y) {
    uint64_t frac = (uint64_t)frac_bits(k), one = 1ull << frac,
             range = k->f == MT_F32 ? 0x7f000000 : 0x7fe0000000000000;
    V odd = int_op(k, MOP_ult, whole(k, range - 1), int_op(k, MOP_isub, bits(k, a), whole(k, one)));
    V vals[2] = {a, num(k, 0)};
    k->b->rarely(k->b, odd, normalised, vals, (MathType[]){k->f, k->f}, 2, &(Rare){.k = k, .c = c});
    V u = bits(k, vals[0]),
      e = int_op(k, MOP_ashr, int_op(k, MOP_isub, u, whole(k, c->root)), whole(k, frac));
    V f = sub(k, unbits(k, int_op(k, MOP_isub, u, int_op(k, MOP_shl, e, whole(k, frac)))), num(k, 1));
    Two l = log2_of(k, c, f), w = sum(k, add(k, step(k, MOP_i2f, k->i, e, NULL, NULL), vals[1]), l.hi, l.lo);
    Two t = product(k, y, w.hi, NULL);
    t.lo = mad(k, y, w.lo, t.lo);
    V n, r = fraction(k, c, t, &n);
    r = unbits(k, int_op(k, MOP_iadd, bits(k, r), int_op(k, MOP_shl, bits(k, n), whole(k, frac))));
    V far = int_op(k, MOP_ult, whole(k, c->near_bits), bits(k, mag(k, t.hi))); // NaN too
    k->b->rarely(k->b, either(k, far, odd), extreme, &r, &k->f, 1, &(Rare){k, c, a, y, t});
    return r;
}

// What a whole y, or one that is not, makes of a negative x.
static V with_sign(const Kit *k, V r, V x, V y) {
    double unit = k->f == MT_F32 ? 0x1p23 : 0x1p52; // from here on all are whole
    V b = mag(k, y), small = less(k, b, num(k, unit)), c = pick(k, small, add(k, b, num(k, unit)), b);
    V is_whole = equal(k, pick(k, small, sub(k, c, num(k, unit)), b), b);
    V last = bits(k, lesser(k, c, num(k, 2 * unit))); // its last bit is y's unit
    V odd = int_op(k, MOP_iand, int_op(k, MOP_shl, last, whole(k, k->f == MT_F32 ? 31 : 63)), bits(k, x));
    V bad = both(k, less(k, x, num(k, 0)), less(k, neg(k, infinite(k)), x));
    return pick(k, is_whole, unbits(k, int_op(k, MOP_ixor, bits(k, r), odd)),
                pick(k, bad, not_a_number(k), r));
}

V math_pow(const Kit *k, MathMode mode, V x, V y) {
    V a = mag(k, x);
    if (mode != MATH_FAST) return with_sign(k, magnitude(k, k->f == MT_F32 ? &pow32 : &pow64, a, y), x, y);
    return with_sign(k, fun(k, MOP_ex2_ftz, mul(k, y, fun(k, MOP_lg2_ftz, a))), x, y);
}

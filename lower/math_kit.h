// What the functions of lower/math*.c are written with: a step of the builder by a short name, in the
// function's type.
#ifndef TK_LOWER_MATH_KIT_H
#define TK_LOWER_MATH_KIT_H

#include "lower/math.h"

#include <assert.h>

// A builder and the two types of one function's steps.
typedef struct Kit {
    MathBuilder *b;
    MathType     f, i;             // MT_F32 and MT_I32, or MT_F64 and MT_I64
} Kit;

typedef MathVal V;

static inline V step(const Kit *k, MathOp op, MathType type, V x, V y, V z) {
    return k->b->op(k->b, op, type, x, y, z);
}

static inline V num(const Kit *k, double value)      { return k->b->fconst(k->b, k->f, value); }
static inline V whole(const Kit *k, uint64_t value)  { return k->b->iconst(k->b, k->i, value); }

static inline V add(const Kit *k, V x, V y)          { return step(k, MOP_fadd, k->f, x, y, NULL); }
static inline V sub(const Kit *k, V x, V y)          { return step(k, MOP_fsub, k->f, x, y, NULL); }
static inline V mul(const Kit *k, V x, V y)          { return step(k, MOP_fmul, k->f, x, y, NULL); }
static inline V mad(const Kit *k, V x, V y, V z)     { return step(k, MOP_fma, k->f, x, y, z); }
static inline V lesser(const Kit *k, V x, V y)       { return step(k, MOP_fmin, k->f, x, y, NULL); }
static inline V mag(const Kit *k, V x)               { return step(k, MOP_fabs, k->f, x, NULL, NULL); }
static inline V sign_of(const Kit *k, V x, V sign)   { return step(k, MOP_copysign, k->f, x, sign, NULL); }
static inline V less(const Kit *k, V x, V y)         { return step(k, MOP_flt, k->f, x, y, NULL); }
static inline V at_least(const Kit *k, V x, V y)     { return step(k, MOP_fge, k->f, x, y, NULL); }
static inline V equal(const Kit *k, V x, V y)        { return step(k, MOP_feq, k->f, x, y, NULL); }
static inline V pick(const Kit *k, V c, V x, V y)    { return step(k, MOP_select, k->f, c, x, y); }
static inline V pick_int(const Kit *k, V c, V x, V y) { return step(k, MOP_select, k->i, c, x, y); }
static inline V fun(const Kit *k, MathOp op, V x)    { return step(k, op, k->f, x, NULL, NULL); }
static inline V bits(const Kit *k, V x)              { return step(k, MOP_bits, k->f, x, NULL, NULL); }
static inline V unbits(const Kit *k, V x)            { return step(k, MOP_unbits, k->i, x, NULL, NULL); }
static inline V int_op(const Kit *k, MathOp op, V x, V y) { return step(k, op, k->i, x, y, NULL); }

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

// c[0] x^(n-1) + .. + c[n-1]
static inline V horner(const Kit *k, V x, const double *c, int n) {
    V p = num(k, c[0]);
    for (int i = 1; i < n; i++) p = mad(k, p, x, num(k, c[i]));
    return p;
}

// The one bit at the exponent's place, and numbers by their bits.
static inline int  frac_bits(const Kit *k)        { return k->f == MT_F32 ? 23 : 52; }
static inline V    by_bits(const Kit *k, uint32_t narrow, uint64_t wide) {
    return unbits(k, whole(k, k->f == MT_F32 ? narrow : wide));
}
static inline V    infinite(const Kit *k)         { return by_bits(k, 0x7f800000, 0x7ff0000000000000); }
static inline V    not_a_number(const Kit *k)     { return by_bits(k, 0x7fffffff, 0x7ff8000000000000); }

static inline V both(const Kit *k, V x, V y)      { return step(k, MOP_iand, MT_I1, x, y, NULL); }
static inline V either(const Kit *k, V x, V y)    { return step(k, MOP_ior, MT_I1, x, y, NULL); }

// 2^n, n an integer of the exponent's range
static inline V power_of_2(const Kit *k, V n) {
    V biased = int_op(k, MOP_iadd, n, whole(k, k->f == MT_F32 ? 127 : 1023));
    return unbits(k, int_op(k, MOP_shl, biased, whole(k, (uint64_t)frac_bits(k))));
}

// x 2^n for n of twice that range: rounded once, at the end.
static inline V scaled(const Kit *k, V x, V n) {
    V half = int_op(k, MOP_ashr, n, whole(k, 1));
    return mul(k, mul(k, x, power_of_2(k, half)), power_of_2(k, int_op(k, MOP_isub, n, half)));
}

V math_pow(const Kit *k, MathMode mode, V x, V y);       // math_pow.c
V math_fmod(const Kit *k, V x, V y);                     // math_fmod.c

#endif

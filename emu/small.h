// Floats of 16 bits and fewer as their fields: sign, exponent, mantissa. One row a format, one function each way.
//
//     e2m1  s ee m         1.5 is 0 01 1: no infinity, no NaN; the greatest is 6
//     e2m3  s ee mmm       greatest 7.5            e3m2  s eee mm         greatest 28
//     e4m3  s eeee mmm     greatest 448, NaN 0x7f  e5m2  s eeeee mm       greatest 57344, infinity, NaN
//     ue8m0 eeeeeeee       2^(e - 127), NaN 0xff   ue4m3 as e4m3 without a sign
//
// To a format an f32 is rounded to nearest even, or by random bits: those are added below what is kept, the first of
// them beside the first bit that is not, and what carries rounds away from zero.
#ifndef TK_EMU_SMALL_H
#define TK_EMU_SMALL_H

#include <math.h>

#include "emu/exec.h"

typedef struct SmallFormat { uint8_t bits, mantissa, bias; uint16_t most, nan, infinity; } SmallFormat;   // 0: it has none

static inline SmallFormat small_format(Type t) {
    switch (t) {
    case T_e2m1: return (SmallFormat){4, 1, 1, 0x7, 0, 0};
    case T_e2m3: return (SmallFormat){6, 3, 1, 0x1f, 0, 0};
    case T_e3m2: return (SmallFormat){6, 2, 3, 0x1f, 0, 0};
    case T_e4m3: case T_ue4m3: return (SmallFormat){8, 3, 7, 0x7e, 0x7f, 0};
    case T_e5m2: return (SmallFormat){8, 2, 15, 0x7b, 0x7f, 0x7c};
    case T_f16:  return (SmallFormat){16, 10, 15, 0x7bff, 0x7fff, 0x7c00};
    default:     return (SmallFormat){16, 7, 127, 0x7f7f, 0x7fff, 0x7f80};               // bf16
    }
}

// Exact.
static inline double small_value(Type t, uint32_t b) {
    if (t == T_ue8m0) return (b & 0xff) == 0xff ? (double)NAN : f64_from((uint64_t)(1023 - 127 + (b & 0xff)) << 52);
    SmallFormat f = small_format(t);
    uint32_t magnitude = b & ((1u << (f.bits - 1)) - 1), e = magnitude >> f.mantissa, m = magnitude & ((1u << f.mantissa) - 1);
    double v = (double)(e ? m + (1u << f.mantissa) : m) * f64_from((uint64_t)(1023 - f.bias - f.mantissa + (e ? e : 1)) << 52);
    if (f.infinity && magnitude >= f.infinity) v = magnitude > f.infinity ? (double)NAN : (double)INFINITY;
    else if (f.nan && magnitude == f.nan) v = (double)NAN;
    return b >> (f.bits - 1) & 1 && t != T_ue4m3 ? -v : v;
}

// `random`: that many bits of `by`; 0: to nearest even. What is too large is the greatest, or infinity where that may be.
static inline uint32_t small_round(Type t, float x, uint32_t random, uint32_t by, bool finite) {
    SmallFormat f = small_format(t);
    uint32_t bits = f32_bits(x), magnitude = bits & 0x7fffffff, sign = bits >> 31 << (f.bits - 1);
    if (x != x) return f.nan ? f.nan : f.most;
    uint32_t e = magnitude >> 23 ? magnitude >> 23 : 1, least = 128u - f.bias, below = e < least ? least - e : 0;
    uint64_t kept = (uint64_t)((magnitude & 0x7fffff) | (uint32_t)(magnitude >> 23 != 0) << 23) << 20;
    uint32_t all = 20 + 23 - f.mantissa + below, shift = all < 62 ? all : 62, half = shift - 1;       // 62: nothing is kept
    uint64_t add = random ? (uint64_t)(by & ((1u << random) - 1)) << (shift - random) : (1ull << half) - 1 + (kept >> shift & 1);
    if (magnitude >= 0x7f800000) return sign | (finite || !f.infinity ? f.most : f.infinity);
    uint64_t r = ((kept + add) >> shift) + ((uint64_t)(e < least ? 0 : e - least) << f.mantissa);
    if (r > f.most) r = finite || !f.infinity ? f.most : f.infinity;
    return sign | (uint32_t)r;
}

// The exponent alone, of the magnitude: down, or up.
static inline uint32_t ue8m0_round(float x, bool up, bool finite) {
    uint32_t magnitude = f32_bits(x) & 0x7fffffff, e = magnitude >> 23, m = magnitude & 0x7fffff;
    if (magnitude > 0x7f800000) return 0xff;
    if (magnitude == 0x7f800000) return finite ? 0xfe : 0xff;
    if (up && (e ? m != 0 : m > 0x400000)) e++;              // 2^-127 is the least, half of the least normal
    return e > 0xfe ? finite ? 0xfe : 0xff : e;
}

#endif

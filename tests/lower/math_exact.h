// What a function of lower/math.h is in exact arithmetic, as near as a wider type of the C library's has it: the
// reference of the test beside this file (a sample) and of bench/math_sweep.c (all inputs).
#ifndef TK_TESTS_LOWER_MATH_EXACT_H
#define TK_TESTS_LOWER_MATH_EXACT_H

#include <tgmath.h>

#include "lang/number.h"
#include "lower/math.h"

// Where a float stands among all floats of its kind, in order.
static inline int64_t rank32(float x) {
    int64_t m = f32_bits(x) & 0x7fffffff;
    return signbit(x) ? -m : m;
}

static inline int64_t rank64(double x) {
    int64_t m = (int64_t)(f64_bits(x) & INT64_MAX);
    return signbit(x) ? -m : m;
}

#define MATH_EXACT(name, T)                                  \
    static T name(MathFn fn, T x, T y)                       \
    {                                                        \
        switch (fn) {                                        \
        case MATH_exp:     return exp(x);                    \
        case MATH_exp2:    return exp2(x);                   \
        case MATH_log:     return log(x);                    \
        case MATH_log2:    return log2(x);                   \
        case MATH_sqrt:    return sqrt(x);                   \
        case MATH_rsqrt:   return 1 / sqrt(x);               \
        case MATH_recip:   return 1 / x;                     \
        case MATH_div:     return x / y;                     \
        case MATH_sin:     return sin(x);                    \
        case MATH_cos:     return cos(x);                    \
        case MATH_tanh:    return tanh(x);                   \
        case MATH_erf:     return erf(x);                    \
        case MATH_sigmoid: return 1 / (1 + exp(-x));         \
        case MATH_pow:     return pow(x, y);                 \
        case MATH_fmod:    return fmod(x, y);                \
        case MATH_FN_COUNT: break;                           \
        }                                                    \
        return 0;                                            \
    }

MATH_EXACT(exact_for_f32, double)
MATH_EXACT(exact_for_f64, long double)

#endif

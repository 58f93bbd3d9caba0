// The functions of lower/math.c on the host: special values by a table, all others by a stride over
// the f32 inputs and by random f64, against the C library one type wider. The bounds are those of the
// MATH_FNS table, in floats from the correctly rounded result; docs/math.md has the full sweeps.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "lang/number.h"
#include "lower/math.h"
#include "tests/lower/math_exact.h"

enum { N = 4096 };

static bool good32(MathFn fn, float got, double want, int floats) {
    float near = (float)want;
    if (isnan(want)) return f32_bits(got) == 0x7fffffff;
    if (want == 0 || isinf(want)) return f32_bits(got) == f32_bits(near);
    if ((fn == MATH_sigmoid || fn == MATH_exp2) && fabs(want) < 0x1p-126) return fabs(got - want) <= 0x1p-126;
    return llabs(rank32(got) - rank32(near)) <= floats;
}

static bool good64(MathFn fn, double got, long double want, int floats) {
    double near = (double)want;
    if (isnan(want)) return isnan(got);
    if (fn == MATH_sigmoid && fabsl(want) < 0x1p-1022L) return fabsl(got - want) <= 0x1p-1022L;
    if (want == 0 || isinf(near)) return f64_bits(got) == f64_bits(near);
    long double ulp = ldexpl(1, ilogbl(want) - 52);        // `want` is rounded itself: no exact ties
    return llabs(rank64(got) - rank64(near)) <= floats || fabsl(got - want) < 0.502L * ulp;
}

static void check32(MathFn fn, MathMode mode, const float *x, const float *y, size_t n, int floats) {
    static float out[N];
    math_host_f32(fn, mode, x, y, out, n);
    for (size_t i = 0; i < n; i++)
        if (!good32(fn, out[i], exact_for_f32(fn, x[i], y ? y[i] : 0), floats))
            fail_msg("%s(%a, %a) = %a, not %a", math_fns[fn].name, x[i], y ? y[i] : 0, out[i],
                     exact_for_f32(fn, x[i], y ? y[i] : 0));
}

static uint64_t scramble(uint64_t x) {
    x ^= x >> 33;  x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;  x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

static void f32_within_the_table(void **state) {
    (void)state;
    static float x[N], y[N];
    for (int f = 0; f < MATH_FN_COUNT; f++)
        for (uint64_t u = 0; u < 1ull << 32;) {
            size_t n = 0;
            for (; n < N && u < 1ull << 32; n++, u += 32749) {
                x[n] = f32_from((uint32_t)u);
                y[n] = f32_from((uint32_t)scramble(u));
            }
            check32((MathFn)f, MATH_DEFAULT, x, math_fns[f].args == 2 ? y : NULL, n, math_fns[f].ulp32);
        }
}

static void precise_is_correctly_rounded(void **state) {
    (void)state;
    static float x[N], y[N];
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < N; i++) {
            uint64_t r = scramble((uint64_t)round * N + i + 1);
            x[i] = f32_from((uint32_t)r);
            y[i] = f32_from((uint32_t)(r >> 32));
        }
        check32(MATH_div,   MATH_PRECISE, x, y, N, 0);
        check32(MATH_sqrt,  MATH_PRECISE, x, NULL, N, 0);
        check32(MATH_recip, MATH_PRECISE, x, NULL, N, 0);
    }
}

static void f64_within_the_table(void **state) {
    (void)state;
    static double x[N], y[N], out[N];
    for (int f = 0; f < MATH_FN_COUNT; f++)
        for (int round = 0; round < 25; round++) {
            bool two = math_fns[f].args == 2;
            for (size_t i = 0; i < N; i++) {
                uint64_t r = scramble((uint64_t)round * N + i + 1), e = 1003 + (r >> 52) % 29;
                x[i] = f64_from(i & 1 ? r : (r & 0x800fffffffffffffu) | e << 52);
                y[i] = f64_from(scramble(r));
            }
            math_host_f64((MathFn)f, MATH_DEFAULT, x, two ? y : NULL, out, N);
            for (size_t i = 0; i < N; i++)
                if (!good64((MathFn)f, out[i], exact_for_f64((MathFn)f, x[i], y[i]), math_fns[f].ulp64))
                    fail_msg("%s(%a, %a) = %a", math_fns[f].name, x[i], y[i], out[i]);
        }
}

// Where the pieces of a function meet, and the ends of the range, each with its neighbours.
static void special_values(void **state) {
    (void)state;
    static const float points[] = {
        0, 0x1p-149f, 0x1p-127f, 0x1p-126f, 0x1p-125f, 0x1p-24f, 0x1p-12f, 0.5f, 0.59f, 0.85f, 1, 1.5f,
        2.0f / 3, 4.0f / 3, 2, 3.92f, 4, 9.01f, 25, 87.3365448f, 88.0296919f, 88.7228391f, 103.972084f,
        104, 126, 127, 128, 149, 150, 151, 0x1p17f, 0x1p18f, 0x1p22f, 0x1p23f, 0x1p24f, 0x1p62f,
        0x1p63f, 0x1p126f, 0x1p127f, 0x1.fffffep127f, INFINITY, 1.57079637f, 3.14159274f, 201.06193f,
        12867.9635f, 411774.812f, 0x1.2bad52p+25f, 0x1.47d0fep+34f, 0x1.2e0c2ap+111f,
    };
    static float x[N], y[N];
    size_t n = 0;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        for (int d = -2; d <= 2; d++)
            for (int sign = 0; sign < 2; sign++) {
                int64_t u = (int64_t)f32_bits(points[i]) + d;
                if (u >= 0 && u <= 0x7fc00000) x[n++] = f32_from((uint32_t)u | (uint32_t)sign << 31);
            }
    x[n++] = NAN;
    for (int f = 0; f < MATH_FN_COUNT; f++) {
        if (math_fns[f].args == 1) {
            check32((MathFn)f, MATH_DEFAULT, x, NULL, n, math_fns[f].ulp32);
            continue;
        }
        for (size_t shift = 0; shift < n; shift++) {
            for (size_t i = 0; i < n; i++) y[i] = x[(i + shift) % n];
            check32((MathFn)f, MATH_DEFAULT, x, y, n, math_fns[f].ulp32);
        }
    }
}

static void f64_special_values(void **state) {
    (void)state;
    static const double points[] = {
        0, 0x1p-1074, 0x1p-1022, 0x1p-60, 0x1p-27, 0.6, 0.707, 1, 1.4142135623730951, 6, 22, 708.4,
        709.782712893384, 710, 745.2, 746, 1023, 1024, 1025, 1074, 1075, 1080, 0x1p30, 0x1p31, 0x1p52,
        0x1p53, 0x1p54, 0x1.6ac5b262ca1ffp+849, 0x1p1022, 0x1.fffffffffffffp1023, INFINITY,
        0x1.921fb54442d18p+1, 0x1.921fb54442d18p+30, NAN,
    };
    double x[512], out[512];
    size_t n = 0;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        for (int d = -1; d <= 1; d++)
            for (int sign = 0; sign < 2; sign++) {
                int64_t u = (int64_t)f64_bits(points[i]) + d;
                if (u >= 0) x[n++] = f64_from((uint64_t)u | (uint64_t)sign << 63);
            }
    for (int f = 0; f < MATH_FN_COUNT; f++) {
        if (math_fns[f].args != 1) continue;
        math_host_f64((MathFn)f, MATH_DEFAULT, x, NULL, out, n);
        for (size_t i = 0; i < n; i++)
            if (!good64((MathFn)f, out[i], exact_for_f64((MathFn)f, x[i], 0), math_fns[f].ulp64))
                fail_msg("%s(%a) = %a, not %La", math_fns[f].name, x[i], out[i],
                         exact_for_f64((MathFn)f, x[i], 0));
    }
}

// The fast forms, where nothing is flushed: to the errors that PTX states for their instructions.
static void fast_is_near(void **state) {
    (void)state;
    static const struct { MathFn fn; float lo, hi, relative, absolute; } cases[] = {
        {MATH_exp,  -80, 80, 0x1p-16f, 0},         {MATH_exp2,    -120, 120, 0x1p-23f, 0},
        {MATH_log,  0.001f, 1000, 0x1p-22f, 0x1p-22f}, {MATH_log2, 0.001f, 1000, 0x1p-22f, 0x1p-22f},
        {MATH_sqrt, 0, 1e30f, 0x1p-23f, 0},        {MATH_rsqrt,   0.001f, 1e30f, 0x1p-22f, 0},
        {MATH_recip, 0.001f, 1e30f, 0x1p-23f, 0},  {MATH_sin,     -6, 6, 0, 0x1p-20f},
        {MATH_cos,  -6, 6, 0, 0x1p-20f},           {MATH_tanh,    -9, 9, 0x1p-11f, 0},
        {MATH_erf,  -5, 5, 0x1p-11f, 0},           {MATH_sigmoid, -80, 80, 0x1p-16f, 0},
    };
    static float x[N], out[N];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int i = 0; i < N; i++)
            x[i] = cases[c].lo + (cases[c].hi - cases[c].lo) * ((float)i / N);
        for (int up = -1; up <= 1; up++) {
            math_host_nudged_f32(cases[c].fn, MATH_FAST, x, NULL, out, N, (MathNudge){0, up});
            for (int i = 0; i < N; i++) {
                double want = exact_for_f32(cases[c].fn, x[i], 0);
                double room = fabs(want) * cases[c].relative * 2 + cases[c].absolute;
                if (fabs(out[i] - want) > room)
                    fail_msg("fast %s(%a) = %a, not %a", math_fns[cases[c].fn].name, x[i], out[i], want);
            }
        }
    }
}

// Any number of elements, out over x, and a rare argument among common ones.
static void lanes_do_not_mix(void **state) {
    (void)state;
    float x[200], one[200], all[200];
    for (int i = 0; i < 200; i++) x[i] = i % 7 == 3 ? 0x1p40f * (float)i : (float)i - 100;
    for (int i = 0; i < 200; i++) math_host_f32(MATH_sin, MATH_DEFAULT, &x[i], NULL, &one[i], 1);
    math_host_f32(MATH_sin, MATH_DEFAULT, x, NULL, all, 200);
    assert_memory_equal(one, all, sizeof all);
    math_host_f32(MATH_sin, MATH_DEFAULT, x, NULL, x, 200);
    assert_memory_equal(x, all, sizeof all);
    math_host_f32(MATH_sin, MATH_DEFAULT, x, NULL, x, 0);
}

static void results_have_types(void **state) {
    (void)state;
    assert_int_equal(math_result(MOP_fma, MT_F64), MT_F64);
    assert_int_equal(math_result(MOP_flt, MT_F64), MT_I1);
    assert_int_equal(math_result(MOP_bits, MT_F64), MT_I64);
    assert_int_equal(math_result(MOP_i2f, MT_I32), MT_F32);
    assert_int_equal(math_result(MOP_zext, MT_I32), MT_I64);
    assert_int_equal(math_result(MOP_narrow, MT_F64), MT_F32);
    assert_string_equal(math_ops[MOP_ex2_ftz].ptx, "ex2.approx.ftz.f32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_within_the_table),
        cmocka_unit_test(precise_is_correctly_rounded),
        cmocka_unit_test(f64_within_the_table),
        cmocka_unit_test(special_values),
        cmocka_unit_test(f64_special_values),
        cmocka_unit_test(fast_is_near),
        cmocka_unit_test(lanes_do_not_mix),
        cmocka_unit_test(results_have_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

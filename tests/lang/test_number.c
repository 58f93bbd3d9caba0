// Every narrowing is held against a slow reference that knows no bit tricks: decode each pattern of
// the narrow format from its definition (sign, fraction, exponent, by ldexp), and search the two
// neighbours of x for the nearer one, ties to the even pattern. All 16-bit and 8-bit patterns are
// decoded; every midpoint between neighbours is narrowed together with the floats on either side.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lang/number.h"

// A small float by its definition.
typedef struct Format {
    int         ebits, mbits, bias;
    int         max;               // pattern of the largest finite value
    int         nan;               // the canonical NaN
    int         over;              // what an overflow gives: infinity, or `max`
    bool        ieee;              // exponent of all ones is infinity and NaN
} Format;

static const Format f16  = {5, 10, 15,  0x7bff, 0x7fff, 0x7c00, true};
static const Format bf16 = {8, 7,  127, 0x7f7f, 0x7fff, 0x7f80, true};
static const Format e4m3 = {4, 3,  7,   0x7e,   0x7f,   0x7e,   false};
static const Format e5m2 = {5, 2,  15,  0x7b,   0x7f,   0x7b,   true};

// The value of pattern `b` as if the exponent range had no end.
static double decode(const Format *f, int b) {
    int e = b >> f->mbits & ((1 << (f->ebits + 1)) - 1), m = b & ((1 << f->mbits) - 1);
    return e == 0 ? ldexp(m, 1 - f->bias - f->mbits)
                  : ldexp(m + (1 << f->mbits), e - f->bias - f->mbits);
}

static int sign_bit(const Format *f) { return 1 << (f->ebits + f->mbits); }

static int narrow_slow(const Format *f, double x) {
    if (isnan(x)) return f->nan;
    int    sign = signbit(x) ? sign_bit(f) : 0;
    double a = fabs(x);
    if (isinf(x)) return sign | f->over;
    int lo = 0, hi = f->max + 1;                   // decode(lo) <= a < decode(hi)
    if (a >= decode(f, hi)) return sign | f->over;
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (decode(f, mid) <= a) lo = mid;
        else                     hi = mid;
    }
    double down = a - decode(f, lo), up = decode(f, hi) - a;
    int    r = down < up ? lo : up < down ? hi : lo & 1 ? hi : lo;
    return sign | (r > f->max ? f->over : r);
}

#define same_bits(got, want) assert_int_equal((uint32_t)(got), (uint32_t)(want))

static void check_f32(float x) {
    same_bits(f16_from_f32(x),  narrow_slow(&f16, x));
    same_bits(bf16_from_f32(x), narrow_slow(&bf16, x));
    same_bits(e4m3_from_f32(x), narrow_slow(&e4m3, x));
    same_bits(e5m2_from_f32(x), narrow_slow(&e5m2, x));
}

static void check_f64(double x) {
    if (isnan(x)) {
        assert_true(isnan(f16_to_f32(f16_from_f64(x))));
        assert_true(isnan(bf16_to_f32(bf16_from_f64(x))));
        return;
    }
    same_bits(f16_from_f64(x),  narrow_slow(&f16, x));
    same_bits(bf16_from_f64(x), narrow_slow(&bf16, x));
    same_bits(e4m3_from_f64(x), narrow_slow(&e4m3, x));
    same_bits(e5m2_from_f64(x), narrow_slow(&e5m2, x));
}

static void check_decode(const Format *f, int b, float got) {
    int    mag = b & (sign_bit(f) - 1), top = ((1 << f->ebits) - 1) << f->mbits;
    bool   inf = f->ieee && mag == top;
    bool   nan = f->ieee ? mag > top : mag == f->nan;
    double want = inf ? INFINITY : decode(f, mag);
    if (nan) { assert_true(isnan(got)); return; }
    same_bits(f32_bits(got), f32_bits((float)(b == mag ? want : -want)));
}

static void decodes_every_pattern(void **state) {
    (void)state;
    for (int b = 0; b < 0x10000; b++) {
        check_decode(&f16,  b, f16_to_f32((uint16_t)b));
        check_decode(&bf16, b, bf16_to_f32((uint16_t)b));
    }
    for (int b = 0; b < 0x100; b++) {
        check_decode(&e4m3, b, e4m3_to_f32((uint8_t)b));
        check_decode(&e5m2, b, e5m2_to_f32((uint8_t)b));
    }
    same_bits(f32_bits(f16_to_f32(0xfe01)), 0x7fffffff);
    same_bits(f32_bits(e4m3_to_f32(0xff)),  0x7fffffff);
}

static void returns_every_pattern(void **state) {
    (void)state;
    for (int b = 0; b < 0x10000; b++) {
        int  mag = b & 0x7fff;
        same_bits(f16_from_f32(f16_to_f32((uint16_t)b)),   mag > 0x7c00 ? 0x7fff : b);
        same_bits(f16_from_f64((double)f16_to_f32((uint16_t)b)), mag > 0x7c00 ? 0x7fff : b);
        same_bits(bf16_from_f32(bf16_to_f32((uint16_t)b)), mag > 0x7f80 ? 0x7fff : b);
    }
    for (int b = 0; b < 0x100; b++) {
        int mag = b & 0x7f, sign = b & 0x80;
        same_bits(e4m3_from_f32(e4m3_to_f32((uint8_t)b)), mag == 0x7f ? 0x7f : b);
        same_bits(e5m2_from_f32(e5m2_to_f32((uint8_t)b)),
                  mag > 0x7c ? 0x7f : mag == 0x7c ? sign | 0x7b : b);
    }
}

// Each tie of each format, and its neighbours in f32 and in f64, both signs.
static void rounds_ties_to_even(void **state) {
    (void)state;
    static const Format *const formats[] = {&f16, &bf16, &e4m3, &e5m2};
    for (int i = 0; i < 4; i++) {
        const Format *f = formats[i];
        for (int b = 0; b <= f->max; b++) {
            double tie = (decode(f, b) + decode(f, b + 1)) / 2;
            float  t   = (float)tie;
            check_f32(t);
            check_f32(-t);
            check_f32(nextafterf(t, 0));
            check_f32(nextafterf(t, INFINITY));
            check_f64(tie);
            check_f64(nextafter(tie, 0));
            check_f64(-nextafter(tie, INFINITY));
        }
    }
}

static void narrows_like_the_reference(void **state) {
    (void)state;
    for (uint64_t u = 0; u < 1ull << 32; u += 4093)
        check_f32(f32_from((uint32_t)u));
    for (uint64_t u = 0, i = 0; i < 300000; i++, u += 0x9e3779b97f4a7c15u)
        check_f64(f64_from(u));
    for (uint64_t i = 0; i < 300000; i++)             // exponents that f16 and bf16 hold
        check_f64(f64_from((0x3000000000000000u + (i * 0x9e3779b97f4a7c15u >> 2)) ^ i << 63));
    check_f32(INFINITY);  check_f32(-INFINITY);  check_f32(NAN);  check_f32(-0.0f);
    check_f64(INFINITY);  check_f64(-INFINITY);  check_f64(NAN);  check_f64(-0.0);
    check_f64(4.9e-324);  check_f64(1.797e308);
}

static void f64_nans_keep_their_upper_part(void **state) {
    (void)state;
    static const struct { uint64_t in; uint16_t f16, bf16; } cases[] = {          // as a Hopper has them
        {0x7ff0000000000001, 0x7e00, 0x7fc0},  {0x7ff8000000000000, 0x7e00, 0x7fc0},
        {0xfff8000000000000, 0xfe00, 0xffc0},  {0x7fffffffffffffff, 0x7fff, 0x7fff},
        {0xfff123456789abcd, 0xfe48, 0xffc9},  {0x7ff4000000000000, 0x7f00, 0x7fe0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        same_bits(f16_from_f64(f64_from(cases[i].in)),  cases[i].f16);
        same_bits(bf16_from_f64(f64_from(cases[i].in)), cases[i].bf16);
    }
}

// 1 + 2^-11 + 2^-40 is above a tie of f16, but rounds onto it in f32.
static void f64_rounds_once(void **state) {
    (void)state;
    double x = 1 + 0x1p-11 + 0x1p-40;
    same_bits(f16_from_f64(x), 0x3c01);
    same_bits(f16_from_f32((float)x), 0x3c00);
    x = 1 + 0x1p-8 + 0x1p-40;
    same_bits(bf16_from_f64(x), 0x3f81);
    same_bits(bf16_from_f32((float)x), 0x3f80);
}

static void tf32_keeps_ten_bits(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 1ull << 32; i += 2039) {
        uint32_t u = (uint32_t)i, mag = u & 0x7fffffff;
        float    x = f32_from(u), r = tf32_round(x);
        if (mag > 0x7f800000) { same_bits(f32_bits(r), u & 0xffffe000); continue; }
        same_bits(f32_bits(r) & 0x1fff, 0);
        int    e;
        double want = 0;
        if (mag >= 0x7f800000) want = (double)x;
        else if (mag >= 0x800000) {
            double m = frexp((double)x, &e);
            want = ldexp(round(ldexp(m, 11)), e - 11);          // round(): ties away
        } else {
            want = ldexp(round(ldexp((double)x, 136)), -136);
        }
        same_bits(f32_bits(r), f32_bits((float)want));
    }
    same_bits(f32_bits(tf32_round(f32_from(0x3f801000))), 0x3f802000);
    same_bits(f32_bits(tf32_round(f32_from(0x7f7fffff))), 0x7f800000);
}

static void division_floors(void **state) {
    (void)state;
    for (int a = -40; a <= 40; a++)
        for (int b = -9; b <= 9; b++) {
            if (b == 0) continue;
            assert_int_equal(int_div_floor(a, b), (int64_t)floor((double)a / b));
            assert_int_equal(int_mod_floor(a, b), a - b * (int64_t)floor((double)a / b));
        }
    assert_true(int_div_floor(INT64_MIN, -1) == INT64_MIN);
    assert_true(int_mod_floor(INT64_MIN, -1) == 0);
    assert_true(int_div_floor(INT64_MIN, 1) == INT64_MIN);
    assert_true(int_div_floor(INT64_MAX, INT64_MIN) == -1);
    assert_true(int_mod_floor(INT64_MAX, INT64_MIN) == -1);
    assert_true(int_mod_floor(INT64_MIN, INT64_MAX) == INT64_MAX - 1);
}

static void float_to_integer_saturates(void **state) {
    (void)state;
    static const struct { double x; int bits; bool is_signed; int64_t want; } cases[] = {
        {NAN, 32, true, 0},                {NAN, 64, false, 0},
        {1e300, 8, true, 127},             {-1e300, 8, true, -128},
        {127.999, 8, true, 127},           {-128.999, 8, true, -128},
        {-127.999, 8, true, -127},         {255.9, 8, false, 255},
        {256, 8, false, 255},              {-0.9, 8, false, 0},
        {-5, 8, false, 0},                 {2147483647.5, 32, true, INT32_MAX},
        {2147483648.0, 32, true, INT32_MAX}, {-2147483648.5, 32, true, INT32_MIN},
        {4294967295.0, 32, false, 4294967295}, {INFINITY, 32, false, 4294967295},
        {INFINITY, 64, true, INT64_MAX},   {-INFINITY, 64, true, INT64_MIN},
        {0x1p63, 64, true, INT64_MAX},     {-0x1p63, 64, true, INT64_MIN},
        {0x1p63, 64, false, INT64_MIN},    {0x1p64, 64, false, -1},
        {-2.75, 16, true, -2},             {2.75, 16, true, 2},
        {1, 1, false, 1},                  {-0.0, 16, true, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(f64_to_int_sat(cases[i].x, cases[i].bits, cases[i].is_signed) == cases[i].want);
}

static void numbers_of_64_bits(void **state) {
    (void)state;
    Number most = number_int(INT64_MAX), least = number_int(INT64_MIN), all = number_u64(UINT64_MAX),
           half = number_u64(UINT64_C(1) << 63);
    assert_true(number_whole(most) && number_whole(least) && number_whole(all) && number_whole(half) &&
                number_whole(number_double(-0.0)));
    assert_false(number_whole(number_double(0.5)) || number_whole(number_double(1e30)) ||
                 number_whole(number_double(-1e30)) || number_whole(number_double(NAN)));
    assert_true(number_double(0x1p64).i == 0 && !number_whole(number_double(0x1p64)));
    assert_true(number_double(-0x1p63).i == INT64_MIN && number_double(0x1p63).i == INT64_MIN && number_double(-3).i == -3);
    assert_int_equal(number_order(most, half), -1);           // the same double
    assert_int_equal(number_order(half, most), 1);
    assert_int_equal(number_order(all, number_u64(UINT64_MAX - 1)), 1);
    assert_int_equal(number_order(all, number_double(0x1p64)), 0);
    assert_int_equal(number_order(least, number_int(INT64_MIN + 1)), -1);
    assert_int_equal(number_order(number_int(-1), all), -1);
    assert_int_equal(number_order(number_int(7), number_double(7)), 0);
    assert_int_equal(number_order(number_int(7), number_double(NAN)), 2);
    assert_int_equal(number_order(number_double(INFINITY), all), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_every_pattern),
        cmocka_unit_test(returns_every_pattern),
        cmocka_unit_test(rounds_ties_to_even),
        cmocka_unit_test(narrows_like_the_reference),
        cmocka_unit_test(f64_rounds_once),
        cmocka_unit_test(f64_nans_keep_their_upper_part),
        cmocka_unit_test(tf32_keeps_ten_bits),
        cmocka_unit_test(division_floors),
        cmocka_unit_test(float_to_integer_saturates),
        cmocka_unit_test(numbers_of_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Philox against the vectors of its authors (Random123's kat_vectors), and what is made of it.

#include "tests/runtime/common.h"

#include <math.h>

static void philox_vectors(void **state) {
    (void)state;
    static const struct { uint32_t counter[4], key[2], out[4]; } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[4];
        philox4x32(rows[i].counter, rows[i].key, out);
        assert_memory_equal(out, rows[i].out, sizeof out);
    }
    assert_int_equal(rng_bits(0, 0, 0), 0x6627e8d5);
    assert_int_equal(rng_bits(0, 0, 3), 0x9b00dbd8);
}

static void moments(void **state) {
    (void)state;
    enum { N = 200000 };
    double n1 = 0, n2 = 0, n4 = 0, u1 = 0, low = 1, high = 0, pairs = 0;
    for (uint64_t i = 0; i < N; i++) {
        double x = rng_normal(7, 3, i), u = rng_uniform(7, 3, i);
        assert_true(isfinite(x) && fabs(x) < 6.8 && u >= 0 && u < 1);
        n1 += x; n2 += x * x; n4 += x * x * x * x; u1 += u;
        low = fmin(low, u); high = fmax(high, u);
        if (i & 1) pairs += x * rng_normal(7, 3, i - 1);
    }
    assert_true(fabs(n1 / N) < 0.01 && fabs(n2 / N - 1) < 0.02 && fabs(n4 / N - 3) < 0.15);
    assert_true(fabs(pairs / (N / 2)) < 0.02);
    assert_true(fabs(u1 / N - 0.5) < 0.005 && low < 1e-4 && high > 1 - 1e-4);
}

static void streams_differ(void **state) {
    (void)state;
    assert_true(rng_stream("x", 0) != rng_stream("x", 1));
    assert_true(rng_stream("x", 0) != rng_stream("y", 0));
    int same = 0;
    for (uint64_t i = 0; i < 1000; i++) same += rng_bits(1, rng_stream("x", 0), i) == rng_bits(1, rng_stream("y", 0), i);
    assert_int_equal(same, 0);
    assert_true(rng_bits(1, 5, 9) != rng_bits(2, 5, 9));
}

// Many at once are the same numbers as one by one, from wherever one begins.
static void stretches(void **state) {
    (void)state;
    enum { N = 700 };
    static double v[N];
    static uint32_t w[N];
    for (uint64_t first = 0; first < 6; first++)
        for (int n = 0; n < N; n += n < 9 ? 1 : 173) {
            rng_words(5, 9, first, n, w);
            rng_normals(5, 9, first, n, v);
            for (int i = 0; i < n; i++) {
                assert_int_equal(w[i], rng_bits(5, 9, first + (uint64_t)i));
                assert_true(v[i] == rng_normal(5, 9, first + (uint64_t)i));
            }
        }
}

// A tensor that several threads make is what one would make, and any stretch of it can be made alone.
static void fills_by_stretches(void **state) {
    (void)state;
    static const FillSpec specs[] = {
        {.make = MAKE_random, .seed = 3, .stream = 8}, {.make = MAKE_random, .lo = {-1, -1}, .hi = {2, 2}, .seed = 3}, {.make = MAKE_randint, .lo = {2, 2}, .hi = {50, 50}},
        {.make = MAKE_iota, .lo = {1, 1}, .hi = {3, 3}}, {.make = MAKE_full, .lo = {4, 4}}, {.make = MAKE_ones}, {.make = MAKE_zeros},
    };
    static const Elem elems[] = {EL_f32, EL_bf16, EL_i32, EL_f64, EL_bool};
    Buf err = {0};
    int64_t n = 300001;
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++)
        for (size_t e = 0; e < sizeof elems / sizeof *elems; e++) {
            HostTensor t, part;
            assert_true(tensor_make(&t, elems[e], 1, &n, &err) && tensor_make(&part, elems[e], 1, &n, &err));
            tensor_fill(&t, &specs[k]);
            size_t wide = (size_t)elem_bytes(elems[e]);
            for (int64_t at = 0, step = 1; at < n; at += step, step = step * 3 % 100003)
                elems_fill(elems[e], (char *)part.data + (size_t)at * wide, at, n - at < step ? n - at : step, &specs[k]);
            assert_memory_equal(t.data, part.data, tensor_bytes(&t));
            tensor_free(&t);
            tensor_free(&part);
        }
}

static void fills(void **state) {
    (void)state;
    Buf err = {0};
    HostTensor t;
    int64_t dim[2] = {100, 37};
    assert_true(tensor_make(&t, EL_bf16, 2, dim, &err));
    tensor_fill(&t, &(FillSpec){.make = MAKE_random, .lo = {0, 0}, .hi = {1, 1}, .seed = 3});
    for (int64_t i = 0; i < tensor_count(&t); i++) {
        double v = elem_get(t.elem, t.data, i);
        assert_true(v >= 0 && v < 1);                     // rounding to bf16 does not reach hi
    }
    tensor_free(&t);
    assert_true(tensor_make(&t, EL_i8, 2, dim, &err));
    tensor_fill(&t, &(FillSpec){.make = MAKE_randint, .lo = {-3, -3}, .hi = {4, 4}});
    int seen[7] = {0};
    for (int64_t i = 0; i < tensor_count(&t); i++) {
        int64_t v = elem_get_int(t.elem, t.data, i);
        assert_in_range(v + 3, 0, 6);
        seen[v + 3]++;
    }
    for (int i = 0; i < 7; i++) assert_in_range(seen[i], 3700 / 7 - 150, 3700 / 7 + 150);
    tensor_fill(&t, &(FillSpec){.make = MAKE_iota, .lo = {5, 5}, .hi = {2, 2}});
    assert_int_equal(elem_get_int(t.elem, t.data, 10), 25);
    assert_int_equal(elem_get_int(t.elem, t.data, 100), 127);          // saturates
    tensor_free(&t);
    assert_true(tensor_make(&t, EL_bool, 1, dim, &err));
    tensor_fill(&t, &(FillSpec){.make = MAKE_random});
    int on = 0;
    for (int64_t i = 0; i < 100; i++) {
        assert_in_range(((unsigned char *)t.data)[i], 0, 1);
        on += ((unsigned char *)t.data)[i];
    }
    assert_in_range(on, 25, 75);
    tensor_free(&t);
}

static void elements(void **state) {
    (void)state;
    unsigned char cell[8];
    for (int e = EL_none + 1; e < EL_COUNT; e++) {
        elem_set((Elem)e, cell, 0, 1);
        assert_true(elem_get((Elem)e, cell, 0) == 1);
        assert_int_equal(elem_get_int((Elem)e, cell, 0), 1);
        elem_set_int((Elem)e, cell, 0, 0);
        assert_true(elem_get((Elem)e, cell, 0) == 0);
    }
    elem_set(EL_u8, cell, 0, -5);
    assert_int_equal(elem_get_int(EL_u8, cell, 0), 0);
    elem_set(EL_i32, cell, 0, NAN);
    assert_int_equal(elem_get_int(EL_i32, cell, 0), 0);
    elem_set_int(EL_u64, cell, 0, -1);
    assert_true(elem_get(EL_u64, cell, 0) == 0x1p64);
    elem_set(EL_f16, cell, 0, 65520);
    assert_true(isinf(elem_get(EL_f16, cell, 0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(philox_vectors),
                                       cmocka_unit_test(moments),
                                       cmocka_unit_test(streams_differ),
                                       cmocka_unit_test(stretches),
                                       cmocka_unit_test(fills_by_stretches),
                                       cmocka_unit_test(fills),
                                       cmocka_unit_test(elements)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Index expressions: what must cancel, and random expressions against brute force.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/graph.h"

#include <string.h>

static void says(Graph *g, Ix e, const char *want) {
    Buf b = {0};
    ix_print(&b, g, e, NULL);
    assert_string_equal(b.p, want);
    buf_free(&b);
}

static void quotients_and_remainders_of_mixed_radix_cancel(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix B = ix_dim(g, "B"), S = ix_dim(g, "S"), P = ix_dim(g, "P");
    Ix b = ix_axis(g, 0, B), s = ix_axis(g, 1, S), d = ix_axis(g, 2, ix(g, 64));
    Ix flat = ix_add(g, ix_mul(g, ix_add(g, ix_mul(g, b, S), s), ix(g, 64)), d);
    assert_ptr_equal(ix_mod(g, flat, ix(g, 64)), d);
    assert_ptr_equal(ix_mod(g, ix_div(g, flat, ix(g, 64)), S), s);
    assert_ptr_equal(ix_div(g, flat, ix_mul(g, S, ix(g, 64))), b);
    Ix T = ix_add(g, S, P), t = ix_axis(g, 3, T);
    Ix two = ix_add(g, ix_mul(g, b, T), t);
    assert_ptr_equal(ix_div(g, two, T), b);
    assert_ptr_equal(ix_mod(g, two, T), t);
    assert_ptr_equal(ix_div(g, ix_mul(g, B, S), S), B);
    assert_true(ix_is(ix_lt(g, two, ix_mul(g, B, T)), 1));
    assert_true(ix_is(ix_le(g, ix(g, 0), two), 1));
    says(g, ix_div(g, flat, ix(g, 512)), "(a1 + S * a0) / 8");
    graph_free(g);
}

// A window's formula, a pool's that rounds up and steps one after the other are the same size.
static void sizes_have_one_form(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix H = ix_dim(g, "H"), half = ix_addi(g, ix_divi(g, ix_addi(g, H, -1), 2), 1);
    assert_ptr_equal(half, ix_ceildiv(g, H, ix(g, 2)));
    assert_ptr_equal(ix_ceildiv(g, half, ix(g, 2)), ix_ceildiv(g, H, ix(g, 4)));
    assert_ptr_equal(ix_divi(g, ix_addi(g, ix_divi(g, ix_addi(g, H, -3), 2), 1), 3), ix_divi(g, ix_addi(g, H, -1), 6));
    says(g, ix_ceildiv(g, ix_ceildiv(g, half, ix(g, 2)), ix(g, 2)), "(H + 7) / 8");
    assert_ptr_equal(ix_divi(g, ix_sub(g, ix(g, 2), H), 3), ix_muli(g, ix_divi(g, H, 3), -1));
    Ix size = H;                                             // windows of 3 by steps of 2, with as much padding as they need
    for (int64_t all = 2; all <= 32; all *= 2) {
        Ix places = ix_ceildiv(g, size, ix(g, 2)), pad = ix_sub(g, ix_addi(g, ix_muli(g, places, 2), 1), size);
        pad = ix_max(g, ix(g, 0), pad);
        size = ix_addi(g, ix_divi(g, ix_addi(g, ix_add(g, size, pad), -3), 2), 1);
        assert_ptr_equal(size, ix_ceildiv(g, H, ix(g, all)));
    }
    graph_free(g);
}

static void parts_of_a_size_are_the_whole(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix h = ix_dim(g, "h"), zero = ix(g, 0);
    Ix first = ix_min(g, h, ix(g, 4)), last = ix_min(g, h, ix_max(g, zero, ix_addi(g, h, -4)));
    says(g, ix_add(g, first, ix_max(g, zero, ix_sub(g, h, first))), "h");
    assert_ptr_equal(last, ix_max(g, zero, ix_addi(g, h, -4)));
    says(g, ix_add(g, last, ix_max(g, zero, ix_sub(g, h, last))), "h");
    graph_free(g);
}

static void truth_values_fold(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix i = ix_axis(g, 0, ix(g, 8)), j = ix_axis(g, 1, ix(g, 8));
    Ix p = ix_le(g, j, i);
    assert_ptr_equal(ix_not(g, ix_not(g, p)), p);
    assert_ptr_equal(ix_not(g, p), ix_lt(g, i, j));
    assert_ptr_equal(ix_and(g, p, ix_lt(g, i, ix(g, 8))), p);
    assert_true(ix_is(ix_eq(g, ix_muli(g, i, 2), ix(g, 7)), 0));
    assert_ptr_equal(ix_lt(g, ix_muli(g, i, 4), ix(g, 13)), ix_lt(g, i, ix(g, 4)));
    says(g, ix_sub(g, ix(g, 3), i), "3 - a0");
    says(g, ix_sub(g, j, ix_addi(g, i, 3)), "a1 - a0 - 3");
    graph_free(g);
}

// ---- random expressions: simplified while they are built, and evaluated as they were meant ---------------------------

typedef struct Meant { Ix e; int64_t v; } Meant;

static uint32_t seed;
static uint32_t rnd(uint32_t n) { seed = seed * 1664525u + 1013904223u; return (seed >> 8) % n; }

static int64_t fdiv(int64_t a, int64_t b) { return b == 0 ? 0 : a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

enum { POINTS = 24, AXES = 4, DIMS = 3, POOL = 14 };

static void random_expressions_keep_their_value(void **state) {
    (void)state;
    for (uint32_t round = 1; round <= 4000; round++) {
        seed = round * 7919;
        Graph *g = graph_new("t");
        int64_t dims[POINTS][DIMS], axes[POINTS][AXES];
        Ix dim[DIMS], extent[AXES];
        for (int i = 0; i < DIMS; i++) {
            char name[2] = {(char)('A' + i), 0};
            dim[i] = ix_dim_range(g, name, 1, 9, 1);
        }
        for (int i = 0; i < AXES; i++)
            extent[i] = rnd(2) ? ix(g, 1 + rnd(9)) : rnd(3) ? dim[rnd(DIMS)] : ix_add(g, dim[0], dim[rnd(DIMS)]);
        for (int p = 0; p < POINTS; p++) {
            for (int i = 0; i < DIMS; i++) dims[p][i] = 1 + rnd(9);
            for (int i = 0; i < AXES; i++) axes[p][i] = rnd((uint32_t)ix_eval(extent[i], dims[p], NULL));
        }
        Ix e[POOL];
        int64_t v[POOL][POINTS];
        int n = 0;
        for (int i = 0; i < AXES; i++, n++) {
            e[n] = ix_axis(g, i, extent[i]);
            for (int p = 0; p < POINTS; p++) v[n][p] = axes[p][i];
        }
        for (int i = 0; i < DIMS; i++, n++) {
            e[n] = dim[i];
            for (int p = 0; p < POINTS; p++) v[n][p] = dims[p][i];
        }
        for (; n < POOL; n++) {
            int op = (int)rnd(11), x = (int)rnd((uint32_t)n), y = (int)rnd((uint32_t)n);
            int64_t c = 1 + (int64_t)rnd(6);
            if (op == 3 || op == 4) {                        // divisors: a constant, an extent, a product
                int k = (int)rnd(3);
                Ix by = k == 0 ? ix(g, c) : k == 1 ? extent[rnd(AXES)] : ix_muli(g, dim[rnd(DIMS)], c);
                e[n] = op == 3 ? ix_div(g, e[x], by) : ix_mod(g, e[x], by);
                for (int p = 0; p < POINTS; p++) {
                    int64_t d = ix_eval(by, dims[p], axes[p]), q = fdiv(v[x][p], d);
                    v[n][p] = op == 3 ? q : v[x][p] - q * d;
                }
            } else {
                Ix a = e[x], b = e[y];
                e[n] = op == 0   ? ix_add(g, a, b)
                       : op == 1 ? ix_sub(g, a, b)
                       : op == 2 ? ix_mul(g, a, b)
                       : op == 5 ? ix_min(g, a, b)
                       : op == 6 ? ix_max(g, a, b)
                       : op == 7 ? ix_lt(g, a, b)
                       : op == 8 ? ix_eq(g, a, b)
                       : op == 9 ? ix_add(g, ix_mul(g, a, ix_muli(g, extent[rnd(1)], 1)), ix_muli(g, b, c))
                                 : ix_select(g, ix_le(g, a, b), ix_addi(g, a, c), b);
                for (int p = 0; p < POINTS; p++) {
                    int64_t s = v[x][p], t = v[y][p];
                    v[n][p] = op == 0   ? s + t
                              : op == 1 ? s - t
                              : op == 2 ? s * t
                              : op == 5 ? (s < t ? s : t)
                              : op == 6 ? (s > t ? s : t)
                              : op == 7 ? s < t
                              : op == 8 ? s == t
                              : op == 9 ? s * ix_eval(extent[0], dims[p], axes[p]) + t * c
                              : s <= t  ? s + c
                                        : t;
                }
            }
            if (!e[n]) break;                                // too complicated: said, not wrong
            for (int p = 0; p < POINTS; p++) {
                int64_t got = ix_eval(e[n], dims[p], axes[p]);
                if (got != v[n][p] || got < e[n]->lo || got > e[n]->hi ||
                    (e[n]->multiple ? got % e[n]->multiple != 0 : got != 0)) {
                    Buf b = {0};
                    ix_print(&b, g, e[n], NULL);
                    fail_msg("round %u, expression %d: %s is %lld, should be %lld", round, n, b.p, (long long)got,
                             (long long)v[n][p]);
                }
            }
        }
        graph_free(g);
    }
}

// What remains of several reshapes and transposes that put bits in another order (windows within windows): it takes no
// time to speak of.
static void digits_in_another_order_are_quick(void **state) {
    (void)state;
    enum { BITS = 12, ROUNDS = 4 };
    for (int step = 5; step < BITS; step += 2) {                  // 5, 7, 11: no factor of 12, so an order of all bits
        if (step == 9) continue;
        Graph *g = graph_new("t");
        Ix e = ix_axis(g, 0, ix(g, 1 << BITS));
        int64_t expect[3] = {1, 1234, (1 << BITS) - 2};
        for (int round = 0; round < ROUNDS; round++) {
            Ix sum = ix(g, 0);
            for (int i = 0; i < BITS; i++)
                sum = ix_add(g, sum, ix_muli(g, ix_modi(g, ix_divi(g, e, 1 << i), 2), 1 << (i * step + round) % BITS));
            e = sum;
            for (int k = 0; k < 3; k++) {
                int64_t v = 0;
                for (int i = 0; i < BITS; i++) v += (expect[k] >> i & 1) << (i * step + round) % BITS;
                expect[k] = v;
            }
        }
        int64_t at[3] = {1, 1234, (1 << BITS) - 2};
        for (int k = 0; k < 3; k++) assert_int_equal(ix_eval(e, NULL, &at[k]), expect[k]);
        graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients_and_remainders_of_mixed_radix_cancel),
        cmocka_unit_test(sizes_have_one_form), cmocka_unit_test(parts_of_a_size_are_the_whole),
        cmocka_unit_test(truth_values_fold),
        cmocka_unit_test(random_expressions_keep_their_value),
        cmocka_unit_test(digits_in_another_order_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Builders: chains that must cancel, shapes that must be found, mistakes that must be said.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/graph.h"

#include <string.h>

static void movement_that_does_nothing_vanishes(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix B = ix_dim(g, "B"), S = ix_dim(g, "S");
    Node *x = g_input(g, "x", EL_f32, 3, (Ix[]){B, S, ix(g, 768)});
    Node *h = g_reshape(g, x, 4, (Ix[]){B, S, ix(g, 12), ix(g, 64)});
    Node *t = g_transpose(g, h, 4, (int[]){0, 2, 1, 3});
    Node *back = g_reshape(g, g_transpose(g, t, 4, (int[]){0, 2, 1, 3}), 3, (Ix[]){B, S, ix(g, -1)});
    assert_ptr_equal(back, x);
    Node *flat = g_reshape(g, g_reshape(g, x, 1, (Ix[]){ix(g, -1)}), 3, (Ix[]){B, S, ix(g, 768)});
    assert_ptr_equal(flat, x);
    Node *k = g_transpose(
        g,
        g_reshape(g, g_transpose(g, g_reshape(g, t, 3, (Ix[]){ix(g, -1), S, ix(g, 64)}), 3, (int[]){0, 2, 1}), 4,
                  (Ix[]){B, ix(g, 12), ix(g, 64), S}), 4,
        (int[]){0, 1, 3, 2});
    assert_ptr_equal(k, t);
    Node *cut = g_slice(
        g,
        g_pad(g, x, (Ix[]){ix(g, 0), ix(g, 2), ix(g, 0)}, (Ix[]){ix(g, 0), ix(g, 0), ix(g, 0)}, GP_constant, g_int(0)),
        1, ix(g, 2), NULL, 1);
    assert_ptr_equal(cut, x);
    assert_null(g_failed(g));
    graph_free(g);
}

// As a cache is updated that is written along an inner axis: transposed, at its rows, and back.
static void scatters_into_reordered_data(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix B = ix_dim(g, "B"), S = ix_dim(g, "S"), T = ix_dim(g, "T");
    Node *cache = g_input(g, "cache", EL_f32, 4, (Ix[]){B, ix(g, 1), S, ix(g, 64)}), *at = g_input(g, "at", EL_i64, 2, (Ix[]){T, ix(g, 1)}),
         *rows = g_input(g, "rows", EL_f32, 4, (Ix[]){T, B, ix(g, 1), ix(g, 64)});
    Node *outer = g_transpose(g, cache, 4, (int[]){2, 0, 1, 3}), *put = g_scatter_nd(g, GR_none, outer, at, rows);
    Node *back = g_transpose(g, put, 4, (int[]){1, 2, 0, 3});
    assert_int_equal(back->kind, G_scatter);
    assert_ptr_equal(back->src[0], cache);
    Node *pad = g_pad(g, cache, (Ix[]){ix(g, 0), ix(g, 0), ix(g, 1), ix(g, 0)}, (Ix[]){ix(g, 0), ix(g, 0), ix(g, 0), ix(g, 0)}, GP_constant, g_int(0));
    Node *other = g_scatter_nd(g, GR_none, g_transpose(g, pad, 4, (int[]){2, 0, 1, 3}), at, rows);   // has elements that the cache has not
    assert_int_equal(other->kind, G_scatter);
    assert_null(g_failed(g));
    graph_free(g);
}

static void shape_arithmetic_folds(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix B = ix_dim(g, "B"), S = ix_dim(g, "S");
    Node *x = g_input(g, "x", EL_f32, 3, (Ix[]){B, S, ix(g, 768)});
    Node *shape = g_shape_vec(g, 3, x->shape);
    Node *s = g_gather_axis(g, shape, g_i(g, EL_i64, 1), 0);
    assert_ptr_equal(g_known_ix(g, s), S);
    Node *twice = g_ew2(g, EW_mul, s, g_i(g, EL_i64, 2));
    Node *cat = g_concat(g, 0,
                         (Node *[]){g_slice(g, shape, 0, ix(g, 0), ix(g, 1), 1), g_unsqueeze(g, twice, 1),
                                    g_vec_i64(g, 1, (int64_t[]){-1})},
                         3);
    int n;
    const Ix *known = g_known(g, cat, &n);
    assert_int_equal(n, 3);
    assert_ptr_equal(known[0], B);
    assert_ptr_equal(known[1], ix_muli(g, S, 2));
    Node *y = g_reshape(g, x, 3, known);
    assert_true(ix_is(y->shape[2], 384));
    Node *mask = g_ew2(g, EW_le, g_iota(g, EL_i64, 2, (Ix[]){S, S}, 1), g_iota(g, EL_i64, 2, (Ix[]){S, S}, 0));
    assert_int_equal(mask->kind, G_index);
    graph_free(g);
}

static void products_are_put_in_order(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix B = ix_dim(g, "B"), S = ix_dim(g, "S");
    Node *x = g_input(g, "x", EL_f32, 3, (Ix[]){B, S, ix(g, 768)});
    Node *w = g_input(g, "w", EL_f32, 2, (Ix[]){ix(g, 768), ix(g, 5)});
    Node *y = g_matmul(g, x, w);
    assert_int_equal(y->kind, G_contract);
    assert_int_equal(y->contract.nm, 2);
    assert_int_equal(y->contract.nb, 0);
    assert_true(ix_is(y->shape[2], 5));
    Buf b = {0};
    g_output(g, "y", g_softmax(g, y, 4));
    graph_print(&b, g);
    assert_string_equal(b.p,
        "graph t\n"
        "%0 : f32[B, S, 768] = input \"x\"\n"
        "%1 : f32[768, 5] = input \"w\"\n"
        "%2 : f32[5, 768] = view %1[a1, a0]\n"
        "%3 : f32[B, S, 5] = contract %0, %2 (batch 0, m 2, n 1, k 1, sums f32)\n"
        "%4 : f32[B, S] = max %3 over a2\n"
        "%5 : f32[B, S, 5] = view %4[a0, a1]\n"
        "%6 : f32[B, S, 5] = sub %3, %5\n"
        "%7 : f32[B, S, 5] = exp %6\n"
        "%8 : f32[B, S] = sum %7 over a2\n"
        "%9 : f32[B, S, 5] = view %8[a0, a1]\n"
        "%10 : f32[B, S, 5] = div %7, %9\n"
        "output \"y\" = %10\n");
    buf_free(&b);
    graph_free(g);
}

static void mistakes_are_said_once_with_their_node(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Node *x = g_input(g, "x", EL_f32, 2, (Ix[]){ix(g, 2), ix(g, 3)});
    g_at(g, "Reshape /a/b");
    assert_null(g_reshape(g, x, 2, (Ix[]){ix(g, 4), ix(g, 2)}));
    assert_null(g_ew1(g, EW_exp, NULL));
    assert_string_equal(g_failed(g), "Reshape /a/b: cannot reshape [2, 3] to [4, 2]");
    graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(movement_that_does_nothing_vanishes),
        cmocka_unit_test(scatters_into_reordered_data),
        cmocka_unit_test(shape_arithmetic_folds),
        cmocka_unit_test(products_are_put_in_order),
        cmocka_unit_test(mistakes_are_said_once_with_their_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

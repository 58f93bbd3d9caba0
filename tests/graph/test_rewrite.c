// Rewrites keep what is computed: random networks on the interpreter, before and after.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/fuse/fuse.h"
#include "graph/ref/ref.h"
#include "tests/graph/networks.h"

enum { NETWORKS = 300 };

static void networks_stay_the_same(void **unused) {
    (void)unused;
    for (int seed = 0; seed < NETWORKS; seed++) {
        GTensor before[MOST_RESULTS] = {0}, after[MOST_RESULTS] = {0};
        Graph *g = network_new(seed);
        GTensor x = network_input(g);
        network_run(g, &x, before);
        graph_simplify(g);
        if (g_failed(g)) fail_msg("network %d, rewritten: %s", seed, g_failed(g));
        network_run(g, &x, after);
        if (!graph_fuse(g)) fail_msg("network %d, as kernels: %s", seed, g_failed(g));
        for (int i = 0; i < graph_output_count(g); i++) {
            assert_int_equal(before[i].bytes, after[i].bytes);
            network_compare(seed, i, &before[i], after[i].data, 1e-4);
            g_tensor_free(&before[i]);
            g_tensor_free(&after[i]);
        }
        g_tensor_free(&x);
        graph_free(g);
    }
}

// x > 0 on the whole: relu(x), or (inside, by another condition) -x or x * x; and a second value of each side.
static Graph *branches(bool same_shape) {
    Graph *g = graph_new("branches");
    Ix n = ix(g, 4);
    Node *x = g_input(g, "x", EL_f32, 1, &n), *zero = g_f(g, EL_f32, 0), *sum = g_reduce(g, GR_sum, x, 1, false),
         *first = g_reshape(g, g_slice(g, x, 0, ix(g, 0), ix(g, 1), 1), 0, NULL);
    Node *negative = g_ew1(g, EW_neg, x), *square = g_ew2(g, EW_mul, x, x);
    Node *inner = g_if(g, g_ew2(g, EW_lt, first, zero), &(GBody){NULL, 0, &negative, 1}, &(GBody){NULL, 0, &square, 1});
    Node *one[2] = {g_ew2(g, EW_max, x, zero), sum}, *other[2] = {g_proj(g, inner, 0), first};
    if (!same_shape) one[1] = x, other[1] = g_slice(g, x, 0, ix(g, 0), ix(g, 2), 1);
    Node *n_if = g_if(g, g_ew2(g, EW_lt, zero, sum), &(GBody){NULL, 0, one, 2}, &(GBody){NULL, 0, other, 2});
    g_output(g, "y", g_proj(g, n_if, 0));
    g_output(g, "z", g_proj(g, n_if, 1));
    return g;
}

static void ifs_become_values(void **unused) {
    (void)unused;
    static float inputs[][4] = {{1, 2, -1, 4}, {-1, 2, -3, 1}, {1, -5, 2, 0.5f}};
    for (int i = 0; i < 3; i++) {
        GTensor x = {.elem = EL_f32, .rank = 1, .shape = {4}, .bytes = sizeof inputs[i], .data = inputs[i]},
                before[2] = {0}, after[2] = {0};
        char why[256];
        Graph *g = branches(true);
        assert_true(ref_run(g, &x, before, NULL, why, sizeof why));
        assert_null(graph_fuse(g));                          // an if has no form as a kernel
        graph_free(g);
        g = branches(true);
        graph_simplify(g);
        assert_true(ref_run(g, &x, after, NULL, why, sizeof why));
        if (!graph_fuse(g)) fail_msg("%s", g_failed(g));
        for (int k = 0; k < 2; k++) {
            assert_int_equal(before[k].bytes, after[k].bytes);
            assert_memory_equal(before[k].data, after[k].data, before[k].bytes);
            g_tensor_free(&before[k]);
            g_tensor_free(&after[k]);
        }
        graph_free(g);
    }
    Graph *g = branches(false);                              // shapes that the condition decides: left as it is
    graph_simplify(g);
    assert_null(graph_fuse(g));
    assert_non_null(strstr(g_failed(g), "`if` has no form as a kernel"));
    graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_stay_the_same), cmocka_unit_test(ifs_become_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Rewrites keep what is computed: random networks on the interpreter, before and after.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/fuse/fuse.h"
#include "graph/ref/ref.h"
#include "graph/write/write.h"
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

// The data say how many there are, and nothing else of what finds them is used.
static void sizes_of_data_are_refused(void **unused) {
    (void)unused;
    Graph *g = graph_new("found");
    Buf text = {0}, err = {0};
    Ix n = ix_dim_fresh(g, "found", 0, 100);
    g_output(g, "y", g_index(g, EL_i32, 1, &n, ix_axis(g, 0, n)));
    assert_false(graph_write(g, NULL, &text, &err));
    assert_non_null(strstr(err.p, "a size depends on the data (`found`)"));
    buf_free(&text);
    buf_free(&err);
    graph_free(g);
}

static void check_alone(Graph *g, Node *y, float want, size_t elements) {
    GTensor out = {0};
    char why[256];
    g_output(g, "y", y);
    graph_simplify(g);
    Node *left = g->outputs.at[0].node;
    assert_true(left->nsrc == 0 || left->src[0]->kind == G_const);   // nothing to compute
    if (!ref_run(g, NULL, &out, NULL, why, sizeof why)) fail_msg("%s", why);
    assert_int_equal(out.bytes, elements * sizeof want);
    for (size_t i = 0; i < elements; i++) assert_true(((float *)out.data)[i] == want);
    g_tensor_free(&out);
    graph_free(g);
}

static void what_has_no_elements_is_not_computed(void **unused) {
    (void)unused;
    for (int which = 0; which < 5; which++) {
        Graph *g = graph_new("empty");
        Ix two = ix(g, 2), none = ix(g, 0), before[2] = {two, none}, after[2] = {none, none};
        float numbers[1] = {0};
        int64_t dims[2] = {0, 3};
        Node *x = g_ew1(g, EW_sin, g_const(g, EL_f32, 2, dims, numbers));
        if (which == 0) check_alone(g, x, 0, 0);
        if (which == 1) check_alone(g, g_reduce(g, GR_sum, x, 1, false), 0, 3);
        if (which == 2) check_alone(g, g_reduce(g, GR_prod, x, 3, false), 1, 1);
        if (which == 3) check_alone(g, g_pad(g, x, before, after, GP_constant, g_float(2.5)), 2.5f, 6);
        if (which == 4) check_alone(g, g_contract(g, g_transpose(g, x, (int[]){1, 0}), g_transpose(g, x, (int[]){1, 0}), 0, 1, 1, 1, EL_f32, EL_f32), 0, 9);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_stay_the_same), cmocka_unit_test(ifs_become_values),
                                       cmocka_unit_test(sizes_of_data_are_refused), cmocka_unit_test(what_has_no_elements_is_not_computed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

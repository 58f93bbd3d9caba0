// Rewrites keep what is computed: random networks on the interpreter, before and after.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/fuse/fuse.h"
#include "graph/graph_passes.h"
#include "graph/ref/ref.h"
#include "graph/stages.h"
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
        graph_set_passes(g, &(GraphPasses){.verify = true});
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

// y = exp(sort(2 x)), z = 2 x: sorts of that many elements have no form as kernels.
static Graph *sorted(bool double_it, int64_t elements) {
    Graph *g = graph_new("sorted");
    Ix n = ix(g, elements);
    Node *x = g_input(g, "x", EL_f32, 1, &n), *twice = double_it ? g_ew2f(g, EW_mul, x, 2) : x;
    g_output(g, "y", g_ew1(g, EW_exp, g_sort(g, twice, 0, false, NULL)));
    if (double_it) g_output(g, "z", twice);
    return g;
}

static Graph *sides(bool unused, int64_t unused_too) {
    (void)unused, (void)unused_too;
    return branches(false);
}

// The programs' results on the interpreter, and its turns between them, are the model's.
static void programs_and_turns_are_the_whole(void **unused) {
    (void)unused;
    static const struct { Graph *(*make)(bool, int64_t); int64_t elements; int made[2], programs; } cases[] = {{sorted, 40000, {1, 1}, 2}, {sides, 4, {1}, 1}};
    for (int i = 0; i < 2; i++) {
        char why[256];
        Graph *whole = cases[i].make(true, cases[i].elements);
        GTensor x = {.elem = EL_f32, .rank = 1, .shape = {cases[i].elements}}, want[2], *value;
        assert_true(g_tensor_alloc(&x));
        for (int64_t k = 0; k < cases[i].elements; k++) ((float *)x.data)[k] = (float)(k * 37 % 101) / 101 - 0.25f;
        assert_true(ref_run(whole, &x, want, NULL, why, sizeof why));
        assert_true(graph_cut(whole));
        const GStages *s = graph_stages(whole);
        GSizes known = {heap_try_zeroed((size_t)graph_dim_count(whole) + 1, sizeof(int64_t)), heap_try_zeroed((size_t)graph_dim_count(whole) + 1, sizeof(bool))};
        value = heap_try_zeroed((size_t)s->nvalues, sizeof *value);
        assert_int_equal(s->nstages, cases[i].programs);
        for (int k = 0; k <= s->nstages; k++) {
            const GStage *at = &s->stage[k];
            GTensor in[8], made[8];
            if (k > 0) {
                Graph *g = graph_stage(whole, k);
                if (g_failed(g)) fail_msg("%s", g_failed(g));
                assert_int_equal(at->nout, cases[i].made[k - 1]);
                graph_simplify(g);
                if (!graph_fuse(g)) fail_msg("%s", g_failed(g));
                for (int p = 0; p < at->nin; p++) in[p] = at->in[p] < 0 ? x : value[at->in[p]];
                assert_true(ref_run(g, in, made, NULL, why, sizeof why));
                for (int p = 0; p < at->nout; p++) value[at->out[p]] = made[p];
                graph_free(g);
            }
            if (at->nmakes == 0) continue;
            for (int p = 0; p < at->nreads; p++) in[p] = value[at->reads[p]];
            if (!graph_turn(whole, k, &x, in, made, &known, why, sizeof why)) fail_msg("%s", why);
            for (int p = 0; p < at->nmakes; p++) value[at->makes[p]] = made[p];
        }
        for (int k = 0; k < 2; k++) {
            const GTensor *got = &value[s->result[k]];
            assert_int_equal(want[k].bytes, got->bytes);
            assert_memory_equal(want[k].data, got->data, want[k].bytes);
            g_tensor_free(&want[k]);
        }
        for (int k = 0; k < s->nvalues; k++) g_tensor_free(&value[k]);
        heap_free(known.dims);
        heap_free(known.bound);
        heap_free(value);
        g_tensor_free(&x);
        graph_free(whole);
    }
    Graph *all = sorted(true, 1000);                         // all of it has a form
    assert_false(graph_cut(all));
    assert_null(graph_stages(all));
    graph_free(all);
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
        if (which == 4) check_alone(g, g_contract(g, g_transpose(g, x, 2, (int[]){1, 0}), g_transpose(g, x, 2, (int[]){1, 0}), 0, 1, 1, 1, EL_f32, EL_f32), 0, 9);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_stay_the_same), cmocka_unit_test(ifs_become_values), cmocka_unit_test(programs_and_turns_are_the_whole),
                                       cmocka_unit_test(sizes_of_data_are_refused), cmocka_unit_test(what_has_no_elements_is_not_computed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

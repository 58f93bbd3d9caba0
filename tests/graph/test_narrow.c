// --dtype: which values are rounded. A transformer's layer keeps its kernels, all that is kept between them is of the
// smaller type, and what needs its bits keeps them.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/fuse/fuse.h"
#include "graph/rewrite/narrow.h"
#include "tests/graph/layer.h"

#include <string.h>

// Angles as exporters write them: a product of positions and a few frequencies.
static Node *angles(Graph *g, Ix T) {
    float f[16];
    for (int i = 0; i < 16; i++) f[i] = 1.0f / (float)(i + 1);
    Node *freq = g_const(g, EL_f32, 2, (int64_t[]){16, 1}, f);
    return g_ew1(g, EW_cos, g_matmul(g, g_iota(g, EL_f32, 2, S(T, ix(g, 1)), 0), g_transpose(g, freq, 2, (int[]){1, 0})));
}

static Graph *layers(int n) {
    Graph *g = graph_new("layer");
    Ix B = ix_dim(g, "B"), T = ix_dim(g, "T");
    Node *x = g_input(g, "x", EL_f32, 3, S(B, T, ix(g, 64)));
    for (int i = 0; i < n; i++) x = layer(g, x, B, T, angles(g, T), NULL);
    g_output(g, "y", x);
    assert_null(g_failed(g));
    return g;
}

static bool is_output(const Graph *g, const Node *n) {
    for (uint32_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i].node == n) return true;
    return false;
}

static void what_is_kept_is_small(void **state) {
    (void)state;
    Graph *g = layers(2);
    assert_true(graph_narrow(g, EL_bf16, false));
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    int launches = 0, angles = 0;
    for (uint32_t i = 0; i < f->groups.n; i++) {
        const FGroup *a = f->groups.at[i];
        // weights side by side, or by rows, made once
        if (a->root->kind == G_concat || a->root->kind == G_view) continue;
        launches++;
        for (uint32_t k = 0; k < a->makes.n; k++) {
            const Node *n = a->makes.at[k];
            bool table = n->kind == G_ew && n->op == EW_cos;
            angles += table || (n->kind == G_contract && n->elem == EL_f32);
            assert_int_equal(n->elem, is_output(g, n) || table || n->kind == G_contract ? EL_f32 : EL_bf16);
        }
    }
    assert_int_equal(angles, 1);                             // of both layers; in f32
    // seven a layer, and its turned queries, which tensor cores load
    assert_int_equal(launches, 16 + angles);
    for (uint32_t i = 0; i < g->nodes.n; i++) {              // products: small operands, sums in f32
        const Node *n = g->nodes.at[i];
        if (n->kind != G_contract || !f->maker[n->id]) continue;
        assert_int_equal(n->elem, EL_f32);
        assert_int_equal(n->contract.acc, EL_f32);
    }
    assert_int_equal(g->inputs.at[0].node->elem, EL_f32);
    graph_free(g);
}

static void borders_are_small_when_asked(void **state) {
    (void)state;
    Graph *g = layers(1);
    assert_true(graph_narrow(g, EL_f16, true));
    assert_int_equal(g->inputs.n, 1);
    assert_int_equal(g->inputs.at[0].node->elem, EL_f16);
    assert_string_equal(g->inputs.at[0].name, "x");
    assert_int_equal(g->outputs.at[0].node->elem, EL_f16);
    graph_free(g);
}

static void movement_stays_small(void **state) {
    (void)state;
    Graph *g = graph_new("cache");
    Ix n = ix(g, 8), d = ix(g, 64);
    Node *past = g_input(g, "past", EL_f32, 2, S(n, d)), *x = g_input(g, "x", EL_f32, 2, S(ix(g, 1), d));
    g_output(g, "now", g_concat(g, 0, (Node *[]){past, x}, 2));
    assert_true(graph_narrow(g, EL_bf16, true));
    const Node *y = g->outputs.at[0].node;
    assert_int_equal(y->kind, G_concat);                     // of the inputs as they are, not of their copies in f32
    assert_int_equal(y->src[0]->kind, G_input);
    graph_free(g);
}

// Weights of many columns by rows of what is summed over, where 16 bytes divide those; as they are in 32 bits.
static int stored_anew(int64_t rows, int64_t columns, bool narrow) {
    Graph *g = graph_new("linear");
    g_output(g, "y", g_matmul(g, g_input(g, "x", EL_f32, 2, S(ix_dim(g, "B"), ix(g, rows))), weight(g, "w", rows, columns)));
    if (narrow) assert_true(graph_narrow(g, EL_bf16, true));
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    int once = 0;
    for (uint32_t i = 0; i < f->groups.n; i++) once += f->groups.at[i]->once;
    graph_free(g);
    return once;
}

static void weights_lie_by_rows(void **state) {
    (void)state;
    assert_int_equal(stored_anew(16, 1024, true), 1);
    assert_int_equal(stored_anew(12, 1024, true), 0);
    assert_int_equal(stored_anew(64, 256, true), 0);
    assert_int_equal(stored_anew(16, 1024, false), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_small),
        cmocka_unit_test(borders_are_small_when_asked),
        cmocka_unit_test(movement_stays_small), cmocka_unit_test(weights_lie_by_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

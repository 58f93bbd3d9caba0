// Products of quantised numbers: what becomes a product of bytes, and what does not.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/rewrite/rewrite.h"

#include <stdlib.h>

#define S(...) (Ix[]){__VA_ARGS__}

static Graph *g;
static int8_t weights[8 * 32];

static Node *bytes(const char *name, Elem e, int64_t rows, int64_t columns) {
    return g_input(g, name, e, 2, S(ix(g, rows), ix(g, columns)));
}

// (q - zero) * scale
static Node *floats(Node *q, int64_t zero, Node *scale) {
    Node *wide = g_cast(g, q, EL_i32);
    if (zero) wide = g_ew2(g, EW_sub, wide, g_i(g, EL_i32, zero));
    return g_ew2(g, EW_mul, g_cast(g, wide, EL_f32), scale);
}

static Node *weight(void) {
    for (int i = 0; i < 8 * 32; i++) weights[i] = (int8_t)(i * 7 % 31 - 15);
    return g_const(g, EL_i8, 2, (int64_t[]){8, 32}, weights);
}

static Node *per_row(int64_t rows) { return g_unsqueeze(g, g_input(g, "s", EL_f32, 1, S(ix(g, rows))), 2); }

// The product that is left, when y is the graph's result.
static const Node *product(Node *y) {
    const Node *found = NULL;
    g_output(g, "y", y);
    integer_products(g);
    assert_null(g_failed(g));
    bool *alive = heap_try_zeroed(g->nodes.n, sizeof *alive);
    alive[g->outputs.at[0].node->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; k < n->nsrc && alive[i]; k++) alive[n->src[k]->id] = true;
        if (alive[i] && n->kind == G_contract) found = n;
    }
    heap_free(alive);
    assert_non_null(found);
    return found;
}

static Node *times(Node *a, Node *b) { return g_contract(g, a, b, 0, 1, 1, 1, EL_f32, EL_f32); }

static void becomes(Node *y, Elem a, Elem b, Elem sum) {
    const Node *p = product(y);
    assert_int_equal(p->src[0]->elem, a);
    assert_int_equal(p->src[1]->elem, b);
    assert_int_equal(p->elem, sum);
    graph_free(g);
}

static void fused(void **state) {
    (void)state;
    Node *half;
    g = graph_new("t");                                                // scales of both
    becomes(times(floats(bytes("x", EL_i8, 4, 32), 0, g_f(g, EL_f32, 0.5)), floats(weight(), 0, per_row(8))), EL_i8,
            EL_i8, EL_i32);
    g = graph_new("t");                                                // a zero point on the left
    becomes(times(floats(bytes("x", EL_u8, 4, 32), 131, g_f(g, EL_f32, 0.5)), floats(weight(), 0, per_row(8))), EL_u8,
            EL_i8, EL_i32);
    g = graph_new("t");                                                // .. on the right, and on both sides
    becomes(times(floats(bytes("x", EL_i8, 4, 32), 0, g_f(g, EL_f32, 0.5)), floats(weight(), 3, per_row(8))), EL_i8,
            EL_i8, EL_i32);
    g = graph_new("t");
    becomes(times(floats(bytes("x", EL_u8, 4, 32), 131, g_f(g, EL_f32, 0.5)), floats(weight(), 3, per_row(8))), EL_u8,
            EL_i8, EL_i32);
    g = graph_new("t");                                                // .. about which bytes are signed
    becomes(times(floats(bytes("x", EL_i8, 4, 32), 0, g_f(g, EL_f32, 0.5)),
                  floats(g_const(g, EL_u8, 2, (int64_t[]){8, 32}, weights), 128, per_row(8))), EL_i8, EL_i8, EL_i32);
    g = graph_new("t");                                                // .. found when the model runs
    becomes(g_contract(g, g_ew2(g, EW_sub, g_cast(g, bytes("x", EL_u8, 4, 32), EL_i32), g_cast(g, g_input(g, "z", EL_u8, 0, NULL), EL_i32)),
                       g_cast(g, weight(), EL_i32), 0, 1, 1, 1, EL_i32, EL_i32),
            EL_u8, EL_i8, EL_i32);
    g = graph_new("t");                                                // a scale for each row of the left
    becomes(times(floats(bytes("x", EL_i8, 4, 32), 0, per_row(4)), floats(weight(), 0, g_f(g, EL_f32, 2))), EL_i8,
            EL_i8, EL_i32);
    g = graph_new("t");                                                // integers alone
    becomes(g_contract(g, g_cast(g, bytes("x", EL_u8, 4, 32), EL_i32), g_cast(g, weight(), EL_i32), 0, 1, 1, 1, EL_i32,
                       EL_i32),
            EL_u8, EL_i8, EL_i32);
    g = graph_new("t");                                                // f8
    half = g_f(g, EL_f32, 0.5);
    becomes(times(g_ew2(g, EW_mul, g_cast(g, bytes("x", EL_f8e4m3, 4, 32), EL_f32), half),
                  g_ew2(g, EW_mul, g_cast(g, bytes("w", EL_f8e4m3, 8, 32), EL_f32), half)),
            EL_f8e4m3, EL_f8e4m3, EL_f32);
}

static void left_alone(void **state) {
    (void)state;
    g = graph_new("t");                                                // floats on the left
    becomes(times(bytes("x", EL_f32, 4, 32), floats(weight(), 0, per_row(8))), EL_f32, EL_f32, EL_f32);
    g = graph_new("t");                                                // a scale that varies along what is added up
    becomes(times(floats(bytes("x", EL_i8, 4, 32), 0, g_f(g, EL_f32, 0.5)),
                  floats(weight(), 0, g_input(g, "s", EL_f32, 1, S(ix(g, 32))))),
            EL_f32, EL_f32, EL_f32);
    g = graph_new("t");                                                // a zero point, and a right operand that is computed
    becomes(times(floats(bytes("x", EL_u8, 4, 32), 5, g_f(g, EL_f32, 0.5)),
                  floats(bytes("w", EL_i8, 8, 32), 0, per_row(8))),
            EL_f32, EL_f32, EL_f32);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fused), cmocka_unit_test(left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Fusion: a transformer's layer is seven kernels; maps are inverted; what must be stored is, for a reason.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/fuse.h"
#include "graph/write.h"

#include <stdio.h>
#include <string.h>

#define S(...) (Ix[]){__VA_ARGS__}

static float weights[64 * 256];      // large constants are different ones unless they are one place of a file

static Node *weight(Graph *g, const char *name, int64_t rows, int64_t columns)
{
    return g_name(g, g_const_ref(g, EL_f32, 2, (int64_t[]){rows, columns}, weights, NULL, 0), name);
}

static Node *norm(Graph *g, Node *x)
{
    Node *d = g_ew2(g, EW_sub, x, g_mean(g, x, 4, true));
    Node *v = g_mean(g, g_ew2(g, EW_mul, d, d), 4, true);
    return g_ew2(g, EW_div, d, g_ew1(g, EW_sqrt, g_ew2f(g, EW_add, v, 1e-5)));
}

static Node *heads(Graph *g, Node *x, Ix B, Ix T)
{
    return g_transpose(g, g_reshape(g, x, 4, S(B, T, ix(g, 4), ix(g, 16))), (int[]){0, 2, 1, 3});
}

static void a_layer_is_seven_kernels(void **state)
{
    (void)state;
    Graph *g = graph_new("layer");
    Ix B = ix_dim(g, "B"), T = ix_dim(g, "T");
    Node *x = g_input(g, "x", EL_f32, 3, S(B, T, ix(g, 64)));
    Node *h = norm(g, x);
    Node *q = heads(g, g_matmul(g, h, weight(g, "q", 64, 64)), B, T), *k = heads(g, g_matmul(g, h, weight(g, "k", 64, 64)), B, T);
    Node *v = heads(g, g_matmul(g, h, weight(g, "v", 64, 64)), B, T);
    Node *s = g_ew2f(g, EW_mul, g_matmul(g, q, g_transpose(g, k, (int[]){0, 1, 3, 2})), 0.25);
    Node *past = g_ew2(g, EW_le, g_iota(g, EL_i64, 2, S(T, T), 1), g_iota(g, EL_i64, 2, S(T, T), 0));
    s = g_where(g, past, s, g_f(g, EL_f32, -3.4e38));
    Node *o = g_reshape(g, g_transpose(g, g_matmul(g, g_softmax(g, s, 8), v), (int[]){0, 2, 1, 3}), 3, S(B, T, ix(g, 64)));
    Node *r = g_ew2(g, EW_add, x, g_matmul(g, o, weight(g, "o", 64, 64)));
    Node *n = norm(g, r);
    Node *gate = g_matmul(g, n, weight(g, "gate", 64, 256)), *up = g_matmul(g, n, weight(g, "up", 64, 256));
    Node *m = g_ew2(g, EW_mul, g_ew2(g, EW_mul, gate, g_ew1(g, EW_sigmoid, gate)), up);
    g_output(g, "y", g_ew2(g, EW_add, r, g_matmul(g, m, weight(g, "down", 256, 64))));
    assert_null(g_failed(g));
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    int launches = 0, attends = 0, rows = 0, second = 0;
    for (uint32_t i = 0; i < f->groups.n; i++) {
        const FGroup *a = f->groups.at[i];
        if (a->root->kind == G_concat) continue;             // weights side by side, made once
        launches++;
        attends += a->attends && a->inner;
        rows += a->kind == F_ROWS;
        second += a->second != NULL;
        for (uint32_t k2 = 0; k2 < a->reads.n; k2++) assert_true(a->reads.at[k2] < (int)i);
    }
    assert_int_equal(launches, 7);
    assert_int_equal(attends, 1);
    assert_int_equal(rows, 2);
    assert_int_equal(second, 1);
    graph_free(g);
}

static void maps_are_inverted(void **state)
{
    (void)state;
    Graph *g = graph_new("t");
    Ix B = ix_dim(g, "B"), T = ix_dim(g, "T"), H = ix(g, 12), D = ix(g, 64);
    Ix b = ix_axis(g, 0, B), t = ix_axis(g, 1, T), c = ix_axis(g, 2, ix(g, 768)), inverse[4];
    // [B, H, T, D] read as [B, T, H * D]
    assert_true(map_invert(g, 4, S(B, H, T, D), S(b, ix_divi(g, c, 64), t, ix_modi(g, c, 64)), 3, S(b, t, c), inverse));
    assert_ptr_equal(inverse[1], ix_axis(g, 2, T));
    assert_ptr_equal(inverse[2], ix_add(g, ix_muli(g, ix_axis(g, 1, H), 64), ix_axis(g, 3, D)));
    // [B, T, H * D] read as [B, H, T, D]
    Ix h = ix_axis(g, 1, H), u = ix_axis(g, 2, T), d = ix_axis(g, 3, D);
    assert_true(map_invert(g, 3, S(B, T, ix(g, 768)), S(b, u, ix_add(g, ix_muli(g, h, 64), d)), 4, S(b, h, u, d), inverse));
    assert_ptr_equal(inverse[1], ix_divi(g, ix_axis(g, 2, ix(g, 768)), 64));
    // part of it; the same twice
    assert_false(map_invert(g, 1, S(ix(g, 100)), S(d), 1, S(d), inverse));
    assert_false(map_invert(g, 2, S(D, D), S(d, d), 1, S(d), inverse));
    graph_free(g);
}

static void softmax_is_one_kernel(void **state)
{
    (void)state;
    Graph *g = graph_new("t");
    Node *x = g_input(g, "x", EL_f32, 2, S(ix_dim(g, "M"), ix(g, 100)));
    g_output(g, "y", g_softmax(g, x, 2));
    Buf text = {0}, err = {0};
    assert_true(graph_write(g, NULL, &text, &err));
    assert_string_equal(text.p,
        "// The model t as a program: 1 kernel, and a graph of 1 launch.\n"
        "\n"
        "// of the model\n"
        "kernel softmax(x: f32[M, 100], y: out f32[M, 100])\n"
        "    grid (m in M by 8)\n"
        "{\n"
        "    let n = 100 by 128;\n"
        "    let v = x[m, n];\n"
        "    let top = max(v over n);\n"
        "    let e = exp(v - top);\n"
        "    let total = sum(e over n);\n"
        "    y[m, n] = e / total;\n"
        "}\n"
        "\n"
        "graph t(x: f32[M, 100]) -> (y: f32[M, 100])\n"
        "{\n"
        "    y = softmax(x);\n"
        "}\n");
    buf_free(&text);
    buf_free(&err);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_is_seven_kernels),
        cmocka_unit_test(maps_are_inverted),
        cmocka_unit_test(softmax_is_one_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

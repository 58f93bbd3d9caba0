// Donation: which results take over which inputs, what becomes of them, and why others do not.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/graph.h"
#include "graph/write/write.h"

#include <string.h>

#define S(...) (Ix[]){__VA_ARGS__}

static Graph *g;
static Ix B, P, four;

static Node *cache(const char *name, Ix rows) { return g_input(g, name, EL_f32, 3, S(B, rows, four)); }
static Node *more(Node *a, Node *b) { return g_concat(g, 1, (Node *[]){a, b}, 2); }

static void begin(void) {
    g = graph_new("t");
    B = ix_dim(g, "B");
    P = ix_dim(g, "P");
    four = ix(g, 4);
}

static void refused(const char *output, const char *words) {
    assert_true(graph_donate(g));
    for (uint32_t i = 0; i < g->donated.n; i++) {
        if (strcmp(g->donated.at[i].output, output) != 0) continue;
        if (!words) assert_null(g->donated.at[i].refused);
        else if (!g->donated.at[i].refused || !strstr(g->donated.at[i].refused, words))
            fail_msg("%s: %s", output, g->donated.at[i].refused);
        graph_free(g);
        return;
    }
    fail();
}

static void has(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("no `%s` in\n%s", words, text);
}

// A cache, two readers of it, the step's rows: new ones are written behind the old ones.
static void extended(void **state) {
    (void)state;
    begin();
    Node *k = cache("k", P), *x = cache("x", ix(g, 1)), *next = more(k, g_ew2f(g, EW_mul, x, 2));
    g_output(g, "k_next", next);
    Node *first = g_take_range(g, next, 1, ix(g, 0), 1, ix(g, 2)), *last = g_take_range(g, next, 1, P, 1, ix(g, 1));
    g_output(g, "all", g_ew2(g, EW_add, g_reduce(g, GR_sum, first, 2, false), g_reduce(g, GR_sum, last, 2, false)));
    g_output(g, "old", g_reduce(g, GR_max, g_take_range(g, k, 1, ix_addi(g, P, -1), 1, ix(g, 1)), 2, false));
    assert_true(graph_donate(g));
    assert_int_equal(g->outputs.n, 2);
    Buf text = {0}, err = {0};
    if (!graph_write(g, NULL, &text, &err)) fail_msg("%s", err.p);
    has(text.p, "// k_next is k, with more rows along dimension 1: 0 .. P + 1 of P_room\n");
    has(text.p, "graph t(k: inout f32[B, P_room, 4], x: f32[B, 1, 4], P: i32[]) -> (all: f32[B, 4], old: f32[B, 4])");
    has(text.p, "P_at: i32[])");
    has(text.p, "    let P = P_at[];\n");
    assert_null(strstr(text.p, "P: i32)"));

    // The interpreter: P is said by the input, the rows past it are not looked at.
    float kd[3 * 4], xd[4] = {1, 2, 3, 4};
    int32_t rows = 2;
    for (int i = 0; i < 12; i++) kd[i] = i < 8 ? (float)i : 100;
    GTensor in[3] = {{.elem = EL_f32, .rank = 3, .shape = {1, 3, 4}, .bytes = sizeof kd, .data = kd},
                     {.elem = EL_f32, .rank = 3, .shape = {1, 1, 4}, .bytes = sizeof xd, .data = xd},
                     {.elem = EL_i32, .bytes = sizeof rows, .data = &rows}};
    GValues v;
    if (!graph_values(g, in, &v, &err)) fail_msg("%s", err.p);
    int seen = 0;
    for (int i = 0; i < v.n; i++) {
        const float *f = v.at[i].tensor.data;
        if (strcmp(v.at[i].name, "all") == 0) assert_true(f[0] == 0 + 4 + 2 && f[3] == 3 + 7 + 8), seen |= 1;
        if (strcmp(v.at[i].name, "old") == 0) assert_true(f[0] == 4 && f[3] == 7), seen |= 2;
        if (strcmp(v.at[i].name, "k") == 0) assert_true(f[7] == 7 && f[8] == 2 && f[11] == 8), seen |= 4;
    }
    assert_int_equal(seen, 7);
    graph_values_free(&v);
    buf_free(&text);
    buf_free(&err);
    graph_free(g);
}

// What goes over old and new rows is a loop: how many there are only a scalar says.
static void reduced(void **state) {
    (void)state;
    begin();
    Node *k = cache("k", P), *next = more(k, cache("x", ix(g, 1)));
    g_output(g, "k_next", next);
    g_output(g, "old", g_reduce(g, GR_sum, k, 2, false));
    g_output(g, "all", g_reduce(g, GR_sum, next, 7, false));
    g_output(g, "most", g_arg_reduce(g, GR_argmax, next, 1, false, false));
    assert_true(graph_donate(g));
    Buf text = {0}, err = {0};
    if (!graph_write(g, NULL, &text, &err)) fail_msg("%s", err.p);
    has(text.p, "for k in P by 2048");
    has(text.p, "for k in B * 4 + B * P * 4 by 2048");
    has(text.p, "<BLOCK = 2048>(");
    assert_null(strstr(text.p, "next_pow2"));
    buf_free(&text);
    buf_free(&err);
    graph_free(g);
}

// A size that something stored has: then the dimension is a number of the plan.
static void still_a_size(void **state) {
    (void)state;
    begin();
    Node *k = cache("k", P), *next = more(k, cache("x", ix(g, 1)));
    g_output(g, "k_next", next);
    g_output(g, "twice", g_ew2f(g, EW_mul, next, 2));
    assert_true(graph_donate(g));
    Buf text = {0}, err = {0};
    if (!graph_write(g, NULL, &text, &err)) fail_msg("%s", err.p);
    has(text.p, "P: i32) -> (twice: f32[B, P + 1, 4])");
    buf_free(&text);
    buf_free(&err);
    graph_free(g);
}

static void refusals(void **state) {
    (void)state;
    begin();
    g_output(g, "y", g_ew2f(g, EW_mul, cache("k", P), 2));
    refused("y", "neither an input with more rows");
    begin();
    g_output(g, "y", more(g_ew2f(g, EW_mul, cache("k", P), 2), cache("x", four)));
    refused("y", "is no input");
    begin();
    g_output(g, "y", more(cache("k", four), cache("x", four)));
    refused("y", "a fixed number");
    begin();
    Node *k = cache("k", P);
    g_output(g, "y", more(k, k));
    refused("y", "needs the input twice");
    begin();                                                 // a mask with as many columns would not say how many
    g_output(g, "y", more(cache("k", P), cache("x", four)));
    g_output(g, "z", g_ew1(g, EW_neg, g_input(g, "mask", EL_f32, 1, S(ix_addi(g, P, 1)))));
    refused("y", "an input that is not taken has the same dimension");
    begin();
    k = cache("k", P);
    g_output(g, "y", more(k, cache("x", four)));
    g_output(g, "z", more(k, cache("w", four)));
    refused("z", "another result has taken the input");

    for (int reader = 0; reader < 3; reader++) {             // replaced elements: nobody may read the old ones
        begin();
        k = cache("k", P);
        Node *at = g_input(g, "at", EL_i64, 1, S(B)), *x = g_input(g, "x", EL_f32, 2, S(B, four));
        g_output(g, "y",
                 g_scatter(g, reader == 2 ? GR_max : GR_none, k, x, (Ix[]){ix_axis(g, 0, B), NULL, ix_axis(g, 1, four)},
                           (Node *[]){g_broadcast_to(g, at, 2, S(B, four), (int[]){0})}, 1, false));
        if (reader == 1) g_output(g, "z", g_reduce(g, GR_sum, k, 2, false));
        assert_null(g_failed(g));
        refused("y", reader == 2 ? "no atomic combines" : reader ? "another value needs the old elements" : NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(extended), cmocka_unit_test(reduced), cmocka_unit_test(still_a_size),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Constants that are index expressions, factors of products, and what becomes of masks in the kernel of an attention.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/fuse/fuse.h"
#include "graph/internal.h"
#include "graph/write/write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define S(...) (Ix[]){__VA_ARGS__}

enum { T = 96, D = 16 };

static Node *simplified(Graph *g, Node *n) {
    g_output(g, "y", n);
    graph_simplify(g);
    assert_null(g_failed(g));
    return g->outputs.at[0].node;
}

// The root of a head's size, read from a list of sizes; what a size of the model goes into stays.
static void numbers_are_literals(void **state) {
    (void)state;
    for (int symbolic = 0; symbolic < 2; symbolic++) {
        Graph *g = graph_new("t");
        Ix N = ix_dim(g, "N");
        Node *x = g_input(g, "x", EL_f32, 2, S(N, ix(g, 8)));
        Node *sizes = symbolic ? g_shape_vec(g, 2, S(ix(g, 3), N)) : g_vec_i64(g, 2, (int64_t[]){3, 64});
        Node *size = g_gather_axis(g, sizes, g_const(g, EL_i64, 1, (int64_t[]){1}, &(int64_t){1}), 0);
        Node *y = simplified(g, g_ew2(g, EW_div, x, g_ew1(g, EW_sqrt, g_cast(g, size, EL_f32))));
        GNum v = {0};
        assert_int_equal(y->kind, G_ew);
        assert_int_equal(g_scalar_value(y->src[1], &v), !symbolic);
        if (!symbolic) assert_true(v.f == 8);
        graph_free(g);
    }
}

static void counting_constants_are_indices(void **state) {
    (void)state;
    int64_t count[3 * 5], pairs[7 * 2], squares[6];
    for (int i = 0; i < 15; i++) count[i] = 7 + i / 5 * 100 - i % 5 * 3;
    for (int i = 0; i < 7; i++) pairs[2 * i] = 4, pairs[2 * i + 1] = i;
    for (int i = 0; i < 6; i++) squares[i] = i * i;
    Graph *g = graph_new("t");
    assert_int_equal(simplified(g, g_const(g, EL_i64, 2, (int64_t[]){3, 5}, count))->kind, G_index);
    graph_free(g);
    g = graph_new("t");
    assert_int_equal(simplified(g, g_const(g, EL_i64, 2, (int64_t[]){7, 2}, pairs))->kind, G_index);
    graph_free(g);
    g = graph_new("t");
    assert_int_equal(simplified(g, g_const(g, EL_i64, 1, (int64_t[]){6}, squares))->kind, G_const);
    graph_free(g);
}

// Along an axis that a value does not vary along, an extreme is the value, and a sum is so many times the value.
static void what_was_expanded_is_reduced_once(void **state) {
    (void)state;
    for (int sum = 0; sum < 2; sum++) {
        Graph *g = graph_new("t");
        Ix N = ix_dim(g, "N"), wide[] = {ix(g, 8), N, ix(g, 5)}, at[] = {ix_axis(g, 0, ix(g, 8)), ix_axis(g, 2, ix(g, 5))};
        Node *x = g_input(g, "x", EL_f32, 2, S(ix(g, 8), ix(g, 5)));
        Node *y = simplified(g, g_reduce(g, sum ? GR_sum : GR_max, g_view(g, x, 3, wide, at, NULL, g_int(0)), 2, false));
        assert_int_equal(y->kind, sum ? G_ew : G_input);
        graph_free(g);
    }
    Graph *g = graph_new("t");
    Node *ones = g_full(g, EL_f32, 1, S(ix_dim(g, "N")), g_float(1));
    Node *y = simplified(g, g_concat(g, 0, (Node *[]){ones, g_full(g, EL_f32, 1, S(ix(g, 1)), g_float(1))}, 2));
    assert_int_equal(y->kind, G_view);
    graph_free(g);
}

static void triangles_are_conditions(void **state) {
    (void)state;
    bool low[T * T];
    float mask[T * T];
    for (int i = 0; i < T * T; i++) low[i] = i % T <= i / T, mask[i] = i % T <= i / T + 2 ? 0 : -INFINITY;
    Graph *g = graph_new("t");
    const Node *n = simplified(g, g_const(g, EL_bool, 4, (int64_t[]){1, 1, T, T}, low));
    assert_int_equal(n->kind, G_index);
    graph_free(g);
    g = graph_new("t");
    n = simplified(g, g_const(g, EL_f32, 2, (int64_t[]){T, T}, mask));
    assert_int_equal(n->kind, G_ew);
    assert_int_equal(n->op, EW_where);
    graph_free(g);
    mask[5] = 1;
    g = graph_new("t");
    assert_int_equal(simplified(g, g_const(g, EL_f32, 2, (int64_t[]){T, T}, mask))->kind, G_const);
    graph_free(g);
}

// Which factor a node applies: a multiplication by a number; 1: it is none.
static double factor_of(const Node *n) {
    GNum v;
    while (n->kind == G_view) n = n->src[0];
    return n->kind == G_ew && n->op == EW_mul && g_scalar_value(n->src[1], &v) ? v.f : 1;
}

// What becomes of (of_q * q) @ (k / by_k)', q and k as they are or bounded: the factor behind the product, and of either operand.
static void factors(bool bounded, Elem narrow, double of_q, double by_k, double behind, double left, double right) {
    Graph *g = graph_new("t");
    Node *q = g_input(g, "q", EL_f32, 2, S(ix(g, T), ix(g, D))), *k = g_input(g, "k", EL_f32, 2, S(ix(g, T), ix(g, D)));
    if (bounded) q = g_ew1(g, EW_tanh, q), k = g_softmax(g, k, 2);
    if (narrow != EL_none) g->tables->narrow = true, g->tables->narrow_to = (uint8_t)narrow;
    Node *kt = g_transpose(g, g_ew2f(g, EW_div, k, by_k), 2, (int[]){1, 0});
    const Node *n = simplified(g, g_matmul(g, g_ew2f(g, EW_mul, q, of_q), kt)), *product = n->kind == G_contract ? n : n->src[0];
    assert_float_equal(factor_of(n), behind, 1e-9);
    assert_int_equal(product->kind, G_contract);
    assert_float_equal(factor_of(product->src[0]), left, 1e-9);
    const Node *r = product->src[1];
    while (r->kind == G_view) r = r->src[0];
    assert_int_equal(r->kind == G_ew && r->op == EW_div && right != 1, right != 1);
    graph_free(g);
}

static void factors_move_within_range(void **state) {
    (void)state;
    factors(true, EL_none, 2, 4, 0.5, 1, 1);                 // bounds are known: behind the product
    factors(true, EL_f16, 0.5, 4, 0.125, 1, 1);
    factors(true, EL_none, 1e-20, 1e10, 1e-30, 1, 1);
    factors(false, EL_none, 0.5, 4, 1, 0.125, 1);            // not known: on one side, where terms are what they were
    factors(false, EL_bf16, 0.5, 4, 1, 0.125, 1);
    factors(false, EL_f16, 0.5, 4, 1, 0.5, 4);               // in f16 where they are
    factors(false, EL_none, 0.5, 1e20, 1, 0.5, 1e20);        // more than a few bits of the small end
    factors(false, EL_none, 0.5, 0x1p-10, 1, 0.5, 0x1p-10);  // larger than the model's
    factors(true, EL_f16, 64, 1, 1, 64, 1);                  // smaller than f16 keeps
}

// The text of an attention whose scores are masked so.
static char *attention(Node *(*mask)(Graph *g, Node *scores)) {
    Graph *g = graph_new("t");
    Ix H = ix(g, 2), t = ix(g, T), d = ix(g, D);
    Node *q = g_input(g, "q", EL_f32, 3, S(H, t, d)), *k = g_input(g, "k", EL_f32, 3, S(H, t, d)),
         *v = g_input(g, "v", EL_f32, 3, S(H, t, d));
    Node *s = mask(g, g_matmul(g, q, g_transpose(g, k, 3, (int[]){0, 2, 1})));
    g_output(g, "y", g_matmul(g, g_softmax(g, s, 4), v));
    Buf text = {0}, err = {0};
    assert_true(graph_write(g, NULL, &text, &err));
    graph_free(g);
    return text.p;
}

static Node *triangle(Graph *g, int offset) {
    Ix t = ix(g, T);
    Node *key = g_iota(g, EL_i64, 2, S(t, t), 1), *query = g_iota(g, EL_i64, 2, S(t, t), 0);
    return g_ew2(g, EW_le, key, g_ew2(g, EW_add, query, g_i(g, EL_i64, offset)));
}
static Node *causal(Graph *g, Node *s) { return g_where(g, triangle(g, 0), s, g_f(g, EL_f32, -3.4028234663852886e38)); }
static Node *added(Graph *g, Node *s) {
    return g_ew2(g, EW_add, s, g_where(g, triangle(g, 0), g_f(g, EL_f32, 0), g_f(g, EL_f32, -1e38)));
}
static Node *past_rows(Graph *g, Node *s) { return g_where(g, triangle(g, -3), s, g_f(g, EL_f32, -3.4028234663852886e38)); }
static Node *past_rows_inf(Graph *g, Node *s) { return g_where(g, triangle(g, -3), s, g_f(g, EL_f32, -INFINITY)); }
static Node *from_memory(Graph *g, Node *s) {
    Node *seen = g_input(g, "seen", EL_bool, 1, S(ix(g, T)));
    return g_where(g, seen, s, g_f(g, EL_f32, -INFINITY));
}

static Node *bias(Graph *g, Node *s) { return g_ew2(g, EW_add, s, g_input(g, "bias", EL_f32, 2, S(ix(g, T), ix(g, T)))); }

static void check(Node *(*mask)(Graph *g, Node *scores), bool shorter, bool base2) {
    char *text = attention(mask);
    assert_int_equal(strstr(text, "last(m)") != NULL, shorter);
    assert_int_equal(strstr(text, "* LOG2E);") == NULL, base2);
    heap_free(text);
}

// The loop over keys ends where a causal mask does, unless a row would have nothing else: -3.4e38 beside nothing is a
// weight.
static void masks_shorten_the_loop(void **state) {
    (void)state;
    check(causal, true, true);
    check(added, true, true);
    check(past_rows, false, true);
    check(past_rows_inf, true, true);
    check(from_memory, false, true);
    check(bias, false, false);
}

// Tiles of 64 queries where few of 128 would be; with a diagonal also where nearly each multiprocessor would have one,
// and 64 keys a trip.
static void few_tiles_are_short(void **state) {
    (void)state;
    static const struct { int heads, keys; bool causal; const char *tiles; } rows[] = {
        {12, 1024, true, "<BM = 64, BN = 64>"}, {12, 1024, false, "<BM = 128, BN = 128>"}, {12, 512, false, "<BM = 64, BN = 128>"}, {12, 512, true, "<BM = 64, BN = 64>"},
        {16, 1024, true, "<BM = 64, BN = 64>"}, {32, 512, true, "<BM = 128, BN = 128>"}, {32, 1024, true, "<BM = 128, BN = 128>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Graph *g = graph_new("t");
        Ix h = ix(g, rows[i].heads), t = ix(g, rows[i].keys), d = ix(g, 64);
        Node *q = g_input(g, "q", EL_bf16, 3, S(h, t, d)), *k = g_input(g, "k", EL_bf16, 3, S(h, t, d)),
             *v = g_input(g, "v", EL_bf16, 3, S(h, t, d));
        Node *s = g_cast(g, g_matmul(g, q, g_transpose(g, k, 3, (int[]){0, 2, 1})), EL_f32);
        Node *seen = g_ew2(g, EW_le, g_iota(g, EL_i64, 2, S(t, t), 1), g_iota(g, EL_i64, 2, S(t, t), 0));
        if (rows[i].causal) s = g_where(g, seen, s, g_f(g, EL_f32, -INFINITY));
        g_output(g, "y", g_matmul(g, g_cast(g, g_softmax(g, s, 4), EL_bf16), v));
        Buf text = {0}, err = {0};
        assert_true(graph_write(g, NULL, &text, &err));
        if (!strstr(text.p, rows[i].tiles)) {
            print_error("%d heads, %d keys: not %s in\n%s\n", rows[i].heads, rows[i].keys, rows[i].tiles, text.p);
            fail();
        }
        buf_free(&text);
        graph_free(g);
    }
}

// Heads `first` .. of a product's columns, turned by a table that all heads share.
static Node *turned(Graph *g, Node *x, Node *table, int first, int heads) {
    Node *h = g_reshape(g, g_take_range(g, x, 1, ix(g, first * D), 1, ix(g, heads * D)), 3,
                        S(ix(g, T), ix(g, heads), ix(g, D)));
    h = g_transpose(g, h, 3, (int[]){1, 0, 2});
    Node *low = g_take_range(g, h, 2, ix(g, 0), 1, ix(g, D / 2)),
         *high = g_take_range(g, h, 2, ix(g, D / 2), 1, ix(g, D / 2));
    Node *half = g_concat(g, 2, (Node *[]){g_ew1(g, EW_neg, high), low}, 2);
    return g_ew2(g, EW_add, g_ew2(g, EW_mul, h, table), g_ew2(g, EW_mul, half, g_ew1(g, EW_sin, table)));
}

// Queries and keys are turned as one value, of which they are parts; of another table they are two.
static void functions_of_neighbours_are_one(void **state) {
    (void)state;
    for (int other = 0; other < 2; other++) {
        Graph *g = graph_new("t");
        Node *x = g_input(g, "x", EL_f32, 2, S(ix(g, T), ix(g, 6 * D)));
        Node *t = g_input(g, "t", EL_f32, 2, S(ix(g, T), ix(g, D))), *u = g_input(g, "u", EL_f32, 2, S(ix(g, T), ix(g, D)));
        Node *q = turned(g, x, t, 0, 4), *k = turned(g, x, other ? u : t, 4, 2);
        Ix coord[3] = {ix_divi(g, ix_axis(g, 0, ix(g, 4)), 2), ix_axis(g, 1, ix(g, T)), ix_axis(g, 2, ix(g, D))};
        k = g_view(g, k, 3, S(ix(g, 4), ix(g, T), ix(g, D)), coord, NULL, g_int(0));        // each for two queries
        const Node *y = simplified(g, g_matmul(g, q, g_transpose(g, k, 3, (int[]){0, 2, 1})));
        const Node *a = y->src[0], *b = y->src[1];
        while (a->kind == G_view) a = a->src[0];
        while (b->kind == G_view) b = b->src[0];
        assert_int_equal(a == b, !other);
        if (!other) assert_ptr_equal(a->shape[0], ix(g, 6));
        graph_free(g);
    }
}

// gelu in two spellings of exporters, and what is none.
static void gelus_are_known(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        Graph *g = graph_new("t");
        Node *x = g_input(g, "x", EL_f32, 2, S(ix(g, T), ix(g, D))), *y;
        if (form == 0) {
            y = g_ew2f(g, EW_add, g_ew1(g, EW_erf, g_ew2f(g, EW_div, x, 1.41421356)), 1);
            y = g_ew2(g, EW_mul, x, g_ew2f(g, EW_mul, y, 0.5));
        } else {
            Node *cube = g_ew2f(g, EW_mul, g_ew2f(g, EW_pow, x, 3), form == 1 ? 0.044715 : 0.05);
            y = g_ew2f(g, EW_add, g_ew1(g, EW_tanh, g_ew2f(g, EW_mul, g_ew2(g, EW_add, x, cube), 0.7978845608)), 1);
            y = g_ew2(g, EW_mul, g_ew2f(g, EW_mul, x, 0.5), y);
        }
        g_output(g, "y", y);
        Buf text = {0}, err = {0};
        assert_true(graph_write(g, NULL, &text, &err));
        static const char *const want[] = {"= gelu(", "= gelu_tanh(", "tanh("};
        assert_non_null(strstr(text.p, want[form]));
        assert_int_equal(strstr(text.p, "gelu_tanh(") != NULL, form == 1);
        buf_free(&text);
        graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_literals),
        cmocka_unit_test(counting_constants_are_indices),
        cmocka_unit_test(what_was_expanded_is_reduced_once),
        cmocka_unit_test(triangles_are_conditions),
        cmocka_unit_test(factors_move_within_range),
        cmocka_unit_test(masks_shorten_the_loop), cmocka_unit_test(few_tiles_are_short),
        cmocka_unit_test(functions_of_neighbours_are_one),
        cmocka_unit_test(gelus_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

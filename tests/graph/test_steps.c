// Steps that are written out (graph/rewrite/unrolled_steps.c): which products are joined, and that all of it stays what it was.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/fuse/fuse.h"
#include "graph/ref/ref.h"
#include "graph/write/write.h"

#define S(...) ((const Ix[]){__VA_ARGS__})

enum { WIDTH = 6, BATCH = 3, MOST_STEPS = 20 };

static uint64_t state;

static int below(int n) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int)(state >> 33) % n;
}

static Node *weight(Graph *g, int64_t rows, int64_t columns) {
    float at[WIDTH * 2 * WIDTH];
    for (int64_t i = 0; i < rows * columns; i++) at[i] = (float)(below(200) - 100) / 150;
    return g_const(g, EL_f32, 2, (int64_t[]){rows, columns}, at);
}

static Node *by(Graph *g, Node *x, Node *w) { return g_contract(g, x, w, 0, 1, 1, 1, EL_f32, EL_f32); }
static Node *bent(Graph *g, Node *x) { return g_ew1(g, EW_tanh, x); }
static Node *sum(Graph *g, Node *a, Node *b) { return g_ew2(g, EW_add, a, b); }

static Node *stack(Graph *g, Node *const *x, int n, bool backwards) {
    Node *row[MOST_STEPS];
    for (int i = 0; i < n; i++) row[i] = g_unsqueeze(g, x[backwards ? n - 1 - i : i], 1);
    return g_concat(g, 0, row, n);
}

// Element t of the sequence, [B, WIDTH], where batches are outside or inside.
static Node *at_step(Graph *g, Node *x, int t, int axis) { return g_squeeze(g, g_take_range(g, x, axis, ix(g, t), 1, ix(g, 1)), 1u << axis); }

static int products(const Fusion *f, int64_t rank) {
    int n = 0;
    for (uint32_t i = 0; i < f->groups.n; i++) n += f->groups.at[i]->kind == F_PRODUCT && f->groups.at[i]->anchor->rank == rank;
    return n;
}

// h = tanh(x[t] W + h U), y[t] = h V: a product of all x, one of all h, and one a step.
static void all_steps_are_one_product(void **unused) {
    (void)unused;
    for (int how = 0; how < 4; how++) {                      // batches inside or outside; as one product of two values side by side
        Graph *g = graph_new("t");
        int steps = 12, axis = how & 1;
        Ix B = ix_dim(g, "B"), T = ix(g, steps), W = ix(g, WIDTH);
        Node *x = g_input(g, "x", EL_f32, 3, axis ? S(B, T, W) : S(T, B, W)), *h = g_input(g, "h", EL_f32, 2, S(B, W)), *y[MOST_STEPS];
        Node *w = weight(g, WIDTH, WIDTH), *u = weight(g, WIDTH, WIDTH), *v = weight(g, 4, WIDTH), *both = weight(g, WIDTH, 2 * WIDTH);
        for (int t = 0; t < steps; t++) {
            Node *in = at_step(g, x, t, axis);
            h = bent(g, how < 2 ? sum(g, by(g, in, w), by(g, h, u)) : by(g, g_concat(g, 1, (Node *[]){in, h}, 2), both));
            y[t] = g_ew1(g, EW_sigmoid, by(g, h, v));
        }
        g_output(g, "y", stack(g, y, steps, false));
        graph_simplify(g);
        Fusion *f = graph_fuse(g);
        assert_non_null(f);
        assert_int_equal(products(f, 3), 2);
        assert_int_equal(products(f, 2), steps);
        int launches = 0;
        for (uint32_t i = 0; i < f->groups.n; i++) launches += !f->groups.at[i]->once;
        assert_int_equal(launches, steps + 3);               // the h side by side
        graph_free(g);
    }
}

// Few steps stay as they are, and so do products of many rows that would have to be put together first.
static void others_stay(void **unused) {
    (void)unused;
    for (int how = 0; how < 2; how++) {
        Graph *g = graph_new("t");
        int steps = how ? 10 : 6;
        Ix rows = ix(g, how ? 512 : 4), W = ix(g, WIDTH);
        Node *w = weight(g, WIDTH, WIDTH), *y[MOST_STEPS];
        for (int t = 0; t < steps; t++) y[t] = bent(g, by(g, g_input(g, "x", EL_f32, 2, S(rows, W)), w));
        g_output(g, "y", stack(g, y, steps, false));
        graph_simplify(g);
        Fusion *f = graph_fuse(g);
        assert_non_null(f);
        assert_int_equal(products(f, 2), steps);
        graph_free(g);
    }
}

// ---- random sequences of sequences -----------------------------------------------------------------------------------

typedef struct Sequence { Node *at[MOST_STEPS]; } Sequence;

static void next(Graph *g, const Sequence *a, const Sequence *b, int n, Sequence *to) {
    Node *w = weight(g, WIDTH, WIDTH), *u = weight(g, WIDTH, WIDTH), *both = weight(g, WIDTH, 2 * WIDTH), *bias = weight(g, 1, WIDTH);
    bool backwards = below(2) != 0;
    Node *h = g_full(g, EL_f32, 2, a->at[0]->shape, g_int(below(2)));
    int how = below(6), half = n / 2;
    for (int i = 0; i < n; i++) {
        int t = backwards ? n - 1 - i : i;
        switch (how) {
        case 0: to->at[t] = bent(g, sum(g, by(g, a->at[t], w), bias)); break;
        case 1: h = to->at[t] = bent(g, sum(g, by(g, a->at[t], w), by(g, h, u))); break;
        case 2: h = to->at[t] = bent(g, by(g, g_concat(g, 1, (Node *[]){a->at[t], h}, 2), both)); break;
        case 3: to->at[t] = g_ew2(g, EW_mul, by(g, a->at[t], w), by(g, b->at[n - 1 - t], w)); break;
        case 4: to->at[t] = g_ew2(g, EW_sub, a->at[t], g_reduce(g, GR_max, by(g, b->at[t], w), 2, true)); break;
        default: break;
        }
    }
    if (how < 5) return;
    Node *early[MOST_STEPS], *late[MOST_STEPS];              // products of one weight that wait for some of another one, whose others wait for those
    for (int i = 0; i < half; i++) early[i] = bent(g, by(g, a->at[i], w)), late[i] = bent(g, by(g, a->at[half + i], u));
    for (int i = 0; i < half; i++) {
        to->at[i] = by(g, early[i], u);
        to->at[half + i] = by(g, late[i], w);
    }
    for (int i = 2 * half; i < n; i++) to->at[i] = a->at[i];
}

static Graph *sequences(int seed, GTensor *x) {
    state = (uint64_t)seed * 7919 + 1;
    Graph *g = graph_new("sequences");
    int steps = 8 + below(MOST_STEPS - 7), axis = below(2), rounds = 1 + below(4);
    Ix B = below(2) ? ix(g, BATCH) : ix_dim(g, "B"), T = ix(g, steps), W = ix(g, WIDTH);
    Node *in = g_input(g, "x", EL_f32, 3, axis ? S(B, T, W) : S(T, B, W));
    Sequence a, b, c;
    for (int t = 0; t < steps; t++) a.at[t] = b.at[t] = at_step(g, in, t, axis);
    for (int i = 0; i < rounds; i++) {
        next(g, &a, &b, steps, &c);
        b = a;
        a = c;
    }
    g_output(g, "all", stack(g, a.at, steps, below(2) != 0));
    if (below(2)) g_output(g, "last", a.at[steps - 1]);
    if (below(2)) g_output(g, "heads", g_concat(g, below(2), (Node *[]){by(g, a.at[0], weight(g, 4, WIDTH)), by(g, a.at[1], weight(g, 4, WIDTH))}, 2));
    *x = (GTensor){.elem = EL_f32, .rank = 3, .shape = {axis ? BATCH : steps, axis ? steps : BATCH, WIDTH}};
    assert_true(g_tensor_alloc(x));
    for (size_t i = 0; i < x->bytes / 4; i++) ((float *)x->data)[i] = (float)sin((double)i * 0.7);
    return g;
}

static void sequences_stay_the_same(void **unused) {
    (void)unused;
    enum { SEQUENCES = 400 };
    char why[256];
    for (int seed = 0; seed < SEQUENCES; seed++) {
        GTensor x, before[3] = {0}, after[3] = {0};
        Graph *g = sequences(seed, &x);
        Buf text = {0}, err = {0};
        if (g_failed(g)) fail_msg("%d: %s", seed, g_failed(g));
        assert_true(ref_run(g, &x, before, NULL, why, sizeof why));
        graph_simplify(g);
        if (!ref_run(g, &x, after, NULL, why, sizeof why)) fail_msg("%d: %s", seed, why);
        for (int i = 0; i < graph_output_count(g); i++) {
            const float *p = before[i].data, *q = after[i].data;
            assert_int_equal(before[i].bytes, after[i].bytes);
            for (size_t k = 0; k < before[i].bytes / 4; k++)
                if (!(fabs((double)p[k] - (double)q[k]) < 1e-4)) fail_msg("%d: result %d[%zu] is %g, was %g", seed, i, k, (double)q[k], (double)p[k]);
            g_tensor_free(&before[i]);
            g_tensor_free(&after[i]);
        }
        if (!graph_write(g, NULL, &text, &err)) fail_msg("%d: %s", seed, err.p);
        buf_free(&text);
        g_tensor_free(&x);
        graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_steps_are_one_product), cmocka_unit_test(others_stay), cmocka_unit_test(sequences_stay_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

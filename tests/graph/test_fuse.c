// Fusion: a transformer's layer is seven kernels; maps are inverted; what must be stored is, for a reason.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/fuse/fuse.h"
#include "graph/write/write.h"
#include "tests/graph/layer.h"

#include <stdio.h>
#include <string.h>

static void a_layer_is_seven_kernels(void **state) {
    (void)state;
    Graph *g = graph_new("layer");
    Ix B = ix_dim(g, "B"), T = ix_dim(g, "T");
    Node *x = g_input(g, "x", EL_f32, 3, S(B, T, ix(g, 64)));
    Node *past = g_ew2(g, EW_le, g_iota(g, EL_i64, 2, S(T, T), 1), g_iota(g, EL_i64, 2, S(T, T), 0));
    g_output(g, "y", layer(g, x, B, T, NULL, past));
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
        second += a->more.n == 1;
        for (uint32_t k2 = 0; k2 < a->reads.n; k2++) assert_true(a->reads.at[k2] < (int)i);
    }
    assert_int_equal(launches, 7);
    assert_int_equal(attends, 1);
    assert_int_equal(rows, 2);
    assert_int_equal(second, 1);
    graph_free(g);
}

static void maps_are_inverted(void **state) {
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

static void softmax_is_one_kernel(void **state) {
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

// ---- convolutions ---------------------------------------------------------------------------------------------------

static Node *constant(Graph *g, const char *name, int rank, const int64_t *shape) {
    return g_name(g, g_const_ref(g, EL_f32, rank, shape, weights, &(GOrigin){.stored = name, .file = name}), name);
}

// 3 x 3 with padding, as the importer makes it: [N, C, H, W] to [N, K, H, W].
static Node *conv(Graph *g, Node *x, const char *name, int64_t channels) {
    int64_t c;
    assert_true(ix_const(x->shape[1], &c));
    Ix one = ix(g, 1), three = ix(g, 3);
    Node *windows = g_windows(g, x, 2, 2, x->shape + 2, S(three, three), (int64_t[]){1, 1}, (int64_t[]){1, 1},
                              S(one, one), g_int(0));
    Node *w = constant(g, name, 4, (int64_t[]){channels, c, 3, 3});
    Node *y = g_contract(g, g_transpose(g, windows, 6, (int[]){0, 2, 3, 1, 4, 5}), w, 0, 3, 1, 3, EL_f32, EL_f32);
    return g_transpose(g, y, 4, (int[]){0, 3, 1, 2});
}

static Node *channel(Graph *g, const char *name, int64_t n) {
    return g_unsqueeze(g, constant(g, name, 1, &n), 6);      // [n, 1, 1]
}

static Node *relu(Graph *g, Node *x) { return g_ew2f(g, EW_max, x, 0); }

static int launches(const Fusion *f) {
    int n = 0;
    for (uint32_t i = 0; i < f->groups.n; i++) n += !f->groups.at[i]->once;
    return n;
}

// The weights of the product that a kernel is about.
static const Node *weights_of(const Fusion *f, uint32_t group) {
    assert_non_null(f->groups.at[group]->anchor);
    return f->groups.at[group]->anchor->src[1];
}

static void batch_norm_is_weights(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix N = ix_dim(g, "N"), H = ix(g, 12);
    Node *x = g_input(g, "x", EL_f32, 4, S(N, ix(g, 32), H, H));
    Node *y = g_ew2(g, EW_add, conv(g, x, "w", 64), channel(g, "bias", 64));
    Node *deviation = g_ew1(g, EW_sqrt, g_ew2f(g, EW_add, channel(g, "var", 64), 1e-5));
    y = g_ew2(g, EW_div, g_ew2(g, EW_sub, y, channel(g, "mean", 64)), deviation);
    y = relu(g, g_ew2(g, EW_add, g_ew2(g, EW_mul, y, channel(g, "scale", 64)), channel(g, "shift", 64)));
    g_output(g, "y", y);
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    assert_int_equal(launches(f), 2);                        // the picture, channels last, and all of it
    uint32_t last = f->groups.n - 1;
    assert_int_equal(weights_of(f, last)->kind, G_view);     // in the order of windows
    assert_int_equal(weights_of(f, last)->src[0]->op, EW_mul);
    int shifts = 0;                                          // and one addition of one list
    for (uint32_t i = 0; i < f->groups.at[last]->nodes.n; i++) {
        const Node *n = f->groups.at[last]->nodes.at[i];
        shifts += n->kind == G_ew && n->op == EW_add;
        assert_true(n->kind != G_ew || n->op != EW_mul);
    }
    assert_int_equal(shifts, 1);
    graph_free(g);
}

// A factor of another axis, and one for all channels, stay.
static void other_factors_stay(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Node *x = g_input(g, "x", EL_f32, 2, S(ix(g, 64), ix(g, 32)));
    Node *w = constant(g, "w", 2, (int64_t[]){48, 32}), *y = g_contract(g, x, w, 0, 1, 1, 1, EL_f32, EL_f32);
    Node *rows = g_unsqueeze(g, constant(g, "rows", 1, (int64_t[]){64}), 2);
    g_output(g, "y", g_ew2f(g, EW_mul, g_ew2(g, EW_mul, y, rows), 0.5));
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    assert_int_equal(f->groups.n, 1);
    assert_ptr_equal(weights_of(f, 0), w);
    graph_free(g);
}

static Node *columns(Graph *g, Node *y, int part, int64_t width) { return g_take_range(g, y, y->rank - 1, ix(g, part * width), 1, ix(g, width)); }

// Parts of one product that meet are sums of one kernel, with the bias that is between; a cell's state is stored on the way.
static void gates_are_one_kernel(void **state) {
    (void)state;
    for (int parts = 2; parts <= 4; parts++) {
        Graph *g = graph_new("t");
        Ix B = ix_dim(g, "B");
        Node *x = g_input(g, "x", EL_f32, 2, S(B, ix(g, 64))), *c = g_input(g, "c", EL_f32, 2, S(B, ix(g, 32)));
        Node *w = constant(g, "w", 2, (int64_t[]){32 * parts, 64}), *bias = constant(g, "bias", 1, (int64_t[]){32 * parts});
        Node *y = g_ew2(g, EW_add, g_contract(g, x, w, 0, 1, 1, 1, EL_f32, EL_f32), bias), *all = g_ew1(g, EW_tanh, columns(g, y, 0, 32));
        for (int i = 1; i < parts; i++) all = g_ew2(g, EW_mul, all, columns(g, y, i, 32));
        Node *cell = g_ew2(g, EW_add, all, c);
        g_output(g, "z", g_ew1(g, EW_tanh, cell));
        g_output(g, "cell", cell);
        graph_simplify(g);
        Fusion *f = graph_fuse(g);
        assert_non_null(f);
        assert_int_equal(f->groups.n, 1);
        const FGroup *a = f->groups.at[0];
        assert_int_equal(a->kind, F_PRODUCT);
        assert_int_equal(a->more.n, parts - 1);
        assert_int_equal(a->makes.n, 2);
        assert_int_equal(a->anchor->src[1]->view.coord[0]->lo, 0);       // in the order of the columns
        for (int i = 1; i < parts; i++) assert_int_equal(a->more.at[i - 1]->src[1]->view.coord[0]->lo, 32 * i);
        graph_free(g);
    }
}

// .. but not where something else reads a part, where parts are read in other orders, or of other widths.
static void other_columns_stay(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) {
        Graph *g = graph_new("t");
        Ix B = ix_dim(g, "B"), N = ix(g, 32);
        Node *x = g_input(g, "x", EL_f32, 2, S(B, ix(g, 64))), *w = constant(g, "w", 2, (int64_t[]){64, 64});
        Node *y = g_contract(g, x, w, 0, 1, 1, 1, EL_f32, EL_f32), *a = columns(g, y, 0, 32), *b = columns(g, y, 1, 32);
        if (how == 0) g_output(g, "sum", g_reduce(g, GR_max, b, 2, false));
        if (how == 1) b = g_view(g, y, 2, S(B, N), S(ix_axis(g, 0, B), ix_sub(g, ix(g, 63), ix_axis(g, 1, N))), NULL, g_int(0));
        if (how == 2) b = g_take_range(g, y, 1, ix(g, 16), 1, N);
        g_output(g, "z", g_ew2(g, EW_mul, a, b));
        graph_simplify(g);
        Fusion *f = graph_fuse(g);
        assert_non_null(f);
        int products = 0;
        for (uint32_t i = 0; i < f->groups.n; i++) products += f->groups.at[i]->kind == F_PRODUCT && f->groups.at[i]->anchor->shape[1]->value == 64;
        assert_int_equal(products, 1);
        graph_free(g);
    }
}

// What comes in and what was there: the kernel has the product that waits for more, and reads the other one.
static void the_later_product_is_taken_apart(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix B = ix_dim(g, "B");
    Node *x = g_input(g, "x", EL_f32, 2, S(B, ix(g, 64))), *h = g_ew1(g, EW_tanh, g_input(g, "h", EL_f32, 2, S(B, ix(g, 32))));
    Node *comes = g_contract(g, x, constant(g, "w", 2, (int64_t[]){64, 64}), 0, 1, 1, 1, EL_f32, EL_f32);
    Node *was = g_contract(g, h, constant(g, "u", 2, (int64_t[]){64, 32}), 0, 1, 1, 1, EL_f32, EL_f32), *y = g_ew2(g, EW_add, comes, was);
    g_output(g, "z", g_ew2(g, EW_mul, columns(g, y, 0, 32), g_ew1(g, EW_sigmoid, columns(g, y, 1, 32))));
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    assert_int_equal(launches(f), 3);                        // the tanh, what comes in, the gates
    const FGroup *last = f->groups.at[f->groups.n - 1];
    assert_int_equal(last->more.n, 1);
    assert_int_equal(last->anchor->src[0]->shape[1]->value, 32);
    graph_free(g);
}

// Parts of what is put together are stored in their places, where products make them for nothing else, and all of it is large.
static void parts_lie_in_their_places(void **state) {
    (void)state;
    for (int how = 0; how < 6; how++) {                      // the result itself; in another order; small; a part for something else; at an odd place; two that no product makes
        Graph *g = graph_new("t");
        Ix M = ix(g, how == 2 ? 64 : 65536), K = ix(g, 64);
        int64_t odd = how == 4 ? 3 : 0, widths[3] = {64 + odd, 64 - odd, 32};
        Node *part[3], *x = NULL;
        for (int i = 0; i < 3; i++) {
            x = g_input(g, "x", EL_f32, 2, S(M, K));
            Node *y = g_contract(g, x, constant(g, i ? i > 1 ? "c" : "b" : "a", 2, (int64_t[]){widths[i], 64}), 0, 1, 1, 1, EL_f32, EL_f32);
            part[i] = i ? relu(g, y) : y;
        }
        if (how == 3) g_output(g, "max", g_reduce(g, GR_max, part[1], 2, false));
        if (how == 5) part[0] = g_ew1(g, EW_tanh, x), part[1] = g_ew1(g, EW_exp, x);
        Node *all = g_concat(g, 1, part, 3);
        g_output(g, "y", how == 1 ? g_transpose(g, all, 2, (int[]){1, 0}) : all);
        graph_simplify(g);
        Fusion *f = graph_fuse(g);
        assert_non_null(f);
        bool placed = how < 2;
        const Node *y = g->outputs.at[g->outputs.n - 1].node;
        assert_int_equal(f->begun[y->id] >= 0, placed);
        if (placed) assert_int_equal(launches(f), 3);
        for (int i = 0; i < 3 && placed; i++) {
            assert_ptr_equal(f->part[y->src[i]->id].of, y);
            assert_int_equal(f->part[y->src[i]->id].start->value, i * 64);
            assert_int_equal(f->groups.at[f->maker[y->src[i]->id]]->kind, F_PRODUCT);
        }
        graph_free(g);
    }
}

// Two convolutions and what is between: channels last inside, weights as windows are read, the model's order outside.
static void pictures_are_channels_last(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix N = ix_dim(g, "N"), H = ix(g, 12);
    Node *x = g_input(g, "x", EL_f32, 4, S(N, ix(g, 3), H, H));
    Node *a = relu(g, conv(g, x, "a", 64)), *b = relu(g, g_ew2(g, EW_add, conv(g, a, "b", 64), a));
    g_output(g, "y", b);
    g_output(g, "mean", g_mean(g, b, 12, false));
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    // the picture's rows, two convolutions, the mean, the result in the model's order
    assert_int_equal(launches(f), 5);
    bool found = false;
    for (uint32_t i = 0; i < f->groups.n; i++) {
        const FGroup *a1 = f->groups.at[i];
        if (a1->kind != F_PRODUCT) continue;
        assert_ptr_equal(a1->root->shape[3], ix(g, 64));
        const Node *w = weights_of(f, i);
        if (w->rank == 3) {                                  // the first: taps and channels of a row, with zeros up to 16
            assert_ptr_equal(w->shape[2], ix(g, 16));
            assert_string_equal(w->name, "a_rows");
            continue;
        }
        found = true;
        assert_true(f->stored[w->id]);
        assert_ptr_equal(w->shape[3], ix(g, 64));
        assert_string_equal(w->name, "b_channels_last");
    }
    assert_true(found);
    graph_free(g);
}

// Groups of 4 channels are joined to 32: four products with weights along the diagonal, which are written out once.
static void groups_of_few_channels(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix N = ix_dim(g, "N"), H = ix(g, 6), G = ix(g, 32), C = ix(g, 4), three = ix(g, 3), one = ix(g, 1);
    Node *x = relu(g, conv(g, g_input(g, "x", EL_f32, 4, S(N, ix(g, 3), H, H)), "first", 128));
    Node *apart = g_reshape(g, x, 5, S(N, G, C, H, H));
    Node *windows = g_windows(g, apart, 3, 2, apart->shape + 3, S(three, three), (int64_t[]){1, 1}, (int64_t[]){1, 1},
                              S(one, one), g_int(0));
    Node *w = constant(g, "w", 5, (int64_t[]){32, 4, 4, 3, 3});
    Node *y = g_contract(g, g_transpose(g, windows, 7, (int[]){1, 0, 3, 4, 2, 5, 6}), w, 1, 3, 1, 3, EL_f32, EL_f32);
    g_output(g, "y", relu(g, g_reshape(g, g_transpose(g, y, 5, (int[]){1, 0, 4, 2, 3}), 4, S(N, ix(g, 128), H, H))));
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    const Node *p = NULL, *v = NULL;
    for (uint32_t i = 0; i < f->groups.n; i++)
        if (f->groups.at[i]->anchor && f->groups.at[i]->anchor->contract.nb == 1)
            p = f->groups.at[i]->anchor, v = weights_of(f, i);
    assert_non_null(p);
    assert_ptr_equal(p->shape[0], ix(g, 4));
    assert_ptr_equal(v->shape[1], ix(g, 32));
    assert_ptr_equal(v->shape[4], ix(g, 32));
    assert_true(f->stored[v->id]);
    // with the picture's rows, and the result in the model's order within the last
    assert_int_equal(launches(f), 3);
    graph_free(g);
}

// What a picture is flattened to is summed in the order in which the picture is stored.
static void flattened_pictures(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix N = ix_dim(g, "N"), H = ix(g, 6);
    Node *x = relu(g, conv(g, g_input(g, "x", EL_f32, 4, S(N, ix(g, 16), H, H)), "w", 32));
    Node *flat = g_reshape(g, x, 2, S(N, ix(g, 32 * 36)));
    g_output(g, "y", g_contract(g, flat, constant(g, "fc", 2, (int64_t[]){10, 32 * 36}), 0, 1, 1, 1, EL_f32, EL_f32));
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    assert_int_equal(launches(f), 3);
    const Node *product = f->groups.at[f->groups.n - 1]->anchor;
    assert_int_equal(product->contract.nk, 1);
    assert_ptr_equal(product->src[0]->view.coord[1], ix_div(g, ix_axis(g, 1, ix(g, 32 * 36)), ix(g, 6 * 32)));
    graph_free(g);
}

// A reduction cannot hold a product; what follows the product stays with it all the same.
static void epilogues_stay(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Node *x = g_input(g, "x", EL_f32, 2, S(ix_dim(g, "M"), ix(g, 32)));
    Node *y = g_ew2(g, EW_add, g_contract(g, x, constant(g, "w", 2, (int64_t[]){48, 32}), 0, 1, 1, 1, EL_f32, EL_f32),
                    constant(g, "b", 1, (int64_t[]){48}));
    y = g_ew2(g, EW_mul, y, g_ew1(g, EW_sigmoid, y));
    g_output(g, "y", g_softmax(g, y, 2));
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    assert_int_equal(f->groups.n, 2);
    assert_int_equal(f->groups.at[0]->root->op, EW_mul);
    graph_free(g);
}

// Patches of a picture, as a vision transformer has them: in rows, once; the product sums over one axis.
static void patches_are_rows(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix N = ix_dim(g, "N"), sixteen = ix(g, 16), places = ix(g, 4);
    Node *x = g_input(g, "x", EL_f32, 4, S(N, ix(g, 3), ix(g, 64), ix(g, 64)));
    Node *windows = g_windows(g, x, 2, 2, S(places, places), S(sixteen, sixteen), (int64_t[]){16, 16},
                              (int64_t[]){1, 1}, S(ix(g, 0), ix(g, 0)), g_int(0));
    Node *w = constant(g, "w", 4, (int64_t[]){32, 3, 16, 16});
    g_output(g, "y", g_contract(g, g_transpose(g, windows, 6, (int[]){0, 2, 3, 1, 4, 5}), w, 0, 3, 1, 3, EL_f32, EL_f32));
    Buf text = {0}, err = {0};
    assert_true(graph_write(g, "w.onnx", &text, &err));
    assert_non_null(strstr(text.p, "for k in 768 by"));
    buf_free(&text);
    graph_free(g);
}

// What follows a product and is quantised: bytes are stored, not what they mean.
static void bytes_are_stored_as_bytes(void **state) {
    (void)state;
    Graph *g = graph_new("bytes");
    Ix N = ix_dim(g, "N");
    Node *y = g_matmul(g, g_input(g, "x", EL_f32, 2, S(N, ix(g, 64))), weight(g, "w", 64, 64));
    Node *q = g_cast_saturate(g, g_ew1(g, EW_round, g_ew2f(g, EW_mul, y, 10)), EL_i8);
    Node *back = g_ew2f(g, EW_mul, g_cast(g, q, EL_f32), 0.1);
    g_output(g, "p", g_softmax(g, back, 2));
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    assert_int_equal(f->groups.n, 2);
    assert_int_equal(f->groups.at[0]->kind, F_PRODUCT);
    assert_int_equal(f->groups.at[0]->root->elem, EL_i8);
    graph_free(g);
}

// 40 values side by side, each computed from an input of its own; 300 operations in a row.
static void kernels_hold_what_they_can(void **state) {
    (void)state;
    Graph *g = graph_new("large");
    Ix N = ix_dim(g, "N");
    Node *part[40], *x = g_input(g, "x", EL_f32, 2, S(N, ix(g, 8)));
    for (int i = 0; i < 40; i++) {
        char name[8];
        snprintf(name, sizeof name, "a%d", i);
        part[i] = g_ew1(g, EW_exp, g_input(g, name, EL_f32, 2, S(N, ix(g, 4))));
    }
    g_output(g, "all", g_concat(g, 1, part, 40));
    for (int i = 0; i < 300; i++) x = g_ew2f(g, EW_add, g_ew1(g, EW_sin, x), 0.5 + i);
    g_output(g, "y", x);
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    for (uint32_t i = 0; i < f->groups.n; i++) {
        assert_int_equal(f->groups.at[i]->makes.n, 1);
        assert_in_range(f->groups.at[i]->nodes.n, 1, 130);
        assert_in_range(f->groups.at[i]->reads.n, 0, 4);
    }
    assert_in_range(f->groups.n, 6, 10);
    graph_free(g);
}

static int groups_of_norm(int64_t rows, int64_t columns, bool mean_alone) {
    Graph *g = graph_new("rows");
    Node *x = g_input(g, "x", EL_f32, 2, S(ix(g, rows), ix(g, columns)));
    Node *m = g_mean(g, x, 2, true), *d = g_ew2(g, EW_sub, x, m);
    Node *v = g_ew2f(g, EW_add, g_mean(g, g_ew2(g, EW_mul, d, d), 2, true), 1e-5);
    g_output(g, "y", mean_alone ? m : g_ew2(g, EW_div, d, g_ew1(g, EW_sqrt, v)));
    graph_simplify(g);
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    int n = (int)f->groups.n;
    graph_free(g);
    return n;
}

// What is computed row by row of long ones reads them again; one kernel for each sum, and one for the rest.
static void long_rows_are_summed_apart(void **state) {
    (void)state;
    assert_int_equal(groups_of_norm(16, 1 << 16, false), 1);
    assert_int_equal(groups_of_norm(16, 1 << 20, false), 3);
    assert_int_equal(groups_of_norm(4096, 1 << 19, false), 1);
    assert_int_equal(groups_of_norm(1, 1 << 30, true), 1);
}

static int kernels_of(Graph *g) {
    assert_null(g_failed(g));
    Fusion *f = graph_fuse(g);
    assert_non_null(f);
    int n = (int)f->groups.n;
    graph_free(g);
    return n;
}

// Two results of one input are one kernel; of two inputs, of different shapes, in another order or one made of the other, two.
static void results_of_the_same_are_one_kernel(void **state) {
    (void)state;
    for (int which = 0; which < 5; which++) {
        Graph *g = graph_new("t");
        Ix M = ix_dim(g, "M"), N = ix(g, 96);
        Node *x = g_input(g, "x", EL_f32, 2, S(M, N)), *z = g_input(g, "z", EL_f32, 2, S(M, N)), *y, *other;
        y = g_ew1(g, EW_sin, which == 1 ? z : x);
        other = g_ew1(g, EW_cos, x);
        if (which == 2) other = g_reduce(g, GR_sum, other, 1u << 1, true);
        if (which == 3) other = g_ew2(g, EW_add, other, g_expand(g, g_reduce(g, GR_sum, y, 1u << 1, true), 2, S(M, N)));
        if (which == 4) other = g_transpose(g, other, 2, (int[]){1, 0});
        g_output(g, "y", y);
        g_output(g, "other", other);
        int n = kernels_of(g);
        if (n != (which == 0 ? 1 : 2)) fail_msg("case %d: %d kernels", which, n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_rows_are_summed_apart),
        cmocka_unit_test(a_layer_is_seven_kernels),
        cmocka_unit_test(bytes_are_stored_as_bytes),
        cmocka_unit_test(kernels_hold_what_they_can),
        cmocka_unit_test(maps_are_inverted),
        cmocka_unit_test(softmax_is_one_kernel),
        cmocka_unit_test(batch_norm_is_weights),
        cmocka_unit_test(other_factors_stay),
        cmocka_unit_test(gates_are_one_kernel), cmocka_unit_test(parts_lie_in_their_places),  cmocka_unit_test(other_columns_stay), cmocka_unit_test(the_later_product_is_taken_apart),
        cmocka_unit_test(pictures_are_channels_last),
        cmocka_unit_test(groups_of_few_channels),
        cmocka_unit_test(flattened_pictures),
        cmocka_unit_test(epilogues_stay),
        cmocka_unit_test(patches_are_rows),
        cmocka_unit_test(results_of_the_same_are_one_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

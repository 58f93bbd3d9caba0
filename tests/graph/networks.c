// Random networks (networks.h).

#include "tests/graph/networks.h"

#include "graph/graph.h"
#include "graph/ref/ref.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define S(...) (Ix[]){__VA_ARGS__}

enum { BATCH = 2 };

static uint64_t state;

static int below(int n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

static Node *constant(Graph *g, int rank, const int64_t *shape, double least) {
    static int count;
    float data[8192];
    int64_t n = 1;
    char name[16];
    for (int i = 0; i < rank; i++) n *= shape[i];
    assert_true(n <= 8192);
    for (int64_t i = 0; i < n; i++) data[i] = (float)(least + (below(2001) - (least > 0 ? 0 : 1000)) / 1000.0);
    snprintf(name, sizeof name, "c%d", count++);
    return g_name(g, g_const(g, EL_f32, rank, shape, data), name);
}

static int64_t size(const Node *x, int axis) {
    int64_t v = 0;
    assert_true(ix_const(x->shape[axis], &v));
    return v;
}

static Node *channel(Graph *g, int64_t n, double least) { return g_unsqueeze(g, constant(g, 1, &n, least), 6); }

// [N, C, H, W], groups of C / groups channels; as the importer makes it.
static Node *conv(Graph *g, Node *x, int64_t channels, int64_t groups, int kernel, int stride, int pad) {
    int64_t c = size(x, 1) / groups, h = size(x, 2), w = size(x, 3);
    Ix k = ix(g, kernel), p = ix(g, pad),
       out[2] = {ix(g, (h + 2 * pad - kernel) / stride + 1), ix(g, (w + 2 * pad - kernel) / stride + 1)};
    int first = groups > 1 ? 3 : 2;
    if (groups > 1) x = g_reshape(g, x, 5, S(x->shape[0], ix(g, groups), ix(g, c), x->shape[2], x->shape[3]));
    Node *windows = g_windows(g, x, first, 2, out, S(k, k), (int64_t[]){stride, stride}, (int64_t[]){1, 1}, S(p, p),
                              g_int(0));
    if (groups == 1) {
        Node *b = constant(g, 4, (int64_t[]){channels, c, kernel, kernel}, 0);
        if (kernel == 1) windows = g_squeeze(g, windows, 3u << 4), b = g_squeeze(g, b, 12);
        Node *a = g_transpose(g, windows, kernel == 1 ? 4 : 6, kernel == 1 ? (int[]){0, 2, 3, 1} : (int[]){0, 2, 3, 1, 4, 5});
        return g_transpose(g, g_contract(g, a, b, 0, 3, 1, kernel == 1 ? 1 : 3, EL_f32, EL_f32), 4, (int[]){0, 3, 1, 2});
    }
    Node *a = g_transpose(g, windows, 7, (int[]){1, 0, 3, 4, 2, 5, 6}),
         *b = constant(g, 5, (int64_t[]){groups, channels / groups, c, kernel, kernel}, 0);
    Node *y = g_contract(g, a, b, 1, 3, 1, 3, EL_f32, EL_f32);
    return g_reshape(g, g_transpose(g, y, 5, (int[]){1, 0, 4, 2, 3}), 4, S(x->shape[0], ix(g, channels), out[0], out[1]));
}

static Node *batch_norm(Graph *g, Node *x) {
    int64_t c = size(x, 1);
    x = g_ew2(g, EW_sub, x, channel(g, c, 0));
    if (below(2)) x = g_ew2(g, EW_div, x, channel(g, c, 0.5));
    x = g_ew2(g, EW_mul, channel(g, c, 0), x);
    return below(3) ? g_ew2(g, EW_add, x, channel(g, c, 0)) : g_ew2(g, EW_sub, channel(g, c, 0), x);
}

static Node *group_norm(Graph *g, Node *x, int64_t groups) {
    Node *y = g_reshape(g, x, 3, S(x->shape[0], ix(g, groups), ix(g, -1)));
    Node *d = g_ew2(g, EW_sub, y, g_mean(g, y, 4, true));
    Node *v = g_ew1(g, EW_sqrt, g_ew2f(g, EW_add, g_mean(g, g_ew2(g, EW_mul, d, d), 4, true), 0.1));
    y = g_reshape_like(g, g_ew2(g, EW_div, d, v), x);
    return g_ew2(g, EW_add, g_ew2(g, EW_mul, y, channel(g, size(x, 1), 0)), channel(g, size(x, 1), 0));
}

static Node *pool(Graph *g, Node *x, bool mean) {
    Ix two = ix(g, 2), out[2] = {ix(g, (size(x, 2) + 1) / 2), ix(g, (size(x, 3) + 1) / 2)};
    Node *w = g_windows(g, x, 2, 2, out, S(two, two), (int64_t[]){2, 2}, (int64_t[]){1, 1}, S(ix(g, 0), ix(g, 0)),
                        g_float(mean ? 0 : -INFINITY));
    return g_reduce(g, mean ? GR_sum : GR_max, w, 48, false);
}

static Node *excite(Graph *g, Node *x) {
    int64_t c = size(x, 1);
    Node *m = g_mean(g, x, 12, false);
    Node *h = g_ew2f(g, EW_max, g_contract(g, m, constant(g, 2, (int64_t[]){4, c}, 0), 0, 1, 1, 1, EL_f32, EL_f32), 0);
    Node *s = g_ew1(g, EW_sigmoid, g_contract(g, h, constant(g, 2, (int64_t[]){c, 4}, 0), 0, 1, 1, 1, EL_f32, EL_f32));
    return g_ew2(g, EW_mul, x, g_unsqueeze(g, s, 12));
}

static Node *upsampled(Graph *g, Node *x) {
    Ix shape[4] = {x->shape[0], x->shape[1], ix_muli(g, x->shape[2], 2), ix_muli(g, x->shape[3], 2)};
    Ix coord[4] = {ix_axis(g, 0, shape[0]), ix_axis(g, 1, shape[1]), ix_divi(g, ix_axis(g, 2, shape[2]), 2),
                   ix_divi(g, ix_axis(g, 3, shape[3]), 2)};
    return g_view(g, x, 4, shape, coord, NULL, g_int(0));
}

static Node *transformed(Graph *g, Node *x) {                 // pixels as rows, mixed by heads
    Ix c = x->shape[1], n = ix_mul(g, x->shape[2], x->shape[3]), half = ix_divi(g, c, 2);
    Node *rows = g_transpose(g, g_reshape(g, x, 3, S(x->shape[0], c, n)), 3, (int[]){0, 2, 1});
    Node *q = g_contract(g, rows, constant(g, 2, (int64_t[]){size(x, 1), size(x, 1)}, 0), 0, 2, 1, 1, EL_f32, EL_f32);
    q = g_transpose(g, g_reshape(g, q, 4, S(x->shape[0], n, ix(g, 2), half)), 4, (int[]){0, 2, 1, 3});
    q = g_ew2f(g, EW_mul, g_ew1(g, EW_tanh, q), 0.5);
    Node *p = g_softmax(g, g_contract(g, q, q, 2, 1, 1, 1, EL_f32, EL_f32), 8);
    Node *o = g_contract(g, p, g_transpose(g, q, 4, (int[]){0, 1, 3, 2}), 2, 1, 1, 1, EL_f32, EL_f32);
    o = g_reshape(g, g_transpose(g, o, 4, (int[]){0, 2, 1, 3}), 3, S(x->shape[0], n, c));
    return g_reshape_like(g, g_transpose(g, o, 3, (int[]){0, 2, 1}), x);
}

static Node *step(Graph *g, Node *x, Node **other) {
    int64_t c = size(x, 1), h = size(x, 2);
    switch (below(14)) {
    case 0: return batch_norm(g, conv(g, x, 4 * (1 + below(3)), 1, 3, 1, 1));
    case 1: return batch_norm(g, conv(g, x, 4 * (1 + below(3)), 1, 1, 1, 0));
    case 2: return h > 3 ? conv(g, x, 8, 1, 3, 2, 1) : x;
    case 3: return batch_norm(g, conv(g, x, c, c, 3, 1, 1));
    case 4: return batch_norm(g, conv(g, x, 2 * c <= 16 ? 2 * c : c, 2, 3, 1, 1));
    case 5: return g_ew2f(g, EW_max, x, 0);
    case 6: return g_ew2(g, EW_mul, x, g_ew1(g, EW_sigmoid, x));
    case 7: return h > 1 ? pool(g, x, below(2)) : x;
    case 8: return group_norm(g, x, below(2) ? 2 : 4);
    case 9: return excite(g, x);
    case 10: return h <= 4 ? upsampled(g, x) : x;
    case 11: return h <= 6 ? transformed(g, x) : x;
    case 12: {
        Node *y = *other;
        bool fits = y && g_same_shape(x, y);
        *other = x;
        return fits ? g_ew2(g, EW_add, x, y) : x;
    }
    default: {
        Node *y = *other;
        bool fits = y && y->shape[2] == x->shape[2] && y->shape[3] == x->shape[3] && c + size(y, 1) <= 16;
        *other = x;
        return fits ? g_concat(g, 1, (Node *[]){x, y}, 2) : x;
    }
    }
}

static void network(Graph *g) {
    Node *x = g_input(g, "x", EL_f32, 4,
                      S(ix_dim(g, "N"), ix(g, 4 * (1 + below(2))), ix(g, 4 + below(4)), ix(g, 4 + below(4)))),
         *other = NULL;
    for (int steps = 3 + below(8); steps > 0; steps--) x = step(g, x, &other);
    if (below(2)) g_output(g, "pixels", x);
    if (below(2)) g_output(g, "means", g_mean(g, x, 12, false));
    int64_t flat = size(x, 1) * size(x, 2) * size(x, 3);
    if (flat > 1600) flat = 0;
    Node *rows = g_reshape(g, x, 2, S(x->shape[0], ix(g, -1)));
    if (flat) rows = g_contract(g, rows, constant(g, 2, (int64_t[]){5, flat}, 0), 0, 1, 1, 1, EL_f32, EL_f32);
    g_output(g, "y", rows);
}

Graph *network_new(int seed) {
    Graph *g = graph_new("network");
    state = (uint64_t)seed * 7919 + 1;
    network(g);
    if (g_failed(g)) fail_msg("network %d: %s", seed, g_failed(g));
    return g;
}

GTensor network_input(const Graph *g) {
    const Node *n = g->inputs.at[0].node;
    GTensor x = {.elem = EL_f32, .rank = 4, .shape = {BATCH, size(n, 1), size(n, 2), size(n, 3)}};
    assert_true(g_tensor_alloc(&x));
    for (size_t i = 0; i < x.bytes / 4; i++) ((float *)x.data)[i] = (float)sin((double)i * 0.7);
    return x;
}

void network_run(const Graph *g, const GTensor *x, GTensor *out) {
    char error[200];
    if (!ref_run(g, x, out, NULL, error, sizeof error)) fail_msg("%s", error);
}

void network_compare(int seed, int output, const GTensor *expected, const void *got, double part) {
    const float *a = expected->data, *b = got;
    double most = 1e-3;
    size_t n = expected->bytes / 4;
    for (size_t k = 0; k < n; k++) most = fmax(most, fabs((double)a[k]));
    for (size_t k = 0; k < n; k++)
        if (!(fabs((double)a[k] - (double)b[k]) <= part * most))
            fail_msg("network %d, result %d[%zu]: %g, should be %g", seed, output, k, (double)b[k], (double)a[k]);
}

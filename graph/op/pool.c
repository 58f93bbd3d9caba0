// Pools: reductions of windows (op/window.h), or of all there is.
#include "graph/op/window.h"

#include <math.h>

#include "lang/number.h"

static GNum least(Elem e) {
    if (elem_is_float(e)) return g_float(-INFINITY);
    return g_int(elem_is_signed(e) ? INT64_MIN >> (64 - elem_bits(e)) : 0);
}

static uint32_t last_axes(const Node *x, int n) { return ((1u << n) - 1) << (x->rank - n); }

static Elem sum_type(Elem e) { return e == EL_f64 ? EL_f64 : EL_f32; }

// Where in x, counted over all of it, the largest of each window is. Column-major: the first spatial axis runs fastest.
static Node *positions(Op *op, Node *x, Node *windows, const OpWindow *w, bool column_major) {
    Graph *g = op->g;
    Ix flat[G_MAX_RANK], count = ix_product(g, w->kernel_ix, w->n), shape[G_MAX_RANK];
    for (int d = 0; d < x->rank; d++) flat[d] = shape[d] = windows->shape[d];
    flat[x->rank] = count;
    Node *at = g_arg_reduce(g, GR_argmax, g_reshape(g, windows, x->rank + 1, flat), x->rank, false, false), *sum = NULL;
    Ix plane = ix_product(g, x->shape + 2, w->n), stride = ix(g, 1);
    for (int k = 0; k < w->n; k++) {
        int i = column_major ? k : w->n - 1 - k;                // from the fastest axis on
        Ix inner = ix(g, 1);
        for (int j = i + 1; j < w->n; j++) inner = ix_mul(g, inner, w->kernel_ix[j]);
        Node *tap = g_ew2(g, EW_mod, g_ew2(g, EW_div, at, g_size(g, EL_i64, inner)), g_i(g, EL_i64, w->kernel[i]));
        Ix start = ix_sub(g, ix_muli(g, ix_axis(g, 2 + i, shape[2 + i]), w->stride[i]), w->before[i]);
        Node *place = g_ew2(g, EW_add, g_ew2(g, EW_mul, tap, g_i(g, EL_i64, w->dilation[i])),
                            g_index(g, EL_i64, x->rank, shape, start));
        Node *term = g_ew2(g, EW_mul, place, g_size(g, EL_i64, stride));
        sum = sum != NULL ? g_ew2(g, EW_add, sum, term) : term;
        stride = ix_mul(g, stride, x->shape[2 + i]);
    }
    Ix channel = ix_add(g, ix_mul(g, ix_axis(g, 0, shape[0]), shape[1]), ix_axis(g, 1, shape[1]));
    return g_ew2(g, EW_add, sum, g_index(g, EL_i64, x->rank, shape, ix_mul(g, channel, plane)));
}

static Node *lower_max_pool(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    OpWindow w;
    if (!op_window(op, x, NULL, &w)) return NULL;
    Node *windows = op_windows(op, x, 2, &w, least((Elem)x->elem));
    if (windows == NULL) return NULL;
    if (op_wants(op, 1)) op_out(op, 1, positions(op, x, windows, &w, op_int(op, "storage_order", 0) != 0));
    return g_reduce(g, GR_max, windows, last_axes(windows, w.n), false);
}

// How many elements a window has: all of its places, or those in the input, or those in the input and its padding.
static Node *window_count(Op *op, Node *x, const OpWindow *w, bool padding, Elem elem) {
    Graph *g = op->g;
    Ix shape[G_MAX_RANK] = {x->shape[0], x->shape[1]}, count = ix(g, 1), zero = ix(g, 0);
    for (int i = 0; i < w->n; i++) shape[2 + i] = w->out[i];
    for (int i = 0; i < w->n; i++) {
        Ix start = ix_sub(g, ix_muli(g, ix_axis(g, 2 + i, w->out[i]), w->stride[i]), w->before[i]),
           step = ix(g, w->dilation[i]);
        Ix lo = padding ? ix_muli(g, w->before[i], -1) : zero,
           hi = padding ? ix_add(g, x->shape[2 + i], w->after[i]) : x->shape[2 + i];
        Ix first = ix_max(g, zero, ix_ceildiv(g, ix_sub(g, lo, start), step));
        Ix end = ix_min(g, w->kernel_ix[i], ix_ceildiv(g, ix_sub(g, hi, start), step));
        count = ix_mul(g, count, ix_max(g, ix_sub(g, end, first), zero));
    }
    return g_cast(g, g_index(g, EL_i64, x->rank, shape, count), elem);
}

static Node *lower_average_pool(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    OpWindow w;
    if (!op_window(op, x, NULL, &w)) return NULL;
    Elem elem = (Elem)x->elem, wide = sum_type(elem);
    Node *windows = op_windows(op, g_cast(g, x, wide), 2, &w, g_int(0));
    if (windows == NULL) return NULL;
    Node *count = window_count(op, x, &w, op_int(op, "count_include_pad", 0) != 0, wide);
    return g_cast(g, g_ew2(g, EW_div, g_reduce(g, GR_sum, windows, last_axes(windows, w.n), false), count), elem);
}

// The p-norm over axes.
static Node *norm(Op *op, Node *x, int64_t p, uint32_t axes, bool keep) {
    Graph *g = op->g;
    Node *size = g_ew1(g, EW_abs, x);
    if (p == 1) return g_reduce(g, GR_sum, size, axes, keep);
    if (p == 2) return g_ew1(g, EW_sqrt, g_reduce(g, GR_sum, g_ew2(g, EW_mul, x, x), axes, keep));
    return g_ew2f(g, EW_pow, g_reduce(g, GR_sum, g_ew2f(g, EW_pow, size, (double)p), axes, keep), 1 / (double)p);
}

static int64_t power(Op *op) {                                  // a float in opset 1
    int64_t p =
        op->version < 2 && op_given(op, "p") ? f64_to_int_sat(op_float(op, "p", 2), 64, true) : op_int(op, "p", 2);
    if (p < 1) op_error(op, "attribute `p` is %lld", (long long)p);
    return p;
}

static Node *lower_lp_pool(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    OpWindow w;
    int64_t p = power(op);
    if (p < 1 || !op_window(op, x, NULL, &w)) return NULL;
    Elem elem = (Elem)x->elem;
    Node *windows = op_windows(op, g_cast(g, x, sum_type(elem)), 2, &w, g_int(0));
    return windows != NULL ? g_cast(g, norm(op, windows, p, last_axes(windows, w.n), false), elem) : NULL;
}

static Node *lower_global(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    if (x == NULL) return NULL;
    if (x->rank < 3)
        return op_error(op, "needs a batch, channels, and an axis to pool; its input has %d dimensions", x->rank);
    uint32_t axes = last_axes(x, x->rank - 2);
    if (op->row == GR_max) return g_reduce(g, GR_max, x, axes, true);
    if (op->row == GR_sum) return g_mean(g, x, axes, true);
    int64_t p = power(op);
    Elem elem = (Elem)x->elem;
    return p < 1 ? NULL : g_cast(g, norm(op, g_cast(g, x, sum_type(elem)), p, axes, true), elem);
}

// The other way: elements put where the pool found them, zeros elsewhere. Positions count over the size that follows from
// the window; output_shape may be larger, with zeros at the end.
static Node *lower_max_unpool(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *at = op_in(op, 1);
    int64_t pads[2 * MAX_SPATIAL];
    OpWindow w;
    if (x == NULL || at == NULL) return NULL;
    if (x->rank < 3 || at->rank != x->rank)
        return op_error(op, "its input has %d dimensions, its indices %d", x->rank, at->rank);
    if (!op_window_shape(op, x->rank - 2, NULL, &w) || !op_pads(op, w.n, pads)) return NULL;
    Ix shape[G_MAX_RANK] = {x->shape[0], x->shape[1]}, zeros[G_MAX_RANK], more[G_MAX_RANK];
    for (int d = 0; d < x->rank; d++) zeros[d] = more[d] = ix(g, 0);
    for (int i = 0; i < w.n; i++)
        shape[2 + i] =
            ix_addi(g, ix_muli(g, ix_addi(g, x->shape[2 + i], -1), w.stride[i]), w.kernel[i] - pads[i] - pads[w.n + i]);
    Ix count = ix_product(g, shape, x->rank), coord[1] = {NULL}, left[1] = {ix(g, -1)};
    Node *updates = g_reshape(g, x, 1, left), *index = g_reshape(g, g_cast(g, at, EL_i64), 1, left);
    Node *flat = g_scatter(g, GR_none, g_full(g, (Elem)x->elem, 1, &count, g_int(0)), updates, coord, &index, 1, true);
    Node *y = g_reshape(g, flat, x->rank, shape);
    if (op_opt(op, 2) == NULL || y == NULL) return y;
    int n = 0;
    const Ix *wanted = op_known(op, 2, &n);
    if (wanted == NULL || n != x->rank)
        return wanted == NULL ? NULL : op_error(op, "its output shape has %d sizes for %d dimensions", n, x->rank);
    for (int d = 0; d < n; d++) more[d] = ix_sub(g, wanted[d], shape[d]);
    return g_pad(g, y, zeros, more, GP_constant, g_int(0));
}

// clang-format off
const OpRow ops_pool[] = {
    OP("MaxPool", 1, lower_max_pool),                    OP("AveragePool", 1, lower_average_pool),
    OP("LpPool",  1, lower_lp_pool),                     OP("MaxUnpool",   9, lower_max_unpool),
    OP_OF("GlobalAveragePool", 1, lower_global, GR_sum), OP_OF("GlobalMaxPool", 1, lower_global, GR_max),
    OP_OF("GlobalLpPool",      1, lower_global, GR_none),
    {0},
};
// clang-format on

// Normalisations: statistics over some axes, then scale and shift. Small floats are computed in f32 and rounded once.
//
//     batch       over all axes but the channels, or statistics that are given
//     instance    over the spatial axes
//     group       over a group's channels and the spatial axes
//     layer       over the last axes
#include "graph/op/op.h"

static Elem wide_of(Elem e) { return e == EL_f64 ? EL_f64 : EL_f32; }

typedef struct Stats { Node *mean, *var, *centred; } Stats;      // with the reduced axes kept

static Stats stats_over(Graph *g, Node *x, uint32_t axes) {
    Stats s = {.mean = g_mean(g, x, axes, true)};
    s.centred = g_ew2(g, EW_sub, x, s.mean);
    s.var = g_mean(g, g_ew2(g, EW_mul, s.centred, s.centred), axes, true);
    return s;
}

// 1 / sqrt(var + epsilon)
static Node *inverse_deviation(Graph *g, Node *var, double epsilon) {
    Node *d = g_ew1(g, EW_sqrt, g_ew2f(g, EW_add, var, epsilon));
    return d != NULL ? g_ew2(g, EW_div, g_f(g, (Elem)d->elem, 1), d) : NULL;
}

// A list of numbers, one for each channel, against values of that rank: [C, 1, ..].
static Node *by_channel(Graph *g, Node *v, int rank, Elem elem) {
    if (v == NULL || v->rank == 0) return g_cast(g, v, elem);
    uint32_t after = 0; // before opset 9 there could be one for each element: [C, D..]
    for (int d = v->rank; d < rank - 1; d++) after |= 1u << d;
    return g_unsqueeze(g, g_cast(g, v, elem), after);
}

// One dimension, of the size of x's channels; in old opsets of x's axes but the batch.
static bool fits_channels(Op *op, const Node *x, const Node *v) {
    bool each = op->version < 9 && v->rank == x->rank - 1;
    if (v->rank != 1 && !each)
        return op_error(op, "its scale, shift and statistics should be lists, not of %d dimensions", v->rank), false;
    for (int d = 0; d < v->rank; d++) g_require(op->g, v->shape[d], x->shape[1 + d]);
    return g_failed(op->g) == NULL;
}

static Node *lower_batch(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *given[4];
    for (int i = 0; i < 4; i++) given[i] = op_in(op, 1 + i);
    if (x == NULL || g_failed(g) != NULL) return NULL;
    if (x->rank < 2) return op_error(op, "needs a batch and channels; its input has %d dimensions", x->rank);
    for (int i = 0; i < 4; i++)
        if (!fits_channels(op, x, given[i])) return NULL;
    bool training =
        op->version >= 14 ? op_int(op, "training_mode", 0) != 0 : op->version < 7 && op_int(op, "is_test", 0) == 0;
    if (op->version < 14 && (op->version >= 7 || !op_given(op, "is_test"))) training = op->nout > 1;
    double epsilon = op_float(op, "epsilon", 1e-5f), momentum = op_float(op, "momentum", 0.9f);
    Elem elem = (Elem)x->elem, wide = wide_of(elem);
    int each = given[0]->rank;                                  // axes that have a number of their own, from 1 on
    Node *w = g_cast(g, x, wide), *scale = by_channel(g, given[0], x->rank, wide),
         *shift = by_channel(g, given[1], x->rank, wide);
    Node *mean = by_channel(g, given[2], x->rank, wide), *var = by_channel(g, given[3], x->rank, wide);
    if (training) {
        uint32_t axes = ((1u << x->rank) - 1) & ~(((1u << each) - 1) << 1);
        Stats s = stats_over(g, w, axes);
        for (int i = 0; i < 2; i++) {
            Node *old = i == 0 ? mean : var, *now = i == 0 ? s.mean : s.var;
            if (old == NULL || now == NULL) return NULL;
            now = g_squeeze(g, now, 1);                         // [1, C, 1, ..] -> [C, 1, ..]
            Node *running = g_ew2(g, EW_add, g_ew2f(g, EW_mul, old, momentum), g_ew2f(g, EW_mul, now, 1 - momentum));
            if (op_wants(op, 1 + i))
                op_out(op, 1 + i, g_cast(g, g_reshape_like(g, running, given[2 + i]), (Elem)given[2 + i]->elem));
            if (op_wants(op, 3 + i))
                op_out(op, 3 + i, g_cast(g, g_reshape_like(g, now, given[2 + i]), (Elem)given[2 + i]->elem));
        }
        mean = s.mean, var = s.var;
    }
    Node *factor = g_ew2(g, EW_mul, scale, inverse_deviation(g, var, epsilon));
    Node *y = g_ew2(g, EW_add, g_ew2(g, EW_mul, g_ew2(g, EW_sub, w, mean), factor), shift);
    return g_cast(g, y, elem);
}

static Node *lower_instance(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *scale = op_in(op, 1), *shift = op_in(op, 2);
    if (x == NULL || scale == NULL || shift == NULL) return NULL;
    if (x->rank < 3)
        return op_error(op, "needs a batch, channels and another axis; its input has %d dimensions", x->rank);
    if (!fits_channels(op, x, scale) || !fits_channels(op, x, shift)) return NULL;
    Elem elem = (Elem)x->elem, wide = wide_of(elem);
    Stats s = stats_over(g, g_cast(g, x, wide), ((1u << x->rank) - 1) & ~3u);
    Node *y = g_ew2(g, EW_mul, s.centred, inverse_deviation(g, s.var, op_float(op, "epsilon", 1e-5f)));
    y = g_ew2(g, EW_add, g_ew2(g, EW_mul, y, by_channel(g, scale, x->rank, wide)), by_channel(g, shift, x->rank, wide));
    return g_cast(g, y, elem);
}

static Node *lower_layer(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *scale = op_in(op, 1), *shift = op_opt(op, 2);
    int axis = op_axis(op, x, "axis", -1);
    Elem stash = op_elem(op, "stash_type", EL_f32);
    if (axis < 0 || scale == NULL || stash == EL_none) return NULL;
    Elem elem = (Elem)x->elem, wide = elem == EL_f64 || stash == EL_f64 ? EL_f64 : EL_f32;
    Stats s = stats_over(g, g_cast(g, x, wide), ((1u << x->rank) - 1) & ~((1u << axis) - 1));
    Node *inverse = inverse_deviation(g, s.var, op_float(op, "epsilon", 1e-5f));
    if (op_wants(op, 1)) op_out(op, 1, g_cast(g, s.mean, stash));
    if (op_wants(op, 2)) op_out(op, 2, g_cast(g, inverse, stash));
    Node *y = g_ew2(g, EW_mul, g_ew2(g, EW_mul, s.centred, inverse), g_cast(g, scale, wide));
    if (shift != NULL) y = g_ew2(g, EW_add, y, g_cast(g, shift, wide));
    if (y != NULL && y->rank != x->rank) return op_error(op, "its scale and bias do not fit its input");
    for (int d = 0; y != NULL && d < x->rank; d++) g_require(g, x->shape[d], y->shape[d]);
    return g_cast(g, y, elem);
}

// scale and bias have one number for each group in opset 18, for each channel from 21 on.
static Node *lower_group(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *scale = op_in(op, 1), *shift = op_in(op, 2);
    int64_t groups = op_int(op, "num_groups", 0);
    if (x == NULL || scale == NULL || shift == NULL) return NULL;
    if (x->rank < 2 || x->rank >= G_MAX_RANK)
        return op_error(op, "needs a batch and channels; its input has %d dimensions", x->rank);
    int64_t channels;
    Ix each = groups > 0 ? ix_divide_exact(g, x->shape[1], ix(g, groups)) : NULL, shape[G_MAX_RANK];
    if (each == NULL && groups > 0 && !op_fixed(op, x->shape[1], &channels)) return NULL;
    if (each == NULL) return op_error(op, "its channels do not divide by `num_groups`, %lld", (long long)groups);
    shape[0] = x->shape[0], shape[1] = ix(g, groups), shape[2] = each;
    for (int d = 2; d < x->rank; d++) shape[d + 1] = x->shape[d];
    Elem elem = (Elem)x->elem, wide = wide_of(elem);
    Node *split = g_reshape(g, g_cast(g, x, wide), x->rank + 1, shape), *by[2] = {scale, shift};
    Stats s = stats_over(g, split, ((1u << (x->rank + 1)) - 1) & ~3u);
    for (int i = 0; i < 2; i++) {
        if (by[i]->rank != 1) return op_error(op, "its scale and bias should be lists");
        bool one = op->version < 21;
        g_require(g, by[i]->shape[0], one ? shape[1] : x->shape[1]);
        if (g_failed(g) != NULL) return NULL;
        by[i] = g_reshape(g, by[i], 2, (Ix[]){shape[1], one ? ix(g, 1) : each});
        by[i] = g_unsqueeze(g, g_cast(g, by[i], wide), ((1u << x->rank) - 1) & ~3u);
    }
    Node *y = g_ew2(g, EW_mul, s.centred, inverse_deviation(g, s.var, op_float(op, "epsilon", 1e-5f)));
    y = g_ew2(g, EW_add, g_ew2(g, EW_mul, y, by[0]), by[1]);
    return g_cast(g, y != NULL ? g_reshape(g, y, x->rank, x->shape) : NULL, elem);
}

// x / (bias + alpha / size * (sum of squares of the `size` channels around))^beta
static Node *lower_lrn(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int64_t size = op_int(op, "size", 0);
    if (x == NULL) return NULL;
    if (x->rank < 2) return op_error(op, "needs a batch and channels; its input has %d dimensions", x->rank);
    if (size < 1 || size > 1 << 24) return op_error(op, "attribute `size` is %lld", (long long)size);
    Elem elem = (Elem)x->elem, wide = wide_of(elem);
    Node *w = g_cast(g, x, wide), *square = g_ew2(g, EW_mul, w, w);
    Ix kernel = ix(g, size), before = ix(g, (size - 1) / 2);
    Node *around = g_windows(g, square, 1, 1, &x->shape[1], &kernel, (int64_t[]){1}, (int64_t[]){1}, &before, g_int(0));
    Node *sum = g_reduce(g, GR_sum, around, 1u << x->rank, false);
    sum = g_ew2f(g, EW_add, g_ew2f(g, EW_mul, sum, op_float(op, "alpha", 1e-4f) / (double)size), op_float(op, "bias", 1));
    return g_cast(g, g_ew2(g, EW_div, w, g_ew2f(g, EW_pow, sum, op_float(op, "beta", 0.75f))), elem);
}

static bool axes_attribute(Op *op, Node *x, uint32_t otherwise, uint32_t *axes) {
    bool given;
    if (!op_axes(op, x, op->nin, axes, &given)) return false;
    if (!given) *axes = otherwise;
    if (*axes >> x->rank != 0) return op_error(op, "its input has only %d dimensions", x->rank), false;
    return true;
}

static Node *lower_mean_variance(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    uint32_t axes;
    if (x == NULL || !axes_attribute(op, x, 1u << 0 | 1u << 2 | 1u << 3, &axes)) return NULL;
    Elem elem = (Elem)x->elem;
    Stats s = stats_over(g, g_cast(g, x, wide_of(elem)), axes);
    return g_cast(g, g_ew2(g, EW_div, s.centred, g_ew2f(g, EW_add, g_ew1(g, EW_sqrt, s.var), 1e-9)), elem);
}

// x / norm; 0 where that is 0.
static Node *lower_lp(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int axis = op_axis(op, x, "axis", -1);
    int64_t p = op_int(op, "p", 2);
    if (axis < 0) return NULL;
    if (p != 1 && p != 2) return op_error(op, "attribute `p` must be 1 or 2, not %lld", (long long)p);
    Elem elem = (Elem)x->elem, wide = wide_of(elem);
    Node *w = g_cast(g, x, wide), *each = p == 1 ? g_ew1(g, EW_abs, w) : g_ew2(g, EW_mul, w, w);
    Node *norm = g_reduce(g, GR_sum, each, 1u << axis, true);
    if (p == 2) norm = g_ew1(g, EW_sqrt, norm);
    return g_cast(g, g_where(g, g_ew2f(g, EW_eq, norm, 0), g_f(g, wide, 0), g_ew2(g, EW_div, w, norm)), elem);
}

// clang-format off
const OpRow ops_norm[] = {
    OP("BatchNormalization",  1, lower_batch),  OP("InstanceNormalization",     1, lower_instance),
    OP("LayerNormalization", 1, lower_layer),  OP("MeanVarianceNormalization", 9, lower_mean_variance),
    OP("GroupNormalization", 18, lower_group),  OP("LpNormalization",           1, lower_lp),
    OP("LRN",                 1, lower_lrn),
    {0},
};
// clang-format on

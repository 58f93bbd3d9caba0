// Operators that ONNX had in its first opsets as experiments and then gave up. Converters of Core ML, of WinML and of
// Caffe2 wrote them for years, into models of any opset; ONNX Runtime reads them still.
#include "graph/op/op.h"

static Node *affine(Graph *g, Node *x, double factor, double more) { return g_ew2f(g, EW_add, g_ew2f(g, EW_mul, x, factor), more); }

// alpha * x + beta
static Node *lower_affine(Op *op) { return affine(op->g, op_in(op, 0), op_float(op, "alpha", 1), op_float(op, "beta", 0)); }

static Node *lower_scale(Op *op) { return g_ew2f(op->g, EW_mul, op_in(op, 0), op_float(op, "scale", 1)); }

// alpha * tanh(beta * x)
static Node *lower_scaled_tanh(Op *op) {
    Graph *g = op->g;
    Node *t = g_ew1(g, EW_tanh, g_ew2f(g, EW_mul, op_in(op, 0), op_float(op, "beta", 1)));
    return g_ew2f(g, EW_mul, t, op_float(op, "alpha", 1));
}

// alpha * log(1 + exp(beta * x))
static Node *lower_softplus(Op *op) {
    Node *x = g_ew2f(op->g, EW_mul, op_in(op, 0), op_float(op, "beta", 1));
    return x == NULL ? NULL : g_ew2f(op->g, EW_mul, op_as(op, "Softplus", 1, &x, 1), op_float(op, "alpha", 1));
}

// scale * x + bias, which has a number for each channel
static Node *lower_image_scaler(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int n = 0;
    const float *bias = op_floats(op, "bias", &n);
    if (x == NULL || !op_rank(op, x, 4, "its image")) return NULL;
    g_require(g, x->shape[1], ix(g, n));
    x = g_ew2f(g, EW_mul, x, op_float(op, "scale", 1));
    if (x == NULL || n == 0) return x;
    Node *each = g_const(g, EL_f32, 1, (int64_t[]){n}, bias);
    return g_ew2(g, EW_add, x, g_unsqueeze(g, g_cast(g, each, (Elem)x->elem), 6));
}

// An image without its border: left, top, right, bottom. With `scale` that says how high and wide what is left is.
static Node *lower_crop(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int n = 0, nsize = 0;
    const int64_t *border = op_ints(op, "border", &n), *size = op_ints(op, "scale", &nsize);
    if (x == NULL || !op_rank(op, x, 4, "its image")) return NULL;
    if (n != 4 || (nsize != 0 && nsize != 2)) return op_error(op, "attribute `border` should have 4 numbers, `scale` none or 2");
    for (int i = 0; i < 4; i++)
        if (border[i] < 0 || border[i] > 1 << 24) return op_error(op, "attribute `border` has %lld among its numbers", (long long)border[i]);
    Ix before[4], after[4];
    for (int d = 0; d < 4; d++) {
        int64_t from = d < 2 ? 0 : border[3 - d], to = d < 2 ? 0 : border[5 - d];
        before[d] = ix(g, -from), after[d] = ix(g, -to);
        if (d >= 2 && nsize == 2) after[d] = ix_sub(g, ix(g, from + size[d - 2]), x->shape[d]);
        Ix left = ix_add(g, x->shape[d], ix_add(g, before[d], after[d]));
        bool more = nsize == 2 && ix_is(ix_le(g, after[d], ix(g, 0)), 0);
        if (more || (ix_is_const(left) && left->value < 0)) return op_error(op, "its border leaves nothing of axis %d", d);
    }
    return g_pad(g, x, before, after, GP_constant, g_int(0));
}

// Mean and variance of each channel over the batch, or of all channels together; what opset 9 says by axes.
static Node *lower_mean_variance(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    if (x == NULL || !op_rank(op, x, 4, "its image")) return NULL;
    uint32_t axes = op_int(op, "across_channels", 0) != 0 ? 15 : 13;
    Elem elem = (Elem)x->elem;
    Node *w = op_widen(g, x), *centred = g_ew2(g, EW_sub, w, g_mean(g, w, axes, true));
    if (op_int(op, "normalize_variance", 1) == 0 || centred == NULL) return g_cast(g, centred, elem);
    Node *deviation = g_ew1(g, EW_sqrt, g_mean(g, g_ew2(g, EW_mul, centred, centred), axes, true));
    return g_cast(g, g_ew2(g, EW_div, centred, deviation), elem);
}

const OpRow ops_early[] = {
    OP("Affine", 1, lower_affine),
    OP("Crop", 1, lower_crop),
    OP("ImageScaler", 1, lower_image_scaler),
    OP("MeanVarianceNormalization", 1, lower_mean_variance),
    OP("ParametricSoftplus", 1, lower_softplus),
    OP("Scale", 1, lower_scale),
    OP("ScaledTanh", 1, lower_scaled_tanh),
    {0},
};

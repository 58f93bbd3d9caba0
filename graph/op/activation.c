// Activations: formulas over the elementwise kinds.
//
// Constants are scalars of x's element type. Small floats are computed in f32 and rounded once at the end, so that a
// formula of several steps does not lose bits at each (f16 in, f16 out, f32 between).
#include "graph/op/op.h"

#include <float.h>
#include <math.h>

static Node *narrow(Op *op, Node *y) {
    Node *x = op_in(op, 0);
    return x != NULL && y != NULL ? g_cast(op->g, y, (Elem)x->elem) : NULL;
}

static Node *add(Op *op, Node *a, double b) { return g_ew2f(op->g, EW_add, a, b); }
static Node *mul(Op *op, Node *a, double b) { return g_ew2f(op->g, EW_mul, a, b); }
static Node *constant(Op *op, Node *x, double v) { return x != NULL ? g_f(op->g, (Elem)x->elem, v) : NULL; }
static Node *negative(Op *op, Node *x) { return g_ew2f(op->g, EW_lt, x, 0); }
static Node *clamp(Op *op, Node *x, double lo, double hi) {
    return g_ew2f(op->g, EW_min, g_ew2f(op->g, EW_max, x, lo), hi);
}

static Node *lower_relu(Op *op) { return g_ew2f(op->g, EW_max, op_in(op, 0), 0); }

static Node *lower_leaky(Op *op) {
    Node *x = op_widen(op->g, op_in(op, 0));
    return narrow(op, g_where(op->g, g_ew2f(op->g, EW_lt, x, 0), mul(op, x, op_float(op, "alpha", 0.01)), x));
}

static Node *lower_prelu(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *slope = op_in(op, 1);
    if (x == NULL || slope == NULL) return NULL;
    if (op->version < 9 && slope->rank == 1 && x->rank > 2 && !ix_is(slope->shape[0], 1)) { // one for each channel
        Ix shape[G_MAX_RANK];
        for (int d = 0; d < x->rank - 1; d++) shape[d] = d == 0 ? slope->shape[0] : ix(g, 1);
        slope = g_reshape(g, slope, x->rank - 1, shape);
    }
    return g_where(g, g_ew2f(g, EW_lt, x, 0), g_ew2(g, EW_mul, x, slope), x);
}

// alpha (exp(x / by) - 1) below 0, x from there on: expm1, as the 1 would swallow small x.
static Node *exponential(Op *op, Node *x, double alpha, double by) {
    Graph *g = op->g;
    Node *low = g_ew1(g, EW_expm1, by == 1 ? x : g_ew2f(g, EW_div, x, by));
    return g_where(g, negative(op, x), alpha == 1 ? low : mul(op, low, alpha), x);
}

static Node *lower_elu(Op *op) {
    return narrow(op, exponential(op, op_widen(op->g, op_in(op, 0)), op_float(op, "alpha", 1), 1));
}

static Node *lower_celu(Op *op) {
    double alpha = op_float(op, "alpha", 1);
    return narrow(op, exponential(op, op_widen(op->g, op_in(op, 0)), alpha, alpha));
}

static Node *lower_selu(Op *op) {
    double alpha = op_float(op, "alpha", 1.67326319217681884765625),
           gamma = op_float(op, "gamma", 1.05070102214813232421875);
    return narrow(op, mul(op, exponential(op, op_widen(op->g, op_in(op, 0)), alpha, 1), gamma));
}

static Node *lower_thresholded(Op *op) {
    Node *x = op_in(op, 0);
    return g_where(op->g, g_ew2f(op->g, EW_gt, x, op_float(op, "alpha", 1)), x, constant(op, x, 0));
}

static Node *lower_hard_sigmoid(Op *op) {
    Node *x = op_widen(op->g, op_in(op, 0));
    return narrow(op, clamp(op, add(op, mul(op, x, op_float(op, "alpha", 0.2f)), op_float(op, "beta", 0.5)), 0, 1));
}

static Node *lower_hard_swish(Op *op) {
    Node *x = op_widen(op->g, op_in(op, 0));
    return narrow(op, g_ew2(op->g, EW_mul, x, clamp(op, add(op, mul(op, x, 1.0 / 6), 0.5), 0, 1)));
}

// log(1 + exp(x)), which for large x is x
static Node *softplus(Op *op, Node *x) {
    Node *tail = g_ew1(op->g, EW_log1p, g_ew1(op->g, EW_exp, g_ew1(op->g, EW_neg, g_ew1(op->g, EW_abs, x))));
    return g_ew2(op->g, EW_add, g_ew2f(op->g, EW_max, x, 0), tail);
}

static Node *lower_softplus(Op *op) { return narrow(op, softplus(op, op_widen(op->g, op_in(op, 0)))); }

static Node *lower_softsign(Op *op) {
    Node *x = clamp(op, op_widen(op->g, op_in(op, 0)), -0x1p100, 0x1p100);     // an infinity's is 1
    return narrow(op, g_ew2(op->g, EW_div, x, add(op, g_ew1(op->g, EW_abs, x), 1)));
}

// x * tanh(log(1 + e)), e = exp(x), is x * n / (n + 2) with n = e * (e + 2): one function instead of three. Past 20 the quotient is 1.
static Node *lower_mish(Op *op) {
    Node *x = op_widen(op->g, op_in(op, 0)), *e = g_ew1(op->g, EW_exp, g_ew2f(op->g, EW_min, x, 20));
    Node *n = g_ew2(op->g, EW_mul, e, add(op, e, 2));
    return narrow(op, g_ew2(op->g, EW_mul, x, g_ew2(op->g, EW_div, n, add(op, n, 2))));
}

static Node *lower_swish(Op *op) {
    Node *x = op_widen(op->g, op_in(op, 0));
    return narrow(op, g_ew2(op->g, EW_mul, x, g_ew1(op->g, EW_sigmoid, mul(op, x, op_float(op, "alpha", 1)))));
}

static Node *lower_swiglu(Op *op) {
    Node *a = op_widen(op->g, op_in(op, 0)),
         *gate = g_ew2(op->g, EW_mul, a, g_ew1(op->g, EW_sigmoid, mul(op, a, op_float(op, "alpha", 1))));
    return narrow(op, g_ew2(op->g, EW_mul, gate, op_widen(op->g, op_in(op, 1))));
}

static Node *lower_gelu(Op *op) {
    Graph *g = op->g;
    Node *x = op_widen(op->g, op_in(op, 0));
    bool by_tanh = op_is(op, "approximate", "none", "tanh");
    if (!by_tanh && !op_is(op, "approximate", "none", "none"))
        return op_error(op, "attribute `approximate` must be none or tanh");
    Node *cube = g_ew2(g, EW_mul, g_ew2(g, EW_mul, x, x), x);
    Node *inner = by_tanh
                      ? g_ew1(g, EW_tanh, mul(op, g_ew2(g, EW_add, x, mul(op, cube, 0.044715)), 0.79788456080286535588))
                      : g_ew1(g, EW_erf, mul(op, x, 0.70710678118654752440));
    return narrow(op, g_ew2(g, EW_mul, mul(op, x, 0.5), add(op, inner, 1)));                // x / 2 first: 2 x may be past the end
}

static Node *lower_shrink(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    double lambd = op_float(op, "lambd", 0.5), bias = op_float(op, "bias", 0);
    Node *above = g_where(g, g_ew2f(g, EW_gt, x, lambd), add(op, x, -bias), constant(op, x, 0));
    return g_where(g, g_ew2f(g, EW_lt, x, -lambd), add(op, x, bias), above);
}

// Bounds: attributes before opset 11, then inputs, either of which may be left out.
static Node *lower_clip(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *lo = op_opt(op, 1), *hi = op_opt(op, 2);
    if (op->version < 11) {
        lo = constant(op, x, op_float(op, "min", -FLT_MAX));
        hi = constant(op, x, op_float(op, "max", FLT_MAX));
    }
    if (lo != NULL) x = g_ew2(g, EW_max, x, lo);
    return hi != NULL ? g_ew2(g, EW_min, x, hi) : x;
}

// clang-format off
const OpRow ops_activation[] = {
    OP("Relu",            1, lower_relu),     OP("LeakyRelu",    1, lower_leaky),        OP("PRelu",     1, lower_prelu),      OP("Elu",      1, lower_elu),
    OP("Celu",           12, lower_celu),     OP("Selu",         1, lower_selu),         OP("ThresholdedRelu", 10, lower_thresholded),
    OP("HardSigmoid",     1, lower_hard_sigmoid), OP("HardSwish", 14, lower_hard_swish), OP("Softplus",  1, lower_softplus),   OP("Softsign", 1, lower_softsign),
    OP("Mish",           18, lower_mish),     OP("Swish",       24, lower_swish),        OP("SwiGLU", 28, lower_swiglu), OP("Gelu",     20, lower_gelu),       OP("Shrink",   9, lower_shrink),
    OP("Clip",            1, lower_clip),
    {0},
};
// clang-format on

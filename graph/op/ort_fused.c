// ONNX Runtime's own operators, as its optimiser and exporters for it write them (domain com.microsoft): several of
// ONNX's as one.
//
//     FusedMatMul        alpha * a' b'                     BiasGelu, FastGelu    gelu(x + bias), by erf and by tanh
//     FusedGemm          act(Gemm)                         QuickGelu             x sigmoid(alpha x)
//     FusedConv          act(Conv + bias + z)              Gelu
//     NhwcConv           Conv, channels last                BiasSoftmax           softmax(x + bias)
//     SkipLayerNormalization, SkipSimplifiedLayerNormalization     the norm of x + skip + bias; the sum is a result, too
//     SimplifiedLayerNormalization                                  RMSNormalization, in ONNX's own domain
//     EmbedLayerNormalization, QEmbedLayerNormalization             the norm of rows of two or three tables, added; of bytes with a scale
//
// Each becomes what it stands for; fusion finds kernels as for a model that was never optimised. Attentions are in
// op/ort_attention.c, quantised operators in op/ort_quant.c.
#include "graph/op/quant.h"

#include <string.h>

// ---- activations ------------------------------------------------------------------------------------

static Node *times(Graph *g, Node *x, double by) { return g_ew2f(g, EW_mul, x, by); }

Node *op_gelu(Graph *g, Node *x, bool by_tanh) {
    Node *cube = g_ew2(g, EW_mul, g_ew2(g, EW_mul, x, x), x);
    Node *curve = by_tanh ? g_ew1(g, EW_tanh,
                                  times(g, g_ew2(g, EW_add, x, times(g, cube, 0.044715)), 0.79788456080286535588))
                          : g_ew1(g, EW_erf, times(g, x, 0.70710678118654752440));
    return g_ew2(g, EW_mul, times(g, x, 0.5), g_ew2f(g, EW_add, curve, 1));        // x / 2 first: 2 x may be past the end
}

enum { BY_ERF, BY_TANH };

static Node *lower_gelu(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *bias = op_opt(op, 1);
    if (x == NULL) return NULL;
    Elem elem = (Elem)x->elem;
    x = op_widen(g, x);
    if (bias != NULL) x = g_ew2(g, EW_add, x, op_widen(g, bias));
    return g_cast(g, op_gelu(g, x, op->row == BY_TANH), elem);
}

static Node *lower_quick_gelu(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *w = op_widen(g, x);
    if (x == NULL) return NULL;
    return g_cast(g, g_ew2(g, EW_mul, w, g_ew1(g, EW_sigmoid, times(g, w, op_float(op, "alpha", 1.702f)))), (Elem)x->elem);
}

// x + bias, the last axis in halves a and b: a * gelu(b)
static Node *lower_bias_split_gelu(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *bias = op_in(op, 1);
    if (x == NULL || bias == NULL) return NULL;
    int last = x->rank - 1;
    Ix half = last >= 0 ? ix_divide_exact(g, x->shape[last], ix(g, 2)) : NULL;
    if (half == NULL) return op_error(op, "its last dimension should be even");
    Node *sum = g_ew2(g, EW_add, op_widen(g, x), op_widen(g, bias)), *a = g_take_range(g, sum, last, ix(g, 0), 1, half),
         *b = g_take_range(g, sum, last, half, 1, half);
    return g_cast(g, g_ew2(g, EW_mul, a, op_gelu(g, b, false)), (Elem)x->elem);
}

// Of FusedConv and FusedGemm. Its numbers: a list, or attributes with names.
static Node *activated(Op *op, Node *y) {
    Graph *g = op->g;
    const char *name = op_text(op, "activation", "");
    int n = 0;
    const float *list = op_floats(op, "activation_params", &n);
    double alpha = list != NULL && n > 0
                       ? list[0]
                       : op_float(op, "activation_alpha", strcmp(name, "HardSigmoid") == 0 ? 0.2f : 0.01f),
           beta = list != NULL && n > 1 ? list[1] : op_float(op, "activation_beta", 0.5f);
    if (*name == '\0') return y;
    if (strcmp(name, "Relu") == 0) return g_ew2f(g, EW_max, y, 0);
    if (strcmp(name, "Tanh") == 0) return g_ew1(g, EW_tanh, y);
    if (strcmp(name, "Sigmoid") == 0) return g_ew1(g, EW_sigmoid, y);
    if (strcmp(name, "LeakyRelu") == 0 && y != NULL) return g_where(g, g_ew2f(g, EW_lt, y, 0), times(g, y, alpha), y);
    if (strcmp(name, "HardSigmoid") == 0)
        return g_ew2f(g, EW_min, g_ew2f(g, EW_max, g_ew2f(g, EW_add, times(g, y, alpha), beta), 0), 1);
    if (strcmp(name, "Clip") == 0 && n == 2) return g_ew2f(g, EW_min, g_ew2f(g, EW_max, y, alpha), beta);
    return op_error(op, "its activation, %s, is not known", name);
}

// ---- products ---------------------------------------------------------------------------------------

// x with its axes in another order: the first behind the batch, the last two in turn.
static Node *turned(Op *op, Node *x, const char *batch, const char *last) {
    bool front = op_int(op, batch, 0) != 0, swap = op_int(op, last, 0) != 0;
    int perm[G_MAX_RANK];
    if (x == NULL || x->rank < 2) return x;
    for (int d = 0; d < x->rank; d++) perm[d] = d;
    for (int d = 0; front && d < x->rank - 1; d++) perm[d] = d + 1 < x->rank - 1 ? d + 1 : 0;
    if (swap) {
        int other = perm[x->rank - 2];
        perm[x->rank - 2] = perm[x->rank - 1];
        perm[x->rank - 1] = other;
    }
    return g_transpose(op->g, x, x->rank, perm);
}

static Node *lower_fused_matmul(Op *op) {
    Graph *g = op->g;
    Node *a = turned(op, op_in(op, 0), "transBatchA", "transA"), *b = turned(op, op_in(op, 1), "transBatchB", "transB");
    double alpha = op_float(op, "alpha", 1);
    Node *y = g_matmul(g, a, b);
    return alpha != 1 && y != NULL ? g_cast(g, times(g, op_widen(g, y), alpha), (Elem)y->elem) : y;
}

static Node *lower_fused_gemm(Op *op) { return activated(op, op_as(op, "Gemm", 13, op->in, op->nin < 3 ? op->nin : 3)); }

static Node *lower_fused_conv(Op *op) {
    Node *y = op_as(op, "Conv", 11, op->in, op->nin < 3 ? op->nin : 3), *z = op_opt(op, 3);
    return activated(op, z != NULL ? g_ew2(op->g, EW_add, y, z) : y);
}

// ---- norms ------------------------------------------------------------------------------------------

// x over its last axis, in f32: centred unless `simple`. mean, inverse: as results, or NULL.
static Node *norm(Op *op, Node *x, Node *scale, Node *shift, bool simple, double epsilon, Node **mean, Node **inverse) {
    Graph *g = op->g;
    if (x == NULL || x->rank == 0) return x == NULL ? NULL : op_error(op, "needs a dimension");
    uint32_t last = 1u << (x->rank - 1);
    *mean = simple ? NULL : g_mean(g, x, last, true);
    Node *c = simple ? x : g_ew2(g, EW_sub, x, *mean);
    *inverse = g_ew2(g, EW_div, g_f(g, EL_f32, 1),
                     g_ew1(g, EW_sqrt, g_ew2f(g, EW_add, g_mean(g, g_ew2(g, EW_mul, c, c), last, true), epsilon)));
    Node *y = g_ew2(g, EW_mul, g_ew2(g, EW_mul, c, *inverse), g_cast(g, scale, EL_f32));
    return shift != NULL ? g_ew2(g, EW_add, y, g_cast(g, shift, EL_f32)) : y;
}

enum { WHOLE, SIMPLE };

static Node *lower_skip_norm(Op *op) {
    Graph *g = op->g;
    bool simple = op->row == SIMPLE;
    Node *x = op_in(op, 0), *skip = op_in(op, 1), *scale = op_in(op, 2), *shift = simple ? NULL : op_opt(op, 3),
         *bias = op_opt(op, simple ? 3 : 4), *mean, *inverse;
    if (x == NULL || skip == NULL || scale == NULL) return NULL;
    Elem elem = (Elem)x->elem;
    Node *sum = g_ew2(g, EW_add, g_cast(g, x, EL_f32), g_cast(g, skip, EL_f32));
    if (bias != NULL) sum = g_ew2(g, EW_add, sum, g_cast(g, bias, EL_f32));
    if (sum != NULL && sum->rank != x->rank) return op_error(op, "its inputs do not fit together");
    Node *rounded = g_cast(g, sum, elem),
         *y = norm(op, sum, scale, shift, simple, op_float(op, "epsilon", 1e-12f), &mean, &inverse);
    if (y == NULL) return NULL;
    if (op_wants(op, 1)) op_out(op, 1, mean);
    if (op_wants(op, 2)) op_out(op, 2, inverse);
    op_out(op, 3, rounded);
    return g_cast(g, y, elem);
}

static Node *lower_simple_norm(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *scale = op_in(op, 1), *mean, *inverse;
    if (x == NULL || scale == NULL) return NULL;
    if (op_axis(op, x, "axis", -1) != x->rank - 1) return op_error(op, "is of the last dimension");
    Node *y = norm(op, g_cast(g, x, EL_f32), scale, NULL, true, op_float(op, "epsilon", 1e-5f), &mean, &inverse);
    if (op_wants(op, 1)) op_out(op, 1, y != NULL ? inverse : NULL);
    return g_cast(g, y, (Elem)scale->elem);
}

// Rows of the table that the ids name; without ids, those from the first on.
static Node *rows(Op *op, Node *table, Node *ids, const Node *like) {
    Graph *g = op->g;
    if (table == NULL || like == NULL) return NULL;
    if (table->rank != 2 || like->rank != 2) return op_error(op, "its ids and tables should have 2 dimensions");
    if (ids != NULL) return g_gather_axis(g, table, ids, 0);
    return g_unsqueeze(g, g_take_range(g, table, 0, ix(g, 0), 1, like->shape[1]), 1);
}

// Input i, or rows of it, as floats: bytes have one scale and zero point each (row 1).
static Node *as_floats(Op *op, Node *x, int i) {
    Graph *g = op->g;
    if (op->row == 0 || x == NULL) return g_cast(g, x, EL_f32);
    Node *scale = op_in(op, i + 6), *zero = op_in(op, i + 11);
    if (scale == NULL || zero == NULL) return NULL;
    return g_ew2(g, EW_mul, g_cast(g, op_centred(g, x, op_one(g, zero)), EL_f32), op_one(g, g_cast(g, scale, EL_f32)));
}

static Node *lower_embed_norm(Op *op) {
    Graph *g = op->g;
    Node *ids = op_in(op, 0), *segment = op_opt(op, 1), *word = op_in(op, 2), *place = op_in(op, 3), *table = op_opt(op, 4),
         *scale = op_in(op, 5), *shift = op_in(op, 6), *mask = op_opt(op, 7), *mean, *inverse;
    if (ids == NULL || word == NULL || place == NULL || scale == NULL || shift == NULL) return NULL;
    Elem elem = op->row == 0 ? (Elem)word->elem : EL_f32;
    Node *sum = g_ew2(g, EW_add, as_floats(op, rows(op, word, ids, ids), 2), as_floats(op, rows(op, place, op->row == 0 ? op_opt(op, 8) : NULL, ids), 3));
    if (segment != NULL && table != NULL) sum = g_ew2(g, EW_add, sum, as_floats(op, rows(op, table, segment, ids), 4));
    Node *y = norm(op, sum, as_floats(op, scale, 5), as_floats(op, shift, 6), false, op_float(op, "epsilon", 1e-12f), &mean, &inverse);
    if (y == NULL) return NULL;
    if (op_wants(op, 1))
        op_out(op, 1,
               mask != NULL ? g_reduce(g, GR_sum, g_cast(g, mask, EL_i32), 2, false)
                            : g_full(g, EL_i32, 1, ids->shape, g_int(0)));
    op_out(op, 2, g_cast(g, sum, elem));
    return g_cast(g, y, elem);
}

// Channels last, unless said otherwise; activation 1: x sigmoid(x). With a skip (and bias), of the sum, which is a
// result, too.
static Node *lower_group_norm(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *scale = op_in(op, 1), *shift = op_in(op, 2), *skip = op->row == 1 ? op_in(op, 3) : NULL,
         *bias = op->row == 1 ? op_opt(op, 4) : NULL;
    bool last = op_int(op, "channels_last", 1) != 0;
    int64_t groups = op_int(op, "groups", 0);
    if (x == NULL || scale == NULL || shift == NULL || (op->row == 1 && skip == NULL)) return NULL;
    if (!op_rank(op, x, 4, "its images") || !op_rank(op, scale, 1, "its scale") || !op_rank(op, shift, 1, "its shift")) return NULL;
    if (groups < 1) return op_error(op, "works in groups");
    Elem elem = (Elem)x->elem;
    Node *w = g_cast(g, x, EL_f32), *more[2] = {skip, bias};
    for (int i = 0; i < 2; i++) {
        Node *m = more[i] != NULL ? g_cast(g, more[i], EL_f32) : NULL;
        if (m != NULL && m->rank == 2) m = g_unsqueeze(g, m, last ? 6u : 12u);
        else if (m != NULL && m->rank == 1 && !last) m = g_unsqueeze(g, m, 6u);
        if (m != NULL) w = g_ew2(g, EW_add, w, m);
    }
    if (!op_rank(op, w, 4, "the sum of its images")) return NULL;
    op_out(op, 1, g_cast(g, w, elem));
    if (last) w = g_transpose(g, w, 4, (int[]){0, 3, 1, 2});
    Ix each = ix_divide_exact(g, w->shape[1], ix(g, groups));
    if (each == NULL) return op_error(op, "its channels do not divide by `groups`, %lld", (long long)groups);
    Node *split = g_reshape(g, w, 5, (Ix[]){w->shape[0], ix(g, groups), each, w->shape[2], w->shape[3]});
    Node *c = g_ew2(g, EW_sub, split, g_mean(g, split, 28, true));
    Node *var = g_mean(g, g_ew2(g, EW_mul, c, c), 28, true);
    Node *y = g_reshape_like(
        g, g_ew2(g, EW_div, c, g_ew1(g, EW_sqrt, g_ew2f(g, EW_add, var, op_float(op, "epsilon", 1e-5f)))), w);
    y = g_ew2(g, EW_mul, y, g_unsqueeze(g, g_cast(g, scale, EL_f32), 6));
    y = g_ew2(g, EW_add, y, g_unsqueeze(g, g_cast(g, shift, EL_f32), 6));
    if (op_int(op, "activation", 0) != 0) y = g_ew2(g, EW_mul, y, g_ew1(g, EW_sigmoid, y));
    if (last) y = g_transpose(g, y, 4, (int[]){0, 2, 3, 1});
    return g_cast(g, y, elem);
}

static Node *lower_bias_add(Op *op) {
    Graph *g = op->g;
    return g_ew2(g, EW_add, g_ew2(g, EW_add, op_in(op, 0), op_in(op, 1)), op_in(op, 2));
}

static Node *lower_expand_dims(Op *op) {
    Node *x = op_in(op, 0);
    int64_t axis;
    if (x == NULL || !op_known_int(op, 1, &axis)) return NULL;
    if (axis < 0) axis += x->rank + 1;
    if (axis < 0 || axis > x->rank) return op_error(op, "its axis is out of range");
    return g_unsqueeze(op->g, x, 1u << axis);
}

// Conv of pictures and weights with channels last, as the optimiser writes diffusion models for a GPU.
static Node *lower_nhwc_conv(Op *op) {
    static const int first[4] = {0, 3, 1, 2}, last[4] = {0, 2, 3, 1};
    Graph *g = op->g;
    Node *in[3] = {op_in(op, 0), op_in(op, 1), op_opt(op, 2)};
    if (!op_rank(op, in[0], 4, "its image") || !op_rank(op, in[1], 4, "its weights")) return NULL;
    for (int i = 0; i < 2; i++) in[i] = g_transpose(g, in[i], 4, first);
    return g_transpose(g, op_as(op, "Conv", 11, in, in[2] != NULL ? 3 : 2), 4, last);
}

// Over `axis` and all that follow. The bias has a 1, or no dimension, where it is the same for all.
static Node *lower_bias_softmax(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *bias = op_in(op, 1);
    int axis = op_axis(op, x, "axis", 1);
    if (axis < 0 || bias == NULL) return NULL;
    bool inner = op_int(op, "is_inner_broadcast", 0) != 0;
    if (bias->rank > x->rank || (inner && bias->rank != x->rank))
        return op_error(op, "its bias has %d dimensions, its input %d", bias->rank, x->rank);
    Node *sum = g_ew2(g, EW_add, op_widen(g, x), op_widen(g, bias));
    uint32_t all = (1u << x->rank) - 1, before = (1u << axis) - 1;
    return g_cast(g, g_softmax(g, sum, all & ~before), (Elem)x->elem);
}

static Node *lower_trilu(Op *op) { return op_as(op, "Trilu", 14, op->in, op->nin); }

#define MS "com.microsoft"
#define MS_OP(type, lower, arg) {type, 1, lower, arg, NULL, MS}
// clang-format off
const OpRow ops_ort_fused[] = {
    MS_OP("FusedMatMul", lower_fused_matmul, 0),  MS_OP("TransposeMatMul", lower_fused_matmul, 0), MS_OP("FusedGemm", lower_fused_gemm, 0), MS_OP("FusedConv", lower_fused_conv, 0),
    MS_OP("Gelu", lower_gelu, BY_ERF),            MS_OP("BiasGelu", lower_gelu, BY_ERF),           MS_OP("FastGelu", lower_gelu, BY_TANH),  MS_OP("QuickGelu", lower_quick_gelu, 0),
    MS_OP("BiasSplitGelu", lower_bias_split_gelu, 0), MS_OP("BiasAdd", lower_bias_add, 0), MS_OP("BiasSoftmax", lower_bias_softmax, 0),
    MS_OP("SkipLayerNormalization", lower_skip_norm, WHOLE), MS_OP("SkipSimplifiedLayerNormalization", lower_skip_norm, SIMPLE),
    OP("SimplifiedLayerNormalization", 1, lower_simple_norm), MS_OP("SimplifiedLayerNormalization", lower_simple_norm, 0),
    MS_OP("EmbedLayerNormalization", lower_embed_norm, 0), MS_OP("QEmbedLayerNormalization", lower_embed_norm, 1), MS_OP("GroupNorm", lower_group_norm, 0), MS_OP("SkipGroupNorm", lower_group_norm, 1),
    MS_OP("ExpandDims", lower_expand_dims, 0),    MS_OP("Trilu", lower_trilu, 0), MS_OP("NhwcConv", lower_nhwc_conv, 0),
    {0},
};
// clang-format on

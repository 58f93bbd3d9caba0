// Mixtures of experts, as ONNX Runtime's optimiser and the exporters of language models write them (domain com.microsoft): MoE, QMoE.
//
//     r[t, e]    = softmax(router)[t, e] where e is among token t's k best, else 0           divided by the sum of these, if the model says so
//     h[t, e, i] = act(sum of x[t, c] * w1[e, i, c] over c)
//     y[t, c]    = sum of r[t, e] * h[t, e, i] * w2[e, c, i] over e and i
//
// Experts lie side by side as columns of the first product and rows of the second, so that each is one product of matrices. All experts are computed for
// all tokens, and where a token has not chosen one nothing of it counts, infinities neither: with many tokens that is what products of full tiles cost, with one it reads the
// weights of all experts (docs/roadmap.md). Shares that are not to be divided by their sum are not, as on ONNX Runtime's CUDA; its QMoE for CPUs divides always.
#include "graph/op/quant.h"

#include <math.h>

// Where the node's inputs are. Weights of the three products (the third is what the first is multiplied by), their biases, scales and zero points.
typedef struct Places { int weight[3], bias[3], scale[3], zero[3], mixing; } Places;

static const Places places[] = {
    {{2, 4, 6}, {3, 5, 7}, {-1, -1, -1}, {-1, -1, -1}, -1},
    {{2, 5, 8}, {4, 7, 10}, {3, 6, 9}, {11, 12, 13}, 14},
};
enum { PLAIN, QUANTISED };

typedef struct Experts {
    Op *op;
    const Places *at;
    Ix  experts, tokens;
    Elem elem;
} Experts;

static Node *opt(const Experts *m, int i) { return i < 0 ? NULL : op_opt(m->op, i); }

// Weights of product i as floats, [experts, columns, summed over].
static Node *weights_of(const Experts *m, int i) {
    static const char *const own[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"};
    Op *op = m->op;
    Node *w = opt(m, m->at->weight[i]), *scale = opt(m, m->at->scale[i]);
    if (w == NULL) return NULL;
    if (!op_rank(op, w, 3, "its weights")) return NULL;
    if (m->at->scale[i] < 0) return g_cast(op->g, w, m->elem);
    if (scale == NULL) return op_error(op, "has weights without scales");
    return op_unpacked(op, w, scale, opt(m, m->at->zero[i]), op_int(op, own[i], op_int(op, "expert_weight_bits", 4)), m->elem);
}

// [experts, n, k] as the matrix [k, experts * n], or turned: [experts * k, n].
static Node *side_by_side(const Experts *m, Node *w, bool turned) {
    static const int perm[2][3] = {{2, 0, 1}, {0, 2, 1}};
    Graph *g = m->op->g;
    if (w == NULL) return NULL;
    Ix n = w->shape[1], k = w->shape[2];
    Ix shape[2] = {turned ? ix_mul(g, m->experts, k) : k, turned ? n : ix_mul(g, m->experts, n)};
    return g_reshape(g, g_transpose(g, w, 3, perm[turned]), 2, shape);
}

// x times the weights of all experts, with their biases: [tokens, experts * columns], in f32. NULL, without a message: there are no such weights.
static Node *hidden(const Experts *m, Node *x, int i) {
    Graph *g = m->op->g;
    Node *w = weights_of(m, i), *bias = opt(m, m->at->bias[i]);
    if (w == NULL) return NULL;
    Node *y = op_widen(g, g_matmul(g, x, side_by_side(m, w, false)));
    if (bias == NULL || !op_rank(m->op, bias, 2, "its biases")) return y;
    return g_ew2(g, EW_add, y, g_reshape(g, op_widen(g, bias), 1, (Ix[]){ix_mul(g, m->experts, w->shape[1])}));
}

static Node *sigmoid_of(Graph *g, Node *x, double times) { return g_ew1(g, EW_sigmoid, times == 1 ? x : g_ew2f(g, EW_mul, x, times)); }

// Gate and factor of each column: of two products, or of one, whose columns are pairs (fusion 1) or each expert's halves (2).
static bool parts(const Experts *m, Node *h, Node *third, int64_t fusion, Node **gate, Node **times) {
    Graph *g = m->op->g;
    if (fusion == 0) return *gate = h, *times = third, h != NULL && third != NULL;
    Ix columns = h == NULL ? NULL : ix_divide_exact(g, h->shape[1], ix_muli(g, m->experts, 2));
    if (columns == NULL) return h == NULL ? false : (op_error(m->op, "its first weights have no two halves"), false);
    Ix all = ix_mul(g, m->experts, columns);
    Node **to[2] = {gate, times};
    for (int i = 0; i < 2; i++)
        *to[i] = fusion == 1 ? g_take_range(g, h, 1, ix(g, i), 2, all)
                             : g_reshape(g, g_take_range(g, g_reshape(g, h, 3, (Ix[]){m->tokens, m->experts, ix_muli(g, columns, 2)}), 2, ix_muli(g, columns, i), 1, columns),
                                         2, (Ix[]){m->tokens, all});
    return *gate != NULL && *times != NULL;
}

static Node *activated(const Experts *m, Node *h, Node *third) {
    Op *op = m->op;
    Graph *g = op->g;
    double alpha = op_float(op, "activation_alpha", 1), beta = op_float(op, "activation_beta", 0), limit = op_float(op, "swiglu_limit", INFINITY);
    int64_t fusion = op_int(op, "swiglu_fusion", 0);
    Node *gate, *times;
    if (h == NULL || g_failed(g) != NULL) return NULL;
    bool swish = op_is(op, "activation_type", "relu", "swiglu"), gelu = op_is(op, "activation_type", "relu", "geglu");
    if (fusion < 0 || fusion > 2) return op_error(op, "attribute `swiglu_fusion` is %lld", (long long)fusion);
    if (swish || gelu) {
        if (!parts(m, h, third, fusion, &gate, &times)) return g_failed(g) != NULL ? NULL : op_error(op, "needs the weights of its third product");
        if (gelu) return g_ew2(g, EW_mul, op_gelu(g, gate, true), times);
        if (op_int(op, "swiglu_limit_after_activation", 0) != 0) {
            Node *y = g_ew2f(g, EW_min, g_ew2(g, EW_mul, gate, sigmoid_of(g, gate, alpha)), limit);
            return g_ew2(g, EW_mul, y, g_ew2f(g, EW_add, g_ew2f(g, EW_min, g_ew2f(g, EW_max, times, -limit), limit), beta));
        }
        if (!isinf(limit)) gate = g_ew2f(g, EW_min, gate, limit), times = g_ew2f(g, EW_min, g_ew2f(g, EW_max, times, -limit), limit);
        return g_ew2(g, EW_mul, g_ew2(g, EW_mul, gate, sigmoid_of(g, gate, alpha)), beta != 0 ? g_ew2f(g, EW_add, times, beta) : times);
    }
    Node *relu = g_ew2f(g, EW_max, h, 0), *y;
    if (op_is(op, "activation_type", "relu", "relu")) y = relu;
    else if (op_is(op, "activation_type", "relu", "relu2")) y = g_ew2(g, EW_mul, relu, relu);
    else if (op_is(op, "activation_type", "relu", "gelu")) y = op_gelu(g, h, true);
    else if (op_is(op, "activation_type", "relu", "silu")) y = g_ew2(g, EW_mul, h, sigmoid_of(g, h, 1));
    else if (op_is(op, "activation_type", "relu", "identity")) y = h;
    else return op_error(op, "has the activation `%s`", op_text(op, "activation_type", "relu"));
    return third != NULL ? g_ew2(g, EW_mul, y, third) : y;
}

// How much of each expert each token gets, and which it has chosen: [tokens, experts].
static bool routed(const Experts *m, Node *router, Node **weight, Node **chosen) {
    Op *op = m->op;
    Graph *g = op->g;
    int64_t k = op_int(op, "k", 1);
    Node *mixing = opt(m, m->at->mixing), *at, *scores = op_widen(g, router);
    if (op_int(op, "use_sparse_mixer", 0) != 0) return op_error(op, "with `use_sparse_mixer` it is not supported"), false;
    if (k < 1 || (ix_is_const(m->experts) && k > m->experts->value)) return op_error(op, "attribute `k` is %lld", (long long)k), false;
    if (scores == NULL || g_sort(g, scores, 1, true, &at) == NULL) return false;
    Ix shape[3] = {m->tokens, ix(g, k), m->experts};
    Node *first = g_unsqueeze(g, g_take_range(g, at, 1, ix(g, 0), 1, shape[1]), 4);
    Node *same = g_ew2(g, EW_eq, first, g_index(g, EL_i64, 3, (Ix[]){ix(g, 1), ix(g, 1), m->experts}, ix_axis(g, 2, m->experts)));
    *chosen = g_ew2f(g, EW_gt, g_reduce(g, GR_max, g_cast(g, same, EL_i32), 2, false), 0);
    Node *share = mixing != NULL ? op_widen(g, mixing) : g_softmax(g, scores, 2);
    *weight = g_where(g, *chosen, share, g_f(g, EL_f32, 0));
    if (*weight != NULL && op_int(op, "normalize_routing_weights", 0) != 0)
        *weight = g_ew2(g, EW_div, *weight, g_unsqueeze(g, g_reduce(g, GR_sum, *weight, 2, false), 2));
    return *weight != NULL;
}

static Node *lower_experts(Op *op) {
    Graph *g = op->g;
    Experts m = {.op = op, .at = &places[op->row]};
    Node *x = op_in(op, 0), *router = op_in(op, 1), *w1 = op_in(op, m.at->weight[0]), *w2 = op_in(op, m.at->weight[1]), *weight, *chosen;
    if (x == NULL || router == NULL || w1 == NULL || w2 == NULL) return NULL;
    if (x->rank < 2 || x->rank > 3 || router->rank != 2 || w1->rank != 3)
        return op_error(op, "its tokens should have 2 or 3 dimensions, the router's numbers 2, its weights 3");
    if (op->row == QUANTISED && !op_is(op, "quant_type", "int", "int")) return op_error(op, "of `quant_type` %s it is not supported", op_text(op, "quant_type", "int"));
    if (op->row == QUANTISED && op_int(op, "weights_prepacked", 0) == 1) return op_error(op, "with weights in the order of one machine (`weights_prepacked`) it is not supported");
    m.elem = (Elem)x->elem, m.experts = w1->shape[0], m.tokens = router->shape[0];
    g_require(g, router->shape[1], m.experts);
    Node *rows = g_reshape(g, x, 2, (Ix[]){m.tokens, x->shape[x->rank - 1]});
    if (!routed(&m, router, &weight, &chosen)) return NULL;
    Node *third = hidden(&m, rows, 2), *h = activated(&m, hidden(&m, rows, 0), third);
    w2 = weights_of(&m, 1);
    if (h == NULL || w2 == NULL) return NULL;
    Ix shape[3] = {m.tokens, m.experts, w2->shape[2]};
    h = g_reshape(g, h, 3, shape);
    h = g_where(g, g_unsqueeze(g, chosen, 4), g_ew2(g, EW_mul, h, g_unsqueeze(g, weight, 4)), g_f(g, EL_f32, 0));
    h = g_reshape(g, g_cast(g, h, m.elem), 2, (Ix[]){m.tokens, ix_mul(g, m.experts, shape[2])});
    Node *y = op_widen(g, g_matmul(g, h, side_by_side(&m, w2, true))), *bias = opt(&m, m.at->bias[1]);
    if (bias != NULL && op_rank(op, bias, 2, "its biases")) y = g_ew2(g, EW_add, y, g_matmul(g, weight, op_widen(g, bias)));
    return g_cast(g, g_reshape_like(g, y, x), m.elem);
}

const OpRow ops_ort_experts[] = {
    {"MoE", 1, lower_experts, PLAIN, NULL, "com.microsoft"}, {"QMoE", 1, lower_experts, QUANTISED, NULL, "com.microsoft"},
    {0},
};

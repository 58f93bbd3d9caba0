// Losses of classification: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
//
//     loss[n, d..] = -weight[t] * x[n, t, d..]        t = target[n, d..]; 0 where t is ignore_index
//
// summed, or divided by the sum of the weights that were used.
#include "graph/op/op.h"

static Node *loss(Op *op, Node *x, Node *target, Node *weight, Elem elem) {
    Graph *g = op->g;
    if (x == NULL || target == NULL) return NULL;
    if (x->rank < 2 || target->rank != x->rank - 1)
        return op_error(op, "its input has %d dimensions, its target %d", x->rank, target->rank);
    if (!elem_is_int((Elem)target->elem))
        return op_error(op, "its target has elements of type %s, not integers", elem_name((Elem)target->elem));
    bool none = op_is(op, "reduction", "mean", "none"), sum = op_is(op, "reduction", "mean", "sum");
    if (!none && !sum && !op_is(op, "reduction", "mean", "mean"))
        return op_error(op, "attribute `reduction` must be none, sum or mean");
    Elem wide = (Elem)x->elem;
    Node *t = g_cast(g, target, EL_i64), *ignored = NULL, *used = NULL;
    if (op_given(op, "ignore_index")) {
        ignored = g_ew2(g, EW_eq, t, g_i(g, EL_i64, op_int(op, "ignore_index", 0)));
        t = g_where(g, ignored, g_i(g, EL_i64, 0), t);
    }
    Node *at = g_gather_elements(g, x, g_unsqueeze(g, t, 2), 1);
    Node *each = g_ew1(g, EW_neg, g_squeeze(g, at, 2));
    if (weight != NULL) {
        if (weight->rank != 1) return op_error(op, "its weights have %d dimensions; they should have 1", weight->rank);
        g_require(g, weight->shape[0], x->shape[1]);
        used = g_gather_axis(g, g_cast(g, weight, wide), t, 0);
    } else if (ignored != NULL && each != NULL) {
        used = g_full(g, wide, each->rank, each->shape, g_int(1));
    }
    if (ignored != NULL) used = g_where(g, ignored, g_f(g, wide, 0), used);
    if (ignored != NULL) each = g_where(g, ignored, g_f(g, wide, 0), each);
    if (weight != NULL) each = g_ew2(g, EW_mul, each, used);
    if (each == NULL) return NULL;
    uint32_t all = (1u << each->rank) - 1;
    if (none) return g_cast(g, each, elem);
    if (!sum && used == NULL) return g_cast(g, g_mean(g, each, all, false), elem);
    Node *total = g_reduce(g, GR_sum, each, all, false);
    return g_cast(g, sum ? total : g_ew2(g, EW_div, total, g_reduce(g, GR_sum, used, all, false)), elem);
}

static Elem wide_of(const Node *x) { return x->elem == EL_f64 ? EL_f64 : EL_f32; }

static Node *lower_nll(Op *op) {
    Node *x = op_in(op, 0);
    return x != NULL ? loss(op, g_cast(op->g, x, wide_of(x)), op_in(op, 1), op_opt(op, 2), (Elem)x->elem) : NULL;
}

static Node *lower_cross_entropy(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    if (x == NULL) return NULL;
    if (x->rank < 2) return op_error(op, "needs a batch and classes; its input has %d dimensions", x->rank);
    Node *w = g_cast(g, x, wide_of(x));
    Node *shifted = g_ew2(g, EW_sub, w, g_reduce(g, GR_max, w, 2, true));
    Node *p = g_ew2(g, EW_sub, shifted, g_ew1(g, EW_log, g_reduce(g, GR_sum, g_ew1(g, EW_exp, shifted), 2, true)));
    if (op_wants(op, 1)) op_out(op, 1, g_cast(g, p, (Elem)x->elem));
    return loss(op, p, op_in(op, 1), op_opt(op, 2), (Elem)x->elem);
}

const OpRow ops_loss[] = {
    OP("NegativeLogLikelihoodLoss", 12, lower_nll), OP("SoftmaxCrossEntropyLoss", 12, lower_cross_entropy),
    {0},
};

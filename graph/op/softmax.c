// Softmax, LogSoftmax, Hardmax.
//
// Before opset 13 the input was seen as a matrix, cut before `axis` (1 if not given), and normalised over all that
// follows; from 13 on over one axis, the last if not given. Small floats are computed in f32.
#include "graph/op/op.h"

static bool axes_of(Op *op, const Node *x, uint32_t *axes) {
    bool old = op->version < 13;
    int axis = op_axis(op, x, "axis", old ? 1 : -1);
    if (x != NULL && x->rank == 0) return op_error(op, "needs a dimension"), false;
    if (axis < 0) return false;
    *axes = old ? ((1u << x->rank) - 1) & ~((1u << axis) - 1) : 1u << axis;
    return true;
}

static Node *lower_softmax(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    uint32_t axes;
    if (!axes_of(op, x, &axes)) return NULL;
    return g_cast(g, g_softmax(g, op_widen(g, x), axes), (Elem)x->elem);
}

static Node *lower_log_softmax(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    uint32_t axes;
    if (!axes_of(op, x, &axes)) return NULL;
    Node *wide = op_widen(g, x);
    Node *shifted = g_ew2(g, EW_sub, wide, g_reduce(g, GR_max, wide, axes, true));
    Node *sum = g_reduce(g, GR_sum, g_ew1(g, EW_exp, shifted), axes, true);
    return g_cast(g, g_ew2(g, EW_sub, shifted, g_ew1(g, EW_log, sum)), (Elem)x->elem);
}

// 1 at the first largest element, 0 elsewhere.
static Node *lower_hardmax(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    uint32_t axes;
    if (!axes_of(op, x, &axes)) return NULL;
    Node *flat = x;
    int axis = 0;
    while (!(axes >> axis & 1)) axis++;
    if (axes >> axis != 1u) { // several axes: as one
        Ix shape[G_MAX_RANK];
        for (int d = 0; d < axis; d++) shape[d] = x->shape[d];
        shape[axis] = ix_product(g, x->shape + axis, x->rank - axis);
        flat = g_reshape(g, x, axis + 1, shape);
    }
    if (flat == NULL) return NULL;
    Node *best = g_arg_reduce(g, GR_argmax, flat, axis, true, false);
    Node *hit = g_ew2(g, EW_eq, g_iota(g, EL_i64, flat->rank, flat->shape, axis), best);
    return g_reshape_like(g, g_cast(g, hit, (Elem)x->elem), x);
}

const OpRow ops_softmax[] = {
    OP("Softmax", 1, lower_softmax),
    OP("LogSoftmax", 1, lower_log_softmax),
    OP("Hardmax", 1, lower_hardmax),
    {0},
};

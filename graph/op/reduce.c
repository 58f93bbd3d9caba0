// Reductions, arg-reductions, cumulative sums.
//
// Axes are an attribute in old opsets and an input from 13 (ReduceSum) or 18 (the others) on; op_axes takes either. No
// axes means all, unless noop_with_empty_axes, which means none. What is computed before and after the sum is done in
// f32 for small floats, and rounded once.
#include "graph/op/op.h"

typedef enum Reduction {
    RED_SUM,
    RED_MEAN,
    RED_MAX,
    RED_MIN,
    RED_PROD,
    RED_L1,
    RED_L2,
    RED_LOG_SUM,
    RED_LOG_SUM_EXP,
    RED_SUM_SQUARE
} Reduction;

static Node *log_sum_exp(Graph *g, Node *x, uint32_t axes, bool keep) {
    Node *top = g_reduce(g, GR_max, x, axes, true);
    Node *finite = g_ew2(g, EW_eq, g_ew2(g, EW_sub, top, top), g_ew2(g, EW_sub, top, top)); // inf - inf is NaN
    Node *shift = top != NULL ? g_where(g, finite, top, g_f(g, (Elem)top->elem, 0)) : NULL;
    Node *sum = g_reduce(g, GR_sum, g_ew1(g, EW_exp, g_ew2(g, EW_sub, x, shift)), axes, keep);
    if (!keep && sum != NULL && shift != NULL) shift = g_reshape_like(g, shift, sum);
    return g_ew2(g, EW_add, g_ew1(g, EW_log, sum), shift);
}

static Node *reduction(Graph *g, Reduction r, Node *x, uint32_t axes, bool keep) {
    switch (r) {
    case RED_SUM: return g_reduce(g, GR_sum, x, axes, keep);
    case RED_MEAN: return g_mean(g, x, axes, keep);
    case RED_MAX: return g_reduce(g, GR_max, x, axes, keep);
    case RED_MIN: return g_reduce(g, GR_min, x, axes, keep);
    case RED_PROD: return g_reduce(g, GR_prod, x, axes, keep);
    case RED_L1: return g_reduce(g, GR_sum, g_ew1(g, EW_abs, x), axes, keep);
    case RED_SUM_SQUARE: return g_reduce(g, GR_sum, g_ew2(g, EW_mul, x, x), axes, keep);
    case RED_LOG_SUM: return g_ew1(g, EW_log, g_reduce(g, GR_sum, x, axes, keep));
    case RED_LOG_SUM_EXP: return log_sum_exp(g, x, axes, keep);
    case RED_L2: return g_ew1(g, EW_sqrt, g_reduce(g, GR_sum, g_ew2(g, EW_mul, x, x), axes, keep));
    }
    return NULL;
}

static Node *lower_reduce(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    uint32_t axes;
    bool given, keep = op_int(op, "keepdims", 1) != 0, formula = op->row >= RED_L1;
    if (!op_axes(op, x, 1, &axes, &given)) return NULL;
    bool none = given ? axes == 0 : true;
    if (none && op_int(op, "noop_with_empty_axes", 0) != 0)
        return formula ? reduction(g, (Reduction)op->row, x, 0, true) : x;
    if (none) axes = (1u << x->rank) - 1;
    Elem elem = (Elem)x->elem;
    bool boolean = elem == EL_bool,
         wide = formula && !boolean &&
                (elem_is_storage(elem) || (elem_is_int(elem) && op->row >= RED_L2 && op->row <= RED_LOG_SUM_EXP));
    if (boolean && op->row != RED_MAX && op->row != RED_MIN) return op_error(op, "does not take bool");
    if (boolean) return g_reduce(g, op->row == RED_MAX ? GR_any : GR_all, x, axes, keep);
    Node *y =
        reduction(g, (Reduction)op->row, wide ? g_cast(g, x, elem_is_int(elem) ? EL_f64 : EL_f32) : x, axes, keep);
    return wide ? g_cast(g, y, elem) : y;
}

static Node *lower_arg(Op *op) {
    Node *x = op_in(op, 0);
    int axis = op_axis(op, x, "axis", 0);
    bool keep = op_int(op, "keepdims", 1) != 0, last = op_int(op, "select_last_index", 0) != 0;
    return axis < 0 ? NULL : g_arg_reduce(op->g, (GReduce)op->row, x, axis, keep, last);
}

static Node *lower_cumulative(Op *op) {
    Node *x = op_in(op, 0);
    int64_t at;
    if (x == NULL || !op_known_int(op, 1, &at)) return NULL;
    int axis = g_axis(op->g, x, at);
    return axis < 0 ? NULL
                    : g_scan(op->g, (GReduce)op->row, x, axis, op_int(op, "exclusive", 0) != 0,
                             op_int(op, "reverse", 0) != 0);
}

// clang-format off
const OpRow ops_reduce[] = {
    OP_OF("ReduceSum",  1, lower_reduce, RED_SUM),   OP_OF("ReduceMean", 1, lower_reduce, RED_MEAN), OP_OF("ReduceMax", 1, lower_reduce, RED_MAX),
    OP_OF("ReduceMin",  1, lower_reduce, RED_MIN),   OP_OF("ReduceProd", 1, lower_reduce, RED_PROD), OP_OF("ReduceL1",  1, lower_reduce, RED_L1),
    OP_OF("ReduceL2",   1, lower_reduce, RED_L2),    OP_OF("ReduceLogSum", 1, lower_reduce, RED_LOG_SUM), OP_OF("ReduceLogSumExp", 1, lower_reduce, RED_LOG_SUM_EXP),
    OP_OF("ReduceSumSquare", 1, lower_reduce, RED_SUM_SQUARE),
    OP_OF("ArgMax",     1, lower_arg, GR_argmax),    OP_OF("ArgMin",     1, lower_arg, GR_argmin),
    OP_OF("CumSum",    11, lower_cumulative, GR_sum), OP_OF("CumProd",  26, lower_cumulative, GR_prod),
    {0},
};
// clang-format on

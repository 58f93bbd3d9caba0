// TopK: the first k of a sorted axis.
#include "graph/op/op.h"

static Node *lower_top_k(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *at;
    int axis = op_axis(op, x, "axis", -1), n = 0;
    if (axis < 0) return NULL;
    int64_t fixed = op_int(op, "k", -1);
    const Ix *k = op->version < 10 ? NULL : op_known(op, 1, &n);
    if (op->version >= 10 && k == NULL) return NULL;
    if (k != NULL && n != 1) return op_error(op, "its k should be one number, not %d", n);
    Ix count = k != NULL ? k[0] : ix(g, fixed), size = x->shape[axis];
    if (ix_is_const(count) && (count->value < 0 || (ix_is_const(size) && count->value > size->value)))
        return op_error(op, "its k is %lld, which does not fit axis %d", (long long)count->value, axis);
    Node *values = g_sort(g, x, axis, op_int(op, "largest", 1) != 0, &at);
    Node *positions = g_take_range(g, at, axis, ix(g, 0), 1, count);
    op_out(op, 1, positions);
    return g_take_range(g, values, axis, ix(g, 0), 1, count);
}

const OpRow ops_sort[] = {
    OP("TopK", 1, lower_top_k),
    {0},
};

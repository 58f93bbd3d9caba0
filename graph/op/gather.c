// Reading at indices: Gather, GatherElements, GatherND, Compress, OneHot.
#include "graph/op/op.h"

#include <math.h>

static Node *lower_gather(Op *op) {
    Node *x = op_in(op, 0);
    int axis = op_axis(op, x, "axis", 0);
    return axis < 0 ? NULL : g_gather_axis(op->g, x, op_in(op, 1), axis);
}

static Node *lower_gather_elements(Op *op) {
    Node *x = op_in(op, 0);
    int axis = op_axis(op, x, "axis", 0);
    return axis < 0 ? NULL : g_gather_elements(op->g, x, op_in(op, 1), axis);
}

static Node *lower_gather_nd(Op *op) {
    int64_t batch = op_int(op, "batch_dims", 0);
    Node *x = op_in(op, 0), *at = op_in(op, 1);
    if (x == NULL || at == NULL) return NULL;
    int least = x->rank < at->rank ? x->rank : at->rank;
    if (batch < 0 || batch >= least)
        return op_error(op, "attribute `batch_dims` is %lld, for %d and %d dimensions", (long long)batch, x->rank,
                        at->rank);
    return g_gather_nd(op->g, x, at, (int)batch);
}

// off everywhere, on at the index; an index out of range has none. Negative ones count from the end.
static Node *lower_one_hot(Op *op) {
    Graph *g = op->g;
    Node *at = op_in(op, 0), *values = op_in(op, 2);
    int n = 0;
    Ix size = NULL;
    if (at == NULL || values == NULL || op_in(op, 1) == NULL) return NULL;
    if (elem_is_float((Elem)op->in[1]->elem)) {
        const double *d = op_known_floats(op, 1, &n);
        if (d != NULL && n == 1) size = ix(g, (int64_t)fmin(fmax(d[0], 0), 0x1p40));
        else if (d == NULL) return NULL;
    } else {
        const Ix *d = op_known(op, 1, &n);
        if (d == NULL) return NULL;
        size = n > 0 ? d[0] : NULL;
    }
    if (n != 1) return op_error(op, "its depth should be one number, not %d", n);
    int64_t axis = op_int(op, "axis", -1);
    int rank = at->rank + 1;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || rank > G_MAX_RANK)
        return op_error(op, "its axis is out of range for %d dimensions", rank);
    if (values->rank != 1) return op_error(op, "its values should be a list of two");
    g_require(g, values->shape[0], ix(g, 2));
    Ix shape[G_MAX_RANK];
    for (int d = 0; d < rank; d++) shape[d] = d < axis ? at->shape[d] : d == axis ? size : at->shape[d - 1];
    Node *index = g_unsqueeze(g, g_wrap_index(g, g_cast(g, at, EL_i64), size), 1u << axis);
    Node *hit = g_ew2(g, EW_eq, g_iota(g, EL_i64, rank, shape, (int)axis), index);
    Node *off = g_squeeze(g, g_take_range(g, values, 0, ix(g, 0), 1, ix(g, 1)), 1),
         *on = g_squeeze(g, g_take_range(g, values, 0, ix(g, 1), 1, ix(g, 1)), 1);
    return g_where(g, hit, on, off);
}

const OpRow ops_gather[] = {
    OP("Gather", 1, lower_gather),
    OP("GatherElements", 11, lower_gather_elements),
    OP("GatherND", 11, lower_gather_nd),
    OP("OneHot", 9, lower_one_hot),
    {0},
};

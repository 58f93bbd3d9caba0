// Parts: Slice, Split, Concat, Trilu, ReverseSequence.
#include "graph/op/op.h"

static Node *slice_axis(Op *op, Node *x, int64_t axis, Ix start, Ix end, int64_t step) {
    Graph *g = op->g;
    int a = x != NULL ? g_axis(g, x, axis) : -1;
    if (a < 0) return NULL;
    if (step == 0) return op_error(op, "a step is 0");
    if (ix_is_const(start) && start->value <= INT32_MIN) start = step > 0 ? NULL : ix_muli(g, x->shape[a], -1);
    if (ix_is_const(end) && end->value >= INT32_MAX && step > 0) end = NULL; // "to the end"
    if (ix_is_const(end) && end->value <= INT32_MIN && step < 0) end = NULL;
    if (ix_is_const(start) && start->value >= INT32_MAX) {
        if (step < 0) start = NULL;
        else start = x->shape[a];
    }
    return g_slice(g, x, a, start, end, step);
}

static Node *lower_slice(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int n = 0, nends = 0, naxes = 0, nsteps = 0;
    if (op->version < 10) {
        const int64_t *starts = op_ints(op, "starts", &n), *ends = op_ints(op, "ends", &nends),
                      *axes = op_ints(op, "axes", &naxes);
        if (starts == NULL || ends == NULL || n != nends || (axes != NULL && naxes != n))
            return op_error(op, "its starts, ends and axes do not go together");
        for (int i = 0; i < n; i++)
            x = slice_axis(op, x, axes != NULL ? axes[i] : i, ix(g, starts[i]), ix(g, ends[i]), 1);
        return x;
    }
    const Ix *starts = op_known(op, 1, &n), *ends = op_known(op, 2, &nends);
    const int64_t *axes = op_opt(op, 3) != NULL ? op_known_ints(op, 3, &naxes) : NULL;
    const int64_t *steps = op_opt(op, 4) != NULL ? op_known_ints(op, 4, &nsteps) : NULL;
    if (starts == NULL || ends == NULL || (op_opt(op, 3) != NULL && axes == NULL) ||
        (op_opt(op, 4) != NULL && steps == NULL))
        return NULL;
    if (n != nends || (axes != NULL && naxes != n) || (steps != NULL && nsteps != n))
        return op_error(op, "its starts, ends, axes and steps do not go together");
    for (int i = 0; i < n; i++)
        x = slice_axis(op, x, axes != NULL ? axes[i] : i, starts[i], ends[i], steps != NULL ? steps[i] : 1);
    return x;
}

// Sizes by the attribute or input `split`; else as equal as can be, the last the rest.
static Node *lower_split(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int axis = op_axis(op, x, "axis", 0), n = 0;
    if (axis < 0) return NULL;
    bool by_input = op_opt(op, 1) != NULL;
    const Ix *known = by_input ? op_known(op, 1, &n) : NULL;
    const int64_t *sizes = by_input ? NULL : op_ints(op, "split", &n);
    if (by_input && known == NULL) return NULL;
    if ((known != NULL || sizes != NULL) && n != op->nout)
        return op_error(op, "has %d outputs and %d sizes", op->nout, n);
    int64_t parts = op_int(op, "num_outputs", op->nout);
    if (parts < op->nout || parts < 1)
        return op_error(op, "has %d outputs, but `num_outputs` is %lld", op->nout, (long long)parts);
    Ix at = ix(g, 0), total = x->shape[axis], part = ix_ceildiv(g, total, ix(g, parts));
    for (int i = 0; i < op->nout; i++) {
        Ix size = known != NULL   ? known[i]
                  : sizes != NULL ? ix(g, sizes[i])
                  : i + 1 < parts ? part
                                  : ix_sub(g, total, at);
        if (ix_is_const(size) && size->value < 0) return op_error(op, "output %d would have a negative size", i);
        op->out[i] = g_take_range(g, x, axis, at, 1, size);
        at = ix_add(g, at, size);
        if (ix_is_const(at) && ix_is_const(total) && at->value > total->value)
            return op_error(op, "its sizes are more than the %lld that there are", (long long)total->value);
    }
    if (known != NULL || sizes != NULL) g_require(g, at, total);
    return op->nout > 0 ? op->out[0] : NULL;
}

static Node *lower_concat(Op *op) {
    Graph *g = op->g;
    Node **src = NEW_N(g->arena, Node *, op->nin + 1);
    for (int i = 0; i < op->nin; i++)
        if ((src[i] = op_in(op, i)) == NULL) return NULL;
    if (op->nin == 0) return op_error(op, "has no inputs");
    if (op->version >= 4 && !op_given(op, "axis")) return op_error(op, "attribute `axis` is missing");
    int axis = op_axis(op, src[0], "axis", 1);
    return axis < 0 ? NULL : g_concat(g, axis, src, op->nin);
}

// What is on and above (upper) or below the diagonal k; zeros elsewhere.
static Node *lower_trilu(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    if (x == NULL) return NULL;
    if (x->rank < 2) return op_error(op, "needs 2 dimensions or more");
    Ix k = ix(g, 0);
    if (op_opt(op, 1) != NULL) {
        int n = 0;
        const Ix *at = op_known(op, 1, &n);
        if (at == NULL || n != 1) return at == NULL ? NULL : op_error(op, "its second input should be one number");
        k = at[0];
    }
    int r = x->rank - 2;
    Ix row = ix_axis(g, r, x->shape[r]), col = ix_axis(g, r + 1, x->shape[r + 1]), edge = ix_add(g, row, k),
       coord[G_MAX_RANK];
    for (int d = 0; d < x->rank; d++) coord[d] = ix_axis(g, d, x->shape[d]);
    bool upper = op_int(op, "upper", 1) != 0;
    return g_view(g, x, x->rank, x->shape, coord, upper ? ix_le(g, edge, col) : ix_le(g, col, edge), g_int(0));
}

// Along the time axis, the first lengths[b] of batch b are turned around: x[b, t] = x[b, t < len ? len - 1 - t : t].
static Node *lower_reverse_sequence(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *lengths = op_in(op, 1);
    int64_t batch_axis = op_int(op, "batch_axis", 1), time_axis = op_int(op, "time_axis", 0);
    if (x == NULL || !op_rank(op, lengths, 1, "its lengths")) return NULL;
    if (x->rank < 2 || (batch_axis != 0 && batch_axis != 1) || time_axis != 1 - batch_axis)
        return op_error(op, "its axes must be 0 and 1");
    int time = (int)time_axis, to[1] = {(int)batch_axis};
    Node *length = g_broadcast_to(g, g_cast(g, lengths, EL_i64), x->rank, x->shape, to),
         *t = g_iota(g, EL_i64, x->rank, x->shape, time);
    Node *turned = g_ew2f(g, EW_sub, g_ew2(g, EW_sub, length, t), 1);
    Node *at = g_where(g, g_ew2(g, EW_lt, t, length), turned, t);
    return g_gather_elements(g, x, at, time);
}

// clang-format off
const OpRow ops_slice[] = {
    OP("Slice", 1, lower_slice), OP("Split", 1, lower_split), OP("Concat", 1, lower_concat), OP("Trilu", 14, lower_trilu),
    OP("ReverseSequence", 10, lower_reverse_sequence),
    {0},
};
// clang-format on

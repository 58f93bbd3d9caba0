// Writing at indices: ScatterElements (and Scatter, its first name), ScatterND, TensorScatter.
#include "graph/op/op.h"

#include <string.h>

static bool reduction_of(Op *op, GReduce *out) {
    static const struct {
        const char *name;
        GReduce op;
    } names[] = {{"none", GR_none}, {"add", GR_sum}, {"mul", GR_prod}, {"max", GR_max}, {"min", GR_min}};
    const char *name = op_text(op, "reduction", "none");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) return *out = names[i].op, true;
    return op_error(op, "attribute `reduction` must be none, add, mul, max or min"), false;
}

static Node *lower_scatter_elements(Op *op) {
    Node *x = op_in(op, 0);
    GReduce how;
    int axis = op_axis(op, x, "axis", 0);
    return axis < 0 || !reduction_of(op, &how) ? NULL
                                               : g_scatter_elements(op->g, how, x, op_in(op, 1), op_in(op, 2), axis);
}

static Node *lower_scatter_nd(Op *op) {
    GReduce how;
    return reduction_of(op, &how) ? g_scatter_nd(op->g, how, op_in(op, 0), op_in(op, 1), op_in(op, 2)) : NULL;
}

// A cache [b, .., max, ..] in which `update` [b, .., n, ..] is written from write_indices[b] on, along `axis`;
// circular: modulo max.
static Node *lower_tensor_scatter(Op *op) {
    Graph *g = op->g;
    Node *past = op_in(op, 0), *update = op_in(op, 1), *from = op_opt(op, 2);
    int axis = op_axis(op, past, "axis", -2);
    bool circular = op_is(op, "mode", "linear", "circular");
    if (axis < 0 || update == NULL) return NULL;
    if (axis == 0 || update->rank != past->rank)
        return op_error(op, "its axis must not be the batch, and its update have as many dimensions as the cache");
    Ix coord[G_MAX_RANK];
    for (int d = 0; d < past->rank; d++) coord[d] = ix_axis(g, d, update->shape[d]);
    if (from == NULL) return g_scatter(g, GR_none, past, update, coord, NULL, 0, true);
    if (!op_rank(op, from, 1, "its indices")) return NULL;
    coord[axis] = NULL;
    int batch[1] = {0};
    Node *at = g_ew2(g, EW_add, g_broadcast_to(g, g_cast(g, from, EL_i64), update->rank, update->shape, batch),
                     g_iota(g, EL_i64, update->rank, update->shape, axis));
    if (circular) at = g_ew2(g, EW_mod, at, g_size(g, EL_i64, past->shape[axis]));
    return g_scatter(g, GR_none, past, update, coord, &at, 1, true);
}

const OpRow ops_scatter[] = {
    OP("Scatter", 9, lower_scatter_elements),
    OP("ScatterElements", 11, lower_scatter_elements),
    OP("ScatterND", 11, lower_scatter_nd),
    OP("TensorScatter", 24, lower_tensor_scatter),
    {0},
};

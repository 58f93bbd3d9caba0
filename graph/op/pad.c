// Pad: attribute `paddings` in opset 1, `pads` and `value` in 2, inputs from 11 on, `axes` from 18, mode wrap from 19.
#include "graph/op/op.h"

#include <string.h>

static Node *lower_pad(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    if (x == NULL) return NULL;
    const char *mode = op_text(op, "mode", "constant");
    static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
    int which = 0, n = 0, naxes = 0;
    while (which < 4 && strcmp(mode, modes[which]) != 0) which++;
    if (which == 4) return op_error(op, "attribute `mode` must be constant, edge, reflect or wrap");

    const Ix *pads = NULL;
    GNum fill = g_float(op_float(op, "value", 0));
    if (op->version < 11) {
        const int64_t *at = op_ints(op, op->version < 2 ? "paddings" : "pads", &n);
        if (at == NULL) return op_error(op, "attribute `pads` is missing");
        Ix *made = NEW_N(g->arena, Ix, n + 1);
        for (int i = 0; i < n; i++) made[i] = ix(g, at[i]);
        pads = made;
    } else {
        pads = op_known(op, 1, &n);
        if (pads == NULL) return NULL;
        if (op_opt(op, 2) != NULL && which == GP_constant) {
            Node *value = op_fold(op, op->in[2]);
            int count;
            const double *v = value == NULL || !g_scalar_value(value, &fill) ? op_known_floats(op, 2, &count) : NULL;
            if (value == NULL && v == NULL) return NULL;
            if (v != NULL) fill = g_float(v[0]);
        }
    }
    const int64_t *axes = op_opt(op, 3) != NULL ? op_known_ints(op, 3, &naxes) : NULL;
    if (op_opt(op, 3) != NULL && axes == NULL) return NULL;
    if (axes == NULL) naxes = x->rank;
    if (n != 2 * naxes) return op_error(op, "has %d pads for %d axes", n, naxes);
    Ix before[G_MAX_RANK], after[G_MAX_RANK];
    for (int d = 0; d < x->rank; d++) before[d] = after[d] = ix(g, 0);
    for (int i = 0; i < naxes; i++) {
        int d = axes != NULL ? g_axis(g, x, axes[i]) : i;
        if (d < 0) return NULL;
        before[d] = pads[i];
        after[d] = pads[naxes + i];
    }
    return g_pad(g, x, before, after, (GPad)which, fill);
}

const OpRow ops_pad[] = {
    OP("Pad", 1, lower_pad),
    {0},
};

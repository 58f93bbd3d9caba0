// Where windows go: attributes of convolutions and pools, and the views that they come down to.
#include "graph/op/window.h"

enum { FAR = 1 << 24 };                // of kernels, strides, dilations, pads

static bool numbers(Op *op, const char *name, int n, int64_t least, int64_t otherwise, int64_t *to) {
    int have = 0;
    const int64_t *at = op_ints(op, name, &have);
    if (at != NULL && have != n)
        return op_error(op, "attribute `%s` has %d numbers; it should have %d", name, have, n), false;
    for (int i = 0; i < n; i++) {
        to[i] = at != NULL ? at[i] : otherwise;
        if (to[i] < least || to[i] > FAR)
            return op_error(op, "attribute `%s` has %lld among its numbers", name, (long long)to[i]), false;
    }
    return g_failed(op->g) == NULL;
}

bool op_pads(Op *op, int n, int64_t *pads) { return numbers(op, "pads", 2 * n, -FAR, 0, pads); }

bool op_window_shape(Op *op, int n, const Ix *kernel, OpWindow *w) {
    if (n < 1 || n > MAX_SPATIAL)
        return op_error(op, "moves windows over %d axes; 1 to %d are supported", n, MAX_SPATIAL), false;
    *w = (OpWindow){.n = n};
    bool given = op_given(op, "kernel_shape");
    if (kernel == NULL && !given) return op_error(op, "attribute `kernel_shape` is missing"), false;
    if (given && !numbers(op, "kernel_shape", n, 1, 1, w->kernel)) return false;
    for (int i = 0; i < n && kernel != NULL; i++) {
        int64_t size;
        if (!op_fixed(op, kernel[i], &size)) return false;
        if (size < 1 || size > FAR) return op_error(op, "its weights have a window of size %lld", (long long)size), false;
        if (given && size != w->kernel[i])
            return op_error(op, "attribute `kernel_shape` says %lld, but the weights have %lld",
                            (long long)w->kernel[i], (long long)size),
                   false;
        w->kernel[i] = size;
    }
    for (int i = 0; i < n; i++) w->kernel_ix[i] = ix(op->g, w->kernel[i]);
    return numbers(op, "strides", n, 1, 1, w->stride) && numbers(op, "dilations", n, 1, 1, w->dilation);
}

// Places for windows over `padded` elements. With ceil_mode also one that begins inside but ends outside; the last one can begin outside only where steps and
// padding behind are longer than a window.
static Ix places(Graph *g, Ix begun, const OpWindow *w, int i, bool ceil) {
    Ix padded = ix_add(g, begun, w->after[i]);
    Ix room = ix_addi(g, padded, -op_window_span(w, i)), stride = ix(g, w->stride[i]);
    if (!ceil) return ix_addi(g, ix_div(g, room, stride), 1);
    Ix out = ix_addi(g, ix_ceildiv(g, room, stride), 1);
    if (ix_prove_le(g, ix_add(g, w->after[i], stride), ix(g, op_window_span(w, i)))) return out;
    return ix_sub(g, out, ix_le(g, begun, ix_mul(g, ix_addi(g, out, -1), stride)));
}

bool op_window(Op *op, Node *x, const Ix *kernel, OpWindow *w) {
    Graph *g = op->g;
    int64_t pads[2 * MAX_SPATIAL];
    if (x == NULL) return false;
    if (x->rank < 3)
        return op_error(op, "needs a batch, channels, and an axis to move over; its input has %d dimensions", x->rank),
               false;
    if (!op_window_shape(op, x->rank - 2, kernel, w) || !op_pads(op, w->n, pads)) return false;
    bool valid = op_is(op, "auto_pad", "NOTSET", "VALID"), lower = op_is(op, "auto_pad", "NOTSET", "SAME_LOWER");
    bool same = lower || op_is(op, "auto_pad", "NOTSET", "SAME_UPPER"), ceil = op_int(op, "ceil_mode", 0) != 0;
    if (!valid && !same && !op_is(op, "auto_pad", "NOTSET", "NOTSET") && !op_is(op, "auto_pad", "NOTSET", ""))
        return op_error(op, "attribute `auto_pad` must be NOTSET, SAME_UPPER, SAME_LOWER or VALID"), false;
    for (int i = 0; i < w->n; i++) {
        Ix in = x->shape[2 + i];
        if (same) {
            w->out[i] = ix_ceildiv(g, in, ix(g, w->stride[i]));
            Ix covered = ix_addi(g, ix_muli(g, ix_addi(g, w->out[i], -1), w->stride[i]), op_window_span(w, i));
            Ix total = ix_max(g, ix_sub(g, covered, in), ix(g, 0)), half = ix_divi(g, total, 2);
            w->before[i] = lower ? ix_sub(g, total, half) : half;
            w->after[i] = ix_sub(g, total, w->before[i]);
        } else {
            w->before[i] = ix(g, valid ? 0 : pads[i]);
            w->after[i] = ix(g, valid ? 0 : pads[w->n + i]);
            Ix begun = ix_add(g, in, w->before[i]);
            w->out[i] = places(g, begun, w, i, ceil && !valid);
        }
        if (w->out[i] == NULL) return false;
        if (w->out[i]->hi < 1)
            return op_error(op, "its window is larger than axis %d of its input with the padding", 2 + i), false;
    }
    return g_failed(g) == NULL;
}

Node *op_windows(Op *op, Node *x, int first, const OpWindow *w, GNum fill) {
    return g_windows(op->g, x, first, w->n, w->out, w->kernel_ix, w->stride, w->dilation, w->before, fill);
}

Node *op_spread(Op *op, Node *x, int first, const OpWindow *w) {
    Graph *g = op->g;
    if (x == NULL) return NULL;
    int rank = x->rank + w->n;
    if (rank > G_MAX_RANK) return op_error(op, "has too many dimensions");
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], pred = ix(g, 1);
    for (int d = 0; d < rank; d++)
        shape[d] = d >= x->rank                     ? w->kernel_ix[d - x->rank]
                   : d >= first && d < first + w->n ? w->out[d - first]
                                                    : x->shape[d];
    for (int d = 0; d < x->rank; d++) coord[d] = ix_axis(g, d, shape[d]);
    for (int i = 0; i < w->n; i++) {
        Ix k = ix_axis(g, x->rank + i, shape[x->rank + i]);
        Ix from = ix_sub(g, ix_add(g, coord[first + i], w->before[i]), ix_muli(g, k, w->dilation[i]));
        coord[first + i] = ix_divi(g, from, w->stride[i]);
        pred = ix_and(g, pred,
                      ix_and(g, ix_eq(g, ix_modi(g, from, w->stride[i]), ix(g, 0)),
                             ix_in_range(g, coord[first + i], x->shape[first + i])));
    }
    return g_view(g, x, rank, shape, coord, pred, g_int(0));
}

Node *op_sized(Op *op, Node *x, int axis, Ix size) {
    Graph *g = op->g;
    if (x == NULL || size == NULL || x->shape[axis] == size) return x;
    g_require(g, x->shape[axis], size);
    if (g_failed(g) != NULL || !ix_is_const(size)) return g_failed(g) != NULL ? NULL : x;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (int d = 0; d < x->rank; d++) shape[d] = d == axis ? size : x->shape[d];
    for (int d = 0; d < x->rank; d++) coord[d] = ix_axis(g, d, shape[d]);
    return g_view(g, x, x->rank, shape, coord, NULL, g_int(0));
}

Node *op_bias(Op *op, Node *y, Node *bias) {
    Graph *g = op->g;
    if (y == NULL || bias == NULL) return y;
    if (bias->rank != 1) return op_error(op, "its bias has %d dimensions; it should have 1", bias->rank);
    Node *wide = g_broadcast_to(g, g_cast(g, bias, (Elem)y->elem), y->rank, y->shape, (int[]){1});
    return g_ew2(g, EW_add, y, wide);
}

// Other shapes for the same elements: Reshape, Flatten, Squeeze, Unsqueeze, Expand, Tile, Transpose, space and depth;
// and sizes as values: Shape, Size.
#include "graph/op/op.h"

#include <math.h>

// A shape as ONNX writes it: 0 is the size that x has there (unless allowzero), -1 what is left.
static Node *reshape(Op *op, Node *x, const Ix *to, int n, bool allow_zero) {
    Graph *g = op->g;
    if (x == NULL || to == NULL) return NULL;
    if (n > G_MAX_RANK) return op_error(op, "asks for %d dimensions; %d are supported", n, G_MAX_RANK);
    Ix shape[G_MAX_RANK], known = ix(g, 1);
    int left = -1;
    for (int d = 0; d < n; d++) {
        shape[d] = to[d];
        if (ix_is(to[d], 0) && !allow_zero) {
            if (d >= x->rank)
                return op_error(op, "dimension %d of the new shape is 0, but its input has only %d", d, x->rank);
            shape[d] = x->shape[d];
        }
        if (ix_is(shape[d], -1)) {
            if (left >= 0) return op_error(op, "two dimensions of the new shape are -1");
            left = d;
        } else if (ix_is_const(shape[d]) && shape[d]->value < 0) {
            return op_error(op, "a dimension of the new shape is %lld", (long long)shape[d]->value);
        } else {
            known = ix_mul(g, known, shape[d]);
        }
    }
    if (left >= 0) {
        Ix all = g_count(g, x), rest = ix_divide_exact(g, all, known);
        if (rest == NULL && ix_is_const(all) && ix_is_const(known))
            return op_error(op, "%lld elements do not divide into %lld", (long long)all->value,
                            (long long)known->value);
        if (ix_is(known, 0)) return op_error(op, "a dimension of the new shape is -1, and another 0");
        shape[left] = rest != NULL ? rest : ix_div(g, all, known);
    }
    return g_reshape(g, x, n, shape);
}

static Node *lower_reshape(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int n = 0;
    if (op->version >= 5) {
        const Ix *to = op_known(op, 1, &n);
        return reshape(op, x, to, n, op_int(op, "allowzero", 0) != 0);
    }
    const int64_t *to = op_ints(op, "shape", &n);
    if (to == NULL || n > G_MAX_RANK) return op_error(op, "attribute `shape` is missing or has too many dimensions");
    Ix shape[G_MAX_RANK];
    for (int d = 0; d < n; d++) shape[d] = ix(g, to[d]);
    return reshape(op, x, shape, n, false);
}

static Node *lower_flatten(Op *op) {
    Node *x = op_in(op, 0);
    if (x == NULL) return NULL;
    int64_t axis = op_int(op, "axis", 1);
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis > x->rank)
        return op_error(op, "axis %lld is out of range for %d dimensions", (long long)axis, x->rank);
    Ix shape[2] = {ix_product(op->g, x->shape, (int)axis), ix_product(op->g, x->shape + axis, x->rank - (int)axis)};
    return g_reshape(op->g, x, 2, shape);
}

static Node *lower_squeeze(Op *op) {
    Node *x = op_in(op, 0);
    uint32_t axes;
    bool given;
    if (!op_axes(op, x, 1, &axes, &given)) return NULL;
    for (int d = 0; d < x->rank && !given; d++) {
        if (ix_is(x->shape[d], 1)) axes |= 1u << d;
        else if (!ix_is_const(x->shape[d])) { // whether it goes is a question of its size
            int64_t size;
            if (!op_fixed(op, x->shape[d], &size)) return NULL;
            if (size == 1) axes |= 1u << d;
        }
    }
    return g_squeeze(op->g, x, axes);
}

static Node *lower_unsqueeze(Op *op) {
    Node *x = op_in(op, 0);
    int n = 0;
    const int64_t *at = op->version < 13 ? op_ints(op, "axes", &n) : op_known_ints(op, 1, &n);
    if (at == NULL && op->version < 13) return op_error(op, "attribute `axes` is missing");
    if (at == NULL || x == NULL) return NULL;
    int rank = x->rank + n;
    if (rank > G_MAX_RANK) return op_error(op, "its result has %d dimensions; %d are supported", rank, G_MAX_RANK);
    uint32_t axes = 0;
    for (int i = 0; i < n; i++) {
        int64_t axis = at[i] < 0 ? at[i] + rank : at[i];
        if (axis < 0 || axis >= rank || (axes >> axis & 1))
            return op_error(op, "axis %lld is out of range for %d dimensions, or twice there", (long long)at[i], rank);
        axes |= 1u << axis;
    }
    return g_unsqueeze(op->g, x, axes);
}

// Expand broadcasts both ways: a size of 1 in the shape keeps x's.
static Node *lower_expand(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int n = 0;
    const Ix *to = op_known(op, 1, &n);
    if (x == NULL || to == NULL) return NULL;
    int rank = n > x->rank ? n : x->rank;
    if (rank > G_MAX_RANK) return op_error(op, "asks for %d dimensions; %d are supported", rank, G_MAX_RANK);
    Ix shape[G_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        int of_x = d - (rank - x->rank), of_to = d - (rank - n);
        Ix a = of_x >= 0 ? x->shape[of_x] : ix(g, 1), b = of_to >= 0 ? to[of_to] : ix(g, 1);
        bool one = ix_is(b, 1) || (!ix_is_const(b) && b->hi == 1);          // min(N, 1), of a slice: N is not 0
        if (one) g_require(g, b, ix(g, 1));
        shape[d] = one ? a : b;
    }
    return g_expand(g, x, rank, shape);
}

static Node *lower_tile(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int n = 0;
    Ix repeats[G_MAX_RANK];
    if (x == NULL) return NULL;
    if (op->version < 6) { // so many times, along one axis
        int ntiles = 0, naxis = 0;                          // of the input's type
        const double *tiles = op_known_floats(op, 1, &ntiles), *axis = op_known_floats(op, 2, &naxis);
        if (tiles == NULL || axis == NULL) return NULL;
        if (ntiles != 1 || naxis != 1 || !(tiles[0] >= 0 && tiles[0] < 0x1p40 && fabs(axis[0]) < 64))
            return op_error(op, "should have one number of tiles and one axis");
        int a = g_axis(g, x, (int64_t)axis[0]);
        for (int d = 0; d < x->rank; d++) repeats[d] = ix(g, d == a ? (int64_t)tiles[0] : 1);
        return a < 0 ? NULL : g_tile(g, x, repeats);
    }
    const Ix *at = op_known(op, 1, &n);
    if (at == NULL) return NULL;
    if (n != x->rank) return op_error(op, "has %d repeats for %d dimensions", n, x->rank);
    return g_tile(g, x, at);
}

static Node *lower_transpose(Op *op) {
    Node *x = op_in(op, 0);
    int n = 0, perm[G_MAX_RANK];
    const int64_t *at = op_ints(op, "perm", &n);
    if (x == NULL) return NULL;
    if (at != NULL && n != x->rank) return op_error(op, "attribute `perm` has %d axes for %d dimensions", n, x->rank);
    uint32_t seen = 0;
    for (int d = 0; d < x->rank; d++) {
        int64_t axis = at == NULL ? x->rank - 1 - d : at[d];
        if (axis < 0 || axis >= x->rank || (seen >> axis & 1))
            return op_error(op, "attribute `perm` is no permutation of the %d axes", x->rank);
        seen |= 1u << axis;
        perm[d] = (int)axis;
    }
    return g_transpose(op->g, x, x->rank, perm);
}

// [n, c, h, w] and blocks of b x b: depth to space [n, c / b / b, h * b, w * b], and back.
static Node *lower_depth_to_space(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int64_t b = op_int(op, "blocksize", 0);
    bool crd = op_is(op, "mode", "DCR", "CRD");
    if (x == NULL) return NULL;
    if (x->rank != 4 || b < 1 || b > 1 << 15) return op_error(op, "needs 4 dimensions and a positive `blocksize`");
    const Ix *s = x->shape;
    Ix B = ix(g, b), c = ix_divide_exact(g, s[1], ix(g, b * b));
    if (c == NULL)
        return op_error(op, "its channels do not divide by the square of `blocksize`, %lld", (long long)(b * b));
    Ix split[6] = {s[0], crd ? c : B, B, crd ? B : c, s[2], s[3]};
    Ix shape[4] = {s[0], c, ix_mul(g, s[2], B), ix_mul(g, s[3], B)};
    static const int dcr[] = {0, 3, 4, 1, 5, 2}, crd_perm[] = {0, 1, 4, 2, 5, 3};
    return g_reshape(g, g_transpose(g, g_reshape(g, x, 6, split), 6, crd ? crd_perm : dcr), 4, shape);
}

static Node *lower_space_to_depth(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int64_t b = op_int(op, "blocksize", 0);
    if (x == NULL) return NULL;
    if (x->rank != 4 || b < 1 || b > 1 << 15) return op_error(op, "needs 4 dimensions and a positive `blocksize`");
    const Ix *s = x->shape;
    Ix B = ix(g, b), h = ix_divide_exact(g, s[2], B), w = ix_divide_exact(g, s[3], B);
    if (h == NULL || w == NULL)
        return op_error(op, "its height and width do not divide by `blocksize`, %lld", (long long)b);
    Ix split[6] = {s[0], s[1], h, B, w, B}, shape[4] = {s[0], ix_muli(g, s[1], b * b), h, w};
    static const int dcr[] = {0, 3, 5, 1, 2, 4}, crd[] = {0, 1, 3, 5, 2, 4};
    return g_reshape(g, g_transpose(g, g_reshape(g, x, 6, split), 6, op_is(op, "mode", "DCR", "CRD") ? crd : dcr), 4,
                     shape);
}

static Node *lower_shape(Op *op) {
    Node *x = op_in(op, 0);
    if (x == NULL) return NULL;
    int64_t start = op_int(op, "start", 0), end = op_int(op, "end", x->rank);
    if (start < 0) start += x->rank;
    if (end < 0) end += x->rank;
    start = start < 0 ? 0 : start > x->rank ? x->rank : start;
    end = end < start ? start : end > x->rank ? x->rank : end;
    return g_shape_vec(op->g, (int)(end - start), x->shape + start);
}

static Node *lower_size(Op *op) {
    Node *x = op_in(op, 0);
    return x != NULL ? g_size(op->g, EL_i64, g_count(op->g, x)) : NULL;
}

// clang-format off
const OpRow ops_shape[] = {
    OP("Reshape", 1, lower_reshape), OP("Flatten",   1, lower_flatten),   OP("Squeeze", 1, lower_squeeze), OP("Unsqueeze", 1, lower_unsqueeze),
    OP("Expand",  8, lower_expand),  OP("Tile",      1, lower_tile),      OP("Transpose", 1, lower_transpose), OP("Shape",   1, lower_shape),
    OP("Size",    1, lower_size),    OP("DepthToSpace", 1, lower_depth_to_space), OP("SpaceToDepth", 1, lower_space_to_depth),
    {0},
};
// clang-format on

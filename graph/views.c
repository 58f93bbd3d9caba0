// The builders whose result is a view: reshape, transpose, slice, expand, pad, windows. Each says where an element of the
// result comes from; g_view does the rest.
//
// Reshape never linearises more than it must. The sizes on both sides are walked together, and as soon as their products
// agree, that segment is done: [B, S, 12 * 64] to [B, S, 12, 64] is an identity on two axes and a split of the third.

#include "graph/internal.h"

static Ix axis_of(Graph *g, const Ix *shape, int i) { return ix_axis(g, i, shape[i]); }

static void axes_of(Graph *g, const Node *x, Ix *coord) {
    for (int i = 0; i < x->rank; i++) coord[i] = axis_of(g, x->shape, i);
}

// ---- reshape --------------------------------------------------------------------------------------------------------

static void say_shape(Buf *b, Graph *g, int rank, const Ix *shape) {
    buf_putc(b, '[');
    for (int i = 0; i < rank; i++) {
        if (i) buf_puts(b, ", ");
        ix_print(b, g, shape[i], NULL);
    }
    buf_putc(b, ']');
}

static Node *cannot(Graph *g, const char *what, int r1, const Ix *s1, int r2, const Ix *s2) {
    Buf b = {0};
    say_shape(&b, g, r1, s1);
    buf_puts(&b, " to ");
    say_shape(&b, g, r2, s2);
    g_error(g, "cannot %s %s", what, b.p);
    buf_free(&b);
    return NULL;
}

// The size that -1 stands for.
static Ix left_over(Graph *g, Ix total, Ix others) {
    if (ix_is(others, 0)) return ix(g, 0);
    Ix q = ix_divide_exact(g, total, others);
    if (q || (ix_is_const(total) && ix_is_const(others))) return q;
    q = ix_div(g, total, others);
    g_require(g, ix_mul(g, q, others), total);
    return q;
}

typedef struct Side { const Ix *size; int n, at; Ix product; } Side;

static void take(Graph *g, Side *s) { s->product = ix_mul(g, s->product, s->size[s->at++]); }

// Coordinates of the source axes [s0, s1) from the result's axes [d0, d1), which have as many elements.
static void segment(Graph *g, const Ix *src, int s0, int s1, const Ix *dst, int d0, int d1, Ix *coord) {
    Ix linear = ix(g, 0), stride = ix(g, 1);
    for (int i = d1; i-- > d0; stride = ix_mul(g, stride, dst[i]))
        linear = ix_add(g, linear, ix_mul(g, axis_of(g, dst, i), stride));
    for (int i = s1; i-- > s0;) {
        bool first = i == s0;
        coord[i] = first ? linear : ix_mod(g, linear, src[i]);
        if (!first) linear = ix_div(g, linear, src[i]);
    }
}

static bool shorter(Graph *g, const Side *a, const Side *b) {  // does a need more factors to become b
    if (a->at == a->n) return false;
    if (b->at == b->n || ix_divide_exact(g, b->product, a->product)) return true;
    if (ix_divide_exact(g, a->product, b->product)) return false;
    return ix_prove_lt(g, a->product, b->product) || a->n - a->at >= b->n - b->at;
}

Node *g_reshape(Graph *g, Node *x, int rank, const Ix *shape_in) {
    if (!x || any_null_ix(shape_in, rank)) return NULL;
    if (rank > G_MAX_RANK) return g_error(g, "a value has %d dimensions; the most is %d", rank, G_MAX_RANK);
    Ix shape[G_MAX_RANK], total = g_count(g, x), others = ix(g, 1), coord[G_MAX_RANK];
    int free_axis = -1;
    for (int i = 0; i < rank; i++) {
        shape[i] = shape_in[i];
        if (ix_is(shape[i], -1) && free_axis >= 0) return cannot(g, "reshape", x->rank, x->shape, rank, shape_in);
        if (ix_is(shape[i], -1)) free_axis = i;
        else if (shape[i]->hi < 0) return cannot(g, "reshape", x->rank, x->shape, rank, shape_in);
        else others = ix_mul(g, others, shape[i]);
    }
    if (!total || !others) return NULL;
    if (free_axis >= 0) {
        shape[free_axis] = left_over(g, total, others);
        if (!shape[free_axis]) return cannot(g, "reshape", x->rank, x->shape, rank, shape_in);
        others = ix_mul(g, others, shape[free_axis]);
    }
    if (!others) return NULL;
    if (ix_is(ix_eq(g, total, others), 0)) return cannot(g, "reshape", x->rank, x->shape, rank, shape_in);
    g_require(g, others, total);
    if (g_failed(g)) return NULL;
    Ix zero = ix(g, 0), one = ix(g, 1);
    Side s = {x->shape, x->rank, 0, one}, d = {shape, rank, 0, one};
    for (int i = 0; i < x->rank; i++) coord[i] = zero;
    if (ix_is(total, 0)) return g_view(g, x, rank, shape, coord, NULL, g_int(0));
    while (s.at < s.n || d.at < d.n) {
        int s0 = s.at, d0 = d.at;
        s.product = d.product = one;
        if (s.at < s.n) take(g, &s);
        if (d.at < d.n) take(g, &d);
        while (s.product != d.product && (s.at < s.n || d.at < d.n)) take(g, shorter(g, &s, &d) ? &s : d.at < d.n ? &d : &s);
        segment(g, x->shape, s0, s.at, shape, d0, d.at, coord);
    }
    return g_view(g, x, rank, shape, coord, NULL, g_int(0));
}

Node *g_reshape_like(Graph *g, Node *x, Node *like) {
    return x && like ? g_reshape(g, x, like->rank, like->shape) : NULL;
}

Node *g_squeeze(Graph *g, Node *x, uint32_t axes) {
    if (!x) return NULL;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->rank; i++) {
        coord[i] = ix(g, 0);
        if (axes >> i & 1) {
            g_require(g, x->shape[i], ix(g, 1));
            continue;
        }
        shape[rank] = x->shape[i];
        coord[i] = axis_of(g, shape, rank++);
    }
    return g_failed(g) ? NULL : g_view(g, x, rank, shape, coord, NULL, g_int(0));
}

Node *g_unsqueeze(Graph *g, Node *x, uint32_t axes) {
    if (!x) return NULL;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    int rank = x->rank + __builtin_popcount(axes), from = 0;
    if (rank > G_MAX_RANK) return g_error(g, "a value has %d dimensions; the most is %d", rank, G_MAX_RANK);
    if (axes >> rank) return g_error(g, "no axis to insert at that place: the result has %d dimensions", rank);
    for (int i = 0; i < rank; i++) {
        bool added = axes >> i & 1;
        shape[i] = added ? ix(g, 1) : x->shape[from];
        if (!added) coord[from++] = axis_of(g, shape, i);
    }
    return g_view(g, x, rank, shape, coord, NULL, g_int(0));
}

// ---- transpose, expand ----------------------------------------------------------------------------------------------

Node *g_transpose(Graph *g, Node *x, int rank, const int *perm) {
    if (!x) return NULL;
    if (x->rank != rank) return g_error(g, "a value has %d dimensions; an order is given for %d", x->rank, rank);
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK] = {0};
    for (int i = 0; i < x->rank; i++) {
        if (perm[i] < 0 || perm[i] >= x->rank || coord[perm[i]]) return g_error(g, "not a permutation of %d axes", x->rank);
        shape[i] = x->shape[perm[i]];
        coord[perm[i]] = axis_of(g, shape, i);
    }
    return g_view(g, x, x->rank, shape, coord, NULL, g_int(0));
}

Node *g_broadcast_to(Graph *g, Node *x, int rank, const Ix *shape, const int *axis) {
    if (!x || any_null_ix(shape, rank)) return NULL;
    Ix coord[G_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        int to = axis ? axis[i] : rank - x->rank + i;
        if (to < 0 || to >= rank) return cannot(g, "broadcast", x->rank, x->shape, rank, shape);
        coord[i] = ix_is(x->shape[i], 1) ? ix(g, 0) : axis_of(g, shape, to);
        if (ix_is(x->shape[i], 1)) continue;
        if (ix_is(ix_eq(g, x->shape[i], shape[to]), 0)) return cannot(g, "broadcast", x->rank, x->shape, rank, shape);
        g_require(g, x->shape[i], shape[to]);
    }
    return g_failed(g) ? NULL : g_view(g, x, rank, shape, coord, NULL, g_int(0));
}

// One size against another: 1 gives way, others must be equal. NULL and no message: they cannot be.
static Ix broadcast_size(Graph *g, Ix a, Ix b) {
    if (a == b || ix_is(b, 1)) return a;
    if (ix_is(a, 1)) return b;
    if (ix_is(ix_eq(g, a, b), 0)) return NULL;
    g_require(g, a, b);
    return ix_is_const(b) ? b : a;
}

bool g_broadcast_shape(Graph *g, Node *const *src, int n, int *rank, Ix *shape) {
    if (any_null_node(src, n)) return false;
    *rank = 0;
    for (int k = 0; k < n; k++)
        if (src[k]->rank > *rank) *rank = src[k]->rank;
    for (int i = 0; i < *rank; i++) shape[i] = ix(g, 1);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < src[k]->rank; i++) {
            Ix *to = &shape[*rank - src[k]->rank + i];
            *to = broadcast_size(g, *to, src[k]->shape[i]);
            if (*to) continue;
            cannot(g, "broadcast shapes that differ:", src[0]->rank, src[0]->shape, src[k]->rank, src[k]->shape);
            return false;
        }
    return !g_failed(g);
}

Node *g_expand(Graph *g, Node *x, int rank, const Ix *shape) {
    if (!x || any_null_ix(shape, rank)) return NULL;
    Ix full[G_MAX_RANK];
    int r = rank > x->rank ? rank : x->rank;
    if (r > G_MAX_RANK) return g_error(g, "a value has %d dimensions; the most is %d", r, G_MAX_RANK);
    for (int i = 0; i < r; i++) {
        Ix a = i < r - x->rank ? ix(g, 1) : x->shape[i - (r - x->rank)], b = i < r - rank ? ix(g, 1) : shape[i - (r - rank)];
        full[i] = broadcast_size(g, a, b);
        if (!full[i]) return cannot(g, "expand", x->rank, x->shape, rank, shape);
    }
    return g_broadcast_to(g, x, r, full, NULL);
}

Node *g_tile(Graph *g, Node *x, const Ix *repeats) {
    if (!x || any_null_ix(repeats, x->rank)) return NULL;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        if (repeats[i]->hi < 0) return g_error(g, "a negative number of repeats");
        shape[i] = ix_mul(g, x->shape[i], repeats[i]);
        if (!shape[i]) return NULL;
        coord[i] = ix_mod(g, axis_of(g, shape, i), x->shape[i]);
    }
    return g_view(g, x, x->rank, shape, coord, NULL, g_int(0));
}

// ---- ranges ---------------------------------------------------------------------------------------------------------

Node *g_take_range(Graph *g, Node *x, int axis, Ix start, int64_t step, Ix size) {
    if (!x || !start || !size || (axis = g_axis(g, x, axis)) < 0) return NULL;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (int i = 0; i < x->rank; i++) shape[i] = i == axis ? size : x->shape[i];
    for (int i = 0; i < x->rank; i++) coord[i] = axis_of(g, shape, i);
    coord[axis] = ix_add(g, start, ix_muli(g, coord[axis], step));
    return g_view(g, x, x->rank, shape, coord, NULL, g_int(0));
}

// A bound of a slice: from the end if negative, within lo .. hi.
static Ix slice_bound(Graph *g, Ix at, Ix extent, Ix lo, Ix hi) {
    int64_t v, far = INT64_C(1) << 40;                       // exporters write INT64_MAX for the end
    if (ix_const(at, &v) && (v > far || v < -far)) at = ix(g, v > 0 ? far : -far);
    if (at->hi < 0) at = ix_add(g, at, extent);
    else if (!ix_prove_ge0(g, at)) at = ix_add(g, at, ix_mul(g, ix_lt(g, at, ix(g, 0)), extent));
    return ix_min(g, ix_max(g, at, lo), hi);
}

Node *g_slice(Graph *g, Node *x, int axis, Ix start, Ix end, int64_t step) {
    if (!x) return NULL;
    if (step == 0) return g_error(g, "a slice with step 0");
    if (step == INT64_MIN) step++;
    Ix n = x->shape[axis], zero = ix(g, 0), last = ix_addi(g, n, -1), before = ix(g, -1);
    Ix lo = step > 0 ? zero : before, hi = step > 0 ? n : last;
    Ix from = start ? slice_bound(g, start, n, lo, hi) : step > 0 ? zero : last;
    Ix to = end ? slice_bound(g, end, n, lo, hi) : step > 0 ? n : before;
    Ix span = step > 0 ? ix_sub(g, to, from) : ix_sub(g, from, to);
    Ix size = ix_max(g, zero, ix_ceildiv(g, span, ix(g, step > 0 ? step : -step)));
    return g_take_range(g, x, axis, from, step, size);
}

Node *g_flip(Graph *g, Node *x, uint32_t axes) {
    if (!x) return NULL;
    Ix coord[G_MAX_RANK];
    axes_of(g, x, coord);
    for (int i = 0; i < x->rank; i++)
        if (axes >> i & 1) coord[i] = ix_sub(g, ix_addi(g, x->shape[i], -1), coord[i]);
    return g_view(g, x, x->rank, x->shape, coord, NULL, g_int(0));
}

// ---- padding --------------------------------------------------------------------------------------------------------

static Ix absolute(Graph *g, Ix e) { return ix_max(g, e, ix_muli(g, e, -1)); }

// c, which may be out of 0 .. n-1, as a coordinate within it.
static Ix padded(Graph *g, Ix c, Ix n, Ix before, Ix after, GPad mode) {
    Ix zero = ix(g, 0), last = ix_addi(g, n, -1);
    if (mode == GP_edge) return ix_min(g, ix_max(g, c, zero), last);
    if (mode == GP_wrap) return ix_mod(g, c, n);
    bool once = ix_prove_le(g, before, last) && ix_prove_le(g, after, last);
    Ix m = once ? c : ix_mod(g, c, ix_muli(g, last, 2));     // the image repeats every 2 (n - 1)
    return ix_sub(g, last, absolute(g, ix_sub(g, last, absolute(g, m))));
}

Node *g_pad(Graph *g, Node *x, const Ix *before, const Ix *after, GPad mode, GNum fill) {
    if (!x || any_null_ix(before, x->rank) || any_null_ix(after, x->rank)) return NULL;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], pred = ix(g, 1);
    for (int i = 0; i < x->rank; i++) {
        Ix n = x->shape[i];
        shape[i] = ix_add(g, ix_add(g, n, before[i]), after[i]);
        if (!shape[i]) return NULL;
        if (shape[i]->hi < 0) return g_error(g, "padding by a negative amount leaves nothing");
        Ix c = ix_sub(g, axis_of(g, shape, i), before[i]);
        bool constant = mode == GP_constant || (before[i]->hi <= 0 && after[i]->hi <= 0);
        if (constant) pred = ix_and(g, pred, ix_in_range(g, c, n));
        coord[i] = constant ? c : padded(g, c, n, before[i], after[i], mode);
    }
    return g_view(g, x, x->rank, shape, coord, pred, fill);
}

Node *g_windows(Graph *g, Node *x, int first, int n, const Ix *out, const Ix *kernel, const int64_t *stride,
                const int64_t *dilation, const Ix *before, GNum fill) {
    if (!x || any_null_ix(out, n) || any_null_ix(kernel, n) || any_null_ix(before, n)) return NULL;
    int rank = x->rank + n;
    if (rank > G_MAX_RANK) return g_error(g, "a value has %d dimensions; the most is %d", rank, G_MAX_RANK);
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], pred = ix(g, 1);
    for (int i = 0; i < rank; i++) {
        bool window = i >= x->rank, moved = i >= first && i < first + n;
        shape[i] = window ? kernel[i - x->rank] : moved ? out[i - first] : x->shape[i];
        if (shape[i]->hi < 0) return g_error(g, "a window that is larger than what it moves over");
    }
    for (int i = 0; i < x->rank; i++) coord[i] = axis_of(g, shape, i);
    for (int k = 0; k < n; k++) {
        Ix o = axis_of(g, shape, first + k), w = axis_of(g, shape, x->rank + k);
        Ix c = ix_sub(g, ix_add(g, ix_muli(g, o, stride[k]), ix_muli(g, w, dilation[k])), before[k]);
        pred = ix_and(g, pred, ix_in_range(g, c, x->shape[first + k]));
        coord[first + k] = c;
    }
    return g_view(g, x, rank, shape, coord, pred, fill);
}

// Convolutions. All of them are one product, of windows (a view) and weights:
//
//     y[n, m, o..] = sum over c, k..  of  x[n, c, o * stride + k * dilation - before ..] * w[m, c, k..]
//
// with the group as a batch axis in front if there are several. A transposed convolution is the same with another view:
// which element of x, if any, reaches o by its k-th weight. A deformable one reads x at places that are values.
#include "graph/op/sample.h"
#include "graph/op/window.h"

#include "lang/launch.h"

// x, which has n axes, with them in the order of `at`.
static Node *order(Graph *g, Node *x, const int *at, int n) {
    return x != NULL && x->rank == n ? g_transpose(g, x, n, at) : NULL;
}

static Node *op_convolve(Op *op, Node *windows, Node *weights, int64_t group, int n, Elem elem, Elem acc) {
    Graph *g = op->g;
    int perm[G_MAX_RANK], at = 0, grouped = group > 1, nk = n;
    if (windows == NULL || weights == NULL) return NULL;
    for (int i = n - 1; i >= 0; i--) {                          // a window of one element needs no axis
        if (!ix_is(weights->shape[grouped + 2 + i], 1)) continue;
        windows = g_squeeze(g, windows, 1u << (grouped + 2 + n + i));
        weights = g_squeeze(g, weights, 1u << (grouped + 2 + i));
        if (windows == NULL || weights == NULL) return NULL;
        nk--;
    }
    int c = 1 + grouped;                                        // the channel's axis of windows
    if (grouped) perm[at++] = 1;
    perm[at++] = 0;
    for (int i = 0; i < n; i++) perm[at++] = c + 1 + i;
    perm[at++] = c;
    for (int i = 0; i < nk; i++) perm[at++] = c + 1 + n + i;
    Node *y = g_contract(g, order(g, windows, perm, at), weights, grouped, 1 + n, 1, 1 + nk, elem, acc);
    at = 0;                                                     // (group,) N, O.., M  ->  N, (group,) M, O..
    perm[at++] = grouped;
    if (grouped) perm[at++] = 0;
    perm[at++] = grouped + 1 + n;
    for (int i = 0; i < n; i++) perm[at++] = grouped + 1 + i;
    y = order(g, y, perm, at);
    if (y == NULL || !grouped) return y;
    Ix shape[G_MAX_RANK] = {y->shape[0], ix_mul(g, y->shape[1], y->shape[2])};
    for (int i = 0; i < n; i++) shape[2 + i] = y->shape[3 + i];
    return g_reshape(g, y, 2 + n, shape);
}

// Axis `axis` as two: group, and what is left.
static Node *split_axis(Op *op, Node *x, int axis, int64_t group, const char *what) {
    Graph *g = op->g;
    int64_t size;
    if (x == NULL || group == 1) return x;
    Ix each = ix_divide_exact(g, x->shape[axis], ix(g, group)), shape[G_MAX_RANK];
    if (each == NULL && !op_fixed(op, x->shape[axis], &size)) return NULL;
    if (each == NULL) return op_error(op, "its %s do not divide by `group`, %lld", what, (long long)group);
    for (int d = 0; d <= x->rank; d++)
        shape[d] = d == axis ? ix(g, group) : d == axis + 1 ? each : x->shape[d < axis ? d : d - 1];
    return g_reshape(g, x, x->rank + 1, shape);
}

static int64_t groups(Op *op) {
    int64_t group = op_int(op, "group", 1);
    if (group >= 1 && group <= 1 << 24) return group;
    op_error(op, "attribute `group` is %lld", (long long)group);
    return 0;
}

Node *op_conv(Op *op, Node *x, Node *weights, Elem elem, Elem acc) {
    Graph *g = op->g;
    OpWindow w;
    int64_t group = groups(op);
    if (x == NULL || weights == NULL || group == 0) return NULL;
    if (weights->rank != x->rank)
        return op_error(op, "its weights have %d dimensions, its input %d", weights->rank, x->rank);
    if (!op_window(op, x, weights->shape + 2, &w)) return NULL;
    x = op_sized(op, x, 1, ix_muli(g, weights->shape[1], group));
    Node *xs = split_axis(op, x, 1, group, "channels"), *ws = split_axis(op, weights, 0, group, "filters");
    return op_convolve(op, op_windows(op, xs, group > 1 ? 3 : 2, &w, g_int(0)), ws, group, w.n, elem, acc);
}

static Elem sum_type(Elem e) { return e == EL_f64 ? EL_f64 : EL_f32; }

static bool floats(Op *op, const Node *x, const Node *weights) {
    if (x == NULL || weights == NULL) return false;
    if (!elem_is_float((Elem)x->elem)) return op_error(op, "multiplies floats, not %s", elem_name((Elem)x->elem)), false;
    if (x->elem != weights->elem)
        return op_error(op, "its input has elements of type %s, its weights %s", elem_name((Elem)x->elem),
                        elem_name((Elem)weights->elem)),
               false;
    return true;
}

// With a bias the sum stays in the wide type until that is added.
static Node *finish(Op *op, Node *y, Node *bias, Elem elem) { return g_cast(op->g, op_bias(op, y, bias), elem); }

static Node *lower_conv(Op *op) {
    Node *x = op_in(op, 0), *w = op_in(op, 1), *bias = op_opt(op, 2);
    if (!floats(op, x, w)) return NULL;
    Elem elem = (Elem)x->elem, acc = sum_type(elem);
    return finish(op, op_conv(op, x, w, bias != NULL ? acc : elem, acc), bias, elem);
}

// ---- transposed -------------------------------------------------------------------------------------

// Where a transposed convolution's result begins and ends: pads cut it, output_padding adds at its end, output_shape says
// how large it is, and then the pads follow from that.
static bool transposed(Op *op, Node *x, Node *weights, OpWindow *w) {
    Graph *g = op->g;
    int64_t pads[2 * MAX_SPATIAL];
    int n = x->rank - 2, nextra = 0, nshape = 0;
    if (!op_window_shape(op, n, weights->shape + 2, w) || !op_pads(op, n, pads)) return false;
    const int64_t *extra = op_ints(op, "output_padding", &nextra), *wanted = op_ints(op, "output_shape", &nshape);
    if (extra != NULL && nextra != n)
        return op_error(op, "attribute `output_padding` has %d numbers for %d axes", nextra, n), false;
    if (wanted != NULL && nshape != n && nshape != n + 2)
        return op_error(op, "attribute `output_shape` has %d numbers for %d axes", nshape, n), false;
    bool upper = op_is(op, "auto_pad", "NOTSET", "SAME_UPPER"), lower = op_is(op, "auto_pad", "NOTSET", "SAME_LOWER");
    bool valid = op_is(op, "auto_pad", "NOTSET", "VALID");
    for (int i = 0; i < n; i++) {
        if (extra != NULL && (extra[i] < 0 || extra[i] > 1 << 30))
            return op_error(op, "attribute `output_padding` has %lld among its numbers", (long long)extra[i]), false;
        Ix in = x->shape[2 + i];
        Ix whole = ix_addi(g, ix_muli(g, ix_addi(g, in, -1), w->stride[i]),
                           op_window_span(w, i) + (extra != NULL ? extra[i] : 0));
        Ix size = wanted != NULL ? ix(g, wanted[nshape - n + i]) : upper || lower ? ix_muli(g, in, w->stride[i]) : NULL;
        if (size != NULL) {
            Ix total = ix_max(g, ix_sub(g, whole, size), ix(g, 0)), half = ix_divi(g, total, 2);
            w->before[i] = upper ? half : ix_sub(g, total, half);
            w->out[i] = size;
        } else {
            w->before[i] = ix(g, valid ? 0 : pads[i]);
            w->out[i] = valid ? whole : ix_addi(g, whole, -(pads[i] + pads[n + i]));
        }
        if (w->out[i] == NULL) return false;
        if (w->out[i]->hi < 1) return op_error(op, "axis %d of its result would be empty", 2 + i), false;
    }
    return g_failed(g) == NULL;
}

// With a stride of 1 the weights go over x backwards: a plain convolution, of the turned weights.
static Node *turned(Op *op, Node *x, Node *weights, int64_t group, const OpWindow *w, Elem elem, Elem acc) {
    Graph *g = op->g;
    OpWindow plain = *w;
    Ix coord[G_MAX_RANK];
    int first = weights->rank - w->n;
    for (int i = 0; i < weights->rank; i++) coord[i] = ix_axis(g, i, weights->shape[i]);
    for (int i = 0; i < w->n; i++) {
        plain.before[i] = ix_sub(g, ix(g, op_window_span(w, i) - 1), w->before[i]);
        coord[first + i] = ix_sub(g, ix(g, w->kernel[i] - 1), coord[first + i]);
    }
    if (g_failed(g) != NULL) return NULL;
    Node *back = g_view(g, weights, weights->rank, weights->shape, coord, NULL, g_int(0));
    return op_convolve(op, op_windows(op, x, group > 1 ? 3 : 2, &plain, g_int(0)), back, group, w->n, elem, acc);
}

// Of the result's places along an axis, every stride-th is reached by the same weights: places o = i * stride + a with one a
// (a phase) are a plain convolution over i, with ceil(K / stride) taps t, the last one first. With a dilation d that has no
// factor in common with the stride, and k0 the first weight that reaches the phase, k0 * d = a + before (mod stride):
//
//     y[i * stride + a] = sum over t of  x[i + (a + before - k0 * d) / stride - t * d] * w[k0 + t * stride]
//
// So the phases are batches of one product, in which no work is lost; each axis has one for them, or all have one together
// where the weights in that order would have more dimensions than a tensor of a program may. x [N, (group,) C, D..], weights
// [(group,) M, C, K..].
typedef struct Phases {
    const OpWindow *w;
    int c, axes;                                             // c: 1 with groups; axes that phases have
    Ix count[MAX_SPATIAL], inner[MAX_SPATIAL], places[MAX_SPATIAL], taps[MAX_SPATIAL];
    int64_t inverse[MAX_SPATIAL];
} Phases;

static int64_t divisor(int64_t a, int64_t b) { return b == 0 ? a : divisor(b, a % b); }

// What undoes a multiplication by d, modulo m; they have no factor in common.
static int64_t inverse(int64_t d, int64_t m) {
    for (int64_t i = 1; i < m; i++)
        if (i * (d % m) % m == 1) return i;
    return m == 1 ? 0 : 1;
}

static Phases phases_of(Graph *g, const OpWindow *w, int c) {
    Phases p = {.w = w, .c = c, .axes = 2 * w->n + 2 + c > MAX_RANK ? 1 : w->n};
    Ix inner = ix(g, 1);
    for (int i = w->n; i-- > 0;) {
        p.inner[i] = inner;
        p.count[i] = ix(g, w->stride[i]);
        p.inverse[i] = inverse(w->dilation[i], w->stride[i]);
        p.places[i] = ix_ceildiv(g, w->out[i], p.count[i]);
        p.taps[i] = ix_ceildiv(g, w->kernel_ix[i], p.count[i]);
        inner = ix_muli(g, inner, w->stride[i]);
    }
    if (p.axes == 1) p.count[0] = inner;
    return p;
}

// The phase along axis i, where axes `first` on count phases.
static Ix phase(Graph *g, const Phases *p, int first, int i) {
    if (p->axes == p->w->n) return ix_axis(g, first + i, p->count[i]);
    return ix_modi(g, ix_div(g, ix_axis(g, first, p->count[0]), p->inner[i]), p->w->stride[i]);
}

static Ix first_weight(Graph *g, const Phases *p, int i, Ix a) {
    return ix_modi(g, ix_muli(g, ix_add(g, a, p->w->before[i]), p->inverse[i]), p->w->stride[i]);
}

// Taps from the last one on, counted by axis `axis`.
static Ix taps_back(Graph *g, const Phases *p, int axis, int i) {
    return ix_sub(g, ix_addi(g, p->taps[i], -1), ix_axis(g, axis, p->taps[i]));
}

// (group,) a.., N, I.., C, t..: what of x each tap of each place in each phase sees.
static Node *phase_windows(Graph *g, const Phases *p, Node *x) {
    const OpWindow *w = p->w;
    int c = p->c, n = w->n, places = c + p->axes, channel = places + 1 + n, taps = channel + 1;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], pred = ix(g, 1);
    if (c) shape[0] = x->shape[1];
    shape[places] = x->shape[0];
    shape[channel] = x->shape[1 + c];
    for (int i = 0; i < p->axes; i++) shape[c + i] = p->count[i];
    for (int i = 0; i < n; i++) shape[places + 1 + i] = p->places[i], shape[taps + i] = p->taps[i];
    coord[0] = ix_axis(g, places, shape[places]);
    if (c) coord[1] = ix_axis(g, 0, shape[0]);
    coord[1 + c] = ix_axis(g, channel, shape[channel]);
    for (int i = 0; i < n; i++) {
        Ix a = phase(g, p, c, i), reach = ix_add(g, a, w->before[i]);
        if (w->dilation[i] > 1) reach = ix_sub(g, reach, ix_muli(g, first_weight(g, p, i, a), w->dilation[i]));
        Ix first = ix_divi(g, reach, w->stride[i]), back = taps_back(g, p, taps + i, i);
        coord[2 + c + i] = ix_add(g, ix_axis(g, places + 1 + i, shape[places + 1 + i]),
                                  ix_sub(g, first, ix_muli(g, back, w->dilation[i])));
        pred = ix_and(g, pred, ix_in_range(g, coord[2 + c + i], x->shape[2 + c + i]));
    }
    return g_failed(g) ? NULL : g_view(g, x, taps + n, shape, coord, pred, g_int(0));
}

// (group,) a.., M, C, t..: groups and channels are the windows'.
static Node *phase_weights(Graph *g, const Phases *p, Node *weights, const Node *windows) {
    const OpWindow *w = p->w;
    int c = p->c, n = w->n, places = c + p->axes;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], given = ix(g, 1);
    if (c) shape[0] = windows->shape[0], coord[0] = ix_axis(g, 0, shape[0]);
    for (int i = 0; i < p->axes; i++) shape[c + i] = p->count[i];
    shape[places] = weights->shape[c];
    shape[places + 1] = windows->shape[places + 1 + n];
    for (int i = 0; i < n; i++) shape[places + 2 + i] = p->taps[i];
    coord[c] = ix_axis(g, places, shape[places]);
    coord[c + 1] = ix_axis(g, places + 1, shape[places + 1]);
    for (int i = 0; i < n; i++) {
        Ix first = first_weight(g, p, i, phase(g, p, c, i)), t = taps_back(g, p, places + 2 + i, i);
        coord[c + 2 + i] = ix_add(g, first, ix_muli(g, t, w->stride[i]));
        given = ix_and(g, given, ix_lt(g, coord[c + 2 + i], w->kernel_ix[i]));
    }
    return g_failed(g) ? NULL : g_view(g, weights, places + 2 + n, shape, coord, given, g_int(0));
}

// (group,) a.., N, I.., M  ->  N, (group,) M, O..
static Node *phases_joined(Graph *g, const Phases *p, Node *y) {
    const OpWindow *w = p->w;
    int c = p->c, n = w->n, places = c + p->axes, rank = 2 + c + n;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    shape[0] = y->shape[places];
    if (c) shape[1] = y->shape[0];
    shape[1 + c] = y->shape[places + 1 + n];
    for (int i = 0; i < n; i++) shape[2 + c + i] = w->out[i];
    if (c) coord[0] = ix_axis(g, 1, shape[1]);
    coord[places] = ix_axis(g, 0, shape[0]);
    coord[places + 1 + n] = ix_axis(g, 1 + c, shape[1 + c]);
    if (p->axes == 1) coord[c] = ix(g, 0);
    for (int i = 0; i < n; i++) {
        Ix o = ix_axis(g, 2 + c + i, shape[2 + c + i]), a = ix_modi(g, o, w->stride[i]);
        if (p->axes == n) coord[c + i] = a;
        else coord[c] = ix_add(g, coord[c], ix_mul(g, a, p->inner[i]));
        coord[places + 1 + i] = ix_divi(g, o, w->stride[i]);
    }
    y = g_view(g, y, rank, shape, coord, NULL, g_int(0));
    if (!c || y == NULL) return y;
    Ix whole[G_MAX_RANK] = {shape[0], ix_mul(g, shape[1], shape[2])};
    for (int i = 0; i < n; i++) whole[2 + i] = shape[3 + i];
    return g_reshape(g, y, 2 + n, whole);
}

static Node *by_phases(Op *op, Node *x, Node *weights, int c, const OpWindow *w, Elem elem, Elem acc) {
    Graph *g = op->g;
    const Phases p = phases_of(g, w, c);
    Node *windows = phase_windows(g, &p, x), *parts = windows ? phase_weights(g, &p, weights, windows) : NULL;
    Node *y = parts ? g_contract(g, windows, parts, c + p.axes, 1 + w->n, 1, 1 + w->n, elem, acc) : NULL;
    return y ? phases_joined(g, &p, y) : NULL;
}

// Where stride and dilation have a factor f in common, only every f-th place of the result is reached, and those are the result of
// a convolution with both divided by f. `thin` becomes that one; false: nothing is in common, or it is not known where they begin.
static bool thinned(Graph *g, const OpWindow *w, OpWindow *thin, int64_t *factor) {
    bool any = false;
    *thin = *w;
    for (int i = 0; i < w->n; i++) {
        int64_t f = factor[i] = divisor(w->stride[i], w->dilation[i]);
        if (f == 1) continue;
        if (!ix_is_const(w->before[i])) return false;
        any = true;
        Ix last = ix_divi(g, ix_add(g, ix_addi(g, w->out[i], -1), w->before[i]), f);
        thin->stride[i] /= f;
        thin->dilation[i] /= f;
        thin->before[i] = ix_ceildiv(g, w->before[i], ix(g, f));
        thin->out[i] = ix_addi(g, ix_sub(g, last, thin->before[i]), 1);
        if (thin->out[i] == NULL || thin->out[i]->lo < 1) return false;
    }
    return any;
}

static Node *convolve_transposed(Op *op, Node *x, Node *weights, int64_t group, const OpWindow *w, Elem elem, Elem acc) {
    Graph *g = op->g;
    OpWindow thin;
    int64_t factor[MAX_SPATIAL];
    int c = group > 1;
    bool plain = true, phases = 2 * w->n + 3 + c <= G_MAX_RANK;
    for (int i = 0; i < w->n; i++) plain &= w->stride[i] == 1;
    if (plain) return turned(op, x, weights, group, w, elem, acc);
    if (thinned(g, w, &thin, factor)) {
        Node *y = convolve_transposed(op, x, weights, group, &thin, elem, acc);
        Ix shape[G_MAX_RANK], coord[G_MAX_RANK], reached = ix(g, 1);
        if (y == NULL) return NULL;
        for (int d = 0; d < y->rank; d++) coord[d] = ix_axis(g, d, shape[d] = d < 2 ? y->shape[d] : w->out[d - 2]);
        for (int i = 0; i < w->n; i++) {
            Ix o = ix_add(g, coord[2 + i], w->before[i]);
            if (factor[i] == 1) continue;
            reached = ix_and(g, reached, ix_eq(g, ix_modi(g, o, factor[i]), ix(g, 0)));
            coord[2 + i] = ix_sub(g, ix_divi(g, o, factor[i]), thin.before[i]);
        }
        return g_failed(g) != NULL ? NULL : g_view(g, y, y->rank, shape, coord, reached, g_int(0));
    }
    for (int i = 0; i < w->n; i++) phases &= divisor(w->stride[i], w->dilation[i]) == 1;
    return phases ? by_phases(op, x, weights, c, w, elem, acc)
                  : op_convolve(op, op_spread(op, x, 2 + c, w), weights, group, w->n, elem, acc);
}

// One element reaches each place by one weight, whatever its neighbours would be apart: with as many phases as there are places, no tap is in vain.
static void part_lone(const Node *x, OpWindow *w) {
    for (int i = 0; i < w->n; i++)
        if (ix_is(x->shape[2 + i], 1) && w->stride[i] < op_window_span(w, i)) w->stride[i] = op_window_span(w, i);
}

static Node *lower_conv_transpose(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *weights = op_in(op, 1), *bias = op_opt(op, 2);
    int64_t group = groups(op);
    OpWindow w;
    if (!floats(op, x, weights) || group == 0) return NULL;
    if (x->rank < 3 || weights->rank != x->rank)
        return op_error(op, "its weights have %d dimensions, its input %d", weights->rank, x->rank);
    if (!transposed(op, x, weights, &w)) return NULL;
    part_lone(x, &w);
    x = op_sized(op, x, 1, weights->shape[0]);
    Node *xs = split_axis(op, x, 1, group, "channels"), *ws = split_axis(op, weights, 0, group, "channels");
    if (xs == NULL || ws == NULL || g_failed(g) != NULL) return NULL;
    int c = group > 1, perm[G_MAX_RANK];                        // C, M, K..  ->  M, C, K..
    for (int d = 0; d < ws->rank; d++) perm[d] = d == c ? c + 1 : d == c + 1 ? c : d;
    Elem elem = (Elem)x->elem, acc = sum_type(elem), sum = bias != NULL ? acc : elem;
    ws = g_transpose(g, ws, ws->rank, perm);
    return ws != NULL ? finish(op, convolve_transposed(op, xs, ws, group, &w, sum, acc), bias, elem) : NULL;
}

// Columns [N, C * K.., O..] back to the image that their windows lay on, which are added where they overlap.
static Node *lower_col2im(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int n = 0, nk = 0;
    OpWindow w;
    int64_t pads[2 * MAX_SPATIAL];
    const Ix *image = op_known(op, 1, &n);
    const int64_t *block = op_known_ints(op, 2, &nk);
    if (x == NULL || image == NULL || block == NULL) return NULL;
    if (x->rank != 3 || n != nk || n < 1 || n > MAX_SPATIAL)
        return op_error(op, "its image has %d dimensions, its blocks %d, its columns %d", n, nk, x->rank);
    Ix kernel[MAX_SPATIAL], shape[G_MAX_RANK] = {x->shape[0]}, count = ix(g, 1);
    for (int i = 0; i < n; i++) kernel[i] = ix(g, block[i]), count = ix_mul(g, count, kernel[i]);
    if (!op_window_shape(op, n, kernel, &w) || !op_pads(op, n, pads)) return NULL;
    int64_t columns;
    shape[1] = ix_divide_exact(g, x->shape[1], count);
    if (shape[1] == NULL && op_fixed(op, x->shape[1], &columns))
        return op_error(op, "its columns do not divide by the size of a block");
    for (int i = 0; i < n; i++) {
        w.before[i] = ix(g, pads[i]);
        w.out[i] = image[i];
        Ix room = ix_addi(g, image[i], pads[i] + pads[n + i] - op_window_span(&w, i));
        shape[2 + i] = kernel[i];
        shape[2 + n + i] = ix_addi(g, ix_divi(g, room, w.stride[i]), 1);
    }
    Node *blocks = g_reshape(g, x, 2 + 2 * n, shape);           // [N, C, K.., O..]
    Node *spread = op_spread(op, blocks, 2 + n, &w); // [N, C, K.., image.., K..]: wanted where the two K are one
    if (spread == NULL) return NULL;
    Ix coord[G_MAX_RANK], to[G_MAX_RANK];
    for (int d = 0; d < 2 + 2 * n; d++) to[d] = spread->shape[d < 2 ? d : d < 2 + n ? d + n : d];
    for (int i = 0; i < n; i++) to[2 + i] = w.out[i], to[2 + n + i] = kernel[i];
    for (int d = 0; d < 2; d++) coord[d] = ix_axis(g, d, to[d]);
    for (int i = 0; i < n; i++) {
        coord[2 + n + i] = ix_axis(g, 2 + i, to[2 + i]);
        coord[2 + i] = coord[2 + 2 * n + i] = ix_axis(g, 2 + n + i, to[2 + n + i]);
    }
    return g_reduce(g, GR_sum, g_view(g, spread, 2 + 2 * n, to, coord, NULL, g_int(0)), ((1u << n) - 1) << (2 + n),
                    false);
}

// ---- deformable -------------------------------------------------------------------------------------

// x is read, by linear interpolation, at each window's places plus an offset for each, and weighed by a mask.
static Node *lower_deform_conv(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *weights = op_in(op, 1), *offset = op_in(op, 2), *bias = op_opt(op, 3), *mask = op_opt(op, 4);
    int64_t group = groups(op), parts = op_int(op, "offset_group", 1);
    OpWindow w;
    if (!floats(op, x, weights) || offset == NULL || group == 0) return NULL;
    if (x->rank != 4 || weights->rank != 4 || offset->rank != 4)
        return op_error(op, "works on images: its inputs should have 4 dimensions");
    if (parts < 1 || parts > 1 << 24) return op_error(op, "attribute `offset_group` is %lld", (long long)parts);
    if (!op_window(op, x, weights->shape + 2, &w)) return NULL;
    x = op_sized(op, x, 1, ix_muli(g, weights->shape[1], group));
    int64_t channels;
    if (x == NULL || !op_fixed(op, x->shape[1], &channels)) return NULL;
    Elem elem = (Elem)x->elem, acc = sum_type(elem);
    Ix N = x->shape[0], each = ix_divide_exact(g, x->shape[1], ix(g, parts)), P = ix(g, parts);
    if (each == NULL) return op_error(op, "its channels do not divide by `offset_group`, %lld", (long long)parts);
    const Ix *o = w.out, *k = w.kernel_ix;
    Node *offsets = g_reshape(g, g_cast(g, offset, acc), 7, (Ix[]){N, P, k[0], k[1], ix(g, 2), o[0], o[1]});
    Node *weigh = mask != NULL ? g_reshape(g, g_cast(g, mask, acc), 6, (Ix[]){N, P, k[0], k[1], o[0], o[1]}) : NULL;
    // sampled: [N, parts, each, OH, OW, KH, KW]
    Ix shape[7] = {N, P, each, o[0], o[1], k[0], k[1]},
       coord[3] = {ix_axis(g, 0, N), ix_axis(g, 1, P), ix_axis(g, 2, each)};
    Taps taps[2];
    for (int i = 0; i < 2; i++) {
        Ix place = ix_add(g, ix_muli(g, ix_axis(g, 3 + i, o[i]), w.stride[i]),
                          ix_muli(g, ix_axis(g, 5 + i, k[i]), w.dilation[i]));
        Node *grid = g_cast(g, g_index(g, EL_i64, 7, shape, ix_sub(g, place, w.before[i])), acc);
        Node *moved = g_squeeze(g, g_take_range(g, offsets, 4, ix(g, i), 1, ix(g, 1)), 1u << 4);
        Node *at = g_ew2(g, EW_add, grid, g_broadcast_to(g, moved, 7, shape, (int[]){0, 1, 5, 6, 3, 4}));
        if (!op_taps_linear(op, at, x->shape[2 + i], false, &taps[i])) return NULL;
    }
    Node *xs = g_reshape(g, g_cast(g, x, acc), 5, (Ix[]){N, P, each, x->shape[2], x->shape[3]});
    Node *read = op_read_taps(op, xs, 2, taps, 7, shape, coord, NULL, EW_add);
    if (weigh != NULL) read = g_ew2(g, EW_mul, read, g_broadcast_to(g, weigh, 7, shape, (int[]){0, 1, 5, 6, 3, 4}));
    Node *flat = g_reshape(g, read, 6, (Ix[]){N, x->shape[1], o[0], o[1], k[0], k[1]});
    Node *y = op_convolve(op, split_axis(op, flat, 1, group, "channels"),
                          split_axis(op, g_cast(g, weights, acc), 0, group, "filters"), group, 2, acc, acc);
    return finish(op, y, bias, elem);
}

const OpRow ops_conv[] = {
    OP("Conv", 1, lower_conv),
    OP("ConvTranspose", 1, lower_conv_transpose),
    OP("DeformConv", 19, lower_deform_conv),
    OP("Col2Im", 18, lower_col2im),
    {0},
};

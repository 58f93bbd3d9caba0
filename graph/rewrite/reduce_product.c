// Sums of a product's rows or columns.
//
// What is summed over the columns of a product, or its rows, is a product of sums, and much less of it:
//
//     sum over n of (x @ w')[m, n]            ->  x[m, :] . s                      s = sum over n of w[n, :], once, where w are weights
//     sum over m of (x @ w')[m, n]            ->  (sum over m of x[m, :]) @ w'
//     sum over p, q of conv(x, w)[p, q, n]    ->  (sum over h, w of x) @ (sum over taps of w)        if every tap meets each pixel
//
// and so for what is only scaled, shifted by constants, or moved in between. A tap meets each pixel where the windows go past the picture
// on all sides, as those of a transposed convolution do that keeps all it makes:
//
//     x[p + t - 4],  p in 0 .. H + 4,  t in 0 .. 4          0 + t - 4 <= 0,   H + 3 + t - 4 >= H - 1
//
// A sum of windows of such a product's rows, as an average pool makes it of a convolution's of one tap, is the product of the windows' sums,
// where those are less than what the product would have made and the pool have read again:
//
//     sum over r, s of (x @ w')[2 p + r, 2 q + s, n]          ->  (sum over r, s of x[2 p + r, 2 q + s, :]) @ w'
//
// Nothing but the sum may use the product: else it has to be made anyway.
//
// Range (range.c). All of it is done with means, and the last one is multiplied by how many there are. A mean is no larger than the
// largest of what it is of, and so is each partial sum of x / count; the terms of a product of means are means of terms that the model has.
// What a sum gives may be past the end, in 16 bits soon, where the model scales or cancels it. x is divided by a power of two, which is exact, and
// the mean of the weights is taken when they are loaded.

#include "graph/rewrite/rewrite.h"

typedef struct Sums { Rewrite *r; bool product; } Sums;      // has a product been met?

static bool is_number(const Node *n) {
    GNum v;
    return g_scalar_value(n, &v);
}

// The axes of x's shape that are in `axes`, and those that are not: numbers of the latter as they are left.
static int left_of(const Node *x, uint32_t axes, Ix *shape, int *number) {
    int n = 0;
    for (int i = 0; i < x->rank; i++) {
        number[i] = -1;
        if (axes >> i & 1) continue;
        shape[n] = x->shape[i];
        number[i] = n++;
    }
    return n;
}

// The mean of x over axes, `count` elements: the sum of x / 2^e with 2^e the power of two from count on, times 2^e / count.
static Node *mean_of(Graph *g, Node *x, uint32_t axes, double count) {
    double power = 1;
    if (!x || !axes || count <= 1) return x && axes ? g_reduce(g, GR_sum, x, axes, false) : x;
    while (power < count) power *= 2;
    Node *sum = g_reduce(g, GR_sum, g_ew2f(g, EW_mul, x, 1 / power), axes, false);
    return power == count ? sum : g_ew2f(g, EW_mul, sum, power / count);
}

// How many elements are along axes of x; 0: nobody knows.
static double along(const Node *x, uint32_t axes) {
    double count = 1;
    for (int i = 0; i < x->rank; i++)
        if (axes >> i & 1) count *= ix_is_const(x->shape[i]) ? (double)x->shape[i]->value : 0;
    return count;
}

// ---- the left operand, summed over rows -----------------------------------------------------------------------------

// Windows of y along `axis` of their places meet each element of y's dimension d exactly once, whatever the tap.
static bool meets_all(Graph *g, const Node *a, int d, int axis) {
    Ix rest, one = ix_coefficient(g, a->view.coord[d], axis, &rest), extent = a->shape[axis], dim = a->src[0]->shape[d];
    if (!one || !ix_is(one, 1) || !ix_is_const(extent) || !ix_is_const(dim)) return false;
    return rest->hi <= 0 && extent->value - 1 + rest->lo >= dim->value - 1;
}

// sum of windows a over `rows`, axes of its places: y summed over the dimensions in which those move, at the same other places.
static Node *windows_summed(Sums *s, const Node *a, uint32_t rows, double places) {
    Graph *g = s->r->g;
    Node *y = a->src[0];
    double count = 1;                                        // of y's elements, each of which is met at one of so many places
    uint32_t dims = 0, met = 0;
    Ix inside = ix(g, 1), shape[G_MAX_RANK], coord[G_MAX_RANK], to[G_MAX_RANK] = {0};
    int number[G_MAX_RANK], left = left_of(a, rows, shape, number), n = 0;
    for (int d = 0; d < y->rank; d++) {
        Ix at = a->view.coord[d];
        uint64_t moves = at->axes & rows;
        inside = ix_and(g, inside, ix_in_range(g, at, y->shape[d]));
        if (!moves) {
            if (!ix_prove_ge0(g, at) || !ix_prove_lt(g, at, y->shape[d])) return NULL;
            continue;
        }
        if (moves & (moves - 1) || met & moves || !meets_all(g, a, d, __builtin_ctzll(moves))) return NULL;
        met |= (uint32_t)moves;
        dims |= 1u << d;
        count *= (double)y->shape[d]->value;
    }
    bool zero = a->view.fill.is_int ? a->view.fill.i == 0 : a->view.fill.f == 0;
    if (met != rows || count < 1 || (!zero && !ix_is(a->view.pred, 1)) || !ix_among(a->view.pred, inside)) return NULL;
    for (int i = 0; i < a->rank; i++) to[i] = number[i] < 0 ? ix(g, 0) : ix_axis(g, number[i], a->shape[i]);
    for (int d = 0; d < y->rank; d++)
        if (!(dims >> d & 1) && !(coord[n++] = ix_substitute(g, a->view.coord[d], to, a->rank))) return NULL;
    Node *mean = mean_of(g, s->r->to[y->id], dims, count);
    if (mean && count != places) mean = g_ew2f(g, EW_mul, mean, count / places);
    return mean ? g_view(g, mean, left, shape, coord, NULL, g_int(0)) : NULL;
}

static Node *operand_summed(Sums *s, const Node *a, uint32_t rows) {
    double count = along(a, rows);
    if (count < 1) return NULL;
    return a->kind == G_view ? windows_summed(s, a, rows, count) : mean_of(s->r->g, s->r->to[a->id], rows, count);
}

// ---- products ---------------------------------------------------------------------------------------------------------

// a over k where the sum has made it independent of some k (taps): b summed over those, and a at their beginning.
static void fewer_taps(Graph *g, Node **a, Node **b, int first, int bfirst, int *nk) {
    uint32_t axes = 0, gone = 0;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    int number[G_MAX_RANK];
    for (int d = 0; (*a)->kind == G_view && d < (*a)->src[0]->rank; d++) axes |= (uint32_t)(*a)->view.coord[d]->axes;
    for (int k = 0; k < *nk && (*a)->kind == G_view && ix_is((*a)->view.pred, 1); k++)
        if (!(axes >> (first + k) & 1)) gone |= 1u << (first + k);
    int left = left_of(*a, gone, shape, number), taken = (*a)->rank - left;
    if (!taken || taken == *nk) return;
    for (int i = 0; i < (*a)->rank; i++) coord[i] = number[i] < 0 ? ix(g, 0) : ix_axis(g, number[i], (*a)->shape[i]);
    *b = g_reduce(g, GR_sum, *b, bfirst > first ? gone << (bfirst - first) : gone >> (first - bfirst), false);
    *a = g_view(g, *a, left, shape, coord, NULL, g_int(0));
    *nk -= taken;
}

// The row sums of what has no columns left: each row of a, times b, which is one row.
static Node *rows_by_one(Graph *g, Node *a, Node *b, int nb, int nm, int nk) {
    int axis[G_MAX_RANK];
    uint32_t sum = 0;
    for (int i = 0; i < nb + nk; i++) axis[i] = i < nb ? i : nm + i;
    for (int i = 0; i < nk; i++) sum |= 1u << (nb + nm + i);
    return g_reduce(g, GR_sum, g_ew2(g, EW_mul, a, g_broadcast_to(g, b, a->rank, a->shape, axis)), sum, false);
}

static Node *product_summed(Sums *s, const Node *c, uint32_t axes) {
    Graph *g = s->r->g;
    int nb = c->contract.nb, nm = c->contract.nm, nn = c->contract.nn, nk = c->contract.nk;
    uint32_t batches = (1u << nb) - 1, rows = axes & ((1u << (nb + nm)) - 1), columns = axes >> (nb + nm) << nb;
    const Node *w = c->src[1];
    if (axes & batches || !s->r->constant[w->id] || s->r->constant[c->src[0]->id] || c->src[0]->elem != c->elem || w->elem != c->elem) return NULL;
    int m = nm - __builtin_popcount(rows), n = nn - __builtin_popcount(columns);
    if (m == 0 || (rows && n == 0 && nm == 0)) return NULL;
    Node *a = rows ? operand_summed(s, c->src[0], rows) : s->r->to[c->src[0]->id];
    if (!a) return NULL;
    if (!rows && a->kind == G_view && !ix_prove_le(g, g_count(g, a), g_count(g, a->src[0]))) return NULL;      // windows would be read again
    double along_columns = along(w, columns);
    Node *b = along_columns < 1 ? NULL : mean_of(g, s->r->to[w->id], columns, along_columns);
    if (rows && a && b) fewer_taps(g, &a, &b, nb + m, nb + n, &nk);
    if (!a || !b) return NULL;
    s->product = true;
    Node *y = n ? g_contract(g, a, b, nb, m, n, nk, (Elem)c->elem, c->contract.acc) : rows_by_one(g, a, b, nb, m, nk);
    return g_name(g, y, c->name);
}

// ---- what is in between -----------------------------------------------------------------------------------------------

static Node *summed(Sums *s, const Node *x, uint32_t axes);

// Moved without anything being left out: along axes of x that its source lacks all is the same, as its mean is.
static Node *view_summed(Sums *s, const Node *x, uint32_t axes) {
    Graph *g = s->r->g;
    const Node *y = x->src[0];
    uint32_t found = 0, of = 0;
    int number[G_MAX_RANK], n = 0;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    if (!ix_is(x->view.pred, 1)) return NULL;
    for (int d = 0; d < y->rank; d++) {
        Ix at = x->view.coord[d];
        if (ix_is(at, 0) && ix_is(y->shape[d], 1)) continue;
        if (at->kind != IX_AXIS || found >> at->value & 1 || x->shape[at->value] != y->shape[d]) return NULL;
        found |= 1u << at->value;
        if (axes >> at->value & 1) of |= 1u << d;
    }
    Node *sum = of ? summed(s, y, of) : s->r->to[y->id];
    if (!sum) return NULL;
    int left = left_of(x, axes, shape, number);
    for (int d = 0; d < y->rank; d++) {
        if (of >> d & 1) continue;
        Ix at = x->view.coord[d];
        coord[n++] = at->kind == IX_AXIS ? ix_axis(g, number[at->value], y->shape[d]) : at;
    }
    return g_view(g, sum, left, shape, coord, NULL, g_int(0));
}

static Node *summed(Sums *s, const Node *x, uint32_t axes) {
    Graph *g = s->r->g;
    if (s->r->constant[x->id])
        return x->kind == G_view ? view_summed(s, x, axes) : along(x, axes) < 1 ? NULL : mean_of(g, s->r->to[x->id], axes, along(x, axes));
    if (s->r->users[x->id] != 1) return NULL;
    if (x->kind == G_contract) return product_summed(s, x, axes);
    if (x->kind == G_view) return view_summed(s, x, axes);
    if (x->kind != G_ew) return NULL;
    const Node *p = x->src[0], *q = x->nsrc > 1 ? x->src[1] : NULL;
    Node *a, *b;
    switch ((GEw)x->op) {
    case EW_neg: return (a = summed(s, p, axes)) ? g_ew(g, EW_neg, &a, 1) : NULL;
    case EW_mul: case EW_div: {
        bool left = x->op == EW_mul && is_number(p);
        const Node *factor = left ? p : q;
        Ix shape[G_MAX_RANK];
        int number[G_MAX_RANK];
        GNum v;
        if (!g_scalar_value(factor, &v) || !(a = summed(s, left ? q : p, axes))) return NULL;
        int n = left_of(x, axes, shape, number);
        return g_ew2(g, (GEw)x->op, a, g_full(g, (Elem)factor->elem, n, shape, v));
    }
    case EW_add: case EW_sub:
        if (!s->r->constant[p->id] == !s->r->constant[q->id]) return NULL;
        a = summed(s, p, axes);
        b = a ? summed(s, q, axes) : NULL;
        return b ? g_ew2(g, (GEw)x->op, a, b) : NULL;
    default: return NULL;
    }
}

// ---- windows of a product's rows --------------------------------------------------------------------------------------

typedef struct Windows {                    // of some value: value[coord(axes)] where pred(axes), else 0, with `axes` summed
    int      rank;
    Ix       shape[G_MAX_RANK], coord[G_MAX_RANK], pred;
    uint32_t axes;
} Windows;

// Are rows of a value of its own, not windows that a convolution reads several times?
static bool plain_rows(const Node *a, int nm) {
    uint64_t rows = (1u << nm) - 1;
    for (int d = 0; a->kind == G_view && d < a->src[0]->rank; d++)
        if (a->view.coord[d]->axes & rows && a->view.coord[d]->axes & ~rows) return false;
    return true;
}

static Node *product_in_windows(Sums *s, const Node *c, const Windows *w) {
    Graph *g = s->r->g;
    int nm = c->contract.nm, nn = c->contract.nn, nk = c->contract.nk, n = 0, m = 0, place[G_MAX_RANK], column[G_MAX_RANK];
    const Node *a = c->src[0], *b = c->src[1];
    if (c->contract.nb || !s->r->constant[b->id] || s->r->constant[a->id] || a->elem != c->elem || b->elem != c->elem || !plain_rows(a, nm)) return NULL;
    uint32_t columns = 0, summed_axes = 0;
    for (int i = 0; i < nn; i++) {
        Ix at = w->coord[nm + i];
        if (at->kind != IX_AXIS || columns >> at->value & 1 || w->axes >> at->value & 1 || w->shape[at->value] != c->shape[nm + i]) return NULL;
        columns |= 1u << at->value;
        column[at->value] = i;
    }
    for (int d = 0; d < nm; d++)
        if (w->coord[d]->axes & columns) return NULL;
    if (w->pred->axes & columns) return NULL;
    Ix shape[G_MAX_RANK], axis[G_MAX_RANK], coord[G_MAX_RANK], back[G_MAX_RANK], left[G_MAX_RANK], count = ix(g, 1);
    for (int i = 0; i < w->rank; i++)                                       // rows that are left, k, what is summed
        if (!((columns | w->axes) >> i & 1)) place[i] = m, shape[m++] = w->shape[i];
    for (int k = 0; k < nk; k++) shape[m + k] = a->shape[nm + k];
    Ix made = ix_product(g, shape, m + nk);
    int rank = m + nk;
    for (int i = 0; i < w->rank; i++) {
        if (!(w->axes >> i & 1)) continue;
        if (rank == G_MAX_RANK) return NULL;
        summed_axes |= 1u << rank;
        place[i] = rank;
        shape[rank++] = w->shape[i];
        count = ix_mul(g, count, w->shape[i]);
    }
    if (!ix_is_const(count) || count->value < 1 || m + nn > G_MAX_RANK || !ix_prove_le(g, made, g_count(g, c))) return NULL;
    for (int i = 0; i < w->rank; i++) axis[i] = columns >> i & 1 ? ix(g, 0) : ix_axis(g, place[i], w->shape[i]);
    for (int d = 0; d < nm; d++)
        if (!(coord[d] = ix_substitute(g, w->coord[d], axis, w->rank))) return NULL;
    for (int k = 0; k < nk; k++) coord[nm + k] = ix_axis(g, m + k, shape[m + k]);
    Node *windows = g_view(g, s->r->to[a->id], rank, shape, coord, ix_substitute(g, w->pred, axis, w->rank), g_int(0));
    Node *mean = mean_of(g, windows, summed_axes, (double)count->value);
    Node *y = g_contract(g, mean, s->r->to[b->id], 0, m, nn, nk, (Elem)c->elem, c->contract.acc);
    for (int i = 0; i < w->rank; i++) {
        if (w->axes >> i & 1) continue;
        int from = columns >> i & 1 ? m + column[i] : place[i];
        left[n] = w->shape[i];
        back[from] = ix_axis(g, n, left[n]);
        n++;
    }
    s->product = true;
    return g_name(g, g_view(g, y, n, left, back, NULL, g_int(0)), c->name);
}

static Node *in_windows(Sums *s, const Node *x, const Windows *w);

static Node *view_in_windows(Sums *s, const Node *x, const Windows *w) {
    Graph *g = s->r->g;
    const Node *y = x->src[0];
    Windows to = *w;
    bool zero = x->view.fill.is_int ? x->view.fill.i == 0 : x->view.fill.f == 0;
    if (!zero && !ix_is(x->view.pred, 1)) return NULL;
    for (int d = 0; d < y->rank; d++)
        if (!(to.coord[d] = ix_substitute(g, x->view.coord[d], w->coord, x->rank))) return NULL;
    Ix pred = ix_substitute(g, x->view.pred, w->coord, x->rank);
    if (!pred) return NULL;
    to.pred = ix_and(g, w->pred, pred);
    return in_windows(s, y, &to);
}

// What is constant is the same in a window, or stays as it is.
static Node *constant_in_windows(Sums *s, const Node *x, const Windows *w) {
    Graph *g = s->r->g;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], axis[G_MAX_RANK];
    int n = 0;
    if (!ix_is(w->pred, 1)) return NULL;
    for (int i = 0; i < w->rank; i++) {
        if (w->axes >> i & 1) {
            axis[i] = ix(g, 0);
        } else {
            axis[i] = ix_axis(g, n, w->shape[i]);
            shape[n++] = w->shape[i];
        }
    }
    if (x->kind == G_view && ix_is(x->view.pred, 1)) {
        Windows to = *w;
        for (int d = 0; d < x->src[0]->rank; d++)
            if (!(to.coord[d] = ix_substitute(g, x->view.coord[d], w->coord, x->rank))) return NULL;
        return constant_in_windows(s, x->src[0], &to);
    }
    for (int d = 0; d < x->rank; d++)
        if (w->coord[d]->axes & w->axes || !(coord[d] = ix_substitute(g, w->coord[d], axis, w->rank))) return NULL;
    return g_view(g, s->r->to[x->id], n, shape, coord, NULL, g_int(0));
}

static Node *in_windows(Sums *s, const Node *x, const Windows *w) {
    Graph *g = s->r->g;
    if (s->r->constant[x->id]) return constant_in_windows(s, x, w);
    if (s->r->users[x->id] != 1) return NULL;
    if (x->kind == G_contract) return product_in_windows(s, x, w);
    if (x->kind == G_view) return view_in_windows(s, x, w);
    if (x->kind != G_ew) return NULL;
    Node *a, *b;
    GNum v;
    switch ((GEw)x->op) {
    case EW_neg: return (a = in_windows(s, x->src[0], w)) ? g_ew(g, EW_neg, &a, 1) : NULL;
    case EW_mul: case EW_div: {
        int factor = x->op == EW_mul && is_number(x->src[0]) ? 0 : 1;
        if (!g_scalar_value(x->src[factor], &v) || !(a = in_windows(s, x->src[1 - factor], w))) return NULL;
        return g_ew2(g, (GEw)x->op, a, g_full(g, (Elem)x->elem, a->rank, a->shape, v));
    }
    case EW_add: case EW_sub:
        if (!s->r->constant[x->src[0]->id] == !s->r->constant[x->src[1]->id]) return NULL;
        a = in_windows(s, x->src[0], w);
        b = a ? in_windows(s, x->src[1], w) : NULL;
        return b ? g_ew2(g, (GEw)x->op, a, b) : NULL;
    default: return NULL;
    }
}

static Node *sum_of_windows(Sums *s, const Node *n) {
    const Node *v = n->src[0];
    if (v->kind != G_view || s->r->users[v->id] != 1) return NULL;
    Windows all = {.rank = v->rank, .axes = n->reduce.axes, .pred = ix(s->r->g, 1)};
    for (int i = 0; i < v->rank; i++) all.shape[i] = v->shape[i], all.coord[i] = ix_axis(s->r->g, i, v->shape[i]);
    return view_in_windows(s, v, &all);
}

static Node *sum_of(Rewrite *r, void *pass, Node *n, Node *const *src) {
    (void)pass, (void)src;
    Sums s = {.r = r};
    if (n->kind != G_reduce || n->op != GR_sum || r->constant[n->id] || (n->elem != EL_f32 && n->elem != EL_f64)) return NULL;
    double count = along(n->src[0], n->reduce.axes);
    if (count < 1) return NULL;
    Node *y = summed(&s, n->src[0], n->reduce.axes);
    if (!y || !s.product) y = sum_of_windows(&s, n);
    return y && s.product ? g_name(r->g, g_ew2f(r->g, EW_mul, y, count), n->name) : NULL;
}

void reduce_before_product(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, sum_of, NULL);
}

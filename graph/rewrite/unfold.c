// Windows without rows.
//
// A product reads its left operand in rows of at least 32 bytes, or gathers it element by element. Windows of a picture have
// rows as long as there are channels, and the first layer of a network has three. So what such a product reads is written
// down first, as little of it as makes the rows long enough:
//
//     windows that do not overlap, C <= 8         patches: [N, P, Q, C * R * S], a matrix, and no larger than the picture
//     windows that do, C <= 8                     the innermost taps: [N, H, Q, S * C and zeros up to 16]; what is left to
//                                                 the product are windows of R rows, one pixel wide, with S * C channels
//     windows of many channels that are not       the picture, channels last: this is an input of the model, or comes from
//     innermost                                   something that has another order; those of transposed convolutions, too, whose
//                                                 phases are batches
//
// That is a value with a cast to its own type that says `kept`.

#include "graph/rewrite/rewrite.h"

#include <string.h>

enum { ROW = 16, FEW = 8, LEAST_RESULTS = 16, MOST_ROW = 128 };

// One axis of the sum: a tap if windows move along the dimension that it indexes, else a channel.
typedef struct KAxisUse { int dim; bool tap; } KAxisUse;

typedef struct Windows {
    Node *y;                     // what is read
    int   nm, nk;
    const Ix *at;                // its coordinates: axes 0 .. nm - 1 are places (batches first), then nk of the sum
    bool  plain;                 // no batches, each dimension affine, nothing outside but what is out of range
    KAxisUse use[G_MAX_RANK];
    int   tap;                   // the innermost tap's axis of the sum, -1: there is none
    int   across;                // the axis of places that moves in its dimension
    int64_t channels;
} Windows;

static uint64_t places_mask(const Windows *w) { return (UINT64_C(1) << w->nm) - 1; }

static Node *kept(Graph *g, Node *x, const char *name) {
    if (!x) return NULL;
    Node proto = {.kind = G_cast,
                  .elem = x->elem,
                  .rank = x->rank,
                  .shape = x->shape,
                  .nsrc = 1,
                  .src = &x,
                  .cast = {.kept = true}};
    return g_name(g, node_intern(g, &proto), name);
}

// Windows: each axis of the sum in one dimension, some of them beside the axis of a place.
static bool windows_of(Graph *g, const Node *n, Windows *w) {
    Node *a = n->src[0];
    if (a->kind != G_view || !elem_is_float((Elem)a->elem)) return false;
    *w = (Windows){.y = a->src[0],
                   .nm = n->contract.nb + n->contract.nm,
                   .nk = n->contract.nk,
                   .at = a->view.coord,
                   .plain = n->contract.nb == 0,
                   .tap = -1,
                   .channels = 1};
    Ix inside = ix(g, 1);
    for (int d = 0; d < w->y->rank; d++) {
        inside = ix_and(g, inside, ix_in_range(g, w->at[d], w->y->shape[d]));
        w->plain &= ix_is_affine(w->at[d]);
    }
    bool zero = a->view.fill.is_int ? a->view.fill.i == 0 : a->view.fill.f == 0;
    if (!zero && !ix_is(a->view.pred, 1)) return false;
    w->plain &= ix_among(a->view.pred, inside);
    for (int k = 0; k < w->nk; k++) {
        int dims = 0;
        if (!ix_is_const(a->shape[w->nm + k])) return false;
        for (int d = 0; d < w->y->rank; d++) {
            if (!(w->at[d]->axes >> (w->nm + k) & 1)) continue;
            dims++;
            w->use[k] = (KAxisUse){d, (w->at[d]->axes & places_mask(w)) != 0};
        }
        if (dims != 1) return false;
        if (!w->use[k].tap) w->channels *= a->shape[w->nm + k]->value;
        else if (w->tap < 0 || w->use[k].dim > w->use[w->tap].dim) w->tap = k;
    }
    if (w->tap < 0 || w->channels > 4096) return false;
    uint64_t moves = w->at[w->use[w->tap].dim]->axes & places_mask(w);
    if (!w->plain) return true;
    w->across = moves ? __builtin_ctzll(moves) : -1;
    int along = 0;
    for (int k = 0; k < w->nk; k++) along += w->use[k].dim == w->use[w->tap].dim;
    return moves && !(moves & (moves - 1)) && along == 1;
}

// Are its rows in memory long enough as they are?
static bool has_rows(const Windows *w) {
    int last = w->y->rank - 1;
    while (last > 0 && ix_is(w->y->shape[last], 1)) last--;
    for (int k = 0; k < w->nk; k++)
        if (w->use[k].dim == last && !w->use[k].tap) return w->y->shape[last]->hi >= ROW || w->channels > FEW;
    return false;
}

static const char *name_of(Graph *g, const Node *b, const char *what) {
    while (!b->name && b->nsrc > 0) b = b->src[0];
    return b->name ? arena_printf(g->arena, "%s_%s", b->name, what) : NULL;
}

// Patches: the whole operand as a matrix.
static Node *as_matrix(Graph *g, const Node *n, Node *const *src) {
    Node *a = src[0], *b = src[1];
    int nm = n->contract.nm, nn = n->contract.nn;
    Ix shape[G_MAX_RANK], sum = ix_product(g, a->shape + nm, n->contract.nk);
    for (int i = 0; i < nm; i++) shape[i] = a->shape[i];
    shape[nm] = sum;
    Node *rows = kept(g, g_reshape(g, a, nm + 1, shape), name_of(g, a, "patches"));
    for (int i = 0; i < nn; i++) shape[i] = b->shape[i];
    shape[nn] = sum;
    return g_name(g, g_contract(g, rows, g_reshape(g, b, nn + 1, shape), 0, nm, nn, 1, (Elem)n->elem, n->contract.acc),
                  n->name);
}

// j, which counts innermost taps and then channels, as axes of the sum; the other axes keep theirs in `axis`.
static void count_off(Graph *g, const Windows *w, const Node *a, Ix j, Ix *axis) {
    axis[w->nm + w->tap] = ix_divi(g, j, w->channels);
    Ix channel = ix_modi(g, j, w->channels);
    for (int k = w->nk; k-- > 0;) {
        Ix extent = a->shape[w->nm + k];
        if (w->use[k].tap) continue;
        axis[w->nm + k] = ix_mod(g, channel, extent);
        channel = ix_div(g, channel, extent);
    }
}

// Rows of y, of taps and channels as the innermost tap's windows have them: what a row is, and along which axes of the rows y's dimensions lie.
typedef struct Rows { Ix row, used, of[G_MAX_RANK]; Node *node; } Rows;

// The rows: dimensions of y that are no channels, the innermost as places of windows, and taps and channels.
static bool rows_of(Graph *g, const Windows *w, Node *a, Rows *r) {
    int rank = 0, across = -1, line = w->use[w->tap].dim;
    int64_t used = w->channels * a->shape[w->nm + w->tap]->value;
    Ix shape[G_MAX_RANK], axis[G_MAX_RANK] = {0}, coord[G_MAX_RANK];
    r->row = ix(g, (used + ROW - 1) / ROW * ROW);
    r->used = ix(g, used);
    for (int d = 0; d < w->y->rank; d++) {
        bool channel = false;
        for (int k = 0; k < w->nk; k++) channel |= w->use[k].dim == d && !w->use[k].tap;
        r->of[d] = NULL;
        if (channel) continue;
        if (d == line) across = rank;
        shape[rank] = d == line ? a->shape[w->across] : w->y->shape[d];
        r->of[d] = ix_axis(g, rank, shape[rank]);
        rank++;
    }
    shape[rank] = r->row;
    Ix j = ix_axis(g, rank++, r->row), full = ix_lt(g, j, r->used);
    count_off(g, w, a, j, axis);
    axis[w->across] = ix_axis(g, across, a->shape[w->across]);
    for (int d = 0; d < w->y->rank; d++)
        coord[d] = r->of[d] && d != line ? r->of[d] : ix_substitute(g, w->at[d], axis, G_MAX_RANK);
    if (any_null_ix(coord, w->y->rank)) return false;
    Ix inside = ix_and(g, full, ix_in_range(g, coord[line], w->y->shape[line]));
    for (int d = 0; d < w->y->rank; d++)                     // what counts channels may be taps of a single window, outside of the picture
        if (!r->of[d]) inside = ix_and(g, inside, ix_in_range(g, coord[d], w->y->shape[d]));
    r->node = kept(g, g_view(g, w->y, rank, shape, coord, inside, g_int(0)), name_of(g, w->y, "rows"));
    return true;
}

// Windows of the rows; nk: how many axes of taps are left.
static Node *row_windows(Graph *g, const Windows *w, const Node *a, const Rows *r, int *nk) {
    int nm = w->nm, from = 0, line = w->use[w->tap].dim;
    Ix pred = ix(g, 1), shape[G_MAX_RANK], coord[G_MAX_RANK], mine[G_MAX_RANK] = {0};
    *nk = 0;
    for (int i = 0; i < nm; i++) mine[i] = ix_axis(g, i, shape[i] = a->shape[i]);
    for (int k = 0; k < w->nk; k++) {
        if (!w->use[k].tap || k == w->tap) continue;
        shape[nm + *nk] = a->shape[nm + k];
        mine[nm + k] = ix_axis(g, nm + *nk, a->shape[nm + k]);
        ++*nk;
    }
    shape[nm + *nk] = r->row;
    for (int d = 0; d < w->y->rank; d++) {
        if (!r->of[d]) continue;
        coord[from] = d == line ? mine[w->across] : ix_substitute(g, w->at[d], mine, G_MAX_RANK);
        if (d != line) pred = ix_and(g, pred, ix_in_range(g, coord[from], w->y->shape[d]));
        from++;
    }
    coord[from++] = ix_axis(g, nm + *nk, r->row);
    if (any_null_ix(coord, from)) return NULL;
    return g_view(g, r->node, nm + *nk + 1, shape, coord, pred, g_int(0));
}

// The weights in the same order.
static Node *row_weights(Graph *g, const Windows *w, int nn, const Node *a, Node *b, const Rows *r) {
    int nk = 0;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], axis[G_MAX_RANK] = {0};
    for (int i = 0; i < nn; i++) coord[i] = ix_axis(g, i, shape[i] = b->shape[i]);
    for (int k = 0; k < w->nk; k++) {
        if (!w->use[k].tap || k == w->tap) continue;
        shape[nn + nk] = b->shape[nn + k];
        coord[nn + k] = ix_axis(g, nn + nk, b->shape[nn + k]);
        nk++;
    }
    shape[nn + nk] = r->row;
    Ix j = ix_axis(g, nn + nk, r->row);
    count_off(g, w, a, j, axis);
    for (int k = 0; k < w->nk; k++)
        if (!w->use[k].tap || k == w->tap) coord[nn + k] = axis[w->nm + k];
    return g_name(g, g_view(g, b, nn + nk + 1, shape, coord, ix_lt(g, j, r->used), g_int(0)), name_of(g, b, "rows"));
}

static Node *innermost_taps(Graph *g, const Windows *w, const Node *n, Node *const *src) {
    int nn = n->contract.nn, nk = 0;
    Rows r;
    if (!rows_of(g, w, src[0], &r)) return NULL;
    Node *windows = row_windows(g, w, src[0], &r, &nk);
    if (windows == NULL) return NULL;
    Node *weights = row_weights(g, w, nn, src[0], src[1], &r);
    return g_name(g, g_contract(g, windows, weights, 0, w->nm, nn, nk + 1, (Elem)n->elem, n->contract.acc), n->name);
}

// The same windows of a picture that has its channels last (choose_axis_order then sums in that order).
static Node *channels_last(Graph *g, const Windows *w, const Node *n, Node *const *src) {
    Node *a = src[0], *y = w->y;
    Ix shape[G_MAX_RANK], at[G_MAX_RANK], coord[G_MAX_RANK];
    int rank = 0;
    for (int last = 0; last < 2; last++)
        for (int d = 0; d < y->rank; d++) {
            bool channel = false;
            for (int k = 0; k < w->nk; k++) channel |= w->use[k].dim == d && !w->use[k].tap;
            if (channel != (last == 1)) continue;
            shape[rank] = y->shape[d];
            coord[rank] = w->at[d];
            at[d] = ix_axis(g, rank, shape[rank]);
            rank++;
        }
    Node *picture = kept(g, g_view(g, y, rank, shape, at, NULL, g_int(0)), name_of(g, y, "channels_last"));
    a = g_view(g, picture, a->rank, a->shape, coord, a->view.pred, a->view.fill);
    return g_name(g, g_contract(g, a, src[1], n->contract.nb, n->contract.nm, n->contract.nn, w->nk, (Elem)n->elem, n->contract.acc),
                  n->name);
}

// Channels are whole dimensions, and no batch or place moves along one: then another order of them is only another order.
static bool whole_channels(const Windows *w) {
    bool whole = w->channels > FEW;
    for (int k = 0; k < w->nk; k++) {
        Ix at = w->at[w->use[k].dim];
        whole &= w->use[k].tap || (at->kind == IX_AXIS && at->value == w->nm + k);
    }
    return whole;
}

static Node *unfolded(Rewrite *r, void *pass, Node *n, Node *const *src) {
    (void)pass;
    Graph *g = r->g;
    Windows w;
    if (n->kind != G_contract || !r->constant[n->src[1]->id] || r->constant[n->src[0]->id]) return NULL;
    Node proto = *n;
    proto.src = src;
    Ix results = ix_product(g, n->shape + n->contract.nb + n->contract.nm, n->contract.nn);
    if (!results || results->lo < LEAST_RESULTS || !windows_of(g, &proto, &w) || has_rows(&w)) return NULL;
    bool kept_already = w.y->kind == G_cast && w.y->cast.kept;
    if (!w.plain) return whole_channels(&w) && !kept_already ? channels_last(g, &w, n, src) : NULL;
    if (w.channels <= FEW && ix_prove_le(g, g_count(g, src[0]), g_count(g, w.y))) return as_matrix(g, n, src);
    int64_t row = w.channels * src[0]->shape[w.nm + w.tap]->value;
    if (w.channels <= FEW) return row <= MOST_ROW ? innermost_taps(g, &w, n, src) : NULL;
    return kept_already ? NULL : channels_last(g, &w, n, src);
}

void unfold_windows(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, unfolded, NULL);
}

// Pictures whose pixels were shuffled out of channels.
//
//     y[b, h, w, k * 4 + i * 2 + j]  is pixel (2 h + i, 2 w + j) of channel k; or it is y[b, h, w, (i * 2 + j) * C + k]
//
// A convolution over that picture sums over k, which moves by 4 there: it would gather element by element, or row by row. So the picture is stored as what it is: i
// goes behind h and j behind w, the digits that they are of, and k is last; the product before it stores its result so.
//
//     y[b, (r + p + 1) / 2 - 1, (s + q + 1) / 2 - 1, k * 4 + (r + p + 1) % 2 * 2 + (s + q + 1) % 2]
//     z[b, (r + p + 1) / 2 - 1, (r + p + 1) % 2, (s + q + 1) / 2 - 1, (s + q + 1) % 2, k]           which is [b, r + p - 1, s + q - 1, k] of whole pixels
//
// Digits that are of no dimension stand before k. The same goes where they have dimensions of their own behind k, and for any product of weights whose left
// operand has what is summed over some elements apart.
#include "graph/rewrite/rewrite.h"

#include "lang/launch.h"

enum { LEAST = 16, MOST_DIGITS = 4 };

// Of a place in the channel's dimension, beside the channel: c * (x % n); or a dimension within it, `of`.
typedef struct Digit { int64_t weight; Ix extent, place; int behind, of; } Digit;

typedef struct Shuffled {
    Node *y;
    const Ix *at;
    int   dim, axis;                     // the channel's dimension, and the axis of the sum that moves there
    int64_t step, channels, extent;      // of the dimension
    int   n;
    Digit digit[MOST_DIGITS];            // greatest first
} Shuffled;

// The dimension that `place` is the remainder of: x / n there, put together x.
static int dimension_of(Graph *g, const Shuffled *s, const Digit *d) {
    for (int i = 0; i < s->dim; i++) {
        Ix whole = ix_add(g, ix_mul(g, s->at[i], d->extent), d->place);
        if (whole && ix_quotients(whole) + 2 <= ix_quotients(s->at[i]) + ix_quotients(d->place)) return i;
    }
    return -1;
}

// What is added to step * channel, as remainders in mixed radix; or as one number.
static bool digits_of(Graph *g, Shuffled *s, Ix rest) {
    int before = s->n;
    if (s->extent == s->channels) return ix_is(rest, 0);
    if (!rest->has_axis) return false;                       // a part of all channels
    bool sum = rest->kind == IX_SUM;
    int64_t radix = s->step > 1 ? s->step : s->extent, least = s->step > 1 ? 1 : s->channels;       // channels by the greater weight, or by the least
    while (radix > least && s->n < MOST_DIGITS) {
        Digit d = {0};
        for (uint32_t i = 0; i < (sum ? rest->n : 1); i++) {
            Ix m = sum ? rest->arg[i] : rest;
            int64_t c = sum ? rest->coef[i] : 1;
            if (m->kind == IX_MOD && m->arg[1]->kind == IX_CONST && c * m->arg[1]->value == radix) d = (Digit){c, m->arg[1], m, -1, -1};
        }
        if (!d.place) break;
        s->digit[s->n++] = d;
        radix = d.weight;
    }
    bool all = radix == least && (uint32_t)(s->n - before) == (sum ? rest->n : 1) && (!sum || rest->value == 0);
    for (int i = before; i < s->n && all; i++) s->digit[i].behind = dimension_of(g, s, &s->digit[i]);
    if (all) return true;
    if (before == MOST_DIGITS || s->step == 1) return false;
    s->digit[before] = (Digit){1, ix(g, s->step), rest, -1, -1};
    s->n = before + 1;
    return ix_prove_ge0(g, rest) && ix_prove_lt(g, rest, ix(g, s->step));
}

// The dimensions within the channel's, if remainders are all that they count.
static bool digits_within(Graph *g, Shuffled *s) {
    for (int d = s->dim + 1; d < s->y->rank; d++) {
        if (ix_is(s->y->shape[d], 1) && ix_is(s->at[d], 0)) continue;
        if (s->n == MOST_DIGITS || s->at[d]->kind != IX_MOD || s->y->shape[d]->kind != IX_CONST || s->at[d]->arg[1] != s->y->shape[d]) return false;
        s->digit[s->n] = (Digit){0, s->y->shape[d], s->at[d], -1, d};
        s->digit[s->n].behind = dimension_of(g, s, &s->digit[s->n]);
        s->n++;
    }
    return true;
}

static bool shuffled_of(Graph *g, const Node *n, Node *a, Shuffled *s) {
    int first = n->contract.nb + n->contract.nm;
    if (a->kind != G_view || !elem_is_float((Elem)a->elem)) return false;
    *s = (Shuffled){.y = a->src[0], .at = a->view.coord, .axis = -1};
    if (s->y->kind == G_cast && s->y->cast.kept) return false;
    Ix rest = NULL;
    for (int k = first; k < first + n->contract.nk && s->axis < 0; k++) {
        int dim = -1, dims = 0;
        for (int d = 0; d < s->y->rank; d++) if (s->at[d]->axes >> k & 1) dim = d, dims++;
        Ix left, step = dims == 1 ? ix_coefficient(g, s->at[dim], k, &left) : NULL;
        if (!step || step->kind != IX_CONST || a->shape[k]->kind != IX_CONST || a->shape[k]->value < LEAST) continue;
        int64_t channels = a->shape[k]->value, extent = s->y->shape[dim]->kind == IX_CONST ? s->y->shape[dim]->value : 0;
        if (step->value > 1 ? extent != step->value * channels : extent < channels || extent % channels) continue;
        s->dim = dim, s->axis = k, s->step = step->value, s->channels = channels, s->extent = extent, rest = left;
    }
    return s->axis >= 0 && s->dim > 0 && digits_within(g, s) && (s->extent > s->channels || s->n > 0) && digits_of(g, s, rest);
}

// ---- the product before it --------------------------------------------------------------------------------------------
//
// Its columns are the channels: in the order (i, j, k) they leave side by side. The weights take that order, which costs nothing, and what is computed of the
// product element by element with them.

// How far apart a channel's columns are.
static int64_t columns_apart(const Shuffled *s) {
    int64_t step = s->step;
    for (int i = 0; i < s->n; i++) if (s->digit[i].of >= 0) step *= s->digit[i].extent->value;
    return step;
}

static bool has_product(const Node *x) {
    while (x->kind == G_ew || x->kind == G_cast || x->kind == G_view) {
        uint32_t i = 0;
        while (i + 1 < x->nsrc && !has_product(x->src[i])) i++;
        x = x->src[i];
    }
    return x->kind == G_contract;
}

// Is y computed element by element of one product of weights with so many columns, or of views of all of it, and is all on the way read by nobody else?
static bool of_product(const Rewrite *r, const Node *y, int64_t columns) {
    enum { MOST = 16 };
    const Node *at[MOST] = {y}, *product = NULL;
    int n = 1, uses[MOST] = {1};
    for (int i = 0; i < n; i++) {
        bool through = at[i]->kind == G_ew || at[i]->kind == G_cast || (at[i]->kind == G_view && ix_is(at[i]->view.pred, 1) && g_count(r->g, at[i]) == g_count(r->g, at[i]->src[0]));
        if (!through && (at[i]->kind != G_contract || (product && product != at[i]))) return false;
        if (!through) product = at[i];
        for (uint32_t k = 0; through && k < at[i]->nsrc; k++) {
            const Node *x = at[i]->src[k];
            int to = 0;
            if (r->constant[x->id]) continue;
            while (to < n && at[to] != x) to++;
            if (to == MOST) return false;
            if (to == n) at[n++] = x, uses[to] = 0;
            uses[to]++;
        }
    }
    for (int i = 0; i < n; i++) if (r->users[at[i]->id] != uses[i]) return false;
    return product && r->constant[product->src[1]->id] && product->contract.nb == 0 && product->contract.nn == 1 && ix_is(product->shape[product->rank - 1], columns);
}

// Where in the order (rest, channel) what is at `place` of (channel, rest) stands.
static Ix moved(Graph *g, Ix place, int64_t channels, int64_t step) {
    return ix_add(g, ix_muli(g, ix_modi(g, place, step), channels), ix_divi(g, place, step));
}

// The product with its columns in that order, seen as before.
static Node *reordered(Graph *g, const Node *product, int64_t channels, int64_t step) {
    Node *b = product->src[1], *src[2] = {product->src[0]}, proto = *product;
    int last = product->rank - 1;
    Ix coord[G_MAX_RANK];
    for (int i = 0; i < b->rank; i++) coord[i] = ix_axis(g, i, b->shape[i]);
    coord[0] = ix_add(g, ix_muli(g, ix_modi(g, coord[0], channels), step), ix_divi(g, coord[0], channels));
    src[1] = any_null_ix(coord, b->rank) ? NULL : g_view(g, b, b->rank, b->shape, coord, NULL, g_int(0));
    proto.src = src;
    if (!src[1]) return NULL;
    Node *y = g_name(g, node_intern(g, &proto), product->name);
    for (int i = 0; i < product->rank; i++) coord[i] = ix_axis(g, i, product->shape[i]);
    coord[last] = moved(g, coord[last], channels, step);
    return coord[last] ? g_view(g, y, product->rank, product->shape, coord, NULL, g_int(0)) : NULL;
}

// x, computed of the product in that order.
static Node *computed(Graph *g, Node *x, int64_t channels, int64_t step) {
    Node *src[3], proto = *x;
    if (!has_product(x)) return x;
    if (x->from) g_at_node(g, x);
    if (x->kind == G_contract) return reordered(g, x, channels, step);
    if (x->nsrc > 3) return NULL;
    for (uint32_t i = 0; i < x->nsrc; i++) if (!(src[i] = computed(g, x->src[i], channels, step))) return NULL;
    if (x->from) g_at_node(g, x);
    if (x->kind == G_view) return g_view(g, src[0], x->rank, x->shape, x->view.coord, x->view.pred, x->view.fill);
    proto.src = src;
    return g_name(g, node_intern(g, &proto), x->name);
}

static Node *in_pixels(Rewrite *r, void *pass, Node *n, Node *const *src) {
    (void)pass;
    Graph *g = r->g;
    Shuffled s;
    if (n->kind != G_contract || !r->constant[n->src[1]->id] || r->constant[n->src[0]->id] || !shuffled_of(g, n, src[0], &s)) return NULL;
    Node *a = src[0], *y = s.y;
    if (y->rank + s.n > MAX_RANK) return NULL;                // what a tensor of a program has at most
    Ix shape[G_MAX_RANK], own[G_MAX_RANK], coord[G_MAX_RANK], inner = ix(g, 0);
    int rank = 0;
    for (int d = s.dim; d < y->rank; d++) own[d] = ix(g, 0);
    for (int d = 0; d <= s.dim; d++) {                       // then a dimension's digits, and before the channel those that are of none
        if (d < s.dim) {
            coord[rank] = s.at[d];
            own[d] = ix_axis(g, rank, shape[rank] = y->shape[d]);
            rank++;
        }
        for (int i = 0; i < s.n; i++) {
            const Digit *digit = &s.digit[i];
            if (digit->behind != (d < s.dim ? d : -1)) continue;
            coord[rank] = digit->place;
            Ix axis = ix_axis(g, rank, shape[rank] = digit->extent);
            if (digit->of < 0) inner = ix_add(g, inner, ix_muli(g, axis, digit->weight));
            else own[digit->of] = axis;
            rank++;
        }
    }
    coord[rank] = ix_axis(g, s.axis, a->shape[s.axis]);
    own[s.dim] = ix_add(g, inner, ix_muli(g, ix_axis(g, rank, shape[rank] = a->shape[s.axis]), s.step));
    rank++;
    if (any_null_ix(own, y->rank) || any_null_ix(coord, rank)) return NULL;
    int64_t step = columns_apart(&s);
    if (step > 1 && n->src[0]->kind == G_view && of_product(r, n->src[0]->src[0], step * s.channels)) {
        y = computed(g, y, s.channels, step);
        g_at_node(g, n);
        if (!y) return NULL;
    }
    Node *z = g_view(g, y, rank, shape, own, NULL, g_int(0));
    z = z ? g_kept(g, z, (Elem)z->elem) : NULL;
    a = z ? g_view(g, z, a->rank, a->shape, coord, a->view.pred, a->view.fill) : NULL;
    return a ? g_name(g, g_contract(g, a, src[1], n->contract.nb, n->contract.nm, n->contract.nn, n->contract.nk, (Elem)n->elem, n->contract.acc), n->name) : NULL;
}

void unshuffle_pixels(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, in_pixels, NULL);
}

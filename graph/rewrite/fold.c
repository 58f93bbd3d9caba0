// What follows a product of weights and is linear in each of its output channels goes into the weights.
//
//     y = (product(x, w) + b - mean) * scale + shift              scale, shift, mean, b: one number a channel, constants
//       = product(x, w * scale) + ((b - mean) * scale + shift)
//
// A convolution, a transposed one, Gemm and MatMul are all a product with weights here, and batch normalisation is
// subtractions, multiplications and additions, whoever wrote it down and in whatever order; so there is one rule. On the way
// from a product, as long as nothing else reads the value, `Linear` keeps it as scale * product + shift, with both as values
// of the product's channels. The new weights are nodes made of constants alone, which a program computes once, when
// its weights are loaded (fuse.c); they need not be there when it is written.
//
// A factor that is the same for all channels stays where it is: that costs nothing, and the weights stay as they are.

#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

#include <string.h>

typedef struct Linear {
    Node     *product;           // NULL: the value is not of this form
    const Ix *place;             // of the product's element, in axes of the value
    Node     *scale, *shift;     // of the product's channels [b.., n..]; NULL: 1, 0
    bool      extended;          // its only user is of this form, too
} Linear;

typedef struct Fold { Rewrite *r; Linear *of; } Fold;        // by node id

static int channels(const Node *p, Ix *shape) {                // the axes of p that its weights have
    int n = 0;
    for (int i = 0; i < p->rank; i++)
        if (i < p->contract.nb || i >= p->contract.nb + p->contract.nm) shape[n++] = p->shape[i];
    return n;
}

static Elem sums(const Node *p) { return p->contract.acc; }

// k, a constant against a value of form v and rank `rank`, as a value of the product's channels; NULL: it differs along
// others.
static Node *by_channel(Graph *g, const Linear *v, const Node *x, Node *k) {
    const Node *p = v->product;
    Ix shape[G_MAX_RANK], axis[G_MAX_RANK], inverse[G_MAX_RANK], at[G_MAX_RANK], coord[G_MAX_RANK];
    GNum number;
    int n = channels(p, shape), nb = p->contract.nb, nm = p->contract.nm;
    if (g_scalar_value(k, &number)) return g_full(g, sums(p), n, shape, number);
    for (int i = 0; i < x->rank; i++) axis[i] = ix_axis(g, i, x->shape[i]);
    if (!map_invert(g, p->rank, p->shape, v->place, x->rank, axis, inverse)) return NULL;
    for (int i = 0; i < p->rank; i++) {                      // places of the product as axes of its channels
        bool channel = i < nb || i >= nb + nm;
        at[i] = channel ? ix_axis(g, i < nb ? i : i - nm, p->shape[i]) : ix_axis(g, G_MAX_RANK + i, p->shape[i]);
    }
    Node *y = k;
    for (int i = 0; i < x->rank; i++) coord[i] = ix_substitute(g, inverse[i], at, p->rank);
    if (k->kind == G_view) {
        if (!ix_is(k->view.pred, 1)) return NULL;
        Ix through[G_MAX_RANK];
        for (int i = 0; i < k->src[0]->rank; i++) through[i] = ix_substitute(g, k->view.coord[i], coord, k->rank);
        y = k->src[0];
        memcpy(coord, through, (size_t)y->rank * sizeof *coord);
    }
    for (int i = 0; i < y->rank; i++)
        if (!coord[i] || coord[i]->axes >> G_MAX_RANK) return NULL;
    return g_cast(g, g_view(g, y, n, shape, coord, NULL, g_int(0)), sums(p));
}

static Node *times(Graph *g, Node *a, Node *b) { return a ? g_ew2(g, EW_mul, a, b) : b; }
static Node *plus(Graph *g, Node *a, Node *b) { return a ? g_ew2(g, EW_add, a, b) : b; }
static Node *negated(Graph *g, Node *a) { return a ? g_ew1(g, EW_neg, a) : NULL; }

// x OP k, with x of form v.
static bool apply(Graph *g, GEw op, bool constant_first, Node *k, Linear *v) {
    if (!k || (op == EW_div && constant_first)) return false;
    if (op == EW_mul || op == EW_div) {
        Node *factor = op == EW_mul ? k : g_ew2(g, EW_div, g_f(g, (Elem)k->elem, 1), k);
        v->scale = times(g, v->scale, factor);
        v->shift = v->shift ? times(g, v->shift, factor) : NULL;
        return true;
    }
    if (op == EW_sub && constant_first) {
        v->scale = v->scale ? negated(g, v->scale) : g_full(g, (Elem)k->elem, k->rank, k->shape, g_float(-1));
        v->shift = negated(g, v->shift);
    }
    v->shift = plus(g, v->shift, op == EW_sub && !constant_first ? negated(g, k) : k);
    return true;
}

// The form of a node, from that of its sources.
static Linear form_of(Fold *f, Node *n) {
    Graph *g = f->r->g;
    Linear none = {0}, v;
    if (n->kind == G_contract) {
        bool weights = f->r->constant[n->src[1]->id] && !f->r->constant[n->src[0]->id] && elem_is_float(n->contract.acc);
        Ix place[G_MAX_RANK];
        for (int i = 0; i < n->rank; i++) place[i] = ix_axis(g, i, n->shape[i]);
        return weights ? (Linear){.product = n, .place = copy_ixs(g, place, n->rank)} : none;
    }
    for (uint32_t i = 0; i < n->nsrc; i++) {
        const Node *x = n->src[i];
        v = f->of[x->id];
        if (!v.product || f->r->users[x->id] != 1) continue;
        if (n->kind == G_cast) return elem_is_float((Elem)n->elem) && !n->cast.kept ? v : none;
        if (n->kind == G_view && ix_is(n->view.pred, 1)) {
            Ix place[G_MAX_RANK];
            for (int k = 0; k < v.product->rank; k++)
                if (!(place[k] = ix_substitute(g, v.place[k], n->view.coord, x->rank))) return none;
            v.place = copy_ixs(g, place, v.product->rank);
            return v;
        }
        bool linear = n->kind == G_ew && (n->op == EW_add || n->op == EW_sub || n->op == EW_mul || n->op == EW_div);
        if (linear && f->r->constant[n->src[1 - i]->id] &&
            apply(g, (GEw)n->op, i == 1, by_channel(g, &v, n, n->src[1 - i]), &v))
            return v;
    }
    return none;
}

// Is it one number for all channels?
static bool uniform(Graph *g, const Node *n) {
    bool all = n->kind == G_view || n->kind == G_ew || n->kind == G_cast;
    for (uint32_t i = 0; i < n->nsrc && all; i++) all = uniform(g, n->src[i]);
    return all || ix_is(g_count(g, n), 1);
}

static Node *fold(Rewrite *r, void *pass, Node *n, Node *const *src) {
    (void)src;
    const Linear *v = &((Fold *)pass)->of[n->id];
    Graph *g = r->g;
    if (!v->product || v->extended || !v->scale || uniform(g, v->scale)) return NULL;
    const Node *p = v->product;
    Node *w = r->to[p->src[1]->id];
    int nb = p->contract.nb, nm = p->contract.nm, nn = p->contract.nn, axis[G_MAX_RANK];
    for (int i = 0; i < nb + nn; i++) axis[i] = i;
    Node *scale = g_broadcast_to(g, v->scale, w->rank, w->shape, axis);
    Node *folded = g_cast(g, g_ew2(g, EW_mul, g_cast(g, w, sums(p)), scale), (Elem)w->elem);
    Node *y = g_contract(g, r->to[p->src[0]->id], folded, nb, nm, nn, p->contract.nk, sums(p), sums(p));
    y = g_view(g, y, n->rank, n->shape, v->place, NULL, g_int(0));
    if (v->shift) {
        Ix at[G_MAX_RANK];
        int channel = 0;
        for (int i = 0; i < p->rank; i++)
            if (i < nb || i >= nb + nm) at[channel++] = v->place[i];
        y = g_ew2(g, EW_add, y, g_view(g, v->shift, n->rank, n->shape, at, NULL, g_int(0)));
    }
    return g_name(g, g_cast(g, y, (Elem)n->elem), n->name);
}

void fold_scales(Graph *g) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return;
    Fold f = {&r, NEW_N(g->arena, Linear, r.n)};
    for (uint32_t i = 0; i < r.n; i++) {
        Node *n = g->nodes.at[i];
        if (!r.alive[i] || r.constant[i]) continue;
        g_at_node(g, n);
        f.of[i] = form_of(&f, n);
        for (uint32_t k = 0; k < n->nsrc && f.of[i].product; k++)
            if (f.of[n->src[k]->id].product == f.of[i].product) f.of[n->src[k]->id].extended = true;
    }
    if (!g_failed(g)) rewrite_all(&r, fold, &f);
}

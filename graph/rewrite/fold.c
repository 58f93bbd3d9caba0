// What follows a product of weights and is linear in each of its output channels goes into the weights.
//
//     y = (product(x, w) + b - mean) * scale + shift              scale, shift, mean, b: one number a channel, constants
//       = product(x, w * scale) + ((b - mean) * scale + shift)
//
// A convolution, a transposed one, Gemm and MatMul are all a product with weights here, and batch normalisation is
// subtractions, multiplications and additions, whoever wrote it down and in whatever order; so there is one rule. On the way
// from a product, as long as nothing else reads the value, `Linear` keeps it as scale * product + before + after, with all three as
// values of the product's channels. The new weights are nodes made of constants alone, which a program computes once, when
// its weights are loaded (fuse.c).
//
// A factor that is the same for all channels stays where it is: that costs nothing, and the weights stay as they are.
//
// Range (range.c). A scale above 1 that goes into the weights makes all terms of the sum larger, and may take them past the end where the
// model's sum was in range. So the weights get the scales over 2^e, the power of two that the greatest reaches, and what is added before
// the last scale as well; the sum is multiplied by 2^e behind that, which is exact and one instruction with what is added:
//
//     y = (product(x, w * scale / 2^e) + before / 2^e) * 2^e + after
//
// No term is larger than the model's, and (..) is no larger than the model's value at that place. At the small end each channel's weights
// have to keep their bits. Both are asked of the numbers themselves: where the scales are not known now, the scale stays behind the product.

#include "graph/fuse/fuse.h"
#include "graph/rewrite/range.h"
#include "graph/rewrite/rewrite.h"

#include <math.h>
#include <string.h>

typedef struct Linear {
    Node     *product;           // NULL: the value is not of this form
    const Ix *place;             // of the product's element, in axes of the value
    Node     *scale, *before, *after;    // of the product's channels [b.., n..]; NULL: 1, 0, 0; before: added up to the last scale
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
static Node *plus(Graph *g, Node *a, Node *b) { return a && b ? g_ew2(g, EW_add, a, b) : a ? a : b; }
static Node *negated(Graph *g, Node *a) { return a ? g_ew1(g, EW_neg, a) : NULL; }

// x OP k, with x of form v.
static bool apply(Graph *g, GEw op, bool constant_first, Node *k, Linear *v) {
    if (!k || (op == EW_div && constant_first)) return false;
    if (op == EW_mul || op == EW_div) {
        Node *factor = op == EW_mul ? k : g_ew2(g, EW_div, g_f(g, (Elem)k->elem, 1), k), *sum = plus(g, v->before, v->after);
        v->scale = times(g, v->scale, factor);
        v->before = sum ? times(g, sum, factor) : NULL;
        v->after = NULL;
        return true;
    }
    if (op == EW_sub && constant_first) {
        v->scale = v->scale ? negated(g, v->scale) : g_full(g, (Elem)k->elem, k->rank, k->shape, g_float(-1));
        v->before = negated(g, v->before);
        v->after = negated(g, v->after);
    }
    v->after = plus(g, v->after, op == EW_sub && !constant_first ? negated(g, k) : k);
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

// The exponent of the power of two that no scale exceeds, at least 0; -1: scales or sums are not known, or not in range.
static int exponent_of(Graph *g, const Linear *v) {
    double least, most, end = 0x1p126, sum;
    int e;
    if (!range_of_constant(g, v->scale, &least, &most) || !(most < end)) return -1;
    if (v->before && (!range_of_constant(g, v->before, &least, &sum) || !(sum < end))) return -1;
    if (v->after && (!range_of_constant(g, v->after, &least, &sum) || !(sum < end))) return -1;
    return frexp(most, &e) == 0.5 ? e - 1 > 0 ? e - 1 : 0 : e > 0 ? e : 0;
}

// Do the weights of each channel keep their bits in the type that they will have? Those that 0 multiplies have none to keep.
static bool keeps_bits(Graph *g, const Node *p, Node *scale, int e) {
    Node *w = g->nodes.at[p->src[1]->id];
    Elem as = range_operand(g, w);
    double least, most, enough = as == EL_f16 ? 0x1p-13 : 0x1p-100;
    int64_t count;
    int kept = p->contract.nb + p->contract.nn, axis[G_MAX_RANK];
    if (range_of_constant(g, scale, &least, &most) && as != EL_f16 && ldexp(least, -e) >= 0x1p-8) return true;
    if (!ix_const(g_count(g, w), &count) || count > 1 << 22) return false;
    uint32_t summed = ((1u << w->rank) - 1) & ~((1u << kept) - 1);
    for (int i = 0; i < kept; i++) axis[i] = i;
    Node *wide = g_ew1(g, EW_abs, g_cast(g, w, EL_f64)), *by = g_broadcast_to(g, g_ew1(g, EW_abs, g_cast(g, scale, EL_f64)), w->rank, w->shape, axis);
    Node *each = g_reduce(g, GR_max, g_ew2(g, EW_mul, wide, by), summed, false);
    return range_of_constant(g, each, &least, &most) && most - most == 0 && ldexp(least, -e) >= enough;
}

static Node *fold(Rewrite *r, void *pass, Node *n, Node *const *src) {
    (void)src;
    const Linear *v = &((Fold *)pass)->of[n->id];
    Graph *g = r->g;
    if (!v->product || v->extended || !v->scale || uniform(g, v->scale)) return NULL;
    const Node *p = v->product;
    int e = exponent_of(g, v);
    if (e < 0 || !keeps_bits(g, p, v->scale, e)) return NULL;
    Node *w = r->to[p->src[1]->id];
    int nb = p->contract.nb, nm = p->contract.nm, nn = p->contract.nn, axis[G_MAX_RANK];
    for (int i = 0; i < nb + nn; i++) axis[i] = i;
    Node *by = e ? g_ew2f(g, EW_mul, v->scale, ldexp(1, -e)) : v->scale, *scale = g_broadcast_to(g, by, w->rank, w->shape, axis);
    Node *folded = g_cast(g, g_ew2(g, EW_mul, g_cast(g, w, sums(p)), scale), (Elem)w->elem);
    Node *y = g_contract(g, r->to[p->src[0]->id], folded, nb, nm, nn, p->contract.nk, sums(p), sums(p));
    Ix at[G_MAX_RANK];
    int channel = 0;
    for (int i = 0; i < p->rank; i++)
        if (i < nb || i >= nb + nm) at[channel++] = v->place[i];
    Node *before = e && v->before ? g_ew2f(g, EW_mul, v->before, ldexp(1, -e)) : e ? NULL : plus(g, v->before, v->after), *after = e ? v->after : NULL;
    y = g_view(g, y, n->rank, n->shape, v->place, NULL, g_int(0));
    if (before) y = g_ew2(g, EW_add, y, g_view(g, before, n->rank, n->shape, at, NULL, g_int(0)));
    if (e) y = g_ew2f(g, EW_mul, y, ldexp(1, e));
    if (after) y = g_ew2(g, EW_add, y, g_view(g, after, n->rank, n->shape, at, NULL, g_int(0)));
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

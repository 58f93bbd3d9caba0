// Attention, recognised by what it computes: a product whose left operand is a softmax along the contracted axis.
//
//     CONTRACT(softmax(S over n), V over n)        with S anything, usually CONTRACT(q, k) * scale + mask
//
// The softmax is found as exp(S - max(S over n)) / sum(.. over n), through views, casts, and the guard that exporters put
// around it for rows in which everything is masked, where(isnan(w), 0, w) or where(max(S) == -inf, 0, w). Exporters
// write q, k, v, heads and masks in many ways; all of those are views and elementwise expressions around this shape,
// and do not matter here.

#include "graph/fuse/fuse.h"

#include "graph/internal.h"

#include <math.h>
#include <string.h>

// x without casts between floats.
static Node *uncast(Node *x) {
    while (x->kind == G_cast && elem_is_float((Elem)x->elem) && elem_is_float((Elem)x->src[0]->elem)) x = x->src[0];
    return x;
}

// Is x a reduction of `of` along one axis, put back in its place? The axis, or -1.
static int reduced_along(Graph *g, Node *x, GReduce op, const Node *of) {
    x = uncast(x);
    if (x->kind != G_view || !ix_is(x->view.pred, 1)) return -1;
    Node *r = uncast(x->src[0]);
    if (r->kind != G_reduce || r->op != op || uncast(r->src[0]) != of || __builtin_popcount(r->reduce.axes) != 1) return -1;
    int axis = __builtin_ctz(r->reduce.axes);
    for (int i = 0, at = 0; i < of->rank; i++) {
        if (i == axis) continue;
        if (x->view.coord[at++] != ix_axis(g, i, of->shape[i])) return -1;
    }
    return axis;
}

// The scores of a softmax, and its axis; NULL: it is none.
static Node *softmax_of(Graph *g, Node *x, int *axis) {
    if (x->kind != G_ew || x->op != EW_div) return NULL;
    Node *e = uncast(x->src[0]);
    *axis = reduced_along(g, x->src[1], GR_sum, e);
    if (*axis < 0 || e->kind != G_ew || e->op != EW_exp) return NULL;
    Node *d = uncast(e->src[0]);
    if (d->kind != G_ew || d->op != EW_sub) return NULL;
    Node *s = uncast(d->src[0]);
    return reduced_along(g, d->src[1], GR_max, s) == *axis ? s : NULL;
}

bool attention_softmax(Graph *g, const Node *n) {
    Node *x = g->nodes.at[n->id];
    int axis;
    return softmax_of(g, x, &axis) != NULL;
}

// Does c say of each row of s, along `axis`, that its maximum is -inf? c has the shape of s.
static bool says_nothing_there(Graph *g, Node *c, const Node *s, int axis) {
    Ix at[G_MAX_RANK], through[G_MAX_RANK];
    GNum v;
    bool equal = false;
    for (int i = 0; i < s->rank; i++) at[i] = ix_axis(g, i, s->shape[i]);
    for (;;) {
        if (c->kind == G_view && ix_is(c->view.pred, 1)) {
            for (int i = 0; i < c->src[0]->rank; i++) through[i] = ix_substitute(g, c->view.coord[i], at, c->rank);
            c = c->src[0];
            memcpy(at, through, (size_t)c->rank * sizeof *at);
        } else if (uncast(c) != c) {
            c = uncast(c);
        } else if (!equal && c->kind == G_ew && c->op == EW_eq && g_scalar_value(c->src[1], &v) && !v.is_int &&
                   isinf(v.f) && v.f < 0) {
            equal = true;
            c = c->src[0];
        } else {
            break;
        }
    }
    if (!equal || c->kind != G_reduce || c->op != GR_max || uncast(c->src[0]) != s || c->reduce.axes != 1u << axis)
        return false;
    for (int i = 0, k = 0; i < s->rank; i++)
        if (i != axis && at[k++] != ix_axis(g, i, s->shape[i])) return false;
    return true;
}

// w of where(isnan(w), 0, w), or, of a softmax w, of where(maximum of the scores == -inf, 0, w)
static Node *unguarded(Graph *g, Node *x) {
    GNum v;
    int axis;
    if (x->kind != G_ew || x->op != EW_where || !g_scalar_value(x->src[1], &v) || (v.is_int ? v.i != 0 : v.f != 0))
        return NULL;
    Node *c = x->src[0], *w = x->src[2];
    if (c->kind == G_ew && c->op == EW_isnan && uncast(c->src[0]) == uncast(w)) return w;
    Node *s = softmax_of(g, uncast(w), &axis);
    return s && says_nothing_there(g, c, s, axis) ? w : NULL;
}

bool attention_match(Graph *g, const Node *product, const Ix *place, Attention *to) {
    Ix at[G_MAX_RANK];
    Node *x = product->src[0];
    int nk = product->contract.nk, axis;
    if (nk != 1 || !elem_is_float((Elem)x->elem) || x->elem == EL_f64) return false;
    memcpy(at, place, (size_t)x->rank * sizeof *at);
    Ix along = place[x->rank - 1];
    to->guarded = false;
    for (;;) {
        Node *w;
        if (x->kind == G_view && ix_is(x->view.pred, 1)) {
            Ix through[G_MAX_RANK];
            for (int i = 0; i < x->src[0]->rank; i++) through[i] = ix_substitute(g, x->view.coord[i], at, x->rank);
            x = x->src[0];
            memcpy(at, through, (size_t)x->rank * sizeof *at);
        } else if (uncast(x) != x) {
            x = uncast(x);
        } else if ((w = unguarded(g, x))) {
            x = w;
            to->guarded = true;
        } else {
            break;
        }
    }
    Node *s = softmax_of(g, x, &axis);
    // of all keys that the softmax is of
    if (!s || along->kind != IX_AXIS || at[axis] != along || along->arg[0] != s->shape[axis]) return false;
    for (int i = 0; i < x->rank; i++)
        if (i != axis && (!at[i] || at[i]->axes >> along->value & 1)) return false;
    to->score = s;
    to->place = copy_ixs(g, at, s->rank);
    return true;
}

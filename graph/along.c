// Values for all values of a dimension: what a trip of a loop computes from its number, for all trips at once.
//
//     %9  view f32[3, 8] = %4[t * 3 + a0, a1]                 t: a dimension, 0 .. T-1
//     %10 sum  f32[8]    = %9 over a0
//
//     %11 view f32[T, 3, 8] = %4[a0 * 3 + a1, a2]             along t
//     %12 sum  f32[T, 8]    = %11 over a1
//
// Each node that depends on the dimension is made again with one more axis, in front, which takes the dimension's place in
// its expressions; what does not depend on it stays, and is repeated along the axis where it meets what does.
#include "graph/internal.h"

#include <string.h>

typedef struct Along {
    Graph *g;
    Ix     dim, extent;
    Node **to;                   // by id; NULL: does not depend on the dimension
} Along;

static bool has(const Along *a, Ix e) { return e && e->has_dim && ix_substitute_dim(a->g, e, a->dim, ix(a->g, 0)) != e; }

static bool any_has(const Along *a, const Ix *at, int n) {
    for (int i = 0; i < n; i++)
        if (has(a, at[i])) return true;
    return false;
}

static void shape_of(const Along *a, const Node *n, Ix *to) {
    to[0] = a->extent;
    for (int i = 0; i < n->rank; i++) to[i + 1] = n->shape[i];
}

// An expression of axes of this shape, as one of axes one further.
static Ix shifted(const Along *a, Ix e, int rank, const Ix *shape) {
    Ix with[G_MAX_RANK];
    for (int i = 0; i < rank; i++) with[i] = ix_axis(a->g, i + 1, shape[i]);
    return ix_substitute_dim(a->g, ix_substitute(a->g, e, with, rank), a->dim, ix_axis(a->g, 0, a->extent));
}

// x along the dimension; of what does not depend on it, x each time.
static Node *each(const Along *a, Node *x) {
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    if (a->to[x->id]) return a->to[x->id];
    shape_of(a, x, shape);
    for (int i = 0; i < x->rank; i++) coord[i] = ix_axis(a->g, i + 1, x->shape[i]);
    return g_view(a->g, x, x->rank + 1, shape, coord, NULL, g_int(0));
}

// Coordinates in src0, which has one more dimension if it depends on the dimension. NULLs stay.
static Node *coordinates(const Along *a, const Node *n, const Ix *coord, Ix *to) {
    Node *x = n->src[0];
    int lead = a->to[x->id] != NULL;
    if (lead) to[0] = ix_axis(a->g, 0, a->extent);
    for (int i = 0; i < x->rank; i++) to[i + lead] = coord[i] ? shifted(a, coord[i], n->rank, n->shape) : NULL;
    return lead ? a->to[x->id] : x;
}

static Node *made(const Along *a, Node *n) {
    Graph *g = a->g;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    Node **src = NEW_N(g->arena, Node *, n->nsrc + 1), *at;
    shape_of(a, n, shape);
    if (n->kind == G_index) return g_index(g, (Elem)n->elem, n->rank + 1, shape, shifted(a, n->index.expr, n->rank, n->shape));
    if (n->kind == G_view) {
        Node *x = coordinates(a, n, n->view.coord, coord);
        return g_view(g, x, n->rank + 1, shape, coord, shifted(a, n->view.pred, n->rank, n->shape), n->view.fill);
    }
    if (n->kind == G_gather) {
        Node *x = coordinates(a, n, n->at.coord, coord);
        for (uint32_t i = 1; i < n->nsrc; i++) src[i - 1] = each(a, n->src[i]);
        return g_gather(g, x, n->rank + 1, shape, coord, src, (int)n->nsrc - 1, n->at.checked, n->at.fill);
    }
    if (n->kind == G_contract && n->contract.nb == 0 && !a->to[n->src[1]->id])      // more rows
        return g_contract(g, a->to[n->src[0]->id], n->src[1], 0, n->contract.nm + 1, n->contract.nn, n->contract.nk, (Elem)n->elem, n->contract.acc);
    for (uint32_t i = 0; i < n->nsrc; i++) src[i] = each(a, n->src[i]);
    switch ((GKind)n->kind) {
    case G_ew: return g_ew(g, (GEw)n->op, src, (int)n->nsrc);
    case G_cast:
        return n->cast.kept       ? g_kept(g, src[0], (Elem)n->elem)
               : n->cast.saturate ? g_cast_saturate(g, src[0], (Elem)n->elem)
                                  : g_cast(g, src[0], (Elem)n->elem);
    case G_reduce:
        return n->op == GR_argmax || n->op == GR_argmin ? g_arg_reduce(g, (GReduce)n->op, src[0], __builtin_ctz(n->reduce.axes) + 1, false, n->reduce.last)
                                                        : g_reduce(g, (GReduce)n->op, src[0], n->reduce.axes << 1, false);
    case G_scan: return g_scan(g, (GReduce)n->op, src[0], n->scan.axis + 1, n->scan.exclusive, n->scan.reverse);
    case G_concat: return g_concat(g, n->concat.axis + 1, src, (int)n->nsrc);
    case G_contract: return g_contract(g, src[0], src[1], n->contract.nb + 1, n->contract.nm, n->contract.nn, n->contract.nk, (Elem)n->elem, n->contract.acc);
    case G_proj:
        if (n->src[0]->kind != G_sort || !(at = n->src[0]->src[0])) return NULL;
        src[0] = g_sort(g, each(a, at), n->src[0]->sort.axis + 1, n->src[0]->sort.descending, &at);
        return n->proj.result == 0 ? src[0] : at;
    default: return NULL;
    }
}

// Does the node itself say something that the dimension is in? Of what a node may say, shapes may not have it: such values
// differ in size.
static bool says(const Along *a, const Node *n) {
    return (n->kind == G_index && has(a, n->index.expr)) ||
           (n->kind == G_view && (has(a, n->view.pred) || any_has(a, n->view.coord, n->src[0]->rank))) ||
           ((n->kind == G_gather || n->kind == G_scatter) && any_has(a, n->at.coord, n->src[0]->rank));
}

Node *g_along(Graph *g, Node *x, Ix dim, Ix extent) {
    uint32_t n = x->id + 1;
    Along a = {g, dim, extent, NEW_N(g->arena, Node *, n)};
    bool *alive = NEW_N(g->arena, bool, n);
    const char *around = g_source(g);
    alive[x->id] = true;
    for (uint32_t i = n; i-- > 0;)
        for (uint32_t k = 0; alive[i] && k < g->nodes.at[i]->nsrc; k++) alive[g->nodes.at[i]->src[k]->id] = true;
    for (uint32_t i = 0; i < n; i++) {
        Node *e = g->nodes.at[i];
        if (!alive[i]) continue;
        bool depends = says(&a, e);
        for (uint32_t k = 0; k < e->nsrc; k++) depends |= a.to[e->src[k]->id] != NULL;
        if (any_has(&a, e->shape, e->rank)) return NULL;
        if (!depends) continue;
        if (e->kind == G_sort && e->rank < G_MAX_RANK) { a.to[i] = e; continue; }       // its results are made, not itself
        g_at_node(g, e);
        if (e->rank < G_MAX_RANK) a.to[i] = made(&a, e);
        g_at(g, around);
        if (!a.to[i]) return NULL;
    }
    return each(&a, x);
}

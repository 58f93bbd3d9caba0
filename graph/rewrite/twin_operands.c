// Operands of a product that are the same function of neighbouring columns, computed as one.
//
//     q = turned(x[:, h, :])         h in 0 .. 32           qk = turned(x[:, h, :])     h in 0 .. 40
//     k = turned(x[:, h + 32, :])    h in 0 .. 8       ->   q = qk[0 .. 32], k = qk[32 .. 40]
//
// Queries and keys with a rotary embedding are such: slices of one product (merge_products.c), with the same sines and
// cosines. The two are compared from the operands down; where they read, the places of one must be those of the other,
// moved along the axis in which they lie side by side.

#include "graph/rewrite/rewrite.h"

#include <string.h>

enum { DEEPEST = 24 };

typedef struct Alike {
    Graph *g;
    int    axis;
    Ix     first, both;          // how many there are in the first; in both
    bool   moved;                // something is read at other places: it is not one and the same
} Alike;

// The axis as one that counts through both, for the first and for the second.
static Ix moved(const Alike *a, const Node *n, Ix e, bool second) {
    Ix with[G_MAX_RANK], place = ix_axis(a->g, a->axis, a->both);
    for (int i = 0; i < n->rank; i++) with[i] = ix_axis(a->g, i, n->shape[i]);
    with[a->axis] = second ? ix_sub(a->g, place, a->first) : place;
    return ix_substitute(a->g, e, with, n->rank);
}

static bool same_shape(const Alike *a, const Node *x, const Node *y) {
    for (int i = 0; i < x->rank; i++)
        if (i != a->axis && x->shape[i] != y->shape[i]) return false;
    return true;
}

static bool same(Alike *a, const Node *x, const Node *y, int depth) {
    if (x->kind != y->kind || x->elem != y->elem || x->rank != y->rank || x->op != y->op || x->nsrc != y->nsrc ||
        depth > DEEPEST)
        return false;
    if (x->rank <= a->axis || !same_shape(a, x, y)) return false;
    switch ((GKind)x->kind) {
    case G_view:
        if (x->src[0] != y->src[0] || !ix_is(x->view.pred, 1) || !ix_is(y->view.pred, 1)) return false;
        for (int i = 0; i < x->src[0]->rank; i++) {
            if (moved(a, x, x->view.coord[i], false) != moved(a, y, y->view.coord[i], true)) return false;
            a->moved |= (x->view.coord[i]->axes >> a->axis & 1) != 0;
        }
        return true;
    case G_concat:
        if (x->concat.axis != y->concat.axis || x->concat.axis == a->axis) return false;
        break;
    case G_cast:
        if (x->cast.kept || y->cast.kept || x->cast.saturate != y->cast.saturate) return false;
        break;
    case G_ew: break;
    default: return false;
    }
    for (uint32_t i = 0; i < x->nsrc; i++)
        if (!same(a, x->src[i], y->src[i], depth + 1)) return false;
    return true;
}

// x for both, over what has taken the place of its sources.
static Node *joined(const Alike *a, const Rewrite *r, const Node *x, bool second) {
    Graph *g = a->g;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (int i = 0; i < x->rank; i++) shape[i] = i == a->axis ? a->both : x->shape[i];
    if (x->kind == G_view) {
        for (int i = 0; i < x->src[0]->rank; i++) coord[i] = moved(a, x, x->view.coord[i], second);
        return g_view(g, r->to[x->src[0]->id], x->rank, shape, coord, NULL, g_int(0));
    }
    Node proto = *x, **src = NEW_N(g->arena, Node *, x->nsrc);
    for (uint32_t i = 0; i < x->nsrc; i++) src[i] = joined(a, r, x->src[i], second);
    if (any_null_node(src, (int)x->nsrc)) return NULL;
    proto.src = src;
    proto.shape = shape;
    return node_intern(g, &proto);
}

typedef struct Part { Alike *of; bool second; } Part;         // by node id

static Node *computed(Node *x) {                               // below what only moves
    while (x->kind == G_view && ix_is(x->view.pred, 1)) x = x->src[0];
    return x;
}

static bool pair(Graph *g, Part *part, const Node *x, const Node *y) {
    for (int axis = 0; axis < x->rank; axis++) {
        Alike a = {.g = g, .axis = axis, .first = x->shape[axis]};
        a.both = ix_add(g, x->shape[axis], y->shape[axis]);
        if (!ix_is_const(a.both) || !same(&a, x, y, 0) || !a.moved) continue;
        Alike *of = NEW(g->arena, Alike);
        *of = a;
        part[x->id] = (Part){of, false};
        part[y->id] = (Part){of, true};
        return true;
    }
    return false;
}

static Node *taken(Rewrite *r, void *pass, Node *n, Node *const *src) {
    const Part *p = (const Part *)pass + n->id;
    (void)src;
    if (!p->of) return NULL;
    return g_take_range(r->g, joined(p->of, r, n, p->second), p->of->axis, p->second ? p->of->first : ix(r->g, 0), 1,
                        n->shape[p->of->axis]);
}

void merge_twin_operands(Graph *g) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return;
    Part *part = NEW_N(g->arena, Part, r.n);
    bool any = false;
    for (uint32_t i = 0; i < r.n; i++) {
        const Node *c = g->nodes.at[i];
        if (!r.alive[i] || c->kind != G_contract) continue;
        Node *x = computed(c->src[0]), *y = computed(c->src[1]);
        bool fit = x != y && x->kind == G_ew && y->kind == G_ew && x->rank == y->rank && !part[x->id].of && !part[y->id].of;
        any |= fit && (pair(g, part, x, y) || pair(g, part, y, x));
    }
    if (any) rewrite_all(&r, taken, part);
}

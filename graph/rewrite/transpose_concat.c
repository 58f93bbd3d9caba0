// Results that are another order of values put side by side: those values in that order, put side by side.
//
//     y = transpose(concat(a, b))        y = concat(transpose(a), transpose(b))
//
// So each of them can be stored in its place in the result by the kernel that makes it (fuse/parts.c).

#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

// The axis of n that is the one along which what it views is put together, as it is; -1: there is none.
static int axis_along(Graph *g, const Node *n, const Node *whole) {
    int axis = whole->concat.axis, found = -1;
    Ix at = n->view.coord[axis];
    if (at->kind != IX_AXIS || at != ix_axis(g, (int)at->value, whole->shape[axis])) return -1;
    found = (int)at->value;
    for (int d = 0; d < whole->rank; d++) if (d != axis && n->view.coord[d]->axes >> found & 1) return -1;
    return found;
}

// Is it made by a product, for this alone?
static bool by_product(const Rewrite *r, const Node *n) {
    while (r->users[n->id] == 1 && n->kind != G_contract) {
        const Node *from = NULL;
        bool moves = n->kind == G_cast || (n->kind == G_view && ix_is(n->view.pred, 1) && g_count(r->g, n) == g_count(r->g, n->src[0]));
        for (uint32_t k = 0; k < n->nsrc && (moves || n->kind == G_ew); k++)
            if (!r->constant[n->src[k]->id]) from = from ? n : n->src[k];
        if (!from || from == n) return false;
        n = from;
    }
    return n->kind == G_contract && r->users[n->id] == 1;
}

static bool may_lie_apart(const Rewrite *r, const Node *whole) {
    Ix elements = g_count(r->g, whole);
    int others = 0;
    for (uint32_t k = 0; k < whole->nsrc; k++) others += !by_product(r, whole->src[k]);
    return ix_is_const(elements) && elements->value >= LARGE_WHOLE && others < 2;
}

static Node *in_order(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Graph *g = r->g;
    const bool *result = pass;
    Node *whole = n->kind == G_view && result[n->id] ? src[0] : NULL;
    if (!whole || whole->kind != G_concat || n->src[0]->kind != G_concat || r->users[n->src[0]->id] != 1 || !ix_is(n->view.pred, 1) || !may_lie_apart(r, n->src[0])) return NULL;
    int axis = axis_along(g, n, whole);
    if (axis < 0) return NULL;
    Node **part = NEW_N(g->arena, Node *, whole->nsrc);
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (uint32_t k = 0; k < whole->nsrc; k++) {
        for (int i = 0; i < n->rank; i++) shape[i] = i == axis ? whole->src[k]->shape[whole->concat.axis] : n->shape[i];
        for (int d = 0; d < whole->rank; d++) coord[d] = d == whole->concat.axis ? ix_axis(g, axis, shape[axis]) : n->view.coord[d];
        part[k] = g_view(g, whole->src[k], n->rank, shape, coord, NULL, g_int(0));
    }
    return g_concat(g, axis, part, (int)whole->nsrc);
}

void transpose_before_concat(Graph *g) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return;
    bool *result = NEW_N(g->arena, bool, r.n);
    for (uint32_t i = 0; i < g->outputs.n; i++) result[g->outputs.at[i].node->id] = true;
    rewrite_all(&r, in_order, result);
}

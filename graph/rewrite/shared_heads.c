// Query heads that share their keys (grouped-query attention), and whatever else multiplies few rows by the same right operand.
//
//     contract q [b, h, m, k], view x [b, h / R, n, k]        h batches of m rows; R of them read the same x
//     contract q' [b, h / R, (r, m), k], x [b, h / R, n, k]   fewer batches of R * m rows
//
// A step of a decoder has one query for each head: by itself it is a row, which tensor cores have no use for, and each head's block would
// read the keys of its group again. As rows of one product they are read once. Scores and weighted sums are both such products; the
// softmax between them is written down for either order, and attention.c sees through the views.
//
// Where there are rows enough (a prompt) all is left as it is.

#include "graph/rewrite/rewrite.h"

enum { MOST_ROWS = 64 };

// The greatest R > 1 for which b is the same for h = g * R .. g * R + R - 1, h its axis of batches; 1: there is none.
static int64_t shared_by(Graph *g, const Node *b, int h, int64_t heads, int64_t most) {
    Ix with[G_MAX_RANK];
    int r = b->rank;
    if (b->kind != G_view || r == G_MAX_RANK) return 1;
    for (int64_t R = heads < most ? heads : most; R > 1; R--) {
        if (heads % R) continue;
        for (int i = 0; i < b->rank; i++) with[i] = ix_axis(g, i, b->shape[i]);
        with[h] = ix_add(g, ix_muli(g, ix_axis(g, h, ix(g, heads / R)), R), ix_axis(g, r, ix(g, R)));
        bool same = !(ix_substitute(g, b->view.pred, with, b->rank)->axes >> r & 1);
        for (int i = 0; i < b->src[0]->rank && same; i++) same = !(ix_substitute(g, b->view.coord[i], with, b->rank)->axes >> r & 1);
        if (same) return R;
    }
    return 1;
}

// x with its axis h in two: groups in its place, and each group's R in front of axis `at` (-1: the first of the group alone).
static Node *apart(Graph *g, Node *x, int h, int64_t R, int at) {
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], groups = ix_divi(g, x->shape[h], R);
    int n = 0, axis[G_MAX_RANK], r = -1;
    for (int i = 0; i < x->rank; i++) {
        if (i == at) shape[r = n++] = ix(g, R);
        shape[axis[i] = n++] = i == h ? groups : x->shape[i];
    }
    for (int i = 0; i < x->rank; i++) coord[i] = ix_axis(g, axis[i], shape[axis[i]]);
    coord[h] = ix_muli(g, coord[h], R);
    if (r >= 0) coord[h] = ix_add(g, coord[h], ix_axis(g, r, shape[r]));
    return g_view(g, x, n, shape, coord, NULL, g_int(0));
}

static Node *shared(Rewrite *rewrite, void *pass, Node *n, Node *const *src) {
    Graph *g = rewrite->g;
    (void)pass;
    if (n->kind != G_contract || n->rank == G_MAX_RANK || src[0]->rank == G_MAX_RANK || !elem_is_float((Elem)n->elem)) return NULL;
    int nb = n->contract.nb, nm = n->contract.nm;
    Ix rows = ix_product(g, n->shape + nb, nm);
    if (!rows || rows->hi > MOST_ROWS / 2 || rows->hi < 1) return NULL;
    for (int h = 0; h < nb; h++) {
        int64_t heads, R = ix_const(n->shape[h], &heads) ? shared_by(g, src[1], h, heads, MOST_ROWS / rows->hi) : 1;
        if (R == 1) continue;
        Node *y = g_contract(g, apart(g, src[0], h, R, nb), apart(g, src[1], h, R, -1), nb, nm + 1, n->contract.nn, n->contract.nk, (Elem)n->elem,
                             n->contract.acc);
        Ix coord[G_MAX_RANK];
        for (int i = 0; i < n->rank; i++) coord[i + (i >= nb)] = ix_axis(g, i, n->shape[i]);
        coord[nb] = ix_modi(g, coord[h], R);
        coord[h] = ix_divi(g, coord[h], R);
        return g_view(g, y, n->rank, n->shape, coord, NULL, g_int(0));
    }
    return NULL;
}

void merge_shared_heads(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, shared, NULL);
}

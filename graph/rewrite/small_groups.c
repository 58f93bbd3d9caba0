// Groups of few channels.
//
// A product's steps take 16 channels; a group of 4 (ResNeXt) or 24 (RegNet) would leave most of them empty, and is read
// in rows too short to be copied. So several groups become one, whose weights are theirs along the diagonal and zeros
// elsewhere:
//
//     G groups of C -> K channels      G / q groups of q * C -> q * K channels          | w0  .   .  |
//     w [G, K, C, R, S]                w [G / q, q * K, q * C, R, S]                    | .   w1  .  |
//                                                                                       | .   .   w2 |
//
// The zeros are multiplied, q times the work, in what would have taken as many steps anyway. The weights are written
// out when they are loaded.

#include "graph/rewrite/rewrite.h"

enum { STEP = 16, LEAST = 32, MOST = 128, LEAST_RESULTS = 16 };

// How many groups become one; 1: they are fine as they are.
static int64_t together(int64_t groups, int64_t channels) {
    if (channels % STEP == 0) return 1;
    for (int64_t q = 2; q <= groups && q * channels <= MOST; q++)
        if (groups % q == 0 && q * channels >= LEAST && q * channels % STEP == 0) return q;
    return groups * channels <= MOST ? groups : 1;
}

static Node *joined(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Graph *g = r->g;
    int64_t groups, each, channels;
    (void)pass;
    bool weights = n->kind == G_contract && r->constant[n->src[1]->id] && !r->constant[n->src[0]->id] &&
                   elem_is_float((Elem)n->elem);
    if (!weights) return NULL;
    Node *a = src[0], *b = src[1];
    int nm = n->contract.nm, nk = n->contract.nk;
    if (n->contract.nb != 1 || n->contract.nn != 1 || nk < 1 || nm + nk + 2 > G_MAX_RANK) return NULL;
    if (!ix_const(n->shape[0], &groups) || !ix_const(n->shape[1 + nm], &each) || !ix_const(a->shape[1 + nm], &channels))
        return NULL;
    if ((each == 1 && channels == 1) || groups * each < LEAST_RESULTS) return NULL;
    int64_t q = together(groups, channels);
    if (q == 1) return NULL;
    int nb = groups > q;                                     // is there more than one group left?
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], left = ix(g, groups / q), sum = ix(g, q * channels), results = ix(g, q * each);
    // the left operand
    if (nb) shape[0] = left;
    for (int i = 0; i < nm; i++) shape[nb + i] = a->shape[1 + i], coord[1 + i] = ix_axis(g, nb + i, shape[nb + i]);
    for (int i = 0; i < nk; i++) shape[nb + nm + i] = i == 0 ? sum : a->shape[1 + nm + i];
    Ix first = nb ? ix_muli(g, ix_axis(g, 0, left), q) : ix(g, 0), c = ix_axis(g, nb + nm, sum);
    coord[0] = ix_add(g, first, ix_divi(g, c, channels));
    for (int i = 0; i < nk; i++)
        coord[1 + nm + i] = i == 0 ? ix_modi(g, c, channels) : ix_axis(g, nb + nm + i, shape[nb + nm + i]);
    a = g_view(g, a, nb + nm + nk, shape, coord, NULL, g_int(0));
    // the weights
    shape[nb] = results;
    for (int i = 0; i < nk; i++) shape[nb + 1 + i] = i == 0 ? sum : b->shape[2 + i];
    Ix j = ix_axis(g, nb, results);
    c = ix_axis(g, nb + 1, sum);
    coord[0] = ix_add(g, first, ix_divi(g, j, each));
    coord[1] = ix_modi(g, j, each);
    for (int i = 0; i < nk; i++) coord[2 + i] = i == 0 ? ix_modi(g, c, channels) : ix_axis(g, nb + 1 + i, shape[nb + 1 + i]);
    Node *w = g_view(g, b, nb + 1 + nk, shape, coord, ix_eq(g, ix_divi(g, j, each), ix_divi(g, c, channels)), g_int(0));
    // and the result as it was
    Node *y = g_contract(g, a, w, nb, nm, 1, nk, (Elem)n->elem, n->contract.acc);
    Ix group = ix_axis(g, 0, n->shape[0]);
    if (nb) coord[0] = ix_divi(g, group, q);
    for (int i = 0; i < nm; i++) coord[nb + i] = ix_axis(g, 1 + i, n->shape[1 + i]);
    coord[nb + nm] = ix_add(g, ix_muli(g, nb ? ix_modi(g, group, q) : group, each), ix_axis(g, 1 + nm, n->shape[1 + nm]));
    return y ? g_view(g, y, n->rank, n->shape, coord, NULL, g_int(0)) : NULL;
}

void merge_small_groups(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, joined, NULL);
}

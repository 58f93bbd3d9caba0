// Which products of f32 are for wgmma, as three of tf32 (lower/specialize/tf32x3.c): its tiles have 128 rows or more, so those that have enough of them.
//
// Of 32 x 768 x 768 to 512 x 768 x 3072 on an H200 64 x 64 by mma.sync are up to 1.5 times as fast, of 256 x 3072 x 768 and more the others by 1.5 to 3.

#include "graph/fuse/fuse.h"

#include "graph/internal.h"

static bool sum_innermost(const Node *b, int sum) {
    if (b->kind != G_view) return true;
    int last = b->src[0]->rank - 1;
    while (last > 0 && ix_is(b->src[0]->shape[last], 1)) last--;
    return last >= 0 && b->view.coord[last]->axes >> sum != 0;
}

bool graph_large(Graph *g, const Node *c) {
    enum { TALL = 128, TILES = 32, LEAST = 32, COLUMNS = 64, MANY = 1 << 14, LONG = 1 << 16 };
    int nb = c->contract.nb, nm = c->contract.nm, nn = c->contract.nn;
    Ix all = ix_product(g, c->shape, nb + nm), rows = ix_product(g, c->shape + nb, nm), columns = ix_product(g, c->shape + nb + nm, nn),
       sum = ix_product(g, c->src[0]->shape + nb + nm, c->contract.nk);
    if (!all || !rows || !columns || !sum || sum->lo < LEAST || rows->lo < TALL || (columns->lo < COLUMNS && rows->lo < MANY)) return false;
    if (columns->lo < TALL && !sum_innermost(c->src[1], nb + nn)) return false;
    double tiles = (double)all->lo / TALL * (columns->lo < TALL ? 1 : (double)columns->lo / TALL);
    return tiles >= TILES || sum->lo >= LONG;
}

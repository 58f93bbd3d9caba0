// Products of f32 that wgmma makes, as three of tf32: which they are, and what tiles they may have (lower/hopper/low.c).
#include "graph/write/internal.h"
#include <inttypes.h>
#include <string.h>

static bool sum_innermost(const Node *b, int sum) {
    if (b->kind != G_view) return true;
    int last = b->src[0]->rank - 1;
    while (last > 0 && ix_is(b->src[0]->shape[last], 1)) last--;
    return last >= 0 && b->view.coord[last]->axes >> sum != 0;
}

// As three products of tf32 wgmma has tiles of 128 rows or more (hopper/low.c), which are for products that have enough of them: of 32 x 768 x 768 to
// 512 x 768 x 3072 on an H200 64 x 64 by mma.sync are up to 1.5 times as fast, of 256 x 3072 x 768 and more the others by 1.5 to 3.
bool k_large(Graph *g, const Node *c) {
    enum { TALL = 128, TILES = 32, LEAST = 32, COLUMNS = 64, MANY = 1 << 14, LONG = 1 << 16 };
    int nb = c->contract.nb, nm = c->contract.nm, nn = c->contract.nn;
    Ix all = ix_product(g, c->shape, nb + nm), rows = ix_product(g, c->shape + nb, nm), columns = ix_product(g, c->shape + nb + nm, nn),
       sum = ix_product(g, c->src[0]->shape + nb + nm, c->contract.nk);
    if (!all || !rows || !columns || !sum || sum->lo < LEAST || rows->lo < TALL || (columns->lo < COLUMNS && rows->lo < MANY)) return false;
    if (columns->lo < TALL && !sum_innermost(c->src[1], nb + nn)) return false;
    double tiles = (double)all->lo / TALL * (columns->lo < TALL ? 1 : (double)columns->lo / TALL);
    return tiles >= TILES || sum->lo >= LONG;
}

// f32 as three of tf32: tiles that wgmma has, with 128 rows or columns.
void k_open_large(Kernel *k) {
    const char *rows = k->across ? "n" : "m", *columns = k->across ? "m" : "n";
    enum { SHORT = 128 };                                    // a sum: the result's way out is what counts (32768 x 32768 x 32: 1317 us by 128 x 128, 1661 by 128 x 256)
    const Node *c = k->fg->anchor;
    Ix sum = ix_product(k->g, c->src[0]->shape + c->contract.nb + c->contract.nm, c->contract.nk);
    bool brief = !sum || sum->hi < SHORT;
    int64_t most = 0;
    for (int i = 0; i < k->naxes; i++) if (k->axis[i].kind == A_TILE && strcmp(k->axis[i].name, columns) == 0) most = k->axis[i].extent->hi;
    k_open_tile(k, rows, "BM", most >= 128 ? brief ? "BM in [64, 128]" : "BM in [64, 128, 256]" : "BM in [128, 256]");
    if (most < 64) return;
    k_open_tile(k, columns, "BN", most < 128 ? "BN in [64]" : k->b2 || brief ? "BN in [128]" : "BN in [128, 256]");
    vec_push(k->arena, &k->tune, k->b2 ? "where BM * BN <= 128 * 128" : "where BM * BN <= 128 * 256");
}

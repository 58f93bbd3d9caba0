// The tiles of a product that are left open, to be chosen for the dimensions of a launch, and what each may be. Of f32 some products are for
// wgmma, as three of tf32 (lower/specialize/tf32x3.c), and have other tiles.

#include "graph/write/internal.h"

#include <inttypes.h>
#include <string.h>

// `BM = 128` and so on in place of numbers.
void k_open_tile(Kernel *k, const char *axis, const char *name, const char *choices) {
    for (int i = 0; i < k->naxes; i++) {
        KAxis *a = &k->axis[i];
        bool tile = a->kind == A_TILE || a->kind == A_LOOP_TILE;
        if (!tile || strcmp(a->name, axis) != 0) continue;
        a->open = name;
        vec_push(k->arena, &k->names, name);
        vec_push(k->arena, &k->blocks,
                 (const char *)(a->default_by ? arena_printf(k->arena, "%s = %s", name, a->default_by)
                                              : arena_printf(k->arena, "%s = %" PRId64, name, a->by)));
        if (choices) vec_push(k->arena, &k->tune, choices);
    }
}

// Many rows and less than 64 columns: wgmma all the same (2 M pixels, 32 channels of 32 x 3 x 3, on an H200: 0.51 ms by 256 rows, 1.22 by 32 and mma.sync).
static bool many_by_few(const Kernel *k) {
    enum { MANY = 1 << 14, FEW = 64 };
    const Node *c = k->fg->anchor;
    int nb = c->contract.nb, nm = c->contract.nm;
    Ix rows = ix_product(k->g, c->shape + nb, nm), columns = ix_product(k->g, c->shape + nb + nm, c->contract.nn);
    return rows && columns && rows->lo >= MANY && columns->hi < FEW;
}

// Of a product whose kernel has numbers for each row of a tile, tiles are as wide as those are for.
static void open_rows(Kernel *k) {
    enum { LARGEST = 128 * 256 };
    int64_t width = k->fg->width;
    bool deep = false;
    k_open_tile(k, "m", "BM", width * 256 <= LARGEST ? "BM in [64, 128, 256]" : "BM in [64, 128]");
    for (int i = 0; i < k->naxes; i++) deep |= k->axis[i].kind == A_LOOP_TILE && k->axis[i].by == 64 && k->axis[i].extent->hi >= 128;
    if (!deep) return;
    k_open_tile(k, "k", "BK", "BK in [64, 128]");
    vec_push(k->arena, &k->tune, "where BK == 64 || BM <= 64");
}

void k_open_tiles(Kernel *k) {
    if (k->fg->numbers.n) { open_rows(k); return; }
    bool two = k->nmore == 1, four = k->nmore > 1;           // two sums: half the tile; three and four: a quarter
    if (k->across) k_open_tile(k, "n", "BM", "BM in [64, 128, 256]");
    else k_open_tile(k, "m", "BM", two || four ? "BM in [16, 64, 128]" : many_by_few(k) ? "BM in [64, 128, 256]" : "BM in [8, 16, 32, 64, 128, 256]");
    for (int i = 0; i < k->naxes; i++)                       // a few columns are one tile in any case
        if (k->axis[i].kind == A_TILE && strcmp(k->axis[i].name, "n") == 0 && k->axis[i].extent->hi < 64) return;
    k_open_tile(k, k->across ? "m" : "n", "BN", k->across ? "BN in [64, 128, 256]" : four ? "BN in [8, 32, 64]" : two ? "BN in [64, 96, 128]" : "BN in [64, 96, 128, 144, 160, 176, 192, 208, 224, 256]");
    if (k->fg->whole && k->fg->anchor->shape[k->fg->anchor->rank - 1]->value > 128) vec_push(k->arena, &k->tune, "where BM <= 128");
    bool both = k->tune.n == 2 && !k->fg->whole, deep = false, deeper = false;
    for (int i = 0; i < k->naxes; i++) {
        if (k->axis[i].kind != A_LOOP_TILE || k->axis[i].by != 64 || k->axis[i].extent->hi < 128 || strcmp(k->axis[i].name, "k") != 0) continue;
        deep = !two && !four;
        deeper = deep && k->axis[i].extent->hi >= 512;
        k_open_tile(k, "k", "BK", deeper ? "BK in [64, 128, 256]" : deep ? "BK in [64, 128]" : NULL);
        for (int j = i + 1; j < k->naxes && k->nalso; j++)   // and of what adds to it
            if (k->axis[j].kind == A_LOOP_TILE && k->axis[j].by == 64 && k->axis[j].extent->hi >= 128) k->axis[j].open = "BK";
        break;
    }
    // 128 of k in a large tile leave room for two stages only; tiles of other widths fill a round where those do not
    if (both)
        vec_push(k->arena, &k->tune,
                 four  ? "where BM * BN <= 128 * 64"
                 : two ? "where BM * BN <= 128 * 128"
                     : "where BM * BN <= 128 * 256 && (BN % 64 == 0 || BM == 128 || (BM == 64 && BN == 144))");
    if (both && deep)
        vec_push(k->arena, &k->tune,
                 deeper ? "where (BK == 64 || BM <= 64) && (BK <= 128 || BM <= 16)" : "where BK == 64 || BM <= 64");
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
    k_open_tile(k, columns, "BN", most < 128 || k->nmore > 1 ? "BN in [64]" : k->nmore || brief ? "BN in [128]" : "BN in [128, 256]");
    vec_push(k->arena, &k->tune, k->nmore > 1 ? "where BM * BN <= 128 * 64" : k->nmore ? "where BM * BN <= 128 * 128" : "where BM * BN <= 128 * 256");
}

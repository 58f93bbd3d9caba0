// Kernels of depthwise convolutions. Each channel by itself: channels and places are tiles, taps a loop in which they are multiplied and added. Places of
// one row, where rows are long enough: what a place has of one tap its neighbour has of the next (lower/pass/unroll.c). Where rows
// are innermost in memory a program has one of one channel (64 channels, 512 x 512 pixels on an H200: 0.76 ms instead of 2.3).

#include "graph/write/internal.h"

// A picture that has its rows innermost, channel by channel, and is stored so.
static bool by_pictures(const Kernel *k) {
    enum { LEAST_ROW = 32 };
    const Node *c = k->fg->anchor, *a = c->src[0], *root = k->fg->root;
    int nb = c->contract.nb, row = nb + c->contract.nm - 1;
    if (a->kind != G_view || c->contract.nm < 2 || !ix_is_const(c->shape[row]) || c->shape[row]->value < LEAST_ROW) return false;
    int last = a->src[0]->rank - 1, end = root->rank - 1;
    while (last > 0 && ix_is(a->src[0]->shape[last], 1)) last--;
    while (end > 0 && ix_is(root->shape[end], 1)) end--;
    bool read = a->view.coord[last]->axes >> row & 1 && !(a->view.coord[last]->axes & ((UINT64_C(1) << nb) - 1));
    return read && (root == c || (k->fg->parts < 0 && k->fg->place && k->fg->place[row]->axes >> end & 1));
}

bool k_depthwise(Kernel *k) {
    enum { WIDE = 128, ELEMENTS = 1024, ROW = 7, LONG = 512 };
    const Node *c = k->fg->anchor, *a = c->src[0], *b = c->src[1];
    int nb = c->contract.nb, nm = c->contract.nm, nn = c->contract.nn;
    static const char *const names[] = {"r", "s", "t", "u", "v", "w"};
    Ix at[G_MAX_RANK], ca[G_MAX_RANK], cb[G_MAX_RANK];
    k_reset(k);
    k->by_sum = true;
    bool pictures = by_pictures(k);
    int64_t channels = k_tile_of(c->shape[0], 1, WIDE), places = pictures ? LONG : ELEMENTS / channels;
    const Ix *row = c->shape + nb + nm - 1;
    bool rows = pictures || (nm > 1 && (*row)->kind == IX_CONST && (*row)->value >= ROW);
    int ahead = rows ? nm - 1 : nm;
    if (pictures && !k_one_axis(k, c->shape, nb, A_GRID, 0, "c", at)) return false;
    if (!k_one_axis(k, c->shape + nb, ahead, rows ? A_GRID : A_TILE,
                    rows ? 0 : k_tile_of(ix_product(k->g, c->shape + nb, nm), 1, places), "m", at + nb))
        return false;
    if (rows && !k_one_axis(k, row, 1, A_TILE, k_tile_of(*row, 1, places), "q", at + nb + ahead)) return false;
    if (!pictures && !k_one_axis(k, c->shape, nb, A_TILE, channels, "c", at)) return false;
    for (int i = 0; i < nn; i++) at[nb + nm + i] = cb[nb + i] = ix(k->g, 0);
    for (int i = 0; i < nb + nm; i++) ca[i] = at[i];
    for (int i = 0; i < nb; i++) cb[i] = at[i];
    for (int i = 0, named = 0; i < c->contract.nk; i++) {
        bool one = ix_is(b->shape[nb + nn + i], 1);
        if (!k_one_axis(k, b->shape + nb + nn + i, 1, A_LOOP, 0, names[named % 6], ca + nb + nm + i)) return false;
        named += !one;
        cb[nb + nn + i] = ca[nb + nm + i];
    }
    k->a = k_sized(k, k_value(k, a, ca), c->contract.acc);
    k->b = k_sized(k, k_value(k, b, cb), c->contract.acc);
    if (!k->a || !k->b) return false;
    k->trips[0] = k_loops(k);
    k->a->uses++;
    k->b->uses++;
    return k_epilogue(k, at);
}

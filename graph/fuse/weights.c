// What is made of weights alone (F5): whether it is computed once and kept, and in which order products can read it.
//
//     an embedding's rows in f32, converted     not kept: as many bytes as it is made of, and simple
//     a table of cosines                        kept
//     bits with a scale for each block          not kept: half of it, or less, is read
//     a kernel of a convolution, turned         kept: neither rows nor columns of what the model has can be read by the product
#include "graph/fuse/internal.h"

// Weights in 16 bits, a matrix: rows of what is summed over come by whole lines whatever the tile's columns, so that
// tiles of 96 or 144 columns are as good as others (1024 x 2304 x 768 on an H200: 10.4 instead of 11.6 us). Not rows
// that 16 bytes do not divide, and not few columns, whose tiles are of 64 (197 x 768 x 3072: 9.3 instead of 8.8 us), but where
// 16 bytes do not divide those.
static bool better_by_rows(const Node *c, const Node *w) {
    enum { MANY = 1024 };
    int64_t n, k;
    bool matrix = c->contract.nb == 0 && c->contract.nn == 1 && c->contract.nk == 1;
    return matrix && elem_bits((Elem)w->elem) == 16 && ix_const(w->shape[0], &n) && ix_const(w->shape[1], &k) &&
           (n >= MANY || n % 8) && k % 8 == 0;
}

// The axis of n that goes along lines of memory, `at` the place in one of `size`: all of it, or a part that begins at a multiple of 16 bytes. -1: there is none.
static int line_along(Graph *g, const Node *n, Ix at, Ix size) {
    int64_t first, bytes = elem_bytes((Elem)n->elem);
    Ix rest;
    for (int i = 0; i < n->rank; i++) {
        if (at == ix_axis(g, i, size)) return i;
        Ix by = ix_coefficient(g, at, i, &rest);
        if (by && ix_is(by, 1) && ix_const(rest, &first) && first * bytes % 16 == 0) return i;
    }
    return -1;
}

// Weights of which a product could read neither rows nor columns: what is adjacent in memory is along neither of its
// axes. Products of bytes, and of tf32 by wgmma, read rows alone.
bool fuse_scattered(const State *s, const Node *n) {
    const Node *c = s->weights_of[n->id];
    if (n->kind == G_cast && n->cast.kept && n->elem == n->src[0]->elem) return true;        // as layout.c has asked
    if (!c || n->kind != G_view || g_is_depthwise(s->g, c)) return false;
    if (!ix_is(n->view.pred, 1)) return true;                // with zeros among them
    const Node *y = n->src[0];
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    int rank = dims_merged(s->g, y->rank, y->shape, n->view.coord, shape, coord);
    if (rank == 0) return false;
    int axis = line_along(s->g, n, coord[rank - 1], shape[rank - 1]);
    bool tf32 = s->g->tables->tf32 && n->elem == EL_f32;
    bool rows = elem_bits((Elem)n->elem) == 8 || tf32 || better_by_rows(c, n);
    return axis < 0 || !(axis == n->rank - 1 || (!rows && axis == n->rank - 1 - c->contract.nk));
}

// Read by what is not made of constants alone.
bool fuse_is_weight(const State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    for (uint32_t i = 0; s->constant[n->id] && i < p->at.n; i++)
        if (!s->constant[fuse_group_at(s, p->at.at[i].group)->root->id]) return true;
    return false;
}

static int64_t size_of(Graph *g, const Node *n) {               // in bytes; -1: it is not known
    int64_t count;
    return ix_const(g_count(g, n), &count) ? count * elem_bytes((Elem)n->elem) : -1;
}

// Bytes of what x is read from: numbers of a few bits are not in memory but where they are packed.
static int64_t read_from(const State *s, const Node *x) {
    GNum number;
    int64_t sum = 0;
    while (x->kind == G_view || x->kind == G_cast) x = x->src[0];
    if (x->kind == G_index || g_scalar_value(x, &number)) return 0;
    if (!fuse_unpacks(x)) return size_of(s->g, x);
    for (uint32_t k = 0; k < x->nsrc; k++) sum += read_from(s, x->src[k]);
    return sum;
}

// Made of weights: is it worth being kept? Not if it is simple and more to read than what it is made of.
bool fuse_computed_once(const State *s, const Node *n) {
    enum { OF_SIZE = 9, OF_FROM = 16 };                        // half of it, with a scale for each block
    int64_t size = size_of(s->g, n), from = 0;
    if (size < 0 || graph_loaded(n) || n->kind == G_const || n->kind == G_view || n->kind == G_gather) return false;
    for (uint32_t k = 0; k < n->nsrc; k++) from += read_from(s, n->src[k]);
    // quantised weights stay so
    bool bytes = from > 0 && OF_FROM * from <= OF_SIZE * size && s->weight[n->id] <= FREE && !s->deep[n->id] &&
                 !s->heavy[n->id];
    return (s->weights_of[n->id] && !bytes) || s->deep[n->id] || s->heavy[n->id] || size <= from;
}

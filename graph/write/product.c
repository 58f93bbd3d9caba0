// Kernels of products: rows and columns are tiles of the grid, what is contracted a loop, by `dot` where it takes the types, else by `sum`.
// What follows the product is computed and stored where its tile is.

#include "graph/write/internal.h"

// The contracted axes: the last, which memory has innermost, or else the longest is the tile, the others are loops;
// short ones are put together into one. No more lanes than the axis has, and two trips where there would be one, to
// load ahead in.
static bool contracted(Kernel *k, const Ix *shape, int n, int64_t by, const char *name, Ix *coord) {
    int longest = 0;
    int64_t most = 0, all = 1;
    for (int i = 0; i < n; i++) {
        int64_t size = shape[i]->kind == IX_CONST ? shape[i]->value : 1024;
        if (size >= most || (i == n - 1 && size >= 16)) most = size, longest = i;
        all = k_times(all, size);
    }
    if (n > 1 && most >= 16 && most < by) by = k_pow2(most);
    if (all <= by && by >= 64 && !k->fg->also.n) by = all > 32 ? 32 : 16;
    if (most < 16 || n == 1) return k_one_axis(k, shape, n, A_LOOP_TILE, by, name, coord);
    static const char *const names[] = {"r", "s", "t", "u", "v", "w"};
    for (int i = 0, other = 0; i < n; i++)
        if (!k_one_axis(k, shape + i, 1, i == longest ? A_LOOP_TILE : A_LOOP, by,
                        i == longest ? name : names[other++ % 6], coord + i))
            return false;
    return true;
}

const char *const k_sum_name[MOST_MORE + 1] = {"acc", "acc2", "acc3", "acc4"};

uint64_t k_loops(const Kernel *k) {
    uint64_t axes = 0;
    for (int i = 0; i < k->naxes; i++) if (k->axis[i].kind == A_LOOP || k->axis[i].kind == A_LOOP_TILE) axes |= UINT64_C(1) << i;
    return axes;
}

static uint64_t tiles_of(const Kernel *k, uint64_t axes) {
    for (int i = 0; i < k->naxes; i++) if (k->axis[i].kind != A_LOOP_TILE) axes &= ~(UINT64_C(1) << i);
    return axes;
}

// The operands of a product at rows and columns `at`, with loops of its own.
static bool operands(Kernel *k, const Node *c, const Ix *at, int64_t by, const char *name, KExpr *to[2], Ix *cb) {
    int nb = c->contract.nb, nm = c->contract.nm, nn = c->contract.nn, nk = c->contract.nk;
    Ix ca[G_MAX_RANK], kc[G_MAX_RANK];
    if (!contracted(k, c->src[0]->shape + nb + nm, nk, by, name, kc)) return false;
    for (int i = 0; i < nb + nm; i++) ca[i] = at[i];
    for (int i = 0; i < nk; i++) ca[nb + nm + i] = kc[i], cb[nb + nn + i] = kc[i];
    for (int i = 0; i < nb; i++) cb[i] = at[i];
    for (int i = 0; i < nn; i++) cb[nb + i] = at[nb + nm + i];
    to[0] = k_value(k, c->src[0], ca);
    to[1] = k_value(k, c->src[1], cb);
    return to[0] && to[1];
}

// Which of the kernel's sums is this product? The anchor's is the first.
int k_sum_of(const Kernel *k, const Node *n) {
    int sum = 0;
    for (uint32_t i = 0; i < k->fg->more.n; i++) if (k->fg->more.at[i] == n) sum = (int)i + 1;
    return sum;
}

static bool is_byte(const Node *n) { return n->elem == EL_i8 || n->elem == EL_u8; }

static bool dot_takes(const Node *a, const Node *b, Elem sum) {
    if (is_byte(a) && is_byte(b)) return sum == EL_i32;
    if (a->elem == EL_f8e4m3 || a->elem == EL_f8e5m2) return a->elem == b->elem && sum == EL_f32;
    return a->elem == b->elem && (a->elem == EL_f16 || a->elem == EL_bf16 || a->elem == EL_f32 || a->elem == EL_f64);
}

// The same where columns are one axis that is whole: the root's rows follow from the contraction's.
static bool whole_rows(Kernel *k, const Ix *at) {
    const Node *c = k->fg->anchor, *root = k->fg->root;
    Graph *g = k->g;
    Ix axis[G_MAX_RANK] = {0}, inverse[G_MAX_RANK], coord[G_MAX_RANK];
    int n = 0, rank = c->rank - 1;
    for (int i = 0; i < root->rank; i++)
        if (k->fg->rows >> i & 1) axis[n++] = ix_axis(g, i, root->shape[i]);
    if (!map_invert(g, rank, c->shape, k->fg->place, n, axis, inverse))
        return g_error(g, "a product's place in its kernel cannot be inverted") != NULL;
    for (int i = 0, from = 0; i < root->rank; i++)
        coord[i] = k->fg->rows >> i & 1 ? ix_substitute(g, inverse[from++], at, rank) : ix_is(root->shape[i], 1) ? ix(g, 0) : at[rank];
    return k_add_stores(k, coord);
}

// What follows the product, at `at` of its result: the root's axes follow from the contraction's. Parts of the root
// that lie side by side are stored one after the other.
bool k_epilogue(Kernel *k, const Ix *at) {
    const Node *c = k->fg->anchor, *root = k->fg->root;
    Graph *g = k->g;
    Ix axis[G_MAX_RANK] = {0}, inverse[G_MAX_RANK], coord[G_MAX_RANK], own[G_MAX_RANK];
    int parts = k->fg->parts, n = 0;
    if (root == c) return k_add_stores(k, at);
    if (k->fg->whole) return whole_rows(k, at);
    for (int i = 0; i < root->rank; i++)
        if (i != parts) axis[n++] = ix_axis(g, i, root->shape[i]);
    if (!map_invert(g, c->rank, c->shape, k->fg->place, n, axis, inverse))
        return g_error(g, "a product's place in its kernel cannot be inverted") != NULL;
    for (int i = 0; i < n; i++) own[i] = ix_substitute(g, inverse[i], at, c->rank);
    int64_t count = parts < 0 ? 1 : root->shape[parts]->value;
    for (int64_t part = 0; part < count; part++) {
        for (int i = 0, from = 0; i < root->rank; i++) coord[i] = i == parts ? ix(g, part) : own[from++];
        if (!k_add_stores(k, coord)) return false;
    }
    return true;
}

// A left operand that has its rows innermost in memory, as pixels of pictures with channels first: how many of its axes are outside of
// those, pictures, whose products are then made one by one; 0: it has not. Few rows that lie so would leave tiles half empty.
static int rows_innermost(Graph *g, const Node *c) {
    enum { MANY_ROWS = 1024, LINE = 8 };
    const Node *a = c->src[0], *x = a->kind == G_view ? a->src[0] : NULL;
    int nb = c->contract.nb, nm = c->contract.nm;
    if (!x || nm < 2 || !elem_is_float((Elem)a->elem) || !ix_is(a->view.pred, 1)) return 0;
    int d = x->rank - 1, first = nb + nm;                    // rows are its last dimensions, as they are
    while (d >= 0 && first > nb && a->view.coord[d] == ix_axis(g, first - 1, x->shape[d]) && x->shape[d] == a->shape[first - 1]) d--, first--;
    Ix each = first < nb + nm ? ix_product(g, c->shape + first, nb + nm - first) : NULL;
    bool line = first > nb && each && ix_is_const(each) && each->value >= MANY_ROWS && each->value % LINE == 0;
    uint64_t rows = (UINT64_C(1) << (nb + nm)) - (UINT64_C(1) << first);
    for (; d >= 0 && line; d--) line = !(a->view.coord[d]->axes & rows);
    return line ? first - nb : 0;
}

// Results that have their rows innermost in memory, as convolutions' do that leave the model with channels first. The transposed
// product makes them as they lie, by rows of `n`: they leave as whole tiles (64 x 254 x 254 pixels, 128 channels of 64 x 3 x 3, on an H200: 0.90 ms instead
// of 1.46, by 64 channels 0.61 instead of 0.84). How many of its axes are outside of those (pictures); -1: they have not, or columns would leave tiles
// of rows half empty, or what follows takes so long (Mish: 3.9 ms instead of 2.3) that groups with a tile each are slower than two that share one.
static int stored_across(Graph *g, const FGroup *f) {
    enum { MANY_ROWS = 1024, WHOLE = 64 };
    const Node *c = f->anchor, *root = f->root;
    int nb = c->contract.nb, nm = c->contract.nm, d = root->rank - 1, first = nb + nm;
    Ix columns = ix_product(g, c->shape + nb + nm, c->contract.nn);
    if (root == c || f->parts >= 0 || f->more.n || f->whole || !columns || !ix_is_const(columns) || columns->value % WHOLE || !columns->value) return -1;
    while (d > 0 && ix_is(root->shape[d], 1)) d--;
    while (d >= 0 && first > nb && f->place[first - 1] == ix_axis(g, d, root->shape[d]) && root->shape[d] == c->shape[first - 1]) d--, first--;
    Ix each = first < nb + nm ? ix_product(g, c->shape + first, nb + nm - first) : NULL;
    int functions = 0;
    for (uint32_t i = 0; i < f->nodes.n; i++) functions += f->nodes.at[i]->kind == G_ew && g_is_function((GEw)f->nodes.at[i]->op);
    return each && ix_is_const(each) && each->value >= MANY_ROWS && !functions ? first - nb : -1;
}

// A sum along a tile on which the left operand and each right one are the same is a multiple, without a loop; where some of the right ones vary, the left one
// is made to.
static void same_along(Kernel *k, uint64_t *trips, KExpr **left, uint64_t any, uint64_t every) {
    uint64_t tile = tiles_of(k, *trips);
    if (!tile || ((*left)->mask | every) & tile) return;
    int axis = __builtin_ctzll(tile);
    *left = any & tile ? k_varied(k, *left, axis) : k_multiple(k, *left, k->fg->anchor->contract.acc, axis);
    if (!(any & tile)) *trips &= ~tile;
}

static bool product_by(Kernel *k, bool open);

bool k_product(Kernel *k) { return product_by(k, true); }

static bool product_by(Kernel *k, bool open) {
    const Node *c = k->fg->anchor, *a = c->src[0], *b = c->src[1];
    Graph *g = k->g;
    int nb = c->contract.nb, nm = c->contract.nm, nn = c->contract.nn;
    Ix at[G_MAX_RANK], cb[G_MAX_RANK];
    k_reset(k);
    bool floats = elem_is_float((Elem)a->elem), small = floats && elem_bits((Elem)a->elem) == 16;
    bool tf32 = a->elem == EL_f32 && b->elem == EL_f32 && (g->tables->tf32 || (open && graph_large(g, c)));          // wgmma has it, so large tiles are as good
    bool bytes = elem_bits((Elem)a->elem) == 8 && elem_bits((Elem)b->elem) == 8 && dot_takes(a, b, c->contract.acc);
    k->by_sum = !dot_takes(a, b, c->contract.acc);
    int64_t most = k->by_sum ? 16 : small || tf32 || bytes ? 128 : 64, least = k->by_sum ? 1 : 16;
    // three and four sums: short steps of many, 16 columns of each by mma.sync (an LSTM of 256, 10 rows in f32, on an H200: 4.2 us a step, 6.6 by 32)
    bool gates = k->fg->more.n > 1, wide = small || tf32 || bytes;
    int64_t rows = gates && !wide ? most / 2 : most, columns = gates ? wide ? most / 2 : 16 : most;
    int apart = k->by_sum ? 0 : rows_innermost(g, c), across = k->by_sum || k->fg->numbers.n || !(small || tf32) ? -1 : stored_across(g, k->fg);
    if (across > apart) apart = across;
    k->across = across >= 0;
    if (!k_one_axis(k, c->shape, nb, A_GRID, 0, "b", at)) return false;
    if (apart && !k_one_axis(k, c->shape + nb, apart, A_GRID, 0, "l", at + nb)) return false;
    if (!k_one_axis(k, c->shape + nb + apart, nm - apart, A_TILE, k_tile_of(ix_product(g, c->shape + nb + apart, nm - apart), least, rows), "m",
                    at + nb + apart))
        return false;
    k->columns = k->naxes;
    if (!k_one_axis(k, c->shape + nb + nm, nn, k->fg->whole ? A_FULL : A_TILE,
                    k->fg->numbers.n ? k->fg->width : k_tile_of(ix_product(g, c->shape + nb + nm, nn), least, columns), "n", at + nb + nm))
        return false;
    bool has_m = !ix_is(ix_product(g, c->shape + nb, nm), 1), has_n = !ix_is(ix_product(g, c->shape + nb + nm, nn), 1);
    k->by_sum |= !has_m || !has_n;
    int64_t by = bytes && !k->by_sum ? 128 : small ? 64 : 32;
    KExpr *both[2];
    if (!operands(k, c, at, by, "k", both, cb)) return false;
    k->a = both[0];
    k->b = both[1];
    k->trips[0] = k_loops(k);
    for (uint32_t i = 0; i < k->fg->also.n; i++, k->nalso++) {
        uint64_t before = k_loops(k);
        Ix own[G_MAX_RANK];
        if (!operands(k, k->fg->also.at[i], at, by, "j", k->also[i], own)) return false;
        k->trips[1 + i] = k_loops(k) & ~before;
    }
    for (uint32_t i = 0; i < k->fg->more.n; i++) {
        k->more[i] = k_value(k, k->fg->more.at[i]->src[1], cb);
        if (!k->more[i]) return false;
    }
    k->nmore = (int)k->fg->more.n;
    uint64_t loops = tiles_of(k, k->trips[0]);
    k->by_sum |= (k->a->mask & loops) != loops || (k->b->mask & loops) != loops;
    for (int i = 0; i < k->nmore; i++) k->by_sum |= (k->more[i]->mask & loops) != loops;
    for (int i = 0; i < k->nalso; i++) {
        uint64_t tiles = tiles_of(k, k->trips[1 + i]);
        k->by_sum |= !tiles || (k->also[i][0]->mask & tiles) != tiles || (k->also[i][1]->mask & tiles) != tiles;
    }
    if (k->by_sum && tf32 && !g->tables->tf32) return product_by(k, false);
    bool by_dot = !k->by_sum && loops != 0;                  // taps alone, or one element, are multiplied as they are
    Elem acc = c->contract.acc;
    k->a = k_sized(k, k->a, by_dot ? (Elem)a->elem : acc);
    k->b = k_sized(k, k->b, by_dot ? (Elem)b->elem : acc);
    uint64_t any = k->b->mask, every = any;
    for (int i = 0; i < k->nmore; i++) {
        k->more[i] = k_sized(k, k->more[i], by_dot ? (Elem)b->elem : acc);
        k->more[i]->uses++;
        any |= k->more[i]->mask;
        every &= k->more[i]->mask;
    }
    same_along(k, &k->trips[0], &k->a, any, every);
    for (int i = 0; i < k->nalso; i++) {
        KExpr **e = k->also[i];
        for (int o = 0; o < 2; o++) e[o] = k_sized(k, e[o], by_dot ? (Elem)a->elem : acc);
        same_along(k, &k->trips[1 + i], &e[0], e[1]->mask, e[1]->mask);
        e[0]->uses++;
        e[1]->uses++;
    }
    k->a->uses += 1 + k->nmore;
    k->b->uses++;
    k->across &= !k->by_sum;
    if (tf32 && !g->tables->tf32 && !k->by_sum) k_open_large(k);
    else if ((small || tf32) && !k->by_sum) k_open_tiles(k);
    return k_epilogue(k, at);
}

// Which axes a kernel has, and what it stores: what the kinds share. A kind is one file:
//
//   map       map.c      the root's axes, put together as far as no load needs a quotient for it; the last one or two are tiles
//   rows      rows.c     the grid walks over rows, or tiles of them; columns are whole, or a loop if they are too long
//   along     along.c      scans and sorts: the axis that they go along is whole
//   product   product.c  b, m and n of the grid, a loop over k; the root's axes follow from those by inverting its map (epilogue)
//                            and where each channel is by itself, taps are a loop (depthwise.c); keys of an attention (attention.c)
//   scatter   scatter.c  the updates' axes: stores, atomic sums, or one after the other where there is no atomic
//
// Axes are put together by trying: a kernel is built with two axes as one, and that is kept if its loads and stores have no
// more quotients and remainders than before.

#include "graph/write/internal.h"

#include <string.h>

void k_reset(Kernel *k) {
    *k = (Kernel){.g = k->g, .arena = k->arena, .f = k->f, .group = k->group, .fg = k->fg, .numbers = k->numbers, .stepped = k->stepped,
                  .reduces = k->reduces, .step = k->step, .turned = k->turned, .looped = k->looped, .looped_by = k->looped_by, .side = k->side, .by_loops = k->by_loops};
}

static const int64_t plenty = INT64_C(1) << 40;             // more than any tile: sizes beyond are all the same

int64_t k_pow2(int64_t n) {
    int64_t p = 1;
    while (p < n && p < plenty) p *= 2;
    return p;
}

int64_t k_times(int64_t a, int64_t b) {
    int64_t n;
    return __builtin_mul_overflow(a, b, &n) || n > plenty ? plenty : n;
}

Ix k_part_extent(Graph *g, const Ix *shape, KPart p) { return ix_product(g, shape + p.first, p.last - p.first + 1); }

// Coordinates of the axes of a part, from one place in it.
void k_spread(Graph *g, const Ix *shape, KPart p, Ix place, Ix *coord) {
    for (int i = p.last; i >= p.first; i--) {
        coord[i] = i == p.first ? place : ix_mod(g, place, shape[i]);
        place = ix_div(g, place, shape[i]);
    }
}

// Does it fit a tile? Sizes that are not known are taken to: launches check it.
bool k_fits(Ix extent) {
    return extent->kind == IX_CONST ? extent->value <= K_TILE_LIMIT : extent->hi <= K_TILE_LIMIT || extent->hi >= IX_DIM_MAX;
}

bool k_whole(const Kernel *k, Ix extent) {
    return k_fits(extent) && extent != k->looped && ((k->side <= 1 && !k->by_loops) || extent->kind == IX_CONST);
}

int64_t k_tile_of(Ix e, int64_t least, int64_t most) {
    int64_t p = k_pow2(e->kind == IX_CONST ? e->value : most);
    return p < least ? least : p > most ? most : p;
}

// The axes `shape[first ..]` as one axis of the kernel; coordinates to `coord`.
bool k_one_axis(Kernel *k, const Ix *shape, int n, KAxisKind kind, int64_t by, const char *name, Ix *coord) {
    Ix e = ix_product(k->g, shape, n);
    if (!e) return false;
    Ix place = ix(k->g, 0);
    if (!ix_is(e, 1)) {
        int a = k_axis(k, kind, e, by, name);
        if (a < 0) return false;
        place = k->axis[a].axis;
    }
    k_spread(k->g, shape, (KPart){0, n - 1, false}, place, coord);
    return true;
}

// ---- what is stored -------------------------------------------------------------------------------------------------

static bool add_store(Kernel *k, const Node *n, const Ix *coord) {
    KExpr *e = k_value(k, n, coord);
    if (!e) return false;
    if (e->elem != (Elem)n->elem) {
        bool wide = (e->elem == EL_none && elem_is_storage((Elem)n->elem)) || (Elem)n->elem == EL_bool;
        if (wide && e->elem == EL_none) e = n->elem == EL_bool ? e : k_sized(k, e, EL_f32);
        if (e->elem != EL_none || n->elem != EL_bool) e = k_sized(k, e, (Elem)n->elem);
    }
    vec_push(k->arena, &k->stores, ((KStore){.node = n, .coord = copy_ixs(k->g, coord, n->rank), .value = e}));
    e->uses++;
    return true;
}

static bool is_beside(const FGroup *f, const Node *n) {
    for (uint32_t i = 0; i < f->beside.n; i++) if (f->beside.at[i] == n) return true;
    return false;
}

// A tile's numbers, each at the tile's place among those of its rows.
static bool add_numbers(Kernel *k, const Ix *coord) {
    if (!k->fg->numbers.n) return true;
    Ix at[G_MAX_RANK], tile[G_MAX_RANK];
    const KAxis *a = &k->axis[k->columns];
    int last = k->fg->root->rank - 1, v = k_axis(k, A_VALUE, ix_div(k->g, a->extent, ix(k->g, k->fg->width)), 0, NULL);
    if (v < 0) return false;
    KExpr *number = k_text(k, arena_printf(k->arena, "first($0) / %lld", (long long)k->fg->width), P_TIMES, EL_index, k_index(k, a->axis), NULL, NULL);
    number->mask &= ~(UINT64_C(1) << k->columns);
    number->uses = 2;                                        // it gets a name
    k->axis[v].value = number;
    for (int i = 0; i < last; i++) at[i] = tile[i] = coord[i];
    at[last] = ix_div(k->g, a->axis, ix(k->g, k->fg->width));
    tile[last] = k->axis[v].axis;
    for (uint32_t i = 0; i < k->fg->numbers.n; i++) {
        const Node *n = k->fg->numbers.at[i];
        KExpr *e = k_value(k, n, at);
        if (!e) return false;
        vec_push(k->arena, &k->stores, ((KStore){.node = n, .coord = copy_ixs(k->g, tile, n->rank), .value = e}));
        e->uses++;
    }
    return true;
}

// What is made on the way, where it covers its memory: as it was computed there, or once more.
static bool add_passing(Kernel *k, const Node *n, const Ix *coord) {
    const Ix *place = k->f->passing[n->id];
    Ix at[G_MAX_RANK];
    int computed = 0;
    const KMemo *only = NULL;
    for (int i = 0; place && i < n->rank; i++) at[i] = ix_substitute(k->g, place[i], coord, k->fg->root->rank);
    for (uint32_t i = 0; i < k->memo.n; i++) {
        const KMemo *m = &k->memo.at[i];
        if (m->node != n) continue;
        if (place && (!n->rank || memcmp(m->coord, at, (size_t)n->rank * sizeof *at) == 0)) return add_store(k, n, m->coord);
        only = m;
        computed++;
    }
    if (computed == 1) return add_store(k, n, only->coord);
    return place ? add_store(k, n, at) : g_error(k->g, "a value to be stored is not computed") != NULL;
}

// The root, what is made beside it, and what the kernel leaves in memory in passing, at the place where it is computed.
bool k_add_stores(Kernel *k, const Ix *coord) {
    const Node *root = k->fg->root, *as = k->fg->as;
    Ix axis[G_MAX_RANK], inverse[G_MAX_RANK];
    for (int i = 0; as && i < as->rank; i++) axis[i] = ix_axis(k->g, i, as->shape[i]);
    if (as && !map_invert(k->g, root->rank, root->shape, as->view.coord, as->rank, axis, inverse))
        return g_error(k->g, "a value's order cannot be inverted") != NULL;
    for (int i = 0; as && i < as->rank; i++) inverse[i] = ix_substitute(k->g, inverse[i], coord, root->rank);
    if (!add_store(k, as ? as : root, as ? inverse : coord)) return false;
    for (uint32_t i = 0; i < k->fg->makes.n; i++) {
        const Node *n = k->fg->makes.at[i];
        if (n == (as ? as : root) || n->kind == G_proj || k_is_number(k, n)) continue;
        if (!(n == root || is_beside(k->fg, n) ? add_store(k, n, coord) : add_passing(k, n, coord))) return false;
    }
    return add_numbers(k, coord);
}

// ---- axes put together -----------------------------------------------------------------------------------------------

typedef bool BuildWith(Kernel *k, const KPart *part, int n);

// The fewest parts that need no more quotients than the axes alone. The kernel is left built.
static bool fewest_parts(Kernel *k, KPart *part, int n, BuildWith *build) {
    if (!build(k, part, n)) return false;
    int least = k_load_quotients(k);
    for (int i = n - 2; i >= 0; i--) {
        KPart together[G_MAX_RANK];
        if (part[i].row != part[i + 1].row || part[i].last + 1 != part[i + 1].first) continue;
        memcpy(together, part, (size_t)n * sizeof *part);
        together[i].last = part[i + 1].last;
        memmove(together + i + 1, together + i + 2, (size_t)(n - i - 2) * sizeof *part);
        if (!build(k, together, n - 1)) return false;
        if (k_load_quotients(k) > least) continue;
        memcpy(part, together, (size_t)(n - 1) * sizeof *part);
        n--;
    }
    return build(k, part, n);
}

static int single_parts(const Node *root, uint32_t rows, KPart *part) {
    int n = 0;
    for (int i = 0; i < root->rank; i++)
        if (!ix_is(root->shape[i], 1)) part[n++] = (KPart){i, i, rows >> i & 1};
    return n;
}

static bool rows(Kernel *k) {
    const FGroup *f = k->fg;
    KPart part[G_MAX_RANK + 1] = {0};
    k_find_looped(k);
    if (!fewest_parts(k, part, k_looped_part(k, part, single_parts(f->root, f->rows, part)), k_rows_with)) return false;
    k->reduces = k_reduces(k);
    k->turned = k->reduces == R_TAPS && k->turned >= 0 ? part[k->turned].last : -1;     // all of them are rows
    return k->reduces == R_ROWS || fewest_parts(k, part, single_parts(f->root, f->rows, part), k_rows_with);
}

static bool map(Kernel *k) {
    KPart part[G_MAX_RANK + 1] = {0};
    return fewest_parts(k, part, single_parts(k->fg->root, 0, part), k_map_with);
}

bool kernel_build(Kernel *k) {
    const FGroup *f = k->fg;
    if (f->root->from) g_at(k->g, f->root->from);
    switch (f->kind) {
    case F_MAP: return map(k);
    case F_ROWS: return f->anchor ? k_along(k) : rows(k);
    case F_PRODUCT: return f->attends ? k_attention(k) : g_is_depthwise(k->g, f->anchor) ? k_depthwise(k) : k_product(k);
    case F_SCATTER: return k_scatter(k);
    case F_STEPS: break;
    }
    return false;
}

// The shapes of kernels: which axes a kernel has, and what it stores.
//
//   map       the root's axes, put together as far as no load needs a quotient for it; the last one or two are tiles
//   rows      the grid walks over rows, or tiles of them; columns are whole, or a loop if they are too long
//   product   b, m and n of the grid, a loop over k; the root's axes follow from those by inverting its map (epilogue)
//   scatter   the updates' axes: stores, atomic sums, or one after the other where there is no atomic
//
// Axes are put together by trying: a kernel is built with two axes as one, and that is kept if its loads and stores have no
// more quotients and remainders than before.

#include "graph/write/internal.h"

#include <inttypes.h>
#include <string.h>

typedef struct Part { int first, last; bool row; } Part;     // adjacent axes of the root as one

void k_reset(Kernel *k) {
    *k = (Kernel){.g = k->g, .arena = k->arena, .f = k->f, .group = k->group, .fg = k->fg, .numbers = k->numbers,
                  .reduces = k->reduces, .step = k->step, .turned = k->turned, .looped = k->looped, .looped_by = k->looped_by, .side = k->side};
}

static const int64_t plenty = INT64_C(1) << 40;             // more than any tile: sizes beyond are all the same

int64_t k_pow2(int64_t n) {
    int64_t p = 1;
    while (p < n && p < plenty) p *= 2;
    return p;
}

static int64_t times(int64_t a, int64_t b) {
    int64_t n;
    return __builtin_mul_overflow(a, b, &n) || n > plenty ? plenty : n;
}

static Ix part_extent(Graph *g, const Ix *shape, Part p) { return ix_product(g, shape + p.first, p.last - p.first + 1); }

// Coordinates of the axes of a part, from one place in it.
static void spread(Graph *g, const Ix *shape, Part p, Ix place, Ix *coord) {
    for (int i = p.last; i >= p.first; i--) {
        coord[i] = i == p.first ? place : ix_mod(g, place, shape[i]);
        place = ix_div(g, place, shape[i]);
    }
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

// The root, and what the kernel leaves in memory in passing, at the place where it is computed.
static bool add_stores(Kernel *k, const Ix *coord) {
    const Node *root = k->fg->root, *as = k->fg->as;
    Ix axis[G_MAX_RANK], inverse[G_MAX_RANK];
    for (int i = 0; as && i < as->rank; i++) axis[i] = ix_axis(k->g, i, as->shape[i]);
    if (as && !map_invert(k->g, root->rank, root->shape, as->view.coord, as->rank, axis, inverse))
        return g_error(k->g, "a value's order cannot be inverted") != NULL;
    for (int i = 0; as && i < as->rank; i++) inverse[i] = ix_substitute(k->g, inverse[i], coord, root->rank);
    if (!add_store(k, as ? as : root, as ? inverse : coord)) return false;
    for (uint32_t i = 0; i < k->fg->makes.n; i++) {
        const Node *n = k->fg->makes.at[i];
        if (n == root || n == as || n->kind == G_proj) continue;
        bool found = false;
        for (uint32_t m = 0; m < k->memo.n && !found; m++) {
            if (k->memo.node[m] != n) continue;
            found = add_store(k, n, k->memo.coord[m]);
        }
        if (!found) return g_error(k->g, "a value to be stored is not computed") != NULL;
    }
    return true;
}

// ---- map ------------------------------------------------------------------------------------------------------------

static const char *const axis_names[] = {"n", "m", "l", "j", "i", "h", "g", "f", "e", "d", "c", "b", "a", "u", "v", "w"};

enum { SQUARE = 64, FEW_SIDE = 8 };

// An axis along which something is read that is stored along another one, both long: -1: there is none.
static int crossing(const Kernel *k) {
    int last = k->naxes - 1, across = -1;
    if (last < 0 || k->axis[last].kind != A_TILE || k->axis[last].extent->kind != IX_CONST || k->axis[last].extent->value < 32) return -1;
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        const KExpr *e = k->exprs.at[i];
        if (e->op != E_LOAD || !(e->mask >> last & 1)) continue;
        Ix shape[G_MAX_RANK], at[G_MAX_RANK];
        int n = dims_merged(k->g, e->node->rank, e->node->shape, e->coord, shape, at);
        uint64_t moves = n ? at[n - 1]->axes : 0;
        Ix rest, step = moves && !(moves & (moves - 1)) ? ix_coefficient(k->g, at[n - 1], __builtin_ctzll(moves), &rest) : NULL;
        if (!step || !ix_is(step, 1)) continue;
        int axis = __builtin_ctzll(moves);
        if (axis == last || axis >= k->naxes || k->axis[axis].extent->kind != IX_CONST || k->axis[axis].extent->value < FEW_SIDE) continue;
        across = axis;
    }
    return across;
}

typedef struct Joined { const Node *node; int axis; } Joined;       // a concatenation, along this axis of the root; or NULL

// What is read along one axis and stored along another is a square, so that both have whole lines: through shared memory. 64
// channels last on an H200: 3.9 TB/s in f32 instead of 2.5 by 16 x 64.
//
// Of what is put together from `joined`'s sources along that axis, each is a loop with a store of its own: not a choice between all of them for
// every element.
static bool map_in(Kernel *k, const Part *part, int n, int across, Joined joined) {
    const Node *root = k->fg->root;
    Ix coord[G_MAX_RANK], before = ix(k->g, 0);
    int64_t lanes = 1;
    k_reset(k);
    for (int i = 0; i < root->rank; i++) coord[i] = ix(k->g, 0);
    KAxisKind kind[G_MAX_RANK];
    int64_t by[G_MAX_RANK];
    for (int i = n; i-- > 0;) {                              // the last axes are tiles, until they have lanes enough
        Ix e = part_extent(k->g, root->shape, part[i]);
        if (!e) return false;
        int64_t size = e->kind == IX_CONST ? e->value : 512, room = 1024 / lanes;
        by[i] = k_pow2(size < 1 ? 1 : size);
        if (by[i] > room) by[i] = room;
        kind[i] = lanes < 256 && by[i] > 1 ? A_TILE : A_GRID;
        if (kind[i] == A_TILE) lanes *= by[i];
    }
    for (int i = 0, axis = 0; i < n && across >= 0; i++) {
        Ix e = part_extent(k->g, root->shape, part[i]);
        bool side = axis == across || i == n - 1;
        kind[i] = side ? A_TILE : A_GRID;
        by[i] = side ? k_tile_of(e, 1, SQUARE) : 1;
        axis += !ix_is(e, 1);
    }
    for (int i = 0; i < n; i++) {
        Ix e = part_extent(k->g, root->shape, part[i]);
        if (!e) return false;
        Ix place = ix(k->g, 0);
        if (!ix_is(e, 1) && !(joined.node && part[i].first == joined.axis)) {
            int a = k_axis(k, kind[i], e, by[i], axis_names[n - 1 - i]);
            if (a < 0) return false;
            place = k->axis[a].axis;
        }
        spread(k->g, root->shape, part[i], place, coord);
    }
    if (!joined.node) return add_stores(k, coord);
    for (uint32_t i = 0; i < joined.node->nsrc; i++) {
        Ix e = joined.node->src[i]->shape[joined.node->concat.axis];
        if (e->value == 0) continue;
        int a = k_axis(k, A_LOOP_TILE, e, k_tile_of(e, 1, SQUARE), "c");
        if (a < 0) return false;
        coord[joined.axis] = ix_add(k->g, before, k->axis[a].axis);
        if (!add_stores(k, coord)) return false;
        before = ix_add(k->g, before, e);
    }
    return true;
}

// What the root is element by element, moved or not, put together from few sources along an axis that is a part of its own, where programs are
// enough without it.
static Joined joined_along(const Kernel *k, const Part *part, int n, int across) {
    enum { MOST = 16, PROGRAMS = 512 };
    const Joined none = {NULL, 0};
    const Node *x = k->fg->root;
    Ix coord[G_MAX_RANK], moved[G_MAX_RANK];
    int64_t programs = 1;
    for (int d = 0; d < x->rank; d++) coord[d] = ix_axis(k->g, d, x->shape[d]);
    while (x->kind == G_ew || x->kind == G_cast || (x->kind == G_view && ix_is(x->view.pred, 1))) {
        const Node *next = x->src[0];
        for (uint32_t i = 1; i < x->nsrc; i++)
            if (next->kind == G_view || next->kind == G_const) next = x->src[i];
        for (int d = 0; x->kind == G_view && d < next->rank; d++)
            if (!(moved[d] = ix_substitute(k->g, x->view.coord[d], coord, x->rank))) return none;
        if (x->kind == G_view) memcpy(coord, moved, sizeof coord);
        x = next;
    }
    if (x->kind != G_concat || k_reads(k, x) || x->nsrc > MOST || k->fg->makes.n != 1) return none;
    for (uint32_t i = 0; i < x->nsrc; i++)
        if (!ix_is_const(x->src[i]->shape[x->concat.axis])) return none;
    Ix at = coord[x->concat.axis];
    bool own = false;
    for (int i = 0, axis = 0; i < n; i++) {
        Ix e = part_extent(k->g, k->fg->root->shape, part[i]);
        if (axis == across && !ix_is(e, 1)) own = part[i].first == part[i].last && at->kind == IX_AXIS && part[i].first == at->value;
        else programs = times(programs, i == n - 1 ? e->lo / SQUARE : e->lo);
        axis += !ix_is(e, 1);
    }
    return own && programs >= PROGRAMS ? (Joined){x, (int)at->value} : none;
}

static bool map_with(Kernel *k, const Part *part, int n) {
    if (!map_in(k, part, n, -1, (Joined){NULL, 0})) return false;
    int across = crossing(k);
    return across < 0 || map_in(k, part, n, across, joined_along(k, part, n, across));
}

typedef bool BuildWith(Kernel *k, const Part *part, int n);

// The fewest parts that need no more quotients than the axes alone. The kernel is left built.
static bool fewest_parts(Kernel *k, Part *part, int n, BuildWith *build) {
    if (!build(k, part, n)) return false;
    int least = k_load_quotients(k);
    for (int i = n - 2; i >= 0; i--) {
        Part together[G_MAX_RANK];
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

static int single_parts(const Node *root, uint32_t rows, Part *part) {
    int n = 0;
    for (int i = 0; i < root->rank; i++)
        if (!ix_is(root->shape[i], 1)) part[n++] = (Part){i, i, rows >> i & 1};
    return n;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

enum { TILE_LIMIT = 8192, ROW_LIMIT = 16384, LANES = 1024, SIDE = 32 };

static bool fits(Ix e) { return e->kind == IX_CONST ? e->value <= TILE_LIMIT : e->hi <= TILE_LIMIT || e->hi >= IX_DIM_MAX; }

// Elements of the longest reduction of a row, and of the columns.
static int64_t row_length(const Kernel *k) {
    int64_t longest = 1;
    for (uint32_t i = 0; i < k->fg->nodes.n; i++) {
        const Node *n = k->fg->nodes.at[i];
        int64_t size = 1;
        if (n->kind != G_reduce) continue;
        for (int d = 0; d < n->src[0]->rank; d++)
            if (n->reduce.axes >> d & 1)
                size = times(size, n->src[0]->shape[d]->kind == IX_CONST ? n->src[0]->shape[d]->value : 1024);
        if (size > longest) longest = size;
    }
    return longest;
}

enum { TAPS = 32, CHANNELS = 64, AREA = 128, LONG_ROW = 512, FEW_LANES = 256 };

// Windows of several dimensions that move along the innermost one: how far; 0: they do not.
static int64_t window_step(const Kernel *k, const Ix at, int innermost) {
    for (uint32_t i = 0; i < k->fg->nodes.n; i++) {
        const Node *n = k->fg->nodes.at[i];
        int dims = 0;
        if (n->kind != G_reduce) continue;
        for (int d = 0; d < n->src[0]->rank; d++) dims += n->reduce.axes >> d & 1 && !ix_is(n->src[0]->shape[d], 1);
        if (dims < 2) return 0;
    }
    Ix rest, step = ix_coefficient(k->g, at, innermost, &rest);
    return step && ix_is_const(step) ? step->value : 0;
}

// The axis of rows, a long one and not the last, that all which is read moves along where memory has it innermost: -1: there is none.
static int turned_axis(const Kernel *k, uint64_t rows, int innermost) {
    enum { LEAST = 32 };
    int turned = -1;
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        const KExpr *e = k->exprs.at[i];
        if (e->op != E_LOAD || !(e->mask & ~rows)) continue;
        Ix shape[G_MAX_RANK], at[G_MAX_RANK];
        int n = dims_merged(k->g, e->node->rank, e->node->shape, e->coord, shape, at);
        uint64_t moves = n ? at[n - 1]->axes & rows : 0;
        if (!moves || moves & (moves - 1) || (turned >= 0 && moves >> turned != 1)) return -1;
        turned = __builtin_ctzll(moves);
    }
    for (int i = 0; i < 2 && turned >= 0; i++) {
        Ix extent = k->axis[i ? innermost : turned].extent;
        if (turned == innermost || extent->kind != IX_CONST || extent->value < LEAST) return -1;
    }
    return turned;
}

// Reductions of all that is read, if the root has only rows: along columns in memory?
static KReduces reduces(Kernel *k) {
    const Node *root = k->fg->root;
    uint64_t rows = 0, innermost = 0;
    int64_t most = 1;
    bool found = false;
    k->step = 0;
    for (int i = 0; i < k->naxes; i++) {
        const KAxis *a = &k->axis[i];
        if (a->kind != A_GRID && a->kind != A_TILE) continue;
        rows |= UINT64_C(1) << i;
        innermost = UINT64_C(1) << i;
    }
    for (int i = 0; i < root->rank; i++)
        if (!(k->fg->rows >> i & 1) && !ix_is(root->shape[i], 1)) return R_ROWS;
    k->turned = innermost ? turned_axis(k, rows, __builtin_ctzll(innermost)) : -1;
    if (k->turned >= 0) innermost = UINT64_C(1) << k->turned;
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        const KExpr *e = k->exprs.at[i];
        if (e->op == E_REDUCE) {
            int64_t size = 1;
            for (int a = 0; a < e->naxes && size <= AREA; a++) {
                Ix extent = k->axis[e->axes[a]].extent;
                size *= extent->kind == IX_CONST && extent->value <= AREA ? extent->value : AREA + 1;
            }
            if (size > most) most = size;
        }
        if (e->op != E_LOAD || !(e->mask & ~rows)) continue;
        Ix shape[G_MAX_RANK], at[G_MAX_RANK];
        int n = dims_merged(k->g, e->node->rank, e->node->shape, e->coord, shape, at);
        found = true;
        if (n == 0 || (at[n - 1]->axes & rows) != innermost) return R_ROWS;
        if (at[n - 1]->axes == innermost) continue;
        if (!innermost || !(k->step = window_step(k, at[n - 1], __builtin_ctzll(innermost)))) return R_ROWS;
    }
    if (!found || !innermost || (k->step && most > AREA) || (k->turned >= 0 && !k->step)) return R_ROWS;
    return k->step || most <= TAPS ? R_TAPS : R_COLUMNS;
}

// What is reduced may be several stretches of dimensions, of several rows that lie side by side: if all together are
// too much for a tile, the longest is a loop.
static void find_looped(Kernel *k) {
    const Node *root = k->fg->root;
    int last = root->rank - 1;
    while (last > 0 && ix_is(root->shape[last], 1)) last--;
    k->side = 1;
    for (int i = 0; i < last && k->fg->rows >> last & 1; i++)
        if (!(k->fg->rows >> i & 1) && !ix_is(root->shape[i], 1)) k->side = SIDE;
    if (k->side > 1 && root->shape[last]->kind == IX_CONST && k_pow2(root->shape[last]->value) < k->side)
        k->side = k_pow2(root->shape[last]->value);
    for (uint32_t i = 0; i < k->fg->nodes.n; i++) {
        const Node *n = k->fg->nodes.at[i], *x = n->kind == G_reduce ? n->src[0] : NULL;
        Ix longest = NULL;
        int64_t all = 1, most = 1;
        for (int d = 0; x && d < x->rank;) {
            int end = d;
            while (end < x->rank && n->reduce.axes >> end & 1) end++;
            Ix e = end > d ? ix_product(k->g, x->shape + d, end - d) : NULL;
            int64_t size = e && e->kind == IX_CONST ? k_pow2(e->value) : e && k->side > 1 ? TILE_LIMIT : 1;
            all = times(all, size);
            if (size > most) most = size, longest = e;
            d = end > d ? end : d + 1;
        }
        if (times(all, k->side) <= ROW_LIMIT || (most == all && k->side == 1)) continue;
        int64_t room = TILE_LIMIT / k->side / (all / most);
        k->looped = longest;
        k->looped_by = room > 1 ? room : 1;
    }
}

// Columns that are together what the loop goes over are one axis, as they are to what is reduced, whatever quotients that takes.
static int looped_part(Kernel *k, Part *part, int n) {
    for (int i = 0; i < n && k->looped; i++)
        for (int end = i + 1; end < n && !part[end].row && !part[i].row && part[end - 1].last + 1 == part[end].first; end++) {
            Part all = {part[i].first, part[end].last, false};
            if (part_extent(k->g, k->fg->root->shape, all) != k->looped) continue;
            part[i] = all;
            memmove(part + i + 1, part + end + 1, (size_t)(n - end - 1) * sizeof *part);
            return n - (end - i);
        }
    return n;
}

// Does the order in which it is stored have the rows of this part innermost?
static bool stored_by_rows(const Kernel *k, Part p) {
    const Node *as = k->fg->as;
    int last = as ? as->rank - 1 : -1;
    while (last > 0 && ix_is(as->shape[last], 1)) last--;
    for (int d = p.first; d <= p.last && last >= 0; d++)
        if (as->view.coord[d]->axes >> last & 1) return true;
    return false;
}

static bool rows_with(Kernel *k, const Part *part, int n) {
    const Node *root = k->fg->root;
    Graph *g = k->g;
    Ix coord[G_MAX_RANK];
    k_reset(k);
    for (int i = 0; i < root->rank; i++) coord[i] = ix(g, 0);
    int64_t columns = 1, length = row_length(k);
    int last_row = -1;
    for (int i = 0; i < n; i++) {
        Ix e = part_extent(g, root->shape, part[i]);
        if (!e) return false;
        if (part[i].row) last_row = i;
        else columns = times(columns, e->kind == IX_CONST ? e->value : 1024);
    }
    int64_t row = k_pow2(length > columns ? length : columns), rows = LANES / (row < LANES ? row : LANES);
    bool packed = last_row == n - 1 || (last_row >= 0 && stored_by_rows(k, part[last_row]));
    if (packed && rows < SIDE && (row <= 256 || k->side > 1)) rows = SIDE;    // rows lie side by side in memory
    int64_t room = TILE_LIMIT / k->side;
    // of columns: the last axes are tiles, until they have lanes enough
    int64_t lanes = LANES;
    int64_t tile[G_MAX_RANK + 1], across = k->step ? SIDE : CHANNELS;
    while (k->step && across * 2 * k->step <= LONG_ROW) across *= 2;      // of windows: a row of what is read
    if (k->step) lanes = k->step > 2 ? 1 : FEW_LANES;
    for (int i = n; i-- > 0 && k->reduces != R_ROWS;) {
        Ix e = part_extent(g, root->shape, part[i]);
        int64_t size = k_pow2(e->kind == IX_CONST ? e->value : CHANNELS),
                limit = i == n - 1 ? k->reduces == R_TAPS ? across : CHANNELS / 2 : lanes;
        tile[i] = size < limit ? size : limit;
        lanes = k->reduces == R_TAPS && lanes > tile[i] ? lanes / tile[i] : 1;
        if (k->turned < 0) continue;                         // read along one axis and stored along another: a square
        bool side = i == n - 1 || (part[i].first <= k->turned && k->turned <= part[i].last);
        tile[i] = side ? k_tile_of(e, 1, SQUARE) : 1;
    }
    for (int pass = 0, names = 0; pass < 2; pass++)          // the grid first
        for (int i = 0; i < n; i++) {
            Ix e = part_extent(g, root->shape, part[i]);
            if (part[i].row == (pass == 1)) continue;
            int64_t by = rows;
            if (e->kind == IX_CONST && k_pow2(e->value) < by) by = k_pow2(e->value);
            bool tiled = i == last_row;
            if (k->reduces != R_ROWS) by = tile[i], tiled = true;
            bool full = fits(e) && e != k->looped && (k->side == 1 || e->kind == IX_CONST);
            KAxisKind kind = !part[i].row ? (full ? A_FULL : A_LOOP_TILE) : tiled && by > 1 ? A_TILE : A_GRID;
            if (kind == A_LOOP_TILE) {
                by = e == k->looped ? k->looped_by : room > 2048 ? 2048 : room;
                room = room / by > 1 ? room / by : 1;
            }
            int a = k_axis(k, kind, e, by, part[i].row ? (names++ ? "l" : "m") : "n");
            if (a < 0) return false;
            spread(g, root->shape, part[i], k->axis[a].axis, coord);
        }
    return add_stores(k, coord);
}

// ---- scans and sorts ------------------------------------------------------------------------------------------------

static bool along(Kernel *k) {
    const Node *n = k->fg->anchor;
    Graph *g = k->g;
    int axis = n->kind == G_scan ? n->scan.axis : n->sort.axis, at = -1;
    Ix coord[G_MAX_RANK];
    k_reset(k);
    for (int i = 0; i < n->rank; i++) {
        coord[i] = ix(g, 0);
        if (ix_is(n->shape[i], 1) && i != axis) continue;
        int a = k_axis(k, i == axis ? A_FULL : A_GRID, n->shape[i], 0, i == axis ? "n" : "m");
        if (a < 0) return false;
        coord[i] = k->axis[a].axis;
        if (i == axis) at = a;
    }
    if (n->shape[axis]->kind == IX_CONST && n->shape[axis]->value > 32768)
        return g_error(g, "a scan or sort along %lld elements has no form in a kernel yet",
                       (long long)n->shape[axis]->value) != NULL;
    KExpr *e = k_value(k, n->src[0], coord);
    if (!e) return false;
    if (e->elem == EL_none || e->elem == EL_index) e = k_sized(k, e, (Elem)n->elem);
    // the same along the axis
    if (!(e->mask >> at & 1))
        e = k_text(k, "where($0 >= 0, $1, $1)", P_PRIMARY, e->elem, k_index(k, k->axis[at].axis), e, NULL);
    bool placed = false;                                     // then -0 and 0 are equal: the first comes first
    for (uint32_t i = 0; i < k->fg->makes.n; i++) placed |= k->fg->makes.at[i]->kind == G_proj && k->fg->makes.at[i]->proj.result == 1;
    if (n->kind == G_sort && placed && elem_is_float((Elem)n->elem))
        e = k_text(k, "$0 + 0.0", P_PLUS, elem_is_storage(e->elem) ? EL_f32 : e->elem, e, NULL, NULL);
    e->uses++;
    k->along = (KAlong){.node = n, .arg = e, .axis = at};
    for (uint32_t i = 0; i < k->fg->makes.n; i++) {
        const Node *m = k->fg->makes.at[i];
        if (n->kind == G_sort && m == n) continue;
        KExpr *v = NEW(k->arena, KExpr);
        bool places = m->kind == G_proj && m->proj.result == 1;
        *v = (KExpr){.op = E_ALONG,
                     .elem = places ? EL_index : e->elem,
                     .prec = P_PRIMARY,
                     .mask = e->mask | UINT64_C(1) << at,
                     .number = g_int(places),
                     .var = -1};
        if (n->kind == G_scan && elem_is_storage(e->elem)) v->elem = EL_f32;
        KExpr *s = k_sized(k, v, (Elem)m->elem);
        s->uses = v->uses = 1;
        vec_push(k->arena, &k->stores, ((KStore){.node = m, .coord = copy_ixs(g, coord, m->rank), .value = s}));
    }
    return true;
}

// ---- products -------------------------------------------------------------------------------------------------------

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
    spread(k->g, shape, (Part){0, n - 1, false}, place, coord);
    return true;
}

// The contracted axes: the last, which memory has innermost, or else the longest is the tile, the others are loops;
// short ones are put together into one. No more lanes than the axis has, and two trips where there would be one, to
// load ahead in.
static bool contracted(Kernel *k, const Ix *shape, int n, int64_t by, Ix *coord) {
    int longest = 0;
    int64_t most = 0, all = 1;
    for (int i = 0; i < n; i++) {
        int64_t size = shape[i]->kind == IX_CONST ? shape[i]->value : 1024;
        if (size >= most || (i == n - 1 && size >= 16)) most = size, longest = i;
        all = times(all, size);
    }
    if (n > 1 && most >= 16 && most < by) by = k_pow2(most);
    if (all <= by && by >= 64) by = all > 32 ? 32 : 16;
    if (most < 16 || n == 1) return k_one_axis(k, shape, n, A_LOOP_TILE, by, "k", coord);
    static const char *const names[] = {"r", "s", "t", "u", "v", "w"};
    for (int i = 0, other = 0; i < n; i++)
        if (!k_one_axis(k, shape + i, 1, i == longest ? A_LOOP_TILE : A_LOOP, by,
                        i == longest ? "k" : names[other++ % 6], coord + i))
            return false;
    return true;
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
    return add_stores(k, coord);
}

// What follows the product, at `at` of its result: the root's axes follow from the contraction's. Parts of the root
// that lie side by side are stored one after the other.
bool k_epilogue(Kernel *k, const Ix *at) {
    const Node *c = k->fg->anchor, *root = k->fg->root;
    Graph *g = k->g;
    Ix axis[G_MAX_RANK] = {0}, inverse[G_MAX_RANK], coord[G_MAX_RANK], own[G_MAX_RANK];
    int parts = k->fg->parts, n = 0;
    if (root == c) return add_stores(k, at);
    if (k->fg->whole) return whole_rows(k, at);
    for (int i = 0; i < root->rank; i++)
        if (i != parts) axis[n++] = ix_axis(g, i, root->shape[i]);
    if (!map_invert(g, c->rank, c->shape, k->fg->place, n, axis, inverse))
        return g_error(g, "a product's place in its kernel cannot be inverted") != NULL;
    for (int i = 0; i < n; i++) own[i] = ix_substitute(g, inverse[i], at, c->rank);
    int64_t count = parts < 0 ? 1 : root->shape[parts]->value;
    for (int64_t part = 0; part < count; part++) {
        for (int i = 0, from = 0; i < root->rank; i++) coord[i] = i == parts ? ix(g, part) : own[from++];
        if (!add_stores(k, coord)) return false;
    }
    return true;
}

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

// Each channel by itself: channels and places are tiles, taps a loop in which they are multiplied and added. Places of
// one row, where rows are long enough: what a place has of one tap its neighbour has of the next (lower/pass/unroll.c). Where rows
// are innermost in memory a program has one of one channel (64 channels, 512 x 512 pixels on an H200: 0.76 ms instead of 2.3).
static bool depthwise(Kernel *k) {
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
    k->a->uses++;
    k->b->uses++;
    return k_epilogue(k, at);
}

// Tiles of 16-bit products, and of f32, are chosen for the dimensions of a launch: `BM = 128` and so on in place of numbers.
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

static void open_tiles(Kernel *k) {
    bool two = k->b2 != NULL;                                // two sums: half the tile
    if (k->across) k_open_tile(k, "n", "BM", "BM in [64, 128, 256]");
    else k_open_tile(k, "m", "BM", two ? "BM in [16, 64, 128]" : many_by_few(k) ? "BM in [64, 128, 256]" : "BM in [8, 16, 32, 64, 128, 256]");
    for (int i = 0; i < k->naxes; i++)                       // a few columns are one tile in any case
        if (k->axis[i].kind == A_TILE && strcmp(k->axis[i].name, "n") == 0 && k->axis[i].extent->hi < 64) return;
    k_open_tile(k, k->across ? "m" : "n", "BN", k->across ? "BN in [64, 128, 256]" : two ? "BN in [64, 96, 128]" : "BN in [64, 96, 128, 144, 160, 176, 192, 208, 224, 256]");
    if (k->fg->whole && k->fg->anchor->shape[k->fg->anchor->rank - 1]->value > 128) vec_push(k->arena, &k->tune, "where BM <= 128");
    bool both = k->tune.n == 2 && !k->fg->whole, deep = false, deeper = false;
    for (int i = 0; i < k->naxes; i++) {
        if (k->axis[i].kind != A_LOOP_TILE || k->axis[i].by != 64 || k->axis[i].extent->hi < 128) continue;
        deep = !two;
        deeper = deep && k->axis[i].extent->hi >= 512;
        k_open_tile(k, "k", "BK", deeper ? "BK in [64, 128, 256]" : deep ? "BK in [64, 128]" : NULL);
    }
    // 128 of k in a large tile leave room for two stages only; tiles of other widths fill a round where those do not
    if (both)
        vec_push(k->arena, &k->tune,
                 two ? "where BM * BN <= 128 * 128"
                     : "where BM * BN <= 128 * 256 && (BN % 64 == 0 || BM == 128 || (BM == 64 && BN == 144))");
    if (both && deep)
        vec_push(k->arena, &k->tune,
                 deeper ? "where (BK == 64 || BM <= 64) && (BK <= 128 || BM <= 16)" : "where BK == 64 || BM <= 64");
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
    if (root == c || f->parts >= 0 || f->second || f->whole || !columns || !ix_is_const(columns) || columns->value % WHOLE || !columns->value) return -1;
    while (d > 0 && ix_is(root->shape[d], 1)) d--;
    while (d >= 0 && first > nb && f->place[first - 1] == ix_axis(g, d, root->shape[d]) && root->shape[d] == c->shape[first - 1]) d--, first--;
    Ix each = first < nb + nm ? ix_product(g, c->shape + first, nb + nm - first) : NULL;
    int functions = 0;
    for (uint32_t i = 0; i < f->nodes.n; i++) functions += f->nodes.at[i]->kind == G_ew && g_is_function((GEw)f->nodes.at[i]->op);
    return each && ix_is_const(each) && each->value >= MANY_ROWS && !functions ? first - nb : -1;
}

static bool product_by(Kernel *k, bool open);

static bool product(Kernel *k) { return product_by(k, true); }

static bool product_by(Kernel *k, bool open) {
    const Node *c = k->fg->anchor, *a = c->src[0], *b = c->src[1];
    Graph *g = k->g;
    int nb = c->contract.nb, nm = c->contract.nm, nn = c->contract.nn, nk = c->contract.nk;
    Ix at[G_MAX_RANK], ca[G_MAX_RANK], cb[G_MAX_RANK], kc[G_MAX_RANK];
    k_reset(k);
    bool floats = elem_is_float((Elem)a->elem), small = floats && elem_bits((Elem)a->elem) == 16;
    bool tf32 = a->elem == EL_f32 && b->elem == EL_f32 && (g->tables->tf32 || (open && k_large(g, c)));          // wgmma has it, so large tiles are as good
    bool bytes = elem_bits((Elem)a->elem) == 8 && elem_bits((Elem)b->elem) == 8 && dot_takes(a, b, c->contract.acc);
    k->by_sum = !dot_takes(a, b, c->contract.acc);
    int64_t most = k->by_sum ? 16 : small || tf32 || bytes ? 128 : 64, least = k->by_sum ? 1 : 16;
    int apart = k->by_sum ? 0 : rows_innermost(g, c), across = k->by_sum || !(small || tf32) ? -1 : stored_across(g, k->fg);
    if (across > apart) apart = across;
    k->across = across >= 0;
    if (!k_one_axis(k, c->shape, nb, A_GRID, 0, "b", at)) return false;
    if (apart && !k_one_axis(k, c->shape + nb, apart, A_GRID, 0, "l", at + nb)) return false;
    if (!k_one_axis(k, c->shape + nb + apart, nm - apart, A_TILE, k_tile_of(ix_product(g, c->shape + nb + apart, nm - apart), least, most), "m",
                    at + nb + apart))
        return false;
    if (!k_one_axis(k, c->shape + nb + nm, nn, k->fg->whole ? A_FULL : A_TILE, k_tile_of(ix_product(g, c->shape + nb + nm, nn), least, most),
                    "n", at + nb + nm))
        return false;
    bool has_m = !ix_is(ix_product(g, c->shape + nb, nm), 1), has_n = !ix_is(ix_product(g, c->shape + nb + nm, nn), 1);
    k->by_sum |= !has_m || !has_n;
    if (!contracted(k, a->shape + nb + nm, nk, bytes && !k->by_sum ? 128 : small ? 64 : 32, kc)) return false;
    for (int i = 0; i < nb + nm; i++) ca[i] = at[i];
    for (int i = 0; i < nk; i++) ca[nb + nm + i] = kc[i], cb[nb + nn + i] = kc[i];
    for (int i = 0; i < nb; i++) cb[i] = at[i];
    for (int i = 0; i < nn; i++) cb[nb + i] = at[nb + nm + i];
    k->a = k_value(k, a, ca);
    k->b = k_value(k, b, cb);
    if (k->fg->second) k->b2 = k_value(k, k->fg->second->src[1], cb);
    if (!k->a || !k->b || (k->fg->second && !k->b2)) return false;
    uint64_t loops = 0;
    for (int i = 0; i < k->naxes; i++)
        if (k->axis[i].kind == A_LOOP_TILE) loops |= UINT64_C(1) << i;
    k->by_sum |= (k->a->mask & loops) != loops || (k->b->mask & loops) != loops || (k->b2 && (k->b2->mask & loops) != loops);
    if (k->by_sum && tf32 && !g->tables->tf32) return product_by(k, false);
    bool by_dot = !k->by_sum && loops != 0;                  // taps alone, or one element, are multiplied as they are
    Elem acc = c->contract.acc;
    k->a = k_sized(k, k->a, by_dot ? (Elem)a->elem : acc);
    k->b = k_sized(k, k->b, by_dot ? (Elem)b->elem : acc);
    if (k->b2) k->b2 = k_sized(k, k->b2, by_dot ? (Elem)b->elem : acc);
    k->a->uses += 1 + (k->b2 != NULL);
    k->b->uses++;
    if (k->b2) k->b2->uses++;
    k->across &= !k->by_sum;
    if (tf32 && !g->tables->tf32 && !k->by_sum) k_open_large(k);
    else if ((small || tf32) && !k->by_sum) open_tiles(k);
    return k_epilogue(k, at);
}

// ---- scatters -------------------------------------------------------------------------------------------------------

// Updates that no atomic can combine are gathered: each element of the result looks for those that are meant for it.
//
//     y[c] = x[c] * prod(where(index[u] == c, update[u], 1) over u)
static bool gathered(Kernel *k) {
    const Node *n = k->fg->root, *updates = n->src[1];
    Graph *g = k->g;
    Elem elem = (Elem)n->elem;
    Ix coord[G_MAX_RANK], uc[G_MAX_RANK] = {0};
    int axis[G_MAX_RANK], naxes = 0;
    for (int i = 0; i < n->rank; i++) {
        bool last = i == n->rank - 1;
        coord[i] = ix(g, 0);
        if (ix_is(n->shape[i], 1)) continue;
        int a = k_axis(k, last ? A_TILE : A_GRID, n->shape[i], k_tile_of(n->shape[i], 1, 32), last ? "n" : "m");
        if (a < 0) return false;
        coord[i] = k->axis[a].axis;
    }
    KExpr *match = NULL;
    for (int i = 0; i < n->rank; i++) {                      // axes of the updates that are axes of the result
        Ix c = n->at.coord[i];
        if (!c || c->kind != IX_AXIS || uc[c->value]) continue;
        uc[c->value] = coord[i];
        Ix inside = ix_lt(g, coord[i], updates->shape[c->value]);
        if (ix_is(inside, 1)) continue;
        KExpr *e = k_index(k, inside);
        match = match ? k_text(k, "$0 && $1", P_AND2, EL_bool, match, e, NULL) : e;
    }
    for (int i = 0; i < updates->rank; i++) {
        if (uc[i]) continue;
        uc[i] = ix(g, 0);
        if (ix_is(updates->shape[i], 1)) continue;
        bool whole = ix_is_const(updates->shape[i]) && updates->shape[i]->value <= 64 && naxes < 2;
        int a = k_axis(k, whole ? A_FULL : A_LOOP_TILE, updates->shape[i], 64, "u");
        if (a < 0) return false;
        uc[i] = k->axis[a].axis;
        axis[naxes++] = a;
    }
    for (int i = 0, used = 2; i < n->rank; i++) {
        KExpr *e;
        if (n->at.coord[i]) {
            Ix here = ix_eq(g, ix_substitute(g, n->at.coord[i], uc, updates->rank), coord[i]);
            if (!here) return false;
            if (ix_is(here, 1)) continue;
            e = k_index(k, here);
        } else {
            KExpr *at = k_value(k, n->src[used++], uc);
            if (!at) return false;
            e = k_text(k, "$0 == $1", P_EQUAL, EL_bool, at, k_index(k, coord[i]), NULL);
        }
        match = match ? k_text(k, "$0 && $1", P_AND2, EL_bool, match, e, NULL) : e;
    }
    static const char *const combine[] = {"$0 + $1", "$0 * $1", "max($0, $1)", "min($0, $1)"};
    KExpr *u = k_value(k, updates, uc), *x = k_value(k, n->src[0], coord);
    if (!u || !x || !match) return false;
    Elem wide = elem_is_storage(elem) ? EL_f32 : elem;
    const char *neutral = arena_printf(k->arena, "where($0, $1, %s as %s)", k_start((GReduce)n->op, wide), elem_name(wide));
    KExpr *r = k_text(k, neutral, P_PRIMARY, wide, match, k_sized(k, u, wide), NULL);
    if (naxes) r = k_reduced(k, (GReduce)n->op, r, axis, naxes);
    KExpr *v = k_sized(k,
                       k_text(k, combine[n->op],
                              n->op == GR_sum    ? P_PLUS
                              : n->op == GR_prod ? P_TIMES
                                                 : P_PRIMARY,
                              wide, k_sized(k, x, wide), r, NULL),
                       elem);
    v->uses++;
    vec_push(k->arena, &k->stores, ((KStore){.node = n, .coord = copy_ixs(g, coord, n->rank), .value = v}));
    return true;
}

static bool scatter(Kernel *k) {
    const Node *n = k->fg->root, *updates = n->src[1];
    Graph *g = k->g;
    GReduce op = (GReduce)n->op;
    bool atomic = op == GR_sum && (n->elem == EL_f32 || n->elem == EL_i32 || n->elem == EL_u32 || n->elem == EL_f64 ||
                                   n->elem == EL_i64);
    Ix coord[G_MAX_RANK], at[G_MAX_RANK];
    k_reset(k);
    if (op != GR_none && !atomic) return gathered(k);
    k->in_place = true;
    for (int i = 0; i < updates->rank; i++) {
        coord[i] = ix(g, 0);
        if (ix_is(updates->shape[i], 1)) continue;
        bool last = i == updates->rank - 1;
        int64_t by = k_tile_of(updates->shape[i], 1, 512);
        int a = k_axis(k, last && by > 1 ? A_TILE : A_GRID, updates->shape[i], by, last ? "n" : "m");
        if (a < 0) return false;
        coord[i] = k->axis[a].axis;
    }
    for (int i = 0, used = 2; i < n->rank; i++) {
        at[i] = n->at.coord[i] ? ix_substitute(g, n->at.coord[i], coord, updates->rank)
                               : k_value_index(k, n->src[used++], coord, n->shape[i]);
        if (!at[i]) return false;
    }
    KExpr *v = k_value(k, updates, coord);
    if (!v) return false;
    if (v->elem != (Elem)n->elem) v = k_sized(k, v, (Elem)n->elem);
    v->uses++;
    vec_push(k->arena, &k->stores, ((KStore){.node = n, .coord = copy_ixs(g, at, n->rank), .value = v}));
    return true;
}

bool kernel_build(Kernel *k) {
    const FGroup *f = k->fg;
    Part part[G_MAX_RANK + 1] = {0};
    if (f->root->from) g_at(k->g, f->root->from);
    switch (f->kind) {
    case F_MAP: return fewest_parts(k, part, single_parts(f->root, 0, part), map_with);
    case F_ROWS:
        if (f->anchor) return along(k);
        find_looped(k);
        if (!fewest_parts(k, part, looped_part(k, part, single_parts(f->root, f->rows, part)), rows_with)) return false;
        k->reduces = reduces(k);
        k->turned = k->reduces == R_TAPS && k->turned >= 0 ? part[k->turned].last : -1;     // all of them are rows
        return k->reduces == R_ROWS || fewest_parts(k, part, single_parts(f->root, f->rows, part), rows_with);
    case F_PRODUCT: return f->attends ? k_attention(k) : g_is_depthwise(k->g, f->anchor) ? depthwise(k) : product(k);
    case F_SCATTER: return scatter(k);
    }
    return false;
}

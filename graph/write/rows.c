// Kernels of reductions: the grid walks over rows, what is reduced is whole, or a loop if it is too long. Where memory has rows
// innermost, they are tiles, and what is reduced a loop of columns or taps.

#include "graph/write/internal.h"

#include <string.h>

enum { ROW_LIMIT = 16384, LANES = 1024, SIDE = 32 };

// Elements of the longest reduction of a row, and of the columns.
static int64_t row_length(const Kernel *k) {
    int64_t longest = 1;
    for (uint32_t i = 0; i < k->fg->nodes.n; i++) {
        const Node *n = k->fg->nodes.at[i];
        int64_t size = 1;
        if (n->kind != G_reduce) continue;
        for (int d = 0; d < n->src[0]->rank; d++)
            if (n->reduce.axes >> d & 1)
                size = k_times(size, n->src[0]->shape[d]->kind == IX_CONST ? n->src[0]->shape[d]->value : 1024);
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
KReduces k_reduces(Kernel *k) {
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
void k_find_looped(Kernel *k) {
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
            int64_t size = e && e->kind == IX_CONST ? k_pow2(e->value) : e && k->side > 1 ? K_TILE_LIMIT : 1;
            all = k_times(all, size);
            if (size > most) most = size, longest = e;
            d = end > d ? end : d + 1;
        }
        if (k_times(all, k->side) <= ROW_LIMIT || (most == all && k->side == 1)) continue;
        int64_t room = K_TILE_LIMIT / k->side / (all / most);
        k->looped = longest;
        k->looped_by = room > 1 ? room : 1;
    }
}

// Columns that are together what the loop goes over are one axis, as they are to what is reduced, whatever quotients that takes.
int k_looped_part(Kernel *k, KPart *part, int n) {
    for (int i = 0; i < n && k->looped; i++)
        for (int end = i + 1; end < n && !part[end].row && !part[i].row && part[end - 1].last + 1 == part[end].first; end++) {
            KPart all = {part[i].first, part[end].last, false};
            if (k_part_extent(k->g, k->fg->root->shape, all) != k->looped) continue;
            part[i] = all;
            memmove(part + i + 1, part + end + 1, (size_t)(n - end - 1) * sizeof *part);
            return n - (end - i);
        }
    return n;
}

// Does the order in which it is stored have the rows of this part innermost?
static bool stored_by_rows(const Kernel *k, KPart p) {
    const Node *as = k->fg->as;
    int last = as ? as->rank - 1 : -1;
    while (last > 0 && ix_is(as->shape[last], 1)) last--;
    for (int d = p.first; d <= p.last && last >= 0; d++)
        if (as->view.coord[d]->axes >> last & 1) return true;
    return false;
}

// Columns of several axes too long for a tile, each by itself or all together, are loops in one another: what of each is in the tile, the innermost having
// most. False: at most one is such, and a tile has room for the others.
static bool loops_by(Kernel *k, const KPart *part, int n, int64_t *by) {
    enum { MOST = 4 * K_TILE_LIMIT };
    int64_t room = K_TILE_LIMIT / k->side, lanes = k->side;
    int loops = 0;
    for (int i = 0; i < n; i++) {
        Ix e = k_part_extent(k->g, k->fg->root->shape, part[i]);
        if (part[i].row) continue;
        if (e == k->looped) return false;
        by[i] = e->kind == IX_CONST ? k_pow2(e->value) : FEW_LANES;
        if (!k_whole(k, e)) loops++;
        else if (e->kind == IX_CONST) {
            room = room / by[i] > 1 ? room / by[i] : 1;
            lanes = k_times(lanes, by[i]);
        }
    }
    bool together = loops == 0 && lanes > MOST;
    if (together) room = K_TILE_LIMIT / k->side;
    for (int i = n; i-- > 0 && together;) {
        if (part[i].row) continue;
        by[i] = by[i] < room ? by[i] : room;
        room /= by[i];
    }
    for (int i = n; i-- > 0 && loops > 1;) {
        Ix e = k_part_extent(k->g, k->fg->root->shape, part[i]);
        if (part[i].row || k_whole(k, e)) continue;
        by[i] = by[i] < room ? by[i] : room;
        room /= by[i];
    }
    return loops > 1 || together;
}

bool k_rows_with(Kernel *k, const KPart *part, int n) {
    const Node *root = k->fg->root;
    Graph *g = k->g;
    Ix coord[G_MAX_RANK];
    k_reset(k);
    for (int i = 0; i < root->rank; i++) coord[i] = ix(g, 0);
    int64_t columns = 1, length = row_length(k);
    int last_row = -1;
    for (int i = 0; i < n; i++) {
        Ix e = k_part_extent(g, root->shape, part[i]);
        if (!e) return false;
        if (part[i].row) last_row = i;
        else columns = k_times(columns, e->kind == IX_CONST ? e->value : 1024);
    }
    int64_t row = k_pow2(length > columns ? length : columns), rows = LANES / (row < LANES ? row : LANES);
    bool packed = last_row == n - 1 || (last_row >= 0 && stored_by_rows(k, part[last_row]));
    if (packed && rows < SIDE && (row <= 256 || k->side > 1)) rows = SIDE;    // rows lie side by side in memory
    int64_t room = K_TILE_LIMIT / k->side;
    // of columns: the last axes are tiles, until they have lanes enough
    int64_t lanes = LANES;
    int64_t tile[G_MAX_RANK + 1], across = k->step ? SIDE : CHANNELS;
    while (k->step && across * 2 * k->step <= LONG_ROW) across *= 2;      // of windows: a row of what is read
    if (k->step) lanes = k->step > 2 ? 1 : FEW_LANES;
    for (int i = n; i-- > 0 && k->reduces != R_ROWS;) {
        Ix e = k_part_extent(g, root->shape, part[i]);
        int64_t size = k_pow2(e->kind == IX_CONST ? e->value : CHANNELS),
                limit = i == n - 1 ? k->reduces == R_TAPS ? across : CHANNELS / 2 : lanes;
        tile[i] = size < limit ? size : limit;
        lanes = k->reduces == R_TAPS && lanes > tile[i] ? lanes / tile[i] : 1;
        if (k->turned < 0) continue;                         // read along one axis and stored along another: a square
        bool side = i == n - 1 || (part[i].first <= k->turned && k->turned <= part[i].last);
        tile[i] = side ? k_tile_of(e, 1, K_SQUARE) : 1;
    }
    int64_t by_loop[G_MAX_RANK + 1];
    bool loops = k->reduces == R_ROWS && loops_by(k, part, n, by_loop);
    for (int pass = 0, names = 0; pass < 2; pass++)          // the grid first
        for (int i = 0; i < n; i++) {
            Ix e = k_part_extent(g, root->shape, part[i]);
            if (part[i].row == (pass == 1)) continue;
            int64_t by = rows;
            if (e->kind == IX_CONST && k_pow2(e->value) < by) by = k_pow2(e->value);
            bool tiled = i == last_row;
            if (k->reduces != R_ROWS) by = tile[i], tiled = true;
            bool whole = k_whole(k, e) && !(loops && !part[i].row && e->kind == IX_CONST && by_loop[i] < k_pow2(e->value));
            KAxisKind kind = !part[i].row ? (whole ? A_FULL : A_LOOP_TILE) : tiled && by > 1 ? A_TILE : A_GRID;
            if (kind == A_LOOP_TILE) {
                by = loops ? by_loop[i] : e == k->looped ? k->looped_by : room > 2048 ? 2048 : room;
                room = room / by > 1 ? room / by : 1;
            }
            int a = k_axis(k, kind, e, by, part[i].row ? (names++ ? "l" : "m") : "n");
            if (a < 0) return false;
            k_spread(g, root->shape, part[i], k->axis[a].axis, coord);
        }
    return k_add_stores(k, coord);
}

// Kernels of elementwise values and movement: the root's axes, the last of them tiles.

#include "graph/write/internal.h"

#include <string.h>

static const char *const axis_names[] = {"n", "m", "l", "j", "i", "h", "g", "f", "e", "d", "c", "b", "a", "u", "v", "w"};

enum { FEW_SIDE = 8, LONG_SIDE = 32 };

// Fewer places than that? What has a name may have any number.
static bool shorter(Ix extent, int64_t than) { return extent->kind == IX_CONST && extent->value < than; }

// An axis along which something is read that is stored along another one, both long: -1: there is none.
static int crossing(const Kernel *k) {
    int last = k->naxes - 1, across = -1;
    if (last < 0 || k->axis[last].kind != A_TILE || shorter(k->axis[last].extent, LONG_SIDE)) return -1;
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        const KExpr *e = k->exprs.at[i];
        if (e->op != E_LOAD || !(e->mask >> last & 1)) continue;
        Ix shape[G_MAX_RANK], at[G_MAX_RANK];
        int n = dims_merged(k->g, e->node->rank, e->node->shape, e->coord, shape, at);
        uint64_t moves = n ? at[n - 1]->axes : 0;
        Ix rest, step = moves && !(moves & (moves - 1)) ? ix_coefficient(k->g, at[n - 1], __builtin_ctzll(moves), &rest) : NULL;
        if (!step || !ix_is(step, 1)) continue;
        int axis = __builtin_ctzll(moves);
        if (axis == last || axis >= k->naxes || shorter(k->axis[axis].extent, FEW_SIDE)) continue;
        across = axis;
    }
    return across;
}

typedef struct Joined { const Node *node; int axis; } Joined;       // a concatenation, along this axis of the root; or NULL

typedef struct Sides { int64_t across, last; } Sides;               // of a tile that is read along one axis and stored along another

// 64 x 64, or more of few bytes each, where programs are enough: on an H200 8192 x 8192 bf16 66.2 us by 128 x 128, 67.3 by 64 x 64; bytes 34.5 and 39.2; f32 of
// odd sizes 148 by 64 x 128, 170 by 64 x 64 (2026-11-28).
static Sides sides(const Kernel *k, int across) {
    enum { WIDE = 2 * K_SQUARE, PROGRAMS = 132 };
    const Sides square = {K_SQUARE, K_SQUARE};
    int last = k->naxes - 1, bytes = elem_bytes(k->fg->root->elem), loads = 0;
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        const KExpr *e = k->exprs.at[i];
        if (e->op != E_LOAD || !(e->mask >> last & 1) || !(e->mask >> across & 1)) continue;
        loads++;
        if (elem_bytes(e->node->elem) > bytes) bytes = elem_bytes(e->node->elem);
    }
    Sides s = {bytes <= 2 && !shorter(k->axis[across].extent, WIDE) ? WIDE : K_SQUARE, bytes <= 4 && !shorter(k->axis[last].extent, WIDE) ? WIDE : K_SQUARE};
    int64_t programs = 1;
    for (int i = 0; i < k->naxes; i++) {
        int64_t by = i == last ? s.last : i == across ? s.across : 1;
        Ix e = k->axis[i].extent;
        programs = k_times(programs, e->kind == IX_CONST ? (e->value + by - 1) / by : PROGRAMS);
    }
    return loads > 1 || programs < PROGRAMS ? square : s;
}

// What is read along one axis and stored along another is a tile of two long sides, so that both have whole lines: through shared memory. 64
// channels last on an H200: 3.9 TB/s in f32 instead of 2.5 by 16 x 64.
//
// Of what is put together from `joined`'s sources along that axis, each is a loop with a store of its own: not a choice between all of them for
// every element.
static bool map_in(Kernel *k, const KPart *part, int n, int across, Sides sides, Joined joined) {
    const Node *root = k->fg->root;
    Ix coord[G_MAX_RANK], before = ix(k->g, 0);
    int64_t lanes = 1;
    k_reset(k);
    for (int i = 0; i < root->rank; i++) coord[i] = ix(k->g, 0);
    KAxisKind kind[G_MAX_RANK];
    int64_t by[G_MAX_RANK];
    for (int i = n; i-- > 0;) {                              // the last axes are tiles, until they have lanes enough
        Ix e = k_part_extent(k->g, root->shape, part[i]);
        if (!e) return false;
        int64_t size = e->kind == IX_CONST ? e->value : 512, room = 1024 / lanes;
        by[i] = k_pow2(size < 1 ? 1 : size);
        if (by[i] > room) by[i] = room;
        kind[i] = lanes < 256 && by[i] > 1 ? A_TILE : A_GRID;
        if (kind[i] == A_TILE) lanes *= by[i];
    }
    for (int i = 0, axis = 0; i < n && across >= 0; i++) {
        Ix e = k_part_extent(k->g, root->shape, part[i]);
        bool side = axis == across || i == n - 1;
        kind[i] = side ? A_TILE : A_GRID;
        by[i] = side ? k_tile_of(e, 1, axis == across ? sides.across : sides.last) : 1;
        axis += !ix_is(e, 1);
    }
    for (int i = 0; i < n; i++) {
        Ix e = k_part_extent(k->g, root->shape, part[i]);
        if (!e) return false;
        Ix place = ix(k->g, 0);
        if (!ix_is(e, 1) && !(joined.node && part[i].first == joined.axis)) {
            int a = k_axis(k, kind[i], e, by[i], axis_names[n - 1 - i]);
            if (a < 0) return false;
            place = k->axis[a].axis;
        }
        k_spread(k->g, root->shape, part[i], place, coord);
    }
    if (!joined.node) return k_add_stores(k, coord);
    for (uint32_t i = 0; i < joined.node->nsrc; i++) {
        Ix e = joined.node->src[i]->shape[joined.node->concat.axis];
        if (e->value == 0) continue;
        int a = k_axis(k, A_LOOP_TILE, e, k_tile_of(e, 1, K_SQUARE), "c");
        if (a < 0) return false;
        coord[joined.axis] = ix_add(k->g, before, k->axis[a].axis);
        if (!k_add_stores(k, coord)) return false;
        before = ix_add(k->g, before, e);
    }
    return true;
}

// What the root is element by element, moved or not, put together from few sources along an axis that is a part of its own, where programs are
// enough without it.
static Joined joined_along(const Kernel *k, const KPart *part, int n, int across) {
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
        Ix e = k_part_extent(k->g, k->fg->root->shape, part[i]);
        if (axis == across && !ix_is(e, 1)) own = part[i].first == part[i].last && at->kind == IX_AXIS && part[i].first == at->value;
        else programs = k_times(programs, i == n - 1 ? e->lo / K_SQUARE : e->lo);
        axis += !ix_is(e, 1);
    }
    return own && programs >= PROGRAMS ? (Joined){x, (int)at->value} : none;
}

bool k_map_with(Kernel *k, const KPart *part, int n) {
    const Sides square = {K_SQUARE, K_SQUARE};
    if (!map_in(k, part, n, -1, square, (Joined){NULL, 0})) return false;
    int across = crossing(k);
    if (across < 0) return true;
    Joined joined = joined_along(k, part, n, across);
    return map_in(k, part, n, across, joined.node ? square : sides(k, across), joined);
}

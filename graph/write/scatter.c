// Kernels of scatters: over the updates, in place; or over the result, where no atomic can combine them.

#include "graph/write/internal.h"

// Updates that no atomic can combine are gathered: each element of the result looks for those that are meant for it.
//
//     y[c] = x[c] * prod(where(index[u] == c, update[u], 1) over u)
static KExpr *both(Kernel *k, KExpr *a, KExpr *b) { return a ? k_text(k, "$0 && $1", P_AND2, EL_bool, a, b, NULL) : b; }

// Where updates lie whose axes are those of the result: `uc`, by axis of the updates; and the condition that they are there.
static KExpr *along_result(Kernel *k, const Ix *coord, Ix *uc) {
    const Node *n = k->fg->root, *updates = n->src[1];
    KExpr *match = NULL;
    for (int i = 0; i < n->rank; i++) {
        Ix c = n->at.coord[i];
        if (!c || c->kind != IX_AXIS || uc[c->value]) continue;
        uc[c->value] = coord[i];
        Ix inside = ix_lt(k->g, coord[i], updates->shape[c->value]);
        if (!ix_is(inside, 1)) match = both(k, match, k_truth(k, inside));
    }
    return match;
}

// The updates that are meant for this element (NULL: all of them); false: they cannot be told.
static bool meant_for(Kernel *k, const Ix *coord, const Ix *uc, KExpr **match) {
    const Node *n = k->fg->root, *updates = n->src[1];
    Graph *g = k->g;
    for (int i = 0, used = 2; i < n->rank; i++) {
        KExpr *at = n->at.coord[i] ? NULL : k_value(k, n->src[used++], uc);
        if (!n->at.coord[i] && !at) return false;
        if (at && at->op != E_INDEX) {
            *match = both(k, *match, k_text(k, "$0 == $1", P_EQUAL, EL_bool, at, k_index(k, coord[i]), NULL));
            continue;
        }
        Ix here = ix_eq(g, at ? at->expr : ix_substitute(g, n->at.coord[i], uc, updates->rank), coord[i]);
        if (!here) return false;
        if (!ix_is(here, 1)) *match = both(k, *match, k_truth(k, here));
    }
    return true;
}

// What is reduced varies along all that it is reduced over: where neither the update nor its condition does, so does the condition.
static KExpr *varies(Kernel *k, KExpr *match, const KExpr *u, const int *axis, int naxes) {
    for (int i = 0; i < naxes; i++)
        if (!((u->mask | (match ? match->mask : 0)) >> axis[i] & 1))
            match = both(k, match, k_text(k, "$0 >= 0", P_EQUAL, EL_bool, k_index(k, k->axis[axis[i]].axis), NULL, NULL));
    return match;
}

static bool gathered(Kernel *k) {
    static const char *const combine[] = {"$0 + $1", "$0 * $1", "max($0, $1)", "min($0, $1)"};
    const Node *n = k->fg->root, *updates = n->src[1];
    Graph *g = k->g;
    Elem elem = (Elem)n->elem, wide = elem_is_storage(elem) ? EL_f32 : elem;
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
    KExpr *match = along_result(k, coord, uc);
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
    if (!meant_for(k, coord, uc, &match)) return false;
    KExpr *u = k_value(k, updates, uc), *x = k_value(k, n->src[0], coord);
    if (!u || !x) return false;
    const char *neutral = arena_printf(k->arena, "where($0, $1, %s as %s)", k_start((GReduce)n->op, wide), elem_name(wide));
    KExpr *r = k_sized(k, u, wide);
    match = varies(k, match, u, axis, naxes);
    if (match) r = k_text(k, neutral, P_PRIMARY, wide, match, r, NULL);
    if (naxes) r = k_reduced(k, (GReduce)n->op, r, axis, naxes);
    int binds = n->op == GR_sum ? P_PLUS : n->op == GR_prod ? P_TIMES : P_PRIMARY;
    KExpr *v = k_sized(k, k_text(k, combine[n->op], binds, wide, k_sized(k, x, wide), r, NULL), elem);
    v->uses++;
    vec_push(k->arena, &k->stores, ((KStore){.node = n, .coord = copy_ixs(g, coord, n->rank), .value = v}));
    return true;
}

// One scatter, each update by itself.
static bool scattered(Kernel *k, const Node *n, const Ix *coord) {
    Graph *g = k->g;
    Ix at[G_MAX_RANK];
    for (int i = 0, used = 2; i < n->rank; i++) {
        at[i] = n->at.coord[i] ? ix_substitute(g, n->at.coord[i], coord, n->src[1]->rank)
                               : k_value_index(k, n->src[used++], coord, n->shape[i]);
        if (!at[i]) return false;
    }
    KExpr *v = k_value(k, n->src[1], coord);
    if (!v) return false;
    if (v->elem != (Elem)n->elem) v = k_sized(k, v, (Elem)n->elem);
    v->uses++;
    vec_push(k->arena, &k->stores, ((KStore){.node = n, .coord = copy_ixs(g, at, n->rank), .value = v}));
    return true;
}

bool k_scatter(Kernel *k) {
    const Node *n = k->fg->root, *updates = n->src[1];
    Ix coord[G_MAX_RANK];
    k_reset(k);
    if (!g_in_place(n)) return gathered(k);
    k->in_place = true;
    for (int i = 0; i < updates->rank; i++) {
        coord[i] = ix(k->g, 0);
        if (ix_is(updates->shape[i], 1)) continue;
        bool last = i == updates->rank - 1;
        int64_t by = k_tile_of(updates->shape[i], 1, 512);
        int a = k_axis(k, last && by > 1 ? A_TILE : A_GRID, updates->shape[i], by, last ? "n" : "m");
        if (a < 0) return false;
        coord[i] = k->axis[a].axis;
    }
    if (!scattered(k, n, coord)) return false;
    for (uint32_t i = 0; i < k->fg->beside.n; i++) if (!scattered(k, k->fg->beside.at[i], coord)) return false;
    return true;
}

// Kernels of scans and sorts: what they go along is whole, all other axes are the grid's.

#include "graph/write/internal.h"

bool k_along(Kernel *k) {
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
    if (n->shape[axis]->kind == IX_CONST && n->shape[axis]->value > MOST_ALONG)
        return g_error(g, "a scan or sort along %lld elements has no form in a kernel yet",
                       (long long)n->shape[axis]->value) != NULL;
    KExpr *e = k_value(k, n->src[0], coord);
    if (!e) return false;
    if (e->elem == EL_none || e->elem == EL_index) e = k_sized(k, e, (Elem)n->elem);
    e = k_varied(k, e, at);
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

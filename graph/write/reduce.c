// Reductions: which axes of the kernel they go over, and what is the same along those. The scores of an attention are one, too.

#include "graph/write/internal.h"

#include <string.h>

static const char *const reduce_text[GR_COUNT] = {"sum", "prod", "max", "min", "argmax", "argmin", "any", "every", "none"};

enum { COLUMN = 256 };

// Is what `of` says, or what is computed of it here, in n?
static bool made_of(const Kernel *k, const Node *n, const Node *of, bool *seen) {
    if (n == of) return true;
    if (seen[n->id] || k_in_memory(k, n)) return false;
    seen[n->id] = true;
    for (uint32_t i = 0; i < n->nsrc; i++)
        if (made_of(k, n->src[i], of, seen)) return true;
    return false;
}

// A loop that reduces something else along such an axis, and that n's reduction needs nothing of: one loop for both. -1: there is none.
static int loop_beside(Kernel *k, const Node *n, const KAxis *as) {
    for (uint32_t i = 0; i < k->loops.n; i++) {
        const KAxis *a = &k->axis[k->loops.at[i].axis];
        bool apart = a->extent == as->extent && a->by == as->by;
        for (uint32_t j = 0; j < k->loops.n && apart; j++)
            apart = k->loops.at[j].axis != k->loops.at[i].axis || !made_of(k, n->src[0], k->loops.at[j].reduces, NEW_N(k->arena, bool, k->g->nodes.n));
        if (apart) return k->loops.at[i].axis;
    }
    return -1;
}

// An axis for a stretch of reduced dimensions, all that n reduces (outside of other loops) or one of several: one that is there already (so that what is computed
// along it is shared), or a new one.
static int reduced_axis(Kernel *k, const Node *n, bool all, Ix extent, uint64_t taken, bool arg) {
    for (int i = 0; i < k->naxes; i++)
        if (k->axis[i].kind == A_FULL && k->axis[i].extent == extent && !(taken >> i & 1)) return i;
    if (k->reduces == R_TAPS) return k_axis(k, A_LOOP, extent, 0, "r");
    int64_t side = k->side > 1 ? k->side : 1, by = extent == k->looped ? k->looped_by : 2048 / side;
    bool column = k->reduces == R_COLUMNS && extent->kind == IX_CONST && extent->value > COLUMN;
    bool shared_out = k->fg->root->rank == 0 && extent->kind != IX_CONST;        // all of a tensor, however large: a loop can have parts
    bool full = !column && ((k_whole(k, extent) && !shared_out) || arg);
    if (full) return k_axis(k, A_FULL, extent, 0, "k");
    KAxis loop = {.kind = A_LOOP_TILE, .extent = extent, .by = column ? COLUMN / 2 : by};
    int beside = all && !arg ? loop_beside(k, n, &loop) : -1;
    return beside >= 0 ? beside : k_axis(k, A_LOOP_TILE, extent, loop.by, "k");
}

// The place in the source that `coord` of the result and an axis for each stretch of what is reduced make; the axes to `proto`.
static bool reduced_at(Kernel *k, const Node *n, const Ix *coord, KExpr *proto, Ix *at) {
    Graph *g = k->g;
    const Node *src = n->src[0];
    bool arg = n->op == GR_argmax || n->op == GR_argmin;
    uint64_t taken = 0;
    for (int i = 0; i < n->rank; i++) taken |= coord[i]->axes;
    for (int i = 0, kept = 0; i < src->rank;) {
        if (!(n->reduce.axes >> i & 1)) {
            at[i++] = coord[kept++];
            continue;
        }
        int end = i + 1;                                     // together, but for taps of windows: those are loops, each of its own
        while (end < src->rank && n->reduce.axes >> end & 1 && !k->step) end++;
        Ix extent = ix_product(g, src->shape + i, end - i), place = ix(g, 0);
        if (!extent) return false;
        if (!ix_is(extent, 1)) {
            int a = reduced_axis(k, n, end - i == __builtin_popcount(n->reduce.axes) && !(taken & k_loops(k)), extent, taken, arg);
            if (a < 0) return false;
            taken |= UINT64_C(1) << a;
            proto->axes[proto->naxes++] = a;
            place = k->axis[a].axis;
            if (arg && n->reduce.last) place = ix_sub(g, ix_addi(g, extent, -1), place);
        }
        k_spread(g, src->shape, (KPart){i, end - 1, false}, place, at);
        i = end;
    }
    return true;
}

KExpr *k_varied(Kernel *k, KExpr *e, int axis) {
    if (e->mask >> axis & 1) return e;
    e->uses++;
    return k_text(k, "where($0 >= 0, $1, $1)", P_PRIMARY, e->elem, k_index(k, k->axis[axis].axis), e, NULL);
}

KExpr *k_multiple(Kernel *k, KExpr *e, Elem elem, int axis) {
    return k_text(k, "$0 * $1", P_TIMES, elem, e, k_index(k, k->axis[axis].extent), NULL);
}

// Along axes that `e` is the same on, a sum is a multiple; what else is asked for is `e`, or is made to vary. `proto` keeps the axes that it varies along.
static KExpr *same_along(Kernel *k, KExpr *e, GReduce op, Elem literal, KExpr *proto) {
    bool needs_place = op == GR_prod || op == GR_argmax || op == GR_argmin;
    Elem elem = e->elem == EL_none ? literal : e->elem;
    int varies = 0;
    for (int i = 0; i < proto->naxes; i++) {
        int  axis = proto->axes[i];
        bool same = !(e->mask >> axis & 1);
        if (!same || needs_place) proto->axes[varies++] = axis;
        if (same && op == GR_sum) e = k_multiple(k, e, elem, axis);
        else if (same && needs_place) e = k_varied(k, k_sized(k, e, elem), axis);
    }
    proto->naxes = varies;
    return e;
}

// The place of the last of equal ones: counted from the end, the first.
static KExpr *from_end(Kernel *k, Ix extent, KExpr *place) {
    Buf b = {0};
    k_ix(k, &b, ix_addi(k->g, extent, -1));
    KExpr *e = k_text(k, arena_printf(k->arena, "%s - $0", b.p), P_PLUS, EL_index, place, NULL, NULL);
    buf_free(&b);
    return e;
}

bool k_is_number(const Kernel *k, const Node *n) {
    for (uint32_t i = 0; i < k->fg->numbers.n; i++) if (k->fg->numbers.at[i] == n) return true;
    return false;
}

// Over the columns of the product's tile, which is as wide.
static KExpr *of_tile(Kernel *k, const Node *n, const Ix *coord) {
    Graph *g = k->g;
    Ix at[G_MAX_RANK], width = ix(g, k->fg->width), column = k->axis[k->columns].axis;
    for (int i = 0; i < n->rank - 1; i++) at[i] = coord[i];
    at[n->rank - 1] = ix_div(g, column, width);
    at[n->rank] = ix_mod(g, column, width);
    KExpr *e = k_value(k, n->src[0], at);
    return e ? k_reduced(k, (GReduce)n->op, e, &k->columns, 1) : NULL;
}

KExpr *k_reduce(Kernel *k, const Node *n, const Ix *coord) {
    if (k_is_number(k, n)) return of_tile(k, n, coord);
    GReduce op = (GReduce)n->op;
    bool arg = op == GR_argmax || op == GR_argmin;
    Elem elem = (Elem)n->src[0]->elem;
    Ix at[G_MAX_RANK];
    KExpr proto = {.op = E_REDUCE, .fmt = reduce_text[op], .prec = P_PRIMARY, .node = n};
    KExpr *e = reduced_at(k, n, coord, &proto, at) ? k_value(k, n->src[0], at) : NULL;
    if (!e) return NULL;
    e = same_along(k, e, op, elem, &proto);
    if (proto.naxes == 0) return arg ? k_number(k, g_int(0), n) : e;
    if (elem == EL_bool && op < GR_any) e = k_sized(k, e, EL_i32), elem = EL_i32;
    if (e->elem == EL_none || e->elem == EL_index) e = k_sized(k, e, elem);
    bool wide = (op == GR_sum || op == GR_prod) && elem_is_storage(e->elem);
    proto.elem = arg ? EL_index : wide ? EL_f32 : e->elem;
    proto.arg[0] = e;
    KExpr *r = k_expr(k, proto);
    for (int i = 0; i < r->naxes; i++) r->mask &= ~(UINT64_C(1) << r->axes[i]);
    if (r->naxes == 1 && !arg && k->axis[r->axes[0]].kind == A_LOOP_TILE && !(r->mask & k_loops(k))) vec_push(k->arena, &k->loops, ((KLoop){r->axes[0], n}));
    if (!arg) return (Elem)n->elem == EL_bool && proto.elem != EL_bool ? k_sized(k, r, EL_bool) : r;
    return k_sized(k, n->reduce.last ? from_end(k, k->axis[proto.axes[0]].extent, r) : r, EL_i64);
}

KExpr *k_reduced(Kernel *k, GReduce op, KExpr *e, const int *axis, int naxes) {
    KExpr proto = {.op = E_REDUCE, .fmt = reduce_text[op], .prec = P_PRIMARY, .naxes = naxes};
    memcpy(proto.axes, axis, (size_t)naxes * sizeof *axis);
    e = same_along(k, e, op, EL_f32, &proto);
    if (!proto.naxes) return e;
    proto.elem = e->elem;
    proto.arg[0] = e;
    KExpr *r = k_expr(k, proto);
    for (int i = 0; i < r->naxes; i++) r->mask &= ~(UINT64_C(1) << r->axes[i]);
    return r;
}

// The scores of an attention: queries times keys, over the whole head.
KExpr *k_scores(Kernel *k, const Node *n, const Ix *coord) {
    Ix a[G_MAX_RANK], b[G_MAX_RANK];
    int nb = n->contract.nb, nm = n->contract.nm, axis = k->naxes;
    if (!k_one_axis(k, n->src[0]->shape + nb + nm, 1, A_FULL, 0, "c", a + nb + nm)) return NULL;
    bool whole = k->naxes > axis;                            // a head of one element is no axis
    for (int i = 0; i < nb + nm; i++) a[i] = coord[i];
    for (int i = 0; i < nb; i++) b[i] = coord[i];
    b[nb + 1] = a[nb + nm];
    b[nb] = coord[nb + nm];
    KExpr *q = k_value(k, n->src[0], a), *c = k_value(k, n->src[1], b);
    if (!q || !c) return NULL;
    bool tiles = false;
    for (int i = 0; i < k->naxes; i++) tiles |= k->axis[i].kind == A_TILE && (q->mask >> i & 1);
    Elem elem = (Elem)n->src[0]->elem;
    bool dot = whole && tiles && (q->mask >> axis & 1) && (c->mask >> axis & 1);
    if (!dot) {
        KExpr *p = k_text(k, "$0 * $1", P_TIMES, EL_f32, k_sized(k, q, EL_f32), k_sized(k, c, EL_f32), NULL);
        return k_reduced(k, GR_sum, p, &axis, whole);
    }
    KExpr *e = k_expr(k, (KExpr){.op = E_DOT,
                                   .elem = n->contract.acc,
                                   .prec = P_PRIMARY,
                                   .node = n,
                                   .arg = {k_sized(k, q, elem), k_sized(k, c, elem)},
                                   .axes = {axis},
                                   .naxes = 1});
    e->mask &= ~(UINT64_C(1) << axis);
    return e;
}

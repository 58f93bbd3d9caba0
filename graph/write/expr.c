// Nodes to expressions of a kernel. A node at a place (coordinates in the kernel's axes) is computed by what its kind
// says of its sources at theirs, down to what is in memory: there it is a load. Equal nodes at equal places are one
// expression.
//
// 16-bit floats compute in f32, as the language has it, and are rounded where the model says so (casts) and where they are
// stored; the IR's rounding after each operation is not imitated.

#include "graph/write/internal.h"

#include <string.h>

// ---- making ---------------------------------------------------------------------------------------------------------

KExpr *k_expr(Kernel *k, KExpr proto) {
    KExpr *e = NEW(k->arena, KExpr);
    *e = proto;
    e->var = -1;
    for (int i = 0; i < 3; i++) {
        if (!e->arg[i]) continue;
        e->mask |= e->arg[i]->mask;
        e->arg[i]->uses++;
    }
    vec_push(k->arena, &k->exprs, e);
    return e;
}

KExpr *k_number(Kernel *k, GNum v, const Node *n) {
    return k_expr(k, (KExpr){.op = E_NUMBER, .number = v, .prec = P_PRIMARY, .node = n});
}

KExpr *k_text(Kernel *k, const char *fmt, int prec, Elem elem, KExpr *a, KExpr *b, KExpr *c) {
    return k_expr(k, (KExpr){.op = E_TEXT, .fmt = fmt, .prec = prec, .elem = elem, .arg = {a, b, c}});
}

KExpr *k_sized(Kernel *k, KExpr *e, Elem elem) {
    if (!e || e->elem == elem) return e;
    if (elem == EL_bool && e->op == E_NUMBER) {
        bool truth = e->number.is_int ? e->number.i != 0 : e->number.f != 0;
        return k_expr(
            k, (KExpr){.op = E_NUMBER, .number = g_int(truth), .prec = P_PRIMARY, .elem = EL_bool, .node = e->node});
    }
    const char *fmt = arena_printf(k->arena, "$0 as %s", elem_name(elem));
    if (elem == EL_bool) return k_text(k, "$0 != 0", P_EQUAL, EL_bool, e, NULL, NULL);
    return k_text(k, fmt, P_TERNARY, elem, e, NULL, NULL);
}

uint64_t k_mask_of(Kernel *k, const Ix *at, int n) {
    uint64_t m = 0;
    for (int i = 0; i < n; i++) {
        uint64_t a = at[i]->axes;
        m |= a & ((UINT64_C(1) << KAXIS_VALUES) - 1);
        for (int v = KAXIS_VALUES; v < MAX_KAXES; v++)
            if (a >> v & 1) m |= k->axis[v].value->mask;
    }
    return m;
}

static void use_values(Kernel *k, const Ix *at, int n) {
    for (int i = 0; i < n; i++)
        for (int v = KAXIS_VALUES; v < MAX_KAXES; v++)
            if (at[i]->axes >> v & 1) k->axis[v].value->uses += 2;       // it gets a name
}

KExpr *k_index(Kernel *k, Ix e) {
    use_values(k, &e, 1);
    bool truth = e->kind == IX_LT || e->kind == IX_EQ || e->kind == IX_AND || e->kind == IX_OR;
    return k_expr(
        k, (KExpr){
               .op = E_INDEX, .expr = e, .elem = truth ? EL_bool : EL_index, .prec = P_OR2, .mask = k_mask_of(k, &e, 1)});
}

KExpr *k_truth(Kernel *k, Ix e) {
    if (e->kind != IX_CONST) return k_sized(k, k_index(k, e), EL_bool);
    return k_sized(k, k_number(k, g_int(e->value), NULL), EL_bool);
}

int k_axis(Kernel *k, KAxisKind kind, Ix extent, int64_t by, const char *name) {
    bool value = kind == A_VALUE;
    if (value ? k->nvalues == MAX_KAXES - KAXIS_VALUES : k->naxes == KAXIS_VALUES) {
        g_error(k->g, "a kernel with too many axes");
        return -1;
    }
    int number = value ? KAXIS_VALUES + k->nvalues++ : k->naxes++;
    k->axis[number] = (KAxis){.kind = kind, .axis = ix_axis(k->g, number, extent), .extent = extent, .by = by, .name = name};
    return number;
}

static KExpr *load(Kernel *k, const Node *n, const Ix *coord, bool has_fill, GNum fill) {
    GNum v;
    if (g_scalar_value(n, &v)) return k_number(k, v, n);
    use_values(k, coord, n->rank);
    return k_expr(k, (KExpr){.op = E_LOAD,
                               .node = n,
                               .coord = copy_ixs(k->g, coord, n->rank),
                               .elem = (Elem)n->elem,
                               .prec = P_PRIMARY,
                               .mask = k_mask_of(k, coord, n->rank),
                               .has_fill = has_fill,
                               .number = fill});
}

// ---- the kinds ------------------------------------------------------------------------------------------------------

bool k_in_memory(const Kernel *k, const Node *n) {
    return n->kind == G_input || n->kind == G_const || graph_loaded(n) || k->f->stored[n->id];
}

static bool made_here(const Kernel *k, const Node *n) {
    return k->f->maker[n->id] == k->group && n->kind != G_scan && n->kind != G_sort && n->kind != G_scatter &&
           n->kind != G_proj;
}

bool k_reads(const Kernel *k, const Node *n) { return k_in_memory(k, n) && !made_here(k, n); }

static KExpr *view(Kernel *k, const Node *n, const Ix *coord) {
    Graph *g = k->g;
    const Node *src = n->src[0];
    Ix at[G_MAX_RANK], pred = ix_substitute(g, n->view.pred, coord, n->rank), inside = ix(g, 1);   // pred implies inside
    for (int i = 0; i < src->rank; i++) {
        at[i] = ix_substitute(g, n->view.coord[i], coord, n->rank);
        inside = ix_and(g, inside, ix_in_range(g, at[i], src->shape[i]));
    }
    if (!pred || !inside) return NULL;
    if (ix_is(pred, 1)) return k_value(k, src, at);
    bool zero = n->view.fill.is_int ? n->view.fill.i == 0 : n->view.fill.f == 0;
    GNum v;
    if (k_reads(k, src) && ix_among(pred, inside) && !g_scalar_value(src, &v))
        return load(k, src, at, !zero, n->view.fill);
    KExpr *e = k_value(k, src, at), *p = k_truth(k, pred), *f = k_number(k, n->view.fill, n);
    if (!e) return NULL;
    if (e->elem == EL_none || e->elem == EL_index) e = k_sized(k, e, (Elem)n->elem);
    return k_text(k, "where($0, $1, $2)", P_PRIMARY, e->elem, p, e, f);
}

Ix k_value_index(Kernel *k, const Node *n, const Ix *coord, Ix extent) {
    KExpr *v = k_value(k, n, coord);
    if (!v) return NULL;
    if (v->op == E_INDEX) return v->expr;
    if (v->op == E_NUMBER) return ix(k->g, v->number.i);
    if (v->var < 0) {
        v->var = k_axis(k, A_VALUE, extent, 0, NULL);
        if (v->var < 0) return NULL;
        k->axis[v->var].value = v;
    }
    // of a dimension of size 1 too, it stays a value
    Ix wide = ix_is(extent, 1) ? ix(k->g, 2) : extent;
    k->axis[v->var].extent = wide;
    return k->axis[v->var].axis = ix_axis(k->g, v->var, wide);
}

static bool is_value(Ix e) { return e->kind == IX_AXIS && e->value >= KAXIS_VALUES; }

// A load reads 0 where an index is out of range. Does it see that of each value among the coordinates of `data`? It
// does where there is nothing but views between, and these leave the dimension as it is.
static bool load_sees_range(const Kernel *k, const Node *data, const Ix *at) {
    Ix c[G_MAX_RANK], next[G_MAX_RANK];
    const Node *x = data;
    memcpy(c, at, (size_t)x->rank * sizeof *at);
    while (!k_reads(k, x) && x->kind == G_view && ix_is(x->view.pred, 1)) {
        for (int i = 0; i < x->src[0]->rank; i++) next[i] = ix_substitute(k->g, x->view.coord[i], c, x->rank);
        x = x->src[0];
        memcpy(c, next, (size_t)x->rank * sizeof *c);
    }
    GNum v;
    if (!k_reads(k, x) || g_scalar_value(x, &v)) return false;
    for (int i = 0; i < data->rank; i++) {
        bool alone = !is_value(at[i]);
        for (int d = 0; d < x->rank; d++) alone |= c[d] == at[i] && x->shape[d] == data->shape[i];
        if (!alone) return false;
    }
    return true;
}

// Are these coordinates in range? Values are of unknown size, whatever the extent that they index has.
static KExpr *in_range(Kernel *k, const Ix *at, const Ix *shape, int rank) {
    KExpr *all = NULL;
    for (int i = 0; i < rank; i++) {
        Ix known = is_value(at[i]) ? NULL : ix_in_range(k->g, at[i], shape[i]);
        if (known && ix_is(known, 1)) continue;
        KExpr *one = known ? k_truth(k, known)
                           : k_text(k, "$0 >= 0 && $0 < $1", P_AND2, EL_bool, k->axis[at[i]->value].value,
                                    k_index(k, shape[i]), NULL);
        all = all ? k_text(k, "$0 && $1", P_AND2, EL_bool, all, one, NULL) : one;
    }
    return all;
}

static KExpr *gather(Kernel *k, const Node *n, const Ix *coord) {
    Ix at[G_MAX_RANK];
    const Node *data = n->src[0];
    for (int i = 0, used = 1; i < data->rank; i++) {
        if (n->at.coord[i]) {
            at[i] = ix_substitute(k->g, n->at.coord[i], coord, n->rank);
            continue;
        }
        at[i] = k_value_index(k, n->src[used++], coord, data->shape[i]);
        if (!at[i]) return NULL;
    }
    bool zero = n->at.checked || (n->at.fill.is_int ? n->at.fill.i == 0 : n->at.fill.f == 0);
    GNum v;
    if (k_reads(k, data) && !g_scalar_value(data, &v)) return load(k, data, at, !zero, n->at.fill);
    KExpr *e = k_value(k, data, at);
    if (!e || n->at.checked || (zero && load_sees_range(k, data, at))) return e;
    KExpr *inside = in_range(k, at, data->shape, data->rank);
    if (!inside) return e;
    if (e->elem == EL_none || e->elem == EL_index) e = k_sized(k, e, (Elem)n->elem);
    return k_text(k, "where($0, $1, $2)", P_PRIMARY, e->elem, inside, e, k_number(k, n->at.fill, n));
}

// `as` saturates to an f8. A cast that does not gives what is past the greatest number by half a step as the kind's NaN or infinity (cast_one).
static const char *const f8_text[EL_COUNT] = {
    [EL_f8e4m3] = "where(abs($0) > 464, bitcast<f8e4m3>(where($0 < 0, 255, 127) as u8), $0 as f8e4m3)",
    [EL_f8e5m2] = "where(abs($0) >= 61440, bitcast<f8e5m2>(where($0 < 0, 252, 124) as u8), $0 as f8e5m2)",
};

static KExpr *cast(Kernel *k, const Node *n, const Ix *coord) {
    Elem from = (Elem)n->src[0]->elem, to = (Elem)n->elem;
    KExpr *e = k_value(k, n->src[0], coord);
    if (!e || e->elem == to) return e;
    if (f8_text[to] && !n->cast.saturate) {
        e = e->elem == EL_f64 ? e : k_sized(k, e, EL_f32);
        e->uses++;
        return k_text(k, f8_text[to], P_PRIMARY, to, e, NULL, NULL);
    }
    if (e->elem == EL_none) return k_sized(k, k_sized(k, e, from), to);
    if (to == EL_bool) return k_text(k, "$0 != 0", P_EQUAL, EL_bool, e, NULL, NULL);
    if (elem_is_int(from) && n->cast.saturate) return k_sized(k, k_sized(k, e, EL_f64), to);
    return k_sized(k, e, to);
}

static KExpr *concat(Kernel *k, const Node *n, const Ix *coord) {
    Graph *g = k->g;
    Ix at[G_MAX_RANK], offset = ix(g, 0), axis = coord[n->concat.axis], start[64];
    if (n->nsrc > 64) return g_error(g, "a concatenation of %u values has no form in a kernel yet", n->nsrc);
    for (int i = 0; i < n->rank; i++) at[i] = coord[i];
    for (uint32_t i = 0; i < n->nsrc; i++) {
        start[i] = offset;
        offset = ix_add(g, offset, n->src[i]->shape[n->concat.axis]);
    }
    KExpr *all = NULL;
    for (uint32_t i = n->nsrc; i-- > 0;) {
        Ix end = ix_add(g, start[i], n->src[i]->shape[n->concat.axis]);
        // never there
        if ((i > 0 && ix_prove_lt(g, axis, start[i])) || (i + 1 < n->nsrc && ix_prove_le(g, end, axis))) continue;
        at[n->concat.axis] = ix_sub(g, axis, start[i]);
        KExpr *e = k_value(k, n->src[i], at);
        if (!e) return NULL;
        if (e->elem == EL_none || e->elem == EL_index) e = k_sized(k, e, (Elem)n->elem);
        bool alike = all && e->op == E_NUMBER && all->op == E_NUMBER && e->elem == all->elem &&
                     e->number.is_int == all->number.is_int && e->number.i == all->number.i && e->number.f == all->number.f;
        if (!all || alike) {
            all = e;
            continue;
        }
        Ix before = ix_lt(g, axis, end);
        if (ix_is(before, 1)) all = e;
        else if (!ix_is(before, 0)) {
            Elem elem = e->elem == all->elem ? e->elem : EL_f32;
            all = k_text(k, "where($0, $1, $2)", P_PRIMARY, elem, k_truth(k, before), e, all);
        }
    }
    return all;
}

// n's element, computed even if n is stored.
static KExpr *compute(Kernel *k, const Node *n, const Ix *coord) {
    GNum v;
    if (g_scalar_value(n, &v)) return k_number(k, v, n);
    switch ((GKind)n->kind) {
    case G_input: case G_const: return load(k, n, coord, false, g_int(0));
    case G_index: {
        KExpr *e = k_index(k, ix_substitute(k->g, n->index.expr, coord, n->rank));
        return n->elem == EL_bool || e->elem == EL_bool ? k_sized(k, e, (Elem)n->elem) : e;      // a comparison may be a number's 0 and 1
    }
    case G_view: return view(k, n, coord);
    case G_gather: return gather(k, n, coord);
    case G_ew: return k_elementwise(k, n, coord);
    case G_cast: return cast(k, n, coord);
    case G_concat: return concat(k, n, coord);
    case G_reduce: return k_reduce(k, n, coord);
    case G_contract:
        if (n == k->fg->inner) return k_scores(k, n, coord);
        return k_expr(k, (KExpr){.op = E_SUM,
                                   .elem = n->contract.acc,
                                   .prec = P_PRIMARY,
                                   .node = n,
                                   .number = g_int(k_sum_of(k, n)),
                                   .mask = k_mask_of(k, coord, n->rank)});
    default: return g_error(k->g, "`%s` has no form in a kernel", g_kind_name[n->kind]);
    }
}

// Stored on the way: what is made of it is made of what is in memory, rounded.
static bool rounded(const Kernel *k, const Node *n) {
    bool small = elem_is_float((Elem)n->elem) && elem_bits((Elem)n->elem) < 32 && n != k->fg->root, makes = false;
    for (uint32_t i = 0; small && i < k->fg->makes.n; i++) makes |= k->fg->makes.at[i] == n;
    return makes;
}

KExpr *k_value(Kernel *k, const Node *n, const Ix *coord) {
    if (any_null_ix(coord, n->rank) || g_failed(k->g)) return NULL;
    for (uint32_t i = 0; i < k->memo.n; i++) {
        const KMemo *m = &k->memo.at[i];
        if (m->node == n && (n->rank == 0 || memcmp(m->coord, coord, (size_t)n->rank * sizeof *coord) == 0)) return m->e;
    }
    KExpr *e = k_reads(k, n) ? load(k, n, coord, false, g_int(0)) : compute(k, n, coord);
    if (e && rounded(k, n)) e = k_sized(k, e, (Elem)n->elem);
    if (e) vec_push(k->arena, &k->memo, ((KMemo){n, copy_ixs(k->g, coord, n->rank), e}));
    return e;
}

// ---- quotients -------------------------------------------------------------------------------------------------------

int k_load_quotients(Kernel *k) {
    int q = 0;
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        const KExpr *e = k->exprs.at[i];
        if (e->op == E_LOAD) q += quotients_merged(k->g, e->node->rank, e->node->shape, e->coord);
        if (e->op == E_INDEX) q += ix_quotients(e->expr);
    }
    for (uint32_t i = 0; i < k->stores.n; i++)
        q += quotients_merged(k->g, k->stores.at[i].node->rank, k->stores.at[i].node->shape, k->stores.at[i].coord);
    return q;
}

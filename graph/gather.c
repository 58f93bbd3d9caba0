// Gathers and scatters: coordinates that are values. Where the values are known after all (an index expression, a
// constant), a gather becomes a view.

#include "graph/internal.h"

#include <string.h>

static bool in_range(Graph *g, Ix e, Ix extent) { return ix_prove_ge0(g, e) && ix_prove_lt(g, e, extent); }

Node *g_wrap_index(Graph *g, Node *indices, Ix size) {
    if (!indices || !size) return NULL;
    if (!elem_is_int((Elem)indices->elem))
        return g_error(g, "indices must be integers, not %s", elem_name((Elem)indices->elem));
    Node *i = g_cast(g, indices, EL_i64);
    if (!i || (i->kind == G_index && i->index.expr->lo >= 0)) return i;
    const Node *c = i->kind == G_view && ix_is(i->view.pred, 1) ? i->src[0] : i;
    bool negative = c->kind != G_const;
    for (size_t k = 0; c->kind == G_const && k < c->c.bytes / 8 && !negative; k++) {
        int64_t v;
        memcpy(&v, (const char *)c->c.data + k * 8, 8);
        negative = v < 0;
    }
    if (!negative) return i;
    return g_where(g, g_ew2(g, EW_lt, i, g_i(g, EL_i64, 0)), g_ew2(g, EW_add, i, g_size(g, EL_i64, size)), i);
}

// .. of a dimension of this size; an error if what is known of them is outside of it.
static Node *index_into(Graph *g, Node *indices, Ix size) {
    int n = 0;
    int64_t at, all;
    const Ix *known = indices && size && ix_const(size, &all) ? g_known(g, indices, &n) : NULL;
    for (int i = 0; known && i < n; i++)
        if (ix_const(known[i], &at) && (at < -all || at >= all))
            return g_error(g, "index %lld is out of range for a dimension of %lld", (long long)at, (long long)all);
    return g_wrap_index(g, indices, size);
}

// An index value whose element is known as an expression of the axes.
static Ix index_expr(const Node *n, Graph *g) {
    GNum v;
    if (n->kind == G_index) return n->index.expr;
    if (g_scalar_value(n, &v)) return ix(g, v.i);
    return NULL;
}

// Coordinates given and the index values broadcast; those that are expressions and surely in range join the coordinates.
static bool coordinates(Graph *g, const Node *data, int rank, const Ix *shape, const Ix *coord, Node *const *index,
                        int nindex, Ix *to, Node **values, int *nvalues) {
    int used = 0;
    *nvalues = 0;
    for (int i = 0; i < data->rank; i++) {
        to[i] = coord[i];
        if (to[i]) continue;
        if (used == nindex) return g_error(g, "too few index values") != NULL;
        Node *v = index[used++];
        if (v && !elem_is_int((Elem)v->elem))
            return g_error(g, "indices must be integers, not %s", elem_name((Elem)v->elem)) != NULL;
        v = g_broadcast_to(g, v, rank, shape, NULL);
        if (!v) return false;
        Ix e = index_expr(v, g);
        if (e && in_range(g, e, data->shape[i])) to[i] = e;
        else values[(*nvalues)++] = v;
    }
    return used == nindex || g_error(g, "too many index values") != NULL;
}

Node *g_gather(Graph *g, Node *data, int rank, const Ix *shape, const Ix *coord, Node *const *index, int nindex,
               bool checked, GNum fill) {
    if (!data || any_null_node(index, nindex) || any_null_ix(shape, rank)) return NULL;
    if (rank > G_MAX_RANK) return g_error(g, "a value has %d dimensions; the most is %d", rank, G_MAX_RANK);
    Ix to[G_MAX_RANK];
    Node *src[1 + G_MAX_RANK] = {data};
    int n;
    if (!coordinates(g, data, rank, shape, coord, index, nindex, to, src + 1, &n)) return NULL;
    if (n == 0) return g_view(g, data, rank, shape, to, NULL, fill);
    Node node = {.kind = G_gather,
                 .elem = data->elem,
                 .rank = (uint8_t)rank,
                 .shape = shape,
                 .nsrc = (uint32_t)n + 1,
                 .src = src,
                 .at = {to, checked, fill}};
    return node_intern(g, &node);
}

// Indices that are known, as start + step * i: what Range and slicing by lists come down to.
static bool known_range(Graph *g, Node *indices, Ix extent, Ix *start, int64_t *step) {
    int n;
    const Ix *at = g_known(g, indices, &n);
    if (!at || n == 0) return false;
    Ix first = at[0]->hi < 0 ? ix_add(g, at[0], extent) : at[0], d = n > 1 ? ix_sub(g, at[1], at[0]) : ix(g, 0);
    if (!first || !ix_const(d, step) || !in_range(g, first, extent)) return false;
    for (int i = 1; i < n; i++)
        if (ix_sub(g, at[i], at[i - 1]) != d) return false;
    *start = first;
    return in_range(g, ix_addi(g, first, (n - 1) * *step), extent);
}

Node *g_gather_axis(Graph *g, Node *data, Node *indices, int axis) {
    if (!data || !indices || (axis = g_axis(g, data, axis)) < 0) return NULL;
    int rank = data->rank - 1 + indices->rank;
    if (rank > G_MAX_RANK) return g_error(g, "a value has %d dimensions; the most is %d", rank, G_MAX_RANK);
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], start;
    for (int i = 0; i < axis; i++) shape[i] = data->shape[i];
    for (int i = 0; i < indices->rank; i++) shape[axis + i] = indices->shape[i];
    for (int i = axis + 1; i < data->rank; i++) shape[i + indices->rank - 1] = data->shape[i];
    for (int i = 0; i < data->rank; i++)
        coord[i] = i == axis ? NULL
                             : ix_axis(g, i < axis ? i : i + indices->rank - 1,
                                       i < axis ? shape[i] : shape[i + indices->rank - 1]);
    int64_t step;
    if (indices->rank <= 1 && known_range(g, indices, data->shape[axis], &start, &step)) {
        coord[axis] = indices->rank ? ix_add(g, start, ix_muli(g, ix_axis(g, axis, shape[axis]), step)) : start;
        return g_view(g, data, rank, shape, coord, NULL, g_int(0));
    }
    Node *wrapped = index_into(g, indices, data->shape[axis]);
    int to[G_MAX_RANK];
    for (int i = 0; i < indices->rank; i++) to[i] = axis + i;
    Node *full = g_broadcast_to(g, wrapped, rank, shape, to);
    return g_gather(g, data, rank, shape, coord, &full, 1, true, g_int(0));
}

static bool along(Graph *g, const Node *data, const Node *indices, int axis, Ix *coord) {
    if (data->rank != indices->rank) return g_error(g, "data and indices have different numbers of dimensions") != NULL;
    for (int i = 0; i < data->rank; i++) coord[i] = i == axis ? NULL : ix_axis(g, i, indices->shape[i]);
    return true;
}

Node *g_gather_elements(Graph *g, Node *data, Node *indices, int axis) {
    Ix coord[G_MAX_RANK];
    if (!data || !indices || !along(g, data, indices, axis, coord)) return NULL;
    Node *w = index_into(g, indices, data->shape[axis]);
    return g_gather(g, data, indices->rank, indices->shape, coord, &w, 1, true, g_int(0));
}

// The columns of indices [.., q], wrapped, as values of rank `rank` whose first axes are those of indices but the last.
static int columns(Graph *g, const Node *data, Node *indices, int first, int rank, const Ix *shape, Node **to) {
    int64_t q;
    int lead = indices->rank - 1;
    if (lead < 0 || !ix_const(indices->shape[lead], &q))
        return g_error(g, "the last dimension of the indices must be known"), -1;
    if (q < 0 || q > data->rank - first)
        return g_error(g, "the indices have %lld columns, the data %d dimensions", (long long)q, data->rank), -1;
    int at[G_MAX_RANK];
    for (int i = 0; i < lead; i++) at[i] = i;
    for (int c = 0; c < q; c++) {
        Node *column = g_squeeze(g, g_take_range(g, indices, lead, ix(g, c), 1, ix(g, 1)), 1u << lead);
        to[c] = g_broadcast_to(g, index_into(g, column, data->shape[first + c]), rank, shape, at);
    }
    return (int)q;
}

Node *g_gather_nd(Graph *g, Node *data, Node *indices, int batch_dims) {
    if (!data || !indices) return NULL;
    int64_t q;
    int lead = indices->rank - 1;
    if (lead < batch_dims || !ix_const(indices->shape[lead], &q) || q < 0 || q > data->rank - batch_dims)
        return g_error(g, "the indices do not fit the data");
    int rank = lead + data->rank - batch_dims - (int)q;
    if (rank > G_MAX_RANK) return g_error(g, "a value has %d dimensions; the most is %d", rank, G_MAX_RANK);
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    Node *col[G_MAX_RANK];
    for (int i = 0; i < lead; i++) shape[i] = indices->shape[i];
    for (int i = batch_dims + (int)q; i < data->rank; i++) shape[lead + i - batch_dims - q] = data->shape[i];
    for (int i = 0; i < data->rank; i++) {
        int at = i < batch_dims ? i : lead + i - batch_dims - (int)q;
        coord[i] = i >= batch_dims && i < batch_dims + q ? NULL : ix_axis(g, at, shape[at]);
    }
    for (int i = 0; i < batch_dims; i++) g_require(g, data->shape[i], indices->shape[i]);
    int n = columns(g, data, indices, batch_dims, rank, shape, col);
    return n < 0 ? NULL : g_gather(g, data, rank, shape, coord, col, n, true, g_int(0));
}

// ---- scatter --------------------------------------------------------------------------------------------------------

// Is v its source with the dimensions in another order? Dimension i of the source is dimension at[i] of v.
static bool reordered(const Node *v, int *at) {
    if (v->kind != G_view || !ix_is(v->view.pred, 1) || v->rank != v->src[0]->rank) return false;
    bool taken[G_MAX_RANK] = {0};
    for (int i = 0; i < v->rank; i++) {
        Ix c = v->view.coord[i];
        at[i] = c->kind == IX_AXIS ? (int)c->value : -1;
        if (at[i] >= 0 && (taken[at[i]] || v->shape[at[i]] != v->src[0]->shape[i])) return false;
        if (at[i] < 0 && !(ix_is(c, 0) && ix_is(v->src[0]->shape[i], 1))) return false;
        if (at[i] >= 0) taken[at[i]] = true;
    }
    for (int i = 0, d = 0; i < v->rank; i++) {               // dimensions of 1 have no axis
        if (at[i] >= 0) continue;
        while (d < v->rank && (taken[d] || !ix_is(v->shape[d], 1))) d++;
        if (d == v->rank) return false;
        taken[at[i] = d] = true;
    }
    return true;
}

// Of reordered data: the data scattered into as they are, then reordered. A cache that is written at a place of an inner axis comes as
// Transpose, ScatterND, Transpose: nothing is left of the two, and the cache may be updated where it is.
static Node *scatter_below(Graph *g, GReduce op, Node *data, const int *at, Node *updates, const Ix *coord, Node *const *index, bool checked) {
    Ix to[G_MAX_RANK], back[G_MAX_RANK];
    Node *value[G_MAX_RANK];
    int n = 0, before[G_MAX_RANK + 1] = {0};
    for (int i = 0; i < data->rank; i++) before[i + 1] = before[i] + !coord[i];
    for (int i = 0; i < data->rank; i++) {
        to[i] = coord[at[i]];
        if (!to[i]) value[n++] = index[before[at[i]]];
        back[i] = ix_axis(g, at[i], data->shape[at[i]]);
    }
    return g_view(g, g_scatter(g, op, data->src[0], updates, to, value, n, checked), data->rank, data->shape, back, NULL, g_int(0));
}

Node *g_scatter(Graph *g, GReduce op, Node *data, Node *updates, const Ix *coord, Node *const *index, int nindex,
                bool checked) {
    if (!data || !updates || any_null_node(index, nindex)) return NULL;
    if (data->elem != updates->elem)
        return g_error(g, "data and updates have different types: %s and %s", elem_name((Elem)data->elem),
                       elem_name((Elem)updates->elem));
    Ix to[G_MAX_RANK];
    Node *src[2 + G_MAX_RANK] = {data, updates};
    int n, at[G_MAX_RANK];
    for (int i = n = 0; i < data->rank; i++) n += !coord[i];
    if (n == nindex && reordered(data, at)) return scatter_below(g, op, data, at, updates, coord, index, checked);
    if (!coordinates(g, data, updates->rank, updates->shape, coord, index, nindex, to, src + 2, &n)) return NULL;
    Node node = {.kind = G_scatter, .elem = data->elem, .rank = data->rank, .op = (uint8_t)op, .shape = data->shape,
                 .nsrc = (uint32_t)n + 2, .src = src, .at = {to, checked, g_int(0)}};
    return node_intern(g, &node);
}

bool g_in_place(const Node *n) {
    return n->op == GR_none || (n->op == GR_sum && (n->elem == EL_f32 || n->elem == EL_i32 || n->elem == EL_u32 || n->elem == EL_f64 || n->elem == EL_i64));
}

Node *g_scatter_elements(Graph *g, GReduce op, Node *data, Node *indices, Node *updates, int axis) {
    Ix coord[G_MAX_RANK];
    if (!data || !indices || !updates || !along(g, data, indices, axis, coord)) return NULL;
    if (updates->rank != indices->rank) return g_error(g, "indices and updates have different numbers of dimensions");
    for (int i = 0; i < indices->rank; i++) g_require(g, indices->shape[i], updates->shape[i]);
    for (int i = 0; i < data->rank; i++)
        if (coord[i]) coord[i] = ix_axis(g, i, updates->shape[i]);
    Node *w = index_into(g, indices, data->shape[axis]);
    return g_failed(g) ? NULL : g_scatter(g, op, data, updates, coord, &w, 1, true);
}

Node *g_scatter_nd(Graph *g, GReduce op, Node *data, Node *indices, Node *updates) {
    if (!data || !indices || !updates) return NULL;
    int64_t q;
    int lead = indices->rank - 1;
    if (lead < 0 || !ix_const(indices->shape[lead], &q) || q < 0 || q > data->rank || updates->rank != lead + data->rank - q)
        return g_error(g, "indices and updates do not fit the data");
    Ix coord[G_MAX_RANK];
    Node *col[G_MAX_RANK];
    for (int i = 0; i < lead; i++) g_require(g, indices->shape[i], updates->shape[i]);
    for (int i = 0; i < data->rank; i++) {
        coord[i] = i < q ? NULL : ix_axis(g, lead + i - (int)q, updates->shape[lead + i - q]);
        if (i >= q) g_require(g, data->shape[i], updates->shape[lead + i - q]);
    }
    int n = columns(g, data, indices, 0, updates->rank, updates->shape, col);
    return n < 0 || g_failed(g) ? NULL : g_scatter(g, op, data, updates, coord, col, n, true);
}

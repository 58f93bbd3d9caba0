// Shape values: small integer values whose elements are known as expressions of the model's dimensions. Exporters compute
// shapes by Shape, Gather, Mul, Concat, ..; evaluating those on expressions gives Reshape its sizes without running
// anything.
//
// One function for each kind, from the elements of the sources to the elements of the result. What is found is kept by
// node, so that long chains cost what they are long.

#include "graph/ew.h"
#include "graph/internal.h"

#include <string.h>

enum { MOST = 1024 };            // elements

// The plain sizes and the number of elements; -1 if not plain or too many.
static int plain_shape(int rank, const Ix *shape, int64_t *to) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        if (!ix_const(shape[i], &to[i]) || to[i] < 0 || to[i] > MOST) return -1;
        n *= to[i];
        if (n > MOST) return -1;
    }
    return (int)n;
}

static void unflatten(int flat, int rank, const int64_t *shape, int64_t *at) {
    for (int i = rank; i-- > 0; flat /= (int)shape[i]) at[i] = flat % shape[i];
}

static int flatten(int rank, const int64_t *shape, const int64_t *at) {
    int64_t flat = 0;
    for (int i = 0; i < rank; i++) {
        if (at[i] < 0 || at[i] >= shape[i]) return -1;
        flat = flat * shape[i] + at[i];
    }
    return (int)flat;
}

static void axes_at(Graph *g, int rank, const int64_t *at, Ix *to) {
    for (int i = 0; i < rank; i++) to[i] = ix(g, at[i]);
}

// Where in `data` an element is whose coordinates are these; -1: not plain, or out of range.
static int source_of(Graph *g, const Node *data, const Ix *coord, Node *const *index, int element, const Ix *axes,
                     int rank) {
    int64_t shape[G_MAX_RANK], at[G_MAX_RANK];
    int used = 0, count;
    if (plain_shape(data->rank, data->shape, shape) < 0) return -1;
    for (int i = 0; i < data->rank; i++) {
        Ix e;
        if (coord[i]) {
            e = ix_substitute(g, coord[i], axes, rank);
        } else {
            const Ix *k = g_known(g, index[used++], &count);
            e = k ? k[element] : NULL;
        }
        if (!ix_const(e, &at[i])) return -1;
    }
    return flatten(data->rank, shape, at);
}

static bool known_const(Graph *g, const Node *n, int count, Ix *to) {
    for (int i = 0; i < count; i++)
        to[i] = ix(
            g, g_num_load((const char *)n->c.data + (size_t)i * (size_t)elem_bytes((Elem)n->elem), (Elem)n->elem).i);
    return true;
}

// Are the elements of a list of integers as far from each other, and where does it begin? One element: `step` is what it was.
static bool progression(Graph *g, const Node *x, Ix *first, int64_t *step) {
    int64_t n, d;
    if (x->rank != 1 || x->elem == EL_bool || !elem_is_int((Elem)x->elem) || !ix_const(x->shape[0], &n) || n < 1) return false;
    if (x->kind == G_cast) return elem_is_int((Elem)x->src[0]->elem) && progression(g, x->src[0], first, step);
    if (x->kind == G_index) {
        Ix second = ix_substitute(g, x->index.expr, (Ix[]){ix(g, 1)}, 1);
        *first = ix_substitute(g, x->index.expr, (Ix[]){ix(g, 0)}, 1);
        return n == 1 || (ix_const(ix_sub(g, second, *first), step) &&
                          ix_add(g, *first, ix_muli(g, ix_axis(g, 0, x->shape[0]), *step)) == x->index.expr);
    }
    if (x->kind == G_concat) {
        Ix next = NULL, from;
        for (uint32_t i = 0; i < x->nsrc; i++) {
            int64_t each = i > 0 ? *step : 0, count;
            if (!progression(g, x->src[i], &from, &each) || !ix_const(x->src[i]->shape[0], &count)) return false;
            if (i == 0 && count == 1) return false;
            if (i > 0 && (from != next || each != *step)) return false;
            if (i == 0) *first = from, *step = each;
            next = ix_add(g, from, ix_muli(g, ix(g, count), each));
        }
        return next != NULL;
    }
    if (x->kind != G_const || !x->c.data) return false;
    const char *p = x->c.data;
    size_t wide = (size_t)elem_bytes((Elem)x->elem);
    int64_t last = g_num_load(p, (Elem)x->elem).i;
    *first = ix(g, last);
    for (int64_t i = 1; i < n; i++, last += d) {
        if (__builtin_sub_overflow(g_num_load(p + (size_t)i * wide, (Elem)x->elem).i, last, &d) || (i > 1 && d != *step)) return false;
        *step = d;
    }
    return true;
}

// Element `at`, which is no number, of such a list.
static Ix of_progression(Graph *g, const Node *list, Ix at) {
    Ix first;
    int64_t step = 0;
    bool within = at && ix_prove_ge0(g, at) && ix_prove_lt(g, at, list->shape[0]);
    return within && progression(g, list, &first, &step) ? ix_add(g, first, ix_muli(g, at, step)) : NULL;
}

static bool known_view(Graph *g, const Node *n, int count, const int64_t *shape, Ix *to) {
    int have;
    const Ix *from = NULL;
    if (n->kind == G_view && count == 1 && n->src[0]->rank == 1 && ix_is(n->view.pred, 1) && n->view.coord[0]->has_dim) {
        Ix zero[G_MAX_RANK];
        for (int i = 0; i < n->rank; i++) zero[i] = ix(g, 0);
        if ((to[0] = of_progression(g, n->src[0], ix_substitute(g, n->view.coord[0], zero, n->rank)))) return true;
    }
    if (n->kind != G_index) {
        from = g_known(g, n->src[0], &have);
        if (!from) return false;
    }
    for (int i = 0; i < count; i++) {
        int64_t at[G_MAX_RANK], yes = 1;
        Ix axes[G_MAX_RANK];
        unflatten(i, n->rank, shape, at);
        axes_at(g, n->rank, at, axes);
        if (n->kind == G_index) {
            to[i] = ix_substitute(g, n->index.expr, axes, n->rank);
            if (!to[i]) return false;
            continue;
        }
        if (n->kind == G_view && !ix_const(ix_substitute(g, n->view.pred, axes, n->rank), &yes)) return false;
        int k = yes ? source_of(g, n->src[0], n->kind == G_view ? n->view.coord : n->at.coord, n->src + 1, i, axes,
                                n->rank)
                    : 0;
        if (k < 0) return false;
        to[i] = yes ? from[k] : ix(g, n->view.fill.i);
    }
    return true;
}

static bool known_ew(Graph *g, const Node *n, int count, Ix *to) {
    const Ix *e[3] = {0};
    int have;
    for (uint32_t k = 0; k < n->nsrc; k++)
        if (!(e[k] = g_known(g, n->src[k], &have))) return false;
    for (int i = 0; i < count; i++) {
        to[i] = g_ew_expr(g, (GEw)n->op, (Elem)n->src[n->nsrc - 1]->elem,
                          (Ix[]){e[0][i], e[1] ? e[1][i] : NULL, e[2] ? e[2][i] : NULL});
        if (!to[i]) return false;
    }
    return true;
}

static bool known_cast(Graph *g, const Node *n, int count, Ix *to) {
    int have;
    if (elem_is_float((Elem)n->src[0]->elem)) {
        const GRatio *r = n->elem != EL_bool ? g_known_ratios(g, n->src[0], &have) : NULL;
        for (int i = 0; r && i < count; i++) {
            if (!ix_is(r[i].den, 1) && !ix_prove_ge0(g, r[i].num)) return false;
            to[i] = ix_div(g, r[i].num, r[i].den);
        }
        return r != NULL && have == count;
    }
    const Ix *from = g_known(g, n->src[0], &have);
    for (int i = 0; from && i < count; i++) to[i] = n->elem == EL_bool ? ix_ne(g, from[i], ix(g, 0)) : from[i];
    return from != NULL;
}

static bool known_concat(Graph *g, const Node *n, int count, const int64_t *shape, Ix *to) {
    for (int i = 0; i < count; i++) {
        int64_t at[G_MAX_RANK], part[G_MAX_RANK];
        uint32_t k = 0;
        int have;
        unflatten(i, n->rank, shape, at);
        for (; k < n->nsrc; k++) {
            if (plain_shape(n->rank, n->src[k]->shape, part) < 0) return false;
            if (at[n->concat.axis] < part[n->concat.axis]) break;
            at[n->concat.axis] -= part[n->concat.axis];
        }
        const Ix *from = k < n->nsrc ? g_known(g, n->src[k], &have) : NULL;
        if (!from) return false;
        to[i] = from[flatten(n->rank, part, at)];
    }
    return true;
}

static bool known_reduce(Graph *g, const Node *n, int count, Ix *to) {
    int have;
    const Ix *from = g_known(g, n->src[0], &have);
    int64_t shape[G_MAX_RANK], out[G_MAX_RANK], at[G_MAX_RANK], kept[G_MAX_RANK];
    GReduce op = (GReduce)n->op;
    if (!from || op > GR_min || plain_shape(n->rank, n->shape, out) < 0) return false;
    plain_shape(n->src[0]->rank, n->src[0]->shape, shape);
    for (int i = 0; i < count; i++) to[i] = NULL;
    for (int i = 0; i < have; i++) {
        int r = 0;
        unflatten(i, n->src[0]->rank, shape, at);
        for (int k = 0; k < n->src[0]->rank; k++)
            if (!(n->reduce.axes >> k & 1)) kept[r++] = at[k];
        Ix *o = &to[flatten(n->rank, out, kept)], e = from[i];
        *o = !*o             ? e
             : op == GR_sum  ? ix_add(g, *o, e)
             : op == GR_prod ? ix_mul(g, *o, e)
             : op == GR_max  ? ix_max(g, *o, e)
                             : ix_min(g, *o, e);
        if (!*o) return false;
    }
    for (int i = 0; i < count; i++) {
        if (!to[i] && op > GR_prod) return false;
        if (!to[i]) to[i] = ix(g, op == GR_prod);
    }
    return true;
}

static const Ix *compute(Graph *g, Node *n, int *count) {
    int64_t shape[G_MAX_RANK];
    if (!elem_is_int((Elem)n->elem) && n->elem != EL_bool) return NULL;
    *count = plain_shape(n->rank, n->shape, shape);
    if (*count < 0) return NULL;
    Ix *to = NEW_N(g->arena, Ix, *count);
    bool ok = false;
    switch ((GKind)n->kind) {
    case G_const: ok = known_const(g, n, *count, to); break;
    case G_index: case G_view: case G_gather: ok = known_view(g, n, *count, shape, to); break;
    case G_ew: ok = known_ew(g, n, *count, to); break;
    case G_cast: ok = known_cast(g, n, *count, to); break;
    case G_concat: ok = known_concat(g, n, *count, shape, to); break;
    case G_reduce: ok = known_reduce(g, n, *count, to); break;
    default: break;
    }
    return ok ? to : NULL;
}

const Ix *g_known(Graph *g, Node *n, int *count) {
    struct GTables *t = g->tables;
    *count = 0;
    if (!n) return NULL;
    while (t->known.n <= n->id) vec_push(g->arena, &t->known, (GKnown){0});
    if (!t->known.at[n->id].computed) {
        const char *error = t->error;
        int found = 0;
        const Ix *at = compute(g, n, &found);
        t->error = error;
        t->known.at[n->id] = (GKnown){n, at, at ? found : 0, true};
    }
    *count = t->known.at[n->id].count;
    return t->known.at[n->id].at;
}

Ix g_known_ix(Graph *g, Node *n) {
    int count;
    const Ix *at = g_known(g, n, &count);
    return at && count == 1 ? at[0] : NULL;
}

bool g_known_int(Graph *g, Node *n, int64_t *value) {
    return ix_const(g_known_ix(g, n), value);
}

const int64_t *g_known_ints(Graph *g, Node *n, int *count) {
    const Ix *at = g_known(g, n, count);
    if (!at) return NULL;
    int64_t *v = NEW_N(g->arena, int64_t, *count);
    for (int i = 0; i < *count; i++)
        if (!ix_const(at[i], &v[i])) return NULL;
    return v;
}

// The builders that compute: elementwise, reductions, scans, sorts, products, concatenation, and what has bodies.

#include "graph/internal.h"

#include "graph/ew.h"

#include <stdlib.h>
#include <string.h>

// ---- elementwise ----------------------------------------------------------------------------------------------------

// An index expression of the result's axes that has the value's elements: index values, constants of one integer.
static Ix as_expr(Graph *g, const Node *n) {
    GNum v;
    if (n->kind == G_index) return n->index.expr;
    if (!elem_is_float((Elem)n->elem) && g_scalar_value(n, &v)) return ix(g, v.i);
    return NULL;
}

// Elementwise operations on index values stay index values, as long as nothing could wrap.
static Node *ew_index(Graph *g, GEw op, Elem elem, Node *const *src, int n) {
    Ix e[3] = {0}, r = NULL;
    bool any = false;
    for (int i = 0; i < n; i++) {
        e[i] = as_expr(g, src[i]);
        if (!e[i] || src[i]->elem == EL_u64) return NULL;
        any |= src[i]->kind == G_index;
    }
    if (!any) return NULL;
    const char *error = g->tables->error;
    r = g_ew_expr(g, op, (Elem)src[n - 1]->elem, e);
    g->tables->error = error;
    int bits = elem_bits(elem);
    bool fits = r && (elem == EL_bool || elem_is_signed(elem) || r->lo >= 0) &&
                (bits == 64 || elem == EL_bool ||
                 (r->lo >= -(INT64_C(1) << (bits - 1)) && r->hi < INT64_C(1) << (bits - 1)));
    return fits ? g_index(g, elem, src[0]->rank, src[0]->shape, r) : NULL;
}

enum { FOLDED = 64 };            // elements of the largest constant that is folded at once

static bool small_constants(Node *const *src, int n, uint64_t *count) {
    *count = 1;
    for (int i = 0; i < src[0]->rank; i++) {
        int64_t v;
        if (!ix_const(src[0]->shape[i], &v) || v <= 0 || (*count *= (uint64_t)v) > FOLDED) return false;
    }
    for (int i = 0; i < n; i++) {
        GNum v;
        if (src[i]->kind != G_const && !g_scalar_value(src[i], &v)) return false;
        if (src[i]->kind == G_const && src[i]->c.file) return false;
    }
    return true;
}

static const void *element(const Node *n, uint64_t i) {
    if (n->kind == G_view) return n->src[0]->c.data;
    return (const char *)n->c.data + i * (size_t)elem_bytes((Elem)n->elem);
}

static Node *ew_constant(Graph *g, GEw op, Elem elem, Node *const *src, int n) {
    GNum v;
    uint64_t count;
    bool splat = true;
    for (int i = 0; i < n; i++) splat &= g_scalar_value(src[i], &v);
    if (!splat && !small_constants(src, n, &count)) return NULL;
    if (splat) count = 1;
    char out[FOLDED * 8];
    for (uint64_t i = 0; i < count; i++) {
        const void *in[3] = {0};
        for (int k = 0; k < n; k++) in[k] = element(src[k], splat ? 0 : i);
        ew_one(op, (Elem)src[n - 1]->elem, in, out + i * (size_t)elem_bytes(elem));
    }
    if (splat) return g_full(g, elem, src[0]->rank, src[0]->shape, g_num_load(out, elem));
    int64_t shape[G_MAX_RANK];
    for (int i = 0; i < src[0]->rank; i++) ix_const(src[0]->shape[i], &shape[i]);
    return g_const(g, elem, src[0]->rank, shape, out);
}

Node *g_ew(Graph *g, GEw op, Node *const *src_in, int n) {
    const GEwInfo *info = &g_ew_info[op];
    Ix shape[G_MAX_RANK];
    int rank;
    Node *src[3];
    if (n != info->n) return g_error(g, "`%s` takes %d operands, not %d", info->name, info->n, n);
    if (!g_broadcast_shape(g, src_in, n, &rank, shape)) return NULL;
    bool where = op == EW_where;
    if (where && src_in[0]->elem != EL_bool)
        return g_error(g, "`where` wants a bool, not %s", elem_name((Elem)src_in[0]->elem));
    Elem operand = (Elem)src_in[n - 1]->elem;
    for (int i = 0; i < n; i++) {
        if (!(where && i == 0) && src_in[i]->elem != operand)
            return g_error(g, "operands of `%s` have different types: %s and %s", info->name,
                           elem_name((Elem)src_in[i]->elem), elem_name(operand));
        src[i] = g_broadcast_to(g, src_in[i], rank, shape, NULL);
        if (!src[i]) return NULL;
    }
    bool bits = (op >= EW_and && op <= EW_shr) || op == EW_not, shift = op == EW_shl || op == EW_shr,
         float_only = op == EW_isnan || op == EW_isinf;
    bool takes = bits ? !elem_is_float(operand) && !(shift && operand == EL_bool) : !float_only || elem_is_float(operand);
    if (!takes) return g_error(g, "`%s` does not take %s", info->name, elem_name(operand));
    Elem elem = info->gives_bool ? EL_bool : operand;
    GNum c;
    if (where && g_scalar_value(src[0], &c)) return c.i ? src[1] : src[2];
    if (where && src[1] == src[2]) return src[1];
    for (int i = 0; i < 2 && n == 2; i++) {                  // true && x, false || x, x * 1
        bool neutral = (op == EW_and || op == EW_or) && operand == EL_bool && g_scalar_value(src[i], &c) &&
                       (c.i != 0) == (op == EW_and);
        neutral |= op == EW_mul && elem_is_float(operand) && g_scalar_value(src[i], &c) &&
                   (c.is_int ? (double)c.i : c.f) == 1;
        if (neutral) return src[1 - i];
    }
    Node *folded = ew_constant(g, op, elem, src, n);
    if (!folded) folded = ew_index(g, op, elem, src, n);
    if (folded || g_failed(g)) return folded;
    Node node = {.kind = G_ew, .elem = (uint8_t)elem, .rank = (uint8_t)rank, .op = (uint8_t)op, .shape = shape,
                 .nsrc = (uint32_t)n, .src = src};
    return node_intern(g, &node);
}

Node *g_ew1(Graph *g, GEw op, Node *a) { return g_ew(g, op, &a, 1); }
Node *g_ew2(Graph *g, GEw op, Node *a, Node *b) { return g_ew(g, op, (Node *[]){a, b}, 2); }
Node *g_where(Graph *g, Node *cond, Node *a, Node *b) { return g_ew(g, EW_where, (Node *[]){cond, a, b}, 3); }
Node *g_ew2f(Graph *g, GEw op, Node *a, double b) { return a ? g_ew2(g, op, a, g_f(g, (Elem)a->elem, b)) : NULL; }

static bool range_fits(Ix e, Elem elem) {
    int bits = elem_bits(elem);
    if (elem == EL_bool) return true;
    if (!elem_is_signed(elem)) return e->lo >= 0 && (bits == 64 || e->hi < INT64_C(1) << bits);
    return bits == 64 || (e->lo >= -(INT64_C(1) << (bits - 1)) && e->hi < INT64_C(1) << (bits - 1));
}

static Node *cast(Graph *g, Node *x, Elem elem, bool saturate) {
    if (!x || x->elem == elem) return x;
    GNum v;
    uint64_t count;
    saturate = saturate && (elem_is_storage(elem) || elem_is_int(elem));
    if (g_scalar_value(x, &v)) {
        char out[8] = {0}, in[8] = {0};
        g_num_store(in, (Elem)x->elem, v);
        cast_one((Elem)x->elem, elem, saturate, in, out);
        return g_full(g, elem, x->rank, x->shape, g_num_load(out, elem));
    }
    if (x->kind == G_index && (elem_is_int(elem) || elem == EL_bool) && range_fits(x->index.expr, elem))
        return g_index(g, elem, x->rank, x->shape, x->index.expr);
    if (small_constants(&x, 1, &count)) {
        char out[FOLDED * 8];
        int64_t shape[G_MAX_RANK];
        for (uint64_t i = 0; i < count; i++)
            cast_one((Elem)x->elem, elem, saturate, element(x, i), out + i * (size_t)elem_bytes(elem));
        for (int i = 0; i < x->rank; i++) ix_const(x->shape[i], &shape[i]);
        return g_const(g, elem, x->rank, shape, out);
    }
    Node n = {.kind = G_cast,
              .elem = (uint8_t)elem,
              .rank = x->rank,
              .shape = x->shape,
              .nsrc = 1,
              .src = &x,
              .cast = {.saturate = saturate}};
    return node_intern(g, &n);
}

Node *g_cast(Graph *g, Node *x, Elem elem) { return cast(g, x, elem, false); }
Node *g_cast_saturate(Graph *g, Node *x, Elem elem) { return cast(g, x, elem, true); }

Node *g_kept(Graph *g, Node *x, Elem elem) {
    if (!x) return NULL;
    return node_intern(g, &(Node){.kind = G_cast,
                                  .elem = (uint8_t)elem,
                                  .rank = x->rank,
                                  .shape = x->shape,
                                  .nsrc = 1,
                                  .src = &x,
                                  .cast = {.kept = true}});
}

// ---- reductions -----------------------------------------------------------------------------------------------------

static Node *reduce(Graph *g, GReduce op, Node *x, uint32_t axes, bool keep, bool last) {
    if (!x) return NULL;
    bool arg = op == GR_argmax || op == GR_argmin, truth = op == GR_any || op == GR_all;
    if (truth && x->elem != EL_bool)
        return g_error(g, "`%s` wants a bool, not %s", g_reduce_name[op], elem_name((Elem)x->elem));
    Elem elem = arg ? EL_i64 : (Elem)x->elem;
    axes &= (1u << x->rank) - 1;
    if (axes == 0) return arg ? g_full(g, EL_i64, x->rank, x->shape, g_int(0)) : x;
    Ix shape[G_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (!(axes >> i & 1)) shape[rank++] = x->shape[i];
    Node n = {.kind = G_reduce, .elem = (uint8_t)elem, .rank = (uint8_t)rank, .op = (uint8_t)op, .shape = shape,
              .nsrc = 1, .src = &x, .reduce = {axes, last, false}};
    Node *r = node_intern(g, &n);
    return keep ? g_unsqueeze(g, r, axes) : r;
}

Node *g_reduce(Graph *g, GReduce op, Node *x, uint32_t axes, bool keep) { return reduce(g, op, x, axes, keep, false); }

Node *g_arg_reduce(Graph *g, GReduce op, Node *x, int axis, bool keep, bool last) {
    return reduce(g, op, x, 1u << axis, keep, last);
}

static bool is_small_float(Elem e) { return elem_is_float(e) && elem_bits(e) < 32; }

Node *g_mean(Graph *g, Node *x, uint32_t axes, bool keep) {
    if (!x) return NULL;
    Elem elem = (Elem)x->elem, wide = is_small_float(elem) ? EL_f32 : elem;
    Ix count = ix(g, 1);
    for (int i = 0; i < x->rank; i++)
        if (axes >> i & 1) count = ix_mul(g, count, x->shape[i]);
    if (count && ix_is(count, 0) && !elem_is_float(elem)) count = ix(g, 1);        // of no integers it is 0, of no floats NaN
    Node *sum = g_reduce(g, GR_sum, g_cast(g, x, wide), axes, keep);
    return count ? g_cast(g, g_ew2(g, EW_div, sum, g_size(g, wide, count)), elem) : NULL;
}

Node *g_softmax(Graph *g, Node *x, uint32_t axes) {
    if (!x) return NULL;
    Elem elem = (Elem)x->elem, wide = is_small_float(elem) ? EL_f32 : elem;
    Node *w = g_cast(g, x, wide);
    Node *e = g_ew1(g, EW_exp, g_ew2(g, EW_sub, w, g_reduce(g, GR_max, w, axes, true)));
    return g_cast(g, g_ew2(g, EW_div, e, g_reduce(g, GR_sum, e, axes, true)), elem);
}

Node *g_scan(Graph *g, GReduce op, Node *x, int axis, bool exclusive, bool reverse) {
    if (!x) return NULL;
    bool starts = op == GR_sum || op == GR_prod;             // from a number that every type has
    if (ix_is(x->shape[axis], 1) && (starts || !exclusive))
        return exclusive ? g_full(g, (Elem)x->elem, x->rank, x->shape, g_int(op == GR_prod)) : x;
    Node n = {.kind = G_scan, .elem = x->elem, .rank = x->rank, .op = (uint8_t)op, .shape = x->shape, .nsrc = 1, .src = &x,
              .scan = {(uint8_t)axis, exclusive, reverse}};
    return node_intern(g, &n);
}

Node *g_sort(Graph *g, Node *x, int axis, bool descending, Node **positions) {
    if (!x) return NULL;
    if (ix_is(x->shape[axis], 1)) {
        if (positions) *positions = g_full(g, EL_i64, x->rank, x->shape, g_int(0));
        return x;
    }
    Node n = {.kind = G_sort, .elem = x->elem, .rank = x->rank, .shape = x->shape, .nsrc = 1, .src = &x,
              .sort = {(uint8_t)axis, descending}};
    Node *s = node_intern(g, &n);
    if (positions) *positions = g_proj(g, s, 1);
    return g_proj(g, s, 0);
}

// ---- products -------------------------------------------------------------------------------------------------------

Node *g_contract(Graph *g, Node *a, Node *b, int nb, int nm, int nn, int nk, Elem elem, Elem acc) {
    if (!a || !b) return NULL;
    if (a->rank != nb + nm + nk || b->rank != nb + nn + nk)
        return g_error(g, "a product's operands have the wrong number of dimensions");
    if (nb + nm + nn > G_MAX_RANK)
        return g_error(g, "a product has %d dimensions; the most is %d", nb + nm + nn, G_MAX_RANK);
    for (int i = 0; i < nb + nk; i++) {
        Ix x = i < nb ? a->shape[i] : a->shape[nm + i], y = i < nb ? b->shape[i] : b->shape[nn + i];
        g_require(g, x, y);
    }
    if (g_failed(g)) return NULL;
    Ix shape[G_MAX_RANK];
    for (int i = 0; i < nb + nm; i++) shape[i] = a->shape[i];
    for (int i = 0; i < nn; i++) shape[nb + nm + i] = b->shape[nb + i];
    Node n = {.kind = G_contract, .elem = (uint8_t)elem, .rank = (uint8_t)(nb + nm + nn), .shape = shape, .nsrc = 2,
              .src = (Node *[]){a, b},
              .contract = {(uint8_t)nb, (uint8_t)nm, (uint8_t)nn, (uint8_t)nk, acc}};
    return node_intern(g, &n);
}

// ---- concatenation --------------------------------------------------------------------------------------------------

Node *g_concat(Graph *g, int axis, Node *const *src, int n) {
    if (any_null_node(src, n)) return NULL;
    if (n == 0) return g_error(g, "nothing to concatenate");
    axis = g_axis(g, src[0], axis);
    if (axis < 0) return NULL;
    Node **kept = NEW_N(g->arena, Node *, n);
    int count = 0;
    Ix shape[G_MAX_RANK];
    for (int i = 0; i < src[0]->rank; i++) shape[i] = src[0]->shape[i];
    shape[axis] = ix(g, 0);
    for (int k = 0; k < n; k++) {
        if (src[k]->elem != src[0]->elem || src[k]->rank != src[0]->rank)
            return g_error(g, "what is concatenated differs in element type or number of dimensions");
        for (int i = 0; i < src[0]->rank; i++) {
            if (i == axis) continue;
            g_require(g, shape[i], src[k]->shape[i]);
            if (ix_is_const(src[k]->shape[i])) shape[i] = src[k]->shape[i];
        }
        shape[axis] = ix_add(g, shape[axis], src[k]->shape[axis]);
        if (!ix_is(src[k]->shape[axis], 0)) kept[count++] = src[k];
    }
    if (g_failed(g)) return NULL;
    if (count == 0) return src[0];
    if (count == 1) return kept[0];
    Node node = {.kind = G_concat,
                 .elem = src[0]->elem,
                 .rank = src[0]->rank,
                 .shape = shape,
                 .nsrc = (uint32_t)count,
                 .src = kept,
                 .concat = {(uint8_t)axis}};
    return node_intern(g, &node);
}

// ---- whole tensors, bodies ------------------------------------------------------------------------------------------

static const GType *copy_types(Graph *g, const GType *at, int n) {
    GType *copy = NEW_N(g->arena, GType, n);
    for (int i = 0; i < n; i++) copy[i] = (GType){at[i].elem, at[i].rank, copy_ixs(g, at[i].shape, at[i].rank)};
    return copy;
}

static Node *several(Graph *g, Node *n, const GType *result) {
    n->elem = (uint8_t)result[0].elem;
    n->rank = (uint8_t)result[0].rank;
    n->shape = result[0].shape;
    return node_intern(g, n);
}

Node *g_host(Graph *g, const GHostOp *op, const void *attr, size_t attr_bytes, Node *const *src, int nsrc,
             const GType *result, int nresults) {
    if (any_null_node(src, nsrc)) return NULL;
    for (int i = 0; i < nresults; i++)
        if (any_null_ix(result[i].shape, result[i].rank)) return NULL;
    void *mine = arena_alloc(g->arena, attr_bytes);
    if (attr_bytes) memcpy(mine, attr, attr_bytes);
    Node n = {.kind = G_host,
              .nsrc = (uint32_t)nsrc,
              .src = src,
              .host = {op, mine, attr_bytes, copy_types(g, result, nresults), nresults}};
    return several(g, &n, n.host.result);
}

Node *g_proj(Graph *g, Node *n, int result) {
    if (!n) return NULL;
    Node p = {.kind = G_proj,
              .elem = n->elem,
              .rank = n->rank,
              .shape = n->shape,
              .nsrc = 1,
              .src = &n,
              .proj = {(uint32_t)result}};
    int count;
    const GType *types = g_results(n, &count);
    if (n->kind == G_sort) {
        if (result == 1) p.elem = EL_i64;
    } else {
        if (result < 0 || result >= count) return g_error(g, "there is no result %d", result);
        p.elem = (uint8_t)types[result].elem;
        p.rank = (uint8_t)types[result].rank;
        p.shape = types[result].shape;
    }
    return node_intern(g, &p);
}

static const GBody *copy_bodies(Graph *g, const GBody *const *body, int n) {
    GBody *copy = NEW_N(g->arena, GBody, n);
    for (int i = 0; i < n; i++)
        copy[i] = (GBody){copy_nodes(g, body[i]->params, body[i]->nparams), body[i]->nparams,
                          copy_nodes(g, body[i]->results, body[i]->nresults), body[i]->nresults};
    return copy;
}

Node *g_loop(Graph *g, Node *trips, Node *cond, Node *const *carried, int ncarried, const GBody *body) {
    if (any_null_node(carried, ncarried) || any_null_node(body->results, body->nresults) ||
        any_null_node(body->params, body->nparams))
        return NULL;
    if (body->nparams != 1 + ncarried || body->nresults < 1 + ncarried)
        return g_error(g, "a loop's body has the wrong number of values");
    int nresults = body->nresults - 1;
    bool always = !cond;
    GNum v;
    if (cond && g_scalar_value(cond, &v)) always = v.i != 0;
    always = always && g_scalar_value(body->results[0], &v) && v.i;
    Ix known = trips && always ? g_known_ix(g, trips) : NULL;
    Ix count = known ? known : ix_dim_fresh(g, "trips", 0, IX_DIM_MAX);
    GType *type = NEW_N(g->arena, GType, nresults);
    for (int i = 0; i < nresults; i++) {
        Node *r = body->results[1 + i];
        bool scanned = i >= ncarried;
        if (!scanned && (r->elem != carried[i]->elem || r->rank != carried[i]->rank))
            return g_error(g, "a value that a loop carries changes its type");
        if (r->rank + scanned > G_MAX_RANK) return g_error(g, "a value has too many dimensions");
        Ix *shape = NEW_N(g->arena, Ix, G_MAX_RANK);
        if (scanned) shape[0] = count;
        for (int k = 0; k < r->rank; k++) {
            if (!scanned) g_require(g, carried[i]->shape[k], r->shape[k]);
            shape[scanned + k] = r->shape[k];
        }
        type[i] = (GType){(Elem)r->elem, r->rank + scanned, shape};
    }
    if (g_failed(g)) return NULL;
    if (nresults == 0) return g_error(g, "a loop without results");
    Node **src = NEW_N(g->arena, Node *, ncarried + 2);
    src[0] = trips ? g_cast(g, trips, EL_i64) : g_i(g, EL_i64, INT64_MAX);
    src[1] = cond ? cond : g_i(g, EL_bool, 1);
    for (int i = 0; i < ncarried; i++) src[2 + i] = carried[i];
    if (!src[0]) return NULL;
    Node n = {.kind = G_loop,
              .nsrc = (uint32_t)ncarried + 2,
              .src = src,
              .sub = {copy_bodies(g, &body, 1), type, nresults, ncarried}};
    return several(g, &n, type);
}

Node *g_if(Graph *g, Node *cond, const GBody *then_body, const GBody *else_body) {
    if (!cond || any_null_node(then_body->results, then_body->nresults) ||
        any_null_node(else_body->results, else_body->nresults))
        return NULL;
    if (then_body->nresults != else_body->nresults || then_body->nresults < 1)
        return g_error(g, "the two sides of an `if` give different numbers of values");
    int n = then_body->nresults;
    GType *type = NEW_N(g->arena, GType, n);
    for (int i = 0; i < n; i++) {
        Node *a = then_body->results[i], *b = else_body->results[i];
        if (a->elem != b->elem || a->rank != b->rank)
            return g_error(g, "the two sides of an `if` give values of different types");
        Ix *shape = NEW_N(g->arena, Ix, G_MAX_RANK);
        for (int k = 0; k < a->rank; k++)
            shape[k] = a->shape[k] == b->shape[k] ? a->shape[k] : ix_dim_fresh(g, "either", 0, IX_DIM_MAX);
        type[i] = (GType){(Elem)a->elem, a->rank, shape};
    }
    Node node = {.kind = G_if, .nsrc = 1, .src = &cond,
                 .sub = {copy_bodies(g, (const GBody *[]){then_body, else_body}, 2), type, n, 0}};
    return several(g, &node, type);
}

Node *g_steps(Graph *g, Graph *body, Ix count, Node *const *src, int nsrc) {
    if (any_null_node(src, nsrc)) return NULL;
    int nresults = (int)body->outputs.n;
    GType *type = NEW_N(g->arena, GType, nresults);
    Ix *done = NEW_N(g->arena, Ix, ix_count(body) + 1);
    for (int i = 0; i < nresults; i++) {
        const Node *r = body->outputs.at[i].node;
        bool scanned = i >= body->step.ncarried;
        Ix *shape = NEW_N(g->arena, Ix, G_MAX_RANK + 1);
        if (scanned) shape[0] = count;
        for (int k = 0; k < r->rank; k++) shape[scanned + k] = scanned ? ix_copy(g, r->shape[k], done) : src[i]->shape[k];
        type[i] = (GType){(Elem)r->elem, r->rank + scanned, shape};
    }
    Node n = {.kind = G_steps, .nsrc = (uint32_t)nsrc, .src = src, .steps = {body, count, type, nresults}};
    return several(g, &n, type);
}

// ---- tensors --------------------------------------------------------------------------------------------------------

bool g_tensor_alloc(GTensor *t) {
    uint64_t bytes = (uint64_t)elem_bytes(t->elem);
    t->data = NULL;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)t->shape[i], &bytes) ||
            bytes > UINT64_C(1) << 46)
            return false;
    t->bytes = bytes;
    t->data = heap_try_zeroed(1, bytes);
    return t->data != NULL;
}

bool g_tensor_convert(const GTensor *t, Elem elem, GTensor *out) {
    *out = *t;
    out->elem = elem;
    if (!g_tensor_alloc(out)) return false;
    for (size_t i = 0, n = out->bytes / (size_t)elem_bytes(elem); i < n; i++)
        g_num_store((char *)out->data + i * (size_t)elem_bytes(elem), elem,
                    g_num_load((const char *)t->data + i * (size_t)elem_bytes(t->elem), t->elem));
    return true;
}

void g_tensor_free(GTensor *t) {
    heap_free(t->data);
    t->data = NULL;
}

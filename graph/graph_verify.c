// The rules of the graph IR, checked for every node that an output needs: what the builders promise when they
// make a node, and rewrites that copy nodes over other sources have to keep.
//
//     sources       come before their users; there are as many as the kind has; element types agree
//     shapes        depend on dimensions alone; sizes that are numbers are the same wherever two values meet
//     coordinates   one for each dimension of what is read; they depend on the value's own axes
//
// Sizes by name are not compared: two that the model requires to be equal may be written in two ways.
#include "graph/internal.h"
#include "graph/graph_passes.h"

#include "lang/shown.h"

#include <stdarg.h>

enum { MOST_WORDS = 8 };

typedef struct Verify {
    const Graph *g;
    const Node *n;
    Buf *to;
    int broken;
} Verify;

__attribute__((format(printf, 3, 4))) static void rule(Verify *v, bool holds, const char *fmt, ...) {
    if (holds || v->broken++ >= MOST_WORDS) return;
    va_list args;
    va_start(args, fmt);
    buf_printf(v->to, "node %u (%s%s%s): ", v->n->id, g_kind_name[v->n->kind], v->n->from ? ", " : "",
               v->n->from ? v->n->from : "");
    buf_vprintf(v->to, fmt, args);
    buf_putc(v->to, '\n');
    va_end(args);
}

static bool sizes_meet(Ix a, Ix b) {
    int64_t x, y;
    return !ix_const(a, &x) || !ix_const(b, &y) || x == y;
}

static bool shapes_meet(const Node *a, const Node *b) {
    for (int i = 0; i < a->rank && i < b->rank; i++)
        if (!sizes_meet(a->shape[i], b->shape[i])) return false;
    return a->rank == b->rank;
}

static bool within(Ix e, int rank) { return e && (rank >= 64 || !(e->axes >> rank)); }

static bool sources(Verify *v, uint32_t n) {
    rule(v, v->n->nsrc == n, "it has %u sources; its kind has %u", v->n->nsrc, n);
    return v->n->nsrc == n;
}

static void same_type(Verify *v, const Node *a, const Node *b) {
    rule(v, a->elem == b->elem, "element types %s and %s meet", elem_name((Elem)a->elem),
         elem_name((Elem)b->elem));
    rule(v, shapes_meet(a, b), "shapes of %d and %d dimensions, or of other sizes, meet", a->rank, b->rank);
}

// ---- the kinds -----------------------------------------------------------------------------------

static void verify_const(Verify *v) {
    uint64_t count = 1;
    int64_t size = 0;
    for (int i = 0; i < v->n->rank; i++) {
        bool known = ix_const(v->n->shape[i], &size);
        rule(v, known, "a constant's dimension %d is no number", i);
        count *= known ? (uint64_t)size : 0;
    }
    rule(v, v->n->c.bytes == count * (uint64_t)elem_bytes((Elem)v->n->elem), "%zu bytes for %llu elements",
         v->n->c.bytes, (unsigned long long)count);
}

static void verify_ew(Verify *v) {
    const Node *n = v->n;
    const GEwInfo *info = &g_ew_info[n->op];
    if (!sources(v, info->n)) return;
    int first = n->op == EW_where;
    rule(v, !first || n->src[0]->elem == EL_bool, "a select by %s", elem_name((Elem)n->src[0]->elem));
    rule(v, n->elem == (info->gives_bool ? EL_bool : n->src[first]->elem), "%s of %s gives %s", info->name,
         elem_name((Elem)n->src[first]->elem), elem_name((Elem)n->elem));
    for (int i = 0; i < info->n; i++) {
        rule(v, shapes_meet(n, n->src[i]), "operand %d has another shape", i);
        rule(v, i < first || n->src[i]->elem == n->src[first]->elem, "operand %d has another element type",
             i);
    }
}

static void verify_view(Verify *v) {
    const Node *n = v->n;
    if (!sources(v, 1)) return;
    rule(v, n->elem == n->src[0]->elem, "a view changes the element type");
    rule(v, within(n->view.pred, n->rank), "its predicate depends on axes that it has not");
    for (int i = 0; i < n->src[0]->rank; i++)
        rule(v, within(n->view.coord[i], n->rank), "coordinate %d depends on axes that it has not", i);
}

static void verify_at(Verify *v) { // gather: axes of the result; scatter: of src1
    const Node *n = v->n;
    uint32_t given = n->kind == G_scatter ? 2 : 1;
    rule(v, n->nsrc >= given, "it has %u sources", n->nsrc);
    if (n->nsrc < given) return;
    const Node *axes = n->kind == G_scatter ? n->src[1] : n;
    uint32_t by_value = 0;
    for (int i = 0; i < n->src[0]->rank; i++) {
        by_value += !n->at.coord[i];
        rule(v, !n->at.coord[i] || within(n->at.coord[i], axes->rank),
             "coordinate %d depends on axes that it has not", i);
    }
    rule(v, n->nsrc == given + by_value, "%u sources of indices for %u coordinates by value", n->nsrc - given,
         by_value);
    for (uint32_t k = given; k < n->nsrc; k++) {
        rule(v, elem_is_int((Elem)n->src[k]->elem), "indices of %s", elem_name((Elem)n->src[k]->elem));
        rule(v, shapes_meet(n->src[k], axes), "indices of another shape");
    }
    rule(v, n->elem == n->src[0]->elem, "it changes the element type");
    if (n->kind == G_scatter) same_type(v, n, n->src[0]);
    if (n->kind == G_scatter) rule(v, n->src[1]->elem == n->elem, "updates of another element type");
}

static void verify_reduce(Verify *v) {
    const Node *n = v->n;
    if (!sources(v, 1)) return;
    rule(v, !(n->reduce.axes >> n->src[0]->rank), "it reduces axes that its source has not");
    rule(v, n->rank == n->src[0]->rank - __builtin_popcount(n->reduce.axes), "%d dimensions are left",
         n->rank);
    for (int i = 0, k = 0; i < n->src[0]->rank && k < n->rank; i++)
        if (!(n->reduce.axes >> i & 1))
            rule(v, sizes_meet(n->src[0]->shape[i], n->shape[k++]), "axis %d changes its size", i);
}

static void verify_along(Verify *v, int axis) {
    if (!sources(v, 1)) return;
    rule(v, axis < v->n->src[0]->rank, "its axis is %d of %d", axis, v->n->src[0]->rank);
}

static void verify_contract(Verify *v) {
    const Node *n = v->n;
    if (!sources(v, 2)) return;
    const Node *a = n->src[0], *b = n->src[1];
    int nb = n->contract.nb, nm = n->contract.nm, nn = n->contract.nn, nk = n->contract.nk;
    bool ranks = n->rank == nb + nm + nn && a->rank == nb + nm + nk && b->rank == nb + nn + nk;
    rule(v, ranks, "operands of %d and %d dimensions, a result of %d", a->rank, b->rank, n->rank);
    rule(v, a->elem == b->elem || elem_is_int((Elem)a->elem) == elem_is_int((Elem)b->elem), "%s by %s",
         elem_name((Elem)a->elem), elem_name((Elem)b->elem));
    for (int i = 0; ranks && i < nb; i++)
        rule(v, sizes_meet(a->shape[i], b->shape[i]), "batch axis %d has two sizes", i);
    for (int i = 0; ranks && i < nk; i++)
        rule(v, sizes_meet(a->shape[nb + nm + i], b->shape[nb + nn + i]), "reduction axis %d has two sizes",
             i);
    for (int i = 0; ranks && i < nb + nm; i++)
        rule(v, sizes_meet(n->shape[i], a->shape[i]), "axis %d has another size than the left operand's", i);
    for (int i = 0; ranks && i < nn; i++)
        rule(v, sizes_meet(n->shape[nb + nm + i], b->shape[nb + i]),
             "axis %d has another size than the right operand's", nb + nm + i);
}

static void verify_concat(Verify *v) {
    const Node *n = v->n;
    int axis = n->concat.axis;
    int64_t size = 0, all = 0, at = 0;
    bool known = axis < n->rank && ix_const(n->shape[axis], &size);
    rule(v, axis < n->rank, "its axis is %d of %d", axis, n->rank);
    for (uint32_t k = 0; k < n->nsrc; k++) {
        const Node *x = n->src[k];
        rule(v, x->elem == n->elem && x->rank == n->rank, "operand %u is %s of %d dimensions", k,
             elem_name((Elem)x->elem), x->rank);
        for (int i = 0; i < n->rank && i < x->rank; i++)
            rule(v, i == axis || sizes_meet(x->shape[i], n->shape[i]),
                 "operand %u has another size along axis %d", k, i);
        known = known && axis < x->rank && ix_const(x->shape[axis], &at);
        all += at;
    }
    rule(v, !known || all == size, "its operands have %lld elements along its axis of %lld", (long long)all,
         (long long)size);
}

static void verify_steps(Verify *v) {
    const Node *n = v->n;
    const Graph *body = n->steps.body;
    rule(v, n->nsrc == body->inputs.n, "%u sources for %u inputs of its body", n->nsrc, body->inputs.n);
    rule(v, (uint32_t)n->steps.nresults == body->outputs.n, "%d results for %u outputs of its body",
         n->steps.nresults, body->outputs.n);
    for (uint32_t k = 0; k < n->nsrc && k < body->inputs.n; k++) {
        const Node *in = body->inputs.at[k].node;
        rule(v, in->elem == n->src[k]->elem && in->rank == n->src[k]->rank,
             "source %u is not what its body takes", k);
    }
    v->broken += graph_verify(body, v->to);
}

static void verify_proj(Verify *v) {
    int count;
    if (!sources(v, 1) || v->n->src[0]->kind == G_sort) return;
    g_results(v->n->src[0], &count);
    rule(v, v->n->proj.result < (uint32_t)count, "result %u of %d", v->n->proj.result, count);
}

static void verify_nothing(Verify *v) { (void)v; }
static void verify_cast(Verify *v) {
    if (sources(v, 1)) rule(v, shapes_meet(v->n, v->n->src[0]), "a cast changes the shape");
}
static void verify_index(Verify *v) {
    rule(v, within(v->n->index.expr, v->n->rank), "it depends on axes that it has not");
}
static void verify_scan(Verify *v) {
    verify_along(v, v->n->scan.axis);
    if (v->n->nsrc == 1) same_type(v, v->n, v->n->src[0]);
}
static void verify_sort(Verify *v) { verify_along(v, v->n->sort.axis); }

static void (*const verify_kind[G_KIND_COUNT])(Verify *) = {
    [G_input] = verify_nothing,     [G_param] = verify_nothing, [G_const] = verify_const,
    [G_index] = verify_index,       [G_ew] = verify_ew,         [G_cast] = verify_cast,
    [G_view] = verify_view,         [G_gather] = verify_at,     [G_scatter] = verify_at,
    [G_reduce] = verify_reduce,     [G_scan] = verify_scan,     [G_sort] = verify_sort,
    [G_contract] = verify_contract, [G_concat] = verify_concat, [G_host] = verify_nothing,
    [G_loop] = verify_nothing,      [G_if] = verify_nothing,    [G_steps] = verify_steps,
    [G_proj] = verify_proj,
};

static void verify_node(Verify *v, const Node *n) {
    v->n = n;
    int before = v->broken;
    for (uint32_t k = 0; k < n->nsrc; k++)
        rule(v, n->src[k] && n->src[k]->id < n->id, "source %u does not come before it", k);
    for (int i = 0; i < n->rank; i++)
        rule(v, n->shape[i] && !n->shape[i]->axes, "dimension %d is no size", i);
    if (v->broken == before) verify_kind[n->kind](v);
}

int graph_verify(const Graph *g, Buf *to) {
    Verify v = {.g = g, .to = to};
    bool *needed = heap_alloc((g->nodes.n + 1) * sizeof *needed);
    for (uint32_t i = 0; i < g->outputs.n; i++) needed[g->outputs.at[i].node->id] = true;
    for (uint32_t i = 0; i < g->donated.n; i++)
        if (!g->donated.at[i].refused) needed[g->donated.at[i].updated->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        if (!needed[i]) continue;
        g_mark_sources(needed, g->nodes.at[i]);
        verify_node(&v, g->nodes.at[i]);
    }
    heap_free(needed);
    return v.broken;
}

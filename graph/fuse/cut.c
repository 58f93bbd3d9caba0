// Where a program ends: the tail of a model, which has no form as kernels.
//
//     boxes, scores = network(picture)          the head: kernels, on any device
//     kept = NonMaxSuppression(boxes, scores)   how many there are, the data say
//     result = boxes[kept]                      the tail: the interpreter's
//
// An operation on whole tensors, a loop or an if that stays, a sort longer than a block's, a size that data decide: each has no form
// as a kernel, nor has what is made of their results. What they read of the rest become the head's results, beside those of
// the model that are made there; the graph is the head from then on. The tail is the same model, imported once more, in which
// those values are given (onnx/run.c).
#include "graph/fuse/fuse.h"
#include "graph/internal.h"

typedef struct Cut {
    Graph *g;
    // by node id: it is of the tail, something of the tail or a result of the model asks for it, it takes an input's elements, something is computed for it
    bool *tail, *needed, *live, *work;
    bool  data, settled;         // there are sizes that data decide; something of the tail is for an input to settle
    Node *first;                 // of the tail, without a form of its own
} Cut;

static bool by_data(const Graph *g, Ix e) {
    if (!e || !e->has_dim) return false;
    if (e->kind == IX_DIM) return ix_dim_info(g, e)->data_dependent && !ix_dim_info(g, e)->value;
    for (uint32_t i = 0; i < e->n; i++)
        if (by_data(g, e->arg[i])) return true;
    return false;
}

static bool any_by_data(const Graph *g, const Ix *e, int n) {
    for (int i = 0; i < n; i++)
        if (by_data(g, e[i])) return true;
    return false;
}

static bool sized_by_data(const Cut *c, const Node *n) {
    if (!c->data) return false;
    if (any_by_data(c->g, n->shape, n->rank)) return true;
    switch ((GKind)n->kind) {
    case G_index: return by_data(c->g, n->index.expr);
    case G_view: return by_data(c->g, n->view.pred) || any_by_data(c->g, n->view.coord, n->src[0]->rank);
    case G_gather: case G_scatter: return any_by_data(c->g, n->at.coord, n->src[0]->rank);
    default: return false;
    }
}

static bool too_long(const Node *n) {
    bool along = n->kind == G_scan || n->kind == G_sort;
    const Ix size = along ? n->shape[n->kind == G_scan ? n->scan.axis : n->sort.axis] : NULL;
    return size && size->kind == IX_CONST && size->value > MOST_ALONG;
}

static bool has_form(const Cut *c, const Node *n) {
    if (n->kind == G_if && g_if_chooses(n)) {
        bool tail = false;
        for (int k = 0; k < 2 * n->sub.nresults; k++) tail |= c->tail[n->sub.body[k % 2].results[k / 2]->id];
        return !tail;
    }
    return n->kind != G_if && n->kind != G_host && n->kind != G_loop && n->kind != G_param && !too_long(n);
}

const Node *graph_settled_by(const Graph *g, const Node *n) {
    const Node *by = n->kind == G_loop || n->kind == G_if ? n->src[0] : NULL;
    while (by && n->kind == G_loop && (by->kind == G_view || by->kind == G_cast)) by = by->src[0];
    while (by && n->kind == G_if && by->kind != G_input) by = by->nsrc > 0 ? by->src[0] : NULL;
    if (!by) return NULL;
    bool settled = n->kind == G_loop ? by->kind == G_index && by->index.expr->has_dim && !by_data(g, by->index.expr) : !elem_is_float((Elem)by->elem);
    return settled ? by : NULL;
}

static void divide(Cut *c) {
    for (uint32_t i = 0; i < c->g->nodes.n; i++) {
        Node *n = c->g->nodes.at[i];
        bool moves = n->kind == G_view || n->kind == G_gather || n->kind == G_cast || n->kind == G_index, own = !has_form(c, n);
        c->tail[i] = own || sized_by_data(c, n);
        c->live[i] = n->kind == G_input;
        c->work[i] = false;
        for (uint32_t k = 0; k < n->nsrc; k++) {
            c->tail[i] |= c->tail[n->src[k]->id];
            c->live[i] |= c->live[n->src[k]->id];
            c->work[i] |= c->work[n->src[k]->id];
        }
        c->work[i] |= c->live[i] && !moves && n->kind != G_input;
    }
}

// What the head hands on, in the order of the graph: its own results are there already.
static void hand_on(Cut *c, GTail *t) {
    Graph *g = c->g;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        Node *n = g->nodes.at[i];
        if (!c->needed[i] || (!c->tail[i] && c->work[i])) continue;
        g_mark_sources(c->needed, n);                        // of the tail, or of inputs and weights alone
        t->values += c->tail[i] && n->kind != G_param;
        if (c->tail[i] && !has_form(c, n) && n->kind != G_param) c->first = n, c->settled |= graph_settled_by(g, n) != NULL;
    }
    for (uint32_t i = 0; i < c->g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (!c->needed[i] || c->tail[i] || !c->work[i]) continue;
        bool result = false;
        for (uint32_t k = 0; k < g->outputs.n; k++) result |= g->outputs.at[k].node == n;
        if (result) continue;
        g_output(g, n->name ? n->name : arena_printf(g->arena, "part_%u", g->outputs.n + 1), n);
        g->outputs.at[g->outputs.n - 1].handed = true;
    }
}

static void own_results(Cut *c) {
    Graph *g = c->g;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        GNamed o = g->outputs.at[i];
        c->needed[o.node->id] = true;
        if (!c->tail[o.node->id] && c->work[o.node->id]) g->outputs.at[kept++] = o;
    }
    g->outputs.n = kept;
}

bool graph_cut(Graph *g) {
    uint32_t n = g->nodes.n, kept = 0, outputs = g->outputs.n;
    Cut c = {.g = g, .tail = NEW_N(g->arena, bool, n), .needed = NEW_N(g->arena, bool, n), .live = NEW_N(g->arena, bool, n),
             .work = NEW_N(g->arena, bool, n)};
    GNamed *model = NEW_N(g->arena, GNamed, outputs);
    GTail *t = NEW(g->arena, GTail);
    bool any = false;
    for (int i = 0; i < ix_dim_count(g); i++) c.data |= by_data(g, ix_dim_at(g, i));
    divide(&c);
    for (uint32_t i = 0; i < outputs; i++) {
        model[i] = g->outputs.at[i];
        any |= c.tail[model[i].node->id];
    }
    if (!any) return false;
    own_results(&c);
    hand_on(&c, t);
    if (g->outputs.n == 0 || c.settled) {                    // nothing for a kernel to do, or all of it
        for (uint32_t i = 0; i < outputs; i++) g->outputs.at[i] = model[i];
        g->outputs.n = outputs;
        return false;
    }
    for (uint32_t i = 0; i < g->requires.n; i++) {
        GRequire q = g->requires.at[i];
        if (!by_data(g, q.a) && !by_data(g, q.b)) g->requires.at[kept++] = q;
    }
    g->requires.n = kept;
    uint32_t *node = NEW_N(g->arena, uint32_t, g->outputs.n);
    for (uint32_t i = 0; i < g->outputs.n; i++) node[i] = g->outputs.at[i].node->id;
    t->node = node;
    t->nnodes = (int)g->outputs.n;
    t->from = c.first && c.first->from ? c.first->from : "a size of the data's";
    g->tail = t;
    return true;
}

bool graph_cut_from(Graph *g, Graph *whole) {
    bool same = whole->nodes.n == g->nodes.n;
    for (uint32_t i = 0; i < g->outputs.n && same; i++) {
        const Node *a = g->outputs.at[i].node, *b = whole->nodes.at[g->tail->node[i]];
        same = a->kind == b->kind && a->elem == b->elem && a->rank == b->rank;
    }
    g->tail->graph = whole;
    if (!same) g_error(g, "imported once more, the model is another");
    return same;
}

// Nodes of one graph, made again in another: of a model in several programs (fuse/stage.c), of a loop (rewrite/loops.c). Constants and
// texts stay where they are, so the copy does not outlive what it is of.
#include "graph/copy.h"

GCopy g_copy_begin(Graph *g, const Graph *from) {
    for (int i = 0; i < ix_dim_count(from); i++) {
        const IxDim *d = ix_dim_info(from, ix_dim_at(from, i));
        ix_dim_range(g, d->name, d->lo, d->hi, d->multiple);
    }
    return (GCopy){.g = g, .from = from, .to = NEW_N(g->arena, Node *, from->nodes.n + 1), .done = NEW_N(g->arena, Ix, ix_count(from) + 1)};
}

Ix g_copy_ix(GCopy *c, Ix e) { return ix_copy(c->g, e, c->done); }

const Ix *g_copy_ixs(GCopy *c, const Ix *at, int n) {
    Ix *to = NEW_N(c->g->arena, Ix, n + 1);
    for (int i = 0; i < n; i++) to[i] = at[i] ? g_copy_ix(c, at[i]) : NULL;
    return to;
}

static const GType *types(GCopy *c, const GType *at, int n) {
    GType *to = NEW_N(c->g->arena, GType, n + 1);
    for (int i = 0; i < n; i++) to[i] = (GType){at[i].elem, at[i].rank, g_copy_ixs(c, at[i].shape, at[i].rank)};
    return to;
}

Node *g_copy_node(GCopy *c, const Node *n) {
    Node proto = *n, **src = NEW_N(c->g->arena, Node *, n->nsrc + 1);
    for (uint32_t k = 0; k < n->nsrc; k++)
        if (!(src[k] = c->to[n->src[k]->id])) return g_error(c->g, "a value of this program is not there");
    proto.src = src;
    proto.shape = g_copy_ixs(c, n->shape, n->rank);
    if (n->kind == G_index) proto.index.expr = g_copy_ix(c, n->index.expr);
    if (n->kind == G_view) {
        proto.view.coord = g_copy_ixs(c, n->view.coord, n->src[0]->rank);
        proto.view.pred = g_copy_ix(c, n->view.pred);
    }
    if (n->kind == G_gather || n->kind == G_scatter) proto.at.coord = g_copy_ixs(c, n->at.coord, n->src[0]->rank);
    if (n->kind == G_steps) proto.steps.count = g_copy_ix(c, n->steps.count), proto.steps.result = types(c, n->steps.result, n->steps.nresults);
    return g_name(c->g, node_intern(c->g, &proto), n->name);
}

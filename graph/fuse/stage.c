// The program of a stage (cut.c) as a graph of its own: copies of the nodes that it computes, over inputs for what it has from elsewhere.
//
// Dimensions keep their numbers and names; those that were found by then are dimensions of an input. The copy refers to the whole graph's
// constants and texts, and does not outlive it.
#include <string.h>

#include "graph/fuse/fuse.h"
#include "graph/internal.h"
#include "graph/stages.h"

typedef struct Copy {
    Graph  *g;
    const Graph *whole;
    const GStage *at;
    Node  **to;                  // by node id of the whole
    Ix     *done;                // by number of expressions of the whole
    bool   *bound;               // by dimension: an input has it
} Copy;

static const Ix *copied_ixs(Copy *c, const Ix *from, int n) {
    Ix *to = NEW_N(c->g->arena, Ix, n + 1);
    for (int i = 0; i < n; i++) to[i] = ix_copy(c->g, from[i], c->done);
    return to;
}

static Node *copied(Copy *c, const Node *n) {
    Node proto = *n, **src = NEW_N(c->g->arena, Node *, n->nsrc + 1);
    for (uint32_t k = 0; k < n->nsrc; k++)
        if (!(src[k] = c->to[n->src[k]->id])) return g_error(c->g, "a value of this program is not there");
    proto.src = src;
    proto.shape = copied_ixs(c, n->shape, n->rank);
    if (n->kind == G_index) proto.index.expr = ix_copy(c->g, n->index.expr, c->done);
    if (n->kind == G_view) {
        proto.view.coord = copied_ixs(c, n->view.coord, n->src[0]->rank);
        proto.view.pred = ix_copy(c->g, n->view.pred, c->done);
    }
    if (n->kind == G_gather || n->kind == G_scatter) proto.at.coord = copied_ixs(c, n->at.coord, n->src[0]->rank);
    return node_intern(c->g, &proto);
}

// An if that chooses is a choice by elements here (rewrite/branches.c does the same where a model is one program).
static Node *chosen(Copy *c, const Node *n) {
    const Node *from = n->src[0];
    const GBody *body = from->sub.body;
    Node *a = c->to[body[0].results[n->proj.result]->id], *b = c->to[body[1].results[n->proj.result]->id];
    return g_name(c->g, g_where(c->g, c->to[from->src[0]->id], a, b), n->name);
}

static void copy_nodes_computed(Copy *c) {
    for (uint32_t i = 0; i < c->whole->nodes.n && !g_failed(c->g); i++) {
        const Node *n = c->whole->nodes.at[i];
        if (!c->at->computed[i] || n->kind == G_if) continue;
        g_at_node(c->g, n);
        c->to[i] = n->kind == G_proj && n->src[0]->kind == G_if ? chosen(c, n) : copied(c, n);
    }
    g_at(c->g, NULL);
}

static void copy_dims(Copy *c) {
    for (int i = 0; i < ix_dim_count(c->whole); i++) {
        const IxDim *d = ix_dim_info(c->whole, ix_dim_at(c->whole, i));
        ix_dim_range(c->g, d->name, d->lo, d->hi, d->multiple);
    }
}

static void make_inputs(Copy *c) {
    const GStages *s = c->whole->stages;
    for (int i = 0; i < c->at->nin; i++) {
        int k = c->at->in[i];
        const Node *n = k < 0 ? c->whole->inputs.at[-1 - k].node : c->whole->nodes.at[s->value[k].node];
        const char *name = k < 0 ? c->whole->inputs.at[-1 - k].name : s->value[k].name;
        c->to[n->id] = g_input(c->g, name, (Elem)n->elem, n->rank, copied_ixs(c, n->shape, n->rank));
        for (int d = 0; d < n->rank; d++)
            if (n->shape[d]->kind == IX_DIM) c->bound[n->shape[d]->value] = true;
    }
}

static bool a_turn_reads(const GStages *s, int value) {
    for (int t = 0; t <= s->nstages; t++)
        for (int i = 0; i < s->stage[t].nreads; i++)
            if (s->stage[t].reads[i] == value) return true;
    return false;
}

static void make_outputs(Copy *c) {
    const GStages *s = c->whole->stages;
    for (int i = 0; i < c->at->nout && !g_failed(c->g); i++) {
        const GBetween *v = &s->value[c->at->out[i]];
        const char *name = v->name, *handed = a_turn_reads(s, c->at->out[i]) ? "the interpreter goes on with it" : "another program goes on with it";
        for (uint32_t k = c->whole->outputs.n; k-- > 0;)
            if (c->whole->outputs.at[k].node->id == v->node) name = c->whole->outputs.at[k].name, handed = NULL;
        g_output(c->g, name, c->to[v->node]);
        if (c->g->outputs.n > 0) c->g->outputs.at[c->g->outputs.n - 1].handed = handed;
    }
}

static void copy_requires(Copy *c) {
    for (uint32_t i = 0; i < c->whole->requires.n; i++) {
        GRequire q = c->whole->requires.at[i];
        if (!ix_dims_in(q.a, c->bound) || !ix_dims_in(q.b, c->bound)) continue;
        q.a = ix_copy(c->g, q.a, c->done);
        q.b = ix_copy(c->g, q.b, c->done);
        vec_push(c->g->arena, &c->g->requires, q);
    }
}

Graph *graph_stage(const Graph *whole, int stage) {
    Graph *g = graph_new(NULL);
    Copy c = {.g = g, .whole = whole, .at = &whole->stages->stage[stage], .to = NEW_N(g->arena, Node *, whole->nodes.n), .done = NEW_N(g->arena, Ix, ix_count(whole) + 1),
              .bound = NEW_N(g->arena, bool, ix_dim_count(whole) + 1)};
    g->name = arena_printf(g->arena, "%s_%d", whole->name, stage);
    copy_dims(&c);
    make_inputs(&c);
    copy_nodes_computed(&c);
    make_outputs(&c);
    copy_requires(&c);
    return g;
}

// The program of a stage (cut.c) as a graph of its own: copies of the nodes that it computes, over inputs for what it has from elsewhere.
//
// Dimensions keep their numbers and names; those that were found by then are dimensions of an input. The copy refers to the whole graph's
// constants and texts, and does not outlive it.
#include <string.h>

#include "graph/copy.h"
#include "graph/fuse/fuse.h"
#include "graph/stages.h"

typedef struct Copy {
    GCopy  of;
    Graph  *g;
    const Graph *whole;
    const GStage *at;
    bool   *bound;               // by dimension: an input has it
} Copy;

// An if that chooses is a choice by elements here (rewrite/branches.c does the same where a model is one program).
static Node *chosen(Copy *c, const Node *n) {
    const Node *from = n->src[0];
    const GBody *body = from->sub.body;
    Node *a = c->of.to[body[0].results[n->proj.result]->id], *b = c->of.to[body[1].results[n->proj.result]->id];
    return g_name(c->g, g_where(c->g, c->of.to[from->src[0]->id], a, b), n->name);
}

static void copy_nodes_computed(Copy *c) {
    for (uint32_t i = 0; i < c->whole->nodes.n && !g_failed(c->g); i++) {
        const Node *n = c->whole->nodes.at[i];
        if (!c->at->computed[i] || n->kind == G_if) continue;
        g_at_node(c->g, n);
        c->of.to[i] = n->kind == G_proj && n->src[0]->kind == G_if ? chosen(c, n) : g_copy_node(&c->of, n);
    }
    g_at(c->g, NULL);
}

static void make_inputs(Copy *c) {
    const GStages *s = c->whole->stages;
    for (int i = 0; i < c->at->nin; i++) {
        int k = c->at->in[i];
        const Node *n = k < 0 ? c->whole->inputs.at[-1 - k].node : c->whole->nodes.at[s->value[k].node];
        const char *name = k < 0 ? c->whole->inputs.at[-1 - k].name : s->value[k].name;
        c->of.to[n->id] = g_input(c->g, name, (Elem)n->elem, n->rank, g_copy_ixs(&c->of, n->shape, n->rank));
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
        g_output(c->g, name, c->of.to[v->node]);
        if (c->g->outputs.n > 0) c->g->outputs.at[c->g->outputs.n - 1].handed = handed;
    }
}

static void copy_requires(Copy *c) {
    for (uint32_t i = 0; i < c->whole->requires.n; i++) {
        GRequire q = c->whole->requires.at[i];
        if (!ix_dims_in(q.a, c->bound) || !ix_dims_in(q.b, c->bound)) continue;
        q.a = g_copy_ix(&c->of, q.a);
        q.b = g_copy_ix(&c->of, q.b);
        vec_push(c->g->arena, &c->g->requires, q);
    }
}

Graph *graph_stage(const Graph *whole, int stage) {
    Graph *g = graph_new(NULL);
    Copy c = {.of = g_copy_begin(g, whole), .g = g, .whole = whole, .at = &whole->stages->stage[stage], .bound = NEW_N(g->arena, bool, ix_dim_count(whole) + 1)};
    g->name = arena_printf(g->arena, "%s_%d", whole->name, stage);
    make_inputs(&c);
    copy_nodes_computed(&c);
    make_outputs(&c);
    copy_requires(&c);
    return g;
}

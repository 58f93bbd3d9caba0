// What passes over the graph share (rewrite.h).

#include "graph/rewrite/rewrite.h"

Node *rewrite_node(Graph *g, Node *n, Node *const *src) {
    bool same = true;
    for (uint32_t i = 0; i < n->nsrc; i++) same &= src[i] == n->src[i];
    if (same) return n;
    if (n->kind == G_view) return g_view(g, src[0], n->rank, n->shape, n->view.coord, n->view.pred, n->view.fill);
    Node proto = *n;
    proto.src = src;
    return g_name(g, node_intern(g, &proto), n->name);
}

bool rewrite_begin(Rewrite *r, Graph *g) {
    uint32_t n = g->nodes.n;
    *r = (Rewrite){
        g, n, NEW_N(g->arena, Node *, n), NEW_N(g->arena, bool, n), NEW_N(g->arena, bool, n), NEW_N(g->arena, int, n)};
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        uint32_t id = g->outputs.at[i].node->id;
        r->alive[id] = true;
        r->users[id]++;
    }
    for (uint32_t i = 0; i < g->donated.n; i++) {
        if (g->donated.at[i].refused) continue;
        r->alive[g->donated.at[i].updated->id] = true;
        r->users[g->donated.at[i].updated->id]++;
    }
    for (uint32_t i = n; i-- > 0;) {
        const Node *e = g->nodes.at[i];
        if (!r->alive[i]) continue;
        if (e->kind == G_loop || e->kind == G_if) return false;
        for (uint32_t k = 0; k < e->nsrc; k++) {
            r->alive[e->src[k]->id] = true;
            r->users[e->src[k]->id]++;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        const Node *e = g->nodes.at[i];
        r->constant[i] = e->kind == G_const || (e->nsrc > 0 && e->kind != G_host && e->kind != G_steps);
        for (uint32_t k = 0; k < e->nsrc; k++) r->constant[i] &= r->constant[e->src[k]->id];
    }
    return true;
}

static Node *rewritten(Rewrite *r, RewriteFn *fn, void *pass, Node *n) {
    Graph *g = r->g;
    Node **src = NEW_N(g->arena, Node *, n->nsrc);
    for (uint32_t k = 0; k < n->nsrc; k++) src[k] = r->to[n->src[k]->id];
    g_at_node(g, n);
    Node *with = fn(r, pass, n, src);
    return with ? with : rewrite_node(g, n, src);
}

Node *rewrite_ahead(Rewrite *r, RewriteFn *fn, void *pass, Node *n) {
    for (uint32_t k = 0; k < n->nsrc && !g_failed(r->g); k++)
        if (!r->to[n->src[k]->id]) rewrite_ahead(r, fn, pass, n->src[k]);
    return g_failed(r->g) ? NULL : (r->to[n->id] = rewritten(r, fn, pass, n));
}

void rewrite_all(Rewrite *r, RewriteFn *fn, void *pass) {
    Graph *g = r->g;
    for (uint32_t i = 0; i < r->n && !g_failed(g); i++)
        if (r->alive[i] && !r->to[i]) r->to[i] = rewritten(r, fn, pass, g->nodes.at[i]);
    g_at(g, NULL);
    if (g_failed(g)) return;
    for (uint32_t i = 0; i < g->outputs.n; i++) g->outputs.at[i].node = r->to[g->outputs.at[i].node->id];
    for (uint32_t i = 0; i < g->donated.n; i++)
        if (!g->donated.at[i].refused) g->donated.at[i].updated = r->to[g->donated.at[i].updated->id];
}

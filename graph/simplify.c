// Rewrites before fusion.
//
// Products of one left operand with constants (queries, keys and values of an attention) become one, of the constants put
// side by side, and slices of its result: the left operand is read once, and there are fewer launches. The constants are put
// side by side when the weights are loaded. Products whose results meet element by element are left alone: those are one
// kernel already (a gated layer's two halves, fuse.c).
//
// A rewrite says what takes the place of a node; everything above it is made anew.

#include "graph/fuse.h"

#include "graph/internal.h"

#include <string.h>

typedef struct Rewriter {
    Graph *g;
    uint32_t n;                  // nodes that there were
    Node **to;                   // by node id: what stands for it; NULL: not seen yet
    bool  *constant;             // by node id: made of constants alone
    bool  *alive;
} Rewriter;

static Node *with_sources(Graph *g, Node *n, Node *const *src)
{
    bool same = true;
    for (uint32_t i = 0; i < n->nsrc; i++) same &= src[i] == n->src[i];
    if (same) return n;
    g_at(g, n->from);
    if (n->kind == G_view) return g_view(g, src[0], n->rank, n->shape, n->view.coord, n->view.pred, n->view.fill);
    Node proto = *n;
    proto.src = src;
    Node *made = node_intern(g, &proto);
    return g_name(g, made, n->name);
}

// ---- products side by side ------------------------------------------------------------------------------------------

static bool mergeable(const Rewriter *r, const Node *n)
{
    return n->kind == G_contract && r->alive[n->id] && n->contract.nb == 0 && n->contract.nn == 1 && r->constant[n->src[1]->id] && !r->constant[n->src[0]->id];
}

static bool alike(const Node *a, const Node *b)
{
    return a->src[0] == b->src[0] && a->src[1]->elem == b->src[1]->elem && a->elem == b->elem && a->contract.nm == b->contract.nm &&
           a->contract.nk == b->contract.nk && a->contract.acc == b->contract.acc;
}

// Is there an elementwise value that needs both, by elementwise values alone?
static bool meet(const Rewriter *r, const Node *a, const Node *b, uint8_t *mark)
{
    uint32_t n = r->n;
    memset(mark, 0, n);
    mark[a->id] = 1;
    mark[b->id] |= 2;
    for (uint32_t i = 0; i < n; i++) {
        const Node *e = r->g->nodes.at[i];
        if (!r->alive[i] || (e->kind != G_ew && e->kind != G_cast && e->kind != G_view)) continue;
        for (uint32_t k = 0; k < e->nsrc; k++) mark[i] |= mark[e->src[k]->id];
        if (mark[i] == 3) return true;
    }
    return false;
}

static void side_by_side(Rewriter *r, Node *const *part, int n)
{
    Graph *g = r->g;
    Node *w[16];
    for (int i = 0; i < n; i++) w[i] = part[i]->src[1];
    const Node *p = part[0];
    int axis = p->rank - 1;
    g_at(g, p->from);
    Node *all = g_contract(g, p->src[0], g_concat(g, 0, w, n), 0, p->contract.nm, 1, p->contract.nk, (Elem)p->elem, p->contract.acc);
    Ix start = ix(g, 0);
    for (int i = 0; i < n; i++) {
        r->to[part[i]->id] = g_take_range(g, all, axis, start, 1, part[i]->shape[axis]);
        start = ix_add(g, start, part[i]->shape[axis]);
    }
}

static void merge_products(Rewriter *r)
{
    uint32_t n = r->n;
    uint8_t *mark = NEW_N(r->g->arena, uint8_t, n);
    for (uint32_t i = 0; i < n; i++) {
        Node *first = r->g->nodes.at[i], *part[16];
        int count = 0;
        if (!mergeable(r, first) || r->to[i]) continue;
        part[count++] = first;
        for (uint32_t k = i + 1; k < n && count < 16; k++) {
            Node *other = r->g->nodes.at[k];
            if (!mergeable(r, other) || r->to[k] || !alike(first, other)) continue;
            bool apart = true;
            for (int j = 0; j < count && apart; j++) apart = !meet(r, part[j], other, mark);
            if (apart) part[count++] = other;
        }
        if (count > 1) side_by_side(r, part, count);
    }
}

// ---- the whole ------------------------------------------------------------------------------------------------------

void graph_simplify(Graph *g)
{
    uint32_t n = g->nodes.n;
    Rewriter r = {g, n, NULL, NEW_N(g->arena, bool, n), NEW_N(g->arena, bool, n)};
    r.to = NEW_N(g->arena, Node *, n);
    for (uint32_t i = 0; i < g->outputs.n; i++) r.alive[g->outputs.at[i].node->id] = true;
    for (uint32_t i = n; i-- > 0;) {
        const Node *e = g->nodes.at[i];
        if (e->kind == G_loop || e->kind == G_if) return;    // bodies would have to follow
        for (uint32_t k = 0; k < e->nsrc && r.alive[i]; k++) r.alive[e->src[k]->id] = true;
    }
    for (uint32_t i = 0; i < n; i++) {
        const Node *e = g->nodes.at[i];
        r.constant[i] = e->kind == G_const || (e->nsrc > 0 && e->kind != G_host);
        for (uint32_t k = 0; k < e->nsrc; k++) r.constant[i] &= r.constant[e->src[k]->id];
    }
    merge_products(&r);
    for (uint32_t i = 0; i < n && !g_failed(g); i++) {
        Node *e = g->nodes.at[i];
        if (!r.alive[i]) continue;
        if (r.to[i]) {                                       // made of sources as they were: those may have changed
            Node *slice = r.to[i], *all = slice->kind == G_view ? slice->src[0] : slice;
            Node *src[2] = {r.to[all->src[0]->id] ? r.to[all->src[0]->id] : all->src[0], all->src[1]};
            Node *again = with_sources(g, all, src);
            r.to[i] = slice->kind == G_view ? with_sources(g, slice, &again) : again;
            continue;
        }
        Node **src = NEW_N(g->arena, Node *, e->nsrc);
        for (uint32_t k = 0; k < e->nsrc; k++) src[k] = r.to[e->src[k]->id];
        r.to[i] = with_sources(g, e, src);
    }
    g_at(g, NULL);
    if (g_failed(g)) return;
    for (uint32_t i = 0; i < g->outputs.n; i++) g->outputs.at[i].node = r.to[g->outputs.at[i].node->id];
}

// Ifs whose condition is only known when the model runs, as values: both sides are computed, and one is taken.
//
//     y = if c { relu(a x) } else { tanh(b x) }        ->        y = where(c, relu(a x), tanh(b x))
//
// A kernel has no branch that others could be launched from, and what is computed has no other effect than its value.
// That costs the side that is not taken; but the two share what they read, and their kernels. It is done where both
// sides have one shape, and only for programs: the interpreter goes the way that the condition says.
#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

// What outputs need, the sides of ifs too. False: there is something to leave alone, or nothing to do.
static bool alive_with_sides(Rewrite *r) {
    Graph *g = r->g;
    bool any = false;
    for (uint32_t i = 0; i < g->outputs.n; i++) r->alive[g->outputs.at[i].node->id] = true;
    for (uint32_t i = 0; i < g->donated.n; i++)
        if (!g->donated.at[i].refused) r->alive[g->donated.at[i].updated->id] = true;
    for (uint32_t i = r->n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        if (!r->alive[i]) continue;
        if (n->kind == G_loop || (n->kind == G_if && !g_if_chooses(n))) return false;
        any |= n->kind == G_if;
        g_mark_sources(r->alive, n);
    }
    return any;
}

static Node *taken(Rewrite *r, void *pass, Node *n, Node *const *src) {
    (void)pass;
    (void)src;
    const Node *from = n->kind == G_proj ? n->src[0] : NULL;
    if (n->kind == G_if) return n;                           // nobody will ask for it
    if (from == NULL || from->kind != G_if) return NULL;
    const GBody *body = from->sub.body;
    Node *a = r->to[body[0].results[n->proj.result]->id], *b = r->to[body[1].results[n->proj.result]->id];
    return g_where(r->g, r->to[from->src[0]->id], a, b);
}

void select_branches(Graph *g) {
    uint32_t n = g->nodes.n;
    Rewrite r = {.g = g, .n = n, .to = NEW_N(g->arena, Node *, n), .alive = NEW_N(g->arena, bool, n)};
    if (alive_with_sides(&r)) rewrite_all(&r, taken, NULL);
}

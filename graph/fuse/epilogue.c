// What a product is followed by: for each elementwise value, the product that it is the epilogue of.
//
//     product -> add -> mul -> max                  every path from the product leads through `add`, `mul` and `max`;
//                   \-> sigmoid /                    `sigmoid` is passed by some of them only
//
// A value is the epilogue of a product if all that is made of the product passes through it (it postdominates it), and
// what is on the way is elementwise, of the product's size, and not in memory itself. Where the product cannot join the
// kernel that uses such a value, the value is stored in its stead (fuse.c), so that what follows a product is never a
// kernel of its own.

#include "graph/fuse/fuse.h"

#include "graph/internal.h"

// not needed; needed by the caller, or by several without a meeting
enum { MAX_BETWEEN = 64, NOWHERE = -1, OUTSIDE = -2 };

typedef struct Users { int *first, *at; } Users;            // by node id, first[id] .. first[id + 1]

static Users users_of(Graph *g, const bool *alive) {
    uint32_t n = g->nodes.n;
    Users u = {NEW_N(g->arena, int, n + 2), NULL};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; alive[i] && k < g->nodes.at[i]->nsrc; k++) u.first[g->nodes.at[i]->src[k]->id + 2]++;
    for (uint32_t i = 0; i <= n; i++) u.first[i + 1] += u.first[i];
    u.at = NEW_N(g->arena, int, u.first[n + 1] + 1);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; alive[i] && k < g->nodes.at[i]->nsrc; k++)
            u.at[u.first[g->nodes.at[i]->src[k]->id + 1]++] = (int)i;
    return u;
}

static int meet(const int *next, int a, int b) {               // where the chains of a and b come together
    while (a != b && a >= 0 && b >= 0) {
        if (a < b) a = next[a];
        else b = next[b];
    }
    return a == b ? a : OUTSIDE;
}

static bool is_kept(const Node *n) { return n->kind == G_cast && n->cast.kept; }       // in memory, whatever follows
static bool elementwise(const Node *n) { return n->kind == G_ew || n->kind == G_cast || n->kind == G_view; }

// Is all between `from` and `to` elementwise and as large?
static bool only_elementwise(Graph *g, const Users *u, int from, int to, Ix size) {
    int found[MAX_BETWEEN], n = 1;
    found[0] = from;
    for (int i = 0; i < n; i++)
        for (int k = u->first[found[i]]; k < u->first[found[i] + 1]; k++) {
            int id = u->at[k];
            bool seen = id == to;
            for (int j = 0; j < n && !seen; j++) seen = found[j] == id;
            if (seen) continue;
            if (n == MAX_BETWEEN || !elementwise(g->nodes.at[id]) || is_kept(g->nodes.at[id]) ||
                g_count(g, g->nodes.at[id]) != size)
                return false;
            found[n++] = id;
        }
    return true;
}

Node **graph_epilogues(Graph *g, const bool *alive) {
    uint32_t n = g->nodes.n;
    Node **of = NEW_N(g->arena, Node *, n);
    int *next = NEW_N(g->arena, int, n);                     // the first value that all of a value's users pass through
    Users u = users_of(g, alive);
    for (uint32_t i = 0; i < n; i++) next[i] = NOWHERE;
    for (uint32_t i = 0; i < g->outputs.n; i++) next[g->outputs.at[i].node->id] = OUTSIDE;
    for (uint32_t i = n; i-- > 0;)
        for (int k = u.first[i]; k < u.first[i + 1] && next[i] != OUTSIDE; k++)
            next[i] = next[i] == NOWHERE ? u.at[k] : meet(next, next[i], u.at[k]);
    for (uint32_t i = 0; i < n; i++) {
        const Node *p = g->nodes.at[i];
        if (!alive[i] || p->kind != G_contract) continue;
        Ix size = g_count(g, p);
        for (int from = (int)i, to = next[i]; to >= 0; from = to, to = next[to]) {
            const Node *e = g->nodes.at[to];
            if (!elementwise(e) || g_count(g, e) != size || !only_elementwise(g, &u, from, to, size)) break;
            of[to] = g->nodes.at[i];
            if (is_kept(e)) break;
        }
    }
    return of;
}

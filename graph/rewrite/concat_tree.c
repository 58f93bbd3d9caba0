// Concatenations of many operands.
//
//     concat(x0, x1, .., x99)    ->    concat(concat(x0, .., x31), concat(x32, .., x63), ..)
//
// A kernel has at most 48 parameters, and its text has a branch for each operand. So a concatenation that
// reads more than MOST_SIDE_BY_SIDE tensors becomes a tree: each inner one is stored by a kernel of its own.

#include "graph/rewrite/rewrite.h"

enum { MOST_SIDE_BY_SIDE = 32 };

static int tensors_of(const Node *n) { // that an operand is read from, as far as movement goes
    while (n->kind == G_view || n->kind == G_cast) n = n->src[0];
    return n->kind == G_gather ? (int)n->nsrc : 1;
}

// Joins runs of operands into inner concatenations, until at most MOST_SIDE_BY_SIDE tensors are read at once.
static Node *in_bundles(Rewrite *r, void *pass, Node *n, Node *const *src) {
    (void)pass;
    Graph *g = r->g;
    if (n->kind != G_concat || n->nsrc <= MOST_SIDE_BY_SIDE / 2) return NULL;
    Node **bundle = NEW_N(g->arena, Node *, n->nsrc);
    int bundles = 0, reads = 0;
    uint32_t first = 0;
    for (uint32_t i = 0; i <= n->nsrc; i++) {
        int more = i < n->nsrc ? tensors_of(src[i]) : MOST_SIDE_BY_SIDE;
        if (reads + more > MOST_SIDE_BY_SIDE && i > first) {
            bundle[bundles++] =
                i - first > 1 ? g_concat(g, n->concat.axis, src + first, (int)(i - first)) : src[first];
            first = i;
            reads = 0;
        }
        reads += more;
    }
    if (bundles <= MOST_SIDE_BY_SIDE)
        return bundles > 1 ? g_concat(g, n->concat.axis, bundle, bundles) : bundle[0];
    Node *all = g_concat(g, n->concat.axis, bundle, bundles);
    return all != NULL && all->kind == G_concat && all->nsrc < n->nsrc ? in_bundles(r, NULL, all, all->src)
                                                                       : all;
}

void limit_concat_operands(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, in_bundles, NULL);
}

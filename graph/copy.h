// Nodes of one graph, made again in another.
#ifndef TK_GRAPH_COPY_H
#define TK_GRAPH_COPY_H

#include "graph/internal.h"

typedef struct GCopy {
    Graph *g;
    const Graph *from;
    Node **to;                   // by node id there: what stands for it here, or NULL
    Ix    *done;                 // by number of expressions there
} GCopy;

// Dimensions keep their numbers and names: g has none of its own so far.
GCopy     g_copy_begin(Graph *g, const Graph *from);
Ix        g_copy_ix(GCopy *c, Ix e);
const Ix *g_copy_ixs(GCopy *c, const Ix *at, int n);
// n over what stands for its sources, with its name. NULL and a message: one of them is not there.
Node     *g_copy_node(GCopy *c, const Node *n);

#endif

// A model in fewer bits: --dtype=bf16, --dtype=f16.
#ifndef TK_GRAPH_NARROW_H
#define TK_GRAPH_NARROW_H

#include "graph/graph.h"

// Products and what stays in memory take the type `to`, everything else is computed as before. io: inputs and outputs of
// the model have it, too. False: a message (g_failed).
bool graph_narrow(Graph *g, Elem to, bool io);

#endif

// Loops whose trips are counted, as graphs of their own.
#ifndef TK_GRAPH_REWRITE_LOOPS_H
#define TK_GRAPH_REWRITE_LOOPS_H

#include "graph/graph.h"

// Each loop that can be one becomes steps; the others stay. false: one stays whose trips a size of the model says.
bool graph_count_loops(Graph *g);

#endif

// A graph as a `.tk` program: kernels, and a `graph` item that launches them.
#ifndef TK_GRAPH_WRITE_H
#define TK_GRAPH_WRITE_H

#include "graph/tensor.h"

// weights: where constants with names are, as the program should say it (a path relative to the program). Which kernels there
// are is decided by fusion (fuse.h). false: *err says what has no form as a kernel, with the node of the model.
bool graph_write(Graph *g, const char *weights, Buf *to, Buf *err);
bool graph_write_fusion(Graph *g, Buf *to, Buf *err);        // --emit=fusion: which kernels, and why not fewer

#endif

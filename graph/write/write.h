// A graph as a `.tk` program: kernels, and a `graph` item that launches them.
#ifndef TK_GRAPH_WRITE_H
#define TK_GRAPH_WRITE_H

#include "graph/tensor.h"

// weights: where constants with names are, as the program should say it (a path relative to the program). Which kernels
// there are is decided by fusion (fuse.h). A model in several programs (stages.h) is as many graphs, in their order. false: *err says what has no form as a kernel, with the node of the model.
bool graph_write(Graph *g, const char *weights, Buf *to, Buf *err);
// After it: the values that the program keeps in memory, by their names there, as the interpreter has them. in: one
// tensor for each input of the graph, in its order.
typedef struct GValue {
    const char *name;                  // in the program
    const char *model_name, *from;     // of the value and its node in the model, or NULL
    GTensor     tensor;
} GValue;
typedef struct GValues { GValue *at; int n; } GValues;
bool graph_values(Graph *g, const GTensor *in, GValues *out, Buf *err);
void graph_values_free(GValues *v);
// --emit=fusion: which kernels, what they read and write, and why not fewer. in: by input, for dimensions; data NULL:
// not given.
bool graph_write_fusion(Graph *g, const GTensor *in, Buf *to, Buf *err);

#endif

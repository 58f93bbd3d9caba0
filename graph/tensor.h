// What callers of the graph hold without knowing its nodes (graph.h): tensors, and a graph as a whole.
#ifndef TK_GRAPH_TENSOR_H
#define TK_GRAPH_TENSOR_H

#include "lang/lang.h"

enum { G_MAX_RANK = 16 };        // of any value: Einsum and windowed views need more than the 8 that models have

typedef struct GTensor {         // a value with its elements, row by row: in the interpreter, in host operations
    Elem    elem;
    int     rank;
    int64_t shape[G_MAX_RANK];
    size_t  bytes;
    void   *data;                // malloc'ed
} GTensor;

bool  g_tensor_alloc(GTensor *t);                                        // bytes and zeroed data from elem, rank, shape; false: too large
void  g_tensor_free(GTensor *t);
bool  g_tensor_convert(const GTensor *t, Elem elem, GTensor *out);       // a copy with other elements, floats rounded once; false: too large

typedef struct Graph Graph;
void  graph_free(Graph *g);
void  graph_print(Buf *to, const Graph *g);                              // what outputs reach, one line each

int         graph_input_count(const Graph *g);
const char *graph_input_name(const Graph *g, int i);
Elem        graph_input_elem(const Graph *g, int i);
int         graph_output_count(const Graph *g);

#endif

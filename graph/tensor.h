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

// bytes and zeroed data from elem, rank, shape; false: too large
bool  g_tensor_alloc(GTensor *t);
void  g_tensor_free(GTensor *t);
// a copy with other elements, floats rounded once; false: too large
bool  g_tensor_convert(const GTensor *t, Elem elem, GTensor *out);

typedef struct Graph Graph;
void  graph_free(Graph *g);
void  graph_print(Buf *to, const Graph *g);                              // what outputs reach, one line each

void  graph_simplify(Graph *g);                                          // the rewrites (graph_passes.h); once

int         graph_input_count(const Graph *g);
const char *graph_input_name(const Graph *g, int i);
Elem        graph_input_elem(const Graph *g, int i);
int         graph_output_count(const Graph *g);              // of its program
int         graph_made_count(const Graph *g);                // results of its program, those in inputs' memory too

// Results that take over an input's memory (donate.c): one for each output of the model, or none at all.
typedef struct GDonation {
    const char *output, *input;
    const char *refused;               // why the output has memory of its own, in words, or NULL
    int         axis;                  // along which the input gets more rows; -1: it keeps its shape
    int         state;                 // number of the graph's input that is updated in place
    int         rows;                  // .. of the one that says how many rows are in use, or -1
} GDonation;
int         graph_donation_count(const Graph *g);
GDonation   graph_donation(const Graph *g, int i);
// How many rows there are afterwards, for inputs by number (data NULL: not given).
bool        graph_donated_rows(const Graph *g, int i, const GTensor *in, int64_t *rows, char *error, size_t error_size);

#endif

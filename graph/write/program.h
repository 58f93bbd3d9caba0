// What the files share that write a graph as a `graph` item: launches over named values (write.c), and steps (body.c).
#ifndef TK_GRAPH_WRITE_PROGRAM_H
#define TK_GRAPH_WRITE_PROGRAM_H

#include "graph/write/internal.h"

typedef struct Value { const char *name; int rank; const Ix *shape; } Value;
typedef struct Weight { const Node *typed; const char *name; } Weight;
typedef struct Written { const char *meaning, *name; } Written;
typedef struct Shared { const char *meaning; int kernels; } Shared;    // of a kernel that is given its step: how many without are it

// Kernels that would be one, if each were given its step's number: known when all have been written, and then they are written again.
typedef struct Steps { VEC(Shared) at; bool known; } Steps;

typedef struct Writer {
    Graph  *g;
    const Fusion *f;
    Kernel *scope;               // names of the graph item
    Value  *value;               // by node id
    const char **result;         // by output: its name; NULL: in the body of steps, whose results are values
    VEC(Written) kernels;
    Buf     items, body, lets;   // kernels; launches; weights and constants
    VEC(Weight) let;             // .. weights among those
    const char *weights;
    bool    needs_library, has_weights;
    int     launches, repeated;  // repeated: of those, once for each step of a loop
    int     indent;              // of launches
    bool    numbers;             // dimensions that are inputs are numbers of the plan, since something needs them as sizes
    bool    sizes;               // something does
    const char *item;            // the graph's name
    Steps  *steps;
} Writer;

// write.c
enum { WIDTH = 118 };
void w_line(Buf *to, const char *line, size_t n, int indent);           // broken after commas where it is too long
void w_comment(Buf *to, const char *text, int indent);
void w_type(Writer *w, Buf *to, const Node *n, int rank, const Ix *shape);
bool w_value(Writer *w, Buf *to, const Node *n, int rank, const Ix *shape, Ix parts, int64_t part);
char *w_nodes(Writer *w, const FGroup *f);                              // what a group was made for
bool w_launch(Writer *w, int group);                                    // or steps

// body.c
bool w_steps(Writer *w, const FGroup *f);
void w_reserve_numbers(Writer *w, const Fusion *f);                     // names of steps' numbers, before anything else has them

#endif

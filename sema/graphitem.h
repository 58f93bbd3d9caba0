// What the files of graphs share: graphitem.c (statements, items), graphcall.c (launches, inlined graphs),
// graphvalue.c (values, weights, views).
#ifndef TK_SEMA_GRAPHITEM_H
#define TK_SEMA_GRAPHITEM_H

#include "sema/internal.h"

enum { MAX_FILES = 16 };

typedef struct Result {                 // of a graph that is being evaluated
    Sym        name;
    const Node *param;
    TensorRef *want;                    // as declared
    Ent        value;                   // EN_void: not assigned yet
    Span       where;
} Result;

typedef struct Level {                  // a graph, and what was inlined around it
    struct Level *up;
    const Node *item;
    Result     *results;   int nresults;
    const char *file[MAX_FILES]; int nfiles;      // its own `weights`, in order
    const char *path;
} Level;

typedef struct Grapher {
    SemaFile *f;
    Check    *c;
    bool      numbers;                  // dimensions are numbers: what is open now is an error
    int       undecided;                // inside an `if` that only numbers can decide
    Level    *level;
    VEC(TGValue) values;
    VEC(TGLaunch) launches;
    VEC(Bind *) vars;                   // names that may be assigned again
    int64_t   unrolled;                 // trips of loops so far
    bool      bad;
} Grapher;

// ---- graphvalue.c
Ent   graph_value(Grapher *g, TGKind kind, Elem e, int rank, const Ent *dim, Span at);
TGValue *graph_value_of(Grapher *g, Ent tensor);
int   graph_root(const Grapher *g, int value);           // the value whose memory it is
bool  graph_in_state(const Grapher *g, int value);
Ent   graph_constant(Grapher *g, const Maker *m, const Node *call);
Ent   graph_empty(Grapher *g, const Node *call);
Ent   graph_weight(Grapher *g, const Node *call, const TensorRef *want);
bool  graph_weight_shape(Grapher *g, Ent weight, const TensorRef *type, Span at);    // one that nothing was known of
Ent   graph_reshape(Grapher *g, Ent v, const Node *call);
Ent   graph_slice(Grapher *g, Ent v, const Node *call);
Ent   graph_index(Grapher *g, Ent v, const Node *index);
Ent   graph_view(Grapher *g, Ent of, Ent offset, int rank, const Ent *dim, Span at);
Ent   graph_count(Grapher *g, const TensorRef *t, Span at);
bool  graph_type(Grapher *g, const Node *type, TensorRef *out);       // f32[B, 784], as written
// what: "", "argument "
bool  graph_fits(Grapher *g, Ent v, const TensorRef *want, const char *what, Sym name, Span at, Span declared);

// ---- graphcall.c
Ent   graph_call(Grapher *g, const Node *call, Schedule schedule, const TensorRef *const *want, int nwant);
void  graph_outputs(Grapher *g);                          // the results of the outermost graph get their memory

// ---- graphitem.c
Ent   graph_eval(Grapher *g, const Node *n, const TensorRef *const *want, int nwant);
void  graph_body(Grapher *g, const Node *item);           // in the current scope and level
Level *graph_level(Grapher *g, const Node *item);

#endif

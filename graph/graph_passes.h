// The passes over the graph of a model: the list that `tkc --passes` prints, and the options that watch a run.
//
//     import                                     the graph as the model is written
//     canonicalise, algebra, products, layout    rewrites (rewrite/rewrite.h has the rows)
//     types                                      --dtype: narrow, split_norms
//     fuse                                       which values share a kernel
//
// A model in several programs (stages.h) has a graph for each, and the body of a loop is a graph of its own. Every one of
// them goes through all passes.
#ifndef TK_GRAPH_PASSES_H
#define TK_GRAPH_PASSES_H

#include "graph/tensor.h"

typedef struct GraphPassInfo { const char *name, *phase, *meaning; bool required; } GraphPassInfo;
extern const int graph_pass_count;
const GraphPassInfo *graph_pass_info(int i);
int  graph_pass_find(const char *name);          // its number, or -1
bool graph_pass_rewrites(int i);                 // is it one of the rewrites, which --verify=values can leave out?

typedef struct GraphPasses {
    bool        verify;                // check the graph after each pass (graph_verify.c); a broken one is an internal error
    const char *after;                 // the last pass that runs, or "import"; NULL: all run
    const char *dump_dir;              // the graph after each pass goes there, as GRAPH.NN-PASS.graph; NULL: nowhere
    double     *ms;                    // by pass: its milliseconds are added; NULL: not wanted
    int         graphs;                // how many there are so far: each has a number, for its dumps
} GraphPasses;

// For the graph, and the bodies of its loops. `how` outlives them. Before any pass runs.
void graph_set_passes(Graph *g, GraphPasses *how);
bool graph_passes_ended(const Graph *g);         // has the last one of `after` run?

// The graph as the last pass of `after`, a rewrite or of --dtype, leaves it; of a model in several programs, all of theirs.
bool graph_print_after(Graph *g, Buf *to, Buf *err);

// How many rules of the graph IR the graph breaks; the first few in words.
int  graph_verify(const Graph *g, Buf *to);

#endif

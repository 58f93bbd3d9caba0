// A model in several programs, between which the interpreter has turns (fuse/cut.c says when and why): turn 0, program 1, turn 1,
// program 2, .. What whoever runs them needs to know, without knowing nodes.
#ifndef TK_GRAPH_STAGES_H
#define TK_GRAPH_STAGES_H

#include "graph/tensor.h"

enum { MOST_STAGES = 256 };

typedef struct GBetween {        // a value that is made in one place and read in another, or a result of the model
    uint32_t node;               // of the whole graph
    const char *name;
    int  program;                // that makes it; 0: the interpreter
    Elem elem;                   // as the interpreter has it
    int  rank;
} GBetween;

typedef struct GStage {          // a program (the first has none), and the turn after it
    Graph *graph;                // the program's; the whole's
    const bool *computed;        // by node id of the whole: by the program
    const int *in;  int nin;     // by input of the program: a value, or -1 - the number of the model's input
    const int *out; int nout;    // by output of the program: a value
    const int *inputs; int ninputs;        // of the model, that the turn reads
    const int *reads; int nreads;          // values that the turn reads, and
    const int *makes; int nmakes;          // makes
    const char *from;            // what the turn runs, in words: nodes of the model without a form as kernels; NULL: none
} GStage;

typedef struct GStages {
    GStage *stage; int nstages;  // stage[1 .. nstages] have programs
    GBetween *value; int nvalues;
    const int *result;           // by output of the model: its value
    const char *from;            // the first node of the model without a form, in words
} GStages;

// NULL: the model is one program.
const GStages *graph_stages(const Graph *g);

// What is known of sizes: by dimension of the whole graph. Zeroed before the first turn.
typedef struct GSizes { int64_t *dims; bool *bound; } GSizes;
int  graph_dim_count(const Graph *g);
// in: by input of the model; of those that the turn does not read the data need only be there. reads: tensors of the values that it reads,
// in the order of the stage; makes: likewise, to be freed.
bool graph_turn(const Graph *whole, int turn, const GTensor *in, const GTensor *reads, GTensor *makes, GSizes *known, char *error, size_t error_size);

// All values between programs as the interpreter has them, by number, to be freed.
bool graph_between(const Graph *whole, const GTensor *in, GTensor *values, char *error, size_t error_size);

// What an input or an output of the model is. Of what has no name, the dimension as text: "found", "min(50, found_2)".
typedef struct GPort {
    const char *name;
    Elem elem;
    int  rank;
    int64_t dim[G_MAX_RANK];     // -1: not fixed
    const char *word[G_MAX_RANK];          // then
} GPort;
GPort graph_port(Graph *g, bool output, int i);
// The sizes of an output for these inputs (data NULL: not given), -1 where only a run finds them. False: the inputs contradict each other.
bool graph_port_sizes(const Graph *g, const GTensor *in, int output, int64_t *to, char *error, size_t error_size);

#endif

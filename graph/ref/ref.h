// The interpreter: device `ref`. Runs a graph on the host, value by value, as graph.h says what each kind means. It is the
// oracle that everything else is compared with, and what folds constants.
#ifndef TK_GRAPH_REF_H
#define TK_GRAPH_REF_H

#include "graph/graph.h"

// Called with every value as it is computed, in order (values of bodies once for each trip). The elements are valid
// during the call. false stops the run.
typedef struct RefWatch {
    bool (*see)(void *ctx, const Node *n, const GTensor *value);
    void *ctx;
} RefWatch;

// in: one tensor for each of g->inputs, in that order; data NULL: not given (an error if it is needed).
// out: one for each of g->outputs, allocated here (g_tensor_free). watch may be NULL.
// false: `error` says why, and nothing is left allocated.
bool ref_run(const Graph *g, const GTensor *in, GTensor *out, const RefWatch *watch, char *error, size_t error_size);

// Some values of a graph, of others that are there already: a turn of the interpreter between two programs (GStages).
typedef struct RefPart {
    const uint32_t *given; const GTensor *value; int ngiven;             // by node: tensors of their types
    const uint32_t *want;  int nwant;
    // by dimension: what is known of sizes before, and after; zeroed before the first
    int64_t *dims; bool *bound;
} RefPart;
bool ref_run_part(const Graph *g, const GTensor *in, const RefPart *part, GTensor *out, char *error, size_t error_size);

// Sizes for these inputs, as far as they are given (data NULL: not).
bool ref_sizes(const Graph *g, const GTensor *in, int rank, const Ix *shape, int64_t *to, char *error, size_t error_size);

// all dimensions, by number; 1: not known. in NULL: none is given
void ref_dims(const Graph *g, const GTensor *in, int64_t *to);

// One value, which must not depend on inputs or on dimensions that are not known.
bool ref_value(const Graph *g, Node *n, GTensor *out, char *error, size_t error_size);

#endif

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

// The results of the whole model, of its inputs (those of t->graph) and of what its head has made: a tensor for each of t->node, of
// that node's type.
bool ref_run_tail(const GTail *t, const GTensor *in, const GTensor *head, GTensor *out, char *error, size_t error_size);

// Sizes for these inputs, as far as they are given (data NULL: not).
bool ref_sizes(const Graph *g, const GTensor *in, int rank, const Ix *shape, int64_t *to, char *error, size_t error_size);

// all dimensions, by number; 1: not known. in NULL: none is given
void ref_dims(const Graph *g, const GTensor *in, int64_t *to);

// One value, which must not depend on inputs or on dimensions that are not known.
bool ref_value(const Graph *g, Node *n, GTensor *out, char *error, size_t error_size);

#endif

// Random convolutional networks as graphs, small enough for the interpreter and the emulator: convolutions (groups, strides,
// windows of one), norms in several spellings, pools, gates, residuals, concatenations, attention over pixels, products.
#ifndef TK_TESTS_NETWORKS_H
#define TK_TESTS_NETWORKS_H

#include "graph/tensor.h"

enum { MOST_RESULTS = 3 };

Graph  *network_new(int seed);                               // one input, up to three outputs
GTensor network_input(const Graph *g);
void    network_run(const Graph *g, const GTensor *x, GTensor *out);        // on the interpreter
// Fails if an element is further off than `part` of the largest.
void    network_compare(int seed, int output, const GTensor *expected, const void *got, double part);

#endif

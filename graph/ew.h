// What the elementwise operations mean, one element at a time. The interpreter has loops for the usual cases; this is
// what they must agree with, and what folds constants.
#ifndef TK_GRAPH_EW_H
#define TK_GRAPH_EW_H

#include "graph/graph.h"

// elem: of the operands (of b for `where`). in: pointers to one element each.
void ew_one(GEw op, Elem elem, const void *const *in, void *out);
void cast_one(Elem from, Elem to, bool saturate, const void *in, void *out);
// The same on index expressions, for an operation on integers or bools of type elem; NULL: it cannot be said.
Ix   g_ew_expr(Graph *g, GEw op, Elem elem, const Ix *e);

double   ew_float(GEw op, double a, double b);               // for the operations whose result is a float
uint64_t ew_int(GEw op, Elem elem, uint64_t a, uint64_t b);  // elements as bits extended to 64; the caller narrows
bool     ew_compare(GEw op, Elem elem, GNum a, GNum b);

#endif

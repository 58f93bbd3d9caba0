// Where a rewrite may move a factor: range.c, which holds the rule and why it is right.
#ifndef TK_GRAPH_RANGE_H
#define TK_GRAPH_RANGE_H

#include "graph/internal.h"

// A bound of the magnitudes of x's elements, those aside that are NaN or infinite in the model; INFINITY: none is known.
double range_most(Graph *g, const Node *x);
// The type in which a product takes x as an operand: in a model that will be of 16-bit floats, that one.
Elem   range_operand(const Graph *g, const Node *x);
// Is c a number of f32's normal range?
bool   range_factor(double c);
// May a value of type `kept`, which the model has as c * v, be v instead? most: a bound of |v|.
bool   range_without(Elem kept, double most, double c);
// May factors that multiply the operands of product n, which are a and b without them, multiply its result instead?
bool   range_past_product(Graph *g, const Node *n, const Node *a, double of_a, const Node *b, double of_b);
// May a factor of one operand of a product multiply the other one instead, which has a factor already? Both are given without theirs.
bool   range_across_product(const Graph *g, const Node *giver, const Node *taker, double factor, double has);
// A power of two over which x's elements add up in range, along what product n sums: 1 where they do so themselves, or as many as they are.
double range_sums(Graph *g, const Node *n, const Node *x);
// Magnitudes of the elements of a constant that is computed now, 0 aside: false where it cannot be, or is too large.
bool   range_of_constant(Graph *g, Node *x, double *least, double *most);

#endif

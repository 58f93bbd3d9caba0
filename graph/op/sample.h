// Reading a value between its elements: at coordinates that are floats.
//
// Along each axis a place is a few taps: an element's index and its weight. A read is the sum, over one tap of each axis,
// of the element there times the weights. Linear interpolation has two taps along an axis, cubic four.
#ifndef TK_GRAPH_OP_SAMPLE_H
#define TK_GRAPH_OP_SAMPLE_H

#include "graph/op/op.h"

enum { MAX_TAPS = 4 };

typedef struct Taps {
    int   n;
    Node *index[MAX_TAPS];             // i64; out of range reads 0
    Node *weight[MAX_TAPS];            // NULL: 1
} Taps;

// at: floats, in elements. inside: coordinates are moved into 0 .. size - 1 first; else what is outside is 0.
bool op_taps_linear(Op *op, Node *at, Ix size, bool inside, Taps *t);
// x [lead.., D..] read along its last n axes. The result has the given shape, to which indices and weights broadcast;
// coord has for each of the leading axes of x an expression of the result's axes, or NULL for the first: then it is
// read at `first`. join: EW_add, or EW_max for the largest of the products.
Node *op_read_taps(Op *op, Node *x, int n, const Taps *taps, int rank, const Ix *shape, const Ix *coord, Node *first,
                   GEw join);

#endif

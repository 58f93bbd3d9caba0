// What attentions have in common, as ONNX and as ONNX Runtime writes them. Heads are [b, h, s, d].
#ifndef TK_GRAPH_OP_ATTENTION_H
#define TK_GRAPH_OP_ATTENTION_H

#include "graph/op/op.h"

// [b, s, h * d] -> [b, h, s, d]; what has 4 dimensions stays
Node *op_split_heads(Op *op, Node *x, int64_t heads);
Node *op_join_heads(Graph *g, Node *x);                          // and back
// key heads repeated, as a view: head h of the result is head h / group
Node *op_spread_heads(Op *op, Node *x, Ix heads);
Node *op_scores(Graph *g, Node *q, Node *k);                     // q k', and p v, of as many heads each: f32 of small floats
Node *op_values(Graph *g, Node *p, Node *v);
Node *op_softmax_rows(Graph *g, Node *scores);                   // over the last axis; a row of nothing but -inf gives 0
// Pairs of each head's first `turned` of `size` elements, halves or neighbours, turned; cos and sin [b, s, turned / 2].
Node *op_turn(Graph *g, Node *x, Node *cos, Node *sin, int64_t turned, int64_t size, bool neighbours);

// Which columns a row may look at, by place: those that count (j < length), up to its own place p where it is causal,
// and from p - left to p + right where there is a window (-1: as far as there is). p = i + offset: what is past comes
// before, and of a cache that is longer than what counts in it (lengths, one for each batch) the rows are the last that
// count.
typedef struct Reach { bool causal; int64_t left, right; } Reach;
Node *op_reach(Op *op, const Node *scores, Ix past, Node *lengths, Reach r);     // bools that broadcast to the scores

#endif

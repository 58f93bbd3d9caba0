// What quantised operators have in common, as ONNX and as ONNX Runtime write them: x = (q - zero point) * scale.
#ifndef TK_GRAPH_OP_QUANT_H
#define TK_GRAPH_OP_QUANT_H

#include "graph/op/op.h"

Node *op_centred(Graph *g, Node *q, Node *zero);                 // q - zero point, in i32; zero NULL: none
// Floats that are whole numbers before the zero point is added, as elements of `bits` bits.
Node *op_saturated(Graph *g, Node *whole, Node *zero, Elem elem, int bits);
Node *op_one(Graph *g, Node *v);                                 // a list of one as a number; other lists, and NULL, stay
// f32 as u8, with a scale and zero point that follow from it
Node *op_dynamic(Graph *g, Node *x, Node **scale, Node **zero);
// Numbers of 2, 4 or 8 bits, several to a byte, w [.., n, bytes], with a scale for each row (scale [.., n]) or block of it ([.., n, blocks]), and zero points that are packed
// as these are, or NULL: [.., n, k] of `elem`. ort_quant.c
Node *op_unpacked(Op *op, Node *w, Node *scale, Node *zero, int64_t bits, Elem elem);

#endif

// Conversions between element types: Cast, CastLike, BitCast.
//
// To integers floats are truncated, as NumPy and C do. To f8 they saturate, unless `saturate` is 0. Integers of 4 and 2 bits
// live in i8 and u8 (onnx_tensor.c): what is cast to one is cut to its bits there (a float is rounded and clipped first,
// as ONNX's reference does).
#include "graph/onnx.h"
#include "graph/op.h"

static Node *to_few_bits(Op *op, Node *x, Elem elem, int bits) {
    Graph *g = op->g;
    if (elem_is_float((Elem)x->elem)) {
        double lo = elem == EL_i8 ? -(1 << (bits - 1)) : 0, hi = elem == EL_i8 ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
        return g_cast(g, g_ew2f(g, EW_min, g_ew2f(g, EW_max, g_ew1(g, EW_round, x), lo), hi), elem);
    }
    Node *cut = g_i(g, elem, 8 - bits);
    return g_ew2(g, EW_shr, g_ew2(g, EW_shl, g_cast(g, x, elem), cut), cut);
}

static Node *lower_cast(Op *op) {
    Node *x = op_in(op, 0);
    if (!op_given(op, "to")) return op_error(op, "attribute `to` is missing");
    Elem elem = op_elem(op, "to", EL_none);
    if (elem == EL_none || x == NULL) return NULL;
    int type = (int)op_int(op, "to", 0), bits = onnx_type_bits(type);
    if (bits < elem_bits(elem) && elem_is_int(elem)) return to_few_bits(op, x, elem, bits);
    if (bits != elem_bits(elem)) return op_error(op, "casts to %s are not supported", onnx_type_name(type));
    bool f8 = elem == EL_f8e4m3 || elem == EL_f8e5m2;
    return f8 && op_int(op, "saturate", 1) != 0 ? g_cast_saturate(op->g, x, elem) : g_cast(op->g, x, elem);
}

static Node *lower_cast_like(Op *op) {
    Node *x = op_in(op, 0), *like = op_in(op, 1);
    if (x == NULL || like == NULL) return NULL;
    Elem elem = (Elem)like->elem;
    bool f8 = elem == EL_f8e4m3 || elem == EL_f8e5m2;
    return f8 && op_int(op, "saturate", 1) != 0 ? g_cast_saturate(op->g, x, elem) : g_cast(op->g, x, elem);
}

const OpRow ops_cast[] = {
    OP("Cast", 1, lower_cast), OP("CastLike", 15, lower_cast_like),
    {0},
};

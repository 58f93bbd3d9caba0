// Conversions between element types: Cast, CastLike.
//
// To integers floats are truncated and wrap, as NumPy and C do. To f8 they saturate, unless `saturate` is 0. Types that
// have none of ours live in a larger one (onnx/tensor.c), and what is cast to one is cut to what it can hold: int4 in
// an i8, float4 in an f8e4m3. Op.out_type says which it is.
#include "graph/onnx/onnx.h"
#include "graph/op/op.h"
#include "lang/c_text.h"

#include <string.h>

enum { FLOAT4E2M1 = 23 };

static Node *to_few_bits(Op *op, Node *x, Elem elem, int bits) {
    Graph *g = op->g;
    Node *cut = g_i(g, elem, 8 - bits), *whole = elem_is_float((Elem)x->elem) ? g_cast(g, x, EL_i32) : x;       // a kernel's floats saturate
    return g_ew2(g, EW_shr, g_ew2(g, EW_shl, g_cast(g, whole, elem), cut), cut);
}

// 0, 0.5, 1, 1.5, 2, 3, 4, 6: steps of 0.5 below 2, of 1 below 4, of 2 above; to nearest even, saturating; NaN gives
// -0.
static Node *to_float4(Op *op, Node *x) {
    Graph *g = op->g;
    Node *w = g_cast(g, x, EL_f32), *a = g_ew1(g, EW_abs, w);
    Node *step = g_where(g, g_ew2f(g, EW_lt, a, 2), g_f(g, EL_f32, 0.5),
                         g_where(g, g_ew2f(g, EW_lt, a, 4), g_f(g, EL_f32, 1), g_f(g, EL_f32, 2)));
    Node *r = g_ew2f(g, EW_min, g_ew2(g, EW_mul, g_ew1(g, EW_round, g_ew2(g, EW_div, a, step)), step), 6);
    Node *y = g_where(g, g_ew2f(g, EW_lt, w, 0), g_ew1(g, EW_neg, r), r);
    return g_cast_saturate(g, g_where(g, g_ew1(g, EW_isnan, w), g_f(g, EL_f32, -0.0), y), EL_f8e4m3);
}

Node *op_cast_to(Op *op, Node *x, int type) {
    Elem elem = onnx_type_elem(type);
    if (x == NULL) return NULL;
    if (type == 8) return op_out_of_scope(op, "strings");
    if (op->nout > 0) op->out_type[0] = type;
    if (type == FLOAT4E2M1) return to_float4(op, x);
    if (!onnx_type_plain(type) && elem_is_int(elem)) return to_few_bits(op, x, elem, onnx_type_bits(type));
    if (!onnx_type_plain(type) || elem == EL_none)
        return op_error(op, "casts to %s are not supported", onnx_type_name(type));
    bool f8 = elem == EL_f8e4m3 || elem == EL_f8e5m2;
    return f8 && op_int(op, "saturate", 1) != 0 ? g_cast_saturate(op->g, x, elem) : g_cast(op->g, x, elem);
}

// Before opset 6 the type was a text: "FLOAT".
static int type_by_text(Op *op) {
    const char *to = op_text(op, "to", "");
    for (int type = 1; strcmp(onnx_type_name(type), "undefined") != 0; type++)
        if (c_strcasecmp(onnx_type_name(type), to) == 0) return type;
    if (g_failed(op->g) == NULL) op_error(op, "attribute `to` is `%s`, which is no element type", to);
    return 0;
}

static Node *lower_cast(Op *op) {
    if (!op_given(op, "to")) return op_error(op, "attribute `to` is missing");
    if (op->version < 6) {
        int type = type_by_text(op);
        return type != 0 ? op_cast_to(op, op_in(op, 0), type) : NULL;
    }
    int64_t to = op_int(op, "to", 0);
    return op_cast_to(op, op_in(op, 0), to > 0 && to < 1000 ? (int)to : 0);
}

static Node *lower_cast_like(Op *op) {
    Node *x = op_in(op, 0), *like = op_in(op, 1);
    int type = op_in_type(op, 1);
    if (x == NULL || like == NULL) return NULL;
    return op_cast_to(op, x, type != 0 ? type : onnx_type_of((Elem)like->elem));
}

const OpRow ops_cast[] = {
    OP("Cast", 1, lower_cast),
    OP("CastLike", 15, lower_cast_like),
    {0},
};

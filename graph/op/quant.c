// Quantisation: whole numbers for floats, x = (q - zero point) * scale, and products of such numbers.
//
// Scales and zero points are one for all, or one for each index of an axis, or one for each block of an axis. The order of
// operations is that of the specification: divide, round to even, add the zero point, saturate. Products are exact, in i32.
#include "graph/op/quant.h"

#include "graph/onnx/onnx.h"
#include "graph/op/window.h"

#include <math.h>

typedef struct Range { Elem elem; double lo, hi; } Range;         // of a quantised type

static Range range_of(Elem e, int bits) {
    if (elem_is_signed(e)) return (Range){e, -ldexp(1, bits - 1), ldexp(1, bits - 1) - 1};
    return (Range){e, 0, ldexp(1, bits) - 1};
}

// A scale or zero point as a value that broadcasts against x.
static Node *spread(Op *op, Node *x, Node *v, int64_t block) {
    Graph *g = op->g;
    if (x == NULL || v == NULL) return NULL;
    if (v->rank == 0 || (v->rank == 1 && ix_is(v->shape[0], 1))) return v->rank == 0 ? v : g_squeeze(g, v, 1);
    int axis = op_axis(op, x, "axis", 1);
    if (axis < 0) return NULL;
    if (v->rank == 1 && block == 0) {
        g_require(g, v->shape[0], x->shape[axis]);
        return g_unsqueeze(g, v, ((1u << x->rank) - 1) & ~(1u << axis));
    }
    if (v->rank != x->rank || block < 1)
        return op_error(op, "its scale has %d dimensions, its input %d, its blocks the size %lld", v->rank, x->rank,
                        (long long)block);
    Ix coord[G_MAX_RANK];
    for (int d = 0; d < x->rank; d++) coord[d] = ix_axis(g, d, x->shape[d]);
    for (int d = 0; d < x->rank; d++)
        g_require(g, v->shape[d], d == axis ? ix_ceildiv(g, x->shape[d], ix(g, block)) : x->shape[d]);
    coord[axis] = ix_divi(g, coord[axis], block);
    return g_failed(g) != NULL ? NULL : g_view(g, v, x->rank, x->shape, coord, NULL, g_int(0));
}

static int64_t block_size(Op *op) {
    int64_t block = op_int(op, "block_size", 0);
    if (block < 0 || block > 1 << 30) op_error(op, "attribute `block_size` is %lld", (long long)block);
    return block;
}

Node *op_saturated(Graph *g, Node *whole, Node *zero, Elem elem, int bits) {
    Range r = range_of(elem, bits);
    GNum number;
    bool none = zero == NULL || (g_scalar_value(zero, &number) && number.is_int && number.i == 0);
    if (!none) whole = g_ew2(g, EW_add, whole, g_cast(g, zero, EL_f32));
    return g_cast_saturate(g, g_ew2f(g, EW_min, g_ew2f(g, EW_max, whole, r.lo), r.hi), r.elem);
}

static Node *lower_quantize(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *scale = op_in(op, 1), *zero = op_opt(op, 2);
    int64_t block = block_size(op);
    if (x == NULL || scale == NULL) return NULL;
    bool typed = op_int(op, "output_dtype", 0) != 0;
    Elem elem = typed ? op_elem(op, "output_dtype", EL_none) : zero != NULL ? (Elem)zero->elem : EL_u8;
    if (elem == EL_none) return NULL;
    int type = typed ? (int)op_int(op, "output_dtype", 0) : op_in_type(op, 2),
        bits = type != 0 ? onnx_type_bits(type) : elem_bits(elem);
    if (typed && zero != NULL && zero->elem != elem)
        return op_error(op, "attribute `output_dtype` says %s, its zero point has elements of type %s", elem_name(elem),
                        elem_name((Elem)zero->elem));
    bool packed_float = elem_is_float(elem) && !onnx_type_plain(type);
    if (op->nout > 0) op->out_type[0] = type;
    Elem in = op_int(op, "precision", 0) != 0 ? op_elem(op, "precision", EL_f32) : EL_f32;
    if (in == EL_none) return NULL;
    Node *s = spread(op, x, g_cast(g, scale, in), block);
    Node *q = g_cast(g, g_ew2(g, EW_div, g_cast(g, x, in), s), EL_f32);
    if (packed_float) return op_cast_to(op, q, type);
    if (elem_is_float(elem)) return op_int(op, "saturate", 1) != 0 ? g_cast_saturate(g, q, elem) : g_cast(g, q, elem);
    if (!elem_is_int(elem)) return op_error(op, "cannot quantise to %s", elem_name(elem));
    return op_saturated(g, g_ew1(g, EW_round, q), zero != NULL ? spread(op, x, zero, block) : NULL, elem, bits);
}

Node *op_centred(Graph *g, Node *q, Node *zero) {
    Node *wide = g_cast(g, q, EL_i32);
    GNum v;
    if (zero == NULL || (g_scalar_value(zero, &v) && v.is_int && v.i == 0)) return wide;
    return g_ew2(g, EW_sub, wide, g_cast(g, zero, EL_i32));
}

static Node *lower_dequantize(Op *op) {
    Graph *g = op->g;
    Node *q = op_in(op, 0), *scale = op_in(op, 1), *zero = op_opt(op, 2);
    int64_t block = block_size(op);
    if (q == NULL || scale == NULL) return NULL;
    Elem elem = op_int(op, "output_dtype", 0) != 0 ? op_elem(op, "output_dtype", EL_none) : (Elem)scale->elem;
    if (elem == EL_none) return NULL;
    bool whole = elem_is_int((Elem)q->elem);
    if (zero != NULL && zero->elem != q->elem)
        return op_error(op, "its input has elements of type %s, its zero point %s", elem_name((Elem)q->elem),
                        elem_name((Elem)zero->elem));
    Node *x = whole ? op_centred(g, q, zero != NULL ? spread(op, q, zero, block) : NULL) : q;
    if (whole && zero != NULL && x == NULL) return NULL;
    return g_cast(g, g_ew2(g, EW_mul, g_cast(g, x, EL_f32), g_cast(g, spread(op, q, scale, block), EL_f32)), elem);
}

Node *op_dynamic(Graph *g, Node *x, Node **scale, Node **zero) {
    Node *zero_f = g_f(g, EL_f32, 0);
    uint32_t all = (1u << x->rank) - 1;
    Node *low = g_ew2(g, EW_min, g_reduce(g, GR_min, x, all, false), zero_f),
         *high = g_ew2(g, EW_max, g_reduce(g, GR_max, x, all, false), zero_f);
    Node *span = g_ew2f(g, EW_div, g_ew2(g, EW_sub, high, low), 255);
    *scale = g_where(g, g_ew2f(g, EW_eq, span, 0), g_f(g, EL_f32, 1), span);
    *zero = op_saturated(g, g_ew1(g, EW_round, g_ew2(g, EW_div, g_ew1(g, EW_neg, low), *scale)), NULL, EL_u8, 8);
    return op_saturated(g, g_ew1(g, EW_round, g_ew2(g, EW_div, x, *scale)), *zero, EL_u8, 8);
}

static Node *lower_dynamic(Op *op) {
    Node *x = op_in(op, 0), *scale, *zero;
    if (x == NULL) return NULL;
    if (x->elem != EL_f32) return op_error(op, "quantises f32, not %s", elem_name((Elem)x->elem));
    Node *q = op_dynamic(op->g, x, &scale, &zero);
    op_out(op, 1, scale);
    op_out(op, 2, zero);
    return q;
}

// ---- products ---------------------------------------------------------------------------------------

// A scale or zero point of the left operand (one for each row) or the right (one for each column).
static Node *by_row(Graph *g, Node *v) {
    return v != NULL && v->rank == 1 ? ix_is(v->shape[0], 1) ? g_squeeze(g, v, 1) : g_unsqueeze(g, v, 2) : v;
}
Node *op_one(Graph *g, Node *v) {
    return v != NULL && v->rank == 1 && ix_is(v->shape[0], 1) ? g_squeeze(g, v, 1) : v;
}

static Node *lower_matmul_integer(Op *op) {
    Graph *g = op->g;
    Node *a = op_in(op, 0), *b = op_in(op, 1);
    return g_matmul(g, op_centred(g, a, by_row(g, op_opt(op, 2))), op_centred(g, b, op_one(g, op_opt(op, 3))));
}

// sum * scale -> quantised; scale: that of the operands over that of the result.
static Node *requantize(Op *op, Node *sum, Node *scale_a, Node *scale_b, Node *scale_y, Node *zero) {
    Graph *g = op->g;
    if (zero == NULL) return NULL;
    if (!elem_is_int((Elem)zero->elem))
        return op_error(op, "quantised products of type %s are not supported", elem_name((Elem)zero->elem));
    Node *scale = g_ew2(g, EW_mul, g_cast(g, scale_a, EL_f32), g_cast(g, scale_b, EL_f32));
    Node *factor = g_ew2(g, EW_div, scale, g_cast(g, scale_y, EL_f32));
    Node *y = g_ew2(g, EW_mul, g_cast(g, sum, EL_f32), factor);
    return op_saturated(g, g_ew1(g, EW_round, y), zero, (Elem)zero->elem, elem_bits((Elem)zero->elem));
}

static Node *lower_qlinear_matmul(Op *op) {
    Graph *g = op->g;
    Node *in[8];
    for (int i = 0; i < 8; i++)
        if ((in[i] = op_in(op, i)) == NULL) return NULL;
    Node *sum = g_matmul(g, op_centred(g, in[0], by_row(g, in[2])), op_centred(g, in[3], op_one(g, in[5])));
    return requantize(op, sum, by_row(g, in[1]), op_one(g, in[4]), by_row(g, in[6]), by_row(g, in[7]));
}

// One for all, or one for each filter: as a value of rank `rank` with the filters' axis at `axis`.
static Node *by_filter(Graph *g, Node *v, int rank, int axis) {
    if (v == NULL || v->rank != 1) return v;
    if (ix_is(v->shape[0], 1)) return g_squeeze(g, v, 1);
    return g_unsqueeze(g, v, ((1u << rank) - 1) & ~(1u << axis));
}

static Node *lower_conv_integer(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *w = op_in(op, 1);
    if (x == NULL || w == NULL) return NULL;
    Node *a = op_centred(g, x, by_filter(g, op_opt(op, 2), x->rank, 1)),
         *b = op_centred(g, w, by_filter(g, op_opt(op, 3), w->rank, 0));
    return op_conv(op, a, b, EL_i32, EL_i32);
}

static Node *lower_qlinear_conv(Op *op) {
    Graph *g = op->g;
    Node *in[8];
    for (int i = 0; i < 8; i++)
        if ((in[i] = op_in(op, i)) == NULL) return NULL;
    Node *a = op_centred(g, in[0], by_filter(g, in[2], in[0]->rank, 1)),
         *b = op_centred(g, in[3], by_filter(g, in[5], in[3]->rank, 0));
    Node *sum = op_bias(op, op_conv(op, a, b, EL_i32, EL_i32), op_opt(op, 8));
    if (sum == NULL) return NULL;
    Node *scalar[3] = {by_filter(g, in[1], sum->rank, 1), by_filter(g, in[6], sum->rank, 1),
                       by_filter(g, in[7], sum->rank, 1)};
    return requantize(op, sum, scalar[0], by_filter(g, in[4], sum->rank, 1), scalar[1], scalar[2]);
}

// clang-format off
const OpRow ops_quant[] = {
    OP("QuantizeLinear", 10, lower_quantize),        OP("DequantizeLinear", 10, lower_dequantize),
    OP("MatMulInteger",  10, lower_matmul_integer),  OP("QLinearMatMul",    10, lower_qlinear_matmul),
    OP("ConvInteger",    10, lower_conv_integer),    OP("QLinearConv",      10, lower_qlinear_conv),
    OP("DynamicQuantizeLinear", 11, lower_dynamic),
    {0},
};
// clang-format on

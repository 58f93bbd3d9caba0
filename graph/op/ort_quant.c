// ONNX Runtime's own quantised operators (domain com.microsoft).
//
//     MatMulNBits               a * w': w [N, K] in blocks of K, of 2, 4 or 8 bits, several to a byte, with a scale for each block
//     GatherBlockQuantized      rows of such a table
//     QLinearConv               ONNX's, of pictures with channels last, too; NhwcMaxPool: MaxPool of such
//     QLinearAdd, ..            what the name says, of numbers that are quantised: converted, computed in f32, quantised
//     QGemm                     Gemm of bytes, exact
//     MatMulIntegerToFloat      MatMulInteger and the scales; DynamicQuantizeMatMul quantises its left operand first
//
// Weights stay in memory as they are packed: the product that reads them unpacks them and multiplies them by their scales.
#include "graph/onnx/onnx.h"
#include "graph/op/quant.h"

#include <string.h>

// ---- several to a byte ------------------------------------------------------------------------------

typedef struct Blocks { int64_t bits, block; } Blocks;            // of a table's numbers; how many have one scale

static bool blocks_of(Op *op, Blocks *b) {
    *b = (Blocks){op_int(op, "bits", 4), op_int(op, "block_size", 128)};
    bool fine = (b->bits == 2 || b->bits == 4 || b->bits == 8) && b->block >= 1 && b->block <= 1 << 24 &&
                b->block * b->bits % 8 == 0;
    return fine ? true
                : (op_error(op, "blocks of %lld numbers of %lld bits are not supported", (long long)b->block,
                            (long long)b->bits),
                   false);
}

// Number i of a row of bytes, the low bits first: x [.., bytes] as [.., count] of u8.
static Node *unpacked(Op *op, Node *x, Ix count, int64_t bits) {
    Graph *g = op->g;
    if (x == NULL || x->rank == 0) return x == NULL ? NULL : op_error(op, "its packed numbers have no dimension");
    if (x->elem != EL_u8) return op_error(op, "its packed numbers should be u8, not %s", elem_name((Elem)x->elem));
    if (bits == 8) return g_take_range(g, x, x->rank - 1, ix(g, 0), 1, count);
    int last = x->rank - 1;
    int64_t each = 8 / bits;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (int d = 0; d < x->rank; d++) shape[d] = d == last ? count : x->shape[d], coord[d] = ix_axis(g, d, shape[d]);
    Ix i = coord[last];
    coord[last] = ix_divi(g, i, each);
    if (!ix_prove_le(g, ix_ceildiv(g, count, ix(g, each)), x->shape[last]))
        return op_error(op, "has fewer packed numbers than it needs");
    Node *byte = g_view(g, x, x->rank, shape, coord, NULL, g_int(0));
    Node *shift = g_index(g, EL_u8, x->rank, shape, ix_muli(g, ix_modi(g, i, each), bits));
    return g_ew2(g, EW_and, g_ew2(g, EW_shr, byte, shift), g_i(g, EL_u8, (1 << bits) - 1));
}

// One number for each block, for each element: v [.., blocks] as [.., count].
static Node *by_block(Graph *g, Node *v, Ix count, int64_t block) {
    if (v == NULL || v->rank == 0) return v == NULL ? NULL : g_error(g, "numbers for blocks should have a dimension");
    int last = v->rank - 1;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (int d = 0; d < v->rank; d++) shape[d] = d == last ? count : v->shape[d], coord[d] = ix_axis(g, d, shape[d]);
    coord[last] = ix_divi(g, coord[last], block);
    return g_view(g, v, v->rank, shape, coord, NULL, g_int(0));
}

// q minus its zero points, times its scales: [.., count] of `elem`.
static Node *dequantised(Op *op, Node *q, Node *scale, Node *zero, Ix count, Blocks b, Elem elem) {
    Graph *g = op->g;
    if (q == NULL || scale == NULL) return NULL;
    bool floats = zero != NULL && elem_is_float((Elem)zero->elem);
    Node *x;
    if (floats || (zero != NULL && b.bits == 8)) {
        x = g_ew2(g, EW_sub, g_cast(g, g_kept(g, q, EL_u8), EL_f32), g_cast(g, by_block(g, zero, count, b.block), EL_f32));
    } else {
        Node *from = zero != NULL ? g_cast(g, by_block(g, zero, count, b.block), EL_i32) : g_i(g, EL_i32, 1 << (b.bits - 1));
        x = g_cast(g, g_ew2(g, EW_sub, g_cast(g, q, EL_i32), from), EL_f32);
    }
    return g_cast(g, g_ew2(g, EW_mul, x, g_cast(g, by_block(g, scale, count, b.block), EL_f32)), elem);
}

Node *op_unpacked(Op *op, Node *w, Node *scale, Node *zero, int64_t bits, Elem elem) {
    Graph *g = op->g;
    if (w == NULL || scale == NULL) return NULL;
    if (bits != 2 && bits != 4 && bits != 8) return op_error(op, "weights of %lld bits are not supported", (long long)bits);
    int last = w->rank - 1;
    Ix k = ix_muli(g, w->shape[last], 8 / bits);
    if (scale->rank != w->rank && scale->rank != last) return op_error(op, "its scales should have %d or %d dimensions, not %d", last, w->rank, scale->rank);
    bool blocks = scale->rank == w->rank;
    if (zero != NULL && zero->rank != scale->rank) return op_error(op, "its zero points should have as many dimensions as its scales");
    if (zero != NULL) zero = unpacked(op, zero, scale->shape[scale->rank - 1], bits);
    Ix each = blocks ? ix_divide_exact(g, k, scale->shape[last]) : k;
    int64_t block;
    if (each == NULL) return op_error(op, "its weights do not divide into as many blocks as there are scales");
    if (!op_fixed(op, each, &block)) return NULL;
    if (!blocks) scale = g_unsqueeze(g, scale, 1u << last), zero = zero != NULL ? g_unsqueeze(g, zero, 1u << last) : NULL;
    return dequantised(op, unpacked(op, w, k, bits), scale, zero, k, (Blocks){bits, block}, elem);
}

static Node *lower_matmul_nbits(Op *op) {
    Graph *g = op->g;
    Node *a = op_in(op, 0), *w = op_in(op, 1), *scale = op_in(op, 2), *zero = op_opt(op, 3), *bias = op_opt(op, 5);
    int64_t k = op_int(op, "K", 0), n = op_int(op, "N", 0);
    Blocks b;
    if (a == NULL || w == NULL || scale == NULL || !blocks_of(op, &b)) return NULL;
    if (op_opt(op, 4) != NULL) return op_error(op, "with groups in another order (g_idx) it is not supported");
    if (k < 1 || n < 1 || k > 1 << 30 || n > 1 << 30) return op_error(op, "needs its sizes, `K` and `N`");
    int64_t blocks = (k + b.block - 1) / b.block;
    Ix N = ix(g, n), K = ix(g, k), per = ix(g, blocks);
    Node *q = unpacked(op, g_reshape(g, w, 2, (Ix[]){N, ix(g, blocks * b.block * b.bits / 8)}), K, b.bits);
    bool packed = zero != NULL && elem_is_int((Elem)zero->elem);
    Node *from = packed ? unpacked(op, g_reshape(g, zero, 2, (Ix[]){N, ix(g, (blocks * b.bits + 7) / 8)}), per, b.bits)
                        : zero != NULL ? g_reshape(g, zero, 2, (Ix[]){N, per}) : NULL;
    Node *of = dequantised(op, q, g_reshape(g, scale, 2, (Ix[]){N, per}), from, K, b, (Elem)a->elem);
    Node *y = of != NULL ? g_matmul(g, a, g_transpose(g, of, 2, (int[]){1, 0})) : NULL;
    return bias != NULL ? g_ew2(g, EW_add, y, bias) : y;
}

static Node *lower_gather_blocks(Op *op) {
    Graph *g = op->g;
    Node *data = op_in(op, 0), *at = op_in(op, 1), *scale = op_in(op, 2), *zero = op_opt(op, 3);
    Blocks b;
    if (data == NULL || at == NULL || scale == NULL || !blocks_of(op, &b)) return NULL;
    int gather = op_axis(op, data, "gather_axis", 0), quantised = op_axis(op, data, "quantize_axis", 1);
    if (gather < 0 || quantised < 0) return NULL;
    if (gather != 0 || quantised != data->rank - 1 || data->rank < 2 || scale->rank != data->rank)
        return op_error(op, "gathers rows whose last dimension is in blocks, each with a scale");
    bool bytes = data->elem == EL_u8 && onnx_type_plain(op_in_type(op, 0));   // several to a byte, not int4 of ONNX
    Ix count = bytes ? ix_muli(g, data->shape[quantised], 8 / b.bits) : data->shape[quantised];
    Node *q = g_gather_axis(g, data, at, 0), *s = g_gather_axis(g, scale, at, 0),
         *z = zero != NULL ? g_gather_axis(g, zero, at, 0) : NULL;
    if (q == NULL || s == NULL || (zero != NULL && z == NULL)) return NULL;
    if (bytes) q = unpacked(op, q, count, b.bits);
    if (bytes && z != NULL) z = unpacked(op, z, s->shape[s->rank - 1], b.bits);
    Node *x = g_cast(g, q, EL_f32);
    if (z != NULL) x = g_ew2(g, EW_sub, x, g_cast(g, by_block(g, z, count, b.block), EL_f32));
    else if (bytes) x = g_ew2f(g, EW_sub, x, 1 << (b.bits - 1));
    return g_cast(g, g_ew2(g, EW_mul, x, g_cast(g, by_block(g, s, count, b.block), EL_f32)), (Elem)scale->elem);
}

// ---- QLinear.. --------------------------------------------------------------------------------------

// Inputs i, i + 1, i + 2: numbers, scale, zero point; as f32.
static Node *real(Op *op, int i) {
    Graph *g = op->g;
    Node *x = op_in(op, i), *scale = op_in(op, i + 1), *zero = op_opt(op, i + 2);
    if (x == NULL || scale == NULL) return NULL;
    return g_ew2(g, EW_mul, g_cast(g, op_centred(g, x, op_one(g, zero)), EL_f32), op_one(g, g_cast(g, scale, EL_f32)));
}

// Quantised as inputs i and i + 1 say: scale and zero point (of whose type; without one, of `elem`).
static Node *whole(Op *op, Node *y, int i, Elem elem) {
    Graph *g = op->g;
    Node *scale = op_in(op, i), *zero = op_opt(op, i + 1);
    if (y == NULL || scale == NULL) return NULL;
    if (zero != NULL) elem = (Elem)zero->elem;
    return op_saturated(g, g_ew1(g, EW_round, g_ew2(g, EW_div, y, op_one(g, g_cast(g, scale, EL_f32)))),
                        op_one(g, zero), elem, elem_bits(elem));
}

static Elem elem_of(const Node *x) { return x != NULL ? (Elem)x->elem : EL_u8; }

static Node *lower_qlinear_pair(Op *op) {
    return whole(op, g_ew2(op->g, (GEw)op->row, real(op, 0), real(op, 3)), 6, elem_of(op_opt(op, 0)));
}

enum { Q_SIGMOID, Q_LEAKY, Q_GLOBAL, Q_POOL, Q_SOFTMAX, Q_MEAN };

static Node *channels(Graph *g, Node *x, bool back) {           // channels last to second, and back
    int perm[G_MAX_RANK];
    for (int d = 0; x != NULL && d < x->rank; d++)
        perm[d] = d == 0 ? 0 : back ? (d == x->rank - 1 ? 1 : d + 1) : d == 1 ? x->rank - 1 : d - 1;
    return x != NULL ? g_transpose(g, x, x->rank, perm) : NULL;
}

// ONNX's operator of the same or another name, of pictures with channels last where `last` says so.
static Node *of_pictures(Op *op, const char *type, int version, bool last) {
    Graph *g = op->g;
    Node *in[9] = {op_in(op, 0)};
    if (in[0] == NULL) return NULL;
    if (op->nin > (int)(sizeof in / sizeof *in)) return op_error(op, "has %d inputs", op->nin);
    if (in[0]->rank < 3) return op_error(op, "its picture should have 3 dimensions or more, not %d", in[0]->rank);
    for (int i = 1; i < op->nin; i++) in[i] = op_opt(op, i);
    if (last) in[0] = channels(g, in[0], false);
    Node *y = op_as(op, type, version, in, op->nin);
    return last ? channels(g, y, true) : y;
}

static Node *lower_qlinear_conv(Op *op) { return of_pictures(op, "QLinearConv", 10, op_int(op, "channels_last", 0) != 0); }
static Node *lower_nhwc_max_pool(Op *op) { return of_pictures(op, "MaxPool", 12, true); }

static Node *lower_qlinear_where(Op *op) {
    return whole(op, g_where(op->g, op_in(op, 0), real(op, 1), real(op, 4)), 7, elem_of(op_opt(op, 1)));
}

static Node *lower_qlinear_one(Op *op) {
    Graph *g = op->g;
    Node *x = real(op, 0), *y = NULL;
    bool pool = op->row == Q_GLOBAL || op->row == Q_POOL, last = pool && op_int(op, "channels_last", 0) != 0;
    if (x == NULL) return NULL;
    if (last && x->rank > 2) x = channels(g, x, false);
    if (op->row == Q_SIGMOID) y = g_ew1(g, EW_sigmoid, x);
    if (op->row == Q_LEAKY) y = g_where(g, g_ew2f(g, EW_lt, x, 0), g_ew2f(g, EW_mul, x, op_float(op, "alpha", 0.01f)), x);
    if (op->row == Q_GLOBAL) y = op_as(op, "GlobalAveragePool", 1, &x, 1);
    if (op->row == Q_POOL) y = op_as(op, "AveragePool", 11, &x, 1);
    if (op->row == Q_MEAN) y = op_as(op, "ReduceMean", 11, &x, 1);
    if (op->row == Q_SOFTMAX) {
        int64_t opset = op_int(op, "opset", 13);
        if (opset < 1 || opset > 1000) return op_error(op, "there is no opset %lld", (long long)opset);
        y = op_as(op, "Softmax", (int)opset, &x, 1);
    }
    if (last && y != NULL && y->rank > 2) y = channels(g, y, true);
    return whole(op, y, 3, elem_of(op_opt(op, 0)));
}

static Node *lower_qlinear_concat(Op *op) {
    Graph *g = op->g;
    int n = (op->nin - 2) / 3;
    Node **part = NEW_N(g->arena, Node *, n + 1);
    for (int i = 0; i < n; i++)
        if ((part[i] = real(op, 2 + 3 * i)) == NULL) return NULL;
    if (n < 1 || !op_given(op, "axis")) return op_error(op, "needs values and an axis");
    return whole(op, g_concat(g, op_axis(op, part[0], "axis", 0), part, n), 0, EL_u8);
}

// One for each column of the right operand, or one for all.
static Node *scales(Graph *g, Node *a, Node *b) {
    return g_ew2(g, EW_mul, op_one(g, g_cast(g, a, EL_f32)), op_one(g, g_cast(g, b, EL_f32)));
}

static Node *lower_qgemm(Op *op) {
    Graph *g = op->g;
    Node *in[6], *c = op_opt(op, 6), *to = op_opt(op, 7);
    double alpha = op_float(op, "alpha", 1);
    for (int i = 0; i < 6; i++)
        if ((in[i] = op_opt(op, i)) == NULL && i % 3 != 2) return op_in(op, i);
    bool across = op_int(op, "transB", 0) != 0;
    Node *zero = op_one(g, in[5]);
    if (zero != NULL && zero->rank == 1 && across) zero = g_unsqueeze(g, zero, 2);
    Node *a = op_centred(g, in[0], op_one(g, in[2])), *b = op_centred(g, in[3], zero);
    if (a == NULL || b == NULL || a->rank != 2 || b->rank != 2) return a && b ? op_error(op, "multiplies matrices") : NULL;
    if (op_int(op, "transA", 0) != 0) a = g_transpose(g, a, 2, (int[]){1, 0});
    if (across) b = g_transpose(g, b, 2, (int[]){1, 0});
    Node *sum = g_matmul(g, a, b);
    if (c != NULL) sum = g_ew2(g, EW_add, sum, c);
    Node *y = g_ew2(g, EW_mul, g_cast(g, sum, EL_f32), scales(g, in[1], in[4]));
    if (alpha != 1) y = g_ew2f(g, EW_mul, y, alpha);
    return to != NULL ? whole(op, y, 7, elem_of(in[0])) : y;
}

static Node *lower_matmul_to_float(Op *op) {
    Graph *g = op->g;
    bool dynamic = op->row == 1;
    Node *a = op_in(op, 0), *b = op_in(op, 1), *scale_b = op_in(op, dynamic ? 2 : 3),
         *zero_b = op_opt(op, dynamic ? 3 : 5), *bias = op_opt(op, dynamic ? 4 : 6);
    Node *scale_a = NULL, *zero_a = NULL;
    if (a == NULL || b == NULL || scale_b == NULL) return NULL;
    if (dynamic) {
        if (a->elem != EL_f32) return op_error(op, "quantises f32, not %s", elem_name((Elem)a->elem));
        a = op_dynamic(g, a, &scale_a, &zero_a);
    } else {
        scale_a = op_in(op, 2), zero_a = op_opt(op, 4);
    }
    if (scale_a != NULL && scale_a->rank == 1 && !ix_is(scale_a->shape[0], 1)) scale_a = g_unsqueeze(g, scale_a, 2);
    Node *sum = g_matmul(g, op_centred(g, a, op_one(g, zero_a)), op_centred(g, b, op_one(g, zero_b)));
    Node *y = g_ew2(g, EW_mul, g_cast(g, sum, EL_f32), scales(g, scale_a, scale_b));
    return bias != NULL ? g_ew2(g, EW_add, y, bias) : y;
}

static Node *lower_quantize(Op *op) {
    return op_as(op, op->row == 0 ? "QuantizeLinear" : "DequantizeLinear", 23, op->in, op->nin);
}

#define MS_OP(type, lower, arg) {type, 1, lower, arg, NULL, "com.microsoft"}
// clang-format off
const OpRow ops_ort_quant[] = {
    MS_OP("MatMulNBits", lower_matmul_nbits, 0),        MS_OP("GatherBlockQuantized", lower_gather_blocks, 0),
    MS_OP("QLinearAdd", lower_qlinear_pair, EW_add),    MS_OP("QLinearMul", lower_qlinear_pair, EW_mul),
    MS_OP("QLinearSigmoid", lower_qlinear_one, Q_SIGMOID), MS_OP("QLinearLeakyRelu", lower_qlinear_one, Q_LEAKY),
    MS_OP("QLinearGlobalAveragePool", lower_qlinear_one, Q_GLOBAL), MS_OP("QLinearAveragePool", lower_qlinear_one, Q_POOL),
    MS_OP("QLinearSoftmax", lower_qlinear_one, Q_SOFTMAX), MS_OP("QLinearConcat", lower_qlinear_concat, 0),
    MS_OP("QLinearConv", lower_qlinear_conv, 0), MS_OP("NhwcMaxPool", lower_nhwc_max_pool, 0), MS_OP("QLinearWhere", lower_qlinear_where, 0),
    MS_OP("QLinearReduceMean", lower_qlinear_one, Q_MEAN),
    MS_OP("QGemm", lower_qgemm, 0), MS_OP("MatMulIntegerToFloat", lower_matmul_to_float, 0), MS_OP("DynamicQuantizeMatMul", lower_matmul_to_float, 1),
    MS_OP("QuantizeLinear", lower_quantize, 0), MS_OP("DequantizeLinear", lower_quantize, 1),
    {0},
};
// clang-format on

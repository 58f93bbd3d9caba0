// One input, one output, element by element; what has a kind of its own in the graph. Activations are in
// op/activation.c.
#include "graph/op/op.h"

static Node *lower_unary(Op *op) { return g_ew1(op->g, (GEw)op->row, op_in(op, 0)); }

static Node *lower_identity(Op *op) { return op->nin > 0 && op_is_sequence(op->in[0]) ? op->in[0] : op_in(op, 0); }

static Node *lower_reciprocal(Op *op) {
    Node *x = op_in(op, 0);
    return x != NULL ? g_ew2(op->g, EW_div, g_f(op->g, (Elem)x->elem, 1), x) : NULL;
}

static Node *lower_isinf(Op *op) {
    Node *x = op_in(op, 0), *inf = g_ew1(op->g, EW_isinf, x);
    bool negative = op_int(op, "detect_negative", 1) != 0, positive = op_int(op, "detect_positive", 1) != 0;
    if (inf == NULL || (negative && positive)) return inf;
    if (!negative && !positive) return g_full(op->g, EL_bool, x->rank, x->shape, g_int(0));
    return g_ew2(op->g, EW_and, inf, g_ew2f(op->g, negative ? EW_lt : EW_gt, x, 0));
}

// Dropout does nothing at inference; its second output, the mask, is all true (before opset 10: ones of x's type).
static Node *lower_dropout(Op *op) {
    Node *x = op_in(op, 0);
    GNum ratio, training = g_int(0);
    bool given = op_opt(op, 1) != NULL && g_scalar_value(op->in[1], &ratio);
    bool none = given && (ratio.is_int ? ratio.i == 0 : ratio.f == 0);
    if (x == NULL) return NULL;
    if (op_opt(op, 2) != NULL && !none) {
        int64_t on;
        if (!op_known_int(op, 2, &on)) return NULL;
        training = g_int(on);
        if (on != 0 && op_opt(op, 1) != NULL && !given) {
            int n;
            const double *r = op_known_floats(op, 1, &n);
            if (r == NULL) return NULL;
            none = n == 1 && r[0] == 0;
        }
    }
    if (training.i != 0 && !none) return op_out_of_scope(op, "random numbers");
    if (op_wants(op, 1))
        op_out(op, 1, g_full(op->g, op->version >= 10 ? EL_bool : (Elem)x->elem, x->rank, x->shape, g_int(1)));
    return x;
}

// clang-format off
const OpRow ops_unary[] = {
    OP_OF("Abs",   1, lower_unary, EW_abs),   OP_OF("Neg",   1, lower_unary, EW_neg),   OP_OF("Sign",    9, lower_unary, EW_sign),    OP_OF("Floor", 1, lower_unary, EW_floor),
    OP_OF("Ceil",  1, lower_unary, EW_ceil),  OP_OF("Round", 11, lower_unary, EW_round), OP_OF("Sqrt",   1, lower_unary, EW_sqrt),    OP_OF("Exp",   1, lower_unary, EW_exp),
    OP_OF("Log",   1, lower_unary, EW_log),   OP_OF("Sin",   7, lower_unary, EW_sin),   OP_OF("Cos",     7, lower_unary, EW_cos),     OP_OF("Tan",   7, lower_unary, EW_tan),
    OP_OF("Asin",  7, lower_unary, EW_asin),  OP_OF("Acos",  7, lower_unary, EW_acos),  OP_OF("Atan",    7, lower_unary, EW_atan),    OP_OF("Sinh",  9, lower_unary, EW_sinh),
    OP_OF("Cosh",  9, lower_unary, EW_cosh),  OP_OF("Tanh",  1, lower_unary, EW_tanh),  OP_OF("Asinh",   9, lower_unary, EW_asinh),   OP_OF("Acosh", 9, lower_unary, EW_acosh),
    OP_OF("Atanh", 9, lower_unary, EW_atanh), OP_OF("Erf",   9, lower_unary, EW_erf),   OP_OF("Sigmoid", 1, lower_unary, EW_sigmoid), OP_OF("Not",   1, lower_unary, EW_not),
    OP_OF("IsNaN", 9, lower_unary, EW_isnan), OP_OF("BitwiseNot", 18, lower_unary, EW_not),
    OP("IsInf", 10, lower_isinf), OP("Reciprocal", 1, lower_reciprocal), OP("Identity", 1, lower_identity), OP("Dropout", 1, lower_dropout),
    {0},
};
// clang-format on

// Two or more inputs, element by element, with broadcasting: arithmetic, comparison, logic, bits.
//
// Before opset 7 broadcasting was asked for, by `broadcast`, and `axis` said at which axis of the first operand the
// second one begins: [2,3,4] and [3] at axis 1. Then the second gets axes of size 1 at its end, and the general rule
// holds.
#include "graph/op/op.h"

#include <string.h>

static Node *old_broadcast(Op *op, Node *a, Node *b) {
    if (a == NULL || b == NULL || op->version >= 7 || b->rank >= a->rank || op_int(op, "broadcast", 0) == 0) return b;
    int64_t axis = op_int(op, "axis", a->rank - b->rank);
    if (axis < 0) axis += a->rank;
    if (axis < 0 || axis + b->rank > a->rank)
        return op_error(op, "axis %lld does not fit operands with %d and %d dimensions", (long long)axis, a->rank,
                        b->rank);
    Ix shape[G_MAX_RANK];
    int rank = a->rank - (int)axis;
    for (int d = 0; d < rank; d++) shape[d] = d < b->rank ? b->shape[d] : ix(op->g, 1);
    return g_reshape(op->g, b, rank, shape);
}

static Node *lower_binary(Op *op) {
    Node *a = op_in(op, 0), *b = op_in(op, 1);
    return g_ew2(op->g, (GEw)op->row, a, old_broadcast(op, a, b));
}

static Node *lower_variadic(Op *op) {
    Node *n = op_in(op, 0);
    for (int i = 1; i < op->nin; i++) n = g_ew2(op->g, (GEw)op->row, n, op_in(op, i));
    return n;
}

static Node *lower_mean(Op *op) {
    Node *sum = lower_variadic(op);
    return sum != NULL ? g_ew2f(op->g, EW_div, sum, op->nin) : NULL;
}

// The result has the type of the base. An integer to a float's power is computed in floats.
static Node *lower_pow(Op *op) {
    Graph *g = op->g;
    Node *a = op_in(op, 0), *b = old_broadcast(op, a, op_in(op, 1));
    if (a == NULL || b == NULL) return NULL;
    Elem base = (Elem)a->elem;
    if (a->elem == b->elem) return g_ew2(g, EW_pow, a, b);
    if (elem_is_float(base)) return g_ew2(g, EW_pow, a, g_cast(g, b, base));
    Elem in = elem_is_float((Elem)b->elem) ? EL_f64 : EL_i64;
    return g_cast(g, g_ew2(g, EW_pow, g_cast(g, a, in), g_cast(g, b, in)), base);
}

static Node *lower_mod(Op *op) {
    return g_ew2(op->g, op_int(op, "fmod", 0) != 0 ? EW_rem : EW_mod, op_in(op, 0), op_in(op, 1));
}

static Node *lower_shift(Op *op) {
    const char *direction = op_text(op, "direction", "");
    bool left = strcmp(direction, "LEFT") == 0;
    if (!left && strcmp(direction, "RIGHT") != 0) return op_error(op, "attribute `direction` must be LEFT or RIGHT");
    return g_ew2(op->g, left ? EW_shl : EW_shr, op_in(op, 0), op_in(op, 1));
}

static Node *lower_where(Op *op) {
    Node *c = op_in(op, 0);
    if (c != NULL && c->elem != EL_bool)
        return op_error(op, "its condition must be bool, not %s", elem_name((Elem)c->elem));
    return g_where(op->g, c, op_in(op, 1), op_in(op, 2));
}

// clang-format off
const OpRow ops_binary[] = {
    OP_OF("Add",   1, lower_binary, EW_add), OP_OF("Sub",     1, lower_binary, EW_sub), OP_OF("Mul",            1, lower_binary, EW_mul), OP_OF("Div",          1, lower_binary, EW_div),
    OP_OF("And",   1, lower_binary, EW_and), OP_OF("Or",      1, lower_binary, EW_or),  OP_OF("Xor",            1, lower_binary, EW_xor), OP_OF("Equal",        1, lower_binary, EW_eq),
    OP_OF("Less",  1, lower_binary, EW_lt),  OP_OF("Greater", 1, lower_binary, EW_gt),  OP_OF("GreaterOrEqual", 12, lower_binary, EW_ge), OP_OF("LessOrEqual", 12, lower_binary, EW_le),
    OP_OF("BitwiseAnd", 18, lower_binary, EW_and), OP_OF("BitwiseOr", 18, lower_binary, EW_or), OP_OF("BitwiseXor", 18, lower_binary, EW_xor),
    OP_OF("Min",   1, lower_variadic, EW_min), OP_OF("Max", 1, lower_variadic, EW_max), OP_OF("Sum", 1, lower_variadic, EW_add), OP_OF("Mean", 1, lower_mean, EW_add),
    OP("Pow",   1, lower_pow), OP("Mod", 10, lower_mod), OP("BitShift", 11, lower_shift), OP("Where", 9, lower_where),
    {0},
};
// clang-format on

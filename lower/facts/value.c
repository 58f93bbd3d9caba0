// What the launcher can compute (host_expr), as a value of the program: the other way round.
#include "lower/facts/facts.h"

enum { MAX_STEPS = 32 };

static const int8_t arithmetic[] = {
    [L_ADD] = OP_add, [L_SUB] = OP_sub, [L_MUL] = OP_mul, [L_DIV] = OP_div, [L_MOD] = OP_rem};

bool host_has_value(LExpr e) {
    for (uint32_t i = 0; i < e.n; i++) {
        LOp op = e.at[i].op;
        if (op != L_CONST && op != L_DIM && op != L_SCALAR && op != L_CDIV && op != L_MIN && op != L_MAX && (op < L_ADD || op > L_MOD))
            return false;
    }
    return e.n <= MAX_STEPS;
}

static Val *operand(Builder *b, LStep s) {
    const LaunchInfo *l = b->f->launch;
    if (s.op == L_CONST) return b_const(b, EL_index, s.arg);
    if (s.op == L_DIM && l->dims[s.arg].fixed >= 0) return b_const(b, EL_index, l->dims[s.arg].fixed);
    Elem e = s.op == L_DIM ? EL_index : l->params[s.arg].elem;
    Val *v = b_op(b, s.op == L_DIM ? OP_T_dim : OP_T_scalar, 0, type_scalar(e), 0, NULL);
    v->def->imm = s.arg;
    return e == EL_index ? v : b_cast(b, EL_index, v);
}

Val *host_value(Builder *b, LExpr e) {
    Val *st[MAX_STEPS];
    int n = 0;
    for (uint32_t i = 0; i < e.n; i++) {
        LStep s = e.at[i];
        if (s.op == L_CONST || s.op == L_DIM || s.op == L_SCALAR) { st[n++] = operand(b, s); continue; }
        n--;
        Val *x = st[n - 1], *y = st[n];
        if (s.op == L_MIN || s.op == L_MAX) st[n - 1] = b_op(b, OP_T_fun, s.op == L_MIN ? TF_min : TF_max, type_scalar(EL_index), 2, (Val *[]){x, y});
        else if (s.op == L_CDIV) st[n - 1] = b_binary(b, OP_div, b_binary(b, OP_add, x, b_binary(b, OP_sub, y, b_const(b, EL_index, 1))), y);
        else st[n - 1] = b_binary(b, (AstOp)arithmetic[s.op], x, y);
    }
    return st[0];
}

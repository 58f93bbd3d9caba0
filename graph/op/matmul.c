// MatMul and Gemm. (Products of quantised operands are with the quantisation, Einsum has its own file.)
#include "graph/op/op.h"

static Node *lower_matmul(Op *op) { return g_matmul(op->g, op_in(op, 0), op_in(op, 1)); }

// alpha * a' * b' + beta * c, where ' transposes if asked to. The factors and c are added in the element type of the
// sum.
static Node *lower_gemm(Op *op) {
    Graph *g = op->g;
    Node *a = op_in(op, 0), *b = op_in(op, 1), *c = op_opt(op, 2);
    double alpha = op_float(op, "alpha", 1), beta = op_float(op, "beta", 1);
    if (a == NULL || b == NULL) return NULL;
    if (a->rank != 2 || b->rank != 2)
        return op_error(op, "multiplies matrices, not values of %d and %d dimensions", a->rank, b->rank);
    if (a->elem != b->elem || (c != NULL && c->elem != a->elem))
        return op_error(op, "its operands have different element types");
    const char *spec = op_int(op, "transA", 0) != 0   ? op_int(op, "transB", 0) != 0 ? "km,nk->mn" : "km,kn->mn"
                       : op_int(op, "transB", 0) != 0 ? "mk,nk->mn"
                                                      : "mk,kn->mn";
    int ka = spec[0] == 'k' ? 0 : 1, kb = spec[3] == 'k' ? 0 : 1;
    g_require(g, a->shape[ka], b->shape[kb]);
    Elem elem = (Elem)a->elem;
    Node *y = g_einsum(g, spec, a, b);
    bool scaled = alpha != 1 || (c != NULL && beta != 1), small = elem_is_storage(elem) && scaled;
    if (small) y = g_cast(g, y, EL_f32), c = c != NULL ? g_cast(g, c, EL_f32) : NULL;
    if (alpha != 1) y = g_ew2f(g, EW_mul, y, alpha);
    if (c != NULL && beta != 0) y = g_ew2(g, EW_add, y, beta != 1 ? g_ew2f(g, EW_mul, c, beta) : c);
    return small ? g_cast(g, y, elem) : y;
}

const OpRow ops_matmul[] = {
    OP("MatMul", 1, lower_matmul),
    OP("Gemm", 1, lower_gemm),
    {0},
};

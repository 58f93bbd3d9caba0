// Products with a vector become multiplications and sums.
//
//     y[m] = dot(w[m, k], x[k] over k)     ->     y[m] = sum(f32(w[m, k]) * f32(x[k]) over k)
//
// With no free axis on one side every product is used once: there is nothing that tensor cores or shared
// memory could reuse, and a reduction reads the matrix in whatever layout its load likes best.
#include "lower/pass/passes.h"

static bool has_free_axis(const Op *dot, int side) {
    const Type *t = &dot->in[side]->type;
    for (int i = 0; i < t->rank; i++)
        if (type_axis(&dot->out[0]->type, t->axis[i]) >= 0 && type_axis(&dot->in[1 - side]->type, t->axis[i]) < 0)
            return true;
    return false;
}

static Val *as(Builder *b, Elem e, Val *x) { return x->type.elem == e ? x : b_cast(b, e, x); }

static void rewrite(Fn *f, Op *dot) {
    Builder b = {f, NULL, dot, dot->span};
    Elem e = (Elem)dot->out[0]->type.elem;
    int first = op_first_axis(dot), n = dot->nin - first;
    Val *x = b_binary(&b, OP_mul, as(&b, e, dot->in[0]), as(&b, e, dot->in[1])), *in[1 + MAX_AXES] = {x};
    for (int i = 0; i < n; i++) in[1 + i] = dot->in[first + i];
    Val *sum = b_op(&b, OP_T_reduce, TR_sum, type_minus(x->type, n, dot->in + first), 1 + n, in);
    if (op_acc(dot)) sum = b_binary(&b, OP_add, op_acc(dot), sum);
    sum->name = dot->out[0]->name;
    replace_uses(&f->body, dot->out[0], sum);
    op_remove(dot);
}

bool dot_to_reduce(Fn *f) {
    bool changed = false;
    for (Op *op = op_walk(&f->body, NULL), *next; op; op = next) {
        next = op_walk(&f->body, op);
        if (op->code != OP_T_dot || (has_free_axis(op, 0) && has_free_axis(op, 1))) continue;
        rewrite(f, op);
        changed = true;
    }
    return changed;
}

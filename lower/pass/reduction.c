// What every reduction starts from, and how two partial results of one join: the algebra that the passes share which
// take reductions apart (chunk, split, lanes).
//
//                   over nothing              joined
//     sum           0                         a + b
//     prod          1                         a * b
//     max           -inf, the least value     max(a, b)
//     min           inf, the greatest value   min(a, b)
//     any, every    false, true               a | b, a & b
//
// argmax and argmin carry two values, see argbest_join. f8e4m3 has no infinity; its greatest number stands for it.
#include "lower/pass/reduction.h"

#include <math.h>

static double lowest(Elem e) {
    if (e == EL_f8e4m3) return -448;
    return elem_is_float(e) ? -INFINITY : elem_is_signed(e) ? -ldexp(1, elem_bits(e) - 1) : 0;
}
static double highest(Elem e) {
    if (e == EL_f8e4m3) return 448;
    return elem_is_float(e) ? INFINITY : ldexp(1, elem_bits(e) - elem_is_signed(e)) - 1;
}

double reduce_neutral(TReduce kind, Elem e) {
    switch (kind) {
    case TR_prod: case TR_every: return 1;
    case TR_max: case TR_argmax: return lowest(e);
    case TR_min: case TR_argmin: return highest(e);
    default: return 0;
    }
}

Val *b_number(Builder *b, Type t, double x) {
    Elem e = (Elem)t.elem;
    Val *v = elem_is_float(e) ? b_float(b, e, x)
                              : b_const(b, e, x >= 0x1p63 ? (elem_is_signed(e) ? INT64_MAX : -1) : (int64_t)x);
    return t.rank ? b_op(b, OP_T_splat, 0, t, 1, &v) : v;
}

Val *reduce_join(Builder *b, TReduce kind, Val *x, Val *y) {
    switch (kind) {
    case TR_sum:   return b_binary(b, OP_add, x, y);
    case TR_prod:  return b_binary(b, OP_mul, x, y);
    case TR_any:   return b_binary(b, OP_or, x, y);
    case TR_every: return b_binary(b, OP_and, x, y);
    default:
        return b_op(b, OP_T_fun, kind == TR_max ? TF_max : TF_min, type_union(x->type, y->type), 2, (Val *[]){x, y});
    }
}

Op *scan_total(const Op *scan) {
    for (Op *op = scan->next; op; op = op->next)
        if (op->code == OP_T_reduce && !op->attr && op->sub == scan->sub && op->nin == 2 && op->in[0] == scan->in[0] &&
            op->in[1] == scan->in[1])
            return op;
    return NULL;
}

// The later part wins only with a better value, NaN before all others; -1 is the place over nothing.
ArgBest argbest_join(Builder *b, TReduce kind, ArgBest x, ArgBest y) {
    Type t = type_with(y.value->type, EL_bool);
    Val *better = b_binary(b, kind == TR_argmax ? OP_gt : OP_lt, y.value, x.value);
    if (elem_is_float((Elem)y.value->type.elem)) {
        Val *yn = b_op(b, OP_T_fun, TF_isnan, t, 1, &y.value), *xn = b_op(b, OP_T_fun, TF_isnan, t, 1, &x.value);
        better = b_binary(b, OP_or, better, b_binary(b, OP_and, yn, b_op(b, OP_T_unary, OP_not, t, 1, &xn)));
    }
    better = b_binary(b, OP_or, better, b_binary(b, OP_lt, x.at, b_const(b, (Elem)x.at->type.elem, 0)));
    return (ArgBest){b_op(b, OP_T_select, 0, y.value->type, 3, (Val *[]){better, y.value, x.value}),
                     b_op(b, OP_T_select, 0, x.at->type, 3, (Val *[]){better, y.at, x.at})};
}

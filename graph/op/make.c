// Values from nothing: Constant, ConstantOfShape, Range, EyeLike.
#include "graph/op/op.h"

#include <math.h>

static Node *lower_constant(Op *op) {
    Graph *g = op->g;
    int n = 0;
    if (op_given(op, "value")) return op_tensor(op, "value");
    if (op_given(op, "sparse_value")) return op_tensor(op, "sparse_value");
    if (op_given(op, "value_int")) return g_i(g, EL_i64, op_int(op, "value_int", 0));
    if (op_given(op, "value_float")) return g_f(g, EL_f32, op_float(op, "value_float", 0));
    if (op_given(op, "value_string") || op_given(op, "value_strings")) return op_out_of_scope(op, "strings");
    const int64_t *ints = op_ints(op, "value_ints", &n);
    if (ints != NULL) return g_vec_i64(g, n, ints);
    const float *floats = op_floats(op, "value_floats", &n);
    int64_t shape[1] = {n};
    return floats != NULL ? g_const(g, EL_f32, 1, shape, floats) : op_error(op, "has no value");
}

static Node *lower_constant_of_shape(Op *op) {
    Graph *g = op->g;
    int n = 0;
    const Ix *shape = op_known(op, 0, &n);
    Node *value = op_given(op, "value") ? op_tensor(op, "value") : g_f(g, EL_f32, 0);
    GNum v;
    if (shape == NULL || value == NULL) return NULL;
    if (n > G_MAX_RANK) return op_error(op, "asks for %d dimensions; %d are supported", n, G_MAX_RANK);
    for (int d = 0; d < n; d++)
        if (ix_is_const(shape[d]) && shape[d]->value < 0)
            return op_error(op, "a dimension is %lld", (long long)shape[d]->value);
    if (!ix_is(g_count(g, value), 1) || !g_scalar_value(value, &v))
        return op_error(op, "attribute `value` should hold one element");
    return g_full(g, (Elem)value->elem, n, shape, v);
}

static bool size_is_number(const GRatio *r) { return ix_is_const(r->num) && ix_is_const(r->den); }

// Of start, limit and delta: ceil((limit - start) / delta).
static Ix steps(Graph *g, const GRatio *const *r) {
    const GRatio *a = r[0], *b = r[1], *d = r[2];
    Ix span = ix_sub(g, ix_mul(g, b->num, a->den), ix_mul(g, a->num, b->den)), den = ix_mul(g, a->den, b->den);
    return ix_max(g, ix_ceildiv(g, ix_mul(g, span, d->den), ix_mul(g, den, d->num)), ix(g, 0));
}

static Node *ramp(Graph *g, Node *start, Node *delta, Ix size) {
    Elem elem = (Elem)start->elem;
    if (size == NULL) return NULL;
    Node *i = g_iota(g, elem_is_float(elem) ? EL_i64 : elem, 1, &size, 0);
    if (elem_is_storage(elem)) {
        Node *wide = g_ew2(g, EW_add, g_ew2(g, EW_mul, g_cast(g, i, EL_f32), g_cast(g, delta, EL_f32)),
                           g_cast(g, start, EL_f32));
        return g_reshape(g, g_cast(g, wide, elem), 1, &size);
    }
    return g_reshape(g, g_ew2(g, EW_add, g_ew2(g, EW_mul, g_cast(g, i, elem), delta), start), 1, &size);
}

// start, start + delta, .. before limit. Integers may come from sizes; then the length is an expression of them.
static Node *lower_range(Op *op) {
    Graph *g = op->g;
    Node *start = op_in(op, 0), *delta = op_in(op, 2);
    if (start == NULL || op_in(op, 1) == NULL || delta == NULL) return NULL;
    Elem elem = (Elem)start->elem;
    int n[3] = {1, 1, 1};
    Ix size;
    if (elem_is_float(elem)) {
        const GRatio *r[3] = {g_known_ratios(g, start, &n[0]), g_known_ratios(g, op->in[1], &n[1]), g_known_ratios(g, delta, &n[2])};
        if (r[0] != NULL && r[1] != NULL && r[2] != NULL && n[0] * n[1] * n[2] == 1 && r[2]->num->lo > 0 && !(size_is_number(r[0]) && size_is_number(r[1])))
            return ramp(g, start, delta, steps(g, r));
        const double *a = op_known_floats(op, 0, &n[0]), *b = op_known_floats(op, 1, &n[1]),
                     *d = op_known_floats(op, 2, &n[2]);
        if (a == NULL || b == NULL || d == NULL) return NULL;
        if (n[0] != 1 || n[1] != 1 || n[2] != 1) return op_error(op, "its inputs should be one number each");
        double count = ceil((b[0] - a[0]) / d[0]);
        if (!(count < 0x1p40)) return op_error(op, "has no end");
        size = ix(g, count > 0 ? (int64_t)count : 0);
    } else {
        const Ix *a = op_known(op, 0, &n[0]), *b = op_known(op, 1, &n[1]);
        int64_t d;
        if (a == NULL || b == NULL || !op_known_int(op, 2, &d)) return NULL;
        if (n[0] != 1 || n[1] != 1) return op_error(op, "its inputs should be one number each");
        if (d == 0 || d == INT64_MIN) return op_error(op, "its step is %lld", (long long)d);
        Ix span = d > 0 ? ix_sub(g, b[0], a[0]) : ix_sub(g, a[0], b[0]);
        size = ix_max(g, ix_ceildiv(g, span, ix(g, d > 0 ? d : -d)), ix(g, 0));
    }
    return ramp(g, start, delta, size);
}

static Node *lower_eye_like(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    if (x == NULL) return NULL;
    Elem elem = op_elem(op, "dtype", (Elem)x->elem);
    int64_t k = op_int(op, "k", 0);
    if (elem == EL_none) return NULL;
    if (x->rank != 2) return op_error(op, "makes a matrix like its input, which has %d dimensions", x->rank);
    Ix row = ix_axis(g, 0, x->shape[0]), col = ix_axis(g, 1, x->shape[1]);
    if (k > INT32_MAX || k < INT32_MIN) return g_full(g, elem, 2, x->shape, g_int(0));
    return g_cast(g, g_index(g, EL_bool, 2, x->shape, ix_eq(g, ix_addi(g, row, k), col)), elem);
}

const OpRow ops_make[] = {
    OP("Constant", 1, lower_constant),
    OP("ConstantOfShape", 9, lower_constant_of_shape),
    OP("Range", 11, lower_range),
    OP("EyeLike", 9, lower_eye_like),
    {0},
};

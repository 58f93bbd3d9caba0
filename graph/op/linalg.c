// Det: determinants of the last two axes, by elimination with pivoting, written out for the size of the matrix.
#include "graph/op/op.h"

enum { LARGEST = 256 };                // matrix that is written out

// Column `at` of the rows as [.., n], without the column's axis.
static Node *column(Graph *g, Node *a, int at) {
    return a != NULL ? g_squeeze(g, g_take_range(g, a, a->rank - 1, ix(g, at), 1, ix(g, 1)), 1u << (a->rank - 1)) : NULL;
}

static Node *lower_det(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int64_t n;
    if (x == NULL) return NULL;
    if (x->rank < 2) return op_error(op, "needs a matrix; its input has %d dimensions", x->rank);
    if (!elem_is_float((Elem)x->elem)) return op_error(op, "takes floats, not %s", elem_name((Elem)x->elem));
    g_require(g, x->shape[x->rank - 2], x->shape[x->rank - 1]);
    if (!op_fixed(op, x->shape[x->rank - 1], &n)) return NULL;
    if (n > LARGEST) return op_error(op, "matrices larger than %d are not supported", LARGEST);
    Elem elem = (Elem)x->elem, wide = elem == EL_f64 ? EL_f64 : EL_f32;
    int rank = x->rank, rows = rank - 2;
    Node *a = g_cast(g, x, wide), *det = g_full(g, wide, rows, x->shape, g_int(1));
    // one row and column less in each step: a is [.., m, m]
    for (int64_t m = n; m >= 1 && a != NULL; m--) {
        Node *lead = column(g, a, 0);                                         // [.., m]
        Node *at = g_arg_reduce(g, GR_argmax, g_ew1(g, EW_abs, lead), rows, true, false);      // [.., 1]
        Node *pivot = g_gather_elements(g, lead, at, rows);                   // [.., 1]
        Node *first = g_ew2f(g, EW_eq, at, 0);
        Node *sign = g_where(g, first, g_f(g, wide, 1), g_f(g, wide, -1));
        det = g_ew2(g, EW_mul, det, g_squeeze(g, g_ew2(g, EW_mul, pivot, sign), 1u << rows));
        if (m == 1 || at == NULL) break;
        // rows with the pivot's put away: what was row 0 takes its place
        Ix size = ix(g, m - 1), shape[G_MAX_RANK], whole[G_MAX_RANK];
        for (int d = 0; d < rank; d++) shape[d] = whole[d] = d < rows ? x->shape[d] : d == rows ? size : ix(g, m);
        whole[rows] = ix(g, 1);
        Node *i = g_ew2f(g, EW_add, g_iota(g, EL_i64, rank, shape, rows), 1);
        Node *p = g_unsqueeze(g, at, 1u << (rank - 1));                       // [.., 1, 1]
        Node *from = g_where(g, g_ew2(g, EW_eq, i, p), g_i(g, EL_i64, 0), i);
        Node *rest = g_gather_elements(g, a, from, rows);                     // [.., m - 1, m]
        Node *top = g_gather_elements(g, a, g_broadcast_to(g, p, rank, whole, NULL), rows);    // [.., 1, m]
        Node *zero = g_ew2f(g, EW_eq, pivot, 0), *one = g_f(g, wide, 1);
        Node *factor = g_ew2(g, EW_div, column(g, rest, 0), g_where(g, zero, one, pivot));     // [.., m - 1]
        Node *less = g_ew2(g, EW_mul, g_unsqueeze(g, factor, 1u << (rank - 1)), top);
        a = g_take_range(g, g_ew2(g, EW_sub, rest, less), rank - 1, ix(g, 1), 1, size);
    }
    return g_cast(g, det, elem);
}

const OpRow ops_linalg[] = {
    OP("Det", 11, lower_det),
    {0},
};

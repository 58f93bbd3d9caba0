// Reading between elements (op/sample.h).
#include "graph/op/sample.h"

bool op_taps_linear(Op *op, Node *at, Ix size, bool inside, Taps *t) {
    Graph *g = op->g;
    if (at == NULL || size == NULL) return false;
    Elem e = (Elem)at->elem;
    Node *last = g_size(g, EL_i64, ix_addi(g, size, -1));
    if (inside) at = g_ew2(g, EW_min, g_ew2f(g, EW_max, at, 0), g_cast(g, last, e));
    Node *low = g_ew1(g, EW_floor, at), *i = g_cast(g, low, EL_i64), *next = g_ew2f(g, EW_add, i, 1);
    Node *part = g_ew2(g, EW_sub, at, low);
    *t = (Taps){2, {i, inside ? g_ew2(g, EW_min, next, last) : next}, {g_ew2(g, EW_sub, g_f(g, e, 1), part), part}};
    return t->index[1] != NULL && t->weight[0] != NULL;
}

typedef struct Read {
    Op *op;
    Node *x, *index[G_MAX_RANK];
    int rank, n, nindex;
    const Ix *shape;
    Ix coord[G_MAX_RANK];
    const Taps *taps;
    GEw join;
} Read;

static Node *read(Read *r, int axis, Node *weight, Node *sum) {
    Graph *g = r->op->g;
    if (axis == r->n) {
        Node *v = g_gather(g, r->x, r->rank, r->shape, r->coord, r->index, r->nindex + r->n, false, g_int(0));
        if (weight != NULL) v = g_ew2(g, EW_mul, v, weight);
        return sum != NULL ? g_ew2(g, r->join, sum, v) : v;
    }
    const Taps *t = &r->taps[axis];
    for (int k = 0; k < t->n; k++) {
        r->index[r->nindex + axis] = t->index[k];
        Node *w = weight == NULL ? t->weight[k] : t->weight[k] == NULL ? weight : g_ew2(g, EW_mul, weight, t->weight[k]);
        sum = read(r, axis + 1, w, sum);
        if (sum == NULL) return NULL;
    }
    return sum;
}

Node *op_read_taps(Op *op, Node *x, int n, const Taps *taps, int rank, const Ix *shape, const Ix *coord, Node *first,
                   GEw join) {
    Read r = {.op = op, .x = x, .rank = rank, .n = n, .shape = shape, .taps = taps, .join = join};
    if (x == NULL) return NULL;
    for (int d = 0; d < x->rank - n; d++) r.coord[d] = coord[d];
    if (first != NULL) r.index[r.nindex++] = first;
    return read(&r, 0, NULL, NULL);
}

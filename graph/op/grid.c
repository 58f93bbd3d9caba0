// Reading images at a grid of places: GridSample, AffineGrid.
//
// A grid's coordinates run from -1 to 1 over the image, its last axis names the image's axes from the last to the first
// (x, y, z). What lies outside is zero, or the border's element, or the image mirrored; mirrored at the centres of the
// outermost elements if align_corners, else at their outer edges.
#include "graph/op/sample.h"

typedef enum Outside { OUT_ZEROS, OUT_BORDER, OUT_REFLECTION } Outside;

typedef struct Grid {
    Op     *op;
    Elem    elem;                      // of coordinates and weights
    Outside outside;
    bool    align;
} Grid;

static Node *number(const Grid *s, double v) { return g_f(s->op->g, s->elem, v); }
static Node *ew(const Grid *s, GEw op, Node *a, Node *b) { return g_ew2(s->op->g, op, a, b); }

static Node *clamp(const Grid *s, Node *at, Node *lo, Node *hi) { return ew(s, EW_min, ew(s, EW_max, at, lo), hi); }

// A triangle wave between the borders.
static Node *reflect(const Grid *s, Node *at, Ix size) {
    Graph *g = s->op->g;
    if (s->align && ix_is(size, 1)) return ew(s, EW_mul, at, number(s, 0));
    Node *low = number(s, s->align ? 0 : -0.5), *range = g_size(g, s->elem, ix_addi(g, size, s->align ? -1 : 0));
    Node *along = ew(s, EW_mod, ew(s, EW_sub, at, low), g_ew2f(g, EW_mul, range, 2));
    return ew(s, EW_add, ew(s, EW_sub, range, g_ew1(g, EW_abs, ew(s, EW_sub, along, range))), low);
}

// A coordinate that lies outside the borders, moved inside.
static Node *inside(const Grid *s, Node *at, Ix size) {
    Graph *g = s->op->g;
    if (s->outside == OUT_ZEROS) return at;
    Node *last = g_size(g, s->elem, ix_addi(g, size, -1)), *edge = number(s, s->align ? 0 : 0.5);
    Node *out = ew(s, EW_or, ew(s, EW_lt, at, g_ew1(g, EW_neg, edge)), ew(s, EW_gt, at, ew(s, EW_add, last, edge)));
    return g_where(g, out, s->outside == OUT_BORDER ? clamp(s, at, number(s, 0), last) : reflect(s, at, size), at);
}

// A whole number as an index; out of range it stays only for zeros.
static Node *index_of(const Grid *s, Node *at, Ix size) {
    Graph *g = s->op->g;
    Node *last = g_size(g, s->elem, ix_addi(g, size, -1));
    if (s->outside == OUT_REFLECTION) at = g_ew1(g, EW_trunc, reflect(s, at, size));
    if (s->outside != OUT_ZEROS) at = clamp(s, at, number(s, 0), last);
    return g_cast(g, at, EL_i64);
}

static bool nearest(const Grid *s, Node *at, Ix size, Taps *t) {
    Node *whole = g_ew1(s->op->g, EW_trunc, inside(s, g_ew1(s->op->g, EW_round, at), size));
    *t = (Taps){1, {index_of(s, whole, size)}, {NULL}};
    return t->index[0] != NULL;
}

// Keys' cubic with a = -0.75: the weights of the elements at -1, 0, 1, 2 from the one below.
static Node *cubic_near(const Grid *s, Node *d) {               // |d| <= 1
    Graph *g = s->op->g;
    const double a = -0.75;
    Node *line = g_ew2f(g, EW_sub, g_ew2f(g, EW_mul, d, a + 2), a + 3);
    return g_ew2f(g, EW_add, ew(s, EW_mul, ew(s, EW_mul, line, d), d), 1);
}

static Node *cubic_far(const Grid *s, Node *d) {                // 1 <= |d| <= 2
    Graph *g = s->op->g;
    const double a = -0.75;
    Node *line = g_ew2f(g, EW_sub, g_ew2f(g, EW_mul, d, a), 5 * a);
    Node *quad = g_ew2f(g, EW_add, ew(s, EW_mul, line, d), 8 * a);
    return g_ew2f(g, EW_sub, ew(s, EW_mul, quad, d), 4 * a);
}

// The place of a cubic stays where it is: only what it reads is moved inside, as PyTorch has it.
static bool smooth(const Grid *s, Node *at, Ix size, bool cubic, Taps *t) {
    Graph *g = s->op->g;
    if (!cubic) at = inside(s, at, size);
    Node *low = g_ew1(g, EW_floor, at), *part = ew(s, EW_sub, at, low);
    if (part == NULL) return false;
    Node *rest = ew(s, EW_sub, number(s, 1), part);
    int from = cubic ? -1 : 0;
    t->n = cubic ? 4 : 2;
    for (int k = 0; k < t->n; k++) t->index[k] = index_of(s, g_ew2f(g, EW_add, low, k + from), size);
    if (cubic) {
        t->weight[0] = cubic_far(s, g_ew2f(g, EW_add, part, 1));
        t->weight[1] = cubic_near(s, part);
        t->weight[2] = cubic_near(s, rest);
        t->weight[3] = cubic_far(s, g_ew2f(g, EW_add, rest, 1));
    } else {
        t->weight[0] = rest;
        t->weight[1] = part;
    }
    return g_failed(g) == NULL;
}

static Node *lower_grid_sample(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *grid = op_in(op, 1);
    if (x == NULL || grid == NULL) return NULL;
    int n = x->rank - 2;
    if (n < 1 || grid->rank != x->rank || n > 4)
        return op_error(op, "its image has %d dimensions, its grid %d", x->rank, grid->rank);
    if (!elem_is_float((Elem)x->elem) || !elem_is_float((Elem)grid->elem)) return op_error(op, "reads floats at floats");
    bool near = op_is(op, "mode", "bilinear", "nearest"),
         cubic = op_is(op, "mode", "bilinear", "cubic") || op_is(op, "mode", "bilinear", "bicubic");
    bool linear = op_is(op, "mode", "bilinear", "bilinear") || op_is(op, "mode", "bilinear", "linear");
    if (!near && !cubic && !linear) return op_error(op, "attribute `mode` must be linear, nearest or cubic");
    bool border = op_is(op, "padding_mode", "zeros", "border"), mirror = op_is(op, "padding_mode", "zeros", "reflection");
    if (!border && !mirror && !op_is(op, "padding_mode", "zeros", "zeros"))
        return op_error(op, "attribute `padding_mode` must be zeros, border or reflection");
    g_require(g, x->shape[0], grid->shape[0]);
    g_require(g, grid->shape[n + 1], ix(g, n));
    Elem wide = x->elem == EL_f64 || grid->elem == EL_f64 ? EL_f64 : EL_f32;
    Grid s = {op, wide, border ? OUT_BORDER : mirror ? OUT_REFLECTION : OUT_ZEROS, op_int(op, "align_corners", 0) != 0};
    Node *where = g_cast(g, grid, wide);
    Ix shape[G_MAX_RANK] = {x->shape[0], x->shape[1]}, coord[2];
    for (int i = 0; i < n; i++) shape[2 + i] = grid->shape[1 + i];
    for (int d = 0; d < 2; d++) coord[d] = ix_axis(g, d, shape[d]);
    Taps taps[4] = {0};
    for (int i = 0; i < n; i++) {
        Ix size = x->shape[2 + i];
        Node *at = g_squeeze(g, g_take_range(g, where, n + 1, ix(g, n - 1 - i), 1, ix(g, 1)), 1u << (n + 1));
        at = g_ew2f(g, EW_add, g_unsqueeze(g, at, 2), 1);                        // [N, 1, O..], from 0 to 2
        if (s.align) at = g_ew2(g, EW_mul, g_ew2f(g, EW_mul, at, 0.5), g_size(g, wide, ix_addi(g, size, -1)));
        else at = g_ew2f(g, EW_mul, g_ew2f(g, EW_sub, g_ew2(g, EW_mul, at, g_size(g, wide, size)), 1), 0.5);
        if (at == NULL || !(near ? nearest(&s, at, size, &taps[i]) : smooth(&s, at, size, cubic, &taps[i]))) return NULL;
    }
    if (near) return op_read_taps(op, x, n, taps, 2 + n, shape, coord, NULL, EW_add);
    return g_cast(g, op_read_taps(op, g_cast(g, x, wide), n, taps, 2 + n, shape, coord, NULL, EW_add), (Elem)x->elem);
}

// theta [N, n, n + 1] times the places of an image of that size, in -1 .. 1, and a 1.
static Node *lower_affine_grid(Op *op) {
    Graph *g = op->g;
    Node *theta = op_in(op, 0);
    int count = 0;
    const Ix *size = op_known(op, 1, &count);
    if (theta == NULL || size == NULL) return NULL;
    int n = count - 2;
    if (n < 1 || n > 6 || theta->rank != 3)
        return op_error(op, "its size has %d numbers, its transformation %d dimensions", count, theta->rank);
    g_require(g, theta->shape[0], size[0]);
    g_require(g, theta->shape[1], ix(g, n));
    g_require(g, theta->shape[2], ix(g, n + 1));
    bool align = op_int(op, "align_corners", 0) != 0;
    Elem elem = (Elem)theta->elem, wide = elem == EL_f64 ? EL_f64 : EL_f32;
    Node *t = g_cast(g, theta, wide), *sum = NULL;
    Ix shape[G_MAX_RANK] = {size[0]};                           // [N, O.., n]
    for (int i = 0; i < n; i++) shape[1 + i] = size[2 + i];
    shape[n + 1] = ix(g, n);
    for (int k = 0; k <= n; k++) {                              // a column of theta times x, y, .. or 1
        Node *column = g_squeeze(g, g_take_range(g, t, 2, ix(g, k), 1, ix(g, 1)), 4);
        Node *term = g_broadcast_to(g, column, n + 2, shape, (int[]){0, n + 1});
        if (k < n) {
            Ix extent = size[1 + n - k];                        // x is the last axis
            Node *i = g_cast(g, g_iota(g, EL_i64, n + 2, shape, n - k), wide);
            Node *at = align ? g_ew2(g, EW_div, g_ew2f(g, EW_mul, i, 2), g_size(g, wide, ix_addi(g, extent, -1)))
                             : g_ew2(g, EW_div, g_ew2f(g, EW_add, g_ew2f(g, EW_mul, i, 2), 1), g_size(g, wide, extent));
            term = g_ew2(g, EW_mul, term, g_ew2f(g, EW_sub, at, 1));
        }
        sum = sum != NULL ? g_ew2(g, EW_add, sum, term) : term;
        if (sum == NULL) return NULL;
    }
    return g_cast(g, sum, elem);
}

const OpRow ops_grid[] = {
    OP("GridSample", 16, lower_grid_sample), OP("AffineGrid", 20, lower_affine_grid),
    {0},
};

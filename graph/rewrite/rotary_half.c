// A function of paired columns, written down for one half of them (rotary.c).
//
// The function is walked from its end to the product, with the coordinates at which each value is needed in terms of
// one half's columns. What the product is in, is made again at those places; there a concatenation along the columns is
// one of its parts. Of what it is not in (tables of angles), only as much is made again as has concatenations that
// vanish in the same way: cos(concat(a, a)) is cos(a) for both halves.

#include "graph/rewrite/rotary.h"

// Where something is computed: at the product's rows, heads, blocks in a head, columns in half a block. What is for
// some of the heads and blocks only is computed for others as well, and not taken there: `head` and `block` stay within
// those, unless everything that is read can be read at the others, too.
typedef struct Frame {
    int rank;
    Ix  shape[G_MAX_RANK];
    Ix  head, block;
} Frame;

typedef struct Part { Turn *t; const Pairing *p; } Part;

static Ix frame_axis(Graph *g, const Frame *f, int i) { return ix_axis(g, i, f->shape[i]); }

static Node *stands_for(Turn *t, Node *n) {
    if (t->fn && !t->r->to[n->id]) rewrite_ahead(t->r, t->fn, t, n);
    return t->fn ? t->r->to[n->id] : n;
}

static Node *fail(Turn *t) {
    t->failed = true;
    return NULL;
}

// ---- a function at other places -----------------------------------------------------------------------------------------

// a + -b * c is a - b * c: the half that was negated is written as people do.
static Node *difference(Graph *g, Node *sum) {
    for (int i = 0; i < 2; i++) {
        Node *p = sum->src[i];
        for (int k = 0; k < 2 && p->kind == G_ew && p->op == EW_mul; k++)
            if (p->src[k]->kind == G_ew && p->src[k]->op == EW_neg)
                return g_ew2(g, EW_sub, sum->src[1 - i], g_ew2(g, EW_mul, p->src[k]->src[0], p->src[1 - k]));
    }
    return sum;
}

static Node *recomputed(const Turn *t, const Node *n, Node **src) {
    Graph *g = t->r->g;
    if (any_null_node(src, (int)n->nsrc)) return NULL;
    g_at_node(g, n);
    Node proto = *n;
    proto.src = src;
    proto.rank = src[0]->rank;
    proto.shape = src[0]->shape;
    Node *y = n->kind == G_ew ? g_ew(g, (GEw)n->op, src, (int)n->nsrc) : node_intern(g, &proto);
    if (y && y->kind == G_ew && y->op == EW_add) y = difference(g, y);
    g_at_node(g, t->from);
    return y;
}

// An axis of it, kept within first .. first + n.
static Ix within(const Turn *t, Ix axis, int64_t size, int64_t first, int64_t n) {
    Graph *g = t->r->g;
    if (t->everywhere) return axis;
    Ix up = first + n < size ? ix_min(g, axis, ix(g, first + n - 1)) : axis;
    return n == 1 ? ix(g, first) : first > 0 ? ix_max(g, up, ix(g, first)) : up;
}

static Node *chosen(Graph *g, const Frame *f, Ix which, Node *y, Node *other) {
    return y && other ? g_where(g, g_index(g, EL_bool, f->rank, f->shape, which), y, other) : NULL;
}

// Is a head one of those from f's first on, before `end`, at f's steps? Those before the first have been seen to if `seen`.
static Ix among(Graph *g, Ix head, const Turned *f, int64_t end, bool seen) {
    Ix in = ix_and(g, ix_lt(g, head, ix(g, end)),
                   ix_eq(g, ix_mod(g, ix_addi(g, head, -f->first), ix(g, f->step)), ix(g, 0)));
    return seen || f->first < f->step ? in : ix_and(g, in, ix_le(g, ix(g, f->first), head));
}

static Node *read_at(Turn *t, Node *n, int rank, const Ix *shape, const Ix *coord) {
    Graph *g = t->r->g;
    Ix at[2][G_MAX_RANK];
    for (int turn = 0; n->kind == G_view && ix_is(n->view.pred, 1); turn = !turn, n = n->src[0]) {
        for (int i = 0; i < n->src[0]->rank; i++) at[turn][i] = ix_substitute(g, n->view.coord[i], coord, n->rank);
        coord = at[turn];
    }
    for (int i = 0; t->everywhere && i < n->rank; i++)
        if (!ix_prove_ge0(g, coord[i]) || !ix_prove_lt(g, coord[i], n->shape[i])) return fail(t);
    return g_view(g, stands_for(t, n), rank, shape, coord, NULL, g_int(0));
}

// What no column of the product is in: at the axes that its coordinates have, and no others.
static Node *beside(Turn *t, Node *n, int rank, const Ix *shape, const Ix *coord) {
    Graph *g = t->r->g;
    Ix own[G_MAX_RANK], with[G_MAX_RANK], back[G_MAX_RANK], at[G_MAX_RANK], start;
    uint64_t used = 0;
    int count = 0;
    if (t->failed || ++t->steps > MOST_STEPS) return fail(t);
    if (!turn_computes(n) || !t->joins[n->id]) return read_at(t, n, rank, shape, coord);
    for (int i = 0; i < n->rank; i++) used |= coord[i]->axes;
    for (int i = 0; i < rank; i++) {
        with[i] = ix(g, 0);
        if (!(used >> i & 1)) continue;
        own[count] = shape[i];
        back[count] = ix_axis(g, i, shape[i]);
        with[i] = ix_axis(g, count++, shape[i]);
    }
    for (int i = 0; i < n->rank; i++) at[i] = ix_substitute(g, coord[i], with, rank);
    const Node *from = t->from;
    Node *y = NULL, *src[3];
    int k = n->kind == G_concat ? g_part_at(g, n, at[n->concat.axis], &start) : 0;
    if (k < 0 || (n->kind == G_view && !ix_is(n->view.pred, 1))) return read_at(t, n, rank, shape, coord);
    g_at_node(g, t->from = n);
    if (n->kind == G_concat) {
        at[n->concat.axis] = ix_sub(g, at[n->concat.axis], start);
        y = beside(t, n->src[k], count, own, at);
    } else if (n->kind == G_view) {
        Ix to[G_MAX_RANK];
        for (int i = 0; i < n->src[0]->rank; i++) to[i] = ix_substitute(g, n->view.coord[i], at, n->rank);
        y = beside(t, n->src[0], count, own, to);
    } else {
        for (uint32_t i = 0; i < n->nsrc; i++) src[i] = beside(t, n->src[i], count, own, at);
        y = recomputed(t, n, src);
    }
    g_at_node(g, t->from = from);
    return y ? g_view(g, y, rank, shape, back, NULL, g_int(0)) : fail(t);
}

// The columns of one half.
static Node *columns(Graph *g, const Pairing *p, int half, const Frame *f) {
    int rows = turn_rows(p);
    Ix at[G_MAX_RANK], blocks = ix_add(g, ix_muli(g, frame_axis(g, f, rows), p->blocks), frame_axis(g, f, rows + 1));
    for (int i = 0; i < rows; i++) at[i] = frame_axis(g, f, i);
    at[rows] = ix_add(g, ix_muli(g, blocks, p->c), frame_axis(g, f, rows + 2));
    return g_view(g, p->half[half], f->rank, f->shape, at, NULL, g_int(0));
}

// The whole's element at these coordinates, which must be those of a pair: of one half or of the other.
static Node *column(const Part *s, const Frame *f, const Ix *coord) {
    Graph *g = s->t->r->g;
    const Pairing *p = s->p;
    int rows = turn_rows(p);
    Ix n = ix_add(g, ix_add(g, ix_muli(g, f->head, p->head), ix_muli(g, f->block, 2 * p->c)), frame_axis(g, f, rows + 2));
    for (int i = 0; i < rows; i++)
        if (coord[i] != frame_axis(g, f, i)) return fail(s->t);
    if (coord[rows] == n) return columns(g, p, 0, f);
    return coord[rows] == ix_addi(g, n, p->c) ? columns(g, p, 1, f) : fail(s->t);
}

static Node *computed(const Part *s, Node *n, const Frame *f, const Ix *coord);

// The part of a concatenation that holds the place; where that differs from block to block, a choice among them.
static Node *joined(const Part *s, Node *n, const Frame *f, const Ix *coord) {
    Graph *g = s->t->r->g;
    int axis = turn_rows(s->p) + 1;
    Ix with[G_MAX_RANK], to[G_MAX_RANK], start;
    int64_t blocks = s->p->blocks;
    Node *y = NULL;
    if (f->block != frame_axis(g, f, axis)) blocks = 1;      // it is one within another, and has to hold for all
    for (int64_t first, end = blocks; end > 0; end = first) {
        int of = -1;
        for (first = end; first > 0; first--) {
            for (int i = 0; i < f->rank; i++) with[i] = i == axis && blocks > 1 ? ix(g, first - 1) : frame_axis(g, f, i);
            int k = g_part_at(g, n, ix_substitute(g, coord[n->concat.axis], with, f->rank), &start);
            if (k < 0) return fail(s->t);
            if (of >= 0 && k != of) break;
            of = k;
        }
        Frame own = *f;
        if (blocks > 1) own.block = within(s->t, f->block, blocks, first, end - first);
        for (int i = 0; i < f->rank; i++) with[i] = i == axis ? own.block : frame_axis(g, f, i);
        start = ix(g, 0);
        for (int k = 0; k < of; k++) start = ix_add(g, start, n->src[k]->shape[n->concat.axis]);
        for (int i = 0; i < n->rank; i++) to[i] = blocks > 1 ? ix_substitute(g, coord[i], with, f->rank) : coord[i];
        to[n->concat.axis] = ix_sub(g, to[n->concat.axis], start);
        Node *run = computed(s, n->src[of], &own, to);
        if (!run) return fail(s->t);
        y = y ? chosen(g, f, ix_lt(g, frame_axis(g, f, axis), ix(g, end)), run, y) : run;
    }
    return y ? y : fail(s->t);
}

static Node *computed(const Part *s, Node *n, const Frame *f, const Ix *coord) {
    Turn *t = s->t;
    Graph *g = t->r->g;
    if (t->failed || ++t->steps > MOST_STEPS) return fail(t);
    if (n == s->p->whole) return column(s, f, coord);
    if (!s->p->below[n->id]) return beside(t, n, f->rank, f->shape, coord);
    t->read[n->id] = t->number;
    if (!turn_computes(n)) return fail(t);
    if (n->kind == G_concat) return joined(s, n, f, coord);
    if (n->kind == G_view) {
        Ix to[G_MAX_RANK];
        if (!ix_is(n->view.pred, 1)) return fail(t);
        for (int i = 0; i < n->src[0]->rank; i++) to[i] = ix_substitute(g, n->view.coord[i], coord, n->rank);
        return computed(s, n->src[0], f, to);
    }
    Node *src[3];
    for (uint32_t k = 0; k < n->nsrc; k++) src[k] = computed(s, n->src[k], f, coord);
    return t->failed ? NULL : recomputed(t, n, src);
}

static Frame frame_of(Graph *g, const Pairing *p) {
    int rows = turn_rows(p);
    Frame f = {.rank = rows + 3};
    for (int i = 0; i < rows; i++) f.shape[i] = p->product->shape[i];
    f.shape[rows] = ix(g, p->columns / p->head);
    f.shape[rows + 1] = ix(g, p->blocks);
    f.shape[rows + 2] = ix(g, p->c);
    f.head = frame_axis(g, &f, rows);
    f.block = frame_axis(g, &f, rows + 1);
    return f;
}

static Node *half_in(Turn *t, const Pairing *p, const Turned *f, int half, bool everywhere) {
    Graph *g = t->r->g;
    Part s = {t, p};
    int rows = turn_rows(p);
    Frame frame = frame_of(g, p);
    Ix coord[G_MAX_RANK], with[G_MAX_RANK],
        n = ix_add(g, ix_muli(g, frame.block, 2 * p->c), frame_axis(g, &frame, rows + 2));
    t->everywhere = everywhere;
    t->failed = false;
    t->steps = 0;
    Ix number = ix_divi(g, ix_addi(g, frame.head, -f->first), f->step);        // of the head, among the function's
    if (f->step == 1) number = ix_addi(g, within(t, frame.head, p->columns / p->head, f->first, f->heads), -f->first);
    else if (!everywhere) number = ix_max(g, ix_min(g, number, ix(g, f->heads - 1)), ix(g, 0));
    frame.head = ix_addi(g, ix_muli(g, number, f->step), f->first);
    for (int i = 0; i < rows; i++) with[i] = frame_axis(g, &frame, i);
    with[rows] = number;
    for (int i = 0; i < f->of->rank; i++)
        coord[i] = i == f->along ? ix_addi(g, n, half * p->c) : ix_substitute(g, f->inverse[i], with, rows + 1);
    g_at_node(g, t->from = f->of);
    Node *y = computed(&s, f->of, &frame, coord);
    return t->failed ? NULL : y;
}

Node *turn_half(Turn *t, const Pairing *p, const Turned *f, int half) {
    Node *y = half_in(t, p, f, half, true);
    return y ? y : half_in(t, p, f, half, false);
}

// ---- the two products ---------------------------------------------------------------------------------------------------

// w[p, n, k..]: the weights of columns (h, b, p, d), where n counts (h, b, d).
static Node *weights(Graph *g, const Pairing *p, Node *w) {
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], c = ix(g, p->c);
    shape[0] = ix(g, 2);
    shape[1] = ix(g, p->columns / 2);
    Ix half = ix_axis(g, 0, shape[0]), n = ix_axis(g, 1, shape[1]);
    coord[0] = ix_add(g, ix_add(g, ix_muli(g, ix_div(g, n, c), 2 * p->c), ix_mod(g, n, c)), ix_muli(g, half, p->c));
    for (int i = 1; i < w->rank; i++) {
        shape[i + 1] = w->shape[i];
        coord[i] = ix_axis(g, i + 1, w->shape[i]);
    }
    Node *x = g_view(g, w, w->rank + 1, shape, coord, NULL, g_int(0));
    if (!x) return NULL;
    return g_kept(g, x, (Elem)x->elem);
}

// What is computed of the product column by column, n, for one half of the columns.
static Node *for_half(Turn *t, const Pairing *p, Node *product, int half) {
    Graph *g = t->r->g;
    Node *y = product, *src[3];
    int last = product->rank - 1;
    Ix coord[G_MAX_RANK], at = ix_axis(g, last, product->shape[last]), c = ix(g, p->c);
    for (int i = 0; i < last; i++) coord[i] = ix_axis(g, i, product->shape[i]);
    coord[last] = ix_addi(g, ix_add(g, ix_muli(g, ix_div(g, at, c), 2 * p->c), ix_mod(g, at, c)), half * p->c);
    for (int i = 1; i < p->steps; i++) {
        const Node *n = p->step[i];
        for (uint32_t k = 0; k < n->nsrc; k++)
            src[k] = n->src[k] == p->step[i - 1]
                         ? y
                         : g_view(g, stands_for(t, n->src[k]), product->rank, product->shape, coord, NULL, g_int(0));
        y = recomputed(t, n, src);
    }
    return y;
}

bool turn_make_halves(Turn *t, Pairing *p) {
    Graph *g = t->r->g;
    const Node *n = p->product;
    g_at_node(g, t->from = n);
    Node *a = stands_for(t, n->src[0]), *w = stands_for(t, n->src[1]), *both = a && w ? weights(g, p, w) : NULL;
    for (int half = 2; half-- > 0;) {                        // the first is made last: its sum comes first in the kernel
        Ix coord[G_MAX_RANK], shape[G_MAX_RANK];
        if (!both) return false;
        coord[0] = ix(g, half);
        for (int i = 0; i + 1 < both->rank; i++) coord[i + 1] = ix_axis(g, i, shape[i] = both->shape[i + 1]);
        Node *y = g_contract(g, a, g_view(g, both, both->rank - 1, shape, coord, NULL, g_int(0)), 0, n->contract.nm, 1,
                             n->contract.nk, (Elem)n->elem, n->contract.acc);
        p->half[half] = y ? for_half(t, p, y, half) : NULL;
    }
    return p->half[0] && p->half[1];
}

static int64_t end_of(const Turned *f) { return f->first + (f->heads - 1) * f->step + 1; }
static bool follows(const Turned *f, const Turned *before) { return before->step == 1 && end_of(before) == f->first; }

// Are all heads before the first of function k those of functions before it? Columns that nothing turns may stand first.
static bool all_before(const Pairing *p, int k) {
    int first = k;
    while (first > 0 && follows(&p->at[first], &p->at[first - 1])) first--;
    return first < k && p->at[first].first == 0;
}

// All columns of one half, turned and not. Queries and keys are often one function.
static Node *all_columns(Turn *t, const Pairing *p, int half) {
    Graph *g = t->r->g;
    Frame f = frame_of(g, p);
    Node *y = columns(g, p, half, &f);
    for (int k = p->n; k-- > 0;) {
        Node *own = turn_half(t, p, &p->at[k], half);
        if (!own) return g_error(g, "columns of a product that were pairs are none");
        int64_t end = end_of(&p->at[k]);
        while (k > 0 && p->at[k].step == 1 && follows(&p->at[k], &p->at[k - 1]) &&
               turn_half(t, p, &p->at[k - 1], half) == own)
            k--;
        y = chosen(g, &f, among(g, f.head, &p->at[k], end, all_before(p, k)), own, y);
    }
    return y;
}

// [rows.., heads, blocks, 2, c], in memory.
Node *turn_result(Turn *t, Pairing *p) {
    Graph *g = t->r->g;
    int axis = turn_rows(p) + 2;
    Node *half[2];
    if (p->result) return p->result;
    if (!turn_make_halves(t, p)) return NULL;
    for (int i = 0; i < 2; i++) half[i] = g_unsqueeze(g, all_columns(t, p, i), 1u << axis);
    Node *y = g_concat(g, axis, half, 2);
    if (y) p->result = g_kept(g, y, (Elem)y->elem);
    return p->result;
}


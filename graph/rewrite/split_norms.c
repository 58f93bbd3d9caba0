// Norms between two products, in what follows the first and what follows the second.
//
//     x = product + residual                              [m, n]           x's kernel, for each tile of its columns: their sum, and that of squares
//     y = (x - mean) * inv * scale + shift                 a layer norm      nowhere
//     z = y w                                             [m, k]           inv * (x v - mean * c) + d:  v = scale * w,  c = sum of v,  d = shift * w
//
// A norm is linear in x with one number for each row, and so is the product: the numbers go behind the sum, what is for columns goes into the weights (made once,
// as in fold.c), and x is multiplied as it is. What cancels is exact: c is a sum of the rounded v, so that a large mean leaves no more than f32's rounding; and y is
// not rounded to 16 bits on its way. (A v without its mean, to have no c, does not do: what rounding leaves of the mean, times 30 deviations, is three times all
// other errors.) RMS norms and others are the same with fewer terms.
//
// mean and inv need all of a row, which no block of x's kernel has. Each writes what its tile says (`reduce.tile`; fuse/numbers.c puts it into that kernel), and the next
// product's kernel joins the tiles of its rows, a few numbers each, while its loop begins (Chan, Golub, LeVeque: Updating formulae, 1979):
//
//     A[m, p] = sum of tile p        C[m, p] = sum of (x - A / width)^2 there
//     sum = A[0] + A[1] + ..         sum of (x - mean)^2 = C[0] + C[1] + .. + ((A[0] - sum / tiles)^2 + ..) / width
//
// On an H200 a layer norm of 1024 x 768 took 2.4 us of a model's graph (GPT-2: 652 us, 608 so; 594 if norms cost nothing).
//
// Where y is added to something, too (norms behind the sum, as BERT has them), that is computed from x once more.
//
// For 16-bit floats (after narrow.c), where x is the end of a product's epilogue with columns that tiles divide and enough rows, and y for products with weights and what is computed in f32.

#include "graph/fuse/fuse.h"
#include "graph/rewrite/range.h"
#include "graph/rewrite/rewrite.h"

#include <math.h>
#include <string.h>

enum { MOST_FACTORS = 8, MOST_TERMS = 3, MOST_TILES = 16, LEAST_ROWS = 64, MOST_ROWS = 2048, STEPS = 16, MOST_WEIGHTS = 1 << 25 };

typedef struct Factors { const Node *at[MOST_FACTORS]; bool under[MOST_FACTORS]; int n; } Factors;     // a product of these; under: divided by
typedef struct Linear { const Node *x; Factors of_x; Factors term[MOST_TERMS]; bool minus[MOST_TERMS]; int terms; } Linear;     // x * of_x + term ..

typedef struct Norms {
    Rewrite r;
    Node  **product;             // by node id: whose epilogue ends there (graph_epilogues)
    bool   *taken;               // by node id: a product that does without its norm; a reduction that comes by tiles
    int    *takers;              // by node id: of the users, products that do; and those that make an f32 of it again
    bool   *nowhere;             // by node id: a norm that is not kept in memory any more
} Norms;

typedef enum Sum { OTHER, PLAIN, SQUARES, CENTRED } Sum;

// ---- x ----------------------------------------------------------------------------------------------------------------

// How many columns a tile has: so that the product that makes x takes least, by the clocks of 64 of its sum on a multiprocessor (multiplications, or bytes that come in)
// and how many rounds there are on this many of them; 0: it has none, or of rows nobody knows how many.
static int64_t width_of(const Node *x) {
    enum { MULTIPROCESSORS = 132, LARGEST = 128 * 256 };
    static const int64_t widths[] = {256, 192, 128, 64};
    Ix columns = x->shape[x->rank - 1];
    int64_t best = 0, rows = 1;
    double least = 0;
    for (int i = 0; i < x->rank - 1 && rows > 0; i++)
        if (!ix_is_const(x->shape[i]) || __builtin_mul_overflow(rows, x->shape[i]->value, &rows)) rows = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths && ix_is_const(columns) && rows >= LEAST_ROWS && rows <= MOST_ROWS; i++) {
        int64_t w = widths[i];
        if (columns->value <= 0 || columns->value % w || columns->value / w > MOST_TILES) continue;
        for (int64_t height = 64; height * w <= LARGEST && height <= 256; height *= 2) {
            int64_t tiles = (rows + height - 1) / height * (columns->value / w), rounds = (tiles + MULTIPROCESSORS - 1) / MULTIPROCESSORS;
            double multiply = (double)(height * w) / 32, bring = (double)(2 * (height + w)), clocks = (double)rounds * (multiply > bring ? multiply : bring);
            if (!best || clocks < least) best = w, least = clocks;
        }
    }
    return best;
}

static bool small_float(const Node *n) { return elem_is_float((Elem)n->elem) && elem_bits((Elem)n->elem) == 16; }

// Made by a product, a tile of its columns at a time.
static bool of_product(const Norms *s, const Node *x) {
    const Node *p = s->product[x->id];
    if (!p || p->contract.nn != 1 || x->rank < 1 || x->rank >= G_MAX_RANK || !small_float(x) || !small_float(p->src[0]) || !small_float(p->src[1])) return false;
    Ix columns = x->shape[x->rank - 1];
    return columns == p->shape[p->rank - 1] && width_of(x) && !g_is_depthwise(s->r.g, p);
}

static const Node *widened(const Norms *s, const Node *n) {
    return n->kind == G_cast && n->elem == EL_f32 && of_product(s, n->src[0]) ? n->src[0] : NULL;
}

// ---- sums over its rows -----------------------------------------------------------------------------------------------

static const Node *unviewed(const Node *n) {
    while (n->kind == G_view && ix_is(n->view.pred, 1)) n = n->src[0];
    return n;
}

static bool squared(const Node *n, const Node **of) {
    GNum two;
    *of = n->src[0];
    return n->kind == G_ew && ((n->op == EW_mul && n->src[0] == n->src[1]) || (n->op == EW_pow && g_scalar_value(n->src[1], &two) && two.f == 2));
}

static bool over_columns(const Node *n) { return n->kind == G_reduce && n->op == GR_sum && n->src[0]->rank > 0 && n->reduce.axes == 1u << (n->src[0]->rank - 1); }

static bool mean_of(const Norms *s, const Node *n, const Node *x) {
    GNum count;
    Ix columns = x->shape[x->rank - 1];
    n = unviewed(n);
    if (n->kind != G_ew || n->op != EW_div || !g_scalar_value(n->src[1], &count) || count.f != (double)columns->value) return false;
    n = unviewed(n->src[0]);
    return over_columns(n) && widened(s, n->src[0]) == x;
}

static Sum sum_of(const Norms *s, const Node *n, const Node **x) {
    const Node *of;
    if (!over_columns(n) || n->elem != EL_f32) return OTHER;
    if ((*x = widened(s, n->src[0]))) return PLAIN;
    if (!squared(n->src[0], &of)) return OTHER;
    if ((*x = widened(s, of))) return SQUARES;
    bool centred = of->kind == G_ew && of->op == EW_sub && (*x = widened(s, of->src[0])) && mean_of(s, of->src[1], *x);
    return centred ? CENTRED : OTHER;
}

static Node *by_tile(Graph *g, Node *x, const Node *of, const char *what) {
    if (!x) return NULL;
    Node proto = {.kind = G_reduce, .op = GR_sum, .elem = x->elem, .rank = (uint8_t)(x->rank - 1), .shape = x->shape, .nsrc = 1, .src = &x,
                  .reduce = {.axes = 1u << (x->rank - 1), .tile = true}};
    return g_name(g, node_intern(g, &proto), of->name ? arena_printf(g->arena, "%s_%s", of->name, what) : NULL);
}

// The numbers of all tiles of a row.
static Node *joined(Graph *g, Node *of) { return of ? g_reduce(g, GR_sum, of, 1u << (of->rank - 1), false) : NULL; }

static Node *sum_by_tiles(Norms *s, const Node *n) {
    Graph *g = s->r.g;
    const Node *old;
    Sum kind = sum_of(s, n, &old);
    Node *x = s->r.to[old->id];
    int last = x->rank - 1, axis[G_MAX_RANK];
    int64_t width = width_of(x), tiles = x->shape[last]->value / width;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (int i = 0; i < last; i++) shape[i] = x->shape[i], coord[i] = ix_axis(g, axis[i] = i, shape[i]);
    shape[last] = ix(g, tiles), shape[last + 1] = ix(g, width);
    coord[last] = ix_add(g, ix_muli(g, ix_axis(g, axis[last] = last, shape[last]), width), ix_axis(g, last + 1, shape[last + 1]));
    Node *wide = g_cast(g, g_view(g, x, x->rank + 1, shape, coord, NULL, g_int(0)), EL_f32);
    if (kind == SQUARES) return joined(g, by_tile(g, g_ew2(g, EW_mul, wide, wide), x, "squares"));
    Node *sums = by_tile(g, wide, x, "sums"), *all = joined(g, sums);
    if (kind == PLAIN) return all;
    Node *d = g_ew2(g, EW_sub, wide, g_broadcast_to(g, g_ew2f(g, EW_mul, sums, 1.0 / (double)width), x->rank + 1, shape, axis));
    Node *within = joined(g, by_tile(g, g_ew2(g, EW_mul, d, d), x, "squares")), *apart = g_broadcast_to(g, g_ew2f(g, EW_mul, all, 1.0 / (double)tiles), x->rank, shape, axis);
    apart = g_ew2(g, EW_sub, sums, apart);
    return g_ew2(g, EW_add, within, g_ew2f(g, EW_mul, joined(g, g_ew2(g, EW_mul, apart, apart)), 1.0 / (double)width));
}

// ---- a norm, as a value linear in x -----------------------------------------------------------------------------------

// The same for all columns, or a constant for each of them?
static bool by_row(const Node *n) {
    bool same = n->kind == G_view && ix_is(n->view.pred, 1);
    for (int i = 0; same && i < n->src[0]->rank; i++) same = !(n->view.coord[i]->axes >> (n->rank - 1) & 1);
    return same;
}

static bool by_column(const Norms *s, const Node *n) {
    GNum number;
    bool column = s->r.constant[n->id] && (g_scalar_value(n, &number) || n->rank == 1 || (n->kind == G_view && ix_is(n->view.pred, 1)));
    for (int i = 0; column && n->kind == G_view && i < n->src[0]->rank; i++) column = !(n->view.coord[i]->axes & ~(UINT64_C(1) << (n->rank - 1)));
    return column;
}

static bool push(Factors *f, const Node *n, bool under) {
    if (f->n == MOST_FACTORS) return false;
    f->at[f->n] = n;
    f->under[f->n++] = under;
    return true;
}

static bool scaled(Linear *v, const Node *by, bool under) {
    bool fits = push(&v->of_x, by, under);
    for (int i = 0; i < v->terms && fits; i++) fits = push(&v->term[i], by, under);
    return fits;
}

static bool linear(const Norms *s, const Node *n, Linear *v) {
    const Node *x = widened(s, n);
    if (x) {
        *v = (Linear){.x = x};
        return true;
    }
    if (n->kind != G_ew || n->elem != EL_f32 || n->nsrc != 2) return false;
    for (int i = 0; i < 2; i++) {
        const Node *by = n->src[1 - i];
        bool row = by_row(by);
        if ((i == 1 && (n->op == EW_sub || n->op == EW_div)) || !(row || by_column(s, by)) || !linear(s, n->src[i], v)) continue;
        if (n->op == EW_mul || n->op == EW_div) return scaled(v, by, n->op == EW_div);
        if ((n->op != EW_add && n->op != EW_sub) || v->terms == MOST_TERMS) return false;
        v->minus[v->terms] = n->op == EW_sub;
        return push(&v->term[v->terms++], by, false);
    }
    return false;
}

// From a product's left operand down to the norm: where its elements are, in axes of the operand. NULL: something else is on the way, or reads it.
static const Node *normed(const Norms *s, const Node *a, Ix *at) {
    const Node *n = a;
    for (int i = 0; i < a->rank; i++) at[i] = ix_axis(s->r.g, i, a->shape[i]);
    for (; n->kind == G_cast || n->kind == G_view; n = n->src[0]) {
        if (n != a && s->r.users[n->id] != 1) return NULL;
        if (n->kind == G_cast) {
            if ((n->cast.kept && n != a) || !elem_is_float((Elem)n->src[0]->elem)) return NULL;
            continue;
        }
        Ix through[G_MAX_RANK];
        if (!ix_is(n->view.pred, 1)) return NULL;
        for (int i = 0; i < n->src[0]->rank; i++)
            if (!(through[i] = ix_substitute(s->r.g, n->view.coord[i], at, n->rank))) return NULL;
        memcpy(at, through, sizeof through);
    }
    int last = n->rank - 1, k = a->rank - 1;
    if (last < 0 || n == a || s->r.users[n->id] != 1 || at[last] != ix_axis(s->r.g, k, a->shape[k]) || n->shape[last] != a->shape[k]) return NULL;
    for (int i = 0; i < last; i++) if (at[i]->axes >> k & 1) return NULL;
    return n;
}

// Is the factor of a row computed from sums over x?
static bool of_sums(const Norms *s, const Node *n, const Node *x, int steps) {
    const Node *of;
    if (sum_of(s, n, &of) != OTHER) return of == x;
    bool any = false;
    for (uint32_t i = 0; i < n->nsrc && steps && !any && (n->kind == G_ew || n->kind == G_view || n->kind == G_cast); i++) any = of_sums(s, n->src[i], x, steps - 1);
    return any;
}

// Range (range.c). In f16 the weights times what is for columns have to be in range: they get it over 2^e, the power of two that the greatest
// of it reaches, and rows' factors are multiplied by 2^e. Products of f16 add up in f32 without leaving its range. In bf16 weights do not leave
// theirs by a factor below 2^60, and sums over x of the size that squares of x allow do not; so rows' factors have to be those of a norm. -1: neither.
static int exponent_of(const Norms *s, const Node *c, const Linear *v) {
    double all = 1;
    bool f16 = c->src[1]->elem == EL_f16, normed = true;
    for (int i = 0; i < v->of_x.n; i++) {
        double least, most;
        const Node *by = v->of_x.at[i];
        if (by_row(by)) {
            normed &= of_sums(s, by, v->x, STEPS);
            continue;
        }
        if (!range_of_constant(s->r.g, s->r.g->nodes.at[by->id], &least, &most)) return -1;
        all *= v->of_x.under[i] ? 1 / least : most;
    }
    int e = 0;
    if (!(all < 0x1p60) || (!f16 && !normed)) return -1;
    if (f16 && all > 1) frexp(all, &e);
    return e;
}

static bool norm_before(const Norms *s, const Node *c, Linear *v, Ix *at) {
    bool weights = c->kind == G_contract && c->contract.nb == 0 && c->contract.nk == 1 && c->contract.acc == EL_f32 && s->r.constant[c->src[1]->id] &&
                   !s->r.constant[c->src[0]->id] && small_float(c->src[0]) && small_float(c->src[1]);
    Ix count = weights ? g_count(s->r.g, c->src[1]) : NULL;
    const Node *n = count && ix_is_const(count) && count->value <= MOST_WEIGHTS ? normed(s, c->src[0], at) : NULL;
    if (!n || !linear(s, n, v)) return false;
    bool any = false;
    for (int i = 0; i < v->of_x.n; i++) any |= by_row(v->of_x.at[i]);
    return any && exponent_of(s, c, v) >= 0;
}

// Is the term what takes the mean from x, scaled as x is?
static bool takes_mean(const Norms *s, const Linear *v, int term) {
    const Factors *f = &v->term[term];
    return v->minus[term] && f->n == v->of_x.n + 1 && mean_of(s, f->at[0], v->x);       // what comes later scales both: as many are the same
}

// ---- the product without it -------------------------------------------------------------------------------------------

// The factors of rows, of shape [.., 1]; NULL: there are none.
static Node *rows_of(Norms *s, const Factors *f, const Node *x) {
    Graph *g = s->r.g;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    int last = x->rank - 1;
    Node *all = NULL;
    for (int i = 0; i < last; i++) shape[i] = x->shape[i], coord[i] = ix_axis(g, i, shape[i]);
    shape[last] = ix(g, 1), coord[last] = ix(g, 0);
    for (int i = 0; i < f->n; i++) {
        if (!by_row(f->at[i])) continue;
        Node *one = g_view(g, s->r.to[f->at[i]->id], x->rank, shape, coord, NULL, g_int(0));
        if (!all && f->under[i]) all = g_full(g, EL_f32, x->rank, shape, g_float(1));
        all = !all ? one : g_ew2(g, f->under[i] ? EW_div : EW_mul, all, one);
    }
    return all;
}

// Those of columns, one number for each; NULL: there are none.
static Node *columns_of(Norms *s, const Factors *f, Ix columns) {
    Graph *g = s->r.g;
    Node *all = NULL;
    for (int i = 0; i < f->n; i++) {
        if (by_row(f->at[i])) continue;
        Node *n = s->r.to[f->at[i]->id], *one;
        Ix coord[G_MAX_RANK];
        for (int d = 0; d < n->rank; d++) coord[d] = d == n->rank - 1 && !ix_is(n->shape[d], 1) ? ix_axis(g, 0, columns) : ix(g, 0);
        one = g_cast(g, g_view(g, n, 1, &columns, coord, NULL, g_int(0)), EL_f32);
        if (!all && f->under[i]) all = g_full(g, EL_f32, 1, &columns, g_float(1));
        all = !all ? one : g_ew2(g, f->under[i] ? EW_div : EW_mul, all, one);
    }
    return all;
}

// A row's number, and a column's, at each element of the product.
static Node *at_rows(Graph *g, Node *row, const Node *c, const Ix *at) {
    Ix coord[G_MAX_RANK];
    for (int i = 0; i < row->rank; i++) coord[i] = i == row->rank - 1 ? ix(g, 0) : at[i];
    return g_view(g, row, c->rank, c->shape, coord, NULL, g_int(0));
}

static Node *at_columns(Graph *g, Node *column, const Node *c) {
    Ix coord[G_MAX_RANK];
    for (int i = 0; i < column->rank; i++) coord[i] = ix_axis(g, c->contract.nm + i, c->shape[c->contract.nm + i]);
    return g_view(g, column, c->rank, c->shape, coord, NULL, g_int(0));
}

// The weights with what is for columns in them, in 16 bits.
static Node *folded(Norms *s, Node *w, Node *columns) {
    Graph *g = s->r.g;
    int k = w->rank - 1;
    return columns ? g_cast(g, g_ew2(g, EW_mul, g_cast(g, w, EL_f32), g_broadcast_to(g, columns, w->rank, w->shape, &k)), (Elem)w->elem) : w;
}

// The sum of a column's weights, each times what a term has for it.
static Node *sum_of_weights(Norms *s, Node *w, Node *columns) {
    Graph *g = s->r.g;
    int k = w->rank - 1;
    Node *v = g_cast(g, w, EL_f32);
    if (columns) v = g_ew2(g, EW_mul, v, g_broadcast_to(g, columns, w->rank, w->shape, &k));
    return g_reduce(g, GR_sum, v, 1u << k, false);
}

static Node *over_power(Graph *g, Node *x, int e) { return x && e ? g_ew2f(g, EW_mul, x, ldexp(1, -e)) : x; }

// bias: numbers of the product's columns that are added, or NULL.
static Node *without_norm(Norms *s, const Node *c, Node *bias) {
    Graph *g = s->r.g;
    Linear v;
    Ix at[G_MAX_RANK];
    norm_before(s, c, &v, at);
    const Node *a = c->src[0];
    Node *w = s->r.to[c->src[1]->id];
    Ix long_as = w->shape[w->rank - 1];
    int e = exponent_of(s, c, &v);
    Node *columns = over_power(g, columns_of(s, &v.of_x, long_as), e), *x = g_view(g, s->r.to[v.x->id], a->rank, a->shape, at, NULL, g_int(0));
    Node *v16 = folded(s, w, columns);
    Node *y = g_contract(g, x, v16, 0, c->contract.nm, c->contract.nn, 1, EL_f32, EL_f32), *row = over_power(g, rows_of(s, &v.of_x, v.x), -e);
    if (row && y) y = g_ew2(g, EW_mul, y, at_rows(g, row, c, at));
    for (int i = 0; i < v.terms && y; i++) {
        Node *sum = takes_mean(s, &v, i) ? sum_of_weights(s, v16, NULL) : sum_of_weights(s, w, columns_of(s, &v.term[i], long_as));
        row = over_power(g, rows_of(s, &v.term[i], v.x), takes_mean(s, &v, i) ? -e : 0);
        if (!row && sum) {
            bias = bias ? g_ew2(g, EW_add, g_cast(g, bias, EL_f32), v.minus[i] ? g_ew1(g, EW_neg, sum) : sum) : v.minus[i] ? g_ew1(g, EW_neg, sum) : sum;
            continue;
        }
        y = g_ew2(g, v.minus[i] ? EW_sub : EW_add, y, sum ? g_ew2(g, EW_mul, at_columns(g, sum, c), at_rows(g, row, c, at)) : NULL);
    }
    if (bias && y) y = g_ew2(g, EW_add, y, at_columns(g, g_cast(g, bias, EL_f32), c));
    return g_name(g, g_cast(g, y, (Elem)c->elem), c->name);
}

// A bias behind the product, one number for each of its columns, to which what is added for all rows is added once; the product then, or NULL.
static const Node *biased(const Norms *s, const Node *n, const Node **bias, const Node **through) {
    for (int i = 0; i < 2 && n->kind == G_ew && n->op == EW_add; i++) {
        const Node *p = n->src[i], *c = p->kind == G_view && ix_is(p->view.pred, 1) ? p->src[0] : p;
        *bias = n->src[1 - i];
        *through = p != c ? p : NULL;
        int last = n->rank - 1;
        if (c->kind != G_contract || !s->taken[c->id] || c->contract.nn != 1 || s->r.users[p->id] != 1 || s->r.users[c->id] != 1 || !by_column(s, *bias)) continue;
        if (c->shape[c->rank - 1] != n->shape[last] || (p != c && p->view.coord[c->rank - 1] != ix_axis(s->r.g, last, n->shape[last]))) continue;
        return c;
    }
    return NULL;
}

static Node *apart(Rewrite *r, void *pass, Node *n, Node *const *src) {
    (void)src;
    Norms *s = pass;
    if (n->kind == G_cast && s->nowhere[n->src[0]->id]) return r->to[n->src[0]->src[0]->id];
    const Node *bias, *through, *c = biased(s, n, &bias, &through);
    if (c) {
        Factors f = {.at = {bias}, .n = 1};
        Node *y = without_norm(s, c, columns_of(s, &f, n->shape[n->rank - 1]));
        return g_name(r->g, through ? g_view(r->g, y, n->rank, n->shape, through->view.coord, NULL, g_int(0)) : y, n->name);
    }
    if (!s->taken[n->id]) return NULL;
    return n->kind == G_contract ? without_norm(s, n, NULL) : sum_by_tiles(s, n);
}

// The sums that a row's numbers are made of.
static void take_sums(Norms *s, const Node *n, int steps) {
    const Node *x;
    if (s->taken[n->id] || !steps) return;
    if (sum_of(s, n, &x) != OTHER) {
        s->taken[n->id] = true;
        if (n->src[0]->kind == G_ew) take_sums(s, n->src[0]->src[0], steps - 1);        // the mean
        return;
    }
    for (uint32_t i = 0; i < n->nsrc && (n->kind == G_ew || n->kind == G_view || n->kind == G_cast) && !s->product[n->id]; i++) take_sums(s, n->src[i], steps - 1);
}

void split_norms(Graph *g) {
    Norms s = {0};
    Linear v;
    Ix at[G_MAX_RANK];
    bool any = false;
    if (!rewrite_begin(&s.r, g)) return;
    s.product = graph_epilogues(g, s.r.alive);
    s.taken = NEW_N(g->arena, bool, s.r.n);
    s.takers = NEW_N(g->arena, int, s.r.n);
    s.nowhere = NEW_N(g->arena, bool, s.r.n);
    for (uint32_t i = 0; i < s.r.n; i++) {
        const Node *n = g->nodes.at[i];
        bool again = s.r.alive[i] && n->kind == G_cast && n->elem == EL_f32 && n->src[0]->kind == G_cast && n->src[0]->src[0]->elem == EL_f32;
        s.taken[i] = s.r.alive[i] && !again && norm_before(&s, n, &v, at);
        if (again || s.taken[i]) s.takers[n->src[0]->id]++;
    }
    for (uint32_t i = 0; i < s.r.n; i++) {
        const Node *n = g->nodes.at[i];
        if (!s.taken[i] || n->kind != G_contract) continue;
        s.taken[i] = s.takers[n->src[0]->id] == s.r.users[n->src[0]->id];
        if (!s.taken[i]) continue;
        any = s.nowhere[n->src[0]->id] = true;
        norm_before(&s, n, &v, at);
        for (int k = 0; k < v.of_x.n; k++) if (by_row(v.of_x.at[k])) take_sums(&s, v.of_x.at[k], STEPS);
        for (int t = 0; t < v.terms; t++)
            for (int k = 0; k < v.term[t].n; k++) if (by_row(v.term[t].at[k])) take_sums(&s, v.term[t].at[k], STEPS);
    }
    if (any) rewrite_all(&s.r, apart, &s);
}

// Products of quantised numbers: in integers, with their scales afterwards.
//
//     a = (qa - za) * sa        qa i8 or u8; za, sa: a number, or one for each row, or each picture
//     b = (qb - zb) * sb        qb i8 or u8; zb, sb: a number, or one for each column
//     sum of a * b over k   =   (sum of qa * qb over k  -  za * sum of (qb - zb) over k  -  zb * sum of qa over k) * sa * sb
//
// Graphs of QuantizeLinear and DequantizeLinear say the left side, as floats; integer operators (MatMulInteger,
// QLinearConv) say it without the scales, in 32-bit integers. Either becomes a product of bytes, which tensor cores
// take, with a sum in i32 that is exact; what remains of the conversions is elementwise and joins the kernel that makes
// or reads the value. Zero points may be data (DynamicQuantizeLinear finds them when the model runs). The sum of qb is of weights alone,
// and is computed when they are loaded. Weights about 128 become signed ones, which need no sum of qa. Numbers of f8 have no
// zero points, and their sums are in f32.

#include "graph/rewrite/range.h"
#include "graph/rewrite/rewrite.h"

#include <string.h>

typedef struct Quantised {       // (q - zero) * scale, elementwise
    Node *q;
    Node *zero, *scale;          // of q's shape, i32 and f32; NULL: 0, 1
} Quantised;

static bool is_byte(const Node *n) { return n->elem == EL_i8 || n->elem == EL_u8; }
static bool is_f8(const Node *n) { return n->elem == EL_f8e4m3 || n->elem == EL_f8e5m2; }

// Conversions and views that look at all of it.
static bool plain(const Node *n) { return n->kind == G_cast || (n->kind == G_view && ix_is(n->view.pred, 1)); }

static bool from_byte(const Node *n) {
    while (!is_byte(n) && plain(n)) n = n->src[0];
    return is_byte(n);
}

// Are all elements this one number?
static bool uniform(const Node *typed, int64_t *value) {
    GNum v;
    if (g_scalar_value(typed, &v) && (v.is_int || v.f == (double)(int32_t)v.f)) return *value = v.is_int ? v.i : (int64_t)v.f, true;
    const Node *n = typed;
    while (plain(n)) n = n->src[0];
    if (n->kind != G_const || !elem_is_int((Elem)n->elem) || n->c.bytes == 0) return false;
    size_t width = (size_t)elem_bytes((Elem)n->elem);
    for (size_t at = width; at < n->c.bytes; at += width)
        if (memcmp(n->c.data, (const char *)n->c.data + at, width) != 0) return false;
    *value = g_num_load(n->c.data, (Elem)n->elem).i;
    return true;
}

// Bytes, widened; or bytes less a zero point.
static bool centred(Graph *g, Node *n, Quantised *to) {
    *to = (Quantised){0};
    if (n->kind == G_ew && n->op == EW_sub) {
        Node *zero = n->src[1];
        int64_t v;
        if (uniform(zero, &v)) to->zero = v == 0 ? NULL : g_full(g, EL_i32, n->rank, n->shape, g_int(v));
        else if (from_byte(zero)) to->zero = g_cast(g, zero, EL_i32);
        else return false;
        n = n->src[0];
    }
    bool widened = n->kind == G_cast && (n->elem == EL_i32 || n->elem == EL_f32);
    if (!widened || !(is_byte(n->src[0]) || is_f8(n->src[0]))) return false;
    to->q = n->src[0];
    return true;
}

static bool dequantised(Graph *g, Node *n, Quantised *to);

// A value that is the same at all places, at those of n: outside of what n looks at, too. NULL: it is not.
static Node *everywhere(Graph *g, Node *x, const Node *n) {
    GNum v;
    Ix coord[G_MAX_RANK];
    if (g_scalar_value(x, &v)) return g_full(g, (Elem)x->elem, n->rank, n->shape, v);
    bool one = x->kind == G_view && ix_is(x->view.pred, 1) && ix_is(g_count(g, x->src[0]), 1);
    for (int d = 0; one && d < x->src[0]->rank; d++) coord[d] = ix(g, 0);
    return one ? g_view(g, x->src[0], n->rank, n->shape, coord, NULL, g_int(0)) : NULL;
}

// How far n looks past either end of its source's dimension d. False: it is not known.
static bool past_ends(Graph *g, const Node *n, int d, Ix *before, Ix *after) {
    Ix e = n->view.coord[d], first = e, last = e, size = n->src[0]->shape[d];
    *before = *after = ix(g, 0);
    if (ix_is(ix_in_range(g, e, size), 1)) return true;
    for (int i = 0; i < n->rank; i++) {
        Ix rest, by = ix_coefficient(g, last, i, &rest);
        int64_t step;
        if (!by || !ix_const(by, &step) || step < 0) return false;
        last = ix_add(g, rest, ix_muli(g, ix_addi(g, n->shape[i], -1), step));
        first = ix_coefficient(g, first, i, &rest) ? rest : NULL;
        if (!first) return false;
    }
    *before = ix_max(g, ix_sub(g, ix(g, 0), first), ix(g, 0));
    *after = ix_max(g, ix_sub(g, last, ix_addi(g, size, -1)), ix(g, 0));
    return true;
}

// What was widened, x or what it looks at, as it was.
static Node *narrow(Graph *g, Node *x, Elem elem) {
    const Node *c = x->kind == G_view ? x->src[0] : x;
    if (c->kind != G_cast || c->src[0]->elem != elem) return g_cast(g, x, elem);
    return x->kind == G_view ? g_view(g, c->src[0], x->rank, x->shape, x->view.coord, x->view.pred, x->view.fill) : c->src[0];
}

// The windows n of q with a zero point around it that the data say: q with as much of it on all sides as they need, then its windows.
static Node *bordered(Graph *g, const Node *n, Node *q, Node *zero) {
    Ix before[G_MAX_RANK], after[G_MAX_RANK], coord[G_MAX_RANK], inside = ix(g, 1);
    for (int d = 0; d < q->rank; d++) {
        inside = ix_and(g, inside, ix_in_range(g, n->view.coord[d], q->shape[d]));
        if (!past_ends(g, n, d, &before[d], &after[d])) return NULL;
        coord[d] = ix_add(g, n->view.coord[d], before[d]);
    }
    Node *wide = inside == n->view.pred ? g_pad(g, q, before, after, GP_constant, g_int(0)) : NULL;
    Node *around = wide && wide->kind == G_view ? everywhere(g, zero, wide) : NULL;
    if (!around) return NULL;
    Node *is_inside = g_cast(g, g_index(g, EL_i32, wide->rank, wide->shape, wide->view.pred), EL_bool);
    return g_view(g, g_where(g, is_inside, wide, narrow(g, around, (Elem)q->elem)), n->rank, n->shape, coord, NULL, g_int(0));
}

static Node *look(Graph *g, Node *x, const Node *n, bool partly) {
    return partly ? everywhere(g, x, n) : g_view(g, x, n->rank, n->shape, n->view.coord, NULL, g_int(0));
}

// Through a view; what it adds around is 0, which is q's zero point.
static bool moved(Graph *g, Node *n, Quantised *to) {
    bool partly = !ix_is(n->view.pred, 1);
    int64_t zero = 0;
    if (!dequantised(g, n->src[0], to) || (partly && (n->view.fill.is_int ? n->view.fill.i != 0 : n->view.fill.f != 0)))
        return false;
    bool number = !to->zero || uniform(to->zero, &zero);
    if (partly && !number) to->q = bordered(g, n, to->q, to->zero);
    else to->q = g_view(g, to->q, n->rank, n->shape, n->view.coord, n->view.pred, g_int(zero));
    if (!to->q || (to->scale && !(to->scale = look(g, to->scale, n, partly)))) return false;
    if (to->zero && !(to->zero = look(g, to->zero, n, partly))) return false;
    return !g_failed(g);
}

static bool dequantised(Graph *g, Node *n, Quantised *to) {
    if (centred(g, n, to)) return true;
    if (n->kind == G_view) return moved(g, n, to);
    if (n->kind == G_cast && n->elem == EL_f32 && n->src[0]->elem == EL_i32) return centred(g, n->src[0], to);
    if (n->kind != G_ew || n->op != EW_mul || n->elem != EL_f32) return false;
    for (int i = 0; i < 2; i++) {
        if (!dequantised(g, n->src[i], to) || to->scale) continue;
        to->scale = n->src[1 - i];
        return true;
    }
    return false;
}

// A scale or zero point as a value of the product: its axes are among the operand's first ones, which are at `first` (and those of
// a batch at 0) in the product. NULL: it varies along what is added up.
static Node *of_product(Graph *g, const Node *product, Node *scale, int nb, int own, int first) {
    GNum v;
    Ix coord[G_MAX_RANK], axis[G_MAX_RANK];
    int kept = nb + own;
    if (g_scalar_value(scale, &v)) return g_full(g, (Elem)scale->elem, product->rank, product->shape, v);
    if (scale->kind != G_view || !ix_is(scale->view.pred, 1)) return NULL;
    for (int i = 0; i < scale->rank; i++)
        axis[i] = i < nb     ? ix_axis(g, i, product->shape[i])
                  : i < kept ? ix_axis(g, first + i - nb, product->shape[first + i - nb])
                             : ix(g, 0);
    for (int d = 0; d < scale->src[0]->rank; d++) {
        if (scale->view.coord[d]->axes >> kept) return NULL;
        coord[d] = ix_substitute(g, scale->view.coord[d], axis, scale->rank);
    }
    return g_view(g, scale->src[0], product->rank, product->shape, coord, NULL, g_int(0));
}

static bool is_weight(const Node *n) {
    while (n->kind == G_view || n->kind == G_cast) n = n->src[0];
    return n->kind == G_const;
}

// An operand's sums over k (its last nk axes, of `own` others and no batch), as a value of the product's.
static Node *sums(Graph *g, const Node *product, Node *x, int own, int nk, int first) {
    Ix coord[G_MAX_RANK];
    Node *sum = g_reduce(g, GR_sum, g_cast(g, x, EL_i32), ((1u << (own + nk)) - 1) & ~((1u << own) - 1), false);
    for (int i = 0; i < own; i++) coord[i] = ix_axis(g, first + i, product->shape[first + i]);
    return sum ? g_view(g, sum, product->rank, product->shape, coord, NULL, g_int(0)) : NULL;
}

// b: bytes about 128, as signed ones about 0.
static void make_signed(Graph *g, Quantised *b) {
    int64_t zero;
    if (!b->zero || b->q->elem != EL_u8 || !uniform(b->zero, &zero) || zero != 128) return;
    b->q = g_cast(g, g_ew2f(g, EW_sub, g_cast(g, b->q, EL_i32), 128), EL_i8);
    b->zero = NULL;
}

// y times both scales: times their product where that is known to be a normal number, else by one after the other, as range.c has it: y is
// 0 or a whole number at least, or a sum of f8s, so that a constant below 1 may come first.
static Node *scaled_by_both(Graph *g, Node *y, Node *a, Node *b) {
    double least[2], most[2];
    bool known[2] = {range_of_constant(g, a, &least[0], &most[0]), range_of_constant(g, b, &least[1], &most[1])};
    if (known[0] && known[1] && range_factor(least[0] * least[1]) && range_factor(most[0] * most[1])) return g_ew2(g, EW_mul, y, g_ew2(g, EW_mul, a, b));
    bool second = known[1] && (!known[0] || most[1] < most[0]);
    return g_ew2(g, EW_mul, g_ew2(g, EW_mul, y, second ? b : a), second ? a : b);
}

static Node *integer_product(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Graph *g = r->g;
    Quantised a, b;
    (void)pass;
    if (n->kind != G_contract || !(n->elem == EL_f32 || n->elem == EL_i32)) return NULL;
    int nb = n->contract.nb, nm = n->contract.nm, nn = n->contract.nn, nk = n->contract.nk;
    if (!dequantised(g, src[0], &a) || !dequantised(g, src[1], &b)) return NULL;
    if (is_byte(a.q) != is_byte(b.q) || (is_f8(a.q) && a.q->elem != b.q->elem)) return NULL;
    if ((n->elem == EL_i32 && (a.scale || b.scale)) || ((a.zero || b.zero) && (nb || !is_weight(b.q)))) return NULL;
    make_signed(g, &b);
    if (b.zero && nk > 1) return NULL;                       // a window's own sum is as much work again
    Node *zero[2] = {a.zero, b.zero}, *scale[2] = {a.scale, b.scale};
    if (a.zero && !(zero[0] = of_product(g, n, a.zero, nb, nm, nb))) return NULL;
    if (b.zero && !(zero[1] = of_product(g, n, b.zero, nb, nn, nb + nm))) return NULL;
    if (a.scale && !(scale[0] = of_product(g, n, a.scale, nb, nm, nb))) return NULL;
    if (b.scale && !(scale[1] = of_product(g, n, b.scale, nb, nn, nb + nm))) return NULL;
    Elem acc = is_byte(a.q) ? EL_i32 : EL_f32;
    Node *y = g_contract(g, a.q, b.q, nb, nm, nn, nk, acc, acc);
    Node *whole = b.zero ? g_ew2(g, EW_sub, g_cast(g, b.q, EL_i32), b.zero) : b.q;
    if (a.zero) y = g_ew2(g, EW_sub, y, g_ew2(g, EW_mul, sums(g, n, whole, nn, nk, nm), zero[0]));
    if (b.zero) y = g_ew2(g, EW_sub, y, g_ew2(g, EW_mul, sums(g, n, a.q, nm, nk, 0), zero[1]));
    y = g_cast(g, y, (Elem)n->elem);
    if (scale[0] && scale[1]) y = scaled_by_both(g, y, scale[0], scale[1]);
    else if (scale[0] || scale[1]) y = g_ew2(g, EW_mul, y, scale[0] ? scale[0] : scale[1]);
    return y ? g_name(g, y, n->name) : NULL;
}

void integer_products(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, integer_product, NULL);
}

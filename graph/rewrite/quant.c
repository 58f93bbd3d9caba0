// Products of quantised numbers: in integers, with their scales afterwards.
//
//     a = (qa - za) * sa        qa i8 or u8, sa a number, or one for each row, or each picture
//     b = (qb - zb) * sb        qb i8 or u8, zb = 0, sb a number or one for each column
//     sum of a * b over k   =   (sum of qa * qb over k  -  za * sum of qb over k) * sa * sb
//
// Graphs of QuantizeLinear and DequantizeLinear say the left side, as floats; integer operators (MatMulInteger,
// QLinearConv) say it without the scales, in 32-bit integers. Either becomes a product of bytes, which tensor cores
// take, with a sum in i32 that is exact; what remains of the conversions is elementwise and joins the kernel that makes
// or reads the value. The sum of qb is of weights alone, and is computed when they are loaded. Numbers of f8 have no
// zero points, and their sums are in f32.

#include "graph/rewrite/rewrite.h"

#include <string.h>

typedef struct Quantised {       // (q - zero) * scale, elementwise
    Node   *q;
    int64_t zero;
    Node   *scale;               // of q's shape, or NULL: 1
} Quantised;

static bool is_byte(const Node *n) { return n->elem == EL_i8 || n->elem == EL_u8; }
static bool is_f8(const Node *n) { return n->elem == EL_f8e4m3 || n->elem == EL_f8e5m2; }

// Are all elements this one number?
static bool uniform(const Node *n, int64_t *value) {
    while (n->kind == G_cast || (n->kind == G_view && ix_is(n->view.pred, 1))) n = n->src[0];
    if (n->kind != G_const || !elem_is_int((Elem)n->elem) || n->c.bytes == 0) return false;
    size_t width = (size_t)elem_bytes((Elem)n->elem);
    for (size_t at = width; at < n->c.bytes; at += width)
        if (memcmp(n->c.data, (const char *)n->c.data + at, width) != 0) return false;
    *value = g_num_load(n->c.data, (Elem)n->elem).i;
    return true;
}

// Bytes, widened; or bytes less a number.
static bool centred(Node *n, Quantised *to) {
    *to = (Quantised){0};
    if (n->kind == G_ew && n->op == EW_sub) {
        if (!uniform(n->src[1], &to->zero)) return false;
        n = n->src[0];
    }
    bool widened = n->kind == G_cast && (n->elem == EL_i32 || n->elem == EL_f32);
    if (!widened || !(is_byte(n->src[0]) || is_f8(n->src[0]))) return false;
    to->q = n->src[0];
    return true;
}

static bool dequantised(Graph *g, Node *n, Quantised *to);

static bool moved(Graph *g, Node *n, Quantised *to) {
    bool partly = !ix_is(n->view.pred, 1);
    if (!dequantised(g, n->src[0], to) || (partly && (n->view.fill.is_int ? n->view.fill.i != 0 : n->view.fill.f != 0)))
        return false;
    if (to->scale && partly) {                               // outside, the scale must be one, too
        GNum v;
        if (!g_scalar_value(to->scale, &v)) return false;
        to->scale = g_full(g, (Elem)to->scale->elem, n->rank, n->shape, v);
    } else if (to->scale) {
        to->scale = g_view(g, to->scale, n->rank, n->shape, n->view.coord, NULL, g_int(0));
    }
    to->q = g_view(g, to->q, n->rank, n->shape, n->view.coord, n->view.pred, g_int(to->zero));
    return to->q && !g_failed(g);
}

static bool dequantised(Graph *g, Node *n, Quantised *to) {
    if (centred(n, to)) return true;
    if (n->kind == G_view) return moved(g, n, to);
    if (n->kind == G_cast && n->elem == EL_f32 && n->src[0]->elem == EL_i32) return centred(n->src[0], to);
    if (n->kind != G_ew || n->op != EW_mul || n->elem != EL_f32) return false;
    for (int i = 0; i < 2; i++) {
        if (!dequantised(g, n->src[i], to) || to->scale) continue;
        to->scale = n->src[1 - i];
        return true;
    }
    return false;
}

// The scale as a value of the product: its axes are among the operand's first ones, which are at `first` (and those of
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

static Node *integer_product(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Graph *g = r->g;
    Quantised a, b;
    (void)pass;
    if (n->kind != G_contract || !(n->elem == EL_f32 || n->elem == EL_i32)) return NULL;
    int nb = n->contract.nb, nm = n->contract.nm, nn = n->contract.nn, nk = n->contract.nk;
    if (!dequantised(g, src[0], &a) || !dequantised(g, src[1], &b) || b.zero != 0) return NULL;
    if (is_byte(a.q) != is_byte(b.q) || (is_f8(a.q) && a.q->elem != b.q->elem)) return NULL;
    if ((n->elem == EL_i32 && (a.scale || b.scale)) || (a.zero != 0 && (nb || !is_weight(b.q)))) return NULL;
    Node *scale[2] = {a.scale, b.scale};
    if (a.scale && !(scale[0] = of_product(g, n, a.scale, nb, nm, nb))) return NULL;
    if (b.scale && !(scale[1] = of_product(g, n, b.scale, nb, nn, nb + nm))) return NULL;
    Elem acc = is_byte(a.q) ? EL_i32 : EL_f32;
    Node *y = g_contract(g, a.q, b.q, nb, nm, nn, nk, acc, acc);
    if (a.zero != 0) {
        uint32_t axes = ((1u << (nn + nk)) - 1) & ~((1u << nn) - 1);
        Ix coord[G_MAX_RANK];
        Node *sum = g_reduce(g, GR_sum, g_cast(g, b.q, EL_i32), axes, false);
        for (int i = 0; i < nn; i++) coord[i] = ix_axis(g, nm + i, n->shape[nm + i]);
        Node *column = sum ? g_view(g, sum, n->rank, n->shape, coord, NULL, g_int(0)) : NULL;
        y = g_ew2(g, EW_sub, y, g_ew2(g, EW_mul, column, g_full(g, EL_i32, n->rank, n->shape, g_int(a.zero))));
    }
    y = g_cast(g, y, (Elem)n->elem);
    if (scale[0] && scale[1]) y = g_ew2(g, EW_mul, y, g_ew2(g, EW_mul, scale[0], scale[1]));
    else if (scale[0] || scale[1]) y = g_ew2(g, EW_mul, y, scale[0] ? scale[0] : scale[1]);
    return y ? g_name(g, y, n->name) : NULL;
}

void integer_products(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, integer_product, NULL);
}

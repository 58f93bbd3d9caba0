// Sizes that go through floats: `int(ceil(height / 2.0)) * 2`, `arange(0.5, width)`, factors of one size over another, as exporters write
// them. An element is a quotient of two index expressions; where it comes back to an integer, or asks how many steps
// there are, it is an expression again.
//
//     Cast(height) -> f32    height / 1
//     Div(.., 2.0)           height / 2
//     Ceil                   ceil(height / 2) / 1
//     Cast -> i64            ceil(height / 2)
//
// Numbers are those with a few bits (2.0, 0.5, 1.25): with others floats round, and a floor may be on the other side.
#include "graph/internal.h"

#include <math.h>

enum { DEEPEST = 40 };

static bool in_lowest_terms(Graph *g, Ix num, Ix den, GRatio *to) {
    if (!num || !den || den->lo < 0 || ix_is(den, 0)) return false;
    Ix whole = ix_divide_exact(g, num, den);
    *to = whole ? (GRatio){whole, ix(g, 1)} : (GRatio){num, den};
    return true;
}

static bool of_number(Graph *g, double v, GRatio *to) {
    enum { PARTS = 1 << 10, MOST = 1 << 30 };
    double n = v * PARTS;
    return n == floor(n) && fabs(n) < MOST && in_lowest_terms(g, ix(g, (int64_t)n), ix(g, PARTS), to);
}

static bool element(Graph *g, Node *n, int64_t at, int depth, GRatio *to);

static bool of_ew(Graph *g, const Node *n, int64_t at, int depth, GRatio *to) {
    GRatio a, b = {0};
    if (n->nsrc > 2 || !element(g, n->src[0], at, depth + 1, &a) || (n->nsrc == 2 && !element(g, n->src[1], at, depth + 1, &b))) return false;
    Ix one = ix(g, 1), across = b.den ? ix_mul(g, a.num, b.den) : NULL, back = b.den ? ix_mul(g, b.num, a.den) : NULL, den = b.den ? ix_mul(g, a.den, b.den) : NULL;
    switch ((GEw)n->op) {
    case EW_neg:   return in_lowest_terms(g, ix_muli(g, a.num, -1), a.den, to);
    case EW_add:   return in_lowest_terms(g, a.den == b.den ? ix_add(g, a.num, b.num) : ix_add(g, across, back), a.den == b.den ? a.den : den, to);
    case EW_sub:   return in_lowest_terms(g, a.den == b.den ? ix_sub(g, a.num, b.num) : ix_sub(g, across, back), a.den == b.den ? a.den : den, to);
    case EW_mul:   return in_lowest_terms(g, ix_mul(g, a.num, b.num), den, to);
    case EW_div:   return in_lowest_terms(g, across, back, to);
    case EW_floor: *to = (GRatio){ix_div(g, a.num, a.den), one}; return to->num != NULL;
    case EW_ceil:  *to = (GRatio){ix_ceildiv(g, a.num, a.den), one}; return to->num != NULL;
    case EW_trunc: *to = (GRatio){ix_div(g, a.num, a.den), one}; return to->num && ix_prove_ge0(g, a.num);
    case EW_min:   *to = (GRatio){ix_min(g, a.num, b.num), a.den}; return to->num && a.den == b.den;
    case EW_max:   *to = (GRatio){ix_max(g, a.num, b.num), a.den}; return to->num && a.den == b.den;
    default:       return false;
    }
}

static bool of_view(Graph *g, const Node *n, int64_t at, int depth, GRatio *to) {
    int64_t place = 0;
    Ix here = ix(g, at);
    if (n->src[0]->rank > 1 || !ix_is(ix_substitute(g, n->view.pred, &here, n->rank), 1)) return false;
    if (n->src[0]->rank == 1 && !ix_const(ix_substitute(g, n->view.coord[0], &here, n->rank), &place)) return false;
    return element(g, n->src[0], place, depth + 1, to);
}

static bool element(Graph *g, Node *n, int64_t at, int depth, GRatio *to) {
    int count;
    GNum v;
    if (depth > DEEPEST || n->rank > 1) return false;
    if (elem_is_int((Elem)n->elem)) {
        const Ix *known = g_known(g, n, &count);
        return known && at < count && in_lowest_terms(g, known[at], ix(g, 1), to);
    }
    if (n->elem == EL_bool) return false;
    if (g_scalar_value(n, &v)) return of_number(g, v.is_int ? (double)v.i : v.f, to);
    if (n->kind == G_const) {
        if (at * elem_bytes((Elem)n->elem) >= (int64_t)n->c.bytes || !n->c.data) return false;
        v = g_num_load((const char *)n->c.data + at * elem_bytes((Elem)n->elem), (Elem)n->elem);
        return of_number(g, v.is_int ? (double)v.i : v.f, to);
    }
    if (n->kind == G_cast) return element(g, n->src[0], at, depth + 1, to);
    if (n->kind == G_ew) return of_ew(g, n, at, depth, to);
    if (n->kind == G_view) return of_view(g, n, at, depth, to);
    for (uint32_t k = 0; n->kind == G_concat && k < n->nsrc; k++) {
        int64_t length;
        if (!ix_const(n->src[k]->shape[0], &length)) return false;
        if (at < length) return element(g, n->src[k], at, depth + 1, to);
        at -= length;
    }
    return false;
}

const GRatio *g_known_ratios(Graph *g, Node *n, int *count) {
    enum { MOST = 32 };
    int64_t length = 1;
    *count = 0;
    if (!n || n->rank > 1 || (n->rank == 1 && !ix_const(n->shape[0], &length)) || length > MOST) return NULL;
    GRatio *to = NEW_N(g->arena, GRatio, length + 1);
    for (int64_t i = 0; i < length; i++)
        if (!element(g, n, i, 0, &to[i])) return NULL;
    *count = (int)length;
    return to;
}

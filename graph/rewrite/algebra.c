// Algebra before fusion: constants that are index expressions, numbers that are known, and factors that can leave a product.
//
// Constants that count. Exporters write positions down as data: [0, 1, .., 1023], all zeros, a triangle of trues. Such a
// constant is an index expression of its axes; with that, `positions[n] <= positions[m]` becomes n <= m, and a mask is seen
// to be causal.
//
//     c[i, j] = a + b * i + c * j                       integers
//     c[.., j]    = of that form for each j              coordinates of a gather
//     c[.., m, n] = n <= m + d ? a : b                  truths, and floats with two values
//
// Numbers. What is one number and computed from constants is a literal: a head's size under a root, a clip's bounds.
//
// Factors. A number that multiplies an operand of a product multiplies its result, (s * q) @ (t * k)' = s * t * (q @ k'), or else
// the other operand, (s * t * q) @ k', as far as values stay in range (range.c). There are fewer results than operands of an
// attention, and what is only moved before a product can be loaded as it is. Weights, which are scaled once, keep theirs.

#include "graph/fuse/fuse.h"
#include "graph/ref/ref.h"
#include "graph/rewrite/range.h"
#include "graph/rewrite/rewrite.h"

#include <string.h>

// ---- single numbers -----------------------------------------------------------------------------------------------------

enum { FEW_NODES = 64, FEW_ELEMENTS = 4096 };

// Is x computed from constants and places alone, with little?
static bool known_now(const Node *x, int *left) {
    int64_t count = 1, size;
    bool leaf = x->kind == G_const, fixed = x->kind == G_index && !x->index.expr->has_dim;
    bool computed = x->kind == G_ew || x->kind == G_cast || x->kind == G_view || x->kind == G_gather || x->kind == G_reduce;
    for (int i = 0; i < x->rank; i++) {
        if (!ix_const(x->shape[i], &size) || size > FEW_ELEMENTS) return false;
        count *= size;
        if (count > FEW_ELEMENTS && !leaf) return false;
    }
    if (leaf) return x->c.data != NULL;
    if (!(fixed || computed) || --*left < 0) return false;
    for (uint32_t k = 0; k < x->nsrc; k++)
        if (!known_now(x->src[k], left)) return false;
    return true;
}

// sqrt(64), 1 / 8, an element of a shape as a float: one number, which is a literal then.
static Node *as_number(Rewrite *r, void *pass, Node *n, Node *const *src) {
    (void)pass;
    Graph *g = r->g;
    GTensor t;
    GNum already;
    char why[256];
    int left = FEW_NODES;
    bool one = (n->kind == G_ew || n->kind == G_cast || n->kind == G_gather || n->kind == G_reduce) &&
               ix_is(g_count(g, n), 1);
    if (!one || g_scalar_value(n, &already)) return NULL;
    Node *now = rewrite_node(g, n, src);
    if (!now || !known_now(now, &left) || !ref_value(g, now, &t, why, sizeof why)) return NULL;
    Node *c = g_const(g, t.elem, t.rank, t.shape, t.data);
    g_tensor_free(&t);
    return c;
}

void fold_constants(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, as_number, NULL);
}

// ---- constants that count ----------------------------------------------------------------------------------------------

enum { MOST_ELEMENTS = 1 << 22 };

typedef struct Data { const Node *n; int64_t dim[G_MAX_RANK], count; } Data;

static bool data_of(const Node *n, Data *d) {
    *d = (Data){.n = n, .count = 1};
    for (int i = 0; i < n->rank; i++) {
        if (!ix_const(n->shape[i], &d->dim[i])) return false;
        d->count *= d->dim[i];
    }
    return n->kind == G_const && n->c.data && n->rank > 0 && d->count > 0 && d->count <= MOST_ELEMENTS;
}

static GNum at(const Data *d, int64_t i) {
    return g_num_load((const char *)d->n->c.data + i * elem_bytes((Elem)d->n->elem), (Elem)d->n->elem);
}

static uint64_t bits(const Data *d, int64_t i) {
    uint64_t v = 0;
    size_t wide = (size_t)elem_bytes((Elem)d->n->elem);
    memcpy(&v, (const char *)d->n->c.data + (size_t)i * wide, wide);
    return v;
}

// a + sum of b[k] * axis k: read off the first steps along each axis, then compared with all.
static Node *affine(Graph *g, const Data *d) {
    int64_t step[G_MAX_RANK] = {0}, place[G_MAX_RANK] = {0}, stride = 1, value = at(d, 0).i, first = value;
    Ix e = ix(g, value);
    for (int k = d->n->rank; k-- > 0; stride *= d->dim[k])
        if (d->dim[k] > 1 && __builtin_sub_overflow(at(d, stride).i, first, &step[k])) return NULL;
    for (int k = 0; k < d->n->rank; k++) {
        if (step[k] > INT32_MAX || step[k] < INT32_MIN) return NULL;
        e = ix_add(g, e, ix_muli(g, ix_axis(g, k, d->n->shape[k]), step[k]));
    }
    for (int64_t i = 0; i < d->count; i++) {
        if (at(d, i).i != value) return NULL;
        for (int k = d->n->rank; k-- > 0;) {                 // the next place
            value += step[k];
            if (++place[k] < d->dim[k]) break;
            value -= step[k] * d->dim[k];
            place[k] = 0;
        }
    }
    return g_index(g, (Elem)d->n->elem, d->n->rank, d->n->shape, e);
}

// The last two axes m, n: one value where n <= m + offset, another where not; the same for all others.
static Node *triangle(Graph *g, const Data *d) {
    const Node *c = d->n;
    int rank = c->rank;
    if (rank < 2 || d->dim[rank - 1] < 2 || d->dim[rank - 2] < 2) return NULL;
    int64_t M = d->dim[rank - 2], N = d->dim[rank - 1], offset = -1;
    uint64_t in = bits(d, (M - 1) * N), out = bits(d, N - 1);
    if (in == out) return NULL;
    while (offset + 1 < N && bits(d, offset + 1) == in) offset++;
    for (int64_t i = 0; i < d->count; i++)
        if (bits(d, i) != (i % N <= i / N % M + offset ? in : out)) return NULL;
    Ix m = ix_axis(g, rank - 2, c->shape[rank - 2]), n = ix_axis(g, rank - 1, c->shape[rank - 1]);
    Node *inside = g_index(g, EL_bool, rank, c->shape, ix_le(g, n, ix_addi(g, m, offset)));
    if (c->elem == EL_bool && in) return inside;
    return g_where(g, inside, g_full(g, (Elem)c->elem, rank, c->shape, at(d, (M - 1) * N)),
                   g_full(g, (Elem)c->elem, rank, c->shape, at(d, N - 1)));
}

// Coordinates as data, the last axis short: c[.., j] is affine for each j.
static Node *coordinates(Graph *g, const Data *d) {
    int rank = d->n->rank, last = rank - 1;
    int64_t n = last >= 0 ? d->dim[last] : 0, count = n ? d->count / n : 0, dims[G_MAX_RANK];
    if (n < 2 || n > 4 || count > MOST_ELEMENTS / 4) return NULL;
    Ix sum = ix(g, 0);
    int64_t *part = arena_alloc(g->arena, (size_t)count * sizeof *part);
    for (int k = 0; k < last; k++) dims[k] = d->dim[k];
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < count; i++) part[i] = at(d, i * n + j).i;
        const Node *c = g_const_ref(g, EL_i64, last, dims, part, NULL);
        Data one;
        Node *e = c && data_of(c, &one) ? affine(g, &one) : NULL;
        GNum number;
        if (!e || (e->kind != G_index && !g_scalar_value(e, &number))) return NULL;
        Ix expr = e->kind == G_index ? e->index.expr : ix(g, number.i);
        sum = ix_add(g, sum, ix_mul(g, ix_eq(g, ix_axis(g, last, d->n->shape[last]), ix(g, j)), expr));
    }
    return g_index(g, (Elem)d->n->elem, rank, d->n->shape, sum);
}

static Node *counted(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Data d;
    (void)pass, (void)src;
    if (n->kind != G_const || !data_of(n, &d)) return NULL;
    bool whole = elem_is_int((Elem)n->elem) && n->elem != EL_bool && n->elem != EL_u64;
    Node *e = whole ? affine(r->g, &d) : NULL;
    bool splat = n->elem == EL_bool || d.count == 1;
    for (int64_t i = 1; i < d.count && splat; i++) splat = bits(&d, i) == bits(&d, 0);
    if (splat) return g_full(r->g, (Elem)n->elem, n->rank, n->shape, at(&d, 0));
    if (!e && whole) e = coordinates(r->g, &d);
    return e ? e : triangle(r->g, &d);
}

// Running sums of one integer count; running extremes of one value are that.
static Node *scanned(Graph *g, const Node *n, const Node *x) {
    GNum v;
    int axis = n->scan.axis;
    if (!g_scalar_value(x, &v)) return NULL;
    if ((n->op == GR_max || n->op == GR_min) && !n->scan.exclusive) return g_full(g, (Elem)n->elem, n->rank, n->shape, v);
    if (n->op != GR_sum || !elem_is_int((Elem)n->elem) || n->elem == EL_u64 || v.i > INT32_MAX || v.i < INT32_MIN)
        return NULL;
    Ix at = ix_axis(g, axis, n->shape[axis]);
    if (n->scan.reverse) at = ix_sub(g, ix_addi(g, n->shape[axis], -1), at);
    return g_index(g, (Elem)n->elem, n->rank, n->shape, ix_muli(g, ix_addi(g, at, !n->scan.exclusive), v.i));
}

// What is made of what has changed folds as it would have when the graph was built.
static Node *folded(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Graph *g = r->g;
    Node *e = counted(r, pass, n, src);
    bool same = true;
    for (uint32_t i = 0; i < n->nsrc; i++) same &= src[i] == n->src[i];
    if (e || same) return e;
    if (n->kind == G_ew) return g_name(g, g_ew(g, (GEw)n->op, src, (int)n->nsrc), n->name);
    if (n->kind == G_scan && (e = scanned(g, n, src[0]))) return e;
    GNum v;
    if (n->kind == G_gather && g_scalar_value(src[0], &v) && n->at.checked)
        return g_full(g, (Elem)n->elem, n->rank, n->shape, v);
    if (n->kind == G_cast && !n->cast.kept)
        return n->cast.saturate ? g_cast_saturate(g, src[0], (Elem)n->elem) : g_cast(g, src[0], (Elem)n->elem);
    return NULL;
}

// ---- axes that nothing varies along -----------------------------------------------------------------------------------
//
// A mask of keys that was expanded to all queries before it was computed with: computed without them, and expanded then.

static uint64_t varies(const Node *x) {
    GNum v;
    uint64_t axes = 0;
    if (g_scalar_value(x, &v)) return 0;
    if (x->kind != G_view || !ix_is(x->view.pred, 1)) return ~UINT64_C(0);
    for (int i = 0; i < x->src[0]->rank; i++) axes |= x->view.coord[i]->axes;
    return axes;
}

// A reduction along axes that its value does not vary along: of the value without them, a sum times how many there are.
static Node *once(Graph *g, const Node *n, Node *x) {
    bool sum = n->op == GR_sum;
    if (!sum && n->op != GR_max && n->op != GR_min && n->op != GR_any && n->op != GR_all) return NULL;
    uint64_t vary = varies(x);
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], count = ix(g, 1);
    uint32_t rest = 0;
    int rank = 0;
    for (int i = 0; i < x->rank; i++) {
        bool axis = n->reduce.axes >> i & 1, drops = axis && !(vary >> i & 1) && !ix_is(x->shape[i], 0);
        if (drops) count = ix_mul(g, count, x->shape[i]);
        if (axis && !drops) rest |= 1u << rank;
        if (!drops) shape[rank] = x->shape[i];
        coord[i] = drops ? ix(g, 0) : ix_axis(g, rank++, x->shape[i]);
    }
    if (rank == x->rank || !count) return NULL;
    Elem elem = (Elem)n->elem, wide = elem_is_float(elem) && elem_bits(elem) < 32 ? EL_f32 : elem;
    Node *y = g_cast(g, g_view(g, x, rank, shape, coord, NULL, g_int(0)), wide);
    y = g_reduce(g, (GReduce)n->op, y, rest, false);
    return g_cast(g, sum ? g_ew2(g, EW_mul, y, g_size(g, wide, count)) : y, elem);
}

// A product of weights and an operand that does not vary along the sum, as of a state that begins with zeros: of it and of the weights' sum.
static Node *outer(const Rewrite *r, const Node *n, Node *const *src) {
    Graph *g = r->g;
    int nb = n->contract.nb, nk = n->contract.nk;
    for (int side = 0; side < 2; side++) {
        Node *part[2];
        Ix coord[G_MAX_RANK];
        int own = nb + (side ? n->contract.nn : n->contract.nm), axis[G_MAX_RANK];
        uint64_t vary = varies(src[side]) >> own;
        bool same = true, many = false;
        for (int i = 0; i < nk; i++) {
            Ix size = src[side]->shape[own + i];
            same &= !(vary >> i & 1) && size->lo > 0;
            many |= !ix_is(size, 1);
            coord[own + i] = ix(g, 0);
        }
        if (!same || !many || !r->constant[n->src[1 - side]->id]) continue;
        for (int i = 0; i < own; i++) coord[i] = ix_axis(g, i, src[side]->shape[i]);
        int other = src[1 - side]->rank - nk;
        part[side] = g_cast(g, g_view(g, src[side], own, src[side]->shape, coord, NULL, g_int(0)), n->contract.acc);
        Node *weights = g_cast(g, src[1 - side], n->contract.acc);
        double power = range_sums(g, n, src[1 - side]);      // of weights that may add up past the end, over as many as they are
        if (power > 1) weights = g_ew2f(g, EW_mul, weights, 1 / power);
        part[1 - side] = g_reduce(g, GR_sum, weights, ((1u << nk) - 1) << other, false);
        for (int p = 0; p < 2; p++) {
            int rank = p == side ? own : other;
            for (int i = 0; i < rank; i++) axis[i] = i < nb || p == 0 ? i : i + n->contract.nm;
            part[p] = g_broadcast_to(g, part[p], n->rank, n->shape, axis);
        }
        Node *y = g_ew2(g, EW_mul, part[0], part[1]);
        return g_cast(g, power > 1 ? g_ew2f(g, EW_mul, y, power) : y, (Elem)n->elem);
    }
    return NULL;
}

// Parts that are all the same number.
static Node *same_parts(Graph *g, const Node *n, Node *const *src) {
    GNum v, w;
    if (!g_scalar_value(src[0], &v)) return NULL;
    for (uint32_t i = 1; i < n->nsrc; i++)
        if (!g_scalar_value(src[i], &w) || v.is_int != w.is_int || (v.is_int ? v.i != w.i : memcmp(&v.f, &w.f, sizeof v.f) != 0)) return NULL;
    return g_full(g, (Elem)n->elem, n->rank, n->shape, v);
}

static Node *thinned(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Graph *g = r->g;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    uint64_t axes = 0;
    bool less = false;
    (void)pass;
    if (n->kind == G_reduce || n->kind == G_concat || n->kind == G_contract) {
        Node *e = n->kind == G_reduce ? once(g, n, src[0]) : n->kind == G_concat ? same_parts(g, n, src) : outer(r, n, src);
        return e ? g_name(g, e, n->name) : NULL;
    }
    if (n->kind != G_ew && (n->kind != G_cast || n->cast.kept)) return NULL;
    for (uint32_t i = 0; i < n->nsrc; i++) axes |= varies(src[i]);
    for (int i = 0; i < n->rank; i++) {
        bool stays = axes >> i & 1 || ix_is(n->shape[i], 1);
        shape[i] = stays ? n->shape[i] : ix(g, 1);
        coord[i] = stays ? ix_axis(g, i, n->shape[i]) : ix(g, 0);
        less |= !stays;
    }
    if (!less || axes == 0) return NULL;
    Node **thin = NEW_N(g->arena, Node *, n->nsrc);
    Ix at[G_MAX_RANK];
    for (int i = 0; i < n->rank; i++) at[i] = ix_axis(g, i, shape[i]);
    for (uint32_t i = 0; i < n->nsrc; i++) {
        Ix through[G_MAX_RANK];
        for (int k = 0; k < n->rank; k++) through[k] = ix_is(shape[k], 1) ? ix(g, 0) : at[k];
        thin[i] = g_view(g, src[i], n->rank, shape, through, NULL, g_int(0));
    }
    Node proto = *n;
    proto.src = thin;
    proto.shape = shape;
    return g_view(g, g_name(g, node_intern(g, &proto), n->name), n->rank, n->shape, coord, NULL, g_int(0));
}

void constants_to_indices(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, folded, NULL);
    if (!g_failed(g) && rewrite_begin(&r, g)) rewrite_all(&r, thinned, NULL);
}

// ---- factors of products -----------------------------------------------------------------------------------------------

static bool number(const Node *n, double *v) {
    GNum c;
    if (!elem_is_float((Elem)n->elem) || !g_scalar_value(n, &c)) return false;
    *v = c.is_int ? (double)c.i : c.f;
    return *v != 0 && *v - *v == 0;
}

// x without numbers that multiply or divide it, which go to *factor.
static Node *unscaled(Graph *g, Node *x, double *factor) {
    double v;
    if (x->kind == G_view && ix_is(x->view.pred, 1)) {
        Node *y = unscaled(g, x->src[0], factor);
        return y == x->src[0] ? x : g_view(g, y, x->rank, x->shape, x->view.coord, x->view.pred, x->view.fill);
    }
    if (x->kind != G_ew) return x;
    for (int i = 0; i < 2 && x->op == EW_mul; i++)
        if (number(x->src[i], &v)) {
            *factor *= v;
            return unscaled(g, x->src[1 - i], factor);
        }
    if (x->op == EW_div && number(x->src[1], &v)) {
        *factor /= v;
        return unscaled(g, x->src[0], factor);
    }
    return x;
}

// Only one operand without its factors, if the other one must keep them.
static Node *hoisted_by(Graph *g, const Node *n, Node *const *src, Node *const *bare, const double *factor) {
    for (int sides = 3; sides > 0; sides--) {                // both, the right one, the left one
        Node *to[2];
        double of[2];
        for (int i = 0; i < 2; i++) {
            bool without = sides >> i & 1;
            to[i] = without ? bare[i] : src[i];
            of[i] = without ? factor[i] : 1;
        }
        if ((to[0] == src[0] && to[1] == src[1]) || !range_past_product(g, n, to[0], of[0], to[1], of[1])) continue;
        Node *y = rewrite_node(g, (Node *)n, to);
        return of[0] * of[1] == 1 ? y : g_ew2f(g, EW_mul, y, of[0] * of[1]);
    }
    return NULL;
}

// The factors of both operands on the smaller one, or the left one if it has one in any case.
static Node *on_one_side(Graph *g, const Node *n, Node *const *src, Node *const *bare, const double *factor) {
    for (int from = 1; from >= 0; from--) {
        int to = 1 - from;
        Ix giver = g_count(g, bare[from]), taker = g_count(g, bare[to]);
        bool better = giver && taker && ix_prove_le(g, taker, giver) && (from == 1 || !ix_prove_le(g, giver, taker));
        if (bare[from] == src[from] || !(better || (from == 1 && bare[to] != src[to])) || !range_across_product(g, bare[from], bare[to], factor[from], factor[to])) continue;
        Node *with[2];
        with[from] = bare[from];
        with[to] = g_ew2f(g, EW_mul, bare[to], factor[0] * factor[1]);
        return rewrite_node(g, (Node *)n, with);
    }
    return NULL;
}

// An operand whose factor stays, of a value that is moved, or read several times: the value times the factor, moved. That is
// where its product's epilogue can have it. NULL: it is there already, or the value is wanted without it, too.
static Node *sunk(Rewrite *r, const Node *operand) {
    enum { MOST_VIEWS = 16 };
    const Node *view[MOST_VIEWS], *x = operand, *times = NULL;
    double factor;
    int n = 0, below = 0, at = 0;
    for (; n < MOST_VIEWS && r->users[x->id] == 1; x = times == x ? x->src[at] : x->src[0]) {
        bool moves = x->kind == G_view && ix_is(x->view.pred, 1);
        if (moves) view[n++] = x, below += times != NULL;
        else if (times || x->kind != G_ew || (x->op != EW_mul && x->op != EW_div)) break;
        else {
            at = number(x->src[1], &factor) ? 0 : x->op == EW_mul && number(x->src[0], &factor) ? 1 : -1;
            if (at < 0) return NULL;
            times = x;
        }
    }
    if (!times || !below || r->users[x->id] != 1) return NULL;
    Node *y = g_ew2f(r->g, (GEw)times->op, r->to[x->id], factor);
    while (n-- > 0) y = g_view(r->g, y, view[n]->rank, view[n]->shape, view[n]->view.coord, NULL, g_int(0));
    return y;
}

static Node *hoisted(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Graph *g = r->g;
    double factor[2] = {1, 1};
    (void)pass;
    if (n->kind != G_contract || (n->elem != EL_f32 && n->elem != EL_f64) || r->constant[n->src[0]->id] ||
        r->constant[n->src[1]->id])
        return NULL;
    Node *bare[2] = {unscaled(g, src[0], &factor[0]), unscaled(g, src[1], &factor[1])};
    if (bare[0] == src[0] && bare[1] == src[1]) return NULL;
    Node *y = hoisted_by(g, n, src, bare, factor);
    if (!y) y = on_one_side(g, n, src, bare, factor);
    if (y) return y;
    Node *left = sunk(r, n->src[0]), *right = sunk(r, n->src[1]);
    return left || right ? rewrite_node(g, n, (Node *[]){left ? left : src[0], right ? right : src[1]}) : NULL;
}

void hoist_factors(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, hoisted, NULL);
}

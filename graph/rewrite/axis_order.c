// The order in which values are stored.
//
// A convolution is a product of windows and weights, [N, P, Q, C, R, S] with [K, C, R, S], and its result is [N, P, Q,
// K]; the model's layout, [N, K, P, Q], is a view of that. Since a view costs nothing, a layout is only the order of
// axes in which somebody computes and stores. So this pass moves views down, past whatever is computed element by
// element:
//
//     relu(view(product))   ->  view(relu(product))                 and the view meets the next one, and they vanish
//
// Everything between two convolutions is then [N, H, W, C]: pixels read channels side by side, a 1 x 1 convolution is a
// plain product over (N H W) x C, a sum over the picture is a sum of rows. What leaves the model is a view again, so
// that the kernel that makes it stores it in the model's order. Nothing here knows convolutions; it does the same for
// heads.
//
// A product with weights has to sum in some order, and takes that of its left operand: (r, s, c) over windows, (h, w,
// c) over pictures that the model flattens. The weights follow: they are stored in that order when they are loaded
// (fuse.c).
//
// The order is found by looking through views at what is in memory. An axis that a view takes apart there (a / 16, a %
// 16) is two, its digits; digits that come to lie side by side are one axis again. Values of groups of channels, and
// what is computed of those, keep them apart, so that a group's mean and what it is subtracted from have an axis in
// common.

#include "graph/rewrite/rewrite.h"

#include "lang/launch.h"

#include <string.h>

// ---- dimensions put together ----------------------------------------------------------------------------------------

int ix_quotients(Ix e) {
    int q = e->kind == IX_DIV || e->kind == IX_MOD;
    for (uint32_t i = 0; e->kind != IX_AXIS && i < e->n; i++) q += ix_quotients(e->arg[i]);
    return q;
}

static int terms(Ix e) { return e->kind == IX_SUM ? (int)e->n + (e->value != 0) : ix_is(e, 0) ? 0 : 1; }

static bool is_quotient(Ix e) { return e->kind == IX_DIV || (e->kind == IX_SUM && e->n == 1 && e->coef[0] == 1 && e->arg[0]->kind == IX_DIV); }

int dims_merged(Graph *g, int rank, const Ix *shape, const Ix *coord, Ix *to_shape, Ix *to_coord) {
    int n = 0;
    for (int i = 0; i < rank; i++) {
        if (ix_is(shape[i], 1) && ix_is(coord[i], 0)) continue;
        if (n > 0) {
            // of a window: it stays a dimension, as copies of boxes want it
            bool strided = coord[i]->has_axis && coord[i]->multiple > 1;
            bool inside = !strided && ix_prove_ge0(g, coord[i]) && ix_prove_lt(g, coord[i], shape[i]);
            Ix one = ix_add(g, ix_mul(g, to_coord[n - 1], shape[i]), coord[i]);
            int quotients = ix_quotients(to_coord[n - 1]) + ix_quotients(coord[i]), most = terms(to_coord[n - 1]) + terms(coord[i]);
            bool simpler = one && ix_quotients(one) <= quotients && (terms(one) < most || (terms(one) == most && ix_quotients(one) + 2 <= quotients));
            // out of range together: what is left of the digit, or of a window's place in it, (x + 1) / 2 - 1
            bool taken_apart = is_quotient(to_coord[n - 1]) && coord[i]->kind == IX_MOD;
            bool outer = taken_apart ||
                         (ix_prove_ge0(g, to_coord[n - 1]) && ix_prove_lt(g, to_coord[n - 1], to_shape[n - 1]));
            if (inside && outer && simpler) {
                to_coord[n - 1] = one;
                to_shape[n - 1] = ix_mul(g, to_shape[n - 1], shape[i]);
                continue;
            }
        }
        to_shape[n] = shape[i];
        to_coord[n++] = coord[i];
    }
    return n;
}

int quotients_merged(Graph *g, int rank, const Ix *shape, const Ix *coord) {
    Ix s[G_MAX_RANK], c[G_MAX_RANK];
    int n = dims_merged(g, rank, shape, coord, s, c), q = 0;
    for (int i = 0; i < n; i++) q += ix_quotients(c[i]);
    return q;
}

enum { MOST_TAPS = 512 };

static bool may_be_depthwise(Graph *g, const Node *n) {
    bool one = n->kind == G_contract && n->contract.nb == 1;
    for (int i = 0; one && i < n->contract.nn; i++) one = ix_is(n->shape[n->contract.nb + n->contract.nm + i], 1);
    Ix taps = one ? ix_product(g, n->src[0]->shape + n->contract.nb + n->contract.nm, n->contract.nk) : NULL;
    return taps && taps->hi <= MOST_TAPS;
}

bool g_is_depthwise(Graph *g, const Node *n) {
    const Node *b = n->src[1];
    return may_be_depthwise(g, n) && b->kind == G_view && b->src[0]->kind == G_cast && b->src[0]->cast.kept;
}

// ---- digits and their order -----------------------------------------------------------------------------------------

enum { FIRST_DIGIT = G_MAX_RANK, MAX_DIGITS = 24, MAX_READ = 3 };

// Some of axis `of` of a value: (a / weight) % extent. The greatest one needs no remainder.
typedef struct Digit { int of; Ix weight, extent, axis; bool greatest; } Digit;

typedef struct Order { int n; Digit at[MAX_DIGITS]; } Order;          // outermost first

// What a value is in memory, and where its elements are there, in digits.
typedef struct Read { const Node *y; Ix at[G_MAX_RANK]; } Read;

typedef struct Layout {
    Rewrite *r;
    VEC(uint8_t) known;          // by node id, new ones too: IS_CONSTANT, IS_ORDERED
} Layout;

// ordered: a product with weights is below, which has an order to give
enum { IS_CONSTANT = 1, IS_ORDERED = 2 };

static uint8_t known(Layout *l, const Node *n) {
    Graph *g = l->r->g;
    for (uint32_t i = l->known.n; i <= n->id; i++) {
        const Node *e = g->nodes.at[i];
        uint8_t all = e->kind == G_const || (e->nsrc > 0 && e->kind != G_host && e->kind != G_steps) ? IS_CONSTANT : 0, any = 0;
        for (uint32_t k = 0; k < e->nsrc; k++) {
            all &= l->known.at[e->src[k]->id];
            any |= l->known.at[e->src[k]->id] & IS_ORDERED;
        }
        bool computes = e->kind == G_ew || e->kind == G_cast || e->kind == G_reduce || e->kind == G_concat ||
                        e->kind == G_view;
        bool weights = e->kind == G_contract && l->known.at[e->src[1]->id] & IS_CONSTANT;
        vec_push(g->arena, &l->known, (uint8_t)(all | (computes ? any : 0) | (weights ? IS_ORDERED : 0)));
    }
    return l->known.at[n->id];
}

static Node *seen_through(Node *x) {
    while (x->kind == G_view) x = x->src[0];
    return x;
}

static bool read_through(Graph *g, Node *x, const Ix *at, Read *to) {
    Ix next[G_MAX_RANK];
    for (int i = 0; i < x->rank; i++) to->at[i] = at[i];
    for (; x->kind == G_view; x = x->src[0]) {
        for (int i = 0; i < x->src[0]->rank; i++)
            if (!(next[i] = ix_substitute(g, x->view.coord[i], to->at, x->rank))) return false;
        memcpy(to->at, next, sizeof next);
    }
    to->y = x;
    return true;
}

// Where in memory dimension d of y stands: grouped products have their groups among the channels.
static int position(const Node *y, int d) {
    if (y->kind != G_contract || d >= y->contract.nb + y->contract.nm) return d;
    return d < y->contract.nb ? y->contract.nm + d : d - y->contract.nb;
}

static Ix place_of(Graph *g, const Order *o, int axis) {       // an axis from its digits
    Ix e = ix(g, 0);
    for (int i = 0; i < o->n; i++)
        if (o->at[i].of == axis) e = ix_add(g, e, ix_mul(g, o->at[i].axis, o->at[i].weight));
    return e;
}

// A digit that e takes apart, and by what.
static int taken_apart(Graph *g, const Order *o, Ix e, Ix *by) {
    if ((e->kind == IX_DIV || e->kind == IX_MOD) && e->arg[0]->kind == IX_AXIS &&
        ix_divide_exact(g, e->arg[0]->arg[0], e->arg[1])) {
        for (int i = 0; i < o->n; i++)
            if (o->at[i].axis == e->arg[0]) {
                *by = e->arg[1];
                return i;
            }
    }
    for (uint32_t i = 0; e->has_axis && e->kind != IX_AXIS && i < e->n; i++) {
        int found = taken_apart(g, o, e->arg[i], by);
        if (found >= 0) return found;
    }
    return -1;
}

static bool replace(Graph *g, const Order *o, Read *read, int n, Ix axis, Ix with) {
    Ix to[FIRST_DIGIT + 2 * MAX_DIGITS] = {0};
    for (int i = 0; i < o->n; i++)
        if (o->at[i].axis->kind == IX_AXIS) to[o->at[i].axis->value] = o->at[i].axis;
    to[axis->value] = with;
    for (int k = 0; k < n; k++)
        for (int d = 0; d < read[k].y->rank; d++)
            if (!(read[k].at[d] = ix_substitute(g, read[k].at[d], to, FIRST_DIGIT + 2 * MAX_DIGITS))) return false;
    return true;
}

static int new_axis(int *next) { return FIRST_DIGIT + (*next)++; }

// Digits fine enough for all reads, of the axes in `apart`.
static bool take_apart(Graph *g, Order *o, Read *read, int n, uint32_t apart, int *next) {
    for (;;) {
        Ix by = NULL;
        int i = -1;
        for (int k = 0; k < n && i < 0; k++)
            for (int d = 0; d < read[k].y->rank && i < 0; d++) i = taken_apart(g, o, read[k].at[d], &by);
        if (i < 0 || !(apart >> o->at[i].of & 1)) return true;
        if (o->n == MAX_DIGITS || *next + 2 > 2 * MAX_DIGITS) return false;
        Digit whole = o->at[i], hi = whole, lo = whole;
        hi.extent = ix_divide_exact(g, whole.extent, by);
        hi.weight = ix_mul(g, whole.weight, by);
        lo.extent = by;
        lo.greatest = false;
        hi.axis = ix_axis(g, new_axis(next), hi.extent);
        lo.axis = ix_axis(g, new_axis(next), lo.extent);
        if (!replace(g, o, read, n, whole.axis, ix_add(g, ix_mul(g, hi.axis, by), lo.axis))) return false;
        o->at[i] = hi;
        o->at[o->n++] = lo;
    }
}

// Where a digit is in what is read: the innermost dimension that it moves in, and how far. -1: nowhere.
static int where(Graph *g, const Read *read, Ix axis, int64_t *step) {
    int at = -1;
    for (int d = 0; d < read->y->rank; d++) {
        if (axis->kind != IX_AXIS || !(read->at[d]->axes >> axis->value & 1) || position(read->y, d) < at) continue;
        Ix rest, c = ix_coefficient(g, read->at[d], (int)axis->value, &rest);
        at = position(read->y, d);
        *step = !c ? 1 : c->hi;
    }
    return at;
}

// Batches of a product are stored wherever it suits: those that are digits of an axis (phases of a transposed convolution)
// right behind the greater ones, the place that its pixels have in a picture. So are rows whose greater digits are batches
// (query heads of a group).
static void behind(Graph *g, const Order *o, const Read *read, const Digit *d, int *at, int64_t *step) {
    const Node *y = read->y;
    int nb = y->kind == G_contract ? y->contract.nb : 0, nm = nb ? y->contract.nm : 0;
    if (nb == 0 || *at < 0 || *at >= nm + nb) return;
    for (int i = 0; i < o->n; i++) {
        int64_t s;
        int w = o->at[i].of == d->of && o->at[i].weight != d->weight ? where(g, read, o->at[i].axis, &s) : -1;
        if (w < 0 || w >= nm + nb || (w < nm) == (*at < nm) || !ix_divide_exact(g, o->at[i].weight, d->weight)) continue;
        *at = w;
        *step = 0;
        return;
    }
}

static void sort_digits(Graph *g, Order *o, const Read *read) {
    int at[MAX_DIGITS];
    int64_t step[MAX_DIGITS];
    const Order before = *o;
    for (int i = 0; i < o->n; i++) {
        Digit d = before.at[i];
        int64_t s = 1;
        int w = where(g, read, d.axis, &s), to = i;
        behind(g, &before, read, &d, &w, &s);
        for (; to > 0 && (at[to - 1] > w || (at[to - 1] == w && step[to - 1] < s)); to--) {
            at[to] = at[to - 1], step[to] = step[to - 1];
            o->at[to] = o->at[to - 1];
        }
        at[to] = w, step[to] = s;
        o->at[to] = d;
    }
}

static int all_quotients(Graph *g, const Read *read, int n) {
    int q = 0;
    for (int k = 0; k < n; k++) q += quotients_merged(g, read[k].y->rank, read[k].y->shape, read[k].at);
    return q;
}

// Digits of one axis that lie side by side are one again, if nothing that is read needs them apart; `fine`: and if they
// are not dimensions of their own in what is read first.
static bool put_together(Graph *g, Order *o, Read *read, int n, int *next, bool fine) {
    for (int i = o->n - 2; i >= 0; i--) {
        Digit *hi = &o->at[i], *lo = hi + 1;
        int64_t step;
        if (fine && where(g, &read[0], hi->axis, &step) != where(g, &read[0], lo->axis, &step)) continue;
        if (hi->of != lo->of || hi->weight != ix_mul(g, lo->weight, lo->extent) || *next == 2 * MAX_DIGITS) continue;
        Digit one = {hi->of, lo->weight, ix_mul(g, hi->extent, lo->extent), NULL, hi->greatest};
        one.axis = ix_axis(g, new_axis(next), one.extent);
        Read as_one[MAX_READ];
        memcpy(as_one, read, (size_t)n * sizeof *read);
        Order wide = *o;
        wide.at[wide.n++] = one;
        if (!replace(g, &wide, as_one, n, hi->axis, ix_div(g, one.axis, lo->extent)) ||
            !replace(g, &wide, as_one, n, lo->axis, ix_mod(g, one.axis, lo->extent)))
            return false;
        if (all_quotients(g, as_one, n) > all_quotients(g, read, n)) continue;
        memcpy(read, as_one, (size_t)n * sizeof *read);
        *hi = one;
        memmove(lo, lo + 1, (size_t)(o->n - i - 2) * sizeof *lo);
        o->n--;
    }
    return true;
}

// The order that x[0] gives to `rank` axes; the axes in `apart` may become digits, for all of x. `read` is left as of x.
// False: it gives none, as some axis in `wanted` is not one of its own.
static bool order_of(Graph *g, Node *const *x, int n, uint32_t apart, uint32_t wanted, bool fine, Order *o, Read *read) {
    int rank = x[0]->rank, next = 0;
    Ix axis[G_MAX_RANK];
    *o = (Order){0};
    for (int i = 0; i < rank; i++) {
        axis[i] = ix_axis(g, new_axis(&next), x[0]->shape[i]);
        if (!ix_is(x[0]->shape[i], 1)) o->at[o->n++] = (Digit){i, ix(g, 1), x[0]->shape[i], axis[i], true};
        else axis[i] = ix(g, 0);
    }
    for (int k = 0; k < n; k++)
        if (!read_through(g, x[k], axis, &read[k])) return false;
    if (!take_apart(g, o, read, n, apart, &next)) return false;
    for (int i = 0; i < o->n; i++) {
        int64_t step;
        if (wanted >> o->at[i].of & 1 && where(g, &read[0], o->at[i].axis, &step) < 0) return false;
    }
    sort_digits(g, o, &read[0]);
    return put_together(g, o, read, n, &next, fine);
}

// Is it the order that the axes have?
static bool is_plain(Graph *g, const Order *o) {
    bool plain = true;
    for (int i = 1; i < o->n; i++) {
        const Digit *d = &o->at[i], *before = d - 1;
        plain &= d->of > before->of ||
                 (d->of == before->of && !d->greatest && ix_divide_exact(g, before->weight, d->weight));
    }
    return plain;
}

static Node *in_order(Graph *g, Node *x, const Order *o) {
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    Order own = *o;
    if (!x || (o->n > MAX_RANK && o->n > x->rank)) return NULL;      // what a tensor of a program has at most
    for (int i = 0; i < o->n; i++) shape[i] = o->at[i].extent, own.at[i].axis = ix_axis(g, i, shape[i]);
    for (int i = 0; i < x->rank; i++) coord[i] = place_of(g, &own, i);
    return g_view(g, x, o->n, shape, coord, NULL, g_int(0));
}

static Node *back(Graph *g, Node *y, const Order *o, int rank, const Ix *shape) {
    Ix coord[G_MAX_RANK];
    for (int i = 0; i < o->n; i++) {
        Ix e = ix_div(g, ix_axis(g, o->at[i].of, shape[o->at[i].of]), o->at[i].weight);
        coord[i] = o->at[i].greatest ? e : ix_mod(g, e, o->at[i].extent);
    }
    return y ? g_view(g, y, rank, shape, coord, NULL, g_int(0)) : NULL;
}

// ---- the kinds ------------------------------------------------------------------------------------------------------

static uint32_t all_axes(const Node *x) { return (UINT32_C(1) << x->rank) - 1; }

// The source whose order a value takes, first in `x`; 0: there is none. The number of x.
static int led_by(Layout *l, Node *const *src, uint32_t n, Node **x) {
    int count = 1;
    x[0] = NULL;
    for (uint32_t k = 0; k < n && k < MAX_READ; k++) {
        uint8_t what = known(l, seen_through(src[k]));
        if (!x[0] && what & IS_ORDERED && !(what & IS_CONSTANT)) x[0] = src[k];
        else x[count++] = src[k];
    }
    return x[0] ? count : 0;
}

// Rows of which 16 bytes do not divide what they are in 16 bits.
static bool odd_rows(const Order *o) {
    enum { UNIT = 8 };
    const Digit *last = &o->at[o->n - 1];
    return o->n > 1 && last->extent->kind == IX_CONST && last->extent->value % UNIT;
}

// Another of the values, whole and no constant, whose order has no odd rows: that of a residual beside a product of 196 columns (tokens mixed, as
// MLP-Mixer's).
static bool better_led(Layout *l, const Node *n, Node **x, int count, Order *o, Read *read) {
    for (int i = 1; i < count; i++) {
        Node *y[MAX_READ + 1] = {x[i]};
        Order other;
        Read as[MAX_READ];
        for (int k = 0, to = 1; k < count; k++) if (k != i) y[to++] = x[k];
        Node *in_memory = seen_through(x[i]);
        uint8_t what = known(l, in_memory);
        if ((!(what & IS_ORDERED) && in_memory->kind != G_input) || what & IS_CONSTANT || !order_of(l->r->g, y, count, all_axes(n), all_axes(n), true, &other, as) || odd_rows(&other)) continue;
        *o = other;
        memcpy(read, as, sizeof as);
        return true;
    }
    return false;
}

static Node *elementwise(Layout *l, Node *n, Node *const *src) {
    Graph *g = l->r->g;
    Node *x[MAX_READ + 1], *with[3];
    Read read[MAX_READ];
    Order o;
    int count = led_by(l, src, n->nsrc, x);
    for (int tries = 0; tries < count; tries++) {            // an operand that is spread over axes gives them no order
        if (order_of(g, x, count, all_axes(n), all_axes(n), true, &o, read)) break;
        Node *first = x[0];
        memmove(x, x + 1, (size_t)(count - 1) * sizeof *x);
        x[count - 1] = first;
        if (tries == count - 1) return NULL;
    }
    if (count > 1 && odd_rows(&o)) better_led(l, n, x, count, &o, read);
    if (count == 0 || is_plain(g, &o)) return NULL;
    for (uint32_t k = 0; k < n->nsrc; k++)
        if (!(with[k] = in_order(g, src[k], &o))) return NULL;
    Node proto = *n;
    proto.src = with;
    proto.rank = with[0]->rank;
    proto.shape = with[0]->shape;
    Node *y = n->kind == G_ew ? g_ew(g, (GEw)n->op, with, (int)n->nsrc) : node_intern(g, &proto);
    return back(g, g_name(g, y, n->name), &o, n->rank, n->shape);
}

static Node *reduction(Layout *l, Node *n, Node *const *src) {
    Graph *g = l->r->g;
    Read read;
    Order o, kept = {0};
    int number[G_MAX_RANK], left = 0;
    uint32_t axes = 0;
    bool arg = n->op == GR_argmax || n->op == GR_argmin;
    if (arg || !(known(l, seen_through(src[0])) & IS_ORDERED) ||
        !order_of(g, src, 1, all_axes(src[0]), all_axes(src[0]), true, &o, &read) || is_plain(g, &o))
        return NULL;
    for (int i = 0; i < src[0]->rank; i++) number[i] = n->reduce.axes >> i & 1 ? -1 : left++;
    for (int i = 0; i < o.n; i++) {
        Digit d = o.at[i];
        if (number[d.of] < 0) {
            axes |= 1u << i;
            continue;
        }
        d.of = number[d.of];
        kept.at[kept.n++] = d;
    }
    Node *x = in_order(g, src[0], &o);
    return axes && x
               ? back(g, g_name(g, g_reduce(g, (GReduce)n->op, x, axes, false), n->name), &kept, n->rank, n->shape)
               : NULL;
}

static Node *concatenation(Layout *l, Node *n, Node *const *src) {
    Graph *g = l->r->g;
    Read read;
    Order o;
    Node **with = NEW_N(g->arena, Node *, n->nsrc);
    bool found = false;
    for (uint32_t k = 0; k < n->nsrc && !found; k++)
        found = known(l, seen_through(src[k])) & IS_ORDERED && order_of(g, &src[k], 1, 0, all_axes(n), false, &o, &read);
    if (!found || is_plain(g, &o)) return NULL;
    int axis = -1;
    for (int i = 0; i < o.n; i++)
        if (o.at[i].of == n->concat.axis) axis = i;
    for (uint32_t k = 0; k < n->nsrc; k++) {
        Order own = o;
        if (axis < 0) return NULL;
        own.at[axis].extent = src[k]->shape[n->concat.axis];
        if (!(with[k] = in_order(g, src[k], &own))) return NULL;
    }
    o.at[axis].extent = n->shape[n->concat.axis];
    return back(g, g_name(g, g_concat(g, axis, with, (int)n->nsrc), n->name), &o, n->rank, n->shape);
}

static const char *name_below(const Node *n) {
    for (uint32_t i = 0; i <= n->nsrc; i++) {
        const char *name = i == 0 ? n->name : name_below(n->src[i - 1]);
        if (name) return name;
    }
    return NULL;
}

// Each channel by itself: weights [C, 1, taps..] are stored as [taps.., C], so that channels are side by side there, too.
static Node *depthwise(Graph *g, Node *n, Node *const *src) {
    Node *b = src[1];
    int nb = n->contract.nb, nn = n->contract.nn, nk = n->contract.nk, rank = nb + nk;
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    if (b->kind == G_view && b->src[0]->kind == G_cast && b->src[0]->cast.kept) return NULL;
    for (int i = 0; i < rank; i++) shape[i] = i < nk ? b->shape[nb + nn + i] : b->shape[i - nk];
    for (int i = 0; i < b->rank; i++)
        coord[i] = i < nb        ? ix_axis(g, nk + i, b->shape[i])
                   : i < nb + nn ? ix(g, 0)
                                 : ix_axis(g, i - nb - nn, b->shape[i]);
    const char *name = name_below(b);
    Node *w = g_view(g, b, rank, shape, coord, NULL, g_int(0));
    if (!w) return NULL;
    w = g_kept(g, w, (Elem)w->elem);
    if (name) g_name(g, w, arena_printf(g->arena, "%s_channels_last", name));
    for (int i = 0; i < rank; i++)
        coord[i] = i < nk ? ix_axis(g, nb + nn + i, b->shape[nb + nn + i]) : ix_axis(g, i - nk, b->shape[i - nk]);
    b = g_view(g, w, b->rank, b->shape, coord, NULL, g_int(0));
    return g_name(g, g_contract(g, src[0], b, nb, n->contract.nm, nn, nk, (Elem)n->elem, n->contract.acc), n->name);
}

// Windows that overlap, of channels that are rows by themselves: pixels stay a dimension, as copies of windows want them. Products
// that have no such copies (by mma.sync) rather have one long sum (32 to 64 channels, 5 x 9 taps in f32: 5.2 ms, not 6.4).
static bool windows_overlap(Graph *g, const Order *o, const Read *read, int places, const Digit *tap, const Digit *channel) {
    if (!ix_is_const(channel->extent) || channel->extent->value < 16 || channel->extent->value % 8 != 0) return false;
    for (int d = 0; d < read->y->rank; d++) {
        Ix rest, step = ix_coefficient(g, read->at[d], (int)tap->axis->value, &rest);
        if (!(read->at[d]->axes >> tap->axis->value & 1) || !step || !ix_is_const(tap->extent)) continue;
        for (int i = 0; i < o->n; i++) {
            if (o->at[i].of >= places || o->at[i].axis->kind != IX_AXIS || !(read->at[d]->axes >> o->at[i].axis->value & 1)) continue;
            Ix moves = ix_coefficient(g, read->at[d], (int)o->at[i].axis->value, &rest);
            if (moves && moves->hi < step->lo * tap->extent->value) return true;
        }
    }
    return false;
}

// Where digit i of a sum may be one axis with those from `first` on before it: no more quotients, then, in what is read.
static bool joins_axis(Graph *g, const Order *o, const Read *read, const Order *sum, int first, int i, Ix all) {
    Ix one = ix_axis(g, FIRST_DIGIT + 2 * MAX_DIGITS - 1, all), place = one;
    Read as_one = *read;
    Order wide = *o;
    for (int d = i; d >= first; d--) {
        Ix part = d == first ? place : ix_mod(g, place, sum->at[d].extent);
        wide.n = o->n;
        wide.at[wide.n++] = (Digit){.axis = one};
        if (wide.n >= MAX_DIGITS || !replace(g, &wide, &as_one, 1, sum->at[d].axis, part)) return false;
        place = ix_div(g, place, sum->at[d].extent);
    }
    return all_quotients(g, &as_one, 1) <= all_quotients(g, read, 1);
}

// The axes that a sum gets: each begins at digit first[i], and takes in as many as lie side by side. How many they are.
static int axes_of_sum(Graph *g, const Order *o, const Read *read, const Order *sum, int places, bool copied, int *first, Ix *extent) {
    int count = 0;
    for (int i = 0; i < sum->n; i++) {
        bool apart = copied && i > 0 && windows_overlap(g, o, read, places, &sum->at[i - 1], &sum->at[i]);
        Ix all = count > 0 && !apart ? ix_mul(g, extent[count - 1], sum->at[i].extent) : NULL;
        if (all && joins_axis(g, o, read, sum, first[count - 1], i, all)) {
            extent[count - 1] = all;
            continue;
        }
        extent[count] = sum->at[i].extent;
        first[count++] = i;
    }
    return count;
}

// The axes that a product with weights sums over, in the order of its left operand; as few as that is read with.
static Node *product(Layout *l, Node *n, Node *const *src) {
    Graph *g = l->r->g;
    Node *a = src[0], *b = src[1];
    int nb = n->contract.nb, nm = n->contract.nm, nn = n->contract.nn, nk = n->contract.nk;
    Read read;
    Order o, sum = {0};
    if (!(known(l, b) & IS_CONSTANT) || known(l, a) & IS_CONSTANT) return NULL;
    if (may_be_depthwise(g, n)) return depthwise(g, n, src);
    uint32_t axes = all_axes(a) & ~((UINT32_C(1) << (nb + nm)) - 1);
    if (!order_of(g, &a, 1, axes, axes, false, &o, &read)) return NULL;
    for (int i = 0; i < o.n; i++)
        if (o.at[i].of >= nb + nm) sum.at[sum.n++] = o.at[i];
    if (is_plain(g, &sum) || nb + nm + sum.n > G_MAX_RANK || nb + nn + sum.n > G_MAX_RANK) return NULL;
    // k as digits of the new axes
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK], digit[MAX_DIGITS], extent[MAX_DIGITS];
    int first[MAX_DIGITS], count = axes_of_sum(g, &o, &read, &sum, nb + nm, elem_bits((Elem)a->elem) <= 16 || a->elem == EL_f32, first, extent);
    for (int i = 0; i < count; i++) {
        Ix place = ix_axis(g, nb + nm + i, extent[i]);
        int end = i + 1 < count ? first[i + 1] : sum.n;
        for (int d = end; d-- > first[i]; place = ix_div(g, place, sum.at[d].extent))
            digit[d] = d == first[i] ? place : ix_mod(g, place, sum.at[d].extent);
        shape[nb + nm + i] = extent[i];
    }
    for (int i = 0; i < sum.n; i++) sum.at[i].axis = digit[i];
    for (int i = 0; i < nb + nm; i++) shape[i] = a->shape[i], coord[i] = ix_axis(g, i, a->shape[i]);
    for (int i = 0; i < nk; i++) coord[nb + nm + i] = place_of(g, &sum, nb + nm + i);
    a = g_view(g, a, nb + nm + count, shape, coord, NULL, g_int(0));
    Ix renumbered[G_MAX_RANK] = {0};                         // the same for b, whose axes of the sum have other numbers
    for (int i = 0; i < count; i++) renumbered[nb + nm + i] = ix_axis(g, nb + nn + i, extent[i]);
    for (int i = 0; i < nk; i++)
        coord[nb + nn + i] = ix_substitute(g, place_of(g, &sum, nb + nm + i), renumbered, G_MAX_RANK);
    for (int i = 0; i < nb + nn; i++) shape[i] = b->shape[i], coord[i] = ix_axis(g, i, b->shape[i]);
    for (int i = 0; i < count; i++) shape[nb + nn + i] = extent[i];
    const char *name = name_below(b);
    b = g_view(g, b, nb + nn + count, shape, coord, NULL, g_int(0));
    if (b && b->kind == G_view && name) g_name(g, b, arena_printf(g->arena, "%s_channels_last", name));
    return g_name(g, g_contract(g, a, b, nb, nm, nn, count, (Elem)n->elem, n->contract.acc), n->name);
}

static Node *ordered(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Layout *l = pass;
    if (r->constant[n->id]) return NULL;
    switch ((GKind)n->kind) {
    case G_ew: case G_cast: return elementwise(l, n, src);
    case G_reduce: return reduction(l, n, src);
    case G_concat: return concatenation(l, n, src);
    case G_contract: return product(l, n, src);
    default: return NULL;
    }
}

static Node *ordered_sum(Rewrite *r, void *pass, Node *n, Node *const *src) {
    return n->kind == G_contract && !r->constant[n->id] ? product(pass, n, src) : NULL;
}

void order_reduction_axes(Graph *g) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return;
    Layout l = {.r = &r};
    rewrite_all(&r, ordered_sum, &l);
}

void choose_axis_order(Graph *g) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return;
    Layout l = {.r = &r};
    rewrite_all(&r, ordered, &l);
}

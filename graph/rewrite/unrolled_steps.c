// Steps that are written out, as of a loop over a sequence: products that each step makes with the same weights.
//
//     h = tanh(x[:, t] . W + h . U)        X = x . W,  of all steps at once
//     y[t] = h . V                    ->   h = tanh(X[t] + h . U)
//                                          y = (all h, one above the other) . V
//
// Products with one right operand that do not wait for each other are one product, of their left operands one above the other, and slices of its result. Left
// operands that are slices of one value, or the same function of such slices, are that value, or that function of it; else they are put together first. What
// is put together of the same function of such a product's slices is that function of the product. Of products that wait for each other, as h . U does for the step
// before, nothing is joined.
//
// Where the left operand is two values side by side, [x[:, t], h] . W, and one of them waits for no such product, it is two products, x[:, t] . W[0 .. n] and
// h . W[n ..]. Then the first is of the kind above.
//
// One product is joined after another, and each time it is looked anew what waits for what: joined, they may wait for each other.

#include "graph/rewrite/rewrite.h"

enum { LEAST_STEPS = 8 };        // fewer are left as they are

typedef struct Steps {
    Rewrite *r;
    VEC(Node *) member;          // products that become one
    int     *number;             // by node id: of the member, from 1 on; 0: it is none
    Node    *joined;
    bool     tried, met;         // `joined` has been made, or cannot be; it is among what has been looked at
} Steps;

// ---- n values as one with another axis before the others ---------------------------------------------------------------

static bool same_kind(const Node *a, const Node *b) {
    bool same = a->kind == b->kind && a->elem == b->elem && a->op == b->op && a->nsrc == b->nsrc && g_same_shape(a, b);
    if (!same) return false;
    if (a->kind == G_cast) return a->cast.saturate == b->cast.saturate && a->cast.kept == b->cast.kept;
    if (a->kind == G_reduce) return a->reduce.axes == b->reduce.axes && a->reduce.last == b->reduce.last && g_same_shape(a->src[0], b->src[0]);
    if (a->kind == G_view) return a->view.pred == b->view.pred && ix_is(a->view.pred, 1);
    return a->kind == G_ew || (a->kind == G_concat && a->concat.axis == b->concat.axis);
}

static Ix behind(Graph *g, const Node *x, Ix e) {            // in terms of axes that are one further on
    Ix with[G_MAX_RANK];
    for (int i = 0; i < x->rank; i++) with[i] = ix_axis(g, i + 1, x->shape[i]);
    return ix_substitute(g, e, with, x->rank);
}

static Node *one_above(Graph *g, Node *src, const Node *x, int n, const Ix *coord) {
    Ix shape[G_MAX_RANK] = {ix(g, n)};
    for (int i = 0; i < x->rank; i++) shape[i + 1] = x->shape[i];
    return g_view(g, src, x->rank + 1, shape, coord, NULL, g_int(0));
}

// Slices of one value that begin at steps of one width.
static Node *slices(Steps *s, Node *const *x, int n) {
    Graph *g = s->r->g;
    const Node *first = x[0];
    Ix coord[G_MAX_RANK], all = ix(g, n);
    for (int d = 0; d < first->src[0]->rank; d++) {
        Ix from = first->view.coord[d], step = ix_sub(g, x[1]->view.coord[d], from);
        if (!ix_is_const(step)) return NULL;
        for (int i = 2; i < n; i++) if (ix_sub(g, x[i]->view.coord[d], from) != ix(g, i * step->value)) return NULL;
        coord[d] = ix_add(g, behind(g, first, from), ix_muli(g, ix_axis(g, 0, all), step->value));
    }
    s->met |= first->src[0] == s->joined;
    return one_above(g, first->src[0], first, n, coord);
}

static bool same_places(Node *const *x, int n) {
    for (int i = 1; i < n; i++) {
        if (!g_same_shape(x[i]->src[0], x[0]->src[0])) return false;
        for (int d = 0; d < x[0]->src[0]->rank; d++) if (x[i]->view.coord[d] != x[0]->view.coord[d]) return false;
    }
    return true;
}

// NULL: they are not alike.
static Node *above_each_other(Steps *s, Node *const *x, int n, int depth) {
    enum { DEEPEST = 24 };
    Graph *g = s->r->g;
    Node proto = *x[0];
    bool one = true, from_one = true, alike = x[0]->rank < G_MAX_RANK && depth <= DEEPEST;
    for (int i = 1; i < n && alike; i++) {
        one &= x[i] == x[0];
        alike = x[i] == x[0] || same_kind(x[0], x[i]);
        from_one &= alike && x[i]->nsrc == 1 && x[i]->src[0] == x[0]->src[0];
    }
    if (!alike) return NULL;
    Ix coord[G_MAX_RANK], shape[G_MAX_RANK] = {ix(g, n)};
    for (int i = 0; i < x[0]->rank; i++) shape[i + 1] = x[0]->shape[i];
    for (int i = 0; i < x[0]->rank && one; i++) coord[i] = ix_axis(g, i + 1, x[0]->shape[i]);
    if (one) return one_above(g, x[0], x[0], n, coord);
    if (x[0]->kind == G_view && from_one) return slices(s, x, n);
    if (x[0]->kind == G_view && !same_places(x, n)) return NULL;
    Node **src = NEW_N(g->arena, Node *, x[0]->nsrc), **of = NEW_N(g->arena, Node *, n);
    for (uint32_t k = 0; k < x[0]->nsrc; k++) {
        for (int i = 0; i < n; i++) of[i] = x[i]->src[k];
        if (!(src[k] = above_each_other(s, of, n, depth + 1))) return NULL;
    }
    if (x[0]->kind == G_view) {
        coord[0] = ix_axis(g, 0, shape[0]);
        for (int d = 0; d < x[0]->src[0]->rank; d++) coord[d + 1] = behind(g, x[0], x[0]->view.coord[d]);
        return one_above(g, src[0], x[0], n, coord);
    }
    if (x[0]->kind == G_concat) return g_concat(g, x[0]->concat.axis + 1, src, (int)x[0]->nsrc);
    if (x[0]->kind == G_reduce) proto.reduce.axes <<= 1;
    proto.src = src;
    proto.rank++;
    proto.shape = shape;
    return node_intern(g, &proto);
}

// ---- products of one right operand --------------------------------------------------------------------------------------

// Rows from here on are no small product, and put together not for nothing.
static bool few_rows(Graph *g, const Node *product) {
    enum { FEW = 256 };
    Ix rows = ix_product(g, product->shape, product->contract.nm);
    return rows && (!ix_is_const(rows) || rows->value <= FEW);
}

// What stands for a node, whatever has to be made before it; without recursion, as a sequence may be long.
static Node *made(Rewrite *r, RewriteFn *fn, void *pass, Node *n) {
    VEC(Node *) open = {0};
    vec_push(r->g->arena, &open, n);
    while (open.n && !g_failed(r->g)) {
        Node *top = open.at[open.n - 1], *first = NULL;
        for (uint32_t k = 0; k < top->nsrc && !first; k++) if (!r->to[top->src[k]->id]) first = top->src[k];
        if (first) vec_push(r->g->arena, &open, first);
        else if (!r->to[top->id]) rewrite_ahead(r, fn, pass, top);
        if (!first) open.n--;
    }
    return g_failed(r->g) ? NULL : r->to[n->id];
}

static Node *step(Rewrite *r, void *pass, Node *n, Node *const *src);

static void join(Steps *s) {
    Graph *g = s->r->g;
    int n = (int)s->member.n;
    const Node *first = s->member.at[0];
    Node **x = NEW_N(g->arena, Node *, n), *w = made(s->r, step, s, first->src[1]);
    s->tried = true;
    for (int i = 0; i < n; i++) if (!(x[i] = made(s->r, step, s, s->member.at[i]->src[0]))) return;
    Node *all = above_each_other(s, x, n, 0);
    if (!all && !few_rows(g, first)) return;
    for (int i = 0; i < n && !all; i++) x[i] = g_unsqueeze(g, x[i], 1);
    if (!all) all = g_concat(g, 0, x, n);
    s->joined = g_contract(g, all, w, 0, first->contract.nm + 1, first->contract.nn, first->contract.nk, (Elem)first->elem, first->contract.acc);
}

// Values one after the other along an axis, that are all made of the product's slices in the same way.
static Node *together(Steps *s, const Node *n, Node *const *src) {
    Graph *g = s->r->g;
    int axis = n->concat.axis;
    Ix coord[G_MAX_RANK], each = src[0]->shape[axis];
    s->met = false;
    Node *all = n->nsrc >= LEAST_STEPS ? above_each_other(s, src, (int)n->nsrc, 0) : NULL;
    if (!all || !s->met) return NULL;
    for (int i = 0; i < n->rank; i++) coord[i + 1] = ix_axis(g, i, n->shape[i]);
    coord[0] = ix_div(g, coord[axis + 1], each);
    coord[axis + 1] = ix_mod(g, coord[axis + 1], each);
    return g_view(g, all, n->rank, n->shape, coord, NULL, g_int(0));
}

static Node *step(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Steps *s = pass;
    Graph *g = r->g;
    int number = s->number[n->id];
    if (n->kind == G_concat && s->joined) return together(s, n, src);
    if (!number) return NULL;
    if (!s->tried) join(s);
    if (!s->joined) return NULL;
    Ix coord[G_MAX_RANK] = {ix(g, number - 1)};
    for (int i = 0; i < n->rank; i++) coord[i + 1] = ix_axis(g, i, n->shape[i]);
    return g_view(g, s->joined, n->rank, n->shape, coord, NULL, g_int(0));
}

// ---- which ------------------------------------------------------------------------------------------------------------

static bool weighs(const Rewrite *r, const Node *n) {
    bool room = n->kind == G_contract && n->rank < G_MAX_RANK && n->src[0]->rank < G_MAX_RANK;
    return room && r->alive[n->id] && n->contract.nb == 0 && n->contract.nm > 0 && r->constant[n->src[1]->id] && !r->constant[n->src[0]->id];
}

static bool alike(const Node *a, const Node *b) {
    return a->src[1] == b->src[1] && a->elem == b->elem && a->contract.acc == b->contract.acc && a->contract.nm == b->contract.nm &&
           a->contract.nn == b->contract.nn && g_same_shape(a->src[0], b->src[0]);
}

typedef VEC(Node *) Nodes;

// By node id of a right operand: the products of it.
static Nodes *products_of(const Rewrite *r) {
    Graph *g = r->g;
    Nodes *of = arena_alloc(g->arena, (r->n + 1) * sizeof *of);                // zeroed
    for (uint32_t i = 0; i < r->n; i++)
        if (weighs(r, g->nodes.at[i])) vec_push(g->arena, &of[g->nodes.at[i]->src[1]->id], g->nodes.at[i]);
    return of;
}

// By node id: how many of these products, one after the other, it waits for.
static void find_levels(const Rewrite *r, const Nodes *of, int *level) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const Node *n = r->g->nodes.at[i];
        level[i] = 0;
        for (uint32_t k = 0; k < n->nsrc && r->alive[i]; k++) if (level[n->src[k]->id] > level[i]) level[i] = level[n->src[k]->id];
        if (next < of->n && of->at[next] == n) level[i]++, next++;
    }
}

// The most of them that are alike and wait for none of each other.
static void find_members(Steps *s, const Nodes *of, const int *level) {
    for (uint32_t i = 0; i < of->n; i++) {
        Nodes like = {0};
        const Node *first = of->at[i];
        for (uint32_t k = 0; k < of->n; k++) {
            if (level[of->at[k]->id] != level[first->id] || !alike(first, of->at[k])) continue;
            if (k < i) break;                                // seen
            vec_push(s->r->g->arena, &like, of->at[k]);
        }
        if (like.n < LEAST_STEPS || like.n <= s->member.n) continue;
        s->member.n = 0;
        for (uint32_t k = 0; k < like.n; k++) vec_push(s->r->g->arena, &s->member, like.at[k]);
    }
}

// Is there something to join? refused: by node id of a right operand, those of which it was in vain.
static bool join_one(Graph *g, Nodes *refused) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return false;
    Steps s = {.r = &r, .number = NEW_N(g->arena, int, r.n)};
    Nodes *of = products_of(&r);
    int *level = NEW_N(g->arena, int, r.n);
    for (uint32_t w = 0; w < r.n && !s.member.n; w++) {
        bool vain = of[w].n < LEAST_STEPS;
        for (uint32_t k = 0; k < refused->n; k++) vain |= refused->at[k]->id == w;
        if (vain) continue;
        find_levels(&r, &of[w], level);
        find_members(&s, &of[w], level);
    }
    if (!s.member.n) return false;
    Node *w = s.member.at[0]->src[1];
    for (uint32_t i = 0; i < s.member.n; i++) s.number[s.member.at[i]->id] = (int)i + 1;
    rewrite_all(&r, step, &s);
    if (!s.joined) vec_push(g->arena, refused, w);
    return !g_failed(g);
}

// ---- two values side by side --------------------------------------------------------------------------------------------

static Node *halves(Rewrite *r, void *pass, Node *n, Node *const *src) {
    const bool *split = pass;
    Graph *g = r->g;
    if (!split[n->id]) return NULL;
    Node *a = src[0], *w = src[1], *sum = NULL;
    Ix start = ix(g, 0);
    for (uint32_t k = 0; k < a->nsrc; k++) {
        Ix size = a->src[k]->shape[a->rank - 1];
        Node *part = g_take_range(g, w, w->rank - 1, start, 1, size);
        Node *y = g_contract(g, a->src[k], part, 0, n->contract.nm, n->contract.nn, 1, n->contract.acc, n->contract.acc);
        sum = sum ? g_ew2(g, EW_add, sum, y) : y;
        start = ix_add(g, start, size);
    }
    return sum && sum->elem != n->elem ? g_cast(g, sum, (Elem)n->elem) : sum;
}

static bool is_pair(const Node *n) {
    const Node *a = n->src[0];
    return n->contract.nk == 1 && a->kind == G_concat && a->nsrc == 2 && a->concat.axis == a->rank - 1;
}

static void split_pairs(Graph *g) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return;
    bool *split = NEW_N(g->arena, bool, r.n), any = false;
    int *level = NEW_N(g->arena, int, r.n);
    Nodes *of = products_of(&r);
    for (uint32_t w = 0; w < r.n; w++) {
        uint32_t waits[2] = {0};
        bool pairs = of[w].n >= LEAST_STEPS;
        for (uint32_t i = 0; i < of[w].n && pairs; i++) pairs = is_pair(of[w].at[i]) && alike(of[w].at[0], of[w].at[i]);
        if (!pairs) continue;
        find_levels(&r, &of[w], level);
        for (uint32_t i = 0; i < of[w].n; i++)
            for (int k = 0; k < 2; k++) waits[k] += level[of[w].at[i]->src[0]->src[k]->id] > 0;
        if ((waits[0] == 0) == (waits[1] == 0)) continue;
        for (uint32_t i = 0; i < of[w].n; i++) any |= split[of[w].at[i]->id] = true;
    }
    if (any) rewrite_all(&r, halves, split);
}

void merge_unrolled_steps(Graph *g) {
    enum { MOST = 256 };
    Nodes refused = {0};
    split_pairs(g);
    for (int i = 0; i < MOST; i++) if (!join_one(g, &refused)) break;
}

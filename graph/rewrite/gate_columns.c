// Columns of a product that meet element by element, as products of their own.
//
//     y = x . w                                     a = x . w[:, 0 .. n]
//     z = sigmoid(y[:, 0 .. n]) * y[:, n .. 2 n]    b = x . w[:, n .. 2 n]        z = sigmoid(a) * b
//
// A gated layer whose two halves are one matrix, and the gates of a recurrent cell, are made so. No element of z is made of one element
// of y: as one product they are a kernel, and what follows another one that reads all of y again. As products of one left operand they have their
// sums in one loop (may.c), and what follows is its end; y is never in memory. What is between the product and its parts, as a bias, is taken apart with it.
//
// A product is taken apart if all that is read of it are such parts, two to four of one width, each in the same order, and all of them are needed by one value
// through elements alone. Others may need what is on the way to that (a cell's state beside what it puts out): it is stored in passing.
// Where parts of two products meet (of what comes in, of what was there), the kernel has one of them: that which waits for more.

#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

#include <string.h>

// By node id: a view of one part's columns; or, part -1, of all of them, which are then this axis.
typedef struct Cut { Node *product; int part, axis; } Cut;

typedef struct Gates {
    Rewrite *r;
    Cut     *cut;
    int     *parts;              // by node id of a product: how many it is taken apart into, or 0
    uint8_t *mark;               // by node id, while one product is looked at: the parts that it is made of, one bit each
    bool    *leads;              // .. and whether it leads to the value in which they meet
    int     *depth;              // by node id: steps from the inputs
    Node   **meets;              // by node id: the product whose parts meet there, or NULL
    VEC(int) *users;             // by node id
} Gates;

static bool element(const Node *n) { return n->kind == G_ew || n->kind == G_cast; }

static int64_t columns(const Node *product) { return product->shape[product->rank - 1]->value; }

// The axis of n that is all columns of x, whose axis they are; -1: there is none.
static int columns_of(Graph *g, const Node *n, int axis, Ix size) {
    if (element(n)) return axis;
    Ix at = n->view.coord[axis];
    bool all = ix_is(n->view.pred, 1) && at->kind == IX_AXIS && at == ix_axis(g, (int)at->value, size) && n->shape[at->value] == size;
    for (int i = 0; all && i < n->src[0]->rank; i++) all = i == axis || !(n->view.coord[i]->axes >> at->value & 1);
    return all ? (int)at->value : -1;
}

// Which of the parts does this view read? -1: not one alone.
static int part_of(Graph *g, const Node *n, int axis, int64_t width, Ix size) {
    Ix at = n->view.coord[axis];
    if (!ix_is(n->view.pred, 1) || at->lo < 0 || at->lo / width != at->hi / width || g_count(g, n) != size) return -1;
    return (int)(at->lo / width);
}

// Do two views read their parts alike?
static bool alike(Graph *g, const Node *a, int in_a, const Node *b, int in_b, int axis, int64_t width) {
    if (a->src[0]->rank != b->src[0]->rank || !g_same_shape(a, b) || !g_same_shape(a->src[0], b->src[0])) return false;
    for (int i = 0; i < a->src[0]->rank; i++) if (i != axis && a->view.coord[i] != b->view.coord[i]) return false;
    return ix_sub(g, a->view.coord[axis], ix(g, in_a * width)) == ix_sub(g, b->view.coord[axis], ix(g, in_b * width));
}

enum { MOST_VIEWS = 16, MOST_BETWEEN = 32 };

// The views that read them; what has all columns between them and the product.
typedef struct Parts { Node *at[MOST_VIEWS], *between[MOST_BETWEEN]; int part[MOST_VIEWS], axis[MOST_BETWEEN], n, nbetween, along; } Parts;

// All that is read of x, the product or what has its columns as this axis, as parts of so many elements.
static bool find_parts(const Gates *m, const Node *product, const Node *x, int axis, int64_t width, Ix size, Parts *to, int depth) {
    enum { DEEPEST = 6 };
    Graph *g = m->r->g;
    const int *user = m->users[x->id].at;
    if (depth > DEEPEST || m->users[x->id].n == 0 || (int)m->users[x->id].n != m->r->users[x->id]) return false;       // or the model's
    for (uint32_t i = 0; i < m->users[x->id].n; i++) {
        Node *n = g->nodes.at[user[i]];
        int all = n->kind == G_view || (element(n) && g_same_shape(n, x)) ? columns_of(g, n, axis, product->shape[product->rank - 1]) : -1;
        if (all >= 0) {
            if (to->nbetween == MOST_BETWEEN) return false;
            to->axis[to->nbetween] = all;
            to->between[to->nbetween++] = n;
            if (!find_parts(m, product, n, all, width, size, to, depth + 1)) return false;
            continue;
        }
        int part = n->kind == G_view ? part_of(g, n, axis, width, size) : -1;
        if (part < 0 || to->n == MOST_VIEWS || (to->n && (axis != to->along || !alike(g, to->at[0], to->part[0], n, part, axis, width)))) return false;
        to->along = axis;
        to->part[to->n] = part;
        to->at[to->n++] = n;
    }
    return true;
}

// What of `first` .. `end` leads to the value `end`.
static void find_leads(Gates *m, uint32_t first, uint32_t end) {
    m->leads[end] = true;
    for (uint32_t i = end + 1; i-- > first;) {
        const Node *n = m->r->g->nodes.at[i];
        for (uint32_t k = 0; m->leads[i] && k < n->nsrc; k++) {
            uint32_t from = n->src[k]->id;
            if (from >= first && m->mark[from]) m->leads[from] = true;
        }
    }
}

// Is nothing else made of the parts themselves?
static bool for_nothing_else(const Gates *m, const Parts *p, uint32_t end) {
    for (int i = 0; i < p->n; i++) {
        const Node *n = p->at[i];
        if ((int)m->users[n->id].n != m->r->users[n->id]) return false;
        for (uint32_t k = 0; k < m->users[n->id].n; k++) {
            uint32_t user = (uint32_t)m->users[n->id].at[k];
            if (user > end || !m->leads[user]) return false;
        }
    }
    return true;
}

// The value that all parts meet in, if nothing else is made of them but on the way there; 0: there is none.
static uint32_t meet(Gates *m, const Parts *p, int parts) {
    Graph *g = m->r->g;
    uint32_t first = m->r->n, end = 0, seen;
    for (int i = 0; i < p->n; i++) {
        m->mark[p->at[i]->id] |= (uint8_t)(1 << p->part[i]);
        if (p->at[i]->id < first) first = p->at[i]->id;
    }
    for (seen = first; seen < m->r->n && !end; seen++) {
        const Node *n = g->nodes.at[seen];
        if (!m->r->alive[seen] || !element(n)) continue;
        for (uint32_t k = 0; k < n->nsrc; k++) m->mark[seen] |= m->mark[n->src[k]->id];
        if (m->mark[seen] == (1 << parts) - 1) end = seen;
    }
    if (end) find_leads(m, first, end);
    if (end && !for_nothing_else(m, p, end)) end = 0;
    memset(m->leads + first, 0, seen - first);
    memset(m->mark + first, 0, seen - first);
    for (int i = 0; i < p->n; i++) m->mark[p->at[i]->id] = 0;
    return end;
}

static void forget(Gates *m, const Node *product) {
    m->parts[product->id] = 0;
    for (uint32_t i = product->id; i < m->r->n; i++) if (m->cut[i].product == product) m->cut[i] = (Cut){0};
}

static void keep(Gates *m, Node *product, const Parts *p, int parts) {
    m->parts[product->id] = parts;
    for (int i = 0; i < p->nbetween; i++) m->cut[p->between[i]->id] = (Cut){product, -1, p->axis[i]};
    for (int i = 0; i < p->n; i++) m->cut[p->at[i]->id] = (Cut){product, p->part[i], p->along};
}

static void take_apart(Gates *m, Node *n) {
    enum { LEAST = 4 };
    Graph *g = m->r->g;
    bool right = n->kind == G_contract && m->r->alive[n->id] && n->contract.nb == 0 && n->contract.nn == 1 && n->rank > 1 &&
                 m->r->constant[n->src[1]->id] && !m->r->constant[n->src[0]->id] && ix_is_const(n->shape[n->rank - 1]);
    for (int parts = MOST_MORE + 1; parts > 1 && right; parts--) {
        Parts p = {0};
        int seen = 0;
        if (columns(n) % parts || columns(n) < LEAST * parts) continue;
        bool found = find_parts(m, n, n, n->rank - 1, columns(n) / parts, ix_divide_exact(g, g_count(g, n), ix(g, parts)), &p, 0);
        for (int i = 0; i < p.n; i++) seen |= 1 << p.part[i];
        uint32_t end = found && seen == (1 << parts) - 1 ? meet(m, &p, parts) : 0;
        const Node *other = end ? m->meets[end] : NULL;
        if (!end || (other && other->src[0] != n->src[0] && m->depth[other->id] >= m->depth[n->id])) continue;
        if (other && other->src[0] != n->src[0]) forget(m, other);
        m->meets[end] = n;
        keep(m, n, &p, parts);
        return;
    }
}

// The axis of x, the product or what has its columns, that is those.
static int columns_in(const Gates *m, const Node *x, const Node *product) { return x == product ? x->rank - 1 : m->cut[x->id].axis; }

// A part of n, which has the product's columns as this axis.
static Node *part(Gates *m, Node *n, int axis, const Node *product, int number) {
    Graph *g = m->r->g;
    Node *to = m->r->to[n->id];
    int64_t width = columns(product) / m->parts[product->id];
    Ix start = ix(g, number * width), size = ix(g, width), shape[G_MAX_RANK], coord[G_MAX_RANK];
    int from = n->kind == G_view ? columns_in(m, n->src[0], product) : axis;
    if (n == product) {
        Node *w = g_take_range(g, m->r->to[n->src[1]->id], 0, start, 1, size);
        return g_contract(g, m->r->to[n->src[0]->id], w, 0, n->contract.nm, 1, n->contract.nk, (Elem)n->elem, n->contract.acc);
    }
    if (m->cut[n->id].product != product) return g_take_range(g, to, axis, start, 1, size);
    for (int i = 0; i < n->rank; i++) shape[i] = i == axis ? size : n->shape[i];
    if (n->kind == G_view) {
        for (int i = 0; i < n->src[0]->rank; i++) coord[i] = i == from ? ix_axis(g, axis, size) : n->view.coord[i];
        return g_view(g, part(m, n->src[0], from, product, number), n->rank, shape, coord, NULL, g_int(0));
    }
    Node proto = *n, **src = NEW_N(g->arena, Node *, n->nsrc);
    for (uint32_t k = 0; k < n->nsrc; k++) src[k] = part(m, n->src[k], axis, product, number);
    if (any_null_node(src, (int)n->nsrc)) return NULL;
    proto.src = src;
    proto.shape = copy_ixs(g, shape, n->rank);
    return node_intern(g, &proto);
}

static Node *read_part(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Gates *m = pass;
    Cut c = m->cut[n->id];
    (void)src;
    for (int i = 0; i < m->parts[n->id]; i++) part(m, n, n->rank - 1, n, i);         // before what is made of them
    if (!c.product || c.part < 0) return NULL;
    Graph *g = r->g;
    Ix coord[G_MAX_RANK];
    int64_t width = columns(c.product) / m->parts[c.product->id];
    for (int i = 0; i < n->src[0]->rank; i++) coord[i] = n->view.coord[i];
    coord[c.axis] = ix_sub(g, coord[c.axis], ix(g, c.part * width));
    return g_view(g, part(m, n->src[0], c.axis, c.product, c.part), n->rank, n->shape, coord, NULL, g_int(0));
}

void split_gate_columns(Graph *g) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return;
    Gates m = {.r = &r,
               .cut = NEW_N(g->arena, Cut, r.n),
               .parts = NEW_N(g->arena, int, r.n),
               .mark = NEW_N(g->arena, uint8_t, r.n),
               .leads = NEW_N(g->arena, bool, r.n),
               .depth = NEW_N(g->arena, int, r.n),
               .meets = NEW_N(g->arena, Node *, r.n)};
    m.users = arena_alloc(g->arena, (r.n + 1) * sizeof *m.users);              // zeroed
    for (uint32_t i = 0; i < r.n; i++)
        for (uint32_t k = 0; r.alive[i] && k < g->nodes.at[i]->nsrc; k++) {
            uint32_t from = g->nodes.at[i]->src[k]->id;
            vec_push(g->arena, &m.users[from], (int)i);
            if (m.depth[i] <= m.depth[from]) m.depth[i] = m.depth[from] + 1;
        }
    bool any = false;
    for (uint32_t i = 0; i < r.n; i++) take_apart(&m, g->nodes.at[i]);
    for (uint32_t i = 0; i < r.n; i++) any |= m.parts[i] > 0;
    if (any) rewrite_all(&r, read_part, &m);
}

// Products of one left operand with constants (queries, keys and values of an attention) become one, of the constants put
// side by side, and slices of its result: the left operand is read once, and there are fewer launches. The constants are put
// side by side when the weights are loaded. Left alone are products whose results meet element by element, which are one
// kernel already (a gated layer's two halves, fuse.c), and those of which one is computed on and then an operand of another
// product with weights: what stands between the two is its epilogue, and would be a kernel of its own.

#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

#include <string.h>

typedef struct Merge {
    Rewrite *r;
    Node   **all;                // by node id: the weights of all products that are one with it, or NULL
    Ix      *start;              // .. and where its own begin
    Node   **biased;             // by node id: the product of this kind that it adds a bias to, or NULL
    Node   **bias;               // .. and the biases of all
    uint8_t *mark;               // by node id, while something is looked for; 0 else
    VEC(int) *users;             // by node id
    VEC(Node *) open, marked;
} Merge;

static bool mergeable(const Rewrite *r, const Node *n) {
    return n->kind == G_contract && r->alive[n->id] && n->contract.nb == 0 && n->contract.nn == 1 &&
           r->constant[n->src[1]->id] && !r->constant[n->src[0]->id];
}

// In f16, is the product, with whatever is added to it, multiplied by what is no number and the same for all its rows, or for all of it? That stays in
// its epilogue, since what is stored without such a scale may be out of range (range.c). Numbers come along (column_scales.c).
static bool scaled_by_column(const Merge *m, const Node *n) {
    const Graph *g = m->r->g;
    GNum v;
    bool f16 = g->tables->narrow ? g->tables->narrow_to == EL_f16 : n->elem == EL_f16;
    while (f16 && m->users[n->id].n == 1) {
        const Node *user = g->nodes.at[m->users[n->id].at[0]];
        if (user->kind == G_ew && (user->op == EW_mul || user->op == EW_div)) {
            const Node *by = user->src[user->src[0] == n];
            uint64_t axes = 0;
            for (int i = 0; by->kind == G_view && i < by->src[0]->rank; i++) axes |= by->view.coord[i]->axes;
            if (!g_scalar_value(by, &v)) return by->kind == G_view && !(axes & (axes - 1));
        } else if (user->kind != G_view && user->kind != G_cast && !(user->kind == G_ew && (user->op == EW_add || user->op == EW_sub || user->op == EW_neg))) {
            return false;
        }
        n = user;
    }
    return false;
}

static bool alike(const Node *a, const Node *b) {
    return a->src[0] == b->src[0] && a->src[1]->elem == b->src[1]->elem && a->elem == b->elem &&
           a->contract.nm == b->contract.nm && a->contract.nk == b->contract.nk && a->contract.acc == b->contract.acc;
}

static bool joins(const Node *e) { return e->kind == G_ew || e->kind == G_cast || e->kind == G_view; }

static void mark(Merge *m, Node *n, uint8_t bits) {
    if ((m->mark[n->id] & bits) == bits) return;
    if (!m->mark[n->id]) vec_push(m->r->g->arena, &m->marked, n);
    m->mark[n->id] |= bits;
    vec_push(m->r->g->arena, &m->open, n);
}

static bool forget_marks(Merge *m, bool result) {
    for (uint32_t i = 0; i < m->marked.n; i++) m->mark[m->marked.at[i]->id] = 0;
    m->marked.n = m->open.n = 0;
    return result;
}

// Is there an elementwise value that needs both, by elementwise values alone?
static bool meet(Merge *m, Node *a, Node *b) {
    for (uint8_t bit = 1; bit <= 2; bit++) {
        mark(m, bit == 1 ? a : b, bit);
        while (m->open.n) {
            const Node *x = m->open.at[--m->open.n];
            for (uint32_t i = 0; i < m->users[x->id].n; i++) {
                Node *user = m->r->g->nodes.at[m->users[x->id].at[i]];
                if (joins(user)) mark(m, user, bit);
                if (m->mark[user->id] == 3) return forget_marks(m, true);
            }
        }
    }
    return forget_marks(m, false);
}

// Is it computed on, and then the left operand of a product with weights? (1: what moves, 2: what is computed.)
static bool has_epilogue(Merge *m, Node *a) {
    mark(m, a, 1);
    while (m->open.n) {
        Node *x = m->open.at[--m->open.n];
        for (uint32_t i = 0; i < m->users[x->id].n; i++) {
            Node *user = m->r->g->nodes.at[m->users[x->id].at[i]];
            if (user->kind == G_contract && user->src[0] == x && m->mark[x->id] & 2 && m->r->constant[user->src[1]->id]) return forget_marks(m, true);
            if (joins(user)) mark(m, user, (uint8_t)(m->mark[x->id] | (user->kind == G_ew ? 3 : 0)));
        }
    }
    return forget_marks(m, false);
}

// The sum with a bias that is all that a product is used for, or NULL; *bias: its numbers, one for each column.
static Node *biased(const Merge *m, const Node *product, Node **bias) {
    Graph *g = m->r->g;
    Ix coord[G_MAX_RANK];
    for (uint32_t i = product->id + 1; i < m->r->n && m->r->users[product->id] == 1; i++) {
        Node *e = g->nodes.at[i];
        if (!m->r->alive[i] || e->kind != G_ew || e->op != EW_add) continue;
        int at = e->src[0] == product ? 0 : e->src[1] == product ? 1 : -1;
        if (at < 0) continue;
        Node *b = e->src[1 - at];
        int last = product->rank - 1;
        bool columns = m->r->constant[b->id] && (b->kind == G_view ? ix_is(b->view.pred, 1) : last == 0);
        for (int k = 0; columns && b->kind == G_view && k < b->src[0]->rank; k++)
            columns = !(b->view.coord[k]->axes & ~(UINT64_C(1) << last));
        if (!columns) return NULL;
        for (int k = 0; k < last; k++) coord[k] = ix(g, 0);
        coord[last] = ix_axis(g, 0, product->shape[last]);
        *bias = g_view(g, b, 1, &product->shape[last], coord, NULL, g_int(0));
        return e;
    }
    return NULL;
}

static void side_by_side(Merge *m, Node *const *part, int n) {
    Graph *g = m->r->g;
    Node *w[16];
    for (int i = 0; i < n; i++) w[i] = part[i]->src[1];
    g_at_node(g, part[0]);
    Node *all = g_concat(g, 0, w, n);
    Ix start = ix(g, 0);
    for (int i = 0; i < n; i++) {
        m->all[part[i]->id] = all;
        m->start[part[i]->id] = start;
        start = ix_add(g, start, w[i]->shape[0]);
    }
    Node *sum[16], *bias[16];
    int with = 0;
    for (int i = 0; i < n; i++) with += (sum[i] = biased(m, part[i], &bias[i])) != NULL;
    if (with < n && !(with && m->r->g->tables->narrow)) return;
    for (int i = 0; i < n; i++)                              // without one: 0, so that what is stored is a sum
        if (!sum[i]) bias[i] = g_full(g, (Elem)part[i]->elem, 1, &part[i]->shape[part[i]->rank - 1], g_int(0));
    Node *biases = g_concat(g, 0, bias, n);
    for (int i = 0; i < n; i++) {
        Node *to = sum[i] ? sum[i] : part[i];
        m->biased[to->id] = part[i];
        m->bias[to->id] = biases;
    }
}

// Biases of products side by side are added side by side: what follows the product stays with it.
static Node *slice_of_sum(const Merge *m, Node *y, const Node *n, const Node *part) {
    Graph *g = m->r->g;
    int last = y ? y->rank - 1 : 0, axis = last;
    Node *sum = y ? g_ew2(g, EW_add, y, g_broadcast_to(g, m->bias[n->id], y->rank, y->shape, &axis)) : NULL;
    return sum ? g_take_range(g, sum, last, m->start[part->id], 1, n->shape[last]) : NULL;
}

static Node *slice_of_all(Rewrite *r, void *pass, Node *n, Node *const *src) {
    const Merge *m = pass;
    Graph *g = r->g;
    Node *all = m->all[n->id], *part = m->biased[n->id];
    if (part && part != n) {
        Node *slice = r->to[part->id];
        return slice_of_sum(m, slice->kind == G_view ? slice->src[0] : slice, n, part);
    }
    if (!all) return NULL;
    Node *y = g_contract(g, src[0], all, 0, n->contract.nm, 1, n->contract.nk, (Elem)n->elem, n->contract.acc);
    return part ? slice_of_sum(m, y, n, part) : g_take_range(g, y, n->rank - 1, m->start[n->id], 1, n->shape[n->rank - 1]);
}

void merge_products(Graph *g) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return;
    Merge m = {&r,
               NEW_N(g->arena, Node *, r.n),
               NEW_N(g->arena, Ix, r.n),
               NEW_N(g->arena, Node *, r.n),
               NEW_N(g->arena, Node *, r.n),
               NEW_N(g->arena, uint8_t, r.n),
               arena_alloc(g->arena, (r.n + 1) * sizeof *m.users),              // zeroed
               {0},
               {0}};
    for (uint32_t i = 0; i < r.n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i]->nsrc && r.alive[i]; k++) vec_push(g->arena, &m.users[g->nodes.at[i]->src[k]->id], (int)i);
    VEC(Node *) products = {0};
    for (uint32_t i = 0; i < r.n; i++) if (mergeable(&r, g->nodes.at[i]) && !scaled_by_column(&m, g->nodes.at[i])) vec_push(g->arena, &products, g->nodes.at[i]);
    for (uint32_t i = 0; i < products.n; i++) {
        Node *first = products.at[i], *part[16];
        int count = 0;
        if (m.all[first->id]) continue;
        part[count++] = first;
        for (uint32_t k = i + 1; k < products.n && count < 16; k++) {
            Node *other = products.at[k];
            if (!alike(first, other) || m.all[other->id]) continue;
            if (has_epilogue(&m, first)) break;
            bool apart = !has_epilogue(&m, other);
            for (int j = 0; j < count && apart; j++) apart = !meet(&m, part[j], other);
            if (apart) part[count++] = other;
        }
        if (count > 1) side_by_side(&m, part, count);
    }
    rewrite_all(&r, slice_of_all, &m);
}

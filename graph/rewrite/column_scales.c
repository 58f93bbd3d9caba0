// Scales of parts of a product's columns, in its epilogue.
//
//     y = x w'                       [m, 3 n]               y = x w' * (column < n ? c : column < 2 n ? d : 1)
//     q = y[.., 0 .. n] * c                                 q = y[.., 0 .. n]
//     k = y[.., n .. 2 n] * d                      ->       k = y[.., n .. 2 n]
//     v = y[.., 2 n .. 3 n]                                 v = y[.., 2 n .. 3 n]
//
// So a factor that has to stay before a product (algebra.c, range.c) costs no kernel, and a model in 16-bit floats rounds what was scaled,
// as the model has it, where a store between the two would have rounded, or lost, what was not. Each element is multiplied by the number that
// it was multiplied by, in f32, behind the same sum: nothing else changes.
//
// The value y is what is computed elementwise of a product and read through views alone. Of one axis of it, each view reads a range; ranges with different
// factors do not overlap. It is done for operands of products, and in a model that will be f16 for all that is scaled. Where nothing of y is read without the factor, fusion puts it there by itself.
#include "graph/rewrite/range.h"
#include "graph/rewrite/rewrite.h"

#include <string.h>

enum { MOST_PARTS = 8 };

// scaled: what multiplies it, the last of one or several such multiplications, or NULL
typedef struct Part { int64_t lo, hi; double factor; Node *scaled; } Part;

typedef struct Parts {
    Rewrite *r;
    VEC(int) *users;             // by node id
    Node   **scale;              // by node id: what multiplies it, a value of its shape, or NULL
    bool    *done;               // by node id: a multiplication that is made there
} Parts;

static bool by_number(const Node *n, const Node *x, double *factor) {
    GNum v;
    if (n->kind != G_ew || (n->op != EW_mul && n->op != EW_div)) return false;
    int at = n->src[0] == x ? 1 : 0;
    if (n->src[1 - at] != x || (n->op == EW_div && at == 0) || !g_scalar_value(n->src[at], &v)) return false;
    double c = v.is_int ? (double)v.i : v.f;
    *factor = n->op == EW_mul ? c : 1 / c;
    return c != 0 && c - c == 0 && (n->op == EW_mul || c * *factor == 1);        // 1 / c is exact, or the quotient stays one
}

static bool f16(const Graph *g) { return g->tables->narrow && g->tables->narrow_to == EL_f16; }

static bool operand_of_product(const Parts *p, const Node *v) {
    const Graph *g = p->r->g;
    for (; p->users[v->id].n == 1; v = g->nodes.at[p->users[v->id].at[0]]) {
        const Node *user = g->nodes.at[p->users[v->id].at[0]];
        if (user->kind == G_contract) return true;
        if (user->kind != G_view) return false;
    }
    return false;
}

// The last of what multiplies v by numbers, if that is all that is read of it, through whatever moves it; NULL: nothing does. *factor: their product.
static Node *multiplied(const Parts *p, Node *v, double *factor) {
    Graph *g = p->r->g;
    Node *last = NULL;
    double by;
    *factor = 1;
    while (p->users[v->id].n == 1 && p->r->users[v->id] == 1) {
        Node *user = g->nodes.at[p->users[v->id].at[0]];
        if (by_number(user, v, &by) && range_factor(*factor * by)) *factor *= by, last = user;
        else if (user->kind != G_view || !ix_is(user->view.pred, 1)) break;
        v = user;
    }
    return last && (f16(g) || operand_of_product(p, last)) ? last : NULL;
}

// The multiplications between a view of y and the last one are made in y's epilogue.
static void done_before(Parts *p, const Node *y, const Node *last) {
    for (const Node *n = last; n != y;) {
        GNum v;
        bool times = n->kind == G_ew;
        p->done[n->id] |= times;
        n = times && g_scalar_value(n->src[0], &v) ? n->src[1] : n->src[0];
    }
}

// The parts of y along an axis, if each view reads a range of it and ranges of different factors lie apart.
static int parts_along(const Parts *p, const Node *y, int axis, Part *part) {
    Graph *g = p->r->g;
    int n = 0;
    bool any = false, bare = false;
    for (uint32_t i = 0; i < p->users[y->id].n; i++, n++) {
        Node *v = g->nodes.at[p->users[y->id].at[i]];
        if (n == MOST_PARTS || v->kind != G_view || !ix_is(v->view.pred, 1)) return 0;
        Ix at = v->view.coord[axis];
        part[n] = (Part){.lo = at->lo, .hi = at->hi, .factor = 1};
        part[n].scaled = multiplied(p, v, &part[n].factor);
        any |= part[n].scaled != NULL, bare |= part[n].scaled == NULL;
        if (at->lo < 0 || at->hi == INT64_MAX) return 0;
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (part[i].factor != part[k].factor && part[i].lo <= part[k].hi && part[k].lo <= part[i].hi) return 0;
    return any && (bare || n > 1) ? n : 0;
}

static bool of_product(const Parts *p, const Node *y) {
    for (; y->kind == G_ew || y->kind == G_view || y->kind == G_cast; y = p->r->constant[y->src[0]->id] && y->nsrc > 1 ? y->src[1] : y->src[0])
        if (y->kind == G_view && !ix_is(y->view.pred, 1)) return false;
    return y->kind == G_contract;
}

static void find(Parts *p, Node *y) {
    Graph *g = p->r->g;
    Part part[MOST_PARTS];
    bool computed = (y->kind == G_ew || y->kind == G_contract) && y->elem == EL_f32 && of_product(p, y);
    for (uint32_t i = 0; i < g->outputs.n && computed; i++) computed = g->outputs.at[i].node != y;
    for (int axis = y->rank - 1; axis >= 0 && computed; axis--) {
        int n = parts_along(p, y, axis, part);
        if (!n) continue;
        g_at_node(g, y);
        Node *scale = g_full(g, EL_f32, y->rank, y->shape, g_float(1));
        Ix at = ix_axis(g, axis, y->shape[axis]);
        for (int i = 0; i < n; i++) {
            if (!part[i].scaled) continue;
            Ix in = ix_and(g, ix_le(g, ix(g, part[i].lo), at), ix_le(g, at, ix(g, part[i].hi)));
            scale = g_where(g, g_index(g, EL_bool, y->rank, y->shape, in), g_full(g, EL_f32, y->rank, y->shape, g_float(part[i].factor)), scale);
            done_before(p, y, part[i].scaled);
        }
        p->scale[y->id] = scale;
        return;
    }
}

static Node *put(Rewrite *r, void *pass, Node *n, Node *const *src) {
    const Parts *p = pass;
    if (p->done[n->id]) {
        GNum v;
        return g_scalar_value(n->src[0], &v) ? src[1] : src[0];
    }
    return p->scale[n->id] ? g_ew2(r->g, EW_mul, rewrite_node(r->g, n, src), p->scale[n->id]) : NULL;
}

void scale_column_ranges(Graph *g) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return;
    Parts p = {&r, arena_alloc(g->arena, (r.n + 1) * sizeof *p.users), NEW_N(g->arena, Node *, r.n), NEW_N(g->arena, bool, r.n)};
    for (uint32_t i = 0; i < r.n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i]->nsrc && r.alive[i]; k++) vec_push(g->arena, &p.users[g->nodes.at[i]->src[k]->id], (int)i);
    bool any = false;
    for (uint32_t i = r.n; i-- > 0;) {                       // what is nearest to the scale first
        Node *y = g->nodes.at[i];
        if (!r.alive[i] || r.constant[i]) continue;
        find(&p, y);
        any |= p.scale[i] != NULL;
    }
    if (any && !g_failed(g)) rewrite_all(&r, put, &p);
}

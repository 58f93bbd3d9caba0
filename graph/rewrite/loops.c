// Loops whose trips are counted, as steps: a graph of their own, that a program runs once for each number.
//
//     h = loop T (h0) { t, h -> tanh(X[t] + h . U) }      X, U: from outside
//
//     steps of T (h0, X)                                  body: a graph of its own, (h, X) -> (h')
//                                                             h' = tanh(X[t] + h . U)       t: a dimension of the body
//
// A step's number is a dimension of the body like any other: X[t] is a view, and a kernel that needs t gets it as a number. What the body
// reads from outside are inputs of its graph, values in memory; what only moves those, indices and constants are made again in it, so
// that fusion, rewrites and smaller types see weights as such. Results that nobody reads go.
//
// A loop is left as it is if its trips or its end are for data to decide, if what it carries changes its shape, or if there is something in it that only the
// interpreter runs.
#include "graph/rewrite/loops.h"

#include "graph/copy.h"
#include "graph/rewrite/rewrite.h"

#include <string.h>

typedef struct Close {
    Rewrite r;
    const Node *loop;
    const GBody *body;
    bool   *inside;              // by node id: it depends on the trip
    bool   *constant;            // .. it is made of constants alone
    bool   *found;               // by dimension: a node inside finds it
    GCopy   copy;
    VEC(Node *) given;           // what the body is given besides what is carried
} Close;

static bool holds(const Node *n) {
    GNum v;
    return g_scalar_value(n, &v) && v.is_int && v.i != 0;
}

static bool by_data(const Graph *g, Ix e) {
    if (!e->has_dim) return false;
    if (e->kind == IX_DIM) return ix_dim_info(g, e)->data_dependent && !ix_dim_info(g, e)->value;
    for (uint32_t i = 0; i < e->n; i++)
        if (by_data(g, e->arg[i])) return true;
    return false;
}

// How often it runs; NULL: nobody knows before it does.
static Ix trips_of(Graph *g, const Node *n) {
    Ix count = n->kind == G_loop && holds(n->src[1]) && holds(n->sub.body->results[0]) ? g_known_ix(g, n->src[0]) : NULL;
    return count && ix_prove_ge0(g, count) ? count : NULL;
}

static bool shapes_stay(const Node *n) {
    for (int i = 0; i < n->sub.ncarried; i++)
        if (!g_same_shape(n->src[2 + i], n->sub.body->results[1 + i]) || !g_same_shape(n->src[2 + i], n->sub.body->params[1 + i])) return false;
    return true;
}

// ---- what is inside ----------------------------------------------------------------------------------------------------

static void find_inside(Close *c) {
    const Graph *g = c->r.g;
    for (int i = 0; i < c->body->nparams; i++) c->inside[c->body->params[i]->id] = true;
    for (uint32_t i = 0; i < c->r.n; i++) {
        const Node *n = g->nodes.at[i];
        int bodies = n->kind == G_loop ? 1 : n->kind == G_if ? 2 : 0;
        c->constant[i] = n->kind == G_const || (n->nsrc > 0 && !bodies && n->kind != G_host && n->kind != G_steps);
        for (uint32_t k = 0; k < n->nsrc; k++) c->inside[i] |= c->inside[n->src[k]->id], c->constant[i] &= c->constant[n->src[k]->id];
        for (int b = 0; b < bodies; b++)
            for (int k = 0; k < n->sub.body[b].nresults; k++) c->inside[i] |= c->inside[n->sub.body[b].results[k]->id];
    }
}

static bool made_again(const Close *c, const Node *n) {
    return c->inside[n->id] || c->constant[n->id] || n->kind == G_view || n->kind == G_index;
}

// Does e have a size that a node inside finds?
static bool found_inside(const Close *c, Ix e) {
    if (!e || !e->has_dim) return e && e->kind == IX_AXIS && found_inside(c, e->arg[0]);
    if (e->kind == IX_DIM) return c->found[e->value];
    for (uint32_t i = 0; i < e->n; i++)
        if (found_inside(c, e->arg[i])) return true;
    return false;
}

static bool sized_inside(const Close *c, const Node *n) {
    bool any = n->kind == G_index && found_inside(c, n->index.expr);
    for (int d = 0; d < n->rank; d++) any |= found_inside(c, n->shape[d]);
    return any;
}

static void find_sizes(Close *c) {
    const Graph *g = c->r.g;
    for (uint32_t i = 0; i < c->r.n; i++) {
        int count;
        const GType *t = g_results(g->nodes.at[i], &count);
        for (int k = 0; k < count && c->inside[i]; k++)
            for (int d = 0; d < t[k].rank; d++)
                if (t[k].shape[d]->kind == IX_DIM && by_data(g, t[k].shape[d])) c->found[t[k].shape[d]->value] = true;
    }
}

// Marks what the body's graph has, from its results on. False: there is something that it cannot have.
static bool reach(Close *c, bool *needed) {
    const Graph *g = c->r.g;
    for (int i = 0; i < c->body->nresults; i++) needed[c->body->results[i]->id] = true;
    for (uint32_t i = c->r.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        if (!needed[i] || !made_again(c, n)) continue;
        if (n->kind == G_loop || n->kind == G_host || n->kind == G_steps || (n->kind == G_if && !g_if_chooses(n)) || sized_inside(c, n)) return false;
        g_mark_sources(needed, n);
    }
    return true;
}

// ---- the body's graph --------------------------------------------------------------------------------------------------

// Is e in the extent at each of the steps? It grows, or falls, by the same from each to the next.
static bool in_range_always(const Close *c, Ix e, Ix extent) {
    Graph *g = c->copy.g;
    Ix t = g->step.number, next = ix_substitute_dim(g, e, t, ix_addi(g, t, 1)), by = next ? ix_sub(g, next, e) : NULL;
    if (!ix_is_const(by)) return false;
    Ix first = ix_substitute_dim(g, e, t, ix(g, 0)), last = ix_substitute_dim(g, e, t, ix_addi(g, g->step.count, -1));
    Ix least = by->value < 0 ? last : first, most = by->value < 0 ? first : last;
    return ix_prove_ge0(g, least) && ix_prove_lt(g, most, extent);
}

// What an index is at all places, if that is one expression.
static Ix one_index(Graph *g, Node *n) {
    while (n->kind == G_view && ix_is(n->view.pred, 1) && n->src[0]->rank == 0) n = n->src[0];
    if (n->kind == G_index) return n->index.expr;
    return n->rank == 0 ? g_known_ix(g, n) : NULL;
}

// An element of a sequence, at a place that follows from the step's number, is a view of it.
static Node *gathered(Close *c, const Node *n) {
    GCopy *to = &c->copy;
    Graph *g = to->g;
    const Ix *coord = g_copy_ixs(to, n->at.coord, n->src[0]->rank), *shape = g_copy_ixs(to, n->shape, n->rank);
    Node *x = to->to[n->src[0]->id], *index[G_MAX_RANK];
    Ix at[G_MAX_RANK];
    int used = 1, left = 0;
    for (int i = 0; i < n->src[0]->rank; i++) {
        at[i] = coord[i];
        if (at[i]) continue;
        Node *v = to->to[n->src[used++]->id];
        Ix e = one_index(g, v);
        if (e && in_range_always(c, e, x->shape[i])) at[i] = e;
        else index[left++] = v;
    }
    return g_name(g, g_gather(g, x, n->rank, shape, at, index, left, n->at.checked, n->at.fill), n->name);
}

static Node *made(Close *c, const Node *n) {
    GCopy *to = &c->copy;
    Graph *g = to->g;
    const Node *from = n->kind == G_proj ? n->src[0] : NULL;
    if (from && from->kind == G_if) {
        const GBody *side = from->sub.body;
        return g_where(g, to->to[from->src[0]->id], to->to[side[0].results[n->proj.result]->id], to->to[side[1].results[n->proj.result]->id]);
    }
    if (n->kind == G_gather) return gathered(c, n);
    if (n->kind == G_view)
        return g_name(g, g_view(g, to->to[n->src[0]->id], n->rank, g_copy_ixs(to, n->shape, n->rank), g_copy_ixs(to, n->view.coord, n->src[0]->rank),
                                g_copy_ix(to, n->view.pred), n->view.fill), n->name);
    return g_copy_node(to, n);
}

static Node *given(Close *c, Node *n, const char *like) {
    GCopy *to = &c->copy;
    return to->to[n->id] = g_input(to->g, n->name ? n->name : like, (Elem)n->elem, n->rank, g_copy_ixs(to, n->shape, n->rank));
}

static bool make_nodes(Close *c, const bool *needed) {
    const Graph *g = c->r.g;
    GCopy *to = &c->copy;
    to->to[c->body->params[0]->id] = g_size(to->g, EL_i64, c->copy.g->step.number);
    for (int i = 1; i < c->body->nparams; i++) given(c, c->body->params[i], "carried");
    for (uint32_t i = 0; i < c->r.n && !g_failed(to->g); i++) {
        Node *n = g->nodes.at[i];
        if (!needed[i] || to->to[i] || n->kind == G_if) continue;
        g_at_node(to->g, n);
        if (made_again(c, n)) { to->to[i] = made(c, n); continue; }
        given(c, n, "x");
        vec_push(c->r.g->arena, &c->given, n);
    }
    g_at(to->g, NULL);
    return !g_failed(to->g);
}

// A name for the step's number that no dimension has.
static Ix number_of(Graph *g) {
    const char *word = "t";
    for (int k = 2, i = 0; i < ix_dim_count(g); i++) {
        if (strcmp(ix_dim_info(g, ix_dim_at(g, i))->name, word) != 0) continue;
        word = arena_printf(g->arena, "t_%d", k++);
        i = -1;
    }
    return ix_dim_range(g, word, 0, IX_DIM_MAX, 1);
}

// ---- the steps ---------------------------------------------------------------------------------------------------------

// The body's graph, without its outputs. False: it cannot be had.
static bool make_body(Close *c, Ix count) {
    Graph *g = c->r.g, *body = graph_new("step");
    bool *needed = NEW_N(g->arena, bool, c->r.n);
    vec_push(g->arena, &g->bodies, body);
    c->copy = g_copy_begin(body, g);
    body->step = (GStep){.count = g_copy_ix(&c->copy, count), .number = number_of(body), .ncarried = c->loop->sub.ncarried};
    c->inside = NEW_N(g->arena, bool, c->r.n);
    c->constant = NEW_N(g->arena, bool, c->r.n);
    c->found = NEW_N(g->arena, bool, ix_dim_count(g) + 1);
    find_inside(c);
    find_sizes(c);
    return reach(c, needed) && make_nodes(c, needed);
}

// Does a row's shape depend on which it is?
static bool uneven(const Close *c, const Node *row) {
    Graph *g = c->copy.g;
    for (int d = 0; d < row->rank; d++)
        if (ix_substitute_dim(g, row->shape[d], g->step.number, ix(g, 0)) != row->shape[d]) return true;
    return false;
}

static Node *as_steps(Close *c, Ix count, const int *place) {
    Graph *g = c->r.g, *body = c->copy.g;
    int carried = body->step.ncarried;
    VEC(Node *) src = {0};
    for (int i = 0; i < c->loop->sub.nresults; i++) {
        Node *to = c->copy.to[c->body->results[1 + i]->id];
        if (place[i] < 0) continue;
        if (i >= carried && uneven(c, to)) return NULL;
        g_output(body, i < carried ? "next" : "row", to);
        body->outputs.at[body->outputs.n - 1].handed = i < carried ? "the next step goes on with it" : "a row of what the steps give";
    }
    for (int i = 0; i < carried; i++) vec_push(g->arena, &src, c->r.to[c->loop->src[2 + i]->id]);
    for (uint32_t i = 0; i < c->given.n; i++) vec_push(g->arena, &src, c->r.to[c->given.at[i]->id]);
    return g_steps(g, body, count, src.at, (int)src.n);
}

typedef struct Loops {
    bool  **wanted;              // by node id of a loop: which of its results are read
    int   **place;               // .. and their numbers among those of its steps; NULL: it stays
    bool    settled;             // one stays that a size of the model would settle
} Loops;

static bool has_sizes(const Node *n, Graph *g) {
    Ix trips = g_known_ix(g, n->src[0]);
    return trips && !ix_is_const(trips) && !by_data(g, trips);
}

static Node *loop_as_steps(Rewrite *r, Loops *l, Node *n) {
    Graph *g = r->g;
    Close c = {.r = *r, .loop = n, .body = n->sub.body};
    Ix count = trips_of(g, n);
    int *place = NEW_N(g->arena, int, n->sub.nresults + 1), next = n->sub.ncarried;
    for (int i = 0; i < n->sub.nresults; i++) place[i] = i < n->sub.ncarried ? i : l->wanted[n->id][i] ? next++ : -1;
    Node *steps = count && shapes_stay(n) && make_body(&c, count) ? as_steps(&c, count, place) : NULL;
    if (steps) l->place[n->id] = place;
    else l->settled |= has_sizes(n, g);
    return steps;
}

static const GBody *bodies_over(Rewrite *r, const Node *n, int bodies, bool *same) {
    Graph *g = r->g;
    GBody *to = NEW_N(g->arena, GBody, bodies);
    for (int b = 0; b < bodies; b++) {
        const GBody *of = &n->sub.body[b];
        Node **results = NEW_N(g->arena, Node *, of->nresults + 1);
        for (int k = 0; k < of->nresults; k++) results[k] = r->to[of->results[k]->id], *same &= results[k] == of->results[k];
        to[b] = (GBody){of->params, of->nparams, results, of->nresults};
    }
    return to;
}

static Node *counted(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Loops *l = pass;
    Node *steps = n->kind == G_loop ? loop_as_steps(r, l, n) : NULL;
    if (n->kind == G_proj && l->place[n->src[0]->id]) return g_name(r->g, g_proj(r->g, src[0], l->place[n->src[0]->id][n->proj.result]), n->name);
    if (steps || (n->kind != G_loop && n->kind != G_if)) return steps;
    Node proto = *n;
    bool same = true;
    for (uint32_t k = 0; k < n->nsrc; k++) same &= src[k] == n->src[k];
    proto.src = src;
    proto.sub.body = bodies_over(r, n, n->kind == G_loop ? 1 : 2, &same);
    return same ? n : node_intern(r->g, &proto);
}

// What outputs need, and of loops which results; what bodies read, too.
static bool find_alive(Rewrite *r, Loops *l) {
    Graph *g = r->g;
    bool any = false;
    for (uint32_t i = 0; i < g->outputs.n; i++) r->alive[g->outputs.at[i].node->id] = true;
    for (uint32_t i = r->n; i-- > 0;) {
        const Node *n = g->nodes.at[i], *from = n->kind == G_proj ? n->src[0] : NULL;
        if (!r->alive[i]) continue;
        any |= n->kind == G_loop;
        g_mark_sources(r->alive, n);
        if (!from || from->kind != G_loop) continue;
        if (!l->wanted[from->id]) l->wanted[from->id] = NEW_N(g->arena, bool, from->sub.nresults + 1);
        l->wanted[from->id][n->proj.result] = true;
    }
    return any;
}

bool graph_count_loops(Graph *g) {
    uint32_t n = g->nodes.n;
    Rewrite r = {.g = g, .n = n, .to = NEW_N(g->arena, Node *, n), .alive = NEW_N(g->arena, bool, n)};
    Loops l = {NEW_N(g->arena, bool *, n), NEW_N(g->arena, int *, n), false};
    if (find_alive(&r, &l)) rewrite_all(&r, counted, &l);
    return !l.settled;
}

// ---- what steps are given ----------------------------------------------------------------------------------------------

typedef struct Within { Node *input, *view; } Within;

static Node *seen_within(Rewrite *r, void *pass, Node *n, Node *const *src) {
    const Within *w = pass;
    (void)r;
    (void)src;
    return n == w->input ? w->view : NULL;
}

// The body gets what the view is of, and sees it as that.
static bool take_view(const Node *view, Graph *body, uint32_t i, Ix *done) {
    const Node *x = view->src[0];
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    Rewrite r;
    for (int d = 0; d < x->rank; d++) shape[d] = ix_copy(body, x->shape[d], done), coord[d] = ix_copy(body, view->view.coord[d], done);
    Node *old = body->inputs.at[i].node, *in = g_input(body, x->name ? x->name : "x", (Elem)x->elem, x->rank, shape);
    Within w = {old, g_view(body, in, old->rank, old->shape, coord, ix_copy(body, view->view.pred, done), view->view.fill)};
    if (!w.view || !rewrite_begin(&r, body)) return false;
    rewrite_all(&r, seen_within, &w);
    body->inputs.at[i] = body->inputs.at[--body->inputs.n];
    return true;
}

static Node *over_sources(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Node proto = *n, **with = NEW_N(r->g->arena, Node *, n->nsrc);
    bool any = false;
    (void)pass;
    if (n->kind != G_steps) return NULL;
    Ix *done = NEW_N(r->g->arena, Ix, ix_count(r->g) + 1);
    for (uint32_t i = 0; i < n->nsrc; i++) {
        GNum v;
        bool carried = (int)i < n->steps.body->step.ncarried, view = src[i]->kind == G_view && !g_scalar_value(src[i], &v);
        with[i] = src[i];
        if (carried || !view || !take_view(src[i], n->steps.body, i, done)) continue;
        with[i] = src[i]->src[0];
        any = true;
    }
    proto.src = with;
    return any ? node_intern(r->g, &proto) : NULL;
}

void views_into_bodies(Graph *g) {
    Rewrite r;
    bool any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) any |= g->nodes.at[i]->kind == G_steps;
    if (any && rewrite_begin(&r, g)) rewrite_all(&r, over_sources, NULL);
}

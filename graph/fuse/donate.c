// Inputs whose memory a result takes over: caches that a step of a model extends.
//
//     k_next = concat(k, new) along axis 2           k: inout f32[B, H, past_room, D], past: i32[]
//         k f32[B, H, past, D]                       rows past .. past + 1 of k are written, the others stay
//         k_next f32[B, H, past + 1, D]              who reads k_next reads k as far as past + 1
//
//     k_next = scatter(k, at, new)                   k: inout, of its own shape
//
// An input and a result are a pair if the result is just one of these two. The first is found by shape (all dimensions
// but one are the same, and that one is a dimension of its own), the second by use: nobody else may need the old value,
// since nothing says that it runs before. Of an extended input the old rows stay, so others may read them.
//
// Extended inputs have a capacity in place of the dimension, and how many rows are in use is a number in memory: a step of
// another length is the same plan. What still needs the dimension as one makes it a parameter of the program (write.c).
#include "graph/ref/ref.h"
#include "graph/rewrite/rewrite.h"

#include <string.h>

typedef struct Pair {
    Node *input, *result;
    Node *grown;                 // the concatenation: the result, or what it is a cast of
    int   output, axis;          // axis -1: of one shape
} Pair;

static bool has_dim(Ix e, Ix dim) {
    if (e == dim) return true;
    for (uint32_t i = 0; e->has_dim && i < e->n; i++)
        if (has_dim(e->arg[i], dim)) return true;
    return false;
}

// What n is a cast of, through types that hold all that n's does: values of n's type pass unchanged.
static Node *uncast(Node *n) {
    Elem own = (Elem)n->elem;
    while (n->kind == G_cast && elem_is_float(own) && ((Elem)n->src[0]->elem == EL_f32 || (Elem)n->src[0]->elem == own))
        n = n->src[0];
    return n;
}

static Node *uncast_input(Node *n, Elem elem) {
    return n->kind == G_cast && (Elem)n->src[0]->elem == elem ? n->src[0] : n;
}

// Does a loop go on by it, or with values of it?
static bool in_steps(const Graph *g, Ix dim) {
    bool any = false;
    for (uint32_t i = 0; i < g->nodes.n && !any; i++) {
        const Node *n = g->nodes.at[i];
        if (n->kind != G_steps) continue;
        any = has_dim(n->steps.count, dim);
        for (uint32_t k = 0; k < n->nsrc; k++)
            for (int d = 0; d < n->src[k]->rank; d++) any |= has_dim(n->src[k]->shape[d], dim);
    }
    return any;
}

// Why a result takes over no input, in words; NULL: it does.
static const char *match(const Rewrite *w, int output, Pair *p) {
    const Graph *g = w->g;
    Node *result = g->outputs.at[output].node, *r = uncast(result);
    bool extends = r->kind == G_concat && r->nsrc > 1, scatters = r->kind == G_scatter && r == result;
    *p = (Pair){.result = result, .grown = r, .output = output, .axis = -1};
    for (uint32_t i = 0; i < g->outputs.n; i++)
        if ((int)i != output && g->outputs.at[i].node == result) return "two results are the same value";
    if (!extends && !scatters) return "it is neither an input with more rows nor an input with some elements replaced";
    p->input = extends ? uncast_input(r->src[0], (Elem)result->elem) : r->src[0];
    if (p->input->kind != G_input || p->input->elem != result->elem) return "what it extends or updates is no input";
    for (uint32_t i = 1; i < r->nsrc; i++)
        if (r->src[i] == r->src[0]) return "it needs the input twice";
    if (scatters && !g_in_place(r)) return "no atomic combines what meets at a place";
    if (scatters) return w->users[p->input->id] == 1 ? NULL : "another value needs the old elements of the input";
    p->axis = r->concat.axis;
    Ix dim = p->input->shape[p->axis];
    if (dim->kind != IX_DIM) return "the input's rows are a fixed number";
    for (int d = 0; d < r->rank; d++)
        if (d != p->axis && has_dim(p->input->shape[d], dim))
            return "the number of rows is another dimension of the input, too";
    if (in_steps(g, dim)) return "a loop needs the number of rows as a size";
    return NULL;
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

// How many rows are in use, as an input; the dimension is known by it from now on.
static void rows_input(Graph *g, Ix dim) {
    IxDim *info = &g->tables->dims.at[dim->value];
    if (!info->value) info->value = g_input(g, info->name, EL_i32, 0, NULL);
}

static bool still_bound(const Graph *g, const Pair *pairs, int n, Ix dim) {
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        const Node *in = g->inputs.at[i].node;
        bool pair = false;
        for (int k = 0; k < n; k++) pair |= pairs[k].input == in && pairs[k].axis >= 0;
        for (int d = 0; d < in->rank && !pair; d++)
            if (has_dim(in->shape[d], dim)) return true;
    }
    return false;
}

static Node *replace_input(Graph *g, const Node *old, const Ix *shape) {
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        if (g->inputs.at[i].node != old) continue;
        Node *fresh = g_input(g, g->inputs.at[i].name, (Elem)old->elem, old->rank, shape);
        g->inputs.n--;                                       // it stands where the old one stood
        g->inputs.at[i].node = fresh;
        return fresh;
    }
    return NULL;
}

// ---- rewriting ------------------------------------------------------------------------------------------------------

typedef struct Taken { const Pair *pair; Node *fresh, *updated; } Taken;       // fresh: with room
typedef struct Donate { Taken *at; int n; } Donate;

static Node *extended(Graph *g, Taken *t, Node *const *src) {
    const Pair *p = t->pair;
    Ix rows = p->input->shape[p->axis], at[G_MAX_RANK];
    int n = (int)p->grown->nsrc - 1;
    Node *add = n > 1 ? g_concat(g, p->axis, src + 1, n) : src[1];
    if (!add) return NULL;
    add = g_cast(g, add, (Elem)p->input->elem);
    for (int i = 0; i < add->rank; i++) at[i] = ix_axis(g, i, add->shape[i]);
    at[p->axis] = ix_add(g, at[p->axis], rows);
    t->updated = g_name(g, g_scatter(g, GR_none, t->fresh, add, at, NULL, 0, false), g->outputs.at[p->output].name);
    return g_cast(g, g_take_range(g, t->updated, p->axis, ix(g, 0), 1, p->result->shape[p->axis]), (Elem)p->grown->elem);
}

static Node *taken_over(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Donate *d = pass;
    for (int i = 0; i < d->n; i++) {
        Taken *t = &d->at[i];
        const Pair *p = t->pair;
        if (p->axis < 0) continue;
        if (p->input == n) return g_take_range(r->g, t->fresh, p->axis, ix(r->g, 0), 1, n->shape[p->axis]);
        bool same = n->kind == G_cast && t->updated && n->elem == p->input->elem && uncast(n) == p->grown;
        if (same) return g_take_range(r->g, t->updated, p->axis, ix(r->g, 0), 1, n->shape[p->axis]);
        if (p->grown == n) return extended(r->g, t, src);
    }
    return NULL;
}

// Of an input that is extended: the same with room.
static Node *with_room(Graph *g, const Pair *p) {
    Ix shape[G_MAX_RANK], rows = p->input->shape[p->axis];
    memcpy(shape, p->input->shape, sizeof *shape * (size_t)p->input->rank);
    shape[p->axis] = ix_dim(g, arena_printf(g->arena, "%s_room", ix_dim_info(g, rows)->name));
    return replace_input(g, p->input, shape);
}

static void take(Rewrite *r, const Pair *pairs, int n) {
    Graph *g = r->g;
    Donate d = {NEW_N(g->arena, Taken, n), n};
    uint32_t kept = 0, outputs = g->outputs.n;
    for (int i = 0; i < n; i++)
        d.at[i] = (Taken){.pair = &pairs[i], .fresh = pairs[i].axis >= 0 ? with_room(g, &pairs[i]) : pairs[i].input};
    for (int i = 0; i < n; i++)
        if (pairs[i].axis >= 0) rows_input(g, pairs[i].input->shape[pairs[i].axis]);
    rewrite_all(r, taken_over, &d);
    if (g_failed(g)) return;
    for (uint32_t i = 0; i < outputs; i++) {
        GNamed o = g->outputs.at[i];
        const Taken *t = NULL;
        for (int k = 0; k < n; k++)
            if (pairs[k].output == (int)i) t = &d.at[k];
        if (!t) {
            g->outputs.at[kept++] = o;
            continue;
        }
        GDonated *is = &g->donated.at[i];
        *is = (GDonated){.output = is->output,
                         .input = t->pair->input->name,
                         .axis = t->pair->axis,
                         .rank = t->pair->result->rank,
                         .shape = t->pair->result->shape,
                         .state = t->fresh,
                         .updated = t->pair->axis < 0 ? o.node : t->updated};
    }
    g->outputs.n = kept;
}

bool graph_donate(Graph *g) {
    Rewrite r;
    bool plain = rewrite_begin(&r, g);
    Pair *pairs = NEW_N(g->arena, Pair, g->outputs.n + 1);
    VEC(GDonated) found = {0};
    int n = 0;
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        GDonated d = {.output = g->outputs.at[i].name, .axis = -1};
        d.refused = plain ? match(&r, (int)i, &pairs[n]) : "the model has loops or branches";
        for (int k = 0; k < n && !d.refused; k++)
            if (pairs[k].input == pairs[n].input) d.refused = "another result has taken the input";
        vec_push(g->arena, &found, d);
        n += !d.refused;
    }
    for (int i = 0; i < n; i++) {                            // which rows are in use must be said by nothing else
        if (pairs[i].axis < 0 || !still_bound(g, pairs, n, pairs[i].input->shape[pairs[i].axis])) continue;
        found.at[pairs[i].output].refused = "an input that is not taken has the same dimension";
        pairs[i] = pairs[--n];
        i = -1;                                              // which may concern those before
    }
    for (uint32_t i = 0; i < found.n; i++)                   // all are refused until they are rewritten
        vec_push(g->arena, &g->donated,
                 ((GDonated){.output = found.at[i].output,
                             .axis = -1,
                             .refused = found.at[i].refused ? found.at[i].refused : ""}));
    if (n) take(&r, pairs, n);
    return !g_failed(g);
}

// ---- for those who know no nodes --------------------------------------------------------------------------------------

static int input_number(const Graph *g, const void *n) {
    for (uint32_t i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i].node == n) return (int)i;
    return -1;
}

static int rows_number(const Graph *g, const GDonated *d) {
    for (int i = 0; i < ix_dim_count(g); i++) {
        const IxDim *dim = ix_dim_info(g, ix_dim_at(g, i));
        if (dim->value && has_dim(d->shape[d->axis], ix_dim_at(g, i))) return input_number(g, dim->value);
    }
    return -1;
}

int graph_donation_count(const Graph *g) { return (int)g->donated.n; }

GDonation graph_donation(const Graph *g, int i) {
    const GDonated *d = &g->donated.at[i];
    GDonation r = {d->output, d->input, d->refused, d->axis, -1, -1};
    if (!d->refused) r.state = input_number(g, d->state);
    if (d->axis >= 0) r.rows = rows_number(g, d);
    return r;
}

bool graph_donated_rows(const Graph *g, int i, const GTensor *in, int64_t *rows, char *error, size_t error_size) {
    const GDonated *d = &g->donated.at[i];
    return ref_sizes(g, in, 1, &d->shape[d->axis], rows, error, error_size);
}

void graph_donate_print(const Graph *g, Buf *to, const char *lead, bool refused) {
    for (uint32_t i = 0; i < g->donated.n; i++) {
        const GDonated *d = &g->donated.at[i];
        if (d->refused) {
            if (refused) buf_printf(to, "%s%s has memory of its own: %s\n", lead, d->output, d->refused);
        } else if (d->axis < 0) {
            buf_printf(to, "%s%s is %s, updated in place\n", lead, d->output, d->input);
        } else {
            buf_printf(to, "%s%s is %s, with more rows along dimension %d: 0 .. ", lead, d->output, d->input, d->axis);
            ix_print(to, g, d->shape[d->axis], NULL);
            buf_puts(to, " of ");
            ix_print(to, g, d->state->shape[d->axis], NULL);
            buf_putc(to, '\n');
        }
    }
}

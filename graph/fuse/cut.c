// Models whose sizes data decide: where a program ends, and where the next begins.
//
//     boxes, scores = network(picture)          program 1: kernels
//     kept = NonMaxSuppression(boxes, scores)   the interpreter: how many there are, the data say
//     chosen = head(boxes[kept])                program 2: kernels again, `kept`'s rows a dimension by name
//
// An operation on whole tensors, a loop or an if that stays, a sort longer than a block's: each has no form as a kernel, and the
// interpreter runs it (a *turn* of its own, between two programs). What it makes is an input of the programs that follow, and a size
// that it found is one of their dimensions: a program is written and compiled once, for whatever size will be found, none included,
// and its plans are kept as those of any other.
//
//     turn 0   program 1   turn 1   program 2   turn 2 ..      each as much as can be made by then
//
// A value is made as soon as it can be. What only moves elements is made again where it is read; so is what is made of weights alone.
// Whole numbers and flags that are computed of what the interpreter has anyhow (a column of NonZero's places, a number of boxes compared), and
// values of few elements, it computes by itself: a program would have to be waited for. All else stays on the device: what a program makes is
// brought to the host for an operation that reads it, and for nothing else.
//
// A model of such operations alone has no program, and is one turn.
//
// The whole graph stays as it is, and the interpreter's turns are run on it; programs are graphs of their own (stage.c).
#include <string.h>

#include "graph/fuse/fuse.h"
#include "graph/internal.h"
#include "graph/stages.h"

enum { FEW_ELEMENTS = 4096 };

typedef struct Cut {
    Graph    *g;
    uint32_t  n;
    // by node id: it is of a trip; it has no form as a kernel, or is a result of such; it takes an input's elements or a found size; the interpreter can make it alone
    bool     *inside, *own, *live, *native;
    int      *turn, *program;    // by node id: the first turn that can have it; the first program
    Node   ***captured;          // by node id of what has bodies: what it reads from outside, ended by NULL
    Node    **maker;             // by dimension: what finds it, or NULL
    bool     *host;              // by node id: the interpreter wants it
    bool    **in;                // by program, from 1, and node id: the program has it
    bool    **out;               // .. and gives it
    bool      settled;           // something is for an input to settle
    bool      moves_alone;       // the interpreter computes nothing by itself that has a form
    int       programs;
    GStages  *s;
    VEC(GBetween) values;
} Cut;

// ---- what has a form -------------------------------------------------------------------------------------------------

static bool by_data(const Graph *g, Ix e) {
    if (!e || !e->has_dim) return false;
    if (e->kind == IX_DIM) return ix_dim_info(g, e)->data_dependent && !ix_dim_info(g, e)->value;
    for (uint32_t i = 0; i < e->n; i++)
        if (by_data(g, e->arg[i])) return true;
    return false;
}

static bool too_long(const Node *n) {
    bool along = n->kind == G_scan || n->kind == G_sort;
    const Ix size = along ? n->shape[n->kind == G_scan ? n->scan.axis : n->sort.axis] : NULL;
    return size && size->kind == IX_CONST && size->value > MOST_ALONG;
}

static bool has_form(const Node *n) {
    return (n->kind != G_if || g_if_chooses(n)) && n->kind != G_host && n->kind != G_loop && n->kind != G_param && !too_long(n);
}

const Node *graph_settled_by(const Graph *g, const Node *n) {
    const Node *by = n->kind == G_loop || n->kind == G_if ? n->src[0] : NULL;
    while (by && n->kind == G_loop && (by->kind == G_view || by->kind == G_cast)) by = by->src[0];
    while (by && n->kind == G_if && by->kind != G_input) by = by->nsrc > 0 ? by->src[0] : NULL;
    if (!by) return NULL;
    bool settled = n->kind == G_loop ? by->kind == G_index && by->index.expr->has_dim && !by_data(g, by->index.expr) : !elem_is_float((Elem)by->elem);
    return settled ? by : NULL;
}

// ---- what a node reads -----------------------------------------------------------------------------------------------

typedef void DimFn(Cut *c, void *ctx, Ix dim);

static void dims_of(Cut *c, Ix e, DimFn *fn, void *ctx) {
    if (!e) return;
    if (e->kind == IX_AXIS) { dims_of(c, e->arg[0], fn, ctx); return; }
    if (e->kind == IX_DIM && e->value < ix_dim_count(c->g)) fn(c, ctx, e);      // not the number of a body's step
    for (uint32_t i = 0; (e->has_dim || e->has_axis) && i < e->n; i++) dims_of(c, e->arg[i], fn, ctx);
}

// The sizes that n is made with.
static void each_dim(Cut *c, const Node *n, DimFn *fn, void *ctx) {
    const Ix *coord = n->kind == G_view ? n->view.coord : n->kind == G_gather || n->kind == G_scatter ? n->at.coord : NULL;
    for (int i = 0; i < n->rank; i++) dims_of(c, n->shape[i], fn, ctx);
    for (int i = 0; coord && i < n->src[0]->rank; i++) dims_of(c, coord[i], fn, ctx);
    if (n->kind == G_view) dims_of(c, n->view.pred, fn, ctx);
    if (n->kind == G_index) dims_of(c, n->index.expr, fn, ctx);
    if (n->kind == G_steps) dims_of(c, n->steps.count, fn, ctx);
    for (uint32_t i = 0; n->kind == G_steps && i < n->steps.body->nodes.n; i++) each_dim(c, n->steps.body->nodes.at[i], fn, ctx);
}

static int bodies(const Node *n) { return n->kind == G_loop ? 1 : n->kind == G_if ? 2 : 0; }

static bool has_param(const Node *n, const Node *param) {
    for (int b = 0; b < bodies(n); b++)
        for (int k = 0; k < n->sub.body[b].nparams; k++)
            if (n->sub.body[b].params[k] == param) return true;
    return false;
}

// What the bodies of n read from outside of them; is n itself of a trip of another?
static bool capture(Cut *c, Node *n) {
    bool *seen = NEW_N(c->g->arena, bool, n->id + 1), foreign = false;
    VEC(Node *) found = {0};
    for (int b = 0; b < bodies(n); b++)
        for (int k = 0; k < n->sub.body[b].nresults; k++) {
            Node *r = n->sub.body[b].results[k];
            seen[r->id] = true;
            if (c->inside[r->id]) vec_push(c->g->arena, &found, r);        // of another's trip, perhaps: found through it
        }
    uint32_t results = found.n;
    for (uint32_t i = n->id; i-- > 0;) {
        Node *e = c->g->nodes.at[i];
        if (!seen[i]) continue;
        if (!c->inside[i]) { vec_push(c->g->arena, &found, e); continue; }
        foreign |= e->kind == G_param && !has_param(n, e);
        for (uint32_t k = 0; k < e->nsrc; k++) seen[e->src[k]->id] = true;
        for (Node **at = c->captured[i]; at && *at; at++) seen[(*at)->id] = true;
    }
    vec_push(c->g->arena, &found, NULL);
    c->captured[n->id] = found.at + (foreign ? 0 : results);
    return foreign;
}

typedef void ReadFn(Cut *c, void *ctx, Node *n);

static void each_read(Cut *c, const Node *n, ReadFn *fn, void *ctx) {
    for (uint32_t k = 0; k < n->nsrc; k++) fn(c, ctx, n->src[k]);
    for (Node **at = c->captured[n->id]; at && *at; at++)
        if (!c->inside[(*at)->id]) fn(c, ctx, *at);
}

// ---- when ------------------------------------------------------------------------------------------------------------

static bool light(const Cut *c, const Node *n) {
    if (n->kind == G_view || n->kind == G_index) return true;
    if (n->kind == G_contract || n->kind == G_if || c->moves_alone) return false;
    Ix count = g_count(c->g, n);
    return !elem_is_float((Elem)n->elem) || (count && count->kind == IX_CONST && count->value <= FEW_ELEMENTS);
}

typedef struct When { const Node *of; bool native; } When;

static void after_value(Cut *c, void *ctx, Node *s) {
    When *w = ctx;
    uint32_t id = w->of->id;
    c->live[id] |= c->live[s->id];
    w->native &= c->native[s->id];
    if (c->turn[s->id] > c->turn[id]) c->turn[id] = c->turn[s->id];
    if (c->program[s->id] > c->program[id]) c->program[id] = c->program[s->id];
}

static void after_size(Cut *c, void *ctx, Ix dim) {
    When *w = ctx;
    uint32_t id = w->of->id;
    const Node *m = c->maker[dim->value];
    if (!m || m->id >= id) return;
    c->live[id] = true;
    if (c->turn[m->id] > c->turn[id]) c->turn[id] = c->turn[m->id];
    if (c->turn[m->id] + 1 > c->program[id]) c->program[id] = c->turn[m->id] + 1;
}

static void place(Cut *c, Node *n) {
    uint32_t id = n->id;
    When w = {n, true};
    bool result = n->kind == G_proj && c->own[n->src[0]->id];
    c->inside[id] = n->kind == G_param;
    for (uint32_t k = 0; k < n->nsrc; k++) c->inside[id] |= c->inside[n->src[k]->id];
    if (bodies(n)) c->inside[id] |= capture(c, n);
    if (c->inside[id]) return;
    c->own[id] = result || !has_form(n);
    c->live[id] = n->kind == G_input;
    c->program[id] = 1;
    each_read(c, n, after_value, &w);
    each_dim(c, n, after_size, &w);
    if (c->own[id]) c->live[id] = c->native[id] = true, c->program[id] = c->turn[id] + 1;
    else if (!c->live[id] || n->kind == G_input || (w.native && light(c, n))) c->native[id] = true;
    else c->turn[id] = c->program[id];
}

static void find_makers(Cut *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        int count;
        const GType *t = g_results(c->g->nodes.at[i], &count);
        for (int k = 0; k < count; k++)
            for (int d = 0; d < t[k].rank; d++)
                if (t[k].shape[d]->kind == IX_DIM && by_data(c->g, t[k].shape[d]) && !c->maker[t[k].shape[d]->value])
                    c->maker[t[k].shape[d]->value] = c->g->nodes.at[i];
    }
}

// ---- what is wanted, from the end on -----------------------------------------------------------------------------------

static void want_on_host(Cut *c, void *ctx, Node *n) { (void)ctx; c->host[n->id] = true; }
static void want_maker(Cut *c, void *ctx, Ix dim) {
    (void)ctx;
    if (c->maker[dim->value]) c->host[c->maker[dim->value]->id] = true;
}

static void ask_turn(Cut *c, int turn) {
    for (uint32_t i = c->n; i-- > 0;) {
        Node *n = c->g->nodes.at[i];
        if (!c->host[i] || c->turn[i] != turn || c->inside[i]) continue;
        if (c->native[i]) {
            each_read(c, n, want_on_host, NULL);
            each_dim(c, n, want_maker, NULL);
        } else {
            c->in[c->program[i]][i] = c->out[c->program[i]][i] = true;
        }
    }
}

// Does program p compute n, which it has?
static bool computes(const Cut *c, int p, const Node *n) {
    if (n->kind == G_input || c->own[n->id]) return false;
    return !c->live[n->id] || n->kind == G_view || n->kind == G_index || c->program[n->id] == p;
}

typedef struct Sizes { bool *used, *bound; } Sizes;

static void use_size(Cut *c, void *ctx, Ix dim) { (void)c; ((Sizes *)ctx)->used[dim->value] = true; }
static void want_in(Cut *c, void *ctx, Node *n) { (void)c; ((bool *)ctx)[n->id] = true; }

// A value of the size that program p needs, though it reads none: of what found it, or an input of the model.
static void give_size(Cut *c, int p, int dim) {
    const Node *m = c->maker[dim];
    for (uint32_t i = 0; i < c->n; i++) {
        Node *n = c->g->nodes.at[i];
        bool has = false;
        if (m ? n->kind != G_proj || n->src[0] != m : n->kind != G_input) continue;
        for (int d = 0; d < n->rank; d++) has |= n->shape[d]->kind == IX_DIM && n->shape[d]->value == dim;
        if (has) { c->in[p][i] = c->host[i] = true; return; }
    }
}

static void ask_program(Cut *c, int p) {
    int ndims = ix_dim_count(c->g);
    Sizes z = {NEW_N(c->g->arena, bool, ndims + 1), NEW_N(c->g->arena, bool, ndims + 1)};
    for (uint32_t i = c->n; i-- > 0;) {
        Node *n = c->g->nodes.at[i];
        if (!c->in[p][i]) continue;
        each_dim(c, n, use_size, &z);
        if (computes(c, p, n)) {
            each_read(c, n, want_in, c->in[p]);
            continue;
        }
        for (int d = 0; d < n->rank; d++)
            if (n->shape[d]->kind == IX_DIM) z.bound[n->shape[d]->value] = true;
        if (c->own[i]) c->host[i] = true;
        else if (n->kind != G_input) c->in[c->program[i]][i] = c->out[c->program[i]][i] = true;
    }
    for (int d = 0; d < ndims; d++)
        if (z.used[d] && !z.bound[d]) give_size(c, p, d);
}

// ---- as a list ---------------------------------------------------------------------------------------------------------

typedef VEC(int) Ints;

static int value_of(Cut *c, int *number, const Node *n, int program) {
    if (number[n->id]) return number[n->id] - 1;
    const char *name = n->name;
    for (uint32_t i = 0; i < c->g->outputs.n; i++)
        if (c->g->outputs.at[i].node == n) name = c->g->outputs.at[i].name;
    const char *word = n->kind == G_proj && n->from ? strchr(n->from, ' ') : NULL;      // its node's name, of the model
    if (!name && word && word[1] != '(') name = word + 1;
    if (!name) name = arena_printf(c->g->arena, "part_%u", c->values.n + 1);
    vec_push(c->g->arena, &c->values, ((GBetween){n->id, name, program, (Elem)n->elem, n->rank}));
    number[n->id] = (int)c->values.n;
    return (int)c->values.n - 1;
}

static int input_number(const Graph *g, const Node *n) {
    for (uint32_t i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i].node == n) return (int)i;
    return -1;
}

typedef struct TurnReads { bool *seen; int turn; } TurnReads;

static void see_value(Cut *c, void *ctx, Node *n) { (void)c; ((TurnReads *)ctx)->seen[n->id] = true; }
static void see_maker(Cut *c, void *ctx, Ix dim) {
    const Node *m = c->maker[dim->value];
    TurnReads *t = ctx;
    if (m && c->turn[m->id] == t->turn) t->seen[m->id] = true;
}

// Does a turn have n from before: from a program, or an earlier turn?
static bool is_there(const Cut *c, const Node *n, int turn) { return !c->native[n->id] || (c->own[n->id] && c->turn[n->id] < turn); }

static void see_all(Cut *c, TurnReads *t) {
    for (uint32_t i = c->n; i-- > 0;) {
        Node *n = c->g->nodes.at[i];
        if (!t->seen[i] || is_there(c, n, t->turn)) continue;
        each_read(c, n, see_value, t);
        each_dim(c, n, see_maker, t);
    }
}

static const int *kept_ints(Graph *g, const Ints *v, int *n) {
    int *at = NEW_N(g->arena, int, v->n + 1);
    if (v->n) memcpy(at, v->at, sizeof *at * v->n);
    *n = (int)v->n;
    return at;
}

// What a turn runs, for people: operators and the nodes' names, a few of them.
static const char *turn_text(Cut *c, const bool *seen, int turn) {
    enum { MOST = 6 };
    Buf b = {0};
    int n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const Node *e = c->g->nodes.at[i];
        if (!seen[i] || !c->own[i] || c->turn[i] != turn || e->kind == G_proj || !e->from) continue;
        if (n++ < MOST) buf_printf(&b, "%s%s", b.n ? ", " : "", e->from);
    }
    if (n > MOST) buf_printf(&b, ", and %d more", n - MOST);
    const char *text = n ? arena_printf(c->g->arena, "%s", b.p) : NULL;
    buf_free(&b);
    return text;
}

static void list_turn(Cut *c, int turn, int *number) {
    Graph *g = c->g;
    GStage *at = &c->s->stage[turn];
    TurnReads t = {NEW_N(g->arena, bool, c->n), turn};
    Ints makes = {0}, reads = {0}, inputs = {0};
    for (uint32_t i = 0; i < c->n; i++) {
        Node *n = g->nodes.at[i];
        bool result = false;
        for (uint32_t k = 0; k < g->outputs.n; k++) result |= g->outputs.at[k].node == n;
        if (!c->host[i] || c->turn[i] != turn || c->inside[i] || !c->native[i]) continue;
        if (!(c->own[i] && !g_results(n, &(int){0}) && n->kind != G_sort) && !result) continue;
        t.seen[i] = true;
        vec_push(g->arena, &makes, value_of(c, number, n, 0));
    }
    see_all(c, &t);
    for (uint32_t i = 0; i < c->n; i++) {
        Node *n = g->nodes.at[i];
        if (!t.seen[i] || g_results(n, &(int){0})) continue;
        if (n->kind == G_input) vec_push(g->arena, &inputs, input_number(g, n));
        else if (is_there(c, n, turn)) vec_push(g->arena, &reads, value_of(c, number, n, c->native[i] ? 0 : c->program[i]));
    }
    at->from = turn_text(c, t.seen, turn);
    at->makes = kept_ints(g, &makes, &at->nmakes);
    at->reads = kept_ints(g, &reads, &at->nreads);
    at->inputs = kept_ints(g, &inputs, &at->ninputs);
}

static void list_program(Cut *c, int p, int *number) {
    Graph *g = c->g;
    GStage *at = &c->s->stage[p];
    Ints in = {0}, out = {0};
    bool *made = NEW_N(g->arena, bool, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        Node *n = g->nodes.at[i];
        made[i] = c->in[p][i] && computes(c, p, n);
        if (!c->in[p][i] || made[i]) continue;
        if (n->kind == G_input) vec_push(g->arena, &in, -1 - input_number(g, n));
        else vec_push(g->arena, &in, value_of(c, number, n, c->own[i] ? 0 : c->program[i]));
    }
    for (uint32_t i = 0; i < c->n; i++)
        if (c->out[p][i]) vec_push(g->arena, &out, value_of(c, number, g->nodes.at[i], p));
    at->computed = made;
    at->in = kept_ints(g, &in, &at->nin);
    at->out = kept_ints(g, &out, &at->nout);
}

static const char *first_own(const Cut *c) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->host[i] && c->own[i] && c->g->nodes.at[i]->from) return c->g->nodes.at[i]->from;
    return "an operation on whole tensors";
}

// False: there is nothing for the interpreter to do, or an input can settle what that is.
static bool divide(Cut *c) {
    Graph *g = c->g;
    Arena *a = g->arena;
    uint32_t n = c->n;
    int last = 0;
    bool own = false;
    c->inside = NEW_N(a, bool, n), c->own = NEW_N(a, bool, n), c->live = NEW_N(a, bool, n), c->native = NEW_N(a, bool, n), c->host = NEW_N(a, bool, n);
    c->turn = NEW_N(a, int, n), c->program = NEW_N(a, int, n), c->captured = NEW_N(a, Node **, n);
    for (uint32_t i = 0; i < n; i++) {
        place(c, g->nodes.at[i]);
        last = c->program[i] > last ? c->program[i] : last;
    }
    if (last > MOST_STAGES) return false;
    c->in = NEW_N(a, bool *, last + 1), c->out = NEW_N(a, bool *, last + 1);
    for (int p = 0; p <= last; p++) c->in[p] = NEW_N(a, bool, n), c->out[p] = NEW_N(a, bool, n);
    for (uint32_t i = 0; i < g->outputs.n; i++) c->host[g->outputs.at[i].node->id] = true;
    for (int t = last; t >= 0; t--) {
        ask_turn(c, t);
        if (t > 0) ask_program(c, t);
    }
    for (uint32_t i = 0; i < n; i++) {
        bool runs = c->host[i] && c->own[i];
        own |= runs;
        c->settled |= runs && graph_settled_by(g, g->nodes.at[i]) != NULL;
        for (int p = 1; p <= last; p++)
            if (c->out[p][i] && p > c->programs) c->programs = p;
    }
    return own && !c->settled;
}

static void list(Cut *c) {
    Graph *g = c->g;
    GStages *s = NEW(g->arena, GStages);
    int *number = NEW_N(g->arena, int, c->n), *result = NEW_N(g->arena, int, g->outputs.n + 1);
    c->s = s;
    s->nstages = c->programs;
    s->stage = NEW_N(g->arena, GStage, c->programs + 1);
    s->stage[0].graph = g;
    for (int t = 0; t <= c->programs; t++) {
        if (t > 0) list_program(c, t, number);
        list_turn(c, t, number);
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) result[i] = number[g->outputs.at[i].node->id] - 1;
    s->result = result;
    s->value = c->values.at;
    s->nvalues = (int)c->values.n;
    s->from = first_own(c);
    g->stages = s;
}

bool graph_cut(Graph *g) {
    bool any = false;
    Cut c = {.g = g, .n = g->nodes.n, .maker = NEW_N(g->arena, Node *, ix_dim_count(g) + 1)}, by_kernels = c;
    for (uint32_t i = 0; i < c.n && !any; i++) any = !has_form(g->nodes.at[i]);
    if (!any) return false;
    find_makers(&c);
    by_kernels.moves_alone = true;                           // of a model of few elements, kernels compute what they can
    bool divides = divide(&c);
    Cut *as = !c.programs && divide(&by_kernels) && by_kernels.programs ? &by_kernels : divides ? &c : NULL;
    if (as) list(as);
    return as != NULL;
}

// A model in 16-bit floats (--dtype): which values are rounded.
//
// Two kinds of values take the smaller type, since only these cost time: operands of products, and what is kept in memory
// between kernels. Everything else is computed in f32, in registers: sums of products and what follows them, norms,
// softmax, activations. So the residual stream is of 16 bits, as in PyTorch's model.to(bfloat16), and within a kernel
// nothing is rounded, where PyTorch rounds after each operation.
//
//     x  f32[B, S, 768] ----+------------------------------> add --> cast bf16, kept --> ..
//                           |                                ^
//                 norm --> cast bf16 --> contract, sums in f32
//                                          ^
//                   weight --> cast bf16 --+                        (when it is loaded)
//
// What is not rounded, because it may need its bits, or has few elements:
//
//   - what no weight, float input or product has gone into: positions, rotary angles and their tables, masks; and products
//     of such values (angles written as a product of frequencies and positions);
//   - statistics: results of reductions, and what is computed of those alone;
//   - vectors that are added or multiplied element by element: biases, norms' scales;
//   - inputs and outputs of the model, unless asked for; what goes from step to step of a loop, what it is given and what it gives.
//
// Casts of weights move down to the weights, through whatever moves them, and are made when those are loaded. Which
// values are kept in memory, fusion knows: it is asked (fuse.h), what it would keep gets a cast that says `kept`, and as
// a rounded value may change that answer, fusion is asked again, up to ROUNDS times. Last, split_norms.c
// computes norms between two products as parts of both.

#include "graph/rewrite/narrow.h"

#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

typedef struct Narrow {
    Rewrite r;
    Graph  *g;
    Elem    to;
    bool    io;
    bool   *activation;          // by node id: a weight, a float input or a product has gone into it
    bool   *statistic;           // by node id: an activation made of results of reductions alone
    const bool *keep;            // by node id: fusion keeps it in memory
    bool   *is_output;
} Narrow;

enum { WEIGHT_ELEMENTS = 4096, ROUNDS = 4 };

static bool wide(const Node *n) { return n->elem == EL_f32; }

static bool is_weight(const Narrow *w, const Node *n) {
    Ix count = w->r.constant[n->id] && elem_is_float((Elem)n->elem) ? g_count(w->g, n) : NULL;
    return count && count->kind == IX_CONST && count->value >= WEIGHT_ELEMENTS;
}

// ---- which values are activations --------------------------------------------------------------------------------------

static void classify(Narrow *w, const Node *n) {
    bool any = false, weight = false, all = true;
    for (uint32_t i = 0; i < n->nsrc; i++) {
        const Node *s = n->src[i];
        if (!elem_is_float((Elem)s->elem)) continue;
        any |= w->activation[s->id];
        weight |= is_weight(w, s);
        if (w->activation[s->id]) all &= w->statistic[s->id];
    }
    bool table = n->kind == G_gather && weight, product = n->kind == G_contract && weight;
    bool moves = n->kind == G_input || n->kind == G_host || n->kind == G_steps || any || table || product;
    w->activation[n->id] = elem_is_float((Elem)n->elem) && !w->r.constant[n->id] && moves;
    w->statistic[n->id] = w->activation[n->id] && (n->kind == G_reduce || (any && all && n->kind != G_contract && n->kind != G_steps));
}

static bool begin(Narrow *w, Graph *g, Elem to, bool io) {
    *w = (Narrow){.g = g, .to = to, .io = io};
    if (!rewrite_begin(&w->r, g))
        return g_error(g, "a model with loops or branches that stay cannot be converted to %s", elem_name(to)) != NULL;
    w->activation = NEW_N(g->arena, bool, w->r.n);
    w->statistic = NEW_N(g->arena, bool, w->r.n);
    w->is_output = NEW_N(g->arena, bool, w->r.n);
    for (uint32_t i = 0; i < w->r.n; i++)
        if (w->r.alive[i]) classify(w, g->nodes.at[i]);
    for (uint32_t i = 0; i < g->outputs.n; i++) w->is_output[g->outputs.at[i].node->id] = true;
    for (uint32_t i = 0; i < w->r.n; i++) {                  // what steps are given is as an input is
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; n->kind == G_steps && w->r.alive[i] && k < n->nsrc; k++) w->is_output[n->src[k]->id] = true;
    }
    return true;
}

// ---- values in the smaller type ----------------------------------------------------------------------------------------

static bool is_widened(const Narrow *w, const Node *n) { return n->kind == G_cast && n->src[0]->elem == w->to && wide(n); }

// A value in another order, as a product wants to read it (axis_order.c, unfold.c): it is rounded where it is stored.
static bool is_laid_out(const Node *x) { return x->kind == G_cast && x->cast.kept && x->elem == x->src[0]->elem; }

// Nothing but movement of weights and of values that were narrow.
static bool only_moved(const Narrow *w, const Node *x) {
    uint32_t values = x->kind == G_concat ? x->nsrc : 1;
    if (x->kind == G_const || is_widened(w, x) || is_laid_out(x)) return true;
    bool moved = x->kind == G_view || x->kind == G_gather || x->kind == G_concat;
    for (uint32_t i = 0; i < values && moved; i++) moved = only_moved(w, x->src[i]);
    return moved;
}

// Does a view read elements more than once, as far as sizes tell?
static bool repeats(Graph *g, const Node *x) {
    if (x->kind != G_view) return false;
    Ix from = g_count(g, x->src[0]), to = g_count(g, x);
    return from && to && from != to && ix_prove_le(g, from, to);         // sizes may be 0
}

// Does a view turn rows of which copies come 16 bytes at a time into others of which they do not? What is kept lies as it was then, and a product reads
// it across: tokens of 512 channels mixed by 196 (MLP-Mixer).
static bool turns_odd(Graph *g, const Node *x) {
    enum { UNIT = 8 };
    if (x->kind != G_view || !ix_is(x->view.pred, 1) || x->rank < 2 || x->src[0]->rank < 2) return false;
    Ix rows = x->shape[x->rank - 1], before = x->src[0]->shape[x->src[0]->rank - 1], count = g_count(g, x);
    return count && count == g_count(g, x->src[0]) && rows->kind == IX_CONST && before->kind == IX_CONST && rows->value % UNIT && before->value % UNIT == 0;
}

// x in the smaller type. The cast moves down to weights, and below what repeats elements.
static Node *narrowed(Narrow *w, Node *x) {
    Graph *g = w->g;
    if (x->elem == w->to) return x;
    if (is_widened(w, x)) return x->src[0];
    if (!only_moved(w, x) && !repeats(g, x) && !turns_odd(g, x)) return g_cast(g, x, w->to);
    if (is_laid_out(x)) {
        Node proto = *x, *src = only_moved(w, x->src[0]) ? narrowed(w, x->src[0]) : x->src[0];
        proto.src = &src;
        proto.elem = (uint8_t)w->to;
        return g_name(g, node_intern(g, &proto), x->name);
    }
    if (x->kind == G_view)
        return g_name(g,
                      g_view(g, narrowed(w, x->src[0]), x->rank, x->shape, x->view.coord, x->view.pred, x->view.fill),
                      x->name);
    if (x->kind == G_gather || x->kind == G_concat) {
        Node proto = *x, **src = NEW_N(g->arena, Node *, x->nsrc);
        for (uint32_t i = 0; i < x->nsrc; i++) src[i] = i == 0 || x->kind == G_concat ? narrowed(w, x->src[i]) : x->src[i];
        proto.src = src;
        proto.elem = (uint8_t)w->to;
        return g_name(g, node_intern(g, &proto), x->name);
    }
    return g_cast(g, x, w->to);
}

static Node *widened(Narrow *w, Node *x) { return g_cast(w->g, x, EL_f32); }

static bool takes_part(const Node *n) { return n->elem == EL_f32 || n->elem == EL_f16 || n->elem == EL_bf16; }

static Node *product(Narrow *w, const Node *n, Node *const *src) {
    Node proto = *n, *operand[2] = {narrowed(w, src[0]), narrowed(w, src[1])};
    proto.src = operand;
    proto.elem = proto.contract.acc = EL_f32;
    return g_cast(w->g, g_name(w->g, node_intern(w->g, &proto), n->name), (Elem)n->elem);
}

// Movement of values that were narrow moves them as they are; a scatter rounds what it puts among such.
static bool moves_narrow(const Narrow *w, const Node *n, Node *const *src) {
    uint32_t values = n->kind == G_concat ? n->nsrc : 1;
    bool moves = n->kind == G_view || n->kind == G_gather || n->kind == G_concat ||
                 (n->kind == G_scatter && n->op == GR_none);
    for (uint32_t i = 0; i < values && moves; i++) moves = is_widened(w, src[i]);
    return moves;
}

static Node *moved(Narrow *w, const Node *n, Node *const *src) {
    Node proto = *n, **with = NEW_N(w->g->arena, Node *, n->nsrc);
    if (n->kind == G_view)
        return widened(w,
                       g_view(w->g, narrowed(w, src[0]), n->rank, n->shape, n->view.coord, n->view.pred, n->view.fill));
    for (uint32_t i = 0; i < n->nsrc; i++) {
        bool value = i == 0 || n->kind == G_concat || (n->kind == G_scatter && i == 1);
        with[i] = value ? narrowed(w, src[i]) : src[i];
    }
    proto.src = with;
    proto.elem = (uint8_t)w->to;
    return widened(w, g_name(w->g, node_intern(w->g, &proto), n->name));
}

static Node *replaced(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Narrow *w = pass;
    bool tables = n->kind == G_gather && is_weight(w, n->src[0]) && wide(n) && w->activation[n->id];
    (void)r;
    if (n->kind == G_contract && w->activation[n->id] && takes_part(n->src[0]) && takes_part(n->src[1]))
        return product(w, n, src);
    if (n->kind == G_cast && n->elem == w->to && is_widened(w, src[0])) return src[0]->src[0];
    if (wide(n) && (tables || moves_narrow(w, n, src))) return moved(w, n, src);
    return NULL;
}

static Node *kept(Narrow *w, Node *n) {
    Node proto = {.kind = G_cast,
                  .elem = (uint8_t)w->to,
                  .rank = n->rank,
                  .shape = n->shape,
                  .nsrc = 1,
                  .src = &n,
                  .cast = {.kept = true}};
    return g_name(w->g, node_intern(w->g, &proto), n->name);
}

static Node *replaced_and_kept(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Narrow *w = pass;
    Node *with = replaced(r, pass, n, src);
    if (!w->keep[n->id]) return with;
    if (!with) with = rewrite_node(w->g, n, src);
    return is_widened(w, with) && with->src[0]->kind == G_cast && with->src[0]->cast.kept ? with : widened(w, kept(w, with));
}

// ---- inputs and outputs ------------------------------------------------------------------------------------------------

static Node *with_input(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Narrow *w = pass;
    if (n->kind != G_input || !wide(n)) return replaced(r, pass, n, src);
    for (uint32_t i = 0; i < w->g->inputs.n; i++)
        if (w->g->inputs.at[i].node == n) {
            Node *x = g_input(w->g, w->g->inputs.at[i].name, w->to, n->rank, n->shape);
            w->g->inputs.at[i] = w->g->inputs.at[--w->g->inputs.n];      // in its place
            return widened(w, x);
        }
    return NULL;
}

static void narrow_outputs(Narrow *w) {
    for (uint32_t i = 0; i < w->g->outputs.n; i++) {
        GNamed *o = &w->g->outputs.at[i];
        if (!wide(o->node)) continue;
        Node *y = o->node;                                   // another order of a value stays that
        bool order = y->kind == G_view && ix_is(y->view.pred, 1) && wide(y->src[0]);
        o->node = order ? g_view(w->g, narrowed(w, y->src[0]), y->rank, y->shape, y->view.coord, NULL, g_int(0)) : narrowed(w, y);
    }
}

// ---- what is kept ------------------------------------------------------------------------------------------------------

static bool worth_keeping(const Narrow *w, const Node *n) {
    bool makes = n->kind == G_ew || n->kind == G_cast || n->kind == G_concat || n->kind == G_contract ||
                 n->kind == G_view || n->kind == G_gather;
    return makes && wide(n) && w->activation[n->id] && !w->statistic[n->id] && !w->is_output[n->id];
}

// Asks fusion what it would keep. False: nothing more, or the graph has no form as kernels (that is for writers to say).
static bool find_kept(Narrow *w, Graph *g, Elem to, bool io) {
    const char *said = g->tables->error;
    const Fusion *f = graph_fuse(g);
    g->tables->error = said;
    if (!f || !begin(w, g, to, io)) return false;
    bool *keep = NEW_N(g->arena, bool, w->r.n), any = false;
    for (uint32_t i = 0; i < w->r.n; i++) {
        const Node *n = g->nodes.at[i];
        const Node *of = f->part[i].of;                      // what is put together in its place is as its parts are; a result as it is wanted
        if (!w->r.alive[i] || !f->stored[i] || f->begun[i] >= 0 || (of && w->is_output[of->id]) || !worth_keeping(w, n)) continue;
        keep[i] = any = true;
    }
    w->keep = keep;
    return any;
}

// Bodies of steps, whose inputs and outputs keep their types.
static bool narrow_bodies(Graph *g, Elem to) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Graph *body = g->nodes.at[i]->kind == G_steps ? g->nodes.at[i]->steps.body : NULL;
        if (body && !body->tables->narrow && !graph_narrow(body, to, false)) return g_error(g, "%s", g_failed(body)) != NULL;
    }
    return true;
}

static void narrow(Graph *g, Elem to, bool io) {
    Narrow w;
    if (!begin(&w, g, to, io)) return;
    rewrite_all(&w.r, io ? with_input : replaced, &w);
    if (io && !g_failed(g)) narrow_outputs(&w);
    int rounds = g->tables->unoptimised ? 0 : ROUNDS;                  // there every value is in memory: in f32, so that none is rounded more often
    for (int round = 0; round < rounds && !g_failed(g) && find_kept(&w, g, to, io); round++)
        rewrite_all(&w.r, replaced_and_kept, &w);
}

bool graph_narrow(Graph *g, Elem to, bool io) {
    g->tables->narrow = true;
    g->tables->narrow_to = (uint8_t)to;
    if (!narrow_bodies(g, to)) return false;
    graph_simplify(g);
    if (g_failed(g) || graph_passes_ended(g)) return !g_failed(g);
    double started = graph_pass_started();
    narrow(g, to, io);
    graph_pass_ended(g, "narrow", started, NULL);
    if (g_failed(g) || graph_passes_ended(g) || g->tables->unoptimised) return !g_failed(g);
    started = graph_pass_started();
    split_norms(g);
    graph_pass_ended(g, "split_norms", started, NULL);
    return !g_failed(g);
}

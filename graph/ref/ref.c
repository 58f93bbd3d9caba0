// The interpreter: what is computed, in which order, and when its memory goes back.
//
// A plan is the list of nodes that some results need, sources first. A value is given back when the last node of the plan
// that uses it has run. What a loop's or an if's body uses from outside ("captures") belongs to the plan around it; what
// depends on the body's parameters is the body's own plan, run once for each trip.
//
// Dimensions are numbers before anything runs: those of inputs from the tensors given, data-dependent ones when the
// operation that makes them has run. What the model was assumed to satisfy (requires) is checked as soon as it is known.

#include "graph/ref/internal.h"
#include "lang/c_text.h"

#include "graph/internal.h"

#include <stdlib.h>
#include <string.h>

bool run_fail(Run *r, const char *fmt, ...) {
    if (r->failed) return false;
    r->failed = true;
    char words[512];
    va_list args;
    va_start(args, fmt);
    c_vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    if (r->error) snprintf(r->error, r->error_size, "%s%s%s", r->from ? r->from : "", r->from ? ": " : "", words);
    return false;
}

// ---- values ---------------------------------------------------------------------------------------------------------

int64_t rval_count(const RVal *v) {
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++) n *= v->shape[i];
    return n;
}

static void pack_strides(RVal *v) {
    int64_t step = elem_bytes(v->elem);
    for (int i = v->rank; i-- > 0; step *= v->shape[i]) v->stride[i] = step;
}

bool rval_new(Run *r, RVal *v, Elem elem, int rank, const int64_t *shape) {
    GTensor t = {.elem = elem, .rank = rank};
    memset(v, 0, sizeof *v);
    for (int i = 0; i < rank; i++) t.shape[i] = v->shape[i] = shape[i];
    if (!g_tensor_alloc(&t)) return run_fail(r, "a value is too large for this machine's memory");
    v->elem = elem;
    v->rank = rank;
    v->buf = heap_alloc(sizeof *v->buf);
    *v->buf = (RBuf){1, true, t.data, t.bytes};
    v->at = t.data;
    pack_strides(v);
    return true;
}

RVal rval_share(const RVal *v) {
    v->buf->refs++;
    return *v;
}

void rval_drop(RVal *v) {
    if (v->buf && --v->buf->refs == 0) {
        if (v->buf->own) heap_free(v->buf->data);
        heap_free(v->buf);
    }
    v->buf = NULL;
}

static bool is_packed(const RVal *v) {
    int64_t step = elem_bytes(v->elem);
    for (int i = v->rank; i-- > 0; step *= v->shape[i])
        if (v->shape[i] != 1 && v->stride[i] != step) return false;
    return true;
}

bool rval_packed(Run *r, const RVal *v, RVal *to) {
    if (is_packed(v)) {
        *to = rval_share(v);
        pack_strides(to);
        return true;
    }
    if (!rval_new(r, to, v->elem, v->rank, v->shape)) return false;
    rval_copy(v, to);
    return true;
}

static void rval_foreign(RVal *v, Elem elem, int rank, const int64_t *shape, const void *data, size_t bytes) {
    memset(v, 0, sizeof *v);
    v->elem = elem;
    v->rank = rank;
    for (int i = 0; i < rank; i++) v->shape[i] = shape[i];
    v->buf = heap_alloc(sizeof *v->buf);
    *v->buf = (RBuf){1, false, (void *)data, bytes};
    v->at = (char *)data;
    pack_strides(v);
}

static GTensor as_tensor(const RVal *packed) {
    GTensor t = {.elem = packed->elem, .rank = packed->rank, .data = packed->at};
    t.bytes = (size_t)rval_count(packed) * (size_t)elem_bytes(packed->elem);
    memcpy(t.shape, packed->shape, sizeof t.shape);
    return t;
}

// ---- dimensions -----------------------------------------------------------------------------------------------------

static bool all_bound(const Run *r, Ix e) { return ix_dims_in(e, r->bound); }

bool run_sizes(Run *r, int rank, const Ix *shape, int64_t *to) {
    for (int i = 0; i < rank; i++) {
        if (!all_bound(r, shape[i])) return run_fail(r, "a size of the result is not known");
        to[i] = ix_eval(shape[i], r->dims, NULL);
        if (to[i] < 0) return run_fail(r, "a size of the result is negative: %lld", (long long)to[i]);
    }
    return true;
}

static char *size_words(Run *r, Ix e) {
    Buf b = {0};
    ix_print(&b, r->g, e, NULL);
    char *s = arena_printf(r->arena, "%s", b.p);
    buf_free(&b);
    return s;
}

static bool check_requires(Run *r) {
    const char *from = r->from;
    for (uint32_t i = 0; i < r->g->requires.n; i++) {
        GRequire q = r->g->requires.at[i];
        if (r->required[i] || !all_bound(r, q.a) || !all_bound(r, q.b)) continue;
        r->required[i] = true;
        int64_t a = ix_eval(q.a, r->dims, NULL), b = ix_eval(q.b, r->dims, NULL);
        if (a == b) continue;
        r->from = q.from;
        return run_fail(r, "sizes should be equal: %s is %lld, %s is %lld", size_words(r, q.a), (long long)a,
                        size_words(r, q.b), (long long)b);
    }
    r->from = from;
    return true;
}

static bool bind_dim(Run *r, Ix dim, int64_t v) {
    const IxDim *d = ix_dim_info(r->g, dim);
    if (v < d->lo || v > d->hi || v % d->multiple) {
        return run_fail(r, "%s = %lld, which should be %lld .. %lld%s", d->name, (long long)v, (long long)d->lo,
                        (long long)d->hi, d->multiple > 1 ? " and a multiple of what the model says" : "");
    }
    r->dims[dim->value] = v;
    r->bound[dim->value] = true;
    return true;
}

// e == v where one dimension is not known and e is linear in it.
static bool solve(Run *r, Ix e, int64_t v) {
    if (e->kind == IX_DIM) return bind_dim(r, e, v);
    if (e->kind != IX_SUM) return true;
    int64_t rest = e->value, coef = 0;
    Ix unknown = NULL;
    for (uint32_t i = 0; i < e->n; i++) {
        if (all_bound(r, e->arg[i])) {
            rest += e->coef[i] * ix_eval(e->arg[i], r->dims, NULL);
        } else {
            if (unknown || e->arg[i]->kind != IX_DIM) return true;
            unknown = e->arg[i];
            coef = e->coef[i];
        }
    }
    if (!unknown || (v - rest) % coef) return true;
    return bind_dim(r, unknown, (v - rest) / coef);
}

bool run_bind(Run *r, const GType *want, const int64_t *have) {
    for (int i = 0; i < want->rank; i++)
        if (!all_bound(r, want->shape[i]) && !solve(r, want->shape[i], have[i])) return false;
    return true;
}

static bool check_shape(Run *r, const char *name, const GType *want, const int64_t *have) {
    for (int i = 0; i < want->rank; i++) {
        if (!all_bound(r, want->shape[i]))
            return run_fail(r, "axis %d of `%s`: the size %s is not known", i, name, size_words(r, want->shape[i]));
        int64_t v = ix_eval(want->shape[i], r->dims, NULL);
        if (v != have[i])
            return run_fail(r, "axis %d of `%s` has the size %lld; it should be %s = %lld", i, name, (long long)have[i],
                            size_words(r, want->shape[i]), (long long)v);
    }
    return true;
}

// A dimension that this input says.
static bool bind_said(Run *r, const Node *n, const GTensor *t) {
    for (int i = 0; i < ix_dim_count(r->g); i++)
        if (ix_dim_info(r->g, ix_dim_at(r->g, i))->value == n &&
            !bind_dim(r, ix_dim_at(r->g, i), g_num_load(t->data, t->elem).i))
            return false;
    return true;
}

static bool bind_inputs(Run *r) {
    const Graph *g = r->g;
    for (int round = 0; round < 2 && r->in; round++)         // those that are names first, then what follows from them
        for (uint32_t i = 0; i < g->inputs.n; i++) {
            const Node *n = g->inputs.at[i].node;
            const GTensor *t = &r->in[i];
            if (!t->data) continue;
            if (t->rank != n->rank)
                return run_fail(r, "`%s` has %d dimensions; it should have %d", n->name, t->rank, n->rank);
            if (t->elem != (Elem)n->elem)
                return run_fail(r, "`%s` has the type %s; it should have %s", n->name, elem_name(t->elem),
                                elem_name((Elem)n->elem));
            GType want = {(Elem)n->elem, n->rank, n->shape};
            for (int k = 0; k < n->rank; k++)
                if ((round == 1 || n->shape[k]->kind == IX_DIM) && !all_bound(r, n->shape[k]) &&
                    !solve(r, n->shape[k], t->shape[k]))
                    return false;
            if (round == 1 && !check_shape(r, n->name, &want, t->shape)) return false;
            if (round == 0 && n->rank == 0 && !bind_said(r, n, t)) return false;
        }
    return check_requires(r);
}

// ---- plans ----------------------------------------------------------------------------------------------------------

static int bodies(const Node *n) { return n->kind == G_loop ? 1 : n->kind == G_if ? 2 : 0; }

static RPlan *plan_body(Run *r, const GBody *body);

static RPlan **plans_of(Run *r, const Node *n) {
    if (!r->plan[n->id]) {
        r->plan[n->id] = NEW_N(r->arena, RPlan *, 2);
        for (int b = 0; b < bodies(n); b++) r->plan[n->id][b] = plan_body(r, &n->sub.body[b]);
    }
    return r->plan[n->id];
}

typedef VEC(const Node *) NodeList;

// The nodes that find the data-dependent sizes in e: they must run, too, and before.
static void makers_in(const Run *r, Ix e, NodeList *to) {
    if (!e || !e->has_dim) {
        if (e && e->kind == IX_AXIS) makers_in(r, e->arg[0], to);
        return;
    }
    if (e->kind == IX_DIM && r->maker[e->value]) vec_push(r->arena, to, r->maker[e->value]);
    for (uint32_t i = 0; i < e->n; i++) makers_in(r, e->arg[i], to);
}

static NodeList makers_of(const Run *r, const Node *n) {
    NodeList all = {0};
    for (int k = 0; r->makers && k < n->rank; k++) makers_in(r, n->shape[k], &all);
    if (r->makers && n->kind == G_index) makers_in(r, n->index.expr, &all);
    for (int k = 0; r->makers && n->kind == G_view && k < n->src[0]->rank; k++) makers_in(r, n->view.coord[k], &all);
    return all;
}

static bool has_dim(Ix e, Ix dim) {
    for (uint32_t i = 0; i < e->n && e->has_dim; i++)
        if (has_dim(e->arg[i], dim)) return true;
    return e == dim;
}

// Does n have the size from what it reads, a loop from how often it runs?
static bool is_given(const Node *n, Ix dim) {
    bool given = n->kind == G_steps || (n->kind == G_loop && n->src[0]->kind == G_index && has_dim(n->src[0]->index.expr, dim));
    for (uint32_t k = 0; k < n->nsrc; k++)
        for (int d = 0; d < n->src[k]->rank && !given; d++) given = has_dim(n->src[k]->shape[d], dim);
    return given;
}

static void find_makers(Run *r) {
    for (uint32_t i = 0; i < r->g->nodes.n; i++) {
        int count;
        const GType *t = g_results(r->g->nodes.at[i], &count);
        for (int k = 0; k < count; k++)
            for (int d = 0; d < t[k].rank; d++) {
                Ix e = t[k].shape[d];
                if (e->kind != IX_DIM || !ix_dim_info(r->g, e)->data_dependent || r->bound[e->value] || is_given(r->g->nodes.at[i], e)) continue;
                r->maker[e->value] = r->g->nodes.at[i];
                r->makers = true;
            }
    }
}

// Marks what the marked nodes need, users before sources. What finds a size may stand behind what has it: passes over the graph make it anew.
static void reach(Run *r, bool *needed) {
    find_makers(r);
    for (uint32_t i = r->g->nodes.n; i-- > 0;) {
        const Node *n = r->g->nodes.at[i];
        if (!needed[i] || r->given[i]) continue;
        for (uint32_t k = 0; k < n->nsrc; k++) needed[n->src[k]->id] = true;
        for (int b = 0; b < bodies(n); b++) {
            RPlan *p = plans_of(r, n)[b];
            for (int k = 0; k < p->ncaptures; k++) needed[p->capture[k]->id] = true;
        }
        NodeList makers = makers_of(r, n);
        for (uint32_t k = 0; k < makers.n; k++) {
            uint32_t id = makers.at[k]->id;
            if (!needed[id] && id > i) i = id + 1;
            needed[id] = true;
        }
    }
}

typedef struct Order { const bool *wanted; bool *placed; VEC(Node *) nodes; } Order;

// Behind its sources, and behind what finds its sizes.
static void place(Run *r, Order *o, const Node *n) {
    if (o->placed[n->id] || !o->wanted[n->id]) return;
    o->placed[n->id] = true;
    NodeList makers = r->given[n->id] ? (NodeList){0} : makers_of(r, n);
    for (uint32_t k = 0; k < makers.n; k++) place(r, o, makers.at[k]);
    for (uint32_t k = 0; k < n->nsrc && !r->given[n->id]; k++) place(r, o, n->src[k]);
    for (int b = 0; b < bodies(n) && !r->given[n->id]; b++)
        for (int k = 0; k < plans_of(r, n)[b]->ncaptures; k++) place(r, o, plans_of(r, n)[b]->capture[k]);
    vec_push(r->arena, &o->nodes, r->g->nodes.at[n->id]);
}

static RPlan *plan_make(Run *r, const bool *needed, const bool *inner) {
    RPlan *p = NEW(r->arena, RPlan);
    uint32_t count = r->g->nodes.n;
    bool *wanted = NEW_N(r->arena, bool, count);
    for (uint32_t i = 0; i < count; i++) wanted[i] = needed[i] && (!inner || inner[i]);
    Order o = {.wanted = wanted, .placed = NEW_N(r->arena, bool, count)};
    for (uint32_t i = 0; i < count; i++) place(r, &o, r->g->nodes.at[i]);
    p->node = o.nodes.at;
    p->n = (int)o.nodes.n;
    return p;
}

static RPlan *plan_body(Run *r, const GBody *body) {
    uint32_t count = r->g->nodes.n;
    bool *needed = NEW_N(r->arena, bool, count), *inner = NEW_N(r->arena, bool, count),
         *outside = NEW_N(r->arena, bool, count);
    for (int i = 0; i < body->nresults; i++) needed[body->results[i]->id] = true;
    reach(r, needed);
    for (int i = 0; i < body->nparams; i++) inner[body->params[i]->id] = true;
    for (uint32_t i = 0; i < count; i++) {
        const Node *n = r->g->nodes.at[i];
        if (!needed[i] || inner[i] || r->given[i]) continue;
        for (uint32_t k = 0; k < n->nsrc; k++) inner[i] |= inner[n->src[k]->id];
        for (int b = 0; b < bodies(n); b++)
            for (int k = 0; k < plans_of(r, n)[b]->ncaptures; k++) inner[i] |= inner[plans_of(r, n)[b]->capture[k]->id];
        NodeList makers = makers_of(r, n);                   // a size that a trip finds is of that trip
        for (uint32_t k = 0; k < makers.n; k++) inner[i] |= inner[makers.at[k]->id];
    }
    RPlan *p = plan_make(r, needed, inner);
    for (int i = 0; i < body->nresults; i++)
        if (!inner[body->results[i]->id]) outside[body->results[i]->id] = true;
    for (int i = 0; i < p->n; i++) {
        for (uint32_t k = 0; k < p->node[i]->nsrc; k++)
            if (!inner[p->node[i]->src[k]->id]) outside[p->node[i]->src[k]->id] = true;
        for (int b = 0; b < bodies(p->node[i]); b++)
            for (int k = 0; k < plans_of(r, p->node[i])[b]->ncaptures; k++) {
                uint32_t id = plans_of(r, p->node[i])[b]->capture[k]->id;
                if (!inner[id]) outside[id] = true;
            }
    }
    VEC(Node *) capture = {0};
    for (uint32_t i = 0; i < count; i++)
        if (outside[i]) vec_push(r->arena, &capture, r->g->nodes.at[i]);
    p->capture = capture.at;
    p->ncaptures = (int)capture.n;
    return p;
}

// ---- running --------------------------------------------------------------------------------------------------------

typedef bool KindFn(Run *r, const Node *n, RVal *out);

static bool run_const(Run *r, const Node *n, RVal *out) {
    int64_t shape[G_MAX_RANK];
    if (!run_sizes(r, n->rank, n->shape, shape)) return false;
    if ((uintptr_t)n->c.data % (size_t)elem_bytes((Elem)n->elem) == 0) {
        rval_foreign(out, (Elem)n->elem, n->rank, shape, n->c.data, n->c.bytes);
        return true;
    }
    if (!rval_new(r, out, (Elem)n->elem, n->rank, shape)) return false;
    memcpy(out->at, n->c.data, n->c.bytes);
    return true;
}

static bool run_input(Run *r, const Node *n, RVal *out) {
    for (uint32_t i = 0; i < r->g->inputs.n; i++) {
        if (r->g->inputs.at[i].node != n) continue;
        if (!r->in || !r->in[i].data) break;
        rval_foreign(out, (Elem)n->elem, n->rank, r->in[i].shape, r->in[i].data, r->in[i].bytes);
        return true;
    }
    return run_fail(r, "the input `%s` is not given", n->name);
}

static bool run_param(Run *r, const Node *n, RVal *out) {
    (void)out;
    return run_fail(r, "the parameter `%s` is used outside of its body", n->name);
}

static KindFn *const kinds[G_KIND_COUNT] = {
    [G_input] = run_input, [G_param] = run_param, [G_const] = run_const, [G_index] = ref_index, [G_ew] = ref_ew, [G_cast] = ref_cast,
    [G_view] = ref_view, [G_gather] = ref_gather, [G_scatter] = ref_scatter, [G_reduce] = ref_reduce, [G_scan] = ref_scan,
    [G_sort] = ref_sort, [G_contract] = ref_contract, [G_concat] = ref_concat, [G_host] = ref_several, [G_loop] = ref_several,
    [G_if] = ref_several, [G_steps] = ref_several, [G_proj] = ref_proj,
};

static bool watch(Run *r, const Node *n) {
    RVal packed;
    if (!r->watch || n->kind == G_const || n->kind == G_input) return true;
    if (!rval_packed(r, &r->val[n->id], &packed)) return false;
    GTensor t = as_tensor(&packed);
    bool go_on = r->watch->see(r->watch->ctx, n, &t);
    rval_drop(&packed);
    return go_on || run_fail(r, "stopped");
}

void run_drop(Run *r, const Node *n) {
    rval_drop(&r->val[n->id]);
    if (!r->results[n->id]) return;
    int count;
    g_results(n, &count);
    if (n->kind == G_sort) count = 2;
    for (int i = 0; i < count; i++) rval_drop(&r->results[n->id][i]);
    r->results[n->id] = NULL;
}

static void used(Run *r, const Node *n) {
    if (--r->uses[n->id] == 0) run_drop(r, n);
}

static void count_uses(Run *r, const RPlan *plan, int by) {
    for (int i = 0; i < plan->n; i++) {
        const Node *n = plan->node[i];
        if (r->given[n->id]) continue;
        for (uint32_t k = 0; k < n->nsrc; k++) r->uses[n->src[k]->id] += by;
        for (int b = 0; b < bodies(n); b++)
            for (int k = 0; k < plans_of(r, n)[b]->ncaptures; k++) r->uses[plans_of(r, n)[b]->capture[k]->id] += by;
    }
}

static bool take_given(Run *r, const Node *n) {
    const GTensor *t = r->given[n->id];
    GType want = {(Elem)n->elem, n->rank, n->shape};
    if (t->rank != n->rank || t->elem != want.elem) return run_fail(r, "the value that is given for it is of another type");
    if (!run_bind(r, &want, t->shape) || !check_shape(r, n->name ? n->name : "a value", &want, t->shape)) return false;
    rval_foreign(&r->val[n->id], t->elem, t->rank, t->shape, t->data, t->bytes);
    return true;
}

bool run_plan(Run *r, const RPlan *plan) {
    count_uses(r, plan, 1);
    for (int i = 0; i < plan->n; i++) {
        Node *n = plan->node[i];
        r->from = n->from;
        if (r->given[n->id]) {
            if (!take_given(r, n)) return false;
            continue;
        }
        if (n->kind != G_param && (!kinds[n->kind](r, n, &r->val[n->id]) || !watch(r, n))) return false;
        if (bodies(n) || n->kind == G_host || n->kind == G_steps)
            if (!check_requires(r)) return false;
        for (uint32_t k = 0; k < n->nsrc; k++) used(r, n->src[k]);
        for (int b = 0; b < bodies(n); b++)
            for (int k = 0; k < plans_of(r, n)[b]->ncaptures; k++) used(r, plans_of(r, n)[b]->capture[k]);
    }
    return true;
}

static bool take_output(Run *r, Node *n, GTensor *out) {
    RVal packed;
    if (!rval_packed(r, &r->val[n->id], &packed)) return false;
    GTensor made = as_tensor(&packed);
    made.data = heap_try(made.bytes);
    if (!made.data) return rval_drop(&packed), run_fail(r, "out of memory");
    if (made.bytes) memcpy(made.data, packed.at, made.bytes);
    *out = made;
    rval_drop(&packed);
    return true;
}

static Run run_begin(const Graph *g, const GTensor *in, char *error, size_t error_size) {
    Run r = {.g = g, .arena = arena_new(), .in = in, .error = error, .error_size = error_size};
    r.dims = NEW_N(r.arena, int64_t, ix_dim_count(g));
    r.bound = NEW_N(r.arena, bool, ix_dim_count(g));
    r.required = NEW_N(r.arena, bool, g->requires.n);
    return r;
}

static bool run_results(const Graph *g, const GTensor *in, const RefPart *part, Node *const *want, int n, GTensor *out, const RefWatch *w,
                        char *error, size_t error_size) {
    uint32_t count = g->nodes.n;
    Run r = run_begin(g, in, error, error_size);
    Arena *a = r.arena;
    size_t ndims = (size_t)ix_dim_count(g);
    r.given = NEW_N(a, const GTensor *, count);
    for (int i = 0; i < part->ngiven; i++) r.given[part->given[i]] = &part->value[i];
    if (part->dims && ndims) memcpy(r.dims, part->dims, sizeof *r.dims * ndims), memcpy(r.bound, part->bound, sizeof *r.bound * ndims);
    r.watch = w;
    r.val = NEW_N(a, RVal, count);
    r.results = NEW_N(a, RVal *, count);
    r.uses = NEW_N(a, int, count);
    r.plan = NEW_N(a, RPlan **, count);
    r.maker = NEW_N(a, const Node *, ix_dim_count(g));
    for (int i = 0; i < n; i++) out[i].data = NULL;
    if (bind_inputs(&r)) {
        bool *needed = NEW_N(a, bool, count);
        for (int i = 0; i < n; i++) needed[want[i]->id] = true;
        reach(&r, needed);
        RPlan *plan = plan_make(&r, needed, NULL);
        for (int i = 0; i < n; i++) r.uses[want[i]->id]++;
        for (int i = 0; i < plan->n && !r.failed; i++)                    // a value of a body whose loop is not there
            if (plan->node[i]->kind == G_param) run_fail(&r, "depends on the trip of a loop");
        if (!r.failed && run_plan(&r, plan))
            for (int i = 0; i < n && !r.failed; i++) take_output(&r, want[i], &out[i]);
    }
    for (uint32_t i = 0; i < count; i++) run_drop(&r, g->nodes.at[i]);
    for (int i = 0; i < n && r.failed; i++) g_tensor_free(&out[i]);
    if (part->dims && ndims) memcpy(part->dims, r.dims, sizeof *r.dims * ndims), memcpy(part->bound, r.bound, sizeof *r.bound * ndims);
    arena_free(a);
    return !r.failed;
}

bool ref_run(const Graph *g, const GTensor *in, GTensor *out, const RefWatch *w, char *error, size_t error_size) {
    Node **want = heap_alloc((g->outputs.n + 1) * sizeof *want);
    for (uint32_t i = 0; i < g->outputs.n; i++) want[i] = g->outputs.at[i].node;
    bool ok = run_results(g, in, &(RefPart){0}, want, (int)g->outputs.n, out, w, error, error_size);
    heap_free(want);
    return ok;
}

bool ref_run_part(const Graph *g, const GTensor *in, const RefPart *part, GTensor *out, char *error, size_t error_size) {
    Node **want = heap_alloc(((size_t)part->nwant + 1) * sizeof *want);
    for (int i = 0; i < part->nwant; i++) want[i] = g->nodes.at[part->want[i]];
    bool ok = run_results(g, in, part, want, part->nwant, out, NULL, error, error_size);
    heap_free(want);
    return ok;
}

bool ref_sizes(const Graph *g, const GTensor *in, int rank, const Ix *shape, int64_t *to, char *error, size_t error_size) {
    Run r = run_begin(g, in, error, error_size);
    bool ok = bind_inputs(&r) && run_sizes(&r, rank, shape, to);
    arena_free(r.arena);
    return ok;
}

void ref_dims(const Graph *g, const GTensor *in, int64_t *to) {
    char why[64];
    Run r = run_begin(g, in, why, sizeof why);
    bind_inputs(&r);
    for (int i = 0; i < ix_dim_count(g); i++) to[i] = r.bound[i] ? r.dims[i] : 1;
    arena_free(r.arena);
}

bool ref_value(const Graph *g, Node *n, GTensor *out, char *error, size_t error_size) {
    return run_results(g, NULL, &(RefPart){0}, &n, 1, out, NULL, error, error_size);
}

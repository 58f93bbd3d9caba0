// What has several results, or bodies: host operations, loops, ifs.

#include "graph/ref/internal.h"
#include "lang/limits.h"

#include <stdlib.h>
#include <string.h>

static GTensor tensor_of(const RVal *packed) {
    GTensor t = {.elem = packed->elem, .rank = packed->rank, .data = packed->at};
    memcpy(t.shape, packed->shape, sizeof t.shape);
    t.bytes = (size_t)rval_count(packed) * (size_t)elem_bytes(packed->elem);
    return t;
}

// Results come in with their own sizes, which dimensions are then known by.
static bool accept(Run *r, const GType *want, const RVal *v) {
    if (v->rank != want->rank || v->elem != want->elem) return run_fail(r, "a result has another type than was announced");
    if (!run_bind(r, want, v->shape)) return false;
    int64_t shape[G_MAX_RANK];
    if (!run_sizes(r, want->rank, want->shape, shape)) return false;
    for (int i = 0; i < v->rank; i++)
        if (shape[i] != v->shape[i])
            return run_fail(r, "axis %d of a result has the size %lld instead of %lld", i, (long long)v->shape[i],
                            (long long)shape[i]);
    return true;
}

static bool host(Run *r, const Node *n, RVal *result) {
    RVal *packed = heap_alloc((n->nsrc + 1) * sizeof *packed);
    GTensor *in = heap_alloc((n->nsrc + 1) * sizeof *in), *out = heap_alloc(((size_t)n->host.nresults + 1) * sizeof *out);
    bool ok = true;
    char words[256] = "";
    for (uint32_t i = 0; i < n->nsrc && ok; i++) {
        ok = rval_packed(r, &r->val[n->src[i]->id], &packed[i]);
        if (ok) in[i] = tensor_of(&packed[i]);
    }
    for (int i = 0; i < n->host.nresults; i++) {
        out[i].elem = n->host.result[i].elem;
        out[i].rank = n->host.result[i].rank;
    }
    if (ok && !n->host.op->run(n->host.attr, in, (int)n->nsrc, out, n->host.nresults, words, sizeof words))
        ok = run_fail(r, "%s", words[0] ? words : "failed");
    for (int i = 0; i < n->host.nresults && ok; i++) {
        RVal *v = &result[i];
        if (!out[i].data) {
            ok = run_fail(r, "%s gave no result %d", n->host.op->name, i);
            break;
        }
        v->elem = out[i].elem;
        v->rank = out[i].rank;
        memcpy(v->shape, out[i].shape, sizeof v->shape);
        v->buf = heap_alloc(sizeof *v->buf);
        *v->buf = (RBuf){1, true, out[i].data, out[i].bytes};
        v->at = out[i].data;
        for (int64_t k = v->rank, step = elem_bytes(v->elem); k-- > 0; step *= v->shape[k]) v->stride[k] = step;
        out[i].data = NULL;
        ok = accept(r, &n->host.result[i], v);
    }
    for (int i = 0; i < n->host.nresults; i++) g_tensor_free(&out[i]);
    for (uint32_t i = 0; i < n->nsrc; i++) rval_drop(&packed[i]);
    heap_free(packed);
    heap_free(in);
    heap_free(out);
    return ok;
}

// ---- bodies ---------------------------------------------------------------------------------------------------------

// The values of a body's results, for given parameters (whose references are taken over).
static bool trip(Run *r, const GBody *body, const RPlan *plan, RVal *param, RVal *result) {
    for (int i = 0; i < body->nparams; i++) {
        r->val[body->params[i]->id] = param[i];
        r->uses[body->params[i]->id]++;
        param[i].buf = NULL;
    }
    for (int i = 0; i < body->nresults; i++) r->uses[body->results[i]->id]++;
    bool ok = run_plan(r, plan);
    for (int i = 0; i < body->nresults; i++) {
        const Node *n = body->results[i];
        if (ok) result[i] = rval_share(&r->val[n->id]);
    }
    for (int i = 0; i < body->nresults; i++) r->uses[body->results[i]->id]--;
    for (int i = 0; i < body->nparams; i++) r->uses[body->params[i]->id]--;
    for (int i = 0; i < body->nparams; i++) rval_drop(&r->val[body->params[i]->id]);
    for (int i = 0; i < plan->n; i++) run_drop(r, plan->node[i]);
    return ok;
}

static bool read_scalar(const Node *n, Run *r, int64_t *v) {
    const RVal *x = &r->val[n->id];
    row_load_i64(x->elem, 1, x->at, 0, v);
    return true;
}

typedef struct Scanned { RVal *at; int64_t n, cap; } Scanned;

static bool keep(Run *r, Scanned *s, const RVal *v) {
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 16;
        s->at = heap_resize(s->at, (size_t)s->cap * sizeof *s->at);
    }
    return rval_packed(r, v, &s->at[s->n]) && ++s->n;
}

// The scanned values of all trips, one after the other.
static bool stack(Run *r, const GType *type, const Scanned *s, RVal *to) {
    int64_t shape[G_MAX_RANK] = {s->n};
    if (s->n == 0) {
        Ix rest[G_MAX_RANK];
        for (int i = 1; i < type->rank; i++) rest[i] = type->shape[i];
        if (type->rank > 1 && !run_sizes(r, type->rank - 1, rest + 1, shape + 1)) return false;
        return rval_new(r, to, type->elem, type->rank, shape);
    }
    for (int i = 1; i < type->rank; i++) shape[i] = s->at[0].shape[i - 1];
    if (!rval_new(r, to, type->elem, type->rank, shape)) return false;
    size_t bytes = s->at[0].buf ? to->buf->bytes / (size_t)s->n : 0;
    for (int64_t k = 0; k < s->n; k++) {
        for (int i = 1; i < type->rank; i++)
            if (s->at[k].shape[i - 1] != shape[i]) return run_fail(r, "what a loop collects changes its size");
        memcpy(to->at + (size_t)k * bytes, s->at[k].at, bytes);
    }
    return true;
}

static void many_trips(Run *r, int64_t trips) {
    Buf words = {0};
    limit_words(LIMIT_trips, trips, &words);
    run_fail(r, "a loop of %s", words.p);
    buf_free(&words);
}

// The body's condition is the number true: the loop makes all of its trips.
static bool always(const Node *condition) {
    GNum v;
    return g_scalar_value(condition, &v) && v.is_int && v.i != 0;
}

static bool loop(Run *r, const Node *n, RVal *result) {
    const GBody *body = n->sub.body;
    const RPlan *plan = r->plan[n->id][0];
    int carried = n->sub.ncarried, nresults = n->sub.nresults, scans = nresults - carried;
    RVal *now = heap_alloc(((size_t)carried + 2) * sizeof *now), *next = heap_alloc(((size_t)body->nresults + 1) * sizeof *next);
    Scanned *scan = heap_alloc(((size_t)scans + 1) * sizeof *scan);
    int64_t limit, go_on;
    size_t ndims = (size_t)ix_dim_count(r->g);
    bool *bound = heap_alloc(ndims + 1);                  // sizes that a trip finds are other ones in the next
    if (ndims) memcpy(bound, r->bound, ndims);
    read_scalar(n->src[0], r, &limit);
    read_scalar(n->src[1], r, &go_on);
    for (int i = 0; i < carried; i++) now[1 + i] = rval_share(&r->val[n->src[2 + i]->id]);
    if (limit > limit_of(LIMIT_trips) && always(body->results[0])) many_trips(r, limit);
    for (int64_t t = 0; t < limit && go_on && !r->failed; t++) {
        if (t == limit_of(LIMIT_trips)) { many_trips(r, t + 1); break; }
        if (!rval_new(r, &now[0], EL_i64, 0, NULL)) break;
        memcpy(now[0].at, &t, 8);
        if (ndims) memcpy(r->bound, bound, ndims);
        if (!trip(r, body, plan, now, next)) break;
        row_load_i64(EL_bool, 1, next[0].at, 0, &go_on);
        rval_drop(&next[0]);
        for (int i = 0; i < carried; i++) now[1 + i] = next[1 + i], next[1 + i].buf = NULL;
        for (int i = 0; i < scans; i++) {
            if (!r->failed) keep(r, &scan[i], &next[1 + carried + i]);
            rval_drop(&next[1 + carried + i]);
        }
    }
    if (ndims) memcpy(r->bound, bound, ndims);
    heap_free(bound);
    for (int i = 0; i < carried && !r->failed; i++) result[i] = rval_share(&now[1 + i]);
    for (int i = 0; i < scans && !r->failed; i++) stack(r, &n->sub.result[carried + i], &scan[i], &result[carried + i]);
    for (int i = 0; i < nresults && !r->failed; i++) accept(r, &n->sub.result[i], &result[i]);
    for (int i = 0; i <= carried; i++) rval_drop(&now[i]);
    for (int i = 0; i < body->nresults; i++) rval_drop(&next[i]);
    for (int i = 0; i < scans; i++) {
        for (int64_t k = 0; k < scan[i].n; k++) rval_drop(&scan[i].at[k]);
        heap_free(scan[i].at);
    }
    heap_free(scan);
    heap_free(now);
    heap_free(next);
    return !r->failed;
}

static bool branch(Run *r, const Node *n, RVal *result) {
    int64_t cond;
    read_scalar(n->src[0], r, &cond);
    int side = cond ? 0 : 1;
    if (!trip(r, &n->sub.body[side], r->plan[n->id][side], NULL, result)) return false;
    for (int i = 0; i < n->sub.nresults; i++)
        if (!accept(r, &n->sub.result[i], &result[i])) return false;
    return true;
}

// ---- steps ----------------------------------------------------------------------------------------------------------

static RVal owned(GTensor *t) {
    RVal v = {.elem = t->elem, .rank = t->rank, .at = t->data, .buf = heap_alloc(sizeof *v.buf)};
    *v.buf = (RBuf){1, true, t->data, t->bytes};
    for (int64_t k = v.rank, step = elem_bytes(v.elem); k-- > 0; step *= v.shape[k]) v.shape[k] = t->shape[k], v.stride[k] = step;
    t->data = NULL;
    return v;
}

// One step: what goes on, in the first of `in`; rows to their places among those of all.
static bool one_step(Run *r, const Graph *g, int64_t number, int64_t *dims, bool *bound, RVal *in, RVal *result) {
    uint32_t nin = g->inputs.n, nout = g->outputs.n, carried = (uint32_t)g->step.ncarried;
    uint32_t *want = heap_alloc((nout + 1) * sizeof *want);
    GTensor *given = heap_alloc((nin + 1) * sizeof *given), *out = heap_alloc((nout + 1) * sizeof *out);
    char words[512] = "";
    for (uint32_t i = 0; i < nin; i++) given[i] = tensor_of(&in[i]);
    for (uint32_t i = 0; i < nout; i++) want[i] = g->outputs.at[i].node->id;
    dims[g->step.number->value] = number;
    bool ok = ref_run_part(g, given, &(RefPart){.want = want, .nwant = (int)nout, .dims = dims, .bound = bound}, out, words, sizeof words);
    if (!ok) run_fail(r, "%s", words);
    for (uint32_t i = 0; i < nout && ok; i++) {
        if (i < carried) rval_drop(&in[i]), in[i] = owned(&out[i]);
        else if (out[i].bytes) memcpy(result[i].at + (size_t)number * out[i].bytes, out[i].data, out[i].bytes);
    }
    for (uint32_t i = 0; i < nout && ok; i++) g_tensor_free(&out[i]);
    heap_free(want);
    heap_free(given);
    heap_free(out);
    return ok;
}

static bool steps(Run *r, const Node *n, RVal *result) {
    const Graph *g = n->steps.body;
    int carried = g->step.ncarried, ndims = ix_dim_count(g);
    int64_t number = g->step.number->value, count = 0;
    int64_t *dims = NEW_N(r->arena, int64_t, ndims + 1);
    bool *bound = NEW_N(r->arena, bool, ndims + 1), ok = run_sizes(r, 1, &n->steps.count, &count);
    RVal *in = heap_alloc((n->nsrc + 1) * sizeof *in);
    if (number) memcpy(dims, r->dims, (size_t)number * sizeof *dims), memcpy(bound, r->bound, (size_t)number * sizeof *bound);
    bound[number] = true;
    for (uint32_t i = 0; i < n->nsrc && ok; i++) ok = rval_packed(r, &r->val[n->src[i]->id], &in[i]);
    for (int i = carried; i < n->steps.nresults && ok; i++) {
        int64_t shape[G_MAX_RANK];
        const GType *t = &n->steps.result[i];
        ok = run_sizes(r, t->rank, t->shape, shape) && rval_new(r, &result[i], t->elem, t->rank, shape);
    }
    for (int64_t k = 0; k < count && ok; k++) ok = one_step(r, g, k, dims, bound, in, result);
    for (int i = 0; i < carried && ok; i++) result[i] = rval_share(&in[i]);
    for (uint32_t i = 0; i < n->nsrc; i++) rval_drop(&in[i]);
    heap_free(in);
    return ok;
}

bool ref_several(Run *r, const Node *n, RVal *out) {
    int count;
    g_results(n, &count);
    RVal *result = NEW_N(r->arena, RVal, count);
    r->results[n->id] = result;
    bool ok = n->kind == G_host    ? host(r, n, result)
              : n->kind == G_loop  ? loop(r, n, result)
              : n->kind == G_steps ? steps(r, n, result)
                                   : branch(r, n, result);
    if (ok) *out = rval_share(&result[0]);
    return ok;
}

bool ref_proj(Run *r, const Node *n, RVal *out) {
    *out = rval_share(&r->results[n->src[0]->id][n->proj.result]);
    return true;
}

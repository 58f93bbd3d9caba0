// From a graph to launches that can be made: each kernel compiled, each argument a value with an address to come.
//
//     launches     bound: dimensions, guards, all from shapes alone          (plan_make)
//     values       in the arena, from the launch that writes them to the last that reads them
//     memory       the arena allocated, weights loaded, constants computed   (plan_place)
//     addresses    given: overlap checked, variants chosen, parameter blocks (plan_prepare)
//
// Launches whose inputs are fixed are not among those of the plan: the store runs them once.

#include "runtime/graph.h"

#include <stdlib.h>
#include <string.h>

uint64_t plan_bytes(const TGValue *v)
{
    uint64_t n = (uint64_t)elem_bytes(v->elem);
    for (int i = 0; i < v->rank; i++) n *= (uint64_t)v->dim[i];
    return n;
}

int plan_root(const TGraph *g, int value)
{
    while (g->values[value].kind == TG_view) value = g->values[value].base;
    return value;
}

uint64_t plan_offset(const TGraph *g, int value)
{
    uint64_t n = 0;
    for (; g->values[value].kind == TG_view; value = g->values[value].base)
        n += (uint64_t)g->values[value].offset * (uint64_t)elem_bytes(g->values[value].elem);
    return n;
}

bool plan_bind(PlanLaunch *l, Runtime *rt, const TGraph *g, Buf *err)
{
    const TKernel *k = l->launch->kernel;
    l->compiled = runtime_compile(rt, k, &l->launch->schedule, err);
    if (!l->compiled) return false;
    l->info = compiled_eval(l->compiled)->launch;
    l->args = checked_alloc(sizeof *l->args * (size_t)(k->nparams + 1));
    l->bound = checked_alloc(sizeof *l->bound);
    for (int p = 0; p < k->nparams; p++) {
        const TValue *a = &l->launch->args[p];
        BindArg *b = &l->args[p];
        *b = (BindArg){.scalar = a->tensor < 0, .elem = a->elem, .ival = a->ival, .fval = a->fval, .is_float = elem_is_float(a->elem)};
        if (b->scalar) continue;
        const TGValue *v = &g->values[a->tensor];
        b->origin = v->name ? v->name->s : NULL;
        b->elem = v->elem;
        b->rank = v->rank;
        memcpy(b->dim, v->dim, sizeof b->dim);
        bind_contiguous(b);
    }
    return bind_args(l->info, l->args, k->nparams, l->bound, err);
}

// ---- life ----------------------------------------------------------------------------------------

static bool in_arena(const TGValue *v) { return v->kind == TG_computed && !v->fixed; }

static void arena_items(Plan *p)
{
    const TGraph *g = p->graph;
    p->items = checked_alloc(sizeof *p->items * (size_t)(g->nvalues + 1));
    p->item = checked_alloc(sizeof *p->item * (size_t)(g->nvalues + 1));
    memset(p->item, 0xff, sizeof *p->item * (size_t)(g->nvalues + 1));
    for (int i = 0; i < p->nlaunches; i++)
        for (int k = 0; k < p->launch[i].launch->kernel->nparams; k++) {
            int value = p->launch[i].launch->args[k].tensor;
            if (value < 0 || !in_arena(&g->values[value = plan_root(g, value)])) continue;
            if (p->item[value] < 0) {
                p->item[value] = p->nitems;
                p->items[p->nitems++] = (ArenaItem){.bytes = plan_bytes(&g->values[value]), .first = i};
            }
            p->items[p->item[value]].last = i;
        }
    p->arena_bytes = arena_plan(p->items, p->nitems);
    p->live_bytes = arena_live_peak(p->items, p->nitems);
}

void plan_where(const Runtime *rt, const PlanLaunch *l, Buf *out)
{
    if (!l->launch->span.hi) return;
    LineCol at = span_where(runtime_session(rt), l->launch->span.lo);
    buf_printf(out, "%s:%u:%u: ", at.src->path, at.line, at.col);
}

Plan *plan_make(Runtime *rt, const TGraph *g, Buf *err)
{
    Plan *p = checked_alloc(sizeof *p);
    bool fine = true;
    *p = (Plan){.rt = rt, .graph = g};
    p->launch = checked_alloc(sizeof *p->launch * (size_t)(g->nlaunches + 1));
    p->kept = checked_alloc(sizeof *p->kept * (size_t)(g->nvalues + 1));
    for (int i = 0; i < g->nlaunches && fine; i++) {
        if (g->launches[i].fixed) continue;
        PlanLaunch *l = &p->launch[p->nlaunches++];
        l->launch = &g->launches[i];
        Buf why = {0};
        fine = plan_bind(l, rt, g, &why);
        if (!fine) {
            if (why.n) plan_where(rt, l, err);
            buf_add(err, why.p ? why.p : "", why.n);
        }
        buf_free(&why);
    }
    if (fine) arena_items(p);
    if (fine) return p;
    plan_free(p);
    return NULL;
}

void plan_free(Plan *p)
{
    if (!p) return;
    Device *d = runtime_device(p->rt);
    if (p->device_graph) d->ops->graph_free(d, p->device_graph);
    for (int i = 0; i < p->nlaunches; i++) {
        prepared_free(d, &p->launch[i].prepared);
        free(p->launch[i].args);
        free(p->launch[i].bound);
    }
    free(p->launch);
    free(p->item);
    free(p->items);
    free(p->kept);
    if (p->arena_of_graph) arena_free(p->arena_of_graph);
    free(p);
}

// ---- memory --------------------------------------------------------------------------------------

enum { MANY_BYTES = 64 << 20, BAR = 40 };

// "weights [########........] 120 of 497 MB", over the line that was there; gone when all are loaded.
static void show_progress(const Plan *p, uint64_t done, uint64_t all)
{
    FILE *to = runtime_options(p->rt)->progress_to;
    if (!to || all < MANY_BYTES) return;
    char bar[BAR + 1];
    for (int i = 0; i < BAR; i++) bar[i] = (uint64_t)i * all < done * BAR ? '#' : '.';
    bar[BAR] = 0;
    if (done < all) fprintf(to, "\rweights [%s] %llu of %llu MB", bar, (unsigned long long)(done >> 20), (unsigned long long)(all >> 20));
    else fprintf(to, "\r%*s\r", BAR + 40, "");
    fflush(to);
}

static uint64_t kept_bytes(const Plan *p, bool placed)       // of what launches read, each once
{
    uint64_t bytes = 0;
    bool *seen = checked_alloc(sizeof *seen * ((size_t)p->graph->nvalues + 1));
    for (int i = 0; i < p->nlaunches; i++)
        for (int k = 0; k < p->launch[i].launch->kernel->nparams; k++) {
            int value = p->launch[i].launch->args[k].tensor, root = value < 0 ? -1 : plan_root(p->graph, value);
            if (root < 0 || seen[root] || !p->graph->values[root].fixed || (placed && !p->kept[root])) continue;
            seen[root] = true;
            bytes += plan_bytes(&p->graph->values[root]);
        }
    free(seen);
    return bytes;
}

// First what is read as it is in the files, then what is computed from weights, whose own go as soon as they are not needed.
static bool place_kept(Plan *p, bool computed, Buf *err)
{
    uint64_t done = kept_bytes(p, true), all = kept_bytes(p, false);
    for (int i = 0; i < p->nlaunches; i++)
        for (int k = 0; k < p->launch[i].launch->kernel->nparams; k++) {
            int value = p->launch[i].launch->args[k].tensor;
            if (value < 0 || !p->graph->values[value = plan_root(p->graph, value)].fixed || p->kept[value]) continue;
            if ((p->graph->values[value].kind == TG_computed) != computed) continue;
            p->kept[value] = store_get(p->rt, p->graph, value, true, err);
            if (!p->kept[value]) return false;
            store_keep(p->rt, p->kept[value]);
            done += plan_bytes(&p->graph->values[value]);
            show_progress(p, done, all);
            if (computed) store_trim(p->rt);
        }
    return true;
}

static bool reserve(Plan *p, Buf *err)
{
    bool *values = checked_alloc(sizeof *values * ((size_t)p->graph->nvalues + 1));
    for (int i = 0; i < p->nlaunches; i++)
        for (int k = 0; k < p->launch[i].launch->kernel->nparams; k++) {
            int value = p->launch[i].launch->args[k].tensor;
            if (value >= 0 && p->graph->values[value = plan_root(p->graph, value)].fixed) values[value] = true;
        }
    bool fine = store_reserve(p->rt, p->graph, values, err);
    free(values);
    return fine;
}

bool plan_place(Plan *p, Buf *err)
{
    bool fine = p->placed || (reserve(p, err) && place_kept(p, false, err) && place_kept(p, true, err));
    if (!p->placed) store_settle(p->rt);
    p->placed = fine;
    uint64_t arena = fine ? store_arena(p->rt, p->arena_bytes, err) : 0;
    if (arena != p->arena) p->prepared = false;
    p->arena = arena;
    return fine && arena != 0;
}

bool plan_prepare(PlanLaunch *l, Runtime *rt, Buf *err)
{
    l->bound->args = l->args;
    l->bound->info = l->info;
    if (!bind_overlap(l->bound, err)) return false;
    if (!runtime_device(rt)->ops->runs_ptx) return true;
    if (!compiled_kernel(rt, l->compiled, &l->info, &l->kernel, false, err)) return false;
    l->bound->info = l->info;
    if (bind_variant(l->bound, NULL) != l->info && !compiled_kernel(rt, l->compiled, &l->info, &l->kernel, true, err)) return false;
    prepared_free(runtime_device(rt), &l->prepared);
    return prepare(runtime_device(rt), l->info, l->bound, &l->kernel, &l->prepared, err);
}

bool plan_launch(PlanLaunch *l, Runtime *rt, const RunControl *ctl, Buf *err)
{
    if (runtime_device(rt)->ops->runs_ptx) return prepared_launch(runtime_device(rt), &l->prepared, err);
    EvalOptions opt = {0};
    return eval_kernel(rt, l->compiled, l->info, l->args, l->bound->dims, ctl, &opt, err);
}

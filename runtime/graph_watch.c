// A run of a plan that shows its values: launch by launch, each value when the last launch that writes it has run.
//
//     1  gemm_relu(x, w) -> h        see("h")         what runs once was computed when the plan was placed, and is
//     2  copy(h) -> s                                 shown first
//     3  update(inout s)             see("s")
//     4  t = scatter(x, s)           see("t")         s, which nobody reads any more, is updated where it lies: t from then on
//
// The arena is used as it is in any run: a value is read before another takes its place.

#include "runtime/graph.h"

#include <stdlib.h>

static const char *name_of(const TGraph *g, int value) {
    const TGValue *v = &g->values[value];
    if (v->kind == TG_input || v->kind == TG_state) return g->head->params[v->param].name->s;
    if (v->name) return v->name->s;
    return v->kind == TG_output ? g->head->params[v->param].name->s : NULL;
}

// Elements that are not there yet, read back. False without words: the caller wants no more.
static bool show(const Plan *p, int value, uint64_t address, const RunValue *about, const RunWatch *watch, Buf *err) {
    const TGValue *v = &p->graph->values[value];
    Device *d = runtime_device(p->rt);
    RunValue r = *about;
    r.name = name_of(p->graph, value);
    if (!r.name || !tensor_make(&r.tensor, v->elem, v->rank, v->dim, err)) return !err->n;
    bool fine = d->ops->read(d, r.tensor.data, address, plan_bytes(v), err) && watch->see(watch->ctx, &r);
    tensor_free(&r.tensor);
    return fine;
}

// What a launch makes of the value that it updates has a name of its own, and the value is that from then on. -1: it does not.
static int made_of(const Plan *p, const PlanLaunch *l, int param) {
    int value = l->launch->args[param].tensor;
    const TGValue *v = value < 0 ? NULL : &p->graph->values[value];
    return v && v->kind == TG_view && v->name && l->info->params[param].mode == PM_INOUT ? value : -1;
}

static bool writes(const PlanLaunch *l, int param) { return l->launch->args[param].tensor >= 0 && param_written(&l->info->params[param]); }

// By launch and parameter: does it leave a value as its last writer? From the last launch to the first.
static bool **last_writers(const Plan *p) {
    enum { NOBODY, WRITES, MAKES_ANOTHER };
    char  *then = heap_alloc((size_t)p->graph->nvalues + 1);
    bool **last = heap_alloc(sizeof *last * ((size_t)p->nlaunches + 1));
    for (int i = p->nlaunches - 1; i >= 0; i--) {
        const PlanLaunch *l = p->launch[i];
        int n = l->launch->kernel->nparams;
        last[i] = heap_alloc((size_t)n + 1);
        for (int k = 0; k < n; k++) if (writes(l, k)) last[i][k] = then[plan_root(p->graph, l->launch->args[k].tensor)] != WRITES;
        for (int k = 0; k < n; k++) if (writes(l, k)) then[plan_root(p->graph, l->launch->args[k].tensor)] = made_of(p, l, k) >= 0 ? MAKES_ANOTHER : WRITES;
    }
    heap_free(then);
    return last;
}

static bool show_kept(const Plan *p, const RunWatch *watch, Buf *err) {
    for (int i = 0; i < p->graph->nvalues; i++) {
        const TGValue *v = &p->graph->values[i];
        RunValue about = {.kernel = "once", .span = v->span};
        if (v->kind == TG_computed && v->fixed && p->kept[i] && !show(p, i, p->kept[i], &about, watch, err)) return false;
    }
    return true;
}

static bool show_written(const Plan *p, int launch, const bool *last, const RunWatch *watch, Buf *err) {
    const PlanLaunch *l = p->launch[launch];
    RunValue about = {.kernel = l->launch->kernel->name->s, .launch = launch + 1, .span = l->launch->span};
    for (int k = 0; k < l->launch->kernel->nparams; k++) {
        if (!last[k]) continue;
        int value = l->launch->args[k].tensor, made = made_of(p, l, k), shown = made >= 0 ? made : plan_root(p->graph, value);
        if (!show(p, shown, l->args[k].address - (made >= 0 ? 0 : plan_offset(p->graph, value)), &about, watch, err)) return false;
    }
    return true;
}

bool plan_watch(Plan *p, const RunControl *ctl, Buf *err) {
    Device *d = runtime_device(p->rt);
    bool  **last = last_writers(p);
    bool    go_on = show_kept(p, ctl->watch, err);
    for (int i = 0; i < p->nlaunches && go_on; i++)
        go_on = plan_launch(p->launch[i], p->rt, ctl, err) && d->ops->sync(d, err) &&
                show_written(p, i, last[i], ctl->watch, err);
    for (int i = 0; i < p->nlaunches; i++) heap_free(last[i]);
    heap_free(last);
    return !err->n;
}

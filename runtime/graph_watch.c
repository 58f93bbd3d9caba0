// A run of a plan that shows its values: launch by launch, each value when the last launch that writes it has run.
//
//     1  gemm_relu(x, w) -> h        see("h")         what runs once was computed when the plan was placed, and is
//     2  copy(h) -> s                                 shown first
//     3  update(inout s)             see("s")
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

static void last_writers(const Plan *p, int *last) {
    for (int i = 0; i < p->graph->nvalues; i++) last[i] = -1;
    for (int i = 0; i < p->nlaunches; i++)
        for (int k = 0; k < p->launch[i]->launch->kernel->nparams; k++) {
            int value = p->launch[i]->launch->args[k].tensor;
            if (value >= 0 && param_written(&p->launch[i]->info->params[k])) last[plan_root(p->graph, value)] = i;
        }
}

static bool show_kept(const Plan *p, const RunWatch *watch, Buf *err) {
    for (int i = 0; i < p->graph->nvalues; i++) {
        const TGValue *v = &p->graph->values[i];
        RunValue about = {.kernel = "once", .span = v->span};
        if (v->kind == TG_computed && v->fixed && p->kept[i] && !show(p, i, p->kept[i], &about, watch, err)) return false;
    }
    return true;
}

static bool show_written(const Plan *p, int launch, const int *last, const RunWatch *watch, Buf *err) {
    const PlanLaunch *l = p->launch[launch];
    RunValue about = {.kernel = l->launch->kernel->name->s, .launch = launch + 1, .span = l->launch->span};
    for (int k = 0; k < l->launch->kernel->nparams; k++) {
        int value = l->launch->args[k].tensor, root = value < 0 ? -1 : plan_root(p->graph, value);
        if (root < 0 || !param_written(&l->info->params[k]) || last[root] != launch) continue;
        if (!show(p, root, l->args[k].address - plan_offset(p->graph, value), &about, watch, err)) return false;
    }
    return true;
}

bool plan_watch(Plan *p, const RunControl *ctl, Buf *err) {
    Device *d = runtime_device(p->rt);
    int    *last = checked_alloc(sizeof *last * ((size_t)p->graph->nvalues + 1));
    last_writers(p, last);
    bool go_on = show_kept(p, ctl->watch, err);
    for (int i = 0; i < p->nlaunches && go_on; i++)
        go_on = plan_launch(p->launch[i], p->rt, ctl, err) && d->ops->sync(d, err) &&
                show_written(p, i, last, ctl->watch, err);
    free(last);
    return !err->n;
}

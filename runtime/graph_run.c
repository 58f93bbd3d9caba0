// Graphs, run: on device addresses (plan_run) and on host tensors (graph_launch).
//
// A plan is prepared for the addresses of its first run, and again when they change. Then a run is a list of
// launches, or on a device that has graphs of its own, one launch of such a graph.

#include "runtime/graph.h"

#include "lower/build.h"

#include <stdlib.h>
#include <string.h>

// ---- on addresses --------------------------------------------------------------------------------

static uint64_t address_of(const Plan *p, int value, const uint64_t *param)
{
    const TGraph *g = p->graph;
    int root = plan_root(g, value);
    const TGValue *v = &g->values[root];
    uint64_t at = v->kind == TG_input || v->kind == TG_state || v->kind == TG_output ? param[v->param]
                : v->fixed ? p->kept[root] : p->arena + p->items[p->item[root]].offset;
    return at + plan_offset(g, value);
}

static bool prepare_all(Plan *p, const uint64_t *param, Buf *err)
{
    p->prepared = false;
    for (int i = 0; i < p->nlaunches; i++) {
        PlanLaunch *l = &p->launch[i];
        for (int k = 0; k < l->launch->kernel->nparams; k++)
            if (l->launch->args[k].tensor >= 0) l->args[k].address = address_of(p, l->launch->args[k].tensor, param);
        if (!plan_prepare(l, p->rt, err)) return false;
    }
    memcpy(p->param, param, sizeof *param * (size_t)p->graph->head->nparams);
    p->prepared = true;
    return true;
}

static bool same_addresses(const Plan *p, const uint64_t *param)
{
    return p->prepared && memcmp(p->param, param, sizeof *param * (size_t)p->graph->head->nparams) == 0;
}

// The launches as one, if the device can: those that have anything to do.
static bool make_device_graph(Plan *p, Buf *err)
{
    Device     *d = runtime_device(p->rt);
    int         n = 0;
    size_t      room = (size_t)p->nlaunches + 1;
    DeviceNode *nodes = checked_alloc(sizeof *nodes * room);
    int        *launch = checked_alloc(sizeof *launch * room), *nafter = checked_alloc(sizeof *nafter * room), **after = checked_alloc(sizeof *after * room);
    for (int i = 0; i < p->nlaunches; i++)
        if (!p->launch[i].prepared.empty) launch[n++] = i;
    plan_order(p, launch, n, after, nafter);
    for (int i = 0; i < n; i++) {
        const Prepared *l = &p->launch[launch[i]].prepared;
        nodes[i] = (DeviceNode){&l->launch, after[i], nafter[i]};
    }
    size_t before = err->n;
    p->device_graph = d->ops->graph_make(d, nodes, n, err);
    for (int i = 0; i < n; i++) free(after[i]);
    free(after);
    free(nafter);
    free(launch);
    free(nodes);
    return p->device_graph || err->n == before;
}

static bool prepare_for(Plan *p, const uint64_t *param, Buf *err)
{
    Device *d = runtime_device(p->rt);
    if (same_addresses(p, param)) return true;
    if (p->device_graph) d->ops->graph_free(d, p->device_graph);
    p->device_graph = NULL;
    if (!prepare_all(p, param, err)) return false;
    return !d->ops->graph_make || make_device_graph(p, err);
}

bool plan_run(Plan *p, const uint64_t *param, const RunControl *ctl, Buf *err)
{
    Device *d = runtime_device(p->rt);
    if (!plan_place(p, err) || !prepare_for(p, param, err)) return false;
    if (p->device_graph) return d->ops->graph_launch(d, p->device_graph, err) && d->ops->sync(d, err);
    for (int i = 0; i < p->nlaunches; i++)
        if (!plan_launch(&p->launch[i], p->rt, ctl, err)) return false;
    return d->ops->sync(d, err);
}

// ---- on host tensors -----------------------------------------------------------------------------

typedef struct OnHost { Plan *plan; BindArg args[MAX_PARAMS]; Bound bound; uint64_t param[MAX_PARAMS]; const LaunchInfo *head; } OnHost;

static bool copy_in(OnHost *h, Device *d, KernelArg *args, const RunControl *ctl, Buf *err)
{
    for (int p = 0; p < h->head->nparams; p++) {
        const LaunchParam *want = &h->head->params[p];
        if (want->kind == PK_SCALAR) continue;
        uint64_t bytes = tensor_bytes(args[p].tensor);
        h->param[p] = d->ops->alloc(d, bytes, want->name->s, err);
        if (!h->param[p]) return false;
        bool fine = want->mode == PM_OUT ? d->ops->fill(d, h->param[p], bytes, junk_of(ctl), ctl->junk_seed + (uint64_t)p, err)
                                         : d->ops->write(d, h->param[p], args[p].tensor->data, bytes, err);
        if (!fine) return false;
    }
    return true;
}

static bool copy_out(const OnHost *h, Device *d, KernelArg *args, Buf *err)
{
    for (int p = 0; p < h->head->nparams; p++) {
        if (!param_written(&h->head->params[p])) continue;
        if (!d->ops->read(d, args[p].tensor->data, h->param[p], tensor_bytes(args[p].tensor), err)) return false;
    }
    return true;
}

bool graph_bind(Runtime *rt, const TKernel *head, KernelArg *args, int nargs, BindArg *bind, Bound *bound, Buf *err)
{
    const LaunchInfo *info = launch_from_typed(session_arena(runtime_session(rt)), head);
    for (int p = 0; p < nargs; p++) describe_arg(&args[p], &bind[p]);
    return bind_args(info, bind, nargs, bound, err);
}

bool graph_launch(Runtime *rt, const TGraph *g, KernelArg *args, int nargs, const RunControl *ctl, Buf *err)
{
    static const RunControl plain;
    Device *d = runtime_device(rt);
    OnHost *h = checked_alloc(sizeof *h);
    if (!ctl) ctl = &plain;
    bool fine = graph_bind(rt, g->head, args, nargs, h->args, &h->bound, err);
    h->head = h->bound.info;
    fine = fine && make_outputs(h->head, args, h->args, err) && (h->plan = plan_make(rt, g, err)) != NULL;
    fine = fine && copy_in(h, d, args, ctl, err) && plan_place(h->plan, err);
    if (fine && ctl->junk != FILL_ZERO) fine = d->ops->fill(d, h->plan->arena, h->plan->arena_bytes, ctl->junk, ctl->junk_seed + 99, err);
    d->junk = junk_of(ctl);
    d->junk_seed = ctl->junk_seed;
    d->in_order = ctl->in_order;
    fine = fine && plan_run(h->plan, h->param, ctl, err) && copy_out(h, d, args, err);
    for (int p = 0; p < nargs; p++)
        if (h->param[p]) d->ops->free(d, h->param[p]);
    plan_free(h->plan);
    free(h);
    return fine;
}

TGraph *graph_for_dims(Runtime *rt, SemaFile *file, const Node *graph, const TKernel *head, const SemaValue *set, int nset,
                       const SemaValue *dims, int ndims, Buf *err)
{
    const LaunchInfo *info = launch_from_typed(session_arena(runtime_session(rt)), head);
    Bound    *bound = checked_alloc(sizeof *bound);
    int64_t   given[MAX_DIMS];
    SemaValue known[MAX_DIMS];
    TValue    scalars[MAX_PARAMS] = {{0}};
    TGraph   *g = NULL;
    for (int k = 0; k < info->ndims; k++) {
        given[k] = -1;
        for (int i = 0; i < ndims; i++)
            if (strcmp(dims[i].name, info->dims[k].name->s) == 0) given[k] = dims[i].ival;
    }
    for (int p = 0; p < info->nparams; p++) {
        scalars[p] = (TValue){.tensor = -1, .elem = info->params[p].elem};
        for (int i = 0; i < ndims; i++)
            if (strcmp(dims[i].name, info->params[p].name->s) == 0) scalars[p].ival = bound->scalars[p] = dims[i].ival;
        scalars[p].fval = (double)scalars[p].ival;
    }
    sema_weights(file, runtime_weight, rt);
    if (bind_dims(info, given, bound, err)) {
        for (int k = 0; k < info->ndims; k++) known[k] = (SemaValue){.name = info->dims[k].name->s, .ival = bound->dims[k]};
        g = sema_graph_elaborate(file, graph, set, nset, known, info->ndims, scalars);
    }
    free(bound);
    return g;
}

bool graph_plan_print(Runtime *rt, const TGraph *g, Buf *out, Buf *err)
{
    Plan *p = plan_make(rt, g, err);
    bool fine = p && plan_print(p, runtime_options(rt)->compile.target->name, out, err);
    plan_free(p);
    return fine;
}

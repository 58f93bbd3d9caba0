// Graphs, run: on device addresses (plan_run) and on host tensors (plan_on_host, graph_launch). For all sizes:
// graph_sizes.c.
//
// A plan is prepared for the addresses of its first run, and again when they change. Then a run is a list of
// launches; on a device that has graphs of its own, from the second run on one launch of such a graph. Making it takes
// longer than launching one by one: where each run is of another length, plans of a pattern share one (graph_pattern.c).

#include "runtime/graph.h"

#include "lower/build.h"

#include <stdlib.h>
#include <string.h>

// ---- on addresses --------------------------------------------------------------------------------

static uint64_t address_of(const Plan *p, int value, const uint64_t *param) {
    const TGraph *g = p->graph;
    int root = plan_root(g, value);
    const TGValue *v = &g->values[root];
    uint64_t at = v->kind == TG_input || v->kind == TG_state || v->kind == TG_output ? param[v->param]
                : v->fixed ? p->kept[root] : p->arena + p->items[p->item[root]].offset;
    return at + plan_offset(g, value);
}

static bool at_launch(Plan *p, PlanLaunch *l, bool (*act)(PlanLaunch *l, Runtime *rt, Buf *err), Buf *err) {
    Buf  why = {0};
    bool fine = act(l, p->rt, &why);
    if (!fine && why.n) plan_where(p->rt, l, err);
    if (!fine) buf_add(err, why.p ? why.p : "", why.n);
    buf_free(&why);
    return fine;
}

// The code of all launches: first the variants that use facts, then those of launches whose facts do not hold.
static bool compile_plan(Plan *p, Buf *err) {
    Compiled **list = heap_alloc(sizeof *list * ((size_t)p->nlaunches + 1));
    bool      *general = heap_alloc(sizeof *general * ((size_t)p->nlaunches + 1)), fine = true;
    for (int round = 0; round < 2 && fine; round++) {
        int n = 0;
        for (int i = 0; i < p->nlaunches; i++) {
            PlanLaunch *l = p->launch[i];
            if (l->ready) continue;
            if (round && !at_launch(p, l, plan_facts, err)) { fine = false; break; }
            if ((round && !l->general) || compiled_tried(l->compiled, round)) continue;
            general[n] = round;
            list[n++] = l->compiled;
        }
        fine = fine && (!n || compile_all(p->rt, list, general, n, err));
    }
    heap_free(list);
    heap_free(general);
    return fine;
}

// With addresses for its arguments. A launch that others have, too, is left to them, if theirs are other ones.
static bool set_addresses(Plan *p, int i, const uint64_t *param, Buf *err) {
    PlanLaunch *l = p->launch[i];
    bool same = l->ready && memcmp(l->bound->scratch, p->scratch, sizeof p->scratch) == 0;
    for (int k = 0; same && k < l->launch->kernel->nparams; k++)
        same = l->launch->args[k].tensor < 0 || l->args[k].address == address_of(p, l->launch->args[k].tensor, param);
    if (same) return true;
    if (l->users > 1) {
        p->launch[i] = plan_launch_new(p, &l->own, err);
        launch_leave(p->rt, l);
        l = p->launch[i];
        if (!l) return false;
    }
    l->ready = false;
    for (int k = 0; k < l->launch->kernel->nparams; k++)
        if (l->launch->args[k].tensor >= 0) l->args[k].address = address_of(p, l->launch->args[k].tensor, param);
    return true;
}

static bool prepare_all(Plan *p, const uint64_t *param, Buf *err) {
    p->prepared = false;
    for (int i = 0; i < p->nlaunches; i++)
        if (!set_addresses(p, i, param, err)) return false;
    if (runtime_device(p->rt)->ops->runs_ptx && !compile_plan(p, err)) return false;
    uint64_t most[SCRATCH_KINDS] = {0}, own[SCRATCH_KINDS], before[SCRATCH_KINDS];
    memcpy(before, p->scratch, sizeof before);
    for (int i = 0; i < p->nlaunches; i++) {
        PlanLaunch *l = p->launch[i];
        if (!l->ready && !at_launch(p, l, plan_variant, err)) return false;
        bind_scratch(l->bound, own);
        for (int k = 0; k < SCRATCH_KINDS; k++) most[k] = own[k] > most[k] ? own[k] : most[k];
    }
    if (!store_scratch(p->rt, most, p->scratch, err)) return false;
    // it moved: what was ready is not
    if (memcmp(before, p->scratch, sizeof before) != 0) return prepare_all(p, param, err);
    for (int i = 0; i < p->nlaunches; i++) {
        PlanLaunch *l = p->launch[i];
        if (l->ready) continue;
        memcpy(l->bound->scratch, p->scratch, sizeof p->scratch);
        if (!at_launch(p, l, plan_prepare, err)) return false;
        l->ready = true;
    }
    memcpy(p->param, param, sizeof *param * (size_t)p->graph->head->nparams);
    p->prepared = true;
    return true;
}

static bool same_addresses(const Plan *p, const uint64_t *param) {
    return p->prepared && memcmp(p->param, param, sizeof *param * (size_t)p->graph->head->nparams) == 0;
}

bool plan_as_one(Plan *p, Buf *err) {
    Device     *d = runtime_device(p->rt);
    if (p->device_graph || p->apart || !d->ops->graph_make) return true;
    int         n = 0;
    size_t      room = (size_t)p->nlaunches + 1;
    DeviceNode *nodes = heap_alloc(sizeof *nodes * room);
    int *launch = heap_alloc(sizeof *launch * room), *nafter = heap_alloc(sizeof *nafter * room),
        **after = heap_alloc(sizeof *after * room);
    for (int i = 0; i < p->nlaunches; i++)
        if (!p->launch[i]->prepared.empty) launch[n++] = i;
    plan_order(p, launch, n, false, after, nafter);
    for (int i = 0; i < n; i++) {
        const Prepared *l = &p->launch[launch[i]]->prepared;
        nodes[i] = (DeviceNode){&l->launch, after[i], nafter[i]};
    }
    size_t before = err->n;
    p->device_graph = device_graph_make(d, nodes, n, err);
    for (int i = 0; i < n; i++) heap_free(after[i]);
    heap_free(after);
    heap_free(nafter);
    heap_free(launch);
    heap_free(nodes);
    p->apart = !p->device_graph;
    return p->device_graph || err->n == before;
}

static bool prepare_for(Plan *p, const uint64_t *param, Buf *err) {
    Device *d = runtime_device(p->rt);
    if (same_addresses(p, param)) return true;
    if (p->device_graph) device_graph_free(d, p->device_graph);
    p->device_graph = NULL;
    p->again = p->apart = false;
    return prepare_all(p, param, err);
}

bool plan_run(Plan *p, const uint64_t *param, const RunControl *ctl, Buf *err) {
    Device *d = runtime_device(p->rt);
    if (!plan_place(p, err) || !prepare_for(p, param, err)) return false;
    if (ctl && ctl->watch) return plan_watch(p, ctl, err);
    DeviceGraph *whole = NULL;
    if (p->again ? !plan_as_one(p, err) : !pattern_device_graph(p, &whole, err)) return false;
    if (p->again) whole = p->device_graph;
    p->again = true;
    bool no_wait = ctl && ctl->no_wait;
    void *stream = ctl ? ctl->stream : NULL;
    if (whole) return d->ops->graph_launch(d, whole, stream, err) && (no_wait || d->ops->sync(d, err));
    for (int i = 0; i < p->nlaunches; i++) {
        const Prepared *l = &p->launch[i]->prepared;
        bool on_stream = stream && d->ops->launch_on;
        if (on_stream && l->empty) continue;
        if (!(on_stream ? d->ops->ready(d, &l->launch, err) && d->ops->launch_on(d, &l->launch, stream, err)
                        : plan_launch(p->launch[i], p->rt, ctl, err)))
            return false;
    }
    return no_wait || d->ops->sync(d, err);
}

// ---- on host tensors -----------------------------------------------------------------------------

static bool copy_in(OnHost *h, const LaunchInfo *head, Device *d, KernelArg *args, const RunControl *ctl, Buf *err) {
    for (int p = 0; p < head->nparams; p++) {
        const LaunchParam *want = &head->params[p];
        if (want->kind == PK_SCALAR) continue;
        uint64_t bytes = tensor_bytes(args[p].tensor);
        h->param[p] = device_alloc(d, bytes, want->name->s, err);
        if (!h->param[p]) return false;
        bool fine = want->mode == PM_OUT
                        ? d->ops->fill(d, h->param[p], bytes, junk_of(ctl), ctl->junk_seed + (uint64_t)p, err)
                        : d->ops->write(d, h->param[p], args[p].tensor->data, bytes, err);
        if (!fine) return false;
    }
    return true;
}

static bool copy_out(const OnHost *h, const LaunchInfo *head, Runtime *rt, KernelArg *args, Buf *err) {
    for (int p = 0; p < head->nparams; p++) {
        if (!param_written(&head->params[p])) continue;
        if (!transfer_back(store_transfer(rt), args[p].tensor->data, h->param[p], tensor_bytes(args[p].tensor), err))
            return false;
    }
    return true;
}

bool plan_run_on_host(Plan *p, OnHost *h, const LaunchInfo *head, KernelArg *args, const RunControl *ctl, Buf *err) {
    Device *d = runtime_device(p->rt);
    d->junk = junk_of(ctl);
    d->junk_seed = ctl->junk_seed;
    d->in_order = ctl->in_order;
    d->order_seed = ctl->order_seed;
    RunStages *s = runtime_options(p->rt)->stages;
    bool fine = plan_place(p, err);
    double since = now_us();
    fine = fine && copy_in(h, head, d, args, ctl, err);
    if (fine && ctl->junk != FILL_ZERO)
        fine = d->ops->fill(d, p->arena, p->arena_bytes, ctl->junk, ctl->junk_seed + 99, err);
    fine = fine && prepare_for(p, h->param, err);
    stages_lap(s, RS_bind, &since);
    fine = fine && plan_run(p, h->param, ctl, err);
    stages_lap(s, RS_run, &since);
    fine = fine && copy_out(h, head, p->rt, args, err);
    stages_lap(s, RS_results, &since);
    if (fine && ctl->profile) fine = plan_profile(p, ctl, err);
    stages_lap(s, RS_profile, &since);
    for (int k = 0; k < head->nparams; k++)
        if (h->param[k]) device_free(d, h->param[k]);
    return fine;
}

bool graph_wait_for_device(Plan *plan, const LaunchInfo *head, KernelArg *args, Buf *err) {
    enum { LARGE = 8 << 20 };
    Runtime   *rt = plan->rt;
    Device    *d = runtime_device(rt);
    RunStages *s = runtime_options(rt)->stages;
    if (d->opening && !plan->placed && d->ops->runs_ptx) plan_fetch(plan);
    double     since = now_us();
    if (d->opening) {
        transfer_warm(store_transfer(rt));
        for (int p = 0; p < head->nparams; p++)
            if (param_written(&head->params[p]) && head->params[p].mode == PM_OUT &&
                tensor_bytes(args[p].tensor) > LARGE)
                host_touch(args[p].tensor->data, tensor_bytes(args[p].tensor));
    }
    bool fine = device_ready(d, s ? &s->device_us : NULL, err);
    stages_lap(s, RS_device, &since);
    return fine;
}

bool graph_launch(Runtime *rt, const TGraph *g, KernelArg *args, int nargs, const RunControl *ctl, Buf *err) {
    static const RunControl plain;
    const LaunchInfo *head = launch_from_typed(session_arena(runtime_session(rt)), g->head);
    OnHost *h = heap_alloc(sizeof *h);
    for (int p = 0; p < nargs; p++) describe_arg(&args[p], &h->args[p]);
    Plan *p = bind_args(head, h->args, nargs, &h->bound, err) ? plan_make(rt, g, NULL, err) : NULL;
    bool fine = p && make_outputs(head, args, h->args, err) && graph_wait_for_device(p, head, args, err) &&
                plan_run_on_host(p, h, head, args, ctl ? ctl : &plain, err);
    plan_free(p);
    heap_free(h);
    return fine;
}

void runtime_serves(Runtime *rt, SemaFile *file) {
    sema_weights(file, runtime_weight, rt);
    sema_chooser(file, graph_choose, rt);
    sema_alone_chooser(file, alone_choose, rt);
}

// Graphs, run: on device addresses (plan_run), on host tensors (graph_launch), and for all sizes (graph_run), with a
// plan for each set of dimensions and scalars that came up.
//
// A plan is prepared for the addresses of its first run, and again when they change. Then a run is a list of
// launches; on a device that has graphs of its own, from the second run on one launch of such a graph. (Making it takes
// longer than launching one by one: where each run is of another length, it would be for nothing.)

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

static bool at_launch(Plan *p, PlanLaunch *l, bool (*act)(PlanLaunch *l, Runtime *rt, Buf *err), Buf *err)
{
    Buf  why = {0};
    bool fine = act(l, p->rt, &why);
    if (!fine && why.n) plan_where(p->rt, l, err);
    if (!fine) buf_add(err, why.p ? why.p : "", why.n);
    buf_free(&why);
    return fine;
}

// The code of all launches: first the variants that use facts, then those of launches whose facts do not hold.
static bool compile_plan(Plan *p, Buf *err)
{
    Compiled **list = checked_alloc(sizeof *list * ((size_t)p->nlaunches + 1));
    bool      *general = checked_alloc(sizeof *general * ((size_t)p->nlaunches + 1)), fine = true;
    for (int round = 0; round < 2 && fine; round++) {
        int n = 0;
        for (int i = 0; i < p->nlaunches; i++) {
            PlanLaunch *l = &p->launch[i];
            if (round && !at_launch(p, l, plan_facts, err)) { fine = false; break; }
            if ((round && !l->general) || compiled_tried(l->compiled, round)) continue;
            general[n] = round;
            list[n++] = l->compiled;
        }
        fine = fine && (!n || compile_all(p->rt, list, general, n, err));
    }
    free(list);
    free(general);
    return fine;
}

static bool prepare_all(Plan *p, const uint64_t *param, Buf *err)
{
    p->prepared = false;
    for (int i = 0; i < p->nlaunches; i++) {
        PlanLaunch *l = &p->launch[i];
        for (int k = 0; k < l->launch->kernel->nparams; k++)
            if (l->launch->args[k].tensor >= 0) l->args[k].address = address_of(p, l->launch->args[k].tensor, param);
    }
    if (runtime_device(p->rt)->ops->runs_ptx && !compile_plan(p, err)) return false;
    uint64_t most[SCRATCH_KINDS] = {0}, own[SCRATCH_KINDS];
    for (int i = 0; i < p->nlaunches; i++) {
        if (!at_launch(p, &p->launch[i], plan_variant, err)) return false;
        bind_scratch(p->launch[i].bound, own);
        for (int k = 0; k < SCRATCH_KINDS; k++) most[k] = own[k] > most[k] ? own[k] : most[k];
    }
    if (!store_scratch(p->rt, most, p->scratch, err)) return false;
    for (int i = 0; i < p->nlaunches; i++) {
        memcpy(p->launch[i].bound->scratch, p->scratch, sizeof p->scratch);
        if (!at_launch(p, &p->launch[i], plan_prepare, err)) return false;
    }
    memcpy(p->param, param, sizeof *param * (size_t)p->graph->head->nparams);
    p->prepared = true;
    return true;
}

static bool same_addresses(const Plan *p, const uint64_t *param)
{
    return p->prepared && memcmp(p->param, param, sizeof *param * (size_t)p->graph->head->nparams) == 0;
}

bool plan_as_one(Plan *p, Buf *err)
{
    Device     *d = runtime_device(p->rt);
    if (p->device_graph || p->apart || !d->ops->graph_make) return true;
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
    p->apart = !p->device_graph;
    return p->device_graph || err->n == before;
}

static bool prepare_for(Plan *p, const uint64_t *param, Buf *err)
{
    Device *d = runtime_device(p->rt);
    if (same_addresses(p, param)) return true;
    if (p->device_graph) d->ops->graph_free(d, p->device_graph);
    p->device_graph = NULL;
    p->again = p->apart = false;
    return prepare_all(p, param, err);
}

bool plan_run(Plan *p, const uint64_t *param, const RunControl *ctl, Buf *err)
{
    Device *d = runtime_device(p->rt);
    if (!plan_place(p, err) || !prepare_for(p, param, err)) return false;
    if (ctl && ctl->watch) return plan_watch(p, ctl, err);
    if (p->again && !plan_as_one(p, err)) return false;
    p->again = true;
    bool no_wait = ctl && ctl->no_wait;
    void *stream = ctl ? ctl->stream : NULL;
    if (p->device_graph) return d->ops->graph_launch(d, p->device_graph, stream, err) && (no_wait || d->ops->sync(d, err));
    for (int i = 0; i < p->nlaunches; i++) {
        const Prepared *l = &p->launch[i].prepared;
        bool on_stream = stream && d->ops->launch_on;
        if (on_stream && l->empty) continue;
        if (!(on_stream ? d->ops->ready(d, &l->launch, err) && d->ops->launch_on(d, &l->launch, stream, err) : plan_launch(&p->launch[i], p->rt, ctl, err))) return false;
    }
    return no_wait || d->ops->sync(d, err);
}

// ---- on host tensors -----------------------------------------------------------------------------

typedef struct OnHost { BindArg args[MAX_PARAMS]; Bound bound; uint64_t param[MAX_PARAMS]; } OnHost;

static bool copy_in(OnHost *h, const LaunchInfo *head, Device *d, KernelArg *args, const RunControl *ctl, Buf *err)
{
    for (int p = 0; p < head->nparams; p++) {
        const LaunchParam *want = &head->params[p];
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

static bool copy_out(const OnHost *h, const LaunchInfo *head, Runtime *rt, KernelArg *args, Buf *err)
{
    for (int p = 0; p < head->nparams; p++) {
        if (!param_written(&head->params[p])) continue;
        if (!transfer_back(store_transfer(rt), args[p].tensor->data, h->param[p], tensor_bytes(args[p].tensor), err)) return false;
    }
    return true;
}

static bool run_on_host(Plan *p, OnHost *h, const LaunchInfo *head, KernelArg *args, const RunControl *ctl, Buf *err)
{
    Device *d = runtime_device(p->rt);
    d->junk = junk_of(ctl);
    d->junk_seed = ctl->junk_seed;
    d->in_order = ctl->in_order;
    RunStages *s = runtime_options(p->rt)->stages;
    bool fine = plan_place(p, err);
    double since = now_us();
    fine = fine && copy_in(h, head, d, args, ctl, err);
    if (fine && ctl->junk != FILL_ZERO) fine = d->ops->fill(d, p->arena, p->arena_bytes, ctl->junk, ctl->junk_seed + 99, err);
    fine = fine && prepare_for(p, h->param, err);
    stages_lap(s, RS_bind, &since);
    fine = fine && plan_run(p, h->param, ctl, err);
    stages_lap(s, RS_run, &since);
    fine = fine && copy_out(h, head, p->rt, args, err);
    stages_lap(s, RS_results, &since);
    if (fine && ctl->profile) fine = plan_profile(p, ctl, err);
    stages_lap(s, RS_profile, &since);
    for (int k = 0; k < head->nparams; k++)
        if (h->param[k]) d->ops->free(d, h->param[k]);
    return fine;
}

// The device may not be ready before the plan is: meanwhile results get their memory.
static bool wait_for_device(Runtime *rt, const LaunchInfo *head, KernelArg *args, Buf *err)
{
    enum { LARGE = 8 << 20 };
    Device    *d = runtime_device(rt);
    RunStages *s = runtime_options(rt)->stages;
    double     since = now_us();
    if (d->opening) {
        transfer_warm(store_transfer(rt));
        for (int p = 0; p < head->nparams; p++)
            if (param_written(&head->params[p]) && head->params[p].mode == PM_OUT && tensor_bytes(args[p].tensor) > LARGE) host_touch(args[p].tensor->data, tensor_bytes(args[p].tensor));
    }
    bool fine = device_ready(d, s ? &s->device_us : NULL, err);
    stages_lap(s, RS_device, &since);
    return fine;
}

bool graph_launch(Runtime *rt, const TGraph *g, KernelArg *args, int nargs, const RunControl *ctl, Buf *err)
{
    static const RunControl plain;
    const LaunchInfo *head = launch_from_typed(session_arena(runtime_session(rt)), g->head);
    OnHost *h = checked_alloc(sizeof *h);
    for (int p = 0; p < nargs; p++) describe_arg(&args[p], &h->args[p]);
    Plan *p = bind_args(head, h->args, nargs, &h->bound, err) ? plan_make(rt, g, err) : NULL;
    bool  fine = p && make_outputs(head, args, h->args, err) && wait_for_device(rt, head, args, err) && run_on_host(p, h, head, args, ctl ? ctl : &plain, err);
    plan_free(p);
    free(h);
    return fine;
}

void runtime_serves(Runtime *rt, SemaFile *file)
{
    sema_weights(file, runtime_weight, rt);
    sema_chooser(file, graph_choose, rt);
}

// ---- a graph, for all sizes ----------------------------------------------------------------------

enum { MAX_PLANS = 32 };

typedef struct Planned { int64_t dims[MAX_DIMS]; BindArg scalars[MAX_PARAMS]; Plan *plan; uint64_t used; } Planned;

struct GraphExec {
    Runtime    *rt;
    SemaFile   *file;
    const Node *graph;
    const SemaValue *set;   int nset;
    SemaValue  *types;      int ntypes;          // element types that the arguments gave
    TKernel    *head;
    const LaunchInfo *info;
    Planned     planned[MAX_PLANS]; int nplanned;
    uint64_t    runs;
    int         made;                            // plans, so far
    const Plan *last;                            // that ran
    Plan       *out;                             // made room for another: it goes while the GPU runs that one
    Arena      *scratch;                         // of elaboration, one chunk, warm in the caches
    size_t      scratch_room;
    ArenaMark   empty;
};

GraphExec *graph_open(Runtime *rt, SemaFile *file, const Node *graph, const SemaValue *set, int nset, const SemaValue *known, int nknown)
{
    TKernel *head = sema_graph_head(file, graph, set, nset, known, nknown);
    if (!head) return NULL;
    GraphExec *x = checked_alloc(sizeof *x);
    Arena *a = session_arena(runtime_session(rt));
    *x = (GraphExec){.rt = rt, .file = file, .graph = graph, .set = set, .nset = nset, .head = head, .info = launch_from_typed(a, head)};
    x->types = NEW_N(a, SemaValue, nknown + 1);
    for (int i = 0; i < nknown; i++) if (known[i].is_type) x->types[x->ntypes++] = known[i];
    runtime_serves(rt, file);
    return x;
}

const TKernel *graph_head(const GraphExec *x) { return x->head; }
const LaunchInfo *graph_info(const GraphExec *x) { return x->info; }

void graph_close(GraphExec *x)
{
    if (!x) return;
    for (int i = 0; i < x->nplanned; i++) plan_free(x->planned[i].plan);
    plan_free(x->out);
    if (x->scratch) arena_free(x->scratch);
    free(x);
}

static bool planned_for(const GraphExec *x, const Planned *p, const Bound *b, const BindArg *args)
{
    if (memcmp(p->dims, b->dims, sizeof *p->dims * (size_t)x->info->ndims) != 0) return false;
    for (int i = 0; i < x->info->nparams; i++)
        if (x->info->params[i].kind == PK_SCALAR && (p->scalars[i].ival != args[i].ival || p->scalars[i].fval != args[i].fval)) return false;
    return true;
}

// Of one chunk that is twice what was needed before, emptied.
static Arena *scratch_of(GraphExec *x)
{
    enum { LEAST = 64 << 10 };
    if (x->scratch && arena_bytes(x->scratch) == x->scratch_room) { arena_reset(x->scratch, x->empty); return x->scratch; }
    x->scratch_room = x->scratch ? 2 * arena_bytes(x->scratch) : LEAST;
    if (x->scratch) arena_free(x->scratch);
    x->scratch = arena_sized(x->scratch_room);
    arena_alloc(x->scratch, 1);
    x->empty = arena_mark(x->scratch);
    return x->scratch;
}

static Plan *plan_new(GraphExec *x, const Bound *b, const BindArg *args, Buf *err)
{
    SemaValue known[MAX_DIMS * 2];
    TValue    scalars[MAX_PARAMS] = {{0}};
    int       n = 0;
    for (int i = 0; i < x->ntypes && n < MAX_DIMS; i++) known[n++] = x->types[i];
    for (int i = 0; i < x->info->ndims; i++) known[n++] = (SemaValue){.name = x->info->dims[i].name->s, .ival = b->dims[i]};
    for (int p = 0; p < x->info->nparams; p++) scalars[p] = (TValue){.tensor = -1, .elem = x->info->params[p].elem, .ival = args[p].ival, .fval = args[p].fval};
    Arena  *a = arena_new();
    TGraph *g = sema_graph_again(x->file, x->graph, x->head, x->set, x->nset, known, n, scalars, scratch_of(x), a);
    Plan   *p = g ? plan_make(x->rt, g, err) : NULL;
    if (p) p->arena_of_graph = a;
    else arena_free(a);
    return p;
}

// The plan for these dimensions and scalars; the one that was not used for longest makes room.
static Plan *plan_for(GraphExec *x, const Bound *b, const BindArg *args, Buf *err)
{
    Planned *free_one = NULL;
    x->runs++;
    for (int i = 0; i < x->nplanned; i++) {
        Planned *p = &x->planned[i];
        if (planned_for(x, p, b, args)) { p->used = x->runs; return p->plan; }
        if (!free_one || p->used < free_one->used) free_one = p;
    }
    Plan *plan = plan_new(x, b, args, err);
    if (!plan) return NULL;
    x->made++;
    if (x->nplanned < MAX_PLANS) free_one = &x->planned[x->nplanned++];
    else {
        if (x->last == free_one->plan) x->last = NULL;
        plan_free(x->out);
        x->out = free_one->plan;
    }
    *free_one = (Planned){.plan = plan, .used = x->runs};
    memcpy(free_one->dims, b->dims, sizeof b->dims);
    memcpy(free_one->scalars, args, sizeof *args * (size_t)x->info->nparams);
    return plan;
}

bool graph_run(GraphExec *x, KernelArg *args, int nargs, const RunControl *ctl, Buf *err)
{
    static const RunControl plain;
    OnHost *h = checked_alloc(sizeof *h);
    for (int p = 0; p < nargs; p++) describe_arg(&args[p], &h->args[p]);
    double since = now_us();
    Plan *p = bind_args(x->info, h->args, nargs, &h->bound, err) ? plan_for(x, &h->bound, h->args, err) : NULL;
    stages_lap(runtime_options(x->rt)->stages, RS_plan, &since);
    bool fine = p && make_outputs(x->info, args, h->args, err) && wait_for_device(x->rt, x->info, args, err) && run_on_host(p, h, x->info, args, ctl ? ctl : &plain, err);
    free(h);
    return fine;
}

GraphFailure graph_run_at(GraphExec *x, BindArg *args, const RunControl *ctl, Buf *err)
{
    Bound   *b = checked_alloc(sizeof *b);
    uint64_t param[MAX_PARAMS];
    int      n = x->info->nparams;
    GraphFailure r = bind_args(x->info, args, n, b, err) && bind_overlap(b, err) ? GRAPH_FINE : GRAPH_ARGUMENTS;
    Plan *p = r == GRAPH_FINE ? plan_for(x, b, args, err) : NULL;
    for (int i = 0; i < n; i++) param[i] = args[i].address;
    if (r == GRAPH_FINE && !(p && plan_run(p, param, ctl, err) && (!ctl->profile || plan_profile(p, ctl, err)))) r = GRAPH_DEVICE;
    if (r == GRAPH_FINE) x->last = p;
    plan_free(x->out);
    x->out = NULL;
    free(b);
    return r;
}

GraphStats graph_stats(const GraphExec *x)
{
    GraphStats s = {.plans = x->nplanned, .plans_made = x->made, .compiled = runtime_stats(x->rt).compiled, .decided = graph_decided(*runtime_choices(x->rt))};
    store_stats(x->rt, &s);
    if (x->last) { s.launches = x->last->nlaunches; s.live = x->last->live_bytes; }
    return s;
}

bool graph_print_plan(GraphExec *x, const SemaValue *values, int nvalues, Buf *out, Buf *err)
{
    Bound   *b = checked_alloc(sizeof *b);
    BindArg *args = checked_alloc(sizeof *args * MAX_PARAMS);
    int64_t  given[MAX_DIMS];
    memset(given, 0xff, sizeof given);
    for (int i = 0; i < nvalues; i++) {
        for (int k = 0; k < x->info->ndims; k++)
            if (strcmp(values[i].name, x->info->dims[k].name->s) == 0) given[k] = values[i].ival;
        for (int p = 0; p < x->info->nparams; p++)
            if (strcmp(values[i].name, x->info->params[p].name->s) == 0) args[p] = (BindArg){.ival = values[i].ival, .fval = (double)values[i].ival};
    }
    for (int p = 0; p < x->info->nparams; p++) b->scalars[p] = args[p].ival;
    Plan *p = bind_dims(x->info, given, b, err) ? plan_for(x, b, args, err) : NULL;
    bool  fine = p && plan_print(p, runtime_options(x->rt)->compile.target->name, out, err);
    free(b);
    free(args);
    return fine;
}

// Graphs for all sizes: a plan for each set of dimensions and scalars that came up.
//
//     dimensions -> is there a plan?       yes: it is run
//                   is there a pattern?    yes: its recipe gives all numbers (sema/recipe.c), and a plan is made of them
//                   else                   the graph is run through, and leaves a pattern for sizes like these
//
// A pattern is a graph with its recipe: which launches there are, of which kernels, and how every number among them
// follows from the dimensions. So a step of a length that never came up before looks at no word of the program. Sizes
// for which another tile is better, or another branch is taken, have patterns of their own. The plans and the patterns
// that were used last are kept.

#include "runtime/graph.h"

#include "lower/build.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PLANS = 32, MAX_PATTERNS = 16 };

// dims: of the graph; scalars: by parameter
typedef struct Planned { int64_t *dims; TValue *scalars; Plan *plan; uint64_t used; } Planned;

struct GraphExec {
    Runtime    *rt;
    SemaFile   *file;
    const Node *graph;
    const SemaValue *set;   int nset;
    SemaValue  *types;      int ntypes;          // element types that the arguments gave
    TKernel    *head;
    const LaunchInfo *info;
    Planned     planned[MAX_PLANS]; int nplanned;
    Pattern    *pattern[MAX_PATTERNS]; int npatterns;
    uint64_t    runs;
    int         made, elaborated;                // plans, so far; of them by running the graph through
    const Plan *last;                            // that ran
    Plan       *out;                             // made room for another: it goes while the GPU runs that one
    Arena      *scratch;                         // of elaboration, one chunk, warm in the caches
    size_t      scratch_room;
    ArenaMark   empty;
};

GraphExec *graph_open(Runtime *rt, InstanceOf of) {
    TKernel *head = sema_graph_head(of);
    if (!head) return NULL;
    GraphExec *x = heap_alloc(sizeof *x);
    Arena *a = session_arena(runtime_session(rt));
    *x = (GraphExec){.rt = rt,
                     .file = of.file,
                     .graph = of.item,
                     .set = of.set,
                     .nset = of.nset,
                     .head = head,
                     .info = launch_from_typed(a, head)};
    x->types = NEW_N(a, SemaValue, of.nknown + 1);
    for (int i = 0; i < of.nknown; i++) if (of.known[i].is_type) x->types[x->ntypes++] = of.known[i];
    runtime_serves(rt, of.file);
    return x;
}

const TKernel *graph_head(const GraphExec *x) { return x->head; }
const LaunchInfo *graph_info(const GraphExec *x) { return x->info; }

void graph_close(GraphExec *x) {
    if (!x) return;
    for (int i = 0; i < x->nplanned; i++) plan_free(x->planned[i].plan), heap_free(x->planned[i].scalars), heap_free(x->planned[i].dims);
    plan_free(x->out);
    for (int i = 0; i < x->npatterns; i++) pattern_leave(x->pattern[i]);
    if (x->scratch) arena_free(x->scratch);
    heap_free(x);
}

static bool planned_for(const GraphExec *x, const Planned *p, const Bound *b, const BindArg *args) {
    if (memcmp(p->dims, b->dims, sizeof *p->dims * (size_t)x->info->ndims) != 0) return false;
    for (int i = 0; i < x->info->nparams; i++)
        if (x->info->params[i].kind == PK_SCALAR &&
            (p->scalars[i].ival != args[i].ival || p->scalars[i].fval != args[i].fval))
            return false;
    return true;
}

// Of one chunk that is twice what was needed before, emptied.
static Arena *scratch_of(GraphExec *x) {
    enum { LEAST = 64 << 10 };
    if (x->scratch && arena_bytes(x->scratch) == x->scratch_room) { arena_reset(x->scratch, x->empty); return x->scratch; }
    x->scratch_room = x->scratch ? 2 * arena_bytes(x->scratch) : LEAST;
    if (x->scratch) arena_free(x->scratch);
    x->scratch = arena_sized(x->scratch_room);
    arena_alloc(x->scratch, 1);
    x->empty = arena_mark(x->scratch);
    return x->scratch;
}

static int known_sizes(const GraphExec *x, const Bound *b, SemaValue *known) {
    int n = 0;
    for (int i = 0; i < x->ntypes && n < MAX_GRAPH_DIMS; i++) known[n++] = x->types[i];
    for (int i = 0; i < x->info->ndims; i++) known[n++] = (SemaValue){.name = x->info->dims[i].name->s, .ival = b->dims[i]};
    return n;
}

// The pattern that was not used for longest makes room.
static Pattern *pattern_keep(GraphExec *x, TGraph *g, const TValue *scalars, Arena *arena) {
    Pattern *p = pattern_new(x->rt, g, scalars, arena);
    p->used = x->runs;
    int at = 0;
    for (int i = 1; i < x->npatterns; i++)
        if (x->pattern[i]->used < x->pattern[at]->used) at = i;
    if (x->npatterns < MAX_PATTERNS) at = x->npatterns++;
    else pattern_leave(x->pattern[at]);
    x->pattern[at] = p;
    return p;
}

static void plan_of_pattern(Plan *plan, Pattern *p) {
    plan->pattern = p;
    p->users++;
    p->like = plan;
}

// The graph is run through.
static Plan *plan_elaborated(GraphExec *x, const Bound *b, const TValue *scalars, Buf *err) {
    SemaValue known[MAX_GRAPH_DIMS * 2];
    int     n = known_sizes(x, b, known);
    Arena  *a = arena_new();
    TGraph *g = sema_graph_again((InstanceOf){x->file, x->graph, x->set, x->nset, known, n}, x->head, scalars, scratch_of(x), a);
    Plan   *p = g ? plan_make(x->rt, g, NULL, err) : NULL;
    x->elaborated++;
    if (!p) { arena_free(a); return NULL; }
    if (g->recipe) plan_of_pattern(p, pattern_keep(x, g, scalars, a));
    else p->arena_of_graph = a;
    return p;
}

static bool same_scalars(const GraphExec *x, const TValue *a, const TValue *b) {
    for (int i = 0; i < x->info->nparams; i++)
        if (x->info->params[i].kind == PK_SCALAR && (a[i].ival != b[i].ival || a[i].fval != b[i].fval)) return false;
    return true;
}

// By a pattern, the one that was used last first. NULL: none is for these sizes. What is wrong with them is said by
// elaboration.
static Plan *plan_by_pattern(GraphExec *x, const Bound *b, const TValue *scalars) {
    Buf    nobody = {0};
    bool   tried[MAX_PATTERNS] = {false};
    Arena *a = x->npatterns ? arena_new() : NULL;
    Plan  *plan = NULL;
    for (int round = 0; round < x->npatterns && !plan; round++) {
        int at = -1;
        for (int i = 0; i < x->npatterns; i++)
            if (!tried[i] && (at < 0 || x->pattern[i]->used > x->pattern[at]->used)) at = i;
        Pattern *p = x->pattern[at];
        tried[at] = true;
        TGraph *g = same_scalars(x, p->scalars, scalars) ? sema_graph_resize(x->file, p->graph, b->dims, a) : NULL;
        if (!g) continue;
        plan = plan_make(x->rt, g, p->like, &nobody);
        if (!plan) break;
        p->used = x->runs;
        plan->arena_of_graph = a;
        plan->by_recipe = true;
        plan_of_pattern(plan, p);
    }
    if (!plan && a) arena_free(a);
    buf_free(&nobody);
    return plan;
}

static TValue *scalars_of(const GraphExec *x, const BindArg *args) {
    TValue *at = heap_alloc(sizeof *at * ((size_t)x->info->nparams + 1));
    for (int p = 0; p < x->info->nparams; p++)
        at[p] = (TValue){.tensor = -1, .elem = x->info->params[p].elem, .ival = args[p].ival, .fval = args[p].fval};
    return at;
}

static Plan *plan_new(GraphExec *x, const Bound *b, const TValue *scalars, Buf *err) {
    Plan *p = plan_by_pattern(x, b, scalars);
    return p ? p : plan_elaborated(x, b, scalars, err);
}

// The plan for these dimensions and scalars; the one that was not used for longest makes room.
static Plan *plan_for(GraphExec *x, const Bound *b, const BindArg *args, Buf *err) {
    Planned *free_one = NULL;
    x->runs++;
    for (int i = 0; i < x->nplanned; i++) {
        Planned *p = &x->planned[i];
        if (planned_for(x, p, b, args)) { p->used = x->runs; return p->plan; }
        if (!free_one || p->used < free_one->used) free_one = p;
    }
    TValue *scalars = scalars_of(x, args);
    Plan *plan = plan_new(x, b, scalars, err);
    if (!plan) return heap_free(scalars), NULL;
    x->made++;
    if (x->nplanned < MAX_PLANS) free_one = &x->planned[x->nplanned++];
    else {
        if (x->last == free_one->plan) x->last = NULL;
        plan_free(x->out);
        x->out = free_one->plan;
        heap_free(free_one->scalars);
        heap_free(free_one->dims);
    }
    size_t sizes = sizeof *b->dims * (size_t)x->info->ndims;
    *free_one = (Planned){.dims = heap_alloc(sizes + 1), .plan = plan, .scalars = scalars, .used = x->runs};
    memcpy(free_one->dims, b->dims, sizes);
    return plan;
}

bool graph_run(GraphExec *x, KernelArg *args, int nargs, const RunControl *ctl, Buf *err) {
    static const RunControl plain;
    OnHost *h = heap_alloc(sizeof *h);
    for (int p = 0; p < nargs; p++) describe_arg(&args[p], &h->args[p]);
    double since = now_us();
    Plan *p = bind_args(x->info, h->args, nargs, &h->bound, err) ? plan_for(x, &h->bound, h->args, err) : NULL;
    stages_lap(runtime_options(x->rt)->stages, RS_plan, &since);
    bool fine = p && make_outputs(x->info, args, h->args, err) && graph_wait_for_device(p, x->info, args, err) &&
                plan_run_on_host(p, h, x->info, args, ctl ? ctl : &plain, err);
    heap_free(h);
    return fine;
}

GraphFailure graph_run_at(GraphExec *x, BindArg *args, const RunControl *ctl, Buf *err) {
    Bound   *b = heap_room(sizeof *b);                      // bind_args sets what there is of it
    uint64_t param[MAX_GRAPH_PARAMS];
    int      n = x->info->nparams;
    if (!b) ice("out of memory");
    GraphFailure r = bind_args(x->info, args, n, b, err) && bind_overlap(b, err) ? GRAPH_FINE : GRAPH_ARGUMENTS;
    Plan *p = r == GRAPH_FINE ? plan_for(x, b, args, err) : NULL;
    for (int i = 0; i < n; i++) param[i] = args[i].address;
    if (r == GRAPH_FINE && !(p && plan_run(p, param, ctl, err) && (!ctl->profile || plan_profile(p, ctl, err))))
        r = GRAPH_DEVICE;
    if (r == GRAPH_FINE) x->last = p;
    plan_free(x->out);
    x->out = NULL;
    heap_free(b);
    return r;
}

GraphStats graph_stats(const GraphExec *x) {
    GraphStats s = {.plans = x->nplanned,
                    .plans_made = x->made,
                    .elaborated = x->elaborated,
                    .compiled = runtime_stats(x->rt).compiled,
                    .decided = graph_decided(*runtime_choices(x->rt))};
    store_stats(x->rt, &s);
    if (x->last) { s.launches = x->last->nlaunches; s.live = plan_live_bytes(x->last); }
    return s;
}

bool graph_print_plan(GraphExec *x, const SemaValue *values, int nvalues, Buf *out, Buf *err) {
    Bound   *b = heap_alloc(sizeof *b);
    BindArg *args = heap_alloc(sizeof *args * MAX_GRAPH_PARAMS);
    int64_t  given[MAX_GRAPH_DIMS];
    memset(given, 0xff, sizeof given);
    for (int i = 0; i < nvalues; i++) {
        for (int k = 0; k < x->info->ndims; k++)
            if (strcmp(values[i].name, x->info->dims[k].name->s) == 0) given[k] = values[i].ival;
        for (int p = 0; p < x->info->nparams; p++)
            if (strcmp(values[i].name, x->info->params[p].name->s) == 0)
                args[p] = (BindArg){.ival = values[i].ival, .fval = (double)values[i].ival};
    }
    for (int p = 0; p < x->info->nparams; p++) b->scalars[p] = args[p].ival;
    Plan *p = bind_dims(x->info, given, b, err) ? plan_for(x, b, args, err) : NULL;
    bool  fine = p && plan_print(p, runtime_options(x->rt)->compile.target->name, out, err);
    heap_free(b);
    heap_free(args);
    return fine;
}

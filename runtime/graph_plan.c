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

uint64_t plan_bytes(const TGValue *v) {
    uint64_t n = (uint64_t)elem_bytes(v->elem);
    for (int i = 0; i < v->rank; i++) n *= (uint64_t)v->dim[i];
    return n;
}

int plan_root(const TGraph *g, int value) {
    while (g->values[value].kind == TG_view) value = g->values[value].base;
    return value;
}

uint64_t plan_offset(const TGraph *g, int value) {
    uint64_t n = 0;
    for (; g->values[value].kind == TG_view; value = g->values[value].base)
        n += (uint64_t)g->values[value].offset * (uint64_t)elem_bytes(g->values[value].elem);
    return n;
}

// Weights, and what is computed from them alone: a plan's launches do not write them. What is launched once is launched
// alone.
uint64_t plan_fixed_inputs(const TGLaunch *l, const TGraph *g) {
    uint64_t fixed = l->fixed ? 0 : OF_A_GRAPH;
    for (int p = 0; p < l->kernel->nparams; p++)
        if (!l->fixed && l->args[p].tensor >= 0 && g->values[plan_root(g, l->args[p].tensor)].fixed)
            fixed |= UINT64_C(1) << p;
    return fixed;
}

bool plan_bind(PlanLaunch *l, Runtime *rt, const TGraph *g, Buf *err) {
    const TKernel *k = l->launch->kernel;
    l->compiled = runtime_compile_fixed(rt, k, &l->launch->schedule, plan_fixed_inputs(l->launch, g), err);
    if (!l->compiled) return false;
    l->info = compiled_eval(l->compiled)->launch;
    if (!l->args) l->args = heap_room(sizeof *l->args * MAX_PARAMS);
    if (!l->bound) l->bound = heap_room(sizeof *l->bound);
    if (!l->bound || !l->args) ice("out of memory");
    for (int p = 0; p < k->nparams; p++) {
        const TValue *a = &l->launch->args[p];
        BindArg *b = &l->args[p];
        *b = (BindArg){.scalar = a->tensor < 0,
                       .elem = a->elem,
                       .ival = a->ival,
                       .fval = a->fval,
                       .is_float = elem_is_float(a->elem)};
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

PlanLaunch *launch_shared(PlanLaunch *l) { l->users++; return l; }

void launch_leave(Runtime *rt, PlanLaunch *l) {
    if (!l || --l->users) return;
    prepared_free(runtime_device(rt), &l->prepared);
    if (store_spare(rt, l)) return;
    heap_free(l->args);
    heap_free(l->bound);
    heap_free(l);
}

// ---- life ----------------------------------------------------------------------------------------

static bool in_arena(const TGValue *v) { return v->kind == TG_computed && !v->fixed; }

static void arena_items(Plan *p) {
    const TGraph *g = p->graph;
    p->items = heap_alloc(sizeof *p->items * (size_t)(g->nvalues + 1));
    p->item = heap_alloc(sizeof *p->item * (size_t)(g->nvalues + 1));
    memset(p->item, 0xff, sizeof *p->item * (size_t)(g->nvalues + 1));
    for (int i = 0; i < p->nlaunches; i++)
        for (int k = 0; k < p->launch[i]->launch->kernel->nparams; k++) {
            int value = p->launch[i]->launch->args[k].tensor;
            if (value < 0 || !in_arena(&g->values[value = plan_root(g, value)])) continue;
            if (p->item[value] < 0) {
                p->item[value] = p->nitems;
                p->items[p->nitems++] = (ArenaItem){.bytes = plan_bytes(&g->values[value]), .first = i};
            }
            p->items[p->item[value]].last = i;
        }
    p->arena_bytes = arena_plan(p->items, p->nitems);
}

// The values of another plan of this pattern, of other sizes. They lie as they do there, if there is room.
static void arena_items_like(Plan *p, const Plan *like) {
    const TGraph *g = p->graph;
    size_t values = (size_t)g->nvalues + 1;
    bool   fits = true;
    p->items = heap_alloc(sizeof *p->items * values);
    p->item = heap_alloc(sizeof *p->item * values);
    p->nitems = like->nitems;
    memcpy(p->items, like->items, sizeof *p->items * (size_t)p->nitems);
    memcpy(p->item, like->item, sizeof *p->item * (size_t)g->nvalues);
    for (int i = 0; i < g->nvalues && fits; i++)
        fits = p->item[i] < 0 || plan_bytes(&g->values[i]) <= p->items[p->item[i]].bytes;
    p->arena_bytes = like->arena_bytes;
    if (fits) return;
    for (int i = 0; i < g->nvalues; i++)
        if (p->item[i] >= 0) p->items[p->item[i]].bytes = plan_bytes(&g->values[i]);
    p->arena_bytes = arena_plan(p->items, p->nitems);
}

uint64_t plan_live_bytes(const Plan *p) {
    ArenaItem *items = heap_alloc(sizeof *items * ((size_t)p->nitems + 1));
    memcpy(items, p->items, sizeof *items * (size_t)p->nitems);
    for (int i = 0; i < p->graph->nvalues; i++)
        if (p->item[i] >= 0) items[p->item[i]].bytes = plan_bytes(&p->graph->values[i]);
    uint64_t n = arena_live_peak(items, p->nitems);
    heap_free(items);
    return n;
}

void plan_where(const Runtime *rt, const PlanLaunch *l, Buf *out) {
    if (!l->launch->span.hi) return;
    LineCol at = span_where(runtime_session(rt), l->launch->span.lo);
    buf_printf(out, "%s:%u:%u: ", at.src->path, at.line, at.col);
}

static bool same_sizes(const TGValue *v, const TGValue *w) {
    return v->offset == w->offset && memcmp(v->dim, w->dim, sizeof *v->dim * (size_t)v->rank) == 0;
}

// Is everything fixed what it is in another graph of the pattern? A size may be in the shape of what is computed once, or a
// scalar of its launch; a launch that reads the value may be the same for all sizes nevertheless.
static bool fixed_alike(const TGraph *g, const TGraph *other) {
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i].fixed && !same_sizes(&g->values[i], &other->values[i])) return false;
    for (int i = 0; i < g->nlaunches; i++)
        for (int k = 0; g->launches[i].fixed && k < g->launches[i].kernel->nparams; k++) {
            const TValue *a = &g->launches[i].args[k], *b = &other->launches[i].args[k];
            if (a->tensor < 0 && (a->ival != b->ival || a->fval != b->fval)) return false;
        }
    return true;
}

// Are a launch's numbers what they are in another graph of the pattern? kept: so is what is fixed.
static bool alike(const TGraph *g, const TGraph *other, const TGLaunch *l, bool kept) {
    for (int k = 0; k < l->kernel->nparams; k++) {
        if (l->args[k].tensor < 0 && l->args[k].row) return false;       // the arguments are the graph's own
        if (l->args[k].tensor < 0) continue;
        int value = l->args[k].tensor;
        if (!same_sizes(&g->values[value], &other->values[value])) return false;
        if (!kept && g->values[plan_root(g, value)].fixed) return false;
    }
    return true;
}

PlanLaunch *plan_launch_new(Plan *p, const TGLaunch *launch, Buf *err) {
    PlanLaunch *l = store_spared(p->rt);
    *l = (PlanLaunch){.users = 1, .own = *launch, .args = l->args, .bound = l->bound};
    l->launch = &l->own;
    Buf  why = {0};
    bool fine = plan_bind(l, p->rt, p->graph, &why);
    if (!fine && why.n) plan_where(p->rt, l, err);
    if (!fine) buf_add(err, why.p ? why.p : "", why.n);
    buf_free(&why);
    if (fine) return l;
    launch_leave(p->rt, l);
    return NULL;
}

static bool add_launch(Plan *p, const TGLaunch *launch, const Plan *like, bool kept, Buf *err) {
    if (like && alike(p->graph, like->graph, launch, kept)) {
        p->launch[p->nlaunches] = launch_shared(like->launch[p->nlaunches]);
        p->nlaunches++;
        return true;
    }
    PlanLaunch *l = plan_launch_new(p, launch, err);
    if (l) p->launch[p->nlaunches++] = l;
    return l != NULL;
}

Plan *plan_make(Runtime *rt, const TGraph *g, const Plan *like, Buf *err) {
    Plan *p = heap_alloc(sizeof *p);
    bool fine = true, kept = like && fixed_alike(g, like->graph);
    *p = (Plan){.rt = rt, .graph = g};
    p->launch = heap_alloc(sizeof *p->launch * (size_t)(g->nlaunches + 1));
    p->kept = heap_alloc(sizeof *p->kept * (size_t)(g->nvalues + 1));
    for (int i = 0; i < g->nlaunches && fine; i++)
        if (!g->launches[i].fixed) fine = add_launch(p, &g->launches[i], like, kept, err);
    if (fine && like) arena_items_like(p, like);
    else if (fine) arena_items(p);
    if (fine && kept && like->placed) {
        memcpy(p->kept, like->kept, sizeof *p->kept * (size_t)g->nvalues);
        p->placed = true;
    }
    if (fine) return p;
    plan_free(p);
    return NULL;
}

void plan_free(Plan *p) {
    if (!p) return;
    Device *d = runtime_device(p->rt);
    if (p->device_graph) device_graph_free(d, p->device_graph);
    for (int i = 0; i < p->nlaunches; i++) launch_leave(p->rt, p->launch[i]);
    heap_free(p->launch);
    heap_free(p->item);
    heap_free(p->items);
    heap_free(p->kept);
    if (p->arena_of_graph) arena_free(p->arena_of_graph);
    if (p->pattern && p->pattern->like == p) p->pattern->like = NULL;
    pattern_leave(p->pattern);
    heap_free(p);
}

// ---- memory --------------------------------------------------------------------------------------

enum { MANY_BYTES = 64 << 20, BAR = 40 };

// "weights [########........] 120 of 497 MB", over the line that was there; gone when all are loaded.
static void show_progress(const Plan *p, uint64_t done, uint64_t all) {
    FILE *to = runtime_options(p->rt)->progress_to;
    if (!to || all < MANY_BYTES) return;
    char bar[BAR + 1];
    for (int i = 0; i < BAR; i++) bar[i] = (uint64_t)i * all < done * BAR ? '#' : '.';
    bar[BAR] = 0;
    if (done < all)
        fprintf(to, "\rweights [%s] %llu of %llu MB", bar, (unsigned long long)(done >> 20),
                (unsigned long long)(all >> 20));
    else fprintf(to, "\r%*s\r", BAR + 40, "");
    fflush(to);
}

typedef struct Placing { const Plan *plan; uint64_t all, done; } Placing;

static RunStages *stages_of(const Plan *p) { return runtime_options(p->rt)->stages; }

static void loaded(void *ctx, uint64_t bytes) {
    const Placing *l = ctx;
    show_progress(l->plan, l->done + bytes, l->all);
}

// Fixed values that launches read, each once: those computed from others last.
static int fixed_values(const Plan *p, int *value, int *computed) {
    int   n = 0, m = 0;
    const TGraph *g = p->graph;
    bool *seen = heap_alloc(sizeof *seen * ((size_t)g->nvalues + 1));
    int  *late = heap_alloc(sizeof *late * ((size_t)g->nvalues + 1));
    for (int i = 0; i < p->nlaunches; i++)
        for (int k = 0; k < p->launch[i]->launch->kernel->nparams; k++) {
            int v = p->launch[i]->launch->args[k].tensor;
            if (v < 0 || !g->values[v = plan_root(g, v)].fixed || seen[v]) continue;
            seen[v] = true;
            if (g->values[v].kind == TG_computed) late[m++] = v;
            else value[n++] = v;
        }
    *computed = n;
    for (int i = 0; i < m; i++) value[n++] = late[i];
    heap_free(seen);
    heap_free(late);
    return n;
}

// The code of what runs each time, and of what is made once (once: by launch of the graph), all together.
static bool compile_ahead(Plan *p, const bool *once, Buf *err) {
    const TGraph *g = p->graph;
    Compiled **list = heap_alloc(sizeof *list * ((size_t)g->nlaunches + 1));
    bool      *general = heap_alloc(sizeof *general * ((size_t)g->nlaunches + 1)), fine = true;
    int        n = 0;
    for (int i = 0; i < p->nlaunches; i++) list[n++] = p->launch[i]->compiled;
    for (int i = 0; fine && i < g->nlaunches; i++) {
        if (!once[i] || !g->launches[i].fixed) continue;
        list[n] = runtime_compile(p->rt, g->launches[i].kernel, &g->launches[i].schedule, err);
        fine = list[n++] != NULL;
    }
    fine = fine && compile_all(p->rt, list, general, n, err);
    heap_free(list);
    heap_free(general);
    return fine;
}

void plan_fetch(Plan *p) {
    const TGraph *g = p->graph;
    RunStages *s = stages_of(p);
    double     since = now_us();
    Compiled **list = heap_alloc(sizeof *list * ((size_t)g->nlaunches + 1));
    bool       fine = true;
    Buf        none = {0};
    int        n = 0;
    for (int i = 0; i < p->nlaunches; i++) list[n++] = p->launch[i]->compiled;
    for (int i = 0; i < g->nlaunches && fine; i++) {
        if (!g->launches[i].fixed) continue;
        list[n] = runtime_compile(p->rt, g->launches[i].kernel, &g->launches[i].schedule, &none);
        fine = list[n++] != NULL;                            // said where it is compiled
    }
    p->fetched = fine && compile_fetch(p->rt, list, n);
    stages_lap(s, RS_compile, &since);
    buf_free(&none);
    heap_free(list);
}

// What making a value takes.
static bool bytes_of(Plan *p, int value, StoreNeeds *look, Buf *err) {
    *look = (StoreNeeds){.seen = heap_alloc((size_t)p->graph->nvalues + 1)};
    bool fine = store_ask(p->rt, p->graph, value, look, err);
    heap_free(look->seen);
    return fine;
}

// Values [from, to) that are computed once: as many as whose own weights there is room for where later ones will be; if
// there is none, as many as whose weights do not take more room than the arena will; one at least.
static bool ask_some(Plan *p, const int *value, int from, int *to, StoreNeeds *needs, Buf *err) {
    int      last = *to;
    uint64_t sum = 0, room = store_room(p->rt);
    StoreNeeds look;
    bool     lent = true;
    memset(needs->seen, 0, (size_t)p->graph->nvalues);
    for (*to = from; *to < last; ++*to) {
        if (!bytes_of(p, value[*to], &look, err)) return false;
        bool here = lent && sum + look.goes + look.stays <= room;
        if (*to > from && !here && (lent || sum + look.goes > p->arena_bytes)) break;
        lent = here;
        sum += here ? look.goes + look.stays : look.goes;
        store_lend(p->rt, lent);
        if (!store_ask(p->rt, p->graph, value[*to], needs, err)) return false;
    }
    return true;
}

static bool keep_value(Plan *p, int value, Buf *err) {
    p->kept[value] = store_get(p->rt, p->graph, value, err);
    if (p->kept[value]) store_keep(p->rt, p->kept[value]);
    return p->kept[value] != 0;
}

// What is read as it is in the files is on its way while kernels are compiled; then what is computed from weights,
// whose own go as soon as they are not needed.
static bool place(Plan *p, const int *value, int computed, int n, StoreNeeds *needs, Buf *err) {
    const TGraph *g = p->graph;
    Device  *d = runtime_device(p->rt);
    Placing  l = {.plan = p};
    int      to = n;
    bool     fine = true;
    for (int i = 0; i < n; i++) l.all += plan_bytes(&g->values[value[i]]);
    for (int i = computed; fine && i < n; i++) fine = store_ask(p->rt, g, value[i], needs, err);      // which launches
    bool once = memchr(needs->launch, true, (size_t)g->nlaunches) != NULL;
    needs->load = true;
    memset(needs->seen, 0, (size_t)g->nvalues);
    for (int i = 0; fine && i < computed; i++) fine = store_ask(p->rt, g, value[i], needs, err);
    fine = fine && ask_some(p, value, computed, &to, needs, err);
    // machine code that is at hand is loaded first: a millisecond, and several beside copies
    for (int last = 0; fine && last < 2; last++) {
        if (d->ops->runs_ptx && p->fetched != last) fine = compile_ahead(p, needs->launch, err);
        if (fine && !last) transfer_start(store_transfer(p->rt));
    }
    double since = now_us();
    for (int from = computed; fine; from = to, to = n) {
        if (from > computed) fine = ask_some(p, value, from, &to, needs, err);
        if (fine && from > computed) transfer_start(store_transfer(p->rt));
        fine = fine && store_wait(p->rt, loaded, &l, err);
        stages_lap(stages_of(p), RS_weights, &since);
        for (int i = 0; fine && from == computed && i < computed; i++) {
            fine = keep_value(p, value[i], err);
            l.done += plan_bytes(&g->values[value[i]]);
        }
        for (int i = from; fine && i < to; i++) {
            fine = keep_value(p, value[i], err);
            l.done += plan_bytes(&g->values[value[i]]);
        }
        fine = fine && (!once || d->ops->sync(d, err));
        if (fine) store_trim(p->rt);
        stages_lap(stages_of(p), RS_once, &since);
        if (to == n) break;
    }
    show_progress(p, l.all, l.all);
    return fine;
}

static bool place_kept(Plan *p, Buf *err) {
    size_t room = (size_t)p->graph->nvalues + 1;
    int   *value = heap_alloc(sizeof *value * room), computed, n = fixed_values(p, value, &computed);
    StoreNeeds needs = {.seen = heap_alloc(room), .launch = heap_alloc((size_t)p->graph->nlaunches + 1)};
    bool fine = place(p, value, computed, n, &needs, err);
    TransferStats sent = transfer_stats(store_transfer(p->rt));
    RunStages *s = stages_of(p);
    if (s)
        s->weights_us = sent.us, s->made_us = sent.made_us, s->sent_us = sent.sent_us, s->weight_bytes = sent.bytes,
        s->threads = sent.threads;
    if (!fine) store_abandon(p->rt);
    heap_free(value);
    heap_free(needs.seen);
    heap_free(needs.launch);
    return fine;
}

static bool reserve(Plan *p, Buf *err) {
    bool *values = heap_alloc(sizeof *values * ((size_t)p->graph->nvalues + 1));
    for (int i = 0; i < p->nlaunches; i++)
        for (int k = 0; k < p->launch[i]->launch->kernel->nparams; k++) {
            int value = p->launch[i]->launch->args[k].tensor;
            if (value >= 0 && p->graph->values[value = plan_root(p->graph, value)].fixed) values[value] = true;
        }
    bool fine = store_reserve(p->rt, p->graph, values, err);
    heap_free(values);
    return fine;
}

bool plan_place(Plan *p, Buf *err) {
    bool fine = p->placed || (reserve(p, err) && place_kept(p, err));
    if (!p->placed) store_settle(p->rt);
    p->placed = fine;
    uint64_t arena = fine ? store_arena(p->rt, p->arena_bytes, err) : 0;
    static const uint64_t no_more[SCRATCH_KINDS];
    uint64_t scratch[SCRATCH_KINDS] = {0};
    fine = fine && store_scratch(p->rt, no_more, scratch, err);
    if (arena != p->arena || memcmp(scratch, p->scratch, sizeof scratch) != 0) p->prepared = false;
    memcpy(p->scratch, scratch, sizeof scratch);
    p->arena = arena;
    return fine && arena != 0;
}

bool plan_facts(PlanLaunch *l, Runtime *rt, Buf *err) {
    l->bound->args = l->args;
    if (!compiled_kernel(rt, l->compiled, &l->info, &l->kernel, false, err)) return false;
    l->bound->info = l->info;
    l->general = bind_variant(l->bound, NULL) != l->info;
    return true;
}

bool plan_variant(PlanLaunch *l, Runtime *rt, Buf *err) {
    l->bound->args = l->args;
    l->bound->info = l->info;
    if (!bind_overlap(l->bound, err)) return false;
    if (l->general && !compiled_kernel(rt, l->compiled, &l->info, &l->kernel, true, err)) return false;
    l->bound->info = l->info;
    return true;
}

bool plan_prepare(PlanLaunch *l, Runtime *rt, Buf *err) {
    Device *d = runtime_device(rt);
    if (!d->ops->runs_ptx) return true;
    prepared_free(d, &l->prepared);
    return prepare(d, l->info, l->bound, &l->kernel, &l->prepared, err);
}

bool plan_launch(PlanLaunch *l, Runtime *rt, const RunControl *ctl, Buf *err) {
    if (runtime_device(rt)->ops->runs_ptx) {
        if (prepared_launch(runtime_device(rt), &l->prepared, err)) return true;
        compiled_with(l->compiled, err);
        return false;
    }
    EvalOptions opt = {0};
    if (runtime_options(rt)->verify_values && !verify_values(rt, l->compiled, l->bound, l->args, err)) return false;
    return eval_kernel(rt, l->compiled, l->info, l->args, l->bound->dims, ctl, &opt, err);
}

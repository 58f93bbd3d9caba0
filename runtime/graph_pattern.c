// Patterns: what plans of one graph for many sizes share. Of a decoder's step of 20 launches, the length is in six:
//
//     plan for 41 tokens    a  b  c' d' e  f ..        a, b, e, f: the same bound and prepared launches
//     plan for 42 tokens    a  b  c" d" e  f ..        c, d: of each its own
//     the device's graph    a->b->c->d->e->f ..        for those that run for the first time: c" and d" are set in its nodes, and it is launched
//
// A graph of the device costs more to make than its launches one by one, so a plan gets one of its own when it runs
// again. The first time it runs by the pattern's, whose order holds for all of its plans whose values lie alike in the
// arena: launches wait for each other by the values that they share, whole, whatever part of them they touch.

#include "runtime/graph.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

// a graph of the device that is made more often than for every eighth run does not pay
enum { OFTEN = 8 };

Pattern *pattern_new(Runtime *rt, TGraph *g, const TValue *scalars, Arena *arena) {
    Pattern *p = heap_alloc(sizeof *p);
    size_t n = (size_t)g->head->nparams;
    *p = (Pattern){.rt = rt, .arena = arena, .graph = g, .users = 1, .scalars = NEW_N(arena, TValue, n + 1)};
    memcpy(p->scalars, scalars, sizeof *scalars * n);
    return p;
}

static void drop_device_graph(Pattern *p) {
    Device *d = runtime_device(p->rt);
    if (p->device_graph) device_graph_free(d, p->device_graph);
    p->device_graph = NULL;
    for (int i = 0; i < p->nnodes; i++) launch_leave(p->rt, p->node[i]);
    heap_free(p->node);
    heap_free(p->items);
    p->node = NULL;
    p->items = NULL;
    p->nnodes = p->nitems = 0;
}

void pattern_leave(Pattern *p) {
    if (!p || --p->users) return;
    drop_device_graph(p);
    arena_free(p->arena);
    heap_free(p);
}

// Launches that do something, by number.
static int at_work(const Plan *p, int *launch) {
    int n = 0;
    for (int i = 0; i < p->nlaunches; i++)
        if (!p->launch[i]->prepared.empty) launch[n++] = i;
    return n;
}

static int scratch_used(const PlanLaunch *l) {
    uint64_t own[SCRATCH_KINDS];
    int used = 0;
    bind_scratch(l->bound, own);
    for (int k = 0; k < SCRATCH_KINDS; k++) used |= (own[k] != 0) << k;
    return used;
}

// Can the node that was made for one be given to the other? What is not a parameter, and the order, must be the same.
static bool exchangeable(const PlanLaunch *a, const PlanLaunch *b) {
    const DeviceLaunch *x = &a->prepared.launch, *y = &b->prepared.launch;
    return a == b || (x->kernel->handle == y->kernel->handle && x->early == y->early && x->together == y->together &&
                      memcmp(x->cluster, y->cluster, sizeof x->cluster) == 0 && a->own.span.lo == b->own.span.lo &&
                      scratch_used(a) == scratch_used(b));
}

static bool lie_alike(const Plan *p, const Pattern *q) {
    for (int i = 0; i < q->nitems; i++)
        if (p->items[i].offset != q->items[i].offset || p->items[i].bytes != q->items[i].bytes) return false;
    return p->nitems == q->nitems;
}

static bool make(Plan *p, const int *launch, int n, Buf *err) {
    Pattern    *q = p->pattern;
    Device     *d = runtime_device(p->rt);
    DeviceNode *nodes = heap_alloc(sizeof *nodes * ((size_t)n + 1));
    int *nafter = heap_alloc(sizeof *nafter * ((size_t)n + 1)),
        **after = heap_alloc(sizeof *after * ((size_t)n + 1));
    drop_device_graph(q);
    plan_order(p, launch, n, true, after, nafter);
    for (int i = 0; i < n; i++) nodes[i] = (DeviceNode){&p->launch[launch[i]]->prepared.launch, after[i], nafter[i]};
    size_t before = err->n;
    q->device_graph = device_graph_make(d, nodes, n, err);
    q->built++;
    q->items = heap_alloc(sizeof *q->items * ((size_t)p->nitems + 1));
    memcpy(q->items, p->items, sizeof *q->items * (size_t)(q->nitems = p->nitems));
    q->node = heap_alloc(sizeof *q->node * ((size_t)n + 1));
    for (int i = 0; q->device_graph && i < n; i++) q->node[q->nnodes++] = launch_shared(p->launch[launch[i]]);
    for (int i = 0; i < n; i++) heap_free(after[i]);
    heap_free(after);
    heap_free(nafter);
    heap_free(nodes);
    if (!q->device_graph) q->built = INT_MAX / 2;        // not with this driver
    return q->device_graph || err->n == before;
}

static bool set(Plan *p, const int *launch, Buf *err) {
    Pattern *q = p->pattern;
    Device  *d = runtime_device(p->rt);
    for (int i = 0; i < q->nnodes; i++) {
        PlanLaunch *l = p->launch[launch[i]];
        if (q->node[i] == l) continue;
        if (!d->ops->graph_set(d, q->device_graph, i, &l->prepared.launch, err)) return false;
        launch_leave(q->rt, q->node[i]);
        q->node[i] = launch_shared(l);
    }
    return true;
}

bool pattern_device_graph(Plan *p, DeviceGraph **out, Buf *err) {
    Pattern *q = p->pattern;
    Device  *d = runtime_device(p->rt);
    *out = NULL;
    if (!q || !d->ops->graph_set || !p->by_recipe) return true;
    q->runs++;
    int *launch = heap_alloc(sizeof *launch * ((size_t)p->nlaunches + 1)), n = at_work(p, launch);
    bool same = q->device_graph && n == q->nnodes && lie_alike(p, q), fine = true;
    for (int i = 0; same && i < n; i++) same = exchangeable(q->node[i], p->launch[launch[i]]);
    if (same) fine = set(p, launch, err);
    else if (q->built <= OFTEN + q->runs / OFTEN) fine = make(p, launch, n, err);
    else drop_device_graph(q);
    *out = q->device_graph;
    heap_free(launch);
    return fine;
}

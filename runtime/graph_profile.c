// tkc run --profile: the time of each launch of a graph, beside what the launch must take.
//
// Launches are timed one by one, between marks, a few times where that is cheap: the least counts. Bytes and operations
// are the kernel's (lower/cost/roofline.c): each tensor once; at least so long it takes the target's machine to move or
// compute them. graph_times.c writes it down: a table, a trace, a page.

#include "runtime/graph.h"

#include <stdlib.h>

#include "lower/cost/roofline.h"

enum { MANY_MARKS = 4000 };

// ---- time ----------------------------------------------------------------------------------------

static bool round_of(Plan *p, const RunControl *ctl, Buf *err) {
    Device *d = runtime_device(p->rt);
    for (int first = 0; first < p->nlaunches; first += MANY_MARKS / 2) {
        int n = p->nlaunches - first < MANY_MARKS / 2 ? p->nlaunches - first : MANY_MARKS / 2;
        for (int i = 0; i < n; i++)
            if (!d->ops->mark(d, 2 * i, err) || !plan_launch(p->launch[first + i], p->rt, ctl, err) ||
                !d->ops->mark(d, 2 * i + 1, err))
                return false;
        if (!d->ops->sync(d, err)) return false;
        for (int i = 0; i < n; i++) {
            double us;
            if (!d->ops->between(d, 2 * i, 2 * i + 1, &us, err)) return false;
            if (p->launch[first + i]->us == 0 || us < p->launch[first + i]->us) p->launch[first + i]->us = us;
        }
    }
    return true;
}

static bool whole_graph(Plan *p, int rounds, double *least, Buf *err) {
    Device *d = runtime_device(p->rt);
    *least = 0;
    if (!plan_as_one(p, err)) return false;
    for (int i = 0; p->device_graph && i < rounds; i++) {
        double us;
        if (!d->ops->mark(d, 0, err) || !d->ops->graph_launch(d, p->device_graph, NULL, err) ||
            !d->ops->mark(d, 1, err) || !d->ops->between(d, 0, 1, &us, err))
            return false;
        if (*least == 0 || us < *least) *least = us;
    }
    return true;
}

// ---- what is known of a launch ---------------------------------------------------------------------

static char *title(const Plan *p, const PlanLaunch *l) {
    const TGLaunch *g = l->launch;
    Buf name = {0};
    buf_puts(&name, g->kernel->name->s);
    for (int k = 0; k < g->kernel->nparams; k++) {
        int value = g->args[k].tensor;
        if (value < 0 || g->kernel->params[k].mode == PM_IN || (value = plan_root(p->graph, value)) < 0 ||
            !p->graph->values[value].name)
            continue;
        buf_printf(&name, " -> %s", p->graph->values[value].name->s);
        break;
    }
    char *copy = copy_text(name.p, name.n);
    buf_free(&name);
    return copy;
}

static void describe_launch(const Plan *p, int i, LaunchTime *t) {
    const PlanLaunch *l = p->launch[i];
    Buf where = {0};
    *t = (LaunchTime){.us = l->us, .name = title(p, l)};
    if (runtime_device(p->rt)->ops->runs_ptx && !l->prepared.empty) {
        t->blocks = l->prepared.launch.grid[0];
        t->threads = l->prepared.launch.block[0];
    }
    plan_where(p->rt, l, &where);
    t->where = copy_text(where.p ? where.p : "", where.n > 2 ? where.n - 2 : 0);
    buf_free(&where);
    Roofline r = roofline_on(runtime_session(p->rt), l->launch->kernel, l->bound->dims,
                             runtime_options(p->rt)->compile.target, &t->least_us);
    t->bytes = r.bytes;
    t->flops = r.flops + r.products;
}

// Each launch begins when those that it waits for have ended, on the first row that is free.
static void schedule(const Plan *p, GraphTimes *t) {
    size_t room = (size_t)t->n + 1;
    int *launch = heap_alloc(sizeof *launch * room), *nafter = heap_alloc(sizeof *nafter * room),
        **after = heap_alloc(sizeof *after * room);
    double *free_at = heap_alloc(sizeof *free_at * room);
    for (int i = 0; i < t->n; i++) launch[i] = i;
    plan_order(p, launch, t->n, false, after, nafter);
    for (int i = 0; i < t->n; i++) {
        LaunchTime *x = &t->at[i];
        for (int k = 0; k < nafter[i]; k++) {
            double end = t->at[after[i][k]].start + t->at[after[i][k]].us;
            if (end > x->start) x->start = end;
        }
        while (free_at[x->row] > x->start + 1e-9) x->row++;
        free_at[x->row] = x->start + x->us;
        if (x->row + 1 > t->rows) t->rows = x->row + 1;
        heap_free(after[i]);
    }
    heap_free(free_at);
    heap_free(launch);
    heap_free(nafter);
    heap_free(after);
}

bool plan_profile(Plan *p, const RunControl *ctl, Buf *err) {
    Device *d = runtime_device(p->rt);
    int     rounds = d->ops->graph_make ? 20 : 1;
    double  whole = 0;
    for (int i = 0; i < rounds; i++) if (!round_of(p, ctl, err)) return false;
    if (!whole_graph(p, rounds, &whole, err)) return false;
    GraphTimes t = {.graph = p->graph->head->name->s,
                    .device = d->ops->name,
                    .machine = runtime_options(p->rt)->compile.target->gpu,
                    .n = p->nlaunches,
                    .whole_us = whole,
                    .since_us = ctl->profile->since_us,
                    .program = ctl->profile->program};
    t.at = heap_alloc(sizeof *t.at * ((size_t)t.n + 1));
    for (int i = 0; i < t.n; i++) describe_launch(p, i, &t.at[i]);
    schedule(p, &t);
    times_table(&t, &ctl->profile->table);
    times_trace(&t, &ctl->profile->trace);
    times_page(&t, &ctl->profile->page);
    double end = whole;
    for (int i = 0; i < t.n && whole <= 0; i++) end = t.at[i].start + t.at[i].us > end ? t.at[i].start + t.at[i].us : end;
    ctl->profile->since_us += end;
    for (int i = 0; i < t.n; i++) {
        heap_free(t.at[i].name);
        heap_free(t.at[i].where);
    }
    heap_free(t.at);
    return true;
}

// tkc run --profile: the time of each launch of a graph, beside the bytes and operations that it needs.
//
//     launch                          blocks x threads     time us   share      bytes   GB/s      flops  GFLOP/s
//     1  linear -> h1.10                   32 x 128           5.20    41 %    2.9 MB    560   205.5 M    39522
//     ...
//     4 launches                                             12.60            3.5 MB          212.1 M
//     as one graph                                           10.10
//
// Launches are timed one by one, between marks, a few times where that is cheap: the least counts. Bytes are those
// of the tensors, in and out once, inout twice. Operations are those of the products, 2 for each multiplication of
// live lanes, where every bound is made of dimensions; a kernel whose loops depend on where it is (a causal mask)
// says nothing of them.

#include "runtime/graph.h"

#include <stdlib.h>
#include <string.h>

#include "lang/number.h"

enum { MANY_MARKS = 4000 };

// ---- operations ----------------------------------------------------------------------------------

typedef struct Around {                                  // what a product stands in: a loop or a grid clause
    const struct Around *up;
    const TAxis *axis;                                   // or NULL
    double length, trips;
} Around;

typedef struct Count { const PlanLaunch *l; double flops; bool known; } Count;

// A number made of constants, dimensions and scalar arguments.
static bool host_number(const PlanLaunch *l, const TExpr *x, int64_t *v)
{
    int64_t a, b;
    switch ((TExprKind)x->kind) {
    case TX_const: *v = x->ival; return !elem_is_float(x->type.elem);
    case TX_dim:   *v = l->bound->dims[x->dim]; return true;
    case TX_var:   if (x->var->param < 0) return false; *v = l->bound->scalars[x->var->param]; return true;
    case TX_cast: case TX_splat: return elem_is_int(x->type.elem) && host_number(l, x->kid[0], v);
    case TX_binary: case TX_fun: break;
    default: return false;
    }
    if (x->nkid < 2 || !host_number(l, x->kid[0], &a) || !host_number(l, x->kid[1], &b)) return false;
    if (x->kind == TX_fun) { *v = (x->op == TF_min) == (a < b) ? a : b; return x->op == TF_min || x->op == TF_max; }
    switch ((AstOp)x->op) {
    case OP_add: *v = a + b; return true;
    case OP_sub: *v = a - b; return true;
    case OP_mul: *v = a * b; return true;
    case OP_div: if (b == 0) return false; *v = int_div_floor(a, b); return true;
    case OP_rem: if (b == 0) return false; *v = int_mod_floor(a, b); return true;
    default: return false;
    }
}

static bool range_of(const PlanLaunch *l, const TExpr *lo, const TExpr *hi, int64_t step, Around *out)
{
    int64_t a, b;
    if (!host_number(l, lo, &a) || !host_number(l, hi, &b)) return false;
    out->length = b > a ? (double)(b - a) : 0;
    out->trips = b > a ? (double)((b - a + step - 1) / step) : 0;
    return true;
}

static bool has_axis(const TExpr *dot, const TAxis *ax)
{
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < dot->kid[k]->type.naxes; i++)
            if (dot->kid[k]->type.axis[i] == ax) return true;
    return false;
}

// Loops that make an axis of the product count its lanes over all trips, the others their trips; axes that no loop
// makes count their own.
static void count_dot(Count *c, const TExpr *x, const Around *around)
{
    double n = 2;
    const TAxis *seen[2 * MAX_AXES];
    int nseen = 0;
    for (const Around *a = around; a; a = a->up) {
        bool own = a->axis && has_axis(x, a->axis);
        n *= own ? a->length : a->trips;
        if (own && nseen < 2 * MAX_AXES) seen[nseen++] = a->axis;
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < x->kid[k]->type.naxes; i++) {
            const TAxis *ax = x->kid[k]->type.axis[i];
            Around r;
            bool counted = false;
            for (int j = 0; j < nseen; j++) counted |= seen[j] == ax;
            if (counted) continue;
            if (nseen < 2 * MAX_AXES) seen[nseen++] = ax;
            if (range_of(c->l, ax->lo, ax->hi, 1, &r) && r.length < (double)ax->extent) n *= r.length;
            else n *= (double)ax->extent;
        }
    c->flops += n;
}

static void count_body(Count *c, const TBody *b, const Around *around);

static void count_expr(Count *c, const TExpr *x, const Around *around)
{
    if (!x) return;
    if (x->kind == TX_dot) count_dot(c, x, around);
    if (x->kind == TX_block) count_body(c, &x->body, around);
    for (uint32_t i = 0; i < x->nkid; i++) count_expr(c, x->kid[i], around);
}

static bool holds_dot(const TExpr *x);

static bool body_holds_dot(const TBody *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const TStmt *s = b->at[i];
        if ((s->value && holds_dot(s->value)) || body_holds_dot(&s->body) || body_holds_dot(&s->orelse) || body_holds_dot(&s->cond_body)) return true;
    }
    return false;
}

static bool holds_dot(const TExpr *x)
{
    if (x->kind == TX_dot || (x->kind == TX_block && body_holds_dot(&x->body))) return true;
    for (uint32_t i = 0; i < x->nkid; i++) if (x->kid[i] && holds_dot(x->kid[i])) return true;
    return false;
}

static void count_body(Count *c, const TBody *b, const Around *around)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const TStmt *s = b->at[i];
        count_expr(c, s->value, around);
        bool loop = s->kind == TS_for || s->kind == TS_while, inside = body_holds_dot(&s->body) || body_holds_dot(&s->orelse);
        Around in = {.up = around, .axis = s->axis};
        if (!inside) continue;
        bool known = s->kind == TS_for && !s->step_expr && range_of(c->l, s->lo, s->hi, s->step, &in);
        if (loop && !known) c->known = false;
        if (s->kind == TS_if) c->known = false;
        count_body(c, &s->body, loop ? &in : around);
        count_body(c, &s->orelse, around);
    }
}

// 0: none, or not known.
static double flops_of(const PlanLaunch *l)
{
    const TKernel *k = l->launch->kernel;
    Around grid[16];
    const Around *around = NULL;
    Count c = {.l = l, .known = true};
    for (int i = 0; i < k->ngrid && c.known; i++) {
        if (i == 16) return 0;
        grid[i] = (Around){.up = around, .axis = k->grid[i].axis};
        c.known = range_of(l, k->grid[i].lo, k->grid[i].hi, k->grid[i].step, &grid[i]);
        around = &grid[i];
    }
    if (c.known) count_body(&c, &k->body, around);
    return c.known ? c.flops : 0;
}

static double bytes_of(const PlanLaunch *l)
{
    double sum = 0;
    for (int p = 0; p < l->info->nparams; p++) {
        const LaunchParam *want = &l->info->params[p];
        if (want->kind == PK_SCALAR) continue;
        double n = elem_bytes(l->args[p].elem);
        for (int d = 0; d < l->args[p].rank; d++) n *= (double)l->args[p].dim[d];
        sum += n * (want->mode == PM_INOUT ? 2 : 1);
    }
    return sum;
}

// ---- time ----------------------------------------------------------------------------------------

static bool round_of(Plan *p, const RunControl *ctl, Buf *err)
{
    Device *d = runtime_device(p->rt);
    for (int first = 0; first < p->nlaunches; first += MANY_MARKS / 2) {
        int n = p->nlaunches - first < MANY_MARKS / 2 ? p->nlaunches - first : MANY_MARKS / 2;
        for (int i = 0; i < n; i++)
            if (!d->ops->mark(d, 2 * i, err) || !plan_launch(&p->launch[first + i], p->rt, ctl, err) || !d->ops->mark(d, 2 * i + 1, err)) return false;
        if (!d->ops->sync(d, err)) return false;
        for (int i = 0; i < n; i++) {
            double us;
            if (!d->ops->between(d, 2 * i, 2 * i + 1, &us, err)) return false;
            if (p->launch[first + i].us == 0 || us < p->launch[first + i].us) p->launch[first + i].us = us;
        }
    }
    return true;
}

static bool whole_graph(Plan *p, int rounds, double *least, Buf *err)
{
    Device *d = runtime_device(p->rt);
    *least = 0;
    for (int i = 0; p->device_graph && i < rounds; i++) {
        double us;
        if (!d->ops->mark(d, 0, err) || !d->ops->graph_launch(d, p->device_graph, err) || !d->ops->mark(d, 1, err) || !d->ops->between(d, 0, 1, &us, err)) return false;
        if (*least == 0 || us < *least) *least = us;
    }
    return true;
}

// ---- the table -----------------------------------------------------------------------------------

static void scaled(double v, const char *unit, Buf *out)
{
    static const char *const of[] = {"", " k", " M", " G", " T"};
    int i = 0;
    for (; v >= 1000 && i < 4; i++) v /= 1000;
    char text[32];
    snprintf(text, sizeof text, "%.*f%s%s", i ? 1 : 0, v, i ? of[i] : " ", unit);
    buf_printf(out, "%11s", text);
}

static void rate(double amount, double us, double per, Buf *out)
{
    if (amount > 0 && us > 0) buf_printf(out, " %9.1f", amount / us * per);
    else buf_printf(out, " %9s", "-");
}

static void row(const Plan *p, int i, double total, Buf *out)
{
    const PlanLaunch *l = &p->launch[i];
    Buf name = {0}, grid = {0};
    const TGLaunch *g = l->launch;
    buf_printf(&name, "%d  %s", i + 1, g->kernel->name->s);
    for (int k = 0; k < g->kernel->nparams; k++) {
        int value = g->args[k].tensor;
        if (value < 0 || g->kernel->params[k].mode == PM_IN || (value = plan_root(p->graph, value)) < 0 || !p->graph->values[value].name) continue;
        buf_printf(&name, " -> %s", p->graph->values[value].name->s);
        break;
    }
    if (runtime_device(p->rt)->ops->runs_ptx) buf_printf(&grid, "%u x %u", l->prepared.empty ? 0 : l->prepared.launch.grid[0], l->prepared.launch.block[0]);
    double bytes = bytes_of(l), flops = flops_of(l);
    buf_printf(out, "%-34.34s %14s %11.2f %6.1f %% ", name.p, grid.p ? grid.p : "-", l->us, total > 0 ? 100 * l->us / total : 0);
    scaled(bytes, "B", out);
    rate(bytes, l->us, 1e-3, out);
    if (flops > 0) scaled(flops, "", out);
    else buf_printf(out, "%11s", "-");
    rate(flops, l->us, 1e-6, out);
    buf_putc(out, '\n');
    buf_free(&name);
    buf_free(&grid);
}

bool plan_profile(Plan *p, const RunControl *ctl, Buf *err)
{
    Device *d = runtime_device(p->rt);
    int     rounds = d->ops->graph_make ? 20 : 1;
    double  total = 0, bytes = 0, flops = 0, whole = 0;
    Buf    *out = ctl->profile;
    for (int i = 0; i < rounds; i++) if (!round_of(p, ctl, err)) return false;
    if (!whole_graph(p, rounds, &whole, err)) return false;
    for (int i = 0; i < p->nlaunches; i++) {
        total += p->launch[i].us;
        bytes += bytes_of(&p->launch[i]);
        flops += flops_of(&p->launch[i]);
    }
    buf_printf(out, "%-34s %14s %11s %8s %11s %9s %10s %9s\n", "launch", "blocks x thr.", "us", "share", "bytes", "GB/s", "flops", "TFLOP/s");
    for (int i = 0; i < p->nlaunches; i++) row(p, i, total, out);
    char name[48];
    snprintf(name, sizeof name, "%d launch%s, on %s", p->nlaunches, p->nlaunches == 1 ? "" : "es", d->ops->name);
    buf_printf(out, "%-34s %14s %11.2f %8s ", name, "", total, "");
    scaled(bytes, "B", out);
    rate(bytes, total, 1e-3, out);
    if (flops > 0) scaled(flops, "", out);
    else buf_printf(out, "%11s", "-");
    rate(flops, total, 1e-6, out);
    buf_putc(out, '\n');
    if (whole > 0) buf_printf(out, "%-34s %14s %11.2f\n", "as one graph", "", whole);
    return true;
}

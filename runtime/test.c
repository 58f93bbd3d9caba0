// One run of a test item, step by step, on a device.
//
// The tensors of a test live on the host. Each launch copies in what it reads and copies out what it
// wrote, so that references can run on eval beside kernels on any device. With `twice`, a launch is
// made again with other junk in dead lanes, registers, shared memory and unwritten outputs (on eval
// also with the programs from last to first, on emu with warps in another order and asynchronous copies
// that come at any time, where no atomic makes that visible): whatever then differs was never defined, or
// not waited for. Programs with atomics run one after the other then: a float sum shows their order.
//
// A launch takes the schedule that `tkc run` would choose for its sizes (graph_choose.c). What a reference has found in a
// run with another schedule is taken from there: evaluating it is most of a test's time.

#include "runtime/test.h"

#include <stdlib.h>
#include <string.h>

#include "lang/ast.h"

typedef TestRun Run;

static void where_text(Session *s, Span at, Buf *out) {
    if (!at.hi) return;
    LineCol w = span_where(s, at.lo);
    buf_printf(out, "%s:%u:%u: ", w.src->path, w.line, w.col);
}

static bool step_make(Run *r, const TStep *s) {
    Buf name = {0};
    buf_printf(&name, "%.*s", (int)r->test->name.n, r->test->name.p);
    FillSpec fill = {.make = s->make, .lo = s->lo, .hi = s->hi, .values = s->values, .seed = runtime_options(r->rt)->seed,
                     .stream = rng_stream(name.p ? name.p : "", s->result)};
    bool fine = tensor_make(&r->tensor[s->result], s->elem, s->rank, s->shape, &r->report);
    if (fine) tensor_fill(&r->tensor[s->result], &fill);
    buf_free(&name);
    return fine;
}

// ---- launches ------------------------------------------------------------------------------------

static bool makes_output(const LaunchParam *p) { return p->kind == PK_TENSOR && p->mode == PM_OUT; }

// Arguments of the launch; `number[p]` is the tensor behind parameter p, -1 for scalars.
static bool gather(Run *r, const TStep *s, KernelArg *args, int *number) {
    const TKernel *k = s->kernel;
    int made = 0, next = 0;
    for (int p = 0; p < k->nparams; p++) {
        bool out = makes_output(&k->params[p]);
        const TValue *v = s->nargs == k->nparams ? &s->args[p] : out ? NULL : next < s->nargs ? &s->args[next++] : NULL;
        number[p] = out ? s->result + made++ : v ? v->tensor : -1;
        args[p] = (KernelArg){0};
        if (!out && !v) { buf_printf(&r->report, "no argument for `%s`", k->params[p].name->s); return false; }
        if (number[p] >= r->test->ntensors) { buf_printf(&r->report, "there is no tensor %d", number[p]); return false; }
        if (number[p] >= 0) {
            args[p].tensor = &r->tensor[number[p]];
            args[p].bound = r->bound[number[p]];
            continue;
        }
        args[p].scalar = true;
        args[p].elem = v->elem;
        args[p].is_float = elem_is_float(v->elem);
        args[p].ival = v->ival;
        args[p].fval = v->fval;
    }
    return true;
}

static bool has_op(const Region *region, OpCode code) {
    for (const Op *op = op_walk(region, NULL); op; op = op_walk(region, op))
        if (op->code == code) return true;
    return false;
}

static bool same_bytes(Run *r, const TStep *s, const KernelArg *first, const KernelArg *again, const char *what) {
    const TKernel *k = s->kernel;
    for (int p = 0; p < k->nparams; p++) {
        if (!param_written(&k->params[p])) continue;
        const HostTensor *a = first[p].tensor, *b = again[p].tensor;
        size_t size = (size_t)elem_bytes(a->elem);
        for (int64_t i = 0, n = tensor_count(a); i < n; i++) {
            const char *x = (const char *)a->data + (size_t)i * size, *y = (const char *)b->data + (size_t)i * size;
            if (memcmp(x, y, size) == 0) continue;
            buf_printf(&r->report, "`%s`: element %lld of `%s` depends on %s (%.9g, then %.9g)", k->name->s, (long long)i,
                       k->params[p].name->s, what, elem_get(a->elem, a->data, i), elem_get(b->elem, b->data, i));
            return false;
        }
    }
    return true;
}

typedef struct Again { KernelArg args[MAX_GRAPH_PARAMS]; HostTensor tensor[MAX_GRAPH_PARAMS]; } Again;

// A second set of what is written: inout tensors as they were, out tensors not made yet.
static bool duplicate(const TKernel *k, const KernelArg *args, Again *g, Buf *err) {
    for (int p = 0; p < k->nparams; p++) {
        g->args[p] = args[p];
        g->args[p].bound = NULL;
        if (!param_written(&k->params[p])) continue;
        g->args[p].tensor = &g->tensor[p];
        if (args[p].tensor->data && !tensor_copy(&g->tensor[p], args[p].tensor, err)) return false;
    }
    return true;
}

static void again_free(Again *g, const TKernel *k) {
    for (int p = 0; p < k->nparams; p++) tensor_free(&g->tensor[p]);
    heap_free(g);
}

static bool launch_again(Run *r, const TStep *s, const KernelArg *args, Again *g, bool on_eval, bool atomics) {
    const TKernel *k = s->kernel;
    RunControl ctl = {
        .on_eval = on_eval, .junk = FILL_INF, .junk_seed = 0x5eed0002, .in_order = atomics, .order_seed = atomics ? 0 : 0x5eed0003,
        .dims = s->dims, .schedule = &s->schedule};
    Again *reversed = NULL;
    bool fine = true;
    if (on_eval && !atomics) {
        reversed = heap_alloc(sizeof *reversed);
        fine = duplicate(k, g->args, reversed, &r->report);
    }
    fine = fine && kernel_launch(r->rt, k, g->args, k->nparams, &ctl, &r->report)
        && same_bytes(r, s, args, g->args, on_eval || atomics ? "junk: it was not written, or made from padding"
                      : "junk or on which warp comes first: it was not written, made from padding, or written by several elements");
    if (fine && reversed) {
        ctl.reversed = true;
        fine = kernel_launch(r->rt, k, reversed->args, k->nparams, &ctl, &r->report)
            && same_bytes(r, s, args, reversed->args, "the order of the programs, a race");
    }
    if (reversed) again_free(reversed, k);
    return fine;
}

static void note_written(Run *r, const TKernel *k, const int *number) {
    for (int p = 0; p < k->nparams; p++)
        if (number[p] >= 0 && param_written(&k->params[p])) r->written[number[p]]++;
}

static bool step_graph(Run *r, const TStep *s) {
    const TKernel *k = s->kernel;
    bool       twice = runtime_options(r->rt)->twice && runtime_device(r->rt)->ops != &cuda_ops;
    KernelArg *args = heap_alloc(sizeof *args * MAX_GRAPH_PARAMS);
    Again     *g = twice ? heap_alloc(sizeof *g) : NULL;
    int        number[MAX_GRAPH_PARAMS];
    RunControl ctl = {.junk = FILL_NAN, .junk_seed = 0x5eed0001, .notes = twice ? &r->notes : NULL};
    RunControl again = {.junk = FILL_INF, .junk_seed = 0x5eed0002};
    memset(number, 0xff, sizeof number);
    bool fine = gather(r, s, args, number) && (!g || duplicate(k, args, g, &r->report)) &&
                graph_launch(r->rt, s->graph, args, k->nparams, &ctl, &r->report);
    if (fine && g)
        fine = graph_launch(r->rt, s->graph, g->args, k->nparams, &again, &r->report) &&
               same_bytes(r, s, args, g->args, "junk: it was not written, or made from padding");
    note_written(r, k, number);
    if (g) again_free(g, k);
    heap_free(args);
    return fine;
}

// What an earlier step has found for the same function of the same tensors.
static bool step_copied(Run *r, const TStep *s, const TStep *from) {
    for (int p = 0, made = 0; p < s->kernel->nparams; p++) {
        if (!makes_output(&s->kernel->params[p])) continue;
        const HostTensor *found = &r->tensor[from->result + made];
        const double *bound = r->bound[from->result + made];
        size_t n = (size_t)tensor_count(found);
        if (!tensor_copy(&r->tensor[s->result + made], found, &r->report)) return false;
        if (bound) r->bound[s->result + made] = memcpy(heap_alloc(sizeof *bound * (n + 1)), bound, sizeof *bound * n);
        made++;
    }
    return true;
}

// ---- references of the run before ----------------------------------------------------------------

static bool same_tensor(const HostTensor *a, const HostTensor *b) {
    if (!a->data || !b->data || a->elem != b->elem || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) if (a->dim[i] != b->dim[i]) return false;
    return memcmp(a->data, b->data, tensor_bytes(a)) == 0;
}

// That run has evaluated the same function of the same tensors, and nothing has written what it found.
static bool reference_known(const Run *r, const TStep *s) {
    const Run   *b = r->before;
    ptrdiff_t    i = s - r->test->steps;
    const TStep *t = b && i < b->test->nsteps ? &b->test->steps[i] : NULL;
    if (!t || t->kind != STEP_launch || !t->reference || t->kernel->decl != s->kernel->decl || t->nargs != s->nargs) return false;
    if (t->result != s->result || t->like != s->like) return false;
    for (int p = 0; p < s->nargs; p++) {
        const TValue *x = &s->args[p], *y = &t->args[p];
        if (x->tensor != y->tensor || x->elem != y->elem) return false;
        if (x->tensor < 0 && (x->ival != y->ival || memcmp(&x->fval, &y->fval, sizeof x->fval))) return false;
        if (x->tensor >= 0 && (x->tensor >= b->test->ntensors || b->written[x->tensor])) return false;
        if (x->tensor >= 0 && !makes_output(&s->kernel->params[p]) && !same_tensor(&r->tensor[x->tensor], &b->tensor[x->tensor])) return false;
    }
    return true;
}

static bool step_known(Run *r, const TStep *s) {
    for (int p = 0, made = 0; p < s->kernel->nparams; p++) {
        if (!makes_output(&s->kernel->params[p])) continue;
        int i = s->result + made++;
        const double *bound = r->before->bound[i];
        size_t n = (size_t)tensor_count(&r->before->tensor[i]);
        if (!tensor_copy(&r->tensor[i], &r->before->tensor[i], &r->report)) return false;
        if (bound) r->bound[i] = memcpy(heap_alloc(sizeof *bound * (n + 1)), bound, sizeof *bound * n);
    }
    return true;
}

// ---- the same launch with another schedule, on eval ------------------------------------------------

static bool same_number(const TValue *x, const TValue *y) {
    return x->elem == y->elem && x->ival == y->ival && memcmp(&x->fval, &y->fval, sizeof x->fval) == 0;
}

static bool same_args(const Run *r, const TStep *s, const TStep *t) {
    int n = s->kernel->nparams;
    if (s->nargs != n || t->nargs != n || t->kernel->nparams != n) return false;
    if (t->kernel->ndims != s->kernel->ndims) return false;
    if (memcmp(s->dims, t->dims, sizeof *s->dims * (size_t)s->kernel->ndims) != 0) return false;
    for (int i = 0; i < n; i++) {
        const TValue *x = &s->args[i], *y = &t->args[i];
        if (makes_output(&s->kernel->params[i])) continue;
        if (x->tensor != y->tensor) return false;
        if (x->tensor < 0 ? !same_number(x, y) : r->written[x->tensor] != 0) return false;
    }
    return true;
}

static bool still_there(const Run *r, const TStep *t) {
    for (int p = 0, made = 0; p < t->kernel->nparams; p++)
        if (makes_output(&t->kernel->params[p]) && r->written[t->result + made++] != 1) return false;
    return true;
}

// An earlier step that launched the same tile IR on the same tensors, which nothing writes: eval, which knows no
// schedules, would write the same once more. NULL: there is none, or it prints.
static const TStep *step_repeated(Run *r, const TStep *s, const Compiled *c) {
    if (has_op(&compiled_eval(c)->body, OP_T_print)) return NULL;
    for (const TStep *t = r->test->steps; t < s; t++) {
        if (t->kind != STEP_launch || t->reference || !same_args(r, s, t)) continue;
        const Compiled *before = runtime_compile(r->rt, t->kernel, &t->schedule, &r->report);
        if (before && compiled_meaning(before) == compiled_meaning(c) && still_there(r, t)) return t;
    }
    return NULL;
}

static bool step_repeats(Run *r, const TStep *s, const TStep *from) {
    KernelArg *args = heap_alloc(sizeof *args * MAX_PARAMS);
    int        number[MAX_PARAMS];
    RunControl ctl = {.on_eval = true, .verify_values = true, .only_verify = true,
                      .dims = s->dims, .schedule = &s->schedule};
    bool fine = true;
    if (runtime_options(r->rt)->verify_values)
        fine = gather(r, s, args, number)
            && kernel_launch(r->rt, s->kernel, args, s->kernel->nparams, &ctl, &r->report);
    heap_free(args);
    for (int p = 0, made = 0; p < s->kernel->nparams; p++) {
        if (!makes_output(&s->kernel->params[p])) continue;
        tensor_free(&r->tensor[s->result + made]);
        r->written[s->result + made++] = 1;
    }
    return fine && step_copied(r, s, from);
}

static bool step_launch(Run *r, const TStep *s) {
    if (s->like) return step_copied(r, s, &r->test->steps[s->like - 1]);
    if (s->reference && reference_known(r, s)) return step_known(r, s);
    const TKernel *k = s->kernel;
    KernelArg *args = heap_alloc(sizeof *args * MAX_PARAMS);
    int        number[MAX_PARAMS];
    Device    *d = runtime_device(r->rt);
    bool       on_eval = s->reference || !d->ops->runs_ptx;
    bool       twice = runtime_options(r->rt)->twice && !s->reference && d->ops != &cuda_ops;
    bool       alone = on_eval && !s->reference;
    Compiled  *c = twice || alone ? runtime_compile(r->rt, k, &s->schedule, &r->report) : NULL;
    const TStep *before = alone && c ? step_repeated(r, s, c) : NULL;
    if (before) { heap_free(args); return step_repeats(r, s, before); }
    bool       atomics = c && has_op(&compiled_eval(c)->body, OP_T_atomic);
    RunControl ctl = {.on_eval = on_eval,
                      .junk = FILL_NAN,
                      .junk_seed = 0x5eed0001,
                      .in_order = atomics,
                      .bounds = on_eval,
                      .verify_values = runtime_options(r->rt)->verify_values && !s->reference,
                      .dims = s->dims,
                      .schedule = &s->schedule,
                      .notes = twice ? &r->notes : NULL};
    Again     *g = twice ? heap_alloc(sizeof *g) : NULL;
    memset(number, 0xff, sizeof number);
    bool fine = (c || !(twice || alone)) && gather(r, s, args, number) && (!g || duplicate(k, args, g, &r->report)) &&
                kernel_launch(r->rt, k, args, k->nparams, &ctl, &r->report) &&
                (!g || launch_again(r, s, args, g, on_eval, atomics));
    for (int p = 0; p < k->nparams; p++) {
        if (number[p] < 0 || !param_written(&k->params[p]) || (on_eval && args[p].bound == r->bound[number[p]])) continue;
        heap_free(r->bound[number[p]]);
        r->bound[number[p]] = on_eval ? args[p].bound : NULL;
    }
    if (!s->reference) note_written(r, k, number);
    if (g) again_free(g, k);
    heap_free(args);
    return fine;
}

// ---- expectations --------------------------------------------------------------------------------

static bool value_of(Run *r, const TValue *v, HostTensor *scalar, const HostTensor **out) {
    *scalar = (HostTensor){0};
    if (v->tensor >= 0) {
        *out = v->tensor < r->test->ntensors ? &r->tensor[v->tensor] : NULL;
        if (*out && (*out)->data) return true;
        buf_printf(&r->report, "tensor %d has not been made", v->tensor);
        return false;
    }
    Elem e = v->elem == EL_none ? EL_f64 : v->elem;
    if (!tensor_make(scalar, e, 0, NULL, &r->report)) return false;
    if (elem_is_float(e)) elem_set(e, scalar->data, 0, v->fval);
    else elem_set_int(e, scalar->data, 0, v->ival);
    *out = scalar;
    return true;
}

static bool step_expect(Run *r, const TStep *s) {
    HostTensor sl, sr = {0};
    const HostTensor *left = NULL, *right = NULL;
    bool fine = value_of(r, &s->left, &sl, &left) && value_of(r, &s->right, &sr, &right);
    if (fine) {
        CompareSpec spec = {.op = s->op, .rel = s->rel, .abs = s->abs,
                            .bound_got = s->left.tensor >= 0 ? r->bound[s->left.tensor] : NULL,
                            .bound_expected = s->right.tensor >= 0 ? r->bound[s->right.tensor] : NULL};
        CompareResult c = tensor_compare(left, right, &spec);
        fine = c.ok && !c.shape_error;
        if (!fine) {
            buf_printf(&r->report, "expect %s", op_spellings[s->op]);
            if (s->rel != 0) buf_printf(&r->report, " within rel %g", s->rel);
            if (s->abs != 0) buf_printf(&r->report, "%s abs %g", s->rel != 0 ? "," : " within", s->abs);
            buf_puts(&r->report, ": ");
            compare_text(&c, left->rank ? left : right, &spec, &r->report);
            if (c.shape_error) {
                buf_puts(&r->report, ": ");
                tensor_type_text(left, &r->report);
                buf_puts(&r->report, " and ");
                tensor_type_text(right, &r->report);
            }
        }
    }
    tensor_free(&sl);
    tensor_free(&sr);
    return fine;
}

// ---- a test --------------------------------------------------------------------------------------

bool test_run(TestRun *r) {
    const TTest *t = r->test;
    size_t n = (size_t)(t->ntensors > 0 ? t->ntensors : 1);
    r->tensor = heap_alloc(sizeof *r->tensor * n);
    r->bound = heap_alloc(sizeof *r->bound * n);
    r->written = heap_alloc(sizeof *r->written * n);
    bool fine = true;
    for (int i = 0; i < t->nsteps && fine; i++) {
        const TStep *s = &t->steps[i];
        switch (s->kind) {
        case STEP_make:   fine = step_make(r, s); break;
        case STEP_launch: fine = step_launch(r, s); break;
        case STEP_graph:  fine = step_graph(r, s); break;
        case STEP_expect: fine = step_expect(r, s); break;
        }
        if (fine) continue;
        Buf words = {0};                                  // the place goes before the words
        where_text(runtime_session(r->rt), s->span, &words);
        buf_puts(&words, r->report.p ? r->report.p : "failed");
        buf_free(&r->report);
        r->report = words;
    }
    if (fine && r->notes.n) buf_add(&r->report, r->notes.p, r->notes.n);
    return fine;
}

void test_run_free(TestRun *r) {
    for (int i = 0; r->tensor && i < r->test->ntensors; i++) { tensor_free(&r->tensor[i]); heap_free(r->bound[i]); }
    heap_free(r->tensor);
    heap_free(r->bound);
    heap_free(r->written);
    buf_free(&r->report);
    buf_free(&r->notes);
    *r = (TestRun){0};
}

// ---- with what -----------------------------------------------------------------------------------

// "--with=split_k=2 --set=BM=64": what was chosen, and what the options and the source say, too. False: nothing.
static bool launched_with(const TKernel *k, const Schedule *s, Buf *out) {
    int n = schedule_text(s, out);
    for (int i = 0; i < k->nbindings; i++)
        if (k->bindings[i].origin == ORIGIN_CHOSEN)
            buf_printf(out, "%s--set=%s=%lld", n++ ? " " : "", k->bindings[i].name->s, (long long)k->bindings[i].ival);
    if (!n) buf_puts(out, "the defaults");
    return n > 0;
}

// A line that is there already is not said again.
static void add_line(Buf *out, Buf *line) {
    buf_putc(line, '\n');
    if (!out->n || !strstr(out->p, line->p)) buf_add(out, line->p, line->n);
    buf_free(line);
}

void test_launches(const TTest *t, bool all, Buf *out) {
    for (const TStep *s = t->steps; s < t->steps + t->nsteps; s++) {
        Buf line = {0};
        if ((s->kind != STEP_launch && s->kind != STEP_graph) || s->reference) continue;
        buf_printf(&line, "      `%s`", s->kernel->name->s);
        for (int i = 0; i < s->kernel->ndims; i++)
            if (s->dims[i] >= 0) buf_printf(&line, ", %s = %lld", s->kernel->dims[i].name->s, (long long)s->dims[i]);
        bool graph = s->kind == STEP_graph, some = graph;
        if (!graph) buf_puts(&line, ": ");
        if (!graph) some = launched_with(s->kernel, &s->schedule, &line);
        if (all || some) add_line(out, &line);
        buf_free(&line);
        for (int i = 0; s->kind == STEP_graph && i < s->graph->nlaunches; i++) {
            const TGLaunch *l = &s->graph->launches[i];
            buf_printf(&line, "          `%s`: ", l->kernel->name->s);
            some = launched_with(l->kernel, &l->schedule, &line);
            if (all || some) add_line(out, &line);
            buf_free(&line);
        }
    }
}

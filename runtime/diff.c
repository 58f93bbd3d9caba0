// `tkc diff`: the first value where a device and the interpreter part.
//
//     model.onnx --> graph --> program.tk --> launches on a device          h, s, y as the launches leave them
//                      |                                |  compared, in the order of the program
//                      +--> interpreter --> h, s, y ----+
//
// Values are those that the program keeps in memory, found by their names; a program that was edited may have others, which
// are passed over. The rule is that of whole networks: an element may be off by a part of the largest of its value,
// since small elements are differences of large ones. Errors of one value go on into the next, so the bound is not a
// tight one.
//
// When all values agree launch by launch, two things are left that could be wrong: the launches as one graph of the
// driver, and the graph that the program was written from, which is compared with the model as it was read.
#include "lang/c_text.h"
#include "lang/shown.h"
#include "runtime/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/write/write.h"
#include "runtime/internal.h"

typedef struct Apart {                 // of two values
    int64_t first, count, of;          // the first element that is too far off; how many of how many
    double  got, expected, allowed;
    double  worst, top;                // the largest difference, the largest element expected
} Apart;

typedef struct Diff {
    const DiffOptions *opt;
    const ModelProgram *p;
    GValues *values;                   // by program
    int      program, before;          // that runs, from 0; launches of those before it
    int      agree, unknown, launches;
    Buf      unknown_names, last;      // last: the name of the last that agreed
    double   worst;                    // of those that agree: the largest difference, relative to the largest element
    char    *worst_name;
    bool     parted;
    Buf      err;
} Diff;

static double by_type(Elem e) { return fmax(1e-3, 3 * default_rel(e, e)); }

static bool same_bits(const void *a, const void *b, int64_t i, Elem e) {
    size_t n = (size_t)elem_bytes(e);
    return memcmp((const char *)a + (size_t)i * n, (const char *)b + (size_t)i * n, n) == 0;
}

static Apart compare(const HostTensor *got, const void *want, const DiffOptions *opt) {
    Apart a = {.first = -1, .of = tensor_count(got)};
    Elem  e = got->elem;
    for (int64_t i = 0; i < a.of; i++) {
        double v = fabs(elem_get(e, want, i));
        if (isfinite(v) && v > a.top) a.top = v;
    }
    double rtol = opt->rtol >= 0     ? opt->rtol
                  : elem_is_float(e) ? by_type(elem_bits(e) <= 16                  ? e
                                                   : opt->import.dtype != EL_none ? opt->import.dtype
                                                   : opt->import.tf32             ? EL_f16
                                                                                  : e)
                                     : 0;
    a.allowed = opt->atol + rtol * a.top;
    for (int64_t i = 0; i < a.of; i++) {
        if (same_bits(got->data, want, i, e)) continue;
        double x = elem_get(e, got->data, i), y = elem_get(e, want, i), off = fabs(x - y);
        bool finite = isfinite(x) && isfinite(y);
        if (finite && off > a.worst) a.worst = off;
        if ((isnan(x) && isnan(y)) || (finite && off <= a.allowed && (off > 0 || elem_is_float(e)))) continue;
        if (a.count++ > 0) continue;
        a.first = i;
        a.got = x;
        a.expected = y;
    }
    return a;
}

static void place_text(const HostTensor *t, int64_t i, Buf *out) {
    int64_t at[MAX_RANK];
    for (int d = t->rank - 1; d >= 0; d--) at[d] = i % t->dim[d], i /= t->dim[d];
    buf_putc(out, '[');
    for (int d = 0; d < t->rank; d++) buf_printf(out, "%s%lld", d ? ", " : "", (long long)at[d]);
    buf_putc(out, ']');
}

static void value_text(Elem e, double v, Buf *out) { buf_printf(out, elem_is_float(e) ? "%.9g" : "%.0f", v); }

static void apart_text(const Apart *a, const HostTensor *t, Buf *out) {
    place_text(t, a->first, out);
    buf_puts(out, " is ");
    value_text(t->elem, a->got, out);
    buf_puts(out, ", the interpreter has ");
    value_text(t->elem, a->expected, out);
    if (isfinite(a->got) && isfinite(a->expected))
        buf_printf(out, ": %.3g apart, %.3g allowed", fabs(a->got - a->expected), a->allowed);
    buf_printf(out, "; %lld of %lld elements differ", (long long)a->count, (long long)a->of);
}

static void say_parting(Diff *d, const RunValue *v, const GValue *want, const Apart *a) {
    Buf text = {0};
    buf_printf(&text, "differs: %s: ", v->name);
    tensor_type_text(&v->tensor, &text);
    if (want->from) buf_printf(&text, ", of %s", want->from);
    if (want->model_name && strcmp(want->model_name, v->name) != 0)
        buf_printf(&text, " (`%s` of the model)", want->model_name);
    buf_puts(&text, "\n  ");
    apart_text(a, &v->tensor, &text);
    if (v->launch) buf_printf(&text, "\n  made by launch %d, %s", v->launch, v->kernel);
    if (v->launch && program_count(d->p) > 1) buf_printf(&text, " of program %d", d->program + 1);
    if (!v->launch) buf_puts(&text, "\n  computed once, from weights");
    if (v->span.hi) {
        LineCol at = span_where(d->p->session, v->span.lo);
        buf_printf(&text, ", %s:%u:%u", at.src->path, at.line, at.col);
    }
    if (d->agree)
        buf_printf(&text, "\n  %d value%s before it agree%s, the last is %s", d->agree, d->agree == 1 ? "" : "s",
                   d->agree == 1 ? "s" : "", d->last.p);
    else buf_puts(&text, "\n  it is the first value");
    buf_putc(&text, '\n');
    put_shown(d->opt->to, text.p, text.n);
    buf_free(&text);
}

static void agrees(Diff *d, const RunValue *v, const Apart *a) {
    double off = a->top > 0 ? a->worst / a->top : 0;
    d->agree++;
    d->last.n = 0;
    buf_puts(&d->last, v->name);
    if (off > d->worst) {
        d->worst = off;
        heap_free(d->worst_name);
        d->worst_name = copy_text(v->name, strlen(v->name));
    }
    if (d->opt->verbose)
        c_fprintf(d->opt->to, "agrees: %s, launch %d, %s: at most %.3g of its largest element\n", v->name, v->launch,
                v->kernel, off);
}

static const GValue *find(const Diff *d, const RunValue *v) {
    const GValues *in = &d->values[d->program];
    for (int i = 0; i < in->n; i++)
        if (strcmp(in->at[i].name, v->name) == 0 && in->at[i].tensor.data) return &in->at[i];
    return NULL;
}

static bool see(void *ctx, const RunValue *v) {
    Diff *d = ctx;
    const GValue *want = find(d, v);
    if (d->before + v->launch > d->launches) d->launches = d->before + v->launch;
    bool fits = want && want->tensor.elem == v->tensor.elem && want->tensor.bytes == tensor_bytes(&v->tensor);
    if (!fits) {
        buf_printf(&d->unknown_names, "%s%s", d->unknown++ ? ", " : "", v->name);
        return true;
    }
    Apart a = compare(&v->tensor, want->tensor.data, d->opt);
    if (a.count == 0) {
        agrees(d, v, &a);
        return true;
    }
    say_parting(d, v, want, &a);
    d->parted = true;
    return false;
}

static void next_program(void *ctx, int number) {
    Diff *d = ctx;
    d->program = number - 1;
    d->before = d->launches;
}

// ---- what is left -----------------------------------------------------------------------------------

static bool outputs_agree(Diff *d, const GTensor *got, const GTensor *want, const char *what) {
    for (int i = 0; i < graph_made_count(d->p->graph); i++) {
        HostTensor t;
        Buf text = {0};
        if (got[i].bytes != want[i].bytes || got[i].elem != want[i].elem || !model_tensor(&got[i], &t, &text)) continue;
        Apart a = compare(&t, want[i].data, d->opt);
        if (a.count) {
            buf_printf(&text, "differs: result %d, %s\n  ", i, what);
            apart_text(&a, &t, &text);
            print_shown(d->opt->to, "%s\n", text.p);
        }
        buf_free(&text);
        if (a.count) return false;
    }
    return true;
}

static void free_tensors(GTensor *t, int n) {
    for (int i = 0; i < n; i++) g_tensor_free(&t[i]);
    heap_free(t);
}

// The whole at once, and the graph before it was simplified: the interpreter of the model.
static bool rest_agrees(Diff *d, OnnxModel *m, const OnnxImport *how, bool *ran, Buf *err) {
    static const RunControl control = {.junk_seed = 1};
    int n = graph_made_count(d->p->graph);
    GTensor *want = heap_alloc(sizeof *want * (size_t)(n + 1)), *got = heap_alloc(sizeof *got * (size_t)(n + 1));
    OnnxImport again = *how;
    *ran = onnx_run(m, &again, want, err) && program_call(d->p, how, &control, got, err);
    bool fine = *ran &&
                outputs_agree(
                    d, got, want,
                    d->p->device->ops->graph_make
                        ? "when all launches are one graph of the device, or of the model before it became a program"
                        : "of the model before it became a program");
    free_tensors(want, n);
    free_tensors(got, n);
    return fine;
}

static void say_agreement(const Diff *d) {
    fprintf(d->opt->to, "agrees: %d value%s of %d launch%s on %s", d->agree, d->agree == 1 ? "" : "s", d->launches,
            d->launches == 1 ? "" : "es", d->p->device->ops->name);
    if (d->worst_name) print_shown(d->opt->to, ", at most %.2g of the largest element off (%s)", d->worst, d->worst_name);
    fputc('\n', d->opt->to);
    if (d->unknown)
        print_shown(d->opt->to, "not compared, since the model's own program has no such value: %s\n", d->unknown_names.p);
}

static DiffResult run_diff(Diff *d, OnnxModel *m, OnnxImport *how, Buf *err) {
    const RunWatch watch = {see, d, next_program};
    int results = graph_made_count(d->p->graph);
    d->values = heap_alloc(sizeof *d->values * (size_t)program_count(d->p));
    GTensor *out = heap_alloc(sizeof *out * (size_t)(results + 1));
    bool ok = program_values(d->p, how, d->values, err) &&
              program_call(d->p, how, &(RunControl){.junk_seed = 1, .watch = &watch}, out, err);
    DiffResult r = !ok ? DIFF_FAILED : d->parted ? DIFF_PART : DIFF_AGREE;
    if (r == DIFF_AGREE && !rest_agrees(d, m, how, &ok, err)) r = ok ? DIFF_PART : DIFF_FAILED;
    if (r == DIFF_AGREE) say_agreement(d);
    for (int i = 0; i < program_count(d->p); i++) graph_values_free(&d->values[i]);
    heap_free(d->values);
    free_tensors(out, results);
    return r;
}

DiffResult model_diff(const char *path, RunArg *args, int nargs, const DiffOptions *opt, Buf *err) {
    ModelCall b;
    ModelProgram p = {0};
    Buf why = {0};
    DiffResult r = DIFF_FAILED;
    bool ok = model_open(path, args, nargs, &b, err) && (!opt->data || model_data(&b, opt->data, err));
    if (ok && !model_all_given(&b, &why)) ok = false, buf_printf(err, "%s: %s", path, why.p);
    OnnxImport how = model_import(&b, &opt->import);
    if (ok && program_open(b.m,
                           &(ProgramOptions){
                               .device = opt->device, .where = opt->where, .program = opt->program, .item = opt->item},
                           &how, &p, err)) {
        Diff d = {.opt = opt, .p = &p};
        r = run_diff(&d, b.m, &how, err);
        buf_free(&d.unknown_names);
        buf_free(&d.last);
        heap_free(d.worst_name);
    }
    program_close(&p);
    model_close(&b);
    buf_free(&why);
    return r;
}

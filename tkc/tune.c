// tkc tune FILE [KERNEL] [NAME=SPEC...]: measures what a kernel leaves open. All of it is runtime/tune.c; this reads
// the command line, shows a bar on a terminal, and prints or writes what came out.
//
// NAME=SPEC is an argument as for `tkc run` where the kernel has such a parameter, else a dimension or compile-time value. A
// tensor that is not given has the shape that the dimensions give it, and random data. Of a file of several kernels, as a model's program is, each is
// measured that needs nothing but values; why another is not stands beside it. Of one with a graph, each that the graph launches, at its dimensions.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/tk_run.h"
#include "runtime/tune.h"
#include "tkc/compile.h"
#include "tkc/tkc.h"
#include "tkc/values.h"

enum { MAX_ARGS = 2 * MAX_PARAMS, MAX_CASES = 256, ROWS_SHOWN = 10, BAR = 32 };

typedef struct Tune {
    const Options *opt;
    Session       *s;
    SemaFile      *file;
    const Node    *graph;                  // whose launches are asked for, or NULL: these kernels
    const Node    *kernels[MAX_KERNELS];
    int            nkernels;
    const Node    *kernel;                 // the one at hand
    CompileOptions compile;
    RunArg         arg[MAX_ARGS];
    int            n;
    Values         base;                   // of --set and the words, for all cases
    TuneResult     result[MAX_CASES];
    int            nresults;
    Buf            err;
} Tune;

static void bar(void *ctx, const char *doing, int done, int of) {
    char text[BAR + 1];
    int full = of > 0 ? done * BAR / of : BAR;
    (void)ctx;
    memset(text, '.', BAR);
    memset(text, '#', (size_t)full);
    text[BAR] = '\0';
    fprintf(stderr, "\r  %-10s [%s] %d of %d ", doing, text, done, of);
    if (done == of) fputs("\r\033[K", stderr);
    fflush(stderr);
}

static bool has_param(const Node *kernel, const char *text, size_t n) {
    const Node *params = kernel->kid[1];
    for (uint32_t i = 0; params != NULL && i < params->nkid; i++)
        if (params->kid[i]->sym != NULL && params->kid[i]->sym->n == n && memcmp(params->kid[i]->sym->s, text, n) == 0)
            return true;
    return false;
}

static int add(Values *v, const SemaValue *x, const char *option) {
    for (int i = 0; i < v->n; i++)
        if (strcmp(v->at[i].name, x->name) == 0) return wrong_use("%s: %s is given twice", option, x->name);
    if (v->n == MAX_VALUES) return wrong_use("%s: more than %d values", option, MAX_VALUES);
    v->at[v->n++] = *x;
    return DONE;
}

static int read_words(Tune *t, int first) {
    const Options *opt = t->opt;
    int status = values_read(opt, session_arena(t->s), &t->base);
    for (int i = first; i < opt->operands.n && status == DONE; i++) {
        const char *text = opt->operands.at[i], *sign = strchr(text, '=');
        SemaValue v;
        if (sign != NULL && (t->graph != NULL || t->nkernels > 1 || !has_param(t->kernels[0], text, (size_t)(sign - text)))) {
            status = value_read("tune", text, session_arena(t->s), &v);
            if (status == DONE) status = add(&t->base, &v, "tune");
            continue;
        }
        if (t->n == MAX_ARGS) return wrong_use("more than %d arguments", MAX_ARGS);
        if (!arg_parse(text, t->n, (uint64_t)opt->seed, &t->arg[t->n], &t->err)) return wrong_use("%s", t->err.p);
        t->n++;
    }
    return status;
}

// "M=16,N=4096" on top of what holds for all.
static int read_case(Tune *t, const char *text, Values *out) {
    *out = t->base;
    while (*text != '\0') {
        size_t n = strcspn(text, ",");
        SemaValue v;
        int status = value_read("--at", arena_printf(session_arena(t->s), "%.*s", (int)n, text), session_arena(t->s), &v);
        if (status == DONE) status = add(out, &v, "--at");
        if (status != DONE) return status;
        text += n + (text[n] == ',');
    }
    return DONE;
}

static int failed(Tune *t) {
    bool silent = report_diags(t->s, t->opt);
    if (silent || t->err.n > 0)
        return fail("%s: %s", t->opt->operands.at[0], t->err.n > 0 ? t->err.p : "it cannot be tuned");
    return FAILED;
}

// What the arguments say of dimensions and types, besides what was said of them.
static int known_of(Tune *t, const Values *all, Values *set, Values *known) {
    values_for(all, t->kernel, set, known);
    SemaValue own[MAX_VALUES];
    int n = infer_values(t->kernel, t->arg, t->n, own, MAX_VALUES, &t->err);
    for (int i = 0; i < n; i++) {
        int at = 0;
        while (at < known->n && strcmp(known->at[at].name, own[i].name) != 0) at++;
        if (at == known->n && at < MAX_VALUES) known->at[known->n++] = own[i];
        else if (at < known->n && known->at[at].ival != own[i].ival) {
            buf_printf(&t->err, "%s = %lld, and %lld by the arguments", own[i].name, (long long)known->at[at].ival,
                       (long long)own[i].ival);
            return FAILED;
        }
    }
    return n < 0 ? FAILED : DONE;
}

static int print_result(Tune *t) {
    Buf out = {0};
    if (t->nresults > 1) buf_putc(&out, '\n');
    tune_print(&t->result[t->nresults - 1], t->opt->all ? 0 : ROWS_SHOWN, &out);
    bool ok = output_report(NULL, out.p, out.n);
    buf_free(&out);
    return ok ? DONE : FAILED;
}

static int tune_instance(Tune *t, Runtime *rt, InstanceOf of, const TuneArg *args, int n) {
    TuneOptions opt = {.most = (int)t->opt->most,
                       .all = t->opt->all,
                       .seed = (uint64_t)t->opt->seed,
                       .progress = isatty(2) ? bar : NULL};
    if (t->nresults == MAX_CASES) return fail("%s: more than %d cases", t->opt->operands.at[0], MAX_CASES);
    TuneResult *r = &t->result[t->nresults];
    bool ok = rt != NULL
                  ? tune_kernel(rt, of, args, n, &opt, r, &t->err)
                  : tune_expect(t->s, of, &t->compile, r, &t->err);
    if (!ok) return failed(t);
    t->nresults++;
    return print_result(t);
}

static int tune_case(Tune *t, Runtime *rt, const Values *all) {
    Values set, known;
    TuneArg args[MAX_ARGS] = {0};
    if (known_of(t, all, &set, &known) != DONE) return failed(t);
    for (int i = 0; i < t->n; i++) {
        const RunArg *a = &t->arg[i];
        args[i].name = a->name;
        args[i].host = a->tensor.data;
        args[i].arg = (BindArg){
            .origin = a->spec, .scalar = a->scalar, .is_float = a->is_float, .is_u64 = a->is_u64, .ival = a->ival, .fval = a->fval};
        if (a->scalar) continue;
        args[i].arg.elem = a->tensor.elem;
        args[i].arg.rank = a->tensor.rank;
        memcpy(args[i].arg.dim, a->tensor.dim, sizeof args[i].arg.dim);
        bind_contiguous(&args[i].arg);
    }
    return tune_instance(t, rt, (InstanceOf){t->file, t->kernel, set.at, set.n, known.at, known.n}, args, t->n);
}

static int write_table(const Tune *t) {
    Buf out = {0};
    tune_table_head(&out);
    for (int i = 0; i < t->nresults; i++) tune_table_rows(&t->result[i], &out);
    bool ok = output_write(t->opt->out, out.p, out.n);
    buf_free(&out);
    return ok ? DONE : FAILED;
}

static int write_source(Tune *t) {
    Buf text = {0}, diff = {0}, err = {0};
    const Node *item = sema_tune_item(t->file, t->kernel);
    const char *path = item != NULL ? span_where(t->s, item->span.lo).src->path : t->opt->operands.at[0];
    int status = FAILED;
    if (!tune_write(t->file, t->s, t->kernel, t->result, t->nresults, &text, &diff, &err)) fail("%s: %s", path, err.p);
    else if (diff.n == 0) status = output_write(NULL, "the source says so already\n", 27) ? DONE : FAILED;
    else status = output_report(NULL, diff.p, diff.n) && output_write(path, text.p, text.n) ? DONE : FAILED;
    buf_free(&text), buf_free(&diff), buf_free(&err);
    return status;
}

static int cases_of(const Tune *t) { return t->opt->at.n > 0 ? (int)t->opt->at.n : 1; }

static int read_nth(Tune *t, int i, Values *out) {
    *out = t->base;
    return t->opt->at.n > 0 ? read_case(t, t->opt->at.at[i], out) : DONE;
}

static int check_cases(Tune *t) {
    int status = DONE;
    for (int i = 0; i < cases_of(t) && status == DONE; i++) {
        Values all;
        status = read_nth(t, i, &all);
        if (status == DONE) status = t->graph != NULL ? values_check(&all, &t->graph, 1) : values_check(&all, t->kernels, t->nkernels);
    }
    return status;
}

static int tune_one(Tune *t, Runtime *rt) {
    int status = DONE;
    for (int i = 0; i < cases_of(t) && status == DONE; i++) {
        Values all;
        status = read_nth(t, i, &all);
        if (status == DONE) status = tune_case(t, rt, &all);
    }
    return status;
}

// The launches of one case; those of an earlier one are not measured again.
static int tune_launches(Tune *t, Runtime *rt) {
    static InstanceOf of[MAX_CASES];
    int status = FAILED;
    for (int i = 0, n = 0, before = 0; i < cases_of(t); i++, before = n) {
        Values all;
        if (read_nth(t, i, &all) != DONE) return USAGE;
        n = graph_asks(t->s, t->file, t->graph, &t->compile, &all, of, before, MAX_CASES, &t->err);
        if (n < 0 || t->err.n > 0) return failed(t);
        for (int k = before; k < n; k++) {
            t->err.n = 0;
            if (tune_instance(t, rt, of[k], NULL, 0) == DONE) status = DONE;
        }
    }
    return status;
}

static int tune_all(Tune *t, Device *dev) {
    Runtime *rt = dev == NULL ? NULL
                              : runtime_new(t->s, dev,
                                            &(RuntimeOptions){.compile = t->compile, .seed = (uint64_t)t->opt->seed});
    int status = FAILED;
    if (t->graph != NULL) status = tune_launches(t, rt);
    for (int i = 0; i < t->nkernels; i++) {
        t->kernel = t->kernels[i];
        t->err.n = 0;
        if (tune_one(t, rt) == DONE) status = DONE;
    }
    if (t->nresults > 0) {                                   // of those before one that failed, too
        Buf out = {0};
        if (t->nresults > 1) buf_putc(&out, '\n');
        tune_summary(t->result, t->nresults, &out);
        if (!output_report(NULL, out.p != NULL ? out.p : "", out.n)) status = FAILED;
        buf_free(&out);
        if (t->opt->out != NULL && write_table(t) != DONE) status = FAILED;
        if (t->opt->write && rt != NULL && status == DONE) status = write_source(t);
    }
    runtime_free(rt);
    return status;
}

static int tune_file(Tune *t) {
    const Options *opt = t->opt;
    int status = compile_options(opt, &t->compile);
    if (status != DONE) return status;
    if (opt->at.n > MAX_CASES) return wrong_use("--at: more than %d", MAX_CASES);
    const Source *src = open_source(t->s, opt, &status);
    if (src == NULL) return status;
    t->file = sema_file(t->s, parse_file(t->s, src));
    if (!report_diags(t->s, opt)) return FAILED;
    bool named = opt->operands.n > 1 && strchr(opt->operands.at[1], '=') == NULL;
    if (named && opt->kernel != NULL)
        return wrong_use("the kernel is named twice: `%s` and --kernel=%s", opt->operands.at[1], opt->kernel);
    const char *kernel = named ? opt->operands.at[1] : opt->kernel;
    bool graphs = kernel == NULL && !opt->write && (opt->graph != NULL || sema_graph_count(t->file) > 0);
    if (graphs) t->graph = pick_graph(t->file, opt->operands.at[0], opt->graph);
    else t->nkernels = pick_kernels(t->file, opt->operands.at[0], kernel, opt->write, t->kernels, MAX_KERNELS);
    if (t->graph == NULL && t->nkernels == 0) return FAILED;
    t->compile.in_graph = graphs;
    status = read_words(t, named ? 2 : 1);
    if (status == DONE) status = check_cases(t);
    if (status == DONE && t->n > 0 && !args_load(t->kernels[0], t->arg, t->n, &t->err)) status = failed(t);
    if (status != DONE) return status;
    DeviceOptions where = {.ordinal = (int)opt->gpu, .driver = opt->driver};
    if (t->compile.target == NULL && opt->expect) t->compile.target = target_default;
    Device *dev = opt->expect ? NULL : device_open("cuda", &where, &t->err);
    if (dev == NULL && !opt->expect) return fail("tuning measures a GPU: %s", t->err.p);
    status = tune_all(t, dev);
    device_close(dev);
    return status;
}

int main_tune(const Options *opt) {
    if (opt->device != NULL && strcmp(opt->device, "cuda") != 0 && strcmp(opt->device, "auto") != 0)
        return wrong_use("tuning measures a GPU: --device=%s is none", opt->device);
    if (is_model(opt))
        return wrong_use("tune takes the kernels of a .tk file; tkc %s -o FILE.tk makes one of a model",
                         opt->operands.at[0]);
    static Tune t;                                           // large, and there is one
    t = (Tune){.opt = opt, .s = session_new()};
    int status = tune_file(&t);
    for (int i = 0; i < t.n; i++) arg_free(&t.arg[i]);
    for (int i = 0; i < t.nresults; i++) tune_result_free(&t.result[i]);
    buf_free(&t.err);
    session_free(t.s);
    return status;
}

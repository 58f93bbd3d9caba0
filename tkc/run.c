// tkc run FILE NAME=SPEC...: one kernel or graph on data. All of it is runtime/; this is what the command line says.
#include <string.h>
#include <unistd.h>

#include "runtime/tk_run.h"
#include "tkc/compile.h"
#include "tkc/tkc.h"
#include "tkc/values.h"

enum { MAX_ARGS = 2 * MAX_GRAPH_PARAMS };

typedef struct Run {
    const Options *opt;
    Session       *s;
    RunArg         arg[MAX_ARGS];
    int            n;
    Buf            err;
    RunStages      stages;
} Run;

static int read_args(Run *r) {
    const Options *opt = r->opt;
    int words = opt->operands.n - 1 + opt->arg.n;
    if (words > MAX_ARGS) return wrong_use("more than %d arguments", MAX_ARGS);
    for (int i = 0; i < words; i++) {
        const char *text = i < opt->operands.n - 1 ? opt->operands.at[1 + i] : opt->arg.at[i - (opt->operands.n - 1)];
        if (!arg_parse(text, r->n, (uint64_t)opt->seed, &r->arg[r->n], &r->err)) return wrong_use("%s", r->err.p);
        r->n++;
    }
    return DONE;
}

// --save NAME=FILE: of an argument that is given, or an output to be made, as NAME=FILE alone would be.
static int read_saves(Run *r) {
    const OptList *save = &r->opt->save;
    for (int i = 0; i < save->n; i++) {
        const char *text = save->at[i], *is = strchr(text, '=');
        if (is == NULL || is == text || is[1] == '\0') return wrong_use("--save takes NAME=FILE.npy, not `%s`", text);
        int k = 0;
        while (k < r->n && (strlen(r->arg[k].name) != (size_t)(is - text) ||
                            memcmp(r->arg[k].name, text, (size_t)(is - text)) != 0))
            k++;
        if (k < r->n && r->arg[k].save != NULL) return wrong_use("--save %s: `%s` is saved twice", text, r->arg[k].name);
        if (k < r->n) { r->arg[k].save = is + 1; continue; }
        if (r->n == MAX_ARGS) return wrong_use("more than %d arguments", MAX_ARGS);
        if (!arg_parse(text, r->n, 0, &r->arg[r->n], &r->err)) return wrong_use("%s", r->err.p);
        r->n++;
    }
    return DONE;
}

// Diagnostics, if there are any, say why; else the words in err.
static int failed(Run *r, const char *path) {
    bool silent = report_diags(r->s, r->opt);
    if (silent || r->err.n > 0) return fail("%s: %s", path, r->err.n > 0 ? r->err.p : "it cannot be run");
    return FAILED;
}

static int run_on(Run *r, Device *dev, SemaFile *file, const Node *item, const CompileOptions *compile, const Values *set) {
    const char *path = r->opt->operands.at[0];
    Runtime *rt = runtime_new(r->s, dev,
                              &(RuntimeOptions){.compile = *compile,
                                                .seed = (uint64_t)r->opt->seed,
                                                .progress_to = isatty(2) ? stderr : NULL,
                                                .stages = &r->stages,
                                                .random_weights = r->opt->random_weights,
                                                .profile = wants_profile(r->opt)});
    RunResult result;
    bool ok = run_item(rt, file, item, r->arg, r->n, set->at, set->n, &result, &r->err);
    int status = DONE;
    if (ok) {
        report_diags(r->s, r->opt);                          // warnings
        run_print(&result, stdout);
        if (!write_profile(r->opt, &result.profile)) status = FAILED;
    } else {
        status = failed(r, path);
    }
    run_result_free(&result);
    runtime_free(rt);
    return status;
}

static int run_file(Run *r) {
    const Options *opt = r->opt;
    CompileOptions compile;
    Values set;
    int status = compile_options(opt, &compile);
    if (status == DONE) status = values_read(opt, session_arena(r->s), &set);
    if (status == DONE) status = opt->operands.n == 0 ? wrong_use("no file was given; see tkc run --help") : read_args(r);
    if (status == DONE) status = read_saves(r);
    if (status != DONE) return status;
    double since = now_ms() * 1e3;
    const Source *src = open_source(r->s, opt, &status);
    if (src == NULL) return status;
    SemaFile *file = sema_file(r->s, parse_file(r->s, src));
    if (!report_diags(r->s, opt)) return FAILED;
    const Node *item = pick_item(file, opt->operands.at[0], opt);
    if (item == NULL) return FAILED;
    if ((status = values_check(&set, &item, 1)) != DONE) return status;
    if (wants_profile(opt) && item->kind != N_graph) return wrong_use("--%s is for graphs and models", opt->profile ? "profile" : "trace");
    DeviceOptions where = {.ordinal = (int)opt->gpu, .driver = opt->driver};
    stages_lap(&r->stages, RS_check, &since);
    Device *dev = device_open(opt->device != NULL ? opt->device : "auto", &where, &r->err);
    if (dev == NULL) return fail("%s", r->err.p);
    r->stages.device_us = now_ms() * 1e3 - since;
    stages_lap(&r->stages, RS_device, &since);
    status = run_on(r, dev, file, item, &compile, &set);
    if (status == DONE && opt->time && item->kind == N_graph) stages_print(&r->stages, stderr);
    device_close(dev);
    return status;
}

int main_run(const Options *opt) {
    if (is_model(opt)) return run_model(opt);
    if (opt->dtype != NULL || opt->dtype_io) return wrong_use("--dtype is for models: FILE.onnx");
    if (opt->device != NULL && strcmp(opt->device, "ref") == 0)
        return wrong_use("kernels do not run on the device ref: models do");
    static Run r;                                            // large, and there is one
    r = (Run){.opt = opt, .s = session_new()};
    stages_start(&r.stages);
    int status = run_file(&r);
    for (int i = 0; i < r.n; i++) arg_free(&r.arg[i]);
    buf_free(&r.err);
    session_free(r.s);
    return status;
}

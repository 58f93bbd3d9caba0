// Models: FILE.onnx --emit=graph, run FILE.onnx, diff FILE.onnx, check-onnx FOLDER. All of it is runtime/; this is what
// the command line says.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/ix/ix.h"
#include "graph/graph_passes.h"
#include "lang/c_text.h"
#include "runtime/model.h"
#include "tkc/clock.h"
#include "tkc/compile.h"
#include "tkc/tkc.h"

enum { MAX_ARGS = 1024, MAX_FIXED = 64 };

static bool tf32(const Options *opt) { return opt->dtype != NULL && strcmp(opt->dtype, "tf32") == 0; }

static Elem dtype(const Options *opt) {
    return opt->dtype != NULL && !tf32(opt) ? elem_by_name((Str){opt->dtype, strlen(opt->dtype)}) : EL_none;
}

bool is_model(const Options *opt) {
    return opt->operands.n > 0 && text_ends(opt->operands.at[0], ".onnx");
}

typedef struct Args {
    RunArg at[MAX_ARGS];
    int n;
    OnnxSize fixed[MAX_FIXED];
    int nfixed;
} Args;

// --fix=NAME=SIZE
static int read_fixed(const Options *opt, Args *a) {
    for (int i = 0; i < opt->fix.n; i++) {
        const char *text = opt->fix.at[i], *sign = strrchr(text, '=');
        char *end = NULL;
        if (sign == NULL || sign == text) return wrong_use("--fix %s: NAME=SIZE is wanted", text);
        errno = 0;
        long long size = strtoll(sign + 1, &end, 10);
        if (end == sign + 1 || *end != '\0' || errno != 0 || size < 0 || size > IX_DIM_MAX) return wrong_use("--fix %s: `%s` is no size", text, sign + 1);
        if (a->nfixed == MAX_FIXED) return wrong_use("--fix: more than %d dimensions", MAX_FIXED);
        char *name = heap_alloc((size_t)(sign - text) + 1);
        memcpy(name, text, (size_t)(sign - text));
        for (int k = 0; k < a->nfixed; k++)
            if (strcmp(a->fixed[k].name, name) == 0) { heap_free(name); return wrong_use("--fix %s: it is given twice", text); }
        a->fixed[a->nfixed++] = (OnnxSize){name, size};
    }
    return DONE;
}

static int read_args(const Options *opt, Args *a) {
    int operands = opt->operands.n - 1, given = operands + opt->arg.n, words = given + opt->save.n;
    Buf err = {0};
    int status = DONE;
    if (words > MAX_ARGS) return wrong_use("more than %d arguments", MAX_ARGS);
    for (int i = 0; i < words && status == DONE; i++) {
        const char *text = i < operands ? opt->operands.at[1 + i]
                           : i < given  ? opt->arg.at[i - operands]
                                        : opt->save.at[i - given];
        if (!arg_parse(text, i, (uint64_t)opt->seed, &a->at[i], &err)) status = wrong_use("%s", err.p);
        else a->n++;
    }
    buf_free(&err);
    return status;
}

// a: NULL where nothing can be fixed
static OnnxImport import_asked(const Options *opt, const Args *a) {
    static GraphPasses verified = {.verify = true};
    return (OnnxImport){.random_weights = opt->random_weights,
                        .fixed = a != NULL ? a->fixed : NULL,
                        .nfixed = a != NULL ? a->nfixed : 0,
                        .dtype = dtype(opt),
                        .dtype_io = opt->dtype_io,
                        .tf32 = tf32(opt),
                        .unoptimised = opt->opt != NULL && strcmp(opt->opt, "none") == 0,
                        .passes = opt->verify != NULL ? &verified : NULL,
                        .donate = opt->donate};
}

void model_import_asked(const Options *opt, OnnxImport *out) { *out = import_asked(opt, NULL); }

typedef int ModelAct(const Options *opt, Args *a, void *call, Buf *err);

static int with_model(const Options *opt, ModelAct *act, void *call) {
    if (opt->dtype_io && opt->dtype == NULL) return wrong_use("--dtype-io goes with --dtype");
    if (opt->dtype_io && tf32(opt)) return wrong_use("--dtype=tf32 leaves inputs and outputs as they are: --dtype-io goes with bf16 and f16");
    Args *a = heap_alloc(sizeof *a);
    Buf err = {0};
    int status = read_args(opt, a);
    if (status == DONE) status = read_fixed(opt, a);
    if (status == DONE) status = act(opt, a, call, &err);
    for (int i = 0; i < a->n; i++) arg_free(&a->at[i]);
    for (int i = 0; i < a->nfixed; i++) heap_free((char *)a->fixed[i].name);
    heap_free(a);
    buf_free(&err);
    return status;
}

// What of --after, --dump-dir, --verify and --time is for the passes over the graph.
typedef struct Watch { GraphPasses passes; Clock clock; double *ms; } Watch;

static void print_times(Watch *w) {
    double passes = 0;
    for (int i = 1; i < graph_pass_count; i++) passes += w->ms[i];
    clock_row(&w->clock, "read, import, write", now_ms() - w->clock.start - passes);
    for (int i = 1; i < graph_pass_count; i++) clock_row(&w->clock, graph_pass_info(i)->name, w->ms[i]);
    clock_print(&w->clock);
}

static int emit_graph(const Options *opt, Args *a, void *watch, Buf *err) {
    Watch *w = watch;
    Buf text = {0};
    ModelOptions how = {.import = import_asked(opt, a)};
    how.import.passes = &w->passes;
    const char *path = opt->operands.at[0], *stage = opt->emit != NULL ? opt->emit : opt->after != NULL ? "graph" : "tk";
    bool ok = strcmp(stage, "graph") == 0
                  ? model_print_graph(path, a->at, a->n, &how, &text, err)
                  : model_print_program(path, a->at, a->n, &how, strcmp(stage, "fusion") == 0, &text, err);
    int status = !ok ? fail("%s", err->p) : (strcmp(stage, "tk") == 0 ? output_write : output_report)(opt->out, text.n > 0 ? text.p : "", text.n) ? DONE : FAILED;
    buf_free(&text);
    return status;
}

int emit_model(const Options *opt) {
    if (opt->operands.n > 1) return wrong_use("one file at a time: `%s` is the second", opt->operands.at[1]);
    const char *stage = opt->emit != NULL ? opt->emit : "tk";
    bool graph = strcmp(stage, "graph") == 0;
    if (!graph && strcmp(stage, "tk") != 0 && strcmp(stage, "fusion") != 0)
        return wrong_use("of a model there are --emit=tk, --emit=graph and --emit=fusion");
    if (opt->after != NULL && !graph_pass_exists(opt->after)) return USAGE;
    if (opt->after != NULL && opt->emit != NULL && !graph) return wrong_use("--after ends with the graph: --emit=graph writes it, not `%s`", stage);
    if (opt->dump_dir != NULL && !make_folder(opt->dump_dir)) return FAILED;
    Watch w = {.passes = {.verify = opt->verify != NULL, .after = opt->after, .dump_dir = opt->dump_dir}, .clock = clock_started()};
    w.ms = w.passes.ms = heap_alloc(sizeof *w.ms * (size_t)graph_pass_count);
    int status = with_model(opt, emit_graph, &w);
    if (opt->time) print_times(&w);
    heap_free(w.ms);
    return status;
}

typedef struct RunCall {
    DeviceOpening *opening;            // NULL once it is used
    RunStages stages;
} RunCall;

static int run(const Options *opt, Args *a, void *run_call, Buf *err) {
    RunCall *call = run_call;
    double since = call->stages.started;
    stages_lap(&call->stages, RS_inputs, &since);
    ProfileText profile = {0};
    ModelOptions how = {.stages = opt->time ? &call->stages : NULL,
                        .opening = call->opening,
                        .progress_to = isatty(2) ? stderr : NULL,
                        .where = {.ordinal = (int)opt->gpu, .driver = opt->driver},
                        .profile = wants_profile(opt) ? &profile : NULL,
                        .device = opt->device,
                        .verify_values = verifies_values(opt),
                        .import = import_asked(opt, a)};
    call->opening = NULL;
    bool fine = model_run_args(opt->operands.at[0], a->at, a->n, &how, stdout, err);
    int status = !fine ? fail("%s", err->p) : write_profile(opt, &profile) ? DONE : FAILED;
    if (fine && opt->time) stages_print(&call->stages, stderr);
    profile_free(&profile);
    return status;
}

int run_model(const Options *opt) {
    RunCall call = {0};
    Buf none = {0};
    stages_start(&call.stages);
    call.opening = model_device(opt->device, &(DeviceOptions){.ordinal = (int)opt->gpu, .driver = opt->driver},
                                wants_profile(opt));
    int status = with_model(opt, run, &call);
    if (call.opening != NULL) device_close(device_found(call.opening, &none));
    buf_free(&none);
    return status;
}

static bool tolerance(const char *name, const char *text, double otherwise, double *out) {
    char *end = NULL;
    *out = text != NULL ? c_strtod(text, &end) : otherwise;
    if (text == NULL || (end != text && *end == '\0' && *out >= 0 && isfinite(*out))) return true;
    return wrong_use("%s: `%s` is no positive number", name, text), false;
}

int main_check_onnx(const Options *opt) {
    if (opt->operands.n == 0) return wrong_use("no folder was given; see tkc check-onnx --help");
    CheckOnnxOptions check = {
        .device = opt->device,
        .filter = opt->filter,
        .import = import_asked(opt, NULL),
        .verify_values = verifies_values(opt),
        .verbose = opt->verbose,
        .relative_to_output = opt->relative_to != NULL && strcmp(opt->relative_to, "output") == 0,
        .to = stdout,
    };
    if (!tolerance("--rtol", opt->rtol, 1e-3, &check.rtol) || !tolerance("--atol", opt->atol, 1e-7, &check.atol))
        return USAGE;
    TestCounts counts = {0};
    return check_onnx(opt->operands.at, opt->operands.n, &check, &counts) ? DONE : FAILED;
}

static int diff(const Options *opt, Args *a, void *call, Buf *err) {
    DiffOptions *how = call;
    how->import = import_asked(opt, a);
    DiffResult r = model_diff(opt->operands.at[0], a->at, a->n, how, err);
    return r == DIFF_AGREE ? DONE : r == DIFF_PART ? FAILED : fail("%s", err->p);
}

int main_diff(const Options *opt) {
    Options rest = *opt;               // without the program among the operands
    DiffOptions how = {.device = opt->device,
                       .where = {.ordinal = (int)opt->gpu, .driver = opt->driver},
                       .item = opt->graph,
                       .data = opt->data,
                       .verbose = opt->verbose,
                       .to = stdout};
    if (!is_model(opt)) return wrong_use("no model was given; see tkc diff --help");
    if (opt->device != NULL && strcmp(opt->device, "ref") == 0)
        return wrong_use("--device=ref is the interpreter itself: choose another to compare with it");
    if (!tolerance("--rtol", opt->rtol, -1, &how.rtol) || !tolerance("--atol", opt->atol, 1e-7, &how.atol))
        return USAGE;
    if (opt->operands.n > 1 && text_ends(opt->operands.at[1], ".tk")) {
        how.program = opt->operands.at[1];
        rest.operands.at++;
        rest.operands.n--;
        rest.operands.at[0] = opt->operands.at[0];
    }
    return with_model(&rest, diff, &how);
}

// tkc run FILE NAME=SPEC...: one kernel or graph on data. All of it is runtime/; this is what the command line says.
#include <string.h>
#include <unistd.h>

#include "runtime/ptx_run.h"
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
        Buf numbered = {0};
        if (is_ptx(opt) && strchr(text, '=') == NULL) buf_printf(&numbered, "%d=%s", r->n, text);      // by position
        const char *box = is_ptx(opt) ? NULL : arg_box_spec(text);
        if (box != NULL) return wrong_use("`%s`: tensor maps are for PTX: FILE.ptx; what tkc compiles makes its own", box);
        bool ok = (is_ptx(opt) ? ptx_arg_parse : arg_parse)(numbered.n > 0 ? numbered.p : text, r->n, (uint64_t)opt->seed, &r->arg[r->n], &r->err);
        buf_free(&numbered);
        if (!ok) return wrong_use("%s", r->err.p);
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
        if (!npy_named(is + 1, &r->err)) return wrong_use("--save %s", r->err.p);
        int k = 0;
        while (k < r->n && (strlen(r->arg[k].name) != (size_t)(is - text) ||
                            memcmp(r->arg[k].name, text, (size_t)(is - text)) != 0))
            k++;
        if (k < r->n && (r->arg[k].save != NULL || r->arg[k].only_saved)) return wrong_use("--save %s: `%s` is saved twice", text, r->arg[k].name);
        for (int j = 0; j < i; j++)
            if (strcmp(strchr(save->at[j], '=') + 1, is + 1) == 0) return wrong_use("--save %s: `%.*s` is saved there", text, (int)strcspn(save->at[j], "="), save->at[j]);
        if (k < r->n) { r->arg[k].save = is + 1; continue; }
        if (r->n == MAX_ARGS) return wrong_use("more than %d arguments", MAX_ARGS);
        if (!arg_parse(text, r->n, 0, &r->arg[r->n], &r->err)) return wrong_use("%s", r->err.p);
        r->arg[r->n++].only_saved = true;
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
                              &(RuntimeOptions){.compile = *compile, .verify_values = verifies_values(r->opt),
                                                .seed = (uint64_t)r->opt->seed,
                                                .progress_to = isatty(2) ? stderr : NULL,
                                                .stages = &r->stages,
                                                .random_weights = r->opt->random_weights,
                                                .profile = wants_profile(r->opt)});
    RunResult result;
    bool ok = run_item(rt, (InstanceOf){.file = file, .item = item, .set = set->at, .nset = set->n}, r->arg, r->n, &result, &r->err);
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
    fflush(stdout);                                          // results are there before the device is closed
    if (status == DONE && opt->time && item->kind == N_graph) stages_print(&r->stages, stderr);
    device_close(dev);
    return status;
}

// ---- FILE.ptx ------------------------------------------------------------------------------------

static int read_three(const char *option, const char *text, uint32_t out[3]) {
    if (text == NULL) return DONE;
    for (int i = 0; i < 3; i++) out[i] = 1;
    for (int i = 0; i < 3; i++) {
        size_t n = strcspn(text, ",");
        int64_t v = 0;
        char part[24];
        snprintf(part, sizeof part, "%.*s", (int)(n < 23 ? n : 23), text);
        if (!number_parse(part, &v) || v < 1 || v > INT32_MAX) return wrong_use("--%s takes X[,Y,Z], numbers from 1 to %d, not `%s`", option, INT32_MAX, part);
        out[i] = (uint32_t)v;
        text += n;
        if (*text == '\0') return DONE;
        text++;
    }
    return wrong_use("--%s takes X[,Y,Z], three numbers at most", option);
}

static int read_launch(const Options *opt, PtxLaunch *out) {
    *out = (PtxLaunch){.entry = opt->kernel, .shared = -1, .together = opt->cooperative};
    int status = read_three("grid", opt->grid, out->grid);
    if (status == DONE) status = read_three("block", opt->block, out->block);
    if (status == DONE) status = read_three("cluster", opt->cluster, out->cluster);
    for (int i = 0; i < opt->allow.n && status == DONE; i++)
        if (strcmp(opt->allow.at[i], "races") != 0 && strcmp(opt->allow.at[i], "uninitialised") != 0)
            status = wrong_use("--allow takes races or uninitialised, not `%s`", opt->allow.at[i]);
    if (status != DONE || opt->shared == NULL) return status;
    if (!number_parse(opt->shared, &out->shared) || out->shared < 0 || out->shared > 1 << 24) return wrong_use("--shared takes a number of bytes, not `%s`", opt->shared);
    return DONE;
}

static int run_ptx_on(Run *r, const PtxFile *f, const PtxLaunch *launch) {
    const Options *opt = r->opt;
    Device *dev = device_open(opt->device != NULL ? opt->device : "auto", &(DeviceOptions){.ordinal = (int)opt->gpu, .driver = opt->driver}, &r->err);
    if (dev == NULL) return fail("%s", r->err.p);
    for (int i = 0; i < opt->allow.n; i++) {
        if (strcmp(opt->allow.at[i], "races") == 0) dev->check_races = false;
        else dev->allow_uninitialised = true;
    }
    RunResult result;
    bool ok = ptx_run(f, dev, launch, r->arg, r->n, &result, &r->err);
    if (ok) run_print(&result, stdout);
    run_result_free(&result);
    device_close(dev);
    return ok ? DONE : fail("%s", r->err.p);
}

static int run_ptx(Run *r) {
    const Options *opt = r->opt;
    const char *other = opt->set.n > 0 ? "set" : opt->with.n > 0 ? "with" : opt->math ? "math" : opt->opt ? "opt" : opt->arch ? "arch" : opt->graph ? "graph" : opt->verify ? "verify"
                        : opt->time ? "time" : wants_profile(opt) ? "profile" : opt->random_weights ? "random-weights" : NULL;
    if (other != NULL) return wrong_use("--%s is for what tkc compiles: PTX is run as it is", other);
    if (opt->device != NULL && strcmp(opt->device, "eval") == 0) return wrong_use("PTX runs on the devices emu and cuda");
    PtxLaunch launch;
    int status = read_launch(opt, &launch);
    if (status == DONE) status = read_args(r);
    if (status == DONE) status = read_saves(r);
    const Source *src = status == DONE ? open_source(r->s, opt, &status) : NULL;
    if (src == NULL) return status;
    PtxFile f;
    status = ptx_file_open(r->s, src->path, src->text, src->size, &f, &r->err) ? run_ptx_on(r, &f, &launch) : fail("%s", r->err.p);
    ptx_file_close(&f);
    return status;
}

int main_run(const Options *opt) {
    const char *launch = opt->grid ? "grid" : opt->block ? "block" : opt->cluster ? "cluster" : opt->shared ? "shared" : opt->cooperative ? "cooperative" : opt->allow.n > 0 ? "allow" : NULL;
    if (launch != NULL && !is_ptx(opt)) return wrong_use("--%s is for PTX: FILE.ptx; what tkc compiles knows its own", launch);
    if (is_model(opt)) return run_model(opt);
    if (opt->dtype != NULL || opt->dtype_io) return wrong_use("--dtype is for models: FILE.onnx");
    if (opt->fix.n > 0) return wrong_use("--fix is for models: FILE.onnx; dimensions of a kernel or graph are --set");
    if (opt->device != NULL && strcmp(opt->device, "ref") == 0)
        return wrong_use("kernels do not run on the device ref: models do");
    static Run r;                                            // large, and there is one
    r = (Run){.opt = opt, .s = session_new()};
    stages_start(&r.stages);
    int status = is_ptx(opt) ? run_ptx(&r) : run_file(&r);
    for (int i = 0; i < r.n; i++) arg_free(&r.arg[i]);
    buf_free(&r.err);
    session_free(r.s);
    return status;
}

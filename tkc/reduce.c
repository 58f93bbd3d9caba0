// tkc reduce: a failing program or model made smaller. The work is runtime/reduce*.c; this is what the command line says.
#include <stdlib.h>
#include <string.h>

#include "lang/c_text.h"
#include "lang/file.h"
#include "runtime/reduce.h"
#include "tkc/compile.h"
#include "tkc/tkc.h"

enum { SECONDS = 30, MOST = 4000 };

static int read_words(const Options *opt, ReduceCase *c) {
    int operands = opt->operands.n - 1, n = operands + opt->arg.n;
    Buf err = {0};
    if (n > REDUCE_ARGS) return wrong_use("more than %d arguments", REDUCE_ARGS);
    for (int i = 0; i < n; i++) {
        const char *text = i < operands ? opt->operands.at[1 + i] : opt->arg.at[i - operands];
        RunArg one = {0};
        if (strlen(text) >= REDUCE_TEXT) return wrong_use("an argument of more than %d letters", REDUCE_TEXT - 1);
        bool ok = arg_parse(text, i, (uint64_t)opt->seed, &one, &err);
        if (ok) arg_free(&one);
        if (!ok) wrong_use("%s", err.p);
        buf_free(&err);
        if (!ok) return USAGE;
        c->arg[c->nargs] = (ReduceArg){.place = i};
        memcpy(c->arg[c->nargs++].text, text, strlen(text) + 1);
    }
    return DONE;
}

static int read_file(const char *path, Buf *to) {
    const void *bytes;
    const char *why;
    size_t n;
    if (!file_map_plain(path, &bytes, &n, &why)) return fail("%s: %s", path, why);
    buf_add(to, bytes, n);
    file_unmap_plain(bytes, n);
    return DONE;
}

static void options_left(const Options *opt, const ReduceCase *c, Buf *to) {
    for (int i = 0; i < schedule_field_count; i++) {
        int v = *(const int *)(const void *)((const char *)&c->compile.schedule + schedule_fields[i].offset);
        if (v) buf_printf(to, " --with=%s=%d", schedule_fields[i].name, v);
    }
    if (c->compile.target) buf_printf(to, " --arch=%s", c->compile.target->name);
    if (c->compile.math) buf_printf(to, " --math=%s", c->compile.math == 1 ? "strict" : "fast");
    if (opt->dtype) buf_printf(to, " --dtype=%s", opt->dtype);
    if (opt->kernel) buf_printf(to, " --kernel=%s", opt->kernel);
    if (opt->shell) buf_printf(to, " --shell='%s'", opt->shell);
}

// How it fails, and the command that shows it.
static void said(const Options *opt, const ReduceCase *c, const Buf *failure, const char *before, Buf *to) {
    buf_printf(to, "%s%s\n%stkc reduce %s", before, failure->p, before, opt->out && strcmp(opt->out, "-") ? opt->out : opt->operands.at[0]);
    for (int i = 0; i < c->nargs; i++) if (!c->arg[i].gone) buf_printf(to, " '%s'", c->arg[i].text);
    options_left(opt, c, to);
    buf_putc(to, '\n');
}

static int reduced(const Options *opt, const ReduceHow *how, ReduceCase *c) {
    Buf failure = {0}, err = {0}, text = {0}, head = {0};
    int status = reduce(how, c, &failure, &err) ? DONE : fail("%s", err.p);
    if (status == DONE) {
        said(opt, c, &failure, how->model ? "" : "// ", &head);
        if (!how->model) buf_add(&text, head.p, head.n);
        buf_add(&text, c->file.p, c->file.n);
        if (how->model) fputs(head.p, stdout);
        if (!output_write(opt->out, text.p, text.n)) status = FAILED;
    }
    buf_free(&failure), buf_free(&err), buf_free(&text), buf_free(&head);
    return status;
}

int main_reduce(const Options *opt) {
    static ReduceCase c;                                     // large, and there is one
    ReduceHow how = {.model = is_model(opt),
                     .kernel = opt->kernel,
                     .graph = opt->graph,
                     .device = opt->device != NULL && strcmp(opt->device, "auto") == 0 ? NULL : opt->device,
                     .command = opt->shell,
                     .seed = (uint64_t)opt->seed,
                     .seconds = SECONDS,
                     .most = opt->most > 0 ? (int)opt->most : MOST,
                     .progress_to = opt->verbose ? stderr : NULL};
    c = (ReduceCase){0};
    if (opt->operands.n == 0) return wrong_use("no file was given; see tkc reduce --help");
    if (how.model && opt->out == NULL) return wrong_use("a model is bytes: -o says which file it goes to");
    if (how.model) model_import_asked(opt, &how.import);
    else if (opt->dtype) return wrong_use("--dtype is for models: FILE.onnx");
    if (how.device && (!strcmp(how.device, "eval") || !strcmp(how.device, "ref"))) return wrong_use("--device=%s is what others are compared with: choose emu or cuda", how.device);
    how.path = opt->operands.at[0];
    char *end = NULL;
    how.rtol = opt->rtol ? c_strtod(opt->rtol, &end) : 0;
    if (opt->rtol && (*end || how.rtol <= 0)) return wrong_use("--rtol: `%s` is no positive number", opt->rtol);
    int status = compile_options(opt, &c.compile);
    if (status == DONE) status = read_words(opt, &c);
    if (status == DONE) status = read_file(how.path, &c.file);
    if (status == DONE) status = reduced(opt, &how, &c);
    buf_free(&c.file);
    return status;
}

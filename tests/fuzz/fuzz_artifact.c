// Fuzzing what is kept of compiled kernels: files of them (.tkx), entries of the cache, heads of PTX. The first byte says
// what the rest is:
//
//     'f'   a file, whole                      'e'   an entry of the cache
//     'b'   what a file holds behind its       'h'   a head of PTX as text
//           checksum, which is put before it   'd'   a decision or a measurement of the cache
//
// Whatever is accepted is used: loaded and bound on the emulator, each expression evaluated and printed; a head is printed. Nothing may crash, read past its end, hang, take memory out of all proportion, or fail without a word.
//
//     fuzz_artifact -max_len=6000 FOUND tests/fuzz/corpus/artifact
#include "runtime/api_internal.h"
#include "runtime/cache.h"
#include "runtime/tune.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need_words(bool any) { if (!any) abort(); }

// Of every expression what it is worth where dimensions are small and where they are not.
static void evaluate(LExpr e) {
    int64_t dims[MAX_DIMS], scalars[MAX_PARAMS], strides[MAX_STRIDES];
    for (int k = 0; k < 3 && e.n; k++) {
        for (int i = 0; i < MAX_DIMS; i++) dims[i] = k == 2 ? INT64_MAX : k * 100 + i;
        for (int i = 0; i < MAX_PARAMS; i++) scalars[i] = k - 1;
        for (int i = 0; i < MAX_STRIDES; i++) strides[i] = k;
        launch_eval(e, dims, scalars, strides);
    }
}

static void look(const LaunchInfo *f) {
    Buf text = {0};
    int64_t dims[MAX_DIMS] = {0}, scalars[MAX_PARAMS] = {0};
    bool known[MAX_DIMS] = {0};
    launch_print(f, &text);
    evaluate(f->blocks);
    evaluate(f->programs);
    evaluate(f->smem_more);
    for (int i = 0; i < f->nguards; i++) evaluate(f->guards[i].cond);
    for (int i = 0; i < f->nfacts; i++) evaluate(f->facts[i].cond);
    for (int i = 0; i < f->nslots; i++) evaluate(f->slots[i].expr);
    for (int p = 0; p < f->nparams; p++)
        for (int d = 0; d < f->params[p].rank; d++) launch_solve(f->params[p].dim[d], 12, dims, known, scalars);
    launch_solve_guards(f, dims, known, scalars);
    if (f->general) look(f->general);
    buf_free(&text);
}

// Arguments that may suit: lengths of a few elements, numbers where dimensions are numbers.
static void use(tkc_program *prog, const LaunchInfo *f) {
    static double memory[1 << 14];
    tkc_arg args[MAX_PARAMS] = {0};
    tkc_launch *run = NULL;
    for (int p = 0; p < f->nparams; p++) {
        const LaunchParam *q = &f->params[p];
        uint64_t elements = 1;
        args[p] = (tkc_arg){.name = q->name->s, .i = 2, .f = 2};
        args[p].kind = q->kind == PK_SCALAR ? elem_is_float(q->elem) ? TKC_FLOAT : TKC_INT : TKC_TENSOR;
        args[p].tensor = (tkc_tensor){.data = memory, .dtype = api_dtype(q->elem), .rank = q->rank};
        for (int d = 0; d < q->rank; d++) {
            bool number = q->dim[d].n == 1 && q->dim[d].at->op == L_CONST;
            int64_t length = number ? q->dim[d].at->arg : q->rank < 4 ? 24 : 2;
            args[p].tensor.dims[d] = length;
            elements = length < 0 || length > 1 << 14 || elements > 1 << 14 ? 1 << 20 : elements * (uint64_t)length;
        }
        if (elements > sizeof memory / sizeof *memory) return;
    }
    for (int i = 0; i < 2; i++) {                          // what failed once fails again
        if (tkc_prepare(prog, f->kernel->s, NULL, 0, args, f->nparams, &run)) need_words(tkc_error()[0]);
        else tkc_launch_free(run);
    }
}

static tkc_context *emulator(void) {
    static tkc_context *ctx;
    if (!ctx) {
        setenv("TKC_CACHE", "off", 1);
        if (tkc_open("emu", NULL, &ctx)) abort();
    }
    return ctx;
}

static void file(const char *bytes, size_t n) {
    tkc_program *prog = NULL;
    if (tkc_load_text(emulator(), "fuzz.tkx", bytes, n, &prog)) { need_words(tkc_error()[0]); return; }
    for (int i = 0; i < prog->nmade && i < 8; i++)
        for (int v = 0; v < (prog->made[i].less ? 1 : 2); v++) look(prog->made[i].info[v]);
    for (int i = 0; i < prog->nmade && i < 4; i++) use(prog, prog->made[i].info[0]);
    tkc_unload(prog);
}

static void head(const char *text, size_t n) {
    enum { MOST = 8 };
    const LaunchInfo *f[MOST];
    Session *s = session_new();
    Buf err = {0}, once = {0};
    int count = launch_read(s, text, n, f, MOST, &err);
    if (count < 0) need_words(err.n > 0);
    for (int i = 0; i < count; i++)
        if (f[i]->blocks.n) look(f[i]), launch_print(f[i], &once);
    buf_free(&err), buf_free(&once);
    session_free(s);
}

static void entry(const char *bytes, size_t n) {
    Session *s = session_new();
    Buf code = {0};
    const LaunchInfo *f = artifact_entry(s, bytes, n, &code);
    if (f) look(f);
    buf_free(&code);
    session_free(s);
}

static void measured(const char *bytes, size_t n) {
    Buf all = {0}, text = {0};
    TuneResult r;
    buf_add(&all, bytes, n);
    if (tune_parse(&all, &r)) {
        tune_print(&r, 0, &text);
        tune_result_free(&r);
    }
    buf_free(&all), buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const char *rest = (const char *)data + 1;
    Buf whole = {0};
    switch (data[0]) {
    case 'f': file(rest, size - 1); break;
    case 'b':
        artifact_wrap(target_default, rest, size - 1, &whole);
        file(whole.p, whole.n);
        break;
    case 'e': entry(rest, size - 1); break;
    case 'h': head(rest, size - 1); break;
    case 'd': measured(rest, size - 1); break;
    default: break;
    }
    buf_free(&whole);
    return 0;
}

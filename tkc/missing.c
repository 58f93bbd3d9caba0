// Stands in, at the end of the link, for libraries that TKC_WITHOUT leaves out: weak, so that the real
// functions win wherever they exist.
#include <string.h>

#include "runtime/cuda_link.h"
#include "runtime/tk_run.h"

#define WEAK __attribute__((weak))

static void regret(const char *what) { fprintf(stderr, "tkc: this build cannot %s\n", what); }

WEAK const int pass_count = 0;
WEAK const PassInfo *pass_info(int i) { (void)i; return NULL; }
WEAK bool lower_run(Fn *f, const CompileOptions *opt) { (void)f, (void)opt; return regret("lower kernels"), false; }
WEAK bool lower_emit(Session *s, Fn **fns, int n, const CompileOptions *opt, Buf *llvm, Buf *ptx) {
    (void)s, (void)fns, (void)n, (void)opt, (void)llvm, (void)ptx;
    return regret("make PTX"), false;
}
WEAK void layout_print_all(Fn *f, Buf *out) { (void)f, (void)out; }
WEAK void report_print(Fn *f, Buf *out) { (void)f, (void)out; }
WEAK bool ir_eval(Fn *f, const EvalArg *args, const int64_t *dims, const EvalOptions *opt, char **fault, Span *at) {
    (void)f, (void)args, (void)dims, (void)opt, (void)at;
    *fault = (char *)(uintptr_t) "this build has no evaluator";
    return false;
}

WEAK Node *parse_file(Session *s, const Source *src) { (void)src; return regret("parse"), node_new(s, N_file, (Span){0}, 0); }
WEAK void tokens_print(Session *s, const Source *src, Buf *out) { (void)s, (void)src, (void)out; }

WEAK SemaFile *sema_file(Session *s, Node *file) { (void)s, (void)file; return NULL; }
WEAK int sema_kernel_count(const SemaFile *f) { (void)f; return 0; }
WEAK const Node *sema_kernel(const SemaFile *f, int i) { (void)f, (void)i; return NULL; }
WEAK const Node *sema_find_kernel(const SemaFile *f, const char *name) { (void)f, (void)name; return NULL; }
WEAK TKernel *sema_instance(SemaFile *f, const Node *kernel, const SemaValue *set, int nset, const SemaValue *dims, int ndims) {
    (void)f, (void)kernel, (void)set, (void)nset, (void)dims, (void)ndims;
    return regret("check kernels"), NULL;
}
WEAK void typed_print(Session *s, const TKernel *k, Buf *out) { (void)s, (void)k, (void)out; }
WEAK int sema_tests(SemaFile *f, TTest ***tests) { (void)f; *tests = NULL; return 0; }
WEAK Fn *ir_build(Session *s, const TKernel *k) { (void)s, (void)k; return NULL; }
WEAK void ir_print(Fn *f, Buf *out) { (void)f, (void)out; }

WEAK bool cuda_cubin(const char *ptx, size_t n, const Target *t, Buf *cubin, Buf *words) {
    (void)ptx, (void)n, (void)t, (void)cubin;
    return buf_puts(words, "this build has no devices"), false;
}
WEAK const char arg_help[] = "";
WEAK bool arg_parse(const char *text, int position, uint64_t seed, RunArg *out, Buf *err) {
    (void)text, (void)position, (void)seed, (void)out;
    return buf_puts(err, "this build cannot run kernels"), false;
}
WEAK void arg_free(RunArg *a) { (void)a; }
WEAK Runtime *runtime_new(Session *s, Device *dev, const RuntimeOptions *opt) { (void)s, (void)dev, (void)opt; return NULL; }
WEAK void runtime_free(Runtime *rt) { (void)rt; }
WEAK bool run_kernel(Runtime *rt, SemaFile *file, const Node *kernel, RunArg *args, int nargs, const SemaValue *set, int nset,
                     RunResult *result, Buf *err) {
    (void)rt, (void)file, (void)kernel, (void)args, (void)nargs, (void)set, (void)nset;
    result->n = 0;
    return buf_puts(err, "this build cannot run kernels"), false;
}
WEAK void run_print(const RunResult *r, FILE *to) { (void)r, (void)to; }
WEAK void run_result_free(RunResult *r) { (void)r; }
WEAK bool test_paths(const char *const *paths, int n, const TestOptions *opt, TestCounts *counts) {
    (void)paths, (void)n, (void)opt, (void)counts;
    return regret("run tests"), false;
}
WEAK Device *device_open(const char *name, const DeviceOptions *opt, Buf *err) {
    (void)name, (void)opt;
    return buf_puts(err, "this build has no devices"), NULL;
}
WEAK void device_close(Device *d) { (void)d; }
WEAK void device_list(const DeviceOptions *opt, Buf *out) { (void)opt; buf_puts(out, "this build has no devices\n"); }

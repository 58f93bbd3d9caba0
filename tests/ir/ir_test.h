// For tests of the tile IR: kernels from text, run on arrays.
#ifndef TK_TESTS_IR_TEST_H
#define TK_TESTS_IR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lower/ir/ir.h"

// Parses and verifies; fails the test with what is wrong.
static inline Fn *kernel_text(Session *s, const char *text) {
    Source *src = source_add(s, "case.tir", text, strlen(text));
    Fn *f = ir_parse(s, src, NULL);
    if (!f) {
        diag_print(s, stderr, DIAG_short, false);
        fail_msg("the text does not parse");
    }
    Buf problems = {0};
    if (ir_verify(f, &problems)) {
        fprintf(stderr, "%s", problems.p);
        fail_msg("the text does not verify");
    }
    buf_free(&problems);
    return f;
}

static inline EvalArg vec_arg(void *data, int64_t n) {
    return (EvalArg){.tensor = {.data = data, .dims = {n}, .strides = {1}}};
}
static inline EvalArg mat_arg(void *data, int64_t m, int64_t n) {
    return (EvalArg){.tensor = {.data = data, .dims = {m, n}, .strides = {n, 1}}};
}
static inline EvalArg int_arg(int64_t v)  { return (EvalArg){.ival = v}; }
static inline EvalArg float_arg(double v) { return (EvalArg){.fval = v}; }

// Runs; fails the test when the kernel traps.
static inline void run_kernel(Fn *f, const EvalArg *args, const int64_t *dims, const EvalOptions *opt) {
    char *fault = NULL;
    Span  at;
    if (!ir_eval(f, args, dims, opt, &fault, &at)) fail_msg("trapped: %s", fault);
}

// Runs; the kernel must trap, with words that contain `words`.
static inline void run_trap(Fn *f, const EvalArg *args, const int64_t *dims, const EvalOptions *opt, const char *words) {
    char *fault = NULL;
    Span  at;
    assert_false(ir_eval(f, args, dims, opt, &fault, &at));
    assert_non_null(strstr(fault, words));
    heap_free(fault);
}

#endif

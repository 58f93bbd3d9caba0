// What the tests of runtime/ share: cmocka, and checks on lines of words.
#ifndef TESTS_RUNTIME_COMMON_H
#define TESTS_RUNTIME_COMMON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/tk_run.h"

// The line must hold the words; it is emptied.
#define assert_says(err, words) assert_says_at((err), (words), __FILE__, __LINE__)
static inline void assert_says_at(Buf *err, const char *words, const char *file, int line) {
    const char *got = err->p ? err->p : "";
    if (!strstr(got, words)) {
        print_error("got:  %s\nwant: %s\n", got, words);
        _fail(file, line);
    }
    if (strchr(got, '\n')) { print_error("more than a line: %s\n", got); _fail(file, line); }
    buf_free(err);
}

// y[i] = a * x[i], for i below n, by hand.
#define SCALE_PTX \
    ".visible .entry scale(.param .u64 x, .param .u64 y, .param .u32 n, .param .f32 a)\n" \
    "{\n" \
    "    .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<4>;\n" \
    "    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u32 %r1, [n]; ld.param.f32 %f1, [a];\n" \
    "    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n" \
    "    mad.lo.s32 %r5, %r2, %r3, %r4;\n" \
    "    setp.ge.s32 %p, %r5, %r1;\n" \
    "    @%p bra done;\n" \
    "    mul.wide.s32 %d3, %r5, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n" \
    "    ld.global.f32 %f2, [%d4]; mul.rn.f32 %f3, %f2, %f1; st.global.f32 [%d5], %f3;\n" \
    "done:\n" \
    "    ret;\n" \
    "}\n"

// y = a * x + y.
#define AXPY_TK \
    "kernel axpy(x: f32[N], y: inout f32[N], a: f32)\n" \
    "    grid (n in N by 64)\n" \
    "{\n" \
    "    y[n] = a * x[n] + y[n];\n" \
    "}\n"

#endif

// What the emulator's tests share: PTX around a few lines of it, launches, expectations on faults.
//
// An operation test is a body between loads and a store: lane i of the grid finds its inputs in %a, %b, %c
// (32 bits), %A, %B, %C (64 bits), %ha, %hb, %hc (16 bits), the same bits at three widths, and leaves its
// result in %D.
#ifndef TK_TESTS_EMU_KIT_H
#define TK_TESTS_EMU_KIT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emu/emu.h"
#include "lang/number.h"

#define HEAD ".version 8.8\n.target sm_90a\n.address_size 64\n"

typedef uint64_t u64;
typedef uint32_t u32;

static inline EmuModule *load_ptx(EmuContext *emu, const char *ptx) {
    EmuModule *m = emu_load(emu, ptx, strlen(ptx));
    if (!m) fail_msg("%s\n%s", emu_message(emu), ptx);
    return m;
}

static inline char *read_file(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", EMU_TEST_DATA, name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = calloc(1, (size_t)n + 1);
    if (fread(text, 1, (size_t)n, f) != (size_t)n) fail_msg("cannot read %s", path);
    fclose(f);
    return text;
}

static inline u64 device(EmuContext *emu, const char *name, const void *bytes, size_t n) {
    u64 at;
    assert_int_equal(emu_alloc(emu, n, name, &at), EMU_OK);
    if (bytes) assert_int_equal(emu_write(emu, at, bytes, n), EMU_OK);
    return at;
}

static inline void run_clean(EmuContext *emu, EmuModule *m, const char *kernel, u32 grid, u32 block, u32 shared,
                             void **params, const EmuOptions *options) {
    EmuReport r;
    EmuStatus s = emu_launch(emu, m, kernel, (u32[]){grid, 1, 1}, (u32[]){block, 1, 1}, NULL, shared, params, options, &r);
    if (s != EMU_OK) {
        emu_report_print(&r, stderr);
        fail_msg("%s", emu_message(emu));
    }
    emu_report_free(&r);
}

// Inputs: 16 values that matter, then random ones; n of each.
enum { LANES = 1024 };
static inline void inputs(u64 *x, unsigned which) {
    static const u64 edges[16] = {0, 1, ~0ull, 0x80000000u, 0x7fffffffu, 0x8000000000000000ull, 0x7fffffffffffffffull, 0xffffffffu,
                                  31, 32, 63, 64, 0x00ff00ff12345678ull, 0xffff8000ffff8000ull, 5, 0xfffffffffffffffdull};
    u64 s = 12345 + which;
    for (unsigned i = 0; i < LANES; i++) {
        s = s * 6364136223846793005ull + 1442695040888963407ull;
        u64 random = s ^ s >> 29;
        x[i] = i < 256      ? edges[which == 0   ? i % 16
                                    : which == 1 ? i / 16
                                                 : (i * 7 + 3) % 16]
               : i % 5 == 0 ? random >> (random >> 58)
                            : random;
    }
}

static inline void run_body(const char *body, const u64 *a, const u64 *b, const u64 *c, u64 *d) {
    static const char before[] = HEAD
        ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {\n"
        ".reg .b16 %h<8>; .reg .b16 %ha, %hb, %hc, %hd; .reg .b32 %r<16>; .reg .b32 %a, %b, %c, %d;\n"
        ".reg .b64 %rd<16>; .reg .b64 %A, %B, %C, %D; .reg .pred %p, %q, %s;\n"
        "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.s32 %r0, %r1, %r2, %r0; mul.wide.u32 %rd0, %r0, 8;\n"
        "ld.param.u64 %rd1, [pa]; ld.param.u64 %rd2, [pb]; ld.param.u64 %rd3, [pc]; ld.param.u64 %rd4, [pd];\n"
        "add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0; add.s64 %rd3, %rd3, %rd0; add.s64 %rd4, %rd4, %rd0;\n"
        "ld.global.u64 %A, [%rd1]; ld.global.u64 %B, [%rd2]; ld.global.u64 %C, [%rd3];\n"
        "cvt.u32.u64 %a, %A; cvt.u32.u64 %b, %B; cvt.u32.u64 %c, %C; cvt.u16.u64 %ha, %A; cvt.u16.u64 %hb, %B; cvt.u16.u64 %hc, %C;\n"
        "mov.u64 %D, 0; mov.u32 %d, 0; mov.u16 %hd, 0;\n",
        after[] = "\nst.global.u64 [%rd4], %D; ret; }\n";
    char *ptx = malloc(sizeof before + sizeof after + strlen(body));
    sprintf(ptx, "%s%s%s", before, body, after);
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 at[4] = {device(emu, "a", a, LANES * 8), device(emu, "b", b, LANES * 8), device(emu, "c", c, LANES * 8),
                 device(emu, "d", NULL, LANES * 8)};
    void *params[] = {&at[0], &at[1], &at[2], &at[3]};
    run_clean(emu, m, "k", LANES / 128, 128, 0, params, NULL);
    emu_read(emu, d, at[3], LANES * 8);
    emu_destroy(emu);
    free(ptx);
}

// Files of operations: OPS(X) has a row X(name, body, what %D must be, by a, b and c) for each.
#define OP_WANT(name, body, want) static u64 want_##name(u64 a, u64 b, u64 c) { (void)a, (void)b, (void)c; return (u64)(want); }
#define OP_TEST(name, body, want) static void test_##name(void **state) { (void)state; check(#name, body, want_##name); }
#define OP_ROW(name, body, want)  cmocka_unit_test(test_##name),
static inline void check_lanes(const char *name, const char *body, const u64 *a, const u64 *b, const u64 *c,
                               u64 (*want)(u64, u64, u64)) {
    static u64 d[LANES];
    run_body(body, a, b, c, d);
    for (int i = 0; i < LANES; i++)
        if (d[i] != want(a[i], b[i], c[i]))
            fail_msg("%s(0x%llx, 0x%llx, 0x%llx) = 0x%llx, not 0x%llx", name, (unsigned long long)a[i], (unsigned long long)b[i],
                     (unsigned long long)c[i], (unsigned long long)d[i], (unsigned long long)want(a[i], b[i], c[i]));
}

// One launch; the first fault's kind and a part of its message must be as said.
static inline void expect_fault(EmuContext *emu, const char *ptx, u32 block, u32 shared, void **params,
                                const EmuOptions *options, EmuFaultKind kind, const char *part) {
    EmuModule *m = load_ptx(emu, ptx);
    EmuReport r;
    EmuStatus s = emu_launch(emu, m, emu_kernel(m, 0)->name, (u32[]){1, 1, 1}, (u32[]){block, 1, 1}, NULL, shared,
                             params, options, &r);
    if (s != EMU_FAULTED) fail_msg("no fault where `%s` was due (status %d: %s)", part, s, emu_message(emu));
    bool found = false;
    for (size_t i = 0; i < r.n_faults; i++) found |= r.faults[i].kind == kind && strstr(r.faults[i].message, part);
    if (!found) {
        emu_report_print(&r, stderr);
        fail_msg("no %s with `%s`", emu_fault_name(kind), part);
    }
    emu_report_free(&r);
}

#endif

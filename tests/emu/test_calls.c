// Device functions: frames and recursion, calls through addresses, parameters in registers, aliases, alloca and malloc. What nvcc
// makes of all that is kernels/functions.cu.
#include "kit.h"

enum { N = 64, OUTS = 8 };

static u32 ackermann(u32 m, u32 n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void expected(int a, int i, int *o) {
    int v[12], sum = 0, value;
    u32 mixed = 0;
    o[0] = (int)ackermann((u32)a & 1, (u32)i % 7);
    for (int k = 0; k < 12; k++) v[k] = ((a * (k + 1)) ^ i) % 100;
    qsort(v, 12, sizeof *v, ascending);
    for (int k = 0; k < 12; k++) mixed = mixed * 7 + (u32)v[k];
    o[1] = (int)mixed;
    for (int depth = 0; depth <= i % 5; depth++) sum = sum * 3 + depth * depth;
    o[2] = sum;
    o[3] = i & 1 ? i * i - 5 : a + 5;
    o[4] = i % 3 == 0 ? a + i : i % 3 == 1 ? a - i : a * i;
    o[5] = i * ((a & 15) % 9) + 2 * i;
    o[6] = 2 * a + 7 % (i % 4 + 1) + i % 8 % (i % 4 + 1);
    switch (a & 7) {
    case 0:  value = i; break;
    case 1:  value = a * 3; break;
    case 2:  value = a - i; break;
    case 3:  value = a ^ i; break;
    case 4:  value = a + 1; break;
    case 5:  value = -a; break;
    default: value = 99;
    }
    o[7] = value;
}

static void compiled(void **state) {                     // recursion, virtual functions, tables, large results, a switch
    (void)state;
    char *ptx = read_file("kernels/functions.ptx");
    int x[N], out[N * OUTS], want[OUTS];
    for (int i = 0; i < N; i++) x[i] = (i * 37 + 11) % 100 + (i % 3) * 1000;
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 dx = device(emu, "x", x, sizeof x), dout = device(emu, "out", NULL, sizeof out);
    for (u64 order = 0; order < 3; order++) {
        run_clean(emu, m, "functions", 1, N, 0, (void *[]){&dx, &dout}, &(EmuOptions){.order_seed = order, .junk_seed = order});
        emu_read(emu, out, dout, sizeof out);
        for (int i = 0; i < N; i++) {
            expected(x[i], i, want);
            for (int k = 0; k < OUTS; k++)
                if (out[i * OUTS + k] != want[k]) fail_msg("thread %d, out[%d] = %d, not %d", i, k, out[i * OUTS + k], want[k]);
        }
    }
    emu_destroy(emu);
    free(ptx);
}

#define KERNEL(functions, body)                                                                                     \
    HEAD functions "\n.visible .entry k(.param .u64 out) {\n.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;\n" \
    "mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4; ld.param.u64 %rd1, [out]; add.s64 %rd1, %rd1, %rd0; mov.u32 %r2, 0;\n" \
    body "\nst.global.u32 [%rd1], %r2; ret; }\n"

static void run_words(const char *ptx, u32 *out) {
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 at = device(emu, "out", NULL, 32 * sizeof *out);
    run_clean(emu, m, "k", 1, 32, 0, (void *[]){&at}, NULL);
    emu_read(emu, out, at, 32 * sizeof *out);
    emu_destroy(emu);
}

static void in_registers(void **state) {                 // as the manual's first examples have it
    (void)state;
    u32 out[32];
    run_words(KERNEL(".func (.reg .b32 r, .reg .pred odd) f(.reg .b32 n, .reg .b64 wide, .reg .pred p) { .reg .b32 t; .reg .b64 u;\n"
                     " mul.lo.s32 r, n, 3; and.b32 t, n, 1; setp.eq.s32 odd, t, 1; @!p ret; cvt.u32.u64 t, wide; add.s32 r, r, t; }\n"
                     ".func (.reg .b32 r) sum(.reg .b32 n) { .reg .pred p; .reg .b32 t; mov.u32 r, 0; setp.eq.s32 p, n, 0; @p ret;\n"
                     " sub.s32 t, n, 1; call (r), sum, (t); add.s32 r, r, n; ret; }\n",
                     "setp.lt.u32 %p1, %r0, 10; call (%r2, %p2), f, (%r0, 100, %p1); @%p2 add.s32 %r2, %r2, 1000;\n"
                     "call (%r3), sum, (%r0); mad.lo.s32 %r2, %r3, 10000, %r2; call (_, _), f, (5, %rd1, %p1);"),
              out);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i * 3 + (i < 10 ? 100 : 0) + (i & 1 ? 1000 : 0) + i * (i + 1) / 2 * 10000);
}

#define TWO ".func (.param .b32 r) one(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; add.s32 %a, %a, 1; st.param.b32 [r], %a; ret; }\n" \
            ".func (.param .b32 r) two(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; mul.lo.s32 %a, %a, 2; st.param.b32 [r], %a; ret; }\n"
#define THROUGH "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; prototype_0: .callprototype (.param .b32 _) _ (.param .b32 _);\n" \
                "call (b), %rd2, (a), prototype_0; ld.param.b32 %r2, [b]; }"

static void through_addresses(void **state) {
    (void)state;
    u32 out[32];
    run_words(KERNEL(TWO ".global .align 8 .u64 table[3] = {one, two, one};\n",
                     "rem.u32 %r1, %r0, 3; mul.wide.u32 %rd2, %r1, 8; mov.u64 %rd3, table; add.s64 %rd2, %rd2, %rd3; ld.global.u64 %rd2, [%rd2];\n" THROUGH),
              out);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i % 3 == 1 ? 2 * i : i + 1);
    run_words(KERNEL(".func (.param .b32 r) other(.param .b32 x);\n" TWO ".alias other, two;\n",
                     "setp.lt.u32 %p1, %r0, 5; mov.u64 %rd2, other; mov.u64 %rd3, one; selp.b64 %rd2, %rd2, %rd3, %p1;\n" THROUGH),
              out);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i < 5 ? 2 * i : i + 1);
    EmuContext *emu = emu_create();
    u64 at = device(emu, "out", NULL, 128);
    expect_fault(emu, KERNEL(TWO, "mov.u64 %rd2, 1234;\n" THROUGH), 32, 0, (void *[]){&at}, NULL, EMU_FAULT_BAD_OPERAND, "a call of 0x4d2, where no function is");
    expect_fault(emu, KERNEL(".func none() { ret; }\n", "mov.u64 %rd2, none;\n" THROUGH), 32, 0, (void *[]){&at}, NULL, EMU_FAULT_BAD_OPERAND,
                 "a call of `none`, which has other parameters or results");
    emu_destroy(emu);
}

static void stack_faults(void **state) {
    (void)state;
    EmuContext *emu = emu_create();
    u64 at = device(emu, "out", NULL, 128);
    expect_fault(emu, KERNEL(".func f();\n.func f() { call f, (); ret; }\n", "call f, ();"), 32, 0, (void *[]){&at}, NULL, EMU_FAULT_OUT_OF_BOUNDS,
                 "calls deep, the stack of 65536 bytes is full: a recursion that does not end?");
    expect_fault(emu, KERNEL("", "mov.u64 %rd2, 70000; alloca.u64 %rd3, %rd2, 16;"), 32, 0, (void *[]){&at}, NULL, EMU_FAULT_OUT_OF_BOUNDS, "the stack of 65536 bytes is full");
    expect_fault(emu, KERNEL(".func (.param .b64 r) f() { .local .align 8 .b8 x[8]; .reg .b64 %a; mov.u64 %a, x; st.param.b64 [r], %a; ret; }\n",
                             "{ .param .b64 r; call (r), f; ld.param.b64 %rd2, [r]; } ld.local.u32 %r2, [%rd2];"),
                 32, 0, (void *[]){&at}, NULL, EMU_FAULT_OUT_OF_BOUNDS, "read of 4 bytes of local memory");      // a frame that is gone
    expect_fault(emu, KERNEL(".extern .func free(.param .b64 p);\n", "{ .param .b64 p; st.param.b64 [p], %rd1; call free, (p); }"), 32, 0, (void *[]){&at}, NULL,
                 EMU_FAULT_BAD_OPERAND, "which `malloc` did not give");
    emu_destroy(emu);
}

static void stack_memory(void **state) {                 // alloca between stacksave and stackrestore: as often as one likes
    (void)state;
    u32 out[32];
    run_words(KERNEL("", "mov.u32 %r3, 0; mov.u64 %rd2, 1000;\n"
                         "L: stacksave.u64 %rd5; alloca.u64 %rd3, %rd2, 16; st.local.u32 [%rd3+996], %r3; ld.local.u32 %r4, [%rd3+996]; add.s32 %r2, %r2, %r4;\n"
                         "stackrestore.u64 %rd5; add.s32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 500; @%p1 bra L;"),
              out);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], 499 * 500 / 2);
}

static void device_heap(void **state) {                  // what was freed is there again; a null pointer where there is no room
    (void)state;
    u32 out[32];
    run_words(KERNEL(".extern .func (.param .b64 p) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n",
                     "mov.u32 %r3, 0; L: { .param .b64 n; .param .b64 p; st.param.b64 [n], 131072; call (p), malloc, (n); ld.param.b64 %rd2, [p]; }\n"
                     "setp.eq.u64 %p2, %rd2, 0; @%p2 trap; st.u32 [%rd2+131068], %r0; ld.u32 %r4, [%rd2+131068]; add.s32 %r2, %r2, %r4;\n"
                     "{ .param .b64 p; st.param.b64 [p], %rd2; call free, (p); } add.s32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 100; @%p1 bra L;\n"
                     "{ .param .b64 n; .param .b64 p; st.param.b64 [n], 9000000; call (p), malloc, (n); ld.param.b64 %rd2, [p]; } setp.eq.u64 %p2, %rd2, 0; @%p2 add.s32 %r2, %r2, 1;"),
              out);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], 100 * i + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled),     cmocka_unit_test(in_registers), cmocka_unit_test(through_addresses),
        cmocka_unit_test(stack_faults), cmocka_unit_test(stack_memory), cmocka_unit_test(device_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

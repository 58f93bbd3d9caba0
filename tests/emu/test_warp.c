// Lanes together: shuffles, votes, divergence and reconvergence, barriers, calls, printing.
#include "kit.h"

#define KERNEL(params, body) HEAD ".visible .entry k(" params ") {\n.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;\n" body "}\n"
// One 32-bit word in %r1 from `in`, one from %r2 to `out`, at %tid.x.
#define WORDS(body) KERNEL(".param .u64 in, .param .u64 out", \
    "mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];\n" \
    "add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0; ld.global.u32 %r1, [%rd1];\n" body "\nst.global.u32 [%rd2], %r2; ret;\n")

static void run_words(const char *ptx, u32 n, u32 *in, u32 *out, const EmuOptions *options) {
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 a = device(emu, "in", in, 4 * n), b = device(emu, "out", NULL, 4 * n);
    run_clean(emu, m, "k", 1, n, 0, (void *[]){&a, &b}, options);
    emu_read(emu, out, b, 4 * n);
    emu_destroy(emu);
}

static void fill(u32 *x, u32 n) { for (u32 i = 0; i < n; i++) x[i] = i * 2654435761u; }

static void shuffles(void **state) {
    (void)state;
    u32 in[32], out[32];
    fill(in, 32);
    run_words(WORDS("shfl.sync.bfly.b32 %r2, %r1, 5, 31, -1;"), 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], in[i ^ 5]);
    run_words(WORDS("shfl.sync.down.b32 %r2|%p1, %r1, 3, 31, -1; @!%p1 mov.u32 %r2, 7;"), 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i + 3 < 32 ? in[i + 3] : 7);
    run_words(WORDS("shfl.sync.up.b32 %r2|%p1, %r1, 2, 0, -1; @!%p1 mov.u32 %r2, 7;"), 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i >= 2 ? in[i - 2] : 7);
    // groups of 8
    run_words(WORDS("add.s32 %r3, %r0, 1; shfl.sync.idx.b32 %r2, %r1, %r3, 0x181f, -1;"), 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], in[(i & 24) | ((i + 1) & 7)]);
    // groups of 4
    run_words(WORDS("shfl.sync.down.b32 %r2|%p1, %r1, 1, 0x1c1f, -1; @!%p1 mov.u32 %r2, 7;"), 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i % 4 < 3 ? in[i + 1] : 7);
}

static void votes(void **state) {
    (void)state;
    u32 in[32], out[32], ballot = 0;
    for (u32 i = 0; i < 32; i++) in[i] = i % 3, ballot |= (u32)(i % 3 == 0) << i;
    run_words(WORDS("setp.eq.s32 %p1, %r1, 0; vote.sync.ballot.b32 %r2, %p1, -1;"), 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], ballot);
    run_words(
        WORDS(
            "setp.lt.s32 %p1, %r1, 3; vote.sync.all.pred %p2, %p1, -1; setp.eq.s32 %p1, %r1, 0; vote.sync.any.pred %p3, !%p1, -1; and.pred %p2, %p2, %p3; selp.b32 %r2, 1, 0, %p2;"),
        32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], 1);
    run_words(WORDS("match.any.sync.b32 %r2, %r1, -1;"), 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) for (u32 k = 0; k < 32; k++) assert_int_equal(out[i] >> k & 1, in[i] == in[k]);
    run_words(WORDS("redux.sync.add.s32 %r2, %r1, -1; redux.sync.max.u32 %r3, %r1, -1; add.s32 %r2, %r2, %r3;"), 32, in,
              out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], 31 + 2);
}

static void elected(void **state) {
    (void)state;
    u32 in[32] = {0}, out[32];
    run_words(WORDS("mov.u32 %r2, 99; elect.sync %r3|%p1, -1; @%p1 mov.u32 %r2, %r3;"), 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i ? 99 : 0);
}

static void divergence(void **state) {                   // both arms, then a shuffle that needs all
    (void)state;
    u32 in[32], out[32];
    fill(in, 32);
    const char *ptx = WORDS(
        "and.b32 %r3, %r0, 1; setp.eq.s32 %p1, %r3, 0; @%p1 bra EVEN;\n"
        "mul.lo.s32 %r4, %r1, 3; bra JOIN;\n"
        "EVEN: add.s32 %r4, %r1, 7;\n"
        "JOIN: shfl.sync.bfly.b32 %r2, %r4, 1, 31, -1;");
    run_words(ptx, 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i & 1 ? in[i - 1] + 7 : in[i + 1] * 3);
    // The join before the arms: the lanes that get there first wait for the others.
    const char *backward = WORDS(
        "and.b32 %r3, %r0, 1; setp.eq.s32 %p1, %r3, 0; bra START;\n"
        "JOIN: shfl.sync.bfly.b32 %r2, %r4, 1, 31, -1; bra END;\n"
        "START: mov.u32 %r4, %r1; @%p1 bra JOIN;\n"
        "mul.lo.s32 %r4, %r1, 3; bra JOIN;\n"
        "END:");
    run_words(backward, 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i & 1 ? in[i - 1] : in[i + 1] * 3);
    // A loop whose trip count differs between lanes, then bar.warp.sync and a vote of all.
    const char *loop = WORDS(
        "mov.u32 %r2, 0; mov.u32 %r3, %r0;\n"
        "LOOP: add.s32 %r2, %r2, %r3; setp.eq.s32 %p1, %r3, 0; add.s32 %r3, %r3, -1; @!%p1 bra LOOP;\n"
        "bar.warp.sync -1; vote.sync.ballot.b32 %r4, %p1, -1; sub.s32 %r2, %r2, %r4;");
    run_words(loop, 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i * (i + 1) / 2 + 1);
}

// Lanes that meet by instructions of their own: each arm has its bar.warp.sync, or its barrier; one of three has none, but ends.
static void meeting_apart(void **state) {
    (void)state;
    u32 in[64], out[64];
    fill(in, 64);
#define ARMS(even, odd) KERNEL(".param .u64 in, .param .u64 out",                                                                            \
    ".shared .align 4 .b8 s[256];\n"                                                                                                          \
    "mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0;\n" \
    "ld.global.u32 %r1, [%rd1]; mov.u32 %r3, s; shl.b32 %r4, %r0, 2; add.s32 %r5, %r3, %r4; xor.b32 %r6, %r4, 4; add.s32 %r6, %r3, %r6;\n"       \
    "and.b32 %r7, %r0, 1; setp.eq.s32 %p1, %r7, 0; @%p1 bra EVEN;\n"                                                                          \
    "add.s32 %r2, %r1, 3; st.shared.u32 [%r5], %r2; " odd " ld.shared.u32 %r2, [%r6]; bra END;\n"                                             \
    "EVEN: add.s32 %r2, %r1, 7; st.shared.u32 [%r5], %r2; " even " ld.shared.u32 %r2, [%r6];\n"                                               \
    "END: st.global.u32 [%rd2], %r2; ret;")
    const char *const ways[] = {ARMS("bar.warp.sync -1;", "bar.warp.sync -1;"), ARMS("barrier.sync 0;", "barrier.sync 0;"),
                                ARMS("bar.warp.sync -1; bar.warp.sync 0x55555555;", "bar.warp.sync -1;"), ARMS("barrier.sync 3, 64;", "barrier.sync 3, 64;")};
    for (int k = 0; k < 4; k++)
        for (u64 seed = 0; seed < 4; seed++) {
            run_words(ways[k], 64, in, out, &(EmuOptions){.order_seed = seed});
            for (u32 i = 0; i < 64; i++) assert_int_equal(out[i], in[i ^ 1] + (i & 1 ? 7 : 3));
        }
    run_words(WORDS("mov.u32 %r2, 1; st.global.u32 [%rd2], %r2; setp.lt.u32 %p1, %r0, 5; @%p1 ret; setp.lt.u32 %p2, %r0, 9; @%p2 bra A;\n"
                    "bar.warp.sync -1; mov.u32 %r2, 2; bra E; A: bar.warp.sync -1; mov.u32 %r2, 3; E:"), 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i < 5 ? 1 : i < 9 ? 3 : 2);
}

static void branch_table(void **state) {
    (void)state;
    u32 in[32], out[32];
    for (u32 i = 0; i < 32; i++) in[i] = i % 3;
    run_words(
        WORDS(
            "T: .branchtargets L0, L1, L2;\nbrx.idx %r1, T;\nL0: mov.u32 %r2, 10; bra E;\nL1: mov.u32 %r2, 20; bra E;\nL2: mov.u32 %r2, 30;\nE: bar.warp.sync -1;"),
        32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], 10 + 10 * (i % 3));
}

static void scopes(void **state) {                       // inline assembly: registers and labels of the same names
    (void)state;
    u32 in[32], out[32];
    fill(in, 32);
    run_words(
        WORDS(
            "{ .reg .pred p; .reg .b32 t; setp.lt.s32 p, %r1, 0; @p bra L; add.s32 %r1, %r1, 1; L: mov.u32 t, %r1; mov.u32 %r2, t; }\n"
            "{ .reg .pred p; setp.lt.s32 p, %r0, 16; @p bra L; add.s32 %r2, %r2, 5; L: }"),
        32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], in[i] + ((int32_t)in[i] >= 0) + (i >= 16 ? 5 : 0));
}

static void calls(void **state) {
    (void)state;
    static const char ptx[] = HEAD
        ".func (.param .b32 result) twice(.param .b32 x);\n"
        ".visible .entry k(.param .u64 in, .param .u64 out) {\n.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;\n"
        "mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0;\n"
        "ld.global.u32 %r1, [%rd1]; mov.u32 %r2, %r1; setp.lt.u32 %p1, %r0, 9; @%p1 bra SKIP;\n"
        "{ .param .b32 param0; st.param.b32 [param0], %r1; .param .b32 retval0; call.uni (retval0), twice, (param0); ld.param.b32 %r2, [retval0]; }\n"
        "SKIP: st.global.u32 [%rd2], %r2; ret; }\n"
        ".func (.param .b32 result) twice(.param .b32 x) { .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.b32 %r1, [x]; and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0;\n"
        "shl.b32 %r1, %r1, 1; @%p1 bra L; st.param.b32 [result], %r1; ret; L: add.s32 %r1, %r1, 1; st.param.b32 [result], %r1; ret; }\n";
    u32 in[32], out[32];
    fill(in, 32);
    run_words(ptx, 32, in, out, NULL);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], i < 9 ? in[i] : in[i] * 2 + !(in[i] & 1));
}

static void block_barriers(void **state) {               // a value goes round a block of 8 warps; red counts
    (void)state;
    u32 in[256], out[256];
    fill(in, 256);
    const char *ptx = KERNEL(".param .u64 in, .param .u64 out",
        ".shared .align 4 .b8 s[1024];\n"
        "mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0;\n"
        "ld.global.u32 %r1, [%rd1]; mov.u32 %r3, s; shl.b32 %r4, %r0, 2; add.s32 %r5, %r3, %r4; st.shared.u32 [%r5], %r1;\n"
        "bar.sync 0; xor.b32 %r6, %r4, 1020; add.s32 %r6, %r3, %r6; ld.shared.u32 %r2, [%r6];\n"
        "setp.lt.u32 %p1, %r0, 100; bar.red.popc.u32 %r7, 1, %p1; add.s32 %r2, %r2, %r7;\n"
        "setp.lt.u32 %p2, %r0, 1000; barrier.sync.aligned 2; bar.red.and.pred %p3, 3, %p2; @%p3 add.s32 %r2, %r2, 1;\n"
        "st.global.u32 [%rd2], %r2; ret;");
    for (u64 seed = 0; seed < 8; seed++) {
        run_words(ptx, 256, in, out, &(EmuOptions){.order_seed = seed});
        for (u32 i = 0; i < 256; i++) assert_int_equal(out[i], in[255 - i] + 101);
    }
}

static void named_barrier(void **state) {                // warps 0-1 produce and arrive, warps 2-3 wait
    (void)state;
    u32 in[128], out[128];
    fill(in, 128);
    const char *ptx = KERNEL(".param .u64 in, .param .u64 out",
        ".shared .align 4 .b8 s[512];\n"
        "mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0;\n"
        "ld.global.u32 %r1, [%rd1]; mov.u32 %r2, 0; shl.b32 %r4, %r0, 2; mov.u32 %r3, s; add.s32 %r5, %r3, %r4; setp.ge.u32 %p1, %r0, 64; @%p1 bra CONSUME;\n"
        "st.shared.u32 [%r5], %r1; bar.arrive 5, 128; bra DONE;\n"
        "CONSUME: bar.sync 5, 128; ld.shared.u32 %r2, [%r5+-256];\n"
        "DONE: st.global.u32 [%rd2], %r2; ret;");
    for (u64 seed = 0; seed < 4; seed++) {
        run_words(ptx, 128, in, out, &(EmuOptions){.order_seed = seed});
        for (u32 i = 64; i < 128; i++) assert_int_equal(out[i], in[i - 64]);
    }
}

static char printed[4096];
static void keep(void *data, uint32_t thread, const char *text, size_t n) { (void)data; (void)thread; strncat(printed, text, n); }

static void printing(void **state) {
    (void)state;
    static const char ptx[] = HEAD
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
        // "lane %d %.1f\n"
        ".global .align 1 .b8 fmt[14] = {108, 97, 110, 101, 32, 37, 100, 32, 37, 46, 49, 102, 10, 0};\n"
        ".visible .entry k() { .local .align 8 .b8 __local_depot0[16]; .reg .b64 %SP, %SPL; .reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .pred %p1;\n"
        "mov.u64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL; mov.u32 %r1, %tid.x; setp.ne.s32 %p1, %r1, 3; @%p1 ret;\n"
        "add.u64 %rd1, %SP, 0; add.u64 %rd2, %SPL, 0; st.local.u32 [%rd2], %r1; mov.b64 %rd5, 0d4004000000000000; st.local.f64 [%rd2+8], %rd5; mov.u64 %rd3, fmt; cvta.global.u64 %rd4, %rd3;\n"
        "{ .param .b64 param0; st.param.b64 [param0], %rd4; .param .b64 param1; st.param.b64 [param1], %rd1; .param .b32 retval0; call.uni (retval0), vprintf, (param0, param1); } ret; }\n";
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    printed[0] = 0;
    run_clean(emu, m, "k", 1, 32, 0, NULL, &(EmuOptions){.print = keep});
    assert_string_equal(printed, "lane 3 2.5\n");
    emu_destroy(emu);
}

// Widths and precisions from the arguments, shorts; the result is how many arguments were taken.
static void printing_widths(void **state) {
    (void)state;
    static const char ptx[] = HEAD
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
        // "%*d|%.*f|%hd|%s\n"
        ".global .align 1 .b8 fmt[17] = {37, 42, 100, 124, 37, 46, 42, 102, 124, 37, 104, 100, 124, 37, 115, 10, 0};\n"
        ".visible .entry k(.param .u64 p) { .local .align 8 .b8 a[40]; .reg .b32 %r<4>; .reg .b64 %rd<8>;\n"
        "st.local.u32 [a], 6; st.local.u32 [a+4], 42; st.local.u32 [a+8], 2; st.local.f64 [a+16], 0d4005bf0a8b145769; st.local.u32 [a+24], 70000; st.local.u64 [a+32], 0;\n"
        "cvta.local.u64 %rd1, a; cvta.global.u64 %rd4, fmt;\n"
        "{ .param .b64 f; st.param.b64 [f], %rd4; .param .b64 v; st.param.b64 [v], %rd1; .param .b32 r; call.uni (r), vprintf, (f, v); ld.param.b32 %r1, [r]; }\n"
        "ld.param.u64 %rd2, [p]; st.global.u32 [%rd2], %r1; ret; }\n";
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 x = device(emu, "x", NULL, 4);
    u32 taken;
    printed[0] = 0;
    run_clean(emu, m, "k", 1, 1, 0, (void *[]){&x}, &(EmuOptions){.print = keep});
    assert_string_equal(printed, "    42|2.72|4464|(null)\n");
    emu_read(emu, &taken, x, 4);
    assert_int_equal(taken, 6);
    emu_destroy(emu);
}

static void special_registers(void **state) {
    (void)state;
    const char *ptx = KERNEL(".param .u64 in, .param .u64 out",
        "mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mad.lo.s32 %r3, %r1, %r2, %r0; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %nctaid.x;\n"
        "mov.u32 %r6, %laneid; mov.u32 %r7, %warpid; shl.b32 %r7, %r7, 5; add.s32 %r6, %r6, %r7; sub.s32 %r8, %r6, %r3; mov.u32 %r9, %lanemask_lt; popc.b32 %r9, %r9; mov.u32 %r11, %laneid; sub.s32 %r9, %r9, %r11;\n"
        "add.s32 %r8, %r8, %r9; mad.lo.s32 %r10, %r4, 64, %r3; add.s32 %r8, %r8, %r10; mul.wide.u32 %rd0, %r10, 4; ld.param.u64 %rd2, [out]; add.s64 %rd2, %rd2, %rd0; st.global.u32 [%rd2], %r8;\n"
        "mov.u64 %rd5, %clock64; mov.u64 %rd6, %globaltimer; cvt.u64.u32 %rd6, %clock; mov.u32 %r11, WARP_SZ; ret;");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 a = 0, b = device(emu, "out", NULL, 4 * 64 * 3);
    u32 out[192];
    EmuReport r;
    assert_int_equal(
        emu_launch(emu, m, "k", (u32[]){3, 1, 1}, (u32[]){16, 4, 1}, NULL, 0, (void *[]){&a, &b}, NULL, &r), EMU_OK);
    emu_report_free(&r);
    emu_read(emu, out, b, sizeof out);
    for (u32 i = 0; i < 192; i++) assert_int_equal(out[i], i);
    emu_destroy(emu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles), cmocka_unit_test(elected), cmocka_unit_test(divergence), cmocka_unit_test(meeting_apart), cmocka_unit_test(branch_table),
        cmocka_unit_test(scopes), cmocka_unit_test(calls), cmocka_unit_test(block_barriers), cmocka_unit_test(named_barrier),
        cmocka_unit_test(printing), cmocka_unit_test(printing_widths), cmocka_unit_test(special_registers), cmocka_unit_test(votes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

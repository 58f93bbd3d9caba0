// Memory: every kind of access, atomics across threads, and each fault with its message.
#include "kit.h"

#define KERNEL(params, body) HEAD ".file 1 \"copy.tk\"\n.visible .entry k(" params ") {\n.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;\n" body "\nret; }\n"
#define XY ".param .u64 x, .param .u64 y"
#define LOADS "mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];\n"

static void vectors_and_widths(void **state) {
    (void)state;
    const char *ptx = KERNEL(XY, LOADS
        "mul.wide.u32 %rd0, %r0, 32; add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0;\n"
        "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1]; st.global.cs.v4.b32 [%rd2], {%r4, %r3, %r2, %r1};\n"
        "ld.global.v2.b64 {%rd5, %rd6}, [%rd1+16]; ld.global.s8 %r5, [%rd1+16]; ld.global.u8 %h1, [%rd1+17]; cvt.u32.u16 %r6, %h1; ld.global.s16 %rd7, [%rd1+18]; cvt.u32.u64 %r7, %rd7;\n"
        "add.s32 %r5, %r5, %r6; add.s32 %r5, %r5, %r7; st.global.u32 [%rd2+16], %r5; st.volatile.global.u8 [%rd2+20], %r5; st.global.u16 [%rd2+22], %h1; st.global.u8 [%rd2+21], 7; st.global.u64 [%rd2+24], %rd6;");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    uint8_t x[64 * 32], y[64 * 32];
    for (int i = 0; i < 64 * 32; i++) x[i] = (uint8_t)(i * 37 + i / 100);
    u64 dx = device(emu, "x", x, sizeof x), dy = device(emu, "y", NULL, sizeof y);
    run_clean(emu, m, "k", 1, 64, 0, (void *[]){&dx, &dy}, NULL);
    emu_read(emu, y, dy, sizeof y);
    for (int i = 0; i < 64; i++) {
        const uint8_t *a = x + 32 * i, *b = y + 32 * i;
        for (int k = 0; k < 4; k++) assert_memory_equal(a + 4 * k, b + 12 - 4 * k, 4);
        int32_t sum = (int8_t)a[16] + a[17] + (int16_t)(a[18] | a[19] << 8), got;
        memcpy(&got, b + 16, 4);
        assert_int_equal(got, sum);
        assert_int_equal(b[20], (uint8_t)sum);
        assert_int_equal(b[21], 7);
        assert_int_equal(b[22], a[17]);
        assert_memory_equal(a + 24, b + 24, 8);
    }
    emu_destroy(emu);
}

// .const with an initialiser, .global pointers, .local, generic addresses
static void variables(void **state) {
    (void)state;
    const char *ptx = HEAD
        ".const .align 4 .u32 table[4] = {10, 20, 30, 40};\n.global .align 4 .u32 counter = 5;\n.global .align 8 .u64 where[2] = {counter, generic(table)+8};\n"
        ".visible .entry k(.param .u64 y, .param .align 4 .b8 s[12]) {\n.local .align 8 .b8 stack[64]; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .pred %p<4>; .shared .align 4 .u32 sh;\n"
        "ld.param.u64 %rd1, [y]; ld.const.u32 %r1, [table+4]; mov.u64 %rd2, where; ld.global.u64 %rd3, [%rd2]; ld.u32 %r2, [%rd3]; ld.global.u64 %rd4, [where+8]; ld.u32 %r3, [%rd4];\n"
        "mov.u64 %rd5, stack; cvta.local.u64 %rd6, %rd5; mov.u32 %r4, %tid.x; st.u32 [%rd6+8], %r4; ld.local.u32 %r5, [stack+8]; isspacep.local %p1, %rd6;\n"
        "mov.u32 %r9, sh; cvt.u64.u32 %rd7, %r9; cvta.shared.u64 %rd8, %rd7; isspacep.shared %p2, %rd8; st.u32 [%rd8], 9; ld.shared.u32 %r10, [sh]; cvta.to.shared.u64 %rd9, %rd8; isspacep.global %p3, %rd1;\n"
        "ld.param.u32 %r6, [s+8]; mov.b64 %rd10, s; cvta.param.u64 %rd11, %rd10; ld.param.u32 %r11, [%rd11+4]; ld.u32 %r12, [%rd11];\n"
        "add.s32 %r7, %r1, %r2; add.s32 %r7, %r7, %r3; add.s32 %r7, %r7, %r5; add.s32 %r7, %r7, %r6; add.s32 %r7, %r7, %r10; add.s32 %r7, %r7, %r11; add.s32 %r7, %r7, %r12; @%p1 add.s32 %r7, %r7, 1000; @%p2 add.s32 %r7, %r7, 2000; @%p3 add.s32 %r7, %r7, 4000;\n"
        "mul.wide.u32 %rd12, %r4, 4; add.s64 %rd1, %rd1, %rd12; st.global.u32 [%rd1], %r7; ret; }\n";
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u32 s[3] = {100, 200, 300}, out[32];
    u64 y = device(emu, "y", NULL, sizeof out);
    run_clean(emu, m, "k", 1, 32, 0, (void *[]){&y, s}, &(EmuOptions){.allow_races = true});
    emu_read(emu, out, y, sizeof out);
    for (u32 i = 0; i < 32; i++) assert_int_equal(out[i], 20 + 5 + 30 + i + 300 + 9 + 200 + 100 + 7000);
    u64 at;
    size_t n;
    assert_int_equal(emu_find_variable(emu, m, "counter", &at, &n), EMU_OK);
    assert_int_equal(n, 4);
    const EmuKernel *k = emu_find_kernel(m, "k");
    assert_int_equal(k->n_params, 2);
    assert_int_equal(k->params[1].offset, 8);
    assert_int_equal(k->params[1].size, 12);
    emu_destroy(emu);
}

// The last two bytes of an odd tensor, on which 16 blocks count one upon another; the old value fills no other bits.
static void atomics_of_16_bits(void **state) {
    (void)state;
    const char *ptx = KERNEL(XY, LOADS
        "ld.volatile.global.b16 %h1, [%rd2+4]; LOOP: add.s16 %h2, %h1, 1; atom.global.cas.b16 %h3, [%rd2+4], %h1, %h2;\n"
        "setp.ne.b16 %p1, %h3, %h1; mov.b16 %h1, %h3; @%p1 bra LOOP;");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    uint16_t y[3] = {5, 6, 65000};
    u64 dx = 0, dy = device(emu, "y", y, sizeof y);
    run_clean(emu, m, "k", 16, 64, 0, (void *[]){&dx, &dy}, &(EmuOptions){.threads = 4});
    emu_read(emu, y, dy, sizeof y);
    assert_int_equal(y[0], 5);
    assert_int_equal(y[1], 6);
    assert_int_equal(y[2], (65000 + 1024) & 0xffff);
    emu_destroy(emu);
}

static void atomics(void **state) {                      // 16 blocks on several threads
    (void)state;
    const char *ptx = KERNEL(XY, LOADS
        "atom.global.add.u32 %r1, [%rd2], 1; red.global.add.f32 [%rd2+4], 0f3F800000; atom.global.max.s32 %r2, [%rd2+8], %r0; red.global.min.s32 [%rd2+12], %r0;\n"
        "red.relaxed.gpu.global.add.u64 [%rd2+16], 3; atom.global.inc.u32 %r3, [%rd2+24], 6; red.global.or.b32 [%rd2+28], %r0; red.global.xor.b32 [%rd2+32], 1;\n"
        "mov.b32 %r4, 0x3c003c00; red.global.add.noftz.f16x2 [%rd2+36], %r4; LOOP: ld.global.u32 %r5, [%rd2+40]; add.s32 %r6, %r5, 2; atom.acq_rel.gpu.global.cas.b32 %r7, [%rd2+40], %r5, %r6; setp.ne.s32 %p1, %r7, %r5; @%p1 bra LOOP;\n"
        "red.global.add.v2.f32 [%rd2+48], {0f3F800000, 0f40000000};");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u32 y[16] = {0};
    y[3] = 1000;
    u64 dx = 0, dy = device(emu, "y", y, sizeof y);
    run_clean(emu, m, "k", 16, 64, 0, (void *[]){&dx, &dy}, &(EmuOptions){.threads = 4});
    emu_read(emu, y, dy, sizeof y);
    assert_int_equal(y[0], 1024);
    assert_true(f32_from(y[1]) == 1024);
    assert_int_equal(y[2], 63);
    assert_int_equal(y[3], 0);
    assert_int_equal(y[4], 3072);
    assert_int_equal(y[6], 1024 % 7);
    assert_int_equal(y[7], 63);
    assert_int_equal(y[8], 0);
    assert_int_equal(y[9], 0x64006400);                  // 1024.0 twice
    assert_int_equal(y[10], 2048);
    assert_true(f32_from(y[12]) == 1024 && f32_from(y[13]) == 2048);
    emu_destroy(emu);
}

// ---- Faults

static void fault_of(const char *body, u32 block, EmuFaultKind kind, const char *part, const EmuOptions *options) {
    EmuContext *emu = emu_create();
    u64 x = device(emu, "x", NULL, 4096), y = device(emu, "y", NULL, 4096);
    char *ptx = malloc(strlen(body) + 4096);
    strcpy(
        ptx,
        KERNEL(
            XY,
            ".shared .align 16 .b8 tile[1024];\n" LOADS
            "mov.u32 %r10, tile; shl.b32 %r11, %r0, 2; add.s32 %r12, %r10, %r11; cvt.u64.u32 %rd11, %r11; add.s64 %rd3, %rd1, %rd11; shr.u32 %r13, %r0, 5;\n"));
    char *end = strstr(ptx, "\nret; }");
    sprintf(end, "\n%s\nret; }\n", body);
    expect_fault(emu, ptx, block, 0, (void *[]){&x, &y}, options, kind, part);
    emu_destroy(emu);
    free(ptx);
}

static void out_of_bounds(void **state) {
    (void)state;
    fault_of("ld.global.u32 %r1, [%rd1+4096];", 1, EMU_FAULT_OUT_OF_BOUNDS,
             "read of 4 bytes: `x` + 4096 is 0 bytes past its end", NULL);
    fault_of("st.global.v4.u32 [%rd1+4112], {%r1, %r1, %r1, %r1};", 1, EMU_FAULT_OUT_OF_BOUNDS,
             "write of 16 bytes: `x` + 4112 is 16 bytes past its end", NULL);
    fault_of("ld.global.u32 %r1, [%rd2+-4];", 1, EMU_FAULT_OUT_OF_BOUNDS, "`y` - 4 is before its start", NULL);
    fault_of("mov.u64 %rd5, 64; ld.global.u32 %r1, [%rd5];", 1, EMU_FAULT_OUT_OF_BOUNDS, "0x40 is in no allocation", NULL);
    fault_of("st.shared.u32 [%r10+1024], %r1;", 1, EMU_FAULT_OUT_OF_BOUNDS, "past the end of the block's 1024", NULL);
    fault_of("ld.shared.u32 %r1, [8];", 1, EMU_FAULT_OUT_OF_BOUNDS, "address 8 is before its start", NULL);
    fault_of("atom.global.add.u32 %r1, [%rd1+5000], 1;", 1, EMU_FAULT_OUT_OF_BOUNDS, "`x` + 5000 is 904 bytes past", NULL);
    fault_of("mov.b16 %h1, 1; atom.global.cas.b16 %h2, [%rd1+4096], %h1, %h1;", 1, EMU_FAULT_OUT_OF_BOUNDS, "of 2 bytes: `x` + 4096 is 0 bytes past", NULL);
}
static void misaligned(void **state) {
    (void)state;
    fault_of("ld.global.u32 %r1, [%rd1+2];", 1, EMU_FAULT_MISALIGNED, "not a multiple of 4: `x` + 2", NULL);
    fault_of("ld.shared.v2.u32 {%r1, %r2}, [tile+4];", 1, EMU_FAULT_MISALIGNED, "`tile` + 4", NULL);
}
static void uninitialised(void **state) {
    (void)state;
    fault_of("ld.shared.u32 %r1, [tile+16];", 1, EMU_FAULT_UNINITIALISED,
             "shared memory that nothing wrote: `tile` + 16", NULL);
    fault_of("ld.global.u32 %r1, [%rd1+16];", 1, EMU_FAULT_UNINITIALISED, "`x` + 16",
             &(EmuOptions){.check_global_init = true});
}
static void races(void **state) {
    (void)state;
    fault_of("st.shared.u32 [tile], %r0;", 64, EMU_FAULT_RACE, "write of `tile` + 0 races with the write by warp 0", NULL);
    fault_of("st.shared.u32 [%r12], %r0; xor.b32 %r1, %r12, 128; ld.shared.u32 %r2, [%r1];", 64, EMU_FAULT_RACE,
             "no barrier between", NULL);
    fault_of("st.shared.u32 [%r12], %r0; bar.sync 0; ld.shared.u32 %r2, [tile+4]; st.shared.u32 [%r12], %r0;", 64,
             EMU_FAULT_RACE, "races with the read by warp", NULL);
}
// 16 bytes that are taken as one have one record, words and bytes of them their own.
static void races_of_parts(void **state) {
    (void)state;
    static const EmuOptions any = {.allow_uninitialised = true};
#define FIRST "setp.lt.u32 %p1, %r0, 32; setp.ge.u32 %p2, %r0, 32; "
#define ALL   "{%r0, %r0, %r0, %r0}"
    fault_of(FIRST "@%p1 st.shared.v4.u32 [tile+16], " ALL "; @%p2 ld.shared.u32 %r1, [tile+24];", 64, EMU_FAULT_RACE, "read of `tile` + 24 races with the write by warp 0", NULL);
    fault_of(FIRST "@%p1 st.shared.u8 [tile+21], %r0; @%p2 ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [tile+16];", 64, EMU_FAULT_RACE, "read of `tile` + 20 races", &any);
    fault_of(FIRST "@%p1 ld.shared.u32 %r1, [tile+28]; @%p2 st.shared.v4.u32 [tile+16], " ALL ";", 64, EMU_FAULT_RACE, "write of `tile` + 28 races with the read by warp 0", &any);
    fault_of(FIRST "@%p1 st.shared.u32 [tile+4], %r0; bar.sync 0; @%p2 st.shared.v4.u32 [tile], " ALL "; @%p1 ld.shared.u32 %r1, [tile+8];", 64, EMU_FAULT_RACE, "`tile` + 8 races", &any);
    fault_of(FIRST "@%p1 st.shared.u32 [%r12], %r0; @%p2 ld.shared.u16 %h1, [tile+30];", 64, EMU_FAULT_RACE, "read of `tile` + 30 races with the write by warp 0", NULL);
    // parts of one that nobody shares, then all of it, in turns
    fault_of(FIRST "@%p1 st.shared.u32 [tile], %r0; @%p2 st.shared.u32 [tile+4], %r0; @%p1 st.shared.v2.u32 [tile+8], {%r0, %r0}; bar.sync 0;\n"
             "@%p1 ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [tile]; @%p2 ld.shared.u32 %r1, [tile+4]; bar.sync 0; @%p2 st.shared.v4.u32 [tile], " ALL "; bar.sync 0;\n"
             "ld.shared.u32 %r1, [tile+12]; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [tile]; trap;", 64, EMU_FAULT_TRAP, "`trap` reached", NULL);
#undef FIRST
#undef ALL
}
static void one_value(void **state) {                    // the same from all warps: no race, as long as it is the same
    (void)state;
    fault_of("mov.u32 %r1, 7; st.shared.u32 [tile], %r1; st.shared.v2.u16 [tile+4], {1, 2}; stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile+16], {%r1};\n"
             "trap;", 64, EMU_FAULT_TRAP, "`trap` reached", NULL);
    fault_of("shr.u32 %r1, %r0, 5; st.shared.u8 [tile+1], %r1;", 64, EMU_FAULT_RACE, "write of `tile` + 1 races", NULL);
    fault_of("shr.u32 %r1, %r0, 5; stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile+16], {%r1};", 64, EMU_FAULT_RACE, "write of `tile` + 16 races", NULL);
}
static void strong_accesses(void **state) {              // relaxed and volatile ones beside atomics: no race; plain ones are
    (void)state;
    static const char start[] = "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [tile], 0; bar.sync 0; ";
    char body[400];
    snprintf(body, sizeof body, "%s red.shared.add.u32 [tile], 1; ld.relaxed.cta.shared.u32 %%r1, [tile]; ld.volatile.shared.u32 %%r1, [tile]; st.relaxed.cta.shared.u32 [tile], %%r0; trap;", start);
    fault_of(body, 64, EMU_FAULT_TRAP, "`trap` reached", NULL);
    snprintf(body, sizeof body, "%s red.shared.add.u32 [tile], 1; ld.shared.u32 %%r1, [tile];", start);
    fault_of(body, 64, EMU_FAULT_RACE, "of `tile` + 0 races with the", NULL);
}
static void copies_without_wait(void **state) {
    (void)state;
    fault_of("cp.async.ca.shared.global [%r12], [%rd3], 4; cp.async.commit_group; ld.shared.u32 %r2, [%r12];", 32,
             EMU_FAULT_MISSING_WAIT, "read of `tile` + 0, which a cp.async of warp 0",
             &(EmuOptions){.allow_uninitialised = true});
    fault_of(
        "cp.async.ca.shared.global [%r12], [%rd3], 4; cp.async.commit_group; cp.async.wait_group 0; xor.b32 %r1, %r12, 128; ld.shared.u32 %r2, [%r1];",
        64, EMU_FAULT_MISSING_WAIT, "no wait orders the two", &(EmuOptions){.allow_uninitialised = true});
}
// A launch that may begin before the end of those that it follows: what it touches before it has waited.
static void early_launches(void **state) {
    (void)state;
    const EmuOptions early = {.early = true};
    fault_of("ld.global.u32 %r1, [%rd1];", 32, EMU_FAULT_MISSING_WAIT,
             "read of 4 bytes before griddepcontrol.wait, while earlier launches may still run: `x` + 0", &early);
    fault_of("st.global.u32 [%rd2+8], %r1; griddepcontrol.wait;", 32, EMU_FAULT_MISSING_WAIT,
             "write of 4 bytes before griddepcontrol.wait, while earlier launches may still run: `y` + 8", &early);
    fault_of("setp.lt.u32 %p1, %r0, 7; @%p1 bra A; griddepcontrol.wait; A: ld.global.u32 %r1, [%rd1];", 32,
             EMU_FAULT_MISSING_WAIT, "read of 4 bytes before", &early);
    fault_of("cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r10], 16;", 1, EMU_FAULT_MISSING_WAIT,
             "write of 16 bytes before griddepcontrol.wait", &early);
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(
        emu,
        KERNEL(
            XY, LOADS
            "griddepcontrol.launch_dependents; ld.global.u32 %r1, [%rd1+4]; griddepcontrol.wait; ld.global.u32 %r2, [%rd2]; add.s32 %r1, %r1, %r2; st.global.u32 [%rd2+4], %r1;"));
    u32 x[2] = {0, 40}, y[2] = {2, 0};
    u64 dx = device(emu, "x", x, sizeof x), dy = device(emu, "y", y, sizeof y);
    EmuRange fixed = {dx, sizeof x};
    run_clean(emu, m, "k", 1, 1, 0, (void *[]){&dx, &dy}, &(EmuOptions){.early = true, .fixed = &fixed, .n_fixed = 1});
    emu_read(emu, y, dy, sizeof y);
    assert_int_equal(y[1], 42);
    emu_destroy(emu);
}

static void deadlocks(void **state) {
    (void)state;
    fault_of("setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bar.sync 1, 64; A:", 64, EMU_FAULT_DEADLOCK,
             "warp 1 waits for barrier 1, where 32 of 64 threads are", NULL);
    fault_of("setp.lt.u32 %p1, %r0, 7; @%p1 bra A; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; A: bar.sync 2;", 32,
             EMU_FAULT_DIVERGENCE, "for lanes 0xffffff80", NULL);
    fault_of(
        "setp.lt.u32 %p1, %r0, 7; @%p1 bra A; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; bra E; A: bar.warp.sync -1; E:",
        32, EMU_FAULT_DIVERGENCE, "an operation of lanes 0xffffffff, for lanes 0x0000007f", NULL);
    fault_of("setp.lt.u32 %p1, %r0, 7; @%p1 shfl.sync.idx.b32 %r1, %r0, 0, 31, -1;", 32, EMU_FAULT_DIVERGENCE,
             "a guard leaves lanes 0xffffff80 out", NULL);
    fault_of("mbarrier.init.shared.b64 [tile], 1; L: mbarrier.try_wait.parity.shared.b64 %p1, [tile], 0; @!%p1 bra L;",
             1, EMU_FAULT_DEADLOCK, "phase 0 of the mbarrier at `tile` + 0, which lacks 1 of 1 arrivals", NULL);
}

// Loops in which nothing is ever different: of registers, on memory that no one writes, on a lock that no one lets go, storing
// what is there; and some of the block at a barrier meanwhile.
static void loops_without_end(void **state) {
    (void)state;
    static const char *const loops[] = {
        "mov.u32 %r1, 0; L: xor.b32 %r1, %r1, 1; bra L;",
        "mov.u32 %r1, 5; st.global.u32 [%rd3], %r1; L: ld.global.u32 %r2, [%rd3]; setp.eq.u32 %p1, %r2, 5; @%p1 bra L;",
        "mov.u32 %r1, 5; st.global.u32 [%rd3], %r1; L: ld.relaxed.gpu.global.u32 %r2, [%rd3]; setp.eq.u32 %p1, %r2, 5; @%p1 bra L;",
        "L: atom.global.cas.b32 %r2, [%rd1+64], 0, 1; setp.ne.u32 %p1, %r2, 2; @%p1 bra L;",
        "L: mov.u32 %r1, 5; st.global.u32 [%rd3], %r1; st.relaxed.gpu.global.u32 [%rd3], %r1; bra L;",
        "setp.lt.u32 %p1, %r0, 32; @%p1 bra A; L: ld.volatile.shared.u32 %r1, [tile]; bra L; A: bar.sync 0;",
    };
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        fault_of(loops[i], 64, EMU_FAULT_DEADLOCK, "something to change, in a loop that nothing ends", &(EmuOptions){.allow_uninitialised = true});
}

// One that looks long enough does end: another block stores after a while.
static void a_loop_that_ends(void **state) {
    (void)state;
    EmuContext *emu = emu_create();
    u64 x = device(emu, "x", (u32[2]){0}, 8);
    u32 out[2];
    EmuModule *m = load_ptx(emu, HEAD
        ".visible .entry k(.param .u64 p) { .reg .b64 %d; .reg .b32 %r<3>; .reg .pred %p, %q; ld.param.u64 %d, [p]; mov.u32 %r1, %ctaid.x;\n"
        "setp.eq.u32 %q, %r1, 0; @%q bra W; mov.u32 %r2, 0; C: add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 2000000; @%p bra C;\n"
        "st.global.u32 [%d], 7; ret; W: ld.global.u32 %r2, [%d]; setp.eq.u32 %p, %r2, 0; @%p bra W; st.global.u32 [%d+4], %r2; ret; }\n");
    run_clean(emu, m, "k", 2, 32, 0, (void *[]){&x}, NULL);
    emu_read(emu, out, x, 8);
    assert_int_equal(out[1], 7);
    emu_destroy(emu);
}

// A cooperative launch gives the grid memory to meet in (%envreg1 and 2), and starts all blocks.
static void cooperative(void **state) {
    (void)state;
    EmuContext *emu = emu_create();
    u64 x = device(emu, "x", (u32[64]){0}, 256);
    u32 out[64];
    EmuReport r;
    EmuModule *m = load_ptx(emu, HEAD
        ".visible .entry k(.param .u64 p) { .reg .b64 %d<4>; .reg .b32 %r<6>; .reg .pred %p; ld.param.u64 %d1, [p]; mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2;\n"
        "mov.b64 %d2, {%r2, %r1}; setp.ne.u64 %p, %d2, 0; @%p bra G; trap; G: mov.u32 %r3, %ctaid.x; mul.wide.u32 %d3, %r3, 4; add.u64 %d3, %d1, %d3; st.global.u32 [%d3], 1;\n"
        "atom.release.gpu.global.add.u32 %r4, [%d2+4], 1; W: ld.acquire.gpu.global.u32 %r4, [%d2+4]; setp.lt.u32 %p, %r4, 64; @%p bra W;\n"
        "xor.b32 %r3, %r3, 63; mul.wide.u32 %d3, %r3, 4; add.u64 %d3, %d1, %d3; ld.global.u32 %r5, [%d3]; red.global.add.u32 [%d3], %r5; ret; }\n");
    run_clean(emu, m, "k", 64, 1, 0, (void *[]){&x}, &(EmuOptions){.together = true});
    emu_read(emu, out, x, 256);
    for (int i = 0; i < 64; i++) assert_int_equal(out[i], 2);
    assert_int_equal(emu_launch(emu, m, "k", (u32[]){64, 1, 1}, (u32[]){1, 1, 1}, NULL, 0, (void *[]){&x}, NULL, &r), EMU_FAULTED);
    assert_non_null(strstr(r.faults[0].message, "`trap` reached; the module waits for whole grids, which needs a cooperative launch"));
    emu_report_free(&r);
    assert_int_equal(emu_launch(emu, m, "k", (u32[]){1000, 1, 1}, (u32[]){1, 1, 1}, NULL, 0, (void *[]){&x}, &(EmuOptions){.together = true}, NULL), EMU_INVALID);
    assert_non_null(strstr(emu_message(emu), "1000 blocks or clusters that may wait for each other; at most 256"));
    emu_destroy(emu);
}

// What the driver keeps of a block's shared memory: zero at first, for those who ask where it is.
static void reserved(void **state) {
    (void)state;
    fault_of("mov.u32 %r1, %reserved_smem_offset_1; ld.shared.u32 %r2, [%r1+4]; setp.eq.u32 %p1, %r2, 0; @%p1 trap;", 32, EMU_FAULT_TRAP, "`trap` reached", NULL);
    fault_of("mov.u32 %r1, 16; ld.shared.u32 %r2, [%r1+4];", 32, EMU_FAULT_OUT_OF_BOUNDS, "address 20 is before its start", NULL);
}
// A kernel that names no shared memory but is launched with some counts its addresses from 0.
static void from_zero(void **state) {
    (void)state;
    static const char ptx[] = HEAD ".visible .entry k(.param .u64 x) {\n.reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
        "ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; st.shared.u32 [%rd2], %r1; bar.sync 0;\n"
        "ld.shared.u32 %r2, [0]; ld.shared.u32 %r3, [1000]; sub.u32 %r3, %r3, %r2; st.global.u32 [%rd1], %r3;\nret; }";
    EmuContext *emu = emu_create();
    u32 got;
    u64 x = device(emu, "x", NULL, 4);
    run_clean(emu, load_ptx(emu, ptx), "k", 1, 256, 1024, (void *[]){&x}, NULL);
    emu_read(emu, &got, x, 4);
    assert_int_equal(got, 250);
    expect_fault(emu, ptx, 128, 512, (void *[]){&x}, NULL, EMU_FAULT_UNINITIALISED, "that nothing wrote: address 1000");
    expect_fault(emu, ptx, 256, 0, (void *[]){&x}, NULL, EMU_FAULT_OUT_OF_BOUNDS, "address 0 is before its start");
    emu_destroy(emu);
}
static void other_faults(void **state) {
    (void)state;
    fault_of("trap;", 1, EMU_FAULT_TRAP, "`trap` reached", NULL);
    fault_of("L: add.s32 %r1, %r1, 1; bra L;", 32, EMU_FAULT_BUDGET, "used up its 100000 instructions",
             &(EmuOptions){.budget = 100000});
    fault_of("mbarrier.arrive.shared.b64 _, [tile];", 1, EMU_FAULT_BAD_OPERAND, "`tile` + 0 is no initialised mbarrier",
             NULL);
    fault_of("setmaxnreg.inc.sync.aligned.u32 256;\nsetmaxnreg.inc.sync.aligned.u32 24;", 128, EMU_FAULT_REGISTERS,
             "`setmaxnreg.inc` to 24", NULL);
    fault_of("setmaxnreg.dec.sync.aligned.u32 24;\nsetmaxnreg.inc.sync.aligned.u32 240; trap;", 128, EMU_FAULT_TRAP,
             "`trap` reached", NULL);
    fault_of("setmaxnreg.inc.sync.aligned.u32 240; trap;", 128, EMU_FAULT_TRAP, "`trap` reached", NULL);     // as it begins
    fault_of("setmaxnreg.inc.sync.aligned.u32 240;\nsetmaxnreg.inc.sync.aligned.u32 232;", 128, EMU_FAULT_REGISTERS,
             "`setmaxnreg.inc` to 232, but the warp has 240", NULL);
    fault_of("bar.sync 2, 64;", 32, EMU_FAULT_BAD_OPERAND, "barrier 2 with 64 threads, in a block of 32", NULL);
    fault_of("bar.sync 16;", 32, EMU_FAULT_BAD_OPERAND, "barrier 16 of 16", NULL);
}

static void places(void **state) {                       // .loc gives the line; counters count
    (void)state;
    EmuContext *emu = emu_create();
    u64 x = device(emu, "x", NULL, 4096), y = device(emu, "y", NULL, 64);
    EmuModule *m = load_ptx(
        emu,
        KERNEL(
            XY, LOADS
            ".loc 1 17 5\nmul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd2, %rd3; .loc 1 18 9\nst.global.u32 [%rd4], %r0;"));
    EmuReport r;
    assert_int_equal(
        emu_launch(emu, m, "k", (u32[]){2, 1, 1}, (u32[]){32, 1, 1}, NULL, 0, (void *[]){&x, &y}, NULL, &r),
        EMU_FAULTED);
    assert_string_equal(r.faults[0].file, "copy.tk");
    assert_int_equal(r.faults[0].line, 18);
    assert_int_equal(r.faults[0].lane, 16);
    assert_string_equal(r.faults[0].message, "write of 4 bytes: `y` + 64 is 0 bytes past its end");
    assert_string_equal(r.faults[0].kernel, "k");
    assert_int_equal(r.n_faults, 1);
    emu_report_free(&r);
    // 32 lanes of consecutive words: 4 sectors; stride 128: 32. Shared with stride 2 words: 2 wavefronts.
    m = load_ptx(emu, KERNEL(XY, ".shared .align 4 .b8 s[4096];\n" LOADS "mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r0; mul.wide.u32 %rd3, %r0, 128; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r0;\n"
                                  "shl.b32 %r1, %r0, 3; mov.u32 %r2, s; add.s32 %r1, %r1, %r2; st.shared.u32 [%r1], %r0; shl.b32 %r1, %r0, 7; add.s32 %r1, %r1, %r2; st.shared.u32 [%r1], %r0; shl.b32 %r1, %r0, 4; add.s32 %r1, %r1, %r2; ld.shared.u32 %r3, [%r2];"));
    assert_int_equal(
        emu_launch(emu, m, "k", (u32[]){1, 1, 1}, (u32[]){32, 1, 1}, NULL, 0, (void *[]){&x, &y}, NULL, &r), EMU_OK);
    assert_int_equal(r.counters.global_requests, 2);
    assert_int_equal(r.counters.global_sectors, 4 + 32);
    assert_int_equal(r.counters.shared_requests, 3);
    assert_int_equal(r.counters.shared_cycles, 2 + 32 + 1);
    assert_int_equal(r.counters.shared_conflicts, 1 + 31);
    emu_report_free(&r);
    emu_destroy(emu);
}

static void host_calls(void **state) {
    (void)state;
    EmuContext *emu = emu_create();
    u64 x;
    uint8_t b[100];
    assert_int_equal(emu_alloc(emu, 100, "buffer", &x), EMU_OK);
    assert_int_equal(x % 256, 0);
    assert_int_equal(emu_write(emu, x + 90, b, 20), EMU_INVALID);
    assert_non_null(strstr(emu_message(emu), "`buffer` + 90 runs 10 bytes past its end"));
    assert_int_equal(emu_fill(emu, x, 100, EMU_FILL_NAN, 0), EMU_OK);
    assert_int_equal(emu_read(emu, b, x, 100), EMU_OK);
    assert_int_equal(b[57], 0xff);
    assert_int_equal(emu_free(emu, x + 1), EMU_INVALID);
    assert_int_equal(emu_free(emu, x), EMU_OK);
    assert_int_equal(emu_read(emu, b, x, 1), EMU_INVALID);
    EmuModule *m = load_ptx(emu, HEAD ".visible .entry k(.param .u32 n) .reqntid 64, 1, 1 { ret; }");
    assert_int_equal(emu_launch(emu, m, "nothing", (u32[]){1, 1, 1}, (u32[]){64, 1, 1}, NULL, 0, NULL, NULL, NULL),
                     EMU_NOT_FOUND);
    assert_int_equal(emu_launch(emu, m, "k", (u32[]){1, 1, 1}, (u32[]){32, 1, 1}, NULL, 0, (void *[]){b}, NULL, NULL),
                     EMU_INVALID);
    assert_non_null(strstr(emu_message(emu), "needs blocks of (64, 1, 1) threads"));
    assert_int_equal(
        emu_launch(emu, m, "k", (u32[]){1, 1, 1}, (u32[]){64, 1, 1}, NULL, 300000, (void *[]){b}, NULL, NULL),
        EMU_INVALID);
    assert_non_null(strstr(emu_message(emu), "300000 bytes of shared memory; a block has 232448"));
    assert_int_equal(emu_launch(emu, m, "k", (u32[]){0, 1, 1}, (u32[]){64, 1, 1}, NULL, 0, (void *[]){b}, NULL, NULL),
                     EMU_OK);
    emu_destroy(emu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_and_widths), cmocka_unit_test(variables), cmocka_unit_test(atomics), cmocka_unit_test(atomics_of_16_bits), cmocka_unit_test(out_of_bounds),
        cmocka_unit_test(misaligned), cmocka_unit_test(uninitialised), cmocka_unit_test(races), cmocka_unit_test(races_of_parts), cmocka_unit_test(one_value), cmocka_unit_test(strong_accesses), cmocka_unit_test(copies_without_wait), cmocka_unit_test(early_launches),
        cmocka_unit_test(deadlocks), cmocka_unit_test(loops_without_end), cmocka_unit_test(a_loop_that_ends), cmocka_unit_test(cooperative), cmocka_unit_test(reserved), cmocka_unit_test(from_zero), cmocka_unit_test(other_faults), cmocka_unit_test(places), cmocka_unit_test(host_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

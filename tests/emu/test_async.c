// Asynchronous copies, mbarriers, clusters and wgmma, piece by piece.
#include "kit.h"

// A kernel with 16 KiB of shared memory at `buf` (1024-aligned), an mbarrier, and helpers to see them.
#define KERNEL(params, body) HEAD ".visible .entry k(" params ") {\n.shared .align 1024 .b8 buf[16384]; .shared .align 8 .b8 bar[64];\n" \
    ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<64>; .reg .b64 %rd<32>;\n" \
    "mov.u32 %r0, %tid.x; mov.u32 %r1, buf; mov.u32 %r2, bar; setp.ne.s32 %p0, %r0, 0; ld.param.u64 %rd1, [out];\n" body "\nret; }\n"
// Thread 0 makes the barrier; all meet; thread 0 issues; all wait for phase 0.
#define WITH_BARRIER(issue) "@%p0 bra A0; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; A0: bar.sync 0; @%p0 bra A1;\n" issue \
    "\nA1: W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;\n"
// 128 threads copy buf[0 .. n) to out, 4 bytes at a time.
#define DUMP(n) "shl.b32 %r10, %r0, 2; D: add.s32 %r11, %r1, %r10; ld.shared.u32 %r12, [%r11]; cvt.u64.u32 %rd10, %r10; add.s64 %rd11, %rd1, %rd10; st.global.u32 [%rd11], %r12;\n" \
    "add.s32 %r10, %r10, 512; setp.lt.u32 %p2, %r10, " #n "; @%p2 bra D;\n"

static bool gaps;                                        // the kernel reads bytes that no copy wrote

static void run_modes(const char *ptx, u32 grid, const u32 *cluster, u32 block, EmuContext *emu, void **params) {
    EmuModule *m = load_ptx(emu, ptx);
    for (int mode = 0; mode < 3; mode++) {
        EmuReport r;
        EmuStatus s = emu_launch(
            emu, m, "k", (u32[]){grid, 1, 1}, (u32[]){block, 1, 1}, cluster, 0, params,
            &(EmuOptions){.async = (EmuAsync)mode, .order_seed = (u64)mode, .allow_uninitialised = gaps}, &r);
        if (s) {
            emu_report_print(&r, stderr);
            fail_msg("mode %d: %s", mode, emu_message(emu));
        }
        emu_report_free(&r);
    }
    emu_unload(emu, m);
}

static void load_boxes(bool narrow) {                    // 16-bit elements, each swizzle, partly outside
    enum { ROWS = 20, COLS = 72 };
    uint16_t t[ROWS * COLS], got[8192];
    gaps = narrow;
    for (int i = 0; i < ROWS * COLS; i++) t[i] = (uint16_t)(i + 1);
    const int inner[] = {32, 16, 32, 64}, bits[] = {0, 1, 2, 3};
    for (int swizzle = 0; swizzle < 4; swizzle++)
        for (int place = 0; place < 3; place++) {
            EmuContext *emu = emu_create();
            u64 dt = device(emu, "t", t, sizeof t), out = device(emu, "out", NULL, sizeof got);
            EmuTensorMap map;
            int w = narrow ? 16 : inner[swizzle], h = 16,
                x = place == 0   ? 8
                    : place == 1 ? 40
                                 : -8,
                y = place == 0   ? 2
                    : place == 1 ? 10
                                 : -5,
                bytes = w * h * 2, pitch = swizzle && 2 * w < 16 << swizzle ? 16 << swizzle : 2 * w,
                pitched = h * pitch;
            assert_int_equal(emu_tensor_map_encode_tiled(emu, &map, EMU_TM_BF16, 2, dt, (u64[]){70, ROWS},
                                                         (u64[]){2 * COLS}, (u32[]){(u32)w, (u32)h}, (u32[]){1, 1}, 0,
                                                         swizzle, 0, 0),
                             EMU_OK);
            run_modes(KERNEL(".param .u64 out, .param .align 64 .b8 map[128], .param .u32 x, .param .u32 y, .param .u32 bytes, .param .u32 pitched",
                "mov.b64 %rd2, map; cvta.param.u64 %rd3, %rd2; ld.param.u32 %r5, [x]; ld.param.u32 %r6, [y]; ld.param.u32 %r7, [bytes]; ld.param.u32 %r8, [pitched];\n"
                WITH_BARRIER("mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r7;\n"
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd3, {%r5, %r6}], [bar];")
                "setp.ge.u32 %p2, %r0, 128; shl.b32 %r10, %r0, 2; D: add.s32 %r11, %r1, %r10; ld.shared.u32 %r12, [%r11]; cvt.u64.u32 %rd10, %r10; add.s64 %rd11, %rd1, %rd10; st.global.u32 [%rd11], %r12;\n"
                "add.s32 %r10, %r10, 512; setp.lt.u32 %p2, %r10, %r8; @%p2 bra D;\n"), 1, NULL, 128, emu, (void *[]){&out, &map, &x, &y, &bytes, &pitched});
            emu_read(emu, got, out, sizeof got);
            for (int i = 0; i < h; i++)
                for (int j = 0; j < w; j++) {
                    u32 o = (u32)(i * pitch + j * 2), mask = (1u << bits[swizzle]) - 1, s = o ^ (o >> 7 & mask) << 4;
                    bool in = y + i >= 0 && y + i < ROWS && x + j >= 0 && x + j < 70;
                    assert_int_equal(got[s / 2], in ? t[(y + i) * COLS + x + j] : 0);
                }
            emu_destroy(emu);
        }
}

static void tensor_loads(void **state) {
    (void)state;
    load_boxes(false);
}
static void narrow_boxes(void **state) {                 // rows stay a swizzle span apart
    (void)state;
    load_boxes(true);
    gaps = false;
}

static void tensor_stores(void **state) {                // 32 x 8 floats, clipped; then a reduction on top
    (void)state;
    enum { ROWS = 10, COLS = 40 };
    float t[ROWS * COLS] = {0};
    EmuContext *emu = emu_create();
    u64 out = device(emu, "t", t, sizeof t);
    EmuTensorMap map;
    assert_int_equal(emu_tensor_map_encode_tiled(emu, &map, EMU_TM_F32, 2, out, (u64[]){COLS, ROWS}, (u64[]){4 * COLS},
                                                 (u32[]){32, 8}, (u32[]){1, 1}, 0, EMU_TM_SWIZZLE_128B, 0, 0),
                     EMU_OK);
    const char *ptx = KERNEL(".param .u64 out, .param .align 64 .b8 map[128]",
        "mov.b64 %rd2, map; cvta.param.u64 %rd3, %rd2; shl.b32 %r5, %r0, 2; shr.u32 %r6, %r5, 7; and.b32 %r6, %r6, 7; shl.b32 %r6, %r6, 4; xor.b32 %r6, %r5, %r6; add.s32 %r6, %r1, %r6;\n"
        "cvt.rn.f32.u32 %r7, %r0; st.shared.f32 [%r6], %r7; fence.proxy.async.shared::cta; bar.sync 0; @%p0 bra E; mov.u32 %r8, 16; mov.u32 %r9, 4;\n"
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {%r8, %r9}], [buf]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd3, {%r8, %r9}], [buf]; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; E:");
    EmuModule *m = load_ptx(emu, ptx);
    run_clean(emu, m, "k", 1, 256, 0, (void *[]){&out, &map}, NULL);
    emu_read(emu, t, out, sizeof t);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++)
            assert_true(t[i * COLS + j] == (i >= 4 && j >= 16 ? 2.0f * (float)((i - 4) * 32 + j - 16) : 0));
    char *broken = strdup(ptx), *at = strstr(broken, "fence.proxy.async.shared::cta;");
    memcpy(at, "//", 2), at[30] = '\n';
    memset(at, ' ', 30);
    expect_fault(emu, broken, 256, 0, (void *[]){&out, &map}, NULL, EMU_FAULT_MISSING_FENCE,
                 "no `fence.proxy.async` follows the store by warp 0");
    free(broken);
    emu_destroy(emu);
}

static void stores_of_copies(void **state) {             // what cp.async has written is no more the asynchronous proxy's
    (void)state;
    float t[256];
    for (int i = 0; i < 256; i++) t[i] = (float)i;
    EmuContext *emu = emu_create();
    u64 out = device(emu, "t", t, sizeof t);
    const char *ptx = KERNEL(".param .u64 out",
        "shl.b32 %r5, %r0, 2; add.s32 %r6, %r1, %r5; cvt.u64.u32 %rd4, %r5; add.s64 %rd4, %rd1, %rd4; cp.async.ca.shared.global [%r6], [%rd4], 4;\n"
        "cp.async.wait_all; fence.proxy.async.shared::cta; bar.sync 0; @%p0 bra E;\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [buf], 512; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:");
    run_clean(emu, load_ptx(emu, ptx), "k", 1, 128, 0, (void *[]){&out}, NULL);
    char *broken = strdup(ptx), *at = strstr(broken, "fence.proxy.async.shared::cta;");
    memset(at, ' ', 30);
    expect_fault(emu, broken, 128, 0, (void *[]){&out}, NULL, EMU_FAULT_MISSING_FENCE, "no `fence.proxy.async` follows the store by warp 0");
    free(broken);
    emu_destroy(emu);
}

static void some_are_slow(void **state) {                // by order_seed: a copy may be on its way while 64 others come, one after the other
    (void)state;
    u32 late = 0, got;
    EmuContext *emu = emu_create();
    u64 out = device(emu, "out", NULL, 1024);
    EmuModule *m = load_ptx(emu, KERNEL(".param .u64 out",
        "@%p0 bra E; mbarrier.init.shared.b64 [bar], 1; mbarrier.init.shared.b64 [bar+8], 1; fence.mbarrier_init.release.cluster; mov.u32 %r5, 0; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 512, [bar];\n"
        "L: mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 16; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf+1024], [%rd1], 16, [bar+8];\n"
        "and.b32 %r6, %r5, 1; W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], %r6; @!%p1 bra W; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 64; @%p2 bra L;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0; selp.u32 %r7, 0, 1, %p1; V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra V; st.global.u32 [%rd1+512], %r7; E:"));
    for (u64 seed = 1; seed <= 64; seed++) {
        run_clean(emu, m, "k", 1, 32, 0, (void *[]){&out}, &(EmuOptions){.async = EMU_ASYNC_RANDOM, .order_seed = seed});
        emu_read(emu, &got, out + 512, sizeof got);
        late += got;
    }
    assert_in_range(late, 1, 32);
    run_clean(emu, m, "k", 1, 32, 0, (void *[]){&out}, NULL);
    emu_read(emu, &got, out + 512, sizeof got);
    assert_int_equal(got, 0);
    emu_destroy(emu);
}

#define STORES(wait) KERNEL(".param .u64 out", "shl.b32 %r5, %r0, 2; add.s32 %r6, %r1, %r5; mov.f32 %r7, 0f3f800000; st.shared.f32 [%r6], %r7; fence.proxy.async.shared::cta; bar.sync 0;\n" \
    "@%p0 bra E; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [buf], 512; cp.async.bulk.commit_group; " wait " E:")
#define LOADS(wait) KERNEL(".param .u64 out", "@%p0 bra E; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;\n" \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 512, [bar]; " wait " E:")

static void block_ends(void **state) {                   // its shared memory is the next block's then
    (void)state;
    static const struct { const char *ptx, *fault; } cases[] = {
        {STORES("cp.async.bulk.wait_group 0;"), NULL}, {STORES("cp.async.bulk.wait_group.read 0;"), NULL},
        {STORES(""), "a bulk store from its shared memory (512 bytes)"}, {STORES("cp.async.bulk.wait_group.read 1;"), "by `cp.async.bulk.wait_group.read`"},
        {LOADS("W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W;"), NULL}, {LOADS(""), "an asynchronous copy into its shared memory (512 bytes)"},
    };
    float t[256] = {0};
    EmuContext *emu = emu_create();
    u64 out = device(emu, "t", t, sizeof t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cases[i].fault) expect_fault(emu, cases[i].ptx, 128, 0, (void *[]){&out}, NULL, EMU_FAULT_MISSING_WAIT, cases[i].fault);
        else run_clean(emu, load_ptx(emu, cases[i].ptx), "k", 1, 128, 0, (void *[]){&out}, NULL);
    emu_destroy(emu);
}

static void im2col(void **state) {                       // 3x3 filter, padding 1: 8 channels of an NHWC image
    (void)state;
    enum { N = 2, H = 4, W = 5, C = 8, PIXELS = 64 };
    uint16_t t[N * H * W * C], got[PIXELS * C];
    for (int i = 0; i < N * H * W * C; i++) t[i] = (uint16_t)(i + 1);
    for (int tap = 0; tap < 9; tap++) {
        EmuContext *emu = emu_create();
        u64 dt = device(emu, "t", t, sizeof t), out = device(emu, "out", NULL, sizeof got);
        EmuTensorMap map;
        assert_int_equal(emu_tensor_map_encode_im2col(emu, &map, EMU_TM_F16, 4, dt, (u64[]){C, W, H, N},
                                                      (u64[]){2 * C, 2 * C * W, 2 * C * W * H}, (int[]){-1, -1},
                                                      (int[]){-1, -1}, C, PIXELS, (u32[]){1, 1, 1, 1}, 0, 0, 0, 0),
                         EMU_OK);
        int ow = tap % 3, oh = tap / 3;
        run_modes(KERNEL(".param .u64 out, .param .align 64 .b8 map[128], .param .u32 ow, .param .u32 oh",
            "mov.b64 %rd2, map; cvta.param.u64 %rd3, %rd2; ld.param.u16 %h1, [ow]; ld.param.u16 %h2, [oh]; mov.u32 %r5, 0; mov.u32 %r6, -1;\n"
            WITH_BARRIER("mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;\n"
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [buf], [%rd3, {%r5, %r6, %r6, %r5}], [bar], {%h1, %h2};") DUMP(1024)), 1, NULL, 128, emu, (void *[]){&out, &map, &ow, &oh});
        emu_read(emu, got, out, sizeof got);
        for (int p = 0; p < PIXELS; p++)
            for (int c = 0; c < C; c++) {
                int x = p % W - 1 + ow, y = p / W % H - 1 + oh, n = p / W / H;
                assert_int_equal(got[p * C + c],
                                 x >= 0 && x < W && y >= 0 && y < H && n < N ? t[((n * H + y) * W + x) * C + c] : 0);
            }
        emu_destroy(emu);
    }
}

// Windows two apart, then their pixels written back where a walk without offsets leads: y has one row of windows less
// than there are.
static void im2col_strides(void **state) {
    (void)state;
    enum { N = 3, H = 7, W = 6, C = 8, P = 4, Q = 3, ROWS = 3, PIXELS = 32, FIRST = 5 };
    uint16_t t[N * H * W * C], got[N * ROWS * Q * C], zero[N * ROWS * Q * C] = {0};
    for (int i = 0; i < N * H * W * C; i++) t[i] = (uint16_t)(i + 1);
    EmuContext *emu = emu_create();
    u64 dt = device(emu, "t", t, sizeof t), out = device(emu, "out", zero, sizeof zero);
    EmuTensorMap from, to;
    int low = -1, high_w = low + (Q - 1) * 2 + 1 - W, high_h = low + (P - 1) * 2 + 1 - H;
    assert_int_equal(emu_tensor_map_encode_im2col(emu, &from, EMU_TM_F16, 4, dt, (u64[]){C, W, H, N},
                                                  (u64[]){2 * C, 2 * C * W, 2 * C * W * H}, (int[]){low, low},
                                                  (int[]){high_w, high_h}, C, PIXELS, (u32[]){1, 2, 2, 1}, 0, 0, 0, 0),
                     EMU_OK);
    assert_int_equal(emu_tensor_map_encode_im2col(emu, &to, EMU_TM_F16, 4, out, (u64[]){C, Q, ROWS, N},
                                                  (u64[]){2 * C, 2 * C * Q, 2 * C * Q * ROWS}, (int[]){0, 0},
                                                  (int[]){0, P - ROWS}, C, PIXELS, (u32[]){1, 1, 1, 1}, 0, 0, 0, 0),
                     EMU_OK);
    int w = FIRST % Q, h = FIRST / Q % P, n = FIRST / Q / P, x = w * 2 + low, y = h * 2 + low;
    run_modes(KERNEL(".param .u64 out, .param .align 64 .b8 from[128], .param .align 64 .b8 to[128], .param .u32 x, .param .u32 y, .param .u32 w, .param .u32 h, .param .u32 n",
        "mov.b64 %rd2, from; cvta.param.u64 %rd3, %rd2; mov.b64 %rd2, to; cvta.param.u64 %rd4, %rd2; mov.u16 %h1, 2; mov.u16 %h2, 1; mov.u32 %r5, 0;\n"
        "ld.param.u32 %r6, [x]; ld.param.u32 %r7, [y]; ld.param.u32 %r8, [w]; ld.param.u32 %r9, [h]; ld.param.u32 %r4, [n];\n"
        WITH_BARRIER("mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;\n"
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [buf], [%rd3, {%r5, %r6, %r7, %r4}], [bar], {%h1, %h2};")
        "@%p0 bra E; cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%rd4, {%r5, %r8, %r9, %r4}], [buf]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:"),
        1, NULL, 64, emu, (void *[]){&out, &from, &to, &x, &y, &w, &h, &n});
    emu_read(emu, got, out, sizeof got);
    for (int i = 0; i < N * P * Q; i++) {
        int q = i % Q, p = i / Q % P, b = i / Q / P, u = q * 2 + low + 2, v = p * 2 + low + 1;
        for (int c = 0; c < C && p < ROWS; c++) {
            bool written = i >= FIRST && i < FIRST + PIXELS;
            assert_int_equal(got[((b * ROWS + p) * Q + q) * C + c],
                             written && u >= 0 && u < W && v >= 0 && v < H ? t[((b * H + v) * W + u) * C + c] : 0);
        }
    }
    emu_destroy(emu);
}

static void bulk_rows(void **state) {                    // 1-D: in, back out, added
    (void)state;
    u32 x[512], got[512];
    for (u32 i = 0; i < 512; i++) x[i] = i * 77;
    EmuContext *emu = emu_create();
    u64 dx = device(emu, "x", x, sizeof x), out = device(emu, "out", x, sizeof x);
    EmuModule *m = load_ptx(emu, KERNEL(".param .u64 out, .param .u64 x", "ld.param.u64 %rd2, [x];\n"
        WITH_BARRIER("mbarrier.arrive.expect_tx.shared.b64 _, [bar], 2048; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd2], 2048, [bar];")
        "@%p0 bra E; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [buf], 1024; cp.async.bulk.global.shared::cta.bulk_group [%rd1+1024], [buf], 1024; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:"));
    run_clean(emu, m, "k", 1, 64, 0, (void *[]){&out, &dx}, NULL);
    emu_read(emu, got, out, sizeof got);
    for (u32 i = 0; i < 512; i++) assert_int_equal(got[i], i < 256 ? 2 * x[i] : x[i - 256]);
    expect_fault(emu, KERNEL(".param .u64 out, .param .u64 x", "ld.param.u64 %rd2, [x];\n"
        "@%p0 bra A0; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd2+2000], 64, [bar]; A0:"),
        32, 0, (void *[]){&out, &dx}, NULL, EMU_FAULT_OUT_OF_BOUNDS, "a bulk copy reads 64 bytes: `x` + 2000 runs 16 bytes past its end");
    expect_fault(emu, KERNEL(".param .u64 out, .param .u64 x", "ld.param.u64 %rd2, [x];\n"
        "@%p0 bra A0; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd2], 64, [bar]; ld.shared.u32 %r5, [buf]; st.global.u32 [%rd1], %r5; A0:"),
        32, 0, (void *[]){&out, &dx}, &(EmuOptions){.allow_uninitialised = true}, EMU_FAULT_MISSING_WAIT, "read of `buf` + 0, which a bulk copy of warp 0");
    emu_destroy(emu);
}

// A block that goes while another one still talks to it: an arrival, a multicast.
#define LATE(late, end) KERNEL(".param .u64 out", \
    "mov.u32 %r20, %cluster_ctarank; @%p0 bra A0; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256; mbarrier.init.shared.b64 [bar+8], 1; fence.mbarrier_init.release.cluster; A0:\n" \
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; setp.ne.s32 %p3, %r20, 0; @%p3 bra A1; mov.u32 %r5, 0;\n" \
    "W: nanosleep.u32 100; add.s32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 4000; @%p4 bra W; @%p0 bra A1; add.s32 %r2, %r2, 8; " late "\nA1: " end)
#define ARRIVES "mapa.shared::cluster.u32 %r8, %r2, 1; mbarrier.arrive.shared::cluster.b64 _, [%r8];"
#define BRINGS  "mov.u16 %h1, 2; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [buf], [%rd1], 256, [bar], %h1;"
#define TAKEN   "@!%p3 bra A2; V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra V; A2: "
#define TOGETHER "barrier.cluster.arrive; barrier.cluster.wait;"
static void cluster_exit(void **state) {
    static const struct { const char *ptx; bool waits; } cases[] = {
        {LATE(ARRIVES, ""), false}, {LATE(ARRIVES, TOGETHER), true}, {LATE(BRINGS, ""), false}, {LATE(BRINGS, TAKEN TOGETHER), true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        u32 x[64] = {0};
        EmuContext *emu = emu_create();
        u64 out = device(emu, "out", x, sizeof x);
        EmuModule *m = load_ptx(emu, cases[i].ptx);
        EmuReport r;
        EmuStatus s = emu_launch(emu, m, "k", (u32[]){2, 1, 1}, (u32[]){32, 1, 1}, (u32[]){2, 1, 1}, 0,
                                 (void *[]){&out}, NULL, &r);
        if (cases[i].waits && s != EMU_OK) emu_report_print(&r, stderr);
        assert_int_equal(s, cases[i].waits ? EMU_OK : EMU_FAULTED);
        if (!cases[i].waits) assert_non_null(strstr(r.faults[0].message, "block 1 of the cluster, which has ended"));
        emu_report_free(&r);
        emu_destroy(emu);
    }
}

static void clusters(void **state) {                     // multicast, remote loads, remote arrivals, st.async
    (void)state;
    u32 x[64], got[4 * 128];
    for (u32 i = 0; i < 64; i++) x[i] = i * 3 + 1;
    EmuContext *emu = emu_create();
    u64 dx = device(emu, "x", x, sizeof x), out = device(emu, "out", NULL, sizeof got);
    run_modes(KERNEL(".param .u64 out, .param .u64 x", "ld.param.u64 %rd2, [x]; mov.u32 %r20, %cluster_ctarank; mov.u32 %r21, %ctaid.x; mul.wide.u32 %rd5, %r21, 512; add.s64 %rd1, %rd1, %rd5;\n"
        "@%p0 bra A0; mbarrier.init.shared.b64 [bar], 1; mbarrier.init.shared.b64 [bar+8], 4; mbarrier.init.shared.b64 [bar+16], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256; mbarrier.arrive.expect_tx.shared.b64 _, [bar+16], 4; fence.mbarrier_init.release.cluster; A0:\n"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; setp.ne.s32 %p3, %r20, 1; or.pred %p3, %p3, %p0; @%p3 bra A1; mov.u16 %h1, 15;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [buf], [%rd2], 256, [bar], %h1; A1:\n"
        "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;\n"
        "@%p0 bra A2; mov.u32 %r5, 0; R: mapa.shared::cluster.u32 %r6, %r2, %r5; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6+8]; add.s32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 4; @%p4 bra R;\n"
        "add.s32 %r7, %r20, 1; and.b32 %r7, %r7, 3; mapa.shared::cluster.u32 %r8, %r1, %r7; mapa.shared::cluster.u32 %r9, %r2, %r7; add.s32 %r10, %r20, 100; st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r8+1024], %r10, [%r9+16]; A2:\n"
        "W2: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar+8], 0; @!%p1 bra W2; W3: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar+16], 0; @!%p1 bra W3;\n"
        "xor.b32 %r7, %r20, 2; mapa.shared::cluster.u32 %r8, %r1, %r7; and.b32 %r11, %r0, 63; shl.b32 %r11, %r11, 2; add.s32 %r8, %r8, %r11; ld.shared::cluster.u32 %r12, [%r8]; ld.shared.u32 %r13, [buf+1024]; mad.lo.s32 %r12, %r13, 1000, %r12;\n"
        "mul.wide.u32 %rd6, %r0, 4; add.s64 %rd1, %rd1, %rd6; st.global.u32 [%rd1], %r12; barrier.cluster.arrive; barrier.cluster.wait;"), 4, (u32[]){4, 1, 1}, 128, emu, (void *[]){&out, &dx});
    emu_read(emu, got, out, sizeof got);
    for (u32 b = 0; b < 4; b++)
        for (u32 i = 0; i < 128; i++) assert_int_equal(got[b * 128 + i], (100 + (b + 3) % 4) * 1000 + x[i & 63]);
    emu_destroy(emu);
}

// Block 1 reads its buffer and tells block 0 so by st.async; block 0 writes to it, having waited for that or not.
#define TOLD(wait) KERNEL(".param .u64 out", \
    "mov.u32 %r20, %cluster_ctarank; setp.ne.s32 %p3, %r20, 0; @%p0 bra A0; st.shared.u32 [buf], 1; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4;\n" \
    "fence.mbarrier_init.release.cluster; A0: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p0 bra A2; @!%p3 bra A1; ld.shared.u32 %r5, [buf]; mapa.shared::cluster.u32 %r8, %r1, 0;\n" \
    "mapa.shared::cluster.u32 %r9, %r2, 0; st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r8+64], %r5, [%r9]; bra A2;\n" \
    "A1: " wait " mapa.shared::cluster.u32 %r8, %r1, 1; st.shared::cluster.u32 [%r8], 2; A2: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
static void async_stores_release(void **state) {
    static const char *const kernels[] = {
        TOLD("W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;"), TOLD("")};
    (void)state;
    for (int i = 0; i < 2; i++) {
        u32 x[4] = {0};
        EmuContext *emu = emu_create();
        u64 out = device(emu, "out", x, sizeof x);
        EmuModule *m = load_ptx(emu, kernels[i]);
        EmuReport r;
        EmuStatus s = emu_launch(emu, m, "k", (u32[]){2, 1, 1}, (u32[]){32, 1, 1}, (u32[]){2, 1, 1}, 0,
                                 (void *[]){&out}, NULL, &r);
        if (s != EMU_OK && i == 0) emu_report_print(&r, stderr);
        assert_int_equal(s, i == 0 ? EMU_OK : EMU_FAULTED);
        if (i) assert_int_equal(r.faults[0].kind, EMU_FAULT_RACE);
        emu_report_free(&r);
        emu_destroy(emu);
    }
}

// ---- wgmma: m64n16, operands laid out by the host, one type and layout at a time

typedef struct Case { const char *type, *d; int size, k, n; bool mn_a, mn_b, in_registers; int swizzle; } Case;

static double value_of(const char *type, u64 bits) {
    if (!strcmp(type, "bf16")) return (double)bf16_to_f32((uint16_t)bits);
    if (!strcmp(type, "f16")) return (double)f16_to_f32((uint16_t)bits);
    if (!strcmp(type, "tf32")) return (double)f32_from((u32)bits);
    if (!strcmp(type, "e4m3")) return (double)e4m3_to_f32((uint8_t)bits);
    return (double)(int8_t)bits;
}
static u64 bits_of(const char *type, int v) {
    if (!strcmp(type, "bf16")) return bf16_from_f32((float)v);
    if (!strcmp(type, "f16")) return f16_from_f32((float)v);
    if (!strcmp(type, "tf32")) return f32_bits((float)v);
    if (!strcmp(type, "e4m3")) return e4m3_from_f32((float)v);
    return (uint8_t)v;
}

// CuTe's canonical layouts: the byte offset of element (mn, k).
static u32 offset_of(const Case *t, bool mn_major, int mn, int k, u32 lead, u32 stride) {
    u32 span = t->swizzle ? 16u << t->swizzle : 0, size = (u32)t->size, T = 16 / size, o;
    if (!mn_major) o = span ? (u32)(mn % 8) * span + (u32)(mn / 8) * stride + (u32)k * size
                            : (u32)(mn % 8) * 16 + (u32)(mn / 8) * stride + (u32)k % T * size + (u32)k / T * lead;
    else o = span ? (u32)mn * size % span + (u32)mn * size / span * lead + (u32)(k % 8) * span + (u32)(k / 8) * stride
                  : (u32)mn % T * size + (u32)mn / T * stride + (u32)(k % 8) * 16 + (u32)(k / 8) * lead;
    return o ^ (o >> 7 & ((1u << t->swizzle) - 1)) << 4;
}

static void strides_of(const Case *t, bool mn_major, int mn, u32 *lead, u32 *stride) {
    u32 span = t->swizzle ? 16u << t->swizzle : 0;
    if (!mn_major) *stride = span ? 8 * span : 256, *lead = span ? 16 : 128;
    else if (span) *stride = 8 * span, *lead = (u32)t->k * span;
    else *stride = 128 * (u32)(t->k / 8), *lead = 128;
    (void)mn;
}

static void wgmma_case(const Case *t) {
    enum { B_AT = 8192 };
    static uint8_t image[16384];
    u64 a[64][32], b[256][32];
    u32 la, sa, lb, sb;
    memset(image, 0, sizeof image);
    strides_of(t, t->mn_a, 64, &la, &sa);
    strides_of(t, t->mn_b, t->n, &lb, &sb);
    for (int i = 0; i < 64; i++)
        for (int k = 0; k < t->k; k++)
            memcpy(image + offset_of(t, t->mn_a, i, k, la, sa),
                   &(u64){a[i][k] = bits_of(t->type, (i * 7 + k * 3) % 13 - 6)}, (size_t)t->size);
    for (int j = 0; j < t->n; j++)
        for (int k = 0; k < t->k; k++)
            memcpy(image + B_AT + offset_of(t, t->mn_b, j, k, lb, sb),
                   &(u64){b[j][k] = bits_of(t->type, (j * 5 + k * 11) % 15 - 7)}, (size_t)t->size);
    u64 mode = t->swizzle ? (u64)(4 - t->swizzle) << 62 : 0;
    u64 da = mode | (u64)(sa >> 4) << 32 | (u64)(la >> 4) << 16, db = mode | (u64)(sb >> 4) << 32 | (u64)(lb >> 4) << 16;
    bool half = !strcmp(t->d, "f16"), integer = !strcmp(t->type, "s8"), sixteen = t->size == 2;
    int regs = half ? t->n / 4 : t->n / 2;
    char *ptx = malloc(40000), list[4000] = "", shape[300];
    size_t at = 0;
    for (int i = 0; i < regs; i++) at += (size_t)sprintf(list + at, "%s%%d%d", i ? "," : "", i);
    sprintf(shape, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s", t->n, t->k, t->d, t->type, t->type);
    strcpy(ptx, KERNEL(".param .u64 out, .param .u64 image, .param .u64 da, .param .u64 db, .param .u64 frag",
        ".reg .b32 %d<128>; .reg .b32 %a<4>;\nld.param.u64 %rd2, [image]; ld.param.u64 %rd3, [da]; ld.param.u64 %rd4, [db]; ld.param.u64 %rd5, [frag];\n"
        "shl.b32 %r10, %r0, 4; L: cvt.u64.u32 %rd10, %r10; add.s64 %rd11, %rd2, %rd10; ld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%rd11]; add.s32 %r11, %r1, %r10; st.shared.v4.u32 [%r11], {%r12, %r13, %r14, %r15};\n"
        "add.s32 %r10, %r10, 2048; setp.lt.u32 %p2, %r10, 16384; @%p2 bra L; fence.proxy.async; bar.sync 0;\n"
        "shr.u32 %r20, %r1, 4; cvt.u64.u32 %rd20, %r20; add.s64 %rd3, %rd3, %rd20; add.s64 %rd4, %rd4, %rd20; add.s64 %rd4, %rd4, 512;\n"
        "mul.wide.u32 %rd21, %r0, 16; add.s64 %rd5, %rd5, %rd21; ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%rd5];\n"
        "setp.ne.s32 %p5, 0, 0; setp.eq.s32 %p6, 0, 0; wgmma.fence.sync.aligned;"));
    at = (size_t)(strstr(ptx, "\nret; }") - ptx);
    at += (size_t)sprintf(ptx + at, "\n");
    for (int twice = 0; twice < 2; twice++)              // the second adds on top
        at += (size_t)sprintf(ptx + at, "%s {%s}, %s, %%rd4, %s%s;\n", shape, list,
                              t->in_registers ? "{%a0, %a1, %a2, %a3}" : "%rd3", twice ? "%p6" : "%p5",
                              integer           ? ""
                              : !sixteen        ? ", 1, 1"
                              : t->in_registers ? t->mn_b ? ", 1, 1, 1" : ", 1, 1, 0"
                              : t->mn_a         ? t->mn_b ? ", 1, 1, 1, 1" : ", 1, 1, 1, 0"
                              : t->mn_b         ? ", 1, 1, 0, 1"
                                                : ", 1, 1, 0, 0");
    at += (size_t)sprintf(
        ptx + at,
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\nmul.wide.u32 %%rd22, %%r0, %d; add.s64 %%rd1, %%rd1, %%rd22;\n",
        regs * 4);
    for (int i = 0; i < regs; i++) at += (size_t)sprintf(ptx + at, "st.global.b32 [%%rd1+%d], %%d%d;\n", 4 * i, i);
    sprintf(ptx + at, "ret; }\n");

    u32 frag[128][4] = {{0}};
    int e = 4 / t->size;
    for (int th = 0; th < 128; th++)
        for (int r = 0; r < 4; r++)
            for (int h = 0; h < e; h++) {
                int row = 16 * (th / 32) + th % 32 / 4 + 8 * (r & 1), k = e * (th % 4) + h + 4 * e * (r >> 1);
                frag[th][r] |= (u32)a[row][k] << (8 * t->size * h);
            }
    EmuContext *emu = emu_create();
    u32 *got = calloc(128, (size_t)regs * 4);
    u64 out = device(emu, "out", NULL, 512u * (u32)regs), img = device(emu, "image", image, sizeof image),
        fr = device(emu, "frag", frag, sizeof frag);
    run_modes(ptx, 1, NULL, 128, emu, (void *[]){&out, &img, &da, &db, &fr});
    emu_read(emu, got, out, 512u * (u32)regs);
    for (int th = 0; th < 128; th++)
        for (int i = 0; i < t->n / 2; i++) {
            int row = 16 * (th / 32) + th % 32 / 4 + 8 * (i >> 1 & 1), col = 8 * (i >> 2) + 2 * (th % 4) + (i & 1);
            double want = 0, have;
            for (int k = 0; k < t->k; k++) want += 2 * value_of(t->type, a[row][k]) * value_of(t->type, b[col][k]);
            u32 word = got[th * regs + (half ? i / 2 : i)];
            have = half      ? (double)f16_to_f32((uint16_t)(word >> 16 * (i & 1)))
                   : integer ? (double)(int32_t)word
                             : (double)f32_from(word);
            if (have != want)
                fail_msg("%s swizzle %d majors %d %d: d[%d][%d] = %g, not %g", shape, t->swizzle, t->mn_a, t->mn_b, row,
                         col, have, want);
        }
    emu_destroy(emu);
    free(got), free(ptx);
}

static void wgmma_shapes(void **state) {
    (void)state;
    for (int swizzle = 0; swizzle < 4; swizzle++) {
        for (int majors = 0; majors < 4; majors++) {
            wgmma_case(&(Case){"bf16", "f32", 2, 16, 64, majors & 1, majors & 2, false, swizzle});
            if (!(majors & 1)) wgmma_case(&(Case){"f16", "f32", 2, 16, 16, false, majors & 2, true, swizzle});
        }
        wgmma_case(&(Case){"f16", "f16", 2, 16, 24, false, false, false, swizzle});
        wgmma_case(&(Case){"tf32", "f32", 4, 8, 32, false, false, false, swizzle});
        wgmma_case(&(Case){"e4m3", "f32", 1, 32, 16, false, false, true, swizzle});
        wgmma_case(&(Case){"e4m3", "f16", 1, 32, 8, false, false, false, swizzle});
        wgmma_case(&(Case){"s8", "s32", 1, 32, 48, false, false, false, swizzle});
    }
}

static void mbarrier_states(void **state) {              // tokens, drops, expect after complete, phases
    (void)state;
    EmuContext *emu = emu_create();
    u32 got[8];
    u64 out = device(emu, "out", NULL, sizeof got);
    EmuModule *m = load_ptx(emu, KERNEL(".param .u64 out",
        "@%p0 ret; mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 %rd5, [bar]; mbarrier.test_wait.shared.b64 %p1, [bar], %rd5; selp.u32 %r5, 1, 0, %p1; st.global.u32 [%rd1], %r5;\n"
        "mbarrier.arrive.shared.b64 _, [bar]; mbarrier.test_wait.shared.b64 %p1, [bar], %rd5; selp.u32 %r5, 1, 0, %p1; st.global.u32 [%rd1+4], %r5;\n"
        "mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1; selp.u32 %r5, 1, 0, %p1; st.global.u32 [%rd1+8], %r5; mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0; selp.u32 %r5, 1, 0, %p1; st.global.u32 [%rd1+12], %r5;\n"
        "mbarrier.arrive_drop.shared.b64 %rd6, [bar]; mbarrier.pending_count.b64 %r6, %rd6; st.global.u32 [%rd1+16], %r6; mbarrier.arrive.shared.b64 _, [bar]; mbarrier.arrive.shared.b64 %rd7, [bar];\n"
        "mbarrier.test_wait.shared.b64 %p1, [bar], %rd7; selp.u32 %r5, 1, 0, %p1; st.global.u32 [%rd1+20], %r5; mbarrier.inval.shared.b64 [bar];"));
    run_clean(emu, m, "k", 1, 32, 0, (void *[]){&out}, NULL);
    emu_read(emu, got, out, sizeof got);
    const u32 want[] = {0, 1, 0, 1, 2, 1};
    for (int i = 0; i < 6; i++) assert_int_equal(got[i], want[i]);
    emu_destroy(emu);
}

static void unaligned_coordinate(void **state) {
    (void)state;
    EmuContext *emu = emu_create();
    u64 x = device(emu, "x", NULL, 4096), out = x;
    EmuTensorMap map;
    emu_fill(emu, x, 4096, EMU_FILL_ZERO, 0);
    assert_int_equal(emu_tensor_map_encode_tiled(emu, &map, EMU_TM_BF16, 1, x, (u64[]){2048}, (u64[]){0}, (u32[]){64},
                                                 (u32[]){1}, 0, 0, 0, 0),
                     EMU_OK);
    expect_fault(
        emu,
        KERNEL(
            ".param .u64 out, .param .align 64 .b8 map[128]",
            "mov.b64 %rd2, map; cvta.param.u64 %rd3, %rd2; mov.u32 %r5, 3;\n" WITH_BARRIER(
                "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128; cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd3, {%r5}], [bar];")),
        32, 0, (void *[]){&out, &map}, NULL, EMU_FAULT_MISALIGNED,
        "innermost coordinate of a bulk tensor copy is 3, 6 bytes");
    emu_destroy(emu);
}

static void encodings(void **state) {                    // what cuTensorMapEncodeTiled refuses, we refuse
    (void)state;
    EmuContext *emu = emu_create();
    EmuTensorMap map;
    u64 x = device(emu, "x", NULL, 4096);
    assert_int_equal(emu_tensor_map_encode_tiled(emu, &map, EMU_TM_BF16, 2, x + 8, (u64[]){64, 8}, (u64[]){128},
                                                 (u32[]){64, 8}, (u32[]){1, 1}, 0, 0, 0, 0),
                     EMU_INVALID);
    assert_non_null(strstr(emu_message(emu), "not 16-byte aligned"));
    assert_int_equal(emu_tensor_map_encode_tiled(emu, &map, EMU_TM_BF16, 2, x, (u64[]){64, 8}, (u64[]){100},
                                                 (u32[]){64, 8}, (u32[]){1, 1}, 0, 0, 0, 0),
                     EMU_INVALID);
    assert_int_equal(emu_tensor_map_encode_tiled(emu, &map, EMU_TM_BF16, 2, x, (u64[]){64, 8}, (u64[]){128},
                                                 (u32[]){64, 257}, (u32[]){1, 1}, 0, 0, 0, 0),
                     EMU_INVALID);
    assert_int_equal(emu_tensor_map_encode_tiled(emu, &map, EMU_TM_BF16, 2, x, (u64[]){64, 8}, (u64[]){128},
                                                 (u32[]){64, 8}, (u32[]){1, 1}, 0, EMU_TM_SWIZZLE_64B, 0, 0),
                     EMU_INVALID);
    assert_non_null(strstr(emu_message(emu), "128 bytes, more than the swizzle's 64"));
    emu_destroy(emu);
}

// A grid of 5 x 4 clusters of two blocks, of which those that run take over what has not begun: each tile is done once, whoever does it.
static void launch_control(void **state) {
    (void)state;
    static const char ptx[] = ".version 8.6\n.target sm_100a\n.address_size 64\n"
        ".visible .entry k(.param .u64 out, .param .u64 taken) .reqntid 32 .reqnctapercluster 2, 1, 1 {\n"
        ".reg .pred %p, %q, %w; .reg .b32 %x, %y, %z, %n, %ph, %rank; .reg .b64 %o, %t, %a; .reg .b128 %answer; .shared .align 16 .b8 res[16]; .shared .align 8 .b64 bar;\n"
        "ld.param.u64 %o, [out]; ld.param.u64 %t, [taken]; mov.u32 %n, %tid.x; setp.eq.u32 %p, %n, 0; mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %ph, 0; mov.u32 %rank, %cluster_ctarank;\n"
        "@%p mbarrier.init.shared::cta.b64 [bar], 1; barrier.cluster.arrive; barrier.cluster.wait;\n"
        "LOOP: @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16; barrier.cluster.arrive; barrier.cluster.wait; .reg .pred %first; setp.eq.and.u32 %first, %rank, 0, %p;\n"
        "@%first clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [res], [bar];\n"
        "mov.u32 %n, %nctaid.x; mad.lo.u32 %n, %y, %n, %x; mul.wide.u32 %a, %n, 4; add.s64 %a, %a, %o; @%p red.global.add.u32 [%a], 1;\n"
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %w, [bar], %ph; @!%w bra WAIT; xor.b32 %ph, %ph, 1; ld.shared.b128 %answer, [res];\n"
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %answer; @!%q bra DONE;\n"
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%x, _, %z, _}, %answer; clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %y, %answer; add.u32 %x, %x, %rank;\n"
        "@%first red.global.add.u32 [%t], 1; barrier.cluster.arrive; barrier.cluster.wait; fence.proxy.async.shared::cta; bra LOOP;\nDONE: ret; }\n";
    for (int threads = 1; threads < 4; threads++) {
        u32 out[40] = {0}, taken = 0;
        EmuContext *emu = emu_create();
        EmuModule *m = load_ptx(emu, ptx);
        u64 dout = device(emu, "out", out, sizeof out), dtaken = device(emu, "taken", &taken, sizeof taken);
        EmuReport r;
        EmuStatus s = emu_launch(emu, m, "k", (u32[]){10, 4, 1}, (u32[]){32, 1, 1}, NULL, 0, (void *[]){&dout, &dtaken}, &(EmuOptions){.threads = threads}, &r);
        if (s != EMU_OK) emu_report_print(&r, stderr);
        assert_int_equal(s, EMU_OK);
        emu_read(emu, out, dout, sizeof out);
        emu_read(emu, &taken, dtaken, sizeof taken);
        for (int i = 0; i < 40; i++) assert_int_equal(out[i], 1);
        assert_true(threads > 1 || taken == 19);
        emu_report_free(&r);
        emu_destroy(emu);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_loads), cmocka_unit_test(narrow_boxes), cmocka_unit_test(tensor_stores), cmocka_unit_test(stores_of_copies), cmocka_unit_test(block_ends), cmocka_unit_test(some_are_slow), cmocka_unit_test(im2col), cmocka_unit_test(im2col_strides), cmocka_unit_test(bulk_rows),
        cmocka_unit_test(clusters), cmocka_unit_test(async_stores_release), cmocka_unit_test(cluster_exit), cmocka_unit_test(wgmma_shapes), cmocka_unit_test(mbarrier_states), cmocka_unit_test(encodings), cmocka_unit_test(launch_control), cmocka_unit_test(unaligned_coordinate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

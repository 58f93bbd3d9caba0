// Devices that run PTX, on PTX written by hand: memory, launches, large shared memory, clusters, a tensor map read by
// TMA, timing, and the words of faults. The emulator runs it always; with the argument `cuda` a GPU does, where there
// is one.

#include "tests/runtime/common.h"

#include "runtime/internal.h"

#define HEAD ".version 8.0\n.target sm_90a\n.address_size 64\n"

// `through_smem` passes one value through the end of dynamic shared memory; `rank` stores its rank in the cluster; `box` copies a 64 x 8 bf16 box at (c0, c1) through TMA with no swizzle.
static const char ptx[] = HEAD
    ".extern .shared .align 128 .b8 smem[];\n"
    SCALE_PTX
    ".visible .entry through_smem(.param .u64 y, .param .u32 bytes)\n"
    "{\n"
    "    .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
    "    ld.param.u64 %d1, [y]; ld.param.u32 %r1, [bytes];\n"
    "    mov.u32 %r2, smem; add.u32 %r3, %r2, %r1; sub.u32 %r3, %r3, 4;\n"
    "    st.shared.u32 [%r3], %r1; ld.shared.u32 %r4, [%r3]; st.global.u32 [%d1], %r4;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry rank(.param .u64 y)\n"
    "{\n"
    "    .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
    "    ld.param.u64 %d1, [y];\n"
    "    mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %cluster_nctarank;\n"
    "    mad.lo.u32 %r4, %r3, 100, %r1; mul.wide.u32 %d2, %r2, 4; add.s64 %d3, %d1, %d2;\n"
    "    st.global.u32 [%d3], %r4;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry box(.param .u64 y, .param .u32 c0, .param .u32 c1, .param .align 128 .b8 map[128])\n"
    "{\n"
    "    .reg .pred %p<2>; .reg .b32 %r<12>; .reg .b64 %d<6>;\n"
    "    ld.param.u64 %d1, [y]; ld.param.u32 %r1, [c0]; ld.param.u32 %r2, [c1];\n"
    "    mov.b64 %d2, map; cvta.param.u64 %d2, %d2;\n"
    "    mov.u32 %r3, smem; add.u32 %r4, %r3, 1024; mov.u32 %r5, %tid.x;\n"
    "    setp.ne.u32 %p0, %r5, 0;\n"
    "    @%p0 bra wait;\n"
    "    mbarrier.init.shared::cta.b64 [%r4], 1;\n"
    "    fence.mbarrier_init.release.cluster;\n"
    "    mbarrier.arrive.expect_tx.shared::cta.b64 %d3, [%r4], 1024;\n"
    "    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], [%d2, {%r1, %r2}], [%r4];\n"
    "wait:\n"
    "    bar.sync 0;\n"
    "again:\n"
    "    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r4], 0;\n"
    "    @!%p1 bra again;\n"
    "    shl.b32 %r6, %r5, 2; add.u32 %r7, %r3, %r6; ld.shared.u32 %r8, [%r7];\n"      // 256 threads, 4 bytes each
    "    cvt.u64.u32 %d4, %r6; add.s64 %d5, %d1, %d4; st.global.u32 [%d5], %r8;\n"
    "    ret;\n"
    "}\n";

static Device *dev;
static DeviceModule *module;
static Buf err;

static void need(bool ok) {
    if (ok) return;
    print_error("%s\n", err.p ? err.p : "failed");
    buf_free(&err);
    fail();
}

static DeviceKernel entry(const char *name) {
    DeviceKernel k;
    need(dev->ops->find(dev, module, name, &k, &err));
    return k;
}

static uint64_t room(uint64_t bytes) {
    uint64_t p = dev->ops->alloc(dev, bytes, "test", &err);
    need(p != 0);
    return p;
}

static void memory(void **state) {
    (void)state;
    enum { N = 40 << 20 };
    unsigned char *a = heap_try(N), *b = heap_try(N);
    uint64_t p = room(N);
    for (int f = FILL_ZERO; f <= FILL_RANDOM; f++) {
        need(dev->ops->fill(dev, p, N, (DeviceFill)f, 5, &err) && dev->ops->read(dev, a, p, N, &err));
        if (f == FILL_RANDOM) { assert_true(memcmp(a, a + N / 2, 64) != 0); continue; }
        if (dev->ops == &emu_ops && f == FILL_INF) continue;         // its own infinities
        junk_fill(b, N, (DeviceFill)f, 5);
        assert_memory_equal(a, b, N);
    }
    need(dev->ops->write(dev, p, b, N, &err) && dev->ops->read(dev, a, p, N, &err));
    assert_memory_equal(a, b, N);
    dev->ops->free(dev, p);
    heap_free(a);
    heap_free(b);
}

static void no_memory(void **state) {
    (void)state;
    assert_true(dev->ops->alloc(dev, UINT64_C(1) << 42, "too much", &err) == 0);
    print_message("%s\n", err.p);
    assert_says(&err, "cuda: cannot allocate 4096.000 GiB for `too much`: the driver says \"out of memory\"");
}

static void scale(void **state) {
    (void)state;
    enum { N = 1000 };
    DeviceKernel k = entry("scale");
    float in[N], out[N], a = 2.5f;
    for (int i = 0; i < N; i++) in[i] = (float)i;
    uint64_t x = room(sizeof in), y = room(sizeof out);
    uint32_t n = N;
    void *params[] = {&x, &y, &n, &a};
    need(dev->ops->write(dev, x, in, sizeof in, &err) && dev->ops->fill(dev, y, sizeof out, FILL_NAN, 0, &err));
    DeviceLaunch l = {.kernel = &k, .grid = {8, 1, 1}, .block = {128, 1, 1}, .params = params};
    need(dev->ops->mark(dev, 0, &err) && dev->ops->launch(dev, &l, &err) && dev->ops->mark(dev, 1, &err));
    double us = 0;
    need(dev->ops->between(dev, 0, 1, &us, &err) && dev->ops->sync(dev, &err) &&
         dev->ops->read(dev, out, y, sizeof out, &err));
    for (int i = 0; i < N; i++) assert_true(out[i] == 2.5f * (float)i);
    print_message("scale: %d registers, at most %d threads, %.1f us\n", k.registers, k.max_threads, us);
    assert_true(us > 0 && us < 1e6 && (dev->ops == &emu_ops || (k.registers > 0 && k.max_threads == 1024)));
    dev->ops->free(dev, x);
    dev->ops->free(dev, y);
}

static void shared(void **state) {
    (void)state;
    DeviceKernel k = entry("through_smem");
    uint64_t y = room(4);
    uint32_t bytes = dev->max_smem, got = 0;
    void *params[] = {&y, &bytes};
    DeviceLaunch l = {.kernel = &k, .grid = {1, 1, 1}, .block = {1, 1, 1}, .smem = bytes, .params = params};
    need(dev->ops->launch(dev, &l, &err) && dev->ops->sync(dev, &err) && dev->ops->read(dev, &got, y, 4, &err));
    assert_int_equal(got, bytes);
    l.smem += 1024;
    if (dev->ops == &cuda_ops) {
        assert_false(dev->ops->launch(dev, &l, &err));
        assert_says(&err, "KiB of shared memory a block; this GPU has");
    }
    dev->ops->free(dev, y);
}

static void clusters(void **state) {
    (void)state;
    DeviceKernel k = entry("rank");
    uint32_t ranks[32];
    uint64_t y = room(sizeof ranks);
    void *params[] = {&y};
    for (uint32_t size = 2; size <= 16; size *= 2) {
        DeviceLaunch l = {.kernel = &k, .grid = {32, 1, 1}, .block = {32, 1, 1}, .cluster = {size, 1, 1}, .params = params};
        need(dev->ops->launch(dev, &l, &err) && dev->ops->sync(dev, &err) &&
             dev->ops->read(dev, ranks, y, sizeof ranks, &err));
        for (uint32_t i = 0; i < 32; i++) assert_int_equal(ranks[i], size * 100 + i % size);
    }
    dev->ops->free(dev, y);
}

static void tensor_maps(void **state) {
    (void)state;
    enum { ROWS = 20, COLS = 72 };                               // bf16[20, 72]: 144-byte rows
    DeviceKernel k = entry("box");
    uint16_t in[ROWS * COLS], out[8 * 64];
    for (int i = 0; i < ROWS * COLS; i++) in[i] = (uint16_t)(i + 1);
    uint64_t x = room(sizeof in), y = room(sizeof out);
    TensorMapSpec spec = {
        .elem = EL_bf16, .rank = 2, .address = x, .dims = {COLS, ROWS}, .strides = {2, COLS * 2}, .box = {64, 8}};
    TensorMap map;
    need(dev->ops->write(dev, x, in, sizeof in, &err) && dev->ops->tensor_map(dev, &spec, &map, &err));
    int32_t c0 = 16, c1 = -2;
    void *params[] = {&y, &c0, &c1, &map};
    DeviceLaunch l = {.kernel = &k, .grid = {1, 1, 1}, .block = {256, 1, 1}, .smem = 2048, .params = params};
    need(dev->ops->launch(dev, &l, &err) && dev->ops->sync(dev, &err) && dev->ops->read(dev, out, y, sizeof out, &err));
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 64; c++) {
            bool inside = r + c1 >= 0 && c + c0 < COLS;
            assert_int_equal(out[r * 64 + c], inside ? in[(r + c1) * COLS + c + c0] : 0);
        }
    spec.strides[1] = COLS * 2 + 2;
    assert_false(dev->ops->tensor_map(dev, &spec, &map, &err));
    print_message("%s\n", err.p);
    if (dev->ops == &cuda_ops) assert_says(&err, "cannot encode a tensor map of bf16, dimensions 72 x 20");
    buf_free(&err);
    dev->ops->free(dev, x);
    dev->ops->free(dev, y);
}

static void bad_code(void **state) {
    (void)state;
    static const char bad[] = HEAD ".visible .entry f() { frobnicate.u32 %r1, %r2; ret; }\n",
                      newer[] = ".version 99.0\n.target sm_90a\n";
    assert_null(dev->ops->load(dev, bad, strlen(bad), NULL, &err));
    print_message("%s\n", err.p);
    assert_says(&err, "its assembler: ptxas application ptx input, line 4");
    assert_null(dev->ops->load(dev, newer, strlen(newer), NULL, &err));
    print_message("%s\n", err.p);
    buf_free(&err);
}

static void fault(void **state) {                                  // last: the context is lost
    (void)state;
    DeviceKernel k = entry("scale");
    uint64_t nowhere = UINT64_C(1) << 46;
    uint32_t n = 100;
    float a = 1;
    void *params[] = {&nowhere, &nowhere, &n, &a};
    DeviceLaunch l = {.kernel = &k, .grid = {1, 1, 1}, .block = {128, 1, 1}, .params = params};
    bool fine = dev->ops->launch(dev, &l, &err) && dev->ops->sync(dev, &err);
    assert_false(fine);
    print_message("%s\n", err.p);
    assert_says(
        &err,
        "(CUDA_ERROR_ILLEGAL_ADDRESS, 700); the last launch was `scale` (grid 1, block 128, 0 bytes of dynamic shared memory)");
}

static bool open_with(const DeviceOps *ops) {
    Buf log = {0};
    dev = ops->open(&(DeviceOptions){0}, &err);
    if (!dev) return false;
    print_message("%s\n", dev->description);
    if (strcmp(dev->arch, "sm_90a") != 0) {
        dev->ops->close(dev);
        dev = NULL;
        buf_puts(&err, "the GPU is no sm_90");
        return false;
    }
    module = dev->ops->load(dev, ptx, strlen(ptx), &log, &err);
    print_message("%s%s\n", log.p ? log.p : "", module ? "" : err.p);
    buf_free(&log);
    return module != NULL;
}

int main(int argc, char **argv) {
    bool on_gpu = argc > 1 && strcmp(argv[1], "cuda") == 0;
    const struct CMUnitTest both[] = {cmocka_unit_test(memory), cmocka_unit_test(scale), cmocka_unit_test(shared),
                                      cmocka_unit_test(clusters), cmocka_unit_test(tensor_maps)};
    const struct CMUnitTest driver[] = {cmocka_unit_test(no_memory), cmocka_unit_test(bad_code), cmocka_unit_test(fault)};
    if (!open_with(on_gpu ? &cuda_ops : &emu_ops)) {
        bool skipped = on_gpu && !dev;
        if (skipped) printf("skipped: %s\n", err.p);
        buf_free(&err);
        return !skipped;
    }
    int failed = cmocka_run_group_tests_name(dev->ops->name, both, NULL, NULL);
    if (on_gpu) failed += cmocka_run_group_tests_name("cuda, refusals", driver, NULL, NULL);
    dev->ops->unload(dev, module);
    dev->ops->close(dev);
    return failed;
}

// The device `cuda` against drivers of our own making (fake_cuda.c): what is asked of the driver, and what is said
// when it refuses.

#include "tests/runtime/common.h"
#include "tests/runtime/fake.h"

extern const DeviceOps cuda_ops;

static const char ptx[] = "// made by hand\n.version 8.0\n.target sm_90a\n.visible .entry scale() { ret; }\n";

static Fake fake;

static int setup(void **state) {
    (void)state;
    fake = fake_driver();
    fake.reset();
    return 0;
}

static Device *opened(void) {
    Buf err = {0};
    Device *d = device_open("cuda", &(DeviceOptions){.driver = FAKE_WHOLE_PATH}, &err);
    if (!d) { print_error("%s\n", err.p); fail(); }
    return d;
}

static void refused(const char *path, int ordinal, const char *words) {
    Buf err = {0};
    assert_null(device_open("cuda", &(DeviceOptions){.driver = path, .ordinal = ordinal}, &err));
    assert_says(&err, words);
    assert_int_equal(fake.get("contexts"), 0);
}

static void no_driver(void **state) {
    (void)state;
    refused("/nonexistent/libcuda.so.1", 0, "cuda: no NVIDIA driver: /nonexistent/libcuda.so.1: cannot open");
    refused(FAKE_BROKEN_PATH, 0, "has no cuMemAlloc_v2: a driver for CUDA 11.0 or later is needed");
    fake.set("devices", 0);
    refused(FAKE_WHOLE_PATH, 0, "the driver finds no GPU: the driver says \"no CUDA-capable device is detected\"");
    fake.set("devices", 2);
    refused(FAKE_WHOLE_PATH, 2, "there is no GPU 2; there are 2, from 0");
    refused(FAKE_WHOLE_PATH, -1, "there is no GPU -1");
    fake.set("version", 10020);
    refused(FAKE_WHOLE_PATH, 0, "the driver is for CUDA 10.2; 11.0 or later is needed");
    fake.set("version", 12040);
    fake.set("major", 7);
    fake.set("minor", 5);
    refused(FAKE_WHOLE_PATH, 0, "Fake GPU is an sm_75; sm_80 (Ampere) or later is needed");
    fake.reset();
    fake.fail_in("cuInit", 2);
    refused(FAKE_WHOLE_PATH, 0, "cannot start the driver: the driver says \"out of memory\" (CUDA_ERROR_OUT_OF_MEMORY, 2)");
    fake.fail_in("cuDevicePrimaryCtxRetain", 999);
    refused(
        FAKE_WHOLE_PATH, 0,
        "cannot make a context on Fake GPU, sm_90, 4 multiprocessors, 8 GiB, driver for CUDA 13.0: the driver says \"unknown error\" (no name, 999)");
}

static void archs(void **state) {
    (void)state;
    static const struct { int major, minor; const char *arch; } rows[] = {
        {8, 0, "sm_80"}, {8, 6, "sm_86"}, {8, 7, "sm_86"}, {8, 9, "sm_89"}, {9, 0, "sm_90a"}, {10, 0, "sm_100a"}, {10, 3, "sm_89"},
        {12, 0, "sm_120a"}, {12, 1, "sm_89"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake.set("major", rows[i].major);
        fake.set("minor", rows[i].minor);
        Device *d = opened();
        assert_string_equal(d->arch, rows[i].arch);
        d->ops->close(d);
    }
}

static Device *found(const char *name, int ordinal, Buf *err) {
    return device_found(device_open_later(name, &(DeviceOptions){.driver = FAKE_WHOLE_PATH, .ordinal = ordinal}), err);
}

// Known first and ready later; what goes wrong between is said where that is waited for.
static void later(void **state) {
    (void)state;
    Buf    err = {0};
    double us = 0;
    Device *d = found("cuda", 0, &err);
    assert_non_null(d);
    assert_true(d->model[0] && d->arch[0] && d->processors > 0);
    assert_true(device_ready(d, &us, &err) && us > 0 && device_ready(d, NULL, &err));
    uint64_t x = d->ops->alloc(d, 64, "x", &err);
    assert_true(x != 0);
    d->ops->free(d, x);
    device_close(d);
    device_close(found("cuda", 0, &err));                  // while it is under way
    assert_null(found("cuda", 7, &err));
    assert_says(&err, "there is no GPU 7");
    assert_null(found("gpu", 0, &err));
    assert_says(&err, "there is no device `gpu`");
    fake.fail_in("cuDevicePrimaryCtxRetain", 2);
    d = found("cuda", 0, &err);
    assert_non_null(d);
    assert_false(device_ready(d, NULL, &err));
    assert_says(&err, "cannot make a context on");
    device_close(d);
    d = found("eval", 0, &err);
    assert_true(d && device_ready(d, NULL, &err));
    device_close(d);
    assert_int_equal(fake.get("live") + fake.get("contexts"), 0);
}

static void memory(void **state) {
    (void)state;
    Buf err = {0};
    Device *d = opened();
    uint64_t x = d->ops->alloc(d, 64, "x", &err), none = d->ops->alloc(d, 0, "none", &err);
    assert_true(x && none);
    char out[64], want[64];
    for (int fill = FILL_ZERO; fill <= FILL_RANDOM; fill++) {
        memset(out, 1, sizeof out);
        assert_true(d->ops->fill(d, x, 64, (DeviceFill)fill, 3, &err) && d->ops->read(d, out, x, 64, &err));
        if (fill == FILL_ZERO) memset(want, 0, 64);
        if (fill == FILL_NAN) memset(want, 0xff, 64);
        if (fill == FILL_INF) for (int i = 0; i < 64; i++) want[i] = i & 1 ? 0x7c : 0;
        if (fill == FILL_RANDOM)
            for (int i = 0; i < 16; i++) {
                uint32_t w = rng_bits(3, 0x6a756e6b, (uint64_t)i);
                memcpy(want + 4 * i, &w, 4);
            }
        assert_memory_equal(out, want, 64);
    }
    assert_true(d->ops->write(d, x, "hello", 6, &err) && d->ops->read(d, out, x, 6, &err));
    assert_string_equal(out, "hello");
    fake.fail_in("cuMemAlloc_v2", 2);
    assert_int_equal(d->ops->alloc(d, UINT64_C(3) << 30, "big", &err), 0);
    assert_says(&err, "cannot allocate 3.000 GiB for `big`: the driver says \"out of memory\"");
    fake.fail_in("cuMemcpyDtoH_v2", 1);
    assert_false(d->ops->read(d, out, x, 6, &err));
    assert_says(&err, "cannot copy from the GPU: the driver says \"invalid argument\"");
    d->ops->free(d, x);
    d->ops->free(d, none);
    d->ops->close(d);
    assert_int_equal(fake.get("live"), 0);
}

static void modules(void **state) {
    (void)state;
    Buf err = {0}, log = {0};
    Device *d = opened();
    DeviceModule *m = d->ops->load(d, ptx, strlen(ptx), &log, &err);
    assert_non_null(m);
    assert_string_equal(log.p, "ptxas info    : Used 32 registers\n");
    DeviceKernel k;
    assert_true(d->ops->find(d, m, "scale", &k, &err));
    assert_int_equal(k.registers, 32);
    assert_int_equal(k.max_threads, 512);
    assert_int_equal(k.static_smem, 1024);
    assert_false(d->ops->find(d, m, "missing", &k, &err));
    assert_says(&err, "the code has no entry `missing`");
    d->ops->unload(d, m);
    assert_null(d->ops->load(d, "syntax error", 12, NULL, &err));
    assert_says(&err, "its assembler: ptxas application ptx input, line 3; fatal   : Parsing error; ptxas fatal");
    d->ops->close(d);
    fake.set("version", 12040);
    d = opened();
    const char *newer = ".version 8.7\n.target sm_90a\n";
    assert_null(d->ops->load(d, newer, strlen(newer), NULL, &err));
    assert_says(
        &err,
        "the code is PTX 8.7, but the driver (for CUDA 12.4) takes up to 8.4: install a driver for CUDA 12.8 or later");
    assert_non_null(m = d->ops->load(d, ptx, strlen(ptx), NULL, &err));
    d->ops->unload(d, m);
    d->ops->close(d);
    buf_free(&log);
    assert_int_equal(fake.get("live"), 0);
}

static void launches(void **state) {
    (void)state;
    Buf err = {0};
    Device *d = opened();
    DeviceModule *m = d->ops->load(d, ptx, strlen(ptx), NULL, &err);
    DeviceKernel k;
    assert_true(d->ops->find(d, m, "scale", &k, &err));
    int a = 41, b = 43;
    void *params[] = {&a, &b};
    fake.set("param_words", 2);
    DeviceLaunch l = {.kernel = &k, .grid = {8, 1, 1}, .block = {128, 1, 1}, .params = params};
    assert_true(d->ops->launch(d, &l, &err));
    assert_non_null(strstr(fake.calls(), "cuLaunchKernel\ngrid 8 1 1 block 128 1 1 smem 0 41 43\n"));
    assert_null(strstr(fake.calls(), "attribute 8"));
    l.together = true;
    assert_true(d->ops->launch(d, &l, &err));
    assert_non_null(strstr(fake.calls(), "cuLaunchKernelEx\ntogether grid 8 1 1 block 128 1 1 smem 0 41 43\n"));
    l.together = false;
    l.smem = 100 << 10;
    l.cluster[0] = 2; l.cluster[1] = l.cluster[2] = 1;
    assert_true(d->ops->launch(d, &l, &err));
    assert_true(d->ops->launch(d, &l, &err));
    assert_non_null(strstr(
        fake.calls(),
        "attribute 8 = 102400\ncuLaunchKernelEx\ncluster 2 1 1 grid 8 1 1 block 128 1 1 smem 102400 41 43\ncuLaunchKernelEx\n"));
    l.cluster[0] = 16;
    assert_true(d->ops->launch(d, &l, &err));
    assert_non_null(strstr(fake.calls(), "attribute 14 = 1\n"));
    l.smem = 227 << 10;                                        // 1 KiB is taken by static shared memory
    assert_false(d->ops->launch(d, &l, &err));
    assert_says(&err, "`scale` needs 228.0 KiB of shared memory a block; this GPU has 227.0");
    l.smem = 0;
    l.block[0] = 1024;
    assert_false(d->ops->launch(d, &l, &err));
    assert_says(&err, "launched with 1024 threads a block, but at most 512 fit: it uses 32 registers a thread");
    l.block[0] = 128;
    fake.fail_in("cuLaunchKernelEx", 1);
    assert_false(d->ops->launch(d, &l, &err));
    assert_says(
        &err,
        "cannot launch `scale` (grid 8, block 128, cluster 16, 0 bytes of dynamic shared memory): the driver says \"invalid argument\"");
    fake.fail_in("cuCtxSynchronize", 700);
    assert_false(d->ops->sync(d, &err));
    assert_says(
        &err,
        "cannot finish on the GPU: the driver says \"an illegal memory access was encountered\" (CUDA_ERROR_ILLEGAL_ADDRESS, 700); the last launch was `scale`");
    double us = 0;
    fake.fail_in("", 0);
    assert_true(d->ops->mark(d, 0, &err) && d->ops->mark(d, 1, &err) && d->ops->between(d, 0, 1, &us, &err));
    assert_true(us == 500);
    assert_false(d->ops->between(d, 0, 2, &us, &err));
    assert_says(&err, "there is no mark 0 or 2");
    assert_false(d->ops->mark(d, -1, &err));
    assert_says(&err, "there is no mark -1");
    d->ops->unload(d, m);
    d->ops->close(d);
    assert_int_equal(fake.get("live"), 0);
}

static void maps(void **state) {
    (void)state;
    Buf err = {0};
    Device *d = opened();
    TensorMap map;
    TensorMapSpec s = {.elem = EL_bf16,
                       .rank = 2,
                       .address = 4096,
                       .dims = {64, 100},
                       .strides = {2, 128},
                       .box = {64, 128},
                       .swizzle = 128};
    assert_true(d->ops->tensor_map(d, &s, &map, &err));
    assert_int_equal(map.bytes[0], 3);
    assert_non_null(strstr(fake.calls(), "map 9: 64 box 64\nmap 9: 100 box 128\n"));
    s.strides[1] = 130;
    assert_false(d->ops->tensor_map(d, &s, &map, &err));
    assert_says(
        &err,
        "cannot encode a tensor map of bf16, dimensions 64 x 100, strides in bytes 130, box 64 x 128, swizzle 128, address % 16 = 0: the driver says");
    s.im2col = true;
    s.channels = 64; s.pixels = 128; s.lower[0] = -1;
    assert_true(d->ops->tensor_map(d, &s, &map, &err));
    assert_non_null(strstr(fake.calls(), "im2col -1 0 channels 64 pixels 128\n"));
    d->ops->close(d);

    // opens, but has no clusters and no tensor maps
    d = device_open("cuda", &(DeviceOptions){.driver = FAKE_OLD_PATH}, &err);
    assert_non_null(d);
    assert_false(d->ops->tensor_map(d, &s, &map, &err));
    assert_says(&err, "the driver is too old for tensor maps, which came with CUDA 12.0");
    DeviceModule *m = d->ops->load(d, ptx, strlen(ptx), NULL, &err);
    DeviceKernel k;
    assert_true(m && d->ops->find(d, m, "scale", &k, &err));
    assert_false(d->ops->launch(
        d, &(DeviceLaunch){.kernel = &k, .grid = {8, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}}, &err));
    assert_says(&err, "the driver is too old for clusters, which came with CUDA 11.8");
    d->ops->unload(d, m);
    d->ops->close(d);
}

static void versions(void **state) {
    (void)state;
    assert_int_equal(ptx_text_version("// x\n/* .version 1.0 */\n  .version   8.7\n", 40), 87);
    assert_int_equal(ptx_text_version("", 0), 0);
    assert_int_equal(ptx_text_version("//", 2), 0);
    assert_int_equal(ptx_text_version("/*", 2), 0);
    assert_int_equal(ptx_text_version(".target sm_90", 13), 0);
    assert_int_equal(ptx_version_of_driver(12040), 84);
    assert_int_equal(ptx_version_of_driver(12060), 85);
    assert_int_equal(ptx_version_of_driver(10000), 0);
    assert_int_equal(ptx_version_of_driver(99000), 0);
    assert_string_equal(cuda_release_of_ptx(87), "12.8");
    assert_null(cuda_release_of_ptx(999));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_driver, setup), cmocka_unit_test_setup(archs, setup),
        cmocka_unit_test_setup(memory, setup),    cmocka_unit_test_setup(later, setup),
        cmocka_unit_test_setup(modules, setup),   cmocka_unit_test_setup(launches, setup),
        cmocka_unit_test_setup(maps, setup),      cmocka_unit_test(versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

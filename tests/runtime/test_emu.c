// The emulator behind the device table: hand-written PTX, faults in words, tensor maps refused.

#include "tests/runtime/common.h"

static const char ptx[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    SCALE_PTX;

enum { COUNT = 100 };

static void scale(void **state) {
    (void)state;
    Buf err = {0};
    Device *d = device_open("emu", NULL, &err);
    assert_non_null(d);
    DeviceModule *m = d->ops->load(d, ptx, strlen(ptx), NULL, &err);
    if (!m) { print_error("%s\n", err.p); fail(); }
    DeviceKernel k;
    assert_false(d->ops->find(d, m, "none", &k, &err));
    assert_says(&err, "the PTX has no entry `none`");
    assert_true(d->ops->find(d, m, "scale", &k, &err));

    float in[COUNT], out[COUNT], a = 2.5f;
    for (int i = 0; i < COUNT; i++) in[i] = (float)i;
    uint64_t x = d->ops->alloc(d, sizeof in, "x", &err), y = d->ops->alloc(d, sizeof out, "y", &err);
    assert_true(d->ops->write(d, x, in, sizeof in, &err) && d->ops->fill(d, y, sizeof out, FILL_NAN, 1, &err));
    uint32_t n = COUNT;
    void *params[] = {&x, &y, &n, &a};
    DeviceLaunch l = {.kernel = &k, .grid = {4, 1, 1}, .block = {32, 1, 1}, .params = params};
    if (!d->ops->launch(d, &l, &err)) { print_error("%s\n", err.p); fail(); }
    assert_true(d->ops->sync(d, &err) && d->ops->read(d, out, y, sizeof out, &err));
    for (int i = 0; i < COUNT; i++) assert_true(out[i] == 2.5f * (float)i);
    assert_ptr_not_equal(d->ops->host(d, x, sizeof in), NULL);

    n = COUNT + 8;                                               // past the end: the buffer ends where the tensor does
    assert_false(d->ops->launch(d, &l, &err));
    assert_non_null(strstr(err.p, "out of bounds"));
    assert_says(&err, "in `scale` (grid 4, block 32, 0 bytes of dynamic shared memory)");
    assert_false(d->ops->read(d, out, y, sizeof out + 1, &err));
    assert_true(err.n > 0);
    buf_free(&err);
    double us = 0;
    assert_true(d->ops->mark(d, 0, &err) && d->ops->mark(d, 1, &err) && d->ops->between(d, 0, 1, &us, &err) && us >= 0);
    d->ops->unload(d, m);
    device_close(d);
}

static void refusals(void **state) {
    (void)state;
    Buf err = {0};
    Device *d = device_open("emu", NULL, &err);
    static const char odd[] =
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry f()\n{\n    .reg .b32 %r<4>;\n    frobnicate.u32 %r1, %r2;\n    ret;\n}\n";
    assert_null(d->ops->load(d, odd, strlen(odd), NULL, &err));
    assert_non_null(strstr(err.p, "frobnicate"));
    assert_says(&err, "the emulator refuses the PTX: ");
    TensorMap map;
    uint64_t x = d->ops->alloc(d, 4096, "x", &err);
    TensorMapSpec s = {.elem = EL_bf16,
                       .rank = 2,
                       .address = x,
                       .dims = {64, 16},
                       .strides = {2, 128},
                       .box = {64, 16},
                       .swizzle = 128};
    assert_true(d->ops->tensor_map(d, &s, &map, &err));
    s.strides[1] = 130;
    assert_false(d->ops->tensor_map(d, &s, &map, &err));
    assert_true(err.n > 0);
    buf_free(&err);
    device_close(d);
    assert_null(device_open("gpu", NULL, &err));
    assert_says(&err, "there is no device `gpu`; there are auto, cuda, emu, eval");
    assert_null(device_open("cuda", &(DeviceOptions){.driver = "/nonexistent/libcuda.so"}, &err));
    assert_says(&err, "cuda: no NVIDIA driver");
    d = device_open("auto", &(DeviceOptions){.driver = "/nonexistent/libcuda.so"}, &err);
    assert_string_equal(d->ops->name, "emu");
    device_close(d);
    device_list(&(DeviceOptions){.driver = "/nonexistent/libcuda.so"}, &err);
    assert_non_null(strstr(err.p, "cuda   cuda: no NVIDIA driver"));
    assert_non_null(strstr(err.p, "eval   the meaning of the tile IR"));
    buf_free(&err);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scale), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

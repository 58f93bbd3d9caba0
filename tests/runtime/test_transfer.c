// Much data to a device and back (runtime/transfer.h): on the driver of our own making, whose copies on a stream happen
// as late as they may, and on emu, which has no streams.
#include "tests/runtime/common.h"
#include "tests/runtime/fake.h"

#include "runtime/transfer.h"

enum { SIZES = 5 };
static const int64_t sizes[SIZES] = {0, 1, 1000003, (4 << 20) / 2, 5000001};

static Device *open_device(const char *name) {
    Buf err = {0};
    Device *d = device_open(name, &(DeviceOptions){.driver = FAKE_WHOLE_PATH}, &err);
    if (!d) fail_msg("%s", err.p);
    return d;
}

enum { PERIOD = 1200000 };                                 // bytes after which the data of `rounds` are the same again, too

// Item i of a round: weights to be converted, weights as they are, random numbers.
static TransferItem item(int i, const float *data) {
    TransferItem it = {.elem = i % 3 == 1 ? EL_f32 : EL_bf16,
                       .n = sizes[i % SIZES],
                       .from = EL_f32,
                       .data = i % 3 == 2 ? NULL : data + i,
                       .period = i % 2 ? PERIOD : 0};
    it.fill = (FillSpec){.make = MAKE_random, .seed = 4, .stream = (uint64_t)i};
    return it;
}

static void check(Transfer *t, const TransferItem *it) {
    Buf    err = {0};
    size_t bytes = (size_t)it->n * (size_t)elem_bytes(it->elem);
    char  *want = heap_try(bytes + 1), *got = heap_try(bytes + 1);
    if (it->data) elems_convert(it->from, it->data, it->elem, want, it->n);
    else elems_fill(it->elem, want, 0, it->n, &it->fill);
    assert_true(transfer_back(t, got, it->to, bytes, &err));
    assert_memory_equal(got, want, bytes);
    heap_free(want);
    heap_free(got);
}

static void rounds(Device *d, int items) {
    Buf    err = {0};
    float *data = heap_try(sizeof *data * 5100000);
    for (int i = 0; i < 5100000; i++) data[i] = (float)(i % 1000 - 500) * 0.37f;
    Transfer *t = transfer_new(d);
    for (int round = 0; round < 2; round++) {
        TransferItem it[16];
        for (int i = 0; i < items; i++) {
            it[i] = item(i + round, data);
            it[i].to = d->ops->alloc(d, (uint64_t)it[i].n * (uint64_t)elem_bytes(it[i].elem), "x", &err);
            assert_true(it[i].to != 0);
            transfer_add(t, &it[i]);
        }
        transfer_start(t);
        if (!transfer_wait(t, NULL, NULL, &err)) fail_msg("%s", err.p);
        for (int i = 0; i < items; i++) {
            check(t, &it[i]);
            d->ops->free(d, it[i].to);
        }
    }
    assert_true(transfer_stats(t).bytes > 0);
    transfer_free(t);
    heap_free(data);
}

static void on_the_driver(void **state) {
    (void)state;
    Device *d = open_device("cuda");
    rounds(d, 12);
    device_close(d);
}

static void on_emu(void **state) {
    (void)state;
    Device *d = open_device("emu");
    rounds(d, 5);
    device_close(d);
}

static void large_back(void **state) {
    (void)state;
    Buf err = {0};
    uint64_t bytes = (40 << 20) + 12345;
    Device  *d = open_device("cuda");
    char    *from = heap_try(bytes), *to = heap_try(bytes);
    for (uint64_t i = 0; i < bytes; i++) from[i] = (char)(i * 7 + (i >> 13));
    uint64_t at = d->ops->alloc(d, bytes, "x", &err);
    Transfer *t = transfer_new(d);
    transfer_warm(t);
    assert_true(d->ops->write(d, at, from, bytes, &err) && transfer_back(t, to, at, bytes, &err));
    assert_memory_equal(from, to, bytes);
    transfer_free(t);
    d->ops->free(d, at);
    heap_free(from);
    heap_free(to);
    device_close(d);
}

// Given up before it was started, or while it runs: nothing is left.
static void dropped(void **state) {
    (void)state;
    Buf err = {0};
    Device *d = open_device("cuda");
    uint64_t at = d->ops->alloc(d, 64 << 20, "x", &err);
    for (int start = 0; start < 2; start++) {
        Transfer *t = transfer_new(d);
        HostTensor own;
        int64_t n = 16 << 20;
        assert_true(tensor_make(&own, EL_f32, 1, &n, &err));
        transfer_add(t, &(TransferItem){.to = at, .elem = EL_f32, .n = n, .from = EL_f32, .data = own.data, .own = own});
        if (start) transfer_start(t);
        transfer_free(t);
    }
    d->ops->free(d, at);
    device_close(d);
}

static void a_failure_is_said(void **state) {
    (void)state;
    Buf err = {0};
    Device *d = open_device("cuda");
    Fake fake = fake_driver();
    uint64_t at = d->ops->alloc(d, 64 << 20, "x", &err);
    Transfer *t = transfer_new(d);
    TransferItem it = {.to = at, .elem = EL_f32, .n = 16 << 20, .fill = {.make = MAKE_ones}};
    transfer_add(t, &it);
    fake.fail_in("cuMemcpyHtoDAsync_v2", 1);
    transfer_start(t);
    assert_false(transfer_wait(t, NULL, NULL, &err));
    assert_non_null(strstr(err.p, "cannot copy to the GPU"));
    fake.fail_in("", 0);
    buf_free(&err);
    err = (Buf){0};
    transfer_add(t, &it);                                // and it can be used again
    transfer_start(t);
    assert_true(transfer_wait(t, NULL, NULL, &err));
    transfer_free(t);
    d->ops->free(d, at);
    device_close(d);
    dlclose(fake.lib);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_the_driver), cmocka_unit_test(on_emu),
                                       cmocka_unit_test(large_back), cmocka_unit_test(dropped),
                                       cmocka_unit_test(a_failure_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

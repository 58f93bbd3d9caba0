// .npy files: what NumPy writes, what we write, and what is broken on purpose.

#include "tests/runtime/common.h"

#include <unistd.h>

static size_t file(unsigned char *out, int major, const char *header, const void *data, size_t n) {
    size_t length = strlen(header), start = major == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)major;
    out[7] = 0;
    for (size_t i = 0; i < start - 8; i++) out[8 + i] = (unsigned char)(length >> 8 * i);
    memcpy(out + start, header, length);
    if (n) memcpy(out + start + length, data, n);
    return start + length + n;
}

static void refuse(const char *header, size_t data, const char *words) {
    unsigned char bytes[4096] = {0}, zeros[256] = {0};
    HostTensor t = {0};
    Buf err = {0};
    size_t n = file(bytes, 1, header, zeros, data);
    unsigned char *exact = heap_try(n);                     // so that sanitizers see a read past the end
    memcpy(exact, bytes, n);
    if (npy_parse(exact, n, &t, &err)) { print_error("accepted: %s\n", header); fail(); }
    heap_free(exact);
    assert_says(&err, words);
}

static void hostile(void **state) {
    (void)state;
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 47, "is cut off: f32[3, 4]");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 16, "cut off");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4), }", 16, "dimension beyond");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1152921504606846975, 1152921504606846975), }", 16,
           "dimension");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 288230376151711743, 288230376151711743), }", 16,
           "no possible tensor");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }", 16, "no size");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 16, "more than 8");
    refuse("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", 16, "'<c8'");
    refuse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 16, "records");
    refuse("{'descr': '<f4', 'shape': (2,), }", 16, "no 'fortran_order'");
    refuse("{'descr': '<f4', 'descr': '<f4', 'shape': (2,), }", 16, "repeated key");
    refuse("{'descr': '<f4', 'fortran_order': 1, 'shape': (2,), }", 16, "neither");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } extra", 16, "after the dictionary");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2", 16, "does not end");
    refuse("{'descr': '<f4'", 0, "`,` is missing");
    refuse("{'descr': '<f4", 0, "no string");
    refuse("", 0, "no dictionary");
    refuse("{'descr': '', 'fortran_order': False, 'shape': (), }", 16, "which no element type");

    Buf err = {0};
    HostTensor t;
    unsigned char bytes[64] = {0x93, 'N', 'U', 'M', 'P', 'Y', 9, 0, 4, 0, '{', '}', ' ', ' '};
    assert_false(npy_parse(bytes, 14, &t, &err));  assert_says(&err, "version 9.0");
    bytes[6] = 2;  bytes[10] = 0xff;  bytes[11] = 0xff;
    assert_false(npy_parse(bytes, 14, &t, &err));  assert_says(&err, "cut off inside its header");
    assert_false(npy_parse(bytes, 11, &t, &err));  assert_says(&err, "cut off inside its header");
    assert_false(npy_parse(bytes, 3, &t, &err));   assert_says(&err, "is no .npy file");
    assert_false(npy_parse("not an npy file", 15, &t, &err));  assert_says(&err, "is no .npy file");
    assert_false(npy_read("/nonexistent/x.npy", &t, &err));  assert_says(&err, "/nonexistent/x.npy: No such file");
    assert_false(npy_read("/dev/zero", &t, &err));  assert_says(&err, "not a regular file");
    assert_false(npy_read(".", &t, &err));  assert_says(&err, ".: ");
}

// Every prefix of a good file, and every byte of it changed, is accepted or refused with a line; never more.
static void mangled(void **state) {
    (void)state;
    unsigned char whole[256];
    float data[6] = {1, 2, 3, 4, 5, 6};
    size_t n = file(whole, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", data, sizeof data);
    for (size_t k = 0; k <= n; k++) {
        unsigned char *part = heap_try(k ? k : 1);
        memcpy(part, whole, k);
        HostTensor t = {0};
        Buf err = {0};
        bool ok = npy_parse(part, k, &t, &err);
        assert_int_equal(ok, k == n);
        assert_int_equal(!ok, err.n > 0);
        tensor_free(&t);
        buf_free(&err);
        heap_free(part);
    }
    for (size_t k = 0; k < n; k++)
        for (int v = 0; v < 256; v += 5) {
            unsigned char *other = heap_try(n);
            memcpy(other, whole, n);
            other[k] = (unsigned char)v;
            HostTensor t = {0};
            Buf err = {0};
            if (npy_parse(other, n, &t, &err)) tensor_free(&t);
            else assert_true(err.n > 0);
            buf_free(&err);
            heap_free(other);
        }
}

static void orders(void **state) {
    (void)state;
    unsigned char bytes[512];
    HostTensor t;
    Buf err = {0};
    int16_t fortran[6] = {0, 10, 1, 11, 2, 12};                       // [[0 1 2] [10 11 12]]
    size_t n = file(bytes, 2, "{'shape': (2, 3), 'fortran_order': True, 'descr': '<i2'}", fortran, sizeof fortran);
    assert_true(npy_parse(bytes, n, &t, &err));
    int16_t want[6] = {0, 1, 2, 10, 11, 12};
    assert_int_equal(t.elem, EL_i16);
    assert_memory_equal(t.data, want, sizeof want);
    tensor_free(&t);
    unsigned char big[8] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0};          // 1.0 and -2.0
    n = file(bytes, 3, "{\"descr\": \">f4\", \"fortran_order\": False, \"shape\": (2L,)}", big, sizeof big);
    assert_true(npy_parse(bytes, n, &t, &err));
    assert_true(elem_get(t.elem, t.data, 0) == 1 && elem_get(t.elem, t.data, 1) == -2);
    tensor_free(&t);
    unsigned char raw[2] = {0x80, 0x3f};
    n = file(bytes, 1, "{'descr': '|V2', 'fortran_order': False, 'shape': (), }", raw, sizeof raw);
    assert_true(npy_parse(bytes, n, &t, &err));
    assert_int_equal(t.rank, 0);
    assert_true(tensor_reinterpret(&t, EL_bf16));
    assert_true(elem_get(t.elem, t.data, 0) == 1);
    assert_false(tensor_reinterpret(&t, EL_f16));
    tensor_free(&t);
    assert_int_equal(err.n, 0);
}

static void round_trip(void **state) {
    (void)state;
    char path[] = "npy-test-XXXXXX";
    close(mkstemp(path));
    static const int64_t shapes[][3] = {{3, 4, 5}, {0, 4, 5}, {1, 1, 1}};
    for (int e = EL_none + 1; e < EL_COUNT; e++)
        for (int s = 0; s < 3; s++)
            for (int rank = 0; rank <= 3; rank++) {
                Buf err = {0};
                HostTensor t, back;
                assert_true(tensor_make(&t, (Elem)e, rank, shapes[s], &err));
                tensor_fill(&t, &(FillSpec){.make = MAKE_random, .seed = 1});
                assert_true(npy_write(path, &t, &err));
                assert_true(npy_read(path, &back, &err));
                assert_int_equal(err.n, 0);
                assert_true(tensor_reinterpret(&back, (Elem)e) || elem_bytes(back.elem) == elem_bytes((Elem)e));
                assert_int_equal(back.rank, rank);
                assert_int_equal(tensor_bytes(&back), tensor_bytes(&t));
                assert_memory_equal(back.data, t.data, tensor_bytes(&t));
                tensor_free(&t);
                tensor_free(&back);
                buf_free(&err);
            }
    Buf err = {0};
    HostTensor t;
    assert_true(tensor_make(&t, EL_f32, 0, NULL, &err));
    assert_false(npy_write("/nonexistent/x.npy", &t, &err));
    assert_says(&err, "cannot be written: No such file");
    tensor_free(&t);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hostile), cmocka_unit_test(mangled), cmocka_unit_test(orders),
                                       cmocka_unit_test(round_trip)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

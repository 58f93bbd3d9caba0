// The bounds of `~`, worst elements, ulps; and printing.

#include "tests/runtime/common.h"

#include <math.h>

static HostTensor row(Elem e, int n, const double *v) {
    Buf err = {0};
    HostTensor t;
    int64_t dim[1] = {n};
    assert_true(tensor_make(&t, e, 1, dim, &err));
    for (int i = 0; i < n; i++) elem_set(e, t.data, i, v[i]);
    return t;
}

#define ROW(e, ...) row(e, (int)(sizeof(double[]){__VA_ARGS__} / sizeof(double)), (double[]){__VA_ARGS__})

static CompareResult compare(HostTensor a, HostTensor b, CompareSpec spec) {
    CompareResult r = tensor_compare(&a, &b, &spec);
    tensor_free(&a);
    tensor_free(&b);
    return r;
}

static void bounds(void **state) {
    (void)state;
    CompareSpec rel = {.op = OP_approx, .rel = 1e-3}, abs = {.op = OP_approx, .abs = 0.5}, eq = {.op = OP_eq},
                none = {.op = OP_approx};
    assert_true(compare(ROW(EL_f32, 1000.9, 2), ROW(EL_f32, 1000, 2), rel).ok);
    assert_true(compare(ROW(EL_f32, 1001.1, 2000), ROW(EL_f32, 1000, 2000), rel).ok);      // by the tensor's scale
    assert_false(compare(ROW(EL_f32, 1002, 1), ROW(EL_f32, 1000, 1), rel).ok);
    assert_true(compare(ROW(EL_f32, 3, 1 + 2.9e-3, 4), ROW(EL_f32, 3, 1, 4), rel).ok);     // rms 2.944
    assert_false(compare(ROW(EL_f32, 3, 1 + 3.0e-3, 4), ROW(EL_f32, 3, 1, 4), rel).ok);
    assert_true(compare(ROW(EL_f32, 1.49), ROW(EL_f32, 1), abs).ok);
    assert_false(compare(ROW(EL_f32, 1.51), ROW(EL_f32, 1), abs).ok);
    assert_true(compare(ROW(EL_f32, NAN, INFINITY, -INFINITY, -0.0), ROW(EL_f32, NAN, INFINITY, -INFINITY, 0), eq).ok);
    assert_true(compare(ROW(EL_f32, NAN, INFINITY), ROW(EL_f32, NAN, INFINITY), rel).ok);
    assert_false(compare(ROW(EL_f32, INFINITY), ROW(EL_f32, -INFINITY), abs).ok);
    assert_false(compare(ROW(EL_f32, 1), ROW(EL_f32, NAN), abs).ok);
    assert_false(compare(ROW(EL_f32, NAN), ROW(EL_f32, 1), abs).ok);
    assert_false(compare(ROW(EL_f32, 3e38), ROW(EL_f32, INFINITY), abs).ok);
    assert_true(compare(ROW(EL_f32, 1.00000001), ROW(EL_f32, 1), none).ok);
    assert_true(compare(ROW(EL_bf16, 1.0078125), ROW(EL_f32, 1), none).ok);   // the coarser type decides
    assert_false(compare(ROW(EL_f32, 1.0078125), ROW(EL_f32, 1), none).ok);
    assert_false(compare(ROW(EL_i32, 3), ROW(EL_i32, 4), none).ok);
    double bound[2] = {0.5, 0};
    CompareSpec with = {.op = OP_approx, .rel = 1e-9, .bound_expected = bound};
    assert_true(compare(ROW(EL_f64, 1.4, 1), ROW(EL_f64, 1, 1), with).ok);
    assert_false(compare(ROW(EL_f64, 1, 1.4), ROW(EL_f64, 1, 1), with).ok);
}

static void worst(void **state) {
    (void)state;
    CompareSpec spec = {.op = OP_approx, .rel = 1e-6};
    CompareResult r = compare(ROW(EL_f32, 1, 2, 3.5, 4.25), ROW(EL_f32, 1, 2, 3, 4), spec);
    assert_int_equal(r.differ, 2);
    assert_int_equal(r.count, 4);
    assert_int_equal(r.worst, 2);
    assert_true(r.got.f == 3.5 && r.expected.f == 3 && r.error == 0.5 && r.max_error == 0.5);
    assert_true(r.ulp == 0.5 / 0x1p-22);
    assert_true(fabs(r.nmse - (0.25 + 0.0625) / 30) < 1e-12);
    r = compare(ROW(EL_f32, 1, NAN), ROW(EL_f32, 1, 2), spec);
    assert_int_equal(r.worst, 1);
    assert_true(isnan(r.got.f));
    r = compare(ROW(EL_f32, 1), ROW(EL_f32, 1, 2), spec);
    assert_non_null(r.shape_error);

    Buf err = {0}, text = {0};
    HostTensor a, b;
    int64_t dim[2] = {2, 3};
    assert_true(tensor_make(&a, EL_i64, 2, dim, &err) && tensor_make(&b, EL_i64, 2, dim, &err));
    elem_set_int(EL_i64, a.data, 4, INT64_MAX);
    elem_set_int(EL_i64, b.data, 4, INT64_MAX - 1);                    // one as doubles
    CompareSpec eq = {.op = OP_eq};
    r = tensor_compare(&a, &b, &eq);
    assert_int_equal(r.differ, 1);
    compare_text(&r, &a, &eq, &text);
    assert_says(&text, "1 of 6 elements differ; worst at [1, 1]");
    HostTensor six;
    assert_true(tensor_make(&six, EL_i64, 0, NULL, &err));
    assert_int_equal(tensor_compare(&six, &a, &eq).differ, 1);         // a scalar against each element
    assert_int_equal(tensor_compare(&a, &six, &eq).count, 6);
    CompareSpec le = {.op = OP_le};
    assert_int_equal(tensor_compare(&a, &six, &le).differ, 1);
    assert_int_equal(tensor_compare(&six, &a, &le).differ, 0);
    tensor_free(&a);
    tensor_free(&b);
    tensor_free(&six);
}

static void empty(void **state) {
    (void)state;
    Buf err = {0};
    HostTensor a, b;
    int64_t dim[2] = {0, 3};
    assert_true(tensor_make(&a, EL_f32, 2, dim, &err) && tensor_make(&b, EL_f32, 2, dim, &err));
    CompareSpec spec = {.op = OP_approx, .rel = 1e-6};
    CompareResult r = tensor_compare(&a, &b, &spec);
    assert_true(r.ok && r.count == 0 && r.worst == -1);
    tensor_free(&a);
    tensor_free(&b);
}

static void prints(Elem e, int rank, const int64_t *dim, TMake make, double lo, double hi, int64_t threshold,
                   const char *want) {
    Buf err = {0}, text = {0};
    HostTensor t;
    assert_true(tensor_make(&t, e, rank, dim, &err));
    tensor_fill(&t, &(FillSpec){.make = make, .lo = number_double(lo), .hi = number_double(hi)});
    tensor_print(&t, threshold, &text);
    assert_string_equal(text.p, want);
    buf_free(&text);
    tensor_free(&t);
}

static void printing(void **state) {
    (void)state;
    int64_t d[3] = {2, 3, 2}, big[2] = {20, 8}, none[2] = {0, 4};
    prints(EL_i32, 2, d, MAKE_iota, -1, 1, 0, "[[-1  0  1]\n [ 2  3  4]]");
    prints(EL_f32, 1, d, MAKE_iota, 0.1, 1, 0, "[0.1 1.1]");
    prints(EL_f32, 0, d, MAKE_full, 0.1, 0, 0, "0.1");
    prints(EL_f32, 1, d, MAKE_iota, 10, 110, 0, "[ 10 120]");
    prints(EL_bf16, 1, d, MAKE_iota, -2e6, 3e7, 0, "[-2000000  2.8e+07]");
    prints(EL_bf16, 1, d, MAKE_full, 3.14159, 0, 0, "[3.14 3.14]");
    prints(EL_f64, 1, d, MAKE_full, 0.1, 0, 0, "[0.1 0.1]");
    prints(EL_bool, 1, d, MAKE_ones, 0, 0, 0, "[true true]");
    prints(EL_u8, 3, d, MAKE_iota, 0, 1, 0, "[[[ 0  1]\n  [ 2  3]\n  [ 4  5]]\n\n [[ 6  7]\n  [ 8  9]\n  [10 11]]]");
    prints(EL_i32, 2, big, MAKE_iota, 0, 1, 100,
           "[[  0   1   2 ...   5   6   7]\n [  8   9  10 ...  13  14  15]\n [ 16  17  18 ...  21  22  23]\n ...\n"
           " [136 137 138 ... 141 142 143]\n [144 145 146 ... 149 150 151]\n [152 153 154 ... 157 158 159]]");
    prints(EL_f32, 2, none, MAKE_zeros, 0, 0, 0, "[]");
    prints(EL_f32, 1, d, MAKE_full, NAN, 0, 0, "[nan nan]");
    prints(EL_f32, 1, d, MAKE_full, -INFINITY, 0, 0, "[-inf -inf]");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bounds), cmocka_unit_test(worst), cmocka_unit_test(empty),
                                       cmocka_unit_test(printing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

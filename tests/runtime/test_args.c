// NAME=SPEC.

#include "tests/runtime/common.h"

#include <math.h>

static RunArg parse(const char *text) {
    Buf err = {0};
    RunArg a;
    if (!arg_parse(text, 0, 0, &a, &err)) { print_error("%s\n", err.p); fail(); }
    return a;
}

static void refuse(const char *text, const char *words) {
    Buf err = {0};
    RunArg a;
    assert_false(arg_parse(text, 0, 0, &a, &err));
    assert_says(&err, words);
}

static void scalars(void **state) {
    (void)state;
    static const struct { const char *text; bool is_float; int64_t i; double f; } rows[] = {
        {"n=5", false, 5, 0}, {"n=-3", false, -3, 0}, {"n=0x10", false, 16, 0}, {"n=true", false, 1, 0}, {"n=false", false, 0, 0},
        {"n=18446744073709551615", false, -1, 0}, {"s=0.125", true, 0, 0.125}, {"s=1e-3", true, 0, 1e-3}, {"s=inf", true, 0, INFINITY},
        {"s=-inf", true, 0, -INFINITY}, {"s=-2.5", true, 0, -2.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RunArg a = parse(rows[i].text);
        assert_true(a.scalar);
        assert_int_equal(a.is_float, rows[i].is_float);
        if (a.is_float) assert_true(a.fval == rows[i].f);
        else assert_int_equal(a.ival, rows[i].i);
        arg_free(&a);
    }
    RunArg a = parse("s=nan");
    assert_true(a.is_float && isnan(a.fval));
    arg_free(&a);
}

static void data(void **state) {
    (void)state;
    RunArg a = parse("x=random:f32[37,1000]"), b = parse("x=random:f32[37,1000]"), c = parse("y=random:f32[37,1000]");
    assert_int_equal(a.tensor.rank, 2);
    assert_int_equal(a.tensor.dim[1], 1000);
    assert_memory_equal(a.tensor.data, b.tensor.data, 37000 * 4);
    assert_true(memcmp(a.tensor.data, c.tensor.data, 37000 * 4) != 0);
    arg_free(&a); arg_free(&b); arg_free(&c);
    a = parse("x=full(-2.5):bf16[ 2 , 3 ]");
    assert_true(elem_get(EL_bf16, a.tensor.data, 5) == -2.5);
    arg_free(&a);
    a = parse("x=iota(10,-1):i64[4]");
    assert_int_equal(elem_get_int(EL_i64, a.tensor.data, 3), 7);
    arg_free(&a);
    a = parse("x=iota:i64[4]");
    assert_int_equal(elem_get_int(EL_i64, a.tensor.data, 3), 3);
    arg_free(&a);
    a = parse("x=ones:f16[]");
    assert_int_equal(a.tensor.rank, 0);
    arg_free(&a);
    a = parse("x=uniform(-1, 1):f32[100]");
    assert_true(fabs(elem_get(EL_f32, a.tensor.data, 50)) <= 1);
    arg_free(&a);
    a = parse("x=randint(0,4):u8[100]");
    assert_in_range(elem_get_int(EL_u8, a.tensor.data, 50), 0, 3);
    arg_free(&a);
    a = parse("x=zeros:f32[0,7]");
    assert_int_equal(tensor_count(&a.tensor), 0);
    arg_free(&a);
}

static void paths(void **state) {
    (void)state;
    RunArg a = parse("x=some/file.npy");
    assert_true(a.is_path && a.as == EL_none);
    assert_string_equal(a.spec, "some/file.npy");
    arg_free(&a);
    a = parse("x=bf16:w.npy");
    assert_true(a.is_path && a.as == EL_bf16);
    assert_string_equal(a.spec, "w.npy");
    arg_free(&a);
    a = parse("x=c:/odd.npy");
    assert_string_equal(a.spec, "c:/odd.npy");
    arg_free(&a);
}

static void wrong(void **state) {
    (void)state;
    refuse("x", "`x` is no argument");
    refuse("=3", "no argument");
    refuse("x=", "no value after `=`");
    refuse("x=random:g32[3]", "`g32` is no element type");
    refuse("x=random:f32[3", "is no tensor type");
    refuse("x=random:f32[-3]", "is no tensor type");
    refuse("x=random:f32[3]]", "is no tensor type");
    refuse("x=random:f32[1,1,1,1,1,1,1,1,1]", "at most 8");
    refuse("x=random:f32[99999999999,99999999999]", "no possible tensor");
    refuse("x=random:f32[99999999999999999999999]", "is no tensor type");
    refuse("x=full:f32[3]", "write full(VALUE)");
    refuse("x=full(a):f32[3]", "`a` in full(...) is no number");
    refuse("x=full(1:f32[3]", "`)` is missing");
    refuse("x=full(1,2,3):f32[3]", "full takes 1 value");
    refuse("x=zeros(1):f32[3]", "zeros takes 0 values");
    refuse("x=randint:i32[3]", "write randint(LO,HI)");
    refuse("x=bf16:", "no file after");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scalars), cmocka_unit_test(data), cmocka_unit_test(paths),
                                       cmocka_unit_test(wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

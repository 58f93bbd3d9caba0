// Operators: the models of ops.txt, run by the interpreter. Every case tells what must come out.
#include "tests/graph/ops_kit.h"

static void cases_come_out_right(void **state) {
    (void)state;
    int wrong, count = run_cases(onnx_run, &wrong);
    assert_true(count > 40);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases_come_out_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

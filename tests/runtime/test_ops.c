// Operators as programs: the models of tests/graph/ops.txt, written as kernels and run by `eval`.
#include "tests/graph/ops_kit.h"

#include "runtime/model.h"

static bool as_program(OnnxModel *m, OnnxImport *how, GTensor *outputs, Buf *err) {
    return program_run(m, &(ProgramOptions){.device = "eval"}, how, &(RunControl){.junk_seed = 1}, outputs, err);
}

static void cases_come_out_right(void **state) {
    (void)state;
    int wrong, count = run_cases(as_program, &wrong);
    assert_true(count > 40);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases_come_out_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Operators as programs: the models of tests/graph/ops.txt, written as kernels and run by `eval`.
#include "tests/graph/ops_kit.h"

#include "runtime/model.h"

static int refused;

// What has no form as kernels is the interpreter's alone.
static bool as_program(OnnxModel *m, OnnxImport *how, GTensor *outputs, Buf *err) {
    bool fine = program_run(m, &(ProgramOptions){.device = "eval"}, how, &(RunControl){.junk_seed = 1}, outputs, err);
    if (fine || (!strstr(err->p, "has no form") && !strstr(err->p, "only the device `ref`"))) return fine;
    refused++;
    err->n = 0;
    return onnx_run(m, how, outputs, err);
}

static void cases_come_out_right(void **state) {
    (void)state;
    int wrong, count = run_cases(as_program, &wrong);
    print_message("%d of %d cases have no form as kernels\n", refused, count);
    assert_true(count > 40);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases_come_out_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

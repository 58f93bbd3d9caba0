// Every elementwise function of the language and of the library, and its operator in ONNX, on `eval` and on
// `emu`: at special values and at random ones over the whole range, against the results in maths.dat.gz
// (reference.py made them, by mpmath). How far each may be off stands in docs/math.md, "The library's
// functions"; this test reads the table there.
//
//     maths_maths                          all of it
//     maths_maths --measure [FILE]         the largest errors and where they are; of other data
#include "tests/maths/functions.h"

static void run_all(Functions *all, const char *device, const char *arch) {
    for (int t = 0; t < TYPES; t++) kernels_run(all, t, device, arch);
}
// Where targets differ: 16-bit types are converted and compared by other instructions.
static void run_storage(Functions *all, const char *device, const char *arch) {
    for (int t = 0; t < TYPES; t++) if (elem_is_storage(maths_types[t])) kernels_run(all, t, device, arch);
}

static void on_eval(void **state) { run_all(*state, "eval", NULL); }
static void on_emu(void **state) { run_all(*state, "emu", "sm_90a"); }
static void on_emu_of_sm_80(void **state) { run_storage(*state, "emu", "sm_80"); }
static void models_on_eval(void **state) { models_run(*state, "eval"); }
static void models_on_emu(void **state) { models_run(*state, "emu"); }

static int ready(void **state) { *state = functions_read(MATHS_DAT, MATH_MD); return 0; }
static int done(void **state) { functions_free(*state); return 0; }

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_eval),        cmocka_unit_test(on_emu),        cmocka_unit_test(on_emu_of_sm_80),
        cmocka_unit_test(models_on_eval), cmocka_unit_test(models_on_emu),
    };
    if (argc > 1) return measure(argc > 2 ? argv[2] : MATHS_DAT);
    return cmocka_run_group_tests(tests, ready, done);
}

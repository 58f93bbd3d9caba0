// tkc test PATH...: the test items of files on a device. runtime/test.c finds, runs, compares and counts.
#include <string.h>

#include "runtime/tk_run.h"
#include "tkc/compile.h"
#include "tkc/tkc.h"

int main_test(const Options *opt) {
    if (opt->operands.n == 0) return wrong_use("no file or folder was given; see tkc test --help");
    if (opt->device != NULL && strcmp(opt->device, "ref") == 0)
        return wrong_use("tests do not run on the device ref: models do");
    CompileOptions compile;
    int status = compile_options(opt, &compile);
    if (status != DONE) return status;
    TestOptions test = {
        .device = opt->device != NULL ? opt->device : "auto",
        .device_options = {.ordinal = (int)opt->gpu, .driver = opt->driver},
        .run = {.compile = compile,
                .seed = (uint64_t)opt->seed,
                .twice = opt->twice,
                .verify_values = verifies_values(opt),
                .random_weights = opt->random_weights,
                .times = opt->time},
        .filter = opt->filter,
        .verbose = opt->verbose,
        .diag_style = diag_style(opt),
        .color = wants_color(opt, stdout),
        .to = stdout,
    };
    TestCounts counts = {0};
    return test_paths(opt->operands.at, opt->operands.n, &test, &counts) ? DONE : FAILED;
}

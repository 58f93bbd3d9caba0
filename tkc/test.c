// tkc test PATH...: the test items of files on a device. runtime/test.c finds, runs, compares and counts.
#include <string.h>

#include "runtime/tk_run.h"
#include "tkc/compile.h"
#include "tkc/tkc.h"
#include "tkc/values.h"

int main_test(const Options *opt) {
    if (opt->operands.n == 0) return wrong_use("no file or folder was given; see tkc test --help");
    if (opt->device != NULL && strcmp(opt->device, "ref") == 0)
        return wrong_use("tests do not run on the device ref: models do");
    CompileOptions compile;
    int status = compile_options(opt, &compile);
    if (status != DONE) return status;
    static Values set;
    bool found[MAX_VALUES] = {false};
    Arena *arena = arena_new();
    status = values_read(opt, arena, &set);
    if (status == DONE && set.n > MAX_CHOSEN) status = wrong_use("--set: more than %d values", MAX_CHOSEN);
    if (status == DONE && opt->most > 0 && !opt->all_schedules) status = wrong_use("--most is for --all-schedules");
    if (status != DONE) { arena_free(arena); return status; }
    TestOptions test = {
        .device = opt->device != NULL ? opt->device : "auto",
        .device_options = {.ordinal = (int)opt->gpu, .driver = opt->driver},
        .run = {.compile = compile,
                .set = set.at,
                .nset = set.n,
                .set_found = found,
                .defaults = opt->defaults != NULL,
                .seed = (uint64_t)opt->seed,
                .twice = opt->twice,
                .verify_values = verifies_values(opt),
                .random_weights = opt->random_weights,
                .times = opt->time},
        .filter = opt->filter,
        .all_schedules = opt->all_schedules,
        .only_new = opt->defaults != NULL && strcmp(opt->defaults, "new") == 0,
        .most = (int)opt->most,
        .verbose = opt->verbose,
        .diag_style = diag_style(opt),
        .color = wants_color(opt, stdout),
        .to = stdout,
    };
    TestCounts counts = {0};
    status = test_paths(opt->operands.at, opt->operands.n, &test, &counts) ? DONE : FAILED;
    for (int i = 0; i < set.n; i++)
        if (!found[i]) status = fail("--set %s: no launch of these tests leaves a compile-time value of that name open", set.at[i].name);
    arena_free(arena);
    return status;
}

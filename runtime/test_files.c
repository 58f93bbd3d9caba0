// Files and folders of test items: which are run, what is printed of them, how they are counted.
//
//     FAIL  softmax.tk: rows (37, 1000), on emu for sm_90a
//           softmax.tk:21:5: expect ~ within rel 1e-05: 3 of 37000 elements out of bounds; worst at [3, 17]: 0.1234, expected 0.1235 (...)
//           `softmax`, M = 37, N = 1000: --with=split_k=4
//
// The last lines are the schedules that its launches had; as options of `tkc test` they are had again.

#include "runtime/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lang/ast.h"
#include "lang/c_text.h"
#include "lang/file.h"
#include "lang/shown.h"
#include "lang/std_embed.h"

static int show_diags(Runner *r, Session *s) {
    if (!diag_count(s)) return 0;
    int errors = diag_print(s, r->to, r->opt->diag_style, r->opt->color);
    diag_forget(s, 0);
    return errors;
}

void test_diags(Runner *r, Session *s) { show_diags(r, s); }

bool test_wanted(const Runner *r, const char *name) { return !r->opt->filter || strstr(name, r->opt->filter); }

void test_name(const char *path, const TTest *t, Buf *out) {
    buf_printf(out, "%s: %.*s%s%s", path, (int)t->name.n, t->name.p, t->case_text && t->case_text[0] ? " " : "",
               t->case_text ? t->case_text : "");
}

void test_told(Runner *r, const TestRun *run, const char *name, const char *with, bool fine, double ms) {
    const Target *target = runtime_options(run->rt)->compile.target;
    Buf launches = {0};
    if (!fine || r->opt->verbose || r->opt->run.times) {
        print_shown(r->to, "%s  %s, on %s", fine ? "ok  " : "FAIL", name, r->device->ops->name);
        if (r->device->ops->runs_ptx) fprintf(r->to, " for %s", target->name);
        if (*with) fprintf(r->to, ", %s", with);
        if (r->opt->run.times) c_fprintf(r->to, "  %.1f ms", ms);
        fputc('\n', r->to);
    }
    if (!fine || r->opt->verbose) test_launches(run->test, !fine, &launches);
    if (!fine) print_shown(r->to, "      %s\n", run->report.n ? run->report.p : "failed");
    if (launches.n) put_shown(r->to, launches.p, launches.n);
    if (fine && r->opt->verbose && run->report.n) put_shown(r->to, run->report.p, run->report.n);
    buf_free(&launches);
    test_diags(r, runtime_session(run->rt));
    fflush(r->to);
}

// ---- tests that the defaults leave as they are -----------------------------------------------------

static bool same_compiled(Runtime *rt, const TStep *a, const TStep *b) {
    Buf err = {0};
    const Compiled *x = runtime_compile(rt, a->kernel, &a->schedule, &err);
    bool same = x && x == runtime_compile(rt, b->kernel, &b->schedule, &err);
    buf_free(&err);
    return same;
}

// Neither launches anything but the other's kernels, or references. Graphs are not looked into.
static bool same_launches(Runtime *rt, const TTest *a, const TTest *b) {
    bool same = a->nsteps == b->nsteps;
    for (int i = 0; same && i < a->nsteps; i++) {
        const TStep *x = &a->steps[i], *y = &b->steps[i];
        same = x->kind == y->kind && x->kind != STEP_graph;
        if (same && x->kind == STEP_launch && !x->reference) same = same_compiled(rt, x, y);
    }
    return same;
}

// The test with what is chosen for it runs the same programs.
static bool chosen_alike(Runner *r, Runtime *rt, SemaFile *file, int number, const TTest *t) {
    const RuntimeOptions *opt = &r->opt->run;
    int said = diag_count(runtime_session(rt));
    runtime_asks(rt, &opt->compile.schedule, opt->set, opt->nset, false);
    const TTest *chosen = sema_test(file, number);
    runtime_asks(rt, &opt->compile.schedule, opt->set, opt->nset, true);
    bool alike = chosen && same_launches(rt, t, chosen);
    diag_forget(runtime_session(rt), said);
    return alike;
}

static void run_one(Runner *r, Runtime *rt, const char *path, const TTest *t) {
    Buf name = {0};
    TestRun run = {.rt = rt, .test = t};
    test_name(path, t, &name);
    if (test_wanted(r, name.p)) {
        double start = now_us();
        bool   fine = test_run(&run);
        if (fine) r->counts->passed++;
        else r->counts->failed++;
        test_told(r, &run, name.p, "", fine, (now_us() - start) * 1e-3);
    }
    test_run_free(&run);
    buf_free(&name);
}

// NULL: told and counted.
static SemaFile *open_file(Runner *r, Session *s, const char *path) {
    char   *error = NULL;
    Source *src = source_read(s, path, &error);
    if (src) return sema_file(s, parse_file(s, src));
    print_shown(r->to, "FAIL  %s\n", error ? error : path);
    r->counts->failed++;
    return NULL;
}

static void run_file(Runner *r, const char *path) {
    Session  *s = session_new();
    SemaFile *file = open_file(r, s, path);
    TTest   **tests = NULL;
    if (!file) { session_free(s); return; }
    Runtime *rt = runtime_new(s, r->device, &r->opt->run);
    runtime_serves(rt, file);
    sema_check(file);                                                  // what no test launches, too
    int n = sema_tests(file, &tests), all = sema_test_count(file), errors = show_diags(r, s);
    if (errors) { print_shown(r->to, "FAIL  %s: %d error%s\n", path, errors, errors == 1 ? "" : "s"); r->counts->failed++; }
    bool only_new = r->opt->run.defaults && r->opt->only_new && n == all;
    for (int i = 0; i < n && !r->opt->all_schedules; i++) {
        if (only_new && chosen_alike(r, rt, file, i, tests[i])) r->counts->skipped++;
        else run_one(r, rt, path, tests[i]);
    }
    runtime_free(rt);
    session_free(s);
    for (int i = 0; i < all && !errors && r->opt->all_schedules; i++) test_schedules(r, path, i);
}

static void run_path(Runner *r, const char *path) {
    struct stat st;
    bool there = stat(path, &st) == 0;
    for (int i = 0; !there && strcmp(path, "std") == 0; i++) {          // the whole library in the binary
        if (!std_name(i)) return;
        Buf full = {0};
        buf_printf(&full, "std/%s", std_name(i));
        run_file(r, full.p);
        buf_free(&full);
    }
    if (!there || !S_ISDIR(st.st_mode)) { run_file(r, path); return; }      // what cannot be read is said there
    char **names = file_names(path, strcmp);
    if (!names) {
        print_shown(r->to, "FAIL  %s: %s\n", path, strerror(errno));
        r->counts->failed++;
    }
    for (int i = 0; names && names[i]; i++) {
        const char *name = names[i], *dot = strrchr(name, '.');
        Buf full = {0};
        buf_printf(&full, "%s/%s", path, name);
        // a link to a folder may lead back here; a pipe would be waited for
        bool folder = lstat(full.p, &st) == 0 && S_ISDIR(st.st_mode), file = stat(full.p, &st) == 0 && S_ISREG(st.st_mode);
        if (name[0] != '.' && (folder || (file && dot && strcmp(dot, ".tk") == 0))) run_path(r, full.p);
        buf_free(&full);
    }
    heap_free(names);
}

bool test_paths(const char *const *paths, int n, const TestOptions *opt, TestCounts *counts) {
    Buf err = {0};
    Runner r = {.opt = opt, .to = opt->to ? opt->to : stdout, .counts = counts};
    *counts = (TestCounts){0};
    r.device = device_open(opt->device ? opt->device : "auto", &opt->device_options, &err);
    if (!r.device) { print_shown(r.to, "%s\n", err.p); buf_free(&err); return false; }
    for (int i = 0; i < n; i++) run_path(&r, paths[i]);
    bool any = counts->passed + counts->failed + counts->skipped > 0;
    if (!any && opt->filter) print_shown(r.to, "no test matches `%s`\n", opt->filter);
    else if (!any) fprintf(r.to, "no tests\n");
    if (any && opt->all_schedules) schedules_told(&r);
    fprintf(r.to, "%d passed, %d failed, %d skipped\n", counts->passed, counts->failed, counts->skipped);
    device_close(r.device);
    return any && counts->failed == 0;
}

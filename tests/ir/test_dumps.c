// The law, on every dump of real kernels: print(parse(print(f))) == print(f). Every kernel of every .tk
// file among the examples and the tests that checks without errors is built, and after each pass of
// level 1 verified, printed, read and printed again. Whatever a pass did to it, it still evaluates: that
// is for the tests that run kernels; here nothing runs.

#include "ir_test.h"
#include "ir_files.h"
#include "lower/pass/passes.h"

static int kernels;

static void check(Session *s, Fn *f, const char *path, const char *pass) {
    Buf problems = {0}, once = {0}, twice = {0};
    if (ir_verify(f, &problems)) fail_msg("%s: broken after %s:\n%s", path, pass, problems.p);
    ir_print(f, &once);
    Fn *g = ir_parse(s, source_add(s, "dump.tir", once.p, once.n), NULL);
    if (!g) {
        diag_print(s, stderr, DIAG_short, false);
        fail_msg("%s: after %s it does not parse:\n%s", path, pass, once.p);
    }
    if (ir_verify(g, &problems)) fail_msg("%s: after %s what was read is broken:\n%s", path, pass, problems.p);
    ir_print(g, &twice);
    if (strcmp(once.p, twice.p)) fail_msg("%s: after %s\n%s\nreads as\n%s", path, pass, once.p, twice.p);
    buf_free(&problems);
    buf_free(&once);
    buf_free(&twice);
}

static void kernel(Session *s, const TKernel *k, const char *path) {
    static const struct {
        const char *name;
        bool (*run)(Fn *);
    } passes[] = {{"simplify", simplify},
                  {"contract", contract},
                  {"simplify", simplify},
                  {"hoist", hoist},
                  {"simplify", simplify}};
    Fn *f = ir_build(s, k);
    check(s, f, path, "build");
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        passes[i].run(f);
        check(s, f, path, passes[i].name);
    }
    if (simplify(f)) fail_msg("%s: simplify does not come to rest in kernel %s", path, k->name->s);
    kernels++;
}

static void file(const char *path) {
    char *text = read_file(path);
    Session *s = session_new();
    Source *src = source_add(s, path, text, strlen(text));
    SemaFile *f = sema_file(s, parse_file(s, src));
    for (int i = 0; i < sema_kernel_count(f); i++) {
        int before = diag_count(s);
        TKernel *k = diag_errors(s) ? NULL : sema_instance((InstanceOf){.file = f, .item = sema_kernel(f, i)});
        if (k) kernel(s, k, path);
        diag_forget(s, before);
    }
    session_free(s);
    heap_free(text);
}

static void folder(const char *dir) {
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (n > 3 && strcmp(e->d_name + n - 3, ".tk") == 0) file(path);
    }
    closedir(d);
}

static void test_dumps(void **state) {
    (void)state;
    folder(IR_CASES "/../../examples");
    folder(IR_CASES "/../sema");
    folder(IR_CASES "/../kernels");
    folder(IR_CASES "/../lower");
    printf("%d kernels\n", kernels);
    assert_true(kernels > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dumps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

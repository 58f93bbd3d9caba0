// Kernels that may start before those that they follow have ended: they wait, and of what they read only weights are
// said to be constant, since ptxas moves loads of constant memory above the wait (Fn.early, lower/llvm/mem.c). Others
// have neither.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "lower/build.h"
#include "lower/lower.h"
#include "parser/parser.h"

static const char source[] =
    "kernel scale(x: f32[M, N], w: f32[N], y: out f32[M, N]) grid (m in M, n in N by 1024) { y[m, n] = x[m, n] * w[n]; }\n";

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++) n++;
    return n;
}

static void check(const char *target, bool early, bool fixed, int constant, int waits) {
    Session *s = session_new();
    SemaFile *file = sema_file(s, parse_file(s, source_add(s, "early.tk", source, strlen(source))));
    Fn *f = ir_build(s, sema_instance((InstanceOf){.file = file, .item = sema_find_kernel(file, "scale")}));
    CompileOptions opt = {.target = target_find(target), .verify = true};
    Buf ptx = {0};
    f->early = early;
    f->launch->params[1].fixed = fixed;
    assert_true(lower_run(f, &opt));
    assert_true(lower_emit(s, &f, 1, &opt, NULL, &ptx));
    int loads = count(ptx.p, "ld.global");
    assert_true(loads > 0 && loads % 2 == 0);                   // as many of each
    assert_int_equal(count(ptx.p, "ld.global.nc"), constant * loads / 2);
    assert_int_equal(count(ptx.p, "griddepcontrol.wait"), waits);
    assert_int_equal(f->launch->early != 0, waits);
    buf_free(&ptx);
    session_free(s);
}

static void early(void **state) {
    (void)state;
    check("sm_90a", false, false, 2, 0);
    check("sm_90a", true, false, 0, 1);
    check("sm_90a", true, true, 1, 1);
    check("sm_80", true, false, 2, 0);                          // where nothing starts early
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(early)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Fuzzing the checker: no tree that the parser makes may crash sema, every kernel without errors makes a
// typed tree that keeps the promises of typed.h and can be printed, and errors are always said.
//
//     fuzz_sema -max_len=2000 FOUND tests/fuzz/corpus/language tests/sema tests/diag
#define _GNU_SOURCE
#include "lang/ast.h"
#include "parser/parser.h"
#include "sema/typed.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_typed(Session *s, const TKernel *k) {
    Buf text = {0};
    if (typed_verify(k, &text) > 0) ice("%s", text.p);
    typed_print(s, k, &text);
    buf_free(&text);
}

static void say_all(Session *s) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    diag_print(s, f, DIAG_rich, false);
    fclose(f);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const own_files = "import";              // files of the machine are no input
    if (size > 6 && memmem(data, size, own_files, 6) && !memmem(data, size, "std/", 4)) return 0;
    Session *s = session_new();
    SemaFile *f = sema_file(s, parse_file(s, source_add(s, "fuzz.tk", (const char *)data, size)));
    SemaValue known[] = {{.name = "N", .ival = (int64_t)(size % 7) * 50},
                         {.name = "D", .ival = 64},
                         {.name = "T", .is_type = true, .elem = EL_f16}};
    for (int i = 0; i < sema_kernel_count(f); i++) {
        TKernel *k = sema_instance((InstanceOf){f, sema_kernel(f, i), NULL, 0, known, size & 1 ? 3 : 0});
        if (!k && diag_errors(s) == 0) ice("no kernel, and no error");
        if (k) check_typed(s, k);
    }
    TTest **tests;
    int n = sema_tests(f, &tests);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < tests[i]->nsteps; j++) {
            if (tests[i]->steps[j].kernel) check_typed(s, tests[i]->steps[j].kernel);
        }
    }
    if (size & 2) sema_check(f);
    say_all(s);
    session_free(s);
    return 0;
}

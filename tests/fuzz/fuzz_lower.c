// Fuzzing the tile passes: what sema accepts is built and lowered for two targets, and the tile IR keeps
// the verifier's rules after every pass. A kernel may be refused with an error; it may not be broken.
// Extents are held small, so that the work of an input is.
//
//     fuzz_lower -max_len=2000 FOUND tests/fuzz/corpus/language examples
#define _GNU_SOURCE
#include "lang/ast.h"
#include "lower/lower.h"
#include "parser/parser.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 3000, MAX_KERNELS = 6 };

static void lower(Session *s, const TKernel *k, const char *arch, size_t size) {
    static const Schedule schedules[] = {{0}, {.warps = 8, .stages = 2}, {.warps = 1}, {.stages = 4}};
    CompileOptions opt = {
        .target = target_find(arch), .verify = true, .math = (int)(size % 3), .general = size % 5 == 0,
        .schedule = schedules[size % 8 < 4 ? size % 8 : 0],
    };
    Fn *f = ir_build(s, k);
    int errors = diag_errors(s);
    bool done = lower_run(f, &opt);
    if (!done && diag_errors(s) == errors) ice("not lowered, and no error");
    Buf text = {0};
    ir_print(f, &text);
    if (done) layout_print_all(f, &text), report_print(f, NULL, &text);
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > MAX_BYTES) return 0;
    // files of the machine are no input
    if (size > 6 && memmem(data, size, "import", 6) && !memmem(data, size, "std/", 4)) return 0;
    Session *s = session_new();
    SemaFile *f = sema_file(s, parse_file(s, source_add(s, "fuzz.tk", (const char *)data, size)));
    SemaValue known[] = {{.name = "N", .ival = (int64_t)(size % 7) * 50}, {.name = "T", .is_type = true, .elem = EL_f16}};
    for (int i = 0; i < sema_kernel_count(f) && i < MAX_KERNELS; i++) {
        for (int j = 0; j < 2; j++) {
            TKernel *k = sema_instance((InstanceOf){f, sema_kernel(f, i), NULL, 0, known, size & 1 ? 2 : 0});
            if (!k) break;
            lower(s, k, j ? "sm_90a" : "sm_80", size);
        }
    }
    session_free(s);
    return 0;
}

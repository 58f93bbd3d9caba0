// Fuzzing the emulator: no PTX text may crash its reader, and no module that it reads may do more than
// report faults when a kernel of it runs, for a while, on one buffer. What can be read has an outline with the same
// kernels; a head of tkc's in it is read, or refused in words, and what was read can be written.
//
//     fuzz_emu -max_len=6000 FOUND tests/fuzz/corpus/ptx
#include "emu/emu.h"
#include "lang/launch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUFFER = 4096, MAX_PARAMS_RUN = 64, MAX_THREADS_RUN = 128, MAX_BYTES_RUN = 1 << 16 };

static void drop(void *to, uint32_t thread, const char *text, size_t n) { (void)to, (void)thread, (void)text, (void)n; }

static void run(EmuContext *emu, EmuModule *module, const EmuKernel *k, uint64_t buffer) {
    static uint64_t value[MAX_PARAMS_RUN][512];          // 4 KiB: as large as a parameter can be
    void *params[MAX_PARAMS_RUN];
    if (k->n_params > MAX_PARAMS_RUN || k->static_shared > MAX_BYTES_RUN || k->local_bytes > MAX_BYTES_RUN) return;
    for (uint32_t i = 0; i < k->n_params; i++) {
        if (k->params[i].size > sizeof value[i]) return;
        value[i][0] = k->params[i].size >= 8 ? buffer : 100;
        params[i] = value[i];
    }
    EmuOptions opt = {.threads = 1, .budget = 3000, .max_faults = 4, .print = drop, .check_global_init = true};
    uint32_t block[3] = {32, 1, 1};
    if (k->reqntid[0] && (uint64_t)k->reqntid[0] * k->reqntid[1] * k->reqntid[2] <= MAX_THREADS_RUN)
        memcpy(block, k->reqntid, sizeof block);
    EmuReport report = {0};
    EmuStatus status = emu_launch(emu, module, k->name, (uint32_t[]){2, 1, 1}, block, NULL, 1024, params, &opt, &report);
    if (status == EMU_FAULTED && report.n_faults == 0) abort();
    emu_report_free(&report);
}

static void outline(EmuContext *emu, const EmuModule *module, const char *text, size_t size) {
    EmuModule *outline = emu_outline(emu, text, size);
    uint32_t n[EMU_CLASS_COUNT];
    if (!outline && (module || !*emu_message(emu))) abort();
    if (!module) return;
    if (emu_kernel_count(module) != emu_kernel_count(outline)) abort();
    for (size_t i = 0; i < emu_kernel_count(module); i++) {
        emu_kernel_classes(module, emu_kernel(module, i), n);
        if (emu_kernel(module, i)->n_params != emu_kernel(outline, i)->n_params) abort();
    }
}

static void head(const char *text, size_t size) {
    Session *s = session_new();
    const LaunchInfo *info[4];
    Buf out = {0}, err = {0};
    int n = launch_read(s, text, size, info, 4, &err);
    if (n < 0 && err.n == 0) abort();
    for (int i = 0; i < n; i++) launch_print(info[i], &out);
    buf_free(&out), buf_free(&err);
    session_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    EmuContext *emu = emu_create();
    uint64_t buffer;
    char *text = malloc(size + 1);
    if (!text) abort();
    memcpy(text, data, size);
    text[size] = 0;
    if (emu_alloc(emu, BUFFER, "buffer", &buffer) != EMU_OK) abort();
    EmuModule *module = emu_load(emu, text, size);
    if (!module && !*emu_message(emu)) abort();          // refused, and no word about it
    outline(emu, module, text, size);
    head(text, size);
    free(text);
    for (size_t i = 0; module && i < emu_kernel_count(module) && i < 4; i++) run(emu, module, emu_kernel(module, i), buffer);
    emu_destroy(emu);
    return 0;
}

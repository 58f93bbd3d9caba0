// The host's memory out at every place where the emulator asks for some: the n-th of its allocations fails, for one n after the
// other, until all are there. What comes back is EMU_OUT_OF_MEMORY and words, and the context goes on. (Linked with --wrap.)
#include "kit.h"

static long left = -1;                                   // allocations until one fails; -1: none does
static bool fails(void) { return left >= 0 && left-- == 0; }

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t align, size_t n) { return fails() ? NULL : __real_aligned_alloc(align, n); }

typedef struct Run {
    const char *file, *kernel;
    u32 grid, block, shared;
    void **params;
} Run;

// The n at which nothing failed any more.
static long starved(EmuContext *emu, const Run *run) {
    char *ptx = read_file(run->file);
    size_t length = strlen(ptx);
    long n = 0;
    for (bool whole = false; !whole; n += 1 + n / 16) {
        left = n;
        EmuModule *m = emu_load(emu, ptx, length);
        if (m) {
            EmuReport r;
            EmuStatus s = emu_launch(emu, m, run->kernel, (u32[]){run->grid, 1, 1}, (u32[]){run->block, 1, 1}, NULL, run->shared, run->params,
                                     &(EmuOptions){.threads = 1}, &r);
            whole = left >= 0;
            left = -1;
            bool without = s == EMU_OK;                   // of a name in messages, say
            if (!without && (whole || s != EMU_OUT_OF_MEMORY || !strstr(emu_message(emu), "out of memory")))
                fail_msg("allocation %ld: status %d, %s", n, s, emu_message(emu));
            emu_report_free(&r);
            emu_unload(emu, m);
        } else if (!strstr(emu_message(emu), "out of memory")) fail_msg("allocation %ld: %s", n, emu_message(emu));
        left = -1;
    }
    free(ptx);
    return n;
}

static void functions(void **state) {                    // recursion: frames, what is saved of them
    (void)state;
    EmuContext *emu = emu_create();
    int x[32] = {0};
    u64 dx = device(emu, "x", x, sizeof x), out = device(emu, "out", NULL, 32 * 64 * 4);
    assert_true(starved(emu, &(Run){"kernels/functions.ptx", "functions", 1, 32, 0, (void *[]){&dx, &out}}) > 50);
    emu_destroy(emu);
}

static void hopper(void **state) {                       // mbarriers, tensor copies, wgmma
    (void)state;
    enum { M = 128, N = 256, K = 128 };
    EmuContext *emu = emu_create();
    u64 a = device(emu, "a", NULL, 2 * M * K), b = device(emu, "b", NULL, 2 * N * K), c = device(emu, "c", NULL, 2 * M * N);
    emu_fill(emu, a, 2 * M * K, EMU_FILL_ZERO, 0);
    emu_fill(emu, b, 2 * N * K, EMU_FILL_ZERO, 0);
    EmuTensorMap ma, mb;
    int ldc = N, steps = K / 64;
    float alpha = 1;
    assert_int_equal(emu_tensor_map_encode_tiled(emu, &ma, EMU_TM_BF16, 2, a, (u64[]){K, M}, (u64[]){2 * K}, (u32[]){64, 128}, (u32[]){1, 1}, 0,
                                                 EMU_TM_SWIZZLE_128B, 0, 0), EMU_OK);
    assert_int_equal(emu_tensor_map_encode_tiled(emu, &mb, EMU_TM_BF16, 2, b, (u64[]){K, N}, (u64[]){2 * K}, (u32[]){64, 256}, (u32[]){1, 1}, 0,
                                                 EMU_TM_SWIZZLE_128B, 0, 0), EMU_OK);
    assert_true(starved(emu, &(Run){"kernels/gemm_wgmma.ptx", "gemm", 1, 384, 4 * (128 + 256) * 128 + 128,
                                    (void *[]){&ma, &mb, &c, &ldc, &steps, &alpha}}) > 50);
    emu_destroy(emu);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions), cmocka_unit_test(hopper)};
    return cmocka_run_group_tests_name("emu room", tests, NULL, NULL);
}

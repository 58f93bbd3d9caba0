// Whole kernels, as nvcc and LLVM emit them: kernels/kernels.cu, and the warp-specialised TMA + wgmma GEMM
// of kernels/gemm_wgmma.ptx (128x256x64 tiles, 4 stages, 1 producer and 2 consumer warpgroups). And a product of 4-bit floats with
// scaled blocks, as Triton emits it: it places the scales as a GPU wants them, which no GPU of ours has said.
#include "kit.h"

static u64 seed = 1;
static float uniform(void) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(int32_t)(seed >> 32) * 0x1p-31f;
}

static void vector_add(void **state) {
    (void)state;
    enum { N = 1000 };
    char *ptx = read_file("kernels/kernels.ptx");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    float a[N], b[N], c[N];
    for (int i = 0; i < N; i++) a[i] = uniform(), b[i] = uniform();
    u64 da = device(emu, "a", a, sizeof a), db = device(emu, "b", b, sizeof b), dc = device(emu, "c", NULL, sizeof c);
    int n = N;
    run_clean(emu, m, "vector_add", 8, 128, 0, (void *[]){&da, &db, &dc, &n}, NULL);
    emu_read(emu, c, dc, sizeof c);
    for (int i = 0; i < N; i++) assert_true(c[i] == a[i] + b[i]);
    n++;                                                 // one too many: reported at the .cu line
    EmuReport r;
    assert_int_equal(emu_launch(emu, m, "vector_add", (u32[]){8, 1, 1}, (u32[]){128, 1, 1}, NULL, 0,
                                (void *[]){&da, &db, &dc, &n}, NULL, &r),
                     EMU_FAULTED);
    assert_string_equal(r.faults[0].file, "kernels.cu");
    assert_int_equal(r.faults[0].line, 7);
    assert_string_equal(r.faults[0].message, "read of 4 bytes: `b` + 4000 is 0 bytes past its end");
    emu_report_free(&r);
    emu_destroy(emu);
    free(ptx);
}

static void reductions(void **state) {
    (void)state;
    enum { N = 10000 };
    char *ptx = read_file("kernels/kernels.ptx");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    float *a = malloc(N * sizeof *a), got = 0, want = 0;
    int *v = malloc(N * sizeof *v), sum = 0, n = N, zeros[64] = {0}, out[64];
    for (int i = 0; i < N; i++) a[i] = (float)(i % 17), want += a[i], v[i] = i * 3 - 7, sum += v[i];
    u64 da = device(emu, "a", a, N * 4), dv = device(emu, "v", v, N * 4), dout = device(emu, "out", &got, 4);
    run_clean(emu, m, "reduce", 5, 256, 0, (void *[]){&da, &dout, &n}, NULL);
    emu_read(emu, &got, dout, 4);
    assert_true(got == want);
    u64 partial = device(emu, "partial", NULL, 64 * 4), counter = device(emu, "counter", zeros, 4);
    for (u64 order = 0; order < 3; order++) {
        emu_write(emu, counter, zeros, 4);
        run_clean(emu, m, "last_block_sum", 20, 32, 0, (void *[]){&dv, &partial, &counter, &dout, &n},
                  &(EmuOptions){.order_seed = order, .threads = 3});
        int last;
        emu_read(emu, &last, dout, 4);
        assert_int_equal(last, sum);
    }
    emu_write(emu, counter, zeros, 4);                   // blocks that wait for blocks not yet started
    run_clean(emu, m, "grid_wait", 6, 32, 0, (void *[]){&counter, &partial}, &(EmuOptions){.threads = 2});
    emu_read(emu, out, partial, sizeof out);
    for (int i = 0; i < 6; i++) assert_int_equal(out[i], 6);
    emu_destroy(emu);
    free(a), free(v), free(ptx);
}

static void check_product(const uint16_t *a, const uint16_t *b, const float *c, int M, int N, int K, double tolerance) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0, size = 0;
            for (int k = 0; k < K; k++) {
                double p = (double)bf16_to_f32(a[i * K + k]) * (double)bf16_to_f32(b[j * K + k]);
                sum += p, size += fabs(p);
            }
            if (!(fabs(sum - (double)c[i * N + j]) <= tolerance * (size + fabs(sum))))
                fail_msg("c[%d][%d] = %g, not %g", i, j, (double)c[i * N + j], sum);
        }
}

static void matmul_with(const char *text, const EmuOptions *options, bool good) {
    enum { M = 100, N = 72, K = 200 };
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, text);
    static uint16_t a[M * K], b[N * K];
    static float c[M * N];
    for (int i = 0; i < M * K; i++) a[i] = bf16_from_f32(uniform());
    for (int i = 0; i < N * K; i++) b[i] = bf16_from_f32(uniform());
    u64 da = device(emu, "a", a, sizeof a), db = device(emu, "b", b, sizeof b), dc = device(emu, "c", NULL, sizeof c);
    int sizes[3] = {M, N, K};
    EmuReport r;
    EmuStatus s = emu_launch(emu, m, "matmul", (u32[]){2, 2, 1}, (u32[]){128, 1, 1}, NULL, 0,
                             (void *[]){&da, &db, &dc, &sizes[0], &sizes[1], &sizes[2]}, options, &r);
    if (good && s) emu_report_print(&r, stderr);
    assert_int_equal(s, good ? EMU_OK : EMU_FAULTED);
    emu_read(emu, c, dc, sizeof c);
    if (good) check_product(a, b, c, M, N, K, 1e-6);
    else
        assert_true(r.faults[0].kind == EMU_FAULT_MISSING_WAIT || r.faults[0].kind == EMU_FAULT_RACE ||
                    r.faults[0].kind == EMU_FAULT_UNINITIALISED);
    emu_report_free(&r);
    emu_destroy(emu);
}

static void matmul(void **state) {
    (void)state;
    char *ptx = read_file("kernels/kernels.ptx"), *at;
    for (u64 order = 0; order < 4; order++)
        for (int mode = 0; mode < 3; mode++)
            matmul_with(ptx, &(EmuOptions){.order_seed = order, .async = (EmuAsync)mode, .junk_seed = order}, true);
    at = strstr(ptx, "cp.async.wait_group 1");           // the same with one group too many left in flight
    at[strlen("cp.async.wait_group ")] = '2';
    matmul_with(ptx, NULL, false);
    at[strlen("cp.async.wait_group ")] = '1';
    at = strstr(at, "bar.sync");                         // and without its barrier
    memcpy(at, "// ar.sy", 8);
    matmul_with(ptx, NULL, false);
    free(ptx);
}

static EmuStatus gemm_with(const char *text, int M, int N, int K, const EmuOptions *options, EmuReport *r, bool check) {
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, text);
    size_t na = (size_t)M * K, nb = (size_t)N * K, nc = (size_t)M * N;
    uint16_t *a = malloc(2 * na), *b = malloc(2 * nb), *c = malloc(2 * nc);
    float *f = malloc(4 * nc), alpha = 1;
    for (size_t i = 0; i < na; i++) a[i] = bf16_from_f32(uniform());
    for (size_t i = 0; i < nb; i++) b[i] = bf16_from_f32(uniform());
    u64 da = device(emu, "a", a, 2 * na), db = device(emu, "b", b, 2 * nb), dc = device(emu, "c", NULL, 2 * nc);
    EmuTensorMap ma, mb;
    u64 dims_a[] = {(u64)K, (u64)M}, dims_b[] = {(u64)K, (u64)N}, strides[] = {2 * (u64)K};
    assert_int_equal(emu_tensor_map_encode_tiled(emu, &ma, EMU_TM_BF16, 2, da, dims_a, strides, (u32[]){64, 128},
                                                 (u32[]){1, 1}, 0, EMU_TM_SWIZZLE_128B, 0, 0),
                     EMU_OK);
    assert_int_equal(emu_tensor_map_encode_tiled(emu, &mb, EMU_TM_BF16, 2, db, dims_b, strides, (u32[]){64, 256},
                                                 (u32[]){1, 1}, 0, EMU_TM_SWIZZLE_128B, 0, 0),
                     EMU_OK);
    int ldc = N, steps = K / 64;
    EmuStatus s = emu_launch(emu, m, "gemm", (u32[]){(u32)N / 256, (u32)M / 128, 1}, (u32[]){384, 1, 1}, NULL,
                             4 * (128 + 256) * 128 + 128, (void *[]){&ma, &mb, &dc, &ldc, &steps, &alpha}, options, r);
    if (check && s) emu_report_print(r, stderr);
    emu_read(emu, c, dc, 2 * nc);
    for (size_t i = 0; i < nc; i++) f[i] = bf16_to_f32(c[i]);
    if (check) check_product(a, b, f, M, N, K, 1.0 / 256);
    emu_destroy(emu);
    free(a), free(b), free(c), free(f);
    return s;
}

static void hopper_gemm(void **state) {
    (void)state;
    char *ptx = read_file("kernels/gemm_wgmma.ptx");
    EmuReport r;
    for (u64 order = 0; order < 3; order++)
        for (int mode = 0; mode < 3; mode++) {
            assert_int_equal(gemm_with(ptx, 128, 256, 320 + 64 * mode,
                                       &(EmuOptions){.order_seed = order, .async = (EmuAsync)mode}, &r, true),
                             EMU_OK);
            assert_int_equal(r.counters.mma_flops, 2ll * 128 * 256 * (320 + 64 * mode));
            assert_int_equal(r.counters.global_sectors, 8 * r.counters.global_requests);
            emu_report_free(&r);
        }
    free(ptx);
}

static void random_bytes(void *to, size_t n, int about) {      // 127, more or less
    for (size_t i = 0; i < n; i++) ((uint8_t *)to)[i] = (uint8_t)(127 + (int)((float)about * uniform()));
}

static void scaled_blocks(void **state) {                // kernels/scaled_f4.ptx: exact, as 4-bit numbers by powers of two are
    (void)state;
    enum { M = 64, N = 32, K = 128, S = K / 32 };
    static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    static uint8_t a[M][K / 2], b[N][K / 2], sa[M][S], sb[N][S];
    static float c[M][N];
    random_bytes(a, sizeof a, 127), random_bytes(b, sizeof b, 127), random_bytes(sa, sizeof sa, 4), random_bytes(sb, sizeof sb, 4);
    char *ptx = read_file("kernels/scaled_f4.ptx");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 da = device(emu, "a", a, sizeof a), db = device(emu, "b", b, sizeof b), dc = device(emu, "c", NULL, sizeof c), dsa = device(emu, "sa", sa, sizeof sa), dsb = device(emu, "sb", sb, sizeof sb), none = 0;
    run_clean(emu, m, "mx", 1, 128, 8192, (void *[]){&da, &db, &dc, &dsa, &dsb, &none, &none}, NULL);
    emu_read(emu, c, dc, sizeof c);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) {
                int x = a[i][k / 2] >> 4 * (k & 1) & 15, y = b[j][k / 2] >> 4 * (k & 1) & 15;
                double v = values[x & 7] * values[y & 7] * ldexp(1, sa[i][k / 32] + sb[j][k / 32] - 254);
                sum += (x ^ y) & 8 ? -v : v;
            }
            if ((double)c[i][j] != sum) fail_msg("c[%d][%d] = %g, not %g", i, j, (double)c[i][j], sum);
        }
    emu_destroy(emu);
    free(ptx);
}

static bool gemm_breaks(const char *find, const char *replace, EmuFaultKind kind, const char *part) {
    char *ptx = read_file("kernels/gemm_wgmma.ptx"), *at = strstr(ptx, find);
    assert_non_null(at);
    assert_int_equal(strlen(find), strlen(replace));
    for (; at; at = strstr(at + 1, find)) memcpy(at, replace, strlen(find));
    EmuReport r;
    gemm_with(ptx, 128, 256, 512, NULL, &r, false);
    bool found = false;
    for (size_t i = 0; i < r.n_faults; i++) found |= r.faults[i].kind == kind && strstr(r.faults[i].message, part);
    if (!found) emu_report_print(&r, stderr);
    emu_report_free(&r);
    free(ptx);
    return found;
}

static void broken_gemms(void **state) {                 // one change each: the report must name the mistake
    (void)state;
    assert_true(gemm_breaks("wgmma.wait_group.sync.aligned 1", "wgmma.wait_group.sync.aligned 4",
                            EMU_FAULT_MISSING_WAIT, "a wgmma of warp"));
    assert_true(gemm_breaks("wgmma.wait_group.sync.aligned 0", "wgmma.wait_group.sync.aligned 7",
                            EMU_FAULT_MISSING_WAIT, "a register of a wgmma in flight is read"));
    assert_true(gemm_breaks("setmaxnreg.inc.sync.aligned.u32 \t232", "setmaxnreg.inc.sync.aligned.u32 \t248",
                            EMU_FAULT_DEADLOCK, "registers a thread by `setmaxnreg.inc`"));
    assert_true(gemm_breaks("fence.mbarrier_init.release.cluster", "ret                                ",
                            EMU_FAULT_DEADLOCK, "the mbarrier at dynamic shared memory"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_add),  cmocka_unit_test(reductions),   cmocka_unit_test(matmul),
        cmocka_unit_test(hopper_gemm), cmocka_unit_test(broken_gemms), cmocka_unit_test(scaled_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The model against the machine, as test_cost.c, for products of 8 bits that lie with the contracted axis outside: an H200, 2026-11-22
// (bench/results/2026-11-22-h200-bytes.txt). i8 to i32, f8 to bf16; n and t say whether k is inside.
#include "cost_kit.h"

static const char source[] =
    "kernel nn<BM = 128, BN = 128, BK = 128>(a: i8[M, K], b: i8[K, N], c: out i32[M, N]) grid (m in M by BM, n in N by BN)\n"
    "{ var acc = zeros<i32>(m, n);  for k in K by BK { acc += dot(a[m, k], b[k, n]); }  c[m, n] = acc as i32; }\n"
    "kernel tt<BM = 128, BN = 128, BK = 128>(a: i8[K, M], b: i8[N, K], c: out i32[M, N]) grid (m in M by BM, n in N by BN)\n"
    "{ var acc = zeros<i32>(m, n);  for k in K by BK { acc += dot(a[k, m], b[n, k]); }  c[m, n] = acc as i32; }\n"
    "kernel tn<BM = 128, BN = 128, BK = 128>(a: i8[K, M], b: i8[K, N], c: out i32[M, N]) grid (m in M by BM, n in N by BN)\n"
    "{ var acc = zeros<i32>(m, n);  for k in K by BK { acc += dot(a[k, m], b[k, n]); }  c[m, n] = acc as i32; }\n"
    "kernel nn_f8<BM = 128, BN = 128, BK = 128>(a: f8e4m3[M, K], b: f8e4m3[K, N], c: out bf16[M, N]) grid (m in M by BM, n in N by BN)\n"
    "{ var acc = zeros<f32>(m, n);  for k in K by BK { acc += dot(a[m, k], b[k, n]); }  c[m, n] = acc as bf16; }\n"
    "kernel tt_f8<BM = 128, BN = 128, BK = 128>(a: f8e4m3[K, M], b: f8e4m3[N, K], c: out bf16[M, N]) grid (m in M by BM, n in N by BN)\n"
    "{ var acc = zeros<f32>(m, n);  for k in K by BK { acc += dot(a[k, m], b[n, k]); }  c[m, n] = acc as bf16; }\n"
    "kernel tn_f8<BM = 128, BN = 128, BK = 128>(a: f8e4m3[K, M], b: f8e4m3[K, N], c: out bf16[M, N]) grid (m in M by BM, n in N by BN)\n"
    "{ var acc = zeros<f32>(m, n);  for k in K by BK { acc += dot(a[k, m], b[k, n]); }  c[m, n] = acc as bf16; }\n";

// clang-format off
static const Seen seen[] = {
    {"nn", {4096, 4096, 4096}, {{256, 128, 128, 1, 97.8}, {128, 256, 128, 1, 100.2}, {192, 128, 128, 1, 110.4}, {128, 128, 128, 1, 110.8}, {64, 128, 128, 1, 159.9}}},
    {"nn", {8192, 8192, 8192}, {{192, 128, 128, 1, 752.8}, {256, 128, 128, 1, 803.1}, {128, 256, 128, 1, 819.3}, {128, 128, 128, 1, 906.1}, {64, 128, 128, 1, 1367.1}}},
    {"nn", {512, 4096, 4096}, {{128, 128, 128, 1, 19.7}, {192, 128, 128, 1, 23.4}, {128, 256, 128, 1, 24.2}, {256, 128, 128, 1, 24.3}, {64, 128, 128, 1, 27.1}}},
    {"nn", {64, 4096, 4096}, {{64, 128, 128, 1, 12.9}}},
    {"nn_f8", {4096, 4096, 4096}, {{192, 128, 128, 1, 120.4}, {128, 128, 128, 1, 127.0}, {128, 192, 128, 1, 152.0}, {64, 128, 128, 1, 166.1}}},
    {"nn_f8", {8192, 8192, 8192}, {{192, 128, 128, 1, 882.2}, {128, 128, 128, 1, 1055.3}, {128, 192, 128, 1, 1199.6}, {64, 128, 128, 1, 1446.4}}},
    {"nn_f8", {512, 4096, 4096}, {{128, 128, 128, 1, 25.6}, {192, 128, 128, 1, 30.6}, {128, 192, 128, 1, 32.6}, {64, 128, 128, 1, 34.1}}},
    {"nn_f8", {64, 4096, 4096}, {{64, 128, 128, 1, 12.8}}},
    {"tn", {4096, 4096, 4096}, {{256, 128, 128, 1, 122.0}, {128, 128, 128, 1, 155.4}, {128, 256, 128, 1, 159.7}}},
    {"tn", {8192, 8192, 8192}, {{256, 128, 128, 1, 910.0}, {128, 256, 128, 1, 1255.9}, {128, 128, 128, 1, 1261.8}}},
    {"tn", {512, 4096, 4096}, {{128, 128, 128, 1, 25.4}}},            // 64 blocks by larger tiles are faster (26.0, 30.5): they have a higher clock
    {"tn_f8", {4096, 4096, 4096}, {{128, 192, 128, 1, 154.6}, {128, 128, 128, 1, 160.2}}},
    {"tn_f8", {8192, 8192, 8192}, {{128, 192, 128, 1, 1148.7}, {128, 128, 128, 1, 1319.8}}},
    {"tn_f8", {512, 4096, 4096}, {{128, 128, 128, 1, 26.1}, {128, 192, 128, 1, 30.4}}},
};
// clang-format on

static Schedule by_split(const Tile *t) { return (Schedule){.split_k = t->given}; }

static void test_bytes(void **state) {
    World w = world_of(source);
    (void)state;
    model_holds(&w, seen, sizeof seen / sizeof *seen, by_split, (Margins){0.4, 0.12, 0.03});
    session_free(w.s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

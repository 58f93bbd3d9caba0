// mma.sync in every type and shape, and the matrix moves, against sums over fragments built from the manual's
// formulas. Values are small integers, so that all sums are exact.
#include "kit.h"

typedef struct Case { const char *shape, *d, *a, *b, *c; int m, k, bits; } Case;

static u64 encode(const char *type, int v) {
    if (!strcmp(type, "f16")) return f16_from_f32((float)v);
    if (!strcmp(type, "bf16")) return bf16_from_f32((float)v);
    if (!strcmp(type, "tf32")) return f32_bits((float)v);
    if (!strcmp(type, "e4m3")) return e4m3_from_f32((float)v);
    if (!strcmp(type, "e5m2")) return e5m2_from_f32((float)v);
    if (!strcmp(type, "f64")) return f64_bits((double)v);
    return (u64)v;
}

static int value(const char *type, int i, int k, int salt) {
    int v = (i * 7 + k * 5 + salt) % 9 - 4;
    return type[0] == 'u' ? v + 4 : v;                   // exact in e5m2 too
}

static const Case cases[] = {
    {"m16n8k8",  "f32", "f16",  "f16",  "f32", 16, 8, 16},  {"m16n8k16", "f32", "f16",  "f16",  "f32", 16, 16, 16}, {"m16n8k16", "f16", "f16",  "f16",  "f16", 16, 16, 16},
    {"m16n8k8",  "f16", "f16",  "f16",  "f16", 16, 8, 16},  {"m16n8k8",  "f32", "bf16", "bf16", "f32", 16, 8, 16},  {"m16n8k16", "f32", "bf16", "bf16", "f32", 16, 16, 16},
    {"m16n8k4",  "f32", "tf32", "tf32", "f32", 16, 4, 32},  {"m16n8k8",  "f32", "tf32", "tf32", "f32", 16, 8, 32},  {"m16n8k32", "f32", "e4m3", "e5m2", "f32", 16, 32, 8},
    {"m16n8k32", "f32", "e5m2", "e4m3", "f32", 16, 32, 8},  {"m16n8k16", "s32", "s8",   "u8",   "s32", 16, 16, 8},  {"m16n8k32", "s32", "u8",   "s8",   "s32", 16, 32, 8},
    {"m16n8k32", "s32", "s8",   "s8",   "s32", 16, 32, 8},  {"m8n8k16",  "s32", "s8",   "s8",   "s32", 8, 16, 8},   {"m16n8k64", "s32", "s4",   "u4",   "s32", 16, 64, 4},
    {"m8n8k4",   "f64", "f64",  "f64",  "f64", 8, 4, 64},   {"m16n8k4",  "f64", "f64",  "f64",  "f64", 16, 4, 64},  {"m16n8k8",  "f64", "f64",  "f64",  "f64", 16, 8, 64},
    {"m16n8k16", "f64", "f64",  "f64",  "f64", 16, 16, 64},
};

static void mma_case(const Case *t) {
    int words = t->bits == 64 ? 2 : 1, e = t->bits == 64 ? 1 : 32 / t->bits, na = t->m * t->k / 32 / e,
        nb = 8 * t->k / 32 / e, half = !strcmp(t->d, "f16");
    int values = t->m / 4, nc = half ? values / 2 : values, total = na + nb + nc;
    u64 in[32][32] = {{0}}, out[32][8];
    for (int l = 0; l < 32; l++) {
        for (int r = 0; r < na; r++)
            for (int h = 0; h < e; h++) {
                int row = l / 4 + (t->m == 16 ? 8 * (r & 1) : 0), k = e * (l % 4) + h + 4 * e * (t->m == 16 ? r >> 1 : r);
                u64 mask = t->bits == 64 ? ~0ull : (1ull << t->bits) - 1;
                in[l][r] |= (encode(t->a, value(t->a, row, k, 0)) & mask) << (t->bits * h & 63);
            }
        for (int r = 0; r < nb; r++)
            for (int h = 0; h < e; h++) {
                u64 mask = t->bits == 64 ? ~0ull : (1ull << t->bits) - 1;
                in[l][na + r] |= (encode(t->b, value(t->b, l / 4, e * (l % 4) + h + 4 * e * r, 3)) & mask)
                                 << (t->bits * h & 63);
            }
        for (int i = 0; i < values; i++) {
            int c = (l / 4 + 8 * (i >> 1)) * 8 + 2 * (l % 4) + (i & 1) - 50;
            u64 bits = !strcmp(t->c, "f32")   ? f32_bits((float)c)
                       : !strcmp(t->c, "f64") ? f64_bits((double)c)
                       : half                 ? f16_from_f32((float)c)
                                              : (u64)(u32)c;
            in[l][na + nb + (half ? i / 2 : i)] |= bits << (half ? 16 * (i & 1) : 0);
        }
    }
    char ptx[12000];
    int at = sprintf(
        ptx,
        HEAD
        ".visible .entry k(.param .u64 in, .param .u64 out) {\n.reg .b%d %%x<%d>; .reg .b%d %%d<8>; .reg .b32 %%r0; .reg .b64 %%rd<4>;\n"
        "mov.u32 %%r0, %%tid.x; mul.wide.u32 %%rd0, %%r0, 256; ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out]; add.s64 %%rd1, %%rd1, %%rd0; mul.wide.u32 %%rd0, %%r0, 64; add.s64 %%rd2, %%rd2, %%rd0;\n",
        32 * words, total + 1, 32 * words);
    for (int i = 0; i < total; i++) at += sprintf(ptx + at, "ld.global.b%d %%x%d, [%%rd1+%d];\n", 32 * words, i, 8 * i);
    at += sprintf(ptx + at, "mma.sync.aligned.%s.row.col.%s.%s.%s.%s ", t->shape, t->d, t->a, t->b, t->c);
    for (int part = 0, x = 0; part < 4; part++) {
        int n = part == 0 ? nc : part == 1 ? na : part == 2 ? nb : nc;
        at += sprintf(ptx + at, "{");
        for (int i = 0; i < n; i++) at += sprintf(ptx + at, "%s%%%c%d", i ? "," : "", part ? 'x' : 'd', part ? x++ : i);
        at += sprintf(ptx + at, part < 3 ? "}," : "};\n");
    }
    for (int i = 0; i < nc; i++) at += sprintf(ptx + at, "st.global.b%d [%%rd2+%d], %%d%d;\n", 32 * words, 8 * i, i);
    sprintf(ptx + at, "ret; }\n");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    memset(out, 0, sizeof out);
    u64 din = device(emu, "in", in, sizeof in), dout = device(emu, "out", out, sizeof out);
    run_clean(emu, m, "k", 1, 32, 0, (void *[]){&din, &dout}, NULL);
    emu_read(emu, out, dout, sizeof out);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < values; i++) {
            int row = l / 4 + 8 * (i >> 1), col = 2 * (l % 4) + (i & 1), want = row * 8 + col - 50;
            for (int k = 0; k < t->k; k++) want += value(t->a, row, k, 0) * value(t->b, col, k, 3);
            u64 got = out[l][half ? i / 2 : i];
            double have = half                   ? (double)f16_to_f32((uint16_t)(got >> 16 * (i & 1)))
                          : !strcmp(t->d, "f32") ? (double)f32_from((u32)got)
                          : !strcmp(t->d, "f64") ? f64_from(got)
                                                 : (double)(int32_t)got;
            if (have != want) fail_msg("%s %s %s: d[%d][%d] = %g, not %d", t->shape, t->a, t->b, row, col, have, want);
        }
    emu_destroy(emu);
}

static void products(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) mma_case(&cases[i]);
}

// Four 8x8 matrices in, moved about, out again: ldmatrix.trans, movmatrix and stmatrix(.trans).
static void matrices(void **state) {
    (void)state;
    static const char ptx[] = HEAD
        ".visible .entry k(.param .u64 in, .param .u64 out) {\n.shared .align 16 .b8 s[1024]; .reg .b32 %r<16>; .reg .b64 %rd<4>;\n"
        "mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 16; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0; shl.b32 %r1, %r0, 4; mov.u32 %r2, s; add.s32 %r1, %r1, %r2;\n"
        "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd1]; st.shared.v4.b32 [%r1], {%r4, %r5, %r6, %r7}; bar.warp.sync -1;\n"
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r8, %r9, %r10, %r11}, [%r1]; movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r9; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10, %r11}, [%r1+256];\n"
        "bar.warp.sync -1; stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r1+512], {%r8, %r9}; stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r1+768], {%r11, %r10}; bar.warp.sync -1; ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r1+512]; st.global.v4.b32 [%rd2], {%r4, %r5, %r6, %r7}; ret; }\n";
    uint16_t in[4][8][8], out[4][8][8];
    for (int i = 0; i < 256; i++) ((uint16_t *)in)[i] = (uint16_t)(i * 3 + 1);
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 din = device(emu, "in", in, sizeof in), dout = device(emu, "out", NULL, sizeof out);
    run_clean(emu, m, "k", 1, 32, 0, (void *[]){&din, &dout}, NULL);
    emu_read(emu, out, dout, sizeof out);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) {
            assert_int_equal(out[0][r][c], in[0][r][c]);         // transposed twice
            assert_int_equal(out[1][r][c], in[1][c][r]);         // three times
            assert_int_equal(out[2][r][c], in[3][r][c]);
            assert_int_equal(out[3][r][c], in[2][r][c]);
        }
    emu_destroy(emu);
}

// Elements of 8 bits: 16x16 transposed, and rows of 4 and 6 bits.
static void bytes(void **state) {
    (void)state;
    static const char ptx[] = ".version 8.8\n.target sm_120a\n.address_size 64\n"
        ".visible .entry k(.param .u64 in, .param .u64 out) {\n.shared .align 16 .b8 s[512]; .reg .b32 %r<16>; .reg .b64 %rd<4>;\n"
        "mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 16; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0; add.s64 %rd2, %rd2, %rd0; shl.b32 %r1, %r0, 4; mov.u32 %r2, s; add.s32 %r1, %r1, %r2;\n"
        "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd1]; st.shared.v4.b32 [%r1], {%r4, %r5, %r6, %r7}; bar.warp.sync -1;\n"
        "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r4, %r5, %r6, %r7}, [%r1]; st.global.v4.b32 [%rd2], {%r4, %r5, %r6, %r7};\n"
        "ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64 {%r4, %r5}, [%r1]; ldmatrix.sync.aligned.m8n16.x1.shared::cta.b8x16.b6x16_p32 {%r6}, [%r1];\n"
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b6x16_p32 {%r7, %r8}, [%r1]; xor.b32 %r7, %r7, %r8; st.global.v4.b32 [%rd2+16], {%r4, %r5, %r6, %r7}; ret; }\n";
    uint8_t in[32][16];
    u32 out[32][8];
    for (int i = 0; i < 512; i++) in[i / 16][i % 16] = (uint8_t)(i * 37 + i / 16);
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 din = device(emu, "in", in, sizeof in), dout = device(emu, "out", NULL, sizeof out);
    run_clean(emu, m, "k", 1, 32, 0, (void *[]){&din, &dout}, NULL);
    emu_read(emu, out, dout, sizeof out);
    for (int l = 0; l < 32; l++)
        for (int h = 0; h < 4; h++) {
            int row = l / 4, col = 4 * (l % 4) + h;
#define SIX(r, c) (in[r][6 * (c) / 8] >> 6 * (c) % 8 | (6 * (c) % 8 > 2 ? in[r][6 * (c) / 8 + 1] << (8 - 6 * (c) % 8) : 0)) & 63
            for (int i = 0; i < 4; i++) assert_int_equal(out[l][i] >> 8 * h & 255, in[16 * (i / 2) + col][row + 8 * (i & 1)]);
            for (int i = 0; i < 2; i++) assert_int_equal(out[l][4 + i] >> 8 * h & 255, in[8 * i + row][col / 2] >> 4 * (col & 1) & 15);
            assert_int_equal(out[l][6] >> 8 * h & 255, SIX(row, col));
            assert_int_equal(out[l][7] >> 8 * h & 255, (SIX(col, row)) ^ (SIX(col, row + 8)));
        }
    emu_destroy(emu);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(matrices), cmocka_unit_test(bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// wmma in every shape and type: loaded by rows or columns, multiplied, stored; small integers, so that all sums are exact.
#include "kit.h"

typedef struct Case { const char *shape, *ab, *c; int m, n, k, bits, a, b, cd; const char *op; } Case;   // a, b, cd: registers

static const Case cases[] = {
    {"m16n16k16", "f16",  "f32", 16, 16, 16, 16, 8, 8, 8, ""}, {"m16n16k16", "f16",  "f16", 16, 16, 16, 16, 8, 8, 4, ""}, {"m8n32k16", "f16", "f32", 8, 32, 16, 16, 8, 8, 8, ""},
    {"m32n8k16",  "f16",  "f16", 32, 8, 16, 16, 8, 8, 4, ""},  {"m16n16k16", "bf16", "f32", 16, 16, 16, 16, 4, 4, 8, ""}, {"m8n32k16", "bf16", "f32", 8, 32, 16, 16, 2, 8, 8, ""},
    {"m32n8k16",  "bf16", "f32", 32, 8, 16, 16, 8, 2, 8, ""},  {"m16n16k16", "s8",   "s32", 16, 16, 16, 8, 2, 2, 8, ""},  {"m8n32k16", "u8",  "s32", 8, 32, 16, 8, 1, 4, 8, ""},
    {"m32n8k16",  "s8",   "s32", 32, 8, 16, 8, 4, 1, 8, ""},   {"m16n16k8",  "tf32", "f32", 16, 16, 8, 32, 4, 4, 8, ""},  {"m8n8k4",   "f64", "f64", 8, 8, 4, 64, 1, 1, 2, ""},
    {"m8n8k32",   "s4",   "s32", 8, 8, 32, 4, 1, 1, 2, ""},    {"m8n8k32",   "u4",   "s32", 8, 8, 32, 4, 1, 1, 2, ""},    {"m8n8k128", "b1",  "s32", 8, 8, 128, 1, 1, 1, 2, ".xor.popc"},
};

static int value(const Case *t, int i, int k, int salt) {
    int v = (i * 7 + k * 5 + salt) % 7;
    return t->bits == 1 ? v & 1 : t->ab[0] == 'u' ? v : v - 3;
}

static u64 encode(const char *type, int v) {
    return !strcmp(type, "f16") ? f16_from_f32((float)v) : !strcmp(type, "bf16") ? bf16_from_f32((float)v) : !strcmp(type, "f64") ? f64_bits((double)v)
         : type[0] == 'f' || type[0] == 't' ? f32_bits((float)v) : (u64)(u32)v;
}

static void put(uint8_t *bytes, int element, int bits, u64 v) {
    if (bits >= 8) memcpy(bytes + element * bits / 8, &v, (size_t)bits / 8);
    else bytes[element * bits / 8] |= (uint8_t)((v & ((1u << bits) - 1)) << element * bits % 8);
}

static int list(char *out, char name, int n, const char *end) {
    int at = sprintf(out, "{");
    for (int i = 0; i < n; i++) at += sprintf(out + at, "%s%%%c%d", i ? "," : "", name, i);
    return at + sprintf(out + at, "}%s", end);
}

static void product(const Case *t, bool a_columns, bool b_columns, bool c_columns, bool shared) {
    enum { ROOM = 4096 };
    static uint8_t in[3][ROOM], out[ROOM];
    memset(in, 0, sizeof in);
    int cbits = !strcmp(t->c, "f16") ? 16 : !strcmp(t->c, "f64") ? 64 : 32;
    int lda = a_columns ? t->m : t->k, ldb = b_columns ? t->k : t->n, ldc = (c_columns ? t->m : t->n) + 8;
    for (int k = 0; k < t->k; k++) {
        for (int i = 0; i < t->m; i++) put(in[0], a_columns ? k * lda + i : i * lda + k, t->bits, encode(t->ab, value(t, i, k, 0)));
        for (int j = 0; j < t->n; j++) put(in[1], b_columns ? j * ldb + k : k * ldb + j, t->bits, encode(t->ab, value(t, j, k, 3)));
    }
    for (int i = 0; i < t->m; i++)
        for (int j = 0; j < t->n; j++) put(in[2], c_columns ? j * ldc + i : i * ldc + j, cbits, encode(t->c, i * 3 - j));
    char ptx[4000];
    const char *ra = t->bits == 64 ? "f64" : "b32", *rc = cbits == 64 ? "f64" : "b32";
    int at = sprintf(ptx, HEAD ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u32 lda, .param .u32 ldb, .param .u32 ldc) {\n"
                     ".reg .%s %%a<8>, %%b<8>; .reg .%s %%c<8>; .reg .b32 %%r<8>; .reg .b64 %%x<8>; .shared .align 32 .b8 s[2048];\n"
                     "ld.param.u64 %%x1, [a]; ld.param.u64 %%x2, [b]; ld.param.u64 %%x3, [c]; ld.param.u64 %%x4, [d]; ld.param.u32 %%r1, [lda]; ld.param.u32 %%r2, [ldb]; ld.param.u32 %%r3, [ldc];\n", ra, rc);
    if (shared)                                          // a by way of shared memory, 64 bytes a lane
        at += sprintf(ptx + at, "mov.u32 %%r4, %%laneid; mul.wide.u32 %%x5, %%r4, 64; add.s64 %%x1, %%x1, %%x5; shl.b32 %%r4, %%r4, 6; mov.u32 %%r5, s; add.s32 %%r4, %%r4, %%r5; mov.u32 %%r6, 0;\n"
                                "L: .reg .pred p; ld.global.b32 %%r7, [%%x1]; st.shared.b32 [%%r4], %%r7; add.s64 %%x1, %%x1, 4; add.s32 %%r4, %%r4, 4; add.s32 %%r6, %%r6, 1; setp.lt.u32 p, %%r6, 16; @p bra L;\n"
                                "bar.warp.sync -1;\n");
    at += sprintf(ptx + at, "wmma.load.a.sync.aligned.%s.%s%s.%s ", a_columns ? "col" : "row", t->shape, shared ? ".shared" : ".global", t->ab);
    at += list(ptx + at, 'a', t->a, shared ? ", [s], %r1;\n" : ", [%x1], %r1;\n");
    at += sprintf(ptx + at, "wmma.load.b.sync.aligned.%s.%s.%s ", b_columns ? "col" : "row", t->shape, t->ab);
    at += list(ptx + at, 'b', t->b, ", [%x2+0];\n");
    at += sprintf(ptx + at, "wmma.load.c.sync.aligned.%s.%s.%s ", c_columns ? "col" : "row", t->shape, t->c);
    at += list(ptx + at, 'c', t->cd, ", [%x3], %r3;\n");
    bool f16 = !strcmp(t->ab, "f16");
    at += sprintf(ptx + at, "wmma.mma%s.sync.aligned.%s.%s.%s.%s", t->op, a_columns ? "col" : "row", b_columns ? "col" : "row", t->shape, t->c);
    if (!f16) at += sprintf(ptx + at, ".%s.%s", t->ab, t->ab);
    at += sprintf(ptx + at, ".%s ", t->c);
    at += list(ptx + at, 'c', t->cd, ", ");
    at += list(ptx + at, 'a', t->a, ", ");
    at += list(ptx + at, 'b', t->b, ", ");
    at += list(ptx + at, 'c', t->cd, ";\n");
    at += sprintf(ptx + at, "wmma.store.d.sync.aligned.%s.%s.global.%s [%%x4], ", c_columns ? "col" : "row", t->shape, t->c);
    at += list(ptx + at, 'c', t->cd, ", %r3; ret; }\n");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 d[4] = {device(emu, "a", in[0], ROOM), device(emu, "b", in[1], ROOM), device(emu, "c", in[2], ROOM), device(emu, "d", NULL, ROOM)};
    run_clean(emu, m, "k", 1, 32, 0, (void *[]){&d[0], &d[1], &d[2], &d[3], &lda, &ldb, &ldc}, NULL);
    emu_read(emu, out, d[3], ROOM);
    for (int i = 0; i < t->m; i++)
        for (int j = 0; j < t->n; j++) {
            int want = i * 3 - j;
            for (int k = 0; k < t->k; k++) {
                int x = value(t, i, k, 0), y = value(t, j, k, 3);
                want += t->bits == 1 ? x ^ y : x * y;
            }
            u64 got = 0, bits = encode(t->c, want);
            memcpy(&got, out + (c_columns ? j * ldc + i : i * ldc + j) * cbits / 8, (size_t)cbits / 8);
            if (got != bits) fail_msg("%s of %s to %s: d[%d][%d] is %llx, not %d", t->shape, t->ab, t->c, i, j, (unsigned long long)got, want);
        }
    emu_destroy(emu);
}

static void products(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int layout = 0; layout < 8; layout++)
            if (cases[i].bits >= 8 || (layout & 3) == 2) product(&cases[i], layout & 1, layout & 2, layout & 4, i & 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

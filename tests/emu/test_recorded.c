// Products of the tensor cores as an H200 gave them: kernels/products.txt, a line a case, each an instruction over random data that the
// case's name makes. Values are small integers, so that all sums are exact in whatever order; integers, bits and metadata are any.
//
//     spo_m16n8k8_f32_tf32_tf32_0  6c07..  4  0  tf32*4 cf32*4 meta12 | mma.sp::ordered_metadata... {%d0, ..}, {%x0, %x1}, ...
//     name, hash of the results, words that it leaves in %d, how far apart groups of 8 columns of B lie (wgmma; else 0), words %x of
//     a thread | the instruction
//
// wgmma takes its first four words, and those up to the metadata or the sums, from shared memory.
#include "kit.h"

enum { MOST_WORDS = 24 };
typedef struct Recorded { char name[64], text[512], kind[MOST_WORDS][12]; u64 hash; int words, outputs, sbo; } Recorded;

static u64 next(u64 *s) {                                // splitmix64
    u64 z = (*s += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static u64 fnv(const void *bytes, size_t n) {
    u64 h = 14695981039346656037ull;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 1099511628211ull;
    return h;
}

static float small(u64 z, int i) { return (float)((int)(z >> 8 * i & 0xff) % 7 - 3); }

static u32 word(const char *kind, u64 z) {
    static const u32 pairs[] = {0x4, 0x8, 0xc, 0x9, 0xd, 0xe};
    u32 w = 0;
    if (!strcmp(kind, "f16")) return f16_from_f32(small(z, 0)) | (u32)f16_from_f32(small(z, 1)) << 16;
    if (!strcmp(kind, "bf16")) return bf16_from_f32(small(z, 0)) | (u32)bf16_from_f32(small(z, 1)) << 16;
    if (!strcmp(kind, "tf32")) return f32_bits(small(z, 0)) | (u32)(z >> 32 & 0x1fff);            // with bits that do not count
    if (!strcmp(kind, "cf32")) return f32_bits((float)((int)(z & 0xff) - 128));
    if (!strcmp(kind, "cf16")) return f16_from_f32((float)((int)(z & 0x7f) - 64)) | (u32)f16_from_f32((float)((int)(z >> 8 & 0x7f) - 64)) << 16;
    for (int i = 0; i < 8; i++) {
        u32 pair = pairs[(z >> 8 * i & 0xff) % 6], any = pairs[(z >> 8 * i & 0x7f) % 6];
        if (!strcmp(kind, "meta24")) w |= pair << 4 * i;
        else if (!strcmp(kind, "meta24u")) w |= (z >> 8 * i & 0x80 ? any : (any << 2 & 12) | any >> 2) << 4 * i;      // in no order
        else if (!strcmp(kind, "meta12")) w |= (z >> i & 1 ? 0xeu : 0x4u) << 4 * i;
        else if (i < 4 && !strcmp(kind, "e4m3")) w |= (u32)e4m3_from_f32(small(z, i)) << 8 * i;
        else if (i < 4 && !strcmp(kind, "e5m2")) w |= (u32)e5m2_from_f32(small(z, i)) << 8 * i;
    }
    return w || kind[0] == 'm' || kind[0] == 'e' ? w : (u32)z;
}

static bool read_case(char *line, Recorded *r) {
    char *bar = strstr(line, " | "), *kinds;
    unsigned long long hash;
    int at = 0, count, used;
    *r = (Recorded){0};
    if (line[0] == '#' || !bar) return false;
    *bar = 0;
    snprintf(r->text, sizeof r->text, "%s", bar + 3);
    assert_int_equal(sscanf(line, "%63s %llx %d %d %n", r->name, &hash, &r->outputs, &r->sbo, &at), 4);
    r->hash = hash;
    kinds = line + at;
    for (char kind[12]; sscanf(kinds, "%11[a-z0-9]%n", kind, &used) == 1; kinds += strspn(kinds, " ")) {
        kinds += used;
        count = 1;
        if (*kinds == '*') count = (int)strtol(kinds + 1, &kinds, 10);
        while (count--) memcpy(r->kind[r->words++], kind, sizeof kind);
    }
    return true;
}

static int descriptor(char *ptx, const char *name, int offset, int lbo, int sbo) {
    return sprintf(ptx, "add.s32 %%t, %%s, %d; shr.u32 %%t, %%t, 4; and.b32 %%t, %%t, 0x3fff; cvt.u64.u32 %%%s, %%t; or.b64 %%%s, %%%s, %lld;\n", offset, name, name, name,
                   (long long)(lbo >> 4) << 16 | (long long)(sbo >> 4) << 32);
}

static void run_case(const Recorded *r) {
    static u32 in[MOST_WORDS * 128], out[MOST_WORDS * 128];
    static char ptx[8000];
    u32 threads = r->sbo ? 128 : 32;
    u64 seed = fnv(r->name, strlen(r->name));
    for (u32 i = 0; i < (u32)r->words * threads; i++) in[i] = word(r->kind[i / threads], next(&seed));
    int at = sprintf(ptx, HEAD ".visible .entry k(.param .u64 in, .param .u64 out) {\n.shared .align 128 .b8 smem[8192]; .reg .b32 %%x<%d>, %%d<%d>, %%t, %%t0, %%s; .reg .b64 %%i, %%o, %%l, %%da, %%db;\n"
                     "ld.param.u64 %%i, [in]; ld.param.u64 %%o, [out]; mov.u32 %%t, %%tid.x; shl.b32 %%t0, %%t, 2; cvt.u64.u32 %%l, %%t0; add.s64 %%i, %%i, %%l; add.s64 %%o, %%o, %%l; mov.u32 %%s, smem; add.u32 %%t0, %%t0, %%s;\n",
                     r->words, r->outputs);
    for (int i = 0; i < r->words; i++) at += sprintf(ptx + at, "ld.global.b32 %%x%d, [%%i+%u];\n", i, 4 * threads * (u32)i);
    if (r->sbo) {
        int n = 4, first = r->words - r->outputs;
        while (n < first && r->kind[n][0] != 'm') n++;
        for (int i = 0; i < n; i++) at += sprintf(ptx + at, "st.shared.b32 [%%t0+%d], %%x%d;\n", 512 * i, i);
        at += sprintf(ptx + at, "fence.proxy.async.shared::cta; bar.sync 0;\n");
        at += descriptor(ptx + at, "da", 0, 128, 256);
        at += descriptor(ptx + at, "db", 2048, 128, r->sbo);
        for (int i = 0; i < r->outputs; i++) at += sprintf(ptx + at, "mov.b32 %%d%d, %%x%d;\n", i, first + i);
        at += sprintf(ptx + at, "wgmma.fence.sync.aligned; %s; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n", r->text);
    } else at += sprintf(ptx + at, "%s;\n", r->text);
    for (int i = 0; i < r->outputs; i++) at += sprintf(ptx + at, "st.global.b32 [%%o+%u], %%d%d;\n", 4 * threads * (u32)i, i);
    sprintf(ptx + at, "ret; }\n");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    size_t bytes = 4 * threads * (size_t)r->outputs;
    u64 din = device(emu, "in", in, 4 * threads * (size_t)r->words), dout = device(emu, "out", NULL, bytes);
    run_clean(emu, m, "k", 1, threads, 0, (void *[]){&din, &dout}, NULL);
    emu_read(emu, out, dout, bytes);
    emu_destroy(emu);
    if (fnv(out, bytes) != r->hash) fail_msg("%s: %016llx, not what the GPU gave\n%s", r->name, (unsigned long long)fnv(out, bytes), r->text);
}

static void products(void **state) {
    (void)state;
    char *all = read_file("kernels/products.txt");
    int n = 0;
    for (char *line = strtok(all, "\n"); line; line = strtok(NULL, "\n")) {
        Recorded r;
        if (!read_case(line, &r)) continue;
        run_case(&r);
        n++;
    }
    assert_true(n > 100);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

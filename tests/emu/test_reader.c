// Reading PTX: errors with their line and words, odd but legal text, and text that nobody meant.
#include "kit.h"

static void refuses(const char *ptx, const char *message) {
    EmuContext *emu = emu_create();
    EmuModule *m = emu_load(emu, ptx, strlen(ptx));
    if (m) fail_msg("accepted, but should say: %s", message);
    if (!strstr(emu_message(emu), message)) fail_msg("says `%s`, not `%s`", emu_message(emu), message);
    emu_destroy(emu);
}

#define ENTRY(body) ".visible .entry k(.param .u64 x) {\n.reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p;\n" body "\nret;\n}\n"
#define K(body) HEAD ENTRY(body)

static void errors(void **state) {
    (void)state;
    refuses(K("frobnicate.b32 %r1, %r2;"), "line 6: unknown instruction `frobnicate.b32`");
    refuses(K("add.s32.banana %r1, %r2, %r3;"),
            "line 6: unknown instruction `add.s32.banana` (`.banana` is not supported here)");
    refuses(K("\nadd.s32 %r1, %r2, %r9;"), "line 7: register `%r9` is not declared");
    refuses(K("add.s32 %r1, %r2;"), "line 6: `add` takes 3 operands, not 2");
    refuses(K("add.s64 %r1, %rd1, %rd2;"), "line 6: `%r1` has type .b32, and `add` needs .s64 here");
    refuses(K("bra NOWHERE;"), "line 6: label `NOWHERE` is not defined");
    refuses(K("L: L:"), "line 6: `L` is declared twice");
    refuses(K(".reg .b32 %r<7>;"), "line 6: `%r` is declared twice");
    refuses(K(".pragma \"nounroll\" { ret; }"), "line 6: expected `;`, not `{`");
    refuses(K("mov.u32 %r1, 12x;"), "line 6: `12x` is not a number");
    refuses(K("mov.u32 %r1, 1 ? 2;"), "line 6: expected `:`");
    refuses(K(".reg .v2 .b32 v; mov.b32 %r1, v.z;"), "line 6: `v` has no part `.z`");
    refuses(K("mov.v4.u32 {%r1, %r2}, %tid;"), "line 6: `mov.v4` needs two vectors of 4");
    refuses(K("ld.global.u32 %r1, [nothing];"), "line 6: `nothing` is not declared");
    refuses(K("call.uni missing, ();"), "line 6: `missing` is not a function");
    refuses(K("setmaxnreg.inc.sync.aligned.u32 28;"), "a multiple of 8 from 24 to 256, not 28");
    refuses(K("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [x], 128;"), "line 6:");
    refuses(K("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%r1}, %rd1, %rd2, %p;"),
            "`wgmma.m64n40k32` of .s32.s8.s8 does not exist");
    refuses(HEAD ".visible .entry k() { ret;", "expected `}` before the end of the text");
    refuses(".version 8.8\n.address_size 64\n", "line 1: no `.target`");
    refuses(".version 8.8\n.target sm_90\n.address_size 32\n", "line 3: only 64-bit addresses");
    refuses(HEAD ".func f();\n.visible .entry k() {\n call.uni f, ();\n ret; }", "line 6: function `f` has no body");
    refuses(HEAD ".extern .func __nv_f();\n.visible .entry k() {\n call.uni __nv_f, ();\n ret; }", "`__nv_f` has no body; it is of libdevice");
    refuses(HEAD ".extern .func f();\n.visible .entry k() {\n call.uni f, ();\n ret; }", "line 6: function `f` has no body; nothing is linked");
    refuses(HEAD ".visible .entry one() { ret; }\n" ENTRY("mov.u64 %rd1, one;"), "line 7: `one` is a kernel: others do not launch it here");
    refuses(".version -.8\n.target sm_90\n", "line 1: there is no such version of PTX");
    refuses(HEAD ".func f();\n.func g();\n.alias f, g;", "line 6: an alias needs a function without a body, and one with");
    refuses(HEAD ".func f();\n.func g(.param .b32 x) { ret; }\n.alias f, g;", "line 6: an alias of a function with other parameters");
    refuses(HEAD ".alias f, g;", "line 4: `f` is not a function");
    refuses(HEAD ".func (.reg .b32 r) f(.reg .b32 a) { ret; }\n" ENTRY("call (%r1), f, (%rd1);"), "is larger than its parameter");
    refuses(HEAD ".extern .func (.param .b32 r) malloc(.param .b32 n);\n" ENTRY("{ .param .b32 a; .param .b32 b; call (b), malloc, (a); }"),
            "`malloc` takes other arguments");
    refuses(K("alloca.u64 %rd1, %rd2, 3;"), "line 6: an alignment of 3");
    refuses(K("tensormap.replace.tile.box_dim.global.b1024.b32 [%rd1], 5, 3;"), "line 6: `tensormap.replace` of .box_dim 5");
    refuses(K("tex.2d.v4.f32.f32 {%r1, %r1, %r1, %r1}, [%rd1, {%r2, %r3}];"), "line 6: `tex.2d.v4.f32.f32`: textures are not supported");
    refuses(K("multimem.st.global.u32 [%rd1], %r1;"), "accesses to several devices' memory are not supported");
    refuses(K("wmma.load.a.sync.aligned.row.m16n16k16.f64 {%rd1}, [%rd2];"), "line 6: `wmma` of m16n16k16 has no .f64 there");
    refuses(K("vadd.s32.s32.s32 %r1, %r2.b4, %r3;"), "line 6: `.b4` selects nothing here");
    refuses(K("vshl.u32.u32.u32 %r1, %r2, %r3;"), "line 6: `vshl` needs .clamp or .wrap");
    refuses(K("vmad.u32.u32.u32.po %r1, -%r2, %r3, %r1;"), "line 6: `vmad.po` negates nothing");
    refuses(HEAD ".visible .entry k() { .reg .f32 %f<4>; .reg .s32 %s<4>; add.s32 %s1, %f1, %s2; ret; }", "line 4: `%f1` has type .f32, and `add` needs .s32 here");
    refuses(HEAD ".visible .entry k() { .reg .f32 %f<4>; .reg .u32 %u<4>; .reg .b16 %h<4>; fma.rn.f32 %u1, %f1, %f2, %f3; ret; }", "`%u1` has type .u32, and `fma` needs .f32 here");
    refuses(HEAD ".visible .entry k() { .reg .b16 %h<4>; .reg .b32 %r<4>; and.b32 %r1, %r2, %h1; ret; }", "`%h1` has type .b16, and `and` needs .b32 here");
    refuses(K("bfe.b64 %rd1, %rd2, %r1, %r2;"), "line 6: `bfe` of .b64 does not exist");
    refuses(K("cvt.f32.e4m3 %r1, %r2;"), "line 6: `cvt` of .f32.e4m3 does not exist; its types are .u8 .u16");
    refuses(K("atom.global.add.b32 %r1, [%rd1], %r2;"), "line 6: `atom` of .b32 does not exist; its types are .u32 .u64 .s32 .f16");
    refuses(K("mul24.u32 %r1, %r2, %r3;"), "line 6: `mul24` needs one of these modifiers: lo hi");
    refuses(K("mad.f32 %r1, %r2, %r3, %r1;"), "`mad` needs one of these modifiers: rn rz rm rp");
    refuses(K("ld.global.b64 %r1, [%rd1];"), "`%r1` has type .b32, and `ld` needs .b64 here");
    refuses(K("mov.b32 %rd1, %r1;"), "`%rd1` has type .b64, and `mov` needs .b32 here");
    refuses(K("cvt.rn.bf16.f32 %r2, %r1;"), "`%r2` has type .b32, and `cvt` needs .bf16 here");
    refuses(HEAD ".visible .entry k() { .reg .f64 %d<2>; .reg .b64 %a<2>; ld.global.f32 %d1, [%a1]; ret; }", "`%d1` has type .f64, and `ld` needs .f32 here");
    refuses(K("add.u32 %r1, %r2, %tid.x;"), "line 6: `%tid.x` is read by `mov` alone");
    refuses(K("sub.u64 %rd1, %clock64, %rd2;"), "`%clock64` is read by `mov` alone");
    refuses(K(".shared .b32 s; add.u32 %r1, %r2, s;"), "`s` is a variable: `mov` takes its address to a register first");
    refuses(K("add.s32 %r1, %r2, 1.5;"), "a float constant where .s32 is needed");
    refuses(K("mov.f32 %r1, 1;"), "a constant of .f32 is a float, like 0f3F800000 or 1.0");
    refuses(K("mov.b64 %rd1, 0f3F800000;"), "a constant of .f32 where .b64 is needed");
    refuses(K("add.f16x2 %r1, %r2, 5;"), "there are no constants of .f16x2");
    refuses(K("cvt.s32.f32 %r1, %r2;"), "`cvt` of .s32.f32 needs .rni, .rzi, .rmi or .rpi");
    refuses(K("cvt.f32.s32 %r1, %r2;"), "`cvt` of .f32.s32 needs .rn, .rz, .rm or .rp");
    refuses(K("cvt.rn.s64.s32 %rd1, %r2;"), "`cvt` of .s64.s32 needs no rounding");
    refuses(K("cvt.f16x2.f32 %r1, %r2, %r3;"), "`cvt` to .f16x2 needs a rounding, as .rn");
    refuses(K("ld.acquire.b32 %r1, [%rd1];"), "`ld` needs a scope beside its order");
    refuses(K("st.gpu.b32 [%rd1], %r1;"), "`st` needs an order beside its scope");
    refuses(K("red.add.f16x2 [%rd1], %r1;"), "`red` of .f16x2 needs .noftz");
    refuses(K("atom.and.or.b32 %r1, [%rd1], %r2;"), "`atom` is .and or .or, not both");
    refuses(HEAD ".visible .entry k() { .reg .f64 %d<2>; .reg .b32 %r<2>; ld.global.b32 %r1, [%d1]; ret; }", "`%d1` cannot hold an address");
    refuses(HEAD ".visible .entry k() { .reg .b16 %h<2>; .reg .b32 %r<2>; .reg .b64 %a<2>; ld.v2.b16 {%h1, %r1}, [%a1]; ret; }", "`%h1` and `%r1` in one vector have other sizes");
    refuses(K("add.s32 _, %r1, %r2;"), "`add` needs a register for its result, not `_`");
    refuses(K("ld.global.b32 _, [%rd1];"), "`ld` needs a register for its result, not `_`");
    refuses(K("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1, _, %r2, _}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%r1, %r2, 0, 0};"),
            "a constant of .f32 is a float");
    refuses(K("mov.f32 %r1, 1.f;"), "line 6: `1.f` is not a number");
    refuses(K("neg.f32x2 %rd1, %rd2;"), "line 6: `neg` of .f32x2");
    refuses(K("createpolicy.cvt.L2.b32 %r1, %r2;"), "line 6: `createpolicy` needs .b64");
    refuses(K("mov.u64 %rd1, 99999999999999999999;"), "line 6: `99999999999999999999` does not fit into 64 bits");
    refuses(HEAD ".global .b8 x[4294967296];", "line 4: `x` is too large: 4294967296 bytes");
    refuses("hello", "line 1: expected a directive, not `h`");
}

static void not_text(void **state) {                     // a byte 0 inside, and more registers than any module has
    (void)state;
    EmuContext *emu = emu_create();
    assert_null(emu_load(emu, "a\0b", 3));
    assert_string_equal(emu_message(emu), "line 1: this is not text: byte 1 is 0");
    emu_destroy(emu);
    char text[4000] = HEAD ".visible .entry k() {\n";
    size_t at = strlen(text);
    for (int i = 0; i < 70; i++) at += (size_t)snprintf(text + at, sizeof text - at, ".reg .b32 %%a%dx<1000000>;\n", i);
    refuses(text, "line 72: a range of 1000000 registers");
}

static void oddities(void **state) {
    (void)state;
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(
        emu,
        "/* a\ncomment */ .version 7.0 // other\n.target sm_80, debug\n.address_size 64\n.file 1 \"a b.tk\", 123, 456\n"
        ".extern .shared .align 16 .b8 dyn[]; .global .align 16 .b8 zero[0]; .global .f32 f[2][3] = {{1.0, 0f40000000, -3}, {4e-1}};\n"
        ".weak .func (.param .b32 r) id(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a]; st.param.b32 [r+0], %r1; ret; }\n"
        ".visible .entry one()\n.maxntid 1024, 1, 1\n.minnctapersm 1\n.maxnreg 128\n.pragma \"nounroll\";\n{ .pragma \"nounroll {;\"; ; .reg .b32 r<3>, s; .loc 1 2 3, function_name $L__info+4, inlined_at 1 4 5\n mov.u32 r1, (1 << 4) | 3; mov.u32 s, -0x10; mov.u32 s, 0b101; mov.u32 s, 017; mov.b32 r2, 0f3FC00000; { } exit; }\n"
        ".section .debug_abbrev { .b8 1, 2, 3; .b64 $x+4; }\n"
        ".visible .entry two(.param .align 8 .b8 p[24], .param .f32 q) .explicitcluster .reqnctapercluster 2, 1, 1 { ret; }\n");
    assert_int_equal(emu_kernel_count(m), 2);
    const EmuKernel *k = emu_kernel(m, 0);
    assert_string_equal(k->name, "one");
    assert_int_equal(k->maxntid[0], 1024);
    assert_int_equal(k->maxnreg, 128);
    k = emu_kernel(m, 1);
    assert_int_equal(k->reqcluster[0], 2);
    assert_int_equal(k->params[1].offset, 24);
    assert_int_equal(k->param_bytes, 28);
    load_ptx(emu, K("{ .reg .b32 a; .reg .b16 a<2>; mov.b32 {a0, a1}, a; mov.b32 a, {a1, a0}; }"));      // a and a0, a1
    assert_int_equal(emu_target(m), 80);
    float f[6];
    u64 at;
    size_t n;
    assert_int_equal(emu_find_variable(emu, m, "f", &at, &n), EMU_OK);
    assert_int_equal(n, 24);
    emu_read(emu, f, at, 24);
    assert_true(f[0] == 1 && f[1] == 2 && f[2] == -3 && f[3] == 0.4f && f[5] == 0);
    emu_destroy(emu);
}

// Floats that end with their point, modifiers apart, and places in vectors: constants among a product's sums, results that nobody wants.
static void places(void **state) {
    (void)state;
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, HEAD ".visible .entry k(.param .u64 x) {\n.reg .b32 %r<4>; .reg .b64 %x; .reg .f32 %f<4>;\n"
        "ld.param.u64 %x, [x]; mov.u32 %r1, 0x3C003C00;\n"
        "ld.global.v4.f32 {_, %f0, _, %f1}, [%x]; add .f32 %f1, %f1, -3.;\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, _, %f1}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f0, 0., %f1, 2.e1};\n"
        "st.global.v4.f32 [%x], {%f2, %f3, %f1, 5.};\nret; }");
    float f[4] = {1, 2, 3, 4};
    u64 x = device(emu, "x", f, sizeof f);
    run_clean(emu, m, "k", 1, 32, 0, (void *[]){&x}, NULL);
    emu_read(emu, f, x, sizeof f);
    assert_true(f[0] == 18 && f[1] == 16 && f[2] == 36 && f[3] == 5);
    emu_destroy(emu);
}

// Damaged copies of real kernels: each must be refused with a line, or run to an end, and never crash.
static void damage(void **state) {
    (void)state;
    static const char *const files[] = {"kernels/kernels.ptx", "kernels/gemm_wgmma.ptx"};
    u64 s = 42;
    for (int f = 0; f < 2; f++) {
        char *text = read_file(files[f]), *copy = malloc(strlen(text) + 64);
        size_t n = strlen(text);
        int loaded = 0;
        for (int i = 0; i < 150; i++) {
            memcpy(copy, text, n + 1);
            size_t length = n;
            for (int k = 0; k < 1 + i % 4; k++) {
                s = s * 6364136223846793005ull + 1442695040888963407ull;
                size_t at = (size_t)(s >> 33) % n, from = (size_t)(s >> 13) % n, len = (size_t)(s >> 50) % 24;
                switch (s >> 60 & 3) {
                case 0: copy[at] = (char)(32 + (s >> 40 & 63)); break;
                case 1: if (at + len < n && from + len < n) memmove(copy + at, copy + from, len); break;
                case 2: if (at + len < n) memset(copy + at, ' ', len); break;
                default: length = i % 10 ? length : at; break;
                }
            }
            EmuContext *emu = emu_create();
            EmuModule *m = emu_load(emu, copy, length);
            if (!m) assert_non_null(strstr(emu_message(emu), "line "));
            else {
                u64 x[16];
                for (int p = 0; p < 16; p++) x[p] = p < 4 ? device(emu, "x", NULL, 65536) : 0;
                for (size_t k = 0; k < emu_kernel_count(m); k++) {
                    const EmuKernel *kernel = emu_kernel(m, k);
                    void *params[64];
                    uint8_t bytes[256] = {0};
                    if (kernel->n_params > 64) continue;
                    bool fits = true;
                    for (u32 p = 0; p < kernel->n_params; p++) {
                        fits &= kernel->params[p].size <= 256;
                        params[p] = kernel->params[p].size == 8 ? (void *)&x[p & 3] : bytes;
                    }
                    EmuReport r;
                    if (fits) {
                        emu_launch(emu, m, kernel->name, (u32[]){1, 1, 1},
                                   (u32[]){kernel->reqntid[0] ? kernel->reqntid[0] : 64, 1, 1}, NULL, 1024, params,
                                   &(EmuOptions){.budget = 20000, .threads = 1}, &r);
                        emu_report_free(&r);
                    }
                }
                loaded++;
            }
            emu_destroy(emu);
        }
        assert_true(loaded > 0);
        free(text), free(copy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors), cmocka_unit_test(not_text), cmocka_unit_test(oddities), cmocka_unit_test(places), cmocka_unit_test(damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

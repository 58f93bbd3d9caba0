// The target table against the assembler: for each capability a few instructions, for each target the question
// whether ptxas takes them; the answer must be what the row says. Likewise the lowest PTX version, and shared memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "ptx/emit.h"

// clang-format off
static const struct { const char *cap, *code; } snippets[] = {
    { "cp_async",      "cp.async.ca.shared.global [%r1], [%rd1], 16; cp.async.commit_group;" },
    { "bf16",          "cvt.rn.bf16.f32 %h1, %f1; fma.rn.bf16x2 %r1, %r2, %r3, %r4;"
                       "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3}, {%f1,%f2,%f3,%f4};" },
    { "tanh",          "tanh.approx.f32 %f1, %f2;" },
    { "mma_f8",        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};" },
    { "cvt_f8",        "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;" },
    { "bf16_arith",    "add.rn.bf16x2 %r1, %r2, %r3; cvt.f32.bf16 %f1, %h1;" },
    { "bf16_atomics",  "atom.global.add.noftz.bf16x2 %r1, [%rd1], %r2;" },
    { "red_vec",       "red.global.add.v4.f32 [%rd1], {%f1,%f2,%f3,%f4}; red.global.v4.bf16x2.add.noftz [%rd1], {%r1,%r2,%r3,%r4};" },
    { "stmatrix",      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%r2,%r3,%r4,%r5};" },
    { "mbarrier_wait", "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2; mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [%r1], 64;" },
    { "tma",           "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];" },
    { "cluster",       "barrier.cluster.arrive; barrier.cluster.wait; mapa.shared::cluster.u32 %r1, %r2, %r3;" },
    { "st_async",      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %r2, [%r3];" },
    { "pdl",           "griddepcontrol.wait; griddepcontrol.launch_dependents;" },
    { "elect",         "elect.sync %r1|%p1, 0xffffffff;" },
    { "setmaxnreg",    "setmaxnreg.dec.sync.aligned.u32 40;" },
    { "wgmma",         "wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" },
    { "wgmma_mixed",   "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%r1,%r2,%r3,%r4}, %rd1, %rd2, %p1;" },
    { "tcgen05",       "tcgen05.fence::before_thread_sync;" },
    { "f32x2",         "fma.rn.f32x2 %rd1, %rd2, %rd3, %rd4;" },
    { "wide_memory",   "ld.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];" },
    { "redux_f32",     "redux.sync.min.f32 %f1, %f2, 0xffffffff;" },
    { "mma_scaled",    "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0"
                       " {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4}, {%r7}, {0, 0}, {%r8}, {0, 0};" },
};
// clang-format on

static bool assembles(Arena *a, const Target *t, int version, const char *code, const char *attributes, Buf *err) {
    char *text = arena_printf(a,
                              ".version %d.%d\n.target %s\n.address_size 64\n"
                              ".visible .entry k() %s {\n"
                              ".reg .pred %%p<2>;\n.reg .b16 %%h<4>;\n.reg .b32 %%r<9>;\n.reg .f32 %%f<9>;\n.reg .b64 %%rd<5>;\n"
                              "%s\nret;\n}\n",
                              version / 10, version % 10, t->name, attributes, code);
    Buf cubin = {0};
    bool ok = cubin_make(a, text, strlen(text), t, NULL, &cubin, NULL, err);
    assert_true(!ok || (cubin.n > 4 && memcmp(cubin.p, "\177ELF", 4) == 0));
    buf_free(&cubin);
    return ok;
}

static void capabilities_are_what_ptxas_takes(void **state) {
    (void)state;
    Arena *a = arena_new();
    int wrong = 0;
    assert_int_equal(cap_count, sizeof snippets / sizeof *snippets);
    for (int c = 0; c < cap_count; c++) {
        assert_string_equal(cap_table[c].name, snippets[c].cap);
        for (int i = 0; i < target_count; i++) {
            const Target *t = &target_table[i];
            int version = t->ptx > cap_table[c].since ? t->ptx : cap_table[c].since;
            Buf err = {0};
            bool ok = assembles(a, t, version, snippets[c].code, ".reqntid 128", &err);
            if (ok != target_has(t, &cap_table[c])) {
                printf("%s, %s: the table says %d: %s\n", t->name, cap_table[c].name, target_has(t, &cap_table[c]),
                       err.n ? err.p : "it assembles");
                wrong++;
            }
            buf_free(&err);
        }
    }
    arena_free(a);
    assert_int_equal(wrong, 0);
}

static void ptx_versions_are_the_lowest(void **state) {
    (void)state;
    Arena *a = arena_new();
    for (int i = 0; i < target_count; i++) {
        const Target *t = &target_table[i];
        Buf err = {0};
        assert_true(assembles(a, t, t->ptx, "", "", &err));
        int before = t->ptx == 80 ? 78 : t->ptx - 1;             // there is no 7.9
        assert_false(assembles(a, t, before, "", "", &err));
        buf_free(&err);
    }
    arena_free(a);
}

static void emitted_ptx_assembles(void **state) {
    (void)state;
    static const char scale[] = "define ptx_kernel void @scale(ptr addrspace(1) noalias align 16 %x, float %a) \"nvvm.reqntid\"=\"128\" {\n"
                                "  %v = load float, ptr addrspace(1) %x\n"
                                "  %w = fmul float %v, %a\n"
                                "  store float %w, ptr addrspace(1) %x\n"
                                "  ret void\n"
                                "}\n";
    for (int i = 0; i < target_count; i++) {
        Arena *a = arena_new();
        Buf ptx = {0}, cubin = {0}, log = {0}, err = {0};
        PtxUnit *u = ptx_open_text(&target_table[i], NULL, scale, sizeof scale - 1, &err);
        assert_non_null(u);
        assert_true(ptx_finish(u, NULL, &ptx));
        ptx_close(u);
        assert_true(cubin_make(a, ptx.p, ptx.n, &target_table[i], NULL, &cubin, &log, &err));
        PtxasInfo info[2];
        assert_int_equal(ptxas_parse(log.p, info, 2), 1);
        assert_string_equal(info[0].entry, "scale");
        assert_true(info[0].registers > 0 && info[0].registers < 32);
        buf_free(&ptx), buf_free(&cubin), buf_free(&log), buf_free(&err);
        arena_free(a);
    }
}

static void bad_ptx_is_one_line(void **state) {
    (void)state;
    Arena *a = arena_new();
    static const char bad[] = ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() { add.u32 %r1, %r2, %r3; ret; }\n";
    Buf cubin = {0}, log = {0}, err = {0};
    assert_false(cubin_make(a, bad, sizeof bad - 1, target_default, NULL, &cubin, &log, &err));
    assert_non_null(strstr(err.p, "ptxas failed with status"));
    assert_null(strchr(err.p, '\n'));
    assert_int_equal(cubin.n, 0);
    buf_free(&cubin), buf_free(&log), buf_free(&err);
    arena_free(a);
}

int main(void) {
    Arena *a = arena_new();
    bool there = ptxas_path(a) != NULL;
    arena_free(a);
    if (!there) {
        printf("skipped: there is no ptxas\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capabilities_are_what_ptxas_takes),
        cmocka_unit_test(ptx_versions_are_the_lowest),
        cmocka_unit_test(emitted_ptx_assembles),
        cmocka_unit_test(bad_ptx_is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// LLVM modules into PTX: data layout, versions, and what LLVM cannot do as a message, not a dead process.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "ptx/emit.h"

static const char scale[] = "define ptx_kernel void @scale(ptr addrspace(1) noalias align 16 %x, float %a) \"nvvm.reqntid\"=\"128\" {\n"
                            "  %v = load float, ptr addrspace(1) %x\n"
                            "  %w = fmul float %v, %a\n"
                            "  store float %w, ptr addrspace(1) %x\n"
                            "  ret void\n"
                            "}\n";

static bool compile(const Target *t, const PtxOptions *opt, const char *text, Buf *llvm, Buf *ptx, Buf *problems) {
    PtxUnit *u = ptx_open_text(t, opt, text, strlen(text), problems);
    if (u == NULL) return false;
    bool ok = ptx_finish(u, llvm, ptx);
    buf_puts(problems, ptx_problems(u));
    ptx_close(u);
    return ok;
}

static void each_target_gets_its_ptx(void **state) {
    (void)state;
    for (int i = 0; i < target_count; i++) {
        const Target *t = &target_table[i];
        Buf llvm = {0}, ptx = {0}, problems = {0};
        assert_true(compile(t, NULL, scale, &llvm, &ptx, &problems));
        char head[64];
        snprintf(head, sizeof head, ".version %d.%d\n.target %s\n", t->ptx / 10, t->ptx % 10, t->name);
        assert_non_null(strstr(ptx.p, head));
        assert_non_null(strstr(ptx.p, ".visible .entry scale("));
        assert_non_null(strstr(ptx.p, "mul.rn.f32"));
        assert_non_null(strstr(llvm.p, "p3:32:32"));       // short shared-memory pointers
        buf_free(&llvm), buf_free(&ptx), buf_free(&problems);
    }
}

static void what_llvm_cannot_select_is_a_message(void **state) {
    (void)state;
    static const char setmaxnreg[] = "declare void @llvm.nvvm.setmaxnreg.dec.sync.aligned.u32(i32)\n"
                                     "define ptx_kernel void @k() {\n"
                                     "  call void @llvm.nvvm.setmaxnreg.dec.sync.aligned.u32(i32 40)\n"
                                     "  ret void\n"
                                     "}\n";
    for (int i = 0; i < 3; i++) {                           // and the process goes on, again and again
        Buf ptx = {0}, problems = {0};
        assert_false(compile(target_find("sm_80"), NULL, setmaxnreg, NULL, &ptx, &problems));
        assert_non_null(strstr(problems.p, "Cannot select"));
        buf_free(&ptx), buf_free(&problems);
        assert_true(compile(target_find("sm_90a"), NULL, setmaxnreg, NULL, &ptx, &problems));
        assert_non_null(strstr(ptx.p, "setmaxnreg.dec"));
        buf_free(&ptx), buf_free(&problems);
    }
}

static void versions_only_grow(void **state) {
    (void)state;
    PtxUnit *u = ptx_open(target_find("sm_90a"), &(PtxOptions){.ptx_version = 84});
    assert_int_equal(ptx_version(u), 84);
    ptx_need(u, 86);
    ptx_need(u, 81);
    Buf ptx = {0};
    assert_true(ptx_finish(u, NULL, &ptx));
    assert_non_null(strstr(ptx.p, ".version 8.6"));
    buf_free(&ptx);
    ptx_close(u);
}

static int stages;
static void count_stage(void *ctx, const char *stage, double ms) {
    (void)stage;
    assert_ptr_equal(ctx, &stages);
    assert_true(ms >= 0);
    stages++;
}

static void options_are_heard(void **state) {
    (void)state;
    static const char broken[] = "define void @f(i32 %x) {\n  %y = add i32 %x, 1\n  br label %l\nl:\n  br label %l\n}\n";
    Buf ptx = {0}, problems = {0};
    assert_true(compile(target_default, &(PtxOptions){.verify = true, .level = 3, .timing = count_stage, .timing_ctx = &stages}, broken, NULL, &ptx, &problems));
    assert_int_equal(stages, 3);                            // verify, passes, nvptx
    assert_false(compile(target_default, &(PtxOptions){.passes = "no-such-pass"}, scale, NULL, &ptx, &problems));
    assert_non_null(strstr(problems.p, "no-such-pass"));
    assert_false(compile(target_default, NULL, "define void @f(", NULL, &ptx, &problems));
    buf_free(&ptx), buf_free(&problems);
}

static void ptxas_words(void **state) {
    (void)state;
    static const char log[] = "ptxas info    : 0 bytes gmem\n"
                              "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
                              "ptxas info    : Function properties for a\n"
                              "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
                              "ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size, 4096 bytes smem, 376 bytes cmem[0]\n"
                              "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
                              "ptxas info    : Function properties for b\n"
                              "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                              "ptxas info    : Used 10 registers\n";
    PtxasInfo e[4];
    assert_int_equal(ptxas_parse(log, e, 4), 2);
    assert_string_equal(e[0].entry, "a");
    assert_int_equal(e[0].registers, 168);
    assert_int_equal(e[0].stack, 16);
    assert_int_equal(e[0].spill_stores, 8);
    assert_int_equal(e[0].spill_loads, 12);
    assert_int_equal(e[0].smem, 4096);
    assert_string_equal(e[1].entry, "b");
    assert_int_equal(e[1].registers, 10);
    assert_int_equal(e[1].smem, 0);
    assert_int_equal(ptxas_parse(log, e, 1), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_target_gets_its_ptx),
        cmocka_unit_test(what_llvm_cannot_select_is_a_message),
        cmocka_unit_test(versions_only_grow),
        cmocka_unit_test(options_are_heard),
        cmocka_unit_test(ptxas_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

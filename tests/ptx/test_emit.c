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
    assert_true(compile(target_default,
                        &(PtxOptions){.verify = true, .level = 3, .timing = count_stage, .timing_ctx = &stages}, broken,
                        NULL, &ptx, &problems));
    assert_int_equal(stages, 3);                            // verify, tidy, nvptx
    assert_false(compile(target_default, NULL, "define void @f(", NULL, &ptx, &problems));
    buf_free(&ptx), buf_free(&problems);
}

// What tidying makes of a function's body.
static char *tidied(const char *body) {
    static char text[4096];
    Buf llvm = {0}, problems = {0};
    snprintf(text, sizeof text, "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
             "declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)\n"
             "define void @f(i32 %%x, i32 %%y, i1 %%c, ptr addrspace(1) %%p) {\n%s}\n", body);
    assert_true(compile(target_default, &(PtxOptions){.verify = true}, text, &llvm, NULL, &problems));
    const char *from = strchr(strstr(llvm.p, "define void @f"), '\n') + 1;
    snprintf(text, sizeof text, "%.*s", (int)(strstr(from, "}\n") - from), from);
    buf_free(&llvm), buf_free(&problems);
    return text;
}

static void equal_values_are_computed_once(void **state) {
    (void)state;
    assert_string_equal(tidied("  %a = mul i32 %x, 48\n  %b = mul i32 %x, 48\n  %s = sub i32 %a, %y\n  %t = sub i32 %b, %y\n"
                               "  store i32 %s, ptr addrspace(1) %p\n  store i32 %t, ptr addrspace(1) %p\n  ret void\n"),
                        "  %a = mul i32 %x, 48\n  %s = sub i32 %a, %y\n"
                        "  store i32 %s, ptr addrspace(1) %p, align 4\n  store i32 %s, ptr addrspace(1) %p, align 4\n  ret void\n");
    // Across blocks only from one that dominates; whatever differs in a predicate or a flag stays.
    const char *s = tidied("  br i1 %c, label %l, label %r\n"
                           "l:\n  %a = mul i32 %x, 48\n  store i32 %a, ptr addrspace(1) %p\n  br label %e\n"
                           "r:\n  %b = mul i32 %x, 48\n  store i32 %b, ptr addrspace(1) %p\n  br label %e\n"
                           "e:\n  %d = mul i32 %x, 48\n  store i32 %d, ptr addrspace(1) %p\n  ret void\n");
    assert_non_null(strstr(s, "%a = mul"));
    assert_non_null(strstr(s, "%b = mul"));
    assert_non_null(strstr(s, "%d = mul"));
    s = tidied("  %a = icmp slt i32 %x, %y\n  %b = icmp sle i32 %x, %y\n  %d = xor i1 %a, %b\n"
               "  %e = add i32 %x, %y\n  %f = add nsw i32 %x, %y\n  %g = sub i32 %e, %f\n  %h = select i1 %d, i32 %g, i32 0\n"
               "  store i32 %h, ptr addrspace(1) %p\n  ret void\n");
    assert_non_null(strstr(s, "icmp sle"));
    assert_non_null(strstr(s, "add nsw"));
    // A thread's number is always the same; a shuffle is something that happens.
    s = tidied(
        "  %a = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  %b = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  %d = sub i32 %a, %b\n"
        "  %e = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %x, i32 1, i32 31)\n"
        "  %f = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %x, i32 1, i32 31)\n"
        "  %g = add i32 %e, %d\n  store i32 %g, ptr addrspace(1) %p\n  ret void\n");
    assert_null(strstr(s, "tid.x"));
    assert_non_null(strstr(s, "  %f = call"));
    assert_non_null(strstr(s, "store i32 %e"));
}

static void arithmetic_that_does_nothing_goes(void **state) {
    (void)state;
    static const char *const same[] = {
        "add i32 %x, 0", "add i32 0, %x", "sub i32 %x, 0", "mul i32 %x, 1", "and i32 %x, -1", "and i32 %x, %x", "or i32 0, %x", "or i32 %x, %x",
        "xor i32 %x, 0", "shl i32 %x, 0", "udiv i32 %x, 1", "select i1 true, i32 %x, i32 %y", "select i1 %c, i32 %x, i32 %x"};
    static const struct { const char *op; int value; } known[] = {
        {"sub i32 %x, %x", 0}, {"mul i32 %x, 0", 0}, {"and i32 0, %x", 0}, {"or i32 %x, -1", -1}, {"xor i32 %x, %x", 0},
        {"lshr i32 0, %x", 0}, {"urem i32 %x, 1", 0}, {"add i32 3, 4", 7}, {"zext i1 true to i32", 1}, {"ashr i32 -8, 1", -4}};
    char body[256], want[256];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        snprintf(body, sizeof body, "  %%a = %s\n  store i32 %%a, ptr addrspace(1) %%p, align 4\n  ret void\n", same[i]);
        assert_string_equal(tidied(body), "  store i32 %x, ptr addrspace(1) %p, align 4\n  ret void\n");
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        snprintf(body, sizeof body, "  %%a = %s\n  store i32 %%a, ptr addrspace(1) %%p, align 4\n  ret void\n", known[i].op);
        snprintf(want, sizeof want, "  store i32 %d, ptr addrspace(1) %%p, align 4\n  ret void\n", known[i].value);
        assert_string_equal(tidied(body), want);
    }
    // What comes of one simplification is seen by the next; what nobody uses goes, a volatile load does not.
    assert_string_equal(
        tidied(
            "  %a = mul i32 %x, 0\n  %b = add i32 %a, 5\n  %d = icmp ult i32 %b, 6\n  %e = select i1 %d, i32 %y, i32 %x\n"
            "  %f = load i32, ptr addrspace(1) %p, align 4\n  %g = load volatile i32, ptr addrspace(1) %p, align 4\n"
            "  store i32 %e, ptr addrspace(1) %p, align 4\n  ret void\n"),
        "  %g = load volatile i32, ptr addrspace(1) %p, align 4\n  store i32 %y, ptr addrspace(1) %p, align 4\n  ret void\n");
}

static void loops_and_unreachable_blocks_are_walked(void **state) {
    (void)state;
    const char *s = tidied("  br label %h\n"
                           "h:\n  %i = phi i32 [ 0, %0 ], [ %j, %b ]\n  %k = phi i32 [ %x, %0 ], [ %x, %b ]\n  %t = icmp slt i32 %i, %k\n  br i1 %t, label %b, label %e\n"
                           "b:\n  %j = add i32 %i, 1\n  %m = mul i32 %y, 3\n  store i32 %m, ptr addrspace(1) %p\n  br label %h\n"
                           "e:\n  %n = mul i32 %y, 3\n  store i32 %n, ptr addrspace(1) %p\n  ret void\n"
                           "u:\n  %o = add i32 %y, 0\n  br label %u2\nu2:\n  store i32 %o, ptr addrspace(1) %p\n  br label %u\n");
    assert_non_null(strstr(s, "icmp slt i32 %i, %x"));     // a phi of one value
    assert_non_null(strstr(s, "%m = mul"));
    assert_non_null(strstr(s, "%n = mul"));                // the body does not dominate the end
    s = tidied("  %a = mul i32 %x, 3\n  br label %h\n"
               "h:\n  %i = phi i32 [ 0, %0 ], [ %j, %h ]\n  %k = phi i32 [ %a, %0 ], [ %k, %h ]\n  %j = add i32 %i, %k\n  %t = icmp slt i32 %j, %y\n  br i1 %t, label %h, label %e\n"
               "e:\n  %m = phi i32 [ %j, %h ]\n  store i32 %m, ptr addrspace(1) %p\n  ret void\n");
    assert_non_null(strstr(s, "add i32 %i, %a"));          // what a loop carries unchanged, and what it leaves behind
    assert_non_null(strstr(s, "store i32 %j"));
}

static void addresses_share_what_they_can(void **state) {
    (void)state;
    // 32 bits of offset are a shared pointer's own width, but not a global one's.
    const char *s = tidied("  %q = getelementptr i8, ptr addrspace(3) null, i32 %x\n  %a = add i32 %y, 16\n"
                           "  %r = getelementptr i8, ptr addrspace(3) %q, i32 %a\n  %t = getelementptr i8, ptr addrspace(3) %q, i32 %y\n"
                           "  store i32 %x, ptr addrspace(3) %r\n  store i32 %y, ptr addrspace(3) %t\n"
                           "  %b = add i32 %x, 8\n  %g = getelementptr i8, ptr addrspace(1) %p, i32 %b\n  store i32 %x, ptr addrspace(1) %g\n  ret void\n");
    assert_non_null(strstr(s, "i32 16\n"));
    assert_null(strstr(s, "add i32 %y"));
    assert_non_null(strstr(s, "add i32 %x, 8"));
}

static void shared_index_arithmetic_has_a_block(void **state) {
    (void)state;
    char body[4096];
    int n = snprintf(
        body, sizeof body,
        "  br label %%l\nl:\n  %%i = phi i32 [ 0, %%0 ], [ %%j, %%l ]\n  %%a = mul i32 %%i, 12\n  %%b = xor i32 %%a, %%y\n");
    for (int k = 0; k < 12; k++)
        n += snprintf(
            body + n, sizeof body - (size_t)n,
            "  %%p%d = getelementptr i8, ptr addrspace(1) %%p, i32 %%b\n  %%q%d = getelementptr i8, ptr addrspace(1) %%p%d, i32 %d\n"
            "  store i32 %%i, ptr addrspace(1) %%q%d\n",
            k, k, k, 4 * k, k);
    snprintf(
        body + n, sizeof body - (size_t)n,
        "  %%j = add i32 %%i, 1\n  %%c2 = icmp slt i32 %%j, %%x\n  br i1 %%c2, label %%l, label %%e\ne:\n  ret void\n");
    const char *s = tidied(body), *cut = strstr(s, "br label %l\n\nl:");
    assert_non_null(cut);                                  // the phi and the address before it, the stores after it
    assert_true(strstr(s, "%i = phi") < cut && strstr(s, "%p0 = getelementptr") < cut);
    assert_true(strstr(s, "%q1 = getelementptr") > cut && strstr(s, "store i32 %i") > cut);
    assert_null(strstr(s, "%p1 ="));
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
        cmocka_unit_test(equal_values_are_computed_once),
        cmocka_unit_test(arithmetic_that_does_nothing_goes),
        cmocka_unit_test(loops_and_unreachable_blocks_are_walked),
        cmocka_unit_test(addresses_share_what_they_can),
        cmocka_unit_test(shared_index_arithmetic_has_a_block),
        cmocka_unit_test(ptxas_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

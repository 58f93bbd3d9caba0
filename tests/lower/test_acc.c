// Accumulators of wgmma in registers of the PTX: a product of tiles has one set of them and moves it twice, in and out;
// where two products go on from the same sum they cannot share it, and LLVM has them as values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "lower/build.h"
#include "lower/lower.h"
#include "parser/parser.h"

static const char source[] =
    "kernel matmul<BM = 128, BN = 128, BK = 64>(a: bf16[M, K], b: bf16[K, N], c: out bf16[M, N]) grid (m in M by BM, n in N by BN)\n"
    "{ var acc = zeros<f32>(m, n);  for k in K by BK { acc += dot(a[m, k], b[k, n]); }  c[m, n] = acc as bf16; }\n";

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++) n++;
    return n;
}

static Op *product(Fn *f) {
    Op *op = op_walk(&f->body, NULL);
    while (op->code != OP_T_wgmma) op = op_walk(&f->body, op);
    return op;
}

static void twice(Fn *f) {                                  // the same product before itself, of the same sum
    Op *op = product(f), *twin = op_new(f, OP_T_wgmma, op->span, op->nin, op->in, 1);
    twin->flags = op->flags;
    twin->attr = op->attr;
    twin->imm = op->imm;
    twin->out[0]->type = op->out[0]->type;
    twin->out[0]->layout = op->out[0]->layout;
    op_before(op, twin);
}

static Buf compile(void (*change)(Fn *)) {
    Session *s = session_new();
    SemaFile *file = sema_file(s, parse_file(s, source_add(s, "acc.tk", source, strlen(source))));
    Fn *f = ir_build(s, sema_instance((InstanceOf){.file = file, .item = sema_find_kernel(file, "matmul")}));
    CompileOptions opt = {.target = target_find("sm_90a"), .verify = true};
    Buf ptx = {0};
    assert_true(lower_run(f, &opt));
    if (change) change(f);
    assert_true(lower_emit(s, &f, 1, &opt, NULL, &ptx));
    session_free(s);
    return ptx;
}

static void one_set(void **state) {
    (void)state;
    Buf ptx = compile(NULL);
    assert_int_equal(count(ptx.p, "%acc<64>"), 1);
    assert_int_equal(count(ptx.p, "mov.b32 %acc0, "), 1);       // zero, before the loop
    assert_int_equal(count(ptx.p, ", %acc0;"), 1);              // to who stores it
    assert_int_equal(count(ptx.p, "wgmma.wait_group.sync.aligned 1;"), 1);
    buf_free(&ptx);
}

static void tied(void **state) {
    (void)state;
    Buf ptx = compile(twice);
    assert_int_equal(count(ptx.p, "%acc"), 0);
    assert_int_equal(count(ptx.p, "wgmma.commit_group"), 2);
    buf_free(&ptx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_set), cmocka_unit_test(tied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

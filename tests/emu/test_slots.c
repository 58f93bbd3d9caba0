// Registers that share slots: whatever is alive at once keeps its value, and what nothing wrote stays junk.
#include "kit.h"

enum { N = 64 };
#define BEFORE HEAD ".visible .entry k(.param .u64 y) {\n.reg .pred %p<40>; .reg .b32 %r<400>; .reg .b64 %d<400>; .reg .b64 %y;\n" \
    "mov.u32 %r0, %tid.x; ld.param.u64 %y, [y]; mad.wide.u32 %y, %r0, 4, %y;\n"
#define AFTER "\nst.global.u32 [%y], %r1; ret; }\n"
#define KERNEL(body) BEFORE body AFTER

static void run(const char *ptx, u32 out[N], u64 junk) {
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 y = device(emu, "y", NULL, N * sizeof *out);
    run_clean(emu, m, "k", 1, N, 0, (void *[]){&y}, &(EmuOptions){.junk_seed = junk});
    emu_read(emu, out, y, N * sizeof *out);
    emu_destroy(emu);
}

static void expect(const char *ptx, u32 (*want)(u32)) {
    u32 out[N];
    for (u64 junk = 1; junk < 4; junk++) {
        run(ptx, out, junk);
        for (u32 i = 0; i < N; i++) assert_int_equal(out[i], want(i));
    }
}

// Many short lives beside a few long ones, of all sizes.
static u32 want_chain(u32 i) {
    u32 sum = 0;
    for (u32 k = 2; k < 300; k++) sum += (i * k + 7) ^ k;
    return sum + i * 5 + (i > 9 ? 1000 : 0);
}
static void chain(void **state) {
    (void)state;
    static char ptx[60000];
    size_t at = (size_t)sprintf(ptx, "%s", HEAD ".visible .entry k(.param .u64 y) {\n.reg .pred %p<2>; .reg .b32 %r<1000>; .reg .b64 %d<1000>; .reg .b64 %y;\n"
        "mov.u32 %r0, %tid.x; ld.param.u64 %y, [y]; mad.wide.u32 %y, %r0, 4, %y; mul.wide.u32 %d1, %r0, 5; setp.gt.u32 %p1, %r0, 9; mov.u32 %r1, 0;\n");
    for (int k = 2; k < 300; k++)
        at += (size_t)sprintf(ptx + at, "mul.wide.u32 %%d%d, %%r0, %d; cvt.u32.u64 %%r%d, %%d%d; add.u32 %%r%d, %%r%d, 7; xor.b32 %%r%d, %%r%d, %d; add.u32 %%r1, %%r1, %%r%d;\n",
                              k, k, k + 300, k, k + 600, k + 300, k, k + 600, k, k);
    sprintf(ptx + at, "%s", "cvt.u32.u64 %r2, %d1; add.u32 %r1, %r1, %r2; @%p1 add.u32 %r1, %r1, 1000; st.global.u32 [%y], %r1; ret; }\n");
    expect(ptx, want_chain);
}

// What a loop carries, what is alive around it, and lanes that leave it one after the other.
static u32 want_loops(u32 i) {
    u32 a = 1, b = i, sum = 0;
    for (u32 k = 0; k < i % 7 + 1; k++) {
        u32 t = a * 3 + k;
        for (u32 j = 0; j < (i & 3); j++) sum += t + j;
        a = b, b = t;
    }
    return sum + a + 2 * b + 100 * i;
}
static void loops(void **state) {
    (void)state;
    expect(KERNEL("mul.lo.u32 %r90, %r0, 100; mov.u32 %r2, 1; mov.u32 %r3, %r0; mov.u32 %r4, 0; mov.u32 %r5, 0; rem.u32 %r6, %r0, 7; and.b32 %r7, %r0, 3;\n"
        "OUT: mad.lo.u32 %r8, %r2, 3, %r5; mov.u32 %r9, 0; setp.eq.u32 %p1, %r7, 0; @%p1 bra DONE;\n"
        "IN: add.u32 %r10, %r8, %r9; add.u32 %r4, %r4, %r10; add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, %r7; @%p2 bra IN;\n"
        "DONE: mov.u32 %r2, %r3; mov.u32 %r3, %r8; setp.lt.u32 %p3, %r5, %r6; add.u32 %r5, %r5, 1; @%p3 bra OUT;\n"
        "shl.b32 %r11, %r3, 1; add.u32 %r12, %r4, %r2; add.u32 %r13, %r12, %r11; add.u32 %r1, %r13, %r90;"), want_loops);
}

// Arms that run one after the other must not disturb what the lanes of the other one hold; negated predicates, narrowed addresses.
static u32 want_arms(u32 i) { return i & 1 ? (i + 3) * 2 + i : (i & 2 ? 40 : 50) + i; }
static void arms(void **state) {
    (void)state;
    expect(KERNEL("mov.u32 %r20, %r0; and.b32 %r2, %r0, 1; setp.ne.u32 %p1, %r2, 0; and.b32 %r3, %r0, 2; setp.ne.u32 %p2, %r3, 0; @%p1 bra ODD;\n"
        "selp.u32 %r4, 40, 50, %p2; and.pred %p3, !%p1, !%p1; mov.u32 %r5, 0; @%p3 mov.u32 %r5, %r4; add.u32 %r1, %r5, %r20; bra END;\n"
        "ODD: add.u32 %r6, %r0, 3; setp.eq.u32 %p4, %r6, 0; and.pred %p5, !%p4, !%p4; cvt.u64.u32 %d2, %r6; cvt.u32.u64 %r7, %d2; @%p5 shl.b32 %r7, %r7, 1; add.u32 %r1, %r7, %r20;\n"
        "END: "), want_arms);
}

static u32 want_table(u32 i) { return i % 3 == 0 ? i + 10 : i % 3 == 1 ? i * 2 : 77 + i; }
static void table(void **state) {
    (void)state;
    expect(KERNEL("rem.u32 %r2, %r0, 3; add.u32 %r3, %r0, 10; shl.b32 %r4, %r0, 1; add.u32 %r5, %r0, 77;\n"
        "T: .branchtargets A, B, C;\nbrx.idx %r2, T;\nA: mov.u32 %r6, %r3; bra E;\nB: mov.u32 %r6, %r4; bra E;\nC: mov.u32 %r6, %r5;\nE: mov.u32 %r1, %r6;"), want_table);
}

// A register that only some lanes have written, or some ways lead past, is junk: another with every seed, even where many others come and go.
static void junk(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "setp.lt.u32 %p1, %r0, 8; mov.u32 %r2, 5; add.u32 %r3, %r2, 1; add.u32 %r4, %r3, %r0; @%p1 mov.u32 %r5, %r4; mov.u32 %r1, %r5;",
        "setp.lt.u32 %p1, %r0, 8; mov.u32 %r2, 5; add.u32 %r3, %r2, 1; @!%p1 bra L; add.u32 %r5, %r3, 1; L: mov.u32 %r6, 3; add.u32 %r1, %r5, %r6;",
        "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.eq.u32 %p1, %r2, 1; @%p1 add.u32 %r7, %r5, 1; mov.u32 %r5, %r2; setp.lt.u32 %p2, %r2, 4; @%p2 bra L; mov.u32 %r1, %r7;",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char ptx[2000];
        u32 a[N], b[N];
        snprintf(ptx, sizeof ptx, "%s%s%s", BEFORE, bodies[i], AFTER);
        run(ptx, a, 1), run(ptx, b, 2);
        assert_int_not_equal(a[N - 1], b[N - 1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chain), cmocka_unit_test(loops), cmocka_unit_test(arms), cmocka_unit_test(table), cmocka_unit_test(junk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

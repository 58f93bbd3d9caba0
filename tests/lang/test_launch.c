// Launch expressions: arithmetic at its edges, text that reads back as the same tree, the head of a PTX file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "lang/launch.h"

#define CODE(...) ((LExpr){(const LStep[]){__VA_ARGS__}, sizeof((const LStep[]){__VA_ARGS__}) / sizeof(LStep)})
#define K(v) {L_CONST, (v)}
#define DIM(i) {L_DIM, (i)}
#define DO(op) {L_##op, 0}

static int64_t binary(LOp op, int64_t a, int64_t b) {
    return launch_eval((LExpr){(const LStep[]){K(a), K(b), {op, 0}}, 3}, NULL, NULL, NULL);
}

static void arithmetic(void **state) {
    (void)state;
    assert_int_equal(binary(L_ADD, INT64_MAX, 1), INT64_MIN);
    assert_int_equal(binary(L_MUL, INT64_MAX, 2), -2);
    assert_int_equal(binary(L_DIV, 7, 2), 3);
    assert_int_equal(binary(L_DIV, -7, 2), -4);
    assert_int_equal(binary(L_DIV, 7, -2), -4);
    assert_int_equal(binary(L_DIV, -7, -2), 3);
    assert_int_equal(binary(L_DIV, 7, 0), 0);
    assert_int_equal(binary(L_DIV, INT64_MIN, -1), INT64_MIN);
    assert_int_equal(binary(L_MOD, 7, 0), 0);
    assert_int_equal(binary(L_MOD, -7, 4), 1);
    assert_int_equal(binary(L_MOD, 7, -4), -1);
    assert_int_equal(binary(L_MOD, INT64_MIN, -1), 0);
    assert_int_equal(binary(L_CDIV, 0, 128), 0);
    assert_int_equal(binary(L_CDIV, 1, 128), 1);
    assert_int_equal(binary(L_CDIV, 128, 128), 1);
    assert_int_equal(binary(L_CDIV, 129, 128), 2);
    assert_int_equal(binary(L_CDIV, -1, 128), 0);
    assert_int_equal(binary(L_CDIV, 5, 0), 0);
    assert_int_equal(binary(L_MIN, -3, 2), -3);
    assert_int_equal(binary(L_MAX, -3, 2), 2);
    assert_int_equal(binary(L_AND, 2, 4), 1);
    assert_int_equal(binary(L_OR, 0, 0), 0);
    assert_int_equal(binary(L_LE, 4, 4), 1);
    assert_int_equal(binary(L_LT, 4, 4), 0);
}

static void symbols(void **state) {
    (void)state;
    int64_t dims[] = {300, 256}, scalars[] = {7, 9}, strides[32] = {[16 + 1] = 1000};
    assert_int_equal(launch_eval(CODE(DIM(0), K(128), DO(CDIV), DIM(1), K(256), DO(CDIV), DO(MUL)), dims, scalars, strides), 3);
    assert_int_equal(launch_eval(CODE({L_SCALAR, 1}, {L_STRIDE, 17}, DO(ADD)), dims, scalars, strides), 1009);
    assert_int_equal(launch_eval(CODE(DIM(0), K(300), DO(EQ), K(1), K(2), DO(SELECT)), dims, scalars, strides), 1);
    assert_int_equal(launch_eval(CODE(DIM(0), DO(NOT), K(1), K(2), DO(SELECT)), dims, scalars, strides), 2);
}

// (M - 1) * 4 + K, 10 - M, 3 * M: what M is, if they are to be a number.
static void solving(void **state) {
    (void)state;
    int64_t dims[2] = {0, 5}, scalars[1] = {4};
    bool known[2] = {false, true};
    LExpr window = CODE(DIM(0), K(1), DO(SUB), {L_SCALAR, 0}, DO(MUL), DIM(1), DO(ADD));
    launch_solve(window, 25, dims, known, NULL);
    assert_false(known[0]);
    launch_solve(window, 25, dims, known, scalars);
    assert_true(known[0]);
    assert_int_equal(dims[0], 6);
    launch_solve(window, 29, dims, known, scalars);            // it is known
    assert_int_equal(dims[0], 6);
    known[0] = false;
    launch_solve(CODE(K(10), DIM(0), DO(SUB)), 3, dims, known, NULL);
    assert_int_equal(dims[0], 7);
    known[0] = false;
    launch_solve(CODE(DIM(0), DIM(0), DO(ADD)), 8, dims, known, NULL);
    launch_solve(CODE(K(0), DIM(0), DO(MUL)), 0, dims, known, NULL);
    launch_solve(CODE(DIM(0), K(2), DO(MOD)), 0, dims, known, NULL);
    assert_false(known[0]);
    launch_solve(CODE(K(3), DIM(0), DO(MUL)), -7, dims, known, NULL);       // does not come out even: for the check
    assert_int_equal(dims[0], -3);
}

typedef struct Kernel { Session *s; LaunchInfo info; LaunchDim dims[3]; LaunchParam params[3]; } Kernel;

static void kernel_init(Kernel *k) {
    static const LStep m[] = {DIM(0)}, n[] = {DIM(1)}, n2[] = {DIM(1), K(2), DO(MUL)};
    memset(k, 0, sizeof *k);
    k->s = session_new();
    k->dims[0] = (LaunchDim){.name = sym(k->s, "M"), .fixed = -1};
    k->dims[1] = (LaunchDim){.name = sym(k->s, "N"), .fixed = -1};
    k->dims[2] = (LaunchDim){.name = sym(k->s, "D"), .fixed = 64};
    k->params[0] = (LaunchParam){.kind = PK_TENSOR, .name = sym(k->s, "x"), .elem = EL_bf16, .rank = 2, .dim = {{m, 1}, {n, 1}}, .solves = {0, 1}};
    k->params[1] = (LaunchParam){.kind = PK_TENSOR, .mode = PM_OUT, .name = sym(k->s, "y"), .elem = EL_f32, .rank = 1, .dim = {{n2, 3}}, .solves = {-1}};
    k->params[2] = (LaunchParam){.kind = PK_SCALAR, .name = sym(k->s, "a"), .elem = EL_f32};
    k->info = (LaunchInfo){.kernel = sym(k->s, "scale"), .entry = "scale", .dims = k->dims, .ndims = 3, .params = k->params, .nparams = 3};
}

static void text(void **state) {
    (void)state;
    Kernel k;
    kernel_init(&k);
    Arena *a = session_arena(k.s);
#define TEXT(expected, ...) assert_string_equal(launch_expr_text(a, &k.info, CODE(__VA_ARGS__)), expected)
    TEXT("cdiv(M, 128) * cdiv(N, 256)", DIM(0), K(128), DO(CDIV), DIM(1), K(256), DO(CDIV), DO(MUL));
    TEXT("(M + 1) * N", DIM(0), K(1), DO(ADD), DIM(1), DO(MUL));
    TEXT("M + 1 - N", DIM(0), K(1), DO(ADD), DIM(1), DO(SUB));
    TEXT("M - (1 + N)", DIM(0), K(1), DIM(1), DO(ADD), DO(SUB));
    TEXT("M * (N / 2)", DIM(0), DIM(1), K(2), DO(DIV), DO(MUL));
    TEXT("M * N / 2", DIM(0), DIM(1), DO(MUL), K(2), DO(DIV));
    TEXT("M % 8 == 0 && N <= 1024", DIM(0), K(8), DO(MOD), K(0), DO(EQ), DIM(1), K(1024), DO(LE), DO(AND));
    TEXT("!(M < N)", DIM(0), DIM(1), DO(LT), DO(NOT));
    TEXT("M < N ? M : N + 1", DIM(0), DIM(1), DO(LT), DIM(0), DIM(1), K(1), DO(ADD), DO(SELECT));
    TEXT("max(M, 0) * N", DIM(0), K(0), DO(SUB), K(0), DO(MAX), K(1), DO(MUL), DIM(1), DO(MUL));
    TEXT("-M", K(0), DIM(0), DO(SUB));
    TEXT("(M < N) == 1", DIM(0), DIM(1), DO(LT), K(1), DO(EQ));
    TEXT("x.stride(1) * a", {L_STRIDE, 1}, {L_SCALAR, 2}, DO(MUL));
    TEXT("-1", K(-1));
#undef TEXT
    session_free(k.s);
}

static void head(void **state) {
    (void)state;
    Kernel k;
    kernel_init(&k);
    static const LStep guard[] = {DIM(1), K(1024), DO(LE)}, blocks[] = {DIM(0), K(4), DO(CDIV)}, bytes[] = {DIM(0), K(8), DO(MUL)}, one[] = {K(1)}, last[] = {DIM(0), K(1), DO(SUB), K(128), DO(MOD), K(1), DO(ADD)};
    k.info.guards = &(LaunchGuard){{guard, 3}, "N <= BLOCK = 1024 (scale.tk:5)"};
    k.info.nguards = 1;
    k.info.slots = (LaunchSlot[]){
        {.kind = SLOT_POINTER, .size = 8, .a = 1}, {.kind = SLOT_SCALAR, .size = 4, .a = 2}, {.kind = SLOT_DIM, .size = 4, .a = 1},
        {.kind = SLOT_STRIDE, .size = 8, .a = 0, .b = 0}, {.kind = SLOT_SCRATCH, .size = 8, .expr = {bytes, 3}},
        {.kind = SLOT_TENSORMAP, .size = 128, .a = 0, .rank = 2, .map_dim = {1, 0}, .box = {64, 128}, .swizzle = 128},
        {.kind = SLOT_TENSORMAP, .size = 128, .a = 0, .rank = 4, .map_dim = {3, 2, 1, 0}, .box = {64, 128}, .swizzle = 128, .rounds = true, .im2col = true,
         .lower = {{one, 1}, {blocks, 3}}, .upper = {{blocks, 1}, {one, 1}}, .step = {{one, 1}, {bytes, 1}}},
        {.kind = SLOT_TENSORMAP, .size = 128, .a = 0, .rank = 2, .map_dim = {1, 0}, .box = {64, 128}, .swizzle = 128, .expr = {last, 7}},
    };
    k.info.nslots = 8;
    k.info.blocks = (LExpr){blocks, 3};
    k.info.threads = 128;
    k.info.smem = 49152;
    Buf out = {0};
    launch_print(&k.info, &out);
    assert_string_equal(out.p, "// tk: kernel scale entry scale\n"
                               "// tk: param x: bf16[M, N]\n"
                               "// tk: param y: out f32[N * 2]\n"
                               "// tk: param a: f32\n"
                               "// tk: dim D = 64\n"
                               "// tk: dim M = x.dim(0)\n"
                               "// tk: dim N = x.dim(1)\n"
                               "// tk: check y.dim(0) == N * 2\n"
                               "// tk: guard N <= 1024 -- N <= BLOCK = 1024 (scale.tk:5)\n"
                               "// tk: slot 0: 8 bytes, address of y\n"
                               "// tk: slot 1: 4 bytes, a\n"
                               "// tk: slot 2: 4 bytes, N\n"
                               "// tk: slot 3: 8 bytes, x.stride(0)\n"
                               "// tk: slot 4: 8 bytes, address of scratch memory, M * 8 bytes, zero at first\n"
                               "// tk: slot 5: 128 bytes, tensor map of x, dimensions 1 0, box 64 128, swizzle 128\n"
                               "// tk: slot 6: 128 bytes, tensor map of x, dimensions 3 2 1 0, box 64 128, swizzle 128, tf32, im2col lower 1; cdiv(M, 4), upper M; 1, step 1; M\n"
                               "// tk: slot 7: 128 bytes, tensor map of x, dimensions 1 0, box 64 128, swizzle 128, rows (M - 1) % 128 + 1\n"
                               "// tk: blocks cdiv(M, 4), threads 128, shared 49152\n");
    const LaunchInfo *back[2];
    Buf again = {0}, err = {0};
    buf_puts(&out, ".version 8.0\n// tk: kernel of no head\n");
    assert_int_equal(launch_read(k.s, out.p, out.n, back, 2, &err), 1);
    launch_print(back[0], &again);
    assert_int_equal(strncmp(out.p, again.p, again.n), 0);
    assert_string_equal(out.p + again.n, ".version 8.0\n// tk: kernel of no head\n");
    buf_free(&again);
    buf_free(&out);
    session_free(k.s);
}

// What is read is what was written: conditions by C's precedence, dimensions that stand only in conditions; else the line is named.
static void read_back(void **state) {
    (void)state;
    static const char *const conditions[] = {
        "N <= BLOCK = 1024 (scale.tk:5)", "M % 8 == 0 && N <= 1024 || !(M < N)", "(M < N) == 1", "M < N ? M : N < 3 ? 1 : -5", "M - (1 + N) * 2", "-M * (N / 2)",
        "x.stride(1) * a + min(M, cdiv(N, 4)) - max(0, -3)", "positive(a) && M * D != 8", "M + 1 - N",
    };
    static const char *const wrongs[][2] = {
        {"kernel", "line 1: the head that tkc writes has a kernel's name here"},
        {"kernel k\n// tk: param x f32", "line 2: the head that tkc writes has `:` here"},
        {"kernel k\n// tk: param x: f33", "line 2: the head that tkc writes has an element type here"},
        {"kernel k\n// tk: param x: f32[M\n", "line 2: the head that tkc writes has `,` here"},
        {"kernel k\n// tk: guard M +", "line 2: the head that tkc writes has a number or a name here"},
        {"kernel k\n// tk: guard cdiv(M)", "line 2: the head that tkc writes has `,` here"},
        {"kernel k\n// tk: guard y.stride(0) == 1", "line 2: the head that tkc writes has a parameter here"},
        {"kernel k\n// tk: slot 1: 8 bytes, address of x", "line 2: the head that tkc writes has the next machine parameter here"},
        {"kernel k\n// tk: slot 0: 8 bytes, address of x", "line 2: the head that tkc writes has a parameter here"},
        {"kernel k\n// tk: blocks 1, threads 0, shared 0", "line 2: the head that tkc writes has a number here"},
        {"kernel k\n// tk: blocks 1, threads 32, shared 0, quickly", "line 2: the head that tkc writes has the end of the line here"},
    };
    Session *s = session_new();
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
        const LaunchInfo *info[1];
        Buf in = {0}, out = {0}, err = {0};
        const char *text = strstr(conditions[i], " = ") ? "N <= 1024" : conditions[i];
        buf_printf(&in, "// tk: kernel k entry k\n// tk: param x: bf16[M, N]\n// tk: param a: f32\n// tk: dim M = x.dim(0)\n// tk: dim N = x.dim(1)\n// tk: guard %s", text);
        if (text != conditions[i]) buf_printf(&in, " -- %s", conditions[i]);
        buf_puts(&in, "\n// tk: blocks M, threads 32, shared 0, cluster 2, together, partial, early up to 5\n");
        assert_int_equal(launch_read(s, in.p, in.n, info, 1, &err), 1);
        launch_print(info[0], &out);
        assert_string_equal(out.p, in.p);
        buf_free(&in), buf_free(&out);
    }
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const LaunchInfo *info[1];
        Buf in = {0}, err = {0};
        buf_printf(&in, "// tk: %s", wrongs[i][0]);
        assert_int_equal(launch_read(s, in.p, in.n, info, 1, &err), -1);
        assert_string_equal(err.p, wrongs[i][1]);
        buf_free(&in), buf_free(&err);
    }
    session_free(s);
}

// Lines that are each well formed, and no launch together: refused at the end of the kernel, before anything evaluates it.
static void no_launch(void **state) {
    (void)state;
    static const char *const lines[] = {
        "// tk: slot 0: 4 bytes, address of x\n", "// tk: slot 0: 8 bytes, address of a\n", "// tk: slot 0: 8 bytes, a\n",
        "// tk: slot 0: 3 bytes, M\n", "// tk: slot 0: 128 bytes, tensor map of a, dimensions 0 1, box 4 4, swizzle 0\n",
        "// tk: slot 0: 64 bytes, tensor map of x, dimensions 0 1, box 4 4, swizzle 0\n", "// tk: slot 0: 128 bytes, tensor map of x, dimensions 0 1, box 4 4, swizzle 5\n",
        "// tk: slot 0: 128 bytes, tensor map of x, dimensions 0 1 0, box 4 4 4, swizzle 0, im2col lower 1\n",
    };
    Session *s = session_new();
    for (size_t i = 0; i <= sizeof lines / sizeof *lines; i++) {
        const LaunchInfo *info[2];
        Buf in = {0}, err = {0};
        buf_puts(&in, "// tk: kernel k entry k\n// tk: param x: bf16[M, N]\n// tk: param a: f32\n");
        if (i < sizeof lines / sizeof *lines) buf_puts(&in, lines[i]);
        else {                                               // more at hand at once than whoever evaluates has room for
            buf_puts(&in, "// tk: guard ");
            for (int k = 0; k < 50; k++) buf_puts(&in, "M ? 1 : ");
            buf_puts(&in, "0\n");
        }
        buf_puts(&in, "// tk: blocks M, threads 32, shared 0\n");
        assert_int_equal(launch_read(s, in.p, in.n, info, 2, &err), -1);
        assert_string_equal(err.p, "line 5: what the head says of the kernel `k` before it is not a launch");
        buf_free(&err);
        buf_puts(&in, "// tk: kernel l entry l\n");          // also where another one follows
        assert_int_equal(launch_read(s, in.p, in.n, info, 2, &err), -1);
        buf_free(&in), buf_free(&err);
    }
    static const char *const wrongs[] = {
        "guard 99999999999999999999 == M", "dim M = 99999999999999999999", "blocks M, threads 1025, shared 0", "blocks M, threads 0, shared 0",
        "blocks M, threads 32, shared 99999999", "blocks M, threads 32, shared 0, cluster 65", "param y: f32[1, 2, 3, 4, 5, 6, 7, 8, 9]",
    };
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const LaunchInfo *info[1];
        Buf in = {0}, err = {0};
        buf_printf(&in, "// tk: kernel k entry k\n// tk: param x: bf16[M, N]\n// tk: %s\n", wrongs[i]);
        assert_int_equal(launch_read(s, in.p, in.n, info, 1, &err), -1);
        assert_non_null(strstr(err.p, "line 3: the head that tkc writes has"));
        buf_free(&in), buf_free(&err);
    }
    session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(arithmetic), cmocka_unit_test(symbols), cmocka_unit_test(solving), cmocka_unit_test(text), cmocka_unit_test(head), cmocka_unit_test(read_back), cmocka_unit_test(no_launch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

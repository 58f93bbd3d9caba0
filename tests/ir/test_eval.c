// What ops mean, by small kernels in text form and the arrays that must come out.

#include "ir_test.h"
#include "lang/number.h"

#define RUN(f, dims, opt, ...) run_kernel(f, (const EvalArg[]){__VA_ARGS__}, dims, opt)

static Session *session;
static int setup(void **state)    { (void)state; session = session_new(); return 0; }
static int teardown(void **state) { (void)state; session_free(session); return 0; }

// y = x * a over blocks of 4; N = 10 leaves dead lanes in the last program.
static const char scale[] =
    "kernel @scale(x: f32[N], y: out f32[N], a: f32)\n"
    "    dims (N)\n"
    "    grid cdiv(N, 4)\n"
    "{\n"
    "  %0 = tensor x : tensor<f32, 1>\n"
    "  %1 = tensor y : tensor<f32, 1>\n"
    "  %2 = scalar a : f32\n"
    "  %3 = dim N : index\n"
    "  %4 = program : index\n"
    "  %5 = const 4 : index\n"
    "  %6 = binary.mul %4, %5 : index\n"
    "  %n.7 = axis %6, %3 {4} : axis<4>\n"
    "  %8 = index %n.7 : index[%n.7]\n"
    "  %9 = load %0, %8 : f32[%n.7]\n"
    "  %10 = binary.mul %9, %2 : f32[%n.7]\n"
    "  store %1, %8, %10\n"
    "}\n";

static void test_scale(void **state) {
    (void)state;
    Fn *f = kernel_text(session, scale);
    for (int reversed = 0; reversed < 2; reversed++) {
        float x[10], y[12];
        for (int i = 0; i < 10; i++) x[i] = (float)i;
        for (int i = 0; i < 12; i++) y[i] = -1;
        EvalOptions opt = {.reversed = reversed, .junk = (uint32_t)reversed};
        RUN(f, (const int64_t[]){10}, &opt, vec_arg(x, 10), vec_arg(y, 10), float_arg(0.5));
        for (int i = 0; i < 10; i++) assert_float_equal(y[i], i * 0.5f, 0);
        assert_float_equal(y[10], -1, 0);                    // dead lanes write nothing
    }
}

// A matrix product with a loop over blocks of depth, all three extents ragged.
static const char matmul[] =
    "kernel @matmul(a: f16[M, K], b: f16[K, N], c: out f32[M, N])\n"
    "    dims (M, K, N)\n"
    "{\n"
    "  %a = tensor a : tensor<f16, 2>\n"
    "  %b = tensor b : tensor<f16, 2>\n"
    "  %c = tensor c : tensor<f32, 2>\n"
    "  %M = dim M : index\n"
    "  %K = dim K : index\n"
    "  %N = dim N : index\n"
    "  %z = const 0 : index\n"
    "  %s = const 8 : index\n"
    "  %zero = const 0 : f32\n"
    "  %m.0 = axis %z, %M {16} : axis<16>\n"
    "  %n.0 = axis %z, %N {12} : axis<12>\n"
    "  %im = index %m.0 : index[%m.0]\n"
    "  %in = index %n.0 : index[%n.0]\n"
    "  %init = splat %zero : f32[%m.0, %n.0]\n"
    "  %r = for %z, %K, %s, %init : f32[%m.0, %n.0] (%i: index, %acc: f32[%m.0, %n.0]) {\n"
    "    %k.0 = axis %i, %K {8} : axis<8>\n"
    "    %ik = index %k.0 : index[%k.0]\n"
    "    %x = load %a, %im, %ik : f16[%m.0, %k.0]\n"
    "    %y = load %b, %ik, %in : f16[%n.0, %k.0]\n"
    "    %d = dot.default %x, %y acc %acc over %k.0 : f32[%m.0, %n.0]\n"
    "    yield %d\n"
    "  }\n"
    "  store %c, %im, %in, %r\n"
    "}\n";

static void test_matmul(void **state) {
    (void)state;
    enum { M = 13, K = 21, N = 11 };
    Fn *f = kernel_text(session, matmul);
    uint16_t a[M * K], b[K * N];
    float    c[2][M * N];
    double   bound[M * N];
    for (int i = 0; i < M * K; i++) a[i] = f16_from_f32((float)(i * 7 % 23 - 11) / 4);
    for (int i = 0; i < K * N; i++) b[i] = f16_from_f32((float)(i * 5 % 19 - 9) / 8);
    for (int seed = 0; seed < 2; seed++) {
        EvalOptions opt = {.junk = (uint32_t)seed, .bound = {[2] = bound}};
        RUN(f, ((const int64_t[]){M, K, N}), &opt, mat_arg(a, M, K), mat_arg(b, K, N), mat_arg(c[seed], M, N));
    }
    assert_memory_equal(c[0], c[1], sizeof c[0]);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double want = 0, size = 0;
            for (int k = 0; k < K; k++) {
                double p = (double)f16_to_f32(a[i * K + k]) * (double)f16_to_f32(b[k * N + j]);
                want += p;
                size += fabs(p);
            }
            assert_true(fabs(want - (double)c[0][i * N + j]) <= 3 * 0x1p-24 * size);
            assert_true(bound[i * N + j] >= 3 * 0x1p-24 * size && bound[i * N + j] <= K * 3 * 0x1p-22 * size);
        }
}

// One op on a vector: `%9` of the op's text, from the loaded %8 (and %7, another), all of axis %5.
static Fn *unary_kernel(const char *in, const char *out, const char *op) {
    char text[2000];
    snprintf(text, sizeof text,
             "kernel @one(x: %s[N], z: %s[N], y: out %s[N])\n    dims (N)\n{\n"
             "  %%0 = tensor x : tensor<%s, 1>\n  %%1 = tensor z : tensor<%s, 1>\n  %%2 = tensor y : tensor<%s, 1>\n"
             "  %%3 = dim N : index\n  %%4 = const 0 : index\n  %%5 = axis %%4, %%3 {16} : axis<16>\n  %%6 = index %%5 : index[%%5]\n"
             "  %%8 = load %%0, %%6 : %s[%%5]\n  %%7 = load %%1, %%6 : %s[%%5]\n  %s\n  store %%2, %%6, %%9\n}\n",
             in, in, out, in, in, out, in, in, op);
    return kernel_text(session, text);
}

static void test_integers(void **state) {
    (void)state;
    int32_t x[] = {7, -7, 7, -7, INT32_MIN, 1, 1, -1, INT32_MAX, INT32_MIN}, z[] = {2, 2, -2, -2, -1, 31, 32, 40, 1, 1},
            y[10];
    static const struct { const char *op; int32_t want[10]; } rows[] = {
        {"%9 = binary.div %8, %7 : i32[%5]", {3, -4, -4, 3, INT32_MIN, 0, 0, -1, INT32_MAX, INT32_MIN}},
        {"%9 = binary.rem %8, %7 : i32[%5]", {1, 1, -1, -1, 0, 1, 1, 39, 0, 0}},
        {"%9 = binary.shl %8, %7 : i32[%5]", {28, -28, 0, 0, 0, INT32_MIN, 0, 0, -2, 0}},
        {"%9 = binary.shr %8, %7 : i32[%5]", {1, -2, 0, -1, -1, 0, 0, -1, INT32_MAX / 2, INT32_MIN / 2}},
        {"%9 = binary.add %8, %7 : i32[%5]", {9, -5, 5, -9, INT32_MAX, 32, 33, 39, INT32_MIN, INT32_MIN + 1}},
        {"%9 = fun.min %8, %7 : i32[%5]",    {2, -7, -2, -7, INT32_MIN, 1, 1, -1, 1, INT32_MIN}},
        {"%9 = fun.abs %8 : i32[%5]",        {7, 7, 7, 7, INT32_MIN, 1, 1, 1, INT32_MAX, INT32_MIN}},
        {"%9 = unary.bnot %8 : i32[%5]",     {-8, 6, -8, 6, INT32_MAX, -2, -2, 0, INT32_MIN, INT32_MAX}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Fn *f = unary_kernel("i32", "i32", rows[i].op);
        RUN(f, (const int64_t[]){10}, NULL, vec_arg(x, 10), vec_arg(z, 10), vec_arg(y, 10));
        for (int k = 0; k < 10; k++)
            if (y[k] != rows[i].want[k]) fail_msg("%s lane %d: %d, not %d", rows[i].op, k, y[k], rows[i].want[k]);
    }
}

static void test_narrow_integers_wrap(void **state) {
    (void)state;
    uint8_t x[] = {200, 255, 0, 16}, z[] = {100, 255, 1, 16}, y[4];
    Fn *f = unary_kernel("u8", "u8", "%9 = binary.mul %8, %7 : u8[%5]");
    RUN(f, (const int64_t[]){4}, NULL, vec_arg(x, 4), vec_arg(z, 4), vec_arg(y, 4));
    assert_int_equal(y[0], (uint8_t)(200 * 100));
    assert_int_equal(y[1], 1);
    assert_int_equal(y[3], 0);
    f = unary_kernel("u8", "u8", "%9 = binary.sub %8, %7 : u8[%5]");
    RUN(f, (const int64_t[]){4}, NULL, vec_arg(x, 4), vec_arg(z, 4), vec_arg(y, 4));
    assert_int_equal(y[2], 255);
}

static void test_floats(void **state) {
    (void)state;
    float nan = NAN, x[] = {1, -0.0f, 0.0f, nan, 3, 0x1p-140f, INFINITY, 1e30f},
          z[] = {3, 0.0f, -0.0f, 1, nan, 0x1p-5f, -INFINITY, 1e30f}, y[8];
    Fn *f = unary_kernel("f32", "f32", "%9 = fun.min %8, %7 : f32[%5]");
    RUN(f, (const int64_t[]){8}, NULL, vec_arg(x, 8), vec_arg(z, 8), vec_arg(y, 8));
    assert_true(y[0] == 1 && signbit(y[1]) && signbit(y[2]) && isnan(y[3]) && isnan(y[4]) && y[6] == -INFINITY);
    f = unary_kernel("f32", "f32", "%9 = fun.max %8, %7 : f32[%5]");
    RUN(f, (const int64_t[]){8}, NULL, vec_arg(x, 8), vec_arg(z, 8), vec_arg(y, 8));
    assert_true(y[0] == 3 && !signbit(y[1]) && !signbit(y[2]) && isnan(y[3]) && isnan(y[4]));
    f = unary_kernel("f32", "f32", "%9 = binary.mul %8, %7 : f32[%5]");
    RUN(f, (const int64_t[]){8}, NULL, vec_arg(x, 8), vec_arg(z, 8), vec_arg(y, 8));
    assert_true(y[5] == 0x1p-145f && y[7] == INFINITY && f32_bits(y[3]) == 0x7fffffff);
    f = unary_kernel("f32", "f32", "%9 = fun.fma %8, %7, %8 : f32[%5]");
    RUN(f, (const int64_t[]){8}, NULL, vec_arg(x, 8), vec_arg(z, 8), vec_arg(y, 8));
    assert_true(y[0] == 4);
    f = unary_kernel("f32", "bool", "%9 = binary.ne %8, %8 : bool[%5]");
    uint8_t b[8];
    RUN(f, (const int64_t[]){8}, NULL, vec_arg(x, 8), vec_arg(z, 8), vec_arg(b, 8));
    assert_true(b[3] == 1 && b[0] == 0);
}

static void test_casts(void **state) {
    (void)state;
    float x[] = {1.5f, -2.5f, 3e9f, -3e9f, NAN, 300, -1, 0.1f};
    int32_t i[8];
    Fn *f = unary_kernel("f32", "i32", "%9 = cast %8 : i32[%5]");
    RUN(f, (const int64_t[]){8}, NULL, vec_arg(x, 8), vec_arg(x, 8), vec_arg(i, 8));
    const int32_t want[] = {1, -2, INT32_MAX, INT32_MIN, 0, 300, -1, 0};
    assert_memory_equal(i, want, sizeof want);
    uint8_t u[8];
    f = unary_kernel("f32", "u8", "%9 = cast %8 : u8[%5]");
    RUN(f, (const int64_t[]){8}, NULL, vec_arg(x, 8), vec_arg(x, 8), vec_arg(u, 8));
    const uint8_t want8[] = {1, 0, 255, 0, 0, 255, 0, 0};
    assert_memory_equal(u, want8, sizeof want8);
    int64_t big[] = {(INT64_C(1) << 53) + 1, (INT64_C(257) << 47) + 1, -((INT64_C(257) << 47) + 1),
                     (INT64_C(1) << 62) + (INT64_C(1) << 54), 257};
    uint16_t h[5];
    f = unary_kernel("i64", "bf16", "%9 = cast %8 : bf16[%5]");
    RUN(f, (const int64_t[]){5}, NULL, vec_arg(big, 5), vec_arg(big, 5), vec_arg(h, 5));
    assert_float_equal(bf16_to_f32(h[1]), 0x1.02p+55f, 0);       // just above a tie: up, though f64 would lose the one
    assert_float_equal(bf16_to_f32(h[2]), -0x1.02p+55f, 0);
    assert_float_equal(bf16_to_f32(h[4]), 256, 0);               // a tie, to even
    f = unary_kernel("i64", "f32", "%9 = cast %8 : f32[%5]");
    float y[5];
    RUN(f, (const int64_t[]){5}, NULL, vec_arg(big, 5), vec_arg(big, 5), vec_arg(y, 5));
    assert_float_equal(y[0], 0x1p53f, 0);
}

// Reductions over the rows of a ragged matrix, one text for all.
static Fn *reduce_kernel(const char *elem, const char *result, const char *how) {
    char text[2000];
    snprintf(text, sizeof text,
             "kernel @red(x: %s[M, N], y: out %s[M])\n    dims (M, N)\n{\n"
             "  %%x = tensor x : tensor<%s, 2>\n  %%y = tensor y : tensor<%s, 1>\n"
             "  %%M = dim M : index\n  %%N = dim N : index\n  %%z = const 0 : index\n"
             "  %%m.0 = axis %%z, %%M {4} : axis<4>\n  %%n.0 = axis %%z, %%N {700} : axis<700>\n"
             "  %%i = index %%m.0 : index[%%m.0]\n  %%j = index %%n.0 : index[%%n.0]\n"
             "  %%v = load %%x, %%i, %%j : %s[%%m.0, %%n.0]\n"
             "  %%r = reduce.%s %%v over %%n.0 : %s[%%m.0]\n"
             "  store %%y, %%i, %%r\n}\n", elem, result, elem, result, elem, how, result);
    return kernel_text(session, text);
}

static void test_reductions(void **state) {
    (void)state;
    enum { M = 3, N = 600 };
    static float x[M * N];
    float y[M];
    double bound[M];
    for (int i = 0; i < M * N; i++) x[i] = (float)(i * 13 % 101) - 50;
    for (uint32_t seed = 1; seed < 4; seed++) {
        EvalOptions opt = {.junk = seed, .bound = {[1] = bound}};
        RUN(reduce_kernel("f32", "f32", "sum"), ((const int64_t[]){M, N}), &opt, mat_arg(x, M, N), vec_arg(y, M));
        for (int i = 0; i < M; i++) {
            double sum = 0, size = 0;
            for (int j = 0; j < N; j++) { sum += (double)x[i * N + j]; size += fabs((double)x[i * N + j]); }
            assert_float_equal(y[i], (float)sum, 0);
            assert_true(fabs(bound[i] - N * 0x1p-24 * size) < 1e-9 * size);
        }
        RUN(reduce_kernel("f32", "f32", "max"), ((const int64_t[]){M, N}), &opt, mat_arg(x, M, N), vec_arg(y, M));
        assert_float_equal(y[0], 50, 0);
    }
    int64_t at[M];
    x[5] = x[7] = 1000;
    x[N + 3] = NAN;
    x[N + 8] = INFINITY;
    RUN(reduce_kernel("f32", "index", "argmax"), ((const int64_t[]){M, N}), NULL, mat_arg(x, M, N), vec_arg(at, M));
    assert_int_equal(at[0], 5);
    assert_int_equal(at[1], 3);
    RUN(reduce_kernel("f32", "f32", "max"), ((const int64_t[]){M, N}), NULL, mat_arg(x, M, N), vec_arg(y, M));
    assert_true(isnan(y[1]));
}

static void test_reductions_of_nothing(void **state) {
    (void)state;
    float x[1], y[3];
    int32_t i[3];
    int64_t at[3];
    uint8_t b[3];
    static const struct {
        const char *how;
        float want;
    } rows[] = {{"sum", 0}, {"prod", 1}, {"max", -INFINITY}, {"min", INFINITY}};
    for (int k = 0; k < 4; k++) {
        RUN(reduce_kernel("f32", "f32", rows[k].how), ((const int64_t[]){3, 0}), NULL, mat_arg(x, 3, 0), vec_arg(y, 3));
        assert_true(y[2] == rows[k].want);
    }
    RUN(reduce_kernel("i32", "i32", "max"), ((const int64_t[]){3, 0}), NULL, mat_arg(x, 3, 0), vec_arg(i, 3));
    assert_int_equal(i[0], INT32_MIN);
    RUN(reduce_kernel("i32", "i32", "min"), ((const int64_t[]){3, 0}), NULL, mat_arg(x, 3, 0), vec_arg(i, 3));
    assert_int_equal(i[0], INT32_MAX);
    RUN(reduce_kernel("f32", "index", "argmin"), ((const int64_t[]){3, 0}), NULL, mat_arg(x, 3, 0), vec_arg(at, 3));
    assert_int_equal(at[1], -1);
    RUN(reduce_kernel("bool", "bool", "any"), ((const int64_t[]){3, 0}), NULL, mat_arg(x, 3, 0), vec_arg(b, 3));
    assert_int_equal(b[1], 0);
    RUN(reduce_kernel("bool", "bool", "every"), ((const int64_t[]){3, 0}), NULL, mat_arg(x, 3, 0), vec_arg(b, 3));
    assert_int_equal(b[1], 1);
}

// y[i] = x[ids[i] + 1] (else 9): out of range reads the fill.
static const char gather[] =
    "kernel @gather(x: f32[N], ids: i32[M], y: out f32[M])\n    dims (N, M)\n{\n"
    "  %x = tensor x : tensor<f32, 1>\n  %ids = tensor ids : tensor<i32, 1>\n  %y = tensor y : tensor<f32, 1>\n"
    "  %M = dim M : index\n  %z = const 0 : index\n  %one = const 1 : i32\n  %nine = const 9 : f32\n"
    "  %m.0 = axis %z, %M {8} : axis<8>\n  %i = index %m.0 : index[%m.0]\n"
    "  %id = load %ids, %i : i32[%m.0]\n  %id1 = binary.add %id, %one : i32[%m.0]\n"
    "  %v = load %x, %id1%ELSE% : f32[%m.0]\n  store %y, %i, %v\n}\n";

static Fn *gather_kernel(const char *other) {
    char text[2000];
    const char *cut = strstr(gather, "%ELSE%");
    snprintf(text, sizeof text, "%.*s%s%s", (int)(cut - gather), gather, other, cut + 6);
    return kernel_text(session, text);
}

static void test_gather(void **state) {
    (void)state;
    float x[] = {10, 11, 12, 13}, y[6];
    int32_t ids[] = {0, 2, 3, -1, -2, 1 << 30};
    RUN(gather_kernel(" else %nine"), ((const int64_t[]){4, 6}), NULL, vec_arg(x, 4), vec_arg(ids, 6), vec_arg(y, 6));
    const float want[] = {11, 13, 9, 10, 9, 9};
    assert_memory_equal(y, want, sizeof want);
    EvalReport report = {0};
    EvalOptions opt = {.report = &report};
    Fn *f = gather_kernel("");
    RUN(f, ((const int64_t[]){4, 6}), &opt, vec_arg(x, 4), vec_arg(ids, 6), vec_arg(y, 6));
    assert_true(y[2] == 0 && report.gathers == 3 && strstr(report.text.p, "gather from x"));
    buf_free(&report.text);
    opt = (EvalOptions){.trap_gathers = true};
    run_trap(f, (const EvalArg[]){vec_arg(x, 4), vec_arg(ids, 6), vec_arg(y, 6)}, (const int64_t[]){4, 6}, &opt, "gather");
}

// Searches with a while, a break two loops out, a continue inside an if.
static const char control[] =
    "kernel @control(y: out i64[N])\n    dims (N)\n{\n"
    "  %y = tensor y : tensor<i64, 1>\n  %z = const 0 : index\n  %one = const 1 : index\n  %ten = const 10 : index\n"
    "  %three = const 3 : index\n  %six = const 6 : index\n  %s0 = const 0 : i64\n  %s1 = const 1 : i64\n"
    // counts pairs (i, j), j < 10, without j = 3, until (6, 6)
    "  %r = for %z, %ten, %one, %s0 : i64 (%i: index, %a: i64) {\n"
    "    %q = for %z, %ten, %one, %a : i64 (%j: index, %b: i64) {\n"
    "      %is3 = binary.eq %j, %three : bool\n"
    "      %c = if %is3 : i64 {\n"
    "        continue %b\n"
    "      } else {\n"
    "        %e1 = binary.eq %i, %six : bool\n"
    "        %e2 = binary.eq %j, %six : bool\n"
    "        %e = binary.and %e1, %e2 : bool\n"
    "        %d = if %e : i64 {\n"
    "          break %b {1}\n"
    "        } else {\n"
    "          yield %b\n"
    "        }\n"
    "        yield %d\n"
    "      }\n"
    "      %n = binary.add %c, %s1 : i64\n"
    "      yield %n\n"
    "    }\n"
    "    yield %q\n"
    "  }\n"
    "  store %y, %z, %r\n"
    "  %w0, %w1 = while %s0, %s1 : i64, i64 (%u: i64, %v: i64) {\n"                  // Fibonacci by swapping, below 100
    "    %h = const 100 : i64\n"
    "    %lt = binary.lt %v, %h : bool\n"
    "    condition %lt, %u, %v\n"
    "  } do (%u2: i64, %v2: i64) {\n"
    "    %t = binary.add %u2, %v2 : i64\n"
    "    yield %v2, %t\n"
    "  }\n"
    "  store %y, %one, %w0\n"
    "  store %y, %three, %w1\n"
    "}\n";

static void test_control(void **state) {
    (void)state;
    int64_t y[4] = {0};
    RUN(kernel_text(session, control), (const int64_t[]){4}, NULL, vec_arg(y, 4));
    assert_int_equal(y[0], 6 * 9 + 5);
    assert_int_equal(y[1], 89);
    assert_int_equal(y[3], 144);
}

static void test_traps(void **state) {
    (void)state;
    int32_t x[] = {1, 2}, z[] = {1, 0}, y[16];
    Fn *f = unary_kernel("i32", "i32", "%9 = binary.div %8, %7 : i32[%5]");
    run_trap(f, (const EvalArg[]){vec_arg(x, 2), vec_arg(z, 2), vec_arg(y, 2)}, (const int64_t[]){2}, NULL,
             "division by zero");
    for (uint32_t seed = 0; seed < 50; seed++) {                 // dead lanes may divide by what they like
        EvalOptions opt = {.junk = seed};
        RUN(f, (const int64_t[]){1}, &opt, vec_arg(x, 1), vec_arg(z, 1), vec_arg(y, 1));
    }
    f = unary_kernel("i32", "i32", "%10 = binary.lt %8, %7 : bool[%5]\n  assert \"x < z\" %10\n  %9 = cast %8 : i32[%5]");
    run_trap(f, (const EvalArg[]){vec_arg(x, 2), vec_arg(z, 2), vec_arg(y, 2)}, (const int64_t[]){2}, NULL, "x < z");
    z[0] = 5;
    RUN(f, (const int64_t[]){1}, NULL, vec_arg(x, 1), vec_arg(z, 1), vec_arg(y, 1));
}

// Every program adds its number to y[0], plainly or atomically, or writes y[program].
static void test_races(void **state) {
    (void)state;
    static const struct { const char *op; int64_t races; } rows[] = {
        {"  store %y, %z, %v\n", 3},
        {"  store %y, %p, %v\n", 0},
        {"  %o = atomic.add %y, %z, %v : i64\n", 0},
        {"  %o = atomic.add %y, %z, %v : i64\n  %u = load %y, %z : i64\n", 7},
        {"  %u = load %y, %z : i64\n", 0},
        {"  %u = load %y, %p : i64\n  store %y, %p, %u\n", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "kernel @race(y: inout i64[N])\n    dims (N)\n    grid N\n{\n"
                 "  %%y = tensor y : tensor<i64, 1>\n  %%z = const 0 : index\n  %%p = program : index\n  %%v = cast %%p : i64\n%s}\n", rows[i].op);
        int64_t y[4] = {0};
        EvalReport report = {0};
        EvalOptions opt = {.report = &report};
        RUN(kernel_text(session, text), (const int64_t[]){4}, &opt, vec_arg(y, 4));
        if (rows[i].races == 7) assert_true(report.races > 0);
        else                    assert_int_equal(report.races, rows[i].races);
        if (report.races) assert_non_null(strstr(report.text.p, "y[0]"));
        if (i == 2) assert_int_equal(y[0], 6);
        buf_free(&report.text);
    }
}

// A tile of values at one place: every live lane acts, in order, and gets the value before it.
static void test_atomic_lanes(void **state) {
    (void)state;
    static const char text[] =
        "kernel @lanes(x: i32[N], h: inout i32[M], old: out i32[N])\n    dims (N, M)\n{\n"
        "  %x = tensor x : tensor<i32, 1>\n  %h = tensor h : tensor<i32, 1>\n  %old = tensor old : tensor<i32, 1>\n"
        "  %N = dim N : index\n  %z = const 0 : index\n  %out = const 99 : index\n  %n.0 = axis %z, %N {8} : axis<8>\n  %i = index %n.0 : index[%n.0]\n"
        "  %v = load %x, %i : i32[%n.0]\n  %o = atomic.add %h, %z, %v : i32[%n.0]\n  store %old, %i, %o\n"
        "  %p = atomic.max %h, %out, %v : i32[%n.0]\n}\n";
    int32_t x[] = {3, -1, 10, 4}, h[] = {100}, old[4];
    RUN(kernel_text(session, text), ((const int64_t[]){4, 1}), NULL, vec_arg(x, 4), vec_arg(h, 1), vec_arg(old, 4));
    const int32_t want[] = {100, 103, 102, 112};
    assert_memory_equal(old, want, sizeof want);
    assert_int_equal(h[0], 116);
}

static void test_print(void **state) {
    (void)state;
    static const char text[] =
        "kernel @show(x: f32[M, N])\n    dims (M, N)\n    grid 2\n{\n"
        "  %x = tensor x : tensor<f32, 2>\n  %M = dim M : index\n  %N = dim N : index\n  %z = const 0 : index\n"
        "  %m.0 = axis %z, %M {4} : axis<4>\n  %n.0 = axis %z, %N {4} : axis<4>\n"
        "  %i = index %m.0 : index[%m.0]\n  %j = index %n.0 : index[%n.0]\n  %v = load %x, %i, %j : f32[%m.0, %n.0]\n"
        "  print \"x is\" %v\n  print %M\n}\n";
    float x[] = {1, -2, 0.25f, 3, 1e10f, NAN};
    char *out = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&out, &n);
    EvalOptions opt = {.print_to = to};
    RUN(kernel_text(session, text), ((const int64_t[]){2, 3}), &opt, mat_arg(x, 2, 3));
    fclose(to);
    assert_string_equal(out, "x is f32[m, n] =\n[[   1.   -2.  0.25]\n [   3. 1e+10   nan]]\nindex = 2\n");
    free(out);
}

// x[m] and y[m] renamed to n: an outer difference, transposed into place.
static void test_rename(void **state) {
    (void)state;
    static const char text[] =
        "kernel @outer(x: f32[N], y: out f32[N, N])\n    dims (N)\n{\n"
        "  %x = tensor x : tensor<f32, 1>\n  %y = tensor y : tensor<f32, 2>\n  %N = dim N : index\n  %z = const 0 : index\n"
        "  %k.0 = axis %z, %N {3} : axis<3>\n  %m.0 = axis %z, %N {5} : axis<5>\n  %n.0 = axis %z, %N {5} : axis<5>\n"
        "  %i = index %m.0 : index[%m.0]\n  %j = index %n.0 : index[%n.0]\n  %l = index %k.0 : index[%k.0]\n"
        "  %v = load %x, %i : f32[%m.0]\n  %w = load %x, %l : f32[%k.0]\n"
        "  %p = binary.mul %v, %w : f32[%k.0, %m.0]\n"
        "  %q = rename %p, %m.0, %n.0 : f32[%k.0, %n.0]\n"
        "  %s = reduce.sum %q over %k.0 : f32[%n.0]\n"
        "  %d = binary.sub %v, %s : f32[%m.0, %n.0]\n"
        "  store %y, %i, %j, %d\n}\n";
    float x[] = {1, 2, 3, 4, 5}, y[25];
    RUN(kernel_text(session, text), (const int64_t[]){5}, NULL, vec_arg(x, 5), mat_arg(y, 5, 5));
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) assert_float_equal(y[i * 5 + j], x[i] - 6 * x[j], 0);
}

static void test_rename_moves_axes(void **state) {      // the new axis sorts before the other: lanes are transposed
    (void)state;
    static const char text[] =
        "kernel @t(x: f32[M, N], y: out f32[N, M])\n    dims (M, N)\n{\n"
        "  %x = tensor x : tensor<f32, 2>\n  %y = tensor y : tensor<f32, 2>\n  %M = dim M : index\n  %N = dim N : index\n  %z = const 0 : index\n"
        "  %a.0 = axis %z, %N {4} : axis<4>\n  %m.0 = axis %z, %M {2} : axis<2>\n  %n.0 = axis %z, %N {4} : axis<4>\n"
        "  %i = index %m.0 : index[%m.0]\n  %j = index %n.0 : index[%n.0]\n  %ia = index %a.0 : index[%a.0]\n"
        "  %v = load %x, %i, %j : f32[%m.0, %n.0]\n"
        "  %w = rename %v, %n.0, %a.0 : f32[%a.0, %m.0]\n"
        "  store %y, %ia, %i, %w\n}\n";
    float x[] = {1, 2, 3, 4, 5, 6}, y[6];
    RUN(kernel_text(session, text), ((const int64_t[]){2, 3}), NULL, mat_arg(x, 2, 3), mat_arg(y, 3, 2));
    const float want[] = {1, 4, 2, 5, 3, 6};
    assert_memory_equal(y, want, sizeof want);
}

static void test_bounds_propagate(void **state) {
    (void)state;
    float x[] = {1, 2, 4}, z[] = {3, 5, 7}, y[3];
    double bx[] = {0.5, 0, 0}, by[3];
    EvalOptions opt = {.bound = {[0] = bx, [2] = by}};
    RUN(unary_kernel("f32", "f32", "%9 = binary.mul %8, %7 : f32[%5]"), (const int64_t[]){3}, &opt, vec_arg(x, 3),
        vec_arg(z, 3), vec_arg(y, 3));
    assert_true(by[0] > 1.5 && by[0] < 1.501 && by[1] == 0);
    RUN(unary_kernel("f32", "f32", "%9 = fun.exp %8 : f32[%5]"), (const int64_t[]){3}, &opt, vec_arg(x, 3),
        vec_arg(z, 3), vec_arg(y, 3));
    assert_true(by[0] > exp(1.5) - exp(1) && by[1] > 0 && by[1] < 1e-5);
}

static void test_dot_kinds(void **state) {              // batch axes, an axis of one side only, integers, no axis left
    (void)state;
    static const char text[] =
        "kernel @d(x: i8[B, K], y: i8[B, K], z: out i32[B], w: out i32[B], v: out i32[B])\n    dims (B, K)\n{\n"
        "  %x = tensor x : tensor<i8, 2>\n  %y = tensor y : tensor<i8, 2>\n  %z = tensor z : tensor<i32, 1>\n  %w = tensor w : tensor<i32, 1>\n  %v = tensor v : tensor<i32, 1>\n"
        "  %B = dim B : index\n  %K = dim K : index\n  %o = const 0 : index\n"
        "  %b.0 = axis %o, %B {3} : axis<3>\n  %k.0 = axis %o, %K {600} : axis<600>\n"
        "  %i = index %b.0 : index[%b.0]\n  %j = index %k.0 : index[%k.0]\n"
        "  %p = load %x, %i, %j : i8[%b.0, %k.0]\n  %q = load %y, %i, %j : i8[%b.0, %k.0]\n  %q0 = load %y, %o, %j : i8[%k.0]\n"
        "  %r = dot.default %p, %q over %k.0 : i32[%b.0]\n  store %z, %i, %r\n"
        "  %s = dot.default %p, %q0 over %k.0 : i32[%b.0]\n  store %w, %i, %s\n"
        "  %t = dot.default %p, %q over %k.0, %b.0 : i32\n  %u = splat %t : i32[%b.0]\n  store %v, %i, %u\n}\n";
    enum { B = 2, K = 555 };
    static int8_t x[B * K], y[B * K];
    int32_t z[B], w[B], v[B], wz[B] = {0}, ww[B] = {0};
    for (int i = 0; i < B * K; i++) { x[i] = (int8_t)(i * 37); y[i] = (int8_t)(i * 91 + 5); }
    for (int b = 0; b < B; b++)
        for (int k = 0; k < K; k++) { wz[b] += x[b * K + k] * y[b * K + k]; ww[b] += x[b * K + k] * y[k]; }
    RUN(kernel_text(session, text), ((const int64_t[]){B, K}), NULL, mat_arg(x, B, K), mat_arg(y, B, K), vec_arg(z, B),
        vec_arg(w, B), vec_arg(v, B));
    assert_memory_equal(z, wz, sizeof z);
    assert_memory_equal(w, ww, sizeof w);
    assert_int_equal(v[0], wz[0] + wz[1]);
}

static void test_pointers(void **state) {
    (void)state;
    static const char text[] =
        "kernel @p(x: *f32, y: *f32, n: i32)\n{\n"
        "  %x = scalar x : *f32\n  %y = scalar y : *f32\n  %n = scalar n : i32\n  %z = const 0 : index\n  %e = const 8 : index\n"
        "  %a.0 = axis %z, %e {8, full} : axis<8>\n  %i = index %a.0 : index[%a.0]\n  %i32 = cast %i : i32[%a.0]\n"
        "  %ok = binary.lt %i32, %n : bool[%a.0]\n  %px = binary.add %x, %i : *f32[%a.0]\n  %py = binary.add %y, %i : *f32[%a.0]\n"
        "  %m = const -1 : f32\n  %v = ptrload %px where %ok else %m : f32[%a.0]\n  ptrstore %py, %v\n"
        "  %one = const 1 : f32\n  %o = atomic.add %y, %one : f32\n}\n";
    float x[] = {1, 2, 3}, y[8];
    RUN(kernel_text(session, text), NULL, NULL, vec_arg(x, 3), vec_arg(y, 8), int_arg(3));
    const float want[] = {2, 2, 3, -1, -1, -1, -1, -1};
    assert_memory_equal(y, want, sizeof want);
}

// With EvalOptions.places an axis of 3 lanes has 4 places, which a reduction counts; a select keeps the dead one out.
static void test_places(void **state) {
    (void)state;
    static const char text[] =
        "kernel @s(x: f32[N], y: out f32[], z: out f32[])\n    dims (N)\n{\n"
        "  %x = tensor x : tensor<f32, 1>\n  %y = tensor y : tensor<f32, 0>\n  %z = tensor z : tensor<f32, 0>\n"
        "  %o = const 0 : index\n  %N = dim N : index\n  %n.0 = axis %o, %N {3} : axis<3>\n  %i = index %n.0 : index[%n.0]\n"
        "  %v = load %x, %i : f32[%n.0]\n  %one = const 1 : f32\n  %w = binary.sub %v, %one : f32[%n.0]\n  %none = const 0 : f32\n"
        "  %s = reduce.sum %w over %n.0 : f32\n  store %y, %s\n"
        "  %l = live %n.0 : bool[%n.0]\n  %f = select %l, %w, %none : f32[%n.0]\n  %t = reduce.sum %f over %n.0 : f32\n  store %z, %t\n}\n";
    float x[] = {5, 6, 7}, y, z;
    const EvalArg args[] = {vec_arg(x, 3), {.tensor.data = &y}, {.tensor.data = &z}};
    Fn *f = kernel_text(session, text);
    run_kernel(f, args, (const int64_t[]){3}, NULL);
    assert_true(y == 15 && z == 15);
    run_kernel(f, args, (const int64_t[]){3}, &(EvalOptions){.places = true});
    assert_true(y == 14 && z == 15);
    run_kernel(f, args, (const int64_t[]){2}, &(EvalOptions){.places = true});
    assert_true(y == 7 && z == 9);
    run_kernel(f, args, (const int64_t[]){3}, NULL);               // the function is as it was
    assert_true(y == 15 && z == 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scale), cmocka_unit_test(test_matmul), cmocka_unit_test(test_integers), cmocka_unit_test(test_narrow_integers_wrap),
        cmocka_unit_test(test_floats), cmocka_unit_test(test_casts), cmocka_unit_test(test_reductions), cmocka_unit_test(test_reductions_of_nothing),
        cmocka_unit_test(test_gather), cmocka_unit_test(test_control), cmocka_unit_test(test_traps), cmocka_unit_test(test_races),
        cmocka_unit_test(test_atomic_lanes), cmocka_unit_test(test_print), cmocka_unit_test(test_rename), cmocka_unit_test(test_rename_moves_axes), cmocka_unit_test(test_bounds_propagate),
        cmocka_unit_test(test_dot_kinds), cmocka_unit_test(test_pointers), cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

// The interpreter: each kind of node against values computed by hand.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/ref/ref.h"
#include "lang/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define F(...) (const float[]){__VA_ARGS__}
#define I(...) (const int64_t[]){__VA_ARGS__}
#define S(...) (Ix[]){__VA_ARGS__}


static GTensor tensor(Elem elem, int rank, const int64_t *shape, const void *data) {
    GTensor t = {.elem = elem, .rank = rank, .data = (void *)data};
    int64_t n = elem_bytes(elem);
    for (int i = 0; i < rank; i++) n *= t.shape[i] = shape[i];
    t.bytes = (size_t)n;
    return t;
}

static GTensor value(Graph *g, Node *n) {
    GTensor t;
    char error[300] = "";
    if (g_failed(g)) fail_msg("%s", g_failed(g));
    if (!ref_value(g, n, &t, error, sizeof error)) fail_msg("%s", error);
    return t;
}

static void gives_f(Graph *g, Node *n, int rank, const int64_t *shape, const float *want) {
    GTensor t = value(g, n);
    assert_int_equal(t.elem, EL_f32);
    assert_int_equal(t.rank, rank);
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        assert_int_equal(t.shape[i], shape[i]);
        count *= shape[i];
    }
    for (int64_t i = 0; i < count; i++) {
        float got = ((float *)t.data)[i];
        if (!(got == want[i] || (isnan(got) && isnan(want[i])) || fabsf(got - want[i]) <= 1e-6f * fabsf(want[i])))
            fail_msg("element %lld: %g, should be %g", (long long)i, (double)got, (double)want[i]);
    }
    g_tensor_free(&t);
}

static void gives_i(Graph *g, Node *n, int rank, const int64_t *shape, const int64_t *want) {
    GTensor t = value(g, n);
    assert_int_equal(t.rank, rank);
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        assert_int_equal(t.shape[i], shape[i]);
        count *= shape[i];
    }
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(g_num_load((char *)t.data + i * elem_bytes(t.elem), t.elem).i, want[i]);
    g_tensor_free(&t);
}

// A constant that builders do not fold: read from a "file".
static Node *data_f(Graph *g, int rank, const int64_t *shape, const float *v) {
    return g_const_ref(g, EL_f32, rank, shape, v, &(GOrigin){.file = "weights"});
}
static Node *data_i(Graph *g, int rank, const int64_t *shape, const int64_t *v) {
    return g_const_ref(g, EL_i64, rank, shape, v, &(GOrigin){.file = "weights"});
}

static void elementwise(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Node *x = data_f(g, 2, I(2, 3), F(1, -2, 3, NAN, 0, -0.5f)), *y = data_f(g, 1, I(3), F(2, 4, 8));
    gives_f(g, g_ew2(g, EW_add, x, y), 2, I(2, 3), F(3, 2, 11, NAN, 4, 7.5f));
    gives_f(g, g_ew2(g, EW_max, x, y), 2, I(2, 3), F(2, 4, 8, NAN, 4, 8));
    gives_f(g, g_ew1(g, EW_round, g_ew2f(g, EW_mul, x, 0.5)), 2, I(2, 3), F(0, -1, 2, NAN, 0, -0.0f));
    gives_i(g, g_ew2(g, EW_lt, x, y), 2, I(2, 3), I(1, 1, 1, 0, 1, 1));
    gives_i(g, g_ew1(g, EW_isnan, x), 2, I(2, 3), I(0, 0, 0, 1, 0, 0));
    gives_f(g, g_where(g, g_ew1(g, EW_isnan, x), g_f(g, EL_f32, 9), x), 2, I(2, 3), F(1, -2, 3, 9, 0, -0.5f));
    Node *a = data_i(g, 1, I(6), I(7, -7, 7, -7, INT64_MIN, 5)), *b = data_i(g, 1, I(6), I(2, 2, -2, -2, -1, 0));
    gives_i(g, g_ew2(g, EW_div, a, b), 1, I(6), I(3, -3, -3, 3, INT64_MIN, 0));
    gives_i(g, g_ew2(g, EW_floordiv, a, b), 1, I(6), I(3, -4, -4, 3, INT64_MIN, 0));
    gives_i(g, g_ew2(g, EW_mod, a, b), 1, I(6), I(1, 1, -1, -1, 0, 0));
    gives_i(g, g_ew2(g, EW_rem, a, b), 1, I(6), I(1, -1, 1, -1, 0, 0));
    gives_i(g, g_ew2(g, EW_pow, data_i(g, 1, I(3), I(3, -2, 2)), data_i(g, 1, I(3), I(4, 3, -1))), 1, I(3), I(81, -8, 0));
    Node *u8 = g_cast(g, data_i(g, 1, I(4), I(1, 200, 255, 3)), EL_u8);
    gives_i(g, g_ew2(g, EW_add, u8, u8), 1, I(4), I(2, 144, 254, 6));
    gives_i(g, g_ew2(g, EW_shl, u8, g_i(g, EL_u8, 7)), 1, I(4), I(128, 0, 128, 128));
    gives_i(g, g_ew1(g, EW_not, u8), 1, I(4), I(254, 55, 0, 252));
    graph_free(g);
}

static void conversions(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Node *x = data_f(g, 1, I(5), F(1.9f, -1.9f, 300, 1e30f, 0));
    gives_i(g, g_cast(g, x, EL_i8), 1, I(5), I(1, -1, 44, 0, 0));
    gives_i(g, g_cast_saturate(g, x, EL_i8), 1, I(5), I(1, -1, 127, 127, 0));
    gives_i(g, g_cast(g, x, EL_bool), 1, I(5), I(1, 1, 1, 1, 0));
    GTensor t = value(g, g_cast(g, data_f(g, 1, I(3), F(1 + 1.0f / 2048, 65520, 1e-8f)), EL_f16));
    assert_int_equal(((uint16_t *)t.data)[0], 0x3c00);
    assert_int_equal(((uint16_t *)t.data)[1], 0x7c00);
    assert_int_equal(((uint16_t *)t.data)[2], 0);
    g_tensor_free(&t);
    t = value(g, g_cast(g, data_f(g, 1, I(2), F(1000, 1)), EL_f8e4m3));
    assert_int_equal(((uint8_t *)t.data)[0], 0x7f);
    g_tensor_free(&t);
    t = value(g, g_cast_saturate(g, data_f(g, 1, I(2), F(1000, 1)), EL_f8e4m3));
    assert_int_equal(((uint8_t *)t.data)[0], 0x7e);
    g_tensor_free(&t);
    // three terms that only meet in f32
    Node *h = g_cast(g, data_f(g, 1, I(3), F(2048, 1, 1)), EL_f16);
    t = value(g, g_reduce(g, GR_sum, h, 1, false));
    assert_true(f16_to_f32(*(uint16_t *)t.data) == 2050);
    g_tensor_free(&t);
    graph_free(g);
}

static void views(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Node *x = data_f(g, 2, I(2, 3), F(1, 2, 3, 4, 5, 6));
    gives_f(g, g_transpose(g, x, 2, (int[]){1, 0}), 2, I(3, 2), F(1, 4, 2, 5, 3, 6));
    gives_f(g, g_reshape(g, g_transpose(g, x, 2, (int[]){1, 0}), 2, S(ix(g, 2), ix(g, 3))), 2, I(2, 3), F(1, 4, 2, 5, 3, 6));
    gives_f(g, g_slice(g, x, 1, ix(g, -1), ix(g, INT64_MIN), -2), 2, I(2, 2), F(3, 1, 6, 4));
    gives_f(g, g_slice(g, x, 1, ix(g, 1), ix(g, INT64_MAX), 1), 2, I(2, 2), F(2, 3, 5, 6));
    gives_f(g, g_slice(g, x, 0, ix(g, 5), NULL, 1), 2, I(0, 3), F(0));
    Ix o = ix(g, 0), one = ix(g, 1), two = ix(g, 2);
    gives_f(g, g_pad(g, x, S(one, o), S(o, one), GP_constant, g_float(9)), 2, I(3, 4),
            F(9, 9, 9, 9, 1, 2, 3, 9, 4, 5, 6, 9));
    gives_f(g, g_pad(g, x, S(o, two), S(o, two), GP_reflect, g_int(0)), 2, I(2, 7),
            F(3, 2, 1, 2, 3, 2, 1, 6, 5, 4, 5, 6, 5, 4));
    gives_f(g, g_pad(g, x, S(o, two), S(o, one), GP_edge, g_int(0)), 2, I(2, 6), F(1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 6));
    gives_f(g, g_pad(g, x, S(o, two), S(o, one), GP_wrap, g_int(0)), 2, I(2, 6), F(2, 3, 1, 2, 3, 1, 5, 6, 4, 5, 6, 4));
    gives_f(g, g_pad(g, x, S(o, ix(g, 5)), S(o, o), GP_reflect, g_int(0)), 2, I(2, 8),
            F(2, 1, 2, 3, 2, 1, 2, 3, 5, 4, 5, 6, 5, 4, 5, 6));
    gives_f(g, g_tile(g, x, S(one, two)), 2, I(2, 6), F(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
    gives_f(g, g_flip(g, x, 3), 2, I(2, 3), F(6, 5, 4, 3, 2, 1));
    gives_f(g, g_expand(g, g_unsqueeze(g, x, 2), 3, S(two, two, ix(g, 3))), 3, I(2, 2, 3),
            F(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
    Node *w = g_windows(g, x, 1, 1, S(two), S(two), I(2), I(1), S(one), g_int(0));
    gives_f(g, w, 3, I(2, 2, 2), F(0, 1, 2, 3, 0, 4, 5, 6));
    gives_f(g, g_concat(g, -1, (Node *[]){x, g_flip(g, x, 2)}, 2), 2, I(2, 6), F(1, 2, 3, 3, 2, 1, 4, 5, 6, 6, 5, 4));
    gives_i(g, g_iota(g, EL_i64, 2, S(two, ix(g, 3)), 1), 2, I(2, 3), I(0, 1, 2, 0, 1, 2));
    graph_free(g);
}

static void gathers_and_scatters(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Node *x = data_f(g, 2, I(3, 2), F(1, 2, 3, 4, 5, 6));
    Node *i = data_i(g, 1, I(2), I(-1, 0));
    gives_f(g, g_gather_axis(g, x, i, 0), 2, I(2, 2), F(5, 6, 1, 2));
    gives_f(g, g_gather_axis(g, x, data_i(g, 2, I(1, 2), I(1, 1)), 1), 3, I(3, 1, 2), F(2, 2, 4, 4, 6, 6));
    gives_f(g, g_gather_elements(g, x, data_i(g, 2, I(2, 2), I(0, 2, -1, 1)), 0), 2, I(2, 2), F(1, 6, 5, 4));
    gives_f(g, g_gather_nd(g, x, data_i(g, 2, I(2, 2), I(0, 1, 2, 0)), 0), 1, I(2), F(2, 5));
    gives_f(g, g_gather_nd(g, x, data_i(g, 2, I(3, 1), I(1, 0, 1)), 1), 1, I(3), F(2, 3, 6));
    Node *u = data_f(g, 2, I(2, 2), F(10, 20, 30, 40));
    gives_f(g, g_scatter_elements(g, GR_sum, x, data_i(g, 2, I(2, 2), I(0, 1, 0, -1)), u, 0), 2, I(3, 2),
            F(41, 2, 3, 24, 5, 46));
    gives_f(g, g_scatter_nd(g, GR_none, x, data_i(g, 2, I(2, 1), I(2, 0)), u), 2, I(3, 2), F(30, 40, 3, 4, 10, 20));
    gives_f(g, g_scatter_nd(g, GR_none, g_transpose(g, x, 2, (int[]){1, 0}), data_i(g, 2, I(2, 2), I(0, 2, 1, 0)), data_f(g, 1, I(2), F(50, 60))), 2, I(2, 3),
            F(1, 3, 50, 60, 4, 6));
    gives_f(g, g_scatter_nd(g, GR_max, x, data_i(g, 2, I(2, 1), I(2, 2)), u), 2, I(3, 2), F(1, 2, 3, 4, 30, 40));
    char error[200];
    GTensor t;
    g_at(g, "Gather /embed");
    Node *places, *bad = g_gather_axis(g, x, g_sort(g, data_i(g, 1, I(2), I(3, 1)), 0, false, &places), 0);
    assert_false(ref_value(g, bad, &t, error, sizeof error));
    assert_string_equal(error, "Gather /embed: an index is out of range");
    graph_free(g);
}

static void reductions(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Node *x = data_f(g, 3, I(2, 2, 3), F(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    gives_f(g, g_reduce(g, GR_sum, x, 5, false), 1, I(2), F(30, 48));
    gives_f(g, g_reduce(g, GR_max, x, 2, true), 3, I(2, 1, 3), F(4, 5, 6, 10, 11, 12));
    gives_f(g, g_reduce(g, GR_prod, x, 4, false), 2, I(2, 2), F(6, 120, 504, 1320));
    gives_f(g, g_mean(g, x, 7, false), 0, I(0), F(6.5f));
    Node *y = data_f(g, 2, I(2, 4), F(1, 3, 3, NAN, 2, 0, 0, 2));
    gives_i(g, g_arg_reduce(g, GR_argmax, y, 1, false, false), 1, I(2), I(3, 0));
    gives_i(g, g_arg_reduce(g, GR_argmax, y, 1, true, true), 2, I(2, 1), I(3, 3));
    gives_i(g, g_arg_reduce(g, GR_argmin, y, 1, false, true), 1, I(2), I(3, 2));
    gives_f(g, g_reduce(g, GR_max, y, 2, false), 1, I(2), F(NAN, 2));
    Node *none = data_f(g, 2, I(2, 0), F(0));
    gives_f(g, g_reduce(g, GR_sum, none, 2, false), 1, I(2), F(0, 0));
    gives_f(g, g_reduce(g, GR_max, none, 2, false), 1, I(2), F(-INFINITY, -INFINITY));
    gives_f(g, g_softmax(g, data_f(g, 1, I(2), F(0, 0)), 1), 1, I(2), F(0.5f, 0.5f));
    Node *k = g_cast(g, data_i(g, 1, I(3), I(-5, 3, 2)), EL_i32);
    gives_i(g, g_reduce(g, GR_min, k, 1, false), 0, I(0), I(-5));
    graph_free(g);
}

static void scans_and_sorts(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Node *x = data_f(g, 2, I(2, 3), F(3, 1, 2, 5, 5, 4)), *at;
    gives_f(g, g_scan(g, GR_sum, x, 1, false, false), 2, I(2, 3), F(3, 4, 6, 5, 10, 14));
    gives_f(g, g_scan(g, GR_sum, x, 1, true, true), 2, I(2, 3), F(3, 2, 0, 9, 4, 0));
    gives_f(g, g_scan(g, GR_max, x, 0, false, false), 2, I(2, 3), F(3, 1, 2, 5, 5, 4));
    gives_f(g, g_sort(g, x, 1, true, &at), 2, I(2, 3), F(3, 2, 1, 5, 5, 4));
    gives_i(g, at, 2, I(2, 3), I(0, 2, 1, 0, 1, 2));
    gives_f(g, g_sort(g, x, 0, false, &at), 2, I(2, 3), F(3, 1, 2, 5, 5, 4));
    graph_free(g);
}

static void products(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    enum { B = 2, M = 5, N = 37, K = 41 };
    float *a = heap_try_zeroed(B * M * K, 4), *b = heap_try_zeroed(B * K * N, 4), *c = heap_try_zeroed(B * M * N, 4);
    for (int i = 0; i < B * M * K; i++) a[i] = (float)((i * 37) % 11 - 5);
    for (int i = 0; i < B * K * N; i++) b[i] = (float)((i * 53) % 13 - 6);
    for (int z = 0; z < B; z++)
        for (int m = 0; m < M; m++)
            for (int n = 0; n < N; n++)
                for (int k = 0; k < K; k++) c[(z * M + m) * N + n] += a[(z * M + m) * K + k] * b[(z * K + k) * N + n];
    Node *x = data_f(g, 3, I(B, M, K), a), *y = data_f(g, 3, I(B, K, N), b);
    gives_f(g, g_matmul(g, x, y), 3, I(B, M, N), c);
    Node *xi = g_cast(g, x, EL_i32), *yi = g_cast(g, y, EL_i32);
    gives_f(g, g_cast(g, g_matmul(g, xi, yi), EL_f32), 3, I(B, M, N), c);
    gives_f(g, g_cast(g, g_matmul(g, g_cast(g, x, EL_f64), g_cast(g, y, EL_f64)), EL_f32), 3, I(B, M, N), c);
    Node *p = data_f(g, 2, I(2, 2), F(1, 2, 3, 4)), *q = data_f(g, 1, I(2), F(10, 1));
    gives_f(g, g_matmul(g, p, q), 1, I(2), F(12, 34));
    gives_f(g, g_matmul(g, q, p), 1, I(2), F(13, 24));
    gives_f(g, g_matmul(g, q, q), 0, I(0), F(101));
    gives_f(g, g_einsum(g, "ii->i", p, NULL), 1, I(2), F(1, 4));
    gives_f(g, g_einsum(g, "ij->", p, NULL), 0, I(0), F(10));
    gives_f(g, g_einsum(g, "ij,k->ki", p, q), 2, I(2, 2), F(30, 70, 3, 7));
    gives_f(g, g_einsum(g, "ij,ij->ij", p, p), 2, I(2, 2), F(1, 4, 9, 16));
    gives_f(g, g_matmul(g, data_f(g, 3, I(1, 1, 2), F(1, 1)), data_f(g, 3, I(2, 2, 1), F(1, 2, 3, 4))), 3, I(2, 1, 1),
            F(3, 7));
    // a convolution is a product over windows
    Node *img = data_f(g, 4, I(1, 1, 3, 3), F(1, 2, 3, 4, 5, 6, 7, 8, 9)), *ker = data_f(g, 4, I(1, 1, 2, 2), F(1, 0, 0, 1));
    Ix two = ix(g, 2), zero = ix(g, 0);
    Node *win = g_windows(g, img, 2, 2, S(two, two), S(two, two), I(1, 1), I(1, 1), S(zero, zero), g_int(0));
    gives_f(g, g_einsum(g, "nchwij,ocij->nohw", win, ker), 4, I(1, 1, 2, 2), F(6, 8, 12, 14));
    heap_free(a);
    heap_free(b);
    heap_free(c);
    graph_free(g);
}

static void symbolic_sizes_are_bound_and_checked(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Ix B = ix_dim(g, "B"), P = ix_dim(g, "P");
    Node *x = g_input(g, "x", EL_f32, 2, S(B, ix(g, 2)));
    Node *y = g_input(g, "y", EL_f32, 2, S(ix_add(g, B, P), ix(g, 2)));
    g_output(g, "z", g_reduce(g, GR_sum, g_concat(g, 0, (Node *[]){x, y}, 2), 1, false));
    g_output(g, "count", g_size(g, EL_i64, g_count(g, y)));
    float xs[] = {1, 2}, ys[] = {3, 4, 5, 6};
    GTensor in[2] = {tensor(EL_f32, 2, I(1, 2), xs), tensor(EL_f32, 2, I(2, 2), ys)}, out[2];
    char error[300];
    assert_true(ref_run(g, in, out, NULL, error, sizeof error));
    assert_true(((float *)out[0].data)[0] == 9 && ((float *)out[0].data)[1] == 12);
    assert_int_equal(*(int64_t *)out[1].data, 4);
    g_tensor_free(&out[0]);
    g_tensor_free(&out[1]);
    in[0] = tensor(EL_f32, 2, I(0, 2), xs);                  // no rows
    assert_true(ref_run(g, in, out, NULL, error, sizeof error));
    assert_true(((float *)out[0].data)[0] == 8);
    g_tensor_free(&out[0]);
    g_tensor_free(&out[1]);
    in[0] = tensor(EL_f32, 2, I(1, 3), xs);
    assert_false(ref_run(g, in, out, NULL, error, sizeof error));
    assert_string_equal(error, "axis 1 of `x` has the size 3; it should be 2 = 2");
    in[0] = tensor(EL_f32, 2, I(1, 2), xs);
    in[1].data = NULL;
    assert_false(ref_run(g, in, out, NULL, error, sizeof error));
    graph_free(g);
}

// ---- bodies and whole tensors ---------------------------------------------------------------------------------------

static bool nonzero(const void *attr, const GTensor *in, int nin, GTensor *out, int nout, char *error, size_t size) {
    (void)attr, (void)nin, (void)nout, (void)error, (void)size;
    int64_t n = 0;
    for (int64_t i = 0; i < in[0].shape[0]; i++) n += ((float *)in[0].data)[i] != 0;
    out[0].shape[0] = n;
    if (!g_tensor_alloc(&out[0])) return false;
    n = 0;
    for (int64_t i = 0; i < in[0].shape[0]; i++)
        if (((float *)in[0].data)[i] != 0) ((int64_t *)out[0].data)[n++] = i;
    return true;
}

static void data_dependent_sizes(void **state) {
    (void)state;
    static const GHostOp op = {"nonzero", nonzero};
    Graph *g = graph_new("t");
    Node *x = data_f(g, 1, I(5), F(0, 3, 0, 4, 5));
    Ix n = ix_dim_fresh(g, "found", 0, 5);
    Node *at = g_proj(g, g_host(g, &op, NULL, 0, &x, 1, &(GType){EL_i64, 1, &n}, 1), 0);
    gives_f(g, g_gather_axis(g, x, at, 0), 1, I(3), F(3, 4, 5));
    gives_f(g, g_full(g, EL_f32, 1, &n, g_float(7)), 1, I(3), F(7, 7, 7));   // needs the size alone
    graph_free(g);
}

static void loops_and_ifs(void **state) {
    (void)state;
    Graph *g = graph_new("t");
    Node *x = data_f(g, 1, I(2), F(1, 2)), *scale = data_f(g, 0, NULL, F(3));
    Ix two = ix(g, 2);
    Node *t = g_param(g, "t", EL_i64, 0, NULL), *v = g_param(g, "v", EL_f32, 1, &two);
    Node *outside = g_ew2f(g, EW_add, scale, 1);             // not computed for each trip
    Node *next = g_ew2(g, EW_mul, v, outside);
    Node *go_on = g_ew2(g, EW_lt, t, data_i(g, 0, NULL, I(2)));
    GBody body = {(Node *[]){t, v}, 2, (Node *[]){go_on, next, g_reduce(g, GR_sum, v, 1, false)}, 3};
    Node *loop = g_loop(g, data_i(g, 0, NULL, I(10)), NULL, &x, 1, &body);
    gives_f(g, g_proj(g, loop, 0), 1, I(2), F(64, 128));     // trips 0, 1, 2
    gives_f(g, g_proj(g, loop, 1), 1, I(3), F(3, 12, 48));
    gives_f(g, outside, 0, I(0), F(4));
    Node *yes = g_ew2(g, EW_lt, data_i(g, 0, NULL, I(1)), data_i(g, 0, NULL, I(2)));
    GBody a = {NULL, 0, &next, 1};
    (void)a;
    Node *p = g_ew2f(g, EW_mul, x, 2), *q = g_slice(g, x, 0, ix(g, 0), ix(g, 1), 1);
    Node *either = g_if(g, g_ew1(g, EW_not, yes), &(GBody){NULL, 0, &p, 1}, &(GBody){NULL, 0, &q, 1});
    gives_f(g, g_ew2f(g, EW_add, g_proj(g, either, 0), 1), 1, I(1), F(2));
    Node *v0 = g_loop(g, data_i(g, 0, NULL, I(0)), NULL, &x, 1, &body);
    gives_f(g, g_proj(g, v0, 0), 1, I(2), F(1, 2));
    gives_f(g, g_proj(g, v0, 1), 1, I(0), F(0));
    graph_free(g);
}

static Node *always_true(Graph *g, Node *t) { (void)t; return g_i(g, EL_bool, 1); }
static Node *true_of_trip(Graph *g, Node *t) { return g_ew2(g, EW_lt, t, g_i(g, EL_i64, INT64_MAX)); }

static void stops_with(Graph *g, Node *n, const char *words) {
    char error[512];
    GTensor out = {0};
    assert_false(ref_value(g, n, &out, error, sizeof error));
    if (!strstr(error, words)) fail_msg("%s", error);
}

// A loop of 2^62 trips: refused before the first where its condition is the number true, after so many as the limit says where it is computed.
static void endless_loops(void **state) {
    (void)state;
    Node *(*const conditions[])(Graph *, Node *) = {always_true, true_of_trip};
    for (int i = 0; i < 2; i++) {
        Graph *g = graph_new("t");
        Node *x = data_f(g, 1, I(2), F(1, 2));
        Ix two = ix(g, 2);
        Node *t = g_param(g, "t", EL_i64, 0, NULL), *v = g_param(g, "v", EL_f32, 1, &two);
        GBody body = {(Node *[]){t, v}, 2, (Node *[]){conditions[i](g, t), g_ew2f(g, EW_mul, v, 1)}, 2};
        Node *loop = g_loop(g, data_i(g, 0, NULL, I(INT64_C(1) << 62)), NULL, &x, 1, &body);
        stops_with(g, g_proj(g, loop, 0), i == 0 ? "a loop of 4611686018427387904 trips, more than the limit trips allows (1000"
                                                 : "a loop of 1001 trips, more than the limit trips allows (1000");
        graph_free(g);
    }
}

// ---- random chains of movement, against a walk over coordinates ------------------------------------------------------

static uint32_t seed;
static uint32_t rnd(uint32_t n) { seed = seed * 1664525u + 1013904223u; return (seed >> 8) % n; }

typedef struct Array { int rank; int64_t shape[6]; float v[4096]; } Array;

static int64_t count_of(const Array *a) {
    int64_t n = 1;
    for (int i = 0; i < a->rank; i++) n *= a->shape[i];
    return n;
}

static void random_chains_of_movement(void **state) {
    (void)state;
    static Array a, b;
    static float first[64];
    for (int i = 0; i < 64; i++) first[i] = (float)i + 1;
    for (uint32_t round = 1; round <= 1500; round++) {
        seed = round * 104729;
        Graph *g = graph_new("t");
        a.rank = 3;
        for (int i = 0; i < 3; i++) a.shape[i] = 1 + rnd(4);
        memcpy(a.v, first, sizeof first);
        Node *x = g_const_ref(g, EL_f32, 3, a.shape, first, &(GOrigin){.file = "weights"});
        for (int step = 0; step < 6; step++) {
            Ix dims[6], zero[6], pad[6];
            int64_t n = count_of(&a);
            b = a;
            switch (rnd(5)) {
            case 0: {                                        // another shape
                int64_t rest = n;
                b.rank = 0;
                for (int64_t d = 2; d <= 4 && b.rank < 4; d++)
                    if (rest % d == 0 && rnd(2)) b.shape[b.rank++] = d, rest /= d;
                b.shape[b.rank++] = rest;
                for (int i = 0; i < b.rank; i++) dims[i] = ix(g, b.shape[i]);
                x = g_reshape(g, x, b.rank, dims);
                break;
            }
            case 1: {                                        // axes in another order
                int perm[6];
                for (int i = 0; i < a.rank; i++) perm[i] = i;
                for (int i = a.rank - 1; i > 0; i--) {
                    int j = (int)rnd((uint32_t)i + 1), t = perm[i];
                    perm[i] = perm[j];
                    perm[j] = t;
                }
                for (int i = 0; i < a.rank; i++) b.shape[i] = a.shape[perm[i]];
                for (int64_t k = 0; k < n; k++) {
                    int64_t at[6], from[6], rest = k, flat = 0;
                    for (int i = b.rank; i-- > 0; rest /= b.shape[i]) at[i] = rest % b.shape[i];
                    for (int i = 0; i < a.rank; i++) from[perm[i]] = at[i];
                    for (int i = 0; i < a.rank; i++) flat = flat * a.shape[i] + from[i];
                    b.v[k] = a.v[flat];
                }
                x = g_transpose(g, x, x->rank, perm);
                break;
            }
            default: {                                       // padding, or a slice, or a flip of one axis
                int axis = (int)rnd((uint32_t)a.rank), what = (int)rnd(3);
                int64_t before = what == 0 ? (int64_t)rnd(3) : 0, size = a.shape[axis], start = 0, stride = 1;
                if (what == 0 && n * (size + 2) / size > 2000) break;
                if (what == 0) b.shape[axis] = size + before + 1;
                if (what == 1)
                    start = rnd((uint32_t)size), stride = 1 + rnd(2),
                    b.shape[axis] = (size - start + stride - 1) / stride;
                if (what == 2) start = size - 1, stride = -1;
                int64_t m = count_of(&b);
                for (int64_t k = 0; k < m; k++) {
                    int64_t at[6], rest = k, flat = 0;
                    for (int i = b.rank; i-- > 0; rest /= b.shape[i]) at[i] = rest % b.shape[i];
                    at[axis] = what == 0 ? at[axis] - before : start + at[axis] * stride;
                    bool in = at[axis] >= 0 && at[axis] < size;
                    for (int i = 0; i < a.rank; i++) flat = flat * a.shape[i] + at[i];
                    b.v[k] = in ? a.v[flat] : -1;
                }
                for (int i = 0; i < 6; i++) zero[i] = pad[i] = ix(g, 0);
                zero[axis] = ix(g, before);
                pad[axis] = ix(g, 1);
                x = what == 0   ? g_pad(g, x, zero, pad, GP_constant, g_float(-1))
                    : what == 1 ? g_slice(g, x, axis, ix(g, start), NULL, stride)
                                : g_flip(g, x, 1u << axis);
            }
            }
            a = b;
        }
        gives_f(g, x, a.rank, a.shape, a.v);
        graph_free(g);
    }
}

int main(void) {
    setenv("TKC_LIMITS", "trips=1000", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(conversions),
        cmocka_unit_test(views),
        cmocka_unit_test(gathers_and_scatters),
        cmocka_unit_test(reductions),
        cmocka_unit_test(scans_and_sorts),
        cmocka_unit_test(products),
        cmocka_unit_test(symbolic_sizes_are_bound_and_checked),
        cmocka_unit_test(data_dependent_sizes),
        cmocka_unit_test(loops_and_ifs),
        cmocka_unit_test(endless_loops),
        cmocka_unit_test(random_chains_of_movement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

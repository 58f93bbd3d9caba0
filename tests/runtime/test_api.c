// libtkc (tkc.h): what its header promises, on eval, on the emulator, and on a driver of our own making.

#include "tests/runtime/api.h"
#include "tests/runtime/fake.h"

#include "lang/ast.h"
#include "runtime/artifact.h"

#include <pthread.h>

static const char source[] =
    AXPY_TK "\n"
    "kernel shift<T: float = f32, BY = 1>(x: T[M, N], y: out T[M, N], limit: i32)\n"
    "    where M <= limit\n"
    "    grid (m in M)\n"
    "{\n"
    "    let n = N by 128;\n"
    "    y[m, n] = (x[m, n] + BY) as T;\n"
    "}\n";

static const char *const devices[] = {"eval", "emu"};
enum { DEVICES = 2 };


typedef struct World { tkc_context *ctx; tkc_program *prog; } World;

static World world(const char *device, const tkc_options *opt) {
    World w = {0};
    FINE(tkc_open(device, opt, &w.ctx));
    FINE(tkc_load_text(w.ctx, "test.tk", source, strlen(source), &w.prog));
    return w;
}

static void end(World *w) {
    tkc_unload(w->prog);
    tkc_close(w->ctx);
}

static tkc_arg vector(const char *name, void *data, int64_t n, tkc_memory memory) {
    return (tkc_arg){.name = name, .tensor = {.data = data, .memory = memory, .dtype = TKC_F32, .rank = 1, .dims = {n}}};
}

static void host_memory(void **state) {
    (void)state;
    for (int d = 0; d < DEVICES; d++) {
        enum { N = 100 };
        World w = world(devices[d], NULL);
        float x[N], y[N], z[N];
        for (int i = 0; i < N; i++) { x[i] = (float)i; y[i] = 1; z[i] = -1; }
        tkc_launch *run;
        tkc_arg args[] = {
            {.name = "a", .kind = TKC_FLOAT, .f = 2}, vector("y", y, N, TKC_HOST), vector("x", x, N, TKC_HOST)};
        FINE(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run));
        FINE(tkc_run(run, NULL));
        for (int i = 0; i < N; i++) assert_true(y[i] == 2 * (float)i + 1);
        FINE(tkc_set_data(run, "y", z));
        FINE(tkc_set_int(run, "a", 3));
        FINE(tkc_run(run, NULL));
        for (int i = 0; i < N; i++) assert_true(z[i] == 3 * (float)i - 1 && y[i] == 2 * (float)i + 1);
        double us = 0;
        FINE(tkc_time(run, 3, &us));
        assert_true(us > 0);
        REFUSED(tkc_time(run, 0, &us), TKC_BAD_ARGUMENT, "0 rounds");
        REFUSED(tkc_set_data(run, "q", z), TKC_BAD_ARGUMENT, "`axpy` has no tensor `q`");
        REFUSED(tkc_set_int(run, "x", 1), TKC_BAD_ARGUMENT, "`axpy` has no number `x`");
        REFUSED(tkc_set_data(run, "x", NULL), TKC_BAD_ARGUMENT, "`x` has no memory");
        tkc_launch_free(run);
        end(&w);
    }
}

// Memory of the device: at any address, in place, checked for overlap again when it changes.
static void device_memory(void **state) {
    (void)state;
    for (int d = 0; d < DEVICES; d++) {
        enum { N = 70 };
        World w = world(devices[d], NULL);
        float host[N], got[N];
        void *x, *y;
        FINE(tkc_alloc(w.ctx, sizeof host + 4, &x));
        FINE(tkc_alloc(w.ctx, sizeof host, &y));
        for (int i = 0; i < N; i++) host[i] = (float)i;
        FINE(tkc_write(w.ctx, x, host, sizeof host));
        FINE(tkc_write(w.ctx, y, host, sizeof host));
        tkc_launch *run;
        tkc_arg args[] = {
            vector("x", x, N, TKC_DEVICE), vector("y", y, N, TKC_DEVICE), {.name = "a", .kind = TKC_INT, .i = 2}};
        FINE(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run));
        FINE(tkc_run(run, NULL));
        FINE(tkc_sync(w.ctx));
        FINE(tkc_read(w.ctx, got, y, sizeof got));
        for (int i = 0; i < N; i++) assert_true(got[i] == 3 * (float)i);
        REFUSED(tkc_set_data(run, "x", (char *)y + 16), TKC_BAD_ARGUMENT, "`y` is written and shares memory with `x`");
        FINE(tkc_write(w.ctx, (char *)x + 4, host, sizeof host));
        FINE(tkc_set_data(run, "x", (char *)x + 4));                                  // less aligned: other code
        FINE(tkc_run(run, NULL));
        FINE(tkc_read(w.ctx, got, y, sizeof got));
        for (int i = 0; i < N; i++) assert_true(got[i] == 5 * (float)i);
        tkc_launch_free(run);
        tkc_free(w.ctx, x);
        tkc_free(w.ctx, y);
        tkc_free(w.ctx, NULL);
        end(&w);
    }
}

// Compile-time values, element types from tensors, strides with gaps, and a number that a condition reads.
static void specialised(void **state) {
    (void)state;
    for (int d = 0; d < DEVICES; d++) {
        enum { M = 3, N = 5, ROW = 8 };
        World w = world(devices[d], NULL);
        uint16_t x[M][N], y[M][ROW];
        for (int i = 0; i < M * N; i++) x[i / N][i % N] = 0x3f80;                             // bf16 1
        memset(y, 0x11, sizeof y);
        int64_t strides[] = {ROW, 1};
        tkc_value by = {"BY", "3"};
        tkc_launch *run, *other;
        tkc_arg args[] = {
            {.name = "x", .tensor = {.data = x, .dtype = TKC_BF16, .rank = 2, .dims = {M, N}}},
            {.name = "y", .tensor = {.data = y, .dtype = TKC_BF16, .rank = 2, .dims = {M, N}, .strides = strides}},
            {.name = "limit", .kind = TKC_INT, .i = 4},
        };
        FINE(tkc_prepare(w.prog, "shift", &by, 1, args, 3, &run));
        FINE(tkc_prepare(w.prog, "shift", NULL, 0, args, 3, &other));
        FINE(tkc_run(run, NULL));
        for (int m = 0; m < M; m++)
            for (int n = 0; n < ROW; n++) assert_int_equal(y[m][n], n < N ? 0x4080 : 0x1111);
        FINE(tkc_run(other, NULL));
        assert_int_equal(y[2][4], 0x4000);
        REFUSED(tkc_set_int(run, "limit", 2), TKC_BAD_ARGUMENT, "`shift` cannot run here: M <= limit");
        REFUSED(tkc_set_float(run, "limit", 2.5), TKC_BAD_ARGUMENT, "`limit` is 2.5, no integer (i32)");
        FINE(tkc_run(run, NULL));                                                     // as it was before
        assert_int_equal(y[2][4], 0x4080);
        tkc_launch_free(run);
        tkc_launch_free(other);
        end(&w);
    }
}

// One column, by itself and cut out of a matrix: only the first is so many numbers in a row.
static void column(void **state) {
    (void)state;
    for (int d = 0; d < DEVICES; d++)
        for (int row = 1; row <= 8; row += 7) {
            enum { M = 40 };
            World w = world(devices[d], NULL);
            uint16_t x[M * 8], y[M * 8];
            for (int i = 0; i < M * 8; i++) { x[i] = i % row ? 0 : 0x3f80; y[i] = 0x1111; }
            int64_t strides[] = {row, 1};
            tkc_value by = {"BY", "3"};
            tkc_launch *run;
            tkc_arg args[] = {
                {.name = "x", .tensor = {.data = x, .dtype = TKC_BF16, .rank = 2, .dims = {M, 1}, .strides = strides}},
                {.name = "y", .tensor = {.data = y, .dtype = TKC_BF16, .rank = 2, .dims = {M, 1}, .strides = strides}},
                {.name = "limit", .kind = TKC_INT, .i = M},
            };
            FINE(tkc_prepare(w.prog, "shift", &by, 1, args, 3, &run));
            FINE(tkc_run(run, NULL));
            for (int i = 0; i < M * row; i++) assert_int_equal(y[i], i % row ? 0x1111 : 0x4080);
            tkc_launch_free(run);
            end(&w);
        }
}

static void refusals(void **state) {
    (void)state;
    tkc_context *none;
    tkc_program *prog;
    tkc_launch  *run;
    float x[8] = {0}, y[8];
    World w = world("emu", NULL);
    assert_string_equal(tkc_device_name(w.ctx), "emu");
    assert_non_null(strstr(tkc_device_text(w.ctx), "emulates"));
    REFUSED(tkc_open("fpga", NULL, &none), TKC_DEVICE_ERROR, "there is no device `fpga`; there are auto, cuda, emu, eval");
    assert_null(none);
    REFUSED(tkc_load_file(w.ctx, "nowhere.tk", &prog), TKC_BAD_SOURCE, "nowhere.tk: No such file");
    static const char wrong[] = "kernel k(x: out f32[N]) grid (n in N by 64) { x[n] = yy; }\n";
    REFUSED(tkc_load_text(w.ctx, "bad.tk", "kernel k(", 9, &prog), TKC_BAD_SOURCE, "bad.tk:1:");
    FINE(tkc_load_text(w.ctx, "wrong.tk", wrong, strlen(wrong), &prog));
    tkc_arg one = vector("x", x, 8, TKC_HOST);
    // each time
    for (int i = 0; i < 2; i++) REFUSED(tkc_prepare(prog, NULL, NULL, 0, &one, 1, &run), TKC_BAD_SOURCE, "wrong.tk:1:54");
    tkc_unload(prog);

    tkc_arg args[] = {vector("x", x, 8, TKC_HOST), vector("y", y, 8, TKC_HOST), {.name = "a", .kind = TKC_FLOAT, .f = 1}};
    tkc_value value = {"Q", "1"};
    REFUSED(tkc_prepare(w.prog, NULL, NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "there are `axpy`, `shift`");
    REFUSED(tkc_prepare(w.prog, "nope", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "there is no kernel `nope`");
    REFUSED(tkc_prepare(w.prog, "axpy", &value, 1, args, 3, &run), TKC_BAD_ARGUMENT,
            "`axpy` has no compile-time parameter `Q`");
    value = (tkc_value){"BY", "1.5"};
    REFUSED(tkc_prepare(w.prog, "shift", &value, 1, args, 3, &run), TKC_BAD_ARGUMENT, "BY = `1.5` is no integer");
    tkc_value twice[] = {{"BY", "1"}, {"BY", "2"}};
    REFUSED(tkc_prepare(w.prog, "shift", twice, 2, args, 3, &run), TKC_BAD_ARGUMENT, "`BY` is given twice");
    REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, 2, &run), TKC_BAD_ARGUMENT, "`axpy` needs an argument for `a`");
    args[2].name = "b";
    REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "has no parameter `b`");
    args[2].name = "a";
#define CHANGED(field, value, words) do { tkc_arg was = args[1]; args[1].field = (value); \
        REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, words); assert_null(run); args[1] = was; } while (0)
    CHANGED(tensor.dims[0], 7, "`y` has 7 elements along dimension 0, not 8: N = 8 (`x`, dimension 0)");
    CHANGED(tensor.dims[0], -1, "`y` has -1 elements");
    CHANGED(tensor.dims[0], INT64_MAX, "`y` is larger than any memory");
    CHANGED(tensor.dtype, TKC_F64, "`y` holds f64; the kernel takes f32");
    CHANGED(tensor.dtype, (tkc_dtype)77, "`y` has no known element type (77)");
    CHANGED(tensor.rank, 2, "`y` (argument) has 2 dimensions; the kernel takes 1");
    CHANGED(tensor.rank, 9, "`y` has 9 dimensions; at most 8 can be");
    CHANGED(tensor.data, NULL, "`y` has no memory");
    CHANGED(tensor.memory, (tkc_memory)9, "`y` lies in no known memory");
    CHANGED(kind, (tkc_kind)9, "of no known kind");
    int64_t back = -1, wide = 2;
    CHANGED(tensor.strides, &back, "strides are not negative");
    CHANGED(tensor.strides, &wide, "`y` has stride 2 along its last dimension");
    // host memory called the device's: the emulator knows
    args[1].tensor.memory = TKC_DEVICE;
    FINE(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run));
    REFUSED(tkc_run(run, NULL), TKC_DEVICE_ERROR, "test.tk:4:");
    tkc_launch_free(run);
    end(&w);
}

// NULL where something has to be: words, whatever the function.
static void nothing_there(void **state) {
    (void)state;
    World w = world("emu", NULL);
    tkc_program *prog;
    tkc_launch  *run;
    tkc_graph   *graph;
    tkc_tuning   tuning;
    void        *data;
    double       us;
    char        *text, byte = 0;
    tkc_port     port;
    REFUSED(tkc_open("emu", NULL, NULL), TKC_BAD_ARGUMENT, "tkc_open: `out` is NULL");
    REFUSED(tkc_alloc(NULL, 4, &data), TKC_BAD_ARGUMENT, "tkc_alloc: `ctx` is NULL");
    REFUSED(tkc_alloc(w.ctx, 4, NULL), TKC_BAD_ARGUMENT, "tkc_alloc: `out` is NULL");
    REFUSED(tkc_write(w.ctx, NULL, &byte, 1), TKC_BAD_ARGUMENT, "tkc_write: `to` is NULL");
    REFUSED(tkc_read(w.ctx, &byte, NULL, 1), TKC_BAD_ARGUMENT, "tkc_read: `from` is NULL");
    FINE(tkc_write(w.ctx, NULL, NULL, 0));
    REFUSED(tkc_sync(NULL), TKC_BAD_ARGUMENT, "tkc_sync: `ctx` is NULL");
    REFUSED(tkc_load_file(w.ctx, NULL, &prog), TKC_BAD_ARGUMENT, "tkc_load_file: `path` is NULL");
    REFUSED(tkc_load_text(w.ctx, "a.tk", NULL, 3, &prog), TKC_BAD_ARGUMENT, "tkc_load_text: `text` is NULL");
    REFUSED(tkc_load_text(NULL, "a.tk", source, strlen(source), &prog), TKC_BAD_ARGUMENT, "tkc_load_text: `ctx` is NULL");
    REFUSED(tkc_prepare(NULL, NULL, NULL, 0, NULL, 0, &run), TKC_BAD_ARGUMENT, "tkc_prepare: `prog` is NULL");
    REFUSED(tkc_prepare(w.prog, "axpy", NULL, 1, NULL, 0, &run), TKC_BAD_ARGUMENT, "tkc_prepare: `values` is NULL");
    REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, NULL, 3, &run), TKC_BAD_ARGUMENT, "tkc_prepare: `args` is NULL");
    REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, NULL, 0, NULL), TKC_BAD_ARGUMENT, "tkc_prepare: `out` is NULL");
    REFUSED(tkc_run(NULL, NULL), TKC_BAD_ARGUMENT, "tkc_run: `launch` is NULL");
    REFUSED(tkc_time(NULL, 1, &us), TKC_BAD_ARGUMENT, "tkc_time: `launch` is NULL");
    REFUSED(tkc_set_data(NULL, "x", &byte), TKC_BAD_ARGUMENT, "tkc_set_data: `launch` is NULL");
    REFUSED(tkc_set_int(NULL, "x", 1), TKC_BAD_ARGUMENT, "tkc_set_int: `launch` is NULL");
    REFUSED(tkc_set_float(NULL, "x", 1), TKC_BAD_ARGUMENT, "tkc_set_float: `launch` is NULL");
    REFUSED(tkc_tune(NULL, "axpy", NULL, 0, NULL, 0, 0, &tuning), TKC_BAD_ARGUMENT, "tkc_tune: `prog` is NULL");
    REFUSED(tkc_graph_load(NULL, "a.tk", NULL, &graph), TKC_BAD_ARGUMENT, "tkc_graph_load: `ctx` is NULL");
    REFUSED(tkc_graph_load(w.ctx, NULL, NULL, &graph), TKC_BAD_ARGUMENT, "tkc_graph_load: `path` is NULL");
    REFUSED(tkc_graph_port(NULL, 0, &port), TKC_BAD_ARGUMENT, "tkc_graph_port: `graph` is NULL");
    REFUSED(tkc_graph_sizes(NULL, NULL, 0), TKC_BAD_ARGUMENT, "tkc_graph_sizes: `graph` is NULL");
    REFUSED(tkc_graph_run(NULL, NULL, 0, NULL), TKC_BAD_ARGUMENT, "tkc_graph_run: `graph` is NULL");
    REFUSED(tkc_graph_profile(NULL, NULL, 0, TKC_PROFILE_TABLE, &text), TKC_BAD_ARGUMENT, "tkc_graph_profile: `graph` is NULL");
    assert_int_equal(tkc_graph_ports(NULL), 0);
    assert_string_equal(tkc_device_name(NULL), "");
    assert_string_equal(tkc_device_text(NULL), "");
    tkc_free(NULL, NULL);
    tkc_free(w.ctx, NULL);
    tkc_close(NULL);
    tkc_unload(NULL);
    tkc_launch_free(NULL);
    tkc_graph_free(NULL);
    tkc_text_free(NULL);
    tkc_graph_stats_get(NULL, NULL);
    tkc_graph_stats stats = {.plans = 7};
    tkc_graph_stats_get(NULL, &stats);
    assert_int_equal(stats.plans, 0);
    end(&w);
}

// A raw pointer that leads out of its memory is a fault where the device is ours, and the host's memory is not touched.
static void pointers_astray(void **state) {
    (void)state;
    static const char text[] =
        "kernel load_at(p: *f32, by: i64, y: out f32[N]) grid (n in N by 32) { y[n] = load(p + by + n); }\n"
        "kernel store_at(p: *f32, by: i64, y: out f32[N]) grid (n in N by 32) { store(p + by + n, 1.0); y[n] = 0.0; }\n"
        "kernel add_at(p: *f32, by: i64, y: out f32[N]) grid (n in N by 32) { atomic_add(p + by + n, 1.0); y[n] = 0.0; }\n";
    static const char *const kernels[] = {"load_at", "store_at", "add_at"};
    static const struct { int64_t by; bool fine; } cases[] = {
        {0, true}, {8, true}, {9, false}, {-1, false}, {1 << 20, false}, {INT64_C(1) << 40, false}, {-(INT64_C(1) << 40), false}, {INT64_MAX / 8, false},
    };
    static float memory[64], *p = memory + 24, *y = memory + 56;           // with something between them
    for (int d = 0; d < DEVICES; d++) {
        tkc_context *ctx;
        tkc_program *prog;
        FINE(tkc_open(devices[d], NULL, &ctx));
        FINE(tkc_load_text(ctx, "astray.tk", text, strlen(text), &prog));
        for (int k = 0; k < 3; k++)
            for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                tkc_launch *run;
                tkc_arg args[] = {vector("p", p, 16, TKC_HOST), vector("y", y, 8, TKC_HOST), {.name = "by", .kind = TKC_INT, .i = cases[i].by}};
                FINE(tkc_prepare(prog, kernels[k], NULL, 0, args, 3, &run));
                if (cases[i].fine) FINE(tkc_run(run, NULL));
                else REFUSED(tkc_run(run, NULL), TKC_DEVICE_ERROR, d ? "out of bounds" : "a raw pointer leads out of the memory of the arguments");
                tkc_launch_free(run);
            }
        tkc_unload(prog);
        tkc_close(ctx);
    }
}

// Numbers and enumerations that are none of theirs.
static void out_of_range(void **state) {
    (void)state;
    static float x[8], y[16];
    World w = world("emu", NULL);
    tkc_context *none;
    tkc_program *prog;
    tkc_launch  *run;
    tkc_arg args[] = {vector("x", x, 8, TKC_HOST), vector("y", y, 8, TKC_HOST), {.name = "a", .kind = TKC_FLOAT, .f = 1}};
    tkc_value values[65];
    for (int i = 0; i < 65; i++) values[i] = (tkc_value){"BY", "1"};
    REFUSED(tkc_open("emu", &(tkc_options){.ordinal = -1}, &none), TKC_BAD_ARGUMENT, "`ordinal` is -1");
    REFUSED(tkc_load_text(w.ctx, "a.tk", source, (size_t)1 << 40, &prog), TKC_BAD_ARGUMENT, "at most 1073741824 can be");
    REFUSED(tkc_load_text(w.ctx, "a.tk", source, SIZE_MAX, &prog), TKC_BAD_ARGUMENT, "at most 1073741824 can be");
    static const int below[] = {-1, -65, INT32_MIN};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        int n = below[i];
        REFUSED(tkc_prepare(w.prog, "axpy", NULL, n, args, 3, &run), TKC_BAD_ARGUMENT, "values and 3 arguments");
        REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, n, &run), TKC_BAD_ARGUMENT, "0 values and -");
        REFUSED(tkc_tune(w.prog, "axpy", NULL, n, args, 3, 0, NULL), TKC_BAD_ARGUMENT, "values and 3 arguments");
        REFUSED(tkc_tune(w.prog, "axpy", NULL, 0, args, 3, n, NULL), TKC_BAD_ARGUMENT, "candidates cannot be measured");
    }
    REFUSED(tkc_prepare(w.prog, "axpy", values, 65, args, 3, &run), TKC_BAD_ARGUMENT, "65 values");
    REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, 1 << 20, &run), TKC_BAD_ARGUMENT, "1048576 arguments");
    REFUSED(tkc_prepare(w.prog, "shift", &(tkc_value){NULL, "1"}, 1, args, 3, &run), TKC_BAD_ARGUMENT, "no compile-time parameter ``");
    REFUSED(tkc_prepare(w.prog, "shift", &(tkc_value){"BY", NULL}, 1, args, 3, &run), TKC_BAD_ARGUMENT, "without a value");
    static const int no_types[] = {-1, 0, 16, 99, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof no_types / sizeof *no_types; i++) {
        args[0].tensor.dtype = (tkc_dtype)no_types[i];
        REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "`x` has no known element type");
        args[0].tensor.dtype = TKC_F32;
        if (!no_types[i]) continue;
        args[0].tensor.memory = (tkc_memory)no_types[i];
        REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "`x` lies in no known memory");
        args[0].tensor.memory = TKC_HOST;
        args[0].kind = (tkc_kind)no_types[i];
        REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "of no known kind");
        args[0].kind = TKC_TENSOR;
        args[0].tensor.rank = no_types[i];
        REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "`x` has");
        args[0].tensor.rank = 1;
    }
    const char *name = args[1].name;
    args[1].name = NULL;
    REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "has no parameter ``");
    args[1].name = name;
    FINE(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run));
    double us;
    static const int rounds[] = {0, -1, 10001, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++)
        REFUSED(tkc_time(run, rounds[i], &us), TKC_BAD_ARGUMENT, "1 to 10000 can be");
    REFUSED(tkc_time(run, 1, NULL), TKC_BAD_ARGUMENT, "tkc_time: `microseconds` is NULL");
    REFUSED(tkc_set_data(run, NULL, y), TKC_BAD_ARGUMENT, "has no tensor ``");
    REFUSED(tkc_set_int(run, NULL, 1), TKC_BAD_ARGUMENT, "has no number ``");
    REFUSED(tkc_set_float(run, NULL, 1), TKC_BAD_ARGUMENT, "has no number ``");
    tkc_launch_free(run);
    end(&w);
    w = world("eval", NULL);                               // used where it lies
    args[1].tensor.data = (char *)y + 2;
    REFUSED(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "`y` begins at no multiple of its elements' 4 bytes");
    args[1].tensor.data = y;
    FINE(tkc_prepare(w.prog, "axpy", NULL, 0, args, 3, &run));
    REFUSED(tkc_set_data(run, "x", (char *)y + 1), TKC_BAD_ARGUMENT, "`x` begins at no multiple");
    tkc_launch_free(run);
    end(&w);
}

// ---- threads -------------------------------------------------------------------------------------

typedef struct Job { World w; int id; bool own; } Job;

static void *work(void *at) {
    Job *job = at;
    tkc_program *prog = job->w.prog;
    if (job->own && tkc_load_text(job->w.ctx, "test.tk", source, strlen(source), &prog)) return (void *)"load";
    for (int round = 0; round < 4; round++) {
        char  number[8];
        float x[2][33], y[2][33];
        tkc_launch *run, *bad;
        for (int i = 0; i < 66; i++) x[i / 33][i % 33] = (float)i;
        snprintf(number, sizeof number, "%d", job->id % 3 + round);
        tkc_value by = {"BY", number};
        tkc_arg args[] = {
            {.name = "x", .tensor = {.data = x, .dtype = TKC_F32, .rank = 2, .dims = {2, 33}}},
            {.name = "y", .tensor = {.data = y, .dtype = TKC_F32, .rank = 2, .dims = {2, 33}}},
            {.name = "limit", .kind = TKC_INT, .i = 9},
        };
        snprintf(number, sizeof number, "%d", job->id % 3 + round);
        if (tkc_prepare(prog, "shift", &by, 1, args, 3, &run) || tkc_run(run, NULL)) return (void *)"run";
        for (int i = 0; i < 66; i++) if (y[i / 33][i % 33] != (float)(i + job->id % 3 + round)) return (void *)"result";
        tkc_launch_free(run);
        char name[16], want[32];
        snprintf(name, sizeof name, "k%d", job->id);
        snprintf(want, sizeof want, "no kernel `k%d`", job->id);
        // one's own
        if (!tkc_prepare(prog, name, NULL, 0, args, 3, &bad) || !strstr(tkc_error(), want)) return (void *)"words";
    }
    if (job->own) tkc_unload(prog);
    return NULL;
}

static void threads(void **state) {
    (void)state;
    enum { N = 6 };
    for (int d = 0; d < DEVICES; d++) {
        World w = world(devices[d], NULL);
        pthread_t thread[N];
        Job job[N];
        for (int i = 0; i < N; i++) {
            job[i] = (Job){w, i, i % 2 == 1};
            assert_int_equal(pthread_create(&thread[i], NULL, work, &job[i]), 0);
        }
        for (int i = 0; i < N; i++) {
            void *said;
            pthread_join(thread[i], &said);
            if (said) fail_msg("%s, thread %d: %s", devices[d], i, (const char *)said);
        }
        end(&w);
    }
}

// ---- cuda ----------------------------------------------------------------------------------------

static tkc_launch *on_device(const World *w, void **x, void **y) {
    tkc_launch *run;
    FINE(tkc_alloc(w->ctx, 400, x));
    FINE(tkc_alloc(w->ctx, 400, y));
    tkc_arg args[] = {
        vector("x", *x, 100, TKC_DEVICE), vector("y", *y, 100, TKC_DEVICE), {.name = "a", .kind = TKC_FLOAT, .f = 1}};
    FINE(tkc_prepare(w->prog, "axpy", NULL, 0, args, 3, &run));
    return run;
}

// What a launch asks of the driver: cuLaunchKernel on the stream given, and nothing else.
static void driver(void **state) {
    (void)state;
    Fake fake = fake_driver();
    fake.reset();
    World w = world("cuda", &(tkc_options){.driver = FAKE_WHOLE_PATH});
    void *x, *y;
    tkc_launch *run = on_device(&w, &x, &y);
    size_t before = strlen(fake.calls());
    int stream;
    FINE(tkc_run(run, &stream));
    FINE(tkc_set_float(run, "a", 2));
    FINE(tkc_run(run, &stream));
    const char *log = fake.calls() + before;
    print_message("%s", log);
    int launches = 0, other = 0;
    for (const char *p = log; *p; p = strchr(p, '\n') + 1) {
        launches += strncmp(p, "cuLaunchKernel\n", 15) == 0;
        other += strncmp(p, "cu", 2) == 0;
    }
    assert_int_equal(launches, 2);
    assert_int_equal(other, 2);
    assert_true(fake.get("stream") == (int)(uintptr_t)&stream);
    fake.fail_in("cuLaunchKernel", 1);
    REFUSED(tkc_run(run, NULL), TKC_DEVICE_ERROR, "cuda: cannot launch `axpy");
    tkc_launch_free(run);
    tkc_free(w.ctx, x);
    tkc_free(w.ctx, y);
    end(&w);
    assert_int_equal(fake.get("live"), 0);
    assert_int_equal(fake.get("contexts"), 0);
    dlclose(fake.lib);
}

// Launches that may begin before the one before has ended: their code waits, and the driver is told.
static void early(void **state) {
    (void)state;
    Fake fake = fake_driver();
    for (int on = 0; on < 2; on++) {
        fake.reset();
        World w = world("cuda", &(tkc_options){.driver = FAKE_WHOLE_PATH, .early = on});
        void *x, *y;
        tkc_launch *run = on_device(&w, &x, &y);
        assert_true((strstr(fake.calls(), ", which waits") != NULL) == on);
        assert_true((strstr(fake.calls(), ", with constants") == NULL) == on);
        size_t before = strlen(fake.calls());
        FINE(tkc_run(run, NULL));
        FINE(tkc_set_data(run, "x", x));
        FINE(tkc_run(run, NULL));
        const char *log = fake.calls() + before;
        print_message("%s", log);
        assert_true((strstr(log, "early grid 1") != NULL) == on);
        assert_true((strstr(log, "cuLaunchKernelEx\n") != NULL) == on);
        tkc_launch_free(run);
        tkc_free(w.ctx, x);
        tkc_free(w.ctx, y);
        end(&w);
    }
    dlclose(fake.lib);
}

// tkc_tune on a driver whose clock counts blocks; what it finds is what is prepared from then on.
static void tuning(void **state) {
    (void)state;
    static const char text[] = "kernel twice<B = 64>(x: f32[N], y: out f32[N]) grid (n in N by B) { y[n] = x[n] * 2; }\n"
                               "tune twice { B in [64, 128, 256]; }\n";
    enum { N = 1024 };
    static float x[N], y[N];
    tkc_context *ctx;
    tkc_program *prog;
    tkc_launch  *run;
    tkc_tuning   got;
    Fake fake = fake_driver();
    fake.reset();
    fake.set("by_blocks", 1);
    FINE(tkc_open("cuda", &(tkc_options){.driver = FAKE_WHOLE_PATH}, &ctx));
    FINE(tkc_load_text(ctx, "twice.tk", text, strlen(text), &prog));
    tkc_arg args[] = {vector("x", NULL, N, TKC_HOST), vector("y", NULL, N, TKC_HOST)};
    tkc_value warps = {"B", "64"};
    FINE(tkc_tune(prog, NULL, NULL, 0, args, 2, 0, &got));
    assert_non_null(strstr(got.choice, "B = 256"));
    assert_true(got.best_us > 10.9 && got.default_us > got.best_us && got.measured >= 3);
    assert_non_null(strstr(got.table, "B = 128"));
    args[0].tensor.data = x;
    args[1].tensor.data = y;
    FINE(tkc_prepare(prog, "twice", NULL, 0, args, 2, &run));
    FINE(tkc_run(run, NULL));
    const char *log = fake.calls(), *last = log;
    for (const char *p = log; (p = strstr(p, "grid ")) != NULL; p++) last = p;
    assert_int_equal(atoi(last + 5), (int)(got.best_us - 9.5));
    tkc_launch_free(run);
    FINE(tkc_tune(prog, "twice", &warps, 1, args, 2, 4, NULL));
    REFUSED(tkc_tune(prog, "thrice", NULL, 0, args, 2, 0, NULL), TKC_BAD_ARGUMENT, "there is no kernel `thrice`");
    REFUSED(tkc_tune(prog, "twice", NULL, 0, args, 2, -1, NULL), TKC_BAD_ARGUMENT, "at most -1 candidates");
    tkc_unload(prog);
    tkc_close(ctx);
    World w = world("emu", NULL);
    tkc_arg axpy[] = {
        {.name = "a", .kind = TKC_FLOAT, .f = 2}, vector("y", NULL, N, TKC_HOST), vector("x", NULL, N, TKC_HOST)};
    REFUSED(tkc_tune(w.prog, "axpy", NULL, 0, axpy, 3, 0, &got), TKC_DEVICE_ERROR,
            "tuning measures a GPU; the device emu is none");
    end(&w);
    fake.reset();
}

// Kernels compiled to bytes, and run from them: two instances of one kernel, told apart by the element type.
static void compiled_bytes(Buf *out) {
    Session  *s = session_new();
    SemaFile *file = sema_file(s, parse_file(s, source_add(s, "test.tk", source, strlen(source))));
    ArtifactList list = {0};
    Buf err = {0};
    const CompileOptions opt = {.target = target_find("sm_90a")};
    const SemaValue f16 = {.name = "T", .is_type = true, .elem = EL_f16};
    for (int i = 0; i < 3; i++) {
        TKernel *k = sema_instance((InstanceOf){.file = file, .item = sema_find_kernel(file, i ? "shift" : "axpy"), .set = &f16, .nset = i == 2});
        assert_true(artifact_make(s, k, &opt, 0, &list, &err));
    }
    artifact_write(s, list.at, (int)list.n, opt.target, out);
    session_free(s);
}

static void artifacts(void **state) {
    (void)state;
    enum { M = 3, N = 100 };
    static float x[M * N], y[M * N];
    Buf bytes = {0}, again = {0};
    tkc_context *ctx, *eval;
    tkc_program *prog;
    tkc_launch  *run;
    compiled_bytes(&bytes);
    compiled_bytes(&again);
    assert_true(bytes.n == again.n && memcmp(bytes.p, again.p, bytes.n) == 0);
    FINE(tkc_open("emu", NULL, &ctx));
    FINE(tkc_load_text(ctx, "test.tkx", bytes.p, bytes.n, &prog));
    tkc_arg args[] = {
        {.name = "x", .tensor = {.data = x, .dtype = TKC_F32, .rank = 2, .dims = {M, N}}},
        {.name = "y", .tensor = {.data = y, .dtype = TKC_F32, .rank = 2, .dims = {M, N}}},
        {.name = "limit", .kind = TKC_INT, .i = 8},
    };
    for (int i = 0; i < M * N; i++) x[i] = (float)i;
    FINE(tkc_prepare(prog, "shift", NULL, 0, args, 3, &run));
    FINE(tkc_run(run, NULL));
    for (int i = 0; i < M * N; i++) assert_true(y[i] == (float)i + 1);
    tkc_launch_free(run);
    args[0].tensor.dtype = args[1].tensor.dtype = TKC_F16;
    static unsigned short h[M * N], g[M * N];
    args[0].tensor.data = h;
    args[1].tensor.data = g;
    FINE(tkc_prepare(prog, "shift", NULL, 0, args, 3, &run));
    FINE(tkc_run(run, NULL));
    for (int i = 0; i < M * N; i++) assert_int_equal(g[i], 0x3c00);
    tkc_launch_free(run);
    args[2].i = 2;
    REFUSED(tkc_prepare(prog, "shift", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "M <= limit");
    args[0].tensor.dtype = args[1].tensor.dtype = TKC_I32;
    REFUSED(tkc_prepare(prog, "shift", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "`x`");
    REFUSED(tkc_prepare(prog, "shrift", NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "there is no kernel `shrift`");
    REFUSED(tkc_prepare(prog, NULL, NULL, 0, args, 3, &run), TKC_BAD_ARGUMENT, "which kernel is wanted must be said");
    REFUSED(tkc_prepare(prog, "shift", &(tkc_value){"BY", "2"}, 1, args, 3, &run), TKC_BAD_ARGUMENT,
            "its values were set then");
    REFUSED(tkc_tune(prog, "shift", NULL, 0, args, 3, 0, NULL), TKC_BAD_ARGUMENT, "nothing of it is left open");
    tkc_unload(prog);
    FINE(tkc_open("eval", NULL, &eval));
    REFUSED(tkc_load_text(eval, "test.tkx", bytes.p, bytes.n, &prog), TKC_BAD_SOURCE,
            "the device eval runs no compiled kernels");
    tkc_close(eval);
    for (size_t i = 20; i < bytes.n; i += bytes.n / 97) {              // damaged anywhere, or cut off
        bytes.p[i] ^= 4;
        assert_int_equal(tkc_load_text(ctx, "test.tkx", bytes.p, bytes.n, &prog), TKC_BAD_SOURCE);
        bytes.p[i] ^= 4;
        assert_int_equal(tkc_load_text(ctx, "test.tkx", bytes.p, i, &prog), TKC_BAD_SOURCE);
    }
    REFUSED(tkc_load_text(ctx, "test.tkx", bytes.p, bytes.n - 1, &prog), TKC_BAD_SOURCE,
            "test.tkx: the artifact is damaged");
    bytes.p[strlen("tkc artifact\n")] ^= 1;
    REFUSED(tkc_load_text(ctx, "test.tkx", bytes.p, bytes.n, &prog), TKC_BAD_SOURCE, "made by another version of tkc");
    tkc_close(ctx);
    buf_free(&bytes);
    buf_free(&again);
}

// A file that was compiled without sizes, for an odd number of rows or columns: what does not depend on them still comes by TMA, which
// the variant without facts has nowhere.
static void artifact_lengths(void **state) {
    (void)state;
    static const char text[] =
        "kernel scaled(a: f16[M, K], b: f16[N, K], s: f32[M], c: out f16[M, N]) grid (m in M by 64, n in N by 64) {\n"
        "    var acc = zeros(m, n);\n"
        "    for k in K by 64 { acc += dot(a[m, k], b[n, k]); }\n"
        "    c[m, n] = (acc * s[m]) as f16;\n"
        "}\n";
    enum { MOST = 72, K = 64 };
    static const struct { int m, n, k, maps; } cases[] = {
        {8, 64, K, 5}, {7, 64, K, 5}, {8, 65, K, 4}, {7, 65, K, 4}, {8, 64, K - 1, 0}, {7, 65, K - 1, 0},
    };
    static uint16_t a[MOST * K], b[MOST * K], c[MOST * MOST];
    static float s[MOST];
    Session     *session = session_new();
    SemaFile    *file = sema_file(session, parse_file(session, source_add(session, "scaled.tk", text, strlen(text))));
    const CompileOptions opt = {.target = target_find("sm_90a")};
    ArtifactList list = {0};
    Buf err = {0}, bytes = {0};
    assert_true(artifact_make(session, sema_instance((InstanceOf){.file = file, .item = sema_kernel(file, 0)}), &opt, 0, &list, &err));
    assert_int_equal(list.n, 8);
    for (uint32_t i = 0; i < list.n; i++) assert_true(list.at[i].less == (i > 0));
    artifact_write(session, list.at, (int)list.n, opt.target, &bytes);
    session_free(session);
    for (int i = 0; i < MOST * K; i++) a[i] = b[i] = 0x3c00;
    for (int i = 0; i < MOST; i++) s[i] = (float)i;
    Fake fake = fake_driver();
    for (int on_fake = 0; on_fake < 2; on_fake++) {
        tkc_context *ctx;
        tkc_program *prog;
        if (on_fake) fake.reset();
        FINE(tkc_open(on_fake ? "cuda" : "emu", on_fake ? &(tkc_options){.driver = FAKE_WHOLE_PATH} : NULL, &ctx));
        FINE(tkc_load_text(ctx, "scaled.tkx", bytes.p, bytes.n, &prog));
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            int m = cases[i].m, n = cases[i].n, k = cases[i].k, maps = 0;
            tkc_launch *run;
            tkc_arg args[] = {
                {.name = "a", .tensor = {.data = a, .dtype = TKC_F16, .rank = 2, .dims = {m, k}}},
                {.name = "b", .tensor = {.data = b, .dtype = TKC_F16, .rank = 2, .dims = {n, k}}},
                {.name = "s", .tensor = {.data = s, .dtype = TKC_F32, .rank = 1, .dims = {m}}},
                {.name = "c", .tensor = {.data = c, .dtype = TKC_F16, .rank = 2, .dims = {m, n}}},
            };
            size_t before = on_fake ? strlen(fake.calls()) : 0;
            FINE(tkc_prepare(prog, NULL, NULL, 0, args, 4, &run));
            if (on_fake) {
                for (const char *p = fake.calls() + before; (p = strstr(p, "cuTensorMapEncode")) != NULL; p++) maps++;
                assert_int_equal(maps, cases[i].maps);
            } else {
                FINE(tkc_run(run, NULL));
                for (int r = 0; r < m; r++)
                    for (int q = 0; q < n; q++) assert_int_equal(c[r * n + q] == 0, r == 0);
            }
            tkc_launch_free(run);
        }
        tkc_unload(prog);
        tkc_close(ctx);
    }
    dlclose(fake.lib);
    buf_free(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_memory), cmocka_unit_test(device_memory), cmocka_unit_test(out_of_range), cmocka_unit_test(pointers_astray), cmocka_unit_test(tuning),
        cmocka_unit_test(artifacts),   cmocka_unit_test(artifact_lengths), cmocka_unit_test(specialised),   cmocka_unit_test(column),
        cmocka_unit_test(refusals),      cmocka_unit_test(nothing_there), cmocka_unit_test(threads),       cmocka_unit_test(driver), cmocka_unit_test(early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

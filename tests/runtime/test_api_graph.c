// libtkc (tkc.h): graphs and models. Sizes that change compile nothing and hold nothing; caches stay where they are.

#include "tests/runtime/api.h"
#include "tests/runtime/fake.h"

#include <unistd.h>

#define STEP EXAMPLES "/models/step/model.onnx"
#define RECURRENT UNUSUAL "/recurrent/model.onnx"

enum { ARGS = 16 };
typedef struct World { tkc_context *ctx; tkc_graph *g; tkc_arg args[ARGS]; int n; } World;

static World world(const char *device, const tkc_options *how, const char *path, const tkc_graph_options *opt) {
    World w = {0};
    FINE(tkc_open(device, how, &w.ctx));
    FINE(tkc_graph_load(w.ctx, path, opt, &w.g));
    return w;
}

static size_t width(tkc_dtype t) { return t == TKC_I64 ? 8 : t == TKC_BF16 ? 2 : t == TKC_BOOL ? 1 : 4; }

static size_t bytes_of(const tkc_tensor *t) {
    size_t n = width(t->dtype);
    for (int d = 0; d < t->rank; d++) n *= (size_t)t->dims[d];
    return n;
}

// Tensors for all ports, of zeros: `size` says what a dimension that is not fixed is, those of outputs follow.
static void fill(World *w, tkc_memory memory, int64_t (*size)(const char *name, const int64_t *with), const int64_t *with) {
    w->n = tkc_graph_ports(w->g);
    assert_true(w->n <= ARGS);
    for (int i = 0; i < w->n; i++) {
        tkc_port p;
        FINE(tkc_graph_port(w->g, i, &p));
        w->args[i] = (tkc_arg){.name = p.name, .tensor = {.memory = memory, .dtype = p.dtype, .rank = p.rank}};
        for (int d = 0; d < p.rank && p.mode != TKC_OUT; d++)
            w->args[i].tensor.dims[d] = p.dims[d] >= 0 ? p.dims[d] : size(p.dim_names[d], with);
    }
    FINE(tkc_graph_sizes(w->g, w->args, w->n));
    for (int i = 0; i < w->n; i++) {
        size_t n = bytes_of(&w->args[i].tensor);
        void *zeros = heap_try_zeroed(1, n + 1);
        w->args[i].tensor.data = zeros;
        if (memory == TKC_HOST) continue;
        FINE(tkc_alloc(w->ctx, n, &w->args[i].tensor.data));
        FINE(tkc_write(w->ctx, w->args[i].tensor.data, zeros, n));
        heap_free(zeros);
    }
}

static void empty(World *w) {
    for (int i = 0; i < w->n; i++) {
        if (w->args[i].tensor.memory == TKC_HOST) heap_free(w->args[i].tensor.data);
        else tkc_free(w->ctx, w->args[i].tensor.data);
    }
    w->n = 0;
}

static void end(World *w) {
    empty(w);
    tkc_graph_free(w->g);
    tkc_close(w->ctx);
}

static tkc_tensor *tensor_of(World *w, const char *name) {
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->args[i].name, name) == 0) return &w->args[i].tensor;
    fail_msg("no %s", name);
    return NULL;
}

static int64_t batch_and_past(const char *name, const int64_t *with) {
    return strcmp(name, "batch") == 0 ? with[0] : strcmp(name, "past") == 0 || strcmp(name, "past_room") == 0 ? with[1] : -1;
}

static tkc_graph_stats stats(World *w) {
    tkc_graph_stats s;
    tkc_graph_stats_get(w->g, &s);
    return s;
}

// ---- ports, sizes, refusals ----------------------------------------------------------------------

static void ports(void **state) {
    (void)state;
    World w = world("eval", NULL, STEP, NULL);
    tkc_port p;
    assert_int_equal(tkc_graph_ports(w.g), 10);
    FINE(tkc_graph_port(w.g, 1, &p));
    assert_string_equal(p.name, "k0");
    assert_true(p.mode == TKC_IN && p.kind == TKC_TENSOR && p.dtype == TKC_F32 && p.rank == 4 && p.dims[0] == -1 &&
                p.dims[1] == 2 && p.dims[3] == 8);
    assert_string_equal(p.dim_names[2], "past");
    assert_null(p.dim_names[1]);
    FINE(tkc_graph_port(w.g, 6, &p));
    assert_true(p.mode == TKC_OUT);
    assert_string_equal(p.dim_names[2], "past + 1");
    REFUSED(tkc_graph_port(w.g, 10, &p), TKC_BAD_ARGUMENT, "there is no port 10; there are 10");
    fill(&w, TKC_HOST, batch_and_past, (int64_t[]){3, 5});
    assert_true(tensor_of(&w, "k0_next")->dims[2] == 6 && tensor_of(&w, "logits")->dims[0] == 3);
    REFUSED(tkc_graph_run(w.g, w.args, 9, NULL), TKC_BAD_ARGUMENT, "`v1_next` is not given");
    w.args[0].name = "tokens";
    REFUSED(tkc_graph_run(w.g, w.args, 10, NULL), TKC_BAD_ARGUMENT, "no input or output `tokens`");
    w.args[0].name = "token";
    tensor_of(&w, "v0")->dims[2] = 4;
    REFUSED(tkc_graph_run(w.g, w.args, 10, NULL), TKC_BAD_ARGUMENT,
            "`v0` has 4 elements along dimension 2, not 5: past = 5");
    tensor_of(&w, "v0")->dims[2] = 5;
    void *data = w.args[0].tensor.data;
    w.args[0].tensor.data = NULL;
    REFUSED(tkc_graph_run(w.g, w.args, 10, NULL), TKC_BAD_ARGUMENT, "`token` has no memory");
    w.args[0].tensor.data = data;
    tensor_of(&w, "v0")->strides = (int64_t[]){96, 48, 8, 1};
    REFUSED(tkc_graph_run(w.g, w.args, 10, NULL), TKC_BAD_ARGUMENT, "`v0` has gaps between its rows");
    tensor_of(&w, "v0")->strides = NULL;
    FINE(tkc_graph_run(w.g, w.args, 10, NULL));
    tkc_graph *other;
    REFUSED(tkc_graph_load(w.ctx, "gone.onnx", NULL, &other), TKC_BAD_SOURCE, "gone.onnx: No such file");
    REFUSED(tkc_graph_load(w.ctx, EXAMPLES "/softmax.tk", NULL, &other), TKC_BAD_SOURCE, "has no graph");
    REFUSED(tkc_graph_load(w.ctx, EXAMPLES "/mlp.tk", &(tkc_graph_options){.donate = 1}, &other), TKC_BAD_ARGUMENT,
            "is no model");
    REFUSED(tkc_graph_load(w.ctx, STEP, &(tkc_graph_options){.dtype = TKC_I8}, &other), TKC_BAD_ARGUMENT, "bf16 or f16");
    assert_null(other);
    end(&w);
}

static int64_t past_alone(const char *name, const int64_t *with) { return strcmp(name, "past") == 0 ? with[0] : -1; }

// A size for good: a number among the port's dimensions, and no other size is taken.
static void fixed(void **state) {
    (void)state;
    World w = world("eval", NULL, STEP, &(tkc_graph_options){.fixed = (tkc_size[]){{"batch", 3}}, .nfixed = 1});
    World any = world("eval", NULL, STEP, NULL);
    tkc_port p;
    tkc_graph *other;
    FINE(tkc_graph_port(w.g, 1, &p));
    assert_true(p.dims[0] == 3 && p.dims[2] == -1);
    assert_null(p.dim_names[0]);
    fill(&w, TKC_HOST, past_alone, (int64_t[]){5});
    fill(&any, TKC_HOST, batch_and_past, (int64_t[]){3, 5});
    FINE(tkc_graph_run(w.g, w.args, w.n, NULL));
    FINE(tkc_graph_run(any.g, any.args, any.n, NULL));
    const float *got = tensor_of(&w, "logits")->data, *want = tensor_of(&any, "logits")->data;
    for (int i = 0; i < 3; i++) assert_true(got[i] - want[i] < 1e-5f && want[i] - got[i] < 1e-5f);
    tensor_of(&w, "k0")->dims[0] = 2;
    REFUSED(tkc_graph_run(w.g, w.args, w.n, NULL), TKC_BAD_ARGUMENT, "`k0` has 2 elements along dimension 0, not 3");
    tensor_of(&w, "k0")->dims[0] = 3;
    REFUSED(tkc_graph_load(w.ctx, STEP, &(tkc_graph_options){.fixed = (tkc_size[]){{"bach", 3}}, .nfixed = 1}, &other), TKC_BAD_SOURCE, "no input has a dimension `bach`; those that are open: `batch`, `past`");
    REFUSED(tkc_graph_load(w.ctx, STEP, &(tkc_graph_options){.fixed = (tkc_size[]){{"batch", -1}}, .nfixed = 1}, &other), TKC_BAD_SOURCE, "`batch` cannot be fixed to -1");
    REFUSED(tkc_graph_load(w.ctx, EXAMPLES "/mlp.tk", &(tkc_graph_options){.fixed = (tkc_size[]){{"batch", 3}}, .nfixed = 1}, &other), TKC_BAD_ARGUMENT, "is no model");
    end(&w);
    end(&any);
}

// Options, counts and enumerations that are none.
static void out_of_range(void **state) {
    (void)state;
    static const int none[] = {-1, 99, 14, INT32_MAX, INT32_MIN};
    static float x[64];
    tkc_graph *g;
    World w = world("eval", NULL, STEP, NULL);
    tkc_arg one = {.name = "ids", .tensor = {.data = x, .dtype = TKC_F32, .rank = 1, .dims = {4}}};
    tkc_size batch = {"batch", 3};
#define LOAD(status, words, ...) REFUSED(tkc_graph_load(w.ctx, STEP, &(tkc_graph_options){__VA_ARGS__}, &g), status, words)
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) LOAD(TKC_BAD_ARGUMENT, "a model can be of bf16 or f16", .dtype = (tkc_dtype)none[i]);
    static const int counts[] = {-1, INT32_MIN, 513, INT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        LOAD(TKC_BAD_ARGUMENT, "`nknown` is", .known = &one, .nknown = counts[i]);
        LOAD(TKC_BAD_ARGUMENT, "`nfixed` is", .fixed = &batch, .nfixed = counts[i]);
    }
    LOAD(TKC_BAD_ARGUMENT, "`known` is NULL", .nknown = 1);
    LOAD(TKC_BAD_ARGUMENT, "`fixed` is NULL", .nfixed = 1);
    LOAD(TKC_BAD_SOURCE, "of `fixed` has no name", .fixed = &(tkc_size){NULL, 1}, .nfixed = 1);
    LOAD(TKC_BAD_SOURCE, "cannot be fixed to", .fixed = &(tkc_size){"batch", INT64_MIN}, .nfixed = 1);
    LOAD(TKC_BAD_SOURCE, "cannot be fixed to", .fixed = &(tkc_size){"batch", INT64_MAX}, .nfixed = 1);
    LOAD(TKC_BAD_SOURCE, "fixed twice", .fixed = (tkc_size[]){{"batch", 1}, {"batch", 1}}, .nfixed = 2);
#define KNOWN(words, ...) do { tkc_arg a = one; __VA_ARGS__; LOAD(TKC_BAD_SOURCE, words, .known = &a, .nknown = 1); } while (0)
    int64_t apart = 2;
    KNOWN("has no name", a.name = NULL);
    KNOWN("has no name", a.name = "");
    KNOWN("is no tensor in the host's memory", a.kind = TKC_INT);
    KNOWN("is no tensor in the host's memory", a.tensor.memory = TKC_DEVICE);
    KNOWN("no known element type", a.tensor.dtype = (tkc_dtype)99);
    KNOWN("no known memory", a.tensor.memory = (tkc_memory)5);
    KNOWN("has no memory", a.tensor.data = NULL);
    KNOWN("has gaps", a.tensor.strides = &apart);
    KNOWN("has -4 elements", a.tensor.dims[0] = -4);
    KNOWN("dimensions; at most 8", a.tensor.rank = 9);
    KNOWN("begins at no multiple", a.tensor.data = (char *)x + 1);
    LOAD(TKC_BAD_SOURCE, "given twice", .known = (tkc_arg[]){one, one}, .nknown = 2);

    tkc_port port;
    char *text;
    tkc_tensor result;
    REFUSED(tkc_graph_port(w.g, -1, &port), TKC_BAD_ARGUMENT, "there is no port -1");
    REFUSED(tkc_graph_port(w.g, INT32_MAX, &port), TKC_BAD_ARGUMENT, "there is no port");
    REFUSED(tkc_graph_port(w.g, 0, NULL), TKC_BAD_ARGUMENT, "`out` is NULL");
    REFUSED(tkc_graph_sizes(w.g, &one, -1), TKC_BAD_ARGUMENT, "`nargs` is -1");
    REFUSED(tkc_graph_sizes(w.g, NULL, 1), TKC_BAD_ARGUMENT, "`args` is NULL");
    REFUSED(tkc_graph_run(w.g, &one, INT32_MIN, NULL), TKC_BAD_ARGUMENT, "`nargs` is -");
    REFUSED(tkc_graph_run(w.g, NULL, 1, NULL), TKC_BAD_ARGUMENT, "`args` is NULL");
    REFUSED(tkc_graph_run(w.g, &one, 1 << 30, NULL), TKC_BAD_ARGUMENT, "1073741824 arguments, but the graph has");
    REFUSED(tkc_graph_run(w.g, &(tkc_arg){.name = NULL}, 1, NULL), TKC_BAD_ARGUMENT, "no input or output ``");
    REFUSED(tkc_graph_sizes(w.g, &one, INT32_MAX), TKC_BAD_ARGUMENT, "2147483647 arguments, but the graph has");
    REFUSED(tkc_graph_profile(w.g, &one, INT32_MAX, TKC_PROFILE_TABLE, &text), TKC_BAD_ARGUMENT, "2147483647 arguments, but the graph has");
    REFUSED(tkc_graph_profile(w.g, &one, -1, TKC_PROFILE_TABLE, &text), TKC_BAD_ARGUMENT, "`nargs` is -1");
    REFUSED(tkc_graph_profile(w.g, &one, 1, TKC_PROFILE_TABLE, NULL), TKC_BAD_ARGUMENT, "`text` is NULL");
    REFUSED(tkc_graph_result(w.g, NULL, TKC_HOST, &result), TKC_BAD_ARGUMENT, "`output` is NULL");
    REFUSED(tkc_graph_result(w.g, "y", TKC_HOST, NULL), TKC_BAD_ARGUMENT, "`out` is NULL");
    REFUSED(tkc_graph_result(w.g, "y", (tkc_memory)2, &result), TKC_BAD_ARGUMENT, "`memory` is 2");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        REFUSED(tkc_graph_profile(w.g, &one, 1, (tkc_profile_form)none[i], &text), TKC_BAD_ARGUMENT, "there is no form");
    tkc_graph_free(w.g);
    tkc_close(w.ctx);
}

// ---- a file ---------------------------------------------------------------------------------------

static void programs(void **state) {
    (void)state;
    static const char *const devices[] = {"eval", "emu"};
    FILE *f = fopen("api_graph.tk", "w");
    fputs("kernel add(x: f32[N], s: inout f32[N]) grid (n in N by 128) { s[n] = s[n] + x[n]; }\n"
          "kernel times(x: f32[N], a: f32, y: out f32[N]) grid (n in N by 128) { y[n] = x[n] * a; }\n"
          "graph one(x: f32[N], s: inout f32[N], a: f32) -> (y: f32[N]) { add(x, s); y = times(s, a); }\n"
          "graph two(x: f32[N]) -> (y: f32[N]) { y = times(x, 2.0); }\n", f);
    fclose(f);
    for (int i = 0; i < 2; i++) {
        tkc_context *ctx;
        tkc_graph *g;
        tkc_port p;
        float x[3] = {1, 2, 3}, s[3] = {10, 20, 30}, y[3];
        FINE(tkc_open(devices[i], NULL, &ctx));
        REFUSED(tkc_graph_load(ctx, "api_graph.tk", NULL, &g), TKC_BAD_SOURCE, "has 2 graphs");
        FINE(tkc_graph_load(ctx, "api_graph.tk", &(tkc_graph_options){.graph = "one"}, &g));
        FINE(tkc_graph_port(g, 2, &p));
        assert_true(p.kind == TKC_FLOAT);
        tkc_arg args[] = {{.name = "y", .tensor = {.data = y, .dtype = TKC_F32, .rank = 1, .dims = {3}}},
                          {.name = "x", .tensor = {.data = x, .dtype = TKC_F32, .rank = 1, .dims = {3}}},
                          {.name = "s", .tensor = {.data = s, .dtype = TKC_F32, .rank = 1, .dims = {3}}},
                          {.name = "a", .kind = TKC_FLOAT, .f = 2}};
        for (int run = 1; run <= 2; run++) {
            FINE(tkc_graph_run(g, args, 4, NULL));
            assert_true(s[2] == 30 + 3 * (float)run && y[2] == 2 * s[2]);
        }
        char *text;
        FINE(tkc_graph_profile(g, args, 4, TKC_PROFILE_TABLE, &text));
        assert_non_null(strstr(text, "2  times -> y"));
        tkc_text_free(text);
        FINE(tkc_graph_profile(g, args, 4, TKC_PROFILE_TRACE, &text));
        assert_non_null(strstr(text, "{\"displayTimeUnit\""));
        tkc_text_free(text);
        REFUSED(tkc_graph_profile(g, args, 4, (tkc_profile_form)7, &text), TKC_BAD_ARGUMENT, "no form 7");
        tkc_graph_free(g);
        tkc_close(ctx);
    }
    unlink("api_graph.tk");
}

// ---- sizes that change ---------------------------------------------------------------------------

// Steps of a decoder whose caches are the caller's and grow: the same as with caches that are copied, one plan, nothing
// held.
static void steps_in_place(void **state) {
    (void)state;
    World a = world("emu", NULL, STEP, &(tkc_graph_options){.donate = 1}), b = world("emu", NULL, STEP, NULL);
    fill(&a, TKC_DEVICE, batch_and_past, (int64_t[]){2, 40});
    tkc_graph_stats first = {0};
    float *cache[4] = {0};
    static const char *const names[] = {"k0", "v0", "k1", "v1"}, *const next[] = {"k0_next", "v0_next", "k1_next",
                                                                                  "v1_next"};
    for (int32_t past = 1; past < 30; past++) {
        int64_t token[2] = {past % 64, (past * 7) % 64};
        float got[128];
        FINE(tkc_write(a.ctx, tensor_of(&a, "token")->data, token, sizeof token));
        FINE(tkc_write(a.ctx, tensor_of(&a, "past")->data, &past, sizeof past));
        FINE(tkc_graph_run(a.g, a.args, a.n, NULL));
        FINE(tkc_read(a.ctx, got, tensor_of(&a, "logits")->data, sizeof got));
        fill(&b, TKC_HOST, batch_and_past, (int64_t[]){2, past});
        memcpy(tensor_of(&b, "token")->data, token, sizeof token);
        for (int i = 0; i < 4 && cache[i]; i++)
            memcpy(tensor_of(&b, names[i])->data, cache[i], bytes_of(tensor_of(&b, names[i])));
        FINE(tkc_graph_run(b.g, b.args, b.n, NULL));
        const float *want = tensor_of(&b, "logits")->data;
        for (int i = 0; i < 128; i++) assert_true(got[i] - want[i] < 1e-3f && want[i] - got[i] < 1e-3f);
        for (int i = 0; i < 4; i++) {
            heap_free(cache[i]);
            tkc_tensor *t = tensor_of(&b, next[i]);
            cache[i] = t->data;
            t->data = NULL;
        }
        empty(&b);
        if (past == 1) first = stats(&a);
    }
    tkc_graph_stats last = stats(&a);
    assert_int_equal(last.plans_made, 1);
    assert_int_equal(last.compiled, first.compiled);
    assert_true(last.peak_bytes == first.peak_bytes);
    for (int i = 0; i < 4; i++) heap_free(cache[i]);
    end(&a);
    end(&b);
}

// Any batch and any length: what a kernel decided for some sizes is what it is for all, plans come and go, memory stays.
static void any_sizes(void **state) {
    (void)state;
    World w = world("emu", NULL, STEP, NULL);
    tkc_graph_stats at[2] = {{0}};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 60; i++) {                                 // more than are kept
            fill(&w, TKC_HOST, batch_and_past, (int64_t[]){1 + (i * 5) % 16, 1 + (i * 37) % 130});
            FINE(tkc_graph_run(w.g, w.args, w.n, NULL));
            empty(&w);
        }
        at[round] = stats(&w);
    }
    assert_int_equal(at[0].compiled, at[1].compiled);
    assert_true(at[1].compiled <= 30);                                 // 13 kernels, some for few rows and for many
    assert_true(at[1].plans <= 32 && at[1].plans_made > 64);
    // .. of them by running the graph through: 12
    assert_true(at[0].elaborated <= 16 && at[1].elaborated == at[0].elaborated);
    assert_true(at[0].weight_bytes == at[1].weight_bytes && at[0].arena_bytes == at[1].arena_bytes &&
                at[0].peak_bytes == at[1].peak_bytes);
    end(&w);
}

static int64_t steps_and_batch(const char *name, const int64_t *with) { return strcmp(name, "S") == 0 ? with[0] : strcmp(name, "B") == 0 ? with[1] : -1; }

// A recurrent network of any length: one program, of a loop over it; lengths that did not come up compile nothing. What is past a row's own length changes nothing.
static void any_steps(void **state) {
    (void)state;
    World w = world("emu", NULL, RECURRENT, NULL);
    tkc_graph_stats at[2] = {{0}};
    float want[64];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 12; i++) {
            int64_t steps = 1 + (i * 7) % 23 + 23 * round, batch = 1 + i % 3;
            fill(&w, TKC_HOST, steps_and_batch, (int64_t[]){steps, batch});
            float *x = tensor_of(&w, "x")->data;
            for (int64_t k = 0; k < batch * steps * 6; k++) x[k] = (float)(k / 6 % steps + 1) / 8 - (float)(k % 6);
            for (int b = 0; b < batch; b++) ((int32_t *)tensor_of(&w, "lengths")->data)[b] = 1;
            FINE(tkc_graph_run(w.g, w.args, w.n, NULL));
            const float *got = tensor_of(&w, "v4_1")->data;
            if (i == 0 && round == 0) memcpy(want, got, 3 * sizeof *want);
            for (int b = 0; b < batch; b++)
                for (int k = 0; k < 3; k++) assert_true(got[b * 3 + k] - want[k] < 1e-5f && want[k] - got[b * 3 + k] < 1e-5f && want[k] != 0);
            empty(&w);
        }
        at[round] = stats(&w);
    }
    assert_int_equal(at[0].compiled, at[1].compiled);
    assert_true(at[1].compiled <= 51);                                 // 17 kernels, each in a few variants
    assert_true(at[0].weight_bytes == at[1].weight_bytes);
    end(&w);
}

// ---- memory --------------------------------------------------------------------------------------

static int64_t any_size(const char *name, const int64_t *with) { (void)with; return strcmp(name, "batch") == 0 ? 2 : 9; }

static void peak(void **state) {
    (void)state;
    static const char *const paths[] = {STEP,
                                        MODELS "/gpt2/model.onnx",
                                        MODELS "/bert/model.onnx",
                                        MODELS "/llama/model.onnx",
                                        MODELS "/gpt_step/model.onnx",
                                        MODELS "/unet/model.onnx",
                                        MODELS "/mobilenetv3/model.onnx",
                                        MODELS "/mlp/model.onnx"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (access(paths[i], R_OK) != 0) continue;
        World w = world("eval", NULL, paths[i], NULL);
        fill(&w, TKC_HOST, any_size, NULL);
        FINE(tkc_graph_run(w.g, w.args, w.n, NULL));
        tkc_graph_stats s = stats(&w);
        if ((double)s.peak_bytes > 1.05 * (double)(s.weight_bytes + s.live_bytes))
            fail_msg("%s: %llu bytes at most; %llu of weights, %llu live", paths[i], (unsigned long long)s.peak_bytes,
                     (unsigned long long)s.weight_bytes, (unsigned long long)s.live_bytes);
        end(&w);
    }
}

// ---- a GPU of our own making ---------------------------------------------------------------------

static int count(const char *text, const char *word) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at++) n++;
    return n;
}

// Each step of another length, more of them than plans are kept: the driver is asked for one launch, of a graph in
// which the launches that the length is in have their parameters set; nothing is made or loaded, and the model's graph
// is not run through.
static void lengths_on_a_gpu(void **state) {
    (void)state;
    Fake fake = fake_driver();
    fake.reset();
    World w = world("cuda", &(tkc_options){.driver = FAKE_WHOLE_PATH}, STEP, NULL);
    fill(&w, TKC_DEVICE, batch_and_past, (int64_t[]){1, 200});             // memory for the longest
    FINE(tkc_graph_run(w.g, w.args, w.n, NULL));
    for (int round = 0; round < 3; round++) {
        tkc_graph_stats before = stats(&w);
        for (int64_t past = 1; past <= 80; past++) {
            for (int i = 0; i < w.n; i++) {
                tkc_port p;
                FINE(tkc_graph_port(w.g, i, &p));
                for (int d = 0; d < p.rank && p.mode != TKC_OUT; d++)
                    w.args[i].tensor.dims[d] = p.dims[d] >= 0 ? p.dims[d]
                                                              : batch_and_past(p.dim_names[d], (int64_t[]){1, past});
            }
            FINE(tkc_graph_sizes(w.g, w.args, w.n));
            fake.reset();                                                       // what it has noted, and counted
            FINE(tkc_graph_run(w.g, w.args, w.n, NULL));
            // every length has come up: what there is to learn is known
            if (round < 2) continue;
            assert_int_equal(count(fake.calls(), "cuGraphLaunch"), 1);
            // 1 has a pattern of its own, whose plan is gone
            if (past > 1) assert_int_equal(count(fake.calls(), "cuGraphExecKernelNodeSetParams"), 6);
            assert_null(strstr(fake.calls(), "cuLaunchKernel"));
            assert_null(strstr(fake.calls(), "cuGraphAdd"));
            assert_null(strstr(fake.calls(), "cuModule"));
            assert_null(strstr(fake.calls(), "cuMem"));
            assert_null(strstr(fake.calls(), "Synchronize"));
            assert_int_equal(fake.get("live"), 0);
        }
        tkc_graph_stats after = stats(&w);
        assert_true(after.plans_made - before.plans_made == 80 && after.plans <= 32);
        if (round) assert_int_equal(after.elaborated, before.elaborated);
        if (round) assert_int_equal(after.compiled, before.compiled);
        if (round) assert_true(after.peak_bytes == before.peak_bytes);
    }
    end(&w);
    dlclose(fake.lib);
}

static void fake_gpu(void **state) {
    (void)state;
    Fake fake = fake_driver();
    fake.reset();
    World w = world("cuda", &(tkc_options){.driver = FAKE_WHOLE_PATH}, STEP, &(tkc_graph_options){.donate = 1});
    fill(&w, TKC_DEVICE, batch_and_past, (int64_t[]){1, 8});
    FINE(tkc_graph_run(w.g, w.args, w.n, NULL));
    // a length that may not come again: launch by launch
    assert_null(strstr(fake.calls(), "cuGraph"));
    FINE(tkc_graph_run(w.g, w.args, w.n, NULL));
    int live = fake.get("live");
    size_t before = strlen(fake.calls());
    FINE(tkc_graph_run(w.g, w.args, w.n, (void *)(uintptr_t)0x40));
    const char *again = fake.calls() + before;                              // a launch of the whole, and nothing else
    assert_non_null(strstr(again, "cuGraphLaunch"));
    assert_null(strstr(again, "cuMem"));
    assert_null(strstr(again, "Synchronize"));
    assert_null(strstr(again, "Instantiate"));
    assert_int_equal(fake.get("live"), live);
    end(&w);
    assert_int_equal(fake.get("live"), 0);
    dlclose(fake.lib);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ports), cmocka_unit_test(out_of_range), cmocka_unit_test(fixed), cmocka_unit_test(programs), cmocka_unit_test(steps_in_place), cmocka_unit_test(any_sizes), cmocka_unit_test(any_steps),
        cmocka_unit_test(peak), cmocka_unit_test(lengths_on_a_gpu), cmocka_unit_test(fake_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

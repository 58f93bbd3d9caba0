// libtkc (tkc.h): models of which the data decide sizes. What an output's shape is, its run says.

#include "tests/runtime/api.h"

#include "graph/onnx/onnx.h"

#include <math.h>

enum { ARGS = 16 };

typedef struct Model {
    tkc_context *ctx;
    tkc_graph   *g;
    GTensor in[ARGS], out[ARGS];       // as they were recorded
    tkc_arg args[ARGS];                // of the inputs
    int nin, nout;
} Model;

static Model model(const char *device, const char *name) {
    Model m = {0};
    Buf err = {0};
    char path[512];
    FINE(tkc_open(device, NULL, &m.ctx));
    snprintf(path, sizeof path, "%s/%s/model.onnx", UNUSUAL, name);
    FINE(tkc_graph_load(m.ctx, path, NULL, &m.g));
    for (int i = 0; i < tkc_graph_ports(m.g); i++) {
        tkc_port p;
        FINE(tkc_graph_port(m.g, i, &p));
        bool in = p.mode == TKC_IN;
        GTensor *t = in ? &m.in[m.nin] : &m.out[m.nout];
        snprintf(path, sizeof path, "%s/%s/test_data_set_0/%s_%d.pb", UNUSUAL, name, in ? "input" : "output", in ? m.nin : m.nout);
        if (!onnx_tensor_read(path, t, &err)) fail_msg("%s", err.p);
        if (in) {
            tkc_arg *a = &m.args[m.nin++];
            *a = (tkc_arg){.name = p.name, .tensor = {.data = t->data, .dtype = p.dtype, .rank = t->rank}};
            for (int d = 0; d < t->rank; d++) a->tensor.dims[d] = t->shape[d];
        } else {
            m.nout++;
        }
    }
    return m;
}

static void end(Model *m) {
    for (int i = 0; i < m->nin; i++) g_tensor_free(&m->in[i]);
    for (int i = 0; i < m->nout; i++) g_tensor_free(&m->out[i]);
    tkc_graph_free(m->g);
    tkc_close(m->ctx);
}

static const char *output(const Model *m, int i) {
    tkc_port p;
    FINE(tkc_graph_port(m->g, m->nin + i, &p));
    return p.name;
}

static int number(const Model *m, const char *name) {
    for (int i = 0; i < m->nout; i++)
        if (strcmp(output(m, i), name) == 0) return i;
    fail_msg("no %s", name);
    return -1;
}

static void same_data(const GTensor *want, const void *got) {
    int64_t n = (int64_t)(want->bytes / (size_t)elem_bytes(want->elem));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(elem_get(want->elem, want->data, i) - elem_get(want->elem, got, i)) < 1e-5)) fail_msg("element %d is %g", (int)i, elem_get(want->elem, got, i));
}

static void same(const Model *m, int i, const tkc_tensor *got) {
    const GTensor *want = &m->out[i];
    assert_int_equal(got->rank, want->rank);
    for (int d = 0; d < got->rank; d++) assert_int_equal(got->dims[d], want->shape[d]);
    if (got->memory == TKC_HOST) { same_data(want, got->data); return; }
    void *copy = heap_try(want->bytes + 1);
    FINE(tkc_read(m->ctx, copy, got->data, want->bytes));
    same_data(want, copy);
    heap_free(copy);
}

// Without memory for any output: all stay with the graph, and are asked for on either side.
static void results_stay(void **state) {
    (void)state;
    static const char *const names[] = {"experts", "nothing", "marked", "detected", "found"};
    for (int k = 0; k < 5; k++) {
        Model m = model("emu", names[k]);
        tkc_tensor t;
        REFUSED(tkc_graph_result(m.g, output(&m, 0), TKC_HOST, &t), TKC_DEVICE_ERROR, "has not run to its end");
        for (int run = 0; run < 2; run++) {
            FINE(tkc_graph_run(m.g, m.args, m.nin, NULL));
            for (int i = 0; i < m.nout; i++) {
                FINE(tkc_graph_result(m.g, output(&m, i), run ? TKC_HOST : TKC_DEVICE, &t));
                same(&m, i, &t);
                FINE(tkc_graph_result(m.g, output(&m, i), run ? TKC_DEVICE : TKC_HOST, &t));
                same(&m, i, &t);
            }
        }
        REFUSED(tkc_graph_result(m.g, "yy", TKC_HOST, &t), TKC_BAD_ARGUMENT, "no output `yy`");
        end(&m);
    }
}

// Memory of the caller's: room for what may be found, on the host or on the device.
static void results_have_room(void **state) {
    (void)state;
    Model m = model("emu", "experts");
    float y[20 * 8] = {0};
    int64_t bins[4] = {0};
    void *rows;
    tkc_tensor t;
    tkc_arg *args = m.args;
    int n = m.nin;
    FINE(tkc_alloc(m.ctx, 4 * 3 * sizeof(float), &rows));
    args[n++] = (tkc_arg){.name = "bins", .tensor = {.data = bins, .dtype = TKC_I64, .rank = 1, .dims = {4}}};
    args[n++] = (tkc_arg){.name = "bin_rows", .tensor = {.data = rows, .memory = TKC_DEVICE, .dtype = TKC_F32, .rank = 2, .dims = {4, 3}}};
    args[n++] = (tkc_arg){.name = "y"};
    args[n++] = (tkc_arg){.name = "none"};
    FINE(tkc_graph_sizes(m.g, args, n));
    assert_true(args[m.nin + 2].tensor.dims[0] == 12 && args[m.nin + 2].tensor.dims[1] == 8);
    assert_true(args[m.nin].tensor.dims[0] == -1 && args[m.nin + 3].tensor.dims[0] == -1 && args[m.nin + 1].tensor.dims[1] == 3);
    REFUSED(tkc_graph_run(m.g, args, n, NULL), TKC_BAD_ARGUMENT, "`bins` has -1 elements along dimension 0");
    args[m.nin].tensor.dims[0] = args[m.nin + 1].tensor.dims[0] = 4;
    args[m.nin + 2].tensor.data = y;
    args[m.nin + 3].tensor.dims[0] = 0;
    FINE(tkc_graph_run(m.g, args, n, NULL));
    same_data(&m.out[number(&m, "y")], y);
    same_data(&m.out[number(&m, "bins")], bins);
    FINE(tkc_graph_result(m.g, "bin_rows", TKC_DEVICE, &t));
    assert_ptr_equal(t.data, rows);
    same(&m, number(&m, "bin_rows"), &t);
    FINE(tkc_graph_result(m.g, "none", TKC_HOST, &t));
    assert_int_equal(t.dims[0], 0);
    args[m.nin].tensor.dims[0] = 1;
    REFUSED(tkc_graph_run(m.g, args, n, NULL), TKC_BAD_ARGUMENT, "`bins` has 24 bytes, more than the 8 that there is room for");
    args[m.nin].tensor.dims[0] = 4;
    args[m.nin + 1].tensor.dims[0] = 1;
    REFUSED(tkc_graph_run(m.g, args, n, NULL), TKC_BAD_ARGUMENT, "`bin_rows` has 36 bytes, more than the 12");
    args[0].tensor.rank = 1;
    REFUSED(tkc_graph_run(m.g, args, n, NULL), TKC_BAD_ARGUMENT, "`x` has 1 dimensions; it should have 2");
    args[0].tensor.rank = 2;
    args[0].tensor.dims[1] = 9;
    REFUSED(tkc_graph_run(m.g, args, n, NULL), TKC_BAD_ARGUMENT, "dimension 1 of `x` is 9; it should be 8");
    tkc_free(m.ctx, rows);
    end(&m);
}

// Inputs on the device; as many tokens as there are, whichever experts they go to: what was compiled for some sizes is for all.
static void any_sizes(void **state) {
    (void)state;
    Model m = model("emu", "experts");
    tkc_graph_stats first = {0}, last;
    void *x;
    tkc_tensor t;
    float data[40 * 8];
    uint32_t seed = 1;
    FINE(tkc_alloc(m.ctx, sizeof data, &x));
    m.args[0].tensor.data = x;
    m.args[0].tensor.memory = TKC_DEVICE;
    for (int run = 0; run < 40; run++) {
        int64_t tokens = 2 + run * 7 % 33, sum = 0;
        for (int i = 0; i < tokens * 8; i++) data[i] = (float)((seed = seed * 1664525 + 1013904223) >> 16) / 32768 - 1;
        FINE(tkc_write(m.ctx, x, data, sizeof(float) * (size_t)tokens * 8));
        m.args[0].tensor.dims[0] = tokens;
        FINE(tkc_graph_run(m.g, m.args, m.nin, NULL));
        FINE(tkc_graph_result(m.g, "counts", TKC_HOST, &t));
        for (int e = 0; e < 4; e++) sum += ((int64_t *)t.data)[e];
        assert_int_equal(sum, 2 * tokens);
        tkc_graph_stats_get(m.g, &last);
        if (run == 19) first = last;
    }
    assert_int_equal(first.compiled, last.compiled);
    assert_true(last.plans_made >= 60 && last.weight_bytes == first.weight_bytes);
    tkc_free(m.ctx, x);
    end(&m);
}

static void profiles(void **state) {
    (void)state;
    Model m = model("emu", "detected");
    char *text;
    FINE(tkc_graph_profile(m.g, m.args, m.nin, TKC_PROFILE_TABLE, &text));
    assert_non_null(strstr(text, "program 1, detected_1\n"));
    assert_non_null(strstr(text, "the interpreter, turn 1: "));
    assert_non_null(strstr(text, "us, NonMaxSuppression NonMaxSuppression_13, Loop Loop_22\n"));
    assert_non_null(strstr(text, "program 2, detected_2\n"));
    tkc_text_free(text);
    FINE(tkc_graph_profile(m.g, m.args, m.nin, TKC_PROFILE_TRACE, &text));
    assert_non_null(strstr(text, "\"pid\":2,\"tid\":1"));
    assert_null(strstr(strstr(text, "otherData") + 1, "otherData"));
    tkc_text_free(text);
    FINE(tkc_graph_profile(m.g, m.args, m.nin, TKC_PROFILE_HTML, &text));
    assert_non_null(strstr(text, "<h1>detected_2</h1>"));
    assert_null(strstr(strstr(text, "</html>") + 1, "</html>"));
    tkc_text_free(text);
    end(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_stay), cmocka_unit_test(results_have_room), cmocka_unit_test(any_sizes), cmocka_unit_test(profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

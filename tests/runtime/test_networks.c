// Random networks as programs on the emulator give what the interpreter gives.

#include "tests/runtime/common.h"

#include "graph/write/write.h"
#include "runtime/graph.h"
#include "tests/graph/networks.h"

enum { NETWORKS = 24 };

static void run_program(int seed, const char *text, size_t length, const GTensor *x, HostTensor *out, int nout) {
    Buf err = {0};
    Session *s = session_new();
    SemaFile *file = sema_file(s, parse_file(s, source_add(s, "network.tk", text, length)));
    Device *device = device_open("emu", &(DeviceOptions){0}, &err);
    Runtime *rt = device ? runtime_new(s, device, &(RuntimeOptions){0}) : NULL;
    GraphExec *e = rt && diag_errors(s) == 0 ? graph_open(rt, (InstanceOf){.file = file, .item = sema_graph(file, 0)}) : NULL;
    HostTensor in = {.elem = EL_f32, .rank = 4, .data = x->data};
    for (int i = 0; i < 4; i++) in.dim[i] = x->shape[i];
    KernelArg args[4] = {{.tensor = &in}};
    for (int i = 0; i < nout; i++) args[1 + i].tensor = &out[i];
    bool ok = e && graph_run(e, args, 1 + nout, NULL, &err);
    if (!ok) {
        diag_print(s, stderr, DIAG_short, false);
        fail_msg("network %d: %s", seed, err.p ? err.p : "");
    }
    graph_close(e);
    runtime_free(rt);
    device_close(device);
    session_free(s);
    buf_free(&err);
}

static void programs_agree(void **unused) {
    (void)unused;
    for (int seed = 0; seed < NETWORKS; seed++) {
        GTensor expected[MOST_RESULTS] = {0};
        HostTensor out[MOST_RESULTS] = {0};
        Buf text = {0}, err = {0};
        Graph *g = network_new(seed);
        GTensor x = network_input(g);
        network_run(g, &x, expected);
        if (!graph_write(g, NULL, &text, &err)) fail_msg("network %d: %s", seed, err.p);
        run_program(seed, text.p, text.n, &x, out, graph_output_count(g));
        for (int i = 0; i < graph_output_count(g); i++) {
            network_compare(seed, i, &expected[i], out[i].data, 1e-3);
            g_tensor_free(&expected[i]);
            tensor_free(&out[i]);
        }
        g_tensor_free(&x);
        buf_free(&text);
        graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

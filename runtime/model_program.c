// A model on a device: imported for the tensors given, written as a `.tk` program (graph/write.c), and that program run, just
// as if it had been read from a file.
#include <stdlib.h>
#include <string.h>

#include "graph/write.h"
#include "runtime/internal.h"
#include "runtime/model.h"

// The program's file would stand beside the model, so that it finds its weights there.
static SemaFile *checked(Session *s, OnnxModel *m, Graph *g, Buf *err) {
    const char *path = onnx_path(m), *base = strrchr(path, '/');
    Buf text = {0}, name = {0};
    SemaFile *file = NULL;
    if (graph_write(g, base != NULL ? base + 1 : path, &text, err)) {
        buf_printf(&name, "%s.tk", path);
        file = sema_file(s, parse_file(s, source_add(s, name.p, text.p, text.n)));
    }
    buf_free(&text);
    buf_free(&name);
    return file;
}

static bool take(const GTensor *t, HostTensor *out, Buf *err) {      // shares the data
    if (t->rank > MAX_RANK) return buf_printf(err, "a tensor has %d dimensions; the most is %d", t->rank, MAX_RANK), false;
    *out = (HostTensor){.elem = t->elem, .rank = t->rank, .data = t->data};
    for (int d = 0; d < t->rank; d++) out->dim[d] = t->shape[d];
    return true;
}

static bool run_checked(Runtime *rt, SemaFile *file, const Graph *g, const OnnxImport *how, GTensor *outputs, Buf *err) {
    static const RunControl control = {.junk_seed = 1};
    KernelArg args[MAX_PARAMS] = {0};
    HostTensor tensors[MAX_PARAMS] = {0};
    int nin = graph_input_count(g), nout = graph_output_count(g);
    if (nin + nout > MAX_PARAMS) return buf_printf(err, "a program has at most %d inputs and outputs", MAX_PARAMS), false;
    for (int i = 0; i < nin + nout; i++) args[i].tensor = &tensors[i];
    for (int i = 0; i < nin; i++)
        for (int k = 0; k < how->ngiven; k++)
            if (strcmp(how->given[k].name, graph_input_name(g, i)) == 0 && !take(how->given[k].tensor, &tensors[i], err)) return false;
    GraphExec *x = graph_open(rt, file, sema_graph(file, 0), NULL, 0, NULL, 0);
    bool ok = x != NULL && graph_run(x, args, nin + nout, &control, err);
    for (int i = 0; i < nout; i++) {
        HostTensor *t = &tensors[nin + i];
        outputs[i] = (GTensor){.elem = t->elem, .rank = t->rank, .bytes = tensor_bytes(t), .data = ok ? t->data : NULL};
        for (int d = 0; d < t->rank; d++) outputs[i].shape[d] = t->dim[d];
        if (!ok) tensor_free(t);
    }
    graph_close(x);
    return ok;
}

static void add_diagnostics(Session *s, Buf *err) {
    char *text = NULL;
    size_t n = 0;
    FILE *to = diag_errors(s) > 0 ? open_memstream(&text, &n) : NULL;
    if (to == NULL) return;
    diag_print(s, to, DIAG_short, false);
    fclose(to);
    buf_add(err, text, n > 0 && text[n - 1] == '\n' ? n - 1 : n);
    free(text);
}

bool program_run(OnnxModel *m, const char *device, OnnxImport *how, GTensor *outputs, Buf *err) {
    Graph *g = onnx_import(m, how, err);
    if (g == NULL) return false;
    Session *s = session_new();
    SemaFile *file = checked(s, m, g, err);
    Device *d = file != NULL && diag_errors(s) == 0 ? device_open(device, NULL, err) : NULL;
    Runtime *rt = d != NULL ? runtime_new(s, d, &(RuntimeOptions){.random_weights = how->random_weights}) : NULL;
    bool ok = rt != NULL && run_checked(rt, file, g, how, outputs, err);
    add_diagnostics(s, err);
    runtime_free(rt);
    device_close(d);
    session_free(s);
    graph_free(g);
    return ok;
}

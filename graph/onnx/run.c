// A model on the device `ref`: imported for the tensors given, then interpreted.
#include <stdlib.h>
#include <string.h>

#include "graph/onnx/onnx.h"
#include "graph/ref/ref.h"

// The tensors given for the graph's inputs, by name: as they are, or copies in the type that the graph has (own[i]).
static bool give(const Graph *g, const OnnxImport *how, GTensor *in, bool *own) {
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        Elem want = (Elem)g->inputs.at[i].node->elem;
        const OnnxGiven *found = NULL;
        for (int k = 0; k < how->ngiven; k++)
            if (strcmp(how->given[k].name, g->inputs.at[i].name) == 0) found = &how->given[k];
        if (found == NULL) continue;
        own[i] = how->dtype_io && found->tensor->elem != want && found->tensor->data != NULL;
        if (!own[i]) in[i] = *found->tensor;
        else if (!g_tensor_convert(found->tensor, want, &in[i])) return false;
    }
    return true;
}

bool onnx_run(OnnxModel *m, OnnxImport *how, GTensor *outputs, Buf *err) {
    bool donate = how->donate, kernels = how->kernels;
    how->donate = how->kernels = false;
    Graph *g = onnx_import(m, how, err);
    how->donate = donate;
    how->kernels = kernels;
    return g != NULL && onnx_run_graph(m, g, how, outputs, err);
}

typedef struct Inputs { GTensor *in; bool *own; } Inputs;

static bool open_inputs(Inputs *x, const Graph *g, const OnnxImport *how) {
    *x = (Inputs){heap_try_zeroed(g->inputs.n + 1, sizeof *x->in), heap_try_zeroed(g->inputs.n + 1, sizeof *x->own)};      // what an import bound needs none
    return x->in != NULL && x->own != NULL && give(g, how, x->in, x->own);
}

static void close_inputs(Inputs *x, const Graph *g) {
    for (uint32_t i = 0; i < g->inputs.n && x->own != NULL && x->in != NULL; i++)
        if (x->own[i]) g_tensor_free(&x->in[i]);
    heap_free(x->in);
    heap_free(x->own);
}

bool onnx_run_graph(OnnxModel *m, Graph *g, const OnnxImport *how, GTensor *outputs, Buf *err) {
    Inputs x;
    char why[512] = "out of memory";
    bool ok = open_inputs(&x, g, how) && ref_run(g, x.in, outputs, NULL, why, sizeof why);
    if (!ok) buf_printf(err, "%s: %s", onnx_path(m), why);
    close_inputs(&x, g);
    graph_free(g);
    return ok;
}

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
    bool donate = how->donate;
    how->donate = false;
    Graph *g = onnx_import(m, how, err);
    how->donate = donate;
    return g != NULL && onnx_run_graph(m, g, how, outputs, err);
}

bool onnx_run_graph(OnnxModel *m, Graph *g, const OnnxImport *how, GTensor *outputs, Buf *err) {
    GTensor *in = calloc(g->inputs.n + 1, sizeof *in); // what an import bound needs none
    bool *own = calloc(g->inputs.n + 1, sizeof *own);
    char why[512] = "out of memory";
    bool ok = in != NULL && own != NULL && give(g, how, in, own);
    ok = ok && ref_run(g, in, outputs, NULL, why, sizeof why);
    if (!ok) buf_printf(err, "%s: %s", onnx_path(m), why);
    for (uint32_t i = 0; i < g->inputs.n && own != NULL && in != NULL; i++)
        if (own[i]) g_tensor_free(&in[i]);
    free(in);
    free(own);
    graph_free(g);
    return ok;
}

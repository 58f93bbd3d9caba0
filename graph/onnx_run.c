// A model on the device `ref`: imported for the tensors given, then interpreted.
#include <stdlib.h>
#include <string.h>

#include "graph/onnx.h"
#include "graph/ref.h"

bool onnx_run(OnnxModel *m, OnnxImport *how, GTensor *outputs, Buf *err) {
    Graph *g = onnx_import(m, how, err);
    if (g == NULL) return false;
    GTensor *in = calloc(g->inputs.n + 1, sizeof *in); // what an import bound needs none
    char why[512] = "";
    bool ok = in != NULL;
    for (uint32_t i = 0; i < g->inputs.n && ok; i++)
        for (int k = 0; k < how->ngiven; k++)
            if (strcmp(how->given[k].name, g->inputs.at[i].name) == 0) in[i] = *how->given[k].tensor;
    ok = ok && ref_run(g, in, outputs, NULL, why, sizeof why);
    if (!ok) buf_printf(err, "%s: %s", onnx_path(m), why);
    free(in);
    graph_free(g);
    return ok;
}

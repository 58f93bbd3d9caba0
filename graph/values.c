// The values of a written program, interpreted: what a device's are compared with (tkc diff).
//
//     let h: f32[8, 512] = gemm_relu(x, w);        "h" -> the node that the launch stores -> its elements on `ref`
//
// Fusion decides which nodes are stored, the writer what they are called; the interpreter shows each value as it is
// computed, and those with a name are copied.
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/ref/ref.h"
#include "graph/write/write.h"

typedef struct Collect { const Graph *g; GValues *out; } Collect;

static bool keep(GValue *v, const GTensor *t) {
    if (v->tensor.data) return true;                         // two inputs of the same values are one node
    v->tensor = *t;
    v->tensor.data = heap_try(t->bytes + 1);
    if (v->tensor.data) memcpy(v->tensor.data, t->data, t->bytes);
    return v->tensor.data != NULL;
}

static bool see(void *ctx, const Node *n, const GTensor *value) {
    Collect *c = ctx;
    for (uint32_t i = 0; i < c->g->written.n; i++)
        if (c->g->written.at[i].node == n && !keep(&c->out->at[i], value)) return false;
    return true;
}

bool graph_values(Graph *g, const GTensor *in, GValues *out, Buf *err) {
    char why[512] = "there is not enough memory for the values of the program";
    GTensor *results = heap_try_zeroed(g->outputs.n + 1, sizeof *results);
    *out = (GValues){heap_try_zeroed(g->written.n + 1, sizeof *out->at), (int)g->written.n};
    Collect c = {g, out};
    for (uint32_t i = 0; i < g->written.n && out->at; i++) {
        GNamed w = g->written.at[i];
        out->at[i] = (GValue){.name = w.name, .model_name = w.node->name, .from = w.node->from};
    }
    bool ok = results && out->at && ref_run(g, in, results, &(RefWatch){see, &c}, why, sizeof why);
    for (uint32_t i = 0; i < g->outputs.n && ok; i++) {      // constants and inputs among the results are not computed
        see(&c, g->outputs.at[i].node, &results[i]);
        g_tensor_free(&results[i]);
    }
    heap_free(results);
    if (ok) return true;
    buf_puts(err, why);
    graph_values_free(out);
    return false;
}

void graph_values_free(GValues *v) {
    for (int i = 0; i < v->n && v->at; i++) g_tensor_free(&v->at[i].tensor);
    heap_free(v->at);
    *v = (GValues){0};
}

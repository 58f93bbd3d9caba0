// The interpreter's turns between the programs of a model, and what is known of its inputs and outputs (stages.h).
#include "graph/ref/ref.h"
#include "graph/stages.h"

#include <stdlib.h>

bool graph_turn(const Graph *whole, int turn, const GTensor *in, const GTensor *reads, GTensor *makes, GSizes *known, char *error, size_t error_size) {
    const GStages *s = whole->stages;
    const GStage *at = &s->stage[turn];
    uint32_t *node = heap_alloc(sizeof *node * (size_t)(at->nreads + at->nmakes + 1));
    for (int i = 0; i < at->nreads; i++) node[i] = s->value[at->reads[i]].node;
    for (int i = 0; i < at->nmakes; i++) node[at->nreads + i] = s->value[at->makes[i]].node;
    RefPart part = {node, reads, at->nreads, node + at->nreads, at->nmakes, known->dims, known->bound};
    bool ok = ref_run_part(whole, in, &part, makes, error, error_size);
    heap_free(node);
    return ok;
}

bool graph_between(const Graph *whole, const GTensor *in, GTensor *values, char *error, size_t error_size) {
    const GStages *s = whole->stages;
    uint32_t *node = heap_alloc(sizeof *node * (size_t)(s->nvalues + 1));
    for (int i = 0; i < s->nvalues; i++) node[i] = s->value[i].node;
    bool ok = ref_run_part(whole, in, &(RefPart){.want = node, .nwant = s->nvalues}, values, error, error_size);
    heap_free(node);
    return ok;
}

bool graph_port_sizes(const Graph *g, const GTensor *in, int output, int64_t *to, char *error, size_t error_size) {
    size_t n = (size_t)ix_dim_count(g) + 1;
    RefPart none = {.dims = heap_alloc(sizeof(int64_t) * n), .bound = heap_alloc(sizeof(bool) * n)};
    const Node *y = g->outputs.at[output].node;
    bool ok = ref_run_part(g, in, &none, NULL, error, error_size);
    for (int d = 0; d < y->rank && ok; d++) to[d] = ix_dims_in(y->shape[d], none.bound) ? ix_eval(y->shape[d], none.dims, NULL) : -1;
    heap_free(none.dims);
    heap_free(none.bound);
    return ok;
}

GPort graph_port(Graph *g, bool output, int i) {
    GNamed named = output ? g->outputs.at[i] : g->inputs.at[i];
    GPort p = {.name = named.name, .elem = (Elem)named.node->elem, .rank = named.node->rank};
    for (int d = 0; d < p.rank; d++) {
        Buf b = {0};
        if (ix_const(named.node->shape[d], &p.dim[d])) continue;
        ix_print(&b, g, named.node->shape[d], NULL);
        p.dim[d] = -1;
        p.word[d] = arena_printf(g->arena, "%s", b.p);
        buf_free(&b);
    }
    return p;
}

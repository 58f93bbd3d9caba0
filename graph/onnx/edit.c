// One step of `tkc reduce` on a model: takes the model's bytes, returns the bytes of a smaller model.
//
//     an output goes (of several)             a node's result becomes the only output, and what does not lead to it goes
//     a node goes, one of its inputs          an attribute goes, or the last input
//     taking the place of its result
//
// What nobody reads any more goes with it: nodes, weights, inputs.
#include "graph/onnx/internal.h"

#include <string.h>

typedef struct Editing { Arena *arena; Onnx__ModelProto *m; Onnx__GraphProto *g; } Editing;

static bool equal(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

static bool node_reads(const Onnx__NodeProto *n, const char *name);

static bool graph_reads(const Onnx__GraphProto *g, const char *name) {
    for (size_t i = 0; g && i < g->n_node; i++) if (node_reads(g->node[i], name)) return true;
    for (size_t i = 0; g && i < g->n_output; i++) if (equal(g->output[i]->name, name)) return true;
    return false;
}

static bool node_reads(const Onnx__NodeProto *n, const char *name) {
    for (size_t i = 0; i < n->n_input; i++) if (equal(n->input[i], name)) return true;
    for (size_t i = 0; i < n->n_attribute; i++) {
        if (graph_reads(n->attribute[i]->g, name)) return true;
        for (size_t k = 0; k < n->attribute[i]->n_graphs; k++) if (graph_reads(n->attribute[i]->graphs[k], name)) return true;
    }
    return false;
}

static void rename_reads(Onnx__NodeProto *n, const char *was, char *now);

static void rename_in_graph(Onnx__GraphProto *g, const char *was, char *now) {
    for (size_t i = 0; g && i < g->n_node; i++) rename_reads(g->node[i], was, now);
    for (size_t i = 0; g && i < g->n_output; i++) if (equal(g->output[i]->name, was)) g->output[i]->name = now;
}

static void rename_reads(Onnx__NodeProto *n, const char *was, char *now) {
    for (size_t i = 0; i < n->n_input; i++) if (equal(n->input[i], was)) n->input[i] = now;
    for (size_t i = 0; i < n->n_attribute; i++) {
        rename_in_graph(n->attribute[i]->g, was, now);
        for (size_t k = 0; k < n->attribute[i]->n_graphs; k++) rename_in_graph(n->attribute[i]->graphs[k], was, now);
    }
}

// ---- what nobody reads ------------------------------------------------------------------------------

static bool needed(const Onnx__GraphProto *g, const Onnx__NodeProto *n) {
    for (size_t k = 0; k < n->n_output; k++) if (n->output[k][0] && graph_reads(g, n->output[k])) return true;
    return false;
}

#define DROP(list, count, keep) \
    do { \
        size_t left = 0; \
        for (size_t i = 0; i < (count); i++) if (keep) (list)[left++] = (list)[i]; \
        (count) = left; \
    } while (0)

static void prune(Onnx__GraphProto *g) {
    for (size_t was = g->n_node + 1; was != g->n_node;) {
        was = g->n_node;
        DROP(g->node, g->n_node, needed(g, g->node[i]));
    }
    DROP(g->initializer, g->n_initializer, graph_reads(g, g->initializer[i]->name));
    DROP(g->input, g->n_input, graph_reads(g, g->input[i]->name));
    g->n_value_info = 0;
}

// ---- the steps --------------------------------------------------------------------------------------

// The value's name and no more is known of it.
static bool only_output(Editing *e, const Onnx__NodeProto *n) {
    if (n->n_output == 0 || (e->g->n_output == 1 && equal(e->g->output[0]->name, n->output[0]))) return false;
    Onnx__ValueInfoProto *v = NEW(e->arena, Onnx__ValueInfoProto);
    onnx__value_info_proto__init(v);
    v->name = n->output[0];
    for (size_t i = 0; i < e->g->n_value_info; i++) if (equal(e->g->value_info[i]->name, v->name)) v->type = e->g->value_info[i]->type;
    if (e->g->n_output == 0) return false;
    e->g->n_output = 1;
    e->g->output[0] = v;
    return true;
}

static bool without_node(Editing *e, size_t at, size_t input) {
    Onnx__NodeProto *n = e->g->node[at];
    if (n->n_output == 0 || input >= n->n_input || n->input[input][0] == '\0') return false;
    char *was = n->output[0], *now = n->input[input];
    DROP(e->g->node, e->g->n_node, e->g->node[i] != n);
    for (size_t i = 0; i < e->g->n_node; i++) rename_reads(e->g->node[i], was, now);
    for (size_t i = 0; i < e->g->n_output; i++) {
        if (!equal(e->g->output[i]->name, was)) continue;
        bool made = false;                                    // an input as an output has no node
        for (size_t k = 0; k < e->g->n_node; k++) for (size_t o = 0; o < e->g->node[k]->n_output; o++) made |= equal(e->g->node[k]->output[o], now);
        if (!made) return false;
        Onnx__ValueInfoProto *v = NEW(e->arena, Onnx__ValueInfoProto);
        onnx__value_info_proto__init(v);
        v->name = now;
        e->g->output[i] = v;
    }
    return true;
}

static bool step(Editing *e, int k) {                          // of a graph's: outputs, then as many for each node
    enum { EACH = 8, INPUTS = 3 };                             // only output; an input in its place; an attribute goes; an input less
    size_t at;
    if (k < (int)e->g->n_output) {
        if (e->g->n_output == 1) return false;
        const Onnx__ValueInfoProto *gone = e->g->output[k];
        DROP(e->g->output, e->g->n_output, e->g->output[i] != gone);
        return true;
    }
    k -= (int)e->g->n_output;
    at = (size_t)(k / EACH), k %= EACH;
    Onnx__NodeProto *n = e->g->node[at];
    if (k == 0) return only_output(e, n);
    if (k <= INPUTS) return without_node(e, at, (size_t)k - 1);
    if (k == EACH - 1) return n->n_input > 1 && n->n_input-- > 0;
    size_t a = (size_t)(k - INPUTS - 1);
    if (a >= n->n_attribute) return false;
    const Onnx__AttributeProto *gone = n->attribute[a];
    DROP(n->attribute, n->n_attribute, n->attribute[i] != gone);
    return true;
}

OnnxEdit onnx_edit(const void *bytes, size_t n, int k, Buf *out) {
    enum { EACH = 8 };
    Buf why = {0};
    Editing e = {.arena = arena_new()};
    e.m = (Onnx__ModelProto *)message_read(&onnx__model_proto__descriptor, bytes, n, e.arena, &why);
    buf_free(&why);
    e.g = e.m ? e.m->graph : NULL;
    OnnxEdit r = ONNX_EDIT_NONE;
    if (e.g && k < (int)(e.g->n_output + EACH * e.g->n_node)) {
        r = ONNX_EDIT_NOT;
        if (step(&e, k)) {
            prune(e.g);
            size_t size = onnx__model_proto__get_packed_size(e.m);
            uint8_t *to = arena_alloc(e.arena, size + 1);
            onnx__model_proto__pack(e.m, to);
            buf_add(out, (const char *)to, size);
            r = e.g->n_node > 0 ? ONNX_EDIT_MADE : ONNX_EDIT_NOT;
        }
    }
    arena_free(e.arena);
    return r;
}

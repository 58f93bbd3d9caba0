// Nodes in an order in which each comes after those whose results it reads.
//
// ONNX asks for that, but converters add nodes at the end (casts, where a model is made 16 bits wide), and ONNX Runtime takes them
// in any order. So every list of nodes is walked depth first when a model is read: what a node reads, itself or in its bodies, comes
// first, else nodes stay as they are in the file. Where nodes are in a cycle the list stays as it is, for the importer to say so.
#include "graph/onnx/internal.h"

#include <string.h>

enum { NONE = -1 };

typedef VEC(const char *) Names;

typedef struct Makers {                // open addressing, at most half full
    const char **name;
    int *node;                         // which makes it
    uint32_t cap;
} Makers;

static uint32_t place_of(const Makers *m, const char *name) {
    uint32_t h = 2166136261u;
    for (const char *p = name; *p != '\0'; p++) h = (h ^ (unsigned char)*p) * 16777619u;
    uint32_t i = h & (m->cap - 1);
    while (m->name[i] != NULL && strcmp(m->name[i], name) != 0) i = (i + 1) & (m->cap - 1);
    return i;
}

static int maker_of(const Makers *m, const char *name) {
    uint32_t i = place_of(m, name);
    return m->name[i] != NULL ? m->node[i] : NONE;
}

static Makers makers_of(Arena *a, Onnx__NodeProto *const *nodes, size_t n) {
    size_t results = 1;
    for (size_t i = 0; i < n; i++) results += nodes[i]->n_output;
    Makers m = {.cap = 4};
    while (m.cap < 2 * results) m.cap *= 2;
    m.name = NEW_N(a, const char *, m.cap);
    m.node = NEW_N(a, int, m.cap);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < nodes[i]->n_output; k++) {
            uint32_t at = place_of(&m, nodes[i]->output[k]);
            if (m.name[at] == NULL) m.name[at] = nodes[i]->output[k], m.node[at] = (int)i;
        }
    return m;
}

// What a node reads: its inputs, and what its bodies take from around them.
static void add_reads(Arena *a, const Onnx__NodeProto *n, Names *to);

static void add_body(Arena *a, const Onnx__GraphProto *g, Names *to) {
    for (size_t i = 0; i < g->n_node; i++) add_reads(a, g->node[i], to);
    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name != NULL) vec_push(a, to, (const char *)g->output[i]->name);
}

static void add_reads(Arena *a, const Onnx__NodeProto *n, Names *to) {
    for (size_t i = 0; i < n->n_input; i++) vec_push(a, to, (const char *)n->input[i]);
    for (size_t i = 0; i < n->n_attribute; i++) {
        if (n->attribute[i]->g != NULL) add_body(a, n->attribute[i]->g, to);
        for (size_t k = 0; k < n->attribute[i]->n_graphs; k++) add_body(a, n->attribute[i]->graphs[k], to);
    }
}

typedef struct Visit {
    int node;
    uint32_t next;                     // of what it reads
    Names reads;
} Visit;

static void order_nodes(Arena *a, Onnx__NodeProto **nodes, size_t n) {
    enum { NEW_NODE, OPEN, DONE };
    Makers makers = makers_of(a, nodes, n);
    uint8_t *state = NEW_N(a, uint8_t, n + 1);
    Onnx__NodeProto **ordered = NEW_N(a, Onnx__NodeProto *, n + 1);
    VEC(Visit) open = {0};
    size_t done = 0;
    for (size_t first = 0; first < n; first++) {
        int enter = state[first] == NEW_NODE ? (int)first : NONE;
        while (enter != NONE || open.n > 0) {
            if (enter != NONE) {
                Visit v = {.node = enter};
                add_reads(a, nodes[enter], &v.reads);
                vec_push(a, &open, v);
                state[enter] = OPEN;
                enter = NONE;
            }
            Visit *v = &open.at[open.n - 1];
            while (enter == NONE && v->next < v->reads.n) {
                int by = maker_of(&makers, v->reads.at[v->next++]);
                if (by == NONE || by == v->node || state[by] == DONE) continue;
                if (state[by] == OPEN) return;                   // a cycle
                enter = by;
            }
            if (enter != NONE) continue;
            state[v->node] = DONE;
            ordered[done++] = nodes[v->node];
            open.n--;
        }
    }
    if (n > 0) memcpy(nodes, ordered, n * sizeof *nodes);
}

static void order_graph(Arena *a, Onnx__GraphProto *g);

static void order_list(Arena *a, Onnx__NodeProto **nodes, size_t n) {
    order_nodes(a, nodes, n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
            Onnx__AttributeProto *p = nodes[i]->attribute[k];
            if (p->g != NULL) order_graph(a, p->g);
            for (size_t j = 0; j < p->n_graphs; j++) order_graph(a, p->graphs[j]);
        }
}

static void order_graph(Arena *a, Onnx__GraphProto *g) { order_list(a, g->node, g->n_node); }

void onnx_order(Onnx__ModelProto *m) {
    Arena *a = arena_new();
    if (m->graph != NULL) order_graph(a, m->graph);
    for (size_t i = 0; i < m->n_functions; i++) order_list(a, m->functions[i]->node, m->functions[i]->n_node);
    arena_free(a);
}

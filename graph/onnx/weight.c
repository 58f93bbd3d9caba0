// What a model holds as numbers, by name, for programs that take theirs from it: `weights "model.onnx";`.
//
//     the graph                    its initializers, sparse ones too, and what its Constant nodes give
//     bodies of If, Loop, Scan     the same of theirs, and so on inwards
//     functions                    what their Constant nodes give
//
// Names are the model's. They are its graph's own, but two bodies, or functions, may each use one for something of theirs:
// the second of that name in this order is then `name#2`.
#include "graph/onnx/internal.h"

#include <stdlib.h>
#include <string.h>

static const char *text(const char *s) { return s ? s : ""; }

// ---- what there is ------------------------------------------------------------------------------------

static void add(OnnxModel *m, const char *name, StoredAs as, const void *message) {
    vec_push(m->arena, &m->stored, ((OnnxStored){text(name), as, message}));
}

static void list_graph(OnnxModel *m, const Onnx__GraphProto *g);

static void list_nodes(OnnxModel *m, Onnx__NodeProto *const *nodes, size_t n, bool bodies) {
    for (size_t i = 0; i < n; i++) {
        bool constant = strcmp(text(nodes[i]->op_type), "Constant") == 0 && nodes[i]->n_output == 1;
        for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
            const Onnx__AttributeProto *a = nodes[i]->attribute[k];
            if (bodies && a->g != NULL) list_graph(m, a->g);
            if (bodies || !constant) continue;
            if (a->t != NULL) add(m, nodes[i]->output[0], STORED_value, a->t);
            if (a->sparse_tensor != NULL) add(m, nodes[i]->output[0], STORED_sparse, a->sparse_tensor);
        }
    }
}

static void list_graph(OnnxModel *m, const Onnx__GraphProto *g) {
    for (size_t i = 0; i < g->n_initializer; i++) add(m, g->initializer[i]->name, STORED_weight, g->initializer[i]);
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *s = g->sparse_initializer[i];
        add(m, s->values != NULL ? s->values->name : "", STORED_sparse, s);
    }
    list_nodes(m, g->node, g->n_node, false);
    list_nodes(m, g->node, g->n_node, true);
}

// ---- one name each ------------------------------------------------------------------------------------

static const OnnxStored *at(const void *p) { return *(const OnnxStored *const *)p; }

static int by_name(const void *a, const void *b) {
    int order = strcmp(at(a)->name, at(b)->name);
    return order != 0 ? order : (at(a) > at(b)) - (at(a) < at(b));
}

static int by_message(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)at(a)->message, y = (uintptr_t)at(b)->message;
    return (x > y) - (x < y);
}

static int named(const void *name, const void *p) { return strcmp(name, at(p)->name); }

static const OnnxStored **sorted(OnnxModel *m, int (*order)(const void *, const void *)) {
    const OnnxStored **p = NEW_N(m->arena, const OnnxStored *, m->stored.n + 1);
    for (uint32_t i = 0; i < m->stored.n; i++) p[i] = &m->stored.at[i];
    qsort(p, m->stored.n, sizeof *p, order);
    return p;
}

static void tell_apart(OnnxModel *m) {
    const OnnxStored **p = sorted(m, by_name);
    const char **name = NEW_N(m->arena, const char *, m->stored.n + 1);
    for (uint32_t i = 1, of = 0, k = 1; i < m->stored.n; i++) {
        if (strcmp(p[i]->name, p[of]->name) != 0) { of = i, k = 1; continue; }
        const char *other;
        do other = arena_printf(m->arena, "%s#%u", p[of]->name, ++k);
        while (bsearch(other, p, m->stored.n, sizeof *p, named) != NULL);
        name[p[i] - m->stored.at] = other;
    }
    for (uint32_t i = 0; i < m->stored.n; i++)
        if (name[i] != NULL) m->stored.at[i].name = name[i];
}

void stored_list(OnnxModel *m) {
    list_graph(m, m->proto->graph);
    for (size_t i = 0; i < m->proto->n_functions; i++) {
        const Onnx__FunctionProto *f = m->proto->functions[i];
        list_nodes(m, f->node, f->n_node, false);
        list_nodes(m, f->node, f->n_node, true);
    }
    tell_apart(m);
    m->by_message = sorted(m, by_message);
}

const char *stored_name(const OnnxModel *m, const void *message) {
    const OnnxStored key = {.message = message}, *k = &key;
    const OnnxStored **found = bsearch(&k, m->by_message, m->stored.n, sizeof k, by_message);
    return found != NULL ? (*found)->name : NULL;
}

// ---- for others -----------------------------------------------------------------------------------------

int onnx_weight_count(const OnnxModel *m) { return (int)m->stored.n; }
const char *onnx_weight_name(const OnnxModel *m, int i) { return m->stored.at[i].name; }

static bool read_stored(OnnxModel *m, const OnnxStored *s, OnnxTensor *t, Buf *err) {
    if (s->as == STORED_sparse) return sparse_of(m, s->message, m->arena, t, err);
    return (s->as == STORED_weight ? weight_of : tensor_of)(m, s->message, m->arena, t, err);
}

bool onnx_weight(OnnxModel *m, int i, bool random, OnnxWeight *out, Buf *err) {
    const OnnxStored *s = &m->stored.at[i];
    OnnxTensor t = {0};
    Buf why = {0};
    bool ok = read_stored(m, s, &t, &why);
    if (ok && random && t.missing != NULL) ok = (t.data = random_weight(m, &t, &why)) != NULL;
    if (!ok) buf_printf(err, "%s: weight \"%s\": %s", m->path, shown(m->arena, s->name), why.p);
    buf_free(&why);
    if (!ok) return false;
    bool made_up = random && t.missing != NULL && t.count > 0;
    *out = (OnnxWeight){.elem = t.elem, .rank = t.rank, .data = t.data, .period = made_up ? random_period() : 0, .missing = t.missing};
    memcpy(out->dim, t.dim, sizeof t.dim);
    return true;
}

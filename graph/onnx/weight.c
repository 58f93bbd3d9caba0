// Weights of an ONNX model by name, for programs that take theirs from it: `weights "model.onnx";`.
#include "graph/onnx/internal.h"

#include <string.h>

static const char *text(const char *s) { return s ? s : ""; }

// The tensor that a Constant node gives, or NULL.
static const Onnx__TensorProto *constant_value(const Onnx__NodeProto *n) {
    if (strcmp(text(n->op_type), "Constant") != 0 || n->n_output != 1) return NULL;
    for (size_t i = 0; i < n->n_attribute; i++)
        if (strcmp(text(n->attribute[i]->name), "value") == 0) return n->attribute[i]->t;
    return NULL;
}

// Initializers first, then constants.
static const Onnx__TensorProto *weight_at(const OnnxModel *m, int at, const char **name) {
    const Onnx__GraphProto *g = m->proto->graph;
    if (at < (int)g->n_initializer) {
        *name = text(g->initializer[at]->name);
        return g->initializer[at];
    }
    int n = (int)g->n_initializer;
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__TensorProto *t = constant_value(g->node[i]);
        if (t == NULL || n++ != at) continue;
        *name = text(g->node[i]->output[0]);
        return t;
    }
    return NULL;
}

int onnx_weight_count(const OnnxModel *m) {
    const Onnx__GraphProto *g = m->proto->graph;
    int n = (int)g->n_initializer;
    for (size_t i = 0; i < g->n_node; i++) n += constant_value(g->node[i]) != NULL;
    return n;
}

const char *onnx_weight_name(const OnnxModel *m, int i) {
    const char *name = "";
    return weight_at(m, i, &name) != NULL ? name : "";
}

static const Onnx__TensorProto *weight_named(const OnnxModel *m, const char *name, bool *constant) {
    const Onnx__GraphProto *g = m->proto->graph;
    *constant = false;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (strcmp(text(g->initializer[i]->name), name) == 0) return g->initializer[i];
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__TensorProto *t = constant_value(g->node[i]);
        *constant = true;
        if (t != NULL && strcmp(text(g->node[i]->output[0]), name) == 0) return t;
    }
    return NULL;
}

int onnx_weight(OnnxModel *m, const char *name, bool random, OnnxWeight *out, Buf *err) {
    bool constant;
    const Onnx__TensorProto *p = weight_named(m, name, &constant);
    OnnxTensor t = {0};
    Buf why = {0};
    if (p == NULL) return 0;
    bool ok = (constant ? tensor_of : weight_of)(m, p, m->arena, &t, &why);
    if (ok && random && t.missing != NULL) ok = (t.data = random_weight(m, &t, &why)) != NULL;
    if (!ok) buf_printf(err, "%s: weight \"%s\": %s", m->path, shown(m->arena, name), why.p);
    buf_free(&why);
    if (!ok) return -1;
    bool made_up = random && t.missing != NULL && t.count > 0;
    *out = (OnnxWeight){.elem = t.elem, .rank = t.rank, .data = t.data, .period = made_up ? random_period() : 0, .missing = t.missing};
    memcpy(out->dim, t.dim, sizeof t.dim);
    return 1;
}

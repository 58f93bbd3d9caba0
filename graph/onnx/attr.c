// Attributes of nodes, by name and type.
//
// In the body of a function an attribute may refer to one of the call's, which may itself stand in a function's body
// and refer further: attr_find follows, and falls back on the function's defaults. Files written before the field
// `type` existed say by what they hold which type an attribute has.
#include "graph/onnx/internal.h"

#include <string.h>

enum { A_FLOAT = 1, A_INT, A_STRING, A_TENSOR, A_GRAPH, A_FLOATS, A_INTS, A_STRINGS, A_SPARSE = 11 };
static const char *const type_names[] = {"of no type", "a float", "an integer", "a text", "a tensor",
                                         "a graph",    "floats",  "integers",   "texts"};
enum { NAMED = sizeof type_names / sizeof *type_names };

static const Onnx__AttributeProto *in_list(Onnx__AttributeProto *const *at, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (at[i]->name != NULL && strcmp(at[i]->name, name) == 0) return at[i];
    return NULL;
}

static const Onnx__AttributeProto *resolve(const Call *call, const Onnx__NodeProto *n, const char *name) {
    const Onnx__AttributeProto *a = in_list(n->attribute, n->n_attribute, name);
    while (a != NULL && a->ref_attr_name != NULL && a->ref_attr_name[0] != '\0') {
        if (call == NULL) return NULL;
        const char *of = a->ref_attr_name;
        a = in_list(call->node->attribute, call->node->n_attribute, of);
        if (a == NULL) return in_list(call->f->attribute_proto, call->f->n_attribute_proto, of);
        call = call->up;
    }
    return a;
}

const Onnx__AttributeProto *attr_find(const Import *im, const Onnx__NodeProto *n, const char *name) {
    return resolve(im->call, n, name);
}

static int type_of(const Onnx__AttributeProto *a) {
    if (a->type != 0) return a->type;
    return a->has_f           ? A_FLOAT
           : a->has_i         ? A_INT
           : a->has_s         ? A_STRING
           : a->t != NULL     ? A_TENSOR
           : a->g != NULL     ? A_GRAPH
           : a->n_floats > 0  ? A_FLOATS
           : a->n_ints > 0    ? A_INTS
           : a->n_strings > 0 ? A_STRINGS
                              : 0;
}

// The attribute if it is there and of that type; a message if it is of another.
static const Onnx__AttributeProto *get(Op *op, const char *name, int type) {
    const Onnx__AttributeProto *a = attr_find(op->import, op->node, name);
    if (a == NULL) return NULL;
    int is = type_of(a);
    bool empty = is == 0 && (type == A_FLOATS || type == A_INTS || type == A_STRINGS);
    if (is == type || empty) return a;
    return op_error(op, "attribute `%s` is %s, not %s", name, is > 0 && is < NAMED ? type_names[is] : "of another type",
                    type_names[type]);
}

void *op_out_of_scope(Op *op, const char *what) {
    op->import->how->out_of_scope = what;
    return op_error(op, "%s are not supported", what);
}

bool op_given(Op *op, const char *name) { return attr_find(op->import, op->node, name) != NULL; }

int64_t op_int(Op *op, const char *name, int64_t otherwise) {
    const Onnx__AttributeProto *a = get(op, name, A_INT);
    return a != NULL ? a->i : otherwise;
}

double op_float(Op *op, const char *name, double otherwise) {
    const Onnx__AttributeProto *a = get(op, name, A_FLOAT);
    return a != NULL ? (double)a->f : otherwise;
}

static const char *text_of(Op *op, ProtobufCBinaryData s) {
    char *p = arena_alloc(op->g->arena, s.len + 1);
    if (s.len > 0) memcpy(p, s.data, s.len);
    return p;
}

const char *op_text(Op *op, const char *name, const char *otherwise) {
    const Onnx__AttributeProto *a = get(op, name, A_STRING);
    return a != NULL ? text_of(op, a->s) : otherwise;
}

bool op_is(Op *op, const char *name, const char *otherwise, const char *value) {
    const char *text = op_text(op, name, otherwise);
    return text != NULL && strcmp(text, value) == 0;
}

const int64_t *op_ints(Op *op, const char *name, int *n) {
    const Onnx__AttributeProto *a = get(op, name, A_INTS);
    *n = a != NULL ? (int)a->n_ints : 0;
    return a == NULL ? NULL : a->n_ints > 0 ? a->ints : NEW(op->g->arena, int64_t);
}

const float *op_floats(Op *op, const char *name, int *n) {
    const Onnx__AttributeProto *a = get(op, name, A_FLOATS);
    *n = a != NULL ? (int)a->n_floats : 0;
    return a == NULL ? NULL : a->n_floats > 0 ? a->floats : NEW(op->g->arena, float);
}

const char *const *op_texts(Op *op, const char *name, int *n) {
    const Onnx__AttributeProto *a = get(op, name, A_STRINGS);
    *n = a != NULL ? (int)a->n_strings : 0;
    if (a == NULL) return NULL;
    const char **out = NEW_N(op->g->arena, const char *, *n + 1);
    for (int i = 0; i < *n; i++) out[i] = text_of(op, a->strings[i]);
    return out;
}

Node *op_tensor(Op *op, const char *name) {
    const Onnx__AttributeProto *a = attr_find(op->import, op->node, name);
    bool sparse = a != NULL && a->sparse_tensor != NULL && type_of(a) == A_SPARSE;
    if (!sparse) a = get(op, name, A_TENSOR);
    if (a == NULL) return NULL;
    OnnxModel *m = op->import->m;
    OnnxTensor t;
    Buf why = {0};
    bool ok = sparse ? sparse_of(m, a->sparse_tensor, m->arena, &t, &why)
                     : a->t != NULL && tensor_of(m, a->t, m->arena, &t, &why);
    if (!ok && a->t != NULL && a->t->data_type == 8) op->import->how->out_of_scope = "strings";
    if (!ok) op_error(op, "attribute `%s` %s", name, why.n > 0 ? why.p : "holds no tensor");
    else if (t.missing != NULL)
        ok = false, op_error(op, "attribute `%s` is in a file that is not there, %s", name, t.missing);
    buf_free(&why);
    if (ok) t.from.stored = stored_name(m, sparse ? (const void *)a->sparse_tensor : a->t);
    if (ok && op->nout > 0) op->out_type[0] = t.type; // a Constant; others overwrite it or make something else
    return ok ? tensor_node(op->g, &t) : NULL;
}

Elem op_elem(Op *op, const char *name, Elem otherwise) {
    const Onnx__AttributeProto *a = get(op, name, A_INT);
    if (a == NULL) return otherwise;
    int type = a->i > 0 && a->i < INT32_MAX ? (int)a->i : 0;
    Elem e = onnx_type_elem(type);
    if (type == 8) op_out_of_scope(op, "strings");
    else if (e == EL_none)
        op_error(op, "attribute `%s`: elements of type %s are not supported", name, onnx_type_name(type));
    return e;
}

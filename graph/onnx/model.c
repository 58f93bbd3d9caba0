// A model as a file: opened, its head checked, its inputs and outputs listed, closed.
#include "graph/onnx/internal.h"

#include "lang/file.h"

#include <stdlib.h>
#include <string.h>

enum { NEWEST_OPSET = 28 };             // what schema.c was written from
enum { OPSETS_SINCE_IR = 3 };           // files of earlier versions do not import any, and mean the first

static const char *text(const char *s) { return s != NULL ? s : ""; }

// Inputs without a value in the model come first. Up to IR version 3 every initializer was an input, too.
static void list_inputs(OnnxModel *m) {
    const Onnx__GraphProto *g = m->proto->graph;
    bool *has_value = NEW_N(m->arena, bool, g->n_input + 1);
    if (g->n_initializer < 4096 || m->proto->ir_version < 4)
        for (size_t i = 0; i < g->n_input; i++)
            for (size_t k = 0; k < g->n_initializer && !has_value[i]; k++)
                has_value[i] = strcmp(text(g->input[i]->name), text(g->initializer[k]->name)) == 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < g->n_input; i++)
            if (has_value[i] == (pass == 1)) vec_push(m->arena, &m->inputs, g->input[i]);
        if (pass == 0) m->ninputs = m->inputs.n;
    }
}

static bool check_head(OnnxModel *m, Buf *err) {
    const Onnx__ModelProto *p = m->proto;
    if (p->graph == NULL) return buf_puts(err, "is no ONNX model: it has no graph"), false;
    if (p->n_opset_import == 0 && p->ir_version >= OPSETS_SINCE_IR)
        return buf_puts(err, "imports no opset, so its operators are not defined"), false;
    for (size_t i = 0; i < p->n_opset_import; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(text(p->opset_import[i]->domain), text(p->opset_import[k]->domain)) == 0 &&
                p->opset_import[i]->version != p->opset_import[k]->version)
                return buf_printf(err, "imports two versions of the opset \"%s\"",
                                  shown(m->arena, text(p->opset_import[i]->domain))),
                       false;
    for (size_t i = 0; i < p->n_opset_import; i++) {
        const char *domain = text(p->opset_import[i]->domain);
        if ((*domain == '\0' || strcmp(domain, "ai.onnx") == 0) && p->opset_import[i]->version > NEWEST_OPSET)
            return buf_printf(err, "imports opset %lld of ONNX; %d is the newest one that is known here", (long long)p->opset_import[i]->version,
                              NEWEST_OPSET),
                   false;
    }
    if (p->graph->n_output == 0) return buf_puts(err, "has no outputs"), false;
    list_inputs(m);
    return true;
}

OnnxModel *onnx_parse(const char *path, const void *bytes, size_t n, Buf *err) {
    Arena *a = arena_new();
    OnnxModel *m = NEW(a, OnnxModel);
    m->arena = a;
    m->path = arena_printf(a, "%s", path);
    const char *slash = strrchr(path, '/');
    char *folder = file_real(slash == NULL   ? "."
                            : slash == path ? "/"
                                            : arena_printf(a, "%.*s", (int)(slash - path), path));
    if (folder != NULL) m->folder = arena_printf(a, "%s", folder);
    heap_free(folder);
    Buf why = {0};
    Onnx__ModelProto *proto = (Onnx__ModelProto *)message_read(&onnx__model_proto__descriptor, bytes, n, a, &why);
    m->proto = proto;
    bool ok = proto != NULL && check_head(m, &why);
    if (ok) onnx_order(proto), stored_list(m);
    if (!ok) buf_printf(err, "%s: %s", path, why.p);
    buf_free(&why);
    if (ok) return m;
    onnx_free(m);
    return NULL;
}

OnnxModel *onnx_read(const char *path, Buf *err) {
    Arena *a = arena_new();
    FileMap f;
    OnnxModel *m = NULL;
    if (file_map(path, &f, a, err)) {
        m = onnx_parse(path, f.p, f.n, err);
        file_unmap(&f);
    }
    arena_free(a);
    return m;
}

void onnx_free(OnnxModel *m) {
    if (m == NULL) return;
    for (uint32_t i = 0; i < m->maps.n; i++) file_unmap(&m->maps.at[i]);
    random_free(m);
    arena_free(m->arena);
}

int onnx_input_count(const OnnxModel *m, bool with_defaults) { return (int)(with_defaults ? m->inputs.n : m->ninputs); }
const char *onnx_input_name(const OnnxModel *m, int i) { return text(m->inputs.at[i]->name); }
int onnx_output_count(const OnnxModel *m) { return (int)m->proto->graph->n_output; }
const char *onnx_output_name(const OnnxModel *m, int i) { return text(m->proto->graph->output[i]->name); }

Elem onnx_input_elem(const OnnxModel *m, int i) {
    const Onnx__TypeProto *t = m->inputs.at[i]->type;
    return t != NULL && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? onnx_type_elem(t->tensor_type->elem_type)
                                                                             : EL_none;
}

void onnx_input_type(const OnnxModel *m, int i, Buf *out) {
    const Onnx__TypeProto *t = m->inputs.at[i]->type;
    bool tensor = t != NULL && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    const Onnx__TensorShapeProto *shape = tensor ? t->tensor_type->shape : NULL;
    buf_puts(out, tensor ? onnx_input_elem(m, i) != EL_none ? elem_name(onnx_input_elem(m, i))
                                                            : onnx_type_name(t->tensor_type->elem_type)
                         : "no tensor");
    if (shape == NULL) return;
    for (size_t d = 0; d < shape->n_dim; d++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[d];
        buf_puts(out, d == 0 ? "[" : ", ");
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
            buf_printf(out, "%lld", (long long)dim->dim_value);
        else
            buf_puts(out, dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                              ? shown(m->arena, dim->dim_param)
                              : "?");
    }
    buf_puts(out, shape->n_dim > 0 ? "]" : "[]");
}

bool onnx_input_shape(const OnnxModel *m, int i, int *rank, int64_t *shape, int64_t unknown) {
    const Onnx__TypeProto *t = m->inputs.at[i]->type;
    bool tensor = t != NULL && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    const Onnx__TensorShapeProto *s = tensor ? t->tensor_type->shape : NULL;
    if (s == NULL || s->n_dim > MAX_RANK) return false;
    *rank = (int)s->n_dim;
    for (size_t d = 0; d < s->n_dim; d++) {
        bool known =
            s->dim[d]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && s->dim[d]->dim_value >= 0;
        shape[d] = known ? s->dim[d]->dim_value : unknown;
    }
    return true;
}

const char *onnx_path(const OnnxModel *m) { return m->path; }

static const char *unusual(const Onnx__ValueInfoProto *v) {
    if (v->type == NULL) return NULL;
    switch (v->type->value_case) {
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE: return "sequences";
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE: return "optionals";
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE: return "maps";
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE: return "sparse tensors";
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE: {
        int type = v->type->tensor_type->elem_type;
        return type == 8 ? "strings" : type == 14 || type == 15 ? "complex numbers" : NULL;
    }
    default: return NULL;
    }
}

const char *onnx_unusual_io(const OnnxModel *m) {
    const Onnx__GraphProto *g = m->proto->graph;
    const char *what = NULL;
    for (size_t i = 0; i < g->n_input && what == NULL; i++) what = unusual(g->input[i]);
    for (size_t i = 0; i < g->n_output && what == NULL; i++) what = unusual(g->output[i]);
    return what;
}

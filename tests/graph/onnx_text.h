// Models for tests, from lines of text:
//
//     opset 13                            (also: opset 1 my.domain)
//     ir 3                                the format's version, 8 unless said
//     input x f32 2 N ?                   a size, a name, or ? for unknown
//     const w i64 2 : 6 -1                rank by the sizes before the colon
//     Reshape x w -> y                    an input `_` is left out
//     Softmax y -> z axis=1 mode="a" pads=[1,2] alpha=0.5 names=["a","b"] name="first"
//     output z f32
//     If c -> r then_branch={ .. } else_branch={ .. }         lines separated by ; with input, const and output of their own
//     function my.domain F a b -> y { .. }
//
// Made with protobuf-c's own packer, so that reader and writer are not of one hand.
#ifndef TK_TESTS_ONNX_TEXT_H
#define TK_TESTS_ONNX_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lang/c_text.h"
#include "onnx.pb-c.h"

#define PUSH(list, count, item) ((list) = realloc((list), sizeof *(list) * ((count) + 1)), (list)[(count)++] = (item))
#define MAKE(T, init) memcpy(malloc(sizeof(T)), &(T)init, sizeof(T))

static const char *const onnx_type_words[] = {"",    "f32",    "u8",     "i8",     "u16",      "i16",    "i32",
                                              "i64", "string", "bool",   "f16",    "f64",      "u32",    "u64",
                                              "c64", "c128",   "bf16",   "f8e4m3", "f8e4m3uz", "f8e5m2", "f8e5m2uz",
                                              "u4",  "i4",     "f4e2m1", "f8e8m0", "u2",       "i2"};

typedef struct OnnxText { const char *p; } OnnxText;

static void text_space(OnnxText *t) { t->p += strspn(t->p, " \t"); }

static char *text_word(OnnxText *t) {
    text_space(t);
    size_t n = strcspn(t->p, " \t\n;={}[],");
    if (n == 0) return NULL;
    char *w = strndup(t->p, n);
    t->p += n;
    return w;
}

static bool text_take(OnnxText *t, const char *what) {
    text_space(t);
    if (strncmp(t->p, what, strlen(what)) != 0) return false;
    t->p += strlen(what);
    return true;
}

static int text_type(OnnxText *t) {
    char *w = text_word(t);
    int n = 0;
    for (int i = 1; w != NULL && i < (int)(sizeof onnx_type_words / sizeof *onnx_type_words); i++)
        if (strcmp(w, onnx_type_words[i]) == 0) n = i;
    free(w);
    return n;
}

static Onnx__ValueInfoProto *text_value(OnnxText *t) {
    Onnx__ValueInfoProto *v = MAKE(Onnx__ValueInfoProto, ONNX__VALUE_INFO_PROTO__INIT);
    v->name = text_word(t);
    int type = text_type(t);
    if (type == 0) return v;
    v->type = MAKE(Onnx__TypeProto, ONNX__TYPE_PROTO__INIT);
    v->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    Onnx__TypeProto__Tensor *tensor = v->type->tensor_type = MAKE(Onnx__TypeProto__Tensor, ONNX__TYPE_PROTO__TENSOR__INIT);
    tensor->has_elem_type = true;
    tensor->elem_type = type;
    if (text_take(t, "any")) return v;
    tensor->shape = MAKE(Onnx__TensorShapeProto, ONNX__TENSOR_SHAPE_PROTO__INIT);
    for (char *w; (w = text_word(t)) != NULL;) {
        Onnx__TensorShapeProto__Dimension *d = MAKE(Onnx__TensorShapeProto__Dimension,
                                                    ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT);
        char *end;
        d->dim_value = strtoll(w, &end, 10);
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (strcmp(w, "?") == 0) d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
        else if (*end != '\0')
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM, d->dim_param = strdup(w);
        PUSH(tensor->shape->dim, tensor->shape->n_dim, d);
        free(w);
    }
    return v;
}

// `NAME TYPE SIZES : NUMBERS`, in the typed field that the type has.
static Onnx__TensorProto *text_tensor(OnnxText *t) {
    Onnx__TensorProto *p = MAKE(Onnx__TensorProto, ONNX__TENSOR_PROTO__INIT);
    p->name = text_word(t);
    p->has_data_type = true;
    p->data_type = text_type(t);
    while (!text_take(t, ":")) {
        char *w = text_word(t);
        if (w == NULL) break;
        PUSH(p->dims, p->n_dims, strtoll(w, NULL, 10));
        free(w);
    }
    for (char *w; (w = text_word(t)) != NULL; free(w)) {
        int type = p->data_type;
        if (type == 1) PUSH(p->float_data, p->n_float_data, (float)c_strtod(w, NULL));
        else if (type == 11) PUSH(p->double_data, p->n_double_data, c_strtod(w, NULL));
        else if (type == 7) PUSH(p->int64_data, p->n_int64_data, strtoll(w, NULL, 10));
        else if (type == 12 || type == 13) PUSH(p->uint64_data, p->n_uint64_data, strtoull(w, NULL, 10));
        else PUSH(p->int32_data, p->n_int32_data, (int32_t)strtol(w, NULL, 0));
    }
    return p;
}

static Onnx__GraphProto *text_graph(OnnxText *t, Onnx__ModelProto *model);

static void text_attribute(OnnxText *t, char *name, Onnx__NodeProto *n) {
    if (strcmp(name, "name") == 0 && text_take(t, "\"")) {
        size_t size = strcspn(t->p, "\"");
        n->name = strndup(t->p, size);
        t->p += size + 1;
        free(name);
        return;
    }
    Onnx__AttributeProto *a = MAKE(Onnx__AttributeProto, ONNX__ATTRIBUTE_PROTO__INIT);
    a->name = name;
    a->has_type = true;
    bool list = text_take(t, "[");
    if (text_take(t, "{")) a->type = 5, a->g = text_graph(t, NULL);
    else if (text_take(t, "@")) a->ref_attr_name = text_word(t), a->has_type = false;
    else if (text_take(t, "tensor(")) {
        size_t size = strcspn(t->p, ")");
        char *inner = strndup(t->p, size);
        a->type = 4, a->t = text_tensor(&(OnnxText){inner});
        t->p += size + 1;
        free(inner);
    } else if (!list && *t->p == '"') {
        size_t size = strcspn(++t->p, "\"");
        a->type = 3, a->has_s = true, a->s = (ProtobufCBinaryData){size, (uint8_t *)strndup(t->p, size)};
        t->p += size + 1;
    } else {
        if (list) a->type = 7;
        while (list && text_take(t, "\"")) {
            size_t size = strcspn(t->p, "\"");
            ProtobufCBinaryData word = {size, (uint8_t *)strndup(t->p, size)};
            a->type = 8;
            PUSH(a->strings, a->n_strings, word);
            t->p += size + 1;
            text_take(t, ",");
        }
        for (char *w = NULL; free(w), (w = text_word(t)) != NULL;) {
            bool real = strpbrk(w, ".einf") != NULL;
            if (list && real) a->type = 6;
            if (!list) a->type = real ? 1 : 2;
            if (list && real) PUSH(a->floats, a->n_floats, (float)c_strtod(w, NULL));
            else if (list) PUSH(a->ints, a->n_ints, strtoll(w, NULL, 10));
            else if (real) a->f = (float)c_strtod(w, NULL), a->has_f = true;
            else a->i = strtoll(w, NULL, 10), a->has_i = true;
            if (!list || !text_take(t, ",")) { free(w); break; }
        }
    }
    if (list) text_take(t, "]");
    PUSH(n->attribute, n->n_attribute, a);
}

static Onnx__NodeProto *text_node(OnnxText *t, char *type) {
    Onnx__NodeProto *n = MAKE(Onnx__NodeProto, ONNX__NODE_PROTO__INIT);
    char *dot = strrchr(type, '.');
    n->op_type = strdup(dot != NULL ? dot + 1 : type);
    if (dot != NULL) n->domain = strndup(type, (size_t)(dot - type));
    free(type);
    bool output = false;
    for (char *w; (w = text_word(t)) != NULL;) {
        if (strcmp(w, "->") == 0) output = true, free(w);
        else if (text_take(t, "=")) text_attribute(t, w, n);
        else {
            if (strcmp(w, "_") == 0) *w = '\0';
            if (output) PUSH(n->output, n->n_output, w);
            else PUSH(n->input, n->n_input, w);
        }
    }
    return n;
}

static void text_function(OnnxText *t, Onnx__ModelProto *model) {
    Onnx__FunctionProto *f = MAKE(Onnx__FunctionProto, ONNX__FUNCTION_PROTO__INIT);
    f->domain = text_word(t);
    f->name = text_word(t);
    bool output = false;
    for (char *w; (w = text_word(t)) != NULL;) {
        if (strcmp(w, "->") == 0) output = true, free(w);
        else if (output) PUSH(f->output, f->n_output, w);
        else PUSH(f->input, f->n_input, w);
    }
    text_take(t, "{");
    Onnx__GraphProto *body = text_graph(t, NULL);
    f->node = body->node, f->n_node = body->n_node;
    body->node = NULL, body->n_node = 0;
    onnx__graph_proto__free_unpacked(body, NULL);
    PUSH(model->functions, model->n_functions, f);
}

static Onnx__GraphProto *text_graph(OnnxText *t, Onnx__ModelProto *model) {
    Onnx__GraphProto *g = MAKE(Onnx__GraphProto, ONNX__GRAPH_PROTO__INIT);
    g->name = strdup("test");
    for (;;) {
        t->p += strspn(t->p, " \t\n;");
        if (*t->p == '\0' || text_take(t, "}")) return g;
        char *w = text_word(t);
        if (w == NULL) return g;
        if (strcmp(w, "opset") == 0 && model != NULL) {
            Onnx__OperatorSetIdProto *o = MAKE(Onnx__OperatorSetIdProto, ONNX__OPERATOR_SET_ID_PROTO__INIT);
            char *version = text_word(t);
            o->has_version = true, o->version = strtoll(version, NULL, 10), o->domain = text_word(t);
            free(version);
            if (o->domain == NULL) o->domain = strdup("");
            PUSH(model->opset_import, model->n_opset_import, o);
        } else if (strcmp(w, "ir") == 0 && model != NULL) {
            char *version = text_word(t);
            model->ir_version = strtoll(version, NULL, 10);
            free(version);
        } else if (strcmp(w, "function") == 0 && model != NULL) text_function(t, model);
        else if (strcmp(w, "input") == 0) { Onnx__ValueInfoProto *v = text_value(t); PUSH(g->input, g->n_input, v); }
        else if (strcmp(w, "output") == 0) { Onnx__ValueInfoProto *v = text_value(t); PUSH(g->output, g->n_output, v);
        } else if (strcmp(w, "const") == 0) {
            Onnx__TensorProto *p = text_tensor(t);
            PUSH(g->initializer, g->n_initializer, p);
        } else {
            Onnx__NodeProto *n = text_node(t, w);
            PUSH(g->node, g->n_node, n);
            continue;
        }
        free(w);
    }
}

static Onnx__ModelProto *onnx_from_text(const char *text) {
    Onnx__ModelProto *m = MAKE(Onnx__ModelProto, ONNX__MODEL_PROTO__INIT);
    m->has_ir_version = true, m->ir_version = 8;
    m->graph = text_graph(&(OnnxText){text}, m);
    return m;
}

#endif

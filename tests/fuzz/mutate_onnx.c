// Mutations of ONNX models. Bytes alone break a length somewhere and die in the reader, so three of four inputs are
// taken apart by protobuf-c, changed as models, and packed again: other operators, inputs, attributes, dimensions,
// element types and opsets; nodes doubled, dropped and swapped; bytes only in strings and data.
#include "graph/op/op.h"
#include "onnx.pb-c.h"

#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

typedef struct Rng {
    uint64_t x;
} Rng;
static uint32_t below(Rng *r, size_t n) {
    r->x = r->x * 6364136223846793005u + 1442695040888963407u;
    return n > 0 ? (uint32_t)((r->x >> 33) % n) : 0;
}

static int64_t number(Rng *r) {
    static const int64_t some[] = {0,
                                   1,
                                   -1,
                                   2,
                                   3,
                                   4,
                                   7,
                                   8,
                                   -2,
                                   16,
                                   17,
                                   31,
                                   32,
                                   63,
                                   64,
                                   100,
                                   255,
                                   256,
                                   65535,
                                   1 << 20,
                                   INT32_MAX,
                                   INT32_MIN,
                                   INT64_C(1) << 32,
                                   INT64_C(1) << 40,
                                   INT64_C(1) << 62,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MIN + 1,
                                   INT64_MAX - 1};
    return below(r, 3) == 0 ? (int64_t)below(r, 10) - 2 : some[below(r, sizeof some / sizeof *some)];
}

static float real(Rng *r) {
    static const float some[] = {
        0, 1, -1, 0.5f, 1e30f, -1e30f, 1e-30f, __builtin_inff(), -__builtin_inff(), __builtin_nanf("")};
    return some[below(r, sizeof some / sizeof *some)];
}

static void set_text(char **at, const char *text) {
    free(*at);
    *at = strdup(text);
}

// Another operator for a node, of any domain.
static void set_operator(Rng *r, Onnx__NodeProto *n) {
    int tables = 0, rows = 0;
    while (op_tables[tables] != NULL) tables++;
    const OpRow *t = op_tables[below(r, (size_t)tables)];
    while (t[rows].type != NULL) rows++;
    const OpRow *row = &t[below(r, (size_t)rows)];
    set_text(&n->op_type, row->type);
    set_text(&n->domain, row->domain != NULL ? row->domain : "");
}

// A name of the graph: of an input, an initializer, or an output of a node.
static const char *value_name(Rng *r, const Onnx__GraphProto *g) {
    uint32_t which = below(r, 4);
    const char *name = NULL;
    if (which == 0 && g->n_input > 0) name = g->input[below(r, g->n_input)]->name;
    else if (which == 1 && g->n_initializer > 0) name = g->initializer[below(r, g->n_initializer)]->name;
    else if (g->n_node > 0) {
        const Onnx__NodeProto *n = g->node[below(r, g->n_node)];
        if (n->n_output > 0) name = n->output[below(r, n->n_output)];
    }
    return name != NULL && below(r, 12) > 0 ? name : "";
}

// What attributes are called (op_int(op, "axis", ..) and the like in graph/), and what texts they hold.
static const char *word(Rng *r) {
    // clang-format off
    static const char *const some[] = {
        "K", "N", "activation", "activation_alpha", "activation_beta", "activation_params", "activations",
        "align_corners", "allowzero", "alpha", "antialias", "approximate", "auto_pad", "axes", "axis", "batch_axis",
        "batch_dims", "beta", "bias", "bits", "block_size", "blocksize", "body", "broadcast", "ceil_mode",
        "center_point_box", "channels_last", "clip", "coordinate_transformation_mode", "count_include_pad",
        "cubic_coeff_a", "detect_negative", "detect_positive", "direction", "do_rotary", "dtype", "else_branch",
        "end", "ends", "epsilon", "equation", "exclude_outside", "exclusive", "extrapolation_value", "fmod",
        "gamma", "group", "groups", "hidden_size", "ignore_index", "input_forget", "interleaved", "inverse",
        "is_causal", "is_packed_batching", "is_test", "k", "k_quant_type", "keep_aspect_ratio_policy", "keepdims",
        "kernel_shape", "kv_num_heads", "lambd", "largest", "layout", "left_window_size", "linear_before_reset",
        "local_window_size", "mask_filter_value", "max", "min", "mode", "momentum", "noop_with_empty_axes",
        "num_groups", "num_heads", "num_outputs", "num_scan_inputs", "offset_group", "onesided", "opset",
        "output_datatype", "output_dtype", "output_height", "output_padding", "output_shape", "output_width", "p",
        "padding_mode", "periodic", "perm", "pooled_shape", "precision", "q_num_heads", "qk_matmul_output_mode",
        "qkv_hidden_sizes", "reduction", "reverse", "right_window_size", "rotary_embedding_dim",
        "rotary_interleaved", "sampling_ratio", "saturate", "scale", "scales", "scan_input_axes",
        "scan_output_axes", "select_last_index", "shape", "size", "smooth_softmax", "softcap", "sorted",
        "sparse_value", "spatial_scale", "split", "start", "starts", "stash_type", "storage_order", "then_branch",
        "time_axis", "to", "training_mode", "transA", "transB", "unidirectional", "upper", "value", "value_float",
        "value_floats", "value_int", "value_ints", "value_string", "value_strings",
        "", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "reflect", "edge", "wrap", "constant", "linear",
        "bilinear", "nearest", "cubic", "bicubic", "asymmetric", "half_pixel", "pytorch_half_pixel",
        "half_pixel_symmetric", "tf_crop_and_resize", "round_prefer_ceil", "floor", "ceil", "stretch", "not_larger",
        "add", "mul", "none", "sum", "mean", "avg", "DCR", "CRD", "tanh", "bidirectional", "forward", "BSNH",
        "Relu", "Clip", "HardSigmoid", "LeakyRelu", "Sigmoid", "Tanh", "ij,jk->ik", "...ij->...ji", "ii->i",
        "bij,bjk", "abc->cb",
    };
    // clang-format on
    return some[below(r, sizeof some / sizeof *some)];
}

static void mutate_tensor(Rng *r, Onnx__TensorProto *t) {
    switch (below(r, 6)) {
    case 0:
        if (t->n_dims > 0) t->dims[below(r, t->n_dims)] = number(r);
        break;
    case 1: t->has_data_type = true, t->data_type = (int32_t)below(r, 28); break;
    case 2:
        if (t->raw_data.len > 0) t->raw_data.data[below(r, t->raw_data.len)] = (uint8_t)number(r);
        break;
    case 3:
        if (t->n_int64_data > 0) t->int64_data[below(r, t->n_int64_data)] = number(r);
        break;
    case 4:
        if (t->n_float_data > 0) t->float_data[below(r, t->n_float_data)] = real(r);
        break;
    case 5:
        if (t->n_int64_data > 0) t->n_int64_data--;
        else if (t->n_dims > 0) t->n_dims--;
        break;
    }
}

static void mutate_graph(Rng *r, Onnx__GraphProto *g, int depth);

static void mutate_attribute(Rng *r, Onnx__AttributeProto *a, int depth) {
    switch (below(r, 8)) {
    case 0: set_text(&a->name, word(r)); break;
    case 1: a->has_type = true, a->type = (int32_t)below(r, 15); break;
    case 2:
        if (a->has_i) a->i = number(r);
        break;
    case 3:
        if (a->has_f) a->f = real(r);
        break;
    case 4:
        if (a->n_ints > 0) a->ints[below(r, a->n_ints)] = number(r);
        break;
    case 5:
        if (a->n_ints > 0) a->n_ints--;
        break;
    case 6:
        if (a->t != NULL) mutate_tensor(r, a->t);
        break;
    case 7:
        if (a->g != NULL && depth < 4) mutate_graph(r, a->g, depth + 1);
        else if (a->has_s) {
            free(a->s.data);
            const char *text = word(r);
            a->s = (ProtobufCBinaryData){strlen(text), (uint8_t *)strdup(text)};
        }
        break;
    }
}

static void mutate_node(Rng *r, Onnx__GraphProto *g, Onnx__NodeProto *n, int depth) {
    switch (below(r, 8)) {
    case 0: set_operator(r, n); break;
    case 1:
        if (n->n_input > 0) set_text(&n->input[below(r, n->n_input)], value_name(r, g));
        break;
    case 2:
        if (n->n_input > 0) free(n->input[--n->n_input]);
        break;
    case 3:
        if (n->n_output > 1) free(n->output[--n->n_output]);
        break;
    case 4:
        n->input = realloc(n->input, sizeof *n->input * (n->n_input + 1));
        n->input[n->n_input++] = strdup(value_name(r, g));
        break;
    case 5:
        n->attribute = realloc(n->attribute, sizeof *n->attribute * (n->n_attribute + 1));
        Onnx__AttributeProto *a = n->attribute[n->n_attribute++] = malloc(sizeof *a);
        *a = (Onnx__AttributeProto)ONNX__ATTRIBUTE_PROTO__INIT;
        a->name = strdup(word(r));
        a->has_type = a->has_i = true, a->type = 2, a->i = number(r);
        break;
    default:
        if (n->n_attribute > 0) mutate_attribute(r, n->attribute[below(r, n->n_attribute)], depth);
        break;
    }
}

static void mutate_value(Rng *r, Onnx__ValueInfoProto *v) {
    if (v->type == NULL || v->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return;
    Onnx__TypeProto__Tensor *t = v->type->tensor_type;
    if (below(r, 4) == 0) t->has_elem_type = true, t->elem_type = (int32_t)below(r, 27);
    else if (t->shape != NULL && t->shape->n_dim > 0) {
        Onnx__TensorShapeProto__Dimension *d = t->shape->dim[below(r, t->shape->n_dim)];
        bool named = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        if (named) free(d->dim_param);
        named = below(r, 3) == 0;
        d->value_case = named ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                              : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (named) d->dim_param = strdup(below(r, 2) ? "N" : "M");
        else d->dim_value = number(r);
    }
}

static void mutate_graph(Rng *r, Onnx__GraphProto *g, int depth) {
    uint32_t what = below(r, 10);
    if (what == 0 && g->n_initializer > 0) mutate_tensor(r, g->initializer[below(r, g->n_initializer)]);
    else if (what == 1 && g->n_input > 0) mutate_value(r, g->input[below(r, g->n_input)]);
    else if (what == 2 && g->n_node > 1) {
        size_t a = below(r, g->n_node), b = below(r, g->n_node);
        Onnx__NodeProto *n = g->node[a];
        g->node[a] = g->node[b], g->node[b] = n;
    } else if (what == 3 && g->n_output > 0) set_text(&g->output[below(r, g->n_output)]->name, value_name(r, g));
    else if (what == 4 && g->n_node > 0 && g->n_node < 100) { // a node more, between its source and the rest
        Onnx__NodeProto *n = malloc(sizeof *n);
        *n = (Onnx__NodeProto)ONNX__NODE_PROTO__INIT;
        n->op_type = strdup(""), n->domain = strdup("");
        set_operator(r, n);
        n->n_input = 1 + below(r, 3);
        n->input = calloc(n->n_input, sizeof *n->input);
        for (size_t i = 0; i < n->n_input; i++) n->input[i] = strdup(value_name(r, g));
        n->n_output = 1;
        n->output = malloc(sizeof *n->output);
        char name[16];
        snprintf(name, sizeof name, "v%u", below(r, 1000));
        n->output[0] = strdup(name);
        g->node = realloc(g->node, sizeof *g->node * (g->n_node + 1));
        g->node[g->n_node++] = n;
    } else if (g->n_node > 0) mutate_node(r, g, g->node[below(r, g->n_node)], depth);
}

// The domains of all tables are imported: a node of another one would be refused for that alone.
static void import_domains(Rng *r, Onnx__ModelProto *m) {
    for (int t = 0; op_tables[t] != NULL; t++) {
        const char *domain = op_tables[t][0].domain;
        bool there = domain == NULL || m->n_opset_import == 0;
        for (size_t i = 0; !there && i < m->n_opset_import; i++)
            there = m->opset_import[i]->domain != NULL && strcmp(m->opset_import[i]->domain, domain) == 0;
        if (there || below(r, 8) == 0) continue;
        Onnx__OperatorSetIdProto *set = malloc(sizeof *set);
        *set = (Onnx__OperatorSetIdProto)ONNX__OPERATOR_SET_ID_PROTO__INIT;
        set->domain = strdup(domain);
        set->has_version = true, set->version = 1;
        m->opset_import = realloc(m->opset_import, sizeof *m->opset_import * (m->n_opset_import + 1));
        m->opset_import[m->n_opset_import++] = set;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    Rng r = {seed * 0x9e3779b97f4a7c15u + 1};
    if (below(&r, 4) == 0) return LLVMFuzzerMutate(data, size, max);
    Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, size, data);
    if (m == NULL || m->graph == NULL) {
        if (m != NULL) onnx__model_proto__free_unpacked(m, NULL);
        return LLVMFuzzerMutate(data, size, max);
    }
    for (uint32_t k = 1 + below(&r, 3); k > 0; k--) {
        if (m->n_opset_import > 0 && below(&r, 12) == 0)
            m->opset_import[below(&r, m->n_opset_import)]->version = 1 + below(&r, 25);
        else mutate_graph(&r, m->graph, 0);
    }
    import_domains(&r, m);
    size_t n = onnx__model_proto__get_packed_size(m);
    if (n <= max) onnx__model_proto__pack(m, data);
    onnx__model_proto__free_unpacked(m, NULL);
    return n <= max ? n : LLVMFuzzerMutate(data, size, max);
}

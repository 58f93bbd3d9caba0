// The op table, and what its rows ask of a node.
#include "graph/op/op.h"
#include "lang/c_text.h"

#include <string.h>

extern const OpRow ops_unary[], ops_activation[], ops_binary[], ops_cast[], ops_shape[], ops_slice[], ops_pad[],
    ops_reduce[], ops_softmax[], ops_matmul[], ops_gather[], ops_scatter[], ops_make[], ops_attention[], ops_norm[],
    ops_loss[], ops_quant[], ops_conv[], ops_pool[], ops_resize[], ops_grid[], ops_roi[], ops_rnn[], ops_signal[],
    ops_ort_fused[], ops_ort_attention[], ops_ort_quant[], ops_ort_experts[], ops_einsum[], ops_linalg[], ops_sort[], ops_host[],
    ops_control[], ops_early[], ops_ml[], ops_sequence[], ops_out_of_scope[];

const OpRow *const op_tables[] = {
    ops_unary,   ops_activation, ops_binary,        ops_cast,      ops_shape,        ops_slice,  ops_pad,
    ops_reduce,  ops_softmax,    ops_matmul,        ops_gather,    ops_scatter,      ops_make,   ops_attention,
    ops_norm,    ops_loss,       ops_quant,         ops_conv,      ops_pool,         ops_resize, ops_grid,
    ops_roi,     ops_rnn,        ops_signal,        ops_einsum,    ops_linalg,       ops_sort,   ops_host,
    ops_control, ops_ort_fused,  ops_ort_attention, ops_ort_quant, ops_early,        ops_ml,     ops_sequence,
    ops_ort_experts, ops_out_of_scope, NULL,
};

const OpRow *op_find(const char *domain, const char *type, int version) {
    const OpRow *best = NULL;
    for (const OpRow *const *table = op_tables; *table != NULL; table++)
        for (const OpRow *row = *table; row->type != NULL; row++)
            if (row->type[0] == type[0] && strcmp(row->type, type) == 0 && row->since <= version &&
                (best == NULL || row->since > best->since) &&
                strcmp(row->domain != NULL ? row->domain : "", domain) == 0)
                best = row;
    return best;
}

void *op_error(Op *op, const char *fmt, ...) {
    va_list args;
    char words[512];
    va_start(args, fmt);
    c_vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    return g_error(op->g, "%s", words);
}

Node *op_as(Op *op, const char *type, int version, Node *const *in, int nin) {
    const OpRow *row = op_find("", type, version);
    Node *out[4] = {NULL};
    int in_type[16] = {0}, out_type[4] = {0};
    Op as = *op;
    if (row == NULL || row->lower == NULL) ice("no row for %s", type);
    if (nin > (int)(sizeof in_type / sizeof *in_type)) return op_error(op, "has %d inputs", nin);
    as.type = row->type, as.domain = "", as.version = version, as.row = row->arg;
    as.in = in, as.nin = nin, as.out = out, as.nout = 1, as.in_type = in_type, as.out_type = out_type;
    return row->lower(&as);
}

Node *op_opt(Op *op, int i) {
    Node *n = i < op->nin ? op->in[i] : NULL;
    return op_is_sequence(n) ? op_error(op, "its input %d is a sequence of tensors", i) : n;
}

Node *op_widen(Graph *g, Node *x) { return x != NULL && elem_is_storage((Elem)x->elem) ? g_cast(g, x, EL_f32) : x; }

Node *op_in(Op *op, int i) {
    Node *n = op_opt(op, i);
    if (n == NULL && g_failed(op->g) == NULL) op_error(op, "its input %d is missing", i);
    return n;
}

int op_in_type(const Op *op, int i) { return i < op->nin ? op->in_type[i] : 0; }

bool op_rank(Op *op, const Node *x, int rank, const char *what) {
    if (x != NULL && x->rank != rank)
        op_error(op, "%s should have %d dimension%s, not %d", what, rank, rank == 1 ? "" : "s", x->rank);
    return x != NULL && x->rank == rank;
}

bool op_wants(const Op *op, int i) { return i < op->nout; }

Node *op_out(Op *op, int i, Node *n) {
    if (i < op->nout) op->out[i] = n;
    return n;
}

int op_axis(Op *op, const Node *x, const char *name, int64_t otherwise) {
    int64_t axis = op_int(op, name, otherwise);
    return x != NULL ? g_axis(op->g, x, axis) : -1;
}

// Rows of operators that are left out on purpose, by what they belong to.
// clang-format off
const OpRow ops_out_of_scope[] = {
    {"SequenceMap",      17, .why = "sequences"}, {"Optional",         15, .why = "optionals"}, {"OptionalGetElement",  15, .why = "optionals"}, {"OptionalHasElement", 15, .why = "optionals"},
    {"StringNormalizer", 10, .why = "strings"},   {"TfIdfVectorizer",      9, .why = "strings"},   {"StringConcat",     20, .why = "strings"},
    {"StringSplit",      20, .why = "strings"},   {"RegexFullMatch",      20, .why = "strings"},   {"ImageDecoder",     20, .why = "images"},
    {"Bernoulli",        15, .why = "random numbers"}, {"RandomNormal",      1, .why = "random numbers"}, {"RandomNormalLike", 1, .why = "random numbers"},
    {"RandomUniform",     1, .why = "random numbers"}, {"RandomUniformLike", 1, .why = "random numbers"}, {"Multinomial",      7, .why = "random numbers"},
    {"Gradient",          1, .why = "training operators", .domain = "ai.onnx.preview.training"},
    {"Adagrad",           1, .why = "training operators", .domain = "ai.onnx.preview.training"},
    {"Adam",              1, .why = "training operators", .domain = "ai.onnx.preview.training"},
    {"Momentum",          1, .why = "training operators", .domain = "ai.onnx.preview.training"},
    {0},
};
// clang-format on

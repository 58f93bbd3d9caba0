// ONNX models: read, checked, lowered to the graph IR.
//
//     OnnxModel *m = onnx_read("model.onnx", &err);
//     Graph *g = onnx_import(m, &(OnnxImport){.given = tensors, .ngiven = n}, &err);
//     ...
//     graph_free(g); onnx_free(m);              the graph points into the model's memory
//
// What an import needs to know. Shapes may be symbolic, and stay so. But where a model computes a shape from the
// *values* of an input (the `shape` of a Reshape that is an input of the model), those values must be known: such an input
// is bound to the tensor given for it and becomes a constant. The same goes for a symbolic dimension that a lowering must
// know as a number. Which ones is found by trying: an import that meets one starts again with it bound.
#ifndef TK_GRAPH_ONNX_H
#define TK_GRAPH_ONNX_H

#include "graph/tensor.h"

typedef struct OnnxModel OnnxModel;

typedef struct OnnxGiven {             // a tensor for an input, by name
    const char    *name;
    const GTensor *tensor;             // data may be NULL: only type and shape are known
} OnnxGiven;

typedef struct OnnxSize { const char *name; int64_t size; } OnnxSize;       // a dimension by its name in the model; `x_0` where it has none

typedef struct OnnxImport {
    const OnnxGiven *given; int ngiven;
    const OnnxSize *fixed; int nfixed; // sizes that dimensions of inputs have for good: the graph is of these alone
    // EL_none: as the model has it; else products and what stays in memory are of this type
    Elem dtype;
    bool dtype_io;                     // .. inputs and outputs too
    bool tf32;                         // products of f32 are single ones of tf32, on devices that have those
    bool unoptimised;                  // the program is to share no optional rewrite with the usual one (g_set_unoptimised)
    int  rewrites;                     // 1 + how many of the optional rewrites run (g_set_rewrites); 0: all
    struct GraphPasses *passes;        // how passes are watched (graph/graph_passes.h), or NULL
    bool donate;                       // results take over the memory of inputs where they can (graph_donate); not on `ref`
    bool kernels;                      // a program is wanted: loops whose trips follow from what is given are written out
    bool random_weights;               // initializers whose file of external data is missing get random values
    // what came out
    // the import failed for something that is left out on purpose: "sequences", "strings", ..
    const char *out_of_scope;
    int bound;                         // inputs and dimensions that had to be bound to given values
} OnnxImport;

// onnx/edit.c: the k-th step to a smaller model, as bytes. NONE: there are no more; NOT: this one cannot be.
typedef enum OnnxEdit { ONNX_EDIT_NONE, ONNX_EDIT_NOT, ONNX_EDIT_MADE } OnnxEdit;
OnnxEdit onnx_edit(const void *bytes, size_t n, int k, Buf *out);

// Messages are one line; they begin with the path and name the node or tensor.
OnnxModel *onnx_read(const char *path, Buf *err);
// as read from `path`; bytes are copied where needed
OnnxModel *onnx_parse(const char *path, const void *bytes, size_t n, Buf *err);
void       onnx_free(OnnxModel *m);
Graph     *onnx_import(OnnxModel *m, OnnxImport *how, Buf *err);

// The same, and run on the device `ref`; `outputs` has room for as many as the model has (g_tensor_free).
bool       onnx_run(OnnxModel *m, OnnxImport *how, GTensor *outputs, Buf *err);
// imported already; frees it
bool       onnx_run_graph(OnnxModel *m, Graph *g, const OnnxImport *how, GTensor *outputs, Buf *err);
const char *onnx_path(const OnnxModel *m);
// The model's inputs: those that have no value in the model first, then those that have one.
int         onnx_input_count(const OnnxModel *m, bool with_defaults);
const char *onnx_input_name(const OnnxModel *m, int i);
Elem        onnx_input_elem(const OnnxModel *m, int i);          // EL_none: no tensor of numbers
void        onnx_input_type(const OnnxModel *m, int i, Buf *out);   // "f32[batch, 784]"
// as declared; false: it is not
bool        onnx_input_shape(const OnnxModel *m, int i, int *rank, int64_t *shape, int64_t unknown);
int         onnx_output_count(const OnnxModel *m);
const char *onnx_output_name(const OnnxModel *m, int i);
// "sequences", "optionals", "strings", ..: what is not a tensor of numbers among inputs and outputs; NULL: nothing.
const char *onnx_unusual_io(const OnnxModel *m);

// What the model holds under a name: an initializer, or what a Constant node gives, in bodies and functions too. The data
// are the model's, row by row. data NULL: the file `missing` is not there
typedef struct OnnxWeight {
    Elem elem;
    int rank;
    int64_t dim[G_MAX_RANK];
    const void *data;
    size_t period;                     // made-up data are the same again after so many bytes; 0: they are not
    const char *missing;
} OnnxWeight;
int         onnx_weight_count(const OnnxModel *m);
const char *onnx_weight_name(const OnnxModel *m, int i);
// False: err. random: data are made up if their file is missing.
bool        onnx_weight(OnnxModel *m, int i, bool random, OnnxWeight *out, Buf *err);

// *.pb files: one TensorProto.
bool onnx_tensor_read(const char *path, GTensor *out, Buf *err);
bool onnx_tensor_parse(const void *bytes, size_t n, GTensor *out, Buf *err);
bool onnx_tensor_write(const char *path, const char *name, const GTensor *t, Buf *err);

const char *onnx_type_name(int type);            // TensorProto.DataType: "float16"
Elem        onnx_type_elem(int type);            // as which element type it is computed with; EL_none: not at all
int         onnx_type_of(Elem elem);             // 0: none
bool        onnx_type_plain(int type);           // has an element type of ours that holds just its values (0: yes)
int         onnx_type_bits(int type);            // of an element in a file: 4 for int4

#endif

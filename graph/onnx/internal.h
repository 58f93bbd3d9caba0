// What the importer's own files share. Only they know protobuf.
//
//   onnx.proto       the format                          onnx/file.c    bytes to messages, mapped files
//   onnx/tensor.c    messages to tensors, external data  onnx/attr.c    attributes
//   onnx/import.c    nodes to the graph IR               onnx/known.c   what must be a number at import
//   onnx/random.c    weights that are made up            onnx/order.c   nodes after those that they read
#ifndef TK_GRAPH_ONNX_INTERNAL_H
#define TK_GRAPH_ONNX_INTERNAL_H

#include "graph/onnx/onnx.h"
#include "graph/op/op.h"
#include "lang/launch.h"
#include "onnx.pb-c.h"

typedef struct FileMap {               // a file, mapped for reading
    const char    *path;               // real path
    const uint8_t *p;                  // NULL: it is empty
    size_t         n;
} FileMap;

// onnx/random.c; fd: of all of a kind
typedef struct RandomRing { Elem elem; int shift, fd; size_t bytes; void *p; } RandomRing;

// onnx/weight.c
typedef enum StoredAs { STORED_weight, STORED_value, STORED_sparse } StoredAs;       // initializers; dense values of Constant; either, sparse
typedef struct OnnxStored { const char *name; StoredAs as; const void *message; } OnnxStored;

struct OnnxModel {
    Arena      *arena;                 // messages, names, tensors that had to be converted
    const char *path;                  // as given
    // real path of the folder that it is in; external data are below. NULL: no such folder
    const char *folder;
    const Onnx__ModelProto *proto;
    VEC(OnnxStored) stored;            // what it holds as numbers
    const OnnxStored **by_message;     // .. by the addresses of their messages
    VEC(FileMap) maps;                 // of external data
    VEC(RandomRing) random;            // numbers for weights whose file is missing
    VEC(const Onnx__ValueInfoProto *) inputs;   // those without a value in the model first
    uint32_t ninputs;                  // how many those are
};

typedef struct OnnxTensor {
    const char *name;
    int         type;                  // TensorProto.DataType
    Elem        elem;
    Elem        packed;                // of the numbers of 4 bits, two in each element; EL_none: elements are numbers
    int         rank;
    int64_t     dim[MAX_RANK], count;
    const void *data;                  // aligned for the element type; NULL: missing
    const char *missing;               // the file that is not there
    GOrigin     from;                  // file: of external data, and of initializers
} OnnxTensor;

// ---- onnx/file.c

// Maps a file. False: one line in err.
bool file_map(const char *path, FileMap *out, Arena *a, Buf *err);
void file_unmap(FileMap *f);
// Bytes -> message, in the arena. Everything is checked before protobuf-c sees it.
ProtobufCMessage *message_read(const ProtobufCMessageDescriptor *type, const uint8_t *p, size_t n, Arena *a, Buf *err);
// A name from a file, for messages: without control characters, not too long.
const char *shown(Arena *a, const char *name);

// ---- onnx/tensor.c

// m NULL: no external data
bool tensor_of(OnnxModel *m, const Onnx__TensorProto *p, Arena *a, OnnxTensor *out, Buf *err);
// the same, numbers of 4 bits as they are packed
bool weight_of(OnnxModel *m, const Onnx__TensorProto *p, Arena *a, OnnxTensor *out, Buf *err);
bool sparse_of(OnnxModel *m, const Onnx__SparseTensorProto *p, Arena *a, OnnxTensor *out, Buf *err);
// what t means, of its node x
Node *tensor_unpacked(Graph *g, const OnnxTensor *t, Node *x);
// a constant; refers to its data
Node *tensor_node(Graph *g, const OnnxTensor *t);

// ---- onnx/weight.c

void        stored_list(OnnxModel *m);                              // fills m->stored
const char *stored_name(const OnnxModel *m, const void *message);   // of a TensorProto or SparseTensorProto; NULL: not listed

// ---- onnx/random.c

void onnx_order(Onnx__ModelProto *m);                                     // lists of nodes: each after those that it reads
const void *random_weight(OnnxModel *m, const OnnxTensor *t, Buf *err);  // numbers for t, whose file is missing
size_t random_period(void);                                              // bytes after which they are the same again
void random_free(OnnxModel *m);

// ---- onnx/import.c

typedef struct Scope Scope;

typedef struct Call {                  // a function of the model, being inlined
    const struct Call *up;
    const Onnx__NodeProto *node;       // what calls it
    const Onnx__FunctionProto *f;
} Call;

typedef struct SameDim {               // a dimension that the model requires to be another, or a number
    const char *name, *as;             // as NULL: sum, or value
    int64_t     value;
    const char *sum;                   // of others, as text: past + sequence
} SameDim;

typedef struct Marks {                 // what must be bound, found so far; names
    Arena *arena;
    VEC(const char *) inputs, dims;
    VEC(const char *) unnamed;         // dimensions that the model gives no name
    VEC(SameDim) same;
    const char *apart;                 // of the tensors given: two sizes of one name
    bool all;                          // too many: bind whatever is given
    bool written;                      // loops are written out for the sizes given, whatever they are: one of them has no form else
    bool given;                        // all dimensions are those of the tensors given: with names the model is wrong
    bool *fixed;                       // which of the sizes that are fixed an input has
} Marks;

typedef struct Import {
    Graph      *g;
    OnnxModel  *m;
    OnnxImport *how;
    Marks      *marks;
    Scope      *scope;
    const Call *call;                  // NULL: not in a function
    Onnx__OperatorSetIdProto *const *opsets; size_t nopsets;
    bool        again;                 // something was marked: start over
    int         depth;
    int         sums;                  // that are being read, one in the other
    int64_t     lowered;               // nodes
} Import;

const OnnxGiven *given_find(const OnnxImport *how, const char *name);

// ---- onnx/attr.c

const Onnx__AttributeProto *attr_find(const Import *im, const Onnx__NodeProto *n, const char *name);

#endif

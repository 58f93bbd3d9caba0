// How an operator of ONNX becomes nodes of the graph: the op table and what its rows work with.
//
//     static Node *lower_hard_sigmoid(Op *op) {
//         Node *x = op_in(op, 0);
//         double alpha = op_float(op, "alpha", 0.2), beta = op_float(op, "beta", 0.5);
//         return clamp(op->g, g_ew2f(op->g, EW_add, g_ew2f(op->g, EW_mul, x, alpha), beta), 0, 1);
//     }
//     const OpRow ops_activation[] = {OP("HardSigmoid", 1, lower_hard_sigmoid), ..., {0}};
//
// A new operator is such a function and such a row, in the file of its family. schema.c gets a row with the
// most inputs, outputs and attributes that the operator has; tests/graph/ops.txt gets a case, which is a
// model of one node and its result. op.c lists the tables of all families.
//
// A row holds from opset `since` on, until a later row of the same name. A function returns the first output and puts the
// others into op->out. Errors follow graph.h: NULL, and a message was recorded; so missing inputs and wrong attributes
// need no checks of their own (op_in gives NULL after a message, op_opt gives NULL in silence: not given).
//
// What has to be a number at this time is asked for by op_known*: constants, sizes, and inputs of the model, which become
// constants that way (onnx.h). Op files know nothing of protobuf.
#ifndef TK_GRAPH_OP_H
#define TK_GRAPH_OP_H

#include "graph/graph.h"

typedef struct Op {                    // a node on its way into the graph
    Graph      *g;
    const char *type, *domain;         // "Conv", ""
    int         version;               // of the opset that the model (or function) imports
    int         row;                   // OpRow.arg
    int         nin, nout;
    Node *const *in;                   // NULL: not given; use op_in, op_opt
    Node      **out;                   // [nout]; [0] is what the function returns
    const int  *in_type;               // TensorProto.DataType where the model says it, else 0: int4 is an i8 here
    // to fill where it is no type of ours; what only moves elements keeps that of its first input
    int        *out_type;
    struct Import *import;             // the importer's own
    const void *node;
} Op;

typedef struct OpRow {
    const char *type;
    int         since;                 // opset
    Node     *(*lower)(Op *op);        // NULL: out of scope, `why` says what it belongs to
    int         arg;                   // op->row: which of a family
    const char *why;
    const char *domain;                // NULL: ai.onnx
} OpRow;

#define OP(type, since, lower)         {type, since, lower, 0, NULL, NULL}
#define OP_OF(type, since, lower, arg) {type, since, lower, arg, NULL, NULL}

extern const OpRow *const op_tables[];           // each ends with a row without a type; NULL at the end
const OpRow *op_find(const char *domain, const char *type, int version);   // NULL: there is none

// ---- schema.c: what ONNX's own operators have at most; a message if there is more
bool  op_has_attribute(Graph *g, const char *type, const char *name);
bool  op_has_room(Graph *g, const char *type, int inputs, int outputs);
const char *op_nearest(const char *type);        // an operator whose name is nearly this, or NULL

// ---- inputs and outputs
Node *op_widen(Graph *g, Node *x);               // what a formula works in: small floats as f32
Node *op_in(Op *op, int i);                      // a message and NULL if it is missing
Node *op_opt(Op *op, int i);                     // NULL: not given
bool  op_is_sequence(const Node *n);             // sequence.c: a list of tensors, which op_in and op_opt refuse
// sequence.c: `list`, and then the n rows of x
Node *op_list_of_rows(Op *op, Node *list, Node *x, int64_t n);
int   op_in_type(const Op *op, int i);           // TensorProto.DataType if known, else 0
// has it so many dimensions? a message if not; NULL: false
bool  op_rank(Op *op, const Node *x, int rank, const char *what);
bool  op_wants(const Op *op, int i);             // is output i used?
Node *op_out(Op *op, int i, Node *n);            // sets output i where there is one; returns n
// The same inputs, or others, and the attributes of this node by the row of another operator of ONNX; its first output.
Node *op_as(Op *op, const char *type, int version, Node *const *in, int nin);
void *op_out_of_scope(Op *op, const char *what);  // like op_error: "random numbers are not supported"
void *op_error(Op *op, const char *fmt, ...) __attribute__((format(printf, 2, 3)));   // NULL

// ---- attributes: the default if there is none; a message if it is of another type
bool        op_given(Op *op, const char *name);
int64_t     op_int(Op *op, const char *name, int64_t otherwise);
double      op_float(Op *op, const char *name, double otherwise);
const char *op_text(Op *op, const char *name, const char *otherwise);
// the text attribute equals value
bool        op_is(Op *op, const char *name, const char *otherwise, const char *value);
const int64_t *op_ints(Op *op, const char *name, int *n);                // NULL: none
const float   *op_floats(Op *op, const char *name, int *n);
const char *const *op_texts(Op *op, const char *name, int *n);
Node       *op_tensor(Op *op, const char *name);                         // a constant; NULL: none
Elem        op_elem(Op *op, const char *name, Elem otherwise);           // an element type by ONNX's number
// of x, negative from the end; -1 and a message
int         op_axis(Op *op, const Node *x, const char *name, int64_t otherwise);

// ---- values that must be known now. NULL or false: a message was recorded, or the import starts again
const Ix      *op_known(Op *op, int i, int *n);                          // sizes, may be symbolic
const int64_t *op_known_ints(Op *op, int i, int *n);                     // numbers
const double  *op_known_floats(Op *op, int i, int *n);                   // numbers of any element type
bool           op_known_int(Op *op, int i, int64_t *v);                  // one element
// x was not known: what it depends on is bound, or a message says what is to be given. NULL
void          *op_needs(Op *op, const Node *x, const char *what);
bool           op_fixed(Op *op, Ix size, int64_t *v);                    // a size as a number
// x as a constant if no input, dimension or param is in it; else NULL, no message
Node          *op_fold(Op *op, Node *x);
// Does a loop have so many trips, as a number? If a program is wanted, one that the given tensors settle is settled; not where each step
// needs the one before, as long as such loops have a form.
// false and no message: it stays a loop, or the import starts again.
bool           op_trips(Op *op, Ix size, bool chained, int64_t *n);
// Between the two may be tried what need not succeed: op_undo forgets the message, what was required and what was bound.
typedef struct OpTrial { uint32_t requires, inputs, dims; bool again; } OpTrial;
OpTrial        op_try(Op *op);
void           op_undo(Op *op, OpTrial t);
// If a program is wanted: does x follow from sizes, whole numbers and bools that are given? true: the import starts again.
bool           op_settle(Op *op, const Node *x);
// Axes as a bit set: the attribute `axes` of old opsets, or input i. *given: were there any?
bool           op_axes(Op *op, const Node *x, int i, uint32_t *axes, bool *given);

// ---- op/cast.c
// to a type of ONNX, which becomes that of the first output
Node          *op_cast_to(Op *op, Node *x, int type);

// ---- op/ort_fused.c
Node          *op_gelu(Graph *g, Node *x, bool tanh);                    // by tanh, or by erf

// ---- bodies of If, Loop, Scan
typedef struct OpBody OpBody;
const OpBody *op_body(Op *op, const char *attribute);                    // NULL: a message was recorded
int           op_body_inputs(const OpBody *b);
int           op_body_outputs(const OpBody *b);
// Lowers the body's nodes with these values for its inputs (n of them); one result for each output, which may be a list of
// tensors. It sees the values around the node. May be called again: that is how loops are unrolled.
bool          op_inline(Op *op, const OpBody *b, Node *const *args, int nargs, Node **results);

#endif

// The graph IR: a model as a DAG of values, about twenty kinds, in which movement is an index map.
//
//     %7  view  f32[B, 12, S, 64] = %6[a0, a2, a1 * 64 + a3]                 reshape and transpose of f32[B, S, 768]
//     %8  contract f32[B, 12, S, T] = %7[b b m k] * %5[b b n k]              batch, m, n, k
//     %9  ew.mul f32[B, 12, S, T] = %8, %4
//
// A `Node` is a value: element type, shape (index expressions: dimensions may be symbolic, see ix.h), sources. Nodes are
// made by the functions below, are never changed, and are hash-consed: the same operation on the same sources is the same
// pointer. They live in the graph's arena. Sources come before users (smaller `id`).
//
// Errors. A function that cannot do what it is asked records a message, which names the node of the model set by g_at(),
// and returns NULL. Every function takes NULL among its nodes and returns NULL in silence, so that a lowering can be
// written as one expression, and asked for success at its end. Only the first message is kept (g_failed). Nothing that a
// model says makes these functions abort.
//
// What is where: ix.h index expressions · graph.c nodes, views · build.c the other builders · known.c shape values ·
// print.c the text dump.
#ifndef TK_GRAPH_GRAPH_H
#define TK_GRAPH_GRAPH_H

#include "graph/ix/ix.h"
#include "graph/tensor.h"

// ---- the kinds ------------------------------------------------------------------------------------------------------

//    name       meaning
#define G_KINDS(X) \
    X(input,     "what the caller gives; `name`") \
    X(param,     "what a body (of loop, if) is given for each trip") \
    X(const,     "bytes, or a part of a file") \
    X(index,     "an index expression of its own axes: iota, a mask, a size of the model as a number") \
    X(ew,        "elementwise, `op` from G_EWS; all sources have the result's shape") \
    X(cast,      "another element type") \
    X(view,      "out[axes] = src[coord(axes)] where pred(axes), else fill") \
    X(gather,    "out[axes] = src0[coord or index values]") \
    X(scatter,   "src0, with src1 put where indices say, combined by `op`") \
    X(reduce,    "over the axes in `axes`, which are gone from the result") \
    X(scan,      "running sum, product, max or min along an axis") \
    X(sort,      "along an axis: result 0 values, result 1 positions (i64)") \
    X(contract,  "out[b, m, n] = sum over k of a[b, m, k] * b[b, n, k]") \
    X(concat,    "sources one after the other along an axis") \
    X(host,      "an operation on whole tensors that only the interpreter runs (data-dependent shapes)") \
    X(loop,      "a body, repeated") \
    X(if,        "one of two bodies") \
    X(steps,     "a graph of its own, once for each number of a dimension, one after the other") \
    X(proj,      "result `result` of a source with several")

typedef enum GKind {
#define X(name, meaning) G_##name,
    G_KINDS(X)
#undef X
    G_KIND_COUNT
} GKind;

// Elementwise operations. Operands have one element type T (where: the first is bool), the result as stated. Floats of 16
// bits and fewer are computed in f32 and rounded once. Integers wrap.
//    name       n  result   meaning
#define G_EWS(X) \
    X(neg,       1, SAME,    "-a") \
    X(abs,       1, SAME,    "absolute value") \
    X(sign,      1, SAME,    "-1, 0 or 1") \
    X(floor,     1, SAME,    "") \
    X(ceil,      1, SAME,    "") \
    X(round,     1, SAME,    "to nearest even") \
    X(trunc,     1, SAME,    "toward zero") \
    X(sqrt,      1, SAME,    "") \
    X(exp,       1, SAME,    "") \
    X(log,       1, SAME,    "") \
    X(expm1,     1, SAME,    "exp(a) - 1") \
    X(log1p,     1, SAME,    "log(1 + a)") \
    X(sin,       1, SAME,    "") \
    X(cos,       1, SAME,    "") \
    X(tan,       1, SAME,    "") \
    X(asin,      1, SAME,    "") \
    X(acos,      1, SAME,    "") \
    X(atan,      1, SAME,    "") \
    X(sinh,      1, SAME,    "") \
    X(cosh,      1, SAME,    "") \
    X(tanh,      1, SAME,    "") \
    X(asinh,     1, SAME,    "") \
    X(acosh,     1, SAME,    "") \
    X(atanh,     1, SAME,    "") \
    X(erf,       1, SAME,    "") \
    X(sigmoid,   1, SAME,    "1 / (1 + exp(-a))") \
    X(not,       1, SAME,    "of a bool, or all bits of an integer") \
    X(isnan,     1, BOOL,    "") \
    X(isinf,     1, BOOL,    "of either sign") \
    X(add,       2, SAME,    "") \
    X(sub,       2, SAME,    "") \
    X(mul,       2, SAME,    "") \
    X(div,       2, SAME,    "of integers: toward zero, by zero gives 0") \
    X(floordiv,  2, SAME,    "floored") \
    X(mod,       2, SAME,    "a - b * floor(a / b): the sign of b; integers by zero give 0") \
    X(rem,       2, SAME,    "C's fmod and %: the sign of a") \
    X(pow,       2, SAME,    "of integers too: the exact power, wrapped") \
    X(min,       2, SAME,    "NaN if either is") \
    X(max,       2, SAME,    "NaN if either is") \
    X(and,       2, SAME,    "bools or bits") \
    X(or,        2, SAME,    "bools or bits") \
    X(xor,       2, SAME,    "bools or bits") \
    X(shl,       2, SAME,    "integers; too far gives 0") \
    X(shr,       2, SAME,    "integers; too far gives 0, or -1 of a negative number") \
    X(eq,        2, BOOL,    "") \
    X(ne,        2, BOOL,    "") \
    X(lt,        2, BOOL,    "") \
    X(le,        2, BOOL,    "") \
    X(gt,        2, BOOL,    "") \
    X(ge,        2, BOOL,    "") \
    X(where,     3, SAME,    "a ? b : c; a is bool")

typedef enum GEw {
#define X(name, n, result, meaning) EW_##name,
    G_EWS(X)
#undef X
    EW_COUNT
} GEw;

typedef struct GEwInfo { const char *name; uint8_t n; bool gives_bool; } GEwInfo;
extern const GEwInfo g_ew_info[EW_COUNT];
static inline bool g_is_function(GEw op) { return op >= EW_sqrt && op <= EW_sigmoid; }       // more than an instruction or two
extern const char *const g_kind_name[G_KIND_COUNT];

// Reductions; scans take the first four, scatters `none` and the first four. f16, bf16, f8 add up in f32 and round once;
// an empty sum is 0, product 1, max the least value (-inf), min the greatest, any false, all true.
//    argmax, argmin: i64, of the first that is so (`last`: the last); NaN wins over all. all, any: of bools.
typedef enum GReduce { GR_sum, GR_prod, GR_max, GR_min, GR_argmax, GR_argmin, GR_any, GR_all, GR_none, GR_COUNT } GReduce;
extern const char *const g_reduce_name[GR_COUNT];

// ---- nodes ----------------------------------------------------------------------------------------------------------

typedef struct Node Node;

typedef struct GNum { bool is_int; int64_t i; double f; } GNum;      // a number on its way to an element type
static inline GNum g_int(int64_t v)    { return (GNum){true, v, (double)v}; }
static inline GNum g_float(double v)   { return (GNum){false, 0, v}; }

typedef struct GType { Elem elem; int rank; const Ix *shape; } GType;

// An operation on whole tensors. `run` fills `out` (shape and data: g_tensor_alloc; elem and rank are set), or writes why
// not to `error` and returns false.
typedef struct GHostOp {
    const char *name;
    bool (*run)(const void *attr, const GTensor *in, int nin, GTensor *out, int nout, char *error, size_t error_size);
} GHostOp;

typedef struct GBody {           // of a loop or an if: the values of one trip, in terms of params and of values outside
    Node *const *params; int nparams;
    Node *const *results; int nresults;
} GBody;

struct Node {
    uint8_t  kind;               // GKind
    uint8_t  elem;               // Elem
    uint8_t  rank;
    uint8_t  op;                 // G_ew: GEw; G_reduce, G_scan, G_scatter: GReduce
    uint32_t id;                 // in order of creation
    uint32_t nsrc;
    uint32_t hash;
    Node *const *src;
    const Ix *shape;             // rank of them
    uint32_t place;              // of `from` in the model's order
    const char *from;            // "Softmax /layer1/attn/Softmax": the node of the model that it was made for, or NULL
    const char *name;            // the value's name in the model, or NULL
    union {
        struct {                                 // G_const
            const void *data;                    // elements in order; little endian, as in memory
            size_t      bytes;
            const char *stored;                  // under which name the model's file has them; NULL: it has not
            const char *file;                    // a weight: where the bytes are from (with random ones, would be), or NULL
            uint64_t    offset;                  // .. in a file of external data
        } c;
        struct { Ix expr; } index;               // G_index
        struct { const Ix *coord; Ix pred; GNum fill; } view;   // coord: one for each dimension of the source
        struct {                                 // G_gather, G_scatter: for each dimension of src0 an expression of the
            const Ix *coord;                     // axes (gather: of the result; scatter: of src1), or NULL: then values
            bool      checked;                   // of the next further source, an integer of that shape
            GNum      fill;                      // gather out of range: an error if checked, else this
        } at;                                    // scatter out of range: an error if checked, else skipped
        // bit i: axis i of the source is reduced. tile: columns that a product makes together: by its kernel, if it can be (fuse/numbers.c)
        struct { uint32_t axes; bool last, tile; } reduce;
        struct { uint8_t axis; bool exclusive, reverse; } scan;
        struct { uint8_t axis; bool descending; } sort;         // stable; NaN is greater than all numbers
        struct { uint8_t nb, nm, nn, nk; Elem acc; } contract;
        struct { uint8_t axis; } concat;
        // to f8, to integers: saturate; else as NumPy and C have it. kept: in memory
        struct { bool saturate, kept; } cast;
        struct { const GHostOp *op; const void *attr; size_t attr_bytes; const GType *result; int nresults; } host;
        struct {                                 // G_loop: src = trip count (i64[]), first condition (bool[]), carried..
            // params: trip number (i64[]), carried..; results: condition, carried.., scanned..
            const GBody *body;
            const GType *result; int nresults;   //   results of the node: carried.., scanned.. (one more axis, in front)
            int ncarried;                        // G_if: src = condition; body[0] if true, body[1] if not; no params
        } sub;
        struct {                                 // G_steps: src = carried.., then what else the graph is given each time
            Graph *body;                         // its inputs are src; its outputs carried.., then a row of each scanned
            Ix    count;                         // how many
            const GType *result; int nresults;   // carried.., scanned.. (one more axis, in front)
        } steps;
        struct { uint32_t result; } proj;
    };
};

// handed: an output that is none of the model's: who reads it, in words; NULL: the model's (stages.h)
typedef struct GNamed { const char *name; Node *node; const char *handed; } GNamed;
typedef struct GRequire { Ix a, b; const char *from; } GRequire;
typedef struct GDonated {        // a result, and the input whose memory it takes over (donate.c)
    const char *output, *input;
    const char *refused;         // why there is none, in words, or NULL
    int   axis;                  // of which the input gets rows; -1: elements of it are replaced
    int   rank;                  // of the result
    const Ix *shape;
    Node *state, *updated;       // the input as it is now, with room along the axis; its elements afterwards
} GDonated;

// Of the body of steps: which dimension is the step's number, behind those of the graph around it; how many there are; of its outputs the
// first so many are inputs of the next step, the others rows, each at its number; what these are of, by output, once it is fused.
typedef struct GStep { Ix number, count; int ncarried; Node **whole; } GStep;

struct Graph {
    Arena *arena;
    const char *name;            // of the model
    VEC(GNamed) inputs, outputs; // in the model's order
    VEC(GRequire) requires;      // a == b must hold when dimensions are known; what run() checks
    VEC(Node *) nodes;           // all that were made, by id
    // one for each of the model's outputs, or none; those that were taken are no outputs any more
    VEC(GDonated) donated;
    VEC(GNamed) written;         // what the program says that graph_write wrote: its values in memory, by the names there
    struct GStages *stages;      // or NULL: the model is one program (stages.h)
    GStep step;                  // number NULL: it is the body of no steps
    VEC(struct Graph *) bodies;  // of steps; freed with it
    Ix trip;                     // while a loop's trips are read as one: the dimension that is their number (op/control.c), or NULL
    struct GTables *tables;      // hash tables, dimensions, the message
};

Graph *graph_new(const char *name);

// What is being lowered, for messages and for `from`: kept as given (copied). NULL: nothing.
void        g_at(Graph *g, const char *from);
const char *g_source(const Graph *g);
// Records "FROM: words" unless there is a message already. Returns NULL, so that `return g_error(..)` fits.
void       *g_error(Graph *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// --opt=none: rewrites that kernels can be written without are left out, and no value joins the kernel of another
void g_set_unoptimised(Graph *g);
// Of the rewrites that kernels can be written without, only those among the first n run: to see what each does
void g_set_rewrites(Graph *g, int n);
void g_set_tf32(Graph *g);                                               // products of f32 are single ones of tf32 in programs
const char *g_failed(const Graph *g);                                   // the message, or NULL
void g_forget(Graph *g, uint32_t requires);                             // the message, and what was required after the first so many

Node *g_input(Graph *g, const char *name, Elem elem, int rank, const Ix *shape);
void  g_output(Graph *g, const char *name, Node *node);
// gives a value a name unless it has one; returns it
Node *g_name(Graph *g, Node *n, const char *name);
// Inputs whose memory results can take over do so: those results are inputs that are updated in place from now on.
// Before any rewriting. A dimension that such an input extends is an input of its own name afterwards, i32[].
bool  graph_donate(Graph *g);
// a line for each result, beginning with `lead`
void  graph_donate_print(const Graph *g, Buf *to, const char *lead, bool refused);
void  g_require(Graph *g, Ix a, Ix b);                                   // an error at once if they can never be equal

// ---- constants ------------------------------------------------------------------------------------------------------

Node *g_const(Graph *g, Elem elem, int rank, const int64_t *shape, const void *data);   // copies
// Keeps the pointer, which must outlive the graph (a mapped file). Where it is from may be NULL.
typedef struct GOrigin { const char *stored, *file; uint64_t offset; } GOrigin;       // as in G_const
Node *g_const_ref(Graph *g, Elem elem, int rank, const int64_t *shape, const void *data, const GOrigin *from);
Node *g_f(Graph *g, Elem elem, double v);                                // a scalar
Node *g_i(Graph *g, Elem elem, int64_t v);                               // a scalar
Node *g_vec_i64(Graph *g, int n, const int64_t *v);                      // i64[n]
Node *g_full(Graph *g, Elem elem, int rank, const Ix *shape, GNum v);    // all elements the same
Node *g_index(Graph *g, Elem elem, int rank, const Ix *shape, Ix expr);  // out[axes] = expr(axes); integer or bool
Node *g_iota(Graph *g, Elem elem, int rank, const Ix *shape, int axis);  // out[axes] = axes[axis]
Node *g_size(Graph *g, Elem elem, Ix size);                              // a size of the model as a scalar
Node *g_shape_vec(Graph *g, int n, const Ix *sizes);                     // i64[n]: what ONNX's Shape gives

void  g_num_store(void *at, Elem elem, GNum v);                          // rounds floats once; integers wrap
GNum  g_num_load(const void *at, Elem elem);
bool  g_scalar_value(const Node *n, GNum *v);                            // is every element this one constant?

// ---- elementwise ----------------------------------------------------------------------------------------------------
// Shapes are broadcast (by views) as NumPy does; element types must agree. Constants fold.

Node *g_ew(Graph *g, GEw op, Node *const *src, int n);
Node *g_ew1(Graph *g, GEw op, Node *a);
Node *g_ew2(Graph *g, GEw op, Node *a, Node *b);
Node *g_where(Graph *g, Node *cond, Node *a, Node *b);
Node *g_ew2f(Graph *g, GEw op, Node *a, double b);                       // b a scalar of a's element type
Node *g_cast(Graph *g, Node *x, Elem elem);                              // as NumPy: to integers truncates, wraps
Node *g_cast_saturate(Graph *g, Node *x, Elem elem);                     // to f8 and integers: to the nearest that there is
Node *g_kept(Graph *g, Node *x, Elem elem);                              // as g_cast, also to the same type, and in memory
bool  g_broadcast_shape(Graph *g, Node *const *src, int n, int *rank, Ix *shape);   // false: an error was recorded

// ---- views ----------------------------------------------------------------------------------------------------------

// out[axes] = x[coord] where pred, else fill. coord has rank(x) expressions of ix_axis(g, i, shape[i]). pred may be NULL
// (always). Where pred holds, coord must be in range. Views of views compose, identities vanish.
Node *g_view(Graph *g, Node *x, int rank, const Ix *shape, const Ix *coord, Ix pred, GNum fill);

Node *g_reshape(Graph *g, Node *x, int rank, const Ix *shape);           // one size may be -1: what is left
Node *g_reshape_like(Graph *g, Node *x, Node *like);
Node *g_transpose(Graph *g, Node *x, int rank, const int *perm);         // result axis i is x's axis perm[i]
Node *g_squeeze(Graph *g, Node *x, uint32_t axes);                       // bit i: axis i, which must be 1, goes
Node *g_unsqueeze(Graph *g, Node *x, uint32_t axes);                     // bit i: axis i of the *result* is new, of size 1
// to exactly this shape, NumPy's rules; lined up at the end
Node *g_expand(Graph *g, Node *x, int rank, const Ix *shape);
// x's axis i becomes axis[i]; sizes 1 repeat
Node *g_broadcast_to(Graph *g, Node *x, int rank, const Ix *shape, const int *axis);
// out[.., i, ..] = x[.., start + i * step, ..], `size` of them. For ONNX's clamping see g_slice.
Node *g_take_range(Graph *g, Node *x, int axis, Ix start, int64_t step, Ix size);
// As Python's x[start:end:step]: negative counts from the end, clamped. start or end NULL: as far as there is.
Node *g_slice(Graph *g, Node *x, int axis, Ix start, Ix end, int64_t step);
typedef enum GPad { GP_constant, GP_edge, GP_reflect, GP_wrap } GPad;
// before and after for each axis; negative crops. fill for GP_constant.
Node *g_pad(Graph *g, Node *x, const Ix *before, const Ix *after, GPad mode, GNum fill);
Node *g_flip(Graph *g, Node *x, uint32_t axes);
Node *g_tile(Graph *g, Node *x, const Ix *repeats);
// Windows over the n axes from `first` on: x[.., H, W, ..] becomes [.., OH, OW, .., KH, KW], the window axes at the end:
//     out[.., o, .., k] = x[.., o * stride + k * dilation - before, ..], fill where that is out of range
Node *g_windows(Graph *g, Node *x, int first, int n, const Ix *out, const Ix *kernel, const int64_t *stride,
                const int64_t *dilation, const Ix *before, GNum fill);

// ---- the rest -------------------------------------------------------------------------------------------------------

// axes: bit i. keep: the axes stay, with size 1. 0 axes of a value with rank > 0: nothing is reduced (x, cast to the
// result's type where that differs).
Node *g_reduce(Graph *g, GReduce op, Node *x, uint32_t axes, bool keep);
Node *g_arg_reduce(Graph *g, GReduce op, Node *x, int axis, bool keep, bool last);
// sum / count, in x's element type (16-bit floats: sum in f32)
Node *g_mean(Graph *g, Node *x, uint32_t axes, bool keep);
Node *g_softmax(Graph *g, Node *x, uint32_t axes);                       // exp(x - max) / sum
Node *g_scan(Graph *g, GReduce op, Node *x, int axis, bool exclusive, bool reverse);
Node *g_sort(Graph *g, Node *x, int axis, bool descending, Node **positions);   // positions may be NULL

// a: nb + nm + nk axes (batch, m, k), b: nb + nn + nk; result nb + nm + nn, of `elem`. acc: the type of the sum; for floats
// f32 or f64, for integers i32 (any wider kind of integer may be asked for).
Node *g_contract(Graph *g, Node *a, Node *b, int nb, int nm, int nn, int nk, Elem elem, Elem acc);
// The same by letters: g_einsum(g, "bmk,bnk->bmn", a, b). A letter that is in one operand only and not in the result is
// summed first; one repeated in an operand takes the diagonal. b NULL with a spec of one operand. Sizes 1 against n
// broadcast. Result in a's element type (which b shares), sums in f32 for small floats, f64 for f64, the type itself
// for integers.
Node *g_einsum(Graph *g, const char *spec, Node *a, Node *b);
Node *g_matmul(Graph *g, Node *a, Node *b);                              // NumPy's matmul, with its broadcasting

// x for each value of the dimension, 0 .. extent-1, one after the other along a new first axis (along.c). NULL and no message:
// its shape depends on it, or there is something among what x is made of that has no such form.
Node *g_along(Graph *g, Node *x, Ix dim, Ix extent);

// coord[i] for each dimension of data: an expression of the result's axes, or NULL: then the next of `index`, integers
// (which are broadcast to the result's shape; they are *not* counted from the end when negative: see g_wrap_index).
Node *g_gather(Graph *g, Node *data, int rank, const Ix *shape, const Ix *coord, Node *const *index, int nindex,
               bool checked, GNum fill);
Node *g_gather_axis(Graph *g, Node *data, Node *indices, int axis);      // ONNX Gather: negative from the end; checked
Node *g_gather_elements(Graph *g, Node *data, Node *indices, int axis);
Node *g_gather_nd(Graph *g, Node *data, Node *indices, int batch_dims);
Node *g_wrap_index(Graph *g, Node *indices, Ix size);                    // i64; negative ones counted from the end
// data with updates put in: coord as for g_gather, of updates' axes. op: GR_none (of several for one place, the last),
// sum, ..
Node *g_scatter(Graph *g, GReduce op, Node *data, Node *updates, const Ix *coord, Node *const *index, int nindex,
                bool checked);
bool  g_in_place(const Node *scatter);                                   // stores and atomic sums; else each element is computed anew
Node *g_scatter_elements(Graph *g, GReduce op, Node *data, Node *indices, Node *updates, int axis);
Node *g_scatter_nd(Graph *g, GReduce op, Node *data, Node *indices, Node *updates);

Node *g_concat(Graph *g, int axis, Node *const *src, int n);             // axis may be negative

// Operations on whole tensors; attr is copied. results: element type and shape of each (data-dependent sizes:
// ix_dim_fresh). The results are g_proj(g, node, i).
Node *g_host(Graph *g, const GHostOp *op, const void *attr, size_t attr_bytes, Node *const *src, int nsrc,
             const GType *result, int nresults);
Node *g_param(Graph *g, const char *name, Elem elem, int rank, const Ix *shape);   // a fresh one each time
// trips: i64 scalar or NULL (no limit); cond: bool scalar or NULL (true). body params: trip number, carried; results:
// condition, carried, scanned. A body that is unrolled needs none of this: build it `trips` times.
Node *g_loop(Graph *g, Node *trips, Node *cond, Node *const *carried, int ncarried, const GBody *body);
Node *g_if(Graph *g, Node *cond, const GBody *then_body, const GBody *else_body);
// of a graph that has its `step`
Node *g_steps(Graph *g, Graph *body, Ix count, Node *const *src, int nsrc);
Node *g_proj(Graph *g, Node *n, int result);

// ---- asking ---------------------------------------------------------------------------------------------------------

// The elements of a small integer (or bool) value as index expressions of dimensions, in order, or NULL if they are not
// known. Shape, Gather, Mul, Concat, Unsqueeze, Cast, Where .. on sizes fold this way. *count: how many.
const Ix *g_known(Graph *g, Node *n, int *count);
bool      g_known_int(Graph *g, Node *n, int64_t *value);                // one element, and a plain number
Ix        g_known_ix(Graph *g, Node *n);                                 // one element, or NULL
// All elements as plain numbers (constants of any integer type), or NULL.
const int64_t *g_known_ints(Graph *g, Node *n, int *count);

// The elements of a list of floats, or of one, that sizes were made into, as quotients of index expressions (ratio.c), or NULL.
typedef struct GRatio { Ix num, den; } GRatio;
const GRatio *g_known_ratios(Graph *g, Node *n, int *count);

Ix    g_count(Graph *g, const Node *n);                                  // of elements
bool  g_same_shape(const Node *a, const Node *b);
// An if whose sides give values of one shape: in a program these are computed both, and one is chosen by elements.
bool  g_if_chooses(const Node *n);
// By node id: what n reads, and what its bodies give.
void  g_mark_sources(bool *mark, const Node *n);
// negative from the end; -1 and a message if out of range
int   g_axis(Graph *g, const Node *n, int64_t axis);
bool  g_is_const(const Node *n);                                         // G_const
const GType *g_results(const Node *n, int *count);                       // of host, loop, if, steps

// ---- text -----------------------------------------------------------------------------------------------------------


#endif

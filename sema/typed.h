// The typed tree: one instance of a kernel, all names resolved, every compile-time value folded, every
// `fn`, function value and view inlined, every conversion written out. sema makes it, `lower/build.c`
// turns it into tile IR one to one, and `--emit=typed` prints it.
//
// A value's type is an element type and a *set* of axes (kept sorted by id). Elementwise operands may
// have fewer axes than the result: they broadcast over the rest. Nothing here is positional.
//
//     acc += dot(a[m, k], b[k, n])      assign acc = add(acc, dot(load a[m, k], load b[k, n]; over k)) : f32[m, n]
#ifndef TK_SEMA_TYPED_H
#define TK_SEMA_TYPED_H

#include "lang/ast.h"
#include "lang/launch.h"
#include "lang/number.h"

enum { MAX_AXES = 8 };

typedef struct TExpr TExpr;
typedef struct TStmt TStmt;
typedef VEC(TStmt *) TBody;

typedef struct TAxis {                  // one evaluation of a range
    int      id;                        // unique in the instance, in order of creation
    Sym      name;
    Span     span;
    int64_t  extent;                    // compile-time number of lanes, > 0 (0 only if the range is compile-time empty)
    TExpr   *lo;                        // value of lane 0: scalar `index`, side-effect free (const, var, dim, arithmetic)
    TExpr   *hi;                        // lanes with lo + i >= hi are dead; scalar `index`
    bool     full;                      // no lane can be dead: extent == hi - lo at compile time
    bool     may_be_none;               // hi may be below lo: a range that no loop or grid has found to have lanes
} TAxis;

typedef struct TType {
    Elem     elem;                      // EL_none: no value
    bool     ptr;                       // pointer to elem (raw `*T`)
    uint8_t  naxes;
    TAxis   *axis[MAX_AXES];            // sorted by id
} TType;

typedef struct TVar {                   // let, var, loop counter, scalar parameter
    int      id;
    Sym      name;
    Span     span;
    TType    type;
    bool     mutable;                   // `var`: may be assigned
    int      param;                     // index into params when it is a scalar or pointer parameter, else -1
} TVar;

typedef struct TTensor {                // a tensor parameter (views are gone by now)
    int      param;
    Sym      name;
    Elem     elem;
    ParamMode mode;
    bool     strided;
    int      rank;
    // scalar index: TX_dim (also when dims[dim].fixed is known), TX_const or arithmetic of them
    TExpr   *dim[MAX_RANK];
} TTensor;

// Elementwise functions of the language. Operand classes: f float only, i integer only, a any number.
// clang-format off
//    name    n  class  meaning
#define TFUNS(X) \
    X(exp,    1, f, "e to the x")            X(exp2,  1, f, "2 to the x")         X(log,   1, f, "natural logarithm") \
    X(log2,   1, f, "logarithm to base 2")   X(sqrt,  1, f, "square root")        X(rsqrt, 1, f, "1 / sqrt(x)") \
    X(sin,    1, f, "sine")                  X(cos,   1, f, "cosine")             X(tanh,  1, f, "hyperbolic tangent") \
    X(erf,    1, f, "error function")        X(floor, 1, f, "round down")         X(ceil,  1, f, "round up") \
    X(round,  1, f, "to nearest even")       X(trunc, 1, f, "towards zero")       X(abs,   1, a, "magnitude") \
    X(min,    2, a, "lesser, NaN wins")      X(max,   2, a, "greater, NaN wins")  X(fma,   3, f, "a * b + c, rounded once") \
    X(div_rn, 2, f, "quotient, correctly rounded (precise)")  X(sqrt_rn, 1, f, "square root, correctly rounded (precise)") \
    X(pow,    2, f, "x to the power y")   X(fmod,  2, f, "what is left of x by whole y's, with the sign of x") \
    X(copysign, 2, f, "the magnitude of x with the sign of y") \
    X(isnan,  1, f, "is it NaN (bool)")
#define TREDUCES(X) \
    X(sum) X(prod) X(max) X(min) X(any) X(every) X(argmax) X(argmin)
#define TATOMICS(X) \
    X(add) X(min) X(max) X(and) X(or) X(xor) X(xchg) X(cas)

//    kind     operands                        meaning (type is the node's own `type`)
#define TEXPRS(X) \
    X(const,   "",                             "number: ival (integers, bool) or fval (floats)") \
    X(var,     "",                             "var") \
    X(dim,     "",                             "dimension symbol dims[dim], run-time, type index") \
    X(axis,    "",                             "index tile of axis[0]: index[axis]") \
    X(unary,   "a",                            "op: OP_neg, OP_not (bool), OP_bnot (integers)") \
    X(binary,  "a,b", \
      "op: OP_add .. OP_ge, OP_land and OP_lor as OP_and and OP_or on bool; operands of one element type; add " \
      "with type.ptr: a pointer moved by b elements, b any integer type") \
    X(select,  "cond,a,b",                     "elementwise; also the ternary on run-time scalars") \
    X(cast,    "a",                            "value conversion to type.elem, rules of design 1.3") \
    X(bitcast, "a",                            "same bits, other element type of the same width") \
    X(fun,     "a,b,c",                        "fun: TF_exp ..; operands of one element type") \
    X(reduce,  "a", \
      "reduce over axis[..naxes]: TR_sum ..; argmax and argmin have one axis and give its value as `index`") \
    X(scan,    "a", \
      "prefixes of a along axis[0]: op is TR_sum, TR_prod, TR_max or TR_min; ival: SCAN_EXCLUSIVE, SCAN_REVERSE") \
    X(sort,    "a",                            "a in order along axis[0]; ival: SORT_DESCENDING, SORT_NAN_FIRST") \
    X(order,   "a", \
      "elements of axis[0] in the order of a's values there, equals as they stood, type index; ival as in sort") \
    X(take,    "a,order",                      "along axis[0], element i is what a has at element order[i]") \
    X(dot,     "a,b", \
      "contract over axis[..naxes]; prec; result f32, f64 or i32 over the remaining axes of both") \
    X(load,    "indices...,else", \
      "tensor[indices]: nidx indices of type index or an integer, then `else` (NULL: 0)") \
    X(ptrload, "address,where,else",           "raw load through a pointer scalar or tile; where and else may be NULL") \
    X(splat,   "a",                            "scalar or smaller tile broadcast to exactly type's axes") \
    X(rename,  "a",                            "a with axis[0] called axis[1] (equal extents and liveness)") \
    X(block,   "value",                        "run body, then value: an inlined function") \
    X(atomic,  "value,compare,indices...", \
      "atomic on tensor[indices] or (tensor NULL) on pointer indices[0] with where = kid[3]: TA_add ..; gives the " \
      "old value; compare only for cas")
//    kind     meaning
#define TSTMTS(X) \
    X(let,     "var = value (first and only definition, or the initial value of a mutable var)") \
    X(assign,  "var = value: value has exactly var's type") \
    X(store,   "tensor[idx..nidx] = value") \
    X(ptrstore,"*idx[0] = value where cond") \
    X(eval,    "value for its effect (an atomic whose result is dropped)") \
    X(for, \
      "for var = lo; var < hi; var += step { body }; step > 0 compile-time unless step_expr; axis (or NULL) is " \
      "the tile axis [var, var + extent) made in each trip") \
    X(joined, \
      "carried = idx[..nidx] along axis joined in order by the merge function, of numbers: all elements, or (step: JOINED_SCAN, " \
      "SCAN_REVERSE) those up to each") \
    X(while,   "while cond { body }; cond_body runs before cond each time") \
    X(if,      "if cond { body } else { orelse }") \
    X(break,   "leaves the loop `target`, which may be several loops out (a `for` of several clauses)") \
    X(continue,"next trip of the loop `target`") \
    X(assert,  "cond must hold, else str is reported") \
    X(print,   "str, then value (NULL: only text), whole tile, once a program")
// clang-format on

typedef enum TExprKind {
#define X(kind, operands, meaning) TX_##kind,
    TEXPRS(X)
#undef X
    TX_COUNT
} TExprKind;
typedef enum TStmtKind {
#define X(kind, meaning) TS_##kind,
    TSTMTS(X)
#undef X
    TS_COUNT
} TStmtKind;
typedef enum TFun {
#define X(name, n, cls, meaning) TF_##name,
    TFUNS(X)
#undef X
    TF_COUNT
} TFun;
typedef enum TReduce {
#define X(name) TR_##name,
    TREDUCES(X)
#undef X
    TR_COUNT
} TReduce;
enum { SCAN_EXCLUSIVE = 1, SCAN_REVERSE = 2, JOINED_SCAN = 4, SORT_DESCENDING = 1, SORT_NAN_FIRST = 2 };
typedef enum TAtomic {
#define X(name) TA_##name,
    TATOMICS(X)
#undef X
    TA_COUNT
} TAtomic;
typedef enum DotPrec { DP_default, DP_tf32x3, DP_tf32, DP_ieee } DotPrec;

struct TExpr {
    uint8_t  kind;                      // TExprKind
    uint8_t  op;                        // AstOp, TFun, TReduce, TAtomic or DotPrec, by kind
    uint8_t  nidx;                      // load, atomic: number of index kids
    uint8_t  naxes;                     // reduce, scan, sort, order, take, dot, axis, rename
    Span     span;
    TType    type;
    union { int64_t ival; double fval; TVar *var; int dim; TTensor *tensor; };
    union { TAxis **axis; double whole; };         // whole, of a TX_const: what rounding to f32 changed, the number as written; else 0
    TBody    body;                      // TX_block
    uint32_t nkid;
    TExpr  **kid;
};

struct TStmt {
    uint8_t  kind;                      // TStmtKind
    Span     span;
    TVar    *var;                       // let, assign, for
    TTensor *tensor;                    // store
    TExpr   *value, *cond;
    TExpr  **idx; uint8_t nidx;         // store; joined: the values
    TExpr   *lo, *hi, *step_expr; int64_t step;   // for
    TAxis   *axis;                      // for, joined
    TBody    body, orelse, cond_body;
    TStmt   *target;                    // break, continue
    Str      str;
    Sym      label;
    TVar   **carried; int ncarried;     // joined, for with `merge`: the merge function on values x (left) and y (right)
    TVar   **merge_x, **merge_y; TExpr **merge_result; TBody merge_body;
};

// one clause; programs are the product of cdiv(hi - lo, step), first clause outermost
typedef struct TGrid {
    TVar    *var;                       // scalar index: the clause's value, or the axis's first
    TAxis   *axis;                      // NULL without `by`
    TExpr   *lo, *hi;                   // host expressions: const, dim, integer scalar parameter, arithmetic
    int64_t  step;
} TGrid;

typedef enum Origin {                   // of a compile-time name's value
    ORIGIN_NONE,
    ORIGIN_DEFAULT,
    ORIGIN_FALLBACK,                    // `or`
    ORIGIN_SET,                         // by the user
    ORIGIN_CHOSEN,                      // by the model or by tuning
    ORIGIN_INFERRED,                    // from a tensor
} Origin;

typedef struct TBinding {               // a compile-time name of the instance, for headers and messages
    Sym      name;
    int64_t  ival;                      // integers and booleans
    Elem     elem;                      // element types
    bool     is_type;
    Origin   origin;
    Span     span;
} TBinding;

typedef struct TGuard { TExpr *cond; const char *text; Span span; } TGuard;   // host expression

enum { KIND_ONE = 32 };

typedef struct TKernel {
    Sym          name;
    Span         span;
    const Node  *decl;
    LaunchParam *params;   int nparams; // dim[]/solves[] filled by lower from tensors
    TTensor    **tensor;                // by parameter; NULL for scalars and pointers
    TVar       **scalar;                // by parameter; NULL for tensors
    LaunchDim   *dims;     int ndims;
    bool        *reads;                 // by dimension: its number, or that there is none, made a difference
    uint8_t     *kinds;                 // by dimension: the powers of two that made a difference by dividing it or not, or'ed; KIND_ONE: whether it is 1
    TBinding    *bindings; int nbindings;
    TGuard      *guards;   int nguards; // where clauses, N <= extent of `let` ranges, D == its number, fallbacks
    TGrid       *grid;     int ngrid;
    TBody        body;
    int          nvars, naxes;
    VEC(TAxis *) axes;                  // those of `let` ranges and of `:`, in order of creation
} TKernel;

// ---- sema ----------------------------------------------------------------------------------------

typedef struct SemaValue {                // --set NAME=VALUE, or a known dimension
    const char *name;
    bool        is_type;
    int64_t     ival;
    Elem        elem;
    const char *fn;                       // name of a function that the file sees, or NULL
    const struct Ent *value;              // a function value of a test item, or NULL
    bool        chosen;                   // from a tune item's choices, not by the caller
} SemaValue;
typedef struct SemaFile SemaFile;       // a checked file: its items and those it imports

// collects items, resolves imports; errors in the session; never NULL
SemaFile *sema_file(Session *s, Node *file);
int       sema_kernel_count(const SemaFile *f);         // kernels of the file itself, in order
const Node *sema_kernel(const SemaFile *f, int i);
const Node *sema_find_kernel(const SemaFile *f, const char *name);    // NULL if there is none
// Of what an instance is made: a kernel or a graph, values by name (`set`), and what is known of dimensions (from arguments), with
// is_type of element types (`T` of `x: T[N]`). Values may be none.
typedef struct InstanceOf { SemaFile *file; const Node *item; const SemaValue *set; int nset; const SemaValue *known; int nknown; } InstanceOf;
// NULL: an error was reported.
TKernel  *sema_instance(InstanceOf of);
// What the kernel's tune item leaves free, in all allowed combinations: `<>` names and words of the schedule (each marked
// `chosen`), besides what `set` gives. None without a tune item.
typedef struct TuneCandidate { const SemaValue *value; int n; } TuneCandidate;
int sema_candidates(InstanceOf of, TuneCandidate **out);
// The conditions of its tune item, if it has one, hold for the defaults.
bool sema_tune_allows(InstanceOf of);
// what is chosen depends on it: `key`, else all
bool      sema_tune_key(const SemaFile *f, const Node *kernel, const char *dim);
const Node *sema_tune_item(const SemaFile *f, const Node *kernel);                   // NULL: it has none
void      sema_check_tunes(SemaFile *f);                // the `tune` items, to report errors
void      sema_check_names(SemaFile *f);                // of kernels and functions, also of imported files, whether anything instantiates them or not
void      sema_check_imported(SemaFile *f);             // kernels of imported files but the library's, with their defaults
void      sema_check(SemaFile *f);                      // all items but tests, kernels with their defaults, to report errors
void      typed_print(Session *s, const TKernel *k, Buf *out);
void      binding_print(const TBinding *b, Buf *out);   // "BM = 128"
void      instance_print(const TKernel *k, Buf *out);   // "matmul<BM = 128, T = bf16>"
const char *origin_word(Origin o);                      // "default"
// how many promises of this file the tree breaks; sema's bugs, in words
int       typed_verify(const TKernel *k, Buf *out);

// ---- test items ----------------------------------------------------------------------------------
// A test runs as a list of steps over numbered tensors, all sizes known.

typedef enum TStepKind { STEP_make, STEP_launch, STEP_graph, STEP_expect } TStepKind;
typedef enum TMake { MAKE_random, MAKE_zeros, MAKE_ones, MAKE_full, MAKE_iota, MAKE_randint, MAKE_values } TMake;

typedef struct TValue {                 // an argument of a step: a tensor by number, or a scalar
    int      tensor;                    // >= 0: tensor of this number; -1: scalar
    Elem     elem;
    int64_t  ival;
    double   fval;
    int32_t  row;                       // of an integer in a graph: of its recipe (graph.h); 0: the same for all sizes
} TValue;
typedef struct TStep {
    TStepKind kind;
    Span      span;
    // make: tensor `result` of elem[shape]
    TMake     make;
    int       result;                   // number of the (first) tensor made
    Elem      elem;
    int       rank;
    int64_t   shape[MAX_RANK];
    // random in [lo, hi) (default: standard normal when lo == hi), randint, full value, iota start and step
    Number    lo, hi;
    Number   *values;                   // MAKE_values
    // launch: kernel instance on args (one for each parameter; out parameters are made here and numbered result, result
    // + 1, ...)
    TKernel  *kernel;
    TValue   *args; int nargs;
    int64_t  *dims;                     // of the kernel, by number, -1: only the runner knows
    Schedule  schedule;                 // of `with (...)`
    bool      reference;                // a `fn` wrapped as a kernel: always run on eval
    int       like;                     // 1 + number of an earlier step that made the same of the same; 0: none
    // graph: the same, `kernel` being its head
    struct TGraph *graph;
    // expect: left op right
    AstOp     op;                       // OP_approx, OP_eq
    TValue    left, right;
    double    rel, abs;                 // bounds for approx
} TStep;
typedef struct TTest { Str name; Span span; const char *case_text; TStep *steps; int nsteps; int ntensors; } TTest;

int    sema_test_count(const SemaFile *f);              // cases of all test items of the file
// The case of that number, once more each time. NULL: reported.
TTest *sema_test(SemaFile *f, int number);
// All of them; a test whose checking failed is left out (errors are in the session).
int sema_tests(SemaFile *f, TTest ***tests);

#endif

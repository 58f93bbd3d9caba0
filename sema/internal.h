// What the files of sema share. The public face is typed.h.
//
// sema is a partial evaluator over the syntax tree. Evaluating an expression gives an *entity*: either
// something known at compile time (a number, an element type, a function, an axis, a tensor, a tuple)
// or a run-time value, which is a typed expression. Evaluating a statement appends typed statements to
// the body being built. A call of a `fn` evaluates its body in place with the parameters bound to the
// arguments' entities: inlining, generics and function values all fall out of that.
//
//     let e = exp(x[m, n] - max(x[m, n] over n))      x: tensor, m: value (index), n: axis, e: value f32[n]
//
// One instance of a kernel is one run. When the run meets a dimension that has to be a number and is
// not (`:` was used on it), it says so in Check.fix, finishes quietly, and the instance is run again.
#ifndef TK_SEMA_INTERNAL_H
#define TK_SEMA_INTERNAL_H

#include "lang/limits.h"
#include "sema/graph.h"

typedef struct Check Check;
typedef struct Scope Scope;
typedef struct Ent Ent;
typedef struct Builtin Builtin;
typedef struct Recipe Recipe;

// ---- entities ------------------------------------------------------------------------------------

typedef enum EntKind {
    EN_error,       // already reported; agrees with everything
    EN_void,        // a call for its effect
    EN_unknown,     // a dimension not known yet, in the default of a `<>` name
    EN_int, EN_float, EN_bool, EN_str,   // compile-time numbers: exact, of no element type until they meet one
    EN_type,        // an element type
    EN_kind,        // float, int, bool, type, fn, axis: what a generic may be
    EN_fn,          // fn items of one name (overloads)
    EN_lambda,      // function value with its environment
    EN_builtin,
    EN_kernel,      // only tests and graphs may call one
    EN_graph,       // the same
    EN_tensor,      // tensor parameter or view
    EN_axis,
    EN_value,       // run-time
    EN_tuple,
} EntKind;

typedef struct FnItem {             // a fn item; overloads are chained in order of declaration
    const Node    *node;
    Scope         *env;             // its file's scope
    struct FnItem *next;
} FnItem;

typedef struct Lambda {
    const Node *node;
    Scope *env;
    int    rt_depth;
    bool   alone;                   // it was looked through, and uses nothing of run time that stands around it
} Lambda;

typedef struct Tuple { Ent *at; int n; Sym *names; } Tuple;      // names: fields of a merge's record, else NULL

struct Ent {
    uint8_t kind;                   // EntKind
    uint8_t origin;                 // Origin of a `<>` name's value
    int16_t dim;                    // 1 + index of the kernel dimension that this number or value is; 0: none
    // of a number in a graph: the row of the recipe that gives it for other sizes (recipe.c); 0: it is the same for all
    int32_t row;
    Span    span;                   // where it was written
    union {
        int64_t i; double f; Str str; Elem elem; Sym kindname;
        FnItem *fn; Lambda *lambda; const Builtin *builtin; const Node *node;
        struct TensorRef *tensor; TAxis *axis; TExpr *x; Tuple *tuple;
    };
};

typedef struct TensorRef {          // a tensor, as names see it
    TTensor *t;                     // parameter, or
    Lambda  *view;                  // function with a domain
    Sym      name;
    Elem     elem;                  // of a view: found when first asked for
    bool     elem_known;
    int      rank;
    Ent      dim[MAX_RANK];         // EN_int or EN_value of type index
    Ent      lo[MAX_RANK];          // of a view's domain; EN_int 0 for tensors
} TensorRef;

// ---- scope.c -------------------------------------------------------------------------------------

typedef struct Bind { Sym name; Ent ent; Span span; bool used; struct Bind *next; } Bind;
struct Scope {
    Scope *up, *inner, *beside;                              // inner, and what is beside that: blocks in this one
    Bind  *first;
    Bind **slot;                                             // of many: by their names' addresses, the newest of each; NULL: few
    uint32_t n, size;
};

Scope *scope_new(Check *c, Scope *up);
Scope *scope_push(Check *c);                                 // makes it current
void   scope_pop(Check *c, Scope *was);
Bind  *scope_find_here(const Scope *sc, Sym name);
Bind  *scope_find(const Scope *sc, Sym name);
Bind  *scope_bind(Check *c, Scope *sc, Sym name, Ent e, Span span);
Ent    name_lookup(Check *c, const Node *name);              // reports what is not there

// ---- suggest.c -----------------------------------------------------------------------------------

void   suggest_name(Check *c, Diag *d, Sym name, Span at);
void   suggest_type(Check *c, Diag *d, Sym name, Span at);
void   suggest_param(Check *c, Diag *d, const Node *item, const Node *arg);     // arg: `scle = 2`
void   suggest_schedule_word(Diag *d, Sym word);

// ---- file.c --------------------------------------------------------------------------------------

// run: of the graph whose function values it was made with, which are gone when that has been evaluated; 0: it has none
// of its own.
typedef struct Instance {
    const Node *item;
    const SemaValue *set;
    SemaValue *known;
    int nset, nknown, run;
    TKernel *kernel;
} Instance;

struct SemaFile {
    Session *s;
    Node    *root;
    Scope   *scope;                 // items of the file and what it imports, over the prelude
    VEC(const Node *) kernels, tests, fns, graphs;
    VEC(FnItem) tunes;              // tune items of all files, the main one's first
    VEC(FnItem) imported;           // kernels and functions of imported files that are not the library's, with what each sees
    VEC(FnItem) launched;           // kernels and graphs of all files, with what each sees
    VEC(Instance) instances;        // made for tests and graphs
    Arena   *arena;                 // of the next Check, if not the session's
    int      run;                   // graphs evaluated so far
    Scope   *graph_library;         // std/graph.tk, of a file with graphs
    WeightLookup weight_lookup; void *weight_ctx;
    KernelChooser chooser; void *chooser_ctx;
    KernelChooser alone; void *alone_ctx;            // the same for launches of test items, which are of no graph
};

Scope *item_scope(const SemaFile *f, const Node *item);       // what a kernel or a graph sees around it

// ---- the run -------------------------------------------------------------------------------------

typedef struct Frame {              // an inlined call
    struct Frame *up;
    const Node   *fn;               // fn or lambda
    Span          call;
    Sym           name;
    const char   *values;           // "<BK = 64>" or ""
    int           first_axis, first_var;    // axes and variables with at least this id were made inside
    int           rt_depth;         // run-time control nesting at the start of the body
    bool          returned, host;
    Ent           result;
} Frame;

typedef struct Loop {
    struct Loop *up;
    Sym    label;                   // NULL: none
    TStmt *outer, *inner;           // break leaves outer, continue goes on with inner (clauses make nested loops)
    int    first_var;               // variables with a smaller id were declared outside
    VEC(TVar *) carried;
    Frame *frame;
} Loop;

struct Check {
    Session  *s;
    Arena    *a;
    SemaFile *file;
    TKernel  *k;
    const Node *item;               // what is being checked: a kernel, a graph, a test; NULL: nothing is said of it
    Scope    *scope;
    TBody    *body;                 // statements are appended here
    Frame    *frame;
    Loop     *loop;
    int       rt_depth;             // nesting of run-time `for`, `while`, `if`
    int       nodes, depth;
    bool      failed;               // something came out as an error: there must be a report
    bool      lost;                 // a statement was given up by the parser: what it declared is not missed
    bool      at_index;             // a name that stands alone as an index is being looked up
    bool      too_big;              // reported; everything is EN_error from here on
    bool      host;                 // a test's reference: all dimensions are known
    // .. by parameter: the tensor of the test that it is; functions that it was given read others, too
    struct TValue *adopted;
    VEC(TAxis *) canon;             // :D axes, by dimension and by number
    VEC(Ent) canon_key;
    VEC(int) axis_dim;              // by axis id: 1 + the dimension that it runs over, or 0
    VEC(TExpr *) init;              // by variable id: its first value, for blaming
    VEC(TExpr *) limit;             // by variable id: what a loop's or grid's counter stays below
    VEC(TGuard) guards;
    VEC(bool) fix;                  // by dimension: must be a number
    VEC(bool) dim_seen;             // by dimension: used other than by its name
    VEC(int)  dim_uses;             // by dimension: how often it stands in the parameters' types
    Span     *dim_span;
    bool      again;                // a dimension was added to fix: run once more
    const SemaValue *set, *known;
    int       nset, nknown;
    // of a graph that is run with numbers: how they follow from its dimensions; NULL: nobody asks
    Recipe   *recipe;
    int       pinning;              // names that are read now give numbers that nothing may depend on but these sizes
};

static inline bool in_item(const Check *c, NodeKind kind) { return c->item && c->item->kind == kind; }

// ---- report.c ------------------------------------------------------------------------------------

void too_big(Check *c, Span at, LimitId limit, const char *of_what);      // E0209, and nothing more is checked
#define report(c, ...) with_chain((c), diag((c)->s, __VA_ARGS__))
Diag *with_chain(Check *c, Diag *d);                         // adds the instance chain
void  note_values(Check *c, Diag *d);                        // compile-time names, their values and origins
const char *ttype_text(Check *c, TType t);                    // "f32[m, n]"
const char *ent_text(Check *c, Ent e);                       // "the number 3", "f32[m]", "axis `m`"
const char *axis_text(Check *c, const TAxis *ax);            // "0 .. N by 1024"
const char *expr_text(Check *c, const TExpr *x);             // short, for guards
const char *place_text(Check *c, Span at);                   // "softmax.tk:5"
void  help_axes(Check *c, Diag *d, const char *function, TType t);
void  blame_axis(Check *c, Diag *d, const TExpr *x, const TAxis *ax);

// ---- consteval.c ---------------------------------------------------------------------------------

static inline bool is_const(Ent e) { return e.kind == EN_int || e.kind == EN_float || e.kind == EN_bool; }
static inline Ent  ent_error(Check *c) { c->failed = true; return (Ent){.kind = EN_error}; }    // after a report

static inline Ent  ent_unknown(void) { return (Ent){.kind = EN_unknown}; }
static inline Ent  ent_void(void)  { return (Ent){.kind = EN_void}; }
static inline Ent  ent_int(int64_t i, Span at) { return (Ent){.kind = EN_int, .i = i, .span = at}; }
static inline Ent  ent_bool(bool b, Span at)   { return (Ent){.kind = EN_bool, .i = b, .span = at}; }
static inline Ent  ent_float(double f, Span at) { return (Ent){.kind = EN_float, .f = f, .span = at}; }
static inline Ent ent_value(TExpr *x) {
    return (Ent){.kind = x ? EN_value : EN_error, .x = x, .span = x ? x->span : (Span){0}};
}
Ent  fold_unary(Check *c, AstOp op, Ent a, Span at);
Ent  fold_binary(Check *c, AstOp op, Ent a, Ent b, Span at);
Ent  fold_fun(Check *c, TFun f, const Ent *args, int n, Span at);
bool want_int(Check *c, const Node *n, const char *what, int64_t *out);    // evaluates; must be a compile-time integer
bool int_fits(int64_t v, Elem e);
bool float_fits(double v, Elem e);                            // exactly
bool next_pow2(int64_t v, int64_t *out);

// ---- tree.c: constructors of typed nodes ---------------------------------------------------------

TType  ttype_scalar(Elem e);
bool   type_has(TType t, const TAxis *ax);
bool   type_add(Check *c, TType *t, TAxis *ax, Span at);      // keeps the order by id; reports too many
bool   ttype_union(Check *c, TType *t, TType of, Span at);
TType  type_without(TType t, const TAxis *ax);
bool   type_same(TType a, TType b);
bool   type_same_axes(TType a, TType b);
TExpr *tx_new(Check *c, TExprKind kind, TType t, Span at, int nkid, ...);    // kids as TExpr *
TExpr *tx_const_int(Check *c, int64_t v, Elem e, Span at);
TExpr *tx_const_float(Check *c, double v, Elem e, Span at);
double int_for_float(int64_t v, Elem from, Elem e);          // for tx_const_float: v, of type from
TExpr *tx_var(Check *c, TVar *v, Span at);
TExpr *tx_dim(Check *c, int dim, Span at);
TExpr *tx_axis(Check *c, TAxis *ax, Span at);
TExpr *tx_cast(Check *c, TExpr *x, Elem e, Span at);          // x itself when there is nothing to do
TExpr *tx_splat(Check *c, TExpr *x, TType t, Span at);
TExpr *tx_fun(Check *c, TFun f, TType t, Span at, TExpr *a, TExpr *b, TExpr *d);
TStmt *ts_new(Check *c, TStmtKind kind, Span at);             // not yet in a body
TStmt *ts_emit(Check *c, TStmtKind kind, Span at);
TVar  *var_new(Check *c, Sym name, TType t, bool mutable, Span at);
void   axis_runs_over(Check *c, const TAxis *ax, int dim);
TAxis *axis_new(Check *c, Sym name, int64_t extent, TExpr *lo, TExpr *hi, Span at);
TVar  *let_var(Check *c, Sym name, TExpr *x, bool mutable, Span at);      // emits its definition
TExpr *keep(Check *c, TExpr *x, Sym name, Span at);           // x, or a variable holding it when x is not free to repeat
TExpr *keep_simple(Check *c, TExpr *x, Sym name, Span at);    // a const, variable, dimension or arithmetic of them
bool   tx_same(const TExpr *a, const TExpr *b);               // structurally equal
bool   tx_host_deep(Check *c, const TExpr *x, Span at);       // the host could, but for its depth: reported
TExpr *tx_for_host(Check *c, TExpr *x);                       // of the head: without names for its parts, if it is not too long so
bool   tx_is_host(const TExpr *x);                            // made of constants, dimensions and integer scalar parameters
bool   tx_has_effect(const TExpr *x);

// ---- infer_expr.c --------------------------------------------------------------------------------

Ent    eval(Check *c, const Node *n);
Ent    eval_tuple(Check *c, const Node *n);                     // of its kids
TExpr *eval_value(Check *c, const Node *n);                   // as a run-time value; NULL: error, reported
TExpr *value_of(Check *c, Ent e, Span at);                    // numbers take their own type: i32, f32, bool
TExpr *value_exact(Check *c, Ent e, TType want, Span at, const char *what);    // elem must be want's; broadcast to its axes
TExpr *else_exact(Check *c, Ent e, TType want, Span at);      // the same, of `x[i] else e`
bool    help_converted(Check *c, Diag *d, const TExpr *x, Elem want, Span at);   // advice about a value of another type
TExpr *index_of(Check *c, Ent e, Span at, const char *what);  // an integer scalar or tile
TExpr *scalar_index(Check *c, Ent e, Span at, const char *what);   // an integer scalar, cast to index
Ent    binary(Check *c, AstOp op, Ent a, Ent b, Span at, Span pa, Span pb);
Ent    select_of(Check *c, Ent cond, Ent a, Ent b, Span at);
bool   unify(Check *c, Ent *a, Ent *b, bool keeps_storage, AstOp op, Span at, TType *t);   // to values of one element type
bool   cond_of(Check *c, Ent e, Span at, const char *what, const Node *then, TExpr **out);           // a bool scalar

// ---- types.c: type expressions -------------------------------------------------------------------

bool   eval_elem(Check *c, const Node *type, Elem *out);      // f32 or T
bool   eval_type(Check *c, const Node *type, TType *out);     // element, tile or pointer type of values

// ---- axes.c --------------------------------------------------------------------------------------

typedef struct Range { Ent lo, hi; bool by; int64_t step; Span span; const Node *node; } Range;
bool   range_eval(Check *c, const Node *n, Range *r);          // a range, or N for 0 .. N
bool   range_open(Check *c, const Node *n, Range *r);          // of a graph: bounds may be EN_unknown
Ent    range_axis(Check *c, Sym name, const Node *n);          // `let n = N by B`
TAxis *canonical_axis(Check *c, Ent dim, Sym name, Span at);   // :D; may ask for another run
bool   dim_fixed(Check *c, Ent dim, int64_t *v, Span at);      // the number, or a stand-in and another run
Ent    as_axis(Check *c, Ent e, Span at);                       // EN_axis or EN_error
Ent    want_axis(Check *c, const Node *n);
TExpr *axis_end(Check *c, const TAxis *ax, Span at);           // min(lo + extent, hi)
TExpr *axis_length(Check *c, const TAxis *ax, Span at);        // how many lanes are live: 0 of a range that ends before it begins
TExpr *index_op(Check *c, AstOp op, TExpr *a, TExpr *b, Span at);     // index arithmetic, folding what is obvious
void   guard_add(Check *c, TExpr *cond, const char *text, Span at);
Span   name_at(const Node *n);

// ---- infer_index.c -------------------------------------------------------------------------------

Ent  sema_index(Check *c, const Node *n);                      // x[i, :] else v, as a value
void store_index(Check *c, const Node *target, AstOp op, Ent value, Span vspan, Span at);
int  lvalue_index(Check *c, const Node *n, TTensor **t, TExpr **idx, TType *type);    // for atomics; rank, or -1: reported
Elem tensor_elem(Check *c, TensorRef *t, Span at);             // EL_none: reported
Ent  view_make(Check *c, const Node *lambda);
// x[n, None], x[n, np.newaxis]: said with the number of indices
bool is_new_axis(const Node *index);

// ---- call.c --------------------------------------------------------------------------------------

typedef struct Arg { Ent e; const Node *node; Sym name; Span span; } Arg;    // name: of a named argument
Ent  eval_call(Check *c, const Node *n);
Ent  call_lambda(Check *c, Lambda *l, const Arg *args, int n, Span at, Sym name);
// E0211, with what is missing; given[i]: how often
void count_args(Check *c, const Node *item, Span at, int want, const int *given, int n);
Ent  call_entity(Check *c, Ent callee, const Arg *args, int n, Span at);
Ent  declared_as(Check *c, const Node *type, Ent e, Span at, const char *what);
Ent  call_reference(Check *c, FnItem *f, const Node *generics, const Arg *args, int n, Span at, const Node **fn, Scope **sc);

// ---- builtin.c -----------------------------------------------------------------------------------

const Builtin *builtin_find(Sym name);
bool           builtin_over(const Builtin *b);               // may have `over`
const char    *builtin_name(const Builtin *b);
int            builtin_count(void);
const char    *builtin_name_at(int i);
bool           builtin_is_lazy(const Builtin *b);               // takes its arguments as written
// n: the call, or NULL
Ent            builtin_call(Check *c, const Builtin *b, const Node *n, const Arg *args, int nargs, Span at);
bool           builtin_const(Check *c, Sym name, Span at, Ent *out);     // inf, nan, PI, element types, kinds

// ---- dims.c ----------------------------------------------------------------------------------------

typedef enum DimsAre { DIMS_same, DIMS_differ, DIMS_open } DimsAre;      // open: it depends, or nobody knows
// by dimension and by parameter of the callee; NULL: stay
typedef struct Replaced { const Ent *dim, *scalar; } Replaced;
DimsAre dims_compare(Check *c, Ent a, Ent b);
Ent  dims_replace(Check *c, const TExpr *x, const Replaced *by);        // a number, an expression, or EN_unknown
// x is value: gives a dimension of x that is EN_unknown
void dims_solve(Check *c, const TExpr *x, Ent value, Ent *dim, const Ent *scalar);
void dims_solve_guards(Check *c, const TKernel *k, Ent *dim, const Ent *scalar);
Ent  dims_settle(Check *c, Ent e);
const char *dims_text(Check *c, Ent e);
const char *tensor_text(Check *c, const TensorRef *t);                  // "f32[B, 784]"

// ---- recipe.c: how a graph's numbers follow from its dimensions ---------------------------------------

Recipe *recipe_new(Arena *a);
void recipe_dim(Check *c, int dim, Ent *e);                             // e is the number of the head's dimension
Ent  recipe_result(Check *c, AstOp op, Ent a, Ent b, Ent r);            // r, folded from a and b: with its row
Ent  recipe_cast(Check *c, Ent e, Elem to, Ent r);                      // r, e converted: the same
// what follows is for sizes where it is the same number, or truth
Ent  recipe_pin(Check *c, Ent e);
void recipe_lost(Check *c);                                             // what follows cannot be said for other sizes
// k is it for these
void recipe_instance(Check *c, const TKernel *k, const SemaValue *known, const int32_t *row, int n);
void recipe_choice(Check *c, const TGChoice *choice);
bool recipe_close(Recipe *r, TGRecipe *out);                            // false: lost
TGRecipe *recipe_kept(const TGRecipe *r, Arena *a);
int64_t recipe_kind(int64_t v, int kinds);                              // of a dimension, as TKernel.kinds has it: 0: it is 1; else the power of two

// ---- launchcall.c: a kernel or a graph called with tensors and numbers -----------------------------

SemaValue *launch_values_kept(Arena *a, const SemaValue *v, int n);       // a copy, function values too
typedef struct Learned { Sym name; Ent e; Span why; } Learned;          // a dimension or an element type
enum { MAX_LEARNED = MAX_GRAPH_DIMS + 16 };
typedef struct LaunchCall {
    const Node *item, *call;
    SemaValue  *set;      int nset;
    VEC(Learned) learned;
    int         nparams;
    Ent        *arg;                    // by parameter of the item
    Span       *at;
    const TensorRef **want;             // by result, in order: what the caller declares of it, or NULL
    int         nwant;                  // names that the caller has for results
    Schedule  *schedule;                // to be completed, with what the kernel leaves open; NULL: nothing is chosen
    bool       alone;                   // a launch of a test item, not of a graph
} LaunchCall;
typedef Ent (*EvalArg)(void *ctx, const Node *n);

LaunchCall *launch_call(Check *c, const Node *item, const Node *call, const TensorRef *const *want, int nwant);

bool launch_schedule(Check *c, const Node *with, Schedule *s);
bool launch_generics(Check *c, LaunchCall *l);
bool launch_args(Check *c, LaunchCall *l, EvalArg eval_arg, void *ctx);
bool launch_learn(Check *c, LaunchCall *l);                             // from the tensors among the arguments
Ent  launch_tuple(Check *c, const Ent *at, int n, Span span);                     // results: nothing, the one, or a tuple
const Learned *launch_learned(const LaunchCall *l, Sym name, bool is_type);
// The same kernel with the same values is one instance, wherever it is called.
TKernel *launch_cached(InstanceOf of);
TKernel *launch_instance(Check *c, LaunchCall *l, Ent *dim);             // NULL: reported; dim: by dimension of the instance
Ent      launch_dim(Check *c, const LaunchCall *l, const TExpr *x, const Ent *dim);
bool     launch_scalar(Check *c, Elem e, Ent v, Span at, bool open, TValue *out);   // open: it may be no number yet

// ---- maker.c: random<f32>(M, N), zeros, values, ... in tests and graphs -----------------------------

typedef struct Maker Maker;
typedef struct Made { TMake make; Elem elem; int rank; Ent dim[MAX_RANK]; Number lo, hi, *values; } Made;
extern const Maker maker_empty;          // of graphs alone: a type and dimensions
const Maker *maker_find(Sym name);                                      // NULL: no such maker
bool maker_read(Check *c, const Maker *m, const Node *call, Made *out);
bool number_known(Ent e, Number *v);                                      // a number that is known
bool number_read(Check *c, const Node *n, Number *v);                   // a compile-time number

// ---- infer_stmt.c --------------------------------------------------------------------------------

void check_block(Check *c, const Node *block);                 // with a scope of its own
void check_stmts(Check *c, const Node *block);                 // in the current scope
void counter_bounds(Check *c, const TVar *v, TExpr *lo, TExpr *hi);
void bind_name(Check *c, const Node *name, Ent e);
const Node *declared_type(const Node *name);             // of `let` or `var`; NULL: none

// ---- tune.c ----------------------------------------------------------------------------------------


// ---- names.c ---------------------------------------------------------------------------------------

bool says_name(const Node *n, Sym name);                      // does this name stand anywhere in n?

// ---- places.c ------------------------------------------------------------------------------------

void check_places(Check *c);                                 // warns about stores of all programs to one place

// ---- kernel.c ------------------------------------------------------------------------------------

Check   *head_open(InstanceOf of, bool *solved, const Check *last, bool numbers);
void     head_close(Check *c, const Node *item, bool *solved, bool warn);

Check   *check_new(SemaFile *f);
bool     generic_bind(Check *c, Scope *sc, const Node *g, Ent e, Origin origin, Span at);      // kernel_names.c

#endif

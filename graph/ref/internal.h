// What the files of the interpreter share: values with strides, rows of numbers, programs of index expressions.
//
// A value is a buffer and a stride for each axis, so that a view whose coordinates are linear costs nothing; every
// operation takes its operands with strides and leaves a packed result. Elements are computed in rows: a stretch of
// operand elements is widened to f64 (or to 64 bits), the operation runs over it, and the result is rounded.
#ifndef TK_GRAPH_REF_INTERNAL_H
#define TK_GRAPH_REF_INTERNAL_H

#include "graph/ref/ref.h"

typedef struct RBuf {
    int    refs;
    bool   own;                  // data is ours to free
    void  *data;
    size_t bytes;
} RBuf;

typedef struct RVal {            // buf NULL: not there
    Elem    elem;
    int     rank;
    int64_t shape[G_MAX_RANK];
    int64_t stride[G_MAX_RANK];  // in bytes
    char   *at;                  // element 0, 0, ..
    RBuf   *buf;
} RVal;

typedef struct RPlan {           // what is computed for some results, in order
    Node  **node;
    int     n;
    Node  **capture;             // values from outside
    int     ncaptures;
} RPlan;

typedef struct Run {
    const Graph *g;
    Arena  *arena;               // plans and programs
    RVal   *val;                 // by node id
    RVal  **results;             // by node id: of nodes with several
    int    *uses;                // by node id: how often it is still needed
    RPlan ***plan;               // by node id of loop and if: one for each body
    const Node **maker;          // by dimension: of data-dependent ones
    bool         makers;         // are there any?
    int64_t *dims;
    bool   *bound;
    bool   *required;            // by number of requirement: it was checked
    const GTensor *in;
    const GTensor **given;       // by node id: values that are there already, or NULL
    const RefWatch *watch;
    const char *from;            // of the node being computed
    char   *error;
    size_t  error_size;
    bool    failed;
} Run;

// ref.c
bool run_fail(Run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));   // false
bool run_sizes(Run *r, int rank, const Ix *shape, int64_t *to);
bool run_bind(Run *r, const GType *want, const int64_t *have);                       // dimensions that become known
bool run_plan(Run *r, const RPlan *plan);
void run_drop(Run *r, const Node *n);                                                // all of its results
bool rval_new(Run *r, RVal *v, Elem elem, int rank, const int64_t *shape);           // packed, zeroed
RVal rval_share(const RVal *v);
void rval_drop(RVal *v);
bool rval_packed(Run *r, const RVal *v, RVal *to);                                   // v itself if it is packed
int64_t rval_count(const RVal *v);
void rval_copy(const RVal *from, const RVal *to);                                     // of one shape (ref/move.c)

// one function for each kind, or each few
bool ref_ew(Run *r, const Node *n, RVal *out);
bool ref_cast(Run *r, const Node *n, RVal *out);
bool ref_index(Run *r, const Node *n, RVal *out);
bool ref_view(Run *r, const Node *n, RVal *out);
bool ref_gather(Run *r, const Node *n, RVal *out);
bool ref_scatter(Run *r, const Node *n, RVal *out);
bool ref_concat(Run *r, const Node *n, RVal *out);
bool ref_reduce(Run *r, const Node *n, RVal *out);
bool ref_scan(Run *r, const Node *n, RVal *out);
bool ref_sort(Run *r, const Node *n, RVal *out);
bool ref_contract(Run *r, const Node *n, RVal *out);
bool ref_several(Run *r, const Node *n, RVal *out);                                  // host, loop, if
bool ref_proj(Run *r, const Node *n, RVal *out);

// ---- rows of numbers (ref/rows.c) -----------------------------------------------------------------------------------

enum { ROW = 256 };              // elements widened at a time

void row_load_f64(Elem elem, int64_t n, const char *at, int64_t stride, double *to);
// rounds once (small floats: by way of f32)
void row_store_f64(Elem elem, int64_t n, const double *from, char *at, int64_t stride);
void row_load_i64(Elem elem, int64_t n, const char *at, int64_t stride, int64_t *to);
void row_store_i64(Elem elem, int64_t n, const int64_t *from, char *at, int64_t stride);    // wraps; bool: not 0
void row_copy(int bytes, int64_t n, const char *from, int64_t from_stride, char *to, int64_t to_stride);

enum { MAX_OPERANDS = 4 };
typedef struct Rows {            // all rows of some operands that have one shape
    int     operands;
    int     rank;                // after axes that are one were put together
    int64_t shape[G_MAX_RANK];
    int64_t stride[MAX_OPERANDS][G_MAX_RANK];
    char   *at[MAX_OPERANDS];
} Rows;
typedef void RowFn(void *ctx, int64_t n, char *const *at, const int64_t *stride);
void rows_add(Rows *rows, const RVal *v);
void rows_run(Rows *rows, RowFn *fn, void *ctx);

// ---- index expressions over rows (ref/ix.c) -------------------------------------------------------------------------

typedef struct IxRows IxRows;    // some expressions, evaluated for all places of one axis at a time
// The axis is the longest. NULL and a message: a dimension is not known.
IxRows *ixrows_new(Run *r, const Ix *root, int nroots, int rank, const int64_t *shape);
int      ixrows_axis(const IxRows *p);
// to the next row; false: there is none. Call once before the first
bool     ixrows_next(IxRows *p);
const int64_t *ixrows_at(const IxRows *p);                   // coordinates of the row; along the axis: 0
const int64_t *ixrows_values(const IxRows *p, int root);     // one for each place of the axis
bool     ix_value(Run *r, Ix e, int64_t *to);                // without axes
bool     ix_affine_in(Run *r, Ix e, int rank, int64_t *coef, int64_t *offset);   // false: it is not linear in the axes

#endif

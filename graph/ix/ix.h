// Index expressions: what a coordinate, a dimension or a predicate is made of.
//
// An `Ix` is an integer expression over the *dimensions* of the model (batch, seq: named, with a range and a divisor)
// and the *axes* of the value that it belongs to. Expressions are hash-consed in the graph and kept in a normal form, so
// that two that were simplified to the same thing are the same pointer: compare with ==.
//
//     (a0 * 64 + a1) / 64         ->  a0            when a1 < 64
//     (a0 * S + a1) % S           ->  a1            when a1's extent is S, whatever S is
//     (B * S) / S                 ->  B
//     a0 < B                      ->  1             when a0's extent is B
//
// The normal form is a sum of terms `coefficient * product of atoms` plus a constant; atoms are dimensions, axes and what
// is not linear (a division, a minimum, a comparison). Truth values are 0 and 1. Division and remainder are floored.
//
// An axis is (number, extent): `ix_axis(g, 1, S)` is the second coordinate of a value whose second dimension is S, and
// runs over 0 .. S-1. Every expression knows an interval and a divisor that hold for all values of its dimensions and axes.
#ifndef TK_GRAPH_IX_H
#define TK_GRAPH_IX_H

#include "lang/lang.h"

typedef struct Graph Graph;
typedef const struct IxData *Ix;

typedef enum IxKind {
    IX_CONST,                    // value
    IX_DIM,                      // a dimension, by number
    IX_AXIS,                     // value = its number; arg[0] = its extent
    IX_SUM,                      // value + sum of coef[i] * arg[i]; no arg is a sum or a constant
    IX_PROD,                     // product of two or more atoms
    IX_DIV, IX_MOD,              // floored, arg[0] by arg[1]
    IX_MIN, IX_MAX,
    IX_LT, IX_EQ,                // 0 or 1
    IX_AND, IX_OR,               // of truth values
} IxKind;

struct IxData {
    uint8_t  kind;
    bool     has_axis;           // depends on an axis
    bool     has_dim;            // depends on a dimension (extents of axes do not count)
    uint32_t n;                  // arguments
    uint32_t id;                 // in order of creation; orders terms
    uint32_t hash;
    int64_t  value;              // IX_CONST, IX_SUM: the constant; IX_AXIS, IX_DIM: the number
    int64_t  lo, hi;             // holds for every value of dimensions and axes; INT64_MIN, INT64_MAX: unknown
    int64_t  multiple;           // every value is a multiple of this; 0: the expression is 0
    uint64_t axes;               // bit i: depends on axis i
    const Ix *arg;
    const int64_t *coef;         // IX_SUM: never 0
};

typedef struct IxDim {           // a dimension whose size is not known yet
    const char *name;
    int64_t lo, hi;              // inclusive
    int64_t multiple;            // at least 1
    bool    data_dependent;      // known only when the value that has it has been computed (NonZero)
    const void *value;           // the input that says it (a Node: donate.c), or NULL
    const char *word;            // its name in a program, once it has one (write/names.c)
} IxDim;

enum { IX_DIM_MAX = 1 << 30 };   // the range of a dimension about which nothing was said is 0 .. this

// ---- making ---------------------------------------------------------------------------------------------------------
// A NULL argument gives NULL.

Ix ix(Graph *g, int64_t value);
// the one of that name, made if need be: 1 .. IX_DIM_MAX
Ix ix_dim(Graph *g, const char *name);
// likewise; the range is kept if it is there already
Ix ix_dim_range(Graph *g, const char *name, int64_t lo, int64_t hi, int64_t multiple);
// data-dependent; a name that is not taken: like, like_2, ..
Ix ix_dim_fresh(Graph *g, const char *like, int64_t lo, int64_t hi);
Ix ix_axis(Graph *g, int number, Ix extent);

Ix ix_add(Graph *g, Ix a, Ix b);
Ix ix_sub(Graph *g, Ix a, Ix b);
Ix ix_mul(Graph *g, Ix a, Ix b);
Ix ix_addi(Graph *g, Ix a, int64_t b);
Ix ix_muli(Graph *g, Ix a, int64_t b);
Ix ix_div(Graph *g, Ix a, Ix b);                       // floored; by zero gives 0
Ix ix_divi(Graph *g, Ix a, int64_t b);
Ix ix_ceildiv(Graph *g, Ix a, Ix b);
Ix ix_mod(Graph *g, Ix a, Ix b);                       // floored: the sign of b; by zero gives 0
Ix ix_modi(Graph *g, Ix a, int64_t b);
Ix ix_min(Graph *g, Ix a, Ix b);
Ix ix_max(Graph *g, Ix a, Ix b);
Ix ix_lt(Graph *g, Ix a, Ix b);
Ix ix_le(Graph *g, Ix a, Ix b);
Ix ix_eq(Graph *g, Ix a, Ix b);
Ix ix_ne(Graph *g, Ix a, Ix b);
Ix ix_and(Graph *g, Ix a, Ix b);                       // truth values
Ix ix_or(Graph *g, Ix a, Ix b);
Ix ix_not(Graph *g, Ix a);
Ix ix_select(Graph *g, Ix cond, Ix a, Ix b);           // cond a truth value
Ix ix_in_range(Graph *g, Ix a, Ix extent);             // 0 <= a && a < extent
bool ix_among(Ix a, Ix b);                             // are all that a joins by `and` among those of b?
Ix ix_product(Graph *g, const Ix *at, int n);          // 1 for none: the number of elements of a shape

// Axis i replaced by with[i]; axes at or past n must not occur.
Ix ix_substitute(Graph *g, Ix e, const Ix *with, int n);
// Dimension `dim` (an IX_DIM) replaced.
Ix ix_substitute_dim(Graph *g, Ix e, Ix dim, Ix with);

// An expression of another graph, whose dimensions this one has under the same numbers. done: by its number there, what was copied so far.
Ix ix_copy(Graph *g, Ix e, Ix *done);
uint32_t ix_count(const Graph *g);                     // how many expressions there are

// ---- asking ---------------------------------------------------------------------------------------------------------

static inline bool ix_is_const(Ix e) { return e && e->kind == IX_CONST; }
static inline bool ix_is(Ix e, int64_t v) { return e && e->kind == IX_CONST && e->value == v; }
bool ix_const(Ix e, int64_t *value);                   // is it a constant, and which

bool ix_prove_ge0(Graph *g, Ix e);                     // never negative, as far as can be shown
bool ix_prove_lt(Graph *g, Ix a, Ix b);
bool ix_prove_le(Graph *g, Ix a, Ix b);
Ix   ix_divide_exact(Graph *g, Ix a, Ix b);            // a / b if b divides a as polynomials, else NULL
Ix   ix_coefficient(Graph *g, Ix e, int axis, Ix *rest);   // e = c * axis + rest with neither depending on it; else NULL
bool ix_is_affine(Ix e);                               // a sum of constants times axes and dimensions: no division and so on

bool ix_dims_in(Ix e, const bool *known);              // does it depend on known dimensions alone? (by IX_DIM's number)
// The value for given dimensions (dims[IX_DIM's number]) and axes.
int64_t ix_eval(Ix e, const int64_t *dims, const int64_t *axes);

const IxDim *ix_dim_info(const Graph *g, Ix dim);
int          ix_dim_count(const Graph *g);
Ix           ix_dim_at(const Graph *g, int number);

// `(B * 64 + a0) / S`; axes print as axis[i] if names are given, else a0, a1, ..
void ix_print(Buf *to, const Graph *g, Ix e, const char *const *axis);
// A sum, what is added before what is taken away; `term` writes one of its arguments as a factor.
typedef void IxTerm(void *ctx, Buf *to, Ix e, bool negative);
void ix_print_sum(Buf *to, Ix e, IxTerm *term, void *ctx);

#endif

// What the files of the writer share. A kernel is built as expressions first (write/kernel.c and expr.c), each with the axes that
// it varies along, so that it is known what is used twice and what belongs into a loop; then printed (write/print.c and text.c).
#ifndef TK_GRAPH_WRITE_INTERNAL_H
#define TK_GRAPH_WRITE_INTERNAL_H

#include "graph/fuse/fuse.h"
#include "graph/internal.h"

typedef enum KOp {
    E_NUMBER,                    // a literal
    E_INDEX,                     // an index expression as a value
    E_LOAD,                      // node at coord, or fill out of range
    E_TEXT,                      // fmt with $0 $1 $2
    E_REDUCE,                    // fmt(arg over axes), a loop around it if they are too long
    E_DOT,                       // dot(arg0, arg1 over axes): the scores of an attention
    E_SUM,                       // the accumulator of the product
    E_ALONG,                     // what a scan or sort gives; number: which
} KOp;

enum { P_TERNARY, P_OR2, P_AND2, P_EQUAL, P_PLUS, P_TIMES, P_UNARY, P_PRIMARY };

typedef struct KExpr {
    KOp      op;
    Elem     elem;               // as the language has it; EL_none: a literal that adapts
    uint64_t mask;               // axes of the kernel
    int      prec;               // of the text
    const char *fmt;
    struct KExpr *arg[3];
    const Node *node;            // E_LOAD: what is loaded; else what it is the value of
    const Ix *coord;
    Ix       expr;
    GNum     number;             // E_NUMBER, or E_LOAD's fill
    bool     has_fill;
    int      axes[G_MAX_RANK], naxes;   // E_REDUCE
    int      uses;
    int      var;                // axis number that stands for it in index expressions, or -1
    const char *name;            // once it has been given one
    int      param;              // E_LOAD
    const Ix *at;                // E_LOAD: coordinates of the parameter
    int      nat;
} KExpr;

typedef enum KAxisKind {
    A_GRID,                      // a scalar of the grid
    A_TILE,                      // a tile of the grid
    A_FULL,                      // all of it, a tile
    A_LOOP,                      // a scalar of a loop
    A_LOOP_TILE,                 // a tile of a loop
    A_VALUE,                     // no axis: an index that is a value
} KAxisKind;

typedef struct KAxis {
    KAxisKind kind;
    Ix      axis, extent;
    int64_t by;
    const char *open;            // a compile-time name in place of `by`, which is its default then; or NULL
    const char *default_by;      // .. its default as text, or NULL: `by`
    const char *name;
    KExpr  *value;               // A_VALUE
} KAxis;

typedef struct KCount { const char *like; int next; } KCount;   // names like this one end in numbers up to that

typedef struct KFew { Ix heads, rows; int most; } KFew;      // 64 rows a tile where tiles of 128 are at most so many, else 128

typedef struct KParam {
    const Node *node;
    int  rank;
    const Ix *shape;
    bool out, inout;
    const char *name;
    Ix parts;                    // it is one of so many parts of the node, along the first dimension; NULL: all of it
    int64_t part;                // .. this one
} KParam;

typedef struct KStep { const Node *node; int dim; int64_t at; Ix name; } KStep;     // of a node, along a dimension, the element at `at`, which is a parameter

typedef struct KStore { const Node *node; const Ix *coord; KExpr *value; int param; const Ix *at; int nat; } KStore;

typedef struct KAlong { const Node *node; KExpr *arg; int axis; const char *value, *places; } KAlong;   // a scan or sort

typedef struct KLoop { int axis; const Node *reduces; } KLoop;                   // a loop over one axis, and what it has

typedef struct KMemo { const Node *node; const Ix *coord; KExpr *e; } KMemo;     // a node at a place

typedef struct KAlias { Ix of; const char *name; } KAlias;

typedef struct KPiece { Ix of; int parents; bool open, outside; const char *name; } KPiece;    // of a long index expression; open: it is being written; outside: of all loops
typedef struct KPieces { VEC(KPiece) at; struct KScope *scope; } KPieces;

enum { MAX_KAXES = 64, KAXIS_VALUES = 40 };

// What a kernel reduces that has only rows: rows in memory, or columns, the last row axis being the innermost in
// memory: then that is a tile, and a few elements (the taps of a window) are taken one after the other.
typedef enum KReduces { R_ROWS, R_COLUMNS, R_TAPS } KReduces;

typedef struct Kernel {
    Graph  *g;
    Arena  *arena;
    const Fusion *f;
    int     group;
    const FGroup *fg;
    KReduces reduces;
    int64_t step;                // R_TAPS: of windows that move along the innermost dimension, how far; 0: none do
    int     turned;              // .. the root's axis that moves there where that is not its last one; -1: it is
    Ix      looped;              // the extent that rows are too long with: a loop, so many at a time; NULL: they fit
    int64_t looped_by;
    VEC(KLoop) loops;            // of reductions, each as it is complete
    int64_t side;                // rows side by side in memory, a tile of them; 1: columns are innermost
    KAxis   axis[MAX_KAXES];     // by the number of their index axis
    int     naxes, nvalues;      // in use: 0 .. naxes - 1, and KAXIS_VALUES ..
    VEC(KExpr *) exprs;
    VEC(KMemo) memo;             // what has been computed
    VEC(KParam) params;
    VEC(KStore) stores;
    VEC(KAlias) alias;           // dimensions of parameters that are more than a name
    KPieces parts;               // of the coordinates that are being written
    VEC(Ix) dims;                // dimensions that the text names
    VEC(Ix) scalars;             // those of them that are parameters, after the tensors
    bool    stepped;             // which element of many it reads is a parameter, so that others that read another one are the same kernel
    VEC(KStep) steps;            // .. those
    bool    may_step;            // .. there would be some
    VEC(const char *) named;     // what stands in the text for dimensions
    VEC(const char *) names;     // taken
    const char **name_slot;      // .. the first so many of them, by what they are
    uint32_t name_slots, in_slots;
    VEC(KCount) counts;
    VEC(const char *) blocks;    // compile-time names, "BN = next_pow2(N) or 1024"; of `BM = $` the default is as `few` says
    KFew    few;
    VEC(const char *) tune;      // what may be chosen of them: "BM in [64, 128]"
    KExpr  *a, *b;               // the product's operands
    KExpr  *more[MOST_MORE];     // the right operands of other products of the left one
    int     nmore;
    KExpr  *also[MOST_ALSO][2];  // the operands of products that add to the first one's sum
    int     nalso;
    uint64_t trips[1 + MOST_ALSO];      // axes of each one's loops
    KAlong  along;
    bool    by_sum;              // the product as sum(a * b)
    int     columns;             // .. the axis of its columns
    bool    across;              // .. transposed, dot(b, a): results lie along its rows in memory
    KExpr  *score;               // attention: a is NULL, b the values
    int     keys;                // the axis
    bool    guarded;
    bool    base2;               // scores are to the base 2
    Ix      room;                // as many keys as there may be, where their number is in memory; or NULL
    Ix      bound;               // no key at or past it is seen, or NULL; in terms of
    int     last;                // .. a value that stands for the last query of the tile
    int     queries;             // .. whose axis this is
    Buf     body;
    int     indent;
    bool    in_place;            // a scatter into its first source
    bool    needs_library;       // std/elementary.tk
    bool    numbers;             // dimensions that are inputs are scalars; else read from memory
    bool    in_head, sizes;      // of the text: parameters, grid; such a dimension stands there
    bool    scalar;              // .. one that is a scalar parameter does
    bool    unsized;             // what is whole has a length that only scalars say
    bool    by_loops;            // .. so that whatever has no size is a loop where it may be one
} Kernel;

// write/expr.c
KExpr *k_value(Kernel *k, const Node *n, const Ix *coord);              // n's element; NULL: an error is recorded
Ix     k_value_index(Kernel *k, const Node *n, const Ix *coord, Ix extent);   // .. as an index into a dimension
bool   k_in_memory(const Kernel *k, const Node *n);
bool   k_reads(const Kernel *k, const Node *n);                         // from memory, rather than computing it
KExpr *k_expr(Kernel *k, KExpr proto);
KExpr *k_number(Kernel *k, GNum v, const Node *n);                      // n: whose element type it has, may be NULL
KExpr *k_index(Kernel *k, Ix e);
KExpr *k_truth(Kernel *k, Ix e);                                        // .. as a condition
KExpr *k_text(Kernel *k, const char *fmt, int prec, Elem elem, KExpr *a, KExpr *b, KExpr *c);
KExpr *k_sized(Kernel *k, KExpr *e, Elem elem);                         // converted if it is something else
int    k_axis(Kernel *k, KAxisKind kind, Ix extent, int64_t by, const char *name);   // its number
uint64_t k_mask_of(Kernel *k, const Ix *at, int n);                     // the axes that index expressions vary along, values among them
int    k_load_quotients(Kernel *k);                                     // how many loads and stores have some

// write/ew.c, gelu.c, reduce.c
KExpr *k_elementwise(Kernel *k, const Node *n, const Ix *coord);
KExpr *k_gelu(Kernel *k, const Node *n, const Ix *coord);               // NULL: it is none
KExpr *k_reduce(Kernel *k, const Node *n, const Ix *coord);
KExpr *k_reduced(Kernel *k, GReduce op, KExpr *e, const int *axis, int naxes);   // e over axes of the kernel
KExpr *k_varied(Kernel *k, KExpr *e, int axis);                         // e as what has the axis
KExpr *k_multiple(Kernel *k, KExpr *e, Elem elem, int axis);            // the sum of e along an axis that it is the same on
KExpr *k_scores(Kernel *k, const Node *n, const Ix *coord);             // of an attention
bool   k_is_number(const Kernel *k, const Node *n);                     // of a row of the product's tile (fuse/numbers.c)

// write/ix.c
void   k_ix(Kernel *k, Buf *to, Ix e);
bool   k_is_alias(const Kernel *k, Ix e);                        // does a dimension of a parameter that is more than a name say it?
bool   k_lacks_dim(const Kernel *k, Ix e);                       // is some dimension in it none of a parameter's, nor part of one that has a name?
void   k_put_ix(Kernel *k, Buf *to, Ix e, int outer);            // outer: how tightly what is around it binds
void   k_put_number(Kernel *k, Buf *to, Ix e, int outer);        // .. a truth value as 1 or 0

// write/names.c
const char *k_name(Kernel *k, const char *like);                        // not taken yet; then taken
static inline bool g_in_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }
const char *g_dim_word(Graph *g, Ix dim);                               // a dimension's name in a program
const char *g_identifier(Arena *a, const char *text, const char *otherwise);

// write/pieces.c: long index expressions
void   k_parts_begin(Kernel *k, struct KScope *s, const Ix *at, int n);  // what is written up to the end: parts of it may get names before it
void   k_parts_end(Kernel *k);
bool   k_put_part(Kernel *k, Buf *to, Ix e);                            // as its name, if it is such a part

// write/text.c
typedef struct KScope {          // a block of the text
    Buf     *to;
    uint64_t loops;              // axes of its loop
    struct KScope *up;
    int      indent;
} KScope;

void   k_indent(KScope *s);
const char *k_operand(Kernel *k, KScope *s, KExpr *e, int outer);       // e as text that binds at least as tightly
void   k_name_values(Kernel *k, KScope *s, const Ix *at, int n);        // what may not be taken out of range, named before
char  *k_tile_axes(Kernel *k, uint64_t mask);                           // those of them that are tiles, as arguments: "m, n"
const char *k_precision(const Kernel *k, const KExpr *a);               // of a dot, as an argument
const char *k_start(GReduce op, Elem elem);                             // what a reduction begins with

// write/params.c
void   k_settle_params(Kernel *k);

// write/print.c
bool   k_stands_alone(const Kernel *k, Ix dim, bool in_results);        // is it a dimension of a parameter? of the only result, too
void   k_print(Kernel *k, Buf *to, const char *name);

// write/kernel.c
enum {
    K_SQUARE = 64,               // lanes each way of a tile that is read along one axis and stored along another
    K_TILE_LIMIT = 8192,         // elements of a tile
};

typedef struct KPart { int first, last; bool row; } KPart;              // adjacent axes of the root as one

bool   kernel_build(Kernel *k);                                         // all of it but the text
void   k_reset(Kernel *k);
int64_t k_pow2(int64_t n);                                              // the power of two that is at least n
int64_t k_times(int64_t a, int64_t b);                                  // at most what any tile could be
bool   k_fits(Ix extent);                                               // a tile
bool   k_whole(const Kernel *k, Ix extent);                             // is what has this length in a tile, rather than looped over?
int64_t k_tile_of(Ix extent, int64_t least, int64_t most);
Ix     k_part_extent(Graph *g, const Ix *shape, KPart p);
void   k_spread(Graph *g, const Ix *shape, KPart p, Ix place, Ix *coord);   // coordinates of its axes, from one place in it
bool   k_one_axis(Kernel *k, const Ix *shape, int n, KAxisKind kind, int64_t by, const char *name, Ix *coord);   // shape[0 .. n)
bool   k_add_stores(Kernel *k, const Ix *coord);

// write/map.c
bool   k_map_with(Kernel *k, const KPart *part, int n);

// write/rows.c
bool   k_rows_with(Kernel *k, const KPart *part, int n);
KReduces k_reduces(Kernel *k);                                          // of a kernel that is built
void   k_find_looped(Kernel *k);
int    k_looped_part(Kernel *k, KPart *part, int n);                    // columns that are looped over put together: how many parts are left

// write/product.c, depthwise.c, along.c, scatter.c, attention.c
extern const char *const k_sum_name[MOST_MORE + 1];                     // a product's accumulators
uint64_t k_loops(const Kernel *k);                                      // axes that are loops
int    k_sum_of(const Kernel *k, const Node *n);                        // .. by number: which of them
bool   k_product(Kernel *k);
bool   k_epilogue(Kernel *k, const Ix *at);                             // what follows the product, at `at` of its result
bool   k_depthwise(Kernel *k);
bool   k_along(Kernel *k);
bool   k_scatter(Kernel *k);
bool   k_attention(Kernel *k);

// write/tiles.c
void   k_open_tile(Kernel *k, const char *axis, const char *name, const char *choices);   // a compile-time name; choices may be NULL
void   k_open_tiles(Kernel *k);
void   k_open_large(Kernel *k);                                         // of f32, for wgmma

#endif

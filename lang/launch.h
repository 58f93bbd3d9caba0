// What a launcher must know of a compiled kernel, besides its code: parameters, how dimensions are
// found, what must hold, how many programs there are, and which machine parameters the entry takes.
//
// Everything that depends on the arguments is a launch expression: a few words of postfix code over
// the kernel's symbols (dimensions, scalar arguments, strides), evaluated on the host in 64 bits. An
// ahead-of-time artifact carries the same as comments in its PTX head.
#ifndef TK_LANG_LAUNCH_H
#define TK_LANG_LAUNCH_H

#include "lang/lang.h"

typedef enum LOp {                     // stack effect
    L_CONST,                           // -> value
    L_DIM,                             // -> dims[arg]
    L_SCALAR,                          // -> scalar parameter params[arg]: an integer, or the bits of a double
    L_STRIDE,                          // -> stride in elements, of a parameter's dimension: strides[arg], see launch_stride
    L_ADD, L_SUB, L_MUL, L_DIV, L_MOD, // a b -> a op b (division and remainder floor; by zero gives 0)
    L_CDIV, L_MIN, L_MAX,              // a b -> ...
    L_EQ, L_NE, L_LT, L_LE, L_AND, L_OR, L_NOT, L_SELECT,   // comparisons give 0 or 1; c a b -> c ? a : b
    L_POSITIVE,                        // floating-point scalar parameter -> 1 if 2^-50 <= it <= 2^50
} LOp;
typedef struct LStep { LOp op; int64_t arg; } LStep;
typedef struct LExpr { const LStep *at; uint32_t n; } LExpr;

enum { MAX_RANK = 8, MAX_DIMS = 32, MAX_PARAMS = 48, MAX_GRAPH_PARAMS = 512, MAX_GRAPH_DIMS = 512 };   // a graph's: inputs and results of a model, names of their sizes

// Strides of all parameters are one array.
enum { STRIDES_EACH = 16, MAX_STRIDES = MAX_PARAMS * STRIDES_EACH };
static inline int64_t launch_stride(int64_t param, int64_t dim) { return param * STRIDES_EACH + dim; }
static inline int launch_stride_param(LStep s) { return (int)(s.arg / STRIDES_EACH); }
static inline int launch_stride_dim(LStep s) { return (int)(s.arg % STRIDES_EACH); }

// How a kernel maps; 0 means that the cost model decides. persistent: 1 a block to each program, 2 blocks that go from one to the next. sliced_k: consumer groups of a block that share a loop's trips, 1 for none.
// pingpong: tiles that a walking block makes at a time, each by a consumer group of its own; 1: its groups share one. groups: consumer groups that share a tile. stream_k: 2 blocks that walk share the trips of the last tiles evenly, 1 tiles are whole. resident_b: tiles of a column that a walking block makes with the right operand kept, 1 for none. privatize: 2 blocks count small tensors of atomics in shared memory, 1 in memory. Each field is a word of `with (...)` and --with, up to its most.
#define SCHEDULE(X) X(warps, 32) X(stages, 64) X(cluster, 64) X(split_k, 1024) X(blocks, 65536) X(persistent, 2) X(sliced_k, 2) X(pingpong, 2) X(groups, 3) X(stream_k, 2) X(resident_b, 64) X(privatize, 2)
typedef struct Schedule {
#define X(name, most) int name;
    SCHEDULE(X)
#undef X
} Schedule;
typedef struct ScheduleField { const char *name; int most; size_t offset; } ScheduleField;
extern const ScheduleField schedule_fields[];
extern const int schedule_field_count;
int *schedule_field(Schedule *s, const char *name, size_t n, int *most);     // NULL: there is no such word
// The words that are not 0, as the command line takes them: "--with=warps=4 --with=split_k=2". How many.
int  schedule_text(const Schedule *s, Buf *out);
int  schedule_word(const Schedule *s, int i);                                // the value of schedule_fields[i]
// What the word takes, as text, where v is no such number; else NULL. Tiles are dealt to warps by the bits of their numbers.
const char *schedule_refuses(const char *name, size_t n, int64_t v);

typedef enum ParamMode { PM_IN, PM_OUT, PM_INOUT } ParamMode;
typedef enum ParamKind { PK_TENSOR, PK_POINTER, PK_SCALAR } ParamKind;

typedef struct LaunchParam {           // one parameter of the kernel as written
    ParamKind   kind;
    ParamMode   mode;
    Sym         name;
    Elem        elem;
    int         rank;
    bool        strided;               // inner stride may differ from 1
    bool        fixed;                 // PM_IN: no launch beside this one writes it (a weight), so it may be read before those that this one follows have ended
    LExpr       dim[MAX_RANK];         // what each dimension must equal
    int         solves[MAX_RANK];      // index into dims that this occurrence defines, or -1: an equation to check
} LaunchParam;

typedef struct LaunchDim {             // a dimension symbol
    Sym         name;
    int64_t     fixed;                 // its compile-time value (checked at launch), or -1
    int         divisor;               // no greater power of two is to be assumed to divide it; 0: any may be
    int         upto;                  // the instance was made for a number up to this; 0: for any number
    int         given;                 // that very number: a hint, of which nothing may depend that would be wrong for others
    int         from;                  // the least number, where `upto` and this are facts (lower/pass/shrink_tiles.c); else 0
} LaunchDim;

typedef struct LaunchGuard {           // must be true, or the launch is refused with `text`
    LExpr       cond;
    const char *text;                  // "N <= BLOCK = 1024 (softmax.tk:5)"
} LaunchGuard;

typedef enum SlotKind {                // one machine parameter of the entry, in order
    SLOT_POINTER,                      // u64 address of params[a]
    SLOT_SCALAR,                       // params[a] by value, its element type
    SLOT_DIM,                          // dims[a] as i32 or i64 (size)
    SLOT_STRIDE,                       // stride in elements of params[a] dimension b, i64
    SLOT_EXPR,                         // expr evaluated on the host, i32 or i64 (grid extents, magic numbers)
    SLOT_TENSORMAP,                    // 128-byte CUtensorMap over params[a], see box/swizzle
    SLOT_SCRATCH,                      // `expr` bytes of device memory for launches on one stream, zero before the first; a: SCRATCH_*
} SlotKind;
enum {                                 // LaunchSlot.a of SLOT_SCRATCH
    SCRATCH_COUNTS,                    // arrivals at each tile; a launch leaves them zero
    SCRATCH_PARTS,                     // parts of tiles on their way to the program that joins them
    SCRATCH_KINDS
};
typedef struct LaunchSlot {
    SlotKind kind;
    uint8_t  size;                     // bytes of the machine parameter
    int      a, b;
    LExpr    expr;                     // SLOT_TENSORMAP: rows of the box (its one length after the innermost that is not 1), instead of those in `box`; empty: those
    uint8_t  rank;                     // SLOT_TENSORMAP: dimensions of the map, innermost first
    uint8_t  swizzle;                  // 0, 32, 64, 128
    bool     rounds;                   // f32 for products of tf32: rounded to that on its way, where those would cut it off
    int8_t   map_dim[5];               // dimension of params[a] behind each map dimension
    uint32_t box[5];
    bool     im2col;                   // box[0] channels of box[1] pixels, which count up through the spatial dimensions:
    LExpr    lower[3], upper[3], step[3];   // from lower, by step, below the dimension's length + upper; innermost first
} LaunchSlot;

typedef struct LaunchInfo {
    const char   *entry;               // symbol in the PTX
    Sym           kernel;
    LaunchParam  *params;  int nparams;
    LaunchDim    *dims;    int ndims;
    LaunchGuard  *guards;  int nguards;
    LaunchGuard  *facts;   int nfacts; // what the specialised variant assumes; when one fails, or a tensor's address
                                       // is not a multiple of 16, use `general`
    LaunchSlot   *slots;   int nslots;
    LExpr         programs;            // how many programs the grid has
    LExpr         blocks;              // how many blocks are launched (x), in units of clusters' blocks
    int           threads;             // per block
    int           cluster;             // blocks per cluster (1: none)
    bool          together;            // its blocks wait for each other: all of them must run at once
    bool          partial;             // tiles at a tensor's end are not brought whole: products read what shared memory held, for dead lanes
    int           early;               // with so many blocks or fewer it waits by itself for the launches that it follows: may be started before their end
    uint32_t      smem;                // dynamic shared memory, bytes
    LExpr         smem_more;           // and so many more, by the arguments; empty: none
    struct LaunchInfo *general;        // variant that assumes nothing, or NULL
} LaunchInfo;

int64_t launch_eval(LExpr e, const int64_t *dims, const int64_t *scalars, const int64_t *strides /* by launch_stride */);
bool    launch_by_dims(LExpr e, const int64_t *dims, int64_t *out);    // its value; false: scalars or strides are among it
int     launch_takes(LOp op);                                  // how many operands, from the stack
// Numbers at hand at most while e is computed. What a program or its head says may have LAUNCH_DEEPEST; the compiler adds a few.
enum { LAUNCH_STACK = 64, LAUNCH_DEEPEST = 40 };
int     launch_depth(LExpr e);
bool    launch_same(LExpr a, LExpr b);                         // word for word
// If e is to be `value`, so is the part of it that holds the only dimension not known, in sums, differences and products: M + 1 is 8, so M
// is 7. A product need not come out even: whoever solves checks. The same of all guards that are equations. No scalars: none is known.
void    launch_solve(LExpr e, int64_t value, int64_t *dims, bool *known, const int64_t *scalars);
void    launch_solve_guards(const LaunchInfo *info, int64_t *dims, bool *known, const int64_t *scalars);
void    launch_print(const LaunchInfo *info, Buf *out);       // as `// tk: ...` comment lines
// launch_read.c: what such lines at the head of `text` say, an entry each, up to `max`. -1: one is wrong, err says which.
int     launch_read(Session *s, const char *text, size_t n, const LaunchInfo **out, int max, Buf *err);
// launch_check.c: of what was read from a file. Every number that something is counted or indexed by is what it may be.
enum { LAUNCH_MAX_STEPS = 2048, LAUNCH_MAX_SLOTS = 1024, LAUNCH_MAX_GUARDS = 1024, LAUNCH_MAX_NAME = 4096, LAUNCH_MAX_SMEM = 1 << 24 };
bool    launch_counts_ok(const LaunchInfo *info);              // before its arrays are there
bool    launch_valid(const LaunchInfo *info);
bool    launch_alike(const LaunchInfo *a, const LaunchInfo *b);    // the same parameters and dimensions, in the same order
char   *launch_expr_text(Arena *a, const LaunchInfo *info, LExpr e);   // "cdiv(M, 128) * cdiv(N, 256)"

#endif

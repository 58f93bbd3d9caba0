// The tile IR: SSA with structured regions. Values are tiles whose axes are values too.
//
//     kernel @scale(x: f32[N], y: out f32[N], a: f32) grid cdiv(N, 1024) {
//       %0 = tensor x                         : tensor<f32, 1>
//       ...
//       %n = axis %lo, %N {1024}              : axis<1024>
//       %i = index %n                         : index[%n]
//       %v = load %0, %i                      : f32[%n]
//       %w = binary.mul %v, %a                : f32[%n]      // %a : f32 broadcasts over %n
//       store %1, %i, %w
//     }
//
// A tile's type is an element type and a list of axis values, in a canonical order (by number); that is
// where its dead lanes can be read off, and why there are no mask operands, transposes or broadcasts:
// an elementwise operand may lack axes of the result. Axes are made in the region where they are used,
// so a type may name only axes that dominate it. Two levels share the data structure (see ops.h): level
// 1 is the meaning (`eval` runs it); level 2 adds shared-memory rings, asynchronous copies and roles.
//
// Ops live in doubly linked lists owned by regions; uses are found by walking, never kept by hand.
#ifndef TK_LOWER_IR_H
#define TK_LOWER_IR_H

#include "lower/ir/ops.h"
#include "sema/typed.h"

typedef struct Op Op;
typedef struct Val Val;
typedef struct Region Region;
typedef struct Fn Fn;
typedef struct Layout Layout;

typedef enum OpCode {
#define X(name, sub, lo, hi, out, reg, flags, level, meaning) OP_T_##name,
    TILE_OPS(X)
#undef X
    OP_T_COUNT
} OpCode;

typedef enum SubTable { SUB_NONE, SUB_BINARY, SUB_FUN, SUB_REDUCE, SUB_ATOMIC, SUB_PREC } SubTable;

typedef struct OpInfo {
    const char *name;
    uint8_t     sub, in_lo, in_hi, out, regions, level;
    const char *flags, *meaning;
} OpInfo;
extern const OpInfo op_info[OP_T_COUNT];

typedef enum TypeKind { TY_NONE, TY_TILE, TY_AXIS, TY_TENSOR, TY_BUFFER, TY_MBAR } TypeKind;

typedef struct Type {
    uint8_t  kind;                  // TypeKind
    uint8_t  elem;                  // TY_TILE, TY_TENSOR, TY_BUFFER
    bool     ptr;                   // TY_TILE: of addresses of elem
    uint8_t  rank;                  // TY_TILE: number of axes (0: a scalar); TY_TENSOR, TY_BUFFER: dimensions
    uint8_t  swizzle;               // TY_BUFFER: 0, 32, 64, 128 bytes
    uint8_t  order[MAX_AXES];       // TY_BUFFER: dimensions from innermost to outermost
    Val     *axis[MAX_AXES];        // TY_TILE: its axes, by number
    // TY_AXIS: [0] is the extent; TY_BUFFER: the extents of one stage, and behind them, if not 0, the bytes from one stage to the next;
    // TY_MBAR: [0] arrivals complete a phase
    int64_t  shape[MAX_AXES];
} Type;

struct Val {
    Op      *def;                   // NULL for a region's argument
    Region  *region;                // of which it is an argument
    uint32_t id;                    // dense in the function; printed order after ir_number
    Type     type;
    Sym      name;                  // from the source, or NULL
    const Layout *layout;           // after the pass `layout`; NULL for scalars, axes, tensors
};

enum {                              // Op.flags
    HAS_ELSE = 1, HAS_ACC = 2, HAS_WHERE = 4, AXIS_FULL = 8,
    NO_BOUNDS = 16,                 // load, store: every live lane is proved in range
    EXCLUSIVE = 32,                 // scan: without the lane itself
    REVERSE = 64,                   // scan: from the last lane down; sort, order: greatest first
    FROM_16 = 256,                  // load, store: of an axis whose third operand says where 16 bytes begin, which is so in its tensor
    NAN_FIRST = 512,                // sort, order: NaN before all others, not after them
    TALLIED = 128,                  // atomic: kept by the block until tally_end (pass/privatize.c)
    REPEATS = 2048,                 // for: it repeats another loop where that met an infinity (pass/infinities.c), without rings
    CHECKED = 1024,                 // dot: what TF32 makes of infinities is found and mended behind it; reduce: which asks (pass/infinities.c)
};

struct Op {
    uint16_t code;                  // OpCode
    uint8_t  sub;                   // AstOp, TFun, TReduce, TAtomic, DotPrec by OpInfo.sub
    uint16_t flags;
    uint8_t  nidx;                  // load, store, atomic, copies: number of index operands
    uint8_t  nreg;
    uint16_t nin, nout;
    uint16_t cap;                   // operand slots allocated
    uint32_t mark;                  // scratch of the pass at work
    int64_t  imm;
    int64_t  attr;
    Str      str;
    Span     span;
    Val    **in, **out;
    Region  *reg[3];
    Region  *parent;
    Op      *prev, *next;
};

struct Region {
    Op      *first, *last;
    Op      *owner;                 // NULL: the function's body
    VEC(Val *) args;
};

typedef struct FnNote { Span at; const char *text; } FnNote;

struct Fn {                         // one kernel, specialised
    Session *session;
    Arena   *arena;
    const TKernel *kernel;          // names, params, dims, grid, guards
    LaunchInfo *launch;             // params, dims, guards, programs (from build.c); slots and threads later
    Region   body;
    uint32_t nvals;
    const struct Target *target;    // ptx/ptx.h; NULL before lower_run
    const struct CompileOptions *with;      // what lower_run was given
    int      level;                 // 1 or 2
    bool     fast;                  // variant that may assume launch->facts

    // programs and blocks: batch.c, schedule.c, split_k.c, stream_k.c
    int      warps;                 // that run one program, chosen by the pass `schedule`
    int      batched;               // programs of the grid that run as one (batch.c), else 0
    int      parts;                 // programs that share a tile's loop (split_k.c), else 0
    // blocks among which the trips of the last rounds of tiles are dealt evenly (stream_k.c), else 0
    int      dealt;
    bool     listed;                // programs go along a list of tiles, in groups (build.c)
    bool     longest_first;         // programs are numbered so that those with the longest loops come first
    // for launches that may start before those that they follow have ended: it waits by itself (llvm/emit.c)
    bool     early;

    // rows: unroll.c, strip_mine.c, row_cache.c, row_cache_loop.c, cluster_rows.c
    // loads of neighbours' elements are written out (unroll.c): the more a lane holds, the more it shares
    bool     neighbours;
    bool     plain;              // no products, whose tiles and registers are their own
    int64_t  longest;               // bytes of the longest row that the pass `strip_mine` cut into loops
    int      kept;                  // tiles that a program has room for from one loop to the next (row_cache.c), else 0
    bool     rows_walk;             // blocks walk from row to row over a ring of kept tiles (row_cache_loop.c)
    int      tally_bytes;           // of a block's copies at most
    bool     tally_long;            // programs count in loops of their own: as many blocks as there are programs, where those are few
    bool     tallies;               // blocks go from program to program and keep tallies of small tensors (privatize.c)
    int      shares;                // blocks of a cluster that share a row's loops (cluster_rows.c), else 0
    int      beside;                // of them at one time on a multiprocessor

    // roles and rings: pipeline.c, specialize/*.c
    uint32_t buffer_bytes;          // shared memory of the rings, laid out by the pass `pipeline`
    uint32_t over;                  // bytes that a block lacks, where smaller rings are to be tried (llvm/file.c)
    int      groups;                // consumer warp groups of a kernel with roles, else 0
    int      walks;                 // at most so many blocks go from program to program; 0: each program has its block
    int      cluster;               // blocks of a cluster, which load for each other what several of them want; 0: none
    int      slices;                // of a block's consumers that share a loop's trips (specialize/sliced_k.c), else 0
    int      kept_right;            // tiles of a column for which the right operand stays (specialize/resident_b.c); 0: it comes anew for each
    // that a walking block makes at a time, each by a consumer group of its own (specialize/pingpong.c)
    int      tiles;
    int      bands;                 // of a tile's rows, each a consumer group's of its own (specialize/consumer_groups.c)
    bool     by_twos;               // two trips' products begin at a time (specialize/dual_issue.c)
    bool     turned;                // blocks of other columns begin at other trips (specialize/k_rotation.c)
    bool     phased;                // the producer keeps a tile's phase beside its place: it needs more registers

    // for the report: why it is so, and why it is not what was asked for
    const char *chosen;             // what choose.c decided, or NULL
    const char *warps_why;          // what the number of warps follows from
    VEC(FnNote) notes;              // what passes decided, for the report
    const char *roles_refused;      // why the pass `pipeline` made no warp roles, for the report
    const char *tally_refused;      // why atomics go to memory one by one
    const char *walk_refused;       // why the pass `row_cache` left them at their rows
    const char *cluster_refused;    // why the pass `pipeline` made none, though asked to
    const char *slices_refused;     // why the pass `pipeline` made none, though asked to
    const char *keep_refused;       // why each tile brings its right operand anew, though asked not to
    const char *pingpong_refused;   // why the pass `pipeline` made that one, though asked for two
    // why the pass `pipeline` made other consumer groups than were asked for, or than 192 rows would have
    const char *groups_refused;
    const char *scatter_refused;    // why its parts do not each join a slice of a tile, though asked to
    const char *split_refused;      // why the pass `split_k` left the kernel as it was, though asked for parts
    const char *streamk_refused;    // why the pass `split_k` left the tiles whole, though asked to
};

// ---- ir.c: building and changing -----------------------------------------------------------------

Fn   *fn_new(Session *s, const TKernel *k);
void  fn_note(Fn *f, Span at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));    // said once
Val  *val_new(Fn *f, Type t);
// results get fresh values, types unset; its regions are made, empty
Op   *op_new(Fn *f, OpCode code, Span span, int nin, Val *const *in, int nout);
void  op_append(Region *r, Op *op);
void  op_before(Op *at, Op *op);
void  op_after(Op *at, Op *op);
void  op_remove(Op *op);                                   // unlinks, keeps operands
void  op_add_operand(Fn *f, Op *op, Val *v);               // as the last one
void  op_insert_operand(Fn *f, Op *op, int at, Val *v);
void  op_remove_operand(Op *op, int at);
Region *op_add_region(Fn *f, Op *op);
Val  *region_arg(Fn *f, Region *r, Type t);
int   region_uses(const Region *in, const Val *v);        // operands that are v, everywhere inside
void  replace_uses(Region *in, Val *from, Val *to);        // everywhere inside, types too
bool  val_used(const Region *in, const Val *v);            // as an operand or in a type
bool  op_has(const Op *op, char flag);                     // one of the letters of OpInfo.flags
bool  op_inside(const Op *op, const Region *r);
// Ops of a region and of all regions inside, in print order: prev NULL gives the first; NULL after the last.
Op   *op_walk(const Region *root, const Op *prev);
bool  region_leaves_early(const Region *);               // by a break or continue, at any depth
// Operands by role; NULL when the op has none.
Val  *op_else(const Op *op);                               // load, ptrload
Val  *op_where(const Op *op);                              // ptrload, ptrstore, atomic
int   op_boxes(const Op *op);                              // of a tma_load: how many share its rows; 1: or a window's
Val  *op_acc(const Op *op);                                // dot, wgmma
Val  *op_low(const Op *op);                                // wgmma: what tf32 leaves of b; NULL: one product
bool  op_in_pairs(const Op *op);                           // wgmma: a's bytes lie with k outside, so that a lane's rows are neighbours (llvm/tf32x3_operands.c)
Val  *op_value(const Op *op);                              // store, ptrstore, atomic
Val  *op_compare(const Op *op);                            // atomic.cas
// store, ptrstore, atomic: the lanes it acts on, as a type without element
Type  op_places(const Op *op);
// unary, binary, select, cast, bitcast, fun, splat: an element follows from those at its own place
bool  op_is_elementwise(const Op *op);
// reduce, scan, sort, order, take: an element follows from others than its own
bool  op_mixes_lanes(const Op *op);
bool  op_joins(const Op *op);                             // by a function of its own: its region is of numbers, one element of each value
int   op_first_axis(const Op *op);                         // what takes axes after `over`: in[this .. nin)
Op   *op_target(const Op *op);                             // the loop that a break or continue is for, or NULL
// Where a part_put puts the parts: its attr. Slices of a block and blocks of a cluster (level 2) leave theirs to the first; all blocks of one go on
// where each joins a slice of the tile (scattered).
enum { PUT_memory, PUT_block, PUT_cluster, PUT_all, PUT_scattered };
enum { TO_NARROW = 1, TO_ACROSS = 2, TO_ADD = 4 };                // of a tma_store: see ops.h
enum { LOW_WARPS = 2, TURN_WARPS = 3 };                    // of buffer_low, of buffer_turn: as many arrivals as the mbarrier counts
int   op_put_in(const Op *op);                             // that, or -1 of other ops
const Op *put_scattered(const Fn *f);                      // the part_put whose parts each join a slice, or NULL
// Of a tile and a slice of it: the axis that is divided, and the slice's own. False: they differ in more.
bool  slice_axes(const Type *whole, const Type *slice, int *divided, int *own);
// what other blocks of the cluster send: join_cluster, from_cluster, drawn
bool  op_meets(const Op *op);
bool  op_compares(AstOp op);                               // eq .. ge: gives bool
const char *sub_name(SubTable table, int sub);             // "add" of SUB_BINARY; NULL if there is none
int   sub_find(SubTable table, Str name);                  // -1 if there is none
// Copies ops of `from` before `at` (or at the end of `into` when at is NULL), mapping values by map[id] (grown as
// needed); axes in types are mapped too.
typedef struct ValMap { Val **at; uint32_t n; Arena *arena; } ValMap;
Val  *map_get(const ValMap *m, Val *v);                    // itself when it is not mapped
void  map_set(ValMap *m, Val *from, Val *to);
Type  map_type(const ValMap *m, Type t);                   // its axes mapped
Op   *op_clone(Fn *f, const Op *op, ValMap *m);            // not linked
void  region_clone(Fn *f, const Region *from, Region *into, Op *at, ValMap *m);
// ids in print order; sorts the axes of every type anew (a ValMap does not survive it)
void  ir_number(Fn *f);

Type  type_scalar(Elem e);
Type  type_tile(Elem e, int naxes, Val *const *axes);      // sorts by id
Type  type_with(Type t, Elem e);                           // same axes, other element
Type  type_union(Type a, Type b);                          // a's elem, both's axes
Type  type_minus(Type t, int n, Val *const *axes);
int   type_axis(const Type *t, const Val *axis);           // position, or -1
bool  type_equal(const Type *a, const Type *b);
static inline int64_t axis_extent(const Val *axis) { return axis->type.shape[0]; }
int64_t type_lanes(const Type *t);                         // product of extents
int64_t type_apart(const Type *t);                         // of a buffer: bytes from stage to stage, where they are more than a stage's own; else 0

// Convenience: make, append to a region (at its end), give the result.
typedef struct Builder { Fn *f; Region *r; Op *before; Span span; } Builder;    // before: insert there instead of at the end
Val  *b_op(Builder *b, OpCode code, int sub, Type t, int nin, Val *const *in);
Val  *b_const(Builder *b, Elem e, int64_t v);
Val  *b_float(Builder *b, Elem e, double v);
Val  *b_binary(Builder *b, AstOp op, Val *a, Val *c);      // result axes: union; comparison gives bool
Val  *b_cast(Builder *b, Elem e, Val *a);
void  b_insert(Builder *b, Op *op);

// ---- ir/print.c, ir/parse.c, ir/verify.c ---------------------------------------------------------

void  ir_print(Fn *f, Buf *out);                           // numbers first
Fn   *ir_parse(Session *s, const Source *src, const TKernel *k);   // what ir_print wrote; NULL when an error was reported
int   ir_verify(Fn *f, Buf *problems);                     // number of violations, each a line: op text, rule broken
void  op_line(const Fn *f, const Op *op, Buf *out);        // one line, regions left out; as numbered so far

// ---- build.c: typed tree -> level 1 --------------------------------------------------------------

Fn   *ir_build(Session *s, const TKernel *k);

// ---- eval.c: the meaning ------------------------------------------------------------------------
// Runs all programs of the grid on host memory, whole tiles at a time. No globals, and f is only read.

// strides in elements
typedef struct EvalTensor { void *data; int64_t dims[MAX_RANK]; int64_t strides[MAX_RANK]; uint64_t bytes; } EvalTensor;
// by parameter; a pointer is tensor.data
typedef struct EvalArg { EvalTensor tensor; int64_t ival; double fval; } EvalArg;
typedef struct EvalReport {           // what is legal to run but worth telling; lines for people, at most 20 of them
    int64_t  gathers;                 // lanes of data-dependent loads without `else` that were out of range
    int64_t  races;                   // elements that two programs touched, one of them writing, not by atomics
    Buf      text;
} EvalReport;
typedef struct EvalOptions {
    bool     bounded;                 // EvalTensor.bytes is the extent of each argument: raw pointers lead nowhere else
    uint32_t junk;                    // seed of what dead lanes hold (what `out` memory holds before is the caller's affair)
    bool     reversed;                // programs from last to first
    bool     reordered;               // bounds hold for other orders of a loop's iterations, too
    bool     places;                  // dead lanes are what machine code has there: see the head of eval.c
    bool     trap_gathers;            // an out-of-range gather without `else` is a fault
    // NULL, or a dense f64 array of the tensor's shape: error bounds, read for in, written for out
    double  *bound[MAX_PARAMS];
    FILE    *print_to;                // NULL: prints are dropped
    bool     print_all;               // by every program; else by program 0
    EvalReport *report;               // NULL: nobody wants it (races then cost nothing)
} EvalOptions;
static inline Val *print_value(const Op *op) { return op->nin > (op->attr ? 1 : 0) ? op->in[0] : NULL; }
// Tiles as text (lower/eval/print.c): "x f32", of a print op; the numbers of a box of lanes in order, below "x f32[m, n]".
enum { PRINT_CELL = 32 };
void  print_head(const Op *op, Buf *out);
void  print_tile(const char *head, int rank, const int64_t *extent, char (*cell)[PRINT_CELL], FILE *to);
int   print_digits(Elem e);
void  print_point(char text[PRINT_CELL]);               // 2. is a float
// False when something trapped (x / 0, an assert ...): *fault says what (the caller frees it), *at where.
bool  ir_eval(Fn *f, const EvalArg *args, const int64_t *dims, const EvalOptions *opt, char **fault, Span *at);
// The value of a pure op of level 1 on scalar constants, as it would evaluate; false when it traps or cannot be told.
bool  eval_constant(Fn *f, const Op *op, int64_t *imm);

#endif

// What the files of the evaluator share.
//
//   eval.c         plan, control flow, tiles' memory, ir_eval       eval/elem.c    elementwise ops and casts
//   eval/kernel.c  the inner loops, by op and element type          eval/bound.c   error bounds of elementwise ops
//   eval/mem.c     loads, stores, atomics, races                    eval/reduce.c  reductions
//   eval/scan.c    scans, sorts                                  eval/joined.c  scans and reductions by a function
//   eval/dot.c     dot                                              eval/print.c   print, as NumPy shows arrays
//   eval/parts.c   parts of tiles, from program to program          eval/keep.c    tiles kept from loop to loop
//   eval/cluster.c what the blocks of a cluster join
//   eval/async.c   level 2: rings, asynchronous copies, wgmma       eval/roles.c   level 2: roles, mbarriers
//
// A tile is a flat array over the product of its axes' extents, in type order, last axis fastest, dead
// lanes included. Tiles are counted references: carrying a value round a loop copies nothing.
#ifndef TK_LOWER_EVAL_H
#define TK_LOWER_EVAL_H

#include "lower/ir/ir.h"

typedef struct Eval Eval;
typedef struct Step Step;
typedef struct Block Block;

enum { CHUNK = 512, MAX_FEED = MAX_RANK + 4 };

typedef struct Tile {
    uint32_t refs;
    uint32_t cls;                 // size class in the pool
    struct Tile *next;            // when free
    unsigned char pad[64 - 8 - sizeof(void *)];
    unsigned char data[];         // 64 bytes from the start
} Tile;

typedef struct Slot {             // what a value holds while it lives
    Tile   *t;                    // a tile's lanes
    Tile   *b;                    // its error bound in f64, or NULL: exact
    int64_t lo, live;             // an axis: value of lane 0, number of live lanes
    void   *ext;                  // level 2: ring of buffers, mbarriers
    uint32_t flight;              // level 2: number of the wgmma group that still writes the tile
} Slot;

// Several tiles walked in step over the lanes of a result: strides in lanes, 0 where a tile lacks the
// axis. Neighbouring axes that every tile steps through alike are merged, unless `live` counts matter.
typedef struct Space {
    int     rank, n;              // axes left after merging; tiles
    int64_t extent[MAX_AXES];
    int64_t stride[MAX_FEED][MAX_AXES];
    int64_t total;
} Space;

typedef struct Rows {             // the rows of a Space: its last axis, or a single lane
    const Space *s;
    int64_t n;                    // lanes of a row
    int64_t out;                  // first lane of the row in the result
    int64_t at[MAX_AXES];         // its coordinates
    int64_t off[MAX_FEED];        // its first lane in each tile
} Rows;

typedef void EvalFn(Eval *e, const Step *s);
typedef void Kernel(int64_t n, void *restrict o, const void *a, const void *b, const void *c);

struct Step {                     // an op, planned
    const Op *op;
    EvalFn   *run;
    Space    *space;              // over the result (or a store's indices), where the op wants one
    bool      gather;             // load: some index was itself loaded
    uint32_t *dies; int ndies;    // values whose last use this is
    Block    *block[3];
};
struct Block {
    const Region *region;
    Step    *steps; int n;
    uint32_t *defines; int ndefines;      // ids, released when the block is left
};

typedef enum Flow { FLOW_END, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAULT } Flow;

typedef struct Touch { uint32_t writer, reader, atomic; } Touch;  // program + 1; UINT32_MAX: several

struct Eval {
    const Fn *f;
    Arena    *arena;              // plan and rare things
    const EvalArg *args;
    const int64_t *dims;
    const EvalOptions *opt;
    bool      bounds;             // somebody asked for them
    Slot     *slot;               // by Val.id
    int64_t  *extent;             // EvalOptions.places: lanes of an axis, whose type has places meanwhile; by Val.id; else NULL
    Tile     *pool[48];
    unsigned char *junk[EL_COUNT + 1];                // of a type, last of pointers; NULL: not made yet
    int64_t   slice;              // of the consumers that are at work
    int64_t   program, programs, walkers;             // walkers: how many are run, fewer than programs if they walk
    Flow      flow;
    int64_t   depth;              // loops still to leave
    Slot     *carried; int ncarried, cap_carried;     // what the last terminator gave
    char     *fault;
    Span      fault_at;
    Touch    *touched[MAX_PARAMS];
    int64_t   logical[MAX_PARAMS][MAX_RANK];          // row-major strides of the shape, for bounds and races
    struct Async *async;          // level 2, else NULL
    struct Parts *parts;          // what programs hand to one another
    int64_t       puts;           // parts that have been put so far, for programs that wait for all of them
    struct Sent  *sent;           // parts of tiles that one program has sent to another
    struct Meeting *meetings;     // what the blocks of a cluster join
    int       joins;              // that the program at work has come to
    int64_t   drawn;              // numbers that programs have drawn
    bool      waits;              // the program at work stopped for others: it is run again
    struct Kept  *kept;           // what a program keeps from one loop to the next
};

// ---- eval.c
void   eval_fault(Eval *e, Span at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void   eval_note(Eval *e, Span at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));   // into the report
Tile  *tile_new(Eval *e, int64_t bytes);
void   tile_drop(Eval *e, Tile *t);
Tile  *tile_keep(Tile *t);                            // NULL is fine
void  *out_tile(Eval *e, const Op *op);               // fresh lanes for op->out[0]
double*out_bound(Eval *e, const Op *op);
Slot   slot_keep(const Slot *s);                      // one more owner of its tiles
void   slot_clear(Eval *e, Slot *s);                  // an axis keeps its lanes: others may have it
void   slot_share(Eval *e, const Val *to, const Val *from);
int    type_bytes(const Type *t);                     // of one lane; pointers 8
int64_t scalar_int(Eval *e, const Val *v);
int64_t eval_launch(Eval *e, LExpr n);                // of this launch; n 0: 1
Flow   run_block(Eval *e, const Block *b);
void   slot_set(Eval *e, const Val *v, const Slot *from);          // takes the references over
void   live_counts(Eval *e, const Type *t, int64_t *live);
bool   all_live(Eval *e, const Type *t);
void   dead_loaded(Eval *e, const Op *load, void *data, int64_t from, int64_t n);    // dead lanes of what it loads
void   junk_lanes(Eval *e, const Type *t, void *data, int64_t from, int64_t n, uint64_t salt);
static inline Slot *slot_of(Eval *e, const Val *v) { return &e->slot[v->id]; }
static inline void *lanes_of(Eval *e, const Val *v) { return e->slot[v->id].t->data; }

void   space_make(Space *s, const Type *over, int n, const Type *const *tiles, bool merge);
void   rows_start(Rows *r, const Space *s);
bool   rows_next(Rows *r);                            // false after the last row
// n lanes of a tile from `off`, `stride` apart: in place when they are neighbours, else gathered into buf.
const void *feed(const void *data, int size, int64_t off, int64_t stride, int64_t n, void *buf);

// ---- eval/scan.c: the lines along an axis: outer * step of them, lane i of line l at line_at(l) + i * step; junk in dead lanes of a result
typedef struct Line { int64_t outer, step, extent, live; } Line;
Line    line_along(Eval *e, const Type *t, const Val *axis);
int64_t line_at(const Line *l, int64_t line);
void    junk_dead(Eval *e, const Op *op, int result, void *data);

// ---- eval/kernel.c: loops over n neighbouring lanes. Storage floats are done in f32, pointers in u64.
Elem    kernel_elem(const Type *t);                   // the element type that its kernels work on
Kernel *kernel_binary(AstOp op, Elem e);              // e is a kernel_elem; NULL: no such op
Kernel *kernel_unary(AstOp op, Elem e);
Kernel *kernel_fun(TFun f, Elem e);
Kernel *kernel_select(int bytes);
typedef enum Wide { WIDE_I64, WIDE_U64, WIDE_F32, WIDE_F64 } Wide;   // what casts go through
Wide    wide_of(const Type *t);
Kernel *kernel_widen(const Type *t);                  // lanes -> i64, u64, f32 or f64
Kernel *kernel_cast(Wide from, const Type *to);
Kernel *kernel_narrow(Wide from, const Type *to);           // of a value that `to` holds
void    lanes_to_f64(const Type *t, int64_t n, const void *from, double *to);
void    lanes_to_i64(const Type *t, int64_t n, const void *from, int64_t *to);
void    lane_store(const Type *t, void *data, int64_t lane, int64_t imm);   // imm as in a const
int64_t lane_imm(const Type *t, const void *data, int64_t lane);

// ---- eval/bound.c
double  elem_unit(Elem e);                            // half an ulp of 1, 0 for integers
void    bound_elementwise(Eval *e, const Step *s);    // after the values

// ---- one function an op
#define X(name, ...) EvalFn eval_##name;
TILE_OPS(X)
#undef X
void    join_slots(Eval *e, const Op *op, int n, const Slot *const *from);               // into op->out[0], by op->sub
void    drop_parts(Eval *e);
void    run_senders(Eval *e, const Block *body, int64_t n);
void    drop_kept(Eval *e);
void    drop_meetings(Eval *e);
void    run_cluster(Eval *e, const Block *body, int64_t first, int64_t step, int n);      // programs first, first + step ..
void    plan_async(Eval *e);
void    start_async(Eval *e);                         // a program begins
bool    readable(Eval *e, const Op *op);              // no operand is still being written

#endif

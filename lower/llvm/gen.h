// Laid-out tile IR -> LLVM IR, for one thread. The only files that know LLVM are llvm/*.c and ptx/.
//
//   llvm/gen.c      module, kernel function, parameters, regions, loops
//   llvm/elementwise.c     elementwise ops and conversions            llvm/math.c   functions (instance of math.h)
//   llvm/packed16.c   small whole numbers and floats of few bits in 16 bits, two at a time
//   llvm/mem.c      addresses, predicates, loads, stores       llvm_atomic.c atomics, raw pointers, print
//   llvm/reduce.c   reductions: registers, shuffles, shared memory
//   llvm/scan.c    scans, the same way                    llvm/sort.c    sorts, orders, what is taken in one
//   llvm/convert_layout.c  layout changes through registers or shared memory
//   llvm/cluster_reduce.c  what the blocks of a cluster join
//   llvm/tma_store.c    accumulators to global memory by TMA
//   llvm/wgmma_registers.c      accumulators of wgmma, in registers of their own
//   llvm/split_k_workspace.c    parts of tiles, from program to program    llvm/row_cache_smem.c    tiles from loop to loop
//   llvm/smem_budget.c     shared memory as a whole: is it too much?
//   llvm/privatize_smem.c    atomics that a block keeps to itself
//   llvm/lines.c    source lines
//   llvm/mma_sync.c      tensor cores: mma.sync, ldmatrix           llvm/tma_mbarrier.c wgmma, TMA, mbarriers, roles
//
// A tile is one LLVM value per register of its layout. Elements of 8 and 16 bits are born and die in
// packed 32-bit words (loads, stores, tensor cores), so a register may be "part i of this word" until
// somebody needs the element itself; then it is extracted, once.
#ifndef TK_LOWER_GEN_H
#define TK_LOWER_GEN_H

#include <llvm-c/Core.h>

#include "lower/facts/facts.h"
#include "lower/layout/layout.h"
#include "lower/lower.h"

typedef struct Reg {
    LLVMValueRef v;              // the element, or NULL while only in a word
    LLVMValueRef word;           // i32 that holds it (16-bit: 2 elements, 8-bit: 4), or NULL
    uint8_t      part;
} Reg;
typedef struct Tile { Reg *r; int n; } Tile;

typedef struct Edge { LLVMBasicBlockRef from; LLVMValueRef *vals; } Edge;
typedef struct LoopGen {         // where break and continue go
    const Op *op;
    LLVMBasicBlockRef before, next, exit;      // before: a `for` comes from it
    VEC(Edge) to_next, to_exit;
    struct LoopGen *outer;
} LoopGen;

typedef struct Intrinsic { const char *name; LLVMTypeRef type, ft; LLVMValueRef f; } Intrinsic;

typedef struct Lines Lines;          // llvm/lines.c

typedef struct Gen {
    Session *session;
    Arena   *arena;
    Fn      *f;
    Facts   *facts;
    struct { const Op *op; int n; } passes;      // magic_divide.c: the last remainder that was asked about
    const CompileOptions *opt;
    LLVMContextRef C;
    LLVMModuleRef  M;
    LLVMBuilderRef B;
    LLVMTypeRef    i1, i8, i16, i32, i64, f16, f32, f64, v, gptr, sptr;
    LLVMValueRef   fn;
    LLVMValueRef  *param;        // machine parameters, by slot
    LLVMValueRef   tid, lane, warp;      // warp: within the program's warps
    LLVMValueRef   smem;         // dynamic shared memory: where scratch and slots are counted from
    LLVMValueRef   rings;        // and where the rings are
    LLVMValueRef   slice;        // which slice of the consumers this thread is of, or NULL
    LLVMValueRef   slice_apart;  // bytes from one slice's scratch and slots to the next one's: a number known at the end
    uint32_t       joined_at;    // what slices or blocks of a cluster hand over
    uint32_t       joined_bar;   // .. the mbarrier that is told
    uint32_t       scratch;      // its byte offset of the area for reductions and conversions
    uint32_t       scratch_size;
    uint32_t       smem_used;
    struct { const Val *axis; const Layout *layout; int pos; int64_t n; } alike;      // what alive_alike said last
    uint32_t       shared_slots, shared_slots_size;      // of reductions and scans in loops, and of large ones
    Tile          *tile;         // by Val.id
    uint8_t       *narrow;       // what gen_is32 has found out, by Val.id
    bool          *wanted;       // index arithmetic that somebody needs as values, by Val.id
    LoopGen       *loop;
    LLVMBasicBlockRef exit;
    Lines   *lines;              // NULL: no `.loc`
    bool           dead;         // the current block has its terminator
    uint64_t       dirty;        // tensors stored to since the last barrier, by parameter
    uint64_t       read;         // inout tensors loaded from since the last barrier
    bool           one_warp;     // each program is one warp: no block barriers
    bool          waits_late;       // for the launches before this one, in `roles`
    int            program_threads;
    int            shares;       // that a product has whose bytes the consumers turn (llvm/tma_mbarrier.c)
    int            prepares;     // 1 + the first thread of the warps that prepare what a producer has brought, within their region; else 0
    int            produces;     // 1 + the first thread of a producer of four warps, within its region; else 0
    struct Ahead  *ahead;        // fragments of the loop's product that are in registers when a trip begins
    const Op      *skip;         // ops up to this one have been emitted already, inside the product before them
    uint32_t       bars;                 // where the mbarriers of the cluster's joins stand that are to come
    int            met;                  // joins of the cluster that are done with one before them
    bool           cluster_waits;        // nobody has waited yet for the cluster's other blocks to have begun
    // llvm/row_cache_smem.c: where it begins, its tiles, a tile's bytes
    struct { const Op *op; LLVMValueRef base, room; int64_t bytes; } keep;
    struct { LLVMValueRef base, copies, copy; } tally;   // llvm/privatize_smem.c: where copies begin, how many they are, which is this thread's
    int            ptx_version;  // that the instructions used so far ask for
    Intrinsic      known[64];    // looked up before
    struct Accs   *accs;         // llvm/wgmma_registers.c, or NULL
} Gen;

// ---- llvm/emit.c
struct PtxUnit;
void         gen_kernel(Session *s, Fn *f, const CompileOptions *opt, struct PtxUnit *unit);   // into the unit's module

// ---- llvm/gen.c
LLVMTypeRef  gen_type(Gen *g, const Val *v);                       // of one element
bool         gen_is32(Gen *g, const Val *v);                       // an index kept in 32 bits
LLVMValueRef gen_i32(Gen *g, int64_t v);
LLVMValueRef gen_i64(Gen *g, int64_t v);
LLVMValueRef gen_call(Gen *g, const char *intrinsic, int n, LLVMValueRef *args, int ntypes, LLVMTypeRef *types);
// NULL: unknown to this LLVM
LLVMValueRef gen_try(Gen *g, const char *intrinsic, int n, LLVMValueRef *args, int ntypes, LLVMTypeRef *types);
LLVMValueRef gen_asm(Gen *g, LLVMTypeRef ret, const char *text, const char *constraints, int n, LLVMValueRef *args,
                     bool effect, bool convergent);
// an instruction of this capability is used: offset in Target
void         gen_need(Gen *g, size_t cap);
LLVMBasicBlockRef gen_block(Gen *g, const char *name);
void         gen_barrier(Gen *g);                                  // of the program's threads
void         gen_barrier_named(Gen *g, LLVMValueRef number, int threads);
void         gen_barrier_warp(Gen *g);
LLVMValueRef gen_smem(Gen *g, LLVMValueRef byte_offset);           // i32 -> shared pointer
// the same, of the rings and of what all slices of a block share
LLVMValueRef gen_ring(Gen *g, LLVMValueRef byte_offset);
LLVMValueRef gen_stage(Gen *g, const Val *buffer, LLVMValueRef stage);      // where a stage of a ring begins, from gen_ring on: i32
void gen_arrive(Gen *g, const Val *bar, LLVMValueRef stage);            // at an mbarrier: one of each warp of the role
// Registers of wgmma's left operand of f32, from its stage (llvm/tf32x3_operands.c): four of each step of each 64 rows.
typedef struct Share { int block, blocks, step, steps; } Share;          // of a product: from a block of 64 rows on so many, from a step on so many
void gen_left_words(Gen *g, const Op *op, LLVMValueRef group, Share s, LLVMValueRef *words);
LLVMValueRef gen_scratch(Gen *g, uint32_t bytes);                  // i32 offset of an area that no live value uses
LLVMValueRef gen_param(Gen *g, SlotKind kind, int a, int b);
void gen_wait_launches(Gen *g);                               // for the launches before this one
void gen_add_slot(Fn *f, LaunchSlot s);
const LaunchSlot *gen_map(const Gen *g, const Op *op);       // the tensor map of a tma_load or tma_store
LLVMValueRef gen_lexpr(Gen *g, LExpr e);                           // i64
void         gen_region(Gen *g, Region *r);
void         gen_op(Gen *g, Op *op);
typedef void GenFn(Gen *g, Op *op);

// The hardware's 16 barriers. What is said of a group is one barrier for each: its number is added. Three groups that
// take turns have theirs behind the slices', since two of the first kind would be in the way of the stores'.
enum { BARRIER_ALL, BARRIER_CONSUMERS, BARRIER_STORE, BARRIER_TURN = 4, BARRIER_SLICE = 6, BARRIER_TURN_OF_THREE = 9 };
enum { GROUP_THREADS = 128 };                                      // of a warp group

// ---- 32-bit arithmetic
LLVMValueRef gen_permute(Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef how);      // prmt
static inline LLVMValueRef gen_add(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(g->B, a, b, ""); }
static inline LLVMValueRef gen_times(Gen *g, LLVMValueRef x, int64_t k) { return LLVMBuildMul(g->B, x, gen_i32(g, k), ""); }
static inline LLVMValueRef gen_bits(Gen *g, LLVMValueRef x, int from, int mask) {      // mask, of the bits from `from` on
    return LLVMBuildAnd(g->B, from ? LLVMBuildLShr(g->B, x, gen_i32(g, from), "") : x, gen_i32(g, mask), "");
}
// of conditions, NULL where always true
static inline LLVMValueRef gen_both(Gen *g, LLVMValueRef a, LLVMValueRef b) {
    return !a ? b : !b ? a : LLVMBuildAnd(g->B, a, b, "");
}
extern GenFn *const gen_table[OP_T_COUNT];

// ---- tiles
Tile        *gen_tile(Gen *g, const Val *v);                       // allocates registers when new
LLVMValueRef gen_get(Gen *g, const Val *v, int reg);
LLVMValueRef gen_get64(Gen *g, const Val *v, int reg);             // an integer, widened to i64
LLVMValueRef gen_word(Gen *g, const Val *v, int reg, int n);       // n consecutive 8- or 16-bit registers as an i32
void         gen_set(Gen *g, const Val *v, int reg, LLVMValueRef x);
void         gen_set_word(Gen *g, const Val *v, int reg, int n, LLVMValueRef word);
int         *gen_reg_map(Gen *g, const Val *from, const Val *operand);   // register of operand behind each of from
LLVMValueRef gen_lane_coord(Gen *g, const Layout *l, int axis);    // i32: what lane and warp add to the coordinate
int64_t      gen_reg_coord(const Layout *l, int axis, int reg);    // what the register adds
LLVMValueRef gen_as32(Gen *g, const Val *v);                       // a number that is known to fit
LLVMValueRef gen_lane_number(Gen *g, const Val *axis, LLVMValueRef place);       // which of the axis's lanes stands there; less than 0: none
LLVMValueRef gen_owner(Gen *g, const Layout *l);                   // i1, or NULL when there are no replicas
LLVMValueRef gen_live(Gen *g, const Val *axis, const Layout *l, int pos, int reg, int span);   // i1 or NULL (always live)
bool         gen_compare_places(Gen *g, Op *op);                    // llvm/index_compare.c: an index against what does not change along its axis
bool         gen_always_live(Gen *g, const Val *axis, const Layout *l, int pos);
// Of an index, in i64, or in i32 where the whole fits: k * a register; the uniform part c + sum k * scalar.
LLVMValueRef gen_term(Gen *g, LLVMTypeRef t, const Val *v, int reg, int64_t k);
LLVMValueRef gen_affine(Gen *g, LLVMTypeRef t, const Affine *a);

// ---- llvm/memory_order.c: the program's threads meet, if another one touched what this access to a tensor touches
void gen_order(Gen *g, const Op *op);
void gen_order_pointers(Gen *g, const Op *op);

// ---- llvm/mem.c: where a tile access touches global memory
typedef struct Addr Addr;
Addr        *addr_open(Gen *g, const Op *op, const Layout *l, const Type *type);
LLVMValueRef addr_at(Addr *s, int reg, int64_t *imm);              // i64; *imm: bytes to add
LLVMValueRef addr_live(Addr *s, int reg);                          // i1: the lane is live and in range; NULL: always; i32: so many bytes of what is copied are wanted

// ---- llvm/async_copy.c, llvm/row_cache_smem.c: cp.async of 4, 8 or 16 bytes (zeros where not live); a load that is one
LLVMValueRef gen_mbar(Gen *g, const Val *bar, LLVMValueRef stage);
void gen_copy(Gen *g, LLVMValueRef to, LLVMValueRef from, int64_t imm, int bytes, LLVMValueRef live, LLVMValueRef doit);
bool         gen_load_is_copied(Gen *g, const Op *load);

// ---- llvm/misc.c: one element's, at a pointer; the old value
LLVMValueRef gen_atomic(Gen *g, TAtomic op, Elem e, LLVMValueRef at, LLVMValueRef x, LLVMValueRef cmp);
LLVMValueRef gen_lanes_alive(Gen *g, const Val *v, const Layout *l, int reg);      // of all axes, or NULL
// ---- llvm/privatize_smem.c
void         gen_tally_slots(Gen *g);
bool         gen_red(Gen *g, Op *op);                              // a tile added to memory, as a store; false: as atomics
void         gen_tallied(Gen *g, const Op *op);                    // an atomic on the block's copies
void         gen_tally_close(Gen *g);                              // all other shared memory is laid out

// ---- llvm/wgmma_registers.c: accumulators in registers that the PTX declares; `held` of NULL accs is false
typedef struct Accs Accs;
// NULL: no wgmma, or its accumulators are values of LLVM's
Accs        *acc_open(Gen *g);
void         acc_close(Gen *g);                                    // the function is made
bool         acc_held(const Accs *a, const Val *v);
bool         acc_read(const Accs *a, const Val *v);                // and somebody computes with it
int          acc_regs(const Val *v);                               // of 32 bits
int          acc_set(Gen *g, const Val *v, LLVMValueRef results, int from);      // what acc_take_text gave
int          acc_first(Accs *a, const Val *v);                     // its first register: %accN
void         acc_put(Gen *g, const Val *from, const Val *to);      // where `from` becomes `to`: moves, unless it is there
void         acc_take(Gen *g, const Val *v);                       // where v comes to be: moves into values, if it is read
// the same as part of other assembly
void         acc_take_text(Accs *a, const Val *v, int from, const char *cond, Buf *text, Buf *cons);

// ---- specialize/unaligned_rows.c: bytes from row to row of a slot; how many columns of a row at a time have a slot of so many bytes for 16 rows
int64_t      row_pitch(int64_t columns, int size);
int64_t      row_chunk(int64_t columns, int size, int64_t warp_bytes);

// ---- llvm/lines.c
void         lines_open(Gen *g);
void         lines_at(Gen *g, const Op *op);
void         lines_close(Gen *g);

// ---- llvm/elementwise.c
LLVMValueRef gen_to_f32(Gen *g, LLVMValueRef x, Elem e);           // from a storage float's bits
LLVMValueRef gen_from_f32(Gen *g, LLVMValueRef x, Elem e);
LLVMValueRef gen_kept_f32(Gen *g, LLVMValueRef x, Elem e);       // of a number that e holds: an infinity stays one
LLVMValueRef gen_fun(Gen *g, TFun fun, Elem e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
LLVMValueRef gen_binary(Gen *g, AstOp op, Elem e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef gen_shuffle_xor(Gen *g, LLVMValueRef x, int mask);    // any element type
bool         gen_narrow_op(Gen *g, const Op *op);                  // all its indices run in 32 bits
// ---- llvm/magic_divide.c
void         gen_reciprocals(Gen *g);                              // machine parameters for divisions by what a launch knows
LLVMValueRef gen_divide_known(Gen *g, const Op *op, LLVMValueRef *in);     // an element; NULL: nothing is known of the divisor
bool         gen_divide_tile(Gen *g, Op *op);                      // false: element by element
// ---- llvm/packed16.c: registers reg and reg + 1 of a conversion to bf16 or f16, where they are small whole numbers or floats of few bits, or such times a
// number that the type holds
bool         gen_halves(Gen *g, const Op *cast, int reg);
// ---- llvm/reduce.c
LLVMValueRef gen_join(Gen *g, TReduce kind, Elem e, LLVMValueRef a, LLVMValueRef b);    // not argmax, argmin
LLVMValueRef gen_neutral(LLVMTypeRef t, TReduce kind, Elem e);                         // joined with what it changes nothing
// v[0 .. n), of a part each in the threads that differ in these bits: joined, the same in each; kept: lane bits that
// tell elements apart
void gen_join_threads(Gen *g, const Op *op, TReduce kind, Elem e, LLVMValueRef *v, int n, uint32_t lane_bits,
                      uint32_t warp_bits, uint32_t kept);
// where warps exchange partial results; waits for its readers
uint32_t     gen_slots(Gen *g, const Op *op, uint32_t bytes);
// Where bytes of shared memory may begin behind all that is laid so far, and such bytes taken: at a multiple of 16, for slots of any type.
uint32_t     gen_next_area(const Gen *g);
uint32_t     gen_area(Gen *g, uint32_t bytes);
uint32_t     gen_slots_room(const Gen *g);                         // what the area that ops share may grow to
void         gen_put(Gen *g, LLVMValueRef at, LLVMValueRef x);     // at a byte of shared memory
LLVMValueRef gen_take(Gen *g, LLVMValueRef at, LLVMTypeRef t);
// ---- llvm/convert_layout.c, llvm/sort.c: bytes of scratch that an op will ask for
uint32_t     convert_room(Gen *g, const Op *op);
uint32_t     sort_room(Gen *g, const Op *op);
uint32_t     take_room(Gen *g, const Op *op);
// ---- llvm/mma_sync.c
uint32_t     gen_dot_room(Gen *g, const Op *op);                   // bytes of scratch that a dot will ask for
bool         gen_rings_end(Gen *g);                                // scratch is only asked for after the rings' last use
// ---- llvm/split_k_workspace.c
// llvm/stream_k_workspace.c: of scratch memory, for a block's part of a tile
int64_t      gen_slot_bytes(const Fn *f, const Op *send);
int64_t      gen_slot_counts(const Fn *f, const Op *send);         // bytes of counts, for a block
uint32_t     gen_cluster_bar(Gen *g);                                // the next join's mbarrier; the other blocks have begun
uint32_t     gen_cluster_room(Gen *g, int64_t bytes);
// to a block, n words at once
void         gen_cluster_send(Gen *g, int block, LLVMValueRef at, int n, LLVMValueRef *words, uint32_t bar);
// in the first block: all that the others send
void         gen_cluster_receive(Gen *g, uint32_t bar, int64_t bytes);
// in any block, in two steps: one thread says how much, all wait for that
void         gen_cluster_expect(Gen *g, uint32_t bar, int64_t bytes, LLVMValueRef by);
void         gen_cluster_await(Gen *g, uint32_t bar);
void         gen_cluster_leave(Gen *g);                            // threads that end where others wait for the cluster to have begun
int64_t      gen_part_bytes(const Fn *f, const Op *put);           // of scratch memory, for one part of one tile
int64_t      gen_part_counts(const Fn *f, const Op *put);          // and of counts, for a tile
// ---- llvm/cluster_reduce.c
void         gen_cluster_loop(Gen *g, const Op *loop);             // before a loop in which the cluster's blocks join values
// the block has begun: others may write to its shared memory
void         gen_cluster_begin(Gen *g);
// ---- llvm/row_cache_smem.c
void         gen_keep_close(Gen *g);                               // all other shared memory is laid out
// ---- llvm/smem_budget.c
uint32_t     gen_room(Gen *g, const Op *op);                       // bytes of scratch that an op will ask for
uint32_t     gen_scratch_room(Gen *g);                             // the most that any op will ask for
void         gen_check_room(Gen *g);                               // E0501, when the kernel is made
// ---- llvm/math.c
LLVMValueRef gen_math(Gen *g, TFun fun, Elem e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef gen_reciprocal(Gen *g, LLVMValueRef x);
LLVMValueRef gen_divide(Gen *g, Elem e, LLVMValueRef a, LLVMValueRef b, bool precise);

#define X(name, ...) GenFn emit_##name;
TILE_OPS(X)
#undef X

#endif

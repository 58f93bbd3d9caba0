// Inside the emulator: what its files share.
//
//     text.c     words, numbers                                  reader.c  statements, names and scopes; program.c  modules, functions
//     decode.c   operands -> slots, tables                       mbarrier.c, bulk.c  asynchronous state
//     x_*.c      executors with the tables that name them        memory.c  device allocations
//     warps.c    divergence: groups of lanes with one pc         launch.c  blocks, clusters, threads
//     shadow.c   races, by vector clocks                         report.c  faults in words
//     tensormap.c  tensor maps and the walk over a box           module.c  what was read, by name
//     frames.c   stacks of device functions                      kernel_heap.c    their malloc
//     idle.c     loops that nothing ends                         slots.c  registers that share slots
//
// A register is a *slot*: 32 lanes side by side, 4 bytes a lane (8 for 64-bit types, 16 for b128; a
// predicate is one 32-bit mask). An operand is the slot's byte offset with the number of its base in
// the low two bits: the kernel's registers, the module's constants (each held 32 times), or the
// registers of device functions. So an executor sees every operand as an array of 32 values.
//
//     base[0]  | %tid.x | %tid.y | ... | %r1 (128 B) | %rd1 (256 B) | %p1 (4 B) | ...
//
// The files x_*.c are compiled twice on x86-64, for the baseline and for AVX2 with FMA; the loader
// takes the tables that the machine can run.
#ifndef TK_EMU_INTERNAL_H
#define TK_EMU_INTERNAL_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "emu/emu.h"
#include "lang/number.h"

typedef struct Insn Insn;
typedef struct Warp Warp;
typedef struct Block Block;
typedef struct Cluster Cluster;
typedef struct Launch Launch;
typedef struct Kernel Kernel;
typedef struct Dec Dec;
typedef void InsnFn(Warp *, const Insn *);

// ---- Types

//    name     bits  kind
#define PTX_TYPES(X) \
    X(pred,       1, P) X(b8,      8, B) X(b16,    16, B) X(b32,    32, B) X(b64,   64, B) X(b128, 128, B) \
    X(u8,         8, U) X(u16,    16, U) X(u32,    32, U) X(u64,    64, U)                                  \
    X(s8,         8, S) X(s16,    16, S) X(s32,    32, S) X(s64,    64, S)                                  \
    X(f16,       16, F) X(f16x2,  32, V) X(bf16,   16, F) X(bf16x2, 32, V) X(tf32,  32, F)                  \
    X(f32,       32, F) X(f64,    64, F) X(f32x2,  64, V) X(u16x2,  32, V) X(s16x2, 32, V)                  \
    X(e4m3,       8, F) X(e5m2,    8, F) X(e4m3x2, 16, V) X(e5m2x2, 16, V) X(b1,     1, B)                  \
    X(s2,         2, S) X(u2,      2, U) X(s4,         4, S) X(u4,      4, U) X(e2m1,   4, F) X(e2m1x2, 8, V) X(ue8m0x2, 16, V)                   \
    X(e2m3,       6, F) X(e3m2,    6, F) X(e2m3x2, 16, V) X(e3m2x2, 16, V) X(ue8m0, 8, F) X(ue4m3,  8, F)   \
    X(e4m3x4,    32, V) X(e5m2x4, 32, V) X(e2m3x4, 32, V) X(e3m2x4, 32, V) X(e2m1x4, 16, V)

typedef enum Type {
    T_none,
#define X(name, bits, kind) T_##name,
    PTX_TYPES(X)
#undef X
    T_COUNT
} Type;

uint32_t ptx_type_bits(Type);
char     ptx_type_kind(Type);                 // 'P' 'B' 'U' 'S' 'F' 'V'
const char *ptx_type_name(Type);
static inline bool ptx_type_is_signed(Type t) { return ptx_type_kind(t) == 'S'; }

// ---- Slots

enum { BASE_REGS, BASE_CONSTS, BASE_FUNCS, BASE_COUNT };
#define NO_SLOT 0xffffffffu

// Slots at fixed places in every kernel's registers, filled when a warp starts.
//    name          PTX names
#define SPECIAL_SLOTS(X) \
    X(tid_x) X(tid_y) X(tid_z) X(ntid_x) X(ntid_y) X(ntid_z) X(ctaid_x) X(ctaid_y) X(ctaid_z)               \
    X(nctaid_x) X(nctaid_y) X(nctaid_z) X(laneid) X(warpid) X(nwarpid) X(smid) X(nsmid) X(gridid)           \
    X(lanemask_eq) X(lanemask_le) X(lanemask_lt) X(lanemask_ge) X(lanemask_gt)                              \
    X(clusterid_x) X(clusterid_y) X(clusterid_z) X(nclusterid_x) X(nclusterid_y) X(nclusterid_z)            \
    X(cluster_ctaid_x) X(cluster_ctaid_y) X(cluster_ctaid_z)                                                \
    X(cluster_nctaid_x) X(cluster_nctaid_y) X(cluster_nctaid_z) X(cluster_ctarank) X(cluster_nctarank)      \
    X(dynamic_smem_size) X(total_smem_size) X(aggr_smem_size)                                               \
    X(smem_static) X(smem_dynamic) X(frame) X(zero) X(envreg1) X(envreg2)

typedef enum Special {
#define X(name) SP_##name,
    SPECIAL_SLOTS(X)
#undef X
    SP_COUNT
} Special;
#define SPECIAL_SLOT(sp) ((uint32_t)(sp) * 128u)

// ---- Instructions

enum { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM, SPACE_CONST, SPACE_CLUSTER };

struct Insn {
    InsnFn  *fn;
    uint32_t d, a, b, c, e;       // operand slots, NO_SLOT where there is none
    uint32_t guard;               // predicate slot; NO_SLOT: always
    bool     guard_not;
    uint8_t  cls;                 // EmuClass
    uint8_t  space;
    uint8_t  type;                // Type
    uint8_t  vec;                 // components of a vector access
    uint8_t  flags;               // by executor
    uint16_t n;                   // slots in list
    uint32_t *list;               // more operand slots
    int64_t  imm;                 // address offset, branch target, ...
    int64_t  aux;                 // by executor
    const void *extra;            // by executor
    uint32_t line, loc;           // PTX line; index in Module.locs, 0: none
};

typedef struct Loc { uint32_t file, line, column; } Loc;

// ---- Scheduling state

typedef enum Wait {
    READY,
    W_CONVERGE,                   // an aligned operation, for the warp's other lanes
    W_BARRIER,                    // bar.sync: a = barrier, b = generation
    W_CLUSTER,                    // barrier.cluster.wait: b = generation
    W_MBARRIER,                   // a = address, b = parity
    W_REGISTERS,                  // setmaxnreg.inc: a = registers
    W_WGMMA,                      // for the other warps of the warpgroup to issue: a = sequence number
} Wait;

typedef struct Group {            // lanes of a warp that share a pc
    uint32_t pc, mask;
    Wait     wait;
    uint32_t b;
    uint64_t a;
} Group;

enum { EV_GROUP = 1, EV_YIELD = 2, EV_STOP = 4 };
enum { MAX_STACK = 1 << 16 };           // bytes a lane: frames, saved registers, alloca
enum { NAMED_BARRIERS = 16 };           // of a block

typedef struct CpAsync {          // one lane's cp.async in flight
    uint8_t  lane, size, valid, done;
    uint32_t group;               // the lane's group number
    uint32_t dst;                 // shared address
    uint32_t clock;               // of the warp's cp.async agent
    const uint8_t *src;
    const Insn *in;
} CpAsync;

typedef struct Func Func;
typedef struct Call {             // of one lane, from its return on
    uint32_t pc, frame, top;      // the caller's
    uint32_t cost;                // of the stack's bytes
    const Func *func;
    uint8_t *saved;               // the function's registers, where it was running already; or NULL
} Call;

typedef struct AsyncOp AsyncOp;

struct Warp {
    char    *base[4];
    uint32_t pc, mask;            // the running group
    uint32_t active;              // its lanes that the current instruction's guard lets through
    uint32_t limit;               // lowest pc above ours where another group waits to merge
    uint32_t event;
    Block   *block;
    Launch  *launch;
    Cluster *cluster;
    uint32_t live;                // lanes that have not exited
    uint32_t id;                  // in the block
    uint32_t agent;               // in the cluster, for vector clocks: agents agent .. agent + 7
    Group    groups[33];          // the others; [n_groups] is scratch
    uint32_t n_groups;
    uint32_t turns;               // for fairness between groups
    uint32_t cluster_generation;  // of its last barrier.cluster.arrive
    uint32_t carry;               // CC.CF, a bit a lane
    uint32_t registers;           // setmaxnreg: per thread
    uint8_t *local[2];            // 32 lanes of local memory: the kernel's, the functions' frames
    uint32_t stack_bytes;         // of local[1], a lane
    Call    *calls[32];
    uint32_t depth[32], cap_calls[32], top[32], used[32];    // top: where the next frame begins; used: of MAX_STACK
    uint32_t *vc, *fv;            // vector clocks: seen, and seen through a proxy fence
    CpAsync *copies;              // cp.async in flight
    uint32_t n_copies, cap_copies, copy_clock;
    uint32_t copy_group[32];      // lane's current cp.async group
    uint32_t bulk_group[32], bulk_clock, store_clock;
    AsyncOp *wgmma_first, **wgmma_last;      // in program order
    uint32_t wgmma_group, wgmma_clock;       // of the group being filled; sequence number of the last issued
    bool     wgmma_fenced;
    uint8_t *inflight;            // per register slot/4: 1 read, 2 written by a wgmma in flight; or NULL
    uint32_t n_inflight;
    const uint8_t *hit, *hit_end; // last allocation: host bytes,
    uint64_t hit_base;            // and device address
    const uint8_t *hit_init;
    uint32_t waited;              // lanes that are past griddepcontrol.wait; all, if the launch is not early
    bool     polled;              // ended its turn on a wait that answered no
    const Insn *storing;          // a plain store or stmatrix, while it checks its addresses
    const uint8_t (*storing_rows)[16];       // of stmatrix: what each lane's row will be
    const Insn *watches;          // the last strong load or atomic that changed nothing, and what it read
    uint32_t watched;
    uint64_t effects;             // what it changed outside its registers, counted; see idle.c
    struct Idle { uint64_t effects, progress, changes, turns, marked, state; bool recurs; } idle;
    uint64_t rng;
    EmuCounters count;
};

typedef struct Shadow { uint64_t write, read[2]; } Shadow;   // see shadow.c
typedef struct ShadowWords { Shadow word[4]; } ShadowWords;

typedef struct Barrier {
    uint32_t expected, arrived;   // threads; expected 0: all of the block
    uint32_t generation;
    uint32_t waiting;             // groups in W_BARRIER
    uint32_t popc, all, any, result;
    uint32_t *vc;
} Barrier;

typedef struct Mbarrier {         // in a list of its block
    uint32_t address;             // offset in the block's shared memory
    uint32_t count;               // arrivals a phase
    int64_t  pending, tx;
    uint64_t phase;
    uint32_t *vc;
    uint32_t *vc_done;            // as of the last completed phase
} Mbarrier;

struct Block {
    Cluster *cluster;
    uint32_t id[3], rank;
    uint8_t *shared;              // [shared_size]; offsets below SHARED_START are valid only where reserved memory is named
    uint8_t *init;                // a bit per byte of each word
    Shadow  *shadow;              // a record for each 16 bytes,
    ShadowWords *apart;           // or for each word of them
    uint32_t n_apart, cap_apart, free_apart;
    uint32_t shared_size;
    Warp   **warps;
    uint32_t n_warps, n_live;
    Barrier  barriers[NAMED_BARRIERS];
    Mbarrier *mbars;
    uint32_t n_mbars, cap_mbars;
    uint32_t *atomic_vc;
    int64_t  free_registers;
    bool     started;
};

struct Cluster {
    Launch  *launch;
    Block   *blocks;
    uint32_t n_blocks;
    Warp    *warps;               // of all blocks
    uint32_t n_warps, n_live;
    uint32_t clocks;              // length of a vector clock
    uint32_t arrived, generation; // barrier.cluster
    uint32_t *vc;
    AsyncOp *async_first, **async_last;      // bulk operations in flight, the oldest first
    AsyncOp *async_slow;                     // .. those that others overtake, the youngest first
    AsyncOp *at_hand;                        // in no list: being made, or run
    uint32_t n_quick;                        // of the former
    uint64_t progress;            // counts what could wake something
    uint64_t rng;
    uint8_t *arena;
    bool     give_up;             // try_wait answers no in this round: nothing else can move
};

enum { AGENT_WARP, AGENT_COPY, AGENT_BULK, AGENT_STORE, AGENT_WGMMA, AGENTS = 8 };
enum { ASYNC_LOAD, ASYNC_STORE };

struct AsyncOp {
    AsyncOp *next;
    void   (*read)(AsyncOp *);    // a store's first half: takes the bytes out of shared memory
    void   (*run)(AsyncOp *);     // all of it, or the rest
    Warp    *warp;
    const Insn *in;
    uint8_t  kind, lane;          // ASYNC_*
    bool     read_done, done, slow;
    uint32_t group, clock;
    uint32_t shared, size, extent; // its shared memory: full address; bytes; bytes from first to last
    uint64_t global;              // or the other shared address
    uint32_t mbar, blocks;        // mbarrier's shared address; multicast mask, 0: the address says
    int32_t  coord[5], offset[3];
    uint8_t  map[128];
    uint8_t *bytes;               // a store's bytes between its halves
    uint32_t *vc;                 // what the warp had seen, where completing it releases that (st.async); or NULL
    uint64_t desc[2];             // wgmma
    bool     scale_d;
};

#define SHARED_START   1024u
#define SHARED_WINDOW  0x700000000000ull      // generic addresses
#define LOCAL_WINDOW   0x600000000000ull
#define PARAM_WINDOW   0x500000000000ull
#define CODE_WINDOW    0x400000000000ull      // addresses of functions: 16 * (1 + index)
#define FUNC_LOCAL     0x01000000u            // local offsets from here on are in the functions' frames
#define WINDOW_MASK    0xffff00000000ull
#define RANK_SHIFT     24

// ---- Memory, modules

typedef struct Alloc {
    uint64_t address;
    size_t   size;
    uint8_t *bytes;
    uint8_t *init;                // a bit per byte
    char    *name;
    void    *raw;
} Alloc;

struct EmuContext {
    Alloc   *allocs;              // by address
    size_t   n_allocs, cap_allocs;
    uint64_t next;
    EmuModule *modules;
    char     message[EMU_MESSAGE];
};

typedef struct Arena Arena;
void *emu_arena_alloc(Arena **, size_t);
void  emu_arena_free(Arena **);
void *emu_grown(void *p, uint32_t *cap, uint32_t first, size_t size);     // room for more at the end of a full array: twice as much

// Where the host has no memory left, whoever asked gives up: the reader its module, a worker its launch. Each thread that
// asks has set where it goes on then, and a value that is none.
enum { NO_ROOM = 2 };
extern _Thread_local jmp_buf *emu_no_room;
_Noreturn void emu_give_up(void);
static inline void *emu_got(void *p) {
    if (!p) emu_give_up();
    return p;
}

enum { MAX_PARAM_BYTES = 32768 };

typedef struct SharedVar { struct SharedVar *next; const char *name; uint32_t offset, size; bool dynamic; } SharedVar;

struct Kernel {
    EmuKernel info;
    Kernel   *next;
    uint32_t  entry;              // pc
    uint32_t  reg_bytes;
    uint32_t  shared_end;         // static: an offset from SHARED_START
    uint32_t  dynamic_align;
    uint32_t  local_bytes;
    uint32_t  min_blocks;         // .minnctapersm; 0 where not given
    uint32_t  most_registers;     // that setmaxnreg.inc asks for; 0: there is none
    SharedVar *shared_vars;
    uint32_t  line;
};

struct EmuModule {
    EmuContext *context;
    EmuModule  *next;
    Arena      *arena;
    Insn       *code;
    uint32_t    n_code, cap_code;
    Kernel     *kernels, **last_kernel;
    Kernel    **by_index;
    size_t      n_kernels;
    char       *consts;           // 32 copies of each
    uint32_t    const_bytes, cap_consts;
    uint32_t   *const_hash, const_hash_size, n_consts;
    uint32_t    func_reg_bytes;
    struct KernelBlock { uint32_t at, size; } *heap_blocks;      // what malloc has given, by address
    uint32_t    n_heap, cap_heap;
    uint64_t    heap;             // its address, 0: nothing calls malloc
    Func      **funcs;
    uint32_t    n_funcs, cap_funcs;
    uint32_t    func_shared_end;  // module-wide static shared memory, when there are device functions
    SharedVar  *func_shared_vars;
    Loc        *locs;
    uint32_t    n_locs, cap_locs;
    struct SourceFile { uint32_t number; char *name; } *files;
    uint32_t    n_files, cap_files;
    struct GlobalVar { struct GlobalVar *next; const char *name; uint64_t address; size_t size; } *globals;
    uint32_t    target, ptx_version;
    const char *target_name;
    bool        has_functions;
    bool        uses_workspace;   // it asks for the memory that a cooperative launch gives a grid
    bool        uses_reserved;    // it names the shared memory below SHARED_START, which the driver keeps
};

Alloc  *emu_memory_find(EmuContext *, uint64_t address);           // the one that holds it, else NULL
void    memory_mark_written(EmuContext *, uint64_t address, size_t size);
void    memory_describe(EmuContext *, uint64_t address, size_t size, char *out, size_t n);
const struct SourceFile *module_file(const EmuModule *, uint32_t number);
EmuStatus emu_error(EmuContext *, EmuStatus, const char *format, ...) __attribute__((format(printf, 3, 4)));

static inline uint64_t rng_next(uint64_t *s) {                 // splitmix64
    uint64_t z = (*s += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}
void emu_junk_fill(void *, size_t, EmuFill, uint64_t seed);

// ---- Running

struct Launch {
    EmuContext *context;
    EmuModule  *module;
    Kernel     *kernel;
    EmuOptions  options;
    EmuReport  *report;
    uint32_t    grid[3], block[3], cluster[3];
    uint32_t    dynamic_shared, shared_size;
    uint32_t    shared_from;      // the first byte of a block's that may be named: SHARED_START, or 0
    uint8_t    *params;
    uint64_t    n_clusters;
    atomic_uint_fast64_t next_cluster, budget;
    atomic_bool stop, no_room;
    atomic_uint n_faults;
    pthread_mutex_t lock;         // report, printing
    bool        races;
    _Atomic uint64_t changes;     // turns of warps after which something was different
    _Atomic uint64_t *stuck;      // of each worker: 1 + changes where all that it has only repeats itself; ~0: it has ended
    uint64_t    workspace;        // of a launch whose blocks wait for each other; 0: of another
    uint32_t    n_workers;
    atomic_uint next_worker;
};

// Reports a fault of the current instruction; the launch goes on until it has max_faults.
void emu_fault(Warp *, const Insn *, int lane, EmuFaultKind, const char *format, ...) __attribute__((format(printf, 5, 6)));
void emu_fault_stop(Warp *, const Insn *, int lane, EmuFaultKind, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void emu_insn_place(const Launch *, const Insn *, char *out, size_t n);    // "gemm.tk:14" or "PTX line 20"

// warps.c
void warp_push(Warp *, uint32_t pc, uint32_t mask);            // another group
bool warp_block(Warp *, Wait, uint64_t a, uint32_t b, uint32_t pc);    // the active lanes wait at pc
bool warp_converge(Warp *, const Insn *, uint32_t needed);     // true: all of `needed` are here
// True: all of `needed` are at such an instruction, of that key, whichever; the others of them go on behind theirs, or wait there.
bool warp_gather(Warp *, const Insn *, uint32_t key, uint32_t needed, Group then);
void warp_exit_lanes(Warp *, uint32_t mask);
bool warp_has_ready(const Warp *);
void warp_ready(Warp *, Wait, uint64_t a, uint32_t b);         // wakes matching groups
uint32_t warp_run(Warp *, uint32_t quantum);                   // instructions done

// frames.c: what device functions keep, a stack for each lane
bool frame_push(Warp *, const Insn *, int lane, const Func *, uint32_t pc);      // false: too deep, reported
Call frame_pop(Warp *, int lane);                              // the caller's frame is current again
bool frame_reserve(Warp *, const Insn *, int lane, uint32_t end, uint32_t cost);
uint8_t *frame_at(const Warp *, int lane, uint32_t local);     // of a local offset, the kernel's too
uint32_t frame_variable(const Warp *, int lane, uint32_t offset);      // a variable's local offset; FUNC_LOCAL + offset: of the current frame
void frames_free(Warp *);

// idle.c: loops that nothing ends
void idle_turn(Warp *);                                        // after each turn
bool idle_all(Cluster *, uint64_t changes);                    // every warp waits, or repeats itself since so many changes
bool idle_for_ever(Launch *, uint32_t worker, bool stuck, uint64_t changes);   // so does all that runs, and nothing is left to start

// kernel_heap.c: malloc and free of device code, a heap for each module
bool heap_create(EmuModule *);
uint64_t kernel_malloc(Launch *, uint64_t size);                  // 0: there is no room
bool kernel_free(Launch *, uint64_t address);                    // false: not an address that it gave

// flight.c
AsyncOp *async_new(Warp *, const Insn *);
void async_append(Cluster *, AsyncOp *);
void async_free(AsyncOp *);
void async_drop(Cluster *);                                    // the one that was made last
AsyncOp *async_next(const Cluster *, const AsyncOp *);        // all that are in flight: NULL gives the first
void async_sweep(Cluster *);                                   // drops those that are done
bool async_step(Cluster *, bool slow);                         // completes one, if there is no other a slow one; false: there is none

// launch.c
void barrier_complete(Block *, uint32_t id);
bool barrier_is_full(const Block *, uint32_t id);
void cluster_barrier_check(Cluster *);
// mbarrier.c
Mbarrier *mbar_find(Block *, uint32_t offset);
void mbar_init(Block *, uint32_t offset, uint32_t count);
void mbar_drop(Block *, uint32_t offset);
void mbar_arrive(Warp *, const Insn *, int lane, Block *, Mbarrier *, uint32_t count, int64_t expect, bool release);
void mbar_complete(AsyncOp *, uint32_t address, int64_t bytes);        // complete_tx by a bulk operation
void mbar_check(Block *, Mbarrier *);

// tensormap.c
typedef enum TensorField {
    TENSOR_ADDRESS, TENSOR_RANK, TENSOR_BOX, TENSOR_DIM, TENSOR_STRIDE, TENSOR_ELEMENT_STRIDE, TENSOR_TYPE, TENSOR_INTERLEAVE,
    TENSOR_SWIZZLE, TENSOR_FILL, TENSOR_FIELDS,
} TensorField;
void tensor_replace(uint8_t map[128], TensorField, uint32_t i, uint64_t value);
uint32_t tensor_box_bytes(const uint8_t map[128], bool im2col);
bool tensor_check(Warp *, const Insn *, int lane, const uint8_t map[128], uint32_t rank, bool im2col);
void tensor_walk(AsyncOp *, bool im2col, uint8_t *box, bool load, int reduce);
uint32_t tensor_counted(const uint8_t map[128], uint32_t size);
uint32_t tensor_swizzle(const uint8_t map[128]);
uint32_t tensor_inner(const uint8_t map[128]);
uint64_t tensor_base(const uint8_t map[128]);
uint32_t tensor_pitch(const uint8_t map[128]);
bool tensor_aligned(Warp *, const Insn *, int lane, const uint8_t map[128], int32_t coordinate);

// bulk.c: the halves of bulk operations
void bulk_load(AsyncOp *);
void bulk_read(AsyncOp *);
void bulk_store(AsyncOp *);
void bulk_left(Block *);                               // the block has ended

uint64_t atomic_apply(uint8_t *p, int op, Type, uint64_t b);   // x_atomic.c; op indexes add min max inc dec and or xor

void warp_drain(Warp *);                                       // x_async.c: what it left in flight
uint32_t launch_dynamic_base(const Launch *);                  // offset of dynamic shared memory

// shadow.c
void shadow_access(Warp *, const Insn *, uint32_t lanes, Block *, const uint32_t *offset, uint32_t size, bool write, bool atomic);
// Accesses of one agent that are being checked: its record, what it is ordered after, and what was found to be no conflict.
typedef struct Access {
    uint64_t mine, fine, fenced;
    const uint32_t *vc, *fv;
    bool     write;
} Access;
// An asynchronous helper's: `vc` is what its issuer had seen, `fv` (for reads) what it may rely on having been fenced.
Access shadow_helper(Warp *, const Insn *, bool write, uint32_t agent, uint32_t clock, const uint32_t *vc, const uint32_t *fv);
bool shadow_reach(Access *, Warp *, const Insn *, Block *, uint32_t offset, uint32_t size);        // false: it was reported
void shadow_async(Warp *, const Insn *, Block *, uint32_t offset, uint32_t size, bool write,
                  uint32_t agent, uint32_t clock, const uint32_t *vc, const uint32_t *fv);          // both
void shadow_init(Block *, uint32_t offset, uint32_t size);
bool shadow_is_init(const Block *, uint32_t offset, uint32_t size);
void vc_join(uint32_t *to, const uint32_t *from, uint32_t n);
void vc_release(Warp *, uint32_t *to);                         // to = max(to, ours), our clock moves on
void vc_acquire(Warp *, const uint32_t *from);
uint32_t *vc_new(const Cluster *);
void shared_describe(const Launch *, uint32_t offset, char *out, size_t n);

// ---- Reading and decoding

typedef struct Str { const char *s; uint32_t n; } Str;
static inline bool ptx_str_is(Str s, const char *text) {       // most differ in the first character
    return s.n ? *s.s == *text && !strncmp(s.s, text, s.n) && !text[s.n] : !*text;
}

typedef enum SymKind { SYM_REG, SYM_VAR, SYM_LABEL, SYM_FUNC } SymKind;

struct Func {
    Str      name;
    uint32_t entry;               // pc; NO_SLOT until its body came
    uint32_t index;
    struct Sym *params[64], *rets[8];
    uint32_t n_params, n_rets;
    uint32_t frame_bytes;         // parameters, results, .local and .param variables
    struct FuncSlot { uint32_t slot; uint8_t shift; bool is_pred; } *slots;  // its registers; 1 << shift bytes a lane
    uint32_t n_slots, cap_slots, saved_bytes;
    Func    *alias;               // .alias: what it stands for
    bool     is_kernel;
    bool     declared;            // its parameters and results are known
};

typedef struct Sym {
    struct Sym *next;             // in the hash bucket
    Str      name;
    SymKind  kind;
    uint32_t scope;
    Type     type;                // register: its type
    uint32_t vec;
    uint32_t slot;                // register: NO_SLOT until used
    uint32_t *range;              // %r<n>: the slots
    uint32_t count;               // n, 0 for a single one
    bool     is_range;            // %r and %r<n> may both be there
    uint8_t  space;               // variable
    bool     external;
    uint64_t offset, size;        // variable: address or offset
    uint32_t align;
    bool     placed;
    uint32_t pc;                  // label
    Func    *func;
    bool     in_func;             // belongs to a device function
    struct Sym **labels;          // .branchtargets
    uint32_t n_labels;
} Sym;

typedef enum OperandKind { O_NONE, O_REG, O_IMM, O_F32, O_F64, O_SYM, O_VEC, O_ADDR, O_SINK, O_SPECIAL } OperandKind;

typedef struct Operand {
    OperandKind kind;
    bool     negated;             // !%p
    bool     minus;               // -%r, of vmad
    bool     is_unsigned;         // O_IMM: of a constant expression
    Str      select;              // %r.b0, of video instructions
    Sym     *sym;
    uint32_t slot;                // O_REG, O_SPECIAL
    Type     type;                // O_REG: the register's type
    uint64_t bits;                // O_IMM; O_F32, O_F64: the raw bits
    int64_t  offset;              // O_ADDR: + offset
    Str      name;                // O_SYM not known (a label still to come), O_SPECIAL
    struct Operand *items;        // O_VEC; O_ADDR [a, {b, c}]: items[0] = {b, c}
    uint32_t n;
    struct Operand *pair;         // %p|%q
} Operand;

enum { MAX_OPERANDS = 24, MAX_MODS = 24 };

// What decoding notes of a kernel's registers, for slots.c.
typedef enum SlotUse {
    SLOT_READ,
    SLOT_WRITTEN,                 // where no guard stands before it: all of it
    SLOT_PERHAPS,
    SLOT_BETWEEN,                 // written, then read, by the same statement
} SlotUse;
typedef struct SlotTouch { uint32_t slot; SlotUse use; } SlotTouch;
typedef struct SlotStatement { uint32_t pc, touches; bool ends, own; } SlotStatement;     // ends: nothing goes on behind it
typedef struct SlotMade { uint32_t slot, bytes; } SlotMade;
typedef struct SlotJump { uint32_t from, to; } SlotJump;
typedef struct SlotLog {
    SlotTouch     *touches;
    SlotStatement *statements;
    SlotMade      *made;
    SlotJump      *jumps;
    uint32_t     **places;        // slots that are kept outside of an instruction's fields
    uint32_t       n_touches, cap_touches, n_statements, cap_statements, n_made, cap_made, n_jumps, cap_jumps, n_places, cap_places;
    uint32_t       entry;
    void          *held[8];
    uint32_t       n_held;
} SlotLog;

struct Dec {                      // the statement being decoded, and where its code goes
    EmuModule *module;
    Kernel   *kernel;             // NULL in a device function
    uint32_t *reg_bytes;          // where new registers go
    uint32_t  base;               // BASE_REGS or BASE_FUNCS
    Str       name;
    Str       mods[MAX_MODS];
    Type      types[MAX_MODS];    // of mods[i]; T_none
    uint32_t  n_mods, used;       // bit i: mods[i] was taken
    Operand   ops[MAX_OPERANDS];
    uint32_t  n_ops;
    uint32_t  guard;
    bool      guard_not;
    uint32_t  line, loc;
    uint8_t   cls;
    uint8_t   traits;             // of the instruction
    bool      known, vector;      // its types are in a table; its registers are elements of a vector
    uint32_t  first;              // pc of the statement's first instruction
    struct Widen { uint32_t to, from; uint8_t type; } widen[300];
    uint32_t  n_widen;
    struct InRegister { Sym *sym; uint32_t slot, offset; Type type; bool is_result; } in_registers[72];     // of the function
    uint32_t  n_in_registers;
    SlotLog  *slots;              // of a kernel; NULL in a device function
    void     *reader;
    jmp_buf  *on_error;
};

// types.c
struct TypeRow;
enum { TRAIT_WIDER = 1, TRAIT_SPECIALS = 2, TRAIT_ADDRESSES = 4, TRAIT_SINKS = 8, TRAIT_VECTORS = 16 };
void types_prepare(void (*found)(Str name, const struct TypeRow *first, uint8_t trait));
void types_check(Dec *, const struct TypeRow *first);       // NULL: the instruction says itself what it takes
bool ptx_fits(Type reg, Type, bool wider, bool vector);

// slots.c
void slots_begin(SlotLog *, uint32_t code);
void slots_free(SlotLog *);
void slots_statement(Dec *, bool ends);
void slots_touch(Dec *, uint32_t slot, SlotUse);
void slots_made(Dec *, uint32_t slot, uint32_t bytes);
void slots_own(Dec *);                              // what the statement names is in use until nobody knows when
void slots_place(Dec *, uint32_t *);
void slots_jump(Dec *, uint32_t from, uint32_t to); // pcs
void slots_share(Dec *);                            // the kernel's code is whole

typedef struct InsnDef {
    const char *name;             // the part before the first dot
    void      (*decode)(Dec *);
    uint8_t     cls;
} InsnDef;

typedef struct InsnTable { const InsnDef *defs; } InsnTable;

_Noreturn void dec_error(Dec *, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void dec_error_at(Dec *, uint32_t line, const char *format, va_list args);

bool     dec_mod(Dec *, const char *);              // takes the modifier if it is there
bool     dec_has(const Dec *, const char *);
bool     dec_prefix(Dec *, const char *, Str *rest);   // takes one that starts so
Type     dec_type(Dec *);                           // takes the next type modifier, in order; T_none
Type     dec_need_type(Dec *);
static inline uint64_t func_address(const Func *f) { return CODE_WINDOW | (uint64_t)(f->index + 1) << 4; }
uint32_t dec_src(Dec *, uint32_t i, Type);          // operand i as a slot of that type's width
uint32_t dec_src_op(Dec *, const Operand *, Type);
uint32_t dec_dst(Dec *, uint32_t i, Type);
uint32_t dec_dst_op(Dec *, const Operand *, Type);
uint32_t dec_temp(Dec *, Type);                     // that the statement itself writes and reads
uint32_t dec_pred(Dec *, const Operand *);          // a predicate source; negation resolved
uint32_t dec_pred_dst(Dec *, const Operand *);      // NO_SLOT for _
int64_t  dec_imm(Dec *, uint32_t i);                // an integer constant
void     dec_address(Dec *, const Operand *, Insn *, uint8_t space);   // sets a, imm, flags' ADDR32
void     decode_frame(Dec *, uint32_t slot, Type, uint32_t offset, bool get);      // frames.c: a register from a variable, or to it
void     dec_count(Dec *, uint32_t low, uint32_t high);
Insn    *dec_emit(Dec *, InsnFn *);
uint32_t *dec_list(Dec *, Insn *, uint32_t n);
void    *dec_alloc(Dec *, size_t);
const Operand *dec_op(Dec *, uint32_t i);
uint8_t  dec_space(Dec *);                          // takes .global, .shared, ... ; SPACE_GENERIC
void     dec_cache_hints(Dec *);                    // takes every cache qualifier
void     dec_sem(Dec *, bool *acquire, bool *release);
void     reader_fix_branch(Dec *, Insn *, const Operand *);

enum { ADDR32 = 1, F_ATOMIC = 2, F_ACQUIRE = 4, F_RELEASE = 8, F_RELAXED = 32, F_MBAR32 = 64, F_CALL = 128 };

extern InsnFn x_widen_u, x_widen_s, x_narrow, x_pred_not;
extern const InsnTable insn_tables_base[], insn_tables_v3[];

#endif

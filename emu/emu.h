// The emulator: runs the PTX text that a GPU would get, on the CPU, and says what is wrong with it.
//
// A context owns device memory; a module is PTX read and decoded once; a launch runs one kernel of it
// over a grid and fills a report. Nothing here needs a GPU, a driver or LLVM.
//
//     EmuContext *emu = emu_create();
//     uint64_t x;  emu_alloc(emu, 4096, "x", &x);  emu_write(emu, x, data, 4096);
//     EmuModule *module = emu_load(emu, ptx, strlen(ptx));        // NULL: see emu_message(emu)
//     void *params[] = {&x, &n};                                  // as for cuLaunchKernel
//     EmuReport report;
//     emu_launch(emu, module, "scale", (uint32_t[]){8, 1, 1}, (uint32_t[]){128, 1, 1}, NULL, 0,
//                params, NULL, &report);                          // EMU_FAULTED: see the report
//     emu_report_print(&report, stderr);  emu_report_free(&report);
//
// What it promises. Integer, logic, conversion, add, multiply, fma, divide and square root results are
// those of the PTX manual, bit for bit (NaN results are canonical). The approximate functions (ex2, lg2,
// sin, rsqrt, tanh, ...) are computed in double and rounded once: more exact than the hardware's. An mma
// or wgmma takes exact products, sums the products of one instruction and its accumulator in double,
// and rounds once to the accumulator's type. Asynchronous copies and wgmma take effect as late as the
// program's own waits allow (EmuOptions.async), so that a missing wait shows in the data too.
//
// A context may be used by one thread at a time; a launch uses threads of its own.
#ifndef TK_EMU_EMU_H
#define TK_EMU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct EmuContext EmuContext;
typedef struct EmuModule  EmuModule;

typedef enum EmuStatus {
    EMU_OK,
    EMU_INVALID,            // a bad argument, address, shape or PTX text; emu_message says which
    EMU_OUT_OF_MEMORY,
    EMU_NOT_FOUND,          // no such kernel or variable
    EMU_FAULTED,            // the launch ran and its report has faults
} EmuStatus;

EmuContext *emu_create(void);
void        emu_destroy(EmuContext *);              // frees its modules and memory too
enum { EMU_MESSAGE = 512 };                         // bytes of it at most, its end counted
const char *emu_message(const EmuContext *);        // what the last call that failed had to say

// ---- Device memory: each allocation at its own 256-aligned address, unmapped bytes around it

typedef enum EmuFill { EMU_FILL_ZERO, EMU_FILL_NAN, EMU_FILL_INF, EMU_FILL_RANDOM } EmuFill;

// `name` is copied and stands in messages. The bytes are junk and count as uninitialised.
EmuStatus emu_alloc(EmuContext *, size_t size, const char *name, uint64_t *address);
EmuStatus emu_free(EmuContext *, uint64_t address);
EmuStatus emu_write(EmuContext *, uint64_t address, const void *bytes, size_t size);
EmuStatus emu_read(EmuContext *, void *bytes, uint64_t address, size_t size);
// Junk: every f32, f16, bf16 and f8 in it is NaN (EMU_FILL_NAN), every 16-bit float infinite and every
// f32 NaN (EMU_FILL_INF), or random bits. Leaves the bytes uninitialised, EMU_FILL_ZERO initialised.
EmuStatus emu_fill(EmuContext *, uint64_t address, size_t size, EmuFill, uint64_t seed);
// The host bytes behind a range that lies in one allocation, else NULL. Valid until emu_free.
void     *emu_host(EmuContext *, uint64_t address, size_t size);

// ---- Modules

EmuModule *emu_load(EmuContext *, const char *ptx, size_t length);   // NULL: emu_message = "line N: ..."
// What the text declares, of any target: bodies are passed over, nothing of it can be launched.
EmuModule *emu_outline(EmuContext *, const char *ptx, size_t length);
void       emu_unload(EmuContext *, EmuModule *);

typedef struct EmuParam {
    uint32_t    offset, size, align;
    const char *name, *type;                                 // "u64", without its dot
    uint32_t    count;                                       // elements of an array; 1 of a scalar
} EmuParam;

typedef struct EmuKernel {
    const char     *name;
    const EmuParam *params;
    uint32_t        n_params, param_bytes;
    uint32_t        reqntid[3], maxntid[3], reqcluster[3];   // 0, 0, 0 where not given
    uint32_t        static_shared;                           // bytes
    uint32_t        local_bytes;                             // .local bytes a thread
    uint32_t        instructions;                            // decoded
    uint32_t        maxnreg;                                 // 0 where not given
    bool            dynamic_shared;                          // it names shared memory whose size the launch says
} EmuKernel;

size_t           emu_kernel_count(const EmuModule *);
const EmuKernel *emu_kernel(const EmuModule *, size_t i);
const EmuKernel *emu_find_kernel(const EmuModule *, const char *name);            // NULL: none
EmuStatus emu_find_variable(EmuContext *, const EmuModule *, const char *name, uint64_t *address, size_t *size);
uint32_t  emu_target(const EmuModule *);                                         // 90 for sm_90a
const char *emu_target_name(const EmuModule *);                                  // "sm_90a"
uint32_t  emu_ptx_version(const EmuModule *);                                    // 88 for 8.8

// ---- Tensor maps: 128 bytes of our own in place of a CUtensorMap; arguments as cuTensorMapEncode*

enum {                      // dtype: CUtensorMapDataType's values
    EMU_TM_U8, EMU_TM_U16, EMU_TM_U32, EMU_TM_S32, EMU_TM_U64, EMU_TM_S64, EMU_TM_F16, EMU_TM_F32,
    EMU_TM_F64, EMU_TM_BF16, EMU_TM_F32_FTZ, EMU_TM_TF32, EMU_TM_TF32_FTZ, EMU_TM_16U4_ALIGN8B, EMU_TM_16U4_ALIGN16B, EMU_TM_16U6_ALIGN16B,
};
enum { EMU_TM_INTERLEAVE_NONE, EMU_TM_INTERLEAVE_16B, EMU_TM_INTERLEAVE_32B };
enum { EMU_TM_SWIZZLE_NONE, EMU_TM_SWIZZLE_32B, EMU_TM_SWIZZLE_64B, EMU_TM_SWIZZLE_128B };
enum { EMU_TM_OOB_ZERO, EMU_TM_OOB_NAN };

typedef struct EmuTensorMap { _Alignas(64) uint8_t bytes[128]; } EmuTensorMap;

EmuStatus emu_tensor_map_encode_tiled(EmuContext *, EmuTensorMap *, int dtype, uint32_t rank, uint64_t base,
    const uint64_t *dims, const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
    int interleave, int swizzle, int l2_promotion, int oob_fill);
EmuStatus emu_tensor_map_encode_im2col(EmuContext *, EmuTensorMap *, int dtype, uint32_t rank, uint64_t base,
    const uint64_t *dims, const uint64_t *strides, const int *lower_corner, const int *upper_corner,
    uint32_t channels, uint32_t pixels, const uint32_t *element_strides,
    int interleave, int swizzle, int l2_promotion, int oob_fill);

// ---- Launches

typedef enum EmuAsync {
    EMU_ASYNC_LATE,         // copies and wgmma take effect when something waits for them
    EMU_ASYNC_EAGER,        // at once
    EMU_ASYNC_RANDOM,       // somewhere in between, by order_seed; one of eight long after others
} EmuAsync;

typedef struct EmuRange { uint64_t address, size; } EmuRange;

typedef struct EmuOptions {            // all zero is the default
    uint64_t junk_seed;                // contents of registers, shared and local memory before a write
    EmuFill  junk;                     // EMU_FILL_ZERO here means random
    uint64_t order_seed;               // order of warps; 0: round robin
    EmuAsync async;
    int      threads;                  // 0: one per online core
    int      max_faults;               // 0: 16; the launch ends when it has that many
    uint64_t budget;                   // warp instructions for the launch; 0: 2^40
    bool     allow_races;              // no race reports
    bool     allow_uninitialised;      // no reports for uninitialised shared memory
    bool     partial;                  // none where wgmma reads it: tiles at a tensor's end are not brought whole, and what lies there makes dead lanes
    bool     check_global_init;        // reads of never-written global bytes are faults
    bool     together;                 // a cooperative launch: its blocks may wait for each other, as CUDA's grid groups do
    bool     early;                    // launched before those that it follows have ended: reads and writes before
    const EmuRange *fixed;             // griddepcontrol.wait are faults, but for reads of these
    size_t   n_fixed;
    bool     no_counters;              // skip sectors and bank conflicts
    void   (*print)(void *, uint32_t thread, const char *text, size_t length);   // for vprintf, of a block's thread; NULL: stdout
    void    *print_data;
} EmuOptions;

#define EMU_FAULT_KINDS(X) \
    X(OUT_OF_BOUNDS,    "out of bounds")                /* the address lies in no allocation      */ \
    X(MISALIGNED,       "misaligned access")                                                        \
    X(UNINITIALISED,    "uninitialised read")           /* shared memory, or global when asked    */ \
    X(RACE,             "shared-memory race")           /* two warps, one writes another value    */ \
    X(MISSING_WAIT,     "missing wait")                 /* data of an async operation in flight   */ \
    X(MISSING_FENCE,    "missing proxy fence")          /* generic write, then async-proxy read   */ \
    X(DEADLOCK,         "deadlock")                                                                 \
    X(DIVERGENCE,       "divergence")                   /* an aligned operation by part of a warp */ \
    X(BAD_OPERAND,      "bad operand")                  /* descriptor, tensor map, barrier, count */ \
    X(REGISTERS,        "register budget")              /* setmaxnreg                             */ \
    X(TRAP,             "trap")                                                                     \
    X(BUDGET,           "instruction budget exhausted")

typedef enum EmuFaultKind {
#define X(name, text) EMU_FAULT_##name,
    EMU_FAULT_KINDS(X)
#undef X
} EmuFaultKind;

typedef struct EmuFault {
    EmuFaultKind kind;
    char        *message;              // one sentence
    char        *kernel;
    uint32_t     block[3], warp, lane; // lane: the first one concerned
    char        *file;                 // from .loc; NULL when the PTX has none
    uint32_t     line, column, ptx_line;
} EmuFault;

#define EMU_CLASSES(X) \
    X(INTEGER, "integer")  X(FLOAT, "float")    X(CONVERT, "convert") X(MOVE, "move")    X(CONTROL, "control")  \
    X(GLOBAL, "global")    X(SHARED, "shared")  X(LOCAL, "local")     X(ATOMIC, "atomic") X(WARP, "warp")       \
    X(BARRIER, "barrier")  X(ASYNC, "async")    X(MMA, "mma")         X(OTHER, "other")

typedef enum EmuClass {
#define X(name, text) EMU_CLASS_##name,
    EMU_CLASSES(X)
#undef X
    EMU_CLASS_COUNT
} EmuClass;

// How many instructions of each class the kernel's code has, as written once.
void emu_kernel_classes(const EmuModule *, const EmuKernel *, uint32_t counts[EMU_CLASS_COUNT]);
const char *emu_class_name(EmuClass);

typedef struct EmuCounters {
    uint64_t instructions[EMU_CLASS_COUNT];   // warp instructions, by class
    uint64_t lane_instructions;               // active lanes of them all
    uint64_t global_requests, global_sectors; // 32-byte sectors that the warps' loads and stores touch
    uint64_t shared_requests, shared_cycles;  // conflict-free: as many cycles as 128-byte wavefronts
    uint64_t shared_conflicts;                // cycles beyond that
    uint64_t mma_flops;                       // 2 * m * n * k of each mma and wgmma
    uint64_t async_bytes;                     // moved by cp.async and bulk copies
} EmuCounters;

typedef struct EmuReport {
    EmuFault   *faults;
    size_t      n_faults;
    EmuCounters counters;
    double      seconds;
} EmuReport;

// `cluster` NULL: what the kernel requires, or 1. `options` and `report` may be NULL.
EmuStatus emu_launch(EmuContext *, EmuModule *, const char *kernel, const uint32_t grid[3], const uint32_t block[3],
    const uint32_t cluster[3], size_t dynamic_shared, void **params, const EmuOptions *, EmuReport *);

void        emu_report_print(const EmuReport *, FILE *);
void        emu_report_free(EmuReport *);
const char *emu_fault_name(EmuFaultKind);

#endif

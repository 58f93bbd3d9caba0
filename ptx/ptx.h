// ptx: what GPUs can do, and how PTX becomes machine code. Nothing here knows LLVM (emit.h does).
//
//   target.c   the target table: limits and capabilities, one row each GPU
//   cubin.c    PTX -> cubin with ptxas; what it says of registers and spills
//   emit.c     LLVM module -> PTX (emit.h)
#ifndef TK_PTX_PTX_H
#define TK_PTX_PTX_H

#include "lang/lang.h"

// ---- target.c ------------------------------------------------------------------------------------
// What a target can do is asked as a field (`t->has_wgmma`), never as a comparison of numbers: sm_120a
// is newer than sm_90a and has no wgmma. `since` is the oldest PTX version that has the instructions;
// a module that uses them asks for at least that one (ptx_version of PtxOptions).
//
// clang-format off
//    field          since  what
#define PTX_CAPS(X) \
    X(cp_async,       70,   "cp.async: global to shared memory without registers") \
    X(bf16,           70,   "bf16 and tf32 mma.sync, fma.rn.bf16x2, f32 to bf16 conversion") \
    X(tanh,           70,   "tanh.approx.f32") \
    X(mma_f8,         84,   "mma.sync of f8 operands") \
    X(cvt_f8,         81,   "f8 conversions") \
    X(bf16_arith,     78,   "add, sub and mul of bf16x2; bf16 to f32 conversion") \
    X(bf16_atomics,   78,   "atom.add.bf16x2") \
    X(red_vec,        81,   "red.global.add of v4.f32 and v4.bf16x2") \
    X(stmatrix,       78,   "stmatrix") \
    X(mbarrier_wait,  78,   "mbarrier.try_wait and transaction counts") \
    X(tma,            80,   "cp.async.bulk.tensor, tensor maps") \
    X(cluster,        78,   "clusters of blocks, distributed shared memory") \
    X(st_async,       81,   "st.async: to another block's shared memory, told to its mbarrier") \
    X(pdl,            78,   "griddepcontrol: programs of the next launch start early") \
    X(elect,          80,   "elect.sync") \
    X(setmaxnreg,     80,   "setmaxnreg: registers move between warp groups") \
    X(wgmma,          80,   "wgmma.mma_async") \
    X(wgmma_mixed,    84,   "wgmma.mma_async of signed by unsigned bytes") \
    X(tcgen05,        86,   "tcgen05: tensor memory") \
    X(f32x2,          86,   "fma.rn.f32x2: two f32 at once") \
    X(wide_memory,    88,   "32-byte loads and stores") \
    X(redux_f32,      86,   "redux.sync of f32") \
    X(mma_scaled,     87,   "mma.sync with block scales")
// clang-format on

typedef struct Target {
    const char *name;              // "sm_90a"
    const char *gpu;               // the product whose numbers stand in this row
    int         major, minor;      // compute capability
    int         ptx;               // lowest PTX version, 80 is 8.0

    uint32_t    smem_block;        // shared memory that one block may take, bytes
    uint32_t    smem_sm;           // of a multiprocessor
    uint32_t    smem_reserved;     // taken by the system from each block
    uint32_t    regs_sm;           // 32-bit registers of a multiprocessor
    uint32_t    threads_sm, blocks_sm;
    uint32_t    sms;               // multiprocessors
    uint64_t    l2_bytes;
    double      gbs;               // memory, GB/s
    double      tflops_f32;        // fused multiply-adds outside the tensor cores
    double      tflops_bf16;       // dense, f32 accumulation; f8 and i8 are twice that where they exist

#define X(name, since, what) bool has_##name;
    PTX_CAPS(X)
#undef X
} Target;

enum { REGS_PER_THREAD = 255, REGS_UNIT = 8, MAX_THREADS_PER_BLOCK = 1024 };   // registers come in units of 8 a thread

// offset of the bool in Target
typedef struct PtxCap { const char *name; int since; const char *what; size_t offset; } PtxCap;
extern const Target *const target_default;     // what --arch means when it is not given: sm_90a
extern const Target  target_table[];
extern const int     target_count;
extern const PtxCap  cap_table[];
extern const int     cap_count;

const Target *target_find(const char *name);               // NULL: not in the table
const Target *target_nearest(const char *name);            // for "did you mean"
const Target *target_of_device(int major, int minor);      // the newest row whose code that GPU runs, or NULL
static inline bool target_has(const Target *t, const PtxCap *c) { return *(const bool *)((const char *)t + c->offset); }
// Blocks of a multiprocessor that are resident at once: the least of what registers, shared memory, threads
// and the hardware's own limit allow. 0: a block does not fit at all.
int target_occupancy(const Target *t, int threads, int regs, uint32_t smem);

// ---- cubin.c -------------------------------------------------------------------------------------

typedef struct PtxasInfo {             // what `ptxas -v` says of one entry
    char entry[128];
    int  registers, stack, spill_stores, spill_loads;       // bytes but for registers
    int  smem;                                               // static, bytes
} PtxasInfo;

// The driver's linker as an assembler of last resort: runtime/ has one; true and `cubin`, or false and words.
typedef bool (*CubinDriver)(const char *ptx, size_t n, const Target *t, Buf *cubin, Buf *words);

char *ptxas_path(Arena *a);            // ptxas on PATH, in $CUDA_HOME/bin or /usr/local/cuda/bin, else NULL
// PTX -> cubin with ptxas, else with `driver` (NULL: there is none). `log` takes the assembler's own words (-v), each
// line as it was. False: `err` has one line that says what failed or what is missing.
bool cubin_make(Arena *a, const char *ptx, size_t n, const Target *t, CubinDriver driver, Buf *cubin, Buf *log, Buf *err);
int  ptxas_parse(const char *log, PtxasInfo *out, int max);  // entries found in `ptxas -v` output

#endif

// The target table. One row each architecture; a capability that a row does not name is false.
//
// Limits are those of the architecture (CUDA programming guide, "compute capabilities"); multiprocessors,
// memory and arithmetic rates are those of the product named, and serve the cost model and the report
// when there is no device to ask. tests/ptx tries each capability of each row on ptxas.
#include "ptx/ptx.h"

#include <string.h>

#define KiB *1024u
#define MiB *(uint64_t)(1024 * 1024)

// clang-format off
#define AMPERE  .has_cp_async = true, .has_bf16 = true, .has_tanh = true
#define ADA     AMPERE, .has_mma_f8 = true, .has_cvt_f8 = true
#define HOPPER  ADA, .has_bf16_arith = true, .has_bf16_atomics = true, .has_red_vec = true, .has_stmatrix = true, \
                .has_mbarrier_wait = true, .has_tma = true, .has_cluster = true, .has_st_async = true, .has_pdl = true, .has_elect = true, \
                .has_setmaxnreg = true
#define BLACKWELL HOPPER, .has_f32x2 = true

const Target target_table[] = {
    { .name = "sm_80",   .gpu = "A100",      .major = 8,  .minor = 0, .ptx = 70,
      .smem_block = 163 KiB, .smem_sm = 164 KiB, .smem_reserved = 1 KiB, .regs_sm = 65536, .threads_sm = 2048, .blocks_sm = 32,
      .sms = 108, .l2_bytes = 40 MiB,  .gbs = 2039, .tflops_f32 = 19.5, .tflops_bf16 = 312,
      AMPERE },
    { .name = "sm_86",   .gpu = "A40",       .major = 8,  .minor = 6, .ptx = 71,
      .smem_block = 99 KiB,  .smem_sm = 100 KiB, .smem_reserved = 1 KiB, .regs_sm = 65536, .threads_sm = 1536, .blocks_sm = 16,
      .sms = 84,  .l2_bytes = 6 MiB,   .gbs = 696,  .tflops_f32 = 37.4, .tflops_bf16 = 149.7,
      AMPERE },
    { .name = "sm_89",   .gpu = "L40S",      .major = 8,  .minor = 9, .ptx = 78,
      .smem_block = 99 KiB,  .smem_sm = 100 KiB, .smem_reserved = 1 KiB, .regs_sm = 65536, .threads_sm = 1536, .blocks_sm = 24,
      .sms = 142, .l2_bytes = 96 MiB,  .gbs = 864,  .tflops_f32 = 91.6, .tflops_bf16 = 362,
      ADA },
    { .name = "sm_90a",  .gpu = "H200",      .major = 9,  .minor = 0, .ptx = 80,
      .smem_block = 227 KiB, .smem_sm = 228 KiB, .smem_reserved = 1 KiB, .regs_sm = 65536, .threads_sm = 2048, .blocks_sm = 32,
      .sms = 132, .l2_bytes = 50 MiB,  .gbs = 4800, .tflops_f32 = 66.9, .tflops_bf16 = 989,
      HOPPER, .has_wgmma = true, .has_wgmma_mixed = true },
    { .name = "sm_100a", .gpu = "B200",      .major = 10, .minor = 0, .ptx = 86,
      .smem_block = 227 KiB, .smem_sm = 228 KiB, .smem_reserved = 1 KiB, .regs_sm = 65536, .threads_sm = 2048, .blocks_sm = 32,
      .sms = 148, .l2_bytes = 126 MiB, .gbs = 8000, .tflops_f32 = 80,   .tflops_bf16 = 2250,
      BLACKWELL, .has_tcgen05 = true, .has_wide_memory = true, .has_redux_f32 = true },
    { .name = "sm_120a", .gpu = "RTX 5090",  .major = 12, .minor = 0, .ptx = 87,
      .smem_block = 99 KiB,  .smem_sm = 100 KiB, .smem_reserved = 1 KiB, .regs_sm = 65536, .threads_sm = 1536, .blocks_sm = 24,
      .sms = 170, .l2_bytes = 96 MiB,  .gbs = 1792, .tflops_f32 = 104.8, .tflops_bf16 = 209.5,
      BLACKWELL, .has_wide_memory = true, .has_mma_scaled = true },
};
// clang-format on
const int target_count = sizeof target_table / sizeof *target_table;
const Target *const target_default = &target_table[3];

const PtxCap cap_table[] = {
#define X(name, since, what) {#name, since, what, offsetof(Target, has_##name)},
    PTX_CAPS(X)
#undef X
};
const int cap_count = sizeof cap_table / sizeof *cap_table;

const Target *target_find(const char *name) {
    for (int i = 0; i < target_count; i++)
        if (strcmp(target_table[i].name, name) == 0) return &target_table[i];
    return NULL;
}

const Target *target_nearest(const char *name) {
    const Target *best = target_default;                // also among equals
    for (int i = 0; i < target_count; i++)
        if (edit_distance(name, target_table[i].name) < edit_distance(name, best->name)) best = &target_table[i];
    return best;
}

// "a" targets run on exactly their own capability; the PTX of others on any later one.
const Target *target_of_device(int major, int minor) {
    const Target *best = NULL;
    for (int i = 0; i < target_count; i++) {
        const Target *t = &target_table[i];
        bool exact = t->name[strlen(t->name) - 1] == 'a';
        int row = t->major * 10 + t->minor, device = major * 10 + minor;
        if (exact ? row == device : row <= device) best = t;
    }
    return best;
}

static int least(int a, int b) { return a < b ? a : b; }

int target_occupancy(const Target *t, int threads, int regs, uint32_t smem) {
    if (threads <= 0 || threads > MAX_THREADS_PER_BLOCK || smem > t->smem_block || regs > REGS_PER_THREAD) return 0;
    int warps = (threads + 31) / 32;
    int warp_regs = (regs + REGS_UNIT - 1) / REGS_UNIT * REGS_UNIT * 32;
    int blocks = least((int)t->blocks_sm, (int)t->threads_sm / (warps * 32));
    blocks = least(blocks, (int)(t->smem_sm / (smem + t->smem_reserved)));
    if (warp_regs > 0) blocks = least(blocks, (int)t->regs_sm / warp_regs / warps);
    return blocks;
}

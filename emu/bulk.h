// A decoded bulk copy: cp.async.bulk, cp.reduce.async.bulk, and their tensor forms.
#ifndef TK_EMU_BULK_H
#define TK_EMU_BULK_H

#include "emu/exec.h"

typedef struct BulkSpec {
    bool     tensor, im2col, load, to_cluster;   // to_cluster: from this block's shared memory to a block's
    bool     narrow_dst, narrow_src, narrow_mbar;
    uint32_t rank;
    int      reduce;                             // -1 none; else as in x_atomic.c
    Type     type;                               // of a 1-D reduction
    uint32_t dst, src, mbar, size, mask;         // slots
    int64_t  dst_imm, src_imm, mbar_imm;
    uint32_t coord[5], offset[3], n_offsets;
} BulkSpec;

#endif

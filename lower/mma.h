// Which dots run on tensor cores by mma.sync, and how. See mma.c.
#ifndef TK_LOWER_MMA_H
#define TK_LOWER_MMA_H

#include "lower/ir.h"
#include "ptx/ptx.h"

typedef struct MmaChoice {
    int row, col;                 // positions of the M and N axes in the result's type
    int warps_m, warps_n;         // how the program's warps tile the result
    int k;                        // contraction elements of one instruction
} MmaChoice;

bool mma_choose(const Target *t, const Op *dot, int warps, MmaChoice *out);   // false: multiply and add in registers

#endif

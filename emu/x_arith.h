// What the arithmetic files share: which operation, whatever the type.
#ifndef TK_EMU_X_ARITH_H
#define TK_EMU_X_ARITH_H

#include "emu/exec.h"
#include "emu/reader.h"

typedef enum Arith { A_add, A_sub, A_mul, A_fma, A_div, A_min, A_max, A_abs, A_neg } Arith;

enum { R_rn, R_rz, R_rm, R_rp, R_rna, R_rs };

void VARIANT(decode_float)(Dec *, Arith);      // x_floats.c: any floating-point type
void VARIANT(decode_half)(Dec *, Arith);       // x_halves.c: f16, bf16 and their pairs

#endif

// What the arithmetic files share: which operation, whatever the type.
#ifndef TK_EMU_X_ARITH_H
#define TK_EMU_X_ARITH_H

#include "emu/exec.h"
#include "emu/reader.h"

typedef enum Arith { A_add, A_sub, A_mul, A_fma, A_div, A_min, A_max, A_abs, A_neg } Arith;

enum { R_rn, R_rz, R_rm, R_rp, R_rna, R_rs };

void VARIANT(decode_float)(Dec *, Arith);      // x_floats.c: any floating-point type
void VARIANT(decode_half)(Dec *, Arith);       // x_halves.c: f16, bf16 and their pairs

static inline InsnFn *by_width(Type t, InsnFn *w32, InsnFn *w64) { return ptx_type_bits(t) == 64 ? w64 : w32; }
static inline bool is_float(Type t) { return ptx_type_kind(t) == 'F' || t == T_f16x2 || t == T_bf16x2 || t == T_f32x2; }

// d, a, b, c: three sources, the last of its own type.
static inline Insn *operands3(Dec *d, InsnFn *fn, Type t, Type tc, Type dt) {
    dec_count(d, 4, 4);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, t), c = dec_src(d, 3, tc), to = dec_dst(d, 0, dt);
    Insn *in = dec_emit(d, fn);
    in->d = to, in->a = a, in->b = b, in->c = c;
    return in;
}

#endif

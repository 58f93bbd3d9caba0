// Small-float and integer elements out of packed words, for mma and wgmma.
#ifndef TK_EMU_FRAGMENTS_H
#define TK_EMU_FRAGMENTS_H

#include "emu/exec.h"

// Element `h` of a 32-bit word that holds 32 / bits(t) of them, as a double (exact).
static inline double element_float(uint32_t word, Type t, uint32_t h) {
    switch (t) {
    case T_f16:  return (double)half_to_float(word >> 16 * h & 0xffff);
    case T_bf16: return (double)f32_from(word >> 16 * h << 16);
    case T_tf32: return (double)f32_from(word & ~0x1fffu);
    case T_e4m3: return (double)e4m3_to_f32((uint8_t)(word >> 8 * h));
    case T_e5m2: return (double)e5m2_to_f32((uint8_t)(word >> 8 * h));
    default:     return (double)f32_from(word);
    }
}

static inline int32_t element_int(uint32_t word, Type t, uint32_t h) {
    switch (t) {
    case T_s8: return (int8_t)(word >> 8 * h);
    case T_u8: return (uint8_t)(word >> 8 * h);
    case T_s4: return (int32_t)(word >> 4 * h << 28) >> 28;
    case T_u4: return (int32_t)(word >> 4 * h & 15);
    default:   return (int32_t)(word >> h & 1);
    }
}

static inline bool element_is_float(Type t) { return ptx_type_kind(t) == 'F'; }

#endif

// Small-float and integer elements out of packed words, for mma and wgmma; and where the elements of a sparse A belong.
#ifndef TK_EMU_FRAGMENTS_H
#define TK_EMU_FRAGMENTS_H

#include "emu/small.h"

static inline bool element_is_float(Type t) { return ptx_type_kind(t) == 'F'; }

// e4m3 to float, exact: scaled by 2^120, NaN put back.
static inline float e4m3_to_float(uint32_t b) {
    uint32_t x = f32_bits(f32_from((b & 0x7f) << 20) * 0x1p120f);
    x |= (b & 0x7f) == 0x7f ? 0x7f800000u : 0;
    return f32_from(x | (b & 0x80) << 24);
}

// Element `h` of a 32-bit word that holds 32 / bits(t) of them, as a double (exact).
static inline double element_float(uint32_t word, Type t, uint32_t h) {
    switch (t) {
    case T_f16:  return (double)half_to_float(word >> 16 * h & 0xffff);
    case T_bf16: return (double)f32_from(word >> 16 * h << 16);
    case T_tf32: return (double)f32_from(word & ~0x1fffu);
    case T_e4m3: return (double)e4m3_to_float(word >> 8 * h & 0xff);
    case T_e5m2: return (double)half_to_float(word >> 8 * h << 8 & 0xff00);
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

// The same where an element may have more room than it needs: of 8 bits, e2m3 and e3m2 have the low six, e2m1 the middle four.
static inline double element_value(uint32_t word, Type t, uint32_t room, uint32_t h) {
    if (!element_is_float(t)) return (double)element_int(word, t, h);
    if (ptx_type_bits(t) >= 8) return element_float(word, t, h);
    return small_value(t, word >> room * h >> (t == T_e2m1 && room == 8 ? 2 : 0));
}

// Elements `h` of n words each, as doubles: the type is looked at once.
static inline void elements_of(const uint32_t *word, uint32_t n, Type t, uint32_t room, uint32_t h, double *to) {
#define CASE(type, value) case type: for (uint32_t i = 0; i < n; i++) to[i] = value; return
    switch (t) {
    CASE(T_f16,  element_float(word[i], T_f16, h));
    CASE(T_bf16, element_float(word[i], T_bf16, h));
    CASE(T_tf32, element_float(word[i], T_tf32, h));
    CASE(T_e4m3, element_float(word[i], T_e4m3, h));
    CASE(T_e5m2, element_float(word[i], T_e5m2, h));
    CASE(T_s8,   (double)element_int(word[i], T_s8, h));
    CASE(T_u8,   (double)element_int(word[i], T_u8, h));
    default:     for (uint32_t i = 0; i < n; i++) to[i] = element_value(word[i], t, room, h);
    }
#undef CASE
}

// A sparse A is K / 2 elements wide. For each four of the whole (two of tf32, eight of 4 bits), four bits of metadata say which are
// there: two numbers of an element (of a half of a tf32, of a pair of 4 bits), the first in the low bits. In a group of four lanes,
// which has rows g and g + 8, a row's bits lie, by how many they are and what `select` says:
//
//     16                  in lane `select`, row g in the low half, row g + 8 in the high half
//     32, of 16 bits up   in lanes 2 * select and the next, halves as before
//     32, of 8 bits       in lane 2 * select row g, in the next row g + 8
//     64                  in lanes 0 and 2 row g, in 1 and 3 row g + 8
//
// Where packed element j of a row belongs; ~0: the metadata is none (`what` is it). `room` is an element's bits.
static inline uint32_t sparse_column(const uint32_t meta[32], uint32_t room, uint32_t k, uint32_t select, uint32_t row, uint32_t j, uint32_t *what) {
    uint32_t each = room == 32 ? 1 : room == 4 ? 4 : 2, chunk = j / each, at = 4 * chunk, bits = 2 * k / each, lane = row % 8 * 4, shift;
    uint32_t high = row / 8 % 2;
    if (bits == 16) lane += select, shift = 16 * high + at;
    else if (bits == 32 && room >= 16) lane += 2 * select + at / 16, shift = 16 * high + at % 16;
    else lane += 2 * (select + at / 32) + high, shift = at % 32;
    uint32_t four = *what = meta[lane & 31] >> shift & 15, first = four & 3, second = four >> 2;
    if (room == 32) return four == 0x4 ? 2 * chunk : four == 0xe ? 2 * chunk + 1 : ~0u;
    if (first == second) return ~0u;
    if (room == 4) return 8 * chunk + 2 * (j & 2 ? second : first) + (j & 1);
    return 4 * chunk + (j & 1 ? second : first);
}

// x_mma.c: registers of operand i, as slots.
void VARIANT(fragment)(Dec *, uint32_t i, Type, bool write, uint32_t want, uint32_t *slots, uint32_t *n);
#define fragment VARIANT(fragment)
// What the registers of a product's sums are of: floats, which may be constants too, or bits.
static inline Type sum_register(Type t) { return t == T_f32 || t == T_f64 ? t : T_b32; }

#endif

// The inner part of mma and wgmma: rows of A by panels of eight columns of B.
//
// C and D have the eight columns of a row in four lanes of two registers, row q the even ones in lanes 4 q .. 4 q + 3 of the
// first, the odd ones in those of the second. A panel has the columns of B in that order, so that a row of sums is two
// vectors of four, which are loaded and stored as they lie:
//
//     b[2 x], b[2 x + 1]     B[x][0 2 4 6], B[x][1 3 5 7]          c[2 q], c[2 q + 1]     of row q likewise
//     c[..] += a[q][x] * b[..]                                     x = 0 .. k - 1, one after the other
//
// Row q's element x of A is at a[q * step + at[x]].
#ifndef TK_EMU_PANELS_H
#define TK_EMU_PANELS_H

#ifdef EMU_V3
#include <immintrin.h>
#endif

#include "emu/fragments.h"

typedef double   Four __attribute__((vector_size(32), aligned(32)));
typedef float    FourFloats __attribute__((vector_size(16)));
typedef uint32_t FourWords __attribute__((vector_size(16)));
typedef int32_t  FourInts __attribute__((vector_size(16)));

// Where column j is in a row of its panel.
static inline uint32_t panel_place(uint32_t j) { return (j & 7) >> 1 | (j & 1) << 2; }

#ifdef EMU_V3
#define EXACT_MULTIPLY_ADD(a, b, c) _mm256_fmadd_pd(a, b, c)
#else
#define EXACT_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))    // the same: the product is exact
#endif
#define ROUNDED_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))

// Four rows at a time, so that what is summed stays in registers.
#define MULTIPLY(name, MULTIPLY_ADD)                                                                     \
    static inline void name(const double *a, const uint16_t *at, uint32_t step, const Four *b, uint32_t k, Four *c, uint32_t rows) { \
        for (uint32_t i = 0; i < rows; i += 4, a += 4 * step, c += 8) {                                  \
            Four c0 = c[0], d0 = c[1], c1 = c[2], d1 = c[3], c2 = c[4], d2 = c[5], c3 = c[6], d3 = c[7]; \
            for (uint32_t x = 0; x < k; x++) {                                                           \
                const Four    even = b[2 * x], odd = b[2 * x + 1];                                       \
                const double *v = a + at[x]; const double a0 = v[0], a1 = v[step], a2 = v[2 * step], a3 = v[3 * step]; \
                const Four    r0 = {a0, a0, a0, a0}, r1 = {a1, a1, a1, a1}, r2 = {a2, a2, a2, a2}, r3 = {a3, a3, a3, a3}; \
                c0 = MULTIPLY_ADD(r0, even, c0), d0 = MULTIPLY_ADD(r0, odd, d0);                         \
                c1 = MULTIPLY_ADD(r1, even, c1), d1 = MULTIPLY_ADD(r1, odd, d1);                         \
                c2 = MULTIPLY_ADD(r2, even, c2), d2 = MULTIPLY_ADD(r2, odd, d2);                         \
                c3 = MULTIPLY_ADD(r3, even, c3), d3 = MULTIPLY_ADD(r3, odd, d3);                         \
            }                                                                                            \
            c[0] = c0, c[1] = d0, c[2] = c1, c[3] = d1, c[4] = c2, c[5] = d2, c[6] = c3, c[7] = d3;      \
        }                                                                                                \
    }
MULTIPLY(multiply_exact, EXACT_MULTIPLY_ADD)
MULTIPLY(multiply_rounded, ROUNDED_MULTIPLY_ADD)

// Rows 0 to 7 of a tile of C or D, of one type: the registers of the even and the odd columns. Of f16 one register has both.
static inline void sums_load(const Warp *w, Type t, const uint32_t *slots, Four *c) {
    const char *even = slot_at(w, slots[0]), *odd = t == T_f16 ? even : slot_at(w, slots[1]);
    for (uint32_t q = 0; q < 8; q++)
        for (uint32_t h = 0; h < 2; h++) {
            const char *from = (h ? odd : even) + 16 * q;
            FourWords x;
            if (t == T_f64) {
                memcpy(&c[2 * q + h], (h ? odd : even) + 32 * q, 32);
                continue;
            }
            memcpy(&x, from, 16);
            if (t == T_f32) c[2 * q + h] = __builtin_convertvector((FourFloats)x, Four);
            else if (t == T_s32) c[2 * q + h] = __builtin_convertvector((FourInts)x, Four);
            else for (uint32_t i = 0; i < 4; i++) c[2 * q + h][i] = (double)half_to_float(x[i] >> 16 * h & 0xffff);
        }
}

static inline uint32_t sum_word(Type t, double v, bool satfinite) {
    if (t == T_f16) return v != v ? 0x7fff : f16_from_f64(v);
    if (satfinite) v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
    return (uint32_t)(int64_t)v;
}

static inline void sums_store(const Warp *w, Type t, bool satfinite, const uint32_t *slots, const Four *c) {
    char *even = slot_at(w, slots[0]), *odd = t == T_f16 ? even : slot_at(w, slots[1]);
    for (uint32_t q = 0; q < 8; q++)
        for (uint32_t h = 0; h < 2; h++) {
            const Four v = c[2 * q + h];
            FourWords x = {0};
            if (t == T_f64) {
                memcpy((h ? odd : even) + 32 * q, &v, 32);
                continue;
            }
            if (t == T_f32) {
                const FourFloats f = __builtin_convertvector(v, FourFloats);
                const FourWords  no = (FourWords)(f != f);
                x = ((FourWords)f & ~no) | (no & 0x7fffffffu);
            } else for (uint32_t i = 0; i < 4; i++) x[i] = sum_word(t, v[i], satfinite);
            if (t == T_f16 && h) {
                FourWords low;
                memcpy(&low, even + 16 * q, 16);
                x = x << 16 | low;
            }
            memcpy((h ? odd : even) + 16 * q, &x, 16);
        }
}

#endif

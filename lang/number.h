// Exact small-float arithmetic, shared by constant folding, `eval` and `emu`.
//
// A storage float (f16, bf16, f8e4m3, f8e5m2, tf32) is held as its bits; every conversion here
// rounds once, to nearest even, and keeps subnormals. Conversions *to* f8 saturate to the largest
// finite value (as PTX cvt.rn.satfinite does); f8e4m3 has no infinity and its NaN is 0x7f. A NaN
// becomes the canonical one, of sign +: f32 0x7fffffff, f16 and bf16 0x7fff, f8 0x7f; but bf16 to f32,
// f64 to 16 bits, and tf32 keep its sign and what they hold of its payload, as the hardware does.
#ifndef TK_LANG_NUMBER_H
#define TK_LANG_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t f32_bits(float x)     { union { float f; uint32_t u; } v = {.f = x}; return v.u; }
static inline float    f32_from(uint32_t b)  { union { uint32_t u; float f; } v = {.u = b}; return v.f; }
static inline uint64_t f64_bits(double x)    { union { double f; uint64_t u; } v = {.f = x}; return v.u; }
static inline double   f64_from(uint64_t b)  { union { uint64_t u; double f; } v = {.u = b}; return v.f; }

float    f16_to_f32(uint16_t h);
float    bf16_to_f32(uint16_t h);
float    e4m3_to_f32(uint8_t b);
float    e5m2_to_f32(uint8_t b);

uint16_t f16_from_f32(float x);        // to nearest even
uint16_t f16_from_f64(double x);       // one rounding, not by way of f32
uint16_t bf16_from_f32(float x);
uint16_t bf16_from_f64(double x);
uint8_t  e4m3_from_f32(float x);       // saturating
uint8_t  e5m2_from_f32(float x);       // saturating
uint8_t  e4m3_from_f64(double x);      // one rounding
uint8_t  e5m2_from_f64(double x);
// A wide integer as a double from which narrowing to at most 32 bits of significand rounds as from the integer itself.
double   u64_sticky(uint64_t x);
double   i64_sticky(int64_t x);
float    tf32_round(float x);          // nearest, ties away (cvt.rna.tf32.f32): low 13 bits clear

// Integers as the language defines them: wrapping, floored division, long shifts give zero.
int64_t  int_div_floor(int64_t a, int64_t b);    // by zero: 0; INT64_MIN / -1 wraps
int64_t  int_mod_floor(int64_t a, int64_t b);    // takes the sign of b; by zero: 0
// To an integer of 1 .. 64 bits: truncates, saturates, NaN gives 0. Unsigned 64 bits come as bits.
int64_t  f64_to_int_sat(double x, int bits, bool is_signed);

// A number of any element type: as a double, and, where it is whole, its 64 bits (above INT64_MAX those of a u64).
typedef struct Number { double f; int64_t i; } Number;
Number number_double(double f);
Number number_int(int64_t i);
Number number_u64(uint64_t u);
bool   number_whole(Number x);
int    number_order(Number a, Number b);                        // -1, 0, 1 as a is less, equal, greater; 2: one is NaN

#endif

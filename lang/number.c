// Exact small-float arithmetic. Every narrowing is the same five lines of integer code:
//
//     magnitude  0 eeeeeeee mmmm...m      of the wide float, sign set aside
//     shift      how many significand bits the narrow float has no room for; one more for each
//                power of two below its smallest normal
//     rounded    (significand + half - 1 + lowest kept bit) >> shift      nearest, ties to even
//     rebuilt    rounded + (exponent above the smallest normal << mantissa bits)
//
// The hidden bit of a normal number is what steps the exponent field from 0 to 1, and a carry out
// of the mantissa steps it once more, so that subnormals, normals and overflow need no cases: a
// result at or above the pattern of infinity has overflowed. Nothing depends on the host's rounding
// mode or on how it treats subnormals, and selects take the place of branches.
//
//     f32 0x33800001 (just over 2^-24) -> f16: exponent 103, 10 below 113, shift 13 + 10 = 23
//     (0x800001 + 0x3fffff + 1) >> 23 = 1 -> 0x0001, the smallest subnormal
//
// NaNs come out as the hardware gives them (compared with a Hopper over all f32 inputs): one canonical
// NaN per format, without its sign. Exceptions: bf16 to f32 is no more than a shift; f64 keeps sign and
// the upper part of the payload, made quiet; tf32 cuts the payload off, so that a NaN of a low payload
// becomes infinity.

#include "lang/number.h"

#include <math.h>

#define F32_NAN 0x7fffffffu

// The magnitude of an f32 (sign clear, not NaN) in a format with `mant` mantissa bits whose smallest
// normal number has the f32 exponent field `emin`. May pass the format's infinity.
static inline uint32_t narrow32(uint32_t mag, uint32_t mant, uint32_t emin) {
    uint32_t e     = mag >> 23;
    uint32_t sig   = (mag & 0x7fffffu) | (uint32_t)(e != 0) << 23;
    uint32_t below = e < emin ? emin - e : 0;
    uint32_t above = e < emin ? 0 : e - emin;
    uint32_t shift = 23 - mant + below;
    shift = shift < 25 ? shift : 25;                 // 25 already rounds every significand to 0
    uint32_t half  = 1u << (shift - 1);
    return ((sig + half - 1 + (sig >> shift & 1)) >> shift) + (above << mant);
}

static inline uint32_t narrow64(uint64_t mag, uint32_t mant, uint32_t emin) {
    uint32_t e     = (uint32_t)(mag >> 52);
    uint64_t sig   = (mag & 0xfffffffffffffu) | (uint64_t)(e != 0) << 52;
    uint32_t below = e < emin ? emin - e : 0;
    uint32_t above = e < emin ? 0 : e - emin;
    uint32_t shift = 52 - mant + below;
    shift = shift < 54 ? shift : 54;
    uint64_t half  = 1ull << (shift - 1);
    return (uint32_t)((sig + half - 1 + (sig >> shift & 1)) >> shift) + (above << mant);
}

// The float whose f32 fields would be `bits`, had f32 the exponent bias 127 - `lift`: adds the lift,
// and lets one exact subtraction normalise what had exponent field 0.
static inline float widen(uint32_t bits, uint32_t lift) {
    uint32_t up   = bits + (lift << 23);
    float    tiny = f32_from(up + (1u << 23)) - f32_from((lift + 1) << 23);
    return bits < 1u << 23 ? tiny : f32_from(up);
}

float f16_to_f32(uint16_t h) {
    uint32_t mag  = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t bits = f32_bits(widen(mag << 13, 112)) | sign;
    bits = mag >= 0x7c00 ? sign | 0x7f800000u : bits;
    return f32_from(mag > 0x7c00 ? F32_NAN : bits);
}

float bf16_to_f32(uint16_t h) {
    return f32_from((uint32_t)h << 16);
}

float e4m3_to_f32(uint8_t b) {
    uint32_t mag  = b & 0x7fu, sign = (uint32_t)(b & 0x80u) << 24;
    uint32_t bits = f32_bits(widen(mag << 20, 120)) | sign;
    return f32_from(mag == 0x7f ? F32_NAN : bits);
}

float e5m2_to_f32(uint8_t b) {                // the high byte of an f16
    return f16_to_f32((uint16_t)(b << 8));
}

uint16_t f16_from_f32(float x) {
    uint32_t u = f32_bits(x), mag = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
    uint32_t r = narrow32(mag, 10, 113);
    r = (r < 0x7c00 ? r : 0x7c00) | sign;
    return (uint16_t)(mag > 0x7f800000u ? 0x7fff : r);
}

// 16 bits, so many of them the significand's: beyond the largest infinity, a NaN's payload what fits of it.
static inline uint16_t half_from_f64(double x, uint32_t digits, uint32_t bias) {
    uint64_t u = f64_bits(x), mag = u & INT64_MAX;
    uint32_t r = narrow64(mag, digits, bias), sign = (uint32_t)(u >> 48) & 0x8000u;
    uint32_t infinity = 0x7fffu << digits & 0x7fffu, quiet = 1u << (digits - 1);
    r = r < infinity ? r : infinity;
    r = mag > 0x7ff0000000000000u ? infinity | quiet | (uint32_t)(mag >> (52 - digits) & (quiet - 1)) : r;
    return (uint16_t)(r | sign);
}

uint16_t f16_from_f64(double x)               { return half_from_f64(x, 10, 1009); }

uint16_t bf16_from_f32(float x) {             // the same exponent range: round in place
    uint32_t u = f32_bits(x), mag = u & 0x7fffffffu;
    uint32_t r = mag > 0x7f800000u ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)r;
}

uint16_t bf16_from_f64(double x)              { return half_from_f64(x, 7, 897); }

uint8_t e4m3_from_f32(float x) {              // largest finite: 0x7e = 448
    uint32_t u = f32_bits(x), mag = u & 0x7fffffffu, sign = u >> 24 & 0x80u;
    uint32_t r = narrow32(mag, 3, 121);
    r = (r < 0x7e ? r : 0x7e) | sign;
    return (uint8_t)(mag > 0x7f800000u ? 0x7f : r);
}

uint8_t e5m2_from_f32(float x) {              // largest finite: 0x7b = 57344
    uint32_t u = f32_bits(x), mag = u & 0x7fffffffu, sign = u >> 24 & 0x80u;
    uint32_t r = narrow32(mag, 2, 113);
    r = (r < 0x7b ? r : 0x7b) | sign;
    return (uint8_t)(mag > 0x7f800000u ? 0x7f : r);
}

// As an f32 that a second rounding, to fewer bits, takes where x itself would go: to odd.
static float odd_f32(double x) {
    float r = (float)x;
    if (x != x || (double)r == x || isinf(r)) return r;
    uint32_t b = f32_bits(r);
    if (fabs((double)r) > fabs(x)) b--;
    return f32_from(b | 1);
}

uint8_t e4m3_from_f64(double x) { return e4m3_from_f32(odd_f32(x)); }
uint8_t e5m2_from_f64(double x) { return e5m2_from_f32(odd_f32(x)); }

// Exact below 2^53, else with the bits that a double has no room for or-ed into one that it has.
double u64_sticky(uint64_t x) {
    if (x >> 53) x = (x & ~UINT64_C(0x7ff)) | (uint64_t)((x & 0x7ff) != 0) << 11;
    return (double)x;
}

double i64_sticky(int64_t x) { return x < 0 ? -u64_sticky(0 - (uint64_t)x) : u64_sticky((uint64_t)x); }

float tf32_round(float x) {
    uint32_t u = f32_bits(x), mag = u & 0x7fffffffu;
    return f32_from((mag > 0x7f800000u ? u : u + 0x1000) & ~0x1fffu);
}

int64_t int_div_floor(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    int64_t q = a / b;
    return q - (a % b != 0 && (a ^ b) < 0);
}

int64_t int_mod_floor(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r ^ b) < 0 ? r + b : r;
}

int64_t f64_to_int_sat(double x, int bits, bool is_signed) {
    if (x != x) return 0;
    if (is_signed) {
        double  top = f64_from((uint64_t)(1023 + bits - 1) << 52);     // 2^(bits - 1)
        int64_t max = INT64_MAX >> (64 - bits);
        if (x >= top)  return max;
        if (x <= -top) return -max - 1;
        return (int64_t)x;
    }
    double top = f64_from((uint64_t)(1023 + bits) << 52);
    if (x >= top) return (int64_t)(UINT64_MAX >> (64 - bits));
    return x <= 0 ? 0 : (int64_t)(uint64_t)x;
}

// ---- numbers of any element type -----------------------------------------------------------------------

Number number_int(int64_t i) { return (Number){(double)i, i}; }
Number number_u64(uint64_t u) { return (Number){(double)u, (int64_t)u}; }

Number number_double(double f) {
    bool fits = f >= -0x1p63 && f < 0x1p64;
    return (Number){f, !fits ? 0 : f < 0 ? (int64_t)f : (int64_t)(uint64_t)f};
}

// An integer near 2^63 or 2^64 may be the power itself as a double.
bool number_whole(Number x) {
    if (x.f != trunc(x.f)) return false;
    return x.f < 0 ? x.f >= -0x1p63 && x.i < 0 : x.f < 0x1p63 ? x.i >= 0 : x.f == 0x1p63 || (x.f <= 0x1p64 && x.i < 0);
}

int number_order(Number a, Number b) {
    if (a.f != b.f || !number_whole(a) || !number_whole(b)) return a.f < b.f ? -1 : a.f > b.f ? 1 : a.f == b.f ? 0 : 2;
    uint64_t sign = a.f < 0 ? 0 : UINT64_C(1) << 63;           // of one sign: as the bits are counted
    int64_t x = (int64_t)((uint64_t)a.i ^ sign), y = (int64_t)((uint64_t)b.i ^ sign);
    return x < y ? -1 : x > y;
}

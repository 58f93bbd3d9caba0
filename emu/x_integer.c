// Integer, logic, shift and bit-field instructions. Comparisons are x_compare.c's.
//
// 16-bit values live in 32-bit slots whose upper halves mean nothing, so add, sub, mul.lo and the logic
// operations of 16 bits are those of 32; what looks at a whole value casts first.
#include "emu/exec.h"
#include "emu/x_arith.h"

#define BINARY(name, C, expr)                                                         \
    static void name(Warp *w, const Insn *in) {                                       \
        C *d = slot_at(w, in->d);                                                     \
        const C *a = slot_at(w, in->a), *b = slot_at(w, in->b);                       \
        EACH(C, expr);                                                                \
    }
#define UNARY(name, C, expr)                                                          \
    static void name(Warp *w, const Insn *in) {                                       \
        C *d = slot_at(w, in->d);                                                     \
        const C *a = slot_at(w, in->a);                                               \
        EACH(C, expr);                                                                \
    }
#define TERNARY(name, C, expr)                                                        \
    static void name(Warp *w, const Insn *in) {                                       \
        C *d = slot_at(w, in->d);                                                     \
        const C *a = slot_at(w, in->a), *b = slot_at(w, in->b), *c = slot_at(w, in->c); \
        EACH(C, expr);                                                                \
    }

typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t  s32;
typedef int64_t  s64;
typedef __int128 s128;
typedef unsigned __int128 u128;

BINARY(add_32, u32, a[l] + b[l])            BINARY(add_64, u64, a[l] + b[l])
BINARY(sub_32, u32, a[l] - b[l])            BINARY(sub_64, u64, a[l] - b[l])
BINARY(mul_32, u32, a[l] * b[l])            BINARY(mul_64, u64, a[l] * b[l])
BINARY(and_32, u32, a[l] & b[l])            BINARY(and_64, u64, a[l] & b[l])
BINARY(or_32,  u32, a[l] | b[l])            BINARY(or_64,  u64, a[l] | b[l])
BINARY(xor_32, u32, a[l] ^ b[l])            BINARY(xor_64, u64, a[l] ^ b[l])
UNARY (not_32, u32, ~a[l])                  UNARY (not_64, u64, ~a[l])
UNARY (neg_32, u32, 0u - a[l])              UNARY (neg_64, u64, 0ull - a[l])
UNARY (cnot_32, u32, !a[l])                 UNARY (cnot_64, u64, !a[l])             UNARY(cnot_16, u32, !(a[l] & 0xffff))
UNARY (abs_32, u32, (s32)a[l] < 0 ? 0u - a[l] : a[l])
UNARY (abs_64, u64, (s64)a[l] < 0 ? 0ull - a[l] : a[l])
UNARY (abs_16, u32, (int16_t)a[l] < 0 ? 0u - a[l] : a[l])

static s32 saturate_s32(s64 x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (s32)x; }
BINARY(add_sat_s32, u32, (u32)saturate_s32((s64)(s32)a[l] + (s32)b[l]))
BINARY(sub_sat_s32, u32, (u32)saturate_s32((s64)(s32)a[l] - (s32)b[l]))

BINARY(mul_hi_u16, u32, (a[l] & 0xffff) * (b[l] & 0xffff) >> 16)
BINARY(mul_hi_s16, u32, (u32)((s32)(int16_t)a[l] * (int16_t)b[l] >> 16))
BINARY(mul_hi_u32, u32, (u32)((u64)a[l] * b[l] >> 32))
BINARY(mul_hi_s32, u32, (u32)((s64)(s32)a[l] * (s32)b[l] >> 32))
BINARY(mul_hi_u64, u64, (u64)((u128)a[l] * b[l] >> 64))
BINARY(mul_hi_s64, u64, (u64)((s128)(s64)a[l] * (s64)b[l] >> 64))
BINARY(mul_wide_u16, u32, (a[l] & 0xffff) * (b[l] & 0xffff))
BINARY(mul_wide_s16, u32, (u32)((s32)(int16_t)a[l] * (int16_t)b[l]))
BINARY(mul24_lo_u, u32, (a[l] & 0xffffff) * (b[l] & 0xffffff))
BINARY(mul24_lo_s, u32, (u32)((s64)((s32)(a[l] << 8) >> 8) * ((s32)(b[l] << 8) >> 8)))
BINARY(mul24_hi_u, u32, (u32)((u64)(a[l] & 0xffffff) * (b[l] & 0xffffff) >> 16))
BINARY(mul24_hi_s, u32, (u32)((s64)((s32)(a[l] << 8) >> 8) * ((s32)(b[l] << 8) >> 8) >> 16))
TERNARY(mad24_lo_u, u32, (a[l] & 0xffffff) * (b[l] & 0xffffff) + c[l])
#define MAD24_HI(x, y) ((u32)((s64)((s32)((x) << 8) >> 8) * ((s32)((y) << 8) >> 8) >> 16))
TERNARY(mad24_hi_u, u32, (u32)((u64)(a[l] & 0xffffff) * (b[l] & 0xffffff) >> 16) + c[l])
TERNARY(mad24_hi_s, u32, MAD24_HI(a[l], b[l]) + c[l])
TERNARY(mad24_hi_sat_s, u32, (u32)saturate_s32((s64)(s32)MAD24_HI(a[l], b[l]) + (s32)c[l]))
TERNARY(mad24_lo_s, u32, (u32)((s64)((s32)(a[l] << 8) >> 8) * ((s32)(b[l] << 8) >> 8)) + c[l])

#define WIDE(name, T, expr)                                                           \
    static void name(Warp *w, const Insn *in) {                                       \
        u64 *d = slot_at(w, in->d);                                                   \
        const u32 *a = slot_at(w, in->a), *b = slot_at(w, in->b);                     \
        const u64 *c = slot_at(w, in->c == NO_SLOT ? in->a : in->c);                  \
        (void)c;                                                                      \
        EACH(u64, expr);                                                              \
    }
WIDE(mul_wide_u32, u64, (u64)a[l] * b[l])
WIDE(mul_wide_s32, s64, (u64)((s64)(s32)a[l] * (s32)b[l]))
WIDE(mad_wide_u32, u64, (u64)a[l] * b[l] + c[l])
WIDE(mad_wide_s32, s64, (u64)((s64)(s32)a[l] * (s32)b[l]) + c[l])

TERNARY(mad_32, u32, a[l] * b[l] + c[l])    TERNARY(mad_64, u64, a[l] * b[l] + c[l])
TERNARY(mad_hi_u32, u32, (u32)((u64)a[l] * b[l] >> 32) + c[l])
TERNARY(mad_hi_s32, u32, (u32)((s64)(s32)a[l] * (s32)b[l] >> 32) + c[l])
TERNARY(mad_hi_u64, u64, (u64)((u128)a[l] * b[l] >> 64) + c[l])
TERNARY(mad_hi_s64, u64, (u64)((s128)(s64)a[l] * (s64)b[l] >> 64) + c[l])
TERNARY(mad_hi_u16, u32, ((a[l] & 0xffff) * (b[l] & 0xffff) >> 16) + c[l])
TERNARY(mad_hi_s16, u32, (u32)((s32)(int16_t)a[l] * (int16_t)b[l] >> 16) + c[l])
TERNARY(mad_hi_sat_s32, u32, (u32)saturate_s32(((s64)(s32)a[l] * (s32)b[l] >> 32) + (s32)c[l]))
TERNARY(mad_wide_u16, u32, (a[l] & 0xffff) * (b[l] & 0xffff) + c[l])
TERNARY(mad_wide_s16, u32, (u32)((s32)(int16_t)a[l] * (int16_t)b[l]) + c[l])

TERNARY(sad_u32, u32, c[l] + (a[l] > b[l] ? a[l] - b[l] : b[l] - a[l]))
TERNARY(sad_s32, u32, c[l] + ((s32)a[l] > (s32)b[l] ? a[l] - b[l] : b[l] - a[l]))
TERNARY(sad_u64, u64, c[l] + (a[l] > b[l] ? a[l] - b[l] : b[l] - a[l]))
TERNARY(sad_s64, u64, c[l] + ((s64)a[l] > (s64)b[l] ? a[l] - b[l] : b[l] - a[l]))
TERNARY(sad_u16, u32, c[l] + ((a[l] & 0xffff) > (b[l] & 0xffff) ? a[l] - b[l] : b[l] - a[l]))
TERNARY(sad_s16, u32, c[l] + ((int16_t)a[l] > (int16_t)b[l] ? a[l] - b[l] : b[l] - a[l]))

// A zero divisor gives all ones, quotient and remainder, as on the hardware.
#define DIVIDE(T, a, b) ((b) ? (T)((a) / (b)) : (T)-1)
#define REMAIN(T, a, b) ((b) ? (T)((a) % (b)) : (T)-1)
BINARY(div_u32, u32, DIVIDE(u32, a[l], b[l]))   BINARY(rem_u32, u32, REMAIN(u32, a[l], b[l]))
BINARY(div_u64, u64, DIVIDE(u64, a[l], b[l]))   BINARY(rem_u64, u64, REMAIN(u64, a[l], b[l]))
BINARY(div_u16, u32, DIVIDE(u32, a[l] & 0xffff, b[l] & 0xffff))
BINARY(rem_u16, u32, REMAIN(u32, a[l] & 0xffff, b[l] & 0xffff))
BINARY(div_s16, u32, (int16_t)b[l] ? (u32)((int16_t)a[l] / (int16_t)b[l]) : 0xffffffffu)
BINARY(rem_s16, u32, (int16_t)b[l] ? (u32)((int16_t)a[l] % (int16_t)b[l]) : 0xffffffffu)
BINARY(div_s32, u32, b[l] ? (u32)((s64)(s32)a[l] / (s32)b[l]) : 0xffffffffu)
BINARY(rem_s32, u32, b[l] ? (u32)((s64)(s32)a[l] % (s32)b[l]) : 0xffffffffu)
BINARY(div_s64, u64, !b[l] ? ~0ull : b[l] == ~0ull ? 0ull - a[l] : (u64)((s64)a[l] / (s64)b[l]))
BINARY(rem_s64, u64, !b[l] ? ~0ull : b[l] == ~0ull ? 0ull : (u64)((s64)a[l] % (s64)b[l]))

#define MINMAX(suffix, C, T)                                                          \
    BINARY(min_##suffix, C, (T)a[l] < (T)b[l] ? a[l] : b[l])                          \
    BINARY(max_##suffix, C, (T)a[l] > (T)b[l] ? a[l] : b[l])
MINMAX(u16, u32, uint16_t) MINMAX(s16, u32, int16_t) MINMAX(u32, u32, u32) MINMAX(s32, u32, s32) MINMAX(u64, u64, u64) MINMAX(s64, u64, s64)
BINARY(min_relu_s32, u32, (s32)a[l] < 0 || (s32)b[l] < 0 ? 0 : (s32)a[l] < (s32)b[l] ? a[l] : b[l])
BINARY(max_relu_s32, u32, (s32)a[l] < 0 && (s32)b[l] < 0 ? 0 : (s32)a[l] > (s32)b[l] ? a[l] : b[l])

#define HALVES16(name, expr) BINARY(name, u32, (((expr(a[l] & 0xffff, b[l] & 0xffff)) & 0xffff) | (expr(a[l] >> 16, b[l] >> 16)) << 16))
#define ADD16(x, y) ((x) + (y))
#define MINU16(x, y) ((uint16_t)(x) < (uint16_t)(y) ? (u32)(x) : (u32)(y))
#define MAXU16(x, y) ((uint16_t)(x) > (uint16_t)(y) ? (u32)(x) : (u32)(y))
#define MINS16(x, y) ((int16_t)(x) < (int16_t)(y) ? (u32)(x) : (u32)(y))
#define MAXS16(x, y) ((int16_t)(x) > (int16_t)(y) ? (u32)(x) : (u32)(y))
#define MINRELU16(x, y) ((int16_t)MINS16(x, y) < 0 ? 0 : MINS16(x, y))
#define MAXRELU16(x, y) ((int16_t)MAXS16(x, y) < 0 ? 0 : MAXS16(x, y))
HALVES16(min_relu_s16x2, MINRELU16) HALVES16(max_relu_s16x2, MAXRELU16)
HALVES16(add_x2, ADD16) HALVES16(min_u16x2, MINU16) HALVES16(max_u16x2, MAXU16) HALVES16(min_s16x2, MINS16) HALVES16(max_s16x2, MAXS16)

// ---- Shifts and bits

BINARY(shl_16, u32, b[l] > 15 ? 0 : a[l] << (b[l] & 31))
BINARY(shl_32, u32, b[l] > 31 ? 0 : a[l] << (b[l] & 31))
BINARY(shr_u16, u32, b[l] > 15 ? 0 : (a[l] & 0xffff) >> (b[l] & 31))
BINARY(shr_s16, u32, (u32)((s32)(int16_t)a[l] >> (b[l] > 15 ? 15 : b[l])))
BINARY(shr_u32, u32, b[l] > 31 ? 0 : a[l] >> (b[l] & 31))
BINARY(shr_s32, u32, (u32)((s32)a[l] >> (b[l] > 31 ? 31 : b[l])))
#define SHIFT64(name, expr)                                                           \
    static void name(Warp *w, const Insn *in) {                                       \
        u64 *d = slot_at(w, in->d);                                                   \
        const u64 *a = slot_at(w, in->a);                                             \
        const u32 *b = slot_at(w, in->b);                                             \
        EACH(u64, expr);                                                              \
    }
SHIFT64(shl_64, b[l] > 63 ? 0 : a[l] << (b[l] & 63))
SHIFT64(shr_u64, b[l] > 63 ? 0 : a[l] >> (b[l] & 63))
SHIFT64(shr_s64, (u64)((s64)a[l] >> (b[l] > 63 ? 63 : b[l])))

static inline u32 funnel(u32 lo, u32 hi, u32 n, bool left) {
    u64 both = (u64)hi << 32 | lo;
    return left ? (u32)(both << n >> 32) : (u32)(both >> n);
}
TERNARY(shf_l_wrap, u32, funnel(a[l], b[l], c[l] & 31, true))
TERNARY(shf_r_wrap, u32, funnel(a[l], b[l], c[l] & 31, false))
TERNARY(shf_l_clamp, u32, funnel(a[l], b[l], c[l] > 32 ? 32 : c[l], true))
TERNARY(shf_r_clamp, u32, funnel(a[l], b[l], c[l] > 32 ? 32 : c[l], false))

static u32 lop3(u32 a, u32 b, u32 c, u32 table) {
    u32 r = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}
static void x_lop3(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d), t = (u32)in->imm;
    const u32 *a = slot_at(w, in->a), *b = slot_at(w, in->b), *c = slot_at(w, in->c);
    u32 k[8];
    for (int i = 0; i < 8; i++) k[i] = 0u - (t >> i & 1);
    EACH(u32, (k[0] & ~a[l] & ~b[l] & ~c[l]) | (k[1] & ~a[l] & ~b[l] & c[l]) | (k[2] & ~a[l] & b[l] & ~c[l]) |
              (k[3] & ~a[l] & b[l] & c[l]) | (k[4] & a[l] & ~b[l] & ~c[l]) | (k[5] & a[l] & ~b[l] & c[l]) |
              (k[6] & a[l] & b[l] & ~c[l]) | (k[7] & a[l] & b[l] & c[l]));
}
static void x_lop3_pred(Warp *w, const Insn *in) {       // lop3.BoolOp p|d, ..., q
    u32 *d = slot_at(w, in->d), q = *pred(w, in->e), p = 0;
    const u32 *a = slot_at(w, in->a), *b = slot_at(w, in->b), *c = slot_at(w, in->c);
    EACH_ACTIVE({
        u32 r = lop3(a[l], b[l], c[l], (u32)in->imm);
        d[l] = r;
        p |= (u32)(r != 0) << l;
    });
    u32 *out = pred(w, in->list[0]);
    *out = blend_pred(*out, in->flags ? p | q : p & q, w->active);
}

#define TO32(name, C, expr)                                                           \
    static void name(Warp *w, const Insn *in) {                                       \
        u32 *d = slot_at(w, in->d);                                                   \
        const C *a = slot_at(w, in->a);                                               \
        EACH(u32, expr);                                                              \
    }
static inline u32 reverse32(u32 x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
static inline u32 highest32(u32 x)                { return x ? 31u - (u32)__builtin_clz(x) : 0xffffffffu; }
static inline u32 highest64(u64 x)                { return x ? 63u - (u32)__builtin_clzll(x) : 0xffffffffu; }
static inline u32 shift_amount(u32 x, u32 most)   { return x == 0xffffffffu ? x : most - x; }
TO32(popc_32, u32, (u32)__builtin_popcount(a[l]))
TO32(popc_64, u64, (u32)__builtin_popcountll(a[l]))
TO32(clz_32, u32, a[l] ? (u32)__builtin_clz(a[l]) : 32)
TO32(clz_64, u64, a[l] ? (u32)__builtin_clzll(a[l]) : 64)
TO32(bfind_u32, u32, highest32(a[l]))
TO32(bfind_s32, u32, highest32((s32)a[l] < 0 ? ~a[l] : a[l]))
TO32(bfind_u64, u64, highest64(a[l]))
TO32(bfind_s64, u64, highest64((s64)a[l] < 0 ? ~a[l] : a[l]))
TO32(bfind_shift_u32, u32, shift_amount(highest32(a[l]), 31))
TO32(bfind_shift_s32, u32, shift_amount(highest32((s32)a[l] < 0 ? ~a[l] : a[l]), 31))
TO32(bfind_shift_u64, u64, shift_amount(highest64(a[l]), 63))
TO32(bfind_shift_s64, u64, shift_amount(highest64((s64)a[l] < 0 ? ~a[l] : a[l]), 63))
UNARY(brev_32, u32, reverse32(a[l]))
UNARY(brev_64, u64, (u64)reverse32((u32)a[l]) << 32 | reverse32((u32)(a[l] >> 32)))

// Positions and lengths past 255 are unspecified: the hardware takes 8 bits of them for 32-bit fields and
// clamps for 64-bit ones.
static inline u32 field_operand(u32 x, u32 width) { return width == 64 ? x < 255 ? x : 255 : x & 255; }

static inline u64 field(u64 a, u32 pos, u32 len, u32 width, bool is_signed) {
    pos = field_operand(pos, width), len = field_operand(len, width);
    u32 top = pos + len - 1 < width - 1 ? pos + len - 1 : width - 1;
    u64 sign = is_signed && len ? a >> (top & 63) & 1 : 0;
    if (pos + len == 0) sign = 0;
    u64 keep = len >= 64 ? ~0ull : (1ull << len) - 1, got = pos >= width ? 0 : a >> pos & keep;
    u32 have = pos >= width ? 0 : len < width - pos ? len : width - pos;
    if (sign) got |= have >= 64 ? 0 : ~0ull << have;
    return got;
}
#define FIELD(name, C, width, is_signed)                                              \
    static void name(Warp *w, const Insn *in) {                                       \
        C *d = slot_at(w, in->d);                                                     \
        const C *a = slot_at(w, in->a);                                               \
        const u32 *b = slot_at(w, in->b), *c = slot_at(w, in->c);                     \
        EACH_ACTIVE(d[l] = (C)field(a[l], b[l], c[l], width, is_signed));             \
    }
FIELD(bfe_u32, u32, 32, false) FIELD(bfe_s32, u32, 32, true) FIELD(bfe_u64, u64, 64, false) FIELD(bfe_s64, u64, 64, true)

static inline u64 insert(u64 a, u64 b, u32 pos, u32 len, u32 width) {
    pos = field_operand(pos, width), len = field_operand(len, width);
    if (pos >= width || !len) return b;
    u64 keep = (len >= 64 ? ~0ull : (1ull << len) - 1) << pos;
    return (b & ~keep) | (a << pos & keep);
}
#define INSERT(name, C, width)                                                        \
    static void name(Warp *w, const Insn *in) {                                       \
        C *d = slot_at(w, in->d);                                                     \
        const C *a = slot_at(w, in->a), *b = slot_at(w, in->b);                       \
        const u32 *c = slot_at(w, in->c), *e = slot_at(w, in->e);                     \
        EACH_ACTIVE(d[l] = (C)insert(a[l], b[l], c[l], e[l], width));                 \
    }
INSERT(bfi_32, u32, 32) INSERT(bfi_64, u64, 64)

static inline u32 bit_mask(u32 pos, u32 n, bool wrap) {
    if (wrap) pos &= 31, n &= 31;
    if (pos > 31 || !n) return 0;
    u64 ones = n > 31 ? 0xffffffffull : (1ull << n) - 1;
    return (u32)(ones << pos);
}
BINARY(bmsk_clamp, u32, bit_mask(a[l], b[l], false))
BINARY(bmsk_wrap, u32, bit_mask(a[l], b[l], true))

static inline u32 extend(u32 a, u32 n, bool is_signed, bool wrap) {
    if (wrap) n &= 31;
    if (n > 31) return a;
    if (!n) return 0;
    return is_signed ? (u32)((s32)(a << (32 - n)) >> (32 - n)) : a & ((1u << n) - 1);
}
BINARY(szext_u_clamp, u32, extend(a[l], b[l], false, false)) BINARY(szext_u_wrap, u32, extend(a[l], b[l], false, true))
BINARY(szext_s_clamp, u32, extend(a[l], b[l], true, false))  BINARY(szext_s_wrap, u32, extend(a[l], b[l], true, true))

static u32 permute(u32 a, u32 b, u32 c, int mode) {
    u64 bytes = (u64)b << 32 | a;
    u32 r = 0, s = c & 3;
    for (u32 i = 0; i < 4; i++) {
        u32 pick, byte;
        switch (mode) {
        case 1:  pick = s + i; break;                    // f4e
        case 2:  pick = (s + 8 - i) & 7; break;          // b4e
        case 3:  pick = s; break;                        // rc8
        case 4:  pick = i > s ? i : s; break;            // ecl
        case 5:  pick = i < s ? i : s; break;            // ecr
        default: pick = (s & 1) * 2 + (i & 1); break;    // rc16
        }
        byte = (u32)(bytes >> (8 * (pick & 7))) & 0xff;
        r |= byte << (8 * i);
    }
    return r;
}
static inline u32 picked(u64 bytes, u32 pick) {             // a byte, or its sign eight times
    u32 byte = (u32)(bytes >> 8 * (pick & 7)) & 0xff;
    return pick & 8 ? (0u - (byte >> 7)) & 0xff : byte;
}
static inline u32 permute_bytes(u64 bytes, u32 c) {
    return picked(bytes, c & 15) | picked(bytes, c >> 4 & 15) << 8 | picked(bytes, c >> 8 & 15) << 16 | picked(bytes, c >> 12 & 15) << 24;
}
TERNARY(prmt, u32, permute_bytes((u64)b[l] << 32 | a[l], c[l]))
static void x_prmt(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const u32 *a = slot_at(w, in->a), *b = slot_at(w, in->b), *c = slot_at(w, in->c);
    EACH_ACTIVE(d[l] = permute(a[l], b[l], c[l], (int)in->imm));
}

static u32 dot_bytes(u32 a, u32 b, u32 c, u32 mode) {    // mode: 1 a signed, 2 b signed, 4 dp2a, 8 dp2a.hi
    if (mode & 4) {
        for (int i = 0; i < 2; i++) {
            u32 x = a >> (16 * i) & 0xffff, y = b >> (8 * i + (mode & 8 ? 16 : 0)) & 0xff;
            c += (mode & 1 ? (u32)(s32)(int16_t)x : x) * (mode & 2 ? (u32)(s32)(int8_t)y : y);
        }
        return c;
    }
    for (int i = 0; i < 4; i++) {
        u32 x = a >> (8 * i) & 0xff, y = b >> (8 * i) & 0xff;
        c += (mode & 1 ? (u32)(s32)(int8_t)x : x) * (mode & 2 ? (u32)(s32)(int8_t)y : y);
    }
    return c;
}
static void x_dp(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const u32 *a = slot_at(w, in->a), *b = slot_at(w, in->b), *c = slot_at(w, in->c);
    EACH_ACTIVE(d[l] = dot_bytes(a[l], b[l], c[l], (u32)in->imm));
}

static u32 nth_set(u32 mask, u32 base, s32 offset) {
    if (offset == 0) return base < 32 && mask >> base & 1 ? base : 0xffffffffu;
    s32 pos = (s32)base, step = offset > 0 ? 1 : -1, n = offset > 0 ? offset : -offset;
    for (; pos >= 0 && pos < 32; pos += step)
        if (mask >> pos & 1 && --n == 0) return (u32)pos;
    return 0xffffffffu;
}
TERNARY(fns_32, u32, nth_set(a[l], b[l], (s32)c[l]))

// ---- Carry chains: carry in and out of CC.CF. A subtraction adds the complement: it leaves 1 where it borrows nothing, and takes 1 for
//      that. Compilers rely on it where addc follows subc.

#define CARRY(name, C, W)                                                             \
    static void name(Warp *w, const Insn *in) {                                       \
        C *d = slot_at(w, in->d);                                                     \
        const C *a = slot_at(w, in->a), *b = slot_at(w, in->b);                       \
        const C *c = slot_at(w, in->c == NO_SLOT ? in->a : in->c);                    \
        u32 carry = w->carry;                                                         \
        EACH_ACTIVE({                                                                 \
            C x = a[l]; C y = b[l]; u64 k = in->flags & 1 ? (carry >> l & 1) ^ (in->flags >> 1 & 1) : 0; bool out; \
            if (in->flags & 8) {                         /* mad: the product's half first */ \
                W p = in->flags & 32 ? (W)in->type : 0;                               \
                p = in->flags & 64 ? (W)((sizeof(C) == 4 ? (s128)(s64)(s32)x : (s128)(s64)x) * (sizeof(C) == 4 ? (s128)(s64)(s32)y : (s128)(s64)y)) : (W)x * y; \
                x = (C)(in->flags & 16 ? p >> (8 * sizeof(C)) : p);                   \
                y = c[l];                                                             \
            }                                                                         \
            if (in->flags & 2) {                         /* sub */                    \
                C t = (C)(x - y), r = (C)(t - (C)k);                                  \
                out = !(x < y || t < (C)k);                                           \
                d[l] = r;                                                             \
            } else {                                                                  \
                C t = (C)(x + y), r = (C)(t + (C)k);                                  \
                out = t < x || r < t;                                                 \
                d[l] = r;                                                             \
            }                                                                         \
            if (in->flags & 4) carry = (carry & ~(1u << l)) | (u32)out << l;          \
        });                                                                           \
        w->carry = carry;                                                             \
    }
CARRY(carry_32, u32, u64) CARRY(carry_64, u64, u128)

// ---- Decoding

static InsnFn *by_type(Dec *d, Type t, InsnFn *u16, InsnFn *s16, InsnFn *unsigned32, InsnFn *signed32,
                       InsnFn *unsigned64, InsnFn *signed64) {
    bool s = ptx_type_is_signed(t);
    switch (ptx_type_bits(t)) {
    case 16: return s ? s16 : u16;
    case 32: return s ? signed32 : unsigned32;
    case 64: return s ? signed64 : unsigned64;
    default: dec_error(d, "`%.*s` of .%s is not supported", (int)d->name.n, d->name.s, ptx_type_name(t));
    }
}

static void operands2(Dec *d, InsnFn *fn, Type t, Type dt) {
    dec_count(d, 3, 3);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, t), to = dec_dst(d, 0, dt);
    Insn *in = dec_emit(d, fn);
    in->d = to, in->a = a, in->b = b;
}
static void operands1(Dec *d, InsnFn *fn, Type t, Type dt) {
    dec_count(d, 2, 2);
    uint32_t a = dec_src(d, 1, t), to = dec_dst(d, 0, dt);
    Insn *in = dec_emit(d, fn);
    in->d = to, in->a = a;
}

static void carry(Dec *d, uint8_t flags, bool three) {
    bool out = dec_mod(d, "cc");
    bool hi = dec_mod(d, "hi"), lo = dec_mod(d, "lo");
    (void)lo;
    Type t = dec_need_type(d);
    if (ptx_type_bits(t) != 32 && ptx_type_bits(t) != 64) dec_error(d, "a carry chain of .%s", ptx_type_name(t));
    dec_count(d, three ? 4 : 3, three ? 4 : 3);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, t), c = three ? dec_src(d, 3, t) : NO_SLOT, to = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, by_width(t, carry_32, carry_64));
    in->d = to, in->a = a, in->b = b, in->c = c;
    in->flags = (uint8_t)(flags | (out ? 4 : 0) | (three ? 8 : 0) | (hi ? 16 : 0) | (ptx_type_is_signed(t) ? 64 : 0));
}

static Type peek_type(const Dec *d) {
    for (uint32_t i = 0; i < d->n_mods; i++)
        if (!(d->used >> i & 1) && d->types[i]) return d->types[i];
    return T_none;
}

static void decode_add(Dec *d) {
    if (dec_has(d, "cc")) { carry(d, 0, false); return; }
    if (is_float(peek_type(d))) { VARIANT(decode_float)(d, A_add); return; }
    bool sat = dec_mod(d, "sat");
    Type t = dec_need_type(d);
    operands2(d, t == T_u16x2 || t == T_s16x2 ? add_x2 : sat ? add_sat_s32 : by_width(t, add_32, add_64), t, t);
}
static void decode_sub(Dec *d) {
    if (dec_has(d, "cc")) { carry(d, 2, false); return; }
    if (is_float(peek_type(d))) { VARIANT(decode_float)(d, A_sub); return; }
    bool sat = dec_mod(d, "sat");
    Type t = dec_need_type(d);
    operands2(d, sat ? sub_sat_s32 : by_width(t, sub_32, sub_64), t, t);
}
static void decode_addc(Dec *d) { carry(d, 1, false); }
static void decode_subc(Dec *d) { carry(d, 1 | 2, false); }
static void decode_madc(Dec *d) { carry(d, 1, true); }

static void decode_mul(Dec *d) {
    if (is_float(peek_type(d))) { VARIANT(decode_float)(d, A_mul); return; }
    bool hi = dec_mod(d, "hi"), wide = dec_mod(d, "wide"), lo = dec_mod(d, "lo");
    (void)lo;
    Type t = dec_need_type(d);
    if (wide) {
        if (ptx_type_bits(t) > 32) dec_error(d, "mul.wide of .%s", ptx_type_name(t));
        Type dt = ptx_type_bits(t) == 16 ? T_b32 : T_b64;
        operands2(d, by_type(d, t, mul_wide_u16, mul_wide_s16, mul_wide_u32, mul_wide_s32, NULL, NULL), t, dt);
    } else if (hi) operands2(d, by_type(d, t, mul_hi_u16, mul_hi_s16, mul_hi_u32, mul_hi_s32, mul_hi_u64, mul_hi_s64), t, t);
    else operands2(d, by_width(t, mul_32, mul_64), t, t);
}
static void decode_mad(Dec *d) {
    if (dec_has(d, "cc")) { carry(d, 0, true); return; }
    if (is_float(peek_type(d))) { VARIANT(decode_float)(d, A_fma); return; }
    bool hi = dec_mod(d, "hi"), wide = dec_mod(d, "wide"), lo = dec_mod(d, "lo"), sat = dec_mod(d, "sat");
    (void)lo;
    Type t = dec_need_type(d);
    if (wide) {
        if (ptx_type_bits(t) > 32) dec_error(d, "mad.wide of .%s", ptx_type_name(t));
        Type dt = ptx_type_bits(t) == 16 ? T_b32 : T_b64;
        operands3(d, by_type(d, t, mad_wide_u16, mad_wide_s16, mad_wide_u32, mad_wide_s32, NULL, NULL), t, dt, dt);
    } else if (hi)
        operands3(d,
                  sat ? mad_hi_sat_s32
                      : by_type(d, t, mad_hi_u16, mad_hi_s16, mad_hi_u32, mad_hi_s32, mad_hi_u64, mad_hi_s64),
                  t, t, t);
    else operands3(d, by_width(t, mad_32, mad_64), t, t, t);
}
static void decode_mul24(Dec *d) {
    bool hi = dec_mod(d, "hi");
    dec_mod(d, "lo");
    Type t = dec_need_type(d);
    operands2(d, ptx_type_is_signed(t) ? hi ? mul24_hi_s : mul24_lo_s : hi ? mul24_hi_u : mul24_lo_u, t, t);
}
static void decode_mad24(Dec *d) {
    bool hi = dec_mod(d, "hi"), lo = dec_mod(d, "lo"), sat = dec_mod(d, "sat");
    (void)lo;
    Type t = dec_need_type(d);
    if (sat && (!hi || t != T_s32)) dec_error(d, "`mad24.sat` needs .hi and .s32");
    operands3(d, sat ? mad24_hi_sat_s : ptx_type_is_signed(t) ? hi ? mad24_hi_s : mad24_lo_s : hi ? mad24_hi_u : mad24_lo_u, t, t, t);
}
static void decode_sad(Dec *d) {
    Type t = dec_need_type(d);
    operands3(d, by_type(d, t, sad_u16, sad_s16, sad_u32, sad_s32, sad_u64, sad_s64), t, t, t);
}
static void decode_div(Dec *d) {
    if (is_float(peek_type(d))) { VARIANT(decode_float)(d, A_div); return; }
    Type t = dec_need_type(d);
    operands2(d, by_type(d, t, div_u16, div_s16, div_u32, div_s32, div_u64, div_s64), t, t);
}
static void decode_rem(Dec *d) {
    Type t = dec_need_type(d);
    operands2(d, by_type(d, t, rem_u16, rem_s16, rem_u32, rem_s32, rem_u64, rem_s64), t, t);
}
static void decode_abs(Dec *d) {
    if (is_float(peek_type(d))) { VARIANT(decode_float)(d, A_abs); return; }
    Type t = dec_need_type(d);
    operands1(d, ptx_type_bits(t) == 16 ? abs_16 : by_width(t, abs_32, abs_64), t, t);
}
static void decode_neg(Dec *d) {
    if (is_float(peek_type(d))) { VARIANT(decode_float)(d, A_neg); return; }
    Type t = dec_need_type(d);
    operands1(d, by_width(t, neg_32, neg_64), t, t);
}
#define EXTREME(name)                                                                                                                \
    static void decode_##name(Dec *d) {                                                                                              \
        if (is_float(peek_type(d))) { VARIANT(decode_float)(d, A_##name); return; }                                                   \
        bool relu = dec_mod(d, "relu");                                                                                              \
        Type t = dec_need_type(d);                                                                                                   \
        if (relu && t != T_s32 && t != T_s16x2) dec_error(d, "`.relu` of .%s", ptx_type_name(t));                                     \
        operands2(d,                                                                                                                 \
                  t == T_u16x2   ? name##_u16x2                                                                                      \
                  : t == T_s16x2 ? relu ? name##_relu_s16x2 : name##_s16x2                                                           \
                  : relu         ? name##_relu_s32                                                                                   \
                                 : by_type(d, t, name##_u16, name##_s16, name##_u32, name##_s32, name##_u64, name##_s64),            \
                  t, t);                                                                                                             \
    }
EXTREME(min)
EXTREME(max)
#undef EXTREME

// The logic operations also work on predicates; a predicate is one word, so a plain blend does.
#define PRED_LOGIC(name, expr)                                                        \
    static void name(Warp *w, const Insn *in) {                                       \
        u32 *d = pred(w, in->d), a = *pred(w, in->a), b = *pred(w, in->b);            \
        *d = blend_pred(*d, expr, w->active);                                         \
    }
PRED_LOGIC(and_pred, a & b) PRED_LOGIC(or_pred, a | b) PRED_LOGIC(xor_pred, a ^ b)
static void not_pred(Warp *w, const Insn *in) {
    u32 *d = pred(w, in->d);
    *d = blend_pred(*d, ~*pred(w, in->a), w->active);
}
static void logic(Dec *d, InsnFn *p, InsnFn *w32, InsnFn *w64) {
    Type t = dec_need_type(d);
    operands2(d, t == T_pred ? p : by_width(t, w32, w64), t, t);
}
static void decode_and(Dec *d) { logic(d, and_pred, and_32, and_64); }
static void decode_or(Dec *d)  { logic(d, or_pred, or_32, or_64); }
static void decode_xor(Dec *d) { logic(d, xor_pred, xor_32, xor_64); }
static void decode_not(Dec *d) {
    Type t = dec_need_type(d);
    operands1(d, t == T_pred ? not_pred : by_width(t, not_32, not_64), t, t);
}
static void decode_cnot(Dec *d) {
    Type t = dec_need_type(d);
    operands1(d, ptx_type_bits(t) == 16 ? cnot_16 : by_width(t, cnot_32, cnot_64), t, t);
}
static void shift(Dec *d, Type t, InsnFn *fn) {
    dec_count(d, 3, 3);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, T_u32), to = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, fn);
    in->d = to, in->a = a, in->b = b;
}
static void decode_shl(Dec *d) {
    Type t = dec_need_type(d);
    shift(d, t, ptx_type_bits(t) == 16 ? shl_16 : by_width(t, shl_32, shl_64));
}
static void decode_shr(Dec *d) {
    Type t = dec_need_type(d);
    shift(d, t, by_type(d, t, shr_u16, shr_s16, shr_u32, shr_s32, shr_u64, shr_s64));
}
static void decode_shf(Dec *d) {
    bool left = dec_mod(d, "l"), clamp = dec_mod(d, "clamp");
    if (!left && !dec_mod(d, "r")) dec_error(d, "`shf` needs .l or .r");
    if (!clamp && !dec_mod(d, "wrap")) dec_error(d, "`shf` needs .clamp or .wrap");
    Type t = dec_need_type(d);
    operands3(d, left ? clamp ? shf_l_clamp : shf_l_wrap : clamp ? shf_r_clamp : shf_r_wrap, t, T_u32, t);
}
static void decode_lop3(Dec *d) {
    bool is_or = dec_mod(d, "or"), with_pred = is_or || dec_mod(d, "and");
    Type t = dec_need_type(d);
    dec_count(d, with_pred ? 6 : 5, with_pred ? 6 : 5);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, t), c = dec_src(d, 3, t);
    int64_t table = dec_imm(d, 4);
    if (!with_pred) {
        uint32_t to = dec_dst(d, 0, t);
        Insn *in = dec_emit(d, x_lop3);
        in->d = to, in->a = a, in->b = b, in->c = c, in->imm = table;
        return;
    }
    const Operand *o = dec_op(d, 0);
    if (!o->pair) dec_error(d, "`lop3` with a boolean operation needs p|d or d|p");
    bool first = o->kind == O_REG && o->type == T_pred;  // both orders are about; the manual has d|p
    Operand alone = *o;
    alone.pair = NULL;
    uint32_t p = dec_pred_dst(d, first ? &alone : o->pair), to = dec_dst_op(d, first ? o->pair : &alone, t);
    uint32_t q = dec_pred(d, dec_op(d, 5));
    Insn *in = dec_emit(d, x_lop3_pred);
    in->d = to, in->a = a, in->b = b, in->c = c, in->e = q, in->imm = table, in->flags = is_or;
    dec_list(d, in, 1)[0] = p;
}
static void decode_popc(Dec *d)  { Type t = dec_need_type(d); operands1(d, by_width(t, popc_32, popc_64), t, T_u32); }
static void decode_clz(Dec *d)   { Type t = dec_need_type(d); operands1(d, by_width(t, clz_32, clz_64), t, T_u32); }
static void decode_brev(Dec *d)  { Type t = dec_need_type(d); operands1(d, by_width(t, brev_32, brev_64), t, t); }
static void decode_bfind(Dec *d) {
    bool shiftamt = dec_mod(d, "shiftamt");
    Type t = dec_need_type(d);
    operands1(d, shiftamt ? by_type(d, t, NULL, NULL, bfind_shift_u32, bfind_shift_s32, bfind_shift_u64, bfind_shift_s64)
                          : by_type(d, t, NULL, NULL, bfind_u32, bfind_s32, bfind_u64, bfind_s64), t, T_u32);
    if (ptx_type_bits(t) < 32) dec_error(d, "bfind of .%s", ptx_type_name(t));
}
static void decode_bfe(Dec *d) {
    Type t = dec_need_type(d);
    if (ptx_type_bits(t) < 32) dec_error(d, "bfe of .%s", ptx_type_name(t));
    dec_count(d, 4, 4);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, T_u32), c = dec_src(d, 3, T_u32), to = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, by_type(d, t, NULL, NULL, bfe_u32, bfe_s32, bfe_u64, bfe_s64));
    in->d = to, in->a = a, in->b = b, in->c = c;
}
static void decode_bfi(Dec *d) {
    Type t = dec_need_type(d);
    dec_count(d, 5, 5);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, t), c = dec_src(d, 3, T_u32), e = dec_src(d, 4, T_u32),
             to = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, by_width(t, bfi_32, bfi_64));
    in->d = to, in->a = a, in->b = b, in->c = c, in->e = e;
}
static void decode_bmsk(Dec *d) {
    bool wrap = dec_mod(d, "wrap");
    if (!wrap) dec_mod(d, "clamp");
    operands2(d, wrap ? bmsk_wrap : bmsk_clamp, dec_need_type(d), T_b32);
}
static void decode_szext(Dec *d) {
    bool wrap = dec_mod(d, "wrap");
    if (!wrap) dec_mod(d, "clamp");
    Type t = dec_need_type(d);
    operands2(d, ptx_type_is_signed(t) ? wrap ? szext_s_wrap : szext_s_clamp : wrap ? szext_u_wrap : szext_u_clamp, t, t);
}
static void decode_prmt(Dec *d) {
    static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    int mode = 0;
    Type t = dec_need_type(d);
    for (int i = 0; i < 6; i++)
        if (dec_mod(d, modes[i])) mode = i + 1;
    operands3(d, mode ? x_prmt : prmt, t, T_b32, t)->imm = mode;
}
static void decode_dp(Dec *d) {
    bool dp2a = ptx_str_is(d->name, "dp2a"), hi = dec_mod(d, "hi");
    if (dp2a) dec_mod(d, "lo");
    Type ta = dec_need_type(d), tb = dec_need_type(d);
    Insn *in = operands3(d, x_dp, T_b32, T_b32, T_b32);
    in->imm = (ptx_type_is_signed(ta) ? 1 : 0) | (ptx_type_is_signed(tb) ? 2 : 0) | (dp2a ? 4 : 0) | (hi ? 8 : 0);
}
static void decode_fns(Dec *d) { operands3(d, fns_32, dec_need_type(d), T_b32, T_b32); }

// clang-format off
const InsnDef VARIANT(defs_integer)[] = {
    {"add",   decode_add,   EMU_CLASS_INTEGER}, {"sub",   decode_sub,   EMU_CLASS_INTEGER}, {"addc",  decode_addc,  EMU_CLASS_INTEGER},
    {"subc",  decode_subc,  EMU_CLASS_INTEGER}, {"mul",   decode_mul,   EMU_CLASS_INTEGER}, {"mad",   decode_mad,   EMU_CLASS_INTEGER},
    {"madc",  decode_madc,  EMU_CLASS_INTEGER}, {"mul24", decode_mul24, EMU_CLASS_INTEGER}, {"mad24", decode_mad24, EMU_CLASS_INTEGER},
    {"sad",   decode_sad,   EMU_CLASS_INTEGER}, {"div",   decode_div,   EMU_CLASS_INTEGER}, {"rem",   decode_rem,   EMU_CLASS_INTEGER},
    {"abs",   decode_abs,   EMU_CLASS_INTEGER}, {"neg",   decode_neg,   EMU_CLASS_INTEGER}, {"min",   decode_min,   EMU_CLASS_INTEGER},
    {"max",   decode_max,   EMU_CLASS_INTEGER}, {"and",   decode_and,   EMU_CLASS_INTEGER}, {"or",    decode_or,    EMU_CLASS_INTEGER},
    {"xor",   decode_xor,   EMU_CLASS_INTEGER}, {"not",   decode_not,   EMU_CLASS_INTEGER}, {"cnot",  decode_cnot,  EMU_CLASS_INTEGER},
    {"shl",   decode_shl,   EMU_CLASS_INTEGER}, {"shr",   decode_shr,   EMU_CLASS_INTEGER}, {"shf",   decode_shf,   EMU_CLASS_INTEGER},
    {"lop3",  decode_lop3,  EMU_CLASS_INTEGER}, {"popc",  decode_popc,  EMU_CLASS_INTEGER}, {"clz",   decode_clz,   EMU_CLASS_INTEGER},
    {"brev",  decode_brev,  EMU_CLASS_INTEGER}, {"bfind", decode_bfind, EMU_CLASS_INTEGER}, {"bfe",   decode_bfe,   EMU_CLASS_INTEGER},
    {"bfi",   decode_bfi,   EMU_CLASS_INTEGER}, {"bmsk",  decode_bmsk,  EMU_CLASS_INTEGER}, {"szext", decode_szext, EMU_CLASS_INTEGER},
    {"prmt",  decode_prmt,  EMU_CLASS_INTEGER}, {"dp4a",  decode_dp,    EMU_CLASS_INTEGER}, {"dp2a",  decode_dp,    EMU_CLASS_INTEGER},
    {"fns",   decode_fns,   EMU_CLASS_INTEGER}, {NULL, NULL, 0},
};

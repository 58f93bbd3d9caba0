// Integer, logic, shift, bit and comparison instructions against plain C written another way.
#include "kit.h"

typedef __int128 s128;
typedef int64_t s64;
typedef int32_t s32;

static u64 field(u64 a, unsigned pos, unsigned len, unsigned width, bool sign) {   // bit by bit, as the manual does
    u64 r = 0;
    unsigned msb = width - 1;
    if (width == 32) pos &= 255, len &= 255;
    if (pos > 255) pos = 255;
    if (len > 255) len = 255;
    u64 s = !sign || len == 0 ? 0 : a >> (pos + len - 1 < msb ? pos + len - 1 : msb) & 1;
    for (unsigned i = 0; i <= msb; i++) r |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : s) << i;
    return r;
}
static u32 relu_halves(u32 x, u32 y, bool least) {
    u32 r = 0;
    for (int i = 0; i < 2; i++) {
        int16_t p = (int16_t)(x >> 16 * i), q = (int16_t)(y >> 16 * i), v = (p < q) == least ? p : q;
        r |= (u32)(v > 0 ? v : 0) << 16 * i;
    }
    return r;
}
static u64 insert(u64 a, u64 b, unsigned pos, unsigned len, unsigned width) {
    if (width == 32) pos &= 255, len &= 255;
    if (len > 64) len = 64;
    for (unsigned i = 0; i < len && pos < 256 && pos + i < width; i++)
        b = (b & ~(1ull << (pos + i))) | (a >> i & 1) << (pos + i);
    return b;
}
static u64 reverse(u64 a, unsigned n) {
    u64 r = 0;
    for (unsigned i = 0; i < n; i++) r |= (a >> i & 1) << (n - 1 - i);
    return r;
}
static u64 highest(u64 a, int n, bool sign) {
    if (sign && a >> (n - 1) & 1) a = ~a;
    for (int i = n - 1; i >= 0; i--) if (a >> i & 1) return (u32)i;
    return 0xffffffffu;
}
static u32 table3(u32 a, u32 b, u32 c, unsigned t) {
    u32 r = 0;
    for (int i = 0; i < 32; i++) r |= (t >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1u) << i;
    return r;
}
static u32 nth(u32 mask, u32 base, int offset) {         // fns: the manual's text
    if (offset == 0) return mask >> base & 1 ? base : 0xffffffffu;
    int step = offset > 0 ? 1 : -1, left = offset * step;
    for (int at = (int)base; at >= 0 && at < 32; at += step) if (mask >> at & 1 && --left == 0) return (u32)at;
    return 0xffffffffu;
}
static u32 extended(u32 a, u32 n, bool sign) {           // the lower n bits of a
    if (n == 0) return 0;
    u32 low = n > 31 ? a : a & ((1u << n) - 1);
    return sign && n < 32 && a >> (n - 1) & 1 ? low | ~0u << n : low;
}
static s64 clamp(s64 x, s64 lo, s64 hi) { return x < lo ? lo : x > hi ? hi : x; }
static s64 signed24(u32 x) { return (s32)(x << 8) >> 8; }
static u32 halves(u32 low, u32 high) { return (low & 0xffff) | high << 16; }
static u32 prmt(u32 a, u32 b, u32 c) {
    u32 r = 0;
    for (int i = 0; i < 4; i++) {
        u32 s = c >> 4 * i & 15, x = (s & 4 ? b : a) >> 8 * (s & 3) & 255;
        r |= (s & 8 ? x & 128 ? 255 : 0 : x) << 8 * i;
    }
    return r;
}
static u32 dp4a(u32 a, u32 b, u32 c) {
    for (int i = 0; i < 4; i++) c += (u32)((int)(int8_t)(a >> 8 * i) * (int)(uint8_t)(b >> 8 * i));
    return c;
}

#define W32 "cvt.u64.u32 %D, %d;"
#define W16 "cvt.u64.u16 %D, %hd;"
#define WP  "selp.u64 %D, 1, 0, %p;"
#define A ((u32)a)
#define B ((u32)b)
#define C ((u32)c)
#define SA ((s32)a)
#define SB ((s32)b)
#define SC ((s32)c)
#define HA ((uint16_t)a)
#define HB ((uint16_t)b)
#define SHA ((int16_t)a)
#define SHB ((int16_t)b)

// clang-format off
#define MORE_OPS(X) \
  X(add_x2,     "add.s16x2 %d, %a, %b;" W32,              halves(A + B, (A >> 16) + (B >> 16))) \
  X(sub_sat,    "sub.sat.s32 %d, %a, %b;" W32,            (u32)clamp((s64)SA - SB, INT32_MIN, INT32_MAX)) \
  X(addc_64,    "add.cc.u64 %rd5, %A, %B; addc.u64 %D, %C, 0;", c + (a + b < a)) \
  X(subc_64,    "sub.cc.u64 %rd5, %A, %B; subc.u64 %D, %C, 0;", c - (a < b)) \
  X(mul_hi_u16, "mul.hi.u16 %hd, %ha, %hb;" W16,          (u64)HA * HB >> 16) \
  X(mul_hi_s16, "mul.hi.s16 %hd, %ha, %hb;" W16,          (uint16_t)((s32)SHA * SHB >> 16)) \
  X(mul24_u,    "mul24.lo.u32 %d, %a, %b;" W32,           (u32)((a & 0xffffff) * (b & 0xffffff))) \
  X(mul24_hi_u, "mul24.hi.u32 %d, %a, %b;" W32,           (u32)((a & 0xffffff) * (b & 0xffffff) >> 16)) \
  X(mul24_hi_s, "mul24.hi.s32 %d, %a, %b;" W32,           (u32)(signed24(A) * signed24(B) >> 16)) \
  X(mad24_u,    "mad24.lo.u32 %d, %a, %b, %c;" W32,       (u32)((a & 0xffffff) * (b & 0xffffff) + C)) \
  X(mad24_s,    "mad24.lo.s32 %d, %a, %b, %c;" W32,       (u32)((u64)(signed24(A) * signed24(B)) + C)) \
  X(mad_hi_s,   "mad.hi.s32 %d, %a, %b, %c;" W32,         (u32)((u64)((s64)SA * SB >> 32) + C)) \
  X(mad_hi_sat, "mad.hi.sat.s32 %d, %a, %b, %c;" W32,     (u32)clamp(((s64)SA * SB >> 32) + SC, INT32_MIN, INT32_MAX)) \
  X(mad_hi_u64, "mad.hi.u64 %D, %A, %B, %C;",             (u64)((unsigned __int128)a * b >> 64) + c) \
  X(mad_hi_s64, "mad.hi.s64 %D, %A, %B, %C;",             (u64)((s128)(s64)a * (s64)b >> 64) + c) \
  X(mad_hi_u16, "mad.hi.u16 %hd, %ha, %hb, %hc;" W16,     (uint16_t)(((u64)HA * HB >> 16) + c)) \
  X(mad_hi_s16, "mad.hi.s16 %hd, %ha, %hb, %hc;" W16,     (uint16_t)(((s32)SHA * SHB >> 16) + (s32)(int16_t)c)) \
  X(mad_wide_u, "mad.wide.u32 %D, %a, %b, %C;",           (u64)A * B + c) \
  X(mad_wide_u16, "mad.wide.u16 %d, %ha, %hb, %c;" W32,   (u32)((u64)HA * HB + C)) \
  X(mad_wide_s16, "mad.wide.s16 %d, %ha, %hb, %c;" W32,   (u32)(SHA * SHB) + C) \
  X(sad_u32,    "sad.u32 %d, %a, %b, %c;" W32,            (u32)(C + (A > B ? A - B : B - A))) \
  X(sad_u64,    "sad.u64 %D, %A, %B, %C;",                c + (a > b ? a - b : b - a)) \
  X(sad_s64,    "sad.s64 %D, %A, %B, %C;",                c + ((s64)a > (s64)b ? a - b : b - a)) \
  X(sad_u16,    "sad.u16 %hd, %ha, %hb, %hc;" W16,        (uint16_t)(c + (u64)abs(HA - HB))) \
  X(sad_s16,    "sad.s16 %hd, %ha, %hb, %hc;" W16,        (uint16_t)(c + (u64)abs(SHA - SHB))) \
  X(rem_s16,    "rem.s16 %hd, %ha, %hb;" W16,             HB ? (uint16_t)(SHA % SHB) : 0xffff) \
  X(rem_s64,    "rem.s64 %D, %A, %B;",                    b ? (u64)((s128)(s64)a % (s64)b) : ~0ull) \
  X(abs_s16,    "abs.s16 %hd, %ha;" W16,                  (uint16_t)abs(SHA)) \
  X(sub_addc,   "sub.cc.u32 %r3, %a, %b; subc.cc.u32 %r4, %b, %c; addc.u32 %d, %c, 0;" W32, C + !((u64)B < (u64)C + (A < B))) /* what a subtraction leaves, added: 1 where it borrows nothing */ \
  X(relu_x2,    "min.relu.s16x2 %r3, %a, %b; max.relu.s16x2 %r4, %a, %c; xor.b32 %d, %r3, %r4;" W32, relu_halves(A, B, true) ^ relu_halves(A, C, false)) \
  X(mad24_hi,   "mad24.hi.u32 %r3, %a, %b, %c; mad24.hi.sat.s32 %r4, %a, %b, %c; mov.b64 %D, {%r3, %r4};", \
    (u32)((u32)((u64)(A & 0xffffff) * (B & 0xffffff) >> 16) + C) | (u64)(u32)clamp((s64)((s32)((s64)((s32)(A << 8) >> 8) * ((s32)(B << 8) >> 8) >> 16)) + SC, INT32_MIN, INT32_MAX) << 32) \
  X(min_relu,   "min.relu.s32 %d, %a, %b;" W32,           (u32)clamp(SA < SB ? SA : SB, 0, INT32_MAX)) \
  X(max_relu,   "max.relu.s32 %d, %a, %b;" W32,           (u32)clamp(SA > SB ? SA : SB, 0, INT32_MAX)) \
  X(max_u16x2,  "max.u16x2 %d, %a, %b;" W32,              halves(HA > HB ? HA : HB, A >> 16 > B >> 16 ? A >> 16 : B >> 16)) \
  X(min_s16x2,  "min.s16x2 %d, %a, %b;" W32,              halves((u32)(SHA < SHB ? SHA : SHB), (u32)(SA >> 16 < SB >> 16 ? SA >> 16 : SB >> 16))) \
  X(max_s16x2,  "max.s16x2 %d, %a, %b;" W32,              halves((u32)(SHA > SHB ? SHA : SHB), (u32)(SA >> 16 > SB >> 16 ? SA >> 16 : SB >> 16))) \
  X(cnot_b64,   "cnot.b64 %D, %A;",                       a == 0) \
  X(cnot_b16,   "cnot.b16 %hd, %ha;" W16,                 HA == 0) \
  X(shf_l_clamp,"shf.l.clamp.b32 %d, %a, %b, %c;" W32,    C > 31 ? A : (u32)(((u64)B << 32 | A) << C >> 32)) \
  X(shf_r_wrap, "shf.r.wrap.b32 %d, %a, %b, %c;" W32,     (u32)(((u64)B << 32 | A) >> (C & 31))) \
  X(lop3_and,   "setp.gt.s32 %q, %c, 0; lop3.and.b32 %d|%p, %a, %b, %c, 0x96, %q;" WP, (A ^ B ^ C) != 0 && SC > 0) \
  X(lop3_or,    "setp.gt.s32 %q, %c, 0; lop3.or.b32 %d|%p, %a, %b, %c, 0xe8, %q; selp.u32 %d, %d, 0, %p;" W32, \
                                                          table3(A, B, C, 0xe8)) \
  X(clz64,      "clz.b64 %d, %A;" W32,                    a ? 63 - highest(a, 64, false) : 64) \
  X(bfind_u,    "bfind.u32 %d, %a;" W32,                  highest(A, 32, false)) \
  X(bfind_lo64, "bfind.u64 %d, %A;" W32,                  highest(a, 64, false)) \
  X(bfind_s64,  "bfind.s64 %d, %A;" W32,                  highest(a, 64, true)) \
  X(bfind_amount_u, "bfind.shiftamt.u32 %d, %a;" W32,     A ? 31 - highest(A, 32, false) : 0xffffffffu) \
  X(bfind_amount_s, "bfind.shiftamt.s32 %d, %a;" W32,     (u32)(highest(A, 32, true) > 31 ? ~0u : 31 - highest(A, 32, true))) \
  X(bfind_amount_s64, "bfind.shiftamt.s64 %d, %A;" W32,   (u32)(highest(a, 64, true) > 63 ? ~0u : 63 - highest(a, 64, true))) \
  X(bfe_u64,    "bfe.u64 %D, %A, %b, %c;",                field(a, B, C, 64, false)) \
  X(bmsk_wrap,  "bmsk.wrap.b32 %d, %a, %b;" W32,          insert(~0ull, 0, A & 31, B & 31, 32)) \
  X(szext_s,    "szext.clamp.s32 %d, %a, %b;" W32,        extended(A, B > 32 ? 32 : B, true)) \
  X(szext_u,    "szext.clamp.u32 %d, %a, %b;" W32,        extended(A, B > 32 ? 32 : B, false)) \
  X(szext_wrap, "szext.wrap.u32 %d, %a, %b;" W32,         extended(A, B & 31, false)) \
  X(fns,        "and.b32 %r3, %b, 31; and.b32 %r4, %c, 7; sub.s32 %r4, %r4, 3; fns.b32 %d, %a, %r3, %r4;" W32, nth(A, B & 31, (int)(C & 7) - 3)) \
  X(slct_64,    "slct.u64.s32 %D, %A, %B, %c;",           SC >= 0 ? a : b) \
  X(slct_f32,   "slct.u32.f32 %d, %a, %b, %c;" W32,       f32_from(C) >= 0 ? A : B) \
  X(slct_64_f32,"slct.b64.f32 %D, %A, %B, %c;",           f32_from(C) >= 0 ? a : b)

#define OPS(X) \
  X(add_s32,    "add.s32 %d, %a, %b;" W32,                (u32)(A + B)) \
  X(add_u64,    "add.u64 %D, %A, %B;",                    a + b) \
  X(add_s16,    "add.s16 %hd, %ha, %hb;" W16,             (uint16_t)(a + b)) \
  X(add_sat,    "add.sat.s32 %d, %a, %b;" W32,            (u32)((s64)SA + SB > INT32_MAX ? INT32_MAX : (s64)SA + SB < INT32_MIN ? INT32_MIN : SA + (s64)SB)) \
  X(sub_s32,    "sub.s32 %d, %a, %b;" W32,                (u32)(A - B)) \
  X(sub_s64,    "sub.s64 %D, %A, %B;",                    a - b) \
  X(addc,       "add.cc.u32 %r3, %a, %b; addc.cc.u32 %r4, %b, %c; addc.u32 %r5, 0, 0; mov.b64 %D, {%r4, %r5};", (u64)B + C + (((u64)A + B) >> 32)) \
  X(subc,       "sub.cc.u32 %r3, %a, %b; subc.u32 %d, %c, 0;" W32, (u32)(C - (A < B))) \
  X(madc,       "mad.lo.cc.u32 %r3, %a, %b, %c; madc.hi.u32 %r4, %a, %b, 7; mov.b64 %D, {%r3, %r4};", (u64)A * B + C + (7ull << 32)) \
  X(mul_lo,     "mul.lo.s32 %d, %a, %b;" W32,             (u32)(A * B)) \
  X(mul_hi_s,   "mul.hi.s32 %d, %a, %b;" W32,             (u32)((u64)((s64)SA * SB) >> 32)) \
  X(mul_hi_u,   "mul.hi.u32 %d, %a, %b;" W32,             (u64)A * B >> 32) \
  X(mul_wide_s, "mul.wide.s32 %D, %a, %b;",               (u64)((s64)SA * SB)) \
  X(mul_wide_16,"mul.wide.u16 %d, %ha, %hb;" W32,         (u32)((uint16_t)a * (u32)(uint16_t)b)) \
  X(mul_wide_s16,"mul.wide.s16 %d, %ha, %hb;" W32,        (u32)((s32)(int16_t)a * (int16_t)b)) \
  X(mul_hi_s64, "mul.hi.s64 %D, %A, %B;",                 (u64)(((s128)(s64)a * (s64)b) >> 64)) \
  X(mul_hi_u64, "mul.hi.u64 %D, %A, %B;",                 (u64)(((unsigned __int128)a * b) >> 64)) \
  X(mad_lo,     "mad.lo.s32 %d, %a, %b, %c;" W32,         (u32)(A * B + C)) \
  X(mad_wide,   "mad.wide.s32 %D, %a, %b, %C;",           (u64)((s64)SA * SB) + c) \
  X(mad_hi,     "mad.hi.u32 %d, %a, %b, %c;" W32,         (u32)(((u64)A * B >> 32) + C)) \
  X(mad_64,     "mad.lo.u64 %D, %A, %B, %C;",             a * b + c) \
  X(mul24,      "mul24.lo.s32 %d, %a, %b;" W32,           (u32)((s64)((s32)(A << 8) >> 8) * ((s32)(B << 8) >> 8))) \
  X(sad,        "sad.s32 %d, %a, %b, %c;" W32,            (u32)(C + (u32)(SA > SB ? (s64)SA - SB : (s64)SB - SA))) \
  X(div_s32,    "div.s32 %d, %a, %b;" W32,                B ? (u32)((s64)SA / SB) : 0xffffffffu) \
  X(div_u32,    "div.u32 %d, %a, %b;" W32,                B ? A / B : 0xffffffffu) \
  X(rem_s32,    "rem.s32 %d, %a, %b;" W32,                B ? (u32)((s64)SA % SB) : 0xffffffffu) \
  X(rem_u64,    "rem.u64 %D, %A, %B;",                    b ? a % b : ~0ull) \
  X(div_s64,    "div.s64 %D, %A, %B;",                    b ? (u64)((s128)(s64)a / (s64)b) : ~0ull) \
  X(abs_s32,    "abs.s32 %d, %a;" W32,                    SA < 0 ? (u32)(0 - A) : A) \
  X(neg_s64,    "neg.s64 %D, %A;",                        0 - a) \
  X(min_s32,    "min.s32 %d, %a, %b;" W32,                (u32)(SA < SB ? SA : SB)) \
  X(max_u32,    "max.u32 %d, %a, %b;" W32,                A > B ? A : B) \
  X(min_s64,    "min.s64 %D, %A, %B;",                    (u64)((s64)a < (s64)b ? (s64)a : (s64)b)) \
  X(max_s16,    "max.s16 %hd, %ha, %hb;" W16,             (uint16_t)((int16_t)a > (int16_t)b ? a : b)) \
  X(min_u16x2,  "min.u16x2 %d, %a, %b;" W32,              ((a & 0xffff) < (b & 0xffff) ? a & 0xffff : b & 0xffff) | ((A >> 16) < (B >> 16) ? A >> 16 : B >> 16) << 16) \
  X(and_b32,    "and.b32 %d, %a, %b;" W32,                A & B) \
  X(or_b64,     "or.b64 %D, %A, %B;",                     a | b) \
  X(xor_b16,    "xor.b16 %hd, %ha, %hb;" W16,             (uint16_t)(a ^ b)) \
  X(not_b32,    "not.b32 %d, %a;" W32,                    (u32)~A) \
  X(cnot_b32,   "cnot.b32 %d, %a;" W32,                   A == 0) \
  X(shl_b32,    "shl.b32 %d, %a, %b;" W32,                B > 31 ? 0 : (u32)(A << B)) \
  X(shl_b64,    "shl.b64 %D, %A, %b;",                    B > 63 ? 0 : a << B) \
  X(shl_b16,    "shl.b16 %hd, %ha, %b;" W16,              B > 15 ? 0 : (uint16_t)(a << B)) \
  X(shr_u32,    "shr.u32 %d, %a, %b;" W32,                B > 31 ? 0 : A >> B) \
  X(shr_s32,    "shr.s32 %d, %a, %b;" W32,                (u32)(SA >> (B > 31 ? 31 : B))) \
  X(shr_s16,    "shr.s16 %hd, %ha, %b;" W16,              (uint16_t)((int16_t)a >> (B > 15 ? 15 : B))) \
  X(shr_s64,    "shr.s64 %D, %A, %b;",                    (u64)((s64)a >> (B > 63 ? 63 : B))) \
  X(shf_l,      "shf.l.wrap.b32 %d, %a, %b, %c;" W32,     (u32)(((u64)B << 32 | A) << (C & 31) >> 32)) \
  X(shf_r,      "shf.r.clamp.b32 %d, %a, %b, %c;" W32,    (u32)(((u64)B << 32 | A) >> (C > 32 ? 32 : C))) \
  X(lop3,       "lop3.b32 %d, %a, %b, %c, 0xca;" W32,     table3(A, B, C, 0xca)) \
  X(lop3_96,    "lop3.b32 %d, %a, %b, %c, 150;" W32,      A ^ B ^ C) \
  X(popc,       "popc.b32 %d, %a;" W32,                   (u64)__builtin_popcount(A)) \
  X(popc64,     "popc.b64 %d, %A;" W32,                   (u64)__builtin_popcountll(a)) \
  X(clz,        "clz.b32 %d, %a;" W32,                    A ? 31 - highest(A, 32, false) : 32) \
  X(bfind_s,    "bfind.s32 %d, %a;" W32,                  highest(A, 32, true)) \
  X(bfind_u64,  "bfind.shiftamt.u64 %d, %A;" W32,         a ? 63 - highest(a, 64, false) : 0xffffffffu) \
  X(brev,       "brev.b32 %d, %a;" W32,                   reverse(A, 32)) \
  X(brev64,     "brev.b64 %D, %A;",                       reverse(a, 64)) \
  X(bfe_u32,    "bfe.u32 %d, %a, %b, %c;" W32,            field(A, B, C, 32, false)) \
  X(bfe_s32,    "bfe.s32 %d, %a, %b, %c;" W32,            field(A, B, C, 32, true)) \
  X(bfe_s64,    "bfe.s64 %D, %A, %b, %c;",                field(a, B, C, 64, true)) \
  X(bfi_b32,    "bfi.b32 %d, %a, %b, %c, %b;" W32,        insert(A, B, C, B, 32)) \
  X(bfi_b64,    "bfi.b64 %D, %A, %B, %c, %b;",            insert(a, b, C, B, 64)) \
  X(bmsk,       "bmsk.clamp.b32 %d, %a, %b;" W32,         insert(~0ull, 0, A > 31 ? 255 : A, B > 32 ? 32 : B, 32)) \
  X(szext,      "szext.wrap.s32 %d, %a, %b;" W32,         (B & 31) ? (u32)((s32)(A << (32 - (B & 31))) >> (32 - (B & 31))) : 0) \
  X(prmt,       "prmt.b32 %d, %a, %b, %c;" W32,           prmt(A, B, C)) \
  X(prmt_imm,   "prmt.b32 %d, %a, %b, 0x5410;" W32,       (A & 0xffff) | B << 16) \
  X(dp4a,       "dp4a.s32.u32 %d, %a, %b, %c;" W32,       dp4a(A, B, C)) \
  X(setp_lt,    "setp.lt.s32 %p, %a, %b;" WP,             SA < SB) \
  X(setp_hi,    "setp.hi.u32 %p, %a, %b;" WP,             A > B) \
  X(setp_64,    "setp.ge.s64 %p, %A, %B;" WP,             (s64)a >= (s64)b) \
  X(setp_16,    "setp.le.u16 %p, %ha, %hb;" WP,           (uint16_t)a <= (uint16_t)b) \
  X(setp_and,   "setp.ne.s32 %q, %c, 0; setp.gt.and.s32 %p|%s, %a, %b, %q;" WP, SA > SB && C) \
  X(setp_pair,  "setp.eq.s32 %s|%p, %a, %b;" WP,          A != B) \
  X(setp_not,   "setp.ne.s32 %q, %c, 0; setp.gt.or.s32 %p, %a, %b, !%q;" WP, SA > SB || !C) \
  X(pred_logic, "setp.lt.s32 %q, %a, %b; setp.lt.s32 %s, %b, %c; and.pred %p, %q, %s; not.pred %p, %p;" WP, !(SA < SB && SB < SC)) \
  X(set_u32,    "set.lt.u32.s32 %d, %a, %b;" W32,         SA < SB ? 0xffffffffu : 0) \
  X(set_f32,    "set.lt.f32.s32 %d, %a, %b;" W32,         SA < SB ? 0x3f800000u : 0) \
  X(selp,       "setp.gt.s32 %q, %c, 0; selp.b32 %d, %a, %b, %q;" W32, SC > 0 ? A : B) \
  X(slct,       "slct.u32.s32 %d, %a, %b, %c;" W32,       SC >= 0 ? A : B) \
  X(guard,      "setp.gt.s32 %q, %c, 0; mov.u32 %d, %a; @!%q mov.u32 %d, %b;" W32, SC > 0 ? A : B) \
  X(mov_pack,   "mov.b32 %d, {%ha, %hb};" W32,            (u32)((a & 0xffff) | (b & 0xffff) << 16)) \
  X(mov_unpack, "mov.b32 {%h1, %h2}, %a; mov.b32 %d, {%h2, %h1};" W32, (u32)(A << 16 | A >> 16)) \
  X(mov_sink,   "mov.b64 {_, %d}, %A;" W32,               a >> 32) \
  X(cvt_s8,     "cvt.s32.s8 %d, %a;" W32,                 (u32)(s32)(int8_t)a) \
  X(cvt_s64_s16,"cvt.s64.s16 %D, %ha;",                   (u64)(s64)(int16_t)a) \
  X(cvt_sat,    "cvt.sat.u8.s32 %d, %a;" W32,             (u32)(SA < 0 ? 0 : SA > 255 ? 255 : SA)) \
  X(cvt_sat16,  "cvt.sat.s16.s64 %hd, %A;" W16,           (uint16_t)((s64)a > 32767 ? 32767 : (s64)a < -32768 ? -32768 : (s64)a)) \
  X(cvt_wide,   "cvt.u32.u64 %d, %A; cvt.s64.s32 %D, %d;", (u64)(s64)SA) \
  X(cvt_pack_u2,"cvt.pack.sat.u2.s32.b32 %d, %a, %b, %c;" W32, (u32)(C << 4 | (u32)(SA < 0 ? 0 : SA > 3 ? 3 : SA) << 2 | (u32)(SB < 0 ? 0 : SB > 3 ? 3 : SB))) \
  X(const_signed, "mov.b64 %D, -7 / 2 + (-7 % 4) * 100 + (-64 >> 3) * 10000;", (u64)(s64)(-3 - 300 - 80000)) \
  X(const_unsigned, "mov.b64 %D, ((.u64) -64 >> 60) + (7U - 8U >> 63) * 100 + (0xffffffffffffffff > 1) * 1000;", 15 + 100 + 1000) \
  X(const_choice, "mov.b64 %D, 3 == 3 && 2 < 1 ? 7 : !0 + 4 * (1 != 2 || 0) ? (5 >= 5 ? 9 : 8) : 6;", 9) \
  X(const_ranks, "mov.b64 %D, 1 | 6 & 3 ^ 1 << 2 + 1;",   1 | ((6 & 3) ^ (1 << 3))) \
  X(vectors,    ".reg .v4 .b32 v, w; .reg .v2 .b64 p; mov.v4.b32 v, {%a, %b, %c, 7}; mov.v4.b32 {w.y, w.x, w.b, w.a}, v; mov.v4.b32 w, {w.y, w.x, w.z, w.w};" \
                " mov.v2.b64 p, {%A, %B}; add.s32 %d, v.x, w.w; cvt.u64.u32 p.x, %d; shl.b64 p.y, p.y, 32; or.b64 %D, p.x, p.y;", (u32)(A + 7) | b << 32) \
  X(vector_swap,".reg .v2 .b32 v; mov.v2.b32 v, {%a, %b}; mov.v2.b32 v, {v.y, v.x}; mov.b64 %D, v;", (u64)A << 32 | B) \
  X(tid_vector, ".reg .v4 .u32 t; mov.v4.u32 t, %ntid; mov.v4.u32 {%r3, _, _, %r4}, %nctaid; mad.lo.u32 %d, t.x, 1000, %r3; add.u32 %d, %d, t.y; add.u32 %d, %d, %r4;" W32, 128 * 1000 + 8 + 1) \
  X(cvt_pack,   "cvt.pack.sat.s16.s32 %d, %a, %b;" W32,   (u32)((SA > 32767 ? 32767 : SA < -32768 ? -32768 : SA) & 0xffff) << 16 | ((SB > 32767 ? 32767 : SB < -32768 ? -32768 : SB) & 0xffff)) \
  MORE_OPS(X)

OPS(OP_WANT)

static void check(const char *name, const char *body, u64 (*want)(u64, u64, u64)) {
    static u64 a[LANES], b[LANES], c[LANES];
    inputs(a, 0), inputs(b, 1), inputs(c, 2);
    check_lanes(name, body, a, b, c, want);
}

OPS(OP_TEST)

int main(void) {
    const struct CMUnitTest tests[] = {OPS(OP_ROW)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

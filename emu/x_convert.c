// cvt, in all its forms.
//
// A conversion goes through one of two exact carriers: a 64-bit integer with its signedness, or a
// double. Rounding to the destination happens once, from there. The commonest pairs have loops of
// their own.
#include <fenv.h>
#include <math.h>

#include "emu/small.h"
#include "emu/x_arith.h"

enum { FTZ = 1, SAT = 2, RELU = 4, FINITE = 8, TO_INTEGER = 16 };

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t  s64;

typedef struct Conversion {
    Type to, from;
    int  round;                   // R_*; with TO_INTEGER: of the value itself
    int  flags;
    u32  to_bits;                 // of the destination register, for sign extension
} Conversion;

static double round_integral(double x, int mode) {
    return mode == R_rz ? trunc(x) : mode == R_rm ? floor(x) : mode == R_rp ? ceil(x) : nearbyint(x);
}

// ---- Small floats in any rounding mode: round to nearest, then step back if that was the wrong side

static double half_from_bits(uint16_t h, bool bf) { return (double)(bf ? bf16_to_f32(h) : f16_to_f32(h)); }

static uint16_t half_rounded(double x, bool bf, int mode, int flags) {
    if (x != x) return 0x7fff;
    if (flags & RELU && !(x > 0)) x = 0;
    uint16_t h = bf ? bf16_from_f64(x) : f16_from_f64(x);
    double v = half_from_bits(h, bf);
    bool away = v < 0 || (v == 0 && h & 0x8000);
    if (mode == R_rz && fabs(v) > fabs(x)) h--;
    if (mode == R_rm && v > x) h = (uint16_t)(away ? h + 1 : h == 0 ? 0x8001 : h - 1);
    if (mode == R_rp && v < x) h = (uint16_t)(away ? h == 0x8000 ? 1 : h - 1 : h + 1);
    if (flags & FINITE) {
        uint16_t most = bf ? 0x7f7f : 0x7bff;
        if ((h & 0x7fff) > most) h = (uint16_t)((h & 0x8000) | most);
    }
    return h;
}

static u32 tf32_of(float x, int mode, int flags) {
    u32 b = f32_bits(x);
    if (x != x) return (b & ~0x1fffu) | 0x400000;       // as measured: sign and payload stay
    if (flags & RELU && !(x > 0)) return 0;
    if (mode == R_rna) b = f32_bits(tf32_round(x));
    else if (mode == R_rz) b &= ~0x1fffu;
    else if ((b & 0x7f800000u) != 0x7f800000u) b = (b + 0xfff + (b >> 13 & 1)) & ~0x1fffu;
    if (flags & FINITE && (b & 0x7fffffffu) >= 0x7f800000u) b = (b & 0x80000000u) | 0x7f7fe000u;
    return b;
}

// ---- Single values

static s64 clamp_integer(double x, Type t) {
    u32 bits = ptx_type_bits(t);
    bool s = ptx_type_is_signed(t);
    if (bits == 64 && !s) return x >= 18446744073709551616.0 ? -1 : x <= 0 ? 0 : (s64)(u64)x;
    if (bits == 64) return x >= 9223372036854775808.0 ? INT64_MAX : x < -9223372036854775808.0 ? INT64_MIN : (s64)x;
    double top = s ? ldexp(1, (int)bits - 1) - 1 : ldexp(1, (int)bits) - 1, low = s ? -ldexp(1, (int)bits - 1) : 0;
    return (s64)(x > top ? top : x < low ? low : x);
}

static u64 to_integer(double x, const Conversion *c) {
    u32 bits = ptx_type_bits(c->to);
    if (x != x) return c->from == T_f64 || bits == 64 ? 1ull << (bits - 1) : 0;
    return (u64)clamp_integer(round_integral(x, c->round), c->to);
}

static u64 from_double(double x, const Conversion *c) {
    if (c->flags & SAT) x = x > 1 ? 1 : x > 0 ? x : 0;
    switch (c->to) {
    case T_f64: return f64_bits(x);
    case T_f32: {
        if (c->round > 0 && !(c->flags & TO_INTEGER)) {
            static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
            fesetround(modes[c->round & 3]);
        }
        volatile double v = x;
        volatile float f = (float)v;
        fesetround(FE_TONEAREST);
        if (c->from == T_f64) return f32_bits(c->flags & FTZ ? flush(f) : f);       // keeps a NaN's sign and payload
        return canonical(c->flags & FTZ ? flush(f) : f);
    }
    case T_f16:  return half_rounded(x, false, c->flags & TO_INTEGER ? R_rn : c->round, c->flags);
    case T_bf16: return half_rounded(x, true, c->flags & TO_INTEGER ? R_rn : c->round, c->flags);
    case T_tf32: return tf32_of((float)x, c->round, c->flags);
    default:     return to_integer(x, c);
    }
}

static u64 from_integer(s64 v, bool is_signed, const Conversion *c) {
    u32 bits = ptx_type_bits(c->to);
    if (ptx_type_kind(c->to) == 'F') {
        if (c->to == T_f32 || c->to == T_f64) {
            static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
            int mode = c->round < 0 ? 0 : c->round & 3;
            if (mode) fesetround(modes[mode]);
            volatile s64 sv = v;
            volatile u64 uv = (u64)v;
            volatile double dv = 0;
            volatile float fv = 0;
            if (c->to == T_f32) fv = is_signed ? (float)sv : (float)uv;
            else dv = is_signed ? (double)sv : (double)uv;
            if (mode) fesetround(FE_TONEAREST);
            if (c->to == T_f64) return f64_bits(dv);
            float f = fv;
            if (c->flags & SAT) f = f > 1 ? 1 : f > 0 ? f : 0;
            return f32_bits(f);
        }
        double x = is_signed ? (double)v : (double)(u64)v;           // halves: 53 bits are plenty below 65520
        if ((is_signed && (x >= 9223372036854775808.0 || (s64)x != v)) ||
            (!is_signed && (x >= 18446744073709551616.0 || (u64)x != (u64)v))) {
            double near = is_signed ? (double)(v >> 1 | (v & 1)) * 2 : (double)((u64)v >> 1 | ((u64)v & 1)) * 2;
            x = near;
        }
        return half_rounded(x, c->to == T_bf16, c->round, c->flags);
    }
    if (c->flags & SAT) {
        bool s = ptx_type_is_signed(c->to);
        if (s) {
            s64 top = bits == 64 ? INT64_MAX : (1ll << (bits - 1)) - 1, low = bits == 64 ? INT64_MIN : -(1ll << (bits - 1));
            if (!is_signed) v = (u64)v > (u64)top ? top : v;
            else v = v > top ? top : v < low ? low : v;
        } else {
            u64 top = bits == 64 ? ~0ull : (1ull << bits) - 1;
            if (is_signed && v < 0) v = 0;
            else if ((u64)v > top) v = (s64)top;
        }
    }
    return (u64)v;
}

static u64 convert_one(u64 a, const Conversion *c) {
    u32 bits = ptx_type_bits(c->from);
    u64 r;
    switch (c->from) {
    case T_f64: case T_f32: case T_f16: case T_bf16: {
        double x = c->from == T_f64   ? f64_from(a)
                   : c->from == T_f32 ? (double)(c->flags & FTZ ? flush(f32_from((u32)a)) : f32_from((u32)a))
                                      : half_from_bits((uint16_t)a, c->from == T_bf16);
        if (c->flags & TO_INTEGER && ptx_type_kind(c->to) == 'F')
            x = x - x == 0 ? copysign(round_integral(x, c->round), x) : x;
        r = from_double(x, c);
        break;
    }
    default: {
        bool s = ptx_type_is_signed(c->from);
        s64 v = s ? (s64)(a << (64 - bits)) >> (64 - bits) : (s64)(bits == 64 ? a : a & ((1ull << bits) - 1));
        r = from_integer(v, s, c);
    }
    }
    u32 n = ptx_type_bits(c->to);
    if (n < 32 && ptx_type_kind(c->to) != 'F')               // fill the 32-bit slot, by sign
        r = ptx_type_is_signed(c->to) ? (u64)((s64)(r << (64 - n)) >> (64 - n)) : r & ((1ull << n) - 1);
    return r;
}

static void x_convert(Warp *w, const Insn *in) {
    const Conversion *c = in->extra;
    bool wide_from = ptx_type_bits(c->from) == 64, wide_to = ptx_type_bits(c->to) == 64;
    EACH_ACTIVE({
        u64 r = convert_one(wide_from ? lane64(w, in->a)[l] : lane32(w, in->a)[l], c);
        if (wide_to) lane64(w, in->d)[l] = r;
        else lane32(w, in->d)[l] = (u32)r;
    });
}

// ---- Frequent pairs

#define QUICK(name, D, S, expr)                                                       \
    static void name(Warp *w, const Insn *in) {                                       \
        D *d = slot_at(w, in->d);                                                     \
        const S *a = slot_at(w, in->a);                                               \
        EACH(D, expr);                                                                \
    }
QUICK(u64_u32, u64, u32, a[l])            QUICK(s64_s32, u64, int32_t, (u64)(s64)a[l])   QUICK(u32_u64, u32, u64, (u32)a[l])
QUICK(u32_u32, u32, u32, a[l])            QUICK(u32_u16, u32, u32, a[l] & 0xffff)        QUICK(s32_s16, u32, u32, (u32)(int32_t)(int16_t)a[l])
QUICK(u32_u8, u32, u32, a[l] & 0xff)      QUICK(s32_s8, u32, u32, (u32)(int32_t)(int8_t)a[l])
QUICK(f32_s32, u32, int32_t, f32_bits((float)a[l])) QUICK(f32_bf16, u32, u32, a[l] << 16)
QUICK(f64_f32, u64, float, f64_bits((double)a[l]))
static void f32_f16(Warp *w, const Insn *in) {
    u32 *d = lane32(w, in->d);
    const u32 *a = lane32(w, in->a);
    EACH(u32, canonical(half_to_float(a[l])));
}
static inline u32 bf16_round(u32 b) { return (b & 0x7fffffffu) > 0x7f800000u ? 0x7fff : (b + 0x7fff + (b >> 16 & 1)) >> 16; }
QUICK(bf16_f32, u32, u32, bf16_round(a[l]))
QUICK(f16_f32, u32, u32, half_round(a[l]))
#define QUICK_PAIR(name, round)                                                       \
    static void name(Warp *w, const Insn *in) {                                       \
        u32 *d = slot_at(w, in->d);                                                   \
        const u32 *a = slot_at(w, in->a), *b = slot_at(w, in->b);                     \
        EACH(u32, round(a[l]) << 16 | round(b[l]));                                   \
    }
QUICK_PAIR(bf16x2_f32, bf16_round) QUICK_PAIR(f16x2_f32, half_round)

static const struct { Type to, from; InsnFn *fn; } quick[] = {
    {T_u64, T_u32, u64_u32}, {T_s64, T_u32, u64_u32}, {T_b64, T_u32, u64_u32}, {T_s64, T_s32, s64_s32}, {T_u64, T_s32, s64_s32},
    {T_u32, T_u64, u32_u64}, {T_s32, T_s64, u32_u64}, {T_u32, T_s64, u32_u64}, {T_s32, T_u64, u32_u64},
    {T_u32, T_u32, u32_u32}, {T_s32, T_s32, u32_u32}, {T_u32, T_s32, u32_u32}, {T_s32, T_u32, u32_u32},
    {T_u16, T_u32, u32_u32}, {T_s16, T_u32, u32_u32}, {T_u16, T_u64, u32_u64},
    {T_u32, T_u16, u32_u16}, {T_s32, T_u16, u32_u16}, {T_s32, T_s16, s32_s16}, {T_u32, T_s16, s32_s16},
    {T_u32, T_u8, u32_u8}, {T_s32, T_u8, u32_u8}, {T_u16, T_u8, u32_u8}, {T_s32, T_s8, s32_s8}, {T_u32, T_s8, s32_s8}, {T_s16, T_s8, s32_s8},
    {T_f32, T_s32, f32_s32}, {T_f32, T_bf16, f32_bf16}, {T_f32, T_f16, f32_f16}, {T_bf16, T_f32, bf16_f32}, {T_f16, T_f32, f16_f32}, {T_f64, T_f32, f64_f32},
};

// ---- Several to a register: x2 and x4, the first source in the high bits

static const struct Packed { Type type, element; uint8_t n, room; } packed[] = {
    {T_f16x2, T_f16, 2, 16},  {T_bf16x2, T_bf16, 2, 16}, {T_e4m3x2, T_e4m3, 2, 8}, {T_e5m2x2, T_e5m2, 2, 8},   {T_e2m3x2, T_e2m3, 2, 8}, {T_e3m2x2, T_e3m2, 2, 8}, {T_e2m1x2, T_e2m1, 2, 4},
    {T_ue8m0x2, T_ue8m0, 2, 8}, {T_e4m3x4, T_e4m3, 4, 8}, {T_e5m2x4, T_e5m2, 4, 8}, {T_e2m3x4, T_e2m3, 4, 8}, {T_e3m2x4, T_e3m2, 4, 8}, {T_e2m1x4, T_e2m1, 4, 4}};

static const struct Packed *packed_type(Type t) {
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) if (packed[i].type == t) return &packed[i];
    return NULL;
}

// The random bits of element i, the first being 0: two elements have a half each, of f16 its low 13; four share the halves by pairs,
// those of 4 bits the high and the low bytes of both.
static u32 random_bits(const struct Packed *to, u32 i, u32 by, u32 *n) {
    *n = to->element == T_f16 ? 13 : 16;
    if (to->n == 2) return i ? by : by >> 16;
    if (to->room == 8) return i < 2 ? by >> 16 : by;
    return i < 2 ? (by >> 24 & 0xff) << 8 | (by >> 8 & 0xff) : (by >> 16 & 0xff) << 8 | (by & 0xff);
}

static u32 packed_element(const struct Packed *to, float v, u32 i, u32 by, const Conversion *c) {
    u32 n = 0, bits = 0;
    if (to->element == T_ue8m0) return ue8m0_round(v, c->round == R_rp, c->flags & FINITE);
    if (c->flags & RELU && !(v > 0) && v == v) v = 0;
    if (c->round == R_rs) bits = random_bits(to, i, by, &n);
    else if (to->room == 16) return half_rounded((double)v, to->element == T_bf16, c->round, c->flags);
    return small_round(to->element, v, n, bits, c->flags & FINITE || to->room < 16);
}

static void x_packed(Warp *w, const Insn *in) {          // list: f32 each; else a, packed. e: random bits
    const Conversion *c = in->extra;
    const struct Packed *to = packed_type(c->to), *from = packed_type(c->from);
    EACH_ACTIVE({
        u32 r = 0;
        u32 by = in->e == NO_SLOT ? 0 : lane32(w, in->e)[l];
        for (u32 i = 0; i < to->n; i++) {
            float v = from ? (float)small_value(from->element, lane32(w, in->a)[l] >> from->room * (from->n - 1 - i)) : f32_from(lane32(w, in->list[i])[l]);
            r |= packed_element(to, c->flags & FTZ ? flush(v) : v, i, by, c) << to->room * (to->n - 1 - i);
        }
        lane32(w, in->d)[l] = r;
    });
}

static void x_cvt_pack(Warp *w, const Insn *in) {        // cvt.pack.sat: imm = bits, aux = signed
    u32 *d = lane32(w, in->d);
    const int32_t *a = slot_at(w, in->a), *b = slot_at(w, in->b);
    u32 n = (u32)in->imm, keep = n == 32 ? ~0u : (1u << n) - 1;
    s64 top = in->aux ? (1ll << (n - 1)) - 1 : (1ll << n) - 1, low = in->aux ? -(1ll << (n - 1)) : 0;
    EACH_ACTIVE({
        s64 x = a[l]; s64 y = b[l];
        if (in->flags) { x = (s64)(u32)x; y = (s64)(u32)y; }
        x = x > top ? top : x < low ? low : x;
        y = y > top ? top : y < low ? low : y;
        u32 r = ((u32)x & keep) << n | ((u32)y & keep);
        if (in->c != NO_SLOT) r |= 2 * n < 32 ? lane32(w, in->c)[l] << (2 * n) : 0;
        d[l] = r;
    });
}

static void decode_cvt_pack(Dec *d) {
    dec_mod(d, "sat");
    Type t = dec_need_type(d), from = dec_need_type(d), tc = dec_type(d);
    dec_count(d, tc ? 4 : 3, tc ? 4 : 3);
    uint32_t a = dec_src(d, 1, T_b32), b = dec_src(d, 2, T_b32), c = tc ? dec_src(d, 3, T_b32) : NO_SLOT,
             to = dec_dst(d, 0, T_b32);
    if (ptx_type_bits(t) > 16) dec_error(d, "cvt.pack to .%s", ptx_type_name(t));
    Insn *in = dec_emit(d, x_cvt_pack);
    in->d = to, in->a = a, in->b = b, in->c = c, in->imm = ptx_type_bits(t), in->aux = ptx_type_is_signed(t),
    in->flags = from == T_u32;
}

static void decode_packed(Dec *d, Conversion *c) {
    const struct Packed *to = packed_type(c->to), *from = packed_type(c->from);
    bool exponent = to->element == T_ue8m0, random = c->round == R_rs, four = to->n == 4, two = c->from == T_f32 && !four;
    if (c->round < 0 || c->flags & TO_INTEGER) dec_error(d, "`cvt` to .%s needs a rounding, as .rn", ptx_type_name(c->to));
    bool good = from ? from->n == to->n && from->element != to->element : c->from == T_f32;
    good &= exponent ? c->round == R_rz || c->round == R_rp : random ? !from && (four || to->room == 16) : !four && (to->room == 16 || c->round <= R_rn);
    if (!good) dec_error(d, "cvt%s.%s.%s does not exist", random ? ".rs" : "", ptx_type_name(c->to), ptx_type_name(c->from));
    u32 slots[4];
    u32 sources = two ? 2 : 1;
    dec_count(d, 1 + sources + random, 1 + sources + random);
    const Operand *o = dec_op(d, 1);
    if (four && (o->kind != O_VEC || o->n != 4)) dec_error(d, "cvt.%s takes four numbers in { }", ptx_type_name(c->to));
    for (u32 i = 0; !from && i < to->n; i++) slots[i] = four ? dec_src_op(d, &o->items[i], T_f32) : dec_src(d, 1 + i, T_f32);
    uint32_t a = from ? dec_src(d, 1, c->from) : slots[0], by = random ? dec_src(d, 1 + sources, T_b32) : NO_SLOT, dst = dec_dst(d, 0, c->to);
    bool plain = two && to->room == 16 && c->round <= R_rn && !c->flags;
    Insn *in = dec_emit(d, !plain ? x_packed : c->to == T_f16x2 ? f16x2_f32 : bf16x2_f32);
    in->d = dst, in->a = a, in->e = by, in->extra = c;
    if (plain) in->b = slots[1];
    else if (!from) memcpy(dec_list(d, in, to->n), slots, to->n * sizeof *slots);
}

// Roundings to a float are needed where a result may be none; to a whole number, where it has to be one, and may be there within a type.
static void check_rounding(Dec *d, const Conversion *c, u32 said) {
    bool to = ptx_type_kind(c->to) == 'F', from = ptx_type_kind(c->from) == 'F', has = c->round >= 0, whole = c->flags & TO_INTEGER;
    bool loose = c->to == T_bf16 || c->from == T_bf16;   // .rn may stand where nothing is to be rounded
    u32 bits = ptx_type_bits(c->to), before = ptx_type_bits(c->from);
    const char *needs = said > 1                                          ? "one rounding at most"
                        : !to && !from                                    ? has ? "no rounding" : NULL
                        : !to                                             ? !whole ? ".rni, .rzi, .rmi or .rpi" : NULL
                        : !from || bits < before || c->to == T_tf32       ? !has || whole ? ".rn, .rz, .rm or .rp" : NULL
                        : c->to == c->from                                ? has && !whole ? "no rounding, or one to whole numbers" : NULL
                        : whole || (has && !loose)                        ? "no rounding" : NULL;
    if (needs) dec_error(d, "`cvt` of .%s.%s needs %s", ptx_type_name(c->to), ptx_type_name(c->from), needs);
}

static bool single_type(Type t) { return ptx_type_kind(t) != 'V' && ptx_type_bits(t) >= (ptx_type_kind(t) == 'F' ? 16 : 8); }

static void decode_cvt(Dec *d) {
    if (dec_mod(d, "pack")) { decode_cvt_pack(d); return; }
    static const struct { const char *name; int round, flags; } roundings[] = {
        {"rn", R_rn, 0}, {"rz", R_rz, 0}, {"rm", R_rm, 0}, {"rp", R_rp, 0}, {"rna", R_rna, 0},
        {"rs", R_rs, 0}, {"rni", R_rn, TO_INTEGER}, {"rzi", R_rz, TO_INTEGER}, {"rmi", R_rm, TO_INTEGER}, {"rpi", R_rp, TO_INTEGER}};
    Conversion *c = dec_alloc(d, sizeof *c);
    u32 said = 0;
    c->round = -1;
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++)
        if (dec_mod(d, roundings[i].name)) c->round = roundings[i].round, c->flags |= roundings[i].flags, said++;
    if (dec_mod(d, "ftz")) c->flags |= FTZ;
    if (dec_mod(d, "sat")) c->flags |= SAT;
    if (dec_mod(d, "relu")) c->flags |= RELU;
    if (dec_mod(d, "satfinite")) c->flags |= FINITE;
    c->to = dec_need_type(d);
    c->from = dec_need_type(d);
    c->to_bits = 32;
    if (ptx_type_bits(c->to) == 128 || ptx_type_bits(c->from) == 128 || c->to == T_pred || c->from == T_pred)
        dec_error(d, "cvt.%s.%s", ptx_type_name(c->to), ptx_type_name(c->from));
    if (packed_type(c->to)) { decode_packed(d, c); return; }
    if (!single_type(c->to) || !single_type(c->from) || c->from == T_tf32 || c->round == R_rs)
        dec_error(d, "cvt.%s.%s is not supported", ptx_type_name(c->to), ptx_type_name(c->from));
    check_rounding(d, c, said);
    dec_count(d, 2, 2);
    uint32_t a = dec_src(d, 1, c->from), to = dec_dst(d, 0, c->to);
    InsnFn *fn = x_convert;
    if (!c->flags && c->round <= R_rn)
        for (size_t i = 0; i < sizeof quick / sizeof *quick; i++)
            if (quick[i].to == c->to && quick[i].from == c->from) fn = quick[i].fn;
    Insn *in = dec_emit(d, fn);
    in->d = to, in->a = a, in->extra = c;
    if (ptx_type_kind(c->to) != 'F' && ptx_type_kind(c->from) == 'F' && c->round < 0) c->round = R_rz;
}

const InsnDef VARIANT(defs_convert)[] = {{"cvt", decode_cvt, EMU_CLASS_CONVERT}, {NULL, NULL, 0}};

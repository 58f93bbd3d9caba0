// f16 and bf16 arithmetic, alone and in pairs.
//
// Each operation is exact in double (or rounded to odd there, for fma) and rounded once to the type, so
// that the result is the correctly rounded one.
#include <math.h>

#include "emu/x_arith.h"

enum { FTZ = 1, SAT = 2, NAN_OUT = 4, XORSIGN = 8, ABS = 16, RELU = 32, BF = 64, PAIR = 128 };

typedef uint32_t u32;

// x + y, the last bit set when inexact: rounding that to fewer bits rounds the true sum.
static double add_to_odd(double x, double y) {
    double s = x + y, t = s - x, e = (x - (s - t)) + (y - t);
    if (e == 0 || e != e || s - s != 0) return s;
    uint64_t b = f64_bits(s);
    if (b & 1) return s;
    return f64_from((e > 0) == (s > 0) ? b + 1 : b - 1);
}

static uint16_t round_half(double x, int flags) {
    if (x != x) return 0x7fff;
    uint16_t h = flags & BF ? bf16_from_f64(x) : f16_from_f64(x);
    if (flags & FTZ && !(h & (flags & BF ? 0x7f80 : 0x7c00))) h &= 0x8000;
    return h;
}

static double half_value(uint16_t h, int flags) {
    if (flags & FTZ && !(h & (flags & BF ? 0x7f80 : 0x7c00))) h &= 0x8000;
    return (double)(flags & BF ? bf16_to_f32(h) : f16_to_f32(h));
}

static uint16_t half_op(int op, uint16_t ha, uint16_t hb, uint16_t hc, int flags) {
    if (op == A_abs || op == A_neg)
        return (ha & 0x7fff) > (flags & BF ? 0x7f80 : 0x7c00) ? 0x7fff : op == A_abs ? ha & 0x7fff : ha ^ 0x8000;
    double a = half_value(ha, flags), b = half_value(hb, flags), c = half_value(hc, flags), r;
    switch (op) {
    case A_add: r = add_to_odd(a, b); break;
    case A_sub: r = add_to_odd(a, -b); break;
    case A_mul: r = a * b; break;
    case A_fma: r = add_to_odd(a * b, c); break;
    default: {
        uint16_t sign = (ha ^ hb) & 0x8000, x, y, pick;
        x = flags & FTZ && !(ha & (flags & BF ? 0x7f80 : 0x7c00)) ? ha & 0x8000 : ha;
        y = flags & FTZ && !(hb & (flags & BF ? 0x7f80 : 0x7c00)) ? hb & 0x8000 : hb;
        if (flags & ABS) x &= 0x7fff, y &= 0x7fff, a = fabs(a), b = fabs(b);
        if (a != a && b != b) return 0x7fff;
        if (flags & NAN_OUT && (a != a || b != b)) return 0x7fff;
        if (a != a) pick = y;
        else if (b != b) pick = x;
        else if (a == b) pick = op == A_min ? x | y : x & y;
        else pick = (a < b) == (op == A_min) ? x : y;
        if (flags & XORSIGN) pick = (uint16_t)((pick & 0x7fff) | sign);
        return pick;
    }
    }
    if (flags & SAT) r = r > 1 ? 1 : r > 0 ? r : 0;
    if (flags & RELU && !(r > 0)) r = r != r ? r : 0;
    return round_half(r, flags);
}

static void x_half(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const u32 *a = slot_at(w, in->a), *b = slot_at(w, in->b == NO_SLOT ? in->a : in->b),
              *c = slot_at(w, in->c == NO_SLOT ? in->a : in->c);
    int op = (int)in->aux, flags = in->flags;
    EACH_ACTIVE({
        u32 r = half_op(op, (uint16_t)a[l], (uint16_t)b[l], (uint16_t)c[l], flags);
        if (flags & PAIR)
            r |= (u32)half_op(op, (uint16_t)(a[l] >> 16), (uint16_t)(b[l] >> 16), (uint16_t)(c[l] >> 16), flags) << 16;
        d[l] = r;
    });
}

void VARIANT(decode_half)(Dec *d, Arith op) {
    int flags = 0;
    dec_mod(d, "rn");
    if (dec_mod(d, "ftz")) flags |= FTZ;
    if (dec_mod(d, "sat")) flags |= SAT;
    if (dec_mod(d, "relu")) flags |= RELU;
    if (dec_mod(d, "NaN")) flags |= NAN_OUT;
    bool oob = dec_mod(d, "oob");
    if (oob) dec_error(d, "`.oob` is not supported");
    if (dec_mod(d, "xorsign")) {
        flags |= XORSIGN | ABS;
        dec_mod(d, "abs");
    }
    Type t = dec_need_type(d);
    if (op == A_div) dec_error(d, "`div` of .%s", ptx_type_name(t));
    if (t == T_bf16 || t == T_bf16x2) flags |= BF;
    if (t == T_f16x2 || t == T_bf16x2) flags |= PAIR;
    uint32_t sources = op == A_fma ? 3 : op == A_abs || op == A_neg ? 1 : 2;
    dec_count(d, 1 + sources, 1 + sources);
    uint32_t a = dec_src(d, 1, t), b = sources > 1 ? dec_src(d, 2, t) : NO_SLOT,
             c = sources > 2 ? dec_src(d, 3, t) : NO_SLOT;
    uint32_t to = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, x_half);
    in->d = to, in->a = a, in->b = b, in->c = c, in->aux = op, in->flags = (uint8_t)flags;
}

const InsnDef VARIANT(defs_halves)[] = {{NULL, NULL, 0}};

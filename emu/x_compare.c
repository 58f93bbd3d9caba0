// Comparisons, and what chooses by one: setp, set, selp, slct.
//
// A comparison of 32 lanes is a mask. f16 and bf16 are compared as f32; of pairs, each half for itself.
#include "emu/exec.h"
#include "emu/x_arith.h"

typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t  s32;
typedef int64_t  s64;

enum { C_eq, C_ne, C_lt, C_le, C_gt, C_ge, C_equ, C_neu, C_ltu, C_leu, C_gtu, C_geu, C_num, C_nan, C_COUNT };

#define COMPARE_LOOP(cond) INDEPENDENT for (int l = 0; l < 32; l++) m |= (u32)(cond) << l; break
#define COMPARE_INT(name, C, T)                                                       \
    static u32 name(const void *pa, const void *pb, int op) {                         \
        const C *a = pa, *b = pb;                                                     \
        u32 m = 0;                                                                    \
        switch (op) {                                                                 \
        case C_eq: COMPARE_LOOP((T)a[l] == (T)b[l]);                                  \
        case C_ne: COMPARE_LOOP((T)a[l] != (T)b[l]);                                  \
        case C_lt: COMPARE_LOOP((T)a[l] <  (T)b[l]);                                  \
        case C_le: COMPARE_LOOP((T)a[l] <= (T)b[l]);                                  \
        case C_gt: COMPARE_LOOP((T)a[l] >  (T)b[l]);                                  \
        default:   COMPARE_LOOP((T)a[l] >= (T)b[l]);                                  \
        }                                                                             \
        return m;                                                                     \
    }
COMPARE_INT(compare_u16, u32, uint16_t) COMPARE_INT(compare_s16, u32, int16_t)
COMPARE_INT(compare_u32, u32, u32)      COMPARE_INT(compare_s32, u32, s32)
COMPARE_INT(compare_u64, u64, u64)      COMPARE_INT(compare_s64, u64, s64)

#define COMPARE_FLOAT(name, T)                                                        \
    static u32 name(const void *pa, const void *pb, int op) {                         \
        const T *a = pa, *b = pb;                                                     \
        u32 m = 0;                                                                    \
        switch (op) {                                                                 \
        case C_eq:  COMPARE_LOOP(a[l] == b[l]);                                       \
        case C_ne:  COMPARE_LOOP((a[l] < b[l]) | (a[l] > b[l]));                      \
        case C_lt:  COMPARE_LOOP(a[l] < b[l]);                                        \
        case C_le:  COMPARE_LOOP(a[l] <= b[l]);                                       \
        case C_gt:  COMPARE_LOOP(a[l] > b[l]);                                        \
        case C_ge:  COMPARE_LOOP(a[l] >= b[l]);                                       \
        case C_equ: COMPARE_LOOP(!((a[l] < b[l]) | (a[l] > b[l])));                   \
        case C_neu: COMPARE_LOOP(a[l] != b[l]);                                       \
        case C_ltu: COMPARE_LOOP(!(a[l] >= b[l]));                                    \
        case C_leu: COMPARE_LOOP(!(a[l] > b[l]));                                     \
        case C_gtu: COMPARE_LOOP(!(a[l] <= b[l]));                                    \
        case C_geu: COMPARE_LOOP(!(a[l] < b[l]));                                     \
        case C_num: COMPARE_LOOP((a[l] == a[l]) & (b[l] == b[l]));                    \
        default:    COMPARE_LOOP((a[l] != a[l]) | (b[l] != b[l]));                    \
        }                                                                             \
        return m;                                                                     \
    }
COMPARE_FLOAT(compare_f32, float) COMPARE_FLOAT(compare_f64, double)

static void load_floats(float *to, const void *slot, Type t, bool ftz, int half) {
    const u32 *p = slot;
    for (int l = 0; l < 32; l++) {
        u32 v = p[l] >> (16 * half) & 0xffff;
        to[l] = t == T_f32                   ? f32_from(p[l])
                : t == T_f16 || t == T_f16x2 ? f16_to_f32((uint16_t)v)
                                             : bf16_to_f32((uint16_t)v);
        if (ftz)
            to[l] = t == T_f32 || t == T_bf16 || t == T_bf16x2
                        ? flush(to[l])
                        : (to[l] < 6.103515625e-05f && to[l] > -6.103515625e-05f ? 0 * to[l] : to[l]);
    }
}

typedef u32 CompareFn(const void *, const void *, int);

static u32 compare(Warp *w, const Insn *in, int half) {
    CompareFn *fn = (CompareFn *)in->extra;
    const void *a = slot_at(w, in->a), *b = slot_at(w, in->b);
    if (fn) return fn(a, b, (int)in->imm);
    float fa[32], fb[32];
    load_floats(fa, a, (Type)in->type, in->flags & 1, half);
    load_floats(fb, b, (Type)in->type, in->flags & 1, half);
    return compare_f32(fa, fb, (int)in->imm);
}

static u32 combine(Warp *w, const Insn *in, u32 m) {     // flags: 2 and, 4 or, 8 xor with c
    if (in->c == NO_SLOT) return m;
    u32 c = *pred(w, in->c);
    return in->flags & 2 ? m & c : in->flags & 4 ? m | c : m ^ c;
}

static void x_setp(Warp *w, const Insn *in) {
    u32 m = compare(w, in, 0), *p = pred(w, in->d);
    u32 p_value = combine(w, in, m), q_value = combine(w, in, ~m);
    if (in->flags & 16) q_value = combine(w, in, compare(w, in, 1));     // f16x2: the upper halves
    *p = blend_pred(*p, p_value, w->active);
    if (in->e != NO_SLOT) {
        u32 *q = pred(w, in->e);
        *q = blend_pred(*q, q_value, w->active);
    }
}

static void x_set(Warp *w, const Insn *in) {             // aux: the value for true
    u32 *d = slot_at(w, in->d);
    u32 m = combine(w, in, compare(w, in, 0)), yes = (u32)in->aux;
    if (in->flags & 16) {
        u32 high = combine(w, in, compare(w, in, 1));
        EACH(u32, (m >> l & 1 ? yes & 0xffff : 0) | (high >> l & 1 ? yes & 0xffff0000u : 0));
    } else EACH(u32, m >> l & 1 ? yes : 0);
}

#define SELECT(name, C)                                                               \
    static void name(Warp *w, const Insn *in) {                                       \
        C *d = slot_at(w, in->d);                                                     \
        const C *a = slot_at(w, in->a), *b = slot_at(w, in->b);                       \
        u32 p = *pred(w, in->c);                                                      \
        EACH(C, p >> l & 1 ? a[l] : b[l]);                                            \
    }
SELECT(selp_32, u32) SELECT(selp_64, u64)

#define SELECT_BY(name, C, K, cond)                                                   \
    static void name(Warp *w, const Insn *in) {                                       \
        C *d = slot_at(w, in->d);                                                     \
        const C *a = slot_at(w, in->a), *b = slot_at(w, in->b);                       \
        const K *c = slot_at(w, in->c);                                               \
        EACH(C, cond ? a[l] : b[l]);                                                  \
    }
SELECT_BY(slct_32_s32, u32, s32, c[l] >= 0) SELECT_BY(slct_64_s32, u64, s32, c[l] >= 0)
SELECT_BY(slct_32_f32, u32, float, c[l] >= 0) SELECT_BY(slct_64_f32, u64, float, c[l] >= 0)

// ---- Decoding

static int comparison(Dec *d, Type *unsigned_type) {
    static const char *const names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                        "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
    static const struct {
        const char *name;
        int op;
    } unsigned_names[] = {{"lo", C_lt}, {"ls", C_le}, {"hi", C_gt}, {"hs", C_ge}};
    for (int i = 0; i < C_COUNT; i++)
        if (dec_mod(d, names[i])) return i;
    for (int i = 0; i < 4; i++)
        if (dec_mod(d, unsigned_names[i].name)) {
            *unsigned_type = T_u32;
            return unsigned_names[i].op;
        }
    dec_error(d, "`%.*s` needs a comparison", (int)d->name.n, d->name.s);
}

static uint8_t boolean(Dec *d) { return dec_mod(d, "and") ? 2 : dec_mod(d, "or") ? 4 : dec_mod(d, "xor") ? 8 : 0; }

static CompareFn *compare_fn(Dec *d, Type t, bool ftz) {
    if (t == T_f32 && !ftz) return compare_f32;
    if (t == T_f64) return compare_f64;
    if (is_float(t) && t != T_f32x2 && ptx_type_bits(t) >= 16) return NULL;
    bool s = ptx_type_is_signed(t);
    switch (ptx_type_bits(t)) {
    case 16: return s ? compare_s16 : compare_u16;
    case 32: return s ? compare_s32 : compare_u32;
    case 64: return s ? compare_s64 : compare_u64;
    default: dec_error(d, "a comparison of .%s", ptx_type_name(t));
    }
}

static void decode_setp(Dec *d) {
    Type forced = T_none;
    bool ftz = dec_mod(d, "ftz");
    uint8_t flags = boolean(d);
    int op = comparison(d, &forced);
    Type t = dec_need_type(d);
    dec_count(d, flags ? 4 : 3, flags ? 4 : 3);
    if (t == T_pred) dec_error(d, "a comparison of predicates");
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, t), c = flags ? dec_pred(d, dec_op(d, 3)) : NO_SLOT;
    const Operand *o = dec_op(d, 0);
    Operand alone = *o;
    alone.pair = NULL;
    uint32_t p = dec_pred_dst(d, &alone), q = o->pair ? dec_pred_dst(d, o->pair) : NO_SLOT;
    bool halves = t == T_f16x2 || t == T_bf16x2;
    CompareFn *fn = compare_fn(d, t, ftz);
    Insn *in = dec_emit(d, x_setp);
    in->d = p, in->e = q, in->a = a, in->b = b, in->c = c, in->imm = op, in->type = (uint8_t)t;
    in->extra = (const void *)fn;
    in->flags = (uint8_t)(flags | (ftz ? 1 : 0) | (halves ? 16 : 0));
}
static void decode_set(Dec *d) {
    Type forced = T_none;
    bool ftz = dec_mod(d, "ftz");
    uint8_t flags = boolean(d);
    int op = comparison(d, &forced);
    Type dt = dec_need_type(d), t = dec_need_type(d);
    dec_count(d, flags ? 4 : 3, flags ? 4 : 3);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, t), c = flags ? dec_pred(d, dec_op(d, 3)) : NO_SLOT,
             to = dec_dst(d, 0, dt);
    CompareFn *fn = compare_fn(d, t, ftz);
    Insn *in = dec_emit(d, x_set);
    in->d = to, in->a = a, in->b = b, in->c = c, in->imm = op, in->type = (uint8_t)t;
    in->extra = (const void *)fn;
    in->aux = dt == T_f32      ? 0x3f800000
              : dt == T_f16    ? 0x3c00
              : dt == T_bf16   ? 0x3f80
              : dt == T_f16x2  ? 0x3c003c00
              : dt == T_bf16x2 ? 0x3f803f80
                               : 0xffffffff;
    in->flags = (uint8_t)(flags | (ftz ? 1 : 0) | (t == T_f16x2 || t == T_bf16x2 ? 16 : 0));
}
static void decode_selp(Dec *d) {
    Type t = dec_need_type(d);
    dec_count(d, 4, 4);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, t), c = dec_pred(d, dec_op(d, 3)), to = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, by_width(t, selp_32, selp_64));
    in->d = to, in->a = a, in->b = b, in->c = c;
}
static void decode_slct(Dec *d) {
    dec_mod(d, "ftz");
    Type t = dec_need_type(d), tc = dec_need_type(d);
    operands3(d, tc == T_f32 ? by_width(t, slct_32_f32, slct_64_f32) : by_width(t, slct_32_s32, slct_64_s32), t, tc, t);
}

const InsnDef VARIANT(defs_compare)[] = {
    {"setp", decode_setp, EMU_CLASS_INTEGER}, {"set",  decode_set,  EMU_CLASS_INTEGER}, {"selp", decode_selp, EMU_CLASS_INTEGER},
    {"slct", decode_slct, EMU_CLASS_INTEGER}, {NULL, NULL, 0},
};

// Video instructions: arithmetic on bytes and half-words picked out of words, one of them (vadd, vmad, ...), two (vadd2, ...) or
// four (vadd4, ...) at a time, with a second operation or a merge at the end. CUDA's SIMD intrinsics still come to some of them.
//
//     vadd.s32.u32.s32.sat.min  d, a.b0, b.h1, c        d = min(sat(a's byte 0 + b's half 1), c)
//     vabsdiff4.u32.u32.u32.add d, a, b, c              d = c + the sum of four differences
//     vset2.u32.u32.lt d.h1, a.h01, b.h32, c            half 1 of d, the rest from c
#include "emu/exec.h"

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t  s64;
typedef __int128 s128;

enum { V_ADD, V_SUB, V_DIFF, V_MIN, V_MAX, V_AVERAGE, V_SHL, V_SHR, V_MAD, V_SET };
enum { THEN_NOTHING, THEN_ADD, THEN_MIN, THEN_MAX, THEN_MERGE };

typedef struct Video {
    uint8_t op, parts, then, compare, shift, mask;       // mask: of the parts that are written
    bool    d_signed, a_signed, b_signed, sat, wrap, one_more, minus_product, minus_c;
    uint8_t bits, d_bits, d_at;                          // of a part; of the part of d that a merge writes, and where
    uint8_t a_bits, b_bits, a_from[4], b_from[4];        // bits of a selected part, and its index: past a's own they are b's
} Video;

static s64 extend(u64 v, u32 bits, bool is_signed) { return is_signed ? (s64)(v << (64 - bits)) >> (64 - bits) : (s64)(v << (64 - bits) >> (64 - bits)); }

static s64 clamp(s128 x, u32 bits, bool is_signed) {
    s64 top = is_signed ? (1ll << (bits - 1)) - 1 : (1ll << bits) - 1, low = is_signed ? -(1ll << (bits - 1)) : 0;
    return x > top ? top : x < low ? low : (s64)x;
}

static s64 compute(const Video *v, s64 a, s64 b, s64 c) {
    switch (v->op) {
    case V_ADD:     return a + b;
    case V_SUB:     return a - b;
    case V_DIFF:    return a > b ? a - b : b - a;
    case V_MIN:     return a < b ? a : b;
    case V_MAX:     return a > b ? a : b;
    case V_AVERAGE: return (a + b + (a + b >= 0)) >> 1;
    case V_SHL: case V_SHR: {
        u32 n = v->wrap ? (u32)b & 31 : b > 32 || b < 0 ? 32 : (u32)b;
        return v->op == V_SHL ? (s64)((u64)a << n) : a >> n;
    }
    case V_MAD: {
        bool is_signed = v->a_signed || v->b_signed || v->minus_product || v->minus_c;
        s128 p = (s128)a * b, r = (v->minus_product ? -p : p) + (v->minus_c ? -(s128)extend((u64)c, 32, is_signed) : extend((u64)c, 32, is_signed)) + v->one_more;
        r >>= v->shift;
        return v->sat ? clamp(r, 32, is_signed) : (s64)r;
    }
    default: {
        static const uint8_t truth[] = {1, 6, 4, 5, 2, 3};           // eq ne lt le gt ge: 1 equal, 2 greater, 4 less
        return (truth[v->compare] & (a == b ? 1 : a > b ? 2 : 4)) != 0;
    }
    }
}

static void x_video(Warp *w, const Insn *in) {
    const Video *v = in->extra;
    EACH_ACTIVE({
        u64 both = (u64)lane32(w, in->b)[l] << 32 | lane32(w, in->a)[l];
        u32 c = in->c == NO_SLOT ? 0 : lane32(w, in->c)[l]; u32 d = v->then == THEN_NOTHING ? 0 : c;
        for (u32 i = 0; i < v->parts; i++) {
            if (!(v->mask >> i & 1)) continue;
            s64 a = extend(both >> v->a_bits * v->a_from[i], v->a_bits, v->a_signed);
            s64 b = extend(both >> v->b_bits * v->b_from[i], v->b_bits, v->b_signed);
            s64 r = compute(v, a, b, (s64)c);
            if (v->sat && v->op != V_MAD) r = clamp(r, v->d_bits, v->d_signed);
            u32 keep = v->d_bits == 32 ? ~0u : (1u << v->d_bits) - 1; u32 at = v->parts > 1 ? i * v->bits : v->d_at;
            s64 was = v->d_signed ? (int32_t)c : (s64)c; s64 now = v->d_signed ? (int32_t)r : (s64)(u32)r;
            switch (v->then) {
            case THEN_NOTHING: d = (u32)r; break;
            case THEN_ADD:     d += (u32)r; break;
            case THEN_MIN:     d = was < now ? c : (u32)r; break;
            case THEN_MAX:     d = was > now ? c : (u32)r; break;
            default:           d = (d & ~(keep << at)) | ((u32)r & keep) << at; break;
            }
        }
        lane32(w, in->d)[l] = d;
    });
}

// ".b3", ".h10", ".b7654": the size of a part and its indices, the last letter part 0's. As many as there are parts, or a mask of them.
static u32 selector(Dec *d, const Operand *o, u32 bits, u32 parts, u32 most, uint8_t from[4]) {
    Str s = o->select;
    u32 size = !s.n ? 0 : s.s[0] == 'b' ? 8 : s.s[0] == 'h' ? 16 : 0, n = s.n ? s.n - 1 : 0;
    bool good = size && n >= 1 && (parts == 1 ? n == 1 : size == bits && (n == parts || most == parts));
    for (u32 i = 0; i < n && good && i < 4; i++) {
        u32 x = (u32)(s.s[s.n - 1 - i] - '0');
        good = x < (parts == 1 ? 32 / size : most) && n <= 4;
        from[i] = (uint8_t)x;
    }
    if (!good) dec_error(d, "`.%.*s` selects nothing here", (int)s.n, s.s);
    return parts == 1 ? size : n;
}

static void source(Dec *d, u32 i, const Video *v, uint8_t *bits, uint8_t from[4], bool is_b) {
    const Operand *o = dec_op(d, i);
    u32 per_word = 32 / v->bits;
    *bits = v->bits;
    for (u32 k = 0; k < v->parts; k++) from[k] = (uint8_t)(k + (is_b ? per_word : 0));
    if (!o->select.n) return;
    u32 size = selector(d, o, v->bits, v->parts, 2 * per_word, from);
    if (v->parts > 1) return;
    *bits = (uint8_t)size;
    if (is_b) from[0] = (uint8_t)(from[0] + 32 / size);
}

static void decode_video(Dec *d, u32 op) {
    static const struct { const char *name; uint8_t then; } seconds[] = {{"add", THEN_ADD}, {"min", THEN_MIN}, {"max", THEN_MAX}};
    static const char *const compares[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    Video *v = dec_alloc(d, sizeof *v);
    char last = d->name.s[d->name.n - 1];
    v->op = (uint8_t)op;
    v->parts = last == '2' ? 2 : last == '4' ? 4 : 1;
    v->bits = (uint8_t)(32 / v->parts);
    v->mask = (uint8_t)((1u << v->parts) - 1);
    Type t[3] = {T_u32, T_none, T_none};
    for (u32 i = op == V_SET ? 1 : 0; i < 3; i++)
        if ((t[i] = dec_need_type(d)) != T_u32 && t[i] != T_s32) dec_error(d, "`%.*s` works on .u32 and .s32", (int)d->name.n, d->name.s);
    v->d_signed = t[0] == T_s32, v->a_signed = t[1] == T_s32, v->b_signed = t[2] == T_s32;
    v->sat = dec_mod(d, "sat");
    if (op == V_SHL || op == V_SHR) {
        v->wrap = dec_mod(d, "wrap");
        if (!v->wrap && !dec_mod(d, "clamp")) dec_error(d, "`%.*s` needs .clamp or .wrap", (int)d->name.n, d->name.s);
    }
    if (op == V_MAD) {
        v->one_more = dec_mod(d, "po");
        v->shift = dec_mod(d, "shr7") ? 7 : dec_mod(d, "shr15") ? 15 : 0;
    }
    u32 compare = 0;
    if (op == V_SET) {
        while (compare < 6 && !dec_mod(d, compares[compare])) compare++;
        if (compare == 6) dec_error(d, "`%.*s` needs a comparison", (int)d->name.n, d->name.s);
    }
    v->compare = (uint8_t)compare;
    for (size_t i = 0; op != V_MAD && i < (v->parts == 1 ? 3u : 1u); i++)
        if (dec_mod(d, seconds[i].name)) v->then = seconds[i].then;
    const Operand *to = dec_op(d, 0);
    v->d_bits = v->bits;
    uint8_t at[4] = {0};
    if (to->select.n && v->then && v->parts == 1) dec_error(d, "`%.*s` either merges or computes with c", (int)d->name.n, d->name.s);
    if (to->select.n) {
        u32 n = selector(d, to, v->bits, v->parts, v->parts, at);
        if (v->parts == 1) v->d_bits = (uint8_t)n, v->d_at = (uint8_t)(at[0] * n), v->then = THEN_MERGE;
        else
            for (u32 i = v->mask = 0; i < n; i++) v->mask |= (uint8_t)(1u << at[i]);
    }
    if (v->parts > 1 && !v->then) v->then = THEN_MERGE;
    u32 n = v->then || op == V_MAD ? 4 : 3;
    dec_count(d, n, n);
    source(d, 1, v, &v->a_bits, v->a_from, false);
    source(d, 2, v, &v->b_bits, v->b_from, true);
    if (op == V_MAD) {
        v->minus_product = dec_op(d, 1)->minus != dec_op(d, 2)->minus, v->minus_c = dec_op(d, 3)->minus;
        if (v->one_more && (v->minus_product || v->minus_c)) dec_error(d, "`vmad.po` negates nothing");
    }
    u32 a = dec_src(d, 1, T_b32), b = dec_src(d, 2, T_b32), c = n == 4 ? dec_src(d, 3, T_b32) : NO_SLOT, slot = dec_dst(d, 0, T_b32);
    Insn *in = dec_emit(d, x_video);
    in->d = slot, in->a = a, in->b = b, in->c = c, in->extra = v;
}

#define OPS(X) X(add, V_ADD) X(sub, V_SUB) X(absdiff, V_DIFF) X(min, V_MIN) X(max, V_MAX) X(avrg, V_AVERAGE) X(shl, V_SHL) X(shr, V_SHR) X(mad, V_MAD) X(set, V_SET)
#define X(name, op) static void decode_v##name(Dec *d) { decode_video(d, op); }
OPS(X)
#undef X

const InsnDef VARIANT(defs_video)[] = {
    {"vadd", decode_vadd, EMU_CLASS_INTEGER},   {"vsub", decode_vsub, EMU_CLASS_INTEGER},   {"vabsdiff", decode_vabsdiff, EMU_CLASS_INTEGER},   {"vmin", decode_vmin, EMU_CLASS_INTEGER},
    {"vmax", decode_vmax, EMU_CLASS_INTEGER},   {"vshl", decode_vshl, EMU_CLASS_INTEGER},   {"vshr", decode_vshr, EMU_CLASS_INTEGER},           {"vmad", decode_vmad, EMU_CLASS_INTEGER},
    {"vset", decode_vset, EMU_CLASS_INTEGER},   {"vadd2", decode_vadd, EMU_CLASS_INTEGER},  {"vsub2", decode_vsub, EMU_CLASS_INTEGER},          {"vavrg2", decode_vavrg, EMU_CLASS_INTEGER},
    {"vabsdiff2", decode_vabsdiff, EMU_CLASS_INTEGER}, {"vmin2", decode_vmin, EMU_CLASS_INTEGER}, {"vmax2", decode_vmax, EMU_CLASS_INTEGER},    {"vset2", decode_vset, EMU_CLASS_INTEGER},
    {"vadd4", decode_vadd, EMU_CLASS_INTEGER},  {"vsub4", decode_vsub, EMU_CLASS_INTEGER},  {"vavrg4", decode_vavrg, EMU_CLASS_INTEGER},        {"vabsdiff4", decode_vabsdiff, EMU_CLASS_INTEGER},
    {"vmin4", decode_vmin, EMU_CLASS_INTEGER},  {"vmax4", decode_vmax, EMU_CLASS_INTEGER},  {"vset4", decode_vset, EMU_CLASS_INTEGER},          {NULL, NULL, 0},
};

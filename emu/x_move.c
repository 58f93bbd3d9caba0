// mov in its forms (plain, packing, unpacking, of vectors), and addresses: cvta, isspacep, mapa.
#include "emu/exec.h"
#include "emu/reader.h"

typedef uint32_t u32;
typedef uint64_t u64;

static void mov_32(Warp *w, const Insn *in) {
    u32 *d = slot_at(w, in->d);
    const u32 *a = slot_at(w, in->a);
    EACH(u32, a[l]);
}
static void mov_64(Warp *w, const Insn *in) {
    u64 *d = slot_at(w, in->d);
    const u64 *a = slot_at(w, in->a);
    EACH(u64, a[l]);
}
static void mov_128(Warp *w, const Insn *in) {
    char *d = slot_at(w, in->d);
    const char *a = slot_at(w, in->a);
    EACH_ACTIVE(memmove(d + 16 * l, a + 16 * l, 16));
}
static void mov_pred(Warp *w, const Insn *in) {
    u32 *d = pred(w, in->d);
    *d = blend_pred(*d, *pred(w, in->a), w->active);
}

static u64 element(const Warp *w, uint32_t slot, uint32_t bits, int l) {
    return bits == 64 ? lane64(w, slot)[l] : lane32(w, slot)[l] & (bits == 32 ? 0xffffffffu : (1u << bits) - 1);
}

static void x_pack(Warp *w, const Insn *in) {            // imm = bits of an element, aux = of the whole
    u32 part = (u32)in->imm;
    EACH_ACTIVE({
        u64 v[2] = {0, 0};
        for (u32 i = 0; i < in->n; i++) v[i * part / 64] |= element(w, in->list[i], part, l) << (i * part & 63);
        if (in->aux == 128) memcpy((char *)slot_at(w, in->d) + 16 * l, v, 16);
        else if (in->aux == 64) lane64(w, in->d)[l] = v[0];
        else lane32(w, in->d)[l] = (u32)v[0];
    });
}
static void x_unpack(Warp *w, const Insn *in) {
    u32 part = (u32)in->imm;
    EACH_ACTIVE({
        u64 v[2] = {0, 0};
        if (in->aux == 128) memcpy(v, (char *)slot_at(w, in->a) + 16 * l, 16);
        else v[0] = in->aux == 64 ? lane64(w, in->a)[l] : lane32(w, in->a)[l];
        for (u32 i = 0; i < in->n; i++) {
            u64 e = v[i * part / 64] >> (i * part & 63);
            if (in->list[i] == NO_SLOT) continue;
            if (part == 64) lane64(w, in->list[i])[l] = e;
            else lane32(w, in->list[i])[l] = part == 32 ? (u32)e : (u32)e & ((1u << part) - 1);
        }
    });
}

static Type of_bits(uint32_t bits) {
    return bits == 8 ? T_b8 : bits == 16 ? T_b16 : bits == 32 ? T_b32 : bits == 64 ? T_b64 : T_none;
}

static void move(Dec *d, Type t, uint32_t to, uint32_t from) {
    Insn *in = dec_emit(d, t == T_pred ? mov_pred : ptx_type_bits(t) <= 32 ? mov_32 : ptx_type_bits(t) == 64 ? mov_64 : mov_128);
    in->d = to, in->a = from;
}

static void decode_mov(Dec *d) {
    u32 vec = dec_mod(d, "v2") ? 2 : dec_mod(d, "v4") ? 4 : 1, between[4];
    Type t = dec_need_type(d);
    dec_count(d, 2, 2);
    const Operand *to = dec_op(d, 0), *from = dec_op(d, 1);
    uint32_t bits = ptx_type_bits(t);
    if (vec > 1) {
        if (to->kind != O_VEC || from->kind != O_VEC || to->n != vec || from->n != vec || t == T_pred)
            dec_error(d, "`mov.v%u` needs two vectors of %u", vec, vec);
        for (u32 i = 0; i < vec; i++) between[i] = dec_temp(d, t), move(d, t, between[i], dec_src_op(d, &from->items[i], t));
        for (u32 i = 0; i < vec; i++)
            if (to->items[i].kind != O_SINK) move(d, t, dec_dst_op(d, &to->items[i], t), between[i]);
        return;
    }
    if (from->kind == O_VEC || to->kind == O_VEC) {
        const Operand *v = from->kind == O_VEC ? from : to;
        if (from->kind == to->kind || v->n < 1 || bits % v->n || !of_bits(bits / v->n))
            dec_error(d, "a `mov` of %u parts", v->n);
        uint32_t part = bits / v->n, slots[16], other;
        Type pt = of_bits(part);
        if (from->kind == O_VEC) {
            for (uint32_t i = 0; i < v->n; i++) slots[i] = dec_src_op(d, &v->items[i], pt);
            other = dec_dst(d, 0, t);
        } else {
            other = dec_src(d, 1, t);
            for (uint32_t i = 0; i < v->n; i++)
                slots[i] = v->items[i].kind == O_SINK ? NO_SLOT : dec_dst_op(d, &v->items[i], pt);
        }
        Insn *in = dec_emit(d, from->kind == O_VEC ? x_pack : x_unpack);
        *(from->kind == O_VEC ? &in->d : &in->a) = other;
        in->imm = part, in->aux = bits;
        memcpy(dec_list(d, in, v->n), slots, v->n * sizeof *slots);
        return;
    }
    uint32_t a = dec_src(d, 1, t), slot = dec_dst(d, 0, t);
    move(d, t, slot, a);
}

// ---- Addresses. Global and constant addresses are generic ones already, and so are those that `mov` takes of a kernel's
//      parameters, where they have 64 bits; shared, local and parameter windows lie where no allocation can.

static void x_cvta_param(Warp *w, const Insn *in) {      // a kernel's parameter, or a device function's, which is in its frame
    u64 *d = slot_at(w, in->d);
    const u64 *a = slot_at(w, in->a);
    EACH(u64, (a[l] & 0xffffffffull) | ((a[l] & 0xffffffffull) >= FUNC_LOCAL ? LOCAL_WINDOW : PARAM_WINDOW));
}

static void x_cvta(Warp *w, const Insn *in) {            // imm: window; aux: 1 = to the space
    u64 *d = slot_at(w, in->d);
    const u64 *a = slot_at(w, in->a);
    u64 window = (u64)in->imm;
    if (in->aux) EACH(u64, a[l] & (window ? 0xffffffffull : ~0ull));
    else EACH(u64, window ? window | (a[l] & 0xffffffffull) : a[l]);
}

static void decode_cvta(Dec *d) {
    bool to = dec_mod(d, "to");
    uint8_t space = dec_space(d);
    Type t = dec_need_type(d);
    dec_count(d, 2, 2);
    if (ptx_type_bits(t) != 64) dec_error(d, "only 64-bit addresses are supported");
    uint32_t a = dec_src(d, 1, t), slot = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, space == SPACE_PARAM && !to ? x_cvta_param : x_cvta);
    in->d = slot, in->a = a, in->aux = to;
    in->imm = space == SPACE_SHARED || space == SPACE_CLUSTER ? (int64_t)SHARED_WINDOW
              : space == SPACE_LOCAL                          ? (int64_t)LOCAL_WINDOW
                                                              : 0;
}

static void x_isspacep(Warp *w, const Insn *in) {
    u32 m = 0, *d = pred(w, in->d);
    EACH_ACTIVE({
        u64 a = lane64(w, in->a)[l]; u64 window = a & WINDOW_MASK; bool yes;
        switch (in->imm) {
        case SPACE_SHARED:  yes = window == SHARED_WINDOW && (u32)a >> RANK_SHIFT == w->block->rank; break;
        case SPACE_CLUSTER: yes = window == SHARED_WINDOW; break;
        case SPACE_LOCAL:   yes = window == LOCAL_WINDOW; break;
        case SPACE_PARAM:   yes = window == PARAM_WINDOW; break;
        case SPACE_CONST:   yes = false; break;
        default:            yes = window != SHARED_WINDOW && window != LOCAL_WINDOW && window != PARAM_WINDOW; break;
        }
        m |= (u32)yes << l;
    });
    *d = blend_pred(*d, m, w->active);
}
static void decode_isspacep(Dec *d) {
    uint8_t space = dec_space(d);
    dec_count(d, 2, 2);
    const Operand *at = dec_op(d, 1);
    uint32_t a = dec_src_op(d, at, at->kind == O_REG && ptx_type_bits(at->type) == 32 ? T_u32 : T_u64), p = dec_pred_dst(d, dec_op(d, 0));
    Insn *in = dec_emit(d, x_isspacep);
    in->d = p, in->a = a, in->imm = space;
}

static void x_mapa(Warp *w, const Insn *in) {            // aux: generic
    const u32 *b = lane32(w, in->b);
    EACH_ACTIVE({
        u64 a = in->type == T_u64 ? lane64(w, in->a)[l] : lane32(w, in->a)[l];
        u64 r = (a & ((1u << RANK_SHIFT) - 1)) | (u64)(b[l] & 0xff) << RANK_SHIFT;
        if (in->aux) r |= SHARED_WINDOW;
        if (b[l] >= w->cluster->n_blocks)
            emu_fault(w, in, l, EMU_FAULT_BAD_OPERAND, "`mapa` to block %u of a cluster of %u", b[l], w->cluster->n_blocks);
        if (in->type == T_u64) lane64(w, in->d)[l] = r;
        else lane32(w, in->d)[l] = (u32)r;
    });
}
static void decode_mapa(Dec *d) {
    uint8_t space = dec_space(d);
    Type t = dec_need_type(d);
    dec_count(d, 3, 3);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, T_u32), slot = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, x_mapa);
    in->d = slot, in->a = a, in->b = b, in->aux = space == SPACE_GENERIC, in->type = ptx_type_bits(t) == 64 ? T_u64 : T_u32;
}
static void x_getctarank(Warp *w, const Insn *in) {
    EACH_ACTIVE({
        u64 a = in->type == T_u64 ? lane64(w, in->a)[l] : lane32(w, in->a)[l];
        lane32(w, in->d)[l] = (u32)a >> RANK_SHIFT;
    });
}
static void decode_getctarank(Dec *d) {
    dec_space(d);
    Type t = dec_need_type(d);
    dec_count(d, 2, 2);
    uint32_t a = dec_src(d, 1, t), slot = dec_dst(d, 0, T_u32);
    Insn *in = dec_emit(d, x_getctarank);
    in->d = slot, in->a = a, in->type = ptx_type_bits(t) == 64 ? T_u64 : T_u32;
}

const InsnDef VARIANT(defs_move)[] = {
    {"mov", decode_mov, EMU_CLASS_MOVE},           {"cvta", decode_cvta, EMU_CLASS_MOVE}, {"isspacep", decode_isspacep, EMU_CLASS_MOVE},
    {"mapa", decode_mapa, EMU_CLASS_MOVE},         {"getctarank", decode_getctarank, EMU_CLASS_MOVE}, {NULL, NULL, 0},
};

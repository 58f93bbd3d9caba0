// tensormap.replace, which makes or changes a tensor map field by field, and tensormap.cp_fenceproxy, which takes one that was
// made in shared memory to where bulk copies may read it. A map that is not whole is found where a copy uses it.
#include "emu/exec.h"

typedef uint32_t u32;
typedef uint64_t u64;

static const struct { const char *name; TensorField field; u32 count; } fields[] = {
    {"global_address", TENSOR_ADDRESS, 0}, {"rank", TENSOR_RANK, 0},
    {"box_dim", TENSOR_BOX, 5},            {"global_dim", TENSOR_DIM, 5},
    {"global_stride", TENSOR_STRIDE, 4},   {"element_stride", TENSOR_ELEMENT_STRIDE, 5},
    {"elemtype", TENSOR_TYPE, 0},          {"interleave_layout", TENSOR_INTERLEAVE, 0},
    {"swizzle_mode", TENSOR_SWIZZLE, 0},   {"fill_mode", TENSOR_FILL, 0},
};

static u64 address(const Warp *w, const Insn *in, u32 slot, int64_t imm, bool narrow, int l) {
    (void)in;
    return narrow ? (u32)(lane32(w, slot)[l] + (u32)imm) : lane64(w, slot)[l] + (u64)imm;
}

static bool move(Warp *w, const Insn *in, int l, uint8_t space, u64 at, uint8_t bytes[128], bool write) {
    for (u32 i = 0; i < 128; i += 16) {
        uint8_t *p = emu_memory_at(w, in, l, space, at + i, 16, write);
        if (!p) return false;
        memcpy(write ? p : bytes + i, write ? bytes + i : p, 16);
    }
    return true;
}

static void x_replace(Warp *w, const Insn *in) {         // aux: the field, n: its index
    EACH_ACTIVE({
        uint8_t bytes[128];
        u64 at = address(w, in, in->a, in->imm, in->flags & ADDR32, l), v = in->type == T_b64 ? lane64(w, in->b)[l] : lane32(w, in->b)[l];
        if (at & 63) {
            emu_fault(w, in, l, EMU_FAULT_MISALIGNED, "the tensor map is not 64-byte aligned");
            continue;
        }
        if (!move(w, in, l, in->space, at, bytes, false)) continue;
        tensor_replace(bytes, (TensorField)in->aux, in->vec, v);
        move(w, in, l, in->space, at, bytes, true);
    });
}

static void x_copy(Warp *w, const Insn *in) {            // a: to global, b: from shared; aux: b's offset
    if (!warp_converge(w, in, 0xffffffffu)) return;
    uint8_t bytes[128];
    int l = __builtin_ctz(w->active);
    if (move(w, in, l, SPACE_SHARED, address(w, in, in->b, in->aux, in->vec, l), bytes, false))
        move(w, in, l, in->space, address(w, in, in->a, in->imm, in->flags & ADDR32, l), bytes, true);
}

static void decode_copy(Dec *d) {                        // .global.shared::cta.tensormap::generic.release.scope.sync.aligned
    static const char *const words[] = {"global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"};
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!dec_mod(d, words[i])) dec_error(d, "`tensormap.cp_fenceproxy` needs .%s", words[i]);
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++) dec_mod(d, scopes[i]);
    dec_count(d, 3, 3);
    if (dec_imm(d, 2) != 128) dec_error(d, "`tensormap.cp_fenceproxy` copies 128 bytes");
    Insn to = {0}, from = {0};
    dec_address(d, dec_op(d, 0), &to, SPACE_GLOBAL);
    dec_address(d, dec_op(d, 1), &from, SPACE_SHARED);
    Insn *in = dec_emit(d, x_copy);
    in->a = to.a, in->imm = to.imm, in->flags = to.flags, in->space = to.space;
    in->b = from.a, in->aux = from.imm, in->vec = from.flags & ADDR32;
}

static void decode_tensormap(Dec *d) {
    if (dec_mod(d, "cp_fenceproxy")) { decode_copy(d); return; }
    if (!dec_mod(d, "replace")) return;
    dec_mod(d, "tile");
    size_t f = 0;
    while (f < sizeof fields / sizeof *fields && !dec_mod(d, fields[f].name)) f++;
    if (f == sizeof fields / sizeof *fields) dec_error(d, "`tensormap.replace` needs a field");
    uint8_t space = dec_space(d);
    if (!dec_mod(d, "b1024")) dec_error(d, "`tensormap.replace` needs .b1024");
    Type t = dec_need_type(d);
    dec_count(d, fields[f].count ? 3 : 2, fields[f].count ? 3 : 2);
    int64_t index = fields[f].count ? dec_imm(d, 1) : 0;
    if (index < 0 || (fields[f].count && index >= fields[f].count)) dec_error(d, "`tensormap.replace` of .%s %lld", fields[f].name, (long long)index);
    t = ptx_type_bits(t) == 64 ? T_b64 : T_b32;
    Insn at = {0};
    dec_address(d, dec_op(d, 0), &at, space);
    u32 value = dec_src(d, d->n_ops - 1, t);
    Insn *in = dec_emit(d, x_replace);
    in->a = at.a, in->imm = at.imm, in->flags = at.flags, in->space = at.space;
    in->b = value, in->type = (uint8_t)t, in->aux = fields[f].field, in->vec = (uint8_t)index;
}

const InsnDef VARIANT(defs_tensormap)[] = {{"tensormap", decode_tensormap, EMU_CLASS_ASYNC}, {NULL, NULL, 0}};

// ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16-bit elements, a row per lane's address.
#include "emu/fragments.h"

typedef uint32_t u32;

// Registers to rows, or back. vec: matrices; aux: 1 transposed; n: registers; imm is the address's
static void spread(Warp *w, const Insn *in, uint8_t rows[32][16], bool from_registers) {
    for (u32 i = 0; i < in->vec; i++) {
        u32 *reg = lane32(w, in->list[i]);
        for (u32 l = 0; l < 32; l++)
            for (u32 h = 0; h < 2; h++) {
                u32 row = in->aux ? 2 * (l % 4) + h : l / 4, col = in->aux ? l / 4 : 2 * (l % 4) + h;
                uint8_t *element = &rows[8 * i + row][2 * col];
                uint16_t v = (uint16_t)(reg[l] >> 16 * h);
                if (from_registers) memcpy(element, &v, 2);
                else {
                    memcpy(&v, element, 2);
                    reg[l] = h ? (reg[l] & 0xffff) | (u32)v << 16 : (reg[l] & 0xffff0000u) | v;
                }
            }
    }
}

static void x_matrix(Warp *w, const Insn *in) {
    bool store = in->type == T_b16;
    if (!warp_converge(w, in, 0xffffffffu)) return;
    uint8_t *p[32], rows[32][16];
    u32 all = w->active, matrices = in->vec, lanes = matrices == 4 ? 0xffffffffu : (1u << 8 * matrices) - 1;
    if (store) spread(w, in, rows, true);
    w->active = lanes;
    if (store) w->storing = in, w->storing_rows = (const uint8_t(*)[16])rows;
    u32 ok = VARIANT(pointers)(w, in, p, 16, store);
    w->storing = NULL, w->storing_rows = NULL;
    w->active = all;
    for (u32 m = ok; m; m &= m - 1) {
        u32 l = (u32)__builtin_ctz(m);
        memcpy(store ? p[l] : rows[l], store ? rows[l] : p[l], 16);
    }
    if (!store && ok == lanes) spread(w, in, rows, false);
}

static void matrix(Dec *d, bool store) {
    dec_mod(d, "sync");
    dec_mod(d, "aligned");
    if (!dec_mod(d, "m8n8")) dec_error(d, "`%.*s` needs .m8n8", (int)d->name.n, d->name.s);
    u32 n = dec_mod(d, "x1") ? 1 : dec_mod(d, "x2") ? 2 : dec_mod(d, "x4") ? 4 : 0;
    bool trans = dec_mod(d, "trans");
    uint8_t space = dec_space(d);
    Type t = dec_need_type(d);
    dec_count(d, 2, 2);
    if (!n || t != T_b16) dec_error(d, "`%.*s` needs .x1, .x2 or .x4 of .b16", (int)d->name.n, d->name.s);
    if (space == SPACE_GENERIC) space = SPACE_SHARED;
    Insn at = {0};
    u32 slots[4], count = 0;
    dec_address(d, dec_op(d, store ? 0 : 1), &at, space);
    fragment(d, store ? 1 : 0, T_b32, !store, n, slots, &count);
    Insn *in = dec_emit(d, x_matrix);
    in->a = at.a, in->imm = at.imm, in->flags = at.flags, in->space = at.space;
    in->vec = (uint8_t)n, in->aux = trans, in->type = store ? T_b16 : T_none;
    in->cls = EMU_CLASS_SHARED;
    memcpy(dec_list(d, in, n), slots, n * sizeof *slots);
}
static void decode_ldmatrix(Dec *d) { matrix(d, false); }
static void decode_stmatrix(Dec *d) { matrix(d, true); }

static void x_movmatrix(Warp *w, const Insn *in) {
    if (!warp_converge(w, in, 0xffffffffu)) return;
    u32 a[32], *d = lane32(w, in->d);
    memcpy(a, lane32(w, in->a), sizeof a);
    for (u32 l = 0; l < 32; l++) {
        u32 r = 0;
        for (u32 h = 0; h < 2; h++) {
            u32 row = 2 * (l % 4) + h, col = l / 4;      // of the source
            r |= (a[4 * row + col / 2] >> 16 * (col & 1) & 0xffff) << 16 * h;
        }
        d[l] = r;
    }
}
static void decode_movmatrix(Dec *d) {
    dec_mod(d, "sync");
    dec_mod(d, "aligned");
    if (!dec_mod(d, "m8n8") || !dec_mod(d, "trans")) dec_error(d, "`movmatrix` needs .m8n8.trans");
    Type t = dec_need_type(d);
    dec_count(d, 2, 2);
    uint32_t a = dec_src(d, 1, t), to = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, x_movmatrix);
    in->d = to, in->a = a;
}

const InsnDef VARIANT(defs_matrix)[] = {
    {"ldmatrix", decode_ldmatrix, EMU_CLASS_SHARED}, {"stmatrix", decode_stmatrix, EMU_CLASS_SHARED}, {"movmatrix", decode_movmatrix, EMU_CLASS_WARP}, {NULL, NULL, 0},
};

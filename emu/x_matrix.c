// ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16-bit elements, a row per lane's address. Of sm_100a and sm_120a ldmatrix loads
// 8-bit elements too: 8x16, of 4 or 6 bits in memory, a lane having four of row l / 4; and 16x16, transposed, rows l / 4 and 8 further.
#include "emu/fragments.h"

typedef uint32_t u32;
typedef uint64_t u64;

// Registers to rows, or back. vec: matrices; aux: 1 transposed; n: registers; imm is the address's
static void spread(Warp *w, const Insn *in, uint8_t rows[32][16], bool from_registers) {
    for (u32 i = 0; i < in->vec; i++) {
        u32 *reg = lane32(w, in->list[i]);
        if (!in->aux) {                                  // a register is eight rows, as they lie
            memcpy(from_registers ? (void *)rows[8 * i] : reg, from_registers ? (void *)reg : rows[8 * i], 128);
            continue;
        }
        uint16_t matrix[8][8];
        if (!from_registers) memcpy(matrix, rows[8 * i], sizeof matrix);
        for (u32 l = 0; l < 32; l++) {
            uint16_t *low = &matrix[2 * (l % 4)][l / 4], *high = &matrix[2 * (l % 4) + 1][l / 4];
            if (from_registers) *low = (uint16_t)reg[l], *high = (uint16_t)(reg[l] >> 16);
            else reg[l] = *low | (u32)*high << 16;
        }
        if (from_registers) memcpy(rows[8 * i], matrix, sizeof matrix);
    }
}

// 16x16: aux is 2. Registers 2 i and 2 i + 1 have four elements of a column of memory each.
static void spread_columns(Warp *w, const Insn *in, uint8_t rows[32][16]) {
    for (u32 i = 0; i < in->n; i++) {
        u32 *reg = lane32(w, in->list[i]);
        for (u32 l = 0; l < 32; l++) {
            reg[l] = 0;
            for (u32 h = 0; h < 4; h++) reg[l] |= (u32)rows[16 * (i / 2) + 4 * (l % 4) + h][l / 4 + 8 * (i & 1)] << 8 * h;
        }
    }
}

// 16 elements of 4 or 6 bits, side by side, to a byte each.
static void unpack_row(uint8_t row[16], u32 bits) {
    u64 low, high;
    memcpy(&low, row, 8);
    memcpy(&high, row + 8, 8);
    for (u32 i = 0; i < 16; i++) {
        u32 at = bits * i;
        u64 word = at < 64 ? low >> at | (at ? high << (64 - at) : 0) : high >> (at - 64);
        row[i] = (uint8_t)(word & ((1u << bits) - 1));
    }
}

static void x_matrix(Warp *w, const Insn *in) {
    bool store = in->type == T_b16;
    if (!warp_converge(w, in, 0xffffffffu)) return;
    uint8_t *p[32], rows[32][16];
    u32 all = w->active, matrices = in->vec * (in->aux == 2 ? 2 : 1), lanes = matrices == 4 ? 0xffffffffu : (1u << 8 * matrices) - 1;
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
    if (store || ok != lanes) return;
    u32 bits = ptx_type_bits((Type)in->type);            // of elements that lie side by side
    for (u32 l = 0; bits && l < 32; l++) unpack_row(rows[l], bits);
    if (in->aux == 2) spread_columns(w, in, rows);
    else spread(w, in, rows, false);
}

static void matrix(Dec *d, bool store) {
    dec_mod(d, "sync");
    dec_mod(d, "aligned");
    bool wide = !store && dec_mod(d, "m8n16"), square = !store && !wide && dec_mod(d, "m16n16");
    if (!wide && !square && !dec_mod(d, "m8n8")) dec_error(d, "`%.*s` needs .m8n8%s", (int)d->name.n, d->name.s, store ? "" : ", .m8n16 or .m16n16");
    u32 n = dec_mod(d, "x1") ? 1 : dec_mod(d, "x2") ? 2 : dec_mod(d, "x4") ? 4 : 0;
    bool trans = dec_mod(d, "trans"), packed = (wide || square) && dec_mod(d, "b8x16");
    Type bits = packed && dec_mod(d, "b6x16_p32") ? T_e2m3 : packed && dec_mod(d, "b4x16_p64") ? T_u4 : T_none;
    uint8_t space = dec_space(d);
    Type t = packed ? T_b8 : dec_need_type(d);
    dec_count(d, 2, 2);
    if ((wide && (!bits || trans)) || (square && (!trans || n > 2 || (packed && !bits))))
        dec_error(d, "`ldmatrix` is .m8n16 of .b8x16.b6x16_p32 or .b8x16.b4x16_p64, or .m16n16, .x1 or .x2, .trans of these or .b8");
    if (!n || t != (wide || square ? T_b8 : T_b16)) dec_error(d, "`%.*s` needs .x1, .x2 or .x4 of .b16", (int)d->name.n, d->name.s);
    if (space == SPACE_GENERIC) space = SPACE_SHARED;
    Insn at = {0};
    u32 slots[4], count = 0, registers = square ? 2 * n : n;
    dec_address(d, dec_op(d, store ? 0 : 1), &at, space);
    fragment(d, store ? 1 : 0, T_b32, !store, registers, slots, &count);
    Insn *in = dec_emit(d, x_matrix);
    in->a = at.a, in->imm = at.imm, in->flags = at.flags, in->space = at.space;
    in->vec = (uint8_t)n, in->aux = square ? 2 : trans, in->type = store ? T_b16 : bits;
    in->cls = EMU_CLASS_SHARED;
    memcpy(dec_list(d, in, registers), slots, registers * sizeof *slots);
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
    dec_need_type(d);
    dec_count(d, 2, 2);
    uint32_t a = dec_src(d, 1, T_b32), to = dec_dst(d, 0, T_b32);
    Insn *in = dec_emit(d, x_movmatrix);
    in->d = to, in->a = a;
}

const InsnDef VARIANT(defs_matrix)[] = {
    {"ldmatrix", decode_ldmatrix, EMU_CLASS_SHARED}, {"stmatrix", decode_stmatrix, EMU_CLASS_SHARED}, {"movmatrix", decode_movmatrix, EMU_CLASS_WARP}, {NULL, NULL, 0},
};

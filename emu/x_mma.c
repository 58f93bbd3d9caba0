// mma.sync, and the matrix loads and stores that feed it.
//
// Fragments, lane l, g = l / 4, c = l % 4, E elements to a word:
//
//     A  word r:  row g + 8 * (r & 1), k = E * c + h + 4 * E * (r >> 1)        (8 rows: no doubling)
//     B  word r:  column g,            k = E * c + h + 4 * E * r
//     C  value i: row g + 8 * (i >> 1), column 2 * c + (i & 1)
//
// The operands are spread into dense matrices of doubles (or integers), multiplied, and gathered back.
// Products are exact; a row times a column and the accumulator are summed in double and rounded once.
#include "emu/fragments.h"

typedef uint32_t u32;
typedef uint64_t u64;

enum { MAX_K = 256 };

typedef struct Mma {
    u32  m, n, k;
    Type d, a, b, c;
    bool satfinite;
    int  popc;                    // b1: 1 xor, 2 and
    u32  na, nb, nc, nd;          // words
} Mma;

static void multiply_floats(u32 m, u32 k, double a[16][MAX_K], double b[MAX_K][8], double c[16][8]) {
    for (u32 i = 0; i < m; i++) {
        double sum[8];
        for (int j = 0; j < 8; j++) sum[j] = c[i][j];
        for (u32 x = 0; x < k; x++)
            for (int j = 0; j < 8; j++) sum[j] += a[i][x] * b[x][j];
        for (int j = 0; j < 8; j++) c[i][j] = sum[j];
    }
}

static void mma_float(Warp *w, const Insn *in, const Mma *t) {
    double a[16][MAX_K], b[MAX_K][8], c[16][8];
    bool f64 = t->a == T_f64;
    const u32 *list = in->list, *as = list + t->nd, *bs = as + t->na, *cs = bs + t->nb;
    u32 ea = f64 ? 1 : 32 / ptx_type_bits(t->a), eb = f64 ? 1 : 32 / ptx_type_bits(t->b);
    for (u32 r = 0; r < t->na; r++)
        for (u32 l = 0; l < 32; l++)
            for (u32 h = 0; h < ea; h++) {
                u32 row = l / 4 + (t->m == 16 ? 8 * (r & 1) : 0), k = ea * (l % 4) + h + 4 * ea * (t->m == 16 ? r >> 1 : r);
                a[row][k] = f64 ? f64_from(lane64(w, as[r])[l]) : element_float(lane32(w, as[r])[l], t->a, h);
            }
    for (u32 r = 0; r < t->nb; r++)
        for (u32 l = 0; l < 32; l++)
            for (u32 h = 0; h < eb; h++)
                b[eb * (l % 4) + h + 4 * eb * r][l / 4] = f64 ? f64_from(lane64(w, bs[r])[l])
                                                              : element_float(lane32(w, bs[r])[l], t->b, h);
    u32 values = t->m / 4;                               // of C and D in a lane
    for (u32 i = 0; i < values; i++)
        for (u32 l = 0; l < 32; l++) {
            double *to = &c[l / 4 + 8 * (i >> 1)][2 * (l % 4) + (i & 1)];
            *to = t->c == T_f64 ? f64_from(lane64(w, cs[i])[l]) : t->c == T_f32 ? (double)f32_from(lane32(w, cs[i])[l])
                : (double)f16_to_f32((uint16_t)(lane32(w, cs[i / 2])[l] >> 16 * (i & 1)));
        }
    multiply_floats(t->m, t->k, a, b, c);
    for (u32 i = 0; i < values; i++)
        for (u32 l = 0; l < 32; l++) {
            double v = c[l / 4 + 8 * (i >> 1)][2 * (l % 4) + (i & 1)];
            if (t->d == T_f64) lane64(w, list[i])[l] = f64_bits(v);
            else if (t->d == T_f32) lane32(w, list[i])[l] = canonical((float)v);
            else {
                u32 h = v != v ? 0x7fff : f16_from_f64(v), *to = &lane32(w, list[i / 2])[l];
                *to = i & 1 ? (*to & 0xffff) | h << 16 : (*to & 0xffff0000u) | h;
            }
        }
}

static void mma_int(Warp *w, const Insn *in, const Mma *t) {
    static _Thread_local int32_t a[16][MAX_K], b[MAX_K][8];
    const u32 *list = in->list, *as = list + t->nd, *bs = as + t->na, *cs = bs + t->nb;
    u32 ea = 32 / ptx_type_bits(t->a), eb = 32 / ptx_type_bits(t->b);
    for (u32 r = 0; r < t->na; r++)
        for (u32 l = 0; l < 32; l++)
            for (u32 h = 0; h < ea; h++)
                a[l / 4 + (t->m == 16 ? 8 * (r & 1) : 0)][ea * (l % 4) + h + 4 * ea * (t->m == 16 ? r >> 1 : r)] =
                    element_int(lane32(w, as[r])[l], t->a, h);
    for (u32 r = 0; r < t->nb; r++)
        for (u32 l = 0; l < 32; l++)
            for (u32 h = 0; h < eb; h++) b[eb * (l % 4) + h + 4 * eb * r][l / 4] = element_int(lane32(w, bs[r])[l], t->b, h);
    u32 values = t->m / 4;
    int64_t sums[4][32];
    for (u32 i = 0; i < values; i++)
        for (u32 l = 0; l < 32; l++) {
            u32 row = l / 4 + 8 * (i >> 1), col = 2 * (l % 4) + (i & 1);
            int64_t sum = (int32_t)lane32(w, cs[i])[l];
            for (u32 k = 0; k < t->k; k++)
                sum += t->popc == 1   ? a[row][k] ^ b[k][col]
                       : t->popc == 2 ? a[row][k] & b[k][col]
                                      : (int64_t)a[row][k] * b[k][col];
            if (t->satfinite) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            sums[i][l] = sum;
        }
    for (u32 i = 0; i < values; i++)
        for (u32 l = 0; l < 32; l++) lane32(w, list[i])[l] = (u32)sums[i][l];
}

static void x_mma(Warp *w, const Insn *in) {
    const Mma *t = in->extra;
    if (!warp_converge(w, in, 0xffffffffu)) return;
    w->count.mma_flops += 2ull * t->m * t->n * t->k;
    if (element_is_float(t->a)) mma_float(w, in, t);
    else mma_int(w, in, t);
}

static void append(Dec *d, uint32_t i, Type t, bool write, u32 want, u32 *slots, u32 *n) {
    const Operand *o = dec_op(d, i), *items = o->kind == O_VEC ? o->items : o;
    u32 have = o->kind == O_VEC ? o->n : 1;
    if (have != want) dec_error(d, "operand %u has %u registers; this mma has %u", i + 1, have, want);
    for (u32 k = 0; k < have; k++) slots[(*n)++] = write ? dec_dst_op(d, &items[k], t) : dec_src_op(d, &items[k], t);
}

static void decode_mma(Dec *d) {
    static const struct { const char *name; uint8_t m, n; uint16_t k; } shapes[] = {
        {"m16n8k4", 16, 8, 4}, {"m16n8k8", 16, 8, 8}, {"m16n8k16", 16, 8, 16}, {"m16n8k32", 16, 8, 32}, {"m16n8k64", 16, 8, 64},
        {"m16n8k128", 16, 8, 128}, {"m16n8k256", 16, 8, 256}, {"m8n8k4", 8, 8, 4}, {"m8n8k16", 8, 8, 16}, {"m8n8k32", 8, 8, 32}, {"m8n8k128", 8, 8, 128}};
    Mma *t = dec_alloc(d, sizeof *t);
    dec_mod(d, "sync");
    dec_mod(d, "aligned");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (dec_mod(d, shapes[i].name)) t->m = shapes[i].m, t->n = shapes[i].n, t->k = shapes[i].k;
    if (!t->m) dec_error(d, "`mma` of an unknown shape");
    if (!dec_mod(d, "row") || !dec_mod(d, "col")) dec_error(d, "`mma` needs .row.col");
    dec_mod(d, "kind::f8f6f4");
    t->satfinite = dec_mod(d, "satfinite");
    t->d = dec_need_type(d), t->a = dec_need_type(d), t->b = dec_need_type(d), t->c = dec_need_type(d);
    if (t->a == T_b1) {
        t->popc = dec_mod(d, "xor") ? 1 : dec_mod(d, "and") ? 2 : 0;
        dec_mod(d, "popc");
        if (!t->popc) dec_error(d, "`mma` of .b1 needs .xor.popc or .and.popc");
    }
    u32 bits = ptx_type_bits(t->a);
    bool f = element_is_float(t->a), f64 = t->a == T_f64;
    bool good = ptx_type_bits(t->b) == bits && t->a != T_f32 && element_is_float(t->b) == f &&
                ptx_type_kind(t->a) != 'V' && ptx_type_kind(t->a) != 'P' && t->a != T_e2m1;
    if (f64) good &= t->b == T_f64 && t->c == T_f64 && t->d == T_f64 && t->k <= 16;
    else if (f)
        good &= (t->c == T_f32 || t->c == T_f16) && (t->d == T_f32 || t->d == T_f16) &&
                (bits >= 16 ? t->k <= 16 : t->k <= 32);
    else
        good &= t->c == T_s32 && t->d == T_s32 &&
                (t->a == T_s8 || t->a == T_u8 || t->a == T_s4 || t->a == T_u4 || t->a == T_b1);
    if (bits == 8 && t->k != 16 && t->k != 32) good = false;
    if (f && !f64 && t->m != 16) good = false;
    u32 e = f64 ? 1 : 32 / (bits ? bits : 1);
    if (t->m * t->k % (32 * e) || 8 * t->k % (32 * e)) good = false;
    if (!good)
        dec_error(d, "`mma.m%un%uk%u` of .%s and .%s is not supported", t->m, t->n, t->k, ptx_type_name(t->a),
                  ptx_type_name(t->b));
    t->na = t->m * t->k / 32 / e, t->nb = 8 * t->k / 32 / e;
    t->nc = t->c == T_f16 ? t->m / 8 : t->m / 4, t->nd = t->d == T_f16 ? t->m / 8 : t->m / 4;
    dec_count(d, 4, 4);
    u32 slots[64], n = 0;
    append(d, 0, f64 ? T_f64 : T_b32, true, t->nd, slots, &n);
    append(d, 1, f64 ? T_f64 : T_b32, false, t->na, slots, &n);
    append(d, 2, f64 ? T_f64 : T_b32, false, t->nb, slots, &n);
    append(d, 3, f64 ? T_f64 : T_b32, false, t->nc, slots, &n);
    Insn *in = dec_emit(d, x_mma);
    in->extra = t;
    memcpy(dec_list(d, in, n), slots, n * sizeof *slots);
}

// ---- ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16-bit elements, a row per lane's address

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
    append(d, store ? 1 : 0, T_b32, !store, n, slots, &count);
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

const InsnDef VARIANT(defs_mma)[] = {
    {"mma", decode_mma, EMU_CLASS_MMA},             {"ldmatrix", decode_ldmatrix, EMU_CLASS_SHARED}, {"stmatrix", decode_stmatrix, EMU_CLASS_SHARED},
    {"movmatrix", decode_movmatrix, EMU_CLASS_WARP}, {NULL, NULL, 0},
};

// mma.sync and mma.sp: products of a warp.
//
// Fragments, lane l, g = l / 4, c = l % 4, E elements to a word:
//
//     A  word r:  row g + 8 * (r & 1), k = E * c + h + 4 * E * (r >> 1)        (8 rows: no doubling)
//     B  word r:  column g,            k = E * c + h + 4 * E * r
//     C  value i: row g + 8 * (i >> 1), column 2 * c + (i & 1)
//
// The operands are spread into dense matrices of doubles, multiplied, and gathered back. Products are exact; a row times
// a column and the accumulator are summed in double and rounded once. A sparse A is half as wide, and its elements go where
// the metadata says (fragments.h). Of scaled blocks each element is first multiplied by the scale of its part of the row, or
// column: of A by a byte of lane 4 g + 2 * thread (rows 8.. of the next one), of B of lane 4 * column + thread.
//
// m8n8k4 of f16 is older than all of this: four products side by side, each of eight lanes, see quads.
#include "emu/panels.h"

typedef uint32_t u32;
typedef uint64_t u64;

enum { MAX_K = 256, MAX_TYPES = 5 };

typedef struct Mma {
    u32  m, k;
    Type d, a, b, c;
    u32  room;                    // bits of an element of A and B in its word
    bool satfinite, sparse, ordered;
    int  popc;                    // b1: 1 xor, 2 and
    u32  na, nb, nc, nd;          // words
    u32  select;
    u32  scales;                  // of a row, 0: none
    Type scale;
    bool a_columns, b_rows;       // quads
} Mma;

// What there is: types that go with one another, bits of an element, accumulators, k of 16 rows, of 8, and of a sparse A.
static const struct Family {
    const char *kind;
    Type        types[MAX_TYPES];
    uint8_t     room;
    Type        sums[2];
    uint16_t    k[3], k8, sparse[2];
    uint8_t     scales[2];
} families[] = {
    {NULL, {T_f16}, 16, {T_f32, T_f16}, {8, 16}, 0, {16, 32}, {0}},
    {NULL, {T_bf16}, 16, {T_f32}, {8, 16}, 0, {16, 32}, {0}},
    {NULL, {T_tf32}, 32, {T_f32}, {4, 8}, 0, {8, 16}, {0}},
    {NULL, {T_f64}, 64, {T_f64}, {4, 8, 16}, 4, {0}, {0}},
    {NULL, {T_e4m3, T_e5m2}, 8, {T_f32, T_f16}, {16, 32}, 0, {64}, {0}},
    {NULL, {T_s8, T_u8}, 8, {T_s32}, {16, 32}, 16, {32, 64}, {0}},
    {NULL, {T_s4, T_u4}, 4, {T_s32}, {32, 64}, 32, {64, 128}, {0}},
    {NULL, {T_b1}, 1, {T_s32}, {128, 256}, 128, {0}, {0}},
    {"kind::f8f6f4", {T_e4m3, T_e5m2, T_e2m3, T_e3m2, T_e2m1}, 8, {T_f32, T_f16}, {32}, 0, {64}, {0}},
    {"kind::mxf8f6f4", {T_e4m3, T_e5m2, T_e2m3, T_e3m2, T_e2m1}, 8, {T_f32}, {32}, 0, {64}, {1}},
    {"kind::mxf4", {T_e2m1}, 4, {T_f32}, {64}, 0, {128}, {2}},
    {"kind::mxf4nvf4", {T_e2m1}, 4, {T_f32}, {64}, 0, {128}, {2, 4}},
};
enum { FAMILIES = sizeof families / sizeof *families };

// A as the registers have it, element h of register r in lane l in a[32 (e r + h) + l]; where a sparse A or scales ask for it,
// by rows of MAX_K. B in the order of a panel.
typedef struct Operands {
    double   a[16 * MAX_K];
    Four     b[2 * MAX_K], c[32];
    uint16_t at[MAX_K];           // where column k of A's row 0 is
    u32      step, second;        // from there to row 1, and to row 8
} Operands;

static u32 per_word(const Mma *t) { return t->room == 64 ? 1 : 32 / t->room; }

// The elements of a register, of all lanes: to[32 h + l].
static void elements(const Warp *w, u32 slot, const Mma *t, Type type, u32 e, double *to) {
    if (type == T_f64) memcpy(to, lane64(w, slot), 32 * sizeof *to);
    else for (u32 h = 0; h < e; h++) elements_of(lane32(w, slot), 32, type, t->room, h, to + 32 * h);
}

static double a_at(const Operands *o, u32 i, u32 k) { return o->a[o->at[k] + i % 8 * o->step + i / 8 * o->second]; }

static void by_rows(const Mma *t, Operands *o) {
    for (u32 k = 0; k < t->k; k++) o->at[k] = (uint16_t)k;
    o->step = MAX_K, o->second = 8 * MAX_K;
}

static void spread_a(const Warp *w, const Mma *t, const u32 *as, Operands *o) {
    u32 e = per_word(t), wide = t->m == 16 ? 2 : 1;
    for (u32 r = 0; r < t->na; r++) elements(w, as[r], t, t->a, e, o->a + 32 * e * r);
    for (u32 k = 0; k < t->k; k++) o->at[k] = (uint16_t)(32 * (e * wide * (k / e / 4) + k % e) + k / e % 4);
    o->step = 4, o->second = 32 * e;
    if (!t->scales) return;
    double rows[16][MAX_K];
    for (u32 i = 0; i < t->m; i++)
        for (u32 k = 0; k < t->k; k++) rows[i][k] = a_at(o, i, k);
    memcpy(o->a, rows, sizeof rows);
    by_rows(t, o);
}

// False: metadata that names no element, or one twice, which is reported.
static bool spread_sparse(Warp *w, const Insn *in, const Mma *t, const u32 *as, const u32 *meta, Operands *o) {
    double v[32 * 32];
    u32 e = per_word(t);
    memset(o->a, 0, sizeof o->a);
    by_rows(t, o);
    for (u32 r = 0; r < t->na; r++) {
        elements(w, as[r], t, t->a, e, v);
        for (u32 l = 0; l < 32; l++)
            for (u32 h = 0; h < e; h++) {
                u32 row = l / 4 + 8 * (r & 1), what, k = sparse_column(meta, t->room, t->k, t->select, row, e * (l % 4) + 4 * e * (r >> 1) + h, &what);
                if (k == ~0u || (t->ordered && (what & 3) > what >> 2)) {
                    emu_fault(w, in, (int)l, EMU_FAULT_BAD_OPERAND, "metadata 0x%x of row %u of a sparse A%s", what, row, k == ~0u ? "" : ", which is not in order");
                    return false;
                }
                o->a[row * MAX_K + (k & (MAX_K - 1))] = v[32 * h + l];
            }
    }
    return true;
}

// Lanes 4 g .. 4 g + 3 have column g, of four neighbouring words of k: four columns turned give four half rows of the panel.
static void spread_b(const Warp *w, const Mma *t, const u32 *bs, Operands *o) {
    double v[32 * 32];
    u32 e = per_word(t);
    for (u32 r = 0; r < t->nb; r++) {
        elements(w, bs[r], t, t->b, e, v);
        for (u32 h = 0; h < e; h++)
            for (u32 odd = 0; odd < 2; odd++) {
                const double *from = v + 32 * h + 4 * odd;
                for (u32 c = 0; c < 4; c++) o->b[2 * (e * c + h + 4 * e * r) + odd] = (Four){from[c], from[8 + c], from[16 + c], from[24 + c]};
            }
    }
}

// Of bits, those that differ: the sum of a + b - 2 a b.
static void multiply_xor(const Mma *t, Operands *o) {
    for (u32 i = 0; i < t->m; i++)
        for (u32 x = 0; x < t->k; x++)
            for (u32 h = 0; h < 2; h++) o->c[2 * i + h] += a_at(o, i, x) + o->b[2 * x + h] - 2 * a_at(o, i, x) * o->b[2 * x + h];
}

// at: scales of A, then {byte, thread} of it, then the same of B.
static void scale_blocks(const Warp *w, const Mma *t, const u32 *at, Operands *o) {
    u32 which[4];
    for (u32 i = 0; i < 4; i++) which[i] = lane32(w, at[i < 2 ? 1 + i : 2 + i])[0];
    for (u32 k = 0; k < t->k; k++) {
        u32 part = k / (t->k / t->scales);
        for (u32 i = 0; i < 16; i++)
            o->a[i * MAX_K + k] *= small_value(t->scale, lane32(w, at[0])[4 * (i % 8) + 2 * (which[1] & 1) + i / 8] >> 8 * ((which[0] + part) & 3) & 0xff);
        for (u32 j = 0; j < 8; j++) ((double *)o->b)[8 * k + panel_place(j)] *= small_value(t->scale, lane32(w, at[3])[4 * j + (which[3] & 3)] >> 8 * ((which[2] + part) & 3) & 0xff);
    }
}

static void x_mma(Warp *w, const Insn *in) {
    const Mma *t = in->extra;
    const u32 *as = in->list + t->nd, *bs = as + t->na, *cs = bs + t->nb, *more = cs + t->nc;
    Operands o;
    if (!warp_converge(w, in, 0xffffffffu)) return;
    w->count.mma_flops += 2ull * t->m * 8 * t->k;
    if (!t->sparse) spread_a(w, t, as, &o);
    else if (!spread_sparse(w, in, t, as, lane32(w, *more), &o)) return;
    spread_b(w, t, bs, &o);
    if (t->scales) scale_blocks(w, t, more + t->sparse, &o);
    u32 eights = t->m / 8;
    for (u32 i = 0; i < eights; i++) sums_load(w, t->c, cs + (t->c == T_f16 ? i : 2 * i), o.c + 16 * i);
    if (t->popc == 1) multiply_xor(t, &o);
    else for (u32 i = 0; i < eights; i++)
        (t->a == T_f64 ? multiply_rounded : multiply_exact)(o.a + i * o.second, o.at, o.step, o.b, t->k, o.c + 16 * i, 8);
    for (u32 i = 0; i < eights; i++) sums_store(w, t->d, t->satfinite, in->list + (t->d == T_f16 ? i : 2 * i), o.c + 16 * i);
}

// Lanes 4 q .. 4 q + 3 and those 16 further on multiply 8 x 4 by 4 x 8. h = l / 16, c = l % 4:
//
//     A  by rows     row c + 4 h, k = i             by columns  row i + 4 h, k = c
//     B  by columns  column c + 4 h, k = i          by rows     column i + 4 h, k = c
//     C  f16         row c + 4 h, column i          f32         row (c & 1) + (i & 2) + 4 h, column (i & 4) + (c & 2) + (i & 1)
static void quad_place(Type t, u32 l, u32 i, u32 *row, u32 *column) {
    u32 c = l % 4, h = 4 * (l / 16);
    *row = t == T_f16 ? c + h : (c & 1) + (i & 2) + h;
    *column = t == T_f16 ? i : (i & 4) + (c & 2) + (i & 1);
}

static double load_sum(const Warp *w, const u32 *cs, Type t, u32 i, u32 l) {
    return t == T_f32 ? (double)f32_from(lane32(w, cs[i])[l]) : (double)half_to_float(lane32(w, cs[i / 2])[l] >> 16 * (i & 1) & 0xffff);
}

static void store_sum(const Warp *w, const u32 *ds, Type t, u32 i, u32 l, double v) {
    if (t == T_f32) {
        lane32(w, ds[i])[l] = canonical((float)v);
        return;
    }
    u32 h = sum_word(T_f16, v, false), *to = &lane32(w, ds[i / 2])[l];
    *to = i & 1 ? (*to & 0xffff) | h << 16 : (*to & 0xffff0000u) | h;
}

static void x_quads(Warp *w, const Insn *in) {
    const Mma *t = in->extra;
    const u32 *as = in->list + t->nd, *bs = as + 2, *cs = bs + 2;
    double a[4][8][4], b[4][4][8], c[4][8][8];
    u32 row, column;
    if (!warp_converge(w, in, 0xffffffffu)) return;
    w->count.mma_flops += 4 * 2ull * 8 * 8 * 4;
    for (u32 l = 0; l < 32; l++) {
        u32 q = l / 4 % 4, h = 4 * (l / 16), n = l % 4;
        for (u32 i = 0; i < 4; i++) {
            double x = element_float(lane32(w, as[i / 2])[l], T_f16, i & 1), y = element_float(lane32(w, bs[i / 2])[l], T_f16, i & 1);
            if (t->a_columns) a[q][i + h][n] = x;
            else a[q][n + h][i] = x;
            if (t->b_rows) b[q][n][i + h] = y;
            else b[q][i][n + h] = y;
        }
        for (u32 i = 0; i < 8; i++) {
            quad_place(t->c, l, i, &row, &column);
            c[q][row][column] = load_sum(w, cs, t->c, i, l);
        }
    }
    for (u32 q = 0; q < 4; q++)
        for (u32 i = 0; i < 8; i++)
            for (u32 k = 0; k < 4; k++)
                for (u32 j = 0; j < 8; j++) c[q][i][j] += a[q][i][k] * b[q][k][j];
    for (u32 l = 0; l < 32; l++)
        for (u32 i = 0; i < 8; i++) {
            quad_place(t->d, l, i, &row, &column);
            store_sum(w, in->list, t->d, i, l, c[l / 4 % 4][row][column]);
        }
}

// ---- Decoding

void fragment(Dec *d, uint32_t i, Type t, bool write, u32 want, u32 *slots, u32 *n) {
    const Operand *o = dec_op(d, i), *items = o->kind == O_VEC ? o->items : o;
    u32 have = o->kind == O_VEC ? o->n : 1;
    if (have != want) dec_error(d, "operand %u has %u registers; this %.*s has %u", i + 1, have, (int)d->name.n, d->name.s, want);
    for (u32 k = 0; k < have; k++) slots[(*n)++] = write ? dec_dst_op(d, &items[k], t) : dec_src_op(d, &items[k], t);
}

static bool in_types(const Type *list, u32 n, Type t) {
    for (u32 i = 0; i < n; i++) if (t && list[i] == t) return true;
    return false;
}

static bool in_numbers(const uint16_t *list, u32 n, u32 k) {
    for (u32 i = 0; i < n; i++) if (k && list[i] == k) return true;
    return false;
}

static const struct Family *family_of(const Mma *t, const char *kind) {
    for (u32 i = 0; i < FAMILIES; i++) {
        const struct Family *f = &families[i];
        if ((f->kind != NULL) != (kind != NULL) || (kind && strcmp(kind, f->kind))) continue;
        if (!in_types(f->types, MAX_TYPES, t->a) || !in_types(f->types, MAX_TYPES, t->b)) continue;
        bool k = t->sparse ? t->m == 16 && in_numbers(f->sparse, 2, t->k) : t->m == 16 ? in_numbers(f->k, 3, t->k) : f->k8 == t->k;
        return k && in_types(f->sums, 2, t->c) && in_types(f->sums, 2, t->d) ? f : NULL;
    }
    return NULL;
}

static void shape(Dec *d, Mma *t) {
    static const struct { const char *name; uint8_t m; uint16_t k; } shapes[] = {
        {"m16n8k4", 16, 4}, {"m16n8k8", 16, 8}, {"m16n8k16", 16, 16}, {"m16n8k32", 16, 32}, {"m16n8k64", 16, 64}, {"m16n8k128", 16, 128},
        {"m16n8k256", 16, 256}, {"m8n8k4", 8, 4}, {"m8n8k16", 8, 16}, {"m8n8k32", 8, 32}, {"m8n8k128", 8, 128}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (dec_mod(d, shapes[i].name)) t->m = shapes[i].m, t->k = shapes[i].k;
    if (!t->m) dec_error(d, "`mma` of an unknown shape");
}

// .block_scale.scale_vec::2X, and the scales' type behind all others.
static void block_scale(Dec *d, Mma *t, const struct Family *f) {
    if (!f->scales[0]) {
        if (dec_mod(d, "block_scale")) dec_error(d, "`mma` has no .block_scale but of .kind::mxf8f6f4, .kind::mxf4 and .kind::mxf4nvf4");
        return;
    }
    if (!dec_mod(d, "block_scale")) dec_error(d, "`mma` of .%s needs .block_scale", f->kind);
    static const char *const sizes[] = {"", "scale_vec::1X", "scale_vec::2X", "", "scale_vec::4X"};
    for (u32 n = 1; n <= 4; n++) if (sizes[n][0] && dec_mod(d, sizes[n])) t->scales = n;
    if (!t->scales && !f->scales[1]) t->scales = f->scales[0];
    t->scale = dec_need_type(d);
    bool good = (t->scales == f->scales[0] || t->scales == f->scales[1]) && t->scales && (t->scale == T_ue8m0 || (t->scale == T_ue4m3 && t->scales == 4));
    if (!good) dec_error(d, "`mma` of .%s has no %u scales of .%s", f->kind, t->scales, ptx_type_name(t->scale));
}

static void decode_quads(Dec *d, Mma *t) {
    bool good = in_types((const Type[]){T_f16, T_f32}, 2, t->c) && in_types((const Type[]){T_f16, T_f32}, 2, t->d) && t->b == T_f16 && (t->d == T_f32 || t->c == T_f16);
    if (!good) dec_error(d, "`mma.m8n8k4` of .%s.%s.%s.%s does not exist", ptx_type_name(t->d), ptx_type_name(t->a), ptx_type_name(t->b), ptx_type_name(t->c));
    u32 slots[32], n = 0;
    t->nd = t->d == T_f16 ? 4 : 8, t->nc = t->c == T_f16 ? 4 : 8;
    dec_count(d, 4, 4);
    fragment(d, 0, sum_register(t->d), true, t->nd, slots, &n);
    fragment(d, 1, T_b32, false, 2, slots, &n);
    fragment(d, 2, T_b32, false, 2, slots, &n);
    fragment(d, 3, sum_register(t->c), false, t->nc, slots, &n);
    Insn *in = dec_emit(d, x_quads);
    in->extra = t;
    memcpy(dec_list(d, in, n), slots, n * sizeof *slots);
}

static const char *kind_of(Dec *d) {
    for (u32 i = 0; i < FAMILIES; i++) if (families[i].kind && dec_mod(d, families[i].kind)) return families[i].kind;
    return NULL;
}

static void scale_operand(Dec *d, u32 i, u32 *slots, u32 *n) {       // data, {byte, thread}
    fragment(d, i, T_b32, false, 1, slots, n);
    fragment(d, i + 1, T_b16, false, 2, slots, n);
}

static void decode_mma(Dec *d) {
    Mma *t = dec_alloc(d, sizeof *t);
    t->ordered = dec_mod(d, "sp::ordered_metadata");
    t->sparse = t->ordered || dec_mod(d, "sp");
    dec_mod(d, "sync");
    dec_mod(d, "aligned");
    shape(d, t);
    const char *kind = kind_of(d);
    bool a_row = false, b_row = false;
    for (u32 i = 0, seen = 0; i < d->n_mods && seen < 2; i++) {          // .row.col, in order
        bool row = ptx_str_is(d->mods[i], "row");
        if (!row && !ptx_str_is(d->mods[i], "col")) continue;
        *(seen++ ? &b_row : &a_row) = row;
        d->used |= 1u << i;
        if (seen == 1) b_row = true;                                     // until it is said
    }
    t->satfinite = dec_mod(d, "satfinite");
    t->d = dec_need_type(d), t->a = dec_need_type(d), t->b = dec_need_type(d), t->c = dec_need_type(d);
    if (t->m == 8 && t->k == 4 && t->a == T_f16 && !t->sparse && !kind) {
        t->a_columns = !a_row, t->b_rows = b_row;
        decode_quads(d, t);
        return;
    }
    if (!a_row || b_row) dec_error(d, "`mma` needs .row.col");
    const struct Family *f = family_of(t, kind);
    if (!f)
        dec_error(d, "`mma%s.m%un8k%u%s%s` of .%s.%s.%s.%s does not exist", t->sparse ? ".sp" : "", t->m, t->k, kind ? "." : "", kind ? kind : "",
                  ptx_type_name(t->d), ptx_type_name(t->a), ptx_type_name(t->b), ptx_type_name(t->c));
    if (t->a == T_b1) {
        t->popc = dec_mod(d, "xor") ? 1 : dec_mod(d, "and") ? 2 : 0;
        dec_mod(d, "popc");
        if (!t->popc) dec_error(d, "`mma` of .b1 needs .xor.popc or .and.popc");
    }
    block_scale(d, t, f);
    t->room = f->room;
    u32 e = t->room == 64 ? 1 : 32 / t->room, halves = t->d == T_f16, count = 4 + 2 * t->sparse + (t->scales ? 4 : 0);
    t->na = t->m * t->k / 32 / e / (t->sparse ? 2 : 1), t->nb = 8 * t->k / 32 / e;
    t->nc = t->m / (t->c == T_f16 ? 8 : 4), t->nd = t->m / (halves ? 8 : 4);
    dec_count(d, count, count);
    u32 slots[64], n = 0;
    Type wide = t->a == T_f64 ? T_f64 : T_b32;
    fragment(d, 0, sum_register(t->d), true, t->nd, slots, &n);
    fragment(d, 1, wide, false, t->na, slots, &n);
    fragment(d, 2, wide, false, t->nb, slots, &n);
    fragment(d, 3, sum_register(t->c), false, t->nc, slots, &n);
    if (t->sparse) {
        fragment(d, 4, T_b32, false, 1, slots, &n);
        u32 bits = t->room == 32 ? 2 * t->k : t->room == 4 ? t->k / 2 : t->k, most = bits == 16 ? 3 : bits == 32 ? 1 : 0;
        int64_t select = dec_imm(d, 5);
        if (select < 0 || select > most) dec_error(d, "the sparsity selector of this mma is from 0 to %u", most);
        t->select = (u32)select;
    }
    if (t->scales) scale_operand(d, 4 + 2 * t->sparse, slots, &n), scale_operand(d, 6 + 2 * t->sparse, slots, &n);
    Insn *in = dec_emit(d, x_mma);
    in->extra = t;
    memcpy(dec_list(d, in, n), slots, n * sizeof *slots);
}

const InsnDef VARIANT(defs_mma)[] = {{"mma", decode_mma, EMU_CLASS_MMA}, {NULL, NULL, 0}};

// wmma: matrices of a whole warp, loaded, multiplied and stored without a word about which lane holds what. Here element e of a matrix
// (by rows) is in lane e / P, at place e % P of its P places; where a matrix has fewer than 32 P elements, the lanes that follow
// hold them again. A load, a product and a store agree on that, and so does what is done to all elements between them.
#include "emu/fragments.h"

typedef uint32_t u32;
typedef uint64_t u64;

enum { MAX_ELEMENTS = 1024 };

typedef struct Matrix {
    u32  rows, cols, regs, per_reg;
    Type type;
    bool by_columns;
} Matrix;

typedef struct Wmma {
    Matrix part[4];               // d, a, b, c
    bool   satfinite;
    int    popc;                  // b1: 1 xor, 2 and
} Wmma;

enum { PART_D, PART_A, PART_B, PART_C };

// What there is: shapes with the element types of a and b, and the registers of a and b.
static const struct Kind { uint8_t m, n; uint8_t k; Type type; uint8_t a, b; } kinds[] = {
    {16, 16, 16, T_f16, 8, 8},  {8, 32, 16, T_f16, 8, 8},  {32, 8, 16, T_f16, 8, 8},
    {16, 16, 16, T_bf16, 4, 4}, {8, 32, 16, T_bf16, 2, 8}, {32, 8, 16, T_bf16, 8, 2},
    {16, 16, 16, T_s8, 2, 2},   {8, 32, 16, T_s8, 1, 4},   {32, 8, 16, T_s8, 4, 1},
    {16, 16, 16, T_u8, 2, 2},   {8, 32, 16, T_u8, 1, 4},   {32, 8, 16, T_u8, 4, 1},
    {16, 16, 8, T_tf32, 4, 4},  {8, 8, 4, T_f64, 1, 1},
    {8, 8, 32, T_s4, 1, 1},     {8, 8, 32, T_u4, 1, 1},    {8, 8, 128, T_b1, 1, 1},
};

static u32 per_register(Type t) { return t == T_f64 ? 1 : 32 / ptx_type_bits(t); }

static u32 *word_of(const Warp *w, const uint32_t *list, const Matrix *x, u32 e, u32 *h) {
    u32 places = x->regs * x->per_reg, at = e % places;
    *h = at % x->per_reg;
    return &lane32(w, list[at / x->per_reg])[e / places];
}

static double value_of(const Warp *w, const uint32_t *list, const Matrix *x, u32 e) {
    u32 h;
    if (x->type == T_f64) return f64_from(lane64(w, list[e % x->regs])[e / x->regs]);
    u32 word = *word_of(w, list, x, e, &h);
    if (x->type == T_s32) return (double)(int32_t)word;
    return element_is_float(x->type) ? element_float(word, x->type, h) : (double)element_int(word, x->type, h);
}

// The raw bits of an element, in all lanes that hold it.
static void put(const Warp *w, const uint32_t *list, const Matrix *x, u32 e, u64 bits) {
    u32 elements = x->rows * x->cols, n = ptx_type_bits(x->type), h;
    for (; e < 32 * x->regs * x->per_reg; e += elements) {
        if (n == 64) {
            lane64(w, list[e % x->regs])[e / x->regs] = bits;
            continue;
        }
        u32 *word = word_of(w, list, x, e, &h), keep = n == 32 ? ~0u : ((1u << n) - 1) << h * n;
        *word = (*word & ~keep) | ((u32)bits << h * n & keep);
    }
}

static void x_mma(Warp *w, const Insn *in) {
    static _Thread_local double a[MAX_ELEMENTS], b[MAX_ELEMENTS], d[MAX_ELEMENTS];
    const Wmma *t = in->extra;
    const Matrix *ma = &t->part[PART_A], *mb = &t->part[PART_B], *mc = &t->part[PART_C], *md = &t->part[PART_D];
    if (!warp_converge(w, in, 0xffffffffu)) return;
    const uint32_t *as = in->list + md->regs, *bs = as + ma->regs, *cs = bs + mb->regs;
    u32 m = ma->rows, n = mb->cols, k = ma->cols;
    w->count.mma_flops += 2ull * m * n * k;
    for (u32 i = 0; i < m * k; i++) a[i] = value_of(w, as, ma, i);
    for (u32 i = 0; i < k * n; i++) b[i] = value_of(w, bs, mb, i);
    for (u32 i = 0; i < m * n; i++) {
        double sum = value_of(w, cs, mc, i);
        for (u32 x = 0; x < k; x++) {
            double p = a[i / n * k + x], q = b[x * n + i % n];
            sum += t->popc ? (double)(t->popc == 1 ? p != q : p + q > 1) : p * q;
        }
        d[i] = sum;
    }
    for (u32 i = 0; i < m * n; i++) {
        double v = d[i];
        if (md->type == T_s32) {
            int64_t s = (int64_t)v;
            put(w, in->list, md, i, (u32)(!t->satfinite ? s : s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s));
        } else if (md->type == T_f64) put(w, in->list, md, i, f64_bits(v));
        else if (md->type == T_f32) put(w, in->list, md, i, canonical((float)v));
        else {
            uint16_t h = f16_from_f64(v);
            if (t->satfinite && (h & 0x7fff) >= 0x7c00) h = v != v ? 0 : (uint16_t)((h & 0x8000) | 0x7bff);
            put(w, in->list, md, i, v != v && !t->satfinite ? 0x7fff : h);
        }
    }
}

// b: the leading dimension, or NO_SLOT
static void x_move(Warp *w, const Insn *in) {
    const Matrix *x = in->extra;
    if (!warp_converge(w, in, 0xffffffffu)) return;
    bool store = in->aux;
    int l = __builtin_ctz(w->active);
    u64 base = in->flags & ADDR32 ? (u32)(lane32(w, in->a)[l] + (u32)in->imm) : lane64(w, in->a)[l] + (u64)in->imm;
    u32 ld = in->b != NO_SLOT ? lane32(w, in->b)[l] : x->by_columns ? x->rows : x->cols, bits = ptx_type_bits(x->type);
    for (u32 e = 0; e < x->rows * x->cols; e++) {
        u32 row = e / x->cols, col = e % x->cols, size = bits < 8 ? 1 : bits / 8, h = 0;
        u64 at = ((u64)(x->by_columns ? col : row) * ld + (x->by_columns ? row : col)) * bits, v = 0;
        uint8_t *p = emu_memory_at(w, in, l, in->space, base + at / 8, size, store);
        if (!p) return;
        if (store) {
            if (bits == 64) v = lane64(w, in->list[e % x->regs])[e / x->regs];
            else {
                u32 word = *word_of(w, in->list, x, e, &h);
                v = (u64)word >> h * bits;
            }
            memcpy(p, &v, size);
        } else {
            memcpy(&v, p, size);
            put(w, in->list, x, e, bits < 8 ? v >> at % 8 : v);
        }
    }
}

// ---- Reading

static void shape(Dec *d, u32 *m, u32 *n, u32 *k) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%un%uk%u", kinds[i].m, kinds[i].n, kinds[i].k);
        if (!dec_mod(d, name)) continue;
        *m = kinds[i].m, *n = kinds[i].n, *k = kinds[i].k;
        return;
    }
    dec_error(d, "`wmma` of an unknown shape");
}

static Matrix matrix(Dec *d, u32 part, u32 m, u32 n, u32 k, Type t) {
    Matrix x = {.rows = part == PART_B ? k : m, .cols = part == PART_A ? k : n, .type = t, .per_reg = per_register(t)};
    if (part == PART_A || part == PART_B) {
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (kinds[i].m == m && kinds[i].n == n && kinds[i].k == k && kinds[i].type == t) x.regs = part == PART_A ? kinds[i].a : kinds[i].b;
    } else if (t == T_f16 || t == T_f32 || t == T_s32 || t == T_f64) x.regs = m * n / 32 / x.per_reg;
    if (!x.regs) dec_error(d, "`wmma` of m%un%uk%u has no .%s there", m, n, k, ptx_type_name(t));
    return x;
}

static void registers(Dec *d, u32 i, const Matrix *x, bool write, u32 *slots, u32 *n) {
    const Operand *o = dec_op(d, i), *items = o->kind == O_VEC ? o->items : o;
    u32 have = o->kind == O_VEC ? o->n : 1;
    Type t = sum_register(x->type);
    if (have != x->regs) dec_error(d, "operand %u has %u registers; this wmma has %u", i + 1, have, x->regs);
    for (u32 k = 0; k < have; k++) slots[(*n)++] = write ? dec_dst_op(d, &items[k], t) : dec_src_op(d, &items[k], t);
}

static bool by_columns(Dec *d) {
    bool row = dec_mod(d, "row"), col = dec_mod(d, "col");
    if (row && col) dec_error(d, "`wmma` with both .row and .col");
    if (!row && !col) dec_error(d, "`wmma` needs .row or .col");
    return col;
}

static void decode_move(Dec *d, bool store) {
    static const struct { const char *name; u32 part; } parts[] = {{"a", PART_A}, {"b", PART_B}, {"c", PART_C}, {"d", PART_D}};
    u32 part = 4, m, n, k, slots[8], count = 0;
    for (u32 i = store ? 3 : 0; i < (store ? 4u : 3u) && part == 4; i++)
        if (dec_mod(d, parts[i].name)) part = parts[i].part;
    if (part == 4) dec_error(d, "`wmma.%s` needs %s", store ? "store" : "load", store ? ".d" : ".a, .b or .c");
    dec_mod(d, "sync"), dec_mod(d, "aligned");
    bool columns = by_columns(d);
    shape(d, &m, &n, &k);
    uint8_t space = dec_space(d);
    Type t = dec_need_type(d);
    Matrix *x = dec_alloc(d, sizeof *x);
    *x = matrix(d, part, m, n, k, t);
    x->by_columns = columns;
    dec_count(d, 2, 3);
    Insn at = {0};
    dec_address(d, dec_op(d, store ? 0 : 1), &at, space);
    registers(d, store ? 1 : 0, x, !store, slots, &count);
    u32 ld = d->n_ops == 3 ? dec_src(d, 2, T_u32) : NO_SLOT;
    Insn *in = dec_emit(d, x_move);
    in->a = at.a, in->imm = at.imm, in->flags = at.flags, in->space = at.space;
    in->b = ld, in->aux = store, in->extra = x;
    in->cls = at.space == SPACE_SHARED || at.space == SPACE_CLUSTER ? EMU_CLASS_SHARED : EMU_CLASS_GLOBAL;
    memcpy(dec_list(d, in, count), slots, count * sizeof *slots);
}

static void decode_wmma(Dec *d) {
    if (dec_mod(d, "load")) { decode_move(d, false); return; }
    if (dec_mod(d, "store")) { decode_move(d, true); return; }
    if (!dec_mod(d, "mma")) dec_error(d, "`wmma` needs .load, .mma or .store");
    Wmma *t = dec_alloc(d, sizeof *t);
    u32 m, n, k, slots[32], count = 0;
    t->popc = dec_mod(d, "xor") ? 1 : dec_mod(d, "and") ? 2 : 0;
    bool popc = dec_mod(d, "popc");
    dec_mod(d, "sync"), dec_mod(d, "aligned");
    for (int i = 0; i < 2; i++)                          // of a and b as they were loaded: no matter here
        if (!dec_mod(d, "row") && !dec_mod(d, "col")) dec_error(d, "`wmma.mma` needs the layouts of a and b");
    shape(d, &m, &n, &k);
    dec_mod(d, "rn");
    t->satfinite = dec_mod(d, "satfinite");
    Type dt = dec_need_type(d), second = dec_need_type(d), third = dec_type(d);
    Type at = third ? second : T_f16, bt = third ? third : T_f16, ct = third ? dec_need_type(d) : second;
    if (at != bt) dec_error(d, "`wmma` of .%s and .%s", ptx_type_name(at), ptx_type_name(bt));
    bool integer = !element_is_float(at);
    if ((at == T_b1) != popc || (at == T_b1) != (t->popc != 0)) dec_error(d, "`wmma` of .b1 needs .xor.popc or .and.popc");
    if ((dt == T_s32) != integer || (ct == T_s32) != integer || (dt == T_f64) != (at == T_f64) || (ct == T_f64) != (at == T_f64) ||
        ((dt == T_f16 || ct == T_f16) && at != T_f16))
        dec_error(d, "`wmma` of .%s to .%s and .%s", ptx_type_name(at), ptx_type_name(dt), ptx_type_name(ct));
    const Type types[] = {dt, at, bt, ct};
    dec_count(d, 4, 4);
    for (u32 i = 0; i < 4; i++) {
        t->part[i] = matrix(d, i, m, n, k, types[i]);
        registers(d, i, &t->part[i], i == PART_D, slots, &count);
    }
    Insn *in = dec_emit(d, x_mma);
    in->extra = t;
    memcpy(dec_list(d, in, count), slots, count * sizeof *slots);
}

const InsnDef VARIANT(defs_wmma)[] = {{"wmma", decode_wmma, EMU_CLASS_MMA}, {NULL, NULL, 0}};

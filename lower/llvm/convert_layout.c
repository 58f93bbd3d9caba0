// Layout changes: within a lane by renaming registers, otherwise through shared memory.
//
// The tile is written in the source's layout and read in the target's, as a row-major array whose rows
// run along the axis in which the target holds vectors, each row 16 bytes longer than it need be so that
// rows start in different banks. Both sides move the widest vectors their layouts have.
//
// Where the source has its vectors along another axis (a transpose), rows begin one behind the other, and their 16-byte
// chunks change places: chunk ^ phase, where the phase is made of the bits of the other axes by which the lanes of a
// warp of the source differ. Lanes that write the same chunk of eight rows so write eight, and lanes that read a row
// read all of it. What a lane has side by side along the row is gathered from registers and leaves as one vector:
//
//     bf16, [m, n], loaded along n, stored along m             a lane: n + 0 .. 7 of m + 0 .. 3
//       row n:  chunk (m / 8) ^ (n / 8 % 8)                    writes 8 bytes, m + 0 .. 3, in each of 8 rows; reads 16
//
// Rows of another length than 64, 128, .. bytes are padded by one word instead: then the scattered stores of eight
// lanes fall into different banks, and reading word by word is free of conflicts too.
#include "lower/llvm/gen.h"

#include <string.h>

static bool same_lanes(const Layout *a, const Layout *b) {
    return a->naxes == b->naxes && a->nwarp == b->nwarp && !memcmp(a->bits, b->bits, a->naxes) &&
           !memcmp(a->lane, b->lane, sizeof a->lane) && !memcmp(a->warp, b->warp, sizeof *a->warp * a->nwarp);
}

// For each register of o the one of x that holds the same element in the same lane; NULL: some are elsewhere.
static int *by_registers(Gen *g, const Val *x, const Val *o) {
    int nx = layout_regs(x->layout), no = layout_regs(o->layout), *from = NEW_N(g->arena, int, no);
    if (!same_lanes(x->layout, o->layout)) return NULL;
    for (int r = 0; r < no; r++) {
        int64_t want[MAX_AXES], have[MAX_AXES];
        from[r] = -1;
        layout_coord(o->layout, r, 0, 0, want);
        for (int q = 0; q < nx && from[r] < 0; q++) {
            layout_coord(x->layout, q, 0, 0, have);
            if (!memcmp(want, have, sizeof *want * x->type.rank)) from[r] = q;
        }
        if (from[r] < 0) return NULL;
    }
    return from;
}

enum { CHUNK = 16, LEAST_ROW = 64, MAX_PHASE = 3, BANKS = 128 };      // bytes

// row-major, in elements; unit: bytes that rows are aligned to; phase: bits of coordinates that a chunk's number is changed by, from its lowest bit on
typedef struct Mem {
    int fast, unit, nphase;
    struct { int axis, bit; } phase[MAX_PHASE];
    int64_t stride[MAX_AXES], elems;
} Mem;

// The lanes of the source tell the rows apart that they write at once.
static void find_phase(const Val *x, const Layout *to, int size, Mem *m) {
    const Layout *l = x->layout;
    int64_t row = layout_span(to, m->fast) * size;
    if (row < LEAST_ROW || row & (row - 1) || size > CHUNK) return;
    for (int i = 0; i < x->type.rank; i++) {
        int64_t n = layout_span(to, i);
        if (n != layout_span(l, i) || n & (n - 1)) return;
    }
    int64_t chunks = (row < BANKS ? row : BANKS) / CHUNK;
    for (int i = 0; i < LANE_BITS && 1 << m->nphase < chunks; i++)
        for (int axis = 0; axis < x->type.rank; axis++)
            for (int b = 0; b < l->bits[axis] && axis != m->fast; b++)
                if (l->lane[i] == (uint32_t)1 << (l->off[axis] + b) && 1 << m->nphase < chunks) {
                    m->phase[m->nphase].axis = axis;
                    m->phase[m->nphase++].bit = b;
                }
}

static Mem arrange(const Val *x, const Layout *to, int size) {
    Mem m = {0};
    int best = -1;
    for (int i = 0; i < x->type.rank; i++) if (layout_vec(to, i) > best) { best = layout_vec(to, i); m.fast = i; }
    if (best == 1) for (int i = 0; i < x->type.rank; i++) if (to->lane[0] == (uint32_t)1 << to->off[i]) m.fast = i;
    bool turned = layout_vec(x->layout, m.fast) == 1 && size < CHUNK;
    if (turned) find_phase(x, to, size, &m);
    m.unit = turned && !m.nphase ? size < 4 ? 4 : size : CHUNK;
    int64_t at = 1;
    for (int k = 0; k < x->type.rank; k++) {
        int i = k == 0 ? m.fast : k <= m.fast ? k - 1 : k;
        int64_t a = layout_span(x->layout, i), b = layout_span(to, i);
        m.stride[i] = at;
        at *= a > b ? a : b;
        if (k == 0 && x->type.rank > 1 && !m.nphase) at += m.unit / size > 0 ? m.unit / size : 1;
    }
    m.elems = at;
    return m;
}

// Bytes of this lane's part of the coordinates; past `limit` on an axis (0: none), those of coordinate 0 there.
static LLVMValueRef lane_offset(Gen *g, const Layout *l, const Mem *m, int rank, int size, const int64_t *limit) {
    LLVMValueRef sum = NULL;
    for (int i = 0; i < rank; i++) {
        LLVMValueRef c = gen_lane_coord(g, l, i);
        if (limit[i])
            c = LLVMBuildSelect(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, c, gen_i32(g, limit[i]), ""), c, gen_i32(g, 0),
                                "");
        c = LLVMBuildMul(g->B, c, gen_i32(g, m->stride[i] * size), "");
        sum = sum ? LLVMBuildAdd(g->B, sum, c, "") : c;
    }
    for (int i = 0; i < m->nphase; i++) {                             // runs of bits of one axis at once
        int n = 1, bit = m->phase[i].bit, axis = m->phase[i].axis;
        while (i + n < m->nphase && m->phase[i + n].axis == axis && m->phase[i + n].bit == bit + n) n++;
        LLVMValueRef c = LLVMBuildAnd(g->B, LLVMBuildLShr(g->B, gen_lane_coord(g, l, axis), gen_i32(g, bit), ""), gen_i32(g, (1 << n) - 1), "");
        sum = LLVMBuildXor(g->B, sum, LLVMBuildMul(g->B, c, gen_i32(g, CHUNK << i), ""), "");
        i += n - 1;
    }
    return sum ? sum : gen_i32(g, 0);
}

// The greatest coordinate on an axis that a lane of a warp adds to that of its registers.
static int64_t lane_reach(const Layout *l, int pos) {
    uint32_t all = 0;
    for (int i = 0; i < LANE_BITS; i++) all |= l->lane[i];
    for (int i = 0; i < l->nwarp; i++) all |= l->warp[i];
    return all >> l->off[pos] & ((1u << l->bits[pos]) - 1);
}

// Where the target reaches past what the source wrote (96 as 128, all dead there): lane coordinates that register r
// must not pass, or false if none of its lanes has anything to read.
static bool written_part(const Val *x, const Layout *to, int r, int64_t *limit) {
    int64_t c[MAX_AXES];
    layout_coord(to, r, 0, 0, c);
    for (int i = 0; i < x->type.rank; i++) {
        int64_t have = layout_span(x->layout, i);
        limit[i] = 0;
        if (layout_span(to, i) <= have) continue;
        if (c[i] >= have) return false;
        if (c[i] + lane_reach(to, i) >= have) limit[i] = have - c[i];
    }
    return true;
}

// Where register r is from where the lane is: bytes, and, as the chunks' places change, bits of them that differ.
static int64_t reg_offset(const Layout *l, const Mem *m, int rank, int size, int r, int64_t *differ) {
    int64_t c[MAX_AXES], at = 0;
    layout_coord(l, r, 0, 0, c);
    *differ = 0;
    for (int i = 0; i < rank; i++) at += c[i] * m->stride[i] * size;
    for (int i = 0; i < m->nphase; i++) *differ ^= (c[m->phase[i].axis] >> m->phase[i].bit & 1) * (CHUNK << i);
    if (m->nphase) {                                                  // coordinates of registers and of lanes have no bit in common
        int64_t inside = at & (CHUNK * (1 << m->nphase) - 1) & -CHUNK;
        at -= inside;
        *differ ^= inside;
    }
    return at;
}

static LLVMValueRef bytes_of(Gen *g, LLVMValueRef x, Elem e) {
    if (e == EL_bool) return LLVMBuildZExt(g->B, x, g->i8, "");
    if (e == EL_f32) return LLVMBuildBitCast(g->B, x, g->i32, "");
    if (e == EL_f64) return LLVMBuildBitCast(g->B, x, g->i64, "");
    return x;
}
static LLVMValueRef of_bytes(Gen *g, LLVMValueRef x, Elem e) {
    if (e == EL_bool) return LLVMBuildTrunc(g->B, x, g->i1, "");
    if (e == EL_f32) return LLVMBuildBitCast(g->B, x, g->f32, "");
    if (e == EL_f64) return LLVMBuildBitCast(g->B, x, g->f64, "");
    return x;
}

// A number that either side keeps in 32 bits fits in them: so it crosses.
static int size_of(Gen *g, const Val *x, const Val *o) { return gen_is32(g, x) || gen_is32(g, o) ? 4 : elem_bytes((Elem)x->type.elem); }

static LLVMValueRef fitted(Gen *g, LLVMValueRef x, Elem e, bool narrow) {
    LLVMTypeRef t = narrow ? g->i32 : g->i64;
    if (e != EL_index || LLVMTypeOf(x) == t) return x;
    return narrow ? LLVMBuildTrunc(g->B, x, t, "") : LLVMBuildSExt(g->B, x, t, "");
}

uint32_t convert_room(Gen *g, const Op *op) {
    const Val *x = op->in[0];
    if (by_registers(g, x, op->out[0])) return 0;
    int size = size_of(g, x, op->out[0]);
    return (uint32_t)(arrange(x, op->out[0]->layout, size).elems * size);
}

// A tile on its way through shared memory: how it lies there, from where on, and what an element is there.
typedef struct Way { const Val *x, *o; Elem e; int size; Mem m; LLVMTypeRef unit; LLVMValueRef area; } Way;

// Elements that are stored and loaded as words that hold several of them.
static bool in_words(const Way *w, int v) { return w->size < 4 && v * w->size >= 4 && w->e != EL_bool; }

static LLVMValueRef place(Gen *g, const Way *w, const Layout *l, LLVMValueRef at, int r) {
    int64_t differ, more = reg_offset(l, &w->m, w->x->type.rank, w->size, r, &differ);
    if (differ) at = LLVMBuildXor(g->B, at, gen_i32(g, differ), "");
    return gen_smem(g, LLVMBuildAdd(g->B, LLVMBuildAdd(g->B, at, w->area, ""), gen_i32(g, more), ""));
}

// A word of small elements: as it is, where one register after the other holds them; else joined, two elements at a time.
static LLVMValueRef word_of(Gen *g, const Val *x, int r, const int *reg, int n) {
    bool near = true;
    for (int i = 1; i < n; i++) near &= reg[i] == reg[0] + i;
    if (near) return gen_word(g, x, r + reg[0], n);
    LLVMTypeRef one = LLVMIntTypeInContext(g->C, 32u / (unsigned)n);
    LLVMValueRef p = LLVMGetUndef(LLVMVectorType(one, (unsigned)n));
    for (int i = 0; i < n; i++) p = LLVMBuildInsertElement(g->B, p, LLVMBuildBitCast(g->B, gen_get(g, x, r + reg[i]), one, ""), gen_i32(g, i), "");
    return LLVMBuildBitCast(g->B, p, g->i32, "");
}

// Elements of the source, v of them, from register r on, as one value in memory.
static LLVMValueRef packed(Gen *g, const Way *w, int r, const int *reg, int v) {
    const Val *x = w->x;
    int bytes = v * w->size, per = 4 / w->size;
    if (in_words(w, v)) {
        LLVMTypeRef vt = LLVMVectorType(g->i32, (unsigned)(bytes / 4));
        LLVMValueRef p = bytes == 4 ? word_of(g, x, r, reg, v) : LLVMGetUndef(vt);
        for (int i = 0; i < v && bytes > 4; i += per) p = LLVMBuildInsertElement(g->B, p, word_of(g, x, r, reg + i, per), gen_i32(g, i / per), "");
        return p;
    }
    if (v == 1) return bytes_of(g, fitted(g, gen_get(g, x, r), w->e, w->size == 4), w->e);
    LLVMValueRef p = LLVMGetUndef(LLVMVectorType(w->unit, (unsigned)v));
    for (int i = 0; i < v; i++) p = LLVMBuildInsertElement(g->B, p, bytes_of(g, fitted(g, gen_get(g, x, r + reg[i]), w->e, w->size == 4), w->e), gen_i32(g, i), "");
    return p;
}

// Elements of the result, v of them, from register r on, which are one after the other, from their place.
static void unpack(Gen *g, const Way *w, int r, int v, LLVMValueRef from) {
    const Val *o = w->o;
    int bytes = v * w->size;
    bool words = in_words(w, v);
    LLVMTypeRef one = words ? g->i32 : w->unit;
    int many = words ? bytes / 4 : v;
    LLVMValueRef p = LLVMBuildLoad2(g->B, many > 1 ? LLVMVectorType(one, (unsigned)many) : one, from, "");
    LLVMSetAlignment(p, (unsigned)bytes);
    if (words && bytes == 4) gen_set_word(g, o, r, v, p);
    for (int i = 0; words && i < v && bytes > 4; i += 4 / w->size)
        gen_set_word(g, o, r + i, 4 / w->size, LLVMBuildExtractElement(g->B, p, gen_i32(g, i * w->size / 4), ""));
    for (int i = 0; !words && i < v; i++)
        gen_set(g, o, r + i, fitted(g, of_bytes(g, v > 1 ? LLVMBuildExtractElement(g->B, p, gen_i32(g, i), "") : p, w->e), w->e, gen_is32(g, o)));
}

// Only who owns an element puts it there.
static void put(Gen *g, const Way *w) {
    const Layout *l = w->x->layout;
    LLVMValueRef owner = gen_owner(g, l);
    LLVMBasicBlockRef write = NULL, go = NULL;
    if (owner) {
        write = gen_block(g, "put"); go = gen_block(g, "got");
        LLVMBuildCondBr(g->B, owner, write, go);
        LLVMPositionBuilderAtEnd(g->B, write);
    }
    int n = layout_regs(l), reg[MAX_RUN], v = layout_run(l, w->m.fast, w->m.unit > w->size ? w->m.unit / w->size : 1, reg);
    int64_t limit[MAX_AXES] = {0};
    LLVMValueRef at = lane_offset(g, l, &w->m, w->x->type.rank, w->size, limit);
    for (int r = 0; r < n; r++) {
        if (r & reg[v - 1]) continue;                                 // not the first of its run
        LLVMSetAlignment(LLVMBuildStore(g->B, packed(g, w, r, reg, v), place(g, w, l, at, r)), (unsigned)(v * w->size));
    }
    if (owner) { LLVMBuildBr(g->B, go); LLVMPositionBuilderAtEnd(g->B, go); }
}

static void take(Gen *g, const Way *w) {
    const Layout *l = w->o->layout, *from = w->x->layout;
    int n = layout_regs(l), v = layout_vec(l, w->m.fast);
    int64_t limit[MAX_AXES];
    while (v > 1 && v * w->size > w->m.unit) v /= 2;
    while (v > 1 && layout_span(l, w->m.fast) > layout_span(from, w->m.fast) && layout_span(from, w->m.fast) % v) v /= 2;
    for (int r = 0; r < n; r += v) {
        if (!written_part(w->x, l, r, limit)) {
            for (int i = 0; i < v; i++) gen_set(g, w->o, r + i, fitted(g, of_bytes(g, LLVMConstNull(w->unit), w->e), w->e, gen_is32(g, w->o)));
            continue;
        }
        LLVMValueRef at = lane_offset(g, l, &w->m, w->x->type.rank, w->size, limit);
        unpack(g, w, r, v, place(g, w, l, at, r));
    }
}

void emit_convert(Gen *g, Op *op) {
    const Val *x = op->in[0], *o = op->out[0];
    int *from = by_registers(g, x, o), size = size_of(g, x, o);
    if (from) {
        for (int r = 0, n = layout_regs(o->layout); r < n; r++) gen_set(g, o, r, fitted(g, gen_get(g, x, from[r]), (Elem)x->type.elem, gen_is32(g, o)));
        return;
    }
    Elem e = (Elem)x->type.elem;
    Way w = {.x = x, .o = o, .e = e, .size = size, .m = arrange(x, o->layout, size)};
    w.unit = e == EL_bool ? g->i8 : LLVMIntTypeInContext(g->C, (unsigned)size * 8);
    w.area = gen_scratch(g, (uint32_t)(w.m.elems * size));
    gen_barrier(g);
    put(g, &w);
    gen_barrier(g);
    take(g, &w);
}

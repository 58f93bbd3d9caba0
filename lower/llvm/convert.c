// Layout changes: within a lane by renaming registers, otherwise through shared memory.
//
// The tile is written in the source's layout and read in the target's, as a row-major array whose rows
// run along the axis in which the target holds vectors, each row 16 bytes longer than it need be so that
// rows start in different banks. Both sides move the widest vectors their layouts have. Where the source
// has no vectors along those rows (a transpose), rows are padded by one word only: then the scattered
// stores of eight lanes fall into different banks, and reading word by word is free of conflicts too.
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

// row-major, in elements; unit: bytes that rows are aligned to
typedef struct Mem { int fast; int unit; int64_t stride[MAX_AXES]; int64_t elems; } Mem;

static Mem arrange(const Val *x, const Layout *to, int size) {
    Mem m = {0};
    int best = -1;
    for (int i = 0; i < x->type.rank; i++) if (layout_vec(to, i) > best) { best = layout_vec(to, i); m.fast = i; }
    if (best == 1) for (int i = 0; i < x->type.rank; i++) if (to->lane[0] == (uint32_t)1 << to->off[i]) m.fast = i;
    m.unit = layout_vec(x->layout, m.fast) == 1 && size < 16 ? size < 4 ? 4 : size : 16;
    int64_t at = 1;
    for (int k = 0; k < x->type.rank; k++) {
        int i = k == 0 ? m.fast : k <= m.fast ? k - 1 : k;
        int64_t a = layout_span(x->layout, i), b = layout_span(to, i);
        m.stride[i] = at;
        at *= a > b ? a : b;
        if (k == 0 && x->type.rank > 1) at += m.unit / size > 0 ? m.unit / size : 1;
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

static int64_t reg_offset(const Layout *l, const Mem *m, int rank, int size, int r) {
    int64_t c[MAX_AXES], at = 0;
    layout_coord(l, r, 0, 0, c);
    for (int i = 0; i < rank; i++) at += c[i] * m->stride[i] * size;
    return at;
}

static int run(const Layout *l, const Mem *m, int size) {
    int v = layout_vec(l, m->fast);
    while (v > 1 && v * size > m->unit) v /= 2;
    return v;
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

static int size_of(Gen *g, const Val *x) { return gen_is32(g, x) ? 4 : elem_bytes((Elem)x->type.elem); }

uint32_t convert_room(Gen *g, const Op *op) {
    const Val *x = op->in[0];
    if (by_registers(g, x, op->out[0])) return 0;
    int size = size_of(g, x);
    return (uint32_t)(arrange(x, op->out[0]->layout, size).elems * size);
}

void emit_convert(Gen *g, Op *op) {
    Val *x = op->in[0], *o = op->out[0];
    Elem e = (Elem)x->type.elem;
    int rank = x->type.rank;
    int *from = by_registers(g, x, o), size = size_of(g, x);
    if (from) {
        for (int r = 0, n = layout_regs(o->layout); r < n; r++) gen_set(g, o, r, gen_get(g, x, from[r]));
        return;
    }
    Mem m = arrange(x, o->layout, size);
    LLVMTypeRef unit = e == EL_bool ? g->i8 : LLVMIntTypeInContext(g->C, (unsigned)size * 8);
    LLVMValueRef area = gen_scratch(g, (uint32_t)(m.elems * size));
    gen_barrier(g);
    LLVMValueRef owner = gen_owner(g, x->layout);
    LLVMBasicBlockRef write = NULL, go = NULL;
    if (owner) {
        write = gen_block(g, "put"); go = gen_block(g, "got");
        LLVMBuildCondBr(g->B, owner, write, go);
        LLVMPositionBuilderAtEnd(g->B, write);
    }
    int n = layout_regs(x->layout), v = run(x->layout, &m, size);
    int64_t limit[MAX_AXES] = {0};
    LLVMValueRef at = LLVMBuildAdd(g->B, lane_offset(g, x->layout, &m, rank, size, limit), area, "");
    for (int r = 0; r < n; r += v) {
        LLVMValueRef p = gen_smem(g, LLVMBuildAdd(g->B, at, gen_i32(g, reg_offset(x->layout, &m, rank, size, r)), ""));
        LLVMValueRef st;
        if (size < 4 && v * size >= 4 && e != EL_bool) {
            LLVMTypeRef vt = LLVMVectorType(g->i32, (unsigned)(v * size / 4));
            LLVMValueRef w = v * size == 4 ? gen_word(g, x, r, v) : LLVMGetUndef(vt);
            for (int i = 0; i < v && v * size > 4; i += 4 / size)
                w = LLVMBuildInsertElement(g->B, w, gen_word(g, x, r + i, 4 / size), gen_i32(g, i * size / 4), "");
            st = LLVMBuildStore(g->B, w, p);
        } else if (v > 1) {
            LLVMValueRef w = LLVMGetUndef(LLVMVectorType(unit, (unsigned)v));
            for (int i = 0; i < v; i++)
                w = LLVMBuildInsertElement(g->B, w, bytes_of(g, gen_get(g, x, r + i), e), gen_i32(g, i), "");
            st = LLVMBuildStore(g->B, w, p);
        } else {
            st = LLVMBuildStore(g->B, bytes_of(g, gen_get(g, x, r), e), p);
        }
        LLVMSetAlignment(st, (unsigned)(v * size));
    }
    if (owner) { LLVMBuildBr(g->B, go); LLVMPositionBuilderAtEnd(g->B, go); }
    gen_barrier(g);
    n = layout_regs(o->layout);
    v = run(o->layout, &m, size);
    while (v > 1 && layout_span(o->layout, m.fast) > layout_span(x->layout, m.fast) &&
           layout_span(x->layout, m.fast) % v)
        v /= 2;
    for (int r = 0; r < n; r += v) {
        if (!written_part(x, o->layout, r, limit)) {
            for (int i = 0; i < v; i++) gen_set(g, o, r + i, of_bytes(g, LLVMConstNull(unit), e));
            continue;
        }
        at = LLVMBuildAdd(g->B, lane_offset(g, o->layout, &m, rank, size, limit), area, "");
        LLVMValueRef p = gen_smem(g, LLVMBuildAdd(g->B, at, gen_i32(g, reg_offset(o->layout, &m, rank, size, r)), ""));
        if (size < 4 && v * size >= 4 && e != EL_bool) {
            LLVMValueRef w = LLVMBuildLoad2(
                g->B, v * size == 4 ? g->i32 : LLVMVectorType(g->i32, (unsigned)(v * size / 4)), p, "");
            LLVMSetAlignment(w, (unsigned)(v * size));
            if (v * size == 4) gen_set_word(g, o, r, v, w);
            for (int i = 0; i < v && v * size > 4; i += 4 / size)
                gen_set_word(g, o, r + i, 4 / size, LLVMBuildExtractElement(g->B, w, gen_i32(g, i * size / 4), ""));
        } else {
            LLVMValueRef w = LLVMBuildLoad2(g->B, v > 1 ? LLVMVectorType(unit, (unsigned)v) : unit, p, "");
            LLVMSetAlignment(w, (unsigned)(v * size));
            for (int i = 0; i < v; i++)
                gen_set(g, o, r + i, of_bytes(g, v > 1 ? LLVMBuildExtractElement(g->B, w, gen_i32(g, i), "") : w, e));
        }
    }
}

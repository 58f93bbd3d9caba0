// Tiles in shared memory (smem_tiles.c), as the code generator reads and writes them.
//
// Addresses split into a lane's part, which is computed once, and a register's, which is a constant: bits of the two
// never overlap within an axis, so the constant is added to the row part and XORed into the chunk part. There are at
// most eight different XORs, hence eight pointers, and the rest is the instruction's immediate.
#include "lower/llvm/smem_tiles.h"
#include "lower/layout/mma.h"

#include <string.h>

// ---- addresses -----------------------------------------------------------------------------------

static LLVMValueRef scaled(Gen *g, LLVMValueRef x, int64_t k) {
    return k == 1 ? x : LLVMBuildMul(g->B, x, gen_i32(g, k), "");
}
static LLVMValueRef plus(Gen *g, LLVMValueRef a, LLVMValueRef b) { return !a ? b : !b ? a : LLVMBuildAdd(g->B, a, b, ""); }

static int log2_of(int64_t n) { return __builtin_ctzll((unsigned long long)n); }

static LLVMValueRef lane_phase(Gen *g, const Shared *s, LLVMValueRef r) {
    int down = 7 - log2_of(s->span);                      // r * span >> 7
    LLVMValueRef x = down ? LLVMBuildLShr(g->B, r, gen_i32(g, down), "") : r;
    x = LLVMBuildAnd(g->B, x, gen_i32(g, s->span / 16 - 1), "");
    return LLVMBuildShl(g->B, x, gen_i32(g, 4), "");
}

void shared_open(Gen *g, SharedAt *at, const Shared *s, LLVMValueRef const *lane) {
    LLVMValueRef r = NULL, x = lane[s->rank - 1] ? scaled(g, lane[s->rank - 1], s->size) : NULL;
    memset(at, 0, sizeof *at);
    at->g = g;
    at->s = s;
    for (int d = 0; d < s->rank - 1; d++) if (lane[d]) r = plus(g, r, scaled(g, lane[d], s->step[d]));
    at->row = s->base;
    if (r) at->row = plus(g, at->row, scaled(g, r, s->pitch));
    if (!s->span) { at->row = plus(g, at->row, x); return; }
    int64_t row_bytes = shared_row_bytes(s);
    if (x && row_bytes > s->span) {
        LLVMValueRef piece = LLVMBuildLShr(g->B, x, gen_i32(g, log2_of(s->span)), "");
        at->row = plus(g, at->row, scaled(g, piece, s->rows * s->span));
        x = LLVMBuildAnd(g->B, x, gen_i32(g, s->span - 1), "");
    }
    at->low = x;
    if (r) at->low = x ? LLVMBuildXor(g->B, x, lane_phase(g, s, r), "") : lane_phase(g, s, r);
}

LLVMValueRef shared_ptr(SharedAt *at, const int64_t *coord) {
    Gen *g = at->g;
    const Shared *s = at->s;
    int64_t r = 0, x = coord[s->rank - 1] * s->size, flip = 0, offset;
    for (int d = 0; d < s->rank - 1; d++) r += coord[d] * s->step[d];
    offset = r * s->pitch;
    if (s->span) {
        flip = (x & (s->span - 1)) ^ shared_phase(s, r);
        offset += (x >> log2_of(s->span)) * s->rows * s->span;
        offset += flip & 15;                              // within a chunk nothing is permuted
        flip &= ~(int64_t)15;
    } else {
        offset += x;
    }
    LLVMValueRef *p = &at->known[flip >> 4];
    if (!*p) {
        LLVMValueRef low = at->low, byte = at->row;
        if (low && flip) low = LLVMBuildXor(g->B, low, gen_i32(g, flip), "");
        byte = plus(g, byte, low ? low : flip ? gen_i32(g, flip) : NULL);
        *p = (s->ring ? gen_ring : gen_smem)(g, byte);
    }
    if (!offset) return *p;
    LLVMValueRef by = gen_i32(g, offset);
    return LLVMBuildGEP2(g->B, g->i8, *p, &by, 1, "");
}

// ---- registers <-> shared memory -----------------------------------------------------------------

static LLVMValueRef unit_of(Gen *g, LLVMValueRef x, Elem e) {
    switch (e) {
    case EL_bool: return LLVMBuildZExt(g->B, x, g->i8, "");
    case EL_f32:  return LLVMBuildBitCast(g->B, x, g->i32, "");
    case EL_f64:  return LLVMBuildBitCast(g->B, x, g->i64, "");
    default:      return x;
    }
}
static LLVMValueRef element_of(Gen *g, LLVMValueRef x, Elem e) {
    switch (e) {
    case EL_bool: return LLVMBuildTrunc(g->B, x, g->i1, "");
    case EL_f32:  return LLVMBuildBitCast(g->B, x, g->f32, "");
    case EL_f64:  return LLVMBuildBitCast(g->B, x, g->f64, "");
    default:      return x;
    }
}

static LLVMValueRef as_elem(Gen *g, LLVMValueRef x, Elem from, Elem to) {
    if (from != to && elem_is_storage(from)) x = gen_to_f32(g, x, from);
    return from == to ? x : gen_from_f32(g, x, to);
}

typedef struct Walk {             // a tile's registers over a Shared
    const Layout *l;
    int     pos[MAX_AXES];        // type position of each dimension; -1: the tile is one row of it
    int64_t row;
    int     rank;
    int     per[MAX_AXES];        // lanes of an element
    int     vec, same;            // elements that are adjacent in memory, each of so many registers in a row
    bool    guard[MAX_AXES];      // the layout goes past the dimension's end
    LLVMValueRef lane[MAX_AXES];
    SharedAt at;
} Walk;

static void start(Gen *g, Walk *w, const Shared *s, const Val *v, int size) {
    memset(w, 0, sizeof *w);
    w->l = v->layout;
    w->rank = s->rank;
    w->row = s->row;
    for (int d = 0; d < s->rank; d++) {
        w->pos[d] = s->axis[d] ? type_axis(&v->type, s->axis[d]) : -1;
        if (w->pos[d] < 0) { w->per[d] = 1; continue; }
        w->lane[d] = gen_lane_coord(g, w->l, w->pos[d]);
        w->per[d] = s->per[d] > 1 ? s->per[d] : 1;
        w->guard[d] = layout_span(w->l, w->pos[d]) > s->extent[d] * w->per[d];
        if (w->per[d] > 1) w->lane[d] = LLVMBuildLShr(g->B, w->lane[d], gen_i32(g, log2_of(w->per[d])), "");
    }
    w->vec = layout_vec(w->l, w->pos[s->rank - 1]);
    w->same = w->vec < w->per[s->rank - 1] ? w->vec : w->per[s->rank - 1];
    w->vec /= w->same;
    while (w->vec * size > 16 || s->extent[s->rank - 1] % w->vec) w->vec /= 2;
    shared_open(g, &w->at, s, w->lane);
}

static void coords(const Walk *w, int reg, int64_t *c) {
    int64_t all[MAX_AXES];
    layout_coord(w->l, reg, 0, 0, all);
    for (int d = 0; d < w->rank; d++) c[d] = w->pos[d] < 0 ? w->row : all[w->pos[d]] / w->per[d];
}

static int64_t widest_lane(const Layout *l, int pos) {          // largest coordinate that lane and warp add
    uint32_t m = 0, mask = (uint32_t)((((uint64_t)1 << l->bits[pos]) - 1) << l->off[pos]);
    for (int i = 0; i < LANE_BITS; i++) m |= l->lane[i] & mask;
    for (int i = 0; i < l->nwarp; i++)  m |= l->warp[i] & mask;
    return m >> l->off[pos];
}

// Inside the first n coordinates of a dimension; NULL: surely. The first register of a vector decides.
static LLVMValueRef inside(Gen *g, const Walk *w, int d, int64_t coord, int64_t n) {
    if (coord + widest_lane(w->l, w->pos[d]) < n) return NULL;
    return LLVMBuildICmp(g->B, LLVMIntSLT, LLVMBuildAdd(g->B, w->lane[d], gen_i32(g, coord), ""), gen_i32(g, n), "");
}


static LLVMValueRef guarded(Gen *g, const Walk *w, const Shared *s, const int64_t *c) {
    LLVMValueRef p = NULL;
    for (int d = 0; d < w->rank; d++) if (w->guard[d]) p = gen_both(g, p, inside(g, w, d, c[d], s->extent[d]));
    return p;
}

static LLVMBasicBlockRef begin_if(Gen *g, LLVMValueRef p) {
    if (!p) return NULL;
    LLVMBasicBlockRef yes = gen_block(g, "put"), go = gen_block(g, "got");
    LLVMBuildCondBr(g->B, p, yes, go);
    LLVMPositionBuilderAtEnd(g->B, yes);
    return go;
}
static void end_if(Gen *g, LLVMBasicBlockRef go) {
    if (!go) return;
    LLVMBuildBr(g->B, go);
    LLVMPositionBuilderAtEnd(g->B, go);
}

static void store_at(Gen *g, LLVMValueRef x, LLVMValueRef p, int align) {
    LLVMSetAlignment(LLVMBuildStore(g->B, x, p), (unsigned)align);
}

// 16 bytes of zero a lane and turn, over the whole area, and a barrier.
static void clear(Gen *g, const Shared *s) {
    int64_t bytes = shared_bytes(s), threads = g->f->warps * 32;
    LLVMValueRef id = g->one_warp ? g->lane
                                  : LLVMBuildAdd(g->B, LLVMBuildMul(g->B, g->warp, gen_i32(g, 32), ""), g->lane, "");
    LLVMTypeRef vt = LLVMVectorType(g->i32, 4);
    for (int64_t at = 0; at < bytes; at += threads * 16) {
        LLVMValueRef mine = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, id, gen_i32(g, 16), ""), gen_i32(g, at), "");
        LLVMValueRef p = at + threads * 16 <= bytes ? NULL : LLVMBuildICmp(g->B, LLVMIntULT, mine, gen_i32(g, bytes), "");
        LLVMBasicBlockRef go = begin_if(g, p);
        store_at(g, LLVMConstNull(vt), gen_smem(g, LLVMBuildAdd(g->B, s->base, mine, "")), 16);
        end_if(g, go);
    }
    gen_barrier(g);
}

static LLVMValueRef packed(Gen *g, const Val *v, int reg, int n, int size) {      // n adjacent registers as one value
    if (size < 4) {
        int per = 4 / size;
        if (n == 1) return gen_get(g, v, reg);
        if (n < per) return LLVMBuildTrunc(g->B, gen_word(g, v, reg, n), g->i16, "");
        if (n == per) return gen_word(g, v, reg, n);
        LLVMValueRef w = LLVMGetUndef(LLVMVectorType(g->i32, (unsigned)(n / per)));
        for (int i = 0; i < n; i += per)
            w = LLVMBuildInsertElement(g->B, w, gen_word(g, v, reg + i, per), gen_i32(g, i / per), "");
        return w;
    }
    Elem e = (Elem)v->type.elem;
    LLVMValueRef first = unit_of(g, gen_get(g, v, reg), e);
    if (n == 1) return first;
    LLVMValueRef w = LLVMGetUndef(LLVMVectorType(LLVMTypeOf(first), (unsigned)n));
    for (int i = 0; i < n; i++)
        w = LLVMBuildInsertElement(g->B, w, i ? unit_of(g, gen_get(g, v, reg + i), e) : first, gen_i32(g, i), "");
    return w;
}

void shared_put(Gen *g, const Shared *s, const Val *v, int nzero, Val *const *zero) {
    Elem e = (Elem)v->type.elem;
    Walk w;
    bool masked[MAX_AXES] = {false}, any = false, uncovered = false;
    start(g, &w, s, v, s->size);
    for (int d = 0; d < s->rank; d++) {
        int64_t n = layout_span(w.l, w.pos[d]);
        uncovered |= nzero && n < s->extent[d];
        for (int i = 0; i < nzero; i++) masked[d] |= zero[i] == s->axis[d] && n > axis_extent(s->axis[d]);
        any |= masked[d];
    }
    if (uncovered) clear(g, s);
    LLVMValueRef owner = gen_owner(g, w.l);
    LLVMBasicBlockRef done = begin_if(g, owner);
    int n = layout_regs(w.l), v1 = any || s->elem != e || e == EL_bool ? 1 : w.vec;
    for (int r = 0; r < n; r += v1) {
        int64_t c[MAX_AXES];
        coords(&w, r, c);
        LLVMValueRef x = v1 > 1 ? packed(g, v, r, v1, s->size)
                                : unit_of(g, as_elem(g, gen_get(g, v, r), e, s->elem), s->elem);
        for (int d = 0; d < s->rank; d++) {
            LLVMValueRef in = masked[d] ? inside(g, &w, d, c[d], axis_extent(s->axis[d])) : NULL;
            if (in) x = LLVMBuildSelect(g->B, in, x, LLVMConstNull(LLVMTypeOf(x)), "");
        }
        LLVMValueRef to = shared_ptr(&w.at, c);
        LLVMBasicBlockRef go = begin_if(g, guarded(g, &w, s, c));
        store_at(g, x, to, v1 * s->size);
        end_if(g, go);
    }
    end_if(g, done);
}

// What an earlier register has already: lanes that have an element together (Shared.per).
static int same_place(const Walk *w, const int64_t *c, int reg, int step) {
    for (int r = 0; r < reg; r += step) {
        int64_t other[MAX_AXES];
        bool equal = true;
        coords(w, r, other);
        for (int d = 0; d < w->rank; d++) equal &= other[d] == c[d];
        if (equal) return r;
    }
    return -1;
}

// Shared memory -> registers of v.
static void shared_get(Gen *g, const Shared *s, const Val *v) {
    Elem e = (Elem)v->type.elem;
    Walk w;
    bool packed_lanes = false;
    for (int d = 0; d < s->rank; d++) packed_lanes |= s->per[d] > 1;
    start(g, &w, s, v, s->size);
    LLVMTypeRef unit = LLVMIntTypeInContext(g->C, (unsigned)s->size * 8);
    int n = layout_regs(w.l), vec = e == EL_bool ? 1 : w.vec, per = s->size < 4 ? 4 / s->size : 1, step = vec * w.same;
    for (int r = 0; r < n; r += step) {
        int64_t c[MAX_AXES];
        coords(&w, r, c);
        bool past = false;                                // no lane of this register is in the tile: anything will do
        for (int d = 0; d < s->rank; d++) past |= c[d] >= s->extent[d];
        if (past) { for (int i = 0; i < step; i++) gen_set(g, v, r + i, LLVMConstNull(gen_type(g, v))); continue; }
        int known = packed_lanes ? same_place(&w, c, r, step) : -1;
        if (known >= 0) {
            memcpy(&gen_tile(g, v)->r[r], &gen_tile(g, v)->r[known], sizeof(Reg) * (size_t)step);
            continue;
        }
        LLVMValueRef p = shared_ptr(&w.at, c), in = guarded(g, &w, s, c);
        if (in) {                                         // other lanes read their own place again, at coordinate 0
            LLVMValueRef origin = (s->ring ? gen_ring : gen_smem)(g, s->base);
            p = LLVMBuildSelect(g->B, in, p, origin, "");
        }
        bool words = vec * s->size >= 4 && per > 1, pair = vec == 2 && s->size == 1;
        LLVMTypeRef part = words ? g->i32 : unit;
        int parts = words ? vec / per : vec;
        LLVMValueRef x = LLVMBuildLoad2(g->B,
                                        pair        ? g->i16
                                        : parts > 1 ? LLVMVectorType(part, (unsigned)parts)
                                                    : part,
                                        p, "");
        LLVMSetAlignment(x, (unsigned)(vec * s->size));
        if (pair) {
            words = true;
            x = LLVMBuildZExt(g->B, x, g->i32, "");
        }
        int held = pair ? 2 : words ? per : 1;             // elements of what is loaded at once
        for (int i = 0; i < vec; i += held) {
            LLVMValueRef y = parts > 1 && !pair ? LLVMBuildExtractElement(g->B, x, gen_i32(g, i / held), "") : x;
            if (words && w.same == 1) { gen_set_word(g, v, r + i, held, y); continue; }
            for (int k = 0; k < held * w.same; k++) {
                LLVMValueRef one = words ? LLVMBuildTrunc(
                                               g->B, LLVMBuildLShr(g->B, y, gen_i32(g, k / w.same * s->size * 8), ""),
                                               unit, "")
                                         : y;
                gen_set(g, v, r + i * w.same + k, element_of(g, one, e));
            }
        }
    }
}

// ---- rings ---------------------------------------------------------------------------------------

Shared shared_stage(Gen *g, const Op *op, const Val *at) {
    const Op *b = op->in[0]->def;
    int first = op->code == OP_T_buffer_store ? 3 : 2, row = op->code == OP_T_buffer_row;
    const Type *tile = op->code == OP_T_buffer_store ? &op->in[2]->type : &op->out[0]->type;
    Shared s;
    buffer_shape(&op->in[0]->type, &s);
    if (row) first--;
    for (int d = row; d < s.rank; d++) s.axis[d] = op->nin > first + d ? op->in[first + d] : tile->axis[d];
    if (op->code == OP_T_buffer_load) {
        s.per[0] = (int)op->imm;
        s.per[s.rank - 1] = (int)op->attr;
    }
    s.base = gen_i32(g, b->attr);
    s.ring = g->slice != NULL;
    if (b->imm > 1) {
        LLVMValueRef stage = gen_get(g, at, 0);
        if (LLVMTypeOf(stage) == g->i64) stage = LLVMBuildTrunc(g->B, stage, g->i32, "");
        s.base = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, stage, gen_i32(g, shared_bytes(&s)), ""), s.base, "");
    }
    return s;
}

Shared shared_buffer(Gen *g, const Op *op) { return shared_stage(g, op, op->in[1]); }

static bool fused_into(Gen *g, const Op *dot, const Val *v) {
    MmaChoice c;
    return dot->code == OP_T_dot && op_acc(dot) != v && mma_of_layout(g->opt->target, g->arena, dot, &c) &&
           mma_fragment(c.insn, (Elem)v->type.elem) == v->type.elem;
}

bool buffer_load_is_fused(Gen *g, const Op *load) {
    const Val *v = load->out[0];
    for (const Op *op = op_walk(&g->f->body, NULL); op; op = op_walk(&g->f->body, op))
        for (int i = 0; i < op->nin; i++)
            if (op->in[i] == v && !fused_into(g, op, v)) return false;
    return true;
}

void emit_buffer_load(Gen *g, Op *op) {
    if (buffer_load_is_fused(g, op)) return;
    Shared s = shared_buffer(g, op);
    shared_get(g, &s, op->out[0]);
}

void emit_buffer_row(Gen *g, Op *op) {
    Shared s = shared_buffer(g, op);
    s.row = op->imm;
    if (s.rank == 1) {                                        // a number
        SharedAt at;
        shared_open(g, &at, &s, (LLVMValueRef[]){NULL});
        LLVMTypeRef unit = LLVMIntTypeInContext(g->C, (unsigned)s.size * 8);
        gen_set(g, op->out[0], 0, element_of(g, LLVMBuildLoad2(g->B, unit, shared_ptr(&at, &op->imm), ""), s.elem));
        return;
    }
    shared_get(g, &s, op->out[0]);
}

void emit_buffer_store(Gen *g, Op *op) {
    Shared s = shared_buffer(g, op);
    shared_put(g, &s, op->in[2], 0, NULL);
}

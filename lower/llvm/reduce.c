// Reductions: registers first, then shuffles between lanes, then warps through shared memory.
//
// Which step handles which part of an axis is read off the layout: register bits and repetitions are
// folded in place, lane bits are folded by a butterfly, warp bits by exchanging one partial per output
// register. The order is fixed, so results are the same from run to run, and every lane ends with the
// result (the output's layout has the reduced bits as replicas). Dead lanes hold the neutral element: the
// pass `lanes` saw to that.
#include "lower/llvm/gen.h"
#include "lower/pass/reduction.h"

#include <stdlib.h>
#include <string.h>

typedef struct Pair { LLVMValueRef v, i; } Pair;        // i: the index from the axis's first on, for argmax and argmin

typedef struct Red { Gen *g; TReduce kind; Elem e; bool arg; } Red;      // e: element type of the folding

LLVMValueRef gen_join(Gen *g, TReduce kind, Elem e, LLVMValueRef a, LLVMValueRef b) {
    switch (kind) {
    case TR_sum:   return gen_binary(g, OP_add, e, a, b);
    case TR_prod:  return gen_binary(g, OP_mul, e, a, b);
    case TR_any:   return LLVMBuildOr(g->B, a, b, "");
    case TR_every: return LLVMBuildAnd(g->B, a, b, "");
    default:       return gen_fun(g, kind == TR_max ? TF_max : TF_min, e, a, b, NULL);
    }
}

LLVMValueRef gen_neutral(LLVMTypeRef t, TReduce kind, Elem e) {
    double x = reduce_neutral(kind, e);
    if (elem_is_float(e)) return LLVMConstReal(t, x);
    return LLVMConstInt(t, (unsigned long long)(x >= 0x1p63 ? elem_is_signed(e) ? INT64_MAX : -1 : (int64_t)x), 1);
}

// The better of two, the lower index on ties; NaN is better than any number.
static Pair fold(Red *s, Pair a, Pair b) {
    Gen *g = s->g;
    if (!s->arg) return (Pair){gen_join(g, s->kind, s->e, a.v, b.v), NULL};
    AstOp op = s->kind == TR_argmax ? OP_gt : OP_lt;
    LLVMValueRef better = gen_binary(g, op, s->e, b.v, a.v), tie = gen_binary(g, OP_eq, s->e, b.v, a.v);
    if (elem_is_float(s->e)) {
        LLVMValueRef an = LLVMBuildFCmp(g->B, LLVMRealUNO, a.v, a.v, ""),
                     bn = LLVMBuildFCmp(g->B, LLVMRealUNO, b.v, b.v, "");
        better = LLVMBuildOr(g->B, better, LLVMBuildAnd(g->B, bn, LLVMBuildNot(g->B, an, ""), ""), "");
        tie = LLVMBuildOr(g->B, tie, LLVMBuildAnd(g->B, an, bn, ""), "");
    }
    LLVMValueRef lower = LLVMBuildICmp(g->B, LLVMIntSLT, b.i, a.i, "");
    LLVMValueRef take = LLVMBuildOr(g->B, better, LLVMBuildAnd(g->B, tie, lower, ""), "");
    return (Pair){LLVMBuildSelect(g->B, take, b.v, a.v, ""), LLVMBuildSelect(g->B, take, b.i, a.i, "")};
}

static Pair fold_tree(Red *s, Pair *p, int n) {
    for (int step = 1; step < n; step *= 2)
        for (int i = 0; i + step < n; i += 2 * step) p[i] = fold(s, p[i], p[i + step]);
    return p[0];
}

static uint32_t bits_of(const Layout *l, int pos) { return (uint32_t)((((uint64_t)1 << l->bits[pos]) - 1) << l->off[pos]); }

static Pair shuffle(Red *s, Pair p, int mask) {
    return (Pair){gen_shuffle_xor(s->g, p.v, mask), s->arg ? gen_shuffle_xor(s->g, p.i, mask) : NULL};
}

static bool in_loop(const Op *op) {
    for (const Region *r = op->parent; r && r->owner; r = r->owner->parent)
        if (r->owner->code != OP_T_if) return true;
    return false;
}

enum { OWN_SLOTS = 8192 };      // bytes; moving more than this costs more than a barrier

// What the area that ops share may grow to: it does where nothing was laid behind it.
uint32_t gen_slots_room(const Gen *g) {
    uint32_t all = g->opt->target->smem_block, size = g->shared_slots_size;
    uint32_t from = size && g->shared_slots + size == g->smem_used ? g->shared_slots : gen_next_area(g);
    uint32_t room = all > from ? all - from : 0;
    return room > size ? room : size;
}

// Ops in loops share one area, since each must wait for the readers of the trip before anyway, and so do ops that need
// much, or more than is left; others have their own.
uint32_t gen_slots(Gen *g, const Op *op, uint32_t bytes) {
    bool shared = in_loop(op) || bytes > OWN_SLOTS || gen_next_area(g) + bytes > g->opt->target->smem_block;
    if (shared) gen_barrier(g);
    if (shared && bytes <= g->shared_slots_size) return g->shared_slots;
    bool last = shared && g->shared_slots_size && g->shared_slots + g->shared_slots_size == g->smem_used;
    uint32_t area = last ? g->shared_slots : gen_next_area(g);
    g->smem_used = area + bytes;
    if (shared) { g->shared_slots = area; g->shared_slots_size = bytes; }
    return area;
}

static LLVMTypeRef memory_type(Gen *g, LLVMTypeRef t) { return t == g->i1 ? g->i8 : t; }
void gen_put(Gen *g, LLVMValueRef at, LLVMValueRef x) {
    LLVMTypeRef t = memory_type(g, LLVMTypeOf(x));
    if (t != LLVMTypeOf(x)) x = LLVMBuildZExt(g->B, x, t, "");
    LLVMBuildStore(g->B, x, gen_smem(g, at));
}
LLVMValueRef gen_take(Gen *g, LLVMValueRef at, LLVMTypeRef t) {
    LLVMValueRef x = LLVMBuildLoad2(g->B, memory_type(g, t), gen_smem(g, at), "");
    return t == g->i1 ? LLVMBuildTrunc(g->B, x, t, "") : x;
}

// The low bits of the lane's number, moved to bit[0 .. n) of a warp's: runs of neighbours together.
static LLVMValueRef lane_as_warp(Gen *g, const int *bit, int n) {
    LLVMValueRef w = NULL;
    for (int b = 0, len; b < n; b += len) {
        for (len = 1; b + len < n && bit[b + len] == bit[b] + len; len++) {}
        LLVMValueRef x = b ? LLVMBuildLShr(g->B, g->lane, gen_i32(g, b), "") : g->lane;
        x = LLVMBuildAnd(g->B, x, gen_i32(g, (1 << len) - 1), "");
        if (bit[b]) x = LLVMBuildShl(g->B, x, gen_i32(g, bit[b]), "");
        w = w ? LLVMBuildOr(g->B, w, x, "") : x;
    }
    return w;
}

// Across warps: slot (warp, register, lane) of 4 or 8 bytes; 16 for argmax. When nothing but the reduction
// distinguishes lanes, one slot a warp is enough and the lanes share the reading.
typedef struct Cross {
    uint32_t warp_bits, area;
    int      unit, lanes;                              // bytes of a slot; slots of a register
    int      nb, bit[MAX_WARP_BITS];                   // the warps' bits that are joined
    bool     all;                                      // those of all warps
} Cross;

static void cross(Red *s, const Cross *c, Pair *out, int n) {
    Gen *g = s->g;
    bool lead = c->lanes == 1;
    int each = n * c->lanes * c->unit;                 // bytes of a warp
    LLVMTypeRef vt = LLVMTypeOf(out[0].v), it = s->arg ? LLVMTypeOf(out[0].i) : NULL;
    LLVMBasicBlockRef write = gen_block(g, "put"), go = gen_block(g, "got");
    if (lead) {
        LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, g->lane, gen_i32(g, 0), ""), write, go);
        LLVMPositionBuilderAtEnd(g->B, write);
    }
    LLVMValueRef row = LLVMBuildMul(g->B, g->warp, gen_i32(g, each), "");
    LLVMValueRef col = lead ? NULL : LLVMBuildMul(g->B, g->lane, gen_i32(g, c->unit), "");
    LLVMValueRef mine = LLVMBuildAdd(g->B, row, gen_i32(g, c->area), "");
    if (col) mine = LLVMBuildAdd(g->B, mine, col, "");
    for (int r = 0; r < n; r++) {
        int at = r * c->lanes * c->unit;
        gen_put(g, LLVMBuildAdd(g->B, mine, gen_i32(g, at), ""), out[r].v);
        if (s->arg) gen_put(g, LLVMBuildAdd(g->B, mine, gen_i32(g, at + 8), ""), out[r].i);
    }
    if (lead) { LLVMBuildBr(g->B, go); LLVMPositionBuilderAtEnd(g->B, go); }
    else LLVMDeleteBasicBlock(write), LLVMDeleteBasicBlock(go);
    gen_barrier(g);
    LLVMValueRef base = c->all ? gen_i32(g, 0) : LLVMBuildAnd(g->B, g->warp, gen_i32(g, ~c->warp_bits), "");
    if (lead) base = LLVMBuildOr(g->B, lane_as_warp(g, c->bit, c->nb), base, "");
    for (int r = 0; r < n; r++) {
        Pair p[32] = {0};
        int reads = lead ? 1 : 1 << c->nb;
        for (int k = 0; k < reads; k++) {
            int64_t other = 0;
            for (int b = 0; b < c->nb && !lead; b++) other |= (int64_t)(k >> b & 1) << c->bit[b];
            LLVMValueRef w = other ? LLVMBuildOr(g->B, base, gen_i32(g, other), "") : base;
            LLVMValueRef at = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, w, gen_i32(g, each), ""),
                                           gen_i32(g, c->area + (uint32_t)(r * c->lanes * c->unit)), "");
            if (col) at = LLVMBuildAdd(g->B, at, col, "");
            p[k] = (Pair){gen_take(g, at, vt), s->arg ? gen_take(g, LLVMBuildAdd(g->B, at, gen_i32(g, 8), ""), it) : NULL};
        }
        out[r] = fold_tree(s, p, reads);
        if (lead) for (int b = 0; b < c->nb; b++) out[r] = fold(s, out[r], shuffle(s, out[r], 1 << b));
    }
}

enum { MOST_SLOTS = 48 << 10 };      // bytes; more registers than these, or what is left, hold go in rounds

static void across_warps(Red *s, const Op *op, Pair *out, int n, uint32_t warp_bits, uint32_t kept_lanes) {
    Gen *g = s->g;
    Cross c = {.warp_bits = warp_bits, .unit = s->arg ? 16 : elem_bytes(s->e) > 4 ? 8 : 4, .lanes = kept_lanes ? 32 : 1};
    for (int i = 0; i < MAX_WARP_BITS; i++) if (warp_bits >> i & 1) c.bit[c.nb++] = i;
    c.all = g->f->warps == 1 << c.nb && warp_bits == (1u << c.nb) - 1;
    uint32_t room = gen_slots_room(g) < MOST_SLOTS ? gen_slots_room(g) : MOST_SLOTS;
    int a_register = g->f->warps * c.lanes * c.unit, most = (int)room / a_register;
    most = most < 1 ? 1 : most < n ? most : n;
    c.area = gen_slots(g, op, (uint32_t)(most * a_register));
    for (int r = 0; r < n; r += most) {
        if (r) gen_barrier(g);                                 // its readers are through
        cross(s, &c, out + r, n - r < most ? n - r : most);
    }
}

// Maxima of 16-bit floats go two to an instruction: pairs of registers that belong to one result stay a word until one
// is left. Exactly as in f32: NaN if either is, -0 below +0, subnormals as they are.
static LLVMValueRef join_pairs(Gen *g, TReduce kind, Elem e, LLVMValueRef a, LLVMValueRef b) {
    static const char *const name[2][2] = {{"llvm.nvvm.fmin.nan.f16x2", "llvm.nvvm.fmin.nan.bf16x2"},
                                           {"llvm.nvvm.fmax.nan.f16x2", "llvm.nvvm.fmax.nan.bf16x2"}};
    LLVMTypeRef pair = LLVMVectorType(e == EL_bf16 ? LLVMBFloatTypeInContext(g->C) : g->f16, 2);
    LLVMValueRef in[2] = {LLVMBuildBitCast(g->B, a, pair, ""), LLVMBuildBitCast(g->B, b, pair, "")};
    return LLVMBuildBitCast(g->B, gen_call(g, name[kind == TR_max][e == EL_bf16], 2, in, 0, NULL), g->i32, "");
}

static bool by_pairs(const Op *op, int regs, int n) {
    const Val *x = op->in[0], *o = op->out[0];
    if ((op->sub != TR_max && op->sub != TR_min) || (x->type.elem != EL_bf16 && x->type.elem != EL_f16) ||
        regs / n < 4 || regs / n % 2)
        return false;
    for (int r = 0; r < regs && o->type.rank; r += 2)
        if (layout_project_reg(x->layout, &x->type, &o->type, r) !=
            layout_project_reg(x->layout, &x->type, &o->type, r + 1))
            return false;
    return true;
}

static void fold_pairs(Red *s, const Op *op, int regs, int n, Pair *out) {
    Gen *g = s->g;
    const Val *x = op->in[0], *o = op->out[0];
    Elem e = (Elem)x->type.elem;
    int per = regs / n / 2, *fill = NEW_N(g->arena, int, n);
    LLVMValueRef *word = NEW_N(g->arena, LLVMValueRef, regs / 2);
    for (int r = 0; r < regs; r += 2) {
        int to = o->type.rank ? layout_project_reg(x->layout, &x->type, &o->type, r) : 0;
        word[to * per + fill[to]++] = gen_word(g, x, r, 2);
    }
    for (int i = 0; i < n; i++) {
        LLVMValueRef *w = word + i * per;
        for (int step = 1; step < per; step *= 2)
            for (int k = 0; k + step < per; k += 2 * step) w[k] = join_pairs(g, s->kind, e, w[k], w[k + step]);
        LLVMValueRef low = LLVMBuildTrunc(g->B, w[0], g->i16, ""),
                     high = LLVMBuildTrunc(g->B, LLVMBuildLShr(g->B, w[0], gen_i32(g, 16), ""), g->i16, "");
        out[i] = fold(s, (Pair){gen_to_f32(g, low, e), NULL}, (Pair){gen_to_f32(g, high, e), NULL});
    }
}

// ---- argmax and argmin ---------------------------------------------------------------------------
//
// A lane's best is found in two steps: the greatest of its registers, then the first register that holds it: a maximum, a
// comparison and a select an element, where carrying both along takes eight instructions. NaN, the greatest of all, equals
// nothing: a lane that has one looks for it instead.

typedef struct Place { LLVMValueRef v; int64_t coord; } Place;

static int by_coord(const void *a, const void *b) {            // the last first
    int64_t x = ((const Place *)a)->coord, y = ((const Place *)b)->coord;
    return x < y ? 1 : x > y ? -1 : 0;
}

static LLVMValueRef first_place(Red *s, const Place *p, int n, LLVMValueRef best) {        // best NULL: the first NaN
    Gen *g = s->g;
    LLVMValueRef at = gen_i32(g, p[0].coord);
    for (int k = 1; k < n; k++) {
        LLVMValueRef here = best ? gen_binary(g, OP_eq, s->e, p[k].v, best)
                                 : LLVMBuildFCmp(g->B, LLVMRealUNO, p[k].v, p[k].v, "");
        at = LLVMBuildSelect(g->B, here, gen_i32(g, p[k].coord), at, "");
    }
    return at;
}

static Pair best_of(Red *s, Place *p, int n) {
    Gen *g = s->g;
    LLVMValueRef *v = NEW_N(g->arena, LLVMValueRef, n);
    for (int i = 0; i < n; i++) v[i] = p[i].v;
    for (int step = 1; step < n; step *= 2)
        for (int i = 0; i + step < n; i += 2 * step)
            v[i] = gen_join(g, s->kind == TR_argmax ? TR_max : TR_min, s->e, v[i], v[i + step]);
    LLVMValueRef best = v[0];
    qsort(p, (size_t)n, sizeof *p, by_coord);
    if (n == 1 || !elem_is_float(s->e)) return (Pair){best, first_place(s, p, n, best)};
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B), odd = gen_block(g, "nan"), go = gen_block(g, "best");
    LLVMValueRef at = first_place(s, p, n, best), isnan = LLVMBuildFCmp(g->B, LLVMRealUNO, best, best, "");
    LLVMBuildCondBr(g->B, isnan, odd, go);
    LLVMPositionBuilderAtEnd(g->B, odd);
    LLVMValueRef nan = first_place(s, p, n, NULL);
    LLVMBuildBr(g->B, go);
    LLVMPositionBuilderAtEnd(g->B, go);
    LLVMValueRef which = LLVMBuildPhi(g->B, g->i32, "");
    LLVMAddIncoming(which, (LLVMValueRef[]){at, nan}, (LLVMBasicBlockRef[]){from, odd}, 2);
    return (Pair){best, which};
}

// ---- several results a lane ----------------------------------------------------------------------
//
// A butterfly takes a shuffle for each result and step, and what warps exchange is read by every lane for all of its results. Instead
// lanes that would hold the same share the results: each sends the half that the other goes on with, until it has one (or an odd number) of
// them. These are joined across warps, and go back the same way.
//
//     8 results of 8 lanes and 16 warps: 24 shuffles, 8 stores, 128 loads      ->      4 + 2 + 1 shuffles, 1 store, 16 loads, 1 + 2 + 4 shuffles

static Pair choose(Red *s, LLVMValueRef c, Pair a, Pair b) {
    Gen *g = s->g;
    return (Pair){LLVMBuildSelect(g->B, c, a.v, b.v, ""), s->arg ? LLVMBuildSelect(g->B, c, a.i, b.i, "") : NULL};
}

static LLVMValueRef lane_bit(Gen *g, int i) {
    return LLVMBuildICmp(g->B, LLVMIntNE, LLVMBuildAnd(g->B, g->lane, gen_i32(g, 1 << i), ""), gen_i32(g, 0), "");
}

enum { MANY_WARPS = 2 };             // bits of their number: of two warps, or of one, butterflies are as fast (softmax over 64 in the middle 136 us, shared 141)

// See gen_join_threads.
static void across_threads(Red *s, const Op *op, Pair *v, int n, uint32_t lane_bits, uint32_t warp_bits, uint32_t kept) {
    int steps = 0, bit[LANE_BITS];
    bool share = s->g->f->plain && __builtin_popcount(warp_bits) >= MANY_WARPS;
    for (int i = 0; i < LANE_BITS && share; i++) {
        if (!(lane_bits >> i & 1) || n % 2) continue;
        LLVMValueRef high = lane_bit(s->g, i);
        n /= 2;
        for (int r = 0; r < n; r++) {
            Pair mine = choose(s, high, v[n + r], v[r]), theirs = choose(s, high, v[r], v[n + r]);
            v[r] = fold(s, mine, shuffle(s, theirs, 1 << i));
        }
        lane_bits &= ~(1u << i);
        kept |= 1u << i;
        bit[steps++] = i;
    }
    for (int i = 0; i < LANE_BITS; i++)
        if (lane_bits >> i & 1) for (int r = 0; r < n; r++) v[r] = fold(s, v[r], shuffle(s, v[r], 1 << i));
    if (warp_bits) across_warps(s, op, v, n, warp_bits, kept);
    for (; steps; steps--, n *= 2) {
        LLVMValueRef high = lane_bit(s->g, bit[steps - 1]);
        for (int r = 0; r < n; r++) {
            Pair theirs = shuffle(s, v[r], 1 << bit[steps - 1]), mine = v[r];
            v[r] = choose(s, high, theirs, mine);
            v[n + r] = choose(s, high, mine, theirs);
        }
    }
}

void emit_reduce(Gen *g, Op *op) {
    Val *x = op->in[0], *o = op->out[0];
    if (gen_tile(g, o)->r[0].v) return;                        // a scan has given it
    const Layout *l = x->layout;
    Red s = {g, (TReduce)op->sub, (Elem)x->type.elem, op->sub == TR_argmax || op->sub == TR_argmin};
    bool widen = elem_is_storage(s.e);
    int regs = gen_tile(g, x)->n, n = gen_tile(g, o)->n, per = regs / n, *fill = NEW_N(g->arena, int, n);
    Pair *part = NEW_N(g->arena, Pair, regs), *out = NEW_N(g->arena, Pair, n);
    uint32_t reduced = 0, lane_bits = 0, warp_bits = 0, kept = 0;
    for (int i = 1; i < op->nin; i++) reduced |= bits_of(l, type_axis(&x->type, op->in[i]));
    if (widen) s.e = EL_f32;

    int pos = s.arg ? type_axis(&x->type, op->in[1]) : 0;
    Place *place = s.arg ? NEW_N(g->arena, Place, regs) : NULL;
    bool pairs = by_pairs(op, regs, n);
    for (int r = 0; r < regs && !pairs; r++) {
        int to = o->type.rank ? layout_project_reg(l, &x->type, &o->type, r) : 0;
        LLVMValueRef v = gen_get(g, x, r);
        if (x->type.elem == EL_index && gen_is32(g, x) && !gen_is32(g, o) && !s.arg) v = LLVMBuildSExt(g->B, v, g->i64, "");
        if (widen) v = gen_to_f32(g, v, (Elem)x->type.elem);
        if (s.arg) place[to * per + fill[to]] = (Place){v, gen_reg_coord(l, pos, r)};
        part[to * per + fill[to]++] = (Pair){v, NULL};
    }
    if (pairs) fold_pairs(&s, op, regs, n, out);
    for (int r = 0; r < n && !pairs && !s.arg; r++) out[r] = fold_tree(&s, part + r * per, fill[r]);
    for (int r = 0; r < n && s.arg; r++) {
        out[r] = best_of(&s, place + r * per, fill[r]);
        out[r].i = LLVMBuildAdd(g->B, out[r].i, gen_lane_number(g, op->in[1], gen_lane_coord(g, l, pos)), "");
    }
    if (op->attr) {                                            // join_lanes does the rest
        for (int r = 0; r < n; r++) gen_set(g, o, r, widen ? gen_kept_f32(g, out[r].v, (Elem)o->type.elem) : out[r].v);
        return;
    }
    for (int i = 0; i < LANE_BITS; i++) {
        if (l->lane[i] & reduced) lane_bits |= 1u << i;
        else if (l->lane[i]) kept |= 1u << i;
    }
    for (int i = 0; i < l->nwarp; i++) if (l->warp[i] & reduced) warp_bits |= 1u << i;
    across_threads(&s, op, out, n, lane_bits, warp_bits, kept);
    for (int r = 0; r < n; r++) {
        LLVMValueRef v = out[r].v;
        if (s.arg) {
            LLVMValueRef lo = gen_get64(g, axis_lo(op->in[1]), 0),
                         none = LLVMBuildICmp(g->B, LLVMIntSGE, lo, gen_get64(g, axis_hi(op->in[1]), 0), "");
            v = LLVMBuildSelect(g->B, none, gen_i64(g, -1),
                                LLVMBuildAdd(g->B, lo, LLVMBuildZExt(g->B, out[r].i, g->i64, ""), ""), "");
            if (gen_is32(g, o)) v = LLVMBuildTrunc(g->B, v, g->i32, "");
        } else if (widen) {
            v = gen_kept_f32(g, v, (Elem)o->type.elem);
        }
        gen_set(g, o, r, v);
    }
}

void gen_join_threads(Gen *g, const Op *op, TReduce kind, Elem e, LLVMValueRef *v, int n, uint32_t lane_bits,
                      uint32_t warp_bits, uint32_t kept) {
    Red s = {g, kind, e, false};
    Pair *out = NEW_N(g->arena, Pair, n);
    for (int r = 0; r < n; r++) out[r] = (Pair){v[r], NULL};
    across_threads(&s, op, out, n, lane_bits, warp_bits, kept);
    for (int r = 0; r < n; r++) v[r] = out[r].v;
}

void emit_join_lanes(Gen *g, Op *op) {
    Val *x = op->in[0], *o = op->out[0];
    const Layout *l = x->layout;
    int n = gen_tile(g, x)->n;
    Elem e = (Elem)x->type.elem, wide = elem_is_storage(e) ? EL_f32 : e;
    LLVMValueRef *v = NEW_N(g->arena, LLVMValueRef, n);
    uint32_t kept = 0;
    for (int i = 0; l && i < LANE_BITS; i++) if (l->lane[i]) kept |= 1u << i;
    for (int r = 0; r < n; r++) v[r] = wide != e ? gen_to_f32(g, gen_get(g, x, r), e) : gen_get(g, x, r);
    gen_join_threads(g, op, (TReduce)op->sub, wide, v, n, (uint32_t)op->imm & ((1u << LANE_BITS) - 1),
                     (uint32_t)(op->imm >> LANE_BITS), kept);
    for (int r = 0; r < n; r++) gen_set(g, o, r, wide != e ? gen_kept_f32(g, v[r], e) : v[r]);
}

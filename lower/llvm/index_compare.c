// Where along an axis something ends: comparisons of its index.
//
//     n <= x                     for register r of a thread, which holds n = lo + lane + k(r)          (lane: what thread and warp add)
//
//     d = x - lo - lane          once for each x that the thread has: in the mask of a product's tile two rows, of 64 elements
//     k(r) <= d                  for each register: k(r) is a constant
//
// Else each register would have the sum lo + lane + k(r), 32 registers' worth for 128 columns, and where x takes 64 bits (n <= m + (L - S): nobody
// knows that it fits in 32) two comparisons of 64 bits each. An x that takes 64 bits, or whose distance from lo may, is clamped to one place before
// the axis or one behind it.
//
// Attention D128, causal, on an H200: the tile on the diagonal took 2.2 us longer than another (2026-11-24). Not in attention by
// mma.sync, which has no register for what is the same in all trips (4 to 40 bytes of spills over pages, ptxas 13.0), nor where 32 bits are enough and
// no product is: there sums are often had for something else, too (a gate's kernels became 12 % longer).
#include "lower/llvm/gen.h"

enum { LEAST_SHARED = 4 };                                     // registers with one x, below which sums are as cheap

typedef struct Ends {
    const Val *index, *x;
    Val       *axis;
    AstOp      op;                                             // index op x
} Ends;

static AstOp turned(AstOp op) {
    switch (op) {
    case OP_lt: return OP_gt;
    case OP_le: return OP_ge;
    case OP_gt: return OP_lt;
    case OP_ge: return OP_le;
    default:    return op;
    }
}

static bool find_ends(const Op *op, Ends *e) {
    AstOp sub = (AstOp)op->sub;
    if (sub != OP_lt && sub != OP_le && sub != OP_gt && sub != OP_ge && sub != OP_eq && sub != OP_ne) return false;
    for (int i = 0; i < 2; i++) {
        const Op *d = op->in[i]->def;
        if (!d || d->code != OP_T_index || d->in[0]->def->nin > 2 || op->in[!i]->type.elem != EL_index) continue;
        *e = (Ends){op->in[i], op->in[!i], d->in[0], i ? turned(sub) : sub};
        if (type_axis(&e->x->type, e->axis) < 0) return true;
    }
    return false;
}

// x - lo, in 32 bits: as it is, or clamped to -1 .. places, which compares the same.
static LLVMValueRef distance(Gen *g, const Ends *e, int reg, int64_t places) {
    const Val *lo = axis_lo(e->axis);
    Range x = fact_range(g->facts, e->x), from = fact_range(g->facts, lo);
    int64_t least, most;
    bool fits = gen_is32(g, e->x) && gen_is32(g, lo) && !__builtin_sub_overflow(x.lo, from.hi, &least) && !__builtin_sub_overflow(x.hi, from.lo, &most) &&
                least >= INT32_MIN + places && most <= INT32_MAX;
    if (fits) return LLVMBuildSub(g->B, gen_get(g, e->x, reg), gen_get(g, lo, 0), "");
    LLVMValueRef d = LLVMBuildSub(g->B, gen_get64(g, e->x, reg), gen_get64(g, lo, 0), "");
    d = gen_call(g, "llvm.smax", 2, (LLVMValueRef[]){d, gen_i64(g, -1)}, 1, &g->i64);
    return LLVMBuildTrunc(g->B, gen_call(g, "llvm.smin", 2, (LLVMValueRef[]){d, gen_i64(g, places)}, 1, &g->i64), g->i32, "");
}

bool gen_compare_places(Gen *g, Op *op) {
    Ends e;
    Val *o = op->out[0];
    bool pays = g->f->target->has_wgmma && (g->f->groups || !gen_narrow_op(g, op));
    if (!pays || !g->wanted[o->id] || !find_ends(op, &e) || !gen_is32(g, e.index)) return false;
    int at = type_axis(&o->type, e.axis), n = gen_tile(g, o)->n, xs = gen_tile(g, e.x)->n, *map = gen_reg_map(g, o, e.x);
    if (n < LEAST_SHARED * xs) return false;
    LLVMValueRef *d = NEW_N(g->arena, LLVMValueRef, xs), lane = gen_lane_coord(g, o->layout, at);
    for (int r = 0; r < n; r++) {
        LLVMValueRef *mine = &d[map[r]];
        if (!*mine) *mine = LLVMBuildSub(g->B, distance(g, &e, map[r], layout_span(o->layout, at)), lane, "");
        gen_set(g, o, r, gen_binary(g, e.op, EL_i32, gen_i32(g, gen_reg_coord(o->layout, at, r)), *mine));
    }
    return true;
}

// Division and remainder by what is known of the divisor.
//
//     what passes its end at most twice   a subtraction that is done or not
//     a number of the launch          a multiplication by 2^62 / d, which the launcher computes
//     a power of two, of an axis      digits: what lanes and registers add to it, often nothing but a number for each register
//     one number for a tile           a reciprocal, scaled so that it is normal, and a multiplication an element
//     1 + exp(x), 1 or more           a reciprocal that cannot be subnormal
//
// Everything else is gen_divide's (math.c), as --math says.
#include "lower/llvm/gen.h"

#include <string.h>

// ---- by what a launch knows ----------------------------------------------------------------------
//
//     x / d = x m / 2^62   for 0 <= x, d < 2^31 and m = 2^62 / d rounded up, which the launcher computes
//
// (m d < 2^62 + d, so the product is at most x / 2^62 above the quotient, less than 1 / d.) Four multiplications
// instead of a chain of twenty instructions through the special functions: finding its tile is what each block begins
// with. On Hopper alone: a kernel of mma.sync at the limit of its registers (attention with a bias, sm_120a) spills 24
// bytes more by it.
static const int64_t RECIPROCAL_ONE = (int64_t)1 << 62;
enum { DIVISORS = 1, MOST_DIVISORS = 16 };                     // LaunchSlot.a of their slots

// ---- by what passes an end ------------------------------------------------------------------------
//
//     (j + W - 1) % W, which is below 2 W            the smaller one, without a sign, of x and x - W: that wraps below 0
//
// A torus' neighbours. On live lanes alone, so it is for places in memory, and for nothing else.

static bool is_place(const Fn *f, const Val *v) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        for (int i = 0; i < op->nin; i++)
            if (op->in[i] == v && ((op->code != OP_T_load && op->code != OP_T_store) || i < 1 || i > op->nidx)) return false;
    return true;
}

static int passes(Gen *g, const Op *op) {
    if (op->sub != OP_rem || op->out[0]->type.elem != EL_index || !op->out[0]->type.rank) return 0;
    if (g->passes.op == op) return g->passes.n;
    g->passes.op = op;
    return g->passes.n = facts_are_narrow(g->facts) && gen_narrow_op(g, op) && is_place(g->f, op->out[0]) ? fact_passes(g->facts, op->in[0], op->in[1]) : 0;
}

static LLVMValueRef less_divisor(Gen *g, const Op *op, LLVMValueRef *in) {
    LLVMValueRef x = in[0];
    int n = passes(g, op);
    for (int i = 0; i < n; i++)
        x = gen_call(g, "llvm.umin", 2, (LLVMValueRef[]){x, LLVMBuildSub(g->B, x, in[1], "")}, 1, &g->i32);
    return n ? x : NULL;
}

// The divisor's slot expression, if the op is such a division.
static bool launch_reciprocal(Gen *g, const Op *op, LExpr *out) {
    const Val *x = op->in[0], *d = op->in[1];
    LExpr e;
    if (!g->f->target->has_wgmma || (op->sub != OP_div && op->sub != OP_rem) || op->out[0]->type.elem != EL_index ||
        d->type.rank || !gen_narrow_op(g, op))
        return false;
    if (fact_range(g->facts, x).lo < 0 || fact_range(g->facts, d).lo < 0 || !host_expr(g->facts, d, &e) ||
        fact_range(g->facts, d).hi == fact_range(g->facts, d).lo || passes(g, op))
        return false;
    LExpr one = launch_const(g->arena, RECIPROCAL_ONE - 1);
    *out = launch_join_const(g->arena, L_ADD, launch_join(g->arena, L_DIV, one, e), 1);
    return true;
}

static LLVMValueRef find_reciprocal(Gen *g, LExpr e, int *count) {
    const LaunchInfo *l = g->f->launch;
    *count = 0;
    for (int i = 0; i < l->nslots; i++) {
        if (l->slots[i].kind != SLOT_EXPR || l->slots[i].a != DIVISORS) continue;
        if (launch_same(l->slots[i].expr, e)) return g->param ? g->param[i] : LLVMGetUndef(g->i64);
        ++*count;
    }
    return NULL;
}

void gen_reciprocals(Gen *g) {
    LExpr e;
    int count;
    for (const Op *op = op_walk(&g->f->body, NULL); op; op = op_walk(&g->f->body, op))
        if (op->code == OP_T_binary && launch_reciprocal(g, op, &e) && !find_reciprocal(g, e, &count) &&
            count < MOST_DIVISORS)
            gen_add_slot(g->f, (LaunchSlot){.kind = SLOT_EXPR, .size = 8, .a = DIVISORS, .b = count, .expr = e});
}

static LLVMValueRef divide_by_reciprocal(Gen *g, const Op *op, LLVMValueRef *in) {
    LExpr e;
    int count;
    LLVMValueRef m = launch_reciprocal(g, op, &e) ? find_reciprocal(g, e, &count) : NULL;
    if (!m) return NULL;
    LLVMValueRef x = LLVMBuildShl(g->B, LLVMBuildZExt(g->B, in[0], g->i64, ""), gen_i64(g, 2), "");
    LLVMValueRef q = LLVMBuildTrunc(g->B, gen_call(g, "llvm.nvvm.mulhi.ull", 2, (LLVMValueRef[]){x, m}, 0, NULL),
                                    g->i32, "");
    if (op->sub == OP_div) return q;                           // of nothing, m is 1: 0
    LLVMValueRef r = LLVMBuildSub(g->B, in[0], LLVMBuildMul(g->B, q, in[1], ""), ""),
                 none = LLVMBuildICmp(g->B, LLVMIntEQ, in[1], gen_i32(g, 0), "");
    return LLVMBuildSelect(g->B, none, gen_i32(g, 0), r, "");
}

// ---- k / c and k % c of an axis's lanes ----------------------------------------------------------
//
//     k = lo + lane + reg, where lo is a multiple of c = 2^s:      k / c = lo / c + lane / c + reg / c       k % c = lane % c + reg % c
//                          or of the axis's extent, and c is:      k / c = lo / c                            k % c = lo % c + lane + reg
//
// since bits of lanes and of registers are never the same. Often nothing is left but a number for each register: which half of a byte it is,
// and which scale it has; registers of one number are one value, and what is loaded there is loaded once.
//     (k % e) / c, both powers of two, e the larger one:           lane % e / c + reg % e / c
typedef struct Digits { const Val *axis; int64_t c, of; bool rem, long_runs; } Digits;      // of: e; 0: all of k

static bool digits_of(Gen *g, const Op *op, Digits *d) {
    const Op *k = op->in[0]->def, *c = op->in[1]->def, *e = k && op->sub == OP_div && k->code == OP_T_binary && k->sub == OP_rem ? k->in[1]->def : NULL;
    if (e) k = e->code == OP_T_const ? k->in[0]->def : NULL;
    if ((op->sub != OP_rem && op->sub != OP_div) || op->out[0]->type.rank != 1 || !k || k->code != OP_T_index || !c || c->code != OP_T_const) return false;
    *d = (Digits){.axis = k->in[0], .c = c->imm, .rem = op->sub == OP_rem};
    int64_t lo = fact_divisor(g->facts, axis_lo(d->axis)), extent = axis_extent(d->axis);
    if (d->c < 2 || (d->c & (d->c - 1)) || extent & (extent - 1) || !gen_is32(g, op->out[0]) || !gen_is32(g, axis_lo(d->axis))) return false;
    if (e) {
        d->of = e->imm;
        return d->of > d->c && (d->of & (d->of - 1)) == 0 && lo >= d->of;
    }
    d->long_runs = d->c >= extent && lo >= extent;
    return d->long_runs || lo >= d->c;
}

// The bits that lanes and warps move of a coordinate.
static int64_t moved_by_lanes(const Layout *l) {
    uint32_t m = 0, mask = (uint32_t)((((uint64_t)1 << l->bits[0]) - 1) << l->off[0]);
    for (int i = 0; i < LANE_BITS; i++) m |= l->lane[i] & mask;
    for (int i = 0; i < l->nwarp; i++)  m |= l->warp[i] & mask;
    return m >> l->off[0];
}

static bool by_digits(Gen *g, Op *op) {
    Val *o = op->out[0];
    Digits d;
    if (!digits_of(g, op, &d) || !g->wanted[o->id] || d.axis->def->nin > 2) return false;
    int s = __builtin_ctzll((unsigned long long)d.c), n = gen_tile(g, o)->n;
    int64_t below = d.c - 1, within = d.of ? d.of - 1 : -1, lanes = moved_by_lanes(o->layout) & within;
    LLVMValueRef lo = gen_get(g, axis_lo(d.axis), 0), lane = gen_lane_coord(g, o->layout, 0), base = NULL, moves = NULL;
    if (!d.rem && !d.of) base = LLVMBuildAShr(g->B, lo, gen_i32(g, s), "");
    else if (d.long_runs) base = LLVMBuildAnd(g->B, lo, gen_i32(g, below), "");
    if (d.rem && (lanes & below)) moves = d.long_runs ? lane : LLVMBuildAnd(g->B, lane, gen_i32(g, below), "");
    if (!d.rem && !d.long_runs && lanes >> s) moves = LLVMBuildLShr(g->B, d.of ? LLVMBuildAnd(g->B, lane, gen_i32(g, within), "") : lane, gen_i32(g, s), "");
    base = !base ? moves : !moves ? base : LLVMBuildAdd(g->B, base, moves, "");
    for (int r = 0; r < n; r++) {
        int64_t k = gen_reg_coord(o->layout, 0, r), add = d.rem ? (d.long_runs ? k : k & below) : d.long_runs ? 0 : (k & within) >> s;
        gen_set(g, o, r, !base ? gen_i32(g, add) : add ? LLVMBuildAdd(g->B, base, gen_i32(g, add), "") : base);
    }
    return true;
}

// ---- floats --------------------------------------------------------------------------------------

static bool is_number(const Val *v, double x) {
    const Op *d = v->def;
    while (d && d->code == OP_T_splat) d = d->in[0]->def;
    double c;
    if (!d || d->code != OP_T_const) return false;
    memcpy(&c, &d->imm, sizeof c);
    return c == x;
}

// 1 + exp(x), as in a sigmoid: never subnormal, so that its reciprocal needs no scaling (NaN or +0 where it is not finite).
static bool at_least_one(const Val *v) {
    const Op *d = v->def;
    if (!d || d->code != OP_T_binary || d->sub != OP_add) return false;
    for (int i = 0; i < 2; i++) {
        const Op *e = d->in[1 - i]->def;
        if (is_number(d->in[i], 1) && e && e->code == OP_T_fun && (e->sub == TF_exp || e->sub == TF_exp2)) return true;
    }
    return false;
}

// x / d for such a d: times a reciprocal that is made of d / 2^32, so that it is never subnormal either. What is left
// of it when it is scaled back, at least 2^-128, holds 22 bits: no comparisons, where division has two for each of both
// ends.
static LLVMValueRef divide_by_one_or_more(Gen *g, LLVMValueRef x, LLVMValueRef d) {
    LLVMValueRef down = LLVMConstReal(g->f32, 0x1p-32);
    LLVMValueRef r = LLVMBuildFMul(g->B, gen_reciprocal(g, LLVMBuildFMul(g->B, d, down, "")), down, "");
    return LLVMBuildFMul(g->B, x, r, "");
}

// A tile divided by one number: multiply by its reciprocal, correctly rounded, which keeps within the 2 ulp of
// division as long as the reciprocal is a normal number. So the divisor is first scaled by a power of two that
// makes it one (1 nearly always), and the product once more: exact but where the quotient is subnormal.
static void divide_by_scalar(Gen *g, Op *op) {
    Val *o = op->out[0];
    int n = gen_tile(g, o)->n;
#define F32(x) LLVMConstReal(g->f32, x)
    LLVMValueRef b = gen_get(g, op->in[1], 0), mag = gen_call(g, "llvm.fabs", 1, &b, 1, &g->f32);
    LLVMValueRef scale = LLVMBuildSelect(g->B, LLVMBuildFCmp(g->B, LLVMRealOGT, mag, F32(0x1p120), ""), F32(0x1p-64),
                                         F32(1), "");
    scale = LLVMBuildSelect(g->B, LLVMBuildFCmp(g->B, LLVMRealOLT, mag, F32(0x1p-120), ""), F32(0x1p64), scale, "");
    LLVMValueRef r = gen_divide(g, EL_f32, F32(1), LLVMBuildFMul(g->B, b, scale, ""), true);
#undef F32
    for (int i = 0; i < n; i++)
        gen_set(g, o, i, LLVMBuildFMul(g->B, LLVMBuildFMul(g->B, gen_get(g, op->in[0], i), r, ""), scale, ""));
}

LLVMValueRef gen_divide_known(Gen *g, const Op *op, LLVMValueRef *in) {
    LLVMValueRef q = less_divisor(g, op, in);
    if (!q) q = divide_by_reciprocal(g, op, in);
    if (q || op->sub != OP_div || op->in[0]->type.elem != EL_f32 || !at_least_one(op->in[1])) return q;
    return is_number(op->in[0], 1) ? gen_reciprocal(g, in[1]) : divide_by_one_or_more(g, in[0], in[1]);
}

bool gen_divide_tile(Gen *g, Op *op) {
    const Type *t = &op->out[0]->type;
    bool one = op->sub == OP_div && t->elem == EL_f32 && op->in[1]->type.rank == 0 && t->rank && op->in[0]->type.rank == t->rank;
    if (!one || gen_tile(g, op->out[0])->n < 4) return by_digits(g, op);
    divide_by_scalar(g, op);
    return true;
}

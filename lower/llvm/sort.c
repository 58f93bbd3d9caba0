// Sorts: a bitonic network over the elements along an axis, wherever they are; and lanes taken in an order.
//
// The network is the form in which every comparison puts the lesser element first, so that elements which do not exist
// (96 is 128 without its end) stay last by themselves. For sorted pieces of 2^(s-1), element c first meets its mirror
// image c ^ (2^s - 1), then c ^ 2^t for t = s-2 .. 0:
//
//     8 elements      s = 1: c ^ 1     s = 2: c ^ 3, c ^ 1     s = 3: c ^ 7, c ^ 2, c ^ 1
//
// Bits of the coordinate are moved by registers, lanes, warps and repetitions, so an exchange of mask M is one between
// registers, or a shuffle, or goes through shared memory, as the highest of these that M touches says.
//
// Elements are compared as integers that stand in the order of the values: floats with the bits of negative ones
// inverted, -0 before 0, all NaNs one number: the greatest, or the least by NAN_FIRST (neither is the key of a number that is
// none). REVERSE inverts numbers, not NaN. Dead lanes are the greatest number. An order appends the element's own coordinate below its key, which makes all keys different: equals stay
// as they stand, and dead lanes come last.
#include "lower/llvm/gen.h"

#include <string.h>

typedef struct Keys { LLVMValueRef hi, lo; } Keys;       // lo: below hi where both do not fit 64 bits, else NULL

typedef struct Sort {
    Gen    *g;
    const Layout *l;
    int     pos, n;               // the axis; registers
    Keys   *k;
    bool    numbered;             // keys end in the element's coordinate
    int     bits, stride, count;  // of the atom on the axis; repetitions: registers from one to the next, how many
} Sort;

// what an exchange touches; what moves its highest bit
typedef struct Mask { int reg, lane, warp, rep; Mover top; int top_at; } Mask;

// ---- keys ----------------------------------------------------------------------------------------

static int key_bits(Elem e) { return elem_bits(e) <= 32 ? 32 : 64; }
static LLVMTypeRef key_type(Gen *g, int bits) { return bits == 32 ? g->i32 : g->i64; }
static LLVMValueRef number(LLVMTypeRef t, int64_t v) { return LLVMConstInt(t, (unsigned long long)v, 1); }

// The bits of a float as a signed integer of the same order; the same step leads back.
static LLVMValueRef flip_negative(Gen *g, LLVMValueRef x, int bits) {
    LLVMTypeRef t = LLVMTypeOf(x);
    LLVMValueRef sign = LLVMBuildAShr(g->B, x, number(t, bits - 1), "");
    return LLVMBuildXor(g->B, x, LLVMBuildLShr(g->B, sign, number(t, 1), ""), "");
}

static LLVMValueRef end_key(LLVMTypeRef t, int bits, bool least) {
    return number(t, least ? (bits == 64 ? INT64_MIN : INT32_MIN) : bits == 64 ? INT64_MAX : INT32_MAX);
}

static LLVMValueRef to_key(Gen *g, const Val *x, int reg, int flags) {
    Elem e = (Elem)x->type.elem;
    int bits = key_bits(e);
    LLVMTypeRef t = key_type(g, bits);
    LLVMValueRef v = gen_get(g, x, reg), nan = NULL;
    if (elem_is_float(e)) {
        if (elem_is_storage(e)) v = gen_to_f32(g, v, e);
        nan = LLVMBuildFCmp(g->B, LLVMRealUNO, v, v, "");
        v = flip_negative(g, LLVMBuildBitCast(g->B, v, t, ""), bits);
    } else {
        if (LLVMTypeOf(v) != t) v = elem_is_signed(e) ? LLVMBuildSExt(g->B, v, t, "") : LLVMBuildZExt(g->B, v, t, "");
        if (!elem_is_signed(e)) v = LLVMBuildXor(g->B, v, number(t, bits == 64 ? INT64_MIN : INT32_MIN), "");
    }
    if (flags & REVERSE) v = LLVMBuildNot(g->B, v, "");
    return nan ? LLVMBuildSelect(g->B, nan, end_key(t, bits, flags & NAN_FIRST), v, "") : v;
}

static LLVMValueRef from_key(Gen *g, const Val *o, LLVMValueRef v, int flags) {
    Elem e = (Elem)o->type.elem;
    int bits = key_bits(e);
    LLVMTypeRef t = LLVMTypeOf(v), want = gen_type(g, o);
    LLVMValueRef nan = elem_is_float(e)
                           ? LLVMBuildICmp(g->B, LLVMIntEQ, v, end_key(t, bits, flags & NAN_FIRST), "")
                           : NULL;
    if (flags & REVERSE) v = LLVMBuildNot(g->B, v, "");
    if (!elem_is_float(e)) {
        if (!elem_is_signed(e)) v = LLVMBuildXor(g->B, v, number(t, bits == 64 ? INT64_MIN : INT32_MIN), "");
        return want == t ? v : LLVMBuildTrunc(g->B, v, want, "");
    }
    LLVMTypeRef ft = bits == 64 ? g->f64 : g->f32;
    v = LLVMBuildBitCast(g->B, flip_negative(g, v, bits), ft, "");
    v = LLVMBuildSelect(g->B, nan, LLVMConstReal(ft, __builtin_nan("")), v, "");
    return elem_is_storage(e) ? gen_kept_f32(g, v, e) : v;
}

// ---- exchanges -----------------------------------------------------------------------------------

static Mask mask_of(const Sort *s, int64_t m) {
    Mask k = {.rep = (int)(m >> s->bits)};
    for (int b = 0; b < s->bits; b++) {
        int at = 0;
        if (!(m >> b & 1)) continue;
        k.top = layout_mover(s->l, s->pos, b, &at);
        k.top_at = at;
        if (k.top == BY_REGISTER) k.reg |= 1 << at;
        if (k.top == BY_LANE) k.lane |= 1 << at;
        if (k.top == BY_WARP) k.warp |= 1 << at;
    }
    if (k.rep) k.top = BY_REPEAT;
    return k;
}

// The register that holds what register r meets in another place; -1: it does not exist.
static int partner(const Sort *s, const Mask *m, int r) {
    int digit = r / s->stride % s->count, other = digit ^ m->rep;
    return other >= s->count ? -1 : (r ^ m->reg) + (other - digit) * s->stride;
}

static LLVMValueRef less(Gen *g, Keys a, Keys b) {
    LLVMValueRef lt = LLVMBuildICmp(g->B, LLVMIntSLT, a.hi, b.hi, "");
    if (!a.lo) return lt;
    LLVMValueRef eq = LLVMBuildICmp(g->B, LLVMIntEQ, a.hi, b.hi, "");
    return LLVMBuildOr(g->B, lt, LLVMBuildAnd(g->B, eq, LLVMBuildICmp(g->B, LLVMIntULT, a.lo, b.lo, ""), ""), "");
}

static Keys choose(Gen *g, LLVMValueRef c, Keys a, Keys b) {
    return (Keys){LLVMBuildSelect(g->B, c, a.hi, b.hi, ""), a.lo ? LLVMBuildSelect(g->B, c, a.lo, b.lo, "") : NULL};
}

static bool below(const Sort *s, const Mask *m, int r) {      // register r is the lower one of the two, in this lane or any
    return m->top == BY_REPEAT ? (r / s->stride % s->count) < ((r / s->stride % s->count) ^ m->rep) : !(r >> m->top_at & 1);
}

static void within_lane(Sort *s, const Mask *m) {
    Gen *g = s->g;
    for (int r = 0; r < s->n; r++) {
        int p = partner(s, m, r);
        if (p < 0 || !below(s, m, r)) continue;
        Keys a = s->k[r], b = s->k[p];
        LLVMValueRef swap = less(g, b, a);
        s->k[r] = choose(g, swap, b, a);
        s->k[p] = choose(g, swap, a, b);
    }
}

// With what other lanes or warps have: the lower of two places keeps the lesser.
static void keep_better(Sort *s, const Mask *m, const Keys *other) {
    Gen *g = s->g;
    LLVMValueRef upper = NULL;
    if (m->top == BY_LANE || m->top == BY_WARP)
        upper = LLVMBuildICmp(g->B, LLVMIntNE,
                              LLVMBuildAnd(g->B, m->top == BY_LANE ? g->lane : g->warp, gen_i32(g, 1 << m->top_at), ""),
                              gen_i32(g, 0), "");
    for (int r = 0; r < s->n; r++) {
        if (!other[r].hi) continue;
        LLVMValueRef take = less(g, other[r], s->k[r]);
        if (upper) take = LLVMBuildXor(g->B, take, upper, "");
        else if (!below(s, m, r)) take = LLVMBuildNot(g->B, take, "");
        s->k[r] = choose(g, take, other[r], s->k[r]);
    }
}

static void across_lanes(Sort *s, const Mask *m, Keys *other) {
    Gen *g = s->g;
    for (int r = 0; r < s->n; r++) {
        int p = partner(s, m, r);
        other[r] = (Keys){NULL, NULL};
        if (p < 0) continue;
        other[r].hi = gen_shuffle_xor(g, s->k[p].hi, m->lane);
        if (s->k[p].lo) other[r].lo = gen_shuffle_xor(g, s->k[p].lo, m->lane);
    }
    keep_better(s, m, other);
}

// Slot (register, thread) in shared memory.
static void across_warps(Sort *s, const Mask *m, Keys *other) {
    Gen *g = s->g;
    int size = LLVMTypeOf(s->k[0].hi) == g->i32 ? 4 : 8, unit = size + (s->k[0].lo ? 8 : 0), row = g->f->warps * 32 * unit;
    LLVMValueRef area = gen_scratch(g, (uint32_t)(s->n * row));
    LLVMValueRef me = LLVMBuildOr(g->B, LLVMBuildShl(g->B, g->warp, gen_i32(g, 5), ""), g->lane, "");
    LLVMValueRef mine = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, me, gen_i32(g, unit), ""), area, "");
    LLVMValueRef it = LLVMBuildXor(g->B, me, gen_i32(g, m->warp << 5 | m->lane), "");
    LLVMValueRef its = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, it, gen_i32(g, unit), ""), area, "");
    gen_barrier(g);
    for (int r = 0; r < s->n; r++) {
        gen_put(g, LLVMBuildAdd(g->B, mine, gen_i32(g, r * row), ""), s->k[r].hi);
        if (s->k[r].lo) gen_put(g, LLVMBuildAdd(g->B, mine, gen_i32(g, r * row + 8), ""), s->k[r].lo);
    }
    gen_barrier(g);
    for (int r = 0; r < s->n; r++) {
        int p = partner(s, m, r);
        other[r] = (Keys){NULL, NULL};
        if (p < 0) continue;
        other[r].hi = gen_take(g, LLVMBuildAdd(g->B, its, gen_i32(g, p * row), ""), LLVMTypeOf(s->k[r].hi));
        if (s->k[r].lo)
            other[r].lo = gen_take(g, LLVMBuildAdd(g->B, its, gen_i32(g, p * row + 8), ""), LLVMTypeOf(s->k[r].lo));
    }
    keep_better(s, m, other);
}

static void network(Sort *s) {
    Keys *other = NEW_N(s->g->arena, Keys, s->n);
    int64_t size = (int64_t)s->count << s->bits;
    for (int64_t piece = 2; piece / 2 < size; piece *= 2)
        for (int64_t m = piece - 1; m > 0; m = m == piece - 1 ? piece / 4 : m / 2) {
            Mask k = mask_of(s, m);
            if (k.warp) across_warps(s, &k, other);
            else if (k.lane) across_lanes(s, &k, other);
            else within_lane(s, &k);
        }
}

// ---- the ops -------------------------------------------------------------------------------------

static Sort sort_open(Gen *g, const Op *op) {
    const Val *x = op->in[0];
    Sort s = {.g = g,
              .l = x->layout,
              .pos = type_axis(&x->type, op->in[1]),
              .n = layout_regs(x->layout),
              .count = 1,
              .stride = 1 << x->layout->nreg};
    s.bits = s.l->bits[s.pos];
    for (int i = 0, stride = s.stride; i < s.l->nrep; stride *= s.l->rep[i++].count)
        if (s.l->rep[i].axis == s.pos) { s.stride = stride; s.count = s.l->rep[i].count; }
    s.numbered = op->code == OP_T_order;
    return s;
}

// Bytes of a key as it crosses warps.
static int key_size(const Sort *s, Elem e) { return key_bits(e) / 8 * (s->numbered ? 2 : 1); }

uint32_t sort_room(Gen *g, const Op *op) {
    Sort s = sort_open(g, op);
    bool crosses = false;
    for (int b = 0, at; b < s.bits; b++) crosses |= layout_mover(s.l, s.pos, b, &at) == BY_WARP;
    return crosses ? (uint32_t)(s.n * g->f->warps * 32 * key_size(&s, (Elem)op->in[0]->type.elem)) : 0;
}

static void sort(Gen *g, Op *op, Sort *s) {
    Val *x = op->in[0], *axis = op->in[1];
    int bits = key_bits((Elem)x->type.elem);
    LLVMTypeRef t = key_type(g, bits);
    s->k = NEW_N(g->arena, Keys, s->n);
    for (int r = 0; r < s->n; r++) {
        LLVMValueRef v = to_key(g, x, r, op->flags), alive = gen_live(g, axis, x->layout, s->pos, r, 1);
        if (alive) v = LLVMBuildSelect(g->B, alive, v, end_key(t, bits, false), "");
        s->k[r] = (Keys){v, NULL};
        if (!s->numbered) continue;
        LLVMValueRef at = LLVMBuildAdd(g->B, gen_lane_coord(g, x->layout, s->pos),
                                       gen_i32(g, gen_reg_coord(x->layout, s->pos, r)), "");
        if (bits == 64) s->k[r].lo = at;
        else
            s->k[r].hi = LLVMBuildOr(g->B, LLVMBuildShl(g->B, LLVMBuildSExt(g->B, v, g->i64, ""), gen_i64(g, 32), ""),
                                     LLVMBuildZExt(g->B, at, g->i64, ""), "");
    }
    network(s);
}

void emit_sort(Gen *g, Op *op) {
    Sort s = sort_open(g, op);
    sort(g, op, &s);
    for (int r = 0; r < s.n; r++) gen_set(g, op->out[0], r, from_key(g, op->out[0], s.k[r].hi, op->flags));
}

void emit_order(Gen *g, Op *op) {
    Sort s = sort_open(g, op);
    bool narrow = gen_is32(g, op->out[0]);
    sort(g, op, &s);
    for (int r = 0; r < s.n; r++) {
        LLVMValueRef at = s.k[r].lo ? s.k[r].lo : LLVMBuildTrunc(g->B, s.k[r].hi, g->i32, "");
        gen_set(g, op->out[0], r, narrow ? at : LLVMBuildZExt(g->B, at, g->i64, ""));
    }
}

// ---- take: a tile in shared memory, row-major with the axis fastest, read at other places ---------

// by axis of x: coordinates that it has, bytes from one to the next
typedef struct Place { int64_t have, stride; } Place;

static int elem_room(Gen *g, const Val *x) { return gen_is32(g, x) ? 4 : elem_bytes((Elem)x->type.elem); }

static int64_t places(Gen *g, const Val *x, const Val *along, Place *p) {
    int fast = type_axis(&x->type, along);
    int64_t at = elem_room(g, x);
    for (int k = 0; k < x->type.rank; k++) {
        int i = k == 0 ? fast : k <= fast ? k - 1 : k;
        p[i] = (Place){layout_span(x->layout, i), at};
        at *= p[i].have;
    }
    return at;
}

uint32_t take_room(Gen *g, const Op *op) {
    Place p[MAX_AXES];
    return (uint32_t)places(g, op->in[0], op->in[2], p);
}

static LLVMValueRef at_most(Gen *g, LLVMValueRef x, int64_t top) {
    return gen_call(g, "llvm.umin", 2, (LLVMValueRef[]){x, gen_i32(g, top)}, 1, &g->i32);
}

static void write_tile(Gen *g, const Val *x, const Place *p, LLVMValueRef area) {
    LLVMValueRef owner = gen_owner(g, x->layout), at = area;
    LLVMBasicBlockRef write = NULL, go = NULL;
    if (owner) {
        write = gen_block(g, "put"); go = gen_block(g, "got");
        LLVMBuildCondBr(g->B, owner, write, go);
        LLVMPositionBuilderAtEnd(g->B, write);
    }
    for (int i = 0; i < x->type.rank; i++)
        at = LLVMBuildAdd(g->B, at, LLVMBuildMul(g->B, gen_lane_coord(g, x->layout, i), gen_i32(g, p[i].stride), ""),
                          "");
    for (int r = 0, n = layout_regs(x->layout); r < n; r++) {
        int64_t more = 0;
        for (int i = 0; i < x->type.rank; i++) more += gen_reg_coord(x->layout, i, r) * p[i].stride;
        gen_put(g, LLVMBuildAdd(g->B, at, gen_i32(g, more), ""), gen_get(g, x, r));
    }
    if (owner) { LLVMBuildBr(g->B, go); LLVMPositionBuilderAtEnd(g->B, go); }
}

void emit_take(Gen *g, Op *op) {
    Val *x = op->in[0], *order = op->in[1], *o = op->out[0];
    Place p[MAX_AXES];
    LLVMValueRef area = gen_scratch(g, (uint32_t)places(g, x, op->in[2], p));
    gen_barrier(g);
    write_tile(g, x, p, area);
    gen_barrier(g);
    int *reg = gen_reg_map(g, o, order);
    for (int r = 0, n = gen_tile(g, o)->n; r < n; r++) {
        LLVMValueRef at = area;
        for (int i = 0; i < x->type.rank; i++) {
            const Val *axis = x->type.axis[i];
            LLVMValueRef c;
            if (axis == op->in[2]) {
                c = gen_get(g, order, reg[r]);
                if (LLVMTypeOf(c) != g->i32) c = LLVMBuildTrunc(g->B, c, g->i32, "");
                c = at_most(g, c, p[i].have - 1);              // dead lanes may name any
            } else {
                int pos = type_axis(&o->type, axis);
                c = LLVMBuildAdd(g->B, gen_lane_coord(g, o->layout, pos), gen_i32(g, gen_reg_coord(o->layout, pos, r)), "");
                if (layout_span(o->layout, pos) > p[i].have) c = at_most(g, c, p[i].have - 1);
            }
            at = LLVMBuildAdd(g->B, at, LLVMBuildMul(g->B, c, gen_i32(g, p[i].stride), ""), "");
        }
        LLVMValueRef v = gen_take(g, at, gen_type(g, x));
        if (LLVMTypeOf(v) != gen_type(g, o))
            v = gen_is32(g, o) ? LLVMBuildTrunc(g->B, v, g->i32, "") : LLVMBuildSExt(g->B, v, g->i64, "");
        gen_set(g, o, r, v);
    }
}

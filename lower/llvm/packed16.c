// Small whole numbers and floats of few bits as bf16 or f16, two at a time, and what is computed with them.
//
//     ((q >> k % 2 * 4 & 15) as f32 - 8) * s[n]) as bf16          four bits, twice in each byte
//
//     t = q * 0x1001;  w = t & 0x000f000f | 0x43004300            128 + v in each half: the ulp of 128 is 1
//     w = w * 1 + (-136);  w = w * s                              v - 8, exactly; the product, rounded once as f32's would be
//
// A conversion from integers costs a quarter or a sixteenth of an addition's rate, and weights of few bits are little
// else; so where f32 has nothing that 16 bits have not, they are computed in 16 bits:
//
//     whole numbers up to 256 (bf16) or 2048 (f16)     of bytes, of fields of a byte or word, less or plus others: exact
//     such a number times one of the type              rounded once: f32's product is exact, and so is rounded once as well
//
// and then a conversion to 16 bits takes two registers from here. Bytes: 128 + (v & 127), less 128 or 256 as the sign
// says, which are the same bits but one (bf16); 1024 + (v ^ 128) and one addition (f16).
//
// Floats of few bits are decoded by putting exponent and fraction where those of an f32 end and begin, which makes
// subnormal numbers of theirs and of f32's alike, and one product with a power of two:
//
//     (bitcast<f32>((c & 8) << 28 | (c & 7) << 22) * 2^126 * s[n]) as bf16         c = q >> k % 2 * 4 & 15: E2M1
//
//     w = q * 0x01001000 & 0x80008000 | q * 0x00040040 & 0x01c001c0                bf16 is the upper half of f32
//     w = w * 2^126;  w = w * s                                                    both exact, or the latter rounded once
//
// So are any fields of one word that are masked and moved. f16 has less between sign and fraction, and its power of two is
// 2^112 times less. They may be multiplied by what the type holds, numbers of 8 bits, and those that are bits themselves
// (scales of E8M0): which bits an integer may have set says how large a number is, and of what it is a multiple.
//
// Results are those of f32 to the bit.
#include "lower/llvm/gen.h"
#include "lang/number.h"

#include <math.h>
#include <string.h>

typedef struct Half { LLVMValueRef w; double plus; } Half;      // w + plus in each half; w NULL: not known

typedef struct Halves {
    Gen   *g;
    Elem   e;                    // bf16 or f16
    double most;                 // whole numbers up to this are exact
    uint32_t one;                // a number whose ulp is 1: what lies in its lowest bits is added to it
    double   one_is;
    int      bits;               // that are free there
} Halves;

static Halves halves_of(Gen *g, Elem e) {
    bool bf = e == EL_bf16;
    return (Halves){g, e, bf ? 256 : 2048, bf ? 0x43004300 : 0x64006400, bf ? 128 : 1024, bf ? 7 : 10};
}

static LLVMValueRef both_halves(const Halves *h, double x) {
    uint32_t b = h->e == EL_bf16 ? bf16_from_f32((float)x) : f16_from_f32((float)x);
    return gen_i32(h->g, (int64_t)(int32_t)(b << 16 | b));
}

static LLVMValueRef fma2(const Halves *h, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    LLVMValueRef in[] = {a, b, c};
    return gen_asm(h->g, h->g->i32, h->e == EL_bf16 ? "fma.rn.bf16x2 $0, $1, $2, $3;" : "fma.rn.f16x2 $0, $1, $2, $3;",
                   "=r,r,r,r", 3, in, false, false);
}

// (x & mask) | with, in one instruction: written as two, each with a number of its own, it stays two.
// of lop3: x & mask, ~x & mask, x ^ mask; where the third has bits the first, else the second
typedef enum Mask { MASKED = 0xea, INVERTED = 0xae, FLIPPED = 0xbe, HALF_OF_EACH = 0xe4 } Mask;
static const char lop3[] = "lop3.b32 $0, $1, $2, $3, $4;";

static LLVMValueRef masked(Gen *g, Mask how, LLVMValueRef x, int64_t mask, int64_t with) {
    LLVMValueRef in[] = {x, gen_i32(g, (int64_t)(int32_t)mask), gen_i32(g, (int64_t)(int32_t)with), gen_i32(g, how)};
    return gen_asm(g, g->i32, lop3, "=r,r,r,r,n", 4, in, false, false);
}

// (x & mask) | with
static LLVMValueRef masked_with(Gen *g, LLVMValueRef x, uint32_t mask, LLVMValueRef with) {
    LLVMValueRef in[] = {x, gen_i32(g, (int64_t)(int32_t)mask), with, gen_i32(g, MASKED)};
    return gen_asm(g, g->i32, lop3, "=r,r,r,r,n", 4, in, false, false);
}

static LLVMValueRef product(const Halves *h, LLVMValueRef a, LLVMValueRef b) { return fma2(h, a, b, gen_i32(h->g, (int64_t)(int32_t)0x80008000)); }

static LLVMValueRef settled(const Halves *h, Half x) {
    return x.plus == 0 ? x.w : fma2(h, x.w, both_halves(h, 1), both_halves(h, x.plus));
}

// ---- whole numbers -------------------------------------------------------------------------------

static bool number_of(const Val *v, double *x) {
    const Op *d = v->def;
    while (d && d->code == OP_T_splat) d = d->in[0]->def;
    if (!d || d->code != OP_T_const) return false;
    if (!elem_is_float((Elem)d->out[0]->type.elem)) *x = (double)d->imm;
    else memcpy(x, &d->imm, sizeof *x);
    return true;
}

// The least and the greatest of a value of f32 that is a whole number.
static bool whole_range(Gen *g, const Val *v, double *lo, double *hi) {
    const Op *d = v->def;
    double a[2], b[2];
    if (number_of(v, lo)) { *hi = *lo; return *lo == (double)(int64_t)*lo; }
    if (!d) return false;
    if (d->code == OP_T_splat) return whole_range(g, d->in[0], lo, hi);
    if (d->code == OP_T_cast && !elem_is_float((Elem)d->in[0]->type.elem) && d->in[0]->type.elem != EL_bool) {
        Range r = fact_range(g->facts, d->in[0]);
        *lo = (double)r.lo;
        *hi = (double)r.hi;
        return true;
    }
    if (d->code != OP_T_binary || (d->sub != OP_add && d->sub != OP_sub)) return false;
    if (!whole_range(g, d->in[0], a, b) || !whole_range(g, d->in[1], a + 1, b + 1)) return false;
    *lo = d->sub == OP_add ? a[0] + a[1] : a[0] - b[1];
    *hi = d->sub == OP_add ? b[0] + b[1] : b[0] - a[1];
    return true;
}

static bool small(const Halves *h, const Val *v) {
    double lo, hi;
    return whole_range(h->g, v, &lo, &hi) && lo >= -h->most && hi <= h->most;
}

// What is no more than another integer in another type, which holds all that it can be.
static const Val *narrow(const Halves *h, const Val *v) {
    for (const Op *d = v->def;
         d && (d->code == OP_T_cast || d->code == OP_T_splat) && d->in[0]->type.rank == v->type.rank; d = v->def) {
        Elem from = (Elem)d->in[0]->type.elem, to = (Elem)v->type.elem;
        if (elem_is_float(from) || from == EL_bool) break;
        Range r = fact_range(h->g->facts, d->in[0]);
        int bits = elem_bits(to) - elem_is_signed(to);
        if (bits < 63 && (r.hi >= (int64_t)1 << bits || r.lo < (elem_is_signed(to) ? -((int64_t)1 << bits) : 0))) break;
        v = d->in[0];
    }
    return v;
}

// How much more register b of v is than register a: arithmetic with an axis's lanes, which the layout tells apart.
static bool apart(Gen *g, const Val *v, int a, int b, int64_t *by) {
    const Op *d = v->def, *c = d && d->nin > 1 ? d->in[1]->def : NULL;
    int64_t x, y;
    if (!d || v->type.rank > 1) return false;
    *by = 0;
    if (v->type.rank == 0) return true;
    if (d->code == OP_T_cast || d->code == OP_T_splat) return apart(g, d->in[0], a, b, by);
    if (d->code == OP_T_index) { *by = gen_reg_coord(v->layout, 0, b) - gen_reg_coord(v->layout, 0, a); return true; }
    if (d->code != OP_T_binary || !c) return false;
    if (d->sub == OP_add && d->in[0]->type.rank && d->in[1]->type.rank) {
        if (!apart(g, d->in[0], a, b, &x) || !apart(g, d->in[1], a, b, &y)) return false;
        *by = x + y;
        return true;
    }
    if (d->sub == OP_add) return apart(g, d->in[d->in[0]->type.rank == 0], a, b, by);
    if (c->code != OP_T_const) return false;
    if (d->sub == OP_mul) {
        if (!apart(g, d->in[0], a, b, &x)) return false;
        *by = x * c->imm;
        return true;
    }
    const Op *k = d->in[0]->def;                                // k % c, k / c, c a power of two that divides where k begins
    if ((d->sub != OP_rem && d->sub != OP_div) || !k || k->code != OP_T_index || k->in[0]->def->nin > 2 || c->imm < 1 ||
        (c->imm & (c->imm - 1)) || fact_divisor(g->facts, axis_lo(k->in[0])) % c->imm)
        return false;
    int64_t at_a = gen_reg_coord(v->layout, 0, a), at_b = gen_reg_coord(v->layout, 0, b);
    *by = d->sub == OP_div ? at_b / c->imm - at_a / c->imm : (at_b & (c->imm - 1)) - (at_a & (c->imm - 1));
    return true;
}

// Registers a and b are alive together.
static bool alive_alike(Gen *g, const Val *v, int a, int b) {
    for (int i = 0; i < v->type.rank; i++) {
        int64_t differ = gen_reg_coord(v->layout, i, a) ^ gen_reg_coord(v->layout, i, b), block = 1;
        while (block <= differ) block *= 2;
        if (block > 1 && !gen_always_live(g, v->type.axis[i], v->layout, i) &&
            (fact_divisor(g->facts, axis_lo(v->type.axis[i])) % block || !fact_known_multiple(g->facts, axis_hi(v->type.axis[i]), block)))
            return false;
    }
    return true;
}

// Both have the same element.
static bool same_element(Gen *g, const Val *v, int a, int b) {
    const Op *d = v->def;
    int64_t by;
    if (a == b || gen_get(g, v, a) == gen_get(g, v, b)) return true;
    if (!d || d->code != OP_T_load || (d->flags & HAS_ELSE) || !alive_alike(g, v, a, b)) return false;
    for (int i = 0; i < d->nidx; i++) {
        int *map = gen_reg_map(g, v, d->in[1 + i]);
        if (!apart(g, d->in[1 + i], map[a], map[b], &by) || by) return false;
    }
    return true;
}

// Bytes of two registers that lie in one word, each in a half of its own.
static LLVMValueRef bytes_apart(Gen *g, const Val *v, int a, int b) {
    const Reg *x = &gen_tile(g, v)->r[a], *y = &gen_tile(g, v)->r[b];
    if (!x->word || x->word != y->word) return NULL;
    LLVMValueRef in[] = {x->word, gen_i32(g, 0), gen_i32(g, 0x4040 | (int)x->part | (int)y->part << 8)};
    return gen_call(g, "llvm.nvvm.prmt", 3, in, 0, NULL);
}

static Half of_bytes(const Halves *h, const Val *v, int a, int b) {
    Gen *g = h->g;
    LLVMValueRef p = bytes_apart(g, v, a, b);
    bool sign = v->type.elem == EL_i8;
    if (!p) return (Half){0};
    if (h->e == EL_f16) {
        return (Half){masked(g, FLIPPED, p, sign ? 0x00800080 : 0, h->one), sign ? -1024 - 128 : -1024};
    }
    LLVMValueRef low = masked(g, MASKED, p, 0x007f007f, h->one);
    // 128, or 256: with the sign of a subtrahend
    LLVMValueRef top = masked(g, sign ? MASKED : INVERTED, p, 0x00800080, 0xc300c300);
    return (Half){fma2(h, low, both_halves(h, 1), top), sign ? 0 : 128};
}

// What two registers have in one word of p, `wide` bits: p >> s, the second's `by` bits further up.
typedef struct Twins { LLVMValueRef word; int64_t by; int wide; } Twins;

static bool twins(const Halves *h, const Val *v, int a, int b, Twins *t) {
    Gen *g = h->g;
    const Op *shr = v->def && v->def->code == OP_T_binary && v->def->sub == OP_shr ? v->def : NULL;
    if (!shr) return false;
    const Val *p = narrow(h, shr->in[0]), *s = shr->in[1];
    t->wide = elem_bits((Elem)p->type.elem);
    if (elem_is_signed((Elem)p->type.elem) || t->wide > 32 || p->type.rank != v->type.rank) return false;
    int *map = gen_reg_map(g, v, s);
    if (!same_element(g, p, a, b) || !apart(g, s, map[a], map[b], &t->by) || t->by <= 0 || t->by > 16) return false;
    t->word = gen_get(g, p, a);
    if (t->wide < 32) t->word = LLVMBuildZExt(g->B, t->word, g->i32, "");
    LLVMValueRef from = gen_get(g, s, map[a]);
    if (LLVMTypeOf(from) == g->i64) from = LLVMBuildTrunc(g->B, from, g->i32, "");
    else if (LLVMTypeOf(from) != g->i32) from = LLVMBuildZExt(g->B, from, g->i32, "");
    if (!LLVMIsConstant(from) || !LLVMIsNull(from)) t->word = LLVMBuildLShr(g->B, t->word, from, "");
    return true;
}

static LLVMValueRef moved(Gen *g, LLVMValueRef x, int left) {
    return left > 0 ? LLVMBuildShl(g->B, x, gen_i32(g, left), "") : left < 0 ? LLVMBuildLShr(g->B, x, gen_i32(g, -left), "") : x;
}

// Both of them in a half each, `left` bits further up; what else is there is to be masked.
static LLVMValueRef spread(const Halves *h, Twins t, int left) {
    Gen *g = h->g;
    if (t.wide <= 16 - t.by && left >= 0)                       // nothing meets
        return LLVMBuildMul(g->B, t.word, gen_i32(g, (int64_t)1 << left | (int64_t)1 << (left + 16 - t.by)), "");
    LLVMValueRef in[] = {t.by < 16 ? LLVMBuildShl(g->B, t.word, gen_i32(g, 16 - t.by), "") : t.word, t.word,
                         gen_i32(g, (int64_t)(int32_t)0xffff0000), gen_i32(g, HALF_OF_EACH)};
    return moved(g, gen_asm(g, g->i32, lop3, "=r,r,r,r,n", 4, in, false, false), left);
}

// A field of few bits in each of two registers, (p >> s) & mask, where p is the same in both.
static Half of_field(const Halves *h, const Val *v, int a, int b) {
    const Op *and = v->def;
    double mask = 0;
    bool has = and && and->code == OP_T_binary && and->sub == OP_and && number_of(and->in[1], &mask);
    int64_t field = has ? (int64_t)mask : fact_range(h->g->facts, v).hi;
    Twins t;
    if (field < 1 || (field & (field + 1)) || field >= (int64_t)1 << h->bits ||
        !twins(h, has ? narrow(h, and->in[0]) : v, a, b, &t))
        return (Half){0};
    return (Half){masked(h->g, MASKED, spread(h, t, 0), field << 16 | field, h->one), -h->one_is};
}

// A whole number that both registers have.
static Half of_one(const Halves *h, const Val *v, int a) {
    Gen *g = h->g;
    LLVMValueRef x = gen_get(g, v, a);
    if (!elem_is_float((Elem)v->type.elem))
        x = elem_is_signed((Elem)v->type.elem) ? LLVMBuildSIToFP(g->B, x, g->f32, "")
                                               : LLVMBuildUIToFP(g->B, x, g->f32, "");
    x = LLVMBuildZExt(g->B, gen_from_f32(g, x, h->e), g->i32, "");
    return (Half){gen_call(g, "llvm.nvvm.prmt", 3, (LLVMValueRef[]){x, gen_i32(g, 0), gen_i32(g, 0x1010)}, 0, NULL), 0};
}

static bool within(const Halves *h, const Val *v) {
    Range r = fact_range(h->g->facts, v);
    return (double)r.lo >= -h->most && (double)r.hi <= h->most;
}

static Half of_integers(const Halves *h, const Val *v, int a, int b);
static Half joined(const Halves *h, bool less, Half p, Half q, double most);

// The greatest that its magnitude can be.
static double greatest(const Halves *h, const Val *v) {
    double lo, hi;
    Range r = elem_is_float((Elem)v->type.elem) ? (Range){0, 0} : fact_range(h->g->facts, v);
    if (!elem_is_float((Elem)v->type.elem)) lo = (double)r.lo, hi = (double)r.hi;
    else if (!whole_range(h->g, v, &lo, &hi)) return INFINITY;
    return -lo > hi ? -lo : hi;
}

// A sum or difference of such, as integers or as f32.
static Half of_sum(const Halves *h, const Op *d, int a, int b, Half (*of)(const Halves *, const Val *, int, int)) {
    double x;
    int *first = gen_reg_map(h->g, d->out[0], d->in[0]), *second = gen_reg_map(h->g, d->out[0], d->in[1]);
    Half p = of(h, d->in[0], first[a], first[b]);
    if (p.w && number_of(d->in[1], &x)) {
        p.plus += d->sub == OP_sub ? -x : x;
        return p;
    }
    return p.w ? joined(h, d->sub == OP_sub, p, of(h, d->in[1], second[a], second[b]), greatest(h, d->in[1])) : p;
}

static Half of_integers(const Halves *h, const Val *v, int a, int b) {
    const Val *x = narrow(h, v);
    const Op *d = x->def;
    double c;
    if (!within(h, x)) return (Half){0};
    if (number_of(x, &c)) return (Half){both_halves(h, c), 0};
    if (a == b || gen_get(h->g, x, a) == gen_get(h->g, x, b)) return of_one(h, x, a);
    if (x->type.elem == EL_i8 || x->type.elem == EL_u8) {
        Half bytes = of_bytes(h, x, a, b);
        if (bytes.w) return bytes;
    }
    if (d && d->code == OP_T_binary && (d->sub == OP_add || d->sub == OP_sub)) return of_sum(h, d, a, b, of_integers);
    return of_field(h, x, a, b);
}

// ---- values --------------------------------------------------------------------------------------

static Half of_value(const Halves *h, const Val *v, int a, int b);

// One number in both halves.
static LLVMValueRef doubled(const Halves *h, const Val *v, int a) {
    Gen *g = h->g;
    LLVMValueRef x = LLVMBuildZExt(g->B, gen_get(g, v, a), g->i32, "");
    return gen_call(g, "llvm.nvvm.prmt", 3, (LLVMValueRef[]){x, gen_i32(g, 0), gen_i32(g, 0x1010)}, 0, NULL);
}

// Registers a and b of a value of the type itself.
static LLVMValueRef stored(const Halves *h, const Val *v, int a, int b) {
    if (a == b || (gen_tile(h->g, v)->r[a].v && gen_tile(h->g, v)->r[a].v == gen_tile(h->g, v)->r[b].v))
        return doubled(h, v, a);
    return b == a + 1 && a % 2 == 0 ? gen_word(h->g, v, a, 2) : NULL;
}

static Half of_operand(const Halves *h, const Op *d, int i, int a, int b) {
    int *map = gen_reg_map(h->g, d->out[0], d->in[i]);
    return of_value(h, d->in[i], map[a], map[b]);
}

// Exactly v, of f32 and whole, in registers a and b.
static Half of_value(const Halves *h, const Val *v, int a, int b) {
    const Op *d = v->def;
    double x;
    if (number_of(v, &x)) return (Half){both_halves(h, x), 0};
    if (!d || !small(h, v)) return (Half){0};
    if (a == b || gen_get(h->g, v, a) == gen_get(h->g, v, b)) return of_one(h, v, a);
    if (d->code == OP_T_splat) return of_operand(h, d, 0, a, b);
    if (d->code == OP_T_cast) return of_integers(h, d->in[0], a, b);
    return d->code == OP_T_binary && (d->sub == OP_add || d->sub == OP_sub) ? of_sum(h, d, a, b, of_value) : (Half){0};
}

// What is added to p is moved to q, which is often one number for many, where q has room for it.
static Half joined(const Halves *h, bool less, Half p, Half q, double most) {
    if (!p.w || !q.w) return (Half){0};
    if (most + fabs(p.plus) > h->most) p = (Half){settled(h, p), 0};
    q.plus = less ? q.plus - p.plus : q.plus + p.plus;
    LLVMValueRef y = settled(h, q);
    return (Half){less ? fma2(h, y, both_halves(h, -1), p.w) : fma2(h, y, both_halves(h, 1), p.w), 0};
}

// ---- floats of few bits --------------------------------------------------------------------------

enum { MOST_PARTS = 4, DEPTH = 8, LEAST_F32 = -149, LEAST_BF16 = -133, LEAST_F16 = -24, APART_F16 = 112 };      // APART_F16: of its exponents and f32's
static const uint32_t SIGN = 0x80000000;

typedef struct Part { int left; uint32_t mask; } Part;          // (root << left) & mask
typedef struct Fields { const Val *root; int a, b, n; Part part[MOST_PARTS]; } Fields;
// In each half, exactly. w NULL: not known; it is a multiple of 2^unit; made: of both at once, by fewer instructions than each by itself
typedef struct Exact { LLVMValueRef w; int unit; bool made; } Exact;

static uint32_t shifted(uint32_t x, int left) {
    return left >= 32 || left <= -32 ? 0 : left >= 0 ? x << left : x >> -left;
}

static uint32_t up_to(int64_t hi) { return hi >> 32 ? UINT32_MAX : hi ? UINT32_MAX >> __builtin_clz((uint32_t)hi) : 0; }

static bool never_negative(const Halves *h, const Val *v) {
    return !elem_is_float((Elem)v->type.elem) && fact_range(h->g->facts, v).lo >= 0;
}

static bool count_of(const Val *v, int64_t *c) {
    double x;
    bool is = !elem_is_float((Elem)v->type.elem) && number_of(v, &x) && fabs(x) < 0x1p53;
    if (is) *c = (int64_t)x;
    return is;
}

// The bits that an integer may have set, of the lower 32.
static uint32_t may_have(const Halves *h, const Val *v, int depth) {
    const Op *d = v->def;
    int64_t c;
    uint32_t all = never_negative(h, v) ? up_to(fact_range(h->g->facts, v).hi) : UINT32_MAX, x;
    if (count_of(v, &c)) return (uint32_t)c;
    if (!d || !depth || elem_bits((Elem)v->type.elem) > 32) return all;
    if (d->code == OP_T_splat || (d->code == OP_T_cast && never_negative(h, d->in[0]))) return all & may_have(h, d->in[0], depth - 1);
    if (d->code == OP_T_select || (d->code == OP_T_fun && (d->sub == TF_max || d->sub == TF_min)))
        return all & (may_have(h, d->in[d->nin - 1], depth - 1) | may_have(h, d->in[d->nin - 2], depth - 1));
    if (d->code != OP_T_binary) return all;
    bool by = count_of(d->in[1], &c) && c >= 0 && c < 32;
    switch (d->sub) {
    case OP_and: return all & may_have(h, d->in[0], depth - 1) & may_have(h, d->in[1], depth - 1);
    case OP_or: case OP_xor: return all & (may_have(h, d->in[0], depth - 1) | may_have(h, d->in[1], depth - 1));
    case OP_shl: case OP_shr:
        x = by && (d->sub == OP_shl || never_negative(h, d->in[0])) ? may_have(h, d->in[0], depth - 1) : UINT32_MAX;
        return by ? all & shifted(x, d->sub == OP_shl ? (int)c : -(int)c) : all;
    default: return all;
    }
}

static bool put_part(const Halves *h, const Val *v, int a, int b, Part p, Fields *f) {
    int i = 0;
    if (f->root && (f->root != v || f->a != a || f->b != b)) return false;
    f->root = v;
    f->a = a;
    f->b = b;
    p.mask &= shifted(may_have(h, v, DEPTH), p.left);
    while (i < f->n && f->part[i].left != p.left) i++;
    if (i == MOST_PARTS) return false;
    if (i == f->n) f->part[f->n++] = (Part){p.left, 0};
    f->part[i].mask |= p.mask;
    return true;
}

// An integer as parts of another one, each moved to its place.
static bool fields(const Halves *h, const Val *v, int a, int b, Part p, Fields *f) {
    const Op *d = v->def;
    int64_t c = 0;
    int bits = elem_bits((Elem)v->type.elem);
    if (elem_is_float((Elem)v->type.elem) || v->type.elem == EL_bool || !v->type.rank) return false;
    if (bits > 32 && (!never_negative(h, v) || fact_range(h->g->facts, v).hi > UINT32_MAX)) return false;
    p.mask &= shifted(bits < 32 ? (1u << bits) - 1 : UINT32_MAX, p.left);
    if (!d || (d->code != OP_T_cast && d->code != OP_T_binary)) return put_part(h, v, a, b, p, f);
    int *map = gen_reg_map(h->g, v, d->in[0]), a0 = map[a], b0 = map[b];
    if (d->code == OP_T_cast)
        return never_negative(h, d->in[0]) ? fields(h, d->in[0], a0, b0, p, f) : put_part(h, v, a, b, p, f);
    if (d->sub == OP_or) {
        map = gen_reg_map(h->g, v, d->in[1]);
        return fields(h, d->in[0], a0, b0, p, f) && fields(h, d->in[1], map[a], map[b], p, f);
    }
    bool counted = count_of(d->in[1], &c), by = counted && c >= 0 && c < 32;
    if (d->sub == OP_and && counted) {
        p.mask &= shifted((uint32_t)c, p.left);
        return fields(h, d->in[0], a0, b0, p, f);
    }
    if ((d->sub == OP_shl && by) || (d->sub == OP_shr && by && never_negative(h, d->in[0]))) {
        p.left += d->sub == OP_shl ? (int)c : -(int)c;
        return fields(h, d->in[0], a0, b0, p, f);
    }
    return put_part(h, v, a, b, p, f);
}

// The bits of two f32 as those of the type, in a half each: their upper ones (bf16), or sign and the end of the magnitude (f16).
static LLVMValueRef placed(const Halves *h, const Val *v, int a, int b) {
    Gen *g = h->g;
    Fields f = {0};
    Twins t;
    LLVMValueRef w = NULL, bytes = NULL;
    if (!fields(h, v, a, b, (Part){0, UINT32_MAX}, &f) || !f.root) return NULL;
    if (!twins(h, f.root, f.a, f.b, &t) && (f.root->type.elem != EL_u8 || !(bytes = bytes_apart(g, f.root, f.a, f.b)))) return NULL;
    for (int i = 0; i < 2 * f.n; i++) {
        bool rest = i % 2;                                      // of f16, which has less between sign and fraction
        int drop = rest ? 13 : 16, left = f.part[i / 2].left - drop;
        uint32_t m = f.part[i / 2].mask & (h->e == EL_bf16 ? rest ? 0 : UINT32_MAX : rest ? ~SIGN : SIGN);
        if (!(m >>= drop)) continue;
        if (shifted(m, -left) >> 16) return NULL;
        LLVMValueRef x = bytes ? moved(g, bytes, left) : spread(h, t, left);
        w = w ? masked_with(g, x, m << 16 | m, w) : LLVMBuildAnd(g->B, x, gen_i32(g, (int64_t)(int32_t)(m << 16 | m)), "");
    }
    return w;
}

// The upper halves of two f32 that have nothing in the lower ones.
static LLVMValueRef upper(Gen *g, const Val *v, int a, int b) {
    LLVMValueRef in[] = {LLVMBuildBitCast(g->B, gen_get(g, v, a), g->i32, ""), LLVMBuildBitCast(g->B, gen_get(g, v, b), g->i32, ""),
                         gen_i32(g, 0x7632)};
    return gen_call(g, "llvm.nvvm.prmt", 3, in, 0, NULL);
}

// The f32 that an integer's bits are, times 2^p.
static Exact of_bits(const Halves *h, const Val *v, int a, int b, int p) {
    bool bf = h->e == EL_bf16;
    const Op *d = v->def;
    uint32_t m = may_have(h, d->in[0], DEPTH), magnitude = m & ~SIGN;
    float most;
    memcpy(&most, &magnitude, sizeof most);
    Exact x = {.unit = (magnitude & 0x7fffff ? __builtin_ctz(magnitude) : 23) + LEAST_F32 + p};
    bool finite = ldexp(most, p) <= (bf ? 0x1.fep127 : 65504);
    if (bf ? m & 0xffff : m & 0x1fff || magnitude >> 23 > 30) return x;
    if ((p || !bf) && (!finite || x.unit < (bf ? LEAST_BF16 : LEAST_F16))) return x;
    int by = bf ? p : p - APART_F16;
    if (by < (bf ? LEAST_BF16 : LEAST_F16) || by > (bf ? 127 : 15)) return x;
    x.w = placed(h, d->in[0], a, b);
    x.made = x.w && finite;
    if (!x.w && bf) x.w = upper(h->g, v, a, b);
    if (x.w && by) x.w = product(h, x.w, both_halves(h, ldexp(1, by)));
    return x;
}

static bool power_of_two(const Val *v, int *p) {
    double x;
    bool is = number_of(v, &x) && frexp(x, p) == 0.5;
    --*p;
    return is;
}

// Exactly v, of f32, in registers a and b.
static Exact of_factor(const Halves *h, const Val *v, int a, int b) {
    const Op *d = v->def;
    int p;
    if (small(h, v)) {
        Half x = of_value(h, v, a, b);
        return (Exact){x.w ? settled(h, x) : NULL, 0, true};
    }
    if (!d || (d->code != OP_T_splat && d->code != OP_T_cast && d->code != OP_T_bitcast && d->code != OP_T_binary)) return (Exact){0};
    const Val *x = d->in[0];
    int *map = gen_reg_map(h->g, v, x);
    if (d->code == OP_T_splat) return of_factor(h, x, map[a], map[b]);
    if (d->code == OP_T_cast && (Elem)x->type.elem == h->e) return (Exact){stored(h, x, map[a], map[b]), h->e == EL_bf16 ? LEAST_BF16 : LEAST_F16, false};
    if (d->code == OP_T_cast && h->e == EL_bf16 && (x->type.elem == EL_f8e4m3 || x->type.elem == EL_f8e5m2))
        return (Exact){upper(h->g, v, a, b), x->type.elem == EL_f8e4m3 ? -9 : -16, false};
    if (d->code == OP_T_bitcast) return of_bits(h, v, a, b, 0);
    if (d->code != OP_T_binary || d->sub != OP_mul || !x->def || x->def->code != OP_T_bitcast || !power_of_two(d->in[1], &p)) return (Exact){0};
    return of_bits(h, x, map[a], map[b], p);
}

// ---- the conversion ------------------------------------------------------------------------------

static LLVMValueRef pair(const Halves *h, const Val *v, int a, int b) {
    const Op *d = v->def;
    if (!elem_is_float((Elem)v->type.elem)) {
        Half x = of_integers(h, v, a, b);
        return x.w ? settled(h, x) : NULL;
    }
    if (v->type.elem != EL_f32) return NULL;
    if (small(h, v)) {
        Half x = of_value(h, v, a, b);
        return x.w ? settled(h, x) : NULL;
    }
    Exact x = of_factor(h, v, a, b);
    if (x.w && x.made) return x.w;
    if (!d || d->code != OP_T_binary || d->sub != OP_mul) return NULL;
    int *p = gen_reg_map(h->g, v, d->in[0]), *q = gen_reg_map(h->g, v, d->in[1]);
    x = of_factor(h, d->in[0], p[a], p[b]);
    Exact y = x.w ? of_factor(h, d->in[1], q[a], q[b]) : x;
    return y.w && (x.made || y.made) && x.unit + y.unit >= LEAST_F32 ? product(h, x.w, y.w) : NULL;
}

bool gen_halves(Gen *g, const Op *cast, int reg) {
    Elem e = (Elem)cast->out[0]->type.elem;
    const Val *x = cast->in[0];
    if ((e != EL_bf16 && e != EL_f16) || x->type.rank == 0 || x->type.elem == EL_bool) return false;
    if (e == EL_bf16 && !g->opt->target->has_bf16) return false;
    Halves h = halves_of(g, e);
    int *map = gen_reg_map(g, cast->out[0], x);
    LLVMValueRef w = pair(&h, x, map[reg], map[reg + 1]);
    if (w) gen_set_word(g, cast->out[0], reg, 2, w);
    return w != NULL;
}

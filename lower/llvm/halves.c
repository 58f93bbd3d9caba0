// Small whole numbers as bf16 or f16, two at a time, and what is computed with them.
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
// says, which are the same bits but one (bf16); 1024 + (v ^ 128) and one addition (f16). Results are those of f32 to
// the bit.
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
    const Op *k = d->in[0]->def;                                // k % c, c a power of two that divides where k begins
    if (d->sub != OP_rem || !k || k->code != OP_T_index || c->imm < 1 || (c->imm & (c->imm - 1)) ||
        fact_divisor(g->facts, axis_lo(k->in[0])) % c->imm)
        return false;
    *by = (gen_reg_coord(v->layout, 0, b) & (c->imm - 1)) - (gen_reg_coord(v->layout, 0, a) & (c->imm - 1));
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

// A field of `n` bits in each of two registers, (p >> s) & mask, where p is the same in both.
static Half of_field(const Halves *h, const Val *v, int a, int b) {
    Gen *g = h->g;
    const Op *and = v->def, *shr;
    double mask = 0;
    bool has = and && and->code == OP_T_binary && and->sub == OP_and && number_of(and->in[1], &mask);
    const Val *x = has ? narrow(h, and->in[0]) : v;
    shr = x->def && x->def->code == OP_T_binary && x->def->sub == OP_shr ? x->def : NULL;
    if (!shr) return (Half){0};
    const Val *p = narrow(h, shr->in[0]), *s = shr->in[1];
    int wide = elem_bits((Elem)p->type.elem);
    Range r = fact_range(g->facts, v);
    int64_t field = has ? (int64_t)mask : r.hi, by;
    if (field < 1 || (field & (field + 1)) || field >= (int64_t)1 << h->bits || elem_is_signed((Elem)p->type.elem) ||
        wide > 32 || p->type.rank != v->type.rank)
        return (Half){0};
    int *map = gen_reg_map(g, v, s);
    LLVMValueRef word = gen_get(g, p, a);
    if (word != gen_get(g, p, b) || !apart(g, s, map[a], map[b], &by) || by <= 0 || by > 16) return (Half){0};
    if (wide < 32) word = LLVMBuildZExt(g->B, word, g->i32, "");
    LLVMValueRef from = gen_get(g, s, map[a]);
    if (LLVMTypeOf(from) == g->i64) from = LLVMBuildTrunc(g->B, from, g->i32, "");
    else if (LLVMTypeOf(from) != g->i32) from = LLVMBuildZExt(g->B, from, g->i32, "");
    if (!LLVMIsConstant(from) || !LLVMIsNull(from)) word = LLVMBuildLShr(g->B, word, from, "");
    if (wide <= 16 && wide <= 32 - by) {
        // nothing meets: a field has no more bits than it is apart
        word = LLVMBuildMul(g->B, word, gen_i32(g, 1 | (int64_t)1 << (16 - by)), "");
    } else {
        LLVMValueRef in[] = {by < 16 ? LLVMBuildShl(g->B, word, gen_i32(g, 16 - by), "") : word, word,
                             gen_i32(g, (int64_t)(int32_t)0xffff0000), gen_i32(g, HALF_OF_EACH)};
        word = gen_asm(g, g->i32, lop3, "=r,r,r,r,n", 4, in, false, false);
    }
    return (Half){masked(g, MASKED, word, field << 16 | field, h->one), -h->one_is};
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

// ---- the conversion ------------------------------------------------------------------------------

static LLVMValueRef pair(const Halves *h, const Val *v, int a, int b) {
    Gen *g = h->g;
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
    if (!d || d->code != OP_T_binary || d->sub != OP_mul) return NULL;
    for (int i = 0; i < 2; i++) {
        const Op *other = d->in[1 - i]->def;
        while (other && other->code == OP_T_splat && other->in[0]->type.elem == EL_f32) other = other->in[0]->def;
        if (!small(h, d->in[i]) || !other || other->code != OP_T_cast || (Elem)other->in[0]->type.elem != h->e) continue;
        int *map = gen_reg_map(g, v, other->in[0]);
        LLVMValueRef s = stored(h, other->in[0], map[a], map[b]);
        Half x = s ? of_operand(h, d, i, a, b) : (Half){0};
        if (x.w) return fma2(h, settled(h, x), s, gen_i32(g, (int64_t)(int32_t)0x80008000));
    }
    return NULL;
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

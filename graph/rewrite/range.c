// Where a factor may go. Every rewrite that moves a factor (a scale, a division, a mean's count) asks here.
//
// The rule. A rewrite replaces some values c * v that the model has by v (the factor is applied later), or v by c * v (earlier). Each
// replaced value must stay in the range of the type that holds it wherever the model's value does:
//
//     at the large end   what is new is no larger than what the model has there, or a bound of it is known that is in the range
//     at the small end   what is new is no smaller, or smaller by FEW_BITS at most in a type of f32's exponents (f32, bf16, tf32, f64). Such a
//                        type underflows gradually: that costs no more than those bits of numbers below 2^-118. f16 has no such room.
//
// Why that is enough. A sum of products is linear: where all terms are multiplied by one factor, all partial sums are, whatever their order.
// So the terms' factor speaks for all partial sums:
//
//     sum (c a) b  ->  c sum a b        |c| > 1: terms, partial sums and a are smaller by c; |c| < 1: larger, so a bound has to be known
//     sum (c a) b  ->  sum a (c b)      the terms are the same numbers; only a and c b are new
//     sum x        ->  count mean x     a partial sum of x / count is no larger than the largest x
//
// A value that the model has in f32 may always be an operand in f32 or bf16: it is in that range already. In f16 it is not: a product of
// 93,868 scaled by 1/64 before it is an operand has no form in f16 without its scale. Sums of products of f16 stay in f32's range in any case
// (65504^2 times fewer than 2^95 terms; the least is 2^-48), which the bounds below say by themselves.
//
// Where nothing is known, the scale stays where the model has it. Bounds are known of constants, functions with bounded results, softmax,
// norms, small types, and what is computed of those.
#include "graph/rewrite/range.h"

#include "graph/fuse/fuse.h"
#include "graph/ref/ref.h"

#include <math.h>
#include <string.h>

enum { FEW_BITS = 8, STEPS = 48, MOST_READ = 1 << 22 };

static double end_of(Elem e) {
    switch (e) {
    case EL_f64: return 0x1.fffffffffffffp1023;
    case EL_f32: return 0x1.fffffep127;
    case EL_bf16: return 0x1.fep127;
    case EL_f16: return 65504;
    case EL_f8e4m3: return 448;
    case EL_f8e5m2: return 57344;
    case EL_bool: return 1;
    default: return elem_is_int(e) ? ldexp(1, elem_bits(e) - elem_is_signed(e)) : INFINITY;
    }
}

static bool wide_exponents(Elem e) { return e == EL_f32 || e == EL_bf16 || e == EL_f64; }

// ---- bounds -----------------------------------------------------------------------------------------------------------

static double bound(Graph *g, const Node *x, int *left);

static double number_of(const GNum *v) { return fabs(v->is_int ? (double)v->i : v->f); }

// Finite floats without their sign are ordered as their bits are: the bits of the largest below `end`, those of an infinity.
#define LARGEST_BITS(width) \
    static uint##width##_t largest_bits##width(const void *at, size_t n, uint##width##_t end) { \
        uint##width##_t most = 0, bits; \
        for (size_t i = 0; i < n; i++) { \
            memcpy(&bits, (const char *)at + i * sizeof bits, sizeof bits);     /* in a file they may lie anywhere */ \
            bits &= (uint##width##_t)(UINT##width##_MAX >> 1); \
            most = bits < end && bits > most ? bits : most; \
        } \
        return most; \
    }
LARGEST_BITS(16)
LARGEST_BITS(32)

static double of_bits(const Node *x, const void *bits) {
    GNum v = g_num_load(bits, (Elem)x->elem);
    return number_of(&v);
}

static double of_data(const Node *x) {
    size_t wide = (size_t)elem_bytes((Elem)x->elem), n = x->c.bytes / wide;
    double most = 0;
    if (!x->c.data || n > MOST_READ) return INFINITY;
    if (x->elem == EL_f32) return of_bits(x, &(uint32_t){largest_bits32(x->c.data, n, 0x7f800000)});
    if (x->elem == EL_f16 || x->elem == EL_bf16)
        return of_bits(x, &(uint16_t){largest_bits16(x->c.data, n, x->elem == EL_f16 ? 0x7c00 : 0x7f80)});
    for (size_t i = 0; i < n; i++) {
        double m = of_bits(x, (const char *)x->c.data + i * wide);
        if (m > most && m - m == 0) most = m;
    }
    return most;
}

static const Node *uncast(const Node *x) {
    while (x->kind == G_cast && elem_is_float((Elem)x->elem) && elem_is_float((Elem)x->src[0]->elem)) x = x->src[0];
    return x;
}

// The other operand of an EW_add of a number that is not negative, or of EW_div by a number, which goes to *by; NULL: it is neither.
static const Node *beside_number(const Node *x, GEw op, double *by) {
    GNum v;
    for (int i = 0; i < 2 && x->kind == G_ew && x->op == op; i++) {
        if ((op == EW_div && i == 0) || !g_scalar_value(x->src[i], &v) || (v.is_int ? v.i < 0 : !(v.f >= 0))) continue;
        *by = number_of(&v);
        return x->src[1 - i];
    }
    return NULL;
}

static bool is_square(const Node *x, const Node *c) {
    GNum v;
    x = uncast(x);
    if (x->kind != G_ew || uncast(x->src[0]) != c) return false;
    return (x->op == EW_pow && g_scalar_value(x->src[1], &v) && number_of(&v) == 2) || (x->op == EW_mul && uncast(x->src[1]) == c);
}

// sqrt(mean(c * c) + epsilon), the mean over axes of c, at the places of c: over how many elements it is; 0: root is something else.
static double norm_of(Graph *g, const Node *root, const Node *c) {
    Ix at[G_MAX_RANK], through[G_MAX_RANK];
    double count = 0, epsilon;
    bool rooted = false;
    const Node *x = root, *next;
    c = uncast(c);
    for (int i = 0; i < root->rank; i++) at[i] = ix_axis(g, i, root->shape[i]);
    for (int k = 0; k < STEPS && x->kind != G_reduce; k++) {
        if (uncast(x) != x) x = uncast(x);
        else if (x->kind == G_view && ix_is(x->view.pred, 1)) {
            for (int i = 0; i < x->src[0]->rank; i++)
                if (!(through[i] = ix_substitute(g, x->view.coord[i], at, x->rank))) return 0;
            x = x->src[0];
            memcpy(at, through, (size_t)x->rank * sizeof *at);
        } else if (!rooted && x->kind == G_ew && x->op == EW_sqrt) x = x->src[0], rooted = true;
        else if (rooted && (next = beside_number(x, EW_add, &epsilon))) x = next;
        else if (rooted && count == 0 && (next = beside_number(x, EW_div, &count))) x = next;
        else return 0;
    }
    if (!rooted || x->kind != G_reduce || x->op != GR_sum || !is_square(x->src[0], c)) return 0;
    for (int i = 0, k = 0; i < c->rank; i++)
        if (!(x->reduce.axes >> i & 1) && at[k++] != ix_axis(g, i, c->shape[i])) return 0;
    return count;
}

// A norm: |c| <= sqrt(count) sqrt(mean(c * c)).
static double of_quotient(Graph *g, const Node *x, int *left) {
    GNum v;
    if (g_scalar_value(x->src[1], &v) && number_of(&v) > 0) return bound(g, x->src[0], left) / number_of(&v);
    if (attention_softmax(g, x)) return 1;
    double count = norm_of(g, x->src[1], x->src[0]);
    return count > 0 ? sqrt(count) : INFINITY;
}

static double of_product(Graph *g, const Node *x, int *left) {
    for (int i = 0; i < 2; i++) {                            // c * (1 / root)
        const Node *inverse = x->src[i];
        GNum one;
        if (inverse->kind != G_ew || inverse->op != EW_div || !g_scalar_value(inverse->src[0], &one) || number_of(&one) != 1) continue;
        double count = norm_of(g, inverse->src[1], x->src[1 - i]);
        if (count > 0) return sqrt(count);
    }
    return bound(g, x->src[0], left) * bound(g, x->src[1], left);
}

static double of_ew(Graph *g, const Node *x, int *left) {
    const Node *a = x->src[0], *b = x->nsrc > 1 ? x->src[1] : NULL;
    double p, q;
    GNum v;
    if (g_ew_info[x->op].gives_bool) return 1;
    switch ((GEw)x->op) {
    case EW_sigmoid: case EW_tanh: case EW_erf: case EW_sin: case EW_cos: case EW_sign: return 1;
    case EW_atan: case EW_asin: return 1.5707963267948967;
    case EW_acos: return 3.1415926535897932;
    case EW_neg: case EW_abs: return bound(g, a, left);
    case EW_floor: case EW_ceil: case EW_round: case EW_trunc: return bound(g, a, left) + 1;
    case EW_sqrt: return sqrt(bound(g, a, left)) + 1;
    case EW_exp: return exp(bound(g, a, left));
    case EW_add: case EW_sub: return bound(g, a, left) + bound(g, b, left);
    case EW_mul: return of_product(g, x, left);
    case EW_div: return of_quotient(g, x, left);
    case EW_where: return fmax(bound(g, b, left), bound(g, x->src[2], left));
    case EW_min: case EW_max:                                // a clip: of both sides, or of one that a bound is known of
        for (int i = 0; i < 2; i++) {
            const Node *inner = x->src[1 - i];
            if (!g_scalar_value(x->src[i], &v) || inner->kind != G_ew || inner->op != (x->op == EW_min ? EW_max : EW_min)) continue;
            for (int k = 0; k < 2; k++) {
                GNum w;
                if (g_scalar_value(inner->src[k], &w)) return fmax(number_of(&v), number_of(&w));
            }
        }
        p = bound(g, a, left), q = bound(g, b, left);
        return fmax(p, q);
    default: return INFINITY;
    }
}

static double bound(Graph *g, const Node *x, int *left) {
    GNum v;
    double most = INFINITY, end = end_of((Elem)x->elem);
    int64_t count = 1, size;
    if (g_scalar_value(x, &v)) return number_of(&v);
    if (--*left < 0) return INFINITY;
    switch ((GKind)x->kind) {
    case G_const: most = of_data(x); break;
    case G_index: most = x->index.expr->lo == INT64_MIN || x->index.expr->hi == INT64_MAX ? INFINITY : fmax(fabs((double)x->index.expr->lo), fabs((double)x->index.expr->hi)); break;
    case G_ew: most = of_ew(g, x, left); break;
    case G_cast: most = bound(g, x->src[0], left); break;
    case G_view: most = fmax(bound(g, x->src[0], left), ix_is(x->view.pred, 1) ? 0 : number_of(&x->view.fill)); break;
    case G_gather: most = fmax(bound(g, x->src[0], left), x->at.checked ? 0 : number_of(&x->at.fill)); break;
    case G_concat:
        most = 0;
        for (uint32_t i = 0; i < x->nsrc; i++) most = fmax(most, bound(g, x->src[i], left));
        break;
    case G_reduce:
        for (int i = 0; i < x->src[0]->rank; i++)
            if (x->reduce.axes >> i & 1) count = ix_const(x->src[0]->shape[i], &size) ? count * size : -1;
        if (x->op == GR_max || x->op == GR_min) most = bound(g, x->src[0], left);
        else if (x->op == GR_sum && count > 0) most = (double)count * bound(g, x->src[0], left);
        break;
    case G_contract:
        for (int i = x->src[0]->rank - x->contract.nk; i < x->src[0]->rank; i++) count = ix_const(x->src[0]->shape[i], &size) ? count * size : -1;
        if (count > 0) most = (double)count * bound(g, x->src[0], left) * bound(g, x->src[1], left);
        break;
    default: break;
    }
    bool narrow = end < end_of(EL_bf16);                     // what such a type holds is in its range, or infinite
    return most <= end ? most : narrow ? end : INFINITY;
}

double range_most(Graph *g, const Node *x) {
    int left = STEPS;
    double most = bound(g, x, &left);
    return most == most ? most : INFINITY;
}

bool range_of_constant(Graph *g, Node *x, double *least, double *most) {
    int64_t count;
    char why[256];
    GTensor t;
    if (!x || !ix_const(g_count(g, x), &count) || count > MOST_READ || !ref_value(g, x, &t, why, sizeof why)) return false;
    *least = INFINITY, *most = 0;
    for (int64_t i = 0; i < count; i++) {
        GNum v = g_num_load((const char *)t.data + i * elem_bytes(t.elem), t.elem);
        double m = number_of(&v);
        if (!(m <= *most)) *most = m == m ? m : INFINITY;
        if (m > 0 && m < *least) *least = m;
    }
    g_tensor_free(&t);
    return true;
}

// ---- the rule ---------------------------------------------------------------------------------------------------------

Elem range_operand(const Graph *g, const Node *x) {
    return x->elem == EL_f32 && g->tables->narrow ? (Elem)g->tables->narrow_to : (Elem)x->elem;
}

bool range_without(Elem kept, double most, double c) {
    c = fabs(c);
    if (!(c > 0) || c - c != 0) return false;
    if (c > 1 && !(wide_exponents(kept) && c <= ldexp(1, FEW_BITS))) return false;
    return c >= 1 || most <= end_of(kept);
}

double range_sums(Graph *g, const Node *n, const Node *x) {
    double count = 1, power = 1;
    for (int i = n->src[0]->rank - n->contract.nk; i < n->src[0]->rank; i++) count *= ix_is_const(n->src[0]->shape[i]) ? (double)n->src[0]->shape[i]->value : INFINITY;
    if (count * range_most(g, x) <= end_of(n->contract.acc)) return 1;
    while (power < count && power < 0x1p40) power *= 2;
    return power;
}

// x, which the model has in its own type, as an operand without its factor.
static bool operand_without(const Graph *g, const Node *x, double most, double c) {
    Elem as = range_operand(g, x);
    return c == 1 || wide_exponents(as) || range_without(as, most, c);
}

static bool normal(double c, Elem e) { return fabs(c) >= (e == EL_f64 ? 0x1p-1022 : 0x1p-126) && fabs(c) <= end_of(e); }

bool range_factor(double c) { return normal(c, EL_f32); }

bool range_past_product(Graph *g, const Node *n, const Node *a, double of_a, const Node *b, double of_b) {
    int64_t count = 1, size;
    for (int i = a->rank - n->contract.nk; i < a->rank; i++) count = ix_const(a->shape[i], &size) ? count * size : -1;
    double p = range_most(g, a), q = range_most(g, b), c = of_a * of_b;
    if (!normal(c, n->contract.acc) || !operand_without(g, a, p, of_a) || !operand_without(g, b, q, of_b)) return false;
    p = fmin(p, end_of(range_operand(g, a))), q = fmin(q, end_of(range_operand(g, b)));
    return c == 1 || range_without(n->contract.acc, count > 0 ? (double)count * p * q : p * q > 0 ? INFINITY : 0, c);
}

bool range_across_product(const Graph *g, const Node *giver, const Node *taker, double factor, double has) {
    double c = fabs(factor);
    return normal(factor * has, (Elem)taker->elem) && wide_exponents(range_operand(g, giver)) && wide_exponents(range_operand(g, taker)) && c <= 1 && c >= ldexp(1, -FEW_BITS);
}

// Error bounds of elementwise ops: how far another correct implementation's value may be.
//
// Only three things start an error: a sum, a `dot` (their orders differ) and a function that need not be
// correctly rounded (2 ulp or 2^-126 are allowed). Everything else is exact on equal operands and only
// hands errors on. With x the value here, x' another's, |x - x'| <= b, to first order:
//
//     a + b      ba + bb                    exp a     r (e^ba - 1)           floor ..   0, or 1 + ba when a +- ba
//     a * b      |a| bb + |b| ba + ba bb    log a     ba / (|a| - ba)                   are rounded differently
//     a / b      (ba + |r| bb) / (|b| - bb) sqrt a    ba / r                 min, max   max(ba, bb)
//     cast       ba                         sin, tanh ba                     select     the chosen one's
//
// and, where an operand was inexact, one more ulp of the result, since two nearby numbers may round
// apart. With EvalOptions.reordered every float operation starts an error: iterations of a loop may be
// joined in another order. A comparison's result has no bound: that it might come out the other way is not followed.
// Bounds may be infinite (a quotient by something that could be 0); they are never NaN for numbers.

#include "lower/eval/eval.h"

#include <math.h>
#include <string.h>

// Half an ulp of 1, and the least number above 0.
static const struct { double unit, tiny; } rounding[EL_COUNT] = {
    [EL_f64] = {0x1p-53, 0x1p-1074}, [EL_f32] = {0x1p-24, 0x1p-149},   [EL_f16] = {0x1p-11, 0x1p-24},
    [EL_bf16] = {0x1p-8, 0x1p-133},  [EL_f8e4m3] = {0x1p-4, 0x1p-9},   [EL_f8e5m2] = {0x1p-3, 0x1p-16},
};

double elem_unit(Elem e) { return rounding[e].unit; }

// A chunk's lanes: results y, operands v with bounds b, and what to put.
typedef struct Lane { double y, v[3], b[3]; } Lane;
typedef struct Chunk {
    const double *y, *v[3], *b[3];
    double *to;
    double  unit, tiny;           // of the result's type: half an ulp of 1; what rounding adds near 0
    double  rough;                // what 2 ulp are at least, 0: exact operands give exact results
    bool    inexact;              // an operand has a bound
} Chunk;
typedef void BoundFn(const Chunk *, int64_t n);

static double less(double x, double b)  { return b < fabs(x) ? fabs(x) - b : 0; }     // how near to 0 it may be

// bound_<name>: the loop over lanes, with what a lane's operands hand on.
#define BOUND(name, value)                                                                           \
    static inline double lane_##name(const Lane *at) {                                               \
        const double r = at->y, *v = at->v, *b = at->b;                                              \
        (void)r, (void)v, (void)b;                                                                   \
        return value;                                                                                \
    }                                                                                                \
    static void bound_##name(const Chunk *chunk, int64_t n) {                                        \
        const Chunk c = *chunk;                                                                      \
        double *restrict to = c.to;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                            \
            const Lane at = {c.y[i], {c.v[0][i], c.v[1][i], c.v[2][i]}, {c.b[0][i], c.b[1][i], c.b[2][i]}}; \
            double sum = 0, size = fabs(at.y);                                                       \
            if (c.inexact && at.b[0] + at.b[1] + at.b[2] != 0) sum = lane_##name(&at) + 2 * c.unit * size + c.tiny; \
            if (c.rough != 0 && isfinite(at.y)) sum += 4 * c.unit * size + c.rough;                  \
            to[i] = sum == sum ? sum : isfinite(at.y) ? INFINITY : 0;                                \
        }                                                                                            \
    }

static inline double product(const double *v, const double *b) {
    double x = b[1] ? fabs(v[0]) * b[1] : 0, y = b[0] ? fabs(v[1]) * b[0] : 0;
    return x + y + (b[0] && b[1] ? b[0] * b[1] : 0);
}
BOUND(sum,   b[0] + b[1])
BOUND(same,  b[0])
BOUND(most,  b[0] > b[1] ? b[0] : b[1])
BOUND(mul,   product(v, b))
BOUND(div,   (b[0] + (b[1] ? fabs(r) * b[1] : 0)) / less(v[1], b[1]))
BOUND(fma,   product(v, b) + b[2])
BOUND(exp,   r ? fabs(r) * expm1(b[0]) : 0)
BOUND(exp2,  r ? fabs(r) * expm1(b[0] * 0.6931471805599453) : 0)
BOUND(log,   b[0] / less(v[0], b[0]))
BOUND(log2,  b[0] / less(v[0], b[0]) * 1.4426950408889634)
BOUND(sqrt,  r > 0 && b[0] < r * r ? b[0] / r : sqrt(b[0]))
BOUND(rsqrt, fabs(r) * b[0] / (2 * less(v[0], b[0])))
BOUND(erf,   1.13 * b[0])
BOUND(pow,   fabs(r) * expm1((b[0] ? fabs(v[1]) * b[0] / less(v[0], b[0]) : 0) + (b[1] ? b[1] * fabs(log(fabs(v[0]))) : 0)))
BOUND(fmod,  trunc(v[0] / v[1]) == trunc((fabs(v[0]) + b[0]) / less(v[1], b[1]) * (v[0] < 0 ? -1 : 1) * (v[1] < 0 ? -1 : 1)) &&
             trunc(v[0] / v[1]) == trunc(less(v[0], b[0]) / (fabs(v[1]) + b[1]) * (v[0] < 0 ? -1 : 1) * (v[1] < 0 ? -1 : 1))
             ? b[0] + fabs(trunc(v[0] / v[1])) * b[1] : fabs(v[1]) + b[1])
BOUND(floor, floor(v[0] - b[0]) == floor(v[0] + b[0]) ? 0 : b[0] + 1)
BOUND(ceil,  ceil(v[0] - b[0]) == ceil(v[0] + b[0]) ? 0 : b[0] + 1)
BOUND(round, rint(v[0] - b[0]) == rint(v[0] + b[0]) ? 0 : b[0] + 1)
BOUND(trunc, trunc(v[0] - b[0]) == trunc(v[0] + b[0]) ? 0 : b[0] + 1)

typedef struct BoundRule {
    BoundFn *fn;
    bool     rough;               // 2 ulp, or 2^-126, even of exact operands
} BoundRule;

static const BoundRule binary_rule[OP_COUNT] = {
    [OP_add] = {bound_sum, false}, [OP_sub] = {bound_sum, false}, [OP_mul] = {bound_mul, false}, [OP_div] = {bound_div, true},
};
static const BoundRule fun_rule[TF_COUNT] = {
    [TF_exp] = {bound_exp, true},     [TF_exp2] = {bound_exp2, true},   [TF_log] = {bound_log, true},     [TF_log2] = {bound_log2, true},
    [TF_sqrt] = {bound_sqrt, true},   [TF_rsqrt] = {bound_rsqrt, true}, [TF_sin] = {bound_same, true},    [TF_cos] = {bound_same, true},
    [TF_tanh] = {bound_same, true},   [TF_erf] = {bound_erf, true},     [TF_floor] = {bound_floor, false}, [TF_ceil] = {bound_ceil, false},
    [TF_round] = {bound_round, false}, [TF_trunc] = {bound_trunc, false}, [TF_abs] = {bound_same, false}, [TF_min] = {bound_most, false},
    [TF_max] = {bound_most, false},   [TF_fma] = {bound_fma, false},    [TF_div_rn] = {bound_div, false}, [TF_sqrt_rn] = {bound_sqrt, false},
    [TF_pow] = {bound_pow, true},     [TF_fmod] = {bound_fmod, false},    [TF_copysign] = {bound_same, false},
};

static BoundRule rule_of(const Op *op) {
    static const BoundRule same = {bound_same, false}, none = {NULL, false}, truncates = {bound_trunc, false};
    bool to_int = !elem_is_float((Elem)op->out[0]->type.elem);
    switch (op->code) {
    case OP_T_unary:  return op->sub == OP_neg ? same : none;
    case OP_T_binary: {
        BoundRule r = binary_rule[op->sub];
        if (to_int) r.rough = false;
        if (to_int && op->sub == OP_div) r.fn = NULL;
        return r;
    }
    case OP_T_fun:    return fun_rule[op->sub];
    case OP_T_cast:
        return to_int && elem_is_float((Elem)op->in[0]->type.elem) ? truncates
               : op->out[0]->type.elem == EL_bool                  ? none
                                                                   : same;
    case OP_T_splat:
    case OP_T_rename:
    case OP_T_select: return same;
    default:          return none;
    }
}

typedef struct { double at[CHUNK]; } Lanes;

static const double *fed_f64(const Type *t, const void *data, int64_t off, int64_t stride, int64_t n, Lanes *buf,
                             Lanes *to) {
    const void *p = feed(data, type_bytes(t), off, stride, n, buf->at);
    lanes_to_f64(t, n, p, to->at);
    return to->at;
}

static void bound_chunk(const Step *s, const BoundRule *rule, Slot *const *in, const Slot *out, const Rows *r,
                        int64_t pos, int64_t n, bool inexact) {
    static const double zeros[CHUNK] = {0};
    const Op *op = s->op;
    Lanes  raw, v[3], bbuf[3], res;
    double *to = (double *)out->b->data + r->out + pos;
    const double *val[3] = {zeros, zeros, zeros}, *bnd[3] = {zeros, zeros, zeros};
    int last = s->space->rank - 1, nin = op->code == OP_T_rename ? 1 : op->nin;
    for (int k = 0; k < nin; k++) {
        int64_t stride = last < 0 ? 1 : s->space->stride[k][last], off = r->off[k] + pos * stride;
        val[k] = fed_f64(&op->in[k]->type, in[k]->t->data, off, stride, n, &raw, &v[k]);
        if (in[k]->b) bnd[k] = feed(in[k]->b->data, 8, off, stride, n, bbuf[k].at);
    }
    if (op->code == OP_T_select || op->code == OP_T_splat || op->code == OP_T_rename) {     // moves: no rounding
        for (int64_t i = 0; i < n; i++) to[i] = op->code != OP_T_select ? bnd[0][i] : val[0][i] != 0 ? bnd[1][i] : bnd[2][i];
        return;
    }
    const Type *t = &op->out[0]->type;
    double tiny = rounding[t->elem].tiny;
    fed_f64(t, out->t->data, r->out + pos, 1, n, &raw, &res);
    Chunk c = {res.at, {val[0], val[1], val[2]}, {bnd[0], bnd[1], bnd[2]}, to, elem_unit((Elem)t->elem), tiny,
               !rule->rough ? 0 : t->elem == EL_f32 ? 0x1p-126 : tiny, inexact};
    rule->fn(&c, n);
}

void bound_elementwise(Eval *e, const Step *s) {
    const Op *op = s->op;
    BoundRule rule = rule_of(op);
    Slot *in[3] = {NULL, NULL, NULL};
    int  nin = op->code == OP_T_rename ? 1 : op->nin;
    bool inexact = false;
    for (int k = 0; k < nin; k++) {
        in[k] = slot_of(e, op->in[k]);
        inexact |= in[k]->b != NULL;
    }
    bool rounds = op->code == OP_T_binary || op->code == OP_T_fun;
    if (e->opt->reordered && rounds && elem_is_float((Elem)op->out[0]->type.elem)) rule.rough = true;
    if (!rule.fn || (!inexact && !rule.rough)) return;
    out_bound(e, op);
    Rows r;
    for (rows_start(&r, s->space); rows_next(&r);)
        for (int64_t pos = 0; pos < r.n; pos += CHUNK)
            bound_chunk(s, &rule, in, slot_of(e, op->out[0]), &r, pos, r.n - pos < CHUNK ? r.n - pos : CHUNK, inexact);
}

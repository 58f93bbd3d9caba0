// Positive factors behind maxima and minima.
//
//     s = x * c                                        t = max(x over n) * c
//     t = max(s over n)                     ->         p = exp2(fma(x, c, -t))         (the pass `contract` does this)
//     p = exp2(s - t)
//
// An attention's scores are scaled, their maximum taken and subtracted. Multiplying by c rounds, but rounding keeps
// order: for a positive, finite c, max(x * c) is max(x) * c to the bit, infinities and NaN included, as long as c
// itself is no extreme. So the product moves behind the reduction, one multiplication a row; what is left of it is the
// operand of a subtraction and becomes part of an fma. A mask between the two (where(m, x * c, -inf)) lets it pass,
// since its constants do not change.
//
// On an H200, attention of 128 dimensions: 64 of 540 instructions a thread and trip, a tenth of its time. Only where wgmma
// is: attention by mma.sync has no register to spare, and the factor and the maximum alive together cost it 8 to 24 bytes of
// spills (ptxas 13.0).
#include <math.h>
#include <string.h>

#include "lower/facts/facts.h"
#include "lower/pass/passes.h"

static bool number_of(const Val *v, double *x) {
    const Op *d = v->def;
    while (d && d->code == OP_T_splat) d = d->in[0]->def;
    if (!d || d->code != OP_T_const || !elem_is_float((Elem)v->type.elem)) return false;
    memcpy(x, &d->imm, sizeof *x);
    return true;
}

static const Op *product_of(const Val *v) {                 // x * c with c one number for all lanes
    const Op *d = v->def;
    return d && d->code == OP_T_binary && d->sub == OP_mul && v->type.elem == EL_f32 && v->type.rank ? d : NULL;
}

static int factor_of(Facts *facts, const Op *mul) {          // which operand is the factor, or -1
    for (int i = 0; i < 2; i++)
        if (!mul->in[i]->type.rank && mul->in[!i]->type.rank == mul->out[0]->type.rank &&
            fact_positive(facts, mul->in[i]))
            return i;
    return -1;
}

static bool reduces(const Fn *f, const Val *v) {             // an extreme of v is taken
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_reduce && op->in[0] == v && (op->sub == TR_max || op->sub == TR_min)) return true;
    return false;
}

// What may change places with the product that it takes as operand i.
static bool lets_pass(const Fn *f, const Op *op, int *i) {
    double x;
    if (op->code == OP_T_reduce && (op->sub == TR_max || op->sub == TR_min)) { *i = 0; return true; }
    if (op->code != OP_T_select || !reduces(f, op->out[0])) return false;
    *i = product_of(op->in[1]) ? 1 : 2;
    return number_of(op->in[3 - *i], &x) && (isinf(x) || x == 0);
}

static bool move(Fn *f, Facts *facts, Op *op) {
    int at, which;
    if (!lets_pass(f, op, &at)) return false;
    const Op *mul = product_of(op->in[at]);
    if (!mul || (which = factor_of(facts, mul)) < 0) return false;
    Builder b = {f, op->parent, op->next, op->span};
    Val *result = op->out[0], *whole = val_new(f, result->type);
    replace_uses(&f->body, result, whole);                   // a place holder, until the product is there
    op->in[at] = mul->in[!which];
    Val *scaled = b_binary(&b, OP_mul, result, mul->in[which]);
    scaled->name = result->name;
    replace_uses(&f->body, whole, scaled);
    return true;
}

bool extremes(Fn *f) {
    Facts *facts = facts_new(f);
    bool changed = false;
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) changed |= move(f, facts, op);
    return changed;
}

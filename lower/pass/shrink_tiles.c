// Tiles no longer than their rows.
//
//     BLOCK = next_pow2(N), N = 577:    n = axis 0, N {1024}    ->    n = axis 0, N {640}         assuming N <= 640
//
// Lanes past the row's end are dead, but they have registers, masks and instructions: nearly half of them here. An instance
// that was made for a row's length (LaunchDim.upto) needs no more lanes than that, to an eighth of a power of two;
// layouts repeat a pattern any number of times. Where 16 bytes do not divide the row, each element has a mask of its
// own: then it is assumed too that the row is no shorter than this eighth begins, and registers that end before it need
// none. The launcher checks what is assumed: another length takes the variant that assumes nothing. Where the length is
// a number of the kernel's, as in kernels of models, nothing has to be assumed.
#include "lower/build.h"
#include "lower/facts/facts.h"
#include "lower/pass/passes.h"

enum { SHORTEST = 512, STEPS = 8 };

static int64_t step_of(int64_t n) {
    int64_t step = 1;
    while (STEPS * step < n) step *= 2;
    return step;
}

// The dimension that hi is, if the instance was made for a length of it.
static LaunchDim *known_length(Fn *f, const Val *hi) {
    const Op *d = hi->def;
    if (!d || d->code != OP_T_dim || f->launch->dims[d->imm].fixed >= 0) return NULL;
    return f->launch->dims[d->imm].upto ? &f->launch->dims[d->imm] : NULL;
}

static bool between(Fn *f, Facts *facts, LaunchDim *dim, const Val *n) {
    int step = (int)step_of(dim->upto);
    LExpr e;
    if (dim->from) return true;
    LExpr from = launch_const(f->arena, dim->upto - step + 1), upto = launch_const(f->arena, dim->upto);
    if (!host_expr(facts, n, &e) || !fact_assume(facts, launch_join(f->arena, L_LE, e, upto))) return false;
    if (dim->divisor && fact_assume(facts, launch_join(f->arena, L_LE, from, e))) dim->from = dim->upto - step + 1;
    return true;
}

bool tighten(Fn *f) {
    bool changed = false;
    if (!f->fast) return false;
    Facts *facts = facts_new(f);
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_dot) return false;
    for (Op *op = f->body.first; op; op = op->next) {
        if (op->code != OP_T_axis || op->imm < SHORTEST || !op->in[0]->def || op->in[0]->def->code != OP_T_const ||
            op->in[0]->def->imm != 0)
            continue;
        LaunchDim *dim = known_length(f, op->in[1]);
        int64_t n;
        LExpr e;
        bool number = host_expr(facts, op->in[1], &e) && fact_constant(facts, e, &n) && n > 0;
        if (number) n = (n + step_of(n) - 1) / step_of(n) * step_of(n);
        else if (dim && dim->upto <= op->imm && between(f, facts, dim, op->in[1])) n = dim->upto;
        else continue;
        if (n >= op->imm) continue;
        op->imm = op->out[0]->type.shape[0] = n;
        changed = true;
    }
    return changed;
}

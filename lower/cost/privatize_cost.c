// Whether blocks should count small tensors of atomics in shared memory (pass/privatize.c).
//
// Each block clears its copies, and adds what they hold to memory: places times blocks atomics, neighbours together, in place
// of one for each element. That pays where elements are many times as many. Sizes that the launch knows become an assumption
// of the variant, so it is made only where they fit.
#include "lower/cost/cost.h"
#include "lower/pass/passes.h"
#include "lower/pass/privatize.h"

enum { BESIDE = 16 };                               // programs of a block
static const double WORTH = 3;                      // elements for each place of each block

// Atomics of a program that would be tallied: in loops, as often as the launch says.
static double updates(Facts *facts, const Region *r, uint64_t params, const int64_t *dims) {
    double sum = 0;
    for (const Op *op = r->first; op; op = op->next) {
        double times = 1;
        LExpr  lo, hi, step;
        int64_t a, b, c;
        if (op->code == OP_T_atomic && op->in[0]->type.kind == TY_TENSOR && params >> op->in[0]->def->imm & 1)
            sum += (double)type_lanes(&op->out[0]->type);
        if (op->code == OP_T_for && host_expr(facts, op->in[0], &lo) && host_expr(facts, op->in[1], &hi) && host_expr(facts, op->in[2], &step) &&
            launch_by_dims(lo, dims, &a) && launch_by_dims(hi, dims, &b) && launch_by_dims(step, dims, &c) && c > 0)
            times = b > a ? (double)((b - a + c - 1) / c) : 0;
        for (int i = 0; i < op->nreg; i++) sum += times * updates(facts, op->reg[i], params, dims);
    }
    return sum;
}

// The places of all these tensors; false: some do not fit, are not known, or get little of a program.
static bool places_of(Fn *f, uint64_t params, const int64_t *dims, double *places) {
    int64_t bytes = 0, n;
    *places = 0;
    for (int i = 0; i < f->launch->nparams; i++) {
        if (!(params >> i & 1)) continue;
        if (!tally_many(f, i) || !launch_by_dims(tally_places(f, i), dims, &n)) return false;
        bytes += n * elem_bytes(f->launch->params[i].elem);
        *places += (double)n;
    }
    return bytes <= tally_most_bytes(f->target);
}

void cost_tally(Fn *f, const CompileOptions *opt, const int64_t *dims, Schedule *s) {
    CompileOptions asked = *opt;
    const char *why;
    int64_t programs;
    double  places;
    if (s->privatize) return;
    asked.schedule = *s;
    uint64_t usual = tally_params(f, &asked, &why);
    asked.schedule.privatize = 2;
    uint64_t params = tally_params(f, &asked, &why);
    if (!params || !launch_by_dims(f->launch->programs, dims, &programs) || programs < 1) return;
    double blocks = (double)((programs + BESIDE - 1) / BESIDE), most = (double)f->target->sms * 2;
    bool   fit = places_of(f, params, dims, &places);
    if (blocks > most) blocks = most;
    bool worth = fit && updates(facts_new(f), &f->body, params, dims) * (double)programs >= WORTH * places * blocks;
    if (worth != (usual == params)) s->privatize = worth ? 2 : 1;
}

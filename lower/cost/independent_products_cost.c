// How long a loop of several products takes of which some wait for others, on Hopper: attention's gradients, by keys.
//
//     s = k q'    p = exp2 ..    dv += p' do    dp = v do'    ds = p (dp - delta)    dk += ds' q    dq += ds k          five products of 64 or 128 rows
//
//     a trip     shared memory, 128 bytes a clock: what products read of it, what they hand on or add, what comes;  exponentials, 16 a clock;  and 0.7 us in
//                which each waits for the one before it, which other blocks of the multiprocessor fill
//     a launch = start + rounds * (trips * a trip + a tile's begin and end)
//
// For loops in which a product contracts the rows of another, which groups of warps hand each other: what it was fitted to.
//
// Products of 64 columns take all of shared memory's clocks, so that tensor cores wait for it: m64n64k16 is 32 clocks and 4 KB. What is before and behind
// a loop of which each trip is so long does not matter.
//
// An H200, bf16, B4, 2048 / D heads, S 4096, full: heads of 64 by 64 x 64, 128 x 64, 128 x 128 (queries x keys) 4752, 3797, 3050 us, expected 4300, 4000, 3000; heads of
// 128 by 64 x 128 2590, expected 2740 (2026-11-28). Where a trip's first row follows from the program, as with a causal mask, half of the trips are counted.
#include "lower/cost/cost.h"
#include "lower/cost/work.h"
#include "lower/pass/passes.h"

enum { LEAST = 3, ROWS = 64, SUM_REGS = 192, STAGES = 3, SLOTS = 2, SHARED_BYTES = 128, EXPONENTIALS = 16, TENSOR = 2048 };      // products; a group's rows; a thread's; bytes, functions, multiplications a clock
static const double CLOCKS = 1.75e3;                                // a us
static const double WAITS = 0.7, TILE = 3;                          // us of a trip, of a tile

typedef struct Trip {
    const Op *loop;
    int64_t   rows;                 // of all products
    double    bytes, multiplied, functions;      // of shared memory; multiplications; elements of functions
    double    stage, handed, added, once;        // bytes that come, that groups hand each other, that are added to memory, that stand before the loop
    int64_t   regs;
    bool      fits;
} Trip;

static const Op *made_by(const Val *v, const Region *trip, int depth) {
    const Op *d = v->def, *found = NULL;
    if (!d || d->parent != trip || depth == 0) return NULL;
    if (d->code == OP_T_dot) return d;
    for (int i = 0; i < d->nin && !found; i++) if (d->in[i]->type.kind == TY_TILE && d->in[i]->type.rank > 1) found = made_by(d->in[i], trip, depth - 1);
    return found;
}

enum { DEPTH = 16 };

// Made of a product whose rows this one contracts: all groups' rows, through shared memory.
static bool across(const Val *v, const Op *dot, const Region *trip) {
    const Op *maker = made_by(v, trip, DEPTH);
    return maker && type_axis(&maker->in[0]->type, dot->in[op_first_axis(dot)]) >= 0;
}

static double bytes_of(const Type *t) { return (double)type_lanes(t) * elem_bytes((Elem)t->elem); }

static void product(Trip *t, const Op *dot) {
    const Region *trip = t->loop->reg[0];
    const Val *k = dot->in[op_first_axis(dot)], *row = NULL, *col = NULL;
    bool handed[2] = {across(dot->in[0], dot, trip), across(dot->in[1], dot, trip)};
    for (int i = 0; i < dot->out[0]->type.rank; i++) *(type_axis(&dot->in[0]->type, dot->out[0]->type.axis[i]) >= 0 ? &row : &col) = dot->out[0]->type.axis[i];
    for (int i = 0; i < 2; i++) if (handed[i]) t->handed = bytes_of(&dot->in[i]->type);
    t->fits &= dot->out[0]->type.rank == 2 && row && col && elem_bytes((Elem)dot->in[0]->type.elem) == 2;
    if (!t->fits) return;
    int64_t m = axis_extent(row), n = axis_extent(col), side = 0;
    if (!t->rows) t->rows = m;
    if (m != t->rows && n == t->rows && (handed[0] || handed[1])) { int64_t x = m; m = n, n = x, side = 1; }      // the transposed product is made
    t->fits &= m == t->rows && (m == ROWS || m == 2 * ROWS);
    bool registers = operand_made(dot->in[side], trip) && made_by(dot->in[side], trip, DEPTH) && !handed[side];
    t->bytes += (registers ? 0 : bytes_of(&dot->in[side]->type)) + bytes_of(&dot->in[1 - side]->type) * (double)(m / ROWS);
    t->multiplied += (double)(m * n * axis_extent(k));
    if (!handed[0] && !handed[1]) t->regs += n / 2;
}

static bool trip_of(Trip *t) {
    int products = 0;
    for (const Op *op = t->loop->reg[0]->first; op; op = op->next) {
        if (op->nreg) return false;
        if (op->code == OP_T_load && op->out[0]->type.rank == 2) t->stage += bytes_of(&op->out[0]->type);
        if (op->code == OP_T_fun && op->out[0]->type.rank == 2 && (op->sub == TF_exp2 || op->sub == TF_exp || op->sub == TF_tanh)) t->functions += (double)type_lanes(&op->out[0]->type);
        if (op->code == OP_T_atomic) t->added += bytes_of(&op->in[1 + op->nidx]->type);
        if (op->code != OP_T_dot) continue;
        products++;
        product(t, op);
    }
    for (const Op *op = t->loop->prev; op; op = op->prev) if (op->code == OP_T_load && op->out[0]->type.rank == 2) t->once += bytes_of(&op->out[0]->type);
    t->bytes += t->stage + t->handed + 2 * t->added;
    return products >= LEAST && t->handed > 0;
}

Several cost_of_several(Fn *f, const Target *target, const int64_t *dims, double *us) {
    Facts *s = facts_new(f);
    Trip t = {.fits = true};
    int64_t lo, hi, step, programs;
    for (const Op *op = f->body.first; op; op = op->next) if (op->code == OP_T_for && has_products(op->reg[0])) { if (t.loop) return SEVERAL_NOT; t.loop = op; }
    if (!t.loop || !target->has_wgmma || !trip_of(&t)) return SEVERAL_NOT;
    if (!t.fits || t.regs > SUM_REGS || !number_of(s, t.loop->in[1], dims, &hi) || !number_of(s, t.loop->in[2], dims, &step) || step < 1 || !launch_by_dims(f->launch->programs, dims, &programs)) return SEVERAL_UNKNOWN;
    bool all = number_of(s, t.loop->in[0], dims, &lo);
    double trips = ceil((double)(hi - (all ? lo : 0)) / (double)step), room = t.once + SLOTS * t.handed + t.added + STAGES * t.stage;
    if (!all) trips = (trips + 1) / 2;
    double together = t.rows == ROWS ? fmax(1, fmin(MOST_TOGETHER, floor(target->smem_sm / room))) : 1, rounds = ceil((double)programs / (target->sms * together));
    double busy = fmax(t.bytes / SHARED_BYTES, t.multiplied / TENSOR) + t.functions / EXPONENTIALS;
    *us = START + rounds * (trips * (together * busy / CLOCKS + WAITS) + TILE);
    return SEVERAL_KNOWN;
}

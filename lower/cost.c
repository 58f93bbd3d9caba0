// How long a kernel of products would take, without running it: what tiles and parts are chosen by.
//
//     rounds   = programs / multiprocessors, rounded up
//     a trip   = the most of: its multiplications, what it reads through L2
//     a launch = start + rounds * (trips * a trip + the end of a tile) + joining parts, but no less than
//                all tensors at the memory's rate, and each block's share of them at what one multiprocessor can draw
//
// wgmma reads its operands from shared memory as it goes, 128 bytes a clock: 64 rows by n columns take max(n / 2, 18 +
// n / 4) clocks for 16 of k. Power keeps large products at some five sixths of the peak. The constants were fitted to
// what an H200 took (tests/lower/test_cost.c has the figures): what is chosen is within 5 % of the best that was measured.
#include "lower/cost.h"
#include "lower/facts.h"
#include "lower/passes.h"

#include <string.h>

static const double START = 3.2, FILL = 1.2, TILE_END = 1.3;        // us: an empty launch, the first loads, storing a tile
static const double POWER = 0.84, MMA_SYNC = 0.58;                  // of the peak
static const double L2_RATE = 150e3, DRAW = 105e3, DRAW_ASYNC = 47e3, MEMORY = 0.87;   // bytes a us and multiprocessor (by TMA; by cp.async); of the memory's peak
static const double ALONE = 1.02;                                   // one warp group: nobody multiplies while it waits
static const double PROMOTE = 0.05;                                 // us a trip: f8 products are waited for and added
static const double BARRIERS = 0.01;                                // us a trip
static const double AGAIN = 0.1, FEW = 0.06;                        // of what is read again, that misses L2; memory drawn by few blocks
static const double SHORT = 15;                                     // us
static const double SHALLOW = 1.08, DEEP_BYTES = 96e3;              // too little on its way: one stage is read, one about to be free
static const double JOIN = 3.5;                                     // us: fences and the count of arrivals

enum { MAX_TRIED = 14, USUAL = 8, ACC_REGS = 160, PROMOTED_REGS = 192 };

typedef struct Work {
    double  flops, clocks;          // of a trip: all of it; on the tensor cores, 0 if not by wgmma
    double  bytes;                  // that a trip reads
    double  rate;                   // flops a us of one multiprocessor
    double  tile_bytes;             // of what a loop carries
    int64_t trips, programs;
    double  unique;                 // bytes of all tensors
    bool    splits, promoted, sync;  // sync: some product is not by wgmma, and so none is
} Work;

static bool number(Facts *s, const Val *v, const int64_t *dims, int64_t *out) {
    LExpr e;
    if (!host_expr(s, v, &e)) return false;
    for (uint32_t i = 0; i < e.n; i++) if (e.at[i].op == L_SCALAR || e.at[i].op == L_STRIDE) return false;
    *out = launch_eval(e, dims, NULL, NULL);
    return true;
}

static bool loaded(const Val *v) {
    const Op *d = v->def;
    bool is = d && d->code == OP_T_load;
    for (int i = 0; d && !is && i < d->nin; i++) is = loaded(d->in[i]);
    return is;
}

// What a loop's end is at most: lengths that the device reads are taken to be as long as the tensor.
static bool at_most(Facts *s, const Val *v, const int64_t *dims, int64_t *out) {
    const Op *d = v->def;
    if (number(s, v, dims, out)) return true;
    if (!d || d->code != OP_T_fun || d->sub != TF_min || !loaded(v)) return false;
    return at_most(s, d->in[0], dims, out) || at_most(s, d->in[1], dims, out);
}

static bool count(LExpr e, const int64_t *dims, int64_t *out) {
    for (uint32_t i = 0; i < e.n; i++) if (e.at[i].op == L_SCALAR || e.at[i].op == L_STRIDE) return false;
    *out = launch_eval(e, dims, NULL, NULL);
    return true;
}

static bool rows_fit(int64_t m) { return m == 64 || (m > 0 && m % 128 == 0); }

static double rate_of(const Target *t, Elem e, int prec) {
    double peak = t->tflops_bf16 * 1e6 / t->sms;
    int bytes = elem_bytes(e);
    if (elem_is_float(e) && bytes == 4) peak = prec == DP_ieee ? t->tflops_f32 * 1e6 / t->sms : prec == DP_tf32 ? peak / 2 : peak / 6;
    if (elem_is_float(e) && bytes == 8) peak = t->tflops_f32 * 1e6 / t->sms / 2;
    return bytes == 1 ? peak * 2 : peak;
}

// Each trip brings it: not what stands before the loop, as an attention's queries, nor what another product has made.
static bool brought(const Val *v, const Region *trip) {
    const Op *d = v->def;
    if (!d || d->parent != trip || d->code == OP_T_dot) return false;
    bool any = d->code == OP_T_load;
    for (int i = 0; i < d->nin && !any; i++) any = d->in[i]->type.kind == TY_TILE && d->in[i]->type.rank && brought(d->in[i], trip);
    return any;
}

// One product of a trip. False: the tile is not for this target.
static bool product(Work *w, const Target *t, const Op *dot) {
    const Val *a = dot->in[0], *b = dot->in[1], *o = dot->out[0];
    int first = op_first_axis(dot);
    int64_t m = 1, n = 1, k = 1, batch = 1;
    for (int i = first; i < dot->nin; i++) k *= axis_extent(dot->in[i]);
    for (int i = 0; i < o->type.rank; i++) {
        bool in_a = type_axis(&a->type, o->type.axis[i]) >= 0, in_b = type_axis(&b->type, o->type.axis[i]) >= 0;
        *(in_a && in_b ? &batch : in_a ? &m : &n) *= axis_extent(o->type.axis[i]);
    }
    Elem e = (Elem)a->type.elem;
    double flops = 2.0 * (double)m * (double)n * (double)k * (double)batch;
    w->flops += flops;
    w->bytes += ((brought(a, dot->parent) ? (double)m : 0) + (brought(b, dot->parent) ? (double)n : 0)) * (double)k * (double)batch * elem_bytes(e);
    w->rate = rate_of(t, e, dot->sub);
    int64_t rows = rows_fit(m) ? m : n, cols = rows_fit(m) ? n : m, groups = rows >= 128 ? 2 : 1;
    int bytes = elem_bytes(e);
    bool f8 = elem_is_float(e) && bytes == 1, type = bytes == 1 || e == EL_bf16 || e == EL_f16 || (e == EL_f32 && dot->sub == DP_tf32);
    bool turned = !rows_fit(m), loaded_right = a->def && a->def->code == OP_T_load;      // on the right wgmma reads shared memory alone
    bool wgmma = t->has_wgmma && type && batch == 1 && rows_fit(rows) && (!turned || loaded_right) && cols % 8 == 0 && cols <= 256 && k * bytes % 32 == 0;
    w->sync |= !wgmma;
    if (!wgmma) return (double)m * (double)n <= 128 * 256;
    int64_t regs = rows / 64 / groups * cols / 2;
    if (f8 ? 2 * regs > PROMOTED_REGS : regs > ACC_REGS) return false;
    double each = cols / 2.0 > 18 + cols / 4.0 ? cols / 2.0 : 18 + cols / 4.0;
    w->promoted |= f8;
    w->clocks += (double)(rows / 64) * (double)(k * bytes / 32) * each * (groups > 1 ? 1 : ALONE);
    return true;
}

// The loop whose trips have the products; of a nest, what it will be made into.
static const Op *loop_of(Fn *f) {
    for (int nested = 0; nested < 2; nested++) {
        const Op *loop = NULL;
        for (const Op *op = f->body.first; op; op = op->next) {
            if (op->code != OP_T_for) continue;
            for (const Op *in = op->reg[0]->first; in; in = in->next) if (in->code == OP_T_dot) loop = op;
        }
        if (loop) return loop;
        simplify(f);
        hoist(f);
        if (!flatten(f)) return NULL;
        simplify(f);
    }
    return NULL;
}

static bool work_of(Fn *f, const Target *t, const int64_t *dims, Work *w) {
    const Op *loop = loop_of(f);
    Facts *s = facts_new(f);
    int64_t lo, hi, step;
    *w = (Work){0};
    if (!loop || !number(s, loop->in[0], dims, &lo) || !at_most(s, loop->in[1], dims, &hi) || !number(s, loop->in[2], dims, &step) || step < 1) return false;
    for (const Op *op = loop->reg[0]->first; op; op = op->next) if (op->code == OP_T_dot && !product(w, t, op)) return false;
    if (w->sync) w->clocks = 0;
    if (w->bytes <= 0) return false;
    w->trips = hi > lo ? (hi - lo + step - 1) / step : 0;
    for (int i = 0; i < loop->nout; i++) w->tile_bytes += (double)type_lanes(&loop->out[i]->type) * 4;
    for (int p = 0; p < f->launch->nparams; p++) {
        const LaunchParam *x = &f->launch->params[p];
        int64_t n = 1, d;
        if (x->kind != PK_TENSOR) continue;
        for (int i = 0; i < x->rank; i++) { if (!count(x->dim[i], dims, &d)) return false; n *= d; }
        w->unique += (double)n * elem_bytes(x->elem);
    }
    w->splits = split_refusal(f) == NULL;
    return count(f->launch->programs, dims, &w->programs);
}

static double launch_us(const Work *w, const Target *t, int parts) {
    double sms = t->sms, programs = (double)w->programs * parts, trips = (double)((w->trips + parts - 1) / parts);
    double wgmma = w->clocks * (2 * 64 * 256 * 16 / 128) / (t->tflops_bf16 * 1e6 / sms * POWER);      // m64n256k16: 128 clocks
    double trip = w->clocks ? wgmma : w->flops / (w->rate * MMA_SYNC);
    if (w->bytes / L2_RATE > trip) trip = w->bytes / L2_RATE;
    if (w->promoted) trip += PROMOTE;
    double stages = (double)(int64_t)((t->smem_block - 34e3) / w->bytes);            // a ring has 16 at most
    if (((stages < 16 ? stages : 16) - 2) * w->bytes < DEEP_BYTES) trip *= SHALLOW;
    double rounds = (double)(int64_t)((programs + sms - 1) / sms), at_once = programs < sms ? programs : sms;
    double us = rounds * (trips * trip + TILE_END), drawn = w->unique / at_once / (w->clocks ? DRAW : DRAW_ASYNC) + TILE_END, again = programs * trips * w->bytes - w->unique;
    double memory = (w->unique + (again > 0 ? again * AGAIN : 0)) / (t->gbs * MEMORY * 1e3) * (1 + FEW * (sms - at_once) / sms);
    if (drawn > us) us = drawn;
    if (memory > us) us = memory;
    us += rounds * trips * BARRIERS;
    double tiles = (double)((w->programs + t->sms - 1) / t->sms);                     // that a multiprocessor joins
    if (parts > 1) us += tiles * (JOIN + w->tile_bytes * (parts + 1) / L2_RATE);
    return START + FILL + us;
}

static bool has_products(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_dot) return true;
    return false;
}

bool cost_of(Fn *f, const CompileOptions *opt, const Schedule *given, const int64_t *dims, Cost *out) {
    static const int tried[MAX_TRIED] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};     // more than usual: for a few programs
    Work w;
    const Target *t = opt->target;
    *out = (Cost){.schedule = *given};
    f->target = t;
    f->fast = true;
    if (!has_products(f)) return cost_of_rows(f, opt, given, dims, out);
    if (!work_of(f, t, dims, &w)) return false;
    if (2 * w.bytes > t->smem_block - 2048) return false;
    int parts = given->split > 1 && w.splits ? given->split : 1;
    out->us = launch_us(&w, t, parts);
    for (int i = 1; !given->split && w.splits && i < MAX_TRIED && tried[i] <= w.trips; i++) {
        if (i >= USUAL && w.programs * tried[i] > t->sms) break;
        double us = launch_us(&w, t, tried[i]);
        if (us >= out->us) continue;
        out->us = us;
        out->schedule.split = parts = tried[i];
    }
    // One short round needs no loading ahead, and a tile is stored sooner by its own threads than by the copy engine.
    if (!given->walk && !given->blocks && w.programs * parts <= t->sms && out->us < SHORT) out->schedule.walk = 1;
    return true;
}

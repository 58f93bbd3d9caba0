// How long a kernel without products would take: elementwise kernels, rows, sums over everything.
//
//     memory    all tensors, once, at the memory's rate; what is read in a loop over the trips of others comes from L2
//     issue     warps * (addresses and bounds + what an element costs * elements of a lane) at what a scheduler issues
//     blocks    one block after another starts on a multiprocessor
//     waiting   rounds of blocks * what a program waits for: loads, one after the other in trips, and warps for each other
//
// Parts are of the first loop. What follows it the last part does alone, loops too, unless all parts meet after each loop (pass/cluster_rows.c).
//
// Where programs are fewer than multiprocessors, nothing fills in for one that waits, so its loops wait one after the other (a batch norm of
// 10000 x 1024 f32 by 64 programs of 3 x 157 trips: 250 us, of which its longest loop is a third). A later loop over what the first one has read
// waits only for what shared memory does not hold of it (pass/row_cache.c), and brings that trip by trip: it stores, or has lanes to mask.
//
// A loop whose trips read what it carries runs twice where its parts meet: each adds up its own trips first.
//
// They overlap, but not wholly: the sum of their cubes counts. Few programs with long loops wait most: for them S programs
// share a loop (split_k.c), which costs joining S parts. Fitted to what an H200 took (tests/lower/test_cost_rows.c).
//
//     column sums of 8192 x 8192 bf16, 64 programs of 256 trips      waiting 154, memory 30 us     161
//     the same in 16 parts                                           waiting  10, memory 30 us      36
#include "lower/cost/cost.h"
#include "lower/facts/facts.h"
#include "lower/pass/row_cache.h"

#include <math.h>

// us; of the memory's peak; bytes a us of one multiprocessor
static const double START = 3.0, MEMORY = 0.945, DRAW = 105e3;
static const double LATENCY = 0.6, BLOCK = 0.085;                   // us: a load from memory; starting a block
static const double SHUFFLES = 0.1, MEET = 0.15, MEET_WARP = 0.012; // us: joining lanes; warps, and each of them
// instructions of a warp besides elements; of a reduction; clocks a us
static const double OWN = 90, JOINED = 40, CLOCK = 1755;
static const double JOIN = 1.4, JOIN_PART = 0.004, JOIN_RATE = 60e3;  // us: fences and counts, each part; bytes a us
// instructions that are fetched quickly; of warps that meet, not hidden
static const double MET = 1.3;                                        // a meeting of all parts, of such a join
static const double SPILLS = 1.5, CACHED = 1100, MEETING_BARE = 0.7;
static const double CROWDED = 1.06;                                 // of a launch
static const double WORTH = 0.93;                                   // of the time of one part, to have several
// us of shared memory: a warp's first value of a reduction, and each more
static const double MEETING = 0.008, MEETING_MORE = 0.03;
enum {
    OVERLAP_LANES = 8,
    OVERLAP = 3,
    LONGEST = 16384,
    MAX_PARTS = 10,
    CROWDED_LANES = 96,
    MAX_WARPS = 6,
    FEW_CLUSTERS = 8,                  // blocks of a program's cluster: programs that leave some multiprocessors idle have more without
    REGS = 20,
    MOST_VALUES = 8,
    OTHER = 4 << 10                    // bytes of shared memory that hold no tiles
};

typedef struct Rows {
    Facts  *facts;
    const int64_t *dims;
    int64_t lanes;                     // of the largest tile
    double  elements;                  // of a program: instructions for all lanes
    double  trips;                     // of loops one in another, all in all
    double  reduces, ends;             // joined across lanes: in trips, or once; once each loop ends
    double  meeting, meeting_ends;     // us of shared memory for each warp, where several join
    double  carried;                   // bytes that loops of sums carry
    double  load_bytes;                // of an element, the widest that is loaded
    bool    known, kept;               // a whole tile is stored that reductions are part of
} Rows;

static bool number(Rows *r, const Val *v, int64_t *out) {
    LExpr e;
    return host_expr(r->facts, v, &e) && launch_by_dims(e, r->dims, out);
}

// From lo to hi, or to min(.., lo + n): a program's share of something. What a number in memory bounds is as long as it can be.
static bool length(Rows *r, const Val *lo, const Val *hi, int64_t *out) {
    int64_t from, to;
    const Op *d = hi->def;
    if (number(r, lo, &from) && number(r, hi, &to)) { *out = to - from; return true; }
    for (int i = 0; d && d->code == OP_T_fun && d->sub == TF_min && i < 2; i++) {
        const Op *sum = d->in[i]->def;
        if (sum && sum->code == OP_T_binary && sum->sub == OP_add && fact_same(sum->in[0], lo) &&
            number(r, sum->in[1], out))
            return true;
    }
    if (!number(r, lo, &from) || !number_at_most(r->facts, hi, r->dims, false, &to)) return false;
    *out = to - from;
    return true;
}

// Instructions an element.
static double price(const Op *op) {
    static const struct { int fun; double each; } funs[] = {
        {TF_exp, 3}, {TF_exp2, 2}, {TF_log, 5}, {TF_log2, 4}, {TF_sqrt, 6}, {TF_rsqrt, 4}, {TF_sin, 20}, {TF_cos, 20}, {TF_tanh, 12}, {TF_erf, 14}, {TF_div_rn, 10},
        {TF_pow, 70}, {TF_fmod, 20},
    };
    switch (op->code) {
    case OP_T_fun:
        for (size_t i = 0; i < sizeof funs / sizeof *funs; i++) if (funs[i].fun == op->sub) return funs[i].each;
        return 1;
    case OP_T_binary: return op->sub == OP_div ? 5 : op->sub == OP_rem ? 12 : 1;
    case OP_T_load:
    case OP_T_store:
    case OP_T_cast:
    case OP_T_unary:
    case OP_T_select:
    case OP_T_bitcast:
    case OP_T_reduce: return 1;
    case OP_T_scan: return 3;
    case OP_T_scan_by: case OP_T_reduce_by: {                    // the function's, and moving what it joins
        double n = 0;
        for (const Op *in = op->reg[0]->first; in; in = in->next) n += price(in);
        return 3 * op->nout + n;
    }
    case OP_T_sort: case OP_T_order: case OP_T_take: return 60;
    case OP_T_atomic: case OP_T_ptrload: case OP_T_ptrstore: return 4;
    default: return 0;
    }
}

static const Type *widest(const Op *op) {
    const Type *t = NULL;
    for (int i = 0; i < op->nin; i++)
        if (op->in[i]->type.kind == TY_TILE && (!t || type_lanes(&op->in[i]->type) > type_lanes(t)))
            t = &op->in[i]->type;
    for (int i = 0; i < op->nout; i++)
        if (op->out[i]->type.kind == TY_TILE && (!t || type_lanes(&op->out[i]->type) > type_lanes(t)))
            t = &op->out[i]->type;
    return t;
}

static bool loads_anything(const Region *region) {
    for (const Op *op = op_walk(region, NULL); op; op = op_walk(region, op))
        if (op->code == OP_T_load || op->code == OP_T_ptrload || op->code == OP_T_atomic) return true;
    return false;
}

static void look(Rows *r, const Region *region, const Op *but, double times, double outer, bool in_loop) {
    for (const Op *op = region->first; op; op = op->next) {
        if (op == but) continue;
        double inside = times;
        if (op->code == OP_T_dot || op->code == OP_T_while || op->code == OP_T_roles) r->known = false;
        if (op->code == OP_T_for) {
            int64_t all, step;
            if (!length(r, op->in[0], op->in[1], &all) || !number(r, op->in[2], &step) || step < 1) {
                r->known = false;
                return;
            }
            double n = all > 0 ? (double)((all + step - 1) / step) : 0;
            inside = times * n;
            if (!loads_anything(op->reg[0])) { look(r, op->reg[0], NULL, inside, outer, in_loop); continue; }
            if (outer * n > r->trips) r->trips = outer * n;
            for (int i = 0; i < op->nout; i++)
                r->carried += (double)type_lanes(&op->out[i]->type) * elem_bytes((Elem)op->out[i]->type.elem);
            look(r, op->reg[0], NULL, inside, outer * n, true);
            continue;
        }
        for (int i = 0; i < op->nreg; i++) look(r, op->reg[i], NULL, times, outer, in_loop);
        const Type *t = widest(op);
        if (!t || !price(op)) continue;
        int64_t lanes = type_lanes(t);
        if (lanes > r->lanes) r->lanes = lanes;
        r->elements += price(op) * (double)lanes * times;
        if (op->code == OP_T_reduce || op->code == OP_T_scan || op_joins(op)) {
            bool deferred = in_loop && op->code == OP_T_reduce && op->sub != TR_argmax && op->sub != TR_argmin;
            double values = op->code == OP_T_reduce ? (double)type_lanes(&op->out[0]->type) / 32 : 1;
            if (values > MOST_VALUES) values = MOST_VALUES;
            double meeting = MEETING + (values > 1 ? (values - 1) * MEETING_MORE : 0);
            // acc += sum(..) waits for no other lane until the loop ends
            *(deferred ? &r->ends : &r->reduces) += deferred ? 1 : times;
            *(deferred ? &r->meeting_ends : &r->meeting) += deferred ? meeting : meeting * times;
        }
        if (op->code == OP_T_load && elem_bytes((Elem)op->out[0]->type.elem) > r->load_bytes)
            r->load_bytes = elem_bytes((Elem)op->out[0]->type.elem);
        if (op->code == OP_T_store && type_lanes(t) == r->lanes) r->kept = true;
    }
}

// waits: for memory, one after the other; less than 0: as many as the longest loop has trips.
static double work_us(const Rows *r, const Target *t, double programs, double bytes, int warps, int per_block, int parts, double waits) {
    double each = (double)r->lanes / (32.0 * warps), sms = t->sms;
    bool   loops = r->trips > 0;
    double trips = loops ? ceil(r->trips / parts) : 1, share = loops ? trips / r->trips : 1;
    int threads = 32 * warps * per_block,
        regs = REGS + (int)(each * (r->kept && r->reduces + r->ends > 0 ? 1.5 : r->load_bytes / 4));
    int resident = target_occupancy(t, threads, regs > 255 ? 255 : regs, 0);
    if (resident < 1) return INFINITY;
    double blocks = ceil(programs * parts / per_block), at_once = blocks < sms ? blocks : sms,
           reduces = r->reduces * share + r->ends;
    double warp = OWN + reduces * JOINED + r->elements * share / (32.0 * warps) * (regs > 255 ? SPILLS : 1);
    double code = warp / trips > CACHED ? warp / trips / CACHED : 1;
    double issue = programs * parts * warps * warp * code / (sms * 4 * CLOCK);
    double met = warps > 1 ? programs * parts * warps * (r->meeting * share + r->meeting_ends) / sms : 0;
    if (waits < 0) waits = loops && each <= OVERLAP_LANES ? trips / OVERLAP : trips;
    double wait = LATENCY * waits +
                  reduces * (SHUFFLES + (warps > 1 ? MEET + MEET_WARP * warps : 0)) +
                  warp * (warps > 4 ? warps / 4.0 : 1) / CLOCK;
    double waiting = ceil(blocks / (sms * resident)) * wait;
    double memory = bytes / (t->gbs * MEMORY * 1e3), drawn = bytes / at_once / DRAW, starts = ceil(blocks / sms) * BLOCK;
    if (drawn > memory) memory = drawn;
    double us = START + cbrt(memory * memory * memory + issue * issue * issue + waiting * waiting * waiting +
                             starts * starts * starts);
    us += met * MEETING_BARE;
    if (loops && each > CROWDED_LANES) us *= CROWDED;                 // little room for loads on their way
    return us;
}

typedef struct Work {
    Rows    all, rest;                 // rest: without the first loop; trips 0: there is no other
    int64_t outer;                     // trips of the outermost loop, the most of any
    int     meetings;
    bool    meets, alike;              // parts of it may meet after each loop; whatever is given, they could
    bool    runs;                      // parts have to add up first: a loop of the same trips before the first one, and its loads twice
    double  first, later;              // trips of the first loop that loads, and of all after it
    int     laters;                    // those
    int     usual;                     // warps that nobody has to give; 0: they are given
    bool    keeps;                     // later ones read what the first one does
    Keep    keep;
} Work;

static bool kept_by(const Work *w, int warps, bool meet) {
    return w->keeps && warps > 1 && type_lanes(&w->keep.load[0]->out[0]->type) >= keep_fewest(warps == w->usual ? 0 : warps, meet);
}

// Of few programs with several loops: what the first one waits for, and the later ones, while nothing else happens.
typedef struct Waits { double first, later; } Waits;

static Waits waits_of(const Work *w, const Target *t, int warps, int parts, bool meet) {
    double each = (double)w->all.lanes / (32.0 * warps), first = ceil(w->first / parts), later = meet || parts < 2 ? w->later / parts : 0;
    meet &= parts > 1;
    double waits = each <= OVERLAP_LANES ? first / OVERLAP : first;
    if (w->runs && meet) later += waits;
    if (!kept_by(w, warps, meet) || (parts > 1 && !meet)) return (Waits){waits, later};
    double bytes = (double)w->keep.loads * (double)keep_tile_bytes(&w->keep), room = floor((t->smem_block - OTHER) / bytes), more = later - room * w->laters;
    return (Waits){first / keep_trips_ahead(&w->keep), more > 0 ? more : 0};
}

static double launch_us(const Work *w, const Target *t, double programs, double bytes, int warps, int per_block, int parts) {
    Rows twice = w->all;
    const Rows *r = &w->all;
    if (w->runs && parts > 1) {
        twice.elements *= 2;
        twice.ends += 1;
        bytes *= 1.5;
        r = &twice;
    }
    bool meet = w->meets && programs * parts <= t->sms, several = (w->laters || w->runs) && w->alike && programs * 2 <= t->sms && programs * parts <= t->sms;
    Waits waits = several ? waits_of(w, t, warps, parts, meet) : (Waits){-1, 0};
    if (parts < 2) return work_us(r, t, programs, bytes, warps, per_block, 1, waits.first) + waits.later * LATENCY;
    double join = JOIN + JOIN_PART * parts + r->carried * parts / JOIN_RATE;
    double us = work_us(r, t, programs, bytes, warps, per_block, parts, waits.first) + waits.later * LATENCY + (meet ? w->meetings * MET : 1) * join;
    return meet || !w->rest.trips ? us : us + work_us(&w->rest, t, programs, 0, warps, per_block, 1, several ? w->later : -1) - START;
}

// Of the loop and of those in it, one after the other.
static double trips_of(Rows *r, const Op *loop) {
    int64_t all, step;
    double inside = 0;
    if (!length(r, loop->in[0], loop->in[1], &all) || !number(r, loop->in[2], &step) || step < 1) return 1;
    for (const Op *op = loop->reg[0]->first; op; op = op->next) if (op->code == OP_T_for && loads_anything(op->reg[0])) inside += trips_of(r, op);
    double n = all > 0 ? ceil((double)all / (double)step) : 0;
    return inside > 0 ? n * inside : n;
}

static void several_loops(Work *w, Fn *f) {
    const Op *first = NULL;
    for (const Op *op = f->body.first; op; op = op->next) {
        if (op->code != OP_T_for || !loads_anything(op->reg[0])) continue;
        double n = trips_of(&w->all, op);
        if (first) w->later += n, w->laters++;
        else w->first = n, first = op;
    }
    w->keeps = first && w->laters && keep_finds(f, &w->keep) && w->keep.loop[0] == first;
}

static void loops_of(Work *w, Fn *f) {
    const Op *first = NULL;
    w->rest = w->all;
    for (const Op *op = f->body.first; op; op = op->next) {
        int64_t all, step;
        if (op->code != OP_T_for) continue;
        if (!first) first = op;
        w->meetings += op->nout > 0;
        if (!length(&w->all, op->in[0], op->in[1], &all) || !number(&w->all, op->in[2], &step) || step < 1) continue;
        if ((all + step - 1) / step > w->outer) w->outer = (all + step - 1) / step;
    }
    several_loops(w, f);
    look(&w->all, &f->body, NULL, 1, 1, false);
    look(&w->rest, &f->body, first, 1, 1, false);
}

bool cost_of_rows(Fn *f, const CompileOptions *opt, const Schedule *given, const int64_t *dims, Cost *out) {
    const Target *t = opt->target;
    int64_t programs, n, d;
    int     i;
    double  bytes = 0;
    if (unrolls(f)) return false;                                       // the model counts what each trip loads
    for (int p = 0; p < f->launch->nparams; p++) {
        const LaunchParam *x = &f->launch->params[p];
        if (x->kind != PK_TENSOR) continue;
        for (n = 1, i = 0; i < x->rank; i++) {
            if (!launch_by_dims(x->dim[i], dims, &d)) return false;
            n *= d;
        }
        bytes += (double)n * elem_bytes(x->elem) * (x->mode == PM_INOUT ? 2 : 1);
    }
    bool sized = launch_by_dims(f->launch->programs, dims, &programs);
    Work w = {.all = {.facts = facts_new(f), .dims = dims, .known = true}};
    w.alike = share_meets(f, &w.runs);
    w.meets = w.alike && given->split_k != 1 && !given->cluster;
    int  blocks = given->cluster || given->split_k || given->warps ? 1 : share_blocks(f, t, dims);
    if (blocks > 1 && !(w.meets && sized && programs * FEW_CLUSTERS <= t->sms)) {   // a long row: a cluster's, whatever there is of them
        *out = (Cost){.us = START + bytes / (t->gbs * MEMORY * 1e3), .schedule = *given};
        out->schedule.cluster = blocks;
        return true;
    }
    if (!sized) return false;
    loops_of(&w, f);
    const Rows *r = &w.all;
    if (!r->known || !r->lanes || r->lanes > LONGEST || programs < 1) return false;
    CompileOptions own = *opt;
    own.schedule = *given;
    bool splits = !given->split_k && w.outer > 1 && (w.meets || split_refusal(f) == NULL);
    int  per_block, usual = schedule_warps(f, &own, &per_block), parts = given->split_k > 1 ? given->split_k : 1;
    w.usual = given->warps ? 0 : usual;
    double stands = launch_us(&w, t, (double)programs, bytes, usual, per_block, parts);
    int tried[MAX_PARTS + 1] = {w.meets && programs * 2 <= t->sms ? (int)(t->sms / programs) : 1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
    *out = (Cost){.us = stands, .schedule = *given};
    for (i = 0; i <= MAX_PARTS; i++)
        for (int k = 0; k < MAX_WARPS; k++) {                           // without a loop the usual number is as good as any
            bool open = !given->warps && r->trips > 1;
            if ((tried[i] > 1 && (!splits || tried[i] > w.outer)) || (k && !open)) continue;
            own.schedule.warps = open ? 1 << k : given->warps;
            int each, warps = schedule_warps(f, &own, &each), p = splits ? tried[i] : parts;
            if (p > 1 && w.meets && programs * p > t->sms) continue;                               // they could not all run at once
            // fewer elements a lane take up to three times as long, but where only so many warps keep the row
            if (open && p > 1 && w.meets && warps != usual && (kept_by(&w, usual, true) || !kept_by(&w, warps, true))) continue;
            double us = launch_us(&w, t, (double)programs, bytes, warps, each, p);
            if (us >= out->us || us > stands * WORTH) continue;
            *out = (Cost){.us = us, .schedule = *given};
            if (p > 1) out->schedule.split_k = p;
            if (warps != usual) out->schedule.warps = warps;
        }
    return out->us < INFINITY;
}

// How many warps run a program, and how many programs share a block.
//
// A program that reduces keeps its rows in registers, about 32 elements a lane, so that the row is read once with many
// bytes in flight; one that folds pairs of tiles, about 128, since each that is read then serves many (1024 x 1024 x
// 1024 shortest paths on an H200: 166 us, 338 with 32; 2026-11-21). One that only moves and maps, or scans (each
// register waits for the one before), takes fewer; where it computes with costly functions, as many as share what a
// thread does once (`shared_by`: 32 with one function an element). Programs of one warp go four to a block. Kernels
// with matrix products take eight warps, or four when the products are small, all of them together.
#include "lower/build.h"
#include "lower/pass/passes.h"
#include "lower/pass/privatize.h"

#include "ptx/ptx.h"

enum { FEW_WARPS = 4 };               // quantising rows of 5120 by 8 and 4 warps 68 and 59 us, of 11008 by 16 and 8 80 and 69; sums along 8192 70 and 65
enum { SCANNED_WARPS = 4, SCANNED_LANES = 16384 };   // running sums of 16384 by 4, 8, 16 warps 130, 136, 148 us; of 8192 128, 128, 135; of 16001 131, 151, -
enum { CROSSED_WARPS = 8, CROSSED_BYTES = 2, CROSSED_LANES = 128 * 128 };      // so that lanes have words of neighbours along either axis: 8192 x 8192 bytes turned by 128 x 128 34.5 us, 41.9 by 32 warps
enum { SHARED_WARPS = 8 };            // of a block of a cluster: three blocks fit with 64 registers and more
enum { SHARED_LEAST = 2048 };         // elements of a trip for them: softmax of 1024 x 393216 bf16 454 us, 529 by 4 warps, 611 by 2
enum { EIGHT_WARPS = 128 * 128 };     // elements of a product that four do not hold: 128 registers of each thread

// memory: of the largest tile that is read or written; dots: of all products, and of what is computed for their right
// sides; functions: costly ones; plain: other ops on whole tiles
typedef struct Sizes {
    int64_t lanes, memory, dot, dots;
    const Val *along;                            // the axis along which the last tile was read that has more than one
    int     crossed;                             // bytes of an element of a tile that is stored along another axis than it was read along
    int     rank, ndots, functions, plain, gathers;
    bool    reduces, scans, sorts, looped;       // looped: a loop stands in it, or several axes are scanned
} Sizes;

// Some fifteen instructions an element and what comes with them: what a thread does once, addresses and bounds, should
// be shared by many.
static bool costly(int fun) {
    switch (fun) {
    case TF_exp: case TF_exp2: case TF_log: case TF_log2: case TF_sin: case TF_cos: case TF_tanh: case TF_erf: case TF_pow: return true;
    default: return false;
    }
}

// A tile that is read from memory, or made of one.
static bool from_memory(const Val *v, int depth) {
    const Op *d = v->type.kind == TY_TILE && v->type.rank ? v->def : NULL;
    if (!d) return false;
    if (d->code == OP_T_load) return true;
    for (int i = 0; i < d->nin && depth > 0; i++) if (from_memory(d->in[i], depth - 1)) return true;
    return false;
}

// Elements at places that data says, each by itself: the innermost index is made of what was loaded.
static bool gathers(const Op *op) { return op->code == OP_T_load && op->nidx && from_memory(op->in[op->nidx], 8); }

// The axis along which a tile of several lies in memory, if it is that axis's number and what all lanes share.
static const Val *innermost(const Op *op) {
    const Val *v = op->nidx ? op->in[op->nidx] : NULL, *tile = op->code == OP_T_load ? op->out[0] : op_value(op);
    return v && v->type.kind == TY_TILE && v->type.rank == 1 && tile->type.rank > 1 ? v->type.axis[0] : NULL;
}

static void measure(const Region *r, Sizes *s) {
    for (const Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nout; i++)
            if (op->out[i]->type.kind == TY_TILE && op->code != OP_T_index && op->code != OP_T_live) {
                int64_t n = type_lanes(&op->out[i]->type);
                bool moves = op->code == OP_T_load || op->code == OP_T_ptrload || op->code == OP_T_atomic;
                if (n > s->lanes) { s->lanes = n; s->rank = op->out[i]->type.rank; }
                if (moves && n > s->memory) s->memory = n;
                if (op->code == OP_T_dot && n > s->dot) s->dot = n;
            }
        if (op->code == OP_T_dot)
            s->dots += type_lanes(&op->out[0]->type) +
                       (op->in[1]->def && op_has(op->in[1]->def, 'P') ? type_lanes(&op->in[1]->type) : 0);
        s->ndots += op->code == OP_T_dot;
        s->reduces |= op->code == OP_T_reduce;
        s->gathers += gathers(op);
        if (op->code == OP_T_load && innermost(op)) s->along = innermost(op);
        if (op->code == OP_T_store && innermost(op) && s->along && innermost(op) != s->along) s->crossed = elem_bytes((Elem)op->in[0]->type.elem);
        s->scans |= op->code == OP_T_scan || op_joins(op);
        s->looped |= (op->nreg && !op_joins(op)) || ((op->code == OP_T_scan || op_joins(op)) && op->in[0]->type.rank > 1);
        s->functions += op->code == OP_T_fun && op->out[0]->type.rank && costly(op->sub);
        s->plain += (op->code == OP_T_binary || op->code == OP_T_select || op->code == OP_T_fun) && op->out[0]->type.rank && op->out[0]->type.elem != EL_index;
        s->sorts |= op->code == OP_T_sort || op->code == OP_T_order;
        for (int i = 0; i < op->nreg; i++) measure(op->reg[i], s);
    }
}

// A program whose number nobody asks for cannot tell whether it exists: it has its block for itself.
static bool numbered(const Region *r) {
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) if (op->code == OP_T_program) return true;
    return false;
}

// x[m, k] with y[k, n], folded over k: nothing in memory has the form of the largest tile.
static bool folds_pairs(const Sizes *s) {
    return s->reduces && s->rank > 2 && s->memory < s->lanes && !s->dot && !s->scans && !s->sorts && !s->functions;
}

// The same with functions of the pairs (a transform's twiddles): what is read is little, and a lane computes all of its elements' angles at once.
static bool computes_pairs(const Sizes *s) {
    return s->reduces && s->rank > 2 && s->memory < s->lanes && !s->dot && !s->scans && !s->sorts && s->functions > 1;
}

// Products that four warps hold one by one, but not all at a time with what they read. Two of a chain are as many as
// registers are for, unless they are of few rows: what their right sides are made of comes and goes with each.
static bool crowded(const Sizes *s) {
    bool few = s->ndots == 2 && s->dot * 8 <= EIGHT_WARPS;
    return !few && s->dot && s->dot < EIGHT_WARPS && (s->ndots > 2 ? s->dots * 4 >= EIGHT_WARPS * 3 : s->dots > EIGHT_WARPS);
}

// Elements a lane of a program that maps. An H200, focal loss and its gradient of 32 M, 7 functions: 334 us with 32
// elements by threads of 191 registers, 190 with 16, 139 with 4 (2026-11-22).
enum { SHARED_WORK = 512, FUNCTION = 15 };    // instructions that share what is done once; those of a function
enum { PLAIN_WORK = 1024 };                   // where there are none: dropout by ten rounds of Philox, 91 ops, 113 us by 16, 110 by 8, 116 by 4

// Each waits for its place, then for what is there: ptxas puts later elements' places behind what earlier ones wait for. Many threads hide that
// (a grid sampled anywhere, 8 x 16 x 256 x 256: 124 us by 4 elements a lane, 105 by 2 and by 1; but columns taken by their numbers alone 244 and 250).
enum { GATHERED = 2 };

static int shared_by(const Fn *f, const Sizes *s) {
    int each = s->gathers > 1 ? GATHERED : s->functions || f->neighbours ? 32 : 16;
    while (each > 4 && s->functions * FUNCTION * each > SHARED_WORK) each /= 2;
    while (each > 8 && !s->functions && !f->neighbours && s->plain * each > PLAIN_WORK) each /= 2;
    return each;
}

static int pow2_up(int64_t n) { int p = 1; while (p < n) p *= 2; return p; }

// Blocks that keep tallies: programs of one warp and up to 32 elements a lane side by side, which wait for nobody; else many warps that share it.
enum { TALLY_LANES = 32 * 32, TALLY_BESIDE = 16, TALLY_FEW = 8, TALLY_MOST = 16, TALLY_EACH = 16 };

static int tally_warps(const Sizes *s) {
    if (s->lanes <= TALLY_LANES) return 1;
    int warps = pow2_up(s->lanes / (32 * TALLY_EACH));
    return warps < TALLY_FEW ? TALLY_FEW : warps > TALLY_MOST ? TALLY_MOST : warps;
}

int schedule_warps(const Fn *f, const CompileOptions *opt, int *per_block) {
    Sizes s = {0};
    measure(&f->body, &s);
    int each = s.sorts ? 8 : s.scans || computes_pairs(&s) ? 16 : s.reduces ? 32 : shared_by(f, &s), warps;
    int64_t lanes = folds_pairs(&s) && s.lanes / 4 > s.memory ? s.lanes / 4 : s.lanes;
    if (s.dot) warps = s.dot >= EIGHT_WARPS || crowded(&s) ? 8 : s.dot >= 32 * 32 ? 4 : 1;
    else warps = pow2_up((lanes + 32 * each - 1) / (32 * each));
    if (warps > 32) warps = 32;
    if (s.crossed && s.crossed <= CROSSED_BYTES && !s.dot && !s.reduces && !s.scans && !s.sorts && !s.functions && s.lanes <= CROSSED_LANES && warps > CROSSED_WARPS) warps = CROSSED_WARPS;
    // the power of two below, where lanes have half as many more elements then at most; scans, twice as many
    int most = s.scans ? 2 * FEW_WARPS : FEW_WARPS;
    bool more = lanes * 4 <= (int64_t)warps * 32 * each * (s.scans ? 4 : 3);
    if (more && warps > most && (s.reduces || s.scans) && !s.dot && !s.sorts) warps /= 2;
    // of a row that is longer than what its cluster keeps: one block has a multiprocessor to itself
    if (f->shares && (warps > SHARED_WARPS || (!f->rows_walk && warps < SHARED_WARPS && lanes >= SHARED_LEAST))) warps = SHARED_WARPS;
    if (f->tallies) warps = tally_warps(&s);
    if (s.scans && !s.looped && !s.sorts && !s.dot && warps > SCANNED_WARPS && lanes <= SCANNED_LANES) warps = SCANNED_WARPS;
    if (opt->schedule.warps) warps = pow2_up(opt->schedule.warps < 32 ? opt->schedule.warps : 32);
    *per_block = warps > 1 || f->cluster || !numbered(&f->body) ? 1 : f->tallies ? TALLY_BESIDE : 4;
    return warps;
}

// As many as there is room for at one time, in whole clusters.
static void walkers(Fn *f, const CompileOptions *opt) {
    int cluster = f->shares ? f->shares : 1,
        blocks = opt->schedule.blocks ? opt->schedule.blocks : (int)f->target->sms * blocks_wanted(f);
    f->walks = blocks < cluster ? cluster : blocks / cluster * cluster;
}

static void tally_blocks(Fn *f, const CompileOptions *opt, int per_block) {
    LaunchInfo *l = f->launch;
    int blocks = opt->schedule.blocks ? opt->schedule.blocks : (int)f->target->sms * tally_resident(f);
    f->walks = blocks * per_block;
    l->blocks = launch_join_const(f->arena, L_MIN, launch_join_const(f->arena, L_CDIV, l->programs, f->tally_long ? 1 : per_block), blocks);
}

bool schedule(Fn *f, const CompileOptions *opt) {
    int per_block;
    f->warps = schedule_warps(f, opt, &per_block);
    Sizes s = {0};
    measure(&f->body, &s);
    f->plain = !s.ndots;
    if (opt->schedule.warps) f->warps_why = "as asked or chosen";
    else if (crowded(&s)) f->warps_why = arena_printf(f->arena, "for products of %lld elements together", (long long)s.dots);
    else if (s.dot) f->warps_why = arena_printf(f->arena, "for a product of %lld elements", (long long)s.dot);
    else
        f->warps_why = arena_printf(f->arena, "%lld elements of the largest tile a lane%s",
                                    (long long)((s.lanes + 32 * f->warps - 1) / (32 * f->warps)),
                                    s.sorts           ? ": it sorts"
                                    : s.scans         ? ": it scans"
                                    : folds_pairs(&s) ? ": it folds pairs"
                                    : s.reduces       ? ": it reduces"
                                    : s.functions     ? ": costly functions"
                                    : f->neighbours   ? ": neighbours are loaded once"
                                                      : "");
    LaunchInfo *l = f->launch;
    l->threads = f->warps * 32 * per_block;
    if (f->rows_walk) walkers(f, opt);
    if (f->tallies) tally_blocks(f, opt, per_block);
    else if (f->rows_walk) l->blocks = launch_join_const(f->arena, L_MIN, l->programs, f->walks);
    else l->blocks = per_block == 1 ? l->programs : launch_join_const(f->arena, L_CDIV, l->programs, per_block);
    return true;
}

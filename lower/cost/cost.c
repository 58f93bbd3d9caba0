// How long a kernel of products would take, without running it: what tiles and parts are chosen by.
//
//     rounds   = programs / multiprocessors, rounded up
//     a trip   = the most of: its multiplications, what it reads through L2
//     a launch = start + rounds * (trips * a trip + the end of a tile) + joining parts, but no less than
//                all tensors at the memory's rate, and each block's share of them at what one multiprocessor can draw
//
// Where each of two groups makes tiles of its own (hopper/pingpong.c), rounds are of smaller tiles, whose ends are hidden behind the products of
// the other group's next one; what is left is the end of the last. That is decided here too, for tiles that were measured.
//
// A loop of products inside another one takes, each outer trip, its products and what stands between them and the next ones; blocks that share a
// multiprocessor, by shorter rings, are at the one while others are at the other, which is decided here, too. Rows that are read again and again come from memory where all
// blocks' together are more than the second level's cache. Rows that data names cost their bytes beside the products; programs for which data leaves nothing, a start.
//
// Where a loop has one trip, blocks may keep the right operand down a column (hopper/kept.c): then shared memory's traffic of a tile is the left operand, what
// wgmma reads, and the result twice; a run of tiles begins late, as the operand comes. That is decided here as well.
//
// wgmma reads its operands from shared memory as it goes, 128 bytes a clock: 64 rows by n columns take max(n / 2, 18 +
// n / 4) clocks for 16 of k. Power keeps large products at some five sixths of the peak. The constants were fitted to
// what an H200 took (tests/lower/test_cost.c has the figures): what is chosen is 2 % behind the best that was measured.
#include "lower/cost/cost.h"
#include "lower/facts/access.h"
#include "lower/pass/passes.h"

#include <math.h>
#include <string.h>

static const double SLOTS_BYTES = 34e3, BARRIERS_BYTES = 4e3;                             // beside the ring
static const double START = 3.2;                                    // us: an empty launch
static const double POWER = 0.84, MMA_SYNC = 0.58;                  // of the peak
static const double APART = 1.25, CROSSED = 2.7;                    // rows of TMA that are no whole lines of 128 bytes; no whole sectors of 32
static const double NEAR = 1.6, NEAR_STATE = 4096, NEAR_FULL = 10.0 / 11;   // us that joining in a cluster saves; bytes of a part beside its tile; of a multiprocessor's blocks
static const double NEAR_SHORT = 15;                                // us: what takes longer wants more blocks than clusters have room for
static const double IN_GRAPH = 1.5;                                 // .. for tiles of one warp each: nothing of theirs is on its way when the launch before ends
static const double IN_CLUSTERS = 1.3;                              // us: a cluster begins later, and its blocks wait for each other
static const double HALVES = 1.3, QUARTERS = 2.5, AGAIN = 0.75;     // boxes of 64 and 32 bytes a row; as many times as rows lie in what a box has for one, to this power
static const double ODD_COLUMNS[] = {1, 1.27, 1.09, 1.11};          // wgmma's, where memory has them in rows and the last 64 are so many 16s
static const double TURNED = 2e3, TURNED_FREE = 8192;               // elements of a turned product beyond so many, a us: nothing is loaded behind them
static const double STORED = 12e3, OWN_ALIGNMENT = 4.4e-3;          // elements stored one by one, a us and multiprocessor; us of a row of a tile that is stored at its own alignment
static const double ELEMENTS = 8.5e3, SMALL_PIECES = 11e3, SPREAD = 4096;      // read one by one, or brought in pieces of 4 or 8 bytes, a us and multiprocessor; smaller tiles have too few warps, without roles
static const double LOADED = 10e3, AHEAD = 1000;                    // elements of a tile that the consumers load behind the loop, a us; clocks that a ring must last for TMA to bring it (hopper/behind.c)
static const double APART_LEAST = 32e6, APART_BYTES = 64e6, APART_PARTS = 1.33, APART_OFTEN = 1.5;                             // what parts far from each other read from memory is not there for others as it comes: of as much, all takes its time beside L2's
static const double QUICK_PARTS = 9, MORE_PARTS = 110e3;            // parts beyond so many come that fast, bytes a us
static const double PART = 4.2;                                     // us: a part that is left for others, where a block has more of them than tiles
static const double OUTSIDE = 1, SOME = 0.15;                     // of memory's time: rows of a tile that are not there, of all that it has, but for so many
static const double ALONE = 1.02;                                   // one warp group: nobody multiplies while it waits
static const double TOGETHER = 4, LARGE_TILE = 128 * 128;           // of large tiles: a norm between the sum of work and memory's time, 1, and the longer one
static const double TOGETHER_SHORT = 2.5, SHORT_ROW = 512;          // of short sums, of so many bytes of a row: operands that come and results that go are in each other's way
static const double EXPOSED = 0.55, EXPOSED_ROWS = 0.28;             // of an activation's time, and of storing rows at their own alignment, that the other group's products do not hide
static const double OP_US = 0.62e-3, FUN_OPS = 4, STORE_OPS = 4;    // an op of an element after the loop
// Where shares of trips end within tiles: us of fences and counts; bytes a us and multiprocessor of parts; and blocks do not read the same at the same time,
// which L2 would bring to all of them at once.
static const double WAITED = 1, SENT_RATE = 110e3, ASTRAY = 1.25;
static const double PROMOTE = 0.05;                                 // us a trip: f8 products are waited for and added
static const double ANEW = 1.5;                                     // us: a block that begins where another ended, instead of walking on
static const double SHORT = 15;                                     // us
// Of L2's time, what a byte of the rows adds that are read again for each column of tiles, of up to so much of a row, beyond so many: 1024 x 1024 x 4096 by
// 64 x 64 takes 26.7 us, 512 x 4096 x 4096, twice the rounds, 38.7, and 256 x 4096 x 14336, as many bytes as the first, no more than its rounds.
static const double FAR = 0.045e-6, FAR_ROW = 8192, NEAR_BY = 2e6;
enum { ROWS_TOGETHER = 16 };                                         // rows of tiles
static const double SHALLOW = 0.44, ON_ITS_WAY = 0.8;               // a ring's stages but two (one is read, one about to be free) last so many us

// What one of many multiprocessors draws from memory, by wgmma; by a ring of few stages, of which one is read and one is about to be free.
static const double DRAW_MANY = 85e3, DRAW_SHORT = 63e3;
enum { MANY_DRAW = 32, SHORT_RING = 5 };
static const double ABSENT = 0.9;                                    // of the time of small tiles by mma.sync, rows that are not there, of all that they have
static const double SHALLOW_MMA_SYNC = 1.08, DEEP_BYTES = 96e3;     // less than that on its way

// An operand that is made in registers: elements a us and multiprocessor, of which one group alone hides a quarter; us a trip; and
// elements that turn round at its end (TURNED is of tiles that nobody computes for). Several blocks on a
// multiprocessor (hop_blocks_together) work while one waits.
static const double MADE = 33e3, MADE_ALONE = 38e3, MADE_TRIP = 0.11, MADE_MORE = 0.02, TURNED_MADE = 8e3;
enum { FEW_COLUMNS = 64 };                                          // more were not measured so

// What differs by what multiplies: wgmma in roles, fitted to products; mma.sync, fitted to decoding attention.
typedef struct Rates {
    double fill, end, last;         // us: the first loads; storing a tile; and each byte of the last one, behind which nobody loads
    double l2, draw;                // bytes a us and multiprocessor: from L2, from memory
    double barriers;                // us a trip
    double again, few;              // of what is read again, that misses L2; memory drawn by few blocks
    double memory, beside;          // of the memory's peak; of the work, what is not done while memory is waited for
    double join, parts;             // us: fences and the count of arrivals; bytes a us of parts
} Rates;
static const Rates by_wgmma = {1.1, 0.6, 2e-5, 145e3, 105e3, 0.0125, 0.06, 0.1, 0.9, 0.1, 2, 72e3}, by_mma_sync = {1.2, 1.3, 0, 150e3, 47e3, 0.01, 0.1, 0.06, 0.87, 0, 3.5, 150e3};

// Loops around loops, and rows that data names (2026-11-22, tests/lower/test_cost_loops.c): us from one's last product to the next one's first, and what an operation
// on an element of a thread takes, of one group and more; until a stage that is read is there again, beside trips; bytes of rows a us; us of a program that finds
// nothing to do; of the second level's cache, what rows that are read again and again may take, and how much more until all come from memory.
static const double BETWEEN[] = {0, 0.38, 0.5, 0.5}, ELEMENT_OP[] = {0, 1.3e-3, 2.0e-3, 2.0e-3}, REFILL = 0.42, REFILL_TRIPS = 1.25, GATHERED = 120e3, ODD_PIECES = 3, IDLE = 0.7, KEPT = 0.7, LOST = 0.5;
static const double STORED_BETWEEN = 2, SUM_REGS = 1.75, OP_REGS = 12, FEW_OPS = 4, SPILLED = 0.03, FULL_CLOCK = 0.97;       // registers: of a sum, of an operation on an element beyond so many; us of one that there is no room for
static const double WORTH_SHARING = 0.95, WORTH_ONE_ROUND = 0.85;
enum { DEEP = 12, ACC_ALL = 176, GATHER_REGS = 32, SCRATCH = 512, RESERVED = 1024, MOST_TOGETHER = 3, MOST_THREAD = 255, LEAST_STAGES = 3, PARTITIONS = 4 };      // of a multiprocessor's registers

// Blocks that keep the right operand: us until the first tile, and until that of another run, when the ring is full and nothing multiplies; bytes a us of the operand, a clock of
// shared memory.
static const double KEPT_START = 0.5, KEPT_RUN = 2.8, KEPT_RATE = 80e3, SHARED = 128;
enum { KEPT_MOST = 64, KEPT_STAGES = 2 };

enum { PACKED = 512, PROGRAM_REGS = 64, SYNC_STAGES = 4 };            // programs of fewer elements are one warp each; registers beside sums; stages of cp.async
enum { MAX_TRIED = 14, MAX_RING = 16, USUAL = 8, NEAR_PARTS = 8, ACC_REGS = 160, PROMOTED_REGS = 192, GROUP_REGS = 192, GROUP_REGS_BUSY = 176, GROUP_REGS_TWO = 128, GROUP_COLUMNS = 128, GROUP_LEAST = 64 * 192, GROUP_STAGES = 4,
       THREE = 192, BAND_REGS = 96, BAND_COLUMNS = 144 };           // rows that three groups share (hopper/bands.c); columns, where what follows takes registers

typedef struct Work {
    const Op *loop;
    double  flops, clocks;          // of a trip: all of it; on the tensor cores, 0 if not by wgmma
    double  bytes, drawn;           // that a trip reads; as L2 would count them
    double  common;                 // of those, what programs one below the other both read, where its rows are no whole sectors
    double  elements, pieces;       // of them, one by one; in pieces of 4 or 8 bytes
    double  tile, tile_rows;        // elements that a program makes
    double  rate;                   // flops a us of one multiprocessor
    int     threads;                // that multiply
    int64_t group_regs;             // a thread's, of a tile that one group makes
    double  group, group_row;       // rows of the left operand that are walked together; bytes of a trip of each
    double  behind;                 // bytes of a tile that what follows the loop reads, where TMA brings it
    double  end, turned_end;        // us: what a thread computes of a tile after the loop; a turned one on its way to rows, before another one
    double  tile_bytes;             // of what a loop carries
    int64_t trips, programs;
    double  unique;                 // bytes of all tensors
    const Op *nest;                 // a loop around it; NULL: none
    int64_t outer;                  // trips of that
    double  between, again;         // then: operations of an element behind each of them; bytes that each reads again
    int64_t regs;                   // of a thread, for all sums
    double  gathered, picked;       // bytes of a trip whose rows data names; of all rows that are, of a table (NULL: none)
    const Val *table;
    double  idle;                   // programs that find nothing to do
    bool    merged;                 // what the loop carries is joined by its `merge`
    bool    wide;                   // the target has wgmma
    bool    splits, promoted, sync;  // sync: some product is not by wgmma, and so none is
    bool    scattered, rows;        // rows of a result that 16 bytes do not divide are stored element by element; or by warps that walk (hopper/rows.c)
    bool    three;                  // groups of 64 rows each
    int64_t columns;                // of wgmma's
    bool    turned;                 // the transposed product is made
    bool    pingpong;               // each of two groups may make tiles of its own: one product, a ring that is deep enough, registers for what follows
    bool    keeps;                  // .. and go down columns with the right operand in its place
    double  made;                   // elements of an operand that a trip computes
    double  left, right;            // bytes of a trip, by side, where they come by plain loads; and tiles along the columns and the rows (0: unknown)
    int64_t across, down;
    double  outside;                // of the rows that a trip brings, those past the tensor's end
    bool    alone, narrow;          // a block to a program, as tiles that TMA does not store need; rows that TMA does not fetch
} Work;

static bool number(Facts *s, const Val *v, const int64_t *dims, int64_t *out) {
    LExpr e;
    return host_expr(s, v, &e) && launch_by_dims(e, dims, out);
}

static bool loaded(const Val *v) {
    const Op *d = v->def;
    bool is = d && d->code == OP_T_load;
    for (int i = 0; d && !is && i < d->nin; i++) is = loaded(d->in[i]);
    return is;
}

// What a loop's end is at most: lengths that the device reads are taken to be as long as the tensor, and inside another loop, that grow with its trips, as the last.
static bool at_most(Facts *s, const Val *v, const int64_t *dims, bool any, int64_t *out) {
    const Op *d = v->def;
    if (number(s, v, dims, out)) return true;
    if (!d || d->code != OP_T_fun || d->sub != TF_min || (!any && !loaded(v))) return false;
    return at_most(s, d->in[0], dims, any, out) || at_most(s, d->in[1], dims, any, out);
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

// Bytes that a trip reads for an operand: of one that is computed in it, what it is computed from, where several lanes may have one element
// (weights of 4 bits, and their scales).
static double read_for(Facts *s, const Val *v, const Region *trip) {
    const Op *d = v->def;
    if (!d || d->parent != trip || d->code == OP_T_dot || v->type.rank == 0) return 0;
    double bytes = 0;
    if (d->code == OP_T_load) {
        Access a;
        access_shape(s, d, &a);
        bytes = (double)type_lanes(&v->type) * elem_bytes((Elem)v->type.elem);
        for (int i = 0; i < a.nidx; i++) {
            const Op *q = a.idx[i]->def, *by = q && q->code == OP_T_binary && q->sub == OP_div ? q->in[1]->def : NULL;
            const Op *index = by ? q->in[0]->def : NULL;
            if (!index || index->code != OP_T_index || by->code != OP_T_const || by->imm < 2) continue;
            int64_t extent = axis_extent(index->in[0]);
            bytes /= (double)(by->imm < extent ? by->imm : extent);
        }
        return bytes;
    }
    for (int i = 0; i < d->nin; i++) if (d->in[i]->type.kind == TY_TILE) bytes += read_for(s, d->in[i], trip);
    return bytes;
}

// Each trip computes it.
static bool made(const Val *v, const Region *trip) { return v->def && v->def->parent == trip && v->def->code != OP_T_load; }

// The operand lies in memory with columns innermost, which are not contracted.
static bool by_columns(Facts *s, const Val *v, const Val *k) {
    Access a;
    if (!v->def || v->def->code != OP_T_load || v->type.rank != 2) return false;
    access_shape(s, v->def, &a);
    return a.aff[a.inner].naxis == 1 && a.aff[a.inner].axis[0].axis != k;
}

// How an operand comes, and how many times its bytes L2 is as long at it; of pieces, the bytes of one.
typedef enum Way { TMA, VECTORS, PIECES, ONE_BY_ONE } Way;          // PIECES: cp.async of less than 16 bytes

static Way way_of(Facts *s, const Val *v, const Val *k, const int64_t *dims, double *times) {
    Access a;
    int64_t row, rows = 0;
    if (!v->def || v->def->code != OP_T_load || v->type.rank != 2) return TMA;       // windows, what was computed: as others
    access_shape(s, v->def, &a);
    const Affine *f = &a.aff[a.inner];
    if (a.nidx < 2 || a.p->strided || f->ntile || f->naxis != 1 || !launch_by_dims(a.p->dim[a.inner], dims, &row)) return TMA;
    const Val *inner = f->axis[0].axis;
    int64_t size = elem_bytes(a.elem), used = axis_extent(inner) * size, span = tma_row(used, inner == k), there = row * size;
    for (int d = 0; d < a.nidx; d++) rows += d != a.inner && !a.unit[d];
    if (rows && row * size % 16) {
        *times = row * size % 8 ? 4 : 8;
        return row * size % 4 ? ONE_BY_ONE : PIECES;
    }
    if (span % 32 || (size != 2 && inner != k)) return VECTORS;
    *times = (!rows || row * size % 128 == 0 ? 1 : row * size % 32 ? CROSSED : APART) * (span % 128 == 0 ? (double)span / (double)used : span % 64 ? QUARTERS : HALVES);
    double lines = (double)span / (double)there;                                    // a line is asked for by each row in it: less where blocks begin apart (hopper/turn.c)
    if (rows && inner != k && lines > 1) *times *= span > 64 ? lines : pow(lines, AGAIN);
    return TMA;
}

// Rows of an axis's tiles that lie past its end, of a tile in the mean.
static double past_end(const Val *axis, int64_t end) {
    int64_t n = axis_extent(axis), tiles = (end + n - 1) / n;
    return end > 0 ? (double)(tiles * n - end) / (double)tiles : 0;
}

static bool follows(const Val *v, const Val *counter, int depth) {
    bool any = v == counter;
    for (int i = 0; v->def && !any && depth && i < v->def->nin; i++) any = follows(v->def->in[i], counter, depth - 1);
    return any;
}

// Data names its rows.
static bool by_data(Facts *s, const Val *v) {
    Access a;
    bool any = false;
    if (!v->def || v->def->code != OP_T_load) return false;
    access_shape(s, v->def, &a);
    for (int d = 0; d < a.nidx; d++) any |= d != a.inner && a.aff[d].ntile && loaded(a.idx[d]);
    return any;
}

// Rows of a number of bytes that is no power of two take three times as long (4096^3, contracted rows by 64 x 192: 487 us, by 128 x 192 1027, by 128 x 256 245).
static void picks(Work *w, Facts *s, const int64_t *dims, const Val *v, double bytes) {
    Access a;
    int64_t end, row;
    access_shape(s, v->def, &a);
    const Affine *x = &a.aff[a.inner];
    int64_t extent = x->naxis ? axis_extent(x->axis[0].axis) : 1;
    w->gathered += bytes * (extent & (extent - 1) ? ODD_PIECES : 1);
    for (int i = 0; i < v->type.rank; i++) {
        if (x->naxis && v->type.axis[i] == x->axis[0].axis) continue;
        if (!number(s, axis_hi(v->type.axis[i]), dims, &end) || !launch_by_dims(a.p->dim[a.inner], dims, &row)) continue;
        w->table = v->def->in[0];
        w->picked = (double)end * (double)row * elem_bytes(a.elem);
    }
}

// A load whose places follow from axes alone: neither gathered nor a window.
static bool plain(Facts *s, const Val *v) {
    Access a;
    bool is = v->def && v->def->code == OP_T_load && v->type.rank == 2;
    if (is) access_shape(s, v->def, &a);
    for (int d = 0; is && d < a.nidx; d++) is = !a.aff[d].ntile;
    return is;
}

// One product of a trip. False: the tile is not for this target.
static bool product(Work *w, const Target *t, Facts *s, const int64_t *dims, const Op *dot) {
    const Val *a = dot->in[0], *b = dot->in[1], *o = dot->out[0];
    int first = op_first_axis(dot);
    int64_t m = 1, n = 1, k = 1, batch = 1, end;
    double past = 0, rows_together = 0, others = 0;                                 // columns of tiles but one
    bool below = false;                                                             // there is a program below this one
    for (int i = first; i < dot->nin; i++) k *= axis_extent(dot->in[i]);
    for (int i = 0; i < o->type.rank; i++) {
        bool in_a = type_axis(&a->type, o->type.axis[i]) >= 0, in_b = type_axis(&b->type, o->type.axis[i]) >= 0;
        *(in_a && in_b ? &batch : in_a ? &m : &n) *= axis_extent(o->type.axis[i]);
        if (in_a != in_b && number(s, axis_hi(o->type.axis[i]), dims, &end)) past += past_end(o->type.axis[i], end);
        if (in_a == in_b || !number(s, axis_hi(o->type.axis[i]), dims, &end)) continue;
        if (in_b) w->across = (end + axis_extent(o->type.axis[i]) - 1) / axis_extent(o->type.axis[i]);
        if (in_b) { others = fmax(0, (double)end / (double)axis_extent(o->type.axis[i]) - 1); continue; }
        w->down = (end + axis_extent(o->type.axis[i]) - 1) / axis_extent(o->type.axis[i]);
        below |= end > axis_extent(o->type.axis[i]);
        rows_together = fmin((double)end, ROWS_TOGETHER * (double)axis_extent(o->type.axis[i]));
    }
    w->outside = past / (double)(m + n);
    for (int i = 0; i < 2; i++) {
        const Val *v = i ? b : a;
        if (by_data(s, v)) picks(w, s, dims, v, read_for(s, v, dot->parent));
        if (w->nest && v->def && v->def->code == OP_T_load && !follows(v, w->nest->reg[0]->args.at[0], DEEP)) w->again += read_for(s, v, dot->parent);
    }
    Elem e = (Elem)a->type.elem;
    double flops = 2.0 * (double)m * (double)n * (double)k * (double)batch;
    w->flops += flops;
    bool loaded_left = !made(a, dot->parent), loaded_right = !made(b, dot->parent);
    double read[] = {brought(a, dot->parent) ? read_for(s, a, dot->parent) : 0, brought(b, dot->parent) ? read_for(s, b, dot->parent) : 0};
    w->bytes += read[0] + read[1];
    w->left = plain(s, a) ? read[0] : 0;
    w->right = plain(s, b) ? read[1] : 0;
    w->tile = (double)m * (double)n;
    w->tile_rows = (double)m;
    w->rate = rate_of(t, e, dot->sub);
    int bytes = elem_bytes(e);
    w->group += others > 0 ? rows_together : 0;
    w->group_row += (double)k * bytes;
    bool f8 = elem_is_float(e) && bytes == 1, three = m == THREE && n / 2 * (f8 ? 2 : 1) <= BAND_REGS, fits = (three || rows_fit(m)) && (loaded_right || !loaded_left || !rows_fit(n));
    int64_t rows = fits ? m : n, cols = fits ? n : m, groups = three ? 3 : rows >= 128 ? 2 : 1;
    bool type = bytes == 1 || e == EL_bf16 || e == EL_f16 || (e == EL_f32 && dot->sub == DP_tf32);
    bool turned = !fits;                                                          // on the right wgmma reads shared memory alone
    bool wgmma = t->has_wgmma && type && batch == 1 && (three || rows_fit(rows)) && (turned ? loaded_left : loaded_right) && cols % 8 == 0 && cols <= 256 && k * bytes % 32 == 0;
    for (int i = 0; i < 2; i++) {
        double times = 1, elements = (double)(i ? n : m) * (double)k * (double)batch;
        Way way = dot->nin == first + 1 ? way_of(s, dot->in[i], dot->in[first], dims, &times) : TMA;
        double drawn = read[i] * (way == TMA ? times : 1);
        w->drawn += drawn;
        if (i && below && way == TMA && times >= CROSSED) w->common += drawn;
        if (!t->has_wgmma || way == TMA) continue;
        wgmma = false;
        w->narrow |= bytes == 2;
        if (way == ONE_BY_ONE) w->elements += elements;
        if (way == PIECES) w->pieces += elements * elem_bytes(e) / times;
    }
    w->sync |= !wgmma;
    w->threads = wgmma ? 128 * groups : 128;
    if (!wgmma) return (double)m * (double)n <= 128 * 256 && (t->has_wgmma || m != THREE);
    int64_t regs = rows / 64 / groups * cols / 2;
    if (f8 ? 2 * regs > PROMOTED_REGS : regs > ACC_REGS) return false;
    double each = cols / 2.0 > 18 + cols / 4.0 ? cols / 2.0 : 18 + cols / 4.0;
    w->promoted |= f8;
    w->turned |= cols != n;
    if (cols % 64 && dot->nin == first + 1 && by_columns(s, dot->in[!turned], dot->in[first])) each *= ODD_COLUMNS[(cols % 64 + 15) / 16 % 4];
    w->group_regs = rows / 64 * cols / 2;
    w->regs += regs;
    w->three |= three;
    w->columns = cols;
    if (made(turned ? b : a, dot->parent) && read[turned] > 0) w->made += (double)rows * (double)k;
    w->pingpong = !f8 && !turned && !three && cols >= GROUP_COLUMNS && rows * cols >= GROUP_LEAST;
    if (turned && w->tile > TURNED_FREE) w->turned_end = (w->tile - TURNED_FREE) / (w->made > 0 ? TURNED_MADE : TURNED);
    w->alone |= cols != n || cols < 64;
    w->clocks += (double)(rows / 64) * (double)(k * bytes / 32) * each * (groups > 1 ? 1 : ALONE);
    return true;
}

static bool multiplies(const Op *loop) {
    for (const Op *in = loop->reg[0]->first; in; in = in->next) if (in->code == OP_T_dot) return true;
    return false;
}

// .. in a loop around it, or where data says that there is something to do (hopper/nest.c, pass/unguard.c).
static const Op *loop_inside(const Region *r, const Op **nest, bool *guarded) {
    const Op *found = NULL;
    for (const Op *op = r->first; op; op = op->next) {
        bool inside = op->code == OP_T_dot;
        for (int i = 0; i < op->nreg; i++) inside |= has_products(op->reg[i]);
        if (!inside) continue;
        if (found) return NULL;
        found = op;
    }
    if (!found || (found->code != OP_T_for && found->code != OP_T_if)) return NULL;
    if (found->code == OP_T_for && multiplies(found)) return found;
    if (found->code == OP_T_for) {
        if (*nest) return NULL;
        *nest = found;
        return loop_inside(found->reg[0], nest, guarded);
    }
    if (*nest || (has_products(found->reg[0]) && has_products(found->reg[1]))) return NULL;
    *guarded = true;
    return loop_inside(found->reg[has_products(found->reg[1])], nest, guarded);
}

// The loop whose trips have the products; of a nest, what it will be made into.
static const Op *loop_of(Fn *f, const Op **nest, bool *guarded) {
    for (int nested = 0; nested < 2; nested++) {
        const Op *loop = NULL;
        for (const Op *op = f->body.first; op; op = op->next) if (op->code == OP_T_for && multiplies(op)) loop = op;
        if (loop) return loop;
        simplify(f);
        hoist(f);
        if (!flatten(f)) break;
        simplify(f);
    }
    return loop_inside(&f->body, nest, guarded);
}

// A thread's elements of a tile, one after another: a warp or two a scheduler do not hide what an op waits for. Scaling, adding and
// narrowing are part of storing.
static double end_of(const Op *loop, int threads) {
    double ops = 0, lanes = 0;
    for (const Op *op = loop->next; op; op = op->next) {
        if (op->nout != 1 || op->out[0]->type.kind != TY_TILE || op->out[0]->type.rank < 2 || !op_has(op, 'P')) continue;
        ops += op->code == OP_T_fun ? FUN_OPS : 1;
        lanes = (double)type_lanes(&op->out[0]->type);
    }
    return threads && ops > STORE_OPS ? (ops - STORE_OPS) * lanes / threads * OP_US : 0;
}

// Tiles that are loaded or stored after the loop.
static int tiles_after(const Op *loop) {
    int n = 0;
    for (const Op *op = loop; op; op = op->next)
        n += (op->code == OP_T_load && op->out[0]->type.rank > 1) || (op->code == OP_T_store && op_value(op)->type.rank > 1);
    return n;
}

// A tile that what follows the loop reads: its bytes, where TMA brings it beside a ring that is long enough; else the time that the consumers take.
static void read_behind(Work *w, const Target *t, const Op *loop) {
    for (const Op *op = loop->next; op && w->clocks && !w->three; op = op->next) {
        if (op->code != OP_T_load || op->out[0]->type.rank < 2) continue;
        const Type *x = &op->out[0]->type;
        double bytes = (double)type_lanes(x) * elem_bytes((Elem)x->elem), stages = (double)(int64_t)((t->smem_block - SLOTS_BYTES - bytes) / w->bytes);
        bool whole = !w->turned && !w->behind && bytes / w->tile_rows == (double)((int64_t)(bytes / w->tile_rows / 128) * 128);
        if (whole && (stages - 2) * w->clocks >= AHEAD) w->behind = bytes;
        else w->end += w->tile / LOADED;
    }
}

// One group has room for what follows its loop: arithmetic, and a second tile that is loaded or stored, take registers beside the sums; the
// addresses of rows at their own alignment too, so that there is room for narrowing alone.
static bool end_fits(const Work *w, const Op *loop) {
    int tiles = 0;
    for (const Op *op = loop->next; op; op = op->next) {
        if (w->rows && op->nout == 1 && op->out[0]->type.kind == TY_TILE && op->out[0]->type.rank > 1) tiles += op->code == OP_T_cast ? 0 : 1;
        if (w->rows && op->code == OP_T_store && elem_bytes((Elem)op_value(op)->type.elem) > 2) tiles++;
        tiles += op->code == OP_T_load && op->out[0]->type.rank > 1;
        tiles += op->code == OP_T_store && op_value(op)->type.rank > 1;
    }
    return w->group_regs <= (tiles > 1 ? GROUP_REGS_TWO : w->end > 0 ? GROUP_REGS_BUSY : GROUP_REGS);
}

// The loop around it: how many trips it has, and, of an operand that all of them read again, the bytes.
static bool outer_trips(Work *w, Facts *s, const int64_t *dims, const Op *nest) {
    int64_t lo, hi, step;
    if (!number(s, nest->in[0], dims, &lo) || !at_most(s, nest->in[1], dims, true, &hi) || !number(s, nest->in[2], dims, &step) || step < 1) return false;
    w->nest = nest;
    w->outer = hi > lo ? (hi - lo + step - 1) / step : 0;
    return true;
}

// Of a thread's elements, between one outer trip's products and the next one's: operations of each.
static double ops_between(const Work *w) {
    double ops = 0;
    for (const Op *op = w->nest->reg[0]->first; op; op = op->next) {
        const Type *t = op->code == OP_T_reduce ? &op->in[0]->type : op->nout ? &op->out[0]->type : NULL;
        if (op->code == OP_T_store && op_value(op)->type.rank > 1) ops += STORED_BETWEEN;
        if (op->nout < 1 || !t || t->kind != TY_TILE || t->rank < 2 || !op_has(op, 'P')) continue;
        ops += op->code == OP_T_fun && op->sub != TF_fma && op->sub != TF_min && op->sub != TF_max ? FUN_OPS : op->code == OP_T_reduce && op->nout > 1 ? 3 : 1;
    }
    return ops;
}

// Programs that data leaves nothing to do, as a grid has them that is as large as may be wanted: each element of a result is made once, but the last rows of
// each share of it, of which there are as many as the grid has times more tiles than the result.
static void some_idle(Work *w, const Fn *f, const int64_t *dims) {
    double rows = 0, columns = 0;
    int64_t d;
    for (int p = 0; p < f->launch->nparams; p++) {
        const LaunchParam *x = &f->launch->params[p];
        if (x->kind != PK_TENSOR || x->mode == PM_IN || x->rank < 2) continue;
        double all = 1, last = 1;
        for (int i = 0; i < x->rank; i++) if (launch_by_dims(x->dim[i], dims, &d)) { all *= (double)d; last = (double)d; }
        if (all <= rows * columns) continue;
        columns = last;
        rows = all / last;
    }
    double across = ceil(columns / (w->tile / w->tile_rows)), down = ceil(rows / w->tile_rows), shares = across * down > 0 ? (double)w->programs / (across * down) : 1;
    double busy = fmin((double)w->programs, (down + shares / 2) * across);
    if (shares <= 1) return;
    w->idle = (double)w->programs - busy;
    w->programs = (int64_t)busy;
}

static bool work_of(Fn *f, const Target *t, const int64_t *dims, Work *w) {
    const Op *nest = NULL;
    bool guarded = false;
    const Op *loop = loop_of(f, &nest, &guarded);
    Facts *s = facts_new(f);
    int64_t lo, hi, step, last;
    bool any = false;                                                               // results of other than 2 or 4 bytes
    *w = (Work){0};
    if (!loop || !number(s, loop->in[0], dims, &lo) || !at_most(s, loop->in[1], dims, nest != NULL, &hi) || !number(s, loop->in[2], dims, &step) || step < 1) return false;
    w->loop = loop;
    w->wide = t->has_wgmma;
    w->outer = 1;
    if (nest && !outer_trips(w, s, dims, nest)) return false;
    w->merged = merge_of(loop) != NULL;
    int products = 0;
    for (const Op *op = loop->reg[0]->first; op; op = op->next) {
        if (op->code == OP_T_dot && !product(w, t, s, dims, op)) return false;
        products += op->code == OP_T_dot;
    }
    if (w->sync) w->clocks = 0;
    if (w->bytes <= 0) return false;
    if (w->nest && w->clocks <= 0) return false;
    if (w->clocks && w->regs > ACC_ALL - (w->gathered > 0 ? GATHER_REGS : 0)) return false;
    if (w->nest) w->between = ops_between(w);
    w->end = end_of(loop, w->threads);
    read_behind(w, t, loop);
    w->trips = hi > lo ? (hi - lo + step - 1) / step : 0;
    if (nest && !number(s, loop->in[1], dims, &last)) w->trips = (w->trips + 1) / 2;                      // each of them a little longer
    for (int i = 0; i < loop->nout; i++) w->tile_bytes += (double)type_lanes(&loop->out[i]->type) * 4;
    for (int p = 0; p < f->launch->nparams; p++) {
        const LaunchParam *x = &f->launch->params[p];
        double  n = 1;
        int64_t d = 1;
        if (x->kind != PK_TENSOR) continue;
        for (int i = 0; i < x->rank; i++) { if (!launch_by_dims(x->dim[i], dims, &d)) return false; n *= (double)d; }
        int bytes = elem_bytes(x->elem);
        w->scattered |= x->mode != PM_IN && d % 16 * bytes % 16;
        any |= x->mode != PM_IN && bytes != 2 && bytes != 4;
        n *= elem_bytes(x->elem);
        w->unique += w->table && w->table->def->imm == p && w->picked < n ? w->picked : n;
    }
    if (w->three && (w->end > 0 || (w->columns > BAND_COLUMNS && tiles_after(loop) > 2))) return false;          // activations: no faster
    w->rows = w->scattered && w->clocks && !w->turned && !any;
    w->alone = !w->rows && (w->alone || w->scattered);
    if (w->three && w->gathered > 0) return false;                                  // hopper/bands.c
    if (w->three && w->alone) return false;                                         // 3072 x 1024 x 1024 17.6 us, walking 14.6
    w->keeps = w->pingpong && products == 1 && w->trips == 1 && end_fits(w, loop) && w->left > 0 && w->right > 0 && w->made <= 0 && w->right + KEPT_STAGES * w->left <= t->smem_block - SLOTS_BYTES;
    w->pingpong &= products == 1 && end_fits(w, loop) && GROUP_STAGES * w->bytes <= t->smem_block - SLOTS_BYTES - w->behind && number(s, loop->in[1], dims, &last);
    w->splits = !w->three && !nest && !guarded && split_refusal(f) == NULL;
    w->pingpong &= !nest && !guarded;
    w->alone |= nest || guarded;
    if (!launch_by_dims(f->launch->programs, dims, &w->programs)) return false;
    if (guarded) some_idle(w, f, dims);
    w->keeps &= !nest && !guarded && w->across * w->down == w->programs;             // a grid of two clauses
    return true;
}

// Programs of mma.sync that a multiprocessor has at a time: while one ends, or waits for its first loads, others multiply. Where an
// operand's rows do not come by TMA, one was taken when ELEMENTS and SMALL_PIECES were fitted.
static double resident(const Work *w, const Target *t) {
    if (w->clocks && w->tile <= PACKED && !w->made && !w->behind) {                  // a ring has 16 stages at most
        double fit = floor((t->smem_block - SLOTS_BYTES) / w->bytes), block = fmin(fit, MAX_RING) * w->bytes + SLOTS_BYTES / 8;
        return fmax(1, fmin(MOST_TOGETHER, floor(t->smem_sm / block)));
    }
    double threads = w->tile <= PACKED ? 32 : w->threads, by_regs = t->regs_sm / (threads * (w->tile / threads + PROGRAM_REGS));
    double by_smem = t->smem_sm / (SYNC_STAGES * w->bytes), by_threads = t->threads_sm / threads;
    double n = by_regs < by_smem ? by_regs : by_smem;
    n = n < by_threads ? n : by_threads;
    return w->clocks || w->narrow || n < 1 ? 1 : (double)(int64_t)n;
}

// Asked for only: nowhere on an H200 was it faster than other tiles (docs/roadmap.md).
typedef struct Deal {
    double tiles, share;            // whose trips are dealt evenly to all blocks (streamk.c), and trips that a block has of them
    double join;                    // us: sending a part, waiting for the others' and adding them
} Deal;

static Deal dealt_evenly(const Work *w, const Target *t) {
    double sms = t->sms, programs = (double)w->programs, trips = w->trips > 1 ? (double)w->trips : 1, left = fmod(programs, sms);
    Deal d = {.tiles = left > 0 ? fmin(programs, 4 * left < sms ? left + sms : left) : 0};
    if (d.tiles <= 0) return d;
    d.share = ceil(d.tiles * trips / sms);
    double others = d.share >= trips ? 1 : ceil(trips / d.share);
    d.join = WAITED + (1 + others) * w->tile_bytes / SENT_RATE;
    return d;
}

static double launch_us(const Work *w, const Target *t, int parts, bool walks, bool pingpong, bool dealt) {
    const Rates *r = w->clocks ? &by_wgmma : &by_mma_sync;
    double sms = t->sms, programs = (double)w->programs * parts, trips = (double)((w->trips + parts - 1) / parts);
    double wgmma = w->clocks * (2 * 64 * 256 * 16 / 128) / (t->tflops_bf16 * 1e6 / sms * POWER);      // m64n256k16: 128 clocks
    double trip = w->clocks ? wgmma : w->flops / (w->rate * MMA_SYNC);
    double through = w->drawn / r->l2 * (1 + FAR * fmax(0, w->group * fmin(trips * w->group_row, FAR_ROW) - NEAR_BY));
    if (w->clocks && parts > 1) {
        double all = programs * trips * w->drawn, often = fmin(1, fmax(0, 2 * (all / w->unique - APART_OFTEN))) * fmin(1, fmax(0, w->unique - APART_LEAST) / APART_BYTES) * fmin(1, (1 - 1.0 / parts) * APART_PARTS);
        through = fmax(through, (all / (r->l2 * sms) + often * w->unique / (t->gbs * r->memory * 1e3)) / (ceil(programs / sms) * trips));
    }
    if (through > trip) trip = through;
    trip += w->gathered / GATHERED;
    if (w->promoted) trip += PROMOTE;
    double waiting = w->made > 0 && w->columns <= FEW_COLUMNS ? hop_blocks_together((int64_t)programs, t->sms, w->threads / 128) : 1;
    if (w->clocks && w->made / MADE > trip) trip = w->made / MADE;
    if (w->clocks && w->made > 0) trip = fmax(trip, (MADE_TRIP + w->made / MADE_ALONE + wgmma * POWER * 128 / w->threads) / waiting) + MADE_MORE;
    if (w->clocks && w->made > 0 && w->outside > SOME) trip *= 1 + OUTSIDE * (w->outside - SOME);
    double slots = w->made > 0 ? BARRIERS_BYTES : SLOTS_BYTES;                        // those do not walk
    double stages = (double)(int64_t)((t->smem_block - slots - w->behind) / w->bytes);           // a ring has 16 at most
    double early = ((stages < 16 ? stages : 16) - 2) * trip;
    if (!w->clocks) trip *= early / trip * w->bytes < DEEP_BYTES ? SHALLOW_MMA_SYNC : 1;
    else if (early < ON_ITS_WAY) trip *= 1 + SHALLOW * (1 - early / ON_ITS_WAY);
    trip += w->elements / ELEMENTS + w->pieces / SMALL_PIECES;
    if (w->narrow && w->tile < SPREAD) trip *= SPREAD / w->tile;
    double per = w->sync && w->tile <= PACKED ? 4 : 1, blocks = (double)(int64_t)((programs + per - 1) / per), together = resident(w, t);
    double rounds = (double)(int64_t)((programs + sms - 1) / sms), ends = (double)(int64_t)((rounds + together - 1) / together), at_once = blocks < sms ? blocks : sms;
    double last = w->tile_bytes / 2 * r->last, rows = w->rows ? w->tile_rows * OWN_ALIGNMENT : 0, end = r->end + w->end + (w->rows ? rows : w->scattered ? w->tile / STORED : 0);
    double tile = trips * trip + (pingpong ? 2 * (EXPOSED * w->end + EXPOSED_ROWS * rows) : 0), own = r->end + 2 * (w->end + rows), both = (tile + own) / 2;      // by half of the threads
    Deal deal = dealt ? dealt_evenly(w, t) : (Deal){0};
    double evenly = deal.tiles > 0 ? (programs - deal.tiles) / sms * tile + deal.share * trip * ASTRAY : rounds * tile;
    double us = pingpong ? rounds * (tile > both ? tile : both) : evenly + ends * end + last + deal.join, again = programs * trips * w->bytes - w->unique;
    if (deal.tiles > 0) at_once = sms;
    double ring = (double)(int64_t)((t->smem_block - (w->alone ? BARRIERS_BYTES : slots) - w->behind) / w->bytes), draw = !w->clocks || at_once < MANY_DRAW ? r->draw : ring < SHORT_RING ? DRAW_SHORT : DRAW_MANY;
    double idle = (sms - at_once) / sms, drawn = w->unique / at_once / draw + r->end + last;
    double memory = (w->unique + (again > 0 ? again * r->again : 0)) / (t->gbs * r->memory * 1e3) * (1 + r->few * (w->clocks ? idle * idle * idle : idle));
    if (w->clocks && w->outside > SOME) memory *= 1 + OUTSIDE * (w->outside - SOME);
    bool brief = w->tile >= 64 * 128 && trips * w->group_row <= SHORT_ROW;
    double norm = brief ? TOGETHER_SHORT : TOGETHER;
    if (w->clocks && (w->tile >= LARGE_TILE || brief)) us = pow(pow(us, norm) + pow(memory, norm), 1 / norm);
    else if (memory > us) us = memory + us * r->beside;
    if (pingpong) us += own + last;
    if (drawn > us) us = drawn;
    us += rounds * trips * r->barriers + (w->clocks && !walks ? (ends - 1) * (ANEW + w->turned_end) : 0);
    double tiles = (double)((w->programs + t->sms - 1) / t->sms);                     // that a multiprocessor joins
    double sent = parts + 1 < QUICK_PARTS ? parts + 1 : QUICK_PARTS, more = parts + 1 - sent;
    if (parts > 1) us += tiles * (r->join + w->tile_bytes * (sent / r->parts + more / MORE_PARTS)) + (w->clocks && rounds > tiles ? (rounds - tiles) * PART : 0);
    if (w->sync && !w->merged && w->wide) us *= 1 + ABSENT * w->outside;
    return START + r->fill + us + w->idle / sms * IDLE;
}

// A loop of products inside another one, by blocks of which so many share a multiprocessor: they multiply while others are between two inner loops, so that
// each adds the time of its products alone. *stages of a ring are what they have room for. 0: they do not fit.
static double nest_us(const Work *w, const Target *t, int together, int given, int *stages) {
    const Rates *r = &by_wgmma;
    int groups = w->threads / 128;
    double stored = 0, elements = w->tile / w->threads, wgmma = w->clocks * (2 * 64 * 256 * 16 / 128) / (t->tflops_bf16 * 1e6 / t->sms);
    for (const Op *op = w->nest->reg[0]->first; op; op = op->next)
        if (op->code == OP_T_store && op_value(op)->type.rank > 1) stored = w->tile * elem_bytes((Elem)op_value(op)->type.elem);
    double room = fmin((double)t->smem_block, t->smem_sm / together - RESERVED) - SCRATCH - stored, regs = w->regs * SUM_REGS + OP_REGS * fmax(0, w->between - FEW_OPS);
    *stages = (int)fmin(given ? given : MAX_RING, room / w->bytes);
    if (*stages < (together > 1 ? LEAST_STAGES : 2)) return 0;
    int warps = 4 * groups + (w->gathered > 0 || groups > 1 ? 4 : 1), each = (int)ceil(fmin(regs, MOST_THREAD) / 8) * 8 * 32;
    if (together > 1 && (groups > 1 || warps * together > PARTITIONS * ((int)t->regs_sm / PARTITIONS / each))) return 0;
    double trip = fmax(wgmma / FULL_CLOCK, w->drawn / r->l2) + w->gathered / GATHERED + r->barriers, alone = fmax(trip, (REFILL + REFILL_TRIPS * trip) / (*stages - 1));
    double inner = (double)w->trips * trip, between = BETWEEN[groups] + elements * w->between * ELEMENT_OP[groups] + SPILLED * fmax(0, regs - MOST_THREAD) * groups;
    double programs = (double)w->programs, full = floor(programs / (t->sms * together)), rest = ceil((programs - full * t->sms * together) / t->sms), outer = (double)w->outer, us = 0;
    for (int last = 0; last < 2; last++) {
        double blocks = last ? rest : together, times = last ? rest > 0 : full, at_once = last && full <= 0 ? programs : t->sms * blocks;
        double live = at_once * w->again * (double)w->trips, lost = fmin(1, fmax(0, live / (double)t->l2_bytes - KEPT) / LOST);
        double one = fmax((double)w->trips * alone + between, blocks * inner + between), memory = lost * live / (t->gbs * r->memory * 1e3);
        us += times * (outer * hypot(one, memory) + r->end);
    }
    double all = w->unique / (t->gbs * r->memory * 1e3), power = programs * outer * (double)w->trips * wgmma / POWER / t->sms;
    return START + r->fill + fmax(us, fmax(all, power)) + w->idle / t->sms * IDLE;
}

// Down columns, by runs of so many tiles.
static double kept_us(const Work *w, const Target *t, int run) {
    const Rates *r = &by_wgmma;
    double rows = (double)w->down, runs = (double)w->across * ceil(rows / run), rounds = ceil(runs / t->sms), clock = 2.0 * 64 * 256 * 16 / 128 / (t->tflops_bf16 * 1e6 / t->sms * POWER);
    double read = w->tile_rows / 64 * (w->group_row / 32) * (64 + (double)w->columns) * 32;        // by wgmma, 16 of k at a time
    double shared = w->left + read + 2 * (w->tile_bytes / 2), end = w->end + (w->behind > 0 ? w->tile / LOADED : 0) + (w->rows ? w->tile_rows * OWN_ALIGNMENT : 0);
    double tile = fmax(w->clocks, shared / SHARED) * clock + 2 * EXPOSED * end, tiles = rounds * fmin(run, rows) * tile, memory = w->unique / (t->gbs * r->memory * 1e3);
    double us = pow(pow(tiles, TOGETHER) + pow(memory, TOGETHER), 1 / TOGETHER);
    return START + r->fill + KEPT_START + w->right / KEPT_RATE + (rounds - 1) * KEPT_RUN + us + end;
}

// Parts that are a cluster's blocks leave theirs in the first one's shared memory: 0.5 to 0.7 us sooner than as many in memory, 0.5 to 1.6 than
// the 16 or 32 that short caches would be decoded in. An H200 has room for 15 clusters of 8 at a time, 30 of 4: not all groups of its
// multiprocessors are whole.
static double near_us(const Work *w, const Target *t, const Schedule *given, int parts, double us) {
    double room = (parts - 1) * (4 * w->tile + NEAR_STATE) + SYNC_STAGES * w->bytes + SLOTS_BYTES;
    bool fits = w->merged && w->clocks <= 0 && t->has_st_async && !given->cluster && parts > 1 && parts <= NEAR_PARTS && us < NEAR_SHORT;
    return fits && (double)w->programs * parts <= t->sms * NEAR_FULL && room <= t->smem_block ? NEAR : 0;
}

bool cost_of(Fn *f, const CompileOptions *opt, const Schedule *given, const int64_t *dims, Cost *out) {
    static const int tried[MAX_TRIED] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};     // more than usual: for a few programs
    Work w;
    const Target *t = opt->target;
    *out = (Cost){.schedule = *given};
    f->target = t;
    f->fast = true;
    if (!has_products(&f->body)) return cost_of_rows(f, opt, given, dims, out);
    if (!work_of(f, t, dims, &w)) return false;
    if (w.nest) {
        int stages;
        out->us = nest_us(&w, t, 1, given->stages, &stages);
        for (int n = 2; n <= MOST_TOGETHER; n++) {
            double us = nest_us(&w, t, n, given->stages, &stages);
            if (us <= 0 || us >= out->us * WORTH_SHARING) continue;
            out->us = us;
            if (!given->stages) out->schedule.stages = stages;
        }
        return out->us > 0;
    }
    bool packed = w.sync && w.tile <= PACKED;                            // four programs of a warp each share a block
    bool keeps = w.keeps && w.programs > t->sms && given->walk != 1 && !w.alone && given->split < 2 && given->cluster < 2 && given->streamk < 2 && given->slices < 2 && given->pingpong != 1;
    if (keeps && (given->keep > 1 || (!given->keep && !given->stages))) {
        out->us = INFINITY;
        for (int run = given->keep ? given->keep : 2; run <= (given->keep ? given->keep : KEPT_MOST); run++) {
            double us = kept_us(&w, t, run);
            if (us >= out->us) continue;
            out->us = us;
            out->schedule.keep = run;
            out->schedule.pingpong = 2;
        }
    }
    const Cost kept = *out;
    *out = (Cost){.schedule = *given};
    if ((packed ? 4 : 2) * w.bytes > t->smem_block - 2048) {
        *out = kept;
        return kept.us > 0;
    }
    int parts = given->split > 1 && w.splits ? given->split : 1;
    bool walks = given->walk != 1 && !w.alone, asked = given->pingpong > 1, deals = w.splits && w.clocks > 0 && walks && given->split < 2, dealt = deals && given->streamk > 1;
    out->us = launch_us(&w, t, parts, walks, asked && w.pingpong, dealt);
    for (int i = 1; !given->split && !dealt && w.splits && i < MAX_TRIED && tried[i] <= w.trips; i++) {
        if (i >= USUAL && (double)w.programs * tried[i] > t->sms) break;
        double us = launch_us(&w, t, tried[i], walks, false, false), near = near_us(&w, t, given, tried[i], us);
        if (us - near >= out->us) continue;
        out->us = us - near;
        out->schedule.split = parts = tried[i];
        out->schedule.cluster = near > 0 ? parts : given->cluster;
    }
    // Rows that are no whole sectors come through L2 at half the rate: worth a cluster, whose blocks bring half of the common operand each.
    if (!given->cluster && !given->split && !asked && !dealt && walks && parts == 1 && w.common > 0 && t->has_cluster) {
        Work half = w;
        half.drawn -= w.common / 2;
        double us = launch_us(&half, t, parts, walks, false, false) + IN_CLUSTERS;
        if (us < out->us * (w.programs > t->sms ? 1 : WORTH_ONE_ROUND)) {
            out->us = us;
            out->schedule.cluster = 2;
        }
    }
    double chained;
    bool knows = true, chain = w.clocks && cost_of_chain(w.loop, w.trips, w.programs, t->sms, &chained, &knows);
    if (!knows) return false;
    if (chain && parts == 1) {
        out->us = chained + ceil((double)w.programs / t->sms) * (double)w.trips * w.gathered / GATHERED;
        out->close = true;
    }
    double turns = launch_us(&w, t, 1, true, true, false);
    if (!given->pingpong && !given->slices && !dealt && w.pingpong && w.common <= 0 && walks && parts == 1 && given->cluster < 2 && w.programs > t->sms && turns < out->us) {
        out->us = turns;
        out->schedule.pingpong = 2;
    }
    if (kept.us > 0 && kept.us < out->us) {
        *out = kept;
        return true;
    }
    if (opt->in_graph && packed) out->us *= IN_GRAPH;
    // One short round needs no loading ahead, and a tile is stored sooner by its own threads than by the copy engine.
    if (!given->walk && !given->blocks && !w.three && out->schedule.streamk < 2 && !(out->schedule.cluster > 1 && parts == 1) && (double)w.programs * parts <= t->sms && out->us < SHORT) out->schedule.walk = 1;
    return true;
}

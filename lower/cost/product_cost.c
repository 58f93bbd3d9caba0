// How long one loop of products takes.
//
//     rounds   = programs / multiprocessors, rounded up
//     a trip   = the most of: its multiplications, what it reads through L2; more where the ring is short
//     a launch = start + rounds * (trips * a trip + the end of a tile) + joining parts, but no less than
//                all tensors at the memory's rate, and each block's share of them at what one multiprocessor can draw
//
// Power keeps large products at some five sixths of the peak. Where each of two groups makes tiles of its own (specialize/pingpong.c), rounds are of
// smaller tiles, whose ends are hidden behind the products of the other group's next one; what is left is the end of the last. Rows that data names
// cost their bytes beside the products; programs for which data leaves nothing, a start.
#include "lower/cost/work.h"
#include "lower/pass/passes.h"

static const double BARRIERS_BYTES = 4e3;                           // beside the ring of what does not walk
static const double MMA_SYNC = 0.58;                                // of the peak
static const double STORED = 12e3;                                  // elements stored one by one, a us and multiprocessor
static const double ELEMENTS = 8.5e3, SMALL_PIECES = 11e3, SPREAD = 4096;   // read one by one, or brought in pieces of 4 or 8 bytes, a us and multiprocessor; smaller tiles have too few warps, without roles
static const double TURNED_BYTES = 18e3, ROWED = 28e3;              // bytes with k outside, a us and multiprocessor: by mma.sync; by three warps for wgmma
static const double LARGE_TILE = 128 * 128;                         // elements
static const double TOGETHER_SHORT = 2.5, SHORT_ROW = 512;          // of short sums, of so many bytes of a row: operands that come and results that go are in each other's way
static const double EXPOSED_ROWS = 0.28;                            // as EXPOSED, of storing rows at their own alignment
static const double PROMOTE = 0.05;                                 // us a trip: f8 products are waited for and added
static const double ANEW = 1.5;                                     // us: a block that begins where another ended, instead of walking on
static const double OUTSIDE = 1, SOME = 0.15;                       // of memory's time: rows of a tile that are not there, of all that it has, but for so many
static const double SPLIT = 1.35, SPLIT_TILE = 64 * 64, SPLIT_LARGE = 1.2;              // f32 as tf32 by mma.sync, once or three times: 4096^3 by 64 x 64 2018 us, by 128 x 128 2317
static const double CLOCK_FLOPS = 2 * 64 * 256 * 16 / 128;          // m64n256k16: 128 clocks
static const double ABSENT = 0.9;                                   // of the time of small tiles by mma.sync, rows that are not there, of all that they have
static const double BRIEF = 256, BRIEF_LOST = 0.3;                  // in a graph, whose operands are in L2: clocks of wgmma, below which a trip's barriers show; of what is missing, the part that is lost
static const double TURNS_IN_GRAPH = 0.5;                           // us that groups in turns save there
static const double SHALLOW = 0.44, ON_ITS_WAY = 0.8;               // a ring's stages but two (one is read, one about to be free) last so many us
static const double SHALLOW_MMA_SYNC = 1.08, DEEP_BYTES = 96e3;     // less than that on its way

// Parts: what they read from memory far from each other is not there for others as it comes: of as much, all takes its time beside L2's; parts beyond so many
// come that fast, bytes a us; us of a part that is left for others, where a block has more of them than tiles.
static const double APART_LEAST = 32e6, APART_BYTES = 64e6, APART_PARTS = 1.33, APART_OFTEN = 1.5;
static const double QUICK_PARTS = 9, MORE_PARTS = 110e3, PART = 4.2;

// In a cluster: us that joining there saves; bytes of a part beside its tile; of a multiprocessor's blocks; what takes longer, us, wants more blocks than clusters
// have room for.
static const double NEAR = 1.6, NEAR_STATE = 4096, NEAR_FULL = 10.0 / 11, NEAR_SHORT = 15;
enum { NEAR_PARTS = 8 };

// Parts that each join a slice of a tile (pass/cluster_scatter.c): us of barriers and latency; bytes a us that all blocks send each other, and that they read again,
// beside what comes from memory.
static const double SCATTERED = 0.6, SCATTER_RATE = 3e6, SCATTER_DRAW = 17e6;

// Where shares of trips end within tiles: us of fences and counts; bytes a us and multiprocessor of parts; and blocks do not read the same at the same time,
// which L2 would bring to all of them at once.
static const double WAITED = 1, SENT_RATE = 110e3, ASTRAY = 1.25;

// Of L2's time, what a byte of the rows adds that are read again for each column of tiles, of up to so much of a row, beyond so many: 1024 x 1024 x 4096 by
// 64 x 64 takes 26.7 us, 512 x 4096 x 4096, twice the rounds, 38.7, and 256 x 4096 x 14336, as many bytes as the first, no more than its rounds.
static const double FAR = 0.045e-6, FAR_ROW = 8192, NEAR_BY = 2e6;

// What one of many multiprocessors draws from memory, by wgmma; by a ring of few stages, of which one is read and one is about to be free.
static const double DRAW_MANY = 85e3, DRAW_SHORT = 63e3;
enum { MANY_DRAW = 32, SHORT_RING = 5 };

// An operand that is made in registers: elements a us and multiprocessor, of which one group alone hides a quarter; us a trip. Several blocks on a
// multiprocessor (ws_blocks_together) work while one waits.
static const double MADE = 33e3, MADE_ALONE = 38e3, MADE_TRIP = 0.11, MADE_MORE = 0.02;
// us of a trip that waits for what it computes an operand from: f32 cast to bf16, 1024 x 640 x 640 and 4096 x 256 x 256, 40 tiles (0.4 to 0.7)
static const double AWAITED = 0.55;
enum { FEW_COLUMNS = 64 };                                          // more were not measured so
enum { PROGRAM_REGS = 64, SYNC_STAGES = 4 };                        // registers beside sums; stages of cp.async

// Programs of mma.sync that a multiprocessor has at a time: while one ends, or waits for its first loads, others multiply. Where an
// operand's rows do not come by TMA, one was taken when ELEMENTS and SMALL_PIECES were fitted.
static double resident(const Work *w, const Target *t) {
    if (w->clocks && w->tile <= PACKED && !w->made && !w->behind) {                  // a ring has 16 stages at most
        double fit = floor((t->smem_block - SLOTS_BYTES) / (w->bytes + w->low)), block = fmin(fit, MAX_RING) * (w->bytes + w->low) + SLOTS_BYTES / 8;
        return fmax(1, fmin(MOST_TOGETHER, floor(t->smem_sm / block)));
    }
    double threads = w->tile <= PACKED ? 32 : w->threads, by_regs = t->regs_sm / (threads * (w->tile / threads + PROGRAM_REGS));
    double by_smem = t->smem_sm / (SYNC_STAGES * (w->bytes + w->low)), by_threads = t->threads_sm / threads;
    double n = by_regs < by_smem ? by_regs : by_smem;
    n = n < by_threads ? n : by_threads;
    return w->clocks || w->narrow || n < 1 ? 1 : (double)(int64_t)n;
}

// Asked for only: nowhere on an H200 was it faster than other tiles (docs/decisions/001).
typedef struct Deal {
    double tiles, share;            // whose trips are dealt evenly to all blocks (stream_k.c), and trips that a block has of them
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

// A launch of it, so shared and so often.
typedef struct Launch { const Work *w; const Target *t; const Rates *r; double sms, programs, trips; int parts; bool scattered; } Launch;

static double slots_of(const Work *w) { return w->made > 0 ? BARRIERS_BYTES : SLOTS_BYTES; }               // those do not walk

// What the other blocks send of their parts of a slice waits beside the ring.
static double ring_of(const Launch *l, double slots) {
    double sent = l->scattered ? 4 * l->w->tile * (l->parts - 1) / l->parts : 0;
    return (double)(int64_t)((l->t->smem_block - slots - l->w->behind - sent) / (l->w->bytes + l->w->low));
}

// What a trip reads through L2: its share of that, and where parts are far from each other, of all that comes from memory.
static double through_us(const Launch *l) {
    const Work *w = l->w;
    double through = w->drawn / l->r->l2 * (1 + FAR * fmax(0, w->group * fmin(l->trips * w->group_row, FAR_ROW) - NEAR_BY));
    if (!w->clocks || l->parts < 2) return through;
    double all = l->programs * l->trips * w->drawn, often = fmin(1, fmax(0, 2 * (all / w->unique - APART_OFTEN))) * fmin(1, fmax(0, w->unique - APART_LEAST) / APART_BYTES) * fmin(1, (1 - 1.0 / l->parts) * APART_PARTS);
    double memory = w->unique / (l->t->gbs * l->r->memory * 1e3), each = ceil(l->programs / l->sms) * l->trips;
    if (l->scattered) return fmax(through, (memory + (all - w->unique) / SCATTER_DRAW) / each);
    return fmax(through, (all / (l->r->l2 * l->sms) + often * memory) / each);
}

// An operand is made in registers beside wgmma, which a group alone waits for.
static double making_us(const Launch *l, double wgmma, double trip) {
    const Work *w = l->w;
    double waiting = w->columns <= FEW_COLUMNS ? ws_blocks_together((int64_t)l->programs, l->t->sms, w->threads / 128) : 1;
    if (w->made / MADE > trip) trip = w->made / MADE;
    trip = fmax(trip, (MADE_TRIP + w->made / MADE_ALONE + wgmma * POWER * 128 / w->threads) / waiting) + MADE_MORE;
    return w->outside > SOME ? trip * (1 + OUTSIDE * (w->outside - SOME)) : trip;
}

static double trip_us(const Launch *l) {
    const Work *w = l->w;
    double wgmma = w->clocks * CLOCK_FLOPS / (l->t->tflops_bf16 * 1e6 / l->sms * POWER);
    double trip = fmax(w->clocks ? wgmma : w->flops / (w->rate * MMA_SYNC), through_us(l));
    if (w->clocks && w->in_graph) trip += BRIEF_LOST * fmax(0, BRIEF - w->clocks) / (l->t->tflops_bf16 * 1e6 / l->sms) * CLOCK_FLOPS;
    trip += w->gathered / GATHERED;
    trip = fmax(trip, w->rowed / ROWED) + w->turned_bytes / TURNED_BYTES;
    if (w->promoted) trip += PROMOTE;
    if (w->clocks && w->made > 0) trip = making_us(l, wgmma, trip);
    double stages = ring_of(l, slots_of(w)), early = ((stages < MAX_RING ? stages : MAX_RING) - 2) * trip;
    if (!w->clocks) trip *= early / trip * w->bytes < DEEP_BYTES ? SHALLOW_MMA_SYNC : 1;
    else if (early < ON_ITS_WAY && w->rowed <= 0) trip *= 1 + SHALLOW * (1 - early / ON_ITS_WAY);
    trip += w->elements / ELEMENTS + w->pieces / SMALL_PIECES;
    if (w->narrow && w->tile < SPREAD) trip *= SPREAD / w->tile;
    return trip;
}

// All tensors, and what of the rest misses L2, by so many multiprocessors at once.
static double memory_us(const Launch *l, double at_once) {
    const Work *w = l->w;
    double again = l->programs * l->trips * w->bytes - w->unique, idle = (l->sms - at_once) / l->sms;
    double memory = (w->unique + (again > 0 ? again * l->r->again : 0)) / (l->t->gbs * l->r->memory * 1e3) * (1 + l->r->few * (w->clocks ? idle * idle * idle : idle));
    return w->clocks && w->outside > SOME ? memory * (1 + OUTSIDE * (w->outside - SOME)) : memory;
}

// Work beside memory.
static double beside_us(const Launch *l, double us, double memory) {
    const Work *w = l->w;
    bool brief = w->tile >= 64 * 128 && l->trips * w->group_row <= SHORT_ROW;
    double norm = brief ? TOGETHER_SHORT : TOGETHER;
    if (w->clocks && (w->tile >= LARGE_TILE || brief)) return pow(pow(us, norm) + pow(memory, norm), 1 / norm);
    return memory > us ? memory + us * l->r->beside : us;
}

// A block's share of all tensors, at what one multiprocessor draws.
static double drawn_us(const Launch *l, double at_once) {
    double ring = ring_of(l, l->w->alone ? BARRIERS_BYTES : slots_of(l->w));
    double draw = !l->w->clocks || at_once < MANY_DRAW ? l->r->draw : ring < SHORT_RING ? DRAW_SHORT : DRAW_MANY;
    return l->w->unique / at_once / draw;
}

// Of each tile that a multiprocessor has, parts sent and added.
static double joins_us(const Launch *l, double rounds) {
    const Work *w = l->w;
    if (l->scattered) return rounds * SCATTERED + (double)w->programs * w->tile_bytes * (l->parts - 1) / SCATTER_RATE;
    double tiles = (double)((w->programs + l->t->sms - 1) / l->t->sms);
    double sent = l->parts + 1 < QUICK_PARTS ? l->parts + 1 : QUICK_PARTS, more = l->parts + 1 - sent;
    return tiles * (l->r->join + w->tile_bytes * (sent / l->r->parts + more / MORE_PARTS)) + (w->clocks && rounds > tiles ? (rounds - tiles) * PART : 0);
}

double product_us(const Work *w, const Target *t, How how) {
    const Rates *r = w->clocks ? &by_wgmma : &by_mma_sync;
    int parts = how.parts;
    const Launch l = {w, t, r, t->sms, (double)w->programs * parts, (double)((w->trips + parts - 1) / parts), parts, how.scattered};
    double sms = l.sms, programs = l.programs, trips = l.trips, trip = trip_us(&l);
    double per = w->sync && w->tile <= PACKED ? 4 : 1, blocks = (double)(int64_t)((programs + per - 1) / per), together = resident(w, t);
    double room = how.scattered && parts > 2 ? sms * NEAR_FULL : sms;
    double rounds = (double)(int64_t)((programs + room - 1) / room), ends = (double)(int64_t)((rounds + together - 1) / together);
    double last = w->tile_bytes / 2 * r->last, rows = w->rows ? w->tile_rows * OWN_ALIGNMENT : 0, end = r->end + w->end + (w->rows ? rows : w->scattered ? w->tile / STORED : 0);
    double one = fmax(1, w->threads / 128.0);                                        // a group alone: of the end's time by all
    double tile = trips * trip + (how.pingpong ? one * EXPOSED * w->end + 2 * EXPOSED_ROWS * rows : 0), own = r->end + one * w->end + 2 * rows, both = (tile + own) / 2;
    Deal deal = how.dealt ? dealt_evenly(w, t) : (Deal){0};
    double evenly = deal.tiles > 0 ? (programs - deal.tiles) / sms * tile + deal.share * trip * ASTRAY : rounds * tile;
    double at_once = deal.tiles > 0 ? sms : blocks < sms ? blocks : sms;
    double us = how.pingpong ? rounds * (tile > both ? tile : both) : evenly + ends * end + last + deal.join;
    us = beside_us(&l, us, memory_us(&l, at_once));
    if (how.pingpong) us += own + last - (w->in_graph && programs > sms ? TURNS_IN_GRAPH : 0);
    us = fmax(us, drawn_us(&l, at_once) + r->end + last);
    us += rounds * trips * r->barriers + (w->clocks && !how.walks ? (ends - 1) * (ANEW + w->turned_end) : 0);
    if (parts > 1) us += joins_us(&l, rounds);
    if (w->computes && w->wide) us += ends * trips * AWAITED;
    if (w->sync && !w->merged && w->wide) us *= 1 + ABSENT * w->outside;
    if (w->sync && w->wide && w->f32) us *= SPLIT * (w->tile > SPLIT_TILE ? SPLIT_LARGE : 1);
    return START + r->fill + us + w->idle / sms * IDLE;
}

// Parts that are a cluster's blocks leave theirs in the first one's shared memory: 0.5 to 0.7 us sooner than as many in memory, 0.5 to 1.6 than
// the 16 or 32 that short caches would be decoded in. An H200 has room for 15 clusters of 8 at a time, 30 of 4: not all groups of its
// multiprocessors are whole.
double nearer_us(const Work *w, const Target *t, const Schedule *given, int parts, double us) {
    double room = (parts - 1) * (4 * w->tile + NEAR_STATE) + SYNC_STAGES * (w->bytes + w->low) + SLOTS_BYTES;
    bool fits = w->merged && w->clocks <= 0 && t->has_st_async && !given->cluster && parts > 1 && parts <= NEAR_PARTS && us < NEAR_SHORT;
    return fits && (double)w->programs * parts <= t->sms * NEAR_FULL && room <= t->smem_block ? NEAR : 0;
}

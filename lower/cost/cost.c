// How long a kernel would take, without running it, and with what of its schedule: what tiles and parts are chosen by.
//
// What there is to do is read off its tile IR (work.c), and each way to launch it has a model that was fitted to what an H200 took
// (tests/lower/test_cost*.c has the figures: what is chosen is 2 % behind the best that was measured):
//
//     rows_cost.c       no products: elementwise kernels, rows, sums
//     product_cost.c    one loop of products
//     outer_loop_cost.c       .. inside another loop
//     resident_b_cost.c       .. with one trip, whose right operand stays where it is down a column
//     attention_cost.c      attention: a product of what became of another one
//     independent_products_cost.c    its gradients: more of them, of which some wait for others
//
// Of what is left open, the least is taken: parts of a loop (split-K), joined through memory or in a
// cluster; a cluster, where an operand's rows come at half the rate; groups that make tiles of their own;
// blocks that share a multiprocessor. What is not known to be faster stays as it is.
#include "lower/cost/work.h"
#include "lower/pass/passes.h"

static const double IN_GRAPH = 1.5;                                 // for tiles of one warp each: nothing of theirs is on its way when the launch before ends
static const double IN_CLUSTERS = 0.3;                              // us: a cluster begins later, and its blocks wait for each other
static const double PAIRS_LEAST = 9, PAIRS_MOST = 60, WORTH_PAIRS = 0.99;      // us: what is shorter or longer was no faster in pairs; of the time without
static const double SHORT = 15;                                     // us
static const double RAGGED = 0.15;                                  // of a trip's rows, those past the tensor's end
static const double WORTH_SHARING = 0.95, WORTH_ONE_ROUND = 0.97;   // of the time without
enum { MAX_TRIED = 14, USUAL = 8, KEPT_MOST = 64, SLICES_MOST = 8 };     // parts; tiles down a column; parts in a cluster

// Parts of a cluster's blocks: of the time without; us: what takes longer was no faster so; us in a graph, where they begin once all of a cluster's have room.
static const double WORTH_SLICES = 0.95, SLICES_SHORT = 20, LATE_IN_GRAPH = 1;

static const int tried_parts[MAX_TRIED] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};     // more than usual: for a few programs
static const double WORTH_PARTS = 0.95;                              // of the time of a nest with fewer

// What is asked: products, where, and what is given of the schedule.
typedef struct Open { Fn *f; const Work *w; const Target *t; const Schedule *given; bool in_graph; } Open;

static bool nested(const Open *o, Cost *out) {
    int stages, given = o->given->split_k > 1 ? o->given->split_k : 1;
    bool open = o->given->split_k < 1 && o->given->cluster < 2 && split_refusal(o->f) == NULL;
    out->us = nest_us(o->w, o->t, 1, given, o->given->stages, &stages);
    for (int n = 2; n <= MOST_TOGETHER; n++) {
        double us = nest_us(o->w, o->t, n, given, o->given->stages, &stages);
        if (us <= 0 || us >= out->us * WORTH_SHARING) continue;
        out->us = us;
        if (!o->given->stages) out->schedule.stages = stages;
    }
    for (int i = 1; open && i < MAX_TRIED && tried_parts[i] <= o->w->outer && out->us > 0; i++) {
        double us = nest_us(o->w, o->t, 1, tried_parts[i], o->given->stages, &stages);
        if (us <= 0 || us >= out->us * WORTH_PARTS) continue;
        out->us = us;
        out->schedule.split_k = tried_parts[i];
        out->schedule.stages = o->given->stages;
    }
    return out->us > 0;
}

// Down columns, by runs of the best length; no time where that is not to be had.
static Cost down_columns(const Open *o) {
    const Schedule *given = o->given;
    Cost c = {.schedule = *given};
    bool keeps = o->w->keeps && o->w->programs > o->t->sms && given->persistent != 1 && !o->w->alone && given->split_k < 2 && given->cluster < 2 && given->stream_k < 2 && given->sliced_k < 2 && given->pingpong != 1;
    if (!keeps || !(given->resident_b > 1 || (!given->resident_b && !given->stages))) return c;
    c.us = INFINITY;
    for (int run = given->resident_b ? given->resident_b : 2; run <= (given->resident_b ? given->resident_b : KEPT_MOST); run++) {
        double us = kept_us(o->w, o->t, run);
        if (us >= c.us) continue;
        c.us = us;
        c.schedule.resident_b = run;
        c.schedule.pingpong = 2;
    }
    return c;
}

// Split-K: as one part, or as many as are less.
static int parts_of(const Open *o, How how, Cost *out) {
    const int *tried = tried_parts;
    const Work *w = o->w;
    int parts = how.parts;
    for (int i = 1; !o->given->split_k && !how.dealt && w->splits && i < MAX_TRIED && tried[i] <= w->trips; i++) {
        if (tried[i] == o->given->cluster && !w->merged) continue;          // the blocks of a cluster are the parts of a tile where both are asked for
        if (i >= USUAL && (double)w->programs * tried[i] > o->t->sms) break;
        double us = product_us(w, o->t, (How){.parts = tried[i], .walks = how.walks}), near = nearer_us(w, o->t, o->given, tried[i], us);
        if (us - near >= out->us) continue;
        out->us = us - near;
        out->schedule.split_k = parts = tried[i];
        out->schedule.cluster = near > 0 ? parts : o->given->cluster;
    }
    return parts;
}

// Rows that are no whole sectors come through L2 at half the rate: worth a cluster, whose blocks bring half of the common operand each.
static void in_clusters(const Open *o, bool walks, Cost *out) {
    Work half = *o->w;
    half.drawn -= half.common / 2;
    double us = product_us(&half, o->t, (How){.parts = 1, .walks = walks}) + IN_CLUSTERS;
    if (us >= out->us * (half.programs > o->t->sms ? 1 : WORTH_ONE_ROUND)) return;
    out->us = us;
    out->schedule.cluster = 2;
}

// Two blocks of a cluster, one below the other, each of which brings half of what both read: 0.90 to 1.01 of the time of 60 products by such tiles, 0.985 in the mean.
static void in_pairs(const Open *o, Cost *out) {
    const Schedule *given = o->given, *s = &out->schedule;
    bool whole = s->split_k < 2 && s->cluster < 2 && s->stream_k < 2 && s->sliced_k < 2 && s->resident_b < 2, open = !given->cluster && given->split_k < 2 && !given->blocks && given->persistent != 1;
    if (!o->w->pairs || !whole || !open || o->in_graph || !o->t->has_cluster || o->w->gathered > 0 || 2 * o->w->programs < (int64_t)o->t->sms || out->us < PAIRS_LEAST || out->us > PAIRS_MOST) return;
    out->us *= WORTH_PAIRS;
    out->schedule.cluster = 2;
}

// Parts that are the blocks of a cluster, each of which joins a slice of the tile and goes on with that.
static void in_slices(const Open *o, Cost *out) {
    const Schedule *given = o->given;
    bool open = !given->split_k && !given->cluster && given->persistent != 2 && !given->blocks && given->pingpong < 2 && given->stream_k < 2 && given->sliced_k < 2 && given->resident_b < 2;
    double least = fmin(SLICES_SHORT, out->us * WORTH_SLICES);
    for (int parts = 2; open && parts <= SLICES_MOST && parts <= o->w->trips; parts *= 2) {
        double us = product_us(o->w, o->t, (How){.parts = parts, .scattered = true}) + (o->in_graph ? LATE_IN_GRAPH : 0);
        if (us >= least || scatter_refusal(o->f, o->t, parts)) continue;
        out->us = least = us;
        out->schedule.split_k = out->schedule.cluster = parts;
        out->schedule.pingpong = given->pingpong;
    }
}

// One loop, whose right operand is brought for each tile: the number of its parts; 0: it is of a kind that has no model.
static int one_loop(const Open *o, Cost *out) {
    const Work *w = o->w;
    const Target *t = o->t;
    const Schedule *given = o->given;
    bool scattered = given->split_k > 1 && given->cluster == given->split_k && w->splits && w->clocks > 0 && !w->merged && t->has_st_async;
    bool walks = given->persistent != 1 && !w->alone && !scattered, asked = given->pingpong > 1, deals = w->splits && w->clocks > 0 && walks && given->split_k < 2;
    How how = {.parts = given->split_k > 1 && w->splits ? given->split_k : 1, .walks = walks, .pingpong = asked && w->pingpong, .dealt = deals && given->stream_k > 1, .scattered = scattered};
    out->us = product_us(w, t, how);
    int parts = parts_of(o, how, out);
    if (!given->cluster && !given->split_k && !asked && !how.dealt && walks && parts == 1 && w->common > 0 && t->has_cluster) in_clusters(o, walks, out);
    double chained;
    bool knows = true, chain = w->clocks && cost_of_chain(w->loop, w->trips, w->programs, t->sms, &chained, &knows);
    if (!knows) return 0;
    if (chain && parts == 1) {
        out->us = chained + ceil((double)w->programs / t->sms) * (double)w->trips * w->gathered / GATHERED;
        out->close = true;
    }
    double turns = product_us(w, t, (How){.parts = 1, .walks = true, .pingpong = true});
    if (!given->pingpong && !given->sliced_k && !how.dealt && w->pingpong && w->common <= 0 && walks && parts == 1 && given->cluster < 2 && w->programs > t->sms && turns < out->us) {
        out->us = turns;
        out->schedule.pingpong = 2;
    }
    if (w->splits && w->clocks > 0 && !w->merged && !chain) in_slices(o, out);
    return out->schedule.cluster > 1 && out->schedule.split_k > 1 ? out->schedule.split_k : parts;
}

bool cost_of(Fn *f, const CompileOptions *opt, const Schedule *given, const int64_t *dims, Cost *out) {
    Work w;
    const Target *t = opt->target;
    const Open o = {f, &w, t, given, opt->in_graph};
    *out = (Cost){.schedule = *given};
    f->target = t;
    f->fast = true;
    if (!has_products(&f->body)) return cost_of_rows(f, opt, given, dims, out);
    Several several = cost_of_several(f, t, dims, &out->us);
    if (several != SEVERAL_NOT) return several == SEVERAL_KNOWN;
    if (!work_of(f, t, dims, opt->in_graph, &w)) return false;
    if (w.nest) return nested(&o, out);
    const Cost kept = down_columns(&o);
    bool packed = w.sync && w.tile <= PACKED;                            // four programs of a warp each share a block
    if ((packed ? 4 : 2) * w.bytes > t->smem_block - 2048) {
        *out = kept;
        return kept.us > 0;
    }
    int parts = one_loop(&o, out);
    if (!parts) return false;
    if (kept.us > 0 && kept.us < out->us) {
        *out = kept;
        return true;
    }
    if (parts == 1) in_pairs(&o, out);
    if (opt->in_graph && packed) out->us *= IN_GRAPH;
    // One short round needs no loading ahead, and a tile is stored sooner by its own threads than by the copy engine; in a graph only
    // a chain's, and where rows may end within a tile (GPT-2 2 us of 610, BERT 5 of 370; ViT, all of whose tiles walk, 285 instead of 278).
    bool itself = !opt->in_graph || out->close || w.outside > RAGGED || f->kernel->ndims > 0;
    if (itself && !given->persistent && !given->blocks && !w.three && out->schedule.stream_k < 2 && !(out->schedule.cluster > 1 && parts == 1) && (double)w.programs * parts <= t->sms && out->us < SHORT) out->schedule.persistent = 1;
    return true;
}

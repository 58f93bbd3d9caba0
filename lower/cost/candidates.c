// What there is to choose from, each with the time that the model expects of it.
//
//     tune matmul { BM in [64, 128]; BN in [128, 256]; }           M = 1024, N = 1024, K = 1024
//
//     the defaults                                    11.0 us      the first, as the model would launch them
//     BM = 64,  BN = 128                               8.4 us      a row of the tune item: an instance, its tile IR, the model
//     BM = 64,  BN = 256                              10.1 us      of cost.c; a tenth of a millisecond
//     ...
//     BM = 64,  BN = 128, split_k = 2                   11.9 us      and, where all is to be measured, the same with other schedules:
//     BM = 64,  BN = 128, persistent = 2                     8.4 us      parts of the loop, walking, warps
//
// What the caller gives is not free, neither are the words of the schedule that the row names.
#include "lower/cost/cost.h"
#include "lower/pass/passes.h"
#include "lower/pass/privatize.h"

#include <math.h>
#include <string.h>

// Of the time of what stands, to leave it. The model of mma.sync does not count what small tiles read from shared memory: at
// 4096^3 it would take 64 x 64 for 128 x 256.
// its ends are what the model knows best; what differs in one thing
static const double WORTH = 0.97, WORTH_MMA_SYNC = 0.8, WORTH_PINGPONG = 0.995, WORTH_CLOSE = 0.985;

// Words of the schedule that are worth measuring, and for which kernels.
typedef enum Sort { ROWS = 1, WGMMA = 2, MMA_SYNC = 4 } Sort;
enum { MAX_TRIED = 12 };
// clang-format off
static const struct { const char *word; int sorts, value[MAX_TRIED]; } tried[] = {
    {"split_k",   WGMMA | MMA_SYNC,        {1, 2, 3, 4, 6, 8, 12, 16}},
    {"split_k",   ROWS,                    {1, 4, 16, 64, 128, 256, 512}},
    {"persistent",    WGMMA,                   {1, 2}},
    {"pingpong", WGMMA,                  {1, 2}},
    {"resident_b",    WGMMA,                   {1, 4, 8, 16, 32, 64}},
    {"cluster", WGMMA,                   {1, 2, 4, 8}},
    {"stages",  MMA_SYNC,                {2, 3, 4}},
    {"warps",   ROWS,                    {1, 2, 4, 8, 16, 32}},
    {"privatize",   ROWS,                    {1, 2}},
};
// clang-format on
enum { WORDS = sizeof tried / sizeof *tried };

typedef struct Look {
    Session  *s;
    InstanceOf of;
    const CompileOptions *opt;
    bool      sized;                     // all dimensions are known
    bool      schedules, whole;          // other schedules too; rows that the model does not know, too
    VEC(Candidate) all;
} Look;

// By number; those that equations define follow. False: some are not known.
static bool dims_of(const Look *l, const Fn *f, int64_t *out) {
    const LaunchInfo *info = f->launch;
    bool all = true, known[MAX_DIMS];
    for (int i = 0; i < info->ndims; i++) {
        out[i] = info->dims[i].fixed;
        for (int d = 0; d < l->of.nknown && out[i] < 0; d++) {
            const SemaValue *v = &l->of.known[d];
            if (!v->is_type && strcmp(v->name, info->dims[i].name->s) == 0) out[i] = v->ival;
        }
        known[i] = out[i] >= 0;
    }
    launch_solve_guards(info, out, known, NULL);
    for (int i = 0; i < info->ndims; i++) all &= known[i] && out[i] >= 0;
    return all;
}

static void push(Look *l, TKernel *k, const TuneCandidate *from, const Cost *c) {
    vec_push(session_arena(l->s), &l->all,
             ((Candidate){.kernel = k,
                          .schedule = c->schedule,
                          .us = c->us,
                          .from = from,
                          .allowed = true,
                          .worth = c->schedule.pingpong > 1    ? WORTH_PINGPONG
                                   : c->close                  ? WORTH_CLOSE
                                   : l->opt->target->has_wgmma ? WORTH
                                                               : WORTH_MMA_SYNC}));
}

static Sort sort_of(const Fn *f, const Target *t) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_dot) return t->has_wgmma ? WGMMA : MMA_SYNC;
    return ROWS;
}

static bool one_product(const Fn *f) {
    int n = 0;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) n += op->code == OP_T_dot;
    return n == 1;
}

// What a word means when it is left out is left out, unless the caller has said it.
static void plain(Schedule *s, const Schedule *said) {
    if (s->split_k == 1 && !said->split_k) s->split_k = 0;
    if (s->persistent == 2 && !said->persistent) s->persistent = 0;
    if (s->cluster == 1 && !said->cluster) s->cluster = 0;
    if (s->pingpong == 1 && !said->pingpong) s->pingpong = 0;
    if (s->resident_b == 1 && !said->resident_b) s->resident_b = 0;
}

// Blocks that load for each other are two, each with tiles of its own; others are the parts of one, and do not walk.
static bool cluster_possible(const Look *l, Fn *f, const Schedule *s, int blocks) {
    if (blocks == 1) return true;
    if (s->split_k < 2) return blocks == 2;
    return blocks == s->split_k && s->persistent != 2 && !scatter_refusal(f, l->opt->target, blocks);
}

static bool tallies(Fn *f, const CompileOptions *opt, const Schedule *given) {
    CompileOptions asked = *opt;
    const char *why;
    asked.schedule = *given;
    asked.schedule.privatize = 2;
    return tally_params(f, &asked, &why) != 0;
}

// All values of the words from `word` on that are left open.
static void vary(Look *l, TKernel *k, const TuneCandidate *from, Fn *f, const int64_t *dims, const Schedule *given,
                 const Cost *usual, int word) {
    int most;
    if (word == WORDS) {
        Cost c;
        if (!cost_of(f, l->opt, given, dims, &c)) c = (Cost){.us = INFINITY, .schedule = *given};
        c.schedule = *given;
        plain(&c.schedule, &l->opt->schedule);
        Schedule before = usual->schedule;
        plain(&before, &l->opt->schedule);
        if (!memcmp(&c.schedule, &before, sizeof before)) return;
        push(l, k, from, &c);
        l->all.at[l->all.n - 1].varied = true;
        return;
    }
    Schedule s = *given;
    int *field = schedule_field(&s, tried[word].word, strlen(tried[word].word), &most);
    bool open = !*field && tried[word].sorts & (int)sort_of(f, l->opt->target);
    if (open && strcmp(tried[word].word, "split_k") == 0 && split_refusal(f)) open = false;
    if (strcmp(tried[word].word, "pingpong") == 0) open &= s.persistent != 1 && s.split_k < 2 && one_product(f);
    // one trip, and more tiles than blocks: else the model has no time for it
    if (strcmp(tried[word].word, "resident_b") == 0) open &= usual->schedule.resident_b > 1 && s.pingpong > 1;
    // no faster together, wherever it was measured
    if (strcmp(tried[word].word, "cluster") == 0) open &= s.pingpong < 2;
    // where the model has a word on it
    if (strcmp(tried[word].word, "privatize") == 0) open &= tallies(f, l->opt, &s);
    bool clusters = open && strcmp(tried[word].word, "cluster") == 0;
    for (int i = 0; i < (open ? MAX_TRIED : 1) && (!open || tried[word].value[i]); i++) {
        if (clusters && !cluster_possible(l, f, &s, tried[word].value[i])) continue;
        if (open) *field = tried[word].value[i];
        vary(l, k, from, f, dims, &s, usual, word + 1);
    }
}

// One instance: as the model would launch it, then with all other schedules.
static void look(Look *l, TKernel *k, const TuneCandidate *from, const Schedule *given) {
    int64_t at[MAX_DIMS];
    Cost    cost;
    Fn     *f = l->opt->target ? ir_build(l->s, k) : NULL;
    if (f && !dims_of(l, f, at)) f = NULL;
    if (!from) l->sized = f != NULL;
    bool    known = f && cost_of(f, l->opt, given, at, &cost);
    if (!known) cost = (Cost){.us = INFINITY, .schedule = *given};
    if (f && !has_products(&f->body)) cost_tally(f, l->opt, at, &cost.schedule);
    if (known || !from || l->whole) push(l, k, from, &cost);
    if (f && l->schedules) vary(l, k, from, f, at, given, &cost, 0);
}

// Splits a row: `<>` names for sema behind what is set, words of the schedule.
static int apply(const TuneCandidate *c, InstanceOf of, SemaValue *values, Schedule *schedule) {
    int n = of.nset, most;
    if (n) memcpy(values, of.set, sizeof *values * (size_t)n);
    for (int i = 0; i < c->n; i++) {
        int *word = schedule_field(schedule, c->value[i].name, strlen(c->value[i].name), &most);
        if (!word) values[n++] = c->value[i];
        else if (!*word) *word = (int)c->value[i].ival;                // --with stands
    }
    return n;
}

// The row's value is a word of the schedule that the caller has given: it is not free.
static bool is_given(const SemaValue *v, const Schedule *given) {
    int most, *word = schedule_field((Schedule *)given, v->name, strlen(v->name), &most);
    return word && *word;
}

// A row before this one has the same values, but for such words.
static bool same_before(const TuneCandidate *rows, int i, const Schedule *given) {
    for (int j = 0; j < i; j++) {
        bool same = true;
        for (int v = 0; v < rows[i].n && same; v++)
            same = rows[j].value[v].ival == rows[i].value[v].ival || is_given(&rows[i].value[v], given);
        if (same) return true;
    }
    return false;
}

int kernel_candidates(Session *s, InstanceOf of, const CompileOptions *opt, bool schedules, Candidate **out) {
    Look l = {.s = s, .of = of, .opt = opt, .schedules = schedules, .whole = schedules};
    TKernel *k = sema_instance(of);
    *out = NULL;
    if (!k) return 0;
    look(&l, k, NULL, &opt->schedule);
    TuneCandidate *rows;
    int n = l.sized ? sema_candidates(of, &rows) : 0;
    bool allowed = !n || sema_tune_allows(of);
    for (uint32_t i = 0; i < l.all.n; i++) l.all.at[i].allowed = allowed;
    l.whole |= !allowed;
    SemaValue *values = NEW_N(session_arena(s), SemaValue, of.nset + 16);
    bool some_given = false;
    for (int v = 0; n && v < rows[0].n; v++) some_given |= is_given(&rows[0].value[v], &opt->schedule);
    for (int i = 0; i < n; i++) {
        if (some_given && same_before(rows, i, &opt->schedule)) continue;
        Schedule schedule = opt->schedule;
        InstanceOf row = of;
        int said = diag_count(s);
        row.set = values;
        row.nset = apply(&rows[i], of, values, &schedule);
        k = sema_instance(row);
        if (k) look(&l, k, &rows[i], &schedule);
        diag_forget(s, said);                                          // one that cannot be is none
    }
    *out = l.all.at;
    return (int)l.all.n;
}

int candidate_best(const Candidate *c, int n) {
    int best = 0;
    while (best + 1 < n && !c[best].allowed) best++;
    for (int i = best + 1; i < n; i++)
        if (c[i].allowed && !c[i].varied && c[i].us < c[best].us * (c[best].from ? 1 : c[i].worth)) best = i;
    return best;
}

const char *candidate_text(Arena *a, const Candidate *c, const Schedule *given) {
    Buf t = {0};
    for (int i = 0; c->from && i < c->from->n; i++)
        if (!is_given(&c->from->value[i], given))
            buf_printf(&t, "%s%s = %lld", t.n ? ", " : "", c->from->value[i].name, (long long)c->from->value[i].ival);
    for (int i = 0; i < schedule_field_count; i++) {
        size_t at = schedule_fields[i].offset;
        int  v = *(const int *)(const void *)((const char *)&c->schedule + at);
        bool listed = v == *(const int *)(const void *)((const char *)given + at);
        for (int k = 0; c->from && k < c->from->n; k++)
            listed |= strcmp(c->from->value[k].name, schedule_fields[i].name) == 0;
        if (!listed) buf_printf(&t, "%s%s = %d", t.n ? ", " : "", schedule_fields[i].name, v);
    }
    char *out = t.n ? arena_printf(a, "%s", t.p) : NULL;
    buf_free(&t);
    return out;
}

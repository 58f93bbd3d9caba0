// What the tests of the models share: kernels that stand in the test, what the model expects of one, and whether what it would
// take is near the best that was measured.
//
// A Seen is a shape and the tiles that a machine ran it with; `model_holds` is the three things that are asked of a model: each
// estimate near what was seen, what it takes of each shape near the best of it, and of all shapes in the mean.
#ifndef TK_TESTS_LOWER_COST_KIT_H
#define TK_TESTS_LOWER_COST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "lower/cost/cost.h"
#include "parser/parser.h"

typedef struct World { Session *s; SemaFile *file; CompileOptions opt; } World;

static inline World world_of(const char *source) {
    World w = {.s = session_new(), .opt = {.target = target_find("sm_90a")}};
    w.file = sema_file(w.s, parse_file(w.s, source_add(w.s, "cost.tk", source, strlen(source))));
    assert_int_equal(diag_errors(w.s), 0);
    return w;
}

// Dimensions by the first letter of their names; what is neither M nor N is k.
typedef struct Shape { int64_t m, n, k; } Shape;

static inline bool cost_for(World *w, const char *kernel, const SemaValue *set, int nset, Shape x, const Schedule *given, Cost *out) {
    TKernel *k = sema_instance((InstanceOf){.file = w->file, .item = sema_find_kernel(w->file, kernel), .set = set, .nset = nset});
    int64_t dims[MAX_DIMS] = {0};
    assert_non_null(k);
    for (int i = 0; i < k->ndims; i++)
        dims[i] = k->dims[i].name->s[0] == 'M' ? x.m : k->dims[i].name->s[0] == 'N' ? x.n : x.k;
    return cost_of(ir_build(w->s, k), &w->opt, given, dims, out);
}

static inline bool choose(World *w, const char *kernel, Shape x, Choice *out) {
    SemaValue dims[] = {{.name = "M", .ival = x.m}, {.name = "N", .ival = x.n}, {.name = "K", .ival = x.k}};
    int n = x.k ? 3 : x.n ? 2 : 0;
    return kernel_choose(w->s, (InstanceOf){w->file, sema_find_kernel(w->file, kernel), NULL, 0, dims, n}, &w->opt, out);
}

// Ways to do one thing: the best that was seen, and what was seen of the one that is expected to be the best.
typedef struct Race { double best, taken, least; } Race;

static inline Race race(void) { return (Race){INFINITY, INFINITY, INFINITY}; }

// True: it leads, by what is expected.
static inline bool race_add(Race *r, double seen, double expected) {
    bool leads = expected < r->least;
    if (seen < r->best) r->best = seen;
    if (leads) { r->least = expected; r->taken = seen; }
    return leads;
}

// A tile by the names BM, BN and BK (0: the kernel has none), and what is given of its schedule: parts or stages.
typedef struct Tile { int bm, bn, bk, given; double us; } Tile;
typedef struct Seen { const char *kernel; Shape x; Tile tile[10]; } Seen;          // tiles up to one of no rows
enum { MOST_TILES = sizeof ((Seen *)0)->tile / sizeof(Tile) };

static inline Cost cost_of_tile(World *w, const char *kernel, Shape x, const Tile *t, const Schedule *given) {
    SemaValue set[] = {{.name = "BM", .ival = t->bm}, {.name = "BN", .ival = t->bn}, {.name = "BK", .ival = t->bk}};
    Cost c;
    assert_true(cost_for(w, kernel, set, t->bk ? 3 : 2, x, given, &c));
    return c;
}

// Shares of what was seen: an estimate's error, and by how much a choice may be behind, one and in the geometric mean.
typedef struct Margins { double estimate, choice, mean; } Margins;

static inline void model_holds(World *w, const Seen *seen, int n, Schedule (*given)(const Tile *t), Margins may) {
    double behind = 0;
    for (const Seen *s = seen; s < seen + n; s++) {
        const Tile *taken = s->tile;
        Race r = race();
        for (const Tile *t = s->tile; t < s->tile + MOST_TILES && t->bm; t++) {
            Schedule schedule = given(t);
            Cost c = cost_of_tile(w, s->kernel, s->x, t, &schedule);
            double us = c.us;
            assert_int_equal(c.schedule.split_k, schedule.split_k);
            if (fabs(us - t->us) > may.estimate * t->us)
                fail_msg("%s %lld x %lld x %lld by %d x %d x %d / %d: %.1f us expected, %.1f seen", s->kernel, (long long)s->x.m, (long long)s->x.n, (long long)s->x.k, t->bm, t->bn, t->bk, t->given, us, t->us);
            if (race_add(&r, t->us, us)) taken = t;
        }
        if (r.taken > (1 + may.choice) * r.best)
            fail_msg("%s %lld x %lld x %lld: takes %d x %d x %d", s->kernel, (long long)s->x.m, (long long)s->x.n, (long long)s->x.k, taken->bm, taken->bn, taken->bk);
        behind += log(r.taken / r.best);
    }
    if (exp(behind / n) > 1 + may.mean) fail_msg("the model's choices are %.3f of the best", exp(behind / n));
}

#endif

// What a kernel leaves open, decided: the best of candidates.c by the model, for known dimensions.
//
//     the defaults           11.0 us      stay where nothing is expected to be much faster,
//     BM = 64, BN = 128       8.4 us      <- chosen
//     BM = 64, BN = 256      10.1 us
//
// Without dimensions, without a model for the kernel or with everything given, nothing is decided. What was measured by
// `tkc tune` stands before the model: runtime/tuned.c.
#include "lower/cost/cost.h"

#include <math.h>

static const char *words(Arena *a, const Candidate *all, int n, int best, InstanceOf of, const Schedule *given) {
    const Candidate *b = &all[best];
    int tried = 0;
    for (int i = 0; i < n; i++) tried += all[i].us < INFINITY;
    Candidate shown = *b;
    if (!given->persistent) shown.schedule.persistent = 0;                          // where tiles leave is said of its own
    const char *what = candidate_text(a, &shown, given);
    if (!b->allowed || (b->us == INFINITY && !b->from)) return NULL;
    if (!what && tried < 2) return NULL;
    Buf t = {0};
    buf_printf(&t, "%s for", what ? what : "the defaults");
    for (int i = 0, k = 0; i < of.nknown; i++)
        if (!of.known[i].is_type) buf_printf(&t, "%s %s = %lld", k++ ? "," : "", of.known[i].name, (long long)of.known[i].ival);
    if (b->us < INFINITY) buf_printf(&t, ": %.1f us expected", b->us);
    else buf_puts(&t, ": the tune item allows it");
    if (tried > 1 && b->from && all->us > b->us && all->us < INFINITY)
        buf_printf(&t, ", %.1f us with the defaults", all->us);
    if (tried > 1) buf_printf(&t, "; best of %d", tried);
    char *out = arena_printf(a, "%s", t.p);
    buf_free(&t);
    return out;
}

// Where the tune item has choices, and its conditions leave none of them: nothing was chosen, and that is why.
static const char *nothing_left(Arena *a, const Candidate *all, int n, InstanceOf of) {
    for (int i = 0; i < n; i++) if (all[i].from) return NULL;
    return sema_tune_allows(of) ? NULL : arena_printf(a, "the defaults: nothing in the tune item satisfies its conditions for these dimensions");
}

bool kernel_choose(Session *s, InstanceOf of, const CompileOptions *opt, Choice *out) {
    Candidate *all;
    int n = kernel_candidates(s, of, opt, false, &all);
    *out = (Choice){.schedule = opt->schedule};
    if (!n) return false;
    int best = opt->unoptimised && all[0].allowed ? 0 : candidate_best(all, n);
    const char *why = nothing_left(session_arena(s), all, n, of);
    if (!why) why = words(session_arena(s), all, n, best, of, &opt->schedule);
    *out = (Choice){all[best].kernel, all[best].schedule, why};
    return true;
}

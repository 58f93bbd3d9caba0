// What a kernel leaves open, decided: the numbers of its `tune` item and the parts of its loop, for known dimensions.
//
//     tune matmul { BM in [64, 128]; BN in [128, 256]; }           M = 1024, N = 1024, K = 1024
//
//     BM = 64,  BN = 128      8.4 us   <- chosen
//     BM = 64,  BN = 256     10.1 us
//     BM = 128, BN = 128     11.0 us       each: an instance, its tile IR, the model of cost.c; a tenth of a millisecond
//     BM = 128, BN = 256     16.4 us
//
// The defaults are a candidate too, and stay where nothing is expected to be much faster. Without dimensions, without a
// model for the kernel or with everything given, nothing is decided.
#include "lower/cost.h"

#include <math.h>
#include <string.h>

static const double WORTH = 0.97;            // of the time of what stands, to leave it

typedef struct Best { double us; TKernel *kernel; Schedule schedule; const TuneCandidate *from; } Best;

static bool dims_of(const TKernel *k, const SemaValue *dims, int ndims, int64_t *out) {
    for (int i = 0; i < k->ndims; i++) {
        out[i] = k->dims[i].fixed;
        for (int d = 0; d < ndims && out[i] < 0; d++) if (!dims[d].is_type && strcmp(dims[d].name, k->dims[i].name->s) == 0) out[i] = dims[d].ival;
        if (out[i] < 0) return false;
    }
    return true;
}

static bool expect(Session *s, TKernel *k, const SemaValue *dims, int ndims, const CompileOptions *opt, const Schedule *given, Cost *cost) {
    int64_t at[MAX_DIMS];
    if (!dims_of(k, dims, ndims, at)) return false;
    Fn *f = ir_build(s, k);
    return f && cost_of(f, opt, given, at, cost);
}

// Splits a candidate: `<>` names for sema behind what is set, words of the schedule.
static int apply(const TuneCandidate *c, const SemaValue *set, int nset, SemaValue *values, Schedule *schedule) {
    int n = nset, most;
    if (nset) memcpy(values, set, sizeof *values * (size_t)nset);
    for (int i = 0; i < c->n; i++) {
        int *word = schedule_field(schedule, c->value[i].name, strlen(c->value[i].name), &most);
        if (!word) values[n++] = c->value[i];
        else if (!*word) *word = (int)c->value[i].ival;                // --with stands
    }
    return n;
}

static const char *words(Arena *a, const Best *b, double before, int tried, const SemaValue *dims, int ndims) {
    if (b->us == INFINITY) return NULL;
    Buf t = {0};
    for (int i = 0; b->from && i < b->from->n; i++) buf_printf(&t, "%s%s = %lld", t.n ? ", " : "", b->from->value[i].name, (long long)b->from->value[i].ival);
    if (!b->from && tried > 1) buf_puts(&t, "the defaults");
    bool listed = false;
    for (int i = 0; b->from && i < b->from->n; i++) listed |= strcmp(b->from->value[i].name, "split") == 0;
    if (!listed && b->schedule.split > 1) buf_printf(&t, "%ssplit = %d", t.n ? ", " : "", b->schedule.split);
    if (!t.n) { buf_free(&t); return NULL; }
    buf_puts(&t, " for");
    for (int i = 0, k = 0; i < ndims; i++) if (!dims[i].is_type) buf_printf(&t, "%s %s = %lld", k++ ? "," : "", dims[i].name, (long long)dims[i].ival);
    buf_printf(&t, ": %.1f us expected", b->us);
    if (tried > 1 && before > b->us && before < INFINITY) buf_printf(&t, ", %.1f us with the defaults", before);
    if (tried > 1) buf_printf(&t, "; best of %d", tried);
    char *out = arena_printf(a, "%s", t.p);
    buf_free(&t);
    return out;
}

bool kernel_choose(SemaFile *file, Session *s, const Node *kernel, const SemaValue *set, int nset, const SemaValue *dims, int ndims,
            const CompileOptions *opt, Choice *out) {
    Cost cost;
    *out = (Choice){.kernel = sema_instance(file, kernel, set, nset, dims, ndims), .schedule = opt->schedule};
    if (!out->kernel) return false;
    int64_t at[MAX_DIMS];
    if (!opt->target || !dims_of(out->kernel, dims, ndims, at)) return true;
    bool known = expect(s, out->kernel, dims, ndims, opt, &opt->schedule, &cost);
    Best best = {known ? cost.us : INFINITY, out->kernel, known ? cost.schedule : opt->schedule, NULL};
    TuneCandidate *all;
    int n = sema_candidates(file, kernel, set, nset, dims, ndims, &all), tried = known;
    double before = best.us;
    SemaValue *values = NEW_N(session_arena(s), SemaValue, nset + 16);
    for (int i = 0; i < n; i++) {
        Schedule schedule = opt->schedule;
        int count = apply(&all[i], set, nset, values, &schedule), said = diag_count(s);
        TKernel *k = sema_instance(file, kernel, values, count, dims, ndims);
        known = k && expect(s, k, dims, ndims, opt, &schedule, &cost);
        diag_forget(s, said);                                          // a candidate that cannot be is none
        tried += known;
        if (!known || cost.us >= best.us * (best.from ? 1 : WORTH)) continue;
        best = (Best){cost.us, k, cost.schedule, &all[i]};
    }
    out->kernel = best.kernel;
    out->schedule = best.schedule;
    out->why = words(session_arena(s), &best, before, tried, dims, ndims);
    return true;
}

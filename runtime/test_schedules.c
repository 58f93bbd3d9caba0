// `tkc test --all-schedules`: a test with one schedule after the other.
//
//     the choice of the model                  as `tkc test` runs it
//     the defaults                             as they are compiled where no sizes are known: --defaults
//     one decision at a time                   each value of each word; each row of a tune item
//     several decisions, at random             drawn from --seed and the test's name: the same each time
//
// A schedule is what --with and --set would ask of the whole test: of each of its launches, those of graphs too. What they leave
// open is chosen as for `tkc run`, and a word that the source gives stays. So what failed is had again by the options that
// stand behind its name.
//
// Not each is run. Where no launch can have what is asked, the compiler's reason is the end of it (--verbose says it); where
// the code of all launches is that of a schedule before, that one's results stand for it.
//
//     parse the file ---> the case, elaborated anew for each schedule ---> refused? ---> compiled ---> code seen? ---> run
//
// Each case has a session of its own, which takes its memory with it. A reference is evaluated once.

#include "runtime/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lang/ast.h"
#include "lang/shown.h"
#include "runtime/graph.h"

enum { MAX_VALUES = 16, MAX_ROWS = 12, COMBINATIONS = 24, MOST_TOLD = 4 };

// Of words with few values all; of numbers some of each size, those that are no power of two too. Others come at random.
static const struct { const char *word; int value[MAX_VALUES]; } tried[] = {
    {"warps", {1, 2, 4, 8, 16, 32}},      {"stages", {1, 2, 3, 4, 5, 8, 64}},
    {"cluster", {1, 2, 3, 4, 8, 16}},     {"split_k", {1, 2, 3, 4, 7, 16, 64, 256}},
    {"blocks", {1, 2, 3, 16, 132}},       {"persistent", {1, 2}},
    {"sliced_k", {1, 2}},                   {"pingpong", {1, 2}},
    {"groups", {1, 2, 3}},                {"stream_k", {1, 2}},
    {"resident_b", {1, 2, 3, 4, 8, 64}},        {"privatize", {1, 2}},
};

typedef struct Trial { Schedule with; SemaValue set[MAX_CHOSEN]; int nset; bool defaults; } Trial;

typedef struct Trials {
    Runner    *r;
    Session   *s;
    SemaFile  *file;
    Runtime   *rt;
    int        number;                    // of the case
    const char *name;
    TestRun    first;                     // with the choice of the model
    bool       collects;                  // rows of tune items, while the first is elaborated
    VEC(Trial) rows, all;
    VEC(uint64_t) seen;                   // sums of what ran
    uint64_t   stream, draws;
    int        failed, told;
} Trials;

// ---- which -------------------------------------------------------------------------------------

static uint32_t draw(Trials *t, uint32_t below) {
    return (uint32_t)((uint64_t)rng_bits(t->r->opt->run.seed, t->stream, t->draws++) * below >> 32);
}

static int *word_of(Schedule *s, int i) { return (int *)(void *)((char *)s + schedule_fields[i].offset); }

// From 1 on, of each size alike.
static void draw_word(Trials *t, Trial *x) {
    int i = (int)draw(t, (uint32_t)schedule_field_count), bits = 0;
    const ScheduleField *f = &schedule_fields[i];
    while (f->most >> bits > 1) bits++;
    int v = 1 << draw(t, (uint32_t)bits + 1);
    v += (int)draw(t, (uint32_t)v);
    if (v > f->most) v = f->most;
    while (schedule_refuses(f->name, strlen(f->name), v)) v--;
    if (!schedule_word(&t->r->opt->run.compile.schedule, i)) *word_of(&x->with, i) = v;
}

static Trial given(const Trials *t) {
    Trial x = {.with = t->r->opt->run.compile.schedule, .defaults = t->r->opt->run.defaults};
    for (int i = 0; i < t->r->opt->run.nset && x.nset < MAX_CHOSEN; i++) x.set[x.nset++] = t->r->opt->run.set[i];
    return x;
}

static bool has(const SemaValue *v, int n, const char *name) {
    for (int i = 0; i < n; i++) if (strcmp(v[i].name, name) == 0) return true;
    return false;
}

static void add_row(Trial *x, const Trial *row) {
    for (int i = 0; i < schedule_field_count; i++)
        if (!schedule_word(&x->with, i)) *word_of(&x->with, i) = schedule_word(&row->with, i);
    for (int i = 0; i < row->nset && x->nset < MAX_CHOSEN; i++)
        if (!has(x->set, x->nset, row->set[i].name)) x->set[x->nset++] = row->set[i];
}

static bool same_trial(const Trial *a, const Trial *b) {
    bool same = a->nset == b->nset && a->defaults == b->defaults && memcmp(&a->with, &b->with, sizeof a->with) == 0;
    for (int i = 0; same && i < a->nset; i++) same = strcmp(a->set[i].name, b->set[i].name) == 0 && a->set[i].ival == b->set[i].ival;
    return same;
}

static void add_trial(Trials *t, const Trial *x) {
    Trial none = given(t);
    bool  known = same_trial(x, &none);
    for (uint32_t i = 0; i < t->all.n && !known; i++) known = same_trial(&t->all.at[i], x);
    if (!known) vec_push(session_arena(t->s), &t->all, *x);
}

// The rows of a kernel's tune item for these sizes: a few of them, where there are many.
static void collect(Trials *t, InstanceOf of) {
    TuneCandidate *row;
    int said = diag_count(t->s), n = sema_candidates(of, &row), most = n < MAX_ROWS ? n : MAX_ROWS;
    diag_forget(t->s, said);
    for (int k = 0; k < most; k++) {
        const TuneCandidate *c = &row[n > MAX_ROWS ? (int)draw(t, (uint32_t)n) : k];
        Trial x = {0};
        for (int i = 0; i < c->n && x.nset < MAX_CHOSEN; i++) {
            int most_of_word, *word = schedule_field(&x.with, c->value[i].name, strlen(c->value[i].name), &most_of_word);
            if (word) *word = (int)c->value[i].ival;
            else x.set[x.nset++] = (SemaValue){.name = sym(t->s, c->value[i].name)->s, .ival = c->value[i].ival, .chosen = true};
        }
        vec_push(session_arena(t->s), &t->rows, x);
    }
}

static int choose_alone(void *trials, InstanceOf of, SemaValue chosen[MAX_CHOSEN], Schedule *schedule) {
    Trials *t = trials;
    if (t->collects) collect(t, of);
    return alone_choose(t->rt, of, chosen, schedule);
}

static int choose_in_graph(void *trials, InstanceOf of, SemaValue chosen[MAX_CHOSEN], Schedule *schedule) {
    Trials *t = trials;
    if (t->collects) collect(t, of);
    return graph_choose(t->rt, of, chosen, schedule);
}

static void singles(Trials *t) {
    Trial plain = given(t);
    plain.defaults = true;
    add_trial(t, &plain);
    for (size_t w = 0; w < sizeof tried / sizeof *tried; w++)
        for (int k = 0; k < MAX_VALUES && tried[w].value[k]; k++) {
            Trial x = given(t);
            int most, *word = schedule_field(&x.with, tried[w].word, strlen(tried[w].word), &most);
            if (*word || schedule_refuses(tried[w].word, strlen(tried[w].word), tried[w].value[k])) continue;
            *word = tried[w].value[k];
            add_trial(t, &x);
        }
    for (uint32_t i = 0; i < t->rows.n; i++) {
        Trial x = given(t);
        add_row(&x, &t->rows.at[i]);
        add_trial(t, &x);
    }
}

static void combinations(Trials *t, int n) {
    for (int k = 0; k < n; k++) {
        Trial x = given(t);
        for (int words = 2 + (int)draw(t, 4); words > 0; words--) draw_word(t, &x);
        if (t->rows.n && draw(t, 2)) add_row(&x, &t->rows.at[draw(t, t->rows.n)]);
        x.defaults |= draw(t, 4) == 0;
        add_trial(t, &x);
    }
}

// With a bound, as many of each kind as come by chance: another seed has others.
static void bounded(Trials *t, int most) {
    for (uint32_t i = 0; i + 1 < t->all.n; i++) {
        uint32_t k = i + draw(t, t->all.n - i);
        Trial x = t->all.at[i];
        t->all.at[i] = t->all.at[k];
        t->all.at[k] = x;
    }
    if (t->all.n > (uint32_t)most) t->all.n = (uint32_t)most;
}

static void trial_text(const Trials *t, const Trial *x, Buf *out) {
    Buf words = {0};
    schedule_text(&x->with, &words);
    buf_printf(out, "%s%s%s", x->defaults ? "--defaults" : "", x->defaults && words.n ? " " : "", words.n ? words.p : "");
    for (int i = 0; i < x->nset; i++) {
        bool own = has(t->r->opt->run.set, t->r->opt->run.nset, x->set[i].name);
        if (!own) buf_printf(out, "%s--set=%s=%lld", out->n ? " " : "", x->set[i].name, (long long)x->set[i].ival);
    }
    buf_free(&words);
}

// ---- one of them ---------------------------------------------------------------------------------

typedef struct Launch { Compiled *compiled; const TKernel *kernel; Schedule schedule; } Launch;
typedef VEC(Launch) Launches;

static bool add_launch(Trials *t, Launches *all, const TKernel *k, const Schedule *s, uint64_t fixed, Buf *err) {
    Compiled *c = runtime_compile_fixed(t->rt, k, s, fixed, err);
    if (c) vec_push(session_arena(t->s), all, ((Launch){c, k, *s}));
    return c != NULL;
}

// What the test launches, compiled as it will be; no references.
static bool launches_of(Trials *t, const TTest *test, Launches *all, Buf *err) {
    bool fine = true;
    for (const TStep *s = test->steps; fine && s < test->steps + test->nsteps; s++) {
        if (s->kind == STEP_launch && !s->reference) fine = add_launch(t, all, s->kernel, &s->schedule, 0, err);
        for (int i = 0; fine && s->kind == STEP_graph && i < s->graph->nlaunches; i++) {
            const TGLaunch *l = &s->graph->launches[i];
            fine = add_launch(t, all, l->kernel, &l->schedule, plan_fixed_inputs(l, s->graph), err);
        }
    }
    return fine;
}

// But for the words asked, the same was chosen as without them.
static bool chosen_alike(const Launch *a, const Launch *b, const Schedule *asked) {
    bool same = a->kernel == b->kernel;
    for (int i = 0; same && i < schedule_field_count; i++)
        same = schedule_word(asked, i) || schedule_word(&a->schedule, i) == schedule_word(&b->schedule, i);
    return same;
}

static bool refused(Trials *t, const Launches *now, const Launches *first, const Schedule *asked, Buf *why) {
    bool any = false;
    for (int i = 0; i < schedule_field_count; i++) any |= schedule_word(asked, i) != 0;
    if (!any || now->n != first->n) return false;
    for (uint32_t i = 0; i < now->n; i++) {
        if (!chosen_alike(&now->at[i], &first->at[i], asked)) return false;
        buf_free(why);
        if (!compiled_refused(t->rt, now->at[i].compiled, asked, why)) return false;
    }
    return true;
}

static uint64_t sum_of(Trials *t, const Launches *all, Buf *err) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < all->n; i++) {
        uint64_t one = compiled_sum(t->rt, all->at[i].compiled, err);
        if (!one) return 0;
        sum = (sum ^ one) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static bool seen(Trials *t, uint64_t sum) {
    for (uint32_t i = 0; i < t->seen.n; i++) if (t->seen.at[i] == sum) return true;
    vec_push(session_arena(t->s), &t->seen, sum);
    return false;
}

static void skip(Trials *t, const char *with, const Buf *why, int said, int *count) {
    Buf text = {0};
    ++*count;
    t->r->counts->skipped++;
    diag_write(t->s, &text, DIAG_short, false);
    diag_forget(t->s, said);
    if (t->r->opt->verbose) {
        const char *first = text.n ? text.p : why->n ? why->p : "it does not compile";
        print_shown(t->r->to, "skip  %s, %s: %.*s\n", t->name, with, (int)strcspn(first, "\n"), first);
    }
    buf_free(&text);
}

// A failure that was told of several times already is only counted.
static void tell(Trials *t, const TestRun *run, const char *with, bool fine, double start) {
    if (fine) t->r->counts->passed++;
    else t->r->counts->failed++, t->failed++;
    if (!fine && t->told == MOST_TOLD && !t->r->opt->verbose) { diag_forget(t->s, 0); return; }
    t->told += !fine;
    test_told(t->r, run, t->name, with, fine, (now_us() - start) * 1e-3);
}

static void try(Trials *t, const Trial *x, const Launches *first) {
    Buf with = {0}, why = {0};
    Launches now = {0};
    double start = now_us();
    int said = diag_count(t->s);
    trial_text(t, x, &with);
    ice_while("%s, %s", t->name, with.n ? with.p : "as chosen");
    runtime_asks(t->rt, &x->with, x->set, x->nset, x->defaults);
    TestRun run = {.rt = t->rt, .test = sema_test(t->file, t->number), .before = &t->first};
    Schedule asked = x->with;
    for (int i = 0; i < schedule_field_count; i++)
        if (schedule_word(&t->r->opt->run.compile.schedule, i)) *word_of(&asked, i) = 0;
    uint64_t sum = 0;
    bool can = run.test && launches_of(t, run.test, &now, &why) && !refused(t, &now, first, &asked, &why) &&
               (buf_free(&why), sum = sum_of(t, &now, &why)) != 0;
    if (!can) skip(t, with.p, &why, said, &t->r->refused);
    else if (seen(t, sum)) {
        buf_puts(&why, "the code of one before");
        skip(t, with.p, &why, said, &t->r->same);
    } else tell(t, &run, with.p, test_run(&run), start);
    if (run.test) test_run_free(&run);
    buf_free(&with);
    buf_free(&why);
}

// ---- a case --------------------------------------------------------------------------------------

// The test with its own choice. False: it is not to be run, or cannot be.
static bool run_first(Trials *t, const char *path, Launches *launches, Buf *name) {
    Trial own = given(t);
    Buf why = {0};
    double start = now_us();
    t->collects = true;
    runtime_asks(t->rt, &own.with, own.set, own.nset, own.defaults);
    const TTest *test = sema_test(t->file, t->number);
    t->collects = false;
    if (!test) { test_diags(t->r, t->s); return false; }
    test_name(path, test, name);
    t->name = name->p;
    if (!test_wanted(t->r, name->p)) return false;
    diag_forget(t->s, 0);                                              // warnings were told with the file
    ice_while("%s", name->p);
    t->first = (TestRun){.rt = t->rt, .test = test};
    bool fine = test_run(&t->first);
    tell(t, &t->first, "", fine, start);
    if (launches_of(t, test, launches, &why)) seen(t, sum_of(t, launches, &why));
    bool any = launches->n > 0;
    buf_free(&why);
    diag_forget(t->s, 0);
    return any;
}

// What a name draws does not depend on where the file lies.
static uint64_t stream_of(const char *path, int number) {
    const char *base = strrchr(path, '/');
    return rng_stream(base ? base + 1 : path, number);
}

void test_schedules(Runner *r, const char *path, int number) {
    Session *s = session_new();
    RuntimeOptions opt = r->opt->run;
    Trials   t = {.r = r, .s = s, .number = number};
    Launches launches = {0};
    Buf      name = {0};
    char    *error = NULL;
    Source  *src = source_read(s, path, &error);
    opt.tries = true;
    opt.set_found = NULL;
    if (src) {
        t.file = sema_file(s, parse_file(s, src));
        t.rt = runtime_new(s, r->device, &opt);
        t.stream = stream_of(path, number);
        runtime_serves(t.rt, t.file);
        sema_chooser(t.file, choose_in_graph, &t);
        sema_alone_chooser(t.file, choose_alone, &t);
        if (run_first(&t, path, &launches, &name)) {
            singles(&t);
            combinations(&t, COMBINATIONS);
            if (r->opt->most) bounded(&t, r->opt->most);
            for (uint32_t i = 0; i < t.all.n; i++) try(&t, &t.all.at[i], &launches);
        }
        if (t.failed > t.told) fprintf(r->to, "      and with %d other schedules: --verbose names them\n", t.failed - t.told);
        test_run_free(&t.first);
        runtime_free(t.rt);
    }
    ice_while("%s", "");
    buf_free(&name);
    session_free(s);
}

void schedules_told(const Runner *r) {
    fprintf(r->to, "schedules: seed %lld; of those skipped %d were refused and %d are the code of others\n",
            (long long)r->opt->run.seed, r->refused, r->same);
}

// The choices of launches that a file makes, of graphs and of test items: what is decided for each kernel and its dimensions, kept.
//
// A launch of a test item is decided as `tkc run` would decide it: for just its sizes, from what arguments say.
//
// Where many sizes come up, each kernel decides for so many of them and then takes what it decided for the nearest.
//
// A ResNet-50 takes 0.1 s to decide. So what was decided is kept on disk, too (cache.h), all of a program in one file,
// for whoever comes with the same sources, target and compiler, and as much measured (tuned.c). Another process takes
// from there what was decided for just these sizes, and nothing for sizes near them: what it decides does not depend on
// who ran before.

#include "runtime/graph.h"

#include "runtime/cache.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DECISIONS = 48,               // for a kernel with one set of values
       MAX_ON_DISK = 1024 };

typedef struct Decision {
    struct Decision *next;
    uint32_t    kernel;                  // where it stands in the sources
    SemaValue  *set, *known;             // their names, and the functions among them, are the session's
    double     *log;                     // of the numbers known
    int         nset, nknown;
    Schedule    given, schedule;
    SemaValue   chosen[MAX_CHOSEN];
    int         nchosen;
    bool        found;                   // on disk, and not asked for yet
    bool        alone;                   // of a test item: for just these sizes, and for this process
} Decision;

enum { LISTS = 64 };
// by kernel; key: on disk; decided: what is not there
struct GraphChoices { Decision *first[LISTS]; Buf key; int decided; };

static Decision **list_of(GraphChoices *c, uint32_t kernel) { return &c->first[kernel * 2654435761u >> 26]; }

static void add(GraphChoices *c, Decision *d) {
    Decision **list = list_of(c, d->kernel);
    d->next = *list;
    *list = d;
}

static void drop_all(GraphChoices *c) {
    for (int i = 0; i < LISTS; i++) {
        for (Decision *d = c->first[i], *next; d; d = next) {
            next = d->next;
            heap_free(d->set);
            heap_free(d->known);
            heap_free(d->log);
            heap_free(d);
        }
        c->first[i] = NULL;
    }
}

// ---- on disk -------------------------------------------------------------------------------------
//
// A line for each decision, words and numbers: kernel, schedule given, values set, values known, schedule, values chosen.

static void mix(void *sum, const Buf *bytes) {
    uint64_t *h = sum;
    for (size_t i = 0; i < bytes->n; i++) *h = (*h ^ (unsigned char)bytes->p[i]) * UINT64_C(0x100000001b3);
}

static void disk_key(Runtime *rt, Buf *key) {
    uint64_t measured = UINT64_C(0xcbf29ce484222325);
    CompileOptions opt = runtime_options(rt)->compile;
    if (cache_any_measured()) cache_each_measured(mix, &measured);
    buf_printf(key, "choices\n%s %016" PRIx64 " ", runtime_device(rt)->model, measured);
    artifact_key(runtime_session(rt), &opt, runtime_device(rt)->ops->name, key);
}

static void put_schedule(const Schedule *s, Buf *out) {
    for (int i = 0; i < schedule_field_count; i++)
        buf_printf(out, " %d", *(const int *)(const void *)((const char *)s + schedule_fields[i].offset));
}

static void put_values(const SemaValue *v, int n, Buf *out) {
    buf_printf(out, " %d", n);
    for (int i = 0; i < n; i++)
        buf_printf(out, " %s %c %" PRId64, v[i].name, v[i].is_type ? 't' : 'i',
                   v[i].is_type ? (int64_t)v[i].elem : v[i].ival);
}

static bool on_paper(const Decision *d) {                    // functions are not
    for (int i = 0; i < d->nset; i++)
        if (d->set[i].value || d->set[i].fn) return false;
    return true;
}

static void put_decision(const Decision *d, Buf *out) {
    buf_printf(out, "%" PRIu32, d->kernel);
    put_schedule(&d->given, out);
    put_values(d->set, d->nset, out);
    put_values(d->known, d->nknown, out);
    put_schedule(&d->schedule, out);
    put_values(d->chosen, d->nchosen, out);
    buf_putc(out, '\n');
}

static void choices_write(const GraphChoices *c) {
    Buf out = {0};
    int n = 0;
    for (int found = 0; found < 2; found++)                // those that were asked for come first
        for (int i = 0; i < LISTS; i++)
            for (const Decision *d = c->first[i]; d && n < MAX_ON_DISK; d = d->next)
                if (d->found == found && !d->alone && on_paper(d)) { put_decision(d, &out); n++; }
    cache_put(&c->key, &out);
    buf_free(&out);
}

void graph_choices_free(GraphChoices *c) {
    if (!c) return;
    Buf where = {0};
    if (c->decided && cache_folder(&where)) choices_write(c);
    buf_free(&where);
    drop_all(c);
    buf_free(&c->key);
    heap_free(c);
}

int graph_decided(const GraphChoices *c) { return c ? c->decided : 0; }

typedef struct Words { Session *s; char *at; bool bad; } Words;

static const char *word(Words *w) {
    char *p = w->at + strspn(w->at, " "), *end = p + strcspn(p, " \n");
    w->bad = w->bad || end == p;
    w->at = *end == ' ' ? end + 1 : end;
    if (*end == ' ') *end = 0;
    return p;
}

static int64_t number(Words *w, int64_t least, int64_t most) {
    char   *end;
    int64_t v = strtoll(w->at, &end, 10);
    w->bad = w->bad || end == w->at || v < least || v > most;
    w->at = end;
    return w->bad ? least : v;
}

static void get_schedule(Words *w, Schedule *s) {
    for (int i = 0; i < schedule_field_count; i++) {
        const ScheduleField *f = &schedule_fields[i];
        int64_t v = number(w, 0, f->most);
        if (v && schedule_refuses(f->name, strlen(f->name), v)) w->bad = true, v = 0;
        *(int *)(void *)((char *)s + f->offset) = (int)v;
    }
}

static int get_values(Words *w, SemaValue *v, int most, bool chosen) {
    int n = (int)number(w, 0, most);
    for (int i = 0; i < n && !w->bad; i++) {
        const char *name = word(w), *kind = word(w);
        v[i] = (SemaValue){.name = sym(w->s, name)->s, .is_type = kind[0] == 't', .chosen = chosen};
        if (v[i].is_type) v[i].elem = (Elem)number(w, 0, EL_COUNT - 1);
        else v[i].ival = number(w, INT64_MIN, INT64_MAX);
    }
    return w->bad ? 0 : n;
}

static SemaValue *copied(const SemaValue *v, int n);
static double *logs_of(const SemaValue *known, int n);

static GraphChoices *choices_read(Runtime *rt) {
    enum { MOST = 2 * MAX_DIMS + 80 };
    GraphChoices *c = heap_alloc(sizeof *c);
    Buf   bytes = {0};
    SemaValue v[MOST];
    disk_key(rt, &c->key);
    bool  there = cache_get(&c->key, &bytes);
    buf_putc(&bytes, 0);
    Words w = {.s = runtime_session(rt), .at = bytes.p, .bad = !there};
    while (!w.bad && *w.at) {
        Decision *d = heap_alloc(sizeof *d);
        *d = (Decision){.kernel = (uint32_t)number(&w, 0, UINT32_MAX), .found = true};
        add(c, d);
        get_schedule(&w, &d->given);
        d->set = copied(v, d->nset = get_values(&w, v, MOST, false));
        d->known = copied(v, d->nknown = get_values(&w, v, MOST, false));
        d->log = logs_of(d->known, d->nknown);
        get_schedule(&w, &d->schedule);
        d->nchosen = get_values(&w, d->chosen, MAX_CHOSEN, true);
        w.bad = w.bad || *w.at++ != '\n';
    }
    if (w.bad) drop_all(c);
    buf_free(&bytes);
    return c;
}

// ---- deciding ------------------------------------------------------------------------------------

static bool same_name(const char *a, const char *b) { return a == b || strcmp(a, b) == 0; }

static bool same_value(const SemaValue *a, const SemaValue *b) {
    return same_name(a->name, b->name) && a->is_type == b->is_type && a->ival == b->ival && a->elem == b->elem &&
           sema_same_function(a, b);
}

static double log_of(const SemaValue *v) { return v->is_type ? 0 : log2((double)v->ival + 1); }

static double *logs_of(const SemaValue *known, int n) {
    double *log = heap_alloc(sizeof *log * ((size_t)n + 1));
    for (int i = 0; i < n; i++) log[i] = log_of(&known[i]);
    return log;
}

// How far apart two sizes are: 0, the same; INFINITY, another kernel or other types, or near what was only found.
static double distance(const Decision *d, InstanceOf of, const double *log, const Schedule *given, bool alone) {
    double sum = 0;
    bool same = d->alone == alone && d->kernel == of.item->span.lo && d->nset == of.nset && d->nknown == of.nknown &&
                memcmp(&d->given, given, sizeof *given) == 0;
    for (int i = 0; same && i < of.nset; i++) same = same_value(&d->set[i], &of.set[i]);
    for (int i = 0; same && i < of.nknown; i++) {
        const SemaValue *a = &d->known[i], *b = &of.known[i];
        same = same_name(a->name, b->name) && a->is_type == b->is_type && a->elem == b->elem;
        if (same && a->ival != b->ival) sum += fabs(d->log[i] - log[i]);
    }
    return same && ((!d->found && !alone) || sum == 0) ? sum : INFINITY;
}

static SemaValue *copied(const SemaValue *v, int n) {
    SemaValue *c = heap_alloc(sizeof *c * (size_t)(n + 1));
    if (n) memcpy(c, v, sizeof *c * (size_t)n);
    return c;
}

static bool has_value(const SemaValue *v, int n, const char *name) {
    for (int i = 0; i < n; i++) if (same_name(v[i].name, name)) return true;
    return false;
}

static Decision *decide(Runtime *rt, InstanceOf of, const Schedule *given, bool alone) {
    CompileOptions opt = runtime_options(rt)->compile;
    Choice choice;
    opt.schedule = *given;
    opt.in_graph = !alone;
    if (!runtime_choose(rt, of, &opt, &choice)) return NULL;
    Decision *d = heap_alloc(sizeof *d);
    *d = (Decision){.kernel = of.item->span.lo,
                    .set = copied(of.set, of.nset),
                    .nset = of.nset,
                    .known = copied(of.known, of.nknown),
                    .log = logs_of(of.known, of.nknown),
                    .nknown = of.nknown,
                    .given = *given,
                    .schedule = choice.schedule,
                    .alone = alone};
    for (int i = 0; i < of.nset; i++) sema_keep_function(runtime_session(rt), &d->set[i]);
    for (int i = 0; i < choice.kernel->nbindings && d->nchosen < MAX_CHOSEN; i++) {
        const TBinding *b = &choice.kernel->bindings[i];
        if (b->origin == ORIGIN_CHOSEN && !has_value(of.set, of.nset, b->name->s))
            d->chosen[d->nchosen++] = (SemaValue){.name = b->name->s, .ival = b->ival, .chosen = true};
    }
    return d;
}

// What was decided for this launch, or for the nearest size of many. NULL: reported.
static const Decision *decision(Runtime *rt, InstanceOf of, const Schedule *given, bool alone) {
    GraphChoices **all = runtime_choices(rt);
    Decision      *near = NULL;
    double         least = INFINITY;
    int            decisions = 0;
    double         log[2 * MAX_DIMS + 16];               // as many as a launch can know
    if (of.nknown > (int)(sizeof log / sizeof *log)) ice("%d dimensions known", of.nknown);
    for (int i = 0; i < of.nknown; i++) log[i] = log_of(&of.known[i]);
    if (!*all) *all = choices_read(rt);
    for (Decision *d = *list_of(*all, of.item->span.lo); d; d = d->next) {
        double far = distance(d, of, log, given, alone);
        decisions += far < INFINITY;
        if (far < least) { least = far; near = d; }
    }
    if (!near || (least > 0 && decisions < MAX_DECISIONS)) {
        near = decide(rt, of, given, alone);
        if (!near) return NULL;
        add(*all, near);
        (*all)->decided += !alone;
    }
    near->found = false;
    return near;
}

// ---- for sema ------------------------------------------------------------------------------------

// Values that the options set for all launches, of names that this kernel has and its call leaves open: behind those of the call.
static int values_set(const Runtime *rt, InstanceOf of, SemaValue *out) {
    const RuntimeOptions *opt = runtime_options(rt);
    const Node *names = of.item->kid[0];
    int n = 0;
    for (int i = 0; i < opt->nset && n < MAX_CHOSEN; i++)
        for (uint32_t k = 0; names && k < names->nkid; k++)
            if (strcmp(names->kid[k]->sym->s, opt->set[i].name) == 0 && !has_value(of.set, of.nset, opt->set[i].name)) {
                out[n] = opt->set[i];
                out[n++].chosen = true;                        // not by the call
                if (opt->set_found) opt->set_found[i] = true;
            }
    return n;
}

static int choose(Runtime *rt, InstanceOf of, SemaValue chosen[MAX_CHOSEN], Schedule *schedule, bool alone) {
    SemaValue set[64 + MAX_CHOSEN];
    Schedule  given = runtime_schedule(rt, schedule);
    if (of.nset > 64) ice("%d values set", of.nset);
    if (of.nset) memcpy(set, of.set, sizeof *set * (size_t)of.nset);
    int n = values_set(rt, of, set + of.nset);
    if (runtime_options(rt)->defaults) {
        *schedule = given;
        memcpy(chosen, set + of.nset, sizeof *set * (size_t)n);
        return n;
    }
    const Decision *d = decision(rt, (InstanceOf){of.file, of.item, set, of.nset + n, of.known, of.nknown}, &given, alone);
    if (!d) return -1;
    *schedule = d->schedule;
    memcpy(chosen, set + of.nset, sizeof *set * (size_t)n);
    for (int i = 0; i < d->nchosen && n < MAX_CHOSEN; i++) chosen[n++] = d->chosen[i];
    return n;
}

int graph_choose(void *rt, InstanceOf of, SemaValue chosen[MAX_CHOSEN], Schedule *schedule) {
    return choose(rt, of, chosen, schedule, false);
}

// A dimension that stands alone in the type of a tensor that is given.
static bool argument_says(const Node *kernel, const char *name) {
    const Node *params = kernel->kid[1];
    for (uint32_t p = 0; params && p < params->nkid; p++) {
        const Node *type = params->kid[p]->kid[0];
        if (!type || type->kind != N_type_tensor || params->kid[p]->flags & PARAM_OUT) continue;
        for (uint32_t d = 1; d < type->nkid; d++)
            if (type->kid[d] && type->kid[d]->kind == N_name && same_name(type->kid[d]->sym->s, name)) return true;
    }
    return false;
}

// From what arguments say, as infer_values does for `tkc run`, not from what equations add.
int alone_choose(void *rt, InstanceOf of, SemaValue chosen[MAX_CHOSEN], Schedule *schedule) {
    SemaValue known[2 * MAX_DIMS + 16];
    int n = 0;
    for (int i = 0; i < of.nknown && n < (int)(sizeof known / sizeof *known); i++)
        if (of.known[i].is_type || argument_says(of.item, of.known[i].name)) known[n++] = of.known[i];
    of.known = known;
    of.nknown = n;
    return choose(rt, of, chosen, schedule, true);
}

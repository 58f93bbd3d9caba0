// The choices of a graph's launches: what is decided for each kernel and its dimensions, kept.
//
// Where many sizes come up, each kernel decides for so many of them and then takes what it decided for the nearest.

#include "runtime/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DECISIONS = 48 };             // for a kernel with one set of values

typedef struct Decision {
    struct Decision *next;
    const Node *kernel;
    SemaValue  *set, *known;             // of the session, as are their names
    int         nset, nknown;
    Schedule    given, schedule;
    SemaValue   chosen[MAX_CHOSEN];
    int         nchosen;
} Decision;

struct GraphChoices { Decision *first; };

void graph_choices_free(GraphChoices *c)
{
    if (!c) return;
    for (Decision *d = c->first, *next; d; d = next) {
        next = d->next;
        free(d->set);
        free(d->known);
        free(d);
    }
    free(c);
}

static bool same_value(const SemaValue *a, const SemaValue *b)
{
    return strcmp(a->name, b->name) == 0 && a->is_type == b->is_type && a->ival == b->ival && a->elem == b->elem && a->value == b->value;
}

// How far apart two sizes are: 0, the same; INFINITY, another kernel or other types.
static double distance(const Decision *d, const Node *kernel, const SemaValue *set, int nset, const SemaValue *known, int nknown, const Schedule *given)
{
    double sum = 0;
    bool same = d->kernel == kernel && d->nset == nset && d->nknown == nknown && memcmp(&d->given, given, sizeof *given) == 0;
    for (int i = 0; same && i < nset; i++) same = same_value(&d->set[i], &set[i]);
    for (int i = 0; same && i < nknown; i++) {
        same = strcmp(d->known[i].name, known[i].name) == 0 && d->known[i].is_type == known[i].is_type && d->known[i].elem == known[i].elem;
        sum += fabs(log2((double)d->known[i].ival + 1) - log2((double)known[i].ival + 1));
    }
    return same ? sum : INFINITY;
}

static SemaValue *copied(const SemaValue *v, int n)
{
    SemaValue *c = checked_alloc(sizeof *c * (size_t)(n + 1));
    if (n) memcpy(c, v, sizeof *c * (size_t)n);
    return c;
}

static Decision *decide(Runtime *rt, SemaFile *f, const Node *kernel, const SemaValue *set, int nset, const SemaValue *known, int nknown, const Schedule *given)
{
    CompileOptions opt = runtime_options(rt)->compile;
    Choice choice;
    opt.schedule = runtime_schedule(rt, given);
    if (!runtime_choose(rt, f, kernel, set, nset, known, nknown, &opt, &choice)) return NULL;
    Decision *d = checked_alloc(sizeof *d);
    *d = (Decision){.kernel = kernel, .set = copied(set, nset), .nset = nset, .known = copied(known, nknown), .nknown = nknown, .given = *given, .schedule = choice.schedule};
    for (int i = 0; i < choice.kernel->nbindings && d->nchosen < MAX_CHOSEN; i++) {
        const TBinding *b = &choice.kernel->bindings[i];
        if (b->origin == 'c') d->chosen[d->nchosen++] = (SemaValue){.name = b->name->s, .ival = b->ival, .chosen = true};
    }
    return d;
}

int graph_choose(void *ctx, SemaFile *f, const Node *kernel, const SemaValue *set, int nset, const SemaValue *known, int nknown,
                 SemaValue chosen[MAX_CHOSEN], Schedule *schedule)
{
    Runtime       *rt = ctx;
    GraphChoices **all = runtime_choices(rt);
    Decision      *near = NULL;
    double         least = INFINITY;
    int            decisions = 0;
    if (!*all) *all = checked_alloc(sizeof **all);
    for (Decision *d = (*all)->first; d; d = d->next) {
        double far = distance(d, kernel, set, nset, known, nknown, schedule);
        decisions += far < INFINITY;
        if (far < least) { least = far; near = d; }
    }
    if (!near || (least > 0 && decisions < MAX_DECISIONS)) {
        near = decide(rt, f, kernel, set, nset, known, nknown, schedule);
        if (!near) return -1;
        near->next = (*all)->first;
        (*all)->first = near;
    }
    memcpy(chosen, near->chosen, sizeof near->chosen);
    *schedule = near->schedule;
    return near->nchosen;
}

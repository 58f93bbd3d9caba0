// Which launches of a plan must wait for which: those that touch the same bytes, unless both only read them.
//
//     a -> h1      b -> h2      c h1 h2 -> y          a and b may run at once, c waits for both
//
// Values that share bytes of the arena at different times order launches just as values that are passed on do, so
// memory, shared scratch memory too, is all that has to be looked at. An edge that others imply is left out. Beyond
// MANY launches, one simply follows the other.

#include "runtime/graph.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 4096 };

typedef struct Range { uint64_t at, end; bool written; } Range;
typedef struct Touched { Range range[MAX_PARAMS + SCRATCH_KINDS]; int n; } Touched;

static void touched(const PlanLaunch *l, Touched *t) {
    const LaunchInfo *info = l->info;
    t->n = 0;
    for (int p = 0; p < info->nparams; p++) {
        uint64_t bytes = (uint64_t)elem_bytes(l->args[p].elem);
        if (info->params[p].kind == PK_SCALAR) continue;
        for (int d = 0; d < l->args[p].rank; d++) bytes *= (uint64_t)l->args[p].dim[d];
        if (bytes)
            t->range[t->n++] = (Range){l->args[p].address, l->args[p].address + bytes, param_written(&info->params[p])};
    }
    uint64_t own[SCRATCH_KINDS];
    bind_scratch(l->bound, own);
    for (int k = 0; k < SCRATCH_KINDS; k++)
        if (own[k]) t->range[t->n++] = (Range){l->bound->scratch[k], l->bound->scratch[k] + own[k], true};
}

// By values: those of the arena lie where they lie in all plans of this layout, with all their room; each other one is
// apart from the rest.
static void touched_alike(const Plan *p, const PlanLaunch *l, Touched *t) {
    enum { APART = 44 };
    uint64_t own[SCRATCH_KINDS];
    t->n = 0;
    for (int k = 0; k < l->launch->kernel->nparams; k++) {
        if (l->launch->args[k].tensor < 0) continue;
        int root = plan_root(p->graph, l->launch->args[k].tensor);
        const ArenaItem *item = p->item[root] >= 0 ? &p->items[p->item[root]] : NULL;
        uint64_t at = item ? item->offset : (uint64_t)(root + 1) << APART, bytes = item ? item->bytes : 1;
        if (bytes) t->range[t->n++] = (Range){at, at + bytes, param_written(&l->info->params[k])};
    }
    bind_scratch(l->bound, own);
    for (int k = 0; k < SCRATCH_KINDS; k++)
        if (own[k]) t->range[t->n++] = (Range){UINT64_MAX - 1 - (uint64_t)k, UINT64_MAX - (uint64_t)k, true};
}

static bool conflict(const Touched *a, const Touched *b) {
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++) {
            const Range *x = &a->range[i], *y = &b->range[j];
            if ((x->written || y->written) && x->at < y->end && y->at < x->end) return true;
        }
    return false;
}

int plan_order(const Plan *p, const int *launch, int n, bool alike, int **after, int *nafter) {
    int      total = 0;
    size_t   words = ((size_t)n + 63) / 64;
    Touched *t = heap_alloc(sizeof *t * (size_t)(n + 1));
    // bit j of row i: j comes before i
    uint64_t *before = n > MANY ? NULL : heap_alloc(sizeof *before * words * (size_t)(n + 1));
    for (int i = 0; i < n; i++) {
        uint64_t *row = before ? before + words * (size_t)i : NULL;
        if (alike) touched_alike(p, p->launch[launch[i]], &t[i]);
        else touched(p->launch[launch[i]], &t[i]);
        after[i] = heap_alloc(sizeof **after * (size_t)(i + 1));
        nafter[i] = 0;
        if (!before && i) after[i][nafter[i]++] = i - 1;
        for (int j = i - 1; before && j >= 0; j--) {
            if (row[j / 64] >> (j % 64) & 1 || !conflict(&t[i], &t[j])) continue;
            after[i][nafter[i]++] = j;
            row[j / 64] |= UINT64_C(1) << (j % 64);
            for (size_t w = 0; w < words; w++) row[w] |= before[words * (size_t)j + w];
        }
        total += nafter[i];
    }
    heap_free(before);
    heap_free(t);
    return total;
}

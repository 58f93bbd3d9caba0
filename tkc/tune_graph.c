// What a graph launches, for `tkc tune`: each kernel at the dimensions at which the graph has it, once.
//
// The graph is elaborated for numbers, and whoever decides what a launch leaves open (sema/graph.h) writes down what he is asked about and decides nothing.
#include <string.h>

#include "runtime/tk_run.h"
#include "sema/graph.h"
#include "tkc/compile.h"
#include "tkc/values.h"

typedef struct Asked { Arena *arena; InstanceOf *at; int n, max; const Node *function; } Asked;

static bool same_values(const SemaValue *a, int n, const SemaValue *b, int m) {
    bool same = n == m;
    for (int i = 0; same && i < n; i++)
        same = strcmp(a[i].name, b[i].name) == 0 && a[i].is_type == b[i].is_type && a[i].elem == b[i].elem && a[i].ival == b[i].ival && sema_same_function(&a[i], &b[i]);
    return same;
}

static SemaValue *copied(Arena *arena, const SemaValue *v, int n) {
    SemaValue *own = NEW_N(arena, SemaValue, n + 1);
    if (n > 0) memcpy(own, v, sizeof *own * (size_t)n);
    return own;
}

static int write_down(void *ctx, InstanceOf of, SemaValue chosen[MAX_CHOSEN], Schedule *schedule) {
    Asked *a = ctx;
    bool known = false, function = false;
    (void)chosen, (void)schedule;
    for (int i = 0; i < of.nset; i++) function |= of.set[i].value != NULL;            // lives as long as the elaboration
    for (int i = 0; i < a->n && !known; i++)
        known = a->at[i].item == of.item && same_values(a->at[i].set, a->at[i].nset, of.set, of.nset) && same_values(a->at[i].known, a->at[i].nknown, of.known, of.nknown);
    if (function) a->function = of.item;
    if (known || function || a->n == a->max) return 0;
    a->at[a->n++] = (InstanceOf){of.file, of.item, copied(a->arena, of.set, of.nset), of.nset, copied(a->arena, of.known, of.nknown), of.nknown};
    return 0;
}

int graph_asks(Session *s, SemaFile *file, const Node *graph, const CompileOptions *compile, const Values *all, InstanceOf *out, int n, int max, Buf *err) {
    Values set, dims;
    Buf plan = {0};
    Asked asked = {.arena = session_arena(s), .at = out, .n = n, .max = max};
    Device *host = device_open("eval", NULL, err);
    if (host == NULL) return -1;
    values_for(all, graph, &set, &dims);
    Runtime *rt = runtime_new(s, host, &(RuntimeOptions){.compile = *compile});
    GraphExec *x = graph_open(rt, (InstanceOf){.file = file, .item = graph, .set = set.at, .nset = set.n});
    if (x != NULL) sema_chooser(file, write_down, &asked);
    bool fine = x != NULL && graph_print_plan(x, dims.at, dims.n, &plan, err);
    sema_chooser(file, NULL, NULL);
    sema_weights(file, NULL, NULL);
    graph_close(x);
    runtime_free(rt);
    device_close(host);
    buf_free(&plan);
    if (fine && asked.function != NULL) fail("`%s` takes a function that the graph makes, and is not measured: tune it by its name", asked.function->sym->s);
    return fine ? asked.n : -1;
}

// The driver of the passes over a graph: the table, and what happens after each (graph_passes.h).
//
// Rewrites run from here, in the order of their rows. `narrow`, `split_norms` and `fuse` are run by whoever
// asks for 16-bit floats or for a program, since they take arguments and have results; they report here when
// they have run.
#include "graph/rewrite/rewrite.h"

#include "graph/stages.h"
#include "lang/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// clang-format off
static const struct { GraphPassInfo info; void (*rewrite)(Graph *); } passes[] = {
    {{"import", "import", "the model's nodes as views, products and elementwise values", true}, NULL},
#define X(name, phase, required, meaning) {{#name, #phase, meaning, required}, name},
    GRAPH_REWRITES(X)
#undef X
    {{"narrow",      "types", "rounds products' operands and stored values to 16-bit floats (--dtype)",        true},  NULL},
    {{"split_norms", "types", "computes a norm between two products in the epilogue of one and the loads of the other", false}, NULL},
    {{"fuse",        "fuse",  "decides which values share a kernel, and which are stored",                     true},  NULL},
};
// clang-format on

enum { PASSES = sizeof passes / sizeof *passes, FIRST_REWRITE = 1 };
const int graph_pass_count = PASSES;
const GraphPassInfo *graph_pass_info(int i) { return &passes[i].info; }
bool graph_pass_rewrites(int i) { return passes[i].rewrite != NULL; }

int graph_pass_find(const char *name) {
    for (int i = 0; i < PASSES; i++)
        if (strcmp(passes[i].info.name, name) == 0) return i;
    return -1;
}

void graph_set_passes(Graph *g, GraphPasses *how) {
    g->tables->passes = how;
    g->tables->number = ++how->graphs;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->kind == G_steps) graph_set_passes(g->nodes.at[i]->steps.body, how);
}

bool graph_passes_ended(const Graph *g) { return g->tables->ended; }

// ---- after a pass --------------------------------------------------------------------------------

double graph_pass_started(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// A model's name may hold anything; a file's holds letters, digits, dots, dashes and underscores here.
static void put_name(Buf *to, const char *name) {
    int n = 0;
    for (; *name && n < 100; name++, n++) {
        bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                     (*name >= '0' && *name <= '9') || *name == '-' || (*name == '.' && n > 0);
        buf_putc(to, plain ? *name : '_');
    }
    if (n == 0) buf_puts(to, "model");
}

static void dump(Graph *g, const GraphPasses *how, int pass, const Buf *given) {
    Buf path = {0}, text = {0};
    buf_printf(&path, "%s/", how->dump_dir);
    put_name(&path, g->name);
    if (g->tables->number > 1) buf_printf(&path, ".%d", g->tables->number);
    buf_printf(&path, ".%02d-%s.graph", pass, passes[pass].info.name);
    if (!given) graph_print(&text, g);
    const Buf *is = given ? given : &text;
    if (!file_replace(path.p, &(FilePart){is->p ? is->p : "", is->n}, 1))
        g_error(g, "%s: %s", path.p, strerror(errno));
    buf_free(&text);
    buf_free(&path);
}

void graph_pass_ended(Graph *g, const char *name, double started, const Buf *text) {
    GraphPasses *how = g->tables->passes;
    int pass = graph_pass_find(name);
    if (!how || g_failed(g)) return;
    if (how->ms) how->ms[pass] += graph_pass_started() - started;
    if (how->verify) {
        Buf broken = {0};
        if (graph_verify(g, &broken) > 0) {
            fputs(broken.p, stderr);
            ice("the graph of `%s` is broken after the pass `%s`", g->name, name);
        }
        buf_free(&broken);
    }
    if (how->dump_dir) dump(g, how, pass, text);
    g->tables->ended |= how->after && strcmp(how->after, name) == 0;
}

// ---- the rewrites --------------------------------------------------------------------------------

void graph_simplify(Graph *g) {
    if (g->tables->simplified) return;
    g->tables->simplified = true;
    int optional = g->tables->unoptimised ? 0 : g->tables->rewrites ? g->tables->rewrites - 1 : PASSES;
    graph_pass_ended(g, passes[0].info.name, graph_pass_started(), NULL);
    for (int i = FIRST_REWRITE; i < PASSES && !g_failed(g) && !g->tables->ended; i++) {
        double started = graph_pass_started();
        if (!passes[i].rewrite || (!passes[i].info.required && i - FIRST_REWRITE >= optional)) continue;
        passes[i].rewrite(g);
        graph_pass_ended(g, passes[i].info.name, started, NULL);
    }
}

bool graph_print_after(Graph *g, Buf *to, Buf *err) {
    const GStages *s = graph_stages(g);
    for (int i = 1; i <= (s ? s->nstages : 1); i++) {
        Graph *one = s ? s->stage[i].graph : g;
        graph_simplify(one);
        const char *after = one->tables->passes->after;
        if (g_failed(one)) buf_puts(err, g_failed(one));
        else if (!one->tables->ended)
            buf_printf(err, "--after=%s: of this model the pass does not run: --dtype and --opt decide",
                       after);
        if (err->n) return false;
        graph_print(to, one);
    }
    return true;
}

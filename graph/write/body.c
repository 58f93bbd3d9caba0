// The steps of a loop: launches of the body's kernels, in a `for` of the graph item.
//
//     var next = h0;
//     var y = empty<f32>(T, B, 8);
//     for t in 0 .. T {
//         let next2, y2 = rnn(x, next, y, t as i32);
//         next = next2;
//         y = y2;
//     }
//
// What goes from step to step has a name that is given to another value in each; of the results that have a row for each step there is one value, that
// each step stores its row into. What is made of weights alone stands before the loop. The body is another graph than that around it: while it is
// written, the writer is its.
#include "graph/write/program.h"

#include <string.h>

static void line(Writer *w, const char *text) {
    buf_printf(&w->body, "%*s", w->indent, "");
    w_line(&w->body, text, strlen(text), w->indent + 4);
    buf_putc(&w->body, '\n');
}

static char *value_text(Writer *w, const Node *n, int rank, const Ix *shape) {
    Buf b = {0};
    char *text = w_value(w, &b, n, rank, shape, NULL, 0) ? arena_printf(w->g->arena, "%s", b.p) : NULL;
    buf_free(&b);
    return text;
}

static bool is_name(const char *text) {
    while (g_in_name(*text)) text++;
    return !*text;
}

// What the body's input i is called in it. NULL: it cannot be had.
static const char *given(Writer *w, const Node *steps, uint32_t i) {
    const Node *x = steps->src[i], *in = steps->steps.body->inputs.at[i].node;
    bool carried = (int)i < steps->steps.body->step.ncarried;
    const char *text = value_text(w, x, x->rank, x->shape);
    if (!text || (!carried && is_name(text))) return text;
    const char *name = k_name(w->scope, g_identifier(w->g->arena, in->name, "x"));
    line(w, arena_printf(w->g->arena, "%s %s = %s;", carried ? "var" : "let", name, text));
    return name;
}

static const char *room(Writer *w, const GType *type, const char *like) {
    Buf dims = {0};
    const char *name = k_name(w->scope, g_identifier(w->g->arena, like, "rows"));
    for (int d = 0; d < type->rank; d++) {
        buf_puts(&dims, d ? ", " : "");
        k_ix(w->scope, &dims, type->shape[d]);
    }
    line(w, arena_printf(w->g->arena, "var %s = empty<%s>(%s);", name, elem_name(type->elem), dims.p));
    buf_free(&dims);
    return name;
}

// The node of the model that a result is.
static Node *result_of(const FGroup *f, int i) {
    for (uint32_t k = 0; k < f->makes.n; k++)
        if (f->makes.at[k]->kind == G_proj && (int)f->makes.at[k]->proj.result == i) return f->makes.at[k];
    return NULL;
}

static bool launches(Writer *w, bool once) {
    bool ok = true;
    for (uint32_t i = 0; i < w->f->groups.n && ok; i++)
        if (w->f->groups.at[i]->once == once) ok = w_launch(w, (int)i);
    return ok;
}

// Values of the steps get the names that go on. One that is another's name is taken before that changes.
static bool go_on(Writer *w, const Value *name) {
    const Graph *g = w->g;
    const char **text = NEW_N(g->arena, const char *, g->outputs.n + 1);
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        const Node *n = (int)i < g->step.ncarried ? g->outputs.at[i].node : g->step.whole[i];
        if (!(text[i] = value_text(w, n, name[i].rank, name[i].shape))) return false;
        if (n->kind != G_input || strcmp(text[i], name[i].name) == 0) continue;
        const char *before = k_name(w->scope, name[i].name);
        line(w, arena_printf(w->g->arena, "let %s = %s;", before, text[i]));
        text[i] = before;
    }
    for (uint32_t i = 0; i < g->outputs.n; i++)
        if (strcmp(text[i], name[i].name) != 0) line(w, arena_printf(w->g->arena, "%s = %s;", name[i].name, text[i]));
    return true;
}

static bool body(Writer *w, const FGroup *f, const Value *name) {
    Graph *g = w->g;
    bool ok = launches(w, true);
    Buf count = {0};
    k_ix(w->scope, &count, g->step.count);
    w_comment(&w->body, w_nodes(w, f), w->indent);
    line(w, arena_printf(w->g->arena, "for %s in 0 .. %s {", g_dim_word(g, g->step.number), count.p));
    buf_free(&count);
    w->indent += 4;
    ok = ok && launches(w, false) && go_on(w, name);
    w->indent -= 4;
    line(w, "}");
    return ok;
}

bool w_steps(Writer *w, const FGroup *f) {
    const Node *n = f->anchor;
    Graph *g = n->steps.body, *around = w->g;
    const Fusion *fusion = w->f;
    const char **result = w->result;
    Value *name = NEW_N(around->arena, Value, n->steps.nresults + 1);    // by result: what goes on
    Value *value = NEW_N(g->arena, Value, g->nodes.n), *outer = w->value;
    bool ok = true;
    for (uint32_t i = 0; i < n->nsrc && ok; i++) {
        const Node *in = g->inputs.at[i].node;
        const char *given_as = given(w, n, i);
        value[in->id] = (Value){given_as, in->rank, in->shape};
        if ((int)i < g->step.ncarried) name[i] = value[in->id];
        ok = given_as != NULL;
    }
    for (int i = g->step.ncarried; i < n->steps.nresults && ok; i++) {
        const Node *of = g->step.whole[i], *as = result_of(f, i);
        int rank = n->steps.result[i].rank, ones = of->rank - rank;        // that a copied row has in front (fuse/step.c)
        Ix *shape = NEW_N(g->arena, Ix, rank + 1);
        for (int d = 0; d < rank; d++) shape[d] = of->shape[d ? d + ones : 0];
        name[i] = value[of->id] = (Value){room(w, &n->steps.result[i], as && as->name ? as->name : "rows"), rank, shape};
    }
    if (ok) {
        w->g = w->scope->g = g, w->f = f->step, w->value = value, w->result = NULL;
        ok = body(w, f, name);
        if (g_failed(g)) g_error(around, "%s", g_failed(g));
        w->g = w->scope->g = around, w->f = fusion, w->value = outer, w->result = result;
    }
    for (int i = 0; i < n->steps.nresults; i++) {
        const Node *of = result_of(f, i);
        if (of) w->value[of->id] = (Value){name[i].name, of->rank, of->shape};
    }
    return ok;
}

void w_reserve_numbers(Writer *w, const Fusion *f) {
    for (uint32_t i = 0; i < f->groups.n; i++) {
        const FGroup *a = f->groups.at[i];
        if (a->kind != F_STEPS) continue;
        Graph *g = a->anchor->steps.body;
        for (int64_t d = 0; d < g->step.number->value; d++) g->tables->dims.at[d].word = g_dim_word(w->g, ix_dim_at(w->g, (int)d));
        vec_push(w->g->arena, &w->scope->names, g_dim_word(g, g->step.number));
        w_reserve_numbers(w, a->step);
    }
}

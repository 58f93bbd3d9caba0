// The rows that a step of a loop gives: each is stored in its place among those of all steps, by the kernel that makes it.
//
//     h' = tanh(X[t] + h . U)       h2, y2 = rnn(X, h, y, t)      y[t, m, n] = v;  h2[m, n] = v
//
// What the next step goes on with, or another kernel of this one, is stored by itself, too: nobody reads a row.
#include "graph/fuse/internal.h"

// Does a kernel store it by itself, at places that are those of its own axes?
static bool stored_by_itself(const Node *n) {
    bool kind = n->kind == G_ew || n->kind == G_cast || n->kind == G_reduce || n->kind == G_contract || n->kind == G_view || n->kind == G_gather ||
                n->kind == G_concat || n->kind == G_index;
    return kind && !graph_loaded(n);
}

static bool is_row(const Graph *g, const Node *n, uint32_t before) {
    for (uint32_t i = (uint32_t)g->step.ncarried; i < before; i++)
        if (g->outputs.at[i].node == n) return true;
    return false;
}

// What is none, or another row already, is copied: the same with one more axis.
void fuse_own_rows(Graph *g) {
    if (!g->step.number) return;
    g->step.whole = NEW_N(g->arena, Node *, g->outputs.n + 1);
    for (uint32_t i = (uint32_t)g->step.ncarried; i < g->outputs.n; i++) {
        Node *row = g->outputs.at[i].node;
        Ix shape[G_MAX_RANK] = {g->step.count};
        while (row && (!stored_by_itself(row) || is_row(g, row, i))) row = g_unsqueeze(g, row, 1);
        if (row && row->rank == G_MAX_RANK) row = g_error(g, "a row of a loop's result has %d dimensions", row->rank);
        if (!row) return;
        for (int d = 0; d < row->rank; d++) shape[d + 1] = row->shape[d];
        g->outputs.at[i].node = row;
        g->step.whole[i] = g_param(g, "rows", (Elem)row->elem, row->rank + 1, shape);
    }
}

void fuse_rows(State *s) {
    const Graph *g = s->g;
    for (uint32_t i = g->step.number ? (uint32_t)g->step.ncarried : g->outputs.n; i < g->outputs.n; i++) {
        const Node *row = g->outputs.at[i].node;
        s->f->row[row->id] = (FRow){g->step.whole[i], g->step.number, false};
    }
}

void fuse_rows_alone(State *s) {
    const Graph *g = s->g;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        FRow *row = &s->f->row[i];
        const struct Places *p = &s->places[i];
        row->alone = row->of != NULL;
        for (uint32_t k = 0; k < p->at.n && row->alone; k++) row->alone = p->at.at[k].group == s->f->maker[i];
        for (int k = 0; k < g->step.ncarried && row->alone; k++) row->alone = g->outputs.at[k].node->id != i;
    }
}

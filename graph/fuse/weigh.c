// What each value is, before anything is decided, from sources to users: operations to compute an element from what will be in memory, and whether there
// is a function, a reduction or product, a gather below it; whether it is made of constants alone.
#include "graph/fuse/internal.h"

// A field of a byte, and such a number less another: two at a time they cost next to nothing where they are made floats
// (lower/llvm/packed16.c).
bool fuse_unpacks(const Node *n) {
    if (n->kind != G_ew) return false;
    const Node *x = n->src[0];
    if (n->elem == EL_u8) return n->op == EW_shr || n->op == EW_and;
    return n->op == EW_sub && n->elem == EL_i32 && x->kind == G_cast && x->src[0]->elem == EL_u8;
}

void fuse_count_users(State *s) {
    bool *alive = NEW_N(s->g->arena, bool, s->g->nodes.n);
    s->users = NEW_N(s->g->arena, int, s->g->nodes.n);
    for (uint32_t i = s->g->nodes.n; i-- > 0;) {
        const Node *n = s->g->nodes.at[i];
        alive[i] |= s->needed[i];
        for (uint32_t k = 0; k < n->nsrc && alive[i]; k++) {
            alive[n->src[k]->id] = true;
            s->users[n->src[k]->id]++;
        }
    }
    s->epilogue = graph_epilogues(s->g, alive);
}

void fuse_weigh(State *s) {
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        const Node *n = s->g->nodes.at[i];
        bool anchor = n->kind == G_reduce || n->kind == G_contract || n->kind == G_scan || n->kind == G_sort ||
                      n->kind == G_scatter || n->kind == G_steps;
        int w = n->kind == G_ew       ? (g_is_function((GEw)n->op) || n->op == EW_pow ? 4
                                         : fuse_unpacks(n)                                  ? 0
                                                                                       : 1)
                : n->kind == G_concat ? (int)n->nsrc
                                      : 0;
        bool free_source = n->kind == G_scan || n->kind == G_sort || n->kind == G_scatter || n->kind == G_steps;
        s->constant[i] = n->kind == G_const || (n->nsrc > 0 && n->kind != G_host && n->kind != G_steps);
        for (uint32_t k = 0; k < n->nsrc; k++) s->constant[i] &= s->constant[n->src[k]->id];
        for (uint32_t k = 0; k < n->nsrc && !free_source; k++) {
            uint32_t from = n->src[k]->id;
            bool once = n->src[k]->rank == 0 && n->rank > 0;                     // one number is computed once for all elements
            w += once || (s->deep[from] && s->users[from] > 2) ? 0 : s->weight[from];      // .. or will be stored
            s->heavy[i] |= s->heavy[n->src[k]->id];
            s->deep[i] |= s->deep[n->src[k]->id];
            s->reduces[i] |= s->reduces[from] && (s->constant[i] || !s->constant[from]);      // of weights: made once
            s->gathers[i] |= s->gathers[n->src[k]->id];
        }
        s->numbers[i] = n->kind == G_reduce && (n->reduce.tile || s->numbers[n->src[0]->id]);
        if (n->kind == G_ew || n->kind == G_cast || n->kind == G_view) {
            bool all = true;
            for (uint32_t k = 0; k < n->nsrc; k++) s->numbers[i] |= s->numbers[n->src[k]->id], all &= s->numbers[n->src[k]->id] || s->constant[n->src[k]->id];
            s->numbers[i] &= all;
        }
        s->gathers[i] = !anchor && !fuse_is_kept(n) &&
                        (s->gathers[i] || (n->kind == G_gather && n->nsrc > 1 && elem_is_float((Elem)n->elem)));
        s->reduces[i] = n->kind == G_reduce || (!anchor && s->reduces[i]);
        s->fixed[i] = n->kind == G_const || (n->nsrc > 0 && n->kind != G_host && n->kind != G_steps) ||
                      (n->kind == G_index && !n->index.expr->has_dim);
        for (uint32_t k = 0; k < n->nsrc; k++) s->fixed[i] &= s->fixed[n->src[k]->id];
        for (int d = 0; d < n->rank; d++) s->fixed[i] &= n->kind == G_const || ix_is_const(n->shape[d]);
        if (n->kind == G_contract && s->constant[n->src[1]->id]) s->weights_of[n->src[1]->id] = n;
        if (fuse_is_kept(n) || s->numbers[i]) {                                    // in memory, or of a row's few numbers: nothing is below
            s->heavy[i] = s->deep[i] = s->reduces[i] = false;
            continue;
        }
        s->deep[i] = !anchor && (s->deep[i] || (n->kind == G_ew && (g_is_function((GEw)n->op) || n->op == EW_pow)));
        s->heavy[i] = n->kind == G_contract || (n->kind == G_reduce ? !graph_longer_than_kept(n) : s->heavy[i]);
        s->weight[i] = anchor ? 0 : w > 1000 ? 1000 : w;
    }
}

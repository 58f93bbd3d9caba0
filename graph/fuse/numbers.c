// Numbers of a product's rows, by its kernel.
//
//     x[m, n] = product + residual        sums[m, p] = sum of x[m, n] over the columns n of tile p              (rewrite/split_norms.c)
//
// What is reduced over one tile of a product's columns is a few numbers for each of its rows, which the block that makes the tile has in registers. Fusion goes from users
// to sources, so such reductions have a group of their own first, that reads x; if x is the root of a product's group whose columns are the product's, this group becomes part
// of that one, whose tiles are then as wide. Nobody waits for anything that it did not wait for: who reads the numbers reads them after x.
#include "graph/fuse/internal.h"

// What a group of such numbers is of; NULL: it makes something else, too, or of several values.
static const Node *tiles_of(const State *s, const FGroup *f) {
    const Node *x = NULL;
    if (f->kind != F_ROWS || f->beside.n || f->as || f->reads.n != 1) return NULL;
    for (uint32_t i = 0; i < f->makes.n; i++) {
        const Node *n = f->makes.at[i];
        if (n->kind != G_reduce || !n->reduce.tile || s->result[n->id]) return NULL;
    }
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        const Node *n = f->nodes.at[i];
        for (uint32_t k = 0; k < n->nsrc; k++) {
            const Node *from = n->src[k];
            bool made = s->f->maker[from->id] >= 0 && fuse_group_at(s, s->f->maker[from->id]) != f;
            if (made && x && x != from) return NULL;
            if (made) x = from;
        }
    }
    return x;
}

static bool has_tiles(Graph *g, const FGroup *f, const Node *x, int64_t width) {
    const Node *c = f->anchor;
    if (f->kind != F_PRODUCT || f->root != x || f->as || f->attends || f->whole || f->more.n || f->parts >= 0 || f->numbers.n || c->contract.nn != 1 || g_is_depthwise(g, c)) return false;
    int last = x->rank - 1;
    return f->place[c->rank - 1] == ix_axis(g, last, x->shape[last]) && c->shape[c->rank - 1] == x->shape[last] && ix_is_const(x->shape[last]) && x->shape[last]->value % width == 0;
}

static void replace_reads(State *s, int old, int with) {
    for (uint32_t i = 0; i < s->f->groups.n; i++) {
        FGroup *f = fuse_group_at(s, (int)i);
        bool has = (int)i == with;
        for (uint32_t k = 0; k < f->reads.n; k++) has |= f->reads.at[k] == with;
        for (uint32_t k = 0; k < f->reads.n; k++) {
            if (f->reads.at[k] != old) continue;
            if (has) f->reads.at[k--] = f->reads.at[--f->reads.n];
            else f->reads.at[k] = with, has = true;
        }
    }
}

void fuse_numbers(State *s) {
    for (uint32_t i = 0; i < s->f->groups.n; i++) {
        FGroup *f = fuse_group_at(s, (int)i);
        const Node *x = tiles_of(s, f);
        if (!x) continue;
        FGroup *of = fuse_group_at(s, s->f->maker[x->id]);
        const Node *from = f->root->src[0];
        int64_t width = from->shape[from->rank - 1]->value;
        if (!has_tiles(s->g, of, x, width)) continue;
        of->width = width;
        for (uint32_t k = 0; k < f->makes.n; k++) {
            Node *n = f->makes.at[k];
            s->f->maker[n->id] = s->f->maker[x->id];
            vec_push(s->g->arena, &of->numbers, n);
            vec_push(s->g->arena, &of->makes, n);
        }
        for (uint32_t k = 0; k < f->nodes.n; k++) vec_push(s->g->arena, &of->nodes, f->nodes.at[k]);
        replace_reads(s, (int)i, s->f->maker[x->id]);
        f->gone = true;
    }
}

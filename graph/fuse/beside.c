// Values that one kernel makes side by side, though none needs the other: of one shape, and made of the same values.
//
//     c = cos(angle)                               y[m, n] = cos(angle[m, n]);
//     s = sin(angle)                  one kernel   z[m, n] = sin(angle[m, n]);
//
//     keys   = scatter(cache_k, at, qkv[.., 32..]) one kernel, two caches: a launch less in each layer of a decoder's step
//     values = scatter(cache_v, at, qkv[.., 40..])
//
// What both read is read once, and where a launch takes longer than what it does there is one launch less. Neither may be held up: what
// is costly to make (a product, a reduction) and read by one of them alone would join it, as an epilogue does, and so they stay apart; and
// those that read it in another order than it lies in are few enough for that not to matter.
#include "graph/fuse/internal.h"

#include <math.h>

enum { MOST_SEEN = 64, MOST_BESIDE = 3, FEW = 1 << 16 };

// What a value is made of, through elements and movement: values that have a kernel of their own, or inputs.
typedef struct Leaves { const Node *at[MOST_SEEN], *seen[MOST_SEEN]; int n, nseen; bool moved, many; } Leaves;

static bool costly(const Node *n) { return n->kind != G_input; }

// Are elements in another order than what they come from? Axes of 1, and what is the same along an axis, are not.
static bool turns(const Node *n) {
    int last = -1;
    if (n->kind != G_view || !ix_is(n->view.pred, 1)) return n->kind == G_view || n->kind == G_gather || n->kind == G_concat;
    for (int i = 0; i < n->src[0]->rank; i++) {
        Ix x = n->view.coord[i];
        if (x->kind == IX_CONST) continue;
        if (x->kind != IX_AXIS || x->value <= last) return true;
        last = (int)x->value;
    }
    return false;
}

static void find(const State *s, const Node *n, Leaves *l) {
    GNum literal;
    bool moves = n->kind == G_view || n->kind == G_gather || n->kind == G_concat;
    if (s->constant[n->id] || n->kind == G_index || g_scalar_value(n, &literal)) return;
    for (int i = 0; i < l->nseen; i++) if (l->seen[i] == n) return;
    l->many |= l->nseen == MOST_SEEN;
    if (l->many) return;
    l->seen[l->nseen++] = n;
    l->moved |= turns(n);
    if (moves || n->kind == G_ew || n->kind == G_cast) for (uint32_t i = 0; i < n->nsrc; i++) find(s, n->src[i], l);
    else l->at[l->n++] = n;
}

static bool has(const Leaves *l, const Node *n) {
    for (int i = 0; i < l->n; i++) if (l->at[i] == n) return true;
    return false;
}

static bool of_the_same(const Leaves *a, const Leaves *b) {
    int shared = 0;
    for (int i = 0; i < a->n; i++) {
        if (!has(b, a->at[i]) && costly(a->at[i])) return false;
        shared += has(b, a->at[i]);
    }
    for (int i = 0; i < b->n; i++) if (!has(a, b->at[i]) && costly(b->at[i])) return false;
    return shared > 0 && !a->many && !b->many;
}

static Leaves leaves_of(const State *s, const Node *n) {
    Leaves l = {0};
    for (uint32_t i = n->kind == G_scatter ? 1 : 0; i < n->nsrc; i++) find(s, n->src[i], &l);
    l.moved |= turns(n);
    return l;
}

static bool few(const Node *n) {
    double all = 1;
    for (int i = 0; i < n->rank; i++) all *= n->shape[i]->kind == IX_CONST ? (double)n->shape[i]->value : INFINITY;
    return all <= FEW;
}

// A scatter makes what it updates; a map its root.
static bool alike(const Node *a, const Node *b) {
    if (a->kind != G_scatter || b->kind != G_scatter) return a->kind != G_scatter && b->kind != G_scatter && g_same_shape(a, b);
    return a->op == GR_none && b->op == GR_none && a->src[0] != b->src[0] && g_same_shape(a->src[1], b->src[1]);
}

static bool element(const Node *n) { return n->kind == G_ew || n->kind == G_cast || n->kind == G_view || n->kind == G_gather || n->kind == G_scatter; }

int fuse_beside(State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    if (!element(n) || p->many || s->f->part[n->id].of || s->constant[n->id] || s->in_place[n->id] || fuse_is_weight(s, n)) return -1;
    const Leaves own = leaves_of(s, n);
    for (uint32_t i = s->f->groups.n; i-- > 0;) {
        const FGroup *f = fuse_group_at(s, (int)i);
        const Node *root = f->root;
        bool kind = f->kind == (n->kind == G_scatter ? F_SCATTER : F_MAP) && !f->as && !f->anchor && !fuse_makes_part(s, f) && f->makes.n == f->beside.n + 1;
        if (!kind || f->beside.n == MOST_BESIDE || !element(root) || !alike(n, root) || s->constant[root->id] || fuse_is_weight(s, root)) continue;
        const Leaves its = leaves_of(s, root);
        if (!of_the_same(&own, &its) || (n->kind != G_scatter && (own.moved || its.moved) && !few(n))) continue;
        bool apart = true;
        for (uint32_t k = 0; k < p->at.n && apart; k++) apart = !fuse_depends(s, (int)i, p->at.at[k].group, 0);
        for (uint32_t k = 0; k < f->beside.n && apart; k++) apart = alike(n, f->beside.at[k]);
        if (apart) return (int)i;
    }
    return -1;
}

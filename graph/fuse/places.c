// Groups, and the places at which they compute values: coordinates as index expressions of the group's axes.
//
//     y = softmax(x, rows)     group: root y[r, c]
//     exp                      at (r, c); at (r, k), as it is summed: k a fresh axis, beside the root's
//     x                        at (r, c), (r, k), (r, l), as its greatest is looked for
//
// A value that a group computes hands its own places on to what it is computed from: views and gathers by substitution, reductions and products with
// fresh axes for what they sum over. A place comes once; too many are not kept.
#include "graph/fuse/internal.h"

enum { MOST_PARTS = 4, MOST_PLACES = 1024 };

FGroup *fuse_group_at(const State *s, int i) { return s->f->groups.at[i]; }

bool fuse_depends(const State *s, int from, int on, int depth) {
    if (from == on) return true;
    if (depth > 10000) return true;
    const FGroup *a = fuse_group_at(s, from);
    for (uint32_t i = 0; i < a->reads.n; i++)
        if (fuse_depends(s, a->reads.at[i], on, depth + 1)) return true;
    return false;
}

void fuse_reads_add(State *s, int from, int on) {
    FGroup *a = fuse_group_at(s, from);
    if (from == on) return;
    for (uint32_t i = 0; i < a->reads.n; i++)
        if (a->reads.at[i] == on) return;
    vec_push(s->g->arena, &a->reads, on);
}

int fuse_root_axes(Graph *g, const FGroup *f, Ix *axis) {
    for (int i = 0; i < f->root->rank; i++) axis[i] = ix_axis(g, i, f->root->shape[i]);
    return f->root->rank;
}

void fuse_place_add(State *s, Node *n, int group, const Ix *coord) {
    struct Places *p = &s->places[n->id];
    GNum literal;
    bool here = false;
    for (uint32_t i = 0; i < p->at.n; i++) {
        bool same = p->at.at[i].group == group;
        here |= same;
        for (int k = 0; k < n->rank && same; k++) same = p->at.at[i].coord[k] == coord[k];
        if (same) return;
    }
    if (p->at.n >= MOST_PLACES) {
        p->many = true;
        return;
    }
    if (!here && !g_scalar_value(n, &literal)) s->open[group]++;
    vec_push(s->g->arena, &p->at, ((Place){group, copy_ixs(s->g, coord, n->rank)}));
}

static Ix fresh_axis(State *s, int group, int first, Ix extent) {
    int *next = &s->fresh[2 * group + (first == FIRST_VALUE)];
    int limit = first == FIRST_VALUE ? MAX_AXES : FIRST_VALUE;
    int number = *next < limit ? (*next)++ : limit - 1;
    return ix_axis(s->g, number, extent);
}

enum { HEAD = 256 };             // the longest head, and value, that a loop over keys keeps

bool fuse_short_enough(Ix e) { return e->kind == IX_CONST && e->value <= HEAD; }

static bool attends(State *s, const Node *n, const Ix *place, Attention *to) {
    Ix values = ix_product(s->g, n->shape + n->contract.nb + n->contract.nm, n->contract.nn);
    return values && fuse_short_enough(values) && attention_match(s->g, n, place, to);
}

// x, and what it is computed from up to a product, are the keys or values of an attention (in 16 bits the queries, too).
void fuse_mark_keys(State *s, const Node *x) {
    bool passes = x->kind == G_view || x->kind == G_cast || x->kind == G_ew || x->kind == G_gather;
    if (s->for_keys[x->id] || !elem_is_float((Elem)x->elem)) return;
    s->for_keys[x->id] = true;
    for (uint32_t i = 0; passes && i < x->nsrc; i++) fuse_mark_keys(s, x->src[i]);
}

// The places of n's sources, for n at one place of a group.
void fuse_push(State *s, const Node *n, int group, const Ix *coord) {
    Graph *g = s->g;
    Ix to[G_MAX_RANK];
    switch ((GKind)n->kind) {
    case G_view:
        for (int i = 0; i < n->src[0]->rank; i++) to[i] = ix_substitute(g, n->view.coord[i], coord, n->rank);
        fuse_place_add(s, n->src[0], group, to);
        break;
    case G_gather:
        for (uint32_t k = 1; k < n->nsrc; k++) fuse_place_add(s, n->src[k], group, coord);
        for (int i = 0; i < n->src[0]->rank; i++)
            to[i] = n->at.coord[i] ? ix_substitute(g, n->at.coord[i], coord, n->rank)
                                   : fresh_axis(s, group, FIRST_VALUE, n->src[0]->shape[i]);
        fuse_place_add(s, n->src[0], group, to);
        break;
    case G_reduce:
        for (int i = 0, kept = 0; i < n->src[0]->rank; i++)
            to[i] = n->reduce.axes >> i & 1 ? fresh_axis(s, group, FIRST_REDUCED, n->src[0]->shape[i]) : coord[kept++];
        fuse_place_add(s, n->src[0], group, to);
        break;
    case G_contract: {
        Ix k[G_MAX_RANK];
        int nb = n->contract.nb, nm = n->contract.nm, nn = n->contract.nn, nk = n->contract.nk;
        for (int i = 0; i < nk; i++) k[i] = fresh_axis(s, group, FIRST_REDUCED, n->src[0]->shape[nb + nm + i]);
        for (int i = 0; i < nb + nm + nk; i++) to[i] = i < nb + nm ? coord[i] : k[i - nb - nm];
        FGroup *f = fuse_group_at(s, group);
        Attention attention;
        if (n == f->anchor && attends(s, n, to, &attention)) {
            f->attends = true;
            fuse_mark_keys(s, n->src[1]);
            f->along = (int)k[0]->value;
            fuse_place_add(s, attention.score, group, attention.place);
        } else {
            fuse_place_add(s, n->src[0], group, to);
        }
        for (int i = 0; i < nb + nn + nk; i++) to[i] = i < nb ? coord[i] : i < nb + nn ? coord[nm + i] : k[i - nb - nn];
        fuse_place_add(s, n->src[1], group, to);
        break;
    }
    case G_concat: {
        Ix at = coord[n->concat.axis];
        bool parts = at->kind == IX_AXIS && at->value == fuse_group_at(s, group)->parts;
        for (int i = 0; i < n->rank; i++) to[i] = coord[i];
        for (uint32_t k = 0; k < n->nsrc; k++) {
            to[n->concat.axis] = parts ? ix(g, 0) : at;
            fuse_place_add(s, n->src[k], group, to);
            at = ix_sub(g, at, n->src[k]->shape[n->concat.axis]);
        }
        break;
    }
    case G_ew: case G_cast:
        for (uint32_t k = 0; k < n->nsrc; k++) fuse_place_add(s, n->src[k], group, coord);
        break;
    default: break;
    }
    vec_push(g->arena, &fuse_group_at(s, group)->nodes, (Node *)n);
}

// The i-th of its places is the first in that group.
bool fuse_first_there(const struct Places *p, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (p->at.at[k].group == p->at.at[i].group) return false;
    return true;
}

void fuse_join_all(State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    for (uint32_t i = 0; i < p->at.n; i++)
        if (fuse_first_there(p, i)) s->open[p->at.at[i].group]--;
    for (uint32_t i = 0; i < p->at.n; i++) fuse_push(s, n, p->at.at[i].group, p->at.at[i].coord);
}

// The only group that would compute n; -1: several.
int fuse_only_group(const State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    for (uint32_t i = 1; i < p->at.n; i++)
        if (p->at.at[i].group != p->at.at[0].group) return -1;
    return p->at.n && !p->many ? p->at.at[0].group : -1;
}

uint64_t fuse_used_axes(const Ix *coord, int n) {
    uint64_t a = 0;
    for (int i = 0; i < n; i++) a |= coord[i]->axes;
    return a;
}

// One to one with some axes of the root.
bool fuse_covers(State *s, const Node *n, const FGroup *f, const Ix *coord, uint64_t axes) {
    Ix axis[G_MAX_RANK], inverse[G_MAX_RANK];
    int count = 0;
    for (int i = 0; i < f->root->rank; i++)
        if (axes >> i & 1) axis[count++] = ix_axis(s->g, i, f->root->shape[i]);
    return map_invert(s->g, n->rank, n->shape, coord, count, axis, inverse);
}

uint64_t fuse_all_root_axes(State *s, const FGroup *f) {
    Ix axis[G_MAX_RANK];
    int n = fuse_root_axes(s->g, f, axis);
    return fuse_used_axes(axis, n);
}

// Those that a product has to have.
uint64_t fuse_product_axes(State *s, const FGroup *f) {
    return fuse_all_root_axes(s, f) & ~(f->parts < 0 ? 0 : UINT64_C(1) << f->parts);
}

// The axis along which a value is a few others side by side, each with one element there; -1: none.
static int axis_of_parts(const Node *n) {
    while (n->kind == G_cast) n = n->src[0];
    bool few = n->kind == G_concat && n->nsrc <= MOST_PARTS;
    for (uint32_t k = 0; few && k < n->nsrc; k++) few = ix_is(n->src[k]->shape[n->concat.axis], 1);
    return few ? n->concat.axis : -1;
}

bool fuse_placed_in(const State *s, const Node *n, int group) {
    const struct Places *p = &s->places[n->id];
    for (uint32_t i = 0; i < p->at.n; i++)
        if (p->at.at[i].group == group) return true;
    return false;
}

int fuse_new_group(State *s, FKind kind, Node *root) {
    FGroup *f = NEW(s->g->arena, FGroup);
    f->kind = kind;
    f->once = s->fixed[root->id] && !s->f->row[root->id].of;
    f->root = root;
    f->parts = axis_of_parts(root);
    vec_push(s->g->arena, &s->f->groups, f);
    int *fresh = NEW_N(s->g->arena, int, 2 * s->f->groups.n);
    if (s->f->groups.n > 1) memcpy(fresh, s->fresh, 2 * (s->f->groups.n - 1) * sizeof *fresh);
    s->fresh = fresh;
    int *open = NEW_N(s->g->arena, int, s->f->groups.n);
    if (s->f->groups.n > 1) memcpy(open, s->open, (s->f->groups.n - 1) * sizeof *open);
    s->open = open;
    fresh[2 * (s->f->groups.n - 1)] = FIRST_REDUCED;
    fresh[2 * (s->f->groups.n - 1) + 1] = FIRST_VALUE;
    return (int)s->f->groups.n - 1;
}

// Fusion: from users to sources, every value either joins the kernels that use it or is kept in memory.
//
// For each value it is known in which groups it would be computed, and there at which places: coordinates as index
// expressions of the group's axes. Views and index values always vanish into those. For the others:
//
//   F1  an elementwise value joins its only group; with several groups it joins all if it is cheap, so that it is computed
//       again rather than stored;
//   F2  a contraction joins a group as its anchor if its places there are one to one with the root's: what follows it is its
//       epilogue, transposed or not;
//       its places may lack an axis along which the root is a few values side by side (turn.c): each is stored by itself;
//   F3  what a contraction reads joins it (prologue) if it is next to free, as it is computed again for every tile, or cheap
//       and there is but one tile along the other operand;
//   F4  a reduction joins a group if its places are the group's rows: then softmax, norms and their like are one kernel,
//       and each row is reduced once;
//   F5  made of weights alone, a value is stored: it is computed once. So are weights that the model has in an order in which a
//       product cannot read rows or columns of them;
//   F6  a value that must be stored anyway is stored by a group that computes it in passing, if that makes no cycle;
//   F7  what follows a product stays with it: if the product cannot join, what is stored is the end of its epilogue;
//   F8  a kernel that is long enough, or reads as many values as it can have parameters, takes in no more;
//   F9  otherwise it is stored by a group of its own, and the reason is kept.

#include "graph/fuse/fuse.h"

#include "graph/internal.h"

#include <string.h>

enum { MOST_PARTS = 4, MOST_PLACES = 1024, MAX_PLACES = 4, ROTARY = 12, MAX_NODES = 120, CHEAP = 8, FREE = 3, ONE_TILE = 256, MOST_READ = 32, FIRST_REDUCED = 20, FIRST_VALUE = 40, MAX_AXES = 64 };

typedef struct Place { int group; const Ix *coord; } Place;

typedef struct State {
    Graph  *g;
    Fusion *f;
    bool   *needed, *is_output, *in_place;   // in_place: a scatter updates it, so it must be in memory
    int    *users;               // nodes that are needed and read it
    int    *weight;              // operations to compute one element from what is in memory, if everything joins
    bool   *deep;                // there is an exponential, sine, .. below
    bool   *heavy;               // there is a reduction, contraction, .. below, not stored yet
    bool   *gathers;             // .. a gather at places that are read, with only elementwise values between
    bool   *reduces;             // .. a reduction, with only elementwise values between
    bool   *constant;            // made of constants alone
    bool   *fixed;               // .. and of places
    bool   *for_keys;            // keys or values of an attention, or what they are computed from
    Node  **epilogue;            // the product that it is the epilogue of, or NULL
    const Node **weights_of;     // the product whose right operand it is, made of constants; or NULL
    struct Places { VEC(Place) at; bool many; } *places;
    int    *fresh;               // by group: axes handed out
    int    *open;                // by group: values that it needs and has not taken in
} State;

// ---- groups ---------------------------------------------------------------------------------------------------------

static FGroup *group_at(const State *s, int i) { return s->f->groups.at[i]; }

static bool depends(const State *s, int from, int on, int depth) {
    if (from == on) return true;
    if (depth > 10000) return true;
    const FGroup *a = group_at(s, from);
    for (uint32_t i = 0; i < a->reads.n; i++)
        if (depends(s, a->reads.at[i], on, depth + 1)) return true;
    return false;
}

static void reads_add(State *s, int from, int on) {
    FGroup *a = group_at(s, from);
    if (from == on) return;
    for (uint32_t i = 0; i < a->reads.n; i++)
        if (a->reads.at[i] == on) return;
    vec_push(s->g->arena, &a->reads, on);
}

static int root_axes(Graph *g, const FGroup *f, Ix *axis) {
    for (int i = 0; i < f->root->rank; i++) axis[i] = ix_axis(g, i, f->root->shape[i]);
    return f->root->rank;
}

static void place_add(State *s, Node *n, int group, const Ix *coord) {
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

static bool short_enough(Ix e) { return e->kind == IX_CONST && e->value <= HEAD; }

static bool attends(State *s, const Node *n, const Ix *place, Attention *to) {
    Ix values = ix_product(s->g, n->shape + n->contract.nb + n->contract.nm, n->contract.nn);
    return values && short_enough(values) && attention_match(s->g, n, place, to);
}

// x, and what it is computed from up to a product, are the keys or values of an attention (in 16 bits the queries, too).
static void mark_keys(State *s, const Node *x) {
    bool passes = x->kind == G_view || x->kind == G_cast || x->kind == G_ew || x->kind == G_gather;
    if (s->for_keys[x->id] || !elem_is_float((Elem)x->elem)) return;
    s->for_keys[x->id] = true;
    for (uint32_t i = 0; passes && i < x->nsrc; i++) mark_keys(s, x->src[i]);
}

// The places of n's sources, for n at one place of a group.
static void push(State *s, const Node *n, int group, const Ix *coord) {
    Graph *g = s->g;
    Ix to[G_MAX_RANK];
    switch ((GKind)n->kind) {
    case G_view:
        for (int i = 0; i < n->src[0]->rank; i++) to[i] = ix_substitute(g, n->view.coord[i], coord, n->rank);
        place_add(s, n->src[0], group, to);
        break;
    case G_gather:
        for (uint32_t k = 1; k < n->nsrc; k++) place_add(s, n->src[k], group, coord);
        for (int i = 0; i < n->src[0]->rank; i++)
            to[i] = n->at.coord[i] ? ix_substitute(g, n->at.coord[i], coord, n->rank)
                                   : fresh_axis(s, group, FIRST_VALUE, n->src[0]->shape[i]);
        place_add(s, n->src[0], group, to);
        break;
    case G_reduce:
        for (int i = 0, kept = 0; i < n->src[0]->rank; i++)
            to[i] = n->reduce.axes >> i & 1 ? fresh_axis(s, group, FIRST_REDUCED, n->src[0]->shape[i]) : coord[kept++];
        place_add(s, n->src[0], group, to);
        break;
    case G_contract: {
        Ix k[G_MAX_RANK];
        int nb = n->contract.nb, nm = n->contract.nm, nn = n->contract.nn, nk = n->contract.nk;
        for (int i = 0; i < nk; i++) k[i] = fresh_axis(s, group, FIRST_REDUCED, n->src[0]->shape[nb + nm + i]);
        for (int i = 0; i < nb + nm + nk; i++) to[i] = i < nb + nm ? coord[i] : k[i - nb - nm];
        FGroup *f = group_at(s, group);
        Attention attention;
        if (n == f->anchor && attends(s, n, to, &attention)) {
            f->attends = true;
            mark_keys(s, n->src[1]);
            f->along = (int)k[0]->value;
            place_add(s, attention.score, group, attention.place);
        } else {
            place_add(s, n->src[0], group, to);
        }
        for (int i = 0; i < nb + nn + nk; i++) to[i] = i < nb ? coord[i] : i < nb + nn ? coord[nm + i] : k[i - nb - nn];
        place_add(s, n->src[1], group, to);
        break;
    }
    case G_concat: {
        Ix at = coord[n->concat.axis];
        bool parts = at->kind == IX_AXIS && at->value == group_at(s, group)->parts;
        for (int i = 0; i < n->rank; i++) to[i] = coord[i];
        for (uint32_t k = 0; k < n->nsrc; k++) {
            to[n->concat.axis] = parts ? ix(g, 0) : at;
            place_add(s, n->src[k], group, to);
            at = ix_sub(g, at, n->src[k]->shape[n->concat.axis]);
        }
        break;
    }
    case G_ew: case G_cast:
        for (uint32_t k = 0; k < n->nsrc; k++) place_add(s, n->src[k], group, coord);
        break;
    default: break;
    }
    vec_push(g->arena, &group_at(s, group)->nodes, (Node *)n);
}

// The i-th of its places is the first in that group.
static bool first_there(const struct Places *p, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (p->at.at[k].group == p->at.at[i].group) return false;
    return true;
}

static void join_all(State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    for (uint32_t i = 0; i < p->at.n; i++)
        if (first_there(p, i)) s->open[p->at.at[i].group]--;
    for (uint32_t i = 0; i < p->at.n; i++) push(s, n, p->at.at[i].group, p->at.at[i].coord);
}

// ---- what may be done -----------------------------------------------------------------------------------------------

// The only group that would compute n; -1: several.
static int only_group(const State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    for (uint32_t i = 1; i < p->at.n; i++)
        if (p->at.at[i].group != p->at.at[0].group) return -1;
    return p->at.n && !p->many ? p->at.at[0].group : -1;
}

static uint64_t used_axes(const Ix *coord, int n) {
    uint64_t a = 0;
    for (int i = 0; i < n; i++) a |= coord[i]->axes;
    return a;
}

// One to one with some axes of the root.
static bool covers(State *s, const Node *n, const FGroup *f, const Ix *coord, uint64_t axes) {
    Ix axis[G_MAX_RANK], inverse[G_MAX_RANK];
    int count = 0;
    for (int i = 0; i < f->root->rank; i++)
        if (axes >> i & 1) axis[count++] = ix_axis(s->g, i, f->root->shape[i]);
    return map_invert(s->g, n->rank, n->shape, coord, count, axis, inverse);
}

static uint64_t all_root_axes(State *s, const FGroup *f) {
    Ix axis[G_MAX_RANK];
    int n = root_axes(s->g, f, axis);
    return used_axes(axis, n);
}

// Those that a product has to have.
static uint64_t product_axes(State *s, const FGroup *f) {
    return all_root_axes(s, f) & ~(f->parts < 0 ? 0 : UINT64_C(1) << f->parts);
}

// The axis along which a value is a few others side by side, each with one element there; -1: none.
static int axis_of_parts(const Node *n) {
    while (n->kind == G_cast) n = n->src[0];
    bool few = n->kind == G_concat && n->nsrc <= MOST_PARTS;
    for (uint32_t k = 0; few && k < n->nsrc; k++) few = ix_is(n->src[k]->shape[n->concat.axis], 1);
    return few ? n->concat.axis : -1;
}

static const char *reduce_refused(State *s, const Node *n) {
    int group = only_group(s, n);
    if (group < 0) return "a reduction that several kernels use is stored";
    if (s->places[n->id].at.n > 1) return "a reduction that a kernel needs at several places is stored";
    FGroup *f = group_at(s, group);
    const Ix *coord = s->places[n->id].at.at[0].coord;
    uint64_t axes = used_axes(coord, n->rank);
    if (f->kind != F_MAP && f->kind != F_ROWS) return "a product's kernel has no reductions beside it";
    if (f->anchor) return "a scan or sort has no reductions beside it";
    if (axes & ~((UINT64_C(1) << FIRST_REDUCED) - 1))
        return "it would be reduced again for every element of another reduction";
    if (f->kind == F_ROWS && axes != f->rows) return "its rows are not those of the kernel";
    if (!covers(s, n, f, coord, axes)) return "each row would be reduced several times";
    bool alone = f->kind == F_MAP;                           // nothing in the kernel but a number for each row
    for (int i = 0; i < f->root->rank && alone; i++) alone = axes >> i & 1 || ix_is(f->root->shape[i], 1);
    if (!alone && graph_longer_than_kept(n)) return "its rows are too long to be kept: they are reduced by themselves";
    return NULL;
}

// Two products of one left operand, element by element together, as in gated layers: one loop with two sums.
static bool is_second(const State *s, const Node *n, const FGroup *f) {
    if (f->kind != F_PRODUCT || f->second || f->attends || !f->place || f->root == f->anchor) return false;
    const Node *a = f->anchor;
    const Ix *coord = s->places[n->id].at.at[0].coord;
    bool same = n->src[0] == a->src[0] && n->rank == a->rank && n->contract.nb == a->contract.nb &&
                n->contract.nm == a->contract.nm && n->contract.nn == a->contract.nn &&
                n->contract.nk == a->contract.nk && n->contract.acc == a->contract.acc && g_same_shape(n, a);
    for (int i = 0; i < n->rank && same; i++) same = coord[i] == f->place[i];
    return same;
}

// Does x, made of this product, lie in the group's rows, each in one tile of it (product.c)?
static bool whole_rows(State *s, const Node *product, const Node *x) {
    const struct Places *p = &s->places[x->id];
    const Ix *coord[MAX_PLACES];
    int group = only_group(s, x);
    if (group < 0 || p->at.n > MAX_PLACES || s->is_output[x->id]) return false;
    for (uint32_t i = 0; i < p->at.n; i++) coord[i] = p->at.at[i].coord;
    return graph_rows_of_product(s->g, product, x, group_at(s, group), (int)p->at.n, coord);
}

static const char *product_refused(State *s, const Node *n) {
    int group = only_group(s, n);
    if (group < 0) return "a product that several kernels use is stored";
    if (s->places[n->id].at.n > 1) return "a product that a kernel needs at several places is stored";
    FGroup *f = group_at(s, group);
    if (f->attends && !f->inner) {                           // the scores of an attention
        const Ix *coord = s->places[n->id].at.at[0].coord;
        Ix key = n->rank > 0 ? coord[n->rank - 1] : NULL;
        bool keys = key && key->kind == IX_AXIS && key->value == f->along && n->contract.nn == 1 && n->contract.nk == 1;
        for (int i = 0; keys && i < n->rank - 1; i++) keys = !(coord[i]->axes >> f->along & 1);
        if (!keys) return "scores in another order than their softmax";
        return short_enough(n->src[0]->shape[n->src[0]->rank - 1]) ? NULL : "heads are too long to keep";
    }
    if (is_second(s, n, f)) return NULL;
    if (f->kind != F_MAP)
        return f->kind == F_PRODUCT ? "a kernel has one product" : "a product is not computed in a kernel of rows";
    const Ix *coord = s->places[n->id].at.at[0].coord;
    if (!covers(s, n, f, coord, product_axes(s, f))) return "its elements are not one to one with those of the kernel";
    return graph_apart_in_memory(s->g, n, f, coord) ? "its rows would be stored by single elements" : NULL;
}

static bool is_kept(const Node *n) { return n->kind == G_cast && n->cast.kept; }

// Operations for one element of a product's prologue, from what will be stored.
static int own_weight(const State *s, const Node *n) {
    int w = n->kind == G_ew ? 1 : 0;
    for (uint32_t k = 0; k < n->nsrc; k++) {
        const Node *x = n->src[k];
        while (x->kind == G_view) x = x->src[0];
        w += s->epilogue[x->id] || s->users[x->id] > 1 ? 0 : s->weight[x->id];
    }
    return w;
}

// A product's left operand that is computed once, as there is but one tile along the right one.
static bool read_once(State *s, const Node *n, const FGroup *f) {
    const Node *c = f->anchor;
    Graph *g = s->g;
    if (f->attends || f->second || s->reduces[n->id] || own_weight(s, n) > CHEAP || s->places[n->id].at.n > 1) return false;
    Ix across = ix_product(g, c->shape + c->contract.nb + c->contract.nm, c->contract.nn);
    return across && across->hi <= ONE_TILE && g_count(g, n) == g_count(g, c->src[0]);
}

// Would its product be stored, and it computed by those that read that?
static bool leaves_product(State *s, const Node *n, const FGroup *f, const Ix *coord) {
    const Node *p = s->epilogue[n->id];
    if (!p || f->attends || whole_rows(s, p, n)) return false;
    if (f->kind == F_PRODUCT) return f->second || p->src[0] != f->anchor->src[0];
    return f->kind != F_MAP || !covers(s, n, f, coord, product_axes(s, f)) || graph_apart_in_memory(s->g, n, f, coord);
}

// Computed in a few steps from a value in bytes, and from nothing else that is not constant: that value is stored, and
// converted where it is used.
static bool of_bytes(const State *s, const Node *n) {
    for (int step = 0; step < 4 && (n->kind == G_ew || n->kind == G_cast) && s->weight[n->id] > 0; step++) {
        const Node *from = NULL;
        for (uint32_t k = 0; k < n->nsrc; k++) {
            if (s->constant[n->src[k]->id]) continue;
            if (from) return false;
            from = n->src[k];
        }
        if (!from || elem_bits((Elem)n->elem) == 8) return false;
        if (elem_is_int((Elem)from->elem) && elem_bits((Elem)from->elem) == 8) return true;
        n = from;
    }
    return false;
}

// Is it computed from the value at all? Beyond a few steps nobody looks.
static bool comes_from(const Node *n, const Node *value, int depth) {
    bool found = n == value || depth > 6;
    for (uint32_t i = 0; i < n->nsrc && !found; i++) found = comes_from(n->src[i], value, depth + 1);
    return found;
}

// What is put somewhere may be computed there if that costs little, and reads nothing of what is written.
static bool into_scatter(const State *s, const Node *n, const FGroup *f) {
    const Node *put = f->root->src[1];
    return s->weight[n->id] <= CHEAP && !s->heavy[n->id] && comes_from(put, n, 0) &&
           !comes_from(n, f->root->src[0], 0) && n->elem == put->elem && g_same_shape(n, put);
}

// The axes of the root that are the product's batch, as far as they are plain.
static uint64_t batch_axes(const FGroup *f) {
    uint64_t a = 0;
    for (int i = 0; f->place && i < f->anchor->contract.nb; i++) a |= f->place[i]->axes;
    for (int i = f->anchor ? f->anchor->contract.nb : 0; f->place && i < f->anchor->rank; i++) a &= ~f->place[i]->axes;
    return a;
}

static const char large[] = "the kernel is large enough", crowded[] = "the kernel reads enough";

static bool placed_in(const State *s, const Node *n, int group) {
    const struct Places *p = &s->places[n->id];
    for (uint32_t i = 0; i < p->at.n; i++)
        if (p->at.at[i].group == group) return true;
    return false;
}

// How many more values a group would read that takes n in.
static int values_more(const State *s, const Node *n, int group) {
    GNum literal;
    int more = -1;
    for (uint32_t k = 0; k < n->nsrc; k++) more += !g_scalar_value(n->src[k], &literal) && !placed_in(s, n->src[k], group);
    return more;
}

// Would a kernel grow too long with it, or read more than a kernel can have parameters?
static const char *grows_too_large(const State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    for (uint32_t i = 0; i < p->at.n; i++) {
        const FGroup *f = group_at(s, p->at.at[i].group);
        if (f->nodes.n > MAX_NODES) return large;
        int more = first_there(p, i) ? values_more(s, n, p->at.at[i].group) : 0;
        if (more > 0 && s->open[p->at.at[i].group] + (int)f->makes.n + more > MOST_READ) return crowded;
    }
    return NULL;
}

// Computed in a few steps from what will be in memory and from a few numbers for each of its rows: what several kernels use
// of it is those numbers, and each computes the rest.
static bool of_statistics(State *s, const Node *n, Ix size, int steps) {
    enum { AS_MANY = 16 };
    if (!s->heavy[n->id] || s->epilogue[n->id] || n->kind == G_contract || is_kept(n)) return true;
    if (n->kind == G_reduce) {
        int64_t all, each;
        return ix_const(size, &all) && ix_const(g_count(s->g, n), &each) && each <= all / AS_MANY;
    }
    if (steps == 0 || (n->kind != G_ew && n->kind != G_cast && n->kind != G_view)) return false;
    for (uint32_t k = 0; k < n->nsrc; k++)
        if (!of_statistics(s, n->src[k], size, steps - 1)) return false;
    return true;
}

// How often is an elementwise value computed again in a group, and does that matter?
static const char *element_refused(State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    bool several = only_group(s, n) < 0;
    if (p->many) return "it is needed at too many places";
    if (several && s->gathers[n->id] && s->weight[n->id] > 0) return "several kernels use it, and it is gathered";
    bool statistics = several && s->heavy[n->id] && !s->epilogue[n->id] && own_weight(s, n) <= CHEAP &&
                      of_statistics(s, n, g_count(s->g, n), CHEAP);
    if (several && s->heavy[n->id] && !statistics) return "several kernels use it, and a product or reduction is in it";
    if (several && (s->deep[n->id] || s->weight[n->id] > CHEAP)) return "several kernels use it, and it is not cheap";
    if (!several && p->at.n > MAX_PLACES && s->weight[n->id] > FREE) return "it is needed at many places";
    for (uint32_t i = 0; i < p->at.n; i++) {
        FGroup *f = group_at(s, p->at.at[i].group);
        uint64_t axes = used_axes(p->at.at[i].coord, n->rank),
                 all = s->heavy[n->id] ? product_axes(s, f) : all_root_axes(s, f);
        bool again = f->attends             ? false
                     : f->kind == F_PRODUCT ? (axes & all) != all && !read_once(s, n, f)
                                            : f->kind == F_MAP && (axes & all) != all;
        bool scores = f->attends && (axes >> f->along & 1) && (axes & all) && !f->inner;
        bool of_keys = f->attends && !s->for_keys[n->id] && (axes >> f->along & 1) &&
                       !(axes & all_root_axes(s, f) & ~batch_axes(f));
        if (several && of_keys && s->weight[n->id] > 0) return "a mask of keys that several kernels use";
        if (f->attends && s->for_keys[n->id] && s->weight[n->id] > 0)
            return "operands of an attention are loaded as they are";
        bool queries = f->attends && f->inner && (!(axes >> f->along & 1) || s->weight[n->id] <= ROTARY);
        if (queries) continue;
        if (!of_bytes(s, n) && leaves_product(s, n, f, p->at.at[i].coord))
            return "the end of a product's epilogue, and the product cannot join";
        if (f->kind == F_PRODUCT && !scores && (axes >> FIRST_REDUCED) &&
            (s->heavy[n->id] || s->weight[n->id] > FREE) && !read_once(s, n, f))
            return "a product would compute it again for every tile";
        if (f->kind == F_PRODUCT && n->kind == G_concat && (axes >> FIRST_REDUCED))
            return "a product would choose among its parts for every tile";
        if (f->kind == F_SCATTER && !into_scatter(s, n, f)) return "a scatter reads its operands from memory";
        if (again && s->weight[n->id] > CHEAP && n->rank > 0) return "it would be computed again along other axes";
        if (axes >> FIRST_VALUE && s->weight[n->id] > FREE) return "it is gathered from";
    }
    return grows_too_large(s, n);
}

static int new_group(State *s, FKind kind, Node *root) {
    FGroup *f = NEW(s->g->arena, FGroup);
    f->kind = kind;
    f->once = s->fixed[root->id];
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

static void store(State *s, Node *n, int group, const char *why) {
    const struct Places *p = &s->places[n->id];
    s->f->maker[n->id] = group;
    s->f->stored[n->id] = true;
    s->f->why[n->id] = why;
    vec_push(s->g->arena, &group_at(s, group)->makes, n);
    for (uint32_t i = 0; i < p->at.n; i++) reads_add(s, p->at.at[i].group, group);
}

// A field of a byte, and such a number less another: two at a time they cost next to nothing where they are made floats
// (lower/llvm/halves.c).
static bool unpacks(const Node *n) {
    if (n->kind != G_ew) return false;
    const Node *x = n->src[0];
    if (n->elem == EL_u8) return n->op == EW_shr || n->op == EW_and;
    return n->op == EW_sub && n->elem == EL_i32 && x->kind == G_cast && x->src[0]->elem == EL_u8;
}

// A group that computes n in passing and may store it.
static int passing(State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    bool heavy = s->heavy[is_kept(n) ? n->src[0]->id : n->id];
    if (p->many || s->is_output[n->id]) return -1;
    for (uint32_t i = 0; i < p->at.n; i++) {
        FGroup *f = group_at(s, p->at.at[i].group);
        uint64_t all = all_root_axes(s, f);
        // a mean, by the kernel of the variance
        bool row = f->kind == F_ROWS && s->reduces[n->id] && used_axes(p->at.at[i].coord, n->rank) == f->rows;
        if (heavy && !row) continue;
        if (f->kind == F_SCATTER || f->kind == F_PRODUCT || f->anchor || !covers(s, n, f, p->at.at[i].coord, all)) continue;
        bool cycle = false;                                  // .. or gathered from by the same kernel
        for (uint32_t k = 0; k < p->at.n; k++)
            cycle |= p->at.at[k].group != p->at.at[i].group ? depends(s, p->at.at[i].group, p->at.at[k].group, 0)
                                                            : (used_axes(p->at.at[k].coord, n->rank) >> FIRST_VALUE) != 0;
        if (!cycle) return (int)i;
    }
    return -1;
}

// A group of the same rows that reduces them in passing and may store the result: a mean by the kernel of the variance.
static int passing_rows(State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    if (p->many || s->is_output[n->id] || graph_longer_than_kept(n)) return -1;
    for (uint32_t i = 0; i < p->at.n; i++) {
        FGroup *f = group_at(s, p->at.at[i].group);
        uint64_t axes = used_axes(p->at.at[i].coord, n->rank);
        if (f->kind != F_ROWS || f->anchor || axes != f->rows || !covers(s, n, f, p->at.at[i].coord, axes)) continue;
        bool fits = true;                                    // at one place, and no cycle
        for (uint32_t k = 0; k < p->at.n && fits; k++)
            fits = k == i || (p->at.at[k].group != p->at.at[i].group && !depends(s, p->at.at[i].group, p->at.at[k].group, 0));
        if (fits) return (int)i;
    }
    return -1;
}

// Another order of what is computed of rows: its kernel has the axes that the rows have, and stores in that order.
static bool of_rows(State *s, const Node *n) {
    Ix axis[G_MAX_RANK], inverse[G_MAX_RANK];
    const Node *x = n->kind == G_view ? n->src[0] : NULL;
    if (!x || (x->kind != G_ew && x->kind != G_cast) || !s->reduces[x->id] || s->constant[n->id] || !ix_is(n->view.pred, 1)) return false;
    for (int i = 0; i < n->rank; i++) axis[i] = ix_axis(s->g, i, n->shape[i]);
    return map_invert(s->g, x->rank, x->shape, n->view.coord, n->rank, axis, inverse);
}

static void own_group(State *s, Node *n, const char *why) {
    Ix axis[G_MAX_RANK];
    bool turned = of_rows(s, n);
    Node *root = turned ? n->src[0] : n;
    bool rows = n->kind == G_reduce || n->kind == G_scan || n->kind == G_sort;
    FKind kind = n->kind == G_contract ? F_PRODUCT : n->kind == G_scatter ? F_SCATTER : rows ? F_ROWS : F_MAP;
    int group = new_group(s, kind, root);
    FGroup *f = group_at(s, group);
    int count = root_axes(s->g, f, axis);
    store(s, n, group, why);
    if (turned) {
        f->as = n;
        push(s, root, group, axis);
        return;
    }
    if (n->kind == G_contract) f->place = copy_ixs(s->g, axis, count);
    if (n->kind == G_contract || n->kind == G_scan || n->kind == G_sort) f->anchor = n;
    if (n->kind == G_reduce) f->rows = (uint32_t)used_axes(axis, count);
    if (n->kind == G_scan || n->kind == G_sort) {
        int along = n->kind == G_scan ? n->scan.axis : n->sort.axis;
        f->rows = (uint32_t)used_axes(axis, count) & ~(1u << along);
        place_add(s, n->src[0], group, axis);
        vec_push(s->g->arena, &f->nodes, n);
    } else if (n->kind == G_scatter) {
        s->in_place[n->src[0]->id] = true;
        for (uint32_t k = 0; k < n->nsrc; k++) {
            for (int i = 0; i < n->src[k]->rank; i++) axis[i] = ix_axis(s->g, i, n->src[k]->shape[i]);
            place_add(s, n->src[k], group, axis);
        }
        vec_push(s->g->arena, &f->nodes, n);
    } else {
        push(s, n, group, axis);
    }
}

static const char *laid_out(const Node *n) {
    return n->elem == n->src[0]->elem ? "in the order in which a product reads it" : "kept in fewer bits";
}

static void elementwise(State *s, Node *n) {
    if (graph_loaded(n)) return;
    const char *why = s->is_output[n->id]  ? "a result of the model"
                      : s->in_place[n->id] ? "a scatter updates it in place"
                      : is_kept(n)         ? laid_out(n)
                                           : element_refused(s, n);
    if (!why) {
        join_all(s, n);
        return;
    }
    int via = why == large || why == crowded ? -1 : passing(s, n);
    if (via < 0) {
        own_group(s, n, why);
        return;
    }
    Place p = s->places[n->id].at.at[via];
    store(s, n, p.group, why);
    push(s, n, p.group, p.coord);
}

// Weights in 16 bits, a matrix: rows of what is summed over come by whole lines whatever the tile's columns, so that
// tiles of 96 or 144 columns are as good as others (1024 x 2304 x 768 on an H200: 10.4 instead of 11.6 us). Not rows
// that 16 bytes do not divide, and not few columns, whose tiles are of 64 (197 x 768 x 3072: 9.3 instead of 8.8 us).
static bool better_by_rows(const Node *c, const Node *w) {
    enum { MANY = 1024 };
    int64_t n, k;
    bool matrix = c->contract.nb == 0 && c->contract.nn == 1 && c->contract.nk == 1;
    return matrix && elem_bits((Elem)w->elem) == 16 && ix_const(w->shape[0], &n) && ix_const(w->shape[1], &k) &&
           n >= MANY && k % 8 == 0;
}

// Weights of which a product could read neither rows nor columns: what is adjacent in memory is along neither of its
// axes. Products of bytes, and of tf32 by wgmma, read rows alone.
static bool scattered(const State *s, const Node *n) {
    const Node *c = s->weights_of[n->id];
    if (n->kind == G_cast && n->cast.kept && n->elem == n->src[0]->elem) return true;        // as layout.c has asked
    if (!c || n->kind != G_view || g_is_depthwise(s->g, c)) return false;
    if (!ix_is(n->view.pred, 1)) return true;                // with zeros among them
    const Node *y = n->src[0];
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    int rank = dims_merged(s->g, y->rank, y->shape, n->view.coord, shape, coord);
    if (rank == 0) return false;
    Ix at = coord[rank - 1];
    bool axis = at->kind == IX_AXIS && at->arg[0] == shape[rank - 1];
    bool tf32 = s->g->tables->tf32 && n->elem == EL_f32;
    bool rows = elem_bits((Elem)n->elem) == 8 || tf32 || better_by_rows(c, n);
    return !(axis && (at->value == n->rank - 1 || (!rows && at->value == n->rank - 1 - c->contract.nk)));
}

// Read by what is not made of constants alone.
static bool is_weight(const State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    for (uint32_t i = 0; s->constant[n->id] && i < p->at.n; i++)
        if (!s->constant[group_at(s, p->at.at[i].group)->root->id]) return true;
    return false;
}

// A view of a product that is all that is read of it, each element once: if it must be stored, then in this order.
static bool layout(State *s, const Node *n) {
    if (n->kind != G_view || n->src[0]->kind != G_contract || s->users[n->src[0]->id] != 1 || !ix_is(n->view.pred, 1))
        return false;
    Ix axis[G_MAX_RANK], inverse[G_MAX_RANK];
    for (int i = 0; i < n->rank; i++) axis[i] = ix_axis(s->g, i, n->shape[i]);
    return map_invert(s->g, n->src[0]->rank, n->src[0]->shape, n->view.coord, n->rank, axis, inverse);
}

static int64_t size_of(Graph *g, const Node *n) {               // in bytes; -1: it is not known
    int64_t count;
    return ix_const(g_count(g, n), &count) ? count * elem_bytes((Elem)n->elem) : -1;
}

// Bytes of what x is read from: numbers of a few bits are not in memory but where they are packed.
static int64_t read_from(const State *s, const Node *x) {
    GNum number;
    int64_t sum = 0;
    while (x->kind == G_view || x->kind == G_cast) x = x->src[0];
    if (x->kind == G_index || g_scalar_value(x, &number)) return 0;
    if (!unpacks(x)) return size_of(s->g, x);
    for (uint32_t k = 0; k < x->nsrc; k++) sum += read_from(s, x->src[k]);
    return sum;
}

// Made of weights: is it worth being kept? Not if it is simple and more to read than what it is made of.
static bool computed_once(const State *s, const Node *n) {
    enum { OF_SIZE = 9, OF_FROM = 16 };                        // half of it, with a scale for each block
    int64_t size = size_of(s->g, n), from = 0;
    if (size < 0 || graph_loaded(n) || n->kind == G_const || n->kind == G_view || n->kind == G_gather) return false;
    for (uint32_t k = 0; k < n->nsrc; k++) from += read_from(s, n->src[k]);
    // quantised weights stay so
    bool bytes = from > 0 && OF_FROM * from <= OF_SIZE * size && s->weight[n->id] <= FREE && !s->deep[n->id] &&
                 !s->heavy[n->id];
    return (s->weights_of[n->id] && !bytes) || s->deep[n->id] || s->heavy[n->id] || size <= from;
}

// A loop that runs as often as a size says could be written out; so could the side of an if that an input says.
static void no_kernel(State *s, const Node *n) {
    const Node *trips = n->kind == G_loop ? n->src[0] : NULL, *decides = n->kind == G_if ? n->src[0] : NULL;
    const char *name = n->kind == G_host ? n->host.op->name : g_kind_name[n->kind];
    Buf size = {0};
    while (trips && (trips->kind == G_view || trips->kind == G_cast)) trips = trips->src[0];
    while (decides && decides->kind != G_input) decides = decides->nsrc > 0 ? decides->src[0] : NULL;
    if (trips && trips->kind == G_index && trips->index.expr->has_dim) ix_print(&size, s->g, trips->index.expr, NULL);
    if (size.n)
        g_error(
            s->g,
            "a `loop` of %s trips has no form as a kernel, one of a known number has: the input's shape settles it (--arg NAME=zeros:f32[..])",
            size.p);
    else if (decides != NULL && decides->kind == G_input && !elem_is_float((Elem)decides->elem))
        g_error(
            s->g,
            "an `if` whose sides have different shapes has no form as a kernel, one side has: a value for `%s` settles which (--arg %s=ones:%s[..])",
            decides->name, decides->name, elem_name((Elem)decides->elem));
    else g_error(s->g, "`%s` has no form as a kernel: only the device `ref` runs it", name);
    buf_free(&size);
}

static void place(State *s, Node *n) {
    const char *why;
    GNum number;
    if (g_scalar_value(n, &number) && !s->is_output[n->id] && !s->in_place[n->id]) return;   // a literal
    if (is_weight(s, n) && !s->is_output[n->id]) {
        why = scattered(s, n)       ? "weights in the order in which their product reads them"
              : computed_once(s, n) ? "made of weights alone"
                                    : NULL;
        if (why) {
            own_group(s, n, why);
            return;
        }
    }
    switch ((GKind)n->kind) {
    case G_input: case G_const: case G_param: return;
    case G_index: case G_view: case G_gather:
        if (s->is_output[n->id] || s->in_place[n->id] || s->places[n->id].many || layout(s, n)) elementwise(s, n);
        else if (n->kind == G_gather && grows_too_large(s, n)) own_group(s, n, grows_too_large(s, n));
        else join_all(s, n);                                 // movement costs nothing
        return;
    case G_ew: case G_cast: case G_concat: elementwise(s, n); return;
    case G_reduce:
        why = s->is_output[n->id] ? "a result of the model" : reduce_refused(s, n);
        if (why && passing_rows(s, n) >= 0) {
            Place p = s->places[n->id].at.at[passing_rows(s, n)];
            store(s, n, p.group, why);
            push(s, n, p.group, p.coord);
        } else if (why) {
            own_group(s, n, why);
        } else {
            FGroup *f = group_at(s, only_group(s, n));
            f->kind = F_ROWS;
            f->rows = (uint32_t)used_axes(s->places[n->id].at.at[0].coord, n->rank);
            join_all(s, n);
        }
        return;
    case G_contract: {
        bool whole = whole_rows(s, n, n);
        why = whole ? NULL : s->is_output[n->id] ? "a result of the model" : product_refused(s, n);
        if (why) {
            own_group(s, n, why);
            return;
        }
        FGroup *f = group_at(s, only_group(s, n));
        if (f->attends) {
            f->inner = n;
            mark_keys(s, n->src[1]);
            if (elem_bits((Elem)n->src[0]->elem) == 16) mark_keys(s, n->src[0]);        // tensor cores take all of them from memory
        } else if (f->kind == F_PRODUCT) {
            f->second = n;
        } else {
            f->kind = F_PRODUCT;
            f->anchor = n;
            f->whole = whole;
            f->place = s->places[n->id].at.at[0].coord;
            if (whole) s->places[n->id].at.n = 1;            // the others are the same row
        }
        join_all(s, n);
        return;
    }
    case G_scan: case G_sort: case G_scatter: own_group(s, n, NULL); return;
    case G_proj: {                                           // of a sort: both results are the sort's
        int group;
        const struct Places *p = &s->places[n->id];
        if (n->src[0]->kind != G_sort) {
            no_kernel(s, n->src[0]);
            return;
        }
        group = s->f->maker[n->src[0]->id];
        if (group < 0) {
            own_group(s, n->src[0], NULL);
            group = s->f->maker[n->src[0]->id];
        }
        s->f->maker[n->id] = group;
        s->f->stored[n->id] = true;
        vec_push(s->g->arena, &group_at(s, group)->makes, n);
        for (uint32_t i = 0; i < p->at.n; i++) reads_add(s, p->at.at[i].group, group);
        return;
    }
    default: no_kernel(s, n);
    }
}

// ---- the whole ------------------------------------------------------------------------------------------------------

static void count_users(State *s) {
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

static void weigh(State *s) {
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        const Node *n = s->g->nodes.at[i];
        bool anchor = n->kind == G_reduce || n->kind == G_contract || n->kind == G_scan || n->kind == G_sort ||
                      n->kind == G_scatter;
        int w = n->kind == G_ew       ? (g_is_function((GEw)n->op) || n->op == EW_pow ? 4
                                         : unpacks(n)                                  ? 0
                                                                                       : 1)
                : n->kind == G_concat ? (int)n->nsrc
                                      : 0;
        bool free_source = n->kind == G_scan || n->kind == G_sort || n->kind == G_scatter;
        for (uint32_t k = 0; k < n->nsrc && !free_source; k++) {
            uint32_t from = n->src[k]->id;
            w += s->deep[from] && s->users[from] > 2 ? 0 : s->weight[from];      // will be stored
            s->heavy[i] |= s->heavy[n->src[k]->id];
            s->deep[i] |= s->deep[n->src[k]->id];
            s->reduces[i] |= s->reduces[n->src[k]->id];
            s->gathers[i] |= s->gathers[n->src[k]->id];
        }
        s->gathers[i] = !anchor && !is_kept(n) &&
                        (s->gathers[i] || (n->kind == G_gather && n->nsrc > 1 && elem_is_float((Elem)n->elem)));
        s->reduces[i] = n->kind == G_reduce || (!anchor && s->reduces[i]);
        s->constant[i] = n->kind == G_const || (n->nsrc > 0 && n->kind != G_host);
        for (uint32_t k = 0; k < n->nsrc; k++) s->constant[i] &= s->constant[n->src[k]->id];
        s->fixed[i] = n->kind == G_const || (n->nsrc > 0 && n->kind != G_host) ||
                      (n->kind == G_index && !n->index.expr->has_dim);
        for (uint32_t k = 0; k < n->nsrc; k++) s->fixed[i] &= s->fixed[n->src[k]->id];
        for (int d = 0; d < n->rank; d++) s->fixed[i] &= n->kind == G_const || ix_is_const(n->shape[d]);
        if (n->kind == G_contract && s->constant[n->src[1]->id]) s->weights_of[n->src[1]->id] = n;
        if (is_kept(n)) {                                    // in memory: nothing is below
            s->heavy[i] = s->deep[i] = s->reduces[i] = false;
            continue;
        }
        s->deep[i] = !anchor && (s->deep[i] || (n->kind == G_ew && (g_is_function((GEw)n->op) || n->op == EW_pow)));
        s->heavy[i] = n->kind == G_contract || (n->kind == G_reduce ? !graph_longer_than_kept(n) : s->heavy[i]);
        s->weight[i] = anchor ? 0 : w > 1000 ? 1000 : w;
    }
}

// Groups in an order in which each comes after what it reads.
static void order(State *s) {
    uint32_t n = s->f->groups.n;
    int *number = NEW_N(s->g->arena, int, n);
    VEC(FGroup *) sorted = {0};
    bool moved = true;
    for (uint32_t i = 0; i < n; i++) number[i] = -1;
    while (moved && sorted.n < n) {
        moved = false;
        for (uint32_t i = n; i-- > 0;) {                     // the last made come first: sources after users
            const FGroup *f = s->f->groups.at[i];
            bool ready = number[i] < 0;
            for (uint32_t k = 0; k < f->reads.n && ready; k++) ready = number[f->reads.at[k]] >= 0;
            if (!ready) continue;
            number[i] = (int)sorted.n;
            vec_push(s->g->arena, &sorted, s->f->groups.at[i]);
            moved = true;
        }
    }
    if (sorted.n < n) {
        g_error(s->g, "kernels depend on each other");
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        FGroup *f = sorted.at[i];
        for (uint32_t k = 0; k < f->reads.n; k++) f->reads.at[k] = number[f->reads.at[k]];
        s->f->groups.at[i] = f;
    }
    for (uint32_t i = 0; i < s->g->nodes.n; i++)
        if (s->f->maker[i] >= 0) s->f->maker[i] = number[s->f->maker[i]];
}

Fusion *graph_fuse(Graph *g) {
    uint32_t n = g->nodes.n;
    State s = {.g = g, .f = NEW(g->arena, Fusion)};
    s.f->graph = g;
    s.f->maker = NEW_N(g->arena, int, n);
    s.f->stored = NEW_N(g->arena, bool, n);
    s.f->why = NEW_N(g->arena, const char *, n);
    s.needed = NEW_N(g->arena, bool, n);
    s.is_output = NEW_N(g->arena, bool, n);
    s.in_place = NEW_N(g->arena, bool, n);
    s.weight = NEW_N(g->arena, int, n);
    s.heavy = NEW_N(g->arena, bool, n);
    s.deep = NEW_N(g->arena, bool, n);
    s.for_keys = NEW_N(g->arena, bool, n);
    s.reduces = NEW_N(g->arena, bool, n);
    s.gathers = NEW_N(g->arena, bool, n);
    s.constant = NEW_N(g->arena, bool, n);
    s.fixed = NEW_N(g->arena, bool, n);
    s.weights_of = NEW_N(g->arena, const Node *, n);
    s.places = NEW_N(g->arena, struct Places, n);
    for (uint32_t i = 0; i < n; i++) s.f->maker[i] = -1;
    for (uint32_t i = 0; i < g->outputs.n; i++)
        s.needed[g->outputs.at[i].node->id] = s.is_output[g->outputs.at[i].node->id] = true;
    for (uint32_t i = 0; i < g->donated.n; i++)
        if (!g->donated.at[i].refused) s.needed[g->donated.at[i].updated->id] = true;
    count_users(&s);
    weigh(&s);
    for (uint32_t i = n; i-- > 0 && !g_failed(g);) {
        Node *node = g->nodes.at[i];
        if (!s.needed[i] && s.places[i].at.n == 0) continue;
        if (s.f->maker[i] >= 0) continue;
        g_at(g, node->from);
        place(&s, node);
    }
    g_at(g, NULL);
    if (!g_failed(g)) order(&s);
    return g_failed(g) ? NULL : s.f;
}

// What may join: for each value the reason why it does not, in words that --emit=fusion prints; none, and it does.
//
//     a reduction      one group, at one place, whose rows are the kernel's rows (F4)
//     a product        one group, at one place, one to one with the root; or the scores of an attention, one more product of the same rows, or one that adds to the sum (F2)
//     an element       cheap enough to be computed as often as its places say, and not what a product would compute again for every tile (F1, F3)
//     anything         while the kernel is not too long, and does not read too much (F8)
#include "graph/fuse/internal.h"

enum { MAX_PLACES = 4, ROTARY = 12, MAX_NODES = 120, ONE_TILE = 256, MOST_READ = 32, MOST_SIZES = 24 };

static const char fuse_several[] = "a kernel that makes several values side by side takes in elements alone";

const char *fuse_reduce_refused(State *s, const Node *n) {
    int group = fuse_only_group(s, n);
    if (group < 0) return "a reduction that several kernels use is stored";
    if (s->places[n->id].at.n > 1) return "a reduction that a kernel needs at several places is stored";
    FGroup *f = fuse_group_at(s, group);
    const Ix *coord = s->places[n->id].at.at[0].coord;
    uint64_t axes = fuse_used_axes(coord, n->rank);
    if (f->kind != F_MAP && f->kind != F_ROWS) return "a product's kernel has no reductions beside it";
    if (f->anchor) return "a scan or sort has no reductions beside it";
    if (f->beside.n) return fuse_several;
    if (axes & ~((UINT64_C(1) << FIRST_REDUCED) - 1))
        return "it would be reduced again for every element of another reduction";
    if (f->kind == F_ROWS && axes != f->rows) return "its rows are not those of the kernel";
    if (!fuse_covers(s, n, f, coord, axes)) return "each row would be reduced several times";
    bool alone = f->kind == F_MAP;                           // nothing in the kernel but a number for each row
    for (int i = 0; i < f->root->rank && alone; i++) alone = axes >> i & 1 || ix_is(f->root->shape[i], 1);
    if (!alone && graph_longer_than_kept(n)) return "its rows are too long to be kept: they are reduced by themselves";
    return NULL;
}

// Products of one left operand, element by element together, as in gated layers and recurrent cells: one loop with a sum for each.
static bool is_one_more(const State *s, const Node *n, const FGroup *f) {
    if (f->kind != F_PRODUCT || f->more.n == MOST_MORE || f->also.n || f->attends || !f->place || f->root == f->anchor) return false;
    const Node *a = f->anchor;
    const Ix *coord = s->places[n->id].at.at[0].coord;
    bool same = n->src[0] == a->src[0] && n->rank == a->rank && n->contract.nb == a->contract.nb &&
                n->contract.nm == a->contract.nm && n->contract.nn == a->contract.nn &&
                n->contract.nk == a->contract.nk && n->contract.acc == a->contract.acc && g_same_shape(n, a);
    for (int i = 0; i < n->rank && same; i++) same = coord[i] == f->place[i];
    return same;
}

// Is p an addend of x, in nothing else's hands on its way?
static bool adds_up(const State *s, const Node *x, const Node *p) {
    if (s->users[x->id] != 1 || s->result[x->id] || fuse_is_kept(x)) return false;
    if (x == p) return true;
    bool sum = x->kind == G_ew && x->op == EW_add && elem_is_float((Elem)x->elem), same = x->kind == G_view && ix_is(x->view.pred, 1);
    return ((sum || same) && adds_up(s, x->src[0], p)) || (sum && adds_up(s, x->src[1], p));
}

// Its left operand lies in rows of what is contracted, as TMA brings them: pictures with channels first, read as they are, do not.
static bool lies_in_rows(const Node *c) {
    const Node *a = c->src[0];
    if (a->kind != G_view) return true;
    int last = a->src[0]->rank - 1;
    while (last > 0 && ix_is(a->src[0]->shape[last], 1)) last--;
    return last >= 0 && a->view.coord[last]->axes >> (c->contract.nb + c->contract.nm) != 0;
}

// Few tiles with long sums are made in parts (lower/pass/split_k.c), which several loops in one kernel are not. An H200, bf16: 16 x 256 x (4096 + 4096) 11.9 us, as two kernels in
// parts 7.6; 16 x 768 x (1024 + 1024) 4.5, 6.4. In f32, 256 x 4096 x (1024 + 1024) 60.8 and 45.7, 1568 x 2048 x (512 + 1024) 93 and 103.
static bool wants_parts(Graph *g, const Node *n, const FGroup *f) {
    static const struct { int64_t tile, tiles, sum; } few[] = {{64, 32, 2048}, {128, 128, 512}};       // by what is multiplied: 16 bits and tf32; f32
    const Node *a = f->anchor;
    bool thrice = a->src[0]->elem == EL_f32 && !g->tables->tf32;
    int outer = a->contract.nb + a->contract.nm;
    int64_t tile = few[thrice].tile, most = few[thrice].sum, sum = 0;
    Ix rows = ix_product(g, a->shape, outer), columns = ix_product(g, a->shape + outer, a->contract.nn);
    for (uint32_t i = 0; i < 2 + f->also.n; i++) {
        const Node *c = i == 0 ? n : i == 1 ? a : f->also.at[i - 2];
        Ix k = ix_product(g, c->src[0]->shape + outer, c->contract.nk);
        sum += k && k->hi < most ? k->hi : most;
    }
    if (sum <= most) return false;
    return !rows || !columns || ((rows->lo + tile - 1) / tile) * ((columns->lo + tile - 1) / tile) < few[thrice].tiles;
}

// A product whose sum is added to the anchor's and not looked at before: the loop that makes it goes on with that one's. Of tiles that tensor cores have.
static bool may_add(const State *s, const Node *n, const FGroup *f, const Ix *coord) {
    const Node *a = f->anchor;
    if (f->kind != F_PRODUCT || f->attends || f->whole || f->parts >= 0 || !f->place || f->root == a || f->more.n || f->also.n == MOST_ALSO) return false;
    bool same = n->kind == G_contract && n->rank == a->rank && n->contract.nb == a->contract.nb && n->contract.nm == a->contract.nm &&
                n->contract.nn == a->contract.nn && n->contract.acc == a->contract.acc && g_same_shape(n, a);
    for (int i = 0; i < 2 && same; i++) same = n->src[i]->elem == a->src[0]->elem && a->src[i]->elem == a->src[0]->elem;
    for (int i = 0; i < n->rank && same; i++) same = coord[i] == f->place[i];
    bool small = elem_is_float((Elem)a->src[0]->elem) && elem_bits((Elem)a->src[0]->elem) == 16;
    bool words = a->src[0]->elem == EL_f32 && (s->g->tables->tf32 || (graph_large(s->g, a) && graph_large(s->g, n)));
    if (!same || !(small || words) || g_is_depthwise(s->g, a) || g_is_depthwise(s->g, n)) return false;
    if (!lies_in_rows(a) || !lies_in_rows(n) || wants_parts(s->g, n, f)) return false;
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        const Node *t = f->nodes.at[i];
        if (t->kind != G_ew || t->op != EW_add || !elem_is_float((Elem)t->elem)) continue;
        for (int k = 0; k < 2; k++) if (adds_up(s, t->src[k], n) && adds_up(s, t->src[1 - k], a)) return true;
    }
    return false;
}

// Does x, made of this product, lie in the group's rows, each in one tile of it (product.c)?
bool fuse_whole_rows(State *s, const Node *product, const Node *x) {
    const struct Places *p = &s->places[x->id];
    const Ix *coord[MAX_PLACES];
    int group = fuse_only_group(s, x);
    if (group < 0 || p->at.n > MAX_PLACES || s->result[x->id]) return false;
    for (uint32_t i = 0; i < p->at.n; i++) coord[i] = p->at.at[i].coord;
    return graph_rows_of_product(s->g, product, x, fuse_group_at(s, group), (int)p->at.n, coord);
}

bool fuse_adds(const State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    int group = fuse_only_group(s, n);
    return group >= 0 && p->at.n == 1 && may_add(s, n, fuse_group_at(s, group), p->at.at[0].coord);
}

const char *fuse_product_refused(State *s, const Node *n) {
    int group = fuse_only_group(s, n);
    if (group < 0) return "a product that several kernels use is stored";
    if (s->places[n->id].at.n > 1) return "a product that a kernel needs at several places is stored";
    FGroup *f = fuse_group_at(s, group);
    if (f->beside.n) return fuse_several;
    if (f->attends && !f->inner) {                           // the scores of an attention
        const Ix *coord = s->places[n->id].at.at[0].coord;
        Ix key = n->rank > 0 ? coord[n->rank - 1] : NULL;
        bool keys = key && key->kind == IX_AXIS && key->value == f->along && n->contract.nn == 1 && n->contract.nk == 1;
        for (int i = 0; keys && i < n->rank - 1; i++) keys = !(coord[i]->axes >> f->along & 1);
        if (!keys) return "scores in another order than their softmax";
        return fuse_short_enough(n->src[0]->shape[n->src[0]->rank - 1]) ? NULL : "heads are too long to keep";
    }
    if (is_one_more(s, n, f) || fuse_adds(s, n)) return NULL;
    if (f->kind != F_MAP)
        return f->kind == F_PRODUCT ? "a kernel has one product" : "a product is not computed in a kernel of rows";
    const Ix *coord = s->places[n->id].at.at[0].coord;
    if (!fuse_covers(s, n, f, coord, fuse_product_axes(s, f))) return "its elements are not one to one with those of the kernel";
    return graph_apart_in_memory(s->g, n, f, coord) ? "its rows would be stored by single elements" : NULL;
}

bool fuse_is_kept(const Node *n) { return n->kind == G_cast && n->cast.kept; }

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
    if (f->attends || f->more.n || f->also.n || s->reduces[n->id] || own_weight(s, n) > CHEAP || s->places[n->id].at.n > 1) return false;
    Ix across = ix_product(g, c->shape + c->contract.nb + c->contract.nm, c->contract.nn);
    return across && across->hi <= ONE_TILE && g_count(g, n) == g_count(g, c->src[0]);
}

// Would its product be stored, and it computed by those that read that?
static bool leaves_product(State *s, const Node *n, const FGroup *f, const Ix *coord) {
    const Node *p = s->epilogue[n->id];
    if (!p || f->attends || fuse_whole_rows(s, p, n)) return false;
    if (g_same_shape(n, p) && may_add(s, p, f, coord)) return false;
    if (f->kind == F_PRODUCT) return f->more.n == MOST_MORE || f->also.n || p->src[0] != f->anchor->src[0];
    return f->kind != F_MAP || !fuse_covers(s, n, f, coord, fuse_product_axes(s, f)) || graph_apart_in_memory(s->g, n, f, coord);
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

const char fuse_large[] = "the kernel is large enough", fuse_crowded[] = "the kernel reads enough";

// How many more values a group would read that takes n in.
static int values_more(const State *s, const Node *n, int group) {
    GNum literal;
    int more = -1;
    for (uint32_t k = 0; k < n->nsrc; k++) more += !g_scalar_value(n->src[k], &literal) && !fuse_placed_in(s, n->src[k], group);
    return more;
}

// Sizes that are no numbers, each once: a kernel can name 32, merged ones among them.
static int sizes_of(const Node *n, Ix *seen, int count) {
    for (int d = 0; d < n->rank; d++) {
        bool known = ix_is_const(n->shape[d]);
        for (int i = 0; i < count && !known; i++) known = seen[i] == n->shape[d];
        if (!known && count <= MOST_SIZES) seen[count++] = n->shape[d];
    }
    return count;
}

static bool many_sizes(const State *s, const FGroup *f, const Node *n) {
    Ix seen[MOST_SIZES + 1];
    int count = 0;
    if (ix_dim_count(s->g) <= MOST_SIZES / 2) return false;
    for (uint32_t i = 0; i <= f->nodes.n && count <= MOST_SIZES; i++) {
        const Node *x = i < f->nodes.n ? f->nodes.at[i] : n;
        count = sizes_of(x, seen, count);
        for (uint32_t k = 0; k < x->nsrc; k++) count = sizes_of(x->src[k], seen, count);
    }
    return count > MOST_SIZES;
}

// Would a kernel grow too long with it, or read more than a kernel can have parameters?
const char *fuse_grows_too_large(const State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    for (uint32_t i = 0; i < p->at.n; i++) {
        const FGroup *f = fuse_group_at(s, p->at.at[i].group);
        if (f->nodes.n > MAX_NODES) return fuse_large;
        if (many_sizes(s, f, n)) return fuse_crowded;
        int more = fuse_first_there(p, i) ? values_more(s, n, p->at.at[i].group) : 0;
        if (more > 0 && s->open[p->at.at[i].group] + (int)f->makes.n + more > MOST_READ) return fuse_crowded;
    }
    return NULL;
}

// Computed in a few steps from what will be in memory and from a few numbers for each of its rows: what several kernels use
// of it is those numbers, and each computes the rest.
static bool of_statistics(State *s, const Node *n, Ix size, int steps) {
    enum { AS_MANY = 16 };
    if (!s->heavy[n->id] || s->epilogue[n->id] || n->kind == G_contract || fuse_is_kept(n)) return true;
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
const char *fuse_element_refused(State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    bool several = fuse_only_group(s, n) < 0;
    if (p->many) return "it is needed at too many places";
    if (several && s->gathers[n->id] && s->weight[n->id] > 0) return "several kernels use it, and it is gathered";
    bool statistics = several && s->heavy[n->id] && !s->epilogue[n->id] && own_weight(s, n) <= CHEAP &&
                      of_statistics(s, n, g_count(s->g, n), CHEAP);
    bool converted = n->kind == G_cast && n->rank == 0 && elem_is_int((Elem)n->src[0]->elem);      // one number, in another type
    if (several && s->heavy[n->id] && !statistics && !converted) return "several kernels use it, and a product or reduction is in it";
    if (several && !converted && (s->deep[n->id] || s->weight[n->id] > CHEAP)) return "several kernels use it, and it is not cheap";
    if (!several && p->at.n > MAX_PLACES && s->weight[n->id] > FREE) return "it is needed at many places";
    for (uint32_t i = 0; i < p->at.n; i++) {
        FGroup *f = fuse_group_at(s, p->at.at[i].group);
        uint64_t axes = fuse_used_axes(p->at.at[i].coord, n->rank),
                 all = s->heavy[n->id] ? fuse_product_axes(s, f) : fuse_all_root_axes(s, f);
        bool again = f->attends             ? false
                     : f->kind == F_PRODUCT ? (axes & all) != all && !read_once(s, n, f)
                                            : f->kind == F_MAP && (axes & all) != all;
        bool scores = f->attends && (axes >> f->along & 1) && (axes & all) && !f->inner;
        bool of_keys = f->attends && !s->for_keys[n->id] && (axes >> f->along & 1) &&
                       !(axes & fuse_all_root_axes(s, f) & ~batch_axes(f));
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
    return fuse_grows_too_large(s, n);
}

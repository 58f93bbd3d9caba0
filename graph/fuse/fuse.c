// Fusion: from users to sources, every value either joins the kernels that use it or is kept in memory.
//
// For each value it is known in which groups it would be computed, and there at which places: coordinates as index
// expressions of the group's axes. Views and index values always vanish into those. For the others:
//
//   F1  an elementwise value joins its only group; with several groups it joins all if it is cheap, so that it is computed
//       again rather than stored;
//   F2  a contraction joins a group as its anchor if its places there are one to one with the root's: what follows it is its
//       epilogue, transposed or not;
//       several whose sums are added up before anything looks at them are a loop each, one after the other;
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
//   F9  the parts of a large concatenation are stored in their places by the kernels that make them (parts.c);
//   F10 it is made beside another value of its shape that is made of the same (beside.c);
//   F11 numbers for each row of a tile of a product's columns are made by the product's kernel (numbers.c);
//   F0  with --opt=none (g_set_unoptimised) none of the others holds: what is computed is stored, by a group of its own;
//   F12 otherwise it is stored by a group of its own, and the reason is kept.

#include "graph/fuse/internal.h"

static const char apart[] = "--opt=none: every value has a kernel";

static void store(State *s, Node *n, int group, const char *why) {
    const struct Places *p = &s->places[n->id];
    s->f->maker[n->id] = group;
    s->f->stored[n->id] = true;
    s->f->why[n->id] = why;
    vec_push(s->g->arena, &fuse_group_at(s, group)->makes, n);
    for (uint32_t i = 0; i < p->at.n; i++) fuse_reads_add(s, p->at.at[i].group, group);
    const Node *of = s->f->part[n->id].of;
    for (uint32_t i = 0; of && i < s->places[of->id].at.n; i++) fuse_reads_add(s, s->places[of->id].at.at[i].group, group);
}

// Does it lie as the root does?
static bool in_order(const State *s, const Node *n, const FGroup *f, const Ix *coord) {
    bool same = g_same_shape(n, f->root);
    for (int i = 0; same && i < n->rank; i++) same = coord[i] == ix_axis(s->g, i, n->shape[i]);
    return same;
}

// A group that computes n in passing and may store it.
static int passing(State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    bool heavy = s->heavy[fuse_is_kept(n) ? n->src[0]->id : n->id];
    if (p->many) return -1;
    for (uint32_t i = 0; i < p->at.n; i++) {
        FGroup *f = fuse_group_at(s, p->at.at[i].group);
        uint64_t all = fuse_all_root_axes(s, f);
        // a mean, by the kernel of the variance
        bool row = f->kind == F_ROWS && s->reduces[n->id] && fuse_used_axes(p->at.at[i].coord, n->rank) == f->rows;
        // what a product makes on the way, by the kernel of what is made of it, in the same order: a cell's state
        bool made = f->kind == F_MAP && !f->beside.n && f->parts < 0 && !s->reduces[n->id] && (n->kind == G_ew || n->kind == G_cast) && in_order(s, n, f, p->at.at[i].coord);
        // one number, by the kernel of another one: a scale, by that of the zero point
        bool number = f->kind == F_MAP && !f->beside.n && n->rank == 0 && f->root->rank == 0 && n->kind == G_ew;
        if ((heavy || s->result[n->id]) && !row && !made && !number) continue;
        if (f->kind == F_SCATTER || f->kind == F_PRODUCT || f->anchor || fuse_makes_part(s, f) || !fuse_covers(s, n, f, p->at.at[i].coord, all)) continue;
        bool cycle = false, again = heavy || s->result[n->id];   // .. or gathered from by the same kernel, or made again where it is not to be
        for (uint32_t k = 0; k < p->at.n; k++)
            cycle |= p->at.at[k].group != p->at.at[i].group ? fuse_depends(s, p->at.at[i].group, p->at.at[k].group, 0)
                                                            : (k != i && again) || (fuse_used_axes(p->at.at[k].coord, n->rank) >> FIRST_VALUE) != 0;
        if (!cycle) return (int)i;
    }
    return -1;
}

// Stored where that place is; computed again at others of the same group.
static void made_passing(State *s, Node *n, int via, const char *why) {
    Place p = s->places[n->id].at.at[via];
    store(s, n, p.group, why);
    s->f->passing[n->id] = p.coord;
    for (uint32_t i = 0; i < s->places[n->id].at.n; i++)
        if (s->places[n->id].at.at[i].group == p.group) fuse_push(s, n, p.group, s->places[n->id].at.at[i].coord);
}

// A group of the same rows that reduces them in passing and may store the result: a mean by the kernel of the variance.
static int passing_rows(State *s, const Node *n) {
    const struct Places *p = &s->places[n->id];
    if (p->many || s->result[n->id] || graph_longer_than_kept(n)) return -1;
    for (uint32_t i = 0; i < p->at.n; i++) {
        FGroup *f = fuse_group_at(s, p->at.at[i].group);
        uint64_t axes = fuse_used_axes(p->at.at[i].coord, n->rank);
        if (f->kind != F_ROWS || f->anchor || fuse_makes_part(s, f) || axes != f->rows || !fuse_covers(s, n, f, p->at.at[i].coord, axes)) continue;
        bool fits = true;                                    // at one place, and no cycle
        for (uint32_t k = 0; k < p->at.n && fits; k++)
            fits = k == i || (p->at.at[k].group != p->at.at[i].group && !fuse_depends(s, p->at.at[i].group, p->at.at[k].group, 0));
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

static void updates_in_place(State *s, Node *n, int group) {
    Ix axis[G_MAX_RANK];
    s->in_place[n->src[0]->id] = true;
    for (uint32_t k = 0; k < n->nsrc; k++) {
        for (int i = 0; i < n->src[k]->rank; i++) axis[i] = ix_axis(s->g, i, n->src[k]->shape[i]);
        fuse_place_add(s, n->src[k], group, axis);
    }
    vec_push(s->g->arena, &fuse_group_at(s, group)->nodes, n);
}

static void join_beside(State *s, Node *n, int group, const char *why) {
    FGroup *f = fuse_group_at(s, group);
    Ix axis[G_MAX_RANK];
    store(s, n, group, why);
    vec_push(s->g->arena, &f->beside, n);
    fuse_root_axes(s->g, f, axis);
    if (n->kind == G_scatter) updates_in_place(s, n, group);
    else fuse_push(s, n, group, axis);
}

static void own_group(State *s, Node *n, const char *why) {
    Ix axis[G_MAX_RANK];
    int other = why == apart ? -1 : fuse_beside(s, n);
    if (other >= 0) {
        join_beside(s, n, other, why);
        return;
    }
    bool turned = why != apart && of_rows(s, n);
    Node *root = turned ? n->src[0] : n;
    bool rows = n->kind == G_reduce || n->kind == G_scan || n->kind == G_sort;
    FKind kind = n->kind == G_contract ? F_PRODUCT : n->kind == G_scatter ? F_SCATTER : rows ? F_ROWS : F_MAP;
    int group = fuse_new_group(s, kind, root);
    FGroup *f = fuse_group_at(s, group);
    int count = fuse_root_axes(s->g, f, axis);
    store(s, n, group, why);
    if (turned) {
        f->as = n;
        fuse_place_add(s, root, group, axis);
        return;
    }
    if (n->kind == G_contract) f->place = copy_ixs(s->g, axis, count);
    if (n->kind == G_contract || n->kind == G_scan || n->kind == G_sort) f->anchor = n;
    if (n->kind == G_reduce) f->rows = (uint32_t)fuse_used_axes(axis, count);
    if (n->kind == G_scan || n->kind == G_sort) {
        int along = n->kind == G_scan ? n->scan.axis : n->sort.axis;
        f->rows = (uint32_t)fuse_used_axes(axis, count) & ~(1u << along);
        fuse_place_add(s, n->src[0], group, axis);
        vec_push(s->g->arena, &f->nodes, n);
    } else if (n->kind == G_scatter) {
        updates_in_place(s, n, group);
    } else {
        fuse_push(s, n, group, axis);
    }
}

static const char *laid_out(const Node *n) {
    return n->elem == n->src[0]->elem ? "in the order in which a product reads it" : "kept in fewer bits";
}

static void elementwise(State *s, Node *n) {
    if (graph_loaded(n)) return;
    const char *why = s->result[n->id]  ? s->result[n->id]
                      : s->in_place[n->id] ? "a scatter updates it in place"
                      : fuse_is_kept(n)         ? laid_out(n)
                                           : fuse_element_refused(s, n);
    if (!why) {
        fuse_join_all(s, n);
        return;
    }
    if (n->kind == G_concat && fuse_parts_in_place(s, n, why)) return;
    int via = why == fuse_large || why == fuse_crowded ? -1 : passing(s, n);
    if (via < 0) {
        own_group(s, n, why);
        return;
    }
    made_passing(s, n, via, why);
}

// A view of a product that is all that is read of it, each element once: if it must be stored, then in this order. Channels' own products of f32 are
// stored as they are made, rows of pixels: a product that reads them takes its rows from columns (16 x 64 x 512 x 512 by 3 x 3: 0.8 ms instead of 5.5).
static bool layout(State *s, const Node *n) {
    if (n->kind != G_view || n->src[0]->kind != G_contract || s->users[n->src[0]->id] != 1 || !ix_is(n->view.pred, 1))
        return false;
    if (n->elem == EL_f32 && g_is_depthwise(s->g, n->src[0])) return false;
    Ix axis[G_MAX_RANK], inverse[G_MAX_RANK];
    for (int i = 0; i < n->rank; i++) axis[i] = ix_axis(s->g, i, n->shape[i]);
    return map_invert(s->g, n->src[0]->rank, n->src[0]->shape, n->view.coord, n->rank, axis, inverse);
}

static bool has_dim(Ix e, Ix dim) {
    for (uint32_t i = 0; i < e->n && e->has_dim; i++)
        if (has_dim(e->arg[i], dim)) return true;
    return e == dim;
}

// The input that says a size of e.
static const GNamed *says_size(const Graph *g, Ix e) {
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        const Node *in = g->inputs.at[i].node;
        for (int d = 0; d < in->rank; d++)
            for (int dim = 0; dim < ix_dim_count(g); dim++)
                if (has_dim(in->shape[d], ix_dim_at(g, dim)) && has_dim(e, ix_dim_at(g, dim))) return &g->inputs.at[i];
    }
    return NULL;
}

static void no_kernel(State *s, const Node *n) {
    const Node *by = graph_settled_by(s->g, n);
    Buf size = {0};
    if (by && by->kind == G_index) {
        const GNamed *in = says_size(s->g, by->index.expr);
        ix_print(&size, s->g, by->index.expr, NULL);
        g_error(
            s->g,
            "a `loop` of %s trips has no form as a kernel, one of a known number has: the shape of %s settles it (--arg %s=zeros:%s[..])",
            size.p, in ? arena_printf(s->g->arena, "`%s`", in->name) : "an input", in ? in->name : "INPUT", in ? elem_name((Elem)in->node->elem) : "f32");
    } else if (by) {
        g_error(
            s->g,
            "an `if` whose sides have different shapes has no form as a kernel, one side has: a value for `%s` settles which (--arg %s=ones:%s[..])",
            by->name, by->name, elem_name((Elem)by->elem));
    } else {
        g_error(s->g, "`%s` has no form as a kernel: only the device `ref` runs it", n->kind == G_host ? n->host.op->name : g_kind_name[n->kind]);
    }
    buf_free(&size);
}

static void reduction(State *s, Node *n) {
    if (s->numbers[n->id] && !n->reduce.tile && !s->result[n->id]) {
        fuse_join_all(s, n);                                 // of a few numbers in memory, by whoever wants it
        return;
    }
    const char *why = s->result[n->id] ? s->result[n->id] : n->reduce.tile ? "of one tile of a product's columns" : fuse_reduce_refused(s, n);
    if (why && passing_rows(s, n) >= 0) {
        made_passing(s, n, passing_rows(s, n), why);
    } else if (why) {
        own_group(s, n, why);
    } else {
        FGroup *f = fuse_group_at(s, fuse_only_group(s, n));
        f->kind = F_ROWS;
        f->rows = (uint32_t)fuse_used_axes(s->places[n->id].at.at[0].coord, n->rank);
        fuse_join_all(s, n);
    }
}

// Of two products of one left operand: in the order of their columns, so that the kernels of all steps of a cell are one.
static bool stands_before(const Node *a, const Node *b) {
    const Node *x = a->src[1], *y = b->src[1];
    bool parts = x->kind == G_view && y->kind == G_view && x->src[0] == y->src[0];
    for (int i = 0; parts && i < x->src[0]->rank; i++)
        if (x->view.coord[i] != y->view.coord[i]) return x->view.coord[i]->lo < y->view.coord[i]->lo;
    return false;
}

static void one_more(State *s, FGroup *f, Node *n) {
    vec_push(s->g->arena, &f->more, n);
    for (uint32_t i = f->more.n; i-- > 0;) {
        Node **before = i ? &f->more.at[i - 1] : &f->anchor, *x = f->more.at[i];
        if (!stands_before(x, *before)) break;
        f->more.at[i] = *before;
        *before = x;
    }
}

static void product(State *s, Node *n) {
    bool whole = fuse_whole_rows(s, n, n);
    const char *why = whole ? NULL : s->result[n->id] ? s->result[n->id] : fuse_product_refused(s, n);
    if (why) {
        own_group(s, n, why);
        return;
    }
    FGroup *f = fuse_group_at(s, fuse_only_group(s, n));
    if (f->attends) {
        f->inner = n;
        fuse_mark_keys(s, n->src[1]);
        if (elem_bits((Elem)n->src[0]->elem) == 16) fuse_mark_keys(s, n->src[0]);   // tensor cores take all of them from memory
    } else if (f->kind == F_PRODUCT && fuse_adds(s, n)) {
        vec_push(s->g->arena, &f->also, n);
    } else if (f->kind == F_PRODUCT) {
        one_more(s, f, n);
    } else {
        f->kind = F_PRODUCT;
        f->anchor = n;
        f->whole = whole;
        f->place = s->places[n->id].at.at[0].coord;
        if (whole) s->places[n->id].at.n = 1;                // the others are the same row
    }
    fuse_join_all(s, n);
}

// Steps are launches of their body's kernels: what they are given is in memory, and so is what they give.
static void steps(State *s, Node *n) {
    Ix axis[G_MAX_RANK];
    int group = fuse_new_group(s, F_STEPS, n);
    FGroup *f = fuse_group_at(s, group);
    Graph *body = n->steps.body;
    f->anchor = n;
    s->f->maker[n->id] = group;
    vec_push(s->g->arena, &f->nodes, n);
    for (uint32_t k = 0; k < n->nsrc; k++) {
        Node *x = n->src[k];
        for (int i = 0; i < x->rank; i++) axis[i] = ix_axis(s->g, i, x->shape[i]);
        fuse_place_add(s, x, group, axis);
        if (!s->result[x->id]) s->result[x->id] = "the steps of a loop read it";
    }
    graph_simplify(body);
    f->step = graph_fuse(body);
    if (!f->step) g_error(s->g, "%s", g_failed(body));
}

// Of a sort: both results are the sort's. Likewise of steps.
static void projection(State *s, Node *n) {
    const struct Places *p = &s->places[n->id];
    Node *sort = n->src[0];
    if (sort->kind != G_sort && sort->kind != G_steps) {
        no_kernel(s, sort);
        return;
    }
    if (s->f->maker[sort->id] < 0 && sort->kind == G_steps) steps(s, sort);
    else if (s->f->maker[sort->id] < 0) own_group(s, sort, NULL);
    int group = s->f->maker[sort->id];
    s->f->maker[n->id] = group;
    s->f->stored[n->id] = true;
    vec_push(s->g->arena, &fuse_group_at(s, group)->makes, n);
    for (uint32_t i = 0; i < p->at.n; i++) fuse_reads_add(s, p->at.at[i].group, group);
}

// A result of the model that is one of steps, with axes of 1 more or less: the same memory.
static bool seen_so(const State *s, const Node *n) {
    int next = 0;
    if (!s->result[n->id] || s->in_place[n->id] || n->kind != G_view || n->src[0]->kind != G_proj || n->src[0]->src[0]->kind != G_steps) return false;
    for (int d = 0; d < n->src[0]->rank; d++) {
        if (ix_is(n->src[0]->shape[d], 1)) continue;
        while (next < n->rank && ix_is(n->shape[next], 1)) next++;
        if (next == n->rank || n->view.coord[d] != ix_axis(s->g, next, n->shape[next])) return false;
        next++;
    }
    return ix_is(n->view.pred, 1) && g_count(s->g, n) == g_count(s->g, n->src[0]);
}

// Movement costs nothing.
static void movement(State *s, Node *n) {
    const char *large = n->kind == G_gather ? fuse_grows_too_large(s, n) : NULL;
    if (seen_so(s, n)) {
        s->needed[n->src[0]->id] = true;
        fuse_join_all(s, n);
    } else if (s->result[n->id] || s->in_place[n->id] || s->places[n->id].many || layout(s, n)) elementwise(s, n);
    else if (large) own_group(s, n, large);
    else fuse_join_all(s, n);
}

// Computed, and not moved alone: those have a kernel each with --opt=none. Weights in another type are converted when they are loaded.
static bool stands_alone(const Node *n) {
    bool computes = n->kind == G_ew || n->kind == G_cast || n->kind == G_concat || n->kind == G_gather || n->kind == G_reduce ||
                    n->kind == G_contract || n->kind == G_scan || n->kind == G_sort || n->kind == G_scatter;
    return computes && !graph_loaded(n);
}

static void place(State *s, Node *n) {
    GNum literal;
    bool output = s->result[n->id] != NULL;
    if (g_scalar_value(n, &literal) && !output && !s->in_place[n->id]) return;
    if (fuse_is_weight(s, n) && !output && n->kind != G_proj) {          // all results of one node are made in one kernel
        const char *why = fuse_scattered(s, n)       ? "weights in the order in which their product reads them"
                          : fuse_computed_once(s, n) ? "made of weights alone"
                                                     : NULL;
        if (why) {
            own_group(s, n, why);
            return;
        }
    }
    if (s->g->tables->unoptimised && stands_alone(n)) {
        own_group(s, n, apart);
        return;
    }
    switch ((GKind)n->kind) {
    case G_input: case G_const: case G_param: break;
    case G_index: case G_view: case G_gather: movement(s, n); break;
    case G_ew: case G_cast: case G_concat: elementwise(s, n); break;
    case G_reduce: reduction(s, n); break;
    case G_contract: product(s, n); break;
    case G_scan: case G_sort: case G_scatter: own_group(s, n, NULL); break;
    case G_proj: projection(s, n); break;
    default: no_kernel(s, n);
    }
}

// Groups in an order in which each comes after what it reads.
static void order(State *s) {
    uint32_t n = s->f->groups.n;
    int *number = NEW_N(s->g->arena, int, n);
    VEC(FGroup *) sorted = {0};
    bool moved = true;
    uint32_t there = 0;
    for (uint32_t i = 0; i < n; i++) number[i] = -1, there += !s->f->groups.at[i]->gone;
    while (moved && sorted.n < there) {
        moved = false;
        for (uint32_t i = n; i-- > 0;) {                     // the last made come first: sources after users
            const FGroup *f = s->f->groups.at[i];
            bool ready = number[i] < 0 && !f->gone;
            for (uint32_t k = 0; k < f->reads.n && ready; k++) ready = number[f->reads.at[k]] >= 0;
            if (!ready) continue;
            number[i] = (int)sorted.n;
            vec_push(s->g->arena, &sorted, s->f->groups.at[i]);
            moved = true;
        }
    }
    if (sorted.n < there) {
        g_error(s->g, "kernels depend on each other");
        return;
    }
    s->f->groups.n = there;
    for (uint32_t i = 0; i < there; i++) {
        FGroup *f = sorted.at[i];
        for (uint32_t k = 0; k < f->reads.n; k++) f->reads.at[k] = number[f->reads.at[k]];
        s->f->groups.at[i] = f;
    }
    for (uint32_t i = 0; i < s->g->nodes.n; i++)
        if (s->f->maker[i] >= 0) s->f->maker[i] = number[s->f->maker[i]];
}

Fusion *graph_fuse(Graph *g) {
    fuse_own_rows(g);
    if (g_failed(g)) return NULL;
    uint32_t n = g->nodes.n;
    State s = {.g = g, .f = NEW(g->arena, Fusion)};
    s.f->graph = g;
    s.f->maker = NEW_N(g->arena, int, n);
    s.f->stored = NEW_N(g->arena, bool, n);
    s.f->passing = NEW_N(g->arena, const Ix *, n);
    s.f->why = NEW_N(g->arena, const char *, n);
    s.f->part = NEW_N(g->arena, FPart, n);
    s.f->begun = NEW_N(g->arena, int, n);
    s.f->row = NEW_N(g->arena, FRow, n);
    s.needed = NEW_N(g->arena, bool, n);
    s.result = NEW_N(g->arena, const char *, n);
    s.in_place = NEW_N(g->arena, bool, n);
    s.weight = NEW_N(g->arena, int, n);
    s.heavy = NEW_N(g->arena, bool, n);
    s.deep = NEW_N(g->arena, bool, n);
    s.for_keys = NEW_N(g->arena, bool, n);
    s.reduces = NEW_N(g->arena, bool, n);
    s.gathers = NEW_N(g->arena, bool, n);
    s.numbers = NEW_N(g->arena, bool, n);
    s.constant = NEW_N(g->arena, bool, n);
    s.fixed = NEW_N(g->arena, bool, n);
    s.weights_of = NEW_N(g->arena, const Node *, n);
    s.places = NEW_N(g->arena, struct Places, n);
    for (uint32_t i = 0; i < n; i++) s.f->maker[i] = s.f->begun[i] = -1;
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        GNamed o = g->outputs.at[i];
        s.needed[o.node->id] = true;
        if (!o.handed || !s.result[o.node->id]) s.result[o.node->id] = o.handed ? o.handed : "a result of the model";
    }
    for (uint32_t i = 0; i < g->donated.n; i++)
        if (!g->donated.at[i].refused) s.needed[g->donated.at[i].updated->id] = true;
    fuse_count_users(&s);
    fuse_rows(&s);
    fuse_weigh(&s);
    for (uint32_t i = n; i-- > 0 && !g_failed(g);) {
        Node *node = g->nodes.at[i];
        if (!s.needed[i] && s.places[i].at.n == 0) continue;
        if (s.f->maker[i] >= 0) continue;
        g_at(g, node->from);
        place(&s, node);
    }
    g_at(g, NULL);
    if (!g_failed(g)) fuse_numbers(&s);
    fuse_rows_alone(&s);
    if (!g_failed(g)) order(&s);
    fuse_order_parts(&s);
    return g_failed(g) ? NULL : s.f;
}

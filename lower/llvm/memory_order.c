// What one thread of a program wrote and another one touches next: memory in the order in which the program is written.
//
//     y[m, n] = 0;                            the thread that has n writes 0 there ..
//     y[m, where(keep, place, N)] = v;        .. and another one a value: after it, so all threads meet in between
//
// The threads meet at a barrier before an access that may touch a place which another thread has touched since they met
// last, one of the two a store or an atomic. No two threads are concerned, and nothing is done, where
//
//     - both accesses give each place to the same thread: each axis of the tile stands alone in an index, which is the
//       same in both, and both tiles have one layout;
//     - the places differ: y[m, 2 * i] and y[m, 2 * i + 1], dx[m, n] and dx[m, N + n]; in a loop y[m, k] of its own k.
//
// Of an enclosing loop, an access meets those of the trips before, itself among them. Atomics of one kind have no order.
#include "lower/facts/access.h"
#include "lower/llvm/gen.h"

typedef struct Place {              // one access to a tensor
    const Op     *op;
    const Type   *type;             // of what is moved
    const Layout *layout;
} Place;

static bool touches(const Op *op) { return op->code == OP_T_load || op->code == OP_T_store || op->code == OP_T_atomic; }

static Place place_of(const Op *op) {
    const Val *v = op->code == OP_T_store ? op->in[1 + op->nidx] : op->out[0];
    return (Place){op, &v->type, v->type.rank ? v->layout : NULL};
}

static bool defined_in(const Val *v, const Op *loop) {
    const Region *r = v->def ? v->def->parent : v->region;
    for (; r && r->owner; r = r->owner->parent) if (r->owner == loop) return true;
    return false;
}

// An index along which one axis alone runs.
static bool runs_along(const Val *index, const Val *axis, Affine *a) {
    return affine_of(index, a) && !a->ntile && a->naxis == 1 && a->axis[0].axis == axis && !a->axis[0].scale && a->axis[0].k == 1;
}

// Where the lanes of a range begin: at a multiple of how many there are, but for the constant.
static bool begins_at_multiples(Facts *f, const Affine *a, int64_t lanes) {
    for (int i = 0; i < a->nterm; i++) if (a->term[i].k % lanes && !fact_known_multiple(f, a->term[i].v, lanes)) return false;
    return true;
}

// The place alone says which lane of the axis it is, the same in both accesses.
static bool same_lane(Facts *f, const Val *x, const Val *along_x, const Val *y, const Val *along_y, const Op *loop) {
    Affine  a, b;
    int64_t lanes = axis_extent(along_x);
    if (lanes != axis_extent(along_y) || !runs_along(x, along_x, &a) || !runs_along(y, along_y, &b)) return false;
    if ((a.c - b.c) % lanes == 0 && begins_at_multiples(f, &a, lanes) && begins_at_multiples(f, &b, lanes)) return true;
    for (int i = 0; i < a.nterm && loop; i++) if (defined_in(a.term[i].v, loop)) return false;
    return along_x == along_y && fact_same(x, y);
}

// Each place is the same thread's in both. Stores have one thread for each place; loads may have several.
static bool same_thread(Facts *f, const Place *x, const Place *y, const Op *loop) {
    bool loads = x->op->code == OP_T_load || y->op->code == OP_T_load;
    if (x->type->rank != y->type->rank || x->op->nidx != y->op->nidx) return false;
    if (x->type->rank == 0) return !loads;
    if (!x->layout || !y->layout || !layout_equal(x->layout, y->layout)) return false;
    if (loads && layout_replica_warps(x->layout)) return false;
    for (int i = 0; i < x->type->rank; i++) {
        bool found = axis_extent(x->type->axis[i]) == 1 && axis_extent(y->type->axis[i]) == 1;
        for (int d = 0; d < x->op->nidx && !found; d++)
            found = same_lane(f, x->op->in[1 + d], x->type->axis[i], y->op->in[1 + d], y->type->axis[i], loop);
        if (!found) return false;
    }
    return true;
}

// c + k * (one axis or nothing), both of the same terms, never meet.
static bool steps_apart(const Affine *x, const Affine *y) {
    if (x->ntile || y->ntile || x->nterm != y->nterm || x->naxis != y->naxis || x->naxis > 1) return false;
    for (int i = 0; i < x->nterm; i++) if (x->term[i].v != y->term[i].v || x->term[i].k != y->term[i].k) return false;
    int64_t apart = x->c > y->c ? x->c - y->c : y->c - x->c;
    if (x->naxis == 0) return apart != 0;
    const AffAxis *a = &x->axis[0], *b = &y->axis[0];
    if (a->axis != b->axis || a->k != b->k || a->scale || b->scale || a->k == 0) return false;
    int64_t k = a->k < 0 ? -a->k : a->k;
    return apart % k != 0 || apart / k >= axis_extent(a->axis);
}

// A bound of a sum of axes and sizes, as the launcher computes it: one past the last live index, or the first one.
static bool bound_of(Facts *f, const Val *v, bool end, LExpr *out) {
    const Op *d = v->def;
    LExpr     x, y;
    if (v->type.rank == 0) return host_expr(f, v, out);
    if (d && d->code == OP_T_index) {
        const Val *at = end ? axis_hi(d->in[0]) : axis_lo(d->in[0]);
        if (host_expr(f, at, out)) return true;
        *out = launch_const(facts_fn(f)->arena, 0);
        return !end && fact_range(f, at).lo >= 0;
    }
    if (!d || d->code != OP_T_binary || d->sub != OP_add || !bound_of(f, d->in[0], end, &x) || !bound_of(f, d->in[1], end, &y))
        return false;
    *out = launch_join(facts_fn(f)->arena, L_ADD, x, y);
    return true;
}

// x ends where y begins, or before: n of 0 .. N and N + n.
static bool behind(Facts *f, const Val *x, const Val *y) {
    LExpr end, begin;
    return x->type.rank > 0 && x->type.rank < 2 && bound_of(f, x, true, &end) && bound_of(f, y, false, &begin) &&
           fact_host_at_most(f, end, begin);
}

static bool other_places(Facts *f, const Op *x, const Op *y) {
    if (x->nidx != y->nidx) return false;
    for (int d = 0; d < x->nidx; d++) {
        const Val *a = x->in[1 + d], *b = y->in[1 + d];
        Affine p, q;
        if (behind(f, a, b) || behind(f, b, a)) return true;
        if (affine_of(a, &p) && affine_of(b, &q) && steps_apart(&p, &q)) return true;
    }
    return false;
}

// The index moves on with the loop, past all that a trip touches.
static bool moves_on(const Val *index, const Op *loop) {
    if (loop->code != OP_T_for) return false;
    const Val *counter = loop->reg[0]->args.at[0], *step = loop->in[2];
    Affine a;
    if (!affine_of(index, &a) || a.ntile || a.naxis > 1 || (a.naxis && a.axis[0].scale)) return false;
    int64_t k = 0;
    for (int i = 0; i < a.nterm; i++) {
        if (a.term[i].v == counter) k = a.term[i].k;
        else if (defined_in(a.term[i].v, loop)) return false;
    }
    if (!k || a.naxis == 0) return k != 0;
    int64_t by = step->def && step->def->code == OP_T_const ? step->def->imm : 1;
    return a.axis[0].k == k && by >= axis_extent(a.axis[0].axis);
}

static bool same_begin(const Val *x, const Val *y) {
    Affine a, b;
    if (!affine_of(x, &a) || !affine_of(y, &b) || a.c != b.c || a.nterm != b.nterm) return false;
    for (int i = 0; i < a.nterm; i++) if (a.term[i].v != b.term[i].v || a.term[i].k != b.term[i].k) return false;
    return true;
}

static bool other_trips(const Op *x, const Op *y, const Op *loop) {
    for (int d = 0; d < x->nidx && x->nidx == y->nidx; d++)
        if (moves_on(x->in[1 + d], loop) && moves_on(y->in[1 + d], loop) && same_begin(x->in[1 + d], y->in[1 + d])) return true;
    return false;
}

static bool of_one_kind(const Op *was, const Op *op) {
    return was->code == OP_T_atomic && op->code == OP_T_atomic && was->sub == op->sub && was->sub != TA_xchg && was->sub != TA_cas;
}

// Another thread may have what `op` touches from `was`, of the same trip (no loop) or an earlier one.
static bool conflict(Facts *f, const Op *was, const Op *op, const Op *loop) {
    if (was->code == OP_T_load && op->code == OP_T_load) return false;
    if (of_one_kind(was, op)) return false;
    if (loop ? other_trips(was, op, loop) : was == op || other_places(f, was, op)) return false;
    Place x = place_of(was), y = place_of(op);
    return !same_thread(f, &x, &y, loop);
}

static bool meets_any(Facts *f, const Region *r, const Op *op, const Op *loop, bool stores, bool loads) {
    for (const Op *was = op_walk(r, NULL); was; was = op_walk(r, was))
        if (touches(was) && was->in[0] == op->in[0] && (was->code == OP_T_load ? loads : stores) && conflict(f, was, op, loop))
            return true;
    return false;
}

static bool stores_in(const Region *r, const Val *tensor) {
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op))
        if (touches(op) && op->code != OP_T_load && op->in[0] == tensor) return true;
    return false;
}

// A load may be a copy that other threads make: it waits for all stores.
static bool load_meets(const Op *op, bool stored) {
    for (const Region *r = op->parent; r && r->owner && !stored; r = r->owner->parent)
        if (r->owner->code != OP_T_if) stored = stores_in(r, op->in[0]);
    return stored;
}

static bool store_meets(const Gen *g, const Op *op, bool stored, bool loaded) {
    bool meets = (stored || loaded) && meets_any(g->facts, &g->f->body, op, NULL, stored, loaded);
    for (const Region *r = op->parent; r && r->owner && !meets; r = r->owner->parent)
        if (r->owner->code == OP_T_for || r->owner->code == OP_T_while)
            for (int i = 0; i < r->owner->nreg && !meets; i++)
                meets = meets_any(g->facts, r->owner->reg[i], op, r->owner, true, true);
    return meets;
}

void gen_order(Gen *g, const Op *op) {
    int      p = (int)op->in[0]->def->imm;
    uint64_t bit = UINT64_C(1) << p;
    bool     stored = (g->dirty & bit) != 0, loaded = (g->read & bit) != 0;
    if (g->f->launch->params[p].mode == PM_IN) return;
    if (op->code == OP_T_load) {
        if (load_meets(op, stored)) gen_barrier(g);
        g->read |= bit;
    } else {
        if (store_meets(g, op, stored, loaded)) gen_barrier(g);
        g->dirty |= bit;
    }
}

// ---- through raw pointers ------------------------------------------------------------------------

static bool by_pointer(const Op *op) {
    return op->code == OP_T_ptrload || op->code == OP_T_ptrstore || (op->code == OP_T_atomic && op->in[0]->type.kind != TY_TENSOR);
}

// The parameter that a pointer was computed from; -1: not one alone. Parameters do not overlap.
static int pointer_of(const Val *p) {
    while (p->def && p->def->code != OP_T_scalar) {
        const Val *from = NULL;
        for (int i = 0; i < p->def->nin; i++) if (p->def->in[i]->type.ptr) from = from ? p : p->def->in[i];
        if (!from || from == p) return -1;
        p = from;
    }
    return p->def ? (int)p->def->imm : -1;
}

static bool pointers_meet(const Op *was, const Op *op, const Op *loop) {
    if (!by_pointer(was) || (was->code == OP_T_ptrload && op->code == OP_T_ptrload) || of_one_kind(was, op)) return false;
    const Val *x = was->in[0], *y = op->in[0];
    int        p = pointer_of(x), q = pointer_of(y);
    if (p != q && p >= 0 && q >= 0) return false;
    bool replicas = !x->type.rank || !x->layout || !y->layout || layout_replica_warps(x->layout);
    return loop || replicas || x->type.rank != y->type.rank || !layout_equal(x->layout, y->layout) || !fact_same(x, y);
}

void gen_order_pointers(Gen *g, const Op *op) {
    int      p = pointer_of(op->in[0]);
    uint64_t bit = p >= 0 ? UINT64_C(1) << p : 0;
    bool     meets = false;
    for (const Op *was = op_walk(&g->f->body, NULL); was && (g->dirty | g->read) && !meets; was = op_walk(&g->f->body, was))
        meets = was != op && (!bit || (g->dirty | g->read) & bit) && pointers_meet(was, op, NULL);
    for (const Region *r = op->parent; r && r->owner && !meets; r = r->owner->parent)
        for (const Op *was = r->owner->code != OP_T_if ? op_walk(r, NULL) : NULL; was && !meets; was = op_walk(r, was))
            meets = pointers_meet(was, op, r->owner);
    if (meets) gen_barrier(g);
    if (!bit) bit = ~UINT64_C(0);
    if (op->code == OP_T_ptrload) g->read |= bit;
    else g->dirty |= bit;
}

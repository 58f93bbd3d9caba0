// Anchors: the layouts that something dictates, in the order in which they may ask.
//
//     gathers     rows that a producer copies: whose lane has whose number
//     products    accumulators and operands of mma.sync and wgmma
//     few         a few numbers for each row of those, folded behind the product: where the row is, over the lanes that share it
//     joined      by a function, along what is not neighbouring in memory: in a lane's registers, and in few warps
//     states      what a loop carries that no access of a trip is as large as, h[c, s] = f h + x[c] b[s]: accesses are its projections
//     memory      neighbouring lanes on neighbouring bytes; the deepest in loops and the largest first
//     folds       of what nothing in memory has the form of: its result's layout, lifted
//     the rest    a plain one
//
// From each one the layout flows (assign.c) before the next is asked.
#include "lower/layout/assign.h"

enum { COPY_WARPS = 4 };             // of a producer that gathers
enum { FOLDED = 8 };                 // elements of a short row that a lane holds: softmax of 262144 x 50 17.9 us, 24.4 where all lanes share a row

static Val *root_of(const Assign *s, Val *axis) {
    while (s->root[axis->id]) axis = s->root[axis->id];
    return axis;
}

static int same_lanes(const Assign *s, const Type *t, Val *axis) {      // position in t of the axis, or of one renamed to it
    for (int i = 0; i < t->rank; i++) if (root_of(s, t->axis[i]) == root_of(s, axis)) return i;
    return -1;
}

static void join_renamed(Assign *s) {
    s->root = NEW_N(s->f->arena, Val *, s->f->nvals + 1);
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *op = s->all.at[i];
        Val *from = op->code == OP_T_rename ? root_of(s, op->in[1]) : NULL, *to = from ? root_of(s, op->in[2]) : NULL;
        if (from != to) s->root[from->id] = to;
    }
}

// Axes of the type that some reduction folds, scan or sort runs along, while another axis stays: partial results would
// cross warps; and those that a load of fewer axes lacks: a thread that has several places along them loads once.
static uint32_t reduced(const Assign *s, const Type *t) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *op = s->all.at[i];
        bool along = assign_keeps_axis(op);
        for (int k = op_first_axis(op); k < op->nin && (op->code == OP_T_reduce || op->code == OP_T_reduce_by || along); k++) {
            int pos = same_lanes(s, t, op->in[k]);
            if (pos >= 0 && op->out[0]->type.rank > along) mask |= 1u << pos;
        }
        if (op->code != OP_T_load || op->out[0]->type.rank == 0 || !assign_subset(&op->out[0]->type, t)) continue;
        for (int k = 0; k < t->rank; k++) if (type_axis(&op->out[0]->type, t->axis[k]) < 0) mask |= 1u << k;
    }
    return mask;
}

static const Layout *plain_near(Assign *s, const Type *t, int first, int vec, int near) {
    Blocked b = {.vec = vec, .warps = s->f->warps, .near = near, .keep = reduced(s, t)};
    int n = 0;
    if (first >= 0) b.order[n++] = first;
    for (int i = t->rank - 1; i >= 0; i--) if (i != first) b.order[n++] = i;
    if (s->f->plain && t->rank && (b.keep >> b.order[0] & 1)) b.fold = FOLDED;
    return layout_blocked(s->f->arena, t, &b);
}

static const Layout *plain(Assign *s, const Type *t, int first, int vec) { return plain_near(s, t, first, vec, 0); }

static bool same_but_constant(const Affine *x, const Affine *y) {
    if (x->nterm != y->nterm || x->naxis != y->naxis || x->ntile || y->ntile) return false;
    for (int i = 0; i < x->nterm; i++) if (x->term[i].v != y->term[i].v || x->term[i].k != y->term[i].k) return false;
    for (int i = 0; i < x->naxis; i++)
        if (x->axis[i].axis != y->axis[i].axis || x->axis[i].k != y->axis[i].k || x->axis[i].scale != y->axis[i].scale)
            return false;
    return true;
}

// 1 + the axis along which another load takes what neighbours of this one take (unroll.c); 0: none.
static int neighbours(const Assign *s, const Op *op, const Access *a, const Type *t) {
    for (uint32_t i = 0; i < s->all.n && op->code == OP_T_load; i++) {
        const Op *other = s->all.at[i];
        if (other == op || other->code != OP_T_load || other->in[0] != op->in[0] || other->parent != op->parent) continue;
        int along = -1, dims = 0;
        for (int d = 0; d < a->nidx && dims >= 0; d++) {
            Affine x;
            if (other->in[1 + d] == a->idx[d]) continue;
            const AffAxis *axis = &a->aff[d].axis[0];
            bool moved = affine_of(other->in[1 + d], &x) && same_but_constant(&a->aff[d], &x) && x.naxis == 1 &&
                         !axis->scale && (x.c - a->aff[d].c) % axis->k == 0;
            dims = moved ? dims + 1 : -1;
            along = moved ? type_axis(t, axis->axis) : -1;
        }
        if (dims == 1 && along >= 0 && t->axis[along] != a->type.axis[a->contiguous < 0 ? 0 : a->contiguous])
            return 1 + along;
    }
    return 0;
}

// 1 + the axis along which what is loaded in vectors is stored in such again, if along another than it lies in memory: a transpose. Its neighbours in one
// lane leave for shared memory as words (llvm/convert_layout.c). 0: none.
static int crossed(const Assign *s, const Op *op, const Access *a, const Type *t) {
    for (uint32_t i = 0; i < s->all.n && op->code == OP_T_load && a->contiguous >= 0 && a->vec > 1; i++) {
        const Op *store = s->all.at[i];
        const Val *v = store->code == OP_T_store ? store->in[1 + store->nidx] : NULL;
        Access x;
        if (!v || !is_tile(v) || v->type.rank != t->rank || !assign_subset(&v->type, t)) continue;
        access_of(s->facts, store, &x);
        if (x.contiguous >= 0 && x.vec > 1 && x.type.axis[x.contiguous] != a->type.axis[a->contiguous]) return 1 + type_axis(t, x.type.axis[x.contiguous]);
    }
    return 0;
}

// An index that is an axis divided, k / 2: neighbours read the same or the next element.
static bool divides(const Access *a) {
    bool any = false;
    for (int d = 0; d < a->nidx; d++)
        for (int i = 0; i < a->aff[d].ntile; i++) {
            const Op *op = a->aff[d].tile[i].v->def;
            Affine x;
            if (!op || op->code != OP_T_binary || op->sub != OP_div || is_tile(op->in[1])) return false;
            if (!affine_of(op->in[0], &x) || x.ntile) return false;
            any = true;
        }
    return any;
}

// Single elements by their nature, as x[i, j - 1] of bytes or table[k / 32], need no layout of their own: they take the
// runs that another access of the same tile likes, as long as a warp's elements lie no further apart than 128 bytes or
// are shared.
static void runs_of_another(const Assign *s, const Op *op, const Access *a, const Type *t, int *first, int *vec) {
    int bytes = elem_bytes(a->elem);
    if (op->code == OP_T_atomic || (a->contiguous >= 0 && a->vec * bytes >= 4) || (a->contiguous < 0 && bytes >= 4 && !divides(a))) return;
    int most = a->contiguous < 0 && divides(a) ? 16 : 4 / bytes;
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *other = s->all.at[i];
        if ((other->code != OP_T_load && other->code != OP_T_store)) continue;
        const Val *v = other->code == OP_T_store ? other->in[1 + other->nidx] : other->out[0];
        Access x;
        if (!is_tile(v) || v->type.rank != t->rank || !assign_subset(&v->type, t)) continue;
        access_of(s->facts, other, &x);
        int along = x.contiguous < 0 ? -1 : type_axis(t, x.type.axis[x.contiguous]), run = x.vec < most ? x.vec : most;
        if (along < 0 || (*first >= 0 && along != *first) || run <= *vec) continue;
        *first = along;
        *vec = run;
    }
}

// What is stored from the same threads goes out element by element where its rows begin anywhere, or it is a truth, however wide it came in. Small
// elements should be as few a lane then, so that a warp's lie side by side: bf16 rows of 1000 and 999 joined, 43 us instead of 96 on an H200; x > 0
// of 64 M bf16 55 instead of 83. (f32 joined so 86 instead of 81.)
static int narrow_stores(const Assign *s, const Op *op, const Access *a, const Type *t, int first, int vec) {
    enum { WIDE = 16, SMALL = 4 };
    if (op->code != OP_T_load || first < 0 || a->contiguous < 0) return vec;
    for (uint32_t i = 0; i < s->all.n && vec > 1; i++) {
        const Op *store = s->all.at[i];
        const Val *v = store->code == OP_T_store ? store->in[1 + store->nidx] : NULL;
        Access x;
        if (!v || !is_tile(v) || v->type.rank != t->rank || !assign_subset(&v->type, t)) continue;
        access_of(s->facts, store, &x);
        bool along = x.contiguous >= 0 && type_axis(t, x.type.axis[x.contiguous]) == first;
        int size = elem_bytes(x.elem);
        if (along && size < SMALL && x.vec * size < WIDE && x.vec < vec) vec = x.vec;
    }
    return vec;
}

// The axis along which what is loaded lies a few elements apart, as windows that move by two.
static int nearly_contiguous(const Access *a, const Type *t) {
    enum { FEW_APART = 8 };
    const Affine *x = &a->aff[a->inner];
    bool near = a->op->code == OP_T_load && x->naxis == 1 && !x->ntile && !x->axis[0].scale && x->axis[0].k > 1 && x->axis[0].k <= FEW_APART;
    return near ? type_axis(t, x->axis[0].axis) : -1;
}

const Layout *anchor_access(Assign *s, const Op *op, const Type *t) {
    Access a;
    access_of(s->facts, op, &a);
    int first = a.contiguous < 0 ? nearly_contiguous(&a, t) : type_axis(t, a.type.axis[a.contiguous]);
    int vec = op->code == OP_T_atomic ? 1 : a.vec;
    runs_of_another(s, op, &a, t, &first, &vec);
    vec = narrow_stores(s, op, &a, t, first, vec);
    int64_t per = type_lanes(t) / ((int64_t)s->f->warps * 32);          // no wider than what each lane gets
    while (vec > 1 && vec > per && vec * elem_bytes(a.elem) > 4) vec /= 2;
    int near = neighbours(s, op, &a, t);
    return plain_near(s, t, first, vec, near ? near : crossed(s, op, &a, t));
}

// Atomics on neighbours, d of dw[id[n], d]: a warp's should lie together, since the memory does them 32 bytes at a time. One element a lane for each
// instruction then, whatever the loads would like.
static bool adds_to_rows(const Assign *s, const Op *op) {
    Access a;
    if (op->code != OP_T_atomic || op->in[0]->type.kind != TY_TENSOR || !is_tile(op->out[0])) return false;
    access_shape(s->facts, op, &a);
    return a.contiguous >= 0 && type_axis(&op->out[0]->type, a.type.axis[a.contiguous]) >= 0;
}

static int64_t weight(const Op *op) {
    const Val *v = op->code == OP_T_store ? op->in[1 + op->nidx] : op->out[0];
    if (op->code == OP_T_atomic) return (op->attr << 40) + type_lanes(&v->type) * 64;
    // weights come from L2: in a loop, where loads are all that there is to wait for, the row's own decide
    if (op->code == OP_T_load && op->attr && !loads_own(op)) return (op->attr << 40) + type_lanes(&v->type) * 2 + 1;
    return (op->attr << 40) + type_lanes(&v->type) * elem_bytes((Elem)v->type.elem) * 2 + (op->code == OP_T_load);
}

// Of what lies in a ring, without a layout of its own: any will do.
static bool of_ring(const Val *v) {
    const Op *d = v->def;
    if (!d || v->layout || (!op_is_elementwise(d) && d->code != OP_T_buffer_load)) return false;
    bool ring = d->code == OP_T_buffer_load;
    for (int i = 0; i < d->nin && !ring; i++) ring = is_tile(d->in[i]) && of_ring(d->in[i]);
    return ring;
}

// 16 rows a warp, 64 a warp group, whichever of a tile's axes they are: no other layout flows into a product's result, nor into what waits for it.
static void anchor_sums(Assign *s) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *op = s->all.at[i];
        if (op->code == OP_T_wgmma && !op->out[0]->layout) {
            Val *o = op->out[0], *const *axis = op->in + 4 + ((op->flags & HAS_ACC) != 0);
            int r = type_axis(&o->type, axis[0]), c = type_axis(&o->type, axis[1]);
            assign_set(s, o, op_in_pairs(op) ? layout_mma_pairs(s->f->arena, &o->type, r, c, s->f->warps) : layout_mma_acc(s->f->arena, &o->type, r, c, s->f->warps, 1));
        }
        for (int k = 0; k < op->nin && op->code == OP_T_wgmma_wait; k++)
            if (is_tile(op->in[k]) && op->in[k]->layout) assign_set(s, op->out[k], op->in[k]->layout);
    }
    assign_settle(s);
}

// A left operand in registers is laid out from its beginning as wgmma wants it.
static void anchor_left(Assign *s, Op *op) {
    Val *a = op->in[0], *const *axis = op->in + 4 + ((op->flags & HAS_ACC) != 0);
    if (!is_tile(a) || !of_ring(a)) return;
    assign_set(s, a, layout_mma_acc(s->f->arena, &a->type, type_axis(&a->type, axis[0]), type_axis(&a->type, axis[2]), s->f->warps, 1));
    assign_settle(s);
}

// Rows that a producer gathers: each lane has the numbers of those that it copies pieces of, of which a warp group makes all.
static void anchor_gathers(Assign *s) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *op = s->all.at[i];
        Access a;
        if (op->code != OP_T_copy_async) continue;
        access_of(s->facts, op, &a);
        const Layout *l = access_copy_layout(s->f->arena, &a, COPY_WARPS);
        for (int d = 0; d < a.nidx; d++)
            for (int t = 0; t < a.aff[d].ntile; t++) {
                Val *v[] = {a.idx[d], a.aff[d].tile[t].v};                   // where the rows begin in memory's, too, it is of both axes
                for (int k = 0; k < 2; k++) assign_set(s, v[k], layout_project(s->f->arena, l, &a.type, &v[k]->type));
                assign_settle(s);
            }
    }
}

static void anchor_dots(Assign *s) {
    anchor_sums(s);
    for (uint32_t i = 0; i < s->all.n; i++) {
        Op *op = s->all.at[i];
        if (op->code == OP_T_wgmma) anchor_left(s, op);
        if (op->code != OP_T_dot || op->out[0]->layout || !is_tile(op->out[0])) continue;
        MmaChoice c;
        if (mma_choose(s->opt->target, op, s->f->warps, &c))
            assign_set(s, op->out[0], layout_mma_acc(s->f->arena, &op->out[0]->type, c.row, c.col, c.warps_m, c.warps_n));
        else assign_set(s, op->out[0], plain(s, &op->out[0]->type, -1, 1));
        assign_settle(s);
    }
}

static bool of_trips(const Op *reduce) {                     // is what it folds a stretch of a loop's?
    for (int i = 1; i < reduce->nin; i++)
        for (const Op *d = reduce->in[i]->def; d; d = d->parent->owner) if (d->code == OP_T_for || d->code == OP_T_while) return true;
    return false;
}

// A short row of numbers for each row of a product's tile, folded to one: the lanes that have parts of the row have parts of these, so that the result
// is where the tile wants it, and no warp waits for another.
static void anchor_few(Assign *s) {
    enum { FEW = 16 };
    for (uint32_t i = s->all.n; i-- > 0;) {
        Op *op = s->all.at[i];
        if (op->code != OP_T_reduce) continue;
        Val *x = op->in[0], *r = op->out[0];
        if (x->layout || !is_tile(r) || !r->layout || type_lanes(&x->type) > FEW * type_lanes(&r->type) || of_trips(op)) continue;
        assign_set(s, x, layout_lift(s->f->arena, r->layout, &r->type, &x->type));
        assign_settle(s);
    }
}

static void anchor_memory(Assign *s) {
    for (;;) {
        Op *best = NULL;
        for (uint32_t i = 0; i < s->all.n; i++) {
            Op *op = s->all.at[i];
            if (op->code != OP_T_load && op->code != OP_T_store && !adds_to_rows(s, op)) continue;
            const Val *v = op->code == OP_T_store ? op->in[1 + op->nidx] : op->out[0];
            if (!is_tile(v) || v->layout) continue;
            if (!best || weight(op) > weight(best)) best = op;
        }
        if (!best) return;
        Val *v = best->code == OP_T_store ? best->in[1 + best->nidx] : best->out[0];
        assign_set(s, v, anchor_access(s, best, &v->type));
        assign_settle(s);
    }
}

// Scans along elements that come one by one, in rows that begin anywhere: a lane has a run of some, which cross shared memory on their way in and out, instead of
// one in 32, each of which takes five shuffles. Running sums of 8191 f32 134 us instead of 264, of 1001 64 instead of 72 (an H200, 4 warps).
enum { SCANNED_RUN = 4, SCANNED_SHORTEST = 128, SCANNED_BYTES = 64 << 10 };

static bool comes_one_by_one(const Assign *s, const Op *load, const Op *scan) {
    Access a;
    if (load->code != OP_T_load || !is_tile(load->out[0]) || load->out[0]->layout || load->parent->owner || scan->parent->owner) return false;
    const Type *t = &scan->in[0]->type;
    if (!type_equal(&load->out[0]->type, t) && type_lanes(&load->out[0]->type) != type_lanes(t)) return false;
    access_of(s->facts, load, &a);
    return a.contiguous >= 0 && a.type.axis[a.contiguous] == scan->in[1] && a.vec * elem_bytes(a.elem) <= 4 && axis_extent(scan->in[1]) >= SCANNED_SHORTEST &&
           type_lanes(t) * elem_bytes((Elem)t->elem) <= SCANNED_BYTES && type_axis(t, scan->in[1]) >= 0;
}

static void anchor_scans(Assign *s) {
    for (uint32_t k = 0; k < s->all.n; k++) {
        Op *scan = s->all.at[k];
        bool any = false;
        if (scan->code != OP_T_scan || scan->in[0]->layout) continue;
        for (uint32_t i = 0; i < s->all.n; i++) {
            Op *load = s->all.at[i];
            if (!comes_one_by_one(s, load, scan)) continue;
            load->out[0]->layout = anchor_access(s, load, &load->out[0]->type);       // it stays so: what follows is converted
            any = true;
        }
        if (!any) continue;
        Val *x = scan->in[0]->layout ? scan->out[0] : scan->in[0];
        s->runs = true;
        assign_set(s, x, plain(s, &x->type, type_axis(&x->type, scan->in[1]), SCANNED_RUN));
        assign_settle(s);
    }
}

// Some access has its neighbouring elements along the axis.
static bool neighbours_along(const Assign *s, Val *axis) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *op = s->all.at[i];
        Access a;
        if (op->code != OP_T_load && op->code != OP_T_store) continue;
        access_of(s->facts, op, &a);
        if (a.contiguous >= 0 && root_of(s, a.type.axis[a.contiguous]) == root_of(s, axis)) return true;
    }
    return false;
}

// Each warp that shares an axis reads what all of them came to, for each place beside it.
static void anchor_joined(Assign *s) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        Op *op = s->all.at[i];
        if (!op_joins(op) || op->in[0]->layout || op->in[0]->type.rank < 2 || neighbours_along(s, op->in[op->nin - 1])) continue;
        const Type *t = &op->in[0]->type;
        int at = type_axis(t, op->in[op->nin - 1]);
        Blocked b = {.vec = 1, .warps = s->f->warps, .near = at + 1, .keep = 1u << at};
        int n = 0;
        for (int k = t->rank - 1; k >= 0; k--) if (k != at) b.order[n++] = k;
        b.order[n] = at;
        assign_set(s, op->in[0], layout_blocked(s->f->arena, t, &b));
        assign_settle(s);
    }
}

// The access of the whole function that has the form of the tile.
static const Op *access_like(const Assign *s, const Type *t) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *op = s->all.at[i];
        if (op->code != OP_T_load && op->code != OP_T_store) continue;
        const Val *v = op->code == OP_T_store ? op->in[1 + op->nidx] : op->out[0];
        if (is_tile(v) && v->type.rank == t->rank && assign_subset(&v->type, t)) return op;
    }
    return NULL;
}

static int folded_in(const Op *loop, const Type *t) {               // the axis of the tile that each trip folds, or -1
    for (const Op *op = op_walk(loop->reg[0], NULL); op; op = op_walk(loop->reg[0], op))
        if (op->code == OP_T_reduce && op->in[0]->type.rank == t->rank) return type_axis(t, op->in[1]);
    return -1;
}

// All that a trip loads and stores has some of the tile's axes, and something is loaded.
static bool outgrows_accesses(const Op *loop, const Type *t) {
    bool loads = false;
    for (int r = 0; r < loop->nreg; r++)
        for (const Op *op = op_walk(loop->reg[r], NULL); op; op = op_walk(loop->reg[r], op)) {
            if (op->code == OP_T_dot || op->code == OP_T_wgmma || op->code == OP_T_ptrload || op->code == OP_T_atomic) return false;
            if (op->code != OP_T_load && op->code != OP_T_buffer_row && op->code != OP_T_store) continue;
            const Val *v = op->code == OP_T_store ? op->in[1 + op->nidx] : op->out[0];
            if (!is_tile(v)) continue;
            if (v->type.rank >= t->rank || !assign_subset(&v->type, t)) return false;
            loads |= op->code != OP_T_store;
        }
    return loads;
}

// The state of a recurrence is what its trips work on. Each of them loads a few numbers for its rows and columns: from the same place for all lanes that
// want them, which costs no more than for one, where a conversion of each would be most of a trip. What a trip folds lies in a lane's registers as far
// as they go: each lane that shares a row is another shuffle.
static void anchor_states(Assign *s) {
    enum { RUN = 4 };
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *loop = s->all.at[i];
        if (loop->code != OP_T_for && loop->code != OP_T_while) continue;
        for (int k = 0; k < loop->nout; k++) {
            Val *v = loop->out[k];
            if (!is_tile(v) || v->layout || !outgrows_accesses(loop, &v->type)) continue;
            const Op *access = access_like(s, &v->type);
            int64_t each = type_lanes(&v->type) / ((int64_t)s->f->warps * 32);
            assign_set(s, v, access ? anchor_access(s, access, &v->type) : plain(s, &v->type, folded_in(loop, &v->type), each < RUN ? each < 1 ? 1 : (int)each : RUN));
            assign_settle(s);
        }
    }
}

// A tile that nothing in memory has the form of, as x[i] - y[j], and that is folded: its threads are those of the
// result, each of which folds registers of its own, so that no lane waits for another. The last first: what it folds
// may be a result, too.
static void anchor_folds(Assign *s) {
    for (uint32_t i = s->all.n; i-- > 0;) {
        Op *op = s->all.at[i];
        if (op->code != OP_T_reduce) continue;
        Val *x = op->in[0], *r = op->out[0];
        if (x->layout || !is_tile(r) || !r->layout) continue;
        assign_set(s, x, layout_lift(s->f->arena, r->layout, &r->type, &x->type));
        assign_settle(s);
    }
}

static void anchor_rest(Assign *s) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        Op *op = s->all.at[i];
        for (int k = 0; k < op->nout; k++)
            if (is_tile(op->out[k]) && !op->out[k]->layout) {
                assign_set(s, op->out[k], plain(s, &op->out[k]->type, -1, 1));
                assign_settle(s);
            }
        for (int r = 0; r < op->nreg; r++)
            for (uint32_t k = 0; k < op->reg[r]->args.n; k++) {
                Val *v = op->reg[r]->args.at[k];
                if (is_tile(v) && !v->layout) { assign_set(s, v, plain(s, &v->type, -1, 1)); assign_settle(s); }
            }
    }
}

void anchor_all(Assign *s) {
    join_renamed(s);
    anchor_gathers(s);
    anchor_dots(s);
    anchor_few(s);
    anchor_scans(s);
    anchor_joined(s);
    anchor_states(s);
    anchor_memory(s);
    anchor_folds(s);
    anchor_rest(s);
}

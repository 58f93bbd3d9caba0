// Layouts: every tile gets one, and conversions go where two meet.
//
// Anchors first: products on tensor cores dictate the accumulator's layout; then memory accesses, the
// deepest and largest first, ask for neighbouring lanes on neighbouring bytes; a tile that is only folded
// takes its result's layout, what is folded in registers; what is left gets a plain layout. From each
// anchor the layout flows along elementwise ops, reductions, loops and branches to every value whose axes
// are among its own (as the projection on them), so that conversions remain only where two anchors meet:
// typically between a product and a store.
//
//     x[m, n] load      -> blocked: 8 bf16 a lane along n, lanes along n, warps along m
//     max(x over n)     -> its projection on m: replicas in the lanes along n
//     x - max           -> nothing to do: the operand's layout is the projection of the result's
//     sum(u[m] * v[n]   -> each thread folds n in registers, for the m that it stores
//         over n)
//
// A store converts first when its layout would touch partial 32-byte sectors and a blocked one would not.
#include "lower/facts/access.h"
#include "lower/layout/mma.h"
#include "lower/pass/passes.h"

#include <string.h>

enum { COPY_WARPS = 4 };             // of a producer that gathers
enum { FOLDED = 8 };                 // elements of a short row that a lane holds: softmax of 262144 x 50 17.9 us, 24.4 where all lanes share a row

typedef VEC(Op *) Ops;
typedef struct Assign {
    Fn     *f;
    Facts  *facts;
    const CompileOptions *opt;
    Ops     all;                     // in program order
    Ops    *users;                   // by Val.id: ops that have it as operand, result or region argument
    VEC(Val *) work;
    Val   **root;                    // of an axis, by Val.id: one for all that renaming makes the same lanes
    Val   **mate;                    // of what a loop carries, by Val.id: its result and its regions' arguments, in a ring
} Assign;

static void list_ops(Assign *s, Region *r, int depth) {
    for (Op *op = r->first; op; op = op->next) {
        op->attr = op->code == OP_T_load || op->code == OP_T_store ? depth : op->attr;
        vec_push(s->f->arena, &s->all, op);
        for (int i = 0; i < op->nreg; i++) list_ops(s, op->reg[i], depth + (op->code == OP_T_for || op->code == OP_T_while));
    }
}

static bool is_tile(const Val *v) { return v->type.kind == TY_TILE && v->type.rank > 0; }

// What a loop carries is in the same registers before, in and after each trip: no conversion can part these values.
static void set(Assign *s, Val *v, const Layout *l) {
    if (!is_tile(v) || v->layout) return;
    for (Val *mate = s->mate[v->id]; mate && mate != v; mate = s->mate[mate->id]) {
        mate->layout = l;
        vec_push(s->f->arena, &s->work, mate);
    }
    v->layout = l;
    vec_push(s->f->arena, &s->work, v);
}

static bool subset(const Type *a, const Type *b) {
    for (int i = 0; i < a->rank; i++) if (type_axis(b, a->axis[i]) < 0) return false;
    return true;
}

static void flow(Assign *s, const Val *from, Val *to) {
    if (is_tile(to) && !to->layout && subset(&to->type, &from->type))
        set(s, to, layout_project(s->f->arena, from->layout, &from->type, &to->type));
}

// The values that a loop's or branch's results are the same as, position by position.
static void tie(Assign *s, const Op *op, const Val *v) {
    int n = op->nout, lead = op->code == OP_T_for ? 3 : 0;
    for (int i = 0; i < n; i++) {
        Val *same[64];
        int k = 0;
        bool hit = false;
        same[k++] = op->out[i];
        if (op->code != OP_T_if) same[k++] = op->in[lead + i];
        for (int r = 0; r < op->nreg; r++)
            if (op->code != OP_T_if) same[k++] = op->reg[r]->args.at[(op->code == OP_T_for) + i];
        for (uint32_t q = 0; q < s->all.n && k < 60; q++) {          // terminators that lead here
            const Op *t = s->all.at[q];
            if (!strchr(op_info[t->code].flags, 'T')) continue;
            const Op *owner = t->parent->owner;
            bool mine = t->code == OP_T_yield || t->code == OP_T_condition ? owner == op : false;
            if (t->code == OP_T_break || t->code == OP_T_continue) {
                int64_t up = t->imm;
                const Op *o = owner;
                while (o && ((o->code == OP_T_if) || up-- > 0)) o = o->parent->owner;
                mine = o == op;
            }
            if (mine) same[k++] = t->in[(t->code == OP_T_condition) + i];
        }
        for (int a = 0; a < k; a++) hit |= same[a] == v;
        if (hit) for (int a = 0; a < k; a++) flow(s, v, same[a]);
    }
}

// ---- kept tiles: axes are listed by keep_put and keep_get, and correspond one by one -----------------------

static Val *kept_tile(const Op *op) { return op->code == OP_T_keep_put ? op->in[2] : op->out[0]; }
static int kept_first(const Op *op) { return op->code == OP_T_keep_put ? 3 : 2; }

static bool same_form(const Op *a, const Op *b) {
    const Type *x = &kept_tile(a)->type, *y = &kept_tile(b)->type;
    if (x->rank != y->rank || x->elem != y->elem || x->ptr != y->ptr) return false;
    for (int i = 0; i < x->rank; i++)
        if (axis_extent(a->in[kept_first(a) + i]) != axis_extent(b->in[kept_first(b) + i])) return false;
    return true;
}

// The layout of the tile of `from`, by the names of `to`.
static const Layout *kept_as(const Assign *s, const Op *from, const Op *to) {
    Type t = kept_tile(from)->type;
    const Layout *l = kept_tile(from)->layout;
    for (int i = 0; i < t.rank && l; i++) {
        Val *old = from->in[kept_first(from) + i], *fresh = to->in[kept_first(to) + i];
        if (old == fresh) continue;
        Type next = type_union(type_minus(t, 1, &old), type_tile((Elem)t.elem, 1, &fresh));
        l = layout_rename(s->f->arena, l, &t, &next, old, fresh);
        t = next;
    }
    return l;
}

// The layout in which tiles of a form are kept: that of the first one put.
static const Layout *kept_layout(const Assign *s, const Op *op) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *put = s->all.at[i];
        if (put->code == OP_T_keep_put && put->in[0] == op->in[0] && same_form(put, op)) return kept_as(s, put, op);
    }
    return NULL;
}

// A part's value is held by the same threads when it is kept and when it is joined or taken.
static void tie_parts(Assign *s, const Op *op, const Val *v) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *get = s->all.at[i];
        if (get->code != OP_T_part_get && get->code != OP_T_part_take) continue;
        const Op *put = get->in[1]->def;
        Val *kept = put->in[2 + get->attr];
        if (put->attr == PUT_scattered) {
            const Layout *l = v == kept && !get->out[0]->layout ? layout_slice(s->f->arena, v->layout, &v->type, &get->out[0]->type, (int)put->imm) : NULL;
            if (l) set(s, get->out[0], l);
            continue;
        }
        if ((op == put || op == get) && v == kept) flow(s, v, get->out[0]);
        if ((op == put || op == get) && v == get->out[0]) flow(s, v, kept);
    }
}

// Who sends what is joined here.
static Op *sender(const Assign *s, const Op *join) {
    for (uint32_t i = 0; i < s->all.n; i++) if (s->all.at[i]->code == OP_T_part_send) return s->all.at[i];
    ice("%s: nobody sends the parts", op_info[join->code].name);
}

// A kept tile is held by the same threads when it is put and when it is got.
static void tie_kept(Assign *s, const Op *op) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *other = s->all.at[i];
        if ((other->code != OP_T_keep_put && other->code != OP_T_keep_get) || other->in[0] != op->in[0] ||
            !same_form(op, other))
            continue;
        if (!kept_tile(other)->layout) set(s, kept_tile(other), kept_as(s, op, other));
    }
}

// The result has the axis that the op works along, as the operand has it.
static bool keeps_axis(const Op *op) { return op->code == OP_T_scan || op->code == OP_T_sort || op->code == OP_T_order; }

static void spread(Assign *s, Val *v) {
    Ops *u = &s->users[v->id];
    for (uint32_t i = 0; i < u->n; i++) {
        Op *op = u->at[i];
        if (op_is_elementwise(op)) {
            for (int k = 0; k < op->nin; k++) flow(s, v, op->in[k]);
            flow(s, v, op->out[0]);
        } else if (op->code == OP_T_load || op->code == OP_T_ptrload || op->code == OP_T_atomic) {
            if (v == op->out[0]) for (int k = 0; k < op->nin; k++) flow(s, v, op->in[k]);
            else if (op->code != OP_T_load) flow(s, v, op->out[0]);
        } else if (op->code == OP_T_store || op->code == OP_T_ptrstore) {
            for (int k = 0; k < op->nin; k++) flow(s, v, op->in[k]);
        } else if (op->code == OP_T_part_put || op->code == OP_T_part_get || op->code == OP_T_part_take) {
            tie_parts(s, op, v);
        } else if (op->code == OP_T_join_cluster || op->code == OP_T_from_cluster) {
            flow(s, v, v == op->out[0] ? op->in[0] : op->out[0]);
        } else if (op->code == OP_T_part_join && (v == op->out[0] || v == op->in[3])) {
            flow(s, v, v == op->out[0] ? op->in[3] : op->out[0]);
        } else if ((op->code == OP_T_keep_put && v == op->in[2]) || (op->code == OP_T_keep_get && v == op->out[0])) {
            tie_kept(s, op);
        } else if (op->code == OP_T_reduce) {
            if (v == op->in[0]) flow(s, v, op->out[0]);
        } else if (keeps_axis(op)) {
            flow(s, v, v == op->out[0] ? op->in[0] : op->out[0]);
        } else if (op->code == OP_T_take) {
            if (v == op->out[0] || v == op->in[1]) flow(s, v, v == op->out[0] ? op->in[1] : op->out[0]);
        } else if (op->code == OP_T_rename && v == op->in[0]) {
            if (!op->out[0]->layout)
                set(s, op->out[0],
                    layout_rename(s->f->arena, v->layout, &v->type, &op->out[0]->type, op->in[1], op->in[2]));
        } else if (op->code == OP_T_rename) {
            if (!op->in[0]->layout)
                set(s, op->in[0],
                    layout_rename(s->f->arena, v->layout, &v->type, &op->in[0]->type, op->in[2], op->in[1]));
        } else if (op->code == OP_T_dot || op->code == OP_T_wgmma) {
            if (op->flags & HAS_ACC) { flow(s, v, op->in[op->code == OP_T_dot ? 2 : 4]); flow(s, v, op->out[0]); }
        } else if (op->code == OP_T_wgmma_wait) {
            for (int k = 0; k < op->nin; k++)
                if (op->in[k] == v || op->out[k] == v) { flow(s, v, op->in[k]); flow(s, v, op->out[k]); }
        } else if (op->code == OP_T_for || op->code == OP_T_while || op->code == OP_T_if) {
            tie(s, op, v);
        } else if (strchr(op_info[op->code].flags, 'T')) {
            const Op *o = op->parent->owner;
            int64_t up = op->code == OP_T_break || op->code == OP_T_continue ? op->imm : -1;
            if (up >= 0) while (o && (o->code == OP_T_if || up-- > 0)) o = o->parent->owner;
            if (o) tie(s, o, v);
        }
    }
}

static void settle(Assign *s) {
    while (s->work.n) { Val *v = s->work.at[--s->work.n]; spread(s, v); }
}

// ---- anchors -------------------------------------------------------------------------------------

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

static void join_carried(Assign *s) {
    s->mate = NEW_N(s->f->arena, Val *, s->f->nvals + 1);
    for (uint32_t q = 0; q < s->all.n; q++) {
        const Op *op = s->all.at[q];
        if (op->code != OP_T_for && op->code != OP_T_while) continue;
        for (int i = 0; i < op->nout; i++) {
            Val *last = op->out[i];
            for (int r = 0; r < op->nreg; r++) {
                Val *arg = op->reg[r]->args.at[(op->code == OP_T_for) + i];
                s->mate[last->id] = arg;
                last = arg;
            }
            s->mate[last->id] = op->out[i];
        }
    }
}

// Axes of the type that some reduction folds, scan or sort runs along, while another axis stays: partial results would
// cross warps; and those that a load of fewer axes lacks: a thread that has several places along them loads once.
static uint32_t reduced(const Assign *s, const Type *t) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *op = s->all.at[i];
        bool along = keeps_axis(op);
        for (int k = 1; k < op->nin && (op->code == OP_T_reduce || along); k++) {
            int pos = same_lanes(s, t, op->in[k]);
            if (pos >= 0 && op->out[0]->type.rank > along) mask |= 1u << pos;
        }
        if (op->code != OP_T_load || op->out[0]->type.rank == 0 || !subset(&op->out[0]->type, t)) continue;
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
        if (!is_tile(v) || v->type.rank != t->rank || !subset(&v->type, t)) continue;
        access_of(s->facts, other, &x);
        int along = x.contiguous < 0 ? -1 : type_axis(t, x.type.axis[x.contiguous]), run = x.vec < most ? x.vec : most;
        if (along < 0 || (*first >= 0 && along != *first) || run <= *vec) continue;
        *first = along;
        *vec = run;
    }
}

// The axis along which what is loaded lies a few elements apart, as windows that move by two.
static int nearly_contiguous(const Access *a, const Type *t) {
    enum { FEW_APART = 8 };
    const Affine *x = &a->aff[a->inner];
    bool near = a->op->code == OP_T_load && x->naxis == 1 && !x->ntile && !x->axis[0].scale && x->axis[0].k > 1 && x->axis[0].k <= FEW_APART;
    return near ? type_axis(t, x->axis[0].axis) : -1;
}

static const Layout *for_access(Assign *s, const Op *op, const Type *t) {
    Access a;
    access_of(s->facts, op, &a);
    int first = a.contiguous < 0 ? nearly_contiguous(&a, t) : type_axis(t, a.type.axis[a.contiguous]);
    int vec = op->code == OP_T_atomic ? 1 : a.vec;
    runs_of_another(s, op, &a, t, &first, &vec);
    int64_t per = type_lanes(t) / ((int64_t)s->f->warps * 32);          // no wider than what each lane gets
    while (vec > 1 && vec > per && vec * elem_bytes(a.elem) > 4) vec /= 2;
    return plain_near(s, t, first, vec, neighbours(s, op, &a, t));
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

// 16 rows a warp, 64 a warp group; a left operand in registers is laid out from its beginning as wgmma wants it.
static void anchor_wgmma(Assign *s, Op *op) {
    int first = 4 + ((op->flags & HAS_ACC) != 0);
    Val *o = op->out[0], *a = op->in[0], *row = op->in[first];
    if (!o->layout) {
        int r = type_axis(&o->type, row), c = type_axis(&o->type, op->in[first + 1]);
        set(s, o, op_in_pairs(op) ? layout_mma_pairs(s->f->arena, &o->type, r, c, s->f->warps) : layout_mma_acc(s->f->arena, &o->type, r, c, s->f->warps, 1));
        settle(s);
    }
    if (!is_tile(a) || !of_ring(a)) return;
    set(s, a,
        layout_mma_acc(s->f->arena, &a->type, type_axis(&a->type, row), type_axis(&a->type, op->in[first + 2]),
                       s->f->warps, 1));
    settle(s);
}

// Rows that a producer gathers: each lane has the numbers of those that it copies pieces of, of which a warp group makes all.
static void anchor_gathers(Assign *s) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        const Op *op = s->all.at[i];
        Access a;
        if (op->code != OP_T_copy_async) continue;
        access_of(s->facts, op, &a);
        for (int d = 0; d < a.nidx; d++)
            for (int t = 0; t < a.aff[d].ntile; t++) {
                Val *v = a.aff[d].tile[t].v;
                set(s, v, layout_project(s->f->arena, access_copy_layout(s->f->arena, &a, COPY_WARPS), &a.type, &v->type));
                settle(s);
            }
    }
}

static void anchor_dots(Assign *s) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        Op *op = s->all.at[i];
        if (op->code == OP_T_wgmma) anchor_wgmma(s, op);
        if (op->code != OP_T_dot || op->out[0]->layout || !is_tile(op->out[0])) continue;
        MmaChoice c;
        if (mma_choose(s->opt->target, op, s->f->warps, &c))
            set(s, op->out[0], layout_mma_acc(s->f->arena, &op->out[0]->type, c.row, c.col, c.warps_m, c.warps_n));
        else set(s, op->out[0], plain(s, &op->out[0]->type, -1, 1));
        settle(s);
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
        set(s, v, for_access(s, best, &v->type));
        settle(s);
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
        set(s, x, layout_lift(s->f->arena, r->layout, &r->type, &x->type));
        settle(s);
    }
}

static void anchor_rest(Assign *s) {
    for (uint32_t i = 0; i < s->all.n; i++) {
        Op *op = s->all.at[i];
        for (int k = 0; k < op->nout; k++)
            if (is_tile(op->out[k]) && !op->out[k]->layout) {
                set(s, op->out[k], plain(s, &op->out[k]->type, -1, 1));
                settle(s);
            }
        for (int r = 0; r < op->nreg; r++)
            for (uint32_t k = 0; k < op->reg[r]->args.n; k++) {
                Val *v = op->reg[r]->args.at[k];
                if (is_tile(v) && !v->layout) { set(s, v, plain(s, &v->type, -1, 1)); settle(s); }
            }
    }
}

// ---- conversions ---------------------------------------------------------------------------------

enum { INDEX_DEPTH = 3 };

// Index arithmetic, of lanes' numbers and scalars alone: cheaper to make again than to convert.
static bool made_of_indices(const Val *v, int depth) {
    const Op *d = v->def;
    if (v->type.rank == 0 || (d && (d->code == OP_T_index || d->code == OP_T_live))) return true;
    if (!d || elem_is_float((Elem)v->type.elem) || depth == 0 || (d->code != OP_T_splat && d->code != OP_T_binary))
        return false;
    for (int i = 0; i < d->nin; i++)
        if (elem_is_float((Elem)d->in[i]->type.elem) || !made_of_indices(d->in[i], depth - 1)) return false;
    return true;
}

static Val *converted(Assign *s, Op *at, Val *v, const Layout *l) {
    if (!is_tile(v) || layout_equal(v->layout, l)) return v;
    Op *d = v->def;
    Builder b = {s->f, NULL, at, at->span};
    if (made_of_indices(v, INDEX_DEPTH)) {
        Val *in[2];
        for (int i = 0; i < d->nin; i++)
            in[i] = is_tile(d->in[i])
                        ? converted(s, at, d->in[i], layout_project(s->f->arena, l, &v->type, &d->in[i]->type))
                        : d->in[i];
        Val *c = b_op(&b, (OpCode)d->code, d->sub, v->type, d->nin, in);
        c->layout = l;
        return c;
    }
    Val *c = b_op(&b, OP_T_convert, 0, v->type, 1, &v);
    c->layout = l;
    c->name = v->name;
    return c;
}

static void need(Assign *s, Op *op, int i, const Layout *l, const Type *of) {
    Val *v = op->in[i];
    if (is_tile(v) && subset(&v->type, of)) op->in[i] = converted(s, op, v, layout_project(s->f->arena, l, of, &v->type));
}

// Blocks that each join a slice of a tile hold all of it so that slices are registers: as a product's accumulators, if not as it is.
static const Layout *slice_layout(Assign *s, Op *put, const Op *get) {
    Val **v = &put->in[2 + get->attr];
    const Type *whole = &(*v)->type, *slice = &get->out[0]->type;
    const Layout *l = layout_slice(s->f->arena, (*v)->layout, whole, slice, (int)put->imm);
    if (l) return l;
    int divided = 0, own = 0;
    slice_axes(whole, slice, &divided, &own);
    *v = converted(s, put, *v, layout_mma_acc(s->f->arena, whole, 1 - divided, divided, s->f->warps, 1));
    l = layout_slice(s->f->arena, (*v)->layout, whole, slice, (int)put->imm);
    if (!l) ice("a tile that does not come in slices");
    return l;
}

// The result of op in layout `made`, for users that expect its own.
static void result_as(Assign *s, Op *op, int i, const Layout *made) {
    Val *o = op->out[i];
    if (!is_tile(o) || layout_equal(o->layout, made)) return;
    Op *cv = op_new(s->f, OP_T_convert, op->span, 1, &o, 1);
    cv->out[0]->type = o->type;
    cv->out[0]->layout = o->layout;
    cv->out[0]->name = o->name;
    replace_uses(&s->f->body, o, cv->out[0]);
    cv->in[0] = o;
    o->layout = made;
    op_after(op, cv);
}

// Bytes that a warp touches in one run of the contiguous axis.
static int64_t run_bytes(const Access *a, const Layout *l, int pos) {
    int64_t n = layout_vec(l, pos);
    for (int i = 0; i < LANE_BITS; i++)
        if (n < (int64_t)1 << l->bits[pos] && l->lane[i] == (uint32_t)n << l->off[pos]) n *= 2;
    return n * elem_bytes(a->elem);
}

static void fit_store(Assign *s, Op *op) {
    Val *v = op->in[1 + op->nidx];
    Access a;
    if (!is_tile(v)) return;
    access_of(s->facts, op, &a);
    if (a.contiguous >= 0) {
        int pos = type_axis(&v->type, a.type.axis[a.contiguous]);
        const Layout *l = for_access(s, op, &v->type);
        if (run_bytes(&a, v->layout, pos) < 32 && run_bytes(&a, l, pos) >= 32 && type_lanes(&v->type) >= 256)
            v = op->in[1 + op->nidx] = converted(s, op, v, l);
    }
    for (int i = 1; i <= op->nidx; i++) need(s, op, i, v->layout, &v->type);
}

static void insert_conversions(Assign *s) {
    for (uint32_t q = 0; q < s->all.n; q++) {
        Op *op = s->all.at[q];
        Val *o = op->nout ? op->out[0] : NULL;
        if (op_is_elementwise(op) && is_tile(o)) for (int i = 0; i < op->nin; i++) need(s, op, i, o->layout, &o->type);
        else if (op->code == OP_T_load && is_tile(o)) for (int i = 1; i < op->nin; i++) need(s, op, i, o->layout, &o->type);
        else if ((op->code == OP_T_ptrload || op->code == OP_T_atomic) && is_tile(o))
            for (int i = 0; i < op->nin; i++) need(s, op, i, o->layout, &o->type);
        else if (op->code == OP_T_store) fit_store(s, op);
        else if (op->code == OP_T_tma_store) {
            Val *v = op->in[2 + op->nidx];
            int row = type_axis(&v->type, op->in[3 + op->nidx]), col = type_axis(&v->type, op->in[4 + op->nidx]);
            bool across = op->attr == 2;
            int r = across ? col : row, c = across ? row : col;
            const Layout *pairs = layout_mma_pairs(s->f->arena, &v->type, r, c, s->f->warps);
            bool words = across && elem_bytes((Elem)v->type.elem) == 2;                      // written across they are of two rows
            if (words || !layout_equal(v->layout, pairs)) op->in[2 + op->nidx] = converted(s, op, v, words ? pairs : layout_mma_acc(s->f->arena, &v->type, r, c, s->f->warps, 1));
        }
        else if (op->code == OP_T_row_store) {
            Val **v = &op->in[1 + op->nidx];
            const Type *t = &(*v)->type;
            *v = converted(s, op, *v,
                           layout_mma_acc(s->f->arena, t, type_axis(t, op->in[3 + op->nidx]),
                                          type_axis(t, op->in[4 + op->nidx]), s->f->warps, 1));
            for (int i = 1; i <= op->nidx; i++) need(s, op, i, (*v)->layout, t);
        }
        else if (op->code == OP_T_part_get && is_tile(o)) {
            Op *put = op->in[1]->def;
            if (put->attr == PUT_scattered) result_as(s, op, 0, slice_layout(s, put, op));
            else put->in[2 + op->attr] = converted(s, put, put->in[2 + op->attr], o->layout);
        }
        else if (op->code == OP_T_part_join && is_tile(o)) {
            Op *send = sender(s, op);
            need(s, op, 3, o->layout, &o->type);
            send->in[2 + op->attr] = converted(s, send, send->in[2 + op->attr], o->layout);
        }
        else if (op->code == OP_T_part_take && is_tile(o)) result_as(s, op, 0, op->in[1]->def->in[2 + op->attr]->layout);
        else if ((op->code == OP_T_join_cluster || op->code == OP_T_from_cluster) && is_tile(o))
            need(s, op, 0, o->layout, &o->type);
        else if (op->code == OP_T_keep_put) op->in[2] = converted(s, op, op->in[2], kept_layout(s, op));
        else if (op->code == OP_T_keep_get) result_as(s, op, 0, kept_layout(s, op));
        else if (op->code == OP_T_ptrstore) {
            Val *w = op->in[0]->type.rank >= op->in[1]->type.rank ? op->in[0] : op->in[1];
            if (is_tile(w)) for (int i = 0; i < op->nin; i++) need(s, op, i, w->layout, &w->type);
        } else if (op->code == OP_T_reduce && is_tile(o))
            result_as(s, op, 0, layout_project(s->f->arena, op->in[0]->layout, &op->in[0]->type, &o->type));
        else if (op->code == OP_T_rename && is_tile(o))
            result_as(s, op, 0,
                      layout_rename(s->f->arena, op->in[0]->layout, &op->in[0]->type, &o->type, op->in[1], op->in[2]));
        else if (keeps_axis(op)) need(s, op, 0, o->layout, &o->type);
        else if (op->code == OP_T_take) need(s, op, 1, o->layout, &o->type);
        else if (op->code == OP_T_dot && (op->flags & HAS_ACC) && is_tile(o)) need(s, op, 2, o->layout, &o->type);
        else if (op->code == OP_T_wgmma) {
            Val *a = op->in[0];
            int first = 4 + ((op->flags & HAS_ACC) != 0);
            if (first == 5) need(s, op, 4, o->layout, &o->type);
            if (is_tile(a))
                op->in[0] = converted(s, op, a,
                                      layout_mma_acc(s->f->arena, &a->type, type_axis(&a->type, op->in[first]),
                                                     type_axis(&a->type, op->in[first + 2]), s->f->warps, 1));
        } else if (op->code == OP_T_wgmma_wait) {
            for (int i = 0; i < op->nin; i++) need(s, op, i, op->out[i]->layout, &op->out[i]->type);
        } else if (op->code == OP_T_for || op->code == OP_T_while) {
            int lead = op->code == OP_T_for ? 3 : 0;
            for (int i = 0; i < op->nout; i++) {
                const Layout *l = op->out[i]->layout;
                if (!is_tile(op->out[i])) continue;
                op->in[lead + i] = converted(s, op, op->in[lead + i], l);
                for (int r = 0; r < op->nreg; r++)
                    if (!layout_equal(op->reg[r]->args.at[(op->code == OP_T_for) + i]->layout, l))
                        ice("a carried tile has two layouts");
            }
        } else if (strchr(op_info[op->code].flags, 'T') && op->parent->owner) {
            const Op *owner = op->parent->owner;
            int64_t up = op->code == OP_T_break || op->code == OP_T_continue ? op->imm : -1;
            if (up >= 0) while (owner && (owner->code == OP_T_if || up-- > 0)) owner = owner->parent->owner;
            int first = op->code == OP_T_condition;
            for (int i = 0; owner && i < owner->nout && first + i < op->nin; i++)
                if (is_tile(owner->out[i])) op->in[first + i] = converted(s, op, op->in[first + i], owner->out[i]->layout);
        }
    }
}

// A store writes its value along every axis of its index: where the value lacks one, it gets it here, so that the
// store's layout has a place for each element.
static void widen_stores(Fn *f, Region *r) {
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nreg; i++) widen_stores(f, op->reg[i]);
        if (op->code != OP_T_store) continue;
        Val **v = &op->in[1 + op->nidx];
        Type t = (*v)->type;
        for (int i = 1; i <= op->nidx; i++) t = type_union(t, op->in[i]->type);
        if (t.rank == (*v)->type.rank) continue;
        t.elem = (*v)->type.elem;
        *v = b_op(&(Builder){f, NULL, op, op->span}, OP_T_splat, 0, t, 1, v);
    }
}

bool assign_layouts(Fn *f, const CompileOptions *opt) {
    widen_stores(f, &f->body);
    Assign s = {.f = f, .facts = facts_new(f), .opt = opt};
    ir_number(f);
    list_ops(&s, &f->body, 0);
    s.users = NEW_N(f->arena, Ops, f->nvals + 1);
    for (uint32_t i = 0; i < s.all.n; i++) {
        Op *op = s.all.at[i];
        for (int k = 0; k < op->nin; k++)  vec_push(f->arena, &s.users[op->in[k]->id], op);
        for (int k = 0; k < op->nout; k++) vec_push(f->arena, &s.users[op->out[k]->id], op);
        for (int r = 0; r < op->nreg; r++)
            for (uint32_t k = 0; k < op->reg[r]->args.n; k++) vec_push(f->arena, &s.users[op->reg[r]->args.at[k]->id], op);
    }
    join_renamed(&s);
    join_carried(&s);
    anchor_gathers(&s);
    anchor_dots(&s);
    anchor_memory(&s);
    anchor_folds(&s);
    anchor_rest(&s);
    insert_conversions(&s);
    return true;
}

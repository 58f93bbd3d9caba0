// Conversions: where an operand's layout is not the one that its op wants, a convert before it; where a result's is not
// the one that its op makes, a convert behind it. What an op wants is a row of a table. Index arithmetic is made again
// rather than converted.
#include "lower/layout/assign.h"

#include <string.h>

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
    if (is_tile(v) && assign_subset(&v->type, of)) op->in[i] = converted(s, op, v, layout_project(s->f->arena, l, of, &v->type));
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
static int64_t run_bytes(const Assign *s, const Access *a, const Layout *l, int pos) {
    int64_t n = layout_vec(l, pos);
    if (s->runs && n > a->vec) return a->vec * elem_bytes(a->elem);
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
        const Layout *l = anchor_access(s, op, &v->type);
        if (run_bytes(s, &a, v->layout, pos) < 32 && run_bytes(s, &a, l, pos) >= 32 && type_lanes(&v->type) >= 256)
            v = op->in[1 + op->nidx] = converted(s, op, v, l);
    }
    for (int i = 1; i <= op->nidx; i++) need(s, op, i, v->layout, &v->type);
}

// ---- what ops want -------------------------------------------------------------------------------

// Operands from the i-th on as the first result is.
static void need_all(Assign *s, Op *op, int i) {
    const Val *o = op->out[0];
    for (; is_tile(o) && i < op->nin; i++) need(s, op, i, o->layout, &o->type);
}

static void fit_all(Assign *s, Op *op) { need_all(s, op, 0); }
static void fit_indices(Assign *s, Op *op) { need_all(s, op, 1); }
static void fit_first(Assign *s, Op *op) { need(s, op, 0, op->out[0]->layout, &op->out[0]->type); }
static void fit_take(Assign *s, Op *op) { need(s, op, 1, op->out[0]->layout, &op->out[0]->type); }

static void fit_ptrstore(Assign *s, Op *op) {
    const Val *w = op->in[0]->type.rank >= op->in[1]->type.rank ? op->in[0] : op->in[1];
    for (int i = 0; is_tile(w) && i < op->nin; i++) need(s, op, i, w->layout, &w->type);
}

// An operand as accumulators of products with these axes are.
static void as_accumulator(Assign *s, Op *op, int i, const Val *row, const Val *col) {
    Val **v = &op->in[i];
    const Type *t = &(*v)->type;
    *v = converted(s, op, *v, layout_mma_acc(s->f->arena, t, type_axis(t, row), type_axis(t, col), s->f->warps, 1));
}

static void fit_tma_store(Assign *s, Op *op) {
    Val **v = &op->in[2 + op->nidx];
    const Type *t = &(*v)->type;
    bool across = op->attr & TO_ACROSS, words = across && elem_bytes((Elem)t->elem) == 2;       // written across they are of two rows
    int row = type_axis(t, op->in[3 + op->nidx + across]), col = type_axis(t, op->in[4 + op->nidx - across]);
    const Layout *pairs = layout_mma_pairs(s->f->arena, t, row, col, s->f->warps);
    if (!words && layout_equal((*v)->layout, pairs)) return;
    *v = converted(s, op, *v, words ? pairs : layout_mma_acc(s->f->arena, t, row, col, s->f->warps, 1));
}

static void fit_row_store(Assign *s, Op *op) {
    int v = 1 + op->nidx;
    as_accumulator(s, op, v, op->in[v + 2], op->in[v + 3]);
    for (int i = 1; i <= op->nidx; i++) need(s, op, i, op->in[v]->layout, &op->in[v]->type);
}

static void fit_part_get(Assign *s, Op *op) {
    Op *put = op->in[1]->def;
    const Val *o = op->out[0];
    if (!is_tile(o)) return;
    if (put->attr == PUT_scattered) result_as(s, op, 0, slice_layout(s, put, op));
    else put->in[2 + op->attr] = converted(s, put, put->in[2 + op->attr], o->layout);
}

static void fit_part_join(Assign *s, Op *op) {
    const Val *o = op->out[0];
    if (!is_tile(o)) return;
    Op *send = assign_sender(s, op);
    need(s, op, 3, o->layout, &o->type);
    send->in[2 + op->attr] = converted(s, send, send->in[2 + op->attr], o->layout);
}

static void fit_part_take(Assign *s, Op *op) { result_as(s, op, 0, op->in[1]->def->in[2 + op->attr]->layout); }
static void fit_keep_put(Assign *s, Op *op) { op->in[2] = converted(s, op, op->in[2], assign_kept(s, op)); }
static void fit_keep_get(Assign *s, Op *op) { result_as(s, op, 0, assign_kept(s, op)); }

static void fit_reduce(Assign *s, Op *op) {
    const Val *x = op->in[0], *o = op->out[0];
    if (is_tile(o)) result_as(s, op, 0, layout_project(s->f->arena, x->layout, &x->type, &o->type));
}

// The values are in the same threads; so are the results, with the axis or without.
static void fit_joins(Assign *s, Op *op) {
    bool keeps = op->code == OP_T_scan_by;
    const Val *first = keeps ? op->out[0] : op->in[0];
    for (int i = 0; i < op->nout; i++) need(s, op, i, first->layout, &first->type);
    for (int i = keeps; i < op->nout; i++) {
        const Val *x = op->in[i], *o = op->out[i];
        if (is_tile(o)) result_as(s, op, i, layout_project(s->f->arena, x->layout, &x->type, &o->type));
    }
}

static void fit_rename(Assign *s, Op *op) {
    const Val *x = op->in[0], *o = op->out[0];
    if (is_tile(o)) result_as(s, op, 0, layout_rename(s->f->arena, x->layout, &x->type, &o->type, op->in[1], op->in[2]));
}

static void fit_dot(Assign *s, Op *op) {
    const Val *o = op->out[0];
    if (op->flags & HAS_ACC && is_tile(o)) need(s, op, 2, o->layout, &o->type);
}

static void fit_wgmma(Assign *s, Op *op) {
    const Val *o = op->out[0];
    int first = 4 + ((op->flags & HAS_ACC) != 0);
    if (first == 5) need(s, op, 4, o->layout, &o->type);
    if (is_tile(op->in[0])) as_accumulator(s, op, 0, op->in[first], op->in[first + 2]);
}

static void fit_wgmma_wait(Assign *s, Op *op) {
    for (int i = 0; i < op->nin; i++) need(s, op, i, op->out[i]->layout, &op->out[i]->type);
}

static void fit_loop(Assign *s, Op *op) {
    int lead = op->code == OP_T_for ? 3 : 0;
    for (int i = 0; i < op->nout; i++) {
        const Layout *l = op->out[i]->layout;
        if (!is_tile(op->out[i])) continue;
        op->in[lead + i] = converted(s, op, op->in[lead + i], l);
        for (int r = 0; r < op->nreg; r++)
            if (!layout_equal(op->reg[r]->args.at[(op->code == OP_T_for) + i]->layout, l))
                ice("a carried tile has two layouts");
    }
}

static void fit_terminator(Assign *s, Op *op) {
    const Op *owner = op->parent->owner ? assign_leads_to(op) : NULL;
    int first = op->code == OP_T_condition;
    for (int i = 0; owner && i < owner->nout && first + i < op->nin; i++)
        if (is_tile(owner->out[i])) op->in[first + i] = converted(s, op, op->in[first + i], owner->out[i]->layout);
}

typedef void Fit(Assign *s, Op *op);

static Fit *const fits[OP_T_COUNT] = {
    [OP_T_unary] = fit_all, [OP_T_binary] = fit_all, [OP_T_select] = fit_all, [OP_T_cast] = fit_all, [OP_T_bitcast] = fit_all,
    [OP_T_fun] = fit_all, [OP_T_splat] = fit_all, [OP_T_ptrload] = fit_all, [OP_T_atomic] = fit_all, [OP_T_load] = fit_indices,
    [OP_T_join_cluster] = fit_first, [OP_T_from_cluster] = fit_first,
    [OP_T_scan] = fit_first, [OP_T_sort] = fit_first, [OP_T_order] = fit_first, [OP_T_take] = fit_take,
    [OP_T_store] = fit_store, [OP_T_ptrstore] = fit_ptrstore, [OP_T_tma_store] = fit_tma_store, [OP_T_row_store] = fit_row_store,
    [OP_T_part_get] = fit_part_get, [OP_T_part_join] = fit_part_join, [OP_T_part_take] = fit_part_take,
    [OP_T_keep_put] = fit_keep_put, [OP_T_keep_get] = fit_keep_get,
    [OP_T_scan_by] = fit_joins, [OP_T_reduce_by] = fit_joins,
    [OP_T_reduce] = fit_reduce, [OP_T_rename] = fit_rename, [OP_T_dot] = fit_dot, [OP_T_wgmma] = fit_wgmma,
    [OP_T_wgmma_wait] = fit_wgmma_wait, [OP_T_for] = fit_loop, [OP_T_while] = fit_loop,
};

void insert_conversions(Assign *s) {
    for (uint32_t q = 0; q < s->all.n; q++) {
        Op *op = s->all.at[q];
        if (fits[op->code]) fits[op->code](s, op);
        else if (strchr(op_info[op->code].flags, 'T')) fit_terminator(s, op);
    }
}

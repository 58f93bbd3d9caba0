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
#include "lower/layout/assign.h"

#include <string.h>

static void list_ops(Assign *s, Region *r, int depth) {
    for (Op *op = r->first; op; op = op->next) {
        op->attr = op->code == OP_T_load || op->code == OP_T_store ? depth : op->attr;
        vec_push(s->f->arena, &s->all, op);
        if (strchr(op_info[op->code].flags, 'T')) vec_push(s->f->arena, &s->ends, op);
        for (int i = 0; i < op->nreg; i++) list_ops(s, op->reg[i], depth + (op->code == OP_T_for || op->code == OP_T_while));
    }
}

// What a loop carries is in the same registers before, in and after each trip: no conversion can part these values.
void assign_set(Assign *s, Val *v, const Layout *l) {
    if (!is_tile(v) || v->layout) return;
    for (Val *mate = s->mate[v->id]; mate && mate != v; mate = s->mate[mate->id]) {
        mate->layout = l;
        vec_push(s->f->arena, &s->work, mate);
    }
    v->layout = l;
    vec_push(s->f->arena, &s->work, v);
}

bool assign_subset(const Type *a, const Type *b) {
    for (int i = 0; i < a->rank; i++) if (type_axis(b, a->axis[i]) < 0) return false;
    return true;
}

static void flow(Assign *s, const Val *from, Val *to) {
    if (is_tile(to) && !to->layout && assign_subset(&to->type, &from->type))
        assign_set(s, to, layout_project(s->f->arena, from->layout, &from->type, &to->type));
}

const Op *assign_leads_to(const Op *t) {
    const Op *owner = t->parent->owner;
    int64_t up = t->code == OP_T_break || t->code == OP_T_continue ? t->imm : -1;
    if (up >= 0) while (owner && (owner->code == OP_T_if || up-- > 0)) owner = owner->parent->owner;
    return owner && !op_joins(owner) ? owner : NULL;
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
        for (uint32_t q = 0; q < s->ends.n && k < 60; q++) {         // terminators that lead here
            const Op *t = s->ends.at[q];
            if (assign_leads_to(t) == op) same[k++] = t->in[(t->code == OP_T_condition) + i];
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

const Layout *assign_kept(const Assign *s, const Op *op) {
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
            if (l) assign_set(s, get->out[0], l);
            continue;
        }
        if ((op == put || op == get) && v == kept) flow(s, v, get->out[0]);
        if ((op == put || op == get) && v == get->out[0]) flow(s, v, kept);
    }
}

Op *assign_sender(const Assign *s, const Op *join) {
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
        if (!kept_tile(other)->layout) assign_set(s, kept_tile(other), kept_as(s, op, other));
    }
}

bool assign_keeps_axis(const Op *op) { return op->code == OP_T_scan || op->code == OP_T_scan_by || op->code == OP_T_sort || op->code == OP_T_order; }

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
        } else if (op_joins(op)) {
            for (int k = 0; k < op->nout; k++) { flow(s, v, op->in[k]); flow(s, v, op->out[k]); }
        } else if (assign_keeps_axis(op)) {
            flow(s, v, v == op->out[0] ? op->in[0] : op->out[0]);
        } else if (op->code == OP_T_take) {
            if (v == op->out[0] || v == op->in[1]) flow(s, v, v == op->out[0] ? op->in[1] : op->out[0]);
        } else if (op->code == OP_T_rename && v == op->in[0]) {
            if (!op->out[0]->layout)
                assign_set(s, op->out[0],
                    layout_rename(s->f->arena, v->layout, &v->type, &op->out[0]->type, op->in[1], op->in[2]));
        } else if (op->code == OP_T_rename) {
            if (!op->in[0]->layout)
                assign_set(s, op->in[0],
                    layout_rename(s->f->arena, v->layout, &v->type, &op->in[0]->type, op->in[2], op->in[1]));
        } else if (op->code == OP_T_dot || op->code == OP_T_wgmma) {
            if (op->flags & HAS_ACC) { flow(s, v, op->in[op->code == OP_T_dot ? 2 : 4]); flow(s, v, op->out[0]); }
        } else if (op->code == OP_T_wgmma_wait) {
            for (int k = 0; k < op->nin; k++)
                if (op->in[k] == v || op->out[k] == v) { flow(s, v, op->in[k]); flow(s, v, op->out[k]); }
        } else if (op->code == OP_T_for || op->code == OP_T_while || op->code == OP_T_if) {
            tie(s, op, v);
        } else if (strchr(op_info[op->code].flags, 'T')) {
            const Op *o = assign_leads_to(op);
            if (o) tie(s, o, v);
        }
    }
}

void assign_settle(Assign *s) {
    while (s->work.n) { Val *v = s->work.at[--s->work.n]; spread(s, v); }
}

// ---- the pass ------------------------------------------------------------------------------------

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
    join_carried(&s);
    anchor_all(&s);
    insert_conversions(&s);
    return true;
}

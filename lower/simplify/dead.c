// What nobody needs, and control flow that is settled.
//
// remove_dead marks from what has effects (stores, atomics, prints, asserts, whatever is asynchronous) to
// the values they need, and sweeps the rest. Carried values are marked slot by slot: a slot is needed if
// the loop's result or its argument is, and only then are the values that fill it. So a counter that only
// feeds itself goes, although every op of its circle is used:
//
//     %r, %s = for .. , %a, %b : f32, f32 (%i: index, %x: f32, %y: f32) {        %s unused
//       %t = binary.add %y, %y : f32                                             goes, with %y, %s, %b
//       yield %x, %t
//     }
//
// simplify_control inlines an `if` of a constant, a loop of one trip, drops a loop of none, turns an `if`
// that only chooses into selects, and replaces carried values that no trip changes.

#include "lower/simplify/simplify.h"

#include <string.h>

// ---- who fills a loop's slots --------------------------------------------------------------------

typedef VEC(Op *) Ops;

// The terminators that give values to the results of `loop`'s slots: its yields (not of nested regions), breaks and
// continues for it, a while's condition.
static Ops fillers(Fn *f, Op *loop) {
    Ops v = {0};
    for (int k = 0; k < loop->nreg; k++)
        for (Op *op = op_walk(loop->reg[k], NULL); op; op = op_walk(loop->reg[k], op)) {
            bool own = op->parent->owner == loop && (op->code == OP_T_yield || op->code == OP_T_condition);
            bool leaves = (op->code == OP_T_break || op->code == OP_T_continue) && op_target(op) == loop;
            if (own || leaves) vec_push(f->arena, &v, op);
        }
    return v;
}

static int first_slot(const Op *term) { return term->code == OP_T_condition; }
static int first_carried(const Op *loop) { return loop->code == OP_T_for ? 3 : 0; }      // operand of slot 0
static int first_arg(const Op *loop) { return loop->code == OP_T_for; }

// ---- marking -------------------------------------------------------------------------------------

typedef struct Dead {
    Fn    *f;
    bool  *live;                   // values, by id; of ops, op->mark says it
    VEC(Val *) todo;
} Dead;

static bool has_slots(const Op *op) { return op->code == OP_T_for || op->code == OP_T_while || op->code == OP_T_if; }

static void want(Dead *d, Val *v) {
    if (d->live[v->id]) return;
    d->live[v->id] = true;
    vec_push(d->f->arena, &d->todo, v);
}

static void need_op(Dead *d, Op *op);

static void want_slot(Dead *d, Op *op, int slot) {
    if (op->code != OP_T_if) want(d, op->in[first_carried(op) + slot]);
    Ops v = fillers(d->f, op);
    for (uint32_t i = 0; i < v.n; i++) want(d, v.at[i]->in[first_slot(v.at[i]) + slot]);
}

static void need_loop(Dead *d, Op *op) {
    int n = op->code == OP_T_for ? 3 : op->code == OP_T_if ? 1 : 0;
    for (int i = 0; i < n; i++) want(d, op->in[i]);
    Ops v = fillers(d->f, op);
    for (uint32_t i = 0; i < v.n; i++) {
        if (v.at[i]->code == OP_T_condition) want(d, v.at[i]->in[0]);
        else if (v.at[i]->code != OP_T_yield) need_op(d, v.at[i]);          // leaving is an effect of the ifs around it
    }
}

static void need_op(Dead *d, Op *op) {
    if (op->mark) return;
    op->mark = 1;
    if (op->parent->owner) need_op(d, op->parent->owner);
    if (has_slots(op)) { need_loop(d, op); return; }
    if (op_has(op, 'T')) return;                                            // slot by slot
    for (int i = 0; i < op->nin; i++) want(d, op->in[i]);
    for (int i = 0; i < op->nout; i++) want(d, op->out[i]);
    bool whole = op->code == OP_T_merge || op_joins(op);                    // its function: all or nothing
    for (int i = 0; i < op->nout && whole; i++) want(d, op->reg[0]->last->in[i]);
}

static void need_value(Dead *d, Val *v) {
    for (int i = 0; i < v->type.rank && v->type.kind == TY_TILE; i++) want(d, v->type.axis[i]);
    Op *op = v->def ? v->def : v->region->owner;
    if (!op) return;
    need_op(d, op);
    if (!has_slots(op)) return;
    int slot = -1;
    for (int i = 0; i < op->nout && v->def; i++)
        if (op->out[i] == v) slot = i;
    for (uint32_t i = 0; !v->def && i < v->region->args.n; i++)
        if (v->region->args.at[i] == v) slot = (int)i - first_arg(op);
    if (slot >= 0) want_slot(d, op, slot);
}

static bool seen_outside(const Op *op) {
    int64_t imm;
    if (op->code == OP_T_assert && is_const(op->in[0], &imm) && imm) return false;
    return has_effect(op);
}

// ---- sweeping ------------------------------------------------------------------------------------

static void drop_arg(Region *r, uint32_t at) {
    r->args.n--;
    memmove(r->args.at + at, r->args.at + at + 1, sizeof *r->args.at * (r->args.n - at));
}

static bool sweep_slots(Dead *d, Op *op) {
    bool changed = false;
    Ops v = fillers(d->f, op);
    for (int i = op->nout - 1; i >= 0; i--) {
        bool live = d->live[op->out[i]->id];
        int  arg = i + first_arg(op);
        for (int k = 0; k < op->nreg && op->code != OP_T_if; k++) live |= d->live[op->reg[k]->args.at[arg]->id];
        if (live) continue;
        if (op->code != OP_T_if) op_remove_operand(op, first_carried(op) + i);
        for (int k = 0; k < op->nreg && op->code != OP_T_if; k++) drop_arg(op->reg[k], (uint32_t)arg);
        for (uint32_t t = 0; t < v.n; t++) op_remove_operand(v.at[t], first_slot(v.at[t]) + i);
        memmove(op->out + i, op->out + i + 1, sizeof *op->out * (size_t)(op->nout - i - 1));
        op->nout--;
        changed = true;
    }
    return changed;
}

static bool sweep(Dead *d, Region *r) {
    bool changed = false;
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (!op->mark && !op_has(op, 'T')) {
            op_remove(op);
            changed = true;
            continue;
        }
        if (has_slots(op)) changed |= sweep_slots(d, op);
        for (int k = 0; k < op->nreg; k++) changed |= sweep(d, op->reg[k]);
    }
    return changed;
}

bool remove_dead(Fn *f) {
    Dead d = {.f = f, .live = NEW_N(f->arena, bool, f->nvals)};
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) op->mark = 0;
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (seen_outside(op)) need_op(&d, op);
    while (d.todo.n) need_value(&d, d.todo.at[--d.todo.n]);
    return sweep(&d, &f->body);
}

// ---- settled control flow ------------------------------------------------------------------------

static void move_before(Op *at, Region *from) {
    for (Op *op = from->first, *next; op; op = next) {
        next = op->next;
        op_remove(op);
        op_before(at, op);
    }
}

// The ops of r take op's place; its yield's values are op's results. Any other terminator ends the region op is in.
static void inline_region(Simp *s, Op *op, Region *r) {
    Op *term = r->last;
    if (term->code == OP_T_yield) {
        for (int i = 0; i < op->nout; i++) simp_replace(s, op->out[i], term->in[i]);
        op_remove(term);
    } else {
        while (op->next) op_remove(op->next);
    }
    move_before(op, r);
    op_remove(op);
    s->changes++;
}

static bool settle_if(Simp *s, Op *op) {
    int64_t cond;
    if (is_const(op->in[0], &cond)) {
        inline_region(s, op, op->reg[cond ? 0 : 1]);
        return true;
    }
    const Op *yes = op->reg[0]->first, *no = op->reg[1]->first;
    if (yes->code != OP_T_yield || no->code != OP_T_yield) return false;
    for (int i = 0; i < op->nout; i++) {
        Val *in[3] = {op->in[0], simp_now(s, yes->in[i]), simp_now(s, no->in[i])};
        if (in[1]->type.kind != TY_TILE) return false;
        simp_replace(s, op->out[i], in[1] == in[2] ? in[1] : simp_emit(s, op, OP_T_select, 0, in[1]->type, 3, in));
    }
    op_remove(op);
    s->changes++;
    return true;
}

static bool leaves(const Op *loop) {              // some break or continue inside is for it, or for a loop around it
    for (const Op *op = op_walk(loop->reg[0], NULL); op; op = op_walk(loop->reg[0], op)) {
        if (op->code != OP_T_break && op->code != OP_T_continue) continue;
        const Op *target = op_target(op);
        if (!target || !op_inside(target, loop->reg[0])) return true;
    }
    return false;
}

static bool settle_for(Simp *s, Op *op) {
    int64_t lo, hi, step;
    if (!is_const(op->in[0], &lo) || !is_const(op->in[1], &hi) || !is_const(op->in[2], &step) || step <= 0) return false;
    Region *r = op->reg[0];
    if (lo >= hi) {
        for (int i = 0; i < op->nout; i++) simp_replace(s, op->out[i], op->in[3 + i]);
        op_remove(op);
        s->changes++;
        return true;
    }
    if (hi - lo > step || leaves(op)) return false;
    simp_replace(s, r->args.at[0], op->in[0]);
    for (int i = 0; i < op->nout; i++) simp_replace(s, r->args.at[1 + i], op->in[3 + i]);
    inline_region(s, op, r);
    return true;
}

// A slot that every trip fills with its own argument, or with what it started from, is what it started from.
static void settle_slots(Simp *s, Op *op) {
    Ops v = fillers(s->f, op);
    for (int i = 0; i < op->nout; i++) {
        Val *init = op->in[first_carried(op) + i];
        bool same = true;
        for (uint32_t t = 0; t < v.n && same; t++) {
            Val *x = v.at[t]->in[first_slot(v.at[t]) + i];
            same = simp_now(s, x) == init;
            for (int k = 0; k < op->nreg; k++) same |= x == op->reg[k]->args.at[first_arg(op) + i];
        }
        if (!same) continue;
        bool used = simp_uses(s, op->out[i]) > 0;
        for (int k = 0; k < op->nreg; k++) {
            Val *arg = op->reg[k]->args.at[first_arg(op) + i];
            used |= simp_uses(s, arg) > 0;
            map_set(&s->map, arg, init);
        }
        map_set(&s->map, op->out[i], init);
        s->changes += used;
    }
}

bool simplify_control(Simp *s, Op *op) {
    if (op->code == OP_T_if) return settle_if(s, op);
    if (op->code == OP_T_for && settle_for(s, op)) return true;
    if (op->code == OP_T_for || op->code == OP_T_while) settle_slots(s, op);
    return false;
}

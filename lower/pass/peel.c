// Loops without masks in their steady state.
//
// Only the last trip of a `by` loop can have dead lanes, and a causal mask cuts only the tiles on the
// diagonal. So a trip first asks, once for the whole program, whether all lanes are alive and all masks
// true, and if so runs a copy of the body in which that is known (the report says of such a loop:
// "trips without padding have a body without masks"):
//
//     for n0 .. L by 128 {                       for n0 .. L by 128 {
//         n = axis n0, L {128}                       if n0 + 128 <= L and n0 + 127 <= first(m) {
//         p = select(live n, ..., 0)       ->            n = axis n0, L {128, full}      no select, no compare
//         s = select(index n <= index m, ...)        } else { ... as it was ... }
//     }                                          }
//
// A mask may compare with a shifted index too (n <= m + (L - S), queries and keys aligned at their ends), and be all
// that there is: of a length that is known to be a multiple of 128 every lane is alive (GPT-2's attention at batch 1 on
// an H200, 1024 keys: 18.8 us with masks in every trip, 16.4 without).
//
// Where a trip asks whether lanes of another axis are alive, one of a tile that all trips have (keys past the end, in a loop over queries), that is
// part of the question as well; but not of an axis whose extent is no power of two, since a layout may have more places than it has lanes.
//
// The copy costs code, so only loops whose bodies hold such selects are treated. Loops of products on
// mma.sync are not: their accumulators, carried through the branch, cost ptxas more registers than the
// masks (attention at D128 spills 4 to 76 bytes with it on sm_80 to sm_120a, nothing without).
#include "lower/pass/passes.h"

#include <string.h>

enum { MAX_MASKS = 8 };

typedef struct Peel {
    Fn  *f;
    Op  *loop, *axis;               // `for`, and the axis op in its body
    Op  *mask[MAX_MASKS];           // comparisons of two index tiles
    int  nmask;
    Op  *live[MAX_MASKS];           // lanes of axes that the loop does not make
    int  nlive;
} Peel;

static bool uses_live(const Region *r, const Val *axis) {
    for (const Op *op = r->first; op; op = op->next) {
        if (op->code == OP_T_live && op->in[0] == axis) return true;
        if (op->code == OP_T_buffer_clear && op->in[2] == axis) return true;
        for (int i = 0; i < op->nreg; i++) if (uses_live(op->reg[i], axis)) return true;
    }
    return false;
}

static bool outside(const Val *v, const Region *r) { return v->def ? !op_inside(v->def, r) : v->region != r; }

// The axis that v is the index of, or of which it is the index and a number (`plus`) that no trip changes; else NULL.
static const Val *index_axis(const Val *v, const Region *r, Val **plus) {
    const Op *d = v->def;
    *plus = NULL;
    for (int i = 0; d && d->code == OP_T_binary && d->sub == OP_add && i < 2; i++) {
        const Op *index = d->in[i]->def;
        if (!index || index->code != OP_T_index || d->in[1 - i]->type.rank || !outside(d->in[1 - i], r)) continue;
        *plus = d->in[1 - i];
        return index->in[0];
    }
    return d && d->code == OP_T_index ? d->in[0] : NULL;
}

static void find_masks(Peel *p, const Region *r) {
    for (Op *op = r->first; op; op = op->next) {
        if (op->code != OP_T_binary || p->nmask == MAX_MASKS) continue;
        if (op->sub != OP_le && op->sub != OP_lt && op->sub != OP_ge && op->sub != OP_gt) continue;
        Val *plus;
        const Val *a = index_axis(op->in[0], r, &plus), *b = index_axis(op->in[1], r, &plus);
        if (a && b && a != b && (a == p->axis->out[0] || b == p->axis->out[0])) p->mask[p->nmask++] = op;
    }
}

// 3 lanes may stand in 4 places, of which one is dead in every iteration: as in rule_live of simplify/rules.c, layouts will tell.
static bool fills_places(const Val *axis) { return !(axis_extent(axis) & (axis_extent(axis) - 1)); }

static void find_live(Peel *p, const Region *r) {
    for (Op *op = r->first; op; op = op->next)
        if (op->code == OP_T_live && outside(op->in[0], r) && !(op->in[0]->def->flags & AXIS_FULL) && fills_places(op->in[0]) &&
            p->nlive < MAX_MASKS)
            p->live[p->nlive++] = op;
}

static bool applies(Peel *p, Op *loop) {
    Region *r = loop->reg[0];
    p->loop = loop;
    p->axis = NULL;
    p->nmask = p->nlive = 0;
    for (Op *op = r->first; op; op = op->next)
        if (op->code == OP_T_axis && op->in[0] == r->args.at[0] && outside(op->in[1], r)) p->axis = op;
    if (!p->axis) return false;
    find_masks(p, r);
    find_live(p, r);
    for (Op *op = r->first; op; op = op->next) if (op->code == OP_T_dot) return false;
    for (Op *op = r->first; op; op = op->next)
        if (op != r->last && strchr(op_info[op->code].flags, 'T')) return false;
    bool full = p->axis->flags & AXIS_FULL;
    return (p->nmask || (!full && uses_live(r, p->axis->out[0]))) && r->last->code == OP_T_yield;
}

static Val *conjunction(Builder *b, Val *x, Val *y) { return x ? b_binary(b, OP_and, x, y) : y; }

static Val *lane_of(Builder *b, const Region *r, const Val *index, bool last) {
    Val *plus;
    const Val *axis = index_axis(index, r, &plus);
    Val *at = axis->def->in[0];
    if (last) at = b_binary(b, OP_add, at, b_const(b, EL_index, axis_extent(axis) - 1));
    return plus ? b_binary(b, OP_add, at, plus) : at;
}

static Val *all_alive(Builder *b, const Op *axis, Val *all) {
    Val *lo = axis->in[0], *end = b_binary(b, OP_add, lo, b_const(b, EL_index, axis_extent(axis->out[0])));
    if (!(axis->flags & AXIS_FULL)) all = conjunction(b, all, b_binary(b, OP_le, end, axis->in[1]));
    return axis->nin > 2 ? conjunction(b, all, b_binary(b, OP_le, axis->in[2], lo)) : all;             // places before the first lane
}

static Val *condition(Peel *p, Builder *b) {
    Val *all = all_alive(b, p->axis, NULL);
    for (int i = 0; i < p->nlive; i++) all = all_alive(b, p->live[i]->in[0]->def, all);
    for (int i = 0; i < p->nmask; i++) {
        const Op *m = p->mask[i];
        bool less = m->sub == OP_le || m->sub == OP_lt;      // true everywhere iff true at the extremes
        Val *x = lane_of(b, p->loop->reg[0], m->in[0], less), *y = lane_of(b, p->loop->reg[0], m->in[1], !less);
        all = conjunction(b, all, b_binary(b, (AstOp)m->sub, x, y));
    }
    return all;
}

// Moves the body behind the axis into an `if`, a copy with the knowledge into its first region.
static void split(Peel *p) {
    Fn *f = p->f;
    Region *r = p->loop->reg[0];
    Op *yield = r->last;
    Builder b = {f, NULL, p->axis, p->axis->span};
    Val *cond = condition(p, &b);
    Op *branch = op_new(f, OP_T_if, p->loop->span, 1, &cond, yield->nin);
    for (int i = 0; i < yield->nin; i++) {
        branch->out[i]->type = yield->in[i]->type;
        branch->out[i]->name = yield->in[i]->name;
    }
    op_before(p->axis, branch);
    for (Op *op = p->axis, *next; op; op = next) {
        next = op->next;
        op_remove(op);
        op_append(branch->reg[1], op);
    }
    ValMap map = {.arena = f->arena};
    for (Op *op = branch->reg[1]->first; op; op = op->next) {
        bool mask = false;
        for (int i = 0; i < p->nmask; i++) mask |= p->mask[i] == op;
        for (int i = 0; i < p->nlive; i++) mask |= p->live[i] == op;
        if (mask) {                                           // true for every pair of lanes
            Builder in = {f, branch->reg[0], NULL, op->span};
            Val *yes = b_const(&in, EL_bool, 1);
            Type t = op->out[0]->type;
            Val *axes[MAX_AXES];
            for (int i = 0; i < t.rank; i++) axes[i] = map_get(&map, t.axis[i]);
            map_set(&map, op->out[0], b_op(&in, OP_T_splat, 0, type_tile(EL_bool, t.rank, axes), 1, &yes));
            continue;
        }
        Op *c = op_clone(f, op, &map);
        if (op == p->axis) c->flags |= AXIS_FULL;
        op_append(branch->reg[0], c);
    }
    Op *y = op_new(f, OP_T_yield, p->loop->span, branch->nout, branch->out, 0);
    op_append(r, y);
}

static bool peel_region(Fn *f, Region *r) {
    bool changed = false;
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nreg; i++) changed |= peel_region(f, op->reg[i]);
        Peel p = {.f = f};
        if (op->code != OP_T_for || !applies(&p, op)) continue;
        fn_note(f, op->span, "trips without padding have a body without masks");
        split(&p);
        changed = true;
    }
    return changed;
}

bool peel(Fn *f) { return peel_region(f, &f->body); }

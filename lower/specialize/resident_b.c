// The right operand kept while a block goes down a column of tiles.
//
// Sums that are over in one trip read their operands once and write a tile: of 128 x 128 over 128 of k, shared memory takes 64 KB in from TMA, gives
// wgmma 96, takes 32 of results and gives the copy engine 32, 128 bytes a clock, 1792 clocks, where the tensor cores take 1024. But tiles one below the other
// have their right operand in common, and where all of k is there, it may stay for the next one:
//
//     for t in program .. programs by walkers {           for u in program .. runs by walkers {       // u: `keep` tiles of a column, or what is left of it
//       tile of t;                                            once: b[k, n]
//       for k { ring: a[m, k], b[k, n] }             ->       for m in the run { for k { ring: a[m, k] }
//       c[m, n] = acc                                                            c[m, n] = acc }
//     }                                                     }
//
// So programs go down columns instead of taking both ways in groups (build.c), the load stands before the loop, and walking blocks go from run to run. With a tile
// for each group (specialize/pingpong.c) groups take the tiles of all runs in turns: a run of an odd number of them changes who begins the next one.
//
// For one product whose operands are plain loads and whose loop has one trip, which the launcher checks; where it pays is the model's affair (cost.c),
// or asked for (Schedule.keep). An H200, 2026-11-22: 8192 x 8192 x 256 52 us instead of 61, 4096 x 4096 x 128 13.6
// instead of 14.4, where filling the result with a constant takes 43 and 13.2.
#include "lower/specialize/specialize.h"
#include "lower/simplify/simplify.h"

static void refuse(Ws *h, const char *why) { h->f->keep_refused = why; }

// The only product, in a loop of its own.
static Op *product_of(const Fn *f, Op **loop) {
    Op *dot = NULL;
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        if (op->code != OP_T_dot) continue;
        if (dot || !op->parent->owner || op->parent->owner->code != OP_T_for || op->parent->owner->parent != &f->body) return NULL;
        dot = op;
        *loop = op->parent->owner;
    }
    return dot;
}

// Neither gathered nor a window.
static Op *plain_load(const Ws *h, const Val *v, const Op *loop) {
    Op *d = v->def;
    Access a;
    if (!d || d->code != OP_T_load || d->parent != loop->reg[0] || v->type.rank != 2) return NULL;
    access_shape(h->facts, d, &a);
    for (int i = 0; i < a.nidx; i++) if (a.aff[i].ntile) return NULL;
    return d;
}

// Of an axis that a tile of the grid has: its number, of those along the axis.
static Val *number_of(const Val *axis) {
    const Op *d = axis_lo(axis)->def;
    int64_t by;
    return d && d->code == OP_T_binary && d->sub == OP_mul && is_const(d->in[1], &by) && by == axis_extent(axis) ? d->in[0] : NULL;
}

static Val *count_of(Builder *b, const Val *axis) {
    int64_t extent = axis_extent(axis);
    return b_binary(b, OP_div, b_binary(b, OP_add, axis_hi(axis), b_const(b, EL_index, extent - 1)), b_const(b, EL_index, extent));
}

// One trip: then what does not depend on the tile's own row need not be in it.
static bool one_trip(Ws *h, const Op *loop) {
    LExpr hi;
    int64_t lo, step;
    Arena *a = h->f->arena;
    if (!is_const(loop->in[0], &lo) || !is_const(loop->in[2], &step) || !host_expr(h->facts, loop->in[1], &hi)) return false;
    return fact_assume(h->facts, launch_join(a, L_LE, hi, launch_const(a, lo + step))) && fact_assume(h->facts, launch_join(a, L_LE, launch_const(a, lo + 1), hi));
}

static bool needs(const Region *r, const Op *op, const Op *what) {
    if (op == what) return true;
    for (int i = 0; i < op->nin; i++)
        if (op->in[i]->def && op->in[i]->def->parent == r && needs(r, op->in[i]->def, what)) return true;
    return false;
}

static void before_loop(Op *loop, const Op *left, Op *right) {
    Region *r = loop->reg[0];
    replace_uses(r, r->args.at[0], loop->in[0]);
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op == left || op->code == OP_T_yield || !needs(r, right, op)) continue;
        op_remove(op);
        op_before(loop, op);
    }
}

void ws_keep(Ws *h) {
    Fn *f = h->f;
    Op *loop = NULL, *dot = product_of(f, &loop), *program = ws_program(f);
    if (h->opt->schedule.resident_b < 2) return;
    if (!dot || !program || f->parts || f->dealt) return refuse(h, "it is for one product in one loop, all of which a program makes");
    Op *left = plain_load(h, dot->in[0], loop), *right = plain_load(h, dot->in[1], loop);
    if (!left || !right || left == right || dot->out[0]->type.rank != 2) return refuse(h, "an operand is not a plain load of the loop");
    const Type *t = &dot->out[0]->type;
    int row = type_axis(&dot->in[0]->type, t->axis[0]) >= 0 ? 0 : 1;
    Val *m = number_of(t->axis[row]), *n = number_of(t->axis[1 - row]);
    if (!m || !n || m == n) return refuse(h, "its tiles are not numbered along two axes");
    if (!one_trip(h, loop)) return refuse(h, "its loop may have more trips than one");
    Builder b = {f, NULL, program->next, loop->span};
    Val *rows = count_of(&b, t->axis[row]), *columns = count_of(&b, t->axis[1 - row]);
    Val *within = b_binary(&b, OP_rem, program->out[0], rows), *beyond = b_binary(&b, OP_rem, b_binary(&b, OP_div, program->out[0], rows), columns);
    replace_uses(&f->body, m, within);
    replace_uses(&f->body, n, beyond);
    remove_dead(f);
    before_loop(loop, left, right);
    h->keep = h->opt->schedule.resident_b;
    h->row_tile = within->def;
    h->column_tile = beyond->def;
    if (region_uses(&f->body, program->out[0]) != 2) {
        refuse(h, "its grid has more than two clauses");
        h->keep = 0;
    }
}

// After what roles there can be is known: does the kernel still go from run to run?
bool ws_keeps(Ws *h) {
    if (!h->keep) return false;
    if (h->walk_bytes && h->bands == 1 && h->slices == 1 && h->p[0].op[1].where == ONCE && h->p[0].op[0].where == RING) return true;
    h->keep = 0;
    refuse(h, "its blocks do not walk from tile to tile, or share one in another way");
    return false;
}

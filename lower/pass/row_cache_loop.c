// Blocks that walk from row to row, so that the next row is on its way while this one is computed and stored.
//
//     room = keep (tiles)                                   for D trips { ask for the row's tile;  commit }
//     for n0 .. { ahead of it: put;  x = get .. max }       m = program;  while m < rows {
//     for n0 .. { x = get .. sum of exp }            ->         d = draw
//     for n0 .. { x = get .. y[m, n0 ..] = .. }                 for n0 .. { wait for all but D - 1;  commit;  x = get .. max }
//                                                               for n0 .. { x = get .. sum of exp }
//                                                               next = walkers + drawn d
//                                                               for n0 .. { x = get;  ask for it of row `next`;  commit .. y[m, n0 ..] = .. }
//                                                               m = next
//                                                           }
//
// Of a kept row the first loop waits for memory, the others do not load, and the last one stores. Several blocks of a
// multiprocessor fill in for each other, but a new one begins with nothing: a cluster's blocks begin when there is room
// for all of them, and their first bytes come a microsecond later. So blocks stay, and each tile of the next row is
// asked for as soon as the last loop has taken this row's tile from its place.
//
// Nothing is shared between threads, as in row_cache.c: a thread takes a tile's bytes into registers and asks for the next
// ones in their place, without a barrier. Each trip of the first and the last loop closes one group of copies, and what
// a row has less than D trips is made up by empty ones, so that the number of groups to wait for is always the same.
//
// Who is done takes the next row, from a counter in memory (`draw`): clusters that share their multiprocessors with
// fewer others, or are nearer to memory, are faster by a third. It is asked for as a row begins and looked at when the
// row's last join has brought the blocks together. Softmax of 4096 x 128256 bf16 by hand, clusters of 4 on an H200: a
// row a cluster 551 us, rows dealt out in turn 746, drawn 534 (2026-11-21).
//
// All rows must be of one length, and where a tile stands in memory must follow from the row's number. Rows that
// clusters share (cluster_rows.c) walk by themselves; --with=persistent=2 asks for it, persistent=1 forbids it.
#include "lower/facts/facts.h"
#include "lower/pass/row_cache.h"
#include "ptx/ptx.h"

enum { ROW_BYTES = 72 << 10, MOST_TRIPS = 32 };  // three such rows fit a multiprocessor

typedef struct Walk {
    Keep *k;
    Op   *program, *row;            // the row's number before: made of the program's, or that itself
    VEC(Op *) moved;                // what a row needs to be done again, in order
    Region *body;                   // of the walk
    Val  *number;                   // of the row, in it
    Val  *rows, *last_row, *room;
    int64_t most;                   // trips of a row
    int   last;                     // the last loop that takes something back
} Walk;

// ---- what a row needs ----------------------------------------------------------------------------

static bool follows_row(const Walk *w, const Val *v) {
    const Op *d = v->def;
    if (!d) return false;
    if (d == w->row) return true;
    for (uint32_t i = 0; i < w->moved.n; i++) if (w->moved.at[i] == d) return true;
    return false;
}

static int axes_of(const Val *v) { return v->type.kind == TY_TILE ? v->type.rank : 0; }

static bool moves(const Walk *w, const Op *op) {
    if (!op_has(op, 'P')) return true;
    for (int i = 0; i < op->nin; i++) if (follows_row(w, op->in[i])) return true;
    for (int i = 0; i < op->nout; i++)
        for (int k = 0; k < axes_of(op->out[i]); k++) if (follows_row(w, op->out[i]->type.axis[k])) return true;
    return false;
}

// v, in the loop, follows from the trip's counter, the row's number, and what all rows have.
static bool known_ahead(const Walk *w, const Op *loop, const Val *v) {
    const Op *d = v->def;
    if (!d) return v == loop->reg[0]->args.at[0];
    bool inside = d->parent == loop->reg[0];
    if (d == w->row || (!inside && !follows_row(w, v))) return true;
    if (d->nreg || !op_has(d, 'P') || op_mixes_lanes(d)) return false;
    for (int i = 0; i < d->nin; i++) if (!known_ahead(w, loop, d->in[i])) return false;
    for (int i = 0; i < axes_of(v); i++) if (!known_ahead(w, loop, v->type.axis[i])) return false;
    return true;
}

static bool find_row(Walk *w) {
    Fn *f = w->k->f;
    for (Op *op = f->body.first; op && !w->program; op = op->next) if (op->code == OP_T_program) w->program = op;
    w->row = w->program;
    if (!w->program || !f->shares) return w->program != NULL;
    int uses = 0;
    for (Op *op = w->program->next; op; op = op->next)
        for (int i = 0; i < op->nin; i++) {
            if (op->in[i] != w->program->out[0]) continue;
            uses++;
            if (op->code == OP_T_binary && op->sub == OP_div && i == 0) w->row = op;
            else if (op->code != OP_T_binary || op->sub != OP_rem || i) return false;       // its rank stays
        }
    return w->row != w->program && uses == region_uses(&f->body, w->program->out[0]);
}

// More trips in any row that the instance was made for (LaunchDim.upto, to an eighth of a power of two)?
static bool too_long(const Fn *f, LExpr trips, int64_t most) {
    const LaunchInfo *l = f->launch;
    int64_t dims[MAX_DIMS] = {0}, n;
    for (int i = 0; i < l->ndims; i++) {
        int64_t step = 1, upto = l->dims[i].upto;
        while (8 * step < upto) step *= 2;
        dims[i] = l->dims[i].fixed >= 0 ? l->dims[i].fixed : upto ? upto - step + 1 : 0;
    }
    return launch_by_dims(trips, dims, &n) && n > most;
}

// The longest row has at most so many trips.
static const char *lengths(Walk *w) {
    Op *loop = w->k->loop[0];
    Fn *f = w->k->f;
    Builder b = {f, NULL, loop, loop->span};
    Facts *facts = facts_new(f);
    LExpr length;
    if (!host_expr(facts, keep_length(&b, loop), &length)) return "the launch does not know how long rows are";
    LExpr trips = launch_join_const(f->arena, L_CDIV, length, loop->in[2]->def->imm);
    bool fits = !too_long(f, trips, w->most) && fact_assume(facts, launch_join_const(f->arena, L_LE, trips, w->most));
    return fits ? NULL : "rows are longer than what is kept of them";
}

static const char *refusal(Walk *w, const CompileOptions *opt) {
    Keep *k = w->k;
    Op *loop = k->loop[0];
    if (opt->general) return "the variant that assumes nothing knows no lengths";
    for (int i = 0; i < k->loops; i++)
        if (k->loop[i]->parent != &k->f->body) return "the loops stand in other loops or branches";
    if (!keep_can_be_ahead(k, opt)) return "tiles do not come 16 bytes at a time, or there are no asynchronous copies";
    if (!find_row(w)) return "the program's number is asked for elsewhere";
    for (Op *op = k->f->body.first; op; op = op->next) {
        if (op->code == OP_T_keep || op->code == OP_T_part_put) return "programs share the row, or keep other tiles";
        if (op != w->row && op != w->program && moves(w, op)) vec_push(k->f->arena, &w->moved, op);
    }
    for (int i = 0; i < 3; i++) if (follows_row(w, loop->in[i])) return "rows have lengths of their own";
    for (int i = 0; i < k->loads; i++) {
        const Type *t = &k->load[i]->out[0]->type;
        bool known = true;
        for (int x = 1; x < k->load[i]->nin; x++) known &= known_ahead(w, loop, k->load[i]->in[x]);
        for (int x = 0; x < t->rank; x++) known &= known_ahead(w, loop, t->axis[x]);
        if (!known) return "where a row stands follows from more than its number";
    }
    w->most = ROW_BYTES / (k->loads * keep_tile_bytes(k));
    if (w->most > MOST_TRIPS) w->most = MOST_TRIPS;
    return w->most > 0 ? lengths(w) : "there is no room for a trip's tiles";
}

// ---- tiles of rows to come -----------------------------------------------------------------------

// v as it is in another row and trip, which the map knows: what only the row decides is made before `row`, the rest
// before `trip`.
static Val *again(Walk *w, ValMap *m, Val *v, Op *row, Op *trip) {
    Op *d = v->def;
    if (!d || map_get(m, v) != v) return map_get(m, v);
    bool inside = d->parent == w->k->loop[0]->reg[0];
    if (!inside && !follows_row(w, v)) return v;
    for (int i = 0; i < d->nin; i++) again(w, m, d->in[i], row, trip);
    for (int i = 0; i < axes_of(v); i++) again(w, m, v->type.axis[i], row, trip);
    op_before(inside ? trip : row, op_clone(w->k->f, d, m));
    return map_get(m, v);
}

// The number of a row, i32, as that of one that there is.
static Val *existing(Walk *w, Builder *b, Val *row) {
    Val *v = b_op(b, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){b_cast(b, EL_index, row), w->last_row});
    v->def->attr = 1;
    return v;
}

static Val *there_is(Walk *w, Builder *b, Val *row) { return b_binary(b, OP_lt, b_cast(b, EL_index, row), w->rows); }

// Under which number load i of the trip at `counter` is kept.
static Val *place(Walk *w, Builder *b, Val *counter, int i) {
    const Op *loop = w->k->loop[0];
    Val *trip = b_binary(b, OP_div, b_binary(b, OP_sub, counter, loop->in[0]), loop->in[2]);
    return b_binary(b, OP_add, b_binary(b, OP_mul, trip, b_const(b, EL_index, w->k->loads)), b_const(b, EL_index, i));
}

// The tiles that a row has at `counter`, of a loop, on their way if `there` is true; a group of copies either way.
static void ask(Walk *w, Builder *b, Op *loop, Val *there, Val *row, Val *counter) {
    Keep *k = w->k;
    Op *branch = op_new(k->f, OP_T_if, b->span, 1, &there, 0);
    for (int i = 0; i < 2; i++) op_append(branch->reg[i], op_new(k->f, OP_T_yield, b->span, 0, NULL, 0));
    b_insert(b, branch);
    ValMap m = {.arena = k->f->arena};
    Builder in = {k->f, NULL, branch->reg[0]->last, b->span}, before = {k->f, NULL, loop, b->span};
    map_set(&m, k->loop[0]->reg[0]->args.at[0], counter);
    map_set(&m, w->number, existing(w, &before, row));
    for (int i = 0; i < k->loads; i++) {
        Val *x = again(w, &m, k->load[i]->out[0], loop, in.before);
        keep_put_tile(k, &in, w->room, place(w, &in, counter, i), x, i, &m)->attr = 1;
    }
    keep_effect(b, OP_T_copy_commit, 0);
}

static Region *loop_to(Walk *w, Builder *b, Val *lo, Val *hi, Val *step) {
    Fn *f = w->k->f;
    Op *loop = op_new(f, OP_T_for, b->span, 3, (Val *[]){lo, hi, step}, 0);
    region_arg(f, loop->reg[0], type_scalar(EL_index));
    op_append(loop->reg[0], op_new(f, OP_T_yield, b->span, 0, NULL, 0));
    b_insert(b, loop);
    return loop->reg[0];
}

// ---- the walk ------------------------------------------------------------------------------------

// Where all blocks come together last before the last loop; else that loop.
static Op *meeting(const Walk *w) {
    Op *last = w->k->loop[w->last], *at = last;
    for (Op *op = last; op && at == last; op = op->prev) if (op_meets(op)) at = op;
    while (at != last && at->prev && op_meets(at->prev)) at = at->prev;
    return at;
}

// What all rows have: how many there are, the room for one row's tiles. How many blocks walk.
static Val *common(Walk *w, Builder *b) {
    Keep *k = w->k;
    Fn *f = k->f;
    const Op *first = k->loop[0];
    Val *blocks = b_const(b, EL_index, f->shares ? f->shares : 1), *step = first->in[2];
    w->rows = b_binary(b, OP_div, b_op(b, OP_T_programs, 0, type_scalar(EL_index), 0, NULL), blocks);
    w->last_row = b_binary(b, OP_sub, w->rows, b_const(b, EL_index, 1));
    Val *walkers = b_binary(b, OP_div, b_op(b, OP_T_walkers, 0, type_scalar(EL_index), 0, NULL), blocks);
    Val *length = keep_length(b, first),
        *all = b_binary(b, OP_div, b_binary(b, OP_add, length, b_const(b, EL_index, step->def->imm - 1)), step);
    Val *tiles = b_binary(b, OP_mul, all, b_const(b, EL_index, k->loads));
    w->room = b_op(b, OP_T_keep, 0, type_scalar(EL_index), 1, &tiles);
    w->room->def->imm = keep_tile_bytes(k);
    return walkers;
}

// The walk from row `start`, without an end yet, around what a row needs. Its turn, of which four are told apart; the draw of the next row.
static Op *walk_new(Walk *w, Builder *b, Val *start, Val **turn, Val **drawing) {
    Fn *f = w->k->f;
    Val *arg[2][2];
    Op *walk = op_new(f, OP_T_while, b->span, 2, (Val *[]){start, b_const(b, EL_i32, 0)}, 2);
    for (int i = 0; i < 2; i++) {
        walk->out[i]->type = start->type;
        for (int r = 0; r < 2; r++) arg[r][i] = region_arg(f, walk->reg[r], start->type);
    }
    w->body = walk->reg[1];
    *turn = arg[1][1];
    Builder test = {f, walk->reg[0], NULL, b->span}, top = {f, w->body, NULL, b->span};
    Val *more = there_is(w, &test, arg[0][0]);
    op_append(walk->reg[0], op_new(f, OP_T_condition, b->span, 3, (Val *[]){more, arg[0][0], arg[0][1]}, 0));
    b_insert(b, walk);
    w->number = existing(w, &top, arg[1][0]);
    *drawing = b_op(&top, OP_T_draw, 0, type_scalar(EL_index), 1, &w->rows);
    for (uint32_t i = 0; i < w->moved.n; i++) {
        op_remove(w->moved.at[i]);
        op_append(w->body, w->moved.at[i]);
        if (op_meets(w->moved.at[i])) op_add_operand(f, w->moved.at[i], *turn);
    }
    replace_uses(w->body, w->row->out[0], w->number);
    return walk;
}

// The first row's tiles: there is one, since no more blocks are launched than there are programs. As far as a row may go, and where the row's own trips end.
static void ask_first(Walk *w, Op *walk, Val *start, Val **far, Val **behind) {
    Fn *f = w->k->f;
    const Op *first = w->k->loop[0];
    Val *lo = first->in[0], *step = first->in[2];
    Builder b = {f, NULL, walk, first->span};
    *far = b_binary(&b, OP_add, lo, b_const(&b, EL_index, w->most * step->def->imm));
    Val *own = b_binary(&b, OP_sub, first->in[1], lo);
    own = b_binary(&b, OP_mul, b_binary(&b, OP_div, b_binary(&b, OP_add, own, b_const(&b, EL_index, step->def->imm - 1)), step), step);
    *behind = b_binary(&b, OP_add, lo, b_op(&b, OP_T_fun, TF_max, type_scalar(EL_index), 2, (Val *[]){own, b_const(&b, EL_index, 0)}));
    Region *fill = loop_to(w, &b, lo, *far, step);
    Builder in = {f, NULL, fill->last, first->span};
    ask(w, &in, fill->owner, b_binary(&in, OP_lt, fill->args.at[0], first->in[1]), start, fill->args.at[0]);
}

// The next row's, in the last loop: before its stores, which may wait. Its number.
static Val *ask_next(Walk *w, Val *drawing, Val *turn, Val *walkers) {
    Fn *f = w->k->f;
    Op *last = w->k->loop[w->last];
    Span span = w->k->loop[0]->span;
    Builder meet = {f, NULL, meeting(w), span}, after = {f, NULL, last, span}, loop = {f, NULL, last->reg[0]->last, span};
    Val *drawn = b_op(&meet, OP_T_drawn, 0, type_scalar(EL_index), 2, (Val *[]){drawing, turn});
    Val *next = b_cast(&after, EL_i32, b_binary(&after, OP_add, drawn, walkers));
    for (Op *op = last->reg[0]->first; op; op = op->next) if (op->code == OP_T_store) { loop.before = op; break; }
    ask(w, &loop, last, there_is(w, &after, next), next, last->reg[0]->args.at[0]);
    return next;
}

// All loops take their tiles back.
static void take_back(Walk *w) {
    Keep *k = w->k;
    Op *first = k->loop[0];
    Builder begin = {k->f, NULL, first->reg[0]->first, first->span};
    keep_effect(&begin, OP_T_copy_wait, w->most - 1);
    keep_effect(&begin, OP_T_copy_commit, 0);
    for (int i = 0; i < k->loops; i++)
        for (int q = 0; q < k->loads; q++) {
            if (!k->again[i][q]) continue;
            Builder here = {k->f, NULL, k->again[i][q], first->span};
            keep_get_tile(k, i, q, w->room, place(w, &here, k->loop[i]->reg[0]->args.at[0], q));
        }
}

static void rewrite(Walk *w) {
    Fn *f = w->k->f;
    Op *last = w->k->loop[w->last];
    Span span = w->k->loop[0]->span;
    Builder b = {f, &f->body, NULL, span};
    Val *walkers = common(w, &b), *start = b_cast(&b, EL_i32, w->row->out[0]), *turn, *drawing, *far, *behind;
    Op *walk = walk_new(w, &b, start, &turn, &drawing);
    ask_first(w, walk, start, &far, &behind);
    Val *next = ask_next(w, drawing, turn, walkers);
    Builder done = {f, NULL, last->next, span};
    if (!done.before) done.r = w->body;
    Region *rest = loop_to(w, &done, behind, far, w->k->loop[0]->in[2]);            // trips that the row has not: as many groups of copies in each
    Builder empty = {f, NULL, rest->last, span};
    keep_effect(&empty, OP_T_copy_commit, 0);
    Builder end = {f, w->body, NULL, span};
    Val *turned = b_binary(&end, OP_and, b_binary(&end, OP_add, turn, b_const(&end, EL_i32, 1)), b_const(&end, EL_i32, 3));
    op_append(w->body, op_new(f, OP_T_yield, span, 2, (Val *[]){next, turned}, 0));
    take_back(w);
}

bool walk_rows(Keep *k, const CompileOptions *opt) {
    Walk w = {.k = k};
    Fn  *f = k->f;
    if (opt->schedule.persistent == 1 || (!opt->schedule.persistent && !f->shares)) return false;
    f->walk_refused = refusal(&w, opt);
    if (f->walk_refused) return false;
    int later = 0;
    for (int i = 1; i < k->loops; i++) if (keep_gets(k, i)) { w.last = i; later++; }
    fn_note(f, k->loop[0]->span, "what it loads is kept in shared memory for %d later loop%s", later, later == 1 ? "" : "s");
    rewrite(&w);
    f->rows_walk = true;
    fn_note(f, k->loop[0]->span, "blocks walk from row to row, and ask for the next row's tiles as they leave this one's");
    return true;
}

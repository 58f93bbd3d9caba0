// Stream-K: the trips of the last rounds of tiles are dealt evenly to all blocks, wherever tiles begin and end.
//
//     whole tiles           block 0  | tile 0            | tile 3            |
//     (5 on 3 blocks)       block 1  | tile 1            | tile 4            |
//                           block 2  | tile 2            |        idle       |
//
//     dealt                 block 2  | tile 0            | tile 1      >
//                           block 1  > 1    | tile 2            | tile 3  >
//                           block 0  > tile 3   | tile 4            |            >: sent to the block with the tile's begin
//
// A block's share is a range of all trips, in the order of the tiles, and so one tile's end, whole tiles, and another's
// begin. Who has a tile's begin comes to it last, when those with its other parts have long sent them: it waits for
// them, adds what they have in the tiles' order (so results are the same from run to run), and goes on with what
// follows the loop, whatever that is. Blocks wait only for blocks with lower numbers, which have been started before
// them; so nothing depends on all of them running at once.
//
// Only what does not fill a round is dealt, or, where that is less than a quarter of one, it and a whole round: a tile
// has two to five parts. The dealt tiles come first, so that the whole ones' loads hide the joining. Tiles that fill
// whole rounds all stay as they are.
//
// Blocks that read the same operand do so at other times then, so that L2 must bring it to each of them, where it
// brings it to all that want it at once else: a trip of 128 x 256 takes 0.75 to 0.85 us on an H200 instead of 0.6. So
// the less is dealt the better; other tiles, which fill their rounds, are mostly better still (docs/decisions/001).
//
// To the passes that follow, a program is one piece of a share, with bounds of its own for the loop: the u-th of a
// walking block's programs is the u-th piece of its share. A share of less than two tiles has three at most; those that
// are missing have no trips, send nothing and store nothing.
//
//     u = program;  block = blocks - 1 - u % blocks;  piece = u / blocks
//     from, to = block * all / blocks, (block + 1) * all / blocks              of the trips of the tiles that are dealt
//     tile = from / trips + piece;  first, last = max(from - tile * trips, 0), min(to - tile * trips, trips)
//     acc = 0;  for k in first .. last { acc += dot(a[m, k], b[k, n]) }
//     if first > 0 (and < last)  { part_send block, begin's block, acc }
//     if first == 0 (and < last) { acc = part_join.sum block + 1, others, block, acc;  c[m, n] = acc as bf16 }
//
// For loops that may be split without a `merge` (split_k.c), of products whose blocks walk (specialize/persistent.c); where it pays
// is the model's affair (cost.c), or asked for (Schedule.streamk).
#include "lower/build.h"
#include "lower/simplify/simplify.h"
#include "lower/facts/facts.h"
#include "lower/pass/split_k.h"

// FEW: less than a quarter of a round is dealt together with a whole one
enum { PIECES = 3, FEW = 4 };

typedef struct Deal {
    Split   s;
    Builder b;
    int64_t blocks;
    // of the grid; the first program that is a whole tile; by how much its number is past its tile's
    Val    *tiles, *whole_from, *before;
    Val    *trips, *each, *longer;       // of a tile; of a share; shares with one more
    Val    *dealt, *block, *first, *last;      // of this program: is it a piece of a share, whose, and of which trips
} Deal;

// ---- the grid's size as a value ------------------------------------------------------------------------

static Val *index_of(Deal *d, int64_t v) { return b_const(&d->b, EL_index, v); }
static Val *less(Deal *d, Val *x, Val *y) {
    return b_op(&d->b, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){x, y});
}
static Val *more(Deal *d, Val *x, Val *y) {
    return b_op(&d->b, OP_T_fun, TF_max, type_scalar(EL_index), 2, (Val *[]){x, y});
}
static Val *pick(Deal *d, Val *cond, Val *x, Val *y) {
    return b_op(&d->b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){cond, x, y});
}
static Val *calc(Deal *d, AstOp op, Val *x, Val *y) { return b_binary(&d->b, op, x, y); }

// ---- who has which trips -------------------------------------------------------------------------------
//
// All in numbers that are seen to fit 32 bits where `all` does: no product of a tile's number, and no trip past a share's.

static Val *at_least_0(Deal *d, Val *x) { return more(d, x, index_of(d, 0)); }

// What is the same in all programs.
static void grid(Deal *d) {
    Op *loop = d->s.loop;
    Val *one = index_of(d, 1), *blocks = index_of(d, d->blocks), *lo = loop->in[0], *hi = loop->in[1], *step = loop->in[2];
    d->tiles = host_value(&d->b, d->s.f->launch->programs);
    Val *left = calc(d, OP_rem, d->tiles, blocks), *some = less(d, left, one),
        *pieces = calc(d, OP_mul, some, index_of(d, PIECES * d->blocks));
    Val *many = less(d, calc(d, OP_div, calc(d, OP_mul, left, index_of(d, FEW)), blocks), one),
        *full = calc(d, OP_mul, calc(d, OP_sub, one, many), blocks);
    Val *dealt = less(d, d->tiles, calc(d, OP_mul, some, calc(d, OP_add, left, full)));
    d->whole_from = pieces;
    d->before = at_least_0(d, calc(d, OP_sub, pieces, dealt));
    d->trips = more(d, calc(d, OP_div, calc(d, OP_add, calc(d, OP_sub, hi, lo), calc(d, OP_sub, step, one)), step), one);
    Val *all = calc(d, OP_mul, dealt, d->trips);
    d->each = calc(d, OP_div, all, blocks);
    d->longer = calc(d, OP_rem, all, blocks);
}

// The pieces of shares, and the tiles that are whole: as many programs.
static LExpr programs(const Deal *d) {
    Arena *a = d->s.f->arena;
    LExpr tiles = d->s.f->launch->programs, left = launch_join_const(a, L_MOD, tiles, d->blocks),
          some = launch_join_const(a, L_MIN, left, 1);
    LExpr many = launch_join_const(a, L_MIN,
                                   launch_join_const(a, L_DIV, launch_join_const(a, L_MUL, left, FEW), d->blocks), 1);
    LExpr full = launch_join_const(a, L_MUL, launch_join(a, L_SUB, launch_const(a, 1), many), d->blocks);
    LExpr dealt = launch_join(a, L_MIN, tiles, launch_join(a, L_MUL, some, launch_join(a, L_ADD, left, full)));
    return launch_join(a, L_ADD, launch_join(a, L_SUB, tiles, dealt), launch_join_const(a, L_MUL, some, PIECES * d->blocks));
}

// Block i's share begins at i * each + min(i, longer): the first `longer` blocks have a trip more than the others. Its
// pieces: what is left of the tile in which it begins, a tile at most, and the rest. Returns this program's tile.
static Val *piece(Deal *d, Val *program) {
    Val *zero = index_of(d, 0), *one = index_of(d, 1), *blocks = index_of(d, d->blocks);
    d->dealt = calc(d, OP_lt, program, d->whole_from);
    d->block = calc(d, OP_sub, index_of(d, d->blocks - 1), calc(d, OP_rem, program, blocks));
    Val *from = calc(d, OP_add, calc(d, OP_mul, d->block, d->each), less(d, d->block, d->longer));
    Val *share = calc(d, OP_add, d->each, pick(d, calc(d, OP_lt, d->block, d->longer), one, zero));
    Val *within = calc(d, OP_rem, from, d->trips), *length[PIECES];
    length[0] = less(d, share, at_least_0(d, calc(d, OP_sub, d->trips, within)));
    length[1] = less(d, at_least_0(d, calc(d, OP_sub, share, length[0])), d->trips);
    length[2] = at_least_0(d, calc(d, OP_sub, calc(d, OP_sub, share, length[0]), length[1]));
    Val *number = less(d, calc(d, OP_div, program, blocks), index_of(d, PIECES - 1)), *begins = calc(d, OP_eq, number, zero);
    Val *mine = pick(d, begins, length[0], pick(d, calc(d, OP_eq, number, one), length[1], length[2]));
    d->first = pick(d, d->dealt, pick(d, begins, within, zero), zero);
    d->last = pick(d, d->dealt, calc(d, OP_add, d->first, mine), d->trips);
    Val *of = calc(d, OP_add, calc(d, OP_div, from, d->trips), number), *whole = calc(d, OP_sub, program, d->before);
    Val *tile = less(d, pick(d, d->dealt, of, whole), calc(d, OP_sub, d->tiles, one));
    tile->def->attr = 1;                                       // not negative: see fact_range
    return tile;
}

// How many blocks behind this one have the tile's other trips, where it ends with the share: those up to `longer` a
// trip more.
static Val *others_behind(Deal *d) {
    Val *one = index_of(d, 1), *more_each = calc(d, OP_add, d->each, one), *left = calc(d, OP_sub, d->trips, d->last);
    Val *to_come = at_least_0(d, calc(d, OP_sub, left, one)),
        *longer = at_least_0(d, calc(d, OP_sub, calc(d, OP_sub, d->longer, d->block), one));
    Val *near = calc(d, OP_div, to_come, more_each),
        *far = calc(d, OP_div, at_least_0(d, calc(d, OP_sub, to_come, longer)), more(d, d->each, one));
    Val *steps = pick(d, calc(d, OP_lt, to_come, calc(d, OP_mul, longer, more_each)), near, far);
    return pick(d, calc(d, OP_gt, left, index_of(d, 0)), calc(d, OP_add, steps, one), index_of(d, 0));
}

// The block with the tile's begin, where this one's share begins later in it.
static Val *begins_in(Deal *d) {
    Val *one = index_of(d, 1), *more_each = calc(d, OP_add, d->each, one),
        *back = at_least_0(d, calc(d, OP_sub, d->first, one));
    Val *shorter = at_least_0(d, calc(d, OP_sub, d->block, d->longer));
    Val *near = calc(d, OP_div, back, more(d, d->each, one)),
        *far = calc(d, OP_div, calc(d, OP_add, back, shorter), more_each);
    Val *steps = pick(d, calc(d, OP_lt, back, calc(d, OP_mul, shorter, d->each)), near, far);
    return at_least_0(d, calc(d, OP_sub, calc(d, OP_sub, d->block, one), steps));
}

static void share(Deal *d) {
    Op *loop = d->s.loop;
    Val *lo = loop->in[0], *hi = loop->in[1], *step = loop->in[2];
    loop->in[0] = calc(d, OP_add, lo, calc(d, OP_mul, d->first, step));
    loop->in[1] = less(d, hi, calc(d, OP_add, lo, calc(d, OP_mul, d->last, step)));
}

// ---- what becomes of a piece ---------------------------------------------------------------------------

static Op *branch_after(Deal *d, Op *after, Val *cond) {
    Op *branch = op_new(d->s.f, OP_T_if, d->s.loop->span, 1, &cond, 0);
    op_after(after, branch);
    for (int i = 0; i < 2; i++) op_append(branch->reg[i], op_new(d->s.f, OP_T_yield, d->s.loop->span, 0, NULL, 0));
    return branch;
}

static void finish(Deal *d) {
    Op *loop = d->s.loop, *rest = loop->next;
    Val *zero = index_of(d, 0), *some = calc(d, OP_lt, d->first, d->last), *others = others_behind(d), *to = begins_in(d);
    Val *sends = calc(d, OP_and, some, calc(d, OP_gt, d->first, zero)),
        *joins = calc(d, OP_and, some, calc(d, OP_eq, d->first, zero));
    Op *sending = branch_after(d, loop, sends), *joining = branch_after(d, sending, joins);
    for (Op *op = rest, *next; op; op = next) {
        next = op->next;
        op_remove(op);
        op_before(joining->reg[0]->last, op);
    }
    split_send(&d->s, sending->reg[0], d->block, to, 1);
    split_join(&d->s, joining->reg[0], calc(d, OP_add, d->block, index_of(d, 1)), others, d->block);
}

// ---- does it apply? ------------------------------------------------------------------------------------

// Scalars that are plain arithmetic, the same in all programs.
static bool alike(const Val *v) {
    const Op *op = v->def;
    if (!op || !op_has(op, 'P') || op->nreg || op->code == OP_T_program || v->type.rank) return false;
    for (int i = 0; i < op->nin; i++) if (op->in[i]->type.kind == TY_TILE && !alike(op->in[i])) return false;
    return true;
}

static void bring_before(Op *mark, Op *op) {
    const Op *x = mark;
    while (x && x != op) x = x->next;
    if (!x) return;                                            // it stands before
    for (int i = 0; i < op->nin; i++) if (op->in[i]->def) bring_before(mark, op->in[i]->def);
    op_remove(op);
    op_before(mark, op);
}

static const char *refusal(Deal *d, const CompileOptions *opt) {
    const char *why = split_applies(&d->s);
    if (why) return why;
    if (d->s.merge) return "what the loop carries is joined by a `merge`";
    if (!split_products(&d->s)) return "the loop has no product";
    for (int i = 0; i < 3; i++) if (!alike(d->s.loop->in[i])) return "programs differ in the trips of their loops";
    if (!opt->target->has_wgmma || opt->schedule.persistent == 1) return "its blocks do not walk from tile to tile";
    if (opt->schedule.split_k > 1) return "each tile's loop is in parts already";
    if (!host_has_value(d->s.f->launch->programs)) return "how many tiles there are follows from more than dimensions";
    return NULL;
}

bool streamk(Fn *f, const CompileOptions *opt) {
    Deal d = {.s = {.f = f}, .blocks = walking_blocks(opt)};
    if (opt->schedule.stream_k < 2 || !f->fast) return false;
    f->streamk_refused = refusal(&d, opt);
    if (f->streamk_refused) return false;
    Op *was = program_of(f), *program = op_new(f, OP_T_program, was->span, 0, NULL, 1);
    program->out[0]->type = was->out[0]->type;
    op_before(was, program);
    d.b = (Builder){f, NULL, was, d.s.loop->span};
    for (int i = 0; i < 3; i++) bring_before(was, d.s.loop->in[i]->def);
    grid(&d);
    Val *tile = piece(&d, program->out[0]);
    replace_uses(&f->body, was->out[0], tile);
    op_remove(was);
    d.b.before = d.s.loop;
    share(&d);
    split_carry(&d.s, &d.b, d.first);
    finish(&d);
    f->launch->programs = programs(&d);
    f->dealt = (int)d.blocks;
    simplify(f);
    return true;
}

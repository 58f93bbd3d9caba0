// Ping-pong: each consumer group of a walking block makes tiles of its own.
//
//     together    group 0   tile 0, upper half   | store |   tile 1, upper half   | store |
//                 group 1   tile 0, lower half   | store |   tile 1, lower half   | store |
//
//     ping-pong   group 0   tile 0           | store |    tile 2           | store |
//                 group 1             tile 1           | store |    tile 3           | store |
//
// While one group stores its tile, or computes what follows its loop, the other one multiplies, so that the tensor
// cores do not wait at the end of a tile; and tiles are half as large, so that they fill rounds that larger ones do
// not. The producer brings the operands of all tiles of the block in order, through one ring. Group g takes the tiles
// program + g * walkers, and so on by two strides, and after each of them skips the stages that the other group's tile
// goes through: as many as a loop has trips, so a position is moved on by trips % stages, and its phase flips trips /
// stages times and once more where the ring wraps.
//
// The groups' loops begin in turns, one when the other has ended: a stage is waited for by the parity of its phase,
// which tells phases apart only while the last one but this is complete, and so it is once the other group has waited
// for all of its tile. It also is what keeps the tensor cores with one tile at a time, so that the groups stay apart.
//
// A stage is one group's alone, so one arrival frees it. Slots in shared memory for stores, scratch and a barrier each group
// has of its own, as slices have (specialize/sliced_k.c), whose second run of the consumers' region this is.
//
// For loops whose products are only added up, whose blocks walk, and which have as many trips in each tile; where it
// pays is the model's affair (cost.c), or asked for (Schedule.pingpong). What follows a long loop hides behind the
// other group's products, so the arrival that frees a tile's last stage must not be late: see taken_behind
// (llvm/tma_mbarrier.c).
#include "lower/specialize/specialize.h"

enum { ROWS = 256, MOST_REGS = 192 };                          // of a tile; of a group's accumulators, of 240

static int refuse(Ws *h, const char *why) {
    h->f->pingpong_refused = why;
    return 1;
}

int ws_pingpong(Ws *h) {
    const Product *p = &h->p[0];
    if (h->opt->schedule.pingpong < 2) return 1;
    int64_t regs = 0;
    if (h->opt->schedule.sliced_k > 1) return refuse(h, "its groups share the trips of a tile");
    if (h->np > 1 && !h->pipelined) return refuse(h, "a product of a trip waits for another");
    for (; p < h->p + h->np; p++) {
        for (int i = 0; i < 2; i++)
            if ((p->op[i].where == ONCE && !h->keep) || p->op[i].where == MADE) return refuse(h, "an operand is loaded once a tile");
        if (!p->goes_on) regs += axis_extent(p->row) / 64 * axis_extent(p->col) / 2 * (p->promoted ? 2 : 1);
    }
    p = &h->p[0];
    if (axis_extent(p->row) > ROWS || regs > MOST_REGS) return refuse(h, "a tile does not fit the registers of one group");
    for (int i = 0; i < 3 * h->nloops; i++)
        if (of_program(h->loops[i / 3]->in[i % 3])) return refuse(h, "programs differ in the trips of their loops");
    if (!ws_walk_bytes(h)) return refuse(h, "its blocks do not walk from tile to tile");
    return 2;
}

// Functions of a tile: 2 us of GELU, and an arrival that waits for them. Less than that is sooner done than kept back:
// 4096 x 4096 x 128 takes 16.5 us instead of 15.0 with it.
bool ws_pingpong_busy(const Ws *h) {
    bool busy = false;
    for (const Op *op = h->loop->next; op && h->tiles > 1; op = op->next)
        busy |= op->code == OP_T_fun && op->sub != TF_min && op->sub != TF_max && op->out[0]->type.rank > 1;
    return busy;
}

void ws_pingpong_no_room(Ws *h) {
    h->tiles = refuse(h, "two stages of the operands do not fit shared memory beside the slots of two groups");
}

static Val *cast_i32(Builder *b, Val *v) { return b_op(b, OP_T_cast, 0, type_scalar(EL_i32), 1, &v); }

static Val *loop_trips(Builder *b, Val *const *in) {
    Val *zero = b_const(b, EL_index, 0), *one = b_const(b, EL_index, 1);
    Val *length = b_binary(b, OP_sub, in[1], in[0]), *some = b_binary(b, OP_gt, length, zero);
    length = b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){some, length, zero});
    return b_binary(b, OP_div, b_binary(b, OP_sub, b_binary(b, OP_add, length, in[2]), one), in[2]);
}

// How far a tile's trips move a position.
static void tile_trips(Ws *h, Builder *b) {
    Val *trips = loop_trips(b, h->loops[0]->in), *stages = b_const(b, EL_index, h->stages);
    for (int i = 1; i < h->nloops; i++) trips = b_binary(b, OP_add, trips, loop_trips(b, h->loops[i]->in));
    h->rest = cast_i32(b, b_binary(b, OP_rem, trips, stages));
    h->turns_over = cast_i32(b, b_binary(b, OP_rem, b_binary(b, OP_div, trips, stages), b_const(b, EL_index, 2)));
}

Ring ws_pingpong_begin(Ws *h, Builder *b) {
    h->slice = b_op(b, OP_T_slice, 0, type_scalar(EL_index), 0, NULL);
    h->slice->def->imm = h->tiles;
    tile_trips(h, b);
    Val *group = cast_i32(b, h->slice);
    return (Ring){b_binary(b, OP_mul, group, h->rest), b_binary(b, OP_mul, group, h->turns_over)};
}

static void guarded(Ws *h, Builder *b, Val *cond, OpCode turn) {
    Op *branch = op_new(h->f, OP_T_if, b->span, 1, &cond, 0);
    b_insert(b, branch);
    Builder yes = {h->f, branch->reg[0], NULL, b->span}, no = {h->f, branch->reg[1], NULL, b->span};
    ws_effect(&yes, turn, 0, NULL)->attr = h->tiles;
    ws_effect(&yes, OP_T_yield, 0, NULL);
    ws_effect(&no, OP_T_yield, 0, NULL);
}

// The first tile of a block waits for none, and the last one is waited for by none.
void ws_pingpong_turns(Ws *h, Builder *before, Val *again, Builder *after, Val *more) {
    guarded(h, before, again, OP_T_turn_wait);
    guarded(h, after, more, OP_T_turn_pass);
}

Ring ws_pingpong_skip(Ws *h, Builder *b, Ring r) {
    Val *next = b_binary(b, OP_add, r.stage, h->rest), *wrap = b_binary(b, OP_ge, next, ws_i32(b, h->stages));
    Val *first = b_binary(b, OP_sub, next, ws_i32(b, h->stages)), *phase = b_binary(b, OP_xor, r.phase, h->turns_over);
    Val *flip = b_binary(b, OP_xor, phase, ws_i32(b, 1));
    return (Ring){b_op(b, OP_T_select, 0, type_scalar(EL_i32), 3, (Val *[]){wrap, first, next}),
                  b_op(b, OP_T_select, 0, type_scalar(EL_i32), 3, (Val *[]){wrap, flip, phase})};
}

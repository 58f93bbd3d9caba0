// The verifier's rules for what programs, blocks and loops hand each other: parts of tiles, joins of a cluster, numbers
// drawn, kept tiles.
#include "lower/ir/verify.h"

void check_part_put(Check *c, const Op *op) {
    want_scalar_int(c, op, 0, "the tile's number");
    want_scalar_int(c, op, 1, "the part's number");
    want_tiles(c, op, 2, op->nin);
    if (!is_scalar(op->out[0]) || !is_bool(op->out[0])) problem(c, "the result must be a bool");
    if (op->imm < 1) problem(c, "a tile has at least one part");
    if (op->attr == PUT_scattered && op->imm != c->f->cluster) problem(c, "the cluster has %d blocks", c->f->cluster);
}

void check_part_take(Check *c, const Op *op) {
    want_scalar_int(c, op, 0, "the tile's number");
    if (op->code == OP_T_part_take) want_scalar_int(c, op, 2, "the part's number");
    const Op *put = op->in[1]->def;
    if (!put || put->code != OP_T_part_put) { problem(c, "operand 1 must be the result of part_put"); return; }
    if (op->attr < 0 || op->attr >= put->nin - 2) { problem(c, "part_put keeps %d values", put->nin - 2); return; }
    const Type *whole = &put->in[2 + op->attr]->type, *slice = &op->out[0]->type;
    if (put->attr == PUT_scattered) {
        int divided, own;
        if (op->code == OP_T_part_take) problem(c, "a slice is of all parts");
        else if (!slice_axes(whole, slice, &divided, &own) || axis_extent(slice->axis[own]) * put->imm != axis_extent(whole->axis[divided]))
            problem(c, "the result is no slice of the value kept");
    } else if (!type_equal(slice, whole))
        problem(c, "the result's type is not that of the value kept");
}

void check_part_send(Check *c, const Op *op) {
    want_scalar_int(c, op, 0, "the slot's number");
    want_scalar_int(c, op, 1, "the joining program's number");
    want_tiles(c, op, 2, op->nin);
    if (op->imm < 1) problem(c, "there is at least one slot");
}

void check_part_join(Check *c, const Op *op) {
    want_scalar_int(c, op, 0, "the first slot's number");
    want_scalar_int(c, op, 1, "how many slots there are");
    want_scalar_int(c, op, 2, "the program's number");
    want_tiles(c, op, 3, 4);
    if (op->attr < 0) problem(c, "values are counted from 0");
    if (!type_equal(&op->out[0]->type, &op->in[3]->type)) problem(c, "the result's type is not that of the value");
    if (op->sub == TR_argmax || op->sub == TR_argmin)
        problem(c, "parts are not joined by %s", sub_name(SUB_REDUCE, op->sub));
    if ((op->sub == TR_any || op->sub == TR_every) && !is_bool(op->out[0])) problem(c, "any and every are of bool");
}

void check_part_get(Check *c, const Op *op) {
    check_part_take(c, op);
    if (op->nin > 2) want_scalar_int(c, op, 2, "how many parts");
    if (op->sub == TR_argmax || op->sub == TR_argmin)
        problem(c, "parts are not joined by %s", sub_name(SUB_REDUCE, op->sub));
    if ((op->sub == TR_any || op->sub == TR_every) && !is_bool(op->out[0])) problem(c, "any and every are of bool");
}

static void want_turn(Check *c, const Op *op) {
    const Op *walk = op->parent->owner;
    if (walk && (walk->code != OP_T_while || walk->parent->owner))
        problem(c, "all blocks must come here as often: not in a branch, nor in a loop but the outermost `while`");
    if ((op->nin > 1) != (walk != NULL)) problem(c, "in a loop, and nowhere else, there are turns");
    if (op->nin > 1 && (!is_scalar(op->in[1]) || elem_of(op->in[1]) != EL_i32)) problem(c, "a turn is an i32");
}

void check_join_cluster(Check *c, const Op *op) {
    want_tiles(c, op, 0, 1);
    if (!type_equal(&op->out[0]->type, &op->in[0]->type)) problem(c, "the result's type is not the operand's");
    if (op->sub == TR_argmax || op->sub == TR_argmin)
        problem(c, "blocks are not joined by %s", sub_name(SUB_REDUCE, op->sub));
    if (op->imm < 2 || op->imm != c->f->cluster) problem(c, "the cluster has %d blocks", c->f->cluster);
    want_turn(c, op);
}

void check_from_cluster(Check *c, const Op *op) {
    want_tiles(c, op, 0, 1);
    if (!type_equal(&op->out[0]->type, &op->in[0]->type)) problem(c, "the result's type is not the operand's");
    if (op->imm < 2 || op->imm != c->f->cluster || op->attr < 0 || op->attr >= op->imm)
        problem(c, "the cluster has %d blocks", c->f->cluster);
    want_turn(c, op);
}

void check_draw(Check *c, const Op *op) {
    index_scalar(c, op);
    want_scalar_int(c, op, 0, "the number of numbers");
}

void check_drawn(Check *c, const Op *op) {
    index_scalar(c, op);
    if (!op->in[0]->def || op->in[0]->def->code != OP_T_draw) problem(c, "operand 0 must be the result of draw");
    want_turn(c, op);
}

void check_keep(Check *c, const Op *op) {
    want_scalar_int(c, op, 0, "the number of tiles");
    if (!is_scalar(op->out[0]) || elem_of(op->out[0]) != EL_index) problem(c, "the result must be an index");
    if (op->imm < 1) problem(c, "a tile has at least one byte");
}

static void want_keep(Check *c, const Op *op) {
    const Op *keep = op->in[0]->def;
    if (!keep || keep->code != OP_T_keep) problem(c, "operand 0 must be the result of keep");
    want_scalar_int(c, op, 1, "the tile's number");
}

static void want_axes_of(Check *c, const Op *op, int first, const Type *t) {
    bool all = op->nin - first == t->rank && t->rank > 0;
    for (int i = first; i < op->nin; i++) all &= op->in[i]->type.kind == TY_AXIS && type_axis(t, op->in[i]) >= 0;
    if (!all) problem(c, "the axes are not those of the tile, each once");
}

void check_keep_put(Check *c, const Op *op) {
    want_keep(c, op);
    if (!is_tile(op->in[2])) problem(c, "only tiles are kept");
    else want_axes_of(c, op, 3, &op->in[2]->type);
}

void check_keep_get(Check *c, const Op *op) {
    const Type *t = &op->out[0]->type;
    want_keep(c, op);
    want_axes_of(c, op, 2, t);
    for (const Op *put = op_walk(&c->f->body, NULL); put; put = op_walk(&c->f->body, put)) {
        if (put->code != OP_T_keep_put || put->in[0] != op->in[0]) continue;
        const Type *of = &put->in[2]->type;
        bool alike = of->rank == t->rank && of->elem == t->elem && of->ptr == t->ptr && put->nin == op->nin + 1;
        for (int i = 0; i < t->rank && alike; i++) alike = axis_extent(put->in[3 + i]) == axis_extent(op->in[2 + i]);
        if (alike) return;
    }
    problem(c, "no tile of this form is kept");
}

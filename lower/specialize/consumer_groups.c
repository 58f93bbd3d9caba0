// Consumer groups that share a tile: one or two, or three with a band of 64 of its 192 rows each.
//
//     producer   a0 a1 a2 b | a0 a1 a2 b | ..          a ring as for two groups: the left operand's box has 192 rows
//     group 0    a0 * b       rows   0 ..  63
//     group 1    a1 * b       rows  64 .. 127          b (keys and values of attention) is in shared memory once for all three
//     group 2    a2 * b       rows 128 .. 191
//
// Layouts are bits: two groups of four warps share those of a tile of 128 rows, but twelve warps have none. A single
// group has those of a tile of 64 rows, and nothing but the shared operand and the ring is common to three. So the
// consumers' region runs once for each of them (as with slices and ping-pong), and the tile's axis of rows is another
// one there:
//
//     m  = axis lo, hi {192}                        the producer's: boxes, the loop's bounds, first(m) and last(m)
//     m' = axis lo + slice * 64, hi {64}            a group's: all tiles, masks, indices and stores of its region
//
// The left operand in shared memory has the rows of all three; wgmma's imm says so, and each takes its own. A stage is
// free when three have arrived. 512 threads: 160 registers for those that multiply, 32 for the producer
// (llvm/tma_mbarrier.c), so that accumulators have up to 64 x 192, and attention heads of 64 by 128 keys.
//
// For tiles of 192 rows whose rows have nothing to do with each other: no sum over them, no store without them. Where
// that is not so, such a tile has no roles, or its transpose has.
#include "lower/specialize/specialize.h"

// of a thread's 160 and 240: accumulators, and left operands that are computed
enum { BANDS = 3, BAND = 64, BAND_REGS = 128, GROUP_REGS = 176 };

static int refuse(Ws *h, const char *why) {
    h->f->groups_refused = why;
    return 1;
}

// Across rows, or not by rows at all: what one group would do of the others' part, or all three alike.
static const char *not_by_rows(const Fn *f, const Val *row) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        bool stores = op->code == OP_T_store || op->code == OP_T_ptrstore || op->code == OP_T_atomic;
        Type places = stores ? op_places(op) : (Type){0};
        if (op->code == OP_T_part_put || op->code == OP_T_part_send) return "programs share the loop";
        if (op->code == OP_T_print) return "it prints";
        if (op->code == OP_T_reduce && op->flags & CHECKED) continue;
        if (stores && type_axis(&places, row) < 0) return "something is stored that has no rows";
        for (int i = 0; i < op->nin; i++)
            if (op->in[i] == row && op->code != OP_T_index && op->code != OP_T_live)
                return "something is computed across its rows";
    }
    return NULL;
}

static int64_t registers(const Product *p) { return axis_extent(p->row) / 64 * axis_extent(p->col) / 2 * (p->promoted ? 2 : 1); }
static bool one_fits(const Ws *h) { return ws_sums(h, registers) <= GROUP_REGS; }

static int bands(Ws *h) {
    const Val *row = h->p[0].row;
    int64_t regs = 0;
    if (axis_extent(row) != BANDS * BAND || (h->opt->schedule.groups == 1 && one_fits(h))) return 1;
    if (h->opt->schedule.sliced_k > 1) return refuse(h, "groups that share its trips are asked for");
    for (int i = 0; i < h->np; i++) {
        const Product *p = &h->p[i];
        if (p->row != row || p->swapped) return refuse(h, "products differ in rows");
        if (p->op[0].seen || p->op[1].seen) return refuse(h, "an operand is used elsewhere too");
        if (p->op[0].gathered || p->op[1].gathered) return refuse(h, "rows of an operand are gathered");
        if (p->op[1].turned) return refuse(h, "an operand is turned in shared memory");
        if (p->op[0].where == MADE || p->op[1].where == MADE) return refuse(h, "an operand is made before the loop");
        if (p->op[0].where == ACROSS || p->op[1].where == ACROSS) return refuse(h, "an operand of a product goes from group to group");
        if (p->op[0].where == REGISTERS && !ws_chained(h)) return refuse(h, "the left operand of a product is computed");
        if (!p->goes_on) regs += axis_extent(p->col) / 2 * (p->promoted ? 2 : 1);
        if (p->op[0].where == REGISTERS) regs += axis_extent(p->k) / 4;
    }
    if (regs > BAND_REGS) return refuse(h, "a band of the tile does not fit 160 registers a thread");
    const char *why = not_by_rows(h->f, row);
    return why ? refuse(h, why) : BANDS;
}

void ws_divide_rows(Ws *h, int tiles) {
    int64_t rows = axis_extent(h->p[0].row);
    int asked = h->opt->schedule.groups;
    if (!h->no_bands) h->f->groups_refused = NULL;
    h->tiles = tiles;
    h->bands = tiles > 1 ? 1 : bands(h);
    h->groups = tiles * h->bands > 1 || rows % 128 ? 1 : 2;
    if (!asked || asked == h->groups * h->bands || h->f->groups_refused) return;
    if (tiles > 1) refuse(h, "each makes tiles of its own");
    else if (rows % (asked * 64)) refuse(h, "the tile's rows are not so many times 64");
    else if (asked == 1 && one_fits(h)) h->groups = 1;
    else refuse(h, "the tile does not fit the registers of one group");
}

void ws_bands_apart(Ws *h, Region *consumers) {
    Val *row = h->p[0].row;
    Builder b = {h->f, consumers, consumers->first, h->loop->span};
    Val *slice = b_op(&b, OP_T_slice, 0, type_scalar(EL_index), 0, NULL);
    slice->def->imm = h->bands;
    Val *lo = b_binary(&b, OP_add, axis_lo(row), b_binary(&b, OP_mul, slice, b_const(&b, EL_index, BAND)));
    Val *own = b_op(&b, OP_T_axis, 0, (Type){.kind = TY_AXIS, .shape = {BAND}}, 2, (Val *[]){lo, axis_hi(row)});
    own->def->imm = BAND;
    own->def->flags = row->def->flags;
    own->name = row->name;
    replace_uses(consumers, row, own);
    for (Op *op = op_walk(consumers, NULL); op; op = op_walk(consumers, op))
        if (op->code == OP_T_wgmma && op->in[0]->type.kind == TY_BUFFER) op->imm = h->bands;
    for (int i = 0; i < h->np; i++) h->p[i].row = own;
}

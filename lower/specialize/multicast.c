// Clusters of two blocks that load for each other what both want.
//
//     programs 2i and 2i + 1, one below the other        block 0 brings a0 and the left half of b, to both blocks
//                                                        block 1 brings a1 and the right half of b, to both blocks
//          a0 |   | c0   b
//          a1 |   | c1   b                               a stage: 16 + 16 + 16 KB through L2 instead of 16 + 32 each
//
// Each block has its ring and its barriers. The boxes of a tile that both want (its coordinates in the neighbour's program
// are the same: an equation of a few scalars, found out once for each tile of the grid, true for all pairs but those at the
// end of a column) are shared out between the blocks, and each goes to the same place of both rings and counts at both
// barriers (TMA multicast). So a stage may be filled when the consumers of both blocks are done with it: they arrive at
// both blocks' barriers. Neighbours stay together from tile to tile, so clusters are for kernels whose blocks walk
// (specialize/persistent.c); the windows of a convolution each block brings for itself. Of an odd number of programs the last is made by both blocks of its cluster, which store the same.
#include "lower/specialize/specialize.h"

static int refuse(Ws *h, const char *why) {
    h->f->cluster_refused = why;
    return 1;
}

// Both blocks of a cluster make the last of an odd number of programs: what does more than store is done twice.
static bool does_more_than_store(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        if (op->code == OP_T_atomic || op->code == OP_T_ptrstore || op->code == OP_T_print) return true;
        if (op->code == OP_T_store && f->launch->params[op->in[0]->def->imm].mode == PM_INOUT) return true;
    }
    return false;
}

static bool divides(const Operand *o, int blocks) {            // into whole chunks of columns, else into rows by eights
    int64_t chunks = o->columns * elem_bytes(o->a.elem) / o->swizzle;
    return chunks % blocks == 0 || axis_extent(o->outer) % (8 * blocks) == 0;
}

int ws_row_parts(const Ws *h, const Operand *o) {
    if (h->cluster < 2 || o->where != RING || !divides(o, h->cluster)) return 1;
    int64_t chunks = o->columns * elem_bytes(o->a.elem) / o->swizzle;
    return chunks % h->cluster == 0 ? 1 : h->cluster;
}

int ws_cluster(Ws *h) {
    if (h->opt->schedule.cluster < 2 || h->f->cluster) return 1;        // asked for; or its blocks are the parts of a tile
    if (h->opt->schedule.cluster > 2) return refuse(h, "clusters are of two blocks");
    if (!h->opt->target->has_cluster) return refuse(h, "this target has none");
    if (!h->walk_bytes) return refuse(h, "they are for blocks that go from tile to tile");
    if (h->nloops > 1) return refuse(h, "its products are in several loops");
    if (h->keep) return refuse(h, "the right operand is kept");
    if (does_more_than_store(h->f)) return refuse(h, "what the last program does would be done twice");
    if (h->nsources) return refuse(h, "their left operand is computed");
    if (ws_any_seen(h)) return refuse(h, "threads read an operand, too");
    if (ws_gathered_bytes(h, -1)) return refuse(h, "rows of an operand are gathered");
    if (ws_any_boxes(h)) return refuse(h, "rows of an operand lie together only some at a time");
    for (int i = 0; i < 3; i++)                                // the rings turn together
        if (of_program(h->loop->in[i])) return refuse(h, "programs differ in the trips of their loops");
    return 2;
}

// v as the neighbour has it: NULL where that is not known before the loop.
static Val *of_neighbour(Ws *h, Builder *b, ValMap *m, Val *v) {
    Op *d = v->def;
    Val *known = map_get(m, v), *in[8];
    if (known != v || v == h->loop->reg[0]->args.at[0]) return known;
    if (!d || d->parent == h->loop->reg[0] || d->nin > 8 || d->nreg) return NULL;
    bool differs = false;
    for (int i = 0; i < d->nin; i++) {
        in[i] = d->in[i]->type.kind == TY_TILE ? of_neighbour(h, b, m, d->in[i]) : d->in[i];
        if (!in[i]) return NULL;
        differs |= in[i] != d->in[i];
    }
    if (!differs) return v;
    Op *c = op_clone(h->f, d, m);                              // its operands are in the map by now
    op_append(b->r, c);
    return c->out[0];
}

static Val *same_box(Ws *h, Builder *b, ValMap *m, const Operand *o) {
    Val *all = NULL;
    for (int d = 0; d < o->a.nidx; d++)
        for (int t = 0; t < o->a.aff[d].nterm; t++) {
            Val *mine = o->a.aff[d].term[t].v, *other = of_neighbour(h, b, m, mine);
            if (!other) return NULL;
            if (other == mine) continue;
            Val *same = b_binary(b, OP_eq, mine, other);
            all = all ? b_binary(b, OP_and, all, same) : same;
        }
    return all ? all : b_const(b, EL_bool, 1);
}

void ws_common(Ws *h, Region *producer) {
    Builder b = {h->f, producer, NULL, h->loop->span};
    ValMap m = {.arena = h->f->arena};
    Op *program = ws_program(h->f);
    Val *programs = b_op(&b, OP_T_programs, 0, type_scalar(EL_index), 0, NULL);
    Val *next = b_binary(&b, OP_xor, program->out[0], b_const(&b, EL_index, 1));
    map_set(&m, program->out[0], ws_existing(&b, next, programs));
    for (int i = 0; i < h->np; i++)
        for (int k = 0; k < 2; k++) {
            Operand *o = &h->p[i].op[k];
            if (o->where == RING && !o->same && !o->window && divides(o, h->cluster)) o->common = same_box(h, &b, &m, o);
        }
}

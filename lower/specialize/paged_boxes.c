// Operands whose rows lie together some at a time: pages of a cache, blocks that a table names.
//
//     n of 128 rows                                               the producer, one thread, before it waits for a stage, or before the loop
//     k[table[b, n / 64], n % 64, g, d]                           p0 = table[b, n0 / 64];          r0 = n0 % 64
//                                                                 p1 = table[b, (n0 + 64) / 64];   r1 = (n0 + 64) % 64
//                                                                 tma_load k, p0, r0, g, d0, p1, r1, g, d0        boxes of 64 rows
//
// Within so many rows, from where they begin, one index goes on by one from row to row, and the others are the same: then they are a box of TMA,
// and a tile is as many boxes, each with a corner of its own. As long as may be, from a whole tile down to 8 rows (a swizzle's). Numbers of rows of
// which less is known come by cp.async (specialize/gathered_rows.c).
//
// What quotients and remainders of a row are is known where rows count up from a multiple of the box, and from 0 or more, and the divisor is a multiple of
// it, too. A box that begins past the axis's end is brought as the others are, from wherever the table's entry says, if there is one: rows of dead lanes
// are anything, and where they are contracted the consumers clear them.
#include "lower/specialize/specialize.h"
#include "lower/simplify/simplify.h"

#include <string.h>

enum { DEPTH = 32, LEAST_ROWS = 8, MOST_BOXES = 8, MOST_ROWS = 256 };
enum { NO = -1, SAME, GOES_ON };

static bool begins_at(Ws *h, const Val *v, int64_t rows, int depth) {
    const Op *d = v->def;
    if (depth > DEPTH) return false;
    if (v->type.rank == 0) return fact_divisor(h->facts, v) % rows == 0;
    if (!d) return false;
    if (d->code == OP_T_index) return fact_divisor(h->facts, axis_lo(d->in[0])) % rows == 0;
    if (d->code == OP_T_binary && d->sub == OP_add) return begins_at(h, d->in[0], rows, depth + 1) && begins_at(h, d->in[1], rows, depth + 1);
    return d->code == OP_T_cast && elem_is_int((Elem)v->type.elem) && begins_at(h, d->in[0], rows, depth + 1);
}

// How v changes from row to row of each box of so many.
static int within(Ws *h, const Val *v, const Val *axis, int64_t rows, int depth) {
    const Op *d = v->def;
    if (v->type.kind != TY_TILE) return SAME;
    if (v->type.rank == 0) return ws_computable(h, v) ? SAME : NO;
    if (!d || depth > DEPTH || v->type.rank != 1 || v->type.axis[0] != axis || d->nin > 4 || (d->parent != h->loop->reg[0] && d->parent != h->loop->parent)) return NO;
    if (d->code == OP_T_index) return GOES_ON;
    if (d->code == OP_T_load ? h->f->launch->params[d->in[0]->def->imm].mode != PM_IN : !op_is_elementwise(d)) return NO;
    int in[4] = {SAME, SAME, SAME, SAME}, changed = 0;
    for (int i = 0; i < d->nin; i++) {
        if ((in[i] = within(h, d->in[i], axis, rows, depth + 1)) == NO) return NO;
        changed += in[i];
    }
    if (!changed) return SAME;
    bool first = changed == 1 && in[0] == GOES_ON;
    if (d->code == OP_T_cast) return elem_is_int((Elem)v->type.elem) && elem_bytes((Elem)v->type.elem) >= 4 ? GOES_ON : NO;
    if (d->code != OP_T_binary) return NO;
    if (d->sub == OP_add && changed == 1) return GOES_ON;
    if (d->sub == OP_sub && first) return GOES_ON;
    if ((d->sub != OP_div && d->sub != OP_rem) || !first || d->in[1]->type.rank || fact_divisor(h->facts, d->in[1]) % rows ||
        !begins_at(h, d->in[0], rows, 0) || fact_range(h->facts, d->in[0]).lo < 0) return NO;
    return d->sub == OP_rem ? GOES_ON : SAME;
}

// The dimension along which the rows of a box lie; -1: these are none.
static int box_dim(Ws *h, const Operand *o, int64_t rows) {
    int dim = -1;
    for (int d = 0; d < o->a.inner; d++) {
        int how = within(h, o->a.idx[d], o->outer, rows, 0);
        if (how == NO || (how == GOES_ON && dim >= 0)) return -1;
        if (how == GOES_ON) dim = d;
    }
    return dim;
}

bool ws_boxes(Ws *h, Operand *o) {
    const Access *a = &o->a;
    if (o->where != RING || a->inner + 1 < a->nidx) return false;
    for (int d = 0; d < a->inner; d++) {
        if (a->idx[d]->type.rank > 1 || (o->outer && a->idx[d]->type.rank && a->idx[d]->type.axis[0] != o->outer)) return false;
        if (a->idx[d]->type.rank) o->outer = a->idx[d]->type.axis[0];
    }
    if (!o->outer || !ws_computable(h, axis_lo(o->outer)) || !ws_computable(h, axis_hi(o->outer))) return false;
    int64_t extent = axis_extent(o->outer), rows = extent & -extent;
    if (extent > MOST_ROWS) return false;
    while (rows >= LEAST_ROWS && extent / rows <= MOST_BOXES && (fact_divisor(h->facts, axis_lo(o->outer)) % rows || (o->outer_dim = box_dim(h, o, rows)) < 0)) rows /= 2;
    if (rows < LEAST_ROWS || extent / rows > MOST_BOXES) return false;
    o->boxes = (int)(extent / rows);
    return true;
}

bool ws_any_boxes(const Ws *h) {
    bool any = false;
    for (int i = 0; i < 2 * h->np; i++) any |= h->p[i / 2].op[i % 2].boxes > 0;
    return any;
}

// ---- the producer's part -------------------------------------------------------------------------

// Quotient and remainder of a row, counted from a multiple of the divisor: that of the first row and a number.
static Val *divided(Ws *h, Builder *b, ValMap *m, const Op *d, int64_t row) {
    const Op *index = d->in[0]->def;
    int64_t by;
    if (d->code != OP_T_binary || (d->sub != OP_div && d->sub != OP_rem) || !index || index->code != OP_T_index || !is_const(d->in[1], &by) ||
        fact_divisor(h->facts, axis_lo(index->in[0])) % by) return NULL;
    if (d->sub == OP_rem) return b_const(b, EL_index, row % by);
    return b_binary(b, OP_add, b_binary(b, OP_div, map_get(m, axis_lo(index->in[0])), b_const(b, EL_index, by)), b_const(b, EL_index, row / by));
}

// v at a row of the axis: m has what other values are, and of the axis's what they are there.
static Val *at_row(Ws *h, Builder *b, ValMap *m, Val *v, int64_t row) {
    Op *d = v->def;
    Val *known = map_get(m, v), *in[4], *made;
    if (known != v || v->type.rank == 0 || v->type.kind != TY_TILE) return known;
    if ((made = divided(h, b, m, d, row))) {}
    else if (d->code == OP_T_index) made = b_binary(b, OP_add, map_get(m, axis_lo(d->in[0])), b_const(b, EL_index, row));
    else {
        for (int i = 0; i < d->nin; i++) in[i] = at_row(h, b, m, d->in[i], row);
        Op *c = op_new(h->f, d->code, d->span, d->nin, in, 1);
        c->sub = d->sub, c->imm = d->imm, c->attr = d->attr, c->nidx = d->nidx, c->flags = d->flags & ~NO_BOUNDS;              // which only live lanes had
        c->out[0]->type = type_scalar((Elem)v->type.elem);
        b_insert(b, c);
        made = d->code == OP_T_splat ? in[0] : c->out[0];
    }
    map_set(m, v, made);
    return made;
}

static void corners_of(Ws *h, Builder *b, Operand *o, ValMap *here, int box, bool inside) {
    for (int d = 0; d < o->a.inner; d++) {
        Val *v = o->a.idx[d], **to = &o->corner[box * o->a.inner + d];
        bool changes = v->type.rank == 0 || v->def->parent == h->loop->reg[0];
        if (changes != inside) continue;
        *to = at_row(h, b, here, v, box * (axis_extent(o->outer) / o->boxes));
        if ((*to)->type.elem != EL_index) *to = b_cast(b, EL_index, *to);
    }
}

// Operands with the same boxes share what leads to them: keys and values of one page.
void ws_box_corners(Ws *h, Builder *b, const ValMap *m, bool fixed, bool inside) {
    ValMap at[MOST_ROWS / LEAST_ROWS] = {{0}};
    for (int i = 2 * h->from; i < 2 * h->to; i++) {
        Operand *o = &h->p[i / 2].op[i % 2];
        if (!o->boxes || o->same || o->fixed != fixed) continue;
        if (!o->corner) o->corner = NEW_N(h->f->arena, Val *, o->boxes * o->a.inner);
        for (int k = 0; k < o->boxes; k++) {
            ValMap *here = &at[k * (axis_extent(o->outer) / o->boxes) / LEAST_ROWS];
            if (!here->n && m->n) {
                *here = (ValMap){.n = m->n};
                memcpy(here->at = NEW_N(h->f->arena, Val *, m->n), m->at, sizeof *m->at * m->n);
            }
            here->arena = h->f->arena;
            corners_of(h, b, o, here, k, inside);
        }
    }
}

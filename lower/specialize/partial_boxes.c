// Tiles at the end of a tensor are brought as far as there is something to bring.
//
//     tiles of 128 rows, 300 in all                     a box of TMA, where two thirds of it lie outside
//
//     |  0 .. 127  | 128 .. 255 | 256 ..  |             with the map of whole tiles: 44 rows and 84 of zeros
//                                 44 | 84               with the map of the last one: 44 rows
//
// TMA fills what lies outside of the tensor with zeros, and takes longer for it than for what it brings: 3.1 ns for a row of 128
// bytes where one from memory takes 1.2 (an H200, 2026-11-21: 64 rows by 64 columns by 128 of k, 4096 of k: 13.0 us with all rows, 17.7
// with 24 of them). One block with a box of 8 rows of 128 would hold up a whole round. So an operand whose rows are a tile's has a second tensor map, whose box is as long as the last tile, and
// an operand whose columns are a tile's is brought by chunks of columns as far as lanes are alive. The barrier expects that much less.
//
// What is not brought is what it was: rows and columns of dead lanes, of which a product makes dead lanes alone. The contracted axis
// is another matter (buffer_clear), and so are clusters, whose blocks bring parts of a box, and what another product contracts along its rows.
#include "lower/specialize/specialize.h"
#include "lower/simplify/simplify.h"

static bool outside_loop(const Ws *h, const Val *v) {
    const Region *r = (h->nest ? h->nest : h->loop)->reg[0];
    return ws_computable(h, v) && (v->def ? !op_inside(v->def, r) : v->region != r);
}

// By another product that contracts its other axis, and so counts what is not brought.
static bool contracted_too(const Ws *h, const Product *p, const Operand *o) {
    bool any = false;
    for (int i = 0; i < h->np; i++) for (int k = 0; k < 2; k++) any |= h->p[i].op[k].same == o && h->p[i].k != p->k;
    return any;
}

// As tiles of a grid begin, at a number times their extent.
static bool multiple(const Ws *h, const Val *v, int64_t extent) {
    const Op *d = v->def;
    int64_t c;
    if (is_const(v, &c)) return c % extent == 0;
    if (d && d->code == OP_T_binary && d->sub == OP_mul) return multiple(h, d->in[0], extent) || multiple(h, d->in[1], extent);
    if (d && d->code == OP_T_binary && d->sub == OP_add) return multiple(h, d->in[0], extent) && multiple(h, d->in[1], extent);
    return fact_known_multiple(h->facts, v, extent);
}

static Val *tile_axis(const Product *p, const Operand *o) { return o->outer == p->k ? o->inner : o->outer; }
static bool by_columns(const Product *p, const Operand *o) { return o->outer == p->k; }
static int64_t span_of(const Operand *o) { return o->swizzle / elem_bytes(o->a.elem); }

static bool may_end(const Ws *h, const Product *p, const Operand *o) {
    if (o->where != RING || h->chained || h->cluster > 1 || o->same || o->gathered || o->boxes || o->seen || contracted_too(h, p, o)) return false;
    const Val *axis = tile_axis(p, o);
    int64_t extent = axis_extent(axis);
    bool whole = multiple(h, axis_lo(axis), extent);
    if ((axis->def->flags & AXIS_FULL) || (whole && fact_known_multiple(h->facts, axis_hi(axis), extent))) return false;
    if (!outside_loop(h, axis_lo(axis)) || !outside_loop(h, axis_hi(axis))) return false;
    return by_columns(p, o) ? o->columns > span_of(o) : whole;
}

static void ends_of_loop(Ws *h) {
    for (int i = h->from; i < h->to; i++)
        for (int k = 0; k < 2; k++) {
            Product *p = &h->p[i];
            Operand *o = &p->op[k];
            LExpr hi;
            if (h->by_threads || o->turned || !may_end(h, p, o)) continue;      // who would read what was never brought
            if (by_columns(p, o)) { o->ends = BY_COLUMNS; h->f->launch->partial = true; continue; }
            if (!host_expr(h->facts, axis_hi(o->outer), &hi)) continue;
            Arena *a = h->f->arena;
            LExpr last = launch_join_const(a, L_MOD, launch_join_const(a, L_SUB, hi, 1), axis_extent(o->outer));
            o->last_rows = launch_join_const(a, L_ADD, last, 1);
            o->ends = BY_ROWS;
            h->f->launch->partial = true;
        }
}

// Before the tensor maps are made: the rows of the last tile, as the launcher counts them.
void ws_ends(Ws *h) {
    for (int i = 0; i < h->nloops; i++) {
        ws_at(h, i);
        ends_of_loop(h);
    }
}

void ws_last_map(Ws *h, const Operand *o, int map) {
    LaunchInfo *l = h->f->launch;
    for (int i = 0; i < l->nslots; i++) if (l->slots[i].kind == SLOT_TENSORMAP && l->slots[i].b == map) l->slots[i].expr = o->last_rows;
}

// In the producer, before a tile's trips: whether the tile ends before its rows do, rows that its boxes have then, as the launcher counts them, and bytes
// of a stage that are not brought. What does not depend on the tile is computed beside its place.
static Val *end_of_rows(Builder *b, Operand *o) {
    Val *axis = o->outer, *lo = axis_lo(axis), *hi = axis_hi(axis), *one = b_const(b, EL_index, 1), *extent = b_const(b, EL_index, axis_extent(axis));
    Val *last = b_binary(b, OP_add, b_binary(b, OP_rem, b_binary(b, OP_sub, hi, one), extent), one);
    Val *less = b_binary(b, OP_mul, b_binary(b, OP_sub, extent, last), b_const(b, EL_index, o->columns * elem_bytes(o->a.elem)));
    Val *ends = b_binary(b, OP_gt, b_binary(b, OP_add, lo, extent), hi);
    o->live = b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){ends, last, extent});
    return b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){ends, less, b_const(b, EL_index, 0)});
}

// Live columns, and the bytes of chunks that have none.
static Val *end_of_columns(Builder *b, Operand *o) {
    int64_t chunks = o->columns / span_of(o);
    Val *sum = NULL;
    o->live = b_binary(b, OP_sub, axis_hi(o->inner), axis_lo(o->inner));
    for (int64_t c = 1; c < chunks; c++) {
        Val *gone = b_binary(b, OP_le, o->live, b_const(b, EL_index, c * span_of(o)));
        Val *bytes = b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){gone, b_const(b, EL_index, axis_extent(o->outer) * o->swizzle), b_const(b, EL_index, 0)});
        sum = sum ? b_binary(b, OP_add, sum, bytes) : bytes;
    }
    return sum;
}

Val *ws_absent(Ws *h, Builder *b, bool fixed) {
    Val *sum = NULL;
    for (int i = h->from; i < h->to; i++)
        for (int k = 0; k < 2; k++) {
            Operand *o = &h->p[i].op[k];
            if (!o->ends || o->fixed != fixed) continue;
            Val *less = o->ends == BY_ROWS ? end_of_rows(b, o) : end_of_columns(b, o);
            sum = sum ? b_binary(b, OP_add, sum, less) : less;
        }
    return sum ? b_op(b, OP_T_cast, 0, type_scalar(EL_i32), 1, &sum) : NULL;
}

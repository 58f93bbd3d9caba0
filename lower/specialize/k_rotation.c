// Where blocks begin in their sums: each at another trip.
//
//     for k in K by BK { acc += dot(a[k, m], b[k, n]) }      ->      for t in K by BK { k = (t + BK * (tiles before it % 16)) mod K; .. }
//
// All blocks of a product of few rows go through the same k at the same time, and that hurts where they ask the memory for the same thing at once: where a
// line of the cache holds several k of the few rows (`a[k, m]`, up to 32 of 2 bytes), each block asks for each line several times, all at the same time; and
// where rows of the other operand lie a multiple of 8 KB apart (`b[n, k]`), all that is asked for comes from the same channels of memory. So blocks of other
// columns begin at other trips and go round. 8192 columns and k, 8 rows, TT, on an H200: 36 us instead of 43; 4096, 16 rows, NT / TN / TT: 12.6 / 12.9 / 12.9
// instead of 13.1 / 13.7 / 14.2. Short sums begin with their first trip: a division before the first load would cost them more.
//
// For loops whose iterations may be run in any order (rule 1 of pass/carried.c), of blocks that make one tile each, which do not share its trips. Which trip is the last one of a sum, with lanes past
// the end, does not matter to the ring, as each trip says itself how much of it there is.
#include "lower/specialize/specialize.h"
#include "lower/pass/carried.h"

enum { LINE = 64, CHANNELS = 8192, FEW = 32, BEGINS = 16 };      // bytes of rows that share lines; between rows that share channels; rows; trips to begin at

static bool shares_lines(const Product *p, const Operand *o) { return o->where == RING && !o->window && o->outer == p->k && o->swizzle <= LINE; }

static bool by_rows(const Product *p, const Operand *o) { return o->where == RING && !o->window && o->outer != p->k && o->swizzle == SPAN; }

// The axis whose tiles begin at trips of their own; NULL: all begin with the first. `apart`: only if rows turn out to share channels.
static Val *of_columns(const Ws *h, bool *apart) {
    const Product *p = &h->p[0];
    for (int i = 0; i < 2; i++) {
        *apart = false;
        if (shares_lines(p, &p->op[i])) return i ? p->row : p->col;
    }
    *apart = true;
    return p->swapped && axis_extent(p->col) <= FEW && by_rows(p, &p->op[0]) ? p->row : NULL;
}

void ws_turn(Ws *h, Builder *b) {
    bool apart;
    for (int i = 0; i < 2; i++) if (h->p[0].op[i].window && h->p[0].op[i].outer == h->p[0].k) return;      // the producer counts on from trip to trip
    if (h->np > 1 || !h->pipelined || h->nest || h->walk_bytes || h->slices > 1 || h->nahead || h->cluster > 1 || h->f->dealt || ws_gathered_bytes(h, -1)) return;
    if (!carried_reductions(h->loop, NULL) || trips_bound(h->loop)) return;
    Val *axis = of_columns(h, &apart), *lo = h->loop->in[0], *step = h->loop->in[2];
    if (!axis || !ws_computable(h, axis_lo(axis)) || !ws_computable(h, axis_hi(h->p[0].k)) || ws_counts_digits(h)) return;
    Val *one = b_const(b, EL_index, 1), *zero = b_const(b, EL_index, 0);
    Val *length = b_binary(b, OP_sub, h->loop->in[1], lo), *up = b_binary(b, OP_sub, b_binary(b, OP_add, length, step), one);
    Val *trips = b_binary(b, OP_div, b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){b_binary(b, OP_gt, length, zero), up, zero}), step);
    Val *before = b_binary(b, OP_rem, b_binary(b, OP_div, axis_lo(axis), b_const(b, EL_index, axis_extent(axis))), b_const(b, EL_index, BEGINS));
    Val *when = b_binary(b, OP_lt, before, trips);
    if (apart) {
        Val *bytes = b_binary(b, OP_mul, axis_hi(h->p[0].k), b_const(b, EL_index, elem_bytes(h->p[0].op[0].a.elem)));
        when = b_binary(b, OP_and, when, b_binary(b, OP_eq, b_binary(b, OP_rem, bytes, b_const(b, EL_index, CHANNELS)), zero));
    }
    h->f->turned = true;
    h->turn_by = b_binary(b, OP_mul, b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){when, before, zero}), step);
    h->turn_round = b_binary(b, OP_mul, trips, step);
    h->turn_end = b_binary(b, OP_add, lo, h->turn_round);
}

Val *ws_turned(const Ws *h, Builder *b, Val *counter) {
    if (!h->turn_by) return counter;
    Val *k = b_binary(b, OP_add, counter, h->turn_by), *over = b_binary(b, OP_ge, k, h->turn_end);
    return b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){over, b_binary(b, OP_sub, k, h->turn_round), k});
}

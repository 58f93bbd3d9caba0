// Tiles in shared memory.
//
// A tile lies there as rows along its last dimension. Eight rows that a warp reads 16 bytes each of (a
// matrix of ldmatrix, or a column of a copy) must fall into different banks, so the 16-byte chunks of a
// row are permuted by an XOR with the row's number. The largest power of two up to 128 that divides the
// row is the span of the permutation; wider rows are cut into pieces of a span, all rows of a piece
// together, which is also the form that TMA writes and wgmma reads:
//
//     byte(row, x) = x / span * rows * span  +  row * span  +  (x % span) ^ (row * span / 128 % (span / 16)) * 16
//
//     64 bf16 a row: span 128         row 0:  0 1 2 3 4 5 6 7      chunks, in the order in which they lie
//                                     row 1:  1 0 3 2 5 4 7 6
//                                     row 2:  2 3 0 1 6 7 4 5
//
// A row that is an odd number of chunks needs no permutation.
#include "lower/layout/smem_layout.h"

#include <string.h>

static int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

int64_t shared_row_bytes(const Shared *s) { return up(s->extent[s->rank - 1] * s->size, 16); }

void shared_shape(Shared *s, Elem e, bool swizzled) {
    s->elem = e;
    s->size = e == EL_bool ? 1 : elem_bytes(e);
    int last = s->rank - 1;
    int64_t row = shared_row_bytes(s);
    s->rows = 1;
    s->step[last] = 0;
    for (int d = last - 1; d >= 0; d--) {
        s->step[d] = s->rows;
        s->rows *= d == last - 1 && swizzled && s->extent[d] > 1 ? up(s->extent[d], 8) : s->extent[d];     // one row lies as it is
    }
    s->span = 0;
    s->pitch = row;
    if (!swizzled) { s->pitch += s->rows > 1 ? 16 : 0; return; }
    int span = (int)(row & -row) > 128 ? 128 : (int)(row & -row);
    if (span >= 32) { s->span = span; s->pitch = span; }
}

uint32_t shared_bytes(const Shared *s) {
    return (uint32_t)(s->span ? s->rows * shared_row_bytes(s) : s->rows * s->pitch);
}

int shared_dim(const Shared *s, const Val *axis) {
    for (int d = 0; d < s->rank; d++) if (s->axis[d] == axis) return d;
    return -1;
}

int64_t shared_phase(const Shared *s, int64_t r) { return (r * s->span >> 7 & (s->span / 16 - 1)) << 4; }

int64_t shared_byte(const Shared *s, const int64_t *coord) {
    int64_t r = 0, x = coord[s->rank - 1] * s->size;
    for (int d = 0; d < s->rank - 1; d++) r += coord[d] * s->step[d];
    if (!s->span) return r * s->pitch + x;
    return x / s->span * s->rows * s->span + r * s->span + ((x % s->span) ^ shared_phase(s, r));
}

void buffer_shape(const Type *t, Shared *s) {
    memset(s, 0, sizeof *s);
    s->rank = t->rank;
    for (int d = 0; d < t->rank; d++) s->extent[d] = t->shape[d];
    shared_shape(s, (Elem)t->elem, true);
}

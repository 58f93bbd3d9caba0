// How an operand of a product comes: by what path, and how many bytes of it.
//
//     rows of whole 16 bytes                     TMA; of no whole lines of 128 bytes at 1.25 of the bytes, of no whole sectors of 32 at 2.7
//     rows of 4 or 8 bytes                       cp.async in pieces
//     rows of other lengths                      one element after another
//     rows that data names                       asynchronous copies row by row
//     what a trip computes                       counted as what it is computed from
//
// An operand that stands before the loop (an attention's queries) is brought once and costs a trip nothing.
#include "lower/cost/work.h"
#include "lower/pass/passes.h"

static const double APART = 1.25;                                   // rows of TMA that are no whole lines of 128 bytes
static const double HALVES = 1.3, QUARTERS = 2.5, AGAIN = 0.75;     // boxes of 64 and 32 bytes a row; as many times as rows lie in what a box has for one, to this power
static const double ODD_PIECES = 3;                                 // rows that data names, of a number of bytes that is no power of two

bool operand_loaded(const Val *v) {
    const Op *d = v->def;
    bool is = d && d->code == OP_T_load;
    for (int i = 0; d && !is && i < d->nin; i++) is = operand_loaded(d->in[i]);
    return is;
}

// Each trip brings it: not what stands before the loop, as an attention's queries, nor what another product has made.
bool operand_brought(const Val *v, const Region *trip) {
    const Op *d = v->def;
    if (!d || d->parent != trip || d->code == OP_T_dot) return false;
    bool any = d->code == OP_T_load;
    for (int i = 0; i < d->nin && !any; i++) any = d->in[i]->type.kind == TY_TILE && d->in[i]->type.rank && operand_brought(d->in[i], trip);
    return any;
}

// Bytes that a trip reads for an operand: of one that is computed in it, what it is computed from, where several lanes may have one element
// (weights of 4 bits, and their scales).
double operand_bytes(Facts *s, const Val *v, const Region *trip) {
    const Op *d = v->def;
    if (!d || d->parent != trip || d->code == OP_T_dot || v->type.rank == 0) return 0;
    double bytes = 0;
    if (d->code == OP_T_load) {
        Access a;
        access_shape(s, d, &a);
        bytes = (double)type_lanes(&v->type) * elem_bytes((Elem)v->type.elem);
        for (int i = 0; i < a.nidx; i++) {
            const Op *q = a.idx[i]->def, *by = q && q->code == OP_T_binary && q->sub == OP_div ? q->in[1]->def : NULL;
            const Op *index = by ? q->in[0]->def : NULL;
            if (!index || index->code != OP_T_index || by->code != OP_T_const || by->imm < 2) continue;
            int64_t extent = axis_extent(index->in[0]);
            bytes /= (double)(by->imm < extent ? by->imm : extent);
        }
        return bytes;
    }
    for (int i = 0; i < d->nin; i++) if (d->in[i]->type.kind == TY_TILE) bytes += operand_bytes(s, d->in[i], trip);
    return bytes;
}

// Each trip computes it.
bool operand_made(const Val *v, const Region *trip) { return v->def && v->def->parent == trip && v->def->code != OP_T_load; }

// The operand lies in memory with columns innermost, which are not contracted.
bool operand_by_columns(Facts *s, const Val *v, const Val *k) {
    Access a;
    if (!v->def || v->def->code != OP_T_load || v->type.rank != 2) return false;
    access_shape(s, v->def, &a);
    return a.aff[a.inner].naxis == 1 && a.aff[a.inner].axis[0].axis != k;
}

// How an operand comes, and how many times its bytes L2 is as long at it; of pieces, the bytes of one.
Way operand_way(Facts *s, const Val *v, const Val *k, const int64_t *dims, double *times) {
    Access a;
    int64_t row, rows = 0;
    if (!v->def || v->def->code != OP_T_load || v->type.rank != 2) return BY_TMA;       // windows, what was computed: as others
    access_shape(s, v->def, &a);
    const Affine *f = &a.aff[a.inner];
    if (a.nidx < 2 || a.p->strided || f->ntile || f->naxis != 1 || !launch_by_dims(a.p->dim[a.inner], dims, &row)) return BY_TMA;
    const Val *inner = f->axis[0].axis;
    int64_t size = elem_bytes(a.elem), used = axis_extent(inner) * size, span = tma_row(used, inner == k), there = row * size;
    for (int d = 0; d < a.nidx; d++) rows += d != a.inner && !a.unit[d];
    if (rows && row * size % 16) {
        *times = row * size % 8 ? 4 : 8;
        return row * size % 4 ? ONE_BY_ONE : BY_PIECES;
    }
    if (span % 32 || (size > 2 && inner != k && a.elem != EL_f32)) return BY_VECTORS;
    *times = (!rows || row * size % 128 == 0 ? 1 : row * size % 32 ? CROSSED : APART) * (span % 128 == 0 ? (double)span / (double)used : span % 64 ? QUARTERS : HALVES);
    double lines = (double)span / (double)there;                                    // a line is asked for by each row in it: less where blocks begin apart (specialize/k_rotation.c)
    if (rows && inner != k && lines > 1) *times *= span > 64 ? lines : pow(lines, AGAIN);
    return BY_TMA;
}

// Data names its rows.
bool operand_by_data(Facts *s, const Val *v) {
    Access a;
    bool any = false;
    if (!v->def || v->def->code != OP_T_load) return false;
    access_shape(s, v->def, &a);
    for (int d = 0; d < a.nidx; d++) any |= d != a.inner && a.aff[d].ntile && operand_loaded(a.idx[d]);
    return any;
}

// A row's number, or a digit of it.
static bool is_digit(const Val *v) {
    const Op *d = v->def;
    while (d && (d->code == OP_T_splat || (d->code == OP_T_binary && (d->sub == OP_div || d->sub == OP_rem) && d->in[1]->type.rank == 0))) d = d->in[0]->def;
    return d && d->code == OP_T_index;
}

// Digits, times a step and moved, as a walk over pixels has them (specialize/im2col.c).
static bool is_walked(const Val *v) {
    const Op *d = v->def;
    if (v->type.rank == 0) return true;
    if (d && d->code == OP_T_binary && (d->sub == OP_add || d->sub == OP_sub || d->sub == OP_mul)) return is_walked(d->in[0]) && is_walked(d->in[1]);
    return is_digit(v);
}

// Rows that no walk goes through, and that are computed: a picture that is twice as large, its windows' rows side by side.
bool operand_by_places(Facts *s, const Val *v) {
    Access a;
    bool walked = true;
    if (!facts_fn(s)->target->has_wgmma || !v->def || v->def->code != OP_T_load) return false;
    access_shape(s, v->def, &a);
    for (int d = 0; d < a.nidx; d++) walked &= !a.aff[d].ntile || (d != a.inner && is_walked(a.idx[d]));
    return !walked;
}

// Rows of a number of bytes that is no power of two take three times as long (4096^3, contracted rows by 64 x 192: 487 us, by 128 x 192 1027, by 128 x 256 245).
void operand_picks(Work *w, Facts *s, const int64_t *dims, const Val *v, double bytes) {
    Access a;
    int64_t end, row;
    access_shape(s, v->def, &a);
    const Affine *x = &a.aff[a.inner];
    int64_t extent = x->naxis ? axis_extent(x->axis[0].axis) : 1;
    w->gathered += bytes * (extent & (extent - 1) ? ODD_PIECES : 1);
    for (int i = 0; i < v->type.rank; i++) {
        if (x->naxis && v->type.axis[i] == x->axis[0].axis) continue;
        if (!number_of(s, axis_hi(v->type.axis[i]), dims, &end) || !launch_by_dims(a.p->dim[a.inner], dims, &row)) continue;
        w->table = v->def->in[0];
        w->picked = (double)end * (double)row * elem_bytes(a.elem);
    }
}

// A load whose places follow from axes alone: neither gathered nor a window.
bool operand_plain(Facts *s, const Val *v) {
    Access a;
    bool is = v->def && v->def->code == OP_T_load && v->type.rank == 2;
    if (is) access_shape(s, v->def, &a);
    for (int d = 0; is && d < a.nidx; d++) is = !a.aff[d].ntile;
    return is;
}

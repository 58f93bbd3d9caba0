// Movement in the interpreter: views, gathers, scatters, index values, concatenation.
//
// A view that is linear in the axes, and holds everywhere, is its source with other strides. The others are carried out
// row by row, by programs of index expressions. Every address is checked: what a hostile model asks for is a message.

#include "graph/ew.h"
#include "graph/ref/internal.h"

#include <string.h>

// ---- linear views ---------------------------------------------------------------------------------------------------

static bool empty(int rank, const int64_t *shape) {
    for (int i = 0; i < rank; i++)
        if (shape[i] == 0) return true;
    return false;
}

// As other strides, if that can be. *done: it was.
static bool strided(Run *r, const Node *n, const RVal *src, const int64_t *shape, RVal *out, bool *done) {
    int64_t always = 0, stride[G_MAX_RANK] = {0}, offset = 0;
    *done = false;
    if (n->view.pred->has_axis) return true;
    if (!ix_value(r, n->view.pred, &always)) return false;
    if (!always || empty(n->rank, shape)) return true;
    for (int k = 0; k < src->rank; k++) {
        int64_t coef[G_MAX_RANK], c0;
        if (!ix_affine_in(r, n->view.coord[k], n->rank, coef, &c0)) return !r->failed;
        int64_t lo = c0, hi = c0;
        for (int i = 0; i < n->rank; i++) {
            *(coef[i] < 0 ? &lo : &hi) += coef[i] * (shape[i] - 1);
            stride[i] += coef[i] * src->stride[k];
        }
        if (lo < 0 || hi >= src->shape[k])
            return run_fail(r, "axis %d has the size %lld, and is read at %lld", k, (long long)src->shape[k],
                            (long long)(lo < 0 ? lo : hi));
        offset += c0 * src->stride[k];
    }
    *out = rval_share(src);
    out->rank = n->rank;
    memcpy(out->shape, shape, sizeof out->shape);
    memcpy(out->stride, stride, sizeof out->stride);
    out->at = src->at + offset;
    *done = true;
    return true;
}

static char *row_start(const RVal *v, const int64_t *at) {
    char *p = v->at;
    for (int i = 0; i < v->rank; i++) p += at[i] * v->stride[i];
    return p;
}

// ---- rows of places -------------------------------------------------------------------------------------------------
// Where in `data` the elements of a row are: byte offsets, and which are out of range.

typedef struct Places {
    Run *run;
    const RVal *data;
    IxRows *rows;
    Ix   coord[G_MAX_RANK];      // NULL: from the next index value
    const RVal *index[G_MAX_RANK];
    int64_t *number[G_MAX_RANK]; // a row of index values
    int  nindex;
    int64_t n;                   // places in a row
    int64_t *offset;
    bool *out;
} Places;

static bool places_new(Places *p, Run *r, const RVal *data, int rank, const int64_t *shape, const Ix *coord, Ix pred,
                       Node *const *index, int nindex) {
    Ix root[G_MAX_RANK + 1];
    *p = (Places){.run = r, .data = data, .nindex = nindex};
    for (int k = 0; k < data->rank; k++) root[k] = p->coord[k] = coord[k];
    root[data->rank] = pred;
    p->rows = ixrows_new(r, root, data->rank + 1, rank, shape);
    if (!p->rows) return false;
    p->n = rank ? shape[ixrows_axis(p->rows)] : 1;
    for (int k = 0; k < nindex; k++) {
        p->index[k] = &r->val[index[k]->id];
        p->number[k] = NEW_N(r->arena, int64_t, p->n);
    }
    p->offset = NEW_N(r->arena, int64_t, p->n);
    p->out = NEW_N(r->arena, bool, p->n);
    return true;
}

static bool places_next(Places *p) {
    if (!ixrows_next(p->rows)) return false;
    int axis = ixrows_axis(p->rows);
    const int64_t *at = ixrows_at(p->rows);
    for (int k = 0; k < p->nindex; k++)
        row_load_i64(p->index[k]->elem, p->n, row_start(p->index[k], at), axis < 0 ? 0 : p->index[k]->stride[axis],
                     p->number[k]);
    memset(p->offset, 0, (size_t)p->n * sizeof *p->offset);
    memset(p->out, 0, (size_t)p->n * sizeof *p->out);
    for (int k = 0, used = 0; k < p->data->rank; k++) {
        const int64_t *c = p->coord[k] ? ixrows_values(p->rows, k) : p->number[used++];
        int64_t size = p->data->shape[k], stride = p->data->stride[k];
        for (int64_t i = 0; i < p->n; i++) {
            bool bad = (uint64_t)c[i] >= (uint64_t)size;
            p->out[i] |= bad;
            p->offset[i] += bad ? 0 : c[i] * stride;
        }
    }
    return true;
}

// ---- views ----------------------------------------------------------------------------------------------------------

static bool result(Run *r, const Node *n, RVal *out) {
    int64_t shape[G_MAX_RANK];
    return run_sizes(r, n->rank, n->shape, shape) && rval_new(r, out, (Elem)n->elem, n->rank, shape);
}

#define MOVE(T) \
    for (int64_t i = 0; i < p->n; i++) \
        memcpy(to + i * step, take[i] ? p->data->at + p->offset[i] : fill, sizeof(T)); \
    break

// A row of the result: from data where `take`, else fill.
static void move_row(const Places *p, const bool *take, const void *fill, char *to, int64_t step, int bytes) {
    switch (bytes) {
    case 1: MOVE(uint8_t);
    case 2: MOVE(uint16_t);
    case 4: MOVE(uint32_t);
    default: MOVE(uint64_t);
    }
}

static bool read_out_of_range(Run *r) { return run_fail(r, "an element out of range is read"); }

bool ref_view(Run *r, const Node *n, RVal *out) {
    const RVal *src = &r->val[n->src[0]->id];
    int64_t shape[G_MAX_RANK];
    bool done;
    if (!run_sizes(r, n->rank, n->shape, shape) || !strided(r, n, src, shape, out, &done)) return false;
    if (done) return true;
    Places p;
    char fill[8] = {0};
    int bytes = elem_bytes((Elem)n->elem);
    g_num_store(fill, (Elem)n->elem, n->view.fill);
    if (!rval_new(r, out, (Elem)n->elem, n->rank, shape)) return false;
    if (!places_new(&p, r, src, n->rank, shape, n->view.coord, n->view.pred, NULL, 0)) return false;
    bool *take = NEW_N(r->arena, bool, p.n);
    while (places_next(&p)) {
        const int64_t *pred = ixrows_values(p.rows, src->rank);
        for (int64_t i = 0; i < p.n; i++) {
            take[i] = pred[i] != 0;
            if (take[i] && p.out[i]) return read_out_of_range(r);
        }
        int axis = ixrows_axis(p.rows);
        move_row(&p, take, fill, row_start(out, ixrows_at(p.rows)), axis < 0 ? 0 : out->stride[axis], bytes);
    }
    return true;
}

bool ref_gather(Run *r, const Node *n, RVal *out) {
    const RVal *src = &r->val[n->src[0]->id];
    Places p;
    char fill[8] = {0};
    g_num_store(fill, (Elem)n->elem, n->at.fill);
    if (!result(r, n, out) ||
        !places_new(&p, r, src, n->rank, out->shape, n->at.coord, NULL, n->src + 1, (int)n->nsrc - 1))
        return false;
    bool *take = NEW_N(r->arena, bool, p.n);
    while (places_next(&p)) {
        for (int64_t i = 0; i < p.n; i++) {
            take[i] = !p.out[i];
            if (n->at.checked && p.out[i]) return run_fail(r, "an index is out of range");
        }
        int axis = ixrows_axis(p.rows);
        move_row(&p, take, fill, row_start(out, ixrows_at(p.rows)), axis < 0 ? 0 : out->stride[axis],
                 elem_bytes((Elem)n->elem));
    }
    return true;
}

// ---- scatter --------------------------------------------------------------------------------------------------------

static const GEw combine_op[GR_COUNT] = {[GR_sum] = EW_add, [GR_prod] = EW_mul, [GR_max] = EW_max, [GR_min] = EW_min};

bool ref_scatter(Run *r, const Node *n, RVal *out) {
    const RVal *updates = &r->val[n->src[1]->id];
    RVal packed;
    if (!rval_packed(r, &r->val[n->src[0]->id], &packed)) return false;
    if (!rval_new(r, out, packed.elem, packed.rank, packed.shape)) return rval_drop(&packed), false;
    memcpy(out->at, packed.at, out->buf->bytes);
    rval_drop(&packed);
    Places p;
    if (!places_new(&p, r, out, updates->rank, updates->shape, n->at.coord, NULL, n->src + 2, (int)n->nsrc - 2))
        return false;
    int bytes = elem_bytes(out->elem);
    while (places_next(&p)) {
        int axis = ixrows_axis(p.rows);
        const char *from = row_start(updates, ixrows_at(p.rows));
        int64_t step = axis < 0 ? 0 : updates->stride[axis];
        for (int64_t i = 0; i < p.n; i++, from += step) {
            if (p.out[i] && n->at.checked) return run_fail(r, "an index is out of range");
            if (p.out[i]) continue;
            char *to = out->at + p.offset[i];
            if (n->op == GR_none) memcpy(to, from, (size_t)bytes);
            else ew_one(combine_op[n->op], out->elem, (const void *[]){to, from}, to);
        }
    }
    return true;
}

// ---- index values, concatenation ------------------------------------------------------------------------------------

bool ref_index(Run *r, const Node *n, RVal *out) {
    if (!result(r, n, out)) return false;
    IxRows *rows = ixrows_new(r, &n->index.expr, 1, n->rank, out->shape);
    if (!rows) return false;
    int axis = ixrows_axis(rows);
    while (ixrows_next(rows))
        row_store_i64(out->elem, axis < 0 ? 1 : out->shape[axis], ixrows_values(rows, 0), row_start(out, ixrows_at(rows)),
                      axis < 0 ? 0 : out->stride[axis]);
    return true;
}

static void copy_row(void *ctx, int64_t n, char *const *at, const int64_t *stride) {
    row_copy(*(int *)ctx, n, at[1], stride[1], at[0], stride[0]);
}

void rval_copy(const RVal *from, const RVal *to) {             // of one shape
    int bytes = elem_bytes(from->elem);
    Rows rows = {0};
    rows_add(&rows, to);
    rows_add(&rows, from);
    rows_run(&rows, copy_row, &bytes);
}

bool ref_concat(Run *r, const Node *n, RVal *out) {
    if (!result(r, n, out)) return false;
    int axis = n->concat.axis;
    int64_t done = 0;
    for (uint32_t k = 0; k < n->nsrc; k++) {
        const RVal *src = &r->val[n->src[k]->id];
        RVal part = *out;
        part.shape[axis] = src->shape[axis];
        part.at += done * out->stride[axis];
        done += src->shape[axis];
        bool same = done <= out->shape[axis];
        for (int i = 0; i < n->rank; i++) same &= part.shape[i] == src->shape[i];
        if (!same) return run_fail(r, "what is concatenated has sizes that do not fit");
        rval_copy(src, &part);
    }
    return done == out->shape[axis] || run_fail(r, "what is concatenated has sizes that do not fit");
}

// Operators whose result's size depends on the data: NonZero, Compress, Unique, NonMaxSuppression. They run on whole
// tensors, in the interpreter only; what surrounds them (gathering what was found) is in the graph as usual.
#include "graph/op/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool no_memory(char *error, size_t size) { return snprintf(error, size, "no memory"), false; }

static int64_t count_of(const GTensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->shape[d];
    return n;
}

// ---- NonZero, Compress -------------------------------------------------------------------------------

// A bool of any shape -> the positions of what is true, one row each: rows of a size that is known, whatever is found.
static bool run_nonzero(const void *attr, const GTensor *in, int nin, GTensor *out, int nout, char *error,
                        size_t error_size) {
    const uint8_t *flag = in->data;
    int64_t n = count_of(in), found = 0;
    (void)attr, (void)nin, (void)nout;
    for (int64_t i = 0; i < n; i++) found += flag[i] != 0;
    out->shape[0] = found;
    out->shape[1] = in->rank;
    if (!g_tensor_alloc(out)) return no_memory(error, error_size);
    int64_t *at = out->data, inner = in->rank > 0 ? in->shape[in->rank - 1] : 1;
    for (int64_t row = 0; found > 0; row++) {                // its place is found once
        int64_t outer[G_MAX_RANK], rest = row;
        for (int d = in->rank - 1; d-- > 0; rest /= in->shape[d]) outer[d] = rest % in->shape[d];
        for (int64_t i = 0; i < inner; i++) {
            if (flag[row * inner + i] == 0) continue;
            for (int d = 0; d < in->rank - 1; d++) *at++ = outer[d];
            if (in->rank > 0) *at++ = i;
            found--;
        }
    }
    return true;
}

static const GHostOp host_nonzero = {"nonzero", run_nonzero};

// Of flags that are constants: a constant.
static Node *nonzero_of(Op *op, const Node *flags) {
    GTensor in = {.elem = EL_bool, .rank = flags->rank, .bytes = flags->c.bytes, .data = (void *)(uintptr_t)flags->c.data};
    GTensor out = {.elem = EL_i64, .rank = 2};
    char why[64];
    for (int d = 0; d < in.rank; d++) in.shape[d] = flags->shape[d]->value;
    if (!run_nonzero(NULL, &in, 1, &out, 1, why, sizeof why)) return op_error(op, "%s", why);
    int64_t found = out.shape[0], rank = out.shape[1], *columns = NEW_N(op->g->arena, int64_t, found * rank + 1);
    for (int64_t i = 0; i < found * rank; i++) columns[i % rank * found + i / rank] = ((const int64_t *)out.data)[i];
    g_tensor_free(&out);
    return g_const(op->g, EL_i64, 2, (int64_t[]){rank, found}, columns);
}

// [rank, found] i64
static Node *nonzero(Op *op, Node *flags) {
    Graph *g = op->g;
    if (flags == NULL) return NULL;
    Node *known = op_fold(op, flags);
    if (known != NULL) return nonzero_of(op, known);
    GType type = {EL_i64, 2, (Ix[]){ix_dim_fresh(g, "found", 0, IX_DIM_MAX), ix(g, flags->rank)}};
    return g_transpose(g, g_proj(g, g_host(g, &host_nonzero, NULL, 0, &flags, 1, &type, 1), 0), 2, (int[]){1, 0});
}

static Node *lower_nonzero(Op *op) {
    Node *x = op_in(op, 0);
    if (x == NULL) return NULL;
    if (x->rank == 0) x = g_unsqueeze(op->g, x, 1);
    return nonzero(op, x->elem == EL_bool ? x : g_ew2f(op->g, EW_ne, x, 0));
}

// Indices along an axis (or of all elements in a row) whose flag is set. Flags that are known give a gather by constants.
static Node *lower_compress(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *flags = op_in(op, 1);
    int axis = 0;
    if (x == NULL || flags == NULL) return NULL;
    if (flags->rank != 1 || flags->elem != EL_bool) return op_error(op, "its condition should be a list of bools");
    if (op_given(op, "axis")) axis = op_axis(op, x, "axis", 0);
    else x = g_reshape(g, x, 1, (Ix[]){ix(g, -1)});
    if (axis < 0 || x == NULL) return NULL;
    if (ix_is(ix_le(g, flags->shape[0], x->shape[axis]), 0))
        return op_error(op, "its condition is longer than axis %d of its input", axis);
    return g_gather_axis(g, x, g_squeeze(g, nonzero(op, flags), 1), axis);
}

// ---- Unique -----------------------------------------------------------------------------------------

typedef struct Rows { const char *data; Elem elem; int64_t width; size_t bytes; } Rows;

static int compare_one(GNum a, GNum b) {
    if (a.is_int) return (a.i > b.i) - (a.i < b.i);
    if (isnan(a.f) || isnan(b.f)) return (isnan(a.f) != 0) - (isnan(b.f) != 0);       // NaNs are equal, and last
    return (a.f > b.f) - (a.f < b.f);
}

static int compare_rows(const Rows *r, int64_t a, int64_t b) {
    for (int64_t i = 0; i < r->width; i++) {
        const char *x = r->data + (size_t)(a * r->width + i) * r->bytes,
                   *y = r->data + (size_t)(b * r->width + i) * r->bytes;
        uint64_t u, v;
        int c;
        if (r->elem == EL_u64) memcpy(&u, x, 8), memcpy(&v, y, 8), c = (u > v) - (u < v);
        else c = compare_one(g_num_load(x, r->elem), g_num_load(y, r->elem));
        if (c != 0) return c;
    }
    return 0;
}

// Stable, by merging runs.
static void sort_rows(const Rows *r, int64_t *at, int64_t *spare, int64_t n) {
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t from = 0; from < n; from += 2 * run) {
            int64_t mid = from + run < n ? from + run : n, end = mid + run < n ? mid + run : n, a = from, b = mid;
            for (int64_t k = from; k < end; k++)
                spare[k] = a < mid && (b >= end || compare_rows(r, at[a], at[b]) <= 0) ? at[a++] : at[b++];
        }
        memcpy(at, spare, (size_t)n * sizeof *at);
    }
}

static int by_first(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Rows [m, width] -> rows that differ [k, width], where each was first [k], which one each row is [m], how often it
// occurs [k].
static bool run_unique(const void *attr, const GTensor *in, int nin, GTensor *out, int nout, char *error,
                       size_t error_size) {
    bool sorted = *(const bool *)attr;
    int64_t m = in->shape[0], k = 0, room = (m > 0 ? m : 1);
    Rows rows = {in->data, in->elem, in->shape[1], (size_t)elem_bytes(in->elem)};
    int64_t *at = heap_try_zeroed((size_t)room * 5, sizeof *at), *spare = at + room, *group = spare + room,
            *first = group + room, *place = first + room;
    (void)nin, (void)nout;
    if (at == NULL) return no_memory(error, error_size);
    for (int64_t i = 0; i < m; i++) at[i] = i;
    sort_rows(&rows, at, spare, m);
    for (int64_t i = 0; i < m; i++) { // group[row]: by sorted order; first[group]: its first row
        if (i == 0 || compare_rows(&rows, at[i - 1], at[i]) != 0) first[k++] = at[i];
        group[at[i]] = k - 1;
    }
    memcpy(spare, first, (size_t)k * sizeof *spare);
    if (!sorted) qsort(spare, (size_t)k, sizeof *spare, by_first);
    out[0].shape[0] = out[1].shape[0] = out[3].shape[0] = k;
    out[0].shape[1] = rows.width;
    out[2].shape[0] = m;
    bool ok = true;
    for (int i = 0; i < 4; i++) ok = g_tensor_alloc(&out[i]) && ok;
    for (int64_t i = 0; i < k && ok; i++) {
        size_t bytes = (size_t)rows.width * rows.bytes;
        memcpy((char *)out[0].data + (size_t)i * bytes, rows.data + (size_t)spare[i] * bytes, bytes);
        ((int64_t *)out[1].data)[i] = spare[i];
        place[group[spare[i]]] = i;
    }
    for (int64_t i = 0; i < m && ok; i++) {
        ((int64_t *)out[2].data)[i] = place[group[i]];
        ((int64_t *)out[3].data)[place[group[i]]]++;
    }
    heap_free(at);
    return ok || no_memory(error, error_size);
}

static const GHostOp host_unique = {"unique", run_unique};

static Node *lower_unique(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    bool sorted = op_int(op, "sorted", 1) != 0, whole = !op_given(op, "axis");
    int perm[G_MAX_RANK], back[G_MAX_RANK], n = 1;
    if (x == NULL) return NULL;
    if (whole) x = g_reshape(g, x, 1, (Ix[]){ix(g, -1)});
    int axis = whole ? 0 : op_axis(op, x, "axis", 0);
    if (axis < 0 || x == NULL) return NULL;
    perm[0] = axis;
    for (int d = 0; d < x->rank; d++)
        if (d != axis) perm[n++] = d;
    for (int d = 0; d < x->rank; d++) back[perm[d]] = d;
    Node *front = g_transpose(g, x, x->rank, perm);
    Ix m = x->shape[axis], width = ix_product(g, front->shape + 1, front->rank - 1),
       k = ix_dim_fresh(g, "unique", 0, IX_DIM_MAX);
    Node *rows = g_reshape(g, front, 2, (Ix[]){m, width});
    GType types[4] = {{(Elem)x->elem, 2, (Ix[]){k, width}}, {EL_i64, 1, &k}, {EL_i64, 1, &m}, {EL_i64, 1, &k}};
    Node *host = g_host(g, &host_unique, &sorted, sizeof sorted, &rows, 1, types, 4);
    for (int i = 1; i < 4; i++) op_out(op, i, g_proj(g, host, i));
    Ix shape[G_MAX_RANK] = {k};
    for (int d = 1; d < front->rank; d++) shape[d] = front->shape[d];
    Node *y = g_reshape(g, g_proj(g, host, 0), front->rank, shape);
    return y != NULL ? g_transpose(g, y, x->rank, back) : NULL;
}

// ---- NonMaxSuppression ------------------------------------------------------------------------------

typedef struct Box { float lo[2], hi[2], area; } Box;

static Box box_at(const float *p, bool centre) {
    Box b;
    for (int i = 0; i < 2; i++) {
        b.lo[i] = centre ? p[i] - p[2 + i] / 2 : fminf(p[i], p[2 + i]);       // corners come in any order, sizes have a sign
        b.hi[i] = centre ? p[i] + p[2 + i] / 2 : fmaxf(p[i], p[2 + i]);
    }
    b.area = (b.hi[0] - b.lo[0]) * (b.hi[1] - b.lo[1]);
    return b;
}

// Boxes that were taken, edges apart, so that several are compared at once. One without an area overlaps nothing, and is none of them.
enum { AT_ONCE = 16 };
typedef struct Taken { float *lo[2], *hi[2], *area; int64_t n; } Taken;

static bool taken_new(Taken *t, int64_t most) {
    size_t room = (size_t)(most + AT_ONCE);
    float *all = heap_try_zeroed(room * 5, sizeof *all);              // what is past the end is compared, and passed over
    *t = (Taken){{all, all + room}, {all + 2 * room, all + 3 * room}, all + 4 * room, 0};
    return all != NULL;
}

static void take(Taken *t, Box b) {
    if (!(b.area > 0)) return;
    for (int i = 0; i < 2; i++) t->lo[i][t->n] = b.lo[i], t->hi[i][t->n] = b.hi[i];
    t->area[t->n++] = b.area;
}

// Does it lie over one of them by more than the threshold?
static bool overlaps(const Taken *t, Box b, float threshold) {
    for (int64_t at = 0; at < t->n && b.area > 0; at += AT_ONCE) {
        float both[AT_ONCE];
        int   any = 0;
        for (int k = 0; k < AT_ONCE; k++) {
            float side[2];
            for (int i = 0; i < 2; i++) {
                float lo = t->lo[i][at + k], hi = t->hi[i][at + k];
                side[i] = (hi < b.hi[i] ? hi : b.hi[i]) - (lo > b.lo[i] ? lo : b.lo[i]);
            }
            both[k] = side[0] * side[1];
            any |= (side[0] > 0) & (side[1] > 0);
            if (!(side[0] > 0) || !(side[1] > 0)) both[k] = 0;
        }
        for (int k = 0; k < AT_ONCE && any && at + k < t->n; k++) {
            float all = t->area[at + k] + b.area - both[k];
            if (both[k] > 0 && all > 0 && both[k] / all > threshold) return true;
        }
    }
    return false;
}

// boxes [B, N, 4], scores [B, C, N], most i64[1], overlap f32[1], least score f32[1] -> [found, 3]: batch, class, box.
static bool run_nms(const void *attr, const GTensor *in, int nin, GTensor *out, int nout, char *error,
                    size_t error_size) {
    bool centre = *(const bool *)attr;
    int64_t batches = in[1].shape[0], classes = in[1].shape[1], n = in[1].shape[2], most = *(const int64_t *)in[2].data,
            found = 0;
    float threshold = *(const float *)in[3].data, least = *(const float *)in[4].data;
    int64_t keep = most < 0 ? 0 : most < n ? most : n, room = n > 0 ? n : 1;
    int64_t *order = heap_try((size_t)room * 2 * sizeof *order), *spare = order != NULL ? order + room : NULL;
    int64_t *picked = heap_try((size_t)(batches * classes * keep + 1) * 3 * sizeof *picked);
    float *negative = heap_try((size_t)room * sizeof *negative);
    Taken taken;
    (void)nin, (void)nout;
    bool ok = taken_new(&taken, keep) && order != NULL && picked != NULL && negative != NULL;
    for (int64_t b = 0; b < batches && ok; b++)
        for (int64_t c = 0; c < classes; c++) {
            const float *score = (const float *)in[1].data + (b * classes + c) * n,
                        *boxes = (const float *)in[0].data + b * n * 4;
            int64_t begin = found, candidates = 0;
            taken.n = 0;
            for (int64_t i = 0; i < n; i++) negative[i] = -score[i];
            for (int64_t i = 0; i < n; i++)
                if (score[i] > least) order[candidates++] = i;
            sort_rows(&(Rows){(const char *)negative, EL_f32, 1, sizeof(float)}, order, spare, candidates);
            for (int64_t i = 0; i < candidates && found - begin < keep; i++) {
                Box box = box_at(boxes + order[i] * 4, centre);
                if (overlaps(&taken, box, threshold)) continue;
                take(&taken, box);
                memcpy(picked + found++ * 3, (int64_t[]){b, c, order[i]}, 3 * sizeof *picked);
            }
        }
    out->shape[0] = found;
    out->shape[1] = 3;
    ok = ok && g_tensor_alloc(out);
    if (ok) memcpy(out->data, picked, (size_t)found * 3 * sizeof *picked);
    heap_free(order), heap_free(picked), heap_free(negative), heap_free(taken.lo[0]);
    return ok || no_memory(error, error_size);
}

static const GHostOp host_nms = {"non_max_suppression", run_nms};

static Node *one_of(Op *op, int i, Elem elem, double otherwise) {
    Graph *g = op->g;
    Node *x = op_opt(op, i);
    Ix one = ix(g, 1);
    return x != NULL ? g_reshape(g, g_cast(g, x, elem), 1, &one) : g_full(g, elem, 1, &one, g_float(otherwise));
}

static Node *lower_nms(Op *op) {
    Graph *g = op->g;
    Node *boxes = op_in(op, 0), *scores = op_in(op, 1);
    if (boxes == NULL || scores == NULL) return NULL;
    if (boxes->rank != 3 || scores->rank != 3) return op_error(op, "its boxes and scores should have 3 dimensions");
    g_require(g, boxes->shape[0], scores->shape[0]);
    g_require(g, boxes->shape[1], scores->shape[2]);
    g_require(g, boxes->shape[2], ix(g, 4));
    bool centre = op_int(op, "center_point_box", 0) != 0;
    Node *src[5] = {g_cast(g, boxes, EL_f32), g_cast(g, scores, EL_f32), one_of(op, 2, EL_i64, 0),
                    one_of(op, 3, EL_f32, 0), one_of(op, 4, EL_f32, -INFINITY)};
    GType type = {EL_i64, 2, (Ix[]){ix_dim_fresh(g, "selected", 0, IX_DIM_MAX), ix(g, 3)}};
    return g_proj(g, g_host(g, &host_nms, &centre, sizeof centre, src, 5, &type, 1), 0);
}

const OpRow ops_host[] = {
    OP("NonZero", 9, lower_nonzero),
    OP("Compress", 9, lower_compress),
    OP("Unique", 11, lower_unique),
    OP("NonMaxSuppression", 10, lower_nms),
    {0},
};

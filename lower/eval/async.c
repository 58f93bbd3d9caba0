// Level 2 of the evaluator: shared memory, asynchronous copies, wgmma.
//
// Data move when they are asked to; what is checked is who may look at them. Every stage of a ring has a
// status, and reading it in any but READY is a fault that says what is missing:
//
//     copy_async  ->  FLYING   -- copy_wait -->  LANDED   -- barrier -->  READY
//     tma_load    ->  FLYING   -- mbar_wait ------------------------->    READY
//     buffer_store ----------------------------> LANDED   -- barrier -->  READY
//
// Writing is a fault while somebody may still read: since the last barrier (or arrival on an mbarrier) by
// an ordinary load, or by a wgmma that was not waited for. Rings may lie over each other in shared memory:
// writing one empties what it covers, under the same rule. An accumulator that a wgmma writes can only be
// passed on, waited for, or accumulated into, until its group is complete.
//
// wgmma multiplies what lies in the buffers, dead lanes and all, as the hardware does: whoever fills them
// must have made the products of dead lanes zero.

#include "lower/eval/async.h"

#include <string.h>

Ring *ring_of(Eval *e, const Op *op, int operand) { return slot_of(e, op->in[operand])->ext; }

static int stage_number(Eval *e, const Op *op, const Ring *r, int operand) {
    int64_t n = op->code == OP_T_tma_load && r->n == 1 ? 0 : scalar_int(e, op->in[operand]);
    if (n >= 0 && n < r->n) return (int)n;
    eval_fault(e, op->span, "%s: stage %lld of a ring of %d", op_info[op->code].name, (long long)n, r->n);
    return -1;
}

// ---- who may read, who may write -----------------------------------------------------------------

Stage *stage_to_read(Eval *e, const Op *op, int ring, int operand, int *number) {
    static const char *const lacks[] = {
        [EMPTY] = "nothing was put there", [FLYING] = "an asynchronous copy into it was not waited for", [LANDED] = "no barrier came after what was written",
    };
    Ring *r = ring_of(e, op, ring);
    *number = stage_number(e, op, r, operand);
    if (*number < 0) return NULL;
    Stage *s = &r->stage[*number];
    if (s->status != READY) {
        eval_fault(e, op->span, "%s of stage %d: %s", op_info[op->code].name, *number, lacks[s->status]);
        return NULL;
    }
    return s;
}

static bool claim(Eval *e, const Op *op, Stage *s, int number) {
    const char *why = s->flight > e->async->done ? "a wgmma that reads it was not waited for" : s->read ? "others may still read it" : s->status == FLYING ? "another copy into it is on its way" : NULL;
    if (!why) return true;
    eval_fault(e, op->span, "%s into stage %d: %s", op_info[op->code].name, number, why);
    return false;
}

Stage *stage_to_write(Eval *e, const Op *op, int ring) {
    Ring *r = ring_of(e, op, ring);
    int   number = stage_number(e, op, r, 1);
    if (number < 0 || !claim(e, op, &r->stage[number], number)) return NULL;
    int64_t lo = r->at + number * r->apart, hi = lo + r->bytes;
    for (uint32_t i = 0; i < e->async->rings.n; i++) {                       // what else lies there
        Ring *q = e->async->rings.at[i];
        for (int k = 0; k < q->n && q != r; k++) {
            int64_t at = q->at + k * q->apart;
            if (at >= hi || at + q->bytes <= lo || q->stage[k].status == EMPTY) continue;
            if (!claim(e, op, &q->stage[k], number)) return NULL;
            q->stage[k].status = EMPTY;
        }
    }
    return &r->stage[number];
}

bool readable(Eval *e, const Op *op) {
    bool passes_on = op_has(op, 'T') || op->code == OP_T_for || op->code == OP_T_while || op->code == OP_T_wgmma_wait;
    for (int i = 0; i < op->nin && !passes_on; i++) {
        if (slot_of(e, op->in[i])->flight <= e->async->done || (op->code == OP_T_wgmma && op->in[i] == op_acc(op))) continue;
        eval_fault(e, op->span, "%s reads an accumulator that a wgmma is still writing", op_info[op->code].name);
        return false;
    }
    return true;
}

// ---- rings ---------------------------------------------------------------------------------------

void plan_async(Eval *e) {
    e->async = NEW(e->arena, Async);
    e->bounds = false;
}

void start_async(Eval *e) {
    Async *a = e->async;
    for (uint32_t i = 0; i < a->rings.n; i++) memset(a->rings.at[i]->stage, 0, sizeof(Stage) * (size_t)a->rings.at[i]->n);
    for (uint32_t i = 0; i < a->bars.n; i++)
        for (int k = 0; k < a->bars.at[i]->n; k++) a->bars.at[i]->at[k] = (Bar){.landing = {a->bars.at[i]->at[k].landing.at, 0, a->bars.at[i]->at[k].landing.cap}};
    a->group = 1;
    a->waited = a->issued = a->done = 0;
    a->arrives_as = 1;
    a->role = NULL;
}

void eval_buffer(Eval *e, const Step *s) {
    const Op *op = s->op;
    const Type *t = &op->out[0]->type;
    Slot *slot = slot_of(e, op->out[0]);
    if (slot->ext) return;                                  // shared memory is what it is, in each trip
    Ring *r = slot->ext = NEW(e->arena, Ring);
    *r = (Ring){.op = op, .at = op->attr, .n = (int)op->imm, .rank = t->rank, .size = elem_bytes((Elem)t->elem)};
    memcpy(r->shape, t->shape, sizeof r->shape);
    r->bytes = type_lanes(t) * r->size;
    r->apart = type_apart(t) ? type_apart(t) : r->bytes;
    r->stage = NEW_N(e->arena, Stage, r->n);
    r->data = arena_alloc(e->arena, (size_t)(r->bytes * r->n));
    vec_push(e->arena, &e->async->rings, r);
}

// Coordinates of a stage, last dimension fastest.
static bool next_coord(const Ring *r, int64_t *at) {
    for (int d = r->rank - 1; d >= 0; d--) {
        if (++at[d] < r->shape[d]) return true;
        at[d] = 0;
    }
    return false;
}

// How far a tile's lane moves along each dimension of the ring; axes are named by operands, or in the type's order.
static void tile_steps(const Ring *r, const Op *op, const Type *t, int first, int64_t *step) {
    for (int d = 0; d < r->rank; d++) {
        const Val *axis = op->nin > first ? op->in[first + d] : t->axis[d];
        int at = type_axis(t, axis);
        step[d] = 1;
        for (int i = at + 1; i < t->rank; i++) step[d] *= axis_extent(t->axis[i]);
    }
}

static void move(const Ring *r, int number, const int64_t *step, unsigned char *tile, bool out) {
    int64_t at[MAX_AXES] = {0};
    unsigned char *p = r->data + number * r->bytes;
    do {
        int64_t lane = 0;
        for (int d = 0; d < r->rank; d++) lane += at[d] * step[d];
        memcpy(out ? tile + lane * r->size : p, out ? p : tile + lane * r->size, (size_t)r->size);
        p += r->size;
    } while (next_coord(r, at));
}

// One element for several lanes along the first or the last dimension.
static void spread(const Ring *r, int number, const int64_t *step, const Op *op, unsigned char *tile) {
    int64_t per[2] = {op->imm > 1 ? op->imm : 1, op->attr > 1 ? op->attr : 1};
    const unsigned char *from = r->data + number * r->bytes;
    for (int64_t i = 0; i < r->shape[0] * per[0]; i++)
        for (int64_t k = 0; k < r->shape[1] * per[1]; k++)
            memcpy(tile + (i * step[0] + k * step[1]) * r->size, from + (i / per[0] * r->shape[1] + k / per[1]) * r->size, (size_t)r->size);
}

void eval_buffer_load(Eval *e, const Step *s) {
    const Op *op = s->op;
    int     number;
    int64_t step[MAX_AXES];
    Ring   *r = ring_of(e, op, 0);
    Stage  *stage = stage_to_read(e, op, 0, 1, &number);
    unsigned char *out = out_tile(e, op);
    if (!stage) return;
    stage->read = true;
    tile_steps(r, op, &op->out[0]->type, 2, step);
    if (op->imm > 1 || op->attr > 1) spread(r, number, step, op, out);
    else move(r, number, step, out, true);
}

void eval_buffer_row(Eval *e, const Step *s) {
    const Op *op = s->op;
    int     number;
    int64_t step[MAX_AXES];
    Ring   *r = ring_of(e, op, 0), one = *r;
    Stage  *stage = stage_to_read(e, op, 0, 1, &number);
    unsigned char *out = out_tile(e, op);
    if (!stage) return;
    stage->read = true;
    one.rank--;
    memmove(one.shape, one.shape + 1, sizeof *one.shape * (size_t)one.rank);
    one.bytes = r->bytes / r->shape[0];
    one.data = r->data + number * r->bytes + op->imm * one.bytes;
    tile_steps(&one, op, &op->out[0]->type, 2, step);
    move(&one, 0, step, out, true);
}

void eval_buffer_store(Eval *e, const Step *s) {
    const Op *op = s->op;
    int64_t step[MAX_AXES];
    Ring   *r = ring_of(e, op, 0);
    Stage  *stage = stage_to_write(e, op, 0);
    if (!stage) return;
    tile_steps(r, op, &op->in[2]->type, 3, step);
    move(r, (int)(stage - r->stage), step, lanes_of(e, op->in[2]), false);
    stage->status = LANDED;
}

void eval_buffer_clear(Eval *e, const Step *s) {
    const Op *op = s->op;
    int     number;
    Ring   *r = ring_of(e, op, 0);
    Stage  *stage = stage_to_read(e, op, 0, 1, &number);
    int64_t live = slot_of(e, op->in[2])->live, row = r->bytes / r->shape[0];
    if (!stage || live >= r->shape[0]) return;
    bool cleared = true;                                     // by another group, with whom this one shares the stage
    for (int64_t i = live * row; i < r->bytes && cleared; i++) cleared = !r->data[number * r->bytes + i];
    if (cleared) return;
    if (stage->flight > e->async->done) { eval_fault(e, op->span, "buffer_clear of stage %d while a wgmma reads it", number); return; }
    memset(r->data + number * r->bytes + live * row, 0, (size_t)(r->bytes - live * row));
}

// ---- copies --------------------------------------------------------------------------------------

static const unsigned char *element(Eval *e, const Val *tensor, const int64_t *idx) {      // NULL: out of range
    const EvalTensor *t = &e->args[slot_of(e, tensor)->lo].tensor;
    int64_t off = 0;
    for (int d = 0; d < tensor->type.rank; d++) {
        if (idx[d] < 0 || idx[d] >= t->dims[d]) return NULL;
        off += idx[d] * t->strides[d];
    }
    return (const unsigned char *)t->data + off * elem_bytes((Elem)tensor->type.elem);
}

void eval_copy_async(Eval *e, const Step *s) {
    const Op *op = s->op;
    Ring   *r = ring_of(e, op, 0);
    Stage  *stage = stage_to_write(e, op, 0);
    int     n = 0;
    const Val *axis[MAX_AXES];                            // that the dimensions of the ring are
    int64_t at[MAX_AXES] = {0}, live[MAX_AXES] = {0}, idx[MAX_RANK];
    if (!stage) return;
    for (int d = 0; d < op->nidx; d++) {
        const Type *t = &op->in[3 + d]->type;
        for (int k = 0, i; k < t->rank; k++) {
            for (i = 0; i < n && axis[i] != t->axis[k];) i++;
            if (i < n || n == MAX_AXES) continue;
            live[n] = slot_of(e, t->axis[k])->live;
            axis[n++] = t->axis[k];
        }
    }
    if (n != r->rank) { eval_fault(e, op->span, "copy_async: %d indices have an axis, the ring has %d dimensions", n, r->rank); return; }
    unsigned char *to = r->data + (stage - r->stage) * r->bytes;
    do {
        bool dead = false;
        for (int d = 0; d < n; d++) dead |= at[d] >= live[d];
        for (int d = 0; d < op->nidx && !dead; d++) {
            const Type *t = &op->in[3 + d]->type;
            int64_t lane = 0;
            for (int k = 0; k < t->rank; k++) {
                int i = 0;
                while (axis[i] != t->axis[k]) i++;
                lane = lane * axis_extent(t->axis[k]) + at[i];
            }
            idx[d] = lane_imm(t, lanes_of(e, op->in[3 + d]), lane);
        }
        const unsigned char *from = dead ? NULL : element(e, op->in[2], idx);
        if (from) memcpy(to, from, (size_t)r->size);
        else      memset(to, 0, (size_t)r->size);
        to += r->size;
    } while (next_coord(r, at));
    stage->status = FLYING;
    stage->group = e->async->group;
}

void eval_copy_commit(Eval *e, const Step *s) {
    (void)s;
    if (e->async) e->async->group++;                            // level 1: tiles that are kept, at once
}

void eval_copy_wait(Eval *e, const Step *s) {
    Async *a = e->async;
    if (!a) return;
    int64_t complete = (int64_t)a->group - 1 - s->op->imm;      // groups before the open one, but the last imm
    for (uint32_t i = 0; i < a->rings.n; i++)
        for (int k = 0; k < a->rings.at[i]->n; k++) {
            Stage *g = &a->rings.at[i]->stage[k];
            if (g->status == FLYING && g->group && g->group <= complete) g->status = LANDED;
        }
}

void eval_barrier(Eval *e, const Step *s) {
    (void)s;
    for (uint32_t i = 0; i < e->async->rings.n; i++)
        for (int k = 0; k < e->async->rings.at[i]->n; k++) {
            Stage *g = &e->async->rings.at[i]->stage[k];
            if (g->status == LANDED) g->status = READY;
            g->read = false;
        }
}

static const LaunchSlot *map_of(Eval *e, const Op *op) {                  // NULL: text without slots
    const LaunchInfo *l = e->f->launch;
    for (int i = 0; l && i < l->nslots; i++)
        if (l->slots[i].kind == SLOT_TENSORMAP && l->slots[i].b == op->imm) return &l->slots[i];
    return NULL;
}

// The rows of a box, one after the other: along one dimension, or the pixels of a window, innermost dimension first.
typedef struct BoxRows {
    int     rank, dim, inner, spatial;                                 // inner: along which a row lies
    bool    lone;                                                      // there is one picture, and no dimension for it
    int64_t at[MAX_RANK];                                               // of the row
    int64_t lower[3], end[3], step[3];
} BoxRows;

static BoxRows rows_of(Eval *e, const Op *op, int tensor, const int64_t *start) {
    const LaunchSlot *m = map_of(e, op);
    BoxRows r = {.rank = op->nidx, .dim = op->nidx - 2, .inner = m ? m->map_dim[0] : op->nidx - 1};
    const EvalTensor *t = &e->args[slot_of(e, op->in[tensor])->lo].tensor;
    memcpy(r.at, start, sizeof r.at);
    for (int d = 1; m && !m->im2col && d < m->rank; d++)
        if (m->box[d] != 1) { r.dim = m->map_dim[d]; break; }
    if (!m || !m->im2col) return r;
    r.spatial = m->rank - 2;
    r.lone = m->rank > r.rank;
    for (int i = 0; i < r.spatial; i++) {
        r.lower[i] = eval_launch(e, m->lower[i]);
        r.end[i] = t->dims[r.rank - 2 - i] + eval_launch(e, m->upper[i]);
        r.step[i] = eval_launch(e, m->step[i]);
    }
    return r;
}

static void next_row(BoxRows *r) {
    if (!r->spatial) {
        if (r->dim >= 0) r->at[r->dim]++;
        return;
    }
    for (int i = 0; i < r->spatial; i++) {
        int64_t *x = &r->at[r->rank - 2 - i];
        if ((*x += r->step[i]) < r->end[i]) return;
        *x = r->lower[i];
    }
    if (r->lone) r->at[0] = INT32_MAX;
    else r->at[0]++;
}

int64_t copy_box(Eval *e, const Op *op, Ring *r, int number) {
    int     n = op->nidx, last = op->nin - !!(op->flags & HAS_WHERE);
    int64_t idx[MAX_RANK] = {0}, offset[MAX_RANK] = {0}, columns = r->shape[r->rank - 1];
    for (int d = 0; d < n; d++) idx[d] = scalar_int(e, op->in[4 + d]);
    int64_t boxes = op_boxes(op);
    for (int i = 4 + n; i < last && boxes == 1; i++) offset[n - 1 - (last - i)] = scalar_int(e, op->in[i]);
    BoxRows at = rows_of(e, op, 3, idx);
    unsigned char *p = r->data + number * r->bytes;
    int64_t rows = r->bytes / (columns * r->size), some_rows = rows, some_columns = columns, brought = 0;
    if (last < op->nin) {                                                  // what is not brought is anything
        int64_t span = r->op->out[0]->type.swizzle / r->size, live = scalar_int(e, op->in[last]);
        if (op->attr == 1) some_columns = live <= span ? span : live < columns ? (live + span - 1) / span * span : columns;
        else some_rows = live < rows ? live : rows;
    }
    for (int64_t i = 0; i < rows; i++, next_row(&at)) {
        if (boxes > 1 && i % (rows / boxes) == 0) {
            for (int d = 0; d < n; d++) idx[d] = scalar_int(e, op->in[4 + i / (rows / boxes) * n + d]);
            at = rows_of(e, op, 3, idx);
        }
        for (int64_t j = 0; j < columns; j++, p += r->size) {
            if (i >= some_rows || j >= some_columns) { memset(p, 0xff, (size_t)r->size); continue; }
            brought += r->size;
            for (int d = 0; d < n; d++) idx[d] = at.at[d] + offset[d];
            idx[at.inner] += j;
            const unsigned char *g = element(e, op->in[3], idx);
            if (g) memcpy(p, g, (size_t)r->size);
            else   memset(p, 0, (size_t)r->size);
        }
    }
    return brought;
}

// Lanes of the value that lie in the tensor, whatever is alive: what is cut off is what the tensor does not have.
void eval_tma_store(Eval *e, const Step *s) {
    const Op *op = s->op;
    int  n = op->nidx;
    const Val *v = op->in[2 + n];
    int  row = type_axis(&v->type, op->in[3 + n]), size = elem_bytes((Elem)v->type.elem);
    int64_t idx[MAX_RANK] = {0}, m = axis_extent(v->type.axis[row]), k = axis_extent(v->type.axis[1 - row]);
    const unsigned char *from = lanes_of(e, v);
    for (int d = 0; d < n; d++) idx[d] = scalar_int(e, op->in[2 + d]);
    BoxRows at = rows_of(e, op, 1, idx);
    for (int64_t i = 0; i < m; i++, next_row(&at))
        for (int64_t j = 0; j < k; j++) {
            memcpy(idx, at.at, sizeof idx);
            idx[at.inner] += j;
            unsigned char *to = (unsigned char *)(uintptr_t)element(e, op->in[1], idx);
            const unsigned char *x = from + (row ? j * m + i : i * k + j) * size;
            if (to && op->attr & TO_ADD) *(float *)to += *(const float *)x;
            else if (to) memcpy(to, x, (size_t)size);
        }
}

void eval_tma_store_wait(Eval *e, const Step *s) { (void)e; (void)s; }

void eval_fence_async(Eval *e, const Step *s) { (void)e; (void)s; }
void eval_wait_launches(Eval *e, const Step *s) { (void)e; (void)s; }
void eval_convert(Eval *e, const Step *s)     { slot_share(e, s->op->out[0], s->op->in[0]); }
void eval_join_lanes(Eval *e, const Step *s)  { slot_share(e, s->op->out[0], s->op->in[0]); }

// ---- wgmma ---------------------------------------------------------------------------------------

// From rows `row` elements apart, which are lines or, where k is the outer one, hold an element of each.
static void to_lines(const Type *t, const unsigned char *from, int64_t n, int64_t depth, bool outer_k, int64_t row,
                     double *to) {
    double  some[CHUNK];
    int64_t size = type_bytes(t);
    for (int64_t i = 0; i < n && !outer_k; i++) lanes_to_f64(t, depth, from + i * row * size, to + i * depth);
    for (int64_t k = 0; k < depth && outer_k; k++)
        for (int64_t i = 0; i < n; i += CHUNK) {
            int64_t lines = n - i < CHUNK ? n - i : CHUNK;
            lanes_to_f64(t, lines, from + (k * row + i) * size, some);
            for (int64_t j = 0; j < lines; j++) to[(i + j) * depth + k] = some[j];
        }
}

// An operand as f64, lines by depth: to[line * depth + k].
static bool factor(Eval *e, const Op *op, int side, const Val *line, const Val *k, double *to) {
    const Val *v = op->in[side];
    int64_t n = axis_extent(line), depth = axis_extent(k);
    bool    outer_k = op->attr >> side & 1;
    if (v->type.kind == TY_TILE) {
        const Type *t = &v->type;
        bool line_last = type_axis(t, line) > type_axis(t, k);
        to_lines(t, lanes_of(e, v), n, depth, line_last, line_last ? n : depth, to);
        return true;
    }
    int number;
    Stage *s = stage_to_read(e, op, side, 2 + side, &number);
    if (!s) return false;
    Ring *r = ring_of(e, op, side);
    Type t = type_scalar((Elem)v->type.elem);
    int64_t bands = side == 0 && op->imm > 1 ? op->imm : 1, first = bands > 1 ? e->slice * n : 0, lines = n * bands, want[2] = {outer_k ? depth : lines, outer_k ? lines : depth};
    if (r->rank != 2 || r->shape[0] != want[0] || (outer_k ? r->shape[1] < want[1] : r->shape[1] != want[1])) {
        eval_fault(e, op->span, "wgmma: operand %d is a buffer of another shape", side);
        return false;
    }
    s->flight = e->async->issued;
    s->read = true;
    const unsigned char *from = r->data + number * r->bytes + (outer_k ? first : first * depth) * r->size;
    to_lines(&t, from, n, depth, outer_k, outer_k ? r->shape[1] : depth, to);
    return true;
}

// sums[j] += a . line j of b, for 8 lines side by side, term by term.
typedef double Two __attribute__((vector_size(16), aligned(16)));
static void add_products(int64_t depth, const double *a, const double *b, double sums[8]) {
    Two c[4];
    memcpy(c, sums, sizeof c);
    for (int64_t x = 0; x < depth; x++, b += 8) {
        const Two *by = (const Two *)(const void *)b, one = {a[x], a[x]};
        for (int j = 0; j < 4; j++) c[j] += one * by[j];
    }
    memcpy(sums, c, sizeof c);
}

// 8 lines of n, from j on, side by side; those that are not there are 0.
static void pack_lines(const double *lines, int64_t j, int64_t n, int64_t depth, double *to) {
    for (int l = 0; l < 8; l++)
        for (int64_t x = 0; x < depth; x++) to[x * 8 + l] = j + l < n ? lines[(j + l) * depth + x] : 0;
}

void eval_wgmma(Eval *e, const Step *s) {
    const Op *op = s->op;
    int first = 4 + ((op->flags & HAS_ACC) != 0);
    const Val *acc = op_acc(op), *row = op->in[first], *col = op->in[first + 1], *k = op->in[first + 2];
    int64_t m = axis_extent(row), n = axis_extent(col), depth = axis_extent(k);
    bool    col_last = type_axis(&op->out[0]->type, col) > type_axis(&op->out[0]->type, row);
    e->async->issued++;
    Tile *ta = tile_new(e, m * depth * 8), *tb = tile_new(e, n * depth * 8), *tp = tile_new(e, 8 * depth * 8);
    const double *a = (const double *)ta->data, *b = (const double *)tb->data;
    double       *panel = (double *)tp->data;
    const void   *before = acc ? lanes_of(e, acc) : NULL;
    bool          ints = op->out[0]->type.elem == EL_i32;
    Tile  *keep = acc ? tile_keep(slot_of(e, acc)->t) : NULL;
    void *out = out_tile(e, op);
    if (factor(e, op, 0, row, k, (double *)ta->data) && factor(e, op, 1, col, k, (double *)tb->data))
        for (int64_t j = 0; j < n; j += 8) {
            pack_lines(b, j, n, depth, panel);
            for (int64_t i = 0; i < m; i++) {
                double sum[8] = {0};
                int    lines = n - j < 8 ? (int)(n - j) : 8;
                int64_t lane = col_last ? i * n + j : j * m + i, step = col_last ? 1 : m;
                for (int l = 0; l < lines && before; l++) {
                    int64_t at = lane + l * step;
                    sum[l] = ints ? ((const int32_t *)before)[at] : (double)((const float *)before)[at];
                }
                add_products(depth, a + i * depth, panel, sum);
                for (int l = 0; l < lines; l++) {
                    if (ints) ((int32_t *)out)[lane + l * step] = (int32_t)(int64_t)sum[l];
                    else      ((float *)out)[lane + l * step] = (float)sum[l];
                }
            }
        }
    slot_of(e, op->out[0])->flight = e->async->issued;
    tile_drop(e, ta);
    tile_drop(e, tb);
    tile_drop(e, tp);
    tile_drop(e, keep);
}

void eval_wgmma_wait(Eval *e, const Step *s) {
    const Op *op = s->op;
    Async *a = e->async;
    if (a->issued > (uint32_t)op->imm && a->issued - (uint32_t)op->imm > a->done) a->done = a->issued - (uint32_t)op->imm;
    for (int i = 0; i < op->nout; i++) {
        slot_share(e, op->out[i], op->in[i]);
        if (slot_of(e, op->out[i])->flight <= a->done) slot_of(e, op->out[i])->flight = 0;
    }
}

// dot: sums of products over axes, as f64 matrix products.
//
// Every axis of the operands plays one part:
//
//     batch   in a and b and in the result         rows   only in a, kept      cols   only in b, kept
//     depth   summed over, in either or both (where an operand lacks it, it is repeated)
//
// For each batch coordinate the live lanes of a and b are packed as f64, a in panels of 4 rows, b in
// panels of 8 columns, and multiplied by a small blocked kernel, a multiply and an add at a time, so that
// the result is the same on every machine. Products of 8- and 16-bit types are exact in f64, those of f32
// too; integers up to 16 bits are exact in f64 as well, wider ones go through a plain loop that wraps.
// What is left, acc included, is rounded once.
//
// A GPU sums in another order and in f32, or splits f32 operands into TF32 parts. With S = sum |a||b|
// (plus |acc|), K live lanes of depth, and the constants of the table below,
//
//     bound = (product + K * step) S + sum (|a| bb + ba |b| + ba bb) + bound of acc

#include "lower/eval/eval.h"
#include "lang/number.h"

#include <math.h>
#include <string.h>

enum { ROWS = 4, COLS = 8, DEEP = 256, TALL = 64 };

typedef struct Part {                      // one group of axes: offset of each live coordinate in every tile
    int64_t n;
    int64_t *a, *b, *r;
} Part;

typedef struct Dot {
    Eval    *e;
    const Op *op;
    const Type *ta, *tb, *tr;
    Part    batch, rows, cols, depth;
} Dot;

static int64_t lane_stride(const Type *t, const Val *axis) {
    int at = type_axis(t, axis);
    int64_t by = at < 0 ? 0 : 1;
    for (int i = at + 1; at >= 0 && i < t->rank; i++) by *= axis_extent(t->axis[i]);
    return by;
}

static void part_make(Dot *d, Part *p, int n, Val *const *axes) {
    Arena *a = d->e->arena;
    p->n = 1;
    for (int i = 0; i < n; i++) p->n *= slot_of(d->e, axes[i])->live;
    p->a = NEW_N(a, int64_t, p->n);
    p->b = NEW_N(a, int64_t, p->n);
    p->r = NEW_N(a, int64_t, p->n);
    int64_t at[MAX_AXES] = {0}, live[MAX_AXES], sa[MAX_AXES], sb[MAX_AXES], sr[MAX_AXES];
    for (int i = 0; i < n; i++) {
        live[i] = slot_of(d->e, axes[i])->live;
        sa[i] = lane_stride(d->ta, axes[i]);
        sb[i] = lane_stride(d->tb, axes[i]);
        sr[i] = lane_stride(d->tr, axes[i]);
    }
    for (int64_t k = 0; k < p->n; k++) {
        for (int i = 0; i < n; i++) {
            p->a[k] += at[i] * sa[i];
            p->b[k] += at[i] * sb[i];
            p->r[k] += at[i] * sr[i];
        }
        for (int i = n - 1; i >= 0; i--) {
            if (++at[i] < live[i]) break;
            at[i] = 0;
        }
    }
}

static void parts_make(Dot *d) {
    Val *batch[MAX_AXES], *rows[MAX_AXES], *cols[MAX_AXES];
    int  nb = 0, nr = 0, nc = 0, first = op_first_axis(d->op);
    for (int i = 0; i < d->tr->rank; i++) {
        Val *x = d->tr->axis[i];
        bool in_a = type_axis(d->ta, x) >= 0, in_b = type_axis(d->tb, x) >= 0;
        if (in_a && in_b) batch[nb++] = x;
        else if (in_a)    rows[nr++] = x;
        else              cols[nc++] = x;
    }
    part_make(d, &d->batch, nb, batch);
    part_make(d, &d->rows, nr, rows);
    part_make(d, &d->cols, nc, cols);
    part_make(d, &d->depth, d->op->nin - first, d->op->in + first);
}

// ---- packing -------------------------------------------------------------------------------------

typedef enum Pick { PICK_VALUE, PICK_SIZE, PICK_BOUND, PICK_BOTH } Pick;      // x, |x|, bound, |x| + bound

// line[0 .. depth) of the operand at `base`, as f64.
static void pick_line(const Type *t, const Slot *s, Pick pick, int64_t base, const int64_t *depth, int64_t k, double *line) {
    unsigned char raw[CHUNK * 8] __attribute__((aligned(64)));
    int size = type_bytes(t);
    const unsigned char *p = s->t->data + base * size;
    const double *b = s->b ? (const double *)s->b->data + base : NULL;
    for (int64_t i = 0; i < k && pick != PICK_BOUND; i += CHUNK) {
        int64_t n = k - i < CHUNK ? k - i : CHUNK;
        if (depth[i + n - 1] - depth[i] == n - 1) {
            lanes_to_f64(t, n, p + depth[i] * size, line + i);
            continue;
        }
        switch (size) {
        case 1:  for (int64_t j = 0; j < n; j++) raw[j] = p[depth[i + j]]; break;
        case 2:  for (int64_t j = 0; j < n; j++) ((uint16_t *)raw)[j] = ((const uint16_t *)p)[depth[i + j]]; break;
        case 4:  for (int64_t j = 0; j < n; j++) ((uint32_t *)raw)[j] = ((const uint32_t *)p)[depth[i + j]]; break;
        default: for (int64_t j = 0; j < n; j++) ((uint64_t *)raw)[j] = ((const uint64_t *)p)[depth[i + j]]; break;
        }
        lanes_to_f64(t, n, raw, line + i);
    }
    for (int64_t i = 0; i < k && pick != PICK_VALUE; i++) {
        double x = pick == PICK_BOUND ? 0 : fabs(line[i]);
        line[i] = x + (pick == PICK_SIZE || !b ? 0 : b[depth[i]]);
    }
}

// panels of `width` lines, interleaved: to[panel][k][width], missing lines 0
static void pack(const Type *t, const Slot *s, Pick pick, int64_t base, const int64_t *lines, int64_t n, int width,
                 const int64_t *depth, int64_t k, double *line, double *to) {
    int64_t panels = (n + width - 1) / width;
    for (int64_t i = 0; i < panels * width; i++) {
        double *at = to + i / width * width * k + i % width;
        if (i < n) pick_line(t, s, pick, base + lines[i], depth, k, line);
        for (int64_t j = 0; j < k; j++) at[j * width] = i < n ? line[j] : 0;
    }
}

// ---- multiplying ---------------------------------------------------------------------------------

typedef double Four __attribute__((vector_size(32), aligned(32)));

#define MICRO \
    { \
        Four c[ROWS][2] = {{{0}}}; \
        for (int64_t i = 0; i < k; i++, a += ROWS, b += COLS) { \
            Four b0 = *(const Four *)b, b1 = *(const Four *)(b + 4); \
            for (int r = 0; r < ROWS; r++) { \
                Four x = {a[r], a[r], a[r], a[r]}; \
                c[r][0] += x * b0; \
                c[r][1] += x * b1; \
            } \
        } \
        for (int r = 0; r < ROWS; r++) { \
            *(Four *)(out + r * ld) += c[r][0]; \
            *(Four *)(out + r * ld + 4) += c[r][1]; \
        } \
    }

typedef void Micro(int64_t k, const double *a, const double *b, double *out, int64_t ld);
static void micro_plain(int64_t k, const double *a, const double *b, double *out, int64_t ld) MICRO
#if defined(__x86_64__)
    __attribute__((target("avx2"))) static void micro_avx2(int64_t k, const double *a, const double *b, double *out,
                                                           int64_t ld) MICRO static Micro *micro_best(void) {
    return __builtin_cpu_supports("avx2") ? micro_avx2 : micro_plain;
}
#else
static Micro *micro_best(void) { return micro_plain; }
#endif

// m, n: whole panels; c += a b
static void multiply(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k) {
    Micro *micro = micro_best();
    for (int64_t k0 = 0; k0 < k; k0 += DEEP) {
        int64_t deep = k - k0 < DEEP ? k - k0 : DEEP;
        for (int64_t m0 = 0; m0 < m; m0 += TALL)
            for (int64_t j = 0; j < n; j += COLS)
                for (int64_t i = m0; i < m && i < m0 + TALL; i += ROWS)
                    micro(deep, a + i * k + k0 * ROWS, b + j * k + k0 * COLS, c + i * n + j, n);
    }
}

typedef struct Product { double *a, *b, *line; int64_t m, n; } Product;      // m, n: rounded up to panels

static void product(const Dot *d, const Product *w, int64_t batch, Pick of_a, Pick of_b, double *c) {
    const Slot *a = slot_of(d->e, d->op->in[0]), *b = slot_of(d->e, d->op->in[1]);
    int64_t k = d->depth.n;
    pack(d->ta, a, of_a, d->batch.a[batch], d->rows.a, d->rows.n, ROWS, d->depth.a, k, w->line, w->a);
    pack(d->tb, b, of_b, d->batch.b[batch], d->cols.b, d->cols.n, COLS, d->depth.b, k, w->line, w->b);
    multiply(w->a, w->b, c, w->m, w->n, k);
}

// ---- bounds --------------------------------------------------------------------------------------

typedef struct Rough { double product, step; } Rough;

static Rough rough_of(const Op *op) {
    static const Rough f32[] = {
        [DP_default] = {0x1p-19, 0x1p-22}, [DP_tf32x3] = {0x1p-19, 0x1p-22}, [DP_tf32] = {0x1p-9, 0x1p-22}, [DP_ieee] = {0, 0x1p-23},
    };
    Elem a = (Elem)op->in[0]->type.elem;
    if (!elem_is_float(a)) return (Rough){0, 0};
    if (a == EL_f64)       return (Rough){0, 0x1p-52};
    if (a == EL_f32)       return f32[op->sub];
    if (elem_bits(a) == 8) return (Rough){0x1p-12, 0x1p-22};
    return (Rough){0, 0x1p-22};
}

// ---- the op --------------------------------------------------------------------------------------

static bool narrow_enough(Elem e) { return elem_is_float(e) || elem_bits(e) <= 16; }

static int64_t wrapped_sum(const Dot *d, int64_t base_a, int64_t base_b) {      // integers of 32 and 64 bits
    const Slot *a = slot_of(d->e, d->op->in[0]), *b = slot_of(d->e, d->op->in[1]);
    uint64_t sum = 0;
    for (int64_t k = 0; k < d->depth.n; k++)
        sum += (uint64_t)lane_imm(d->ta, a->t->data, base_a + d->depth.a[k]) *
               (uint64_t)lane_imm(d->tb, b->t->data, base_b + d->depth.b[k]);
    return (int64_t)sum;
}

static void put(const Dot *d, void *out, const Slot *acc, int64_t lane, double x) {
    int64_t imm;
    if (d->tr->elem == EL_f32) {
        x += acc ? (double)((const float *)acc->t->data)[lane] : 0;
        ((float *)out)[lane] = x == x ? (float)x : f32_from(0x7fffffffu);
        return;
    }
    if (elem_is_float((Elem)d->tr->elem)) {
        if (acc) {
            double before;
            lanes_to_f64(d->tr, 1, acc->t->data + lane * type_bytes(d->tr), &before);
            x += before;
        }
        memcpy(&imm, &x, sizeof imm);
    } else {
        imm = (int64_t)x + (acc ? lane_imm(d->tr, acc->t->data, lane) : 0);
    }
    lane_store(d->tr, out, lane, imm);
}

static void put_wrapped(const Dot *d, void *out, const Slot *acc, int64_t batch) {
    for (int64_t i = 0; i < d->rows.n; i++)
        for (int64_t j = 0; j < d->cols.n; j++) {
            int64_t lane = d->batch.r[batch] + d->rows.r[i] + d->cols.r[j];
            uint64_t x = (uint64_t)wrapped_sum(d, d->batch.a[batch] + d->rows.a[i], d->batch.b[batch] + d->cols.b[j]);
            if (acc) x += (uint64_t)lane_imm(d->tr, acc->t->data, lane);
            lane_store(d->tr, out, lane, (int64_t)x);
        }
}

static void put_bounds(const Dot *d, double *bound, const double *size, const double *err, const Slot *acc,
                       int64_t batch, int64_t ld) {
    Rough r = rough_of(d->op);
    for (int64_t i = 0; i < d->rows.n; i++)
        for (int64_t j = 0; j < d->cols.n; j++) {
            int64_t lane = d->batch.r[batch] + d->rows.r[i] + d->cols.r[j];
            double  s = size[i * ld + j], before = 0;
            if (acc) lanes_to_f64(d->tr, 1, acc->t->data + lane * type_bytes(d->tr), &before);
            double b = r.product * s + (double)d->depth.n * r.step * (s + fabs(before)) + (err ? err[i * ld + j] : 0);
            if (acc && acc->b) b += ((const double *)acc->b->data)[lane];
            bound[lane] = b == b ? b : INFINITY;
        }
}

void eval_dot(Eval *e, const Step *s) {
    const Op *op = s->op;
    ArenaMark mark = arena_mark(e->arena);
    Dot d = {e, op, &op->in[0]->type, &op->in[1]->type, &op->out[0]->type, {0}, {0}, {0}, {0}};
    parts_make(&d);
    bool    fast = narrow_enough((Elem)d.ta->elem), inexact = slot_of(e, op->in[0])->b || slot_of(e, op->in[1])->b;
    bool    bounds = e->bounds && elem_is_float((Elem)d.tr->elem);
    int64_t lanes = type_lanes(d.tr), k = d.depth.n;
    unsigned char *out = out_tile(e, op);
    const Slot *acc = op_acc(op) ? slot_of(e, op_acc(op)) : NULL;
    double *bound = bounds ? out_bound(e, op) : NULL;
    if (!all_live(e, d.tr)) junk_lanes(e, d.tr, out, 0, lanes, op->out[0]->id);
    if (bound) memset(bound, 0, (size_t)lanes * sizeof *bound);

    Product w = {.m = (d.rows.n + ROWS - 1) / ROWS * ROWS, .n = (d.cols.n + COLS - 1) / COLS * COLS};
    Tile *ta = tile_new(e, w.m * k * 8), *tb = tile_new(e, w.n * k * 8), *tl = tile_new(e, k * 8),
         *tc = tile_new(e, w.m * w.n * 8 * 3);
    w.a = (double *)ta->data;
    w.b = (double *)tb->data;
    w.line = (double *)tl->data;
    double *c = (double *)tc->data, *size = c + w.m * w.n, *err = size + w.m * w.n;
    for (int64_t g = 0; g < d.batch.n; g++) {
        if (!fast) { put_wrapped(&d, out, acc, g); continue; }
        memset(c, 0, (size_t)(w.m * w.n * 8 * 3));
        product(&d, &w, g, PICK_VALUE, PICK_VALUE, c);
        for (int64_t i = 0; i < d.rows.n; i++)
            for (int64_t j = 0; j < d.cols.n; j++)
                put(&d, out, acc, d.batch.r[g] + d.rows.r[i] + d.cols.r[j], c[i * w.n + j]);
        if (!bounds) continue;
        product(&d, &w, g, PICK_SIZE, PICK_SIZE, size);
        if (inexact) {
            product(&d, &w, g, PICK_SIZE, PICK_BOUND, err);
            product(&d, &w, g, PICK_BOUND, PICK_BOTH, err);
        }
        put_bounds(&d, bound, size, inexact ? err : NULL, acc, g, w.n);
    }
    tile_drop(e, ta);
    tile_drop(e, tb);
    tile_drop(e, tl);
    tile_drop(e, tc);
    arena_reset(e->arena, mark);
}

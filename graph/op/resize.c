// Resize and Upsample; CenterCropPad, which is in the same trade.
//
// Each axis is resized by itself. Where an element of the result lies in the input is a number known at import, so an
// axis is a table: for each place the input's elements near it (taps) and their weights.
//
//     nearest    1 tap       (out = in[o / 2], in[o * 3 + 1]: a view; else a gather by constant indices)
//     linear     2 taps      cubic 4 taps      antialias as many as the scale makes, when it shrinks
//
// The sum is written out for up to four taps, else is a reduction. An axis of symbolic size stays symbolic: nearest by a
// whole factor, which is how networks upsample, is a view; else places and weights are computed, a list of each for an axis,
// as numbers would have been, each step rounded to f32. Only antialias by what may shrink, and keeping the aspect, bind sizes.
#include "graph/op/op.h"

#include <math.h>
#include <string.h>

#include "lang/number.h"

typedef enum Mode { NEAREST, LINEAR, CUBIC } Mode;
typedef enum Place {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL,
    TF_CROP,
    PLACES
} Place;
typedef enum Nearest { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, NEARESTS } Nearest;

static const char *const place_names[PLACES] = {"half_pixel",        "half_pixel_symmetric", "pytorch_half_pixel",
                                                "align_corners",     "asymmetric",           "tf_half_pixel_for_nn",
                                                "tf_crop_and_resize"};
static const char *const nearest_names[NEARESTS] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

typedef struct How {
    Mode    mode;
    Place   place;
    Nearest nearest;
    bool    antialias, exclude_outside;
    double  cubic_a, extrapolation;
} How;

typedef struct Axis {
    Ix     in, out;                    // sizes
    double scale, roi[2];              // scale NAN: out / in
    bool   changes;
} Axis;

typedef struct Table {
    int64_t  out;
    int      taps;
    int64_t *index;                    // [out][taps]
    double  *weight;                   // [out][taps]
    bool    *outside;                  // [out]: of the region that is resized
    bool     any_outside;
} Table;

// ---- tables -----------------------------------------------------------------------------------------

// Where element o of the result lies in the input. In f32, as everyone computes it: nearest asks on which side of a border.
static double place_of(const How *how, const Axis *a, int64_t in, int64_t out, int64_t o) {
    float x = (float)o, n = (float)in, scale = (float)a->scale, width = scale * n;
    switch (how->place) {
    case ALIGN_CORNERS:      return width == 1 ? 0 : (double)(x * (n - 1) / (width - 1));
    case ASYMMETRIC:         return (double)(x / scale);
    case TF_HALF_PIXEL:      return (double)((x + 0.5f) / scale);
    case PYTORCH_HALF_PIXEL: return out == 1 ? 0 : (double)((x + 0.5f) / scale - 0.5f);
    case HALF_PIXEL_SYMMETRIC: return (double)(n / 2 * (1 - (float)out / width) + (x + 0.5f) / scale - 0.5f);
    case TF_CROP: {
        double span = (a->roi[1] - a->roi[0]) * (double)(n - 1);
        return (width == 1 ? span / 2 : (double)x * span / (double)(width - 1)) + a->roi[0] * (double)(n - 1);
    }
    default:                 return (double)((x + 0.5f) / scale - 0.5f);
    }
}

static double cubic(double d, double a) {
    d = fabs(d);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static int64_t nearest_of(Nearest how, double x) {
    double low = floor(x), part = x - low;
    if (part == 0) return (int64_t)low;
    bool up = how == CEIL || (how == PREFER_FLOOR && part > 0.5) || (how == PREFER_CEIL && part >= 0.5);
    return (int64_t)low + up;
}

static int tap_count(const How *how, double scale) {
    if (how->mode == NEAREST) return 1;
    double reach = how->mode == LINEAR ? 1 : 2, shrink = how->antialias && scale < 1 ? scale : 1;
    return 2 * (int)fmin(ceil(reach / shrink), 1 << 20);
}

static bool fill_row(const How *how, const Axis *a, int64_t in, int64_t out, int64_t o, int taps, int64_t *index,
                     double *weight) {
    double x = fmax(fmin(place_of(how, a, in, out, o), 0x1p40), -0x1p40),
           shrink = how->antialias && a->scale < 1 ? a->scale : 1, sum = 0;
    if (how->mode == NEAREST) {
        weight[0] = 1;
        index[0] = nearest_of(how->nearest, x);
    }
    double left = ceil(x) - 1;                                  // taps lie around (left, left + 1]
    for (int k = 0; k < taps && how->mode != NEAREST; k++) {
        double at = left + 1 - taps / 2 + k, d = (at - x) * shrink;
        index[k] = (int64_t)at;
        weight[k] = how->mode == CUBIC ? cubic(d, how->cubic_a) : fmax(0, 1 - fabs(d));
        if (how->exclude_outside && (index[k] < 0 || index[k] >= in)) weight[k] = 0;
        sum += weight[k];
    }
    for (int k = 0; k < taps; k++) {
        if (how->mode != NEAREST && sum != 0 && (how->antialias || how->exclude_outside)) weight[k] /= sum;
        index[k] = index[k] < 0 ? 0 : index[k] >= in ? in - 1 : index[k];
    }
    return how->place == TF_CROP && (x < 0 || x > (double)(in - 1));
}

static Table table_of(Arena *arena, const How *how, const Axis *a, int64_t in, int64_t out) {
    Table t = {.out = out, .taps = tap_count(how, a->scale)};
    t.index = NEW_N(arena, int64_t, out * t.taps + 1);
    t.weight = NEW_N(arena, double, out * t.taps + 1);
    t.outside = NEW_N(arena, bool, out + 1);
    for (int64_t o = 0; o < out; o++) {
        t.outside[o] = fill_row(how, a, in, out, o, t.taps, t.index + o * t.taps, t.weight + o * t.taps);
        t.any_outside |= t.outside[o];
    }
    return t;
}

// Is index[o] = o / divide, or o * times + first? How views say it.
static bool regular(const Table *t, int64_t *divide, int64_t *times, int64_t *first) {
    if (t->taps != 1 || t->out == 0) return false;
    *divide = *times = 1, *first = t->index[0];
    int64_t step = t->out > 1 ? t->index[1] - *first : 1;
    if (step > 0) *times = step;
    while (step == 0 && *divide < t->out && t->index[*divide] == *first) ++*divide;
    for (int64_t o = 0; o < t->out; o++)
        if (t->index[o] != o / *divide * *times + *first) return false;
    return *divide == 1 || *first == 0;
}

// ---- axes -------------------------------------------------------------------------------------------

static Node *view_axis(Graph *g, Node *x, int axis, Ix out, int64_t divide, int64_t times, int64_t first) {
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (int d = 0; d < x->rank; d++) shape[d] = d == axis ? out : x->shape[d];
    for (int d = 0; d < x->rank; d++) coord[d] = ix_axis(g, d, shape[d]);
    coord[axis] = ix_addi(g, ix_muli(g, ix_divi(g, coord[axis], divide), times), first);
    return g_view(g, x, x->rank, shape, coord, NULL, g_int(0));
}

// n numbers as a value that broadcasts along an axis of something of that rank; [out, taps] if taps > 0: two axes.
static Node *weights(Graph *g, const double *w, int64_t out, int taps, int stride, int axis, int rank, Elem elem) {
    int64_t shape[2] = {out, taps}, n = out * (taps > 0 ? taps : 1);
    char *data = NEW_N(g->arena, char, n * 8 + 1);
    for (int64_t i = 0; i < n; i++) g_num_store(data + i * elem_bytes(elem), elem, g_float(w[i * stride]));
    uint32_t mine = taps > 0 ? 3u << axis : 1u << axis, all = (1u << (taps > 0 ? rank + 1 : rank)) - 1;
    return g_unsqueeze(g, g_const(g, elem, taps > 0 ? 2 : 1, shape, data), all & ~mine);
}

static Node *apply_table(Graph *g, Node *x, int axis, const Table *t) {
    int64_t divide, times, first;
    Elem elem = (Elem)x->elem;
    if (regular(t, &divide, &times, &first)) return view_axis(g, x, axis, ix(g, t->out), divide, times, first);
    if (t->taps > 4) {
        Node *at = g_const(g, EL_i64, 2, (int64_t[]){t->out, t->taps}, t->index), *near = g_gather_axis(g, x, at, axis);
        return g_reduce(g, GR_sum,
                        g_ew2(g, EW_mul, near, weights(g, t->weight, t->out, t->taps, 1, axis, x->rank, elem)),
                        1u << (axis + 1), false);
    }
    Node *sum = NULL;
    int64_t *column = NEW_N(g->arena, int64_t, t->out + 1);
    for (int k = 0; k < t->taps; k++) {
        for (int64_t o = 0; o < t->out; o++) column[o] = t->index[o * t->taps + k];
        Node *v = g_gather_axis(g, x, g_vec_i64(g, (int)t->out, column), axis);
        if (t->taps > 1) v = g_ew2(g, EW_mul, v, weights(g, t->weight + k, t->out, 0, t->taps, axis, x->rank, elem));
        sum = sum != NULL ? g_ew2(g, EW_add, sum, v) : v;
    }
    return sum;
}

// An axis whose size is not a number: whole factors, of which a sample shows that they are regular.
static Node *resize_symbolic(Op *op, Node *x, int axis, const How *how, const Axis *a, bool *done) {
    enum { SAMPLE = 24 };
    double factor = a->scale >= 1 ? a->scale : 1 / a->scale;
    *done = false;
    if (isnan(a->scale) || how->mode != NEAREST || how->place == TF_CROP || how->place == ALIGN_CORNERS || factor != floor(factor) ||
        factor > 64)
        return x;
    int64_t f = (int64_t)factor, in = a->scale >= 1 ? SAMPLE : SAMPLE * f, out = a->scale >= 1 ? SAMPLE * f : SAMPLE,
            divide, times, first;
    Table t = table_of(op->g->arena, how, a, in, out);
    if (!regular(&t, &divide, &times, &first)) return x;
    *done = true;
    return view_axis(op->g, x, axis, a->out, divide, times, first);
}

static Node *quotient(Graph *g, Node *a, Node *b) {               // of f32, as it is rounded everywhere
    return g_cast(g, g_ew2(g, EW_div, g_cast(g, a, EL_f64), g_cast(g, b, EL_f64)), EL_f32);
}

static Node *size_as_float(Graph *g, Ix size) { return g_cast(g, g_size(g, EL_i64, size), EL_f32); }

// place_of, of all elements: f32[out].
static Node *places_of(Graph *g, const How *how, const Axis *a) {
    Node *o = g_cast(g, g_iota(g, EL_i64, 1, &a->out, 0), EL_f32), *n = size_as_float(g, a->in), *out = size_as_float(g, a->out);
    Node *scale = isnan(a->scale) ? quotient(g, out, n) : g_f(g, EL_f32, (double)(float)a->scale);
    Node *width = isnan(a->scale) ? out : g_ew2(g, EW_mul, scale, n), *last = g_ew2f(g, EW_sub, width, 1);
    Node *half = quotient(g, g_ew2f(g, EW_add, o, 0.5), scale), *x = g_ew2f(g, EW_sub, half, 0.5);
    switch (how->place) {
    case ALIGN_CORNERS:
        x = quotient(g, g_ew2(g, EW_mul, o, g_ew2f(g, EW_sub, n, 1)), last);
        return g_where(g, g_ew2(g, EW_eq, last, g_f(g, EL_f32, 0)), g_f(g, EL_f32, 0), x);
    case ASYMMETRIC:         return quotient(g, o, scale);
    case TF_HALF_PIXEL:      return half;
    case PYTORCH_HALF_PIXEL: return g_where(g, g_ew2(g, EW_eq, out, g_f(g, EL_f32, 1)), g_f(g, EL_f32, 0), x);
    case HALF_PIXEL_SYMMETRIC: {
        Node *rest = g_ew2(g, EW_sub, g_f(g, EL_f32, 1), quotient(g, out, width));
        return g_ew2f(g, EW_sub, g_ew2(g, EW_add, g_ew2(g, EW_mul, g_ew2f(g, EW_mul, n, 0.5), rest), half), 0.5);
    }
    default: return x;
    }
}

static Node *nearest_to(Graph *g, Nearest how, Node *x) {
    if (how == FLOOR) return g_ew1(g, EW_floor, x);
    if (how == CEIL) return g_ew1(g, EW_ceil, x);
    return how == PREFER_FLOOR ? g_ew1(g, EW_ceil, g_ew2f(g, EW_sub, x, 0.5)) : g_ew1(g, EW_floor, g_ew2f(g, EW_add, x, 0.5));
}

// cubic, of d >= 0.
static Node *cubic_of(Graph *g, Node *d, double a) {
    Node *near = g_ew2f(g, EW_mul, d, a + 2), *far = g_ew2f(g, EW_mul, d, a);
    near = g_ew2(g, EW_mul, g_ew2(g, EW_mul, g_ew2f(g, EW_sub, near, a + 3), d), d);
    far = g_ew2(g, EW_mul, g_ew2f(g, EW_sub, g_ew2(g, EW_mul, g_ew2f(g, EW_add, far, -5 * a), d), -8 * a), d);
    near = g_ew2f(g, EW_add, near, 1), far = g_ew2f(g, EW_add, far, -4 * a);
    Node *beyond = g_where(g, g_ew2(g, EW_lt, d, g_f(g, EL_f32, 2)), far, g_f(g, EL_f32, 0));
    return g_where(g, g_ew2(g, EW_le, d, g_f(g, EL_f32, 1)), near, beyond);
}

// x at places at[out] of an axis, which are in range.
static Node *picked(Graph *g, Node *x, int axis, Node *at, Ix out) {
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (int d = 0; d < x->rank; d++) shape[d] = d == axis ? out : x->shape[d];
    for (int d = 0; d < x->rank; d++) coord[d] = d == axis ? NULL : ix_axis(g, d, shape[d]);
    Node *full = g_broadcast_to(g, at, x->rank, shape, &axis);
    return g_gather(g, x, x->rank, shape, coord, &full, 1, false, g_int(0));
}

// An axis whose sizes are names: its table, computed.
static Node *resize_computed(Op *op, Node *x, int axis, const How *how, const Axis *a) {
    Graph *g = op->g;
    int taps = how->mode == NEAREST ? 1 : how->mode == LINEAR ? 2 : 4;
    Node *place = g_kept(g, places_of(g, how, a), EL_f32), *zero = g_i(g, EL_i64, 0), *last = g_ew2f(g, EW_sub, g_size(g, EL_i64, a->in), 1);
    Node *left = how->mode == NEAREST ? NULL : g_ew2f(g, EW_sub, g_ew1(g, EW_ceil, place), 1), *sum = NULL, *all = NULL, *at[4], *weight[4] = {0};
    for (int k = 0; k < taps; k++) {
        int off = 1 - taps / 2 + k;
        Node *tap = left == NULL ? nearest_to(g, how->nearest, place) : off == 0 ? left : g_ew2f(g, EW_add, left, off);
        at[k] = g_cast(g, tap, EL_i64);
        if (left == NULL) continue;
        Node *d = g_ew1(g, EW_abs, g_ew2(g, EW_sub, tap, place));
        weight[k] = how->mode == CUBIC ? cubic_of(g, d, how->cubic_a) : g_ew2(g, EW_max, g_ew2(g, EW_sub, g_f(g, EL_f32, 1), d), g_f(g, EL_f32, 0));
        Node *out = how->exclude_outside ? g_ew2(g, EW_or, g_ew2(g, EW_lt, at[k], zero), g_ew2(g, EW_gt, at[k], last)) : NULL;
        if (out != NULL) weight[k] = g_where(g, out, g_f(g, EL_f32, 0), weight[k]);
        all = all != NULL ? g_ew2(g, EW_add, all, weight[k]) : weight[k];
    }
    for (int k = 0; k < taps; k++) {
        Node *y = picked(g, x, axis, g_ew2(g, EW_min, g_ew2(g, EW_max, at[k], zero), last), a->out);
        if (left != NULL && how->exclude_outside) weight[k] = g_ew2(g, EW_div, weight[k], all);
        if (left != NULL && y != NULL) y = g_ew2(g, EW_mul, y, g_unsqueeze(g, g_cast(g, weight[k], (Elem)y->elem), ((1u << x->rank) - 1) & ~(1u << axis)));
        sum = sum != NULL ? g_ew2(g, EW_add, sum, y) : y;
    }
    return sum;
}

static bool can_be_computed(const How *how, const Axis *a) {
    return how->place != TF_CROP && !(how->antialias && (isnan(a->scale) || a->scale < 1)) && (isnan(a->scale) || (a->scale > 0 && a->scale < 0x1p30));
}

static Node *resize(Op *op, Node *x, const How *how, const Axis *axes) {
    Graph *g = op->g;
    enum { LONGEST = 1 << 22 };
    Elem elem = (Elem)x->elem, wide = how->mode == NEAREST ? elem : elem == EL_f64 ? EL_f64 : EL_f32;
    Node *y = g_cast(g, x, wide), *outside = NULL;
    int rank = x->rank;
    for (int d = 0; d < rank && y != NULL; d++) {
        const Axis *a = &axes[d];
        int64_t in, out;
        bool done;
        if (!a->changes) continue;
        if (!ix_is_const(a->in)) {
            y = resize_symbolic(op, y, d, how, a, &done);
            if (done) continue;
        }
        if ((!ix_is_const(a->in) || !ix_is_const(a->out)) && can_be_computed(how, a)) {
            y = resize_computed(op, y, d, how, a);
            continue;
        }
        if (!op_fixed(op, a->in, &in) || !op_fixed(op, a->out, &out)) return NULL;
        if (out < 0 || out > LONGEST || (in == 0 && out > 0))
            return op_error(op, "cannot resize axis %d from %lld to %lld", d, (long long)in, (long long)out);
        if (!(a->scale > 0) || a->scale > 0x1p30 || tap_count(how, a->scale) > 1 << 12)
            return op_error(op, "its scale of axis %d is %g", d, a->scale);
        Table t = table_of(g->arena, how, a, in, out);
        y = apply_table(g, y, d, &t);
        if (!t.any_outside || y == NULL) continue;
        Node *mask = g_const(g, EL_bool, 1, &out, t.outside);
        mask = g_unsqueeze(g, mask, ((1u << rank) - 1) & ~(1u << d));
        outside = outside != NULL ? g_ew2(g, EW_or, outside, mask) : mask;
    }
    if (outside != NULL && y != NULL) y = g_where(g, outside, g_f(g, (Elem)y->elem, how->extrapolation), y);
    return g_cast(g, y, elem);
}

// ---- what a node asks for ---------------------------------------------------------------------------

static int choice(Op *op, const char *name, const char *otherwise, const char *const *names, int n) {
    const char *text = op_text(op, name, otherwise);
    for (int i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0) return i;
    op_error(op, "attribute `%s` is `%s`", name, text);
    return -1;
}

static bool read_how(Op *op, How *how) {
    bool old = op->version < 11;                                // Upsample, and Resize of opset 10
    const char *mode = op_text(op, "mode", "nearest");
    int place = choice(op, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel", place_names, PLACES);
    int nearest = choice(op, "nearest_mode", old ? "floor" : "round_prefer_floor", nearest_names, NEARESTS);
    if (place < 0 || nearest < 0) return false;
    *how = (How){strcmp(mode, "nearest") == 0 ? NEAREST
                 : strcmp(mode, "cubic") == 0 ? CUBIC
                                              : LINEAR,
                 (Place)place,
                 (Nearest)nearest,
                 op_int(op, "antialias", 0) != 0,
                 op_int(op, "exclude_outside", 0) != 0,
                 op_float(op, "cubic_coeff_a", -0.75),
                 op_float(op, "extrapolation_value", 0)};
    if (how->mode == LINEAR && strcmp(mode, "linear") != 0 && strcmp(mode, "bilinear") != 0)
        return op_error(op, "attribute `mode` must be nearest, linear or cubic"), false;
    if (how->mode == NEAREST) how->antialias = how->exclude_outside = false;
    return g_failed(op->g) == NULL;
}

static Ix scaled(Op *op, Ix in, double scale, int d) {
    enum { PARTS = 64 };
    int64_t size;
    if (!(scale > 0 && scale < 1e6)) return op_error(op, "its scale of axis %d is %g", d, scale);
    if (!ix_is_const(in) && scale >= 1 && scale == floor(scale))
        return ix_muli(op->g, in, f64_to_int_sat(scale, 64, true));
    if (!ix_is_const(in) && 1 / scale == floor(1 / scale)) return ix_divi(op->g, in, f64_to_int_sat(1 / scale, 64, true));
    if (!ix_is_const(in) && scale * PARTS == floor(scale * PARTS))        // 1.5, 0.75: no float rounds there
        return ix_divi(op->g, ix_muli(op->g, in, (int64_t)(scale * PARTS)), PARTS);
    if (!op_fixed(op, in, &size)) return NULL;
    float out = (float)size * (float)scale;                  // scales are f32: 22 * 0.4090909 is 9 there, less in f64
    return ix(op->g, f64_to_int_sat(fmin(floor((double)out), 0x1p40), 64, true));
}

// The factor between two sizes: of symbolic ones if it is whole, else NAN, or, `bound`, of what they are bound to.
static bool factor_of(Op *op, Ix in, Ix out, bool bound, double *scale) {
    int64_t a, b;
    Ix up = ix_divide_exact(op->g, out, in), down = up == NULL ? ix_divide_exact(op->g, in, out) : NULL;
    if (!ix_is_const(in) && ix_const(up, &b)) return *scale = (double)b, true;
    if (!ix_is_const(in) && ix_const(down, &a) && a > 0) return *scale = 1 / (double)a, true;
    if (!bound && (!ix_is_const(in) || !ix_is_const(out))) return *scale = NAN, true;
    if (!op_fixed(op, in, &a) || !op_fixed(op, out, &b)) return false;
    *scale = a > 0 ? (double)b / (double)a : 1;
    return true;
}

// One scale for all: the smallest (nothing larger than asked for) or the largest.
static bool keep_aspect(Op *op, Axis *axes, const int *which, int n, bool larger) {
    double scale = axes[which[0]].scale;
    for (int i = 1; i < n; i++) scale = larger ? fmax(scale, axes[which[i]].scale) : fmin(scale, axes[which[i]].scale);
    for (int i = 0; i < n; i++) {
        int64_t in;
        Axis *a = &axes[which[i]];
        if (!op_fixed(op, a->in, &in)) return false;
        a->scale = scale;
        a->out = ix(op->g, (int64_t)fmin(floor((double)in * scale + 0.5), 0x1p40));
    }
    return true;
}

static bool read_sizes(Op *op, const How *how, Axis *axes, const int *which, int n, int at) {
    int count = 0;
    const Ix *sizes = op_known(op, at, &count);
    if (sizes == NULL) return false;
    if (count != n) return op_error(op, "has %d sizes for %d axes", count, n), false;
    bool bound = how->antialias || how->place == TF_CROP || !op_is(op, "keep_aspect_ratio_policy", "stretch", "stretch");
    for (int i = 0; i < n; i++) {
        Axis *a = &axes[which[i]];
        a->out = sizes[i];
        if (!factor_of(op, a->in, a->out, bound, &a->scale)) return false;
    }
    if (op_is(op, "keep_aspect_ratio_policy", "stretch", "stretch") || n == 0) return true;
    bool larger = op_is(op, "keep_aspect_ratio_policy", "stretch", "not_smaller");
    if (!larger && !op_is(op, "keep_aspect_ratio_policy", "stretch", "not_larger"))
        return op_error(op, "attribute `keep_aspect_ratio_policy` must be stretch, not_larger or not_smaller"), false;
    return keep_aspect(op, axes, which, n, larger);
}

static bool use_scales(Op *op, Axis *axes, const int *which, int n, const double *scales, int count) {
    if (count != n) return op_error(op, "has %d scales for %d axes", count, n), false;
    for (int i = 0; i < n; i++) {
        Axis *a = &axes[which[i]];
        a->scale = scales[i];
        a->out = scales[i] == 1 ? a->in : scaled(op, a->in, scales[i], which[i]);
        if (a->out == NULL) return false;
    }
    return true;
}

// Scales that are quotients of sizes, in / out: what they make of the axes is a size. NULL: they are numbers.
static double *factors(Op *op, Axis *axes, const int *which, int n, const GRatio *by, int count) {
    Graph *g = op->g;
    bool named = false;
    for (int i = 0; i < count; i++) named |= !ix_is_const(by[i].num) || !ix_is_const(by[i].den);
    if (!named) return NULL;
    double *scales = NEW_N(g->arena, double, n + 1);
    if (count != n) return op_error(op, "has %d scales for %d axes", count, n), scales;
    for (int i = 0; i < n; i++) {
        Axis *a = &axes[which[i]];
        a->out = ix_div(g, ix_mul(g, a->in, by[i].num), by[i].den);
        if (a->out == NULL || !factor_of(op, a->in, a->out, false, &a->scale)) return scales;
    }
    return scales;
}

static bool read_roi(Op *op, Axis *axes, const int *which, int n) {
    int count = 0;
    const double *roi = op_known_floats(op, 1, &count);
    if (roi == NULL) return false;
    if (count != 2 * n) return op_error(op, "its region has %d numbers for %d axes", count, n), false;
    for (int i = 0; i < n; i++) axes[which[i]].roi[0] = roi[i], axes[which[i]].roi[1] = roi[n + i];
    return true;
}

static bool is_given(const Node *n) { return n != NULL && !(n->rank == 1 && ix_is(n->shape[0], 0)); }

static Node *lower_resize(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    How how;
    Axis axes[G_MAX_RANK];
    int which[G_MAX_RANK], n = 0, count = 0, scales_at = op->version < 11 ? 1 : 2;
    if (x == NULL || !read_how(op, &how)) return NULL;
    const int64_t *chosen = op_ints(op, "axes", &n);
    if (chosen == NULL) n = x->rank;
    if (n > x->rank) return op_error(op, "attribute `axes` has %d axes, its input %d dimensions", n, x->rank);
    for (int d = 0; d < x->rank; d++) axes[d] = (Axis){x->shape[d], x->shape[d], 1, {0, 1}, false};
    for (int i = 0; i < n; i++)
        if ((which[i] = chosen != NULL ? g_axis(g, x, chosen[i]) : i) < 0) return NULL;
    if (how.place == TF_CROP && (op_in(op, 1) == NULL || !read_roi(op, axes, which, n))) return NULL;
    if (is_given(op_opt(op, 3))) {
        if (!read_sizes(op, &how, axes, which, n, 3)) return NULL;
    } else if (op->version < 7) {
        double scales[4] = {1, 1, op_float(op, "height_scale", 0), op_float(op, "width_scale", 0)};
        if (!op_rank(op, x, 4, "its image") || !use_scales(op, axes, which, n, scales, 4)) return NULL;
    } else if (op->version < 9) {
        const float *attribute = op_floats(op, "scales", &count);
        double scales[G_MAX_RANK];
        if (attribute == NULL || count > G_MAX_RANK)
            return op_error(op, "attribute `scales` should have one number for each axis");
        for (int i = 0; i < count; i++) scales[i] = (double)attribute[i];
        if (!use_scales(op, axes, which, n, scales, count)) return NULL;
    } else {
        const GRatio *ratios = g_known_ratios(g, op_in(op, scales_at), &count);
        double *by_sizes = ratios != NULL ? factors(op, axes, which, n, ratios, count) : NULL;
        const double *scales = by_sizes != NULL ? by_sizes : op_known_floats(op, scales_at, &count);
        if (by_sizes != NULL) {
            if (g_failed(g) != NULL) return NULL;
        } else if (scales == NULL || !use_scales(op, axes, which, n, scales, count)) return NULL;
    }
    for (int i = 0; i < n; i++) {
        Axis *a = &axes[which[i]];
        a->changes = a->scale != 1 || a->in != a->out || how.place == TF_CROP || how.place == TF_HALF_PIXEL;
    }
    return g_failed(g) != NULL ? NULL : resize(op, x, &how, axes);
}

// The middle of x, cut or padded with zeros to a shape: of an odd difference the larger half is at the end.
static Node *lower_center(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int n = 0, naxes = 0;
    const Ix *shape = op_known(op, 1, &n);
    const int64_t *chosen = op_ints(op, "axes", &naxes);
    if (x == NULL || shape == NULL) return NULL;
    if (n != (chosen != NULL ? naxes : x->rank))
        return op_error(op, "has %d sizes for %d axes", n, chosen != NULL ? naxes : x->rank);
    for (int i = 0; i < n && x != NULL; i++) {
        int d = chosen != NULL ? g_axis(g, x, chosen[i]) : i;
        if (d < 0) return NULL;
        Ix before[G_MAX_RANK], after[G_MAX_RANK], zero = ix(g, 0), more = ix_sub(g, shape[i], x->shape[d]);
        for (int k = 0; k < x->rank; k++) before[k] = after[k] = zero;
        Ix pad = ix_divi(g, ix_max(g, more, zero), 2), cut = ix_divi(g, ix_max(g, ix_muli(g, more, -1), zero), 2);
        before[d] = ix_sub(g, pad, cut);
        after[d] = ix_sub(g, more, before[d]);
        x = g_pad(g, x, before, after, GP_constant, g_int(0));
    }
    return x;
}

const OpRow ops_resize[] = {
    OP("Resize", 10, lower_resize), OP("Upsample", 1, lower_resize), OP("CenterCropPad", 18, lower_center),
    {0},
};

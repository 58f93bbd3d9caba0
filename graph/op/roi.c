// Pooling over regions of an image, which are values: RoiAlign, MaxRoiPool.
#include "graph/op/sample.h"

#include <math.h>

// Column c of x [R, n], as a value [R, 1, 1, .. ] of the rank.
static Node *column(Graph *g, Node *x, int c, int rank) {
    Node *v = g_squeeze(g, g_take_range(g, x, 1, ix(g, c), 1, ix(g, 1)), 2);
    return g_unsqueeze(g, v, ((1u << rank) - 1) & ~1u);
}

typedef struct Align {
    double scale, offset;
    int64_t pooled[2], samples;        // height, width
    bool max;
} Align;

// ---- RoiAlign with as many samples in a bin as the region is large -----------------------------------
// How many is known only when the regions are: an operation on whole tensors.

typedef struct Corner { int64_t low, high; float w; bool out; } Corner;

static Corner corner(float at, int64_t size) {
    Corner c = {.out = at < -1 || at > (float)size};
    at = at > 0 ? at : 0;
    c.low = c.out ? 0 : (int64_t)at;
    if (c.low > size - 1) c.low = size - 1;
    c.high = c.low + 1 < size ? c.low + 1 : c.low;
    c.w = c.high > c.low ? at - (float)c.low : 0;
    return c;
}

static float pooled_bin(const Align *a, const float *image, const int64_t *size, const float *start, const float *bin,
                        const int64_t *grid) {
    float sum = 0;
    bool any = false;
    for (int64_t y = 0; y < grid[0]; y++)
        for (int64_t x = 0; x < grid[1]; x++) {
            Corner v = corner(start[0] + ((float)y + 0.5f) * bin[0] / (float)grid[0], size[0]);
            Corner h = corner(start[1] + ((float)x + 0.5f) * bin[1] / (float)grid[1], size[1]);
            float zero = v.out || h.out ? 0 : 1;
            const float *top = image + v.low * size[1], *low = image + v.high * size[1];
            float at[4] = {(1 - v.w) * (1 - h.w) * top[h.low], (1 - v.w) * h.w * top[h.high],
                           v.w * (1 - h.w) * low[h.low], v.w * h.w * low[h.high]};
            float value =
                zero * (a->max ? fmaxf(fmaxf(at[0], at[1]), fmaxf(at[2], at[3])) : at[0] + at[1] + at[2] + at[3]);
            sum = !a->max ? sum + value : any ? fmaxf(sum, value) : value;
            any = true;
        }
    int64_t count = grid[0] * grid[1];
    return a->max || count == 0 ? sum : sum / (float)count;
}

static bool run_roi_align(const void *attr, const GTensor *in, int nin, GTensor *out, int nout, char *error,
                          size_t error_size) {
    const Align *a = attr;
    const float *x = in[0].data, *rois = in[1].data;
    const int64_t *batch = in[2].data, *size = in[0].shape + 2;
    int64_t channels = in[0].shape[1], regions = in[2].shape[0];
    (void)nin, (void)nout;
    int64_t dims[4] = {regions, channels, a->pooled[0], a->pooled[1]};
    for (int d = 0; d < 4; d++) out->shape[d] = dims[d];
    if (!g_tensor_alloc(out)) return snprintf(error, error_size, "no memory"), false;
    float *y = out->data;
    for (int64_t r = 0; r < regions; r++) {
        float start[2], bin[2];
        int64_t grid[2];
        if (batch[r] < 0 || batch[r] >= in[0].shape[0])
            return snprintf(error, error_size, "region %lld is of image %lld", (long long)r, (long long)batch[r]),
                   false;
        for (int i = 0; i < 2; i++) {
            start[i] = rois[r * 4 + 1 - i] * (float)a->scale - (float)a->offset;
            float extent = rois[r * 4 + 3 - i] * (float)a->scale - (float)a->offset - start[i];
            if (a->offset == 0 && !(extent >= 1)) extent = 1;
            bin[i] = extent / (float)a->pooled[i];
            if (!(bin[i] < 1e6f)) return snprintf(error, error_size, "region %lld is too large", (long long)r), false;
            grid[i] = bin[i] > 0 ? (int64_t)ceilf(bin[i]) : 0;
        }
        for (int64_t c = 0; c < channels; c++)
            for (int64_t ph = 0; ph < a->pooled[0]; ph++)
                for (int64_t pw = 0; pw < a->pooled[1]; pw++) {
                    float at[2] = {start[0] + (float)ph * bin[0], start[1] + (float)pw * bin[1]};
                    *y++ = pooled_bin(a, x + (batch[r] * channels + c) * size[0] * size[1], size, at, bin, grid);
                }
    }
    return true;
}

static const GHostOp host_roi_align = {"roi_align", run_roi_align};

// ---- with a fixed number of samples -----------------------------------------------------------------

// sampled [R, C, PH, S, PW, S], of which S and S go.
static Node *align_fixed(Op *op, Node *x, Node *rois, Node *batch, const Align *a) {
    Graph *g = op->g;
    Ix S = ix(g, a->samples), shape[6] = {rois->shape[0], x->shape[1], ix(g, a->pooled[0]), S, ix(g, a->pooled[1]), S};
    Taps taps[2];
    Node *ok = NULL;
    for (int i = 0; i < 2; i++) {
        Node *start = g_ew2f(g, EW_sub, g_ew2f(g, EW_mul, column(g, rois, 1 - i, 6), a->scale), a->offset);
        Node *end = g_ew2f(g, EW_sub, g_ew2f(g, EW_mul, column(g, rois, 3 - i, 6), a->scale), a->offset);
        Node *extent = g_ew2(g, EW_sub, end, start);
        if (a->offset == 0) extent = g_ew2f(g, EW_max, extent, 1);
        Node *bin = g_ew2f(g, EW_div, extent, (double)a->pooled[i]);
        Ix one = ix(g, 1), grid[6] = {one, one, one, one, one, one};
        grid[2 + 2 * i] = shape[2 + 2 * i], grid[3 + 2 * i] = S;
        Node *p = g_cast(g, g_iota(g, EL_i64, 6, grid, 2 + 2 * i), EL_f32),
             *s = g_cast(g, g_iota(g, EL_i64, 6, grid, 3 + 2 * i), EL_f32);
        Node *within = g_ew2f(g, EW_div, g_ew2f(g, EW_add, s, 0.5), (double)a->samples);
        Node *at = g_ew2(g, EW_add, start, g_ew2(g, EW_mul, g_ew2(g, EW_add, p, within), bin));
        Node *fits = g_ew2(g, EW_and, g_ew2f(g, EW_ge, at, -1), g_ew2(g, EW_le, at, g_size(g, EL_f32, x->shape[2 + i])));
        ok = ok != NULL ? g_ew2(g, EW_and, ok, fits) : fits;
        if (!op_taps_linear(op, at, x->shape[2 + i], true, &taps[i])) return NULL;
    }
    Ix coord[2] = {NULL, ix_axis(g, 1, shape[1])};
    Node *image = g_unsqueeze(g, g_cast(g, batch, EL_i64), 0x3e);
    Node *read = op_read_taps(op, x, 2, taps, 6, shape, coord, image, a->max ? EW_max : EW_add);
    read = g_where(g, ok, read, g_f(g, EL_f32, 0));
    uint32_t sampled = 1u << 3 | 1u << 5;
    return a->max ? g_reduce(g, GR_max, read, sampled, false) : g_mean(g, read, sampled, false);
}

static Node *lower_roi_align(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *rois = op_in(op, 1), *batch = op_in(op, 2);
    if (x == NULL || rois == NULL || batch == NULL) return NULL;
    if (x->rank != 4 || rois->rank != 2 || batch->rank != 1)
        return op_error(op, "needs an image, a list of regions and a list of their images");
    bool half = op->version >= 16 && op_is(op, "coordinate_transformation_mode", "half_pixel", "half_pixel");
    bool max = op_is(op, "mode", "avg", "max");
    if (!max && !op_is(op, "mode", "avg", "avg")) return op_error(op, "attribute `mode` must be avg or max");
    Align a = {op_float(op, "spatial_scale", 1),
               half ? 0.5 : 0,
               {op_int(op, "output_height", 1), op_int(op, "output_width", 1)},
               op_int(op, "sampling_ratio", 0),
               max};
    for (int i = 0; i < 2; i++)
        if (a.pooled[i] < 1 || a.pooled[i] > 1 << 16)
            return op_error(op, "its output would have the size %lld", (long long)a.pooled[i]);
    if (a.samples < 0 || a.samples > 1 << 12)
        return op_error(op, "attribute `sampling_ratio` is %lld", (long long)a.samples);
    g_require(g, rois->shape[1], ix(g, 4));
    g_require(g, rois->shape[0], batch->shape[0]);
    Elem elem = (Elem)x->elem;
    Node *wide = g_cast(g, x, EL_f32), *places = g_cast(g, rois, EL_f32), *image = g_cast(g, batch, EL_i64), *y;
    if (a.samples > 0) {
        y = align_fixed(op, wide, places, image, &a);
    } else {
        GType type = {EL_f32, 4, (Ix[]){rois->shape[0], x->shape[1], ix(g, a.pooled[0]), ix(g, a.pooled[1])}};
        y = g_proj(g, g_host(g, &host_roi_align, &a, sizeof a, (Node *[]){wide, places, image}, 3, &type, 1), 0);
    }
    return g_cast(g, y, elem);
}

// ---- MaxRoiPool -------------------------------------------------------------------------------------

// The rows (or columns) [from, to) of bin p of each region: R x P, whole numbers as floats.
static void bins(Graph *g, Node *rois, int axis, double scale, int64_t pooled, Ix size, Node **from, Node **to) {
    Node *edge[2];
    for (int e = 0; e < 2; e++)
        edge[e] =
            g_ew1(g, EW_floor, g_ew2f(g, EW_add, g_ew2f(g, EW_mul, column(g, rois, 2 - axis + 2 * e, 2), scale), 0.5));
    Node *extent = g_ew2f(g, EW_max, g_ew2f(g, EW_add, g_ew2(g, EW_sub, edge[1], edge[0]), 1), 1);
    Node *bin = g_ew2f(g, EW_div, extent, (double)pooled), *limit = g_size(g, EL_f32, size);
    Node *p = g_cast(g, g_iota(g, EL_i64, 2, (Ix[]){ix(g, 1), ix(g, pooled)}, 1), EL_f32);
    Node *first = g_ew2(g, EW_add, g_ew1(g, EW_floor, g_ew2(g, EW_mul, p, bin)), edge[0]);
    Node *last = g_ew2(g, EW_add, g_ew1(g, EW_ceil, g_ew2(g, EW_mul, g_ew2f(g, EW_add, p, 1), bin)), edge[0]);
    *from = g_ew2(g, EW_min, g_ew2f(g, EW_max, first, 0), limit);
    *to = g_ew2(g, EW_min, g_ew2f(g, EW_max, last, 0), limit);
}

// The largest of each bin: over columns first, then over rows, of an image whose rest is masked.
static Node *lower_max_roi_pool(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *rois = op_in(op, 1);
    int n = 0;
    const int64_t *pooled = op_ints(op, "pooled_shape", &n);
    if (x == NULL || rois == NULL) return NULL;
    if (x->rank != 4 || rois->rank != 2) return op_error(op, "needs an image and a list of regions");
    if (pooled == NULL || n != 2 || pooled[0] < 1 || pooled[1] < 1 || pooled[0] > 1 << 16 || pooled[1] > 1 << 16)
        return op_error(op, "attribute `pooled_shape` should be two sizes");
    g_require(g, rois->shape[1], ix(g, 5));
    Elem elem = (Elem)x->elem, wide = elem == EL_f64 ? EL_f64 : EL_f32;
    Node *places = g_cast(g, rois, EL_f32), *least = g_f(g, wide, -INFINITY);
    Node *batch = g_cast(g, g_squeeze(g, g_take_range(g, places, 1, ix(g, 0), 1, ix(g, 1)), 2), EL_i64);
    Node *at = g_gather_axis(g, g_cast(g, x, wide), batch, 0), *empty = NULL;      // [R, C, H, W]
    for (int axis = 1; axis >= 0 && at != NULL; axis--) {
        Node *from, *to;
        bins(g, places, axis, op_float(op, "spatial_scale", 1), pooled[axis], x->shape[2 + axis], &from, &to);
        uint32_t at_p = axis == 1 ? 1u << 1 | 1u << 2 : 1u << 1 | 1u << 3; // [R, P] as [R, 1, 1, P] or [R, 1, P, 1]
        Node *none = g_unsqueeze(g, g_ew2(g, EW_le, to, from), at_p);
        empty = empty != NULL ? g_ew2(g, EW_or, empty, none) : none;
        // columns: [R, C, H, P, W]; rows: [R, C, P, H, PW]
        uint32_t inner = axis == 1 ? 0x16 : 0x1a;
        Node *i = g_cast(g, g_iota(g, EL_i64, 1, &x->shape[2 + axis], 0), EL_f32);
        i = g_unsqueeze(g, i, axis == 1 ? 0xf : 0x17);
        Node *in = g_ew2(g, EW_and, g_ew2(g, EW_ge, i, g_unsqueeze(g, from, inner)),
                         g_ew2(g, EW_lt, i, g_unsqueeze(g, to, inner)));
        at = g_reduce(g, GR_max, g_where(g, in, g_unsqueeze(g, at, axis == 1 ? 1u << 3 : 1u << 2), least),
                      axis == 1 ? 1u << 4 : 1u << 3, false);
    }
    return g_cast(g, g_where(g, empty, g_f(g, wide, 0), at), elem);
}

const OpRow ops_roi[] = {
    OP("RoiAlign", 10, lower_roi_align), OP("MaxRoiPool", 1, lower_max_roi_pool),
    {0},
};

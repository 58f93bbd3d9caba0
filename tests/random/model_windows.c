// Random models: convolutions, transposed ones and pools, with pads, strides, dilations and groups.
#include "tests/random/model_draw.h"

#include <stdio.h>

typedef struct Window {
    int n;
    int64_t kernel[2], stride[2], dilation[2], pad[4];
} Window; // pads: begins, then ends

static void draw_window(Model *m, int n, int most_kernel, Window *w) {
    static const int kernels[] = {1, 2, 3, 3, 3, 5, 7}, strides[] = {1, 1, 1, 2, 2, 3},
                     dilations[] = {1, 1, 1, 2, 3};
    *w = (Window){.n = n};
    bool plain = chance(&m->d, 40);
    for (int i = 0; i < n; i++) {
        w->kernel[i] = PICK(&m->d, kernels);
        if (w->kernel[i] > most_kernel) w->kernel[i] = most_kernel;
        w->stride[i] = plain ? 1 : PICK(&m->d, strides), w->dilation[i] = plain ? 1 : PICK(&m->d, dilations);
        w->pad[i] = (int64_t)roll(&m->d, (uint32_t)w->kernel[i]),
        w->pad[i + n] = plain ? w->pad[i] : (int64_t)roll(&m->d, (uint32_t)w->kernel[i]);
    }
}

static void put_list(Model *m, const char *name, const int64_t *v, int n) {
    model_put(m, " %s=[", name);
    for (int i = 0; i < n; i++) model_put(m, i ? ",%lld" : "%lld", (long long)v[i]);
    model_put(m, "]");
}

static void put_window(Model *m, const Window *w, bool dilated) {
    put_list(m, "strides", w->stride, w->n), put_list(m, "pads", w->pad, 2 * w->n);
    if (dilated) put_list(m, "dilations", w->dilation, w->n);
}

// The sizes behind it; false: nothing is left, in one of the runs.
static bool slid(const Model *m, const Window *w, bool up, const Value *x, Value *y) {
    for (int i = 0; i < w->n; i++)
        for (int r = 0; r < RUNS; r++) {
            int64_t left =
                x->dim[2 + i].at[r] + w->pad[i] + w->pad[i + w->n] - w->dilation[i] * (w->kernel[i] - 1) - 1;
            if (left < 0 && r < m->runs) return false;
            int64_t n = left / w->stride[i] + 1;
            if (up && left % w->stride[i] && n * w->stride[i] < x->dim[2 + i].at[r] + w->pad[i])
                n++; // no window behind the end
            y->dim[2 + i].at[r] = n;
            if (y->dim[2 + i].name) y->dim[2 + i].name = '?';
        }
    return true;
}

// A value as [n, channels, ..]: rank 3 or 4, or a matrix as one picture.
static int picture(Model *m, Value *x) {
    int a = pick(m, 3, 4);
    if (a < 0 && (a = pick(m, 2, 2)) < 0) return -1;
    *x = m->value[a];
    if (x->rank == 2) {
        int t = m->names++, axis = (int)roll(&m->d, 2);
        model_put(m, "Unsqueeze %s w%d -> u%d\n", x->name, const_ints(m, 1, (int64_t[]){axis}), t);
        x->rank = 3, x->dim[2] = x->dim[1];
        if (axis == 0) x->dim[1] = x->dim[0], x->dim[0] = dim_of(1);
        else x->dim[1] = dim_of(1);
        snprintf(x->name, sizeof x->name, "u%d", t);
    }
    return a;
}

// Groups of few channels are products with zeros between them, which carry infinities from one to the other:
// none, where there are some.
static int64_t draw_groups(Model *m, int64_t channels) {
    static const int groups[] = {2, 3, 4, 8, 1000};
    int64_t g = PICK(&m->d, groups);
    if (m->special || chance(&m->d, 60) || (g < 1000 && channels % g)) return 1;
    return g == 1000 ? channels : g;
}

// In an exact model of a narrow type, the sum may be rounded before the bias is added.
static bool with_bias(Model *m) { return chance(&m->d, 60) && !(m->native && m->exact); }

static bool conv(Model *m) {
    static const int each[] = {1, 2, 3, 4, 5, 8}, whole[] = {1, 3, 4, 7, 8, 12, 16, 17, 32, 33};
    Value x;
    if (picture(m, &x) < 0 || !dim_known(x.dim[1])) return false;
    Window w;
    draw_window(m, x.rank - 2, 5, &w);
    int64_t c = x.dim[1].at[0], g = draw_groups(m, c), per = g > 1 ? PICK(&m->d, each) : 0,
            o = g > 1 ? g * per : PICK(&m->d, whole);
    int64_t taps = w.kernel[0] * (w.n > 1 ? w.kernel[1] : 1), shape[4] = {o, c / g, w.kernel[0], w.kernel[1]};
    Value y = x;
    if (o * (c / g) * taps > weights_limit(m) || !slid(m, &w, false, &x, &y)) return false;
    double sum, shift = 0;
    int k = const_weights(m, x.rank, shape, c / g * taps, &sum),
        b = with_bias(m) ? const_weights(m, 1, &o, 1, &shift) : -1;
    y.dim[1] = dim_of(o);
    y.most = x.most * sum + shift;
    if (b >= 0 && y.grain > 0) y.grain = 0;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "Conv %s w%d", x.name, k);
    if (b >= 0) model_put(m, " w%d", b);
    model_put(m, " -> %s", m->value[v].name);
    put_window(m, &w, true);
    model_put(m, " group=%lld\n", (long long)g);
    model_settle(m, v);
    return true;
}

static bool conv_transpose(Model *m) {
    static const int each[] = {1, 2, 3, 5, 8, 16, 17};
    Value x;
    if (picture(m, &x) < 0 || !dim_known(x.dim[1])) return false;
    Window w;
    draw_window(m, x.rank - 2, 5, &w);
    if (m->special) w.stride[0] = w.stride[1] = 1; // each phase has zeros for what only another one reads
    int64_t c = x.dim[1].at[0], g = draw_groups(m, c), per = PICK(&m->d, each), o = g * per, extra[2] = {0};
    int64_t taps = w.kernel[0] * (w.n > 1 ? w.kernel[1] : 1), shape[4] = {c, per, w.kernel[0], w.kernel[1]};
    Value y = x;
    if (c * per * taps > weights_limit(m)) return false;
    for (int i = 0; i < w.n; i++) {
        if (w.stride[i] > 1 && chance(&m->d, 40)) extra[i] = 1;
        for (int r = 0; r < RUNS; r++)
            y.dim[2 + i].at[r] = w.stride[i] * (x.dim[2 + i].at[r] - 1) + extra[i] +
                                 w.dilation[i] * (w.kernel[i] - 1) + 1 - w.pad[i] - w.pad[i + w.n];
        if (y.dim[2 + i].name) y.dim[2 + i].name = '?';
    }
    double sum, shift = 0;
    int k = const_weights(m, x.rank, shape, c / g * taps, &sum),
        b = with_bias(m) ? const_weights(m, 1, &o, 1, &shift) : -1;
    y.dim[1] = dim_of(o);
    y.most = x.most * sum + shift;
    if (b >= 0 && y.grain > 0) y.grain = 0;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "ConvTranspose %s w%d", x.name, k);
    if (b >= 0) model_put(m, " w%d", b);
    model_put(m, " -> %s", m->value[v].name);
    put_window(m, &w, true);
    if (extra[0] || extra[1]) put_list(m, "output_padding", extra, w.n);
    model_put(m, " group=%lld\n", (long long)g);
    model_settle(m, v);
    return true;
}

static bool max_pool(Model *m) {
    Value x;
    if (picture(m, &x) < 0) return false;
    Window w;
    draw_window(m, x.rank - 2, 5, &w);
    Value y = x;
    bool up = chance(&m->d, 25);
    for (int i = 0; i < w.n; i++)
        if (w.kernel[i] > 1 && w.dilation[i] > 1) w.pad[i] = w.pad[i + w.n] = 0; // no window of pads alone
    if (!slid(m, &w, up, &x, &y)) return false;
    for (int i = 0; i < w.n; i++)
        if (w.pad[i] >= x.dim[2 + i].at[0] || w.pad[i + w.n] >= dim_least(m, x.dim[2 + i])) return false;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "MaxPool %s -> %s", x.name, m->value[v].name);
    put_list(m, "kernel_shape", w.kernel, w.n);
    put_window(m, &w, true);
    model_put(m, " ceil_mode=%d\n", up);
    return true;
}

static bool average_pool(Model *m) {
    Value x;
    if (picture(m, &x) < 0) return false;
    Window w;
    draw_window(m, x.rank - 2, m->exact ? 2 : 5, &w);
    Value y = x;
    bool up = !m->exact && chance(&m->d, 20);
    for (int i = 0; i < w.n; i++) {
        w.dilation[i] = 1;
        if (m->exact && w.kernel[i] == 2) y.grain--;
        if (w.pad[i] >= x.dim[2 + i].at[0] || w.pad[i + w.n] >= dim_least(m, x.dim[2 + i])) return false;
    }
    if (!slid(m, &w, up, &x, &y)) return false;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "AveragePool %s -> %s", x.name, m->value[v].name);
    put_list(m, "kernel_shape", w.kernel, w.n);
    put_window(m, &w, false);
    model_put(m, " ceil_mode=%d count_include_pad=%d\n", up, m->exact || chance(&m->d, 50));
    model_settle(m, v);
    return true;
}

static bool global_pool(Model *m) {
    int a = pick(m, 3, 4);
    if (a < 0) return false;
    bool most = m->exact || chance(&m->d, 40);
    Value x = m->value[a], y = x;
    for (int i = 2; i < x.rank; i++) y.dim[i] = dim_of(1);
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "%s %s -> %s\n", most ? "GlobalMaxPool" : "GlobalAveragePool", x.name, m->value[v].name);
    return true;
}

// Pixels enlarged: each twice, or three times.
static bool enlarged(Model *m) {
    int a = pick(m, 3, 4), k = 2 + (int)roll(&m->d, 2);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    for (int i = 2; i < x.rank; i++) {
        for (int r = 0; r < RUNS; r++) y.dim[i].at[r] *= k;
        if (y.dim[i].name) y.dim[i].name = '?';
    }
    int v = value_add(m, &y);
    if (v < 0) return false;
    buf_printf(&m->head, "const scales%d f32 %d : 1 1%s %d\n", m->consts, x.rank,
               x.rank == 4 ? (k == 2 ? " 2" : " 3") : "", k);
    model_put(m,
              "Resize %s _ scales%d -> %s mode=\"nearest\" coordinate_transformation_mode=\"asymmetric\" "
              "nearest_mode=\"floor\"\n",
              x.name, m->consts++, m->value[v].name);
    return true;
}

const StepRow window_steps[] = {
    {conv, 8, 8, 0},
    {conv_transpose, 4, 4, 0},
    {max_pool, 2, 2, 0},
    {average_pool, 1, 2, 0},
    {global_pool, 1, 1, 0},
    {enlarged, 1, 1, 0},
    {0},
};

// Random models: what networks are made of, several operators each: gated layers, residuals under a norm,
// channels weighed by their mean, rotary embeddings, keys and values that are shared by heads or come after
// those of a cache.
#include "tests/random/model_draw.h"

#include <math.h>
#include <stdio.h>

static int weights_of(Model *m, int64_t rows, int64_t columns) {
    double sum;
    return const_weights(m, 2, (int64_t[]){rows, columns}, rows, &sum);
}

// act(x a) * (x b) c, the two as one product's halves or apart.
static bool gated(Model *m) {
    static const int64_t widths[] = {1, 8, 16, 24, 33, 64};
    int a = pick(m, 2, 3), t = m->names++;
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int64_t c = x.dim[x.rank - 1].at[0], h = PICK(&m->d, widths), out = chance(&m->d, 50) ? c : draw_size(m);
    if (!dim_known(x.dim[x.rank - 1]) || c * h > weights_limit(m) || h * out > weights_limit(m) ||
        x.most > 30 || x.most < 1e-2)
        return false;
    y.dim[y.rank - 1] = dim_of(out), y.most = x.most * x.most + 1;
    int v = value_add(m, &y);
    if (v < 0) return false;
    if (chance(&m->d, 50)) {
        model_put(m, "MatMul %s w%d -> ga%d\n", x.name, weights_of(m, c, 2 * h), t);
        model_put(m, "Split ga%d w%d -> gb%d gc%d axis=-1\n", t, const_ints(m, 2, (int64_t[]){h, h}), t, t);
    } else {
        model_put(m, "MatMul %s w%d -> gb%d\n", x.name, weights_of(m, c, h), t);
        model_put(m, "MatMul %s w%d -> gc%d\n", x.name, weights_of(m, c, h), t);
    }
    switch (roll(&m->d, 4)) {
    case 0: model_put(m, "Sigmoid gb%d -> gd%d\nMul gb%d gd%d -> ge%d\n", t, t, t, t, t); break;
    case 1: model_put(m, "Sigmoid gb%d -> ge%d\n", t, t); break;
    case 2: model_put(m, "Relu gb%d -> ge%d\n", t, t); break;
    default: // GELU by its formula
        model_put(m, "Div gb%d w%d -> gf%d\nErf gf%d -> gg%d\n", t, const_scalar(m, 1.41421356), t, t, t);
        model_put(m, "Add gg%d w%d -> gh%d\nMul gb%d gh%d -> gi%d\n", t, const_scalar(m, 1), t, t, t, t);
        model_put(m, "Mul gi%d w%d -> ge%d\n", t, const_scalar(m, 0.5), t);
    }
    model_put(m, "Mul ge%d gc%d -> gj%d\n", t, t, t);
    model_put(m, "MatMul gj%d w%d -> %s\n", t, weights_of(m, h, out), m->value[v].name);
    return true;
}

// x + x a b, and a norm of it; the sum is read again.
static bool residual(Model *m) {
    int a = pick(m, 2, 3), t = m->names++;
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int64_t c = x.dim[x.rank - 1].at[0], h = draw_size(m);
    if (!dim_known(x.dim[x.rank - 1]) || c * h > weights_limit(m) || x.most > 100 || x.most < 1e-2)
        return false;
    double sum;
    y.most = 2 * x.most;
    int s = value_add(m, &y), v = value_add(m, &y), w = const_weights(m, 1, &c, 1, &sum),
        b = const_weights(m, 1, &c, 1, &sum);
    if (v < 0) return false;
    model_put(m, "MatMul %s w%d -> ra%d\n%s ra%d -> rb%d\n", x.name, weights_of(m, c, h), t,
              chance(&m->d, 50) ? "Relu" : "Tanh", t, t);
    model_put(m, "MatMul rb%d w%d -> rc%d\nAdd %s rc%d -> %s\n", t, weights_of(m, h, c), t, x.name, t,
              m->value[s].name);
    model_put(m, "LayerNormalization %s w%d w%d -> %s axis=-1\n", m->value[s].name, w, b, m->value[v].name);
    m->value[v].most = 3;
    return true;
}

// Channels times a number each, which follows from their means.
static bool weighed(Model *m) {
    int a = pick(m, 4, 4), t = m->names++;
    if (a < 0) return false;
    Value x = m->value[a];
    int64_t c = x.dim[1].at[0], h = 1 + (int64_t)roll(&m->d, 8);
    if (!dim_known(x.dim[1]) || x.most > 1e3 || x.most < 1e-2) return false;
    int v = value_add(m, &x);
    if (v < 0) return false;
    double sum;
    int w = const_weights(m, 4, (int64_t[]){h, c, 1, 1}, c, &sum),
        u = const_weights(m, 4, (int64_t[]){c, h, 1, 1}, h, &sum);
    model_put(m, "GlobalAveragePool %s -> sa%d\nConv sa%d w%d -> sb%d\nRelu sb%d -> sc%d\n", x.name, t, t, w,
              t, t, t);
    model_put(m, "Conv sc%d w%d -> sd%d\n%s sd%d -> se%d\nMul %s se%d -> %s\n", t, u, t,
              chance(&m->d, 50) ? "Sigmoid" : "HardSigmoid", t, t, x.name, t, m->value[v].name);
    return true;
}

// ---- attention of decoders
// ------------------------------------------------------------------------------------------

typedef struct Decoder {
    int64_t heads, shared, size, width;
    const char *x;
    int t;
} Decoder; // shared: heads of keys

// [1, s, c] -> [1, heads, s, size]
static void heads_of(Model *m, const Decoder *d, int64_t heads, char what) {
    model_put(m, "MatMul %s w%d -> %ca%d\n", d->x, weights_of(m, d->width, heads * d->size), what, d->t);
    model_put(m, "Reshape %ca%d w%d -> %cb%d\n", what, d->t,
              const_ints(m, 4, (int64_t[]){0, 0, heads, d->size}), what, d->t);
    model_put(m, "Transpose %cb%d -> %cc%d perm=[0,2,1,3]\n", what, d->t, what, d->t);
}

// Pairs turned by the angles of their positions: halves of a head.
static void rotated(Model *m, const Decoder *d, int64_t length, char what) {
    int64_t h = d->size / 2;
    int id[2];
    for (int k = 0; k < 2; k++) {
        id[k] = m->consts++;
        buf_printf(&m->head, "const w%d f32 %lld %lld :", id[k], (long long)length, (long long)d->size);
        for (int64_t i = 0; i < length * d->size; i++) {
            double angle = (double)(i / d->size) * pow(100, -(double)(i % d->size % h) / (double)h);
            buf_printf(&m->head, " %.9g", k ? sin(angle) : cos(angle));
        }
        buf_puts(&m->head, "\n");
    }
    model_put(m, "Split %cc%d w%d -> %cl%d %ch%d axis=-1\n", what, d->t, const_ints(m, 2, (int64_t[]){h, h}),
              what, d->t, what, d->t);
    model_put(m, "Neg %ch%d -> %cn%d\nConcat %cn%d %cl%d -> %cr%d axis=-1\n", what, d->t, what, d->t, what,
              d->t, what, d->t, what, d->t);
    model_put(m, "Mul %cc%d w%d -> %cx%d\nMul %cr%d w%d -> %cy%d\n", what, d->t, id[0], what, d->t, what,
              d->t, id[1], what, d->t);
    model_put(m, "Add %cx%d %cy%d -> %cz%d\n", what, d->t, what, d->t, what, d->t);
}

// Keys or values: behind those of a cache, and once for each head that shares them. The name's letter is what
// comes out.
static char gathered(Model *m, const Decoder *d, char what, char at, int64_t past) {
    double sum;
    if (past) {
        int w = const_weights(m, 4, (int64_t[]){1, d->shared, past, d->size}, 1, &sum);
        model_put(m, "Concat w%d %c%c%d -> %cp%d axis=2\n", w, what, at, d->t, what, d->t);
        at = 'p';
    }
    if (d->shared == d->heads) return at;
    model_put(m, "Unsqueeze %c%c%d w%d -> %cu%d\n", what, at, d->t, const_ints(m, 1, (int64_t[]){2}), what,
              d->t);
    model_put(m, "Expand %cu%d w%d -> %cv%d\n", what, d->t,
              const_ints(m, 5, (int64_t[]){1, 1, d->heads / d->shared, 1, 1}), what, d->t);
    model_put(m, "Reshape %cv%d w%d -> %cw%d\n", what, d->t,
              const_ints(m, 4, (int64_t[]){0, d->heads, -1, d->size}), what, d->t);
    return 'w';
}

static bool decoder(Model *m) {
    static const int64_t counts[] = {1, 2, 4, 6}, head_sizes[] = {2, 6, 8, 16, 20, 32, 64};
    int a = pick(m, 3, 3);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    Decoder d = {.heads = PICK(&m->d, counts),
                 .size = PICK(&m->d, head_sizes),
                 .width = x.dim[2].at[0],
                 .x = x.name,
                 .t = m->names++};
    d.shared = chance(&m->d, 50) ? d.heads : d.heads % 2 == 0 ? d.heads / 2 : 1;
    int64_t s = x.dim[1].at[0], past = chance(&m->d, 40) ? 1 + (int64_t)roll(&m->d, 20) : 0, most = s;
    for (int r = 0; r < m->runs; r++) most = x.dim[1].at[r] > most ? x.dim[1].at[r] : most;
    while (d.heads * d.size * d.width > weights_limit(m) && d.size > 2)
        d.size = d.size / 4 * 2 > 2 ? d.size / 4 * 2 : 2;
    if (!dim_known(x.dim[2]) || d.heads * d.size * d.width > weights_limit(m) || x.most > 10 ||
        x.dim[0].at[0] * d.heads * most * (most + past) > 20000)
        return false;
    if (past && !(dim_known(x.dim[0]) && x.dim[0].at[0] == 1)) return false;
    bool turns = dim_known(x.dim[1]) && s * d.size < 1500 && chance(&m->d, 50);
    y.dim[2] = dim_of(d.heads * d.size);
    int v = value_add(m, &y), t = d.t;
    if (v < 0) return false;
    heads_of(m, &d, d.heads, 'q'), heads_of(m, &d, d.shared, 'k'), heads_of(m, &d, d.shared, 'v');
    if (turns) rotated(m, &d, s, 'q'), rotated(m, &d, s, 'k');
    char q = turns ? 'z' : 'c', k = gathered(m, &d, 'k', q, past), u = gathered(m, &d, 'v', 'c', past);
    model_put(m, "Transpose k%c%d -> kt%d perm=[0,1,3,2]\nMatMul q%c%d kt%d -> s%d\n", k, t, t, q, t, t, t);
    model_put(m, "Mul s%d w%d -> ss%d\nSoftmax ss%d -> sm%d axis=-1\nMatMul sm%d v%c%d -> o%d\n", t,
              const_scalar(m, 1 / sqrt((double)d.size)), t, t, t, t, u, t, t);
    model_put(m, "Transpose o%d -> ot%d perm=[0,2,1,3]\n", t, t);
    model_put(m, "Reshape ot%d w%d -> %s\n", t, const_ints(m, 3, (int64_t[]){0, 0, d.heads * d.size}),
              m->value[v].name);
    return true;
}

const StepRow block_steps[] = {
    {gated, 0, 4, 0}, {residual, 0, 4, 0}, {weighed, 0, 2, 0}, {decoder, 0, 5, 0}, {0}};

// Random models: softmax and norms, as operators and written out.
#include "tests/random/model_draw.h"

#include <stdio.h>

static bool softmax(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0 || m->value[a].most > 1e4) return false;
    Value y = m->value[a];
    y.most = 1;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "%s %s -> %s axis=%d\n", chance(&m->d, 85) ? "Softmax" : "LogSoftmax", m->value[a].name,
              m->value[v].name, chance(&m->d, 70) ? -1 : (int)roll(&m->d, (uint32_t)y.rank));
    return true;
}

static int vector_of(Model *m, int64_t n) {
    double sum;
    return const_weights(m, 1, &n, 1, &sum);
}

static bool layer_norm(Model *m) {
    int a = pick(m, 2, 4);
    if (a < 0) return false;
    Value y = m->value[a];
    Dim c = y.dim[y.rank - 1];
    if (!dim_known(c) || y.most > 1e4 || y.most < 1e-2) return false;
    y.most = 3;
    int v = value_add(m, &y);
    if (v < 0) return false;
    if (m->opset >= 23 && chance(&m->d, 40))
        model_put(m, "RMSNormalization %s w%d -> %s axis=-1\n", m->value[a].name, vector_of(m, c.at[0]),
                  m->value[v].name);
    else {
        int w = vector_of(m, c.at[0]), b = chance(&m->d, 60) ? vector_of(m, c.at[0]) : -1;
        model_put(m, "LayerNormalization %s w%d", m->value[a].name, w);
        if (b >= 0) model_put(m, " w%d", b);
        model_put(m, " -> %s axis=-1\n", m->value[v].name);
    }
    return true;
}

// x / sqrt(mean(x * x) + eps), and about the mean.
static bool written(Model *m) {
    int a = pick(m, 2, 4), t = m->names++;
    if (a < 0 || m->value[a].most > (m->dtype == EL_f16 ? 50 : 1e4) || m->value[a].most < 1e-2) return false;
    Value y = m->value[a];
    y.most = 3;
    int v = value_add(m, &y), axis = y.rank - 1,
        ax = m->opset >= 18 ? const_ints(m, 1, (int64_t[]){axis}) : -1;
    if (v < 0) return false;
    const char *of = m->value[a].name;
    char mean[48], from[24];
    if (ax >= 0) snprintf(mean, sizeof mean, "keepdims=1");
    else snprintf(mean, sizeof mean, "keepdims=1 axes=[%d]", axis);
    char input[24] = "";
    if (ax >= 0) snprintf(input, sizeof input, " w%d", ax);
    if (chance(&m->d, 50)) {
        model_put(m, "ReduceMean %s%s -> ma%d %s\nSub %s ma%d -> mb%d\n", of, input, t, mean, of, t, t);
        snprintf(from, sizeof from, "mb%d", t);
    } else snprintf(from, sizeof from, "%s", of);
    if (chance(&m->d, 50)) model_put(m, "Mul %s %s -> mc%d\n", from, from, t);
    else model_put(m, "Pow %s w%d -> mc%d\n", from, const_scalar(m, 2), t);
    model_put(m, "ReduceMean mc%d%s -> md%d %s\nAdd md%d w%d -> me%d\nSqrt me%d -> mf%d\n", t, input, t, mean,
              t, const_scalar(m, 1e-3), t, t, t);
    if (chance(&m->d, 50)) model_put(m, "Div %s mf%d -> %s\n", from, t, m->value[v].name);
    else model_put(m, "Reciprocal mf%d -> mg%d\nMul %s mg%d -> %s\n", t, t, from, t, m->value[v].name);
    return true;
}

// Of [n, channels, ..]: batch, instance or group norm.
static bool of_channels(Model *m) {
    int a = pick(m, 3, 4), how = (int)roll(&m->d, 3);
    if (a < 0) return false;
    Value y = m->value[a];
    int64_t c = y.dim[1].at[0];
    if (!dim_known(y.dim[1]) || y.most > 1e3 || y.most < 1e-2 || (how == 2 && m->opset < 18)) return false;
    int64_t groups = c % 3 == 0 ? 3 : c % 2 == 0 ? 2 : 1;
    y.most *= how ? 2 : 4;
    int v = value_add(m, &y), w = vector_of(m, how == 2 && m->opset < 21 ? groups : c),
        b = vector_of(m, how == 2 && m->opset < 21 ? groups : c);
    if (v < 0) return false;
    const char *of = m->value[a].name, *to = m->value[v].name;
    if (how == 1) model_put(m, "InstanceNormalization %s w%d w%d -> %s\n", of, w, b, to);
    else if (how == 2)
        model_put(m, "GroupNormalization %s w%d w%d -> %s num_groups=%lld\n", of, w, b, to,
                  (long long)groups);
    else {
        int mean = vector_of(m, c), id = m->consts++;
        buf_printf(&m->head, "const w%d f32 %lld :", id, (long long)c);
        for (int64_t i = 0; i < c; i++) buf_printf(&m->head, " %.9g", (1 + (int)roll(&m->d, 64)) / 16.0);
        buf_puts(&m->head, "\n");
        model_put(m, "BatchNormalization %s w%d w%d w%d w%d -> %s\n", of, w, b, mean, id, to);
    }
    return true;
}

const StepRow norm_steps[] = {
    {softmax, 0, 4, 2}, {layer_norm, 0, 5, 2}, {written, 0, 3, 1}, {of_channels, 0, 4, 0}, {0}};

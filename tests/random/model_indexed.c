// Random models: values read and written where numbers say, constant ones and computed ones; triangles; depth
// and space.
#include "tests/random/model_draw.h"

#include <math.h>
#include <stdio.h>

// Numbers of an axis, some from the end, as a constant of the shape of `of`.
static int indices_like(Model *m, const Value *of, int64_t size) {
    int id = m->consts++;
    buf_printf(&m->head, "const w%d i64", id);
    for (int i = 0; i < of->rank; i++) buf_printf(&m->head, " %lld", (long long)of->dim[i].at[0]);
    buf_puts(&m->head, " :");
    for (int64_t i = 0; i < count_of(of, 0); i++)
        buf_printf(&m->head, " %lld",
                   (long long)roll(&m->d, (uint32_t)size) - (chance(&m->d, 20) ? size : 0));
    buf_puts(&m->head, "\n");
    return id;
}

static bool all_known(const Value *v) {
    for (int i = 0; i < v->rank; i++)
        if (!dim_known(v->dim[i])) return false;
    return true;
}

static bool gather_elements(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0 || !all_known(&m->value[a])) return false;
    Value x = m->value[a], y = x;
    int axis = (int)roll(&m->d, (uint32_t)x.rank);
    int64_t size = x.dim[axis].at[0];
    y.dim[axis] = dim_of(1 + (int64_t)roll(&m->d, 6));
    if (count_of(&y, 0) > 3000) return false;
    int v = value_add(m, &y);
    if (v < 0) return false;
    int w = indices_like(m, &y, size);
    model_put(m, "GatherElements %s w%d -> %s axis=%d\n", x.name, w, m->value[v].name, axis);
    return true;
}

// Rows of another value of the shape over those of a value, or added to them: no row twice where the order
// would matter.
static bool scatter_rows(Model *m) {
    static const char *const hows[] = {"none", "add", "max"};
    int a = pick(m, 1, 4), how = (int)roll(&m->d, m->exact ? 3 : 1);
    if (a < 0) return false;
    Value x = m->value[a];
    int b = pick_like(m, &x);
    int64_t size = x.dim[0].at[0], n = 1 + (int64_t)roll(&m->d, 4), ids[4];
    if (b < 0 || !dim_known(x.dim[0]) || size < 4 || m->native) return false;
    for (int i = 0; i < n; i++) ids[i] = how ? (int64_t)roll(&m->d, (uint32_t)size) : (i + 1) * size / 5;
    Value y = x;
    y.most = m->value[b].most > x.most ? m->value[b].most : x.most;
    if (how == 1) y.most = x.most + (double)n * m->value[b].most;
    y.grain = m->value[b].grain < x.grain ? m->value[b].grain : x.grain;
    int v = value_add(m, &y), t = m->names++;
    if (v < 0) return false;
    int at = const_ints(m, (int)n, ids), one = const_ints(m, 1, (int64_t[]){1});
    int from = const_ints(m, 1, (int64_t[]){0}), to = const_ints(m, 1, (int64_t[]){n});
    model_put(m, "Slice %s w%d w%d -> u%d\nUnsqueeze w%d w%d -> i%d\n", m->value[b].name, from, to, t, at,
              one, t);
    model_put(m, "ScatterND %s i%d u%d -> %s", x.name, t, t, m->value[v].name);
    if (how && m->opset >= 18) model_put(m, " reduction=\"%s\"", hows[how]);
    else if (how == 1) model_put(m, " reduction=\"add\"");
    model_put(m, "\n");
    model_settle(m, v);
    return true;
}

// Rows by numbers that are computed: elements of a value, brought between 0 and the last.
static bool gather_computed(Model *m) {
    int a = pick(m, 1, 3), b = pick(m, 1, 2), t = m->names++;
    if (a < 0 || b < 0 || !m->exact || m->special) return false;
    Value x = m->value[a], ids = m->value[b], y = x;
    int64_t last = dim_least(m, x.dim[0]) - 1;
    if (x.rank + ids.rank - 1 > 4) return false;
    for (int i = 0; i < ids.rank; i++) y.dim[i] = ids.dim[i];
    for (int i = 1; i < x.rank; i++) y.dim[ids.rank + i - 1] = x.dim[i];
    y.rank = x.rank + ids.rank - 1;
    int v = value_add(m, &y);
    if (v < 0) return false;
    int lo = const_scalar(m, 0), hi = const_scalar(m, (double)(last < 100 ? last : 100));
    model_put(m, "Floor %s -> fl%d\nClip fl%d w%d w%d -> ci%d\n", ids.name, t, t, lo, hi, t);
    model_put(m, "Cast ci%d -> id%d to=7\nGather %s id%d -> %s axis=0\n", t, t, x.name, t, m->value[v].name);
    return true;
}

static bool triangle(Model *m) {
    int a = pick(m, 2, 4);
    if (a < 0) return false;
    Value x = m->value[a];
    int v = value_add(m, &x);
    if (v < 0) return false;
    int k = const_int(m, (int)roll(&m->d, 5) - 2);
    model_put(m, "Trilu %s w%d -> %s upper=%d\n", x.name, k, m->value[v].name, (int)roll(&m->d, 2));
    return true;
}

static bool depth_to_space(Model *m) {
    int a = pick(m, 4, 4);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int64_t c = x.dim[1].at[0], h = x.dim[2].at[0], w = x.dim[3].at[0];
    if (!dim_known(x.dim[1]) || !dim_known(x.dim[2]) || !dim_known(x.dim[3])) return false;
    bool up = c % 4 == 0;
    if (!up && (h % 2 || w % 2)) return false;
    y.dim[1] = dim_of(up ? c / 4 : c * 4);
    y.dim[2] = dim_of(up ? h * 2 : h / 2), y.dim[3] = dim_of(up ? w * 2 : w / 2);
    int v = value_add(m, &y);
    if (v < 0) return false;
    if (!up) model_put(m, "SpaceToDepth %s -> %s blocksize=2\n", x.name, m->value[v].name);
    else
        model_put(m, "DepthToSpace %s -> %s blocksize=2 mode=\"%s\"\n", x.name, m->value[v].name,
                  chance(&m->d, 50) ? "DCR" : "CRD");
    return true;
}

const StepRow indexed_steps[] = {
    {gather_elements, 2, 1, 0}, {scatter_rows, 3, 2, 0},   {gather_computed, 3, 0, 0},
    {triangle, 1, 1, 1},        {depth_to_space, 2, 2, 0}, {0},
};

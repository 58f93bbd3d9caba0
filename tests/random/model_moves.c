// Random models: values moved, taken apart, put together, sorted and gathered.
#include "tests/random/model_draw.h"

#include <stdio.h>

static bool transpose(Model *m) {
    int a = pick(m, 2, 5), perm[RANK];
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    for (int i = 0; i < x.rank; i++) perm[i] = i;
    for (int i = x.rank - 1; i > 0; i--) {
        int j = (int)roll(&m->d, (uint32_t)i + 1), t = perm[i];
        perm[i] = perm[j], perm[j] = t;
    }
    for (int i = 0; i < x.rank; i++) y.dim[i] = x.dim[perm[i]];
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "Transpose %s -> %s perm=[", x.name, m->value[v].name);
    for (int i = 0; i < x.rank; i++) model_put(m, i ? ",%d" : "%d", perm[i]);
    model_put(m, "]\n");
    return true;
}

// Neighbouring axes as one, or one as two.
static bool reshape(Model *m) {
    int a = pick(m, 2, 4);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int64_t to[RANK] = {0};
    int at = (int)roll(&m->d, (uint32_t)x.rank);
    if (chance(&m->d, 50) && at + 1 < x.rank) {
        for (int r = 0; r < RUNS; r++) y.dim[at].at[r] = x.dim[at].at[r] * x.dim[at + 1].at[r];
        y.dim[at].name = x.dim[at].name || x.dim[at + 1].name ? '?' : 0;
        for (int i = at + 1; i + 1 < x.rank; i++) y.dim[i] = x.dim[i + 1];
        y.rank--;
        for (int i = 0; i < y.rank; i++) to[i] = i < at ? 0 : i == at ? -1 : y.dim[i].at[0];
        for (int i = at + 1; i < y.rank; i++)
            if (!dim_known(y.dim[i])) return false;
    } else {
        int64_t n = x.dim[at].at[0], k = 2;
        while (k < n && n % k) k++;
        if (!dim_known(x.dim[at]) || k >= n) return false;
        for (int i = y.rank++; i > at + 1; i--) y.dim[i] = x.dim[i - 1];
        y.dim[at] = dim_of(k), y.dim[at + 1] = dim_of(n / k);
        int open = 0;
        for (int i = 0; i < y.rank; i++) {
            bool kept = i < at;
            to[i] = kept ? 0 : dim_known(y.dim[i]) ? y.dim[i].at[0] : -1;
            open += to[i] == -1;
        }
        if (open > 1) return false;
    }
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "Reshape %s w%d -> %s\n", x.name, const_ints(m, y.rank, to), m->value[v].name);
    return true;
}

static bool split(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0) return false;
    Value x = m->value[a], p = x, q = x;
    int axis = (int)roll(&m->d, (uint32_t)x.rank);
    int64_t n = x.dim[axis].at[0], k = n / 2;
    if (!dim_known(x.dim[axis]) || n < 2) return false;
    if (chance(&m->d, 60)) k = 1 + (int64_t)roll(&m->d, (uint32_t)n - 1);
    p.dim[axis] = dim_of(k), q.dim[axis] = dim_of(n - k);
    int y = value_add(m, &p), z = value_add(m, &q);
    if (z < 0) return false;
    model_put(m, "Split %s w%d -> %s %s axis=%d\n", x.name, const_ints(m, 2, (int64_t[]){k, n - k}),
              m->value[y].name, m->value[z].name, axis);
    return true;
}

// Two or three values of one shape, or one and what differs along the axis.
static bool concat(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0) return false;
    int b = pick_like(m, &m->value[a]);
    if (b < 0) b = a;
    Value x = m->value[a], w = m->value[b], y = x;
    int axis = (int)roll(&m->d, (uint32_t)x.rank);
    bool three = chance(&m->d, 20);
    y.dim[axis] = dim_add(x.dim[axis], w.dim[axis]);
    if (three) y.dim[axis] = dim_add(y.dim[axis], x.dim[axis]);
    y.most = x.most > w.most ? x.most : w.most;
    y.grain = x.grain < w.grain ? x.grain : w.grain;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "Concat %s %s %s -> %s axis=%d\n", x.name, w.name, three ? x.name : "", m->value[v].name,
              axis - (chance(&m->d, 30) ? x.rank : 0));
    model_settle(m, v);
    return true;
}

// From the front, the end, or every second; backwards.
static bool slice(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int axis = (int)roll(&m->d, (uint32_t)x.rank), how = (int)roll(&m->d, 4);
    int64_t n = dim_least(m, x.dim[axis]), k = n < 2 ? 0 : (int64_t)roll(&m->d, (uint32_t)n), big = 1 << 20;
    int64_t from[1] = {how == 0   ? k
                       : how == 1 ? 0
                       : how == 2 ? k
                                  : -1},
            to[1] = {how == 1   ? -k
                     : how == 3 ? -big
                                : big},
            step[1] = {how == 2   ? 2
                       : how == 3 ? -1
                                  : 1};
    if (how == 1 && k == 0) to[0] = big;
    for (int r = 0; r < RUNS; r++) {
        int64_t *to_size = &y.dim[axis].at[r], size = x.dim[axis].at[r];
        *to_size = how == 3 ? size : how == 2 ? (size - k + 1) / 2 : size - k;
    }
    if (y.dim[axis].name && (how == 2 || (k && how < 2))) y.dim[axis].name = '?';
    int v = value_add(m, &y);
    if (v < 0) return false;
    int f = const_ints(m, 1, from), t = const_ints(m, 1, to), ax = const_ints(m, 1, (int64_t[]){axis}),
        st = const_ints(m, 1, step);
    model_put(m, "Slice %s w%d w%d w%d w%d -> %s\n", x.name, f, t, ax, st, m->value[v].name);
    return true;
}

// By numbers that repeat and count from the end.
static bool gather(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int axis = (int)roll(&m->d, (uint32_t)x.rank), n = 1 + (int)roll(&m->d, 9);
    int64_t size = dim_least(m, x.dim[axis]), ids[9];
    for (int i = 0; i < n; i++)
        ids[i] =
            (int64_t)roll(&m->d, (uint32_t)size) - (dim_known(x.dim[axis]) && chance(&m->d, 30) ? size : 0);
    y.dim[axis] = dim_of(n);
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "Gather %s w%d -> %s axis=%d\n", x.name, const_ints(m, n, ids), m->value[v].name, axis);
    return true;
}

static bool pad(Model *m) {
    static const char *const modes[] = {"constant", "constant", "reflect", "edge"};
    int a = pick(m, 1, 4), how = (int)roll(&m->d, 4);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int64_t pads[2 * RANK] = {0};
    for (int i = 0; i < x.rank; i++)
        for (int e = 0; e < 2; e++) {
            int64_t least = dim_least(m, x.dim[i]), k = chance(&m->d, 40) ? (int64_t)roll(&m->d, 4) : 0;
            if (how == 2 && k >= least) k = least - 1;
            pads[i + e * x.rank] = k;
            for (int r = 0; r < RUNS; r++) y.dim[i].at[r] += k;
            if (k && y.dim[i].name) y.dim[i].name = '?';
        }
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "Pad %s w%d -> %s mode=\"%s\"\n", x.name, const_ints(m, 2 * x.rank, pads), m->value[v].name,
              modes[how]);
    return true;
}

static bool squeeze(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int axis = (int)roll(&m->d, (uint32_t)x.rank + 1);
    for (int i = 0; i < x.rank; i++)
        if (x.rank > 1 && dim_known(x.dim[i]) && x.dim[i].at[0] == 1) {
            for (int k = i; k + 1 < x.rank; k++) y.dim[k] = x.dim[k + 1];
            y.rank--;
            int v = value_add(m, &y);
            if (v < 0) return false;
            model_put(m, "Squeeze %s w%d -> %s\n", x.name, const_ints(m, 1, (int64_t[]){i}),
                      m->value[v].name);
            return true;
        }
    if (x.rank == 4) return false;
    for (int k = x.rank; k > axis; k--) y.dim[k] = x.dim[k - 1];
    y.dim[axis] = dim_of(1), y.rank++;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "Unsqueeze %s w%d -> %s\n", x.name, const_ints(m, 1, (int64_t[]){axis}), m->value[v].name);
    return true;
}

// An axis of one, again and again.
static bool expand(Model *m) {
    int a = pick(m, 2, 4);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    for (int i = 0; i < x.rank; i++) {
        if (!dim_known(x.dim[i]) || x.dim[i].at[0] != 1) continue;
        int64_t to[RANK];
        for (int k = 0; k < x.rank; k++) to[k] = 1;
        to[i] = 2 + (int64_t)roll(&m->d, 16);
        y.dim[i] = dim_of(to[i]);
        int v = value_add(m, &y);
        if (v < 0) return false;
        model_put(m, "%s %s w%d -> %s\n", chance(&m->d, 50) ? "Expand" : "Tile", x.name,
                  const_ints(m, x.rank, to), m->value[v].name);
        return true;
    }
    return false;
}

// The k largest or least along an axis; where each is, in an exact model.
static bool top_k(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int axis = (int)roll(&m->d, (uint32_t)x.rank);
    int64_t least = dim_least(m, x.dim[axis]),
            k = 1 + (int64_t)roll(&m->d, (uint32_t)(least < 12 ? least : 12));
    bool made_once = chance(&m->d, 10) && !m->body && dim_known(x.dim[axis]),
         where = m->exact && chance(&m->d, 50);
    int from = -1;
    for (int i = 0; i < x.rank; i++) made_once &= dim_known(x.dim[i]);
    if (made_once) {
        int64_t shape[RANK];
        double sum;
        for (int i = 0; i < x.rank; i++) shape[i] = x.dim[i].at[0];
        if (count_of(&x, 0) > 3000) return false;
        from = const_weights(m, x.rank, shape, 1, &sum);
        y.most = sum, y.grain = 0;
    }
    y.dim[axis] = dim_of(k);
    int v = value_add(m, &y);
    if (v < 0) return false;
    char source[16];
    if (from >= 0) snprintf(source, sizeof source, "w%d", from);
    model_put(m, "TopK %s w%d -> %s i%s axis=%d largest=%d\n", from >= 0 ? source : x.name,
              const_ints(m, 1, &k), m->value[v].name, m->value[v].name, axis, (int)roll(&m->d, 2));
    if (!where) return true;
    y.most = (double)x.dim[axis].at[0], y.grain = 0;
    for (int r = 0; r < m->runs; r++)
        y.most = x.dim[axis].at[r] > y.most ? (double)x.dim[axis].at[r] : y.most;
    int z = value_add(m, &y);
    if (z < 0) return true;
    model_put(m, "Cast i%s -> %s to=1\n", m->value[v].name, m->value[z].name);
    model_settle(m, z);
    return true;
}

const StepRow move_steps[] = {
    {transpose, 4, 4, 0},
    {reshape, 4, 4, 0},
    {split, 3, 3, 0},
    {concat, 4, 4, 0},
    {slice, 3, 3, 0},
    {gather, 2, 2, 0},
    {pad, 2, 2, 0},
    {squeeze, 2, 2, 0},
    {expand, 1, 1, 0},
    {top_k, 3, 2, 0},
    {0},
};

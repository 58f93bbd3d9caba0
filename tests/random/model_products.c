// Random models: products, with weights and of two values, their biases and scales; a recurrent cell.
#include "tests/random/model_draw.h"

#include <math.h>
#include <stdio.h>

static Value widened(const Value *x, int64_t columns, double sum) {
    Value y = *x;
    y.dim[y.rank - 1] = dim_of(columns);
    y.most = x->most * sum;
    return y;
}

static bool draw_bias(Model *m, int v, int64_t columns) {
    double unit;
    int w = const_weights(m, 1, &columns, 1, &unit), y = value_add(m, &m->value[v]);
    if (y < 0) return false;
    model_put(m, "Add %s w%d -> %s\n", m->value[v].name, w, m->value[y].name);
    m->value[y].most += unit;
    if (m->value[y].grain > 0) m->value[y].grain = 0;
    model_settle(m, y);
    return true;
}

// [.., k] with weights [k, c], or with some for each batch.
static bool with_weights(Model *m) {
    int a = pick(m, 2, 4);
    if (a < 0) return false;
    Value x = m->value[a];
    Dim k = x.dim[x.rank - 1];
    int64_t c = draw_size(m), shape[3] = {x.dim[0].at[0], k.at[0], c};
    if (!dim_known(k) || shape[1] * c > weights_limit(m)) return false;
    bool batched = !m->special && x.rank == 3 && dim_known(x.dim[0]) &&
                   shape[0] * shape[1] * c < weights_limit(m) && chance(&m->d, 15);
    double sum;
    int w =
        batched ? const_weights(m, 3, shape, k.at[0], &sum) : const_weights(m, 2, shape + 1, k.at[0], &sum);
    Value like = widened(&x, c, sum);
    int y = value_add(m, &like);
    if (y < 0) return false;
    model_put(m, "MatMul %s w%d -> %s\n", x.name, w, m->value[y].name);
    model_settle(m, y);
    if (chance(&m->d, 40)) draw_bias(m, y, c);
    return true;
}

static bool gemm(Model *m) {
    int a = pick(m, 2, 2);
    if (a < 0) return false;
    Value x = m->value[a];
    bool across = chance(&m->d, 25), turned = chance(&m->d, 50);
    Dim k = x.dim[across ? 0 : 1], rows = x.dim[across ? 1 : 0];
    double sum, shift = 0, alpha = m->exact ? (chance(&m->d, 50) ? 1 : 2) : (chance(&m->d, 60) ? 1 : 0.5);
    int64_t c = draw_size(m), shape[2] = {turned ? c : k.at[0], turned ? k.at[0] : c}, of[2] = {1, c};
    if (!dim_known(k) || k.at[0] * c > weights_limit(m)) return false;
    int w = const_weights(m, 2, shape, k.at[0], &sum), rank = m->native && m->exact ? 0 : (int)roll(&m->d, 3);
    int bias = rank ? const_weights(m, rank, rank == 1 ? &c : of, 1, &shift) : -1;
    Value like = widened(&x, c, sum * alpha);
    like.dim[0] = rows;
    like.most += shift;
    if (rank && like.grain > 0) like.grain = 0;
    int y = value_add(m, &like);
    if (y < 0) return false;
    model_put(m, "Gemm %s w%d", x.name, w);
    if (rank) model_put(m, " w%d", bias);
    model_put(m, " -> %s transA=%d transB=%d", m->value[y].name, across, turned);
    if (alpha != 1) model_put(m, " alpha=%.1f", alpha);
    model_put(m, "\n");
    model_settle(m, y);
    return true;
}

static void turned_last(Value *v) {
    Dim d = v->dim[v->rank - 1];
    v->dim[v->rank - 1] = v->dim[v->rank - 2], v->dim[v->rank - 2] = d;
}

static int transposed(Model *m, int a) {
    Value x = m->value[a];
    turned_last(&x);
    int t = value_add(m, &x);
    if (t < 0) return -1;
    static const char *const perms[] = {"1,0", "0,2,1", "0,1,3,2"};
    model_put(m, "Transpose %s -> %s perm=[%s]\n", m->value[a].name, m->value[t].name, perms[x.rank - 2]);
    return t;
}

// A value with another one of its shape, or with itself, turned.
static bool of_values(Model *m) {
    int a = pick(m, 2, 4);
    if (a < 0) return false;
    int b = pick_like(m, &m->value[a]);
    if (b < 0) b = a;
    bool left = chance(&m->d, 30);
    int t = transposed(m, left ? a : b);
    if (t < 0) return false;
    Value x = m->value[left ? t : a], z = m->value[left ? b : t], y = x;
    y.dim[y.rank - 1] = z.dim[z.rank - 1];
    y.grain = x.grain + z.grain;
    int64_t fan = 1;
    for (int r = 0; r < m->runs; r++) fan = x.dim[x.rank - 1].at[r] > fan ? x.dim[x.rank - 1].at[r] : fan;
    y.most = x.most * z.most * (m->exact ? (double)fan : sqrt((double)fan));
    if (m->exact && (y.most > ldexp(1, 23 + y.grain) || y.grain < -8)) return false;
    if (!m->exact && (y.most > (m->dtype == EL_f16 ? 2e3 : 1e30) || y.most < 1e-30)) return false;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "MatMul %s %s -> %s\n", x.name, z.name, m->value[v].name);
    model_settle(m, v);
    return true;
}

// The same by letters.
static bool einsum(Model *m) {
    static const struct {
        const char *how;
        int rank;
    } hows[] = {{"ij,kj->ik", 2},    {"ij,kj->ki", 2},   {"bij,bkj->bik", 3},
                {"bij,bkj->kbi", 3}, {"bij,bij->bi", 3}, {"ij,ij->i", 2}};
    int k = (int)roll(&m->d, 6), a = pick(m, hows[k].rank, hows[k].rank);
    if (a < 0) return false;
    int b = pick_like(m, &m->value[a]);
    if (b < 0) b = a;
    Value x = m->value[a], z = m->value[b], y = x;
    Dim rows = x.dim[x.rank - 2], batch = x.dim[0];
    if (k < 2) y.dim[1] = rows;
    else if (k == 2) y.dim[2] = rows;
    else if (k == 3) y.dim[0] = rows, y.dim[1] = batch, y.dim[2] = rows;
    else y.rank--;
    double fan = (double)x.dim[x.rank - 1].at[0];
    for (int r = 1; r < m->runs; r++) fan = fmax(fan, (double)x.dim[x.rank - 1].at[r]);
    y.grain = x.grain + z.grain;
    y.most = x.most * z.most * (m->exact ? fan : sqrt(fan));
    if (m->exact && (y.most > ldexp(1, 23 + y.grain) || y.grain < -8)) return false;
    if (!m->exact && (y.most > (m->dtype == EL_f16 ? 2e3 : 1e30) || y.most < 1e-30)) return false;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "Einsum %s %s -> %s equation=\"%s\"\n", x.name, z.name, m->value[v].name, hows[k].how);
    model_settle(m, v);
    return true;
}

// Square, for bodies.
static bool square(Model *m) {
    int a = pick(m, 2, 4);
    if (a < 0) return false;
    Value x = m->value[a];
    Dim k = x.dim[x.rank - 1];
    double sum;
    if (!dim_known(k) || k.at[0] > 40) return false;
    int w = const_weights(m, 2, (int64_t[]){k.at[0], k.at[0]}, k.at[0], &sum);
    x.most *= sum;
    int y = value_add(m, &x);
    if (y < 0) return false;
    model_put(m, "MatMul %s w%d -> %s\n", x.name, w, m->value[y].name);
    model_settle(m, y);
    return true;
}

// LSTM, GRU or RNN over [steps, rows, columns].
static bool recurrent(Model *m) {
    static const struct {
        const char *op;
        int gates;
    } cells[] = {{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}};
    static const int hidden[] = {1, 3, 8, 16, 17};
    static const char *const ways[] = {"forward", "reverse", "bidirectional"};
    int k = (int)roll(&m->d, 3), a = pick(m, 3, 3), way = (int)roll(&m->d, 3);
    if (a < 0) return false;
    Value x = m->value[a];
    int64_t h = PICK(&m->d, hidden), d = way == 2 ? 2 : 1, g = cells[k].gates * h, columns = x.dim[2].at[0];
    int64_t trips = 0;
    for (int r = 0; r < m->runs; r++) trips = x.dim[0].at[r] > trips ? x.dim[0].at[r] : trips;
    if (!dim_known(x.dim[2]) || g * d * columns > weights_limit(m) || trips > 9 || x.most > 100) return false;
    double sum;
    int w = const_weights(m, 3, (int64_t[]){d, g, columns}, columns, &sum),
        r = const_weights(m, 3, (int64_t[]){d, g, h}, h, &sum);
    int b = chance(&m->d, 70) ? const_weights(m, 2, (int64_t[]){d, 2 * g}, 4, &sum) : -1;
    x.rank = 4, x.dim[3] = dim_of(h), x.dim[2] = x.dim[1], x.dim[1] = dim_of(d), x.most = 1;
    int y = value_add(m, &x);
    if (y < 0) return false;
    model_put(m, "%s %s w%d w%d", cells[k].op, m->value[a].name, w, r);
    if (b >= 0) model_put(m, " w%d", b);
    model_put(m, " -> %s hidden_size=%lld direction=\"%s\"\n", m->value[y].name, (long long)h, ways[way]);
    return true;
}

const StepRow product_steps[] = {
    {with_weights, 10, 10, 0},
    {gemm, 5, 5, 0},
    {of_values, 4, 4, 0},
    {einsum, 2, 2, 0},
    {square, 0, 0, 4},
    {recurrent, 0, 2, 0},
    {0},
};

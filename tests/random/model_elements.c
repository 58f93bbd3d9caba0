// Random models: element by element, and reductions.
#include "tests/random/model_draw.h"

#include <math.h>
#include <stdio.h>

static bool unary(Model *m) {
    static const char *const smooth[] = {"Relu", "Sigmoid",  "Tanh",        "Abs",       "Neg",
                                         "Erf",  "Softplus", "HardSigmoid", "LeakyRelu", "Sin",
                                         "Elu",  "Softsign", "HardSwish"};
    static const char *const exact[] = {"Relu", "Abs", "Neg", "Floor", "Sign", "Ceil", "Round"};
    int a = pick(m, 1, 4);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    const char *op = m->exact ? PICK(&m->d, exact) : PICK(&m->d, smooth);
    if (m->exact && (op[0] == 'F' || op[0] == 'C' || op[1] == 'o' || op[0] == 'S') && y.grain < 0)
        y.grain = 0, y.most = ceil(y.most);
    if (m->exact && op[0] == 'S') y.most = 1, y.grain = 0;
    if (!m->exact && (op[1] == 'i' || op[1] == 'a' || op[0] == 'E') && y.most > 1)
        y.most = op[1] == 'l' ? y.most : 1;
    if (op[0] == 'S' && op[2] == 'n' && x.most > 100) return false; // sin of what has no digits left
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "%s %s -> %s\n", op, x.name, m->value[v].name);
    return true;
}

// A power of two, or any factor that leaves the range of the type some room.
static bool scale(Model *m) {
    static const double loose[] = {1.0 / 64, 0.125, 64, 1e-3, 512, 1e-6, 0.5, 3, 1e-20, 1e15};
    static const double exact[] = {0.5, 2, 0.25, 0.125, 4, -1, -2};
    int a = pick(m, 1, 4);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    double by = m->exact ? PICK(&m->d, exact) : PICK(&m->d, loose), low = m->dtype == EL_f16 ? 1e-4 : 1e-32,
           high = m->dtype == EL_f16 ? 2e4 : 1e32;
    y.most *= fabs(by), y.grain += m->exact ? ilogb(fabs(by)) : 0;
    if (m->exact && (y.grain < -8 || y.grain > 8)) return false;
    if (!m->exact && (y.most < low || y.most > high)) return false;
    int v = value_add(m, &y);
    if (v < 0) return false;
    bool over = chance(&m->d, 30);
    model_put(m, "%s %s w%d -> %s\n", over ? "Div" : "Mul", x.name, const_scalar(m, over ? 1 / by : by),
              m->value[v].name);
    model_settle(m, v);
    return true;
}

static bool vector(Model *m) {
    static const char *const ops[] = {"Add", "Mul", "Sub"};
    int a = pick(m, 2, 4), op = (int)roll(&m->d, 3);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int axis = chance(&m->d, 70) ? x.rank - 1 : 1;
    int64_t n = x.dim[axis].at[0], shape[3] = {n, 1, 1};
    double most;
    if (!dim_known(x.dim[axis])) return false;
    int w = const_weights(m, x.rank - axis, shape, 1, &most);
    y.most = op == 1 ? x.most * most : x.most + most;
    if (op != 1 && y.grain > 0) y.grain = 0;
    int v = value_add(m, &y);
    if (v < 0) return false;
    if (chance(&m->d, 50)) model_put(m, "%s %s w%d -> %s\n", ops[op], x.name, w, m->value[v].name);
    else model_put(m, "%s w%d %s -> %s\n", ops[op], w, x.name, m->value[v].name);
    model_settle(m, v);
    return true;
}

static bool binary(Model *m) {
    static const char *const ops[] = {"Add", "Sub", "Mul", "Max", "Min"};
    int a = pick(m, 1, 4), op = (int)roll(&m->d, 5);
    if (a < 0) return false;
    int b = pick_like(m, &m->value[a]);
    if (b < 0) b = a;
    Value x = m->value[a], z = m->value[b], y = x;
    y.most = op == 2 ? x.most * z.most : x.most + z.most;
    y.grain = op == 2 ? x.grain + z.grain : x.grain < z.grain ? x.grain : z.grain;
    if (m->exact && y.grain < -8) return false;
    if (!m->exact &&
        (y.most > (m->dtype == EL_f16 ? 1e4 : 1e32) || y.most < (m->dtype == EL_f16 ? 1e-4 : 1e-32)))
        return false;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "%s %s %s -> %s\n", ops[op], x.name, z.name, m->value[v].name);
    model_settle(m, v);
    return true;
}

// A value with another one that has a size of 1, or lacks axes, where it has a size.
static bool broadcast(Model *m) {
    static const char *const ops[] = {"Add", "Sub", "Mul", "Max", "Min"};
    int a = pick(m, 2, 4), op = (int)roll(&m->d, 5), from = (int)roll(&m->d, (uint32_t)m->n), b = -1;
    if (a < 0) return false;
    Value x = m->value[a];
    for (int i = 0; i < m->n && b < 0; i++) {
        const Value *w = &m->value[(from + i) % m->n];
        bool fits = w->rank <= x.rank, same = w->rank == x.rank;
        for (int k = 1; k <= w->rank && fits; k++) {
            bool equal = dim_same(w->dim[w->rank - k], x.dim[x.rank - k]),
                 one = dim_known(w->dim[w->rank - k]) && w->dim[w->rank - k].at[0] == 1;
            fits = equal || one, same = same && equal;
        }
        if (fits && !same) b = (from + i) % m->n;
    }
    if (b < 0) return false;
    Value z = m->value[b], y = x;
    y.most = op == 2 ? x.most * z.most : x.most + z.most;
    y.grain = op == 2 ? x.grain + z.grain : x.grain < z.grain ? x.grain : z.grain;
    if (m->exact && y.grain < -8) return false;
    if (!m->exact &&
        (y.most > (m->dtype == EL_f16 ? 1e4 : 1e32) || y.most < (m->dtype == EL_f16 ? 1e-4 : 1e-32)))
        return false;
    int v = value_add(m, &y);
    if (v < 0) return false;
    bool turned = chance(&m->d, 50);
    model_put(m, "%s %s %s -> %s\n", ops[op], turned ? z.name : x.name, turned ? x.name : z.name,
              m->value[v].name);
    model_settle(m, v);
    return true;
}

// What is above a number as it is, the rest another way.
static bool where(Model *m) {
    int a = pick(m, 1, 4), t = m->names++;
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int b = pick_like(m, &x);
    if (b >= 0 && m->value[b].grain < y.grain) y.grain = m->value[b].grain;
    if (b >= 0 && m->value[b].most > y.most) y.most = m->value[b].most;
    if (y.grain > 0 || y.most < 1) y.grain = 0, y.most = y.most < 1 ? 1 : y.most;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "%s %s w%d -> b%d\nWhere b%d %s ", chance(&m->d, 50) ? "Greater" : "LessOrEqual", x.name,
              const_scalar(m, (int)roll(&m->d, 3)), t, t, x.name);
    if (b >= 0) model_put(m, "%s -> %s\n", m->value[b].name, m->value[v].name);
    else model_put(m, "w%d -> %s\n", const_scalar(m, 1), m->value[v].name);
    model_settle(m, v);
    return true;
}

static bool clip(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0) return false;
    Value x = m->value[a];
    if (x.grain > 0) x.grain = 0;
    int v = value_add(m, &x);
    if (v < 0) return false;
    model_put(m, "Clip %s w%d w%d -> %s\n", m->value[a].name, const_scalar(m, -(int)roll(&m->d, 3)),
              const_scalar(m, 1 + (int)roll(&m->d, 3)), m->value[v].name);
    return true;
}

// A sum of a product's columns is computed as a mean times their number (graph/rewrite/sums.c), which rounds,
// and in narrow types so are the sums of weights: in an exact model, the sum is of what is no product.
static void no_product(Model *m, Value *x) {
    int t = m->names++;
    model_put(m, "Clip %s w%d w%d -> no%d\n", x->name, const_scalar(m, -x->most), const_scalar(m, x->most),
              t);
    snprintf(x->name, sizeof x->name, "no%d", t);
}

// Some axes, as an attribute or an input, as the opset has it.
static bool reduce(Model *m) {
    static const char *const ops[] = {"ReduceSum", "ReduceMax",       "ReduceMin", "ReduceMean",
                                      "ReduceL1",  "ReduceSumSquare", "ReduceL2"};
    int a = pick(m, 2, 4), op = (int)roll(&m->d, m->exact ? 3 : 7);
    if (a < 0) return false;
    Value x = m->value[a], y = x;
    int first = (int)roll(&m->d, (uint32_t)x.rank), n = first + 1 < x.rank && chance(&m->d, 25) ? 2 : 1;
    bool keep = chance(&m->d, 50) || x.rank == n;
    int64_t axes[2] = {first, first + 1}, over = 1;
    for (int r = 0; r < m->runs; r++) {
        int64_t k = x.dim[first].at[r] * (n == 2 ? x.dim[first + 1].at[r] : 1);
        over = k > over ? k : over;
    }
    if (op == 0 || op == 4) y.most *= (double)over;
    if (op >= 5) y.most *= y.most * (double)over;
    if (y.most > (m->exact ? ldexp(1, 23 + y.grain) : m->dtype == EL_f16 ? 1e4 : 1e30)) return false;
    for (int i = 0; i < n; i++) y.dim[first + i] = dim_of(1);
    if (!keep) {
        for (int i = first; i + n < x.rank; i++) y.dim[i] = x.dim[i + n];
        y.rank -= n;
    }
    int v = value_add(m, &y);
    if (v < 0) return false;
    if (m->exact && op == 0 && (over & (over - 1) || m->runs > 1 || m->dtype != EL_none || m->tf32))
        no_product(m, &x);
    if (op == 0 || m->opset >= 18)
        model_put(m, "%s %s w%d -> %s keepdims=%d\n", ops[op], x.name, const_ints(m, n, axes),
                  m->value[v].name, keep);
    else if (n == 1)
        model_put(m, "%s %s -> %s keepdims=%d axes=[%d]\n", ops[op], x.name, m->value[v].name, keep, first);
    else
        model_put(m, "%s %s -> %s keepdims=%d axes=[%d,%d]\n", ops[op], x.name, m->value[v].name, keep, first,
                  first + 1);
    model_settle(m, v);
    return true;
}

static bool arg_max(Model *m) {
    int a = pick(m, 1, 4), t = m->names++;
    if (a < 0) return false;
    Value y = m->value[a];
    int axis = (int)roll(&m->d, (uint32_t)y.rank);
    y.most = 64, y.grain = 0;
    for (int r = 0; r < m->runs; r++)
        y.most = y.dim[axis].at[r] > y.most ? (double)y.dim[axis].at[r] : y.most;
    y.dim[axis] = dim_of(1);
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "%s %s -> i%d axis=%d keepdims=1\nCast i%d -> %s to=1\n",
              chance(&m->d, 50) ? "ArgMax" : "ArgMin", m->value[a].name, t, axis, t, m->value[v].name);
    model_settle(m, v);
    return true;
}

static bool cum_sum(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0) return false;
    Value y = m->value[a];
    int axis = (int)roll(&m->d, (uint32_t)y.rank);
    int64_t n = 1;
    for (int r = 0; r < m->runs; r++) n = y.dim[axis].at[r] > n ? y.dim[axis].at[r] : n;
    y.most *= (double)n;
    if (m->native && m->exact) return false; // each of its sums is rounded
    if (y.most > (m->exact ? ldexp(1, 23 + y.grain) : m->dtype == EL_f16 ? 1e4 : 1e30)) return false;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "CumSum %s w%d -> %s exclusive=%d reverse=%d\n", m->value[a].name, const_int(m, axis),
              m->value[v].name, (int)roll(&m->d, 2), (int)roll(&m->d, 2));
    model_settle(m, v);
    return true;
}

const StepRow element_steps[] = {
    {unary, 4, 6, 4},
    {scale, 3, 6, 0},
    {vector, 4, 4, 3},
    {binary, 5, 5, 5},
    {broadcast, 5, 5, 3},
    {where, 3, 0, 2},
    {clip, 1, 1, 1},
    {reduce, 5, 4, 0},
    {arg_max, 1, 0, 0},
    {cum_sum, 1, 1, 0},
    {0},
};

// Random models: attention, as products and a softmax between them with or without heads, and as the
// operator.
#include "tests/random/model_draw.h"

#include <math.h>
#include <stdio.h>

static const int head_sizes[] = {1, 3, 5, 8, 16, 17, 24, 32, 33, 64, 64};

typedef struct Heads {
    int64_t n, size;
    Value x;
    Dim length;
    bool batched;
} Heads; // n 0: none

static int64_t width_of(const Heads *h) { return (h->n ? h->n : 1) * h->size; }

// [b, s, c] or [s, c] times weights, and as [b, heads, s, size] or [heads, s, size]: the name is left in
// `to`.
static void projected(Model *m, const Heads *h, bool split, const char *of, char to[24]) {
    double sum;
    int64_t c = h->x.dim[h->x.rank - 1].at[0];
    int w = const_weights(m, 2, (int64_t[]){c, width_of(h)}, c, &sum), t = m->names++;
    model_put(m, "MatMul %s w%d -> p%d\n", of, w, t);
    snprintf(to, 24, "p%d", t);
    if (!split || h->n == 0) return;
    if (h->batched) w = const_ints(m, 4, (int64_t[]){0, 0, h->n, h->size});
    else w = const_ints(m, 3, (int64_t[]){0, h->n, h->size});
    model_put(m, "Reshape p%d w%d -> r%d\nTranspose r%d -> h%d perm=[%s]\n", t, w, t, t, t,
              h->batched ? "0,2,1,3" : "1,0,2");
    snprintf(to, 24, "h%d", t);
}

// A mask of the scores: causal where the length is a number, of each key from the input elsewhere. None where there are infinities: a loop that ends
// at the last key of a causal mask does not read the values behind it, which the model as written multiplies by 0.
static void masked(Model *m, const Heads *h, char *scores) {
    int64_t s = h->length.at[0];
    int t = m->names++;
    if (!dim_known(h->length)) { // by position: key <= query
        model_put(m, "Shape %s -> a%d\nGather a%d w%d -> b%d axis=0\n", h->x.name, t, t,
                  const_int(m, h->x.rank - 2), t);
        model_put(m, "Range w%d b%d w%d -> c%d\n", const_int(m, 0), t, const_int(m, 1), t);
        model_put(m, "Unsqueeze c%d w%d -> d%d\nGreater c%d d%d -> e%d\n", t,
                  const_ints(m, 1, (int64_t[]){1}), t, t, t, t);
    } else {
        buf_printf(&m->head, "const w%d bool %lld %lld :", m->consts, (long long)s, (long long)s);
        bool causal = chance(&m->d, 50);
        for (int64_t i = 0; i < s * s; i++)
            buf_printf(&m->head, " %d", causal ? i % s > i / s : i % s > 0 && chance(&m->d, 30));
        buf_puts(&m->head, "\n");
        model_put(m, "Identity w%d -> e%d\n", m->consts++, t);
    }
    double low = chance(&m->d, 30) ? -INFINITY : m->dtype == EL_f16 ? -6e4 : -1e9;
    if (isinf(low)) buf_printf(&m->head, "const w%d f32 : -inf\n", m->consts++);
    model_put(m, "Where e%d w%d %s -> f%d\n", t, isinf(low) ? m->consts - 1 : const_scalar(m, low), scores,
              t);
    snprintf(scores, 24, "f%d", t);
}

static bool draw_heads(Model *m, Heads *h) {
    int a = pick(m, 2, 3);
    if (a < 0) return false;
    *h = (Heads){.x = m->value[a], .size = PICK(&m->d, head_sizes)};
    h->batched = h->x.rank == 3;
    h->length = h->x.dim[h->x.rank - 2];
    h->n = chance(&m->d, 70) ? 1 + (int64_t)roll(&m->d, 4) : 0;
    Dim c = h->x.dim[h->x.rank - 1];
    int64_t longest = h->length.at[0], b = h->batched ? h->x.dim[0].at[0] : 1;
    for (int r = 1; r < m->runs; r++) {
        if (h->length.at[r] > longest) longest = h->length.at[r];
        if (h->batched && h->x.dim[0].at[r] > b) b = h->x.dim[0].at[r];
    }
    if (h->n == 0 && c.at[0] * h->size > weights_limit(m)) h->size = 8;
    while (h->n > 1 && (c.at[0] * width_of(h) > weights_limit(m) || b * h->n * longest * longest > 20000))
        h->n--;
    return dim_known(c) && c.at[0] * width_of(h) <= weights_limit(m) && b * longest * longest <= 20000 &&
           h->x.most < 10;
}

static int result_of(Model *m, const Heads *h) {
    Value y = h->x;
    y.dim[y.rank - 1] = dim_of(width_of(h));
    return value_add(m, &y);
}

// Of a value with itself, or with another one of its shape.
static bool written(Model *m) {
    Heads h;
    char q[24], k[24], v[24], scores[24];
    if (!draw_heads(m, &h)) return false;
    int other = pick_like(m, &h.x), y = result_of(m, &h);
    if (y < 0) return false;
    const char *name = m->value[y].name, *keys = other >= 0 && m->value[other].most < 10 && chance(&m->d, 30)
                                                     ? m->value[other].name
                                                     : h.x.name;
    projected(m, &h, true, h.x.name, q), projected(m, &h, true, keys, k), projected(m, &h, true, keys, v);
    int rank = h.x.rank + (h.n > 0), t = m->names++;
    static const char *const perms[] = {"1,0", "0,2,1", "0,1,3,2"};
    double scale = 1 / sqrt((double)h.size);
    bool early = chance(&m->d, 30);
    if (early) model_put(m, "Mul %s w%d -> sq%d\n", q, const_scalar(m, scale), t), snprintf(q, 24, "sq%d", t);
    model_put(m, "Transpose %s -> kt%d perm=[%s]\nMatMul %s kt%d -> s%d\n", k, t, perms[rank - 2], q, t, t);
    snprintf(scores, 24, "s%d", t);
    bool over = chance(&m->d, 50);
    if (!early)
        model_put(m, "%s s%d w%d -> ss%d\n", over ? "Div" : "Mul", t,
                  const_scalar(m, over ? 1 / scale : scale), t),
            snprintf(scores, 24, "ss%d", t);
    if (chance(&m->d, 50) && !m->special) masked(m, &h, scores);
    model_put(m, "Softmax %s -> sm%d axis=-1\n", scores, t);
    if (h.n == 0) model_put(m, "MatMul sm%d %s -> %s\n", t, v, name);
    else {
        model_put(m, "MatMul sm%d %s -> o%d\nTranspose o%d -> ot%d perm=[%s]\n", t, v, t, t, t,
                  h.batched ? "0,2,1,3" : "1,0,2");
        int w = h.batched ? const_ints(m, 3, (int64_t[]){0, 0, width_of(&h)})
                          : const_ints(m, 2, (int64_t[]){0, width_of(&h)});
        model_put(m, "Reshape ot%d w%d -> %s\n", t, w, name);
    }
    return true;
}

static bool operator(Model *m) {
    Heads h;
    char p[3][24];
    if (m->opset < 23 || !draw_heads(m, &h) || !h.batched || h.n == 0) return false;
    int y = result_of(m, &h);
    if (y < 0) return false;
    for (int i = 0; i < 3; i++) projected(m, &h, false, h.x.name, p[i]);
    model_put(m, "Attention %s %s %s -> %s q_num_heads=%d kv_num_heads=%d is_causal=%d", p[0], p[1], p[2],
              m->value[y].name, (int)h.n, (int)h.n, (int)roll(&m->d, 2) & !m->special);
    if (chance(&m->d, 30)) model_put(m, " scale=0.25");
    if (chance(&m->d, 20)) model_put(m, " softcap=2.5");
    model_put(m, "\n");
    return true;
}

const StepRow attention_steps[] = {{written, 0, 8, 0}, {operator, 0, 3, 0}, {0}};

// Random models: quantised values, there and back, and products of bytes. Scales are powers of two, so that
// all is exact.
#include "tests/random/model_draw.h"

#include <math.h>
#include <stdio.h>

typedef struct Bytes {
    bool u;
    int zero, shift;
} Bytes; // of u8 or i8; the scale is 2^shift

static Bytes draw_bytes(Model *m, const Value *x) {
    Bytes b = {.u = chance(&m->d, 50)};
    int at = (int)ceil(log2(fmax(x->most, 1e-6)));
    b.shift = m->exact ? at - 7 + (int)roll(&m->d, 3) : at - 6;
    if (b.shift < -6) b.shift = -6;
    b.zero = b.u ? 128 - (int)roll(&m->d, 10) : chance(&m->d, 50) ? 0 : 5 - (int)roll(&m->d, 10);
    return b;
}

static int zero_of(Model *m, const Bytes *b) {
    buf_printf(&m->head, "const w%d %s : %d\n", m->consts, b->u ? "u8" : "i8", b->zero);
    return m->consts++;
}

static Value from_bytes(const Value *x, const Bytes *b) {
    Value y = *x;
    y.grain = b->shift;
    y.most = ldexp(256, b->shift);
    return y;
}

static bool there_and_back(Model *m) {
    int a = pick(m, 1, 4), t = m->names++;
    if (a < 0 || m->special || m->native) return false;
    Value x = m->value[a];
    Bytes b = draw_bytes(m, &x);
    Value y = from_bytes(&x, &b);
    int v = value_add(m, &y);
    if (v < 0) return false;
    int s = const_scalar(m, ldexp(1, b.shift)), z = zero_of(m, &b);
    model_put(m, "QuantizeLinear %s w%d w%d -> q%d\nDequantizeLinear q%d w%d w%d -> %s\n", x.name, s, z, t, t,
              s, z, m->value[v].name);
    model_settle(m, v);
    return true;
}

// Weights of bytes with a scale for each column, or one for all.
static bool weights_of_bytes(Model *m) {
    int a = pick(m, 2, 3), t = m->names++;
    if (a < 0 || m->native) return false;
    Value x = m->value[a], y = x;
    int64_t k = x.dim[x.rank - 1].at[0], c = draw_size(m);
    if (!dim_known(x.dim[x.rank - 1]) || k * c > weights_limit(m)) return false;
    int bytes = m->consts++,
        shift = m->exact ? -(int)roll(&m->d, 2) : -(int)lround(log2(sqrt((double)k))) - 6,
        most = m->exact ? 2 : 127;
    bool each = chance(&m->d, 60);
    buf_printf(&m->head, "const w%d i8 %lld %lld :", bytes, (long long)k, (long long)c);
    for (int64_t i = 0; i < k * c; i++)
        buf_printf(&m->head, " %d", (int)roll(&m->d, (uint32_t)(2 * most + 1)) - most);
    buf_printf(&m->head, each ? "\nconst w%d f32 %lld :" : "\nconst w%d f32 :", m->consts++, (long long)c);
    for (int64_t i = 0; i < (each ? c : 1); i++)
        buf_printf(&m->head, " %.9g", ldexp(1, shift + (int)roll(&m->d, 2)));
    buf_puts(&m->head, "\n");
    y.dim[y.rank - 1] = dim_of(c);
    y.grain += shift;
    y.most *= m->exact ? 2 * most * ldexp((double)k, shift) : 3;
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "DequantizeLinear w%d w%d -> d%d axis=%d\nMatMul %s d%d -> %s\n", bytes, bytes + 1, t, each,
              x.name, t, m->value[v].name);
    model_settle(m, v);
    return true;
}

// Bytes times bytes: MatMulInteger and its result as floats, or QLinearMatMul and back.
static bool products_of_bytes(Model *m) {
    int a = pick(m, 2, 3), t = m->names++;
    if (a < 0 || m->special || m->native) return false;
    Value x = m->value[a], y = x;
    int64_t k = x.dim[x.rank - 1].at[0], c = draw_size(m);
    Bytes b = draw_bytes(m, &x), of = {.u = false, .zero = 0}, to = {.u = chance(&m->d, 50), .zero = 3};
    if (!dim_known(x.dim[x.rank - 1]) || k * c > weights_limit(m)) return false;
    int w = m->consts++, s = const_scalar(m, ldexp(1, b.shift)), z = zero_of(m, &b), zw = zero_of(m, &of);
    bool whole = chance(&m->d, 50);
    buf_printf(&m->head, "const w%d i8 %lld %lld :", w, (long long)k, (long long)c);
    for (int64_t i = 0; i < k * c; i++) buf_printf(&m->head, " %d", (int)roll(&m->d, 7) - 3);
    buf_puts(&m->head, "\n");
    y.dim[y.rank - 1] = dim_of(c);
    to.shift = b.shift + 4;
    if (whole) y.most = 256.0 * 3 * (double)k, y.grain = 0;
    else y = from_bytes(&y, &to);
    int v = value_add(m, &y);
    if (v < 0) return false;
    model_put(m, "QuantizeLinear %s w%d w%d -> q%d\n", x.name, s, z, t);
    if (whole)
        model_put(m, "MatMulInteger q%d w%d w%d w%d -> p%d\nCast p%d -> %s to=1\n", t, w, z, zw, t, t,
                  m->value[v].name);
    else {
        int one = const_scalar(m, 1), sy = const_scalar(m, ldexp(1, to.shift)), zy = zero_of(m, &to);
        model_put(m, "QLinearMatMul q%d w%d w%d w%d w%d w%d w%d w%d -> p%d\n", t, s, z, w, one, zw, sy, zy,
                  t);
        model_put(m, "DequantizeLinear p%d w%d w%d -> %s\n", t, sy, zy, m->value[v].name);
    }
    model_settle(m, v);
    return true;
}

const StepRow quant_steps[] = {
    {there_and_back, 2, 0, 1}, {weights_of_bytes, 2, 2, 0}, {products_of_bytes, 2, 0, 0}, {0}};

// Signals: DFT, STFT, windows, the mel matrix.
//
// A discrete Fourier transform is a product with a matrix of cosines, whose angles are index expressions:
//
//     y[k, re|im] = sum over n, re|im of  x[n, ..] * cos(2 pi (4 k n + N q mod 4 N) / 4 N)      q: quarter turns, for sines
//
// so it needs no constants and takes any length. It is summed in f64: what should be zero comes out of large terms.
#include "graph/op/op.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

// [K, out, n, in] for a transform of length `size`; out, in: 2, or 1 for the real parts only.
static Node *turns(Graph *g, Ix K, int out, Ix n, int in, Ix size, bool inverse) {
    Ix shape[4] = {K, ix(g, out), n, ix(g, in)}, axis[4];
    for (int d = 0; d < 4; d++) axis[d] = ix_axis(g, d, shape[d]);
    Ix quarter = inverse ? ix_sub(g, axis[3], axis[1]) : ix_sub(g, axis[1], axis[3]);
    Ix around = ix_add(g, ix_muli(g, ix_mul(g, axis[0], axis[2]), 4), ix_mul(g, size, quarter)),
       full = ix_muli(g, size, 4);
    Node *angle = g_ew2(g, EW_div, g_cast(g, g_index(g, EL_i64, 4, shape, ix_mod(g, around, full)), EL_f64),
                        g_size(g, EL_f64, full));
    return g_ew1(g, EW_cos, g_ew2f(g, EW_mul, angle, 2 * PI));
}

// x [.., n, in] of f64 -> [.., K, out]
static Node *transform(Graph *g, Node *x, Ix K, int out, Ix size, bool inverse) {
    int64_t in;
    if (x == NULL || !ix_const(x->shape[x->rank - 1], &in)) return NULL;
    Node *t = turns(g, K, out, x->shape[x->rank - 2], (int)in, size, inverse);
    Node *y = g_contract(g, x, t, 0, x->rank - 2, 2, 2, EL_f64, EL_f64);
    return inverse ? g_ew2(g, EW_div, y, g_size(g, EL_f64, size)) : y;
}

// The last axis: 1 (real) or 2 (real and imaginary).
static bool is_signal(Op *op, const Node *x) {
    int64_t parts;
    if (!elem_is_float((Elem)x->elem)) return op_error(op, "transforms floats, not %s", elem_name((Elem)x->elem)), false;
    if (x->rank >= 2 && !op_fixed(op, x->shape[x->rank - 1], &parts)) return false;
    if (x->rank >= 2 && (parts == 1 || parts == 2)) return true;
    return op_error(op, "the last dimension of its input should be 1 (real) or 2 (complex)"), false;
}

static Ix one_size(Op *op, int i) {
    int n = 0;
    const Ix *at = op_known(op, i, &n);
    if (at != NULL && n != 1) return op_error(op, "its input %d should be one number, not %d", i, n);
    if (at != NULL && ix_is_const(at[0]) && (at[0]->value < 1 || at[0]->value > 1 << 28))
        return op_error(op, "its input %d is %lld", i, (long long)at[0]->value);
    return at != NULL ? at[0] : NULL;
}

static Ix frequencies(Graph *g, Ix size, bool onesided) { return onesided ? ix_addi(g, ix_divi(g, size, 2), 1) : size; }

// Half a spectrum, of a real signal: all but the first and the middle frequency stand for two.
static Node *doubled(Graph *g, Node *x, Ix size) {
    if (x == NULL) return NULL;
    Ix k = ix_axis(g, x->rank - 2, x->shape[x->rank - 2]),
       once = ix_or(g, ix_eq(g, k, ix(g, 0)), ix_eq(g, ix_muli(g, k, 2), size));
    Node *weight = g_index(g, EL_i64, x->rank, x->shape, ix_sub(g, ix(g, 2), once));
    return g_ew2(g, EW_mul, x, g_cast(g, weight, EL_f64));
}

// axis: an attribute in opset 17, input 2 from 20 on. The inverse of a onesided spectrum is a real signal.
static Node *lower_dft(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int64_t at = op_int(op, "axis", 1);
    if (x == NULL || !is_signal(op, x)) return NULL;
    if (op->version >= 20) at = -2;
    if (op->version >= 20 && op_opt(op, 2) != NULL && !op_known_int(op, 2, &at)) return NULL;
    int axis = g_axis(g, x, at), perm[G_MAX_RANK], back[G_MAX_RANK], n = 0;
    if (axis < 0) return NULL;
    if (axis == x->rank - 1)
        return op_error(op, "cannot transform along the last axis, which holds real and imaginary parts");
    bool inverse = op_int(op, "inverse", 0) != 0, onesided = op_int(op, "onesided", 0) != 0, real = inverse && onesided;
    Ix size = op_opt(op, 1) != NULL ? one_size(op, 1)
              : real                ? ix_muli(g, ix_addi(g, x->shape[axis], -1), 2)
                                    : x->shape[axis];
    if (size == NULL) return NULL;
    for (int d = 0; d < x->rank - 1; d++)
        if (d != axis) perm[n++] = d;
    perm[n++] = axis;
    perm[n] = x->rank - 1;
    for (int d = 0; d < x->rank; d++) back[perm[d]] = d;
    Ix used = frequencies(g, size, real);                       // longer signals are cut; shorter ones end in zeros
    Node *signal = g_transpose(g, g_cast(g, x, EL_f64), x->rank, perm), *y;
    if (signal != NULL && used != x->shape[axis])
        signal = g_take_range(g, signal, x->rank - 2, ix(g, 0), 1, ix_min(g, used, x->shape[axis]));
    if (real) y = transform(g, doubled(g, signal, size), size, 1, size, true);
    else y = transform(g, signal, frequencies(g, size, onesided), 2, size, inverse);
    return y != NULL ? g_cast(g, g_transpose(g, y, x->rank, back), (Elem)x->elem) : NULL;
}

// Frames of the signal, `step` apart, each weighed by the window and transformed: [B, frames, K, 2].
static Node *lower_stft(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *window = op_opt(op, 2);
    int64_t step;
    if (x == NULL || !op_known_int(op, 1, &step)) return NULL;
    if (x->rank == 2) x = g_unsqueeze(g, x, 4);
    if (!is_signal(op, x)) return NULL;
    if (x->rank != 3) return op_error(op, "its signal has %d dimensions; it should have 3", x->rank);
    if (step < 1 || step > 1 << 28) return op_error(op, "its step is %lld", (long long)step);
    if (window != NULL && window->rank != 1)
        return op_error(op, "its window has %d dimensions; it should have 1", window->rank);
    Ix size = op_opt(op, 3) != NULL ? one_size(op, 3) : window != NULL ? window->shape[0] : x->shape[1];
    if (size == NULL) return NULL;
    Ix width = window != NULL ? window->shape[0] : size,
       frames = ix_addi(g, ix_divi(g, ix_sub(g, x->shape[1], size), step), 1), zero = ix(g, 0);
    if (frames == NULL) return NULL;
    if (frames->hi < 1) return op_error(op, "its frames are longer than its signal");
    Node *parts = g_windows(g, g_cast(g, x, EL_f64), 1, 1, &frames, &width, &step, (int64_t[]){1}, &zero,
                            g_int(0)); // [B, F, C, width]
    if (window != NULL) parts = g_ew2(g, EW_mul, parts, g_cast(g, window, EL_f64));
    if (parts == NULL) return NULL;
    parts = g_transpose(g, parts, 4, (int[]){0, 1, 3, 2});
    return g_cast(g, transform(g, parts, frequencies(g, size, op_int(op, "onesided", 1) != 0), 2, size, false),
                  (Elem)x->elem);
}

// ---- windows ----------------------------------------------------------------------------------------

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), N one less if it is not to be periodic.
static const double cosines[3][3] = {{0.5, 0.5, 0}, {25.0 / 46, 21.0 / 46, 0}, {0.42, 0.5, 0.08}};

static Node *lower_window(Op *op) {
    Graph *g = op->g;
    Ix size = one_size(op, 0);
    Elem elem = op_elem(op, "output_datatype", EL_f32);
    const double *a = cosines[op->row];
    if (size == NULL || elem == EL_none) return NULL;
    Ix around = op_int(op, "periodic", 1) != 0 ? size : ix_max(g, ix_addi(g, size, -1), ix(g, 1));
    Node *angle = g_ew2f(g, EW_mul, g_ew2(g, EW_div, g_iota(g, EL_f64, 1, &size, 0), g_size(g, EL_f64, around)), 2 * PI);
    Node *y = g_ew2f(g, EW_add, g_ew2f(g, EW_mul, g_ew1(g, EW_cos, angle), -a[1]), a[0]);
    if (a[2] != 0) y = g_ew2(g, EW_add, y, g_ew2f(g, EW_mul, g_ew1(g, EW_cos, g_ew2f(g, EW_mul, angle, 2)), a[2]));
    return g_cast(g, y, elem);
}

// Triangles over the bins of a spectrum, whose corners are evenly spaced in mel: [dft_length / 2 + 1, bands].
static Node *lower_mel(Op *op) {
    Graph *g = op->g;
    enum { MOST = 1 << 16 };
    int64_t bands, length, rate;
    int n[2] = {0, 0};
    if (!op_known_int(op, 0, &bands) || !op_known_int(op, 1, &length) || !op_known_int(op, 2, &rate)) return NULL;
    const double *low = op_known_floats(op, 3, &n[0]), *high = op_known_floats(op, 4, &n[1]);
    Elem elem = op_elem(op, "output_datatype", EL_f32);
    if (low == NULL || high == NULL || elem == EL_none) return NULL;
    if (n[0] != 1 || n[1] != 1) return op_error(op, "its frequencies should be one number each");
    if (bands < 1 || bands > MOST || length < 1 || length > MOST || rate < 1)
        return op_error(op, "cannot make %lld bands of a transform of %lld", (long long)bands, (long long)length);
    int64_t bins = length / 2 + 1, shape[2] = {bins, bands}, *corner = NEW_N(g->arena, int64_t, bands + 2);
    double from = 2595 * log10(1 + low[0] / 700), to = 2595 * log10(1 + high[0] / 700),
           step = (to - from) / (double)(bands + 2);
    for (int64_t i = 0; i < bands + 2; i++) {
        double hertz = 700 * (pow(10, (from + step * (double)i) / 2595) - 1),
               bin = floor((double)(length + 1) * hertz / (double)rate);
        if (!(bin >= 0 && bin < (double)bins))
            return op_error(op, "its upper frequency is more than half of its sample rate");
        corner[i] = (int64_t)bin;
    }
    size_t wide = (size_t)elem_bytes(elem);
    char *data = NEW_N(g->arena, char, (size_t)(bins * bands) * wide);
    for (int64_t i = 0; i < bands; i++) {
        int64_t left = corner[i], mid = corner[i + 1], right = corner[i + 2];
        for (int64_t j = left; j <= right && j < bins; j++) {
            double v = j < mid || (j == mid && right == mid)
                           ? (mid > left ? (double)(j - left) / (double)(mid - left) : 1)
                       : right > mid ? (double)(right - j) / (double)(right - mid)
                                     : 0;
            g_num_store(data + (size_t)(j * bands + i) * wide, elem, g_float(v));
        }
    }
    return g_const(g, elem, 2, shape, data);
}

const OpRow ops_signal[] = {
    OP("DFT", 17, lower_dft),
    OP("STFT", 17, lower_stft),
    OP_OF("HannWindow", 17, lower_window, 0),
    OP_OF("HammingWindow", 17, lower_window, 1),
    OP_OF("BlackmanWindow", 17, lower_window, 2),
    OP("MelWeightMatrix", 17, lower_mel),
    {0},
};

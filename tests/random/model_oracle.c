// What a random model has to give: the interpreter's values, and how far rounding may lead from them.
//
// An exact model has no bound: the bits agree. Of another one the bound is measured. The interpreter runs it
// again a few times, and each time every element that an operation makes, and every element of an input, is
// changed by a random part of the unit roundoff of the type that the model is compiled for (f32: 2^-21, what
// three products of tf32 keep; and what the type flushes to zero). These changes are as large as all the
// roundings together that any order of sums and any fusion of kernels can bring, so the largest difference to
// the undisturbed run tells how much rounding can do to a value:
//
//     allowed = FACTOR * largest difference of that value in all disturbed runs + 2 units of the element
//     itself
//
// A value of which rounding may leave less than a digit (a sharp softmax in 16 bits) says nothing, and is not
// compared. A sum that cancels, or a norm of nearly equal numbers, has a wide bound, and all else a narrow
// one. That wants models whose values follow their inputs without jumps.
#include "tests/random/model_oracle.h"

#include "graph/graph.h"
#include "graph/ref/ref.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DISTURBED = 4, FACTOR = 4 };

typedef struct Noise {
    Draw d;
    double unit, least;
} Noise;

static double unit_of(const Model *m) {
    return m->dtype == EL_bf16 ? 0x1p-8 : m->dtype == EL_f16 ? 0x1p-11 : m->tf32 ? 0x1p-10 : 0x1p-21;
}
static double least_of(Elem e) { return e == EL_f16 ? 0x1p-25 : 0x1p-126; }

static void disturb(Noise *noise, float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double a = (int)roll(&noise->d, 2001) - 1000, b = (int)roll(&noise->d, 2001) - 1000;
        if (x[i] != 0) x[i] = (float)(x[i] * (1 + a / 1000 * noise->unit) + b / 1000 * noise->least);
    }
}

// The elements are the value's own memory: views, which share it, are left alone.
static bool see(void *ctx, const Node *n, const GTensor *value) {
    bool computed = n->kind == G_ew || n->kind == G_contract || n->kind == G_reduce || n->kind == G_scan;
    if (computed && value->elem == EL_f32) disturb(ctx, value->data, value->bytes / 4);
    return true;
}

// ---- inputs
// ---------------------------------------------------------------------------------------------------------

static float an_element(const Model *m, Draw *d, const Value *v) {
    if (m->exact) {
        int n = (int)ldexp(v->most, -v->grain);
        return (float)ldexp((int)roll(d, (uint32_t)(2 * n + 1)) - n, v->grain);
    }
    return (float)(v->most * ((int)roll(d, 4001) - 2000) / 2000);
}

bool inputs_make(const Model *m, uint64_t seed, int run, Inputs *to) {
    *to = (Inputs){.n = m->inputs};
    for (int i = 0; i < m->inputs; i++) {
        GTensor *t = &to->in[i];
        const Value *v = &m->input[i];
        *t = (GTensor){.elem = EL_f32, .rank = v->rank};
        for (int k = 0; k < v->rank; k++) t->shape[k] = v->dim[k].at[run];
        if (!g_tensor_alloc(t)) return false;
        Draw d = {seed * 77 + (uint64_t)(i + 10 * run)};
        float *x = t->data;
        size_t n = t->bytes / 4;
        for (size_t k = 0; k < n; k++) x[k] = an_element(m, &d, v);
        if (m->special) {
            x[roll(&d, (uint32_t)n)] = NAN;
            if (chance(&d, 40)) x[roll(&d, (uint32_t)n)] = INFINITY;
            if (chance(&d, 40)) x[roll(&d, (uint32_t)n)] = -INFINITY;
        }
        snprintf(to->name[i], sizeof to->name[0], "x%d", i);
        if (!g_tensor_convert(t, m->native ? m->dtype : EL_f32, &to->own[i])) return false;
        g_tensor_free(t);
        if (!g_tensor_convert(&to->own[i], EL_f32, t)) return false;
        to->given[i] = (OnnxGiven){to->name[i], t};
        to->typed[i] = (OnnxGiven){to->name[i], &to->own[i]};
    }
    return true;
}

void inputs_free(Inputs *x) {
    for (int i = 0; i < x->n; i++) g_tensor_free(&x->in[i]), g_tensor_free(&x->own[i]);
}

// ---- the interpreter
// ------------------------------------------------------------------------------------------------

static bool run_ref(const Buf *bytes, const Inputs *in, Noise *noise, GTensor *out, Expected *names,
                    Buf *err) {
    OnnxModel *model = onnx_parse("random.onnx", bytes->p, bytes->n, err);
    OnnxImport how = {.given = in->given, .ngiven = in->n};
    Graph *g = model ? onnx_import(model, &how, err) : NULL;
    GTensor given[INPUTS] = {0};
    char why[512] = "";
    const RefWatch watch = {see, noise};
    bool ok = g != NULL;
    for (int i = 0; ok && i < graph_input_count(g); i++)
        for (int k = 0; k < in->n; k++) {
            if (strcmp(in->name[k], graph_input_name(g, i)) != 0) continue;
            if (!noise) given[i] = in->in[k];
            else if (g_tensor_convert(&in->in[k], EL_f32, &given[i]))
                disturb(noise, given[i].data, given[i].bytes / 4);
            else ok = false;
        }
    ok = ok && ref_run(g, given, out, noise ? &watch : NULL, why, sizeof why);
    buf_puts(err, why);
    for (int i = 0; ok && names && i < onnx_output_count(model) && i < VALUES; i++)
        snprintf(names->name[names->n++], sizeof names->name[0], "%s", onnx_output_name(model, i));
    for (int i = 0; noise && i < INPUTS; i++)
        if (given[i].data) g_tensor_free(&given[i]);
    if (g) graph_free(g);
    if (model) onnx_free(model);
    return ok;
}

static double largest(const GTensor *t) {
    double most = 0;
    for (size_t i = 0; i < t->bytes / 4; i++) {
        double v = fabs((double)((float *)t->data)[i]);
        if (isfinite(v)) most = fmax(most, v);
    }
    return most;
}

static void measure(const GTensor *a, const GTensor *b, double *off) {
    const float *x = a->data, *y = b->data;
    for (size_t i = 0; i < a->bytes / 4; i++)
        if (isfinite(x[i]) && isfinite(y[i])) *off = fmax(*off, fabs((double)x[i] - (double)y[i]));
}

bool expected_make(const Model *m, const Buf *bytes, const Inputs *in, Expected *to, Buf *err) {
    *to = (Expected){.finite = true};
    if (!run_ref(bytes, in, NULL, to->value, to, err)) return false;
    for (int i = 0; i < to->n; i++)
        for (size_t k = 0; k < to->value[i].bytes / 4; k++) {
            double v = fabs((double)((float *)to->value[i].data)[k]);
            if (isfinite(v)) to->range = fmax(to->range, v);
            else to->finite = false;
        }
    for (int i = 0; i < DISTURBED && !m->exact; i++) {
        GTensor out[VALUES] = {0};
        Noise noise = {{(uint64_t)i * 7919 + 5}, unit_of(m), least_of(m->dtype)};
        if (!run_ref(bytes, in, &noise, out, NULL, err)) return false;
        for (int k = 0; k < to->n; k++) measure(&to->value[k], &out[k], &to->off[k]), g_tensor_free(&out[k]);
    }
    return true;
}

void expected_free(Expected *x) {
    for (int i = 0; i < x->n; i++) g_tensor_free(&x->value[i]);
}

bool expected_judged(const Model *m, const Expected *x) {
    if (m->exact) return true;
    return (x->finite || m->special) && x->range < (m->dtype == EL_f16 ? 30000 : 1e36);
}

bool expected_agree(const Model *m, const Expected *x, const char *name, const GTensor *got, Buf *err) {
    int at = 0;
    while (at < x->n && strcmp(x->name[at], name) != 0) at++;
    if (at == x->n) return buf_printf(err, "%s: no value of the model", name), false;
    const GTensor *want = &x->value[at];
    bool same = got->elem == want->elem && got->rank == want->rank;
    for (int i = 0; i < want->rank && same; i++) same = got->shape[i] == want->shape[i];
    if (!same) return buf_printf(err, "%s: another type or shape", name), false;
    if (FACTOR * x->off[at] > 0.1 * largest(want)) return true;
    double unit = m->exact ? 0 : unit_of(m), off = FACTOR * x->off[at] + (m->exact ? 0 : least_of(m->dtype));
    for (size_t i = 0; i < want->bytes / 4; i++) {
        double a = (double)((float *)want->data)[i], b = (double)((float *)got->data)[i];
        bool both = !isfinite(a) && !isfinite(b) &&
                    (isnan(a) || isnan(b)); // sums of infinities, in another order: either
        bool fine = both || a == b || (isfinite(a) && fabs(a - b) <= off + 2 * unit * fabs(a));
        if (fine) continue;
        buf_printf(err, "%s[%zu]: %.9g, not %.9g", name, i, b, a);
        if (off > 0) buf_printf(err, " (off by %.3g, allowed %.3g)", fabs(a - b), off + 2 * unit * fabs(a));
        return false;
    }
    return true;
}

// `--verify=values` of a model: which rewrite of its graph changes what it computes.
//
// A rewrite may change rounding, and the order of sums, but neither values beyond that nor the range in which they are
// finite. So the interpreter runs the graph as the model is written, with those rewrites alone that a program cannot do
// without, and again with all:
//
//     required rewrites   --dtype's roundings   ref  -->  outputs
//     all rewrites        --dtype's roundings   ref  -->  outputs: the same within the type's tolerance, and finite wherever
//                                                         those above are
//
// Where they differ, rewrites are left out from the last one on; the last one with which they still differ is named. An
// earlier rewrite alone may differ where a later one undoes the harm: only the whole sequence counts. This is done
// on the inputs that are given, and on these times powers of two from 2^-60 to 2^60: a factor that was moved past the
// rounding to f16, or past a product, leaves f16's range (or f32's) there where the model as written stays within it. The
// difference is taken relative to the largest element of the output. Where the graph was made for values of inputs (scales of
// a Resize, the depth of a OneHot), they are taken as given alone: others would be another graph, of any size.
#include "graph/graph_passes.h"
#include "runtime/internal.h"
#include "runtime/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCALES = 7 };
static const int scale_of[SCALES] = {0, 6, -6, 12, -12, 60, -60};              // exponents

typedef struct Rewrites {
    OnnxModel  *m;
    OnnxImport  how;                  // of inputs times 2^scale
    OnnxGiven  *given;
    GTensor    *in;                   // scaled; data NULL: it is as given
    int         outputs, scale;
    Buf        *err;
} Rewrites;

static double tolerance_of(Elem dtype) { return dtype == EL_bf16 ? 0.1 : dtype == EL_f16 ? 0.03 : 1e-3; }

static int64_t count_of(const GTensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->shape[d];
    return n;
}

static bool give_scaled(Rewrites *r, const OnnxImport *how) {
    for (int i = 0; i < how->ngiven; i++) {
        const GTensor *t = how->given[i].tensor;
        r->given[i] = how->given[i];
        if (!r->scale || !t->data || !elem_is_float(t->elem)) continue;
        if (!g_tensor_convert(t, t->elem, &r->in[i])) return false;
        for (int64_t k = 0, n = count_of(t); k < n; k++)
            elem_set(t->elem, r->in[i].data, k, ldexp(elem_get(t->elem, t->data, k), r->scale));
        r->given[i].tensor = &r->in[i];
    }
    r->how.given = r->given;
    return true;
}

// The graph as a program is made of it, with the optional ones among the first n rewrites.
static Graph *rewritten(Rewrites *r, int n) {
    OnnxImport how = r->how;
    how.kernels = how.donate = false;
    how.rewrites = n + 1;
    Graph *g = onnx_import(r->m, &how, r->err);
    r->how.out_of_scope = how.out_of_scope;
    r->how.bound = how.bound;
    if (g) graph_simplify(g);
    return g;
}

static double largest(const GTensor *t) {
    double most = 0;
    for (int64_t i = 0, n = count_of(t); i < n; i++) {
        double x = fabs(elem_get(t->elem, t->data, i));
        if (isfinite(x) && x > most) most = x;
    }
    return most;
}

// Nothing is asked where the model as written gives no finite number, or one that the type of what is kept does not hold.
static bool same(Rewrites *r, const char *rewrite, int output, const GTensor *is, const GTensor *was) {
    if (is->elem != was->elem || !elem_is_float(is->elem)) return true;
    double most = r->how.dtype == EL_f16 ? 65504 : HUGE_VAL;
    double least = r->how.dtype == EL_f16 ? 0x1p-22 : 0;
    double room = tolerance_of(r->how.tf32 ? EL_f16 : r->how.dtype) * largest(was) + least;
    for (int64_t i = 0, n = count_of(is); i < n; i++) {
        double x = elem_get(is->elem, is->data, i), y = elem_get(was->elem, was->data, i);
        if (!isfinite(y) || fabs(y) > most || fabs(x - y) <= room) continue;
        buf_printf(r->err, "%s: the rewrite `%s` changes output `%s`: element %lld is %.6g with it, and %.6g as written", onnx_path(r->m), rewrite,
                   onnx_output_name(r->m, output), (long long)i, x, y);
        if (r->scale) buf_printf(r->err, " (inputs times 2^%d)", r->scale);
        return false;
    }
    return true;
}

static void drop(Rewrites *r, GTensor *out) {
    for (int k = 0; k < r->outputs; k++) g_tensor_free(&out[k]);
}

// Do the first n rewrites leave the outputs as they are? `how` says what differs.
static bool fine_with(Rewrites *r, int n, const GTensor *was, Buf *how) {
    Graph *g = rewritten(r, n);
    GTensor *is = heap_alloc(sizeof *is * (size_t)(r->outputs + 1));
    Buf *err = r->err;
    bool fine = g && onnx_run_graph(r->m, g, &r->how, is, r->err);
    r->err = how;
    for (int k = 0; k < r->outputs && fine; k++) fine = same(r, graph_pass_info(n)->name, k, &is[k], &was[k]);
    r->err = err;
    drop(r, is);
    heap_free(is);
    return fine;
}

// All n rewrites change an output, as `how` says: with fewer and fewer, until none does.
static void find_guilty(Rewrites *r, int n, const GTensor *was, Buf *how) {
    for (; how->n && n > 1; n--) {
        Buf less = {0};
        if (fine_with(r, n - 1, was, &less) || !less.n) break;
        buf_free(how);
        *how = less;
    }
}

static bool compare_all(Rewrites *r) {
    Graph *g = rewritten(r, 0);
    if (!g) return false;
    GTensor *was = heap_alloc(sizeof *was * (size_t)(r->outputs + 1));
    int n = 0;
    for (int i = 0; i < graph_pass_count; i++) n += graph_pass_rewrites(i);
    Buf how = {0};
    bool fine = onnx_run_graph(r->m, g, &r->how, was, r->err) && fine_with(r, n, was, &how);
    if (!fine) find_guilty(r, n, was, &how);
    if (how.n) buf_add(r->err, how.p, how.n);
    buf_free(&how);
    drop(r, was);
    heap_free(was);
    return fine;
}

bool verify_rewrites(OnnxModel *m, OnnxImport *how, Buf *err) {
    bool fine = true, scales = true;
    size_t n = (size_t)how->ngiven + 1;
    for (int s = 0; s < SCALES && fine && scales; s++) {
        Rewrites r = {.m = m, .how = *how, .outputs = onnx_output_count(m), .scale = scale_of[s], .err = err};
        r.given = heap_alloc(sizeof *r.given * n);
        r.in = heap_alloc(sizeof *r.in * n);
        fine = give_scaled(&r, how) && compare_all(&r);
        how->out_of_scope = r.how.out_of_scope;
        scales = r.how.bound == 0;
        for (int i = 0; i < how->ngiven; i++) g_tensor_free(&r.in[i]);
        heap_free(r.given);
        heap_free(r.in);
    }
    return fine;
}

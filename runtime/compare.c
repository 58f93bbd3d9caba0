// Comparing a result with what was expected. What `~` means is written in tensor.h.

#include "runtime/internal.h"

#include <math.h>
#include <stdlib.h>

double default_rel(Elem a, Elem b) {
    static const double rel[EL_COUNT] = {
        [EL_f64] = 1e-12, [EL_f32] = 1e-5, [EL_f16] = 2e-3, [EL_bf16] = 1.6e-2, [EL_f8e4m3] = 0.13, [EL_f8e5m2] = 0.26,
    };
    return fmax(rel[a], rel[b]);
}

// Bits of the significand with the leading one, 0 for integers; least exponent of a normal number.
static void format_of(Elem e, int *digits, int *emin) {
    *digits = e == EL_f64      ? 53
              : e == EL_f32    ? 24
              : e == EL_f16    ? 11
              : e == EL_bf16   ? 8
              : e == EL_f8e4m3 ? 4
              : e == EL_f8e5m2 ? 3
                               : 0;
    *emin = e == EL_f64 ? -1022 : e == EL_f16 ? -14 : e == EL_f8e4m3 ? -6 : e == EL_f8e5m2 ? -14 : -126;
}

static double ulp_at(double x, Elem a, Elem b) {
    int da, db, ea, eb, e;
    format_of(a, &da, &ea);
    format_of(b, &db, &eb);
    int digits = !da ? db : !db ? da : da < db ? da : db;
    int emin = da && da == digits ? ea : eb;
    if (!digits) return NAN;
    if (x == 0 || !isfinite(x)) e = emin;
    else { frexp(x, &e); e--; if (e < emin) e = emin; }
    return ldexp(1.0, e - digits + 1);
}

static bool same_shape(const HostTensor *a, const HostTensor *b) {
    if (a->rank != b->rank) return false;
    for (int d = 0; d < a->rank; d++) if (a->dim[d] != b->dim[d]) return false;
    return true;
}

static bool holds(AstOp op, int order) {
    switch (op) {
    case OP_lt: return order == -1;
    case OP_le: return order == -1 || order == 0;
    case OP_gt: return order == 1;
    case OP_ge: return order == 1 || order == 0;
    default:    return false;
    }
}

static double rms_of(const HostTensor *t) {
    int64_t n = tensor_count(t), finite = 0;
    double  sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = elem_get(t->elem, t->data, i);
        if (isfinite(v)) { sum += v * v; finite++; }
    }
    return finite ? sqrt(sum / (double)finite) : 0;
}

CompareResult tensor_compare(const HostTensor *got, const HostTensor *expected, const CompareSpec *spec) {
    CompareResult r = {.worst = -1, .ulp = NAN};
    bool one_got = got->rank == 0, one_exp = expected->rank == 0;
    if (!one_got && !one_exp && !same_shape(got, expected)) { r.shape_error = "the shapes differ"; return r; }
    r.count = one_got ? tensor_count(expected) : tensor_count(got);

    double rel = spec->rel, floor_at = 0;
    if (spec->op == OP_approx) {
        if (rel == 0 && spec->abs == 0) rel = default_rel(got->elem, expected->elem);
        floor_at = rms_of(expected);
    }
    double worst = -1, num = 0, den = 0;
    for (int64_t i = 0; i < r.count; i++) {
        int64_t ig = one_got ? 0 : i, ie = one_exp ? 0 : i;
        Number  x = elem_get_number(got->elem, got->data, ig), y = elem_get_number(expected->elem, expected->data, ie);
        double  g = x.f, e = y.f;
        int     order = number_order(x, y);
        bool    same = order == 0 || (isnan(g) && isnan(e)), finite = isfinite(g) && isfinite(e);
        double  error = same ? 0 : finite ? fabs(g - e) : INFINITY, allowed = 0;
        // integers beyond a double
        if (!same && finite && error == 0) error = fabs((double)(int64_t)((uint64_t)x.i - (uint64_t)y.i));
        if (spec->op == OP_approx && finite) {
            allowed = spec->abs + rel * fmax(fabs(e), floor_at);
            if (spec->bound_got)      allowed += spec->bound_got[ig];
            if (spec->bound_expected) allowed += spec->bound_expected[ie];
            if (isnan(allowed)) allowed = 0;
        }
        if (finite) {
            num += (g - e) * (g - e);
            den += e * e;
            if (error > r.max_error) r.max_error = error;
        }
        bool bad = spec->op == OP_approx || spec->op == OP_eq ? !(error <= allowed) : !holds(spec->op, order);
        if (bad) r.differ++;
        double badness = !bad                                         ? 0
                         : spec->op != OP_approx && spec->op != OP_eq ? 1
                         : isinf(error)                               ? INFINITY
                         : allowed > 0                                ? error / allowed
                         : error > 0                                  ? 1e300
                                                                      : 0;
        if (badness < worst || (badness == worst && !(error > r.error))) continue;
        worst = badness;
        r.worst = i; r.got = x; r.expected = y; r.error = error; r.allowed = allowed;
    }
    r.nmse = den > 0 ? num / den : num > 0 ? INFINITY : 0;
    if (r.worst >= 0 && isfinite(r.error)) r.ulp = r.error / ulp_at(r.expected.f, got->elem, expected->elem);
    r.ok = r.differ == 0;
    return r;
}

static void index_text(const HostTensor *t, int64_t i, Buf *out) {
    int64_t at[MAX_RANK];
    for (int d = t->rank - 1; d >= 0; d--) { at[d] = t->dim[d] ? i % t->dim[d] : 0; i = t->dim[d] ? i / t->dim[d] : 0; }
    buf_putc(out, '[');
    for (int d = 0; d < t->rank; d++) buf_printf(out, "%s%lld", d ? ", " : "", (long long)at[d]);
    buf_putc(out, ']');
}

static void number_text(Number x, Buf *out) {
    if (!number_whole(x) || fabs(x.f) < 1e9) buf_printf(out, "%.9g", x.f);
    else if (x.f >= 0) buf_printf(out, "%llu", (unsigned long long)x.i);
    else buf_printf(out, "%lld", (long long)x.i);
}

void compare_text(const CompareResult *r, const HostTensor *got, const CompareSpec *spec, Buf *out) {
    if (r->shape_error) { buf_puts(out, r->shape_error); return; }
    buf_printf(out, "%lld of %lld element%s %s", (long long)r->differ, (long long)r->count, r->count == 1 ? "" : "s",
               spec->op == OP_approx ? "out of bounds" : spec->op == OP_eq ? "differ" : "wrong");
    if (r->worst < 0) return;
    buf_puts(out, "; worst at ");
    index_text(got, r->worst, out);
    bool order = spec->op != OP_approx && spec->op != OP_eq;
    buf_puts(out, ": ");
    number_text(r->got, out);
    if (order) buf_printf(out, " %s ", op_spellings[spec->op]);
    else buf_puts(out, ", expected ");
    number_text(r->expected, out);
    if (order) { buf_puts(out, " does not hold"); return; }
    if (isfinite(r->error)) buf_printf(out, " (error %.3g, allowed %.3g", r->error, r->allowed);
    else buf_puts(out, " (one is not finite");
    if (isfinite(r->ulp)) buf_printf(out, ", %.3g ulp", r->ulp);
    buf_printf(out, "); NMSE %.3g", r->nmse);
}

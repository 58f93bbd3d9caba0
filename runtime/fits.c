// Whether a number that somebody wrote fits the element type that it is for.

#include "runtime/bind.h"

#include <math.h>

static double rounded(Elem e, double x) {
    switch (e) {
    case EL_f64:    return x;
    case EL_f16:    return f16_to_f32(f16_from_f64(x));
    case EL_bf16:   return bf16_to_f32(bf16_from_f64(x));
    case EL_f8e4m3: return e4m3_to_f32(e4m3_from_f64(x));
    case EL_f8e5m2: return e5m2_to_f32(e5m2_from_f64(x));
    default:        return (double)(float)x;
    }
}

bool number_fits(Elem e, bool is_float, Number *x, Buf *err) {
    if (elem_is_float(e)) {
        double at = rounded(e, x->f);
        if (isfinite(x->f) && isinf(at)) return buf_printf(err, " is past what %s holds", elem_name(e)), false;
        if (elem_is_storage(e)) *x = number_double(at);
        return true;
    }
    if (is_float) return buf_printf(err, " is %.17g, no integer (%s)", x->f, elem_name(e)), false;
    int      bits = elem_bits(e);
    bool     sgn = elem_is_signed(e);
    uint64_t top = e == EL_bool ? 1 : UINT64_MAX >> (64 - bits + sgn);
    int64_t  low = sgn ? -(int64_t)top - 1 : 0;
    bool     large = x->f > 0 && x->i < 0;                       // from 2^63 on
    if (x->f < 0 ? x->i >= low : (uint64_t)x->i <= top) return true;
    if (large) buf_printf(err, " is %llu", (unsigned long long)x->i);
    else buf_printf(err, " is %lld", (long long)x->i);
    buf_printf(err, "; %s holds %lld to %llu", elem_name(e), (long long)low, (unsigned long long)top);
    return false;
}

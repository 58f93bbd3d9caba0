// The functions of lower/math.c carried out on the host, 64 lanes at a time.
//
// Each value is an array of lanes, each step a loop over them, so that what a step costs besides its
// arithmetic is paid once in 64 elements. The rare path of a function runs if any lane needs it, on
// all lanes, and is selected from. Steps that are rounded once are C's own operations on float and
// double, and fma(); the approximate ones are computed in double and rounded.
//
// Needs: IEEE floats evaluated in their own precision (FLT_EVAL_METHOD 0), round to nearest.

#include "lower/math.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lang/heap.h"
#include "lang/number.h"

enum {
    LANES  = 64,
    VALUES = 512,                  // the longest function, f64 sin, has 260
};

typedef struct Host {
    MathBuilder base;
    char       *pool;              // VALUES arrays of `lanes` 8-byte lanes
    int         used;
    size_t      lanes;
    MathNudge   nudge;
} Host;

// ------------------------------------------------------------------------ approximate steps

static float flush(float x) {
    return f32_from((f32_bits(x) & 0x7f800000u) ? f32_bits(x) : f32_bits(x) & 0x80000000u);
}

// In double; every caller rounds it.
static double exact(MathOp op, double x, double y) {
    switch (op) {
    case MOP_ex2: case MOP_ex2_ftz:   return exp2(x);
    case MOP_lg2_ftz:                 return log2(x);
    case MOP_rcp: case MOP_rcp_ftz:   return 1 / x;
    case MOP_rsq: case MOP_rsq_ftz:   return 1 / sqrt(x);
    case MOP_sqrt: case MOP_sqrt_ftz: return sqrt(x);
    case MOP_sin_ftz:                 return sin(x);
    case MOP_cos_ftz:                 return cos(x);
    case MOP_tanh:                    return tanh(x);
    case MOP_div_full: case MOP_div_ftz: return x / y;
    default: assert(!"not an approximate step"); return 0;
    }
}

static bool flushes(MathOp op) {
    switch (op) {
    case MOP_ex2_ftz: case MOP_lg2_ftz: case MOP_rcp_ftz: case MOP_rsq_ftz: case MOP_sqrt_ftz:
    case MOP_sin_ftz: case MOP_cos_ftz: case MOP_div_ftz: return true;
    default: return false;
    }
}

static float math_approx_f32(MathOp op, float x, float y) {
    bool ftz = flushes(op);
    if (ftz) { x = flush(x); y = flush(y); }
    if (op == MOP_div_ftz && fabsf(y) > 0x1p126f && fabsf(y) < INFINITY) return x * (y > 0 ? 0.0f : -0.0f);
    float r = op == MOP_div_full || op == MOP_div_ftz ? x / y : (float)exact(op, x, y);
    return ftz ? flush(r) : r;
}

// `y`, `step` floats further from 0.
static float further(float y, int step) {
    int64_t mag = (int64_t)(f32_bits(y) & 0x7fffffffu) + step;
    mag = mag < 0 ? 0 : mag > 0x7f800000 ? 0x7f800000 : mag;
    return copysignf(f32_from((uint32_t)mag), y);
}

// The result of approximate step `op` of x, off by all that the PTX ISA (9.1) allows it.
static float off(MathOp op, float x, float y, int direction) {
    double d = direction;
    if (direction == 0 || !isfinite(y) || y == 0) return y;
    switch (op) {
    case MOP_ex2: case MOP_ex2_ftz:      return further(y, 2 * direction);
    case MOP_rcp: case MOP_rcp_ftz:      return further(y, direction);
    case MOP_div_full: case MOP_div_ftz: return further(y, 2 * direction);
    case MOP_sqrt: case MOP_sqrt_ftz:    return (float)(sqrt((double)x) * (1 + d * 0x1p-23));
    case MOP_rsq: case MOP_rsq_ftz:      return (float)(1 / sqrt((double)x) * (1 + d * exp2(-22.9)));
    case MOP_lg2_ftz:
        return (float)(log2((double)x) + d * 0x1p-22 * (x > 0.5f && x < 2 ? 1 : fabs((double)y)));
    case MOP_sin_ftz: case MOP_cos_ftz:  return (float)(y + d * exp2(-20.5));
    case MOP_tanh:                       return (float)(y * (1 + d * 0x1p-11));
    default:                             return y;
    }
}

// -------------------------------------------------------------------------------- the builder

static void *fresh(Host *h) {
    assert(h->used < VALUES && "a function longer than VALUES");
    return h->pool + (size_t)h->used++ * h->lanes * 8;
}

static bool is_wide(MathType t) {
    return t == MT_I64 || t == MT_F64;
}

static MathVal host_iconst(MathBuilder *b, MathType type, uint64_t value) {
    Host *h = (Host *)b;
    void *v = fresh(h);
    for (size_t i = 0; i < h->lanes; i++)
        if (is_wide(type)) ((uint64_t *)v)[i] = value;
        else               ((uint32_t *)v)[i] = (uint32_t)value;
    return v;
}

static MathVal host_fconst(MathBuilder *b, MathType type, double value) {
    assert((type == MT_F64 || (double)(float)value == value) && "a constant that f32 cannot hold");
    return host_iconst(b, type, type == MT_F64 ? f64_bits(value) : f32_bits((float)value));
}

typedef void FmaLanes(void *out, const void *x, const void *y, const void *z, size_t n, bool wide);

static inline void fma_body(void *out, const void *x, const void *y, const void *z, size_t n, bool wide) {
    if (wide) {
        const double *a = x, *b = y, *c = z;
        double *r = out;
        for (size_t i = 0; i < n; i++) r[i] = fma(a[i], b[i], c[i]);
    } else {
        const float *a = x, *b = y, *c = z;
        float *r = out;
        for (size_t i = 0; i < n; i++) r[i] = fmaf(a[i], b[i], c[i]);
    }
}

static void fma_portable(void *out, const void *x, const void *y, const void *z, size_t n, bool wide) {
    fma_body(out, x, y, z, n, wide);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2,fma")))
static void fma_x86(void *out, const void *x, const void *y, const void *z, size_t n, bool wide) {
    if (wide) {
        const double *a = x, *b = y, *c = z;
        double *r = out;
        for (size_t i = 0; i < n; i++) r[i] = __builtin_fma(a[i], b[i], c[i]);
    } else {
        const float *a = x, *b = y, *c = z;
        float *r = out;
        for (size_t i = 0; i < n; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    }
}

static FmaLanes *fma_lanes(void) {
    return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2") ? fma_x86 : fma_portable;
}
#else
static FmaLanes *fma_lanes(void) { return fma_portable; }
#endif

static float saturate(float x) {
    return x > 0 ? (x < 1 ? x : 1) : 0;                // NaN gives 0
}

static uint64_t mul_high(uint64_t a, uint64_t b) {
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t mid = ah * bl + (al * bl >> 32), low = al * bh + (uint32_t)mid;
    return ah * bh + (mid >> 32) + (low >> 32);
}

static int leading_zeros(uint64_t a, int width) {
    int n = 0;
    while (n < width && !(a >> (width - 1 - n) & 1)) n++;
    return n;
}

// In the rows below a, b, c are the operands' lanes, of C type `from`; the result's is `to`.
#define LANE_LOOP(to, from, expr) do {                                          \
        const from *a = x, *b = y, *c = z;                                      \
        to *r = out;                                                            \
        (void)a, (void)b, (void)c;                                              \
        for (size_t i = 0; i < n; i++) r[i] = (to)(expr);                       \
    } while (0)
#define FLOATS(expr) do { if (wide) LANE_LOOP(double, double, expr);            \
                          else LANE_LOOP(float, float, expr); } while (0)
#define INTS(expr)   do { if (wide) LANE_LOOP(uint64_t, uint64_t, expr);        \
                          else LANE_LOOP(uint32_t, uint32_t, expr); } while (0)
#define F_TEST(expr) do { if (wide) LANE_LOOP(uint32_t, double, expr);          \
                          else LANE_LOOP(uint32_t, float, expr); } while (0)
#define I_TEST(expr) do { if (wide) LANE_LOOP(uint32_t, uint64_t, expr);        \
                          else LANE_LOOP(uint32_t, uint32_t, expr); } while (0)

static MathVal host_op(MathBuilder *builder, MathOp op, MathType type, MathVal x, MathVal y, MathVal z) {
    Host  *h = (Host *)builder;
    size_t n = h->lanes;
    bool   wide = is_wide(type);
    int    width = wide ? 64 : 32;
    void  *out = fresh(h);
    switch (op) {
    case MOP_fadd:     FLOATS(a[i] + b[i]); break;
    case MOP_fsub:     FLOATS(a[i] - b[i]); break;
    case MOP_fmul:     FLOATS(a[i] * b[i]); break;
    case MOP_fma:      fma_lanes()(out, x, y, z, n, wide); break;
    case MOP_fma_sat:
        fma_lanes()(out, x, y, z, n, false);
        for (size_t i = 0; i < n; i++) ((float *)out)[i] = saturate(((float *)out)[i]);
        break;
    case MOP_fneg:     FLOATS(-a[i]); break;
    case MOP_fmin:
        FLOATS(a[i] < b[i] || b[i] != b[i] ? a[i] : b[i]);       // never asked about -0 and +0
        break;
    case MOP_fabs:     INTS(a[i] << 1 >> 1); break;
    case MOP_copysign: INTS((a[i] << 1 >> 1) | b[i] >> (width - 1) << (width - 1)); break;
    case MOP_flt:      F_TEST(a[i] < b[i]); break;
    case MOP_fge:      F_TEST(a[i] >= b[i]); break;
    case MOP_feq:      F_TEST(a[i] == b[i]); break;
    case MOP_iadd:     INTS(a[i] + b[i]); break;
    case MOP_isub:     INTS(a[i] - b[i]); break;
    case MOP_imul:     INTS(a[i] * b[i]); break;
    case MOP_umulhi:
        if (wide) LANE_LOOP(uint64_t, uint64_t, mul_high(a[i], b[i]));
        else      LANE_LOOP(uint32_t, uint32_t, (uint64_t)a[i] * b[i] >> 32);
        break;
    case MOP_iand:     INTS(a[i] & b[i]); break;
    case MOP_ior:      INTS(a[i] | b[i]); break;
    case MOP_ixor:     INTS(a[i] ^ b[i]); break;
    case MOP_shl:      INTS(a[i] << b[i]); break;
    case MOP_lshr:     INTS(a[i] >> b[i]); break;
    case MOP_ashr:
        if (wide) LANE_LOOP(int64_t, int64_t, a[i] >> b[i]);
        else      LANE_LOOP(int32_t, int32_t, a[i] >> b[i]);
        break;
    case MOP_fshl:
        if (wide) LANE_LOOP(uint64_t, uint64_t, a[i] << c[i] | b[i] >> 1 >> (63 - c[i]));
        else      LANE_LOOP(uint32_t, uint32_t, a[i] << c[i] | b[i] >> 1 >> (31 - c[i]));
        break;
    case MOP_clz:      INTS(leading_zeros(a[i], width)); break;
    case MOP_ieq:      I_TEST(a[i] == b[i]); break;
    case MOP_ult:      I_TEST(a[i] < b[i]); break;
    case MOP_select:
        for (size_t i = 0; i < n; i++)
            if (wide) ((uint64_t *)out)[i] = ((uint64_t *)(((uint32_t *)x)[i] ? y : z))[i];
            else      ((uint32_t *)out)[i] = ((uint32_t *)(((uint32_t *)x)[i] ? y : z))[i];
        break;
    case MOP_bits: case MOP_unbits: INTS(a[i]); break;
    case MOP_i2f:
        if (wide) LANE_LOOP(double, int64_t, a[i]);
        else      LANE_LOOP(float, int32_t, a[i]);
        break;
    case MOP_zext:     LANE_LOOP(uint64_t, uint32_t, a[i]); break;
    case MOP_trunc:    LANE_LOOP(uint32_t, uint64_t, a[i]); break;
    case MOP_narrow:   LANE_LOOP(float, double, a[i]); break;
    case MOP_ex2: case MOP_ex2_ftz:
        LANE_LOOP(float, float, off(op, a[i], math_approx_f32(op, a[i], 0), h->nudge.ex2));
        break;
    case MOP_lg2_ftz: case MOP_rcp: case MOP_rcp_ftz: case MOP_rsq: case MOP_rsq_ftz: case MOP_sqrt:
    case MOP_sqrt_ftz: case MOP_sin_ftz: case MOP_cos_ftz: case MOP_tanh:
        LANE_LOOP(float, float, off(op, a[i], math_approx_f32(op, a[i], 0), h->nudge.other));
        break;
    case MOP_div_full: case MOP_div_ftz:
        LANE_LOOP(float, float, off(op, a[i], math_approx_f32(op, a[i], b[i]), h->nudge.other));
        break;
    case MOP_div_rn:   FLOATS(a[i] / b[i]); break;
    case MOP_rcp_rn:   FLOATS(1 / a[i]); break;
    case MOP_sqrt_rn:
        if (wide) LANE_LOOP(double, double, sqrt(a[i]));
        else      LANE_LOOP(float, float, sqrtf(a[i]));
        break;
    case MOP_COUNT:    assert(!"not a step"); break;
    }
    return out;
}

static void host_rarely(MathBuilder *b, MathVal cond, MathBody *body, MathVal *vals,
                        const MathType *types, int count, const void *env) {
    Host *h = (Host *)b;
    bool any = false;
    for (size_t i = 0; i < h->lanes; i++) any |= ((uint32_t *)cond)[i] != 0;
    if (!any) return;
    MathVal before[4];
    assert(count <= 4 && "more results of a rare path than anyone needed so far");
    memcpy(before, vals, (size_t)count * sizeof *vals);
    body(b, vals, env);
    for (int v = 0; v < count; v++)
        vals[v] = host_op(b, MOP_select, types[v], cond, vals[v], before[v]);
}

// Lanes that are through keep what they have. The steps of each turn take the room of those before.
static void host_repeat(MathBuilder *b, MathBody *body, MathVal *vals, const MathType *types, int count,
                        const void *env) {
    Host *h = (Host *)b;
    assert(count <= 4 && "more results of a loop than anyone needed so far");
    bool wide_flag = is_wide(types[0]), all = true, again = true;
    for (int v = 0; v < count; v++) {
        void *own = fresh(h);
        memcpy(own, vals[v], h->lanes * 8);
        vals[v] = own;
    }
    for (int used = h->used; again; h->used = used, all = false) {
        MathVal next[4];
        again = false;
        memcpy(next, vals, (size_t)count * sizeof *vals);
        body(b, next, env);
        for (size_t i = 0; i < h->lanes; i++) {
            bool on = all || (wide_flag ? ((uint64_t *)vals[0])[i] != 0 : ((uint32_t *)vals[0])[i] != 0);
            for (int v = count - 1; on && v >= 0; v--)
                if (is_wide(types[v])) ((uint64_t *)vals[v])[i] = ((uint64_t *)next[v])[i];
                else                   ((uint32_t *)vals[v])[i] = ((uint32_t *)next[v])[i];
            again |= wide_flag ? ((uint64_t *)vals[0])[i] != 0 : ((uint32_t *)vals[0])[i] != 0;
        }
    }
}

static void run(MathFn fn, MathMode mode, MathType type, const void *x, const void *y, void *out,
                size_t n, MathNudge nudge) {
    size_t size = type == MT_F64 ? 8 : 4, lanes = n < LANES ? n : LANES;
    if (n == 0) return;
    Host h = {
        .base  = {.fconst = host_fconst, .iconst = host_iconst, .op = host_op, .rarely = host_rarely,
                  .repeat = host_repeat},
        .pool  = heap_room(VALUES * lanes * 8),
        .nudge = nudge,
    };
    for (size_t done = 0; done < n; done += lanes) {
        h.lanes = n - done < lanes ? n - done : lanes;
        h.used = 0;
        void *a = fresh(&h), *b = fresh(&h);
        memcpy(a, (const char *)x + done * size, h.lanes * size);
        if (y) memcpy(b, (const char *)y + done * size, h.lanes * size);
        const void *r = math_build(&h.base, fn, type, mode, a, y ? b : NULL);
        memcpy((char *)out + done * size, r, h.lanes * size);
    }
    heap_free(h.pool);
}

void math_host_nudged_f32(MathFn fn, MathMode mode, const float *x, const float *y, float *out,
                          size_t n, MathNudge nudge) {
    run(fn, mode, MT_F32, x, y, out, n, nudge);
    for (size_t i = 0; i < n; i++)
        if (out[i] != out[i]) out[i] = f32_from(0x7fffffff);
}

void math_host_f32(MathFn fn, MathMode mode, const float *x, const float *y, float *out, size_t n) {
    math_host_nudged_f32(fn, mode, x, y, out, n, (MathNudge){0, 0});
}

void math_host_f64(MathFn fn, MathMode mode, const double *x, const double *y, double *out, size_t n) {
    run(fn, mode, MT_F64, x, y, out, n, (MathNudge){0, 0});
    for (size_t i = 0; i < n; i++)
        if (out[i] != out[i]) out[i] = f64_from(0x7fffffffffffffff);
}

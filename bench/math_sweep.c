// Measures the error of the functions of lower/math.c on the host, over all f32 inputs or every n-th,
// and of their f64 forms over random ones. The reference is the C library in the next wider type.
//
//     cc -O2 -I. bench/math_sweep.c lower/math.c lower/math_host.c lang/number.c -lm -lpthread
//     ./a.out                       every 257th input, about a minute on two cores
//     ./a.out --stride=1 exp tanh   all 2^32 inputs of two functions
//
// Each function is swept with its approximate steps correctly rounded, then with them off by all that
// their documentation allows, in each combination of directions ("worst"). Columns:
//
//     ulp       largest |result - exact|, in units of the exact result's last place
//     floats    largest distance from the correctly rounded result, counted in floats
//     tiny      largest |result - exact| where |exact| < 2^-126, as a multiple of 2^-126
//     wrong     results whose NaN, infinity or signed zero is not the exact one's
//     at        an input with the largest `ulp`

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/number.h"
#include "lower/math.h"

enum { BATCH = 4096, MAX_THREADS = 64 };

typedef struct Tally {
    double   ulp, tiny;
    uint64_t floats, wrong, count;
    uint64_t at, at_wrong;
} Tally;

typedef struct Job {
    MathFn    fn;
    MathMode  mode;
    MathNudge nudge;
    uint64_t  first, last, stride;
    Tally     tally;
} Job;

static double exact32(MathFn fn, double x, double y)
{
    switch (fn) {
    case MATH_exp:     return exp(x);
    case MATH_exp2:    return exp2(x);
    case MATH_log:     return log(x);
    case MATH_log2:    return log2(x);
    case MATH_sqrt:    return sqrt(x);
    case MATH_rsqrt:   return 1 / sqrt(x);
    case MATH_recip:   return 1 / x;
    case MATH_div:     return x / y;
    case MATH_sin:     return sin(x);
    case MATH_cos:     return cos(x);
    case MATH_tanh:    return tanh(x);
    case MATH_erf:     return erf(x);
    case MATH_sigmoid: return 1 / (1 + exp(-x));
    case MATH_FN_COUNT: break;
    }
    return 0;
}

static long double exact64(MathFn fn, long double x, long double y)
{
    switch (fn) {
    case MATH_exp:     return expl(x);
    case MATH_exp2:    return exp2l(x);
    case MATH_log:     return logl(x);
    case MATH_log2:    return log2l(x);
    case MATH_sqrt:    return sqrtl(x);
    case MATH_rsqrt:   return 1 / sqrtl(x);
    case MATH_recip:   return 1 / x;
    case MATH_div:     return x / y;
    case MATH_sin:     return sinl(x);
    case MATH_cos:     return cosl(x);
    case MATH_tanh:    return tanhl(x);
    case MATH_erf:     return erfl(x);
    case MATH_sigmoid: return 1 / (1 + expl(-x));
    case MATH_FN_COUNT: break;
    }
    return 0;
}

static uint64_t scramble(uint64_t x)
{
    x ^= x >> 33;  x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;  x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

// Where a float stands among all floats of its kind, in order.
static int64_t rank32(float x)
{
    int64_t m = f32_bits(x) & 0x7fffffff;
    return signbit(x) ? -m : m;
}

static int64_t rank64(double x)
{
    int64_t m = (int64_t)(f64_bits(x) & INT64_MAX);
    return signbit(x) ? -m : m;
}

static void wrong(Tally *t, uint64_t at)
{
    t->wrong++;
    t->at_wrong = at;
}

static void judge32(Tally *t, float got, double exact, uint64_t at)
{
    float near = (float)exact;
    t->count++;
    if (isnan(exact) || isnan(got) || exact == 0 || isinf(exact)) {
        bool same = isnan(exact) ? isnan(got) : got == near && !signbit(got) == !signbit(near);
        if (!same) wrong(t, at);
        return;
    }
    double value = isinf(got) ? copysign(0x1p128, got) : got;
    double error = fabs(value - exact);
    if (fabs(exact) < 0x1p-126) {
        t->tiny = fmax(t->tiny, error * 0x1p126);
        return;
    }
    int      e = ilogb(exact);
    double   ulp = ldexp(error, 23 - (e > 127 ? 127 : e));
    uint64_t floats = (uint64_t)llabs(rank32(got) - rank32(near));
    if (fabs(exact) >= 0x1.fffffep127 && isinf(got)) ulp = 0;      // overflow, rounded or not
    if (floats > t->floats) t->floats = floats;
    if (ulp > t->ulp) { t->ulp = ulp; t->at = at; }
}

static void judge64(Tally *t, double got, long double exact, uint64_t at)
{
    double near = (double)exact;
    t->count++;
    if (isnan(exact) || isnan(got) || exact == 0 || isinf(near) || isinf(got)) {
        bool same = isnan(exact) ? isnan(got) : got == near && !signbit(got) == !signbit(near);
        if (!same) wrong(t, at);
        return;
    }
    long double error = fabsl(got - exact);
    if (fabsl(exact) < 0x1p-1022L) {
        t->tiny = fmax(t->tiny, (double)ldexpl(error, 1022));
        return;
    }
    double   ulp = (double)ldexpl(error, 52 - ilogbl(exact));
    uint64_t floats = (uint64_t)llabs(rank64(got) - rank64(near));
    if (floats > t->floats) t->floats = floats;
    if (ulp > t->ulp) { t->ulp = ulp; t->at = at; }
}

static void *sweep32(void *arg)
{
    Job  *j = arg;
    float x[BATCH], y[BATCH], out[BATCH];
    bool  two = math_fns[j->fn].args == 2;
    for (uint64_t u = j->first; u < j->last;) {
        size_t n = 0;
        for (; n < BATCH && u < j->last; n++, u += j->stride) {
            x[n] = f32_from((uint32_t)u);
            y[n] = f32_from((uint32_t)scramble(u));
        }
        math_host_nudged_f32(j->fn, j->mode, x, two ? y : NULL, out, n, j->nudge);
        for (size_t i = 0; i < n; i++)
            judge32(&j->tally, out[i], exact32(j->fn, x[i], y[i]), f32_bits(x[i]));
    }
    return NULL;
}

// Random patterns, and as many numbers of ordinary size (2^-20 .. 2^9).
static void *sweep64(void *arg)
{
    Job   *j = arg;
    double x[BATCH], y[BATCH], out[BATCH];
    bool   two = math_fns[j->fn].args == 2;
    for (uint64_t u = j->first; u < j->last;) {
        size_t n = 0;
        for (; n < BATCH && u < j->last; n++, u++) {
            uint64_t r = scramble(u + 1), exponent = 1003 + (r >> 52) % 29;
            x[n] = f64_from(u & 1 ? r : (r & 0x800fffffffffffffu) | exponent << 52);
            y[n] = f64_from(scramble(r));
        }
        math_host_f64(j->fn, j->mode, x, two ? y : NULL, out, n);
        for (size_t i = 0; i < n; i++)
            judge64(&j->tally, out[i], exact64(j->fn, x[i], y[i]), f64_bits(x[i]));
    }
    return NULL;
}

static Tally sweep(Job job, void *(*body)(void *), int threads)
{
    static Job jobs[MAX_THREADS];
    pthread_t  ids[MAX_THREADS];
    uint64_t   all = job.last / job.stride + 1, done = 0;
    Tally      sum = {0};
    for (int i = 0; i < threads; i++) {
        uint64_t until = all * (uint64_t)(i + 1) / (uint64_t)threads;
        jobs[i] = job;
        jobs[i].first = done * job.stride;
        jobs[i].last = until * job.stride < job.last ? until * job.stride : job.last;
        done = until;
        if (pthread_create(&ids[i], NULL, body, &jobs[i])) abort();
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        const Tally *t = &jobs[i].tally;
        if (t->ulp > sum.ulp) { sum.ulp = t->ulp; sum.at = t->at; }
        if (t->floats > sum.floats) sum.floats = t->floats;
        if (t->wrong) sum.at_wrong = t->at_wrong;
        sum.tiny = fmax(sum.tiny, t->tiny);
        sum.wrong += t->wrong;
        sum.count += t->count;
    }
    return sum;
}

static void print(const char *name, const char *what, Tally t, int digits)
{
    printf("%-8s %-8s %10.3f %10llu %9.2g %8llu  %0*llx", name, what, t.ulp,
           (unsigned long long)t.floats, t.tiny, (unsigned long long)t.wrong, digits,
           (unsigned long long)t.at);
    if (t.wrong) printf("  wrong at %0*llx", digits, (unsigned long long)t.at_wrong);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"default", "fast", "precise"};
    uint64_t stride = 257, samples = 2000000;
    int      threads = 2;
    bool     chosen[MATH_FN_COUNT] = {false}, some = false;
    for (int i = 1; i < argc; i++) {
        bool known = false;
        for (int f = 0; f < MATH_FN_COUNT; f++)
            if (!strcmp(argv[i], math_fns[f].name)) chosen[f] = some = known = true;
        if (!strncmp(argv[i], "--stride=", 9))  { stride = strtoull(argv[i] + 9, NULL, 0); known = true; }
        if (!strncmp(argv[i], "--samples=", 10)) { samples = strtoull(argv[i] + 10, NULL, 0); known = true; }
        if (!strncmp(argv[i], "--threads=", 10)) { threads = atoi(argv[i] + 10); known = true; }
        if (!known || stride == 0 || threads < 1 || threads > MAX_THREADS) {
            fprintf(stderr, "usage: %s [--stride=N] [--samples=N] [--threads=N] [function...]\n", argv[0]);
            return 2;
        }
    }
    printf("%-8s %-8s %10s %10s %9s %8s  at\n", "function", "steps", "ulp", "floats", "tiny", "wrong");
    for (int f = 0; f < MATH_FN_COUNT; f++) {
        if (some && !chosen[f]) continue;
        const char *name = math_fns[f].name;
        Job job = {.fn = (MathFn)f, .last = 1ull << 32, .stride = stride};
        for (int m = 0; m < MATH_MODES; m++) {
            bool same = m == MATH_PRECISE && f != MATH_div && f != MATH_sqrt && f != MATH_recip;
            if (same) continue;
            job.mode = (MathMode)m;
            print(name, modes[m], sweep(job, sweep32, threads), 8);
        }
        job.mode = MATH_DEFAULT;
        Tally worst = {0};
        for (int d = 0; d < 4; d++) {
            job.nudge = (MathNudge){d & 1 ? 1 : -1, d & 2 ? 1 : -1};
            Tally t = sweep(job, sweep32, threads);
            if (t.ulp > worst.ulp) worst = t;
        }
        print(name, "worst", worst, 8);
        job = (Job){.fn = (MathFn)f, .last = samples, .stride = 1};
        if (samples) print(name, "f64", sweep(job, sweep64, threads), 16);
    }
    return 0;
}

// Measures the error of the functions of lower/math.c on the host, over all f32 inputs or every n-th,
// and of their f64 forms over random ones. The reference is the C library in the next wider type.
//
//     cc -O2 -I. bench/math_*.c lower/math.c lower/math_host.c lang/number.c -lm -lpthread -ldl
//     ./a.out                       every 1021st input, some seconds
//     ./a.out --stride=1 exp tanh   all 2^32 inputs of two functions
//     ./a.out --gpu --stride=1      the same arithmetic as PTX, on a GPU
//     ./a.out --ptx                 prints that PTX
//
// On the host each function is swept with its approximate steps correctly rounded, then with them off
// by all that their documentation allows, in each combination of directions ("worst"). On a GPU those
// steps are what they are; `--bits` runs the host too and counts the results that differ. Columns:
//
//     ulp       largest |result - exact|, in units of the exact result's last place
//     floats    largest distance from the correctly rounded result, counted in floats
//     tiny      largest |result - exact| where |exact| < 2^-126, as a multiple of 2^-126
//     wrong     results whose NaN, infinity or signed zero is not the exact one's
//     differ    results of the GPU that are not the host's, bit by bit
//     at        an input with the largest `ulp`
//
// Fast forms flush subnormals, so those are left out of their rows.

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/math_gpu.h"
#include "lang/number.h"
#include "lower/math.h"
#include "tests/lower/math_exact.h"

enum { MAX_THREADS = 64 };

typedef struct Tally {
    double   ulp, tiny;
    uint64_t floats, wrong, differ, count;
    uint64_t at, at_wrong;
} Tally;

typedef struct Job {
    MathFn    fn;
    MathMode  mode;
    MathNudge nudge;
    uint64_t  first, last, stride;
    MathGpu  *gpu;                 // NULL: the host
    bool      bits;
    Tally     tally;
} Job;

static uint64_t scramble(uint64_t x) {
    x ^= x >> 33;  x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;  x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

static void wrong(Tally *t, uint64_t at) {
    t->wrong++;
    t->at_wrong = at;
}

// Does a fast form leave its stated error here?
static bool flushed(float x, float y, double exact) {
    return fabsf(x) < 0x1p-126f || fabsf(y) < 0x1p-126f || fabsf(y) > 0x1p126f || fabs(exact) < 0x1p-126;
}

static void judge32(Tally *t, float got, double exact, uint64_t at) {
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

static void judge64(Tally *t, double got, long double exact, uint64_t at) {
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

// Room for a batch: inputs, results, the host's results.
static size_t batch_of(const Job *j) { return j->gpu ? 1 << 20 : 4096; }

static void *room(size_t n, size_t size) {
    void *p = heap_try(4 * n * size);
    if (!p) abort();
    return p;
}

static void *sweep32(void *arg) {
    Job   *j = arg;
    size_t batch = batch_of(j);
    float *x = room(batch, sizeof *x), *y = x + batch, *out = y + batch, *host = out + batch;
    bool   two = math_fns[j->fn].args == 2;
    for (uint64_t u = j->first; u < j->last;) {
        size_t n = 0;
        for (; n < batch && u < j->last; n++, u += j->stride) {
            x[n] = f32_from((uint32_t)u);
            y[n] = f32_from((uint32_t)scramble(u));
        }
        if (!j->gpu) math_host_nudged_f32(j->fn, j->mode, x, two ? y : NULL, out, n, j->nudge);
        else if (!math_gpu_run(j->gpu, j->fn, MT_F32, j->mode, x, two ? y : NULL, out, n)) abort();
        for (size_t i = 0; i < n; i++)
            {
            double exact = exact_for_f32(j->fn, x[i], y[i]);
            if (j->mode == MATH_FAST && flushed(x[i], two ? y[i] : 1, exact)) continue;
            judge32(&j->tally, out[i], exact, f32_bits(x[i]));
        }
        if (!j->bits) continue;
        math_host_f32(j->fn, j->mode, x, two ? y : NULL, host, n);
        for (size_t i = 0; i < n; i++) j->tally.differ += f32_bits(out[i]) != f32_bits(host[i]);
    }
    heap_free(x);
    return NULL;
}

// Random patterns, and as many numbers of ordinary size (2^-20 .. 2^9).
static void *sweep64(void *arg) {
    Job    *j = arg;
    size_t  batch = batch_of(j);
    double *x = room(batch, sizeof *x), *y = x + batch, *out = y + batch, *host = out + batch;
    bool    two = math_fns[j->fn].args == 2;
    for (uint64_t u = j->first; u < j->last;) {
        size_t n = 0;
        for (; n < batch && u < j->last; n++, u++) {
            uint64_t r = scramble(u + 1), exponent = 1003 + (r >> 52) % 29;
            x[n] = f64_from(u & 1 ? r : (r & 0x800fffffffffffffu) | exponent << 52);
            y[n] = f64_from(scramble(r));
        }
        if (!j->gpu) math_host_f64(j->fn, j->mode, x, two ? y : NULL, out, n);
        else if (!math_gpu_run(j->gpu, j->fn, MT_F64, j->mode, x, two ? y : NULL, out, n)) abort();
        for (size_t i = 0; i < n; i++)
            judge64(&j->tally, out[i], exact_for_f64(j->fn, x[i], y[i]), f64_bits(x[i]));
        if (!j->bits) continue;
        math_host_f64(j->fn, j->mode, x, two ? y : NULL, host, n);
        for (size_t i = 0; i < n; i++)
            j->tally.differ += f64_bits(out[i]) != f64_bits(host[i]) && !isnan(host[i]);
    }
    heap_free(x);
    return NULL;
}

static Tally sweep(Job job, void *(*body)(void *), int threads) {
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
        sum.differ += t->differ;
        sum.count += t->count;
    }
    return sum;
}

static void print(const char *name, const char *what, Tally t, int digits, bool bits) {
    printf("%-8s %-8s %10.3f %10llu %9.2g %8llu", name, what, t.ulp, (unsigned long long)t.floats,
           t.tiny, (unsigned long long)t.wrong);
    if (bits) printf(" %10llu", (unsigned long long)t.differ);
    printf("  %0*llx", digits, (unsigned long long)t.at);
    if (t.wrong) printf("  wrong at %0*llx", digits, (unsigned long long)t.at_wrong);
    printf("\n");
    fflush(stdout);
}

// Does this mode of the function have a form of its own?
static bool has_mode(int fn, int mode) {
    return mode != MATH_PRECISE || fn == MATH_div || fn == MATH_sqrt || fn == MATH_recip;
}

static Tally worst_of(Job job, int threads) {
    Tally worst = {0};
    for (int d = 0; d < 4; d++) {
        job.nudge = (MathNudge){d & 1 ? 1 : -1, d & 2 ? 1 : -1};
        Tally t = sweep(job, sweep32, threads);
        if (t.ulp > worst.ulp) worst = t;
    }
    return worst;
}

static int usage(const char *program) {
    fprintf(stderr, "usage: %s [--gpu] [--bits] [--ptx] [--only=default|fast|precise|f64|worst] "
                    "[--stride=N] [--samples=N] [--threads=N] [function...]\n", program);
    return 2;
}

int main(int argc, char **argv) {
    static const char *const modes[] = {"default", "fast", "precise"};
    uint64_t    stride = 1021, samples = 1000000;
    int         threads = 2;
    bool        chosen[MATH_FN_COUNT] = {false}, some = false, on_gpu = false, bits = false;
    const char *only = NULL, *error = NULL;
    for (int i = 1; i < argc; i++) {
        bool known = true;
        const char *a = argv[i];
        if      (!strncmp(a, "--stride=", 9))   stride = strtoull(a + 9, NULL, 0);
        else if (!strncmp(a, "--samples=", 10)) samples = strtoull(a + 10, NULL, 0);
        else if (!strncmp(a, "--threads=", 10)) threads = atoi(a + 10);
        else if (!strncmp(a, "--only=", 7))     only = a + 7;
        else if (!strcmp(a, "--gpu"))           on_gpu = true;
        else if (!strcmp(a, "--bits"))          bits = true;
        else if (!strcmp(a, "--ptx"))           { math_ptx_print(stdout); return 0; }
        else known = false;
        for (int f = 0; f < MATH_FN_COUNT; f++)
            if (!strcmp(a, math_fns[f].name)) chosen[f] = some = known = true;
        if (!known || stride == 0 || threads < 1 || threads > MAX_THREADS) return usage(argv[0]);
    }
    MathGpu *gpu = on_gpu ? math_gpu_open(&error) : NULL;
    if (error) { fprintf(stderr, "%s\n", error); return 1; }

    printf("%-8s %-8s %10s %10s %9s %8s%s  at\n", "function", "steps", "ulp", "floats", "tiny", "wrong",
           bits ? "     differ" : "");
    for (int f = 0; f < MATH_FN_COUNT; f++) {
        if (some && !chosen[f]) continue;
        const char *name = math_fns[f].name;
        Job job = {.fn = (MathFn)f, .last = 1ull << 32, .stride = stride, .gpu = gpu, .bits = bits};
        for (int m = 0; m < MATH_MODES; m++) {
            job.mode = (MathMode)m;
            if (has_mode(f, m) && (!only || !strcmp(only, modes[m])))
                print(name, modes[m], sweep(job, sweep32, threads), 8, bits);
        }
        job.mode = MATH_DEFAULT;
        if (!gpu && (!only || !strcmp(only, "worst")))
            print(name, "worst", worst_of(job, threads), 8, bits);
        job.last = samples;
        job.stride = 1;
        if (!only || !strcmp(only, "f64")) print(name, "f64", sweep(job, sweep64, threads), 16, bits);
    }
    return 0;
}

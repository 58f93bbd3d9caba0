// Timing a kernel on a device: warm up, then N rounds, each between two marks (events on a GPU), with the
// L2 cache overwritten before each, so that every round reads its inputs from memory.
//
// Marks are recorded without waiting, so that the host does not stand between launches. GB/s counts what the tensors declare: `in` and `out` once,
// `inout` twice; it is the figure to hold against a plain copy, whatever the kernel really moves.

#include "runtime/internal.h"

#include <stdlib.h>
#include <string.h>

enum { WARMUP = 5, ROUNDS = 50, MAX_ROUNDS = 2000, LEAST_FLUSH = 64 << 20 };

static double declared_bytes(const LaunchInfo *info, const KernelArg *args)
{
    double bytes = 0;
    for (int p = 0; p < info->nparams; p++) {
        const LaunchParam *want = &info->params[p];
        if (want->kind == PK_SCALAR) continue;
        bytes += (double)tensor_bytes(args[p].tensor) * (want->kind == PK_TENSOR && want->mode == PM_INOUT ? 2 : 1);
    }
    return bytes;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool rounds_of(OpenLaunch *l, uint64_t flush, uint64_t flush_bytes, int warmup, int rounds, double *us, Buf *err)
{
    Device *d = l->device;
    for (int i = 0; i < warmup; i++) if (!prepared_launch(d, &l->prepared, err)) return false;
    if (!d->ops->sync(d, err)) return false;
    for (int i = 0; i < rounds; i++) {
        if (flush && !d->ops->fill(d, flush, flush_bytes, FILL_ZERO, 0, err)) return false;
        if (!d->ops->mark(d, 2 * i, err) || !prepared_launch(d, &l->prepared, err) || !d->ops->mark(d, 2 * i + 1, err)) return false;
    }
    if (!d->ops->sync(d, err)) return false;
    for (int i = 0; i < rounds; i++) if (!d->ops->between(d, 2 * i, 2 * i + 1, &us[i], err)) return false;
    return true;
}

bool bench_kernel(Runtime *rt, const TKernel *k, KernelArg *args, int nargs, const BenchOptions *opt, BenchResult *out, Buf *err)
{
    static const BenchOptions defaults;
    if (!opt) opt = &defaults;
    int warmup = opt->warmup > 0 ? opt->warmup : WARMUP, rounds = opt->rounds > 0 ? opt->rounds : ROUNDS;
    if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
    Device *d = runtime_device(rt);
    *out = (BenchResult){.rounds = rounds};
    if (!d->ops->runs_ptx) { buf_printf(err, "the device %s is not for timing; there are cuda and emu", d->ops->name); return false; }

    OpenLaunch l;
    RunControl ctl = {0};
    double    *us = checked_alloc(sizeof *us * (size_t)rounds);
    uint64_t   flush = 0, flush_bytes = 2 * d->l2_bytes > LEAST_FLUSH ? 2 * d->l2_bytes : LEAST_FLUSH;
    bool fine = launch_open(rt, k, args, nargs, &ctl, &l, err);
    if (fine && !opt->warm_cache && d->l2_bytes) fine = (flush = d->ops->alloc(d, flush_bytes, "cache flush", err)) != 0;
    fine = fine && rounds_of(&l, flush, flush_bytes, warmup, rounds, us, err);
    if (fine) {
        qsort(us, (size_t)rounds, sizeof *us, ascending);
        out->median_us = rounds % 2 ? us[rounds / 2] : (us[rounds / 2 - 1] + us[rounds / 2]) / 2;
        out->min_us = us[0];
        out->bytes = declared_bytes(l.info, args);
        out->gbs = out->median_us > 0 ? out->bytes / out->median_us * 1e-3 : 0;
        out->tflops = out->median_us > 0 ? opt->flops / out->median_us * 1e-6 : 0;
    }
    if (flush) d->ops->free(d, flush);
    launch_close(&l);
    free(us);
    return fine;
}

void bench_head(FILE *to)
{
    fprintf(to, "%-24s %-24s %10s %10s %8s %9s\n", "kernel", "shape", "median us", "min us", "GB/s", "TFLOP/s");
}

void bench_row(FILE *to, const char *kernel, const char *shape, const BenchResult *r)
{
    fprintf(to, "%-24s %-24s %10.2f %10.2f %8.0f ", kernel, shape, r->median_us, r->min_us, r->gbs);
    if (r->tflops > 0) fprintf(to, "%9.1f\n", r->tflops);
    else fprintf(to, "%9s\n", "-");
}

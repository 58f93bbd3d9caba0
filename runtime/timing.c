// Timing a launch on a device: n times between two marks each (events on a GPU), the L2 cache full of other data before
// each.
//
//     fill caches | mark 0 | launch | mark 1 | fill caches | mark 2 | launch | mark 3 ..      and only then wait
//
// Nothing waits in between, so that the host does not stand between launches. The filler is a kernel that reads: one that
// writes leaves dirty lines, which are written back at the expense of the launch that comes next. It is a program of
// its own, so that the sources of the one that is timed stay what they are.
#include "runtime/timing.h"

#include <stdlib.h>
#include <string.h>

enum { ROW = 4096, TIMES_L2 = 4, LEAST_BYTES = 64 << 20, MOST = 2000 };

static const char filler[] =
    "kernel filler(x: i32[R, 4096], y: out i32[R]) grid (r in R) { let c = 0 .. 4096; y[r] = max(x[r, c] over c); }\n";

struct Timer {
    Device  *device;
    Session *session;                                    // of the filler
    Runtime *runtime;
    uint64_t x, y;
    DeviceKernel kernel;
    Prepared fill;
};

static bool make_filler(Timer *t, Buf *err) {
    Device  *d = t->device;
    uint64_t bytes = TIMES_L2 * d->l2_bytes > LEAST_BYTES ? TIMES_L2 * d->l2_bytes : LEAST_BYTES;
    int64_t  rows = (int64_t)(bytes / (4 * ROW));
    t->session = session_new();
    t->runtime = runtime_new(t->session, d, NULL);
    SemaFile *file = sema_file(t->session,
                               parse_file(t->session, source_add(t->session, "filler.tk", filler, strlen(filler))));
    TKernel  *k = sema_instance((InstanceOf){.file = file, .item = sema_find_kernel(file, "filler")});
    Compiled *c = runtime_compile(t->runtime, k, NULL, err);
    const LaunchInfo *info;
    Bound b;
    if (!c || !compiled_kernel(t->runtime, c, &info, &t->kernel, false, err)) return false;
    t->x = device_alloc(d, bytes, "what fills the caches", err);
    t->y = t->x ? device_alloc(d, 4 * (uint64_t)rows, "what fills the caches", err) : 0;
    if (!t->y || !d->ops->fill(d, t->x, bytes, FILL_ZERO, 0, err)) return false;
    BindArg args[2] = {{.elem = EL_i32, .rank = 2, .dim = {rows, ROW}, .address = t->x},
                       {.elem = EL_i32, .rank = 1, .dim = {rows}, .address = t->y}};
    for (int i = 0; i < 2; i++) bind_contiguous(&args[i]);
    return bind_args(info, args, 2, &b, err) && prepare(d, info, &b, &t->kernel, &t->fill, err);
}

Timer *timer_open(Device *d, bool cold, Buf *err) {
    if (!d->ops->runs_ptx) {
        buf_printf(err, "the device %s is not for timing; there are cuda and emu", d->ops->name);
        return NULL;
    }
    Timer *t = heap_alloc(sizeof *t);
    t->device = d;
    if (!cold || !d->l2_bytes || make_filler(t, err)) return t;
    timer_close(t);
    return NULL;
}

void timer_close(Timer *t) {
    if (!t) return;
    prepared_free(t->device, &t->fill);
    if (t->x) device_free(t->device, t->x);
    if (t->y) device_free(t->device, t->y);
    runtime_free(t->runtime);
    if (t->session) session_free(t->session);
    heap_free(t);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, ascending);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

bool timer_run(Timer *t, const Prepared *p, int n, double *us, Buf *err) {
    Device *d = t->device;
    double  each[MOST];
    if (n > MOST) n = MOST;
    for (int i = 0; i < n; i++) {
        if (t->x && !prepared_launch(d, &t->fill, err)) return false;
        if (!d->ops->mark(d, 2 * i, err) || !prepared_launch(d, p, err) || !d->ops->mark(d, 2 * i + 1, err)) return false;
    }
    if (!d->ops->sync(d, err)) return false;
    for (int i = 0; i < n; i++) if (!d->ops->between(d, 2 * i, 2 * i + 1, &each[i], err)) return false;
    *us = median_of(each, n);
    return true;
}

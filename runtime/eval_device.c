// The device `eval`: host memory for the tile IR's interpreter (lower/eval/eval.c). It takes no PTX; run.c
// gives it the tile IR instead. An address is a host pointer.

#include "runtime/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MARKS = 4096, ALIGN = 256 };

typedef struct Eval { Device pub; double marks[MARKS]; } Eval;

static Device *eval_open(const DeviceOptions *opt, Buf *err) {
    (void)opt; (void)err;
    Eval *e = heap_alloc(sizeof *e);
    e->pub.ops = &eval_ops;
    snprintf(e->pub.description, sizeof e->pub.description, "the meaning of the tile IR, on the CPU (slow, exact)");
    return &e->pub;
}

static void eval_close(Device *d) { heap_free(d); }

static uint64_t eval_alloc(Device *d, uint64_t bytes, const char *name, Buf *err) {
    (void)d;
    Heap *here = heap_use(NULL);                           // whoever asks holds it (device_alloc), or it is a caller's (tkc_alloc)
    void *p = bytes > (UINT64_C(1) << 48) ? NULL : heap_try_aligned(ALIGN, (bytes / ALIGN + 1) * ALIGN);
    heap_use(here);
    if (!p) buf_printf(err, "out of memory for `%s` (%llu bytes)", name, (unsigned long long)bytes);
    return (uint64_t)(uintptr_t)p;
}

static void *at(uint64_t address) { return (void *)(uintptr_t)address; }

static void eval_free(Device *d, uint64_t address) { (void)d; heap_free(at(address)); }

static bool eval_write(Device *d, uint64_t to, const void *from, uint64_t bytes, Buf *err) {
    (void)d; (void)err;
    if (bytes) memcpy(at(to), from, bytes);
    return true;
}

static bool eval_read(Device *d, void *to, uint64_t from, uint64_t bytes, Buf *err) {
    (void)d; (void)err;
    if (bytes) memcpy(to, at(from), bytes);
    return true;
}

static bool eval_fill(Device *d, uint64_t to, uint64_t bytes, DeviceFill fill, uint64_t seed, Buf *err) {
    (void)d; (void)err;
    junk_fill(at(to), bytes, fill, seed);
    return true;
}

static void *eval_host(Device *d, uint64_t address, uint64_t bytes) { (void)d; (void)bytes; return at(address); }

static bool no_ptx(Buf *err) {
    buf_puts(err, "the device eval runs the tile IR, not PTX");
    return false;
}

static DeviceModule *eval_load(Device *d, const char *code, size_t n, Buf *log, Buf *err) {
    (void)d; (void)code; (void)n; (void)log;
    no_ptx(err);
    return NULL;
}

static void eval_unload(Device *d, DeviceModule *m) { (void)d; (void)m; }
static bool eval_find(Device *d, DeviceModule *m, const char *entry, DeviceKernel *out, Buf *err) {
    (void)d;
    (void)m;
    (void)entry;
    (void)out;
    return no_ptx(err);
}
static bool eval_launch(Device *d, const DeviceLaunch *l, Buf *err) { (void)d; (void)l; return no_ptx(err); }
static bool eval_map(Device *d, const TensorMapSpec *s, TensorMap *out, Buf *err) {
    (void)d;
    (void)s;
    (void)out;
    return no_ptx(err);
}
static bool eval_sync(Device *d, Buf *err) { (void)d; (void)err; return true; }

static bool eval_mark(Device *d, int i, Buf *err) {
    if (i < 0 || i >= MARKS) { buf_printf(err, "there is no mark %d", i); return false; }
    ((Eval *)d)->marks[i] = now_us();
    return true;
}

static bool eval_between(Device *d, int i, int j, double *us, Buf *err) {
    (void)err;
    *us = ((Eval *)d)->marks[j] - ((Eval *)d)->marks[i];
    return true;
}

const DeviceOps eval_ops = {
    .name = "eval", .meaning = "the tile IR's meaning, on the CPU", .runs_ptx = false,
    .open = eval_open, .close = eval_close, .alloc = eval_alloc, .free = eval_free, .write = eval_write, .read = eval_read,
    .fill = eval_fill, .host = eval_host, .load = eval_load, .unload = eval_unload, .find = eval_find, .launch = eval_launch,
    .tensor_map = eval_map, .sync = eval_sync, .mark = eval_mark, .between = eval_between,
};

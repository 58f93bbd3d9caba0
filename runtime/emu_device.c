// The device `emu`: the emulator (emu/emu.h) behind the device table. A launch runs at once; what the
// emulator finds wrong (out of bounds, races, missing waits, ...) is the launch's error. A context of the
// emulator is for one thread at a time, so each function holds the device's lock while it asks for something.

#include "runtime/internal.h"

#include "emu/emu.h"
#include "ptx/ptx.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MARKS = 4096, SHOWN_FAULTS = 3 };

_Static_assert((int)FILL_ZERO == (int)EMU_FILL_ZERO && (int)FILL_NAN == (int)EMU_FILL_NAN && (int)FILL_INF == (int)EMU_FILL_INF
               && (int)FILL_RANDOM == (int)EMU_FILL_RANDOM, "the two enums are one");

typedef struct Emu {
    Device      pub;
    EmuContext *context;
    pthread_mutex_t lock;
    void      (*print)(void *, const char *, size_t);
    void       *print_ctx;
    double      marks[MARKS];
} Emu;

struct DeviceModule { EmuModule *emu; };

static EmuContext *context_of(Device *d) { return ((Emu *)d)->context; }
static void hold(Device *d)    { pthread_mutex_lock(&((Emu *)d)->lock); }
static void release(Device *d) { pthread_mutex_unlock(&((Emu *)d)->lock); }

// The words of the emulator's last message, which another thread may overwrite once the lock is released.
typedef struct Words { char text[EMU_MESSAGE]; } Words;

static Words words_of(Device *d) {
    Words w;
    snprintf(w.text, sizeof w.text, "%s", emu_message(context_of(d)));
    return w;
}

static bool answered(Device *d, EmuStatus status, Buf *err) {        // to what was asked under the lock, which ends here
    if (status == EMU_OK) return release(d), true;
    Words w = words_of(d);
    release(d);
    one_line(err, w.text, strlen(w.text));
    return false;
}

// What kernels print comes on the emulator's threads: nothing may give up through them.
typedef struct Printing {
    Emu        *emu;                         // or NULL: prints
    Prints     *prints;
    Heap       *heap;
    atomic_bool no_memory;
} Printing;
typedef struct Printed { Printing *to; uint32_t thread; const char *text; size_t n; } Printed;

static void print_now(void *printed) {
    const Printed *p = printed;
    const Printing *to = p->to;
    if (to->emu) to->emu->print(to->emu->print_ctx, p->text, p->n);
    else prints_add(to->prints, p->thread, p->text, p->n);
}

static void print(void *printing, uint32_t thread, const char *text, size_t n) {
    Printing *to = printing;
    if (!heap_run(to->heap, print_now, &(Printed){to, thread, text, n})) atomic_store(&to->no_memory, true);
}

static Device *emu_open(const DeviceOptions *opt, Buf *err) {
    Emu *e = heap_alloc(sizeof *e);
    e->context = emu_create();
    if (!e->context) {
        heap_free(e);
        buf_puts(err, "out of memory for the emulator");
        return NULL;
    }
    pthread_mutex_init(&e->lock, NULL);
    e->print = opt->print;
    e->print_ctx = opt->print_ctx;
    e->pub.ops = &emu_ops;
    e->pub.check_races = true;
    e->pub.max_smem = target_default->smem_block;
    snprintf(e->pub.arch, sizeof e->pub.arch, "%s", target_default->name);
    snprintf(e->pub.description, sizeof e->pub.description, "emulates the PTX of a GPU (%s) on the CPU, with checked memory", e->pub.arch);
    return &e->pub;
}

static void emu_close(Device *d) {
    emu_destroy(context_of(d));
    pthread_mutex_destroy(&((Emu *)d)->lock);
    heap_free(d);
}

static uint64_t emu_alloc_(Device *d, uint64_t bytes, const char *name, Buf *err) {
    uint64_t at = 0;
    hold(d);
    return answered(d, emu_alloc(context_of(d), bytes ? bytes : 1, name, &at), err) ? at : 0;
}

static void emu_free_(Device *d, uint64_t address) {
    hold(d);
    emu_free(context_of(d), address);
    release(d);
}

static bool emu_write_(Device *d, uint64_t to, const void *from, uint64_t bytes, Buf *err) {
    if (!bytes) return true;
    hold(d);
    return answered(d, emu_write(context_of(d), to, from, bytes), err);
}

static bool emu_read_(Device *d, void *to, uint64_t from, uint64_t bytes, Buf *err) {
    if (!bytes) return true;
    hold(d);
    return answered(d, emu_read(context_of(d), to, from, bytes), err);
}

static bool emu_fill_(Device *d, uint64_t to, uint64_t bytes, DeviceFill fill, uint64_t seed, Buf *err) {
    if (!bytes) return true;
    hold(d);
    return answered(d, emu_fill(context_of(d), to, bytes, (EmuFill)fill, seed), err);
}

static void *emu_host_(Device *d, uint64_t address, uint64_t bytes) {
    hold(d);
    void *p = emu_host(context_of(d), address, bytes);
    release(d);
    return p;
}

static DeviceModule *emu_load_(Device *d, const char *code, size_t n, Buf *log, Buf *err) {
    (void)log;
    DeviceModule *m = heap_alloc(sizeof *m);
    hold(d);
    m->emu = emu_load(context_of(d), code, n);
    if (m->emu) return release(d), m;
    Buf words = {0};
    answered(d, EMU_INVALID, &words);
    buf_printf(err, "the emulator refuses the PTX: %s", words.p);
    buf_free(&words);
    heap_free(m);
    return NULL;
}

static void emu_unload_(Device *d, DeviceModule *m) {
    if (!m) return;
    hold(d);
    emu_unload(context_of(d), m->emu);
    release(d);
    heap_free(m);
}

static bool emu_find(Device *d, DeviceModule *m, const char *entry, DeviceKernel *out, Buf *err) {
    (void)d;
    const EmuKernel *k = emu_find_kernel(m->emu, entry);
    if (!k) { buf_printf(err, "the PTX has no entry `%s`", entry); return false; }
    *out = (DeviceKernel){.module = m, .handle = (void *)(uintptr_t)k->name, .local_bytes = (int)k->local_bytes,
                          .static_smem = (int)k->static_shared, .max_threads = (int)k->maxntid[0]};
    snprintf(out->name, sizeof out->name, "%s", entry);
    return true;
}

static bool emu_takes(Device *d, const DeviceKernel *k, const uint32_t *sizes, int n) {
    (void)d;
    const EmuKernel *e = emu_find_kernel(k->module->emu, k->handle);
    bool fine = e && e->n_params == (uint32_t)n;
    for (int i = 0; fine && i < n; i++) fine = e->params[i].size == sizes[i];
    return fine;
}

// An assertion that fails prints its words, then traps.
static void fault_text(const EmuFault *f, const char *assertion, Buf *err) {
    const char *file = f->file && strncmp(f->file, "./", 2) == 0 ? f->file + 2 : f->file;
    if (file) buf_printf(err, "%s:%u:%u: ", file, f->line, f->column);
    if (f->kind == EMU_FAULT_TRAP && assertion) buf_puts(err, assertion);
    else {
        buf_printf(err, "%s: ", emu_fault_name(f->kind));
        one_line(err, f->message ? f->message : "", f->message ? strlen(f->message) : 0);
    }
    buf_printf(err, " (block %u", f->block[0]);
    if (f->block[1] || f->block[2]) buf_printf(err, ", %u, %u", f->block[1], f->block[2]);
    buf_printf(err, ", warp %u, lane %u, PTX line %u)", f->warp, f->lane, f->ptx_line);
}

static void end_report(void *report, uint64_t none) { (void)none; emu_report_free(report); }

static void launch_words(const EmuReport *report, EmuStatus status, const Words *w, const char *assertion, Buf *err) {
    if (status != EMU_FAULTED) { one_line(err, w->text, strlen(w->text)); return; }
    for (size_t i = 0; i < report->n_faults && i < SHOWN_FAULTS; i++) {
        if (i) buf_puts(err, "; ");
        fault_text(&report->faults[i], i ? NULL : assertion, err);
    }
    if (report->n_faults > SHOWN_FAULTS) buf_printf(err, "; and %zu more", report->n_faults - SHOWN_FAULTS);
}

static bool emu_launch_(Device *d, const DeviceLaunch *l, Buf *err) {
    Emu *e = (Emu *)d;
    EmuReport *report = heap_alloc(sizeof *report);
    EmuRange  *fixed = heap_alloc(sizeof *fixed * ((size_t)l->nfixed + 1));
    for (int i = 0; i < l->nfixed; i++) fixed[i] = (EmuRange){l->fixed[i].address, l->fixed[i].bytes};
    EmuOptions options = {
        .junk_seed = d->junk_seed, .junk = (EmuFill)d->junk, .allow_races = !d->check_races,
        .allow_uninitialised = d->allow_uninitialised, .no_counters = true,
        .order_seed = d->order_seed, .async = d->order_seed ? EMU_ASYNC_RANDOM : EMU_ASYNC_LATE, .threads = d->in_order ? 1 : 0, .early = l->early, .together = l->together, .partial = l->partial, .fixed = fixed, .n_fixed = (size_t)l->nfixed,
    };
    Prints  *prints = e->print ? NULL : prints_new(stdout);
    Printing printing = {.emu = e->print ? e : NULL, .prints = prints, .heap = heap_here()};
    options.print = print;
    options.print_data = &printing;
    heap_hold(end_report, report, 0);
    bool clusters = l->cluster[0] > 1 || l->cluster[1] > 1 || l->cluster[2] > 1;
    hold(d);
    EmuStatus status = emu_launch(e->context, l->kernel->module->emu, l->kernel->handle, l->grid, l->block,
                                  clusters ? l->cluster : NULL, l->smem, l->params, &options, report);
    Words w = words_of(d);
    release(d);
    if (atomic_load(&printing.no_memory)) heap_give_up(0);
    prints_flush(prints);
    if (status != EMU_OK) {
        launch_words(report, status, &w, prints_assertion(prints), err);
        buf_puts(err, " in ");
        launch_text(l, err);
    }
    prints_free(prints);
    heap_let_go(end_report, report, 0);
    emu_report_free(report);
    heap_free(report);
    heap_free(fixed);
    return status == EMU_OK;
}

static bool emu_map(Device *d, const TensorMapSpec *s, TensorMap *out, Buf *err) {
    static const int types[EL_COUNT] = {
        [EL_bool] = EMU_TM_U8, [EL_i8] = EMU_TM_U8, [EL_u8] = EMU_TM_U8, [EL_f8e4m3] = EMU_TM_U8, [EL_f8e5m2] = EMU_TM_U8,
        [EL_i16] = EMU_TM_U16, [EL_u16] = EMU_TM_U16, [EL_f16] = EMU_TM_F16, [EL_bf16] = EMU_TM_BF16, [EL_i32] = EMU_TM_S32,
        [EL_u32] = EMU_TM_U32, [EL_f32] = EMU_TM_F32, [EL_i64] = EMU_TM_S64, [EL_u64] = EMU_TM_U64, [EL_index] = EMU_TM_S64,
        [EL_f64] = EMU_TM_F64,
    };
    static const uint32_t ones[5] = {1, 1, 1, 1, 1};
    int swizzle = s->swizzle == 128 ? EMU_TM_SWIZZLE_128B : s->swizzle == 64 ? EMU_TM_SWIZZLE_64B
                : s->swizzle == 32 ? EMU_TM_SWIZZLE_32B : EMU_TM_SWIZZLE_NONE;
    int type = s->rounds ? EMU_TM_TF32 : types[s->elem];
    EmuTensorMap map;
    hold(d);
    EmuStatus status = s->im2col
        ? emu_tensor_map_encode_im2col(context_of(d), &map, type, s->rank, s->address, s->dims, s->strides + 1, s->lower,
                                       s->upper, s->channels, s->pixels, s->step, EMU_TM_INTERLEAVE_NONE, swizzle, 2, EMU_TM_OOB_ZERO)
        : emu_tensor_map_encode_tiled(context_of(d), &map, type, s->rank, s->address, s->dims, s->strides + 1, s->box, ones,
                                      EMU_TM_INTERLEAVE_NONE, swizzle, 2, EMU_TM_OOB_ZERO);
    if (!answered(d, status, err)) return false;
    memcpy(out->bytes, map.bytes, sizeof out->bytes);
    return true;
}

static bool emu_sync(Device *d, Buf *err) { (void)d; (void)err; return true; }

static bool emu_mark(Device *d, int i, Buf *err) {
    if (i < 0 || i >= MARKS) { buf_printf(err, "there is no mark %d", i); return false; }
    ((Emu *)d)->marks[i] = now_us();
    return true;
}

static bool emu_between(Device *d, int i, int j, double *us, Buf *err) {
    (void)err;
    *us = ((Emu *)d)->marks[j] - ((Emu *)d)->marks[i];
    return true;
}

const DeviceOps emu_ops = {
    .name = "emu", .meaning = "the GPU's PTX, on the CPU, with checked memory", .runs_ptx = true,
    .open = emu_open, .close = emu_close, .alloc = emu_alloc_, .free = emu_free_, .write = emu_write_, .read = emu_read_,
    .fill = emu_fill_, .host = emu_host_, .load = emu_load_, .unload = emu_unload_, .find = emu_find, .takes = emu_takes, .launch = emu_launch_,
    .tensor_map = emu_map, .sync = emu_sync, .mark = emu_mark, .between = emu_between,
};

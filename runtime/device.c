// The device table: choosing one, listing them.

#include "runtime/internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const DeviceOps *const device_table[] = {&cuda_ops, &emu_ops, &eval_ops, NULL};

// NULL: no such device.
static const DeviceOps *device_find(const char *name) {
    for (int i = 0; device_table[i]; i++)
        if (strcmp(device_table[i]->name, name) == 0) return device_table[i];
    return NULL;
}

static void end_device(void *d, uint64_t none) { (void)none; ((Device *)d)->ops->close(d); }

static Device *opened(Device *d) {
    if (d) heap_hold(end_device, d, 0);
    return d;
}

static void close_device(Device *d) {
    heap_let_go(end_device, d, 0);
    d->ops->close(d);
}

static Device *started(Device *d, Buf *err) {
    if (!opened(d) || !d->ops->start || d->ops->start(d, err)) return d;
    close_device(d);
    return NULL;
}

static const DeviceOps *named(const char *name, Buf *err) {
    const DeviceOps *ops = device_find(name);
    if (ops) return ops;
    buf_printf(err, "there is no device `%s`; there are auto", name);
    for (int i = 0; device_table[i]; i++) buf_printf(err, ", %s", device_table[i]->name);
    return NULL;
}

Device *device_open(const char *name, const DeviceOptions *opt, Buf *err) {
    static const DeviceOptions none;
    if (!opt) opt = &none;
    if (strcmp(name, "auto") == 0) {
        Buf why = {0};
        Device *d = started(cuda_ops.open(opt, &why), &why);
        buf_free(&why);
        return d ? d : opened(emu_ops.open(opt, err));
    }
    const DeviceOps *ops = named(name, err);
    return ops ? started(ops->open(opt, err), err) : NULL;
}

void device_close(Device *d) {
    Buf none = {0};
    if (!d) return;
    device_ready(d, NULL, &none);
    close_device(d);
    buf_free(&none);
}

// ---- what is the heap's --------------------------------------------------------------------------

static void end_memory(void *d, uint64_t address) { ((Device *)d)->ops->free(d, address); }
static void end_module(void *d, uint64_t m)       { ((Device *)d)->ops->unload(d, (DeviceModule *)(uintptr_t)m); }
static void end_graph(void *d, uint64_t g)        { ((Device *)d)->ops->graph_free(d, (DeviceGraph *)(uintptr_t)g); }

uint64_t device_alloc(Device *d, uint64_t bytes, const char *name, Buf *err) {
    uint64_t address = d->ops->alloc(d, bytes, name, err);
    if (address) heap_hold(end_memory, d, address);
    return address;
}

void device_free(Device *d, uint64_t address) {
    if (!address) return;
    heap_let_go(end_memory, d, address);
    d->ops->free(d, address);
}

DeviceModule *device_load(Device *d, const char *code, size_t n, Buf *log, Buf *err) {
    DeviceModule *m = d->ops->load(d, code, n, log, err);
    if (m) heap_hold(end_module, d, (uint64_t)(uintptr_t)m);
    return m;
}

void device_unload(Device *d, DeviceModule *m) {
    if (!m) return;
    heap_let_go(end_module, d, (uint64_t)(uintptr_t)m);
    d->ops->unload(d, m);
}

DeviceGraph *device_graph_make(Device *d, const DeviceNode *nodes, int n, Buf *err) {
    DeviceGraph *g = d->ops->graph_make(d, nodes, n, err);
    if (g) heap_hold(end_graph, d, (uint64_t)(uintptr_t)g);
    return g;
}

void device_graph_free(Device *d, DeviceGraph *g) {
    heap_let_go(end_graph, d, (uint64_t)(uintptr_t)g);
    d->ops->graph_free(d, g);
}

// ---- on a thread ---------------------------------------------------------------------------------

struct DeviceOpening {
    const char     *name;
    DeviceOptions   opt;
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  found;
    bool            on_thread, looked, fine;             // looked: device, or err, is what it will be
    bool            no_memory;
    Heap           *heap;
    Device         *device;
    Buf             err;
    double          us;
};

static void look(DeviceOpening *o, Device *d) {
    pthread_mutex_lock(&o->lock);
    o->device = d;
    o->looked = true;
    pthread_cond_signal(&o->found);
    pthread_mutex_unlock(&o->lock);
}

static void open_now(void *opening) {
    DeviceOpening *o = opening;
    double start = now_us();
    const DeviceOps *ops = strcmp(o->name, "auto") == 0 ? NULL : named(o->name, &o->err);
    // auto: not known before it is ready
    Device *d = ops ? opened(ops->open(&o->opt, &o->err)) : o->err.n ? NULL : device_open(o->name, &o->opt, &o->err);
    look(o, d);
    o->fine = d && (!ops || !ops->start || ops->start(d, &o->err));
    o->us = now_us() - start;
}

static void *open_on_thread(void *opening) {
    DeviceOpening *o = opening;
    if (heap_run(o->heap, open_now, o)) return NULL;
    o->no_memory = true;
    o->fine = false;
    if (!o->looked) look(o, NULL);
    return NULL;
}

// Its thread ends, at least; the device is held by itself.
static void end_opening(void *opening, uint64_t none) {
    DeviceOpening *o = opening;
    (void)none;
    if (o->on_thread) pthread_join(o->thread, NULL);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->found);
}

DeviceOpening *device_open_later(const char *name, const DeviceOptions *opt) {
    DeviceOpening *o = heap_alloc(sizeof *o);
    *o = (DeviceOpening){.name = name, .opt = opt ? *opt : (DeviceOptions){0}, .heap = heap_here()};
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->found, NULL);
    heap_hold_thread(end_opening, o, 0);
    o->on_thread = pthread_create(&o->thread, NULL, open_on_thread, o) == 0;
    return o;
}

// What it came to: words, if it failed.
static bool opening_end(DeviceOpening *o, double *us, Buf *err) {
    heap_let_go(end_opening, o, 0);
    end_opening(o, 0);
    bool fine = o->fine, no_memory = o->no_memory;
    if (us) *us = o->us;
    if (!fine) buf_add(err, o->err.p ? o->err.p : "", o->err.n);
    buf_free(&o->err);
    heap_free(o);
    if (no_memory) heap_give_up(0);
    return fine;
}

Device *device_found(DeviceOpening *o, Buf *err) {
    if (!o->on_thread) open_now(o);
    pthread_mutex_lock(&o->lock);
    while (!o->looked) pthread_cond_wait(&o->found, &o->lock);
    pthread_mutex_unlock(&o->lock);
    Device *d = o->device;
    if (d) d->opening = o;
    else opening_end(o, NULL, err);
    return d;
}

bool device_ready(Device *d, double *us, Buf *err) {
    DeviceOpening *o = d->opening;
    d->opening = NULL;
    return !o || opening_end(o, us, err);
}

struct DeviceClosing { Device *device; Heap *heap; pthread_t thread; };

static void close_it(void *d) { device_close(d); }

static void *close_now(void *closing) {
    DeviceClosing *c = closing;
    heap_run(c->heap, close_it, c->device);                // without memory the heap still holds it
    return NULL;
}

static void end_closing(void *c, uint64_t none) { (void)none; pthread_join(((DeviceClosing *)c)->thread, NULL); }

DeviceClosing *device_close_later(Device *d) {
    if (!d) return NULL;
    DeviceClosing *c = heap_alloc(sizeof *c);
    c->device = d;
    c->heap = heap_here();
    if (pthread_create(&c->thread, NULL, close_now, c) == 0) {
        heap_hold_thread(end_closing, c, 0);
        return c;
    }
    device_close(d);
    heap_free(c);
    return NULL;
}

void device_closed(DeviceClosing *c) {
    if (!c) return;
    heap_let_go(end_closing, c, 0);
    end_closing(c, 0);
    heap_free(c);
}

void device_list(const DeviceOptions *opt, Buf *out) {
    for (int i = 0; device_table[i]; i++) {
        Buf err = {0};
        Device *d = device_open(device_table[i]->name, opt, &err);
        buf_printf(out, "%-6s %s\n", device_table[i]->name, d ? d->description : err.p);
        device_close(d);
        buf_free(&err);
    }
}

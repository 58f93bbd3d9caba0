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

static Device *started(Device *d, Buf *err) {
    if (!d || !d->ops->start || d->ops->start(d, err)) return d;
    d->ops->close(d);
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
        return d ? d : emu_ops.open(opt, err);
    }
    const DeviceOps *ops = named(name, err);
    return ops ? started(ops->open(opt, err), err) : NULL;
}

void device_close(Device *d) {
    Buf none = {0};
    if (!d) return;
    device_ready(d, NULL, &none);
    d->ops->close(d);
    buf_free(&none);
}

// ---- on a thread ---------------------------------------------------------------------------------

struct DeviceOpening {
    const char     *name;
    DeviceOptions   opt;
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  found;
    bool            on_thread, looked, fine;             // looked: device, or err, is what it will be
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

static void *open_now(void *opening) {
    DeviceOpening *o = opening;
    double start = now_us();
    const DeviceOps *ops = strcmp(o->name, "auto") == 0 ? NULL : named(o->name, &o->err);
    // auto: not known before it is ready
    Device *d = ops ? ops->open(&o->opt, &o->err) : o->err.n ? NULL : device_open(o->name, &o->opt, &o->err);
    look(o, d);
    o->fine = d && (!ops || !ops->start || ops->start(d, &o->err));
    o->us = now_us() - start;
    return NULL;
}

DeviceOpening *device_open_later(const char *name, const DeviceOptions *opt) {
    DeviceOpening *o = checked_alloc(sizeof *o);
    *o = (DeviceOpening){.name = name, .opt = opt ? *opt : (DeviceOptions){0}};
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->found, NULL);
    o->on_thread = pthread_create(&o->thread, NULL, open_now, o) == 0;
    return o;
}

// What it came to: words, if it failed.
static bool opening_end(DeviceOpening *o, double *us, Buf *err) {
    if (o->on_thread) pthread_join(o->thread, NULL);
    bool fine = o->fine;
    if (us) *us = o->us;
    if (!fine) buf_add(err, o->err.p ? o->err.p : "", o->err.n);
    buf_free(&o->err);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->found);
    free(o);
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

struct DeviceClosing { Device *device; pthread_t thread; };

static void *close_now(void *closing) {
    device_close(((DeviceClosing *)closing)->device);
    return NULL;
}

DeviceClosing *device_close_later(Device *d) {
    if (!d) return NULL;
    DeviceClosing *c = checked_alloc(sizeof *c);
    c->device = d;
    if (pthread_create(&c->thread, NULL, close_now, c) == 0) return c;
    device_close(d);
    free(c);
    return NULL;
}

void device_closed(DeviceClosing *c) {
    if (!c) return;
    pthread_join(c->thread, NULL);
    free(c);
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

// The device table: choosing one, listing them.

#include "runtime/internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const DeviceOps *const device_table[] = {&cuda_ops, &emu_ops, &eval_ops, NULL};

const DeviceOps *device_find(const char *name)
{
    for (int i = 0; device_table[i]; i++)
        if (strcmp(device_table[i]->name, name) == 0) return device_table[i];
    return NULL;
}

Device *device_open(const char *name, const DeviceOptions *opt, Buf *err)
{
    static const DeviceOptions none;
    if (!opt) opt = &none;
    if (strcmp(name, "auto") == 0) {
        Buf why = {0};
        Device *d = cuda_ops.open(opt, &why);
        buf_free(&why);
        return d ? d : emu_ops.open(opt, err);
    }
    const DeviceOps *ops = device_find(name);
    if (ops) return ops->open(opt, err);
    buf_printf(err, "there is no device `%s`; there are auto", name);
    for (int i = 0; device_table[i]; i++) buf_printf(err, ", %s", device_table[i]->name);
    return NULL;
}

struct DeviceOpening { const char *name; DeviceOptions opt; pthread_t thread; bool on_thread; Device *device; Buf err; double us; };

static void *open_now(void *opening)
{
    DeviceOpening *o = opening;
    double start = now_us();
    o->device = device_open(o->name, &o->opt, &o->err);
    o->us = now_us() - start;
    return NULL;
}

DeviceOpening *device_open_later(const char *name, const DeviceOptions *opt)
{
    DeviceOpening *o = checked_alloc(sizeof *o);
    *o = (DeviceOpening){.name = name, .opt = opt ? *opt : (DeviceOptions){0}};
    o->on_thread = pthread_create(&o->thread, NULL, open_now, o) == 0;
    return o;
}

Device *device_opened(DeviceOpening *o, double *us, Buf *err)
{
    if (o->on_thread) pthread_join(o->thread, NULL);
    else open_now(o);
    Device *d = o->device;
    if (us) *us = o->us;
    if (!d) buf_add(err, o->err.p ? o->err.p : "", o->err.n);
    buf_free(&o->err);
    free(o);
    return d;
}

void device_close(Device *d)
{
    if (d) d->ops->close(d);
}

void device_list(const DeviceOptions *opt, Buf *out)
{
    for (int i = 0; device_table[i]; i++) {
        Buf err = {0};
        Device *d = device_open(device_table[i]->name, opt, &err);
        buf_printf(out, "%-6s %s\n", device_table[i]->name, d ? d->description : err.p);
        device_close(d);
        buf_free(&err);
    }
}

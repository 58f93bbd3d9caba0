// The machine parameters of a launch: LaunchSlot by LaunchSlot, values into one block of storage.
//
// Storage is laid out like this; `params` points into it, as the driver wants it:
//
//     [ slot 0 ][ slot 1 ] ... [ params ][ fixed ranges ]      each slot 64-byte aligned: a tensor map needs that, the rest does not mind
//
// Scratch memory (parts of tiles, counts of arrivals) belongs to the prepared launch and is zeroed when that is made, unless the
// caller has some for all of its launches: kernels leave their counts zero, so launching again costs nothing more. A tensor map over an empty tensor is made with one element along each empty dimension: the
// kernel makes no trip there, but the driver takes no zero.

#include "runtime/internal.h"

#include "lang/number.h"

#include <stdlib.h>
#include <string.h>

enum { CELL = 128 };                                       // the largest slot, a tensor map

static void put_int(void *to, int size, int64_t v) {
    int32_t w = (int32_t)v;
    if (size == 4) memcpy(to, &w, 4);
    else memcpy(to, &v, 8);
}

static bool put_scalar(void *to, const LaunchSlot *s, Elem e, const BindArg *a, Buf *err, const char *name) {
    if (s->size != elem_bytes(e)) {
        buf_printf(err, "parameter `%s` of type %s has %d bytes in the code", name, elem_name(e), s->size);
        return false;
    }
    if (elem_is_float(e)) elem_set(e, to, 0, a->fval);
    else elem_set_int(e, to, 0, a->ival);
    return true;
}

static bool put_map(Device *d, void *to, const LaunchSlot *s, const Bound *b, Buf *err) {
    const BindArg *a = &b->args[s->a];
    TensorMapSpec spec = {.elem = a->elem, .rank = s->rank, .address = a->address, .swizzle = s->swizzle,
                          .rounds = s->rounds && a->elem == EL_f32};
    TensorMap map;
    for (int i = 0; i < s->rank && i < 5; i++) {
        int dim = s->map_dim[i];
        spec.dims[i] = dim >= 0 && dim < a->rank && a->dim[dim] > 0 ? (uint64_t)a->dim[dim] : 1;
        bool apart = dim >= 0 && dim < a->rank && a->dim[dim] > 1;            // else its stride does not matter, but 16 bytes divide it
        spec.strides[i] = apart ? (uint64_t)a->stride[dim] * (uint64_t)elem_bytes(a->elem) : 16;
        spec.box[i] = i && s->expr.n && s->box[i] > 1 ? (uint32_t)bind_eval(b, s->expr) : s->box[i];
    }
    spec.im2col = s->im2col;
    spec.channels = s->box[0];
    spec.pixels = spec.box[1];
    for (int i = 0; i < 5; i++) spec.step[i] = 1;
    for (int i = 0; s->im2col && i + 2 < s->rank && i < 3; i++) {
        spec.lower[i] = (int)bind_eval(b, s->lower[i]);
        spec.upper[i] = (int)bind_eval(b, s->upper[i]);
        spec.step[1 + i] = (uint32_t)bind_eval(b, s->step[i]);
    }
    if (!d->ops->tensor_map(d, &spec, &map, err)) {
        buf_printf(err, " (tensor map of `%s`)", b->info->params[s->a].name->s);
        return false;
    }
    memcpy(to, &map, sizeof map);
    return true;
}

void bind_scratch(const Bound *b, uint64_t bytes[SCRATCH_KINDS]) {
    for (int k = 0; k < SCRATCH_KINDS; k++) bytes[k] = 0;
    for (int i = 0; i < b->info->nslots; i++) {
        const LaunchSlot *s = &b->info->slots[i];
        int64_t n = s->kind == SLOT_SCRATCH ? bind_eval(b, s->expr) : 0;
        if (n > 0 && s->a < SCRATCH_KINDS) bytes[s->a] += (uint64_t)n;
    }
}

static bool put_scratch(Device *d, void *to, const LaunchSlot *s, const Bound *b, Prepared *p, Buf *err) {
    int64_t bytes = bind_eval(b, s->expr);
    if (bytes < 0 || p->nscratch == (int)(sizeof p->scratch / sizeof *p->scratch)) {
        buf_printf(err, "the kernel asks for scratch memory that cannot be (%lld bytes, number %d)", (long long)bytes, p->nscratch + 1);
        return false;
    }
    if (s->a < SCRATCH_KINDS && b->scratch[s->a]) { put_int(to, 8, (int64_t)b->scratch[s->a]); return true; }
    uint64_t at = device_alloc(d, (uint64_t)bytes, "scratch", err);
    if (!at) return false;
    p->scratch[p->nscratch++] = at;
    put_int(to, 8, (int64_t)at);
    return d->ops->fill(d, at, (uint64_t)bytes, FILL_ZERO, 0, err);
}

static bool put_slot(Device *d, void *to, const LaunchSlot *s, const Bound *b, Prepared *p, Buf *err) {
    const LaunchInfo *info = b->info;
    int64_t v = 0;
    switch (s->kind) {
    case SLOT_POINTER:   put_int(to, 8, (int64_t)b->args[s->a].address); return true;
    case SLOT_SCALAR:    return put_scalar(to, s, info->params[s->a].elem, &b->args[s->a], err, info->params[s->a].name->s);
    case SLOT_TENSORMAP: return put_map(d, to, s, b, err);
    case SLOT_SCRATCH:   return put_scratch(d, to, s, b, p, err);
    default: break;
    }
    if (slot_fits(b, s, &v)) { put_int(to, s->size, v); return true; }
    buf_printf(err, "`%s` is too large for this code: ", info->kernel->s);
    if (s->kind == SLOT_DIM) buf_printf(err, "%s = %lld", info->dims[s->a].name->s, (long long)v);
    else if (s->kind == SLOT_STRIDE) buf_printf(err, "stride of `%s`, dimension %d = %lld", info->params[s->a].name->s, s->b, (long long)v);
    else buf_printf(err, "machine parameter %d = %lld", (int)(s - info->slots), (long long)v);
    buf_puts(err, " needs more than 32 bits");
    return false;
}

static void fixed_ranges(const Bound *b, Prepared *p) {
    p->launch.nfixed = 0;
    for (int i = 0; i < b->info->nparams; i++) {
        const BindArg *a = &b->args[i];
        uint64_t bytes = (uint64_t)elem_bytes(a->elem);
        if (!b->info->params[i].fixed) continue;
        for (int k = 0; k < a->rank; k++) bytes *= (uint64_t)a->dim[k];
        p->fixed[p->launch.nfixed++] = (DeviceRange){a->address, bytes};
    }
}

bool prepare(Device *d, const LaunchInfo *info, const Bound *bound, const DeviceKernel *k, Prepared *out, Buf *err) {
    Bound own;
    const Bound *b = bound;
    *out = (Prepared){0};
    if (bound->info != info) { own = *bound; own.info = info; b = &own; }
    int64_t blocks = bind_eval(b, info->blocks), cluster = info->cluster > 1 ? info->cluster : 1;
    if (blocks < 0 || blocks > INT32_MAX || blocks % cluster) {
        buf_printf(err, "`%s` cannot be launched with %lld blocks%s", info->kernel->s, (long long)blocks,
                   blocks > INT32_MAX ? ": a grid has at most 2^31 - 1" : "");
        return false;
    }
    out->empty = blocks == 0;
    out->launch = (DeviceLaunch){.kernel = k, .grid = {(uint32_t)blocks, 1, 1}, .block = {(uint32_t)info->threads, 1, 1},
                                 .cluster = {(uint32_t)cluster, 1, 1},
                                 .smem = info->smem + (info->smem_more.n ? (uint32_t)bind_eval(b, info->smem_more) : 0), .early = blocks <= info->early && !info->together, .together = info->together, .partial = info->partial};
    size_t cells = (size_t)CELL * (size_t)(info->nslots + 1), params = sizeof(void *) * (size_t)(info->nslots + 1), fixed = sizeof *out->fixed * (size_t)(info->nparams + 1);
    size_t bytes = (cells + params + fixed + CELL - 1) / CELL * CELL;
    char  *storage = out->storage = heap_aligned(CELL, bytes);
    memset(storage, 0, bytes);
    out->launch.params = out->params = (void **)(void *)(storage + cells);
    out->launch.fixed = out->fixed = (DeviceRange *)(void *)(storage + cells + params);
    fixed_ranges(b, out);
    for (int i = 0; i < info->nslots; i++) {
        out->params[i] = (char *)out->storage + (size_t)CELL * (size_t)i;
        if (put_slot(d, out->params[i], &info->slots[i], b, out, err)) continue;
        prepared_free(d, out);
        return false;
    }
    return true;
}

bool prepared_launch(Device *d, const Prepared *p, Buf *err) {
    if (p->empty) return true;
    return d->ops->launch(d, &p->launch, err);
}

bool prepared_patch(Device *d, const Bound *b, Prepared *p, int param, Buf *err) {
    for (int i = 0; i < b->info->nslots; i++) {
        const LaunchSlot *s = &b->info->slots[i];
        bool own = s->kind == SLOT_POINTER || s->kind == SLOT_SCALAR || s->kind == SLOT_TENSORMAP;
        if (own && s->a == param && !put_slot(d, p->params[i], s, b, p, err)) return false;
    }
    return true;
}

void prepared_free(Device *d, Prepared *p) {
    for (int i = 0; i < p->nscratch; i++) device_free(d, p->scratch[i]);
    heap_free(p->storage);
    *p = (Prepared){0};
}

// Tensor maps among the arguments of PTX: what TMA's instructions name, made of a tensor and a box.
//
//     a=box(64,32):random:bf16[256,128]              boxes of 64 rows and 32 columns, axes in the order of the shape
//     a=box(64,64,swizzle128):a.npy                  their 16-byte pieces lie in shared memory as wgmma reads them
//     a=box(16,32,tf32):random:f32[256,128]          rounded on their way
//
// The parameter is the map by value (128 bytes, also a part of a struct: p+64=box(...)), or the address of one.
#include "runtime/ptx_run.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

static const char form[] = "box(64,32), one number from 1 to 256 for each axis, and after them swizzle32, swizzle64, swizzle128 or tf32";

static bool word_of(const char *p, size_t n, ArgBox *box) {
    static const struct { const char *word; uint8_t swizzle; bool rounds; } rows[] = {
        {"swizzle32", 32, false}, {"swizzle64", 64, false}, {"swizzle128", 128, false}, {"tf32", 0, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strlen(rows[i].word) != n || memcmp(rows[i].word, p, n) != 0) continue;
        if (rows[i].swizzle) box->swizzle = rows[i].swizzle;
        box->rounds |= rows[i].rounds;
        return box->rank > 0;
    }
    return false;
}

// `64,32,swizzle128` of box(...).
static bool box_parse(const char *p, const char *end, ArgBox *box) {
    *box = (ArgBox){0};
    bool words = false;
    for (; p <= end; p++) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
        char *rest;
        long n = strtol(p, &rest, 10);
        if (!words && rest == stop && rest > p && n >= 1 && n <= 256 && box->rank < 5) box->dim[box->rank++] = (uint32_t)n;
        else if (word_of(p, (size_t)(stop - p), box)) words = true;
        else return false;
        p = stop;
    }
    return true;
}

const char *arg_box_spec(const char *text) {
    const char *eq = strchr(text, '='), *spec = eq ? eq + 1 : text;
    return strncmp(spec, "box(", 4) == 0 ? spec : NULL;
}

bool ptx_arg_parse(const char *text, int position, uint64_t seed, RunArg *out, Buf *err) {
    const char *spec = arg_box_spec(text);
    if (!spec) return arg_parse(text, position, seed, out, err);
    const char *close = strchr(spec, ')');
    ArgBox box;
    Buf without = {0};
    buf_printf(&without, "%.*s%s", (int)(spec - text), text, close && close[1] == ':' ? close + 2 : "");
    bool ok = close && close[1] == ':' && box_parse(spec + 4, close, &box);
    if (!ok) buf_printf(err, "`%s`: a tensor map is box(...):SPEC, like %s", spec, form);
    ok = ok && arg_parse(without.p, position, seed, out, err);
    buf_free(&without);
    if (!ok) return false;
    out->box = box;
    if (!out->scalar) return true;
    buf_printf(err, "`%s`: a tensor map is of a tensor, and `%s` is a number", spec, out->spec);
    arg_free(out);
    return false;
}

bool ptx_map_make(Device *d, const char *name, const RunArg *a, uint64_t address, TensorMap *out, Buf *err) {
    const HostTensor *t = &a->tensor;
    TensorMapSpec spec = {.elem = t->elem, .rank = (uint32_t)t->rank, .address = address, .swizzle = a->box.swizzle, .rounds = a->box.rounds};
    uint64_t stride = (uint64_t)elem_bytes(t->elem);
    if (t->rank != a->box.rank) {
        buf_printf(err, "`%s`: the box has %d axes, ", name, a->box.rank);
        tensor_type_text(t, err);
        buf_printf(err, " has %d", t->rank);
        return false;
    }
    if (a->box.rounds && t->elem != EL_f32) {
        buf_printf(err, "`%s`: tf32 is what f32 is rounded to, not %s", name, elem_name(t->elem));
        return false;
    }
    for (int i = 0; i < t->rank; i++) {                          // dimension 0 of a map is the innermost
        int axis = t->rank - 1 - i;
        spec.dims[i] = (uint64_t)t->dim[axis];
        spec.strides[i] = stride;
        spec.box[i] = a->box.dim[axis];
        stride *= spec.dims[i];
    }
    if (d->ops->tensor_map(d, &spec, out, err)) return true;
    buf_printf(err, " (of `%s`; dimension 0 is the innermost)", name);
    return false;
}

// Launches of PTX files.
//
//     scale(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
//
//     x=random:f32[1000]  y=zeros:f32[1000]   a tensor for 8 bytes: a copy on the device, and its address
//     a=0.5  n=1000                           a number: of the parameter's type
//     p=iota:f32[4]                           a tensor for as many bytes as it has (.b8 p[16]): by value
//     a=box(64,32):random:bf16[256,128]       a tensor for 128 bytes: its tensor map, by value; for 8: the map's address
//     p+0=x.npy  p+8=100  p+16=full(2):f64[]  what is in such a parameter, by its byte: an address, 4 bytes, a number of any type
//
// What a parameter points to, and whether the kernel writes there, PTX does not say: what has changed after the launch is a
// result. Files of tkc say it: their arguments are bound as those of a kernel are, and only the code comes from the file.
#include "runtime/ptx_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

// ---- the file ------------------------------------------------------------------------------------

void ptx_place(const char *path, const char *message, Buf *out) {
    unsigned line;
    int used = 0;
    if (sscanf(message, "line %u: %n", &line, &used) == 1 && used > 0) buf_printf(out, "%s:%u: %s", path, line, message + used);
    else buf_printf(out, "%s: %s", path, message);
}

bool ptx_file_open(Session *s, const char *path, const char *text, size_t n, PtxFile *out, Buf *err) {
    Buf words = {0};
    *out = (PtxFile){.session = s, .path = path, .text = text, .n = n, .emu = emu_create()};
    out->outline = emu_outline(out->emu, text, n);
    bool ok = out->outline != NULL;
    if (!ok) ptx_place(path, emu_message(out->emu), err);
    if (ok && emu_kernel_count(out->outline) == 0) ok = false, buf_printf(err, "%s: there is no .entry in it", path);
    if (ok) out->nhead = launch_read(s, text, n, out->head, (int)(sizeof out->head / sizeof *out->head), &words);
    if (out->nhead < 0) ok = false, ptx_place(path, words.p, err);
    buf_free(&words);
    return ok;
}

void ptx_file_close(PtxFile *f) {
    emu_destroy(f->emu);
    *f = (PtxFile){0};
}

static const char *nearest_entry(const PtxFile *f, const char *name) {
    const char *best = NULL;
    int least = 1 + (int)strlen(name) / 3;
    for (size_t i = 0; i < emu_kernel_count(f->outline); i++) {
        const char *have = emu_kernel(f->outline, i)->name;
        int d = edit_distance(have, name);
        if (d < least) least = d, best = have;
    }
    return best;
}

// `axpy` of `_ZN3lib4axpyEPfi`: the only one that has it in its name.
static const EmuKernel *only_with(const PtxFile *f, const char *part) {
    const EmuKernel *found = NULL;
    for (size_t i = 0; i < emu_kernel_count(f->outline); i++) {
        const EmuKernel *k = emu_kernel(f->outline, i);
        if (strstr(k->name, part) == NULL) continue;
        if (found != NULL) return NULL;
        found = k;
    }
    return found;
}

const EmuKernel *ptx_entry(const PtxFile *f, const char *name, Buf *err) {
    size_t n = emu_kernel_count(f->outline);
    if (name == NULL && n == 1) return emu_kernel(f->outline, 0);
    const EmuKernel *k = name != NULL ? emu_find_kernel(f->outline, name) : NULL;
    if (k == NULL && name != NULL) k = only_with(f, name);
    if (k != NULL) return k;
    const char *near = name != NULL ? nearest_entry(f, name) : NULL;
    if (name == NULL) buf_printf(err, "%s has %zu entries: choose with --kernel", f->path, n);
    else buf_printf(err, "%s has no entry `%s`", f->path, name);
    if (near != NULL) { buf_printf(err, "; did you mean `%s`?", near); return NULL; }
    for (size_t i = 0; i < n && i < 20; i++) buf_printf(err, "%s%s", i ? ", " : name != NULL ? "; it has " : " (", emu_kernel(f->outline, i)->name);
    buf_puts(err, name != NULL ? n > 20 ? ", ..." : "" : n > 20 ? ", ...)" : ")");
    return NULL;
}

const LaunchInfo *ptx_head(const PtxFile *f, const EmuKernel *k) {
    for (int i = 0; i < f->nhead; i++)
        if (f->head[i]->entry && strcmp(f->head[i]->entry, k->name) == 0 && f->head[i]->blocks.n) return f->head[i];
    return NULL;
}

static void param_type(const EmuParam *p, Buf *out) {
    buf_printf(out, ".%s", p->type);
    if (p->count != 1) buf_printf(out, "[%u]", p->count);
}

void ptx_signature(const EmuKernel *k, Buf *out) {
    buf_printf(out, "%s(", k->name);
    for (uint32_t i = 0; i < k->n_params; i++) {
        buf_printf(out, "%s%s: ", i ? ", " : "", k->params[i].name);
        param_type(&k->params[i], out);
    }
    buf_putc(out, ')');
}

// ---- which argument is whose ---------------------------------------------------------------------

// The parameter that an argument names, or -1. `name` gives the i-th parameter's name.
typedef struct Names { const char *(*name)(const void *of, int i); const void *of; int n; } Names;

static const char *entry_param(const void *k, int i) { return ((const EmuKernel *)k)->params[i].name; }
static const char *head_param(const void *info, int i) { return ((const LaunchInfo *)info)->params[i].name->s; }

static int param_of(const Names *names, const char *text) {
    char *stop;
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->name(names->of, i), text) == 0) return i;
    long number = strtol(text, &stop, 10);
    return *stop == 0 && stop > text && number >= 0 && number < names->n ? (int)number : -1;
}

// by[i] is parameter i's argument, or NULL.
static bool match(const char *entry, const Names *names, RunArg *args, int nargs, RunArg **by, Buf *err) {
    for (int i = 0; i < names->n; i++) by[i] = NULL;
    for (int i = 0; i < nargs; i++) {
        RunArg *a = &args[i];
        if (strchr(a->name, '+')) continue;                      // a part of a parameter
        int p = param_of(names, a->name);
        if (p < 0) {
            char *stop;
            (void)strtol(a->name, &stop, 10);
            if (*stop == 0) buf_printf(err, "`%s` takes %d argument%s: `%s` is one too many", entry, names->n, names->n == 1 ? "" : "s", a->spec);
            else buf_printf(err, "`%s` has no parameter `%s`", entry, a->name);
            for (int k = 0; *stop && k < names->n; k++) buf_printf(err, "%s `%s`", k ? "," : "; it has", names->name(names->of, k));
            return false;
        }
        if (by[p] && a->only_saved && !by[p]->save) {
            by[p]->save = a->spec;
            continue;
        }
        if (by[p]) {
            buf_printf(err, "argument `%s` is given twice", names->name(names->of, p));
            return false;
        }
        by[p] = a;
    }
    return true;
}

// ---- a launch of any entry -----------------------------------------------------------------------

enum { MOST_BYTES = 32768 };

typedef struct Piece {                 // an argument and where its bytes go: a parameter, or a part of one
    EmuParam   as;
    RunArg    *a;
    uint8_t   *to;
    uint64_t   address, map;           // of a tensor, 0: by value; of its map, 0: none, or by value
    HostTensor before;                 // what it held
} Piece;

typedef struct Raw {
    Device         *dev;
    const EmuKernel *k;
    Piece           piece[2 * MAX_GRAPH_PARAMS];
    int             n;
    void           *params[MAX_GRAPH_PARAMS];
    _Alignas(128) uint8_t values[MOST_BYTES];
} Raw;

static Elem elem_of_param(const char *type) {
    static const struct { const char *type; Elem elem; } rows[] = {
        {"u8", EL_u8}, {"s8", EL_i8}, {"u16", EL_u16}, {"s16", EL_i16}, {"u32", EL_u32}, {"s32", EL_i32}, {"u64", EL_u64}, {"s64", EL_i64},
        {"f16", EL_f16}, {"bf16", EL_bf16}, {"f32", EL_f32}, {"f64", EL_f64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].type, type) == 0) return rows[i].elem;
    return EL_none;
}

// A number in the parameter's bytes. Those of no kind (.b32) take integers of either sign, and .b32 and .b64 what is written as a float.
static bool put_number(const EmuParam *p, const RunArg *a, void *to, Buf *err) {
    Elem e = elem_of_param(p->type);
    int bits = (int)p->size * 8;
    if (p->count == 1 && e == EL_none && a->is_float) e = p->size == 4 ? EL_f32 : p->size == 8 ? EL_f64 : EL_none;
    bool plain = p->count == 1 && p->size <= 8, integer = plain && !elem_is_float(e);
    if (!plain || (a->is_float && integer)) {
        buf_printf(err, "`%s` is ", p->name);
        param_type(p, err);
        if (!plain) buf_printf(err, ", %u bytes: `%s` is a number; a tensor of as many bytes is passed by value, like `zeros:u8[%u]`", p->size, a->spec, p->size);
        else buf_printf(err, ", an integer: `%s` is none%s", a->spec, p->size == 2 ? "; the bits of a float are `full(VALUE):f16[]` or `:bf16[]`" : "");
        return false;
    }
    if (!integer) { elem_set(e, to, 0, a->is_float ? a->fval : a->is_u64 ? (double)(uint64_t)a->ival : (double)a->ival); return true; }
    bool sgn = e == EL_none || elem_is_signed(e), unsgn = e == EL_none || !elem_is_signed(e);
    int64_t low = bits == 64 ? INT64_MIN : sgn ? -(INT64_C(1) << (bits - 1)) : 0;
    int64_t high = bits == 64 ? INT64_MAX : (INT64_C(1) << (unsgn ? bits : bits - 1)) - 1;
    if (a->ival < low || a->ival > high) {
        buf_printf(err, "`%s` is ", p->name);
        param_type(p, err);
        buf_printf(err, ": `%s` is not in %" PRId64 " to %" PRId64, a->spec, low, high);
        return false;
    }
    memcpy(to, &a->ival, p->size);
    return true;
}

static bool is_pointer(const EmuParam *p) { return p->size == 8 && p->count == 1 && !elem_is_float(elem_of_param(p->type)); }

static bool to_device(Raw *r, Piece *p, Buf *err) {
    const HostTensor *t = &p->a->tensor;
    p->address = device_alloc(r->dev, tensor_bytes(t), p->as.name, err);
    return p->address && tensor_copy(&p->before, t, err) && r->dev->ops->write(r->dev, p->address, t->data, tensor_bytes(t), err);
}

static bool put_tensor(Raw *r, Piece *p, Buf *err) {
    const HostTensor *t = &p->a->tensor;
    bool pointer = is_pointer(&p->as);
    if (!pointer && tensor_bytes(t) == p->as.size) { memcpy(p->to, t->data, p->as.size); return true; }
    if (!pointer) {
        buf_printf(err, "`%s` is ", p->as.name);
        param_type(&p->as, err);
        buf_printf(err, ", %u bytes by value: ", p->as.size);
        tensor_type_text(t, err);
        buf_printf(err, " has %zu", tensor_bytes(t));
        if (p->as.size == sizeof(TensorMap)) buf_puts(err, "; if a tensor map is meant, it is `box(...):SPEC`");
        return false;
    }
    bool ok = to_device(r, p, err);
    memcpy(p->to, &p->address, 8);
    return ok;
}

static bool put_map(Raw *r, Piece *p, Buf *err) {
    TensorMap map;
    if (!is_pointer(&p->as) && p->as.size != sizeof map.bytes) {
        buf_printf(err, "`%s` is ", p->as.name);
        param_type(&p->as, err);
        buf_printf(err, ": a tensor map has %zu bytes", sizeof map.bytes);
        return false;
    }
    if (!to_device(r, p, err) || !ptx_map_make(r->dev, p->as.name, p->a, p->address, &map, err)) return false;
    if (!is_pointer(&p->as)) { memcpy(p->to, map.bytes, sizeof map.bytes); return true; }
    p->map = device_alloc(r->dev, sizeof map.bytes, "tensor map", err);
    memcpy(p->to, &p->map, 8);
    return p->map && r->dev->ops->write(r->dev, p->map, map.bytes, sizeof map.bytes, err);
}

static bool put_piece(Raw *r, Piece *p, Buf *err) {
    if (!(p->a->box.rank ? put_map(r, p, err) : p->a->scalar ? put_number(&p->as, p->a, p->to, err) : put_tensor(r, p, err))) return false;
    if (p->a->save && !p->address) buf_printf(err, "`%s` is passed by value: there is nothing to save", p->as.name);
    return !p->a->save || p->address;
}

static void no_argument(const EmuKernel *k, uint32_t i, Buf *err) {
    buf_printf(err, "`%s` needs an argument for `%s` (", k->name, k->params[i].name);
    param_type(&k->params[i], err);
    buf_printf(err, "), number %u of %u", i + 1, k->n_params);
}

// NAME+8=SPEC. *param: whose part it is.
static bool bind_part(Raw *r, const Names *names, RunArg *a, int *param, Buf *err) {
    char *plus = strchr(a->name, '+'), *stop;
    long at = strtol(plus + 1, &stop, 10);
    *plus = 0;
    *param = param_of(names, a->name);
    *plus = '+';
    const EmuParam *p = *param < 0 ? NULL : &r->k->params[*param];
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->piece[i].as.name, a->name) == 0 && a->only_saved && !r->piece[i].a->save) { r->piece[i].a->save = a->spec; return true; }
    if (!arg_load(a, err)) return false;
    uint32_t size = a->box.rank ? sizeof(TensorMap) : a->scalar ? 4 : a->tensor.rank ? 8 : (uint32_t)tensor_bytes(&a->tensor);
    if (!p || p->count == 1 || *stop || stop == plus + 1 || at < 0 || at + (long)size > (long)p->size) {
        buf_printf(err, "`%s`: NAME+BYTE=SPEC is a part of a parameter that is passed by value", a->name);
        if (p) buf_printf(err, "; `%s` has %u bytes, `%s` takes %u", p->name, p->count == 1 ? 0 : p->size, a->spec, size);
        return false;
    }
    uint8_t *to = r->values + p->offset + at;
    for (int i = 0; i < r->n; i++)
        if (to < r->piece[i].to + r->piece[i].as.size && r->piece[i].to < to + size) {
            buf_printf(err, "`%s` overlaps `%s`", a->name, r->piece[i].as.name);
            return false;
        }
    r->piece[r->n] = (Piece){.a = a, .to = to, .as = {.size = size, .name = a->name, .type = size == 8 && !a->scalar && a->tensor.rank ? "u64" : "b32", .count = 1}};
    if (!a->scalar && !a->tensor.rank) r->piece[r->n].as.count = 0;                     // as it is
    return put_piece(r, &r->piece[r->n++], err);
}

static bool bind_raw(Raw *r, const Names *names, RunArg *args, int nargs, Buf *err) {
    RunArg *by[MAX_GRAPH_PARAMS];
    bool in_parts[MAX_GRAPH_PARAMS] = {false};
    if (!match(r->k->name, names, args, nargs, by, err)) return false;
    for (int i = 0; i < nargs; i++) {
        int param;
        if (!strchr(args[i].name, '+')) continue;
        if (r->n == 2 * MAX_GRAPH_PARAMS || !bind_part(r, names, &args[i], &param, err)) return false;
        in_parts[param] = true;
    }
    for (uint32_t i = 0; i < r->k->n_params; i++) {
        RunArg *a = by[i];
        r->params[i] = r->values + r->k->params[i].offset;
        if (in_parts[i] && !a) continue;
        if (in_parts[i]) buf_printf(err, "`%s` is given whole and in parts", r->k->params[i].name);
        else if (!a || a->only_saved) no_argument(r->k, i, err);
        if (in_parts[i] || !a || a->only_saved || !arg_load(a, err)) return false;
        r->piece[r->n] = (Piece){.as = r->k->params[i], .a = a, .to = r->params[i]};
        if (!put_piece(r, &r->piece[r->n++], err)) return false;
    }
    return true;
}

static bool take_results(Raw *r, const PtxFile *f, RunResult *result, Buf *err) {
    for (int i = 0; i < r->n; i++) {
        Piece *p = &r->piece[i];
        HostTensor *t = &p->a->tensor;
        if (!p->address) continue;
        if (!r->dev->ops->read(r->dev, t->data, p->address, tensor_bytes(t), err)) return false;
        if (!p->a->save && memcmp(t->data, p->before.data, tensor_bytes(t)) == 0) continue;
        if (result->n == MAX_GRAPH_PARAMS) break;
        result->out[result->n].name = sym(f->session, p->as.name);
        result->out[result->n].mode = PM_INOUT;
        result->out[result->n].saved = p->a->save;
        result->out[result->n++].tensor = *t;
        *t = (HostTensor){0};
    }
    if (result->n == 0) buf_puts(&result->notes, "no memory that was passed has changed\n");
    return true;
}

// What the file says of the launch, and what the command line says: both, where they agree.
static bool shape(const EmuKernel *k, const PtxLaunch *said, DeviceLaunch *out, Buf *err) {
    const struct { const char *option, *directive; const uint32_t *given, *fixed; uint32_t *to; } rows[] = {
        {"grid", NULL, said->grid, NULL, out->grid},
        {"block", ".reqntid", said->block, k->reqntid, out->block},
        {"cluster", ".reqnctapercluster", said->cluster, k->reqcluster, out->cluster}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint32_t *from = rows[i].given[0] ? rows[i].given : rows[i].fixed;
        bool optional = i == 2;
        if (!from || !from[0]) {
            if (optional) continue;
            buf_printf(err, "`%s`: how many %s? --%s=X[,Y,Z] says it", k->name, i ? "threads has a block" : "blocks has the grid", rows[i].option);
            if (i && k->maxntid[0]) buf_printf(err, " (at most %u, by .maxntid)", k->maxntid[0] * k->maxntid[1] * k->maxntid[2]);
            return false;
        }
        if (rows[i].fixed && rows[i].fixed[0] && memcmp(from, rows[i].fixed, 12) != 0) {
            buf_printf(err, "`%s`: --%s=%u,%u,%u, but the file's %s is %u, %u, %u", k->name, rows[i].option, from[0], from[1], from[2],
                       rows[i].directive, rows[i].fixed[0], rows[i].fixed[1], rows[i].fixed[2]);
            return false;
        }
        memcpy(rows[i].to, from, 12);
    }
    if (k->dynamic_shared && said->shared < 0) {
        buf_printf(err, "`%s` uses shared memory whose size the launch says: --shared=BYTES", k->name);
        return false;
    }
    out->smem = said->shared > 0 ? (uint32_t)said->shared : 0;
    return true;
}

static bool run_raw(const PtxFile *f, Device *dev, const DeviceKernel *code, const EmuKernel *k, const PtxLaunch *launch, RunArg *args,
                    int nargs, RunResult *result, Buf *err) {
    Raw *r = heap_alloc(sizeof *r);
    memset(r, 0, sizeof *r);
    r->dev = dev, r->k = k;
    DeviceLaunch l = {.kernel = code, .params = r->params, .together = launch->together};
    Names names = {entry_param, k, (int)k->n_params};
    bool ok = k->n_params <= MAX_GRAPH_PARAMS;
    if (!ok) buf_printf(err, "`%s` has %u parameters; more than %d cannot be given here", k->name, k->n_params, MAX_GRAPH_PARAMS);
    ok = ok && shape(k, launch, &l, err) && bind_raw(r, &names, args, nargs, err) &&
         dev->ops->launch(dev, &l, err) && dev->ops->sync(dev, err) && take_results(r, f, result, err);
    for (int i = 0; i < r->n; i++) {
        if (r->piece[i].address) device_free(dev, r->piece[i].address);
        if (r->piece[i].map) device_free(dev, r->piece[i].map);
        tensor_free(&r->piece[i].before);
    }
    heap_free(r);
    return ok;
}

// ---- a launch by tkc's head ----------------------------------------------------------------------

static bool run_head(Device *dev, const DeviceKernel *code, const LaunchInfo *info, RunArg *args, int nargs, RunResult *result, Buf *err) {
    RunArg *by[MAX_PARAMS];
    KernelArg list[MAX_PARAMS] = {0};
    Names names = {head_param, info, info->nparams};
    OpenLaunch l = {.device = dev, .info = info, .kernel = *code, .nargs = info->nparams};
    if (!match(info->kernel->s, &names, args, nargs, by, err)) return false;
    for (int i = 0; i < nargs; i++)
        if (args[i].box.rank) { buf_printf(err, "argument `%s`: what tkc compiled makes its tensor maps by itself; give the tensor alone", args[i].name); return false; }
    for (int p = 0; p < info->nparams; p++)
        if (by[p] && info->params[p].mode != PM_OUT && !arg_load(by[p], err)) return false;
    if (!args_bind(info->kernel, info->params, info->nparams, NULL, by, list, result, err)) return false;
    bool ok = launch_open_code(&l, list, err) && prepared_launch(dev, &l.prepared, err) && dev->ops->sync(dev, err) && launch_copy_out(&l, list, err);
    launch_close(&l);
    return ok;
}

// The head may be edited, and the code below it: both say which machine parameters there are.
static bool head_fits(const LaunchInfo *info, const EmuKernel *k, Buf *err) {
    bool fits = k->n_params == (uint32_t)info->nslots;
    for (int i = 0; fits && i < info->nslots; i++) fits = k->params[i].size == info->slots[i].size;
    if (!fits) buf_printf(err, "the entry `%s` takes other machine parameters than its head says; --grid and --block launch it without one", k->name);
    return fits;
}

// ---- both ----------------------------------------------------------------------------------------

bool ptx_run(const PtxFile *f, Device *dev, const PtxLaunch *launch, RunArg *args, int nargs, RunResult *result, Buf *err) {
    static const char refused[] = "the emulator refuses the PTX: ";
    *result = (RunResult){0};
    const EmuKernel *k = ptx_entry(f, launch->entry, err);
    if (!k) return false;
    const LaunchInfo *info = launch->grid[0] || launch->block[0] ? NULL : ptx_head(f, k);
    DeviceKernel code;
    Buf words = {0};
    DeviceModule *m = device_load(dev, f->text, f->n, NULL, &words);
    bool ok = m && dev->ops->find(dev, m, k->name, &code, &words) &&
              (info ? head_fits(info, k, &words) && run_head(dev, &code, info, args, nargs, result, &words) : run_raw(f, dev, &code, k, launch, args, nargs, result, &words));
    for (int i = 0; ok && i < result->n; i++)
        if (result->out[i].saved) ok = npy_write(result->out[i].saved, &result->out[i].tensor, &words);
    if (!ok) ptx_place(f->path, strncmp(words.p, refused, sizeof refused - 1) == 0 ? words.p + sizeof refused - 1 : words.p, err);
    device_unload(dev, m);
    buf_free(&words);
    return ok;
}

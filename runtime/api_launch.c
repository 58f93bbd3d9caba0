// libtkc (tkc.h): launches.
//
//     values, tensors -> instance -> compiled -> bound -> parameter block          tkc_prepare, under the program's lock
//     another address or number -> its cells of the block                          tkc_set_*
//     block -> device                                                              tkc_run
//
// An address or a number changes cells of the block alone as long as nothing else was decided by it: the variant (an address
// is a multiple of 16 or is not), and expressions that read the number (guards, grids). Then the launch is bound anew,
// beside the old one, which stays if that fails.
//
// Tensors in host memory have a place on the device that belongs to the launch; on eval they are used where they lie.

#include "runtime/api_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 3, MAX_ROUNDS = 10000 };

struct KnownChoice { KnownChoice *next; char *key; Choice choice; };

// filled: copied in before; back: after
typedef struct HostSide { void *data; uint64_t bytes; bool copied, filled, back; } HostSide;

struct tkc_launch {
    tkc_program      *prog;
    Device           *device;
    Compiled         *compiled;
    const LaunchInfo *built;               // as the kernel was written; `bound.info` is of the variant
    BindArg           args[MAX_PARAMS];
    HostSide          host[MAX_PARAMS];
    bool              decides[MAX_PARAMS]; // a scalar that expressions read
    int               nargs;
    bool              copies;              // some tensor is copied
    Bound             bound;
    DeviceKernel      code;
    Prepared          prepared;            // not on eval
};

static const Elem elem_of[] = {
    [TKC_BOOL] = EL_bool, [TKC_I8] = EL_i8, [TKC_I16] = EL_i16, [TKC_I32] = EL_i32, [TKC_I64] = EL_i64, [TKC_U8] = EL_u8,
    [TKC_U16] = EL_u16, [TKC_U32] = EL_u32, [TKC_U64] = EL_u64, [TKC_F8E4M3] = EL_f8e4m3, [TKC_F8E5M2] = EL_f8e5m2,
    [TKC_F16] = EL_f16, [TKC_BF16] = EL_bf16, [TKC_F32] = EL_f32, [TKC_F64] = EL_f64,
};
enum { DTYPES = sizeof elem_of / sizeof *elem_of };

// ---- what is asked for ---------------------------------------------------------------------------

const Node *api_kernel(tkc_program *p, const char *name, Buf *err) {
    int n = sema_kernel_count(p->file);
    if (!name && n == 1) return sema_kernel(p->file, 0);
    const Node *k = name ? sema_find_kernel(p->file, name) : NULL;
    if (k) return k;
    if (name) buf_printf(err, "there is no kernel `%s`", name);
    else buf_printf(err, "which kernel is wanted must be said");
    for (int i = 0; i < n; i++) buf_printf(err, "%s `%s`", i ? "," : "; there are", sema_kernel(p->file, i)->sym->s);
    return NULL;
}

static bool read_value(const Node *kernel, const tkc_value *v, SemaValue *out, Buf *err) {
    const Node *list = kernel->kid[0];
    bool  declared = false;
    char *end = NULL;
    for (uint32_t i = 0; v->name && list && i < list->nkid; i++)
        declared |= list->kid[i] && list->kid[i]->sym && strcmp(list->kid[i]->sym->s, v->name) == 0;
    if (!declared || !v->value) {
        buf_printf(err, "`%s` has no compile-time parameter `%s`", kernel->sym->s, v->name ? v->name : "");
        if (declared) buf_puts(err, " without a value");
        return false;
    }
    *out = (SemaValue){.name = v->name, .elem = elem_by_name((Str){v->value, strlen(v->value)})};
    out->is_type = out->elem != EL_none;
    errno = 0;
    out->ival = strtoll(v->value, &end, v->value[0] == '0' && (v->value[1] | 32) == 'x' ? 16 : 10);
    bool number = end != v->value && *end == 0 && errno == 0;
    bool truth = strcmp(v->value, "true") == 0, truth_or_lie = truth || strcmp(v->value, "false") == 0;
    if (truth_or_lie) out->ival = truth;
    if (number || truth_or_lie || out->is_type) return true;
    if (strspn(v->value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == strlen(v->value) &&
        v->value[0] > '9') {
        out->fn = v->value;
        return true;
    }
    buf_printf(err, "%s = `%s` is no integer, true, false, element type or name of a function", v->name, v->value);
    return false;
}

bool api_values(const Node *kernel, const tkc_value *v, int n, SemaValue *out, Buf *err) {
    for (int i = 0; i < n; i++) {
        if (!read_value(kernel, &v[i], &out[i], err)) return false;
        for (int j = 0; j < i; j++)
            if (strcmp(v[j].name, v[i].name) == 0) { buf_printf(err, "`%s` is given twice", v[i].name); return false; }
    }
    return true;
}

Elem api_elem(tkc_dtype t) { return (unsigned)t < DTYPES ? elem_of[t] : EL_none; }

bool api_check_arg(const tkc_arg *a, Buf *err) {
    const tkc_tensor *t = &a->tensor;
    const char *name = a->name ? a->name : "";
    if (a->kind == TKC_INT || a->kind == TKC_FLOAT) return true;
    if (a->kind != TKC_TENSOR) buf_printf(err, "argument `%s` is of no known kind (%d)", name, (int)a->kind);
    else if ((unsigned)t->dtype >= DTYPES || !elem_of[t->dtype])
        buf_printf(err, "`%s` has no known element type (%d)", name, (int)t->dtype);
    else if (t->rank < 0 || t->rank > TKC_MAX_RANK)
        buf_printf(err, "`%s` has %d dimensions; at most %d can be", name, t->rank, TKC_MAX_RANK);
    else if (t->memory != TKC_HOST && t->memory != TKC_DEVICE)
        buf_printf(err, "`%s` lies in no known memory (%d)", name, (int)t->memory);
    double bytes = 8;
    for (int d = 0; !err->n && d < t->rank; d++) {
        if (t->dims[d] < 0) buf_printf(err, "`%s` has %lld elements along dimension %d", name, (long long)t->dims[d], d);
        else if (t->strides && t->strides[d] < 0)
            buf_printf(err, "`%s` has stride %lld along dimension %d; strides are not negative", name,
                       (long long)t->strides[d], d);
        bytes *= t->dims[d] > 0 ? (double)t->dims[d] : 1;
        if (t->strides && (double)t->strides[d] * (double)t->dims[d] > 0x1p48) bytes = INFINITY;
    }
    if (!err->n && bytes > 0x1p48) buf_printf(err, "`%s` is larger than any memory", name);
    return !err->n;
}

bool api_aligned(const char *name, Elem elem, const void *data, Buf *err) {
    if ((uintptr_t)data % (uintptr_t)elem_bytes(elem) == 0) return true;
    return buf_printf(err, "`%s` begins at no multiple of its elements' %d bytes", name, elem_bytes(elem)), false;
}

void api_describe(const tkc_arg *a, BindArg *b) {
    *b = (BindArg){.scalar = a->kind != TKC_TENSOR, .is_float = a->kind == TKC_FLOAT, .bits = true, .ival = a->i, .fval = a->f};
    if (b->scalar) return;
    b->elem = elem_of[a->tensor.dtype];
    b->rank = a->tensor.rank;
    memcpy(b->dim, a->tensor.dims, sizeof b->dim);
    bind_contiguous(b);
    if (a->tensor.strides && b->rank) memcpy(b->stride, a->tensor.strides, sizeof *b->stride * (size_t)b->rank);
}

// What the arguments say of dimensions and element types.
int api_infer(const Node *kernel, const tkc_arg *args, int nargs, SemaValue *out, Buf *err) {
    static char there;
    RunArg *spec = heap_alloc(sizeof *spec * (size_t)(nargs + 1));
    int n = -1;
    for (int i = 0; i < nargs; i++) {
        if (!api_check_arg(&args[i], err)) goto end;
        BindArg b;
        api_describe(&args[i], &b);
        spec[i] = (RunArg){.name = (char *)(uintptr_t)(args[i].name ? args[i].name : ""),
                           .spec = (char *)(uintptr_t)"argument",
                           .scalar = b.scalar,
                           .tensor = {.elem = b.elem, .rank = b.rank, .data = b.scalar ? NULL : &there}};
        memcpy(spec[i].tensor.dim, b.dim, sizeof b.dim);
    }
    n = infer_values(kernel, spec, nargs, out, API_MAX_VALUES, err);
end:
    heap_free(spec);
    return n;
}

// ---- instances -----------------------------------------------------------------------------------

static void key_values(Buf *key, const SemaValue *v, int n) {
    for (int i = 0; i < n; i++)
        buf_printf(key, "|%s=%d,%lld,%s", v[i].name, (int)v[i].elem, (long long)v[i].ival, v[i].fn ? v[i].fn : "");
}

// Names in the values outlive this call: instances keep them.
void api_keep_names(tkc_program *p, SemaValue *v, int n) {
    for (int i = 0; i < n; i++) {
        v[i].name = sym(p->session, v[i].name)->s;
        if (v[i].fn) v[i].fn = sym(p->session, v[i].fn)->s;
    }
}

static const Choice *choose(tkc_program *p, const Node *kernel, SemaValue *set, int nset, SemaValue *known, int nknown,
                            Buf *err) {
    Buf key = {0};
    buf_puts(&key, kernel->sym->s);
    key_values(&key, set, nset);
    buf_putc(&key, ';');
    key_values(&key, known, nknown);
    for (KnownChoice *c = p->choices; c; c = c->next)
        if (strcmp(c->key, key.p) == 0) { buf_free(&key); return &c->choice; }
    api_keep_names(p, set, nset);
    api_keep_names(p, known, nknown);
    int    from = diag_count(p->session);
    Choice choice;
    bool fine = runtime_choose(p->runtime, (InstanceOf){p->file, kernel, set, nset, known, nknown},
                               &runtime_options(p->runtime)->compile, &choice);
    if (api_diagnostics(p->session, from, err) || !fine) { buf_free(&key); return NULL; }
    KnownChoice *c = heap_alloc(sizeof *c);
    *c = (KnownChoice){p->choices, key.p, choice};
    p->choices = c;
    return &c->choice;
}

void api_forget_choices(tkc_program *prog) {
    for (KnownChoice *c = prog->choices, *next; c; c = next) {
        next = c->next;
        heap_free(c->key);
        heap_free(c);
    }
    prog->choices = NULL;
}

// ---- binding -------------------------------------------------------------------------------------

static bool place(tkc_launch *l, const LaunchInfo *info, const tkc_arg *args, int nargs, Buf *err) {
    for (int p = 0; p < info->nparams; p++) {
        const tkc_arg *a = NULL;
        for (int i = 0; i < nargs; i++) if (args[i].name && strcmp(args[i].name, info->params[p].name->s) == 0) a = &args[i];
        if (!a) {
            buf_printf(err, "`%s` needs an argument for `%s`", info->kernel->s, info->params[p].name->s);
            return false;
        }
        api_describe(a, &l->args[p]);
        if (l->args[p].scalar) continue;
        l->host[p].bytes = bind_extent(&l->args[p]);
        l->host[p].data = a->tensor.data;
        l->host[p].copied = a->tensor.memory == TKC_HOST && l->device->ops->runs_ptx;
        l->args[p].address = l->host[p].copied ? 0 : (uint64_t)(uintptr_t)a->tensor.data;
        if (!a->tensor.data && l->host[p].bytes) {
            buf_printf(err, "`%s` has no memory", info->params[p].name->s);
            return false;
        }
        if (!l->host[p].copied && !api_aligned(a->name, l->args[p].elem, a->tensor.data, err)) return false;
        l->copies |= l->host[p].copied;
    }
    l->nargs = info->nparams;
    return true;
}

static bool has_gaps(const BindArg *a) {
    BindArg whole = *a;
    bind_contiguous(&whole);
    return bind_extent(&whole) != bind_extent(a);
}

// Memory of the device for what lies in the host's.
static bool make_room(tkc_launch *l, const LaunchInfo *info, Buf *err) {
    for (int p = 0; p < l->nargs; p++) {
        HostSide *h = &l->host[p];
        if (!h->copied) continue;
        const LaunchParam *want = &info->params[p];
        h->back = param_written(want);
        h->filled = want->kind != PK_TENSOR || want->mode != PM_OUT || has_gaps(&l->args[p]);
        l->args[p].address = device_alloc(l->device, h->bytes, want->name->s, err);
        if (!l->args[p].address) { h->copied = false; return false; }
    }
    return true;
}

static void free_room(tkc_launch *l) {
    for (int p = 0; p < l->nargs; p++) {
        if (l->host[p].copied && l->args[p].address) device_free(l->device, l->args[p].address);
        l->args[p].address = 0;
    }
}

static bool reads(LExpr e, int param) {
    for (uint32_t i = 0; i < e.n; i++)
        if ((e.at[i].op == L_SCALAR || e.at[i].op == L_POSITIVE) && e.at[i].arg == param) return true;
    return false;
}

static bool decides(const LaunchInfo *info, int param) {
    bool any = reads(info->blocks, param) || reads(info->programs, param);
    for (int i = 0; i < info->nguards; i++) any |= reads(info->guards[i].cond, param);
    for (int i = 0; i < info->nfacts; i++) any |= reads(info->facts[i].cond, param);
    for (int i = 0; i < info->nslots; i++) {
        const LaunchSlot *s = &info->slots[i];
        any |= reads(s->expr, param);
        for (int d = 0; d < 3; d++)
            any |= reads(s->lower[d], param) || reads(s->upper[d], param) || reads(s->step[d], param);
    }
    return any;
}

// Of a kernel that was compiled ahead, the first whose facts hold: what assumes most.
static Compiled *fitting(Compiled *first, Bound *b) {
    const LaunchInfo *as_written = b->info;
    Compiled *c = compiled_less(first) ? first : NULL;
    for (; c; c = compiled_less(c)) {
        b->info = compiled_launch(c);
        if (bind_variant(b, NULL) == b->info) break;
    }
    b->info = as_written;
    return c ? c : first;
}

// The variant that may be used here, compiled, and its parameter block.
static tkc_status make_ready(tkc_launch *l, Bound *b, DeviceKernel *code, Prepared *prepared, Buf *err) {
    tkc_program *prog = l->prog;
    Device *d = l->device;
    const LaunchInfo *info = NULL;
    int  from = diag_count(prog->session);
    bool fine = compiled_kernel(prog->runtime, fitting(l->compiled, b), &info, code, false, err);
    if (fine) b->info = info;
    if (fine && bind_variant(b, NULL) != info) fine = compiled_kernel(prog->runtime, l->compiled, &info, code, true, err);
    Buf words = {0};
    if (api_diagnostics(prog->session, from, &words)) {
        buf_printf(err, "%s%s", err->n ? "\n" : "", words.p);
        buf_free(&words);
        return TKC_BAD_SOURCE;
    }
    if (!fine) return TKC_DEVICE_ERROR;
    b->info = info;
    if (!prepare(d, info, b, code, prepared, err)) return TKC_DEVICE_ERROR;
    prepared->launch.overlaps = prepared->launch.early && prog->ctx->early;
    bool ready = (!d->ops->ready || d->ops->ready(d, &prepared->launch, err)) &&
                 (!prepared->nscratch || d->ops->sync(d, err));
    if (ready) return TKC_OK;
    prepared_free(d, prepared);
    return TKC_DEVICE_ERROR;
}

// Under the program's lock. What the launch had before stays until all is well.
static tkc_status bind(tkc_launch *l, Buf *err) {
    Bound       *b = heap_alloc(sizeof *b);
    DeviceKernel code = {0};
    Prepared     prepared = {0};
    tkc_status   status = TKC_OK;
    if (!bind_args(l->built, l->args, l->nargs, b, err)) status = TKC_BAD_ARGUMENT;
    if (!status && !l->prepared.storage && !make_room(l, l->built, err)) status = TKC_DEVICE_ERROR;
    if (!status && !bind_overlap(b, err)) status = TKC_BAD_ARGUMENT;
    if (!status && l->device->ops->runs_ptx) status = make_ready(l, b, &code, &prepared, err);
    if (!status) {
        prepared_free(l->device, &l->prepared);
        l->bound = *b;
        l->code = code;
        l->prepared = prepared;
        l->prepared.launch.kernel = &l->code;
        for (int p = 0; p < l->nargs; p++) l->decides[p] = l->args[p].scalar && decides(l->bound.info, p);
    }
    heap_free(b);
    return status;
}

// From source: the instance that these arguments ask for, compiled.
static tkc_status from_source(tkc_launch *l, const char *kernel, const tkc_value *values, int nvalues,
                              const tkc_arg *args, int nargs, Buf *err) {
    tkc_program *prog = l->prog;
    SemaValue    set[API_MAX_VALUES], known[API_MAX_VALUES];
    const Node  *node = api_kernel(prog, kernel, err);
    bool fine = node && api_values(node, values, nvalues, set, err);
    int  nknown = fine ? api_infer(node, args, nargs, known, err) : -1;
    if (nknown < 0) return TKC_BAD_ARGUMENT;
    const Choice *choice = choose(prog, node, set, nvalues, known, nknown, err);
    if (!choice) return TKC_BAD_SOURCE;
    int from = diag_count(prog->session);
    l->compiled = runtime_compile(prog->runtime, choice->kernel, &choice->schedule, err);
    if (!l->compiled) { api_diagnostics(prog->session, from, err); return TKC_BAD_SOURCE; }
    l->built = compiled_launch(l->compiled);
    return place(l, l->built, args, nargs, err) ? bind(l, err) : TKC_BAD_ARGUMENT;
}

static const char *one_kernel(const tkc_program *p, const char *name) {
    if (name || !p->nmade) return name;
    for (int i = 1; i < p->nmade; i++) if (p->made[i].info[0]->kernel != p->made[0].info[0]->kernel) return NULL;
    return p->made[0].info[0]->kernel->s;
}

static bool same_types(const tkc_launch *l) {
    bool same = true;
    for (int p = 0; p < l->nargs; p++)
        same &= l->args[p].scalar ||
                (l->args[p].elem == l->built->params[p].elem && l->args[p].rank == l->built->params[p].rank);
    return same;
}

// From compiled kernels: the first that takes these arguments; else the words of one that is for such types, or of the last.
static tkc_status from_made(tkc_launch *l, const char *kernel, int nvalues, const tkc_arg *args, int nargs, Buf *err) {
    tkc_program *prog = l->prog;
    const char  *name = one_kernel(prog, kernel);
    tkc_status   status = TKC_BAD_ARGUMENT;
    bool         any = false, near = false;
    if (nvalues) { buf_puts(err, "the program is compiled: its values were set then"); return TKC_BAD_ARGUMENT; }
    for (int i = 0; i < nargs; i++) if (!api_check_arg(&args[i], err)) return TKC_BAD_ARGUMENT;
    for (int i = 0; name && i < prog->nmade && status == TKC_BAD_ARGUMENT; i++) {
        Buf why = {0};
        if (prog->made[i].less || strcmp(prog->made[i].info[0]->kernel->s, name)) continue;
        free_room(l);
        l->copies = false;
        l->compiled = runtime_made(prog->runtime, &prog->made[i]);
        l->built = compiled_launch(l->compiled);
        if (place(l, l->built, args, nargs, &why)) status = bind(l, &why);
        if (!near) { buf_free(err); *err = why; }
        else buf_free(&why);
        near |= status && same_types(l);
        any = true;
    }
    if (!status) buf_free(err);
    if (any) return status;
    if (kernel) buf_printf(err, "there is no kernel `%s`", kernel);
    else buf_puts(err, "which kernel is wanted must be said");
    for (int i = 0; i < prog->nmade; i++)
        if (!prog->made[i].less) buf_printf(err, "%s `%s`", i ? "," : "; there are", prog->made[i].info[0]->kernel->s);
    return TKC_BAD_ARGUMENT;
}

static void free_launch(tkc_launch *l) {
    prepared_free(l->device, &l->prepared);
    free_room(l);
    heap_free(l);
}

tkc_status tkc_prepare(tkc_program *prog, const char *kernel, const tkc_value *values, int nvalues, const tkc_arg *args,
                       int nargs, tkc_launch **out) {
    Buf err = {0};
    API_NEEDS(out);
    *out = NULL;
    API_NEEDS(prog);
    API_NEEDS_ALL(values, nvalues);
    API_NEEDS_ALL(args, nargs);
    API_COUNTS(nvalues, nargs);
    API_CALL(call);
    if (!api_own(&call, &prog->heap, &prog->lock)) return api_broken("program");
    tkc_launch *l = heap_alloc(sizeof *l);
    *l = (tkc_launch){.prog = prog, .device = prog->ctx->device};
    tkc_status status = prog->file ? from_source(l, kernel, values, nvalues, args, nargs, &err)
                                   : from_made(l, kernel, nvalues, args, nargs, &err);
    if (status) free_launch(l);
    else *out = l;
    return status ? api_failed(status, &err) : TKC_OK;
}

// Of a program that is broken, too: the launch was whole before.
static tkc_status free_whole(tkc_launch *l) {
    API_CALL(call);
    heap_use(&l->prog->heap);
    free_launch(l);
    return TKC_OK;
}

void tkc_launch_free(tkc_launch *l) { if (l) free_whole(l); }

// ---- other data ----------------------------------------------------------------------------------

static int param_of(const tkc_launch *l, const char *name, bool scalar) {
    for (int p = 0; name && p < l->nargs; p++)
        if (l->args[p].scalar == scalar && strcmp(l->built->params[p].name->s, name) == 0) return p;
    api_refused("`%s` has no %s `%s`", l->built->kernel->s, scalar ? "number" : "tensor", name ? name : "");
    return -1;
}

// The argument has changed: its cells, or all; what was before comes back when that is refused.
static tkc_status changed(tkc_launch *l, int p, const BindArg *before, bool anew) {
    Buf err = {0};
    tkc_status status = TKC_OK;
    API_CALL_OR(call, { l->args[p] = *before; return api_out_of_memory(&call); });
    if (!api_own(&call, &l->prog->heap, anew ? &l->prog->lock : NULL)) {
        l->args[p] = *before;
        return api_broken("program");
    }
    l->bound.args = l->args;
    if (anew) status = bind(l, &err);
    else if (l->args[p].scalar ? !bind_scalar(l->bound.info, l->args, p, &l->bound, &err)
                                 : !bind_overlap(&l->bound, &err))
        status = TKC_BAD_ARGUMENT;
    else if (l->prepared.storage && !prepared_patch(l->device, &l->bound, &l->prepared, p, &err)) status = TKC_DEVICE_ERROR;
    if (!status) return TKC_OK;
    l->args[p] = *before;
    Buf again = {0};
    if (!anew && l->args[p].scalar) bind_scalar(l->bound.info, l->args, p, &l->bound, &again);
    if (!anew && l->prepared.storage) prepared_patch(l->device, &l->bound, &l->prepared, p, &again);
    buf_free(&again);
    return api_failed(status, &err);
}

tkc_status tkc_set_data(tkc_launch *l, const char *name, void *data) {
    API_NEEDS_AS(l, "launch");
    int p = param_of(l, name, false);
    if (p < 0) return TKC_BAD_ARGUMENT;
    HostSide *h = &l->host[p];
    if (!data && h->bytes) return api_refused("`%s` has no memory", name);
    if (h->copied) { h->data = data; return TKC_OK; }
    Buf err = {0};
    if (!api_aligned(name, l->args[p].elem, data, &err)) return api_failed(TKC_BAD_ARGUMENT, &err);
    BindArg before = l->args[p];
    l->args[p].address = (uint64_t)(uintptr_t)data;
    bool anew = l->device->ops->runs_ptx && (l->args[p].address % 16 == 0) != (before.address % 16 == 0);
    return changed(l, p, &before, anew);
}

static tkc_status set_number(tkc_launch *l, const char *name, bool is_float, int64_t i, double f) {
    int p = param_of(l, name, true);
    if (p < 0) return TKC_BAD_ARGUMENT;
    BindArg before = l->args[p];
    l->args[p].is_float = is_float;
    l->args[p].ival = i;
    l->args[p].fval = f;
    return changed(l, p, &before, l->decides[p]);
}

tkc_status tkc_set_int(tkc_launch *l, const char *name, int64_t value)  { API_NEEDS_AS(l, "launch"); return set_number(l, name, false, value, 0); }
tkc_status tkc_set_float(tkc_launch *l, const char *name, double value) { API_NEEDS_AS(l, "launch"); return set_number(l, name, true, 0, value); }

// ---- running -------------------------------------------------------------------------------------

static bool on_device(tkc_launch *l, void *stream, ApiCall *call, Buf *err) {
    Device *d = l->device;
    if (d->ops->runs_ptx) {
        if (l->prepared.empty) return true;
        return d->ops->launch_on ? d->ops->launch_on(d, &l->prepared.launch, stream, err)
                                 : d->ops->launch(d, &l->prepared.launch, err);
    }
    static const RunControl plain;
    EvalOptions opt = {0};
    if (!api_own(call, &l->prog->heap, &l->prog->lock)) heap_give_up(0);
    bool fine = eval_kernel(l->prog->runtime, l->compiled, l->built, l->args, l->bound.dims, &plain, &opt, err);
    api_disown(call);
    return fine;
}

static bool copy(tkc_launch *l, bool back, Buf *err) {
    Device *d = l->device;
    for (int p = 0; p < l->nargs; p++) {
        const HostSide *h = &l->host[p];
        if (!h->copied || !(back ? h->back : h->filled)) continue;
        bool fine = back ? d->ops->read(d, h->data, l->args[p].address, h->bytes, err)
                         : d->ops->write(d, l->args[p].address, h->data, h->bytes, err);
        if (!fine) return false;
    }
    return true;
}

tkc_status tkc_run(tkc_launch *l, void *stream) {
    Buf  err = {0};
    API_NEEDS_AS(l, "launch");
    API_CALL(call);
    bool fine = l->copies ? copy(l, false, &err) && on_device(l, stream, &call, &err) &&
                                l->device->ops->sync(l->device, &err) && copy(l, true, &err)
                          : on_device(l, stream, &call, &err);
    return fine ? TKC_OK : api_failed(TKC_DEVICE_ERROR, &err);
}

static int by_size(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

tkc_status tkc_time(tkc_launch *l, int rounds, double *microseconds) {
    API_NEEDS_AS(l, "launch");
    API_NEEDS(microseconds);
    if (rounds < 1 || rounds > MAX_ROUNDS) return api_refused("%d rounds; 1 to %d can be", rounds, MAX_ROUNDS);
    Device *d = l->device;
    Buf     err = {0};
    API_CALL(call);
    double *us = heap_alloc(sizeof *us * (size_t)rounds);
    bool    fine = !l->copies || copy(l, false, &err);
    for (int i = 0; fine && i < WARM_UP; i++) fine = on_device(l, NULL, &call, &err);
    api_lock(&call, &l->prog->ctx->timing);
    for (int i = 0; fine && i < rounds; i++)
        fine = d->ops->mark(d, 0, &err) && on_device(l, NULL, &call, &err) && d->ops->mark(d, 1, &err) &&
               d->ops->between(d, 0, 1, &us[i], &err);
    api_unlock(&call);
    fine = fine && d->ops->sync(d, &err) && (!l->copies || copy(l, true, &err));
    if (fine) {
        qsort(us, (size_t)rounds, sizeof *us, by_size);
        *microseconds = us[rounds / 2];
    }
    heap_free(us);
    return fine ? TKC_OK : api_failed(TKC_DEVICE_ERROR, &err);
}

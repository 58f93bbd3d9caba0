// One launch of a kernel on host tensors: bind, copy in, launch, copy out.
//
//     open      compile, bind, make outputs, device memory (outputs full of junk), parameter block
//     launch    as often as one likes (`tkc bench` does)
//     close     frees all
//
// On eval the tile IR is run on host memory in place of PTX; a reference is, whatever the device.

#include "runtime/internal.h"

#include <stdlib.h>
#include <string.h>

bool param_written(const LaunchParam *p) { return p->kind == PK_POINTER || (p->kind == PK_TENSOR && p->mode != PM_IN); }

void describe_arg(const KernelArg *a, BindArg *b) {
    *b = (BindArg){.origin = a->origin, .scalar = a->scalar, .is_float = a->is_float, .is_u64 = a->is_u64, .ival = a->ival, .fval = a->fval};
    if (a->scalar) { b->elem = a->elem; return; }
    const HostTensor *t = a->tensor;
    b->absent = !t || !t->data;
    if (b->absent) return;
    b->elem = t->elem;
    b->rank = t->rank;
    memcpy(b->dim, t->dim, sizeof b->dim);
    bind_contiguous(b);
}

bool make_outputs(const LaunchInfo *info, KernelArg *args, const BindArg *bound, Buf *err) {
    for (int p = 0; p < info->nparams; p++) {
        const LaunchParam *want = &info->params[p];
        if (want->kind == PK_SCALAR || !bound[p].absent) continue;
        if (want->mode != PM_OUT || want->kind != PK_TENSOR || !args[p].tensor) {
            buf_printf(err, "`%s` has no value", want->name->s);
            return false;
        }
        if (!tensor_make(args[p].tensor, want->elem, want->rank, bound[p].dim, err)) return false;
    }
    return true;
}

DeviceFill junk_of(const RunControl *ctl) { return ctl->junk == FILL_ZERO ? FILL_RANDOM : ctl->junk; }

// Copies in what is read, fills what is only written with junk.
static bool copy_in(OpenLaunch *l, const KernelArg *args, const RunControl *ctl, Buf *err) {
    Device *d = l->device;
    for (int p = 0; p < l->info->nparams; p++) {
        const LaunchParam *want = &l->info->params[p];
        if (want->kind == PK_SCALAR) continue;
        const HostTensor *t = args[p].tensor;
        size_t bytes = tensor_bytes(t);
        l->args[p].address = device_alloc(d, bytes, want->name->s, err);
        if (!l->args[p].address) return false;
        bool only_out = want->kind == PK_TENSOR && want->mode == PM_OUT;
        bool fine = only_out ? d->ops->fill(d, l->args[p].address, bytes, junk_of(ctl), ctl->junk_seed + (uint64_t)p, err)
                             : d->ops->write(d, l->args[p].address, t->data, bytes, err);
        if (!fine) return false;
    }
    return true;
}

bool launch_copy_out(OpenLaunch *l, KernelArg *args, Buf *err) {
    for (int p = 0; p < l->info->nparams; p++) {
        if (!param_written(&l->info->params[p])) continue;
        if (!l->device->ops->read(l->device, args[p].tensor->data, l->args[p].address, tensor_bytes(args[p].tensor),
                                  err))
            return false;
    }
    return true;
}

// Chooses the variant, now that its facts can be asked, and makes the parameter block.
static bool ready(Runtime *rt, OpenLaunch *l, Buf *err) {
    if (!compiled_kernel(rt, l->compiled, &l->info, &l->kernel, false, err)) return false;
    l->bound->info = l->info;
    if (bind_variant(l->bound, NULL) != l->info && !compiled_kernel(rt, l->compiled, &l->info, &l->kernel, true, err))
        return false;
    return prepare(l->device, l->info, l->bound, &l->kernel, &l->prepared, err);
}

static bool bind_memory(OpenLaunch *l, KernelArg *args, const RunControl *ctl, Buf *err) {
    l->args = heap_alloc(sizeof *l->args * MAX_PARAMS);
    l->bound = heap_alloc(sizeof *l->bound);
    for (int p = 0; p < l->nargs; p++) describe_arg(&args[p], &l->args[p]);
    return bind_sized(l->info, l->args, l->nargs, ctl->dims, l->bound, err) && make_outputs(l->info, args, l->args, err)
        && copy_in(l, args, ctl, err) && bind_overlap(l->bound, err);
}

bool launch_open_code(OpenLaunch *l, KernelArg *args, Buf *err) {
    static const RunControl plain;
    Buf why = {0};
    bool ok = bind_memory(l, args, &plain, err);
    if (ok && bind_variant(l->bound, &why) != l->info) {
        buf_printf(err, "`%s` was compiled for other arguments: %s; tkc FILE.tk --general makes code that assumes nothing of them", l->info->kernel->s, why.p);
        ok = false;
    }
    buf_free(&why);
    return ok && prepare(l->device, l->info, l->bound, &l->kernel, &l->prepared, err);
}

bool launch_open(Runtime *rt, const TKernel *k, KernelArg *args, int nargs, const RunControl *ctl, OpenLaunch *l, Buf *err) {
    *l = (OpenLaunch){.device = runtime_device(rt), .nargs = nargs};
    l->on_eval = ctl->on_eval || !l->device->ops->runs_ptx;
    l->compiled = runtime_compile(rt, k, ctl->schedule, err);
    if (!l->compiled) return false;
    if (nargs > MAX_PARAMS) { buf_printf(err, "more than %d arguments", MAX_PARAMS); return false; }
    if (l->on_eval && l->device->ops->runs_ptx) l->device = l->host = device_open("eval", NULL, err);
    l->info = compiled_eval(l->compiled)->launch;
    return bind_memory(l, args, ctl, err) && (l->on_eval || ready(rt, l, err));
}

void launch_close(OpenLaunch *l) {
    prepared_free(l->device, &l->prepared);
    for (int p = 0; l->args && p < l->nargs; p++)
        if (l->args[p].address) device_free(l->device, l->args[p].address);
    heap_free(l->args);
    heap_free(l->bound);
    device_close(l->host);
    *l = (OpenLaunch){0};
}

// Error bounds come with what is read and go with what is written: an array of its own for each output, which
// for an inout tensor begins as what it was.
static void carry_bounds(const OpenLaunch *l, KernelArg *args, EvalOptions *opt) {
    for (int p = 0; p < l->info->nparams; p++) {
        if (param_written(&l->info->params[p])) {
            double *before = args[p].bound;
            size_t  n = (size_t)tensor_count(args[p].tensor);
            args[p].bound = heap_alloc(sizeof(double) * (n + 1));
            if (before) memcpy(args[p].bound, before, sizeof(double) * n);
        }
        opt->bound[p] = args[p].bound;
    }
}

// A kernel on eval: its tile IR on host memory.
bool eval_kernel(Runtime *rt, const Compiled *c, const LaunchInfo *info, const BindArg *args, const int64_t *dims,
                 const RunControl *ctl, EvalOptions *opt, Buf *err) {
    EvalArg     eval[MAX_PARAMS] = {0};
    EvalReport  report = {0};
    opt->junk = (uint32_t)ctl->junk_seed;
    opt->reversed = ctl->reversed;
    opt->bounded = true;
    opt->print_to = runtime_options(rt)->print_to ? runtime_options(rt)->print_to : stdout;
    opt->report = ctl->notes ? &report : NULL;
    for (int p = 0; p < info->nparams; p++) {
        const BindArg *a = &args[p];
        eval[p].ival = a->ival;
        eval[p].fval = a->fval;
        if (info->params[p].kind == PK_SCALAR) continue;
        eval[p].tensor.data = (void *)(uintptr_t)a->address;
        eval[p].tensor.bytes = bind_extent(a);
        memcpy(eval[p].tensor.dims, a->dim, sizeof a->dim);
        memcpy(eval[p].tensor.strides, a->stride, sizeof a->stride);
    }
    char *fault = NULL;
    Span  at = {0};
    bool  fine = ir_eval(compiled_eval(c), eval, dims, opt, &fault, &at);
    if (!fine) {
        if (at.hi) {
            LineCol where = span_where(runtime_session(rt), at.lo);
            buf_printf(err, "%s:%u:%u: ", where.src->path, where.line, where.col);
        }
        buf_printf(err, "%s in `%s`", fault ? fault : "trapped", info->kernel->s);
    } else if (report.races) {
        buf_printf(err, "`%s` races: ", info->kernel->s);
        one_line(err, report.text.p, report.text.n);
        fine = false;
    } else if (report.text.n) buf_add(ctl->notes, report.text.p, report.text.n);
    buf_free(&report.text);
    heap_free(fault);
    return fine;
}

static bool run_eval(Runtime *rt, const OpenLaunch *l, KernelArg *args, const RunControl *ctl, Buf *err) {
    EvalOptions opt = {0};
    if (ctl->bounds) carry_bounds(l, args, &opt);
    return eval_kernel(rt, l->compiled, l->info, l->args, l->bound->dims, ctl, &opt, err);
}

static bool run_ptx(const OpenLaunch *l, const RunControl *ctl, Buf *err) {
    l->device->junk = junk_of(ctl);
    l->device->junk_seed = ctl->junk_seed;
    l->device->in_order = ctl->in_order;
    l->device->order_seed = ctl->order_seed;
    if (prepared_launch(l->device, &l->prepared, err) && l->device->ops->sync(l->device, err)) return true;
    compiled_with(l->compiled, err);
    return false;
}

// On a device with memory of its own, the arguments are still the host's when this is asked.
static bool verified(Runtime *rt, const OpenLaunch *l, const KernelArg *args, Buf *err) {
    BindArg *host = heap_alloc(sizeof *host * MAX_PARAMS);
    for (int p = 0; p < l->nargs; p++) {
        host[p] = l->args[p];
        if (args[p].tensor) host[p].address = (uint64_t)(uintptr_t)args[p].tensor->data;
    }
    bool fine = verify_values(rt, l->compiled, l->bound, host, err);
    heap_free(host);
    return fine;
}

bool kernel_launch(Runtime *rt, const TKernel *k, KernelArg *args, int nargs, const RunControl *ctl, Buf *err) {
    static const RunControl plain;
    OpenLaunch l;
    if (!ctl) ctl = &plain;
    bool fine = launch_open(rt, k, args, nargs, ctl, &l, err);
    fine = fine && (!ctl->verify_values || verified(rt, &l, args, err));
    if (!ctl->only_verify) {
        fine = fine && (l.on_eval ? run_eval(rt, &l, args, ctl, err) : run_ptx(&l, ctl, err));
        fine = fine && launch_copy_out(&l, args, err);
    }
    launch_close(&l);
    return fine;
}

// Measuring what a kernel leaves open.
//
//     candidates (lower/cost/candidates.c)      41      each with the model's time
//       the model leaves out               -24     far from its best; what it does not know stays
//     compiled, on all cores               17
//       refused                            -4      does not compile, spills, more shared memory than there is; the row says so
//     1 launch each                        13      results that are not those of the model's choice: refused
//     3 launches each                      13      what is 1.25 of the best or more is out of the race
//     7 rounds of 5 launches, in turns     6       so that drifts of clock and temperature hit all alike; medians
//     the best                             1       the model's choice, if that is as good
//
// Arguments are data of our own: random unless the caller has data, as large as the launch says, one copy for all
// candidates. Caches are full of other data before each launch (timing.c).
#include "lang/c_text.h"
#include "runtime/tune.h"

#include "lower/cost/roofline.h"
#include "runtime/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double FAR = 1.6, SLOW = 1.25, AS_GOOD = 1.005;
enum { MOST = 32, FIRST = 3, ROUNDS = 7, EACH = 5, LONG_US = 3000, LONG_EACH = 2, MAX_ROUNDS = 101, BATCH = 16, RANDOM = 1 << 20 };

typedef struct Try {
    const Candidate *c;
    Compiled    *compiled;
    DeviceKernel code;
    Bound        bound;
    Prepared     prepared;
    bool         ready, open;                            // may be launched; is prepared
    Buf          err;                                    // why not
    double       us, round[MAX_ROUNDS];
} Try;

typedef struct Tuning {
    Runtime  *rt;
    Device   *device;
    Session  *session;
    const TuneOptions *opt;
    Candidate *all;
    int       nall, model;                               // the model's choice
    Try      *try;                                       // [0] the model's choice, then the defaults unless they are that
    int       n;
    BindArg   args[MAX_PARAMS];
    int       nargs;
    Timer    *timer;
    Roofline  work;
    TuneCheck check;
} Tuning;

static void progress(const Tuning *t, const char *doing, int done, int of) {
    if (t->opt->progress) t->opt->progress(t->opt->ctx, doing, done, of);
}

// ---- data ----------------------------------------------------------------------------------------

// Integers of four bytes and more may be indices: below the largest dimension.
static bool fill_random(const Tuning *t, uint64_t to, uint64_t bytes, const BindArg *a, int64_t largest, int p, Buf *err) {
    uint64_t size = (uint64_t)elem_bytes(a->elem), n = bytes / size < RANDOM ? bytes / size : RANDOM;
    HostTensor data;
    if (!n) return true;
    if (!tensor_make(&data, a->elem, 1, (int64_t[]){(int64_t)n}, err)) return false;
    bool index = !elem_is_float(a->elem) && size >= 4;
    tensor_fill(&data, &(FillSpec){.make = index ? MAKE_randint : MAKE_random,
                                   .hi = number_int(index ? largest : 0),
                                   .seed = t->opt->seed,
                                   .stream = rng_stream("tune", p)});
    bool fine = true;
    for (uint64_t at = 0; fine && at < bytes; at += n * size)
        fine = t->device->ops->write(t->device, to + at, data.data, bytes - at < n * size ? bytes - at : n * size, err);
    tensor_free(&data);
    return fine;
}

static bool copy_device(const Tuning *t, uint64_t to, uint64_t from, uint64_t bytes, Buf *err) {
    void *host = heap_alloc(bytes + 1);
    bool fine = t->device->ops->read(t->device, host, from, bytes, err) &&
                t->device->ops->write(t->device, to, host, bytes, err);
    heap_free(host);
    return fine;
}

static bool make_data(Tuning *t, const LaunchInfo *info, const TuneArg *const *given, int64_t largest, Buf *err) {
    Device *d = t->device;
    for (int p = 0; p < info->nparams; p++) {
        BindArg *a = &t->args[p];
        if (a->scalar) continue;
        uint64_t bytes = bind_extent(a);
        bool out = info->params[p].kind == PK_TENSOR && info->params[p].mode == PM_OUT, fine = true;
        a->address = device_alloc(d, bytes, info->params[p].name->s, err);
        if (!a->address) return false;
        if (out) continue;
        if (given[p] && given[p]->host) fine = d->ops->write(d, a->address, given[p]->host, bytes, err);
        else if (given[p] && given[p]->device) fine = copy_device(t, a->address, given[p]->device, bytes, err);
        else fine = fill_random(t, a->address, bytes, a, largest, p, err);
        if (!fine) return false;
    }
    return true;
}

// Shapes of what is not given, from dimensions and scalars.
static bool describe(Tuning *t, const LaunchInfo *info, InstanceOf of, const TuneArg *const *given,
                     Buf *err) {
    int64_t dims[MAX_DIMS];
    Bound   b = {.info = info, .args = t->args, .nargs = info->nparams};
    for (int k = 0; k < info->ndims; k++) {
        dims[k] = -1;
        for (int i = 0; i < of.nknown; i++)
            if (!of.known[i].is_type && strcmp(of.known[i].name, info->dims[k].name->s) == 0) dims[k] = of.known[i].ival;
    }
    t->nargs = info->nparams;
    for (int p = 0; p < info->nparams; p++) {
        const LaunchParam *want = &info->params[p];
        if (given[p]) t->args[p] = given[p]->arg;
        if (want->kind != PK_SCALAR && !(want->kind == PK_POINTER && !given[p])) continue;
        if (!given[p]) {
            buf_printf(err, "`%s` needs a value for `%s` (%s)", info->kernel->s, want->name->s, elem_name(want->elem));
            return false;
        }
        if (want->kind == PK_SCALAR && !given[p]->arg.scalar) {
            buf_printf(err, "`%s` is a number (%s)", want->name->s, elem_name(want->elem));
            return false;
        }
        if (want->kind == PK_SCALAR && !bind_scalar(info, t->args, p, &b, err)) return false;
    }
    if (!bind_dims(info, dims, &b, err)) return false;
    for (int p = 0; p < info->nparams; p++) {
        const LaunchParam *want = &info->params[p];
        if (given[p] || want->kind != PK_TENSOR) continue;
        t->args[p] = (BindArg){.elem = want->elem, .rank = want->rank};
        for (int i = 0; i < want->rank; i++) t->args[p].dim[i] = bind_eval(&b, want->dim[i]);
        bind_contiguous(&t->args[p]);
    }
    t->work = roofline_at(t->session, t->all[0].kernel, b.dims);
    int64_t largest = 1;
    for (int k = 0; k < info->ndims; k++) if (b.dims[k] > largest) largest = b.dims[k];
    return bind_args(info, t->args, t->nargs, &b, err) && make_data(t, info, given, largest, err);
}

// ---- candidates ----------------------------------------------------------------------------------

static int by_expected(const void *x, const void *y) {
    const Candidate *a = *(const Candidate *const *)x, *b = *(const Candidate *const *)y;
    return a->us < b->us ? -1 : a->us > b->us ? 1 : (a > b) - (a < b);
}

// Which are measured: the model's choice, the defaults, then those that the model likes best, and some of those it does
// not know.
static void select_some(Tuning *t) {
    const Candidate **order = heap_alloc(sizeof(Candidate *) * (size_t)t->nall);
    int most = t->opt->all ? t->nall : t->opt->most > 0 ? t->opt->most : MOST, n = 0, known = 0;
    if (most < 2) most = 2;
    t->try = heap_alloc(sizeof *t->try * (size_t)(t->nall + 1));
    t->try[t->n++].c = &t->all[t->model];
    if (t->model != 0) t->try[t->n++].c = &t->all[0];
    for (int i = 1; i < t->nall; i++) if (i != t->model && t->all[i].allowed) order[n++] = &t->all[i];
    qsort(order, (size_t)n, sizeof(Candidate *), by_expected);
    double best = n && order[0]->us < t->all[t->model].us ? order[0]->us : t->all[t->model].us;
    for (; known < n && order[known]->us < INFINITY; known++)
        if (t->n < most && (t->opt->all || order[known]->us <= best * FAR)) t->try[t->n++].c = order[known];
    int unknown = n - known, room = most - t->n < unknown ? most - t->n : unknown;
    for (int i = 0; i < room; i++) t->try[t->n++].c = order[known + (int)((int64_t)i * unknown / room)];
    heap_free(order);
}

static void refuse(Try *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void refuse(Try *x, const char *fmt, ...) {
    char    text[256];
    va_list args;
    va_start(args, fmt);
    c_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!x->err.n) buf_puts(&x->err, text);
}

static void compile_some(Tuning *t) {
    Compiled *list[BATCH];
    bool      general[BATCH] = {0};
    Buf       why[BATCH] = {0};
    int       of[BATCH], said = diag_count(t->session);
    for (int i = 0; i < t->n;) {
        int n = 0;
        progress(t, "compiling", i, t->n);
        for (; i < t->n && n < BATCH; i++) {
            Try *x = &t->try[i];
            x->compiled = runtime_compile(t->rt, x->c->kernel, &x->c->schedule, &x->err);
            if (x->compiled) { list[n] = x->compiled; of[n++] = i; }
        }
        compile_each(t->rt, list, general, n, why);
        for (int k = 0; k < n; k++) {
            if (why[k].n) refuse(&t->try[of[k]], "%s", why[k].p);
            buf_free(&why[k]);
        }
        diag_forget(t->session, said);
    }
    progress(t, "compiling", t->n, t->n);
}

// Bound to the data, with the variant that may be used there.
static bool ready(Tuning *t, Try *x) {
    const LaunchInfo *info;
    Device *d = t->device;
    if (!bind_args(compiled_eval(x->compiled)->launch, t->args, t->nargs, &x->bound, &x->err) ||
        !bind_overlap(&x->bound, &x->err))
        return false;
    if (!compiled_kernel(t->rt, x->compiled, &info, &x->code, false, &x->err)) return false;
    x->bound.info = info;
    if (bind_variant(&x->bound, NULL) != info && !compiled_kernel(t->rt, x->compiled, &info, &x->code, true, &x->err))
        return false;
    x->bound.info = info;
    if (info->smem > d->max_smem && d->max_smem) {
        refuse(x, "%u bytes of shared memory, of %u", info->smem, d->max_smem);
        return false;
    }
    if (x->code.max_threads && info->threads > x->code.max_threads) {
        refuse(x, "%d threads, where registers are for %d", info->threads, x->code.max_threads);
        return false;
    }
    return true;
}

// Scratch memory may be large, so few have it at a time.
static bool open_try(Tuning *t, Try *x) {
    Device *d = t->device;
    if (!prepare(d, x->bound.info, &x->bound, &x->code, &x->prepared, &x->err)) return false;
    x->open = !d->ops->ready || d->ops->ready(d, &x->prepared.launch, &x->err);
    if (!x->open) prepared_free(d, &x->prepared);
    return x->open;
}

static void close_try(Tuning *t, Try *x) {
    if (x->open) prepared_free(t->device, &x->prepared);
    x->open = false;
}

static void ready_some(Tuning *t) {
    int said = diag_count(t->session), least = INT32_MAX;
    for (int i = 0; i < t->n; i++) {
        Try *x = &t->try[i];
        x->ready = !x->err.n && ready(t, x);
        if (!x->ready) refuse(x, "cannot be launched");
        if (x->ready && x->code.local_bytes < least) least = x->code.local_bytes;
    }
    diag_forget(t->session, said);
    for (int i = 2; i < t->n; i++) {
        Try *x = &t->try[i];
        if (!x->ready || x->code.local_bytes <= least) continue;
        refuse(x, "spills %d bytes a thread", x->code.local_bytes);
        x->ready = false;
    }
}

// ---- timing --------------------------------------------------------------------------------------

static double best_of(const Tuning *t) {
    double best = INFINITY;
    for (int i = 0; i < t->n; i++) if (t->try[i].ready && t->try[i].us < best) best = t->try[i].us;
    return best;
}

// Once, and are its results right?
static bool right(Tuning *t, Try *x) {
    double warm;
    const LaunchInfo *info = x->bound.info;
    return tune_check_begin(t->device, info, t->args, &x->err) && timer_run(t->timer, &x->prepared, 1, &warm, &x->err)
        && tune_check_end(&t->check, t->device, info, t->args, &x->err);
}

static bool first_look(Tuning *t, Buf *err) {
    for (int i = 0; i < t->n; i++) {
        Try *x = &t->try[i];
        progress(t, "measuring", i, t->n);
        if (!x->ready) continue;
        x->ready = open_try(t, x) && right(t, x) && timer_run(t->timer, &x->prepared, FIRST, &x->us, &x->err);
        Buf none = {0};
        bool alive = x->ready || t->device->ops->sync(t->device, &none);         // a fault ends the context
        buf_free(&none);
        close_try(t, x);
        if (alive) continue;
        buf_puts(err, x->err.p);
        return false;
    }
    progress(t, "measuring", t->n, t->n);
    return true;
}

static bool in_turns(Tuning *t, Buf *err) {
    int    rounds = t->opt->rounds > 0 ? t->opt->rounds : ROUNDS, m = 0;
    double most = best_of(t) * SLOW;
    Try  **left = heap_alloc(sizeof(Try *) * (size_t)t->n);
    bool   fine = true;
    if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
    for (int i = 0; i < t->n; i++)
        if (t->try[i].ready && (t->try[i].us <= most || i < 2) && open_try(t, &t->try[i])) left[m++] = &t->try[i];
    for (int r = 0; r < rounds && fine; r++) {
        progress(t, "in turns", r, rounds);
        for (int i = 0; i < m && fine; i++) {
            Try *x = left[r % 2 ? m - 1 - i : i];
            fine = timer_run(t->timer, &x->prepared, x->us > LONG_US ? LONG_EACH : EACH, &x->round[r], err);
        }
    }
    for (int i = 0; i < m && fine; i++) left[i]->us = median_of(left[i]->round, rounds);
    progress(t, "in turns", rounds, rounds);
    for (int i = 0; i < m; i++) close_try(t, left[i]);
    heap_free(left);
    return fine;
}

// ---- the result ----------------------------------------------------------------------------------

static int by_time(const void *x, const void *y) {
    const Try *a = *(const Try *const *)x, *b = *(const Try *const *)y;
    if (a->ready != b->ready) return a->ready ? -1 : 1;
    double p = a->ready ? a->us : a->c->us, q = b->ready ? b->us : b->c->us;
    return p < q ? -1 : p > q ? 1 : (a > b) - (a < b);
}

static void result(Tuning *t, const CompileOptions *compile, TuneResult *out) {
    const Try **order = heap_alloc(sizeof(Try *) * (size_t)t->n);
    double best = best_of(t);
    for (int i = 0; i < t->n; i++) order[i] = &t->try[i];
    if (t->try[0].ready && t->try[0].us <= best * AS_GOOD) t->try[0].us = best;      // no better than the clock can tell
    qsort(order, (size_t)t->n, sizeof(Try *), by_time);
    out->row = NEW_N(out->arena, TuneRow, t->n);
    out->n = t->n;
    out->looked = t->nall;
    out->bytes = t->work.bytes;
    out->flops = t->work.flops + t->work.products;
    for (int i = 0; i < t->n; i++) {
        const Try *x = order[i];
        const char *text = candidate_text(out->arena, x->c, &compile->schedule);
        Buf why = {0};
        one_line(&why, x->err.n ? x->err.p : "", x->err.n);
        for (char *c = why.p; c && *c; c++) if (*c == '\t') *c = ' ';
        out->row[i] = (TuneRow){.choice = text ? text : "", .expected = x->c->us, .us = x->ready ? x->us : 0,
                                .refused = x->ready ? NULL : arena_printf(out->arena, "%s", why.n ? why.p : "")};
        if (x->c == &t->all[t->model]) out->model = i;
        if (x->c == &t->all[0]) out->defaults = i;
        buf_free(&why);
    }
    heap_free(order);
}

static const char *dims_text(Arena *a, InstanceOf of) {
    Buf t = {0};
    for (int i = 0; i < of.nknown; i++) {
        const SemaValue *v = &of.known[i];
        if (v->is_type) buf_printf(&t, "%s%s = %s", t.n ? ", " : "", v->name, elem_name(v->elem));
        else buf_printf(&t, "%s%s = %lld", t.n ? ", " : "", v->name, (long long)v->ival);
    }
    const char *out = arena_printf(a, "%s", t.n ? t.p : "");
    buf_free(&t);
    return out;
}

static void close(Tuning *t) {
    Device *d = t->device;
    for (int i = 0; i < t->n; i++) {
        buf_free(&t->try[i].err);
    }
    for (int p = 0; p < t->nargs; p++) if (!t->args[p].scalar && t->args[p].address) device_free(d, t->args[p].address);
    tune_check_free(&t->check);
    timer_close(t->timer);
    heap_free(t->try);
}

static bool measure(Tuning *t, Buf *err) {
    select_some(t);
    compile_some(t);
    ready_some(t);
    t->timer = timer_open(t->device, true, err);
    return t->timer && first_look(t, err) && in_turns(t, err);
}

static void name_it(Tuning *t, TuneResult *out, InstanceOf of, const char *device) {
    *out = (TuneResult){.arena = arena_new()};
    LineCol at = span_where(t->session, of.item->span.lo);
    out->kernel = arena_printf(out->arena, "%s", of.item->sym->s);
    out->file = arena_printf(out->arena, "%s", at.src ? at.src->path : "");
    out->device = arena_printf(out->arena, "%s", device);
    out->dims = dims_text(out->arena, of);
}

// A dimension that nobody gave, or NULL.
static const LaunchDim *not_given(const TKernel *k, InstanceOf of) {
    for (int d = 0; d < k->ndims; d++) {
        bool given = k->dims[d].fixed >= 0;
        for (int i = 0; i < of.nset + of.nknown; i++) given |= strcmp((i < of.nset ? of.set[i] : of.known[i - of.nset]).name, k->dims[d].name->s) == 0;
        if (!given) return &k->dims[d];
    }
    return NULL;
}

bool tune_expect(Session *s, InstanceOf of, const CompileOptions *opt, TuneResult *out, Buf *err) {
    Tuning t = {.session = s};
    *out = (TuneResult){0};
    t.nall = kernel_candidates(s, of, opt, true, &t.all);
    if (!t.nall) return false;
    t.model = candidate_best(t.all, t.nall);
    const Candidate **order = heap_alloc(sizeof(Candidate *) * (size_t)t.nall);
    for (int i = 0; i < t.nall; i++) order[i] = &t.all[i];
    qsort(order, (size_t)t.nall, sizeof(Candidate *), by_expected);
    name_it(&t, out, of, opt->target->gpu);
    out->row = NEW_N(out->arena, TuneRow, t.nall);
    out->n = out->looked = t.nall;
    bool any = order[0]->us < INFINITY;
    for (int i = 0; i < t.nall; i++) {
        const char *text = candidate_text(out->arena, order[i], &opt->schedule);
        out->row[i] = (TuneRow){.choice = text ? text : "", .expected = order[i]->us};
        if (order[i] == &t.all[t.model]) out->model = i;
        if (order[i] == &t.all[0]) out->defaults = i;
    }
    heap_free(order);
    if (any) return true;
    const LaunchDim *missing = not_given(t.all[0].kernel, of);
    if (missing) buf_printf(err, "what `%s` takes depends on `%s`: give it, `%s=1024`", out->kernel, missing->name->s, missing->name->s);
    else
        buf_printf(err, "the model cannot tell what `%s` takes, whose loops go as far as numbers or data say: measure it on a GPU, without --expect",
                   out->kernel);
    tune_result_free(out);
    return false;
}

bool tune_kernel(Runtime *rt, InstanceOf of, const TuneArg *args, int nargs, const TuneOptions *opt, TuneResult *out, Buf *err) {
    static const TuneOptions usual;
    const CompileOptions *compile = &runtime_options(rt)->compile;
    Tuning t = {.rt = rt, .device = runtime_device(rt), .session = runtime_session(rt), .opt = opt ? opt : &usual};
    const TuneArg *given[MAX_PARAMS] = {0};
    *out = (TuneResult){0};
    if (!t.device->model[0]) {
        buf_printf(err, "tuning measures a GPU; the device %s is none", t.device->ops->name);
        return false;
    }
    t.nall = kernel_candidates(t.session, of, compile, true, &t.all);
    if (!t.nall) return false;
    t.model = candidate_best(t.all, t.nall);
    TKernel *k = t.all[0].kernel;
    Fn      *f = ir_build(t.session, k);
    if (!f) { buf_printf(err, "`%s` could not be turned into tile IR", k->name->s); return false; }
    for (int p = 0; p < f->launch->nparams; p++)
        for (int i = 0; i < nargs; i++) if (strcmp(args[i].name, f->launch->params[p].name->s) == 0) given[p] = &args[i];
    name_it(&t, out, of, t.device->model);
    bool fine = describe(&t, f->launch, of, given, err) && measure(&t, err);
    if (fine) result(&t, compile, out);
    if (fine && out->row[0].us <= 0) {
        buf_printf(err, "no candidate of `%s` could be launched: %s", out->kernel, out->row[0].refused);
        fine = false;
    }
    if (fine) tuned_keep(runtime_tuned(rt), t.session, of, compile, out);
    close(&t);
    if (!fine) tune_result_free(out);
    return fine;
}

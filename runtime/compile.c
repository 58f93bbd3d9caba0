// A kernel instance, compiled and loaded once for each meaning.
//
// Two instances are the same when their tile IR prints the same: the text holds every extent, constant,
// guard and compile-time value, and nothing else. So tests that call one kernel on many shapes compile it
// once, unless a shape decides a compile-time value. An instance has two variants, each made when it is
// first needed: the one that uses all host facts, and the general one.
//
//     typed kernel -> ir_build -> text = key -> hit? -> on disk? -> lower_run -> lower_emit -> Device.load

#include "lower/pass/passes.h"
#include "runtime/assemble.h"
#include "runtime/cache.h"
#include "runtime/artifact.h"
#include "runtime/tune.h"

#include "ptx/ptx.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Variant {
    const LaunchInfo *info;
    DeviceModule *module;
    DeviceKernel  kernel;
    bool          tried;
} Variant;

struct Compiled {
    Compiled *next;
    char     *key;
    const TKernel *typed;
    Schedule  schedule;
    uint64_t  fixed;                 // parameters, by bit, that nothing writes while it runs
    Fn       *eval;                  // as built, for the device eval and for references
    const Artifact *made;            // compiled before, or NULL
    Variant   variant[2];            // 0: assumes the facts, 1: general
};

typedef struct Known { struct Known *next; const TKernel *typed; Compiled *compiled; } Known;      // by instance

struct Runtime {
    Session       *session;
    Device        *device;
    RuntimeOptions opt;
    Compiled      *cache;
    Known         *known;
    CompileStats   stats;
    GraphStore    *graphs;
    GraphChoices  *choices;
    TunedStore    *tuned;
};

Runtime *runtime_new(Session *s, Device *dev, const RuntimeOptions *opt) {
    Runtime *rt = checked_alloc(sizeof *rt);
    rt->session = s;
    rt->device = dev;
    if (opt) rt->opt = *opt;
    if (!rt->opt.compile.target && dev->arch[0]) rt->opt.compile.target = target_find(dev->arch);
    if (!rt->opt.compile.target) rt->opt.compile.target = target_default;
    return rt;
}

void runtime_free(Runtime *rt) {
    if (!rt) return;
    graph_store_free(rt, rt->graphs);
    graph_choices_free(rt->choices);
    tuned_store_free(rt->tuned);
    for (Known *x = rt->known, *next; x; x = next) { next = x->next; free(x); }
    for (Compiled *c = rt->cache, *next; c; c = next) {
        next = c->next;
        for (int i = 0; i < 2; i++)
            if (c->variant[i].module && (i == 0 || c->variant[1].module != c->variant[0].module))
                rt->device->ops->unload(rt->device, c->variant[i].module);
        free(c->key);
        free(c);
    }
    free(rt);
}

Device  *runtime_device(const Runtime *rt)               { return rt->device; }
Session *runtime_session(const Runtime *rt)              { return rt->session; }
const RuntimeOptions *runtime_options(const Runtime *rt) { return &rt->opt; }
CompileStats runtime_stats(const Runtime *rt)            { return rt->stats; }
Fn      *compiled_eval(const Compiled *c)                { return c->eval; }

// eval rounds a * b + c as the compiled kernel does: the passes that decide about it are run here, too. With
// --math=strict there is no fma but those that are written, and eval has the kernel as it was built.
static void contracted(Fn *f) {
    simplify(f);
    if (contract(f)) simplify(f);
}

GraphStore **runtime_graphs(Runtime *rt)                 { return &rt->graphs; }

// What the launch says of its schedule, over what the options say of all.
static Schedule merged(Schedule all, const Schedule *own) {
    for (int i = 0; own && i < schedule_field_count; i++) {
        size_t at = schedule_fields[i].offset;
        int    v = *(const int *)(const void *)((const char *)own + at);
        if (v) *(int *)(void *)((char *)&all + at) = v;
    }
    return all;
}

GraphChoices **runtime_choices(Runtime *rt)             { return &rt->choices; }
TunedStore **runtime_tuned(Runtime *rt)                 { return &rt->tuned; }
Schedule runtime_schedule(const Runtime *rt, const Schedule *own) { return merged(rt->opt.compile.schedule, own); }

bool runtime_choose(Runtime *rt, InstanceOf of, const CompileOptions *opt, Choice *out) {
    const char *model = rt->device->model[0] ? rt->device->model : NULL;
    return tuned_choose(rt->tuned, model, rt->session, of, opt, out);
}

// An instance that was asked for before is not even printed again.
static Compiled *known_instance(const Runtime *rt, const TKernel *k, const Schedule *s, uint64_t fixed) {
    for (const Known *x = rt->known; x; x = x->next)
        if (x->typed == k && x->compiled->fixed == fixed && memcmp(&x->compiled->schedule, s, sizeof *s) == 0)
            return x->compiled;
    return NULL;
}

static Compiled *remember(Runtime *rt, const TKernel *k, Compiled *c) {
    Known *x = checked_alloc(sizeof *x);
    *x = (Known){rt->known, k, c};
    rt->known = x;
    return c;
}

static Fn *built(const Runtime *rt, const TKernel *k, uint64_t fixed) {
    Fn *f = ir_build(rt->session, k);
    for (int i = 0; f && i < f->launch->nparams; i++) f->launch->params[i].fixed = fixed >> i & 1;
    // on emu all: what does not wait is found
    if (f) f->early = fixed & OF_A_GRAPH || strcmp(rt->device->ops->name, "emu") == 0;
    return f;
}

Compiled *runtime_compile(Runtime *rt, const TKernel *k, const Schedule *schedule, Buf *err) {
    return runtime_compile_fixed(rt, k, schedule, 0, err);
}

Compiled *runtime_compile_fixed(Runtime *rt, const TKernel *k, const Schedule *schedule, uint64_t fixed, Buf *err) {
    Schedule  s = merged(rt->opt.compile.schedule, schedule);
    // also what says that it is of a graph
    if (!rt->device->ops->runs_ptx || !rt->opt.compile.target->has_pdl) fixed = 0;
    Compiled *before = known_instance(rt, k, &s, fixed);
    if (before) { rt->stats.reused++; return before; }
    Fn *f = built(rt, k, fixed);
    if (!f) { buf_printf(err, "`%s` could not be turned into tile IR", k->name->s); return NULL; }
    Buf key = {0};
    ir_print(f, &key);
    for (int i = 0; i < k->ndims; i++) buf_printf(&key, "\n%s = %lld", k->dims[i].name->s, (long long)k->dims[i].fixed);
    for (int i = 0; i < schedule_field_count; i++)
        buf_printf(&key, "\n%d", *(const int *)(const void *)((const char *)&s + schedule_fields[i].offset));
    if (fixed & OF_A_GRAPH) buf_puts(&key, "\nearly");
    for (Compiled *c = rt->cache; c; c = c->next)
        if (strcmp(c->key, key.p) == 0) { buf_free(&key); rt->stats.reused++; return remember(rt, k, c); }
    Compiled *c = checked_alloc(sizeof *c);
    c->key = key.p;
    c->typed = k;
    c->schedule = s;
    c->fixed = fixed;
    c->eval = f;
    if (rt->opt.compile.math != 1) contracted(f);
    merge_apart(f);
    c->next = rt->cache;
    rt->cache = c;
    return remember(rt, k, c);
}

static CompileOptions options_of(const Runtime *rt, const Compiled *c, bool general) {
    CompileOptions opt = rt->opt.compile;
    opt.schedule = c->schedule;
    opt.general = general;
    if (strcmp(rt->device->ops->name, "emu") == 0) opt.line_info = true;      // faults are told at source lines
    return opt;
}

// The passes; lowering changes a function, and eval needs the one that was built.
static Fn *lowered(Runtime *rt, const Compiled *c, bool general, Buf *err) {
    CompileOptions opt = options_of(rt, c, general);
    Fn *f = built(rt, c->typed, c->fixed);
    if (f && lower_run(f, &opt)) return f;
    buf_printf(err, "`%s` does not compile for %s", c->typed->name->s, opt.target->name);
    return NULL;
}

Compiled *runtime_made(Runtime *rt, const Artifact *a) {
    for (Compiled *c = rt->cache; c; c = c->next) if (c->made == a) return c;
    Compiled *c = checked_alloc(sizeof *c);
    c->key = copy_text("", 0);
    c->made = a;
    c->next = rt->cache;
    return rt->cache = c;
}

const LaunchInfo *compiled_launch(const Compiled *c) { return c->made ? c->made->info[0] : c->eval->launch; }

// ---- on disk -------------------------------------------------------------------------------------

static void disk_key(const Runtime *rt, const Compiled *c, bool general, Buf *key) {
    CompileOptions opt = options_of(rt, c, general);
    buf_puts(key, c->key);
    artifact_key(rt->session, &opt, rt->device->ops->name, key);
}

static const LaunchInfo *from_disk(Runtime *rt, const Compiled *c, bool general, Buf *ptx) {
    Buf key = {0};
    // wants to see it done
    if (rt->opt.compile.verify || rt->opt.compile.after || rt->opt.compile.dump_dir || rt->opt.compile.timing) return NULL;
    disk_key(rt, c, general, &key);
    const LaunchInfo *info = artifact_get(rt->session, &key, ptx);
    buf_free(&key);
    return info;
}

static void to_disk(Runtime *rt, const Compiled *c, bool general, const LaunchInfo *info, const Buf *ptx) {
    Buf key = {0};
    disk_key(rt, c, general, &key);
    artifact_put(rt->session, &key, info, ptx);
    buf_free(&key);
}

static bool load_variant(Runtime *rt, Variant *v, const LaunchInfo *info, const Buf *ptx, Buf *err) {
    const Device *d = rt->device;
    Buf log = {0};
    if (!v->module) v->module = d->ops->load(rt->device, ptx->p, ptx->n, &log, err);
    buf_free(&log);
    if (!v->module || !d->ops->find(rt->device, v->module, info->entry, &v->kernel, err)) return false;
    v->info = info;
    return true;
}

// Machine code where the device takes it, else the PTX, which the driver may compile for a newer one.
static bool load_made(Runtime *rt, const Artifact *a, Variant *v, bool general, Buf *err) {
    Buf cubin = {.p = (char *)(uintptr_t)a->cubin[general].p, .n = a->cubin[general].n},
        ptx = {.p = (char *)(uintptr_t)a->ptx[general].p, .n = a->ptx[general].n}, none = {0};
    bool fine = rt->device->ops->loads_on_threads && cubin.n && load_variant(rt, v, a->info[general], &cubin, &none);
    buf_free(&none);
    v->tried = true;
    return fine || load_variant(rt, v, a->info[general], &ptx, err);
}

static bool make_variant(Runtime *rt, Compiled *c, Variant *v, bool general, Buf *err) {
    if (c->made) return load_made(rt, c->made, v, general, err);
    CompileOptions opt = options_of(rt, c, general);
    double start = now_us();
    Buf ptx = {0};
    v->tried = true;
    const LaunchInfo *info = from_disk(rt, c, general, &ptx);
    bool fine = info != NULL;
    if (!info) {
        int  said = diag_count(rt->session);
        Fn  *f = lowered(rt, c, general, err);
        fine = f && lower_emit(rt->session, &f, 1, &opt, NULL, &ptx);
        if (f && !fine) buf_printf(err, "`%s` does not compile for %s", c->typed->name->s, opt.target->name);
        info = fine ? f->launch : NULL;
        // warnings are to be said again
        if (fine && diag_count(rt->session) == said) to_disk(rt, c, general, info, &ptx);
    }
    fine = fine && load_variant(rt, v, info, &ptx, err);
    rt->stats.compiled++;
    rt->stats.ms += (now_us() - start) * 1e-3;
    buf_free(&ptx);
    return fine;
}

// ---- many at once --------------------------------------------------------------------------------

typedef struct Batch {
    Runtime *rt;
    Variant **variant;
    Buf *ptx, *cubin, *err;
    bool *made;
    int n;
    Assembler assembler;
    atomic_int next;
} Batch;

// Machine code if there is some that the driver takes, else the PTX.
static void load_one(Batch *b, int i) {
    Device *d = b->rt->device;
    Buf     refused = {0};
    if (!b->cubin[i].n && b->made) b->made[i] = assembler_make(&b->assembler, &b->ptx[i], &b->cubin[i]);
    if (b->cubin[i].n) b->variant[i]->module = d->ops->load(d, b->cubin[i].p, b->cubin[i].n, NULL, &refused);
    if (refused.n) { atomic_store(&b->assembler.failed, true); if (b->made) b->made[i] = false; }
    if (!b->variant[i]->module) b->variant[i]->module = d->ops->load(d, b->ptx[i].p, b->ptx[i].n, NULL, &b->err[i]);
    buf_free(&refused);
}

static void *load_next(void *batch) {
    Batch *b = batch;
    for (int i; (i = atomic_fetch_add(&b->next, 1)) < b->n;)
        if (b->ptx[i].n) load_one(b, i);
    return NULL;
}

static void load_on_threads(Batch *b) {
    enum { MAX_THREADS = 16 };
    pthread_t thread[MAX_THREADS];
    int n = 0, most = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
    while (n < most && n < MAX_THREADS && n < b->n - 1 && pthread_create(&thread[n], NULL, load_next, b) == 0) n++;
    load_next(b);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
}

// The assembler is most of the time; it runs on as many threads as there are cores.
static void load_all(Batch *b) {
    enum { SEVERAL = 4 };
    int left = 0;
    if (!b->rt->device->ops->loads_on_threads || !b->n) return;
    assembler_open(&b->assembler, b->rt->opt.compile.target);
    b->cubin = checked_alloc(sizeof *b->cubin * (size_t)b->n);
    for (int i = 0; i < b->n; i++) left += b->ptx[i].n && !assembler_get(&b->assembler, &b->ptx[i], &b->cubin[i]);
    if (left >= SEVERAL && b->assembler.ptxas) b->made = checked_alloc(sizeof *b->made * (size_t)b->n);
    load_on_threads(b);
    for (int i = 0; i < b->n; i++) {
        if (b->made && b->made[i]) assembler_put(&b->assembler, &b->ptx[i], &b->cubin[i]);
        buf_free(&b->cubin[i]);
    }
    free(b->cubin);
    free(b->made);
    assembler_close(&b->assembler);
}

// The first error since the first `from`, without its place; then they are gone.
static void first_error(Session *s, int from, Buf *why) {
    Buf text = {0};
    diag_write(s, &text, DIAG_short, false);
    diag_forget(s, from);
    const char *all = text.n ? text.p : "", *at = strstr(all, "error: "), *line = at ? at + strlen("error: ") : all;
    if (!why->n) buf_printf(why, "%.*s", (int)strcspn(line, "\n"), line);
    buf_free(&text);
}

// One by one, where together one of them failed.
static void emit_alone(Runtime *rt, Compiled **list, const bool *general, const int *of, const int *todo, Fn **fn,
                       int k, Buf *made, Buf *why) {
    for (int i = 0; i < k; i++) {
        int at = of[todo[i]], said = diag_count(rt->session);
        CompileOptions opt = options_of(rt, list[at], general[at]);
        Buf err = {0};
        buf_free(&made[i]);
        fn[i] = lowered(rt, list[at], general[at], &err);
        if (fn[i] && lower_emit(rt->session, &fn[i], 1, &opt, NULL, &made[i])) { buf_free(&err); continue; }
        first_error(rt->session, said, &why[at]);
        if (!why[at].n) buf_puts(&why[at], err.n ? err.p : "does not compile");
        buf_free(&err);
    }
}

// With `why`, one that fails does not stop the others.
static bool compile_many(Runtime *rt, Compiled **list, const bool *general, int n, Buf *err, Buf *why) {
    size_t    room = (size_t)n + 1;
    Variant **variant = checked_alloc(sizeof *variant * room);
    Fn      **fn = checked_alloc(sizeof *fn * room);
    int      *of = checked_alloc(sizeof *of * room), *todo = checked_alloc(sizeof *todo * room);
    const LaunchInfo **info = checked_alloc(sizeof *info * room);
    Buf *ptx = checked_alloc(sizeof *ptx * room), *errs = checked_alloc(sizeof *errs * room),
        *made = checked_alloc(sizeof *made * room);
    double    start = now_us(), since = start;
    int       m = 0, k = 0, said = diag_count(rt->session);
    bool      fine = true;
    CompileOptions opt = rt->opt.compile;
    for (int i = 0; i < n && fine; i++) {
        Variant *v = &list[i]->variant[general[i]], *fast = &list[i]->variant[0];
        if (v->tried || (general[i] && fast->info && fast->info->general)) continue;
        v->tried = true;
        info[m] = from_disk(rt, list[i], general[i], &ptx[m]);
        if (!info[m]) {
            int before = diag_count(rt->session);
            fn[k] = lowered(rt, list[i], general[i], why ? &why[i] : err);
            if (!fn[k] && why) { first_error(rt->session, before, (buf_free(&why[i]), &why[i])); continue; }
            fine = fn[k] != NULL;
            todo[k++] = m;
        }
        of[m] = i;
        variant[m++] = v;
    }
    if (strcmp(rt->device->ops->name, "emu") == 0) opt.line_info = true;
    if (fine && !lower_emit_each(rt->session, fn, k, &opt, made)) {
        fine = why != NULL;
        if (fine) {
            diag_forget(rt->session, said);
            emit_alone(rt, list, general, of, todo, fn, k, made, why);
        }
    }
    for (int i = 0; i < k; i++) {
        int at = todo[i];
        bool made_it = fine && !(why && why[of[at]].n);
        if (made_it) info[at] = fn[i]->launch;
        ptx[at] = made[i];
        if (made_it && diag_count(rt->session) == said) to_disk(rt, list[of[at]], general[of[at]], info[at], &ptx[at]);
    }
    RunStages *stages = rt->opt.stages;
    stages_lap(stages, RS_compile, &since);
    if (stages) stages->kernels += m, stages->cached += m - k;
    Batch b = {.rt = rt, .variant = variant, .ptx = ptx, .err = errs, .n = m};
    if (fine) load_all(&b);
    stages_lap(stages, RS_load, &since);
    for (int i = 0; i < m; i++) {
        Buf *words = why ? &why[of[i]] : err;
        if (errs[i].n && fine && !words->n) buf_add(words, errs[i].p, errs[i].n);
        if (fine && !words->n) load_variant(rt, variant[i], info[i], &ptx[i], words);
        fine = fine && (why || !words->n);
        buf_free(&ptx[i]);
        buf_free(&errs[i]);
    }
    rt->stats.compiled += m;
    rt->stats.ms += (now_us() - start) * 1e-3;
    free(variant);
    free(fn);
    free(of);
    free(todo);
    free(info);
    free(ptx);
    free(errs);
    free(made);
    return fine;
}

bool compile_all(Runtime *rt, Compiled **list, const bool *general, int n, Buf *err) {
    return compile_many(rt, list, general, n, err, NULL);
}

void compile_each(Runtime *rt, Compiled **list, const bool *general, int n, Buf *why) {
    Buf err = {0};
    if (!compile_many(rt, list, general, n, &err, why))
        for (int i = 0; i < n; i++) if (!why[i].n) buf_puts(&why[i], err.n ? err.p : "does not compile");
    buf_free(&err);
}

const LaunchInfo *compiled_info(Runtime *rt, Compiled *c, bool general, Buf *err) {
    const LaunchInfo *both = c->variant[0].info;
    if (general && both && both->general) return both->general;
    Variant *v = &c->variant[general];
    CompileOptions opt = options_of(rt, c, general);
    Buf ptx = {0};
    Fn *f = v->info ? NULL : lowered(rt, c, general, err);
    if (f && lower_emit(rt->session, &f, 1, &opt, NULL, &ptx)) v->info = f->launch;
    buf_free(&ptx);
    return v->info;
}

bool compiled_tried(const Compiled *c, bool general) {
    const LaunchInfo *fast = c->variant[0].info;
    return c->variant[general].tried || (general && fast && fast->general);        // both stand in one module
}

bool compiled_kernel(Runtime *rt, Compiled *c, const LaunchInfo **info, DeviceKernel *k, bool general, Buf *err) {
    Variant *fast = &c->variant[0], *v = &c->variant[general];
    if (general && !v->tried && fast->info && fast->info->general) {           // both stand in one module
        v->tried = true;
        v->module = fast->module;
        if (rt->device->ops->find(rt->device, v->module, fast->info->general->entry, &v->kernel, err))
            v->info = fast->info->general;
    }
    if (!v->tried && !make_variant(rt, c, v, general, err)) return false;
    if (!v->info) { if (!err->n) buf_printf(err, "`%s` did not compile", c->typed->name->s); return false; }
    *info = v->info;
    *k = v->kernel;
    return true;
}

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

// What the cache on disk has of a variant, read before it is asked for.
typedef struct Fetched { const LaunchInfo *info; Buf ptx, cubin; } Fetched;

typedef struct Variant {
    Fetched          *fetched;           // or NULL
    const LaunchInfo *info;
    DeviceModule *module;
    DeviceKernel  kernel;
    uint64_t      sum;                   // of its code and of how it is launched; 0: nobody asks
    bool          tried;
    char         *why;                   // what was said when it could not be made, or NULL
} Variant;

struct Compiled {
    Compiled *next;
    char     *key;
    const TKernel *typed;
    Schedule  schedule;
    uint64_t  fixed;                 // parameters, by bit, that nothing writes while it runs
    Fn       *eval;                  // as built, for the device eval and for references
    const Artifact *made;            // compiled before, or NULL
    Compiled *less;                  // .. and the next one of the same, with less assumed, or NULL
    Variant   variant[2];            // 0: assumes the facts, 1: general
    uint64_t  meaning;               // sum of the tile IR as built and of its extents: no schedule
    Fn       *after[2][AFTER_ENDS];  // tile IR of each variant, for --verify=values; NULL: not made yet
    VEC(uint64_t) verified;          // sums of launches on which --verify=values found nothing
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
    VerifyKept    *kept;
};

Runtime *runtime_new(Session *s, Device *dev, const RuntimeOptions *opt) {
    Runtime *rt = heap_alloc(sizeof *rt);
    rt->session = s;
    rt->device = dev;
    if (opt) rt->opt = *opt;
    if (!rt->opt.compile.target && dev->arch[0]) rt->opt.compile.target = target_find(dev->arch);
    if (!rt->opt.compile.target) rt->opt.compile.target = target_default;
    return rt;
}

static void forget_fetched(Variant *v) {
    if (!v->fetched) return;
    buf_free(&v->fetched->ptx);
    buf_free(&v->fetched->cubin);
    heap_free(v->fetched);
    v->fetched = NULL;
}

void runtime_asks(Runtime *rt, const Schedule *with, const SemaValue *set, int nset, bool defaults) {
    rt->opt.compile.schedule = *with;
    rt->opt.set = set;
    rt->opt.nset = nset;
    rt->opt.defaults = defaults;
}

void runtime_free(Runtime *rt) {
    if (!rt) return;
    graph_store_free(rt, rt->graphs);
    graph_choices_free(rt->choices);
    tuned_store_free(rt->tuned);
    verify_kept_free(rt->kept);
    for (Known *x = rt->known, *next; x; x = next) { next = x->next; heap_free(x); }
    for (Compiled *c = rt->cache, *next; c; c = next) {
        next = c->next;
        for (int i = 0; i < 2; i++) forget_fetched(&c->variant[i]), heap_free(c->variant[i].why);
        for (int i = 0; i < 2; i++)
            if (c->variant[i].module && (i == 0 || c->variant[1].module != c->variant[0].module))
                device_unload(rt->device, c->variant[i].module);
        heap_free(c->key);
        heap_free(c);
    }
    heap_free(rt);
}

Device  *runtime_device(const Runtime *rt)               { return rt->device; }
Session *runtime_session(const Runtime *rt)              { return rt->session; }
const RuntimeOptions *runtime_options(const Runtime *rt) { return &rt->opt; }
CompileStats runtime_stats(const Runtime *rt)            { return rt->stats; }
Fn      *compiled_eval(const Compiled *c)                { return c->eval; }
uint64_t compiled_meaning(const Compiled *c)             { return c->meaning; }

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
VerifyKept **runtime_kept(Runtime *rt)                  { return &rt->kept; }
Schedule runtime_schedule(const Runtime *rt, const Schedule *own) { return merged(rt->opt.compile.schedule, own); }

bool runtime_choose(Runtime *rt, InstanceOf of, const CompileOptions *opt, Choice *out) {
    const char *model = rt->device->model[0] ? rt->device->model : NULL;
    return tuned_choose(rt->tuned, model, rt->session, of, opt, out);
}

static uint64_t sum_text(const char *p, size_t n) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) sum = (sum ^ (unsigned char)p[i]) * UINT64_C(0x100000001b3);
    return sum;
}

// An instance that was asked for before is not even printed again.
static Compiled *known_instance(const Runtime *rt, const TKernel *k, const Schedule *s, uint64_t fixed) {
    for (const Known *x = rt->known; x; x = x->next)
        if (x->typed == k && x->compiled->fixed == fixed && memcmp(&x->compiled->schedule, s, sizeof *s) == 0)
            return x->compiled;
    return NULL;
}

static Compiled *remember(Runtime *rt, const TKernel *k, Compiled *c) {
    Known *x = heap_alloc(sizeof *x);
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
    if (rt->opt.early) fixed |= OF_A_GRAPH;
    // also what says that it is of a graph
    if (!rt->device->ops->runs_ptx || !rt->opt.compile.target->has_pdl) fixed = 0;
    Compiled *before = known_instance(rt, k, &s, fixed);
    if (before) { rt->stats.reused++; return before; }
    Fn *f = built(rt, k, fixed);
    if (!f) { buf_printf(err, "`%s` could not be turned into tile IR", k->name->s); return NULL; }
    Buf key = {0};
    ir_print(f, &key);
    for (int i = 0; i < k->ndims; i++) buf_printf(&key, "\n%s = %lld", k->dims[i].name->s, (long long)k->dims[i].fixed);
    size_t meaning = key.n;
    for (int i = 0; i < schedule_field_count; i++)
        buf_printf(&key, "\n%d", *(const int *)(const void *)((const char *)&s + schedule_fields[i].offset));
    if (fixed & OF_A_GRAPH) buf_puts(&key, "\nearly");
    for (Compiled *c = rt->cache; c; c = c->next)
        if (strcmp(c->key, key.p) == 0) { buf_free(&key); rt->stats.reused++; return remember(rt, k, c); }
    Compiled *c = heap_alloc(sizeof *c);
    c->key = key.p;
    c->meaning = sum_text(key.p, meaning);
    c->typed = k;
    c->schedule = s;
    c->fixed = fixed;
    c->eval = f;
    if (rt->opt.compile.math != 1 && !rt->opt.compile.unoptimised) contracted(f);
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

void compiled_with(const Compiled *c, Buf *out) {
    if (c->made) return;
    Buf words = {0};
    if (schedule_text(&c->schedule, &words)) buf_printf(out, " (with %s)", words.p);
    buf_free(&words);
}

static void not_compiled(const Compiled *c, const Target *target, Buf *err) {
    buf_printf(err, "`%s` does not compile for %s", c->typed->name->s, target->name);
    compiled_with(c, err);
}

// The passes; lowering changes a function, and eval needs the one that was built.
static Fn *lowered(Runtime *rt, const Compiled *c, bool general, Buf *err) {
    CompileOptions opt = options_of(rt, c, general);
    Fn *f = built(rt, c->typed, c->fixed);
    if (f && lower_run(f, &opt)) return f;
    not_compiled(c, opt.target, err);
    return NULL;
}

static Fn *passes_until(Runtime *rt, const Compiled *c, bool general, const char *after, Passed *passed,
                        void *ctx) {
    CompileOptions opt = options_of(rt, c, general);
    opt.verify = false;
    opt.timing = NULL;
    opt.dump_dir = NULL;
    opt.after = after;
    opt.passed = passed;
    opt.passed_ctx = ctx;
    Fn *f = built(rt, c->typed, c->fixed);
    return f && lower_run(f, &opt) ? f : NULL;
}

void compiled_passes(Runtime *rt, const Compiled *c, bool general, Passed *passed, void *ctx) {
    passes_until(rt, c, general, NULL, passed, ctx);
}

Fn *compiled_after(Runtime *rt, Compiled *c, bool general, After after) {
    static const char *const pass[AFTER_ENDS] = {[AFTER_build] = "build", [AFTER_lanes] = "neutral_padding"};
    Fn **f = &c->after[general][after];
    if (!*f) *f = passes_until(rt, c, general, pass[after], NULL, NULL);
    return *f;
}

bool compiled_verified(const Compiled *c, uint64_t launch) {
    for (uint32_t i = 0; i < c->verified.n; i++) if (c->verified.at[i] == launch) return true;
    return false;
}

void compiled_verifies(Runtime *rt, Compiled *c, uint64_t launch) {
    vec_push(session_arena(rt->session), &c->verified, launch);
}

Compiled *runtime_made(Runtime *rt, const Artifact *a) {
    for (Compiled *c = rt->cache; c; c = c->next) if (c->made == a) return c;
    Compiled *c = heap_alloc(sizeof *c);
    c->key = copy_text("", 0);
    c->made = a;
    c->next = rt->cache;
    rt->cache = c;
    if (a[1].less) c->less = runtime_made(rt, a + 1);      // a list ends with an empty one
    return c;
}

Compiled *compiled_less(const Compiled *c) { return c->less; }

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
    if (rt->opt.tries || rt->opt.compile.verify || rt->opt.compile.after || rt->opt.compile.dump_dir || rt->opt.compile.timing) return NULL;
    disk_key(rt, c, general, &key);
    const LaunchInfo *info = artifact_get(rt->session, &key, c->eval->launch, ptx);
    buf_free(&key);
    return info;
}

static void to_disk(Runtime *rt, const Compiled *c, bool general, const LaunchInfo *info, const Buf *ptx) {
    Buf key = {0};
    if (rt->opt.tries) return;                               // nobody will ask for it again
    disk_key(rt, c, general, &key);
    artifact_put(rt->session, &key, info, ptx);
    buf_free(&key);
}

static uint64_t sum_of(const LaunchInfo *info, const Buf *code) {
    Buf bytes = {0};
    artifact_info(info, &bytes);
    buf_add(&bytes, code->p, code->n);
    uint64_t sum = sum_text(bytes.p, bytes.n);
    buf_free(&bytes);
    return sum;
}

static bool load_variant(Runtime *rt, Variant *v, const LaunchInfo *info, const Buf *ptx, Buf *err) {
    const Device *d = rt->device;
    Buf log = {0};
    if (!v->module) v->module = device_load(rt->device, ptx->p, ptx->n, &log, err);
    buf_free(&log);
    if (!v->module || !d->ops->find(rt->device, v->module, info->entry, &v->kernel, err)) return false;
    v->info = info;
    if (rt->opt.tries) v->sum = sum_of(info, ptx);
    return true;
}

// The launcher puts as many parameters, each as large, as the code reads: else it would read what follows them.
static bool takes_slots(Device *d, const LaunchInfo *info, const DeviceKernel *k, Buf *err) {
    if (!d->ops->takes) return true;
    uint32_t *size = heap_alloc(sizeof *size * ((size_t)info->nslots + 1));
    for (int i = 0; i < info->nslots; i++) size[i] = info->slots[i].size;
    bool fine = d->ops->takes(d, k, size, info->nslots);
    if (!fine) buf_printf(err, "the code of `%s` takes other machine parameters than the file says", info->entry);
    heap_free(size);
    return fine;
}

static bool load_checked(Runtime *rt, Variant *v, const LaunchInfo *info, const Buf *code, Buf *err) {
    bool fine = load_variant(rt, v, info, code, err) && takes_slots(rt->device, info, &v->kernel, err);
    if (fine) return true;
    device_unload(rt->device, v->module);
    v->module = NULL;
    v->info = NULL;
    return false;
}

// Machine code where the device takes it, else the PTX, which the driver may compile for a newer one.
static bool load_made(Runtime *rt, const Artifact *a, Variant *v, bool general, Buf *err) {
    Buf cubin = {.p = (char *)(uintptr_t)a->cubin[general].p, .n = a->cubin[general].n},
        ptx = {.p = (char *)(uintptr_t)a->ptx[general].p, .n = a->ptx[general].n}, none = {0};
    bool fine = rt->device->ops->loads_on_threads && cubin.n && load_checked(rt, v, a->info[general], &cubin, &none);
    buf_free(&none);
    v->tried = true;
    return fine || load_checked(rt, v, a->info[general], &ptx, err);
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
        if (f && !fine) not_compiled(c, opt.target, err);
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

// A variant on its way.
typedef struct Job {
    Compiled *c;
    bool      general;
    Variant  *v;
    Buf      *words;                     // what goes wrong with it
    const LaunchInfo *info;
    Fn       *fn;                        // NULL: it was on disk
    Buf       ptx, cubin, err;
    bool      made;                      // its machine code was made here
} Job;

typedef struct Batch {
    Runtime *rt;
    Job *job;
    int  n, fresh;                       // fresh: those that were not on disk
    int  said;                           // messages before it
    bool each;                           // one that fails does not stop the others
    bool making;                         // machine code is made here, not by the driver
    Assembler assembler;
    atomic_int next;
} Batch;

// Machine code if there is some that the driver takes, else the PTX.
static void load_one(Batch *b, Job *j) {
    Device *d = b->rt->device;
    Buf     refused = {0};
    if (!j->cubin.n && b->making) j->made = assembler_make(&b->assembler, &j->ptx, &j->cubin);
    if (j->cubin.n) j->v->module = device_load(d, j->cubin.p, j->cubin.n, NULL, &refused);
    if (refused.n) { atomic_store(&b->assembler.failed, true); j->made = false; }
    if (!j->v->module) j->v->module = device_load(d, j->ptx.p, j->ptx.n, NULL, &j->err);
    buf_free(&refused);
}

static void load_next(void *batch) {
    Batch *b = batch;
    for (int i; (i = atomic_fetch_add(&b->next, 1)) < b->n;)
        if (b->job[i].ptx.n) load_one(b, &b->job[i]);
}

static void load_on_threads(Batch *b) {
    int most = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
    heap_crew(most < b->n - 1 ? most : b->n - 1, load_next, b);
}

// The assembler is most of the time; it runs on as many threads as there are cores. Machine code that is there is loaded by one: 37
// kernels take the driver 1.1 ms, 2.8 where 16 threads wait for each other in it.
static void load_all(Batch *b) {
    enum { SEVERAL = 4 };
    int left = 0;
    if (!b->rt->device->ops->loads_on_threads || !b->n) return;
    for (Job *j = b->job; j < b->job + b->n; j++) left += j->ptx.n && !j->cubin.n;
    if (left) assembler_open(&b->assembler, b->rt->opt.compile.target);
    for (Job *j = b->job; left && j < b->job + b->n; j++) left -= j->ptx.n && !j->cubin.n && assembler_get(&b->assembler, &j->ptx, &j->cubin);
    b->making = left >= SEVERAL && b->assembler.ptxas;
    if (left) load_on_threads(b);
    else load_next(b);
    for (Job *j = b->job; j < b->job + b->n; j++) {
        if (j->made) assembler_put(&b->assembler, &j->ptx, &j->cubin);
        buf_free(&j->cubin);
    }
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

// What is not on disk, to laid-out tile IR.
static bool jobs_lower(Batch *b, Compiled **list, const bool *general, int n, Buf *err, Buf *why) {
    Session *s = b->rt->session;
    for (int i = 0; i < n; i++) {
        Variant *v = &list[i]->variant[general[i]], *fast = &list[i]->variant[0];
        Job j = {.c = list[i], .general = general[i], .v = v, .words = why ? &why[i] : err};
        int before = diag_count(s);
        if (v->tried || (general[i] && fast->info && fast->info->general)) continue;
        v->tried = true;
        if (v->fetched) j.info = v->fetched->info, j.ptx = v->fetched->ptx, j.cubin = v->fetched->cubin, v->fetched->ptx = v->fetched->cubin = (Buf){0};
        else j.info = from_disk(b->rt, j.c, j.general, &j.ptx);
        forget_fetched(v);
        if (!j.info) j.fn = lowered(b->rt, j.c, j.general, j.words);
        if (j.info || j.fn) {
            b->fresh += j.fn != NULL;
            b->job[b->n++] = j;
            continue;
        }
        buf_free(&j.ptx);
        if (!b->each) return false;
        buf_free(j.words);
        first_error(s, before, j.words);
    }
    return true;
}

// One by one, where together one of them failed.
static void emit_alone(Runtime *rt, Job *j) {
    int said = diag_count(rt->session);
    CompileOptions opt = options_of(rt, j->c, j->general);
    Buf err = {0};
    buf_free(&j->ptx);
    j->fn = lowered(rt, j->c, j->general, &err);
    if (!j->fn || !lower_emit(rt->session, &j->fn, 1, &opt, NULL, &j->ptx)) {
        first_error(rt->session, said, j->words);
        if (!j->words->n) buf_puts(j->words, err.n ? err.p : "does not compile");
    }
    buf_free(&err);
}

// The tile IR to PTX, together, and to disk.
static bool jobs_emit(Batch *b) {
    Runtime *rt = b->rt;
    Job **todo = heap_alloc(sizeof *todo * ((size_t)b->fresh + 1));
    Fn  **fn = heap_alloc(sizeof *fn * ((size_t)b->fresh + 1));
    Buf  *made = heap_alloc(sizeof *made * ((size_t)b->fresh + 1));
    int   k = 0;
    CompileOptions opt = rt->opt.compile;
    opt.line_info |= strcmp(rt->device->ops->name, "emu") == 0;
    for (Job *j = b->job; j < b->job + b->n; j++) if (j->fn) fn[k] = j->fn, todo[k++] = j;
    bool fine = lower_emit_each(rt->session, fn, k, &opt, made), alone = !fine && b->each;
    if (alone) diag_forget(rt->session, b->said);
    for (int i = 0; i < k; i++) {
        Job *j = todo[i];
        j->ptx = made[i];
        j->fn = fn[i];
        if (alone) emit_alone(rt, j);
        if ((!fine && !alone) || (b->each && j->words->n)) continue;
        j->info = j->fn->launch;
        if (diag_count(rt->session) == b->said) to_disk(rt, j->c, j->general, j->info, &j->ptx);
    }
    heap_free(todo);
    heap_free(fn);
    heap_free(made);
    return fine || alone;
}

// With `why`, one that fails does not stop the others.
static bool compile_many(Runtime *rt, Compiled **list, const bool *general, int n, Buf *err, Buf *why) {
    Batch  b = {.rt = rt, .job = heap_alloc(sizeof(Job) * ((size_t)n + 1)), .said = diag_count(rt->session), .each = why != NULL};
    double start = now_us(), since = start;
    bool   fine = jobs_lower(&b, list, general, n, err, why) && jobs_emit(&b);
    RunStages *stages = rt->opt.stages;
    stages_lap(stages, RS_compile, &since);
    if (stages) stages->kernels += b.n, stages->cached += b.n - b.fresh;
    if (fine) load_all(&b);
    stages_lap(stages, RS_load, &since);
    for (Job *j = b.job; j < b.job + b.n; j++) {
        if (j->err.n && fine && !j->words->n) buf_add(j->words, j->err.p, j->err.n);
        if (fine && !j->words->n) load_variant(rt, j->v, j->info, &j->ptx, j->words);
        fine = fine && (b.each || !j->words->n);
        buf_free(&j->ptx);
        buf_free(&j->err);
    }
    rt->stats.compiled += b.n;
    rt->stats.ms += (now_us() - start) * 1e-3;
    heap_free(b.job);
    return fine;
}

bool compile_fetch(Runtime *rt, Compiled *const *list, int n) {
    Assembler a = {0};
    bool all = true, code = rt->device->ops->loads_on_threads;
    if (code) assembler_open(&a, rt->opt.compile.target);
    for (int i = 0; i < n; i++) {
        Variant *v = &list[i]->variant[0];
        Fetched  f = {0};
        bool again = v->tried || v->fetched;
        for (int k = 0; k < i && !again; k++) again = list[k] == list[i];
        if (again) continue;
        f.info = from_disk(rt, list[i], false, &f.ptx);
        all = f.info && (!code || assembler_get(&a, &f.ptx, &f.cubin)) && all;
        v->fetched = f.info ? heap_alloc(sizeof f) : NULL;
        if (f.info) *v->fetched = f;
        else buf_free(&f.ptx);
    }
    if (code) assembler_close(&a);
    return all;
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

bool compiled_refused(Runtime *rt, Compiled *c, const Schedule *asked, Buf *why) {
    bool all = true;
    Fn  *f = rt->device->ops->runs_ptx ? lowered(rt, c, false, why) : NULL;
    if (rt->device->ops->runs_ptx && !f) return true;
    for (int i = 0; i < schedule_field_count; i++) {
        const char *word = schedule_fields[i].name;
        if (!schedule_word(asked, i)) continue;
        const char *no = f ? schedule_refusal(f, word) : "eval runs the tile IR as it was built";
        if (no) buf_printf(why, "%s%s: %s", why->n ? "; " : "", word, no);
        else all = false;
    }
    return all;
}

uint64_t compiled_sum(Runtime *rt, Compiled *c, Buf *err) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    const LaunchInfo *info;
    DeviceKernel k;
    if (rt->device->ops->runs_ptx) return compiled_kernel(rt, c, &info, &k, false, err) ? c->variant[0].sum | 1 : 0;
    Buf text = {0};
    ir_print(c->eval, &text);
    for (size_t i = 0; i < text.n; i++) sum = (sum ^ (unsigned char)text.p[i]) * UINT64_C(0x100000001b3);
    buf_free(&text);
    return sum | 1;
}

bool compiled_tried(const Compiled *c, bool general) {
    const LaunchInfo *fast = c->variant[0].info;
    return c->variant[general].tried || (general && fast && fast->general);        // both stand in one module
}

// What was said of it, each time that it is asked for.
static void refused_before(const Compiled *c, const Variant *v, Buf *err) {
    if (err->n) return;
    if (v->why) buf_puts(err, v->why);
    else buf_printf(err, "`%s` did not compile", compiled_launch(c)->kernel->s);
}

bool compiled_kernel(Runtime *rt, Compiled *c, const LaunchInfo **info, DeviceKernel *k, bool general, Buf *err) {
    Variant *fast = &c->variant[0], *v = &c->variant[general];
    if (general && !v->tried && fast->info && fast->info->general) {           // both stand in one module
        v->tried = true;
        v->module = fast->module;
        if (rt->device->ops->find(rt->device, v->module, fast->info->general->entry, &v->kernel, err) &&
            (!c->made || takes_slots(rt->device, fast->info->general, &v->kernel, err)))
            v->info = fast->info->general;
    }
    if (!v->tried) {
        Buf why = {0};
        if (!make_variant(rt, c, v, general, &why)) v->info = NULL;
        if (!v->info && why.n) v->why = copy_text(why.p, why.n);
        buf_free(&why);
    }
    if (!v->info) return refused_before(c, v, err), false;
    *info = v->info;
    *k = v->kernel;
    return true;
}

// The kernels of a file to one PTX text, each kernel a module of its own.
//
// LLVM is most of a compilation's time, and modules in contexts of their own do not know of each other. So
// the LLVM IR of the kernels is made one after the other here, where the session is at hand, and each
// module goes through the code generator on whichever thread is free, this one too when it has no more
// to make:
//
//     this thread    make a | make b | make c | generate c
//     another                 generate a | generate b               texts joined in the order of the kernels
//
// The text does not depend on how many threads there were. One module holds all kernels where a reader of
// the result wants one: for `--emit=llvm`, and for source lines, whose tables are a module's. So does one
// thread do all when stages are timed.
#define _GNU_SOURCE                    // sched_getaffinity
#include "lang/limits.h"
#include "lower/llvm/gen.h"
#include "lower/pass/passes.h"
#include "ptx/emit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { MAX_THREADS = 8 };

typedef struct Work {
    PtxUnit **unit;
    Buf      *text;
    bool     *ok, *bad;               // bad: a diagnostic says why it has no code
    int       made, taken, n;         // modules ready to generate; handed out; in all
    pthread_mutex_t lock;
    pthread_cond_t  more;
} Work;

static int take(Work *w, bool wait) {                        // the next module, or -1: none is left (or ready)
    pthread_mutex_lock(&w->lock);
    while (wait && w->taken == w->made && w->made < w->n) pthread_cond_wait(&w->more, &w->lock);
    int i = w->taken < w->made ? w->taken++ : -1;
    pthread_mutex_unlock(&w->lock);
    return i;
}

static void made(Work *w, int made, int n) {
    pthread_mutex_lock(&w->lock);
    w->made = made;
    w->n = n;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
}

static void generate(void *work) {
    Work *w = work;
    for (int i; (i = take(w, true)) >= 0;) w->ok[i] = !w->bad[i] && ptx_finish(w->unit[i], NULL, &w->text[i]);
}

// Without `.version`, `.target`, `.address_size` and the shared memory, which all modules declare alike.
static void add_body(Buf *ptx, const char *text) {
    static const char size[] = ".address_size 64\n", smem[] = ".extern .shared .align 1024 .b8 smem[];\n";
    const char *at = strstr(text, size), *shared = strstr(text, smem);
    if (at == NULL || shared == NULL) ice("PTX without a head");
    at += sizeof size - 1;
    buf_add(ptx, at, (size_t)(shared - at));
    buf_puts(ptx, shared + sizeof smem - 1);
}

static int cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// As many threads as can be of use beside this one.
static int more_threads(int n) {
    int most = cores() - 1;
    if (most > n - 1) most = n - 1;
    return most > MAX_THREADS ? MAX_THREADS : most;
}

// The kernel anew, with rings that leave what the first attempt lacked, and twice as much where that was not enough. NULL: diagnostics say why it cannot be.
static Fn *smaller(Session *s, const Fn *f) {
    CompileOptions opt = *f->with;
    opt.less = 2 * opt.less + ((f->over + 1023) & ~1023u);
    if (opt.less > opt.target->smem_block / 2) opt.less = opt.target->smem_block / 2;
    int said = diag_count(s);
    Fn *g = ir_build(s, f->kernel);
    if (!g) return NULL;
    for (int i = 0; i < g->launch->nparams; i++) g->launch->params[i].fixed = f->launch->params[i].fixed;
    g->early = f->early;
    g->chosen = f->chosen;
    if (!lower_run(g, &opt)) return NULL;
    diag_forget(s, said);                                      // its warnings have been said
    return g;
}

static bool any_smaller(Session *s, Fn **fns, int n) {
    bool any = false;
    for (int i = 0; i < n && diag_errors(s) == 0; i++) {
        Fn *again = fns[i]->over ? smaller(s, fns[i]) : NULL;
        if (again) fns[i] = again, any = true;
    }
    return any && diag_errors(s) == 0;
}

static PtxOptions options_of(const CompileOptions *opt) {
    enum { UNTIDIED = 4 };                                     // so many times as many, at most, as are left when tidied
    return (PtxOptions){.timing = opt->timing, .timing_ctx = opt->timing_ctx, .verify = opt->verify, .untidied = opt->unoptimised,
                        .most = limit_of(LIMIT_instructions) * (opt->unoptimised ? UNTIDIED : 1)};
}

// Why the unit has no code: words for it, or it is an internal error.
static void say_why(Session *s, Fn *const *fns, int n, PtxUnit *unit) {
    const char *function = NULL;
    int64_t many = ptx_too_many(unit, &function);
    for (int i = 0; i < n && many; i++)
        if (strcmp(fns[i]->launch->entry, function) == 0) { too_many_instructions(fns[i], many); return; }
    if (diag_errors(s) == 0) ice("the code generator failed: %s", ptx_problems(unit));
}

// The kernel in a module of its own, with rings that fit. False: diagnostics.
static bool make_one(Session *s, Fn **fn, const CompileOptions *opt, const PtxOptions *po, PtxUnit **unit) {
    int said = diag_errors(s);
    *unit = ptx_open(opt->target, po);
    for (gen_kernel(s, *fn, opt, *unit); any_smaller(s, fn, 1); gen_kernel(s, *fn, opt, *unit)) {
        ptx_close(*unit);
        *unit = ptx_open(opt->target, po);
    }
    return diag_errors(s) == said;
}

typedef struct Apart {
    Work      w;
    Session  *s;
    Fn      **fns;
    const CompileOptions *opt;
    int       version;
} Apart;

// This thread's part: all modules made, then those generated that are left.
static void make_all(void *apart) {
    Apart *a = apart;
    PtxOptions po = options_of(a->opt);
    for (int i = 0; i < a->w.n; i++) {
        a->w.bad[i] = !make_one(a->s, &a->fns[i], a->opt, &po, &a->w.unit[i]);
        if (ptx_version(a->w.unit[i]) > a->version) a->version = ptx_version(a->w.unit[i]);
        made(&a->w, i + 1, a->w.n);
    }
    generate(&a->w);
}

// The same on several threads; all of them are through when memory runs out in one.
static void make_on_threads(Apart *a, int more) {
    pthread_mutex_init(&a->w.lock, NULL);
    pthread_cond_init(&a->w.more, NULL);
    HeapCrew *crew = heap_crew_start(more, generate, &a->w);
    bool own = heap_run(heap_here(), make_all, a);
    if (!own) made(&a->w, a->w.made, a->w.made);               // nobody waits for more
    bool others = heap_crew_wait(crew);
    pthread_cond_destroy(&a->w.more);
    pthread_mutex_destroy(&a->w.lock);
    if (!own || !others) heap_give_up(0);
}

// Each kernel's own module, whole: text[i]. The newest PTX version that any of them needs, or 0: a diagnostic.
static int apart(Session *s, Fn **fns, int n, const CompileOptions *opt, Buf *text) {
    PtxUnit **unit = NEW_N(session_arena(s), PtxUnit *, n);
    bool *ok = NEW_N(session_arena(s), bool, n), *bad = NEW_N(session_arena(s), bool, n), all = true;
    Apart a = {.w = {unit, text, ok, bad, .n = n}, .s = s, .fns = fns, .opt = opt};
    make_on_threads(&a, more_threads(n));
    int version = a.version;
    for (int i = 0; i < n; i++) {
        if (!ok[i] && !bad[i]) say_why(s, &fns[i], 1, unit[i]);
        all &= ok[i];
        ptx_close(unit[i]);
    }
    return all && diag_errors(s) == 0 ? version : 0;
}

static bool joined(Session *s, Fn **fns, int n, const CompileOptions *opt, Buf *ptx) {
    Buf *text = NEW_N(session_arena(s), Buf, n);
    int version = apart(s, fns, n, opt, text);
    if (version) {
        buf_printf(ptx, ".version %d.%d\n.target %s\n.address_size 64\n\n", version / 10, version % 10, opt->target->name);
        buf_puts(ptx, ".extern .shared .align 1024 .b8 smem[];\n");
    }
    for (int i = 0; i < n; i++) {
        if (version) add_body(ptx, text[i].p);
        buf_free(&text[i]);
    }
    return version != 0;
}

static bool together(Session *s, Fn **fns, int n, const CompileOptions *opt, Buf *llvm, Buf *ptx) {
    PtxOptions po = options_of(opt);
    PtxUnit *unit = NULL;
    while (!unit || any_smaller(s, fns, n)) {
        if (unit) ptx_close(unit);
        unit = ptx_open(opt->target, &po);
        for (int i = 0; i < n; i++) gen_kernel(s, fns[i], opt, unit);
    }
    bool ok = diag_errors(s) == 0 && ptx_finish(unit, llvm, ptx);
    if (!ok && diag_errors(s) == 0) say_why(s, fns, n, unit);
    ptx_close(unit);
    return ok;
}

bool lower_emit(Session *s, Fn **fns, int n, const CompileOptions *opt, Buf *llvm, Buf *ptx) {
    bool alone = n > 1 && llvm == NULL && !opt->line_info && opt->timing == NULL;
    return alone ? joined(s, fns, n, opt, ptx) : together(s, fns, n, opt, llvm, ptx);
}

bool lower_emit_each(Session *s, Fn **fns, int n, const CompileOptions *opt, Buf *ptx) {
    return n == 0 || apart(s, fns, n, opt, ptx) != 0;
}

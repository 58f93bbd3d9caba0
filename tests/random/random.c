// Random programs on eval and on the emulator, as they are compiled and without any optional pass: all of these must agree.
//
//     random_programs FROM COUNT [ARCH]      seeds FROM .. FROM + COUNT
//     random_programs --show SEED            the program
//     random_programs --file FILE SEED       the program in FILE, on the data of SEED: to make a failing one smaller
//     random_programs --write FOLDER SEED    the program, its data and the command that runs it, for `tkc reduce`
//
// and, with --products, --sums, --rows, --carried, --loops or --dots before these, those of products.c, rows.c, carried.c, loops.c and dots.c. With
// --schedules in front, seeds decide one to five words of the schedule besides, any of those that `with (...)` takes: what is asked for and cannot be is
// left out, and changes no result. One seed in three has the schedule that the model chooses for its sizes. --device=cuda takes a GPU in place of the
// emulator. ARCH is a target, or `any`: seeds decide. --apart runs each seed in a process of its own, so that an internal error, a crash or an endless
// compilation is one more failure.
//
// Each runs six times: on eval and on emu, twice each, with other junk in dead lanes, beyond every view and in outputs before they are written, and
// another order of warps; on emu as --opt=none compiles it, and on eval as it was built. An output without float sums, or with sums of small integers,
// must have the same bits in all, but for what one rounding more of --opt=none comes to; one with others the same bits in both runs of a device, and otherwise differ by no more than eval's bound says. Even
// seeds are compiled with --math=strict. What fails is tried again one output at a time, and printed with the command that runs it alone.
#include "tests/random/generate.h"

#include "parser/parser.h"
#include "ptx/ptx.h"
#include "runtime/tk_run.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Outcome { HostTensor out[R_OUTS]; double *bound[R_OUTS]; } Outcome;

static const char *arch_name;
static Device *device;

typedef void Generator(uint64_t seed, uint32_t keep, Program *p, Buf *text);
static const struct { const char *option; Generator *make; } families[] = {
    {"", generate}, {" --products", generate_products}, {" --sums", generate_sums}, {" --rows", generate_rows}, {" --carried", generate_carried}, {" --loops", generate_loops},
    {" --dots", generate_dots},
};
enum { FAMILIES = sizeof families / sizeof *families, SECONDS = 60 };
static int family;
static bool schedules, apart;
static int  refusals;

static void make(uint64_t seed, uint32_t keep, Program *p, Buf *text) {
    static const int some[] = {1, 2, 3, 4, 5, 8, 16, 32};
    families[family].make(seed, keep, p, text);
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 0x5eed;
    for (int i = schedules ? (int)(seed % 5) : -1; i >= 0; i--) {
        uint32_t draw = (uint32_t)((x = x * 6364136223846793005u + 1442695040888963407u) >> 33);
        const ScheduleField *f = &schedule_fields[draw % (uint32_t)schedule_field_count];
        size_t n = strlen(f->name);
        int v = some[(draw >> 8) % (sizeof some / sizeof *some)];
        while (schedule_refuses(f->name, n, v)) v--;
        *(int *)(void *)((char *)&p->schedule + f->offset) = v;
    }
}

static void outcome_free(Outcome *o) {
    for (int i = 0; i < R_OUTS; i++) tensor_free(&o->out[i]), heap_free(o->bound[i]);
}

// Small numbers, some of them special; `ids` reach a little past what they index.
static bool input(HostTensor *t, const Program *p, const TKernel *k, int param, uint64_t seed, Buf *err) {
    const LaunchParam *x = &k->params[param];
    int64_t dim[MAX_RANK];
    bool ids = strcmp(x->name->s, "ids") == 0;
    for (int d = 0; d < x->rank; d++) {
        const TExpr *size = k->tensor[param]->dim[d];
        const char *name = size->kind == TX_dim ? k->dims[size->dim].name->s : "";
        dim[d] = size->kind == TX_const ? size->ival : 20;
        for (int i = 0; i < R_DIMS; i++) if (*name == p->dim[i]) dim[d] = p->size[i];
    }
    if (!tensor_make(t, x->elem, x->rank, dim, err)) return false;
    FillSpec fill = {.make = elem_is_float(x->elem) ? MAKE_random : MAKE_randint, .seed = seed, .stream = (uint64_t)param};
    if (ids) fill.lo = number_int(-2), fill.hi = number_int(24);
    else if (p->small) {
        fill.make = MAKE_randint;
        fill.lo = number_int(elem_is_float(x->elem) || elem_is_signed(x->elem) ? -3 : 0), fill.hi = number_int(4);
    }
    else if (!elem_is_float(x->elem)) fill.lo = number_int(elem_is_signed(x->elem) ? -100 : 0), fill.hi = number_int(100);
    tensor_fill(t, &fill);
    return true;
}

static bool launch(Runtime *rt, const Program *p, const TKernel *k, uint64_t seed, const Schedule *schedule, bool on_eval, int turn,
                   Outcome *o, Buf *err) {
    KernelArg args[MAX_PARAMS] = {0};
    HostTensor in[MAX_PARAMS] = {0};
    RunControl ctl = {.on_eval = on_eval,
                      .schedule = schedule,
                      .bounds = on_eval,
                      .junk = turn ? FILL_INF : FILL_NAN,
                      .junk_seed = turn ? 0x5eed0002 : 0x5eed0001,
                      .order_seed = turn ? seed | 1 : 0};
    bool ok = true;
    int n = 0;
    for (int i = 0; i < k->nparams && ok; i++) {
        const LaunchParam *x = &k->params[i];
        if (x->kind == PK_SCALAR) args[i] = (KernelArg){.scalar = true, .elem = EL_i32, .ival = (int64_t)(seed % 4)};
        else if (x->mode == PM_OUT) args[i].tensor = &o->out[n++];
        else if (x->mode == PM_INOUT && (ok = input(&o->out[n], p, k, i, seed, err))) args[i].tensor = &o->out[n++];
        else if ((ok = input(&in[i], p, k, i, seed, err))) args[i].tensor = &in[i];
    }
    ok = ok && kernel_launch(rt, k, args, k->nparams, &ctl, err);
    n = 0;
    for (int i = 0; i < k->nparams; i++) {
        if (k->params[i].kind == PK_TENSOR && k->params[i].mode != PM_IN) o->bound[n++] = args[i].bound;
        tensor_free(&in[i]);
    }
    return ok;
}

static bool same_element(const HostTensor *a, const HostTensor *b, int64_t i) {
    size_t size = (size_t)elem_bytes(a->elem);
    if (!memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)i * size, size)) return true;
    return elem_is_float(a->elem) && isnan(elem_get(a->elem, a->data, i)) && isnan(elem_get(b->elem, b->data, i));
}

static bool same(const HostTensor *a, const HostTensor *b, int out, const char *what, Buf *err) {
    for (int64_t i = 0; i < tensor_count(a); i++) {
        if (same_element(a, b, i)) continue;
        buf_printf(err, "output %d, element %lld: %s (%.9g, %.9g)", out, (long long)i, what,
                   elem_get(a->elem, a->data, i), elem_get(b->elem, b->data, i));
        return false;
    }
    return true;
}

static double largest(const HostTensor *t) {
    double most = 0;
    for (int64_t i = 0; i < tensor_count(t); i++) {
        double v = fabs(elem_get(t->elem, t->data, i));
        if (isfinite(v)) most = fmax(most, v);
    }
    return most;
}

// `rel`: of an element, and of the largest one.
static bool within(double rel, const HostTensor *got, const Outcome *eval, int n, int out, const char *what, Buf *err) {
    CompareSpec spec = {.op = OP_approx, .rel = fmax(rel, 1e-6), .abs = rel * largest(&eval->out[n]), .bound_expected = eval->bound[n]};
    CompareResult r = tensor_compare(got, &eval->out[n], &spec);
    if (r.ok) return true;
    buf_printf(err, "output %d, %s: ", out, what);
    compare_text(&r, got, &spec, err);
    return false;
}

// --opt=none rounds a * b before it adds c, where eval and the default make one fma of them: an ulp of f32, or what that is once it is narrowed.
static double rounded_twice(Elem e) {
    return e == EL_f64 ? 1e-14 : e == EL_f32 ? 1e-6 : e == EL_f16 ? 0x1p-10 : e == EL_bf16 ? 0x1p-7 : e == EL_f8e4m3 ? 0x1p-3 : 0x1p-2;
}

// Sums of small integers that have grown past what their type holds one by one: variables that multiply each other. Nothing is exact there.
static bool outgrown(const Program *p, const Outcome *eval) {
    for (int i = 0; i < R_OUTS && p->small; i++) {
        const HostTensor *t = &eval->out[i];
        if (t->data && (t->elem == EL_f32 || t->elem == EL_f64) && largest(t) > (t->elem == EL_f32 ? 0x1p23 : 0x1p52)) return true;
    }
    return false;
}

static bool agree(const Program *p, uint32_t keep, const Outcome *eval, const Outcome *emu, const Outcome *plain, Buf *err) {
    static const char *const what[] = {"eval and emu differ", "eval, and emu with --opt=none differ", "eval, and eval with --opt=none differ"};
    if (outgrown(p, &eval[0])) return true;
    for (int i = 0, n = 0; i < p->nouts; i++) {
        if (!(keep >> i & 1) || eval[0].out[n].data == NULL) continue;
        const HostTensor *x = &eval[0].out[n], *other[] = {&emu[0].out[n], &plain[0].out[n], &plain[1].out[n]};
        if (!p->any_order[i] && (!same(x, &eval[1].out[n], i, "eval depends on junk", err) || !same(other[0], &emu[1].out[n], i, "emu depends on junk", err)))
            return false;
        for (int k = 0; k < 3; k++) {
            bool bits = p->exact[i] && (k == 0 || p->small || !elem_is_float(x->elem));
            double rel = k == 0 ? p->rel : fmax(p->rel, rounded_twice(x->elem));
            if (bits ? !same(x, other[k], i, what[k], err) : !within(rel, other[k], &eval[0], n, i, what[k], err)) return false;
        }
        n++;
    }
    return true;
}

static const char *arch_of(uint64_t seed) {
    static const char *const all[] = {"sm_90a", "sm_80", "sm_100a", "sm_120a", "sm_90a", "sm_89"};
    return strcmp(arch_name, "any") ? arch_name : all[(seed * 0x9e3779b97f4a7c15u >> 40) % (sizeof all / sizeof *all)];
}

// The model's choice for the sizes; false: it fails.
static bool chosen(Session *s, SemaFile *file, const Program *p, const CompileOptions *opt, Choice *out) {
    char name[R_DIMS][2];
    SemaValue known[R_DIMS + 1] = {{0}};
    for (int i = 0; i < R_DIMS; i++) {
        name[i][0] = p->dim[i], name[i][1] = 0;
        known[i] = (SemaValue){.name = name[i], .ival = p->size[i]};
    }
    known[R_DIMS] = (SemaValue){.name = "L", .ival = 20};
    return kernel_choose(s, (InstanceOf){.file = file, .item = sema_find_kernel(file, "k"), .known = known, .nknown = R_DIMS + 1}, opt, out);
}

// A kernel that needs more than a target has is refused by a message that says so: no fault.
static bool refused(Session *s) {
    char  *text = NULL;
    size_t n = 0;
    FILE  *to = open_memstream(&text, &n);
    if (to == NULL) return false;
    diag_print(s, to, DIAG_short, false);
    fclose(to);
    bool fine = diag_errors(s) == 1 && strstr(text, "E0501") != NULL;
    if (!fine) fputs(text, stdout);
    refusals += fine;
    free(text);
    return fine;
}

static bool try(uint64_t seed, uint32_t keep, Buf *text, Buf *err) {
    Program p;
    Outcome eval[2] = {0}, emu[2] = {0}, plain[2] = {0};
    if (text->n == 0) make(seed, keep, &p, text);
    else {
        Buf own = {0};
        make(seed, keep, &p, &own);
        buf_free(&own);
        for (int i = p.nouts; i < R_OUTS; i++) p.exact[i] = true;
        p.nouts = R_OUTS;                                // as many as it has
    }
    Session *s = session_new();
    SemaFile *file = sema_file(s, parse_file(s, source_add(s, "random.tk", text->p, text->n)));
    const Node *node = sema_find_kernel(file, "k");
    TKernel *k = diag_errors(s) ? NULL : sema_instance((InstanceOf){.file = file, .item = node});
    bool ok = k != NULL;
    if (ok) {
        RuntimeOptions opt = {.compile.target = target_find(arch_of(seed)),
                              .compile.verify = true,
                              .compile.math = seed % 2 ? 0 : 1,
                              .compile.schedule = p.schedule};
        Choice choice = {.kernel = k, .schedule = p.schedule};
        if (seed % 3 == 1 && !chosen(s, file, &p, &opt.compile, &choice)) choice = (Choice){.kernel = k, .schedule = p.schedule};
        Runtime *rt = runtime_new(s, device, &opt);
        for (int turn = 0; turn < 2 && ok; turn++)
            ok = launch(rt, &p, choice.kernel, seed, &choice.schedule, true, turn, &eval[turn], err) &&
                 launch(rt, &p, choice.kernel, seed, &choice.schedule, false, turn, &emu[turn], err);
        runtime_free(rt);
        opt.compile.unoptimised = true;
        rt = runtime_new(s, device, &opt);
        ok = ok && launch(rt, &p, k, seed, NULL, false, 0, &plain[0], err) && launch(rt, &p, k, seed, NULL, true, 0, &plain[1], err);
        ok = ok && agree(&p, keep, eval, emu, plain, err);
        runtime_free(rt);
    }
    if (diag_errors(s)) ok = refused(s);
    for (int i = 0; i < 2; i++) outcome_free(&eval[i]), outcome_free(&emu[i]), outcome_free(&plain[i]);
    session_free(s);
    return ok;
}

static void show(uint64_t seed, uint32_t keep, const Buf *text, const Buf *err) {
    Program p;
    Buf again = {0};
    make(seed, keep, &p, &again);
    buf_free(&again);
    printf("seed %llu: %s\n// M = %lld, N = %lld, J = %lld, K = %lld, s = %llu\n%s", (unsigned long long)seed,
           err->p ? err->p : "a message", (long long)p.size[0], (long long)p.size[1], (long long)p.size[2],
           (long long)p.size[3], (unsigned long long)(seed % 4), text->p);
    printf("// with");
    for (int i = 0; i < schedule_field_count; i++) {
        int v = *(const int *)((const char *)&p.schedule + schedule_fields[i].offset);
        if (v) printf(" --with=%s=%d", schedule_fields[i].name, v);
    }
    printf("\nagain: random_programs%s%s %llu 1 %s\n\n", schedules ? " --schedules" : "", families[family].option, (unsigned long long)seed, arch_of(seed));
    fflush(stdout);
}

static bool run_seed(uint64_t seed) {
    Buf text = {0}, err = {0};
    bool ok = try(seed, ~0u, &text, &err);
    if (!ok) {
        bool alone = false;
        for (int i = 0; i < R_OUTS && !alone; i++) {
            Buf part = {0}, why = {0};
            Program p;
            make(seed, 1u << i, &p, &part);
            if (i >= p.nouts || p.nouts == 1) { buf_free(&part); break; }
            buf_free(&part);
            part = (Buf){0};
            alone = !try(seed, 1u << i, &part, &why);
            if (alone) show(seed, 1u << i, &part, &why);
            buf_free(&part), buf_free(&why);
        }
        if (!alone) show(seed, ~0u, &text, &err);
    }
    buf_free(&text), buf_free(&err);
    return ok;
}

// In a process of its own: what ends it is one more failure.
static bool run_apart(uint64_t seed) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        refusals = 0;
        bool ok = run_seed(seed);
        fflush(stdout);
        _exit(refusals ? 2 : !ok);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) return run_seed(seed);
    if (WIFEXITED(status)) return refusals += WEXITSTATUS(status) == 2, WEXITSTATUS(status) != 1;
    Buf text = {0}, why = {0};
    Program p;
    make(seed, ~0u, &p, &text);
    if (WTERMSIG(status) == SIGALRM) buf_printf(&why, "takes more than %d seconds", SECONDS);
    else buf_printf(&why, "ends by signal %d", WTERMSIG(status));
    show(seed, ~0u, &text, &why);
    buf_free(&text), buf_free(&why);
    return false;
}

static bool option(const char *word, const char **on) {
    for (int i = 1; i < FAMILIES; i++)
        if (strcmp(word, families[i].option + 1) == 0) return family = i, true;
    if (strcmp(word, "--schedules") == 0) return schedules = true;
    if (strcmp(word, "--apart") == 0) return apart = true;
    if (strncmp(word, "--device=", 9) == 0) return *on = word + 9, true;
    return false;
}

static int print_program(uint64_t seed) {
    Program p;
    Buf text = {0};
    make(seed, ~0u, &p, &text);
    fputs(text.p, stdout);
    buf_free(&text);
    return 0;
}

static int run_file(const char *path, uint64_t seed) {
    Buf text = {0}, err = {0};
    FILE *f = fopen(path, "r");
    if (f == NULL) { fprintf(stderr, "%s cannot be read\n", path); return 2; }
    for (int c; (c = getc(f)) != EOF;) buf_add(&text, &(char){(char)c}, 1);
    fclose(f);
    bool ok = try(seed, ~0u, &text, &err);
    printf("%s\n", ok ? "agrees" : err.p ? err.p : "a message");
    buf_free(&text), buf_free(&err);
    return !ok;
}

int main(int argc, char **argv) {
    const char *on = "emu";
    for (; argc > 1 && option(argv[1], &on); argv++, argc--) {}
    if (argc < 3) {
        fputs("random_programs [--apart] [--schedules]", stderr);
        for (int i = 1; i < FAMILIES; i++) fprintf(stderr, "%s%s", i == 1 ? " [" : "|", families[i].option + 1);
        fputs("] [--device=cuda] FROM COUNT [ARCH|any]   or   .. --show SEED   or   .. --file FILE SEED [ARCH]\n", stderr);
        return 2;
    }
    if (strcmp(argv[1], "--show") == 0) return print_program(strtoull(argv[2], NULL, 10));
    Buf why = {0};
    if (!(device = device_open(on, NULL, &why))) { fprintf(stderr, "%s: %s\n", on, why.p); return 2; }
    bool file = strcmp(argv[1], "--file") == 0 && argc > 3;
    arch_name = argc > 3 + file ? argv[3 + file] : "sm_90a";
    if (strcmp(arch_name, "any") != 0 && target_find(arch_name) == NULL) { fprintf(stderr, "there is no target %s\n", arch_name); return 2; }
    if (file) {
        int status = run_file(argv[2], strtoull(argv[3], NULL, 10));
        device_close(device);
        return status;
    }
    uint64_t from = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10), failed = 0;
    for (uint64_t i = 0; i < count; i++) failed += !(apart ? run_apart : run_seed)(from + i);
    device_close(device);
    printf("%llu programs, %d refused, %llu failed\n", (unsigned long long)count, refusals, (unsigned long long)failed);
    return failed != 0;
}

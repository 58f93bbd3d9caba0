// Does a candidate fail, and how? Each is tried in a process of its own, which may crash, or never end.
//
//     kernels, graphs      eval | eval with other junk | emu | emu with --opt=none | eval with --opt=none       all must give the same
//     models               ref | eval | emu | emu with --opt=none
//
// What a process says is one line. An internal error, a sanitizer's report and a signal are read from how it ends, and two failures are the
// same if these words are.
#include "runtime/reduce.h"

#include "lang/file.h"
#include "lang/temporary.h"
#include "runtime/model.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Outputs { bool fine, refused; int n; HostTensor t[MAX_GRAPH_PARAMS]; Buf why; } Outputs;

// ---- a program ------------------------------------------------------------------------------------

static void run_program(const ReduceHow *how, const ReduceCase *c, const char *on, bool unoptimised, uint64_t junk, Outputs *o) {
    static RunArg    arg[REDUCE_ARGS];
    static RunResult r;
    Session *s = session_new();
    int n = 0;
    bool ok = true;
    for (int i = 0; i < c->nargs && ok; i++) {
        if (c->arg[i].gone) continue;
        ok = arg_parse(c->arg[i].text, c->arg[i].place, how->seed, &arg[n], &o->why);
        n += ok;
    }
    SemaFile *file = sema_file(s, parse_file(s, source_add(s, how->path, c->file.p ? c->file.p : "", c->file.n)));
    const Node *item = how->graph ? sema_find_graph(file, how->graph) : how->kernel ? sema_find_kernel(file, how->kernel)
                       : sema_graph_count(file) > 0 ? sema_graph(file, 0) : sema_kernel_count(file) > 0 ? sema_kernel(file, 0) : NULL;
    Device *dev = ok && item && !diag_errors(s) ? device_open(on, NULL, &o->why) : NULL;
    o->refused = !dev;
    if (ok && !item && !diag_errors(s)) buf_printf(&o->why, "there is no such kernel or graph");
    if (dev) {
        RuntimeOptions opt = {.compile = c->compile, .seed = how->seed, .random_weights = true, .junk_seed = junk};
        opt.compile.unoptimised |= unoptimised;
        Runtime *rt = runtime_new(s, dev, &opt);
        o->fine = run_item(rt, (InstanceOf){.file = file, .item = item}, arg, n, &r, &o->why);
        o->refused = !o->fine && diag_errors(s) > 0;
        for (int i = 0; o->fine && i < r.n; i++) o->t[o->n++] = r.out[i].tensor;
        runtime_free(rt);
    }
    if (o->refused && diag_errors(s)) diag_print(s, stderr, DIAG_short, false);
    else if (o->refused) fprintf(stderr, "%s\n", o->why.p ? o->why.p : "it cannot be run");
}

// ---- a model --------------------------------------------------------------------------------------

static void run_model_on(const ReduceHow *how, const ReduceCase *c, const char *path, const char *on, bool unoptimised, Outputs *o) {
    static RunArg arg[REDUCE_ARGS];
    static GTensor out[MAX_GRAPH_PARAMS];
    ModelCall b;
    int n = 0;
    bool ok = true;
    for (int i = 0; i < c->nargs && ok; i++) {
        if (c->arg[i].gone) continue;
        ok = arg_parse(c->arg[i].text, c->arg[i].place, how->seed, &arg[n], &o->why);
        n += ok;
    }
    ok = ok && model_open(path, arg, n, &b, &o->why) && model_all_given(&b, &o->why);
    o->refused = !ok || onnx_output_count(b.m) > MAX_GRAPH_PARAMS;
    if (o->refused) { fprintf(stderr, "%s\n", o->why.p ? o->why.p : "it cannot be run"); return; }
    OnnxImport how_read = model_import(&b, &how->import);
    how_read.unoptimised = unoptimised;
    ProgramOptions with = {.device = on};
    o->fine = model_run(b.m, &with, &how_read, &(RunControl){.junk_seed = 1}, out, &o->why);
    for (int i = 0; o->fine && i < onnx_output_count(b.m); i++) o->fine = model_tensor(&out[i], &o->t[o->n++], &o->why);
}

// ---- compared -------------------------------------------------------------------------------------

static double allowed(const ReduceHow *how, Elem e) {
    if (how->rtol > 0) return how->rtol;
    Elem dtype = how->import.dtype != EL_none ? how->import.dtype : e;
    return dtype == EL_bf16 ? 5e-2 : elem_bits(dtype) == 16 ? 6e-3 : elem_bits(dtype) == 8 ? 0.2 : 1e-3;
}

static bool same(const ReduceHow *how, const HostTensor *a, const HostTensor *b) {
    double most = 0;
    if (a->elem != b->elem || tensor_count(a) != tensor_count(b)) return false;
    for (int64_t i = 0; i < tensor_count(a); i++) {
        double v = fabs(elem_get(a->elem, a->data, i));
        if (isfinite(v)) most = fmax(most, v);
    }
    double off = elem_is_float(a->elem) ? most * allowed(how, a->elem) + 1e-30 : 0;
    for (int64_t i = 0; i < tensor_count(a); i++) {
        double x = elem_get(a->elem, a->data, i), y = elem_get(b->elem, b->data, i);
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (!(fabs(x - y) <= off)) return false;
    }
    return true;
}

// The first words, without numbers: elements and addresses change as it gets smaller.
static void in_brief(const char *why, Buf *to) {
    for (int i = 0; why && why[i] && why[i] != '\n' && i < 60; i++)
        if (!strchr("0123456789`", why[i])) buf_putc(to, why[i]);
}

static void compare(const ReduceHow *how, const char *const *name, Outputs *o, int n, Buf *failure) {
    for (int i = 0; i < n; i++) if (o[i].refused) return;
    for (int i = 0; i < n; i++) {
        if (o[i].fine) continue;
        buf_printf(failure, "%s: ", name[i]);
        in_brief(o[i].why.p, failure);
        return;
    }
    for (int i = 1; i < n; i++)
        for (int k = 0; k < o[0].n; k++)
            if (k >= o[i].n || !same(how, &o[0].t[k], &o[i].t[k])) { buf_printf(failure, "%s and %s differ", name[0], name[i]); return; }
}

static void devices(const ReduceHow *how, const ReduceCase *c, const char *path, Buf *failure) {
    static Outputs o[5];
    const char *on = how->device ? how->device : "emu", *plain = how->device ? "the device with --opt=none" : "emu with --opt=none";
    const char *const kernels[] = {"eval", "eval with other junk where nothing was written", on, plain, "eval with --opt=none"};
    const char *const models[] = {"ref", "eval", on, plain};
    int n = how->model ? 4 : 5;
    for (int i = 0; i < n; i++) {
        if (how->model) run_model_on(how, c, path, i < 2 ? models[i] : on, i == 3, &o[i]);
        else run_program(how, c, i == 2 || i == 3 ? on : "eval", i >= 3, 1 + (uint64_t)(i == 1), &o[i]);
        bool first = i == 0 && !o[i].fine;                      // eval's words are of the program: a race, an argument that is not there
        if (first && !o[i].refused) fprintf(stderr, "%s\n", o[i].why.p ? o[i].why.p : "it cannot be run");
        if (first || o[i].refused) return;
    }
    compare(how, how->model ? models : kernels, o, n, failure);
}

// ---- processes ------------------------------------------------------------------------------------

static void command(const ReduceHow *how, const char *path) {
    Buf text = {0};
    for (const char *p = how->command; *p;) {
        if (strncmp(p, "{}", 2) == 0) buf_printf(&text, "'%s'", path), p += 2;
        else buf_putc(&text, *p++);
    }
    execl("/bin/sh", "sh", "-c", text.p, (char *)NULL);
    _exit(127);
}

static void child(const ReduceHow *how, const ReduceCase *c, const char *path, int to, int errors) {
    Buf failure = {0};
    alarm((unsigned)how->seconds);
    dup2(errors, 2);
    dup2(errors, 1);
    if (how->command) command(how, path);
    devices(how, c, path, &failure);
    if (failure.n && write(to, failure.p, failure.n) < 0) _exit(3);
    _exit(0);
}

static void read_all(int fd, Buf *to) {
    char part[4096];
    ssize_t n;
    while ((n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR)) if (n > 0 && to->n < 1 << 20) buf_add(to, part, (size_t)n);
}

static void line_from(const Buf *text, const char *words, const char *until, Buf *to) {
    const char *at = text->p ? strstr(text->p, words) : NULL;
    if (at && !to->n) buf_add(to, at, strcspn(at, until));
}

static void ended(const ReduceHow *how, int status, const Buf *said, const Buf *errors, Buf *failure) {
    if (how->command) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) buf_puts(failure, "the command ends with 0");
        return;
    }
    if (said->n) { buf_add(failure, said->p, said->n); return; }
    line_from(errors, "internal error at ", ":\n", failure);   // without the line: it stays the same mistake
    if (failure->n) return;
    line_from(errors, "ERROR: AddressSanitizer: ", "(\n", failure);
    line_from(errors, "runtime error: ", "0123456789\n", failure);
    if (failure->n) return;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) buf_printf(failure, "it takes more than %d s", how->seconds);
    else if (WIFSIGNALED(status)) buf_printf(failure, "it ends by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status)) buf_printf(failure, "it ends with %d", WEXITSTATUS(status));
}

static bool write_candidate(const char *path, const Buf *file) {
    int  fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && file_put(fd, file->p, file->n);
    return fd >= 0 && close(fd) == 0 && ok;
}

static void try(const ReduceHow *how, const ReduceCase *c, const char *path, Buf *failure, Buf *out) {
    int said[2], errors[2], status = 0;
    if (pipe(said) != 0) return;
    if (pipe(errors) != 0) { close(said[0]), close(said[1]); return; }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) close(said[0]), close(errors[0]), child(how, c, path, said[1], errors[1]);
    int note = temporary_child(pid);
    close(said[1]), close(errors[1]);
    Buf words = {0}, text = {0};
    read_all(errors[0], &text), read_all(said[0], &words);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    temporary_forget(note);
    if (pid > 0) ended(how, status, &words, &text, failure);
    close(said[0]), close(errors[0]);
    if (out && text.n) buf_add(out, text.p, text.n);
    buf_free(&words), buf_free(&text);
}

typedef struct TryFolder { char folder[256], path[512]; int note[2]; } TryFolder;

static void end_try_folder(void *of, uint64_t none) {
    const TryFolder *c = of;
    (void)none;
    unlink(c->path), rmdir(c->folder);
    temporary_forget(c->note[1]), temporary_forget(c->note[0]);
}

void reduce_check(const ReduceHow *how, const ReduceCase *c, Buf *failure, Buf *said) {
    const char *tmp = getenv("TMPDIR"), *name = strrchr(how->path, '/');
    if (!how->model && !how->command) { try(how, c, how->path, failure, said); return; }
    TryFolder *it = heap_alloc(sizeof *it);
    snprintf(it->folder, sizeof it->folder, "%s/tkc-reduce-XXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    sigset_t was = temporary_hold();
    bool made = mkdtemp(it->folder) != NULL;
    snprintf(it->path, sizeof it->path, "%s/%.200s", it->folder, name ? name + 1 : how->path);
    for (int i = 0; i < 2; i++) it->note[i] = made ? temporary_note(i ? it->path : it->folder) : -1;
    temporary_release(was);
    if (!made) { heap_free(it); return; }
    heap_hold(end_try_folder, it, 0);
    if (write_candidate(it->path, &c->file)) try(how, c, it->path, failure, said);
    heap_let_go(end_try_folder, it, 0);
    end_try_folder(it, 0);
    heap_free(it);
}

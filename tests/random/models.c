// Random models on the interpreter, on eval, on the emulator, and there without any optional rewrite: all of
// these must agree.
//
//     random_models FROM COUNT               seeds FROM .. FROM + COUNT
//     random_models --show SEED              the model, in the form of tests/graph/onnx_text.h
//     random_models --write FILE SEED        the model and its inputs as files, for `tkc reduce`; the
//     commands are printed
//
// --apart, in front, runs each seed in a process of its own, so that an internal error or a crash is one more
// failure.
//
//     input x0 f32 N 33                       sizes with a name: the model is run at three, 1 and tiles'
//     extents among them const w1 f32 33 7 : ..                  weights, bias, scales MatMul x0 w1 -> t2
//     products, attention, windows, movement, elements, norms, bytes, loops, branches output t2 f32 any
//
// A third each as written, in f16 and in bf16, which a third of those are in the file, too; some of the first
// in tf32. model_draw.h says which two kinds of models there are, model_oracle.c what each has to give. A
// model that leaves its type's range is not judged. In f32, one in five has NaN and infinities among its
// inputs, and results are NaN and infinite in the same places.
#include "tests/random/model_draw.h"
#include "tests/random/model_oracle.h"

#include "runtime/model.h"
#include "tests/graph/onnx_text.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 60 };

static void bytes_of(const char *text, Buf *out) {
    Onnx__ModelProto *p = onnx_from_text(text);
    size_t n = onnx__model_proto__get_packed_size(p);
    uint8_t *to = heap_alloc(n + 1);
    onnx__model_proto__pack(p, to);
    buf_add(out, (const char *)to, n);
    heap_free(to);
    onnx__model_proto__free_unpacked(p, NULL);
}

// `text` with some outputs, `all` with every value.
static void make(uint64_t seed, Model *m, Buf *text, Buf *all) {
    model_draw(seed, m);
    model_text(m, false, true, text);
    if (all) model_text(m, true, false, all);
    buf_free(&m->head), buf_free(&m->nodes);
}

// ---- running
// ------------------------------------------------------------------------------------------------------

typedef struct Way {
    const char *on, *what;
    bool none;
} Way;

typedef struct Opened {
    bool open;
    OnnxModel *model;
    OnnxImport how;
    ModelProgram program;
} Opened;

static void close_way(Opened *o) {
    if (o->open) program_close(&o->program);
    if (o->model) onnx_free(o->model);
    *o = (Opened){0};
}

static OnnxImport import_of(const Model *m, const Way *way, const Inputs *in) {
    return (OnnxImport){.given = in->typed,
                        .ngiven = in->n,
                        .dtype = m->native ? EL_none : m->dtype,
                        .tf32 = m->tf32,
                        .unoptimised = way->none};
}

static bool open_way(const Model *m, const Buf *bytes, const Way *way, const Inputs *in, Opened *o,
                     Buf *err) {
    *o = (Opened){.model = onnx_parse("random.onnx", bytes->p, bytes->n, err)};
    o->how = import_of(m, way, in);
    if (!o->model) return false;
    o->open = true;
    return program_open(o->model, &(ProgramOptions){.device = way->on}, &o->how, &o->program, err);
}

// The program is kept for the next sizes, unless it is of these alone.
static bool call_way(const Model *m, const Buf *bytes, const Way *way, const Inputs *in, uint64_t seed,
                     Opened *o, GTensor *out, Buf *err) {
    RunControl control = {.junk_seed = seed | 1};
    if (o->open && o->how.bound == 0) {
        Buf why = {0};
        o->how.given = in->typed;
        bool ok = program_call(&o->program, &o->how, &control, out, &why);
        buf_free(&why);
        if (ok) return true;
    }
    close_way(o);
    if (strcmp(way->on, "ref") == 0) {
        *o = (Opened){.model = onnx_parse("random.onnx", bytes->p, bytes->n, err)};
        o->how = import_of(m, way, in);
        return o->model && onnx_run(o->model, &o->how, out, err);
    }
    return open_way(m, bytes, way, in, o, err) && program_call(&o->program, &o->how, &control, out, err);
}

static bool compare(const Model *m, const Expected *want, OnnxModel *model, GTensor *out, Buf *err) {
    bool ok = true;
    for (int i = 0; i < onnx_output_count(model); i++) {
        GTensor as = {0};
        ok = ok && g_tensor_convert(&out[i], EL_f32, &as) &&
             expected_agree(m, want, onnx_output_name(model, i), &as, err);
        if (as.data) g_tensor_free(&as);
        g_tensor_free(&out[i]);
    }
    return ok;
}

static bool run_way(const Model *m, const Buf *bytes, const Way *way, const Inputs *in, const Expected *want,
                    uint64_t seed, Buf *err) {
    Opened o = {0};
    bool ok = true;
    for (int r = 0; r < m->runs && ok; r++) {
        GTensor out[VALUES] = {0};
        if (!expected_judged(m, &want[r])) continue;
        ok = call_way(m, bytes, way, &in[r], seed, &o, out, err) && compare(m, &want[r], o.model, out, err);
        if (!ok) buf_printf(err, " (%s", way->what);
        for (int i = 0; i < m->inputs && !ok; i++)
            for (int k = 0; k < m->input[i].rank; k++)
                buf_printf(err, "%s%lld",
                           k   ? ","
                           : i ? "; "
                               : ", inputs of ",
                           (long long)m->input[i].dim[k].at[r]);
        if (!ok) buf_puts(err, ")");
    }
    close_way(&o);
    return ok;
}

static bool try(uint64_t seed, Buf *text, Buf *err) {
    static const Way ways[] = {{"ref", "the interpreter", false},
                               {"eval", "eval", false},
                               {"emu", "emu", false},
                               {"emu", "emu with --opt=none", true}};
    Model m;
    Buf all = {0}, bytes = {0}, whole = {0};
    Inputs in[RUNS] = {0};
    Expected want[RUNS] = {0};
    make(seed, &m, text, &all);
    bytes_of(text->p, &bytes), bytes_of(all.p, &whole);
    bool ok = true;
    for (int r = 0; r < m.runs && ok; r++)
        ok = inputs_make(&m, seed, r, &in[r]) && expected_make(&m, &whole, &in[r], &want[r], err);
    for (size_t w = 0; w < sizeof ways / sizeof *ways && ok; w++)
        ok = run_way(&m, &bytes, &ways[w], in, want, seed, err);
    for (int r = 0; r < m.runs; r++) inputs_free(&in[r]), expected_free(&want[r]);
    buf_free(&all), buf_free(&bytes), buf_free(&whole);
    return ok;
}

// ---- reports
// ------------------------------------------------------------------------------------------------------

static const char *asked(const Model *m) {
    if (m->tf32) return " --dtype=tf32";
    return m->native ? "" : m->dtype == EL_f16 ? " --dtype=f16" : m->dtype == EL_bf16 ? " --dtype=bf16" : "";
}

static void show(uint64_t seed, const char *why) {
    Model m;
    Buf text = {0};
    make(seed, &m, &text, NULL);
    printf("seed %llu%s: %s\n%s\n", (unsigned long long)seed, asked(&m), why, text.p);
    fflush(stdout);
    buf_free(&text);
}

static bool run_seed(uint64_t seed) {
    Buf text = {0}, err = {0};
    bool ok = try(seed, &text, &err);
    if (!ok) show(seed, err.p ? err.p : "it fails");
    buf_free(&text), buf_free(&err);
    return ok;
}

static bool run_apart(uint64_t seed) {
    fflush(stdout);
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        alarm(SECONDS);
        bool ok = run_seed(seed);
        fflush(stdout);
        _exit(!ok);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) return run_seed(seed);
    if (WIFEXITED(status)) return WEXITSTATUS(status) == 0;
    char why[80];
    int by = WTERMSIG(status);
    snprintf(why, sizeof why, by == SIGALRM ? "takes more than %d seconds" : "ends by signal %d",
             by == SIGALRM ? SECONDS : by);
    show(seed, why);
    return false;
}

// The inputs of each run beside it, as FILE.RUN.x0.pb.
static bool write_inputs(const char *path, const Model *m, uint64_t seed, int run) {
    Inputs in;
    Buf err = {0};
    bool ok = inputs_make(m, seed, run, &in);
    printf("tkc reduce %s", path);
    for (int i = 0; i < m->inputs && ok; i++) {
        Buf to = {0};
        buf_printf(&to, "%s.%d.x%d.pb", path, run, i);
        ok = onnx_tensor_write(to.p, in.name[i], &in.own[i], &err);
        printf(" x%d=%s", i, to.p);
        buf_free(&to);
    }
    printf("%s -o small.onnx\n", asked(m));
    if (!ok) fprintf(stderr, "%s\n", err.p ? err.p : "out of memory");
    inputs_free(&in);
    buf_free(&err);
    return ok;
}

static int write_model(const char *path, uint64_t seed) {
    Model m;
    Buf text = {0}, bytes = {0};
    make(seed, &m, &text, NULL);
    bytes_of(text.p, &bytes);
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(bytes.p, 1, bytes.n, f) == bytes.n;
    if (f) ok = fclose(f) == 0 && ok;
    for (int r = 0; r < m.runs && ok; r++) ok = write_inputs(path, &m, seed, r);
    buf_free(&text), buf_free(&bytes);
    return !ok;
}

static int show_text(uint64_t seed) {
    Model m;
    Buf text = {0};
    make(seed, &m, &text, NULL);
    fputs(text.p, stdout);
    buf_free(&text);
    return 0;
}

int main(int argc, char **argv) {
    bool apart = argc > 1 && strcmp(argv[1], "--apart") == 0;
    argv += apart, argc -= apart;
    if (argc > 3 && strcmp(argv[1], "--write") == 0) return write_model(argv[2], strtoull(argv[3], NULL, 10));
    if (argc > 2 && strcmp(argv[1], "--show") == 0) return show_text(strtoull(argv[2], NULL, 10));
    if (argc < 3) {
        fputs("random_models [--apart] FROM COUNT   or   --show SEED   or   --write FILE SEED\n", stderr);
        return 2;
    }
    uint64_t from = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10), failed = 0;
    for (uint64_t i = 0; i < count; i++) failed += !(apart ? run_apart : run_seed)(from + i);
    printf("%llu models, %llu failed\n", (unsigned long long)count, (unsigned long long)failed);
    return failed != 0;
}

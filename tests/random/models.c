// Random models on the interpreter, on eval, on the emulator, and there without any optional rewrite: all of these must agree.
//
//     random_models FROM COUNT               seeds FROM .. FROM + COUNT
//     random_models --show SEED              the model, in the form of tests/graph/onnx_text.h
//     random_models --write FILE SEED        the model as a file, for `tkc reduce`; the command is printed
//
// --apart, in front, runs each seed in a process of its own, so that an internal error or a crash is one more failure.
//
//     input x0 f32 5 33                       two dimensions, and their neighbours: 1, tiles, tiles and one
//     const w1 f32 33 7 : ..                  weights, bias, scales from 1e-6 to 512
//     MatMul x0 w1 -> t2                      products, elements, reductions, movement, sorts with several results
//     TopK t2 k -> t3 t4 axis=1 largest=0
//     output t3 f32
//
// A third each as written, in f16 and in bf16. The interpreter runs the model as it is written in f32 with every value as a result: where none of them
// leaves the range of f16, no result in f16 may be infinite or NaN, and it is as close as the type allows. In f32, one in ten has NaN and infinities among its
// inputs, and results are NaN and infinite in the same places.
#include "tests/random/draw.h"

#include "graph/onnx/onnx.h"
#include "runtime/model.h"
#include "tests/graph/onnx_text.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VALUES = 24, SECONDS = 60 };

typedef struct Shape { int64_t r, c; } Shape;
typedef struct Make {
    Draw  d;
    Buf   head, nodes;                 // inputs and constants; operators
    Shape shape[VALUES];
    char  name[VALUES][16];
    double most[VALUES];               // a bound of its magnitude that is rough
    int   n, inputs, consts;
    Shape input[3];
    Elem  dtype;
    bool  special;                     // NaN and infinities
} Make;

static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 9, 16, 17, 20, 31, 32, 33, 48, 64, 65, 100};

static int value_new(Make *m, Shape s) {
    m->shape[m->n] = s;
    snprintf(m->name[m->n], sizeof m->name[0], "t%d", m->n);
    return m->n++;
}

static int input_new(Make *m, Shape s) {
    int v = value_new(m, s);
    snprintf(m->name[v], sizeof m->name[0], "x%d", m->inputs);
    buf_printf(&m->head, "input x%d f32 %lld %lld\n", m->inputs, (long long)s.r, (long long)s.c);
    m->input[m->inputs++] = s;
    return v;
}

static int weight(Make *m, int64_t r, int64_t c, double scale) {       // a number of its own; c 0: of rank 1
    int id = m->consts++;
    buf_printf(&m->head, c ? "const w%d f32 %lld %lld :" : "const w%d f32 %lld :", id, (long long)r, (long long)c);
    for (int64_t i = 0; i < r * (c ? c : 1); i++) buf_printf(&m->head, " %.4g", scale * ((int)roll(&m->d, 2001) - 1000) / 1000.0);
    buf_puts(&m->head, "\n");
    return id;
}

static int scalar(Make *m, double v) {
    buf_printf(&m->head, "const w%d f32 1 : %.6g\n", m->consts, v);
    return m->consts++;
}

static int integers(Make *m, const int64_t *v, int n) {
    buf_printf(&m->head, "const w%d i64 %d :", m->consts, n);
    for (int i = 0; i < n; i++) buf_printf(&m->head, " %lld", (long long)v[i]);
    buf_puts(&m->head, "\n");
    return m->consts++;
}

static int one_like(Make *m, Shape s) {
    for (int tries = 0; tries < 6; tries++) {
        int v = (int)roll(&m->d, (uint32_t)m->n);
        if (m->shape[v].r == s.r && m->shape[v].c == s.c) return v;
    }
    return -1;
}

static void step(Make *m) {
    static const double scales[] = {1.0 / 64, 0.125, 64, 1e-3, 512, 1e-6, 0.5, 3};
    static const char *const maps[] = {"Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Softplus", "Floor", "HardSigmoid"}, *const folds[] = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"};
    static const char *const binary[] = {"Add", "Sub", "Mul", "Max", "Min"};
    int a = (int)roll(&m->d, (uint32_t)m->n), w, y;
    Shape s = m->shape[a];
    const char *x = m->name[a];
    Buf *o = &m->nodes;
    switch (roll(&m->d, 17)) {
    case 0: case 1: case 2: {                                          // a product with weights, its scale before or behind it
        int64_t c = PICK(&m->d, sizes);
        w = weight(m, s.c, c, chance(&m->d, 70) ? 1 / sqrt((double)s.c) : PICK(&m->d, scales));
        y = value_new(m, (Shape){s.r, c});
        buf_printf(o, "MatMul %s w%d -> %s\n", x, w, m->name[y]);
        break;
    }
    case 3: {                                                          // of two values
        int b = one_like(m, (Shape){s.c, PICK(&m->d, sizes)});
        if (b < 0) {                                                   // its own transpose
            int t = value_new(m, (Shape){s.c, s.r});
            buf_printf(o, "Transpose %s -> %s perm=[1,0]\n", x, m->name[t]);
            b = t;
        }
        y = value_new(m, (Shape){s.r, m->shape[b].c});
        buf_printf(o, "MatMul %s %s -> %s\n", x, m->name[b], m->name[y]);
        break;
    }
    case 4: case 5:                                                    // a scale
        w = scalar(m, PICK(&m->d, scales));
        y = value_new(m, s);
        buf_printf(o, "%s %s w%d -> %s\n", chance(&m->d, 75) ? "Mul" : "Div", x, w, m->name[y]);
        break;
    case 6:
        w = weight(m, s.c, 0, 1);
        y = value_new(m, s);
        buf_printf(o, "Add %s w%d -> %s\n", x, w, m->name[y]);
        break;
    case 7: case 8:
        y = value_new(m, s);
        buf_printf(o, "%s %s -> %s\n", PICK(&m->d, maps), x, m->name[y]);
        break;
    case 9: {
        int b = one_like(m, s);
        y = value_new(m, s);
        buf_printf(o, "%s %s %s -> %s\n", PICK(&m->d, binary), x, m->name[b < 0 ? a : b], m->name[y]);
        break;
    }
    case 10:
        y = value_new(m, s);
        buf_printf(o, "Softmax %s -> %s axis=%d\n", x, m->name[y], (int)roll(&m->d, 2));
        break;
    case 11:
        y = value_new(m, (Shape){s.c, s.r});
        buf_printf(o, "Transpose %s -> %s perm=[1,0]\n", x, m->name[y]);
        break;
    case 12: {
        int axis = (int)roll(&m->d, 2);
        y = value_new(m, axis ? (Shape){s.r, 1} : (Shape){1, s.c});
        const char *f = PICK(&m->d, folds);
        if (strcmp(f, "ReduceSum") == 0) buf_printf(o, "ReduceSum %s w%d -> %s keepdims=1\n", x, integers(m, (int64_t[]){axis}, 1), m->name[y]);
        else buf_printf(o, "%s %s -> %s keepdims=1 axes=[%d]\n", f, x, m->name[y], axis);
        break;
    }
    case 13: {                                                         // several results
        int64_t k = 1 + (int64_t)roll(&m->d, (uint32_t)s.c);
        bool constant = chance(&m->d, 25);
        int from = constant ? weight(m, s.r, s.c, 1) : -1;
        y = value_new(m, (Shape){s.r, k});
        w = integers(m, &k, 1);
        if (constant) buf_printf(o, "TopK w%d w%d -> %s i%s axis=1 largest=%d\n", from, w, m->name[y], m->name[y], (int)roll(&m->d, 2));
        else buf_printf(o, "TopK %s w%d -> %s i%s axis=1 largest=%d\n", x, w, m->name[y], m->name[y], (int)roll(&m->d, 2));
        if (m->n < VALUES && chance(&m->d, 50)) {
            int z = value_new(m, (Shape){s.r, k});
            buf_printf(o, "Cast i%s -> %s to=1\n", m->name[y], m->name[z]);
        }
        break;
    }
    case 14: {                                                         // apart, and together another way
        if (s.c < 2 || m->n + 3 > VALUES) return;
        int64_t k = 1 + (int64_t)roll(&m->d, (uint32_t)s.c - 1), part[2] = {k, s.c - k};
        w = integers(m, part, 2);
        int p = value_new(m, (Shape){s.r, k}), q = value_new(m, (Shape){s.r, s.c - k});
        buf_printf(o, "Split %s w%d -> %s %s axis=1\n", x, w, m->name[p], m->name[q]);
        y = value_new(m, s);
        buf_printf(o, "Concat %s %s -> %s axis=1\n", m->name[q], m->name[p], m->name[y]);
        break;
    }
    case 15:
        w = weight(m, s.c, 0, 1);
        y = value_new(m, s);
        buf_printf(o, "LayerNormalization %s w%d w%d -> %s axis=-1\n", x, w, weight(m, s.c, 0, 1), m->name[y]);
        break;
    default: {
        w = scalar(m, 0.25);
        int z = scalar(m, 0.5);
        if (m->n + 1 > VALUES) return;
        y = value_new(m, s);
        buf_printf(o, "Greater %s w%d -> b%s\nWhere b%s %s w%d -> %s\n", x, w, m->name[y], m->name[y], x, z, m->name[y]);
        break;
    }
    }
}

static void make(uint64_t seed, Make *m, bool all, Buf *text) {
    static const Elem dtypes[] = {EL_none, EL_f16, EL_bf16};
    *m = (Make){.d = {seed * 0x9e3779b97f4a7c15u + 31}};
    roll(&m->d, 2), roll(&m->d, 2);
    m->dtype = PICK(&m->d, dtypes);
    m->special = m->dtype == EL_none && chance(&m->d, 30);
    int inputs = 1 + (int)roll(&m->d, 2), steps = 3 + (int)roll(&m->d, 9);
    for (int i = 0; i < inputs; i++) input_new(m, (Shape){PICK(&m->d, sizes), PICK(&m->d, sizes)});
    for (int i = 0; i < steps && m->n + 4 < VALUES; i++) step(m);
    buf_printf(text, "opset 17\n%s%s", m->head.p, m->nodes.p ? m->nodes.p : "");
    for (int v = m->inputs; v < m->n; v++) {
        Buf word = {0};
        buf_printf(&word, " %s ", m->name[v]);
        char   *made = m->nodes.p ? strstr(m->nodes.p, m->name[v]) : NULL;
        bool    last = v == m->n - 1 || chance(&m->d, 15);
        if (made && (all || last)) buf_printf(text, "output %s f32 %lld %lld\n", m->name[v], (long long)m->shape[v].r, (long long)m->shape[v].c);
        buf_free(&word);
    }
    buf_free(&m->head), buf_free(&m->nodes);
}

// ---- running ------------------------------------------------------------------------------------------------------

static void bytes_of(const char *text, Buf *out) {
    Onnx__ModelProto *p = onnx_from_text(text);
    size_t n = onnx__model_proto__get_packed_size(p);
    uint8_t *to = heap_alloc(n + 1);
    onnx__model_proto__pack(p, to);
    buf_add(out, (const char *)to, n);
    heap_free(to);
    onnx__model_proto__free_unpacked(p, NULL);
}

static void fill(const Make *m, uint64_t seed, int i, GTensor *t) {
    float *x = t->data;
    Draw d = {seed * 77 + (uint64_t)i};
    size_t n = t->bytes / 4;
    for (size_t k = 0; k < n; k++) x[k] = (float)((int)roll(&d, 4001) - 2000) / 1000;
    if (!m->special) return;
    x[roll(&d, (uint32_t)n)] = NAN;
    if (chance(&d, 40)) x[roll(&d, (uint32_t)n)] = INFINITY;
    if (chance(&d, 40)) x[roll(&d, (uint32_t)n)] = -INFINITY;
}

static bool run(const Make *m, const Buf *bytes, uint64_t seed, const char *on, Elem dtype, bool unoptimised, GTensor *out, int *nout, Buf *err) {
    OnnxModel *model = onnx_parse("random.onnx", bytes->p, bytes->n, err);
    GTensor in[3] = {0};
    OnnxGiven given[3];
    char name[3][8];
    bool ok = model != NULL;
    for (int i = 0; i < m->inputs; i++) {
        in[i] = (GTensor){.elem = EL_f32, .rank = 2, .shape = {m->input[i].r, m->input[i].c}};
        ok = g_tensor_alloc(&in[i]) && ok;
        fill(m, seed, i, &in[i]);
        snprintf(name[i], sizeof name[0], "x%d", i);
        given[i] = (OnnxGiven){name[i], &in[i]};
    }
    *nout = ok ? onnx_output_count(model) : 0;
    OnnxImport how = {.given = given, .ngiven = m->inputs, .dtype = dtype, .unoptimised = unoptimised};
    ok = ok && model_run(model, &(ProgramOptions){.device = on}, &how, &(RunControl){.junk_seed = seed | 1}, out, err);
    for (int i = 0; i < m->inputs; i++) g_tensor_free(&in[i]);
    if (model) onnx_free(model);
    return ok;
}

static double largest(const GTensor *t) {
    double most = 0;
    for (size_t i = 0; t->elem == EL_f32 && i < t->bytes / 4; i++) most = fmax(most, fabs((double)((float *)t->data)[i]));
    return most;
}

static bool near(double x, double y, double off) {
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    return x == y || fabs(x - y) <= off;
}

static bool agree(const Make *m, const GTensor *a, const GTensor *b, int n, double range, const char *what, Buf *err) {
    double part = m->dtype == EL_bf16 ? 0.1 : m->dtype == EL_f16 ? 0.02 : 2e-3;
    for (int i = 0; i < n; i++) {
        double most = fmax(m->special ? 0 : largest(&a[i]), 1e-6);
        if (m->special)
            for (size_t k = 0; k < a[i].bytes / 4; k++) { double v = fabs((double)((float *)a[i].data)[k]); if (isfinite(v)) most = fmax(most, v); }
        if (a[i].elem != b[i].elem || a[i].bytes != b[i].bytes) { buf_printf(err, "result %d, %s: another type or shape", i, what); return false; }
        for (size_t k = 0; a[i].elem == EL_f32 && k < a[i].bytes / 4; k++) {
            double x = (double)((float *)a[i].data)[k], y = (double)((float *)b[i].data)[k];
            if (m->dtype != EL_none && !(isfinite(y))) { buf_printf(err, "result %d[%zu], %s: %g, and no value of the model exceeds %g", i, k, what, y, range); return false; }
            if (m->dtype == EL_none && !near(x, y, part * most)) { buf_printf(err, "result %d[%zu], %s: %.9g, %.9g", i, k, what, x, y); return false; }
        }
    }
    return true;
}

static const char *const discontinuous[] = {"TopK", "Floor", "Greater", "Cast"};

// Where rounding is a jump, only ranges are compared in 16 bits.
static bool jumps(const char *text) {
    for (size_t i = 0; i < sizeof discontinuous / sizeof *discontinuous; i++) if (strstr(text, discontinuous[i])) return true;
    return false;
}

// The mean of squares, against the largest: single elements of sums that cancel are far off in 16 bits.
static bool alike(const Make *m, const GTensor *a, const GTensor *b, int n, const char *what, Buf *err) {
    double part = m->dtype == EL_bf16 ? 0.15 : 0.03;
    for (int i = 0; i < n; i++) {
        double sum = 0, of = 0;
        size_t count = a[i].elem == EL_f32 ? a[i].bytes / 4 : 0;
        for (size_t k = 0; k < count; k++) {
            double x = (double)((float *)a[i].data)[k], y = (double)((float *)b[i].data)[k];
            sum += (x - y) * (x - y), of = fmax(of, x * x);
        }
        if (count && sum / (double)count > part * part * of + 1e-9) { buf_printf(err, "result %d, %s: off by %.3g of the largest (%.3g), on average", i, what, sqrt(sum / (double)count / of), sqrt(of)); return false; }
    }
    return true;
}

static bool try(uint64_t seed, Buf *text, Buf *err) {
    static const struct { const char *on, *what; bool none; } ways[] = {{"eval", "eval", false}, {"emu", "emu", false}, {"emu", "emu with --opt=none", true}};
    enum { WAYS = sizeof ways / sizeof *ways };
    Make m;
    Buf all = {0}, bytes = {0}, whole = {0};
    GTensor every[VALUES] = {0}, ref[VALUES] = {0}, none[VALUES] = {0};
    int n = 0, nall = 0;
    double range = 0;
    make(seed, &m, true, &all);
    make(seed, &m, false, text);
    bytes_of(text->p, &bytes), bytes_of(all.p, &whole);
    bool ok = run(&m, &whole, seed, "ref", EL_none, false, every, &nall, err) && run(&m, &bytes, seed, "ref", EL_none, false, ref, &n, err);
    for (int i = 0; i < nall; i++) range = fmax(range, largest(&every[i]));
    bool narrow = m.dtype == EL_f16, judged = m.dtype == EL_none || (isfinite(range) && range < (narrow ? 30000 : 1e30));
    bool smooth = m.dtype != EL_none && !jumps(text->p) && range < 1000;
    for (int w = 0; w < WAYS && ok && judged; w++) {
        ok = run(&m, &bytes, seed, ways[w].on, m.dtype, ways[w].none, none, &n, err);
        if (!ok) buf_printf(err, " (%s)", ways[w].what);
        if (m.dtype == EL_none && jumps(text->p) && !m.special) ok = ok && alike(&(Make){.dtype = EL_f16}, ref, none, n, ways[w].what, err);
        else if (!(m.special && jumps(text->p))) ok = ok && agree(&m, ref, none, n, range, ways[w].what, err);
        ok = ok && (!smooth || alike(&m, ref, none, n, ways[w].what, err));
        for (int i = 0; i < n; i++) g_tensor_free(&none[i]);
    }
    for (int i = 0; i < nall; i++) g_tensor_free(&every[i]);
    for (int i = 0; i < n; i++) g_tensor_free(&ref[i]);
    buf_free(&all), buf_free(&bytes), buf_free(&whole);
    return ok;
}

static void show(uint64_t seed, const Buf *text, const char *why) {
    Make m;
    Buf again = {0};
    make(seed, &m, false, &again);
    printf("seed %llu%s%s: %s\n%s\n", (unsigned long long)seed, m.dtype == EL_none ? "" : " --dtype=", m.dtype == EL_none ? "" : elem_name(m.dtype), why, text->p ? text->p : again.p);
    fflush(stdout);
    buf_free(&again);
}

static bool run_seed(uint64_t seed) {
    Buf text = {0}, err = {0};
    bool ok = try(seed, &text, &err);
    if (!ok) show(seed, &text, err.p ? err.p : "it fails");
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
    snprintf(why, sizeof why, WTERMSIG(status) == SIGALRM ? "takes more than %d seconds" : "ends by signal %d", WTERMSIG(status) == SIGALRM ? SECONDS : WTERMSIG(status));
    show(seed, &(Buf){0}, why);
    return false;
}

static int write_model(const char *path, uint64_t seed) {
    Make m;
    Buf text = {0}, bytes = {0};
    make(seed, &m, false, &text);
    bytes_of(text.p, &bytes);
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(bytes.p, 1, bytes.n, f) == bytes.n;
    if (f) ok = fclose(f) == 0 && ok;
    printf("tkc reduce %s", path);
    for (int i = 0; i < m.inputs; i++) printf(" 'x%d=uniform(-2,2):f32[%lld,%lld]'", i, (long long)m.input[i].r, (long long)m.input[i].c);
    printf("%s%s -o small.onnx\n", m.dtype == EL_none ? "" : " --dtype=", m.dtype == EL_none ? "" : elem_name(m.dtype));
    buf_free(&text), buf_free(&bytes);
    return !ok;
}

int main(int argc, char **argv) {
    bool apart = argc > 1 && strcmp(argv[1], "--apart") == 0;
    argv += apart, argc -= apart;
    if (argc > 3 && strcmp(argv[1], "--write") == 0) return write_model(argv[2], strtoull(argv[3], NULL, 10));
    if (argc > 2 && strcmp(argv[1], "--show") == 0) {
        Make m;
        Buf text = {0};
        make(strtoull(argv[2], NULL, 10), &m, false, &text);
        fputs(text.p, stdout);
        buf_free(&text);
        return 0;
    }
    if (argc < 3) { fputs("random_models [--apart] FROM COUNT   or   --show SEED   or   --write FILE SEED\n", stderr); return 2; }
    uint64_t from = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10), failed = 0;
    for (uint64_t i = 0; i < count; i++) failed += !(apart ? run_apart : run_seed)(from + i);
    printf("%llu models, %llu failed\n", (unsigned long long)count, (unsigned long long)failed);
    return failed != 0;
}

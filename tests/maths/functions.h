// The functions of maths.dat.gz with what they may be off by, and the two forms in which they run: kernels of
// the language, and models of one operator. A difference is counted in numbers of the type from the correctly
// rounded result.
#ifndef TK_TESTS_MATHS_FUNCTIONS_H
#define TK_TESTS_MATHS_FUNCTIONS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/model.h"
#include "runtime/tk_run.h"
#include "tests/graph/onnx_text.h"

#include <math.h>
#include <zlib.h>

enum { TYPES = 4 };
static const Elem maths_types[TYPES] = {EL_f32, EL_f64, EL_f16, EL_bf16};

typedef struct Function {
    char *name, *expression, *model; // model: "" where there is none
    int type, args;                  // maths_types[type]
    int64_t n;                       // inputs of its own, behind those of all
    uint8_t *input[2], *want;        // all of them
    int64_t floats;                  // that it may be off by, -1: no row of the table
    double within;                   // .. or by so much
    bool any_zero;                   // of either sign
    struct {
        int64_t floats;
        double slack;
        int64_t at, slack_at;
        int wrong;
        char got[64];
    } seen;
} Function;

typedef struct Functions {
    Function *fn;
    int n;
    uint8_t *input[TYPES][2][2]; // by type, arguments - 1, argument
    int64_t ninput[TYPES][2];
    char *bytes;
    bool measuring;
} Functions;

// ---- the file, and the table --------------------------------------------------------------------------

// Of text too, which is no gzip file: zlib hands it over as it is.
static char *whole_file(const char *path, size_t *n) {
    gzFile f = gzopen(path, "rb");
    if (!f) fail_msg("%s cannot be read", path);
    size_t room = 1 << 22;
    char *bytes = heap_try(room + 1);
    *n = 0;
    for (int got; (got = gzread(f, bytes + *n, (unsigned)(room - *n))) > 0;) {
        *n += (size_t)got;
        if (*n == room) bytes = heap_resize(bytes, (room *= 2) + 1);
    }
    bytes[*n] = '\0';
    gzclose(f);
    return bytes;
}

static int type_of(const char *name) {
    for (int t = 0; t < TYPES; t++)
        if (!strcmp(elem_name(maths_types[t]), name)) return t;
    fail_msg("no type `%s`", name);
    return 0;
}

// Rows of arguments, one beside the other, to a column for each argument, behind `before`'s n0.
static uint8_t *column(const uint8_t *before, int64_t n0, const char *rows, int64_t n, int args, int which,
                       size_t size) {
    uint8_t *c = heap_try((size_t)(n0 + n) * size + 1);
    if (n0) memcpy(c, before, (size_t)n0 * size);
    for (int64_t i = 0; i < n; i++)
        memcpy(c + (size_t)(n0 + i) * size, rows + (size_t)(i * args + which) * size, size);
    return c;
}

static char *cut(char **text) { // up to " | "
    char *from = *text, *bar = strstr(from, " |");
    assert_non_null(bar);
    *bar = '\0';
    *text = bar + 2 + (bar[2] == ' ');
    return from;
}

// `name` | floats in f32 | in f64 | or within, in f32 | in f64
static void read_bound(Function *f, const char *table) {
    char row[128];
    snprintf(row, sizeof row, "\n| `%s` |", f->name);
    const char *at = strstr(table, row);
    f->floats = -1;
    if (!at) return;
    at += strlen(row);
    bool wide = maths_types[f->type] == EL_f64;
    for (int i = 0; i < (wide ? 1 : 0); i++) at = strchr(at, '|') + 1;
    f->floats = strtoll(at, NULL, 10);
    for (int i = 0; i < 2; i++) at = strchr(at, '|') + 1;
    while (*at == ' ') at++;
    if (!strncmp(at, "2^", 2)) f->within = exp2(strtod(at + 2, NULL));
    if (elem_is_storage(maths_types[f->type])) f->floats = 1; // rounded once more
}

static Functions *functions_read(const char *data, const char *table) {
    Functions *all = heap_try_zeroed(1, sizeof *all);
    size_t n, ignored;
    char *p = all->bytes = whole_file(data, &n), *text = table ? whole_file(table, &ignored) : NULL,
         *end = p + n;
    while (p < end) {
        char *line = p, type[16];
        int args;
        long long count;
        p = strchr(p, '\n');
        *p++ = '\0';
        if (sscanf(line, "inputs %15s %d %lld", type, &args, &count) == 3) {
            int t = type_of(type);
            size_t size = (size_t)elem_bytes(maths_types[t]);
            all->ninput[t][args - 1] = count;
            for (int a = 0; a < args; a++)
                all->input[t][args - 1][a] = column(NULL, 0, p, count, args, a, size);
            p += (size_t)count * (size_t)args * size;
            continue;
        }
        assert_int_equal(strncmp(line, "function ", 9), 0);
        line += 9;
        Function f = {.name = cut(&line)};
        f.expression = cut(&line);
        f.model = cut(&line);
        int common, signs;
        assert_int_equal(sscanf(line, "%15s %d %lld %d %d", type, &f.args, &count, &common, &signs), 5);
        f.any_zero = !signs;
        f.type = type_of(type);
        size_t size = (size_t)elem_bytes(maths_types[f.type]);
        int64_t n0 = common ? all->ninput[f.type][f.args - 1] : 0;
        for (int a = 0; a < f.args; a++)
            f.input[a] = column(all->input[f.type][f.args - 1][a], n0, p, count, f.args, a, size);
        f.n = n0 + count;
        p += (size_t)count * (size_t)f.args * size;
        f.want = column(NULL, 0, p, f.n, 1, 0, size);
        p += (size_t)f.n * size;
        if (text) read_bound(&f, text);
        all->fn = heap_resize(all->fn, sizeof f * (size_t)(all->n + 1));
        all->fn[all->n++] = f;
    }
    heap_free(text);
    return all;
}

static void functions_free(Functions *all) {
    for (int i = 0; i < all->n; i++)
        heap_free(all->fn[i].input[0]), heap_free(all->fn[i].input[1]), heap_free(all->fn[i].want);
    for (int t = 0; t < TYPES; t++)
        for (int k = 0; k < 4; k++) heap_free(all->input[t][k / 2][k % 2]);
    heap_free(all->fn);
    heap_free(all->bytes);
    heap_free(all);
}

// ---- comparing ------------------------------------------------------------------------------------------

static uint64_t bits_at(const void *p, int64_t i, Elem e) {
    uint64_t v = 0;
    memcpy(&v, (const uint8_t *)p + (size_t)i * (size_t)elem_bytes(e), (size_t)elem_bytes(e));
    return v;
}

static bool is_nan(Elem e, const void *p, int64_t i) { return isnan(elem_get(e, p, i)); }

// How many numbers lie between, INT64_MAX: NaN or the sign of a zero is wrong.
static int64_t distance(Elem e, const void *got, const void *want, int64_t i) {
    if (is_nan(e, got, i) || is_nan(e, want, i))
        return is_nan(e, got, i) && is_nan(e, want, i) ? 0 : INT64_MAX;
    uint64_t sign = 1ull << (elem_bits(e) - 1), a = bits_at(got, i, e), b = bits_at(want, i, e);
    int64_t x = (int64_t)(a & ~sign), y = (int64_t)(b & ~sign);
    if (x == 0 && y == 0) return a == b ? 0 : INT64_MAX;
    int64_t d = (a & sign ? -x : x) - (b & sign ? -y : y);
    return d < 0 ? -d : d;
}

static void compare(Function *f, const void *got, const char *where, bool measuring) {
    Elem e = maths_types[f->type];
    int shown = 0;
    for (int64_t i = 0; i < f->n; i++) {
        double a = elem_get(e, got, i), b = elem_get(e, f->want, i), off = fabs(a - b);
        int64_t d = f->any_zero && a == 0 && b == 0 ? 0 : distance(e, got, f->want, i);
        bool fine = f->floats >= 0 && (d <= f->floats || (d < INT64_MAX && off <= f->within));
        if (measuring) {
            double least = e == EL_f64 ? 0x1p-1022 : 0x1p-126;
            bool tiny = d < INT64_MAX && off <= least && fabs(b) <= least * 2;
            if (d == INT64_MAX) f->seen.wrong++;
            if (!tiny && d > f->seen.floats)
                f->seen.floats = d, f->seen.at = i,
                snprintf(f->seen.got, sizeof f->seen.got, "%s %.9g", where, a);
            if (d > 8 && d < INT64_MAX && off > f->seen.slack) f->seen.slack = off, f->seen.slack_at = i;
        }
        if (fine || (measuring && d < INT64_MAX)) continue;
        if (shown++ < (measuring ? 5 : 3))
            print_error("%s %s of %s, %.17g%s%.17g: %.17g, not %.17g\n", where, f->name, elem_name(e),
                        elem_get(e, f->input[0], i), f->args > 1 ? ", " : " +",
                        f->args > 1 ? elem_get(e, f->input[1], i) : 0.0, a, b);
    }
    if (shown && !measuring) f->seen.wrong += shown;
}

// ---- kernels --------------------------------------------------------------------------------------------

static void kernels_text(const Functions *all, int type, Buf *out) {
    const char *t = elem_name(maths_types[type]);
    buf_puts(out, "import \"std/activation.tk\";\nimport \"std/activation_backward.tk\";\nimport "
                  "\"std/elementary.tk\";\n");
    for (int i = 0; i < all->n; i++) {
        const Function *f = &all->fn[i];
        if (f->type != type || !f->expression[0]) continue;
        buf_printf(out, "kernel fn%d(a: %s[N]%s%s%s, r: out %s[N]) grid (n in N by 256) {\n", i, t,
                   f->args > 1 ? ", b: " : "", f->args > 1 ? t : "", f->args > 1 ? "[N]" : "", t);
        buf_printf(out, "    let x = a[n]; %s r[n] = (%s) as %s;\n}\n", f->args > 1 ? "let y = b[n];" : "",
                   f->expression, t);
    }
}

static void kernel_run(Runtime *rt, SemaFile *file, Session *s, Function *f, int i, const char *where,
                       bool measuring) {
    Buf err = {0}, name = {0};
    RunArg args[2] = {0};
    RunResult result = {0};
    buf_printf(&name, "fn%d", i);
    for (int a = 0; a < f->args; a++) {
        args[a] = (RunArg){.name = (char *)(a ? "b" : "a"), .spec = (char *)"the test's"};
        args[a].tensor =
            (HostTensor){.elem = maths_types[f->type], .rank = 1, .dim = {f->n}, .data = f->input[a]};
    }
    InstanceOf of = {.file = file, .item = sema_find_kernel(file, name.p)};
    if (!run_item(rt, of, args, f->args, &result, &err)) {
        diag_print(s, stderr, DIAG_short, false);
        print_error("%s %s of %s: %s\n", where, f->name, elem_name(maths_types[f->type]), err.p ? err.p : "");
        f->seen.wrong++;
    } else {
        compare(f, result.out[0].tensor.data, where, measuring);
    }
    run_result_free(&result);
    buf_free(&err);
    buf_free(&name);
}

static int wrongs(Functions *all) {
    int wrong = 0;
    for (int i = 0; i < all->n; i++) wrong += all->fn[i].seen.wrong, all->fn[i].seen.wrong = 0;
    return wrong;
}

static void kernels_run(Functions *all, int type, const char *device, const char *arch) {
    Buf text = {0}, err = {0};
    kernels_text(all, type, &text);
    Session *s = session_new();
    SemaFile *file = sema_file(s, parse_file(s, source_add(s, "maths.tk", text.p, text.n)));
    if (diag_errors(s)) {
        diag_print(s, stderr, DIAG_short, false);
        fail();
    }
    Device *dev = device_open(device, NULL, &err);
    assert_non_null(dev);
    RuntimeOptions opt = {.compile = {.target = arch ? target_find(arch) : NULL}};
    Runtime *rt = runtime_new(s, dev, &opt);
    char where[32];
    snprintf(where, sizeof where, "%s %s", device, arch ? arch : "");
    for (int i = 0; i < all->n; i++)
        if (all->fn[i].type == type && all->fn[i].expression[0])
            kernel_run(rt, file, s, &all->fn[i], i, where, all->measuring);
    runtime_free(rt);
    device_close(dev);
    session_free(s);
    buf_free(&text);
    if (!all->measuring) assert_int_equal(wrongs(all), 0);
}

// ---- models ---------------------------------------------------------------------------------------------

// "Op attributes .. opset=N" or "Pow 3": the second input is a number.
static char *model_text(const Function *f) {
    const char *t = elem_name(maths_types[f->type]);
    char op[64], rest[128] = "";
    int opset = 13;
    sscanf(f->model, "%63s %127[^\n]", op, rest);
    char *at = strstr(rest, "opset=");
    if (at) opset = atoi(at + 6), *at = '\0';
    bool number = !strcmp(op, "Pow") && rest[0];
    Buf b = {0};
    buf_printf(&b, "opset %d\ninput a %s N\n%s", opset, t, "");
    if (f->args > 1) buf_printf(&b, "input b %s N\n", t);
    if (number) buf_printf(&b, "const b %s : %s\n", t, rest);
    buf_printf(&b, "%s a %s -> y %s\noutput y %s N\n", op, f->args > 1 || number ? "b" : "",
               number ? "" : rest, t);
    return b.p;
}

static void model_run_one(Function *f, const char *device, bool measuring) {
    char *text = model_text(f);
    Onnx__ModelProto *p = onnx_from_text(text);
    size_t n = onnx__model_proto__get_packed_size(p);
    uint8_t *bytes = heap_try(n);
    onnx__model_proto__pack(p, bytes);
    onnx__model_proto__free_unpacked(p, NULL);
    Buf err = {0};
    OnnxModel *m = onnx_parse("m.onnx", bytes, n, &err);
    heap_free(bytes);
    GTensor in[2], out = {0};
    OnnxGiven given[2];
    for (int a = 0; a < f->args; a++) {
        in[a] = (GTensor){.elem = maths_types[f->type],
                          .rank = 1,
                          .shape = {f->n},
                          .bytes = (size_t)f->n * (size_t)elem_bytes(maths_types[f->type]),
                          .data = f->input[a]};
        given[a] = (OnnxGiven){a ? "b" : "a", &in[a]};
    }
    OnnxImport how = {.given = given, .ngiven = f->args};
    char where[64];
    snprintf(where, sizeof where, "%s %s,", device, f->model);
    if (!m || !program_run(m, &(ProgramOptions){.device = device}, &how, &(RunControl){.junk_seed = 1}, &out,
                           &err)) {
        print_error("%s of %s: %s\n", where, elem_name(maths_types[f->type]), err.p ? err.p : "");
        f->seen.wrong++;
    } else {
        compare(f, out.data, where, measuring);
    }
    g_tensor_free(&out);
    onnx_free(m);
    buf_free(&err);
    heap_free(text);
}

// A number as the second input is written of f32 and f64 alone.
static bool model_fits(const Function *f) {
    return strncmp(f->model, "Pow ", 4) != 0 || !elem_is_storage(maths_types[f->type]);
}

static void models_run(Functions *all, const char *device) {
    for (int i = 0; i < all->n; i++)
        if (all->fn[i].model[0] && model_fits(&all->fn[i]))
            model_run_one(&all->fn[i], device, all->measuring);
    if (!all->measuring) assert_int_equal(wrongs(all), 0);
}

// ---- measuring ------------------------------------------------------------------------------------------

static void show(Functions *all, const char *title) {
    printf("\n== %s\n", title);
    for (int i = 0; i < all->n; i++) {
        Function *f = &all->fn[i];
        Elem e = maths_types[f->type];
        int64_t at = f->seen.at;
        if (f->seen.floats || f->seen.wrong)
            printf("%-28s %-5s %20lld or 2^%-7.1f (%.9g) wrong %3d  at %.9g %.9g: %s, not %.9g\n", f->name,
                   elem_name(e), (long long)f->seen.floats, log2(f->seen.slack),
                   elem_get(e, f->input[0], f->seen.slack_at), f->seen.wrong, elem_get(e, f->input[0], at),
                   f->args > 1 ? elem_get(e, f->input[1], at) : 0.0, f->seen.got, elem_get(e, f->want, at));
        memset(&f->seen, 0, sizeof f->seen);
    }
}

static int measure(const char *data) {
    Functions *all = functions_read(data, NULL);
    all->measuring = true;
    const char *const device[] = {"eval", "emu"};
    for (int d = 0; d < 2; d++) {
        for (int t = 0; t < TYPES; t++) kernels_run(all, t, device[d], d ? "sm_90a" : NULL);
        show(all, device[d]);
        models_run(all, device[d]);
        show(all, d ? "models on emu" : "models on eval");
    }
    functions_free(all);
    return 0;
}

#endif

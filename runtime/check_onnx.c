// `tkc check-onnx`: folders of ONNX's backend tests.
//
//     test_relu/model.onnx
//     test_relu/test_data_set_0/input_0.pb, .., output_0.pb, ..      the k-th input and output of the model
//
// The rule is that of ONNX's own runner: the same element type and shape, and at every element
// |got - expected| <= atol + rtol * |expected|, where NaN equals NaN and an infinity itself. A folder passes if all its
// data sets do. What is out of scope (sequences, strings, ..) is skipped, by that name, never in silence.
#define _GNU_SOURCE // strverscmp: test_data_set_10 after 9
#include "runtime/internal.h"

#include "lang/file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lang/shown.h"
#include "runtime/model.h"

enum { DEEPEST = 16 };

typedef struct Skips {
    char *why;
    int n;
    Buf names;
} Skips;

typedef struct Check {
    const CheckOnnxOptions *opt;
    FILE *to;
    TestCounts counts;
    int folders; // with a model
    Skips skips[64];
    int nskips;
    bool broken; // a folder could not be read
} Check;

static void skip(Check *c, const char *path, const char *why) {
    const char *name = strrchr(path, '/');
    int i = 0;
    while (i < c->nskips && strcmp(c->skips[i].why, why) != 0) i++;
    if (i == c->nskips && i < 64) c->skips[c->nskips++] = (Skips){.why = copy_text(why, strlen(why))};
    if (i < 64) {
        c->skips[i].n++;
        buf_printf(&c->skips[i].names, " %s", name != NULL ? name + 1 : path);
    }
    c->counts.skipped++;
}

// ---- comparing -------------------------------------------------------------------------------------

static int64_t count_of(const GTensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->shape[d];
    return n;
}

static void shape_text(const GTensor *t, Buf *out) {
    buf_printf(out, "%s[", elem_name(t->elem));
    for (int d = 0; d < t->rank; d++) buf_printf(out, "%s%lld", d > 0 ? ", " : "", (long long)t->shape[d]);
    buf_putc(out, ']');
}

static void place_text(const GTensor *t, int64_t i, Buf *out) {
    int64_t at[G_MAX_RANK];
    for (int d = t->rank - 1; d >= 0; d--) at[d] = i % t->shape[d], i /= t->shape[d];
    for (int d = 0; d < t->rank; d++)
        buf_printf(out, "%s%lld%s", d == 0 ? "[" : ", ", (long long)at[d], d + 1 == t->rank ? "]" : "");
}

static bool same(const Check *c, const char *name, const GTensor *got, const GTensor *want, Buf *why) {
    bool alike = got->elem == want->elem && got->rank == want->rank;
    for (int d = 0; alike && d < got->rank; d++) alike = got->shape[d] == want->shape[d];
    if (!alike) {
        buf_printf(why, "output `%s` is ", name);
        shape_text(got, why);
        buf_puts(why, ", expected ");
        shape_text(want, why);
        return false;
    }
    int64_t n = count_of(want), wrong = 0, first = -1;
    double top = 0;
    for (int64_t i = 0; i < n && c->opt->relative_to_output; i++)
        if (isfinite(elem_get(want->elem, want->data, i))) top = fmax(top, fabs(elem_get(want->elem, want->data, i)));
    for (int64_t i = 0; i < n; i++) {
        double a = elem_get(got->elem, got->data, i), b = elem_get(want->elem, want->data, i);
        double room = c->opt->atol + c->opt->rtol * (c->opt->relative_to_output ? top : fabs(b));
        bool exact = elem_is_int(want->elem) && elem_bits(want->elem) == 64 &&
                     memcmp((char *)got->data + i * 8, (char *)want->data + i * 8, 8) == 0;
        if (a == b || exact || (isnan(a) && isnan(b)) || (isfinite(a) && isfinite(b) && fabs(a - b) <= room)) continue;
        if (wrong++ == 0) first = i;
    }
    if (wrong == 0) return true;
    buf_printf(why, "output `%s`", name);
    place_text(want, first, why);
    buf_printf(why, " is %.9g, expected %.9g; %lld of %lld elements differ", elem_get(got->elem, got->data, first),
               elem_get(want->elem, want->data, first), (long long)wrong, (long long)n);
    return false;
}

// ---- a data set --------------------------------------------------------------------------------------

static void free_tensors(GTensor *t, int n) {
    for (int i = 0; i < n; i++) g_tensor_free(&t[i]);
}

typedef struct Set {
    GTensor *in, *want, *got;
    OnnxGiven *given;
    int nin, nwant;
} Set;

static bool run_set(const Check *c, OnnxModel *m, const char *folder, Set *s, const char **out_of_scope, Buf *why) {
    int outputs = onnx_output_count(m);
    s->nin = data_tensors(folder, "input", s->in, onnx_input_count(m, true), why);
    s->nwant = s->nin < 0 ? 0 : data_tensors(folder, "output", s->want, outputs, why);
    if (s->nin < 0 || s->nwant < 0) return false;
    for (int i = 0; i < s->nin; i++) {
        data_reinterpret(&s->in[i], onnx_input_elem(m, i));
        s->given[i] = (OnnxGiven){.name = onnx_input_name(m, i), .tensor = &s->in[i]};
    }
    static const RunControl control = {.junk_seed = 1};
    OnnxImport how = c->opt->import;
    how.given = s->given, how.ngiven = s->nin;
    bool ok = model_run(m, &(ProgramOptions){.device = c->opt->device, .verify_values = c->opt->verify_values}, &how, &control, s->got, why);
    *out_of_scope = how.out_of_scope;
    if (ok && s->nwant != outputs)
        return buf_printf(why, "has %d outputs and %d files of them", outputs, s->nwant), false;
    for (int i = 0; ok && i < s->nwant; i++) {
        data_reinterpret(&s->want[i], s->got[i].elem);
        ok = same(c, onnx_output_name(m, i), &s->got[i], &s->want[i], why);
    }
    return ok;
}

static bool check_set(const Check *c, OnnxModel *m, const char *folder, const char **out_of_scope, Buf *why) {
    size_t inputs = (size_t)onnx_input_count(m, true) + 1, outputs = (size_t)onnx_output_count(m) + 1;
    Set s = {heap_alloc(inputs * sizeof *s.in),
             heap_alloc(outputs * sizeof *s.want),
             heap_alloc(outputs * sizeof *s.got),
             heap_alloc(inputs * sizeof *s.given),
             0,
             0};
    bool ok = run_set(c, m, folder, &s, out_of_scope, why);
    free_tensors(s.in, s.nin < 0 ? -1 - s.nin : s.nin);
    free_tensors(s.want, s.nwant < 0 ? -1 - s.nwant : s.nwant);
    free_tensors(s.got, (int)outputs - 1);
    heap_free(s.in), heap_free(s.want), heap_free(s.got), heap_free(s.given);
    return ok;
}

// ---- folders -----------------------------------------------------------------------------------------

static void fail_line(Check *c, const char *path, const char *set, const char *why) {
    print_shown(c->to, "FAIL %s%s%s: %s\n", path, set != NULL ? "/" : "", set != NULL ? set : "", why);
    c->counts.failed++;
}

static void check_folder(Check *c, const char *path, char **entry) {
    Buf why = {0};
    Buf file = {0};
    buf_printf(&file, "%s/model.onnx", path);
    c->folders++;
    OnnxModel *m = onnx_read(file.p, &why);
    const char *unusual = m != NULL ? onnx_unusual_io(m) : NULL;
    int sets = 0;
    bool ok = m != NULL && unusual == NULL;
    for (int i = 0; entry[i] && ok; i++) {
        if (strncmp(entry[i], "test_data_set_", 14) != 0) continue;
        Buf set = {0};
        buf_printf(&set, "%s/%s", path, entry[i]);
        sets++;
        ok = check_set(c, m, set.p, &unusual, &why);
        if (!ok && unusual == NULL) fail_line(c, path, entry[i], why.p);
        buf_free(&set);
    }
    if (m == NULL) fail_line(c, path, NULL, why.p);
    else if (unusual != NULL) skip(c, path, unusual);
    else if (sets == 0) skip(c, path, "without test data");
    else if (ok) {
        c->counts.passed++;
        if (c->opt->verbose) print_shown(c->to, "pass %s\n", path);
    }
    fflush(c->to);
    onnx_free(m);
    buf_free(&why);
    buf_free(&file);
}

static void walk(Check *c, const char *path, int depth) {
    char **entry = file_names(path, strverscmp);
    if (entry == NULL) {
        fail_line(c, path, NULL, strerror(errno));
        c->broken = true;
        return;
    }
    bool model = false;
    for (int i = 0; entry[i]; i++) model |= strcmp(entry[i], "model.onnx") == 0;
    if (model && (c->opt->filter == NULL || strstr(path, c->opt->filter) != NULL)) check_folder(c, path, entry);
    for (int i = 0; entry[i] && !model && depth < DEEPEST; i++) {
        Buf below = {0};
        struct stat st;
        buf_printf(&below, "%s/%s", path, entry[i]);
        if (entry[i][0] != '.' && stat(below.p, &st) == 0 && S_ISDIR(st.st_mode)) walk(c, below.p, depth + 1);
        buf_free(&below);
    }
    heap_free(entry);
}

bool check_onnx(const char *const *paths, int n, const CheckOnnxOptions *opt, TestCounts *counts) {
    Check *c = heap_alloc(sizeof *c);
    *c = (Check){.opt = opt, .to = opt->to != NULL ? opt->to : stdout};
    for (int i = 0; i < n; i++) {
        size_t length = strlen(paths[i]);
        while (length > 1 && paths[i][length - 1] == '/') length--;
        char *path = copy_text(paths[i], length);
        walk(c, path, 0);
        heap_free(path);
    }
    for (int i = 0; i < c->nskips; i++) {
        print_shown(c->to, "skipped, %s (%d)", c->skips[i].why, c->skips[i].n);
        if (opt->verbose) print_shown(c->to, ":%s", c->skips[i].names.p);
        fputc('\n', c->to);
        heap_free(c->skips[i].why);
        buf_free(&c->skips[i].names);
    }
    if (c->folders == 0 && !c->broken)
        fprintf(c->to, "no folder with a model.onnx%s\n", opt->filter != NULL ? " and that name" : "");
    fprintf(c->to, "%d passed, %d failed, %d skipped\n", c->counts.passed, c->counts.failed, c->counts.skipped);
    *counts = c->counts;
    bool ok = c->counts.failed == 0 && c->folders > 0 && !c->broken;
    heap_free(c);
    return ok;
}

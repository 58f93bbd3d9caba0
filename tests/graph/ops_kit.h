// Cases of ops.txt: a model in text form, what is given to it and what must come out. Who runs them includes this and says how (RunModel).
#ifndef TK_TESTS_GRAPH_OPS_KIT_H
#define TK_TESTS_GRAPH_OPS_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/onnx/onnx.h"
#include "tests/graph/onnx_text.h"

#include <math.h>

enum { MOST = 8 };

typedef struct Case {
    const char *title;
    char *model;                       // without what follows
    int ngiven, nexpect;
    char *given_name[MOST];
    GTensor given[MOST], expect[MOST];
} Case;

static GTensor tensor_of_line(const char *line, char **name) {
    Onnx__TensorProto *p = text_tensor(&(OnnxText){line});
    size_t n = onnx__tensor_proto__get_packed_size(p);
    uint8_t *bytes = malloc(n + 1);
    onnx__tensor_proto__pack(p, bytes);
    GTensor t = {0};
    Buf err = {0};
    if (!onnx_tensor_parse(bytes, n, &t, &err)) fail_msg("%s: %s", line, err.p);
    *name = strdup(p->name);
    onnx__tensor_proto__free_unpacked(p, NULL);
    free(bytes);
    return t;
}

// Cuts `block` at its lines; those of the model are put together again.
static Case read_case(char *block) {
    Case c = {.title = "?", .model = calloc(1, strlen(block) + 1)};
    for (char *save, *line = strtok_r(block, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        char *name = NULL;
        if (line[0] == '#') {
            c.title = line + 1;
        } else if (strncmp(line, "given ", 6) == 0) {
            assert_true(c.ngiven < MOST);
            c.given[c.ngiven] = tensor_of_line(line + 6, &c.given_name[c.ngiven]);
            c.ngiven++;
        } else if (strncmp(line, "expect ", 7) == 0) {
            assert_true(c.nexpect < MOST);
            c.expect[c.nexpect++] = tensor_of_line(line + 7, &name);
            free(name);
        } else {
            strcat(strcat(c.model, line), "\n");
        }
    }
    return c;
}

static double element(const GTensor *t, int64_t i) {
    switch (t->elem) {
    case EL_f32: return (double)((float *)t->data)[i];
    case EL_f64: return ((double *)t->data)[i];
    case EL_i64: return (double)((int64_t *)t->data)[i];
    case EL_i32: return (double)((int32_t *)t->data)[i];
    case EL_i8:  return (double)((int8_t *)t->data)[i];
    default:     return (double)((uint8_t *)t->data)[i];
    }
}

// The place of the first element that differs, -1: none, -2: type or shape do.
static int64_t differs(const GTensor *got, const GTensor *want) {
    int64_t n = 1;
    if (got->elem != want->elem || got->rank != want->rank) return -2;
    for (int d = 0; d < got->rank; d++) {
        if (got->shape[d] != want->shape[d]) return -2;
        n *= got->shape[d];
    }
    for (int64_t i = 0; i < n; i++) {
        double a = element(got, i), b = element(want, i);
        if (a != b && !(fabs(a - b) <= 1e-5 + 1e-4 * fabs(b))) return i;
    }
    return -1;
}

// What runs a model; outputs are to be freed.
typedef bool RunModel(OnnxModel *m, OnnxImport *how, GTensor *outputs, Buf *err);

static int run_case(Case *c, RunModel *run) {
    int wrong = 0;
    Onnx__ModelProto *p = onnx_from_text(c->model);
    size_t n = onnx__model_proto__get_packed_size(p);
    uint8_t *bytes = malloc(n);
    onnx__model_proto__pack(p, bytes);
    onnx__model_proto__free_unpacked(p, NULL);
    Buf err = {0};
    OnnxModel *m = onnx_parse("m.onnx", bytes, n, &err);
    free(bytes);
    OnnxGiven given[MOST];
    for (int i = 0; i < c->ngiven; i++) given[i] = (OnnxGiven){c->given_name[i], &c->given[i]};
    OnnxImport how = {.given = given, .ngiven = c->ngiven};
    GTensor out[MOST] = {0};
    if (m == NULL || onnx_output_count(m) != c->nexpect || !run(m, &how, out, &err)) {
        print_error("%s: %s\n", c->title, err.n > 0 ? err.p : "expects another number of outputs");
        wrong++;
    }
    for (int i = 0; i < c->nexpect && wrong == 0; i++) {
        int64_t at = differs(&out[i], &c->expect[i]);
        if (at >= 0)
            print_error("%s: output %d [%lld] is %.7g, expected %.7g\n", c->title, i, (long long)at,
                        element(&out[i], at), element(&c->expect[i], at));
        else if (at == -2) print_error("%s: output %d has another type or shape\n", c->title, i);
        wrong += at != -1;
    }
    for (int i = 0; i < MOST; i++) g_tensor_free(&out[i]);
    onnx_free(m);
    buf_free(&err);
    return wrong;
}

// How many cases there are; *wrong: how many of them did not come out.
static int run_cases(RunModel *run, int *wrong) {
    FILE *f = fopen(OPS_TXT, "rb");
    assert_non_null(f);
    static char text[1 << 18];
    size_t n = fread(text, 1, sizeof text - 1, f);
    assert_true(n < sizeof text - 1);
    fclose(f);
    int count = 0;
    *wrong = 0;
    char *next = strstr(text, "\n\n");                           // what stands first is about the file
    while (next != NULL) {
        char *block = next + 2, *end = strstr(block, "\n\n");
        if (end != NULL) *end = '\0';
        next = end;
        if (*block == '\0') break;
        Case c = read_case(block);
        *wrong += run_case(&c, run) != 0;
        count++;
        for (int i = 0; i < c.ngiven; i++) g_tensor_free(&c.given[i]), free(c.given_name[i]);
        for (int i = 0; i < c.nexpect; i++) g_tensor_free(&c.expect[i]);
        free(c.model);
    }
    return count;
}

#endif

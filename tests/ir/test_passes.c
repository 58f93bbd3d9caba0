// simplify, extremes, contract, hoist, flatten, unroll, prefetch, tally and keep, by files:
//
//     //! run: simplify hoist
//     kernel .. before ..
//     //! after
//     kernel .. what must come out ..
//
// Both sides must also compute the same: they are evaluated on small whole numbers, on which every
// rounding is exact, with every dimension 6 and other junk in dead lanes.

#include "ir_test.h"
#include "ir_files.h"
#include "lower/pass/passes.h"

typedef struct Data { unsigned char *at[MAX_PARAMS]; size_t bytes[MAX_PARAMS]; } Data;

enum { SIZE = 6 };

static void fill(const LaunchParam *p, unsigned char *at, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int    x = (int)(i * 5 % 7) + 1;
        float  f = (float)x;
        double d = x;
        switch (p->elem) {
        case EL_f32: memcpy(at + i * 4, &f, 4); break;
        case EL_f64: memcpy(at + i * 8, &d, 8); break;
        case EL_f16: memcpy(at + i * 2, &(uint16_t){(uint16_t)(x > 3 ? 0x4400 : 0x3c00)}, 2); break;      // 4 or 1
        case EL_bool: at[i] = x & 1; break;
        default: at[i * elem_bytes(p->elem)] = (unsigned char)x; break;
        }
    }
}

static Data evaluate(Fn *f, uint32_t junk) {
    const LaunchInfo *l = f->launch;
    EvalArg args[MAX_PARAMS] = {0};
    int64_t dims[MAX_DIMS];
    Data    d = {0};
    for (int i = 0; i < MAX_DIMS; i++) dims[i] = i < l->ndims && l->dims[i].fixed >= 0 ? l->dims[i].fixed : SIZE;
    for (int i = 0; i < l->nparams; i++) {
        const LaunchParam *p = &l->params[i];
        args[i].ival = 3;
        args[i].fval = 3;
        if (p->kind != PK_TENSOR) continue;
        int64_t n = 1;
        for (int k = p->rank - 1; k >= 0; k--) {
            args[i].tensor.strides[k] = n;
            n *= args[i].tensor.dims[k] = launch_eval(p->dim[k], dims, NULL, NULL);
        }
        d.bytes[i] = (size_t)n * (size_t)elem_bytes(p->elem);
        args[i].tensor.data = d.at[i] = heap_try_zeroed(1, d.bytes[i] + 1);
        if (p->mode != PM_OUT) fill(p, d.at[i], n);
    }
    EvalOptions opt = {.junk = junk};
    run_kernel(f, args, dims, &opt);
    return d;
}

static void same_meaning(const char *path, const Data *a, const Data *b) {
    for (int i = 0; i < MAX_PARAMS; i++) {
        if (a->bytes[i] != b->bytes[i] || (a->bytes[i] && memcmp(a->at[i], b->at[i], a->bytes[i])))
            fail_msg("%s: parameter %d differs after the passes", path, i);
        heap_free(a->at[i]);
        heap_free(b->at[i]);
    }
}

static bool run_prefetch(Fn *f) { return prefetch(f, &(CompileOptions){0}); }
static bool run_tally(Fn *f) { return tally(f, &(CompileOptions){.target = target_default}); }

static bool run_keep(Fn *f) { return keep_tiles(f, &(CompileOptions){.target = target_find("sm_80")}); }

static void run_passes(const char *path, Fn *f, const char *names) {
    static const struct {
        const char *name;
        bool (*run)(Fn *);
    } passes[] = {{"simplify", simplify}, {"scale_past_max", extremes}, {"contract", contract},     {"licm", hoist},
                  {"flatten", flatten},   {"unroll", unroll},     {"prefetch", run_prefetch}, {"privatize", run_tally}, {"row_cache", run_keep}};
    char list[200];
    snprintf(list, sizeof list, "%.*s", (int)strcspn(names, "\n"), names);
    for (char *name = strtok(list, " "); name; name = strtok(NULL, " ")) {
        bool found = false;
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
            if (strcmp(passes[i].name, name)) continue;
            passes[i].run(f);
            found = true;
        }
        Buf problems = {0};
        if (!found) fail_msg("%s: no pass %s", path, name);
        if (ir_verify(f, &problems)) fail_msg("%s: broken after %s:\n%s", path, name, problems.p);
    }
}

static void one(Session *s, const char *path, const char *text) {
    static const char run[] = "//! run: ", cut[] = "//! after\n";
    const char *after = strstr(text, cut);
    assert_true(strncmp(text, run, sizeof run - 1) == 0);
    size_t n = after ? (size_t)(after - text) : strlen(text);
    Fn *f = ir_parse(s, source_add(s, path, text, n), NULL);
    if (!f) {
        diag_print(s, stderr, DIAG_short, false);
        fail_msg("%s does not parse", path);
    }
    Buf problems = {0}, got = {0}, whole = {0};
    if (ir_verify(f, &problems)) fail_msg("%s does not verify:\n%s", path, problems.p);
    Data before = evaluate(f, 1);
    run_passes(path, f, text + sizeof run - 1);
    ir_print(f, &got);
    Data then = evaluate(f, 2);
    same_meaning(path, &before, &then);
    if (bless()) {
        buf_add(&whole, text, n);
        buf_puts(&whole, cut);
        buf_puts(&whole, got.p);
        write_file(path, whole.p);
    } else if (!after || strcmp(after + sizeof cut - 1, got.p)) {
        fail_msg("%s becomes\n%s", path, got.p);
    }
    buf_free(&got);
    buf_free(&whole);
}

static void test_files(void **state) {
    (void)state;
    assert_true(each_file("passes", one) >= 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

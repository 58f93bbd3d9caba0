// Launches one after the other on a stream: waited for as ever, and begun before the end of the one before (tkc_options.early).
//
//     cmake --build --preset release --target bench_early && build/bin/bench_early
//
// Each row is a few launches that read what the one before wrote, over and over; two contexts in turns, one with early launches.
// Microseconds a launch between two events around all of them, medians of the rounds. Both do the same steps on the same data:
// afterwards every byte has to be the same.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tkc.h"

enum { WAYS = 2, ROUNDS = 9, MOST = 4, BYTES = 256 << 20, STEPS = 64 };
enum { X, T, U, W, V, BUFFERS };

typedef struct Operand { const char *name; int buffer, rank; int64_t dim[2]; } Operand;
typedef struct Launch { const char *file, *kernel; Operand operand[5]; double eps; } Launch;
typedef struct Case { const char *name; Launch launch[MOST]; } Case;

#define VEC(name, b, n) {name, b, 1, {n}}
#define MAT(name, b, m, n) {name, b, 2, {m, n}}
#define NORM(from, to, m, n) {"std/norm", "rms_norm_rows", {MAT("x", from, m, n), VEC("gamma", V, n), MAT("y", to, m, n)}, 1e-5}
#define LAYER(from, to, m, n) {"std/norm", "layer_norm_rows", {MAT("x", from, m, n), VEC("gamma", V, n), VEC("beta", V, n), MAT("y", to, m, n)}, 1e-5}
#define LINEAR(from, to, m, n, k) {"std/matmul", "linear", {MAT("x", from, m, k), MAT("w", W, n, k), VEC("b", V, n), MAT("y", to, m, n)}, 0}
#define RELU(from, to, n) {"std/activation", "activate", {VEC("x", from, n), VEC("y", to, n)}, 0}
#define SOFTMAX(from, to, m, n) {"std/softmax", "softmax_rows", {MAT("x", from, m, n), MAT("y", to, m, n)}, 0}

static const Case cases[] = {
    {"relu of 64 K", {RELU(X, T, 65536), RELU(T, X, 65536)}},
    {"relu of 8 M", {RELU(X, T, 8 << 20), RELU(T, X, 8 << 20)}},
    {"rms norm 512 x 4096", {NORM(X, T, 512, 4096), NORM(T, X, 512, 4096)}},
    {"rms norm 16384 x 4096", {NORM(X, T, 16384, 4096), NORM(T, X, 16384, 4096)}},
    {"layer norm 512 x 768", {LAYER(X, T, 512, 768), LAYER(T, X, 512, 768)}},
    {"layer norm 16384 x 1024", {LAYER(X, T, 16384, 1024), LAYER(T, X, 16384, 1024)}},
    {"softmax 2048 x 2048", {SOFTMAX(X, T, 2048, 2048), NORM(T, X, 2048, 2048)}},
    {"norm, linear 512 x 768 x 768", {NORM(X, T, 512, 768), LINEAR(T, X, 512, 768, 768)}},
    {"norm, linear 16 x 4096 x 4096", {NORM(X, T, 16, 4096), LINEAR(T, X, 16, 4096, 4096)}},
    {"norm, MLP of 1024 x 2048 x 8192", {NORM(X, T, 1024, 2048), LINEAR(T, U, 1024, 8192, 2048), RELU(U, T, 1024 * 8192), LINEAR(T, X, 1024, 2048, 8192)}},
};

typedef struct World { tkc_context *ctx; void *data[BUFFERS]; tkc_launch *run[MOST]; tkc_program *prog[MOST]; int n; } World;

static int (*event_create)(void **, unsigned), (*event_record)(void *, void *), (*event_sync)(void *), (*event_elapsed)(float *, void *, void *),
    (*stream_create)(void **, unsigned);

static void die(const char *what, const char *words) {
    fprintf(stderr, "bench_early: %s: %s\n", what, words);
    exit(1);
}
static void ok(int status, const char *what) { if (status) die(what, "the driver refuses"); }
static void fine(tkc_status status) { if (status) die("libtkc", tkc_error()); }

static void load_driver(void) {
    static const char *const names[] = {"cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime", "cuStreamCreate"};
    void **slot[] = {(void **)&event_create, (void **)&event_record, (void **)&event_sync, (void **)&event_elapsed, (void **)&stream_create};
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib) die("no driver", dlerror());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(*slot[i] = dlsym(lib, names[i]))) die("the driver lacks", names[i]);
}

// bf16, about 1 / 32 to 1 / 16, half of them negative: products of thousands neither grow nor vanish behind a norm.
static void fill(World *w, int buffer) {
    static uint16_t x[BYTES / 2];
    uint32_t r = (uint32_t)buffer * 2654435761u + 1;
    for (size_t i = 0; i < BYTES / 2; i++) {
        r = r * 1664525 + 1013904223;
        x[i] = (uint16_t)((r >> 16 & 0x807f) | 0x3d00);
    }
    fine(tkc_write(w->ctx, w->data[buffer], x, BYTES));
}

static void open_world(World *w, int early) {
    fine(tkc_open("cuda", &(tkc_options){.early = early}, &w->ctx));
    for (int b = 0; b < BUFFERS; b++) {
        fine(tkc_alloc(w->ctx, BYTES, &w->data[b]));
        fill(w, b);
    }
}

static void prepare(World *w, const Case *c) {
    fill(w, X);
    for (w->n = 0; w->n < MOST && c->launch[w->n].file; w->n++) {
        const Launch *l = &c->launch[w->n];
        tkc_arg args[6] = {{0}};
        int n = 0;
        for (; n < 5 && l->operand[n].name; n++) {
            const Operand *o = &l->operand[n];
            args[n] = (tkc_arg){.name = o->name, .tensor = {.data = w->data[o->buffer], .memory = TKC_DEVICE, .dtype = TKC_BF16, .rank = o->rank}};
            memcpy(args[n].tensor.dims, o->dim, sizeof o->dim);
        }
        if (l->eps > 0) args[n++] = (tkc_arg){.name = "eps", .kind = TKC_FLOAT, .f = l->eps};
        fine(tkc_load_file(w->ctx, l->file, &w->prog[w->n]));
        fine(tkc_prepare(w->prog[w->n], l->kernel, NULL, 0, args, n, &w->run[w->n]));
    }
}

static void release(World *w) {
    for (int i = 0; i < w->n; i++) {
        tkc_launch_free(w->run[i]);
        tkc_unload(w->prog[i]);
    }
}

static double round_of(World *w, void *stream, void *const event[2]) {
    float ms = 0;
    ok(event_record(event[0], stream), "record");
    for (int i = 0; i < STEPS; i++)
        for (int k = 0; k < w->n; k++) fine(tkc_run(w->run[k], stream));
    ok(event_record(event[1], stream), "record");
    ok(event_sync(event[1]), "wait");
    ok(event_elapsed(&ms, event[0], event[1]), "read the time");
    return (double)ms * 1e3 / STEPS / w->n;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int differs(World w[WAYS]) {
    static char got[WAYS][BYTES];
    int n = 0;
    for (int b = X; b <= U; b++) {
        for (int i = 0; i < WAYS; i++) fine(tkc_read(w[i].ctx, got[i], w[i].data[b], BYTES));
        n += memcmp(got[0], got[1], BYTES) != 0;
    }
    return n;
}

int main(void) {
    static World w[WAYS];
    void *stream, *event[2];
    int wrong = 0;
    load_driver();
    for (int i = 0; i < WAYS; i++) open_world(&w[i], i);
    ok(stream_create(&stream, 1), "make a stream");
    for (int i = 0; i < 2; i++) ok(event_create(&event[i], 0), "make an event");
    printf("%-34s %10s %10s %8s\n", "us a launch", "as ever", "early", "less");
    for (const Case *c = cases; c < cases + sizeof cases / sizeof *cases; c++) {
        double us[WAYS][ROUNDS];
        for (int i = 0; i < WAYS; i++) prepare(&w[i], c);
        for (int r = -2; r < ROUNDS; r++)
            for (int i = 0; i < WAYS; i++) {
                int way = r % 2 ? WAYS - 1 - i : i;
                double t = round_of(&w[way], stream, event);
                if (r >= 0) us[way][r] = t;
            }
        int other = differs(w);
        for (int i = 0; i < WAYS; i++) qsort(us[i], ROUNDS, sizeof **us, ascending);
        printf("%-34s %10.2f %10.2f %8.2f%s\n", c->name, us[0][ROUNDS / 2], us[1][ROUNDS / 2], us[0][ROUNDS / 2] - us[1][ROUNDS / 2],
               other ? "   THE RESULTS DIFFER" : "");
        fflush(stdout);
        wrong += other != 0;
        for (int i = 0; i < WAYS; i++) release(&w[i]);
    }
    for (int i = 0; i < WAYS; i++) tkc_close(w[i].ctx);
    return wrong != 0;
}

// What a launch through libtkc costs the host, beside the driver's own, and whether it can be captured into a graph.
//
//     cmake --build --preset release --target bench_launch && build/bin/bench_launch
//
// One kernel, three parameters, data on the GPU. In turns: 256 cuLaunchKernel of a kernel of ours with as many
// parameters, 256 tkc_run, 256 tkc_set_data and tkc_run; the device is waited for in between, so that its queue never
// fills. Medians of 101 rounds, microseconds of the calling thread. Then three runs are captured, replayed, and the
// result checked. With a file of compiled kernels, `tkc step.tk --emit=artifact -o step.tkx` of the source below, that
// is launched instead (bench_launch --source prints it).
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/tkc.h"

enum { LAUNCHES = 256, ROUNDS = 101, WAYS = 4, N = 1024 };

static const char source[] = "kernel step(x: f32[N], y: inout f32[N]) grid (n in N by 128) { y[n] = y[n] + x[n]; }\n";
static const char floor_ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing(.param .u64 x, .param .u64 y, .param .u64 n) { ret; }\n";

typedef struct Cu {
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                          void **);
    int (*cuStreamCreate)(void **, unsigned);
    int (*cuStreamSynchronize)(void *);
    int (*cuStreamBeginCapture_v2)(void *, int);
    int (*cuStreamEndCapture)(void *, void **);
    int (*cuGraphInstantiateWithFlags)(void **, void *, unsigned long long);
    int (*cuGraphLaunch)(void *, void *);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
} Cu;
static Cu cu;

static void die(const char *what, const char *words) {
    fprintf(stderr, "bench_launch: %s: %s\n", what, words);
    exit(1);
}

static void ok(int status, const char *what) {
    if (status) {
        char text[32];
        snprintf(text, sizeof text, "%d", status);
        die(what, text);
    }
}
static void fine(tkc_status status) { if (status) die("libtkc", tkc_error()); }

static void load_driver(void) {
    static const char *const names[] = {"cuLaunchKernel",          "cuStreamCreate",     "cuStreamSynchronize",
                                        "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
                                        "cuGraphLaunch",           "cuModuleLoadData",   "cuModuleGetFunction"};
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib) die("no driver", dlerror());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *f = dlsym(lib, names[i]);
        if (!f) die("the driver lacks", names[i]);
        memcpy((char *)&cu + i * sizeof f, &f, sizeof f);
    }
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct Bench { tkc_launch *run; void *function, *stream; void *x[2], *y; } Bench;

static void once(const Bench *b, int way, int i) {
    uint64_t params[3] = {(uint64_t)(uintptr_t)b->x[0], (uint64_t)(uintptr_t)b->y, N};
    void *addresses[3] = {&params[0], &params[1], &params[2]};
    if (way == 0 || way == 3)
        ok(cu.cuLaunchKernel(b->function, N / 128, 1, 1, 32, 1, 1, 0, b->stream, addresses, NULL), "launch");
    if (way == 2) fine(tkc_set_data(b->run, "x", b->x[i & 1]));
    if (way == 1 || way == 2) fine(tkc_run(b->run, b->stream));
}

static double round_of(const Bench *b, int way) {
    double start = now_us();
    for (int i = 0; i < LAUNCHES; i++) once(b, way, i);
    double us = (now_us() - start) / LAUNCHES;
    ok(cu.cuStreamSynchronize(b->stream), "wait");
    return us;
}

static void measure(const Bench *b) {
    static const char *const what[WAYS] = {"cuLaunchKernel", "tkc_run", "tkc_set_data and tkc_run", "cuLaunchKernel again"};
    static double us[WAYS][ROUNDS];
    for (int r = -5; r < ROUNDS; r++)
        for (int w = 0; w < WAYS; w++) {
            double t = round_of(b, r % 2 ? WAYS - 1 - w : w);
            if (r >= 0) us[r % 2 ? WAYS - 1 - w : w][r] = t;
        }
    for (int w = 0; w < WAYS; w++) {
        qsort(us[w], ROUNDS, sizeof **us, ascending);
        printf("%-28s %7.3f us   %+.3f   (quarters %.3f to %.3f)\n", what[w], us[w][ROUNDS / 2],
               us[w][ROUNDS / 2] - us[0][ROUNDS / 2], us[w][ROUNDS / 4], us[w][3 * ROUNDS / 4]);
    }
}

static void capture(tkc_context *ctx, const Bench *b) {
    enum { RUNS = 3, REPLAYS = 4 };
    static float y[N];
    void *graph, *exec;
    memset(y, 0, sizeof y);
    fine(tkc_write(ctx, b->y, y, sizeof y));
    fine(tkc_set_data(b->run, "x", b->x[0]));
    ok(cu.cuStreamBeginCapture_v2(b->stream, 0), "begin a capture");
    for (int i = 0; i < RUNS; i++) fine(tkc_run(b->run, b->stream));
    ok(cu.cuStreamEndCapture(b->stream, &graph), "end a capture");
    ok(cu.cuGraphInstantiateWithFlags(&exec, graph, 0), "instantiate the graph");
    for (int i = 0; i < REPLAYS; i++) ok(cu.cuGraphLaunch(exec, b->stream), "launch the graph");
    ok(cu.cuStreamSynchronize(b->stream), "wait");
    fine(tkc_read(ctx, y, b->y, sizeof y));
    for (int i = 0; i < N; i++) if (y[i] != (float)(RUNS * REPLAYS * i)) die("a captured graph", "the result is wrong");
    printf("%d runs captured, replayed %d times: right\n", RUNS, REPLAYS);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--source") == 0) return fputs(source, stdout) < 0;
    tkc_context *ctx;
    tkc_program *prog;
    Bench b;
    static float x[N];
    void *module, *out;
    for (int i = 0; i < N; i++) x[i] = (float)i;
    load_driver();
    fine(tkc_open("cuda", NULL, &ctx));
    fine(argc > 1 ? tkc_load_file(ctx, argv[1], &prog) : tkc_load_text(ctx, "step.tk", source, sizeof source - 1, &prog));
    for (int i = 0; i < 2; i++) {
        fine(tkc_alloc(ctx, sizeof x, &b.x[i]));
        fine(tkc_write(ctx, b.x[i], x, sizeof x));
    }
    fine(tkc_alloc(ctx, sizeof x, &out));
    b.y = out;
    fine(tkc_write(ctx, b.y, x, sizeof x));
    tkc_arg args[] = {
        {.name = "x", .tensor = {.data = b.x[0], .memory = TKC_DEVICE, .dtype = TKC_F32, .rank = 1, .dims = {N}}},
        {.name = "y", .tensor = {.data = b.y, .memory = TKC_DEVICE, .dtype = TKC_F32, .rank = 1, .dims = {N}}},
    };
    double start = now_us();
    fine(tkc_prepare(prog, "step", NULL, 0, args, 2, &b.run));
    printf("%s\ntkc_prepare: %.1f ms\n", tkc_device_text(ctx), (now_us() - start) * 1e-3);
    ok(cu.cuModuleLoadData(&module, floor_ptx), "load PTX");
    ok(cu.cuModuleGetFunction(&b.function, module, "nothing"), "find the kernel");
    ok(cu.cuStreamCreate(&b.stream, 1), "make a stream");
    measure(&b);
    capture(ctx, &b);
    tkc_launch_free(b.run);
    for (int i = 0; i < 2; i++) tkc_free(ctx, b.x[i]);
    tkc_free(ctx, b.y);
    tkc_unload(prog);
    tkc_close(ctx);
    return 0;
}

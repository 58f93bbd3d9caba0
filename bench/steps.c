// What a step of a decoder costs whose caches grow: every step is of another length.
//
//     cmake --build --preset release --target bench_steps && build/bin/bench_steps ../shared/models/gpt_step/model.onnx
//
// The model has named dimensions, `batch` and `past`, as examples/models/step and shared/models/gpt_step have: the
// batch is 1, or it is what changes where there is no other. Tensors are on the device. Time is the caller's, from
// tkc_graph_run to its results: the same step again and again; steps of lengths that never came up before; the same
// lengths again, the last 30 of them. Least, median and mean of microseconds. Before that, 60 lengths are run twice:
// the second time by a graph of the driver's that was made for just these, the first by what plans of many lengths
// share; all bytes of the results must be the same.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/tkc.h"

enum { ARGS = 32, MOST = 4096 };

static tkc_context *ctx;
static tkc_graph   *graph;
static tkc_arg      args[ARGS];
static int          nargs;
static bool         batches;                             // are what changes

static void fine(tkc_status status) {
    if (status == TKC_OK) return;
    fprintf(stderr, "bench_steps: %s\n", tkc_error());
    exit(1);
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static size_t width(tkc_dtype t) {
    return t == TKC_I64 || t == TKC_U64 || t == TKC_F64                    ? 8
           : t == TKC_BF16 || t == TKC_F16 || t == TKC_I16 || t == TKC_U16 ? 2
           : t == TKC_F32 || t == TKC_I32 || t == TKC_U32                  ? 4
                                                                           : 1;
}

static size_t bytes_of(const tkc_tensor *t) {
    size_t n = width(t->dtype);
    for (int d = 0; d < t->rank; d++) n *= (size_t)t->dims[d];
    return n;
}

static size_t room_of(const tkc_tensor *t) {
    size_t n = 8;
    for (int d = 0; d < t->rank; d++) n *= (size_t)t->dims[d];
    return n;
}

static bool only_batch(void) {
    bool only = true;
    for (int i = 0; i < tkc_graph_ports(graph); i++) {
        tkc_port p;
        fine(tkc_graph_port(graph, i, &p));
        for (int d = 0; d < p.rank && p.mode != TKC_OUT; d++)
            only = only && (p.dims[d] >= 0 || strcmp(p.dim_names[d], "batch") == 0);
    }
    return only;
}

// Tensors for a batch of 1 and this many tokens before, or for a batch of so many. Memory is made once, so addresses
// stay: the longest comes first.
static void size(int64_t past) {
    nargs = tkc_graph_ports(graph);
    for (int i = 0; i < nargs && i < ARGS; i++) {
        tkc_port p;
        fine(tkc_graph_port(graph, i, &p));
        void *data = args[i].tensor.data;
        args[i] = (tkc_arg){.name = p.name,
                            .tensor = {.data = data, .memory = TKC_DEVICE, .dtype = p.dtype, .rank = p.rank}};
        for (int d = 0; d < p.rank && p.mode != TKC_OUT; d++)
            args[i].tensor.dims[d] = p.dims[d] >= 0                                     ? p.dims[d]
                                     : strcmp(p.dim_names[d], "batch") == 0 && !batches ? 1
                                                                                        : past;
    }
    fine(tkc_graph_sizes(graph, args, nargs));
    for (int i = 0; i < nargs; i++)
        if (!args[i].tensor.data) fine(tkc_alloc(ctx, room_of(&args[i].tensor), &args[i].tensor.data));
}

static bool is_out(int i) {
    tkc_port p;
    fine(tkc_graph_port(graph, i, &p));
    return p.mode == TKC_OUT;
}

// Small numbers: integers below 16, floats in [-1, 1).
static void fill_inputs(void) {
    for (int i = 0; i < nargs; i++) {
        const tkc_tensor *t = &args[i].tensor;
        size_t n = bytes_of(t), w = width(t->dtype);
        char  *data = calloc(1, n + 8);
        for (size_t k = 0; k < n / w; k++) {
            float f = (float)(rand() % 2000) / 1000 - 1;
            if (t->dtype == TKC_F32) memcpy(data + k * w, &f, w);
            else data[k * w] = (char)(rand() % 16);
        }
        if (!is_out(i)) fine(tkc_write(ctx, t->data, data, n));
        free(data);
    }
}

// All results, one after the other.
static char *results(size_t *bytes) {
    size_t n = 0;
    for (int i = 0; i < nargs; i++) if (is_out(i)) n += bytes_of(&args[i].tensor);
    char *all = calloc(1, n + 1), *at = all;
    for (int i = 0; i < nargs; i++) {
        if (!is_out(i)) continue;
        fine(tkc_read(ctx, at, args[i].tensor.data, bytes_of(&args[i].tensor)));
        at += bytes_of(&args[i].tensor);
    }
    *bytes = n;
    return all;
}

static void compare(int lengths) {
    int apart = 0;
    for (int i = 0; i < lengths; i++) {
        size_t n = 0;
        char  *got[2];
        size(1 + (i * 7) % lengths * 3);
        fill_inputs();
        for (int run = 0; run < 2; run++) {
            fine(tkc_graph_run(graph, args, nargs, NULL));
            got[run] = results(&n);
        }
        if (memcmp(got[0], got[1], n) != 0)
            printf("%s%lld", apart++ ? ", " : "other results: ", (long long)(1 + (i * 7) % lengths * 3));
        free(got[0]);
        free(got[1]);
    }
    printf("%s%d lengths, each run twice: %d with other results\n", apart ? "\n" : "", lengths, apart);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say(const char *what, double *us, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += us[i];
    qsort(us, (size_t)n, sizeof *us, by_size);
    printf("%-44s least %7.1f   median %7.1f   mean %7.1f\n", what, us[0], us[n / 2], sum / n);
}

int main(int argc, char **argv) {
    static double us[MOST];
    tkc_graph_stats before, after;
    int n = argc > 2 ? atoi(argv[2]) : 300;
    if (argc < 2 || n < 40 || n > MOST) {
        fprintf(stderr, "usage: bench_steps MODEL.onnx [steps, 40 to %d [driver]]\n", MOST);
        return 2;
    }
    fine(tkc_open("cuda", argc > 3 ? &(tkc_options){.driver = argv[3]} : NULL, &ctx));
    fine(tkc_graph_load(ctx, argv[1], NULL, &graph));
    batches = only_batch();
    int64_t first = batches ? 1 : 64;
    size(first + 2 * n);
    compare(60);
    size(first + 2 * n);
    for (int i = 0; i < n; i++) {                            // choices for lengths all over the range
        size(first + 2 * i);
        fine(tkc_graph_run(graph, args, nargs, NULL));
    }
    fine(tkc_sync(ctx));
    for (int i = 0; i < n; i++) {
        double t = now_us();
        fine(tkc_graph_run(graph, args, nargs, NULL));
        fine(tkc_sync(ctx));
        us[i] = now_us() - t;
    }
    say("the same step again", us, n);
    tkc_graph_stats_get(graph, &before);
    for (int i = 0; i < n; i++) {
        size(first + 2 * i + 1);
        double t = now_us();
        fine(tkc_graph_run(graph, args, nargs, NULL));
        fine(tkc_sync(ctx));
        us[i] = now_us() - t;
    }
    tkc_graph_stats_get(graph, &after);
    printf("%d plans made, %d by running the graph through, %d kernels compiled\n",
           after.plans_made - before.plans_made, after.elaborated - before.elaborated,
           after.compiled - before.compiled);
    say("each of a length that never was", us, n);
    for (int i = 0, k = 0; i < n; i++, k = (k + 1) % 30) {
        size(first + 2 * (n - 30 + k) + 1);
        double t = now_us();
        fine(tkc_graph_run(graph, args, nargs, NULL));
        fine(tkc_sync(ctx));
        us[i] = now_us() - t;
    }
    say("lengths of the last 30 again", us, n);
    for (int i = 0; i < nargs; i++) tkc_free(ctx, args[i].tensor.data);
    tkc_graph_free(graph);
    tkc_close(ctx);
    return 0;
}

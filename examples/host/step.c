/* A language model's steps, one token after the other, with key-value caches that stay on the device and grow in place.
 *
 *     ./step examples/models/step/model.onnx [device] [tokens]
 *
 * The model is loaded with `donate`: k0, v0, k1, v1 have room for ROOM tokens, `past` says how many are in use, and each step
 * writes one more row of each. Nothing is copied but a token in and the logits out, and no step is planned anew.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tkc.h>

enum { ROOM = 64, MAX_PORTS = 16, VOCABULARY = 64 };

static void check(tkc_status status) {
    if (status == TKC_OK) return;
    fprintf(stderr, "%s\n", tkc_error());
    exit(1);
}

static size_t bytes_of(const tkc_tensor *t) {
    size_t n = t->dtype == TKC_I64 ? 8 : 4;
    int d;
    for (d = 0; d < t->rank; d++) n *= (size_t)t->dims[d];
    return n;
}

/* Memory of the device for each input and output: one sequence, ROOM tokens in the caches. */
static int bind(tkc_context *ctx, tkc_graph *g, tkc_arg *args) {
    int i, d, n = tkc_graph_ports(g);
    for (i = 0; i < n && i < MAX_PORTS; i++) {
        tkc_port port;
        check(tkc_graph_port(g, i, &port));
        memset(&args[i], 0, sizeof args[i]);
        args[i].name = port.name;
        args[i].tensor.memory = TKC_DEVICE;
        args[i].tensor.dtype = port.dtype;
        args[i].tensor.rank = port.rank;
        printf("%s %s [", port.mode == TKC_OUT ? "out  " : port.mode == TKC_INOUT ? "inout" : "in   ", port.name);
        for (d = 0; d < port.rank; d++) {
            args[i].tensor.dims[d] = port.dims[d] >= 0 ? port.dims[d] : strcmp(port.dim_names[d], "batch") == 0 ? 1 : ROOM;
            if (port.dims[d] >= 0) printf("%s%d", d ? ", " : "", (int)port.dims[d]);
            else printf("%s%s", d ? ", " : "", port.dim_names[d]);
        }
        printf("]\n");
        check(tkc_alloc(ctx, bytes_of(&args[i].tensor), &args[i].tensor.data));
    }
    return i;
}

static void *data_of(tkc_arg *args, int n, const char *name) {
    int i;
    for (i = 0; i < n; i++)
        if (strcmp(args[i].name, name) == 0) return args[i].tensor.data;
    fprintf(stderr, "the model has no `%s`\n", name);
    exit(1);
}

int main(int argc, char **argv) {
    tkc_context *ctx;
    tkc_graph *g;
    tkc_graph_options options;
    tkc_graph_stats stats;
    tkc_arg args[MAX_PORTS];
    float logits[VOCABULARY];
    int64_t token = 1;
    int n, i, steps = argc > 3 ? atoi(argv[3]) : 10;
    int32_t past;

    if (argc < 2 || steps < 1 || steps >= ROOM) {
        fprintf(stderr, "usage: step MODEL.onnx [device] [tokens, below %d]\n", ROOM);
        return 2;
    }
    check(tkc_open(argc > 2 ? argv[2] : "auto", NULL, &ctx));
    memset(&options, 0, sizeof options);
    options.donate = 1;
    check(tkc_graph_load(ctx, argv[1], &options, &g));
    n = bind(ctx, g, args);

    for (past = 0; past < steps; past++) {
        check(tkc_write(ctx, data_of(args, n, "token"), &token, sizeof token));
        check(tkc_write(ctx, data_of(args, n, "past"), &past, sizeof past));
        check(tkc_graph_run(g, args, n, NULL));
        check(tkc_read(ctx, logits, data_of(args, n, "logits"), sizeof logits));
        logits[token] = -INFINITY; /* an untrained model would say it again */
        for (token = 0, i = 1; i < VOCABULARY; i++)
            if (logits[i] > logits[token]) token = i;
        printf("%d%s", (int)token, past + 1 < steps ? " " : "\n");
    }
    tkc_graph_stats_get(g, &stats);
    printf("%d launches a step, %d plan, %d bytes of weights, %d of intermediate values\n", stats.launches, stats.plans_made,
           (int)stats.weight_bytes, (int)stats.arena_bytes);

    for (i = 0; i < n; i++) tkc_free(ctx, args[i].tensor.data);
    tkc_graph_free(g);
    tkc_close(ctx);
    return 0;
}

// What is run while something fails: the program by its command line, the library by its calls.
#include "tests/faults/scenarios.h"

#include <stdio.h>
#include <string.h>

#include "runtime/tkc.h"

int tkc_main(int argc, char **argv);

#define TKC(...) run_tkc((char *[]){"tkc", __VA_ARGS__, NULL})
static int run_tkc(char **argv) {
    int n = 0;
    while (argv[n]) n++;
    return tkc_main(n, argv);
}

static void write_old(const char *path) {
    FILE *f = fopen(path, "w");
    if (f) fputs("old\n", f), fclose(f);
}

// ---- the program ---------------------------------------------------------------------------------

static int old_result(void) { return write_old("out"), 0; }

static int compile(void)  { return TKC("add.tk", "--emit=ptx", "-o", "out"); }
static int artifact(void) { return TKC("add.tk", "--emit=artifact", "-o", "out"); }
static int mistake(void)  { return TKC("broken.tk", "--emit=ptx", "-o", "out"); }
static int report(void)   { return TKC("mlp.tk", "--kernel=linear", "--emit=report"); }

#define ADD(...) TKC("run", "add.tk", "x=v.npy", "y=ones:f32[6]", "z=z.npy", __VA_ARGS__)
static int run_emu(void)  { return ADD("--device=emu"); }
static int run_eval(void) { return ADD("--device=eval"); }
static int saved(void)    { return TKC("run", "add.tk", "x=v.npy", "y=ones:f32[6]", "--device=emu", "--save", "z=z.npy"); }
static int old_z(void)    { return write_old("z.npy"), 0; }
static int roles(void)    { return TKC("run", "mlp.tk", "--kernel=linear", "--device=emu", "x=x.npy", "w=ones:f32[3,2]", "y=y.npy"); }

static int test_items(void)  { return TKC("test", "tested.tk", "--device=emu", "--twice"); }
static int test_folder(void) { return TKC("test", ".", "--device=eval"); }

static int model(void)        { return TKC("run", "external.onnx", "x=x.pb", "y=y.pb", "--device=emu"); }
static int model_ref(void)    { return TKC("run", "external.onnx", "x=x.pb", "y=y.pb", "--device=ref"); }
static int model_random(void) { return TKC("run", "missing.onnx", "--random-weights", "x=x.npy", "y=y.npy", "--device=eval"); }
static int model_text(void)   { return TKC("external.onnx", "-o", "out"); }
static int graph(void)        { return TKC("run", "mlp.tk", "--graph=model", "--device=emu", "x=x.npy", "y=y.npy"); }
static int old_y(void)        { return write_old("y.npy"), write_old("y.pb"), 0; }

// ---- the library ---------------------------------------------------------------------------------

typedef enum Found { FOUND_fine, FOUND_failed, FOUND_wrong } Found;

// A failure has a status and words.
static Found said(tkc_status status) {
    if (!status) return FOUND_fine;
    if (!*tkc_error()) return fputs("a status without words\n", stderr), FOUND_wrong;
    fprintf(stderr, "%s\n", tkc_error());
    return FOUND_failed;
}

#define TRY(call) do { found = said(call); if (found) goto end; } while (0)

static tkc_tensor vector(void *data, int64_t n) { return (tkc_tensor){.data = data, .dtype = TKC_F32, .rank = 1, .dims = {n}}; }
static tkc_tensor matrix(void *data, int64_t m, int64_t n) { return (tkc_tensor){.data = data, .dtype = TKC_F32, .rank = 2, .dims = {m, n}}; }

static Found kernel(tkc_context *ctx, const char *file) {
    float x[100], y[100], z[100], more[100];
    tkc_program *p = NULL;
    tkc_launch  *l = NULL;
    Found found;
    for (int i = 0; i < 100; i++) x[i] = (float)i, y[i] = 1, more[i] = 2, z[i] = 0;
    tkc_arg args[] = {{.name = "x", .tensor = vector(x, 100)}, {.name = "y", .tensor = vector(y, 100)}, {.name = "z", .tensor = vector(z, 100)}};
    TRY(tkc_load_file(ctx, file, &p));
    TRY(tkc_prepare(p, "add", NULL, 0, args, 3, &l));
    TRY(tkc_run(l, NULL));
    if (z[99] != 100) found = FOUND_wrong;
    TRY(tkc_set_data(l, "y", more));
    TRY(tkc_run(l, NULL));
    if (z[99] != 101) found = FOUND_wrong;
end:
    tkc_launch_free(l);
    tkc_unload(p);
    return found;
}

static Found network(tkc_context *ctx, const char *file, const char *name) {
    static const tkc_graph_options none;
    tkc_graph_options options = none;
    float x[6] = {0, 1, 2, 3, 4, 5}, y[4] = {0};
    tkc_graph *g = NULL;
    char *text = NULL;
    Found found;
    options.graph = name;
    tkc_arg args[] = {{.name = "x", .tensor = matrix(x, 2, 3)}, {.name = "y", .tensor = matrix(y, 2, 2)}};
    TRY(tkc_graph_load(ctx, file, &options, &g));
    TRY(tkc_graph_sizes(g, args, 2));
    TRY(tkc_graph_run(g, args, 2, NULL));
    float want = name ? 52 : 13;
    if (y[0] != want) found = FOUND_wrong;
    TRY(tkc_graph_profile(g, args, 2, TKC_PROFILE_TABLE, &text));
end:
    tkc_text_free(text);
    tkc_graph_free(g);
    return found;
}

static Found memory(tkc_context *ctx) {
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    void *at = NULL;
    Found found;
    TRY(tkc_alloc(ctx, sizeof x, &at));
    TRY(tkc_write(ctx, at, x, sizeof x));
    TRY(tkc_read(ctx, y, at, sizeof y));
    if (y[3] != 4) found = FOUND_wrong;
end:
    tkc_free(ctx, at);
    return found;
}

static Found all_of(tkc_context *ctx, int which, bool eval) {
    if (which == 0) return kernel(ctx, "add.tk");
    if (which == 1) return eval ? memory(ctx) : kernel(ctx, "add.tkx");
    if (which == 2) return network(ctx, "mlp.tk", "model");
    if (which == 3) return network(ctx, "external.onnx", NULL);
    return memory(ctx);
}

// What fails goes well when it is done again: the context is as it was.
static int library(const char *device, int which) {
    tkc_context *ctx = NULL;
    bool  eval = strcmp(device, "eval") == 0;
    Found found = said(tkc_open(device, NULL, &ctx)), again = FOUND_fine;
    if (found == FOUND_failed) layer_spare();
    if (found == FOUND_failed) again = said(tkc_open(device, NULL, &ctx));
    Found did = again ? FOUND_wrong : all_of(ctx, which, eval);
    if (did == FOUND_failed) layer_spare();
    if (did == FOUND_failed) again = all_of(ctx, which, eval);
    tkc_close(ctx);
    if (again) fputs("it fails again\n", stderr);
    return again || did == FOUND_wrong ? 9 : found || did;
}

static int api_kernel_emu(void)  { return library("emu", 0); }
static int api_kernel_eval(void) { return library("eval", 0); }
static int api_artifact(void)    { return library("emu", 1); }
static int api_graph(void)       { return library("emu", 2); }
static int api_model(void)       { return library("eval", 3); }
static int api_memory(void)      { return library("emu", 4); }
static int make_artifact(void)   { return TKC("add.tk", "--emit=artifact", "-o", "add.tkx"); }

static const Scenario scenarios[] = {
    {"compile", compile, old_result, 0, 0},
    {"artifact", artifact, old_result, 0, 0},
    {"mistake", mistake, old_result, 1, 0},
    {"report", report, NULL, 0, 0},
    {"run_emu", run_emu, old_z, 0, 0},
    {"run_warm", run_emu, run_emu, 0, 1},
    {"run_eval", run_eval, old_z, 0, 0},
    {"save", saved, old_z, 0, 0},
    {"product", roles, old_y, 0, 0},
    {"test", test_items, NULL, 0, 0},
    {"test_folder", test_folder, NULL, 1, 0},
    {"model", model, old_y, 0, 0},
    {"model_ref", model_ref, old_y, 0, 0},
    {"model_random", model_random, NULL, 0, 0},
    {"model_text", model_text, old_result, 0, 0},
    {"graph", graph, old_y, 0, 0},
    {"api_kernel_emu", api_kernel_emu, NULL, 0, 0},
    {"api_kernel_eval", api_kernel_eval, NULL, 0, 0},
    {"api_artifact", api_artifact, make_artifact, 0, 0},
    {"api_graph", api_graph, NULL, 0, 0},
    {"api_model", api_model, NULL, 0, 0},
    {"api_memory", api_memory, NULL, 0, 0},
};

const Scenario *scenario_named(const char *name) {
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(scenarios[i].name, name) == 0) return &scenarios[i];
    return NULL;
}

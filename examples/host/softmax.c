// Softmax of each row of a matrix by the kernel of the library, from C, and its result checked.
//
//     ./softmax [auto | cuda | emu | eval]
//
// The tensors lie in the program's own memory here, so tkc_run copies them. A program whose data are on the GPU gives
// their addresses with .memory = TKC_DEVICE and its stream to tkc_run; nothing is copied then.
#include <math.h>
#include <stdio.h>
#include <tkc.h>

enum { M = 5, N = 1000 };

static float x[M][N], y[M][N];

static int failed(void) {
    fprintf(stderr, "%s\n", tkc_error());
    return 1;
}

// The largest difference from what the definition says.
static double error(void) {
    double worst = 0;
    for (int m = 0; m < M; m++) {
        double top = x[m][0], sum = 0;
        for (int n = 0; n < N; n++) top = fmax(top, x[m][n]);
        for (int n = 0; n < N; n++) sum += exp(x[m][n] - top);
        for (int n = 0; n < N; n++) worst = fmax(worst, fabs(y[m][n] - exp(x[m][n] - top) / sum));
    }
    return worst;
}

int main(int argc, char **argv) {
    tkc_context *ctx = NULL;
    tkc_program *prog = NULL;
    tkc_launch  *run = NULL;
    tkc_arg args[] = {
        {.name = "x", .tensor = {.data = x, .dtype = TKC_F32, .rank = 2, .dims = {M, N}}},
        {.name = "y", .tensor = {.data = y, .dtype = TKC_F32, .rank = 2, .dims = {M, N}}},
    };
    for (int i = 0; i < M * N; i++) x[i / N][i % N] = (float)(i * 7919 % 1000) / 100;

    if (tkc_open(argc > 1 ? argv[1] : "auto", NULL, &ctx)) return failed();
    if (tkc_load_file(ctx, "std/softmax", &prog)) return failed();
    if (tkc_prepare(prog, "softmax_rows", NULL, 0, args, 2, &run)) return failed();
    if (tkc_run(run, NULL)) return failed();
    printf("%s: largest error %.1e\n", tkc_device_name(ctx), error());

    tkc_launch_free(run);
    tkc_unload(prog);
    tkc_close(ctx);
    return error() > 1e-6;
}

// The functions of lower/math.c as PTX text, and run on a GPU: for bench/math_sweep.c.
#ifndef TK_BENCH_MATH_GPU_H
#define TK_BENCH_MATH_GPU_H

#include <stdio.h>

#include "lower/math.h"

// A module with a kernel for each function, type and mode: name_f32_default(x, y, out, n).
void math_ptx_print(FILE *out);

typedef struct MathGpu MathGpu;

MathGpu *math_gpu_open(const char **error);        // NULL where there is no driver or no GPU
// out[i] = fn(x[i], y[i]), on host memory; up to 64 threads may call at a time.
bool math_gpu_run(MathGpu *gpu, MathFn fn, MathType type, MathMode mode, const void *x, const void *y,
                  void *out, size_t n);

#endif

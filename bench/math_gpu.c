// Runs the PTX of bench/math_ptx.c on the first GPU, through the driver, which is loaded when asked
// for. Each call borrows a set of device buffers, so that calls from several threads overlap.

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "bench/math_gpu.h"

typedef int       Result;                // CUresult; 0 is success
typedef uint64_t  DevicePtr;
typedef void     *Handle;                // context, module, function, stream

//  symbol                     arguments
#define DRIVER(X)                                                                              \
  X(cuInit,                    (unsigned))                                                      \
  X(cuDeviceGet,               (int *, int))                                                    \
  X(cuDevicePrimaryCtxRetain,  (Handle *, int))                                                 \
  X(cuCtxSetCurrent,           (Handle))                                                        \
  X(cuModuleLoadData,          (Handle *, const void *))                                        \
  X(cuModuleGetFunction,       (Handle *, Handle, const char *))                                \
  X(cuMemAlloc_v2,             (DevicePtr *, size_t))                                           \
  X(cuMemcpyHtoD_v2,           (DevicePtr, const void *, size_t))                               \
  X(cuMemcpyDtoH_v2,           (void *, DevicePtr, size_t))                                     \
  X(cuLaunchKernel,            (Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                                unsigned, Handle, void **, void **))

typedef struct Driver {
#define X(name, args) Result (*name) args;
    DRIVER(X)
#undef X
} Driver;

enum { SETS = 64, LIMIT = 1 << 20 };     // device buffers; elements in each

typedef struct Set { DevicePtr x, y, out; } Set;

struct MathGpu {
    Driver          cu;
    Handle          context, module;
    int             made, idle_count;    // sets of buffers; those that no call holds
    Set             idle[SETS];
    pthread_mutex_t lock;
};

MathGpu *math_gpu_open(const char **error) {
    static MathGpu gpu = {.lock = PTHREAD_MUTEX_INITIALIZER};
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib) { *error = "no CUDA driver (libcuda.so.1) here"; return NULL; }
#define X(name, args)                                                                          \
    if (!(*(void **)&gpu.cu.name = dlsym(lib, #name))) {                                        \
        *error = "the driver lacks " #name;                                                     \
        return NULL;                                                                            \
    }
    DRIVER(X)
#undef X
    int device;
    if (gpu.cu.cuInit(0) || gpu.cu.cuDeviceGet(&device, 0)
        || gpu.cu.cuDevicePrimaryCtxRetain(&gpu.context, device) || gpu.cu.cuCtxSetCurrent(gpu.context)) {
        *error = "no GPU that the driver can use";
        return NULL;
    }
    char  *text;
    size_t size;
    FILE  *f = open_memstream(&text, &size);
    math_ptx_print(f);
    fclose(f);
    Result r = gpu.cu.cuModuleLoadData(&gpu.module, text);
    free(text);
    if (r) { *error = "the driver rejects the PTX"; return NULL; }
    return &gpu;
}

static bool borrow(MathGpu *g, Set *s) {
    bool fine = true;
    pthread_mutex_lock(&g->lock);
    if (g->idle_count > 0) *s = g->idle[--g->idle_count];
    else fine = g->made++ < SETS && !g->cu.cuMemAlloc_v2(&s->x, 8 * LIMIT)
             && !g->cu.cuMemAlloc_v2(&s->y, 8 * LIMIT) && !g->cu.cuMemAlloc_v2(&s->out, 8 * LIMIT);
    pthread_mutex_unlock(&g->lock);
    return fine;
}

bool math_gpu_run(MathGpu *g, MathFn fn, MathType type, MathMode mode, const void *x, const void *y,
                  void *out, size_t n) {
    static const char *const modes[] = {"default", "fast", "precise"};
    char   name[64];
    size_t size = type == MT_F64 ? 8 : 4;
    Handle kernel;
    Set    s;
    snprintf(name, sizeof name, "%s_%s_%s", math_fns[fn].name, type == MT_F64 ? "f64" : "f32",
             modes[mode]);
    if (g->cu.cuCtxSetCurrent(g->context)) return false;
    if (g->cu.cuModuleGetFunction(&kernel, g->module, name)) return false;
    if (!borrow(g, &s)) return false;
    bool fine = true;
    for (size_t done = 0; fine && done < n; done += LIMIT) {
        unsigned count = (unsigned)(n - done < LIMIT ? n - done : LIMIT);
        void    *args[] = {&s.x, &s.y, &s.out, &count};
        fine = !g->cu.cuMemcpyHtoD_v2(s.x, (const char *)x + done * size, count * size)
            && (!y || !g->cu.cuMemcpyHtoD_v2(s.y, (const char *)y + done * size, count * size))
            && !g->cu.cuLaunchKernel(kernel, (count + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL)
            && !g->cu.cuMemcpyDtoH_v2((char *)out + done * size, s.out, count * size);
    }
    pthread_mutex_lock(&g->lock);
    g->idle[g->idle_count++] = s;
    pthread_mutex_unlock(&g->lock);
    return fine;
}

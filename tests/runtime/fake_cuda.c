// A driver of our own making, for testing runtime/cuda.c without a GPU. Device memory is host memory;
// kernels do not run, but what they were launched with is written down, and there is a clock: between two events lie
// 500 us, or one for each block and ten for each launch (`by_blocks`). fake_set and fake_fail tell it how to behave;
// fake_log gives what was called, a line each.
//
//   FAKE_WHOLE   everything       FAKE_OLD   as of CUDA 11.0       FAKE_BROKEN   lacks cuMemAlloc_v2

#include "runtime/cuda_driver.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    char fail_in[64];                 // this symbol fails ...
    int  fail_with;                   // ... with this
    int  devices, major, minor, version, param_words;
    char assembler[128];              // what the assembler says when loading fails
    char log[1 << 16];
    size_t n;
    int  live, contexts;              // allocations, retained contexts
    int  stream;                      // of the last launch, its low bits
    // how long a launch takes; threads of a block from which kernels spill, 0: all have 8 bytes
    int  by_blocks, spills_at;
    double now;
} fake = {.devices = 1, .major = 9, .minor = 0, .version = 13000};

void fake_reset(void);
void fake_fail(const char *symbol, int code);
void fake_set(const char *what, int value);
const char *fake_log(void);
int fake_get(const char *what);

static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;       // modules are loaded on many threads

static void note(const char *fmt, ...) {
    va_list args;
    pthread_mutex_lock(&noting);
    va_start(args, fmt);
    int n = vsnprintf(fake.log + fake.n, sizeof fake.log - fake.n, fmt, args);
    va_end(args);
    if (n > 0 && fake.n + (size_t)n + 1 < sizeof fake.log) fake.n += (size_t)n;
    pthread_mutex_unlock(&noting);
}

static int *field(const char *what) {
    return !strcmp(what, "devices")       ? &fake.devices
           : !strcmp(what, "major")       ? &fake.major
           : !strcmp(what, "minor")       ? &fake.minor
           : !strcmp(what, "version")     ? &fake.version
           : !strcmp(what, "param_words") ? &fake.param_words
           : !strcmp(what, "live")        ? &fake.live
           : !strcmp(what, "stream")      ? &fake.stream
           : !strcmp(what, "by_blocks")   ? &fake.by_blocks
           : !strcmp(what, "spills_at")   ? &fake.spills_at
                                          : &fake.contexts;
}

void fake_reset(void) {
    memset(&fake, 0, sizeof fake);
    fake.devices = 1; fake.major = 9; fake.version = 13000;
}
void fake_fail(const char *symbol, int code) {
    snprintf(fake.fail_in, sizeof fake.fail_in, "%s", symbol);
    fake.fail_with = code;
}
void fake_set(const char *what, int value) { *field(what) = value; }
int  fake_get(const char *what) { return *field(what); }
const char *fake_log(void) { return fake.log; }

#define ENTER(symbol) do { note("%s\n", #symbol); if (!strcmp(fake.fail_in, #symbol)) return fake.fail_with; } while (0)
#define X(f, symbol, since, params) CuResult symbol params;
CUDA_FUNCTIONS(X)
#undef X

CuResult cuInit(unsigned flags) { ENTER(cuInit); return flags ? CU_INVALID_VALUE : fake.devices ? CU_OK : CU_NO_DEVICE; }
CuResult cuGetErrorName(CuResult r, const char **s) {
    *s = r == 1     ? "CUDA_ERROR_INVALID_VALUE"
         : r == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
         : r == 2   ? "CUDA_ERROR_OUT_OF_MEMORY"
                    : NULL;
    return CU_OK;
}
CuResult cuGetErrorString(CuResult r, const char **s) {
    *s = r == 1     ? "invalid argument"
         : r == 700 ? "an illegal memory access was encountered"
         : r == 2   ? "out of memory"
         : r == 100 ? "no CUDA-capable device is detected"
                    : NULL;
    return CU_OK;
}
CuResult cuDriverGetVersion(int *v) { ENTER(cuDriverGetVersion); *v = fake.version; return CU_OK; }
CuResult cuDeviceGetCount(int *n) { ENTER(cuDeviceGetCount); *n = fake.devices; return CU_OK; }
CuResult cuDeviceGet(CuDevice *d, int i) { ENTER(cuDeviceGet); *d = i; return CU_OK; }
CuResult cuDeviceGetName(char *s, int n, CuDevice d) { (void)d; snprintf(s, (size_t)n, "Fake GPU"); return CU_OK; }
CuResult cuDeviceTotalMem_v2(size_t *n, CuDevice d) { (void)d; *n = (size_t)8 << 30; return CU_OK; }
CuResult cuDeviceGetAttribute(int *v, int a, CuDevice d) {
    (void)d;
    *v = a == CU_DEV_MAJOR        ? fake.major
         : a == CU_DEV_MINOR      ? fake.minor
         : a == CU_DEV_PROCESSORS ? 4
         : a == CU_DEV_L2_BYTES   ? 1 << 20
         : a == CU_DEV_SMEM_OPTIN ? 227 << 10
                                  : 0;
    return CU_OK;
}
CuResult cuDevicePrimaryCtxRetain(CuContext *c, CuDevice d) {
    (void)d;
    ENTER(cuDevicePrimaryCtxRetain);
    fake.contexts++;
    *c = (CuContext)&fake;
    return CU_OK;
}
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice d) { (void)d; fake.contexts--; return CU_OK; }
CuResult cuCtxSetCurrent(CuContext c) { return c == (CuContext)&fake ? CU_OK : CU_INVALID_VALUE; }
CuResult cuCtxSynchronize(void) { ENTER(cuCtxSynchronize); return CU_OK; }
#ifndef FAKE_BROKEN
CuResult cuMemAlloc_v2(CuPtr *p, size_t n) {
    ENTER(cuMemAlloc_v2);
    if (!n) return CU_INVALID_VALUE;
    *p = (CuPtr)(uintptr_t)malloc(n);
    __atomic_fetch_add(&fake.live, 1, __ATOMIC_RELAXED);
    return CU_OK;
}
#endif
CuResult cuMemFree_v2(CuPtr p) {
    free((void *)(uintptr_t)p);
    __atomic_fetch_sub(&fake.live, 1, __ATOMIC_RELAXED);
    return CU_OK;
}
CuResult cuMemcpyHtoD_v2(CuPtr to, const void *from, size_t n) {
    ENTER(cuMemcpyHtoD_v2);
    memcpy((void *)(uintptr_t)to, from, n);
    return CU_OK;
}
CuResult cuMemcpyDtoH_v2(void *to, CuPtr from, size_t n) {
    ENTER(cuMemcpyDtoH_v2);
    memcpy(to, (void *)(uintptr_t)from, n);
    return CU_OK;
}
CuResult cuMemsetD8Async(CuPtr to, unsigned char v, size_t n, CuStream s) {
    (void)s;
    memset((void *)(uintptr_t)to, v, n);
    return CU_OK;
}
CuResult cuMemsetD16Async(CuPtr to, unsigned short v, size_t n, CuStream s) {
    (void)s;
    for (size_t i = 0; i < n; i++) memcpy((char *)(uintptr_t)to + 2 * i, &v, 2);
    return CU_OK;
}

CuResult cuMemcpyDtoDAsync_v2(CuPtr to, CuPtr from, size_t n, CuStream s) {
    (void)s;
    ENTER(cuMemcpyDtoDAsync_v2);
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
    return CU_OK;
}

// A copy on a stream happens when it is waited for: whoever writes over its source before that is found out.
typedef struct FakeStream { void *to; const void *from; size_t n; } FakeStream;
static void copy_now(FakeStream *s) { if (s->n) memcpy(s->to, s->from, s->n); s->n = 0; }
CuResult cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
    ENTER(cuMemHostRegister_v2);
    __atomic_fetch_add(&fake.live, 1, __ATOMIC_RELAXED);
    return p && n && !flags ? CU_OK : CU_INVALID_VALUE;
}
CuResult cuMemHostUnregister(void *p) { (void)p; __atomic_fetch_sub(&fake.live, 1, __ATOMIC_RELAXED); return CU_OK; }
CuResult cuStreamCreate(CuStream *s, unsigned flags) {
    ENTER(cuStreamCreate);
    *s = calloc(1, sizeof(FakeStream));
    __atomic_fetch_add(&fake.live, 1, __ATOMIC_RELAXED);
    return flags == CU_STREAM_ALONE ? CU_OK : CU_INVALID_VALUE;
}
CuResult cuStreamDestroy_v2(CuStream s) {
    copy_now((FakeStream *)s);
    free(s);
    __atomic_fetch_sub(&fake.live, 1, __ATOMIC_RELAXED);
    return CU_OK;
}
CuResult cuStreamSynchronize(CuStream s) { ENTER(cuStreamSynchronize); copy_now((FakeStream *)s); return CU_OK; }
CuResult cuMemcpyHtoDAsync_v2(CuPtr to, const void *from, size_t n, CuStream s) {
    FakeStream *f = (FakeStream *)s;
    ENTER(cuMemcpyHtoDAsync_v2);
    copy_now(f);
    *f = (FakeStream){(void *)(uintptr_t)to, from, n};
    return CU_OK;
}
CuResult cuMemcpyDtoHAsync_v2(void *to, CuPtr from, size_t n, CuStream s) {
    FakeStream *f = (FakeStream *)s;
    ENTER(cuMemcpyDtoHAsync_v2);
    copy_now(f);
    *f = (FakeStream){to, (const void *)(uintptr_t)from, n};
    return CU_OK;
}

CuResult cuModuleLoadDataEx(CuModule *m, const void *image, unsigned n, int *options, void **values) {
    char *log = NULL, *errors = NULL;
    size_t log_bytes = 0, error_bytes = 0;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == CU_JITOPT_INFO_LOG) log = values[i];
        if (options[i] == CU_JITOPT_INFO_LOG_BYTES) log_bytes = (size_t)(uintptr_t)values[i];
        if (options[i] == CU_JITOPT_ERROR_LOG) errors = values[i];
        if (options[i] == CU_JITOPT_ERROR_LOG_BYTES) error_bytes = (size_t)(uintptr_t)values[i];
    }
    if (!log || !errors) return CU_INVALID_VALUE;
    memset(log, 'x', log_bytes);                              // the sizes must be those of the buffers
    memset(errors, 'x', error_bytes);
    snprintf(log, log_bytes, "ptxas info    : Used 32 registers");
    errors[0] = 0;
    if (strstr(image, "syntax error"))
        snprintf(errors, error_bytes, "ptxas application ptx input, line 3; fatal   : Parsing error\nptxas fatal\n");
    if (strstr(image, "syntax error")) return CU_INVALID_PTX;
    if (strstr(image, "ELF refused")) return CU_NO_BINARY_FOR_GPU;
    note("load %s", memcmp(image, "\177ELF", 4) == 0 ? "cubin" : "text");
    note("%s%s\n", strstr(image, "griddepcontrol.wait") ? ", which waits" : "", strstr(image, "ld.global.nc") ? ", with constants" : "");
    ENTER(cuModuleLoadDataEx);
    int *threads = malloc(sizeof *threads);
    const char *at = strstr(image, ".reqntid ");
    if (!at) at = strstr(image, ".maxntid ");
    *threads = at ? atoi(at + strlen(".reqntid ")) : 0;
    *m = (CuModule)threads;
    __atomic_fetch_add(&fake.live, 1, __ATOMIC_RELAXED);
    return CU_OK;
}
CuResult cuModuleUnload(CuModule m) { free(m); __atomic_fetch_sub(&fake.live, 1, __ATOMIC_RELAXED); return CU_OK; }
CuResult cuModuleGetFunction(CuFunction *f, CuModule m, const char *name) {
    ENTER(cuModuleGetFunction);
    *f = (CuFunction)m;
    return strcmp(name, "missing") ? CU_OK : CU_NOT_FOUND;
}
CuResult cuFuncGetAttribute(int *v, int a, CuFunction f) {
    int spills = fake.spills_at && *(const int *)f < fake.spills_at ? 0 : 8;
    *v = a == CU_FN_REGISTERS      ? 32
         : a == CU_FN_MAX_THREADS  ? 512
         : a == CU_FN_SHARED_BYTES ? 1024
         : a == CU_FN_LOCAL_BYTES  ? spills
                                   : -1;
    return CU_OK;
}
CuResult cuFuncSetAttribute(CuFunction f, int a, int v) {
    (void)f;
    ENTER(cuFuncSetAttribute);
    note("attribute %d = %d\n", a, v);
    return CU_OK;
}

static void note_launch(const unsigned *g, unsigned smem, void **params) {
    note("grid %u %u %u block %u %u %u smem %u", g[0], g[1], g[2], g[3], g[4], g[5], smem);
    for (int i = 0; i < fake.param_words; i++) note(" %d", *(const int *)params[i]);
    note("\n");
}
CuResult cuLaunchKernel(CuFunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned smem, CuStream s, void **params, void **extra) {
    (void)f; (void)extra;
    ENTER(cuLaunchKernel);
    fake.stream = (int)(uintptr_t)s;
    note_launch((unsigned[]){gx, gy, gz, bx, by, bz}, smem, params);
    fake.now += 10 + (double)gx;
    return CU_OK;
}
#ifndef FAKE_OLD
// a graph is its nodes, in order
typedef struct FakeNode { unsigned grid[6], smem; int after, cluster, together; char params[64]; } FakeNode;
typedef struct FakeGraph { int n; FakeNode node[256]; const struct FakeGraph *of; } FakeGraph;
CuResult cuGraphCreate(CuGraph *g, unsigned flags) {
    ENTER(cuGraphCreate);
    *g = calloc(1, sizeof(FakeGraph));
    __atomic_fetch_add(&fake.live, 1, __ATOMIC_RELAXED);
    return flags ? CU_INVALID_VALUE : CU_OK;
}
CuResult cuGraphDestroy(CuGraph g) { free(g); __atomic_fetch_sub(&fake.live, 1, __ATOMIC_RELAXED); return CU_OK; }
CuResult cuGraphAddKernelNode_v2(CuGraphNode *out, CuGraph graph, const CuGraphNode *after, size_t n,
                                 const CuKernelNode *k) {
    FakeGraph *g = (FakeGraph *)graph;
    ENTER(cuGraphAddKernelNode_v2);
    if (g->n == 256 || !k->f || !k->grid_x || !k->block_x || k->extra) return CU_INVALID_VALUE;
    FakeNode *node = &g->node[g->n++];
    memcpy(node->grid, &k->grid_x, sizeof node->grid);
    node->smem = k->smem;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if ((FakeNode *)after[i] < g->node || (FakeNode *)after[i] >= node) return CU_INVALID_VALUE;
        at += (size_t)snprintf(node->params + at, sizeof node->params - at, " %d", (int)((FakeNode *)after[i] - g->node));
    }
    node->after = (int)n;
    *out = (CuGraphNode)node;
    return CU_OK;
}
CuResult cuGraphAddDependencies_v2(CuGraph graph, const CuGraphNode *from, const CuGraphNode *to,
                                   const CuGraphEdge *edge, size_t n) {
    FakeGraph *g = (FakeGraph *)graph;
    ENTER(cuGraphAddDependencies_v2);
    for (size_t i = 0; i < n; i++) {
        FakeNode *node = (FakeNode *)to[i];
        size_t at = strlen(node->params);
        if ((FakeNode *)from[i] < g->node || (FakeNode *)from[i] >= node || edge[i].from_port != CU_PORT_PROGRAMMATIC ||
            edge[i].type != CU_EDGE_PROGRAMMATIC)
            return CU_INVALID_VALUE;
        snprintf(node->params + at, sizeof node->params - at, " %d early", (int)((FakeNode *)from[i] - g->node));
        node->after++;
    }
    return CU_OK;
}
CuResult cuGraphKernelNodeSetAttribute(CuGraphNode n, int attribute, const void *value) {
    ENTER(cuGraphKernelNodeSetAttribute);
    if (attribute != CU_ATTR_CLUSTER && attribute != CU_ATTR_COOPERATIVE) return CU_INVALID_VALUE;
    *(attribute == CU_ATTR_CLUSTER ? &((FakeNode *)n)->cluster : &((FakeNode *)n)->together) = (int)*(const unsigned *)value;
    return CU_OK;
}
CuResult cuGraphInstantiateWithFlags(CuGraphExec *e, CuGraph g, unsigned long long flags) {
    ENTER(cuGraphInstantiateWithFlags);
    if (flags) return CU_INVALID_VALUE;
    FakeGraph *copy = malloc(sizeof *copy);
    memcpy(copy, g, sizeof *copy);
    copy->of = (const FakeGraph *)g;
    *e = (CuGraphExec)copy;
    __atomic_fetch_add(&fake.live, 1, __ATOMIC_RELAXED);
    return CU_OK;
}
CuResult cuGraphExecKernelNodeSetParams_v2(CuGraphExec e, CuGraphNode n, const CuKernelNode *k) {
    FakeGraph *g = (FakeGraph *)e;
    ENTER(cuGraphExecKernelNodeSetParams_v2);
    int64_t i = (FakeNode *)n - g->of->node;
    if (i < 0 || i >= g->n || !k->f || !k->grid_x || !k->block_x || k->extra) return CU_INVALID_VALUE;
    memcpy(g->node[i].grid, &k->grid_x, sizeof g->node[i].grid);
    g->node[i].smem = k->smem;
    return CU_OK;
}
CuResult cuGraphLaunch(CuGraphExec e, CuStream s) {
    const FakeGraph *g = (const FakeGraph *)e;
    (void)s;
    ENTER(cuGraphLaunch);
    for (int i = 0; i < g->n; i++) {
        note("node %d grid %u block %u smem %u", i, g->node[i].grid[0], g->node[i].grid[3], g->node[i].smem);
        if (g->node[i].cluster) note(" cluster %d", g->node[i].cluster);
        if (g->node[i].together) note(" together");
        if (g->node[i].after) note(" after%s", g->node[i].params);
        note("\n");
    }
    return CU_OK;
}
CuResult cuGraphExecDestroy(CuGraphExec e) { free(e); __atomic_fetch_sub(&fake.live, 1, __ATOMIC_RELAXED); return CU_OK; }

CuResult cuLaunchKernelEx(const CuLaunchConfig *c, CuFunction f, void **params, void **extra) {
    (void)f; (void)extra;
    ENTER(cuLaunchKernelEx);
    for (unsigned i = 0; i < c->nattrs; i++) {
        const CuLaunchAttr *a = &c->attrs[i];
        if (a->id == CU_ATTR_COOPERATIVE && a->value.cooperative == 1) note("together ");
        else if (a->id == CU_ATTR_CLUSTER) note("cluster %u %u %u ", a->value.cluster.x, a->value.cluster.y, a->value.cluster.z);
        else if (a->id == CU_ATTR_PROGRAMMATIC && a->value.programmatic == 1) note("early ");
        else return CU_INVALID_VALUE;
    }
    if (!c->nattrs) return CU_INVALID_VALUE;
    note_launch(&c->grid_x, c->smem, params);
    fake.now += 10 + (double)c->grid_x;
    return CU_OK;
}
CuResult cuTensorMapEncodeTiled(CuTensorMap *m, int type, uint32_t rank, void *base, const uint64_t *dims,
                                const uint64_t *strides, const uint32_t *box, const uint32_t *ones, int interleave,
                                int swizzle, int l2, int oob) {
    ENTER(cuTensorMapEncodeTiled);
    if ((uintptr_t)m % 64 || (uintptr_t)base % 16 || interleave || oob || l2 != CU_MAP_L2_128) return CU_INVALID_VALUE;
    for (uint32_t i = 0; i < rank; i++) {
        if (!dims[i] || !box[i] || box[i] > 256 || ones[i] != 1 || (i + 1 < rank && strides[i] % 16))
            return CU_INVALID_VALUE;
        note("map %d: %llu box %u\n", type, (unsigned long long)dims[i], box[i]);
    }
    m->opaque[0] = (uint64_t)swizzle;
    return CU_OK;
}
CuResult cuTensorMapEncodeIm2col(CuTensorMap *m, int type, uint32_t rank, void *base, const uint64_t *dims,
                                 const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
                                 uint32_t pixels, const uint32_t *ones, int interleave, int swizzle, int l2, int oob) {
    ENTER(cuTensorMapEncodeIm2col);
    (void)type;
    (void)rank;
    (void)base;
    (void)dims;
    (void)strides;
    (void)ones;
    (void)interleave;
    (void)swizzle;
    (void)l2;
    (void)oob;
    note("im2col %d %d channels %u pixels %u\n", lower[0], upper[0], channels, pixels);
    m->opaque[0] = 7;
    return CU_OK;
}
#endif
CuResult cuEventCreate(CuEvent *e, unsigned flags) {
    (void)flags;
    ENTER(cuEventCreate);
    *e = malloc(sizeof fake.now);
    __atomic_fetch_add(&fake.live, 1, __ATOMIC_RELAXED);
    return CU_OK;
}
CuResult cuEventDestroy_v2(CuEvent e) { free(e); __atomic_fetch_sub(&fake.live, 1, __ATOMIC_RELAXED); return CU_OK; }
CuResult cuEventRecord(CuEvent e, CuStream s) { (void)s; memcpy(e, &fake.now, sizeof fake.now); return CU_OK; }
CuResult cuEventSynchronize(CuEvent e) { (void)e; ENTER(cuEventSynchronize); return CU_OK; }
CuResult cuEventElapsedTime(float *ms, CuEvent a, CuEvent b) {
    double from, to;
    memcpy(&from, a, sizeof from);
    memcpy(&to, b, sizeof to);
    *ms = fake.by_blocks ? (float)((to - from) * 1e-3) : 0.5f;
    return CU_OK;
}

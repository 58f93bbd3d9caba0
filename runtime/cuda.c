// The device `cuda`: a GPU, through the driver API. With cuda_graph.c, cuda_stage.c and cuda_link.c
// the only file that knows the driver.
//
// libcuda.so.1 is loaded when the device is opened, so that one binary runs with and without a GPU.
// Functions that came later than CUDA 11.0 may be missing; what needs them then says which release
// has them. Work goes to the default stream of the device's primary context, which other libraries in
// the process share. Every error is one line: what we were doing, then the driver's own words.
//
// A fault inside a kernel shows at a later call. So the device remembers what it launched last and
// names it in the error of that call.

#include "lang/c_text.h"
#include "ptx/ptx.h"
#include "runtime/cuda_internal.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES = 64 << 10, STATIC_SMEM = 48 << 10 };

static const struct { const char *symbol, *since; } function_names[] = {
#define X(field, symbol, since, params) {#symbol, since},
    CUDA_FUNCTIONS(X)
#undef X
};

// ---- errors --------------------------------------------------------------------------------------

static void driver_words(const Cuda *c, CuResult r, Buf *err) {
    const char *name = NULL, *text = NULL;
    c->cu.error_name(r, &name);
    c->cu.error_text(r, &text);
    buf_printf(err, "the driver says \"%s\"", text ? text : "unknown error");
    buf_printf(err, " (%s, %d)", name ? name : "no name", r);
}

static bool cuda_ok(Cuda *c, CuResult r, Buf *err, const char *doing, const char *what) {
    if (r == CU_OK) return true;
    buf_printf(err, "cuda: cannot %s%s%s: ", doing, what ? " " : "", what ? what : "");
    driver_words(c, r, err);
    return false;
}

// The same for calls that wait for a kernel, or may report its fault.
bool cuda_ok_late(Cuda *c, CuResult r, Buf *err, const char *doing, const char *what) {
    if (cuda_ok(c, r, err, doing, what)) return true;
    if (r < CU_FIRST_FAULT || r > CU_LAST_FAULT || !(c->last_nodes || c->last_kernel.name[0])) return false;
    buf_puts(err, "; the last launch was ");
    if (c->last_nodes) buf_printf(err, "a graph of %d launches", c->last_nodes);
    else launch_text(&c->last, err);
    return false;
}

static bool since(const void *function, const char *what, const char *release, Buf *err) {
    if (function) return true;
    buf_printf(err, "cuda: the driver is too old for %s, which came with CUDA %s", what, release);
    return false;
}

// ---- opening -------------------------------------------------------------------------------------

static bool load_symbols(Cuda *c, const char *path, Buf *err) {
    c->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!c->library) {
        const char *why = dlerror();
        buf_puts(err, "cuda: no NVIDIA driver: ");
        one_line(err, why ? why : path, strlen(why ? why : path));
        return false;
    }
    void **slot = (void **)(void *)&c->cu;
    for (size_t i = 0; i < sizeof function_names / sizeof *function_names; i++) {
        slot[i] = dlsym(c->library, function_names[i].symbol);
        if (slot[i] || strcmp(function_names[i].since, "11.0") != 0) continue;
        buf_printf(err, "cuda: the driver library %s has no %s: a driver for CUDA 11.0 or later is needed", path,
                   function_names[i].symbol);
        return false;
    }
    return true;
}

static int device_attr(Cuda *c, int attribute) {
    int v = 0;
    return c->cu.device_attr(&v, attribute, c->device) == CU_OK ? v : 0;
}

static bool describe(Cuda *c, Buf *err) {
    Device *d = &c->pub;
    char   *name = d->model;
    size_t  memory = 0;
    snprintf(d->model, sizeof d->model, "GPU");
    c->cu.device_name(name, sizeof d->model, c->device);
    d->model[sizeof d->model - 1] = 0;
    c->cu.device_memory(&memory, c->device);
    int major = device_attr(c, CU_DEV_MAJOR), minor = device_attr(c, CU_DEV_MINOR);
    d->processors = device_attr(c, CU_DEV_PROCESSORS);
    d->l2_bytes = (uint64_t)device_attr(c, CU_DEV_L2_BYTES);
    d->max_smem = (uint32_t)device_attr(c, CU_DEV_SMEM_OPTIN);
    d->memory_bytes = memory;
    d->ptx_version = ptx_version_of_driver(c->version);
    c_snprintf(d->description, sizeof d->description, "%s, sm_%d%d, %d multiprocessors, %.0f GiB, driver for CUDA %d.%d",
             name, major, minor, d->processors, (double)memory / (1 << 30), c->version / 1000, c->version % 1000 / 10);
    const Target *newest = target_of_device(major, minor);
    if (!newest) {
        buf_printf(err, "cuda: %s is an sm_%d%d; sm_80 (Ampere) or later is needed", name, major, minor);
        return false;
    }
    snprintf(d->arch, sizeof d->arch, "%s", newest->name);
    return true;
}

static bool find(Cuda *c, const DeviceOptions *opt, Buf *err) {
    int count = 0;
    CuResult r = c->cu.init(0);
    if (r == CU_NO_DEVICE) { buf_puts(err, "cuda: the driver finds no GPU: "); driver_words(c, r, err); return false; }
    if (!cuda_ok(c, r, err, "start the driver", NULL)) return false;
    if (!cuda_ok(c, c->cu.driver_version(&c->version), err, "ask the driver's version", NULL)) return false;
    if (c->version < 11000) {
        buf_printf(err, "cuda: the driver is for CUDA %d.%d; 11.0 or later is needed", c->version / 1000,
                   c->version % 1000 / 10);
        return false;
    }
    if (!cuda_ok(c, c->cu.device_count(&count), err, "count the GPUs", NULL)) return false;
    if (opt->ordinal < 0 || opt->ordinal >= count) {
        if (!count) buf_puts(err, "cuda: the driver finds no GPU");
        else
            buf_printf(err, "cuda: there is no GPU %d; there %s %d, from 0", opt->ordinal, count == 1 ? "is" : "are",
                       count);
        return false;
    }
    return cuda_ok(c, c->cu.device_get(&c->device, opt->ordinal), err, "get the GPU", NULL) && describe(c, err);
}

static bool cuda_start(Device *d, Buf *err) {
    Cuda *c = (Cuda *)d;
    if (!cuda_ok(c, c->cu.context_retain(&c->context, c->device), err, "make a context on", c->pub.description)) {
        c->context = NULL;
        return false;
    }
    return cuda_ok(c, c->cu.context_use(c->context), err, "use the context on", c->pub.description);
}

// An H200's context: 45 ms instead of 95, its end 75 instead of 105; models of 60 to 130 launches run as fast.
void device_alone(void) { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0); }

static void cuda_close(Device *d) {
    Cuda *c = (Cuda *)d;
    if (c->context) {
        c->cu.context_use(c->context);
        for (int i = 0; i < MARKS; i++) if (c->marks[i]) c->cu.event_destroy(c->marks[i]);
        c->cu.context_release(c->device);
    }
    if (c->library) dlclose(c->library);
    heap_free(c);
}

static void end_cuda(void *c, uint64_t none) { (void)none; cuda_close(c); }

static Device *cuda_open(const DeviceOptions *opt, Buf *err) {
    Cuda *c = heap_alloc(sizeof *c);
    c->pub.ops = &cuda_ops;
    heap_hold(end_cuda, c, 0);
    bool fine = load_symbols(c, opt->driver ? opt->driver : "libcuda.so.1", err) && find(c, opt, err);
    heap_let_go(end_cuda, c, 0);
    if (fine) return &c->pub;
    cuda_close(&c->pub);
    return NULL;
}

Cuda *cuda_use(Device *d) {
    Cuda *c = (Cuda *)d;
    c->cu.context_use(c->context);
    return c;
}

// ---- memory --------------------------------------------------------------------------------------

static uint64_t cuda_alloc(Device *d, uint64_t bytes, const char *name, Buf *err) {
    Cuda *c = cuda_use(d);
    CuPtr p = 0;
    CuResult r = c->cu.alloc(&p, bytes ? bytes : 256);
    if (r == CU_OK) return p;
    char what[160];
    c_snprintf(what, sizeof what, "%.3f GiB for `%s`", (double)bytes / (1 << 30), name);
    cuda_ok_late(c, r, err, "allocate", what);
    return 0;
}

static void cuda_free(Device *d, uint64_t address) {
    if (address) cuda_use(d)->cu.free(address);
}

static bool cuda_write(Device *d, uint64_t to, const void *from, uint64_t bytes, Buf *err) {
    Cuda *c = cuda_use(d);
    return !bytes || cuda_ok_late(c, c->cu.write(to, from, bytes), err, "copy to the GPU", NULL);
}

static bool cuda_read(Device *d, void *to, uint64_t from, uint64_t bytes, Buf *err) {
    Cuda *c = cuda_use(d);
    return !bytes || cuda_ok_late(c, c->cu.read(to, from, bytes), err, "copy from the GPU", NULL);
}

// Bytes [0, have) again and again behind themselves.
static bool spread(Cuda *c, uint64_t to, uint64_t have, uint64_t bytes, Buf *err) {
    bool fine = true;
    for (uint64_t n; fine && have < bytes; have += n) {
        n = bytes - have < have ? bytes - have : have;
        fine = cuda_ok_late(c, c->cu.copy(to + have, to, n, NULL), err, "fill memory", NULL);
    }
    return fine;
}

static bool cuda_fill(Device *d, uint64_t to, uint64_t bytes, DeviceFill fill, uint64_t seed, Buf *err) {
    enum { PIECE = 1 << 18 };
    Cuda *c = cuda_use(d);
    if (!bytes) return true;
    if (fill == FILL_ZERO || fill == FILL_NAN)
        return cuda_ok_late(c, c->cu.set8(to, fill == FILL_ZERO ? 0 : 0xff, bytes, NULL), err, "fill memory", NULL);
    if (fill == FILL_INF && bytes % 2 == 0)
        return cuda_ok_late(c, c->cu.set16(to, seed & 1 ? 0x7c00 : 0x7f80, bytes / 2, NULL), err, "fill memory", NULL);
    uint64_t n = bytes < PIECE ? bytes : PIECE;
    void    *piece = heap_alloc(n);
    junk_fill(piece, n, fill, seed);
    bool fine = cuda_write(d, to, piece, n, err) && spread(c, to, n, bytes, err);
    heap_free(piece);
    return fine;
}

static void *cuda_host(Device *d, uint64_t address, uint64_t bytes) { (void)d; (void)address; (void)bytes; return NULL; }

// ---- modules -------------------------------------------------------------------------------------

static void version_text(int ptx, Buf *err) { buf_printf(err, "%d.%d", ptx / 10, ptx % 10); }

static void too_old(const Cuda *c, int version, Buf *err) {
    const char *release = cuda_release_of_ptx(version);
    buf_puts(err, "cuda: the code is PTX ");
    version_text(version, err);
    buf_printf(err, ", but the driver (for CUDA %d.%d) takes up to ", c->version / 1000, c->version % 1000 / 10);
    version_text(c->pub.ptx_version, err);
    if (release) buf_printf(err, ": install a driver for CUDA %s or later", release);
}

static void end_module(void *c, uint64_t m) { ((Cuda *)c)->cu.module_unload(((DeviceModule *)(uintptr_t)m)->module); }

static DeviceModule *cuda_load(Device *d, const char *code, size_t n, Buf *log, Buf *err) {
    Cuda *c = cuda_use(d);
    bool  cubin = n >= 4 && memcmp(code, "\177ELF", 4) == 0;
    int   version = cubin ? 0 : ptx_text_version(code, n);
    if (version && d->ptx_version && version > d->ptx_version) { too_old(c, version, err); return NULL; }

    char *text = copy_text(code, n), *info = heap_alloc(LOG_BYTES), *errors = heap_alloc(LOG_BYTES);
    enum { OPTIONS = 5 };
    int options[OPTIONS] = {CU_JITOPT_INFO_LOG, CU_JITOPT_INFO_LOG_BYTES, CU_JITOPT_ERROR_LOG,
                            CU_JITOPT_ERROR_LOG_BYTES, CU_JITOPT_LOG_VERBOSE};
    void *values[OPTIONS] = {info, (void *)(uintptr_t)(LOG_BYTES - 1), errors, (void *)(uintptr_t)(LOG_BYTES - 1),
                             (void *)(uintptr_t)1};
    CuModule module = NULL;
    DeviceModule *m = heap_alloc(sizeof *m);
    CuResult r = c->cu.module_load(&module, text, OPTIONS, options, values);
    m->module = r == CU_OK ? module : NULL;
    if (r == CU_OK) {
        heap_hold(end_module, c, (uint64_t)(uintptr_t)m);
        if (log && info[0]) { buf_puts(log, info); if (log->p[log->n - 1] != '\n') buf_putc(log, '\n'); }
        heap_let_go(end_module, c, (uint64_t)(uintptr_t)m);
    } else if (r == CU_UNSUPPORTED_PTX_VERSION && version && d->ptx_version) too_old(c, version, err);
    else {
        cuda_ok_late(c, r, err, "load the code", NULL);
        if (errors[0]) { buf_puts(err, "; its assembler: "); one_line(err, errors, strlen(errors)); }
    }
    heap_free(text);
    heap_free(info);
    heap_free(errors);
    if (m->module) return m;
    heap_free(m);
    return NULL;
}

static void cuda_unload(Device *d, DeviceModule *m) {
    if (!m) return;
    cuda_use(d)->cu.module_unload(m->module);
    for (Function *f = m->functions, *next; f; f = next) { next = f->next; heap_free(f); }
    heap_free(m);
}

static int function_attr(Cuda *c, CuFunction f, int attribute) {
    int v = 0;
    return c->cu.function_attr(&v, attribute, f) == CU_OK ? v : 0;
}

static bool cuda_find(Device *d, DeviceModule *m, const char *entry, DeviceKernel *out, Buf *err) {
    Cuda *c = cuda_use(d);
    CuFunction f = NULL;
    CuResult r = c->cu.module_function(&f, m->module, entry);
    if (r == CU_NOT_FOUND) {
        buf_printf(err, "cuda: the code has no entry `%s`: ", entry);
        driver_words(c, r, err);
        return false;
    }
    if (!cuda_ok_late(c, r, err, "find the entry", entry)) return false;
    Function *fn = heap_alloc(sizeof *fn);
    fn->f = f;
    fn->next = m->functions;
    m->functions = fn;
    *out = (DeviceKernel){.module = m,
                          .handle = fn,
                          .registers = function_attr(c, f, CU_FN_REGISTERS),
                          .local_bytes = function_attr(c, f, CU_FN_LOCAL_BYTES),
                          .static_smem = function_attr(c, f, CU_FN_SHARED_BYTES),
                          .max_threads = function_attr(c, f, CU_FN_MAX_THREADS)};
    snprintf(out->name, sizeof out->name, "%s", entry);
    return true;
}

// Drivers since CUDA 12.4 say what an entry takes.
static bool cuda_takes(Device *d, const DeviceKernel *k, const uint32_t *sizes, int n) {
    Cuda *c = cuda_use(d);
    CuFunction f = ((const Function *)k->handle)->f;
    size_t at, size;
    if (!c->cu.param_info) return true;
    for (int i = 0; i < n; i++)
        if (c->cu.param_info(f, (size_t)i, &at, &size) != CU_OK || size != sizes[i]) return false;
    return c->cu.param_info(f, (size_t)n, &at, &size) != CU_OK;
}

// ---- launching -----------------------------------------------------------------------------------

static bool allow_smem(Cuda *c, const DeviceLaunch *l, Function *fn, Buf *err) {
    uint32_t fixed = (uint32_t)l->kernel->static_smem;
    if (l->smem <= fn->smem_allowed || l->smem + fixed <= STATIC_SMEM) return true;
    if (c->pub.max_smem && l->smem + fixed > c->pub.max_smem) {
        buf_printf(err, "cuda: `%s` needs %.1f KiB of shared memory a block; this GPU has %.1f", l->kernel->name,
                   (l->smem + fixed) / 1024.0, c->pub.max_smem / 1024.0);
        return false;
    }
    if (!cuda_ok_late(c, c->cu.function_set(fn->f, CU_FN_MAX_DYNAMIC_SHARED, (int)l->smem), err,
                      "allow shared memory for", l->kernel->name))
        return false;
    fn->smem_allowed = l->smem;
    return true;
}

static bool clustered(const DeviceLaunch *l) { return l->cluster[0] > 1 || l->cluster[1] > 1 || l->cluster[2] > 1; }

static bool allow_clusters(Cuda *c, const DeviceLaunch *l, Function *fn, Buf *err) {
    uint32_t size = l->cluster[0] * l->cluster[1] * l->cluster[2];
    if (!since((const void *)(uintptr_t)c->cu.launch_ex, "clusters", "11.8", err)) return false;
    if (size <= 8 || fn->big_clusters) return true;
    if (!cuda_ok_late(c, c->cu.function_set(fn->f, CU_FN_NON_PORTABLE_CLUSTER, 1), err, "allow large clusters for",
                      l->kernel->name))
        return false;
    return fn->big_clusters = true;
}

bool cuda_ready(Cuda *c, const DeviceLaunch *l, Buf *err) {
    uint32_t threads = l->block[0] * l->block[1] * l->block[2];
    if (l->kernel->max_threads && threads > (uint32_t)l->kernel->max_threads) {
        buf_printf(err,
                   "cuda: `%s` is launched with %u threads a block, but at most %d fit: it uses %d registers a thread",
                   l->kernel->name, threads, l->kernel->max_threads, l->kernel->registers);
        return false;
    }
    if (l->together && !since((const void *)(uintptr_t)c->cu.launch_ex, "blocks that wait for each other", "11.8", err)) return false;
    if (l->overlaps && !since((const void *)(uintptr_t)c->cu.launch_ex, "launches that begin early", "11.8", err)) return false;
    if (l->overlaps) c->cu.function_set(((Function *)l->kernel->handle)->f, CU_FN_SMEM_CARVEOUT, 100);        // as in graphs: a hint
    return allow_smem(c, l, l->kernel->handle, err) && (!clustered(l) || allow_clusters(c, l, l->kernel->handle, err));
}

// What plain launches do not say: a cluster, or blocks that begin as one; and that the end of the launch before is not waited for.
static unsigned attributes(const DeviceLaunch *l, CuLaunchAttr *to) {
    unsigned n = 0;
    if (l->together) to[n++] = (CuLaunchAttr){.id = CU_ATTR_COOPERATIVE, .value.cooperative = 1};
    else if (clustered(l)) to[n++] = (CuLaunchAttr){.id = CU_ATTR_CLUSTER, .value.cluster = {l->cluster[0], l->cluster[1], l->cluster[2]}};
    if (l->overlaps) to[n++] = (CuLaunchAttr){.id = CU_ATTR_PROGRAMMATIC, .value.programmatic = 1};
    return n;
}

static CuResult launch_now(const Cuda *c, const DeviceLaunch *l, CuStream stream) {
    const Function *fn = l->kernel->handle;
    CuLaunchAttr attr[2];
    CuLaunchConfig config = {
        .grid_x = l->grid[0], .grid_y = l->grid[1], .grid_z = l->grid[2],
        .block_x = l->block[0], .block_y = l->block[1], .block_z = l->block[2], .smem = l->smem,
        .stream = stream, .attrs = attr, .nattrs = attributes(l, attr),
    };
    if (config.nattrs) return c->cu.launch_ex(&config, fn->f, l->params, NULL);
    return c->cu.launch(fn->f, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->smem,
                        stream, l->params, NULL);
}

static bool not_launched(Cuda *c, CuResult r, const DeviceLaunch *l, Buf *err) {
    Buf what = {0};
    launch_text(l, &what);
    cuda_ok_late(c, r, err, "launch", what.p);
    buf_free(&what);
    return false;
}

static bool cuda_ready_(Device *d, const DeviceLaunch *l, Buf *err) { return cuda_ready(cuda_use(d), l, err); }

static bool cuda_launch_on(Device *d, const DeviceLaunch *l, void *stream, Buf *err) {
    Cuda *c = cuda_use(d);
    CuResult r = launch_now(c, l, stream);
    return r == CU_OK || not_launched(c, r, l, err);
}

static bool cuda_launch(Device *d, const DeviceLaunch *l, Buf *err) {
    Cuda *c = cuda_use(d);
    if (!cuda_ready(c, l, err)) return false;
    CuResult r = launch_now(c, l, NULL);
    if (r != CU_OK) return not_launched(c, r, l, err);
    c->last_kernel = *l->kernel;
    c->last = *l;
    c->last.kernel = &c->last_kernel;
    c->last_nodes = 0;
    return true;
}

static bool cuda_map(Device *d, const TensorMapSpec *s, TensorMap *out, Buf *err) {
    static const int types[EL_COUNT] = {
        [EL_bool] = CU_MAP_U8, [EL_i8] = CU_MAP_U8, [EL_u8] = CU_MAP_U8, [EL_f8e4m3] = CU_MAP_U8, [EL_f8e5m2] = CU_MAP_U8,
        [EL_i16] = CU_MAP_U16, [EL_u16] = CU_MAP_U16, [EL_f16] = CU_MAP_F16, [EL_bf16] = CU_MAP_BF16, [EL_i32] = CU_MAP_I32,
        [EL_u32] = CU_MAP_U32, [EL_f32] = CU_MAP_F32, [EL_i64] = CU_MAP_I64, [EL_u64] = CU_MAP_U64, [EL_index] = CU_MAP_I64,
        [EL_f64] = CU_MAP_F64,
    };
    static const uint32_t ones[5] = {1, 1, 1, 1, 1};
    Cuda *c = cuda_use(d);
    int swizzle = s->swizzle == 128  ? CU_MAP_SWIZZLE_128
                  : s->swizzle == 64 ? CU_MAP_SWIZZLE_64
                  : s->swizzle == 32 ? CU_MAP_SWIZZLE_32
                                     : CU_MAP_SWIZZLE_OFF;
    int type = s->rounds ? CU_MAP_TF32 : types[s->elem];
    void *base = (void *)(uintptr_t)s->address;
    CuTensorMap map = {0};
    CuResult r;
    if (s->im2col) {
        if (!since((const void *)(uintptr_t)c->cu.map_im2col, "tensor maps", "12.0", err)) return false;
        r = c->cu.map_im2col(&map, type, s->rank, base, s->dims, s->strides + 1, s->lower, s->upper,
                             s->channels, s->pixels, s->step, CU_MAP_INTERLEAVE_OFF, swizzle, CU_MAP_L2_128,
                             CU_MAP_OOB_ZERO);
    } else {
        if (!since((const void *)(uintptr_t)c->cu.map_tiled, "tensor maps", "12.0", err)) return false;
        r = c->cu.map_tiled(&map, type, s->rank, base, s->dims, s->strides + 1, s->box, ones,
                            CU_MAP_INTERLEAVE_OFF, swizzle, CU_MAP_L2_128, CU_MAP_OOB_ZERO);
    }
    memcpy(out->bytes, &map, sizeof out->bytes);
    if (r == CU_OK) return true;
    Buf what = {0};                                        // what TMA asks: 16-byte strides and base, boxes of at most 256
    buf_printf(&what, "of %s, dimensions", elem_name(s->elem));
    for (uint32_t i = 0; i < s->rank; i++) buf_printf(&what, "%s %llu", i ? " x" : "", (unsigned long long)s->dims[i]);
    buf_puts(&what, ", strides in bytes");
    for (uint32_t i = 1; i < s->rank; i++) buf_printf(&what, "%s %llu", i > 1 ? "," : "", (unsigned long long)s->strides[i]);
    buf_puts(&what, ", box");
    for (uint32_t i = 0; i < s->rank && !s->im2col; i++) buf_printf(&what, "%s %u", i ? " x" : "", s->box[i]);
    buf_printf(&what, ", swizzle %d, address %% 16 = %d", s->swizzle, (int)(s->address % 16));
    cuda_ok(c, r, err, "encode a tensor map", what.p);
    buf_free(&what);
    return false;
}

// ---- waiting and timing --------------------------------------------------------------------------

static bool cuda_sync(Device *d, Buf *err) {
    Cuda *c = cuda_use(d);
    return cuda_ok_late(c, c->cu.context_sync(), err, "finish on the GPU", NULL);
}

static bool cuda_mark(Device *d, int i, Buf *err) {
    Cuda *c = cuda_use(d);
    if (i < 0 || i >= MARKS) { buf_printf(err, "there is no mark %d", i); return false; }
    if (!c->marks[i] && !cuda_ok(c, c->cu.event_create(&c->marks[i], 0), err, "make an event", NULL)) {
        c->marks[i] = NULL;
        return false;
    }
    return cuda_ok_late(c, c->cu.event_record(c->marks[i], NULL), err, "record an event", NULL);
}

static bool cuda_between(Device *d, int i, int j, double *us, Buf *err) {
    Cuda *c = cuda_use(d);
    float ms = 0;
    if (i < 0 || j < 0 || i >= MARKS || j >= MARKS || !c->marks[i] || !c->marks[j]) {
        buf_printf(err, "there is no mark %d or %d", i, j);
        return false;
    }
    if (!cuda_ok_late(c, c->cu.event_sync(c->marks[j]), err, "wait for an event", NULL)) return false;
    if (!cuda_ok_late(c, c->cu.event_elapsed(&ms, c->marks[i], c->marks[j]), err, "read the time between events", NULL))
        return false;
    *us = (double)ms * 1e3;
    return true;
}

const DeviceOps cuda_ops = {
    .name = "cuda", .meaning = "a GPU, through the driver", .runs_ptx = true, .loads_on_threads = true,
    .open = cuda_open, .start = cuda_start, .close = cuda_close, .alloc = cuda_alloc, .free = cuda_free, .write = cuda_write, .read = cuda_read,
    .pin = cuda_pin, .unpin = cuda_unpin, .stage_make = cuda_stage_make, .stage_room = cuda_stage_room, .stage_send = cuda_stage_send, .stage_fetch = cuda_stage_fetch, .stage_free = cuda_stage_free,
    .fill = cuda_fill, .host = cuda_host, .load = cuda_load, .unload = cuda_unload, .find = cuda_find, .takes = cuda_takes, .launch = cuda_launch,
    .ready = cuda_ready_, .launch_on = cuda_launch_on,
    .graph_make = cuda_graph_make, .graph_launch = cuda_graph_launch, .graph_set = cuda_graph_set, .graph_free = cuda_graph_free,
    .tensor_map = cuda_map, .sync = cuda_sync, .mark = cuda_mark, .between = cuda_between,
};

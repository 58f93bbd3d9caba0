// Devices: where kernels run. A device is a row of functions; everything above it (arguments,
// launches, tests, timing) is written once and knows no driver.
//
//   cuda   a GPU, through the driver API of libcuda.so.1, loaded when it is asked for (cuda.c)
//   emu    the PTX that the GPU would get, on the CPU (emu_device.c)
//   eval   the tile IR's meaning on host memory; takes no PTX (eval_device.c)
//
// Every call that can fail returns false (or NULL, or 0) after adding one line of words to `err`, the
// driver's own among them. Memory is addressed by 64-bit device addresses.
// Memory, load, find, tensor_map and launch_on may be called from many threads at once, launch on emu and eval
// too; marks, and launch on cuda, are for one thread.
//
//     Device *dev = device_open("auto", NULL, &err);
//     uint64_t x = device_alloc(dev, 4096, "x", &err);
//     DeviceModule *m = device_load(dev, ptx, strlen(ptx), NULL, &err);
//     DeviceKernel k;  dev->ops->find(dev, m, "scale", &k, &err);
//     dev->ops->launch(dev, &(DeviceLaunch){.kernel = &k, .grid = {8, 1, 1}, .block = {128, 1, 1}, .params = p}, &err);
//     dev->ops->sync(dev, &err);
#ifndef TK_RUNTIME_DEVICE_H
#define TK_RUNTIME_DEVICE_H

#include "lang/lang.h"

typedef struct Device Device;
typedef struct DeviceModule DeviceModule;
typedef struct DeviceGraph DeviceGraph;
typedef struct DeviceStage DeviceStage;

typedef enum DeviceFill { FILL_ZERO, FILL_NAN, FILL_INF, FILL_RANDOM } DeviceFill;   // junk is every fill but zero

typedef struct DeviceOptions {
    int         ordinal;               // cuda: which GPU
    const char *driver;                // cuda: path of the driver library; NULL: libcuda.so.1
    void      (*print)(void *ctx, const char *text, size_t n);   // what kernels print; NULL: standard output
    void       *print_ctx;
} DeviceOptions;

typedef struct DeviceKernel {
    DeviceModule *module;
    void         *handle;
    char          name[128];           // shortened in messages only
    int           registers;           // a thread; 0: not known
    int           local_bytes;         // a thread (spills and local arrays)
    int           static_smem;         // bytes a block
    int           max_threads;         // a block; 0: not known
} DeviceKernel;

typedef struct DeviceRange { uint64_t address, bytes; } DeviceRange;

typedef struct DeviceLaunch {
    const DeviceKernel *kernel;
    uint32_t grid[3], block[3];
    uint32_t cluster[3];               // 0, 0, 0 and 1, 1, 1: no clusters
    uint32_t smem;                     // dynamic shared memory, bytes
    bool     overlaps;                 // on a stream it may be started so, too (launch_on)
    bool     early;                    // in a graph it may be started before the end of what it follows: it waits by itself,
    const DeviceRange *fixed;          // and reads these before it does: no launch beside it writes them
    int      nfixed;
    bool     together;                 // blocks wait for each other: the launch begins when there is room for all of them
    bool     partial;                  // products may read shared memory that nothing wrote, for dead lanes
    void   **params;                   // addresses of the values, as for cuLaunchKernel
} DeviceLaunch;

// A tensor map: arguments as cuTensorMapEncodeTiled, dimension 0 innermost. For im2col, `im2col` is set, box
// is unused and the corners, channels and pixels say the window.
typedef struct TensorMapSpec {
    Elem     elem;
    uint32_t rank;
    uint64_t address;
    uint64_t dims[5];
    uint64_t strides[5];               // bytes; [0] is not read
    uint32_t box[5];
    uint8_t  swizzle;                  // 0, 32, 64, 128
    bool     rounds;                   // f32 becomes tf32, the nearest, on its way to shared memory
    bool     im2col;
    int      lower[3], upper[3];
    uint32_t step[5];                  // of im2col: how far apart pixels are, by dimension
    uint32_t channels, pixels;
} TensorMapSpec;
typedef struct TensorMap { _Alignas(128) uint8_t bytes[128]; } TensorMap;

// Launches made as one: each waits for those in `after`, numbers of nodes before it.
typedef struct DeviceNode { const DeviceLaunch *launch; const int *after; int nafter; } DeviceNode;

typedef struct DeviceOps {
    const char *name, *meaning;
    bool        loads_on_threads;      // `load` may be called from many at once
    bool        runs_ptx;              // false: the tile IR is run on `host` memory instead
    Device   *(*open)(const DeviceOptions *opt, Buf *err);                      // finds and describes it
    bool      (*start)(Device *d, Buf *err);                                     // before anything is done with it. NULL in a row: nothing is to do
    void      (*close)(Device *d);
    uint64_t  (*alloc)(Device *d, uint64_t bytes, const char *name, Buf *err);   // never 0; 256-aligned; 0 bytes are legal
    void      (*free)(Device *d, uint64_t address);
    bool      (*write)(Device *d, uint64_t to, const void *from, uint64_t bytes, Buf *err);
    bool      (*read)(Device *d, void *to, uint64_t from, uint64_t bytes, Buf *err);
    bool      (*fill)(Device *d, uint64_t to, uint64_t bytes, DeviceFill fill, uint64_t seed, Buf *err);
    // Room of the caller's that the device copies from, or to, by itself: one for each thread (transfer.c). NULL in a row: write and read.
    // It is pinned before, that of several together: a call takes longer than its pages.
    bool      (*pin)(Device *d, void *room, uint64_t bytes, Buf *err);
    void      (*unpin)(Device *d, void *room);
    DeviceStage *(*stage_make)(Device *d, void *room, Buf *err);
    void     *(*stage_room)(Device *d, DeviceStage *s, Buf *err);                // waits until what was sent is there. NULL: err
    bool      (*stage_send)(Device *d, DeviceStage *s, uint64_t to, uint64_t bytes, Buf *err);      // returns before that
    bool      (*stage_fetch)(Device *d, DeviceStage *s, uint64_t from, uint64_t bytes, Buf *err);   // to its room, and waits
    void      (*stage_free)(Device *d, DeviceStage *s);
    void     *(*host)(Device *d, uint64_t address, uint64_t bytes);              // bytes on this machine, or NULL
    // PTX text or cubin -> module; `log` (or NULL) takes what the assembler says of registers and spills.
    DeviceModule *(*load)(Device *d, const char *code, size_t n, Buf *log, Buf *err);
    void      (*unload)(Device *d, DeviceModule *m);
    bool      (*find)(Device *d, DeviceModule *m, const char *entry, DeviceKernel *out, Buf *err);
    // Does the code take n parameters of these sizes? NULL, or true: the device does not know.
    bool      (*takes)(Device *d, const DeviceKernel *k, const uint32_t *sizes, int n);
    bool      (*launch)(Device *d, const DeviceLaunch *l, Buf *err);             // may return before it has run
    // On a stream of the caller's, for launches that `ready` was asked of once: from any thread, without memory, without a
    // lock. NULL in a row: there are no streams.
    bool      (*ready)(Device *d, const DeviceLaunch *l, Buf *err);
    bool      (*launch_on)(Device *d, const DeviceLaunch *l, void *stream, Buf *err);
    bool      (*tensor_map)(Device *d, const TensorMapSpec *spec, TensorMap *out, Buf *err);
    // NULL in a row: there are none, launch one by one. NULL as a result without words: not with this driver.
    DeviceGraph *(*graph_make)(Device *d, const DeviceNode *nodes, int n, Buf *err);
    bool      (*graph_launch)(Device *d, DeviceGraph *g, void *stream, Buf *err);
    // From its next launch on, node i is this launch: of the same kernel, with other parameters. NULL in a row: that cannot be.
    bool      (*graph_set)(Device *d, DeviceGraph *g, int i, const DeviceLaunch *l, Buf *err);
    void      (*graph_free)(Device *d, DeviceGraph *g);
    bool      (*sync)(Device *d, Buf *err);
    bool      (*mark)(Device *d, int i, Buf *err);                               // notes the time of everything so far as mark i
    bool      (*between)(Device *d, int i, int j, double *us, Buf *err);         // waits for mark j
} DeviceOps;

struct Device {
    const DeviceOps *ops;
    char       description[160];       // "NVIDIA H200, sm_90, 132 multiprocessors, 139 GiB, driver CUDA 13.0"
    char       model[64];              // "NVIDIA H200"; "" where nothing is to be measured
    char       arch[16];               // the target to compile for: "sm_90a"; "" on eval
    int        ptx_version;            // newest .version that it takes, 90 for 9.0; 0: any
    int        processors;             // multiprocessors, 0: not known
    uint64_t   l2_bytes, memory_bytes; // 0: not known
    uint32_t   max_smem;               // dynamic, bytes a block; 0: not known
    struct DeviceOpening *opening;     // it is being started on another thread; NULL: it is ready
    DeviceFill junk;                   // emu: what registers, shared and local memory hold before a write
    uint64_t   junk_seed;              //      (FILL_ZERO means random)
    uint64_t   order_seed;             // emu: order of warps, and when asynchronous copies take effect; 0: in turns, as late as may be
    bool       check_races;            // emu: off is faster; on by default
    bool       allow_uninitialised;    // emu: shared memory may be read that nothing wrote
    bool       in_order;               // emu: one block after the other, so that sums by atomics come out alike each time
};

// `name` is cuda, emu or eval, or "auto": cuda if there is a GPU, else emu. NULL when it cannot be had.
Device *device_open(const char *name, const DeviceOptions *opt, Buf *err);
// The same on a thread of its own, for who has something else to do until then:
//
//     DeviceOpening *o = device_open_later("cuda", NULL);       half of a GPU's 0.2 s pass until it is known,
//     Device *d = device_found(o, &err);                        what can be planned with; o is the device's from here on
//     device_ready(d, &us, &err);                               the other half until it can be used
typedef struct DeviceOpening DeviceOpening;
DeviceOpening *device_open_later(const char *name, const DeviceOptions *opt);
Device *device_found(DeviceOpening *o, Buf *err);                  // waits. NULL: o is gone
bool    device_ready(Device *d, double *us, Buf *err);             // waits; us: how long all of it took, or NULL. Of any device, more than once
void    device_close(Device *d);                   // NULL is fine
// The same on a thread of its own: a GPU takes 25 ms to be closed, in which results are shown and memory is given back.
typedef struct DeviceClosing DeviceClosing;
DeviceClosing *device_close_later(Device *d);      // NULL is fine, and is what comes of it where there is nothing to wait for
void    device_closed(DeviceClosing *c);           // waits
// What of the device is the thread's heap's (lang/heap.h), which ends it when it is dropped: by the table's functions of these names.
uint64_t      device_alloc(Device *d, uint64_t bytes, const char *name, Buf *err);
void          device_free(Device *d, uint64_t address);
DeviceModule *device_load(Device *d, const char *code, size_t n, Buf *log, Buf *err);
void          device_unload(Device *d, DeviceModule *m);
DeviceGraph  *device_graph_make(Device *d, const DeviceNode *nodes, int n, Buf *err);
void          device_graph_free(Device *d, DeviceGraph *g);
// Said by a program that does nothing else with devices, before it opens one and has threads: a GPU then has one queue for work
// instead of eight, and is opened, and closed, in half the time.
void    device_alone(void);
// A line for each device, "name  description" or "name  why it is not there": `tkc devices`.
void    device_list(const DeviceOptions *opt, Buf *out);

// ".version 8.7" in PTX text -> 87; 0 when there is none (a cubin, say).
int         ptx_text_version(const char *ptx, size_t n);
int         ptx_version_of_driver(int cuda_version);   // cuDriverGetVersion's 12040 -> 84
const char *cuda_release_of_ptx(int ptx_version);      // 84 -> "12.4", or NULL when we do not know

#endif

// What the files of the device `cuda` share: cuda.c (the device), cuda_graph.c (launches made as one), cuda_stage.c
// (much data).
#ifndef TK_RUNTIME_CUDA_INTERNAL_H
#define TK_RUNTIME_CUDA_INTERNAL_H

#include "runtime/cuda_driver.h"
#include "runtime/internal.h"

enum { MARKS = 4096 };

typedef struct Driver {
#define X(field, symbol, since, params) CuResult (*field) params;
    CUDA_FUNCTIONS(X)
#undef X
} Driver;

typedef struct Function Function;
struct Function {                        // one per entry asked for, owned by its module
    Function  *next;
    CuFunction f;
    uint32_t   smem_allowed;
    bool       big_clusters;
};
struct DeviceModule { CuModule module; Function *functions; };

typedef struct Cuda {
    Device    pub;
    Driver    cu;
    void     *library;
    CuDevice  device;
    CuContext context;
    int       version;                   // 12040
    CuEvent   marks[MARKS];
    DeviceLaunch last;                   // what a later error may belong to; its kernel is last_kernel
    DeviceKernel last_kernel;
    int       last_nodes;                // .. or a graph of so many; 0 and no name: nothing yet
} Cuda;

Cuda *cuda_use(Device *d);               // makes its context current
// True when r is success. `doing` completes "cuda: cannot ...".
bool  cuda_ok_late(Cuda *c, CuResult r, Buf *err, const char *doing, const char *what);
bool  cuda_ready(Cuda *c, const DeviceLaunch *l, Buf *err);        // may it be launched? allows shared memory and clusters

// cuda_graph.c
DeviceGraph *cuda_graph_make(Device *d, const DeviceNode *nodes, int n, Buf *err);
bool         cuda_graph_launch(Device *d, DeviceGraph *g, void *stream, Buf *err);
bool         cuda_graph_set(Device *d, DeviceGraph *g, int i, const DeviceLaunch *l, Buf *err);
void         cuda_graph_free(Device *d, DeviceGraph *g);

// cuda_stage.c
bool         cuda_pin(Device *d, void *room, uint64_t bytes, Buf *err);
void         cuda_unpin(Device *d, void *room);
DeviceStage *cuda_stage_make(Device *d, void *room, Buf *err);
void        *cuda_stage_room(Device *d, DeviceStage *s, Buf *err);
bool         cuda_stage_send(Device *d, DeviceStage *s, uint64_t to, uint64_t bytes, Buf *err);
bool         cuda_stage_fetch(Device *d, DeviceStage *s, uint64_t from, uint64_t bytes, Buf *err);
void         cuda_stage_free(Device *d, DeviceStage *s);

#endif

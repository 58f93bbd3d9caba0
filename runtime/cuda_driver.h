// The part of NVIDIA's driver API that we use, declared by ourselves, so that building needs no CUDA
// toolkit. Names are cuda.h's with a prefix of our own; tests/runtime/test_cuda_header.c holds every
// value, size and symbol against cuda.h where there is one.
//
// Symbols are those that cuda.h maps the plain names to (cuMemAlloc is cuMemAlloc_v2), but
// cuEventElapsedTime, whose _v2 only drivers since 12.8 have.
#ifndef TK_RUNTIME_CUDA_DRIVER_H
#define TK_RUNTIME_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int      CuResult;
typedef int      CuDevice;
typedef uint64_t CuPtr;
typedef struct CuContextT  *CuContext;
typedef struct CuModuleT   *CuModule;
typedef struct CuFunctionT *CuFunction;
typedef struct CuStreamT   *CuStream;
typedef struct CuEventT    *CuEvent;
typedef struct CuGraphT     *CuGraph;
typedef struct CuGraphNodeT *CuGraphNode;
typedef struct CuGraphExecT *CuGraphExec;

enum {
    CU_OK = 0, CU_INVALID_VALUE = 1, CU_OUT_OF_MEMORY = 2, CU_NO_DEVICE = 100, CU_NO_BINARY_FOR_GPU = 209, CU_INVALID_PTX = 218,
    CU_UNSUPPORTED_PTX_VERSION = 222, CU_NOT_FOUND = 500,
    CU_FIRST_FAULT = 700, CU_LAST_FAULT = 799,           // of a kernel: illegal address, misaligned, assert, ...

    CU_DEV_PROCESSORS = 16, CU_DEV_L2_BYTES = 38, CU_DEV_MAJOR = 75, CU_DEV_MINOR = 76, CU_DEV_SMEM_OPTIN = 97,

    CU_FN_MAX_THREADS = 0, CU_FN_SHARED_BYTES = 1, CU_FN_LOCAL_BYTES = 3, CU_FN_REGISTERS = 4, CU_FN_MAX_DYNAMIC_SHARED = 8,
    CU_FN_SMEM_CARVEOUT = 9, CU_FN_NON_PORTABLE_CLUSTER = 14,

    CU_JITOPT_INFO_LOG = 3, CU_JITOPT_INFO_LOG_BYTES = 4, CU_JITOPT_ERROR_LOG = 5, CU_JITOPT_ERROR_LOG_BYTES = 6, CU_JITOPT_LOG_VERBOSE = 12,

    CU_STREAM_ALONE = 1,
    CU_ATTR_COOPERATIVE = 2, CU_ATTR_CLUSTER = 4, CU_ATTR_PROGRAMMATIC = 6,
    CU_PORT_PROGRAMMATIC = 1, CU_EDGE_PROGRAMMATIC = 1,

    CU_MAP_U8 = 0, CU_MAP_U16 = 1, CU_MAP_U32 = 2, CU_MAP_I32 = 3, CU_MAP_U64 = 4, CU_MAP_I64 = 5, CU_MAP_F16 = 6, CU_MAP_F32 = 7,
    CU_MAP_F64 = 8, CU_MAP_BF16 = 9, CU_MAP_TF32 = 11,
    CU_MAP_INTERLEAVE_OFF = 0, CU_MAP_SWIZZLE_OFF = 0, CU_MAP_SWIZZLE_32 = 1, CU_MAP_SWIZZLE_64 = 2, CU_MAP_SWIZZLE_128 = 3,
    CU_MAP_L2_128 = 2, CU_MAP_OOB_ZERO = 0,
};

typedef struct CuTensorMap { _Alignas(128) uint64_t opaque[16]; } CuTensorMap;

typedef struct CuLaunchAttr {
    int  id;
    char pad[4];
    union { char bytes[64]; uint64_t align; int cooperative, programmatic; struct { unsigned x, y, z; } cluster; } value;
} CuLaunchAttr;

typedef struct CuLaunchConfig {
    unsigned      grid_x, grid_y, grid_z, block_x, block_y, block_z, smem;
    CuStream      stream;
    CuLaunchAttr *attrs;
    unsigned      nattrs;
} CuLaunchConfig;

typedef struct CuGraphEdge { unsigned char from_port, to_port, type, reserved[5]; } CuGraphEdge;

typedef struct CuKernelNode {
    CuFunction f;
    unsigned   grid_x, grid_y, grid_z, block_x, block_y, block_z, smem;
    void     **params, **extra;
    void      *kernel;
    CuContext  context;
} CuKernelNode;

// clang-format off
//   field             symbol                          since   parameters
#define CUDA_FUNCTIONS(X) \
    X(init,            cuInit,                         "11.0", (unsigned flags)) \
    X(error_name,      cuGetErrorName,                 "11.0", (CuResult, const char **)) \
    X(error_text,      cuGetErrorString,               "11.0", (CuResult, const char **)) \
    X(driver_version,  cuDriverGetVersion,             "11.0", (int *)) \
    X(device_count,    cuDeviceGetCount,               "11.0", (int *)) \
    X(device_get,      cuDeviceGet,                    "11.0", (CuDevice *, int ordinal)) \
    X(device_name,     cuDeviceGetName,                "11.0", (char *, int bytes, CuDevice)) \
    X(device_memory,   cuDeviceTotalMem_v2,            "11.0", (size_t *, CuDevice)) \
    X(device_attr,     cuDeviceGetAttribute,           "11.0", (int *, int attribute, CuDevice)) \
    X(context_retain,  cuDevicePrimaryCtxRetain,       "11.0", (CuContext *, CuDevice)) \
    X(context_release, cuDevicePrimaryCtxRelease_v2,   "11.0", (CuDevice)) \
    X(context_use,     cuCtxSetCurrent,                "11.0", (CuContext)) \
    X(context_sync,    cuCtxSynchronize,               "11.0", (void)) \
    X(alloc,           cuMemAlloc_v2,                  "11.0", (CuPtr *, size_t)) \
    X(free,            cuMemFree_v2,                   "11.0", (CuPtr)) \
    X(write,           cuMemcpyHtoD_v2,                "11.0", (CuPtr, const void *, size_t)) \
    X(read,            cuMemcpyDtoH_v2,                "11.0", (void *, CuPtr, size_t)) \
    X(set8,            cuMemsetD8Async,                "11.0", (CuPtr, unsigned char, size_t n, CuStream)) \
    X(set16,           cuMemsetD16Async,               "11.0", (CuPtr, unsigned short, size_t n, CuStream)) \
    X(copy,            cuMemcpyDtoDAsync_v2,           "11.0", (CuPtr to, CuPtr from, size_t, CuStream)) \
    X(write_async,     cuMemcpyHtoDAsync_v2,           "11.0", (CuPtr, const void *, size_t, CuStream)) \
    X(read_async,      cuMemcpyDtoHAsync_v2,           "11.0", (void *, CuPtr, size_t, CuStream)) \
    X(host_register,   cuMemHostRegister_v2,           "11.0", (void *, size_t, unsigned flags)) \
    X(host_unregister, cuMemHostUnregister,            "11.0", (void *)) \
    X(stream_create,   cuStreamCreate,                 "11.0", (CuStream *, unsigned flags)) \
    X(stream_destroy,  cuStreamDestroy_v2,             "11.0", (CuStream)) \
    X(stream_sync,     cuStreamSynchronize,            "11.0", (CuStream)) \
    X(module_load,     cuModuleLoadDataEx,             "11.0", (CuModule *, const void *, unsigned n, int *options, void **values)) \
    X(module_unload,   cuModuleUnload,                 "11.0", (CuModule)) \
    X(module_function, cuModuleGetFunction,            "11.0", (CuFunction *, CuModule, const char *)) \
    X(function_attr,   cuFuncGetAttribute,             "11.0", (int *, int attribute, CuFunction)) \
    X(function_set,    cuFuncSetAttribute,             "11.0", (CuFunction, int attribute, int value)) \
    X(param_info,      cuFuncGetParamInfo,             "12.4", (CuFunction, size_t index, size_t *offset, size_t *size)) \
    X(launch,          cuLaunchKernel,                 "11.0", (CuFunction, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned smem, CuStream, void **params, void **extra)) \
    X(event_create,    cuEventCreate,                  "11.0", (CuEvent *, unsigned flags)) \
    X(event_destroy,   cuEventDestroy_v2,              "11.0", (CuEvent)) \
    X(event_record,    cuEventRecord,                  "11.0", (CuEvent, CuStream)) \
    X(event_sync,      cuEventSynchronize,             "11.0", (CuEvent)) \
    X(event_elapsed,   cuEventElapsedTime,             "11.0", (float *ms, CuEvent, CuEvent)) \
    X(graph_create,    cuGraphCreate,                  "12.0", (CuGraph *, unsigned flags)) \
    X(graph_destroy,   cuGraphDestroy,                 "12.0", (CuGraph)) \
    X(graph_kernel,    cuGraphAddKernelNode_v2,        "12.0", (CuGraphNode *, CuGraph, const CuGraphNode *after, size_t n, const CuKernelNode *)) \
    X(graph_attr,      cuGraphKernelNodeSetAttribute,  "12.0", (CuGraphNode, int attribute, const void *value)) \
    X(graph_edges,     cuGraphAddDependencies_v2,      "12.3", (CuGraph, const CuGraphNode *from, const CuGraphNode *to, const CuGraphEdge *, size_t n)) \
    X(graph_make,      cuGraphInstantiateWithFlags,    "12.0", (CuGraphExec *, CuGraph, unsigned long long flags)) \
    X(graph_launch,    cuGraphLaunch,                  "12.0", (CuGraphExec, CuStream)) \
    X(graph_set,       cuGraphExecKernelNodeSetParams_v2, "12.0", (CuGraphExec, CuGraphNode, const CuKernelNode *)) \
    X(graph_free,      cuGraphExecDestroy,             "12.0", (CuGraphExec)) \
    X(launch_ex,       cuLaunchKernelEx,               "11.8", (const CuLaunchConfig *, CuFunction, void **params, void **extra)) \
    X(map_tiled,       cuTensorMapEncodeTiled,         "12.0", (CuTensorMap *, int type, uint32_t rank, void *base, const uint64_t *dims, const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int l2, int oob)) \
    X(map_im2col,      cuTensorMapEncodeIm2col,        "12.0", (CuTensorMap *, int type, uint32_t rank, void *base, const uint64_t *dims, const uint64_t *strides, const int *lower, const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *element_strides, int interleave, int swizzle, int l2, int oob))
// clang-format on

#endif

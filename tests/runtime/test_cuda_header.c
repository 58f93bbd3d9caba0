// Our declarations of the driver API against NVIDIA's, where cuda.h is to be had.

#include <stdio.h>
#include <string.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

#include "runtime/cuda_driver.h"

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)
SAME(CU_OK, CUDA_SUCCESS);
SAME(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(CU_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
SAME(CU_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(CU_DEV_PROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CU_DEV_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(CU_DEV_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CU_DEV_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CU_DEV_SMEM_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(CU_FN_MAX_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(CU_FN_SHARED_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(CU_FN_LOCAL_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(CU_FN_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(CU_FN_MAX_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(CU_FN_NON_PORTABLE_CLUSTER, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(CU_JITOPT_INFO_LOG, CU_JIT_INFO_LOG_BUFFER);
SAME(CU_JITOPT_INFO_LOG_BYTES, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
SAME(CU_JITOPT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME(CU_JITOPT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(CU_JITOPT_LOG_VERBOSE, CU_JIT_LOG_VERBOSE);
SAME(CU_STREAM_ALONE, CU_STREAM_NON_BLOCKING);
SAME(CU_ATTR_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(CU_ATTR_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME(CU_ATTR_PROGRAMMATIC, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(CU_MAP_U8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME(CU_MAP_U16, CU_TENSOR_MAP_DATA_TYPE_UINT16);
SAME(CU_MAP_U32, CU_TENSOR_MAP_DATA_TYPE_UINT32);
SAME(CU_MAP_I32, CU_TENSOR_MAP_DATA_TYPE_INT32);
SAME(CU_MAP_U64, CU_TENSOR_MAP_DATA_TYPE_UINT64);
SAME(CU_MAP_I64, CU_TENSOR_MAP_DATA_TYPE_INT64);
SAME(CU_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(CU_MAP_F32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(CU_MAP_F64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
SAME(CU_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(CU_MAP_INTERLEAVE_OFF, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME(CU_MAP_SWIZZLE_OFF, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(CU_MAP_SWIZZLE_32, CU_TENSOR_MAP_SWIZZLE_32B);
SAME(CU_MAP_SWIZZLE_64, CU_TENSOR_MAP_SWIZZLE_64B);
SAME(CU_MAP_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(CU_MAP_L2_128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(CU_MAP_OOB_ZERO, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

SAME(sizeof(CuResult), sizeof(CUresult));
SAME(sizeof(CuDevice), sizeof(CUdevice));
SAME(sizeof(CuPtr), sizeof(CUdeviceptr));
SAME(sizeof(CuTensorMap), sizeof(CUtensorMap));
SAME(sizeof(CuLaunchAttr), sizeof(CUlaunchAttribute));
SAME(offsetof(CuLaunchAttr, value), offsetof(CUlaunchAttribute, value));
SAME(offsetof(CuLaunchAttr, value.cooperative), offsetof(CUlaunchAttribute, value.cooperative));
SAME(offsetof(CuLaunchAttr, value.cluster.z), offsetof(CUlaunchAttribute, value.clusterDim.z));
SAME(sizeof(CuLaunchConfig), sizeof(CUlaunchConfig));
SAME(offsetof(CuLaunchConfig, smem), offsetof(CUlaunchConfig, sharedMemBytes));
SAME(offsetof(CuLaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
SAME(offsetof(CuLaunchConfig, attrs), offsetof(CUlaunchConfig, attrs));
SAME(offsetof(CuLaunchConfig, nattrs), offsetof(CUlaunchConfig, numAttrs));

#if CUDA_VERSION >= 12000
SAME(sizeof(CuKernelNode), sizeof(CUDA_KERNEL_NODE_PARAMS));
SAME(offsetof(CuKernelNode, smem), offsetof(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes));
SAME(offsetof(CuKernelNode, params), offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams));
SAME(offsetof(CuKernelNode, context), offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));
SAME(CU_ATTR_CLUSTER, CU_KERNEL_NODE_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(CU_ATTR_COOPERATIVE, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE);
#endif
#if CUDA_VERSION >= 12030
SAME(sizeof(CuGraphEdge), sizeof(CUgraphEdgeData));
SAME(offsetof(CuGraphEdge, type), offsetof(CUgraphEdgeData, type));
SAME(CU_PORT_PROGRAMMATIC, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
SAME(CU_EDGE_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
#endif

// The symbol that cuda.h gives a plain name.
#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)

static int wrong;

static void symbol(const char *ours, const char *theirs) {
    if (strcmp(ours, theirs) == 0) return;
    printf("we load %s where cuda.h has %s\n", ours, theirs);
    wrong++;
}

int main(void) {
    symbol("cuDeviceTotalMem_v2", TEXT(cuDeviceTotalMem));
    symbol("cuDevicePrimaryCtxRelease_v2", TEXT(cuDevicePrimaryCtxRelease));
    symbol("cuMemAlloc_v2", TEXT(cuMemAlloc));
    symbol("cuMemFree_v2", TEXT(cuMemFree));
    symbol("cuMemcpyHtoD_v2", TEXT(cuMemcpyHtoD));
    symbol("cuMemcpyDtoH_v2", TEXT(cuMemcpyDtoH));
    symbol("cuMemcpyDtoDAsync_v2", TEXT(cuMemcpyDtoDAsync));
    symbol("cuMemcpyHtoDAsync_v2", TEXT(cuMemcpyHtoDAsync));
    symbol("cuMemcpyDtoHAsync_v2", TEXT(cuMemcpyDtoHAsync));
    symbol("cuMemHostRegister_v2", TEXT(cuMemHostRegister));
    symbol("cuStreamDestroy_v2", TEXT(cuStreamDestroy));
    symbol("cuEventDestroy_v2", TEXT(cuEventDestroy));
    symbol("cuMemsetD8Async", TEXT(cuMemsetD8Async));
    symbol("cuMemsetD16Async", TEXT(cuMemsetD16Async));
    symbol("cuModuleLoadDataEx", TEXT(cuModuleLoadDataEx));
    symbol("cuModuleGetFunction", TEXT(cuModuleGetFunction));
    symbol("cuDeviceGetAttribute", TEXT(cuDeviceGetAttribute));
    symbol("cuDevicePrimaryCtxRetain", TEXT(cuDevicePrimaryCtxRetain));
#if CUDA_VERSION >= 12000
    symbol("cuGraphAddKernelNode_v2", TEXT(cuGraphAddKernelNode));
    symbol("cuGraphInstantiateWithFlags", TEXT(cuGraphInstantiate));
    symbol("cuGraphCreate", TEXT(cuGraphCreate));
    symbol("cuGraphDestroy", TEXT(cuGraphDestroy));
    symbol("cuGraphLaunch", TEXT(cuGraphLaunch));
    symbol("cuGraphExecDestroy", TEXT(cuGraphExecDestroy));
    symbol("cuGraphKernelNodeSetAttribute", TEXT(cuGraphKernelNodeSetAttribute));
#endif
#if CUDA_VERSION >= 13000
    symbol("cuGraphAddDependencies_v2", TEXT(cuGraphAddDependencies));
#endif
    symbol("cuLaunchKernel", TEXT(cuLaunchKernel));
    symbol("cuLaunchKernelEx", TEXT(cuLaunchKernelEx));
    symbol("cuTensorMapEncodeTiled", TEXT(cuTensorMapEncodeTiled));
    symbol("cuTensorMapEncodeIm2col", TEXT(cuTensorMapEncodeIm2col));
    symbol("cuEventCreate", TEXT(cuEventCreate));
    symbol("cuEventRecord", TEXT(cuEventRecord));
    symbol("cuFuncGetAttribute", TEXT(cuFuncGetAttribute));
#if CUDA_VERSION >= 12040
    symbol("cuFuncGetParamInfo", TEXT(cuFuncGetParamInfo));
#endif
    symbol("cuFuncSetAttribute", TEXT(cuFuncSetAttribute));
    printf("cuda.h %d agrees with us in all but %d symbols\n", CUDA_VERSION, wrong);
    return wrong != 0;
}
#else
int main(void) {
    puts("skipped: no cuda.h to compare with");
    return 0;
}
#endif

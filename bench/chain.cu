// What a dependent stage costs: each block reads what all blocks of the stage before have written, from L2 into shared memory, and writes 8 KB.
//
//     one kernel     a block waits until all of the stage before have said so (red.release, ld.acquire), as tiles that signal tiles would
//     launches       of one graph, each of which begins while the one before ends (griddepcontrol), as the graphs of `tkc run` do
//
// The least that 60 stages took, divided by 60, for as many bytes into each block: the floor of a network whose layers are short.
//
//     nvcc -arch=sm_90a -O2 -o chain bench/chain.cu && ./chain
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

enum { CHUNK = 16384, RING = 12, WRITE = 8192, STAGES = 60, ROUNDS = 12, TENSOR = 4 << 20 };

static void must(cudaError_t e) {
    if (!e) return;
    fprintf(stderr, "%s\n", cudaGetErrorString(e));
    exit(1);
}

__device__ static uint32_t shared(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ static void await(uint32_t bar, int phase) {
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L; }" :: "r"(bar), "r"(phase) : "memory");
}

__device__ static void bring(char *smem, uint64_t *bars, unsigned number, const char *from) {
    uint32_t bar = shared(&bars[number % RING]);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(CHUNK) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(shared(smem + number % RING * CHUNK)), "l"(from), "r"(CHUNK), "r"(bar) : "memory");
}

__device__ static void stage(char *smem, uint64_t *bars, const char *in, char *out, int chunks, unsigned *count) {
    auto place = [&](int i) { return in + (size_t)((blockIdx.x * 7 + i) % (gridDim.x * WRITE / CHUNK)) * CHUNK; };
    if (threadIdx.x == 0) {
        asm volatile("fence.proxy.async;" ::: "memory");
        for (int i = 0; i < chunks && i < RING; i++) bring(smem, bars, *count + i, place(i));
    }
    for (int i = 0; i < chunks; i++) {
        await(shared(&bars[(*count + i) % RING]), (*count + i) / RING & 1);
        if (threadIdx.x == 0 && i + RING < chunks) bring(smem, bars, *count + i, place(i + RING));
    }
    *count += chunks;
    for (int i = threadIdx.x; i < WRITE / 16; i += blockDim.x) ((uint4 *)(out + (size_t)blockIdx.x * WRITE))[i] = ((uint4 *)smem)[threadIdx.x];
}

__device__ static void begin(uint64_t *bars) {
    for (int i = 0; threadIdx.x == 0 && i < RING; i++) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(shared(&bars[i])));
    asm volatile("fence.mbarrier_init.release.cluster;");
    __syncthreads();
}

__global__ void one_kernel(char *a, char *b, unsigned *done, int chunks) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ uint64_t bars[RING];
    unsigned count = 0;
    begin(bars);
    for (int s = 0; s < STAGES; s++) {
        for (unsigned v = 0; threadIdx.x == 0 && s && v < gridDim.x;) asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(done + s) : "memory");
        __syncthreads();
        stage(smem, bars, s & 1 ? b : a, s & 1 ? a : b, chunks, &count);
        __syncthreads();
        if (threadIdx.x == 0) asm volatile("fence.proxy.async; red.release.gpu.add.u32 [%0], 1;" :: "l"(done + s + 1) : "memory");
    }
}

__global__ void one_stage(char *a, char *b, int s, int chunks) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ uint64_t bars[RING];
    unsigned count = 0;
    begin(bars);
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    stage(smem, bars, s & 1 ? b : a, s & 1 ? a : b, chunks, &count);
}

static cudaGraphExec_t captured(cudaStream_t stream, bool one, char *a, char *b, unsigned *done, int blocks, int chunks) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    if (one) {
        must(cudaMemsetAsync(done, 0, 4096, stream));
        one_kernel<<<blocks, 128, RING * CHUNK, stream>>>(a, b, done, chunks);
    }
    for (int s = 0; !one && s < STAGES; s++) {
        cudaLaunchConfig_t config = {};
        cudaLaunchAttribute early[1];
        early[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early[0].val.programmaticStreamSerializationAllowed = 1;
        config.gridDim = blocks, config.blockDim = 128, config.dynamicSmemBytes = RING * CHUNK, config.stream = stream;
        config.attrs = early, config.numAttrs = s > 0;
        must(cudaLaunchKernelEx(&config, one_stage, a, b, s, chunks));
    }
    must(cudaStreamEndCapture(stream, &graph));
    must(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

int main() {
    char *a, *b;
    unsigned *done;
    cudaStream_t stream;
    cudaEvent_t from, to;
    must(cudaMalloc(&a, TENSOR)), must(cudaMalloc(&b, TENSOR)), must(cudaMalloc(&done, 4096));
    must(cudaMemset(a, 1, TENSOR)), must(cudaMemset(b, 1, TENSOR));
    must(cudaFuncSetAttribute(one_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, RING * CHUNK));
    must(cudaFuncSetAttribute(one_stage, cudaFuncAttributeMaxDynamicSharedMemorySize, RING * CHUNK));
    must(cudaStreamCreate(&stream)), must(cudaEventCreate(&from)), must(cudaEventCreate(&to));
    printf("us a stage of %d\nblocks  KB a block  one kernel  launches\n", STAGES);
    for (int blocks : {132, 64})
        for (int kb : {0, 16, 32, 48, 96, 192, 384}) {
            float least[2] = {1e9f, 1e9f};
            cudaGraphExec_t exec[2];
            for (int k = 0; k < 2; k++) exec[k] = captured(stream, k == 0, a, b, done, blocks, (kb << 10) / CHUNK);
            for (int r = 0; r < 2 * ROUNDS; r++) {
                float ms;
                must(cudaEventRecord(from, stream)), must(cudaGraphLaunch(exec[r & 1], stream)), must(cudaEventRecord(to, stream));
                must(cudaStreamSynchronize(stream)), must(cudaEventElapsedTime(&ms, from, to));
                if (ms < least[r & 1]) least[r & 1] = ms;
            }
            printf("%6d  %10d  %10.2f  %8.2f\n", blocks, kb, least[0] * 1e3 / STAGES, least[1] * 1e3 / STAGES);
        }
    return 0;
}

// Inputs of test_kernels.c: nvcc -ptx -arch=sm_80 -lineinfo kernels.cu -o kernels.ptx
#include <cstdint>
#include <cuda_bf16.h>

extern "C" __global__ void vector_add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void reduce(const float *a, float *out, int n) {
    __shared__ float s[256];
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += a[i];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int k = 128; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, s[0]);
}

// The last block to arrive sums the partial results: a counter in global memory.
extern "C" __global__ void last_block_sum(const int *a, int *partial, unsigned *counter, int *out, int n) {
    __shared__ bool last;
    int v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += a[i];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = v;
        __threadfence();
        last = atomicAdd(counter, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += ((volatile int *)partial)[i];
        *out = sum;
    }
}

// Every block waits until all have arrived: needs all of them to be running.
extern "C" __global__ void grid_wait(unsigned *counter, int *out) {
    if (threadIdx.x == 0) {
        atomicAdd(counter, 1);
        while (*(volatile unsigned *)counter < gridDim.x) {}
        out[blockIdx.x] = *(volatile unsigned *)counter;
    }
}

// c[M][N] = a[M][K] @ b[N][K]^T in bf16: 64x64 tiles, 4 warps, 3 stages of cp.async, ldmatrix, mma.m16n8k16.
extern "C" __global__ void __launch_bounds__(128) matmul(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int M, int N, int K) {
    constexpr int BK = 32, STAGES = 3, PITCH = 40;
    __shared__ __align__(16) __nv_bfloat16 sa[STAGES][64 * PITCH], sb[STAGES][64 * PITCH];
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, m0 = blockIdx.y * 64, n0 = blockIdx.x * 64, steps = (K + BK - 1) / BK;
    auto load = [&](int s, int k0) {
        for (int i = tid; i < 256; i += 128) {
            int row = i / 4, col = i % 4 * 8;
            int va = m0 + row < M && k0 + col < K ? 16 : 0, vb = n0 + row < N && k0 + col < K ? 16 : 0;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(&sa[s][row * PITCH + col])),
                         "l"(a + (va ? (size_t)(m0 + row) * K + k0 + col : 0)), "r"(va));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(&sb[s][row * PITCH + col])),
                         "l"(b + (vb ? (size_t)(n0 + row) * K + k0 + col : 0)), "r"(vb));
        }
        asm volatile("cp.async.commit_group;");
    };
    float acc[8][4] = {};
    for (int s = 0; s < STAGES - 1; s++) load(s, s * BK);
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
        load((step + STAGES - 1) % STAGES, (step + STAGES - 1) * BK);
        const __nv_bfloat16 *pa = sa[step % STAGES], *pb = sb[step % STAGES];
        for (int k = 0; k < BK; k += 16) {
            unsigned fa[4], fb[8][2];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                         : "r"((unsigned)__cvta_generic_to_shared(pa + (warp * 16 + lane % 16) * PITCH + k + lane / 16 * 8)));
            for (int j = 0; j < 8; j++)
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(fb[j][0]), "=r"(fb[j][1])
                             : "r"((unsigned)__cvta_generic_to_shared(pb + (j * 8 + lane % 8) * PITCH + k + lane / 8 % 2 * 8)));
            for (int j = 0; j < 8; j++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                             : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[j][0]), "r"(fb[j][1]));
        }
    }
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 4; i++) {
            int row = m0 + warp * 16 + lane / 4 + 8 * (i / 2), col = n0 + j * 8 + lane % 4 * 2 + i % 2;
            if (row < M && col < N) c[(size_t)row * N + col] = acc[j][i];
        }
}

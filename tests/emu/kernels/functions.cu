// Inputs of test_calls.c: nvcc -ptx -arch=sm_75 -Xcicc -O1 functions.cu -o functions.ptx
#include <cstdlib>

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

// Sorts in place: frames hold pointers into the caller's frame.
__device__ __noinline__ int quicksort(int *v, int low, int high) {
    if (low >= high) return 0;
    int pivot = v[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (v[i] < pivot) i++;
        while (v[j] > pivot) j--;
        if (i <= j) {
            int t = v[i];
            v[i++] = v[j];
            v[j--] = t;
        }
    }
    return 1 + quicksort(v, low, j) + quicksort(v, i, high);
}

// A list through the frames of its own calls.
struct Link { int value; const Link *up; };
__device__ __noinline__ int nested(int depth, const Link *up) {
    Link here = {depth * depth, up};
    if (depth) return nested(depth - 1, &here);
    int sum = 0;
    for (const Link *l = &here; l; l = l->up) sum = sum * 3 + l->value;
    return sum;
}

struct Shape { int a; __device__ Shape(int x) : a(x) {} __device__ virtual int area(int k) const { return a + k; } __device__ virtual ~Shape() {} };
struct Square : Shape { __device__ Square(int x) : Shape(x) {} __device__ int area(int k) const override { return a * a - k; } };
__device__ __noinline__ int area_of(const Shape *s, int k) { return s->area(k); }

__device__ __noinline__ int plus(int a, int b) { return a + b; }
__device__ __noinline__ int minus(int a, int b) { return a - b; }
__device__ __noinline__ int times(int a, int b) { return a * b; }
__device__ int (*const operations[3])(int, int) = {plus, minus, times};

struct Large { int v[9]; double d; };
__device__ __noinline__ Large large(int a) { Large r; for (int i = 0; i < 9; i++) r.v[i] = a * i; r.d = a * 0.5; return r; }
__device__ __noinline__ int of_large(Large x, int k) { return x.v[k % 9] + (int)(4 * x.d); }

extern "C" __global__ void functions(const int *x, int *out) {
    int i = threadIdx.x, a = x[i], *o = out + 8 * i;
    o[0] = ackermann(a & 1, i % 7);
    int v[12];
    for (int k = 0; k < 12; k++) v[k] = (a * (k + 1) ^ i) % 100;
    quicksort(v, 0, 11);
    o[1] = 0;
    for (int k = 0; k < 12; k++) o[1] = o[1] * 7 + v[k];
    o[2] = nested(i % 5, nullptr);
    Shape shape(a);
    Square square(i);
    o[3] = area_of(i & 1 ? &square : &shape, 5);
    o[4] = operations[i % 3](a, i);
    o[5] = of_large(large(i), a & 15);
    int *p = (int *)alloca((i % 4 + 1) * sizeof(int)), *q = (int *)malloc(8 * sizeof(int));
    for (int k = 0; k <= i % 4; k++) p[k] = a + k;
    for (int k = 0; k < 8; k++) q[k] = p[k % (i % 4 + 1)];
    o[6] = q[7] + q[i % 8];
    free(q);
    switch (a & 7) {
    case 0: o[7] = i; break;
    case 1: o[7] = a * 3; break;
    case 2: o[7] = a - i; break;
    case 3: o[7] = a ^ i; break;
    case 4: o[7] = plus(a, 1); break;
    case 5: o[7] = -a; break;
    default: o[7] = 99;
    }
}

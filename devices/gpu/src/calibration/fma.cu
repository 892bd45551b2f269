// Multiply-adds in registers, one chain per thread. A multiprocessor holds dozens of these warps, which hide the
// latency of a step.

template <class T> __device__ __forceinline__ T multiply_add(T x, T a, T b);
template <> __device__ __forceinline__ float multiply_add(float x, float a, float b) { return fmaf(x, a, b); }
template <> __device__ __forceinline__ double multiply_add(double x, double a, double b) { return fma(x, a, b); }

template <class T> __device__ __forceinline__ void chains(const T* x, T* y, T a, T b, u32 n, u32 steps) {
    const u32 k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    T value = x[k];
    // Long enough to make the loop counter negligible.
#pragma unroll 32
    for (u32 step = 0; step < steps; ++step) value = multiply_add(value, a, b);
    y[k] = value;
}

extern "C" __global__ void fma_single(const float* x, float* y, float a, float b, u32 n, u32 steps) { chains(x, y, a, b, n, steps); }
extern "C" __global__ void fma_double(const double* x, double* y, double a, double b, u32 n, u32 steps) { chains(x, y, a, b, n, steps); }

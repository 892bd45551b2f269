// Multiply-adds in registers. A thread alternates between several chains, for a reason besides latency: a multiply-add of
// three registers reads one more than a scheduler can fetch per cycle, unless the previous instruction of the same warp has
// already fetched the factor and the summand. A single chain reached half of an H100's rate in f32.

// Chains per thread and threads per block, as in `fma.rs`.
constexpr u32 EACH = 6, THREADS = 128;

template <class T> __device__ __forceinline__ T multiply_add(T x, T a, T b);
template <> __device__ __forceinline__ float multiply_add(float x, float a, float b) { return fmaf(x, a, b); }
template <> __device__ __forceinline__ double multiply_add(double x, double a, double b) { return fma(x, a, b); }

template <class T> __device__ __forceinline__ void chains(const T* x, T* y, T a, T b, u32 n, u32 steps) {
    const u32 first = blockIdx.x * EACH * THREADS + threadIdx.x;
    T value[EACH];
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) value[i] = first + i * THREADS < n ? x[first + i * THREADS] : static_cast<T>(0);
    // Long enough to make the loop counter negligible.
#pragma unroll 16
    for (u32 step = 0; step < steps; ++step)
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) value[i] = multiply_add(value[i], a, b);
#pragma unroll
    for (u32 i = 0; i < EACH; ++i)
        if (first + i * THREADS < n) y[first + i * THREADS] = value[i];
}

extern "C" __launch_bounds__(128) __global__ void fma_single(const float* x, float* y, float a, float b, u32 n, u32 steps) { chains(x, y, a, b, n, steps); }
extern "C" __launch_bounds__(128) __global__ void fma_double(const double* x, double* y, double a, double b, u32 n, u32 steps) { chains(x, y, a, b, n, steps); }

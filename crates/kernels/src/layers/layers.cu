// The layer operations in f32. Activations and squared errors go element by element, 16 bytes a thread where the length
// allows; normalisation, softmax and cross-entropy take a block a row, which reads its row from memory once where it fits
// the registers of the block and again where it does not.
//
// NaN and infinity do as on the processor: comparisons keep NaN where PyTorch does.

__device__ __forceinline__ float gelu_exact(float x) {
    // erfc keeps its digits in the tail, where 1 + erf cancels.
    return 0.5f * x * erfcf(x * -0.70710678118654752f);
}

__device__ __forceinline__ float gelu_tanh(float x) {
    const float inner = 0.79788456080286536f * (x + 0.044715f * x * x * x);
    // x (1 + tanh u) / 2 = x / (1 + e^-2u), without cancellation.
    return x / (1.0f + expf(-2.0f * inner));
}

__device__ __forceinline__ float swish_of(float x) {
    return x / (1.0f + expf(-x));
}

enum Element { gelu_exactly, gelu_by_tanh, swish_itself, swish_times, squared_error, sum_of_two };

template <int WHAT> __device__ __forceinline__ float element(float x, float second) {
    if (WHAT == gelu_exactly) return gelu_exact(x);
    if (WHAT == gelu_by_tanh) return gelu_tanh(x);
    if (WHAT == swish_itself) return swish_of(x);
    if (WHAT == swish_times) return swish_of(x) * second;
    if (WHAT == sum_of_two) return x + second;
    return (x - second) * (x - second);
}

// y = f(x) or f(x, second); `second` is null where f has one argument.
template <int WHAT> __device__ __forceinline__ void elements(const float* x, const float* second, float* y, u64 n) {
    const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
    const u64 start = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    const float4* from = reinterpret_cast<const float4*>(x);
    const float4* with = reinterpret_cast<const float4*>(second);
    float4* to = reinterpret_cast<float4*>(y);
    for (u64 k = start; k < n / 4; k += step) {
        const float4 a = from[k], b = second ? with[k] : a;
        to[k] = make_float4(element<WHAT>(a.x, b.x), element<WHAT>(a.y, b.y), element<WHAT>(a.z, b.z), element<WHAT>(a.w, b.w));
    }
    const u64 k = n / 4 * 4 + start;
    if (k < n) y[k] = element<WHAT>(x[k], second ? second[k] : 0.0f);
}

extern "C" __global__ void gelu(const float* x, const float* second, float* y, u64 n) { elements<gelu_exactly>(x, second, y, n); }
extern "C" __global__ void gelu_approximate(const float* x, const float* second, float* y, u64 n) { elements<gelu_by_tanh>(x, second, y, n); }
extern "C" __global__ void swish(const float* x, const float* second, float* y, u64 n) { elements<swish_itself>(x, second, y, n); }
extern "C" __global__ void swiglu(const float* x, const float* second, float* y, u64 n) { elements<swish_times>(x, second, y, n); }
extern "C" __global__ void add(const float* x, const float* second, float* y, u64 n) { elements<sum_of_two>(x, second, y, n); }
extern "C" __global__ void squared_errors(const float* x, const float* second, float* y, u64 n) { elements<squared_error>(x, second, y, n); }

// y = GELU(x + bias) of rows of d values; a thread goes from one to its next with the column kept up by addition.
template <int WHAT> __device__ __forceinline__ void biased(const float* x, const float* bias, float* y, u64 n, u32 d) {
    const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
    const u64 start = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    const u32 each = d % 4 == 0 ? 4 : 1;
    u32 column = static_cast<u32>(start * each % d);
    const u32 on = static_cast<u32>(step * each % d);
    for (u64 k = start; k < n / each; k += step) {
        if (each == 4) {
            const float4 a = reinterpret_cast<const float4*>(x)[k], b = *reinterpret_cast<const float4*>(bias + column);
            reinterpret_cast<float4*>(y)[k] = make_float4(element<WHAT>(a.x + b.x, 0.0f), element<WHAT>(a.y + b.y, 0.0f),
                                                          element<WHAT>(a.z + b.z, 0.0f), element<WHAT>(a.w + b.w, 0.0f));
        } else {
            y[k] = element<WHAT>(x[k] + bias[column], 0.0f);
        }
        column += on;
        if (column >= d) column -= d;
    }
}

extern "C" __global__ void bias_gelu(const float* x, const float* bias, float* y, u64 n, u32 d) { biased<gelu_exactly>(x, bias, y, n, d); }
extern "C" __global__ void bias_gelu_approximate(const float* x, const float* bias, float* y, u64 n, u32 d) { biased<gelu_by_tanh>(x, bias, y, n, d); }

__device__ __forceinline__ float larger(float a, float b) {
    // As the processor: the running maximum stays where the new value is NaN.
    return b > a ? b : a;
}

// What all threads of the block hold, combined; every thread gets it. Whole warps; may be called again at once.
template <class T, class F> __device__ __forceinline__ T over_block(T value, T none, F combine) {
    __shared__ T warps[32];
    const u32 k = threadIdx.x, count = blockDim.x / 32;
    for (u32 by = 16; by > 0; by /= 2) value = combine(value, __shfl_xor_sync(WHOLE_WARP, value, by));
    __syncthreads();
    if (k % 32 == 0) warps[k / 32] = value;
    __syncthreads();
    value = k % 32 < count ? warps[k % 32] : none;
    for (u32 by = 16; by > 0; by /= 2) value = combine(value, __shfl_xor_sync(WHOLE_WARP, value, by));
    return value;
}

struct Add {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};
struct Larger {
    __device__ __forceinline__ float operator()(float a, float b) const { return larger(a, b); }
};

// The sum of squared differences: one sum a block, in f64.
extern "C" __global__ void squared_error_sums(const float* x, const float* target, double* sums, u64 n) {
    const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
    double total = 0.0;
    float part = 0.0f;
    u32 count = 0;
    for (u64 k = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; k < n; k += step) {
        const float difference = x[k] - target[k];
        part += difference * difference;
        // At most 64 additions in f32.
        if (++count % 64 == 0) {
            total += part;
            part = 0.0f;
        }
    }
    total = over_block(total + part, 0.0, Add());
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// Adds n sums up and scales them: one block.
extern "C" __global__ void reduce_sums(const double* sums, float* loss, u32 n, double scale) {
    double total = 0.0;
    for (u32 k = threadIdx.x; k < n; k += blockDim.x) total += sums[k];
    total = over_block(total, 0.0, Add());
    if (threadIdx.x == 0) *loss = static_cast<float>(total * scale);
}

// Layer normalisation of x, or of x + residual, which then goes to `sum`. The variance is of the differences from the mean.
extern "C" __global__ void layer_norm(const float* x, const float* residual, const float* gamma, const float* beta, float* y, float* sum, u32 d, float eps) {
    const u64 row = static_cast<u64>(blockIdx.x) * d;
    auto read = [&](u32 k) { return residual ? x[row + k] + residual[row + k] : x[row + k]; };
    // Values that the threads of the block keep between the passes.
    constexpr u32 kept = 8;
    float held[kept];
    float total = 0.0f;
#pragma unroll
    for (u32 i = 0; i < kept; ++i) {
        const u32 k = i * blockDim.x + threadIdx.x;
        held[i] = k < d ? read(k) : 0.0f;
        total += held[i];
    }
    for (u32 k = kept * blockDim.x + threadIdx.x; k < d; k += blockDim.x) total += read(k);
    const float mean = over_block(total, 0.0f, Add()) / d;
    float squares = 0.0f;
#pragma unroll
    for (u32 i = 0; i < kept; ++i)
        if (i * blockDim.x + threadIdx.x < d) squares += (held[i] - mean) * (held[i] - mean);
    for (u32 k = kept * blockDim.x + threadIdx.x; k < d; k += blockDim.x) {
        const float difference = read(k) - mean;
        squares += difference * difference;
    }
    const float variance = over_block(squares, 0.0f, Add()) / d;
    const float inverse = 1.0f / sqrtf(variance + eps);
    auto write = [&](u32 k, float value) {
        y[row + k] = (value - mean) * inverse * gamma[k] + beta[k];
        if (residual) sum[row + k] = value;
    };
#pragma unroll
    for (u32 i = 0; i < kept; ++i)
        if (i * blockDim.x + threadIdx.x < d) write(i * blockDim.x + threadIdx.x, held[i]);
    for (u32 k = kept * blockDim.x + threadIdx.x; k < d; k += blockDim.x) write(k, read(k));
}

// The largest value of a row and the sum of e^(x - largest).
__device__ __forceinline__ void log_sum(const float* x, u32 d, float& most, float& sum) {
    float largest = -INFINITE;
    for (u32 k = threadIdx.x; k < d; k += blockDim.x) largest = larger(largest, x[k]);
    most = over_block(largest, -INFINITE, Larger());
    float part = 0.0f;
    for (u32 k = threadIdx.x; k < d; k += blockDim.x) part += expf(x[k] - most);
    sum = over_block(part, 0.0f, Add());
}

extern "C" __global__ void softmax(const float* x, float* y, u32 d) {
    const u64 row = static_cast<u64>(blockIdx.x) * d;
    float most, sum;
    log_sum(x + row, d, most, sum);
    const float inverse = 1.0f / sum;
    for (u32 k = threadIdx.x; k < d; k += blockDim.x) y[row + k] = expf(x[row + k] - most) * inverse;
}

// The loss of each row, as f64 for the sum and as f32.
extern "C" __global__ void cross_entropy(const float* x, const i64* labels, double* sums, float* losses, u32 d) {
    const u64 row = static_cast<u64>(blockIdx.x) * d;
    float most, sum;
    log_sum(x + row, d, most, sum);
    if (threadIdx.x == 0) {
        const float loss = logf(sum) + (most - x[row + labels[blockIdx.x]]);
        sums[blockIdx.x] = loss;
        losses[blockIdx.x] = loss;
    }
}

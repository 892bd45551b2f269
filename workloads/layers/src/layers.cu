// The layer operations in f32. Activations and squared errors are elementwise, with 64 bytes per thread in flight;
// normalisation, softmax and cross-entropy hold rows of up to 32768 values in registers and loop over longer ones.
//
// NaN and infinity behave as on the CPU: comparisons propagate NaN where PyTorch's do.

// Threads per block of the elementwise kernels.
constexpr u32 BLOCK = 256;

// x Phi(x) with Phi(-|x|) = 2^z(|x|), z a polynomial (`gelu_exponent.rs`): the tail keeps its precision, without
// branches.
__device__ __forceinline__ float gelu_exact(float x) {
    const float a = fabsf(x);
    float z = -8.080689327e-07f;
    z = fmaf(z, a, 4.486267426e-05f);
    z = fmaf(z, a, -8.323653019e-04f);
    z = fmaf(z, a, 8.240508847e-03f);
    z = fmaf(z, a, -5.360808223e-02f);
    z = fmaf(z, a, -4.586718976e-01f);
    z = fmaf(z, a, -1.151204824e+00f);
    const float p = quick_power(fmaf(z, a, -1.0f));
    // -infinity times the power 0 is NaN, and infinity times 1 is infinity.
    return x * (x > 0.0f ? 1.0f - p : p);
}

__device__ __forceinline__ float gelu_tanh(float x) {
    // x (1 + tanh u) / 2 = x / (1 + e^-2u), without cancellation; u = sqrt(2 / pi) (x + 0.044715 x^3), times -2 log2 e.
    const float z = x * fmaf(x * x, -0.102943240f, -2.302208198f);
    return x * quick_inverse(1.0f + quick_power(z));
}

__device__ __forceinline__ float swish_of(float x) {
    return x * quick_inverse(1.0f + quick_exponential(-x));
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

template <int WHAT> __device__ __forceinline__ float4 element(float4 a, float4 b) {
    return make_float4(element<WHAT>(a.x, b.x), element<WHAT>(a.y, b.y), element<WHAT>(a.z, b.z), element<WHAT>(a.w, b.w));
}

// y = f(x), or f(x, second) for binary functions. A thread takes several 16-byte vectors, a block's being adjacent, or
// one if the grid has enough threads. All loads come before the first store, which they may not pass.
template <int WHAT> __device__ __forceinline__ void elements(const float* x, const float* second, float* y, u64 n) {
    constexpr bool two = WHAT == swish_times || WHAT == squared_error || WHAT == sum_of_two;
    constexpr u32 most = two ? 2 : 4;
    const u64 vectors = n / 4;
    const bool one = static_cast<u64>(gridDim.x) * BLOCK >= vectors;
    const u64 begin = static_cast<u64>(blockIdx.x) * (one ? BLOCK : most * BLOCK);
    const float4* from = reinterpret_cast<const float4*>(x) + begin + threadIdx.x;
    const float4* with = reinterpret_cast<const float4*>(two ? second : x) + begin + threadIdx.x;
    float4* to = reinterpret_cast<float4*>(y) + begin + threadIdx.x;
    if (!one && begin + most * BLOCK <= vectors) {
        float4 a[most], b[most];
#pragma unroll
        for (u32 i = 0; i < most; ++i) {
            a[i] = from[i * BLOCK];
            b[i] = two ? with[i * BLOCK] : a[i];
        }
#pragma unroll
        for (u32 i = 0; i < most; ++i) to[i * BLOCK] = element<WHAT>(a[i], b[i]);
        return;
    }
#pragma unroll 1
    for (u32 i = 0; i < (one ? BLOCK : most * BLOCK) && begin + i + threadIdx.x < vectors; i += BLOCK) to[i] = element<WHAT>(from[i], with[i]);
    // The last, incomplete block also handles the values after the last vector.
    if (blockIdx.x + 1 == gridDim.x && threadIdx.x < n % 4) {
        const u64 k = vectors * 4 + threadIdx.x;
        y[k] = element<WHAT>(x[k], two ? second[k] : 0.0f);
    }
}

extern "C" __launch_bounds__(256, 6) __global__ void gelu(const float* x, const float* second, float* y, u64 n) { elements<gelu_exactly>(x, second, y, n); }
extern "C" __launch_bounds__(256, 6) __global__ void gelu_approximate(const float* x, const float* second, float* y, u64 n) { elements<gelu_by_tanh>(x, second, y, n); }
extern "C" __launch_bounds__(256, 6) __global__ void swish(const float* x, const float* second, float* y, u64 n) { elements<swish_itself>(x, second, y, n); }
extern "C" __launch_bounds__(256, 6) __global__ void swiglu(const float* x, const float* second, float* y, u64 n) { elements<swish_times>(x, second, y, n); }
extern "C" __launch_bounds__(256, 6) __global__ void add(const float* x, const float* second, float* y, u64 n) { elements<sum_of_two>(x, second, y, n); }
extern "C" __launch_bounds__(256, 6) __global__ void squared_errors(const float* x, const float* second, float* y, u64 n) { elements<squared_error>(x, second, y, n); }

// y = GELU(x + bias) of rows of d values, in place if y is x. A thread keeps its columns and their bias and takes
// several rows, or one if the grid has enough threads. T is its access width.
template <int WHAT, class T, u32 ROWS> __device__ __forceinline__ void biased(const float* x, const float* bias, float* y, u64 rows, u32 d) {
    const bool one = static_cast<u64>(gridDim.x) * blockDim.y >= rows;
    const u64 begin = static_cast<u64>(blockIdx.x) * (one ? blockDim.y : ROWS * blockDim.y) + threadIdx.y;
    const u32 columns = d / (sizeof(T) / 4);
    for (u32 column = blockIdx.y * blockDim.x + threadIdx.x; column < columns; column += gridDim.y * blockDim.x) {
        const T b = reinterpret_cast<const T*>(bias)[column];
        const T* from = reinterpret_cast<const T*>(x) + begin * columns + column;
        T* to = reinterpret_cast<T*>(y) + begin * columns + column;
        const u64 step = static_cast<u64>(blockDim.y) * columns;
        T a[ROWS];
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i)
            if (begin + i * blockDim.y < rows && !(one && i > 0)) a[i] = from[i * step];
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i)
            if (begin + i * blockDim.y < rows && !(one && i > 0)) to[i * step] = element<WHAT>(a[i] + b, b);
    }
}

template <int WHAT> __device__ __forceinline__ void biased(const float* x, const float* bias, float* y, u64 rows, u32 d) {
    if (d % 4 == 0) {
        biased<WHAT, float4, 4>(x, bias, y, rows, d);
    } else {
        biased<WHAT, float, 8>(x, bias, y, rows, d);
    }
}

extern "C" __launch_bounds__(256, 5) __global__ void bias_gelu(const float* x, const float* bias, float* y, u64 rows, u32 d) { biased<gelu_exactly>(x, bias, y, rows, d); }
extern "C" __launch_bounds__(256, 5) __global__ void bias_gelu_approximate(const float* x, const float* bias, float* y, u64 rows, u32 d) { biased<gelu_by_tanh>(x, bias, y, rows, d); }

// Adds up the sums of all blocks; the first thread of each block passes its part. The last block to arrive adds them,
// in the order of their numbers.
template <u32 THREADS> __device__ __forceinline__ void finish(double part, double* sums, u32* come, float* loss, double scale) {
    if (!last_with_part(part, sums, come)) return;
    double total = 0.0;
    for (u32 at = threadIdx.x; at < gridDim.x; at += 4 * THREADS) {
        double some[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) some[i] = at + i * THREADS < gridDim.x ? __ldcg(sums + at + i * THREADS) : 0.0;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) total += some[i];
    }
    total = over_row<THREADS, 1>(total, 0.0, Add());
    if (threadIdx.x == 0) *loss = static_cast<float>(total * scale);
}

__device__ __forceinline__ float squares(float4 a, float4 b) {
    const float4 e = element<squared_error>(a, b);
    return sum_of(e);
}

// The sum of squared differences, times `scale`: in f32 for eight of them, in f64 beyond.
extern "C" __launch_bounds__(256, 6) __global__ void mse(const float* x, const float* target, double* sums, u32* come, float* loss, u64 n, double scale) {
    const u64 step = static_cast<u64>(gridDim.x) * BLOCK, vectors = n / 4;
    const float4* from = reinterpret_cast<const float4*>(x);
    const float4* with = reinterpret_cast<const float4*>(target);
    u64 k = static_cast<u64>(blockIdx.x) * BLOCK + threadIdx.x;
    double total = 0.0;
    if (k < n % 4) total = element<squared_error>(x[vectors * 4 + k], target[vectors * 4 + k]);
#pragma unroll 1
    for (; k + step < vectors; k += 2 * step) {
        const float4 a = from[k], b = with[k], c = from[k + step], e = with[k + step];
        total += squares(a, b) + squares(c, e);
    }
    if (k < vectors) total += squares(from[k], with[k]);
    finish<BLOCK>(over_row<BLOCK, 0>(total, 0.0, Add()), sums, come, loss, scale);
}

// Layer normalisation of x, or of x + residual, which is then stored in `sum`; `share` is 1 / d. A first mean in f32 is
// slightly off; the differences from it give its error, and with their squares the variance, so that rows far from 0
// keep their precision.
#define NORM const float *x, const float *residual, const float *gamma, const float *beta, float *y, float *sum, u64 rows, u32 d, float share, float eps

// Offset and factor of a row: y = ((x - mean) * inverse - off) * gamma + beta.
struct Norm {
    float mean, inverse, off;
    __device__ __forceinline__ float of(float x, float gamma, float beta) const { return fmaf(fmaf(x - mean, inverse, -off), gamma, beta); }
    __device__ __forceinline__ float4 of(float4 x, float4 gamma, float4 beta) const {
        return make_float4(of(x.x, gamma.x, beta.x), of(x.y, gamma.y, beta.y), of(x.z, gamma.z, beta.z), of(x.w, gamma.w, beta.w));
    }
};

template <u32 THREADS> __device__ __forceinline__ Norm norm_of(float mean, float off, float squares, float share, float eps) {
    both_over_row<THREADS>(off, squares);
    off *= share;
    const float inverse = rsqrtf(fmaf(squares, share, eps) - off * off);
    return {mean, inverse, off * inverse};
}

template <u32 THREADS, u32 VECTORS, bool RESIDUAL, bool WIDE> __device__ __forceinline__ void norm_rows(NORM) {
    const Place<THREADS> place(blockIdx.x);
    const u32 here = place.row < rows ? d : 0;
    const u64 at = place.row * d;
    float4 v[VECTORS];
    float total = 0.0f;
    // Loads do not pass stores: blocks of 512 threads have registers for half of two arrays.
    constexpr u32 batch = RESIDUAL && THREADS >= 512 && VECTORS > 1 ? VECTORS / 2 : VECTORS;
#pragma unroll
    for (u32 begin = 0; begin < VECTORS; begin += batch) {
#pragma unroll
        for (u32 i = begin; i < begin + batch; ++i) {
            const Four<WIDE> four(i, place.lane, THREADS);
            v[i] = four.read(x + at, here, 0.0f);
            if (RESIDUAL) v[i] = v[i] + four.read(residual + at, here, 0.0f);
        }
        if (RESIDUAL)
#pragma unroll
            for (u32 i = begin; i < begin + batch; ++i) Four<WIDE>(i, place.lane, THREADS).write(sum + at, here, v[i]);
    }
#pragma unroll
    for (u32 i = 0; i < VECTORS; ++i) total += sum_of(v[i]);
    const float mean = over_row<THREADS, 0>(total, 0.0f, Add()) * share;
    float off = 0.0f, squares = 0.0f;
#pragma unroll
    for (u32 i = 0; i < VECTORS; ++i) Four<WIDE>(i, place.lane, THREADS).differences(v[i], mean, here, off, squares);
    const Norm found = norm_of<THREADS>(mean, off, squares, share, eps);
#pragma unroll
    for (u32 i = 0; i < VECTORS; ++i) {
        const Four<WIDE> four(i, place.lane, THREADS);
        // They have none for loads that pass the stores below, either.
        const float4 g = THREADS < 512 ? four.read_constant(gamma, here) : four.read(gamma, here, 0.0f);
        const float4 b = THREADS < 512 ? four.read_constant(beta, here) : four.read(beta, here, 0.0f);
        four.write(y + at, here, found.of(v[i], g, b));
    }
}

// The same for rows of any length, one block each: a pass for the mean, one for the variance and one that writes.
template <u32 THREADS, u32 VECTORS, bool RESIDUAL, bool WIDE> __device__ __forceinline__ void norm_long(NORM) {
    const u64 start = blockIdx.x * static_cast<u64>(d);
    const u32 step = 4 * VECTORS * THREADS;
    auto read = [&](float4(&v)[VECTORS], u32 at) {
#pragma unroll
        for (u32 i = 0; i < VECTORS; ++i) {
            const Four<WIDE> four(i, threadIdx.x, THREADS);
            v[i] = four.read(x + start + at, d - at, 0.0f);
            if (RESIDUAL) v[i] = v[i] + four.read(residual + start + at, d - at, 0.0f);
        }
    };
    float4 v[VECTORS];
    float total = 0.0f;
    for (u32 at = 0; at < d; at += step) {
        read(v, at);
#pragma unroll
        for (u32 i = 0; i < VECTORS; ++i) total += sum_of(v[i]);
    }
    const float mean = over_row<THREADS, 0>(total, 0.0f, Add()) * share;
    float off = 0.0f, squares = 0.0f;
    for (u32 at = 0; at < d; at += step) {
        read(v, at);
#pragma unroll
        for (u32 i = 0; i < VECTORS; ++i) Four<WIDE>(i, threadIdx.x, THREADS).differences(v[i], mean, d - at, off, squares);
    }
    const Norm found = norm_of<THREADS>(mean, off, squares, share, eps);
    for (u32 at = 0; at < d; at += step) {
        read(v, at);
#pragma unroll
        for (u32 i = 0; i < VECTORS; ++i) {
            const Four<WIDE> four(i, threadIdx.x, THREADS);
            if (RESIDUAL) four.write(sum + start + at, d - at, v[i]);
            const float4 g = four.read_constant(gamma + at, d - at), b = four.read_constant(beta + at, d - at);
            four.write(y + start + at, d - at, found.of(v[i], g, b));
        }
    }
}

#define NORM_ARGUMENTS x, residual, gamma, beta, y, sum, rows, d, share, eps

template <u32 THREADS, u32 VECTORS, bool RESIDUAL> __device__ __forceinline__ void norm(NORM) {
    if (d % 4 == 0) {
        norm_rows<THREADS, VECTORS, RESIDUAL, true>(NORM_ARGUMENTS);
    } else {
        norm_rows<THREADS, VECTORS / 2, RESIDUAL, false>(NORM_ARGUMENTS);
    }
}
template <bool RESIDUAL> __device__ __forceinline__ void norm_long(NORM) {
    if (d % 4 == 0) {
        norm_long<512, 4, RESIDUAL, true>(NORM_ARGUMENTS);
    } else {
        norm_long<512, 2, RESIDUAL, false>(NORM_ARGUMENTS);
    }
}

// Rows of up to 64, 256 and 1024 values; of up to 32 per thread of a block; of any length.
extern "C" __launch_bounds__(256, 8) __global__ void layer_norm_64(NORM) { norm<8, 2, false>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(256, 4) __global__ void layer_norm_256(NORM) { norm<16, 4, false>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(128, 8) __global__ void layer_norm_1024(NORM) { norm<32, 8, false>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(128, 7) __global__ void layer_norm_4096(NORM) { norm<128, 8, false>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(512, 2) __global__ void layer_norm_16384(NORM) { norm<512, 8, false>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(512, 2) __global__ void layer_norm_long(NORM) { norm_long<false>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(256, 6) __global__ void residual_layer_norm_64(NORM) { norm<8, 2, true>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(256, 3) __global__ void residual_layer_norm_256(NORM) { norm<16, 4, true>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(128, 5) __global__ void residual_layer_norm_1024(NORM) { norm<32, 8, true>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(128, 5) __global__ void residual_layer_norm_4096(NORM) { norm<128, 8, true>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(512, 2) __global__ void residual_layer_norm_16384(NORM) { norm<512, 8, true>(NORM_ARGUMENTS); }
extern "C" __launch_bounds__(512, 2) __global__ void residual_layer_norm_long(NORM) { norm_long<true>(NORM_ARGUMENTS); }

#define SOFTMAX const float *x, float *y, u64 rows, u32 d

template <u32 THREADS, u32 VECTORS, bool WIDE> __device__ __forceinline__ void softmax_rows(SOFTMAX) {
    const Place<THREADS> place(blockIdx.x);
    const u32 here = place.row < rows ? d : 0;
    const u64 at = place.row * d;
    float4 v[VECTORS];
#pragma unroll
    for (u32 i = 0; i < VECTORS; ++i) v[i] = Four<WIDE>(i, place.lane, THREADS).read(x + at, here, -INFINITE);
    const Exponentials own = exponentials(v), all = over_row<THREADS>(own);
    // A row of only -inf has the sum 0, and infinity times 0 is NaN there.
    const float factor = quick_exponential(own.most - base_of(all.most)) * quick_inverse(all.sum);
#pragma unroll
    for (u32 i = 0; i < VECTORS; ++i) Four<WIDE>(i, place.lane, THREADS).write(y + at, here, v[i] * factor);
}

template <u32 THREADS, u32 VECTORS, bool WIDE> __device__ __forceinline__ void softmax_of_long(SOFTMAX) {
    const u64 start = blockIdx.x * static_cast<u64>(d);
    const Exponentials all = exponentials_of_long<THREADS, VECTORS, WIDE>(x + start, d);
    const float base = base_of(all.most), inverse = quick_inverse(all.sum);
    for (u32 at = 0; at < d; at += 4 * VECTORS * THREADS) {
        float4 v[VECTORS];
#pragma unroll
        for (u32 i = 0; i < VECTORS; ++i) v[i] = Four<WIDE>(i, threadIdx.x, THREADS).read(x + start + at, d - at, 0.0f);
#pragma unroll
        for (u32 i = 0; i < VECTORS; ++i)
            Four<WIDE>(i, threadIdx.x, THREADS).write(y + start + at, d - at, quick_exponential(v[i], base) * inverse);
    }
}

template <u32 THREADS, u32 VECTORS> __device__ __forceinline__ void soften(SOFTMAX) {
    if (d % 4 == 0) {
        softmax_rows<THREADS, VECTORS, true>(x, y, rows, d);
    } else {
        softmax_rows<THREADS, VECTORS / 2, false>(x, y, rows, d);
    }
}

extern "C" __launch_bounds__(256, 8) __global__ void softmax_64(SOFTMAX) { soften<8, 2>(x, y, rows, d); }
extern "C" __launch_bounds__(256, 5) __global__ void softmax_256(SOFTMAX) { soften<16, 4>(x, y, rows, d); }
extern "C" __launch_bounds__(128, 8) __global__ void softmax_1024(SOFTMAX) { soften<32, 8>(x, y, rows, d); }
extern "C" __launch_bounds__(128, 8) __global__ void softmax_4096(SOFTMAX) { soften<128, 8>(x, y, rows, d); }
extern "C" __launch_bounds__(512, 2) __global__ void softmax_16384(SOFTMAX) { soften<512, 8>(x, y, rows, d); }
extern "C" __launch_bounds__(512, 3) __global__ void softmax_long(SOFTMAX) {
    if (d % 4 == 0) {
        softmax_of_long<512, 4, true>(x, y, rows, d);
    } else {
        softmax_of_long<512, 2, false>(x, y, rows, d);
    }
}

// Writes the loss of each row to `losses`, or, if `loss` is not null, their sum times `scale` to `loss`.
#define LOSSES const float *x, const i64 *labels, float *losses, double *sums, u32 *come, float *loss, u64 rows, u32 d, double scale

// LONG: the block loops over the row.
template <u32 THREADS, u32 VECTORS, bool LONG, bool WIDE> __device__ __forceinline__ void losses_of_rows(LOSSES) {
    constexpr u32 together = Place<THREADS>::rows, block_threads = threads_of_block<THREADS>();
    double total = 0.0;
#pragma unroll 1
    for (u64 block = blockIdx.x; block * together < rows; block += gridDim.x) {
        const Place<THREADS> place(block);
        const u32 here = place.row < rows ? d : 0;
        const float* row = x + place.row * d;
        const bool writes = place.lane == 0 && here > 0;
        float given = 0.0f;
        Exponentials e;
        if (LONG) {
            if (writes) given = row[labels[place.row]];
            e = exponentials_of_long<THREADS, VECTORS, WIDE>(row, d);
        } else {
            float4 v[VECTORS];
#pragma unroll
            for (u32 i = 0; i < VECTORS; ++i) v[i] = Four<WIDE>(i, place.lane, THREADS).read(row, here, -INFINITE);
            if (writes) given = row[labels[place.row]];
            e = over_row<THREADS>(exponentials(v));
        }
        if (writes) {
            const float value = logf(e.sum) + (e.most - given);
            if (losses) losses[place.row] = value;
            total += value;
        }
        // The next row's sums reuse the memory that these were read from.
        if (THREADS > 32) __syncthreads();
    }
    if (loss) finish<block_threads>(over_row<block_threads, 0>(total, 0.0, Add()), sums, come, loss, scale);
}

#define LOSSES_ARGUMENTS x, labels, losses, sums, come, loss, rows, d, scale

template <u32 THREADS, u32 VECTORS, bool LONG> __device__ __forceinline__ void losses_of_rows(LOSSES) {
    if (d % 4 == 0) {
        losses_of_rows<THREADS, VECTORS, LONG, true>(LOSSES_ARGUMENTS);
    } else {
        losses_of_rows<THREADS, VECTORS / 2, LONG, false>(LOSSES_ARGUMENTS);
    }
}

extern "C" __launch_bounds__(256, 8) __global__ void cross_entropy_64(LOSSES) { losses_of_rows<8, 2, false>(LOSSES_ARGUMENTS); }
extern "C" __launch_bounds__(256, 5) __global__ void cross_entropy_256(LOSSES) { losses_of_rows<16, 4, false>(LOSSES_ARGUMENTS); }
extern "C" __launch_bounds__(128, 8) __global__ void cross_entropy_1024(LOSSES) { losses_of_rows<32, 8, false>(LOSSES_ARGUMENTS); }
extern "C" __launch_bounds__(128, 8) __global__ void cross_entropy_4096(LOSSES) { losses_of_rows<128, 8, false>(LOSSES_ARGUMENTS); }
extern "C" __launch_bounds__(512, 2) __global__ void cross_entropy_16384(LOSSES) { losses_of_rows<512, 8, false>(LOSSES_ARGUMENTS); }
extern "C" __launch_bounds__(512, 3) __global__ void cross_entropy_long(LOSSES) { losses_of_rows<512, 4, true>(LOSSES_ARGUMENTS); }

// Rows in registers. THREADS threads share a row: lanes of a warp, or a block of several warps. Each holds VECTORS
// times four of its values, all of which are loaded before the first is used. If rows are WIDE, their length is a
// multiple of 4 and four values are one 16-byte access; otherwise they are a stride apart, so that a warp's accesses
// are still coalesced.

// Threads per block: several rows of lanes, or one row.
template <u32 THREADS> __device__ __forceinline__ constexpr u32 threads_of_block() {
    return THREADS > 32 ? THREADS : THREADS == 32 ? 128 : 256;
}

// A row, and this thread's index among those that share it.
template <u32 THREADS> struct Place {
    static constexpr u32 rows = threads_of_block<THREADS>() / THREADS;
    u64 row;
    u32 lane;
    __device__ __forceinline__ explicit Place(u64 block) : row(block * rows + threadIdx.x / THREADS), lane(threadIdx.x % THREADS) {}
};

// Columns of the four values of a thread's vector i: the first is `own + ahead`, the others follow at distance `step`,
// if below d. The part that does not depend on the thread is separate, as the immediate offset of an instruction.
template <bool WIDE> struct Four {
    u32 own, ahead, step;
    __device__ __forceinline__ Four(u32 i, u32 lane, u32 threads) : own(WIDE ? 4 * lane : lane), ahead(4 * i * threads), step(WIDE ? 1 : threads) {}
    // Wide rows end with a complete vector.
    __device__ __forceinline__ bool holds(u32 j, u32 d) const { return own + ahead + (WIDE ? 0 : j * step) < d; }
    __device__ __forceinline__ float4 read(const float* row, u32 d, float none) const {
        const float* const from = row + own;
        if (WIDE) return holds(0, d) ? *reinterpret_cast<const float4*>(from + ahead) : make_float4(none, none, none, none);
        return make_float4(holds(0, d) ? from[ahead] : none, holds(1, d) ? from[ahead + step] : none,
                           holds(2, d) ? from[ahead + 2 * step] : none, holds(3, d) ? from[ahead + 3 * step] : none);
    }
    // For arrays that the launch does not write: such loads may pass stores.
    __device__ __forceinline__ float4 read_constant(const float* row, u32 d) const {
        const float* const from = row + own;
        if (WIDE) return holds(0, d) ? __ldg(reinterpret_cast<const float4*>(from + ahead)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        return make_float4(holds(0, d) ? __ldg(from + ahead) : 0.0f, holds(1, d) ? __ldg(from + ahead + step) : 0.0f,
                           holds(2, d) ? __ldg(from + ahead + 2 * step) : 0.0f, holds(3, d) ? __ldg(from + ahead + 3 * step) : 0.0f);
    }
    __device__ __forceinline__ void write(float* row, u32 d, float4 v) const {
        float* const to = row + own;
        if (WIDE) {
            if (holds(0, d)) *reinterpret_cast<float4*>(to + ahead) = v;
            return;
        }
        if (holds(0, d)) to[ahead] = v.x;
        if (holds(1, d)) to[ahead + step] = v.y;
        if (holds(2, d)) to[ahead + 2 * step] = v.z;
        if (holds(3, d)) to[ahead + 3 * step] = v.w;
    }
    // Adds up the differences from the mean of the values below d, and their squares.
    __device__ __forceinline__ void differences(float4 v, float mean, u32 d, float& sum, float& squares) const {
        const float4 e = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
        if (WIDE) {
            if (holds(0, d)) {
                sum += (e.x + e.y) + (e.z + e.w);
                squares += fmaf(e.x, e.x, e.y * e.y) + fmaf(e.z, e.z, e.w * e.w);
            }
            return;
        }
        auto one = [&](u32 j, float value) {
            if (holds(j, d)) {
                sum += value;
                squares = fmaf(value, value, squares);
            }
        };
        one(0, e.x);
        one(1, e.y);
        one(2, e.z);
        one(3, e.w);
    }
};

struct Add {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};
struct Larger {
    // As on the CPU: keeps the running maximum if the new value is NaN.
    __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Combines the values of LANES lanes; each lane gets the result.
template <u32 LANES, class T, class F> __device__ __forceinline__ T over_lanes(T value, F combine) {
#pragma unroll
    for (u32 by = LANES / 2; by > 0; by /= 2) value = combine(value, __shfl_xor_sync(WHOLE_WARP, value, by));
    return value;
}

// Combines the values of a row's threads; each gets the result. Blocks are whole warps. Each call in a kernel has a
// separate SLOT, so that one barrier is enough; a call in a loop needs another barrier in between.
template <u32 THREADS, u32 SLOT, class T, class F> __device__ __forceinline__ T over_row(T value, T none, F combine) {
    value = over_lanes<THREADS < 32 ? THREADS : 32>(value, combine);
    if constexpr (THREADS > 32) {
        __shared__ T warps[32];
        const u32 k = threadIdx.x;
        if (k % 32 == 0) warps[k / 32] = value;
        __syncthreads();
        value = over_lanes<32>(k % 32 < THREADS / 32 ? warps[k % 32] : none, combine);
    }
    return value;
}

// The same for two sums.
template <u32 THREADS> __device__ __forceinline__ void both_over_row(float& a, float& b) {
    constexpr u32 lanes = THREADS < 32 ? THREADS : 32;
    a = over_lanes<lanes>(a, Add());
    b = over_lanes<lanes>(b, Add());
    if constexpr (THREADS > 32) {
        __shared__ float warps[2][32];
        const u32 k = threadIdx.x;
        if (k % 32 == 0) {
            warps[0][k / 32] = a;
            warps[1][k / 32] = b;
        }
        __syncthreads();
        const bool there = k % 32 < THREADS / 32;
        a = over_lanes<32>(there ? warps[0][k % 32] : 0.0f, Add());
        b = over_lanes<32>(there ? warps[1][k % 32] : 0.0f, Add());
    }
}

// e^x, and e^(v - base).
__device__ __forceinline__ float quick_exponential(float x) {
    return quick_power(x * 1.44269504088896341f);
}
__device__ __forceinline__ float4 quick_exponential(float4 v, float base) {
    return make_float4(quick_exponential(v.x - base), quick_exponential(v.y - base), quick_exponential(v.z - base), quick_exponential(v.w - base));
}

// The base of the exponents: the largest value, if any is above -inf.
__device__ __forceinline__ float base_of(float most) {
    return most == -INFINITE ? 0.0f : most;
}

// The largest of some values, and the sum of e^(value - base_of(largest)).
struct Exponentials {
    float most, sum;
};

// Combines those of all threads of a row.
template <u32 THREADS> __device__ __forceinline__ Exponentials over_row(Exponentials own) {
    constexpr u32 lanes = THREADS < 32 ? THREADS : 32;
    auto reduced = [](Exponentials e) {
        Exponentials all;
        all.most = over_lanes<lanes>(e.most, Larger());
        all.sum = over_lanes<lanes>(e.sum * quick_exponential(e.most - base_of(all.most)), Add());
        return all;
    };
    own = reduced(own);
    if constexpr (THREADS > 32) {
        __shared__ float most[32], sums[32];
        const u32 k = threadIdx.x;
        if (k % 32 == 0) {
            most[k / 32] = own.most;
            sums[k / 32] = own.sum;
        }
        __syncthreads();
        const bool there = k % 32 < THREADS / 32;
        own.most = there ? most[k % 32] : -INFINITE;
        own.sum = there ? sums[k % 32] : 0.0f;
        own = reduced(own);
    }
    return own;
}

__device__ __forceinline__ float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ __forceinline__ float4 operator*(float4 a, float b) {
    return make_float4(a.x * b, a.y * b, a.z * b, a.w * b);
}
__device__ __forceinline__ float largest(float4 v) {
    return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
}
__device__ __forceinline__ float sum_of(float4 v) {
    return (v.x + v.y) + (v.z + v.w);
}

// Replaces a thread's values by e^(v - base_of(largest)).
template <u32 VECTORS> __device__ __forceinline__ Exponentials exponentials(float4 (&v)[VECTORS]) {
    Exponentials own = {-INFINITE, 0.0f};
#pragma unroll
    for (u32 i = 0; i < VECTORS; ++i) own.most = fmaxf(own.most, largest(v[i]));
#pragma unroll
    for (u32 i = 0; i < VECTORS; ++i) {
        v[i] = quick_exponential(v[i], base_of(own.most));
        own.sum += sum_of(v[i]);
    }
    return own;
}

// Combines those of two sets of values.
__device__ __forceinline__ Exponentials joined(Exponentials a, Exponentials b) {
    const float most = fmaxf(a.most, b.most), base = base_of(most);
    return {most, a.sum * quick_exponential(a.most - base) + b.sum * quick_exponential(b.most - base)};
}

// The exponentials of a row of any length, by one block; each thread continues from the values that it has.
template <u32 THREADS, u32 VECTORS, bool WIDE> __device__ __forceinline__ Exponentials exponentials_of_long(const float* row, u32 d) {
    Exponentials own = {-INFINITE, 0.0f};
    for (u32 at = 0; at < d; at += 4 * VECTORS * THREADS) {
        float4 v[VECTORS];
#pragma unroll
        for (u32 i = 0; i < VECTORS; ++i) v[i] = Four<WIDE>(i, threadIdx.x, THREADS).read(row + at, d - at, -INFINITE);
        own = joined(own, exponentials(v));
    }
    return over_row<THREADS>(own);
}

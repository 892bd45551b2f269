// Shared code of the clusterless decoder's kernels. Times, positions and marks arrive as f64, as in the caller's
// arrays; the device computes everything from there to the outputs.
//
// Gaussian kernels are powers of two of squared distances in f32. A coordinate is a pair of f32 (whose sum is exact to
// 48 bits), so that differences resolve small distances anywhere on a long track. No floats are added in an order that
// depends on when a block runs: sums over electrodes and spikes for one output bin are integers.

// The hardware's base-2 logarithm: 2 units in the last place.
#ifdef __CUDACC__
__device__ __forceinline__ float logarithm(float x) {
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
inline float logarithm(float x) { return log2f(x); }
#endif

// Loads eight values; `from` is aligned to 16 bytes.
__device__ __forceinline__ void eight(float (&x)[8], const float* from) {
    const float4 u = *reinterpret_cast<const float4*>(from), v = *reinterpret_cast<const float4*>(from + 4);
    x[0] = u.x, x[1] = u.y, x[2] = u.z, x[3] = u.w, x[4] = v.x, x[5] = v.y, x[6] = v.z, x[7] = v.w;
}

// Fields of an electrode, 16 words each; offsets are in values.
enum {
    e_encoding,      // first encoding spike in the padded arrays
    e_spikes,        // number of encoding spikes
    e_stride,        // the same with padding
    e_features,      // features of a mark
    e_marks,         // [features, stride] in `marks`
    e_places,        // [dims, 2, stride] in `places`
    e_decoding,      // first decoding spike
    e_decodings,     // number of decoding spikes
    e_decoded_marks, // [spikes, features] in the marks of decoding spikes
    e_centre,        // [features] centre of the marks, then their unit
    e_groups,        // first of its groups of 16 encoding spikes
    e_times,         // first encoding spike as given, before any is excluded
    e_given,         // number of encoding spikes as given
    e_words = 16
};

constexpr double log_of_2 = 0.69314718055994530942;
constexpr float floor_of_log = -34.538776394910684f;
constexpr u32 nowhere = 0xffffffffu;

// The number of ascending values that are <= t, or < t.
__device__ __forceinline__ u32 up_to(const double* values, u32 n, double t, bool equal) {
    u32 low = 0, high = n;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        const bool below = equal ? values[middle] <= t : values[middle] < t;
        if (below) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Coordinate d of the animal at time t: linear between samples and beyond the ends; of two samples at one time the
// earlier counts.
struct Segment {
    u32 left, right;
    double share;
};
__device__ __forceinline__ Segment segment(const double* time, u32 samples, double t) {
    const u32 last = samples - 1;
    u32 right = up_to(time, samples, t, true);
    right = min(max(right, 1u), last);
    const u32 left = right > 0 ? right - 1 : 0;
    const double span = time[right] - time[left];
    return {left, right, span > 0.0 ? (t - time[left]) / span : 0.0};
}

// Converts a coordinate to a pair, in units of the kernel.
__device__ __forceinline__ void pair(double x, float* high, float* low) {
    const double most = 3e18;
    x = x < -most ? -most : x > most ? most : x;
    *high = static_cast<float>(x);
    *low = static_cast<float>(x - static_cast<double>(*high));
}

__device__ __forceinline__ float larger(float a, float b) { return b > a ? b : a; }

// A mark feature relative to its electrode's centre, in its electrode's units.
__device__ __forceinline__ float mark_units(double value, double centre, double unit) {
    const float most = 1e18f;
    const float x = static_cast<float>((value - centre) * unit);
    return x < -most ? -most : x > most ? most : x;
}

// The time row of a spike; `nowhere` outside the edges.
__device__ __forceinline__ u32 row_of(const double* edges, u32 n, double t) {
    if (!(t >= edges[0] && t <= edges[n - 1])) return nowhere;
    return n > 2 ? up_to(edges + 1, n - 2, t, true) : 0;
}

// Exponents of the position kernels of eight points at this thread's coordinates: points are [2 dims, pitch],
// coordinates [2 dims, own_pitch] or, if the number of dimensions is a constant, in registers.
template <int DIMS> struct Coordinates {
    float held[DIMS > 0 ? 2 * DIMS : 1];
    const float* own;
    u64 pitch;
    u32 dims;

    __device__ __forceinline__ Coordinates(const float* own, u64 pitch, u32 dims) : own(own), pitch(pitch), dims(DIMS > 0 ? u32(DIMS) : dims) {
#pragma unroll
        for (int d = 0; d < 2 * DIMS; ++d) held[d] = own[d * pitch];
    }

    __device__ __forceinline__ void exponents(float (&x)[8], const float* points, u32 points_pitch) const {
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = 0.0f;
        auto add = [&](u32 d, float high, float low) {
            float y[8], z[8];
            eight(y, points + d * points_pitch);
            eight(z, points + (d + 1) * points_pitch);
#pragma unroll
            for (u32 k = 0; k < 8; ++k) {
                const float distance = (y[k] - high) + (z[k] - low);
                x[k] = fmaf(-distance, distance, x[k]);
            }
        };
        if (DIMS > 0) {
#pragma unroll
            for (int d = 0; d < 2 * DIMS; d += 2) add(d, held[d], held[d + 1]);
        } else {
            for (u32 d = 0; d < 2 * dims; d += 2) add(d, own[d * pitch], own[(d + 1) * pitch]);
        }
    }
};

// The sum of eight powers of two.
__device__ __forceinline__ float powers(const float (&x)[8], float less) {
    float y[8];
#pragma unroll
    for (u32 k = 0; k < 8; ++k) y[k] = quick_power(x[k] - less);
    return ((y[0] + y[1]) + (y[2] + y[3])) + ((y[4] + y[5]) + (y[6] + y[7]));
}

// Lists, in order, the spikes of a row among as many as the block has threads, starting at `start`; rows as in
// `row_of`. Returns their number; `votes` has one entry per warp.
__device__ __forceinline__ u32 spikes_of_row(const double* edges, u32 n, u32 row, const double* times, u32 start, u32 count, u32* list, u32* votes) {
    const u32 j = start + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool inside = false;
    if (j < count && row + 1 < n) {
        const double t = times[j];
        inside = t >= edges[0] && t <= edges[n - 1] && (row == 0 || t >= edges[row]) && (row + 2 == n || t < edges[row + 1]);
    }
    const u32 voted = __ballot_sync(WHOLE_WARP, inside);
    // Threads that still read the previous list have not reached the first barrier.
    if (lane == 0) votes[warp] = __popc(voted);
    __syncthreads();
    u32 before = 0, found = 0;
    for (u32 other = 0; other < blockDim.x / 32; ++other) {
        if (other == warp) before = found;
        found += votes[other];
    }
    if (inside) list[before + __popc(voted & ((1u << lane) - 1))] = j;
    __syncthreads();
    return found;
}

// The clusterless decoder at the animal's position: a density over position and mark at every decoding spike, occupancy
// and ground process at every edge.

// Positions of the queries (edges, then decoding spikes) [2 dims, all], marks of the spikes in their electrode's units,
// and the row of each spike: -1 before the first edge, `edge_count` after the last. One thread per query.
extern "C" __global__ void local_queries(const u64* electrodes, const u32* spikes, const double* times, const double* given, const double* centres, const double* track_time, const double* track, const double* units, float* places, float* decoded, i32* rows, u32 all, u32 edge_count, u32 samples, u32 dims) {
    const u32 q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= all) return;
    const double t = times[q];
    const Segment at = segment(track_time, samples, t);
    for (u32 d = 0; d < dims; ++d) {
        const double a = track[static_cast<u64>(at.left) * dims + d], b = track[static_cast<u64>(at.right) * dims + d];
        float high, low;
        pair((a + at.share * (b - a)) * units[d], &high, &low);
        places[static_cast<u64>(2 * d) * all + q] = high;
        places[static_cast<u64>(2 * d + 1) * all + q] = low;
    }
    if (q < edge_count) return;
    const u32 j = q - edge_count;
    const u64* const electrode = electrodes + static_cast<u64>(spikes[j]) * e_words;
    const u32 features = static_cast<u32>(electrode[e_features]);
    const u64 mark = electrode[e_decoded_marks] + (j - electrode[e_decoding]) * features;
    const double* const centre = centres + electrode[e_centre];
    for (u32 f = 0; f < features; ++f) decoded[mark + f] = mark_units(given[mark + f], centre[f], centre[features + f]);
    const u32 row = row_of(times, edge_count, t);
    rows[j] = row == nowhere ? (t < times[0] ? -1 : static_cast<i32>(edge_count)) : static_cast<i32>(row);
}

// The points of a kernel sum at a block's 128 queries: n points [2 dims + features, stride]. They pass through shared
// memory 128 at a time; the next ones load while the current ones are summed.
struct Points {
    const float *place, *mark;
    u32 n, stride, width, dims;
    float *points, *own;

    __device__ __forceinline__ void fetch(u32 start) const {
        float* const to = points + start / 128 % 2 * 128 * width;
        for (u32 at = threadIdx.x; at < 32 * width; at += 128) {
            const u32 row = at / 32, i = start + at % 32 * 4;
            if (i >= stride) continue;
            const float* const from = row < 2 * dims ? place + static_cast<u64>(row) * stride : mark + static_cast<u64>(row - 2 * dims) * stride;
            copy_async(to + at * 4, from + i, 16);
        }
        copy_commit();
    }

    // Base-2 logarithm of the sum at the thread's query. If SHIFTED, the largest exponent so far is factored out, so
    // that kernels below the smallest float still have a logarithm.
    template <int DIMS, bool SHIFTED> __device__ __forceinline__ double logarithm_of_sum() const {
        const Coordinates<DIMS> query(own + threadIdx.x, 128, dims);
        float top = SHIFTED ? -3.4028235e38f : 0.0f;
        double total = 0.0;
        fetch(0);
        for (u32 start = 0; start < n; start += 128) {
            const u32 here = min(128u, n - start);
            copy_wait<0>();
            __syncthreads();
            if (start + 128 < n) fetch(start + 128);
            const float* const now = points + start / 128 % 2 * 128 * width;
            const float before = top;
            float part = 0.0f;
            for (u32 i = 0; i < here; i += 8) {
                float x[8];
                query.exponents(x, now + i, 128);
                if (SHIFTED) {
                    for (u32 f = 2 * dims; f < width; ++f) {
                        float y[8];
                        const float mine = own[f * 128 + threadIdx.x];
                        eight(y, now + f * 128 + i);
#pragma unroll
                        for (u32 k = 0; k < 8; ++k) x[k] = fmaf(-(y[k] - mine), y[k] - mine, x[k]);
                    }
                    // Padding is far away, but the query may be too.
                    if (i + 8 > here) {
#pragma unroll
                        for (u32 k = 0; k < 8; ++k)
                            if (i + k >= here) x[k] = -INFINITE;
                    }
                    float most = top;
#pragma unroll
                    for (u32 k = 0; k < 8; ++k) most = larger(most, x[k]);
                    part = part * quick_power(top - most) + powers(x, most);
                    top = most;
                } else {
                    part += powers(x, 0.0f);
                }
            }
            total = SHIFTED ? total * static_cast<double>(quick_power(before - top)) + static_cast<double>(part) : total + static_cast<double>(part);
        }
        return total > 0.0 ? log2(total) + static_cast<double>(top) : -static_cast<double>(INFINITE);
    }
};

// ln of kernel sums at a block's 128 queries, one per thread: of the track (kind 0), of an electrode's positions (1),
// of its positions and marks (2). `work` has (kind, electrode, first query, queries) per block.
template <int DIMS> __device__ __forceinline__ void local(const u64* electrodes, const u32* work, const float* track_places, const float* places, const float* marks, const float* queries, const float* decoded, double* logs, double* ground, double* joint, u32 all, u32 edge_count, u32 samples, u32 track_stride, u32 dims) {
    SHARED_BYTES(memory);
    const u32 t = threadIdx.x;
    const u32* const block = work + 4 * blockIdx.x;
    const u32 kind = block[0], e = block[1], first = block[2], count = block[3];
    const u64* const electrode = electrodes + static_cast<u64>(e) * e_words;
    Points p;
    const u32 features = kind == 2 ? static_cast<u32>(electrode[e_features]) : 0;
    p.dims = DIMS > 0 ? u32(DIMS) : dims;
    p.width = 2 * p.dims + features;
    p.n = kind == 0 ? samples : static_cast<u32>(electrode[e_spikes]);
    p.stride = kind == 0 ? track_stride : static_cast<u32>(electrode[e_stride]);
    p.place = kind == 0 ? track_places : places + electrode[e_places];
    p.mark = marks + electrode[e_marks];
    p.points = reinterpret_cast<float*>(memory);
    p.own = p.points + 2 * 128 * p.width;
    u32* const faint = reinterpret_cast<u32*>(p.own + 128 * p.width);
    if (t == 0) *faint = 0;
    const u32 q = first + min(t, count - 1);
    for (u32 d = 0; d < 2 * p.dims; ++d) p.own[d * 128 + t] = queries[static_cast<u64>(d) * all + q];
    if (features > 0) {
        const float* const y = decoded + electrode[e_decoded_marks] + (q - edge_count - electrode[e_decoding]) * features;
        for (u32 f = 0; f < features; ++f) p.own[(2 * p.dims + f) * 128 + t] = y[f];
    }
    // Near the animal sums are large, and kernels below the smallest float are negligible. If a sum is not, the block
    // starts again.
    double result = 0.0;
    bool again = kind == 2;
    if (!again) {
        result = p.template logarithm_of_sum<DIMS, false>();
        if (!(result > -60.0)) atomicOr(faint, 1u);
        __syncthreads();
        again = *faint != 0;
    }
    if (again) result = p.template logarithm_of_sum<DIMS, true>();
    if (t >= count) return;
    result *= log_of_2;
    if (kind == 0) logs[q] = result;
    else if (kind == 1) ground[static_cast<u64>(e) * edge_count + q] = result;
    else joint[q - edge_count] = result;
}

#define PARAMETERS                                                                                                        \
    const u64 *electrodes, const u32 *work, const float *track_places, const float *places, const float *marks,          \
        const float *queries, const float *decoded, double *logs, double *ground, double *joint, u32 all, u32 edge_count, \
        u32 samples, u32 track_stride, u32 dims
#define ARGUMENTS electrodes, work, track_places, places, marks, queries, decoded, logs, ground, joint, all, edge_count, samples, track_stride, dims
extern "C" __global__ void local_sums_1(PARAMETERS) { local<1>(ARGUMENTS); }
extern "C" __global__ void local_sums_2(PARAMETERS) { local<2>(ARGUMENTS); }
extern "C" __global__ void local_sums_any(PARAMETERS) { local<0>(ARGUMENTS); }

// The log likelihood at every edge: one warp per edge, one lane per electrode. Below the logarithm `least` there is no
// occupancy.
extern "C" __global__ void local_likelihood(const u64* electrodes, const double* scales, const double* logs, const double* ground, const double* joint, const i32* rows, float* out, u32 edge_count, u32 count, double norm, double samples, double least) {
    const u32 lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= edge_count) return;
    const double log_samples = log(samples), log_pi = logs[row] + norm - log_samples;
    double sum = 0.0;
    for (u32 e = lane; e < count; e += 32) {
        const u64* const electrode = electrodes + static_cast<u64>(e) * e_words;
        const bool heard = electrode[e_spikes] > 0;
        if (heard && log_pi >= least) sum -= exp(ground[static_cast<u64>(e) * edge_count + row] + norm - log_pi) / samples;
        const i32* const own = rows + electrode[e_decoding];
        const u32 n = static_cast<u32>(electrode[e_decodings]);
        u32 low = 0, high = n;
        while (low < high) {
            const u32 middle = low + (high - low) / 2;
            if (own[middle] < static_cast<i32>(row)) low = middle + 1;
            else high = middle;
        }
        for (u32 j = low; j < n && own[j] == static_cast<i32>(row); ++j) {
            const u64 spike = electrode[e_decoding] + j;
            const double pi = logs[edge_count + spike] + norm - log_samples;
            const double value = heard && pi >= least ? joint[spike] + scales[e] - pi : floor_of_log;
            sum += value > floor_of_log ? value : floor_of_log;
        }
    }
    for (u32 by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
    if (lane == 0) out[row] = static_cast<float>(sum);
}

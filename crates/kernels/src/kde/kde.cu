// The clusterless decoder: the encoding model, and prediction at all bins.

constexpr double floor_of_rate = 1e-15;

// Encoding: where the animal was at each spike, then densities at every bin.

// Places of the track's samples and behind them of the encoding spikes, [2 dims, all]; spikes outside the time of the track
// go far away. A thread a place.
extern "C" __global__ void kde_places(const double* times, const double* track_time, const double* track, const double* units, float* places, u32 all, u32 samples, u32 dims) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= all) return;
    Segment at = {i, i, 0.0};
    bool kept = true;
    if (i >= samples) {
        const double t = times[i - samples];
        kept = t >= track_time[0] && t <= track_time[samples - 1];
        at = segment(track_time, samples, t);
    }
    for (u32 d = 0; d < dims; ++d) {
        const double a = track[static_cast<u64>(at.left) * dims + d], b = track[static_cast<u64>(at.right) * dims + d];
        float high = 3e18f, low = 0.0f;
        if (kept) pair((a + at.share * (b - a)) * units[d], &high, &low);
        places[static_cast<u64>(2 * d) * all + i] = high;
        places[static_cast<u64>(2 * d + 1) * all + i] = low;
    }
}

// Sums of position kernels at 128 bins over a piece of the points of one source: a thread a bin. A piece is (first point,
// end); coordinates of points are [2 dims, all], those of bins [2 dims, padded bins]. In f32 over 128 points, then f64.
extern "C" __global__ void kde_sums(const float* places, const float* grid, const u32* pieces, double* sums, u32 all, u32 bins, u32 padded, u32 dims) {
    SHARED_BYTES(memory);
    float* const points = reinterpret_cast<float*>(memory);
    const u32 t = threadIdx.x, b = blockIdx.y * 128 + t, first = pieces[2 * blockIdx.x], end = pieces[2 * blockIdx.x + 1];
    double total = 0.0;
    for (u32 start = first; start < end; start += 128) {
        __syncthreads();
        for (u32 d = 0; d < 2 * dims; ++d) points[d * 128 + t] = start + t < end ? places[static_cast<u64>(d) * all + start + t] : d % 2 ? 0.0f : 3e18f;
        __syncthreads();
        if (b < bins) {
            float sum = 0.0f;
            const u32 count = min(128u, end - start);
            for (u32 i = 0; i < count; ++i) {
                float exponent = 0.0f;
                for (u32 d = 0; d < dims; ++d) {
                    const float* const x = points + 2 * d * 128 + i;
                    const float distance = (x[0] - grid[static_cast<u64>(2 * d) * padded + b]) + (x[128] - grid[static_cast<u64>(2 * d + 1) * padded + b]);
                    exponent = fmaf(-distance, distance, exponent);
                }
                sum += exp2f(exponent);
            }
            total += sum;
        }
    }
    if (b < bins) sums[static_cast<u64>(blockIdx.x) * bins + b] = total;
}

// Spikes of each electrode within the time of the track: a thread an electrode.
extern "C" __global__ void kde_kept(const u64* electrodes, const double* times, const double* track_time, u32* kept, float* mean_rates, u32 count, u32 samples) {
    const u32 e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= count) return;
    const u64* const electrode = electrodes + static_cast<u64>(e) * e_words;
    const double* const own = times + electrode[e_times];
    const u32 n = static_cast<u32>(electrode[e_given]);
    const u32 start = up_to(own, n, track_time[0], false), end = up_to(own, n, track_time[samples - 1], true);
    kept[e] = end > start ? end - start : 0;
    mean_rates[e] = static_cast<float>(static_cast<double>(kept[e]) / samples);
}

// Occupancy and ground process from the sums of all pieces: `firsts` says where the pieces of the track (0) and of electrode
// e (1 + e) begin. A thread a bin.
extern "C" __global__ void kde_densities(const double* sums, const u32* firsts, const u32* kept, float* occupancy, float* ground, u32 count, u32 bins, u32 samples, double norm) {
    const u32 b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= bins) return;
    auto sum = [&](u32 source) {
        double total = 0.0;
        for (u32 piece = firsts[source]; piece < firsts[source + 1]; ++piece) total += sums[static_cast<u64>(piece) * bins + b];
        return total;
    };
    const double pi = norm * sum(0) / samples;
    double intensity = 0.0;
    for (u32 e = 0; e < count; ++e) {
        const double n = kept[e], density = kept[e] ? norm * sum(1 + e) / n : 0.0;
        const double rate = n / samples * (pi > 0.0 ? density / pi : floor_of_rate);
        intensity += rate > floor_of_rate ? rate : floor_of_rate;
    }
    occupancy[b] = static_cast<float>(pi);
    ground[b] = static_cast<float>(intensity);
}

// Prediction at all bins.

// Which groups of 16 encoding spikes can lift one of 128 bins above the floor: a warp an electrode and tile of bins. The boxes
// are of groups [groups, dims, (low, high)] and of tiles likewise; `limits` [electrodes, tiles] is the squared distance beyond
// which a spike does not count. Writes the numbers of groups in order and how many there are.
extern "C" __global__ void kde_reach(const u64* electrodes, const double* group_boxes, const double* tile_boxes, const double* limits, u32* reached, u32* counts, u32 tiles, u32 all_groups, u32 dims, u32 skip) {
    const u32 lane = threadIdx.x, tile = blockIdx.y, e = blockIdx.x;
    const u64* const electrode = electrodes + static_cast<u64>(e) * e_words;
    const u32 groups = static_cast<u32>((electrode[e_spikes] + 15) / 16), first = static_cast<u32>(electrode[e_groups]);
    u32* const out = reached + static_cast<u64>(tile) * all_groups + first;
    const double limit = limits[static_cast<u64>(e) * tiles + tile];
    u32 found = 0;
    for (u32 start = 0; start < groups; start += 32) {
        const u32 group = start + lane;
        double gap = 0.0;
        if (group < groups)
            for (u32 d = 0; d < dims; ++d) {
                const double* const own = group_boxes + (static_cast<u64>(first + group) * dims + d) * 2;
                const double* const bins = tile_boxes + (static_cast<u64>(tile) * dims + d) * 2;
                const double over = own[0] - bins[1], under = bins[0] - own[1];
                const double apart = over > under ? over : under;
                if (apart > 0.0) gap += apart * apart;
            }
        const bool near = group < groups && (!skip || gap <= limit);
        const u32 votes = __ballot_sync(WHOLE_WARP, near);
        if (near) out[found + __popc(votes & ((1u << lane) - 1))] = group;
        found += __popc(votes);
    }
    if (lane == 0) counts[static_cast<u64>(e) * tiles + tile] = found;
}

// Marks of the decoding spikes in the electrode's units, their rows, and the largest mark exponent over the encoding spikes.
// `spikes` holds the electrode of each. A warp a spike.
extern "C" __global__ void kde_marks(const u64* electrodes, const u32* spikes, const double* times, const double* given, const double* centres, const double* edges, const float* marks, float* decoded, float* shifts, u32* rows, u32 n, u32 edge_count) {
    const u32 lane = threadIdx.x % 32, j = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (j >= n) return;
    const u64* const electrode = electrodes + static_cast<u64>(spikes[j]) * e_words;
    const u32 features = static_cast<u32>(electrode[e_features]), stride = static_cast<u32>(electrode[e_stride]);
    const u64 mark = electrode[e_decoded_marks] + (j - electrode[e_decoding]) * features;
    const double* const centre = centres + electrode[e_centre];
    for (u32 f = lane; f < features; f += 32) decoded[mark + f] = mark_units(given[mark + f], centre[f], centre[features + f]);
    __syncwarp();
    float most = -3.4028235e38f;
    const float* const own = marks + electrode[e_marks];
    for (u32 i = lane; i < static_cast<u32>(electrode[e_spikes]); i += 32) {
        float exponent = 0.0f;
        for (u32 f = 0; f < features; ++f) {
            const float distance = own[static_cast<u64>(f) * stride + i] - decoded[mark + f];
            exponent = fmaf(-distance, distance, exponent);
        }
        most = larger(most, exponent);
    }
    for (u32 by = 16; by > 0; by /= 2) most = larger(most, __shfl_xor_sync(WHOLE_WARP, most, by));
    if (lane == 0) {
        shifts[j] = most;
        rows[j] = row_of(edges, edge_count, times[j]);
    }
}

// Sums of mark kernels times position kernels: 64 decoding spikes of an electrode x 128 bins a block of 128 threads, 8 x 8 a
// thread. Groups of 16 encoding spikes: their kernels are made in shared memory, two groups at a time, so that one is made
// while the other is multiplied. Then the logarithm, the floor, and the sum over spikes of a row: in integers of 2^-32, which
// do not depend on the order. `work` holds (electrode, first spike) a block; `constants` [electrodes, padded] is what the
// logarithm of a bin needs beside the sum; `nearest` likewise the largest position exponent. DIMS = 0: as many as there are.
template <int DIMS> __device__ __forceinline__ void predict(const u64* electrodes, const u32* work, const float* marks, const float* places, const float* grid, const float* nearest, const float* constants, const float* decoded, const float* shifts, const u32* rows, const u32* reached, const u32* counts, u64* sums, u32 bins, u32 padded, u32 tiles, u32 all_groups, u32 given_dims) {
    constexpr u32 w_pitch = 68, p_pitch = 132, step = 16 * (w_pitch + p_pitch), held = DIMS > 0 ? 2 * DIMS : 1;
    SHARED_BYTES(shared);
    float* const kernels = reinterpret_cast<float*>(shared);
    float* const own_marks = kernels + 2 * step;
    const u32 dims = DIMS > 0 ? DIMS : given_dims;
    const u32 t = threadIdx.x, tx = t % 16, ty = t / 16, tile = blockIdx.y, b = tile * 128 + t;
    const u32 e = work[2 * blockIdx.x], first = work[2 * blockIdx.x + 1];
    const u64* const electrode = electrodes + static_cast<u64>(e) * e_words;
    const u32 n = static_cast<u32>(electrode[e_spikes]), stride = static_cast<u32>(electrode[e_stride]);
    const u32 features = static_cast<u32>(electrode[e_features]);
    const u32 count = min(64u, static_cast<u32>(electrode[e_decoding] + electrode[e_decodings]) - first);
    const float* const mark = marks + electrode[e_marks];
    const float* const place = places + electrode[e_places];
    const u32* const groups = reached + static_cast<u64>(tile) * all_groups + electrode[e_groups];
    const u32 group_count = counts[static_cast<u64>(e) * tiles + tile];
    // Marks of the block's spikes, [features, 64].
    const u64 from = electrode[e_decoded_marks] + (first - electrode[e_decoding]) * features;
    for (u32 at = t; at < 64 * features; at += 128) {
        const u32 j = at % 64, f = at / 64;
        own_marks[at] = j < count ? decoded[from + static_cast<u64>(j) * features + f] : 0.0f;
    }
    const float shift = shifts[first + min(t % 64, count - 1)];
    // Bins beyond the last repeat it, within the padding and past it.
    const u32 bin = min(b, padded - 1);
    const float nearness = nearest[static_cast<u64>(e) * padded + bin];
    float coordinates[held];
#pragma unroll
    for (u32 d = 0; d < held; ++d) coordinates[d] = DIMS > 0 ? grid[static_cast<u64>(d) * padded + bin] : 0.0f;
    __syncthreads();
    auto make = [&](u32 number, u32 half) {
        const u32 start = groups[number] * 16;
        float* const w = kernels + half * step;
        float* const p = w + 16 * w_pitch;
#pragma unroll 4
        for (u32 k = t / 64; k < 16; k += 2) {
            const u32 i = start + k;
            float exponent = -shift;
            for (u32 f = 0; f < features; ++f) {
                const float distance = mark[static_cast<u64>(f) * stride + i] - own_marks[f * 64 + t % 64];
                exponent = fmaf(-distance, distance, exponent);
            }
            w[k * w_pitch + t % 64] = i < n ? exp2f(exponent) : 0.0f;
        }
#pragma unroll 4
        for (u32 k = 0; k < 16; ++k) {
            const u32 i = start + k;
            float exponent = -nearness;
            if (DIMS > 0) {
#pragma unroll
                for (u32 d = 0; d < held; d += 2) {
                    const float distance = (place[d * stride + i] - coordinates[d]) + (place[(d + 1) * stride + i] - coordinates[d + 1]);
                    exponent = fmaf(-distance, distance, exponent);
                }
            } else {
                for (u32 d = 0; d < 2 * dims; d += 2) {
                    const float distance = (place[static_cast<u64>(d) * stride + i] - grid[static_cast<u64>(d) * padded + bin]) +
                                           (place[static_cast<u64>(d + 1) * stride + i] - grid[static_cast<u64>(d + 1) * padded + bin]);
                    exponent = fmaf(-distance, distance, exponent);
                }
            }
            // Rounding may leave the nearest spike a little above its own maximum.
            p[k * p_pitch + t] = exp2f(exponent < 0.0f ? exponent : 0.0f);
        }
    };
    float total[8][8];
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
#pragma unroll
        for (u32 j = 0; j < 8; ++j) total[i][j] = 0.0f;
    if (group_count > 0) make(0, 0);
    __syncthreads();
    for (u32 number = 0; number < group_count; ++number) {
        const u32 half = number % 2;
        if (number + 1 < group_count) make(number + 1, half ^ 1);
        const float* const w = kernels + half * step;
        const float* const p = w + 16 * w_pitch;
#pragma unroll 4
        for (u32 k = 0; k < 16; ++k) {
            float x[8], y[8];
#pragma unroll
            for (u32 g = 0; g < 2; ++g) {
                const float4 u = *reinterpret_cast<const float4*>(w + k * w_pitch + ty * 8 + g * 4);
                const float4 v = *reinterpret_cast<const float4*>(p + k * p_pitch + g * 64 + tx * 4);
                x[g * 4] = u.x, x[g * 4 + 1] = u.y, x[g * 4 + 2] = u.z, x[g * 4 + 3] = u.w;
                y[g * 4] = v.x, y[g * 4 + 1] = v.y, y[g * 4 + 2] = v.z, y[g * 4 + 3] = v.w;
            }
#pragma unroll
            for (u32 i = 0; i < 8; ++i)
#pragma unroll
                for (u32 j = 0; j < 8; ++j) total[i][j] = fmaf(x[i], y[j], total[i][j]);
        }
        __syncthreads();
    }
    // 32 spikes at a time through shared memory, so that a thread then has one bin and its spikes in the order of their rows.
    const float constant = constants[static_cast<u64>(e) * padded + bin];
    for (u32 part = 0; part < 2; ++part) {
        __syncthreads();
        if (ty / 4 == part) {
#pragma unroll
            for (u32 i = 0; i < 8; ++i)
#pragma unroll
                for (u32 g = 0; g < 2; ++g)
                    *reinterpret_cast<float4*>(kernels + ((ty % 4) * 8 + i) * p_pitch + g * 64 + tx * 4) =
                        make_float4(total[i][g * 4], total[i][g * 4 + 1], total[i][g * 4 + 2], total[i][g * 4 + 3]);
        }
        __syncthreads();
        if (b >= bins) continue;
        i64 sum = 0;
        u32 row = nowhere;
        for (u32 j = 0; j < 32 && part * 32 + j < count; ++j) {
            const u32 spike = first + part * 32 + j, now = rows[spike];
            const float scale = static_cast<float>(static_cast<double>(shifts[spike]) * log_of_2);
            float value = logf(kernels[j * p_pitch + t]) + (constant + scale);
            // -infinity without any kernel near, which comparison takes to the floor.
            value = value > floor_of_log ? value : floor_of_log;
            if (now != row && row != nowhere) {
                atomicAdd(sums + static_cast<u64>(row) * bins + b, static_cast<u64>(sum));
                sum = 0;
            }
            row = now;
            if (row != nowhere) sum += static_cast<i64>(value * 4294967296.0f);
        }
        if (row != nowhere) atomicAdd(sums + static_cast<u64>(row) * bins + b, static_cast<u64>(sum));
    }
}

#define PARAMETERS                                                                                                        \
    const u64 *electrodes, const u32 *work, const float *marks, const float *places, const float *grid,                  \
        const float *nearest, const float *constants, const float *decoded, const float *shifts, const u32 *rows,        \
        const u32 *reached, const u32 *counts, u64 *sums, u32 bins, u32 padded, u32 tiles, u32 all_groups, u32 dims
#define ARGUMENTS electrodes, work, marks, places, grid, nearest, constants, decoded, shifts, rows, reached, counts, sums, bins, padded, tiles, all_groups, dims

extern "C" __launch_bounds__(128, 3) __global__ void kde_predict_1(PARAMETERS) { predict<1>(ARGUMENTS); }
extern "C" __launch_bounds__(128, 3) __global__ void kde_predict_2(PARAMETERS) { predict<2>(ARGUMENTS); }
extern "C" __launch_bounds__(128, 3) __global__ void kde_predict_any(PARAMETERS) { predict<0>(ARGUMENTS); }

extern "C" __global__ void kde_clear(u64* sums, u64 n) {
    for (u64 k = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; k < n; k += static_cast<u64>(gridDim.x) * blockDim.x) sums[k] = 0;
}

// The log likelihood: what the spikes gave, less the ground process.
extern "C" __global__ void kde_likelihood(const u64* sums, const double* ground, float* out, u64 n, u32 bins) {
    for (u64 k = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; k < n; k += static_cast<u64>(gridDim.x) * blockDim.x)
        out[k] = static_cast<float>(static_cast<double>(static_cast<i64>(sums[k])) * (1.0 / 4294967296.0) - ground[k % bins]);
}

// The clusterless decoder: prediction at all bins.

// Marks of the decoding spikes in the electrode's units, their rows, and the largest mark exponent over the encoding
// spikes. `spikes` has the electrode of each; one warp per spike. All threads also clear the `cells` sums of the
// prediction.
extern "C" __global__ void kde_marks(const u64* electrodes, const u32* spikes, const double* times, const double* given, const double* centres, const double* edges, const float* marks, float* decoded, float* shifts, u32* rows, u64* sums, u64 cells, u32 n, u32 edge_count) {
    const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
    for (u64 k = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; k < cells; k += step) sums[k] = 0;
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

// Spikes and bins per tile, encoding spikes per group, and group numbers that a block lists at a time.
enum { tile_spikes = 128, tile_bins = 128, in_group = 16, listed = 512, tile_threads = 256 };
// Kernels of one group: of the marks [16, spikes], then of the positions [16, bins].
enum { marks_made = in_group * tile_spikes, group_made = marks_made + in_group * tile_bins };

// Squared distance of two boxes [dims, (low, high)].
__device__ __forceinline__ double gap_of(const double* a, const double* b, u32 dims) {
    double gap = 0.0;
    for (u32 d = 0; d < 2 * dims; d += 2) {
        const double over = a[d] - b[d + 1], under = b[d] - a[d + 1], apart = over > under ? over : under;
        if (apart > 0.0) gap += apart * apart;
    }
    return gap;
}

// total += W P over a group: 8 spikes x 8 bins per thread, bins in groups of four at a distance of 64, so that a warp's
// 16-byte reads have no bank conflicts.
__device__ __forceinline__ void multiply(float (&total)[8][8], const float* w, const float* p) {
#pragma unroll 8
    for (u32 k = 0; k < in_group; ++k) {
        float x[8], y[8];
#pragma unroll
        for (u32 g = 0; g < 2; ++g) {
            const float4 u = *reinterpret_cast<const float4*>(w + k * tile_spikes + g * 4);
            const float4 v = *reinterpret_cast<const float4*>(p + k * tile_bins + g * 64);
            x[g * 4] = u.x, x[g * 4 + 1] = u.y, x[g * 4 + 2] = u.z, x[g * 4 + 3] = u.w;
            y[g * 4] = v.x, y[g * 4 + 1] = v.y, y[g * 4 + 2] = v.z, y[g * 4 + 3] = v.w;
        }
#pragma unroll
        for (u32 i = 0; i < 8; ++i)
#pragma unroll
            for (u32 j = 0; j < 8; ++j) total[i][j] = fmaf(x[i], y[j], total[i][j]);
    }
}

// Sums of mark kernels times position kernels: 128 decoding spikes of an electrode x 128 bins per block of 256 threads,
// 16 spikes per warp. A block lists the groups of 16 encoding spikes that can lift one of its bins above the floor:
// boxes are [groups, dims, (low, high)], for tiles likewise; `limits` [electrodes, tiles] is the squared distance
// beyond which a spike does not count. Two groups load while the kernels of one are computed in shared memory and those
// of another are multiplied. Then come the logarithm, the floor, and the sum over spikes of a row, in integers of
// 2^-32, which do not depend on the order. `work` has (electrode, first spike, spikes) per block; `constants`
// [electrodes, padded] is added to the logarithm of a bin's sum; `nearest` likewise has the largest position exponent.
extern "C" __launch_bounds__(tile_threads, 2) __global__ void kde_predict(const u64* electrodes, const u32* work, const float* marks, const float* places, const float* grid, const float* nearest, const float* constants, const float* decoded, const float* shifts, const u32* rows, const double* group_boxes, const double* tile_boxes, const double* limits, u64* sums, u32 bins, u32 padded, u32 tiles, u32 dims, u32 skip) {
    SHARED_BYTES(shared);
    const u32 t = threadIdx.x, lane = t % 32, warp = t / 32, one = t % 128, tile = blockIdx.y;
    const u32 e = work[3 * blockIdx.x], first = work[3 * blockIdx.x + 1], count = work[3 * blockIdx.x + 2];
    const u64* const electrode = electrodes + static_cast<u64>(e) * e_words;
    const u32 n = static_cast<u32>(electrode[e_spikes]), stride = static_cast<u32>(electrode[e_stride]);
    const u32 features = static_cast<u32>(electrode[e_features]), width = 2 * dims + features;
    const u32 groups = (n + in_group - 1) / in_group;
    float* const kernels = reinterpret_cast<float*>(shared);
    // Coordinates of the tile's bins [2 dims, 128], then marks of the block's spikes [features, 128]; the same for two
    // groups of encoding spikes [2 dims + features, 16].
    float* const own = kernels + 2 * group_made;
    float* const given = own + width * 128;
    float* const own_shifts = given + 2 * in_group * width;
    u32* const own_rows = reinterpret_cast<u32*>(own_shifts + tile_spikes);
    u32* const found_by = own_rows + tile_spikes;
    u16* const list = reinterpret_cast<u16*>(found_by + tile_threads / 32);
    // Bins beyond the last repeat it, inside the padding and beyond; so do spikes beyond the last.
    const u32 b = tile * tile_bins + one, bin = min(b, padded - 1), spike = first + min(one, count - 1);
    if (t < 128) {
        for (u32 d = 0; d < 2 * dims; ++d) own[d * 128 + one] = grid[static_cast<u64>(d) * padded + bin];
        own_rows[one] = rows[spike];
    } else {
        const float* const mark = decoded + electrode[e_decoded_marks] + (spike - electrode[e_decoding]) * features;
        for (u32 f = 0; f < features; ++f) own[(2 * dims + f) * 128 + one] = mark[f];
        own_shifts[one] = shifts[spike];
    }
    const float* const place = places + electrode[e_places];
    const float* const mark = marks + electrode[e_marks];
    auto fetch = [&](u32 group, u32 half) {
        float* const to = given + half * in_group * width;
        for (u32 at = t; at < 4 * width; at += tile_threads) {
            const u32 row = at / 4;
            const float* const from = row < 2 * dims ? place + static_cast<u64>(row) * stride : mark + static_cast<u64>(row - 2 * dims) * stride;
            copy_async(to + 4 * at, from + group * in_group + at % 4 * 4, 16);
        }
    };
    const float nearness = nearest[static_cast<u64>(e) * padded + bin];
    // A thread computes 8 mark kernels of one decoding spike and 8 position kernels of one bin.
    const u32 eighth = t / 128 * 8;
    auto make = [&](u32 group, u32 half) {
        const float* const from = given + half * in_group * width + eighth;
        float* const w = kernels + half * group_made + eighth * tile_spikes + one;
        float x[8], y[8], z[8];
        if (one / 16 * 16 < count) {
            const float shift = own_shifts[one];
#pragma unroll
            for (u32 k = 0; k < 8; ++k) x[k] = -shift;
#pragma unroll 2
            for (u32 f = 2 * dims; f < width; ++f) {
                const float mine = own[f * 128 + one];
                eight(y, from + f * in_group);
#pragma unroll
                for (u32 k = 0; k < 8; ++k) {
                    const float distance = y[k] - mine;
                    x[k] = fmaf(-distance, distance, x[k]);
                }
            }
            // Padding is far away, but the spike may be too.
            if (group * in_group + in_group > n) {
#pragma unroll
                for (u32 k = 0; k < 8; ++k)
                    if (group * in_group + eighth + k >= n) x[k] = -INFINITE;
            }
#pragma unroll
            for (u32 k = 0; k < 8; ++k) w[k * tile_spikes] = quick_power(x[k]);
        }
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = -nearness;
#pragma unroll 1
        for (u32 d = 0; d < 2 * dims; d += 2) {
            const float high = own[d * 128 + one], low = own[(d + 1) * 128 + one];
            eight(y, from + d * in_group);
            eight(z, from + (d + 1) * in_group);
#pragma unroll
            for (u32 k = 0; k < 8; ++k) {
                const float distance = (y[k] - high) + (z[k] - low);
                x[k] = fmaf(-distance, distance, x[k]);
            }
        }
        // Rounding may put the nearest spike slightly above its maximum.
#pragma unroll
        for (u32 k = 0; k < 8; ++k) w[marks_made + k * tile_bins] = quick_power(x[k] < 0.0f ? x[k] : 0.0f);
    };
    float total[8][8];
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
#pragma unroll
        for (u32 j = 0; j < 8; ++j) total[i][j] = 0.0f;
    const float* const w = kernels + t / 16 * 8;
    const float* const p = kernels + marks_made + t % 16 * 4;
    const double limit = limits[static_cast<u64>(e) * tiles + tile];
    const double* const boxes = group_boxes + electrode[e_groups] * 2 * dims;
    for (u32 base = 0; base < groups; base += listed) {
        u32 found = 0;
        for (u32 start = base; start < min(base + listed, groups); start += tile_threads) {
            const u32 group = start + t;
            const bool near = group < groups && (!skip || gap_of(boxes + static_cast<u64>(group) * 2 * dims, tile_boxes + static_cast<u64>(tile) * 2 * dims, dims) <= limit);
            const u32 votes = __ballot_sync(WHOLE_WARP, near);
            if (lane == 0) found_by[warp] = __popc(votes);
            __syncthreads();
            u32 before = found;
            for (u32 other = 0; other < tile_threads / 32; ++other) {
                if (other < warp) before += found_by[other];
                found += found_by[other];
            }
            if (near) list[before + __popc(votes & ((1u << lane) - 1))] = static_cast<u16>(group - base);
            __syncthreads();
        }
        if (found == 0) continue;
        fetch(base + list[0], 0);
        copy_commit();
        if (found > 1) fetch(base + list[1], 1);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        make(base + list[0], 0);
        copy_wait<0>();
        __syncthreads();
        for (u32 number = 0; number < found; ++number) {
            const u32 half = number % 2;
            if (number + 2 < found) fetch(base + list[number + 2], half);
            copy_commit();
            if (number + 1 < found) make(base + list[number + 1], half ^ 1);
            if (warp * 16 < count) multiply(total, w + half * group_made, p + half * group_made);
            copy_wait<0>();
            __syncthreads();
        }
    }
    // 64 spikes at a time through shared memory, so that each thread has one bin and its spikes in the order of their
    // rows.
    const float constant = constants[static_cast<u64>(e) * padded + bin];
#pragma unroll 1
    for (u32 part = 0; part < 2; ++part) {
        __syncthreads();
        if (warp / 4 == part) {
#pragma unroll
            for (u32 i = 0; i < 8; ++i)
#pragma unroll
                for (u32 g = 0; g < 2; ++g)
                    *reinterpret_cast<float4*>(kernels + (t / 16 % 8 * 8 + i) * tile_bins + g * 64 + t % 16 * 4) =
                        make_float4(total[i][g * 4], total[i][g * 4 + 1], total[i][g * 4 + 2], total[i][g * 4 + 3]);
        }
        __syncthreads();
        if (b >= bins) continue;
        i64 sum = 0;
        u32 row = nowhere;
        const u32 from = part * 64 + t / 128 * 32, to = min(from + 32, count);
        for (u32 j = from; j < to; ++j) {
            const u32 now = own_rows[j];
            float value = fmaf(logarithm(kernels[j % 64 * tile_bins + one]) + own_shifts[j], static_cast<float>(log_of_2), constant);
            // Without any kernel nearby this is -infinity, which the comparison raises to the floor.
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

// The log likelihood: the sum over spikes minus the ground process. One thread per bin, with a stride over rows.
extern "C" __global__ void kde_likelihood(const u64* sums, const double* ground, float* out, u32 rows, u32 bins) {
    const u32 b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= bins) return;
    const double less = ground[b];
#pragma unroll 4
    for (u32 row = blockIdx.y; row < rows; row += gridDim.y) {
        const u64 at = static_cast<u64>(row) * bins + b;
        out[at] = static_cast<float>(static_cast<double>(static_cast<i64>(sums[at])) * (1.0 / 4294967296.0) - less);
    }
}

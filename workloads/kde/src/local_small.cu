
// The log likelihood at one edge per block, for inputs so small that launches would dominate. Eight warps share the
// sums of the edge: of the track at the edge and at its spikes, of every electrode's positions, and of positions and
// marks at the spikes. `least` is as in `local_likelihood`.

// ln of the kernel sum of n points [2 dims + features, stride] at one query, by one warp.
__device__ __forceinline__ double small_sum(const float* place, const float* mark, u32 n, u32 stride, u32 dims, u32 features, const float* here, const float* own) {
    float top = -3.4028235e38f, sum = 0.0f;
    for (u32 i = threadIdx.x % 32; i < n; i += 32) {
        float x = 0.0f;
        for (u32 d = 0; d < 2 * dims; d += 2) {
            const float distance = (place[static_cast<u64>(d) * stride + i] - here[d]) + (place[static_cast<u64>(d + 1) * stride + i] - here[d + 1]);
            x = fmaf(-distance, distance, x);
        }
        for (u32 f = 0; f < features; ++f) {
            const float distance = mark[static_cast<u64>(f) * stride + i] - own[f];
            x = fmaf(-distance, distance, x);
        }
        const float most = larger(top, x);
        sum = sum * quick_power(top - most) + quick_power(x - most);
        top = most;
    }
    float most = top;
    for (u32 by = 16; by > 0; by /= 2) most = larger(most, __shfl_xor_sync(WHOLE_WARP, most, by));
    double total = static_cast<double>(sum * quick_power(top - most));
    for (u32 by = 16; by > 0; by /= 2) total += __shfl_xor_sync(WHOLE_WARP, total, by);
    return n == 0 ? -static_cast<double>(INFINITE) : log(total) + static_cast<double>(most) * log_of_2;
}

extern "C" __launch_bounds__(256) __global__ void local_small(const u64* electrodes, const u32* spikes, const double* times, const double* given, const double* centres, const double* track_time, const double* track, const double* units, const float* track_places, const float* places, const float* marks, const double* scales, float* out, u32 all, u32 edge_count, u32 samples, u32 track_samples, u32 track_stride, u32 dims, u32 count, u32 most_features, double norm, double least) {
    SHARED_BYTES(small_memory);
    // Logarithms: track and electrodes at the edge, then track and joint of 256 spikes.
    double* const logs = reinterpret_cast<double*>(small_memory);
    double* const at_spikes = logs + 1 + count;
    u32* const list = reinterpret_cast<u32*>(at_spikes + 512);
    u32* const votes = list + 256;
    float* const here = reinterpret_cast<float*>(votes + 8);
    float* const decoded = here + 257 * 2 * dims;
    const u32 t = threadIdx.x, lane = t % 32, warp = t / 32, row = blockIdx.x;
    const double log_samples = log(static_cast<double>(samples));
    double sum = 0.0;
    for (u32 start = 0; start == 0 || start < all - edge_count; start += 256) {
        const u32 found = spikes_of_row(times, edge_count, row, times + edge_count, start, all - edge_count, list, votes);
        // The animal's position at the edge and at the spikes.
        for (u32 q = t; q <= found; q += 256) {
            const double time = times[q == 0 ? row : edge_count + list[q - 1]];
            const Segment at = segment(track_time, track_samples, time);
            for (u32 d = 0; d < dims; ++d) {
                const double x = track[static_cast<u64>(at.left) * dims + d], y = track[static_cast<u64>(at.right) * dims + d];
                pair((x + at.share * (y - x)) * units[d], here + q * 2 * dims + 2 * d, here + q * 2 * dims + 2 * d + 1);
            }
        }
        __syncthreads();
        const u32 of_edge = start == 0 ? 1 + count : 0;
        for (u32 task = warp; task < of_edge + 2 * found; task += 8) {
            if (task < of_edge) {
                const u64* const electrode = electrodes + static_cast<u64>(task - 1) * e_words;
                const double log_sum = task == 0 ? small_sum(track_places, marks, samples, track_stride, dims, 0, here, decoded)
                                                 : small_sum(places + electrode[e_places], marks, static_cast<u32>(electrode[e_spikes]),
                                                             static_cast<u32>(electrode[e_stride]), dims, 0, here, decoded);
                if (lane == 0) logs[task] = log_sum;
                continue;
            }
            const u32 s = (task - of_edge) / 2;
            const float* const there = here + (1 + s) * 2 * dims;
            double log_sum;
            if ((task - of_edge) % 2 == 0) {
                log_sum = small_sum(track_places, marks, samples, track_stride, dims, 0, there, decoded);
            } else {
                const u64* const electrode = electrodes + static_cast<u64>(spikes[list[s]]) * e_words;
                const u32 features = static_cast<u32>(electrode[e_features]);
                const double* const mark = given + electrode[e_decoded_marks] + (list[s] - electrode[e_decoding]) * features;
                const double* const centre = centres + electrode[e_centre];
                float* const own = decoded + warp * most_features;
                __syncwarp();
                for (u32 f = lane; f < features; f += 32) own[f] = mark_units(mark[f], centre[f], centre[features + f]);
                __syncwarp();
                log_sum = small_sum(places + electrode[e_places], marks + electrode[e_marks], static_cast<u32>(electrode[e_spikes]),
                                    static_cast<u32>(electrode[e_stride]), dims, features, there, own);
            }
            if (lane == 0) at_spikes[task - of_edge] = log_sum;
        }
        __syncthreads();
        if (warp > 0) continue;
        const double log_pi = logs[0] + norm - log_samples;
        for (u32 e = lane; e + 1 < of_edge; e += 32)
            if (electrodes[static_cast<u64>(e) * e_words + e_spikes] > 0 && log_pi >= least) sum -= exp(logs[1 + e] + norm - log_pi) / samples;
        for (u32 s = lane; s < found; s += 32) {
            const u32 e = spikes[list[s]];
            const double pi = at_spikes[2 * s] + norm - log_samples;
            const bool heard = electrodes[static_cast<u64>(e) * e_words + e_spikes] > 0;
            const double value = heard && pi >= least ? at_spikes[2 * s + 1] + scales[e] - pi : floor_of_log;
            sum += value > floor_of_log ? value : floor_of_log;
        }
    }
    if (warp > 0) return;
    for (u32 by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
    if (lane == 0) out[row] = static_cast<float>(sum);
}

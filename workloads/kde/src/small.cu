// The clusterless decoder for inputs so small that launches would dominate: fit and prediction in one launch each.

// The encoding model at 32 bins per block, one lane per bin. Every block computes all positions; its 8 warps share the
// track and the electrodes, whose spikes begin at `slot_of`. Incomplete groups of eight are filled with far points.
extern "C" __launch_bounds__(256) __global__ void kde_fit_small(const u64* electrodes, const double* times, const double* track_time, const double* track, const double* units, const float* grid, float* occupancy, float* ground, float* mean_rates, u32 count, u32 samples, u32 bins, u32 padded, u32 dims, u32 slots, double norm) {
    SHARED_BYTES(small_memory);
    double* const parts = reinterpret_cast<double*>(small_memory);
    double* const sums = parts + 8 * 32;
    float* const points = reinterpret_cast<float*>(sums + 32 * count);
    u32* const kept = reinterpret_cast<u32*>(points + 2 * dims * slots);
    const u32 t = threadIdx.x, lane = t % 32, warp = t / 32, given = blockIdx.x * 32 + lane, b = min(given, bins - 1);
    const u32 track_slots = (samples + 7) / 8 * 8;
    auto slot_of = [&](u32 e) { return track_slots + static_cast<u32>(electrodes[static_cast<u64>(e) * e_words + e_times] / 8 + e) * 8; };
    for (u32 at = t; at < 2 * dims * slots; at += 256) points[at] = at / slots % 2 ? 0.0f : 3e18f;
    __syncthreads();
    auto place = [&](u32 slot, Segment at) {
        for (u32 d = 0; d < dims; ++d) {
            const double x = track[static_cast<u64>(at.left) * dims + d], y = track[static_cast<u64>(at.right) * dims + d];
            pair((x + at.share * (y - x)) * units[d], points + 2 * d * slots + slot, points + (2 * d + 1) * slots + slot);
        }
    };
    for (u32 i = t; i < samples; i += 256) place(i, {i, i, 0.0});
    const double from = track_time[0], to = track_time[samples - 1];
    for (u32 e = warp; e < count; e += 8) {
        const u64* const electrode = electrodes + static_cast<u64>(e) * e_words;
        const u32 n = static_cast<u32>(electrode[e_given]), first = slot_of(e);
        u32 found = 0;
        for (u32 start = 0; start < n; start += 32) {
            const double time = start + lane < n ? times[electrode[e_times] + start + lane] : to;
            const bool keep = start + lane < n && time >= from && time <= to;
            found += __popc(__ballot_sync(WHOLE_WARP, keep));
            if (keep) place(first + start + lane, segment(track_time, samples, time));
        }
        if (lane == 0) kept[e] = found;
        if (lane == 0 && blockIdx.x == 0) mean_rates[e] = static_cast<float>(static_cast<double>(found) / samples);
    }
    __syncthreads();
    const Coordinates<0> bin(grid + b, padded, dims);
    auto sum = [&](u32 start, u32 end, u32 step) {
        double total = 0.0;
        for (u32 i = start; i < end; i += step) {
            float x[8];
            bin.exponents(x, points + i, slots);
            total += static_cast<double>(powers(x, 0.0f));
        }
        return total;
    };
    parts[warp * 32 + lane] = sum(8 * warp, samples, 64);
    for (u32 e = warp; e < count; e += 8) {
        const u32 first = slot_of(e);
        sums[e * 32 + lane] = sum(first, first + static_cast<u32>(electrodes[static_cast<u64>(e) * e_words + e_given]), 8);
    }
    __syncthreads();
    double pi = 0.0, intensity = 0.0;
    for (u32 other = 0; other < 8; ++other) pi += parts[other * 32 + lane];
    pi = norm * pi / samples;
    __syncthreads();
    for (u32 e = warp; e < count; e += 8) {
        const double n = kept[e], density = kept[e] ? norm * sums[e * 32 + lane] / n : 0.0;
        const double rate = n / samples * (pi > 0.0 ? density / pi : floor_of_rate);
        intensity += rate > floor_of_rate ? rate : floor_of_rate;
    }
    parts[warp * 32 + lane] = intensity;
    __syncthreads();
    if (warp > 0 || given >= bins) return;
    for (u32 other = 1; other < 8; ++other) intensity += parts[other * 32 + lane];
    occupancy[b] = static_cast<float>(pi);
    ground[b] = static_cast<float>(intensity);
}

// The log likelihood of one row at 128 bins per block, one thread per bin: the spikes of the row in sequence, each with
// the kernels of all encoding spikes of its electrode. The largest exponent so far is factored out.
extern "C" __launch_bounds__(128) __global__ void kde_predict_small(const u64* electrodes, const u32* spikes, const double* times, const double* given, const double* centres, const double* edges, const float* marks, const float* places, const float* grid, const float* nearest, const float* constants, const double* ground, float* out, u32 count, u32 rows, u32 bins, u32 padded, u32 dims) {
    SHARED_BYTES(small_memory);
    float* const by_mark = reinterpret_cast<float*>(small_memory);
    u32* const list = reinterpret_cast<u32*>(by_mark + 256);
    u32* const votes = list + 128;
    float* const decoded = reinterpret_cast<float*>(votes + 4);
    const u32 t = threadIdx.x, row = blockIdx.y, b = blockIdx.x * 128 + t, bin = min(b, bins - 1);
    const Coordinates<0> own(grid + bin, padded, dims);
    double total = 0.0;
    for (u32 start = 0; start < count; start += 128) {
        const u32 found = spikes_of_row(edges, rows, row, times, start, count, list, votes);
        for (u32 s = 0; s < found; ++s) {
            const u32 e = spikes[list[s]];
            const u64* const electrode = electrodes + static_cast<u64>(e) * e_words;
            const u32 n = static_cast<u32>(electrode[e_spikes]), stride = static_cast<u32>(electrode[e_stride]);
            const u32 features = static_cast<u32>(electrode[e_features]);
            const double* const mark = given + electrode[e_decoded_marks] + (list[s] - electrode[e_decoding]) * features;
            const double* const centre = centres + electrode[e_centre];
            for (u32 f = t; f < features; f += 128) decoded[f] = mark_units(mark[f], centre[f], centre[features + f]);
            const float nearness = nearest[static_cast<u64>(e) * padded + bin];
            float top = -3.4028235e38f, sum = 0.0f;
            for (u32 base = 0; base < n; base += 256) {
                __syncthreads();
                for (u32 i = t; i < 256; i += 128) {
                    float exponent = 0.0f;
                    for (u32 f = 0; f < features && base + i < n; ++f) {
                        const float distance = marks[electrode[e_marks] + static_cast<u64>(f) * stride + base + i] - decoded[f];
                        exponent = fmaf(-distance, distance, exponent);
                    }
                    by_mark[i] = base + i < n ? exponent : -INFINITE;
                }
                __syncthreads();
                for (u32 i = 0; i < min(256u, n - base); i += 8) {
                    float x[8], y[8];
                    own.exponents(x, places + electrode[e_places] + base + i, stride);
                    eight(y, by_mark + i);
                    float most = top;
#pragma unroll
                    for (u32 k = 0; k < 8; ++k) {
                        const float below = x[k] - nearness;
                        x[k] = y[k] + (below < 0.0f ? below : 0.0f);
                        most = larger(most, x[k]);
                    }
                    sum = sum * quick_power(top - most) + powers(x, most);
                    top = most;
                }
            }
            const float value = fmaf(logarithm(sum) + top, static_cast<float>(log_of_2), constants[static_cast<u64>(e) * padded + bin]);
            total += static_cast<double>(value > floor_of_log ? value : floor_of_log);
        }
    }
    if (b < bins) out[static_cast<u64>(row) * bins + b] = static_cast<float>(total - ground[b]);
}

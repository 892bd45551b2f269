// The clusterless decoder: the encoding model.

constexpr double floor_of_rate = 1e-15;

// Encoding: the animal's position at each spike, then densities at every bin.

// Positions of the track's samples, then of the encoding spikes, [2 dims, all]; spikes outside the track's time span
// get a far position. One thread per position, then one per electrode, which counts its spikes within the time span.
extern "C" __global__ void kde_places(const u64* electrodes, const double* times, const double* track_time, const double* track, const double* units, float* places, u32* kept_of, float* mean_rates, u32 all, u32 samples, u32 dims, u32 count) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= all) {
        const u32 e = i - all;
        if (e >= count) return;
        const u64* const electrode = electrodes + static_cast<u64>(e) * e_words;
        const double* const own = times + electrode[e_times];
        const u32 n = static_cast<u32>(electrode[e_given]);
        const u32 start = up_to(own, n, track_time[0], false), end = up_to(own, n, track_time[samples - 1], true);
        const u32 kept = end > start ? end - start : 0;
        kept_of[e] = kept;
        mean_rates[e] = static_cast<float>(static_cast<double>(kept) / samples);
        return;
    }
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

// Sums of position kernels at 128 bins over a piece of one source's points: one thread per bin. A piece is (first
// point, end); coordinates of points are [2 dims, all], those of bins [2 dims, padded bins]. Sums are in f32 over 128
// points, then f64.
template <int DIMS> __device__ __forceinline__ void sums_of(const float* places, const float* grid, const u32* pieces, double* sums, u32 all, u32 bins, u32 padded, u32 dims) {
    SHARED_BYTES(memory);
    float* const points = reinterpret_cast<float*>(memory);
    const u32 t = threadIdx.x, b = blockIdx.y * 128 + t, first = pieces[2 * blockIdx.x], end = pieces[2 * blockIdx.x + 1];
    const Coordinates<DIMS> bin(grid + min(b, bins - 1), padded, dims);
    double total = 0.0;
    for (u32 start = first; start < end; start += 128) {
        __syncthreads();
        for (u32 d = 0; d < 2 * bin.dims; ++d) points[d * 128 + t] = start + t < end ? places[static_cast<u64>(d) * all + start + t] : d % 2 ? 0.0f : 3e18f;
        __syncthreads();
        float part = 0.0f;
        for (u32 i = 0; i < min(128u, end - start); i += 8) {
            float x[8];
            bin.exponents(x, points + i, 128);
            part += powers(x, 0.0f);
        }
        total += part;
    }
    if (b < bins) sums[static_cast<u64>(blockIdx.x) * bins + b] = total;
}

#define PARAMETERS const float *places, const float *grid, const u32 *pieces, double *sums, u32 all, u32 bins, u32 padded, u32 dims
extern "C" __global__ void kde_sums_1(PARAMETERS) { sums_of<1>(places, grid, pieces, sums, all, bins, padded, dims); }
extern "C" __global__ void kde_sums_2(PARAMETERS) { sums_of<2>(places, grid, pieces, sums, all, bins, padded, dims); }
extern "C" __global__ void kde_sums_any(PARAMETERS) { sums_of<0>(places, grid, pieces, sums, all, bins, padded, dims); }
#undef PARAMETERS

// Occupancy and ground process from the sums of all pieces: `firsts` has the first piece of the track (0) and of
// electrode e (1 + e). 32 bins per block; its 8 warps share the electrodes.
extern "C" __global__ void kde_densities(const double* sums, const u32* firsts, const u32* kept, float* occupancy, float* ground, u32 count, u32 bins, u32 samples, double norm) {
    __shared__ double parts[8][32];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, given = blockIdx.x * 32 + lane, b = min(given, bins - 1);
    auto sum = [&](u32 source) {
        double total = 0.0;
        for (u32 piece = firsts[source]; piece < firsts[source + 1]; ++piece) total += sums[static_cast<u64>(piece) * bins + b];
        return total;
    };
    const double pi = norm * sum(0) / samples;
    double intensity = 0.0;
    for (u32 e = warp; e < count; e += 8) {
        const double n = kept[e], density = kept[e] ? norm * sum(1 + e) / n : 0.0;
        const double rate = n / samples * (pi > 0.0 ? density / pi : floor_of_rate);
        intensity += rate > floor_of_rate ? rate : floor_of_rate;
    }
    parts[warp][lane] = intensity;
    __syncthreads();
    if (warp > 0 || given >= bins) return;
    for (u32 other = 1; other < 8; ++other) intensity += parts[other][lane];
    occupancy[b] = static_cast<float>(pi);
    ground[b] = static_cast<float>(intensity);
}

// The clusterless decoder at the animal's own place: a density over place and mark at every decoding spike, occupancy and
// ground process at every edge.

// Places of the queries (edges, behind them decoding spikes) [2 dims, all], marks of the spikes in their electrode's units,
// and the rows that spikes fall into: -1 before the first edge, `edge_count` behind the last. A thread a query.
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

// ln of sums of kernels at 128 queries of a block, a thread each: of the track (kind 0), of an electrode's places (1), of its
// places and marks (2). `work` holds (kind, electrode, first query, queries) a block. Points go through shared memory 32 at a
// time; the largest exponent so far is factored out, so that kernels below the smallest float still have a logarithm.
extern "C" __global__ void local_sums(const u64* electrodes, const u32* work, const float* track_places, const float* places, const float* marks, const float* queries, const float* decoded, double* logs, double* ground, double* joint, u32 all, u32 edge_count, u32 samples, u32 track_stride, u32 dims) {
    SHARED_BYTES(memory);
    const u32 t = threadIdx.x;
    const u32* const block = work + 4 * blockIdx.x;
    const u32 kind = block[0], e = block[1], first = block[2], count = block[3];
    const u64* const electrode = electrodes + static_cast<u64>(e) * e_words;
    const u32 n = kind == 0 ? samples : static_cast<u32>(electrode[e_spikes]);
    const u32 stride = kind == 0 ? track_stride : static_cast<u32>(electrode[e_stride]);
    const u32 features = kind == 2 ? static_cast<u32>(electrode[e_features]) : 0, width = 2 * dims + features;
    const float* const place = kind == 0 ? track_places : places + electrode[e_places];
    const float* const mark = marks + electrode[e_marks];
    float* const points = reinterpret_cast<float*>(memory);
    float* const own = points + 32 * width;
    const u32 q = first + min(t, count - 1);
    for (u32 d = 0; d < 2 * dims; ++d) own[d * 128 + t] = queries[static_cast<u64>(d) * all + q];
    if (features > 0) {
        const float* const y = decoded + electrode[e_decoded_marks] + (q - edge_count - electrode[e_decoding]) * features;
        for (u32 f = 0; f < features; ++f) own[(2 * dims + f) * 128 + t] = y[f];
    }
    auto exponent = [&](u32 i) {
        float sum = 0.0f;
        for (u32 d = 0; d < 2 * dims; d += 2) {
            const float distance = (points[d * 32 + i] - own[d * 128 + t]) + (points[(d + 1) * 32 + i] - own[(d + 1) * 128 + t]);
            sum = fmaf(-distance, distance, sum);
        }
        for (u32 f = 2 * dims; f < width; ++f) {
            const float distance = points[f * 32 + i] - own[f * 128 + t];
            sum = fmaf(-distance, distance, sum);
        }
        return sum;
    };
    float top = -3.4028235e38f;
    double total = 0.0;
    for (u32 start = 0; start < n; start += 32) {
        const u32 here = min(32u, n - start);
        __syncthreads();
        for (u32 at = t; at < 32 * width; at += 128) {
            const u32 i = at % 32, d = at / 32;
            if (i < here) points[at] = d < 2 * dims ? place[static_cast<u64>(d) * stride + start + i] : mark[static_cast<u64>(d - 2 * dims) * stride + start + i];
        }
        __syncthreads();
        float most = top;
        for (u32 i = 0; i < here; ++i) most = larger(most, exponent(i));
        float part = 0.0f;
        for (u32 i = 0; i < here; ++i) part += exp2f(exponent(i) - most);
        total = total * static_cast<double>(exp2f(top - most)) + static_cast<double>(part);
        top = most;
    }
    if (t >= count) return;
    const double result = n == 0 ? -static_cast<double>(INFINITE) : log(total) + static_cast<double>(top) * log_of_2;
    if (kind == 0) logs[q] = result;
    else if (kind == 1) ground[static_cast<u64>(e) * edge_count + q] = result;
    else joint[q - edge_count] = result;
}

// The log likelihood at every edge: a thread an edge. `least` is the logarithm below which there is no occupancy.
extern "C" __global__ void local_likelihood(const u64* electrodes, const double* scales, const double* logs, const double* ground, const double* joint, const i32* rows, float* out, u32 edge_count, u32 count, double norm, double samples, double least) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= edge_count) return;
    const double log_samples = log(samples), log_pi = logs[row] + norm - log_samples;
    double sum = 0.0;
    for (u32 e = 0; e < count; ++e) {
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
    out[row] = static_cast<float>(sum);
}

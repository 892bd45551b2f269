// Attention in f32: softmax of masked rows, and the whole core in one kernel that never writes a score to memory (T.
// Dao et al., FlashAttention, 2022).
//
// In the fused kernel a block of 256 threads takes 64 queries of a head and loops over the keys that they see, 64 at a
// time: scores from shared memory into 4 x 4 registers per thread, the running maximum and sum of each row in the 16
// lanes that share it, weights through shared memory within those lanes, sums over values in registers. Keys and then
// values use the same shared memory. Heads have up to 32, 64 or 128 values, padded with zeros.
//
// A row that sees no key, or only scores of -inf, gives 0; NaN or +inf among its scores makes it NaN.

__device__ __forceinline__ float larger(float a, float b) {
    // Keeps the running maximum if the new value is NaN.
    return b > a ? b : a;
}

// Vector i of a lane of a row that sees `visible` columns; -inf beyond them.
template <bool WIDE> __device__ __forceinline__ float4 read_seen(const Four<WIDE>& four, const float* row, u32 visible) {
    float4 v = four.read(row, visible, -INFINITE);
    if (WIDE) {
        const u32 column = four.own + four.ahead;
        if (column + 1 >= visible) v.y = -INFINITE;
        if (column + 2 >= visible) v.z = -INFINITE;
        if (column + 3 >= visible) v.w = -INFINITE;
    }
    return v;
}

// Writes 0 in the columns beyond, whatever their values are.
template <bool WIDE> __device__ __forceinline__ void write_seen(const Four<WIDE>& four, float* row, u32 visible, u32 n, float4 v) {
    const u32 column = four.own + four.ahead;
    if (column >= visible) v.x = 0.0f;
    if (column + four.step >= visible) v.y = 0.0f;
    if (column + 2 * four.step >= visible) v.z = 0.0f;
    if (column + 3 * four.step >= visible) v.w = 0.0f;
    four.write(row, n, v);
}

// The weights of a row by one warp, which holds the row in registers if it fits, and otherwise reads it twice.
template <bool WIDE> __device__ __forceinline__ void soften(const float* x, float* y, u32 visible, u32 n, u32 lane) {
    constexpr u32 vectors = WIDE ? 8 : 4, step = 128 * vectors;
    Exponentials own = {-INFINITE, 0.0f};
    if (n <= step) {
        float4 v[vectors];
#pragma unroll
        for (u32 i = 0; i < vectors; ++i) v[i] = read_seen(Four<WIDE>(i, lane, 32), x, visible);
        own = exponentials(v);
        const Exponentials all = over_row<32>(own);
        const float factor = all.sum == 0.0f ? 0.0f : quick_exponential(own.most - base_of(all.most)) * quick_inverse(all.sum);
#pragma unroll
        for (u32 i = 0; i < vectors; ++i) write_seen(Four<WIDE>(i, lane, 32), y, visible, n, v[i] * factor);
        return;
    }
    for (u32 at = 0; at < visible; at += step) {
        float4 v[vectors];
#pragma unroll
        for (u32 i = 0; i < vectors; ++i) v[i] = read_seen(Four<WIDE>(i, lane, 32), x + at, visible - at);
        own = joined(own, exponentials(v));
    }
    const Exponentials all = over_row<32>(own);
    const float base = base_of(all.most), inverse = all.sum == 0.0f ? 0.0f : quick_inverse(all.sum);
    for (u32 at = 0; at < n; at += step) {
        const u32 here = visible > at ? visible - at : 0;
        float4 v[vectors];
#pragma unroll
        for (u32 i = 0; i < vectors; ++i) v[i] = read_seen(Four<WIDE>(i, lane, 32), x + at, here);
#pragma unroll
        for (u32 i = 0; i < vectors; ++i) write_seen(Four<WIDE>(i, lane, 32), y + at, here, n - at, quick_exponential(v[i], base) * inverse);
    }
}

// Softmax over the columns that a row sees, 0 beyond, in place if both arrays are the same; one warp per row. Rows are
// of [batch, heads, n].
extern "C" __launch_bounds__(256, 4) __global__ void softmax_rows(const float* scores, const i64* lengths, float* weights, u32 n, u32 heads, u32 sees, u64 rows) {
    const u32 lane = threadIdx.x % 32;
    const u64 row = static_cast<u64>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const u32 visible = seen(sees, lengths, static_cast<u32>(row / n / heads), static_cast<u32>(row % n), n);
    if (n % 4 == 0) {
        soften<true>(scores + row * n, weights + row * n, visible, n, lane);
    } else {
        soften<false>(scores + row * n, weights + row * n, visible, n, lane);
    }
}

// A thread's part of 64 rows of `head` values, on its way to shared memory with `pitch` values per row; rows and values
// beyond the end are zeros. Either all of it waits in registers (`read`, then `keep`), or pieces are carried over.
template <int HEAD> struct Rows {
    static constexpr u32 pitch = HEAD + 4, fours = HEAD / 4, pieces = 64 * fours / 256;
    float4 own[pieces];

    static __device__ __forceinline__ float4 piece(u32 i, const float* from, u64 row_step, u32 first, u32 end, u32 head, bool wide) {
        const u32 at = threadIdx.x + i * 256, row = at / fours, e = at % fours * 4;
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (first + row < end) {
            const float* const x = from + (first + row) * row_step;
            if (wide && e + 4 <= head) {
                v = *reinterpret_cast<const float4*>(x + e);
            } else {
                if (e < head) v.x = x[e];
                if (e + 1 < head) v.y = x[e + 1];
                if (e + 2 < head) v.z = x[e + 2];
                if (e + 3 < head) v.w = x[e + 3];
            }
        }
        return v;
    }

    static __device__ __forceinline__ void place(u32 i, float* to, float4 v) {
        const u32 at = threadIdx.x + i * 256;
        *reinterpret_cast<float4*>(to + at / fours * pitch + at % fours * 4) = v;
    }

    __device__ __forceinline__ void read(const float* from, u64 row_step, u32 first, u32 end, u32 head, bool wide) {
#pragma unroll
        for (u32 i = 0; i < pieces; ++i) own[i] = piece(i, from, row_step, first, end, head, wide);
    }

    __device__ __forceinline__ void keep(float* to) const {
#pragma unroll
        for (u32 i = 0; i < pieces; ++i) place(i, to, own[i]);
    }

    static __device__ __forceinline__ void carry(float* to, const float* from, u64 row_step, u32 first, u32 end, u32 head, bool wide) {
#pragma unroll 4
        for (u32 i = 0; i < pieces; ++i) place(i, to, piece(i, from, row_step, first, end, head, wide));
    }
};

#define PARAMETERS                                                                                                       \
    const float *q, const float *k, const float *v, float *out, const i64 *lengths, u32 n, u32 head, u32 group, u32 sees, \
        u32 wide, float scale, u64 q_batch, u64 q_head, u64 q_row, u64 k_batch, u64 k_head, u64 k_row, u64 out_batch,    \
        u64 out_head, u64 out_row

template <int HEAD> __device__ __forceinline__ void fused(PARAMETERS) {
    constexpr u32 pitch = HEAD + 4, p_pitch = 68, columns = HEAD / 16;
    // Wide heads leave no registers for early reads.
    constexpr bool early = HEAD < 128;
    SHARED_BYTES(shared);
    float* const queries = reinterpret_cast<float*>(shared);
    float* const keys = queries + 64 * pitch;
    float* const weights = keys + 64 * pitch;
    const u32 t = threadIdx.x, tx = t % 16, ty = t / 16;
    // Under a causal mask the last queries see the most keys, so those of all heads start first.
    const u32 first = (gridDim.z - 1 - blockIdx.z) * 64, h = blockIdx.x, sequence = blockIdx.y;
    q += sequence * q_batch + h * q_head;
    k += sequence * k_batch + h / group * k_head;
    v += sequence * k_batch + h / group * k_head;
    out += sequence * out_batch + h * out_head;
    const u32 end = seen(sees, lengths, sequence, min(first + 64, n) - 1, n);
    // Keys and values are read one step early, while the previous ones are used.
    Rows<HEAD> ahead;
    if (early) {
        Rows<HEAD> own;
        own.read(q, q_row, first, n, head, wide);
        ahead.read(k, k_row, 0, end, head, wide);
        own.keep(queries);
    } else {
        Rows<HEAD>::carry(queries, q, q_row, first, n, head, wide);
    }
    // Warps whose queries are all past the end only copy keys and values. For wide heads that would cost registers.
    const bool works = !early || first + t / 32 * 8 < n;
    float sums[4][columns], top[4], total[4];
    u32 visible[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        top[i] = -INFINITE;
        total[i] = 0.0f;
        visible[i] = seen(sees, lengths, sequence, first + ty * 4 + i, n);
#pragma unroll
        for (u32 c = 0; c < columns; ++c) sums[i][c] = 0.0f;
    }
    for (u32 start = 0; start < end; start += 64) {
        // All threads have read the previous step's values.
        __syncthreads();
        if (early) {
            ahead.keep(keys);
            ahead.read(v, k_row, start, end, head, wide);
        } else {
            Rows<HEAD>::carry(keys, k, k_row, start, end, head, wide);
        }
        __syncthreads();
        float scores[4][4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
#pragma unroll
            for (u32 j = 0; j < 4; ++j) scores[i][j] = 0.0f;
#pragma unroll 4
        for (u32 e = 0; e < (works ? HEAD : 0); e += 4) {
            float4 x[4], y[4];
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                x[i] = *reinterpret_cast<const float4*>(queries + (ty * 4 + i) * pitch + e);
                y[i] = *reinterpret_cast<const float4*>(keys + (tx + 16 * i) * pitch + e);
            }
#pragma unroll
            for (u32 i = 0; i < 4; ++i)
#pragma unroll
                for (u32 j = 0; j < 4; ++j) {
                    scores[i][j] = fmaf(x[i].x, y[j].x, scores[i][j]);
                    scores[i][j] = fmaf(x[i].y, y[j].y, scores[i][j]);
                    scores[i][j] = fmaf(x[i].z, y[j].z, scores[i][j]);
                    scores[i][j] = fmaf(x[i].w, y[j].w, scores[i][j]);
                }
        }
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            float most = top[i];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                // `scale` includes log2 e: weights are powers of two.
                scores[i][j] = start + tx + 16 * j < visible[i] ? scores[i][j] * scale : -INFINITE;
                most = larger(most, scores[i][j]);
            }
#pragma unroll
            for (u32 by = 8; by > 0; by /= 2) most = larger(most, __shfl_xor_sync(WHOLE_WARP, most, by));
            const float shift = most == -INFINITE ? 0.0f : most;
            const float factor = exp2f(top[i] - shift);
            top[i] = most;
            float part = 0.0f;
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                const float weight = exp2f(scores[i][j] - shift);
                part += weight;
                weights[(ty * 4 + i) * p_pitch + tx + 16 * j] = weight;
            }
            total[i] = total[i] * factor + part;
#pragma unroll
            for (u32 c = 0; c < columns; ++c) sums[i][c] *= factor;
        }
        // All threads have read the keys. The weights of a row stay in the 16 lanes that computed them.
        __syncthreads();
        if (early) {
            ahead.keep(keys);
            ahead.read(k, k_row, start + 64, end, head, wide);
        } else {
            Rows<HEAD>::carry(keys, v, k_row, start, end, head, wide);
        }
        __syncthreads();
        const u32 some = !early ? 64 : works ? min(end - start, 64u) : 0;
#pragma unroll 2
        for (u32 j = 0; j < some; j += 4) {
            float4 w[4];
#pragma unroll
            for (u32 i = 0; i < 4; ++i) w[i] = *reinterpret_cast<const float4*>(weights + (ty * 4 + i) * p_pitch + j);
#pragma unroll
            for (u32 l = 0; l < 4; ++l) {
                const float* const row = keys + (j + l) * pitch;
                float y[columns];
                if (columns == 2) {
                    y[0] = row[tx], y[1] = row[tx + 16];
                } else {
#pragma unroll
                    for (u32 g = 0; g * 4 < columns; ++g) {
                        const float4 four = *reinterpret_cast<const float4*>(row + g * 64 + tx * 4);
                        y[g * 4] = four.x, y[g * 4 + 1] = four.y, y[g * 4 + 2] = four.z, y[g * 4 + 3] = four.w;
                    }
                }
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    const float weight = l == 0 ? w[i].x : l == 1 ? w[i].y : l == 2 ? w[i].z : w[i].w;
#pragma unroll
                    for (u32 c = 0; c < columns; ++c) sums[i][c] = fmaf(weight, y[c], sums[i][c]);
                }
            }
        }
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        float sum = total[i];
#pragma unroll
        for (u32 by = 8; by > 0; by /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        const u32 row = first + ty * 4 + i;
        if (row >= n) continue;
#pragma unroll
        for (u32 c = 0; c < columns; ++c) {
            const u32 e = columns == 2 ? c * 16 + tx : c / 4 * 64 + tx * 4 + c % 4;
            if (e < head) out[row * out_row + e] = sums[i][c] * inverse;
        }
    }
}

#define ARGUMENTS q, k, v, out, lengths, n, head, group, sees, wide, scale, q_batch, q_head, q_row, k_batch, k_head, k_row, out_batch, out_head, out_row

extern "C" __launch_bounds__(256, 2) __global__ void attention_32(PARAMETERS) { fused<32>(ARGUMENTS); }
extern "C" __launch_bounds__(256, 2) __global__ void attention_64(PARAMETERS) { fused<64>(ARGUMENTS); }
extern "C" __launch_bounds__(256, 2) __global__ void attention_128(PARAMETERS) { fused<128>(ARGUMENTS); }

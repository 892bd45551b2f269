// The core of attention in bf16 for Hopper (J. Shah et al., FlashAttention-3, 2024), sums in f32.
//
// A block takes 128 queries of a head. Of its three warpgroups one asks the copy engine for tiles of 128 keys and 128 values,
// two of each ahead, and gives its registers away; two take 64 queries each. Those two take turns at the tensor cores (ping-
// pong): while one computes weights the other multiplies. Within a warpgroup the product of the next keys is begun before the
// one with the values of this tile, so that weights are computed while values are summed. Scores, weights and sums stay in
// registers. Heads of 64 and of 128 values; arrays are [batch, heads, sequence, head].
//
// What a row gives that sees nothing, or a score that is no number, is as in `bf16.cu`.

enum { sees_all, sees_causal, sees_length };
enum { tile = 128, stages = 2, part_queries = 64, consumers = 2, warpgroup = 128, turn = 1 };

__device__ __forceinline__ u32 seen(u32 sees, const i64* lengths, u32 sequence, u32 row, u32 all) {
    if (sees == sees_causal) return min(row + 1, all);
    if (sees == sees_length) return min(static_cast<u32>(lengths[sequence]), all);
    return all;
}

// Barriers of a block; the tiles are full when their bytes have come, and empty when each warp that used them says so.
struct Barriers {
    u64 queries, keys_full[stages], keys_empty[stages], values_full[stages], values_empty[stages];
};

// Two rows of a thread: the largest score so far, and the sum of the weights that this thread has seen.
struct Rows {
    float top[2], total[2];
    u32 visible[2];
};

// Scores to weights; the factors are what sums so far must be multiplied with. `start` is the key of column 0 of this thread.
__device__ __forceinline__ void weigh(float (&s)[64], Rows& rows, float (&factor)[2], u32 start, bool mask, float scale) {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        float most = rows.top[i];
        if (mask) {
#pragma unroll
            for (u32 j = 0; j < 16; ++j)
#pragma unroll
                for (u32 c = 0; c < 2; ++c)
                    if (start + 8 * j + c >= rows.visible[i]) s[4 * j + 2 * i + c] = -INFINITE;
        }
#pragma unroll
        for (u32 j = 0; j < 16; ++j)
#pragma unroll
            for (u32 c = 0; c < 2; ++c) {
                // The running maximum stays where the new value is NaN.
                const float score = s[4 * j + 2 * i + c];
                most = score > most ? score : most;
            }
#pragma unroll
        for (u32 by = 1; by < 4; by *= 2) {
            const float other = __shfl_xor_sync(WHOLE_WARP, most, by);
            most = other > most ? other : most;
        }
        // `scale` holds log2 e as well: weights are powers of two.
        const float shift = most == -INFINITE ? 0.0f : most * scale;
        factor[i] = exp2f(fmaf(rows.top[i], scale, -shift));
        rows.top[i] = most;
        float part = 0.0f;
#pragma unroll
        for (u32 j = 0; j < 16; ++j)
#pragma unroll
            for (u32 c = 0; c < 2; ++c) {
                float& score = s[4 * j + 2 * i + c];
                score = exp2f(fmaf(score, scale, -shift));
                part += score;
            }
        rows.total[i] = rows.total[i] * factor[i] + part;
    }
}

// Scores of 64 queries and 128 keys.
template <int HEAD> __device__ __forceinline__ void multiply_keys(float (&scores)[64], u32 queries, u32 keys) {
#pragma unroll
    for (u32 e = 0; e < HEAD; e += 16) {
        const u32 box = e / 64 * tile * tile_row_bytes, within = e % 64 * 2;
        product_shared(scores, matrix_at(queries + box + within, 16, swizzle_bytes), matrix_at(keys + box + within, 16, swizzle_bytes), e > 0);
    }
}

// Sums over 128 values by weight.
template <int HEAD> __device__ __forceinline__ void multiply_values(float (&sums)[HEAD / 2], const u32 (&weights)[32], u32 values) {
#pragma unroll
    for (u32 j = 0; j < tile / 16; ++j)
        product_registers(sums, weights[4 * j], weights[4 * j + 1], weights[4 * j + 2], weights[4 * j + 3],
                          matrix_at(values + j * 16 * tile_row_bytes, tile * tile_row_bytes, swizzle_bytes));
}

#define PARAMETERS                                                                                                       \
    const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v, u16 *out, \
        const i64 *lengths, u32 n, u32 group, u32 sees, float scale

template <int HEAD> __device__ __forceinline__ void fused(const TensorMap& q, const TensorMap& k, const TensorMap& v, u16* out, const i64* lengths, u32 n, u32 group, u32 sees, float scale) {
    constexpr u32 tile_bytes = tile * HEAD * 2, box_bytes = tile * tile_row_bytes;
    SHARED_BYTES(raw);
    u8* const shared = raw + (0 - shared_address(raw)) % swizzle_bytes;
    u8* const queries = shared;
    u8* const keys = queries + tile_bytes;
    u8* const values = keys + stages * tile_bytes;
    Barriers& barriers = *reinterpret_cast<Barriers*>(values + stages * tile_bytes);
    // Under a causal mask the last queries see the most keys: they begin first.
    const u32 first = (gridDim.x - 1 - blockIdx.x) * tile, h = blockIdx.y, sequence = blockIdx.z;
    const u32 q_head = sequence * gridDim.y + h, kv_head = sequence * (gridDim.y / group) + h / group;
    const u32 end = seen(sees, lengths, sequence, min(first + tile, n) - 1, n);
    const u32 tiles = (end + tile - 1) / tile;
    if (threadIdx.x == 0) {
        barrier_init(&barriers.queries, 1);
        for (u32 s = 0; s < stages; ++s) {
            barrier_init(&barriers.keys_full[s], 1);
            barrier_init(&barriers.values_full[s], 1);
            barrier_init(&barriers.keys_empty[s], consumers * warpgroup / 32);
            barrier_init(&barriers.values_empty[s], consumers * warpgroup / 32);
        }
        barriers_made();
    }
    __syncthreads();
    // The same for all lanes of a warp, and the compiler must know: otherwise it multiplies one step after the other.
    const u32 role = __shfl_sync(WHOLE_WARP, threadIdx.x / warpgroup, 0);
    if (role == 0) {
        registers_down<24>();
        if (threadIdx.x == 0 && tiles > 0) {
            barrier_arrive_expect(&barriers.queries, tile_bytes);
            for (u32 b = 0; b < HEAD / 64; ++b) tile_copy(queries + b * box_bytes, q, &barriers.queries, b * 64, first, q_head);
            for (u32 i = 0; i < tiles; ++i) {
                // A place that was never used counts as empty.
                const u32 s = i % stages, parity = i / stages % 2 ^ 1;
                barrier_wait(&barriers.keys_empty[s], parity);
                barrier_arrive_expect(&barriers.keys_full[s], tile_bytes);
                for (u32 b = 0; b < HEAD / 64; ++b)
                    tile_copy(keys + s * tile_bytes + b * box_bytes, k, &barriers.keys_full[s], b * 64, i * tile, kv_head);
                barrier_wait(&barriers.values_empty[s], parity);
                barrier_arrive_expect(&barriers.values_full[s], tile_bytes);
                for (u32 b = 0; b < HEAD / 64; ++b)
                    tile_copy(values + s * tile_bytes + b * box_bytes, v, &barriers.values_full[s], b * 64, i * tile, kv_head);
            }
        }
    } else {
        registers_up<240>();
        const u32 part = role - 1, lane = threadIdx.x % 32, t = lane % 4;
        const u32 mine = first + part * part_queries, own = mine + threadIdx.x % warpgroup / 32 * 16 + lane / 4;
        const u32 row[2] = {own, own + 8};
        Rows rows;
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            rows.top[i] = -INFINITE;
            rows.total[i] = 0.0f;
            rows.visible[i] = seen(sees, lengths, sequence, row[i], n);
        }
        // Up to here every row of this warpgroup sees every key.
        const u32 clear = seen(sees, lengths, sequence, mine, n);
        const u32 my_queries = shared_address(queries) + part * part_queries * tile_row_bytes;
        float sums[HEAD / 2], scores[64], factor[2];
        u32 weights[32];
#pragma unroll
        for (u32 e = 0; e < HEAD / 2; ++e) sums[e] = 0.0f;
        if (tiles > 0) {
            // The other begins.
            if (part == 1 && tiles > 1) part_arrive(turn, consumers * warpgroup);
            barrier_wait(&barriers.queries, 0);
            barrier_wait(&barriers.keys_full[0], 0);
            products_begin();
            multiply_keys<HEAD>(scores, my_queries, shared_address(keys));
            products_commit();
            products_wait<0>(scores);
            if (lane == 0) barrier_arrive(&barriers.keys_empty[0]);
            weigh(scores, rows, factor, 2 * t, tile > clear, scale);
#pragma unroll
            for (u32 i = 0; i < 32; ++i) weights[i] = two_bf16(scores[2 * i], scores[2 * i + 1]);
            for (u32 i = 1; i < tiles; ++i) {
                const u32 s = i % stages, before = s ^ 1;
                barrier_wait(&barriers.keys_full[s], i / stages % 2);
                part_wait(turn + part, consumers * warpgroup);
                products_begin();
                multiply_keys<HEAD>(scores, my_queries, shared_address(keys + s * tile_bytes));
                products_commit();
                barrier_wait(&barriers.values_full[before], (i - 1) / stages % 2);
                products_begin();
                multiply_values<HEAD>(sums, weights, shared_address(values + before * tile_bytes));
                products_commit();
                if (part == 0 || i + 1 < tiles) part_arrive(turn + (part ^ 1), consumers * warpgroup);
                products_wait<1>(scores);
                if (lane == 0) barrier_arrive(&barriers.keys_empty[s]);
                weigh(scores, rows, factor, i * tile + 2 * t, (i + 1) * tile > clear, scale);
                products_wait<0>(sums);
                if (lane == 0) barrier_arrive(&barriers.values_empty[before]);
                hold(scores);
#pragma unroll
                for (u32 e = 0; e < HEAD / 2; ++e) sums[e] *= factor[e / 2 % 2];
#pragma unroll
                for (u32 j = 0; j < 32; ++j) weights[j] = two_bf16(scores[2 * j], scores[2 * j + 1]);
            }
            const u32 last = (tiles - 1) % stages;
            barrier_wait(&barriers.values_full[last], (tiles - 1) / stages % 2);
            products_begin();
            multiply_values<HEAD>(sums, weights, shared_address(values + last * tile_bytes));
            products_commit();
            products_wait<0>(sums);
        }
        out += static_cast<u64>(q_head) * n * HEAD;
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            float sum = rows.total[i];
#pragma unroll
            for (u32 by = 1; by < 4; by *= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
            const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
            if (row[i] >= n) continue;
            u32* const to = reinterpret_cast<u32*>(out + static_cast<u64>(row[i]) * HEAD);
#pragma unroll
            for (u32 j = 0; j < HEAD / 8; ++j) to[4 * j + t] = two_bf16(sums[4 * j + 2 * i] * inverse, sums[4 * j + 2 * i + 1] * inverse);
        }
    }
}

#define ARGUMENTS q, k, v, out, lengths, n, group, sees, scale

extern "C" __launch_bounds__(384, 1) __global__ void attention_hopper_64(PARAMETERS) { fused<64>(ARGUMENTS); }
extern "C" __launch_bounds__(384, 1) __global__ void attention_hopper_128(PARAMETERS) { fused<128>(ARGUMENTS); }

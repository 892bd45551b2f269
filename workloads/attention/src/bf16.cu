// The attention core in bf16 on tensor cores, with f32 sums; `attention.cu` has the f32 version (T. Dao,
// FlashAttention-2, 2023).
//
// A block of four warps takes 64 queries of a head, 16 per warp, and loops over the keys that they see, 64 at a time:
// while one tile of keys and values is used, the next is loaded. Queries, scores and sums over values are in registers;
// the scores of one product, once they are weights in bf16, are already in the layout of the next product's left side.
// Heads have up to 64 or 128 values, padded with zeros. Arrays are [batch, heads, sequence, head].
//
// A row that sees no key, or only scores of -inf, gives 0; NaN or +inf among its scores makes it NaN.

// Copies 64 rows of `head` values, starting at `first`, to rows of HEAD + 8; zeros from row `end` and value `head` on.
template <int HEAD> __device__ __forceinline__ void rows_to(u16* to, const u16* from, u32 first, u32 end, u32 head, bool wide) {
    constexpr u32 pitch = HEAD + 8, eights = HEAD / 8;
    for (u32 at = threadIdx.x; at < 64 * eights; at += 128) {
        const u32 row = at / eights, e = at % eights * 8;
        const bool there = first + row < end;
        const u16* const x = from + static_cast<u64>(there ? first + row : 0) * head;
        u16* const y = to + row * pitch + e;
        if (wide) {
            const bool whole = there && e < head;
            copy_async(y, whole ? x + e : from, whole ? 16 : 0);
        } else {
#pragma unroll
            for (u32 i = 0; i < 8; ++i) y[i] = there && e + i < head ? x[e + i] : static_cast<u16>(0);
        }
    }
}

#define PARAMETERS \
    const u16 *q, const u16 *k, const u16 *v, u16 *out, const i64 *lengths, u32 n, u32 head, u32 group, u32 sees, u32 wide, float scale

template <int HEAD> __device__ __forceinline__ void fused(PARAMETERS) {
    constexpr u32 pitch = HEAD + 8, tile = 64 * pitch, steps = HEAD / 16;
    SHARED_BYTES(shared);
    // Two tiles of keys, then two of values.
    u16* const keys = reinterpret_cast<u16*>(shared);
    u16* const values = keys + 2 * tile;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    // Under a causal mask the last queries see the most keys, so they start first.
    const u32 first = (gridDim.x - 1 - blockIdx.x) * 64, h = blockIdx.y, sequence = blockIdx.z;
    const u64 rows = static_cast<u64>(n) * head;
    q += (static_cast<u64>(sequence) * gridDim.y + h) * rows;
    out += (static_cast<u64>(sequence) * gridDim.y + h) * rows;
    const u64 kv = (static_cast<u64>(sequence) * (gridDim.y / group) + h / group) * rows;
    k += kv;
    v += kv;
    const u32 end = seen(sees, lengths, sequence, min(first + 64, n) - 1, n);
    // Queries pass through the second value tile's memory, which receives no copy before they are in registers.
    rows_to<HEAD>(values + tile, q, first, n, head, wide);
    copy_commit();
    rows_to<HEAD>(keys, k, 0, end, head, wide);
    rows_to<HEAD>(values, v, 0, end, head, wide);
    copy_commit();
    copy_wait<1>();
    __syncthreads();
    u32 queries[steps][4];
    {
        const u16* const row = values + tile + (warp * 16 + lane % 16) * pitch + lane / 16 * 8;
#pragma unroll
        for (u32 s = 0; s < steps; ++s) load_matrices(queries[s], row + s * 16);
    }
    __syncthreads();
    const u32 row[2] = {first + warp * 16 + g, first + warp * 16 + g + 8};
    const u32 visible[2] = {seen(sees, lengths, sequence, row[0], n), seen(sees, lengths, sequence, row[1], n)};
    // Every row of the block sees every key before this one.
    const u32 clear = seen(sees, lengths, sequence, first, n);
    const float slack = 8.0f / scale;
    float sums[2 * steps][4], top[2] = {-INFINITE, -INFINITE}, total[2] = {0.0f, 0.0f};
#pragma unroll
    for (u32 c = 0; c < 2 * steps; ++c)
#pragma unroll
        for (u32 i = 0; i < 4; ++i) sums[c][i] = 0.0f;
    for (u32 start = 0, at = 0; start < end; start += 64, at ^= 1) {
        if (start + 64 < end) {
            rows_to<HEAD>(keys + (at ^ 1) * tile, k, start + 64, end, head, wide);
            rows_to<HEAD>(values + (at ^ 1) * tile, v, start + 64, end, head, wide);
        }
        // One group per step, even if it is empty: the previous group is then the current tile.
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        float scores[8][4];
#pragma unroll
        for (u32 j = 0; j < 8; ++j)
#pragma unroll
            for (u32 i = 0; i < 4; ++i) scores[j][i] = 0.0f;
        {
            const u16* const from = keys + at * tile + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8;
#pragma unroll
            for (u32 s = 0; s < steps; ++s)
#pragma unroll
                for (u32 j = 0; j < 8; j += 2) {
                    u32 two[4];
                    load_matrices(two, from + j * 8 * pitch + s * 16);
                    mma_bf16(scores[j], queries[s], two[0], two[1]);
                    mma_bf16(scores[j + 1], queries[s], two[2], two[3]);
                }
        }
        // Most tiles are fully visible to every row and skip this.
        if (start + 64 > clear) {
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                const i32 left = static_cast<i32>(visible[i] - start - 2 * t);
#pragma unroll
                for (i32 j = 0; j < 8; ++j)
#pragma unroll
                    for (i32 c = 0; c < 2; ++c)
                        if (8 * j + c >= left) scores[j][2 * i + c] = -INFINITE;
            }
        }
        float factor[2], shift[2];
        bool grown = false;
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            // NaN is never the maximum here; it shows in the sum.
            float most = top[i];
#pragma unroll
            for (u32 j = 0; j < 8; ++j) most = fmaxf(most, fmaxf(scores[j][2 * i], scores[j][2 * i + 1]));
#pragma unroll
            for (u32 by = 1; by < 4; by *= 2) most = fmaxf(most, __shfl_xor_sync(WHOLE_WARP, most, by));
            // Takes a new maximum only if it has grown by much: until then weights may reach 2^8, and their sum has the
            // same factor. `scale` includes log2 e: weights are powers of two.
            const bool more = most > top[i] + slack;
            factor[i] = more ? quick_power((top[i] - most) * scale) : 1.0f;
            top[i] = more ? most : top[i];
            shift[i] = top[i] == -INFINITE ? 0.0f : -top[i] * scale;
            grown = grown || more;
        }
        float part[2] = {0.0f, 0.0f};
#pragma unroll
        for (u32 j = 0; j < 8; ++j)
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                scores[j][i] = quick_power(fmaf(scores[j][i], scale, shift[i / 2]));
                part[i / 2] += scores[j][i];
            }
        total[0] = total[0] * factor[0] + part[0];
        total[1] = total[1] * factor[1] + part[1];
        if (__any_sync(WHOLE_WARP, grown)) {
#pragma unroll
            for (u32 c = 0; c < 2 * steps; ++c)
#pragma unroll
                for (u32 i = 0; i < 4; ++i) sums[c][i] *= factor[i / 2];
        }
        {
            const u16* const from = values + at * tile + lane % 16 * pitch + lane / 16 * 8;
#pragma unroll
            for (u32 s = 0; s < 4; ++s) {
                const float(&a)[4] = scores[2 * s];
                const float(&b)[4] = scores[2 * s + 1];
                const u32 weights[4] = {two_bf16(a[0], a[1]), two_bf16(a[2], a[3]), two_bf16(b[0], b[1]), two_bf16(b[2], b[3])};
#pragma unroll
                for (u32 c = 0; c < 2 * steps; c += 2) {
                    u32 two[4];
                    load_matrices_transposed(two, from + s * 16 * pitch + c * 8);
                    mma_bf16(sums[c], weights, two[0], two[1]);
                    mma_bf16(sums[c + 1], weights, two[2], two[3]);
                }
            }
        }
        // All warps have used this tile, so the one after the next may overwrite it.
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        float sum = total[i];
#pragma unroll
        for (u32 by = 1; by < 4; by *= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        if (row[i] >= n) continue;
        u16* const to = out + static_cast<u64>(row[i]) * head;
#pragma unroll
        for (u32 c = 0; c < 2 * steps; ++c) {
            const u32 e = c * 8 + 2 * t, both = two_bf16(sums[c][2 * i] * inverse, sums[c][2 * i + 1] * inverse);
            if (wide) {
                if (e < head) *reinterpret_cast<u32*>(to + e) = both;
            } else {
                if (e < head) to[e] = static_cast<u16>(both);
                if (e + 1 < head) to[e + 1] = static_cast<u16>(both >> 16);
            }
        }
    }
}

#define ARGUMENTS q, k, v, out, lengths, n, head, group, sees, wide, scale

extern "C" __launch_bounds__(128, 2) __global__ void attention_bf16_64(PARAMETERS) { fused<64>(ARGUMENTS); }
extern "C" __launch_bounds__(128, 2) __global__ void attention_bf16_128(PARAMETERS) { fused<128>(ARGUMENTS); }

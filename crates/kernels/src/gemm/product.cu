// Products of matrices in f32, many at once: C = alpha A B + bias, B as it lies ([k, n]) or transposed ([n, k]).
//
// A block of 256 threads makes a tile of C. Steps of the sum go through shared memory, which holds two of them: while one is
// multiplied out of registers the next is on its way. A thread holds 8 x 8 values of C in a wide tile of 128 x 128 (steps of
// 8), 4 x 4 in a small one of 64 x 64 (steps of 16), which is for products too small to fill the device with wide tiles. One
// thread adds one value up in the order of k, so that a result does not depend on the tile.
//
// Attention's masks are prefixes: `mask` says how many columns a row sees, and either C is -inf beyond them (scores; tiles
// beyond are not computed) or A counts as 0 beyond them (sums over values; steps beyond are not taken).

// How many of `all` columns row `row` sees: all, those up to its own, or the length of its sequence.
enum { sees_all, sees_causal, sees_length };
// What that does: nothing, -inf in C, 0 in A.
enum { unmasked, masks_c, masks_a };
// Which matrices may be read or written 16 bytes at a time.
enum { wide_a = 1, wide_b = 2, wide_c = 4 };

// How many of `all` columns row `row` of a sequence sees.
__device__ __forceinline__ u32 seen(u32 sees, const i64* lengths, u32 sequence, u32 row, u32 all) {
    if (sees == sees_causal) return min(row + 1, all);
    if (sees == sees_length) return min(static_cast<u32>(lengths[sequence]), all);
    return all;
}

// Four values from `at` on of a row of `limit`, 0 beyond.
__device__ __forceinline__ float4 four(const float* row, u32 at, u32 limit, bool wide) {
    if (wide && at + 4 <= limit) return *reinterpret_cast<const float4*>(row + at);
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (at < limit) v.x = row[at];
    if (at + 1 < limit) v.y = row[at + 1];
    if (at + 2 < limit) v.z = row[at + 2];
    if (at + 3 < limit) v.w = row[at + 3];
    return v;
}

// Product z of many is of sequence z / heads and head z % heads; heads of B are shared by `group` heads of A and C.
#define PARAMETERS                                                                                                        \
    const float *a, const float *b, const float *bias, float *c, const i64 *lengths, u32 m, u32 n, u32 k, u32 a_row,     \
        u32 b_row, u32 c_row, u64 a_batch, u64 a_head, u64 b_batch, u64 b_head, u64 c_batch, u64 c_head, u32 heads,      \
        u32 group, u32 mask, u32 sees, u32 wide, float alpha

template <int TILE, bool TRANSPOSED> __device__ __forceinline__ void product(PARAMETERS) {
    // Every thread brings four values of A and four of B a step.
    constexpr u32 depth = 1024 / TILE, each = TILE / 16, pitch = TILE + 4, quads = depth / 4;
    __shared__ __align__(16) float a_steps[2][depth][pitch];
    __shared__ __align__(16) float b_steps[2][depth][pitch];
    const u32 t = threadIdx.x, tx = t % 16, ty = t / 16;
    const u32 sequence = blockIdx.z / heads, h = blockIdx.z % heads;
    const u32 top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    const u32 last = min(top + TILE, m) - 1;
    const u32 columns = mask == masks_c ? seen(sees, lengths, sequence, last, n) : n;
    u32 k_end = mask == masks_a ? seen(sees, lengths, sequence, last, k) : k;
    // A tile that nobody sees takes no step and is all -inf.
    if (left >= columns) k_end = 0;
    float sums[each][each];
#pragma unroll
    for (u32 i = 0; i < each; ++i)
#pragma unroll
        for (u32 j = 0; j < each; ++j) sums[i][j] = 0.0f;
    const u32 line = t / quads, quad = t % quads * 4;
    const float* const a_line = a + sequence * a_batch + h * a_head + static_cast<u64>(top + line) * a_row;
    const u32 a_limit = top + line >= m ? 0 : mask == masks_a ? seen(sees, lengths, sequence, top + line, k) : k;
    // A line of B is a column of it where it lies transposed, a row otherwise.
    const u32 b_first = TRANSPOSED ? left + line : t / (TILE / 4), b_quad = left + t % (TILE / 4) * 4;
    const float* const b_line = b + sequence * b_batch + h / group * b_head + static_cast<u64>(b_first) * b_row;
    float4 a_next, b_next;
    auto fetch = [&](u32 at) {
        a_next = four(a_line, at + quad, a_limit, wide & wide_a);
        if (TRANSPOSED) {
            b_next = four(b_line, at + quad, b_first < n ? k : 0, wide & wide_b);
        } else {
            b_next = four(b_line + static_cast<u64>(at) * b_row, b_quad, at + b_first < k ? n : 0, wide & wide_b);
        }
    };
    auto keep = [&](u32 half) {
        a_steps[half][quad][line] = a_next.x;
        a_steps[half][quad + 1][line] = a_next.y;
        a_steps[half][quad + 2][line] = a_next.z;
        a_steps[half][quad + 3][line] = a_next.w;
        if (TRANSPOSED) {
            b_steps[half][quad][line] = b_next.x;
            b_steps[half][quad + 1][line] = b_next.y;
            b_steps[half][quad + 2][line] = b_next.z;
            b_steps[half][quad + 3][line] = b_next.w;
        } else {
            *reinterpret_cast<float4*>(&b_steps[half][t / (TILE / 4)][t % (TILE / 4) * 4]) = b_next;
        }
    };
    if (k_end > 0) {
        fetch(0);
        keep(0);
    }
    __syncthreads();
    u32 half = 0;
    for (u32 at = 0; at < k_end; at += depth) {
        const bool more = at + depth < k_end;
        if (more) fetch(at + depth);
#pragma unroll
        for (u32 step = 0; step < depth; ++step) {
            float x[each], y[each];
            // A thread's rows and columns come in groups of four, 64 apart: reads of 16 bytes that do not collide.
#pragma unroll
            for (u32 g = 0; g < each / 4; ++g) {
                const float4 u = *reinterpret_cast<const float4*>(&a_steps[half][step][g * 64 + ty * 4]);
                const float4 v = *reinterpret_cast<const float4*>(&b_steps[half][step][g * 64 + tx * 4]);
                x[g * 4] = u.x, x[g * 4 + 1] = u.y, x[g * 4 + 2] = u.z, x[g * 4 + 3] = u.w;
                y[g * 4] = v.x, y[g * 4 + 1] = v.y, y[g * 4 + 2] = v.z, y[g * 4 + 3] = v.w;
            }
#pragma unroll
            for (u32 i = 0; i < each; ++i)
#pragma unroll
                for (u32 j = 0; j < each; ++j) sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
        }
        half ^= 1;
        // The half that is written now was read before the barrier of the step before.
        if (more) keep(half);
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
        const u32 row = top + i / 4 * 64 + ty * 4 + i % 4;
        if (row >= m) continue;
        const u32 visible = mask == masks_c ? seen(sees, lengths, sequence, row, n) : n;
        float* const to = c + sequence * c_batch + h * c_head + static_cast<u64>(row) * c_row;
#pragma unroll
        for (u32 g = 0; g < each / 4; ++g) {
            const u32 column = left + g * 64 + tx * 4;
            float v[4];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                const u32 at = column + j;
                v[j] = at >= visible ? -INFINITE : alpha * sums[i][g * 4 + j] + (bias && at < n ? bias[at] : 0.0f);
            }
            if ((wide & wide_c) && column + 4 <= n) {
                *reinterpret_cast<float4*>(to + column) = make_float4(v[0], v[1], v[2], v[3]);
            } else {
#pragma unroll
                for (u32 j = 0; j < 4; ++j)
                    if (column + j < n) to[column + j] = v[j];
            }
        }
    }
}

#define ARGUMENTS                                                                                                        \
    a, b, bias, c, lengths, m, n, k, a_row, b_row, c_row, a_batch, a_head, b_batch, b_head, c_batch, c_head, heads, group, \
        mask, sees, wide, alpha

// Two blocks of wide tiles on a multiprocessor leave 128 registers a thread, which the compiler keeps to without spilling for
// Hopper and Blackwell only.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define WIDE_BLOCKS 1
#else
#define WIDE_BLOCKS 2
#endif

extern "C" __launch_bounds__(256, WIDE_BLOCKS) __global__ void product_wide_transposed(PARAMETERS) { product<128, true>(ARGUMENTS); }
extern "C" __launch_bounds__(256, WIDE_BLOCKS) __global__ void product_wide(PARAMETERS) { product<128, false>(ARGUMENTS); }
extern "C" __launch_bounds__(256, 4) __global__ void product_small_transposed(PARAMETERS) { product<64, true>(ARGUMENTS); }
extern "C" __launch_bounds__(256, 4) __global__ void product_small(PARAMETERS) { product<64, false>(ARGUMENTS); }

// Rows of n values, each the same: what a library's product with a bias begins with.
extern "C" __global__ void spread_rows(const float* row, float* y, u64 total, u32 n) {
    const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
    for (u64 k = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; k < total; k += step) y[k] = row[k % n];
}

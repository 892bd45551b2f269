// Products of f32 matrices, many per launch: C = alpha A B + bias, B as [k, n] or transposed as [n, k].
//
// A block computes a tile of C. The sums advance in steps of 16 through shared memory, which holds two steps: while one
// is multiplied from registers, the next is loaded. A thread holds 8 x 8 values of C in a wide tile of 128 x 128 (256
// threads), 8 x 4 in a small one of 64 x 64 (128 threads), 8 x 2 in a tiny one of 32 x 32 (64 threads), for products
// too small to fill the device with wide tiles. The least tile, of 16 x 16, is for products that mostly wait for their
// first values. One thread adds up each value in the order of k, so the result does not depend on the tile.
//
// Attention masks are prefixes: `mask` defines how many columns a row sees. Beyond them either C is -inf (scores; tiles
// beyond are skipped) or A counts as 0 (sums over values; steps beyond are skipped).

// The number of visible columns of a row: all, those up to the row's index, or the length of its sequence.
enum { sees_all, sees_causal, sees_length };
// What the mask does: nothing, -inf in C, 0 in A.
enum { unmasked, masks_c, masks_a };
// Matrices that may be read or written 16 bytes at a time.
enum { wide_a = 1, wide_b = 2, wide_c = 4 };

// The number of `all` columns that row `row` of a sequence sees.
__device__ __forceinline__ u32 seen(u32 sees, const i64* lengths, u32 sequence, u32 row, u32 all) {
    if (sees == sees_causal) return min(row + 1, all);
    if (sees == sees_length) return min(static_cast<u32>(lengths[sequence]), all);
    return all;
}

// The same value, but the compiler does not know that: it must recompute what depends on it.
__device__ __forceinline__ u32 afresh(u32 value) {
#ifdef __CUDACC__
    asm volatile("" : "+r"(value));
#endif
    return value;
}

// Four values, of which only the first `left` exist; the others are 0.
__device__ __forceinline__ float4 four(const float* at, i32 left, bool wide) {
    if (wide && left >= 4) return *reinterpret_cast<const float4*>(at);
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (left > 0) v.x = at[0];
    if (left > 1) v.y = at[1];
    if (left > 2) v.z = at[2];
    if (left > 3) v.w = at[3];
    return v;
}

// Product z of the batch belongs to sequence z / heads and head z % heads; `group` heads of A and C share a head of B.
#define PARAMETERS                                                                                                        \
    const float *a, const float *b, const float *bias, float *c, const i64 *lengths, u32 m, u32 n, u32 k, u32 a_row,     \
        u32 b_row, u32 c_row, u64 a_batch, u64 a_head, u64 b_batch, u64 b_head, u64 c_batch, u64 c_head, u32 heads,      \
        u32 group, u32 mask, u32 sees, u32 wide, float alpha

template <int TILE, bool TRANSPOSED> __device__ __forceinline__ void product(PARAMETERS) {
    // A step has two parts: every thread loads four values of A and four of B for one part while the previous one is
    // multiplied.
    constexpr u32 part = 8, depth = 2 * part, pitch = TILE + 4, columns_each = TILE / 16;
    __shared__ __align__(16) float a_steps[2][depth][pitch];
    __shared__ __align__(16) float b_steps[2][depth][pitch];
    const u32 t = threadIdx.x, tx = t % 16, ty = t / 16;
    u32 sequence = blockIdx.z / heads, h = blockIdx.z % heads;
    const u32 top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    const u32 last = min(top + TILE, m) - 1;
    const u32 columns = mask == masks_c ? seen(sees, lengths, sequence, last, n) : n;
    u32 k_end = mask == masks_a ? seen(sees, lengths, sequence, last, k) : k;
    // A fully masked tile skips all steps and is -inf.
    if (left >= columns) k_end = 0;
    float sums[8][columns_each];
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
#pragma unroll
        for (u32 j = 0; j < columns_each; ++j) sums[i][j] = 0.0f;
    const u32 line = t / 2, quad = t % 2 * 4;
    const u32 a_limit = top + line >= m ? 0 : mask == masks_a ? seen(sees, lengths, sequence, top + line, k) : k;
    const float* a_at = a + sequence * a_batch + h * a_head + static_cast<u64>(top + line) * a_row + quad;
    i32 a_left = static_cast<i32>(a_limit - quad);
    // A line of B is a column if B is transposed, otherwise a row; `b_left` counts along the column or over rows.
    // Values that no row of the tile sees are not read: they may be uninitialised.
    const u32 b_first = TRANSPOSED ? left + line : t / (TILE / 4), b_quad = TRANSPOSED ? quad : left + t % (TILE / 4) * 4;
    const float* b_at = b + sequence * b_batch + h / group * b_head + static_cast<u64>(b_first) * b_row + b_quad;
    i32 b_left = static_cast<i32>(TRANSPOSED ? (b_first < n ? k_end : 0) - quad : k_end - b_first);
    float4 a_next, b_next;
    auto fetch = [&]() {
        a_next = four(a_at, a_left, wide & wide_a);
        b_next = four(b_at, TRANSPOSED || b_left <= 0 ? b_left : static_cast<i32>(n - b_quad), wide & wide_b);
        a_at += part, a_left -= part, b_left -= part;
        b_at += TRANSPOSED ? part : part * static_cast<u64>(b_row);
    };
    auto keep = [&](u32 half, u32 from) {
        a_steps[half][from + quad][line] = a_next.x;
        a_steps[half][from + quad + 1][line] = a_next.y;
        a_steps[half][from + quad + 2][line] = a_next.z;
        a_steps[half][from + quad + 3][line] = a_next.w;
        if (TRANSPOSED) {
            b_steps[half][from + quad][line] = b_next.x;
            b_steps[half][from + quad + 1][line] = b_next.y;
            b_steps[half][from + quad + 2][line] = b_next.z;
            b_steps[half][from + quad + 3][line] = b_next.w;
        } else {
            *reinterpret_cast<float4*>(&b_steps[half][from + t / (TILE / 4)][t % (TILE / 4) * 4]) = b_next;
        }
    };
    if (k_end > 0) {
#pragma unroll
        for (u32 from = 0; from < depth; from += part) {
            fetch();
            keep(0, from);
        }
    }
    __syncthreads();
    u32 half = 0;
    for (i32 left_k = static_cast<i32>(k_end); left_k > 0; left_k -= depth) {
        const bool more = left_k > static_cast<i32>(depth);
#pragma unroll
        for (u32 from = 0; from < depth; from += part) {
            if (more) fetch();
#pragma unroll
            for (u32 step = from; step < from + part; ++step) {
                float x[8], y[columns_each];
                // A thread's rows and columns are in groups of four, half a tile apart, so that 16-byte reads have no
                // bank conflicts.
#pragma unroll
                for (u32 g = 0; g < 2; ++g) {
                    const float4 u = *reinterpret_cast<const float4*>(&a_steps[half][step][g * (TILE / 2) + ty * 4]);
                    x[g * 4] = u.x, x[g * 4 + 1] = u.y, x[g * 4 + 2] = u.z, x[g * 4 + 3] = u.w;
                }
                if (columns_each == 2) {
                    const float2 v = *reinterpret_cast<const float2*>(&b_steps[half][step][tx * 2]);
                    y[0] = v.x, y[1] = v.y;
                }
#pragma unroll
                for (i32 g = 0; g < static_cast<i32>(columns_each / 4); ++g) {
                    const float4 v = *reinterpret_cast<const float4*>(&b_steps[half][step][g * 64 + tx * 4]);
                    y[g * 4] = v.x, y[g * 4 + 1] = v.y, y[g * 4 + 2] = v.z, y[g * 4 + 3] = v.w;
                }
#pragma unroll
                for (u32 i = 0; i < 8; ++i)
#pragma unroll
                    for (u32 j = 0; j < columns_each; ++j) sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
            }
            // This half was read before the barrier of the previous step, so it may be overwritten.
            if (more) keep(half ^ 1, from);
        }
        half ^= 1;
        __syncthreads();
    }
    // Recomputed here, so that they occupy no registers until now.
    const u32 z = afresh(blockIdx.z);
    sequence = z / heads, h = z % heads;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        const u32 row = top + i / 4 * (TILE / 2) + ty * 4 + i % 4;
        if (row >= m) continue;
        const u32 visible = mask == masks_c ? seen(sees, lengths, sequence, row, n) : n;
        float* const to = c + sequence * c_batch + h * c_head + static_cast<u64>(row) * c_row;
        constexpr u32 at_once = columns_each < 4 ? columns_each : 4;
#pragma unroll
        for (u32 g = 0; g < columns_each / at_once; ++g) {
            const u32 column = left + g * 64 + tx * at_once;
            float v[at_once];
#pragma unroll
            for (u32 j = 0; j < at_once; ++j) {
                const u32 at = column + j;
                v[j] = at >= visible ? -INFINITE : alpha * sums[i][g * at_once + j] + (bias && at < n ? bias[at] : 0.0f);
            }
            if (at_once == 4 && (wide & wide_c) && column + 4 <= n) {
                *reinterpret_cast<float4*>(to + column) = make_float4(v[0], v[1], v[2 % at_once], v[3 % at_once]);
            } else {
#pragma unroll
                for (u32 j = 0; j < at_once; ++j)
                    if (column + j < n) to[column + j] = v[j];
            }
        }
    }
}

// The least tile, with 128 threads of two values each. A step of 64 is loaded as a whole, so that a short sum waits for
// memory once.
template <bool TRANSPOSED> __device__ __forceinline__ void least_product(PARAMETERS) {
    constexpr u32 tile = 16, depth = 64, threads = 128, pieces = tile * depth / 4 / threads, fours = depth / 4;
    // Rows of A, and columns of B or its rows, with four values more, so that 16-byte reads have no bank conflicts.
    constexpr u32 line = depth + 4, pitch = TRANSPOSED ? line : tile + 4;
    __shared__ __align__(16) float a_steps[2][tile * line];
    __shared__ __align__(16) float b_steps[2][(TRANSPOSED ? tile : depth) * pitch];
    const u32 t = threadIdx.x, tx = t % 8, ty = t / 8;
    const u32 sequence = blockIdx.z / heads, h = blockIdx.z % heads;
    const u32 top = blockIdx.y * tile, left = blockIdx.x * tile, row = top + ty;
    const u32 last = min(top + tile, m) - 1;
    const u32 columns = mask == masks_c ? seen(sees, lengths, sequence, last, n) : n;
    u32 k_end = mask == masks_a ? seen(sees, lengths, sequence, last, k) : k;
    // A fully masked tile skips all steps and is -inf.
    if (left >= columns) k_end = 0;
    const float* const a_from = a + sequence * a_batch + h * a_head;
    const float* const b_from = b + sequence * b_batch + h / group * b_head;
    float4 a_next[pieces], b_next[pieces];
    auto fetch = [&](u32 start) {
#pragma unroll
        for (u32 i = 0; i < pieces; ++i) {
            const u32 piece = t + i * threads, of_a = top + piece / fours, from = start + piece % fours * 4;
            const u32 limit = of_a >= m ? 0 : mask == masks_a ? seen(sees, lengths, sequence, of_a, k) : k;
            a_next[i] = four(a_from + static_cast<u64>(of_a) * a_row + from, static_cast<i32>(limit - from), wide & wide_a);
            // Values that no row of the tile sees are not read: they may be uninitialised.
            const u32 of_b = TRANSPOSED ? left + piece / fours : start + piece / (tile / 4);
            const u32 at = TRANSPOSED ? from : left + piece % (tile / 4) * 4;
            const bool there = of_b < (TRANSPOSED ? n : k_end);
            b_next[i] = four(b_from + static_cast<u64>(of_b) * b_row + at, there ? static_cast<i32>((TRANSPOSED ? k_end : n) - at) : 0, wide & wide_b);
        }
    };
    auto keep = [&](u32 half) {
#pragma unroll
        for (u32 i = 0; i < pieces; ++i) {
            const u32 piece = t + i * threads, of_a = piece / fours * line + piece % fours * 4;
            *reinterpret_cast<float4*>(&a_steps[half][of_a]) = a_next[i];
            *reinterpret_cast<float4*>(&b_steps[half][TRANSPOSED ? of_a : piece / (tile / 4) * pitch + piece % (tile / 4) * 4]) = b_next[i];
        }
    };
    if (k_end > 0) {
        fetch(0);
        keep(0);
    }
    __syncthreads();
    float sums[2] = {0.0f, 0.0f};
    u32 half = 0;
#pragma unroll 1
    for (u32 start = 0; start < k_end; start += depth) {
        const bool more = start + depth < k_end;
        if (more) fetch(start + depth);
#pragma unroll
        for (u32 step = 0; step < depth; step += 4) {
            const float4 x = *reinterpret_cast<const float4*>(&a_steps[half][ty * line + step]);
#pragma unroll
            for (u32 j = 0; TRANSPOSED && j < 2; ++j) {
                const float4 y = *reinterpret_cast<const float4*>(&b_steps[half][(tx + j * 8) * pitch + step]);
                sums[j] = fmaf(x.x, y.x, sums[j]);
                sums[j] = fmaf(x.y, y.y, sums[j]);
                sums[j] = fmaf(x.z, y.z, sums[j]);
                sums[j] = fmaf(x.w, y.w, sums[j]);
            }
#pragma unroll
            for (u32 s = 0; !TRANSPOSED && s < 4; ++s) {
                const float2 y = *reinterpret_cast<const float2*>(&b_steps[half][(step + s) * pitch + tx * 2]);
                const float one = s == 0 ? x.x : s == 1 ? x.y : s == 2 ? x.z : x.w;
                sums[0] = fmaf(one, y.x, sums[0]);
                sums[1] = fmaf(one, y.y, sums[1]);
            }
        }
        half ^= 1;
        // All warps have read this half before the barrier of the previous step.
        if (more) keep(half);
        __syncthreads();
    }
    if (row >= m) return;
    const u32 visible = mask == masks_c ? seen(sees, lengths, sequence, row, n) : n;
    float* const to = c + sequence * c_batch + h * c_head + static_cast<u64>(row) * c_row;
#pragma unroll
    for (u32 j = 0; j < 2; ++j) {
        const u32 column = left + (TRANSPOSED ? tx + j * 8 : tx * 2 + j);
        if (column < n) to[column] = column >= visible ? -INFINITE : alpha * sums[j] + (bias ? bias[column] : 0.0f);
    }
}

#define ARGUMENTS                                                                                                        \
    a, b, bias, c, lengths, m, n, k, a_row, b_row, c_row, a_batch, a_head, b_batch, b_head, c_batch, c_head, heads, group, \
        mask, sees, wide, alpha

// Two blocks of wide tiles per multiprocessor leave 128 registers per thread; the compiler needs no spills for that
// only on Hopper and Blackwell.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define WIDE_BLOCKS 1
#else
#define WIDE_BLOCKS 2
#endif

extern "C" __launch_bounds__(256, WIDE_BLOCKS) __global__ void product_wide_transposed(PARAMETERS) { product<128, true>(ARGUMENTS); }
extern "C" __launch_bounds__(256, WIDE_BLOCKS) __global__ void product_wide(PARAMETERS) { product<128, false>(ARGUMENTS); }
extern "C" __launch_bounds__(128, 5) __global__ void product_small_transposed(PARAMETERS) { product<64, true>(ARGUMENTS); }
extern "C" __launch_bounds__(128, 5) __global__ void product_small(PARAMETERS) { product<64, false>(ARGUMENTS); }
extern "C" __launch_bounds__(64, 8) __global__ void product_tiny_transposed(PARAMETERS) { product<32, true>(ARGUMENTS); }
extern "C" __launch_bounds__(64, 8) __global__ void product_tiny(PARAMETERS) { product<32, false>(ARGUMENTS); }
extern "C" __launch_bounds__(128, 6) __global__ void product_least_transposed(PARAMETERS) { least_product<true>(ARGUMENTS); }
extern "C" __launch_bounds__(128, 6) __global__ void product_least(PARAMETERS) { least_product<false>(ARGUMENTS); }

// Copies one row of n values to every row: the initial C for a cuBLAS product with a bias.
extern "C" __global__ void spread_rows(const float* row, float* y, u64 total, u32 n) {
    const u64 rows = total / n;
    for (u64 i = blockIdx.x; i < rows; i += gridDim.x)
        for (u32 j = threadIdx.x; j < n; j += blockDim.x) y[i * n + j] = row[j];
}

// Products of bf16 matrices on tensor cores, with f32 sums, from registers (`mma.sync`): the peak of this instruction
// on every architecture since Ampere. `products.rs` defines the matrices.
//
// A block computes a tile of 64 x 128, each of its eight warps 32 x 32 of it. All operands of a period are in registers
// before the loop. A warp has eight independent sums in flight; four warps share a tensor core.

enum { rows = 64, columns = 128, slice = 16, left_slices = 4, right_slices = 2 };

// Two adjacent values of the left side, in a row, of step `s`; two of the right side, in a column.
__device__ __forceinline__ u32 of_left(const u16* a, u32 row, u32 s, u32 k) {
    return *reinterpret_cast<const u32*>(a + row * left_slices * slice + s * slice + k);
}
__device__ __forceinline__ u32 of_right(const u16* b, u32 s, u32 k, u32 column) {
    const u16* const at = b + (s * slice + k) * columns + column;
    return at[0] | static_cast<u32>(at[columns]) << 16;
}

__device__ __forceinline__ void step(float (&sums)[2][4][4], const u32 (&left)[2][4], const u32 (&right)[4][2]) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j)
#pragma unroll
        for (u32 i = 0; i < 2; ++i) mma_bf16(sums[i][j], left[i], right[j][0], right[j][1]);
}

extern "C" __launch_bounds__(256, 2) __global__ void products(const u16* a, const u16* b, const float* c, float* y, u32 steps) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const u32 row = warp / 4 * 32 + g, column = warp % 4 * 32;
    u32 left[left_slices][2][4], right[right_slices][4][2];
#pragma unroll
    for (u32 s = 0; s < left_slices; ++s)
#pragma unroll
        for (u32 i = 0; i < 2; ++i)
#pragma unroll
            for (u32 r = 0; r < 4; ++r) left[s][i][r] = of_left(a, row + 16 * i + r % 2 * 8, s, 2 * t + r / 2 * 8);
#pragma unroll
    for (u32 s = 0; s < right_slices; ++s)
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
#pragma unroll
            for (u32 r = 0; r < 2; ++r) right[s][j][r] = of_right(b, s, 2 * t + 8 * r, column + 8 * j + g);
    float sums[2][4][4];
    const float start = c[blockIdx.x];
#pragma unroll
    for (u32 e = 0; e < 32; ++e) sums[e / 16][e / 4 % 4][e % 4] = start;
#pragma unroll 1
    for (u32 period = 0; period < steps / left_slices; ++period)
#pragma unroll
        for (u32 s = 0; s < left_slices; ++s) step(sums, left[s], right[s % right_slices]);
#pragma unroll
    for (u32 s = 0; s < left_slices - 1; ++s)
        if (s < steps % left_slices) step(sums, left[s], right[s % right_slices]);
    y += static_cast<u64>(blockIdx.x) * rows * columns;
#pragma unroll
    for (u32 i = 0; i < 2; ++i)
#pragma unroll
        for (u32 j = 0; j < 4; ++j)
#pragma unroll
            for (u32 h = 0; h < 2; ++h)
                *reinterpret_cast<float2*>(y + (row + 16 * i + 8 * h) * columns + column + 8 * j + 2 * t) =
                    make_float2(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
}

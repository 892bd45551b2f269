// The same with warpgroup products, which only Hopper has (`wgmma`): left side in registers, right side in shared
// memory.
//
// A block is a warpgroup and computes a tile of 64 x 128; four of them share a multiprocessor. A product of 64 x 128 x
// 16 keeps the tensor cores busy for 64 cycles, in which its right side of 4 KB takes 32 cycles of shared memory; with
// the left side in shared memory too it would be 48.

enum { rows = 64, columns = 128, slice = 16, left_slices = 4, right_slices = 2, warpgroup = 128 };
// Bytes of 64 columns of the right side: a row of 128 bytes per step of the sums.
enum { half_bytes = right_slices * slice * tile_row_bytes };

__device__ __forceinline__ void step(float (&sums)[64], const u32 (&left)[4], u32 right, u32 s) {
    product_registers(sums, left[0], left[1], left[2], left[3],
                      matrix_at(right, s % right_slices * slice * tile_row_bytes, half_bytes, swizzle_bytes));
}

extern "C" __launch_bounds__(128, 4) __global__ void products_hopper(const u16* a, const u16* b, const float* c, float* y, u32 steps) {
    SHARED_BYTES(raw);
    u8* const right = raw + (0 - shared_address(raw)) % swizzle_bytes;
    const u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = threadIdx.x / 32 * 16 + g;
    // Chunks of 16 bytes; a row of the right side has 16.
    for (u32 piece = threadIdx.x; piece < right_slices * slice * 16; piece += warpgroup) {
        const u32 k = piece / 16, at = piece % 16;
        *reinterpret_cast<uint4*>(right + at / 8 * half_bytes + k * tile_row_bytes + (at ^ k) % 8 * 16) = reinterpret_cast<const uint4*>(b)[piece];
    }
    u32 left[left_slices][4];
#pragma unroll
    for (u32 s = 0; s < left_slices; ++s)
#pragma unroll
        for (u32 r = 0; r < 4; ++r)
            left[s][r] = *reinterpret_cast<const u32*>(a + (row + r % 2 * 8) * left_slices * slice + s * slice + 2 * t + r / 2 * 8);
    float sums[64];
    const float start = c[blockIdx.x];
#pragma unroll
    for (u32 e = 0; e < 64; ++e) sums[e] = start;
    shared_written();
    __syncthreads();
    const u32 at = shared_address(right);
    // While one period is computed, the next is issued.
#pragma unroll 1
    for (u32 period = 0; period < steps / left_slices; ++period) {
        products_begin();
#pragma unroll
        for (u32 s = 0; s < left_slices; ++s) step(sums, left[s], at, s);
        products_commit();
        products_wait<1>(sums);
    }
#pragma unroll
    for (u32 s = 0; s < left_slices - 1; ++s)
        if (s < steps % left_slices) {
            products_begin();
            step(sums, left[s], at, s);
            products_commit();
        }
    products_wait<0>(sums);
    y += static_cast<u64>(blockIdx.x) * rows * columns + row * columns + 2 * t;
#pragma unroll
    for (u32 j = 0; j < 16; ++j)
#pragma unroll
        for (u32 h = 0; h < 2; ++h)
            *reinterpret_cast<float2*>(y + 8 * h * columns + 8 * j) = make_float2(sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]);
}

// Tests of the emulated functions of `tensor.cuh` and `hopper.cuh`: correct and incorrect kernels.

// 16 x 16 times 16 x 8 by a warp: `a` row by row, `b` as rows of 16 (column by column) or, transposed, as rows of 8.
__device__ __forceinline__ void multiply_once(const u16* a, const u16* b, float* out, bool transposed) {
    __shared__ __align__(16) u16 left[256];
    __shared__ __align__(16) u16 right[256];
    const u32 lane = threadIdx.x;
    for (u32 k = lane; k < 256; k += 32) left[k] = a[k], right[k] = k < 128 ? b[k] : static_cast<u16>(0);
    __syncthreads();
    u32 x[4], y[4];
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    load_matrices(x, left + lane % 16 * 16 + lane / 16 * 8);
    // Matrices 2 and 3 are not used.
    if (transposed) load_matrices_transposed(y, right + lane % 16 * 8);
    else load_matrices(y, right + lane % 8 * 16 + lane / 8 % 2 * 8);
    mma_bf16(d, x, y[0], y[1]);
    for (u32 i = 0; i < 4; ++i) out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}

extern "C" __global__ void by_columns(const u16* a, const u16* b, float* out) { multiply_once(a, b, out, false); }
extern "C" __global__ void by_rows(const u16* a, const u16* b, float* out) { multiply_once(a, b, out, true); }

// Reads the bytes of a copy before any thread has waited for it.
extern "C" __global__ void unawaited_copy(const u16* a, u16* out) {
    __shared__ __align__(16) u16 here[8];
    for (u32 k = 0; k < 8; ++k) here[k] = 1;
    copy_async(here, a, 16);
    copy_commit();
    for (u32 k = 0; k < 8; ++k) out[k] = here[k];
    copy_wait<0>();
}

enum { good, no_fence, no_wait, crooked, no_bytes, left_alone, not_made };

// 64 x 64 times 64 x 128 by a warpgroup, with tiles by the copy engine; `wrong` selects a step to skip.
extern "C" __global__ void tiles(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* out, u32 wrong) {
    SHARED_BYTES(raw);
    u8* const left = raw + (0 - shared_address(raw)) % swizzle_bytes;
    u8* const right = left + 64 * tile_row_bytes;
    u64* const barrier = reinterpret_cast<u64*>(right + 128 * tile_row_bytes);
    if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        if (wrong != not_made) barriers_made();
        barrier_arrive_expect(barrier, 192 * tile_row_bytes);
        tile_copy(wrong == crooked ? left + 128 : left, a, barrier, 0, 0, 0);
        if (wrong != no_bytes) tile_copy(right, b, barrier, 0, 0, 0);
    }
    __syncthreads();
    if (wrong == left_alone) return;
    barrier_wait(barrier, 0);
    float d[64];
    if (wrong != no_fence) products_begin();
    for (u32 k = 0; k < 64; k += 16)
        product_shared(d, matrix_at(shared_address(left), 2 * k, 16, swizzle_bytes), matrix_at(shared_address(right), 2 * k, 16, swizzle_bytes), k > 0);
    products_commit();
    if (wrong != no_wait) products_wait<0>(d);
    const u32 row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (u32 i = 0; i < 64; ++i) out[(row + i % 4 / 2 * 8) * 128 + i / 4 * 8 + column + i % 2] = d[i];
    if (wrong == no_wait) products_wait<0>(d);
}

enum { no_proxy_fence = 1, not_read, early };

// A tile of 64 x 64 from a warpgroup through shared memory and the copy engine: element (m, n) of matrix z is 64 m +
// n + z. `wrong` selects a step to skip.
extern "C" __global__ void stored(const __grid_constant__ TensorMap out, u32 wrong) {
    SHARED_BYTES(raw);
    u8* const tile = raw + (0 - shared_address(raw)) % swizzle_bytes;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp * 16 + lane % 16;
    for (u32 z = 0; z < 2; ++z) {
        if (threadIdx.x == 0 && wrong != early) stores_read<0>();
        __syncthreads();
        for (u32 j = 0; j < 4; ++j) {
            u32 four[4];
            for (u32 r = 0; r < 4; ++r) {
                const u32 at = 64 * (warp * 16 + lane / 4 + r % 2 * 8) + 16 * j + r / 2 * 8 + lane % 4 * 2 + z;
                four[r] = at | at + 1 << 16;
            }
            store_matrices(tile + row * tile_row_bytes + ((2 * j + lane / 16 ^ row) % 8) * 16, four);
        }
        if (wrong != no_proxy_fence) shared_written();
        __syncthreads();
        if (threadIdx.x == 0) {
            tile_store(out, tile, 0, 0, z);
            stores_commit();
        }
    }
    if (threadIdx.x == 0 && wrong != not_read) stores_read<0>();
}

// Matrix products in bf16 for Hopper, with f32 sums: C = A B, B as [k, n] or transposed as [n, k].
//
// A persistent block computes one tile of C after another. Of its three warpgroups, one issues copies of steps of 64 of
// the sum, which pass through a ring in shared memory, and releases its registers; the other two multiply 128 rows
// each. While they write a tile, the ring fills with the next one. A tile is as large as registers and shared memory
// allow: with 256 x 192, a step loads 56 KB for 1536 cycles of products; with 128 x 256 it would load 48 KB for 1024.
// Rows of all arrays are multiples of 16 bytes; values outside an array count as 0 and are not written.

enum { rows = 256, depth = 64, stages = 3, warpgroup = 128, parts = 2, part_rows = 128 };
// Rows of a product; also rows and columns of a box of B if it is not transposed.
enum { box = 64, box_bytes = box * tile_row_bytes };
enum { left_bytes = rows * tile_row_bytes };
// Columns of a tile: whole boxes of B if it is not transposed. Otherwise 176: a square of 4096 has 384 such tiles, for
// which 132 multiprocessors have 396 places in three rounds; with 192 columns it also takes three rounds, for 352
// tiles.
template <bool TRANSPOSED> constexpr u32 columns = TRANSPOSED ? 176 : 192;
template <bool TRANSPOSED> constexpr u32 stage_bytes = left_bytes + columns<TRANSPOSED> * tile_row_bytes;
// Row pitch of a warp's output in shared memory, in values; rows have no bank conflicts.
template <bool TRANSPOSED> constexpr u32 pitch = columns<TRANSPOSED> + 8;

struct Task {
    u32 m, n, k;
};

// First row and first column of a tile.
struct Tile {
    u32 top, left;
};

// The next tile of a block, if any. Tiles that are computed at the same time cover roughly a square of C, so that they
// share rows of A and columns of B, and each is read from memory once.
template <bool TRANSPOSED> __device__ __forceinline__ bool take(const Task& task, u32 at, Tile& tile) {
    constexpr u32 together = 2048 / rows, wide = columns<TRANSPOSED>;
    const u32 down = (task.m + rows - 1) / rows, across = (task.n + wide - 1) / wide;
    if (at >= down * across) return false;
    const u32 first = at / (together * across) * together, high = min(down - first, together), within = at - first * across;
    tile.top = (first + within % high) * rows;
    tile.left = within / high * wide;
    return true;
}

// Barriers of a block: `full` completes when the bytes have arrived, `empty` when each warp that used them has arrived.
struct Barriers {
    u64 full[stages], empty[stages];
};

template <bool TRANSPOSED> __device__ __forceinline__ void copies(const TensorMap& a, const TensorMap& b, const Task& task, u8* ring, Barriers& barriers) {
    Slot<stages> slot = {0, 0};
    Tile tile;
    for (u32 at = blockIdx.x; take<TRANSPOSED>(task, at, tile); at += gridDim.x)
        for (u32 start = 0; start < task.k; start += depth) {
            u64* const full = &barriers.full[slot.at];
            u8* const to = ring + slot.at * stage_bytes<TRANSPOSED>;
            // A slot that was never used counts as empty.
            barrier_wait(&barriers.empty[slot.at], slot.parity ^ 1);
            barrier_arrive_expect(full, stage_bytes<TRANSPOSED>);
            tile_copy(to, a, full, start, tile.top, 0);
            if (TRANSPOSED) {
                tile_copy(to + left_bytes, b, full, start, tile.left, 0);
            } else {
                for (u32 i = 0; i < columns<TRANSPOSED> / box; ++i) tile_copy(to + left_bytes + i * box_bytes, b, full, tile.left + i * box, start, 0);
            }
            slot.step();
        }
}

// Starts to add a step to both halves of a part's rows.
__device__ __forceinline__ void multiply(float (&upper)[88], float (&lower)[88], u32 left, u32 right) {
#pragma unroll
    for (u32 e = 0; e < depth; e += 16) {
        const u64 b = matrix_at(right, e * 2, 16, swizzle_bytes);
        product_shared(upper, matrix_at(left, e * 2, 16, swizzle_bytes), b, 1);
        product_shared(lower, matrix_at(left, box_bytes + e * 2, 16, swizzle_bytes), b, 1);
    }
}
__device__ __forceinline__ void multiply(float (&upper)[96], float (&lower)[96], u32 left, u32 right) {
#pragma unroll
    for (u32 e = 0; e < depth; e += 16) {
        const u64 b = matrix_at(right, e * tile_row_bytes, box_bytes, swizzle_bytes);
        product_shared(upper, matrix_at(left, e * 2, 16, swizzle_bytes), b, 1);
        product_shared(lower, matrix_at(left, box_bytes + e * 2, 16, swizzle_bytes), b, 1);
    }
}

// Writes a warp's 16 rows of a tile, starting at row `top`, as whole rows through separate shared memory.
template <bool TRANSPOSED>
__device__ __forceinline__ void write(const float (&sums)[columns<TRANSPOSED> / 2], u16* place, u16* c, const Task& task, u32 top, u32 left) {
    // The lane's index, in a form that the compiler cannot reuse: addresses are recomputed each time, so that they
    // occupy no registers in between.
    const u32 lane = __shfl_sync(WHOLE_WARP, threadIdx.x, threadIdx.x) % 32;
    // The previous rows have been read.
    __syncwarp();
#pragma unroll
    for (u32 j = 0; j < columns<TRANSPOSED> / 16; ++j) {
        u32 four[4];
#pragma unroll
        for (u32 r = 0; r < 4; ++r) four[r] = two_bf16(sums[8 * j + 2 * r], sums[8 * j + 2 * r + 1]);
        store_matrices(place + lane % 16 * pitch<TRANSPOSED> + (2 * j + lane / 16) * 8, four);
    }
    __syncwarp();
    // Eight lanes per row, four rows and 64 columns at a time.
    const u32 line = lane / 8, piece = lane % 8 * 8;
    const u16* const from = place + line * pitch<TRANSPOSED> + piece;
    u16* const to = c + static_cast<u64>(top + line) * task.n + left + piece;
#pragma unroll
    for (u32 i = 0; i < 16; i += 4) {
        uint4 v[3];
#pragma unroll
        for (u32 g = 0; g < 3; ++g) {
            // Beyond the tile, repeats the first columns.
            v[g] = *reinterpret_cast<const uint4*>(from + i * pitch<TRANSPOSED> + (g * 64 + piece < columns<TRANSPOSED> ? g * 64 : 0));
        }
#pragma unroll
        for (u32 g = 0; g < 3; ++g)
            if (g * 64 + piece < columns<TRANSPOSED> && top + line + i < task.m && left + g * 64 + piece < task.n)
                __stcs(reinterpret_cast<uint4*>(to + i * task.n + g * 64), v[g]);
    }
}

template <bool TRANSPOSED> __device__ __forceinline__ void products(u16* c, const Task& task, u32 part, u16* results, u8* ring, Barriers& barriers) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x % warpgroup / 32, tiles = shared_address(ring);
    u16* const place = results + (part * (warpgroup / 32) + warp) * 16 * pitch<TRANSPOSED>;
    Slot<stages> slot = {0, 0};
    Tile tile;
    for (u32 at = blockIdx.x; take<TRANSPOSED>(task, at, tile); at += gridDim.x) {
        // Zeroed although the first step need not add: this keeps registers free while the previous tile is written.
        float upper[columns<TRANSPOSED> / 2], lower[columns<TRANSPOSED> / 2];
#pragma unroll
        for (u32 i = 0; i < columns<TRANSPOSED> / 2; ++i) upper[i] = lower[i] = 0.0f;
        u32 before = 0;
        for (u32 start = 0; start < task.k; start += depth) {
            const u32 left = tiles + slot.at * stage_bytes<TRANSPOSED>;
            barrier_wait(&barriers.full[slot.at], slot.parity);
            products_begin();
            multiply(upper, lower, left + part * part_rows * tile_row_bytes, left + left_bytes);
            products_commit();
            // While this step is multiplied, release the previous step's slot.
            products_wait<1>(upper);
            if (lane == 0 && start > 0) barrier_arrive(&barriers.empty[before]);
            before = slot.at;
            slot.step();
        }
        products_wait<0>(upper);
        hold(lower);
        if (lane == 0) barrier_arrive(&barriers.empty[before]);
        const u32 top = tile.top + part * part_rows + warp * 16;
        write<TRANSPOSED>(upper, place, c, task, top, tile.left);
        write<TRANSPOSED>(lower, place, c, task, top + box, tile.left);
    }
}

#define PARAMETERS const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, u16 *c, u32 m, u32 n, u32 k

template <bool TRANSPOSED> __device__ __forceinline__ void matmul(const TensorMap& a, const TensorMap& b, u16* c, u32 m, u32 n, u32 k) {
    const Task task = {m, n, k};
    SHARED_BYTES(raw);
    u8* const ring = raw + (0 - shared_address(raw)) % swizzle_bytes;
    u16* const results = reinterpret_cast<u16*>(ring + stages * stage_bytes<TRANSPOSED>);
    Barriers& barriers = *reinterpret_cast<Barriers*>(results + parts * box * pitch<TRANSPOSED>);
    if (threadIdx.x == 0) {
        map_ahead(a);
        map_ahead(b);
        for (u32 s = 0; s < stages; ++s) {
            barrier_init(&barriers.full[s], 1);
            barrier_init(&barriers.empty[s], parts * warpgroup / 32);
        }
        barriers_made();
    }
    __syncthreads();
    // Uniform within a warp, and the compiler must know it: otherwise it serialises the products.
    const u32 role = __shfl_sync(WHOLE_WARP, threadIdx.x / warpgroup, 0);
    if (role == 0) {
        registers_down<24>();
        if (threadIdx.x == 0) copies<TRANSPOSED>(a, b, task, ring, barriers);
    } else {
        registers_up<240>();
        products<TRANSPOSED>(c, task, role - 1, results, ring, barriers);
    }
}

extern "C" __launch_bounds__(384, 1) __global__ void matmul_hopper_transposed(PARAMETERS) { matmul<true>(a, b, c, m, n, k); }
extern "C" __launch_bounds__(384, 1) __global__ void matmul_hopper(PARAMETERS) { matmul<false>(a, b, c, m, n, k); }

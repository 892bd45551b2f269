// The product of matrices in bf16 for Hopper, sums in f32: C = A B, B as it lies ([k, n]) or transposed ([n, k]).
//
// A block stays on its multiprocessor and makes one tile of C after another. Of its three warpgroups one asks the copy engine
// for steps of 64 of the sum, which pass through a ring in shared memory, and gives its registers away; two multiply 128 rows
// each. While they write a tile the ring fills with the next one. A tile of 256 x 192 is as large as registers allow: a step
// brings in 56 KB for 1536 cycles of products, where one of 128 x 256 would want 48 KB for 1024. Rows of all arrays are
// multiples of 16 bytes; what lies outside an array counts as 0 and is not written.

enum { rows = 256, columns = 192, depth = 64, stages = 3, warpgroup = 128, parts = 2, part_rows = 128 };
// Rows and columns of a box that is written.
enum { box = 64, box_bytes = box * tile_row_bytes };
enum { left_bytes = rows * tile_row_bytes, stage_bytes = left_bytes + columns * tile_row_bytes };
// Barriers of a part of the block: what each has written.
enum { written = 1 };

struct Task {
    u32 m, n, k;
};

// First row and first column of a tile.
struct Tile {
    u32 top, left;
};

// What a block takes next, if anything: tiles that are made at the same time are about a square of C, so that they read the same
// rows of A and columns of B, and memory is asked for each of them once.
__device__ __forceinline__ bool take(const Task& task, u32 at, Tile& tile) {
    constexpr u32 together = 2048 / rows;
    const u32 down = (task.m + rows - 1) / rows, across = (task.n + columns - 1) / columns;
    if (at >= down * across) return false;
    const u32 first = at / (together * across) * together, high = min(down - first, together), within = at - first * across;
    tile.top = (first + within % high) * rows;
    tile.left = within / high * columns;
    return true;
}

// Barriers of a block: full when the bytes have come, and empty when each warp that used them says so.
struct Barriers {
    u64 full[stages], empty[stages];
};

// A place in the ring, and the parity of its turn.
struct Slot {
    u32 at, parity;
    __device__ __forceinline__ void step() {
        at += 1;
        if (at == stages) at = 0, parity ^= 1;
    }
};

template <bool TRANSPOSED> __device__ __forceinline__ void copies(const TensorMap& a, const TensorMap& b, const Task& task, u8* ring, Barriers& barriers) {
    Slot slot = {0, 0};
    Tile tile;
    for (u32 at = blockIdx.x; take(task, at, tile); at += gridDim.x)
        for (u32 start = 0; start < task.k; start += depth) {
            u64* const full = &barriers.full[slot.at];
            u8* const to = ring + slot.at * stage_bytes;
            // A place that was never used counts as empty.
            barrier_wait(&barriers.empty[slot.at], slot.parity ^ 1);
            barrier_arrive_expect(full, stage_bytes);
            tile_copy(to, a, full, start, tile.top, 0);
            if (TRANSPOSED) {
                tile_copy(to + left_bytes, b, full, start, tile.left, 0);
            } else {
                for (u32 i = 0; i < columns / box; ++i) tile_copy(to + left_bytes + i * box_bytes, b, full, tile.left + i * box, start, 0);
            }
            slot.step();
        }
}

// Begins to add a step to both halves of a part's rows; the first step of a tile does not add.
template <bool TRANSPOSED> __device__ __forceinline__ void multiply(float (&upper)[96], float (&lower)[96], u32 left, u32 right, bool more) {
#pragma unroll
    for (u32 e = 0; e < depth; e += 16) {
        const u64 b = TRANSPOSED ? matrix_at(right, e * 2, 16, swizzle_bytes) : matrix_at(right, e * tile_row_bytes, box_bytes, swizzle_bytes);
        product_shared<TRANSPOSED ? 0 : 1>(upper, matrix_at(left, e * 2, 16, swizzle_bytes), b, more || e > 0);
        product_shared<TRANSPOSED ? 0 : 1>(lower, matrix_at(left, box_bytes + e * 2, 16, swizzle_bytes), b, more || e > 0);
    }
}

// Writes 64 rows of a tile through shared memory, 64 columns at a time: each box has a place there, and before it is written
// once more the copy from it, the third last, has read it.
__device__ __forceinline__ void write(const float (&sums)[96], u8* place, const TensorMap& c, const Task& task, const Tile& tile, u32 from, u32 part) {
    const u32 thread = threadIdx.x % warpgroup, lane = thread % 32, row = thread / 32 * 16 + lane % 16, top = tile.top + from;
#pragma unroll
    for (u32 i = 0; i < columns / box; ++i) {
        u8* const to = place + i * box_bytes;
        if (thread == 0) stores_read<columns / box - 1>();
        part_wait(written + part, warpgroup);
#pragma unroll
        for (u32 j = 0; j < box / 16; ++j) {
            u32 four[4];
#pragma unroll
            for (u32 r = 0; r < 4; ++r) four[r] = two_bf16(sums[32 * i + 8 * j + 2 * r], sums[32 * i + 8 * j + 2 * r + 1]);
            store_matrices(to + row * tile_row_bytes + ((2 * j + lane / 16) ^ row) % 8 * 16, four);
        }
        shared_written();
        part_wait(written + part, warpgroup);
        if (thread == 0) {
            if (top < task.m && tile.left + i * box < task.n) tile_store(c, to, tile.left + i * box, top, 0);
            // A group a box, even where nothing of it is written.
            stores_commit();
        }
    }
}

template <bool TRANSPOSED> __device__ __forceinline__ void products(const TensorMap& c, const Task& task, u32 part, u8* results, u8* ring, Barriers& barriers) {
    const u32 lane = threadIdx.x % 32, tiles = shared_address(ring);
    float upper[96], lower[96];
    Slot slot = {0, 0};
    Tile tile;
    for (u32 at = blockIdx.x; take(task, at, tile); at += gridDim.x) {
        u32 before = 0;
        for (u32 start = 0; start < task.k; start += depth) {
            const u32 left = tiles + slot.at * stage_bytes;
            barrier_wait(&barriers.full[slot.at], slot.parity);
            products_begin();
            multiply<TRANSPOSED>(upper, lower, left + part * part_rows * tile_row_bytes, left + left_bytes, start > 0);
            products_commit();
            // While this step is multiplied, the place of the one before is given back.
            products_wait<1>(upper);
            if (lane == 0 && start > 0) barrier_arrive(&barriers.empty[before]);
            before = slot.at;
            slot.step();
        }
        products_wait<0>(upper);
        hold(lower);
        if (lane == 0) barrier_arrive(&barriers.empty[before]);
        write(upper, results, c, task, tile, part * part_rows, part);
        write(lower, results, c, task, tile, part * part_rows + box, part);
    }
    // Shared memory must last as long as it is read.
    if (threadIdx.x % warpgroup == 0) stores_read<0>();
}

#define PARAMETERS const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c, u32 m, u32 n, u32 k

template <bool TRANSPOSED> __device__ __forceinline__ void matmul(const TensorMap& a, const TensorMap& b, const TensorMap& c, u32 m, u32 n, u32 k) {
    constexpr u32 part_bytes = columns / box * box_bytes;
    const Task task = {m, n, k};
    SHARED_BYTES(raw);
    u8* const ring = raw + (0 - shared_address(raw)) % swizzle_bytes;
    u8* const results = ring + stages * stage_bytes;
    Barriers& barriers = *reinterpret_cast<Barriers*>(results + parts * part_bytes);
    if (threadIdx.x == 0) {
        map_ahead(a);
        map_ahead(b);
        map_ahead(c);
        for (u32 s = 0; s < stages; ++s) {
            barrier_init(&barriers.full[s], 1);
            barrier_init(&barriers.empty[s], parts * warpgroup / 32);
        }
        barriers_made();
    }
    __syncthreads();
    // The same for all lanes of a warp, and the compiler must know: otherwise it multiplies one step after the other.
    const u32 role = __shfl_sync(WHOLE_WARP, threadIdx.x / warpgroup, 0);
    if (role == 0) {
        registers_down<24>();
        if (threadIdx.x == 0) copies<TRANSPOSED>(a, b, task, ring, barriers);
    } else {
        registers_up<240>();
        products<TRANSPOSED>(c, task, role - 1, results + (role - 1) * part_bytes, ring, barriers);
    }
}

extern "C" __launch_bounds__(384, 1) __global__ void matmul_hopper_transposed(PARAMETERS) { matmul<true>(a, b, c, m, n, k); }
extern "C" __launch_bounds__(384, 1) __global__ void matmul_hopper(PARAMETERS) { matmul<false>(a, b, c, m, n, k); }

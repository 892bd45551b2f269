// Kernels that are correct, or incorrect as `wrong` selects, to test that the race detector distinguishes them.

enum { right, no_barrier, shuffle_alone, no_release, no_acquire, late_acquire, never_written, too_far, same_word, before_arrival };

// Each thread reads what its neighbour in the next warp has written.
extern "C" __global__ void handed(u32* out, u32 wrong) {
    __shared__ u32 shared[64];
    const u32 k = threadIdx.x;
    shared[k] = k;
    if (wrong != no_barrier) __syncthreads();
    out[k] = shared[k ^ 32];
}

// The same in a warp, where a shuffle synchronises lanes but orders nothing.
extern "C" __global__ void handed_in_warp(u32* out, u32 wrong) {
    __shared__ u32 shared[32];
    const u32 k = threadIdx.x;
    shared[k] = k;
    if (wrong == shuffle_alone) {
        __shfl_xor_sync(WHOLE_WARP, k, 1);
    } else {
        __syncwarp();
    }
    out[k] = shared[k ^ 1];
}

// The last block adds up what all blocks have written.
extern "C" __global__ void last_block(u32* out, u32* parts, u32* come, u32 wrong) {
    __shared__ u32 before;
    const u32 k = threadIdx.x;
    if (k == 0) {
        parts[blockIdx.x] = blockIdx.x + 1;
        if (wrong != no_release) __threadfence();
        before = atomicInc(come, gridDim.x - 1);
        if (wrong != no_acquire && wrong != late_acquire) __threadfence();
    }
    __syncthreads();
    if (before + 1 != gridDim.x) return;
    if (wrong == late_acquire) __threadfence();
    u32 sum = 0;
    for (u32 block = 0; block < gridDim.x; ++block) sum += parts[block];
    out[k] = sum;
}

// Blocks count in one word, or write it; reads may be out of bounds, or of uninitialised memory.
extern "C" __global__ void counted(u32* out, u32* count, u32 n, u32 wrong) {
    __shared__ u32 shared[2];
    const u32 k = threadIdx.x;
    if (k == 0) {
        shared[0] = 1;
        if (wrong == same_word) *count += shared[0];
        else atomicAdd(count, shared[0]);
    }
    __syncthreads();
    const u32 at = blockIdx.x * blockDim.x + k;
    if (wrong == never_written) out[at] = shared[1];
    else out[at] = shared[0] + (wrong == too_far && at + 1 == n ? out[at + 1] : 0);
}

// One warp writes and arrives at a named barrier, the other waits there and reads.
extern "C" __global__ void parted(u32* out, u32 wrong) {
    __shared__ u32 shared[32];
    const u32 k = threadIdx.x;
    if (k < 32) {
        if (wrong == before_arrival) part_arrive(1, 64);
        shared[k] = k;
        if (wrong != before_arrival) part_arrive(1, 64);
    } else {
        part_wait(1, 64);
        out[k - 32] = shared[k - 32];
    }
}

enum { not_waited_for_copy = 20, overwritten, arrived_early };

// A tile of 64 x 64 by the copy engine, read by two warps, which then release its memory for the next one.
extern "C" __global__ void refilled(const __grid_constant__ TensorMap map, u32* out, u32 wrong) {
    SHARED_BYTES(raw);
    u8* const tile = raw + (0 - shared_address(raw)) % swizzle_bytes;
    u64* const full = reinterpret_cast<u64*>(tile + 64 * tile_row_bytes);
    u64* const empty = full + 1;
    const u32 k = threadIdx.x;
    if (k == 0) {
        barrier_init(full, 1);
        barrier_init(empty, 2);
        barriers_made();
    }
    __syncthreads();
    if (k >= 64) {
        for (u32 z = 0; z < 2 && k == 64; ++z) {
            if (z > 0) barrier_wait(wrong == overwritten ? full : empty, 0);
            barrier_arrive_expect(full, 64 * tile_row_bytes);
            tile_copy(tile, map, full, 0, 0, z);
        }
        return;
    }
    for (u32 z = 0; z < 2; ++z) {
        if (wrong != not_waited_for_copy) barrier_wait(full, z);
        if (wrong == arrived_early && k % 32 == 0) barrier_arrive(empty);
        const u32 first = *reinterpret_cast<const u32*>(tile + k * tile_row_bytes);
        __syncwarp();
        if (wrong != arrived_early && k % 32 == 0) barrier_arrive(empty);
        out[64 * z + k] = first;
    }
}

// Sums n bytes of an array, possibly one too many.
extern "C" __global__ void one_more(u32* out, const u8* bytes, u32 n) {
    u32 sum = 0;
    for (u32 k = 0; k < n; ++k) sum += bytes[k];
    out[0] = sum;
}

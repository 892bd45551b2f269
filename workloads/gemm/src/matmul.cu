// Matrix products in bf16 on tensor cores, with f32 sums: C = A B, B as [k, n] or transposed as [n, k].
//
// A block of four warps computes a tile of C in registers, a quarter per warp. Steps of 32 of the sum pass through a
// ring of four in shared memory: while one is multiplied, the next three are loaded. Values outside an array count
// as 0. Chunks of 16 bytes in shared memory are swizzled, so that neither copies nor matrix loads have bank conflicts.

enum { depth = 32, stages = 4, threads = 128 };
// Arrays whose rows are aligned to 16 bytes.
enum { wide_a = 1, wide_b = 2, wide_c = 4 };

// The first row and column of this block's tile. Blocks that run at the same time cover roughly a square of C, so that
// they share rows of A and columns of B, and each is read from memory once.
template <int TILE> __device__ __forceinline__ void place(u32 m, u32 n, u32& top, u32& left) {
    constexpr u32 together = 2048 / TILE;
    const u32 down = (m + TILE - 1) / TILE, across = (n + TILE - 1) / TILE;
    const u32 band = blockIdx.x / (together * across), first = band * together, rows = min(down - first, together);
    const u32 within = blockIdx.x - first * across;
    top = (first + within % rows) * TILE;
    left = within / rows * TILE;
}

// Offset of 8 values in a line of 32, in a tile of such lines.
__device__ __forceinline__ u32 in_lines(u32 line, u32 piece) { return line * depth + (piece ^ line / 2) % 4 * 8; }

// The same for lines of TILE values.
template <int TILE> __device__ __forceinline__ u32 in_wide_lines(u32 line, u32 piece) { return line * TILE + (piece ^ line % 8) * 8; }

// Copies 8 values of a line of `length` values, starting at `e`; WIDE if one 16-byte copy is allowed.
template <bool WIDE> __device__ __forceinline__ void eight(u16* to, const u16* array, const u16* line, bool there, u32 e, u32 length) {
    if (WIDE) {
        const bool whole = there && e < length;
        copy_async(to, whole ? line + e : array, whole ? 16 : 0);
    } else {
#pragma unroll
        for (u32 i = 0; i < 8; ++i) to[i] = there && e + i < length ? line[e + i] : static_cast<u16>(0);
    }
}

// Copies 32 values, starting at `start`, of each of TILE lines, starting at `first`.
template <int TILE, bool WIDE> __device__ __forceinline__ void lines_to(u16* to, const u16* from, u32 first, u32 end, u32 start, u32 length) {
#pragma unroll
    for (u32 i = 0; i < TILE * (depth / 8) / threads; ++i) {
        const u32 line = threadIdx.x / 4 + i * (threads / 4), piece = threadIdx.x % 4;
        const bool there = first + line < end;
        eight<WIDE>(to + in_lines(line, piece), from, from + static_cast<u64>(there ? first + line : 0) * length, there, start + piece * 8, length);
    }
}

// Copies TILE values, starting at `start`, of each of 32 lines, starting at `first`.
template <int TILE, bool WIDE> __device__ __forceinline__ void wide_lines_to(u16* to, const u16* from, u32 first, u32 end, u32 start, u32 length) {
    constexpr u32 pieces = TILE / 8;
#pragma unroll
    for (u32 i = 0; i < depth * pieces / threads; ++i) {
        const u32 line = threadIdx.x / pieces + i * (threads / pieces), piece = threadIdx.x % pieces;
        const bool there = first + line < end;
        eight<WIDE>(to + in_wide_lines<TILE>(line, piece), from, from + static_cast<u64>(there ? first + line : 0) * length, there, start + piece * 8, length);
    }
}

// Adds a step of 32 to a warp's quarter, which starts at these rows and columns of the tile.
template <int TILE, bool TRANSPOSED>
__device__ __forceinline__ void multiply(float (&sums)[TILE / 32][TILE / 16][4], const u16* a, const u16* b, u32 row, u32 column) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 s = 0; s < depth / 16; ++s) {
        u32 left[TILE / 32][4];
#pragma unroll
        for (u32 i = 0; i < TILE / 32; ++i) load_matrices(left[i], a + in_lines(row + i * 16 + lane % 16, s * 2 + lane / 16));
#pragma unroll
        for (u32 j = 0; j < TILE / 16; j += 2) {
            u32 right[4];
            if (TRANSPOSED) {
                load_matrices(right, b + in_lines(column + j * 8 + lane / 16 * 8 + lane % 8, s * 2 + lane / 8 % 2));
            } else {
                load_matrices_transposed(right, b + in_wide_lines<TILE>(s * 16 + lane % 16, column / 8 + j + lane / 16));
            }
#pragma unroll
            for (u32 i = 0; i < TILE / 32; ++i) {
                mma_bf16(sums[i][j], left[i], right[0], right[1]);
                mma_bf16(sums[i][j + 1], left[i], right[2], right[3]);
            }
        }
    }
}

#define PARAMETERS const u16 *a, const u16 *b, u16 *c, u32 m, u32 n, u32 k, u32 wide

// The sums of a block's tile; WIDE if rows of A and B are aligned to 16 bytes.
template <int TILE, bool TRANSPOSED, bool WIDE>
__device__ __forceinline__ void add_up(float (&sums)[TILE / 32][TILE / 16][4], u16* left, u16* right, const u16* a, const u16* b, u32 m, u32 n, u32 k, u32 top, u32 first) {
    constexpr u32 stage = TILE * depth, half = TILE / 2;
    const u32 warp = threadIdx.x / 32, row = warp / 2 * half, column = warp % 2 * half, steps = (k + depth - 1) / depth;
    auto fetch = [&](u32 step) {
        if (step < steps) {
            const u32 to = step % stages * stage;
            lines_to<TILE, WIDE>(left + to, a, top, m, step * depth, k);
            if (TRANSPOSED) {
                lines_to<TILE, WIDE>(right + to, b, first, n, step * depth, k);
            } else {
                wide_lines_to<TILE, WIDE>(right + to, b, step * depth, k, first, n);
            }
        }
        // One group per step, even if it is empty, so that the oldest of three is the next step.
        copy_commit();
    };
#pragma unroll 1
    for (u32 step = 0; step < stages - 1; ++step) fetch(step);
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step) {
        copy_wait<stages - 2>();
        // After it, all copies of this step have arrived and all warps have used the previous step, whose slot is next.
        __syncthreads();
        fetch(step + stages - 1);
        multiply<TILE, TRANSPOSED>(sums, left + step % stages * stage, right + step % stages * stage, row, column);
    }
}

template <int TILE, bool TRANSPOSED> __device__ __forceinline__ void matmul(PARAMETERS) {
    SHARED_BYTES(shared);
    u16* const left = reinterpret_cast<u16*>(shared);
    u16* const right = left + stages * TILE * depth;
    u32 top, first;
    place<TILE>(m, n, top, first);
    float sums[TILE / 32][TILE / 16][4];
#pragma unroll
    for (u32 i = 0; i < TILE / 32; ++i)
#pragma unroll
        for (u32 j = 0; j < TILE / 16; ++j)
#pragma unroll
            for (u32 e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
    if ((wide & wide_a) && (wide & wide_b)) {
        add_up<TILE, TRANSPOSED, true>(sums, left, right, a, b, m, n, k, top, first);
    } else {
        add_up<TILE, TRANSPOSED, false>(sums, left, right, a, b, m, n, k, top, first);
    }
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp / 2 * (TILE / 2), column = warp % 2 * (TILE / 2);
    // All copies and reads are complete. Rows of C pass through shared memory so that whole rows are written.
    constexpr u32 pitch = TILE + 8, pieces = TILE / 8;
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < TILE / 32; ++i)
#pragma unroll
        for (u32 j = 0; j < TILE / 16; ++j)
#pragma unroll
            for (u32 h = 0; h < 2; ++h) {
                u16* const to = left + (row + i * 16 + h * 8 + lane / 4) * pitch + column + j * 8 + lane % 4 * 2;
                *reinterpret_cast<u32*>(to) = two_bf16(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
            }
    __syncthreads();
    for (u32 piece = threadIdx.x; piece < TILE * pieces; piece += threads) {
        const u32 line = piece / pieces, e = piece % pieces * 8;
        if (top + line >= m) break;
        const u16* const from = left + line * pitch + e;
        u16* const to = c + static_cast<u64>(top + line) * n + first + e;
        if (wide & wide_c) {
            if (first + e < n) *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
        } else {
#pragma unroll
            for (u32 i = 0; i < 8; ++i)
                if (first + e + i < n) to[i] = from[i];
        }
    }
}

#define ARGUMENTS a, b, c, m, n, k, wide

extern "C" __launch_bounds__(128, 2) __global__ void matmul_128_transposed(PARAMETERS) { matmul<128, true>(ARGUMENTS); }
extern "C" __launch_bounds__(128, 2) __global__ void matmul_128(PARAMETERS) { matmul<128, false>(ARGUMENTS); }
extern "C" __launch_bounds__(128, 3) __global__ void matmul_64_transposed(PARAMETERS) { matmul<64, true>(ARGUMENTS); }
extern "C" __launch_bounds__(128, 3) __global__ void matmul_64(PARAMETERS) { matmul<64, false>(ARGUMENTS); }

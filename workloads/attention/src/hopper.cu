// The attention core in bf16 for Hopper (J. Shah et al., FlashAttention-3, 2024), with f32 sums.
//
// A persistent block takes one piece of work after another: 128 queries of a head. Of its three warpgroups, one issues
// copies of queries and of tiles of 128 keys and 128 values, which pass through a ring in shared memory, and releases
// its registers; the other two take 64 queries each. These two alternate on the tensor cores (ping-pong): while one
// computes weights, the other multiplies. Within a warpgroup the product with the next keys starts before the one with
// this tile's values, so that weights are computed while values are summed; the next keys may belong to the next piece
// of work, so that the units never idle between two. Scores, weights and sums stay in registers. Heads have 64 or 128
// values; arrays are [batch, heads, sequence, head].
//
// Rows that see no key, and scores that are NaN or infinite, are handled as in `bf16.cu`.

enum { tile = 128, slots = 5, part_queries = 64, parts = 2, warpgroup = 128 };
// Named barriers: the turn of each part, and what each part has written.
enum { turn = 1, written = 3 };

struct Task {
    const i64* lengths;
    u32 n, heads, group, sees, works;
};

__device__ __forceinline__ u32 seen(const Task& task, u32 sequence, u32 row) {
    return seen(task.sees, task.lengths, sequence, row, task.n);
}

// Queries of a head, starting at `first`, with a number of key tiles; heads are numbered over all sequences.
struct Work {
    u32 first, head, sequence, tiles;
};

__device__ __forceinline__ u32 keys_head(const Task& task, const Work& work) {
    return work.sequence * (task.heads / task.group) + work.head % task.heads / task.group;
}

// The block's work in this round, if any: every other round assigns work in reverse order of blocks. Under a causal
// mask the last queries of all heads, which see the most keys, come first; otherwise the queries of a head stay
// together.
__device__ __forceinline__ bool take(const Task& task, u32 round, Work& work) {
    const u32 at = round * gridDim.x + (round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    if (at >= task.works) return false;
    const u32 rows = (task.n + tile - 1) / tile, heads = task.works / rows;
    const bool longest = task.sees == sees_causal;
    const u32 over = longest ? heads : rows, quotient = at / over, rest = at - quotient * over;
    work.first = (longest ? rows - 1 - quotient : rest) * tile;
    work.head = longest ? rest : quotient;
    work.sequence = work.head / task.heads;
    // If no key is visible, one tile is masked completely.
    const u32 end = seen(task, work.sequence, min(work.first + tile, task.n) - 1);
    work.tiles = max((end + tile - 1) / tile, 1u);
    return true;
}

// Barriers of a block: `full` completes when the bytes have arrived, `empty` when each warp that used them has arrived.
struct Barriers {
    u64 queries_full[parts], queries_empty[parts], full[slots], empty[slots];
};

// Two rows of a thread: the largest score so far (or one not much smaller), the sum of the weights that this thread has
// computed, and the number of visible keys; every row of the warpgroup sees the first `clear` keys.
struct Rows {
    float top[2], total[2];
    u32 visible[2], clear;
};

__device__ __forceinline__ Rows rows_of(const Task& task, const Work& work, u32 part) {
    const u32 mine = work.first + part * part_queries, own = mine + threadIdx.x % warpgroup / 32 * 16 + threadIdx.x % 32 / 4;
    const u32 visible[2] = {seen(task, work.sequence, own), seen(task, work.sequence, own + 8)};
    return {{-INFINITE, -INFINITE}, {0.0f, 0.0f}, {visible[0], visible[1]}, seen(task, work.sequence, mine)};
}

// Masks the scores of invisible keys; `start` is the key of column 0 of this thread.
__device__ __forceinline__ void hide(float (&s)[64], const Rows& rows, u32 start) {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        const i32 left = static_cast<i32>(rows.visible[i] - start);
#pragma unroll
        for (i32 j = 0; j < 16; ++j)
#pragma unroll
            for (i32 c = 0; c < 2; ++c)
                if (8 * j + c >= left) s[4 * j + 2 * i + c] = -INFINITE;
    }
}

// Converts scores to weights. True if the sums so far must be multiplied by `factor`: a new maximum is taken only if it
// has grown by more than `slack`; until then weights may exceed 1, and the sum that they are divided by includes the
// same factor.
__device__ __forceinline__ bool weigh(float (&s)[64], Rows& rows, float (&factor)[2], float scale, float slack) {
    float shift[2];
    bool grown[2];
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        // NaN is never the maximum here; it shows in the sum.
        float even = fmaxf(s[2 * i], s[2 * i + 1]), odd = fmaxf(s[4 + 2 * i], s[5 + 2 * i]);
#pragma unroll
        for (u32 j = 2; j < 16; j += 2) {
            even = fmaxf(fmaxf(even, s[4 * j + 2 * i]), s[4 * j + 2 * i + 1]);
            odd = fmaxf(fmaxf(odd, s[4 * j + 4 + 2 * i]), s[4 * j + 5 + 2 * i]);
        }
        float most = fmaxf(even, odd);
#pragma unroll
        for (u32 by = 1; by < 4; by *= 2) most = fmaxf(most, __shfl_xor_sync(WHOLE_WARP, most, by));
        // `scale` includes log2 e: weights are powers of two.
        grown[i] = most > rows.top[i] + slack;
        factor[i] = grown[i] ? quick_power((rows.top[i] - most) * scale) : 1.0f;
        rows.top[i] = grown[i] ? most : rows.top[i];
        shift[i] = rows.top[i] == -INFINITE ? 0.0f : -rows.top[i] * scale;
    }
    const bool any = __any_sync(WHOLE_WARP, grown[0] || grown[1]);
    float part[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll
    for (u32 j = 0; j < 16; ++j)
#pragma unroll
        for (u32 i = 0; i < 2; ++i)
#pragma unroll
            for (u32 c = 0; c < 2; ++c) {
                float& score = s[4 * j + 2 * i + c];
                score = quick_power(fmaf(score, scale, shift[i]));
                part[i][c] += score;
            }
#pragma unroll
    for (u32 i = 0; i < 2; ++i) rows.total[i] = rows.total[i] * factor[i] + (part[i][0] + part[i][1]);
    return any;
}

// Scores of 64 queries and 128 keys.
template <int HEAD> __device__ __forceinline__ void multiply_keys(float (&scores)[64], u32 queries, u32 keys) {
#pragma unroll
    for (u32 e = 0; e < HEAD; e += 16) {
        const u32 box = e / 64 * tile_row_bytes, within = e % 64 * 2;
        product_shared(scores, matrix_at(queries, box * part_queries + within, 16, swizzle_bytes),
                       matrix_at(keys, box * tile + within, 16, swizzle_bytes), e > 0);
    }
}

// Weighted sums over 128 values.
template <int HEAD> __device__ __forceinline__ void multiply_values(float (&sums)[HEAD / 2], const u32 (&weights)[32], u32 values) {
#pragma unroll
    for (u32 j = 0; j < tile / 16; ++j)
        product_registers(sums, weights[4 * j], weights[4 * j + 1], weights[4 * j + 2], weights[4 * j + 3],
                          matrix_at(values, j * 16 * tile_row_bytes, tile * tile_row_bytes, swizzle_bytes));
}

// Writes the sums of 64 queries, divided by the sum of their weights, through shared memory.
template <int HEAD>
__device__ __forceinline__ void write(float (&sums)[HEAD / 2], const float (&total)[2], u8* to, const TensorMap& out, const Task& task, const Work& work, u32 part) {
    const u32 thread = threadIdx.x % warpgroup, lane = thread % 32, mine = work.first + part * part_queries;
    float inverse[2];
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        float sum = total[i];
#pragma unroll
        for (u32 by = 1; by < 4; by *= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
        inverse[i] = sum == 0.0f ? 0.0f : 1.0f / sum;
    }
    // Waits until the previous contents have been read.
    if (thread == 0) stores_read<0>();
    part_wait(written + part, warpgroup);
    const u32 row = thread / 32 * 16 + lane % 16;
#pragma unroll
    for (u32 j = 0; j < HEAD / 16; ++j) {
        u32 four[4];
#pragma unroll
        for (u32 r = 0; r < 4; ++r) four[r] = two_bf16(sums[8 * j + 2 * r] * inverse[r % 2], sums[8 * j + 2 * r + 1] * inverse[r % 2]);
        const u32 piece = 2 * j + lane / 16;
        store_matrices(to + piece / 8 * part_queries * tile_row_bytes + row * tile_row_bytes + ((piece ^ row) % 8) * 16, four);
    }
    shared_written();
    part_wait(written + part, warpgroup);
    if (thread == 0 && mine < task.n) {
        for (u32 b = 0; b < HEAD / 64; ++b) tile_store(out, to + b * part_queries * tile_row_bytes, b * 64, mine, work.head);
        stores_commit();
    }
}

#define PARAMETERS                                                                                                         \
    const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,         \
        const __grid_constant__ TensorMap out, const i64 *lengths, u32 n, u32 heads, u32 group, u32 sees, u32 works, float scale

template <int HEAD> __device__ __forceinline__ void copies(const TensorMap& q, const TensorMap& k, const TensorMap& v, const Task& task, u8* queries, u8* ring, Barriers& barriers) {
    constexpr u32 tile_bytes = tile * HEAD * 2, part_bytes = part_queries * HEAD * 2;
    Slot<slots> slot = {0, 0};
    u32 parity = 0;
    // A slot that was never used counts as empty.
    auto one = [&](const TensorMap& map, u32 i, u32 head) {
        u64* const full = &barriers.full[slot.at];
        barrier_wait(&barriers.empty[slot.at], slot.parity ^ 1);
        barrier_arrive_expect(full, tile_bytes);
        for (u32 b = 0; b < HEAD / 64; ++b)
            tile_copy(ring + slot.at * tile_bytes + b * tile * tile_row_bytes, map, full, b * 64, i * tile, head);
        slot.step();
    };
    auto both = [&](const Work& work) {
        for (u32 part = 0; part < parts; ++part) {
            u64* const full = &barriers.queries_full[part];
            barrier_wait(&barriers.queries_empty[part], parity ^ 1);
            barrier_arrive_expect(full, part_bytes);
            for (u32 b = 0; b < HEAD / 64; ++b)
                tile_copy(queries + part * part_bytes + b * part_queries * tile_row_bytes, q, full, b * 64, work.first + part * part_queries, work.head);
        }
        parity ^= 1;
    };
    Work work;
    take(task, 0, work);
    both(work);
    one(k, 0, keys_head(task, work));
    for (u32 round = 0, i = 0;;) {
        Work next = work;
        const u32 j = i + 1 == work.tiles ? 0 : i + 1;
        if (j == 0 && !take(task, ++round, next)) return one(v, i, keys_head(task, work));
        one(k, j, keys_head(task, next));
        one(v, i, keys_head(task, work));
        if (j == 0) both(next);
        work = next;
        i = j;
    }
}

template <int HEAD> __device__ __forceinline__ void products(const TensorMap& out, const Task& task, float scale, u32 part, u8* queries, u8* results, u8* ring, Barriers& barriers) {
    constexpr u32 tile_bytes = tile * HEAD * 2, part_bytes = part_queries * HEAD * 2;
    const u32 lane = threadIdx.x % 32, column = lane % 4 * 2;
    const u32 my_queries = shared_address(queries) + part * part_bytes, tiles = shared_address(ring);
    // Weights are at most 2^8.
    const float slack = 8.0f / scale;
    float sums[HEAD / 2], scores[64], factor[2];
    u32 weights[32];
#pragma unroll
    for (u32 e = 0; e < HEAD / 2; ++e) sums[e] = 0.0f;
    Slot<slots> slot = {0, 0};
    u32 parity = 0, round = 0;
    Work work;
    take(task, 0, work);
    Rows rows = rows_of(task, work, part);
    // The other part starts.
    if (part == 1) part_arrive(turn, parts * warpgroup);
    barrier_wait(&barriers.queries_full[part], 0);
    barrier_wait(&barriers.full[0], 0);
    products_begin();
    multiply_keys<HEAD>(scores, my_queries, tiles);
    products_commit();
    products_wait<0>(scores);
    if (lane == 0) {
        barrier_arrive(&barriers.empty[0]);
        if (work.tiles == 1) barrier_arrive(&barriers.queries_empty[part]);
    }
    slot.step();
    if (tile > rows.clear) hide(scores, rows, column);
    weigh(scores, rows, factor, scale, slack);
#pragma unroll
    for (u32 j = 0; j < 32; ++j) weights[j] = two_bf16(scores[2 * j], scores[2 * j + 1]);
    for (u32 i = 0;;) {
        // The tile after this one, of this piece of work or of the next.
        Work next = work;
        const u32 j = i + 1 == work.tiles ? 0 : i + 1;
        const float total[2] = {rows.total[0], rows.total[1]};
        if (j == 0) {
            if (!take(task, ++round, next)) break;
            rows = rows_of(task, next, part);
            parity ^= 1;
            barrier_wait(&barriers.queries_full[part], parity);
        }
        const Slot<slots> keys = slot;
        slot.step();
        const Slot<slots> values = slot;
        slot.step();
        barrier_wait(&barriers.full[keys.at], keys.parity);
        part_wait(turn + part, parts * warpgroup);
        products_begin();
        multiply_keys<HEAD>(scores, my_queries, tiles + keys.at * tile_bytes);
        products_commit();
        barrier_wait(&barriers.full[values.at], values.parity);
        products_begin();
        multiply_values<HEAD>(sums, weights, tiles + values.at * tile_bytes);
        products_commit();
        part_arrive(turn + (part ^ 1), parts * warpgroup);
        products_wait<1>(scores);
        if (lane == 0) {
            barrier_arrive(&barriers.empty[keys.at]);
            if (j + 1 == next.tiles) barrier_arrive(&barriers.queries_empty[part]);
        }
        if ((j + 1) * tile > rows.clear) hide(scores, rows, j * tile + column);
        const bool grown = weigh(scores, rows, factor, scale, slack);
        // Keeps the weights' computation before the wait, so that it overlaps with the sums over values.
        behind(fminf(rows.total[0], rows.total[1]) < 0.0f);
        products_wait<0>(sums);
        if (lane == 0) barrier_arrive(&barriers.empty[values.at]);
        hold(scores);
        if (j == 0) {
            write<HEAD>(sums, total, results + part * part_bytes, out, task, work, part);
#pragma unroll
            for (u32 e = 0; e < HEAD / 2; ++e) sums[e] = 0.0f;
        } else if (grown) {
#pragma unroll
            for (u32 e = 0; e < HEAD / 2; ++e) sums[e] *= factor[e / 2 % 2];
        }
#pragma unroll
        for (u32 e = 0; e < 32; ++e) weights[e] = two_bf16(scores[2 * e], scores[2 * e + 1]);
        work = next;
        i = j;
    }
    barrier_wait(&barriers.full[slot.at], slot.parity);
    products_begin();
    multiply_values<HEAD>(sums, weights, tiles + slot.at * tile_bytes);
    products_commit();
    products_wait<0>(sums);
    write<HEAD>(sums, rows.total, results + part * part_bytes, out, task, work, part);
    // The other part has returned the turn once more. Shared memory must stay valid while it is read.
    if (part == 0) part_wait(turn, parts * warpgroup);
    if (threadIdx.x % warpgroup == 0) stores_read<0>();
}

template <int HEAD>
__device__ __forceinline__ void fused(const TensorMap& q, const TensorMap& k, const TensorMap& v, const TensorMap& out, const i64* lengths, u32 n, u32 heads, u32 group, u32 sees, u32 works, float scale) {
    constexpr u32 part_bytes = part_queries * HEAD * 2;
    const Task task = {lengths, n, heads, group, sees, works};
    SHARED_BYTES(raw);
    u8* const queries = raw + (0 - shared_address(raw)) % swizzle_bytes;
    u8* const results = queries + parts * part_bytes;
    u8* const ring = results + parts * part_bytes;
    Barriers& barriers = *reinterpret_cast<Barriers*>(ring + slots * tile * HEAD * 2);
    if (threadIdx.x == 0) {
        map_ahead(q);
        map_ahead(k);
        map_ahead(v);
        map_ahead(out);
        for (u32 part = 0; part < parts; ++part) {
            barrier_init(&barriers.queries_full[part], 1);
            barrier_init(&barriers.queries_empty[part], warpgroup / 32);
        }
        for (u32 s = 0; s < slots; ++s) {
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
        if (threadIdx.x == 0) copies<HEAD>(q, k, v, task, queries, ring, barriers);
    } else {
        registers_up<240>();
        products<HEAD>(out, task, scale, role - 1, queries, results, ring, barriers);
    }
}

#define ARGUMENTS q, k, v, out, lengths, n, heads, group, sees, works, scale

extern "C" __launch_bounds__(384, 1) __global__ void attention_hopper_64(PARAMETERS) { fused<64>(ARGUMENTS); }
extern "C" __launch_bounds__(384, 1) __global__ void attention_hopper_128(PARAMETERS) { fused<128>(ARGUMENTS); }

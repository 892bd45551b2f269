// The nested-lattice quantizer on a GPU: the rules of `scalar.rs`, one vector a thread, and the same bits.
//
// The input is scaled with one multiplication and one addition, each rounded on its own (__fmul_rn and __fadd_rn are never
// fused); from there on everything is integer arithmetic. 32 vectors take up a whole number of 32-bit words of packed code,
// whatever their bits, so that a warp packs and unpacks its vectors in shared memory and nobody else touches its words.

// A vector's code (as many as 162 bits: E8, q = 100, three levels) is put together and taken apart through the words of its warp.
struct Code {
    u32 levels, level_bits, q, pow2;
};

__device__ __forceinline__ i32 round_even(float v) {
    const float big = 8388608.0f;
    const float size = fabsf(v);
    const u32 bits = __float_as_uint(size);
    const u32 small = __float_as_uint(__fadd_rn(size, big)) - 0x4b000000u;
    const u32 large = bits - 0x4b000000u + (1u << 23);
    const i32 whole = static_cast<i32>(size < big ? small : large);
    const i32 sign = __float_as_int(v) >> 31;
    return (whole ^ sign) - sign;
}

// t = n + u / 2^25 with u in [-2^24, 2^24).
__device__ __forceinline__ void split(float t, i32& n, i32& u) {
    const float magic = 12582912.0f;
    const float lifted = __fadd_rn(t, magic);
    n = __float_as_int(lifted) - __float_as_int(magic);
    const float e = __fsub_rn(t, __fsub_rn(lifted, magic));
    u = round_even(__fmul_rn(e, 33554432.0f));
    const i32 up = (u >> 24) & ~(u >> 31);
    n += up;
    u -= up << 25;
}

__device__ __forceinline__ i32 floor_div(i32 a, i32 b) {
    const i32 k = a / b;
    return k - (a % b < 0 ? 1 : 0);
}

template <int D> struct Lattice;

// The square lattice.
template <> struct Lattice<2> {
    static constexpr i32 scale = 1;
    static __device__ __forceinline__ void settle(i32 (&)[2], i32 (&)[2], i32) {}
    static __device__ __forceinline__ void coordinates(const i32 (&y)[2], i32 (&z)[2]) {
        z[0] = y[0];
        z[1] = y[1];
    }
    static __device__ __forceinline__ void combine(const i32 (&b)[2], i32 (&g)[2]) {
        g[0] = b[0];
        g[1] = b[1];
    }
};

// Four integers of even sum.
template <> struct Lattice<4> {
    static constexpr i32 scale = 1;
    static __device__ __forceinline__ void settle(i32 (&f)[4], i32 (&r)[4], i32 unit) {
        i32 largest = 0;
#pragma unroll
        for (int k = 0; k < 4; ++k) largest = max(largest, abs(r[k]) << 2 | (3 - k));
        const i32 odd = (f[0] + f[1] + f[2] + f[3]) & 1;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const i32 sign = r[k] >= 0 ? 1 : -1;
            const i32 step = (abs(r[k]) << 2 | (3 - k)) == largest ? sign * odd : 0;
            f[k] += step;
            r[k] -= step * unit;
        }
    }
    static __device__ __forceinline__ void coordinates(const i32 (&y)[4], i32 (&z)[4]) {
        const i32 tail = y[1] + y[2] + y[3];
        z[0] = (-y[0] - tail) >> 1;
        z[1] = (y[0] - tail) >> 1;
        z[2] = -y[2] - y[3];
        z[3] = -y[3];
    }
    static __device__ __forceinline__ void combine(const i32 (&b)[4], i32 (&g)[4]) {
        g[0] = b[1] - b[0];
        g[1] = b[2] - b[0] - b[1];
        g[2] = b[3] - b[2];
        g[3] = -b[3];
    }
};

// E8, doubled.
template <> struct Lattice<8> {
    static constexpr i32 scale = 2;
    static __device__ __forceinline__ void settle(i32 (&f)[8], i32 (&r)[8], i32 unit) {
        i32 sum = 0, negative = 0, total = 0, largest = 0, smallest = 0x7fffffff;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const i32 size = abs(r[k]);
            sum += f[k];
            negative += r[k] < 0;
            total += size;
            largest = max(largest, size << 3 | (7 - k));
            smallest = min(smallest, size << 3 | k);
        }
        const bool odd_whole = sum & 1, odd_half = (sum - negative) & 1;
        const i32 at_largest = 7 - (largest & 7), at_smallest = smallest & 7;
        const i32 whole_cost = odd_whole ? unit - 2 * (largest >> 3) : 0;
        const i32 half_cost = odd_half ? 2 * (smallest >> 3) : 0;
        const i32 difference = total - 2 * unit + whole_cost - half_cost;
        const i32 first = r[0] >= 0 ? 1 : -1;
        const i32 first_half = odd_half && at_smallest == 0 ? -1 : 1;
        const i32 first_whole = odd_whole && at_largest == 0 ? 2 : 0;
        const bool take_half = difference > 0 || (difference == 0 && first * first_half < first * first_whole);
        const i32 plain = take_half ? 1 : 0, turned = take_half ? -1 : 2;
        const i32 flipped = take_half ? (odd_half ? at_smallest : -1) : (odd_whole ? at_largest : -1);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const i32 step = (r[k] >= 0 ? 1 : -1) * (k == flipped ? turned : plain);
            f[k] = 2 * f[k] + step;
            r[k] -= step * (unit >> 1);
        }
    }
    static __device__ __forceinline__ void coordinates(const i32 (&y)[8], i32 (&z)[8]) {
        i32 tail = 0;
#pragma unroll
        for (int i = 6; i > 0; --i) {
            tail += y[i];
            z[i] = (tail - (7 - i) * y[7]) >> 1;
        }
        z[0] = (tail + y[0] - 7 * y[7]) >> 2;
        z[7] = y[7];
    }
    static __device__ __forceinline__ void combine(const i32 (&b)[8], i32 (&g)[8]) {
#pragma unroll
        for (int k = 0; k < 8; ++k) g[k] = b[7];
        g[0] += 4 * b[0] - 2 * b[1];
#pragma unroll
        for (int k = 1; k < 6; ++k) g[k] += 2 * (b[k] - b[k + 1]);
        g[6] += 2 * b[6];
    }
};

// Q(g / q): leaves the coarser point in g and g - q Q(g / q) in y.
template <int D> __device__ __forceinline__ void descend(i32 (&g)[D], i32 (&y)[D], const Code& code) {
    const i32 unit = static_cast<i32>(code.q) * Lattice<D>::scale;
    const i32 shift = 31 - __clz(unit);
#pragma unroll
    for (int k = 0; k < D; ++k) {
        const i32 moved = g[k] + (unit >> 1);
        const i32 coarse = code.pow2 ? moved >> shift : floor_div(moved, unit);
        y[k] = g[k] - coarse * unit;
        g[k] = coarse;
    }
    Lattice<D>::settle(g, y, unit);
}

// The words of this warp, which hold the codes of its 32 vectors.
__device__ __forceinline__ u32* words_of_warp(u8* shared, u32 vector_bits) {
    return reinterpret_cast<u32*>(shared) + threadIdx.x / 32 * vector_bits;
}

__device__ __forceinline__ void put(u32* words, u32 bit, u64 value, u32 bits) {
    while (bits > 0) {
        const u32 room = 32 - bit % 32, some = min(room, bits);
        const u32 part = static_cast<u32>(value) & (some == 32 ? 0xffffffffu : (1u << some) - 1);
        // Two vectors may share a word.
        atomicOr(&words[bit / 32], part << (bit % 32));
        value >>= some;
        bit += some;
        bits -= some;
    }
}

__device__ __forceinline__ u64 get(const u32* words, u64 bit, u32 bits) {
    u64 value = 0;
    for (u32 done = 0; done < bits;) {
        const u32 at = static_cast<u32>(bit % 32), some = min(32 - at, bits - done);
        const u32 part = words[bit / 32] >> at & (some == 32 ? 0xffffffffu : (1u << some) - 1);
        value |= static_cast<u64>(part) << done;
        bit += some;
        done += some;
    }
    return value;
}

template <int D> __device__ __forceinline__ void load_vector(const float* x, u64 vector, float (&to)[D]) {
    if (D == 2) {
        const float2 v = reinterpret_cast<const float2*>(x)[vector];
        to[0] = v.x;
        to[1] = v.y;
    } else {
#pragma unroll
        for (int k = 0; k < D / 4; ++k) {
            const float4 v = reinterpret_cast<const float4*>(x)[vector * (D / 4) + k];
            to[(4 * k) % D] = v.x;
            to[(4 * k + 1) % D] = v.y;
            to[(4 * k + 2) % D] = v.z;
            to[(4 * k + 3) % D] = v.w;
        }
    }
}

template <int D> __device__ __forceinline__ void store_vector(float* x, u64 vector, const float (&from)[D]) {
    if (D == 2) {
        reinterpret_cast<float2*>(x)[vector] = make_float2(from[0], from[1]);
    } else {
#pragma unroll
        for (int k = 0; k < D / 4; ++k)
            reinterpret_cast<float4*>(x)[vector * (D / 4) + k] =
                make_float4(from[(4 * k) % D], from[(4 * k + 1) % D], from[(4 * k + 2) % D], from[(4 * k + 3) % D]);
    }
}

// `constants`: the shift of each coordinate (8 values), then the inverse scales of retries 0 to cap. `overload` and `retries`
// are null where the code has none.
template <int D>
__device__ __forceinline__ void encode(u8* shared, const float* x, u32* packed, u8* overload, u8* retries, const float* constants, u64 n, const Code code, u32 cap) {
    const u32 vector_bits = code.levels * code.level_bits, lane = threadIdx.x % 32;
    const u64 vector = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    u32* words = words_of_warp(shared, vector_bits);
    for (u32 k = lane; k < vector_bits; k += 32) words[k] = 0;
    __syncwarp();
    if (vector < n) {
        const float limit = 4194304.0f;
        const u32 log_q = 31 - __clz(static_cast<i32>(code.q));
        float v[D];
        load_vector<D>(x, vector, v);
        u32 t = 0;
        i32 g[D], finest[D], y[D], z[D];
        bool outside;
        for (;;) {
#pragma unroll
            for (int k = 0; k < D; ++k) {
                float scaled = __fadd_rn(__fmul_rn(v[k], constants[8 + t]), constants[k]);
                // NaN goes to the lower limit.
                scaled = scaled > -limit ? scaled : -limit;
                scaled = scaled < limit ? scaled : limit;
                split(scaled, g[k], y[k]);
            }
            Lattice<D>::settle(g, y, 1 << 25);
#pragma unroll
            for (int k = 0; k < D; ++k) finest[k] = g[k];
            if (cap == 0) break;
            for (u32 m = 0; m < code.levels; ++m) descend<D>(g, y, code);
            outside = false;
#pragma unroll
            for (int k = 0; k < D; ++k) outside = outside || g[k] != 0;
            if (!outside || t == cap) break;
            ++t;
        }
#pragma unroll
        for (int k = 0; k < D; ++k) g[k] = finest[k];
        for (u32 m = 0; m < code.levels; ++m) {
            descend<D>(g, y, code);
            Lattice<D>::coordinates(y, z);
            u64 index = 0;
#pragma unroll
            for (int k = 0; k < D; ++k) {
                if (code.pow2) {
                    index = index << log_q | static_cast<u32>(z[k] & static_cast<i32>(code.q - 1));
                } else {
                    const i32 rest = z[k] % static_cast<i32>(code.q);
                    index = index * code.q + static_cast<u32>(rest < 0 ? rest + static_cast<i32>(code.q) : rest);
                }
            }
            put(words, lane * vector_bits + m * code.level_bits, index, code.level_bits);
        }
        outside = false;
#pragma unroll
        for (int k = 0; k < D; ++k) outside = outside || g[k] != 0;
        if (overload) overload[vector] = outside;
        if (retries) retries[vector] = static_cast<u8>(t);
    }
    __syncwarp();
    // The buffer has room for the words of a last warp that is not full.
    const u64 first = (vector - lane) / 32 * vector_bits;
    if (vector - lane < n)
        for (u32 k = lane; k < vector_bits; k += 32) packed[first + k] = words[k];
}

// The point of one level index, doubled for E8.
template <int D> __device__ __forceinline__ void index_point(u64 index, const Code& code, i32 (&y)[D]) {
    const u32 log_q = 31 - __clz(static_cast<i32>(code.q));
    i32 digits[D], g[D];
#pragma unroll
    for (int k = D - 1; k >= 0; --k) {
        if (code.pow2) {
            digits[k] = static_cast<i32>(index & (code.q - 1));
            index >>= log_q;
        } else {
            digits[k] = static_cast<i32>(index % code.q);
            index /= code.q;
        }
    }
    Lattice<D>::combine(digits, g);
    descend<D>(g, y, code);
}

// `table`: the points of one level by index, or null. `constants`: the shift (8 values), then the scales of retries 0 to cap.
// `bad` becomes the first vector with an index that is none.
template <int D>
__device__ __forceinline__ void decode(u8* shared, const u32* packed, const u8* retries, const float* constants, const float* table, float* x, u64* bad, u64 n, const Code code, u64 points) {
    const u32 vector_bits = code.levels * code.level_bits, lane = threadIdx.x % 32;
    const u64 vector = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    u32* words = words_of_warp(shared, vector_bits);
    const u64 first = (vector - lane) / 32 * vector_bits;
    if (vector - lane < n)
        for (u32 k = lane; k < vector_bits; k += 32) words[k] = packed[first + k];
    __syncwarp();
    if (vector >= n) return;
    // Sums of integers, or halves of them, far below 2^24: exact in any order.
    float sum[D];
#pragma unroll
    for (int k = 0; k < D; ++k) sum[k] = 0.0f;
    float weight = 1.0f;
    for (u32 m = 0; m < code.levels; ++m) {
        const u64 index = get(words, lane * vector_bits + m * code.level_bits, code.level_bits);
        // 0 stands for 2^64 points, of which every index is one.
        if (points != 0 && index >= points) {
            atomicMin(bad, vector);
            return;
        }
        float point[D];
        if (table) {
            load_vector<D>(table, index, point);
        } else {
            i32 y[D];
            index_point<D>(index, code, y);
#pragma unroll
            for (int k = 0; k < D; ++k) point[k] = static_cast<float>(y[k]) * (1.0f / Lattice<D>::scale);
        }
#pragma unroll
        for (int k = 0; k < D; ++k) sum[k] = __fadd_rn(sum[k], __fmul_rn(weight, point[k]));
        weight *= static_cast<float>(code.q);
    }
    const float scale = constants[8 + (retries ? retries[vector] : 0)];
#pragma unroll
    for (int k = 0; k < D; ++k) sum[k] = __fmul_rn(__fsub_rn(sum[k], constants[k]), scale);
    store_vector<D>(x, vector, sum);
}

// One row a warp: the integers of its blocks times those of the query. All sums are exact.
template <int D>
__device__ __forceinline__ void dot(const u32* packed, const i32* query, const float* table, float* scores, u32 rows, u32 blocks, double unit, const Code code) {
    const u32 lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    // A whole warp leaves together.
    if (row >= rows) return;
    const u32 vector_bits = code.levels * code.level_bits;
    i64 sum = 0;
    for (u32 block = lane; block < blocks; block += 32) {
        u64 bit = (static_cast<u64>(row) * blocks + block) * vector_bits;
        i32 weight = 1, s[D];
#pragma unroll
        for (int k = 0; k < D; ++k) s[k] = 0;
        for (u32 m = 0; m < code.levels; ++m) {
            const u64 index = get(packed, bit, code.level_bits);
            bit += code.level_bits;
            i32 y[D];
            if (table) {
                float point[D];
                load_vector<D>(table, index, point);
#pragma unroll
                for (int k = 0; k < D; ++k) y[k] = static_cast<i32>(point[k] * Lattice<D>::scale);
            } else {
                index_point<D>(index, code, y);
            }
#pragma unroll
            for (int k = 0; k < D; ++k) s[k] += weight * y[k];
            weight *= static_cast<i32>(code.q);
        }
#pragma unroll
        for (int k = 0; k < D; ++k) sum += static_cast<i64>(s[k]) * query[static_cast<u64>(block) * D + k];
    }
    for (u32 by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
    if (lane == 0) scores[row] = static_cast<float>(static_cast<double>(sum) * unit);
}

#define CODE_PARAMETERS u32 levels, u32 level_bits, u32 q, u32 pow2
#define ENCODE_PARAMETERS const float* x, u32* packed, u8* overload, u8* retries, const float* constants, u64 n, CODE_PARAMETERS, u32 cap
#define DECODE_PARAMETERS const u32* packed, const u8* retries, const float* constants, const float* table, float* x, u64* bad, u64 n, CODE_PARAMETERS, u64 points
#define DOT_PARAMETERS const u32* packed, const i32* query, const float* table, float* scores, u32 rows, u32 blocks, double unit, CODE_PARAMETERS

extern "C" __global__ void encode_z2(ENCODE_PARAMETERS) {
    SHARED_BYTES(shared);
    encode<2>(shared, x, packed, overload, retries, constants, n, {levels, level_bits, q, pow2}, cap);
}
extern "C" __global__ void encode_d4(ENCODE_PARAMETERS) {
    SHARED_BYTES(shared);
    encode<4>(shared, x, packed, overload, retries, constants, n, {levels, level_bits, q, pow2}, cap);
}
extern "C" __global__ void encode_e8(ENCODE_PARAMETERS) {
    SHARED_BYTES(shared);
    encode<8>(shared, x, packed, overload, retries, constants, n, {levels, level_bits, q, pow2}, cap);
}
extern "C" __global__ void decode_z2(DECODE_PARAMETERS) {
    SHARED_BYTES(shared);
    decode<2>(shared, packed, retries, constants, table, x, bad, n, {levels, level_bits, q, pow2}, points);
}
extern "C" __global__ void decode_d4(DECODE_PARAMETERS) {
    SHARED_BYTES(shared);
    decode<4>(shared, packed, retries, constants, table, x, bad, n, {levels, level_bits, q, pow2}, points);
}
extern "C" __global__ void decode_e8(DECODE_PARAMETERS) {
    SHARED_BYTES(shared);
    decode<8>(shared, packed, retries, constants, table, x, bad, n, {levels, level_bits, q, pow2}, points);
}
extern "C" __global__ void dot_z2(DOT_PARAMETERS) {
    dot<2>(packed, query, table, scores, rows, blocks, unit, {levels, level_bits, q, pow2});
}
extern "C" __global__ void dot_d4(DOT_PARAMETERS) {
    dot<4>(packed, query, table, scores, rows, blocks, unit, {levels, level_bits, q, pow2});
}
extern "C" __global__ void dot_e8(DOT_PARAMETERS) {
    dot<8>(packed, query, table, scores, rows, blocks, unit, {levels, level_bits, q, pow2});
}

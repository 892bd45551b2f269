// The nested-lattice quantizer on a GPU, one vector per thread, with the arithmetic of `lattice.cuh`. Threads loop over
// the vectors in steps of the grid and load the next one before they process the current one.
//
// A code of at most 64 bits is assembled in a register, and stored directly if it has 8, 16, 32 or 64 bits. Others pass
// through shared memory: 32 vectors take a whole number of words for any number of bits, so each warp writes separate
// words.

template <int D> __device__ __forceinline__ void load_vector(const float* x, u32 vector, float (&to)[D]) {
    if (D == 2) {
        const float2 v = reinterpret_cast<const float2*>(x)[vector];
        to[0] = v.x;
        to[1] = v.y;
    } else {
#pragma unroll
        for (int k = 0; k < D / 4; ++k) {
            const float4 v = reinterpret_cast<const float4*>(x + static_cast<u64>(vector) * D)[k];
            to[(4 * k) % D] = v.x;
            to[(4 * k + 1) % D] = v.y;
            to[(4 * k + 2) % D] = v.z;
            to[(4 * k + 3) % D] = v.w;
        }
    }
}

template <int D> __device__ __forceinline__ void store_vector(float* x, u32 vector, const float (&from)[D]) {
    if (D == 2) {
        reinterpret_cast<float2*>(x)[vector] = make_float2(from[0], from[1]);
    } else {
#pragma unroll
        for (int k = 0; k < D / 4; ++k)
            reinterpret_cast<float4*>(x + static_cast<u64>(vector) * D)[k] =
                make_float4(from[(4 * k) % D], from[(4 * k + 1) % D], from[(4 * k + 2) % D], from[(4 * k + 3) % D]);
    }
}

// The points of a level by index, one byte per coordinate, in shared memory. Encoding stores them negated.
template <Way WAY> __device__ __forceinline__ void bring_points(u32* points, const u32* table, u32 words) {
    if (WAY == LOOKUPS) {
        for (u32 k = threadIdx.x; k < words; k += blockDim.x) points[k] = table[k];
        __syncthreads();
    }
}

// sum * weight + the table's point of an index.
template <int D> __device__ __forceinline__ void add_point(i32 (&sum)[D], i32 weight, const u32* points, u32 index, const Code& code) {
#pragma unroll
    for (int k = 0; k < D; ++k) sum[k] = __dp4a(static_cast<i32>(points[index * (D / 4) + k / 4]), code.place[k % 4], sum[k] * weight);
}

// The same for an index, whichever way the code uses: sum * q + its point. `Q` is 0 if only the launch defines it.
template <int D, Way WAY, int Q> __device__ __forceinline__ void add_index(i32 (&sum)[D], const u32* points, u64 index, const Code& code) {
    const i32 q = static_cast<i32>(code.q);
    if (WAY == LOOKUPS) {
        add_point<D>(sum, q, points, static_cast<u32>(index), code);
    } else if (D == 8 && Q == 4) {
        i32 bytes[2];
        quarters_of_index(static_cast<u32>(index), bytes[0], bytes[1]);
#pragma unroll
        for (int k = 0; k < D; ++k) sum[k] = __dp4a(bytes[k / 4 % 2], code.place[k % 4], sum[k] * q);
    } else {
        i32 y[D];
        point_of<D, WAY>(index, code, y);
#pragma unroll
        for (int k = 0; k < D; ++k) sum[k] = sum[k] * q + y[k];
    }
}

__device__ __forceinline__ void put(u32* words, u32 bit, u64 value, u32 bits) {
    const u32 by = bit % 32;
    const u64 low = value << by;
    // Two vectors may share a word.
    atomicOr(&words[bit / 32], static_cast<u32>(low));
    if (by + bits > 32) atomicOr(&words[bit / 32 + 1], static_cast<u32>(low >> 32));
    if (by + bits > 64) atomicOr(&words[bit / 32 + 2], static_cast<u32>(value >> (64 - by)));
}

__device__ __forceinline__ u64 get(const u32* words, u64 bit, u32 bits) {
    const u32* at = words + bit / 32;
    const u32 by = static_cast<u32>(bit % 32);
    u64 value = at[0];
    if (by + bits > 32) value |= static_cast<u64>(at[1]) << 32;
    value >>= by;
    if (by + bits > 64) value |= static_cast<u64>(at[2]) << (64 - by);
    return value & ~0ull >> (64 - bits);
}

// The code of a vector, if it has at most 64 bits.
__device__ __forceinline__ u64 code_at(const u32* packed, u64 vector, u32 vector_bits) {
    if (vector_bits == 16) return reinterpret_cast<const u16*>(packed)[vector];
    if (vector_bits == 32) return packed[vector];
    if (vector_bits == 64) return reinterpret_cast<const u64*>(packed)[vector];
    if (vector_bits == 8) return reinterpret_cast<const u8*>(packed)[vector];
    return vector_bits < 64 ? get(packed, vector * vector_bits, vector_bits) : 0;
}

// A whole warp stores its codes. For codes of more than 64 bits, `long_codes` has the indices of this thread's levels,
// with a stride of a block.
__device__ __forceinline__ void store_codes(u32* packed, u32* words, const u64* long_codes, u32 vector, bool there, u64 bits, const Code& code) {
    const u32 vector_bits = code.levels * code.level_bits, lane = threadIdx.x % 32;
    if (vector_bits == 16) {
        if (there) reinterpret_cast<u16*>(packed)[vector] = static_cast<u16>(bits);
    } else if (vector_bits == 32) {
        if (there) packed[vector] = static_cast<u32>(bits);
    } else if (vector_bits == 8) {
        if (there) reinterpret_cast<u8*>(packed)[vector] = static_cast<u8>(bits);
    } else if (vector_bits == 64) {
        if (there) reinterpret_cast<u64*>(packed)[vector] = bits;
    } else {
        words += threadIdx.x / 32 * vector_bits;
        for (u32 k = lane; k < vector_bits; k += 32) words[k] = 0;
        __syncwarp();
        if (there && vector_bits < 64) put(words, lane * vector_bits, bits, vector_bits);
        if (there && vector_bits > 64)
            for (u32 m = 0; m < code.levels; ++m) put(words, lane * vector_bits + m * code.level_bits, long_codes[m * blockDim.x], code.level_bits);
        __syncwarp();
        // The buffer has room for the words of an incomplete last warp.
        for (u32 k = lane; k < vector_bits; k += 32) packed[static_cast<u64>(vector / 32) * vector_bits + k] = words[k];
    }
}

template <int D> __device__ __forceinline__ void scale(const float (&v)[D], float inverse, const float (&shift)[8], float (&t)[D]) {
#pragma unroll
    for (int k = 0; k < D; ++k) t[k] = __fadd_rn(__fmul_rn(v[k], inverse), shift[k]);
}

// NaN becomes the lower limit. The sum of all magnitudes is at least each of them, or NaN. Clamping is rare; a loop of
// one round makes it a branch, where the compiler would otherwise predicate so few instructions.
template <int D> __device__ __forceinline__ void clamp(float (&t)[D]) {
    const float limit = 4194304.0f;
    float size = fabsf(t[0]);
#pragma unroll
    for (int k = 1; k < D; ++k) size = __fadd_rn(size, fabsf(t[k]));
    while (!(size <= limit)) {
        size = 0.0f;
#pragma unroll
        for (int k = 0; k < D; ++k) {
            t[k] = fminf(fmaxf(t[k], -limit), limit);
            size = fmaxf(size, fabsf(t[k]));
        }
    }
}

// `inverses` and `scales` are for retries 0 to cap, `shift` is per coordinate.
// `overload` and `retries` are null if the code has none. Shared memory: points, long codes, words of each warp.
template <int D, Way WAY, int Q, int LEVELS, bool DECODED>
__device__ __forceinline__ void encode(u32* shared, const float* x, u32* packed, u8* overload, u8* retries, const float* inverses, const u32* table, u32 table_words,
                                       u32 n, u32 cap, const float (&shift)[8], const Code code, const float* scales, float* decoded) {
    const u32 vector_bits = code.levels * code.level_bits, lane = threadIdx.x % 32;
    u64* long_codes = reinterpret_cast<u64*>(shared + table_words) + threadIdx.x;
    u32* words = shared + table_words + (vector_bits > 64 ? 2 * code.levels * blockDim.x : 0);
    bring_points<WAY>(shared, table, table_words);
    // Points have an offset of a multiple of q^M, unless divisions need exact values; a last point of zero then has the
    // value `zero`.
    const i32 lift = WAY == DIVISIONS ? 0 : static_cast<i32>(static_cast<u32>(LIFT) * Lattice<D>::scale);
    const i32 zero = WAY == DIVISIONS ? 0 : lift >> code.levels * code.log_q;
    const bool to_the_end = DECODED || overload;
    const u32 flags = overload ? n : 0, counts = retries ? n : 0;
    const u32 step = gridDim.x * blockDim.x;
    u32 vector = blockIdx.x * blockDim.x + threadIdx.x;
    const float first = inverses[0];
    // A vector beyond the last repeats the last: an unconditional load needs no second set of registers.
    float v[D];
    load_vector<D>(x, min(vector, n - 1), v);
    for (; vector - lane < n; vector += step) {
        float scaled[D];
        scale<D>(v, first, shift, scaled);
        load_vector<D>(x, min(vector + step, n - 1), v);
        u32 t = 0;
        u64 bits;
        i32 g[D], finest[D];
        bool outside;
        for (;;) {
            clamp<D>(scaled);
            i32 r[D];
            split<D>(scaled, g, r);
#pragma unroll
            for (int k = 0; k < D; ++k) g[k] -= WAY == DIVISIONS ? LIFT : 0;
            Lattice<D>::settle(g, r, 1 << 25, code);
#pragma unroll
            for (int k = 0; k < D; ++k) finest[k] = g[k];
            bits = 0;
#pragma unroll LEVELS ? LEVELS : 1
            for (u32 m = 0; m < code.levels; ++m) {
                const u64 index = index_of<D, WAY>(g, code);
                if (LEVELS) bits |= static_cast<u32>(index) << m * code.level_bits;
                else if (vector_bits > 64) long_codes[m * blockDim.x] = index;
                else bits |= index << m * code.level_bits;
                if (m + 1 == code.levels && !to_the_end) break;
                if (WAY == LOOKUPS) {
                    add_point<D>(g, 1, shared, static_cast<u32>(index), code);
#pragma unroll
                    for (int k = 0; k < D; ++k) g[k] >>= code.log_q;
                } else if (D == 8 && Q == 4) {
                    coarser_of_quarters(reinterpret_cast<i32(&)[8]>(g), code);
                } else {
                    coarser<D, WAY>(g, code);
                }
            }
            i32 left = 0;
#pragma unroll
            for (int k = 0; k < D; ++k) left |= g[k] ^ zero;
            outside = left != 0;
            if (!outside || t == cap || vector >= n) break;
            float again[D];
            load_vector<D>(x, vector, again);
            scale<D>(again, inverses[++t], shift, scaled);
        }
        const bool there = vector < n;
        store_codes(packed, words, long_codes, vector, there, bits, code);
        if (vector < flags) overload[vector] = outside;
        if (vector < counts) retries[vector] = static_cast<u8>(t);
        if (DECODED && there) {
            i32 whole = 1;
            for (u32 m = 0; m < code.levels; ++m) whole *= static_cast<i32>(code.q);
            float sum[D];
#pragma unroll
            for (int k = 0; k < D; ++k) {
                // The common offset cancels.
                sum[k] = __fmul_rn(__int2float_rn(finest[k] - whole * g[k]), 1.0f / Lattice<D>::scale);
                sum[k] = __fmul_rn(__fsub_rn(sum[k], shift[k]), scales[t]);
            }
            store_vector<D>(decoded, vector, sum);
        }
    }
}

// `limit`: number of points of a level, or 0 if every index is valid.
// `bad` becomes the first vector with an invalid index.
template <int D, Way WAY, int Q, int LEVELS>
__device__ __forceinline__ void decode(u32* shared, const u32* packed, const u8* retries, const float* scales, const u32* table, u32 table_words, float* x, u64* bad,
                                       u64 before, u32 n, u64 limit, const float (&shift)[8], const Code code) {
    const u32 vector_bits = code.levels * code.level_bits;
    bring_points<WAY>(shared, table, table_words);
    const u32 step = gridDim.x * blockDim.x;
    u32 vector = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 counts = retries ? n : 0;
    const float first = scales[0];
    u64 next = vector < n ? code_at(packed, vector, vector_bits) : 0;
    for (; vector < n; vector += step) {
        const u64 bits = next;
        if (vector + step < n) next = code_at(packed, vector + step, vector_bits);
        const float scale = vector < counts ? scales[retries[vector]] : first;
        bool wrong = false;
        i32 sum[D];
#pragma unroll
        for (int k = 0; k < D; ++k) sum[k] = 0;
        // Starts with the coarsest level.
#pragma unroll LEVELS ? LEVELS : 1
        for (u32 m = code.levels; m-- > 0;) {
            const u64 index = vector_bits > 64 ? get(packed, static_cast<u64>(vector) * vector_bits + m * code.level_bits, code.level_bits)
                                               : bits >> m * code.level_bits & ~0ull >> (64 - code.level_bits);
            wrong = wrong || (limit != 0 && index >= limit);
            add_index<D, WAY, Q>(sum, shared, index, code);
        }
        if (wrong) atomicMin(bad, before + vector);
        float value[D];
#pragma unroll
        for (int k = 0; k < D; ++k) {
            value[k] = __fmul_rn(__int2float_rn(sum[k]), 1.0f / Lattice<D>::scale);
            value[k] = __fmul_rn(__fsub_rn(value[k], shift[k]), scale);
        }
        store_vector<D>(x, vector, value);
    }
}

// The dot product of a row's integers with the query's, one row per warp. All sums are exact.
template <int D, Way WAY, int Q>
__device__ __forceinline__ void dot(u32* shared, const u32* packed, const i32* query, const u32* table, u32 table_words, float* scores, u32 rows, u32 blocks, double unit,
                                    const Code code) {
    const u32 lane = threadIdx.x % 32, vector_bits = code.levels * code.level_bits;
    bring_points<WAY>(shared, table, table_words);
    for (u32 row = (blockIdx.x * blockDim.x + threadIdx.x) / 32; row < rows; row += gridDim.x * blockDim.x / 32) {
        const u64 first = static_cast<u64>(row) * blocks;
        i64 sum = 0;
        for (u32 block = lane; block < blocks; block += 32) {
            const u64 bits = code_at(packed, first + block, vector_bits);
            i32 s[D];
#pragma unroll
            for (int k = 0; k < D; ++k) s[k] = 0;
#pragma unroll 1
            for (u32 m = code.levels; m-- > 0;) {
                const u64 index = vector_bits > 64 ? get(packed, (first + block) * vector_bits + m * code.level_bits, code.level_bits)
                                                   : bits >> m * code.level_bits & ~0ull >> (64 - code.level_bits);
                add_index<D, WAY, Q>(s, shared, index, code);
            }
#pragma unroll
            for (int k = 0; k < D; ++k) sum += static_cast<i64>(s[k]) * query[static_cast<u64>(block) * D + k];
        }
        for (u32 by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
        if (lane == 0) scores[row] = static_cast<float>(static_cast<double>(sum) * unit);
    }
}

// The same if an index is a byte, a row is a multiple of 16 bytes, a word holds whole vectors, the query's integers are bytes and
// no sum of integers exceeds 31 bits. Points are repeated in shared memory so that every lane has separate banks. Each of the
// four indices of a word has a separate sum, so that the weight of its level is applied once at the end; for index f of word w of
// the 16 bytes c of a row, `query` holds the integers of its vector at (4 w + f) * chunks + c.
template <int D> __device__ __forceinline__ void dot_bytes(u32* shared, const uint4* packed, const u32* query, const u32* table, float* scores, u32 rows, u32 chunks, double unit, u32 q, u32 levels) {
    constexpr u32 part = D / 4, copies = 32 / part, together = 4;
    const u32 lane = threadIdx.x % 32;
    for (u32 k = threadIdx.x; k < 256 * 32; k += blockDim.x) shared[k] = table[k / 32 * part + k % part];
    __syncthreads();
    // Position of this lane's words in the 128 bytes of an index.
    const u32 mine = lane % copies * part * 4;
    const u32 warps = gridDim.x * blockDim.x / 32;
    for (u32 row = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * together; row < rows; row += warps * together) {
        i32 sum[together][4] = {};
        for (u32 chunk = lane; chunk < chunks; chunk += 32) {
            u32 word[together][4];
#pragma unroll
            for (u32 r = 0; r < together; ++r) {
                // A row beyond the last repeats the last.
                const uint4 codes = packed[static_cast<u64>(min(row + r, rows - 1)) * chunks + chunk];
                word[r][0] = codes.x;
                word[r][1] = codes.y;
                word[r][2] = codes.z;
                word[r][3] = codes.w;
            }
#pragma unroll
            for (u32 f = 0; f < 16; ++f) {
                i32 with[part];
#pragma unroll
                for (u32 k = 0; k < part; ++k) with[k] = static_cast<i32>(query[(f * chunks + chunk) * part + k]);
#pragma unroll
                for (u32 r = 0; r < together; ++r) {
                    const u32 codes = word[r][f / 4], row_of = f % 4 == 0 ? codes << 7 : codes >> (8 * (f % 4) - 7);
                    const i32* point = reinterpret_cast<const i32*>(reinterpret_cast<const u8*>(shared) + ((row_of & 0x7f80) | mine));
#pragma unroll
                    for (u32 k = 0; k < part; ++k) sum[r][f % 4] = __dp4a(point[k], with[k], sum[r][f % 4]);
                }
            }
        }
        i32 total[together];
#pragma unroll
        for (u32 r = 0; r < together; ++r) {
            total[r] = 0;
            i32 weight = 1;
            for (u32 f = 0; f < 4; ++f) {
                if (f % levels == 0) weight = 1;
                total[r] += sum[r][f] * weight;
                weight *= static_cast<i32>(q);
            }
        }
        // Each half of the warp takes half of the rows, and each quarter one row.
        const bool upper = lane & 16, odd = lane & 8;
        i32 a = upper ? total[2] : total[0], b = upper ? total[3] : total[1];
        a += __shfl_xor_sync(WHOLE_WARP, upper ? total[0] : total[2], 16);
        b += __shfl_xor_sync(WHOLE_WARP, upper ? total[1] : total[3], 16);
        i32 mine_of_row = odd ? b : a;
        mine_of_row += __shfl_xor_sync(WHOLE_WARP, odd ? a : b, 8);
        for (u32 by = 4; by > 0; by /= 2) mine_of_row += __shfl_xor_sync(WHOLE_WARP, mine_of_row, by);
        const u32 of = row + lane / 8;
        if (lane % 8 == 0 && of < rows) scores[of] = static_cast<float>(static_cast<double>(mine_of_row) * unit);
    }
}

#define CODE_PARAMETERS const u32* table, u32 table_words, u32 levels, u32 level_bits, u32 q
#define SHIFT_PARAMETERS float s0, float s1, float s2, float s3, float s4, float s5, float s6, float s7
#define ENCODE_PARAMETERS const float* x, u32* packed, u8* overload, u8* retries, const float* inverses, u32 n, u32 cap, CODE_PARAMETERS, SHIFT_PARAMETERS
#define QUANTIZE_PARAMETERS ENCODE_PARAMETERS, const float* scales, float* decoded
#define DECODE_PARAMETERS const u32* packed, const u8* retries, const float* scales, float* x, u64* bad, u64 before, u32 n, u64 limit, CODE_PARAMETERS, SHIFT_PARAMETERS
#define DOT_PARAMETERS const u32* packed, const i32* query, float* scores, u32 rows, u32 blocks, double unit, CODE_PARAMETERS
#define DOT_BYTES_PARAMETERS const uint4* packed, const u32* query, const u32* table, float* scores, u32 rows, u32 chunks, double unit, u32 q, u32 levels

#define ENCODE(D, WAY, Q, LEVELS, decoded_too, scales, decoded)                                                                             \
    SHARED_BYTES(shared);                                                                                                                   \
    const float shift[8] = {s0, s1, s2, s3, s4, s5, s6, s7};                                                                                \
    encode<D, WAY, Q, LEVELS, decoded_too>(reinterpret_cast<u32*>(shared), x, packed, overload, retries, inverses, table, table_words, n, cap, shift,  \
                                code_of<D, WAY, Q, LEVELS>(levels, level_bits, q), scales, decoded);
#define DECODE(D, WAY, Q, LEVELS)                                                                                                           \
    SHARED_BYTES(shared);                                                                                                                   \
    const float shift[8] = {s0, s1, s2, s3, s4, s5, s6, s7};                                                                                \
    decode<D, WAY, Q, LEVELS>(reinterpret_cast<u32*>(shared), packed, retries, scales, table, table_words, x, bad, before, n, limit, shift,                    \
                   code_of<D, WAY, Q, LEVELS>(levels, level_bits, q));
#define DOT(D, WAY, Q)                                                                                                                      \
    SHARED_BYTES(shared);                                                                                                                   \
    dot<D, WAY, Q>(reinterpret_cast<u32*>(shared), packed, query, table, table_words, scores, rows, blocks, unit, code_of<D, WAY, Q, 0>(levels, level_bits, q));

extern "C" __global__ void encode_z2_shifts(ENCODE_PARAMETERS) { ENCODE(2, SHIFTS, 0, 0, false, nullptr, nullptr) }
extern "C" __global__ void encode_z2_divisions(ENCODE_PARAMETERS) { ENCODE(2, DIVISIONS, 0, 0, false, nullptr, nullptr) }
extern "C" __global__ void encode_d4_shifts(ENCODE_PARAMETERS) { ENCODE(4, SHIFTS, 0, 0, false, nullptr, nullptr) }
extern "C" __global__ void encode_d4_divisions(ENCODE_PARAMETERS) { ENCODE(4, DIVISIONS, 0, 0, false, nullptr, nullptr) }
extern "C" __global__ void encode_d4_lookups(ENCODE_PARAMETERS) { ENCODE(4, LOOKUPS, 0, 0, false, nullptr, nullptr) }
extern "C" __global__ void encode_e8_shifts(ENCODE_PARAMETERS) { ENCODE(8, SHIFTS, 0, 0, false, nullptr, nullptr) }
extern "C" __global__ void encode_e8_divisions(ENCODE_PARAMETERS) { ENCODE(8, DIVISIONS, 0, 0, false, nullptr, nullptr) }
extern "C" __global__ void encode_e8_lookups(ENCODE_PARAMETERS) { ENCODE(8, LOOKUPS, 0, 0, false, nullptr, nullptr) }

extern "C" __global__ void quantize_z2_shifts(QUANTIZE_PARAMETERS) { ENCODE(2, SHIFTS, 0, 0, true, scales, decoded) }
extern "C" __global__ void quantize_z2_divisions(QUANTIZE_PARAMETERS) { ENCODE(2, DIVISIONS, 0, 0, true, scales, decoded) }
extern "C" __global__ void quantize_d4_shifts(QUANTIZE_PARAMETERS) { ENCODE(4, SHIFTS, 0, 0, true, scales, decoded) }
extern "C" __global__ void quantize_d4_divisions(QUANTIZE_PARAMETERS) { ENCODE(4, DIVISIONS, 0, 0, true, scales, decoded) }
extern "C" __global__ void quantize_d4_lookups(QUANTIZE_PARAMETERS) { ENCODE(4, LOOKUPS, 0, 0, true, scales, decoded) }
extern "C" __global__ void quantize_e8_shifts(QUANTIZE_PARAMETERS) { ENCODE(8, SHIFTS, 0, 0, true, scales, decoded) }
extern "C" __global__ void quantize_e8_divisions(QUANTIZE_PARAMETERS) { ENCODE(8, DIVISIONS, 0, 0, true, scales, decoded) }
extern "C" __global__ void quantize_e8_lookups(QUANTIZE_PARAMETERS) { ENCODE(8, LOOKUPS, 0, 0, true, scales, decoded) }

// The most common codes: everything that follows from q = 4 and two levels is a compile-time constant.
extern "C" __global__ void encode_z2_q4_m2(ENCODE_PARAMETERS) { ENCODE(2, SHIFTS, 4, 2, false, nullptr, nullptr) }
extern "C" __global__ void encode_d4_q4_m2(ENCODE_PARAMETERS) { ENCODE(4, LOOKUPS, 4, 2, false, nullptr, nullptr) }
extern "C" __global__ void encode_e8_q4_m2(ENCODE_PARAMETERS) { ENCODE(8, SHIFTS, 4, 2, false, nullptr, nullptr) }
extern "C" __global__ void quantize_z2_q4_m2(QUANTIZE_PARAMETERS) { ENCODE(2, SHIFTS, 4, 2, true, scales, decoded) }
extern "C" __global__ void quantize_d4_q4_m2(QUANTIZE_PARAMETERS) { ENCODE(4, LOOKUPS, 4, 2, true, scales, decoded) }
extern "C" __global__ void quantize_e8_q4_m2(QUANTIZE_PARAMETERS) { ENCODE(8, SHIFTS, 4, 2, true, scales, decoded) }
extern "C" __global__ void decode_z2_q4_m2(DECODE_PARAMETERS) { DECODE(2, SHIFTS, 4, 2) }
extern "C" __global__ void decode_d4_q4_m2(DECODE_PARAMETERS) { DECODE(4, LOOKUPS, 4, 2) }
extern "C" __global__ void decode_e8_q4_m2(DECODE_PARAMETERS) { DECODE(8, SHIFTS, 4, 2) }

extern "C" __global__ void decode_z2_shifts(DECODE_PARAMETERS) { DECODE(2, SHIFTS, 0, 0) }
extern "C" __global__ void decode_z2_divisions(DECODE_PARAMETERS) { DECODE(2, DIVISIONS, 0, 0) }
extern "C" __global__ void decode_d4_shifts(DECODE_PARAMETERS) { DECODE(4, SHIFTS, 0, 0) }
extern "C" __global__ void decode_d4_divisions(DECODE_PARAMETERS) { DECODE(4, DIVISIONS, 0, 0) }
extern "C" __global__ void decode_d4_lookups(DECODE_PARAMETERS) { DECODE(4, LOOKUPS, 0, 0) }
extern "C" __global__ void decode_e8_shifts(DECODE_PARAMETERS) { DECODE(8, SHIFTS, 0, 0) }
extern "C" __global__ void decode_e8_divisions(DECODE_PARAMETERS) { DECODE(8, DIVISIONS, 0, 0) }
extern "C" __global__ void decode_e8_q4(DECODE_PARAMETERS) { DECODE(8, SHIFTS, 4, 0) }
extern "C" __global__ void decode_e8_lookups(DECODE_PARAMETERS) { DECODE(8, LOOKUPS, 0, 0) }

extern "C" __global__ void dot_z2_shifts(DOT_PARAMETERS) { DOT(2, SHIFTS, 0) }
extern "C" __global__ void dot_z2_divisions(DOT_PARAMETERS) { DOT(2, DIVISIONS, 0) }
extern "C" __global__ void dot_d4_shifts(DOT_PARAMETERS) { DOT(4, SHIFTS, 0) }
extern "C" __global__ void dot_d4_divisions(DOT_PARAMETERS) { DOT(4, DIVISIONS, 0) }
extern "C" __global__ void dot_d4_lookups(DOT_PARAMETERS) { DOT(4, LOOKUPS, 0) }
extern "C" __global__ void dot_e8_shifts(DOT_PARAMETERS) { DOT(8, SHIFTS, 0) }
extern "C" __global__ void dot_e8_divisions(DOT_PARAMETERS) { DOT(8, DIVISIONS, 0) }
extern "C" __global__ void dot_e8_q4(DOT_PARAMETERS) { DOT(8, SHIFTS, 4) }
extern "C" __global__ void dot_e8_lookups(DOT_PARAMETERS) { DOT(8, LOOKUPS, 0) }

extern "C" __global__ void dot_d4_bytes(DOT_BYTES_PARAMETERS) {
    SHARED_BYTES(shared);
    dot_bytes<4>(reinterpret_cast<u32*>(shared), packed, query, table, scores, rows, chunks, unit, q, levels);
}
extern "C" __global__ void dot_e8_bytes(DOT_BYTES_PARAMETERS) {
    SHARED_BYTES(shared);
    dot_bytes<8>(reinterpret_cast<u32*>(shared), packed, query, table, scores, rows, chunks, unit, q, levels);
}

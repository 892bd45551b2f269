// Arithmetic of the nested-lattice quantizer: the rules of `scalar.rs`, with the same bits, in few instructions.
//
// Digits come from the point itself, b = G^-1 g mod q, not from its residual below the next coarser point: the two
// differ by q times a lattice point. The residual is therefore not needed, and a vector decodes to g_0 - q^M g_M.

typedef unsigned short u16;

#ifdef __CUDACC__
// 0xff in byte 0 if a is negative and in byte 1 if b is, else 0; the upper bytes are undefined.
__device__ __forceinline__ u32 signs(i32 a, i32 b) {
    u32 bytes;
    asm("prmt.b32 %0, %1, %2, 0x00fb;" : "=r"(bytes) : "r"(a), "r"(b));
    return bytes;
}
#else
inline u32 signs(i32 a, i32 b) { return (a < 0 ? 0xffu : 0u) | (b < 0 ? 0xff00u : 0u); }
inline i32 __vimax3_s32(i32 a, i32 b, i32 c) { return max(max(a, b), c); }
inline i32 __viaddmax_s32(i32 a, i32 b, i32 c) { return max(a + b, c); }
inline i32 __viaddmin_s32(i32 a, i32 b, i32 c) { return min(a + b, c); }
inline u32 __umulhi(u32 a, u32 b) { return static_cast<u32>(static_cast<u64>(a) * b >> 32); }
inline u64 __umul64hi(u64 a, u64 b) { return static_cast<u64>(static_cast<unsigned __int128>(a) * b >> 64); }
inline u32 __byte_perm(u32 a, u32 b, u32 from) {
    const u64 bytes = static_cast<u64>(b) << 32 | a;
    u32 out = 0;
    for (u32 k = 0; k < 4; ++k) out |= static_cast<u32>(bytes >> 8 * (from >> 4 * k & 7) & 0xff) << 8 * k;
    return out;
}
inline i32 __dp4a(i32 a, i32 b, i32 sum) {
    for (u32 k = 0; k < 32; k += 8) sum += static_cast<signed char>(a >> k) * static_cast<signed char>(b >> k);
    return sum;
}
inline i32 __float2int_rn(float x) { return static_cast<i32>(std::lrintf(x)); }
inline float __int2float_rn(i32 x) { return static_cast<float>(x); }
inline float __fadd_rd(float a, float b) {
    const float sum = a + b, of_b = sum - a, lost = (a - (sum - of_b)) + (b - of_b);
    return lost < 0.0f ? std::nextafterf(sum, -INFINITE) : sum;
}
#endif

// How digits and coarser points are computed: by shifts if q is a power of two, by multiplication with reciprocals, or
// by shifts and a table of the points of a level.
enum Way { SHIFTS, DIVISIONS, LOOKUPS };

// A code, and values derived from it.
struct Code {
    u32 levels, level_bits, q, log_q;
    // Integer steps of q (E8 is stored doubled), reciprocals rounded down, and multiples of q and of its steps that
    // make any coordinate and any point positive; for divisions only.
    u32 unit, inverse_q, inverse_unit, many_q, many_units;
    u64 inverse_half;
    // One at each byte.
    i32 place[4];
};

template <int D> struct Lattice;

// `Q` and `LEVELS` are 0 if only the launch defines them.
template <int D, Way WAY, int Q, int LEVELS> __device__ __forceinline__ Code code_of(u32 levels, u32 level_bits, u32 q) {
    constexpr u32 known_log = Q == 2 ? 1 : Q == 4 ? 2 : 0;
    if (Q) q = Q;
    if (Q) level_bits = D * known_log;
    const u32 log_q = Q ? known_log : 31 - __clz(static_cast<i32>(q));
    // Always 1, since blocks are one-dimensional, but the compiler cannot know it: it rematerialises constants at each
    // use.
    const i32 one = 1 + threadIdx.y;
    Code code = {LEVELS ? LEVELS : levels, level_bits, q, log_q, q * Lattice<D>::scale};
#pragma unroll
    for (int k = 0; k < 4; ++k) code.place[k] = one << 8 * k;
    if (WAY == DIVISIONS) {
        // Coordinates stay below 2^26 in magnitude and points, even doubled, below 2^24. Divisors are not powers of two
        // here, so a reciprocal of 2^32 equals one of 2^32 - 1.
        const u32 half = q * q * q * q;
        code.inverse_q = ~0u / q;
        code.inverse_unit = ~0u / code.unit;
        code.many_q = ((1u << 26) / q + 1) * q;
        code.many_units = (1u << 24) / code.unit + 1;
        code.inverse_half = D == 8 ? ~0ull / half : 0;
    }
    return code;
}

// a / b, and a % b in `rest`. The estimate is exact or one too small: the reciprocal's error is less than a / 2^32.
__device__ __forceinline__ u32 divide(u32 a, u32 b, u32 inverse, u32& rest) {
    u32 quotient = __umulhi(a, inverse);
    rest = a - quotient * b;
    if (rest >= b) {
        rest -= b;
        ++quotient;
    }
    return quotient;
}

// The offset of points that were rounded in float, in each coordinate; later code removes it if necessary. Its low 22
// bits are zero, and q^M is at most 2^20, so shifts divide it exactly and it does not affect digits.
#define LIFT 0x4b400000

// t = n + u / 2^25 with u in [-2^24, 2^24), halves up, |t| <= 2^22: n + LIFT, and u.
template <int D> __device__ __forceinline__ void split(const float (&t)[D], i32 (&n)[D], i32 (&u)[D]) {
    const float magic = 12582912.0f, grid = 33554432.0f;
#pragma unroll
    for (int k = 0; k < D; ++k) {
        // Rounding down twice equals rounding down once: the first sum's result crosses no integer.
        const float lifted = __fadd_rd(__fadd_rd(t[k], 0.5f), magic);
        n[k] = __float_as_int(lifted);
        // Both products and both sums are exact; the grid rounds what |t| < 1/4 has below it.
        const float whole = __fmaf_rn(lifted, grid, -magic * grid);
        u[k] = __float2int_rn(__fmaf_rn(t[k], grid, -whole));
    }
}

// The square lattice.
template <> struct Lattice<2> {
    static constexpr i32 scale = 1;
    static __device__ __forceinline__ void settle(i32 (&)[2], const i32 (&)[2], i32, const Code&) {}
    static __device__ __forceinline__ void coordinates(const i32 (&g)[2], i32 (&z)[2]) {
        z[0] = g[0];
        z[1] = g[1];
    }
    static __device__ __forceinline__ void combine(const i32 (&b)[2], i32 (&g)[2]) {
        g[0] = b[0];
        g[1] = b[1];
    }
    static __device__ __forceinline__ u32 index(const i32 (&g)[2], const Code& code) {
        const i32 mask = code.q - 1;
        return (g[0] & mask) * code.q + (g[1] & mask);
    }
};

// Integers with an even sum.
template <> struct Lattice<4> {
    static constexpr i32 scale = 1;
    // From rounded integers and residuals to the nearest point: if the sum is odd, the coordinate with the first
    // largest residual moves.
    static __device__ __forceinline__ void settle(i32 (&f)[4], const i32 (&r)[4], i32, const Code& code) {
        // The low bits hold the position of the coordinate's byte.
        const i32 a = abs(r[0]) << 5 | 24, b = abs(r[1]) << 5 | 16, c = abs(r[2]) << 5 | 8, d = abs(r[3]) << 5;
        const u32 largest = max(__vimax3_s32(a, b, c), d);
        const u32 odd = (f[0] ^ f[1] ^ f[2] ^ f[3]) & 1;
        // Bytes: minus one or one by the sign of the residual in one position, zero elsewhere.
        const u32 negative = __byte_perm(signs(r[3], r[2]), signs(r[1], r[0]), 0x5410);
        const i32 steps = (negative | 0x01010101) & (odd * 0xff) << (largest & 24);
#pragma unroll
        for (int k = 0; k < 4; ++k) f[k] = __dp4a(steps, code.place[3 - k], f[k]);
    }
    static __device__ __forceinline__ void coordinates(const i32 (&g)[4], i32 (&z)[4]) {
        const i32 tail = g[1] + g[2] + g[3];
        z[0] = (-g[0] - tail) >> 1;
        z[1] = (g[0] - tail) >> 1;
        z[2] = -g[2] - g[3];
        z[3] = -g[3];
    }
    static __device__ __forceinline__ void combine(const i32 (&b)[4], i32 (&g)[4]) {
        g[0] = b[1] - b[0];
        g[1] = b[2] - b[0] - b[1];
        g[2] = b[3] - b[2];
        g[3] = -b[3];
    }
    // Concatenates the digits, the first one highest. If coordinates are halved, they are masked first.
    static __device__ __forceinline__ u32 index(const i32 (&g)[4], const Code& code) {
        const u32 q = code.q, mask = q - 1;
        const i32 tail = g[1] + g[2] + g[3];
        const u32 high = ((-g[0] - tail) & 2 * mask) * q + ((g[0] - tail) & 2 * mask);
        return (high * (q / 2) + ((-g[2] - g[3]) & mask)) * q + (-g[3] & mask);
    }
};

// E8, with doubled coordinates.
template <> struct Lattice<8> {
    static constexpr i32 scale = 2;
    // Two candidates: the rounded integers, and the half-integers on the other side of x. Either may need to move one
    // coordinate.
    static __device__ __forceinline__ void settle(i32 (&f)[8], const i32 (&r)[8], i32 unit, const Code& code) {
        i32 total = 0, largest = 0, smallest = 0x7fffffff;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const i32 size = abs(r[k]);
            total += size;
            largest = __viaddmax_s32(size << 3, 7 - k, largest);
            smallest = __viaddmin_s32(size << 3, k, smallest);
        }
        // Bytes: 0xff where the residual is negative.
        const u32 low = __byte_perm(signs(r[0], r[1]), signs(r[2], r[3]), 0x5410);
        const u32 high = __byte_perm(signs(r[4], r[5]), signs(r[6], r[7]), 0x5410);
        const u32 odd_whole = (f[0] ^ f[1] ^ f[2] ^ f[3] ^ f[4] ^ f[5] ^ f[6] ^ f[7]) & 1;
        const u32 odd_half = (odd_whole ^ __popc((low ^ high) & 0x01010101)) & 1;
        const u32 at_largest = ~largest & 7, at_smallest = smallest & 7;
        const i32 whole_cost = odd_whole ? unit - 2 * (largest >> 3) : 0;
        const i32 half_cost = odd_half ? 2 * (smallest >> 3) : 0;
        const i32 difference = total - 2 * unit + whole_cost - half_cost;
        // Of two at the same distance, choose the one with the smaller first coordinate.
        const bool moved = (odd_half && at_smallest == 0) || (odd_whole && at_largest == 0);
        const bool take_half = difference > 0 || (difference == 0 && moved != (r[0] < 0));
        const u32 at = take_half ? at_smallest : at_largest;
        const u64 here = static_cast<u64>(take_half ? odd_half * 0xff : odd_whole * 0xfe) << (8 * at);
        const u32 here_low = static_cast<u32>(here), here_high = static_cast<u32>(here >> 32);
        // Bytes: one with the residual's sign, flipped where it moves; or zero, and two where it moves.
        const i32 steps_low = take_half ? (low ^ here_low) | 0x01010101 : (low | 0x02020202) & here_low;
        const i32 steps_high = take_half ? (high ^ here_high) | 0x01010101 : (high | 0x02020202) & here_high;
#pragma unroll
        for (int k = 0; k < 8; ++k) f[k] = __dp4a(k < 4 ? steps_low : steps_high, code.place[k % 4], 2 * f[k]);
    }
    static __device__ __forceinline__ void coordinates(const i32 (&g)[8], i32 (&z)[8]) {
        i32 tail = 0;
#pragma unroll
        for (int k = 6; k > 0; --k) {
            tail += g[k] - g[7];
            z[k] = tail >> 1;
        }
        z[0] = (tail + g[0] - g[7]) >> 2;
        z[7] = g[7];
    }
    static __device__ __forceinline__ void combine(const i32 (&b)[8], i32 (&g)[8]) {
#pragma unroll
        for (int k = 0; k < 8; ++k) g[k] = b[7];
        g[0] += 4 * b[0] - 2 * b[1];
#pragma unroll
        for (int k = 1; k < 6; ++k) g[k] += 2 * (b[k] - b[k + 1]);
        g[6] += 2 * b[6];
    }
    static __device__ __forceinline__ u64 index(const i32 (&g)[8], const Code& code) {
        const u32 q = code.q, mask = q - 1;
        i32 t[7];
        t[6] = g[6] - g[7];
#pragma unroll
        for (int k = 5; k >= 0; --k) t[k] = t[k + 1] + g[k] - g[7];
        const u32 high = ((t[0] >> 1 & 2 * mask) * q + (t[1] & 2 * mask)) * q + (t[2] & 2 * mask);
        const u32 low = ((t[4] & 2 * mask) * q + (t[5] & 2 * mask)) * q + (t[6] & 2 * mask);
        const u32 first = high * (q / 2) + (t[3] >> 1 & mask), last = low * (q / 2) + (g[7] & mask);
        return static_cast<u64>(first) << 4 * code.log_q | last;
    }
};

// Q(g / q).
template <int D, Way WAY> __device__ __forceinline__ void coarser(i32 (&g)[D], const Code& code) {
    const i32 unit = code.unit, half = unit >> 1;
    i32 r[D];
#pragma unroll
    for (int k = 0; k < D; ++k) {
        const i32 moved = g[k] + half;
        if (WAY == DIVISIONS) {
            u32 rest;
            g[k] = static_cast<i32>(divide(moved + code.many_units * code.unit, code.unit, code.inverse_unit, rest) - code.many_units);
            r[k] = static_cast<i32>(rest) - half;
        } else {
            g[k] = moved >> (code.log_q + Lattice<D>::scale - 1);
            r[k] = (moved & (unit - 1)) - half;
        }
    }
    Lattice<D>::settle(g, r, unit, code);
}

// The index of a point's class: its coordinates modulo q.
template <int D, Way WAY> __device__ __forceinline__ u64 index_of(const i32 (&g)[D], const Code& code) {
    if (WAY != DIVISIONS) return Lattice<D>::index(g, code);
    i32 z[D];
    Lattice<D>::coordinates(g, z);
    u32 part[2] = {0, 0};
#pragma unroll
    for (int k = 0; k < D; ++k) {
        u32 rest;
        divide(z[k] + code.many_q, code.q, code.inverse_q, rest);
        part[k / 4] = part[k / 4] * code.q + rest;
    }
    if (D < 8) return part[0];
    return static_cast<u64>(part[0]) * (code.q * code.q * code.q * code.q) + part[1];
}

// Four digits of an index, or two, the first one highest.
template <int N, Way WAY> __device__ __forceinline__ void digits_of(u32 index, const Code& code, i32* digits) {
#pragma unroll
    for (int k = N - 1; k >= 0; --k) {
        u32 rest = index & (code.q - 1);
        index = WAY == DIVISIONS ? divide(index, code.q, code.inverse_q, rest) : index >> code.log_q;
        digits[k] = static_cast<i32>(rest);
    }
}

// The point of a level's index.
template <int D, Way WAY> __device__ __forceinline__ void point_of(u64 index, const Code& code, i32 (&y)[D]) {
    i32 digits[D], g[D];
    u32 low = static_cast<u32>(index);
    if (D == 8) {
        u32 high = static_cast<u32>(index >> 4 * code.log_q);
        if (WAY == DIVISIONS) {
            const u32 half = code.q * code.q * code.q * code.q;
            u64 quotient = __umul64hi(index, code.inverse_half), rest = index - quotient * half;
            // As in `divide`.
            const bool more = rest >= half;
            high = static_cast<u32>(quotient) + more;
            low = static_cast<u32>(rest - (more ? half : 0));
        }
        digits_of<4, WAY>(high, code, digits);
    }
    digits_of<(D == 2 ? 2 : 4), WAY>(low, code, digits + (D == 8 ? 4 : 0));
    Lattice<D>::combine(digits, y);
#pragma unroll
    for (int k = 0; k < D; ++k) g[k] = y[k];
    coarser<D, WAY>(g, code);
#pragma unroll
    for (int k = 0; k < D; ++k) y[k] -= static_cast<i32>(code.q) * g[k];
}

// The first of the positions marked by ones in nibbles: low nibbles hold coordinates 0 to 3, high ones 4 to 7.
__device__ __forceinline__ u32 first_place(u32 places) {
    const u32 low = places & 0x01010101, from = low ? low : places;
    return from & (0 - from);
}

// E8 with q = 4: residuals fit in nibbles and points of a level in bytes, four or eight per register. From coordinates
// plus half a unit, modulo two units, one byte each: the point of their class as signed bytes, or its negative.
__device__ __forceinline__ void quarters(u32 moved_a, u32 moved_b, bool negated, i32& low, i32& high) {
    const u32 rest_a = moved_a & 0x07070707, rest_b = moved_b & 0x07070707, rest = rest_b << 4 | rest_a;
    // Magnitudes of the residuals rest - 4, and ones where they are negative.
    const u32 negative = ~(rest >> 2) & 0x11111111, size = ((rest & 0x33333333) ^ 3 * negative) + negative;
    const i32 total = __dp4a(static_cast<i32>((size & 0x0f0f0f0f) + (size >> 4 & 0x0f0f0f0f)), 0x01010101, 0);
    const u32 odd_whole = __popc((moved_a ^ moved_b) & 0x08080808) & 1, odd_half = odd_whole ^ (__popc(negative) & 1);
    // Positions of the largest and of the smallest magnitude, from its highest bit to its lowest.
    u32 large = 0x11111111, small = 0x11111111;
    i32 largest = 0, smallest = 0;
#pragma unroll
    for (int bit = 2; bit >= 0; --bit) {
        const u32 set = large & size >> bit, clear = small & ~(size >> bit);
        if (set) large = set;
        largest += set ? 1 << bit : 0;
        if (clear) small = clear;
        smallest += clear ? 0 : 1 << bit;
    }
    const u32 at_largest = odd_whole ? first_place(large) : 0, at_smallest = odd_half ? first_place(small) : 0;
    const i32 difference = total - 16 + (odd_whole ? 8 - 2 * largest : 0) - (odd_half ? 2 * smallest : 0);
    // Of two at the same distance, choose the one with the smaller first coordinate.
    const bool take_half = difference > 0 || (difference == 0 && ((at_largest | at_smallest) ^ negative) & 1);
    // Steps from the rounded integers, doubled, and 2 more.
    const u32 half = 0x33333333 - 2 * (negative ^ at_smallest), whole = 0x22222222 + 2 * at_largest - 4 * (at_largest & negative);
    const u32 steps = take_half ? half : whole, steps_a = steps & 0x0f0f0f0f, steps_b = steps >> 4 & 0x0f0f0f0f;
    // The residual minus four steps, plus 128 so that no byte borrows from the next; its highest bit then makes it
    // signed.
    const u32 a = negated ? 4 * steps_a + 0x7c7c7c7c - rest_a : rest_a + 0x84848484 - 4 * steps_a;
    const u32 b = negated ? 4 * steps_b + 0x7c7c7c7c - rest_b : rest_b + 0x84848484 - 4 * steps_b;
    low = static_cast<i32>(a ^ 0x80808080);
    high = static_cast<i32>(b ^ 0x80808080);
}

// The point of an index.
__device__ __forceinline__ void quarters_of_index(u32 index, i32& low, i32& high) {
    // One digit per byte, the first one lowest.
    const u32 upper = index >> 8 & 0xff, lower = index & 0xff;
    const u32 a = (upper * 0x01004010 & 0x03030300) | upper >> 6, b = (lower * 0x01004010 & 0x03030300) | lower >> 6;
    // `combine` and 12 more: half a unit, and a whole one for bytes that do not borrow.
    const u32 last = __byte_perm(b, 0, 0x3333);
    const u32 next_a = __byte_perm(a, b, 0x4321), next_b = b >> 8 & 0xffff;
    const u32 moved_a = 2 * (a + 0x06060606 - next_a + (a & 0xff)) + last, moved_b = 2 * ((b & 0xffffff) + 0x06060606 - next_b) + last;
    // The unit more in each of eight coordinates leaves their sum even or odd as it was.
    quarters(moved_a, moved_b, false, low, high);
}

// `coarser` for q = 4: the remainder of a point below the next coarser one is that of its class.
__device__ __forceinline__ void coarser_of_quarters(i32 (&g)[8], const Code& code) {
    u32 moved[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        const u32 low = __byte_perm(g[4 * k], g[4 * k + 1], 0x0040), high = __byte_perm(g[4 * k + 2], g[4 * k + 3], 0x0040);
        moved[k] = (__byte_perm(low, high, 0x5410) & 0x0f0f0f0f) + 0x04040404;
    }
    i32 less[2];
    quarters(moved[0], moved[1], true, less[0], less[1]);
#pragma unroll
    for (int k = 0; k < 8; ++k) g[k] = __dp4a(less[k / 4], code.place[k % 4], g[k]) >> 2;
}

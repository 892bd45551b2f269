// The functions of `tensor.cuh` for the emulation, with the operand layout of the PTX ISA.

namespace emulate {

// Shared memory addresses as on the device: dynamic shared memory starts at 1024 + 128.
inline unsigned char* shared_base() { return dynamic_shared() - 128 - 1024; }
inline unsigned char* shared_at(unsigned address) { return shared_base() + address; }

UNWATCHED inline float from_bf16(unsigned bits) {
    bits <<= 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Rounds to nearest, ties to even; NaN becomes the instruction's canonical NaN.
UNWATCHED inline unsigned to_bf16(float value) {
    if (value != value) return 0x7fff;
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

struct Multiplied {
    float* d;
    unsigned a[4], b[2];
};

// Adds 16 products to each of eight neighbours of a row, which the processor does at once: `a` is a row of 16, `b` has 16 rows at a
// distance of `apart`.
UNWATCHED inline void add_products(float* d, const float* a, const float* b, unsigned apart) {
    typedef float Eight __attribute__((vector_size(32)));
    Eight sum, right;
    std::memcpy(&sum, d, sizeof sum);
    for (unsigned k = 0; k < 16; ++k) {
        std::memcpy(&right, b + k * apart, sizeof right);
        sum += a[k] * right;
    }
    std::memcpy(d, &sum, sizeof sum);
}

// d += a b for the whole warp: 16 x 16 times 16 x 8.
UNWATCHED inline void multiply(const uint64_t* lanes) {
    float a[16][16], b[16][8], d[16][8];
    for (unsigned l = 0; l < 32; ++l) {
        const auto& given = *reinterpret_cast<const Multiplied*>(lanes[l]);
        const unsigned g = l / 4, t = l % 4;
        for (unsigned h = 0; h < 2; ++h) {
            for (unsigned r = 0; r < 4; ++r) a[g + r % 2 * 8][2 * t + r / 2 * 8 + h] = from_bf16(given.a[r] >> 16 * h & 0xffff);
            for (unsigned r = 0; r < 2; ++r) b[2 * t + r * 8 + h][g] = from_bf16(given.b[r] >> 16 * h & 0xffff);
        }
    }
    for (unsigned l = 0; l < 32; ++l)
        for (unsigned i = 0; i < 4; ++i) d[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2] = reinterpret_cast<const Multiplied*>(lanes[l])->d[i];
    for (unsigned row = 0; row < 16; ++row) add_products(d[row], a[row], b[0], 8);
    for (unsigned l = 0; l < 32; ++l)
        for (unsigned i = 0; i < 4; ++i) reinterpret_cast<const Multiplied*>(lanes[l])->d[i] = d[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
}

struct Loaded {
    unsigned* r;
    const unsigned char* row;
};

template <bool TRANSPOSED> UNWATCHED inline void load(const uint64_t* lanes) {
    const auto of = [lanes](unsigned l) { return *reinterpret_cast<const Loaded*>(lanes[l]); };
    for (unsigned l = 0; l < 32; ++l)
        for (unsigned i = 0; i < 4; ++i) {
            unsigned both = 0;
            for (unsigned h = 0; h < 2; ++h) {
                const unsigned major = l / 4, minor = l % 4 * 2 + h;
                unsigned short one;
                std::memcpy(&one, of(8 * i + (TRANSPOSED ? minor : major)).row + 2 * (TRANSPOSED ? major : minor), sizeof one);
                both |= unsigned(one) << 16 * h;
            }
            of(l).r[i] = both;
        }
}

inline void load_matrices(int line, unsigned* r, const void* row, void (*together)(const uint64_t*)) {
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0) fail("misaligned: " + place(*state->current) + ": ldmatrix of line " + std::to_string(line));
    const Loaded mine = {r, static_cast<const unsigned char*>(row)};
    WATCH(read(row, 16));
    exchange(line, "ldmatrix", 0xffffffffu, reinterpret_cast<uint64_t>(&mine), together);
}

}  // namespace emulate

inline unsigned shared_address(const void* at) {
    return static_cast<unsigned>(static_cast<const unsigned char*>(at) - emulate::shared_base());
}

inline void mma_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int line = __builtin_LINE()) {
    const emulate::Multiplied mine = {d, {a[0], a[1], a[2], a[3]}, {b0, b1}};
    emulate::exchange(line, "mma", 0xffffffffu, reinterpret_cast<uint64_t>(&mine), emulate::multiply);
}
inline void load_matrices(unsigned (&r)[4], const void* row, int line = __builtin_LINE()) {
    emulate::load_matrices(line, r, row, emulate::load<false>);
}
inline void load_matrices_transposed(unsigned (&r)[4], const void* row, int line = __builtin_LINE()) {
    emulate::load_matrices(line, r, row, emulate::load<true>);
}

namespace emulate {
inline void copied(const Copy& copy) {
    WATCH(write(copy.to, 16));
    if (copy.bytes > 0) WATCH(read(copy.from, copy.bytes));
    const Quiet quiet;
    std::memset(copy.to, 0, 16);
    std::memcpy(copy.to, copy.from, copy.bytes);
}
}  // namespace emulate

// Copies when a thread waits for it; in backward order, at once.
inline void copy_async(void* to, const void* from, unsigned bytes, int line = __builtin_LINE()) {
    using namespace emulate;
    Lane& me = *state->current;
    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16 != 0)
        fail("misaligned: " + place(me) + ": cp.async of line " + std::to_string(line));
    Copy copy = {static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes, me.copy_group};
    if (state->seed == 1) return copied(copy);
    // It may write at any time from here on.
    WATCH(write(to, 16));
    me.copies.push_back(copy);
}
inline void copy_commit() { ++emulate::state->current->copy_group; }
template <int LEFT> inline void copy_wait() {
    emulate::Lane& me = *emulate::state->current;
    size_t over = 0;
    for (; over < me.copies.size() && me.copies[over].group + LEFT < me.copy_group; ++over) emulate::copied(me.copies[over]);
    me.copies.erase(me.copies.begin(), me.copies.begin() + over);
}
inline unsigned two_bf16(float low, float high) { return emulate::to_bf16(low) | emulate::to_bf16(high) << 16; }

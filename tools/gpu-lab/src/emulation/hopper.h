// The functions of `hopper.cuh` for the emulation: barriers in shared memory with phases, swizzled copies of boxes,
// warpgroup products by descriptors. A product is computed when a thread waits for it; until then its sums are NaN. A
// tile store happens when a thread waits for its read; in backward order, at once.

struct __attribute__((aligned(64))) TensorMap {
    unsigned long long words[16];
};

namespace emulate {

// A tensor map as `Emulation::tensor_map` encodes it.
struct Map {
    uint64_t address, size[3], step[2], box[3];
};

// A barrier's 8 bytes: arrivals per phase, pending arrivals, pending bytes, completed phases.
struct Phase {
    uint16_t arrivals, left;
    int32_t rest;  // pending bytes times 2, plus the parity of the completed phases
};
static_assert(sizeof(Phase) == 8, "a barrier has 8 bytes");

inline Phase& phase_of(const void* barrier) { return *static_cast<Phase*>(const_cast<void*>(barrier)); }
inline int bytes_of(const Phase& phase) { return phase.rest >> 1; }
inline bool phase_over(const Lane& lane) { return unsigned(phase_of(lane.phase).rest & 1) != lane.parity; }

inline void arrive(Phase& phase, unsigned arrivals, int bytes) {
    if (arrivals > phase.left) fail("a barrier in shared memory has more arrivals than it was initialised for");
    phase.left -= arrivals;
    phase.rest += 2 * bytes;
    if (phase.left == 0 && bytes_of(phase) == 0) {
        WATCH(flip(&phase));
        phase.left = phase.arrivals;
        phase.rest ^= 1;
    }
}

UNWATCHED inline unsigned swizzled(unsigned address) { return address ^ (address >> 7 & 7) << 4; }

UNWATCHED inline void copy_box(const Map& map, unsigned to, Phase& phase, unsigned x, unsigned y, unsigned z, [[maybe_unused]] void* watched) {
    const Quiet quiet;
    const unsigned at[3] = {x, y, z};
    for (unsigned c = 0; c < map.box[2]; ++c)
        for (unsigned r = 0; r < map.box[1]; ++r)
            for (unsigned e = 0; e < map.box[0]; ++e) {
                const bool in = at[0] + e < map.size[0] && at[1] + r < map.size[1] && at[2] + c < map.size[2];
                const auto* from = reinterpret_cast<const unsigned char*>(map.address) + (at[2] + c) * map.step[1] + (at[1] + r) * map.step[0] + (at[0] + e) * 2;
                unsigned char* place = shared_at(swizzled(to + ((c * map.box[1] + r) * map.box[0] + e) * 2));
                if (e % 8 == 0) WATCH(engine_write(watched, &phase, place, 16));
                if (in) std::memcpy(place, from, 2);
                else std::memset(place, 0, 2);
            }
    WATCH(engine_done(watched, &phase));
    arrive(phase, 0, -int(map.box[0] * map.box[1] * map.box[2] * 2));
}

inline size_t map_bytes(const Map& map) { return map.box[0] * map.box[1] * map.box[2] * 2; }

inline void store_box(const Map& map, unsigned from, unsigned x, unsigned y, unsigned z) {
    const unsigned at[3] = {x, y, z};
    for (unsigned c = 0; c < map.box[2]; ++c)
        for (unsigned r = 0; r < map.box[1]; ++r)
            for (unsigned e = 0; e < map.box[0]; ++e) {
                if (at[0] + e >= map.size[0] || at[1] + r >= map.size[1] || at[2] + c >= map.size[2]) continue;
                auto* to = reinterpret_cast<unsigned char*>(map.address) + (at[2] + c) * map.step[1] + (at[1] + r) * map.step[0] + (at[0] + e) * 2;
                const unsigned char* place = shared_at(swizzled(from + ((c * map.box[1] + r) * map.box[0] + e) * 2));
                if (e % 8 == 0) WATCH(read(place, 16));
                WATCH(write(to, 2));
                const Quiet quiet;
                std::memcpy(to, place, 2);
            }
}

struct Stored {
    unsigned r[4];
    unsigned char* row;
};

inline void store_four(const uint64_t* lanes) {
    const auto of = [lanes](unsigned l) { return reinterpret_cast<const Stored*>(lanes[l]); };
    for (unsigned l = 0; l < 32; ++l)
        for (unsigned i = 0; i < 4; ++i) std::memcpy(of(8 * i + l / 4)->row + l % 4 * 4, &of(l)->r[i], 4);
}

// The matrix element that a descriptor refers to: `major` is along the rows of 128 bytes, 8 of which form a pattern.
UNWATCHED inline float element(uint64_t descriptor, unsigned row, unsigned along, bool transposed) {
    const unsigned start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
    if (descriptor >> 62 != 1) fail("a matrix descriptor does not select 128-byte swizzling");
    // If transposed, rows in memory run along the summed dimension.
    const unsigned at = transposed ? start + row / 64 * leading + row % 64 * 2 + along / 8 * stride + along % 8 * 128
                                   : start + row / 8 * stride + row % 8 * 128 + along * 2;
    unsigned short bits;
    std::memcpy(&bits, shared_at(swizzled(at)), sizeof bits);
    return from_bf16(bits);
}

#ifdef EMULATE_WATCHED
// What a product reads from shared memory, in chunks of 16 bytes.
inline void products_read(const Product& one, unsigned group) {
    const auto field = [](uint64_t descriptor, unsigned from) { return unsigned(descriptor >> from & 0x3fff) << 4; };
    const auto across = [&](uint64_t d, unsigned row, unsigned along) { return field(d, 0) + row / 8 * field(d, 32) + row % 8 * 128 + along * 2; };
    const auto along = [&](uint64_t d, unsigned n, unsigned k) { return field(d, 0) + n / 64 * field(d, 16) + n % 64 * 2 + k / 8 * field(d, 32) + k % 8 * 128; };
    const auto piece = [group](unsigned at) { watch_product_read(group, shared_at(swizzled(at)), 16); };
    if (one.registers) {
        for (unsigned k = 0; k < 16; ++k)
            for (unsigned n = 0; n < one.columns; n += 8) piece(along(one.right, n, k));
        return;
    }
    for (unsigned k = 0; k < 16; k += 8)
        for (unsigned m = 0; m < 64; ++m) piece(across(one.left, m, k));
    for (unsigned k = 0; k < 16; k += one.along ? 1 : 8)
        for (unsigned n = 0; n < one.columns; n += one.along ? 8 : 1) piece(one.along ? along(one.right, n, k) : across(one.right, n, k));
}
#endif

// Product `which` of the warpgroup whose first lane is `lanes`.
UNWATCHED inline void multiply(Lane* lanes, size_t which) {
    const Product& one = lanes[0].products[which];
    float a[64 * 16], b[16 * 256];
    // As large as the whole stack of a fiber.
    static thread_local float d[64 * 256];
    for (unsigned k = 0; k < 16; ++k)
        for (unsigned n = 0; n < one.columns; ++n) b[k * one.columns + n] = element(one.right, n, k, one.registers || one.along);
    for (unsigned l = 0; l < 128; ++l) {
        if (lanes[l].products.size() <= which || lanes[l].products[which].right != one.right || lanes[l].products[which].left != one.left)
            fail("divergent product: " + place(lanes[l]) + " has begun a different product from the first thread of its warpgroup");
        if (!one.registers) continue;
        for (unsigned r = 0; r < 4; ++r)
            for (unsigned h = 0; h < 2; ++h)
                a[(l / 32 * 16 + l % 32 / 4 + r % 2 * 8) * 16 + l % 4 * 2 + r / 2 * 8 + h] = from_bf16(lanes[l].products[which].a[r] >> 16 * h & 0xffff);
    }
    if (!one.registers)
        for (unsigned m = 0; m < 64; ++m)
            for (unsigned k = 0; k < 16; ++k) a[m * 16 + k] = element(one.left, m, k, false);
    // Position in the whole product of sum `i` of thread `l`.
    const auto place_of = [&](unsigned l, unsigned i) { return (l / 32 * 16 + l % 32 / 4 + i % 4 / 2 * 8) * one.columns + i / 4 * 8 + l % 4 * 2 + i % 2; };
    for (unsigned l = 0; l < 128; ++l) {
        const Product& mine = lanes[l].products[which];
        if (!mine.before.empty()) std::copy(mine.before.begin(), mine.before.end(), mine.sum);
        for (unsigned i = 0; i < one.columns / 2; ++i) d[place_of(l, i)] = mine.add ? mine.sum[i] : 0.0f;
    }
    for (unsigned m = 0; m < 64; ++m)
        for (unsigned n = 0; n < one.columns; n += 8) add_products(d + m * one.columns + n, a + m * 16, b + n, one.columns);
    for (unsigned l = 0; l < 128; ++l)
        for (unsigned i = 0; i < one.columns / 2; ++i) lanes[l].products[which].sum[i] = d[place_of(l, i)];
}

// All threads of the warpgroup call this; the last to arrive computes the products up to the group `until`.
inline void wait_products(int line, unsigned left) {
    Lane& me = *state->current;
    const size_t first = linear(me) & ~127u;
    me.state = at_warpgroup;
    me.line = line;
    me.what = "wgmma.wait_group";
    me.begun = false;
    if (first + 128 > state->lanes.size()) fail("a warpgroup has 128 threads: " + place(me) + " is in one with fewer");
    Lane* lanes = &state->lanes[first];
    for (unsigned l = 0; l < 128; ++l)
        if (lanes[l].state != at_warpgroup || lanes[l].line != line) return leave();
    size_t over = 0;
    for (; over < me.products.size() && me.products[over].group + left < me.product_group; ++over) {
#ifdef EMULATE_WATCHED
        products_read(me.products[over], unsigned(first / 128));
#endif
        const Quiet quiet;
        multiply(lanes, over);
    }
    WATCH(products_over(unsigned(first), unsigned(first / 128)));
    for (unsigned l = 0; l < 128; ++l) {
        lanes[l].products.erase(lanes[l].products.begin(), lanes[l].products.begin() + over);
        lanes[l].state = ready;
    }
}

inline void begin(int line, Product product) {
    Lane& me = *state->current;
    if (!me.begun) fail("no fence: " + place(me) + ": wgmma of line " + std::to_string(line) + " without wgmma.fence since registers could change");
    bool under_way = false;
    for (const Product& other : me.products) under_way = under_way || other.sum == product.sum;
    if (!under_way) {
        product.before.assign(product.sum, product.sum + product.columns / 2);
        std::fill(product.sum, product.sum + product.columns / 2, __builtin_nanf(""));
    }
    product.group = me.product_group;
#ifdef EMULATE_WATCHED
    if (linear(me) % 32 == 0) products_read(product, linear(me) / 128);
#endif
    me.products.push_back(product);
}

inline void part(int line, const char* what, unsigned id, unsigned threads, bool wait) {
    Lane& me = *state->current;
    if (id == 0 || id > 15) fail("named barriers are numbered from 1 to 15");
    WATCH(part(id, state->parts[id] + 1 == threads));
    if (++state->parts[id] < threads) {
        if (!wait) return;
        me.state = at_part;
        me.line = line;
        me.what = what;
        me.part = id;
        return leave();
    }
    state->parts[id] = 0;
    for (Lane& lane : state->lanes)
        if (lane.state == at_part && lane.part == id) {
            WATCH(part_over(id, linear(lane)));
            lane.state = ready;
        }
    if (wait) WATCH(part_over(id, linear(me)));
}

}  // namespace emulate

inline void barrier_init(unsigned long long* barrier, unsigned arrivals) {
    WATCH(phase_made(barrier));
    emulate::state->current->unseen = true;
    const emulate::Quiet quiet;
    emulate::phase_of(barrier) = {uint16_t(arrivals), uint16_t(arrivals), 0};
}
inline void barriers_made() { emulate::state->current->unseen = false; }
inline void barrier_arrive_expect(unsigned long long* barrier, unsigned bytes) {
    WATCH(arrive(barrier));
    const emulate::Quiet quiet;
    emulate::arrive(emulate::phase_of(barrier), 1, int(bytes));
}
inline void barrier_arrive(unsigned long long* barrier) { barrier_arrive_expect(barrier, 0); }
inline void barrier_wait(unsigned long long* barrier, unsigned parity, int line = __builtin_LINE()) {
    emulate::Lane& me = *emulate::state->current;
    me.phase = reinterpret_cast<const uint64_t*>(barrier);
    me.parity = parity;
    if (!emulate::phase_over(me)) {
        me.state = emulate::at_phase;
        me.line = line;
        me.what = "mbarrier.try_wait";
        emulate::leave();
    }
    WATCH(waited(barrier));
}
inline void tile_copy(void* to, const TensorMap& map, unsigned long long* barrier, unsigned x, unsigned y, unsigned z, int line = __builtin_LINE()) {
    using namespace emulate;
    const unsigned address = shared_address(to);
    if (address % 1024 != 0) fail("misaligned: " + place(*state->current) + ": the tile of line " + std::to_string(line) + " does not start at a multiple of 1024 bytes");
    for (const Lane& lane : state->lanes)
        if (lane.unseen) fail("no fence: " + place(lane) + " has made a barrier that the copy engine cannot see, but line " + std::to_string(line) + " copies a tile with it");
    Map what;
    std::memcpy(&what, &map, sizeof what);
    void* watched = nullptr;
#ifdef EMULATE_WATCHED
    watched = watch_engine(barrier);
#endif
    auto copy = [=] { copy_box(what, address, phase_of(barrier), x, y, z, watched); };
    if (state->seed == 1) copy();
    else state->engine.push_back(copy);
}
inline void map_ahead(const TensorMap&) {}
inline void store_matrices(void* row, const unsigned (&r)[4], int line = __builtin_LINE()) {
    using namespace emulate;
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0) fail("misaligned: " + place(*state->current) + ": stmatrix of line " + std::to_string(line));
    const Stored mine = {{r[0], r[1], r[2], r[3]}, static_cast<unsigned char*>(row)};
    state->current->unfenced = true;
    WATCH(write(row, 16));
    exchange(line, "stmatrix", 0xffffffffu, reinterpret_cast<uint64_t>(&mine), store_four);
}
inline void shared_written() { emulate::state->current->unfenced = false; }
inline void tile_store(const TensorMap& map, const void* from, unsigned x, unsigned y, unsigned z, int line = __builtin_LINE()) {
    using namespace emulate;
    Lane& me = *state->current;
    const unsigned address = shared_address(from);
    if (address % 1024 != 0) fail("misaligned: " + place(me) + ": the tile of line " + std::to_string(line) + " does not start at a multiple of 1024 bytes");
    // All threads of a warpgroup write the tiles that one thread stores.
    for (size_t l = linear(me) & ~size_t(127); l < state->lanes.size() && l < (linear(me) | 127u) + 1; ++l)
        if (state->lanes[l].unfenced) fail("no fence: " + place(state->lanes[l]) + " has written shared memory that line " + std::to_string(line) + " stores");
    Map what;
    std::memcpy(&what, &map, sizeof what);
    auto store = [=] { store_box(what, address, x, y, z); };
    // It may read at any time from here on.
    WATCH(read(from, map_bytes(what)));
    if (state->seed == 1) store();
    else me.stores.push_back({store, me.store_group});
}
inline void stores_commit() { ++emulate::state->current->store_group; }
template <int LEFT> inline void stores_read() {
    emulate::Lane& me = *emulate::state->current;
    for (; !me.stores.empty() && me.stores.front().second + LEFT < me.store_group; me.stores.pop_front()) me.stores.front().first();
}
inline void part_wait(unsigned id, unsigned threads, int line = __builtin_LINE()) { emulate::part(line, "bar.sync", id, threads, true); }
inline void part_arrive(unsigned id, unsigned threads, int line = __builtin_LINE()) { emulate::part(line, "bar.arrive", id, threads, false); }
template <int REGISTERS> inline void registers_down() {}
template <int REGISTERS> inline void registers_up() {}
inline void products_begin() { emulate::state->current->begun = true; }
inline void products_commit() { ++emulate::state->current->product_group; }
inline void behind(bool never, int line = __builtin_LINE()) {
    if (never) emulate::fail("trap: " + emulate::place(*emulate::state->current) + " of line " + std::to_string(line));
}
template <int N> inline void hold(float (&)[N]) {}
template <int LEFT, int N> inline void products_wait(float (&)[N], int line = __builtin_LINE()) { emulate::wait_products(line, LEFT); }
inline void product_shared(float (&d)[64], unsigned long long a, unsigned long long b, int add, int line = __builtin_LINE()) {
    emulate::begin(line, {d, 128, 0, false, add != 0, {}, a, b, {}});
}
inline void product_shared(float (&d)[88], unsigned long long a, unsigned long long b, int add, int line = __builtin_LINE()) {
    emulate::begin(line, {d, 176, 0, false, add != 0, {}, a, b, {}});
}
inline void product_shared(float (&d)[96], unsigned long long a, unsigned long long b, int add, int line = __builtin_LINE()) {
    emulate::begin(line, {d, 192, 0, false, add != 0, {}, a, b, {}, true});
}
template <int N> inline void product_registers(float (&d)[N], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned long long b, int line = __builtin_LINE()) {
    emulate::begin(line, {d, 2 * N, 0, true, true, {a0, a1, a2, a3}, 0, b, {}});
}

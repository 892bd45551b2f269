// Runs portable CUDA C++ on a CPU, for tests: a C++ compiler compiles the kernels' source after this header.
//
// Every CUDA thread of a block is a fiber with a separate stack. A fiber runs until it waits: at a barrier of its
// block, or at a collective of its warp until all lanes in the mask have reached the same one. If no fiber can run and
// some have not finished, they have diverged, and the error lists the lines where they wait. Fibers run forward,
// backward or in a random order by seed: a result that depends on the order is a race.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define SHARED_BYTES(name) unsigned char* const name = emulate::dynamic_shared()
#define NOT_A_NUMBER __builtin_nanf("")
#define INFINITE __builtin_inff()

struct uint3 { unsigned x, y, z; };
typedef uint3 dim3;
template <class T, int N> struct emulated_vector;
template <class T> struct __attribute__((aligned(2 * sizeof(T)))) emulated_vector<T, 2> { T x, y; };
template <class T> struct __attribute__((aligned(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)))) emulated_vector<T, 4> { T x, y, z, w; };
typedef emulated_vector<float, 2> float2;
typedef emulated_vector<float, 4> float4;
typedef emulated_vector<unsigned, 2> uint2;
typedef emulated_vector<unsigned, 4> uint4;
typedef emulated_vector<unsigned long long, 2> ulonglong2;
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

extern "C" void emulate_switch(void** save, void* load) __attribute__((visibility("hidden")));
#if defined(__x86_64__)
// Saves callee-saved registers on the stack, then switches to the other fiber's stack.
asm(R"(
.text
.hidden emulate_switch
.globl emulate_switch
.type emulate_switch,@function
emulate_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulate_switch,.-emulate_switch
)");
#else
#error "the emulation of CUDA threads supports only x86-64"
#endif

// Events for the race detector (`watch/events.h`), if kernels are compiled for it.
#ifdef EMULATE_WATCHED
#define WATCH(call) watch_##call
// For hot functions of the emulation.
#define UNWATCHED __attribute__((no_sanitize("thread")))
#else
#define WATCH(call) ((void)0)
#define UNWATCHED
#endif

namespace emulate {

// Accesses by the emulation itself do not count as a thread's.
struct Quiet {
    Quiet() { WATCH(quiet(1)); }
    ~Quiet() { WATCH(quiet(-1)); }
};

enum State { ready, at_barrier, at_collective, at_warpgroup, at_part, at_phase, done };

// A copy of 16 bytes that a thread started (`tensor.h`).
struct Copy {
    unsigned char* to;
    const unsigned char* from;
    unsigned bytes, group;
};

// A product of a warpgroup that was started (`hopper.h`): this thread's part of it.
struct Product {
    float* sum;
    unsigned columns, group;
    bool registers, add;
    unsigned a[4];
    uint64_t left, right;
    std::vector<float> before;
    // True if the right side is stored along its columns, as it is if the left one is in registers.
    bool along = false;
};

struct Lane {
    void* stack_pointer = nullptr;
    State state = ready;
    uint3 thread{};
    int line = 0;
    const char* what = "";
    unsigned mask = 0;
    uint64_t given = 0;
    uint64_t seen[32];
    // The barrier in shared memory and the parity that the lane waits for, or the number of a named barrier.
    const uint64_t* phase = nullptr;
    unsigned parity = 0, part = 0;
    unsigned copy_group = 0, product_group = 0;
    bool begun = false;
    // True if it has written shared memory that the copy engine cannot see yet; the stores that it has started
    // (`hopper.h`).
    bool unfenced = false;
    // True if it has initialised a barrier that the copy engine cannot see yet.
    bool unseen = false;
    unsigned store_group = 0;
    std::deque<std::pair<std::function<void()>, unsigned>> stores;
    std::vector<Copy> copies;
    std::vector<Product> products;
};

struct Block {
    std::vector<Lane> lanes;
    std::vector<unsigned> order;
    unsigned char* stacks = nullptr;
    size_t stacks_held = 0;
    void* scheduler = nullptr;
    Lane* current = nullptr;
    uint3 grid{}, block{}, index{};
    std::vector<unsigned char> shared;
    std::string problem;
    void (*body)(void*) = nullptr;
    void* argument = nullptr;
    unsigned seed = 0;
    // Requests that the copy engine has not completed.
    std::deque<std::function<void()>> engine;
    // Number of threads that have reached each named barrier.
    unsigned parts[16] = {};
};

constexpr size_t stack_bytes = 64 << 10;
inline thread_local Block* state = nullptr;

// As on the device, dynamic shared memory is aligned to 128 and not to 1024.
inline unsigned char* dynamic_shared() {
    auto at = reinterpret_cast<uintptr_t>(state->shared.data());
    return reinterpret_cast<unsigned char*>(((at + 1023) & ~uintptr_t(1023)) + 128);
}

// True if the phase that a lane waits for is over (`hopper.h`).
inline bool phase_over(const Lane& lane);

inline unsigned linear(const Lane& lane) {
    return static_cast<unsigned>(&lane - state->lanes.data());
}

inline std::string place(const Lane& lane) {
    char text[160];
    std::snprintf(text, sizeof text, "thread (%u,%u,%u) of block (%u,%u,%u)", lane.thread.x, lane.thread.y, lane.thread.z,
                  state->index.x, state->index.y, state->index.z);
    return text;
}

inline std::string stands(const Lane& lane) {
    if (lane.state == done) return "has returned";
    return std::string("waits at ") + lane.what + " of line " + std::to_string(lane.line);
}

UNWATCHED inline void leave() { emulate_switch(&state->current->stack_pointer, state->scheduler); }

// Ends the block and abandons its fibers.
[[noreturn]] inline void fail(const std::string& problem) {
    if (state->problem.empty()) state->problem = problem;
    leave();
    std::abort();
}

inline void barrier(int line, const char* what = "__syncthreads") {
    Lane& me = *state->current;
    me.state = at_barrier;
    me.line = line;
    me.what = what;
    leave();
}

// True if a lane waits at the same collective as `me`.
UNWATCHED inline bool meets(const Lane& lane, const Lane& me) {
    return lane.state == at_collective && lane.line == me.line && lane.mask == me.mask &&
           (lane.what == me.what || std::strcmp(lane.what, me.what) == 0);
}

// All lanes of the mask pass a value and receive those of the others. The last one may act for all while the others
// wait.
UNWATCHED inline const uint64_t* exchange(int line, const char* what, unsigned mask, uint64_t given, void (*together)(const uint64_t*) = nullptr) {
    Lane& me = *state->current;
    const unsigned self = linear(me), first = self & ~31u;
    if (!(mask >> (self & 31) & 1))
        fail("wrong mask: " + place(me) + ": its own lane is not in the mask of " + what + " of line " + std::to_string(line));
    me.state = at_collective;
    me.line = line;
    me.what = what;
    me.mask = mask;
    me.given = given;
    for (unsigned k = unsigned(state->lanes.size()) - first; k < 32; ++k)
        if (mask >> k & 1)
            fail("wrong mask: " + place(me) + ": the mask of " + what + " of line " + std::to_string(line) + " names lane " + std::to_string(k) +
                 ", which this block does not have");
    Lane* const lanes = &state->lanes[first];
    for (unsigned k = 0; k < 32; ++k)
        if ((mask >> k & 1) && !meets(lanes[k], me)) {
            leave();
            return me.seen;
        }
    uint64_t seen[32];
    for (unsigned k = 0; k < 32; ++k) seen[k] = mask >> k & 1 ? lanes[k].given : 0xdeadbeefdeadbeefull;
    for (unsigned k = 0; k < 32; ++k) {
        if (!(mask >> k & 1)) continue;
        std::memcpy(lanes[k].seen, seen, sizeof seen);
        lanes[k].state = ready;
    }
    if (std::strcmp(what, "__syncwarp") == 0) WATCH(warp(first, mask));
    if (together) {
        const Quiet quiet;
        together(me.seen);
    }
    return me.seen;
}

template <class T> inline uint64_t bits(T value) {
    static_assert(sizeof(T) <= 8, "shuffles exchange up to 64 bits");
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
}
template <class T> inline T value(uint64_t word) {
    T value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

enum Direction { indexed, up, down, crossed };
template <class T>
inline T shuffle(int line, const char* what, Direction direction, unsigned mask, T given, unsigned by, int width = 32) {
    const unsigned self = linear(*state->current) & 31, base = self & ~(static_cast<unsigned>(width) - 1);
    const uint64_t* seen = exchange(line, what, mask, bits(given));
    unsigned from = self;
    if (direction == indexed) from = base + (by & (width - 1));
    if (direction == up && self - base >= by) from = self - by;
    if (direction == down && self - base + by < static_cast<unsigned>(width)) from = self + by;
    if (direction == crossed && (self ^ by) < base + width) from = self ^ by;
    if (!(mask >> from & 1)) fail("wrong mask: " + place(*state->current) + ": " + what + " of line " + std::to_string(line) + " reads a lane outside its mask");
    return value<T>(seen[from]);
}

inline unsigned ballot(int line, unsigned mask, bool vote) {
    const uint64_t* seen = exchange(line, "__ballot_sync", mask, vote);
    unsigned votes = 0;
    for (unsigned k = 0; k < 32; ++k) votes |= (mask >> k & 1) && seen[k] ? 1u << k : 0;
    return votes;
}

inline void enter() {
    state->body(state->argument);
    state->current->state = done;
    leave();
    std::abort();
}

inline void prepare(Lane& lane, unsigned char* top) {
    auto* words = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t(15));
    *--words = nullptr;
    *--words = reinterpret_cast<void*>(&enter);
    for (int k = 0; k < 6; ++k) *--words = nullptr;
    lane.stack_pointer = words;
}

// No fiber can run. Either all wait at the same barrier, or the copy engine has work, or threads have diverged.
inline bool release() {
    Block& b = *state;
    const Lane* odd = nullptr;
    for (const Lane& lane : b.lanes)
        if (lane.state != at_barrier || lane.line != b.lanes[0].line) odd = &lane;
    if (!odd) {
        WATCH(all());
        for (Lane& lane : b.lanes) lane.state = ready;
        return true;
    }
    if (!b.engine.empty()) {
        b.engine.front()();
        b.engine.pop_front();
        return b.problem.empty();
    }
    const Lane* stuck = nullptr;
    for (const Lane& lane : b.lanes)
        if (lane.state == at_collective) stuck = &lane;
    if (stuck) {
        const unsigned first = linear(*stuck) & ~31u;
        for (unsigned k = 0; k < 32 && first + k < b.lanes.size(); ++k) {
            const Lane& other = b.lanes[first + k];
            if ((stuck->mask >> k & 1) && !meets(other, *stuck)) {
                b.problem = "divergent collective: " + place(*stuck) + " " + stands(*stuck) + ", but lane " + std::to_string(k) +
                            " of its mask " + stands(other);
                return false;
            }
        }
    }
    for (const Lane& lane : b.lanes)
        if (lane.state == at_phase || lane.state == at_part || lane.state == at_warpgroup) {
            b.problem = "deadlock: " + place(lane) + " " + stands(lane) + ", and no thread can run";
            return false;
        }
    const Lane* waiting = nullptr;
    for (const Lane& lane : b.lanes)
        if (lane.state == at_barrier) waiting = &lane;
    for (const Lane& lane : b.lanes)
        if (waiting && (lane.state != at_barrier || lane.line != waiting->line)) odd = &lane;
    b.problem = "barrier divergence: " + (waiting ? place(*waiting) + " " + stands(*waiting) + ", but " : std::string()) + place(*odd) +
                " " + stands(*odd);
    return false;
}

inline bool run_block() {
    Block& b = *state;
    std::fill(b.shared.begin(), b.shared.end(), 0xff);
    std::fill(std::begin(b.parts), std::end(b.parts), 0);
    b.engine.clear();
    for (size_t k = 0; k < b.lanes.size(); ++k) {
        Lane& lane = b.lanes[k];
        lane = Lane();
        lane.thread = {unsigned(k % b.block.x), unsigned(k / b.block.x % b.block.y), unsigned(k / b.block.x / b.block.y)};
        prepare(lane, b.stacks + (k + 1) * stack_bytes);
    }
    for (;;) {
        bool ran = false, unfinished = false;
        for (unsigned k : b.order) {
            Lane& lane = b.lanes[k];
            if (lane.state == at_phase && phase_over(lane)) lane.state = ready;
            if (lane.state == ready) {
                b.current = &lane;
                WATCH(turn(int(k)));
                emulate_switch(&b.scheduler, lane.stack_pointer);
                WATCH(turn(-1));
                ran = true;
                if (!b.problem.empty()) return false;
            }
            unfinished = unfinished || lane.state != done;
        }
        if (!unfinished && !b.engine.empty()) b.problem = "the block has ended, but no thread has waited for a copy that it started";
        for (const Lane& lane : b.lanes)
            if (!unfinished && !lane.stores.empty()) b.problem = "the block has ended, but " + place(lane) + " has not waited for a tile to be stored";
        for (unsigned id = 0; id < 16; ++id)
            if (!unfinished && b.parts[id] != 0) b.problem = "the block has ended, but barrier " + std::to_string(id) + " of a part still waits for threads";
        if (!unfinished) return b.problem.empty();
        if (!ran && !release()) return false;
    }
}

// Runs a grid. Returns an empty string or the error, valid until the next call.
inline const char* run(void (*body)(void*), void* argument, const unsigned* grid, const unsigned* block, unsigned shared, unsigned seed) {
    static thread_local Block held;
    state = &held;
    Block& b = held;
    b.problem.clear();
    b.grid = {grid[0], grid[1], grid[2]};
    b.block = {block[0], block[1], block[2]};
    b.body = body;
    b.argument = argument;
    b.shared.resize(shared + 2048);
    b.seed = seed;
    const size_t threads = size_t(block[0]) * block[1] * block[2];
    if (threads == 0 || threads > 1024) return "a block must have from 1 to 1024 threads";
    if (shared > 227 << 10) return "a block has at most 227 KiB of shared memory";
    if (b.stacks_held < threads) {
        if (b.stacks) munmap(b.stacks, b.stacks_held * stack_bytes);
        void* stacks = mmap(nullptr, threads * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) return "out of memory for the threads' stacks";
        b.stacks = static_cast<unsigned char*>(stacks);
        b.stacks_held = threads;
    }
    b.lanes.assign(threads, Lane());
    b.order.resize(threads);
    for (size_t k = 0; k < threads; ++k) b.order[k] = unsigned(seed == 1 ? threads - 1 - k : k);
    uint64_t random = seed * 0x9e3779b97f4a7c15ull;
    const uint64_t blocks = uint64_t(grid[0]) * grid[1] * grid[2];
    WATCH(launch(grid, block, reinterpret_cast<const void*>(body), &held, sizeof held, &state));
    for (uint64_t at = 0; at < blocks; ++at) {
        if (seed > 1)
            for (size_t k = threads; k > 1; --k) {
                random = random * 6364136223846793005ull + 1442695040888963407ull;
                std::swap(b.order[k - 1], b.order[(random >> 33) % k]);
            }
        const uint64_t index = seed == 1 ? blocks - 1 - at : at;
        b.index = {unsigned(index % grid[0]), unsigned(index / grid[0] % grid[1]), unsigned(index / grid[0] / grid[1])};
        WATCH(block(unsigned(index), b.stacks, b.stacks_held * stack_bytes, b.shared.data(), b.shared.size(), dynamic_shared(), shared));
        const bool fine = run_block();
#ifdef EMULATE_WATCHED
        const std::string seen = watch_end();
        if (!seen.empty()) b.problem = seen;
#endif
        if (!fine || !b.problem.empty()) return b.problem.c_str();
    }
    return "";
}

template <class... A, size_t... I> inline void apply(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A*>(arguments[I])...);
}
template <class... A> inline void apply(void (*kernel)(A...), void** arguments) {
    apply(kernel, arguments, std::index_sequence_for<A...>());
}

/// A letter for a parameter's type, as in `Arg::letter` (`source.rs`).
template <class T> constexpr char letter() {
    if (std::is_pointer<T>::value) return 'p';
    if (std::is_same<T, float>::value) return 'f';
    if (std::is_same<T, double>::value) return 'd';
    if (std::is_integral<T>::value) return sizeof(T) == 4 ? 'u' : sizeof(T) == 8 ? 'l' : '?';
    return sizeof(T) == 128 ? 'm' : '?';
}
template <class... A> inline const char* takes(void (*)(A...)) {
    static const char letters[] = {letter<A>()..., 0};
    return letters;
}

}  // namespace emulate

#define EMULATE_KERNEL(name)                                                                                             \
    extern "C" const char* emulate_##name(void** arguments, const unsigned* grid, const unsigned* block, unsigned shared, \
                                          unsigned seed) {                                                               \
        return emulate::run([](void* given) { emulate::apply(name, static_cast<void**>(given)); }, arguments, grid,     \
                            block, shared, seed);                                                                        \
    }                                                                                                                    \
    extern "C" const char* emulate_takes_##name() { return emulate::takes(name); }

#define threadIdx (emulate::state->current->thread)
#define blockIdx (emulate::state->index)
#define blockDim (emulate::state->block)
#define gridDim (emulate::state->grid)
#define __syncthreads() emulate::barrier(__LINE__)
#define __syncwarp(...) ((void)emulate::exchange(__LINE__, "__syncwarp", emulate::mask_of(__VA_ARGS__), 0))
#define __shfl_sync(...) emulate::shuffle_at(__LINE__, "__shfl_sync", emulate::indexed, __VA_ARGS__)
#define __shfl_up_sync(...) emulate::shuffle_at(__LINE__, "__shfl_up_sync", emulate::up, __VA_ARGS__)
#define __shfl_down_sync(...) emulate::shuffle_at(__LINE__, "__shfl_down_sync", emulate::down, __VA_ARGS__)
#define __shfl_xor_sync(...) emulate::shuffle_at(__LINE__, "__shfl_xor_sync", emulate::crossed, __VA_ARGS__)
#define __ballot_sync(mask, vote) emulate::ballot(__LINE__, mask, vote)
#define __any_sync(mask, vote) (emulate::ballot(__LINE__, mask, vote) != 0)
#define __all_sync(mask, vote) (emulate::ballot(__LINE__, mask, vote) == (mask))

namespace emulate {
inline unsigned mask_of(unsigned mask = 0xffffffffu) { return mask; }
template <class T> inline T shuffle_at(int line, const char* what, Direction direction, unsigned mask, T given, unsigned by, int width = 32) {
    return shuffle(line, what, direction, mask, given, by, width);
}
}  // namespace emulate

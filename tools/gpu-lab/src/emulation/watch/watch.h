// Finds races in emulated kernels: state about threads from the emulation, and the judgement of memory accesses.
//
// Kernels are compiled with a call before every memory access, as for the compiler's thread sanitizer; here the calls
// go to `access` (hooks.cpp). Vector clocks decide whether two accesses are ordered (Fidge 1988; Mattern 1989), stored
// as in FastTrack (Flanagan and Freund, PLDI 2009): the last write and the reads since then, per word.
//
// The PTX memory model defines what orders accesses: barriers of the block and of a part of it, `__syncwarp`, phases of
// barriers in shared memory, and across blocks a fence, an atomic operation, another one that observes it, and a fence.
// Shuffles and votes order nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace watch {

// A logical time: a number that grows at every release by any thread.
typedef uint32_t Moment;

// Other actors in shared memory: the copy engine, one per barrier that its copies complete on, and warpgroup products.
constexpr unsigned most_barriers = 64, most_groups = 8;

// Reads of one word, by actor and time; shared by number, because many words are read by the same threads at the same
// time.
struct Readers {
    std::vector<std::pair<unsigned, Moment>> who;
    Moment last = 0;
    bool threads_only = true;
};

// A set of readers and one more.
struct MoreReaders {
    uint32_t set;
    unsigned who;
    Moment when;
    bool operator==(const MoreReaders& other) const { return set == other.set && who == other.who && when == other.when; }
    struct Hash {
        size_t operator()(const MoreReaders& one) const {
            const uint64_t word = (uint64_t(one.set) << 32 | one.when) ^ uint64_t(one.who) << 21;
            return size_t((word * 0x9e3779b97f4a7c15ull) >> 17);
        }
    };
};

struct Cell {
    uint32_t launch = 0, block = 0, readers_block = 0;
    // Blocks that read it before `readers_block`: none, one, or several.
    uint32_t earlier = 0;
    Moment written = 0;
    uint32_t readers = 0;
    uint32_t write_at = 0, read_at = 0;
    uint16_t writer = 0;
    bool atomic = false, defined = false;
};
constexpr uint32_t several = ~0u;

// Cells of a memory range: one per word, four if a word is accessed in parts.
struct Shadow {
    uintptr_t start = 0;
    // Bytes rounded up to whole words, and the actual number.
    size_t bytes = 0, held = 0;
    std::vector<Cell> words;
    std::vector<int> parts;
    std::vector<Cell> split;
    void begin(uintptr_t at, size_t size);
    template <class F> void each(uintptr_t at, size_t size, F what);
};

// What a thread had done or seen at a fence.
struct Release {
    uint32_t block;
    unsigned who;
    Moment base, when;
    std::vector<Moment> seen;
    std::vector<const Release*> others;
};

struct Thread {
    std::vector<Moment> seen;
    const Release* release = nullptr;
    std::vector<const Release*> met, acquired;
};

// A barrier in shared memory, or a named barrier.
struct Meeting {
    unsigned number = 0;
    std::vector<Moment> gathering, complete;
};

struct Range {
    uintptr_t from = 0, to = 0;
    bool holds(uintptr_t at) const { return at - from < to - from; }
};

struct Watch {
    // Not watched: stacks, and the emulation's data.
    Range stacks, emulator;
    uintptr_t state = 0;
    bool running = false;
    int thread = -1, quiet = 0;
    unsigned threads = 0;
    uint32_t launch = 0, block = 0;
    Moment now = 1, base = 0;
    unsigned shape[3] = {}, grid[3] = {};
    Range library;
    // Dynamic shared memory with the memory around it, and the kernels' static shared variables.
    Range asked;
    Shadow dynamic, variables;
    std::map<uintptr_t, Shadow> buffers;
    Shadow* last = nullptr;
    std::vector<Thread> lanes;
    std::vector<Readers> readers;
    std::unordered_map<MoreReaders, uint32_t, MoreReaders::Hash> more_readers;
    std::map<const void*, Meeting> phases;
    Meeting parts[16];
    std::deque<Release> releases;
    std::unordered_map<uintptr_t, std::vector<const Release*>> atomics;
    std::unordered_map<uint32_t, std::vector<const Release*>> known;
    std::string problem, library_name;

    unsigned actors() const { return threads + most_barriers + most_groups; }
    std::string name(unsigned actor, uint32_t of_block) const;
    // Text for an instruction, from which its line can be found.
    std::string place(uintptr_t pc) const;
    void report(const std::string& what);
};

// Read before every access: initial-exec puts it at a fixed offset in thread-local memory, of which late-loaded
// libraries have only a little.
extern thread_local Watch* watched __attribute__((tls_model("initial-exec")));

enum Access { read, write, atomic };

// Guard around every buffer, which nothing may read.
constexpr size_t guard = 4096;

// The actor of an access, with what it had seen; null for the running thread.
struct Actor {
    unsigned who;
    const std::vector<Moment>* seen;
    Moment when;
};
void judge_access(Watch& w, uintptr_t at, size_t size, Access how, uintptr_t pc, const Actor* actor);

inline void access(uintptr_t at, size_t size, Access how, uintptr_t pc, const Actor* actor = nullptr) {
    Watch* w = watched;
    if (!w || !w->running || w->stacks.holds(at) || at == w->state || w->emulator.holds(at)) return;
    if (actor || (w->thread >= 0 && w->quiet == 0)) judge_access(*w, at, size, how, pc, actor);
}
void join(std::vector<Moment>& to, const std::vector<Moment>& from);

}  // namespace watch

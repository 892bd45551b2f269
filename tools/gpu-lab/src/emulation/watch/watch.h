// Finds races in emulated kernels: what the emulation tells of its threads, and where accesses to memory are judged.
//
// Kernels are compiled with calls before every access to memory, as a compiler makes them for its own thread sanitizer; here
// they end in `access` (hooks.cpp). Whether two accesses are in order is a matter of vector clocks (Fidge 1988; Mattern 1989),
// kept as FastTrack keeps them (Flanagan and Freund, PLDI 2009): the last write and the reads since then, for each word.
//
// What orders accesses is what the PTX memory model says it is: barriers of the block and of a part of it, `__syncwarp`, phases
// of barriers in shared memory, and across blocks a fence, an atomic operation, another one that sees it, and a fence. Shuffles and
// votes order nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace watch {

// A moment: a number that grows at every release, of whichever thread.
typedef uint32_t Moment;

// Who accesses shared memory beside the threads: the copy engine, as one for each barrier that its copies end on, and products
// of a warpgroup.
constexpr unsigned most_barriers = 64, most_groups = 8;

// Reads of one word, by whom and when; numbered, because many words are read by the same threads at the same time.
struct Readers {
    std::vector<std::pair<unsigned, Moment>> who;
    Moment last = 0;
    bool threads_only = true;
};

struct Cell {
    uint32_t launch = 0, block = 0, readers_block = 0;
    // Blocks that have read it before `readers_block`: none, one, or more than one.
    uint32_t earlier = 0;
    Moment written = 0;
    uint32_t readers = 0;
    uint32_t write_at = 0, read_at = 0;
    uint16_t writer = 0;
    bool atomic = false, defined = false;
};
constexpr uint32_t several = ~0u;

// Cells of a stretch of memory: one for each word, four where a word is accessed in parts.
struct Shadow {
    uintptr_t start = 0;
    // Whole words of cells, and what there really is.
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

// A barrier in shared memory, or one of a part of the block.
struct Meeting {
    unsigned number = 0;
    std::vector<Moment> gathering, complete;
};

struct Range {
    uintptr_t from = 0, to = 0;
    bool holds(uintptr_t at) const { return at - from < to - from; }
};

struct Watch {
    // Not watched: stacks, and what the emulation keeps.
    Range stacks, emulator;
    uintptr_t state = 0;
    bool running = false;
    int thread = -1, quiet = 0;
    unsigned threads = 0;
    uint32_t launch = 0, block = 0;
    Moment now = 1, base = 0;
    unsigned shape[3] = {}, grid[3] = {};
    Range library;
    // Shared memory that the launch asked for, with what lies around it, and that of the kernels' own variables.
    Range asked;
    Shadow dynamic, variables;
    std::map<uintptr_t, Shadow> buffers;
    Shadow* last = nullptr;
    std::vector<Thread> lanes;
    std::vector<Readers> readers;
    std::map<std::tuple<uint32_t, unsigned, Moment>, uint32_t> more_readers;
    std::map<const void*, Meeting> phases;
    Meeting parts[16];
    std::deque<Release> releases;
    std::unordered_map<uintptr_t, std::vector<const Release*>> atomics;
    std::unordered_map<uint32_t, std::vector<const Release*>> known;
    std::string problem, library_name;

    unsigned actors() const { return threads + most_barriers + most_groups; }
    std::string name(unsigned actor, uint32_t of_block) const;
    // An instruction, for who looks up its line.
    std::string place(uintptr_t pc) const;
    void report(const std::string& what);
};

// Looked up before every access: at a fixed distance in the thread's memory, of which libraries that are loaded late have a little.
extern thread_local Watch* watched __attribute__((tls_model("initial-exec")));

enum Access { read, write, atomic };

// Room around every buffer that nobody may read.
constexpr size_t guard = 4096;

// An access by an actor who had seen as much; nothing for the thread that runs.
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

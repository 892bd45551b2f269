// Events from the emulation: launches, blocks, the current thread, and everything that orders accesses.
#include <link.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "events.h"
#include "watch.h"

#define PLACE reinterpret_cast<uintptr_t>(__builtin_return_address(0))

using namespace watch;

namespace {

Watch& mine() {
    static thread_local std::unique_ptr<Watch> held;
    if (!held) held.reset(new Watch);
    return *held;
}

struct Looked {
    uintptr_t code;
    Range library, variables;
    const char* name;
};

// The library that contains `code`, and this thread's instances of its thread-local variables.
int look(dl_phdr_info* info, size_t, void* given) {
    Looked& looked = *static_cast<Looked*>(given);
    bool here = false;
    for (int k = 0; k < info->dlpi_phnum; ++k) {
        const auto& part = info->dlpi_phdr[k];
        const uintptr_t from = info->dlpi_addr + part.p_vaddr;
        here = here || (part.p_type == PT_LOAD && from <= looked.code && looked.code < from + part.p_memsz);
    }
    if (!here) return 0;
    looked.name = info->dlpi_name;
    looked.library = {info->dlpi_addr, info->dlpi_addr};
    for (int k = 0; k < info->dlpi_phnum; ++k)
        if (info->dlpi_phdr[k].p_type == PT_TLS) {
            const auto at = reinterpret_cast<uintptr_t>(info->dlpi_tls_data);
            looked.variables = {at, at + info->dlpi_phdr[k].p_memsz};
        }
    return 1;
}

Moment released(Watch& w, unsigned thread) {
    Thread& me = w.lanes[thread];
    me.seen[thread] = w.now;
    return w.now++;
}

Thread& current(Watch& w) { return w.lanes[size_t(w.thread)]; }

}  // namespace

extern "C" {

// The existing buffers: address and size of each.
void watch_buffers(const uint64_t* buffers, size_t count) {
    Watch& w = mine();
    watched = &w;
    w.last = nullptr;
    std::map<uintptr_t, Shadow> now;
    for (size_t k = 0; k < count; ++k) {
        const uintptr_t at = buffers[2 * k];
        const size_t bytes = buffers[2 * k + 1];
        const auto held = w.buffers.find(at);
        if (bytes == 0) continue;
        if (held != w.buffers.end() && held->second.held == bytes) now[at] = std::move(held->second);
        else now[at].begin(at, bytes);
    }
    w.buffers = std::move(now);
}

void watch_launch(const unsigned* grid, const unsigned* block, const void* code, const void* emulator, size_t emulator_bytes, const void* state) {
    Watch& w = mine();
    std::memcpy(w.grid, grid, sizeof w.grid);
    std::memcpy(w.shape, block, sizeof w.shape);
    w.threads = block[0] * block[1] * block[2];
    ++w.launch;
    w.now = 1;
    w.problem.clear();
    w.releases.clear();
    w.atomics.clear();
    Looked looked = {reinterpret_cast<uintptr_t>(code), {}, {}, ""};
    dl_iterate_phdr(look, &looked);
    w.library = looked.library;
    w.library_name = looked.name;
    w.emulator = {reinterpret_cast<uintptr_t>(emulator), reinterpret_cast<uintptr_t>(emulator) + emulator_bytes};
    w.state = reinterpret_cast<uintptr_t>(state);
    w.variables.begin(looked.variables.from, looked.variables.to - looked.variables.from);
}

void watch_block(unsigned index, const void* stacks, size_t stack_bytes, const void* shared, size_t shared_bytes, const void* asked, size_t asked_bytes) {
    Watch& w = mine();
    const auto range = [](const void* at, size_t bytes) { return Range{reinterpret_cast<uintptr_t>(at), reinterpret_cast<uintptr_t>(at) + bytes}; };
    w.block = index + 1;
    w.base = w.now++;
    w.stacks = range(stacks, stack_bytes);
    w.asked = range(asked, asked_bytes);
    w.dynamic.begin(reinterpret_cast<uintptr_t>(shared), shared_bytes);
    w.variables.begin(w.variables.start, w.variables.bytes);
    w.lanes.assign(w.threads, Thread());
    for (Thread& lane : w.lanes) lane.seen.assign(w.actors(), 0);
    w.readers.clear();
    w.more_readers.clear();
    w.phases.clear();
    for (Meeting& part : w.parts) part = Meeting();
    w.known.clear();
    w.quiet = 0;
    w.running = true;
}

// Stops watching until the next block starts.
const char* watch_end() {
    Watch& w = mine();
    w.running = false;
    w.thread = -1;
    return w.problem.c_str();
}

void watch_turn(int thread) { mine().thread = thread; }
void watch_quiet(int by) { mine().quiet += by; }

void watch_read(const void* at, size_t bytes) { access(reinterpret_cast<uintptr_t>(at), bytes, read, PLACE); }
void watch_write(const void* at, size_t bytes) { access(reinterpret_cast<uintptr_t>(at), bytes, write, PLACE); }

// An atomic operation: in global memory, it acquires what other atomics on the same word have released.
void watch_atomic(const void* at, size_t bytes) {
    Watch& w = mine();
    const auto address = reinterpret_cast<uintptr_t>(at);
    access(address, bytes, atomic, PLACE);
    Thread& me = current(w);
    auto& there = w.atomics[address];
    me.met.insert(me.met.end(), there.begin(), there.end());
    if (me.release) there.push_back(me.release);
}

void watch_fence() {
    Watch& w = mine();
    Thread& me = current(w);
    for (const Release* release : me.met) {
        me.acquired.push_back(release);
        me.acquired.insert(me.acquired.end(), release->others.begin(), release->others.end());
    }
    me.met.clear();
    const unsigned who = unsigned(w.thread);
    const Moment when = released(w, who);
    std::vector<const Release*> others = me.acquired;
    for (const auto& known : w.known) others.insert(others.end(), known.second.begin(), known.second.end());
    w.releases.push_back({w.block, who, w.base, when, me.seen, std::move(others)});
    me.release = &w.releases.back();
}

// All threads have reached a block barrier.
void watch_all() {
    Watch& w = mine();
    w.base = w.now++;
    std::vector<Moment> beside(w.actors());
    for (Thread& lane : w.lanes) {
        for (unsigned k = w.threads; k < w.actors(); ++k) beside[k] = std::max(beside[k], lane.seen[k]);
        for (const Release* release : lane.acquired) w.known[release->block].push_back(release);
        lane.acquired.clear();
    }
    for (Thread& lane : w.lanes) std::copy(beside.begin() + w.threads, beside.end(), lane.seen.begin() + w.threads);
}

void watch_warp(unsigned first, unsigned mask) {
    Watch& w = mine();
    std::vector<Moment> seen(w.actors());
    std::vector<const Release*> acquired;
    for (unsigned k = 0; k < 32; ++k) {
        if (!(mask >> k & 1)) continue;
        w.lanes[first + k].seen[first + k] = w.now;
        join(seen, w.lanes[first + k].seen);
        const auto& have = w.lanes[first + k].acquired;
        acquired.insert(acquired.end(), have.begin(), have.end());
    }
    ++w.now;
    for (unsigned k = 0; k < 32; ++k)
        if (mask >> k & 1) w.lanes[first + k].seen = seen, w.lanes[first + k].acquired = acquired;
}

// A named barrier: `over` if this thread is the last; waiting threads synchronise in `watch_part_over`.
void watch_part(unsigned id, int over) {
    Watch& w = mine();
    Meeting& part = w.parts[id];
    released(w, unsigned(w.thread));
    join(part.gathering, current(w).seen);
    if (!over) return;
    part.complete = std::move(part.gathering);
    part.gathering.clear();
}
void watch_part_over(unsigned id, unsigned thread) {
    Watch& w = mine();
    join(w.lanes[thread].seen, w.parts[id].complete);
}

void watch_phase_made(const void* barrier) {
    Watch& w = mine();
    access(reinterpret_cast<uintptr_t>(barrier), 8, write, PLACE);
    const unsigned number = unsigned(w.phases.size());
    if (number >= most_barriers) w.report("there are more barriers in shared memory than the race detector supports");
    w.phases[barrier] = Meeting{std::min(number, most_barriers - 1), {}, {}};
}
// The barrier itself must be initialised, in an order visible to all.
static Meeting& phase(Watch& w, const void* barrier, uintptr_t pc) {
    access(reinterpret_cast<uintptr_t>(barrier), 8, read, pc);
    return w.phases[barrier];
}
void watch_arrive(const void* barrier) {
    Watch& w = mine();
    Meeting& meeting = phase(w, barrier, PLACE);
    released(w, unsigned(w.thread));
    join(meeting.gathering, current(w).seen);
}
void watch_flip(const void* barrier) {
    Meeting& meeting = mine().phases[barrier];
    meeting.complete = std::move(meeting.gathering);
    meeting.gathering.clear();
}
void watch_waited(const void* barrier) {
    Watch& w = mine();
    join(current(w).seen, phase(w, barrier, PLACE).complete);
}

// A copy by the engine: captures what its thread has seen, and passes that to every access of the copy.
void* watch_engine(const void* barrier) {
    Watch& w = mine();
    phase(w, barrier, PLACE);
    released(w, unsigned(w.thread));
    return new std::vector<Moment>(current(w).seen);
}
void watch_engine_write(void* copy, const void* barrier, const void* at, size_t bytes) {
    Watch& w = mine();
    const Actor actor = {w.threads + w.phases[barrier].number, static_cast<std::vector<Moment>*>(copy), w.now};
    access(reinterpret_cast<uintptr_t>(at), bytes, write, PLACE, &actor);
}
void watch_engine_done(void* copy, const void* barrier) {
    Watch& w = mine();
    Meeting& meeting = w.phases[barrier];
    meeting.gathering.resize(w.actors());
    meeting.gathering[w.threads + meeting.number] = w.now++;
    delete static_cast<std::vector<Moment>*>(copy);
}

// A warpgroup product reads shared memory from its start until a thread waits for it: reported at both ends.
void watch_product_read(unsigned group, const void* at, size_t bytes) {
    Watch& w = mine();
    const Actor actor = {w.threads + most_barriers + group % most_groups, &current(w).seen, w.now};
    access(reinterpret_cast<uintptr_t>(at), bytes, read, PLACE, &actor);
}
void watch_products_over(unsigned first, unsigned group) {
    Watch& w = mine();
    for (unsigned l = first; l < first + 128; ++l) w.lanes[l].seen[w.threads + most_barriers + group % most_groups] = w.now;
    ++w.now;
}
}

// Judges accesses: in bounds, initialised, and ordered with those of others.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "watch.h"

namespace watch {

thread_local Watch* watched = nullptr;

void Shadow::begin(uintptr_t at, size_t size) {
    const size_t count = (at % 4 + size + 3) / 4;
    start = at - at % 4;
    bytes = count * 4;
    held = at % 4 + size;
    words.assign(count, Cell());
    parts.assign(count, -1);
    split.clear();
}

// Calls `what` with every cell of these bytes. The first partial access of a word splits its cell into one per byte.
template <class F> void Shadow::each(uintptr_t at, size_t size, F what) {
    for (uintptr_t end = at + size; at < end;) {
        const size_t word = (at - start) / 4, first = at % 4, count = std::min<size_t>(4 - first, end - at);
        if (count == 4 && parts[word] < 0) {
            what(words[word]);
        } else {
            if (parts[word] < 0) {
                parts[word] = int(split.size());
                split.insert(split.end(), 4, words[word]);
            }
            for (size_t k = 0; k < count; ++k) what(split[parts[word] + first + k]);
        }
        at += count;
    }
}

void join(std::vector<Moment>& to, const std::vector<Moment>& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (size_t k = 0; k < from.size(); ++k) to[k] = std::max(to[k], from[k]);
}

std::string Watch::name(unsigned actor, uint32_t of_block) const {
    const uint32_t b = of_block - 1;
    char text[160], where[80];
    std::snprintf(where, sizeof where, "block (%u,%u,%u)", b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]);
    if (actor < threads)
        std::snprintf(text, sizeof text, "thread (%u,%u,%u) of %s", actor % shape[0], actor / shape[0] % shape[1], actor / shape[0] / shape[1], where);
    else if (actor < threads + most_barriers)
        std::snprintf(text, sizeof text, "the copy engine for %s", where);
    else
        std::snprintf(text, sizeof text, "a product of warpgroup %u of %s", actor - threads - most_barriers, where);
    return text;
}

std::string Watch::place(uintptr_t pc) const {
    char at[40];
    std::snprintf(at, sizeof at, "+0x%zx}", size_t(pc - library.from));
    return " {" + library_name + at;
}

// Reports the first error only, since later ones may follow from it.
void Watch::report(const std::string& what) {
    if (problem.empty()) problem = what;
}

namespace {

// True if an access of this block happened before the actor's current one.
bool before(const Watch& w, const Actor& actor, unsigned who, Moment when) {
    return who == actor.who || (who < w.threads && when <= w.base) || (*actor.seen)[who] >= when;
}

bool known(const Release& release, unsigned threads, unsigned who, Moment when) {
    return (who < threads && when <= release.base) || (who == release.who && when <= release.when) || release.seen[who] >= when;
}

// The same for an access of an earlier block.
bool before_elsewhere(const Watch& w, const Actor& actor, uint32_t block, unsigned who, Moment when) {
    const auto all = w.known.find(block);
    if (all != w.known.end())
        for (const Release* release : all->second)
            if (known(*release, w.threads, who, when)) return true;
    if (actor.who < w.threads)
        for (const Release* release : w.lanes[actor.who].acquired)
            if (release->block == block && known(*release, w.threads, who, when)) return true;
    return false;
}

uint32_t with_reader(Watch& w, uint32_t set, const Actor& actor) {
    if (w.readers.empty()) w.readers.emplace_back();
    if (set != 0) {
        const Readers& held = w.readers[set];
        if (held.who.size() == 1 && held.who[0].first == actor.who && held.who[0].second == actor.when) return set;
        // Reads that happened before this one can be forgotten: whatever is ordered after this one is also ordered
        // after them.
        if (held.threads_only && held.last <= w.base) set = 0;
    }
    const MoreReaders key = {set, actor.who, actor.when};
    const auto found = w.more_readers.find(key);
    if (found != w.more_readers.end()) return found->second;
    Readers more = w.readers[set];
    bool there = false;
    for (auto& one : more.who)
        if (one.first == actor.who) one.second = actor.when, there = true;
    if (!there) more.who.push_back({actor.who, actor.when});
    more.last = std::max(more.last, actor.when);
    more.threads_only = more.threads_only && actor.who < w.threads;
    w.readers.push_back(more);
    const uint32_t id = uint32_t(w.readers.size() - 1);
    w.more_readers.emplace(key, id);
    return id;
}

struct Told {
    Watch& w;
    const Actor& actor;
    Access how;
    size_t size;
    uintptr_t at, pc;
    const char* memory;

    std::string me() const {
        char text[120];
        const char* does = how == read ? "reads" : how == write ? "writes" : "changes";
        std::snprintf(text, sizeof text, " %s %zu bytes of %s memory from byte %zd on", does, size, memory, ptrdiff_t(at));
        return w.name(actor.who, w.block) + text + w.place(pc);
    }
    void race(unsigned who, uint32_t block, const char* did, uint32_t place) const {
        w.report("race: " + me() + "; " + w.name(who, block) + " " + did + w.place(place + w.library.from) + ", and nothing orders the two");
    }
};

void judge(const Told& told, Cell& cell, bool shared) {
    Watch& w = told.w;
    const Actor& actor = told.actor;
    if (cell.launch != w.launch) {
        const bool defined = cell.defined;
        cell = Cell();
        cell.launch = w.launch;
        cell.defined = defined;
    }
    // The last write.
    const bool both_atomic = cell.atomic && told.how == atomic;
    if (cell.written != 0 && !both_atomic) {
        const bool fine = cell.block == w.block ? before(w, actor, cell.writer, cell.written)
                                                : before_elsewhere(w, actor, cell.block, cell.writer, cell.written);
        if (!fine) told.race(cell.writer, cell.block, cell.atomic ? "changed it" : "wrote it", cell.write_at);
    }
    if (told.how == read) {
        if (shared && !cell.defined) w.report("undefined: " + told.me() + ", which no thread has written");
        if (cell.readers_block != w.block) {
            if (cell.readers_block != 0) cell.earlier = cell.earlier == 0 ? cell.readers_block : several;
            cell.readers = 0;
            cell.readers_block = w.block;
        }
        cell.readers = with_reader(w, cell.readers, actor);
        cell.read_at = uint32_t(told.pc - w.library.from);
        return;
    }
    // The reads since then.
    if (cell.readers_block == w.block && cell.readers != 0) {
        for (const auto& one : w.readers[cell.readers].who)
            if (!before(w, actor, one.first, one.second)) {
                told.race(one.first, w.block, "read it", cell.read_at);
                break;
            }
    } else if (cell.readers_block != 0 && w.known.find(cell.readers_block) == w.known.end()) {
        told.race(0, cell.readers_block, "or another thread of its block read it", cell.read_at);
    }
    if (cell.earlier != 0 && (cell.earlier == several ? w.known.size() + 1 < w.block : w.known.find(cell.earlier) == w.known.end()))
        told.race(0, cell.earlier == several ? 1 : cell.earlier, "or others read it", cell.read_at);
    cell.readers = cell.readers_block = cell.earlier = 0;
    cell.block = w.block;
    cell.writer = uint16_t(actor.who);
    cell.written = actor.when;
    cell.write_at = uint32_t(told.pc - w.library.from);
    cell.atomic = told.how == atomic;
    cell.defined = true;
}

Shadow* buffer_around(Watch& w, uintptr_t at) {
    const auto near = [&](const Shadow& s) { return s.start - guard <= at && at < s.start + s.bytes + guard; };
    if (w.last && near(*w.last)) return w.last;
    auto next = w.buffers.upper_bound(at + guard);
    if (next == w.buffers.begin()) return nullptr;
    Shadow& candidate = std::prev(next)->second;
    return near(candidate) ? w.last = &candidate : nullptr;
}

}  // namespace

void judge_access(Watch& w, uintptr_t at, size_t size, Access how, uintptr_t pc, const Actor* given) {
    if (!w.problem.empty()) return;
    const Actor own = {unsigned(w.thread), given ? nullptr : &w.lanes[size_t(w.thread)].seen, w.now};
    const Actor& actor = given ? *given : own;
    Shadow *shadow = nullptr, *const dynamic = &w.dynamic, *const variables = &w.variables;
    for (Shadow* one : {dynamic, variables})
        if (one->start <= at && at < one->start + one->bytes) shadow = one;
    const bool shared = shadow != nullptr;
    if (!shadow) shadow = buffer_around(w, at);
    if (!shadow) return;
    const uintptr_t first = shadow == dynamic ? w.asked.from : shadow->start;
    const Told told = {w, actor, how, size, at - first, pc, shared ? "shared" : "global"};
    const uintptr_t end = shadow == dynamic ? w.asked.to : shadow->start + shadow->held;
    if (at < first || at + size > end) {
        char text[120];
        std::snprintf(text, sizeof text, ", which is %s its %zu bytes", at < first ? "before" : "after", size_t(end - first));
        return w.report("out of bounds: " + told.me() + text);
    }
    shadow->each(at, size, [&](Cell& cell) { judge(told, cell, shared); });
}

}  // namespace watch

// A CUDA driver that runs on the CPU, to rehearse all host code: streams are threads with queues, kernels are those of
// the emulation (NAME.cu.so in the driver's folder), and it rejects what a real driver rejects. Its times mean nothing for a GPU;
// its device name states that.
//
// Settings, from the environment:
//   REHEARSAL_MEMORY=BYTES      memory of the device (4 GiB)
//   REHEARSAL_FAIL=KERNEL:CODE[:NTH[:BLOCKS]]   the NTH launch of a kernel (with BLOCKS blocks) fails with this error
//   REHEARSAL_HANG=KERNEL[:NTH[:BLOCKS]]        .. never ends
//   REHEARSAL_LOG=FILE          log of all calls; `misuse` marks reliance on behaviour that no driver guarantees
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

namespace rehearsal {

enum Result {
    ok = 0,
    invalid_value = 1,
    out_of_memory = 2,
    not_initialized = 3,
    no_device = 100,
    invalid_device = 101,
    invalid_image = 200,
    invalid_context = 201,
    no_binary = 209,
    invalid_handle = 400,
    not_found = 500,
    not_ready = 600,
    illegal_address = 700,
    out_of_resources = 701,
    launch_failed = 719,
    not_supported = 801,
    capture_unsupported = 900,
    capture_invalidated = 901,
    capture_unmatched = 903,
    captured_event = 907,
};

// An item of work in a stream.
struct Work {
    std::string what;
    std::function<int()> run;
};

// A gate that was enqueued and has not ended: closed while its word is less than its ticket.
struct Closed {
    const volatile uint32_t* opened;
    uint32_t ticket;
    bool closed() const { return int32_t(*opened - ticket) < 0; }
};

struct Context;

struct Stream {
    Context* context = nullptr;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Work> queue;
    bool busy = false;
    std::deque<Closed> gates;
    // A capture in progress: the work captured so far, and whether an illegal call invalidated it.
    bool capturing = false, spoiled = false;
    std::thread::id capturer;
    std::vector<Work> captured;
};

struct Event {
    // How often it was recorded, and the last record that the stream has reached.
    unsigned asked = 0;
    std::atomic<unsigned> over{0};
    bool captured = false;
    std::chrono::steady_clock::time_point at;
};

struct Parameter {
    unsigned offset, bytes;
};

struct Function {
    std::string name;
    std::vector<Parameter> parameters;
    unsigned registers = 0, local = 0, shared = 0, most_threads = 1024, dynamic = 0;
    const char* (*entry)(void**, const unsigned*, const unsigned*, unsigned, unsigned) = nullptr;
    bool gate = false, loaded = false;
    unsigned launches = 0;
};

struct Module {
    std::map<std::string, std::unique_ptr<Function>> functions;
};

struct Graph {
    std::vector<Work> nodes;
};

struct Context {
    bool retained = false;
    // The first error of asynchronous work; every later call returns it.
    std::atomic<int> lost{ok};
    std::map<uint64_t, size_t> memory;
    size_t held = 0;
    std::set<Stream*> streams;
};

// The state of the driver. Never destroyed, since threads may still use it when the process ends.
struct Driver {
    std::mutex mutex;
    bool started = false;
    Context context;
    std::set<void*> handles;
    std::map<uint64_t, size_t> pinned;
};
Driver& driver();

// Bytes of the device.
size_t memory_of_device();
// Appends a line to the log.
void note(const char* kind, const std::string& what);
inline int misuse(const std::string& what, int code) {
    note("misuse", what);
    return code;
}

// Returns this thread's context, or an error if the driver is not initialised or the context is missing or lost.
int current(Context*& context);
bool is_handle(const void* handle);

// Checks that a call is legal while this thread captures; an illegal one invalidates the capture.
int outside_capture(Context& context, const char* call);
// Enqueues work, or adds it to the capture.
int enqueue(Context& context, void* stream, Work work);
// Waits until a stream is idle or the context is lost.
int wait_for(Context& context, Stream& stream, const char* call);
// Waits for all streams, as synchronous calls do.
int wait_for_all(Context& context, const char* call);
bool idle(Context& context);

// True if a range is inside one allocation.
bool on_device(Context& context, uint64_t at, size_t bytes);
bool is_pinned(uint64_t at, size_t bytes);
// Names an overwritten guard of an allocation; empty if all are intact.
std::string damage(Context& context);

// Runs a kernel and returns its outcome.
int execute(Context& context, Stream& stream, Function& function, const unsigned* grid, const unsigned* block, unsigned shared,
            unsigned char* parameters, unsigned nth);
// Runs `body` so that an invalid access ends the kernel, not the process.
int sheltered(const std::function<int()>& body);

}  // namespace rehearsal

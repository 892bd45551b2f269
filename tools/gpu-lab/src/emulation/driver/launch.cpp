// Launches: which ones the driver rejects, and the outcome of a kernel.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "driver.h"

namespace rehearsal {
namespace {

// A setting `KERNEL:NUMBER..`: true if it applies to this launch.
bool is_about(const char* knob, const std::string& kernel, unsigned nth, uint64_t blocks, bool with_code, int& code) {
    const char* value = std::getenv(knob);
    if (!value) return false;
    std::vector<std::string> parts(1);
    for (const char* at = value; *at; ++at)
        if (*at == ':') parts.emplace_back();
        else parts.back() += *at;
    size_t at = 1;
    if (with_code) code = parts.size() > at ? std::atoi(parts[at++].c_str()) : int(launch_failed);
    const long which = parts.size() > at ? std::atol(parts[at++].c_str()) : 1;
    const long of_blocks = parts.size() > at ? std::atol(parts[at].c_str()) : 0;
    return parts[0] == kernel && (which == 0 || which == long(nth)) && (of_blocks == 0 || uint64_t(of_blocks) == blocks);
}

thread_local sigjmp_buf* shelter = nullptr;
struct sigaction before;

void wild_access(int signal, siginfo_t* info, void* where) {
    if (shelter) siglongjmp(*shelter, 1);
    // Not from a kernel: call the previous handler, which is Rust's message about a stack overflow, or end the process.
    if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) return before.sa_sigaction(signal, info, where);
    sigaction(signal, &before, nullptr);
}

// The gate: spins until its word reaches its ticket, or until its limit.
int spin(const unsigned char* parameters, const Function& function) {
    uint64_t opened, limit;
    uint32_t ticket;
    std::memcpy(&opened, parameters + function.parameters[0].offset, 8);
    std::memcpy(&ticket, parameters + function.parameters[1].offset, 4);
    std::memcpy(&limit, parameters + function.parameters[2].offset, 8);
    const Closed gate{reinterpret_cast<const volatile uint32_t*>(opened), ticket};
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit);
    while (gate.closed()) {
        if (std::chrono::steady_clock::now() >= end) {
            note("gate", "opened by its own limit");
            reinterpret_cast<volatile uint32_t*>(opened)[1] = ticket;
            break;
        }
        std::this_thread::yield();
    }
    return ok;
}

}  // namespace

int sheltered(const std::function<int()>& body) {
    static const bool installed = [] {
        struct sigaction action {};
        action.sa_sigaction = wild_access;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        return sigaction(SIGSEGV, &action, &before) == 0;
    }();
    // A separate stack, since a fiber's may have overflowed.
    static thread_local void* stack = nullptr;
    if (!stack) {
        stack = mmap(nullptr, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stack_t other{};
        other.ss_sp = stack;
        other.ss_size = 64 << 10;
        sigaltstack(&other, nullptr);
    }
    sigjmp_buf here;
    if (!installed || sigsetjmp(here, 1)) {
        shelter = nullptr;
        return illegal_address;
    }
    shelter = &here;
    const int code = body();
    shelter = nullptr;
    return code;
}

int execute(Context& context, Stream& stream, Function& function, const unsigned* grid, const unsigned* block, unsigned shared,
            unsigned char* parameters, unsigned nth) {
    if (function.gate) {
        const int code = spin(parameters, function);
        std::lock_guard<std::mutex> lock(stream.mutex);
        if (!stream.gates.empty()) stream.gates.pop_front();
        return code;
    }
    const uint64_t blocks = uint64_t(grid[0]) * grid[1] * grid[2];
    int planned = ok;
    if (is_about("REHEARSAL_HANG", function.name, nth, blocks, false, planned)) {
        note("hang", function.name);
        for (;;) std::this_thread::sleep_for(std::chrono::seconds(60));
    }
    if (is_about("REHEARSAL_FAIL", function.name, nth, blocks, true, planned)) return planned;
    std::vector<void*> pointers;
    for (const Parameter& each : function.parameters) pointers.push_back(parameters + each.offset);
    std::string said;
    const int code = sheltered([&] {
        said = function.entry(pointers.data(), grid, block, shared, 0);
        return int(ok);
    });
    if (code != ok) {
        note("kernel", function.name + " accessed unallocated memory");
        return code;
    }
    if (!said.empty()) {
        note("kernel", function.name + ": " + said);
        return launch_failed;
    }
    said = damage(context);
    if (!said.empty()) {
        note("kernel", function.name + " " + said);
        return illegal_address;
    }
    return ok;
}

}  // namespace rehearsal

using namespace rehearsal;

API cuLaunchKernel(void* handle, unsigned x, unsigned y, unsigned z, unsigned i, unsigned j, unsigned k, unsigned shared, void* stream,
                   void** arguments, void** extra) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!is_handle(handle)) return misuse("cuLaunchKernel: the function is invalid", invalid_handle);
    auto* function = static_cast<Function*>(handle);
    const std::string what = "launch of " + function->name + ", " + std::to_string(x) + " " + std::to_string(y) + " " + std::to_string(z) +
                             " blocks of " + std::to_string(i) + " " + std::to_string(j) + " " + std::to_string(k) + " threads, " +
                             std::to_string(shared) + " B";
    if (extra) return misuse(what + ": extra", not_supported);
    const uint64_t threads = uint64_t(i) * j * k;
    if (!x || !y || !z || !threads || x > 0x7fffffffu || y > 65535 || z > 65535 || i > 1024 || j > 1024 || k > 64 || threads > 1024)
        return misuse(what + ": beyond the limits of a grid", invalid_value);
    if (threads > function->most_threads) return misuse(what + ": more threads than its launch bounds", invalid_value);
    if (uint64_t(function->registers + 7) / 8 * 8 * ((threads + 31) / 32 * 32) > 65536) return misuse(what + ": registers", out_of_resources);
    const unsigned usual = (48u << 10) - std::min(48u << 10, function->shared);
    if (shared > std::max(usual, function->dynamic)) return misuse(what + ": more shared memory than it is allowed", invalid_value);
    size_t bytes = 0;
    for (const Parameter& each : function->parameters) bytes = std::max(bytes, size_t(each.offset) + each.bytes);
    // Copied now, and only the bytes that the kernel takes: the caller may change its copy afterwards.
    std::shared_ptr<unsigned char> copied(static_cast<unsigned char*>(std::aligned_alloc(128, (bytes + 255) / 128 * 128)), std::free);
    for (size_t at = 0; at < function->parameters.size(); ++at) {
        if (!arguments || !arguments[at]) return misuse(what + ": fewer arguments than it takes", invalid_value);
        std::memcpy(copied.get() + function->parameters[at].offset, arguments[at], function->parameters[at].bytes);
    }
    const unsigned nth = ++function->launches;
    // The first launch of a kernel loads it, unless it was loaded explicitly, and loading may wait for all running
    // work.
    if (!function->loaded && !idle(*context))
        if (const int code = wait_for_all(*context, "loading a kernel at its first launch")) return code;
    function->loaded = true;
    auto* to = static_cast<Stream*>(stream);
    if (function->gate && is_handle(stream) && !to->capturing) {
        uint64_t opened;
        uint32_t ticket;
        std::memcpy(&opened, copied.get() + function->parameters[0].offset, 8);
        std::memcpy(&ticket, copied.get() + function->parameters[1].offset, 4);
        if (!is_pinned(opened, 4)) return misuse(what + ": its word is not in page-locked memory", illegal_address);
        std::lock_guard<std::mutex> lock(to->mutex);
        to->gates.push_back({reinterpret_cast<const volatile uint32_t*>(opened), ticket});
    }
    return enqueue(*context, stream, {what, [=] {
                                          const unsigned grid[3] = {x, y, z}, block[3] = {i, j, k};
                                          return execute(*context, *to, *function, grid, block, shared, copied.get(), nth);
                                      }});
}

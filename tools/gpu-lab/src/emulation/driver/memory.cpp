// Device memory, which is this process's: between guards, filled with garbage, and limited in size; copies.
#include "driver.h"

namespace rehearsal {

static constexpr size_t guard = 512;
static constexpr unsigned char guard_byte = 0xa7, garbage = 0x5b;

bool on_device(Context& context, uint64_t at, size_t bytes) {
    std::lock_guard<std::mutex> lock(driver().mutex);
    auto found = context.memory.upper_bound(at);
    if (found == context.memory.begin()) return false;
    --found;
    return at - found->first <= found->second && bytes <= found->second - (at - found->first);
}

bool is_pinned(uint64_t at, size_t bytes) {
    std::lock_guard<std::mutex> lock(driver().mutex);
    auto found = driver().pinned.upper_bound(at);
    if (found == driver().pinned.begin()) return false;
    --found;
    return at - found->first <= found->second && bytes <= found->second - (at - found->first);
}

std::string damage(Context& context) {
    std::lock_guard<std::mutex> lock(driver().mutex);
    for (const auto& [at, bytes] : context.memory)
        for (const auto& [side, from] : {std::pair("before", at - guard), std::pair("after", at + bytes)})
            for (size_t k = 0; k < guard; ++k)
                if (reinterpret_cast<const unsigned char*>(from)[k] != guard_byte)
                    return std::string("wrote ") + side + " an array of " + std::to_string(bytes) + " bytes, at byte " +
                           std::to_string(k) + " of its guard";
    return "";
}

// Copies immediately, as synchronous calls do.
static int now(Context& context, const char* call, uint64_t device, size_t bytes, const std::function<void()>& copy) {
    if (const int code = outside_capture(context, call)) return code;
    if (!on_device(context, device, bytes)) return misuse(std::string(call) + " beyond an array of the device", invalid_value);
    // With several streams, work in the others may be unrelated.
    if (context.streams.size() == 1 && !idle(context)) misuse(std::string(call) + " while the stream is busy, and the call does not wait for it", ok);
    copy();
    return ok;
}

// Copies in stream order; for pageable memory the caller waits for all earlier work.
static int queued(const char* call, uint64_t device, uint64_t host, size_t bytes, void* stream, std::function<void()> copy) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!on_device(*context, device, bytes)) return misuse(std::string(call) + " beyond an array of the device", invalid_value);
    const bool pinned = is_pinned(host, bytes);
    if (!pinned && is_pinned(host, 1)) return misuse(std::string(call) + " beyond page-locked memory", invalid_value);
    if (!pinned)
        if (const int code = outside_capture(*context, call)) return code;
    const std::string what = std::string(call) + " of " + std::to_string(bytes) + (pinned ? " pinned" : " pageable");
    const int code = enqueue(*context, stream, {what, [copy = std::move(copy)] {
                                                    copy();
                                                    return int(ok);
                                                }});
    if (code != ok || pinned) return code;
    return wait_for(*context, *static_cast<Stream*>(stream), call);
}

static void* bytes_at(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace rehearsal

using namespace rehearsal;

API cuMemGetInfo_v2(size_t* unused, size_t* all) {
    Context* context;
    if (const int code = current(context)) return code;
    *all = memory_of_device();
    *unused = *all - context->held;
    return ok;
}

API cuMemAlloc_v2(uint64_t* at, size_t bytes) {
    Context* context;
    if (const int code = current(context)) return code;
    if (const int code = outside_capture(*context, "cuMemAlloc")) return code;
    if (bytes == 0) return invalid_value;
    if (context->held + bytes > memory_of_device()) return out_of_memory;
    auto* start = static_cast<unsigned char*>(std::aligned_alloc(512, (bytes + 2 * guard + 511) & ~size_t(511)));
    if (!start) return out_of_memory;
    std::memset(start, guard_byte, guard);
    std::memset(start + guard, garbage, bytes);
    std::memset(start + guard + bytes, guard_byte, guard);
    *at = reinterpret_cast<uint64_t>(start) + guard;
    std::lock_guard<std::mutex> lock(driver().mutex);
    context->memory[*at] = bytes;
    context->held += bytes;
    note("call", "cuMemAlloc of " + std::to_string(bytes));
    return ok;
}

// Waits for the device, as a real driver does; freed memory becomes garbage at once.
API cuMemFree_v2(uint64_t at) {
    Context* context;
    if (const int code = current(context)) return code;
    if (const int code = outside_capture(*context, "cuMemFree")) return code;
    const int code = wait_for_all(*context, "cuMemFree");
    if (code != ok) return code;
    std::lock_guard<std::mutex> lock(driver().mutex);
    const auto found = context->memory.find(at);
    if (found == context->memory.end()) return misuse("cuMemFree of an address that is not an array", invalid_value);
    context->held -= found->second;
    std::memset(bytes_at(at), garbage, found->second);
    context->memory.erase(found);
    std::free(bytes_at(at - guard));
    note("call", "cuMemFree");
    return ok;
}

API cuMemHostAlloc(void** at, size_t bytes, unsigned) {
    Context* context;
    if (const int code = current(context)) return code;
    if (const int code = outside_capture(*context, "cuMemHostAlloc")) return code;
    if (const int code = wait_for_all(*context, "cuMemHostAlloc")) return code;
    *at = bytes ? std::aligned_alloc(4096, (bytes + 4095) & ~size_t(4095)) : nullptr;
    if (!*at) return bytes ? out_of_memory : invalid_value;
    std::memset(*at, garbage, bytes);
    std::lock_guard<std::mutex> lock(driver().mutex);
    driver().pinned[reinterpret_cast<uint64_t>(*at)] = bytes;
    return ok;
}

API cuMemFreeHost(void* at) {
    Context* context;
    if (const int code = current(context)) return code;
    if (const int code = outside_capture(*context, "cuMemFreeHost")) return code;
    if (const int code = wait_for_all(*context, "cuMemFreeHost")) return code;
    std::lock_guard<std::mutex> lock(driver().mutex);
    if (!driver().pinned.erase(reinterpret_cast<uint64_t>(at))) return misuse("cuMemFreeHost of other memory", invalid_value);
    std::free(at);
    return ok;
}

API cuMemHostGetDevicePointer_v2(uint64_t* at, void* host, unsigned flags) {
    *at = reinterpret_cast<uint64_t>(host);
    return flags == 0 && is_pinned(*at, 1) ? ok : invalid_value;
}

API cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
    Context* context;
    if (const int code = current(context)) return code;
    // A real copy may still be in flight when the call returns, and no stream here waits for it.
    misuse("cuMemcpyHtoD while other streams do not wait for it", ok);
    return now(*context, "cuMemcpyHtoD", to, bytes, [=] { std::memcpy(bytes_at(to), from, bytes); });
}

API cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
    Context* context;
    if (const int code = current(context)) return code;
    return now(*context, "cuMemcpyDtoH", from, bytes, [=] { std::memcpy(to, bytes_at(from), bytes); });
}

API cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
    const auto host = reinterpret_cast<uint64_t>(from);
    return queued("cuMemcpyHtoDAsync", to, host, bytes, stream, [=] { std::memcpy(bytes_at(to), from, bytes); });
}

API cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
    const auto host = reinterpret_cast<uint64_t>(to);
    return queued("cuMemcpyDtoHAsync", from, host, bytes, stream, [=] { std::memcpy(to, bytes_at(from), bytes); });
}

API cuMemsetD8Async(uint64_t at, unsigned char byte, size_t bytes, void* stream) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!on_device(*context, at, bytes)) return misuse("cuMemsetD8Async beyond an array of the device", invalid_value);
    return enqueue(*context, stream, {"cuMemsetD8Async of " + std::to_string(bytes), [=] {
                                          std::memset(bytes_at(at), byte, bytes);
                                          return int(ok);
                                      }});
}

// Graphs by stream capture, and tensor maps.
#include "driver.h"

using namespace rehearsal;

API cuStreamBeginCapture_v2(void* handle, int mode) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!is_handle(handle)) return misuse("cuStreamBeginCapture: the stream is invalid", invalid_handle);
    if (mode < 0 || mode > 2) return invalid_value;
    auto& stream = *static_cast<Stream*>(handle);
    std::lock_guard<std::mutex> lock(stream.mutex);
    if (stream.capturing) return misuse("cuStreamBeginCapture of a stream that is already being captured", capture_unsupported);
    stream.capturing = true;
    stream.spoiled = false;
    stream.capturer = std::this_thread::get_id();
    stream.captured.clear();
    return ok;
}

API cuStreamEndCapture(void* handle, void** graph) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!is_handle(handle)) return misuse("cuStreamEndCapture: the stream is invalid", invalid_handle);
    auto& stream = *static_cast<Stream*>(handle);
    std::unique_lock<std::mutex> lock(stream.mutex);
    *graph = nullptr;
    if (!stream.capturing) return misuse("cuStreamEndCapture without a capture", invalid_value);
    if (stream.capturer != std::this_thread::get_id()) return misuse("cuStreamEndCapture on another thread", capture_unmatched);
    stream.capturing = false;
    std::vector<Work> nodes = std::move(stream.captured);
    stream.captured.clear();
    if (stream.spoiled) return capture_invalidated;
    lock.unlock();
    auto* made = new Graph{std::move(nodes)};
    *graph = made;
    std::lock_guard<std::mutex> all(driver().mutex);
    driver().handles.insert(made);
    note("call", "captured " + std::to_string(made->nodes.size()) + " launches");
    return ok;
}

// An executable graph; enqueued work outlives it.
struct Executable {
    std::shared_ptr<const std::vector<Work>> nodes;
    bool uploaded = false;
};

API cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long flags) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!is_handle(graph)) return misuse("cuGraphInstantiate: the graph is invalid", invalid_handle);
    if (flags != 0) return invalid_value;
    auto* executable = new Executable{std::make_shared<const std::vector<Work>>(static_cast<Graph*>(graph)->nodes)};
    *made = executable;
    std::lock_guard<std::mutex> lock(driver().mutex);
    driver().handles.insert(executable);
    return ok;
}

static int destroy(void* handle, const char* call) {
    std::lock_guard<std::mutex> lock(driver().mutex);
    return driver().handles.erase(handle) ? ok : misuse(std::string(call) + ": the handle is invalid", invalid_handle);
}

// Graphs belong to no context: they can be destroyed after a context is lost.
API cuGraphDestroy(void* graph) {
    const int code = destroy(graph, "cuGraphDestroy");
    if (code == ok) delete static_cast<Graph*>(graph);
    return code;
}

API cuGraphExecDestroy(void* graph) {
    const int code = destroy(graph, "cuGraphExecDestroy");
    if (code == ok) delete static_cast<Executable*>(graph);
    return code;
}

API cuGraphUpload(void* graph, void* stream) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!is_handle(graph)) return misuse("cuGraphUpload: the graph is invalid", invalid_handle);
    if (is_handle(stream) && static_cast<Stream*>(stream)->capturing) return outside_capture(*context, "cuGraphUpload");
    static_cast<Executable*>(graph)->uploaded = true;
    return enqueue(*context, stream, {"upload of a graph", [] { return int(ok); }});
}

API cuGraphLaunch(void* graph, void* stream) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!is_handle(graph)) return misuse("cuGraphLaunch: the graph is invalid", invalid_handle);
    auto nodes = static_cast<Executable*>(graph)->nodes;
    return enqueue(*context, stream, {"graph of " + std::to_string(nodes->size()), [nodes, context] {
                                          for (const Work& node : *nodes)
                                              if (const int code = node.run()) return code;
                                          return int(ok);
                                      }});
}

// The layout of `Map` in `hopper.h`: address, sizes, strides in bytes, box.
API cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, const uint64_t* size, const uint64_t* step, const unsigned* box,
                           const unsigned* element_step, int interleave, int swizzle, int promotion, int fill) {
    enum { bfloat16 = 9, swizzle_128 = 3, promote_256 = 3 };
    if (!driver().started) return not_initialized;
    const auto at = reinterpret_cast<uint64_t>(address);
    const auto refused = [](const std::string& why) { return misuse("cuTensorMapEncodeTiled: " + why, invalid_value); };
    if (!map || reinterpret_cast<uint64_t>(map) % 64 != 0) return refused("the map does not start at a multiple of 64 bytes");
    if (rank == 0 || rank > 5) return refused("its dimensions");
    if (at % 16 != 0) return refused("the array does not start at a multiple of 16 bytes");
    if (type != bfloat16 || rank != 3 || swizzle != swizzle_128 || interleave != 0 || fill != 0 || promotion > promote_256)
        return misuse("cuTensorMapEncodeTiled of a kind that is not emulated", not_supported);
    for (unsigned k = 0; k < rank; ++k) {
        if (size[k] == 0 || size[k] > 1ull << 32) return refused("a size of " + std::to_string(size[k]));
        if (box[k] == 0 || box[k] > 256) return refused("a box of " + std::to_string(box[k]));
        if (element_step[k] != 1) return misuse("cuTensorMapEncodeTiled with steps between elements", not_supported);
        if (k + 1 < rank && (step[k] % 16 != 0 || step[k] >= 1ull << 40 || step[k] == 0)) return refused("a step of " + std::to_string(step[k]));
    }
    if (box[0] * 2 > 128 || box[0] * 2 % 16 != 0) return refused("a box of rows of " + std::to_string(box[0] * 2) + " bytes");
    uint64_t words[16] = {at, size[0], size[1], size[2], step[0], step[1], box[0], box[1], box[2]};
    std::memcpy(map, words, sizeof words);
    return ok;
}

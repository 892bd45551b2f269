// Streams, each a thread that processes its queue in order; events, and waiting.
#include "driver.h"

namespace rehearsal {

// Capacity of a stream's queue; a thread that enqueues to a full one waits.
static constexpr size_t queue_length = 1024;

static void serve(Stream& stream) {
    Context& context = *stream.context;
    for (;;) {
        Work work;
        {
            std::unique_lock<std::mutex> lock(stream.mutex);
            stream.changed.wait(lock, [&] { return !stream.queue.empty(); });
            work = std::move(stream.queue.front());
            stream.queue.pop_front();
            stream.busy = true;
        }
        // After a failure, skip all remaining work.
        if (context.lost == ok) {
            const int code = work.run();
            if (code != ok && context.lost == ok) {
                note("lost", work.what + " ended with " + std::to_string(code));
                context.lost = code;
            }
        }
        work = Work();
        std::lock_guard<std::mutex> lock(stream.mutex);
        stream.busy = false;
        stream.changed.notify_all();
    }
}

// Logs a wait that only the gate's limit can end.
static void told_of_gates(Stream& stream, const char* call) {
    if (stream.context->lost != ok) return;
    for (const Closed& gate : stream.gates)
        if (gate.closed()) {
            misuse(std::string(call) + " waits for a stream that a closed gate holds back", ok);
            return;
        }
}

int outside_capture(Context& context, const char* call) {
    for (Stream* stream : context.streams)
        if (stream->capturing && stream->capturer == std::this_thread::get_id()) {
            stream->spoiled = true;
            return misuse(std::string(call) + " while this thread captures a stream", capture_unsupported);
        }
    return ok;
}

int enqueue(Context& context, void* handle, Work work) {
    if (!is_handle(handle)) return misuse(work.what + ": the stream is invalid", invalid_handle);
    Stream& stream = *static_cast<Stream*>(handle);
    if (stream.context != &context) return misuse(work.what + ": a stream of another context", invalid_handle);
    std::unique_lock<std::mutex> lock(stream.mutex);
    if (stream.capturing) {
        if (stream.spoiled) return capture_invalidated;
        stream.captured.push_back(std::move(work));
        return ok;
    }
    if (stream.queue.size() >= queue_length) {
        told_of_gates(stream, "a full queue");
        stream.changed.wait(lock, [&] { return stream.queue.size() < queue_length; });
    }
    note("queue", work.what);
    stream.queue.push_back(std::move(work));
    stream.changed.notify_all();
    return ok;
}

int wait_for(Context& context, Stream& stream, const char* call) {
    std::unique_lock<std::mutex> lock(stream.mutex);
    if (stream.queue.empty() && !stream.busy) return context.lost;
    told_of_gates(stream, call);
    stream.changed.wait(lock, [&] { return stream.queue.empty() && !stream.busy; });
    return context.lost;
}

int wait_for_all(Context& context, const char* call) {
    for (Stream* stream : context.streams) wait_for(context, *stream, call);
    return context.lost;
}

bool idle(Context& context) {
    for (Stream* stream : context.streams) {
        std::lock_guard<std::mutex> lock(stream->mutex);
        if (stream->busy || !stream->queue.empty()) return false;
    }
    return true;
}

}  // namespace rehearsal

using namespace rehearsal;

API cuStreamCreate(void** stream, unsigned flags) {
    Context* context;
    if (const int code = current(context)) return code;
    if (flags > 1) return invalid_value;
    auto* made = new Stream;
    made->context = context;
    context->streams.insert(made);
    {
        std::lock_guard<std::mutex> lock(driver().mutex);
        driver().handles.insert(made);
    }
    std::thread([made] { serve(*made); }).detach();
    *stream = made;
    return ok;
}

API cuStreamSynchronize(void* stream) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!is_handle(stream)) return misuse("cuStreamSynchronize: the stream is invalid", invalid_handle);
    if (static_cast<Stream*>(stream)->capturing) return outside_capture(*context, "cuStreamSynchronize");
    note("call", "cuStreamSynchronize");
    return wait_for(*context, *static_cast<Stream*>(stream), "cuStreamSynchronize");
}

// Enqueues a host function in stream order; the cuBLAS mock uses it.
API cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
    Context* context;
    if (const int code = current(context)) return code;
    return enqueue(*context, stream, {"host function", [function, data] {
                                          function(data);
                                          return int(ok);
                                      }});
}

API cuEventCreate(void** event, unsigned flags) {
    Context* context;
    if (const int code = current(context)) return code;
    if (flags != 0) return misuse("an event without timing", not_supported);
    *event = new Event;
    std::lock_guard<std::mutex> lock(driver().mutex);
    driver().handles.insert(*event);
    return ok;
}

API cuEventRecord(void* handle, void* stream) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!is_handle(handle)) return misuse("cuEventRecord: the event is invalid", invalid_handle);
    auto* event = static_cast<Event*>(handle);
    event->captured = is_handle(stream) && static_cast<Stream*>(stream)->capturing;
    const unsigned asked = ++event->asked;
    return enqueue(*context, stream, {"event", [event, asked] {
                                          event->at = std::chrono::steady_clock::now();
                                          event->over = asked;
                                          return int(ok);
                                      }});
}

API cuEventElapsedTime_v2(float* ms, void* from, void* to) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!is_handle(from) || !is_handle(to)) return misuse("cuEventElapsedTime: the event is invalid", invalid_handle);
    const Event &first = *static_cast<Event*>(from), &last = *static_cast<Event*>(to);
    for (const Event* event : {&first, &last}) {
        if (event->asked == 0) return misuse("cuEventElapsedTime: an event was never recorded", invalid_handle);
        if (event->captured) return captured_event;
        if (event->over != event->asked) return misuse("cuEventElapsedTime: an event has not completed", not_ready);
    }
    *ms = std::chrono::duration<float, std::milli>(last.at - first.at).count();
    return ok;
}

API cuEventElapsedTime(float* ms, void* from, void* to) { return cuEventElapsedTime_v2(ms, from, to); }

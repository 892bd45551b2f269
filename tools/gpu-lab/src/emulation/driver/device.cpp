// Initialisation, devices, contexts, and texts of errors.
#include <sys/stat.h>

#include "driver.h"

namespace rehearsal {

static thread_local Context* here = nullptr;

Driver& driver() {
    static Driver* const only = new Driver;
    return *only;
}

size_t memory_of_device() {
    const char* value = std::getenv("REHEARSAL_MEMORY");
    return value && *value ? size_t(std::atol(value)) : size_t(4) << 30;
}

void note(const char* kind, const std::string& what) {
    static FILE* const log = [] {
        const char* path = std::getenv("REHEARSAL_LOG");
        FILE* file = path ? std::fopen(path, "a") : nullptr;
        if (file) std::setvbuf(file, nullptr, _IOLBF, 0);
        return file;
    }();
    if (log) std::fprintf(log, "%s: %s\n", kind, what.c_str());
    if (std::strcmp(kind, "misuse") == 0 || std::strcmp(kind, "kernel") == 0)
        std::fprintf(stderr, "rehearsal: %s: %s\n", kind, what.c_str());
}

int current(Context*& context) {
    if (!driver().started) return not_initialized;
    context = here;
    if (!context || !context->retained) return misuse("no context is current on this thread", invalid_context);
    return context->lost;
}

bool is_handle(const void* handle) {
    std::lock_guard<std::mutex> lock(driver().mutex);
    return driver().handles.count(const_cast<void*>(handle)) > 0;
}

// The index of the one device.
static bool known(int device) { return driver().started && device == 0; }

}  // namespace rehearsal

using namespace rehearsal;

API cuInit(unsigned flags) {
    if (flags != 0) return invalid_value;
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible && !*visible) return no_device;
    std::lock_guard<std::mutex> lock(driver().mutex);
    if (!driver().started) {
        std::fprintf(stderr, "rehearsal: CUDA devices here are emulated on the processor; their times are meaningless\n");
        driver().started = true;
    }
    return ok;
}

API cuDriverGetVersion(int* version) {
    *version = 13000;
    return ok;
}

// NVRTC asks for tables of internal driver functions, and works without them.
API cuGetExportTable(const void** table, const void*) {
    *table = nullptr;
    return not_found;
}

API cuDeviceGetCount(int* count) {
    *count = 1;
    return driver().started ? ok : not_initialized;
}

API cuDeviceGet(int* device, int index) {
    *device = index;
    return known(index) ? ok : invalid_device;
}

API cuDeviceGetName(char* name, int bytes, int device) {
    if (!known(device)) return invalid_device;
    std::snprintf(name, size_t(bytes), "REHEARSAL ON THE PROCESSOR (no GPU, times mean nothing)");
    return ok;
}

API cuDeviceGetPCIBusId(char* text, int bytes, int device) {
    if (!known(device)) return invalid_device;
    std::snprintf(text, size_t(bytes), "0000:01:00.0");
    return ok;
}

API cuDeviceTotalMem_v2(size_t* bytes, int device) {
    *bytes = memory_of_device();
    return known(device) ? ok : invalid_device;
}

// Attributes of a Hopper with few multiprocessors; any other is unknown and logged as misuse.
API cuDeviceGetAttribute(int* value, int which, int device) {
    if (!known(device)) return invalid_device;
    switch (which) {
        case 1: *value = 1024; return ok;         // threads per block
        case 8: *value = 48 << 10; return ok;     // shared memory per block
        case 16: *value = 3; return ok;           // multiprocessors
        case 38: *value = 1 << 20; return ok;     // L2 cache
        case 39: *value = 2048; return ok;        // threads per multiprocessor
        case 75: *value = 9; return ok;           // compute capability
        case 76: *value = 0; return ok;
        case 97: *value = 227 << 10; return ok;   // shared memory per block after opting in
        default: return misuse("attribute " + std::to_string(which) + " of the device", invalid_value);
    }
}

API cuDevicePrimaryCtxRetain(void** context, int device) {
    if (!known(device)) return invalid_device;
    driver().context.retained = true;
    *context = &driver().context;
    return ok;
}

API cuCtxSetCurrent(void* context) {
    if (!driver().started) return not_initialized;
    if (context && (context != &driver().context || !driver().context.retained)) return invalid_context;
    here = static_cast<Context*>(context);
    return ok;
}

API cuCtxGetDevice(int* device) {
    if (!here) return invalid_context;
    *device = 0;
    return ok;
}

namespace {
struct Words {
    int code;
    const char *name, *words;
};
const Words known_errors[] = {
    {ok, "CUDA_SUCCESS", "no error"},
    {invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {no_binary, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {captured_event, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
};
const Words* find(int code) {
    for (const Words& each : known_errors)
        if (each.code == code) return &each;
    return nullptr;
}
}  // namespace

API cuGetErrorName(int code, const char** name) {
    const Words* found = find(code);
    *name = found ? found->name : nullptr;
    return found ? ok : invalid_value;
}

API cuGetErrorString(int code, const char** words) {
    const Words* found = find(code);
    *words = found ? found->words : nullptr;
    return found ? ok : invalid_value;
}

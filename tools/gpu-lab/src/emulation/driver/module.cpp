// Modules: the device's machine code defines kernels, their parameters and their resources; but the driver runs the same
// source compiled for the CPU.
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>

#include <algorithm>

#include "driver.h"

namespace rehearsal {
namespace {

constexpr unsigned cuda_machine = 190, capability = 90;

// A machine code image. It is passed without its size; its section table defines that.
struct Image {
    const unsigned char* start;
    const Elf64_Ehdr& head() const { return *reinterpret_cast<const Elf64_Ehdr*>(start); }
    const Elf64_Shdr& section(unsigned k) const {
        return reinterpret_cast<const Elf64_Shdr*>(start + head().e_shoff)[k];
    }
    const char* text(const Elf64_Shdr& strings, unsigned at) const { return reinterpret_cast<const char*>(start) + strings.sh_offset + at; }
    std::string name(unsigned k) const { return text(section(head().e_shstrndx), section(k).sh_name); }
    bool is_cubin() const {
        return std::memcmp(start, ELFMAG, SELFMAG) == 0 && start[EI_CLASS] == ELFCLASS64 && head().e_machine == cuda_machine;
    }
    // Newer images store the architecture one byte higher.
    unsigned architecture() const { return start[EI_ABIVERSION] >= 8 ? head().e_flags >> 8 & 0xff : head().e_flags & 0xff; }
    // True if the name of a source appears in the image as a complete string.
    bool names(const std::string& source) const {
        for (unsigned k = 0; k < head().e_shnum; ++k) {
            const std::string here = name(k);
            if (here != ".debug_line" && here != ".debug_str" && here != ".debug_line_str") continue;
            const auto* from = reinterpret_cast<const char*>(start) + section(k).sh_offset;
            const auto* end = from + section(k).sh_size;
            for (const char* at = from; (at = std::search(at, end, source.begin(), source.end())) != end; ++at) {
                const char before = at == from ? 0 : at[-1], after = at + source.size() == end ? 0 : at[source.size()];
                if ((before == 0 || before == '/' || before == '"') && (after == 0 || after == '"')) return true;
            }
        }
        return false;
    }
};

uint32_t word(const unsigned char* at) {
    uint32_t value;
    std::memcpy(&value, at, 4);
    return value;
}

// Calls `what` for the records of a `.nv.info` section: a format, a number, and a value or that many bytes.
void each_record(const Image& image, const Elf64_Shdr& section, const std::function<void(unsigned, const unsigned char*, unsigned)>& tell) {
    const unsigned char* at = image.start + section.sh_offset;
    const unsigned char* end = at + section.sh_size;
    while (at + 4 <= end) {
        const unsigned form = at[0], number = at[1], size = form == 4 ? at[2] | at[3] << 8 : 0;
        tell(number, at + 4, size);
        at += 4 + size;
    }
}

// The kernels of an image, from its sections.
std::map<std::string, std::unique_ptr<Function>> kernels_of(const Image& image) {
    enum { kernel_parameter = 0x17, kernel_parameter_again = 0x45, most_threads = 0x05, frame = 0x11, registers = 0x2f };
    std::map<std::string, std::unique_ptr<Function>> found;
    for (unsigned k = 0; k < image.head().e_shnum; ++k) {
        const std::string name = image.name(k), prefix = ".nv.info.";
        if (name.compare(0, prefix.size(), prefix) != 0) continue;
        auto function = std::make_unique<Function>();
        function->name = name.substr(prefix.size());
        each_record(image, image.section(k), [&](unsigned number, const unsigned char* at, unsigned size) {
            if (number == kernel_parameter && size == 12) {
                const unsigned ordinal = word(at + 4) & 0xffff;
                if (function->parameters.size() <= ordinal) function->parameters.resize(ordinal + 1);
                function->parameters[ordinal] = {word(at + 4) >> 16, word(at + 8) >> 18};
            }
            if (number == kernel_parameter_again) note("misuse", "parameters of " + function->name + " in an unknown form");
            if (number == most_threads && size == 12) function->most_threads = word(at) * word(at + 4) * word(at + 8);
        });
        found[function->name] = std::move(function);
    }
    for (unsigned k = 0; k < image.head().e_shnum; ++k) {
        const std::string name = image.name(k), shared = ".nv.shared.";
        if (name.compare(0, shared.size(), shared) == 0 && found.count(name.substr(shared.size())))
            found[name.substr(shared.size())]->shared = unsigned(image.section(k).sh_size);
        if (name != ".nv.info") continue;
        const Elf64_Shdr& symbols = image.section(image.section(k).sh_link);
        each_record(image, image.section(k), [&](unsigned number, const unsigned char* at, unsigned size) {
            if ((number != frame && number != registers) || size != 8) return;
            const auto& symbol = reinterpret_cast<const Elf64_Sym*>(image.start + symbols.sh_offset)[word(at)];
            const auto of = found.find(image.text(image.section(symbols.sh_link), symbol.st_name));
            if (of != found.end()) (number == frame ? of->second->local : of->second->registers) = word(at + 4);
        });
    }
    return found;
}

std::string folder() {
    Dl_info own;
    if (!dladdr(reinterpret_cast<void*>(&folder), &own)) return ".";
    const std::string path = own.dli_fname;
    return path.find('/') == std::string::npos ? "." : path.substr(0, path.rfind('/'));
}

// The library of the emulated source that an image was compiled from.
void* library_of(const Image& image) {
    DIR* open = opendir(folder().c_str());
    if (!open) return nullptr;
    std::string found;
    while (const dirent* entry = readdir(open)) {
        const std::string name = entry->d_name, ending = ".cu.so";
        if (name.size() <= ending.size() || name.compare(name.size() - ending.size(), ending.size(), ending) != 0) continue;
        if (image.names(name.substr(0, name.size() - 3))) found = folder() + "/" + name;
    }
    closedir(open);
    return found.empty() ? nullptr : dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
}

Function* function_of(void* handle) { return is_handle(handle) ? static_cast<Function*>(handle) : nullptr; }

}  // namespace
}  // namespace rehearsal

using namespace rehearsal;

API cuModuleLoadData(void** module, const void* data) {
    Context* context;
    if (const int code = current(context)) return code;
    if (const int code = outside_capture(*context, "cuModuleLoadData")) return code;
    if (const int code = wait_for_all(*context, "cuModuleLoadData")) return code;
    const Image image{static_cast<const unsigned char*>(data)};
    if (!image.is_cubin()) return invalid_image;
    if (image.architecture() != capability) return no_binary;
    auto made = std::make_unique<Module>();
    made->functions = kernels_of(image);
    void* library = image.names("gate.cu") ? nullptr : library_of(image);
    std::lock_guard<std::mutex> lock(driver().mutex);
    for (auto& [name, function] : made->functions) {
        function->gate = name == "gate" && image.names("gate.cu");
        if (library) *reinterpret_cast<void**>(&function->entry) = dlsym(library, ("emulate_" + name).c_str());
        // A kernel without an emulation is treated like one for another device.
        if (!function->gate && !function->entry) return no_binary;
        driver().handles.insert(function.get());
    }
    note("call", "cuModuleLoadData of " + std::to_string(made->functions.size()) + " kernels");
    driver().handles.insert(made.get());
    *module = made.release();
    return ok;
}

API cuModuleGetFunction(void** function, void* module, const char* name) {
    Context* context;
    if (const int code = current(context)) return code;
    if (!is_handle(module)) return misuse("cuModuleGetFunction: the module is invalid", invalid_handle);
    const auto& all = static_cast<Module*>(module)->functions;
    const auto found = all.find(name);
    if (found == all.end()) return not_found;
    *function = found->second.get();
    return ok;
}

API cuFuncLoad(void* handle) {
    Context* context;
    if (const int code = current(context)) return code;
    Function* function = function_of(handle);
    if (!function) return misuse("cuFuncLoad: the function is invalid", invalid_handle);
    if (const int code = outside_capture(*context, "cuFuncLoad")) return code;
    function->loaded = true;
    return wait_for_all(*context, "cuFuncLoad");
}

API cuFuncGetAttribute(int* value, int which, void* handle) {
    Context* context;
    if (const int code = current(context)) return code;
    const Function* function = function_of(handle);
    if (!function) return misuse("cuFuncGetAttribute: the function is invalid", invalid_handle);
    switch (which) {
        case 0: *value = int(function->most_threads); return ok;
        case 1: *value = int(function->shared); return ok;
        case 3: *value = int(function->local); return ok;
        case 4: *value = int(function->registers); return ok;
        case 8: *value = int(function->dynamic); return ok;
        default: return misuse("attribute " + std::to_string(which) + " of a function", invalid_value);
    }
}

// Only the maximum of dynamic shared memory can be set.
API cuFuncSetAttribute(void* handle, int which, int value) {
    Context* context;
    if (const int code = current(context)) return code;
    Function* function = function_of(handle);
    if (!function) return misuse("cuFuncSetAttribute: the function is invalid", invalid_handle);
    if (which != 8 || value < 0 || unsigned(value) + function->shared > 227u << 10) return invalid_value;
    function->dynamic = unsigned(value);
    return ok;
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* handle, int threads, size_t shared) {
    Context* context;
    if (const int code = current(context)) return code;
    const Function* function = function_of(handle);
    if (!function || threads <= 0) return function ? invalid_value : invalid_handle;
    const unsigned warps = unsigned(threads + 31) / 32;
    // Registers are allocated in units of 256 per warp, warps in fours; the system uses 1 KiB of shared memory per
    // block.
    const unsigned of_warp = (function->registers * 32 + 255) / 256 * 256;
    const unsigned by_registers = of_warp ? 65536 / of_warp / 4 * 4 / warps : 32;
    const unsigned by_shared = unsigned((228u << 10) / (shared + function->shared + 1024));
    *blocks = threads > int(function->most_threads) ? 0 : int(std::min({32u, 64 / warps, by_registers, by_shared}));
    return ok;
}

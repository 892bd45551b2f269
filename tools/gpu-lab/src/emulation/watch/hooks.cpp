// Functions that the compiler calls before every watched memory access (its thread sanitizer interface).
#include "watch.h"

#define PLACE reinterpret_cast<uintptr_t>(__builtin_return_address(0))
#define HOOK(name, bytes, how) \
    extern "C" void __tsan_##name(void* at) { watch::access(reinterpret_cast<uintptr_t>(at), bytes, watch::how, PLACE); }
#define HOOKS(bytes)                     \
    HOOK(read##bytes, bytes, read)       \
    HOOK(write##bytes, bytes, write)     \
    HOOK(unaligned_read##bytes, bytes, read) \
    HOOK(unaligned_write##bytes, bytes, write) \
    HOOK(volatile_read##bytes, bytes, read) \
    HOOK(volatile_write##bytes, bytes, write)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

extern "C" void __tsan_read_range(void* at, size_t bytes) { watch::access(reinterpret_cast<uintptr_t>(at), bytes, watch::read, PLACE); }
extern "C" void __tsan_write_range(void* at, size_t bytes) { watch::access(reinterpret_cast<uintptr_t>(at), bytes, watch::write, PLACE); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_vptr_read(void**) {}

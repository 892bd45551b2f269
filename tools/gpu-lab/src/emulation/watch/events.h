// Events that the emulation reports to the race detector. Kernels compiled for it include these declarations, and so
// does `events.cpp`.
#ifdef EMULATE_WATCHED
#include <cstddef>
#include <cstdint>

extern "C" {
void watch_launch(const unsigned* grid, const unsigned* block, const void* code, const void* emulator, size_t emulator_bytes, const void* state);
void watch_block(unsigned index, const void* stacks, size_t stack_bytes, const void* shared, size_t shared_bytes, const void* asked, size_t asked_bytes);
const char* watch_end();
void watch_turn(int thread);
void watch_quiet(int by);
void watch_read(const void* at, size_t bytes);
void watch_write(const void* at, size_t bytes);
void watch_atomic(const void* at, size_t bytes);
void watch_fence();
void watch_all();
void watch_warp(unsigned first, unsigned mask);
void watch_part(unsigned id, int over);
void watch_part_over(unsigned id, unsigned thread);
void watch_phase_made(const void* barrier);
void watch_arrive(const void* barrier);
void watch_flip(const void* barrier);
void watch_waited(const void* barrier);
void* watch_engine(const void* barrier);
void watch_engine_write(void* copy, const void* barrier, const void* at, size_t bytes);
void watch_engine_done(void* copy, const void* barrier);
void watch_product_read(unsigned group, const void* at, size_t bytes);
void watch_products_over(unsigned first, unsigned group);
}
#endif

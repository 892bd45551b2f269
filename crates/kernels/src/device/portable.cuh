// What every kernel source begins with: short names of types. Portable sources use nothing of CUDA beyond indices, shared
// memory, __syncthreads, shuffles, atomics and arithmetic, so that the tests can run them on a processor.

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#ifdef __CUDACC__
// Shared memory whose size the launch decides.
#define SHARED_BYTES(name) extern __shared__ __align__(16) u8 name[]
#define NOT_A_NUMBER __int_as_float(0x7fffffff)
#define INFINITE __int_as_float(0x7f800000)
#endif

#define WHOLE_WARP 0xffffffffu

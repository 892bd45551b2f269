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

// 2^z, at most 2^-22 of it off, and 1 / x, at most 2^-23 of it off, in one instruction each. Subnormal numbers count as 0.
__device__ __forceinline__ float quick_power(float z) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(z));
    return y;
}
__device__ __forceinline__ float quick_inverse(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

#define WHOLE_WARP 0xffffffffu

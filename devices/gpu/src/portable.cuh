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

// Puts what the first thread of a block holds beside the parts of the other blocks. True in the block that comes last: there every
// thread may read all parts. `come` is 0 again then, for the next launch. (Fence, counter, fence, barrier: by the memory model of
// PTX the writes of every block are before the reads of the last one.)
template <class T> __device__ __forceinline__ bool last_with_part(T part, T* parts, u32* come) {
    __shared__ u32 before;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = part;
        __threadfence();
        before = atomicInc(come, gridDim.x - 1);
        __threadfence();
    }
    __syncthreads();
    return before + 1 == gridDim.x;
}

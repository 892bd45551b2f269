// Prefix of every kernel source: short type names. Portable sources use only indices, shared memory, __syncthreads,
// shuffles, atomics and arithmetic, so that tests can run them on a CPU.

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#ifdef __CUDACC__
// Dynamic shared memory.
#define SHARED_BYTES(name) extern __shared__ __align__(16) u8 name[]
#define NOT_A_NUMBER __int_as_float(0x7fffffff)
#define INFINITE __int_as_float(0x7f800000)

// 2^z with an error of at most 2^-22, and 1 / x with at most 2^-23, in one instruction each. Subnormal numbers count
// as 0.
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

// Stores the first thread's part next to those of the other blocks. True in the last block to arrive: all its threads
// may read all parts, and `come` is 0 again for the next launch. (Fence, counter, fence, barrier: by the PTX memory
// model the writes of every block happen before the reads of the last one.)
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

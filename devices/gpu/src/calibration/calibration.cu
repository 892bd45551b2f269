// Kernels that each reach one limit of a GPU: bandwidth of copies, writes and reads, and the cost of a launch.

extern "C" __global__ void null_call(u8* called) {
    *called = 1;
}

// Threads per block, and 16-byte words per thread in a copy of several words.
constexpr u32 BLOCK = 256, SEVERAL = 4;

// Copies n words of 8 bytes, two at a time, since 16 bytes are the widest access; arrays are aligned to 256. Each block
// copies one contiguous piece, with all loads of a thread in flight before its first store; or each thread copies one
// word, if the grid has enough threads.
extern "C" __launch_bounds__(256, 8) __global__ void copy_words(const u64* x, u64* y, u64 n) {
    const u64 pairs = n / 2;
    const bool one = static_cast<u64>(gridDim.x) * BLOCK >= pairs;
    const u64 begin = static_cast<u64>(blockIdx.x) * (one ? BLOCK : SEVERAL * BLOCK);
    const uint4* from = reinterpret_cast<const uint4*>(x) + begin + threadIdx.x;
    uint4* to = reinterpret_cast<uint4*>(y) + begin + threadIdx.x;
    if (!one && begin + SEVERAL * BLOCK <= pairs) {
        const uint4 a = from[0], b = from[BLOCK], c = from[2 * BLOCK], d = from[3 * BLOCK];
        to[0] = a;
        to[BLOCK] = b;
        to[2 * BLOCK] = c;
        to[3 * BLOCK] = d;
        return;
    }
#pragma unroll 1
    for (u32 i = 0; i < (one ? BLOCK : SEVERAL * BLOCK) && begin + i + threadIdx.x < pairs; i += BLOCK) to[i] = from[i];
    if (blockIdx.x + 1 == gridDim.x && threadIdx.x == 0 && n % 2) y[n - 1] = x[n - 1];
}

// The same as a grid-stride loop, with a grid as large as the GPU can hold.
extern "C" __global__ void copy_words_looping(const u64* x, u64* y, u64 n) {
    const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
    const u64 start = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint4* from = reinterpret_cast<const uint4*>(x);
    uint4* to = reinterpret_cast<uint4*>(y);
    const u64 pairs = n / 2;
    u64 k = start;
    // Four loads in flight before the first store; more unrolling would only cost registers.
#pragma unroll 1
    for (; k + 3 * step < pairs; k += 4 * step) {
        const uint4 a = from[k], b = from[k + step], c = from[k + 2 * step], d = from[k + 3 * step];
        to[k] = a;
        to[k + step] = b;
        to[k + 2 * step] = c;
        to[k + 3 * step] = d;
    }
    for (; k < pairs; k += step) to[k] = from[k];
    if (start == 0 && n % 2) y[n - 1] = x[n - 1];
}

extern "C" __global__ void fill_words(u64 word, u64* y, u64 n) {
    const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
    const u64 start = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    const u32 low = static_cast<u32>(word), high = static_cast<u32>(word >> 32);
    const uint4 both = make_uint4(low, high, low, high);
    uint4* to = reinterpret_cast<uint4*>(y);
    for (u64 k = start; k < n / 2; k += step) to[k] = both;
    if (start == 0 && n % 2) y[n - 1] = word;
}

// The sum over all threads of a block, in thread 0.
__device__ __forceinline__ u64 block_sum(u64 sum) {
    __shared__ u64 warps[32];
    const u32 k = threadIdx.x;
    for (u32 by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
    if (k % 32 == 0) warps[k / 32] = sum;
    __syncthreads();
    if (k < 32) {
        sum = k < blockDim.x / 32 ? warps[k] : 0;
        for (u32 by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
    }
    return sum;
}

// One sum per block; the last block to finish adds them up and resets `come` to 0. Blocks are whole warps.
extern "C" __launch_bounds__(256, 8) __global__ void sum_words(const u64* x, u64* sums, u32* come, u64* y, u64 n) {
    const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
    const u64 start = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    const ulonglong2* from = reinterpret_cast<const ulonglong2*>(x);
    const u64 pairs = n / 2;
    u64 sum = 0;
    u64 k = start;
#pragma unroll 1
    for (; k + 3 * step < pairs; k += 4 * step) {
        const ulonglong2 a = from[k], b = from[k + step], c = from[k + 2 * step], d = from[k + 3 * step];
        sum += a.x + a.y + b.x + b.y + c.x + c.y + d.x + d.y;
    }
    for (; k < pairs; k += step) sum += from[k].x + from[k].y;
    if (start == 0 && n % 2) sum += x[n - 1];
    sum = block_sum(sum);
    if (!last_with_part(sum, sums, come)) return;
    sum = 0;
    for (u32 block = threadIdx.x; block < gridDim.x; block += blockDim.x) sum += __ldcg(sums + block);
    sum = block_sum(sum);
    if (threadIdx.x == 0) *y = sum;
}

// Correct and incorrect kernels, to test that the emulation distinguishes them.

extern "C" __global__ void collectives(u32* out, u32 n) {
    __shared__ u32 count;
    const u32 k = threadIdx.x;
    if (k == 0) count = 0;
    __syncthreads();
    atomicAdd(&count, 1u);
    u32 sum = k;
    for (u32 by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, by);
    const u32 below = __shfl_up_sync(WHOLE_WARP, k, 1);
    const u32 odd = __ballot_sync(WHOLE_WARP, k & 1);
    __syncthreads();
    if (k < n) out[k] = sum + 1000 * below + odd + count;
}

extern "C" __global__ void halves(u32* out, u32 n) {
    const u32 k = threadIdx.x;
    u32 value = k;
    if (k < 16) {
        for (u32 by = 8; by > 0; by /= 2) value += __shfl_xor_sync(0x0000ffffu, value, by);
    } else {
        value = 16 * __shfl_sync(0xffff0000u, value, 15, 16);
    }
    if (k < n) out[k] = value;
}

extern "C" __global__ void barrier_left(u32* out, u32 n) {
    if (threadIdx.x == 5) return;
    __syncthreads();
    out[threadIdx.x] = n;
}

extern "C" __global__ void barriers_differ(u32* out, u32 n) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = n;
}

extern "C" __global__ void collective_left(u32* out, u32 n) {
    if (threadIdx.x == 7) return;
    out[threadIdx.x] = __shfl_xor_sync(WHOLE_WARP, n, 1);
}

extern "C" __global__ void mask_without_self(u32* out, u32 n) {
    out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, n, 1);
}

extern "C" __global__ void writes_after(u32* out, u32 n) {
    out[n] = 0;
}

extern "C" __global__ void race(u32* out, u32 n) {
    __shared__ u32 shared[64];
    const u32 k = threadIdx.x;
    shared[k] = 0;
    __syncthreads();
    shared[k] = k;
    // A barrier is missing here.
    out[k] = shared[63 - k] + n;
}

// Tensor-core products of every architecture since Ampere (`mma.sync`), and loads of their operands. The PTX ISA
// defines which lane holds which element (`mma.m16n8k16` and `ldmatrix`); the emulation implements the same functions
// with the same layout (`emulation/tensor.h`).
//
// Of a lane l, with g = l / 4 and t = l % 4, in m16n8k16:
//   a[0] row g, columns 2t and 2t + 1; a[1] row g + 8; a[2], a[3] the same rows, columns 2t + 8 and 2t + 9
//   b[0] rows 2t and 2t + 1 of column g; b[1] rows 2t + 8 and 2t + 9
//   d[0], d[1] row g, columns 2t and 2t + 1; d[2], d[3] row g + 8

#ifdef __CUDACC__

__device__ __forceinline__ u32 shared_address(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }

// d += a b.
__device__ __forceinline__ void mma_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices; lanes 8i to 8i + 7 pass the addresses of matrix i's rows. A lane gets columns 2t and 2t + 1 of
// row g of each.
__device__ __forceinline__ void load_matrices(u32 (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// The same, transposed: a lane gets rows 2t and 2t + 1 of column g.
__device__ __forceinline__ void load_matrices_transposed(u32 (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Starts a copy of 16 bytes to shared memory; bytes beyond `bytes` (0 or 16) are zeros.
__device__ __forceinline__ void copy_async(void* to, const void* from, u32 bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}

// Commits all copies that this thread started since the last call as a group.
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most LEFT groups of this thread are in flight.
template <int LEFT> __device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

// Two values rounded to bf16, the first in the lower half.
__device__ __forceinline__ u32 two_bf16(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

#endif

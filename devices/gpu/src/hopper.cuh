// Instructions that only Hopper has (sm_90a): warpgroup products from shared memory (`wgmma`), tile copies by the copy
// engine (`cp.async.bulk.tensor`) that complete on barriers in shared memory (`mbarrier`), barriers of a part of the
// block, and reallocation of registers between warpgroups. The emulation implements the same functions
// (`emulation/hopper.h`).
//
// Tiles in shared memory have rows of 64 bf16, 128 bytes, whose 16-byte chunks are swizzled: bits 4 to 6 of an address
// are XORed with bits 7 to 9. A tile must therefore be aligned to 1024 bytes.

enum { tile_row_bytes = 128, swizzle_bytes = 1024 };

// Descriptor by which `wgmma` finds a bf16 matrix in shared memory (PTX ISA, matrix descriptor): start address, and
// leading and stride offsets in bytes; 128-byte swizzle.
//   rows along the summed dimension (K-major): `stride` from 8 rows to the next 8; `leading` is ignored
//   rows across it (MN-major): `leading` from 64 columns to the next 64, `stride` from 8 rows to the next 8
// Shared memory addresses have 18 bits, so no carry occurs. `offset` is separate: the rest is the same for many
// matrices.
__device__ __forceinline__ u64 matrix_at(u32 address, u32 offset, u32 leading, u32 stride) {
    const u32 where = (address >> 4) + ((offset >> 4) + (leading >> 4 << 16));
    return static_cast<u64>(stride >> 4 | 1u << 30) << 32 | where;
}

#ifdef __CUDACC__

// A tensor map of an array in global memory, as the driver encodes it.
struct __align__(128) TensorMap { u64 words[16]; };

__device__ __forceinline__ void barrier_init(u64* barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine; for other threads a block barrier must follow.
__device__ __forceinline__ void barriers_made() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(u64* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and makes the phase wait for `bytes` bytes of copies.
__device__ __forceinline__ void barrier_arrive_expect(u64* barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Waits for the end of the phase with this parity; in a new barrier the phase of parity 1 counts as ended. A phase that
// never ends would hang the device, so the kernel fails after two seconds. The hardware decides how long one try takes,
// so the clock is the limit, not the number of tries.
__device__ __forceinline__ void barrier_wait(u64* barrier, u32 parity) {
    asm volatile(
        "{\n.reg .pred over;\n.reg .u64 began, now;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n@over bra done;\n"
        "mov.u64 began, %%globaltimer;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n@over bra done;\n"
        "mov.u64 now, %%globaltimer;\nsub.u64 now, now, began;\nsetp.lt.u64 over, now, 2000000000;\n@over bra again;\ntrap;\ndone:\n}" ::"r"(
            shared_address(barrier)),
        "r"(parity)
        : "memory");
}

// Starts a copy of the box at (x, y, z) of an array to a tile; elements outside the array are zeros, and count as
// bytes.
__device__ __forceinline__ void tile_copy(void* to, const TensorMap& map, u64* barrier, u32 x, u32 y, u32 z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
        : "memory");
}

// Prefetches a tensor map.
__device__ __forceinline__ void map_ahead(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// Stores four 8 x 8 matrices to shared memory: the counterpart of `load_matrices`.
__device__ __forceinline__ void store_matrices(void* row, const u32 (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(shared_address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]),
                 "r"(r[3])
                 : "memory");
}

// Makes this thread's writes to shared memory visible to the copy engine and to products; for other threads' writes a
// barrier must follow.
__device__ __forceinline__ void shared_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Starts a copy of a tile to the box at (x, y, z) of an array; elements outside the array are not written.
__device__ __forceinline__ void tile_store(const TensorMap& map, const void* from, u32 x, u32 y, u32 z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(shared_address(from)), "r"(x),
                 "r"(y), "r"(z)
                 : "memory");
}

// Commits the tile stores that this thread started since the last call as a group.
__device__ __forceinline__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most LEFT groups of this thread still have to read shared memory.
template <int LEFT> __device__ __forceinline__ void stores_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory"); }

// Named barrier `id` for `threads` threads of the block, counting those that wait and those that only arrive.
__device__ __forceinline__ void part_wait(u32 id, u32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
__device__ __forceinline__ void part_arrive(u32 id, u32 threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

template <int REGISTERS> __device__ __forceinline__ void registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS)); }
template <int REGISTERS> __device__ __forceinline__ void registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS)); }

// Orders earlier register writes before the products that follow.
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Commits the products started since the last call as a group.
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// No access to these values moves across this point.
template <int N> __device__ __forceinline__ void hold(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Waits until at most LEFT groups are in flight; `d` is the sum of a completed one.
template <int LEFT, int N> __device__ __forceinline__ void products_wait(float (&d)[N]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
    hold(d);
}

// Keeps the computation of this condition, which never holds, before what follows: the assembler may move a wait for
// products up to the start of its basic block, but not across a branch.
__device__ __forceinline__ void behind(bool never) {
    if (never) asm volatile("trap;");
}

// The sums of a product, as operands of the assembler and as arguments: 32, 64, 88 or 96 per thread, for 64, 128, 176
// or 192 columns.
#define NAMED_32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMED_64 NAMED_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMED_88 NAMED_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87"
#define NAMED_96 NAMED_88 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)
#define SUMS_32 SUMS_16(0), SUMS_16(16)
#define SUMS_64 SUMS_32, SUMS_16(32), SUMS_16(48)
#define SUMS_88 SUMS_64, SUMS_16(64), SUMS_4(80), SUMS_4(84)
#define SUMS_96 SUMS_88, SUMS_4(88), SUMS_4(92)
#define MULTIPLY(COLUMNS, SUMS, FACTORS) "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32.bf16.bf16 {" SUMS "}, " FACTORS ", add, 1, 1, "

// d (+)= A B^T: A has 64 rows and B 128 rows of 16 values, both K-major in shared memory.
__device__ __forceinline__ void product_shared(float (&d)[64], u64 a, u64 b, i32 add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n" MULTIPLY("128", NAMED_64, "%64, %65") "0, 0;\n}"
                 : SUMS_64
                 : "l"(a), "l"(b), "r"(add));
}

// The same for 176 rows of B.
__device__ __forceinline__ void product_shared(float (&d)[88], u64 a, u64 b, i32 add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %90, 0;\n" MULTIPLY("176", NAMED_88, "%88, %89") "0, 0;\n}"
                 : SUMS_88
                 : "l"(a), "l"(b), "r"(add));
}

// d (+)= A B: A has 64 rows of 16 values, K-major; B has 16 rows and 192 columns, MN-major; both in shared memory.
__device__ __forceinline__ void product_shared(float (&d)[96], u64 a, u64 b, i32 add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %98, 0;\n" MULTIPLY("192", NAMED_96, "%96, %97") "0, 1;\n}"
                 : SUMS_96
                 : "l"(a), "l"(b), "r"(add));
}

// d += A B: A has 64 rows and 16 columns in registers, laid out as in `mma.m16n8k16` with 16 rows per warp; B has 16
// rows and 128 or 64 columns, MN-major in shared memory.
__device__ __forceinline__ void product_registers(float (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n" MULTIPLY("128", NAMED_64, "{%64,%65,%66,%67}, %68") "1;\n}"
                 : SUMS_64
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}
__device__ __forceinline__ void product_registers(float (&d)[32], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n" MULTIPLY("64", NAMED_32, "{%32,%33,%34,%35}, %36") "1;\n}"
                 : SUMS_32
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}

#endif

// A slot of a ring of `COUNT` tiles in shared memory, and the parity of its phase.
template <u32 COUNT> struct Slot {
    u32 at, parity;
    __device__ __forceinline__ void step() {
        at += 1;
        if (at == COUNT) at = 0, parity ^= 1;
    }
};

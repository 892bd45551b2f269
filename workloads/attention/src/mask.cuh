// Which keys a query sees, the same in every kernel of the attention core.

enum { sees_all, sees_causal, sees_length };

__device__ __forceinline__ u32 seen(u32 sees, const i64* lengths, u32 sequence, u32 row, u32 all) {
    if (sees == sees_causal) return min(row + 1, all);
    if (sees == sees_length) return min(static_cast<u32>(lengths[sequence]), all);
    return all;
}


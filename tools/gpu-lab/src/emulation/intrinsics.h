// CUDA's other intrinsics for the emulation: atomic operations, fences, loads and stores with hints, and arithmetic.

// One host thread runs all fibers, so atomic operations need no synchronisation.
namespace emulate {
template <class T, class F> inline T atomically(T* at, F change) {
    WATCH(atomic(at, sizeof *at));
    const Quiet quiet;
    const T old = *at;
    *at = change(old);
    return old;
}
}  // namespace emulate
template <class T> inline T atomicAdd(T* at, T by) { return emulate::atomically(at, [by](T old) { return T(old + by); }); }
template <class T> inline T atomicOr(T* at, T by) { return emulate::atomically(at, [by](T old) { return T(old | by); }); }
template <class T> inline T atomicMin(T* at, T by) { return emulate::atomically(at, [by](T old) { return std::min(old, by); }); }
template <class T> inline T atomicMax(T* at, T by) { return emulate::atomically(at, [by](T old) { return std::max(old, by); }); }

// Counts up to `most`, then wraps to 0.
inline unsigned atomicInc(unsigned* at, unsigned most) {
    return emulate::atomically(at, [most](unsigned old) { return old >= most ? 0 : old + 1; });
}
inline void __threadfence() { WATCH(fence()); }

template <class T> inline T __ldcg(const T* at) { return *at; }
template <class T> inline T __ldg(const T* at) { return *at; }
template <class T> inline T __ldcs(const T* at) { return *at; }
template <class T> inline void __stcs(T* at, T value) { *at = value; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return std::exp(x); }
// The device's largest error, up or down depending on the bits; subnormal numbers are 0.
inline float emulated_off(float y, float by) {
    if (std::fabs(y) < 1.17549435e-38f) return std::copysign(0.0f, y);
    return emulate::bits(y) % 3 == 0 ? y * (1.0f + by) : emulate::bits(y) % 3 == 1 ? y * (1.0f - by) : y;
}
inline float quick_power(float z) { return z == 0.0f ? 1.0f : emulated_off(std::exp2(z), 0x1p-22f); }
inline float quick_inverse(float x) { return emulated_off(1.0f / x, 0x1p-23f); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline int __float_as_int(float x) { return emulate::value<int>(emulate::bits(x)); }
inline unsigned __float_as_uint(float x) { return emulate::value<unsigned>(emulate::bits(x)); }
inline float __int_as_float(int x) { return emulate::value<float>(emulate::bits(x)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
using std::abs;
using std::max;
using std::min;

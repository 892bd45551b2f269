// A mock of cuBLAS for tests, from its documentation: column-major arrays, op 0 as stored and 1 transposed; with beta
// 0, C is not read. It tests what Ellwand passes to cuBLAS, not cuBLAS itself.
#include <cstddef>
#include <cstdint>
#include <cstring>

// A value in memory.
static double value(float x) { return x; }
static double value(uint16_t bits) {
    const uint32_t wide = uint32_t(bits) << 16;
    float x;
    std::memcpy(&x, &wide, sizeof x);
    return x;
}
static void put(float& to, double x) { to = static_cast<float>(x); }
// Rounds to the nearest bf16, ties to even; NaN stays NaN.
static void put(uint16_t& to, double x) {
    const float near = static_cast<float>(x);
    uint32_t bits;
    std::memcpy(&bits, &near, sizeof bits);
    to = near != near ? 0x7fff : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static bool sums_in_f32;

template <class T>
static int multiply(int op_a, int op_b, int m, int n, int k, float alpha, const T* a, int lda, long long a_step, const T* b, int ldb,
                    long long b_step, float beta, T* c, int ldc, long long c_step, int count) {
    // cuBLAS rejects leading dimensions shorter than a column.
    if (m < 0 || n < 0 || k < 0 || count < 0 || lda < (op_a ? k : m) || ldb < (op_b ? n : k) || ldc < m) return 7;
    for (int z = 0; z < count; ++z) {
        for (int j = 0; j < n; ++j) {
            for (int i = 0; i < m; ++i) {
                double sum = 0.0;
                for (int l = 0; l < k; ++l) {
                    const T x = a[z * a_step + (op_a ? l + static_cast<long long>(i) * lda : i + static_cast<long long>(l) * lda)];
                    const T y = b[z * b_step + (op_b ? j + static_cast<long long>(l) * ldb : l + static_cast<long long>(j) * ldb)];
                    sum += value(x) * value(y);
                }
                T& to = c[z * c_step + i + static_cast<long long>(j) * ldc];
                put(to, alpha * sum + (beta == 0.0f ? 0.0 : beta * value(to)));
            }
        }
    }
    return 0;
}

extern "C" {
int cublasCreate_v2(void** handle) {
    static int made;
    *handle = &made;
    return 0;
}
// The default, possibly with partial sums in f32 (16).
int cublasSetMathMode(void*, int mode) {
    sums_in_f32 = mode == 16;
    return mode == 0 || mode == 16 ? 0 : 7;
}
int cublasGetVersion_v2(void*, int* version) {
    *version = 120000;
    return 0;
}
int cublasSetStream_v2(void*, void*) { return 0; }
int cublasSetWorkspace_v2(void*, void*, size_t) { return 0; }

int cublasSgemmStridedBatched(void*, int op_a, int op_b, int m, int n, int k, const float* alpha, const float* a, int lda, long long a_step,
                              const float* b, int ldb, long long b_step, const float* beta, float* c, int ldc, long long c_step, int count) {
    return multiply(op_a, op_b, m, n, k, *alpha, a, lda, a_step, b, ldb, b_step, *beta, c, ldc, c_step, count);
}

// Types must be CUDA_R_16BF, sums CUBLAS_COMPUTE_32F and the algorithm CUBLAS_GEMM_DEFAULT; Ellwand uses no other
// product.
int cublasGemmStridedBatchedEx(void*, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a, int a_type, int lda,
                               long long a_step, const void* b, int b_type, int ldb, long long b_step, const void* beta, void* c, int c_type,
                               int ldc, long long c_step, int count, int sums, int way) {
    if (!sums_in_f32 || a_type != 14 || b_type != 14 || c_type != 14 || sums != 68 || way != -1) return 15;
    const auto bits = [](const void* at) { return static_cast<const uint16_t*>(at); };
    const auto factor = [](const void* at) { return *static_cast<const float*>(at); };
    return multiply(op_a, op_b, m, n, k, factor(alpha), bits(a), lda, a_step, bits(b), ldb, b_step, factor(beta), static_cast<uint16_t*>(c), ldc,
                    c_step, count);
}
}

// Stands in for cuBLAS in the tests, by its documentation: arrays by columns, op 0 as it lies and 1 transposed, beta 0 reads
// nothing of C. It proves what we hand over, and nothing about the library itself.
#include <cstddef>

extern "C" {
int cublasCreate_v2(void** handle) {
    static int made;
    *handle = &made;
    return 0;
}
int cublasSetMathMode(void*, int mode) { return mode == 0 ? 0 : 7; }
int cublasGetVersion_v2(void*, int* version) {
    *version = 120000;
    return 0;
}
int cublasSetStream_v2(void*, void*) { return 0; }
int cublasSetWorkspace_v2(void*, void*, size_t) { return 0; }

int cublasSgemmStridedBatched(void*, int op_a, int op_b, int m, int n, int k, const float* alpha, const float* a, int lda, long long a_step,
                              const float* b, int ldb, long long b_step, const float* beta, float* c, int ldc, long long c_step, int count) {
    // The library refuses leading dimensions shorter than a column.
    if (m < 0 || n < 0 || k < 0 || count < 0 || lda < (op_a ? k : m) || ldb < (op_b ? n : k) || ldc < m) return 7;
    for (int z = 0; z < count; ++z) {
        for (int j = 0; j < n; ++j) {
            for (int i = 0; i < m; ++i) {
                double sum = 0.0;
                for (int l = 0; l < k; ++l) {
                    const float x = a[z * a_step + (op_a ? l + static_cast<long long>(i) * lda : i + static_cast<long long>(l) * lda)];
                    const float y = b[z * b_step + (op_b ? j + static_cast<long long>(l) * ldb : l + static_cast<long long>(j) * ldb)];
                    sum += static_cast<double>(x) * y;
                }
                float& to = c[z * c_step + i + static_cast<long long>(j) * ldc];
                to = static_cast<float>(*alpha * sum + (*beta == 0.0f ? 0.0 : static_cast<double>(*beta) * to));
            }
        }
    }
    return 0;
}
}

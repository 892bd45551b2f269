// The library of products beside the driver of rehearsals: what is asked of it is queued in the stream that it was given, and
// computed by what stands in for it in the tests.
#define cublasSetStream_v2 at_once_stream
#define cublasSgemmStridedBatched at_once
#include "cublas.h"
#undef cublasSetStream_v2
#undef cublasSgemmStridedBatched

#include <dlfcn.h>

static void* stream;

struct Product {
    int op_a, op_b, m, n, k;
    float alpha;
    const float* a;
    int lda;
    long long a_step;
    const float* b;
    int ldb;
    long long b_step;
    float beta;
    float* c;
    int ldc;
    long long c_step;
    int count;
};

static void compute(void* given) {
    auto* p = static_cast<Product*>(given);
    at_once(nullptr, p->op_a, p->op_b, p->m, p->n, p->k, &p->alpha, p->a, p->lda, p->a_step, p->b, p->ldb, p->b_step, &p->beta, p->c, p->ldc,
            p->c_step, p->count);
    delete p;
}

extern "C" {
int cublasSetStream_v2(void*, void* given) {
    stream = given;
    return 0;
}

int cublasSgemmStridedBatched(void*, int op_a, int op_b, int m, int n, int k, const float* alpha, const float* a, int lda, long long a_step,
                              const float* b, int ldb, long long b_step, const float* beta, float* c, int ldc, long long c_step, int count) {
    if (m < 0 || n < 0 || k < 0 || count < 0 || lda < (op_a ? k : m) || ldb < (op_b ? n : k) || ldc < m) return 7;
    using Queue = int (*)(void*, void (*)(void*), void*);
    static const auto queue = reinterpret_cast<Queue>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchHostFunc"));
    if (!queue) return 1;
    auto* product = new Product{op_a, op_b, m, n, k, *alpha, a, lda, a_step, b, ldb, b_step, *beta, c, ldc, c_step, count};
    // CUBLAS_STATUS_EXECUTION_FAILED, as the library has it.
    return queue(stream, compute, product) == 0 ? 0 : 13;
}
}

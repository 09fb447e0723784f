// cuBLASLt's products by their definition: column-major, D = alpha op(A) op(B) + beta C, in strided batches.
#include <cublasLt.h>

#include <cstring>
#include <vector>

#include "cuda/fake/numbers.h"

namespace {

using millrace::cuda::fake::Get;
using millrace::cuda::fake::Number;
using millrace::cuda::fake::Set;

constexpr size_t kScratch = 1024;

struct Operation {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cudaDataType_t scale = CUDA_R_32F;
};
struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  int64_t rows = 0, columns = 0, leading = 0, stride = 0;
  int32_t batch = 1;
};
Operation* Of(cublasLtMatmulDesc_t operation) { return reinterpret_cast<Operation*>(operation); }
Layout* Of(cublasLtMatrixLayout_t layout) { return reinterpret_cast<Layout*>(layout); }

Number NumberOf(cudaDataType_t type) {
  return type == CUDA_R_64F ? Number::kDouble : type == CUDA_R_16F ? Number::kHalf
         : type == CUDA_R_16BF ? Number::kBfloat16 : Number::kFloat;
}

// Rows and columns fit together, and lines do not overlap.
bool Agree(const Operation& operation, const Layout& a, const Layout& b, const Layout& c) {
  const bool ta = operation.a != CUBLAS_OP_N, tb = operation.b != CUBLAS_OP_N;
  return (ta ? a.columns : a.rows) == c.rows && (tb ? b.rows : b.columns) == c.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) && a.leading >= a.rows && b.leading >= b.rows &&
         c.leading >= c.rows && a.batch == c.batch && b.batch == c.batch;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return *handle = reinterpret_cast<cublasLtHandle_t>(new int), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return delete reinterpret_cast<int*>(handle), CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the fake"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t, cudaDataType_t scale) {
  *operation = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{CUBLAS_OP_N, CUBLAS_OP_N, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) { return delete Of(operation), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t bytes) {
  if (bytes != sizeof(cublasOperation_t)) return CUBLAS_STATUS_INVALID_VALUE;
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) std::memcpy(&Of(operation)->a, value, bytes);
  if (which == CUBLASLT_MATMUL_DESC_TRANSB) std::memcpy(&Of(operation)->b, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows, uint64_t columns,
                                          int64_t leading) {
  auto* made = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return *layout = reinterpret_cast<cublasLtMatrixLayout_t>(made), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return delete Of(layout), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, size_t bytes) {
  const bool batch = which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
  if (bytes != (batch ? sizeof(int32_t) : sizeof(int64_t))) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(batch ? static_cast<void*>(&Of(layout)->batch) : &Of(layout)->stride, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new int), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return delete reinterpret_cast<int*>(preference), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t which,
                                                    const void*, size_t bytes) {
  const size_t wanted = which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? sizeof(uint64_t) : sizeof(uint32_t);
  return bytes == wanted ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int wanted, cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  if (wanted < 1 || !Agree(*Of(operation), *Of(a), *Of(b), *Of(c)) || Of(c)->rows != Of(d)->rows) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(results, 0, sizeof *results);
  results->workspaceSize = kScratch;
  return *found = 1, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t*, void* scratch, size_t scratch_bytes, cudaStream_t stream) {
  const Operation& op = *Of(operation);
  const Layout &la = *Of(a_layout), &lb = *Of(b_layout), &lc = *Of(c_layout), &ld = *Of(d_layout);
  if (stream == nullptr || !Agree(op, la, lb, lc)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!millrace::cuda::fake::SpoilScratch(scratch, scratch_bytes, kScratch)) return CUBLAS_STATUS_INVALID_VALUE;
  const Number type = NumberOf(lc.type), scale = NumberOf(op.scale);
  const double factor = Get(scale, alpha, 0), keep = Get(scale, beta, 0);
  const int64_t inner = op.a == CUBLAS_OP_N ? la.columns : la.rows;
  for (int64_t p = 0; p < lc.batch; ++p) {
    for (int64_t j = 0; j < lc.columns; ++j) {
      for (int64_t i = 0; i < lc.rows; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          const int64_t at_a = op.a == CUBLAS_OP_N ? i + k * la.leading : k + i * la.leading;
          const int64_t at_b = op.b == CUBLAS_OP_N ? k + j * lb.leading : j + k * lb.leading;
          sum += Get(type, a, p * la.stride + at_a) * Get(type, b, p * lb.stride + at_b);
        }
        const double before = keep != 0 ? keep * Get(type, c, p * lc.stride + i + j * lc.leading) : 0;
        Set(type, d, p * ld.stride + i + j * ld.leading, factor * sum + before);
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

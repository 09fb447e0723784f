// cuBLASLt's products by their definition: column-major, D = epilogue(alpha op(A) op(B) + beta C), in strided batches. There
// is no epilogue for results of fewer than four columns, so that callers show what they do without. Where sums may be rounded to
// the type of the result on their way, they are.
#include <cublasLt.h>

#include <cmath>
#include <cstring>

#include "cuda/fake/faults.h"
#include "cuda/fake/numbers.h"
#include "cuda/fake/streams.h"

namespace {

using millrace::cuda::fake::Block;
using millrace::cuda::fake::CurrentDevice;
using millrace::cuda::fake::EnqueueKernel;
using millrace::cuda::fake::Get;
using millrace::cuda::fake::IsScratch;
using millrace::cuda::fake::MayCall;
using millrace::cuda::fake::Number;
using millrace::cuda::fake::OnDevice;
using millrace::cuda::fake::Set;
using millrace::cuda::fake::SpoilScratch;

constexpr size_t kScratch = 1024;

struct Operation {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cudaDataType_t scale = CUDA_R_32F;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t bias_type = -1;
  const void* bias = nullptr;
};
struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  int64_t rows = 0, columns = 0, leading = 0, stride = 0;
  int32_t batch = 1;
};
// What operands are aligned to, as the caller promises when it asks for an algorithm.
struct Promise {
  uint32_t a = 256, b = 256, c = 256, d = 256;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};
// What an algorithm was looked for with: it may use all of it, and read in pieces as wide as was promised.
struct Found {
  Promise promise;
  uint64_t bias = 1;
};
static_assert(sizeof(Found) <= sizeof(cublasLtMatmulAlgo_t));
Promise* Of(cublasLtMatmulPreference_t preference) { return reinterpret_cast<Promise*>(preference); }
Operation* Of(cublasLtMatmulDesc_t operation) { return reinterpret_cast<Operation*>(operation); }
Layout* Of(cublasLtMatrixLayout_t layout) { return reinterpret_cast<Layout*>(layout); }

Number NumberOf(cudaDataType_t type) {
  return type == CUDA_R_64F ? Number::kDouble : type == CUDA_R_16F ? Number::kHalf
         : type == CUDA_R_16BF ? Number::kBfloat16 : Number::kFloat;
}

size_t SizeOf(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

// Rows and columns fit together, there are some, and lines and results do not overlap.
bool Agree(const Operation& operation, const Layout& a, const Layout& b, const Layout& c) {
  for (const Layout* each : {&a, &b, &c}) {
    if (each->rows < 1 || each->columns < 1 || each->batch < 1 || each->stride < 0) return false;
  }
  if (c.batch > 1 && c.stride < c.leading * (c.columns - 1) + c.rows) return false;
  const bool ta = operation.a != CUBLAS_OP_N, tb = operation.b != CUBLAS_OP_N;
  return (ta ? a.columns : a.rows) == c.rows && (tb ? b.rows : b.columns) == c.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) && a.leading >= a.rows && b.leading >= b.rows &&
         c.leading >= c.rows && a.batch == c.batch && b.batch == c.batch;
}

bool HasBias(const Operation& operation) { return (operation.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }

// With its bias alone, where it is of the result's type and there.
bool Covers(const Operation& operation, const Layout& d) {
  if (operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  const bool known = operation.epilogue == CUBLASLT_EPILOGUE_BIAS || operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
                     operation.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
  const bool same_type = operation.bias_type == -1 || operation.bias_type == d.type;
  return known && same_type && operation.bias != nullptr && d.type != CUDA_R_64F && d.columns >= 4;
}

// The sum has the precision that it is computed in, float, before anything is added.
double After(const Operation& operation, Number type, double sum, int64_t row) {
  if (!HasBias(operation)) return sum;
  const auto x = static_cast<float>(static_cast<float>(sum) + Get(type, operation.bias, row));
  if (operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS) return x > 0 || std::isnan(x) ? x : 0;
  if (operation.epilogue == CUBLASLT_EPILOGUE_BIAS) return x;
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Where the operand may be read or written as an algorithm for `alignment` does.
bool IsOperand(const void* at, const Layout& layout, uint64_t alignment) {
  const int64_t elements = (layout.batch - 1) * layout.stride + layout.leading * (layout.columns - 1) + layout.rows;
  return reinterpret_cast<uintptr_t>(at) % alignment == 0 && OnDevice(at, static_cast<size_t>(elements) * SizeOf(layout.type));
}

double Rounded(Number type, double value) {
  double place = 0;
  Set(type, &place, 0, value);
  return Get(type, &place, 0);
}

struct Multiplication {
  Operation op;
  Layout la, lb, lc, ld;
  const void *a, *b, *c;
  void* d;
  double factor, keep;
  bool rounds;  // the sum of the first half
};
void Multiply(const Multiplication& m) {
  const Operation& op = m.op;
  const Number type = NumberOf(m.lc.type);
  const int64_t inner = op.a == CUBLAS_OP_N ? m.la.columns : m.la.rows;
  for (int64_t p = 0; p < m.lc.batch; ++p) {
    for (int64_t j = 0; j < m.lc.columns; ++j) {
      for (int64_t i = 0; i < m.lc.rows; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          const int64_t at_a = op.a == CUBLAS_OP_N ? i + k * m.la.leading : k + i * m.la.leading;
          const int64_t at_b = op.b == CUBLAS_OP_N ? k + j * m.lb.leading : j + k * m.lb.leading;
          sum += Get(type, m.a, p * m.la.stride + at_a) * Get(type, m.b, p * m.lb.stride + at_b);
          if (m.rounds && k + 1 == inner / 2) sum = Rounded(type, sum);
        }
        const double before = m.keep != 0 ? m.keep * Get(type, m.c, p * m.lc.stride + i + j * m.lc.leading) : 0;
        Set(type, m.d, p * m.ld.stride + i + j * m.ld.leading, After(op, type, m.factor * sum + before, i));
      }
    }
  }
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (MayCall() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;  // it takes memory
  return *handle = reinterpret_cast<cublasLtHandle_t>(new int(CurrentDevice())), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return Block("cublasLtDestroy"), delete reinterpret_cast<int*>(handle), CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the fake"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t, cudaDataType_t scale) {
  *operation = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{.scale = scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) { return delete Of(operation), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(Of(operation)->a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(Of(operation)->b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(Of(operation)->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(Of(operation)->bias_type);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(Of(operation)->bias);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
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
  return *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Promise), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return delete Of(preference), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which, const void* value, size_t bytes) {
  const size_t wanted = which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? sizeof(uint64_t) : sizeof(uint32_t);
  if (bytes != wanted) return CUBLAS_STATUS_INVALID_VALUE;
  const auto promise = [&](uint32_t& alignment) {
    std::memcpy(&alignment, value, bytes);
    return alignment > 0 && (alignment & (alignment - 1)) == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  };
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return promise(Of(preference)->a);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return promise(Of(preference)->b);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return promise(Of(preference)->c);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return promise(Of(preference)->d);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      std::memcpy(&Of(preference)->reductions, value, bytes);
      return Of(preference)->reductions <= CUBLASLT_REDUCTION_SCHEME_MASK ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    default: return CUBLAS_STATUS_SUCCESS;
  }
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  if (wanted < 1 || !Agree(*Of(operation), *Of(a), *Of(b), *Of(c)) || Of(c)->rows != Of(d)->rows) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(results, 0, sizeof *results);
  results->workspaceSize = kScratch;
  const auto bias = reinterpret_cast<uint64_t>(Of(operation)->bias);
  const Found algorithm{*Of(preference), HasBias(*Of(operation)) ? bias & -bias : 1};
  std::memcpy(static_cast<void*>(&results->algo), &algorithm, sizeof algorithm);
  if (!Covers(*Of(operation), *Of(d))) {
    // There are two ways to say so.
    if (Of(d)->columns % 2 == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    results->state = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return *found = 1, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* scratch, size_t scratch_bytes, cudaStream_t stream) {
  Found found;
  std::memcpy(static_cast<void*>(&found), algorithm, sizeof found);
  // What the caller may change before the stream comes to it is copied.
  const Multiplication m{*Of(operation), *Of(a_layout), *Of(b_layout), *Of(c_layout), *Of(d_layout), a, b, c, d,
                         Get(NumberOf(Of(operation)->scale), alpha, 0), Get(NumberOf(Of(operation)->scale), beta, 0),
                         (found.promise.reductions & ~CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0};
  if (*reinterpret_cast<int*>(handle) != CurrentDevice()) return CUBLAS_STATUS_INVALID_VALUE;
  if (!Agree(m.op, m.la, m.lb, m.lc) || !Covers(m.op, m.ld)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!IsOperand(a, m.la, found.promise.a) || !IsOperand(b, m.lb, found.promise.b) || !IsOperand(d, m.ld, found.promise.d) ||
      !IsOperand(m.keep != 0 ? c : d, m.lc, found.promise.c) || (c == d && c_layout != d_layout)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Layout bias{m.ld.type, m.ld.rows, 1, m.ld.rows};
  if (HasBias(m.op) && !IsOperand(m.op.bias, bias, found.bias)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!IsScratch(scratch, scratch_bytes, kScratch) || !OnDevice(scratch, kScratch)) return CUBLAS_STATUS_INVALID_VALUE;
  const cudaError_t enqueued = EnqueueKernel(stream, [m, scratch] {
    SpoilScratch(scratch, kScratch);
    Multiply(m);
  });
  return enqueued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"

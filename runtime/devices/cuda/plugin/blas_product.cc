// Matrix products by cuBLASLt. Its matrices are column-major: c^T = b^T a^T.
#include <cublasLt.h>

#include <mutex>
#include <utility>

#include "cuda/launch/pace.h"
#include "cuda/plugin/cuda_services.h"
#include "millrace/status.h"
#include "millrace/types.h"

namespace millrace::cuda {
namespace {

constexpr size_t kMostScratch = size_t{32} << 20;

cudaDataType_t DataTypeOf(Type type) {
  switch (type) {
    case Type::kDouble: return CUDA_R_64F;
    case Type::kHalf: return CUDA_R_16F;
    case Type::kBfloat16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

class BlasProduct final : public Product {
 public:
  BlasProduct(const CudaServices& services, const ProductShape& shape) : services_(services), shape_(shape) {}
  ~BlasProduct() override {
    for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
    if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
  }

  absl::Status Init() {
    const auto check = [&](cublasStatus_t status, const char* call) { return BlasStatus(status, services_.device(), call); };
    const bool wide = shape_.type == Type::kDouble;
    const cublasComputeType_t compute = wide ? CUBLAS_COMPUTE_64F
                                        : shape_.type == Type::kFloat && services_.choices().tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                                          : CUBLAS_COMPUTE_32F;
    MR_RETURN_IF_ERROR(check(cublasLtMatmulDescCreate(&operation_, compute, wide ? CUDA_R_64F : CUDA_R_32F),
                             "cublasLtMatmulDescCreate"));
    const cublasOperation_t yes = CUBLAS_OP_T, no = CUBLAS_OP_N;
    MR_RETURN_IF_ERROR(check(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA,
                                                            shape_.transpose_b ? &yes : &no, sizeof yes), "transposing b"));
    MR_RETURN_IF_ERROR(check(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSB,
                                                            shape_.transpose_a ? &yes : &no, sizeof yes), "transposing a"));
    // Row-major [r][c] is column-major c x r.
    const int64_t m = shape_.m, n = shape_.n, k = shape_.k;
    MR_RETURN_IF_ERROR(MakeLayout(&b_, shape_.transpose_b ? k : n, shape_.transpose_b ? n : k, shape_.stride_b));
    MR_RETURN_IF_ERROR(MakeLayout(&a_, shape_.transpose_a ? m : k, shape_.transpose_a ? k : m, shape_.stride_a));
    MR_RETURN_IF_ERROR(MakeLayout(&c_, n, m, shape_.stride_c));
    if (shape_.epilogue != Epilogue::kNone) MR_RETURN_IF_ERROR(SetEpilogue());
    cublasLtMatmulPreference_t preference = nullptr;
    MR_RETURN_IF_ERROR(check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                 &kMostScratch, sizeof kMostScratch);
    // Tensors lie where the plan puts them, and sums are made in one order, in the type that is computed in: no reduction in place,
    // and none of parts that were rounded to the type of the result.
    const uint32_t alignment = static_cast<uint32_t>(shape_.alignment);
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    for (const auto& [attribute, value] : {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment),
                                          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment),
                                          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment),
                                          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment),
                                          std::pair(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions)}) {
      if (status != CUBLAS_STATUS_SUCCESS) break;
      status = cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
    }
    int found = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatmulAlgoGetHeuristic(services_.blas(), operation_, b_, a_, c_, c_, preference, 1, &choice_, &found);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    MR_RETURN_IF_ERROR(check(status, "cublasLtMatmulAlgoGetHeuristic"));
    // What else stands in a result holds only where its state is success.
    const bool usable = found > 0 && choice_.state == CUBLAS_STATUS_SUCCESS;
    return usable ? absl::OkStatus() : absl::UnimplementedError("cuBLASLt has no algorithm for this product");
  }

  int64_t scratch_bytes() const override { return AlignUp(static_cast<int64_t>(choice_.workspaceSize), kLibraryAlignment); }

  absl::Status Run(const Queue& queue, const void* a, const void* b, const void* onto, const void* bias, void* c,
                   void* scratch) const override {
    if (!MayLaunch(queue)) return absl::UnavailableError("the device does not answer");
    // The descriptor holds the pointer until the launch has been made.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (shape_.epilogue != Epilogue::kNone) MR_RETURN_IF_ERROR(SetBias(bias));
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const bool wide = shape_.type == Type::kDouble;
    const void* alpha = wide ? static_cast<const void*>(&wide_one) : &one;
    const void* none = wide ? static_cast<const void*>(&wide_zero) : &zero;
    return BlasStatus(cublasLtMatmul(services_.blas(), operation_, alpha, b, b_, a, a_, onto == nullptr ? none : alpha,
                                     onto == nullptr ? c : onto, c_, c, c_, &choice_.algo,
                                     choice_.workspaceSize > 0 ? scratch : nullptr, choice_.workspaceSize,
                                     static_cast<cudaStream_t>(queue.stream)),
                      services_.device(), "cublasLtMatmul");
  }

 private:
  absl::Status SetBias(const void* bias) const {
    return BlasStatus(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                      services_.device(), "the place of a bias");
  }

  // Its n elements are for the rows of the column-major result, which are the columns of ours.
  absl::Status SetEpilogue() const {
    const uint32_t epilogue = shape_.epilogue == Epilogue::kBias       ? CUBLASLT_EPILOGUE_BIAS
                              : shape_.epilogue == Epilogue::kBiasRelu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                                                       : CUBLASLT_EPILOGUE_GELU_BIAS;
    MR_RETURN_IF_ERROR(BlasStatus(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                                 sizeof epilogue), services_.device(), "an epilogue"));
    const auto type = static_cast<int32_t>(DataTypeOf(shape_.type));
    MR_RETURN_IF_ERROR(BlasStatus(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                                                                 sizeof type), services_.device(), "the type of a bias"));
    // An algorithm is looked for by the alignment of what stands here; nothing is read there.
    return SetBias(reinterpret_cast<const void*>(static_cast<uintptr_t>(shape_.alignment)));
  }

  absl::Status MakeLayout(cublasLtMatrixLayout_t* layout, int64_t rows, int64_t columns, int64_t stride) const {
    const auto check = [&](cublasStatus_t status) {
      return BlasStatus(status, services_.device(), "the layout of a matrix");
    };
    MR_RETURN_IF_ERROR(check(cublasLtMatrixLayoutCreate(layout, DataTypeOf(shape_.type), static_cast<uint64_t>(rows),
                                                        static_cast<uint64_t>(columns), rows)));
    const int32_t batch = static_cast<int32_t>(shape_.batch);
    MR_RETURN_IF_ERROR(check(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                                              sizeof batch)));
    return check(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                  sizeof stride));
  }

  const CudaServices& services_;
  const ProductShape shape_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulHeuristicResult_t choice_ = {};
  mutable std::mutex mutex_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Product>> CudaServices::PlanProduct(const ProductShape& shape) {
  if (shape.batch > INT32_MAX) return absl::UnimplementedError("a batch of more than 2^31 products");
  MR_RETURN_IF_ERROR(Use());
  auto product = std::make_unique<BlasProduct>(*this, shape);
  const absl::Status planned = product->Init();
  if (!planned.ok()) return absl::IsUnavailable(planned) ? planned : absl::UnimplementedError(planned.message());
  return std::unique_ptr<Product>(std::move(product));
}

}  // namespace millrace::cuda

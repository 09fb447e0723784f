// _FusedMatMul: the product, then bias and activation over it, by the kernels that the ops have as nodes. So the bits are
// theirs.
#include "graph/fused_matmul.h"

#include <cmath>

#include "cpu/kernels/common.h"
#include "cpu/kernels/convert.h"
#include "cpu/kernels/fused.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

float Gelu(float x, bool exact) {
  constexpr float kSqrt2OverPi = 0.7978845608f, kSqrtHalf = 0.7071067812f;
  return 0.5f * x * (1 + (exact ? std::erf(x * kSqrtHalf) : std::tanh(kSqrt2OverPi * (x + 0.044715f * x * x * x))));
}

// In place.
void ApplyGelu(const KernelContext& context, void* values, DataType dtype, int64_t elements, bool exact) {
  const Widening widening = WideningOf(dtype);
  const int64_t bytes = DataTypeSize(dtype);
  ParallelRange(context, elements, kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kBlockElements) {
      const int64_t n = std::min(kBlockElements, end - i);
      char* at = static_cast<char*>(values) + i * bytes;
      Block wide;
      auto* x = widening.load == nullptr ? reinterpret_cast<float*>(at) : reinterpret_cast<float*>(wide.bytes);
      if (widening.load != nullptr) widening.load(at, x, n);
      for (int64_t k = 0; k < n; ++k) x[k] = Gelu(x[k], exact);
      if (widening.store != nullptr) widening.store(x, at, n);
    }
  });
}

class FusedMatMulKernel final : public Kernel {
 public:
  absl::Status Prepare(const OpInstance& node) {
    type_ = node.outputs[0];
    MR_ASSIGN_OR_RETURN(std::string activation, ActivationOf(node.attrs));
    gelu_ = activation == kGeluApproximate || activation == kGeluExact;
    exact_ = activation == kGeluExact;
    if (gelu_) activation.clear();
    if (type_.dtype != DataType::kFloat && type_.dtype != DataType::kHalf && type_.dtype != DataType::kBfloat16) {
      return UnsupportedType(node, type_.dtype);
    }
    product_node_ = ProductOf(node);
    group_node_ = ElementwiseOf(node, /*bias=*/true, activation);
    MR_ASSIGN_OR_RETURN(product_, (*OpKernels().Find(product_node_.op))(product_node_));
    MR_ASSIGN_OR_RETURN(group_, (*OpKernels().Find(group_node_.op))(group_node_));
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const override { return std::max(product_->scratch_bytes(), group_->scratch_bytes()); }

  absl::Status Run(const KernelContext& context) const override {
    KernelContext stage = context;
    stage.instance = &product_node_;
    MR_RETURN_IF_ERROR(product_->Run(stage));
    void* const operands[] = {context.outputs[0], context.inputs[2]};
    stage.instance = &group_node_;
    stage.inputs = operands;
    MR_RETURN_IF_ERROR(group_->Run(stage));
    if (gelu_) ApplyGelu(context, context.outputs[0], type_.dtype, type_.shape.num_elements(), exact_);
    return absl::OkStatus();
  }

 private:
  TensorType type_;
  bool gelu_ = false, exact_ = false;
  OpInstance product_node_, group_node_;
  std::unique_ptr<Kernel> product_, group_;
};

}  // namespace

void RegisterFusedMatMul(KernelRegistry& registry) {
  AddKernel(registry, "_FusedMatMul", [](const OpInstance& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    auto kernel = std::make_unique<FusedMatMulKernel>();
    MR_RETURN_IF_ERROR(kernel->Prepare(node));
    return kernel;
  });
}

}  // namespace millrace::cpu

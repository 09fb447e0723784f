// _FusedMatMul, _FusedConv2D and _FusedConv3D: the product or convolution, then bias and activation over it, by the kernels
// that the ops have as nodes. So the bits are theirs.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/convert.h"
#include "cpu/kernels/fused.h"
#include "cpu/kernels/register.h"
#include "graph/fused_conv.h"
#include "graph/fused_matmul.h"
#include "graph/staged_kernel.h"
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

absl::StatusOr<std::unique_ptr<Kernel>> MakeOpKernel(const OpInstance& node) { return (*OpKernels().Find(node.op))(node); }

bool TypeFuses(DataType dtype) {
  return dtype == DataType::kFloat || dtype == DataType::kHalf || dtype == DataType::kBfloat16;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeFusedMatMul(const OpInstance& node) {
  const TensorType& type = node.outputs[0];
  MR_ASSIGN_OR_RETURN(std::string activation, ActivationOf(node.attrs));
  const bool exact = activation == kGeluExact, gelu = exact || activation == kGeluApproximate;
  if (gelu) activation.clear();
  if (!TypeFuses(type.dtype)) return UnsupportedType(node, type.dtype);
  std::vector<StagedKernel::Stage> stages(2);
  stages[0] = {ProductOf(node), {0, 1}, nullptr};
  stages[1] = {ElementwiseOf(node, /*bias=*/true, activation), {StagedKernel::kResult, 2}, nullptr};
  for (StagedKernel::Stage& stage : stages) {
    MR_ASSIGN_OR_RETURN(stage.kernel, MakeOpKernel(stage.node));
  }
  if (gelu) {
    auto apply = MakeKernel([type, exact](const KernelContext& context) {
      ApplyGelu(context, context.outputs[0], type.dtype, type.shape.num_elements(), exact);
      return absl::OkStatus();
    });
    stages.push_back({node, {StagedKernel::kResult}, std::move(apply)});
  }
  return std::make_unique<StagedKernel>(std::move(stages));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeFusedConv(const OpInstance& node) {
  const DataType dtype = node.outputs[0].dtype;
  if (!TypeFuses(dtype) && dtype != DataType::kDouble) return UnsupportedType(node, dtype);
  MR_ASSIGN_OR_RETURN(const ConvEpilogue epilogue, ConvEpilogueOf(node.attrs));
  std::vector<StagedKernel::Stage> stages;
  stages.push_back({ConvolutionOf(node), {0, 1}, nullptr});
  for (EpilogueNode& over : EpilogueNodesOf(node, epilogue)) {
    StagedKernel::Stage& stage = stages.emplace_back(StagedKernel::Stage{std::move(over.node), {StagedKernel::kResult}, nullptr});
    stage.operands.insert(stage.operands.end(), over.others.begin(), over.others.end());
  }
  for (StagedKernel::Stage& stage : stages) {
    MR_ASSIGN_OR_RETURN(stage.kernel, MakeOpKernel(stage.node));
  }
  return std::make_unique<StagedKernel>(std::move(stages));
}

}  // namespace

void RegisterFusedProducts(KernelRegistry& registry) {
  AddKernel(registry, "_FusedMatMul", MakeFusedMatMul);
  for (const char* op : {"_FusedConv2D", "_FusedConv3D"}) AddKernel(registry, op, MakeFusedConv);
}

}  // namespace millrace::cpu

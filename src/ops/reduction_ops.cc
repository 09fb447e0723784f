// Reductions over axes, L2Loss, BiasAddGrad.
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

Cost ReductionCost(const OpInstance& instance) {
  const TensorType& input = instance.inputs[0];
  return {.flops = static_cast<double>(input.shape.num_elements()),
          .bytes = static_cast<double>(input.size_bytes() + instance.outputs[0].size_bytes())};
}

// Input 0 reduced over the axes that input 1 names.
absl::Status ReduceAxes(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, KnownInts(context, 1));
  const Shape& shape = context.shape(0);
  if (shape.unknown_rank()) {
    context.AddOutput(context.dtype(0), Shape::UnknownRank());
    return absl::OkStatus();
  }
  std::vector<bool> reduced(shape.rank(), false);
  for (int64_t given : axes) {
    MR_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(context, given, shape.rank()));
    if (reduced[axis]) return context.Error(absl::StrCat("axis ", given, " is given twice"));
    reduced[axis] = true;
  }
  const bool keep_dims = context.attrs().GetOr<bool>("keep_dims", false);
  Shape result;
  for (int d = 0; d < shape.rank(); ++d) {
    if (!reduced[d]) result.AddDim(shape.dim(d));
    else if (keep_dims) result.AddDim(1);
  }
  context.AddOutput(context.dtype(0), std::move(result));
  return absl::OkStatus();
}

absl::Status L2LossShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  context.AddOutput(context.dtype(0), Shape());
  return absl::OkStatus();
}

absl::Status BiasAddGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  const Shape& shape = context.shape(0);
  if (shape.unknown_rank()) {
    context.AddOutput(context.dtype(0), Shape({-1}));
    return absl::OkStatus();
  }
  if (shape.rank() < 2) {
    return context.Error(absl::StrCat("the gradient is ", shape.ToString(), ", expected a rank of at least 2"));
  }
  const bool nchw = context.attrs().GetOr<std::string>("data_format", "NHWC") == "NCHW";
  context.AddOutput(context.dtype(0), Shape({shape.dim(nchw ? 1 : shape.rank() - 1)}));
  return absl::OkStatus();
}

}  // namespace

void RegisterReductionOps(OpRegistry& registry) {
  for (const char* name : {"Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm"}) {
    AddOp(registry, {.name = name, .shape = ReduceAxes, .cost = ReductionCost});
  }
  AddOp(registry, {.name = "L2Loss", .shape = L2LossShape, .cost = ReductionCost});
  AddOp(registry, {.name = "BiasAddGrad", .shape = BiasAddGradShape, .cost = ReductionCost});
}

}  // namespace millrace

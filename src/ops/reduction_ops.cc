// Reductions over axes, L2Loss, BiasAddGrad, ArgMax, running sums, buckets.
#include <algorithm>

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

Cost SumColumnsCost(const OpInstance& instance) {
  Cost cost = ReductionCost(instance);
  const auto others = static_cast<double>(instance.inputs.size() - 1);
  cost.flops += others * static_cast<double>(instance.inputs[0].shape.num_elements());
  cost.bytes += others * static_cast<double>(instance.inputs[0].size_bytes());
  return cost;
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
    if (!reduced[d])
      result.AddDim(shape.dim(d));
    else if (keep_dims)
      result.AddDim(1);
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
  MR_ASSIGN_OR_RETURN(const bool nchw, ChannelsAreSecond(context));
  if (shape.unknown_rank()) {
    context.AddOutput(context.dtype(0), Shape({-1}));
    return absl::OkStatus();
  }
  const int least = nchw ? 3 : 2;
  if (shape.rank() < least) {
    return context.Error(absl::StrCat("the gradient is ", shape.ToString(), ", expected a rank of at least ", least));
  }
  context.AddOutput(context.dtype(0), Shape({shape.dim(nchw ? 1 : shape.rank() - 1)}));
  return absl::OkStatus();
}

// Sums over all rows of all inputs, which have `columns` columns, whatever their shape, divided by `divisor`.
absl::Status SumColumnsShape(InferenceContext& context) {
  const int64_t columns = context.attrs().GetOr<int64_t>("columns", 0);
  MR_ASSIGN_OR_RETURN(const Shape shape, RequiredAttr<Shape>(context, "shape"));
  if (context.num_inputs() == 0 || columns <= 0 || shape.num_elements() != columns) {
    return context.Error(absl::StrCat("sums ", context.num_inputs(), " inputs of ", columns, " columns to ", shape.ToString()));
  }
  for (int i = 0; i < context.num_inputs(); ++i) {
    const bool fits = context.shape(i).fully_known() && context.shape(i).num_elements() % columns == 0;
    if (fits && context.input(i).dtype == context.dtype(0) && context.shape(i) == context.shape(0)) continue;
    return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected ",
                                      context.input(0).ToString(), " of ", columns, " columns"));
  }
  context.AddOutput(context.dtype(0), shape);
  return absl::OkStatus();
}

// One axis, given by input 1.
absl::StatusOr<int64_t> OneAxis(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, KnownInts(context, 1));
  if (axes.size() == 1) return axes[0];
  return context.Error(absl::StrCat("has ", axes.size(), " axes, expected 1"));
}

absl::Status ArgReductionShape(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const int64_t given, OneAxis(context));
  const Shape& shape = context.shape(0);
  const DataType index = context.attrs().GetOr<DataType>("output_type", DataType::kInt64);
  if (shape.unknown_rank()) {
    context.AddOutput(index, Shape::UnknownRank());
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(context, given, shape.rank()));
  if (shape.dim(axis) == 0) return context.Error(absl::StrCat("axis ", axis, " is empty in shape ", shape.ToString()));
  Shape result;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != axis) result.AddDim(shape.dim(d));
  }
  context.AddOutput(index, std::move(result));
  return absl::OkStatus();
}

absl::Status CumulativeShape(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const int64_t axis, OneAxis(context));
  if (!context.shape(0).unknown_rank()) {
    MR_RETURN_IF_ERROR(NormalizeAxis(context, axis, context.shape(0).rank()).status());
  }
  return SameAsFirstInput(context);
}

absl::Status BucketizeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  const auto boundaries = context.attrs().Get<std::vector<float>>("boundaries");
  if (!boundaries.ok()) return ErrorAtNode(context, boundaries.status());
  if (!std::is_sorted(boundaries->begin(), boundaries->end())) return context.Error("the boundaries are not sorted");
  context.AddOutput(DataType::kInt32, context.shape(0));
  return absl::OkStatus();
}

}  // namespace

void RegisterReductionOps(OpRegistry& registry) {
  for (const char* name : {"Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm"}) {
    AddOp(registry, {.name = name, .shape = ReduceAxes, .cost = ReductionCost});
  }
  for (const char* name : {"ArgMax", "ArgMin"}) {
    AddOp(registry, {.name = name, .shape = ArgReductionShape, .cost = ReductionCost});
  }
  for (const char* name : {"Cumsum", "Cumprod"}) {
    AddOp(registry, {.name = name, .shape = CumulativeShape, .in_place = {{0, 0}}});
  }
  AddOp(registry, {.name = "Bucketize", .shape = BucketizeShape});
  AddOp(registry, {.name = "L2Loss", .shape = L2LossShape, .cost = ReductionCost});
  AddOp(registry, {.name = "BiasAddGrad", .shape = BiasAddGradShape, .cost = ReductionCost});
  // Made by the passes.
  AddOp(registry, {.name = "_SumColumns", .shape = SumColumnsShape, .cost = SumColumnsCost});
}

}  // namespace millrace

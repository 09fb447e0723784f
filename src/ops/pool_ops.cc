// Max and average pooling over two and three dimensions, and their gradients.
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/pool_geometry.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Input number of ksize where the op takes it (and strides after it) as inputs; -1 where they are attributes.
int WindowInput(std::string_view op) {
  if (op == "MaxPoolV2") return 1;
  if (op == "MaxPoolGradV2" || op == "MaxPoolGradGradV2") return 3;
  return -1;
}

absl::StatusOr<PoolGeometry> Geometry(const InferenceContext& context, const Shape& input, int rank) {
  const int window_input = WindowInput(context.op());
  PoolWindow window;
  if (window_input >= 0) {
    MR_ASSIGN_OR_RETURN(window.ksize, KnownInts(context, window_input));
    MR_ASSIGN_OR_RETURN(window.strides, KnownInts(context, window_input + 1));
  }
  absl::StatusOr<PoolGeometry> geometry =
      MakePoolGeometry(context.attrs(), input, rank, window_input >= 0 ? &window : nullptr);
  if (!geometry.ok()) return ErrorAtNode(context, geometry.status());
  return geometry;
}

template <int kRank>
absl::Status PoolShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(context.op() == "MaxPoolV2" ? 3 : 1));
  MR_ASSIGN_OR_RETURN(PoolGeometry geometry, Geometry(context, context.shape(0), kRank));
  context.AddOutput(context.dtype(0), std::move(geometry.output));
  return absl::OkStatus();
}

// MaxPoolGrad(orig_input, orig_output, grad): gradient of the input.
template <int kRank>
absl::Status MaxPoolGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(context.op() == "MaxPoolGradV2" ? 5 : 3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1, 2}));
  MR_ASSIGN_OR_RETURN(PoolGeometry geometry, Geometry(context, context.shape(0), kRank));
  MR_RETURN_IF_ERROR(ExpectShape(context, 1, geometry.output));
  MR_RETURN_IF_ERROR(ExpectShape(context, 2, geometry.output));
  context.AddOutput(context.dtype(0), context.shape(0));
  return absl::OkStatus();
}

// MaxPoolGradGrad(orig_input, orig_output, grad of the gradient): one value per window.
template <int kRank>
absl::Status MaxPoolGradGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(context.op() == "MaxPoolGradGradV2" ? 5 : 3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1, 2}));
  MR_ASSIGN_OR_RETURN(PoolGeometry geometry, Geometry(context, context.shape(0), kRank));
  MR_RETURN_IF_ERROR(ExpectShape(context, 1, geometry.output));
  MR_RETURN_IF_ERROR(ExpectShape(context, 2, context.shape(0)));
  context.AddOutput(context.dtype(0), std::move(geometry.output));
  return absl::OkStatus();
}

// AvgPoolGrad(orig_input_shape, grad).
template <int kRank>
absl::Status AvgPoolGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, 0));
  const Shape input{absl::Span<const int64_t>(dims)};
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry, Geometry(context, input, kRank));
  MR_RETURN_IF_ERROR(ExpectShape(context, 1, geometry.output));
  context.AddOutput(context.dtype(1), input);
  return absl::OkStatus();
}

// MaxPoolWithArgmax: the maxima and where they were.
absl::Status ArgmaxShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(PoolGeometry geometry, Geometry(context, context.shape(0), 4));
  if (geometry.output.fully_known() && geometry.output.num_elements() == 0) {
    return context.Error(absl::StrCat("has no window in ", context.shape(0).ToString(), ", its output is ", geometry.output.ToString()));
  }
  MR_ASSIGN_OR_RETURN(const DataType index, IndexTypeAttr(context, "Targmax", DataType::kInt64));
  context.AddOutput(context.dtype(0), geometry.output);
  context.AddOutput(index, std::move(geometry.output));
  return absl::OkStatus();
}

// MaxPoolGradWithArgmax(input, grad, argmax).
absl::Status ArgmaxGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry, Geometry(context, context.shape(0), 4));
  MR_RETURN_IF_ERROR(ExpectShape(context, 1, geometry.output));
  MR_RETURN_IF_ERROR(ExpectShape(context, 2, geometry.output));
  context.AddOutput(context.dtype(0), context.shape(0));
  return absl::OkStatus();
}

// MaxPoolGradGradWithArgmax(input, grad, argmax).
absl::Status ArgmaxGradGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  MR_ASSIGN_OR_RETURN(PoolGeometry geometry, Geometry(context, context.shape(0), 4));
  MR_RETURN_IF_ERROR(ExpectShape(context, 1, context.shape(0)));
  MR_RETURN_IF_ERROR(ExpectShape(context, 2, geometry.output));
  context.AddOutput(context.dtype(1), std::move(geometry.output));
  return absl::OkStatus();
}

template <int kRank>
Cost PoolCost(const OpInstance& node) {
  Cost cost;
  double elements = 0;  // of the side with fewer elements: one per window
  for (const TensorType& type : node.inputs) cost.bytes += type.size_bytes();
  const TensorType& output = node.outputs[0];
  cost.bytes += output.size_bytes();
  elements = output.shape.num_elements();
  for (const TensorType& type : node.inputs) {
    if (type.shape.rank() == kRank) elements = std::min<double>(elements, type.shape.num_elements());
  }
  double window = 1;
  for (int64_t size : node.attrs.GetOr<std::vector<int64_t>>("ksize", {})) window *= size;
  cost.flops = elements * window;
  return cost;
}

}  // namespace

void RegisterPoolOps(OpRegistry& registry) {
  for (const char* name : {"MaxPool", "MaxPoolV2", "AvgPool"}) {
    AddOp(registry, {.name = name, .shape = PoolShape<4>, .cost = PoolCost<4>});
  }
  for (const char* name : {"MaxPool3D", "AvgPool3D"}) {
    AddOp(registry, {.name = name, .shape = PoolShape<5>, .cost = PoolCost<5>});
  }
  for (const char* name : {"MaxPoolGrad", "MaxPoolGradV2"}) {
    AddOp(registry, {.name = name, .shape = MaxPoolGradShape<4>, .cost = PoolCost<4>});
  }
  AddOp(registry, {.name = "MaxPool3DGrad", .shape = MaxPoolGradShape<5>, .cost = PoolCost<5>});
  for (const char* name : {"MaxPoolGradGrad", "MaxPoolGradGradV2"}) {
    AddOp(registry, {.name = name, .shape = MaxPoolGradGradShape<4>, .cost = PoolCost<4>});
  }
  AddOp(registry, {.name = "MaxPool3DGradGrad", .shape = MaxPoolGradGradShape<5>, .cost = PoolCost<5>});
  AddOp(registry, {.name = "MaxPoolWithArgmax", .shape = ArgmaxShape, .cost = PoolCost<4>});
  AddOp(registry, {.name = "MaxPoolGradWithArgmax", .shape = ArgmaxGradShape, .cost = PoolCost<4>});
  AddOp(registry, {.name = "MaxPoolGradGradWithArgmax", .shape = ArgmaxGradGradShape, .cost = MoveCost});
  AddOp(registry, {.name = "AvgPoolGrad", .shape = AvgPoolGradShape<4>, .cost = PoolCost<4>});
  AddOp(registry, {.name = "AvgPool3DGrad", .shape = AvgPoolGradShape<5>, .cost = PoolCost<5>});
}

}  // namespace millrace

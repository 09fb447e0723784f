// Fused batch normalisation and local response normalisation.
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/fused_norm.h"
#include "graph/window.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// The number of channels of input 0 and the check that inputs [first, last] have one value per channel.
absl::StatusOr<int64_t> Channels(const InferenceContext& context, int first, int last, bool may_be_empty) {
  const Shape& x = context.shape(0);
  const std::string format = context.attrs().GetOr<std::string>("data_format", "NHWC");
  absl::StatusOr<DataLayout> layout = ParseDataFormat(format);
  if (!layout.ok()) return ErrorAtNode(context, layout.status());
  if (x.unknown_rank()) return -1;
  if (x.rank() != layout->rank) {
    return context.Error(absl::StrCat("input 0 is ", x.ToString(), ", expected ", layout->rank, " dimensions (", format,
                                      ")"));
  }
  const int64_t channels = x.dim(layout->channel());
  for (int i = first; i <= last; ++i) {
    const Shape& shape = context.shape(i);
    if (shape.unknown_rank()) continue;
    const bool empty = may_be_empty && shape.rank() == 1 && shape.dim(0) == 0;
    const bool fits = shape.rank() == 1 && (shape.dim(0) < 0 || channels < 0 || shape.dim(0) == channels);
    if (!fits && !empty) {
      return context.Error(absl::StrCat("input ", i, " is ", shape.ToString(), ", expected [", channels, "], the channels"));
    }
  }
  return channels;
}

// Input 5 has the type of input 0 and fits its shape.
absl::Status ExpectSideOfX(const InferenceContext& context) {
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 5}));
  const Shape &x = context.shape(0), &side = context.shape(5);
  if (!x.fully_known() || !side.fully_known() || x == side) return absl::OkStatus();
  return context.Error(absl::StrCat("input 5 is ", side.ToString(), ", expected ", x.ToString(), " as input 0"));
}

absl::Status BatchNormShape(InferenceContext& context) {
  const bool fused = context.op() == kFusedNorm;
  const absl::StatusOr<NormEpilogue> epilogue = fused ? NormEpilogueOf(context.attrs()) : NormEpilogue{};
  if (!epilogue.ok()) return ErrorAtNode(context, epilogue.status());
  MR_RETURN_IF_ERROR(context.ExpectInputs(epilogue->side ? 6 : 5));
  if (epilogue->side) MR_RETURN_IF_ERROR(ExpectSideOfX(context));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, 2, 3, 4}));
  MR_RETURN_IF_ERROR(Channels(context, 1, 2, false).status());
  const bool training = context.attrs().GetOr<bool>("is_training", true);
  const bool averages = context.attrs().GetOr<float>("exponential_avg_factor", 1.0f) != 1.0f;
  MR_ASSIGN_OR_RETURN(const int64_t channels, Channels(context, 3, 4, training && !averages));
  context.AddOutput(context.dtype(0), context.shape(0));
  for (int i = 0; i < 4; ++i) context.AddOutput(context.dtype(1), Shape({channels}));
  if (fused || context.op() == "FusedBatchNormV3") context.AddOutput(context.dtype(1), Shape());
  return absl::OkStatus();
}

absl::Status BatchNormGradShape(InferenceContext& context) {
  const bool fused = context.op() == kFusedNormGrad;
  MR_RETURN_IF_ERROR(context.ExpectInputs(fused || context.op() == "FusedBatchNormGradV3" ? 6 : 5));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {2, 3, 4}));
  if (fused) MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {2, 5}));
  MR_ASSIGN_OR_RETURN(const int64_t channels, Channels(context, 2, fused ? 5 : 4, false));
  const Shape &dy = context.shape(0), &x = context.shape(1);
  if (dy.fully_known() && x.fully_known() && dy != x) {
    return context.Error(absl::StrCat("inputs 0 and 1 are ", dy.ToString(), " and ", x.ToString(), ", expected equal shapes"));
  }
  context.AddOutput(context.dtype(0), dy.fully_known() ? dy : x);
  for (int i = 0; i < 2; ++i) context.AddOutput(context.dtype(2), Shape({channels}));
  for (int i = 0; i < 2; ++i) context.AddOutput(context.dtype(2), Shape({0}));
  return absl::OkStatus();
}

Cost BatchNormCost(const OpInstance& node) {
  const bool training = node.attrs.GetOr<bool>("is_training", true);
  Cost cost;
  const double elements = node.inputs[0].shape.num_elements();
  cost.flops = (training ? 7 : 3) * elements;
  cost.bytes = (training ? 3.0 : 2.0) * node.inputs[0].size_bytes();
  return cost;
}

// What is added is read once more; the Relu moves nothing.
Cost FusedNormCost(const OpInstance& node) {
  Cost cost = BatchNormCost(node);
  const int more = (node.inputs.size() > 5 ? 1 : 0) + (node.attrs.GetOr<std::string>("activation_mode", "Identity") == "Relu" ? 1 : 0);
  cost.flops += static_cast<double>(more) * node.inputs[0].shape.num_elements();
  if (node.inputs.size() > 5) cost.bytes += static_cast<double>(node.inputs[5].size_bytes());
  return cost;
}

Cost BatchNormGradCost(const OpInstance& node) {
  Cost cost;
  cost.flops = 11.0 * node.inputs[0].shape.num_elements();
  cost.bytes = 5.0 * node.inputs[0].size_bytes();
  return cost;
}

// The results whose signs decide are computed in either pass.
Cost FusedNormGradCost(const OpInstance& node) {
  Cost cost = BatchNormGradCost(node);
  cost.flops += 10.0 * node.inputs[0].shape.num_elements();
  return cost;
}

absl::Status LrnShape(InferenceContext& context) {
  const int64_t radius = context.attrs().GetOr("depth_radius", int64_t{5});
  if (radius < 0) return context.Error(absl::StrCat("depth_radius is ", radius, ", expected 0 or more"));
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (!context.shape(i).unknown_rank() && context.shape(i).rank() != 4) {
      return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected 4 dimensions"));
    }
    if (context.shape(i).fully_known() && context.shape(0).fully_known() && context.shape(i) != context.shape(0)) {
      return context.Error(absl::StrCat("inputs 0 and ", i, " are ", context.shape(0).ToString(), " and ",
                                        context.shape(i).ToString(), ", expected equal shapes"));
    }
  }
  MR_RETURN_IF_ERROR(context.ExpectInputs(context.op() == "LRN" ? 1 : 3));
  if (context.num_inputs() == 3) MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1, 2}));
  return SameAsFirstInput(context);
}

Cost LrnCost(const OpInstance& node) {
  Cost cost;
  cost.flops = (node.inputs.size() == 1 ? 20.0 : 40.0) * node.inputs[0].shape.num_elements();
  cost.bytes = (node.inputs.size() + 1.0) * node.inputs[0].size_bytes();
  return cost;
}

}  // namespace

void RegisterNormOps(OpRegistry& registry) {
  for (const char* name : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"}) {
    AddOp(registry, {.name = name, .shape = BatchNormShape, .cost = BatchNormCost, .in_place = {{0, 0}}});
  }
  for (const char* name : {"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"}) {
    AddOp(registry,
          {.name = name, .shape = BatchNormGradShape, .cost = BatchNormGradCost, .in_place = {{0, 0}, {0, 1}}});
  }
  AddOp(registry, {.name = kFusedNorm, .shape = BatchNormShape, .cost = FusedNormCost, .in_place = {{0, 0}, {0, 5}}});
  AddOp(registry, {.name = kFusedNormGrad, .shape = BatchNormGradShape, .cost = FusedNormGradCost, .in_place = {{0, 0}, {0, 1}}});
  AddOp(registry, {.name = "LRN", .shape = LrnShape, .cost = LrnCost});
  AddOp(registry, {.name = "LRNGrad", .shape = LrnShape, .cost = LrnCost, .in_place = {{0, 0}, {0, 1}, {0, 2}}});
}

}  // namespace millrace

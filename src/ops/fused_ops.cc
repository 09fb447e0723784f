// Groups of elementwise ops as one node, made by the passes: alone, and with reductions of what they compute.
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/fused_reduce.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Shape and element types of the ops are attributes.
absl::Status FusedShape(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const auto types, RequiredAttr<std::vector<DataType>>(context, "types"));
  MR_ASSIGN_OR_RETURN(Shape shape, RequiredAttr<Shape>(context, "shape"));
  if (types.empty()) return context.Error("has no ops");
  const auto results = context.attrs().GetOr<std::vector<int64_t>>("results", {});
  if (results.empty()) {
    context.AddOutput(types.back(), std::move(shape));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(std::vector<Shape> shapes, RequiredAttr<std::vector<Shape>>(context, "output_shapes"));
  std::vector<TensorType> outputs(shapes.size());
  for (size_t r = 0; r + 3 < results.size(); r += 4) {
    if (results[r] < 0 || results[r] >= static_cast<int64_t>(types.size()) || results[r + 1] < 0 ||
        results[r + 1] >= static_cast<int64_t>(shapes.size())) {
      return context.Error(absl::StrCat("has no op ", results[r], " or no output ", results[r + 1]));
    }
    outputs[results[r + 1]] = {types[results[r]], shapes[results[r + 1]]};
  }
  for (TensorType& output : outputs) context.AddOutput(output.dtype, std::move(output.shape));
  return absl::OkStatus();
}

Cost FusedCost(const OpInstance& instance) {
  double flops = 0;
  for (const FunctionRef& op : instance.attrs.GetOr<std::vector<FunctionRef>>("ops", {})) {
    const OpDef* def = OpRegistry::Builtin().Find(op.name);
    flops += def == nullptr || !def->cost ? 1 : kMathFlops;
  }
  const double elements = instance.attrs.GetOr<Shape>("shape", Shape()).num_elements();
  Cost cost;
  cost.flops = flops * elements;
  for (const TensorType& output : instance.outputs) cost.bytes += output.size_bytes();
  const auto pitches = instance.attrs.GetOr<std::vector<int64_t>>("pitches", {});
  const double row = instance.attrs.GetOr<int64_t>("row", 0);
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    const TensorType& input = instance.inputs[i];
    const bool by_rows = i < pitches.size() && pitches[i] >= 0;
    cost.bytes += by_rows ? (pitches[i] > 0 ? elements : row) * DataTypeSize(input.dtype) : input.size_bytes();
  }
  return cost;
}

// What is written comes first, then what is reduced.
absl::Status FusedReduceShape(InferenceContext& context) {
  const auto reductions = GroupReductionsOf(context.attrs(), context.num_inputs(), kMaxGroupReductions + 8);
  if (!reductions.ok()) return ErrorAtNode(context, reductions.status());
  MR_ASSIGN_OR_RETURN(const auto types, RequiredAttr<std::vector<DataType>>(context, "types"));
  MR_ASSIGN_OR_RETURN(std::vector<Shape> shapes, RequiredAttr<std::vector<Shape>>(context, "output_shapes"));
  const auto results = context.attrs().GetOr<std::vector<int64_t>>("results", {});
  std::vector<TensorType> outputs(shapes.size());
  const auto set = [&](int64_t output, DataType dtype) {
    if (output < 0 || output >= static_cast<int64_t>(shapes.size())) return context.Error(absl::StrCat("has no output ", output));
    outputs[output] = {dtype, shapes[output]};
    return absl::OkStatus();
  };
  for (size_t r = 0; r + 3 < results.size(); r += 4) {
    if (results[r] < 0 || results[r] >= static_cast<int64_t>(types.size())) return context.Error(absl::StrCat("has no op ", results[r]));
    MR_RETURN_IF_ERROR(set(results[r + 1], types[results[r]]));
  }
  for (const GroupReduction& reduction : *reductions) {
    const int64_t operand = reduction.operand;
    MR_RETURN_IF_ERROR(set(reduction.output, operand < 0 ? types[-1 - operand] : context.dtype(static_cast<int>(operand))));
  }
  for (TensorType& output : outputs) context.AddOutput(output.dtype, std::move(output.shape));
  return absl::OkStatus();
}

Cost FusedReduceCost(const OpInstance& instance) {
  Cost cost = FusedCost(instance);
  const double reductions = instance.attrs.GetOr<std::vector<std::string>>("reductions", {}).size();
  cost.flops += reductions * instance.attrs.GetOr<Shape>("shape", Shape()).num_elements();
  return cost;
}

}  // namespace

void RegisterFusedOps(OpRegistry& registry) {
  std::vector<std::pair<int, int>> any, first;
  for (int output = 0; output < 8; ++output) {
    for (int input = 0; input < 16; ++input) any.push_back({output, input});
  }
  for (int input = 0; input < 16; ++input) first.push_back({0, input});
  AddOp(registry, {.name = "_Fused", .shape = FusedShape, .cost = FusedCost, .in_place = any});
  AddOp(registry, {.name = "_FusedReduce", .shape = FusedReduceShape, .cost = FusedReduceCost});
  // What is reduced is known when all has been read, and may be as small as an input that all elements read.
  AddOp(registry, {.name = "_FusedMapReduce", .shape = FusedReduceShape, .cost = FusedReduceCost, .in_place = first});
}

}  // namespace millrace

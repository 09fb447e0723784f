// Scatter* on references and resources: rows of a variable joined with rows of updates.
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status Misfit(InferenceContext& context) {
  return context.Error(absl::StrCat("updates ", context.input(2).ToString(), " by indices ",
                                    context.input(1).ToString(), " do not fit a variable ",
                                    context.input(0).ToString()));
}

// Inputs: variable, indices, updates (one row for every index, or a scalar for all).
absl::Status CheckScatter(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  if (context.dtype(1) != DataType::kInt32 && context.dtype(1) != DataType::kInt64) {
    return context.Error(absl::StrCat("the indices are ", context.input(1).ToString(), ", expected int32 or int64"));
  }
  if (context.dtype(0) != context.dtype(2) || context.shape(0).rank() == 0) return Misfit(context);
  const Shape &variable = context.shape(0), &indices = context.shape(1);
  if (variable.unknown_rank() || indices.unknown_rank() || context.shape(2).rank() == 0) return absl::OkStatus();
  Shape expected = indices;
  for (int d = 1; d < variable.rank(); ++d) expected.AddDim(variable.dim(d));
  return MayBeEqual(expected, context.shape(2)) ? absl::OkStatus() : Misfit(context);
}

Cost ScatterCost(const OpInstance& instance) {
  const TensorType& updates = instance.inputs[2];
  return {.flops = static_cast<double>(updates.shape.num_elements()),
          .bytes = 3.0 * updates.size_bytes() + instance.inputs[1].size_bytes()};
}

void AddScatter(OpRegistry& registry, const std::string& name, bool resource) {
  AddOp(registry, {.name = name,
                   .shape = [=](InferenceContext& context) -> absl::Status {
                     MR_RETURN_IF_ERROR(CheckScatter(context));
                     if (!resource) context.AddOutput(context.dtype(0), context.shape(0));
                     return absl::OkStatus();
                   },
                   .cost = ScatterCost,
                   .variables = {{0, VariableAccess::kReadWrite}},
                   .returns_variable = !resource,
                   .writes_chosen_rows = true,
                   .stateful = true});
}

}  // namespace

void RegisterVariableScatterOps(OpRegistry& registry) {
  for (bool resource : {false, true}) {
    const std::string prefix = resource ? "ResourceScatter" : "Scatter";
    for (const char* name : {"Update", "Add", "Sub", "Mul", "Div", "Max", "Min"}) {
      AddScatter(registry, prefix + name, resource);
    }
  }
}

}  // namespace millrace

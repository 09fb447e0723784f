// Rarer special functions: Bessel functions of the first, second and modified second kind, Dawson's and Fresnel's
// integrals, exponential integral, dilogarithm, incomplete beta function; and the number of bits that are set.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Rough operations per element.
Cost SpecialCost(const OpInstance& node) {
  Cost cost;
  for (const TensorType& type : node.inputs) cost.bytes += type.size_bytes();
  cost.bytes += node.outputs[0].size_bytes();
  cost.flops = 100.0 * node.outputs[0].shape.num_elements();
  return cost;
}

absl::Status UnaryShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  return SameAsFirstInput(context);
}

absl::Status BitCountShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  if (!IsInteger(context.dtype(0))) return context.Error("counts the bits of integers only");
  context.AddOutput(DataType::kUint8, context.shape(0));
  return absl::OkStatus();
}

// (a, b, x): one shape, or scalars beside it.
absl::Status BetaincShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1, 2}));
  Shape shape;
  for (int i = 0; i < 3; ++i) {
    const Shape& other = context.shape(i);
    if (other.unknown_rank() || other.rank() == 0) continue;
    if (shape.rank() > 0 && shape.fully_known() && other.fully_known() && shape != other) {
      return context.Error(absl::StrCat("Shapes of a, b and x are inconsistent: ", shape.ToString(), " and ", other.ToString()));
    }
    shape = other;
  }
  context.AddOutput(context.dtype(0), shape);
  return absl::OkStatus();
}

}  // namespace

void RegisterSpecialOps(OpRegistry& registry) {
  for (const char* name : {"BesselJ0", "BesselJ1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1",
                           "Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence"}) {
    AddOp(registry, {.name = name, .shape = UnaryShape, .cost = SpecialCost, .in_place = {{0, 0}}});
  }
  AddOp(registry, {.name = "Betainc", .shape = BetaincShape, .cost = SpecialCost});
  AddOp(registry, {.name = "PopulationCount", .shape = BitCountShape});
}

}  // namespace millrace

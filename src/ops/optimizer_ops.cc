// Optimizer updates: Apply* on references, ResourceApply* on resource variables, and their sparse forms, which update
// the rows that the indices name.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Rough operations per element of an update.
constexpr double kUpdateFlops = 10;

// Inputs: the variable and its slots, then scalars with the gradient (and, in sparse ops, the indices after it) among
// them.
struct Optimizer {
  const char* name;
  int inputs;             // of the dense op
  int slots;              // the variable included
  int gradient;           // its input
  bool reference = true;  // has ops on references
  bool sparse = false;    // has sparse ops
};

constexpr Optimizer kOptimizers[] = {
    {"GradientDescent", 3, 1, 2},
    {"Momentum", 5, 2, 3, true, true},
    {"KerasMomentum", 5, 2, 3, false, true},
    {"Adam", 10, 3, 9},
    {"AdamWithAmsgrad", 11, 4, 10, false},
    {"AdaMax", 9, 3, 8},
    {"Adagrad", 4, 2, 3, true, true},
    {"AdagradV2", 5, 2, 4, true, true},
    {"AdagradDA", 8, 3, 3, true, true},
    {"ProximalGradientDescent", 5, 1, 4, true, true},
    {"ProximalAdagrad", 6, 2, 5, true, true},
    {"Adadelta", 7, 3, 6, true, true},
    {"Ftrl", 8, 3, 3, true, true},
    {"FtrlV2", 9, 3, 3, true, true},
    {"RMSProp", 8, 3, 7, true, true},
    {"CenteredRMSProp", 9, 4, 8, true, true},
    {"AddSign", 7, 2, 6},
    {"PowerSign", 7, 2, 6},
};

// The passes' own: the variable goes by a part, the rate, of the way to the value, which stands where a gradient would.
constexpr Optimizer kMovingAverage = {"MovingAverage", 3, 1, 2};

// Merges b into a where a is not known; false when they contradict each other.
bool MergeShape(Shape& a, const Shape& b) {
  if (b.unknown_rank()) return true;
  if (a.unknown_rank()) {
    a = b;
    return true;
  }
  if (a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank(); ++d) {
    if (a.dim(d) >= 0 && b.dim(d) >= 0 && a.dim(d) != b.dim(d)) return false;
    if (a.dim(d) < 0) a.set_dim(d, b.dim(d));
  }
  return true;
}

absl::Status CheckScalar(InferenceContext& context, int input) {
  const Shape& shape = context.shape(input);
  if (shape.rank() <= 0) return absl::OkStatus();
  return context.Error(absl::StrCat("input ", input, " is ", context.input(input).ToString(), ", expected a scalar"));
}

// The variable's shape, as far as it, its slots and a dense gradient tell it.
absl::StatusOr<Shape> VariableShape(InferenceContext& context, const Optimizer& optimizer, bool sparse) {
  Shape shape = context.shape(0);
  for (int i = 0; i < context.num_inputs(); ++i) {
    const bool is_array = i < optimizer.slots || (!sparse && i == optimizer.gradient);
    if (is_array && !MergeShape(shape, context.shape(i))) {
      return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(),
                                        ", expected the shape of the variable, ", context.input(0).ToString()));
    }
    if ((is_array || i == optimizer.gradient) && context.dtype(i) != context.dtype(0)) {
      return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), " and the variable ",
                                        context.input(0).ToString(), ", expected equal element types"));
    }
  }
  return shape;
}

// A sparse gradient has a row of the variable for every index.
absl::Status CheckRows(InferenceContext& context, const Shape& variable, const Shape& gradient, int indices) {
  const Shape& index = context.shape(indices);
  if (context.dtype(indices) != DataType::kInt32 && context.dtype(indices) != DataType::kInt64) {
    return context.Error(
        absl::StrCat("the indices are ", context.input(indices).ToString(), ", expected int32 or int64"));
  }
  if (variable.unknown_rank() || gradient.unknown_rank() || index.unknown_rank()) return absl::OkStatus();
  Shape expected = variable;
  if (variable.rank() >= 1 && index.rank() == 1) {
    expected.set_dim(0, index.dim(0));
    if (MergeShape(expected, gradient)) return absl::OkStatus();
  }
  return context.Error(absl::StrCat("a gradient ", gradient.ToString(), " with indices ", index.ToString(),
                                    " does not fit a variable ", variable.ToString()));
}

OpDef::ShapeRule UpdateShape(const Optimizer& optimizer, bool resource, bool sparse) {
  return [&optimizer, resource, sparse](InferenceContext& context) -> absl::Status {
    MR_RETURN_IF_ERROR(context.ExpectInputs(optimizer.inputs + (sparse ? 1 : 0)));
    MR_ASSIGN_OR_RETURN(const Shape shape, VariableShape(context, optimizer, sparse));
    for (int i = optimizer.slots; i < context.num_inputs(); ++i) {
      if (i == optimizer.gradient || (sparse && i == optimizer.gradient + 1)) continue;
      MR_RETURN_IF_ERROR(CheckScalar(context, i));
    }
    if (sparse) {
      MR_RETURN_IF_ERROR(CheckRows(context, shape, context.shape(optimizer.gradient), optimizer.gradient + 1));
    }
    if (!resource) context.AddOutput(context.dtype(0), shape);
    return absl::OkStatus();
  };
}

OpDef::CostRule UpdateCost(const Optimizer& optimizer) {
  return [&optimizer](const OpInstance& instance) {
    const TensorType& gradient = instance.inputs[optimizer.gradient];
    return Cost{.flops = kUpdateFlops * gradient.shape.num_elements(),
                .bytes = (2.0 * optimizer.slots + 1) * gradient.size_bytes()};
  };
}

void AddUpdate(OpRegistry& registry, const Optimizer& optimizer, bool resource, bool sparse) {
  const bool average = &optimizer == &kMovingAverage;
  OpDef def = {.name = average ? "_AssignMovingAverage"
                               : absl::StrCat(resource ? "Resource" : "", sparse ? "Sparse" : "", "Apply", optimizer.name),
               .shape = UpdateShape(optimizer, resource, sparse),
               .cost = UpdateCost(optimizer),
               .returns_variable = !resource,
               .writes_chosen_rows = sparse,
               .stateful = true};
  for (int i = 0; i < optimizer.slots; ++i) def.variables.push_back({i, VariableAccess::kReadWrite});
  AddOp(registry, std::move(def));
}

}  // namespace

void RegisterOptimizerOps(OpRegistry& registry) {
  for (const Optimizer& optimizer : kOptimizers) {
    for (bool sparse : {false, true}) {
      if (sparse && !optimizer.sparse) continue;
      AddUpdate(registry, optimizer, /*resource=*/true, sparse);
      if (optimizer.reference) AddUpdate(registry, optimizer, /*resource=*/false, sparse);
    }
  }
  AddUpdate(registry, kMovingAverage, /*resource=*/true, /*sparse=*/false);
}

}  // namespace millrace

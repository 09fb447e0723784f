#include "plan/check_instances.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/guard.h"
#include "millrace/status.h"

namespace millrace {
namespace {

class Checker {
 public:
  Checker(const ExecutionPlan& plan, const OpRegistry& ops) : plan_(plan), ops_(ops), bounds_(plan.dynamic_tensors.size(), nullptr) {}

  absl::Status Run() {
    // Of dynamic tensors, who makes them first: lanes of several devices are not in one order.
    for (const Lane& lane : plan_.lanes) {
      for (const ComputeStep& step : lane.compute) {
        for (size_t o = 0; o < step.output_shapes.size(); ++o) {
          if (step.output_shapes[o] >= 0) bounds_[step.output_shapes[o]] = &plan_.instances[step.instance].outputs[o];
        }
      }
    }
    for (const Lane& lane : plan_.lanes) {
      for (const ComputeStep& step : lane.compute) MR_RETURN_IF_ERROR(CheckStep(step));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Error(const OpInstance& instance, std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("plan: node '", instance.name, "' (", instance.op, ") ", std::string(what)));
  }

  absl::Status CheckStep(const ComputeStep& step) {
    const OpInstance& instance = plan_.instances[step.instance];
    const OpDef* def = ops_.Find(instance.op);
    if (def == nullptr) return Error(instance, "is of an op that is not known");
    if (def->is_variable || def->is_no_op) return Error(instance, "is of an op that has nothing to run");
    if (step.state_bytes != def->state_bytes) {
      return Error(instance, absl::StrCat("has ", step.state_bytes, " bytes of state, its op has ", def->state_bytes));
    }
    if (step.is_view != (step.is_dynamic() && def->is_view)) return Error(instance, "is a view, or is none, against its op");
    MR_RETURN_IF_ERROR(CheckKnownValues(instance));
    MR_RETURN_IF_ERROR(CheckVariables(instance, *def, step));
    MR_RETURN_IF_ERROR(CheckTypes(instance, *def, step));
    MR_RETURN_IF_ERROR(CheckInPlace(instance, *def, step));
    return step.is_dynamic() ? CheckDynamic(instance, step) : absl::OkStatus();
  }

  static absl::Status CheckKnownValues(const OpInstance& instance) {
    if (instance.input_values.size() > instance.inputs.size()) return Error(instance, "has values of inputs that it does not have");
    for (size_t i = 0; i < instance.input_values.size(); ++i) {
      const Tensor& value = instance.input_values[i];
      if (value.empty() || value.type() == instance.inputs[i]) continue;
      return Error(instance, absl::StrCat("has a value of type ", value.type().ToString(), " for input ", i, ", which is ", instance.inputs[i].ToString()));
    }
    return absl::OkStatus();
  }

  // Whether those that it reads and writes are those of its op.
  absl::Status CheckVariables(const OpInstance& instance, const OpDef& def, const ComputeStep& step) const {
    std::vector<int32_t> writes;
    bool overwrites = false;
    for (const VariableUse& use : def.variables) {
      if (use.input >= static_cast<int>(step.inputs.size())) continue;
      const int32_t variable = step.input_variables.empty() ? -1 : step.input_variables[use.input];
      if (use.writes() && variable < 0) return Error(instance, absl::StrCat("writes its input ", use.input, ", which is no variable of the plan"));
      if (use.writes()) writes.push_back(variable);
      overwrites = overwrites || use.access == VariableAccess::kWrite;
    }
    if (!std::equal(writes.begin(), writes.end(), step.writes_variables.begin(), step.writes_variables.end()) || overwrites != step.overwrites_variables) {
      return Error(instance, "writes other variables than its op does");
    }
    for (size_t i = 0; i < step.input_variables.size(); ++i) {
      if (step.input_variables[i] < 0) continue;
      const auto uses = [i](const VariableUse& use) { return use.input == static_cast<int>(i); };
      if (std::none_of(def.variables.begin(), def.variables.end(), uses)) {
        return Error(instance, absl::StrCat("takes a variable as input ", i, ", which its op does not"));
      }
      const TensorType& type = plan_.variables[step.input_variables[i]].type;
      if (type.dtype == instance.inputs[i].dtype && type.size_bytes() >= instance.inputs[i].size_bytes()) continue;
      return Error(instance, absl::StrCat("takes input ", i, ", ", instance.inputs[i].ToString(), ", of a variable of type ", type.ToString()));
    }
    return absl::OkStatus();
  }

  // Whether the types of the outputs follow from those of the inputs.
  absl::Status CheckTypes(const OpInstance& instance, const OpDef& def, const ComputeStep& step) {
    values_.assign(instance.inputs.size(), nullptr);
    for (size_t i = 0; i < instance.input_values.size(); ++i) {
      if (!instance.input_values[i].empty()) values_[i] = &instance.input_values[i];
    }
    InferenceContext context(instance.name, instance.op, instance.attrs, instance.inputs, values_);
    const absl::Status ruled = def.InferShapes(context);
    if (step.is_dynamic()) return absl::OkStatus();  // types are bounds, which the rule is held to when the step runs
    if (!ruled.ok()) return Error(instance, absl::StrCat("is not what its op allows: ", std::string(ruled.message())));
    if (!context.bound_outputs().empty()) return Error(instance, "has outputs whose shapes are known only when it runs, which the plan does not say");
    const absl::Span<const TensorType> types = context.outputs();
    if (types.size() != instance.outputs.size()) return Error(instance, absl::StrCat("has ", instance.outputs.size(), " outputs, its op has ", types.size()));
    for (size_t o = 0; o < types.size(); ++o) {
      if (types[o] == instance.outputs[o]) continue;
      return Error(instance, absl::StrCat("has an output ", o, " of type ", instance.outputs[o].ToString(), ", by its op's rule it is ", types[o].ToString()));
    }
    return absl::OkStatus();
  }

  // Whether a kernel computes right when outputs are in the memory of these inputs.
  static absl::Status CheckInPlace(const OpInstance& instance, const OpDef& def, const ComputeStep& step) {
    for (size_t o = 0; o < step.outputs.size() && !step.is_view; ++o) {
      if (step.outputs[o] == kNoAddress || instance.outputs[o].size_bytes() == 0) continue;
      int sharing = 0;
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (step.inputs[i] != step.outputs[o] || instance.inputs[i].size_bytes() == 0) continue;
        const std::pair<int, int> pair(static_cast<int>(o), static_cast<int>(i));
        const bool whole = instance.inputs[i].size_bytes() == instance.outputs[o].size_bytes();
        const bool may = (o == 0 && i == 0 && def.returns_variable) || std::count(def.in_place.begin(), def.in_place.end(), pair) > 0;
        if (!may || !whole || ++sharing > 1) {
          return Error(instance, absl::StrCat("has output ", o, " in the memory of input ", i, ", where its op must not write"));
        }
      }
    }
    const bool in_one_place = def.returns_variable || step.is_view;
    if (!in_one_place || step.outputs.empty() || step.inputs.empty() || step.outputs[0] == step.inputs[0]) return absl::OkStatus();
    if (instance.outputs[0].size_bytes() == 0 || instance.inputs[0].size_bytes() == 0) return absl::OkStatus();
    return Error(instance, "has another address for what it returns of its first input");
  }

  // Whether there is room for what is known when it runs: inputs are at most what those who make them may make, and what is read on the host is
  // in memory.
  absl::Status CheckDynamic(const OpInstance& instance, const ComputeStep& step) const {
    for (size_t i = 0; i < step.input_shapes.size(); ++i) {
      const TensorType* bound = step.input_shapes[i] < 0 ? nullptr : bounds_[step.input_shapes[i]];
      if (bound != nullptr && !(*bound == instance.inputs[i])) {
        return Error(instance, absl::StrCat("takes at most ", instance.inputs[i].ToString(), " as input ", i, ", which may be ", bound->ToString()));
      }
    }
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const bool read = i < 64 && (step.run_time_values >> i & 1) != 0;
      if (read && step.inputs[i] == kNoAddress && instance.inputs[i].size_bytes() > 0) {
        return Error(instance, absl::StrCat("reads input ", i, " when it runs, and has no address of it"));
      }
    }
    if (!instance.attrs.GetOr(kGuarded, false)) return absl::OkStatus();
    if (!instance.inputs.empty() && instance.inputs.back() == TensorType{DataType::kBool, Shape({})}) return absl::OkStatus();
    return Error(instance, "is guarded, and its last input is no guard");
  }

  const ExecutionPlan& plan_;
  const OpRegistry& ops_;
  std::vector<const TensorType*> bounds_;  // of dynamic tensors, by who makes them
  std::vector<const Tensor*> values_;      // of the node that is looked at
};

}  // namespace

absl::Status CheckInstances(const ExecutionPlan& plan, const OpRegistry& ops) { return Checker(plan, ops).Run(); }

}  // namespace millrace

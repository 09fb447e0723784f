#include "passes/host_budget.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/options.h"
#include "millrace/status.h"
#include "millrace/stream_name.h"
#include "millrace/types.h"
#include "passes/access/does_not_fit.h"

namespace millrace {

absl::Status CheckHostMemory(const ExecutionPlan& plan, int64_t budget_bytes) {
  if (budget_bytes == 0) return absl::OkStatus();
  std::map<std::string, int64_t> states;  // copies of a node share one
  for (const Lane& lane : plan.lanes) {
    for (const ComputeStep& step : lane.compute) {
      if (step.state_bytes > 0) states[StreamName(plan.instances[step.instance])] = AlignUp(step.state_bytes);
    }
  }
  int64_t of_states = 0, of_variables = 0;
  for (const auto& [node, bytes] : states) of_states += bytes;
  const int64_t needed = plan.host_bytes + of_states;
  if (needed <= budget_bytes) return absl::OkStatus();
  for (const PlanVariable& variable : plan.variables) of_variables += AlignUp(variable.type.size_bytes());
  const std::string missing = absl::StrCat(
      "does not fit: variables, states of nodes, constants and swapped tensors need ", needed, " bytes of host memory (",
      FormatBytes(needed), ": variables ", FormatBytes(of_variables), ", states ", FormatBytes(of_states), ", constants ",
      FormatBytes(plan.host_bytes - plan.host_pool_bytes - of_variables), ", swapped tensors ", FormatBytes(plan.host_pool_bytes), "), ",
      BudgetWords(needed, budget_bytes), LargestOnHostWords(plan));
  // Other plans may have variables whole, without the padding of their parts.
  const int64_t padding = kTensorAlignment * static_cast<int64_t>(plan.variables.size());
  if (needed - plan.host_pool_bytes - padding > budget_bytes) return absl::ResourceExhaustedError(missing);
  return OfHostMemory(DoesNotFitError(needed, missing));
}

int64_t StatesOf(const Graph& graph, const OpRegistry& ops) {
  int64_t bytes = 0;
  const auto add = [&](const Graph& of) {
    for (int32_t i = 0; i < of.num_ids(); ++i) {
      const OpDef* def = of.alive(NodeId{i}) ? ops.Find(of.node(NodeId{i}).op) : nullptr;
      if (def != nullptr && def->state_bytes > 0) bytes += AlignUp(def->state_bytes);
    }
  };
  add(graph);
  if (graph.library() == nullptr) return bytes;
  for (const auto& [name, function] : *graph.library()) add(*function.body);
  return bytes;
}

}  // namespace millrace

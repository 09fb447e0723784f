#include "session/host_room.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/options.h"
#include "millrace/stream_name.h"
#include "millrace/types.h"
#include "passes/access/does_not_fit.h"

namespace millrace {
namespace {

// As HostMemory hands them out.
int64_t HomeBytes(int64_t bytes) { return AlignUp(std::max<int64_t>(bytes, 1)); }

// Homes that the plan asks for and that are not there yet.
class NewHomes {
 public:
  explicit NewHomes(const VariableStore& store) : store_(store), states_(store.ReadStates()) {}

  void Add(const ExecutionPlan& plan) {
    for (const PlanVariable& variable : plan.variables) {
      if (store_.Find(variable.home_name()) != nullptr) continue;
      variables_[variable.home_name()] = HomeBytes(variable.home_type().size_bytes());
    }
    for (const Lane& lane : plan.lanes) {
      for (const ComputeStep& step : lane.compute) {
        if (step.state_bytes == 0) continue;
        const std::string node = StreamName(plan.instances[step.instance]);
        if (states_.count(node) == 0) new_states_[node] = HomeBytes(step.state_bytes);
      }
    }
  }
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const auto& [name, size] : variables_) bytes += size;
    for (const auto& [node, size] : new_states_) bytes += size;
    return bytes;
  }

 private:
  const VariableStore& store_;
  const std::map<std::string, Tensor> states_;
  std::map<std::string, int64_t> variables_, new_states_;
};

}  // namespace

absl::Status CheckHostRoom(const ExecutionPlan& plan, const std::vector<const ExecutionPlan*>& others, const HostMemory& host,
                           const VariableStore& store, int64_t budget_bytes) {
  if (budget_bytes == 0 || plan.tiered) return absl::OkStatus();
  NewHomes homes(store);
  homes.Add(plan);
  for (const ExecutionPlan* other : others) homes.Add(*other);
  int64_t needed = plan.host_bytes + host.home_bytes() + homes.bytes();
  for (const PlanVariable& variable : plan.variables) needed -= AlignUp(variable.type.size_bytes());
  if (needed <= budget_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "does not fit: variables, states of nodes, constants and swapped tensors need ", needed, " bytes of host memory in all (",
      FormatBytes(needed), "), ", BudgetWords(needed, budget_bytes), LargestOnHostWords(plan)));
}

}  // namespace millrace

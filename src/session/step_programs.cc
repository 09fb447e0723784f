#include "session/step_programs.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// Those whose keys begin so and that may be forgotten, the one that was used last first.
std::vector<StepPrograms::iterator> LastUsedFirst(const std::string& prefix, StepPrograms& programs) {
  std::vector<StepPrograms::iterator> found;
  for (auto it = programs.lower_bound(prefix); it != programs.end() && absl::StartsWith(it->first, prefix); ++it) {
    if (!it->second->stays) found.push_back(it);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a->second->last_use > b->second->last_use; });
  return found;
}

}  // namespace

absl::Status ForgetOldest(const std::string& prefix, size_t most, size_t most_nodes, VariableStore& variables, KernelCache& kernels,
                          StepPrograms& programs) {
  std::vector<StepPrograms::iterator> kept = LastUsedFirst(prefix, programs);
  size_t nodes = 0;
  for (const auto& program : kept) nodes += program->second->plan->instances.size();
  for (; kept.size() >= most && nodes >= most_nodes; kept.pop_back()) {
    MR_RETURN_IF_ERROR(variables.Acquire(nullptr));
    nodes -= kept.back()->second->plan->instances.size();
    programs.erase(kept.back());
    kernels.ForgetUnused();
  }
  return absl::OkStatus();
}

absl::Status StopOldest(const std::string& prefix, size_t most, size_t most_nodes, VariableStore& variables, KernelCache& kernels,
                        StepPrograms& programs) {
  std::vector<StepPrograms::iterator> running = LastUsedFirst(prefix, programs);
  std::erase_if(running, [](const auto& program) { return program->second->executor == nullptr; });
  size_t nodes = 0;
  for (size_t i = 0; i < running.size(); ++i) {
    StepProgram& program = *running[i]->second;
    nodes += program.plan->instances.size();
    if (i + 1 < most || (nodes < most_nodes && !program.executor->holds_threads())) continue;
    MR_RETURN_IF_ERROR(variables.Acquire(nullptr));
    program.executor = nullptr;
    kernels.ForgetUnused();
  }
  return absl::OkStatus();
}

}  // namespace millrace

// The compiled signatures of a session, and which of them are kept.
#ifndef MILLRACE_SRC_SESSION_STEP_PROGRAMS_H_
#define MILLRACE_SRC_SESSION_STEP_PROGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "millrace/plan.h"
#include "millrace/report.h"
#include "millrace/session.h"
#include "runtime/executor.h"
#include "runtime/kernel_cache.h"
#include "runtime/variable_store.h"
#include "session/hidden_states.h"
#include "session/replanner.h"

namespace millrace {

// A compiled signature.
struct StepProgram {
  std::shared_ptr<const ExecutionPlan> plan;
  std::shared_ptr<const HiddenStateUses> hidden;  // the plan's, whichever measured times it was made with
  GraphSummary summary;
  double plan_seconds = 0;
  std::vector<PassTime> passes;  // of planning
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Replanner> replanner;
  int64_t steps = 0;           // that ran
  int64_t switched_after = 0;  // of them, before the present plan took over
  int64_t replans = 0;
  bool measured_times = false;
  int64_t last_use = 0;
  bool stays = false;  // never forgotten
  std::string siblings;  // how the keys of the programs begin that its signature has for other values
};

using StepPrograms = std::map<std::string, std::unique_ptr<StepProgram>>;  // by ProgramKey

// Makes room for one more among the `most` programs whose keys begin so, or those of so many nodes.
absl::Status ForgetOldest(const std::string& prefix, size_t most, size_t most_nodes, VariableStore& variables, KernelCache& kernels,
                          StepPrograms& programs);

// Makes room for one more executor among the `most` of programs whose keys begin so. The plans stay, and so do executors beyond them that have no
// threads of their own, while their plans are of so many nodes together.
absl::Status StopOldest(const std::string& prefix, size_t most, size_t most_nodes, VariableStore& variables, KernelCache& kernels,
                        StepPrograms& programs);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_STEP_PROGRAMS_H_

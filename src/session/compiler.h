// Plans for a session: the pipeline with the session's graph, options and kernels.
#ifndef MILLRACE_SRC_SESSION_COMPILER_H_
#define MILLRACE_SRC_SESSION_COMPILER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/exceptions.h"
#include "millrace/graph.h"
#include "millrace/kernel.h"
#include "millrace/op.h"
#include "millrace/options.h"
#include "millrace/tensor.h"
#include "passes/pass_clock.h"
#include "passes/pipeline.h"
#include "runtime/kernel_cache.h"
#include "session/replanner.h"
#include "session/signature_key.h"

namespace millrace {

// Of variables that exist, by name.
using VariableTypes = std::map<std::string, TensorType>;

// What it is made from outlives it and the functions that it returns; options may change until the first plan.
class StepCompiler {
 public:
  struct Parts {
    const Graph& graph;
    const SessionOptions& options;
    const OpRegistry& ops;
    const KernelRegistry& host_kernels;
    const KernelRegistry& device_kernels;
    KernelCache& kernel_cache;
  };
  explicit StepCompiler(const Parts& parts) : parts_(parts) {}

  // `clock` may be null.
  absl::StatusOr<Compiled> Compile(const SignatureKey& key, const VariableTypes& variables, PassClock* clock);

  // Takes of `values` (by tensor name) into `key` what planning needs of them, one after another.
  absl::StatusOr<Compiled> CompileByValue(SignatureKey& key, const std::map<std::string, Tensor>& values,
                                          const VariableTypes& variables, PassClock* clock);

  // In creation order without any budget, what the signature needs of the graph: what is told of it, and what a plan that was read is held to.
  absl::StatusOr<Compiled> InCreationOrder(const SignatureKey& key, const VariableTypes& variables) {
    return WithoutExceptions([&] { return WithoutBudget(key, variables, Planning(), 0); });
  }

  // Whether a plan that was read computes what the graph says. `here`: InCreationOrder. It may have been made with other rewritings than
  // this session's; some of those must give what it computes. A plan that no session made is taken at its word, and so is one whose parts of
  // variables are not of one size that could have been asked for.
  absl::Status CheckComputesTheGraph(const ExecutionPlan& plan, const ExecutionPlan& here, const SignatureKey& key, const VariableTypes& variables);

  // A plan that was read, its devices by the names that they have here.
  std::shared_ptr<const ExecutionPlan> NamedHere(std::shared_ptr<const ExecutionPlan> plan) const;

  // Of the graph that plans are of. Taken when first asked for; from any thread.
  uint64_t GraphFingerprint();

  // For the planner beside the steps: touches nothing that steps write.
  Replanner::CompileFunction Later(const SignatureKey& key, VariableTypes variables);

 private:
  PlanningOptions Planning() const;
  // `part_bytes`: of updates in parts, if any.
  absl::StatusOr<Compiled> WithoutBudget(const SignatureKey& key, const VariableTypes& variables, PlanningOptions planning, int64_t part_bytes);
  absl::Status FinishPlan(const SignatureKey& key, ExecutionPlan& plan);
  absl::Status RecordChoices(ExecutionPlan& plan);

  const Parts parts_;
  std::once_flag fingerprinted_;
  uint64_t fingerprint_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_COMPILER_H_

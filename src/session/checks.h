// What is wrong with options, profiles and plans that a session is given. Nothing is changed.
#ifndef MILLRACE_SRC_SESSION_CHECKS_H_
#define MILLRACE_SRC_SESSION_CHECKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/options.h"
#include "millrace/plan.h"
#include "millrace/profile.h"
#include "millrace/session.h"
#include "runtime/runtime_device.h"
#include "runtime/kernel_cache.h"
#include "session/signature_key.h"

namespace millrace {

// Every number within its range, a strategy and devices that there are. InvalidArgument names the field.
absl::Status CheckOptions(const SessionOptions& options);

// Whether the built-in ops are there, which passes put into graphs.
absl::Status CheckOps(const OpRegistry& ops);

// No tensor twice ("x" and "x:0" are one), no handle of a variable, no node without outputs. Names that are not in
// the graph pass.
absl::Status CheckFeeds(const Graph& graph, const OpRegistry& ops, const SignatureKey& key);

// Whether any of its nodes is in the graph. Bodies of functions have names of their own, so graphs with functions pass.
absl::Status CheckProfileIsOf(const Graph& graph, const Profile& profile);

// Whether a plan that was read is for these feeds, fetches, and for variables as they exist.
// Of feeds, names and types; what they are is compared step by step.
absl::Status CheckPlanFeeds(const ExecutionPlan& plan, const Session::FeedTypes& feeds);
absl::Status CheckPlanFetches(const ExecutionPlan& plan, const std::vector<std::string>& fetches);
absl::Status CheckPlanVariables(const ExecutionPlan& plan, const std::map<std::string, TensorType>& existing);

// Whether it is of the graph with this fingerprint and runs these targets. What a file from before these were kept says nothing
// about passes.
absl::Status CheckPlanIsOf(const ExecutionPlan& plan, uint64_t graph_fingerprint, const std::vector<std::string>& targets);
// Whether steps know where the variables lie that they take: only ops that ask whether one has a value need not.
absl::Status CheckPlanInputs(const ExecutionPlan& plan, const OpRegistry& ops);
// Whether it is for these devices and keeps the budgets; ResourceExhausted when only the budgets are others.
absl::Status CheckPlanFits(const ExecutionPlan& plan, const PlanningOptions& options);
// Whether the kernels of `devices` find the scratch memory that they need: another kind of device has other kernels. None: no kernels.
absl::Status CheckPlanScratch(const ExecutionPlan& plan, const std::vector<std::unique_ptr<RuntimeDevice>>& devices, KernelCache& kernels);
// Whether a plan says for which values its turns of loops and its shapes are, given what became of planning for those that it names:
// files from before these were kept do not.
absl::Status CheckHasValues(const absl::Status& planned);
// Whether the step has the values that the plan is for, as far as they are known, or (`all_known`) all of them. FailedPrecondition has the
// first that is another.
absl::Status CheckPlanValues(const ExecutionPlan& plan, const SignatureKey& step, bool all_known);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_CHECKS_H_

#include "session/compiler.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "graph/fingerprint.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "passes/shapes/needed_feeds.h"
#include "plan/measured_times.h"
#include "plan/same_values.h"
#include "session/checks.h"
#include "session/cpu_oracle.h"

namespace millrace {

namespace {

// Says so where times were measured under other conditions than those planned for, or of few of the kernels.
void NoteWhereMeasured(const Profile& times, const SessionOptions& options, ExecutionPlan& plan) {
  const NodeTimes of_nodes(times);
  int64_t kernels = 0, measured = 0;
  for (const Lane& lane : plan.lanes) {
    for (const ComputeStep& step : lane.compute) {
      ++kernels;
      measured += of_nodes.Find(plan.instances[step.instance]) ? 1 : 0;
    }
  }
  if (measured < kernels - kernels / 10) {
    plan.notes.push_back(absl::StrCat("times of nodes: the profile has ", measured, " of ", kernels, " kernels, the others are by the cost rules"));
  }
  if (options.device == "null" && options.machine.name != Machine().name) {
    plan.notes.push_back(absl::StrCat("times of nodes and links are as the profile has them, not those of machine ", options.machine.name));
  }
  if (times.threads > 0 && options.threads > 0 && times.threads != options.threads) {
    plan.notes.push_back(absl::StrCat("times of nodes are of kernels on ", times.threads, " threads, here they have ", options.threads));
  }
}

// What answers questions is run once or so, what is compared never: they are to be planned soon, not well.
constexpr double kLittleWork = 0.02;
constexpr int64_t kMoreThanAll = int64_t{1} << 56;

// Where variables are cut into parts.
std::set<std::pair<std::string, int64_t>> PartsOf(const ExecutionPlan& plan) {
  std::set<std::pair<std::string, int64_t>> parts;
  for (const PlanVariable& variable : plan.variables) {
    if (!variable.whole.empty()) parts.emplace(variable.whole, variable.home_offset);
  }
  return parts;
}

// The most bytes of a part that give as many parts as the plan has, of each variable; 0 where it has none.
int64_t PartBytesOf(const ExecutionPlan& plan) {
  std::map<std::string, int64_t> parts;
  for (const PlanVariable& variable : plan.variables) ++parts[variable.whole];
  int64_t bytes = 0;
  for (const PlanVariable& variable : plan.variables) {
    if (variable.whole.empty()) continue;
    const int64_t of_whole = std::max<int64_t>(1, variable.whole_type.size_bytes() / parts[variable.whole]);
    bytes = bytes == 0 ? of_whole : std::min(bytes, of_whole);
  }
  return bytes;
}

absl::Status OtherThanTheGraph(const absl::Status& same) {
  return WithPrefix(same, "the plan does not compute what this graph does, or another version made it");
}

// Without what is computed again.
std::set<std::string> NodesThatRun(const ExecutionPlan& plan) {
  std::set<std::string> names;
  for (const OpInstance& instance : plan.instances) names.insert(instance.name.substr(0, instance.name.find("/recompute")));
  return names;
}

}  // namespace

// Without the rewritings whose nodes the device cannot run.
PlanningOptions StepCompiler::Planning() const {
  PlanningOptions planning = parts_.options.planning;
  const KernelRegistry& kernels = parts_.device_kernels;
  for (const char* op : {"_Fused", "_FusedReduce", "_FusedMapReduce", "_FusedMatMul", "_FusedConv2D", "_FusedConv3D", "_FusedBatchNormEx",
                         "_FusedBatchNormReluGrad", "_AssignMovingAverage"}) {
    planning.fuse = planning.fuse && kernels.Find(op) != nullptr;
  }
  planning.accumulate_products = planning.accumulate_products && kernels.Find("_SumProducts") != nullptr &&
                                 kernels.Find("_SumColumns") != nullptr;
  return planning;
}

// Writes into the plan what kernels have chosen, so that it gives the same bits wherever it runs again.
absl::Status StepCompiler::RecordChoices(ExecutionPlan& plan) {
  if (parts_.options.device != "cuda") return absl::OkStatus();  // kernels of the host have nothing to choose
  for (const Lane& lane : plan.lanes) {
    for (const ComputeStep& step : lane.compute) {
      if (step.is_dynamic()) continue;
      OpInstance& instance = plan.instances[step.instance];
      MR_ASSIGN_OR_RETURN(const std::shared_ptr<const Kernel> kernel, parts_.kernel_cache.Get(instance, lane.device));
      if (!kernel->choice().empty()) instance.attrs.Set(kKernelChoice, kernel->choice());
    }
  }
  return absl::OkStatus();
}

uint64_t StepCompiler::GraphFingerprint() {
  std::call_once(fingerprinted_, [this] { fingerprint_ = Fingerprint(parts_.graph); });
  return fingerprint_;
}

// Writes into the plan what a session that reads it must know.
absl::Status StepCompiler::FinishPlan(const SignatureKey& key, ExecutionPlan& plan) {
  plan.graph_fingerprint = GraphFingerprint();
  plan.targets = key.targets;
  plan.feed_values = OwnCopies(key.feed_values);
  plan.answers = key.answers;
  return RecordChoices(plan);
}

absl::StatusOr<Compiled> StepCompiler::Compile(const SignatureKey& key, const VariableTypes& variables, PassClock* clock) {
  MR_RETURN_IF_ERROR(CheckFeeds(parts_.graph, parts_.ops, key));
  const SessionOptions& options = parts_.options;
  const Profile* times = options.profile.get();
  const Machine machine =
      times != nullptr ? WithMeasuredLinks(options.machine, *times, options.link_gbps) : options.machine;
  CpuOracle oracle(parts_.ops, parts_.host_kernels, parts_.kernel_cache, options.device == "null", times, options.cancelled);
  MR_ASSIGN_OR_RETURN(Compiled compiled, millrace::Compile({parts_.graph, parts_.ops, oracle, MakeSignature(key), Planning(),
                                                            machine, variables, !options.disk.empty(), clock, key.ask ? kLittleWork : 1.0}));
  MR_RETURN_IF_ERROR(FinishPlan(key, compiled.plan));
  if (times == nullptr) return compiled;
  MR_RETURN_IF_ERROR(CheckProfile(*times, compiled.plan));
  MR_RETURN_IF_ERROR(PredictWithMeasuredTimes(*times, machine, &compiled.plan));
  NoteWhereMeasured(*times, options, compiled.plan);
  return compiled;
}

absl::StatusOr<Compiled> StepCompiler::CompileByValue(SignatureKey& key, const std::map<std::string, Tensor>& values,
                                                      const VariableTypes& variables, PassClock* clock) {
  while (true) {
    absl::StatusOr<Compiled> compiled = WithoutExceptions([&] { return Compile(key, variables, clock); });
    bool more = false;
    for (const std::string& name : NeededFeeds(compiled.status())) {
      const auto value = values.find(name);
      if (value != values.end()) more = key.feed_values.insert(*value).second || more;
    }
    if (!more) return compiled;
  }
}

absl::StatusOr<Compiled> StepCompiler::WithoutBudget(const SignatureKey& key, const VariableTypes& variables, PlanningOptions planning,
                                                     int64_t part_bytes) {
  MR_RETURN_IF_ERROR(CheckFeeds(parts_.graph, parts_.ops, key));
  planning.strategy = "baseline";
  planning.device_memory_bytes = 0;
  planning.device_memory_bytes_of.clear();
  planning.host_memory_bytes = 0;
  if (part_bytes > 0) {
    // Only this strategy has parts, and only under a budget: one that everything fits.
    planning.strategy = "planned";
    planning.device_memory_bytes = kMoreThanAll;
    planning.update_part_bytes = part_bytes;
    planning.recompute = Recompute::kOff;
  }
  const SessionOptions& options = parts_.options;
  CpuOracle oracle(parts_.ops, parts_.host_kernels, parts_.kernel_cache, options.device == "null", nullptr, options.cancelled);
  return millrace::Compile({parts_.graph, parts_.ops, oracle, MakeSignature(key), planning, options.machine, variables, false, nullptr, kLittleWork});
}

absl::Status StepCompiler::CheckComputesTheGraph(const ExecutionPlan& plan, const ExecutionPlan& here, const SignatureKey& key,
                                                 const VariableTypes& variables) {
  if (plan.graph_fingerprint == 0) return absl::OkStatus();
  const int64_t part_bytes = PartBytesOf(plan);
  absl::Status same = part_bytes == 0 ? CheckSameValues(plan, here) : absl::OkStatus();
  if (part_bytes == 0 && (same.ok() || NodesThatRun(plan) == NodesThatRun(here))) return OtherThanTheGraph(same);
  bool PlanningOptions::*const rewritings[] = {&PlanningOptions::fuse, &PlanningOptions::channels_first, &PlanningOptions::pack_rows,
                                               &PlanningOptions::accumulate_products};
  const PlanningOptions planning = Planning();
  for (unsigned others = part_bytes == 0 ? 1 : 0; others < 1u << std::size(rewritings); ++others) {
    PlanningOptions other = planning;
    for (size_t r = 0; r < std::size(rewritings); ++r) other.*rewritings[r] = (planning.*rewritings[r]) != ((others >> r & 1) != 0);
    const absl::StatusOr<Compiled> compiled = WithoutExceptions([&] { return WithoutBudget(key, variables, other, part_bytes); });
    if (!compiled.ok() || PartsOf(compiled->plan) != PartsOf(plan)) continue;
    const absl::Status compared = CheckSameValues(plan, compiled->plan);
    if (compared.ok()) return compared;
    if (same.ok()) same = compared;
    if (NodesThatRun(plan) == NodesThatRun(compiled->plan)) return OtherThanTheGraph(compared);
  }
  return OtherThanTheGraph(same);
}

std::shared_ptr<const ExecutionPlan> StepCompiler::NamedHere(std::shared_ptr<const ExecutionPlan> plan) const {
  const std::vector<std::string>& names = parts_.options.planning.devices;
  std::shared_ptr<ExecutionPlan> renamed;
  for (size_t d = 0; d < plan->devices.size(); ++d) {
    const std::string name = names.empty() ? absl::StrCat(parts_.options.machine.name, ":", d) : names[d];
    const int64_t budget_bytes = parts_.options.planning.BudgetOf(static_cast<int32_t>(d));
    if (plan->devices[d].name == name && plan->devices[d].budget_bytes == budget_bytes) continue;
    if (renamed == nullptr) renamed = std::make_shared<ExecutionPlan>(*plan);
    renamed->devices[d].name = name;
    renamed->devices[d].budget_bytes = budget_bytes;  // an arena of the budget is reserved, which may be less here
  }
  return renamed == nullptr ? std::move(plan) : std::move(renamed);
}

Replanner::CompileFunction StepCompiler::Later(const SignatureKey& key, VariableTypes variables) {
  SignatureKey kept = key;
  kept.feed_values = OwnCopies(key.feed_values);
  return [this, key = std::move(kept), variables = std::move(variables)](
             const Profile& times, const Machine& machine, const std::atomic<bool>& stop) -> absl::StatusOr<Compiled> {
    CpuOracle oracle(parts_.ops, parts_.host_kernels, parts_.kernel_cache, false, &times, [&stop] { return stop.load(); });
    MR_ASSIGN_OR_RETURN(Compiled compiled,
                        millrace::Compile({parts_.graph, parts_.ops, oracle, MakeSignature(key), Planning(), machine, variables,
                                           !parts_.options.disk.empty()}));
    MR_RETURN_IF_ERROR(FinishPlan(key, compiled.plan));
    return compiled;
  };
}

}  // namespace millrace

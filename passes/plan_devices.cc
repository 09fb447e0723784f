#include "passes/plan_devices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "passes/access/sent_values.h"
#include "passes/device_timeline.h"
#include "passes/planner/gaps.h"
#include "passes/planner/lower_bound.h"
#include "passes/planner/replay_packed.h"
#include "passes/swaps/choose_swaps.h"
#include "passes/urgent_copies.h"

namespace millrace {
namespace {

// What is on its way to the host keeps its place beside the result that would take it, if it is no more than this part of the budget.
constexpr int64_t kKeptPart = 16;

// Nodes that run at once hold their memory at once: under a budget they get a small part of it.
int64_t MaxJoinedBytes(int64_t budget_bytes) {
  constexpr int64_t kUnlimited = int64_t{64} << 20;
  return budget_bytes > 0 ? std::min(kUnlimited, budget_bytes / 32) : kUnlimited;
}

constexpr char kOfDevice[] = "millrace/of_device";

// By more than sums that are taken in another order differ.
constexpr double kSurelyLonger = 1 + 1e-6;

// Of the busier lane: no step is shorter.
double LinkSeconds(const AccessGraph& graph, const Machine& machine, const SwapChoice& choice) {
  double in = 0, out = 0;
  for (const SwapDecision& d : choice.decisions) {
    const auto bytes = static_cast<double>(graph.storages[d.storage].size_bytes);
    if (d.copy_out) out += machine.copy_latency_seconds + bytes / machine.to_host_bytes_per_second;
    if (d.copy_in && d.before != SwapDecision::kToHost) {
      in += machine.copy_latency_seconds + bytes / machine.to_device_bytes_per_second;
    }
  }
  return std::max(in, out);
}

// Decides what leaves the device when, and where everything lies. Options and limits are those of this device.
absl::Status PlanMemory(const CompileRequest& request, const PlanningOptions& options, const Strategy& strategy,
                        const Graph& graph, const PlanLimits& limits, DevicePlan& plan) {
  const int64_t budget_bytes = options.device_memory_bytes;
  const AccessGraph& access = plan.device.access;
  const Machine machine = WithCopyPrice(request);
  const auto name_of = [&](int32_t operation) { return graph.node(plan.device.operations[operation].node()).name; };
  if (budget_bytes > 0) MR_RETURN_IF_ERROR(CheckWorkingSets(access, budget_bytes, name_of));
  // When the time is over, orders are told apart by their bounds.
  if (limits.effort == PlanEffort::kQuick && limits.deadline.passed()) {
    plan.gaps = FindGaps(access, machine);
    plan.choice.predicted_seconds = CutBound(plan.gaps, budget_bytes > 0 ? budget_bytes : std::numeric_limits<int64_t>::max());
    return absl::OkStatus();
  }
  // The policy decides on storages and times alone …
  if (!plan.decided) {
    const PassClock::Run run(request.clock, "choose swaps");
    PlanLimits allowed = limits;
    allowed.residents_leave = !request.disk_tier;
    MR_ASSIGN_OR_RETURN(plan.choice, strategy.swaps({access, options, machine, graph, plan.device, allowed, &plan.gaps}));
  }
  // … as if feeds were there from the start, which those of other devices are not …
  SwapChoice without_delay;
  bool delayed = false;
  if (options.num_devices() > 1) {
    without_delay = plan.choice;
    delayed = DelayArrivals(access, machine, plan.choice);
    ReuseSent(graph, plan.device, plan.choice);
  }
  MR_RETURN_IF_ERROR(VerifySwaps(access, plan.choice));
  if (limits.effort == PlanEffort::kQuick) return absl::OkStatus();
  if (LinkSeconds(access, machine, plan.choice) > limits.known_seconds) return absl::AbortedError("too many copies");
  // … and the rest is the same for every policy: one total order, addresses.
  const PassClock::Run run(request.clock, "assign memory");
  plan.schedule = plan.gaps.graph != nullptr ? BuildSchedule(access, plan.gaps.lists, plan.choice.decisions) : BuildSchedule(access, plan.choice);
  absl::StatusOr<MemoryAssignment> memory = AssignMemory(access, plan.schedule, plan.choice, budget_bytes, name_of);
  if (!memory.ok() && delayed) {
    // Shorter stays may pack worse. The addresses of the longer ones hold for them.
    memory = AssignMemory(access, BuildSchedule(access, without_delay), without_delay, budget_bytes, name_of);
  }
  MR_RETURN_IF_ERROR(memory.status());
  plan.memory = *std::move(memory);
  MR_RETURN_IF_ERROR(VerifyMemory(access, plan.schedule, plan.memory));
  double plan_seconds = std::max(plan.choice.predicted_seconds, LinkSeconds(access, machine, plan.choice));
  if (options.num_devices() > 1) {
    // Where others are waited for, an operation may begin later than the device itself is ready: bounds go by what it does itself.
    plan.device.access.seconds = plan.own_seconds;
    plan.gaps = GapGraph();
  }
  const bool priced = request.copy_price != 1;  // the bound is that of the machine's links
  if (priced || plan.gaps.graph == nullptr) plan.gaps = FindGaps(access, request.machine);
  if (priced) plan_seconds = LeastPackedSeconds(plan.gaps, plan.schedule, plan.choice, plan.memory);
  // A step that is longer than a known one need not be written down.
  if (std::isfinite(limits.known_seconds) && options.num_devices() == 1 &&
      LeastPackedSeconds(plan.gaps, plan.schedule, plan.choice, plan.memory) > kSurelyLonger * limits.known_seconds) {
    return absl::AbortedError("waits too long");
  }
  const int64_t whole_budget = limits.whole_budgets.empty() ? budget_bytes : limits.whole_budgets[0];
  plan.lower_bound_seconds = std::max(plan.timeline_seconds, LowerBound(plan.gaps, whole_budget, plan_seconds));
  plan.gaps = GapGraph();
  return absl::OkStatus();
}

// One device's as it was looked at, in no partitions yet or decided; empty when it must be made again.
std::vector<DevicePlan> Reusable(std::vector<DevicePlan> looked, Graph& graph) {
  if (looked.size() != 1) return {};
  DevicePlan& plan = looked[0];
  const std::vector<int32_t>& partition = plan.device.access.partition;
  const auto other = [&](int32_t p) { return p != partition.front(); };
  // Nodes that run at once were joined within those: with other cuts they would be joined otherwise.
  if (!plan.decided && std::any_of(partition.begin(), partition.end(), other)) return {};
  NameAndCut(graph, plan.device);
  if (plan.gaps.graph != nullptr) plan.gaps.graph = &plan.device.access;
  if (!plan.decided) plan.choice = SwapChoice();
  return looked;
}

void ApplyTimeline(DeviceTimeline timeline, bool waits_hide_copies, std::vector<DevicePlan>& plans) {
  for (size_t d = 0; d < plans.size(); ++d) {
    plans[d].timeline_seconds = timeline.step_seconds;
    plans[d].own_seconds = plans[d].device.access.seconds;
    if (waits_hide_copies) plans[d].device.access.seconds = std::move(timeline.seconds[d]);
  }
}

absl::Status OnDevice(const CompileRequest& request, int32_t device, const absl::Status& status) {
  if (status.ok() || request.options.num_devices() == 1) return status;
  return WithPrefix(status, DeviceName(request, device));
}

}  // namespace

absl::Status OfDevice(absl::Status status, int32_t device) {
  if (absl::IsResourceExhausted(status)) status.SetPayload(kOfDevice, absl::Cord(absl::StrCat(device)));
  return status;
}

int32_t DeviceOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kOfDevice);
  int32_t device = -1;
  return payload.has_value() && absl::SimpleAtoi(std::string(*payload), &device) ? device : -1;
}

Machine WithCopyPrice(const CompileRequest& request) {
  Machine machine = request.machine;
  machine.to_host_bytes_per_second /= request.copy_price;
  machine.to_device_bytes_per_second /= request.copy_price;
  return machine;
}

absl::StatusOr<std::vector<DevicePlan>> DecideDevices(const CompileRequest& request, const Strategy& strategy,
                                                      const Partitioning& partitioning,
                                                      const InferenceResult& inferred, const PlanLimits& limits,
                                                      Graph& graph, std::vector<DevicePlan> looked) {
  MR_RETURN_IF_ERROR(request.oracle.MayGoOn());
  const int32_t num_devices = request.options.num_devices();
  std::vector<DevicePlan> plans;
  std::vector<DeviceGraph*> devices;
  const std::vector<DeviceOrder> orders = SplitByDevice(graph, partitioning.order, num_devices);
  std::vector<RemoteWaits> waits;
  {
    const PassClock::Run run(request.clock, "storage");
    plans = Reusable(std::move(looked), graph);
    const bool known = !plans.empty();
    const bool may_be_dropped = std::isfinite(limits.known_seconds);  // then names are made when it is not
    plans.resize(num_devices);
    // Tensors to storages: views and in-place results share memory before anything is counted.
    for (int32_t d = 0; d < num_devices; ++d) {
      if (!known) {
        plans[d].device = BuildDeviceGraph(graph, orders[d], inferred,
                                           {.max_joined_bytes = MaxJoinedBytes(request.options.BudgetOf(d)),
                                            .names = limits.effort == PlanEffort::kFull && (num_devices > 1 || !may_be_dropped),
                                            .alignment = request.machine.tensor_alignment_bytes,
                                            .max_kept_bytes = strategy.order == Strategy::Order::kBest ? request.options.BudgetOf(d) / kKeptPart : 0,
                                            .copy_latency_seconds = request.machine.copy_latency_seconds,
                                            .to_host_bytes_per_second = request.machine.to_host_bytes_per_second});
      }
      devices.push_back(&plans[d].device);
    }
    NameReceived(graph, devices);
    waits = FindRemoteWaits(graph, partitioning.order, {devices.begin(), devices.end()});
    if (num_devices > 1) {
      ApplyTimeline(TimeDevices(graph, partitioning.order, {devices.begin(), devices.end()}, waits, request.machine),
                    limits.waits_hide_copies, plans);
    }
  }
  for (int32_t d = 0; d < num_devices; ++d) {
    plans[d].remote_waits = std::move(waits[d]);
    PlanningOptions options = request.options;
    options.device_memory_bytes = request.options.BudgetOf(d);
    PlanLimits own = limits;
    own.work_part /= num_devices - d;
    if (!limits.whole_budgets.empty()) own.whole_budgets = limits.whole_budgets.subspan(d, 1);
    absl::Status status = PlanMemory(request, options, strategy, graph, own, plans[d]);
    if (absl::IsResourceExhausted(status) && limits.effort == PlanEffort::kQuick) {
      // Again, for the message.
      for (DevicePlan& named : plans) NameStorages(graph, named.device);
      NameReceived(graph, devices);
      status = PlanMemory(request, options, strategy, graph, own, plans[d]);
    }
    if (!limits.whole_budgets.empty()) status = OfDevice(std::move(status), d);
    MR_RETURN_IF_ERROR(OnDevice(request, d, status));
    if (limits.effort != PlanEffort::kFull) continue;
    if (plans[d].device.access.names.empty()) NameStorages(graph, plans[d].device);
    MakeInstances(graph, inferred, plans[d].device);
  }
  if (num_devices > 1 && limits.effort == PlanEffort::kFull && strategy.order == Strategy::Order::kBest) {
    const PassClock::Run run(request.clock, "urgent copies");
    LetUrgentCopiesPass(graph, partitioning.order, request.machine, plans);
  }
  return plans;
}

absl::Status InsertCopies(const CompileRequest& request, std::vector<DevicePlan>& plans, Graph& graph) {
  const PassClock::Run run(request.clock, "insert swaps");
  for (DevicePlan& plan : plans) plan.swaps = InsertSwaps(graph, plan.device, plan.choice, plan.schedule);
  return VerifySwapNodes(graph, request.ops);
}

}  // namespace millrace

#include "plan/simulator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "plan/step_order.h"

namespace millrace {
namespace {

// Bytes live over time: a residence counts from the start of the step at its first position to the end of the step
// at its last.
std::vector<std::vector<MemoryPoint>> MemoryOverTime(const ExecutionPlan& plan, const std::vector<StepRef>& order,
                                                     const LaneTimes& times) {
  struct Change {
    double seconds;
    int64_t bytes;
  };
  std::vector<std::vector<Change>> changes(plan.devices.size());
  for (const Residence& residence : plan.residences) {
    if (residence.device < 0 || residence.device >= static_cast<int32_t>(changes.size())) continue;
    const auto first = std::lower_bound(order.begin(), order.end(), residence.first,
                                        [](const StepRef& step, int64_t p) { return step.position < p; });
    const auto last = std::upper_bound(order.begin(), order.end(), residence.last,
                                       [](int64_t p, const StepRef& step) { return p < step.position; });
    if (first >= last) continue;
    changes[residence.device].push_back({times.start[first - order.begin()], residence.bytes});
    changes[residence.device].push_back({times.end[last - order.begin() - 1], -residence.bytes});
  }
  std::vector<std::vector<MemoryPoint>> memory(plan.devices.size());
  for (size_t d = 0; d < changes.size(); ++d) {
    std::stable_sort(changes[d].begin(), changes[d].end(),
                     [](const Change& a, const Change& b) { return a.seconds < b.seconds; });
    int64_t live = 0;
    for (const Change& change : changes[d]) {
      live += change.bytes;
      if (!memory[d].empty() && memory[d].back().seconds == change.seconds) {
        memory[d].back().bytes = live;
      } else {
        memory[d].push_back({change.seconds, live});
      }
    }
  }
  return memory;
}

}  // namespace

void LaneSchedule::Clear(int32_t lanes) {
  num_lanes = lanes;
  lane.clear();
  seconds.clear();
  first_wait.assign(1, 0);
  waits.clear();
}

void LaneSchedule::Add(int32_t step_lane, double step_seconds, absl::Span<const Wait> step_waits) {
  lane.push_back(step_lane);
  seconds.push_back(step_seconds);
  waits.insert(waits.end(), step_waits.begin(), step_waits.end());
  first_wait.push_back(static_cast<int64_t>(waits.size()));
}

absl::Status SimulateLanes(const LaneSchedule& schedule, LaneTimes* times) {
  const int64_t n = schedule.num_steps();
  times->start.resize(n);
  times->end.resize(n);
  times->busy.assign(schedule.num_lanes, 0);
  times->seconds = 0;
  times->ends_by_lane_.resize(schedule.num_lanes);
  for (std::vector<double>& ends : times->ends_by_lane_) ends.clear();
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double>& ends = times->ends_by_lane_[schedule.lane[i]];
    const double free = ends.empty() ? 0 : ends.back();
    double start = free;
    for (int64_t w = schedule.first_wait[i]; w < schedule.first_wait[i + 1]; ++w) {
      const Wait& wait = schedule.waits[w];
      if (wait.count <= 0) continue;
      const std::vector<double>& others = times->ends_by_lane_[wait.lane];
      if (wait.count > static_cast<int64_t>(others.size())) {
        return absl::InvalidArgumentError(absl::StrCat("step ", i, " waits for ", wait.count, " steps of lane ",
                                                       wait.lane, ", of which ", others.size(), " come before it"));
      }
      start = std::max(start, others[wait.count - 1]);
    }
    if (start > free) start += schedule.wake_seconds;
    const double end = start + schedule.seconds[i];
    times->start[i] = start;
    times->end[i] = end;
    times->busy[schedule.lane[i]] += schedule.seconds[i];
    times->seconds = std::max(times->seconds, end);
    ends.push_back(end);
  }
  return absl::OkStatus();
}

double LowerBoundSeconds(double compute_seconds, int64_t bytes_to_host, int64_t bytes_to_device,
                         const Machine& machine) {
  double bound = compute_seconds;
  if (machine.to_host_bytes_per_second > 0) {
    bound = std::max(bound, static_cast<double>(bytes_to_host) / machine.to_host_bytes_per_second);
  }
  if (machine.to_device_bytes_per_second > 0) {
    bound = std::max(bound, static_cast<double>(bytes_to_device) / machine.to_device_bytes_per_second);
  }
  return bound;
}

namespace {

double LaunchesOf(const Lane& lane) {
  double launches = 0;
  for (const CopyStep& copy : lane.copies) launches += CopyLaunches(copy.host.kind == HostRef::Kind::kVariable);
  return launches;
}

// Without events and memory.
absl::StatusOr<Simulation> SimulateTimes(const ExecutionPlan& plan, const Machine& machine, const SimulationModel& model,
                                         const std::vector<StepRef>& order, LaneTimes& times) {
  const int32_t num_lanes = static_cast<int32_t>(plan.lanes.size());
  LaneSchedule schedule;
  schedule.Clear(num_lanes);
  schedule.wake_seconds = model.wake_seconds;
  for (const StepRef& step : order) {
    const Lane& lane = plan.lanes[step.lane];
    for (const Wait& wait : WaitsOf(lane, step.index)) {
      if (wait.lane < 0 || wait.lane >= num_lanes) {
        return absl::InvalidArgumentError(
            absl::StrCat("step '", NameOf(plan, step.lane, step.index), "' waits for lane ", wait.lane));
      }
    }
    schedule.Add(step.lane, SecondsOf(lane, step.index), WaitsOf(lane, step.index));
  }
  MR_RETURN_IF_ERROR(SimulateLanes(schedule, &times));

  Simulation simulation;
  simulation.busy_seconds = times.busy;
  std::vector<double> compute(plan.devices.size());
  std::vector<int64_t> to_host(plan.devices.size()), to_device(plan.devices.size());
  std::vector<double> launches(plan.devices.size());
  for (int32_t l = 0; l < num_lanes; ++l) {
    const Lane& lane = plan.lanes[l];
    if (lane.device < 0 || lane.device >= static_cast<int32_t>(plan.devices.size())) {
      return absl::InvalidArgumentError(absl::StrCat("lane ", l, " is of device ", lane.device, ", which is not there"));
    }
    int64_t bytes = 0;
    for (const CopyStep& copy : lane.copies) bytes += copy.bytes;
    if (lane.kind == LaneKind::kCompute) compute[lane.device] += times.busy[l];
    if (lane.kind == LaneKind::kToDisk || lane.kind == LaneKind::kFromDisk) {
      const double seconds = static_cast<double>(bytes) / machine.disk_bytes_per_second;
      simulation.lower_bound_seconds = std::max(simulation.lower_bound_seconds, seconds);
    }
    if (lane.kind == LaneKind::kToHost || lane.kind == LaneKind::kToDevice) launches[lane.device] += LaunchesOf(lane);
    if (lane.kind == LaneKind::kToHost) to_host[lane.device] += bytes;
    if (lane.kind == LaneKind::kToDevice) to_device[lane.device] += bytes;
  }
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    simulation.compute_seconds = std::max(simulation.compute_seconds, compute[d]);
    simulation.bytes_to_host += to_host[d];
    simulation.bytes_to_device += to_device[d];
    simulation.lower_bound_seconds =
        std::max(simulation.lower_bound_seconds, LowerBoundSeconds(compute[d], to_host[d], to_device[d], machine));
  }
  const double most_launches = launches.empty() ? 0 : *std::max_element(launches.begin(), launches.end());
  simulation.step_seconds = times.seconds + model.step_overhead_seconds + most_launches * machine.copy_launch_seconds;
  simulation.stall_seconds = simulation.step_seconds - simulation.compute_seconds;
  return simulation;
}

}  // namespace

absl::StatusOr<Simulation> SimulatePlan(const ExecutionPlan& plan, const Machine& machine,
                                        const SimulationModel& model) {
  const std::vector<StepRef> order = StepsInOrder(plan);
  LaneTimes times;
  MR_ASSIGN_OR_RETURN(Simulation simulation, SimulateTimes(plan, machine, model, order, times));
  std::vector<int64_t> first_event(plan.lanes.size() + 1, 0);
  for (size_t l = 0; l < plan.lanes.size(); ++l) first_event[l + 1] = first_event[l] + plan.lanes[l].num_steps();
  simulation.events.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    simulation.events[first_event[order[i].lane] + order[i].index] = {order[i].lane, order[i].index, times.start[i],
                                                                       times.end[i]};
  }
  simulation.memory = MemoryOverTime(plan, order, times);
  return simulation;
}

absl::Status FillPredictions(const Machine& machine, ExecutionPlan* plan, const SimulationModel& model) {
  LaneTimes times;
  MR_ASSIGN_OR_RETURN(const Simulation simulation, SimulateTimes(*plan, machine, model, StepsInOrder(*plan), times));
  plan->predicted_step_seconds = simulation.step_seconds;
  plan->predicted_compute_seconds = simulation.compute_seconds;
  plan->lower_bound_seconds = simulation.lower_bound_seconds;
  plan->bytes_to_host = simulation.bytes_to_host;
  plan->bytes_to_device = simulation.bytes_to_device;
  return absl::OkStatus();
}

}  // namespace millrace

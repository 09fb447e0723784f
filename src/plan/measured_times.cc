#include "plan/measured_times.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "graph/fused_norm.h"
#include "millrace/status.h"
#include "plan/step_order.h"

namespace millrace {
namespace {

// Shorter copies are mostly latency, longer ones mostly rate.
constexpr int64_t kSmallCopyBytes = int64_t{16} << 10;
// A step that starts within this after the one before it did not wait.
constexpr double kSleptSeconds = 1e-6;
// Behind the types of a batch norm that is given its statistics, which takes other times than one that is not.
constexpr char kGiven[] = ";given";

template <typename T>
double Median(std::vector<T> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string JoinTypes(const std::vector<TensorType>& types) {
  return absl::StrJoin(types, ";", [](std::string* out, const TensorType& type) { out->append(type.ToString()); });
}

// NodeTime::types of a node.
std::string TypesText(const OpInstance& instance) {
  return absl::StrCat(JoinTypes(instance.inputs), "->", JoinTypes(instance.outputs), instance.attrs.Has(kGivenStatistics) ? kGiven : "");
}

}  // namespace

void TimeRecorder::AddStep(absl::Span<const TraceEvent> events, double step_seconds) {
  std::vector<size_t> first_event{0};
  for (const Lane& lane : plan_->lanes) first_event.push_back(first_event.back() + lane.num_steps());
  if (events.empty() || first_event.back() != events.size()) return;
  double begin = events[0].start_seconds, end = 0;
  for (const TraceEvent& event : events) {
    begin = std::min(begin, event.start_seconds);
    end = std::max(end, event.end_seconds);
  }
  std::vector<float> seconds;
  step_wakes_.clear();
  for (size_t l = 0; l < plan_->lanes.size(); ++l) {
    const Lane& lane = plan_->lanes[l];
    // When the last step that each one waits for was done.
    std::vector<double> ready(lane.num_steps(), 0);
    for (int64_t i = 0; i < lane.num_steps(); ++i) {
      for (const Wait& wait : WaitsOf(lane, i)) {
        if (wait.count > 0) ready[i] = std::max(ready[i], events[first_event[wait.lane] + wait.count - 1].end_seconds);
      }
    }
    const auto own = events.subspan(first_event[l], lane.num_steps());
    if (lane.kind == LaneKind::kCompute) {
      AddCompute(lane, own, ready, seconds);
    } else {
      AddCopies(lane, own, ready);
    }
  }
  node_seconds_.push_back(std::move(seconds));
  // Most wake at once, some late: a step has the sum of them.
  if (!step_wakes_.empty()) {
    wake_.push_back(std::accumulate(step_wakes_.begin(), step_wakes_.end(), 0.0) / static_cast<double>(step_wakes_.size()));
  }
  step_overhead_.push_back(std::max(0.0, step_seconds - (end - begin)));
}

void TimeRecorder::AddCompute(const Lane& lane, absl::Span<const TraceEvent> events, absl::Span<const double> ready,
                              std::vector<float>& seconds) {
  double free = events.empty() ? 0 : events[0].start_seconds;  // when the lane could have gone on
  for (size_t i = 0; i < events.size();) {
    size_t end = i + 1;
    double last = events[i].end_seconds, ran = last - events[i].start_seconds;
    while (end < events.size() && lane.compute[end].group == lane.compute[i].group &&
           events[end].start_seconds < last) {
      last = std::max(last, events[end].end_seconds);
      ran += events[end].end_seconds - events[end].start_seconds;
      ++end;
    }
    double start = free;
    if (ready[i] > free + kSleptSeconds) {
      start = events[i].start_seconds;
      step_wakes_.push_back(std::max(0.0, start - ready[i]));
    }
    const double wall = std::max(0.0, last - start);
    for (size_t k = i; k < end; ++k) {
      const double own = events[k].end_seconds - events[k].start_seconds;
      seconds.push_back(static_cast<float>(ran > 0 ? wall * own / ran : wall / static_cast<double>(end - i)));
    }
    free = std::max(free, last);
    i = end;
  }
}

void TimeRecorder::AddCopies(const Lane& lane, absl::Span<const TraceEvent> events, absl::Span<const double> ready) {
  if (lane.kind != LaneKind::kToHost && lane.kind != LaneKind::kToDevice) return;
  CopyFigures& figures = lane.kind == LaneKind::kToHost ? to_host_ : to_device_;
  std::vector<double> small;
  double bytes = 0, seconds = 0, free = 0;
  int64_t copies = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    double start = free;
    if (i == 0 || ready[i] > free + kSleptSeconds) {
      start = events[i].start_seconds;
      if (i > 0) step_wakes_.push_back(std::max(0.0, start - ready[i]));
    }
    free = events[i].end_seconds;
    if (lane.copies[i].bytes <= kSmallCopyBytes) {
      small.push_back(free - start);
    } else {
      bytes += static_cast<double>(lane.copies[i].bytes);
      seconds += free - start;
      ++copies;
    }
  }
  const double latency = Median(small);
  if (!small.empty()) figures.latency.push_back(latency);
  seconds = std::max(seconds - latency * static_cast<double>(copies), seconds / 2);
  if (seconds > 0) figures.rate.push_back(bytes / seconds);
}

Profile TimeRecorder::Times() const {
  Profile profile;
  profile.steps = steps();
  std::vector<const OpInstance*> instances;
  for (const Lane& lane : plan_->lanes) {
    for (const ComputeStep& step : lane.compute) instances.push_back(&plan_->instances[step.instance]);
  }
  std::vector<float> samples(node_seconds_.size()), medians;
  for (size_t k = 0; k < instances.size(); ++k) {
    for (size_t s = 0; s < node_seconds_.size(); ++s) samples[s] = node_seconds_[s][k];
    medians.push_back(Median(samples));
  }
  // Every step has some slow nodes, other ones each time: the medians of all nodes add up to less than any step.
  std::vector<double> totals;
  for (const std::vector<float>& step : node_seconds_) totals.push_back(std::accumulate(step.begin(), step.end(), 0.0));
  const double sum = std::accumulate(medians.begin(), medians.end(), 0.0);
  const double scale = sum > 0 ? Median(totals) / sum : 1;
  for (size_t k = 0; k < instances.size(); ++k) {
    profile.nodes.emplace(instances[k]->name, NodeTime{instances[k]->op, TypesText(*instances[k]), scale * medians[k]});
  }
  profile.to_host_bytes_per_second = Median(to_host_.rate);
  profile.to_device_bytes_per_second = Median(to_device_.rate);
  std::vector<double> latency = to_host_.latency;
  latency.insert(latency.end(), to_device_.latency.begin(), to_device_.latency.end());
  profile.copy_latency_seconds = Median(latency);
  profile.wake_seconds = Median(wake_);
  profile.step_overhead_seconds = Median(step_overhead_);
  return profile;
}

NodeTimes::NodeTimes(const Profile& profile) : nodes_(profile.nodes) {
  std::map<std::pair<std::string, std::string>, int64_t> count;
  for (const auto& [name, time] : nodes_) {
    by_kind_[{time.op, time.types}] += time.seconds;
    ++count[{time.op, time.types}];
  }
  for (auto& [kind, seconds] : by_kind_) seconds /= static_cast<double>(count[kind]);
}

std::optional<double> NodeTimes::Find(const OpInstance& instance) const {
  const std::string types = TypesText(instance);
  const auto named = nodes_.find(instance.name);
  if (named != nodes_.end() && named->second.op == instance.op && named->second.types == types) {
    return named->second.seconds;
  }
  const auto kind = by_kind_.find({instance.op, types});
  if (kind == by_kind_.end()) return std::nullopt;
  return kind->second;
}

namespace {

// By fuse_elementwise and its kin: the last of the nodes gives its name.
bool IsFused(const std::string& op) { return absl::StartsWith(op, "_Fused"); }

}  // namespace

absl::Status CheckProfile(const Profile& profile, const ExecutionPlan& plan) {
  for (const OpInstance& instance : plan.instances) {
    const auto it = profile.nodes.find(instance.name);
    if (it == profile.nodes.end() || absl::StrContains(instance.name, kUpdatePartName)) continue;
    if (IsFused(instance.op) != IsFused(it->second.op)) continue;
    const std::string types = TypesText(instance);
    if (it->second.op == instance.op && absl::StripSuffix(it->second.types, kGiven) == absl::StripSuffix(types, kGiven)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the profile is of another graph or of other shapes: node '", instance.name, "' is ", instance.op, " ", types,
        ", the profile has ", it->second.op, " ", it->second.types));
  }
  return absl::OkStatus();
}

Machine WithMeasuredLinks(Machine machine, const Profile& profile, double link_gbps) {
  if (profile.link_gbps != link_gbps) return machine;
  if (profile.to_host_bytes_per_second > 0) machine.to_host_bytes_per_second = profile.to_host_bytes_per_second;
  if (profile.to_device_bytes_per_second > 0) machine.to_device_bytes_per_second = profile.to_device_bytes_per_second;
  if (profile.copy_latency_seconds > 0) machine.copy_latency_seconds = profile.copy_latency_seconds;
  return machine;
}

absl::Status PredictWithMeasuredTimes(const Profile& profile, const Machine& machine, ExecutionPlan* plan) {
  const NodeTimes times(profile);
  for (Lane& lane : plan->lanes) {
    for (ComputeStep& step : lane.compute) {
      if (const auto seconds = times.Find(plan->instances[step.instance])) step.predicted_seconds = *seconds;
    }
    if (lane.kind != LaneKind::kToHost && lane.kind != LaneKind::kToDevice) continue;
    const double rate =
        lane.kind == LaneKind::kToHost ? machine.to_host_bytes_per_second : machine.to_device_bytes_per_second;
    for (CopyStep& step : lane.copies) {
      step.predicted_seconds = machine.copy_latency_seconds + static_cast<double>(step.bytes) / rate;
    }
  }
  const double lower_bound = plan->lower_bound_seconds;
  MR_RETURN_IF_ERROR(FillPredictions(machine, plan, {profile.wake_seconds, profile.step_overhead_seconds}));
  // The bound of a plan under pressure is its order's, which the steps do not tell; else it is theirs.
  const bool swaps = plan->counts.swap_ins + plan->counts.swap_outs + plan->counts.recomputed_nodes > 0;
  if (swaps) plan->lower_bound_seconds = lower_bound;
  return absl::OkStatus();
}

absl::StatusOr<Simulation> SimulateWithMeasuredTimes(const Profile& profile, const Machine& machine, double link_gbps, const ExecutionPlan& plan) {
  return SimulatePlan(plan, WithMeasuredLinks(machine, profile, link_gbps), {profile.wake_seconds, profile.step_overhead_seconds});
}

namespace {

constexpr double kLeastPart = 0.25;      // of a node's time, that stays
constexpr int kShortenings = 16;         // halvings of what is taken off
constexpr double kMostOfMean = 4;        // taken off, of what a node of the mean would lose
constexpr double kCopiesShow = 1.005;    // of the shortest step

Profile Shortened(const Profile& profile, double launch_seconds) {
  Profile shorter = profile;
  for (auto& [name, time] : shorter.nodes) time.seconds = std::max(time.seconds - launch_seconds, kLeastPart * time.seconds);
  shorter.wake_seconds = std::max(0.0, profile.wake_seconds - launch_seconds);
  return shorter;
}

}  // namespace

absl::Status ShortenToStep(double seconds, const Machine& machine, const ExecutionPlan& plan, Profile* profile) {
  ExecutionPlan predicted = plan;
  const auto step_of = [&](const Profile& times) -> absl::StatusOr<double> {
    MR_RETURN_IF_ERROR(PredictWithMeasuredTimes(times, machine, &predicted));
    return predicted.predicted_step_seconds;
  };
  MR_ASSIGN_OR_RETURN(const double measured, step_of(*profile));
  if (measured <= seconds || profile->nodes.empty()) return absl::OkStatus();
  double low = 0, high = kMostOfMean * (measured - seconds) / static_cast<double>(profile->nodes.size());
  MR_ASSIGN_OR_RETURN(const double least, step_of(Shortened(*profile, high)));
  const double target = std::max(seconds, kCopiesShow * least);
  if (measured <= target) return absl::OkStatus();
  for (int k = 0; k < kShortenings; ++k) {
    const double middle = (low + high) / 2;
    MR_ASSIGN_OR_RETURN(const double step, step_of(Shortened(*profile, middle)));
    (step <= target ? high : low) = middle;
  }
  *profile = Shortened(*profile, high);
  return absl::OkStatus();
}

}  // namespace millrace

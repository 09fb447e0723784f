#include "report/memory_series.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/step_order.h"

namespace millrace {
namespace {

// The events of `device`'s lanes of kind compute, by start.
std::vector<TraceEvent> ComputeEvents(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace, int32_t device) {
  std::vector<TraceEvent> events;
  for (const TraceEvent& event : trace) {
    const Lane& lane = plan.lanes[event.lane];
    if (lane.kind == LaneKind::kCompute && lane.device == device) events.push_back(event);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.start_seconds < b.start_seconds; });
  return events;
}

// Start and end by position on one device. Positions without an event take the times of the nearest one before.
struct PositionClock {
  std::vector<double> start;
  std::vector<double> end;

  PositionClock(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace, int32_t device) {
    int64_t positions = 0;
    for (const Lane& lane : plan.lanes) {
      if (lane.device == device && lane.num_steps() > 0) {
        positions = std::max(positions, PositionOf(lane, lane.num_steps() - 1) + 1);
      }
    }
    start.assign(positions, -1);
    end.assign(positions, -1);
    for (const TraceEvent& event : trace) {
      const Lane& lane = plan.lanes[event.lane];
      if (lane.device != device) continue;
      const int64_t position = PositionOf(lane, event.step);
      start[position] = event.start_seconds;
      end[position] = event.end_seconds;
    }
    for (int64_t i = 0; i < positions; ++i) {
      if (start[i] >= 0) continue;
      start[i] = i == 0 ? 0 : start[i - 1];
      end[i] = i == 0 ? 0 : end[i - 1];
    }
  }
};

}  // namespace

std::vector<MemoryPoint> MemoryOverTime(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace, int32_t device) {
  const PositionClock clock(plan, trace, device);
  if (trace.empty() || clock.start.empty()) return {};
  const int64_t last = static_cast<int64_t>(clock.start.size()) - 1;
  std::vector<std::pair<double, int64_t>> changes;
  for (const Residence& residence : plan.residences) {
    if (residence.device != device) continue;
    changes.push_back({clock.start[std::clamp<int64_t>(residence.first, 0, last)], residence.bytes});
    changes.push_back({clock.end[std::clamp<int64_t>(residence.last, 0, last)], -residence.bytes});
  }
  // At equal times what leaves goes first: its address is free for what comes.
  std::sort(changes.begin(), changes.end());
  std::vector<MemoryPoint> points = {{0, 0}};
  for (const auto& [seconds, bytes] : changes) {
    if (points.back().seconds != seconds) points.push_back({seconds, points.back().bytes});
    points.back().bytes += bytes;
  }
  return points;
}

std::vector<MemoryPoint> HostMemoryOverTime(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace) {
  const int64_t always = plan.tiered ? plan.host_bytes : plan.host_bytes - plan.host_pool_bytes;
  std::vector<MemoryPoint> points;
  if (trace.empty()) return points;
  if (always > 0) points.push_back({0, always});
  if (plan.tiered) return points;
  struct Swapped {
    int64_t bytes = 0;
    double begin = 0, end = 0;
  };
  std::vector<const TraceEvent*> copies;
  for (const TraceEvent& event : trace) {
    const Lane& lane = plan.lanes[event.lane];
    const bool host_copy = lane.kind == LaneKind::kToHost || lane.kind == LaneKind::kToDevice;
    if (host_copy && lane.copies[event.step].host.kind == HostRef::Kind::kPool) copies.push_back(&event);
  }
  std::stable_sort(copies.begin(), copies.end(),
                   [](const TraceEvent* a, const TraceEvent* b) { return a->start_seconds < b->start_seconds; });
  std::vector<Swapped> swapped;
  std::map<int64_t, size_t> at;  // by offset in the pool
  for (const TraceEvent* event : copies) {
    const Lane& lane = plan.lanes[event->lane];
    const CopyStep& copy = lane.copies[event->step];
    if (lane.kind == LaneKind::kToHost) {
      at[copy.host.offset_bytes] = swapped.size();
      swapped.push_back({copy.bytes, event->start_seconds, event->end_seconds});
    } else if (const auto found = at.find(copy.host.offset_bytes); found != at.end()) {
      swapped[found->second].end = std::max(swapped[found->second].end, event->end_seconds);
    }
  }
  std::vector<std::pair<double, int64_t>> changes;
  for (const Swapped& each : swapped) {
    changes.push_back({each.begin, each.bytes});
    changes.push_back({each.end, -each.bytes});
  }
  std::sort(changes.begin(), changes.end());
  for (const auto& [seconds, bytes] : changes) {
    if (points.empty()) points.push_back({0, 0});
    if (points.back().seconds != seconds) points.push_back({seconds, points.back().bytes});
    points.back().bytes += bytes;
  }
  return points;
}

std::vector<Interval> StallsOf(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace, int32_t device) {
  std::vector<Interval> stalls;
  double busy_until = 0;
  for (const TraceEvent& event : ComputeEvents(plan, trace, device)) {
    if (event.start_seconds > busy_until) stalls.push_back({busy_until, event.start_seconds});
    busy_until = std::max(busy_until, event.end_seconds);
  }
  return stalls;
}

std::vector<PartitionSpan> PartitionSpans(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace,
                                          int32_t device) {
  std::vector<PartitionSpan> spans;
  for (const TraceEvent& event : ComputeEvents(plan, trace, device)) {
    const int32_t partition = plan.lanes[event.lane].compute[event.step].partition;
    if (spans.empty() || spans.back().partition != partition) {
      spans.push_back({partition, {event.start_seconds, event.end_seconds}});
    }
    spans.back().when.end_seconds = std::max(spans.back().when.end_seconds, event.end_seconds);
  }
  return spans;
}

double TraceEnd(const std::vector<TraceEvent>& trace) {
  double end = 0;
  for (const TraceEvent& event : trace) end = std::max(end, event.end_seconds);
  return end;
}

}  // namespace millrace
